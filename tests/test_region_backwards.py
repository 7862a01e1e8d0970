"""reversed() of arrays in native loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import evalframe

pytestmark = pytest.mark.usefixtures("native_loops_at_once")

R = np.random.default_rng(6)


def horner(coefficients: Any, x: float) -> Any:
    result = 0.0
    for c in reversed(coefficients):
        result = result * x + c
    return result


def rows(a: Any, _: float) -> Any:
    total = 0.0
    for row in reversed(a):
        total = total * 0.5 + row[0] + row.sum()
    return total


def until(a: Any, least: float) -> Any:
    count = 0
    for value in reversed(a):
        if value < least:
            break
        count += 1
    else:
        return -count
    return count


def counted(a: Any, _: float) -> Any:
    total = 0.0
    for i, value in enumerate(reversed(a)):
        total += i * value
    return total


def together(a: Any, x: float) -> Any:
    total = 0.0
    for value, other in zip(a, reversed(a)):
        total = total * x + value * other
    return total


def kept(a: Any, x: float) -> Any:
    """The iterator is in a variable, too: another may ask it."""
    iterator = reversed(a)
    total = 0.0
    for value in iterator:
        total += value
        if value > x:
            total += next(iterator, 100.0)
    return total


@pytest.mark.parametrize("size", [0, 1, 2, 2000])
@pytest.mark.parametrize("program", [horner, until, counted, together, kept], ids=lambda program: program.__name__)
def test_elements(program: Any, size: int) -> None:
    captured = evalframe.jit(program)
    for _ in range(6):
        before = evalframe.stats()["native_turns"]
        a = R.normal(size=size)
        want = program(a, -2.9)
        got = captured(a, -2.9)
        assert (got, type(got)) == (want, type(want))
    if program is horner and size == 2000:
        assert evalframe.stats()["native_turns"] - before > 1900


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float32, np.complex128, np.bool_])
def test_types(dtype: Any) -> None:
    captured = evalframe.jit(horner)
    for _ in range(5):
        a = (R.random(300) * 4).astype(dtype)
        assert captured(a, 0.25) == horner(a, 0.25)
        assert captured(a[::-3], 0.25) == horner(a[::-3], 0.25)


def test_rows() -> None:
    captured = evalframe.jit(rows)
    for _ in range(5):
        a = R.normal(size=(500, 3))
        assert captured(a, 0.0) == rows(a, 0.0)
        assert captured(a.T, 0.0) == rows(a.T, 0.0)


def test_where_the_loop_is_left_the_iterator_is_where_it_was() -> None:
    def left(a: Any, log: list[Any]) -> Any:
        iterator = reversed(a)
        for value in iterator:
            if value > 2.5:
                log.append((float(value), iterator.__length_hint__()))
        return len(log)

    captured = evalframe.jit(left)
    a = R.normal(size=3000)
    want: list[Any] = []
    left(a, want)
    for _ in range(6):
        got: list[Any] = []
        captured(a, got)
        assert got == want
