"""Quotients by one number: multiplied in vectors where that gives the bits of a division, divided elsewhere."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest

import evalframe

TINY, LARGE = 5e-324, 1.7976931348623157e308
DIVISORS = [3.0, -3.0, 0.1, 7.0, 1.0 / 3.0, 2.0, 0.5, 1.0, -1.0, np.nextafter(2.0, 1.0), np.nextafter(1.0, 2.0), 1e-120, 1e120]
BEYOND = [2.0**-401, 2.0**401, TINY, -TINY, 1e-310, LARGE, 0.0, -0.0, np.inf, -np.inf, np.nan]
KINDS = ["ordinary", "with zeros", "with all", "small", "large"]


def numbers(kind: str, n: int = 4001) -> np.ndarray:
    random = np.random.default_rng(len(kind))
    x = random.normal(size=n) * 10.0 ** random.integers(-20, 20, n)
    if kind == "with zeros":
        x[::3], x[1::7] = 0.0, -0.0
    elif kind == "with all":
        x[: 8 * len(BEYOND)] = np.tile(BEYOND, 8)
    elif kind == "small":
        x *= 2.0**-400
    elif kind == "large":
        x *= 2.0**420
    return x


def told(function: Callable[..., None], *arguments: object) -> list[str]:
    with warnings.catch_warnings(record=True) as met, np.errstate(all="warn"):
        warnings.simplefilter("always")
        function(*arguments)
    return sorted({str(warning.message) for warning in met})


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    is_number = ~np.isnan(a)
    return np.array_equal(np.isnan(a), np.isnan(b)) and np.array_equal(a[is_number].view(np.uint64), b[is_number].view(np.uint64))


def by_one(x, divisor, out):
    out[...] = (x + 0.0 * x[0]) / divisor


def by_rows(x, divisors, out):
    out[...] = (x + 1.0) / divisors[:, None]


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_by_a_number(kind: str) -> None:
    x = numbers(kind)
    captured = evalframe.jit(by_one)
    for divisor in [*DIVISORS, *BEYOND, np.float64(0.3), 3]:
        for n in (x.size, 7, 1, 0) if kind == "ordinary" else (x.size,):
            if n == 0:
                continue
            want, got = np.empty(n), np.empty(n)
            assert told(captured, x[:n], divisor, got) == told(by_one, x[:n], divisor, want), (divisor, n)
            assert same_bits(want, got), (divisor, n)


@pytest.mark.parametrize("columns", [3, 40, 301])
def test_rows_by_a_number_each(columns: int) -> None:
    divisors = np.array([*DIVISORS, *BEYOND])
    x = numbers("ordinary", len(divisors) * columns).reshape(len(divisors), columns)
    captured = evalframe.jit(by_rows)
    for _ in range(3):
        want, got = np.empty_like(x), np.empty_like(x)
        assert told(captured, x, divisors, got) == told(by_rows, x, divisors, want)
        assert same_bits(want.ravel(), got.ravel())


def test_as_many_hard_quotients_as_there_are() -> None:
    """Dividends next to a multiple of the divisor, or in the middle between two: where the last bit is hardest to tell."""
    random = np.random.default_rng(3)
    captured = evalframe.jit(by_one)
    for divisor in 1.0 + random.random(40):
        quotients = 0.5 + random.random(20_000)
        middle = ((np.longdouble(quotients) + np.longdouble(2.0**-54)) * np.longdouble(divisor)).astype(np.float64)
        x = np.concatenate([middle, np.nextafter(middle, 0.0), np.nextafter(middle, 4.0), quotients * divisor])
        got = np.empty(x.size)
        captured(x, divisor, got)
        assert same_bits((x + 0.0 * x[0]) / divisor, got), divisor


LOOP = """
def loop(x, y):
    for i in range(1, len(x) - 1):
        y[i] = (x[i] + 0.0) / {}
"""


@pytest.mark.parametrize("divisor", ["3.0", "-0.1", "7", "2.0", "1e-310", "1e200"])
def test_elements_in_a_loop(divisor: str) -> None:
    names: dict[str, Callable[..., None]] = {}
    exec(LOOP.format(divisor), names)
    loop = names["loop"]
    captured = evalframe.jit(loop)
    for i in range(60):
        kind = KINDS[i % len(KINDS)] if i > 40 else "ordinary"
        x = numbers(kind, 3000)
        if kind == "with all":
            x[x == 0.0] = 1.0
        want, got = np.zeros(x.size), np.zeros(x.size)
        assert told(captured, x, got) == told(loop, x, want), (kind, i)
        assert same_bits(want, got), (kind, i)
