"""torch.utils.checkpoint: one graph, whose module is run again when gradients are asked for, as the function would be."""

import functools

import pytest
import torch
import torch.utils.checkpoint as torch_checkpoint
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import evalframe.torch

pytestmark = pytest.mark.torch

layer = torch.nn.Linear(8, 8)
normalisation = torch.nn.BatchNorm1d(8)
recurrent, total = torch.nn.LSTM(8, 8), torch.zeros(())
kept = functools.partial(checkpoint, use_reentrant=False)


def one_argument(x):
    return checkpoint(lambda y: layer(y).relu(), x, use_reentrant=False) + 1


def several_results(x):
    scale = x * 2

    def inner(y, *, factor=1):
        return torch.dropout(layer(y), 0.5, True) * scale + factor, {"sum": [y.sum(), 3]}

    first, second = checkpoint(inner, x, factor=3, use_reentrant=False)
    return first.relu() + second["sum"][0] * second["sum"][1]


def in_a_loop(x):
    for _ in range(3):
        x = kept(functools.partial(layer.__call__), x)
    return x


def one_in_another(x):
    def inner(y):
        return checkpoint(lambda z: layer(z).tanh(), y, use_reentrant=False).exp() * 2

    return checkpoint(inner, x, use_reentrant=False).sum() * x


def without_random_state(x):
    return checkpoint(lambda y: layer(y).sigmoid(), x, use_reentrant=False, preserve_rng_state=False)


def of_partials(x):
    function = functools.partial(functools.partial(torch.addcmul, x, x), value=0.5)
    return checkpoint(functools.partial(function, tensor2=x + 1), use_reentrant=False).sin()


def in_turn(x):
    layers = torch.nn.Sequential(layer, torch.nn.ReLU(), layer, torch.nn.Tanh())
    return checkpoint_sequential(layers, 2, x, use_reentrant=False)


def switched(x):
    with torch.no_grad():
        return checkpoint(lambda y: layer(y).relu(), x, use_reentrant=False)


def with_drawing_handled(x):
    try:
        return checkpoint(lambda y: torch.dropout(layer(y).exp(), 0.5, True), x, use_reentrant=False)
    except ValueError:
        return x


def writes_into_its_own(x):
    def inner(y):
        z = y * 2
        z += 1
        z *= y
        return z.sin()

    return checkpoint(inner, x, use_reentrant=False)


WHOLE = [one_argument, several_results, in_a_loop, one_in_another, without_random_state, of_partials, with_drawing_handled, writes_into_its_own]


def breaks_inside(x):
    def inner(y):
        y = layer(y)
        print(end="")
        return y.relu()

    return checkpoint(inner, x * 2, use_reentrant=False) + 1


def raises_inside(x):
    def inner(y):
        y = layer(y).exp()
        return y @ torch.ones(3)

    try:
        return checkpoint(inner, x, use_reentrant=False)
    except RuntimeError:
        return x.sin()


def handles_inside(x):
    def inner(y):
        try:
            return y.exp() @ torch.ones(3)
        except RuntimeError:
            return y.exp().sin()

    return checkpoint(inner, x * 2, use_reentrant=False) + 1


def writing_handled(x):
    def inner(y):
        total.add_(1)
        return layer(y).exp() * total.detach().clone()

    try:
        return checkpoint(inner, x, use_reentrant=False)
    except ValueError:
        return x


def writes_into_what_others_made(x):
    scale = torch.zeros(8)

    def inner(y):
        scale.add_(1)
        return y * scale.clone()

    return checkpoint(inner, x, use_reentrant=False)


def normalises(x):
    return checkpoint(lambda y: normalisation(layer(y)), x, use_reentrant=False)


def draws_anew(x):
    return checkpoint(lambda y: torch.dropout(y, 0.5, True), x, use_reentrant=False, preserve_rng_state=False)


def reentrant(x):
    return checkpoint(lambda y: layer(y).exp(), x, use_reentrant=True) + 1


def with_a_recurrent_layer(x):
    return checkpoint(lambda y: recurrent(y[:, None])[0].exp(), x, use_reentrant=False)


PARTLY = [breaks_inside, raises_inside, handles_inside, writing_handled, writes_into_what_others_made, normalises, draws_anew, reentrant, switched, in_turn, with_a_recurrent_layer]


def outcome(function, x):
    """Result, gradients, and how many tensors autograd keeps: what a checkpoint is for."""
    kept_tensors = []

    def keep(tensor):
        kept_tensors.append(tensor.numel())
        return tensor

    layer.zero_grad()
    total.zero_()
    normalisation.reset_running_stats()
    x.grad = None
    torch.manual_seed(7)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = function(x)
        kept_forward = sorted(kept_tensors)
    if result.requires_grad:
        result.sum().backward()
    of_layer = None if layer.weight.grad is None else layer.weight.grad.clone()
    return result.detach().clone(), None if x.grad is None else x.grad.clone(), of_layer, kept_forward


def same(left, right, exact=True):
    if left is None or right is None:
        return left is right
    return torch.equal(left, right) if exact else torch.allclose(left, right, atol=1e-6)


def hooks():
    return torch._C._autograd._top_saved_tensors_default_hooks(False)


@pytest.mark.parametrize("function", WHOLE + PARTLY, ids=lambda function: function.__name__)
def test_eager_has_the_bits_of_torch_and_keeps_as_little(function):
    compiled = evalframe.torch.compile(function, backend="eager")
    x = torch.linspace(-1, 1, 32).reshape(4, 8).requires_grad_()
    for turn in range(4):
        plain, captured = outcome(function, x), outcome(compiled, x)
        assert all(same(left, right) for left, right in zip(plain[:3], captured[:3], strict=True))
        # What a module of a graph is given is kept, where a function has it in its cells.
        assert plain[3] == captured[3] or (function in WHOLE and turn > 0)
        assert hooks() is None


@pytest.mark.parametrize("function", WHOLE, ids=lambda function: function.__name__)
def test_it_is_one_graph(function):
    compiled = evalframe.torch.compile(function, backend="eager", fullgraph=True)
    for _ in range(3):
        compiled(torch.ones(4, 8, requires_grad=True))
    (module,) = evalframe.torch.graph_modules(compiled)
    assert sum(node.op == "call_module" for node in module.graph.nodes) == (3 if function is in_a_loop else 1)


@pytest.mark.parametrize("function", WHOLE + PARTLY, ids=lambda function: function.__name__)
def test_aot_autograd_takes_it_apart(function):
    compiled = evalframe.torch.compile(function, backend="aot_eager")
    x = torch.linspace(-1, 1, 32).reshape(4, 8).requires_grad_()
    draws = function in (several_results, with_drawing_handled)
    for _ in range(3):
        plain, captured = outcome(function, x), outcome(compiled, x)
        assert same(plain[0], captured[0], False)
        assert draws or all(same(left, right, False) for left, right in zip(plain[1:3], captured[1:3], strict=True))
        assert hooks() is None


def test_sizes_that_vary():
    compiled = evalframe.torch.compile(several_results, backend="aot_eager")
    for size in (4, 5, 7, 9):
        x = torch.linspace(-1, 1, 8 * size).reshape(size, 8).requires_grad_()
        assert same(outcome(several_results, x)[0], outcome(compiled, x)[0], False)
    assert len(evalframe.torch.graph_modules(compiled)) == 2


def test_the_module_is_run_again_for_gradients():
    ran = []

    def backend(module, inputs):
        (inner,) = (child for child in module.children())
        inner.graph_module.register_forward_pre_hook(lambda *_: ran.append(1))
        return module.forward

    compiled = evalframe.torch.compile(one_argument, backend=backend)
    for _ in range(2):
        ran.clear()
        compiled(torch.ones(4, 8, requires_grad=True)).sum().backward()
    assert len(ran) == 2


def test_nothing_that_is_computed_is_kept():
    def computes(x):
        return checkpoint(lambda y: layer(y).exp().sin().cos() * y, x, use_reentrant=False)

    compiled = evalframe.torch.compile(computes, backend="eager")
    x = torch.ones(4, 8, requires_grad=True)
    known = {tensor.data_ptr() for tensor in (x, layer.weight, layer.bias)}
    for _ in range(3):
        kept_tensors = []
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept_tensors.append(tensor) or tensor, lambda tensor: tensor):
            compiled(x)
        assert {tensor.data_ptr() for tensor in kept_tensors} <= known


def test_a_global_switch_is_seen():
    compiled = evalframe.torch.compile(one_argument, backend="eager")
    x = torch.ones(4, 8, requires_grad=True)
    compiled(x)
    with torch_checkpoint.set_checkpoint_early_stop(False):
        assert same(outcome(one_argument, x)[1], outcome(compiled, x)[1])
    assert same(outcome(one_argument, x)[1], outcome(compiled, x)[1])


def test_a_program_that_puts_another_one_in_its_place():
    compiled = evalframe.torch.compile(one_argument, backend="eager")
    x = torch.ones(4, 8, requires_grad=True)
    before = compiled(x)
    globals()["checkpoint"] = lambda function, y, use_reentrant: function(y) * 5
    try:
        assert same(compiled(x), one_argument(x))
        assert not same(compiled(x), before)
    finally:
        globals()["checkpoint"] = torch_checkpoint.checkpoint


@pytest.mark.parametrize("prints", [False, True])
def test_what_is_called_again_has_the_same_answer_about_compiling(prints):
    def asks(x):
        def inner(y):
            if prints:
                print(end="")
            return layer(y).exp().sin() if torch.compiler.is_compiling() else layer(y).exp()

        return checkpoint(inner, x, use_reentrant=False)

    compiled = evalframe.torch.compile(asks, backend="eager", is_compiling=True)
    x = torch.ones(4, 8, requires_grad=True)
    for _ in range(3):
        compiled(x).sum().backward()
    assert not torch.compiler.is_compiling()
