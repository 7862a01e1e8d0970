"""Models of PyTorch: outputs and gradients are those of eager."""

import copy

import pytest
import torch
from torch_models import ARCHITECTURES, MODELS

import evalframe.torch

pytestmark = pytest.mark.torch


# Called until their entries own only what they read.
SETTLED = ("bert", "t5", "mixtral")


def tensors(result):
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, dict):
        return [tensor for value in result.values() for tensor in tensors(value)]
    return [tensor for value in result for tensor in tensors(value)] if isinstance(result, (tuple, list)) else []


@pytest.mark.parametrize("name", ["pointwise", "toy", "perceptron", "encoder"])
def test_outputs_are_those_of_eager(name):
    function, args, kwargs = MODELS[name]()
    compiled = evalframe.torch.compile(function, backend="eager", max_entries=30)
    for _ in range(3):
        torch.manual_seed(1)
        wanted = function(*args, **kwargs)
        torch.manual_seed(1)
        got = compiled(*args, **kwargs)
        assert type(got) is type(wanted)
        assert tensors(wanted)
        assert all(torch.equal(a, b) for a, b in zip(tensors(got), tensors(wanted), strict=True))


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_outputs_of_transformers_are_those_of_eager(name):
    pytest.importorskip("transformers")
    if name == "xlnet" and torch.get_default_device().type != "cpu":
        pytest.skip("it makes tensors on the CPU, whatever the default device")
    function, args, kwargs = MODELS[name]()
    compiled = evalframe.torch.compile(function, backend="eager", max_entries=30)
    with torch.no_grad():
        wanted = function(*args, **kwargs)
        for _ in range(40 if name in SETTLED else 4):
            got = compiled(*args, **kwargs)
            assert type(got) is type(wanted)
            assert list(got) == list(wanted)
            assert tensors(wanted)
            assert all(torch.equal(a, b) for a, b in zip(tensors(got), tensors(wanted), strict=True))


@pytest.mark.parametrize("name", ["perceptron", "encoder"])
def test_gradients_are_those_of_eager(name):
    function, args, kwargs = MODELS[name]()
    other = copy.deepcopy(function)
    compiled = evalframe.torch.compile(function, backend="eager", max_entries=30)
    for _ in range(2):
        for module, call in ((function, compiled), (other, other)):
            torch.manual_seed(1)
            module.zero_grad()
            sum(tensor.float().pow(2).sum() for tensor in tensors(call(*args, **kwargs))).backward()
        pairs = list(zip(function.parameters(), other.parameters(), strict=True))
        assert any(a.grad is not None for a, _ in pairs)
        assert all((a.grad is None and b.grad is None) or torch.equal(a.grad, b.grad) for a, b in pairs)
