"""Sums over axes of products in native loops are added up without the products, with NumPy's bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import evalframe
from region_programs import check, shown

pytestmark = pytest.mark.usefixtures("native_loops_at_once")


R = np.random.default_rng(11)
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 3e38, 5e-324, 1e-30, 0.1])


def correlated(images: Any, W: Any, out: Any) -> None:
    k = W.shape[0]
    for i in range(out.shape[1]):
        for j in range(out.shape[2]):
            out[:, i, j, :] = np.sum(images[:, i : i + k, j : j + k, :, np.newaxis] * W, axis=(1, 2, 3))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 3, 4, 9])
def test_windows_of_any_number_of_filters(dtype: str, n: int) -> None:
    for filters in (1, 2, 3, 5, 8, 12, 16, 21, 33, 40):
        images, W = R.normal(size=(n, 9, 7, 2)), R.normal(size=(3, 3, 2, filters))
        check(correlated, *[(images.astype(dtype), W.astype(dtype), np.zeros((n, 7, 5, filters), dtype))] * 3)


def test_factors_of_all_layouts() -> None:
    def sums(a: Any, b: Any, x: Any, kept: Any) -> None:
        for i in range(len(kept)):
            kept[i] = (a[:, :, None] * b).sum(axis=0)
            kept[i] += np.sum(b * a[:, :, np.newaxis], axis=0)
            kept[i, 1] += (b * b[::-1, ::-1]).sum(axis=(0, 1))
            kept[i, 2] += (b[:, :, ::-1] * x[:, None]).sum((0, 1))
            kept[i, :, 0] += (b * b[1]).sum(axis=(0, 2)) + (b * x[:, None]).mean(axis=2).sum(0)
            kept[i, 3] += (x[:, None, None] * b[:1]).sum(axis=(0, 1)) * 0.5 + (b * b[:, :1]).mean(axis=(0, 1))
            kept[i, 4, :2] += (b[:, :, ::3] * x[:, None]).sum(axis=(0, 1))

    def sizes(a: Any, b: Any, x: Any) -> tuple[Any, ...]:
        return a, b, x, np.zeros((60, 5, 6))

    a, b, x = R.normal(size=(4, 5)), R.normal(size=(4, 5, 6)), R.normal(size=5)
    check(sums, *[sizes(a, b, x)] * 3)
    turned = np.ascontiguousarray(b.transpose(2, 1, 0)).transpose(2, 1, 0)
    check(sums, sizes(a, b, x), sizes(a, b, x), sizes(np.asfortranarray(a), turned, x[::-1]), sizes(a[::-1], b[::-1, ::-1, ::-1], x), sizes(a, b, x))


def test_zeros_have_the_signs_of_numpys() -> None:
    def sums(a: Any, b: Any, out: Any) -> None:
        for i in range(len(out)):
            out[i] = (a[i % len(a), :, None] * b).sum(axis=0)

    def made() -> tuple[Any, ...]:
        return R.choice(SPECIAL, (50, 3)).astype("float32"), R.choice(SPECIAL[:4], (3, 7)).astype("float32"), np.zeros((50, 7), "float32")

    check(sums, *[made() for _ in range(4)])


def test_products_that_are_needed_again() -> None:
    def sums(a: Any, b: Any, out: Any) -> Any:
        total = np.zeros(b.shape[1])
        for i in range(len(out)):
            products = a[:, None] * b
            out[i] = products.sum(axis=0)
            a[i % 3] += 0.5
            b[0, i % 3] -= 0.25
            total = total + products[1]
            np.add(out[i], 1.0, out=out[i])
        return total, products

    check(sums, *[(R.random(3), R.random((3, 6)), np.zeros((60, 6)))] * 3)


def test_more_products_than_are_kept() -> None:
    """Where they were kept, the loop was left."""

    def sums(a: Any, b: Any, n: int) -> Any:
        out = np.zeros((n, b.shape[1]))
        for i in range(n):
            out[i] = (a[i:, None] * b[: len(a) - i]).sum(axis=0)
        return out

    captured = evalframe.jit(sums)
    a, b = R.normal(size=7000), R.normal(size=(7000, 11))
    for _ in range(4):
        before = evalframe.stats()["native_turns"]
        got = captured(a, b, 100)
    assert evalframe.stats()["native_turns"] - before >= 90
    assert shown(got) == shown(sums(a, b, 100))


def test_conditions_are_reported_at_their_lines() -> None:
    def sums(a: Any, b: Any, n: int) -> Any:
        out = np.zeros((n, b.shape[1]))
        for i in range(n):
            out[i] = (a[:, None] * b).sum(axis=0)
            b[0, 0] *= 10.0
        return out

    def made(largest: float, n: int = 60) -> tuple[Any, ...]:
        return np.array([1.0, largest, -1.0]), np.linspace(1.0, 2.0, 15).reshape(3, 5), n

    check(sums, made(1.0), made(1.0), made(1.7e308), made(np.inf), made(np.nan), made(1.0, 400), made(1.0))
    captured = evalframe.jit(sums)
    for _ in range(3):
        with np.errstate(all="ignore"):
            assert shown(sums(*made(1.7e308))) == shown(captured(*made(1.7e308)))
    for _ in range(3):
        with np.errstate(all="raise"), pytest.raises(FloatingPointError):
            captured(*made(1.7e308))


def test_sizes_that_do_not_fit_raise_at_their_lines() -> None:
    def sums(a: Any, b: Any, n: int) -> Any:
        out = np.zeros((n, 6))
        for i in range(n):
            out[i] = (a[:, None] * b[: 4 + i // 50]).sum(axis=0)
        return out

    a, b = R.random(4), R.random((5, 6))
    check(sums, (a, b, 40), (a, b, 40), (a, b, 80), (a[:1], b, 80), (a[:0], b[:0], 40), (a, b[:, :1], 40), (a, b, 40))
