"""Reductions over axes in native loops have NumPy's bits, whatever the axes, sizes, types and strides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from region_programs import check

pytestmark = pytest.mark.usefixtures("native_loops_at_once")


R = np.random.default_rng(13)
SPECIAL = np.array([0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.1, 1e30, 3.0])


def folds(x: Any, m: int, by_columns: Any, by_rows: Any, whole: Any) -> None:
    for i in range(len(by_columns)):
        k = i % m
        part = x[k : k + 3, k : k + 2, :, :]
        by_columns[i] = part.max(axis=(0, 1))[0] + part.min(axis=0)[1, 1] + part[:, :, 0].sum(axis=0)[0]
        by_columns[i, 1:] += np.sum(x[k], axis=(0, 1))[1:]
        by_rows[i] = x.sum(axis=(2, 3))[:, k] + x[:, k].max(axis=(1, 2)) + x[:, :, k].prod(axis=2)[:, 0] + x[:, k, :, ::2].sum(axis=1)[:, 0]
        whole[i] = x[:, :1, k].sum(axis=(0, 1))[:2].sum() + x[k : k + 1, 0].min(axis=(0, 2))[0] + x[k, :, :1].max(axis=(1, 2))[1] + x[:, k : k + 2].mean(axis=3)[1, 1, 1]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32", "uint8", "complex128"])
def test_parts_of_arrays(dtype: str) -> None:
    def made(shape: tuple[int, ...], how: Any) -> tuple[Any, ...]:
        x = how((R.normal(size=shape) * 9).astype(dtype))
        rows = [np.zeros((60, n), dtype) for n in (x.shape[3], x.shape[0])]
        return x, 3, *rows, np.zeros(60, dtype)

    shapes = [(6, 5, 4, 7), (6, 5, 4, 7), (9, 6, 3, 40), (6, 5, 4, 1), (5, 5, 3, 8)]
    turns = [lambda x: x, lambda x: x, lambda x: x, lambda x: x[::-1, :, :, ::-1], lambda x: np.asfortranarray(x), lambda x: np.repeat(x, 2, axis=3)[..., ::2]]
    check(folds, *[made(shape, how) for shape, how in zip(shapes + shapes[:1], turns)], native=dtype == "float64")


def test_rows_of_one_number_for_all() -> None:
    def sums(x: Any, out: Any, rows: Any) -> None:
        for i in range(len(out)):
            out[i] = x.sum(axis=0) + x.max(axis=(0, 1))
            rows[i] = x.sum(axis=(1, 2)) + x.min(axis=2).sum(axis=1)

    def made(x: Any) -> tuple[Any, ...]:
        return x, np.zeros((50, *x.shape[1:])), np.zeros((50, x.shape[0]))

    x = R.random((4, 3, 5))
    check(sums, made(x), made(x), *[made(np.broadcast_to(one, x.shape)) for one in (x[0], x[:, :1], x[..., :1], x[:1, :, :1])], made(x))


def test_special_numbers() -> None:
    """Of zeros of two signs, which one is the largest is left open."""

    def extremes(x: Any, out: Any) -> None:
        for i in range(len(out)):
            out[i, 0] = x[i % 4 :, i % 5 :].max(axis=(0, 1))
            out[i, 1] = x[i % 4 :].min(axis=0)[i % 3]
            out[i, 2, :4] = x[:, i % 5, :4].max(axis=1)[:4]
            out[i, 3] = x[i % 4 : i % 4 + 2].sum(axis=0)[1]

    with np.errstate(invalid="ignore"):
        check(extremes, *[(R.choice(SPECIAL, (9, 6, 5)), np.zeros((60, 4, 5))) for _ in range(4)], native=False)
    check(extremes, *[(R.choice(SPECIAL[4:], (9, 6, 5)), np.zeros((60, 4, 5))) for _ in range(4)])


def test_sums_of_zeros() -> None:
    def sums(x: Any, out: Any) -> None:
        for i in range(len(out)):
            out[i] = x[i % 4 : i % 4 + 2].sum(axis=0)
            out[i, 1, :3] = x[i % 4 :, :1].sum(axis=(1, 2))[:3]

    check(sums, *[(R.choice([0.0, -0.0, -0.0, 1.0, -1.0], (9, 6, 5)), np.zeros((60, 6, 5))) for _ in range(4)])


def test_sums_too_large_are_reported_at_their_lines() -> None:
    def sums(x: Any, out: Any) -> None:
        for i in range(len(out)):
            out[i] = x.sum(axis=0)
            x[0, 0] *= 10.0
            out[i, :1] += x.sum(axis=1)[:1]

    def made(n: int) -> tuple[Any, ...]:
        return np.full((3, 5), 1e250), np.zeros((n, 5))

    check(sums, made(40), made(40), made(70), made(40))
