"""Higher-order operators: one node each, with a module for each function that they call, as under torch.compile."""

import pytest
import torch
from torch._higher_order_ops import map as torch_map
from torch._higher_order_ops import scan, while_loop

import evalframe.torch

pytestmark = pytest.mark.torch

torch.manual_seed(0)
LAYER = torch.nn.Linear(4, 4)
NORMALISATION = torch.nn.BatchNorm1d(4)
ATTENTION = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
SCALES = [2.0]
LOG = []
TOTAL = torch.zeros(4)


def branches(x):
    y = x * 2
    return torch.cond(x.sum() > 0, lambda a: a.sin() + y, lambda a: LAYER(a), (x,)) + 1


def one_in_another(x):
    def positive(a):
        return torch.cond(a.sum() > 3, lambda b: b.sin(), lambda b: LAYER(b).cos(), (a,))

    return torch.cond(x.sum() > 0, positive, lambda a: a * 3, (x,)) + 1


def several_results(x):
    def first(a, b):
        return {"sum": (a + b, a.mean()), "other": b * 2}

    def second(a, b):
        return {"sum": (a - b, b.mean()), "other": a.exp()}

    found = torch.cond(x.sum() > 0, first, second, [x, x.cos()])
    return found["sum"][0] * found["sum"][1] + found["other"]


def layers_in_branches(x):
    return torch.cond(x.sum() > 0, ATTENTION, lambda a: ATTENTION(a) * 2, (x.unsqueeze(0),))


def writes_into_its_own(x):
    def inner(a):
        b = a.clone()
        b += 1
        b[0] = 2.0
        return b * SCALES[0]

    return torch.cond(x.sum() > 0, inner, lambda a: a * 3, (x,))


def without_gradients(x):
    def inner(a):
        with torch.no_grad():
            b = a.exp()
        return a * b

    return torch.cond(x.sum() > 0, inner, lambda a: a * 3, (x,))


def loop(x):
    count, found = while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, LAYER(a).sin()), (torch.tensor(0), x))
    return found * 2 + count


def no_turn(x):
    return while_loop(lambda a: a.sum() > 1e9, lambda a: (a * 2,), (x,))[0] + 1


def scanned(x):
    carry, rows = scan(lambda c, row: (c + row.sin(), c * row), torch.zeros(4), x)
    return carry + rows.sum()


def scanned_backwards(x):
    def combine(carry, row):
        return {"sum": carry["sum"] + LAYER(row)}, [row * 2, carry["sum"] + row]

    carry, (first, second) = scan(combine, {"sum": torch.zeros(4)}, x, reverse=True, dim=0)
    return carry["sum"] + first * second


def mapped(x):
    return torch_map(lambda row, scale: LAYER(row) * scale, x, torch.tensor(2.0)) + 1


NODES = {
    branches: "cond",
    one_in_another: "cond",
    several_results: "cond",
    layers_in_branches: "cond",
    writes_into_its_own: "cond",
    without_gradients: "cond",
    loop: "while_loop",
    no_turn: "while_loop",
    scanned: "scan",
    scanned_backwards: "scan",
    mapped: "map_impl",
}


def rows(sign=1):
    return torch.rand(16, 4, generator=torch.Generator().manual_seed(3)) * sign


def results(function, x):
    """With gradients, where it asks for them."""
    x = x.clone().requires_grad_(x.requires_grad)
    result = function(x)
    return [result.detach(), *(torch.autograd.grad(result.sum(), x) if x.requires_grad else ())]


def check(function, captured, x):
    expected, found = results(function, x), results(captured, x)
    assert all(torch.equal(*pair) for pair in zip(expected, found, strict=True))


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("function", NODES, ids=lambda function: function.__name__)
def test_it_is_one_node_with_a_module_for_each_function(function, gradients):
    captured = evalframe.torch.compile(function, backend="eager")
    for sign in (1, 1, -1):
        check(function, captured, rows(sign).requires_grad_(gradients))
    (module,) = evalframe.torch.graph_modules(captured)
    calls = [node for node in module.graph.nodes if getattr(node.target, "__name__", "") == NODES[function]]
    assert len(calls) == 1
    bodies = [node for node in calls[0].all_input_nodes if node.op == "get_attr"]
    assert bodies and all(isinstance(getattr(module, node.target), torch.fx.GraphModule) for node in bodies)


@pytest.mark.parametrize("function", NODES, ids=lambda function: function.__name__)
def test_backends_get_it(function):
    captured = evalframe.torch.compile(function, backend="aot_eager")
    for sign in (1, 1, -1):
        check(function, captured, rows(sign).requires_grad_())
    assert len(evalframe.torch.graph_modules(captured)) == 1


def test_a_tensor_that_is_there_twice_is_given_as_in_eager():
    def twice(x):
        return torch.cond(x.sum() > 0, lambda a, b: a + b, lambda a, b: a - b, (x, x))

    captured = evalframe.torch.compile(twice, backend="aot_eager")
    for sign in (1, 1, -1):
        check(twice, captured, rows(sign))


@pytest.mark.parametrize("function", [branches, loop, scanned, mapped], ids=lambda function: function.__name__)
def test_inductor_gets_it(function):
    captured = evalframe.torch.compile(function, backend="inductor")
    for sign in (1, 1, -1):
        expected, found = results(function, rows(sign)), results(captured, rows(sign))
        torch.testing.assert_close(found, expected)
    assert len(evalframe.torch.graph_modules(captured)) == 1


def test_its_nodes_are_those_of_torch_compile():
    found = []

    def backend(module, _):
        found.append(module)
        return module

    torch.compile(one_in_another, backend=backend)(rows())
    captured = evalframe.torch.compile(one_in_another, backend="eager")
    captured(rows())

    def shape(module):
        nodes = [(node.op, str(node.target)) for node in module.graph.nodes if node.op not in ("placeholder", "get_attr")]
        return nodes, sorted(map(str, map(shape, module.children())))

    assert shape(evalframe.torch.graph_modules(captured)[0]) == shape(found[0])


def test_what_its_functions_read_is_guarded():
    captured = evalframe.torch.compile(writes_into_its_own, backend="eager")
    check(writes_into_its_own, captured, rows())
    SCALES[0] = 3.0
    try:
        check(writes_into_its_own, captured, rows())
    finally:
        SCALES[0] = 2.0
    check(writes_into_its_own, captured, rows(-1))


def test_a_predicate_that_is_known_takes_one_branch():
    def known(x):
        return torch.cond(x.shape[0] > 4, lambda a: a.sin(), lambda a: a.cos(), (x,))

    captured = evalframe.torch.compile(known, backend="eager")
    check(known, captured, rows())
    assert [str(node) for node in evalframe.torch.graph_modules(captured)[0].graph.nodes] == ["x", "sin", "output"]


def test_what_can_be_no_module_for_all_sizes_is_one_for_those_that_are_known():
    for settings in ({"dynamic": True}, {"fullgraph": True}):
        captured = evalframe.torch.compile(one_in_another, backend="eager", **settings)
        for size in (16, 12):
            check(one_in_another, captured, rows()[:size] if "dynamic" in settings else rows())


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", [branches, loop, scanned, mapped], ids=lambda function: function.__name__)
def test_sizes_may_vary(function, backend):
    captured = evalframe.torch.compile(function, backend=backend)
    for size in (16, 12, 7, 16):
        check(function, captured, rows()[:size])
    assert not evalframe.torch.explain(captured)(rows()).breaks


def writes_around_it(x):
    return torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: NORMALISATION(a), (x,))


def draws(x):
    return torch.cond(x.sum() > 0, lambda a: torch.dropout(a, 0.5, True), lambda a: a * 2, (x,))


def gives_what_it_gets(x):
    return torch.cond(x.sum() > 0, lambda a: a.clone(), lambda a: a, (x,))


def gives_another_size(x):
    return torch.cond(x.sum() > 0, lambda a: a[:3] + 1, lambda a: a * 2, (x,)).shape[0]


def gives_another_tree(x):
    found = torch.cond(x.sum() > 0, lambda a: [a + 1], lambda a: (a * 2,), (x,))
    return found[0] if isinstance(found, list) else found[0] * 3


def raises_in_the_other(x):
    return torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a @ torch.ones(3), (x,))


def asks_in_a_branch(x):
    return torch.cond(x.sum() > 0, lambda a: a * a.sum().int().item(), lambda a: a * 2, (x,))


def tells_others(x):
    def inner(a):
        LOG.append(1)
        return a * 2

    return torch.cond(x.sum() > 0, lambda a: a * 3, inner, (x,))


def counts(x):
    return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), (0, x))[1]


OTHERS = [
    writes_around_it,
    draws,
    gives_what_it_gets,
    gives_another_size,
    gives_another_tree,
    raises_in_the_other,
    asks_in_a_branch,
    tells_others,
    counts,
]


def outcome(function, x):
    torch.manual_seed(1)
    torch._dynamo.reset()
    before = NORMALISATION.running_mean.clone()
    try:
        with torch.no_grad():
            found = function(x)
    except Exception as error:
        found = type(error)
    state = torch.get_rng_state()
    changed = NORMALISATION.running_mean.clone()
    NORMALISATION.running_mean.copy_(before)
    return [found, state, changed, len(LOG)]


@pytest.mark.parametrize("function", OTHERS, ids=lambda function: function.__name__)
def test_what_can_be_no_module_is_done_as_torch_does_it(function):
    captured = evalframe.torch.compile(function, backend="eager")
    for sign in (1, 1, -1, 1):
        LOG.clear()
        expected = outcome(function, rows(sign))
        LOG.clear()
        found = outcome(captured, rows(sign))
        for one, other in zip(expected, found, strict=True):
            assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


def test_the_break_is_named():
    captured = evalframe.torch.compile(draws, backend="eager")
    captured(rows())
    found = {one.reason: one.detail for one in evalframe.torch.explain(captured)(rows()).breaks}
    detail = found["operator whose functions can't be graphs of their own"]
    assert detail.startswith("cond: one changes what is around it, or draws random numbers") and detail.endswith("dropout")
