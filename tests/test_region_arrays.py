"""Loops over parts of arrays and whole-array operations run as machine code, and behave as CPython and NumPy have them behave."""

from __future__ import annotations

import gc
import math
import os
import pickle
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from region_programs import ArrayProgram, Kernels, MadeProgram, SpaceProgram, check, copies, differences, shown

pytestmark = pytest.mark.usefixtures("native_loops_at_once")


R = np.random.default_rng(2)
KERNELS = Kernels()
kernel = KERNELS.kernel


def heavy(n: int) -> Any:
    return R.random((n, n)) + n * np.eye(n)


@kernel(lambda: (heavy(40),))
def lu(A: Any) -> None:
    n = A.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            A[i, k] /= A[k, k]
            A[i, k + 1 :] -= A[i, k] * A[k, k + 1 :]


@kernel(lambda: (heavy(40) @ np.eye(40),))
def cholesky(A: Any) -> None:
    for i in range(A.shape[0]):
        for j in range(i):
            A[i, j] = (A[i, j] - A[i, :j] @ A[j, :j]) / A[j, j]
        A[i, i] = np.sqrt(A[i, i] - A[i, :i] @ A[i, :i])


@kernel(lambda: (heavy(60), R.random(60)))
def back_substitution(U: Any, b: Any) -> Any:
    x = np.zeros(len(b))
    for i in range(len(b) - 1, -1, -1):
        x[i] = (b[i] - np.dot(U[i, i + 1 :], x[i + 1 :])) / U[i, i]
    return x


@kernel(lambda: (R.random(50), R.random(50), 200))
def swing(x: Any, v: Any, n: int) -> Any:
    """New arrays in variables."""
    for _ in range(n):
        a = -x
        v = v + 0.01 * a
        x = x + 0.01 * v
    return x, v, a


@kernel(lambda: (R.random(50), R.random(50), 101))
def heat(A: Any, B: Any, n: int) -> Any:
    """Two buffers that are swapped."""
    for _ in range(n):
        B[1:-1] = 0.33 * (A[:-2] + A[1:-1] + A[2:])
        A, B = B, A
    return A


@kernel(lambda: (R.random((300, 30)),))
def statistics(A: Any) -> Any:
    out = np.zeros((len(A), 8))
    for i, row in enumerate(A):
        out[i, 0] = row.sum()
        out[i, 1] = np.mean(A[:, i % 30])
        out[i, 2] = row.std()
        out[i, 3] = np.max(row) - row.min()
        out[i, 4] = row.argmax()
        out[i, 5] = (row > 0.5).any()
        out[i, 6] = (row * row).var(ddof=1)
        out[i, 7] = np.prod(row[::3])
    return out


@kernel(lambda: (R.random((12, 12)), R.random(12), 80))
def power(A: Any, b: Any, n: int) -> Any:
    for _ in range(n):
        b = A @ b
        b /= np.sqrt(b @ b)
        A[:, 0] = A.sum(axis=1) * 0.01
    return b


@kernel(lambda: (R.random(200),))
def kalman(z: Any) -> Any:
    """Small matrices, all new in each turn."""
    x, P, F = np.zeros(2), np.eye(2) * 10, np.array([[1.0, 1.0], [0.0, 1.0]])
    H, Q, out = np.array([1.0, 0.0]), np.eye(2) * 0.01, np.zeros(len(z))
    for i in range(len(z)):
        x = F @ x
        P = F @ P @ F.T + Q
        K = P @ H / (H @ P @ H + 1.0)
        x = x + K * (z[i] - H @ x)
        P = P - np.outer(K, H) @ P
        out[i] = x[0]
    return x, P, out


@kernel(lambda: (R.random((20, 3)), 40))
def pairs(x: Any, n: int) -> Any:
    for _ in range(n):
        force = np.zeros_like(x)
        for i in range(len(x) - 1):
            for j in range(i + 1, len(x)):
                d = x[i] - x[j]
                d -= np.round(d)
                force[i] += d
                force[j] -= d
        x += 1e-3 * force
    return force


@kernel(lambda: (R.random((30, 30)), 30))
def by_rows_and_columns(A: Any, n: int) -> Any:
    total = 0.0
    for i in range(1, n):
        A[i] = np.where(A[i] > 0.5, A[i - 1], np.minimum(A[:, i], 0.25))
        A[:, i] *= 0.5
        A[i, ::-2] += np.abs(A[i - 1, ::-2] - 0.5)
        A[i, None] += A.T[i]
        for e in A[i, 1:5]:
            total += e
    return total


@kernel(lambda: (R.random(33), R.random((12, 9)), 60))
def rolled(x: Any, a: Any, n: int) -> Any:
    """By shifts of either sign, beyond the size, along each axis, of parts and of what isn't in memory yet."""
    for k in range(-n, n):
        x = np.roll(x, 1) * 0.5 + 0.5 * np.roll(x + 1.0, k)
        a[:, 2:5] -= np.roll(a, k, axis=0)[:, 2:5] * 0.25
        a[1::2] = 0.5 * np.roll(a[1::2], shift=-1, axis=1) + 0.5 * np.roll(a, 2, -1)[::2]
    return x, a


@kernel(lambda: (R.integers(-9, 9, (70, 11)), np.arange(70)))
def rolled_rows(a: Any, by: Any) -> Any:
    out = np.zeros_like(a)
    for i in range(len(a)):
        out[i] = np.roll(a[i], by[i]) + np.roll(a[i, ::-1], -i)
    return out


def turned(a: Any, n: int) -> Any:
    last = a
    for k in range(n):
        last = np.roll(a, k, axis=0)
        a += last * 0.5
    return last


def test_what_is_rolled_keeps_its_order() -> None:
    check(turned, *[(np.asfortranarray(R.random((8, 6))), 80) for _ in range(3)], native=False)


@pytest.mark.parametrize("shape", [(0,), (1,), (2,), (0, 3), (3, 0), (1, 1)])
def test_arrays_without_elements_to_move_are_rolled(shape: tuple[int, ...]) -> None:
    check(turned, *[(R.random(shape), 80) for _ in range(3)])


@kernel(lambda: (R.integers(0, 2, (9, 11)), 60))
def neighbours(board: Any, n: int) -> Any:
    """What a generator expression gives, in the midst of a turn, and what it closes over."""
    for _ in range(n):
        around = sum(np.roll(np.roll(board, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
        board[:] = (around == 3) | ((board == 1) & (around == 2))
    return board.sum(), around


@kernel(lambda: (R.random((70, 3)), R.random(3)))
def given_by_generators(rows: Any, weight: Any) -> Any:
    """To their ends, and to the first that is asked for; of a function that yields, too."""

    def weighted(row: Any) -> Any:
        yield row[0] * weight[0]
        yield row[1] + weight[1]
        yield from (row[k] for k in (1, 2))

    def total(row: Any) -> Any:
        return sum(row[k] * weight[k] for k in (0, 1, 2))

    def first(row: Any) -> Any:
        return next(row[k] for k in (2, 1))

    out = np.zeros((len(rows), 4))
    for i in range(len(rows)):
        out[i, 0] = total(rows[i])
        out[i, 1] = first(rows[i])
        out[i, 2] = sum(weighted(rows[i]))
        a, b, c, d = weighted(rows[i])
        out[i, 3] = a - b + c - d
    return out


def made_and_filled(row: Any, v: Any, k: int) -> Any:
    y = row * 2.0
    before = y + 1.0
    y[1:] = row[:-1]
    y[0] = k
    y[-1] += y[0]
    y[y > 1.0] *= 0.25
    y[v > 0.5] = 0.125
    y[np.array([2, 4, 2])] = before[:3]
    y[:3] = 1.0, y[5], 0.5
    rest = y[3:]
    rest -= before[3:]
    rest[0] = 7.0
    y[::-1] += y
    return y + before


@kernel(lambda: (R.random((80, 7)), R.random(7)))
def filled(rows: Any, v: Any) -> Any:
    """New arrays that are stored into, in called functions, too: by elements, parts, masks and indices."""
    out = np.zeros((len(rows), 3))
    for i in range(len(rows)):
        x = made_and_filled(rows[i], v, i)
        whole = np.zeros(3)
        whole[1:] += x[2:4]
        whole[0] = x.sum()
        out[i] = whole
    return out, x


@kernel(lambda: (R.normal(size=(40, 40)),))
def medians(a: Any) -> Any:
    """Of windows and rows, with odd and even counts."""
    out = np.zeros(a.shape)
    for i in range(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            out[i, j] = np.median(a[i - 1 : i + 2, j - 1 : j + 2])
        out[i, 0] = np.median(a[i])
        out[0, i] = np.median(a[i, ::3] * 2.0)
        out[i, -1] = np.median(a[:i, i])
    return out


@kernel(lambda: (R.random(3), 150))
def orbit(s: Any, n: int) -> Any:
    """Small arrays made of numbers, in inlined functions and variables."""

    def slope(state: Any) -> Any:
        x, y, z = state
        return np.array([10.0 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    path = np.empty((n, 3))
    turn = np.eye(2)
    for i in range(n):
        first = slope(s)
        second = slope(s + 0.005 * first)
        s = s + 0.005 * (first + second)
        path[i] = s
        turn = turn @ np.array([[math.cos(0.1 * i), -math.sin(0.1 * i)], [math.sin(0.1 * i), math.cos(0.1 * i)]])
    return path, turn, first


@kernel(lambda: (np.arange(90), R.random(90).astype(np.float32)))
def arrays_of_numbers(k: Any, x: Any) -> Any:
    """Of several types: what NumPy makes of them."""
    out = np.zeros((len(k), 4))
    kinds = np.zeros(len(k), dtype=complex)
    for i in range(len(k)):
        both = np.array([i, 0.5, True and i * 0.25])
        whole = np.array((i, k[i]))
        narrow = np.array([x[i], x[-i]])
        flags = np.array([i > 3, i % 2 == 0])
        empty = np.array([[i], [2]])
        out[i] = both.sum(), whole[0] / 2.0, narrow[1] * 1.0, flags.sum() + empty[1, 0]
        kinds[i] = np.array([1j * i, i, 0.5])[1]
    return out, kinds, both, whole, narrow, flags, empty


@kernel(lambda: (15, R.random((7, 8, 9)), R.random((7, 8, 9))))
def heat_in_space(steps: int, A: Any, B: Any) -> None:
    for _ in range(steps):
        B[1:-1, 1:-1, 1:-1] = 0.125 * (A[2:, 1:-1, 1:-1] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[:-2, 1:-1, 1:-1]) + A[1:-1, 1:-1, 1:-1]
        A[1:-1, 1:-1, 1:-1] = 0.125 * (B[1:-1, 1:-1, 2:] - 2.0 * B[1:-1, 1:-1, 1:-1] + B[1:-1, 1:-1, :-2]) + B[1:-1, 1:-1, 1:-1]


@kernel(lambda: (R.random((2, 16, 14, 3)).astype(np.float32), R.random((3, 3, 3, 4)).astype(np.float32)))
def convolution(images: Any, W: Any) -> Any:
    k = W.shape[0]
    n, rows, columns, _ = images.shape
    out = np.empty((n, rows - k + 1, columns - k + 1, W.shape[3]), dtype=images.dtype)
    for i in range(rows - k + 1):
        for j in range(columns - k + 1):
            window = images[:, i : i + k, j : j + k, :, np.newaxis]
            out[:, i, j, :] = np.sum(window * W[np.newaxis], axis=(1, 2, 3))
    return out, window.shape, window.base is images


@kernel(lambda: (R.random((3, 24, 26, 5)),))
def pooled(x: Any) -> Any:
    n, rows, columns, channels = x.shape
    out = np.empty((n, rows // 2, columns // 2, channels))
    for i in range(rows // 2):
        for j in range(columns // 2):
            out[:, i, j, :] = np.max(x[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2, :], axis=(1, 2))
    return out


SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 5e-324, 1.7e308])


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("count", [0, 1, 4, 9, 25, 300])
def test_medians_have_the_bits_of_numpys(dtype: str, count: int) -> None:
    def of_rows(rows: Any, out: Any) -> None:
        for i in range(len(rows)):
            out[i] = np.median(rows[i])

    def made() -> tuple[Any, Any]:
        if dtype.startswith("float"):
            with np.errstate(over="ignore"):
                rows = R.choice(SPECIAL, (80, count)).astype(dtype)
            rows[::2] = R.normal(size=(40, count))
            rows[1::4][np.isnan(rows[1::4])] = 2.0
        else:
            rows = R.integers(0, 2 if dtype == "bool" else 200, (80, count)).astype(dtype)
        return rows, np.zeros(80, dtype if dtype.startswith("float") else "float64")

    check(of_rows, *[made() for _ in range(4)], native=False)


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_run_natively(name: str) -> None:
    assert KERNELS.counters(name, 5)["native_turns"] > 50


@pytest.mark.mostly_slow(3)
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("turns", [1, 7])
def test_loops_may_be_left_after_any_turn(name: str, turns: int) -> None:
    _core.set_region_turns(turns)
    counters = KERNELS.counters(name, 3)
    assert counters["native_turns"] > 5, counters


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    text, found, _ = differences(seed, kind=ArrayProgram)
    assert not found, text


@pytest.mark.mostly_slow(2)
@pytest.mark.parametrize("seed", range(20))
def test_random_programs_of_more_dimensions(seed: int) -> None:
    text, found, _ = differences(seed, kind=SpaceProgram)
    assert not found, text


@pytest.mark.mostly_slow(3)
@pytest.mark.parametrize("seed", range(40))
def test_random_programs_that_fill_new_arrays(seed: int) -> None:
    text, found, _ = differences(seed, kind=MadeProgram)
    assert not found, text


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10000, 10300, 50))
def test_more_random_programs(first: int, share: int) -> None:
    for seed in range(first, first + 50, share):
        text, found, _ = differences(seed, kind=ArrayProgram)
        assert not found, (seed, text)


def test_more_dimensions_where_memory_overlaps_and_axes_have_one_element() -> None:
    def shift(A: Any, B: Any, n: int) -> Any:
        for i in range(n):
            A[:, 1:, 1:] = A[:, :-1, :-1]
            A[:, ::-1] += B
            B[...] = A[::-1, ::-1, ::-1]
            B[:, :, i % 3] = i
        return A.sum(axis=(0, 2)), B.max(axis=1)

    def made(*shape: int) -> tuple[Any, Any, int]:
        return R.random(shape), R.random(shape), 40

    whole = np.arange(2.0 * 5 * 4 * 6).reshape(2, 5, 4, 6)
    check(shift, made(3, 4, 5), made(3, 4, 5), made(1, 4, 5), made(3, 1, 3), (whole[0].transpose(2, 0, 1), whole[1].transpose(2, 0, 1), 40), made(0, 4, 5), made(3, 4, 2))


def changes(u: Any, v: Any) -> Any:
    flux = u[1:] * v[1:] - u[:-1] * v[:-1] + 0.25 * (u[1:] - u[:-1]) * (v[1:] + v[:-1])
    spread = (flux[1:] - flux[:-1]) + 0.1 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
    return 0.01 * spread, 0.01 * (flux[1:] + flux[:-1]) * (u[2:] - u[:-2])


def relaxed(u: Any, v: Any) -> Any:
    """As many turns as are one graph where they are short, and each of very many nodes."""
    for _ in range(28):
        du, dv = changes(u, v)
        u[1:-1] -= du
        v[1:-1] += dv
    return u, v


def test_loops_of_large_turns_are_no_single_graph() -> None:
    check(relaxed, *[(R.random(50), R.random(50)) for _ in range(4)])


def test_loops_of_large_turns_are_one_graph_where_that_is_asked_for() -> None:
    captured = evalframe.jit(relaxed, fullgraph=True)
    one, other = (R.random(50), R.random(50)), (R.random(50), R.random(50))
    for arguments in (one, other):
        assert shown(captured(*copies(arguments))) == shown(relaxed(*copies(arguments)))
    assert _core.jit_counters(captured)["breaks"] == 0


def sums_by_doubling(x: Any) -> Any:
    total, step = x.copy(), 1
    while step < len(total):
        total[step:] = total[step:] + total[:-step]
        step *= 2
    return total, step


def haar(x: Any) -> Any:
    """What is left gets half as long in each turn."""
    y, n = x.copy(), x.size
    while n > 1:
        half = n // 2
        low, high = y[0:n:2] + y[1:n:2], y[0:n:2] - y[1:n:2]
        y[:half] = low
        y[half:n] = high
        n = half
    return y


def test_while_loops_over_sizes_have_one_recording_for_all_numbers_of_turns() -> None:
    for function in (sums_by_doubling, haar):
        captured = evalframe.jit(function)
        for n in (4096, 512, 8192, 32, 1, 0, 2, 64, 1 << 17, 1024, 16384):
            x = R.random(n)
            assert shown(captured(x.copy())) == shown(function(x.copy()))
        counters = _core.jit_counters(captured)
        assert counters["native_loops"] > 0
        assert counters["recordings"] <= 6


def test_while_loops_whose_turns_are_known_are_one_graph() -> None:
    def relaxed(u: Any) -> Any:
        turn = 0
        while turn < 12:
            u = 0.5 * u + 1.0
            turn += 1
        return u

    captured = evalframe.jit(relaxed)
    for _ in range(3):
        u = R.random(50)
        assert shown(captured(u)) == shown(relaxed(u))
    assert _core.jit_counters(captured)["breaks"] == 0


@kernel(lambda: (R.random((60, 5)), 300))
def into_empty_arrays(A: Any, n: int) -> Any:
    total = 0.0
    for i in range(n):
        pairs, like = np.empty((i % 3 + 2, 4)), np.empty_like(A[i % 60])
        whole = np.empty(5, dtype=np.int64)
        pairs[:, 1:3] = A[i % 60, 1]
        like[:] = A[i % 60, ::-1]
        whole[:] = i
        total += pairs[1, 2] + like[0] + whole[4]
    return total


def test_what_fails_behind_a_store_into_a_new_array_does_it_once() -> None:
    def made(row: Any, at: int) -> Any:
        y = row * 2.0
        y[at] += 1.0
        y[1:] *= row[:-1]
        y[y > 4.0] = row[at + 1]
        return y

    def all_of_them(rows: Any, at: Any) -> Any:
        total = np.zeros(rows.shape[1])
        for i in range(len(rows)):
            total += made(rows[i], at[i])
        return total

    rows, at = R.random((90, 6)), R.integers(0, 5, 90)
    late, large = at.copy(), rows.copy()
    late[70] = 5
    large[60] = 1e300
    check(all_of_them, (rows, at), (rows, at), (rows, late), (large, at), (rows, at))


def test_generators_that_fail_raise_at_their_lines() -> None:
    def two_of(x: Any, i: int) -> Any:
        return sum(x[i + k] for k in (0, 1))

    def sums(x: Any, at: Any) -> Any:
        out = np.zeros(len(at))
        for i in range(len(at)):
            out[i] = two_of(x, at[i])
        return out

    x, at = R.random(40), R.integers(0, 30, 120)
    wrong = at.copy()
    wrong[77] = 39
    check(sums, (x, at), (x, at), (x, wrong), (x, at))


def test_generators_in_variables_go_on_from_turn_to_turn() -> None:
    def given(x: Any, n: int) -> Any:
        ones = (x[i] * 2.0 for i in range(n))
        total = 0.0
        for i in range(n // 2):
            total += next(ones) - x[i]
        return total, list(ones)

    check(given, *[(R.random(90), 90) for _ in range(4)], native=False)


def test_shapes_that_do_not_fit_raise_at_their_lines() -> None:
    def fill(a: Any, b: Any, n: int) -> Any:
        c = np.zeros(50)
        for i in range(n):
            c[:i] += a[:i]
            c[i:] = b[i:]
        return c

    a = np.arange(50.0)
    check(fill, (a, a, 50), (a, a, 50), (a, a[:39].copy(), 50), (a[:25].copy(), a, 50), (a, a[:1].copy(), 50), (a[:0].copy(), a, 50))


def test_sizes_of_one_are_stretched_where_they_are_met() -> None:
    def add(a: Any, b: Any, n: int) -> None:
        for i in range(n):
            a[: i % 4, 1] += b[: i % 4]
            a[1] = a[0] + b[: 1 + i % 2 * 3]
            a[:, 2:] = b[:, None] - 1.0

    a, b = R.random((4, 4)), R.random(4)
    check(add, (a, b, 40), (a, b, 40), (a, b[:1].copy(), 40), (a, b, 40))


def test_what_a_store_reads_and_writes_may_overlap() -> None:
    def shift(a: Any, b: Any, n: int) -> None:
        for i in range(n):
            a[1:] = a[:-1]
            a[:-2] += b[2:]
            b[::-1] = b
            a[i % 5 :] -= 0.5 * a[: len(a) - i % 5]

    base = R.random(20)
    check(shift, (base, R.random(20), 60), (base, base, 60), (base, R.random(20), 60))
    captured = evalframe.jit(shift)
    plain, ours = base.copy(), base.copy()
    for _ in range(4):
        shift(plain[2:], plain[:-2], 30)
        captured(ours[2:], ours[:-2], 30)
        assert plain.tobytes() == ours.tobytes()


ROWS_OF_NEW = ["(b - 1)[::-1]", "(b * 2)[::2]", "(b * 2)[1:]", "np.flip(b - 1)", "(c + 1)[:, 1]", "(c + 1).T[1]", "(c - 1)[2, ::-1]"]
PARTS_OF_NEW = ["(c * 2).T", "(c - 1)[:, ::-1]", "(c + 1)[1:, 1:]", "(c + 1)[::2]", "(c * 2).T[::-1]", "np.flip(c + 1)", "(c - 1)[:, ::2].T"]
OF_ROWS = ["{}.sum()", "{}.max()", "{}.mean()", "np.argmax({})", "({} * 1.5 + b[0]).sum()", "{}.prod()", "{}.std()", "np.median({})", "{} @ {}", "b[: len({})] @ {}", "{}[o[:2]].sum()", "{}[{} > 0.5].sum()"]
OF_PARTS = ["{}.sum()", "{}.max()", "{}.min(axis=0)[-1]", "{}.sum(axis=0)[-1]", "{}.mean(axis=1)[0]", "({} @ {}.T)[0, 1]", "({} + 1.0).T[1, 0]", "{}.copy()[0, 1]", "({} * 2).sum(axis=1)[-1]", "{}[o[:2]].sum()", "{}[{} > 0.5].sum()", "np.roll({}, 1, axis=0)[0, 0]"]
OF_NEW = [(part, whole) for parts, wholes in ((ROWS_OF_NEW, OF_ROWS), (PARTS_OF_NEW, OF_PARTS)) for part in parts for whole in wholes]


@pytest.mark.parametrize(("part", "whole"), OF_NEW[::5])
def test_parts_of_new_arrays(part: str, whole: str) -> None:
    """What they are is where their elements stand, not that of all of the new one."""
    check_part_of_new(part, whole)


@pytest.mark.slow
@pytest.mark.parametrize(("part", "whole"), [one for number, one in enumerate(OF_NEW) if number % 5])
def test_more_parts_of_new_arrays(part: str, whole: str) -> None:
    check_part_of_new(part, whole)


def check_part_of_new(part: str, whole: str) -> None:
    space: dict[str, Any] = {"np": np}
    number = whole.replace("{}", part)
    exec(f"def f(b, c, o, n):\n    s = x = 0.0\n    for i in range(n):\n        x = {number}\n        s = s + x\n        b[1] += 0.25\n        c[2, 1] -= 0.5\n    return s, x", space)
    o = R.permutation(3)
    check(space["f"], *[(R.random(6), R.random((6, 6)), o, n) for n in (40, 40, 41, 1)], native=False)


@kernel(lambda: (4000,))
def sieve(n: int) -> Any:
    """Steps that vary."""
    is_prime = np.ones(n + 1, dtype=np.bool_)
    is_prime[:2] = False
    for p in range(2, int(n**0.5) + 1):
        if is_prime[p]:
            is_prime[p * p :: p] = False
    return np.nonzero(is_prime)[0]


@pytest.mark.mostly_slow(3)
@pytest.mark.parametrize("part", ["x[::k]", "x[k::k]", "x[: 9 * k : k]", "x[-k::k]", "x[i % 5 : -1 : k]", "A[::k, 1]", "A[1:: k, :: k]", "A[i % 3, ::k]", "x[::np.int64(k)]", "x[::-1][::k]"])
@pytest.mark.parametrize("what", ["s += {}.sum()", "{} += 1.0", "{} = i", "{} *= {}", "s += ({} * 2).max() + len({})"])
def test_steps_that_vary(part: str, what: str) -> None:
    space: dict[str, Any] = {"np": np}
    exec(f"def f(x, A, steps):\n    s = 0.0\n    for i in range(len(steps)):\n        k = int(steps[i])\n        {what.replace('{}', part)}\n    return s", space)
    x, A = R.random(40), R.random((8, 9))
    steps = R.integers(1, 5, 60)
    odd = [steps.copy() for _ in range(4)]
    odd[0][40], odd[1][40], odd[2][40], odd[3][40] = -2, 0, 2**40, 2**62
    check(space["f"], *[(x, A, which) for which in (steps, steps, *odd, steps)])


def test_stores_in_the_order_of_numpys() -> None:
    def smear(b: Any, c: Any, o: int, p: int, m: int, n: int) -> Any:
        for _ in range(n):
            b[:] = c
            v = b[o::-3][:m]
            v[:] = b[p::-1][:m]
        return b

    check(smear, *[(np.zeros(22), np.arange(22.0), 20, p, 4, 80) for p in (17, 17, 17, 19, 21, 12)])

    def spread(A: Any, r: Any, n: int) -> Any:
        for _ in range(n):
            A[...] = r
            A[:, ::-1] = r
        return A

    captured = evalframe.jit(spread)
    for strides in [(8, 16)] * 3 + [(16, 8), (8, 8), (24, 8)]:
        plain, ours = (np.lib.stride_tricks.as_strided(np.zeros(30), (4, 4), strides) for _ in range(2))
        assert shown(spread(plain, np.arange(4.0), 80)) == shown(captured(ours, np.arange(4.0), 80))


def test_conditions_are_reported_at_their_lines() -> None:
    def quotients(a: Any, b: Any, n: int) -> Any:
        c = np.zeros((n, len(a)))
        for i in range(n):
            x = a / b
            c[i] = x - 1
            c[i] += np.sqrt(a - i)
        return c

    a = np.arange(1.0, 9)
    check(quotients, (a + 50, a, 60), (a + 50, a, 60), (a, a - 1, 60), (a, a, 60))
    captured = evalframe.jit(quotients)
    for _ in range(3):
        with np.errstate(all="ignore"):
            assert shown(quotients(a, a - 1, 60)) == shown(captured(a, a - 1, 60))
    for _ in range(3):
        with np.errstate(all="raise"), pytest.raises(FloatingPointError):
            captured(a, a - 1, 60)


def test_conversions_that_stores_make() -> None:
    def store(a: Any, x: Any, n: int) -> None:
        for i in range(n):
            a[i % 3 :] = x[i % 3 :]
            a[0:2] = i
            a[1:4] *= 2

    for dtype in (np.float32, np.int32, np.uint8, np.complex128, np.bool_):
        check(store, *[(np.zeros(9, dtype), R.random(9) * 100, 40)] * 3, native=False)
    check(store, *[(np.zeros(9), np.arange(9, dtype=np.int64), 40)] * 3)
    check(store, (np.zeros(9, np.float32), R.random(9), 40), (np.zeros(9, np.float32), R.random(9), 40), (np.zeros(9, np.float32), np.full(9, 1e300), 40))
    check(store, (np.zeros(9, np.int8), np.arange(9), 40), (np.zeros(9, np.int8), np.arange(9), 300))


def test_identity_of_what_variables_hold() -> None:
    def views(c: Any, n: int) -> Any:
        p, q = c[0], c[1]
        old = q
        for i in range(n):
            old = q
            q = p
            p = c[i % 4]
            r = p
            if p[0] > 5:
                break
        return p is r, q is old, p.base is c, p.flags.owndata, p.flags.writeable, p, q, old, np.shares_memory(p, c)

    c = R.random((4, 5))
    check(views, (c, 20), (c, 20), (c + 10, 20), (c, 21), (c, 3))

    def fresh(c: Any, n: int) -> Any:
        p = q = c + 0
        for i in range(n):
            q = p
            p = c * i
            if i % 7 == 6:
                q = p
        return p is q, p, q, p.base is None, p.flags.owndata, p.flags.c_contiguous

    check(fresh, (c, 20), (c, 20), (c[:, 0].copy(), 21), (c[:, 0].copy(), 28), (np.asfortranarray(c), 20))


def test_orders_in_memory() -> None:
    def orders(c: Any, n: int) -> Any:
        t = c
        for _ in range(n):
            t = c + 1.0
            s = c * t
            u = (c.T * 2) @ c[0]
        return t, s, u, t.strides, s.strides, c.sum(), (c * 2).sum()

    c = R.random((7, 7))
    check(orders, (c, 60), (c, 60), (np.asfortranarray(c), 60), (c[::-1], 60))
    captured = evalframe.jit(orders)
    for made in (c, c.T, c[:, ::-1], np.asfortranarray(c), R.random((14, 7))[::2]):
        for _ in range(3):
            assert shown(orders(made, 60)) == shown(captured(made, 60))


def test_long_loops_of_new_arrays_take_no_memory() -> None:
    def step(x: Any, n: int) -> Any:
        for _ in range(n):
            y = x * 0.5
            x = y + 1.0
        return x

    captured = evalframe.jit(step)
    x = R.random(1000)
    for n in (50, 50, 50, 20_000):
        assert shown(step(x, n)) == shown(captured(x, n))
    assert _core.jit_counters(captured)["native_turns"] > 15_000


def test_large_arrays_are_left_to_kernels() -> None:
    def step(x: Any, n: int) -> Any:
        for _ in range(n):
            x[1:-1] = 0.5 * (x[:-2] + x[2:])
        return x

    check(step, (R.random(50), 60), (R.random(50), 60), (R.random(100_000), 60), (R.random(50), 60), native=True)


def test_read_only_arrays() -> None:
    def scale(a: Any, n: int) -> None:
        for i in range(n):
            a[i:] *= 0.5

    frozen = R.random(20)
    frozen.flags.writeable = False
    captured = evalframe.jit(scale)
    for _ in range(3):
        captured(R.random(20), 20)
    with pytest.raises(ValueError, match="read-only"):
        captured(frozen, 20)

    def part(a: Any, n: int) -> Any:
        for i in range(n):
            p = a[i:]
        return p

    for _ in range(3):
        assert not evalframe.jit(part)(frozen, 10).flags.writeable


def test_ends_of_arrays_that_variables_lose() -> None:
    def lose(x: Any, box: list[Any], n: int) -> Any:
        x = x[0]
        for _ in range(n):
            x = x * 0.5
        return x

    captured = evalframe.jit(lose)
    for _ in range(4):
        captured([R.random(5)], [], 40)
    ended: list[str] = []
    array = R.random(5)
    weakref.finalize(array, ended.append, "array")
    box = [array]
    del array
    captured(box, box, 40)
    box.clear()
    gc.collect()
    assert ended == ["array"]


def test_arrays_over_memory_of_others() -> None:
    def scale(a: Any, x: Any, n: int) -> Any:
        for i in range(n):
            x = x * 0.5 + a[i % 4]
        return x

    captured = evalframe.jit(scale)
    a = np.frombuffer(bytearray(R.random(20).tobytes())).reshape(4, 5)
    for _ in range(4):
        x = R.random(5)
        assert shown(scale(a, x, 80)) == shown(captured(a, x, 80))
    assert _core.jit_counters(captured)["native_turns"] > 50


def test_references_are_let_go() -> None:
    def rows(c: Any, d: Any, n: int) -> Any:
        for i in range(n):
            p = c[i % 4]
            p += d[i % 4]
            c, d = d, c
        return p

    captured = evalframe.jit(rows)
    c, d = R.random((4, 5)), R.random((4, 5)) * 0.01
    for _ in range(4):
        captured(c, d, 40)
    before = sys.getrefcount(c), sys.getrefcount(d)
    for _ in range(20):
        captured(c, d, 41)
    assert (sys.getrefcount(c), sys.getrefcount(d)) == before


def test_products_of_matrices() -> None:
    def products(A: Any, B: Any, x: Any, n: int) -> Any:
        s = 0.0
        C = A @ B
        for i in range(n):
            s += x[i % 5 :] @ x[: len(x) - i % 5]
            y = A[: 1 + i % 6] @ x
            z = x @ B
            C = A @ B[:, : 1 + i % 6]
            A[i % 6] = 0.9 * A[i % 6] + 1e-3 * z
        return s, y, z, C

    for dtype in (np.float64, np.float32, np.complex128, np.int64):
        A, B, x = ((R.random(shape) * 9).astype(dtype) for shape in ((6, 6), (6, 6), 6))
        check(products, *[(A, B, x, 30)] * 3, native=dtype == np.float64)
    A, B, x = R.random((6, 6)), R.random((6, 6)), R.random(6)
    check(products, (A, B, x, 30), (A, B, x, 30), (A[:, :5].copy(), B, x, 30), (A.T, B[::-1], x[::-1], 30), (A, B, x, 30))


def test_dot_of_reversed_and_strided_rows() -> None:
    def dots(a: Any, b: Any, out: Any) -> None:
        for k in range(1, len(a)):
            out[k] = np.dot(np.flip(a[:k]), b[:k]) + a[:k].dot(b[k - 1 :: -1]) + np.dot(a[::2], b[::2]) + a[:k] @ np.flip(b[:k]) + np.dot(out[:k], a[:k])

    for dtype in (np.float64, np.float32, np.complex128, np.int32):
        check(dots, *[((R.random(200) * 9).astype(dtype), (R.random(200) * 9).astype(dtype), np.zeros(200, dtype))] * 3, native=dtype == np.float64)


def test_products_of_two_rows_have_the_bits_of_matmuls() -> None:
    def products(a: Any, b: Any, A: Any, out: Any) -> None:
        for k in range(1, len(out)):
            out[k] = a[:k] @ b[:k] + a[k - 1 :: -1] @ b[:k] + a[:k] @ A[:k, k % 3] + a[: 3 * k : 3] @ A[k - 1 :: -1, 1] + a[k:k] @ b[:0] + A[k, ::-2] @ A[0, ::2]

    for dtype in (np.float64, np.float32, np.complex128, np.int32):
        a, b, A = ((R.normal(size=shape) * 9).astype(dtype) for shape in (300, 300, (100, 5)))
        args = a, b, A, np.zeros(100, dtype)
        odd = np.broadcast_to(a[:1], 300), b[::-1], np.asfortranarray(A), np.zeros(100, dtype)
        check(products, args, args, odd, args, native=dtype == np.float64)


def test_rows_are_put_where_they_belong_whatever_the_steps() -> None:
    def put(A: Any, B: Any, c: Any, n: int) -> None:
        for i in range(n):
            k = i % 4
            A[k] += c[k] * B[k]
            A[:, k] = 2.0 * A[:, k + 1] + B[0, :6]
            A[k, ::-1] = A[k] + 1.0
            A[k, 1:] = A[k, :-1] * 0.5
            A[k + 1] = B[k, :1] + c[:1]

    A, B, c = R.random((6, 8)), R.random((6, 8)), R.random(6)
    orders = [lambda x: x, lambda x: x, np.asfortranarray, lambda x: x[::-1, ::-1], lambda x: np.repeat(x, 2, axis=1)[:, ::2], lambda x: x]
    check(put, *[(how(A), how(B), c, 60) for how in orders])


def test_conditions_are_reported_behind_stores_that_meet_none() -> None:
    def scaled(A: Any, B: Any, c: Any, n: int) -> None:
        for i in range(n):
            A[i] = B[i]
            A[i, 0] = c[i]
            B[i] = A[i] * c[i]
            A[i] = 1.0
            B[i, 1:] = B[i, :-1]

    A, B, c = R.random((60, 5)), R.random((60, 5)), R.random(60)
    large = c.copy()
    large[[41, 42]] = 1e308, -1e200
    check(scaled, (A, B, c, 60), (A, B, c, 60), (A, 9 * B, large, 60), (A, B, c, 60))


def test_smallest_and_largest_of_several() -> None:
    def pick(a: Any, b: Any, n: int) -> Any:
        out = np.zeros(n)
        for i in range(n):
            out[i] = max(0, a[i], b[i] - 1, a[i] + b[i]) + min(a[i], b[i], 0.5) + max(a[i], b[i], 1.0 * i) + min(n, i, 3)
        return out

    a, b = R.normal(size=(2, 80))
    odd = np.where(a > 1, np.nan, a)
    check(pick, (a, b, 80), (a, b, 80), (odd, b, 80), (a, odd, 80), ((a * 5).astype(int), (b * 5).astype(int), 80), (np.zeros(80), -np.zeros(80), 80))


def test_functions_whose_loops_are_being_made_native_are_not_given_up(call_trials: None) -> None:
    _core.set_region_seconds(0.02)

    def nearest(points: Any, centres: Any) -> Any:
        label = np.zeros(len(points), dtype=np.int64)
        for i in range(len(points)):
            best = np.inf
            for j in range(len(centres)):
                square = 0.0
                for d in range(3):
                    square += (points[i, d] - centres[j, d]) ** 2
                if square < best:
                    best = square
                    label[i] = j
        return label

    captured = evalframe.jit(nearest)
    points, centres = R.random((300, 3)), R.random((4, 3))
    # Longer than the loop waits, by what compiling it costs.
    for _ in range(100):
        captured(points, centres)
    counters = _core.jit_counters(captured)
    assert counters["native_loops"] and not counters["given_up"], counters


def test_what_a_waiting_loop_does_anew_is_recorded() -> None:
    _core.set_region_seconds(0.02)

    def paths(draws: Any, start: float) -> Any:
        total, stopped = 0.0, 0
        for i in range(draws.shape[1]):
            price = start  # a number of Python's in the first turn, which comes once in some thousand
            for t in range(draws.shape[0]):
                price *= 1.0 + 0.01 * draws[t, i]
                if price > 130.0:
                    stopped += 1
                    break
            total += price
        return total, stopped

    captured = evalframe.jit(paths)
    draws = R.normal(size=(12_000, 80))
    for _ in range(2):
        assert captured(draws, 100.0) == paths(draws, 100.0)
    counters = _core.jit_counters(captured)
    assert counters["native_loops"] and counters["native_turns"] > 1000, counters


def test_explain_tells_of_loops() -> None:
    def prefix(a: Any, n: int) -> float:
        total = 0.0
        for i in range(n):
            a[i] += total
            total = total + a[i]
        return total

    told = evalframe.explain(evalframe.jit(prefix))
    for _ in range(4):
        explanation = told(np.ones(500), 500)
    loop = next(loop for loop in explanation.loops if loop.native)
    first = prefix.__code__.co_firstlineno
    assert (loop.file, loop.line, loop.function) == (__file__, first + 2, prefix.__qualname__)
    assert loop.turns > 400 and loop.runs and loop.blocks > 1 and loop.ir_lines > 50 and loop.compile_seconds > 0
    assert f"{__file__}:{first + 2}: native: {loop.blocks} blocks" in str(explanation)

    def shuffles(a: Any, n: int) -> None:
        for _ in range(n):
            a[:] = np.random.permutation(a)

    captured = evalframe.explain(evalframe.jit(shuffles))
    for _ in range(4):
        explanation = captured(np.arange(50.0), 80)
    (loop,) = [loop for loop in explanation.loops if loop.line == shuffles.__code__.co_firstlineno + 1]
    assert not loop.native and loop.wait_seconds == 0
    assert (shuffles.__code__.co_firstlineno + 2, "an operation on arrays: call of permutation") in loop.obstacles

    _core.set_region_seconds(1000.0)
    waiting = evalframe.explain(evalframe.jit(prefix))
    for _ in range(3):
        explanation = waiting(np.ones(500), 500)
    assert not any(loop.native for loop in explanation.loops)


def test_the_log_says_what_is_in_the_way() -> None:
    program = """
import numpy as np, evalframe
evalframe._core.set_region_seconds(0.0)
@evalframe.jit
def f(a, n):
    for i in range(n):
        a[:] = np.random.permutation(a)
for _ in range(3): f(np.arange(50.0), 40)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "EVALFRAME_LOG": "regions"}, check=True)
    assert "an operation on arrays: call of permutation" in run.stderr


def test_parts_of_complex_numbers_are_views() -> None:
    def sizes(z: Any, out: Any, n: int) -> Any:
        for i in range(n):
            row = z[i % len(z)]
            out += row.real**2 + row.imag**2
            row.imag[1:] *= 0.5
            row.real = row.real[::-1]
            z.imag[0, 0] += 1.0
            last = row.imag
        return last, last.base is z

    z = R.random((6, 9)) + 1j * R.random((6, 9))
    check(sizes, (z, np.zeros(9), 80), (z, np.zeros(9), 80), (z.T, np.zeros(6), 80), (z.astype(np.complex64), np.zeros(9, np.float32), 80), (z, np.zeros(9), 80), native=False)


def test_rows_are_swapped_by_lists_of_their_numbers() -> None:
    def pivots(A: Any) -> Any:
        order = np.arange(len(A))
        for k in range(len(A)):
            pivot = k + np.argmax(np.abs(A[k:, k]))
            if pivot != k:
                A[[k, pivot]] = A[[pivot, k]]
                order[[k, pivot]] = order[[pivot, k]]
            A[k + 1 :, k] /= A[k, k]
            A[k + 1 :, k + 1 :] -= A[k + 1 :, k, None] * A[k, k + 1 :]
        return order

    A = R.random((60, 60))
    check(pivots, (A,), (A,), (A.T.copy(),), (A[:50, :50].copy(),), (A,))


def test_tuples_and_lists_of_numbers_are_stored_in_rows() -> None:
    def pairs(out: Any, counts: Any, n: int) -> Any:
        x, y = 0.5, 1
        for i in range(n):
            x, y = x * 0.75 + i, y + 3
            out[i] = x, y
            out[i, 0:2] = [out[i, 1], x]
            counts[i % len(counts)] = y, i
        return x, y

    counts = np.zeros((7, 2), int)
    wide, single = np.zeros((70, 3)), np.zeros((70, 1))
    check(pairs, (np.zeros((70, 2)), counts, 70), (np.zeros((70, 2)), counts, 70), (np.zeros((70, 2))[:, ::-1], counts, 70), (wide, counts, 70), (single, counts, 70))
    check(pairs, (np.zeros((70, 2), np.float32), counts, 70), (np.zeros((70, 2), int), counts, 70), (np.zeros((70, 2)), counts.astype(float), 70), native=False)
    check(pairs, (np.zeros((70, 2)), counts.astype(np.int8), 70), (np.zeros((40, 2)), counts, 70), (np.zeros((70, 2), complex), counts, 70), native=False)


def test_arrays_that_were_unpickled_are_as_others() -> None:
    """Their element types are objects of their own."""

    def rows_of(A: Any, x: Any) -> Any:
        row = x
        for i in range(len(A)):
            row = A[i]
            for j in range(len(row)):
                x[i] += row[j] * A[i, j]
            A[i, 1:] = row[:-1] * 0.5
        return row, row.base is A, row.dtype is A.dtype

    A, x = pickle.loads(pickle.dumps((R.random((60, 7)), np.zeros(60))))
    assert A.dtype is not np.dtype(float)
    captured = evalframe.jit(rows_of)
    for _ in range(4):
        one, other = copies((A, x)), copies((A, x))
        assert one[0].dtype is A.dtype
        assert repr(rows_of(*one)) == repr(captured(*other))
        assert [shown(a) for a in one] == [shown(a) for a in other]
    assert evalframe._core.jit_counters(captured)["native_loops"]


@pytest.mark.parametrize("statement", ["y = y * y", "y *= y", "y = y + y * 0.5"])
def test_what_is_made_of_itself_again_and_again(statement: str) -> None:
    """Each step doubles what is to be looked at, as long as nothing is computed."""
    lines = "".join(f"        {statement}\n" for _ in range(60))
    space: dict[str, Any] = {}
    exec(f"def f(x, n):\n    for i in range(n):\n        y = x * 0.5\n{lines}        x[0] = y[1] + 0.25\n    return x, y", space)
    check(space["f"], (np.linspace(0.5, 1.0, 10), 80), (np.linspace(0.5, 1.0, 10), 80))
