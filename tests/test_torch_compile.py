"""evalframe.torch.compile beside eager: the same bits, effects and gradients; what is one graph; what makes a call record anew."""

import copy
import operator
import pickle
import subprocess
import sys
import types

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.compiler import is_compiling

import evalframe.torch
from evalframe import BackendError, GraphBreakError

pytestmark = pytest.mark.torch


def same(left, right):
    if isinstance(left, torch.Tensor):
        return (
            type(left) is type(right)
            and left.dtype == right.dtype
            and torch.equal(left, right)
            and left.stride() == right.stride()
        )
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (tuple, list)):
        return type(left) is type(right) and len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


def numbers(*shape):
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape) + 1), device="cpu")
    return drawn.to(torch.get_default_device())


def pointwise(x, y):
    return torch.sin(x) * y + x.exp() / (1 + abs(y))


def methods(x, y):
    a = x.view(-1, 2).transpose(0, 1).contiguous()
    b = y.reshape(2, -1)[:, : a.size(1)]
    return (a @ b.T).softmax(dim=-1).sum(), a.mT.shape, a.stride()


def reflected(x, y):
    return 2 - x, 2 / (y + 10), 2**x, 3 // (y + 10), -x, ~(x > y), x >= 0, x == y


def indexing(x, y):
    return x[0], x[..., None, -1], x[:, ::2], x[torch.tensor([1, 0])], x[1:, 0] + y[0, 1:3].sum(), x[None]


def in_place(x, y):
    z = x.clone()
    z += y
    z[0] = 1.5
    z[:, 1].mul_(2)
    w = z.t()
    w.add_(1)
    return z, w.sum()


def into_a_number(x, y):
    total, power = 0, 2.0
    for part in (x, y):
        total += part.sum()
    power **= y
    power -= total
    return total, power


def into_an_argument(x, y):
    x.add_(1)
    x[0, 0] = 7
    return x * y


def factories(x, y):
    n = x.shape[0]
    return (
        torch.arange(n, device=x.device),
        torch.zeros(n, 2, dtype=y.dtype),
        torch.full_like(x, 2.5),
        torch.ones(*x.shape),
        x.new_zeros((n,)),
        torch.eye(n),
    )


def several(x, y):
    values, indices = x.max(dim=1)
    top = y.topk(2)
    first, *rest = x.split(1)
    a, b = y.chunk(2, dim=-1)
    return values, indices, top.values, top[1], first, rest, a + b, torch.stack([x, y]), torch.cat((x, y), dim=0)


def functional(x, y):
    h = F.linear(x, y, None)
    h = F.gelu(h) + F.relu(h) + F.silu(h)
    return (
        F.layer_norm(h, (h.shape[-1],)),
        F.softmax(h, dim=-1),
        F.pad(h, (1, 1)),
        F.mse_loss(h, torch.zeros_like(h)),
        torch.einsum("ij,kj->ik", x, y),
    )


def sizes(x, y):
    batch, width = x.shape
    total = x.numel() + len(y) + x.dim() + width
    if x.size(0) == y.size(0) and x.dtype == torch.float32 and not x.is_complex():
        x = x * (total / batch)
    return x.view(*x.shape[:-1], width, 1).shape, x, torch.finfo(x.dtype).eps


def no_gradients(x, y):
    with torch.no_grad():
        a = x * y
    b = a + y
    return b, a.requires_grad, torch.is_grad_enabled()


@torch.no_grad()
def decorated(x, y):
    return x * y


def conditional(x, y):
    return torch.where(x > 0, x, y), x.masked_fill(y > 0, 0.0), torch.clamp(x, min=0), x.clamp(-1, 1)


def keywords(x, y):
    options = {"dim": -1, "keepdim": True}
    return (
        x.sum(**options),
        x.mean(dim=(0, 1)),
        torch.sum(input=x, dim=0),
        x.to(torch.float64),
        x.to("cpu"),
        x.type_as(y),
    )


def bound(x, y):
    f = x.add
    return f(y), [g(x) for g in (torch.relu, torch.tanh)]


def helpers(x, y):
    def scaled(z, by=2.0):
        return z * by

    total = 0
    for k in range(3):
        total = total + scaled(x, k) if k else scaled(y)
    return {"total": total, "list": [total, scaled(total)]}


LAYERS = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(3)])


@pytest.fixture(autouse=True)
def layers_are_where_tensors_are():
    LAYERS.to(torch.get_default_device())


@torch.no_grad()
def numbered_modules(x, y):
    for k, layer in enumerate(LAYERS):
        x = layer(x) * (k + 1)
    return x + y


@torch.no_grad()
def some_of_the_modules(x, y):
    for layer in LAYERS[:2]:
        x = layer(x)
    return x + y


def settings(x, y):
    return x * 2 if torch.backends.mha.get_fastpath_enabled() else x + y


def attributes_that_are_missing(x, y):
    z = x * y
    return z, hasattr(z, "jax"), hasattr(x, "jax"), getattr(y, "jax", 3)


ONE_GRAPH = [
    pointwise, methods, reflected, indexing, in_place, into_a_number, into_an_argument, factories, several, functional, sizes, no_gradients, decorated, conditional, keywords,
    bound, helpers, numbered_modules, settings, attributes_that_are_missing,
]  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", ONE_GRAPH, ids=lambda f: f.__name__)
def test_same_bits_in_one_graph(function, backend):
    # len(tensor) is Python's, which asks for modes: a default device is one.
    is_whole = function is not sizes or not torch._C._len_torch_function_stack()
    compiled = evalframe.torch.compile(function, backend=backend, fullgraph=is_whole)
    for _ in range(3):
        x, y = numbers(4, 4), numbers(4, 4) + 1
        a, b = x.clone(), y.clone()
        assert same(compiled(a, b), function(x, y))
        assert same((a, b), (x, y))
    assert not is_whole or len(evalframe.torch.graph_modules(compiled)) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_gradients(backend):
    def loss(x, w):
        return (torch.tanh(x @ w) * x).pow(2).sum()

    def gradients(f):
        x, w = numbers(3, 3).requires_grad_(), numbers(3, 3).requires_grad_()
        f(x, w).backward()
        return x.grad, w.grad

    compiled = evalframe.torch.compile(loss, backend=backend)
    for _ in range(2):
        for got, wanted in zip(gradients(compiled), gradients(loss)):
            torch.testing.assert_close(got, wanted)


class Perceptron(nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(depth))
        self.norm = nn.LayerNorm(8)
        self.register_buffer("shift", torch.ones(8))
        self.scale = 2.0

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        return self.norm(x * self.scale + self.shift)


def test_module():
    model = Perceptron()
    compiled = evalframe.torch.compile(model, backend="eager", fullgraph=True)
    x = numbers(2, 8)
    for _ in range(3):
        assert same(compiled(x), model(x))
    (graph_module,) = evalframe.torch.graph_modules(compiled)
    assert isinstance(graph_module, fx.GraphModule)
    assert [node.target for node in graph_module.graph.nodes if node.op == "call_function"].count(F.linear) == 3
    assert (
        "x = torch.relu(layer(x)) + x"
        in next(n for n in graph_module.graph.nodes if n.target is torch.relu).stack_trace
    )


def test_what_a_compiled_module_keeps():
    model = Perceptron()
    compiled = evalframe.torch.compile(model, backend="eager")
    assert isinstance(compiled, Perceptron)
    assert list(compiled.state_dict()) == list(model.state_dict())
    assert all(a is b for a, b in zip(compiled.parameters(), model.parameters()))
    compiled.eval()
    assert not model.training and not model.norm.training
    x = numbers(2, 8)
    assert same(pickle.loads(pickle.dumps(compiled))(x), model(x))
    assert same(copy.deepcopy(compiled)(x), model(x))
    compiled.to(torch.float64)
    assert same(compiled(x.double()), model(x.double()))


def test_changes_between_calls_are_seen():
    model = Perceptron(1)
    compiled = evalframe.torch.compile(model, backend="eager", max_entries=100)
    x = numbers(2, 8)

    def check():
        for _ in range(2):
            assert same(compiled(x), model(x))

    check()
    model.scale = 3.0
    check()
    model.layers[0].weight = nn.Parameter(numbers(8, 8))
    check()
    model.layers[0].weight.data = numbers(8, 8) * 2
    check()
    model.layers[0] = nn.Linear(8, 8, bias=False)
    check()
    model.layers.append(nn.Linear(8, 8))
    check()
    handle = model.norm.register_forward_hook(lambda module, args, result: result + 1)
    check()
    handle.remove()
    check()
    model.norm = nn.Identity()
    check()
    before = Perceptron.forward
    Perceptron.forward = lambda self, x: before(self, x) * 2
    try:
        check()
    finally:
        Perceptron.forward = before
    check()


def test_training_and_evaluation_differ():
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.BatchNorm1d(8))
    compiled, other = evalframe.torch.compile(model, backend="eager"), copy.deepcopy(model)
    x = numbers(4, 8)
    for _ in range(2):
        for training in (True, False):
            model.train(training), other.train(training)
            torch.manual_seed(0)
            got = compiled(x)
            torch.manual_seed(0)
            assert same(got, other(x))
    assert same(dict(model.state_dict()), dict(other.state_dict()))


def test_what_guards_ask_of_tensors():
    def f(x):
        return x * 2, x.dtype, x.shape, x.requires_grad, x.is_contiguous(), torch.is_grad_enabled()

    compiled = evalframe.torch.compile(f, backend="eager", max_entries=100)
    given = [numbers(2, 3), numbers(3, 2), numbers(2, 3).double(), numbers(3, 2).t(), numbers(2, 3).requires_grad_(), nn.Parameter(numbers(2, 3)),
             torch.zeros(()), torch.zeros(0, 3), torch.ones(2, dtype=torch.complex64), torch.ones(2, dtype=torch.complex64).conj(),
             torch.ones(2, dtype=torch.int64), torch.empty(2, device="meta"), numbers(2, 3).bfloat16()]  # fmt: skip
    for _ in range(2):
        for x in given:
            got, wanted = compiled(x), f(x)
            assert got[1:] == wanted[1:]
            assert x.is_meta or same(got[0], wanted[0])
            with torch.no_grad():
                assert compiled(x)[5] is False
    with torch.autocast(torch.get_default_device().type, dtype=torch.bfloat16):
        assert same(evalframe.torch.compile(torch_matmul, backend="eager")(numbers(2, 2)), torch_matmul(numbers(2, 2)))


def torch_matmul(x):
    return x @ x


def test_tensors_that_differ_by_nothing_that_is_asked_are_served_alike():
    compiled, x = evalframe.torch.compile(lambda x: x * 2 + 1), numbers(4, 6)
    twice = numbers(8, 6)
    with torch.no_grad():
        computed = twice.clone().requires_grad_() * 1
    for alike in (x, x.detach(), x.data, x.clone(), twice[4:], twice[:4].detach(), x.T.contiguous().T.contiguous(), computed[2:6], torch.from_numpy(x.cpu().numpy()).to(x.device)):
        assert same(compiled(alike), alike * 2 + 1)
    assert len(evalframe.torch.graph_modules(compiled)) == 1
    others = [x.T, x.double(), x.half(), x.int(), x[:3], x[:, :5], x[None], x.reshape(2, 2, 6), x.flatten(), twice[::2], x.expand(1, 4, 6), x.to("meta"), x.clone().requires_grad_(), nn.Parameter(x)]
    others += [x.reshape(2, 2, 1, 1, 1, 6), x.bfloat16(), x.to(torch.complex64).conj(), torch._neg_view(x), x[0, 0], x[:0], twice[4:].t()]
    for other in others:
        assert same(compiled(other), other * 2 + 1) if other.device.type != "meta" else compiled(other).device == other.device
        assert same(compiled(x), x * 2 + 1)


def test_autocast_is_guarded():
    compiled = evalframe.torch.compile(torch_matmul, backend="eager")
    x = numbers(2, 2)
    assert compiled(x).dtype == torch.float32
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        assert compiled(x).dtype == torch.bfloat16
    assert compiled(x).dtype == torch.float32


def branch(x):
    y = x + 1
    if y.sum() > 0:
        return y * 2
    return y - 1


def value(x):
    n = int(x.abs().sum().item()) % 3
    return torch.relu(x) + n


def places(x):
    return (x * 2)[x > 0].sum(), torch.nonzero(x > 0) + 1, x.masked_select(x > 0)


def printed(x):
    y = x * 2
    print("in the middle", float(y.sum()) > 0)
    return y + 1


def handled(x):
    try:
        y = x * 2
        y = y.view(3, 1000)
    except RuntimeError as error:
        return x + 1, str(error)
    finally:
        x = x + 5
    return y


def loop_with_break(x):
    for k in range(3):
        if x.sum() > k:
            x = x - 0.5
        x = x * 1.5
    return x


def generator(x):
    def parts():
        got = yield from [x, x + 1]
        return got

    return sum(parts()), x.tolist()


@pytest.mark.parametrize(
    "function", [branch, value, places, printed, handled, loop_with_break, generator], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_breaks(function, backend, capfd):
    compiled = evalframe.torch.compile(function, backend=backend, max_entries=20)
    for x in (numbers(3), -numbers(3), numbers(3), -numbers(3)):
        got = compiled(x)
        said = capfd.readouterr()
        assert same(got, function(x))
        assert capfd.readouterr() == said


def test_a_part_of_a_module_list_is_no_break():
    compiled = evalframe.torch.compile(some_of_the_modules, backend="eager")
    x, y = numbers(4, 4), numbers(4, 4)
    for _ in range(3):
        assert same(compiled(x, y), some_of_the_modules(x, y))
    assert not evalframe.torch.explain(compiled)(x, y).breaks


def sizes_behind_a_break(x):
    shape = x.shape
    if x.sum() < 0:
        x = -x
    return x.view((-1,) + shape[1:] + (x.size(-1) // x.size(-1),)), shape[0], shape[-1]


def test_sizes_are_known_behind_a_break():
    compiled = evalframe.torch.compile(sizes_behind_a_break, backend="eager")
    for x in (numbers(2, 4), -numbers(2, 4), numbers(3, 4), numbers(2, 4)):
        assert same(compiled(x), sizes_behind_a_break(x))
    assert {found.line for found in evalframe.torch.explain(compiled)(numbers(2, 4)).breaks} == {
        sizes_behind_a_break.__code__.co_firstlineno + 2
    }


def test_an_attribute_that_a_tensor_has_got_is_seen():
    def asks(x, y):
        z = x.contiguous()
        return z + y, hasattr(x, "mark"), hasattr(z, "mark"), hasattr(x + y, "mark")

    compiled = evalframe.torch.compile(asks, backend="eager", max_entries=20)
    x, y = numbers(3), numbers(3)
    for _ in range(3):
        assert same(compiled(x, y), asks(x, y))
    x.mark = 1
    for _ in range(3):
        assert same(compiled(x, y), asks(x, y))
        assert same(compiled(y, x), asks(y, x))


def test_an_attribute_of_torch_backends_that_changes_is_seen(monkeypatch):
    compiled = evalframe.torch.compile(settings, backend="eager")
    x, y = numbers(3), numbers(3)
    for _ in range(2):
        assert same(compiled(x, y), settings(x, y))
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        assert same(compiled(x, y), x + y)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    assert same(compiled(x, y), x * 2)
    monkeypatch.setattr(torch.backends, "mha", types.SimpleNamespace(get_fastpath_enabled=lambda: False))
    assert same(compiled(x, y), x + y)


def test_both_sides_of_a_branch_are_graphs():
    compiled = evalframe.torch.compile(branch, backend="eager")
    compiled(torch.ones(2))
    told = evalframe.torch.explain(compiled)(-2 * torch.ones(2))
    assert len(told.graphs) == 3
    assert [(found.reason, found.line) for found in told.breaks] == [
        ("branch on the value of an array", branch.__code__.co_firstlineno + 2)
    ]
    with pytest.raises(GraphBreakError):
        evalframe.torch.compile(branch, backend="eager", fullgraph=True)(torch.ones(2))


def test_a_backend_of_ones_own():
    seen = []

    def backend(graph_module, example_inputs):
        seen.append((graph_module, [tuple(x.shape) for x in example_inputs]))
        return graph_module.forward

    compiled = evalframe.torch.compile(pointwise, backend=backend)
    x, y = numbers(4), numbers(4)
    assert same(compiled(x, y), pointwise(x, y))
    assert same(compiled(y, x), pointwise(y, x))
    ((graph_module, shapes),) = seen
    assert shapes == [(4,), (4,)]
    assert [node.target for node in graph_module.graph.nodes if node.op == "call_function"][:2] == [
        torch.sin,
        operator.mul,
    ]
    assert same(tuple(graph_module(x, y)), (pointwise(x, y),))


def test_backends_that_fail():
    def raises(graph_module, example_inputs):
        raise RuntimeError("no such thing")

    with pytest.raises(BackendError, match="raised RuntimeError: no such thing"):
        evalframe.torch.compile(pointwise, backend=raises)(numbers(2), numbers(2))
    with pytest.raises(BackendError, match="returned int"):
        evalframe.torch.compile(pointwise, backend=lambda gm, inputs: 3)(numbers(2), numbers(2))
    compiled = evalframe.torch.compile(pointwise, backend=lambda gm, inputs: lambda *args: 3)
    compiled(numbers(2), numbers(2))  # recorded
    with pytest.raises(BackendError, match="made a function that"):
        compiled(numbers(2), numbers(2))
    with pytest.raises(ValueError, match="unknown backend 'fast'"):
        evalframe.torch.compile(pointwise, backend="fast")


def test_recurrent_layers_stand_between_graphs():
    model = torch.nn.LSTM(4, 4, batch_first=True)

    def f(x):
        return model(x + 1)[0] * 2

    compiled = evalframe.torch.compile(f, backend="aot_eager")
    for length in (3, 3, 5, 6):
        assert same(compiled(numbers(2, length, 4)), f(numbers(2, length, 4)))
    assert len(evalframe.torch.graph_modules(compiled)) >= 2


SIZES = [(4, 4), (8, 4), (6, 4), (5, 4), (3, 4), (3, 6), (2, 4), (1, 4), (1, 1), (7, 5), (0, 4), (12, 12)]


def told_of_shapes(x):
    shape = x.shape
    asked = shape == x.shape, shape != (3, 4), shape[:1], shape[-1], list(shape), shape.numel(), shape + (1,)
    return asked, x.stride(), x.is_contiguous(), x.T.is_contiguous(), x.dim(), len(x), f"{x.size(0)}", max(shape)


def pieces(x):
    return [piece.sum() for piece in x.split(2)], len(x.chunk(3)), x.unbind(0)[0]


def branches(x):
    rows = x.size(0)
    if rows % 2 == 0 and rows > 2:
        return x.view(rows // 2, -1) * rows
    return x / rows if rows == 3 else x[: rows - 2].squeeze() - rows / 2


def made_of_sizes(x):
    n, m = x.shape
    made = torch.arange(n) + torch.zeros(m, n).sum(0), torch.full((n, m), 2.0) @ x.T, x.expand(3, n, m).reshape(-1)
    return made, x[n // 2 :, None, ..., -1:], x.transpose(0, 1).contiguous().view(-1)


def written_into(x):
    y = x.clone()
    y[: x.size(0) // 2] += x.shape[0]
    return y.mul_(2), torch.nn.functional.dropout(y, 0.5)


def raises_for_six(x):
    if x.shape[0] == 6:
        raise ValueError(f"six: {x.shape}")
    return x.view(2, -1)


def behind_a_break(x):
    shape = x.size()
    open("/dev/null").close()
    y = x.reshape(-1, shape[-1])
    return y.sum(0).expand(*shape) * shape[0], (-1,) + shape[1:] + (3,), shape


def result_of(function, *args):
    torch.manual_seed(0)
    try:
        return function(*args)
    except (ValueError, RuntimeError, IndexError) as error:
        return type(error).__name__, str(error)[:60]


PROGRAMS_OF_SIZES = [
    told_of_shapes, pieces, branches, made_of_sizes, written_into, raises_for_six, behind_a_break
]  # fmt: skip


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", PROGRAMS_OF_SIZES, ids=lambda function: function.__name__)
def test_sizes_that_vary(function, backend, dynamic):
    compiled = evalframe.torch.compile(function, backend=backend, dynamic=dynamic)
    for sizes in SIZES + SIZES[:4]:
        assert same(result_of(compiled, numbers(*sizes)), result_of(function, numbers(*sizes))), sizes


def test_one_graph_serves_all_sizes():
    def f(x, k):
        rows, columns = x.shape
        assert columns == 4
        return torch.relu(x[1:] * k).reshape((rows - 1) * 4).sum() / rows

    for dynamic, graphs in ((None, 2), (True, 1), (False, 5)):
        compiled = evalframe.torch.compile(f, backend="aot_eager", dynamic=dynamic)
        for rows, k in ((5, 3), (7, 4), (11, 5), (6, 9), (100, 12)):
            assert same(compiled(numbers(rows, 4), k), f(numbers(rows, 4), k))
        assert len(evalframe.torch.graph_modules(compiled)) == graphs, dynamic


def test_graphs_for_several_sizes_have_symbols():
    def f(x, k):
        return x.view(-1, x.shape[0] * 2) + k

    seen = []

    def backend(module, inputs):
        seen.append((module, inputs))
        return module.forward

    compiled = evalframe.torch.compile(f, backend=backend, dynamic=True)
    for rows, k in ((4, 3), (6, 5)):
        assert same(compiled(numbers(rows, 10), k), f(numbers(rows, 10), k))
    ((module, (rows, columns, x, k)),) = seen
    assert isinstance(x, torch.Tensor) and {type(symbol) for symbol in (rows, columns, k)} == {torch.SymInt}
    lines = module.print_readable(print_output=False)
    assert f'args_0: "f32[{rows}, {columns}]"' in lines or f"{rows} * 2" in lines, lines


def test_gradients_for_several_sizes():
    def results(compile_):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2))
        called = compile_(model)
        for rows in (4, 6, 8, 3):
            x = numbers(rows, 5, 4).requires_grad_()
            called(x[:, 1:]).square().mean().backward()
        return [parameter.grad for parameter in model.parameters()]

    for backend in ("eager", "aot_eager"):
        compiled = results(lambda model, backend=backend: evalframe.torch.compile(model, backend=backend))
        assert same(compiled, results(lambda model: model))


def test_arguments_that_are_refused():
    with pytest.raises(TypeError, match="takes a module or a Python function"):
        evalframe.torch.compile(3)
    with pytest.raises(TypeError, match="dynamic must be True, False or None, not 'all'"):
        evalframe.torch.compile(pointwise, dynamic="all")
    with pytest.raises(TypeError, match="fullgraph must be True or False"):
        evalframe.torch.compile(pointwise, fullgraph=1)


class Marked(torch.Tensor):
    pass


def test_tensors_that_are_left_alone():
    def f(x):
        return x + x

    compiled = evalframe.torch.compile(f, backend="eager", max_entries=20)
    sparse = torch.eye(3).to_sparse()
    for _ in range(2):
        assert compiled(sparse).layout is torch.sparse_coo
        assert type(compiled(torch.ones(2).as_subclass(Marked))) is Marked
        assert (
            compiled(torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8).dequantize()).dtype == torch.float32
        )
        assert same(torch.func.vmap(compiled)(numbers(3, 2)), numbers(3, 2) * 2)
        assert same(torch.func.grad(lambda x: compiled(x).sum())(numbers(3)), torch.full((3,), 2.0))


def test_modes_are_seen():
    from torch.overrides import TorchFunctionMode

    class Counts(TorchFunctionMode):
        count = 0

        def __torch_function__(self, function, types, args=(), kwargs=None):
            self.count += 1
            return function(*args, **(kwargs or {}))

    compiled = evalframe.torch.compile(pointwise, backend="eager")
    x = numbers(3)
    compiled(x, x)
    with Counts() as here:
        compiled(x, x)
    with Counts() as there:
        pointwise(x, x)
    assert here.count == there.count > 0


def test_whether_tensors_share_a_storage():
    x = torch.arange(12.0)
    meta = torch.empty(3, device="meta")
    apart = [(), (x,), (x, x.clone()), (x, None, 3, x.to(torch.float64)), (torch.empty(0), torch.empty(0)), (x[:0], x), (torch.nn.Parameter(x + 1), x)]
    together = [(x, x), (x, x[3:]), (x[:2], x[6:]), (x, x.view(3, 4).t()), (x.view(torch.int32), x), (x + 1, x, None, x.view(2, 6)[1, ::2])]
    unknown = [(meta, meta[1:]), (x, x.to_sparse())]
    for found, groups in [(True, apart), (False, together), (None, unknown)]:
        assert [evalframe._core.torch_share_no_memory(values) for values in groups] == [found] * len(groups)


def test_aliased_inputs_that_are_written_into():
    def f(x, y):
        x.add_(1)
        return y * 2

    for backend in ("eager", "aot_eager"):
        compiled = evalframe.torch.compile(f, backend=backend)
        compiled(numbers(4), numbers(4))
        x, y = numbers(4), numbers(4)
        assert same(compiled(x, x), f(y, y)) and same(x, y)
        x, y = numbers(4), numbers(4)
        assert same(compiled(x[1:], x[:-1]), f(y[1:], y[:-1])) and same(x, y)


def test_aliased_inputs_of_what_only_draws_are_the_backends():
    served = []

    def backend(module, examples):
        assert examples[0].data_ptr() == examples[1].data_ptr()
        return lambda *inputs: (served.append(len(inputs)), module.forward(*inputs))[1]

    def draws(x, y):
        return F.dropout(x, 0.5) * torch.bernoulli(y.abs().clamp(max=1)) + torch.rand_like(x)

    compiled, x = evalframe.torch.compile(draws, backend=backend), numbers(4, 4)
    for count in range(4):  # the first one is recorded
        torch.manual_seed(3)
        wanted = draws(x, x.view(4, 4))
        torch.manual_seed(3)
        assert same(compiled(x, x.view(4, 4)), wanted)
        assert served == [2] * count


@pytest.mark.raises_in_kernels
def test_exceptions_in_a_graph_are_those_of_eager():
    def f(x, index):
        y = x + 1
        return y[index] * 2

    x = numbers(3)
    for backend in ("eager", "aot_eager"):
        compiled = evalframe.torch.compile(f, backend=backend)
        assert same(compiled(x, torch.tensor([0, 2])), f(x, torch.tensor([0, 2])))
        with pytest.raises(IndexError) as caught:
            compiled(x, torch.tensor([0, 5]))
        with pytest.raises(IndexError) as wanted:
            f(x, torch.tensor([0, 5]))
        assert str(caught.value) == str(wanted.value)
        assert caught.tb.tb_next.tb_lineno == f.__code__.co_firstlineno + 2


def test_random_numbers_come_in_order():
    def f(x):
        a = torch.rand(3)
        b = F.dropout(x, 0.5)
        return a, b, torch.randn_like(x), torch.randperm(5)

    for backend in ("eager", "aot_eager"):
        compiled = evalframe.torch.compile(f, backend=backend)
        for _ in range(3):
            torch.manual_seed(3)
            got = compiled(numbers(6))
            torch.manual_seed(3)
            assert same(got, f(numbers(6)))


def test_training_steps():
    def step(model, optimizer, x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    torch.manual_seed(0)
    model = Perceptron()
    other = copy.deepcopy(model)
    compiled = evalframe.torch.compile(step, backend="eager")
    one, two = (torch.optim.AdamW(m.parameters(), lr=0.01) for m in (model, other))
    for k in range(5):
        x, y = numbers(4, 8) + k, numbers(4, 8)
        assert same(compiled(model, one, x, y), step(other, two, x, y))
    assert same(dict(model.state_dict()), dict(other.state_dict()))


class Deep(nn.Module):
    def __init__(self, blocks, depth):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(*(layer for _ in range(depth) for layer in (nn.Linear(4, 4), nn.Tanh()))) for _ in range(blocks)
        )

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            x = block(x) + i
            for child in block:
                x = x + (child.weight.sum() if isinstance(child, nn.Linear) else 0)
        return x


@pytest.mark.parametrize("blocks, depth", [(3, 9), (40, 2), (12, 6)])
def test_all_layers_are_one_graph(blocks, depth):
    model, x = Deep(blocks, depth).eval(), numbers(2, 4)
    seen = []

    def backend(module, inputs):
        seen.append(module)
        return module.forward

    compiled = evalframe.torch.compile(model, backend=backend)
    assert same(compiled(x), model(x))
    assert same(compiled(x), model(x))
    assert len(seen) == 1


def test_turns_without_layers_are_no_graph_of_thousands():
    def function(x):
        i = 0
        while i < 3000:
            i += 1
        for _ in range(100):
            x = x + 1
        return x * i

    compiled = evalframe.torch.compile(function, backend="eager")
    assert same(compiled(numbers(3)), function(numbers(3)))
    assert same(compiled(numbers(3)), function(numbers(3)))
    assert max(len(module.graph.nodes) for module in evalframe.torch.graph_modules(compiled)) < 100


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("train", [False, True])
def test_parameters_and_buffers_can_be_attributes(backend, dynamic, train):
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4)).train(train)
    module[2].weight = module[0].weight
    other = copy.deepcopy(module)
    compiled = evalframe.torch.compile(module, backend=backend, dynamic=dynamic, parameters="attributes")

    def gradients(called, of):
        of.zero_grad()
        result = called(numbers(rows, 4))
        result.sum().backward()
        return [result, *of.buffers(), *(parameter.grad for parameter in of.parameters())]

    # torch.compile, too, has another kernel for a normalisation on a GPU.
    agree = torch.allclose if LAYERS[0].weight.is_cuda and backend == "aot_eager" else torch.equal
    for rows in (2, 2, 3, 4, 5, 5):
        assert all(agree(a, b) for a, b in zip(gradients(compiled, module), gradients(other, other), strict=True))
        if rows == 3:  # written into
            for parameter in (*module.parameters(), *other.parameters()):
                parameter.data.mul_(0.5)
        if rows == 4:  # replaced
            module[1].weight, other[1].weight = (nn.Parameter(numbers(4)) for _ in range(2))
    made = evalframe.torch.graph_modules(compiled)[-1]
    assert made.get_parameter(next(name for name, _ in made.named_parameters())) is module[0].weight
    inputs = [node for node in made.graph.nodes if node.op == "placeholder"]
    assert not any("weight" in node.name or "running" in node.name for node in inputs)
    assert all("example_value" in node.meta for node in made.graph.nodes if node.op in ("placeholder", "get_attr"))


def positive(x):
    if not torch.compiler.is_compiling() and bool((x > 0).all()):
        return x
    return torch.where(x > 0, x, 0.0) + (0.5 if is_compiling() else 0.25)


def test_what_is_captured_is_compiling_where_that_is_asked_for():
    x = numbers(4).abs() + 1
    as_it_is = evalframe.torch.compile(positive, backend="eager")
    compiling = evalframe.torch.compile(positive, backend="eager", is_compiling=True, fullgraph=True)
    for _ in range(3):
        assert as_it_is(x) is x
        assert torch.equal(compiling(x), x + 0.5)
        assert torch.equal(compiling(-x), torch.full_like(x, 0.5))
        assert positive(x) is x
    assert len(evalframe.torch.graph_modules(compiling)) == 1
    for is_compiling_too in (False, True):
        with evalframe.torch.enabled(backend="eager", is_compiling=is_compiling_too):
            for _ in range(3):
                assert torch.equal(positive(x), x + 0.5) if is_compiling_too else positive(x) is x


def test_nothing_is_compiling_between_graphs():
    seen = []

    def function(x):
        x = x + 1
        seen.append(torch.compiler.is_compiling())
        return ask(x * x.sum().item())

    @evalframe.uncaptured
    def ask(x):
        return x, torch.compiler.is_compiling()

    compiled = evalframe.torch.compile(function, backend="eager", is_compiling=True)
    assert [compiled(numbers(3))[1] for _ in range(3)] == [False] * 3
    assert seen == [True] * 3


def test_a_module_is_compiling_and_so_is_its_copy():
    class Layer(nn.Module):
        def forward(self, x):
            return positive(x)

    x = numbers(4).abs() + 1
    compiled = evalframe.torch.compile(Layer(), backend="eager", is_compiling=True)
    assert all(torch.equal(module(x), x + 0.5) for module in (compiled, copy.deepcopy(compiled)))
    with pytest.raises(TypeError, match="is_compiling must be True or False, not 'yes'"):
        evalframe.torch.compile(positive, is_compiling="yes")


def test_parameters_are_inputs_or_attributes():
    with pytest.raises(ValueError, match="parameters must be one of 'inputs', 'attributes', not 'frozen'"):
        evalframe.torch.compile(pointwise, parameters="frozen")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_results_that_get_another_shape_are_given_between_graphs(backend):
    def into(x, out, several):
        joined = torch.cat([x * 2, x], out=out)
        torch.max(x, 1, out=several)
        return joined + 1, joined is out, torch.add(x, 1, out=torch.empty(3, 4)) * 2

    def arguments():
        return numbers(3, 4), torch.empty(0), (torch.empty(0), torch.empty(0, dtype=torch.int64))

    compiled = evalframe.torch.compile(into, backend=backend)
    for _ in range(3):
        left, right = arguments(), arguments()
        assert same(compiled(*left), into(*right))
        assert same(left, right)


def test_a_mistake_of_the_program_for_other_sizes_is_its_own(capfd):
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    compiled = evalframe.torch.compile(module, backend="aot_eager", dynamic=True)
    before = copy.deepcopy(module.state_dict())
    for rows in (2, 3):
        compiled(numbers(rows, 4))
    counted = module[1].num_batches_tracked.item()
    with pytest.raises(RuntimeError, match=r"mat1 and mat2 shapes cannot be multiplied \(2x5 and 4x4\)"):
        compiled(numbers(2, 5))
    assert module[1].num_batches_tracked.item() == counted == before["1.num_batches_tracked"] + 2
    assert "meta" not in capfd.readouterr().err


def test_another_torch_is_refused_with_a_reason():
    code = "import torch; del torch._C._functorch.is_functorch_wrapped_tensor; import evalframe.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ImportError: this torch isn't one that evalframe knows" in done.stderr


def test_walks_through_modules_and_parameters_are_in_the_graph():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.rest = nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 4))

        def forward(self, x):
            count = sum(parameter.numel() for parameter in self.parameters())
            names = [name for name, _ in self.named_parameters()]
            x = x.to(next(self.parameters()).dtype)
            return self.rest(self.first(x)) * count, names, len(list(self.modules()))

    module = Counting()
    compiled = evalframe.torch.compile(module, backend="eager")
    x = numbers(2, 4)
    assert same(compiled(x), module(x))
    assert same(compiled(x), module(x))
    assert len(evalframe.torch.graph_modules(compiled)) == 1
    module.rest[1] = module.first  # one module in two places
    assert same(compiled(x), module(x))
    module.rest[1] = nn.Linear(4, 4)
    assert same(compiled(x), module(x))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_fast_paths_of_attention_are_one_graph(backend):
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    attention = nn.MultiheadAttention(16, 2, batch_first=True).eval()
    x = numbers(2, 3, 16)
    with torch.no_grad():
        for function in (encoder, lambda x: attention(x, x, x, need_weights=False)):
            compiled = evalframe.torch.compile(function, backend=backend, fullgraph=True)
            for _ in range(2):
                assert same(compiled(x), function(x))


def test_types_of_tensors_are_asked_for_and_given():
    def f(x):
        states = ()
        for kind in (torch.float64, "torch.IntTensor"):
            states = states + (x.type(kind) * 2,)
        return states, x.type()

    compiled = evalframe.torch.compile(f, backend="eager", fullgraph=True)
    for x in (numbers(2, 3), numbers(2, 3), numbers(2, 3).double()):
        assert same(compiled(x), f(x))


def test_thousands_of_turns_over_what_a_program_holds_are_one_graph():
    rows = [list(range(50)) for _ in range(60)]

    def f(x):
        count = 0
        for row in rows:
            for each in row:
                count += each
            x = x + count
        return x

    x = numbers(3)
    compiled = evalframe.torch.compile(f, backend="eager", fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(x), f(x))


def test_each_way_to_change_a_tensor_that_stays_the_very_one_is_seen():
    class Holder(nn.Module):
        def __init__(self, tensor):
            super().__init__()
            self.held = tensor

        def forward(self, x):
            held = self.held
            return held * 2, held.requires_grad, held.dtype, held.shape, held.stride(), held.is_leaf, type(held) is nn.Parameter, x + 1

    weight = numbers(2, 3).requires_grad_()
    changes = {
        "gradients on": lambda t: t.requires_grad_(),
        "and off": lambda t: t.requires_grad_().requires_grad_(False),
        "a result in place": lambda t: t.mul_(weight),
        "and detached": lambda t: t.mul_(weight).detach_(),
        "turned": lambda t: t.t_(),
        "more dimensions": lambda t: t.unsqueeze_(0),
        "other strides": lambda t: t.as_strided_((2, 3), (1, 2)),
        "another size": lambda t: t.resize_(3, 1),
        "another memory": lambda t: t.set_(numbers(4, 5)),
        "other data": lambda t: setattr(t, "data", numbers(2, 3).double()),
        "other data of another size": lambda t: setattr(t, "data", numbers(5)),
        "swapped": lambda t: torch.utils.swap_tensors(t, numbers(7, 2)),
        "swapped with one of gradients": lambda t: torch.utils.swap_tensors(t, numbers(2, 3).requires_grad_()),
        "conjugated": lambda t: setattr(t, "data", torch.view_as_complex(numbers(3, 2)).conj()),
        "off and a result in place": lambda t: t.requires_grad_(False).mul_(weight),
        "a result in place of which gradients are asked": lambda t: t.requires_grad_(False).mul_(weight).requires_grad_(),
        "another number of dimensions": lambda t: setattr(t, "data", numbers(2, 3, 4)),
    }
    not_of_leaves = ("a result in place", "and detached", "turned", "more dimensions", "other strides", "another size", "another memory")
    for name, change in changes.items():
        for make in (numbers, lambda *sizes: nn.Parameter(numbers(*sizes), requires_grad=False), lambda *sizes: nn.Parameter(numbers(*sizes))):
            if name in not_of_leaves and make(1).requires_grad:
                continue
            model = Holder(make(2, 3))
            compiled, x = evalframe.torch.compile(model, backend="eager", max_entries=100), numbers(2)
            for _ in range(3):
                assert same(compiled(x), model(x)), name
            change(model.held)
            for _ in range(3):
                assert same(compiled(x), model(x)), name
                assert compiled(x)[0].requires_grad == model(x)[0].requires_grad, name


def test_what_torch_gives_back_is_what_it_was_given():
    def f(x, y):
        contiguous, same_dtype, floats, other = x.contiguous(), x.to(torch.float32), x.float(), y.contiguous()
        identities = contiguous is x, same_dtype is x, floats is x, other is y, contiguous is floats, other is x
        if contiguous is x:
            return contiguous + 1, identities
        return contiguous * 2, identities, same_dtype, floats

    x = numbers(3, 2)
    given = [(x, x.t()), (x.t(), x), (x.double(), x), (x.t().double(), x.t()), (nn.Parameter(x), x), (x, x)]
    compiled = evalframe.torch.compile(f, backend="eager", fullgraph=True, dynamic=False)
    for args in given * 2:
        with torch.no_grad():
            found, wanted = compiled(*args), f(*args)
        assert found[1] == wanted[1] and torch.equal(found[0], wanted[0])
        assert all((a is args[0]) == (b is args[0]) for a, b in zip(found[2:], wanted[2:], strict=True))


def test_what_torch_gives_back_is_written_into_where_it_is():
    def f(x):
        y = x.contiguous()
        y += 1
        return x * 2, y is x, y

    for backend in ("eager", "aot_eager"):
        compiled = evalframe.torch.compile(f, backend=backend, dynamic=None)
        for make in (lambda: numbers(3, 2), lambda: numbers(2, 3).t(), lambda: numbers(4, 2), lambda: numbers(5, 2)):
            x, other = make(), make()
            found, wanted = compiled(x), f(other)
            assert torch.equal(found[0], wanted[0]) and found[1] == wanted[1] and torch.equal(x, other) and (found[2] is x) == (wanted[2] is other)
