"""Native loops that are entered in their midst: by the interpreter, at checkpoints, where one leads back to, and behind a first turn."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from region_programs import check, copies

pytestmark = pytest.mark.usefixtures("native_loops_at_once")

R = np.random.default_rng(20)


def inserted(x: Any) -> None:
    for i in range(1, len(x)):
        key = x[i]
        j = i - 1
        while j >= 0 and x[j] > key:
            x[j + 1] = x[j]
            j -= 1
        x[j + 1] = key


def longest_collatz(start: Any, most: Any) -> Any:
    """Its first turn begins in the midst: what the loop around it does leads there without a break."""
    longest = 0
    for number in range(start, start + most):
        steps = 0
        while number != 1:
            if number % 2 == 0:
                number = number // 2
            else:
                number = 3 * number + 1
            steps += 1
        longest = max(longest, steps)
    return longest


def roots(x: Any, epsilon: Any, bounds: Any) -> Any:
    """Divisions, which NumPy warns of: checkpoints, and ways back to them."""
    found = np.zeros(len(x))
    for i in range(len(x)):
        guess, turns = x[i], 0
        while abs(guess * guess - x[i]) > epsilon and turns < bounds[turns]:
            guess = 0.5 * (guess + x[i] / guess)
            turns += 1
            found[i] = guess
    return found


def places(values: Any, wanted: Any) -> Any:
    found = []
    total = 0
    for one in wanted:
        low, high = 0, len(values)
        while low < high:
            middle = (low + high) // 2
            if values[middle] < one:
                low = middle + 1
            else:
                high = middle
            total += middle
        found.append(low)
    return found, total


def copied(loop: Any) -> bool:
    """Whether a checkpoint leads to a turn beside the loop."""
    return bool(re.search(r"^save(\d+):\n(?:  .*\n)*?  br label %first\1$", loop.ir, re.MULTILINE))


CASES: list[tuple[Callable[..., Any], list[tuple[Any, ...]]]] = [
    (inserted, [(R.random(n),) for n in (60, 60, 60, 0, 1, 2, 60)] + [(R.random(9).astype(np.float32),), (R.random(60)[::-2],)]),
    (longest_collatz, [(1, 60)] * 4 + [(1, 0), (7, 1), (2**61 + 1, 5), (3, 40)]),
    (roots, [(R.random(40) + 1.0, 1e-9, np.full(99, 50))] * 4 + [(R.random(40) * 1e200, 1e-9, np.full(5, 50)), (np.zeros(3) - 1.0, -1.0, np.full(99, 30))]),
    (places, [(np.sort(R.random(50)), R.random(30))] * 4 + [(np.zeros(0), R.random(30)), (np.arange(9), [3, 7.5, -1])]),
]


@pytest.mark.parametrize("turns", [1, 3, 16, 2**62])
@pytest.mark.parametrize(("function", "calls"), CASES, ids=[function.__name__ for function, _ in CASES])
def test_turns_behind_an_entry_come_to_the_same(function: Callable[..., Any], calls: list[tuple[Any, ...]], turns: int) -> None:
    _core.set_region_turns(turns)
    try:
        check(function, *calls)
    finally:
        _core.set_region_turns(2**62)


@pytest.mark.parametrize(("function", "calls"), CASES[:3], ids=[function.__name__ for function, _ in CASES[:3]])
def test_a_loop_has_nothing_but_its_turns(function: Callable[..., Any], calls: list[tuple[Any, ...]]) -> None:
    """Checkpoints, and blocks in front of it, lead to a turn of their own."""
    captured = evalframe.jit(function)
    for _ in range(4):
        captured(*copies(calls[0]))
    loops = [loop for loop in evalframe.explain(captured)(*copies(calls[0])).loops if loop.native]
    assert any(copied(loop) for loop in loops)


def test_conditions_on_values_of_the_loop_are_met_in_its_first_turn_or_any() -> None:
    """What a NumPy program is warned of, in each turn of the loop there is."""
    for place in (0, 1, 2, 30, 39):
        x = R.random(40) + 1.0
        calls = [(x, 1e-9, np.full(99, 50))] * 4
        for bad in (0.0, np.inf, np.nan, 1e308, -1.0):
            unlike = x.copy()
            unlike[place] = bad
            calls.append((unlike, 1e-9, np.full(40, 30)))
        check(roots, *calls)


def halved(values: Any) -> Any:
    i = 0
    while i < len(values) - 2:
        values[i : i + 2] += values[i + 1] * 0.5
        i += 1
    return values


def test_turns_that_each_have_a_checkpoint_are_not_doubled() -> None:
    captured = evalframe.jit(halved)
    for _ in range(4):
        assert list(captured(np.arange(200.0))) == list(halved(np.arange(200.0)))
    loops = [loop for loop in evalframe.explain(captured)(np.arange(200.0)).loops if loop.native]
    assert loops and not any(re.search(r"^first\d+:", loop.ir, re.MULTILINE) for loop in loops)


def relaxed(paths: Any) -> None:
    for k in range(len(paths)):
        for i in range(len(paths)):
            for j in range(len(paths)):
                if paths[i, k] + paths[k, j] < paths[i, j]:
                    paths[i, j] = paths[i, k] + paths[k, j]


def test_many_turns_are_counted_in_front_of_the_branch_that_ends_each() -> None:
    captured = evalframe.jit(relaxed)
    for _ in range(4):
        captured(R.random((9, 9)))
    loops = [loop for loop in evalframe.explain(captured)(R.random((9, 9))).loops if loop.native]
    ends = re.findall(r"^many\d+\.next\d+:\n((?:  .*\n)*)", loops[0].ir, re.MULTILINE)
    assert ends and all(re.search(r"\n  br i1 %\S+, label %many\d+\.b\d+, label %\w+\.\w+(, !llvm\.loop !\d+)?\n$", end) for end in ends)


def products(C: Any, A: Any, B: Any) -> Any:
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            total = 0.0
            for k in range(A.shape[1]):
                total += A[i, k] / B[k, j]
            C[i, j] = total
    return C


def jumps_between_loops(ir: str) -> list[tuple[str, str]]:
    """From entries, and ways back to checkpoints, to blocks that aren't the first of all loops around."""
    inner = re.findall(r"label %arrived(\d+)\b", ir)
    assert inner
    entries = re.findall(r"^((?:entry|again|save)\S*):\n((?:  .*\n)*)", ir, re.MULTILINE)
    ways = [(name, target) for name, text in entries for target in re.findall(r"label %(?:block|first)(\d+)$", text, re.MULTILINE)]
    return [(name, target) for name, target in ways if target in inner and not name.startswith("save")]


def test_inner_loops_are_entered_through_those_around() -> None:
    captured = evalframe.jit(products)
    arguments = (np.zeros((9, 8)), R.random((9, 7)), R.random((7, 8)) + 1.0)
    for _ in range(4):
        captured(*arguments)
    loops = [loop for loop in evalframe.explain(captured)(*arguments).loops if loop.native]
    assert loops and jumps_between_loops(loops[0].ir) == []
    # No way back to a checkpoint is one inside the function that has the turns.
    turns = loops[0].ir.split("define i32 @evalframe_kernel")[0]
    assert re.search(r"^rollback:\n(?:  .*\n)*  ret i32 -1$", turns, re.MULTILINE)


@pytest.mark.parametrize("turns", [1, 2, 5, 2**62])
def test_nests_are_left_and_entered_at_any_turn(turns: int) -> None:
    """With conditions in the first turns, in the last ones and in between, which lead back to checkpoints."""
    A, B = R.random((9, 7)), R.random((7, 8)) + 1.0
    calls = [(np.zeros((9, 8)), A, B)] * 4
    for i, k in ((0, 0), (0, 6), (8, 6), (4, 3)):
        for one, other in ((0.0, 0.0), (1.0, 0.0), (1e308, 1e-10), (np.nan, 1.0), (np.inf, np.inf)):
            unlike_a, unlike_b = A.copy(), B.copy()
            unlike_a[i, k], unlike_b[k, i % 8] = one, other
            calls.append((np.zeros((9, 8)), unlike_a, unlike_b))
    calls += [(np.zeros((9, 9)), A, B), (np.zeros((9, 8)), A, np.ones((6, 8))), (np.zeros((9, 8)), A, B)]
    _core.set_region_turns(turns)
    try:
        check(products, *calls)
    finally:
        _core.set_region_turns(2**62)


# --- elements that stand where no turn changes it ---------------------------------------------------------------------------


def test_the_same_element_in_all_turns() -> None:
    def counted(numbers: Any, counts: Any, shift: int) -> Any:
        for i in range(numbers.size):
            rest = int(numbers[i])
            while rest:
                rest &= rest - 1
                counts[i - shift] += 1
        return counts

    numbers = R.integers(0, 2**62, 400)
    zeros = np.zeros(400, np.uint8)
    # From the beginning and from the end, and one that is too far off.
    check(counted, *[(numbers, zeros, shift) for shift in (0, 0, 400, 1, 17, 401)])
    # More than a byte holds, which NumPy warns of.
    check(counted, (numbers, zeros, 0), (numbers, np.full(400, 230, np.uint8), 3), (numbers, np.full(400, 110, np.int8), 3))


@pytest.mark.parametrize("shift", [0, -3, -9])
def test_the_same_element_by_several_names(shift: int) -> None:
    def turns(a: Any, which: int, i: int, j: int, n: int) -> float:
        b = a[::-1] if which == 2 else a[2:] if which == 1 else a if which == 0 else a.copy()
        total = 0.0
        k = n
        while k > 0:
            a[i] += 1.5
            b[j] = b[j] * 0.5 + a[i]
            if a[i] > 1e6:
                a[i] = b[j - 1]
            total += a[i] - b[j]
            k -= 1
        return total

    a = R.random(9)
    for which in range(4):
        for i, j in ((shift, 2), (2, shift), (3, 3), (4, 2)):
            check(turns, *[(a, which, i, j, n) for n in (3000, 5000, 0, 1, 4000)], native=False)


def test_an_index_that_hardly_any_turn_changes() -> None:
    def turns(a: Any, n: int, every: int) -> Any:
        i, k = 0, 0
        while k < n:
            a[i] += k
            if k % every == every - 1:
                i -= 1
            k += 1
        return a

    check(turns, *[(np.zeros(20), 6000, every) for every in (2000, 1000, 2000, 700, 400, 310, 290)])


def test_an_index_that_the_loop_around_changes() -> None:
    def turns(a: Any, limits: Any, table: Any) -> Any:
        for i in range(-len(a), len(a)):
            k = 0
            while k < limits[i]:
                table[i, -1] += a[i]
                table[i, k % 3] -= a[i - 1] if i > -len(a) else 0.5
                k += 1
        return table

    a, limits = R.random(60), R.integers(0, 90, 60)
    check(turns, *[(a, limits, R.random((60, 4))) for _ in range(3)], (a, limits, R.random((60, 2))), (a, limits[:59], R.random((60, 4))))
    with np.errstate(all="raise"):
        check(turns, (a, limits, np.full((60, 4), 1e308)), (a * 1e308, limits, np.full((60, 4), 1e308)), native=False)
