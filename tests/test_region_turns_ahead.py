"""Nests of loops whose inner one adds up numbers: the sums of several turns of the outer one are computed side by side, each in its own order."""

from __future__ import annotations

import itertools
import math
import pickle
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import outcome
from region_programs import check, copies, shown

pytestmark = pytest.mark.usefixtures("native_loops_at_once")

R = np.random.default_rng(29)


def product(C: Any, A: Any, B: Any) -> None:
    for i in range(len(C)):
        for j in range(C.shape[1]):
            total = 0.0
            for k in range(len(B)):
                total += A[i, k] * B[k, j]
            C[i, j] = 0.5 * C[i, j] + total


def rows(C: Any, A: Any, B: Any) -> None:
    for i in range(len(C)):
        for j in range(C.shape[1]):
            total = 0.0
            for k in range(len(B)):
                difference = A[i, k] - A[j % 3, k]
                total += difference * difference / A[i, k]
            C[i, j] = np.sqrt(total)


def columns(C: Any, A: Any, B: Any) -> None:
    """Of each turn another row is read."""
    n, m = C.shape
    for j in range(m):
        for i in range(n):
            total = 0.0
            for k in range(len(B)):
                total += (A[i, k] - B[k, j]) * A[i, k]
            C[i, j] = abs(total)


def powers(C: Any, A: Any, B: Any) -> None:
    for i in range(len(C)):
        for j in range(C.shape[1]):
            total = 0.0
            for k in range(len(B)):
                total += (A[i, k] - B[k, j]) ** 2
            C[i, j] = total


def quotients(C: Any, A: Any, B: Any) -> None:
    for i in range(len(C)):
        for j in range(C.shape[1]):
            total = C[i, j]
            for k in range(len(B)):
                total -= A[i, k] / B[k, j]
            C[i, j] = total / A[i, 0]


def two_sums(C: Any, A: Any, B: Any) -> Any:
    last = 0
    for i in range(len(C)):
        for j in range(C.shape[1]):
            one = other = 1.0
            for k in range(len(B)):
                value = B[k, j] - 0.5
                one += A[i, k] * value
                other *= value
            C[i, j] = one / (other - 1.0)
            last = k
    return last, one, value, j


def chosen(C: Any, A: Any, B: Any) -> Any:
    """What is behind the inner loop is several blocks."""
    best, where = -1.0, (0, 0)
    for i in range(len(C)):
        for j in range(C.shape[1]):
            total = 0.0
            for k in range(len(B)):
                total += A[i, k] * B[k, j]
            if total > best:
                best, where = total, (i, j)
            elif total < 0.5:
                continue
            C[i, j] = total if total > 1.0 else 0.0
    return best, where


def left(C: Any, A: Any, B: Any) -> Any:
    for i in range(len(C)):
        for j in range(C.shape[1]):
            total = 0.0
            for k in range(len(B)):
                total += A[i, k] * B[k, j]
            if total > 0.45 * len(B):
                break
            C[i, j] = total
        if total > 0.5 * len(B):
            return i, j, total
    return None


def turned(C: Any, A: Any, B: Any) -> None:
    n, m = C.shape
    inner = len(B)
    for i in range(n - 1, -1, -1):
        for j in range(m - 1, -1, -1):
            total = 0.0
            for k in range(inner - 1, -1, -2):
                total += A[i, inner - 1 - k] * B[k, m - 1 - j]
            C[i, j] += total


def every_second(C: Any, A: Any, B: Any) -> None:
    for i in range(len(C)):
        for j in range(0, C.shape[1], 2):
            row = 3 * j + 1
            total = 0.0
            for k in range(1, len(B)):
                total += A[i, k] * B[k, j] + A[i, k - 1] * (row - k)
            C[i, j] = total


def of_triangle(C: Any, A: Any, B: Any) -> None:
    for i in range(len(C)):
        for j in range(min(i, C.shape[1])):
            total = 0.0
            for k in range(min(j, len(B))):
                total += A[i, k] * B[k, j]
            C[i, j] = total


def from_before(C: Any, A: Any, B: Any) -> Any:
    """Something of a turn is known when the one before is done."""
    scale, total = 1.0, 0.0
    for i in range(len(C)):
        for j in range(C.shape[1]):
            for k in range(len(B)):
                total += A[i, k] * B[k, j] * scale
            C[i, j] = total
            scale = 1.0 / (1.0 + total)
    return scale


def stores_what_is_read(C: Any, A: Any, B: Any) -> None:
    for i in range(len(C)):
        for j in range(C.shape[1]):
            total = 0.0
            for k in range(len(B)):
                total += A[i, k] * B[k, j]
            B[0, (j + 1) % B.shape[1]] = total * 0.125
            C[i, j] = total


def elements_beyond(C: Any, A: Any, B: Any) -> None:
    for i in range(len(C)):
        for j in range(C.shape[1]):
            total = 0.0
            for k in range(len(B)):
                total += A[i, k] * B[k, j + 1]
            C[i, j] = total


def from_the_end(C: Any, A: Any, B: Any) -> None:
    for i in range(len(C)):
        for j in range(-3, C.shape[1] - 3):
            total = 0.0
            for k in range(-len(B), 0):
                total += A[i, k] * B[k, j]
            C[i, j] = total


def of_whole_numbers(C: Any, A: Any, B: Any) -> None:
    for i in range(len(C)):
        for j in range(C.shape[1]):
            total, count = 0.0, 0
            for k in range(len(B)):
                total += int(B[k, j] * 4) * A[i, k]
                count += k * j
            C[i, j] = total + count


def other_loop_between(C: Any, A: Any, B: Any) -> None:
    for i in range(len(C)):
        for j in range(C.shape[1]):
            total = 0.0
            for k in range(len(B)):
                total += A[i, k] * B[k, j]
            for k in range(min(3, len(B))):
                C[i, j] += total * B[k, j]


def added_in_place(C: Any, A: Any, B: Any) -> None:
    for i in range(len(C)):
        for j in range(C.shape[1]):
            for k in range(len(B)):
                C[i, j] += A[i, k] * B[k, j]


def added_to_two(C: Any, A: Any, B: Any) -> Any:
    products = np.ones(C.shape[1], C.dtype)
    for j in range(C.shape[1]):
        scale = 0.5 * j
        for k in range(len(B)):
            C[0, j] = C[0, j] * 0.75 + B[k, j] * scale
            products[j] *= B[k, j] - 0.25
    return products


def added_to_rows(C: Any, A: Any, B: Any) -> None:
    for j in range(len(C)):
        for k in range(len(B)):
            C[j][1 % C.shape[1]] -= A[j, k] * B[k][0 % B.shape[1]]
        A[j, 0 % A.shape[1]] = j


def added_to_one(C: Any, A: Any, B: Any) -> None:
    """The same element in each turn, which is found out when it runs."""
    for i in range(len(C)):
        for j in range(C.shape[1]):
            for k in range(len(B)):
                C[i, 0] += A[i, k] * B[k, j]


def stored_over(C: Any, A: Any, B: Any) -> None:
    """Of each element the last product stays, and all others may be told of."""
    for i in range(len(C)):
        for j in range(C.shape[1]):
            for k in range(len(B)):
                C[i, j] = A[i, k] * B[k, j]


def read_beside(C: Any, A: Any, B: Any) -> None:
    for i in range(len(C)):
        for j in range(C.shape[1]):
            for k in range(len(B)):
                C[i, j] += A[i, k] * C[i, (j + 1) % C.shape[1]]


def read_behind(C: Any, A: Any, B: Any) -> Any:
    last = 0.0
    for i in range(len(C)):
        for j in range(C.shape[1]):
            for k in range(len(B)):
                C[i, j] += A[i, k] * B[k, j]
            last = last * 0.5 + C[i, j - 1]
    return last


FUNCTIONS: list[Callable[..., Any]] = [added_in_place, added_to_two, added_to_rows, added_to_one, stored_over, read_beside, read_behind,
                                       product, rows, columns, powers, quotients, two_sums, chosen, left, turned, every_second, of_triangle, from_before,
                                       stores_what_is_read, elements_beyond, from_the_end, of_whole_numbers, other_loop_between]  # fmt: skip
AHEAD = {added_in_place, added_to_two, added_to_one, product, columns, two_sums, chosen, left, turned, every_second, of_triangle, elements_beyond, from_the_end, other_loop_between}


def arguments(n: int, m: int, inner: int, dtype: str = "float64") -> tuple[Any, Any, Any]:
    return R.random((n, m)).astype(dtype), R.random((n, inner)).astype(dtype), (R.random((inner, m)) + 0.25).astype(dtype)


SIZES = [(6, 20, 5), (6, 20, 5), (6, 20, 5), (1, 1, 1), (2, 7, 3), (2, 8, 1), (3, 9, 2), (2, 17, 4), (0, 9, 3), (3, 0, 4), (3, 30, 0), (2, 60, 70), (70, 10, 3)]


@pytest.mark.mostly_slow(7)
@pytest.mark.parametrize("turns", [3, 2**62])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "int64"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_sums_of_all_sizes(function: Callable[..., Any], dtype: str, turns: int) -> None:
    if dtype == "complex128" and function in (chosen, left, of_whole_numbers):
        pytest.skip("complex numbers aren't ordered")
    _core.set_region_turns(turns)
    try:
        check(function, *[arguments(*size, dtype) for size in SIZES])
    finally:
        _core.set_region_turns(2**62)


@pytest.mark.mostly_slow(5)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_conditions_are_reported_in_their_turn(function: Callable[..., Any]) -> None:
    calls = [arguments(6, 20, 5) for _ in range(3)]
    for place in ((0, 0), (0, 7), (3, 8), (4, 15), (2, 19)):
        for value in (0.0, np.inf, np.nan, 1e308, -1e-308):
            C, A, B = arguments(6, 20, 5)
            B[place] = value
            A[place[0], 1] = value
            calls.append((C, A, B))
    check(function, *calls)
    with np.errstate(all="raise"):
        check(function, *calls)


def shared(seed: int) -> Any:
    return np.random.default_rng(seed).random((20, 20)) + 0.25


SHARED: list[Callable[[Any, Any], Any]] = [
    lambda one, other: (one, one, other),
    lambda one, other: (one, other, one),
    lambda one, other: (one[:12], other[:12], one[8:]),
    lambda one, other: (one[:10], other[:10], one[10:]),
    lambda one, other: (one[::2], other[::2], one),
    lambda one, other: (other[:, ::2], one, one[:10, ::2]),
    lambda one, other: (one[:, :10], one[:, 10:], one[:10, :10]),
    lambda one, other: (one[5:15], one[:10], other[:, ::-1]),
]


@pytest.mark.mostly_slow(5)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_arrays_that_share_memory(function: Callable[..., Any]) -> None:
    captured = evalframe.jit(function)
    for seed in range(3 * len(SHARED)):
        sides = []
        for called in (function, captured):
            one, other = shared(seed), shared(-seed - 1 & 255)
            sides.append((repr(outcome(called, *SHARED[seed % len(SHARED)](one, other))), shown(one), shown(other)))
        assert sides[0] == sides[1]
    assert _core.jit_counters(captured)["native_loops"]


@pytest.mark.mostly_slow(5)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_arrays_of_any_layout(function: Callable[..., Any]) -> None:
    calls: list[Any] = []
    for order in ("C", "F"):
        for step in (1, -1, 2):
            C, A, B = (np.asarray(one, order=order)[::step, ::step] for one in arguments(12, 24, 10))  # type: ignore[call-overload]
            calls += 2 * [(C, A[:, : len(B)], B)]
    C, A, B = arguments(6, 20, 5)
    calls += [(C, A[:, :3], B), (C, A, B[:, :9]), (C, A[:4], B), (C, A, B)]
    check(function, *calls)


class Nest:
    """A random nest of two or three loops, most of whose inner ones are sums that are computed ahead."""

    BEGIN = (["s = 0.0", "t = 0.0", "s = x[j]", "r = 2 * j + 1", "y = x[j] / 2"], ["s = C[i, j]", "s = A[i, 0]", "r = j * n", "t = x[i] * 2", "w = j", "s = 0", "q = A[i]", "pass"])
    END = (["C[i, j] = s", "C[i, j] += s * w", "C[i, j] = t", "if s > 2: C[i, j] = t", "C[i, j] = s / y"],
           ["x[j] = s", "x[i] = s + t", "w = w * 0.5", "B[0, j] = s", "A[i, 1] = 0.5", "C[i, -1 - j] = s", "if s > 9: break", "if t < -9: continue", "if s > 50: return i, j, s", "n = n - 1", "t = t + s", "x[0] = s",
            "C[i, j] = s if s > t else t", "C[i, j] = j", "s = s / w", "C[i][j] = t", "y = s", "x = x"])  # fmt: skip

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        pick = self.random.choice
        self.wild = pick([0.0, 0.1, 0.3])
        self.adds = pick([True, False])
        # All variables are bound: behind some turns of a loop CPython 3.11 tells of one that isn't in the line before.
        self.inner = self.one_of(["k"], ["len(B) - 1 - k", "k - 1", "k + 1"])
        outer = self.one_of(["C.shape[1]", "C.shape[1] - 1, -1, -1", "0, C.shape[1], 2"], ["1, C.shape[1]", "n", "i, C.shape[1]", "i + 1"])
        inner = self.one_of(["len(B)", "1, len(B)", "len(B) - 1, -1, -1", "0, len(B), 2"], ["j", "n", "7", "j, j + 5"])
        lines = ["def f(C, A, B, x, n):", "    s = t = 0.0", "    w, y, r, q = 1.5, 0.25, 1, x", "    for i in range(len(C)):", f"        for j in range({outer}):", "            s = t = 0.0"]
        lines += self.statements(*self.BEGIN, 0, 3, 3)
        lines += [f"            for k in range({inner}):"] + [f"                {self.sum()}" for _ in range(pick([1, 1, 2, 3]))]
        if self.random.random() < self.wild:
            lines += ["            else:", "                t = t + 1"]
        lines += self.statements(*self.END, *((0, 1) if self.adds else (1, 3)), 3)
        if self.random.random() < 0.3:
            lines += self.statements(["x[i] = s", "w = w + 1", "t = t * 0.5"], ["C = C + 0"], 1, 2, 2)
        lines += ["    return s, t, w, i, locals().get('j'), locals().get('k')" if pick([True, False]) else "    return s, t, w"]
        self.text = "\n".join(lines)

    def one_of(self, usual: list[str], odd: list[str]) -> str:
        return self.random.choice(odd if self.random.random() < self.wild else usual)

    def statements(self, usual: list[str], odd: list[str], least: int, most: int, depth: int) -> list[str]:
        return ["    " * depth + self.one_of(usual, odd) for _ in range(self.random.randint(least, most))]

    def sum(self) -> str:
        k = self.inner
        usual = [f"A[i, {k}]", f"B[{k}, j]", f"A[j, {k}]", "w", f"x[{k}]", "y", f"B[{k}, -1 - j]", f"x[{k} + j]", "x[j]"]
        odd = ["n", "k", "j", "0.5", f"C[i, {k}]", f"B[{k}][j]", "np.sqrt(x[j])", "r", f"q[{k}]", f"B[{k}, r % 3]", f"B[{k}, r]", f"x[j - {k}]"]
        one, other = self.one_of(usual, odd), self.one_of(usual, odd)
        term = f"{one} {self.one_of(['*', '*', '-'], ['+', '/'])} {other}"
        if self.adds:
            place = self.one_of(["C[i, j]", "C[i, j]", "x[j]", "C[i][j]"], ["x[i]", "C[i, 0]", "C[i, k]", "A[i, j]", "B[0, j]"])
            return self.one_of([f"{place} += {term}", f"{place} -= {term}", f"{place} = {place} * 0.5 + {term}", f"s += {term}"], [f"{place} = {term}", f"{place} += C[i, j - 1]", f"if {term} > 1: {place} += 1"])
        return self.one_of([f"s += {term}", f"s -= {term}", f"t += {term}", f"s = s + {term}", "t += s"], [f"y = {term}", f"t = max(t, {term})", "s *= 0.75", f"if {term} > 1: t += 1", f"s = {term} - s", f"s += math.sqrt(abs({term}))"])

    def arguments(self) -> tuple[Any, ...]:
        rand, pick = np.random.default_rng(self.random.randrange(2**32)), self.random.choice
        n, m, inner = pick([1, 2, 3, 5]), pick([1, 7, 8, 9, 16, 20, 33]), pick([0, 1, 2, 3, 7, 12, 40])
        dtype = pick(["float64"] * 5 + ["float32", "int64", "complex128"])

        def array(*shape: int) -> Any:
            made = (rand.random(shape) * pick([1.0, 1.0, 4.0]) + pick([0.0, 0.25])).astype(pick([dtype] * 9 + ["float32"]))
            for _ in range(pick([0, 0, 0, 1, 2])):
                if made.size:
                    made[tuple(int(rand.integers(size)) for size in shape)] = pick([0.0, -1.0, 7.0] + ([np.nan, np.inf, 1e30, 1e-30] if made.dtype.kind in "fc" else []))
            return made

        base = array(40, 40)
        C, A, B = (pick([array(*shape)] * 5 + [base[: shape[0], : shape[1]], np.asfortranarray(array(*shape)), array(2 * shape[0], shape[1])[::2]]) for shape in ((n, m), (pick([n, m, 40]), inner), (inner, pick([m] * 4 + [m + 1, 3]))))
        return C, A, B, pick([array(40)] * 4 + [base[0], base[:, 1]]), pick([0, 1, 5, 9, 30])


@pytest.mark.mostly_slow(5)
@pytest.mark.parametrize("seed", [*range(60), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(60, 700))])
def test_random_nests(seed: int) -> None:
    nest = Nest(seed)
    sides = []
    for _ in range(2):
        names: dict[str, Any] = {"np": np, "math": math}
        exec(nest.text, names)
        sides.append(names["f"])
    captured = evalframe.jit(sides[1])
    for call in range(8):
        _core.set_region_turns(nest.random.choice([2**62, 2**62, 2**62, 1, 5, 30]))
        arguments = nest.arguments()
        came = []
        for function in (sides[0], captured):
            # Views of one array stay that.
            given = pickle.loads(pickle.dumps(arguments)) if not any(np.shares_memory(one, other) for one, other in itertools.combinations(arguments[:4], 2)) else of_one(arguments)
            came.append((repr(outcome(function, *given)), [shown(one) for one in given[:4]]))
        assert came[0] == came[1], f"call {call} of\n{nest.text}"


def of_one(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copies, of arrays with a base as views of one copy of it."""
    bases: dict[int, Any] = {}

    def copied(array: Any) -> Any:
        if not isinstance(array, np.ndarray) or array.base is None or array.base.shape != (40, 40):
            return array.copy("K") if isinstance(array, np.ndarray) else array
        base = bases.setdefault(id(array.base), array.base.copy())
        offset = array.__array_interface__["data"][0] - array.base.__array_interface__["data"][0]
        return np.ndarray(array.shape, array.dtype, base, offset, array.strides)

    return tuple(copied(one) for one in arguments)


def sums_lost(C: Any, A: Any, x: Any) -> Any:
    """Of each sum nothing comes but the last one."""
    for i in range(len(C)):
        for j in range(C.shape[1]):
            total = 0.0
            for k in range(A.shape[1]):
                total += x[j] * A[j, k]
    return total


def products_lost(C: Any, A: Any, x: Any) -> Any:
    """What is computed behind the inner loop is lost when the next turn begins."""
    for i in range(len(C)):
        for j in range(C.shape[1]):
            total = 0.0
            for k in range(A.shape[1]):
                total += A[i, k] * A[j, k]
            C[i, j] = 1.0
            total = total * x[j]
    return total


@pytest.mark.parametrize("function", [sums_lost, products_lost])
def test_conditions_are_reported_of_what_nothing_comes_of(function: Callable[..., Any]) -> None:
    calls: list[Any] = []
    for seed in range(30):
        x = np.ones(24)
        if seed > 5:
            x[seed % 24] = (1e308, np.inf, -1e308)[seed % 3]
        calls.append((np.zeros((6, 24)), R.random((24, 50)) + 0.5, x))
    check(function, *calls)
    with np.errstate(over="raise", invalid="raise"):
        check(function, *calls)


def wide(C: Any, A: Any, D: Any, step: Any) -> None:
    for i in range(len(C)):
        for j in range(C.shape[1]):
            total = 0.0
            for k in range(A.shape[1]):
                total += A[i, k] * A[j, k]
            D[j] = j * step
            C[i, j] = total


def raised(C: Any, A: Any, D: Any, step: Any) -> None:
    for i in range(len(C)):
        for j in range(C.shape[1]):
            total = 0.0
            for k in range(A.shape[1]):
                total += A[i, k] * A[j, k]
            C[i, j] = total + step**3.0


@pytest.mark.parametrize(
    ("function", "dtype", "steps"),
    [(wide, "int32", (3, 300000000, 200000000)), (wide, "int8", (1, 7, 10)), (wide, "float32", (1, 2**23 + 1, 2**60 + 2**36 + 1)), (raised, "float64", (3.0, 1e200, -1e200))],
)
def test_what_is_behind_is_done_again_where_it_comes_to_what_isnt_expected(function: Callable[..., Any], dtype: str, steps: Any) -> None:
    """Such as an int that is too large for the element."""
    calls = [(np.zeros((6, 24)), R.random((24, 50)), np.zeros(24, dtype), steps[max(call - 5, 0) % 3]) for call in range(12)]
    check(function, *calls)
    with np.errstate(all="ignore"):
        check(function, *calls)


def far(C: Any, A: Any, step: Any) -> Any:
    for i in range(len(C)):
        for j in range(-6, 7):
            row = j * step
            total = 0.0
            for k in range(A.shape[1]):
                total += A[i, k] * row
            C[i, j + 6] = total + row
    return row, total


def test_numbers_that_are_further_from_each_other_than_63_bits() -> None:
    check(far, *[(np.zeros((6, 24)), R.random((6, 50)), 1317624576693539402) for _ in range(4)])


def is_ahead(function: Callable[..., Any]) -> bool:
    captured = evalframe.jit(function)
    given = arguments(6, 20, 70)
    for _ in range(6):
        outcome(captured, *copies(given))
    given[0].resize((6, 19))
    loops = [loop for loop in evalframe.explain(captured)(*given).loops if loop.native]
    return any(".ahead:" in loop.ir for loop in loops)


GLOBAL = {"A": R.random((9, 40)), "B": R.random((40, 30)), "C": np.zeros((9, 30))}


def test_arrays_in_globals() -> None:
    text = """
def f(n):
    for i in range(9):
        for j in range(n):
            total = 0.0
            for k in range(40):
                total += A[i, k] * B[k, j]
            C[i, j] += total
"""
    worlds = [{name: array.copy() for name, array in GLOBAL.items()} for _ in range(2)]
    for world in worlds:
        exec(text, world)
    captured = evalframe.jit(worlds[1]["f"])
    for n in (30, 30, 30, 7, 8, 0, 30, 31, 30):
        assert repr(outcome(worlds[0]["f"], n)) == repr(outcome(captured, n))
        if n == 8:  # what is stored is read
            for world in worlds:
                world["C"] = world["B"][:9]
        assert [shown(worlds[0][name]) for name in "ABC"] == [shown(worlds[1][name]) for name in "ABC"]
    assert any(".ahead:" in loop.ir for loop in evalframe.explain(captured)(30).loops if loop.native)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_which_are_computed_ahead(function: Callable[..., Any]) -> None:
    assert is_ahead(function) == (function in AHEAD)
