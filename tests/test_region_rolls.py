"""Arrays that native loops roll are read where their elements were, and have NumPy's bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import evalframe
from region_programs import check, shown

pytestmark = pytest.mark.usefixtures("native_loops_at_once")


R = np.random.default_rng(17)


def mixed(q: Any, row: Any, column: Any, out: Any, whole: Any) -> None:
    for i in range(len(out)):
        k = i - 9
        out[i] = q - np.roll(q, k, axis=1) + np.roll(q, -k, 0)
        out[i] += np.roll(np.roll(q, k, 0), 1, axis=-1) * np.roll(np.roll(q, 2, 1), k, 1)
        out[i] += np.roll(row, k) + np.roll(column, 1, axis=0) * q
        whole[i] = np.roll(np.roll(q, 1, 0), k, 1)
        east = np.roll(q, -1, 1)
        q[:] = np.roll(q, 1, axis=0)
        out[i] += east * east + np.roll(out[i], 1, 0)
        q[1:, 2:] = np.roll(q[1:, 2:], k, 0) + np.roll(np.roll(q * row, 1, 1)[1:, 2:], 1, 1)
        whole[i, 0] += (np.roll(q, k, 0)[:, None] * row).sum(axis=(0, 1))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint8", "complex128"])
def test_shifts_and_sums(dtype: str) -> None:
    def made(rows: int, columns: int, how: Any) -> tuple[Any, ...]:
        def numbers(*shape: int) -> Any:
            return (R.normal(size=shape) * 3).astype(dtype)

        out, whole = (np.zeros((40, rows, columns), dtype) for _ in range(2))
        return how(numbers(rows, columns)), numbers(columns), numbers(rows, 1), out, whole

    def same(q: Any) -> Any:
        return q

    sizes = [(6, 7, same), (6, 7, same), (4, 5, same), (3, 20, lambda q: q[::-1, ::-1]), (3, 4, np.asfortranarray), (2, 3, same), (6, 7, same)]
    with np.errstate(all="ignore"):
        check(mixed, *[made(*one) for one in sizes], native=dtype in ("float64", "int64"))


def test_axes_of_one_element() -> None:
    def rolls(q: Any, out: Any) -> None:
        for i in range(len(out)):
            out[i] = q * 2 + np.roll(q, i, 0) - np.roll(q, 1, 1)

    check(rolls, *[(R.random(shape), np.zeros((40, *shape))) for shape in ((5, 6), (5, 6), (1, 6), (5, 1), (1, 1), (5, 6), (0, 6), (5, 6))])


def test_masks_are_rolled() -> None:
    def rolls(alive: Any, counts: Any) -> None:
        for i in range(len(counts)):
            around = sum(np.roll(np.roll(alive, r, 0), c, 1) for r in (-1, 0, 1) for c in (-1, 0, 1) if r or c)
            counts[i] = around
            alive[:] = (around == 3) | (alive & (np.roll(alive, 1, 0) != np.roll(alive, 1, 1)))

    check(rolls, *[(R.random((9, 8)) > 0.5, np.zeros((40, 9, 8), np.int64)) for _ in range(3)], native=False)
    check(rolls, *[(R.integers(0, 2, (9, 8)), np.zeros((40, 9, 8), np.int64)) for _ in range(3)])


def test_what_was_rolled_is_as_it_was_then() -> None:
    def rolls(q: Any, out: Any) -> Any:
        for i in range(len(out)):
            behind, before = np.roll(q, 1), np.roll(q, -1)
            q[0] += 1.0
            q += 0.5
            out[i] = behind + before
            kept = np.roll(behind, 2)
        return behind, before, kept

    check(rolls, *[(R.random(9), np.zeros((50, 9))) for _ in range(3)])


def test_sums_of_many() -> None:
    def rolls(q: Any, out: Any) -> None:
        for i in range(len(out)):
            a = np.roll(q, 1) + np.roll(q, 2) + np.roll(q, 3) + np.roll(q, 4) + np.roll(q, 5) + np.roll(q, 6) + np.roll(q, 7) * i + np.roll(q, 8)
            out[i] = a + np.roll(q, 1) - np.roll(q, 2) * np.roll(q, 3) + np.roll(q, 4) - np.roll(q, 5) * np.roll(q, 6) + np.roll(q, 7) - np.roll(q, i) + np.roll(q, -i) * np.roll(q, 9) + np.roll(q, 10) / np.roll(q, 11)

    check(rolls, *[(R.random(20), np.zeros((50, 20))) for _ in range(3)])


def test_conditions_are_reported_at_their_lines() -> None:
    def quotients(q: Any, out: Any) -> None:
        for i in range(len(out)):
            out[i] = q / (np.roll(q, 1, 0) - i)
            q[0, 1] += 0.5

    a = R.random((5, 6))
    zero = a.copy()
    zero[2, 3] = 31.0
    check(quotients, *[(one, np.zeros((60, 5, 6))) for one in (a, a, zero, a)])


def test_nothing_is_copied() -> None:
    """A kernel for each statement, and a copy for each store."""

    def steps(q: Any, p: Any, n: int) -> None:
        for _ in range(n):
            p[:] = np.roll(q, 1, 0) + np.roll(q, -1, 0) + np.roll(q, 1, 1) + np.roll(q, -1, 1)
            q[:] = p * 0.25

    captured = evalframe.jit(steps)
    q, p = R.random((9, 8)), np.zeros((9, 8))
    for _ in range(4):
        plain, other = q.copy(), p.copy()
        steps(plain, other, 60)
        captured(q, p, 60)
        assert shown(q) == shown(plain)
    [loop] = [loop for loop in evalframe.explain(steps)(q, p, 60).loops if loop.native]
    assert loop.ir.count("call i32 @routine(") == 4
