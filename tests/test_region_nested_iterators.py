"""enumerate() of zip() in native loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import evalframe

pytestmark = pytest.mark.usefixtures("native_loops_at_once")

R = np.random.default_rng(8)


def of_two(x: Any, y: Any) -> Any:
    total = 0.0
    for i, (a, b) in enumerate(zip(x, y)):
        total += a * b - i
    return total


def of_three(x: Any, y: Any) -> Any:
    total = 0
    for i, (a, b, c) in enumerate(zip(x, range(10, 10**6, 3), y), 5):
        if c > 0.25:
            total += i * b
        if a > 2.9:
            break
    return total, i, b


def with_floats(x: Any, y: Any) -> Any:
    out = []
    for i, (a, b) in enumerate(zip(x.tolist(), y)):
        out.append(a + b * i)
    return out


def kept(x: Any, y: Any) -> Any:
    """The tuple is in a variable."""
    total, last = 0.0, None
    for i, pair in enumerate(zip(x, y)):
        total += pair[0] * i
        last = pair
    return total, last


def rows(x: Any, y: Any) -> Any:
    total = 0.0
    for i, (row, b) in enumerate(zip(x.reshape(-1, 4), y)):
        total += row[i % 4] * b
    return total


def left(x: Any, y: Any) -> Any:
    pairs = enumerate(zip(x, y))
    for i, (a, b) in pairs:
        if a > 2.0:
            return i, a, b, next(pairs, None)
    return None


def met(program: Any, *arguments: Any) -> Any:
    result = program(*arguments)
    return repr(result), type(result)


@pytest.mark.parametrize("size", [4, 8, 2000])
@pytest.mark.parametrize("program", [of_two, of_three, with_floats, kept, rows, left], ids=lambda program: program.__name__)
def test_they_are_pythons(program: Any, size: int) -> None:
    captured = evalframe.jit(program)
    for _ in range(6):
        x, y = R.normal(size=size), R.normal(size=size)
        before = evalframe.stats()["native_turns"]
        assert met(captured, x, y) == met(program, x, y)
        assert met(captured, x, y[: size // 2]) == met(program, x, y[: size // 2])
    if program in (of_two, with_floats) and size == 2000:
        assert evalframe.stats()["native_turns"] - before > 2800


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float32, np.complex128, np.bool_])
def test_types(dtype: Any) -> None:
    captured = evalframe.jit(of_two)
    for _ in range(5):
        x, y = (R.random(300) * 4).astype(dtype), R.random(300)
        assert met(captured, x, y) == met(of_two, x, y)
