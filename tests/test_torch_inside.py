"""What programs do with modules, devices and hooks inside of captured functions, and constants and `out=` that graphs may get wrong."""

import copy

import pytest
import torch

import evalframe.torch

pytestmark = pytest.mark.torch

torch.manual_seed(0)
NET = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 4))
PARAMETER = torch.nn.Parameter(torch.ones(4))


def state(x):
    found = NET.state_dict()
    return x @ found["0.weight"] + found["2.bias"], list(found)


def changed_state(x):
    NET.load_state_dict({name: value * 2 for name, value in NET.state_dict().items()})
    return NET(x)


def copied(x):
    other = copy.deepcopy(NET)
    other[0].weight.data.add_(1)
    return other(x) - NET(x)


def copied_tensor(x):
    y = copy.deepcopy(x.detach())
    y += 1
    return x * y


def on_device(x):
    with torch.device("meta"):
        made = torch.ones(4)
    return x + torch.ones_like(made, device="cpu"), made.device.type


def hook(x):
    handle = NET[0].register_forward_hook(lambda module, args, output: output * 2)
    try:
        return NET(x)
    finally:
        handle.remove()


def hook_in_front(x):
    handle = NET[0].register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    y = NET(x)
    handle.remove()
    return y * 2


def hook_of_a_tensor(x):
    y = x * 2
    if y.requires_grad:
        y.register_hook(lambda gradient: gradient * 3)
    return y * y


def out(x):
    y = x * 2
    same = torch.add(y, y, out=y) is y
    part = y[0]
    torch.mul(part, part, out=part)
    return y * 3, same


def out_of_an_argument(x):
    torch.add(x, x, out=x)
    return x + 1


@torch.no_grad()
def out_of_a_parameter(x):
    torch.add(PARAMETER, PARAMETER, out=PARAMETER)
    return x * PARAMETER


def out_of_another_size(x):
    y = torch.empty(0)
    torch.mul(x, 2, out=y)
    return y


def complex_numbers(x):
    return x * complex(-0.0, 1.0), x * -1j, complex(1.0, -0.0) * (x * complex(-0.0, -0.0)), x * complex(0.0, float("inf"))


def filled(x):
    return x.sum() + 1, torch.full((2,), complex(0.0, -0.0)), torch.full((2,), -0.0) * x.sum(), x * float("nan") - 0.0


def large_bounds(x):
    return x[: 2**63] + 1, x[-(2**70) : 2**65 : 1] * 2, x[2**62 :].sum() + x


FUNCTIONS = [
    state,
    changed_state,
    copied,
    copied_tensor,
    on_device,
    hook,
    hook_in_front,
    hook_of_a_tensor,
    out,
    out_of_an_argument,
    out_of_a_parameter,
    out_of_another_size,
    complex_numbers,
    filled,
    large_bounds,
]
ONE_GRAPH = [out, out_of_an_argument, out_of_a_parameter, out_of_another_size, large_bounds]


def bits(result):
    if isinstance(result, tuple):
        return [bits(one) for one in result]
    if not isinstance(result, torch.Tensor):
        return result
    plain = result.detach().resolve_conj().resolve_neg()
    return plain.shape, plain.dtype, (torch.view_as_real(plain) if plain.is_complex() else plain).numpy().tobytes()


def outcomes(function, gradients):
    """Of three calls, each as if it were the first."""
    before, found = copy.deepcopy(NET.state_dict()), []
    for _ in range(3):
        NET.load_state_dict(before)
        PARAMETER.data.fill_(1)
        x = torch.arange(12.0).reshape(3, 4).sub(5).requires_grad_(gradients)
        try:
            result = function(x)
            first = result[0] if isinstance(result, tuple) else result
            gradient = torch.autograd.grad(first.sum().abs(), x)[0] if gradients and first.requires_grad else None
        except RuntimeError as error:
            found.append(str(error).partition(" is at version ")[0])
            continue
        found.append([bits((result, x, gradient)), *map(bits, NET.state_dict().values()), len(NET[0]._forward_hooks)])
    NET.load_state_dict(before)
    return found


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_it_is_as_in_python(function, backend, gradients):
    assert outcomes(evalframe.torch.compile(function, backend=backend), gradients) == outcomes(function, gradients)


@pytest.mark.parametrize("function", ONE_GRAPH, ids=lambda function: function.__name__)
def test_it_is_one_graph(function):
    captured = evalframe.torch.compile(function, backend="aot_eager", fullgraph=True)
    assert outcomes(captured, False) == outcomes(function, False)
    assert len(evalframe.torch.graph_modules(captured)) == 1


def test_what_ends_graphs_is_named():
    for function in (state, copied, on_device, hook):
        captured = evalframe.torch.compile(function, backend="eager")
        captured(torch.ones(3, 4))
        breaks = evalframe.torch.explain(captured)(torch.ones(3, 4)).breaks
        assert breaks and all(one.reason and one.hint for one in breaks)
