"""torch.autograd.Function: its forward is followed, and where gradients are recorded, its results go backward as it says."""

import traceback

import pytest
import torch
from torch.autograd import Function, forward_ad
from torch.autograd.function import once_differentiable

import evalframe.torch

pytestmark = pytest.mark.torch

BACKENDS = ["eager", "aot_eager", lambda module, examples: module.forward]
SEEN = []
SCALE = 3.0


class Saves(Function):
    @staticmethod
    def forward(ctx, x, scale=2.0):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return torch.tanh(x * ctx.scale)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * ctx.scale * (1 - torch.tanh(x * ctx.scale) ** 2), None


class Several(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        if ctx.needs_input_grad[0]:
            return x * y, x - y, 3
        return x + y, x - y, None

    @staticmethod
    def backward(ctx, first, second, third):
        return first, second


class Nested(Function):
    @staticmethod
    def forward(ctx, x):
        return Saves.apply(x + 1, 3.0) * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Raises(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.cat([x, x.reshape(1, -1)])

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class GivesInput(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class GivesView(Function):
    @staticmethod
    def forward(ctx, x):
        return x[1:], x * 2

    @staticmethod
    def backward(ctx, first, second):
        return second


class InPlace(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class HasSetup(Function):
    @staticmethod
    def forward(x, power):
        return x**power

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.power = inputs[1]
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.power * ctx.saved_tensors[0] ** (ctx.power - 1), None


class TellsContext(Function):
    @staticmethod
    def forward(ctx, x):
        SEEN.append(type(ctx).__name__)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class AsksName(Function):
    @staticmethod
    def forward(ctx, x):
        return x * len(ctx.name())

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Unhelpful(Function):
    @staticmethod
    def forward(ctx, x):
        return x * ctx.missing

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class HasJvp(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_forward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return gradient

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * 7


class HasTwoOfItsResults(Function):
    @staticmethod
    def forward(ctx, x):
        y, places = x.sort(descending=True)
        ctx.save_for_backward(places, None, y)
        ctx.mark_non_differentiable(places)
        return y, places

    @staticmethod
    def backward(ctx, gradient, of_places):
        places, nothing, y = ctx.saved_tensors
        if nothing is not None or of_places is None or not isinstance(of_places, torch.Tensor):
            raise AssertionError
        return torch.zeros_like(y).index_put((places,), gradient * y)


class IsOnce(Function):
    @staticmethod
    def forward(ctx, x, choices):
        ctx.sign, ctx.choices = -1, choices
        if choices[0] == "none":
            ctx.unused = None
        return x.abs()

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        return gradient * ctx.sign * len(ctx.choices), None


def _scaled(gradient):
    return [each * SCALE for each in (gradient,)][0]


class ReadsGlobals(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return _scaled(gradient)


class Notes(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        SEEN.append(len(SEEN))
        return gradient * len(SEEN)


class KeepsList(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.seen = SEEN
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        ctx.seen.append("backward")
        return gradient * 2


class HasList(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient, seen=SEEN):
        seen.append("backward")
        return gradient * 2


def keeps_list(x):
    return KeepsList.apply(x + 1)


def has_list(x):
    return HasList.apply(x + 1)


def saves(x):
    return Saves.apply(x + 1) * 2


def several(x):
    first, second, third = Several.apply(x, x + 1)
    return first * 2, second, third


def nested(x):
    return Nested.apply(x - 1) + 1


def raises(x):
    return Raises.apply(x + 1) * 2


def gives_input(x):
    y = GivesInput.apply(x)
    return y is x, y._is_view(), y * 2


def gives_view(x):
    y, z = GivesView.apply(x + 1)
    return y, y._is_view(), z * 2


def in_place(x):
    y = x + 1
    z = InPlace.apply(y)
    return z is y, y * 3, z * 2


def has_setup(x):
    return HasSetup.apply(x + 1, 3) * 2


def two_of_its_results(x):
    y, places = HasTwoOfItsResults.apply(x * 2)
    return y + places, places.requires_grad, y.requires_grad


def is_once(x):
    return IsOnce.apply(x - 0.5, ("some", "of them")) * 3


def reads_globals(x):
    return ReadsGlobals.apply(x * 2) + 1


def notes(x):
    return Notes.apply(x * 2) + 1


def tells_context(x):
    return TellsContext.apply(x + 1) * 2


def asks_name(x):
    return AsksName.apply(x + 1) * 2


def unhelpful(x):
    return Unhelpful.apply(x + 1)


def by_keyword(x):
    return Saves.apply(x + 1, scale=3.0)


def outcome(function, x):
    """What a call comes to: results, gradients, or the exception with its places; and what it noted in SEEN."""
    SEEN.clear()
    try:
        results = function(x)
    except Exception as error:
        places = [(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)[1:]]
        return type(error), str(error), [place for place in places if place[0] != "__call__"]
    results = results if isinstance(results, tuple) else (results,)
    tensors = [result for result in results if isinstance(result, torch.Tensor)]
    wanted = [result.sum() for result in tensors if result.requires_grad]
    gradients = torch.autograd.grad(sum(wanted), x)[0].tolist() if wanted and x.requires_grad else None
    told = [result.tolist() if isinstance(result, torch.Tensor) else result for result in results]
    return told, gradients, [result._is_view() for result in tensors], list(SEEN)


ONE_GRAPH = [saves, several, nested, has_setup, reads_globals, is_once, two_of_its_results]
OTHERS = [raises, gives_input, gives_view, in_place, tells_context, asks_name, unhelpful, by_keyword, notes, keeps_list, has_list]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("function", ONE_GRAPH + OTHERS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("backend", BACKENDS, ids=["eager", "aot_eager", "own"])
def test_does_what_it_does_under_torch(backend, function, grad, requires_grad):
    compiled = evalframe.torch.compile(function, backend=backend)
    for number in range(3):
        x = torch.linspace(-1, 1 + number, 4, requires_grad=requires_grad)
        with torch.set_grad_enabled(grad):
            assert outcome(compiled, x) == outcome(function, x)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("function", ONE_GRAPH, ids=lambda function: function.__name__)
def test_is_one_graph(function, grad):
    compiled = evalframe.torch.compile(function, backend="eager", fullgraph=True)
    with torch.set_grad_enabled(grad):
        for _ in range(2):
            compiled(torch.linspace(0, 1, 3, requires_grad=True))
    (graph,) = evalframe.torch.graph_modules(compiled)
    assert not any("apply" in str(node.target) for node in graph.graph.nodes)


def test_is_a_call_of_the_graph():
    compiled = evalframe.torch.compile(saves, backend="eager")
    compiled(torch.ones(3, requires_grad=True))
    (graph,) = evalframe.torch.graph_modules(compiled)
    assert [str(node.name) for node in graph.graph.nodes] == [
        "x", "add", "_set_grad_enabled", "mul", "tanh", "_set_grad_enabled_1", "finish_saves", "mul_1", "output",
    ]


def test_goes_backward_twice():
    compiled = evalframe.torch.compile(saves, backend="eager")
    x = torch.linspace(-1, 1, 4, requires_grad=True)

    def second(function):
        (first,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        return torch.autograd.grad((first**2).sum(), x)[0].tolist()

    for _ in range(3):
        assert second(compiled) == second(saves)


def test_nodes_of_gradients_have_the_name_of_the_class():
    compiled = evalframe.torch.compile(lambda x: Saves.apply(x), backend="eager")
    x = torch.ones(2, requires_grad=True)
    for _ in range(2):
        y = compiled(x)
        assert y.grad_fn.name() == Saves.apply(x).grad_fn.name() == "SavesBackward"
        assert y.grad_fn.scale == 2.0 and y.grad_fn.saved_tensors[0] is x


@pytest.mark.parametrize("backend", BACKENDS, ids=["eager", "aot_eager", "own"])
def test_another_backward_is_seen(backend):
    global SCALE, _scaled
    compiled = evalframe.torch.compile(reads_globals, backend=backend)
    x = torch.ones(2, requires_grad=True)

    def gradient(called=compiled):
        return torch.autograd.grad(called(x).sum(), x)[0].tolist()

    helper, backward = _scaled, ReadsGlobals.backward
    try:
        for SCALE in (3.0, 5.0, 3.0):
            assert gradient() == gradient(reads_globals) == [2 * SCALE] * 2
        _scaled = torch.neg
        assert gradient() == [-2.0, -2.0]
        ReadsGlobals.backward = staticmethod(lambda ctx, given: given * 10)
        assert gradient() == [20.0, 20.0]
    finally:
        SCALE, _scaled, ReadsGlobals.backward = 3.0, helper, staticmethod(backward)
    assert gradient() == [6.0, 6.0]


def test_what_goes_backward_elsewhere_is_left_to_torch():
    """It notes something, of which a compiled graph would know nothing."""
    compiled = evalframe.torch.compile(notes, backend="aot_eager")
    for number in range(1, 4):
        SEEN.clear()
        x = torch.ones(2, requires_grad=True)
        torch.autograd.grad(compiled(x).sum(), x)
        assert SEEN == [0], number
    assert any("Notes" in str(one) or "apply" in str(one) for one in evalframe.torch.explain(compiled)(x).breaks)


def test_versions_of_what_is_written_into_are_torchs():
    def function(x):
        y = x + 1
        InPlace.apply(y)
        return y._version

    compiled = evalframe.torch.compile(function, backend="eager")
    with torch.no_grad():
        for _ in range(3):
            assert compiled(torch.ones(2)) == function(torch.ones(2))


def test_another_forward_is_seen():
    compiled = evalframe.torch.compile(saves, backend="eager")
    x, before = torch.ones(3), Saves.forward
    with torch.no_grad():
        compiled(x)
        try:
            Saves.forward = staticmethod(lambda ctx, x: x * 5)
            assert torch.equal(compiled(x), saves(x))
        finally:
            Saves.forward = staticmethod(before)
        assert torch.equal(compiled(x), saves(x))


def test_forward_gradients_are_torchs():
    def function(x):
        return HasJvp.apply(x) + 1

    compiled = evalframe.torch.compile(function, backend="eager")
    x, tangent = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0])
    with torch.no_grad():
        compiled(x)
        for called in (function, compiled):
            with forward_ad.dual_level():
                value = forward_ad.unpack_dual(called(forward_ad.make_dual(x, tangent)))
                assert value.tangent.tolist() == [7.0, 7.0]


def test_functions_and_modules_are_compared_by_place():
    def function(x, chosen):
        y = x + 1
        if chosen != saves:
            y = y * 3
        return y if torch == torch.nn else y - 1

    compiled = evalframe.torch.compile(function, backend="eager", fullgraph=True)
    x = torch.ones(2)
    for chosen in (saves, several, saves, nested):
        assert torch.equal(compiled(x, chosen), function(x, chosen))
