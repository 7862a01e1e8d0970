"""Functions that are slower captured are found by timing calls, and are left to CPython; what they do stays the same."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core


@pytest.fixture(autouse=True)
def trials() -> Iterator[None]:
    _core.set_call_trials(True)
    yield
    _core.set_call_trials(False)


def table(n: int, x: Any) -> Any:
    """Single elements and branches on them: nothing that a graph makes quicker."""
    d = np.zeros(n, int)
    for i in range(1, n):
        d[i] = min(d[i - 1] + 1, int(x[i]))
        if d[i] > 3:
            d[i] = 0
    return d


def chain(x: Any) -> Any:
    return np.sqrt(x * 2 + 1) * x - x / 3 + x * x


def state(captured: Any) -> Any:
    return _core.jit_counters(captured)


@contextmanager
def costs(captured: Any) -> Iterator[dict[str, float]]:
    """Served calls, and plain ones, of the function take as many seconds as this says."""
    seconds = {"hits": 1.0, "plain_calls": 1.0}
    _core.set_clock(lambda: sum(cost * state(captured)[name] for name, cost in seconds.items()))
    try:
        yield seconds
    finally:
        _core.set_clock(None)


@pytest.mark.parametrize("n", [9, 30])
def test_a_function_that_is_slower_captured_is_left_to_cpython(n: int) -> None:
    captured = evalframe.jit(table)
    x = np.arange(n) % 5
    with costs(captured) as seconds:
        seconds["hits"] = 2.0
        for _ in range(300):
            assert np.array_equal(captured(n, x), table(n, x))
        assert state(captured)["given_up"] == 1
        before = state(captured)
        for _ in range(20):
            captured(n, x)
        assert state(captured)["plain_calls"] == before["plain_calls"] + 20
        assert state(captured)["served"] == before["served"]


def test_a_function_that_pays_is_served() -> None:
    captured = evalframe.jit(chain)
    with costs(captured) as seconds:
        seconds["plain_calls"] = 2.0
        for _ in range(200):
            captured(np.linspace(0, 1, 500))
    assert state(captured)["given_up"] == 0
    assert state(captured)["hits"] + state(captured)["plain_calls"] == 199
    assert state(captured)["plain_calls"] < 10


@pytest.mark.parametrize("raises", [False, True])
def test_a_long_plain_call_is_served_on_once_it_has_lost(native_loops_at_once: None, raises: bool) -> None:
    def walk(x: Any, calls: Any) -> float:
        calls[0] += 1
        total = 0.0
        for i in range(len(x)):
            total = total * 0.5 + x[i]
        if raises:
            raise ValueError(total)
        return total

    def outcome(function: Any) -> Any:
        try:
            return function(x, calls)
        except ValueError as error:
            return str(error), error.__traceback__.tb_next.tb_lineno  # type: ignore[union-attr]

    captured, x, calls = evalframe.jit(walk), np.linspace(0, 1, 20_000), np.zeros(1)
    wanted = outcome(walk)
    looks = itertools.count()  # our evaluator looks at the clock now and then, native code never
    turns = []
    _core.set_clock(lambda: 1e-2 * next(looks))
    try:
        for _ in range(20):
            before = state(captured)["native_turns"]
            assert outcome(captured) == wanted
            turns.append(state(captured)["native_turns"] - before)
    finally:
        _core.set_clock(None)
    assert calls == [21]
    assert state(captured)["plain_calls"] == 1 and not state(captured)["given_up"]
    settled = turns[8:]
    assert settled.count(settled[-1]) == len(settled) - 1 and len(x) // 2 < min(settled) < settled[-1]


def test_a_long_call_that_is_quicker_plainly_is_left_to_cpython() -> None:
    captured, x = evalframe.jit(table), np.arange(30) % 5
    with costs(captured) as seconds:
        seconds["hits"] = 2.0
        for _ in range(40):
            assert np.array_equal(captured(30, x), table(30, x))
    assert state(captured)["given_up"] == 1


def test_it_is_tried_again_when_calls_have_changed() -> None:
    captured = evalframe.jit(chain)
    x = np.linspace(0, 1, 500)
    with costs(captured) as seconds:
        seconds["hits"] = 2.0
        for _ in range(300):
            captured(x)
        before = state(captured)["hits"]
        assert state(captured)["given_up"] == 1
        seconds["hits"] = 0.5
        for _ in range(2500):
            captured(x)
        assert state(captured)["hits"] > before + 400  # from the next trial on


def test_what_a_plain_call_calls_runs_plainly_until_it_is_known_to_pay() -> None:
    def turned(m: Any) -> Any:
        return np.dot(m, m)

    def turned_twice(m: Any) -> Any:
        return np.dot(turned(m), m)

    def seconds() -> float:
        counters = evalframe.stats()
        return 3.0 * counters["hits"] + counters["plain_calls"]

    before = evalframe.stats()["given_up"]
    _core.set_clock(seconds)
    try:
        with evalframe.enabled():
            for _ in range(300):
                turned_twice(np.eye(3))
    finally:
        _core.set_clock(None)
    assert evalframe.stats()["given_up"] == before + 2


def test_trials_find_what_is_quicker_by_the_machines_clock() -> None:
    captured = evalframe.jit(chain)
    x = np.linspace(0, 1, 500)
    for _ in range(200):
        assert np.array_equal(captured(x), chain(x))
    assert state(captured)["plain_calls"] > 0


def test_exceptions_recursion_and_other_backends() -> None:
    def fails(n: int, x: Any) -> Any:
        return x[n] if n < 3 else fails_captured(n - 1, x) + x.nothing

    fails_captured: Any = evalframe.jit(fails)
    for _ in range(200):
        with pytest.raises(AttributeError, match="nothing"):
            fails_captured(4, np.ones(3))
    for options in ({"backend": "reference"}, {"fullgraph": True}, {"backend": lambda graph, inputs: graph}):
        captured = evalframe.jit(lambda x: x + 1, **options)  # type: ignore[call-overload]
        for _ in range(300):
            captured(1.0)
        assert state(captured)["plain_calls"] == 0


def test_threads_share_a_trial() -> None:
    from concurrent.futures import ThreadPoolExecutor

    captured = evalframe.jit(table)
    x = np.arange(9) % 5
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: captured(9, x), range(2000)))
    assert all(np.array_equal(result, table(9, x)) for result in results)


@pytest.mark.parametrize(("calls_of_each", "recordings"), [(1, 32), (4, 64)])
def test_functions_made_anew_are_left_where_they_are_only_recorded(calls_of_each: int, recordings: int) -> None:
    def made(factor: float) -> Any:
        return lambda x: x * factor + 1

    x = np.arange(5.0)
    before = evalframe.stats()["recordings"]
    with evalframe.enabled():
        for factor in range(100):
            scaled = made(float(factor))
            for _ in range(calls_of_each):
                assert np.array_equal(scaled(x), np.arange(5.0) * factor + 1)
    assert evalframe.stats()["recordings"] - before == recordings


ENDS_BEYOND = """
import numpy as np
import evalframe

@evalframe.jit
def beyond(A, x, n):
    s = 0.0
    for i in range(n):
        if A[i, n - 1 - i] > 0:
            s += np.dot(x, A[i])
        A[i] -= x[i + 1]
    return s

rng, ended = np.random.default_rng(0), []
for k in range(400):
    n = (5, 9, 13, 17)[k % 4]
    try:
        beyond(rng.normal(size=(n, n)), rng.normal(size=n).astype(("f8", "f4", "i8")[k // 3 % 3]), n)
    except Exception as error:
        ended.append(type(error).__name__)
print(sorted(set(ended)))
"""


def test_an_exception_outlasts_what_its_call_decides() -> None:
    """The call by which a function turns out slower compiles its loops in full, before what it raises is handed on. Nothing may be on disk of them."""
    done = subprocess.run([sys.executable, "-c", ENDS_BEYOND], capture_output=True, text=True, check=True, env=os.environ | {"EVALFRAME_CACHE": "0"})
    assert done.stdout == "['IndexError']\n"


def levels(x: Any, by: Any) -> Any:
    found = np.zeros(len(by))
    for k in range(len(by)):
        c = by[k]
        first = second = 0.0
        for value in x:
            first, second = value + c * first - second, first
        found[k] = first * first + second * second
    return found


def test_a_long_inner_loop_in_the_first_turn_of_another() -> None:
    """Behind it nothing is recorded yet, which is no reason to give up the function."""
    captured = evalframe.jit(levels)
    x, by = np.linspace(0, 1, 20_000), np.linspace(-1, 1, 40)
    assert captured(x, by).tobytes() == levels(x, by).tobytes()
    assert _core.jit_counters(captured)["native_loops"]


def leaves(depth: int, seen: list[int]) -> int:
    if depth == 0:
        seen.append(1)
        return 1
    return leaves(depth - 1, seen) + leaves(depth - 1, seen)


def behind_a_tree(depth: int, x: Any) -> Any:
    seen: list[int] = []
    y = x * 2
    count = leaves(depth, seen)
    return y + count, len(seen), (x * count).sum()


def test_a_function_that_calls_itself_again_and_again_is_followed_for_some_time_only() -> None:
    """CPython runs the rest of it, and all later calls of it; what is around it is captured."""
    captured = evalframe.jit(behind_a_tree)
    for depth in (3, 13, 13, 12, 4):
        want, got = behind_a_tree(depth, np.arange(4.0)), captured(depth, np.arange(4.0))
        assert want[0].tobytes() == got[0].tobytes() and want[1:] == got[1:]
    found = [one.detail for one in evalframe.explain(captured)(13, np.arange(4.0)).breaks if "very long" in one.reason]
    assert found == ["leaves"]


def failing(depth: int, path: list[int]) -> int:
    path.append(depth)
    if depth == 0:
        if len(path) > 12_000:
            raise ValueError(path[-3:])
        return 1
    return failing(depth - 1, path) + failing(depth - 1, path)


def caught(x: Any) -> Any:
    path: list[int] = []
    try:
        failing(20, path)
    except ValueError as error:
        return error.args, len(path), x + 1
    return None


def test_what_such_a_function_raises_is_caught() -> None:
    captured = evalframe.jit(caught)
    for _ in range(3):
        want, got = caught(np.arange(3)), captured(np.arange(3))
        assert want[:2] == got[:2] and want[2].tobytes() == got[2].tobytes()
