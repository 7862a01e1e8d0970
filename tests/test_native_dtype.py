"""Ufuncs that are asked for a type of their result."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import evalframe
from graphs import Compiled, assert_same, check
from helpers import outcome

UNARY = ["negative", "absolute", "sqrt", "square", "floor", "isnan", "logical_not", "sign", "positive", "invert"]
BINARY = ["add", "subtract", "multiply", "true_divide", "maximum", "less", "logical_and", "power", "bitwise_and"]
DTYPES = ["?", "i1", "u2", "i4", "i8", "u8", "f2", "f4", "f8"]


@pytest.mark.mostly_slow(4)
@pytest.mark.parametrize("dtype", ["f4", "f8", np.float32, float, "i8", "c16", None])
@pytest.mark.parametrize("left", DTYPES)
def test_types(left: str, dtype: Any) -> None:
    rng = np.random.default_rng(5)
    x = rng.integers(0, 2, (6, 5)).astype(left)
    for right in DTYPES:
        y = rng.integers(1, 3, (6, 5)).astype(right)
        for name in BINARY + UNARY if right == "f8" else BINARY:
            operands = [x, y] if name in BINARY else [x]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    getattr(np, name)(*operands, dtype=dtype)
                except TypeError:
                    continue
            check(lambda np, *z, name=name: (getattr(np, name)(*z, dtype=dtype), z[0] + z[0]), *operands)


def test_one_kernel() -> None:
    compiled = check(lambda np, x, y: np.add(x, y, dtype="f4") * 2, np.arange(5), np.arange(5.0))
    assert compiled.builder.text().count("call n") == 0 and "kernels n0" in compiled.builder.text()


def test_what_does_not_fit_warns() -> None:
    x = np.array([1e300, 1e-300, np.inf, np.nan])
    check(lambda np, x: (np.add(x, x, dtype="f4"), x * 0.5), x, examples=[np.ones(4)])
    check(lambda np, x: (np.sqrt(x, dtype="f4"), x * 0.5), -x, examples=[np.ones(4)])


def test_layouts() -> None:
    x = np.asfortranarray(np.arange(30).reshape(6, 5))
    check(lambda np, x: (np.add(x, x.T[:5, :1], dtype="f8"), np.sqrt(x, dtype="f4")), x[:5])
    got = Compiled(lambda np, x: (np.add(x, 1, dtype="f4"), np.multiply(x, x, dtype="f8") + 1.0), [x])(x)
    assert_same(got, (np.add(x, 1, dtype="f4"), np.multiply(x, x, dtype="f8") + 1.0))


@pytest.mark.parametrize("name", ["a", "a5", "<a3"])
def test_names_that_numpy_warns_of_are_read_by_the_program_alone(name: str) -> None:
    """NumPy 2.5 knows them no more."""

    def converted(x: Any) -> Any:
        return x.astype(name), np.zeros(2, dtype=name)

    captured = evalframe.jit(converted)
    for _ in range(3):
        with warnings.catch_warnings(record=True) as plain:
            warnings.simplefilter("always")
            wanted = outcome(converted, np.arange(3.0))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            result = outcome(captured, np.arange(3.0))
        assert [(str(one.message), one.lineno) for one in told] == [(str(one.message), one.lineno) for one in plain]
        assert repr(result) == repr(wanted)
