"""Reductions of arrays in any order: the bits of NumPy's sums, and the strides of its results."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

import evalframe
from graphs import Compiled, assert_same, check
from helpers import leaving_before

Array = np.ndarray[Any, Any]
SIZES = {"small": (4, 5, 6), "long": (3, 7, 1100), "tall": (1100, 3, 4), "wide": (2, 1000, 9)}


def layouts(shape: tuple[int, ...], dtype: str = "f8") -> dict[str, Array]:
    rng = np.random.default_rng(2)
    x = (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(dtype)
    wide = np.repeat(np.repeat(x, 2, axis=1), 2, axis=2)
    return {
        "c": x,
        "f": np.asfortranarray(x),
        "swapped": np.ascontiguousarray(x.transpose(1, 2, 0)).transpose(2, 0, 1),
        "swapped ends": np.ascontiguousarray(x.transpose(0, 2, 1)).transpose(0, 2, 1),
        "sliced": wide[:, ::2, ::2],
        "inner part": np.concatenate([x, x], axis=2)[:, :, : shape[2]],
        "middle part": np.concatenate([x, x], axis=1)[:, : shape[1]],
        "negative": x[::-1, :, ::-1],
        "middle negative": x[:, ::-1],
        "all negative": np.asfortranarray(x)[::-1, ::-1, ::-1],
        "rows": np.broadcast_to(x[0, 0], shape),
        "columns": np.broadcast_to(x[:, :1, :1], shape),
        "planes": np.broadcast_to(x[:, :, :1], shape),
        "first one": np.asfortranarray(x)[:1],
        "middle one": np.asfortranarray(x)[:, 1:2],
        "last one": x[:, :, 2:3],
    }


def same(got: Any, wanted: Any) -> None:
    assert_same(got, wanted)
    for a, b in zip(got, wanted, strict=True):
        if isinstance(b, np.ndarray):
            assert a.strides == b.strides and str(a.flags) == str(b.flags)


AXES = [None, 0, 1, 2, (0, 1), (0, 2), (1, 2), (-1, 0), (0, 1, 2)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("keepdims", [False, True])
def test_sums(size: str, keepdims: bool) -> None:
    arrays = layouts(SIZES[size])
    for axis in AXES:
        def function(np: Any, x: Any, axis: Any = axis) -> Any:
            return x.sum(axis=axis, keepdims=keepdims), np.mean(x, axis=axis, keepdims=keepdims), x.max(axis=axis, keepdims=keepdims)

        for example in ("c", "f", "sliced", "negative"):
            compiled = Compiled(function, [arrays[example]])
            if example in ("c", "f"):
                assert not any(line.startswith("call") for line in compiled.builder.text().splitlines())
            for x in arrays.values():
                same(compiled(x), function(np, x))


@pytest.mark.parametrize("axis", AXES)
def test_of_computed_values(axis: Any) -> None:
    def function(np: Any, x: Any) -> Any:
        y = x * 2.0 + 1.0
        size = np.absolute(x[:, ::-1])
        return y.sum(axis=axis), (y.T - 1.0).sum(axis=axis), np.sqrt(size).sum(axis=axis, keepdims=True), y[1:].mean(axis=axis)

    jit = evalframe.jit(lambda x: function(np, x))
    for size in SIZES.values():
        for x in layouts(size).values():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                same(jit(x), function(np, x))


NAMES = ("sum", "prod", "min", "max", "any", "all", "mean", "argmin", "argmax", "var", "std")
WITHOUT_BOOL = ("argmin", "argmax")
WITHOUT_COMPLEX = ("var", "std", "mean", "min", "max", "argmin", "argmax")


@pytest.mark.parametrize("dtype", ["?", "i1", "i8", "u4", "f4", "f8", "c8", "c16"])
def test_kinds_and_types(dtype: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arrays = layouts((4, 5, 6), dtype if dtype[0] == "f" else "f8")
        arrays = {name: x if x.dtype == dtype else np.copy(x, order="K").astype(dtype) for name, x in arrays.items()}
    missing = {"?": WITHOUT_BOOL, "c": WITHOUT_COMPLEX}.get(dtype[0], ())
    for name, axis, keepdims in itertools.product(NAMES, [None, 0, 1, 2], [False, True]):
        if name in missing:
            continue

        def function(np: Any, x: Any, name: str = name, axis: Any = axis, keepdims: bool = keepdims) -> Any:
            return getattr(np, name)(x, axis=axis, keepdims=keepdims), x == x

        for example in ("c", "f"):
            compiled = Compiled(function, [arrays[example]])
            for x in arrays.values():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    same(compiled(x), function(np, x))


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), 2])
def test_spreads(axis: Any) -> None:
    def function(np: Any, x: Any) -> Any:
        return np.var(x, axis=axis), x.std(axis=axis, keepdims=True), np.var(x, axis=axis, ddof=1), (x - x.mean(axis=axis, keepdims=True)) / 2.0

    for size in ("small", "wide"):
        arrays = layouts(SIZES[size])
        for example in ("c", "f", "sliced"):
            compiled = Compiled(function, [arrays[example]])
            for x in arrays.values():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    assert_same(compiled(x), function(np, x))


def test_dtype() -> None:
    x = (np.arange(120) % 11).reshape(4, 5, 6)
    for dtype in ("i4", "i8", "u1", "f4", "f8", "?"):
        for wanted in ("i8", "i4", "f8", "f4", "u1", float, None):
            for order in ("C", "F"):
                y = np.asarray(x, dtype, order=order)
                for axis in (None, 0, 2, (0, 1)):
                    check(lambda np, x, w=wanted, a=axis: (x.sum(axis=a, dtype=w), np.prod(x, a, w), x.mean(axis=a, dtype=w), x == x), y, ulp=1)


def test_large_sums() -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((600, 700))
    for y in (x, x.T, x[:, ::3], x[::2, 1:], x[::-1], x.astype("f4")[:, 1:-1], x[:, :1].repeat(3, axis=1).T):
        for axis in (None, 0, 1):
            check(lambda np, x, a=axis: (x.sum(axis=a), (x * 0.5).sum(axis=a), x.mean(axis=a)), y)


def test_sums_in_one_segment() -> None:
    def function(np: Any, x: Any) -> Any:
        y = np.exp(x[1:-1, 1:-1])
        return y / y.sum(), (x[1:-1] * x[:-2]).sum(), x[:, ::-1].sum(axis=1) * 2.0

    for order in ("C", "F"):
        x = np.asarray(np.random.default_rng(1).standard_normal((30, 20)), order=order)
        compiled = check(function, x, ulp=4)
        assert not any(line.startswith("call") for line in compiled.builder.text().splitlines())


def test_zero_sizes() -> None:
    def function(x: Any) -> Any:
        return x.sum(axis=0), x.sum(), x.prod(axis=1, keepdims=True), (x * 2.0).sum(axis=(0, 1)), x.any(axis=0)

    jit = evalframe.jit(function)
    for shape in [(3, 4), (0, 4), (3, 0), (0, 0), (1, 1), (1, 4)]:
        for order in ("C", "F"):
            x = np.ones(shape, order=order)
            same(jit(x), function(x))
    peak = evalframe.jit(lambda x: (x.max(axis=0), x * 2.0))
    peak(np.ones((3, 4)))
    with pytest.raises(ValueError, match="zero-size array to reduction operation maximum which has no identity"):
        peak(np.ones((0, 4)))


def test_forced_exits() -> None:
    def function(x: Any) -> Any:
        y = x.sum(axis=(0, 2), keepdims=True)
        z = (x - y).mean(axis=1)
        w = x[::-1, ::-1].sum()
        return z.T * w, y.squeeze(), x.std(axis=0), z

    for x in layouts((4, 5, 6)).values():
        jit = evalframe.jit(function)
        for node in range(-1, 16):
            with leaving_before(node):
                assert_same(jit(x), function(x))


@pytest.mark.parametrize("shape", [(5, 7), (40, 30), (3, 4, 5)])
@pytest.mark.parametrize("reduce", [np.sum, np.prod, np.mean, np.var])
def test_sums_of_what_was_written_into_arrays_in_other_orders(reduce: Any, shape: tuple[int, ...]) -> None:
    """A value that is written has the order of the array that it goes into, and NumPy sums in that."""

    def out(np: Any, x: Any) -> Any:
        np.abs(x, out=x)
        return reduce(x), reduce(x, axis=0), reduce(x, axis=-1)

    def in_place(np: Any, x: Any) -> Any:
        x *= 1.1
        return reduce(x), reduce(x, axis=0)

    def part(np: Any, x: Any) -> Any:
        x[1:] = x[1:] * 1.3
        return reduce(x), reduce(x[1:]), reduce(x[1:], axis=-1)

    values = np.random.default_rng(3).uniform(-1.2, 1.2, shape)
    for program in (out, in_place, part):
        check(program, np.asfortranarray(values))
        check(program, values.copy().T)
        check(program, values.copy())
