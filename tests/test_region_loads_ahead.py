"""Many turns of native loops with ways through them: what either way loads is loaded in front of the branch."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from region_programs import check, copies

pytestmark = pytest.mark.usefixtures("native_loops_at_once")

R = np.random.default_rng(21)


def upwind(q: Any, w: Any, flux: Any) -> None:
    for i in range(1, len(q) - 1):
        if w[i] > 0.0:
            flux[i] = w[i] * (q[i] - q[i - 1])
        else:
            flux[i] = w[i] * (q[i + 1] - q[i])


def in_place(q: Any, w: Any, flux: Any) -> None:
    """What one turn stores, the next one loads."""
    for i in range(1, len(q) - 1):
        if w[i] > 0.5:
            q[i] -= w[i] * q[i - 1]
        elif flux[i] > 0.5:
            q[i] += q[i + 1] - q[i - 1]


def stored_before(q: Any, w: Any, flux: Any) -> None:
    """What a turn stores in front of the branch, it loads behind it."""
    for i in range(1, len(q) - 1):
        flux[i] = q[i] * 0.5
        if w[i] > 0.5:
            q[i] = flux[i] + flux[i - 1]
        else:
            q[i] = w[i] - flux[i]


def known_between(q: Any, w: Any, flux: Any) -> None:
    """Some of what a way loads is what it has stored itself: that is no load, and others follow it."""
    for i in range(1, len(q) - 1):
        if w[i] > 0.5:
            q[i] = flux[i - 1] + 1.0
            q[i] += w[i]
            flux[i] = q[i] - q[i + 1] * w[i + 1]
        else:
            flux[i] = q[i - 1]


def stored_between(q: Any, w: Any, flux: Any) -> None:
    for i in range(1, len(q) - 1):
        if w[i] > 0.3:
            flux[i + 1] = q[i] - w[i]
        if w[i] > 0.6:
            q[i] = flux[i + 1] + q[i + 1]


def quotients(q: Any, w: Any, flux: Any) -> None:
    """NumPy warns of those that are computed, and of no others."""
    for i in range(1, len(q) - 1):
        if w[i] > 0.5:
            flux[i] = q[i] / w[i - 1]
        else:
            flux[i] = q[i + 1] / (q[i] - 2.0)


def around(q: Any, w: Any, flux: Any) -> None:
    n = len(q)
    for i in range(n):
        if w[i] > 0.5:
            flux[i] = q[(i + 1) % n] - q[i]
        else:
            flux[i] = q[i] - q[(i - 1) % n]


def beyond(q: Any, w: Any, flux: Any) -> None:
    """Some of what isn't taken is out of range."""
    for i in range(len(q)):
        if w[i] > 0.5:
            flux[i] = q[i + 3]
        else:
            flux[i] = q[i - 3]


FUNCTIONS: list[Callable[..., Any]] = [upwind, in_place, stored_before, known_between, stored_between, quotients, around, beyond]


def arguments(n: int, dtype: type = np.float64) -> tuple[Any, Any, Any]:
    return (R.random(n) * 4).astype(dtype), R.random(n).astype(dtype), np.zeros(n, dtype)


@pytest.mark.mostly_slow(5)
@pytest.mark.parametrize("turns", [5, 2**62])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_loaded_ahead_is_what_the_way_would_load(function: Callable[..., Any], turns: int) -> None:
    calls: list[Any] = [arguments(n) for n in (60, 60, 60, 60, 0, 1, 2, 3, 5, 200)]
    for place in (0, 1, 2, 30, 57, 58, 59):
        for one, other in ((0.0, 0.0), (2.0, 0.9), (np.nan, 1.0), (np.inf, 0.0), (1e308, 1e-300)):
            q, w, flux = arguments(60)
            q[place], w[place] = one, other
            calls.append((q, w, flux))
    shared, few = arguments(60), arguments(40)
    calls += [(shared[0], shared[1], shared[0]), (shared[0][1:], shared[1][1:], shared[0][:-1]), (shared[0], few[1], shared[2]), (few[0], shared[1], few[2])]
    calls += [arguments(60, np.float32), tuple(one[::2] for one in arguments(60)), tuple(one[::-1] for one in arguments(60))]
    inside = arguments(70)
    inside[1][:4], inside[1][-4:] = 0.9, 0.1
    calls.append(inside)
    _core.set_region_turns(turns)
    try:
        check(function, *calls)
    finally:
        _core.set_region_turns(2**62)


def elements_ahead(function: Callable[..., Any]) -> int:
    """How many elements are loaded into variables."""
    captured = evalframe.jit(function)
    given = arguments(60)
    for _ in range(5):
        captured(*copies(given))
    loops = [loop for loop in evalframe.explain(captured)(*copies(given)).loops if loop.native]
    return max(len(set(re.findall(r"ptr (%\S+\.element\d+)$", loop.ir, re.MULTILINE))) for loop in loops)


def test_elements_are_loaded_ahead_where_nothing_is_stored_before() -> None:
    assert elements_ahead(upwind) > 0
    assert elements_ahead(in_place) > 0
    assert elements_ahead(around) > 0
    assert elements_ahead(stored_before) == 0
