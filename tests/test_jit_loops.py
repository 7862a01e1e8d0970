"""Loops keep their turns captured, and numbers that change from call to call or turn to turn cost no recompiles."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import (
    BACKENDS,
    check_behaves_as_plain,
    check_may_be_left,
    differential_tests,
    leaving_before,
    outcome,
    same,
)

U = np.linspace(0.0, 1.0, 24)


def roll(u: Any, n: int, k: float) -> Any:
    for _ in range(n):
        u = u + k * np.roll(u, 1)
    return u


def index_in_body(u: Any, n: int, k: float) -> Any:
    total = 0
    for i in range(n):
        u = u + u[i % 5] * i + k
        total += i
    return u, total, i


def branch_on_index(u: Any, n: int, k: float) -> Any:
    for i in range(n):
        if i % 4 == 3:
            u = u * 0.5
        elif i > 10 and k * i > 2.0:
            u = u - i
        u = u + 1
    return u


def while_on_data(u: Any, n: int, k: float) -> Any:
    error, turns = 10.0, 0
    while error > 1e-3 * n:
        v = u * 0.5
        error = np.abs(v - u).max()
        u = v
        turns += 1
    return u, turns, error


def while_on_counter(u: Any, n: int, k: float) -> Any:
    i = 0
    while i < n:
        u = u + i * k
        i += 2
    return u, i


def nested(u: Any, n: int, k: float) -> Any:
    for i in range(n):
        for j in range(i):
            u = u + (i - j) * k
        u = u * 0.75
    return u


def over_pairs(u: Any, n: int, k: float) -> Any:
    for i, (x, y) in enumerate(zip(range(n), [k] * n, strict=True)):
        u = u * y + x - i
    return u


def over_lists(u: Any, n: int, k: float) -> Any:
    rows = [u * i for i in range(n)]
    found = []
    for row in rows:
        found.append(row.sum())
        u = u + row
    return u, found


def leaves_early(u: Any, n: int, k: float) -> Any:
    for i in range(100):
        u = u * 0.9
        if i == n:
            break
        if i % 3:
            continue
        u = u + k
    else:
        u = u - 1
    return u, i


def calls_in_body(u: Any, n: int, k: float) -> Any:
    log = []
    for i in range(n):
        u = u + k
        log.append(f"turn {i}")
        u = u * 1.5
    return u, log


def raises_in_a_turn(u: Any, n: int, k: float) -> Any:
    done = 0
    try:
        for i in range(n + 30):
            u = u + u[i]
            done += 1
    except IndexError as error:
        return u, done, str(error)
    return u, done


def slices_by_index(u: Any, n: int, k: float) -> Any:
    u = u.copy()
    for i in range(1, n):
        u[i:] += u[: u.shape[0] - i] * k
        u[i] = i
    return u


def columns(u: Any, n: int, k: float) -> Any:
    a = np.outer(u[:n], u[:n]) + np.eye(n)
    for i in range(n):
        for j in range(i):
            a[i, j] -= a[i, :j] @ a[j, :j]
            a[i, j] /= a[j, j]
    return a


FUNCTIONS: list[Callable[..., Any]] = [
    roll,
    index_in_body,
    branch_on_index,
    while_on_data,
    while_on_counter,
    nested,
    over_pairs,
    over_lists,
    leaves_early,
    calls_in_body,
    raises_in_a_turn,
    slices_by_index,
    columns,
]
ARGUMENTS = [(U, 3, 0.1), (U, 17, 0.1), (U + 1, 12, 0.5), (U, 17, 0.25), (U, 1, 2), (U.astype("f4"), 9, 0.5)]


test_behaves_as_plain_python, test_may_be_left_before_every_node = differential_tests(FUNCTIONS, ARGUMENTS * 2, left=ARGUMENTS[:3], nodes=10, left_on=BACKENDS)


def test_a_changing_int_costs_one_more_recording() -> None:
    def scaled(x: Any, step: int) -> Any:
        return x * (step + 1) + x[step]

    captured = evalframe.jit(scaled)
    for step in range(20):
        assert np.array_equal(captured(U, step), scaled(U, step))
    counters = _core.jit_counters(captured)
    assert counters["recordings"] == 2 and counters["plain_calls"] == 0
    assert np.array_equal(captured(U, -1), scaled(U, -1))
    with pytest.raises(IndexError):
        captured(U, 24)
    assert np.array_equal(captured(U, np.int64(3)), scaled(U, 3))  # type: ignore[arg-type]


def test_a_changing_length_of_a_loop_costs_no_more_recordings() -> None:
    """Where the machine holds a call up for long, its loop passes for a hot one, which is recorded on its own."""

    def new_recordings() -> int:
        captured = evalframe.jit(types.FunctionType(roll.__code__.replace(), globals(), roll.__name__))
        for n in range(1, 12):
            captured(U, n, 0.5)
        before: int = _core.jit_counters(captured)["recordings"]
        for n in range(12, 60):
            assert np.allclose(captured(U, n, 0.1), roll(U, n, 0.1))
        return _core.jit_counters(captured)["recordings"] - before

    assert 0 in (new_recordings() for _ in range(4))


def test_a_comparison_of_numbers_is_a_check_in_the_graph() -> None:
    def damped(x: Any, step: int, limit: float) -> Any:
        return x * 0.5 if step > limit else x + step

    captured = evalframe.jit(damped)
    for step in (1, 2, 3, 4, 5, 6):
        assert np.array_equal(captured(U, step, 10.0), damped(U, step, 10.0))
    assert _core.jit_counters(captured)["exits"] == 0
    for step in (11, 12, 3):
        assert np.array_equal(captured(U, step, 10.0), damped(U, step, 10.0))


def test_big_ints_stay_python_ints() -> None:
    def powers(x: Any, n: int) -> Any:
        k = 1
        for _ in range(n):
            k = k * 10**9
            x = x + 1
        return x, k

    captured = evalframe.jit(powers)
    for n in (12, 30, 30):
        assert same(captured(U, n), powers(U, n))


# A function that nothing is known of keeps these from being native loops, for which they would be served on.
def branch_on_data(u: Any, n: int, k: float) -> Any:
    for _ in range(n):
        u = np.nan_to_num(u - k) if u[0] > 1.0 else np.nan_to_num(u + k)
    return u


def small_inner(u: Any, n: int, k: float) -> Any:
    for row in (u, u * 2) * n:
        for _ in range(9):
            u = u + row if u[0] < 100.0 else row
    return u


def raises_late(u: Any, n: int, k: float) -> Any:
    done = 0
    for i in range(n):
        if u[0] > -1.0:
            u = np.nan_to_num(u + u[i % 300] * k)
        done += 1
    return u, done


@pytest.mark.parametrize("function", [branch_on_data, small_inner, raises_late], ids=lambda f: f.__name__)
def test_a_loop_that_does_not_pay_is_left_to_python(function: Callable[..., Any]) -> None:
    captured = evalframe.jit(function)
    for n in (3, 40, 200, 40, 3, 500, 200):
        assert same(outcome(captured, U, n, 0.25), outcome(function, U, n, 0.25)), n
    before = _core.jit_counters(captured)["served"]
    for _ in range(4):
        captured(U, 20, 0.25)
    assert _core.jit_counters(captured)["served"] - before < 4 * 20


def keeps_its_iterator(u: Any, n: int, k: float) -> Any:
    numbers = iter(range(0, 7 * n, 7))
    for i in numbers:
        u = u + i * k
        if i == 700:
            return u, list(numbers)
    return u, list(numbers)


def over_a_list(u: Any, n: int, k: float) -> Any:
    rows = [u + i for i in range(n)]
    source = iter(rows)
    for row in source:
        u = u * k + row
        k = k * 0.75
    rows.append(u)
    return u, k, len(rows), list(source)


def over_a_tuple_of_kinds(u: Any, n: int, k: float) -> Any:
    for item in (u, u * 2, 2.5, u + 1) * n:
        u = u * 0.5 + item
    return u


def backwards(u: Any, n: int, k: float) -> Any:
    last = None
    for i in range(n, -n, -3):
        u, last = u + i, u
    return u, last, i


def one_iterator_for_two_loops(u: Any, n: int, k: float) -> Any:
    numbers = iter(range(n))
    for i in numbers:
        for j in numbers:
            u = u + i * k - j
            if j % 9 == 8:
                break
    return u


def uneven(u: Any, n: int, k: float) -> Any:
    for i in range(n):
        u = u + k
        if i % 5 == 3:
            u = u * 0.5
    return u


def inner_turns(u: Any, n: int, k: float) -> Any:
    def shifted(v: Any, count: int) -> Any:
        for i in range(count):
            v = v + i * k
        return v

    for i in range(n // 10):
        u = shifted(u, 13 + i) * 0.5
    return u


def index_fails(u: Any, n: int, k: float) -> Any:
    done = 0
    try:
        for i in range(n):
            u = u + u[i % 97 - (24 if i > 24 else 0)]
            done += 1
    except IndexError as error:
        return u, done, str(error)
    return u, done


SEVERAL = [keeps_its_iterator, over_a_list, over_a_tuple_of_kinds, backwards, one_iterator_for_two_loops, uneven, inner_turns, index_fails]


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("function", SEVERAL, ids=lambda f: f.__name__)
def test_turns_that_are_served_together_behave_as_plain_python(function: Callable[..., Any], backend: str) -> None:
    captured = evalframe.jit(function, backend=backend)
    lengths = (60, 200, 61, 7, 17, 120, 9, 0, 33)
    for n in lengths:
        assert same(outcome(captured, U, n, 0.25), outcome(function, U, n, 0.25)), n
    for node in range(0, 34):
        with leaving_before(node):
            for n in (30, 107):
                assert same(outcome(captured, U, n, 0.25), outcome(function, U, n, 0.25)), (node, n)
    for n in lengths:
        assert same(outcome(captured, U.astype("f4"), n, 0.25), outcome(function, U.astype("f4"), n, 0.25)), n


def test_turns_of_a_hot_loop_are_served_together() -> None:
    def summed(u: Any, n: int) -> Any:
        for i in range(n):
            u = u + i
        return u

    captured = evalframe.jit(summed)
    captured(U, 100)
    before = _core.jit_counters(captured)["served"]
    assert np.array_equal(captured(U, 81), summed(U, 81))
    assert _core.jit_counters(captured)["served"] - before < 25


def short_ones(u: Any, n: int, k: float) -> Any:
    for i in range(20):
        if i == n:
            break
        if i % 3 == 1:
            continue
        u = u + i
    else:
        u = u * 2
    rows = [u * i for i in range(25)]
    return u, sum(row for row in rows[:9]), {i: i * k for i in range(12)}


def nested_in_calls(u: Any, n: int, k: float) -> Any:
    def shifted(v: Any) -> Any:
        for i in range(10):
            v = v + i
        return v

    for _ in range(3):
        u = shifted(u) * k
    return shifted(u)


def many_after_each_other(u: Any, n: int, k: float) -> Any:
    for i in range(30):
        u = u + i
    for i in list(range(30)):
        u = u - i * k
    for i in tuple(range(30)):
        u = u * 0.5 + i
    return u, i


def over_dict(u: Any, n: int, k: float) -> Any:
    rows = {str(i): u * i for i in range(15)}
    for name, row in rows.items():
        u = u + row * len(name)
    for letter in "a text of some letters":
        u = u + ord(letter)
    return u, letter


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("function", [short_ones, nested_in_calls, many_after_each_other, over_dict], ids=lambda f: f.__name__)
def test_short_loops_behave_as_plain_python(function: Callable[..., Any], backend: str) -> None:
    check_behaves_as_plain(function, backend, ARGUMENTS * 2)
    check_may_be_left(function, backend, ARGUMENTS[:2], nodes=40)


def test_short_loops_are_unrolled() -> None:
    def inner_loop(u: Any) -> Any:
        for i in range(20):
            for j in range(2):
                u = u + i * j
        return u

    def too_long(u: Any) -> Any:
        for i in range(33):
            u = u + i
        return u

    def comprehended(u: Any) -> Any:
        return [u * i for i in range(32)], sum(i * 2 for i in range(31))

    def breaks_of(function: Callable[..., Any], *arguments: Any) -> set[str]:
        captured = evalframe.jit(function, backend="reference")
        captured(*arguments)
        return {found["reason"] for found in _core.jit_breaks(captured)}

    unrolled = "turn of a loop that isn't unrolled"
    assert unrolled in breaks_of(inner_loop, U) and unrolled in breaks_of(too_long, U)
    assert breaks_of(comprehended, U) == breaks_of(over_dict, U, 0, 0.5) == set()


def of_records(u: Any, records: Any) -> Any:
    told = []
    for record in records:
        if "scale" in record:
            u = u * record["scale"]
        told.append([*record])
        u = u + len(dict(record))
    return u, told


def of_sets(u: Any, sets: Any) -> Any:
    for names in sets:
        u = u * (2 if "a" in names else 3) + sum(names & {"b", "c"} == {"b"} for _ in range(2))
    return u


def test_turns_may_have_dicts_and_sets_of_other_keys() -> None:
    alike = [{"scale": 1.5 + i, "at": i} for i in range(40)]
    records = alike + [{f"k{i % 13}": i} | ({"scale": 0.5} if i % 3 else {}) for i in range(60)]
    sets = [{"a", "b"}] * 40 + [{chr(97 + i % 11), chr(97 + i % 3)} for i in range(60)]
    for function, parts in ((of_records, records), (of_sets, sets)):
        captured = evalframe.jit(function)
        for _ in range(3):
            assert same(captured(U, parts), function(U, parts))
    captured = evalframe.jit(of_records)
    for _ in range(3):
        captured(U, alike)
    assert not [stop for stop in evalframe.explain(of_records)(U, alike).breaks if "membership" in stop.detail]


def test_a_loop_is_left_alone_though_its_turns_call_a_function_with_a_loop() -> None:
    def nearest(rows: list[Any], x: Any) -> int:
        best = None
        for i, row in enumerate(rows):
            distance = float(np.abs(row - x).sum())
            if best is None or distance < best[0]:
                best = distance, i
        return best[1] if best else -1

    def assigned(rows: list[Any], points: list[Any], n: int) -> list[int]:
        found = []
        for k in range(n):
            found.append(nearest(rows, points[k % len(points)]))
        return found

    random = np.random.default_rng(0)
    rows, points = list(random.normal(size=(20, 3))), list(random.normal(size=(50, 3)))
    captured = evalframe.jit(assigned)
    _core.set_clock(lambda: 1.0 * _core.jit_counters(captured)["served"])  # only what is served takes time
    try:
        for _ in range(2):
            assert captured(rows, points, 1000) == assigned(rows, points, 1000)
        served = _core.jit_counters(captured)["served"]
        captured(rows, points, 1000)
    finally:
        _core.set_clock(None)
    assert _core.jit_counters(captured)["served"] - served < 100
