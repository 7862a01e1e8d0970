"""Functions that a loop calls and that branch on its data: each way through them is native."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe

pytestmark = pytest.mark.usefixtures("native_loops_at_once")

R = np.random.default_rng(5)


def limited(value: Any, low: float, high: float) -> Any:
    if value < low:
        return low
    if value > high:
        return high
    return value


def huber(residual: Any, delta: float) -> Any:
    size = abs(residual)
    return 0.5 * residual * residual if size <= delta else delta * (size - 0.5 * delta)


def sign(value: Any) -> int:
    return 1 if value > 0 else -1 if value < 0 else 0


def weight(value: Any) -> Any:
    return huber(value, 0.5) if value and not value > 0.9 else limited(value, -1.0, 0.95)


def positive(value: Any) -> Any:
    if value < 0.0:
        raise ValueError(f"{value} is negative")
    return value


def clipped(x: Any, out: Any) -> Any:
    for i in range(len(x)):
        out[i] = limited(x[i], -0.5, 0.5)


def loss(x: Any, _: Any) -> Any:
    total = 0.0
    for value in x:
        total += huber(value, 0.3)
    return total


def signs(x: Any, out: Any) -> Any:
    count = 0
    for i in range(len(x)):
        count += sign(x[i])
        out[i] = count
    return count


def nested(x: Any, out: Any) -> Any:
    i = 0
    while i < len(x):
        out[i] = weight(x[i])
        i += 1


def in_inner_loops(x: Any, out: Any) -> Any:
    total = 0.0
    for i in range(20):
        for j in range(len(x) // 20):
            out[i] += limited(x[20 * j + i], -1.0, 0.25)
        total += huber(out[i], 1.0)
    return total


def roots(x: Any, out: Any) -> Any:
    for i in range(len(x)):
        out[i] = math.sqrt(positive(x[i] + 10.0))


def clamped(value: Any, low: float, high: float) -> Any:
    return max(low, min(high, value))


def clamps(x: Any, out: Any) -> Any:
    total = 0.0
    for i in range(len(x)):
        out[i] = clamped(x[i], -0.5, 0.5)
        total += clamped(i * 0.01, 0.25, out[i])
    return total


def told(function: Callable[..., Any], x: Any, out: Any) -> Any:
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        try:
            result = function(x, out)
        except ValueError as error:
            result = str(error), error.__traceback__.tb_next.tb_next.tb_lineno  # type: ignore[union-attr]
    return result, type(result), [(str(warning.message), warning.lineno) for warning in met]


PROGRAMS = [clipped, loss, signs, nested, in_inner_loops, roots, clamps]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_each_way_is_native(program: Callable[..., Any]) -> None:
    captured = evalframe.jit(program)
    for _ in range(8):
        x = R.normal(size=2000)
        x[::7] = 0.0
        ours, theirs = np.zeros(2000), np.zeros(2000)
        before = evalframe.stats()["native_turns"]
        assert told(captured, x, ours) == told(program, x, theirs)
        assert ours.tobytes() == theirs.tobytes()
    assert evalframe.stats()["native_turns"] - before > 1900


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, -20.0])
def test_what_is_rare_is_as_in_python(program: Callable[..., Any], special: float) -> None:
    captured = evalframe.jit(program)
    for turn in range(6):
        x = R.normal(size=600)
        x[599 if turn < 3 else 100 * turn] = special
        ours, theirs = np.zeros(600), np.zeros(600)
        want, got = told(program, x, theirs), told(captured, x, ours)
        assert repr(got) == repr(want)
        assert ours.tobytes() == theirs.tobytes()


def test_other_types_come_later() -> None:
    captured = evalframe.jit(clipped)
    for dtype in (np.float64, np.int64, np.float32, np.float64, object):
        x = (3 * R.normal(size=400)).astype(dtype)
        for _ in range(3):
            ours, theirs = np.zeros(400), np.zeros(400)
            captured(x, ours)
            clipped(x, theirs)
            assert ours.tobytes() == theirs.tobytes()


def test_a_helper_that_is_replaced_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    captured, x = evalframe.jit(loss), R.normal(size=500)
    for _ in range(4):
        assert captured(x, None) == loss(x, None)
    monkeypatch.setitem(globals(), "huber", lambda value, delta: value if value > delta else -delta)
    for _ in range(4):
        assert captured(x, None) == loss(x, None)
