"""Numbers of Python's that are taken out of tensors: floats are the graph's, and what is computed of them stays there."""

import contextlib
import io
import math

import pytest
import torch

import evalframe.torch
from evalframe import _core

pytestmark = pytest.mark.torch

LOG = []
LAYERS = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 3))
SCALE = torch.tensor(0.5)


class Kept:
    value = None


KEPT = Kept()


def scaled(x):
    return x * x.abs().max().item(), x / float(x.sum()) + x.mean().item() ** 2


def branches(x):
    s = x.sum().item()
    return x + s if s > 0 else x - s


def text(x):
    loss = x.mean().item()
    LOG.append(f"{loss:.3f} {loss}")
    print(f"loss {loss:.2f}")
    return x * loss, "%.3f|%s" % (loss, loss), str(loss)


def handed_out(x):
    LOG.append(x.sum().item())
    KEPT.value = x.min().item()
    return {"loss": x.sum().item(), "n": [float(x.mean()), x.max().item()]}, x + KEPT.value


def functions(x):
    s = x.sum().item()
    return math.sqrt(abs(s)) * x, max(s, 0.5) * x, min(1.0, s), sum([s, x.mean().item()]), round(s, 2), int(s) * x, math.isfinite(s)


def as_arguments(x):
    s = x.mean().item()
    filled = torch.full((3,), s), x.new_tensor(s), torch.tensor(x.min().item()), x.masked_fill(x > 0, s)
    return filled, torch.clamp(x, max=s), x.add(x, alpha=s), x.addcmul(x, x, value=-s * 0.1)


def until_small(x):
    turns = 0
    while x.abs().max().item() > 1.0:
        x = x / 2
        turns += 1
    return x, turns


def least(x):
    best, at = float("inf"), None
    for i in range(4):
        value = (x * i).sum().item()
        if value < best:
            best, at = value, i
    return best, at, x * best


def not_a_number(x):
    return x * (x / 0 * 0).sum().item(), (x.sum() / 0).item()


def other_types(x):
    return x.half().sum().item() * x, x.bfloat16().sum().item(), x.double().sum().item(), x * x.argmax().item(), (x > 0).any().item()


def raises(x):
    try:
        return x * (1 / (x.sum() * 0).item())
    except ZeroDivisionError as error:
        return str(error), x


def of_several(x):
    try:
        return x.item()
    except RuntimeError as error:
        return str(error), x


def as_keys(x):
    return {x.sum().item(): 1}, (x.sum().item(), 1) == (x.sum().item(), 1), x.sum().item() is x.sum().item()


def one_by_one(x):
    return [value.item() for value in x.flatten()[:3]], x


def with_gradients(x):
    p = x.clone().requires_grad_()
    return (p * p.sum().item()).sum()


FUNCTIONS = [scaled, branches, text, handed_out, functions, as_arguments, until_small, least, not_a_number, other_types, raises, of_several, as_keys, one_by_one, with_gradients]
ONE_RECORDING = [scaled, handed_out, as_arguments, not_a_number, one_by_one]
torch.manual_seed(0)
TENSORS = [*(torch.randn(2, 3) for _ in range(4)), torch.ones(2, 3), -torch.ones(2, 3), torch.zeros(2, 3), torch.randn(4, 3)]


def is_same(one, other, exact):
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.allclose(one, other, atol=0 if exact else 1e-5, rtol=0 if exact else 1e-5, equal_nan=True)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(is_same(a, b, exact) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict):
        return is_same(list(one.items()), list(other.items()), exact)
    if isinstance(one, float):
        return one == other or (one != one and other != other) or (not exact and math.isclose(one, other, abs_tol=1e-5))
    return one == other


def told(function, x):
    LOG.clear()
    KEPT.value = None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            result = function(x)
        except Exception as error:
            result = type(error).__name__, str(error)
    return result, list(LOG), printed.getvalue(), KEPT.value


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_is_as_in_eager(function, backend):
    captured = evalframe.torch.compile(function, backend=backend)
    for _ in range(2):
        for x in TENSORS:
            assert is_same(told(captured, x), told(function, x), backend == "eager")


@pytest.mark.parametrize("function", ONE_RECORDING, ids=lambda function: function.__name__)
def test_other_numbers_are_served_by_the_same_recording(function):
    captured = evalframe.torch.compile(function, backend="eager")
    for x in TENSORS[:6]:
        assert is_same(told(captured, x), told(function, x), True)
    counters = _core.jit_counters(captured)
    assert (counters["recordings"], counters["breaks"], counters["exits"]) == (1, 0, 0)


def graphs_of(call):
    """Of what a backend gets; its results are Python's."""

    made = []

    def backend(graph_module, inputs):
        made.append([node.name for node in graph_module.graph.nodes if node.op.startswith("call")])
        return graph_module.forward

    captured = evalframe.torch.compile(call, backend=backend)
    for scale in (0.5, 0.7, 0.9):
        SCALE.fill_(scale)
        torch.testing.assert_close(captured(TENSORS[0]), call(TENSORS[0]))
    return made


def test_numbers_of_elements_are_tensors_in_graphs():
    number = ["detach", "reshape", "to"]
    assert graphs_of(lambda x: LAYERS(x * SCALE.item()) + 1) == [[*number, "to_1", "mul", "linear", "tanh", "linear_1", "add"]]
    assert graphs_of(lambda x: x.sin().add_(x, alpha=-SCALE.item())) == [["sin", *number, "neg", "to_1", "mul", "add_"]]
    # Numbers that Python has a look at, or that go into what has another dtype, are its own.
    assert graphs_of(lambda x: LAYERS(x * (s := SCALE.item())) + (1 if s > 0.6 else 2)) == [["linear", "tanh", "linear_1"], ["add"]]
    assert graphs_of(lambda x: torch.dropout(x * SCALE.item(), 0.0, True).sin()) == [["dropout", "sin"]]
    assert graphs_of(lambda x: x.sin() + (x.long() * SCALE.item()).cos()) == [["sin", "long"], ["cos", "add"]]


@pytest.mark.parametrize("writes", [False, True])
def test_errors_of_arithmetic_are_no_infinities(writes):
    def call(x, y):
        x = x.add_(0) if writes else x
        number = y.item()
        _ = 1 / number  # nobody uses it
        return x * (0.01 / (1 - 0.9**number)), x * (2 - number) ** 0.5

    captured = evalframe.torch.compile(call, backend="aot_eager")
    x = torch.ones(3)
    for number in (1.0, 2.0, 1.5):
        torch.testing.assert_close(captured(x, torch.tensor(number)), call(x, torch.tensor(number)))
    for number in (0.0, -1e6):  # ZeroDivisionError, OverflowError; what writes can't be done again to find out which
        with pytest.raises(RuntimeError if writes else ArithmeticError):
            captured(x, torch.tensor(number))
    if not writes:
        assert captured(x, torch.tensor(3.0))[1].is_complex()


COUNTED = {
    "slice": lambda x, n: (x[:n], x[:n].shape[0], len(x[n:]), x[:n].sum() / x[:n].shape[0]),
    "rows": lambda x, n: [row * 2 for row in x[:n]],
    "stored": lambda x, n: (x.clone().index_fill_(0, n - 1, 0.0), x[n - 1] * 2),
    "filled": lambda x, n: (torch.zeros(n), torch.ones((n, 2)).shape, x.new_zeros(n).numel(), torch.full((2,), n)),
    "ranges": lambda x, n: (torch.arange(n), torch.arange(n * 1.0), torch.linspace(0, 1, steps=n)),
    "cut": lambda x, n: (x.narrow(0, 0, n), x.topk(n)[0], list(x.split(n)), list(torch.tensor_split(x, n))),
    "repeated": lambda x, n: (x.repeat(n), torch.nn.functional.pad(x, (n, 0)), x[:4].reshape(n * 0 + 2, -1)),
    "values": lambda x, n: (torch.add(x, x, alpha=n), x.addcmul(x, x, value=n), x + n, x * n, torch.where(n > 2, x, -x)),
    "dimensions": lambda x, n: (x.reshape(2, 3).sum(n % 2), x.reshape(2, 3).roll(n)),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("form", COUNTED)
def test_a_tensor_in_the_place_of_a_number_is_asked_in_each_call(form, backend, dynamic):
    function, x = COUNTED[form], torch.arange(6.0)
    captured = evalframe.torch.compile(lambda x, n: function(x, n), backend=backend, dynamic=dynamic)
    for count in (2, 2, 4, 1, 3):
        n = torch.tensor(count)
        assert is_same(captured(x, n), function(x, n), backend == "eager")


def test_what_an_operation_gives_together_is_taken_apart_where_it_is_made():
    def call(p, s):
        torch._foreach_mul_([p], s.item())
        return p * 2

    captured = evalframe.torch.compile(call, backend="aot_eager")
    for size in (2, 3, 4, 4):
        assert torch.equal(captured(torch.ones(size), SCALE), call(torch.ones(size), SCALE))


def in_lists(x):
    rows, factors = [x * 2, x + 1], [x.mean().item(), 1 - 0.5 ** x.max().item()]
    torch._foreach_mul_(rows, factors)
    torch._foreach_addcdiv_(rows, [x, x], [x.exp(), x.exp()], [factor * -1 for factor in factors])
    return torch._foreach_add(rows, factors)


def in_mixed_lists(x):
    rows, factors = [x * 2, x + 1], [x.mean().item(), 0.5]
    return torch._foreach_mul(rows, factors), torch._foreach_mul([x, x], [x.mean().item(), x.max().item()]), factors


def in_lists_of_doubles(x):
    return torch._foreach_mul([x, x.double()], [x.mean().item(), x.max().item()])


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("function, graphs", [(in_lists, 1), (in_mixed_lists, None), (in_lists_of_doubles, None)])
def test_lists_of_numbers(function, graphs, backend):
    captured = evalframe.torch.compile(function, backend=backend)
    for number in range(4):
        x = torch.linspace(-1, 2, 6) + number
        torch.testing.assert_close(captured(x), function(x), rtol=0 if backend == "eager" else 1e-6, atol=0 if backend == "eager" else 1e-6)
    assert graphs is None or len(evalframe.torch.graph_modules(captured)) == graphs


def test_complex_numbers_where_ints_were():
    captured = evalframe.torch.compile(lambda x, k: x * k, backend="aot_eager")
    for k in (1, 2, 3, 1j, 2j, 4, True, 0.5):
        assert is_same(captured(TENSORS[0], k), TENSORS[0] * k, False)


def test_hooks_for_saved_tensors_are_told_of_tensors_alone():
    kinds = []

    def call(x):
        return (x.sin() * x).sum()

    captured = evalframe.torch.compile(call, backend="aot_eager", dynamic=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kinds.append(type(tensor)) or tensor, lambda tensor: tensor):
        for size in (3, 3, 4, 5):
            captured(torch.ones(size, requires_grad=True)).backward()
    assert set(kinds) == {torch.Tensor}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", lambda module, examples: module.forward])
def test_a_tensor_that_multiplies_what_is_added_is_part_of_graphs(backend):
    """torch reads it, and what traces graphs can't: they get a multiplication in its place."""

    def call(x, y, n):
        changed = x.clone().add_(y, alpha=n).sub_(x, alpha=n).addcmul_(x, y, value=n).addcdiv_(x, y, value=n)
        lists = [x.clone(), y.clone()]
        torch._foreach_addcdiv_(lists, [y, x], [x, y], torch.stack([n, n * 2]))
        more = torch._foreach_addcmul(lists, [y, x], [x, y], torch.stack([n, n * 3]))
        return torch.add(x, y, alpha=n), x.sub(y, alpha=n), torch.addcmul(x, x, y, value=n), torch.addcdiv(x, x, y, value=n), changed, *lists, *more

    captured = evalframe.torch.compile(call, backend=backend, fullgraph=True)
    x, y = torch.arange(1.0, 5.0), torch.linspace(1, 3, 4)
    for number in (2.0, 2.0, -0.5, 3.0):
        for expected, found in zip(call(x, y, torch.tensor(number)), captured(x, y, torch.tensor(number))):
            torch.testing.assert_close(found, expected)
    assert len(evalframe.torch.graph_modules(captured)) == 1
    for wide, whole in ((x.double(), torch.tensor([16777217] * 4)), (x, y.double())):
        captured = evalframe.torch.compile(lambda x, y, n: (torch.add(x, y, alpha=n), x.addcmul(y, y, value=n)), backend=backend)
        for number in (2.5, 2.5, 3.5):
            assert all(map(torch.equal, captured(wide, whole, torch.tensor(number)), (torch.add(wide, whole, alpha=number), wide.addcmul(whole, whole, value=number))))
