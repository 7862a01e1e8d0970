"""Operators of torch.ops, torch's own and registered ones, are nodes of graphs."""

import copy

import pytest
import torch
from torch import Tensor

import evalframe.torch

pytestmark = pytest.mark.torch
LIBRARY = "evalframe_tests"


@torch.library.custom_op(f"{LIBRARY}::twice", mutates_args=())
def twice(x: Tensor) -> Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


def _setup_context(ctx, inputs, output):
    ctx.scale = 2.0


twice.register_autograd(lambda ctx, gradient: gradient * ctx.scale, setup_context=_setup_context)


@torch.library.custom_op(f"{LIBRARY}::count", mutates_args=("into",))
def count(x: Tensor, into: Tensor) -> None:
    into += x.sum()


@count.register_fake
def _(x, into):
    return None


@torch.library.custom_op(f"{LIBRARY}::halves", mutates_args=())
def halves(x: Tensor, by: float = 0.5) -> list[Tensor]:
    return [x * by, x - x * by]


@halves.register_fake
def _(x, by=0.5):
    return [torch.empty_like(x), torch.empty_like(x)]


@torch.library.custom_op(f"{LIBRARY}::positive", mutates_args=())
def positive(x: Tensor) -> Tensor:
    return x[x > 0].clone()


@positive.register_fake
def _(x):
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


@torch.library.custom_op(f"{LIBRARY}::undescribed", mutates_args=())
def undescribed(x: Tensor) -> Tensor:
    return x[x > 0].clone()


def own(x, y):
    z = torch.ops.aten.add(x, y, alpha=2)
    z = torch.ops.aten.relu.default(torch.ops.aten.mul.Tensor(z, 3.0))
    return torch.ops.aten.split.Tensor(z, 1)[0] + 1


def in_place(x, y):
    z = x + 0
    torch.ops.aten.add_.Tensor(z, y)
    same = torch.ops.aten.mul_(z, 2.0)
    return z, same, torch.ops.aten.add.out(x, y, out=torch.empty_like(x))


def random(x, y):
    return torch.ops.aten.rand_like(x) + torch.ops.aten.bernoulli.p(y, 0.5)


def registered(x, y):
    z = torch.ops.evalframe_tests.twice(x + 1) * y
    return twice(z) - torch.ops.evalframe_tests.twice.default(y)


def writing(x, y):
    z = torch.zeros(())
    count(x, z)
    count(y + 1, into=z)
    return z * 2


def several(x, y):
    a, b = halves(x + 1)
    return a - b * y, halves(y, 0.25)[1] * 2


def starred(x, y):
    return torch.ops.aten.add(*(x, y), **{"alpha": 3}) * 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("function", [own, in_place, random, registered, writing, several, starred])
def test_are_one_graph(function, dynamic, backend):
    compiled = evalframe.torch.compile(function, backend=backend, dynamic=dynamic, fullgraph=True)
    for rows in (2, 2, 3, 4):
        arguments = torch.randn(rows, 3), torch.rand(rows, 3)
        for got, wanted in zip(*(results(called, arguments) for called in (compiled, function)), strict=True):
            assert torch.equal(got, wanted)


def results(called, arguments):
    torch.manual_seed(3)
    result = called(*copy.deepcopy(arguments))
    return [result] if isinstance(result, Tensor) else list(result)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients_go_through_what_is_registered(backend):
    compiled = evalframe.torch.compile(registered, backend=backend, fullgraph=True)
    for _ in range(3):
        x = torch.randn(3)
        found = []
        for called in (compiled, registered):
            leaves = x.clone().requires_grad_(), (x + 1).requires_grad_()
            called(*leaves).sum().backward()
            found.append([leaf.grad for leaf in leaves])
        assert all(torch.equal(got, wanted) for got, wanted in zip(*found, strict=True))


@pytest.mark.parametrize("operator", [halves, torch.ops.prims.sin])
def test_what_has_no_gradients_raises_when_a_program_goes_back_through_it(operator):
    def function(x):
        found = operator(x * 2)
        return (found[0] if isinstance(found, list) else found) + 1

    compiled = evalframe.torch.compile(function, backend="aot_eager")
    for _ in range(3):
        x = torch.randn(3, requires_grad=True)
        result = compiled(x)
        assert torch.equal(result, function(x))
        with pytest.raises(RuntimeError, match="no autograd formula"):
            result.sum().backward()


def test_the_nodes_are_the_operators():
    compiled = evalframe.torch.compile(registered, backend="eager")
    compiled(torch.ones(2), torch.ones(2))
    (made,) = evalframe.torch.graph_modules(compiled)
    packet, overload = torch.ops.evalframe_tests.twice, torch.ops.evalframe_tests.twice.default
    assert [node.target for node in made.graph.nodes if node.target in (packet, overload)] == [packet, overload, overload]


@pytest.mark.parametrize("operator", [positive, undescribed, torch.ops.aten.nonzero, torch.ops.aten.masked_select])
def test_results_with_sizes_that_elements_tell_are_made_between_graphs(operator):
    def function(x):
        x = x + 1
        found = operator(x, x > 0) if operator is torch.ops.aten.masked_select else operator(x)
        return found * 2 if len(found) > 2 else found - 1

    compiled = evalframe.torch.compile(function, backend="eager")
    for x in ([1.0, 2.0, 3.0], [1.0, -2.0, -3.0], [-2.0, -2.0, -3.0], [1.0, 2.0, 3.0]):
        assert torch.equal(compiled(torch.tensor(x)), function(torch.tensor(x)))
    with pytest.raises(evalframe.GraphBreakError, match="nonzero|masked_select|positive|undescribed"):
        evalframe.torch.compile(function, backend="eager", fullgraph=True)(torch.ones(3))


def test_an_operator_that_raises_raises_at_its_line():
    @torch.library.custom_op(f"{LIBRARY}::limited", mutates_args=())
    def limited(x: Tensor, most: float) -> Tensor:
        if float(x.max()) > most:
            raise ValueError("too large")
        return x + 1

    limited.register_fake(lambda x, most: torch.empty_like(x))

    def function(x):
        x = x * 2
        return limited(x, 5.0)

    compiled = evalframe.torch.compile(function, backend="eager", fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 3.0))
    with pytest.raises(ValueError, match="too large") as raised:
        compiled(torch.full((2,), 3.0))
    assert [entry.lineno + 1 for entry in raised.traceback if entry.name == "function"] == [function.__code__.co_firstlineno + 2]
