"""Values of other kinds than those that were recorded, or that backends have no words for: eager's results, whichever came first."""

import warnings

import pytest
import torch
from torch import nn

import evalframe.torch

pytestmark = pytest.mark.torch


def modules(module, examples):
    """A backend that runs graphs as they are."""
    return module.forward


BACKENDS = pytest.mark.parametrize("backend", ["eager", modules])


def came_to(function, *arguments):
    try:
        result = function(*arguments)
    except Exception as error:
        result = type(error), str(error)
    return repr((result, arguments))


def rows(*given):
    return [torch.tensor(row) for row in given]


@BACKENDS
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sparse", [lambda x: x.to_sparse(), lambda x: x.to_sparse_csr(), lambda x: torch.nested.nested_tensor([x[0], x[0, :2]])])
def test_tensors_without_strides_or_sizes(backend, sparse):
    def program(x):
        return x.relu_()

    for dynamic in None, True:
        compiled = evalframe.torch.compile(program, backend=backend, dynamic=dynamic)
        for make in (lambda x: x, sparse, lambda x: x[:2], sparse):
            assert came_to(compiled, make(torch.eye(3) - 0.5)) == came_to(program, make(torch.eye(3) - 0.5))


@BACKENDS
def test_a_list_that_a_tensor_is_added_to_is_changed_itself(backend):
    def extended(kept, x):
        kept += x
        return kept

    def repeated(kept, x):
        same = kept
        kept *= x
        return same

    def of_its_own(x):
        kept = [x]
        same = kept
        kept += x
        return same

    row = torch.tensor([1.0, 2.0])
    for program, make in ((extended, lambda: ([row], row)), (repeated, lambda: ([row], torch.tensor(2))), (of_its_own, lambda: (row,))):
        compiled = evalframe.torch.compile(program, backend=backend)
        for _ in range(3):
            assert came_to(compiled, *make()) == came_to(program, *make())
        given = make()
        assert len(given) == 1 or compiled(*given) is given[0]


@BACKENDS
def test_a_tensor_where_a_dict_was(backend):
    def stores(kept, key):
        kept[key] = 5
        return len(kept)

    def asks(kept, key):
        return key in kept

    for program in stores, asks:
        compiled = evalframe.torch.compile(program, backend=backend)
        for make in (dict, lambda: torch.zeros(3)) * 2:
            assert came_to(compiled, make(), torch.tensor([0.5])) == came_to(program, make(), torch.tensor([0.5]))


@BACKENDS
def test_classes_as_operands(backend):
    def casts(x, kind):
        return x.to(kind), torch.zeros(2, dtype=kind)

    def compares(x, kind):
        return x == kind, x * 2

    for program, kind in (casts, float), (casts, int), (compares, nn.Parameter), (compares, bool):
        compiled = evalframe.torch.compile(program, backend=backend)
        for _ in range(2):
            assert came_to(compiled, torch.tensor([1.5, 2.5]), kind) == came_to(program, torch.tensor([1.5, 2.5]), kind)


@BACKENDS
def test_tensors_that_have_elements_several_times_and_share_memory(backend):
    def program(x, y):
        x.copy_(y) if x.is_contiguous() else None
        return torch._foreach_add([x], [y])

    compiled = evalframe.torch.compile(program, backend=backend)
    for make in (lambda: torch.ones(3, 3), lambda: torch.ones(3).expand(2, 3), lambda: torch.ones(2, 1).expand(2, 3)):
        x = make()
        assert came_to(compiled, x, x) == came_to(program, x, x)


@BACKENDS
def test_a_graph_keeps_nothing_of_what_its_inputs_were_computed_of(backend):
    def program(x):
        y = x * 2
        print(end="")
        return (y * 3).sum()

    compiled = evalframe.torch.compile(program, backend=backend)
    x = nn.Parameter(torch.ones(2))
    compiled(x)
    x.data = torch.ones(3)
    (gradient,) = torch.autograd.grad(compiled(x), x)
    assert gradient.tolist() == [6.0] * 3
    (module, *_) = evalframe.torch.graph_modules(compiled)[1:]
    assert [node.meta["example_value"].grad_fn for node in module.graph.find_nodes(op="placeholder")] == [None]


def test_a_parameter_whose_gradient_has_another_size():
    def program(x, weight):
        return x @ weight

    compiled = evalframe.torch.compile(program, backend=modules)
    weight = nn.Parameter(torch.ones(3, 2))
    for rows in 2, 4, 5:
        weight.grad = None
        weight.data = torch.ones(3, 2)
        weight.grad = torch.ones(3, 2)
        weight.data = torch.ones(3, rows)
        x = torch.ones(rows, 3)
        assert came_to(compiled, x, weight) == came_to(program, x, weight)


def test_what_is_asked_of_tensors_without_elements_doesnt_warn():
    def program(x, y):
        return nn.functional.mse_loss(x, y)

    compiled = evalframe.torch.compile(program, backend="eager", dynamic=True)
    told = []
    for function in program, compiled:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            function(torch.ones(2, 3), torch.tensor(2))
        told.append([(str(warning.message), warning.lineno, warning.filename) for warning in seen])
    assert told[0] == told[1] and len(told[0]) == 1


@BACKENDS
def test_methods_that_have_another_name_than_theirs(backend):
    def program(x):
        return x.__pow__(2), x.__rpow__(2), x.__floordiv__(2), x.__rsub__(1), x.__rmatmul__(x), x.split(1), x.clone().__ipow__(3)

    compiled = evalframe.torch.compile(program, backend=backend)
    for _ in range(2):
        assert came_to(compiled, torch.tensor([1.5, 2.5])) == came_to(program, torch.tensor([1.5, 2.5]))


@BACKENDS
@pytest.mark.filterwarnings("ignore")
def test_a_list_in_itself(backend):
    def program(kept, x):
        kept[0] = kept
        print(end="")
        return x * 2, len(kept)

    def takes(kept, x):
        return x[kept], torch.stack(kept)

    def asks(kept, x):
        return nn.functional.cosine_similarity(x, kept), torch.where(x > 0, kept, x)

    endless = []
    endless.append(endless)
    for dynamic in None, True:
        for function, make in (program, lambda: [1, 2]), (takes, lambda: endless), (asks, lambda: endless):
            compiled = evalframe.torch.compile(function, backend=backend, dynamic=dynamic)
            for _ in range(2):
                assert came_to(compiled, make(), torch.ones(2)) == came_to(function, make(), torch.ones(2))


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x.to_sparse().coalesce().values().sum() + x,
        lambda x: torch.combinations(x[0], 2).sum() + x,
        lambda x: x.index_put((x[:, 0] > 0,), x[0]) * 2,
        lambda x: torch.linalg.lstsq(x, x + 1).solution,
    ],
)
@pytest.mark.parametrize("dynamic", [None, True])
def test_what_no_backend_can_trace_is_run_by_the_recorded_calls(program, dynamic):
    captured = evalframe.torch.compile(program, backend="aot_eager", dynamic=dynamic)
    for rows_of in (3, 3, 4, 5):
        x = torch.linspace(-1, 1, 4 * rows_of).reshape(rows_of, 4)
        torch.testing.assert_close(captured(x), program(x))


def test_a_graph_that_comes_to_nothing_is_not_warned_of():
    experts = [nn.Linear(4, 4) for _ in range(2)]

    def mixed(x, of):
        y = torch.zeros_like(x)
        for number, expert in enumerate(experts):
            y[of == number] += expert(x[of == number])
        return y

    captured = evalframe.torch.compile(mixed, backend="aot_eager")
    x, of = torch.linspace(-1, 1, 12).reshape(3, 4), torch.tensor([0, 1, 0])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(3):
            torch.testing.assert_close(captured(x, of), mixed(x, of))
    assert told == []


def test_what_a_backend_warns_of_is_told():
    def warning(module, examples):
        warnings.warn("slow here", stacklevel=1)
        return module.forward

    captured = evalframe.torch.compile(lambda x: x * 2, backend=warning)
    with pytest.warns(UserWarning, match="slow here"):
        captured(torch.ones(3))

    def failing(module, examples):
        warnings.warn("about to fail", stacklevel=1)
        raise KeyError(3)

    captured = evalframe.torch.compile(lambda x: x * 2, backend=failing)
    with pytest.warns(UserWarning, match="about to fail"), pytest.raises(evalframe.BackendError):
        captured(torch.ones(3))
