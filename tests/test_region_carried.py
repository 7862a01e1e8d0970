"""Elements that one turn stores and the next one reads, and counts that are stored anywhere: a turn doesn't wait for memory, and logs nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import outcome
from region_programs import check, shown

pytestmark = pytest.mark.usefixtures("native_loops_at_once")

R = np.random.default_rng(31)


def sums(C: Any, x: Any) -> None:
    for i in range(1, len(x)):
        x[i] = x[i] + x[i - 1]


def filtered(C: Any, x: Any) -> Any:
    last = 0
    for i in range(len(C)):
        for j in range(1, C.shape[1]):
            C[i, j] = C[i, j] + (C[i, j - 1] if x[j] > x[i] else x[j])
            last = C[i, j]
    return last


def cheapest(C: Any, x: Any) -> Any:
    for i in range(len(C)):
        for j in range(C.shape[1]):
            if i > 0 and j > 0:
                C[i, j] += min(C[i - 1, j], C[i, j - 1])
            elif i > 0:
                C[i, j] += C[i - 1, j]
            elif j > 0:
                C[i, j] += C[i, j - 1]
    return C[-1, -1]


def stored_now_and_then(C: Any, x: Any) -> None:
    """In some turns nothing is stored: the next one reads what was there."""
    for i in range(len(C)):
        for j in range(1, C.shape[1]):
            if x[j] > x[j - 1]:
                C[i, j] = C[i, j - 1] + 1


def backwards(C: Any, x: Any) -> None:
    for i in range(len(x) - 2, -1, -1):
        x[i] = x[i + 1] - x[i]


def every_third(C: Any, x: Any) -> None:
    for i in range(3, len(x), 3):
        x[i] = x[i - 3] + x[i - 1]


def two_before(C: Any, x: Any) -> None:
    for i in range(2, len(x)):
        x[i] = x[i - 2] + x[i - 1]


def down_columns(C: Any, x: Any) -> None:
    for j in range(C.shape[1]):
        for i in range(1, len(C)):
            C[i, j] = C[i - 1, j] + x[j] if C[i, j] > x[j] else C[i - 1, j]


def one_place(C: Any, x: Any) -> None:
    for i in range(len(C)):
        for j in range(C.shape[1]):
            if C[i, j] > x[0]:
                x[0] = x[0] + C[i, j]


def other_stores(C: Any, x: Any) -> None:
    """The next turn reads what another store may have changed."""
    for i in range(len(C)):
        for j in range(1, C.shape[1]):
            C[i, j] = C[i, j - 1] + x[j]
            x[(j * 3) % len(x)] = C[i, j]


def read_in_front(C: Any, x: Any) -> Any:
    total = 0
    for j in range(1, len(x) - 1):
        total = total + x[j - 1] * 2
        x[j] = x[j + 1]
    return total, j


def left_in_the_midst(C: Any, x: Any) -> Any:
    for i in range(len(C)):
        for j in range(1, C.shape[1]):
            C[i, j] = C[i, j] + C[i, j - 1]
            if C[i, j] > 12:
                break
        else:
            return i
    return j


def beyond(C: Any, x: Any) -> None:
    for j in range(1, len(x) + 1):
        x[j] = x[j - 1] + 1


def around(C: Any, x: Any) -> None:
    for i in range(len(C)):
        for j in range(C.shape[1]):
            C[i, j] = C[i, j - 1] - x[j]


def by_a_constant(C: Any, x: Any) -> None:
    for i in range(len(C)):
        for j in range(4):
            if j == 0:
                C[i, 0] = x[i]
            elif j == 3:
                C[i, 3] = C[i, 2] + C[i, 3]
            else:
                C[i, j] = C[i, j - 1] + 1


def counts(C: Any, x: Any) -> None:
    for i in range(len(C)):
        for j in range(C.shape[1]):
            x[int(C[i, j]) % len(x)] += 1


def counts_of_two(C: Any, x: Any) -> Any:
    table, weights = np.zeros((3, 2), dtype=x.dtype), np.zeros(5)
    for i in range(len(C)):
        for j in range(C.shape[1]):
            where = int(C[i, j])
            table[where % 3, where % 2] += x[j]
            if where > 2:
                weights[where % 5] += 0.5
    return table, weights


def counts_beyond(C: Any, x: Any) -> None:
    for i in range(len(C)):
        for j in range(C.shape[1]):
            x[int(C[i, j]) * 3 - j] += C[i, j]


def counts_and_rows(C: Any, x: Any) -> None:
    for i in range(len(C)):
        for j in range(C.shape[1]):
            C[i, j] = C[i, j] + x[int(C[i, j]) % len(x)]
            x[int(C[i, j]) % len(x)] -= 1


CARRIED: list[Callable[..., Any]] = [sums, filtered, cheapest, stored_now_and_then, backwards, every_third, two_before, down_columns, one_place, read_in_front, left_in_the_midst, beyond, around]  # fmt: skip
COUNTS: list[Callable[..., Any]] = [counts, counts_of_two, counts_beyond, counts_and_rows]
FUNCTIONS = [*CARRIED, *COUNTS, other_stores, by_a_constant]


def arguments(rows: int, columns: int, dtype: str = "float64", most: float = 5.0) -> tuple[Any, Any]:
    values = R.random((rows, columns)) * most, R.random(max(columns, rows) + 2) * most
    return tuple(value.astype(dtype) for value in values)


SIZES = [(9, 12), (9, 12), (9, 12), (4, 5), (5, 4), (1, 70), (70, 1), (0, 5), (5, 0), (3, 3), (30, 40)]


@pytest.mark.mostly_slow(5)
@pytest.mark.parametrize("turns", [2, 2**62])
@pytest.mark.parametrize("dtype", ["float64", "int64", "int16", "complex128"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_all_sizes(function: Callable[..., Any], dtype: str, turns: int) -> None:
    _core.set_region_turns(turns)
    try:
        check(function, *[arguments(*size, dtype) for size in SIZES], native=dtype != "complex128")
    finally:
        _core.set_region_turns(2**62)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_numbers_that_are_too_large_and_conditions(function: Callable[..., Any]) -> None:
    calls = [arguments(6, 20, dtype) for dtype in ("int64", "float64", "int32") for _ in range(3)]
    for dtype, values in (("int64", (2**62, -(2**63))), ("int32", (2**30, -(2**31))), ("float64", (1e308, np.inf, np.nan))):
        for value in values:
            for place in ((0, 1), (2, 7), (4, 19), (5, 3)):
                C, x = arguments(6, 20, dtype)
                C[place] = value
                C[place[0], place[1] - 1] = value
                x[place[1]] = value
                calls.append((C, x))
    check(function, *calls)
    with np.errstate(all="raise"):
        check(function, *calls)


SHARED: list[Callable[[Any], Any]] = [
    lambda one: (one, one[0]),
    lambda one: (one, one[:, 3]),
    lambda one: (one[2:], one[1, 1:]),
    lambda one: (one[:, ::2], one[3]),
    lambda one: (one.T, one[:, 0]),
    lambda one: (one[::-1, ::-1], one[4, ::-1]),
    lambda one: (one.reshape(-1)[:-1].reshape(7, -1) if one.size % 7 == 1 else one[:7], one.reshape(-1)[1:]),
    lambda one: (np.lib.stride_tricks.as_strided(one, (9, 9), (8, 8)), one[0]),
    lambda one: (one, np.lib.stride_tricks.as_strided(one, (15,), (0,))),
]


@pytest.mark.mostly_slow(3)
@pytest.mark.parametrize("dtype", ["float64", "int64"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_arrays_that_share_memory(function: Callable[..., Any], dtype: str) -> None:
    captured = evalframe.jit(function)
    for seed in range(4 * len(SHARED)):
        sides = []
        for called in (function, captured):
            one = (np.random.default_rng(seed).random((13, 15)) * 5).astype(dtype)
            sides.append((repr(outcome(called, *SHARED[seed % len(SHARED)](one))), shown(one)))
        assert sides[0] == sides[1]
    assert _core.jit_counters(captured)["native_loops"]


def intermediate(function: Callable[..., Any], dtype: str = "int64") -> str:
    captured = evalframe.jit(function)
    for _ in range(6):
        captured(*arguments(9, 12, dtype))
    return "".join(loop.ir for loop in evalframe.explain(captured)(*arguments(9, 12, dtype)).loops if loop.native)


@pytest.mark.parametrize("function", [function for function in FUNCTIONS if function is not beyond])
def test_which_elements_are_carried(function: Callable[..., Any]) -> None:
    assert (".carried." in intermediate(function, "float64")) == (function in CARRIED)


@pytest.mark.parametrize("function", COUNTS[:2])
def test_arrays_of_counts_are_logged_as_a_whole(function: Callable[..., Any]) -> None:
    assert ".logged" in intermediate(function)


def nest(random: random.Random) -> str:
    """A table that each turn fills from its neighbours, in one of several ways."""
    di, dj = random.choice([(0, 1), (0, 1), (1, 0), (0, 2), (1, 1)])
    step = random.choice([1, 1, 1, 2])
    near, up = f"C[i, j - {dj}]" if not di else f"C[i - {di}, j - {dj}]", "C[i - 1, j]"
    values = [near, near, up, "C[i, j]", "x[j]", "x[i]", "1", f"min({near}, x[j])", f"max({near}, {up})", f"{near} - x[j]", f"({near} + {up})"]
    conditions = ["x[j] > x[i]", f"{near} > x[j]", "j > 3", "i == 2", "j == 4", f"C[i, j] < {near}"]
    target = random.choice(["C[i, j]"] * 4 + ["C[i, j - 0]", f"C[i, j - {dj}]"])

    def statement() -> str:
        return f"{target} {random.choice(['=', '=', '+=', '-='])} {random.choice(values)}"

    lines = [f"for i in range({di + 1}, len(C)):", f"    for j in range({dj + step - 1}, C.shape[1], {step}):"]
    for _ in range(random.choice([1, 1, 2])):
        if random.random() < 0.6:
            lines += [f"        if {random.choice(conditions)}:", f"            {statement()}"]
            if random.random() < 0.6:
                lines += [f"        elif {random.choice(conditions)}:", f"            {random.choice([statement(), statement(), 'pass', 'continue', 'break'])}"]
            if random.random() < 0.6:
                lines += ["        else:", f"            {statement()}"]
        else:
            lines.append(f"        {statement()}")
    return "def nest(C, x):\n" + "\n".join("    " + line for line in lines) + "\n    return i, j\n"


@pytest.mark.mostly_slow(5)
@pytest.mark.parametrize("seed", range(60))
def test_random_tables(seed: int) -> None:
    rng = random.Random(seed)
    names: dict[str, Any] = {}
    exec(nest(rng), names)
    _core.set_region_turns(rng.choice([2, 5, 2**62, 2**62]))
    try:
        calls = [arguments(*rng.choice([(7, 9), (7, 9), (4, 6), (3, 30)]), rng.choice(["int64", "float64", "int32"])) for _ in range(8)]
        check(names["nest"], *calls)
    finally:
        _core.set_region_turns(2**62)
