"""Native loops that draw random numbers: each is drawn once, in its turn."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import outcome

pytestmark = pytest.mark.usefixtures("native_loops_at_once")


def gibbs(rng: Any, n: int, scale: float) -> Any:
    samples = np.empty((n, 2))
    x, y = 0.0, 0.0
    for i in range(n):
        x = rng.gamma(3.0, scale / (y * y + 4.0))
        y = rng.normal(1.0 / (1.0 + x), 1.0 / np.sqrt(2.0 * x + 2.0))
        samples[i] = x, y
    return samples


def walk(rng: Any, n: int, scale: float) -> Any:
    place, highest, steps = 0.0, -1.0, 0
    path = np.zeros(n)
    for i in range(n):
        if rng.random() < 0.5:
            place += rng.exponential(scale)
        else:
            place -= rng.uniform(0.0, 2.0)
            steps += 1
        highest = max(highest, place)
        path[i] = place
    return path, highest, steps


def urns(rng: Any, n: int, scale: float) -> Any:
    counts = np.zeros(12, dtype=np.int64)
    total = 0
    for i in range(n):
        where = rng.integers(0, 12)
        counts[where] += rng.poisson(3.0 * scale)
        total += rng.binomial(10, 0.3)
        counts[i % 12] += 1
    return counts, total


def powers(rng: Any, n: int, scale: float) -> Any:
    a = np.ones(5)
    for i in range(n):
        a[i % 5] = a[i % 5] * (scale * rng.normal()) + rng.standard_normal()
        a[(i + 1) % 5] *= rng.random() * scale
    return a


def from_global(rng: Any, n: int, scale: float) -> Any:
    np.random.seed(int(rng.integers(0, 1000)))
    inside = 0
    for _ in range(n):
        x = np.random.rand()
        y = np.random.uniform(-scale, scale)
        inside += x * x + y * y < 1.0
    return inside, np.random.get_state()[2]


def means(rng: Any, n: int, scale: float) -> Any:
    """A draw in the midst of an expression on arrays."""
    a = np.linspace(0.0, 1.0, 7)
    for _ in range(n):
        a[1:] = a[:-1] * rng.random() + np.roll(a, 2)[1:] * scale * 0.5
    return a


FUNCTIONS = [gibbs, walk, urns, powers, from_global, means]


def told(function: Callable[..., Any], seed: int, n: int, scale: float) -> Any:
    """The outcome, and where the generator stands."""
    rng = np.random.default_rng(seed)
    with np.printoptions(precision=17):
        return repr(outcome(function, rng, n, scale)[0]), rng.bit_generator.state, rng.random()


@pytest.mark.parametrize("turns", [1, 3, 2**62])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_draws_are_those_of_plain_python(function: Callable[..., Any], turns: int) -> None:
    _core.set_region_turns(turns)
    captured = evalframe.jit(function)
    for seed, n in enumerate((90, 90, 90, 3, 0, 300, 90)):
        assert told(captured, seed, n, 1.0) == told(function, seed, n, 1.0)
    assert _core.jit_counters(captured)["native_turns"] > 50 or turns == 1, _core.jit_counters(captured)


@pytest.mark.parametrize("function", [gibbs, walk, urns])
def test_what_a_draw_raises(function: Callable[..., Any]) -> None:
    captured = evalframe.jit(function)
    for seed, scale in enumerate((1.0, 1.0, 1.0, -1.0, 1.0, np.nan, 1.0)):
        assert told(captured, seed, 90, scale) == told(function, seed, 90, scale)


@pytest.mark.parametrize("state", ["warn", "raise", "ignore"])
def test_conditions_behind_a_draw(state: str) -> None:
    captured = evalframe.jit(powers)
    for seed, scale in enumerate((1.0, 1.0, 1.0, 1e30, 1.0, 1e100, 1e300)):
        with np.errstate(all=state), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert told(captured, seed, 120, scale) == told(powers, seed, 120, scale)


def test_generators_of_other_kinds() -> None:
    captured = evalframe.jit(walk)
    for seed in range(4):
        told(captured, seed, 90, 1.0)

    class Fixed:
        def random(self) -> float:
            return 0.25

        def exponential(self, scale: float) -> float:
            return scale

    for make in (lambda: np.random.RandomState(3), lambda: np.random.Generator(np.random.MT19937(3)), Fixed):
        for _ in range(3):
            mine, theirs = make(), make()
            assert repr(captured(mine, 90, 1.0)) == repr(walk(theirs, 90, 1.0))


def turn_of(draws: int) -> Callable[..., Any]:
    turn = "".join(f"        a[{i}] = a[{(i * 7 + 1) % draws}] * 0.5 + rng.random()\n" for i in range(draws))
    namespace: dict[str, Any] = {}
    exec(f"def run(rng, a, n):\n    for k in range(n):\n{turn}", namespace)
    return namespace["run"]  # type: ignore[no-any-return]


def test_a_turn_of_many_draws_isnt_written_anew_for_each() -> None:
    seconds = {}
    for draws in (20, 120):
        run, took = turn_of(draws), []
        plain = np.ones(draws)
        run(np.random.default_rng(1), plain, 20)
        for _ in range(4):  # the code is at hand from the second on
            captured, a = evalframe.jit(run), np.ones(draws)
            begin = time.process_time()
            captured(np.random.default_rng(1), a, 20)
            took.append(time.process_time() - begin)
            assert (a == plain).all()
            assert _core.jit_counters(captured)["native_turns"] > 10
        seconds[draws] = min(took)
    assert seconds[120] < 30 * seconds[20]
