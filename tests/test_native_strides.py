"""Strides of results, of dimensions with a single element included, are those that NumPy gives."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe

SHAPES = [(2, 1), (1, 2), (1, 1), (3, 2), (1, 3, 1), (2, 1, 3), (4, 1, 1)]


def layouts(shape: tuple[int, ...]) -> list[Any]:
    """Arrays of one shape: C and Fortran order, parts of both, a transpose, and odd strides where there is one element."""
    inner = np.cumprod((1, *shape[:0:-1]))[::-1]
    odd = tuple(8 * int(step) * (7 if size == 1 else 1) for step, size in zip(inner, shape))
    part = tuple(slice(0, size) for size in shape)
    double = tuple(2 * size for size in shape)
    c_order = np.arange(float(np.prod(shape))).reshape(shape)
    return [
        c_order,
        np.asfortranarray(c_order),
        np.lib.stride_tricks.as_strided(np.arange(200.0), shape, odd),
        np.zeros(double)[part],
        np.asfortranarray(np.ones(double))[part],
        np.zeros(shape[::-1]).T,
    ]


ARRAYS = [array for shape in SHAPES for array in layouts(shape)]
PROGRAMS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: np.abs(a),
    lambda a, b: a + 1.0,
    lambda a, b: a * a + 1,
    lambda a, b: a + b,
    lambda a, b: (a + b) * b,
    lambda a, b: np.float64(2) * a - b,
    lambda a, b: a.T + 1,
    lambda a, b: a.T + b.T,
    lambda a, b: np.where(a > 0, a, b),
    lambda a, b: np.maximum(a, 0.5) + np.sqrt(b),
    lambda a, b: a.copy(),
    lambda a, b: (a + b).astype("f4"),
]


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_results_have_numpys_strides(number: int) -> None:
    program = PROGRAMS[number]
    captured = evalframe.jit(program, max_entries=100)
    for a, b in itertools.product(ARRAYS, ARRAYS):
        if a.ndim != b.ndim or any(1 != m != n != 1 for m, n in zip(a.shape, b.shape)):
            continue
        plain, ours = program(a, b), captured(a, b)
        told = (a.shape, a.strides, b.shape, b.strides)
        assert (ours.strides, ours.flags.c_contiguous, ours.flags.f_contiguous) == (
            plain.strides, plain.flags.c_contiguous, plain.flags.f_contiguous,
        ), told  # fmt: skip
