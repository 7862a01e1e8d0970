"""Ufuncs with `where=` and `casting=`, conditions, bounds, rounding, and arrays of one value."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import evalframe
from graphs import Compiled, assert_same, check
from helpers import leaving_before

DTYPES = ["?", "i1", "u2", "i4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
SHAPES = [(5, 6), (1, 6), (5, 1), (1, 1), (0, 6)]
rng = np.random.default_rng(8)


def array(dtype: str, *shape: int) -> Any:
    return rng.integers(0, 3, shape).astype(dtype)


def no_calls(compiled: Compiled) -> bool:
    return not any(line.startswith("call") for line in compiled.builder.text().splitlines())


SIDES = {
    "the second": lambda np, x, y, mask: np.where(mask, x, y * y),
    "the first": lambda np, x, y, mask: np.where(~mask, y * y, x),
    "guarded by itself": lambda np, x, y, mask: np.where(x != 0, y / x, x),
    "a guarded root": lambda np, x, y, mask: np.where(x > 0, np.sqrt(x), 0),
    "one in the other": lambda np, x, y, mask: np.where(mask, x, np.where(mask, y + y, 2)),
    "rounded": lambda np, x, y, mask: np.where(mask, x.astype("f4"), y.astype("f2").astype("f4")),
    "complex": lambda np, x, y, mask: np.where(mask, 0, (x + 1j) * (y * y)),
}


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", SIDES)
def test_both_sides_are_computed_everywhere_and_may_warn(name: str, dtype: str) -> None:
    for count in (3, 1000):
        x, y = np.full(count, -1.0, dtype), np.ones(count, dtype)
        mask = np.ones(count, bool)
        check(SIDES[name], x, y, mask)
        x[count // 2], y[count // 2] = 0, np.finfo(dtype).max
        check(SIDES[name], x, y, mask)


@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("number", [0.0, 1.0, np.nan, np.inf])
def test_real_numbers_by_complex_zeros_warn(dtype: str, number: float) -> None:
    x, y = np.full(50, number, dtype.replace("c8", "f4").replace("c16", "f8")), np.full(50, 2 - 1j, dtype)
    y[7] = 0
    check(lambda np, x, y: x / y + 1, x, y)
    check(lambda np, x, y: x[0] / y + 1, x, y)


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_dividing_by_what_is_partly_nan_warns(dtype: str) -> None:
    x, y = np.full(50, 1 + 2j, dtype), np.full(50, 2 - 1j, dtype)
    for odd in (complex(np.nan, 1), complex(1, np.nan), complex(np.inf, 1), complex(np.nan, np.nan)):
        y[7] = odd
        check(lambda np, x, y: x / y + 1, x, y)
        check(lambda np, x, y: y / x + 1, x, y)


@pytest.mark.parametrize("dtype", DTYPES)
def test_where_of_ufuncs(dtype: str) -> None:
    x, y, mask = array(dtype, 5, 6), array(dtype, 5, 6), rng.random((5, 6)) < 0.5
    for name in ("add", "multiply", "true_divide", "maximum", "floor_divide", "equal", "sqrt", "log", "negative", "logical_not", "square"):
        ufunc = getattr(np, name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                kind = ufunc(*[x, y][: ufunc.nin]).dtype
            except TypeError:
                continue
        out = array("f8" if kind.kind != "c" else "c16", 5, 6).astype(kind)

        def function(np: Any, x: Any, y: Any, mask: Any, out: Any, name: str = name, nin: int = ufunc.nin) -> Any:
            getattr(np, name)(*[x, y][:nin], out=out, where=mask)
            return out, x == y

        check(function, x, y, mask, out, ulp=2)
        check(function, x, y, mask[0], out, ulp=2)
        check(function, x, y, mask[:, :1], out, ulp=2)
        check(function, x[:1], y[:1], mask, out, ulp=2)


def test_what_is_masked_does_not_warn() -> None:
    def function(x: Any, y: Any) -> Any:
        return np.divide(x, y, out=np.zeros_like(x), where=y != 0), np.log(x, out=np.full(x.shape, -1.0), where=x > 0)

    def in_place(x: Any, y: Any) -> Any:
        z = x + 1.0
        np.divide(z, y, out=z, where=y != 0)
        np.sqrt(z, z, where=z >= 0)
        return z * 2.0

    x, y = rng.standard_normal(1000), np.where(rng.random(1000) < 0.5, 0.0, rng.standard_normal(1000))
    for f in (function, in_place):
        jit = evalframe.jit(f)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(3):
                assert_same(jit(x, y), f(x, y), ulp=2)


def test_masked_kernels_are_kept() -> None:
    def function(np: Any, x: Any, y: Any, out: Any) -> Any:
        np.divide(x, y, out=out, where=y != 0)
        return out * 2.0

    x, y = np.ones(50), np.arange(50) % 2 * 1.0
    compiled = check(function, x, y, np.zeros(50))
    assert no_calls(compiled)
    for _ in range(40):
        compiled(x, y, np.zeros(50))
    assert "kernels n0" in compiled.builder.text()


def test_without_a_place_numpy_does_it() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x, mask = np.arange(4.0), np.array([True, False, True, True])
        got = Compiled(lambda np, x, m: (np.sqrt(x, where=m), x + 1.0), [x, mask])(x, mask)
    np.testing.assert_array_equal(got[0][mask], np.sqrt(x)[mask])


@pytest.mark.parametrize("casting", ["no", "equiv", "safe", "same_kind", "unsafe"])
@pytest.mark.parametrize("dtype", [None, "i4", "f4", "u1", "c8"])
def test_casting(casting: str, dtype: Any) -> None:
    for left in DTYPES:
        for right in ("i4", "f8", "c16"):
            x, y = array(left, 4, 5), array(right, 4, 5)
            for name in ("add", "true_divide", "less", "logical_or"):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        getattr(np, name)(x, y, casting=casting, dtype=dtype)
                    except TypeError:
                        continue
                check(lambda np, *z, name=name: (getattr(np, name)(*z, casting=casting, dtype=dtype), z[0] == z[1]), x, y)


def test_casting_into_a_place() -> None:
    for out in ("f4", "i4", "i8", "u1"):
        for x in (array("f8", 6) + 0.5, array("c16", 6) + 0.5, np.array([1e300, np.nan, -1.0, 3e9, 0, 1])):
            check(lambda np, x, out: (np.multiply(x, 2, out=out, casting="unsafe"), x + 1.0), x, np.zeros(6, out))


@pytest.mark.parametrize("condition", DTYPES)
def test_conditions_of_any_type(condition: str) -> None:
    c, x = array(condition, 5, 6), array("f8", 5, 6)
    check(lambda np, c, x: (np.where(c, x, 0.5), np.where(c, 1, x) + 1.0, np.where(c, True, False), np.where(c[0], 2, 3) * 2), c, x)
    check(lambda np, c, x: np.where(x, x, float("nan")) + 1.0, c, np.array([np.nan, 0.0, -0.0, np.inf, 1, 2]))


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "?"])
def test_bounds(dtype: str) -> None:
    x = (rng.standard_normal((5, 6)) * 4).astype(dtype)
    low, high = array(dtype, 6), array(dtype, 5, 1) + np.ones((), dtype)
    for bounds in [(None, 2), (1, None), (1, 2), (0, 1), (2, 1)]:
        check(lambda np, x, b=bounds: (np.clip(x, *b) + x, x.clip(*b), x.clip(min=b[0], max=b[1]) == x), x)
    check(lambda np, x, a, b: (np.clip(x, a, b) + x, np.clip(x, a, None), x.clip(None, b), np.clip(x, 1, b)), x, low, high)


def test_bounds_outside_the_type() -> None:
    x = np.arange(250, dtype="u1")
    for bounds in [(-5, 300), (0, 255), (None, 300), (-1, None), (10, 255), (-1, 5)]:
        check(lambda np, x, b=bounds: (np.clip(x, *b), x + x), x)
    for bounds in [(300, None), (None, -5), (300, 400), (5, -1)]:
        with pytest.raises(OverflowError):
            Compiled(lambda np, x, b=bounds: (np.clip(x, *b), x + x), [x])
    jit = evalframe.jit(lambda x, a, b: (np.clip(x, a, b), x * 2))
    for a, b in [(1, 5), (1, 7), (0, 255), (-4, 999)]:
        assert_same(jit(x, a, b), (np.clip(x, a, b), x * 2))
    with pytest.raises(OverflowError):
        jit(x, 300, 400)


def test_rounding() -> None:
    x = np.array([0.5, 1.5, -0.5, 2.4999, np.nan, np.inf, -0.0, 1e300])
    for dtype in ("f2", "f4", "f8", "i4"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            y = x.astype(dtype)
        check(lambda np, x: (np.round(x) * 2, x.round(), x.round(0), np.round(x, 1)), y)


FILLINGS: dict[str, Any] = {
    "zeros": lambda np, x: np.zeros(x.shape) + x,
    "ones": lambda np, x: np.ones(x.shape, dtype=np.int64) + x,
    "full": lambda np, x: np.full(x.shape, 2.5) * x,
    "rows": lambda np, x: np.full((x.shape[0], 1), -3) * x,
    "zeros like": lambda np, x: np.zeros_like(x) + x.T.T,
    "ones like": lambda np, x: np.ones_like(x * 2.0) - x,
    "full like": lambda np, x: np.full_like(x, 2) * x,
    "alone": lambda np, x: (np.ones_like(x) + np.zeros_like(x), x * 2),
    "as another": lambda np, x: (np.full_like(x, 1.5, dtype="f4") + 1, np.zeros_like(x, dtype=bool) | (x == 1)),
    "summed": lambda np, x: np.ones_like(x).sum(axis=0) + x.sum(axis=0),
    "kept": lambda np, x: (np.zeros_like(x), np.full(x.shape, 7.0), np.ones_like(x) + x),
    "truth": lambda np, x: np.full(x.shape, True) & (x > 1),
    "nothing": lambda np, x: np.where(x > 1, x, np.full_like(x, 0)) * 2,
}


@pytest.mark.parametrize("filling", FILLINGS)
def test_arrays_of_one_value(filling: str) -> None:
    function = FILLINGS[filling]
    for dtype in ("f8", "f4", "i4", "u1"):
        jit = evalframe.jit(lambda x: function(np, x))
        for shape in SHAPES:
            x = array(dtype, *shape)
            for y in (x, np.asfortranarray(x), x[::-1], np.broadcast_to(x[:1], x.shape)):
                for _ in range(2):
                    assert_same(jit(y), function(np, y))


def test_arrays_of_one_value_that_are_written() -> None:
    def function(x: Any) -> Any:
        y, z = np.zeros_like(x), np.ones(x.shape)
        y[1:] = x[1:] * 2.0
        z += x
        w = np.full(x.shape, 3.0)
        w[0] = y[1]
        return y, z, w * 2.0, w

    jit = evalframe.jit(function)
    for x in (array("f8", 5, 6), np.asfortranarray(array("f8", 5, 6)), array("f8", 5, 6)[::-1]):
        for node in range(-1, 24):
            with leaving_before(node):
                assert_same(jit(x), function(x))
        a = jit(x)
        assert not np.shares_memory(a[0], a[1]) and a[0].flags.owndata


def test_sizes_below_zero_raise() -> None:
    jit = evalframe.jit(lambda n, x: np.ones(n) * x)
    for n in (3, 4, 0, 1):
        assert_same(jit(n, 2.0), np.ones(n) * 2.0)
    with pytest.raises(ValueError, match="negative dimensions"):
        jit(-1, 2.0)


def test_forced_exits() -> None:
    def function(x: Any, y: Any) -> Any:
        z = np.zeros_like(x)
        np.divide(x, y, out=z, where=y > 0)
        a = np.clip(z, None, 2.0)
        b = np.where(y, a, 0.25)
        np.add(b, 1.0, out=b, where=x > 1.0, casting="unsafe")
        return np.round(b), z, np.full_like(z, 0.5) + a

    for x in (array("f8", 5, 6), array("f8", 1, 6), array("f8", 0, 6)):
        jit = evalframe.jit(function)
        for node in range(-1, 24):
            with leaving_before(node):
                assert_same(jit(x, x[::-1]), function(x, x[::-1]))
