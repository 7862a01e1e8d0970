"""Random numbers: captured programs draw the same ones in the same order, wherever the generator comes from and the graph is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import leaving_before, one_graph_tests, same

X = np.linspace(-1.0, 2.0, 5)
RNG = np.random.default_rng(1)


def of_module(x: Any, seed: int) -> Any:
    return x + RNG.normal(size=x.shape) * 2, RNG.integers(0, 10), RNG.choice(x)


def made_here(x: Any, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    y = rng.normal(size=x.shape[0])
    rng.shuffle(y)
    return y + x, rng.uniform(-1, 1, 3), rng.permutation(4)


def given(x: Any, seed: int, rng: Any = None) -> Any:
    rng = rng or RNG
    return x + rng.standard_normal(x.shape) * rng.random()


def legacy(x: Any, seed: int) -> Any:
    np.random.seed(seed)
    state = np.random.RandomState(seed + 1)
    return np.random.rand(3) + np.random.normal(0, 1, 3), np.random.randint(5), state.rand(2)


FUNCTIONS = [of_module, made_here, given, legacy]


def draws(function: Callable[..., Any], leave_before: int = -1) -> str:
    """What some calls give, from one state of the module's generator."""
    RNG.bit_generator.state = np.random.default_rng(7).bit_generator.state
    with leaving_before(leave_before):
        return repr([function(X, seed) for seed in (1, 2, 3, 3)] + [RNG.random()])


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_draws_the_same_numbers(function: Callable[..., Any], backend: str) -> None:
    captured = evalframe.jit(function, backend=backend)
    for _ in range(3):
        assert draws(captured) == draws(function)
    for node in range(16):
        assert draws(captured, node) == draws(function), node


test_is_one_graph = one_graph_tests([of_module, made_here, legacy], (X, 3))


def test_generators_may_be_another_one_in_each_call() -> None:
    captured = evalframe.jit(given)
    for seed in range(6):
        wanted = given(X, seed, np.random.default_rng(seed))
        assert np.array_equal(captured(X, seed, np.random.default_rng(seed)), wanted)
