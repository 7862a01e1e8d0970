"""Functions of torch's that can't be part of a graph: each is one break, whatever it does inside, and does what it does in eager."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import evalframe.torch

pytestmark = pytest.mark.torch

X = torch.linspace(-1, 1, 12).reshape(3, 4)


def layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4))


def penalty(model):
    def of_gradients(x):
        y = model(x)
        gradient, *_ = torch.autograd.grad(y.sum(), list(model.parameters()), create_graph=True)
        return y.mean() + (gradient.norm(dim=1) - 1).square().mean()

    return of_gradients


def seeded(model):
    def draws(x):
        y = model(x)
        torch.manual_seed(7)
        return y + torch.rand(4)

    return draws


def sums_of_state(model):
    def sums(x):
        for name, value in model.state_dict().items():
            x = x + value.sum() * len(name)
        return model(x)

    return sums


def averages(model):
    average = torch.optim.swa_utils.AveragedModel(model)

    def averaged(x):
        average.update_parameters(model)
        return average(x) + model(x)

    return averaged


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("made", [penalty, seeded, sums_of_state, averages])
def test_each_is_one_break(made, backend):
    plain, captured = made(layers()), evalframe.torch.compile(made(layers()), backend=backend)
    for number in range(4):
        torch.testing.assert_close(captured(X + number), plain(X + number), rtol=0, atol=0 if backend == "eager" else 1e-6)
    fresh = evalframe.torch.compile(made(layers()), backend=backend)
    fresh(X)
    (found,) = evalframe.torch.explain(fresh)(X).breaks
    assert "marked" in str(found)


def test_a_scaled_step_is_that_of_eager():
    def made(wraps):
        model = layers()
        steps = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=2)

        def step(x):
            steps.zero_grad()
            loss = F.mse_loss(model(x), x)
            scaler.scale(loss).backward()
            scaler.step(steps)
            scaler.update()
            return loss

        return model, scaler, wraps(step)

    plain, plain_scaler, step = made(lambda step: step)
    model, scaler, captured = made(lambda step: evalframe.torch.compile(step, backend="eager"))
    for number in (0, 1, 2, float("inf"), 3, 4):
        assert torch.equal(step(X + number), captured(X + number)) or number == float("inf")
        assert scaler.get_scale() == plain_scaler.get_scale()
        for one, other in zip(plain.parameters(), model.parameters(), strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("foreach", [False, True])
def test_gradients_are_set_to_zero_in_a_graph(foreach):
    def made(wraps):
        model = layers()
        steps = torch.optim.SGD(model.parameters(), 0.1, foreach=foreach)
        model(X).sum().backward()

        def clears(x):
            steps.zero_grad(set_to_none=False)
            return model(x), [parameter.grad for parameter in model.parameters()]

        return model, wraps(clears)

    (plain, clears), (model, captured) = made(lambda clears: clears), made(lambda clears: evalframe.torch.compile(clears, backend="eager"))
    for number in range(3):
        (expected, zeros), (found, cleared) = clears(X + number), captured(X + number)
        assert torch.equal(expected, found)
        assert all(torch.equal(one, other) and not other.any() for one, other in zip(zeros, cleared, strict=True))
        assert all(parameter.grad is gradient for parameter, gradient in zip(model.parameters(), cleared, strict=True))
        for each in (plain, model):
            each(X).square().sum().backward()
    before = len(evalframe.torch.graph_modules(captured))
    captured(X)
    assert len(evalframe.torch.graph_modules(captured)) == before


def test_a_leaf_without_gradients_is_known_as_such():
    def asks(x):
        y = x.detach() * 2
        return y + 1, x.is_leaf, x.grad_fn, y.grad_fn, y.is_leaf, y.requires_grad_(False) is y

    captured = evalframe.torch.compile(asks, backend="eager")
    for x in (X, X.clone().requires_grad_(), X * 2, X.clone().requires_grad_() * 2):
        found, expected = captured(x), asks(x)
        assert torch.equal(found[0], expected[0]) and found[1] is expected[1] and found[2] is expected[2]
        assert found[3:] == expected[3:]
    fresh = evalframe.torch.compile(asks, backend="eager", fullgraph=True)
    fresh(X)
