"""What LLVM must not reason away: results and warnings of operations whose values are odd, or that nobody looks at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphs import check
from region_programs import check as check_calls

FLOATS = ["f2", "f4", "f8"]
ODD = [np.nan, np.inf, -np.inf, 1e300, -1e300, 2.0**63, -(2.0**63), 2.0**31, -(2.0**31), -(2.0**31) - 0.5, 3e9, 1e5, 300.0, -129.5, 0.0, -0.0, 1e-310]
WHOLE = [0, 1, -1, 2**62 + 12345, -(2**63), 2**63 - 1, 2**40 + 3, 2**31, -(2**31) - 1, 255, 7]
# With and without a vector: loops have a part for the last elements.
SIZES = [1, 3, 40]


def odd(dtype: str, size: int, first: int = 0) -> Any:
    with np.errstate(all="ignore"):
        return np.resize(np.roll(np.array(ODD), -first).astype(dtype), size)


def whole(size: int, first: int = 0) -> Any:
    return np.resize(np.roll(np.array(WHOLE), -first), size)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("to", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_what_no_integer_holds(dtype: str, to: str, size: int) -> None:
    for first in range(0, len(ODD), size):
        x = odd(dtype, size, first)
        check(lambda np, x: x.astype(to), x)
        check(lambda np, x: x == x.astype(to), x)
        check(lambda np, x: x.astype(to).astype(dtype) - x, x)
        check(lambda np, x: (x.astype(to) >> 8, x.astype(to) & 0), x)
        check(lambda np, x: np.isnan(x.astype(to)), x)
        check(lambda np, x: np.where(x > 1, x.astype(to), 3), x)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_uint32_of_what_it_does_not_hold_depends_on_the_place(dtype: str) -> None:
    for value in (-1.0, -2.0**31, -(2.0**31) - 1, 2.0**32, 5e9, -1e12, np.nan):
        for x in (np.full(7, value, dtype), np.full(14, value, dtype)[::2]):
            check(lambda np, x: x.astype("u4") + 1, x)
            with np.errstate(all="ignore"):
                check(lambda np, x: x.astype("u4") + 1, x)


@pytest.mark.parametrize("to", ["i1", "i4", "i8", "u4", "u8"])
@pytest.mark.parametrize("by", FLOATS)
@pytest.mark.parametrize("size", SIZES)
def test_integers_by_way_of_floats(size: int, by: str, to: str) -> None:
    for first in range(0, len(WHOLE), size):
        i = whole(size, first)
        check(lambda np, i: i.astype(by).astype(to), i)
        check(lambda np, i: i == i.astype(by).astype(to), i)


EXTREMES: dict[str, Callable[..., Any]] = {
    "maximum": lambda np, x, y: np.maximum(x, y) * 5,
    "minimum": lambda np, x, y: np.minimum(x, y) * 5,
    "fmax": lambda np, x, y: np.fmax(x, y) * 5,
    "fmin": lambda np, x, y: np.fmin(x, y) * 5,
    "a bound of its own": lambda np, x, y: np.minimum(np.maximum(x, y), x),
    "two bounds": lambda np, x, y: np.fmax(np.fmin(x, y), np.fmin(y, x)),
    "only asked": lambda np, x, y: (np.isnan(np.minimum(x, y)), np.isfinite(np.fmax(y, x))),
    "compared": lambda np, x, y: np.maximum(x, y) == x,
    "clipped": lambda np, x, y: np.clip(x, y, x),
}


@pytest.mark.parametrize("size", [1, 2, 7, 40])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_of_nan(name: str, dtype: str, size: int) -> None:
    for x, y in (([np.nan, 2, 3], [1, 2, 3]), ([1, 2, 3], [np.nan, 2, 3]), ([np.nan, 1], [np.nan, 2])):
        check(EXTREMES[name], np.resize(np.array(x, dtype), size), np.resize(np.array(y, dtype), size))


@pytest.mark.parametrize("size", [1, 7, 40])
def test_extremes_of_integers_and_nan(size: int) -> None:
    i, x = whole(size), odd("f8", size)
    check(lambda np, i, x: np.minimum(np.maximum(i, x), i), i, x)
    check(lambda np, i, x: np.clip(i, x, i), i, x)
    check(lambda np, i, x: np.fmax(np.fmin(i, x), i), i, x)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_first_of_two_nans(dtype: str, size: int) -> None:
    x = np.full(size, np.nan, dtype)
    for a, b in ((x, -x), (-x, x)):
        check(lambda np, x, y: np.signbit(np.maximum(x, y)) * 2, a, b)
        check(lambda np, x, y: np.signbit(np.minimum(x, y)) * 2, a, b)


# Of x nothing but whether it is NaN, or its sign, or its real part, comes into the result.
UNSEEN: dict[str, Callable[..., Any]] = {
    "isnan": lambda np, x: np.isnan(x),
    "isfinite": lambda np, x: np.isfinite(x),
    "signbit": lambda np, x: np.signbit(x),
    "equal": lambda np, x: x == x,
    "not zero": lambda np, x: np.logical_not(x),
    "of one sign": lambda np, x: np.copysign(2.0, x),
    "size": lambda np, x: np.absolute(x) >= 0,
    "integer": lambda np, x: x.astype("u1") >> 8,
    "difference": lambda np, x: x.astype("i4") - x.astype("i4"),
    "any": lambda np, x: np.any(x),
    "chosen": lambda np, x: np.where(np.isnan(x), x, x),
}
WARNING: dict[str, Callable[..., Any]] = {
    "float32": lambda np, x: x.astype("f4"),
    "float16": lambda np, x: x.astype("f2"),
    "and back": lambda np, x: x.astype("f2").astype("f8"),
    "difference": lambda np, x: x - x,
    "square": lambda np, x: x * x,
    "root": lambda np, x: np.sqrt(x),
    "exp": lambda np, x: np.exp(x),
    "quotient": lambda np, x: x / (x - 3.0),
    "remainder": lambda np, x: x % (x * 0.0),
    "float remainder": lambda np, x: (x % 0.0).astype("i4"),
}


@pytest.mark.parametrize("size", [1, 40])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("unseen", UNSEEN)
@pytest.mark.parametrize("warning", WARNING)
def test_what_is_not_looked_at_still_warns(warning: str, unseen: str, dtype: str, size: int) -> None:
    with np.errstate(all="ignore"):
        largest, small = np.full(size, np.finfo(dtype).max, dtype), np.full(size, 3, dtype)
    for x in (largest, -small, small, np.full(size, np.inf, dtype)):
        check(lambda np, x: UNSEEN[unseen](np, WARNING[warning](np, x)), x)


# What NumPy's functions give is looked at, to see that it is what was recorded, and by nobody else.
DROPPED: dict[str, Callable[..., Any]] = {
    "where": lambda np, x: np.where(x > 0, x / (x - x), 0.0),
    "where in where": lambda np, x: np.where(x > 0, np.where(x > 1, x % (x - x), 0.0), 2.0),
    "part": lambda np, x: np.where(x > 0, x / (x - x), 0.0)[1:],
    "clip": lambda np, x: np.clip(x / (x - x), 0, 1),
    "sum": lambda np, x: np.sum(x / (x - x)),
    "dot": lambda np, x: np.dot(x / (x - x), x),
    "roll": lambda np, x: np.roll(x / (x - x), 1),
    "transpose": lambda np, x: np.transpose(x / (x - x)),
    "list": lambda np, x: [x / (x - x), 1],
}


@pytest.mark.parametrize("dropped", DROPPED)
def test_what_nobody_looks_at_still_warns(dropped: str) -> None:
    operation = DROPPED[dropped]

    def function(x: Any) -> Any:
        operation(np, x)
        return x

    calls = [(np.arange(1.0, 7.0),)] * 3
    check_calls(function, *calls, native=False)
    with np.errstate(all="raise"):
        check_calls(function, *calls, native=False)


QUOTIENTS: dict[str, Callable[..., Any]] = {
    "integers in floats": lambda np, i: i.astype("f8") // i,
    "by itself": lambda np, i: i.astype("f8") / i.astype("f8"),
    "flags": lambda np, i: (i > 3) / (i > 3),
    "flags as integers": lambda np, i: (i > 3).astype("i8") / (i > 3).astype("i8"),
    "signs": lambda np, i: np.sign(i * 0.5) / np.sign(i * 0.5),
    "inverse of signs": lambda np, i: np.reciprocal(np.sign(i * 0.5)),
    "inverse of complex zero": lambda np, i: np.reciprocal(i.astype("c16")),
    "complex": lambda np, i: i.astype("c16") / i,
    "nothing": lambda np, i: (i - i) / (i - i),
    "integer inverse": lambda np, i: np.minimum(np.maximum(np.reciprocal(i), i), i),
    "remainder": lambda np, i: i.astype("f8") % i.astype("f8"),
    "nothing as integers": lambda np, i: (i - i).astype("f4").astype("i8") // (i ^ i),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", QUOTIENTS)
def test_quotients_that_could_be_computed_beforehand(name: str, size: int) -> None:
    check(QUOTIENTS[name], whole(size))
    check(QUOTIENTS[name], whole(size, 1))


def compared_quotients(np: Any, x: Any) -> Any:
    copy, finite = x.astype("f8"), np.isfinite(x)
    return np.less(np.floor_divide(copy, 3), finite), copy


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_quotients_that_underflow(dtype: str, size: int) -> None:
    for number in (5e-324, -5e-324, 1e-45, -1e-45, 2.5, 0.0, -0.0):
        x = np.full(size, 2.5, dtype)
        x[-1] = number
        with np.errstate(under="warn"):
            check(lambda np, x: x // 3, x)
            check(lambda np, x: (x // -3, x % 3), x)
            check(compared_quotients, x)


@pytest.mark.parametrize("size", SIZES)
def test_a_factor_common_to_both_sides_of_a_choice(size: int) -> None:
    x, y = np.full(size, 1e300), np.ones(size)
    y[size // 2] = 1e300
    condition = y > 1
    check(lambda np, c, x, y: np.where(c, x * 3.0, x * y), condition, x, y)
    check(lambda np, c, x, y: np.where(c, x * y, x * 3.0), ~condition, x, y)
    check(lambda np, c, x, y: np.where(c, c * y, (c * 1.0)), ~condition, x, y)


def test_the_other_part_of_a_complex_number() -> None:
    z = np.full(12, complex(1.0, 1e300))
    check(lambda np, z, w: (np.real(z + w), np.imag(z - w)), z, np.full(12, complex(1e308, 0)) * 1.5)
    check(lambda np, z: np.isnan(z.astype("c8")), z)
    check(lambda np, z: (z * z).astype("f8"), z)


@pytest.mark.parametrize("to", ["i1", "i2", "i4", "i8", "u1", "u4", "u8", "f4", "c16"])
def test_single_numbers_that_an_array_can_not_hold(to: str) -> None:
    def store(a: Any, x: Any) -> Any:
        a[0] = x.sum()
        a[1:] = x.max()
        return a

    numbers = [3.0, 4.0, -335726.5, 3e10, np.nan, 1e300]
    check_calls(store, *[(np.zeros(5, to), np.full(3, number)) for number in numbers], native=False)
    check_calls(store, *[(np.zeros(5, to), np.array([number, -5])) for number in (2, 3, 2**40)], native=False)
