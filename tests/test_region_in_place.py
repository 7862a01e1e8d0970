"""Statements that native loops compute in the rows of an array itself: what they read there, and what is put back where a condition is found later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from region_programs import check, shown

pytestmark = pytest.mark.usefixtures("native_loops_at_once")

R = np.random.default_rng(23)


def multiplied(alpha: Any, C: Any, A: Any, B: Any) -> None:
    for i in range(len(C)):
        C[i] *= 0.5
        for k in range(len(B)):
            C[i] += alpha * A[i, k] / B[k]


def matrices(rows: int, inner: int, columns: int, dtype: str = "float64") -> tuple[Any, ...]:
    return 1.5, R.random((rows, columns)).astype(dtype), R.random((rows, inner)).astype(dtype), (R.random((inner, columns)) + 0.5).astype(dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "longdouble"])
def test_sums_of_rows(dtype: str) -> None:
    # More than the log has room for, once and again.
    sizes = [(6, 7, 8), (6, 7, 8), (1, 1, 1), (3, 4, 0), (2, 50, 1), (3, 9, 2000), (2, 5, 9000), (9, 40, 300)]
    check(multiplied, *[matrices(*size, dtype) for size in sizes], native=dtype != "longdouble")


@pytest.mark.parametrize("at", [(0, 0), (0, 1), (3, 60), (4, 17), (19, 69)])
@pytest.mark.parametrize("columns", [1, 60, 1500])
def test_conditions_are_reported_in_their_turn(at: tuple[int, int], columns: int) -> None:
    """The rows that were stored since the checkpoint are as they were then."""
    alpha, C, A, B = matrices(20, 70, columns)
    i, k = at
    A_of_zero, B_of_zero = A.copy(), B.copy()
    A_of_zero[i, k] = 0.0
    B_of_zero[k, columns // 2] = 0.0
    calls = [(alpha, C, A, B), (alpha, C, A, B), (alpha, C, A, B_of_zero), (alpha, C, A_of_zero, B_of_zero), (alpha, C, A, B)]
    check(multiplied, *calls)
    with np.errstate(all="raise"):
        check(multiplied, *calls)


def rows_of_two(A: Any, inverse: Any) -> Any:
    for k in range(len(A)):
        pivot = A[k, k]
        A[k] /= pivot
        inverse[k] /= pivot
        for i in range(len(A)):
            if i == k:
                continue
            factor = A[i, k]
            A[i] -= factor * A[k]
            inverse[i] -= factor * inverse[k]


def test_several_in_a_turn() -> None:
    def system(n: int) -> tuple[Any, Any]:
        return R.random((n, n)) + n * np.eye(n), np.eye(n)

    singular = system(12)
    singular[0][5] = singular[0][4]
    check(rows_of_two, system(8), system(8), system(40), singular, system(3), system(40))


def shifted(x: Any, A: Any, n: int) -> None:
    for i in range(n):
        x[1:] = x[:-1] * 0.5 + A[i % len(A), 1:]
        x[:-1] += x[1:] * 0.25
        x[:5] = x[:5] * x[0]
        x[2:4] = x[1:2] + 1.0
        A[i % len(A)] = A[0] * 0.5 + x


def test_what_stands_elsewhere_in_the_array_is_read_before() -> None:
    check(shifted, *[(R.random(9), R.random((4, 9)), 60) for _ in range(3)], (R.random(300), R.random((2, 300)), 60))


def views(x: Any, y: Any, z: Any, n: int) -> None:
    for i in range(n):
        x[:] = y * 0.5 + z[0] + i
        z[1:3, 2:] = z[1:3, 2:] * 0.5 + x[:3]
        z[2] += z[0] * y[0]


def test_arguments_that_share_memory() -> None:
    def apart() -> tuple[Any, ...]:
        return R.random(5), R.random(5), R.random((4, 5)), 50

    memory = R.random(40)
    shared = memory[:5], memory[3:8], memory[10:30].reshape(4, 5), 50
    backwards = memory[:5], memory[4::-1], memory[20:].reshape(4, 5), 50
    inside = memory[10:15], memory[:5], memory[5:25].reshape(4, 5), 50
    spread = memory[:5], np.broadcast_to(memory[2], 5), memory[20:].reshape(4, 5), 50
    captured = evalframe.jit(views)
    for arguments in (apart(), apart(), shared, backwards, inside, spread, apart(), shared):
        before = memory.copy()
        captured(*arguments)
        ours, came_to = memory.copy(), [shown(a) for a in arguments[:3]]
        memory[:] = before
        again = [a.copy() for a in arguments[:3]] if not np.shares_memory(arguments[0], memory) else list(arguments[:3])
        if again[0] is arguments[0]:
            views(*again, 50)
            assert shown(ours) == shown(memory) and came_to == [shown(a) for a in again]


def steps(x: Any, table: Any, out: Any) -> None:
    for i in range(len(out)):
        out[i] = x[:: 1 + i // 20][: out.shape[1]] * 2.0 + table[:, i % 3][: out.shape[1]]
        out[i] += 1.0


def test_code_for_other_strides_is_made_in_the_midst() -> None:
    check(steps, *[(R.random(400), R.random((9, 3)), R.random((80, 9))) for _ in range(4)])


def left(x: Any, rows: Any, indices: Any) -> float:
    total = 0.0
    for i in range(len(indices)):
        rows[i % 3] += x * 2.0
        rows[(i + 1) % 3] *= 0.5
        total += x[indices[i]]
        rows[i % 3] -= 1.0
    return total


@pytest.mark.parametrize("at", [0, 1, 30, 59])
def test_loops_that_are_left_behind_it(at: int) -> None:
    indices = R.integers(0, 5, 60)
    outside = indices.copy()
    outside[at] = 7
    check(left, *[(R.random(5), R.random((3, 5)), order) for order in (indices, indices, outside, indices)])


def fields(u: Any, v: Any, n: int) -> None:
    for _ in range(n):
        v[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        u, v = v, u


@pytest.mark.parametrize("make", [lambda a: a, np.asfortranarray, lambda a: a[::-1], lambda a: a[:, ::-1], lambda a: a.repeat(2, 1)[:, ::2]])
def test_planes(make: Callable[[Any], Any]) -> None:
    sizes = [(8, 9), (8, 9), (3, 3), (2, 2), (40, 60), (4, 900)]
    check(fields, *[(make(R.random(size)), make(R.random(size)), 60) for size in sizes])
    with np.errstate(over="raise"):
        check(fields, *[(make(R.random(size) * 1e308), make(R.random(size)), 60) for size in sizes])
