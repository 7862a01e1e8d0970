"""What programs do around tensors every day: eager's bits, and, where nothing else is said, one graph as under torch.compile."""

import pytest
import torch
from torch import nn

import evalframe.torch

pytestmark = pytest.mark.torch


def cells(kind):
    torch.manual_seed(0)
    cell, head = kind(4, 4), nn.Linear(4, 2)

    def program(x):
        state = (x.new_zeros(3, 4), x.new_zeros(3, 4)) if kind is nn.LSTMCell else x.new_zeros(3, 4)
        found = []
        for step in range(4):
            state = cell(x[step], state)
            found.append(head(state[0] if kind is nn.LSTMCell else state))
        return torch.stack(found)

    return program, [*cell.parameters(), *head.parameters()]


def modes_inside():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 4)))

    def program(x):
        model.eval()
        with torch.no_grad():
            target = model(x[0])
        model.train()
        return model(x[0]) + target

    return program, [*model.parameters(), *model.buffers()]


def flags_of_a_module():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.inner, self.busy, self.last = nn.Linear(4, 4), False, None
            self.register_buffer("mean", torch.zeros(4))

        def forward(self, x):
            self.busy = True
            try:
                x = self.inner(x)
                self.mean = self.mean * 0.9 + x.detach().mean((0, 1)) * 0.1
                self.last = x.shape
                return x - self.mean
            finally:
                self.busy = False

    model = Counts()
    return model, [*model.parameters(), *model.buffers()]


def normed(norm):
    torch.manual_seed(0)
    model = nn.Sequential(norm(nn.Linear(4, 4)), nn.ReLU(), norm(nn.Linear(4, 4)))
    return model, [*model.parameters(), *model.buffers()]


def data_of_weights():
    torch.manual_seed(0)
    model, mean = nn.Linear(4, 4), nn.Linear(4, 4)

    def program(x):
        for parameter, kept in zip(model.parameters(), mean.parameters()):
            kept.data.mul_(0.9).add_(parameter.data, alpha=0.1)
        return mean(x) + model(x).data

    return program, [*mean.parameters()]


RECIPES = {
    "LSTM cells": lambda: cells(nn.LSTMCell),
    "GRU cells": lambda: cells(nn.GRUCell),
    "plain cells": lambda: cells(nn.RNNCell),
    "weight norm": lambda: normed(nn.utils.parametrizations.weight_norm),
    "data of weights": data_of_weights,
}
IN_PIECES = {
    "modes inside": modes_inside,
    "flags of a module": flags_of_a_module,
    "spectral norm": lambda: normed(nn.utils.parametrizations.spectral_norm),
}


def came_to(recipe, wraps):
    program, tensors = (RECIPES | IN_PIECES)[recipe]()
    called, found = wraps(program), []
    torch.manual_seed(1)
    for turn in range(4):
        x = torch.linspace(-1, 2, 48).reshape(4, 3, 4) + turn
        result = called(x)
        if result.requires_grad:
            result.square().sum().backward()
        found += [result.detach(), *(tensor.detach().clone() for tensor in tensors)]
        found += [tensor.grad.clone() for tensor in tensors if tensor.grad is not None]
    return found, called


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("recipe", [*RECIPES, *IN_PIECES])
def test_recipes(recipe, backend):
    expected, _ = came_to(recipe, lambda program: program)
    found, captured = came_to(recipe, lambda program: evalframe.torch.compile(program, backend=backend))
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other) if backend == "eager" else torch.allclose(one, other, atol=1e-5)
    assert recipe in IN_PIECES or not evalframe.torch.explain(captured)(torch.ones(4, 3, 4)).breaks


class Meter:
    def __init__(self):
        self.sum, self.count, self.history = 0.0, 0, []

    def add(self, value, count=1):
        self.sum += value * count
        self.count += count
        self.history.append(value)

    def mean(self):
        return self.sum / max(self.count, 1)


STEPS = [0]


def metered(meter):
    def program(x):
        STEPS[0] += 1
        meter.add(x.mean().item(), len(x))
        meter.add(x.abs().max().item())
        return x * 2, meter.mean()

    return program


def counted(model):
    def program(x):
        model.count += 1
        model.sum *= 0.9
        return x * model.count + model.sum

    return program


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("make", [metered, counted])
def test_what_is_counted_is_an_input_in_the_end(make, backend):
    """Where each call finds other numbers, they aren't constants of ever more graphs."""

    def run(wraps):
        STEPS[0] = 0
        meter = Meter()
        meter.sum = 1.0
        called = wraps(make(meter))
        return [called(torch.linspace(-1, 2, 6) + turn) for turn in range(24)], vars(meter), called

    expected, kept, _ = run(lambda program: program)
    found, kept_too, captured = run(lambda program: evalframe.torch.compile(program, backend=backend))
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert kept_too == kept
    assert len(evalframe.torch.explain(captured)(torch.ones(6)).graphs) < 4


def asks_for_buffers(x):
    return x + isinstance(x, nn.Buffer) + 2 * isinstance(x * 2, nn.Buffer) + 4 * isinstance(3, nn.Buffer)


def test_buffers_are_told_from_tensors():
    captured, x = evalframe.torch.compile(asks_for_buffers, backend="eager"), torch.ones(3)
    assert not evalframe.torch.explain(captured)(x).breaks
    for given in (x, nn.Buffer(torch.ones(3)), x, nn.Parameter(x)):
        assert torch.equal(captured(given), asks_for_buffers(given))
