"""Inner loops whose turns change one row: it is changed by several turns at once, each element in their order."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from region_programs import check, shown

pytestmark = pytest.mark.usefixtures("native_loops_at_once")

R = np.random.default_rng(37)


def product(C: Any, A: Any, B: Any) -> None:
    for i in range(len(C)):
        C[i] *= 0.5
        for k in range(A.shape[1]):
            C[i] += 1.5 * A[i, k] * B[k]


def triangle(C: Any, A: Any, B: Any) -> None:
    for i in range(len(C)):
        for k in range(A.shape[1]):
            C[i, : i + 1] -= A[i, k] * B[k, : i + 1]


def columns(C: Any, A: Any, B: Any) -> None:
    """What is added isn't a row of neighbours."""
    for i in range(len(C)):
        for k in range(B.shape[1]):
            C[i] += B[:, k] * A[i, k] + A[i, k]


def backwards(C: Any, A: Any, B: Any) -> None:
    for i in range(len(C)):
        for k in range(A.shape[1] - 1, -1, -1):
            C[i] = C[i] * 0.25 + A[i, k] * B[k]


def every_third(C: Any, A: Any, B: Any) -> Any:
    weight = 1.0
    for i in range(len(C)):
        for k in range(0, A.shape[1], 3):
            weight = weight * 0.75
            last = A[i, k] + weight
            C[i] += last * B[k]
    return weight, last, k


def largest(C: Any, A: Any, B: Any) -> None:
    for i in range(len(C)):
        for k in range(A.shape[1]):
            C[i] -= np.maximum(B[k], A[i, k]) / B[0]


def one_row(C: Any, A: Any, B: Any) -> None:
    row = C[0]
    for k in range(len(B)):
        row += B[k]


def by_name(C: Any, A: Any, B: Any) -> Any:
    total = np.zeros(C.shape[1], C.dtype)
    for k in range(len(B)):
        total += A[0, k] * B[k]
    return total


def filtered(C: Any, A: Any, B: Any) -> Any:
    taps, n = B[:, 0], C.shape[1] - len(B) + 1
    out = np.zeros(n, C.dtype)
    for k in range(len(taps)):
        out += taps[k] * C[0, k : k + n]
    for k in range(len(taps)):
        out[1:] -= taps[k] * C[0, 2 * k : 2 * k + n - 1]
    return out


class Sum:
    def __init__(self, total: Any) -> None:
        self.total = total


def in_an_attribute(C: Any, A: Any, B: Any) -> Any:
    sum = Sum(C[0])
    for k in range(len(B)):
        sum.total += A[0, k] * B[k]
    return sum.total


sums: Any = None


def in_a_global(C: Any, A: Any, B: Any) -> Any:
    global sums
    sums = C[0]
    for k in range(len(B)):
        sums += A[0, k] * B[k]
    return sums


def windows(C: Any, A: Any, B: Any) -> Any:
    some = max(len(C) // 2, 1)
    rows, columns = len(C) - some + 1, C.shape[1] - some + 1
    out = np.zeros((rows, columns), C.dtype)
    for a in range(some):
        for b in range(some):
            out += B[a, b] * C[a : a + rows, b : b + columns]
    return out


def planes(C: Any, A: Any, B: Any) -> None:
    """Rows of several, which are changed together."""
    for k in range(B.shape[1]):
        C[1:] += A[1:, k, None] * B[None, :, k] + C[0]


FUNCTIONS: list[Callable[..., Any]] = [filtered, windows, in_an_attribute, in_a_global, planes, product, triangle, columns, backwards, every_third, largest, one_row, by_name]


def matrices(n: int, m: int, k: int, dtype: str = "float64") -> tuple[Any, Any, Any]:
    return R.random((n, m)).astype(dtype), (R.random((n, k)) + 0.5).astype(dtype), (R.random((k, m)) + 0.5).astype(dtype)


def square(n: int, dtype: str = "float64") -> tuple[Any, Any, Any]:
    return matrices(n, n, n, dtype)


@pytest.mark.mostly_slow(5)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_all_sizes(function: Callable[..., Any], dtype: str) -> None:
    if function is largest and dtype == "complex128":
        pytest.skip("complex numbers have no maximum there")
    sizes = [1, 2, 3, 5, 8, 9, 17, 30, 63, 64, 65, 70, 110]
    check(function, *[call for n in sizes for call in (square(n, dtype), square(n, dtype))])


@pytest.mark.parametrize("function", [product, every_third, one_row])
def test_more_rows_than_columns_and_none(function: Callable[..., Any]) -> None:
    shapes = [(3, 40, 7), (3, 1, 90), (2, 200, 20), (2, 3000, 12), (0, 4, 4), (3, 0, 8), (3, 5, 1), (1, 7, 200)]
    check(function, *[matrices(*shape) for shape in shapes for _ in range(2)])


def of_ints(C: Any, A: Any, B: Any) -> None:
    for i in range(len(C)):
        for k in range(A.shape[1]):
            C[i] += A[i, k] * B[k] - 3


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "int16"])
def test_ints(dtype: str) -> None:
    calls = [tuple(R.integers(1, 100, (n, n)).astype(dtype) for _ in range(3)) for n in (4, 4, 20, 20, 70, 70)]
    check(of_ints, *calls)


@pytest.mark.parametrize("turn", [0, 1, 2, 7, 8, 30, 69])
@pytest.mark.parametrize("bad", [np.inf, np.nan, 1e308, 5e-324])
@pytest.mark.parametrize("mode", ["warn", "raise"])
def test_conditions_are_met_at_their_turn(turn: int, bad: float, mode: Any) -> None:
    C, A, B = square(70)
    C += 1
    spoilt = B.copy()
    spoilt[turn, 5] = bad
    if bad == np.inf:
        A = A.copy()
        A[3, turn] = 0.0
    with np.errstate(all=mode):
        check(product, (C, A, B), (C, A, B), (C, A, spoilt), (C, A, B))


def test_a_division_by_zero() -> None:
    C, A, B = square(40)
    spoilt = B.copy()
    spoilt[0, 7] = 0.0
    for mode in ("warn", "raise", "ignore"):
        with np.errstate(all=mode):
            check(largest, (C, A, B), (C, A, B), (C, A, spoilt), (C, A, B))


@pytest.mark.parametrize("missing", [1, 2, 30])
def test_rows_that_are_missing(missing: int) -> None:
    """The turns before are done, and the variables have what they had."""
    C, A, B = square(40)
    check(product, (C, A, B), (C, A, B), (C, A, B[:-missing]), (C, A, B), (C[:, :-1], A, B), (C, A, B))


def by_itself(C: Any, A: Any, B: Any) -> None:
    for i in range(len(C)):
        for k in range(len(C)):
            C[i] -= A[i, k] * C[k]


def by_its_elements(C: Any, A: Any, B: Any) -> None:
    for i in range(len(C)):
        for k in range(C.shape[1]):
            C[i] += C[i, k] * B[k]


def beside(C: Any, A: Any, B: Any) -> None:
    """Of the same memory, one element on."""
    for i in range(len(C)):
        for k in range(A.shape[1]):
            C[i, 1:] += A[i, k] * C[i, :-1]


def by_indices(C: Any, A: Any, B: Any) -> None:
    order = np.arange(len(B))[::-1].copy()
    for i in range(len(C)):
        for k in range(A.shape[1]):
            C[i] += A[i, order[k]] * B[order[k]]


def of_all_rows(C: Any, A: Any, B: Any) -> None:
    for k in range(len(B)):
        for i in range(len(C)):
            C[i] = np.minimum(C[i], A[i, k] + C[k])


@pytest.mark.parametrize("function", [by_itself, by_its_elements, beside, by_indices, of_all_rows])
def test_what_turns_read_of_what_they_change(function: Callable[..., Any]) -> None:
    calls = [(C * 0.01, A * 0.1, B * 0.1) for C, A, B in (square(n) for n in (3, 3, 12, 12, 33, 33))]
    check(function, *calls)


@pytest.mark.parametrize("function", [product, triangle, columns, every_third])
def test_arrays_that_share_memory(function: Callable[..., Any]) -> None:
    """Rows and numbers that are read are, or become, those that are stored."""

    def within(C: Any, A: Any, B: Any) -> Any:
        whole = np.concatenate([C, A, B])
        n = len(C)
        function(whole[:n], whole[1 : n + 1], whole[2 : n + 2])
        return whole

    jitted = evalframe.jit(function)

    def within_jitted(C: Any, A: Any, B: Any) -> Any:
        whole = np.concatenate([C, A, B])
        n = len(C)
        jitted(whole[:n], whole[1 : n + 1], whole[2 : n + 2])
        return whole

    for n in (5, 5, 5, 30, 30, 30):
        call = tuple(x * 0.02 for x in square(n))
        assert shown(within(*call)) == shown(within_jitted(*call))


def test_arrays_of_other_layouts() -> None:
    C, A, B = square(40)
    wide = R.random((40, 80))
    others = [(C, A, wide[:, ::2]), (C, A, B[::-1]), (C, A, B[:, ::-1]), (C, A[::-1, ::-1], B), (np.asfortranarray(C), A, B), (wide[:, 1::2].copy(), A, np.asfortranarray(B)), (wide[:, ::2], A, B)]
    for other in others:
        check(product, (C, A, B), (C, A, B), other, other, (C, A, B), other)


@pytest.mark.parametrize("seed", range(12))
def test_rows_of_any_expression(seed: int) -> None:
    choose = random.Random(seed)

    def term(depth: int) -> str:
        if depth == 0:
            return choose.choice(["B[k]", "A[i, k]", "C[i]", "B[k + 1]", "D[i]", "0.5", "s", "A[i, k + 1]", "B[n - 1 - k]"])
        operation = choose.choice(["+", "-", "*", "*", "/"])
        if choose.random() < 0.2:
            return f"np.{choose.choice(['minimum', 'maximum'])}({term(depth - 1)}, {term(depth - 1)})"
        return f"({term(depth - 1)} {operation} {term(depth - 1)})"

    sign = choose.choice(["+=", "-=", "*=", "="])
    lines = ["def f(C, A, B, D, s):", "    n = len(B) - 1", "    for i in range(len(C)):", f"        for k in range({choose.choice(['n', '1, n', 'n - 1, -1, -1', '0, n, 2'])}):"]
    if choose.random() < 0.5:
        lines.append("            s = s * 0.5 + A[i, k]")
    lines.append(f"            C[i] {sign} {term(choose.choice([1, 2, 2, 3]))}")
    lines.append("    return s, i, k")
    names: dict[str, Any] = {"np": np}
    exec("\n".join(lines), names)
    calls = []
    for n in (4, 4, 20, 20, 70, 70):
        calls.append((R.random((6, n)), R.random((6, n + 3)) * 0.1, R.random((n + 2, n)) + 0.5, R.random((6, n)) * 0.1, 0.5))
    with np.errstate(all="ignore"):
        check(names["f"], *calls, calls[0], calls[2])


@pytest.mark.parametrize("turns", [1, 2, 5, 13])
@pytest.mark.parametrize("function", [product, triangle, every_third, by_name])
def test_left_after_few_turns(function: Callable[..., Any], turns: int) -> None:
    _core.set_region_turns(turns)
    check(function, *[square(n) for n in (30, 30, 30)])


@pytest.mark.parametrize("function", FUNCTIONS)
def test_done_at_once(function: Callable[..., Any]) -> None:
    jitted = evalframe.jit(function)
    for _ in range(3):
        jitted(*square(30))
    assert any(loop.at_once for loop in evalframe.explain(jitted)(*square(30)).loops)


@pytest.mark.parametrize("turn", [0, 3, 6])
def test_conditions_in_windows(turn: int) -> None:
    C, A, B = square(20)
    spoilt = C.copy()
    spoilt[3, turn] = np.inf
    zero = B.copy()
    zero[0, turn] = 0.0
    for mode in ("warn", "raise"):
        with np.errstate(all=mode):
            check(windows, (C, A, B), (C, A, B), (spoilt, A, zero), (C, A, B))


def reaching_out(x: Any, taps: Any, n: int) -> Any:
    """The last parts are cut off, and end in an error."""
    out = np.zeros(n)
    for k in range(len(taps)):
        out += taps[k] * x[k : k + n]
    return out


def from_behind(x: Any, taps: Any, n: int) -> Any:
    out = np.zeros(n)
    for k in range(len(taps)):
        out += taps[k] * x[k - 8 : k - 8 + n]
    return out


@pytest.mark.parametrize("function", [reaching_out, from_behind])
def test_parts_that_are_cut_off(function: Callable[..., Any]) -> None:
    x, taps = R.random(100), R.random(12)
    check(function, (x, taps, 80), (x, taps, 80), (x, taps, 89), (x, taps, 90), (x, taps, 1), (x, taps, 100), (x, taps, 5), (x[:10], taps, 2))


def shrinking(x: Any, taps: Any, n: int) -> Any:
    out = np.ones(n)
    for k in range(len(taps)):
        out += taps[k] * x[k:n]
    return out


def of_one_element(x: Any, taps: Any, n: int) -> Any:
    """As many as there are, then one, which is taken for all."""
    out = np.ones(n)
    for k in range(n):
        out += x[k : k + 1] * taps[0]
    return out


def test_parts_of_other_sizes() -> None:
    x, taps = R.random(100), R.random(12)
    check(shrinking, (x, taps[:1], 80), (x, taps[:1], 80), (x, taps, 80), (x, taps, 1), (x, taps[:1], 80))
    check(of_one_element, *[(x, taps, n) for n in (1, 2, 3, 20, 100, 101)])


def quotients(C: Any, A: Any, B: Any) -> None:
    for i in range(len(C)):
        for k in range(A.shape[1]):
            C[i] += B[k] // A[i, k] - A[k] % B[k]


@pytest.mark.parametrize("at", [(0, 0), (3, 1), (3, 17), (19, 19)])
def test_ints_divided_by_zero(at: tuple[int, int]) -> None:
    C, A, B = (R.integers(1, 9, (20, 20)) for _ in range(3))
    zero, row = A.copy(), B.copy()
    zero[at], row[at] = 0, 0
    for mode in ("warn", "raise"):
        with np.errstate(all=mode):
            check(quotients, (C, A, B), (C, A, B), (C, zero, B), (C, A, row), (C, A, B))


def by_items(C: Any, A: Any, B: Any) -> None:
    """Numbers of a list, and a condition that isn't about arrays."""
    weights = [0.5, 0.25, 2.0] * len(B)
    for i in range(len(C)):
        for k in range(len(B)):
            C[i] += weights[k] * B[k]
        for k in range(len(B)):
            if k % 3:
                C[i] -= weights[k] * B[k]


def two_statements(C: Any, A: Any, B: Any) -> None:
    for i in range(len(C)):
        for k in range(len(B)):
            C[i] += A[i, k] * B[k]
            C[i] *= 0.5
        for k in range(len(B)):
            C[i] += B[k]
            A[i, k] = C[i, 0]


@pytest.mark.parametrize("function", [by_items, two_statements])
def test_turns_that_do_more(function: Callable[..., Any]) -> None:
    check(function, *[square(n) for n in (1, 1, 4, 4, 30, 30, 70)])
