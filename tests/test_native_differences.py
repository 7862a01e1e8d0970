"""Differences of neighbours, numpy.diff, in kernels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import evalframe
from graphs import Compiled, check

rng = np.random.default_rng(8)


def numbers(dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    return (rng.random(shape) * 200).astype(dtype)


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "u2", "i4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("times", [1, 2, 3, 4, 5, 0])
def test_types_and_orders(dtype: str, times: int) -> None:
    for shape in [(30,), (9, 12), (5, 6, 7)]:
        for axis in range(-1, len(shape)):
            check(lambda np, x: (np.diff(x, n=times, axis=axis), x + x), numbers(dtype, *shape))  # noqa: B023
        check(lambda np, x: np.diff(x, times, 0) * x[-1:], numbers(dtype, *shape))


@pytest.mark.parametrize("layout", [np.asfortranarray, lambda x: x[::-1], lambda x: x[:, ::2], lambda x: x.T, lambda x: x[1:-1, 2:]])
def test_layouts(layout: Any) -> None:
    for axis in (0, 1):
        for times in (1, 2, 3):
            check(lambda np, x: np.diff(x, times, axis=axis), layout(numbers("f8", 12, 14)))  # noqa: B023
            check(lambda np, x: np.diff(x, times, axis=axis) * 2.0, layout(numbers("f8", 12, 14)))  # noqa: B023


def test_short_ones() -> None:
    for size in (0, 1, 2, 3, 4):
        check(lambda np, x: np.diff(x) + 1.0, numbers("f8", size), examples=[numbers("f8", 9)])
        check(lambda np, x: np.diff(x, 2) + 1.0, numbers("f8", size), examples=[numbers("f8", 9)])
        check(lambda np, x: np.diff(x, 3, 0) + 1.0, numbers("f8", size, 3), examples=[numbers("f8", 9, 4)])


def test_one_kernel() -> None:
    def step(np: Any, T: Any) -> None:
        T[1:-1, 1:-1] += 0.1 * (np.diff(T, 2, axis=0)[:, 1:-1] + np.diff(T, 2, axis=1)[1:-1])

    check(step, numbers("f8", 40, 50))

    def curvature(np: Any, x: Any, y: Any) -> Any:
        return np.diff(np.diff(y) / np.diff(x)) * 2.0

    assert check(curvature, np.arange(1.0, 90.0), numbers("f8", 89)).builder.text().count("kernel rank") == 2


def test_others_are_calls() -> None:
    check(lambda np, x: np.diff(x, prepend=0.0) * 2.0, numbers("f8", 9))
    check(lambda np, x: np.diff(x, append=x[:2]) * 2.0, numbers("f8", 9))
    check(lambda np, x: np.diff(x, axis=True) * 2.0, numbers("f8", 9, 9))
    check(lambda np, x: np.diff(x, n=True) * 2.0, numbers("f8", 9))

    @evalframe.jit
    def program(x: Any, times: Any, axis: Any) -> Any:
        return np.diff(x, times, axis) * 2.0

    x = numbers("f8", 7, 8)
    for times in (1, 2, -1, 0, 1.0, np.int64(2)):
        for axis in (0, 1, -1, 2, (0,)):
            try:
                wanted = np.diff(x, times, axis) * 2.0  # type: ignore[arg-type]
            except Exception as error:
                with pytest.raises(type(error)):
                    program(x, times, axis)
            else:
                assert program(x, times, axis).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("how", ["raise", "warn", "ignore"])
def test_conditions(how: Any) -> None:
    def step(np: Any, x: Any) -> Any:
        return np.diff(x, 2) * 0.5

    x = numbers("f8", 30)
    x[7], x[8] = 1.5e308, -1.5e308
    compiled = Compiled(step, [numbers("f8", 9)])
    told = []
    for run in (compiled, lambda x: step(np, x)):
        with np.errstate(over=how, invalid=how), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = run(x).tobytes()
            except FloatingPointError as error:
                result = str(error).encode()
        told.append((result, [str(warning.message) for warning in caught]))
    assert told[0] == told[1]
