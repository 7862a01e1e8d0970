"""Loops of functions that a captured function calls: they are native as its own are."""

import gc
import sys
import traceback
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core

pytestmark = pytest.mark.usefixtures("native_loops_at_once")

X = np.linspace(0.25, 3.0, 50)


def summed(x: np.ndarray, turns: int) -> float:
    total = 0.0
    for k in range(turns):
        total = total * 0.5 + x[k % 50] * k
    return total


def around(x: np.ndarray, turns: int) -> tuple[float, float]:
    return summed(x, turns), x[0]


def native_turns(captured: object) -> int:
    return _core.jit_counters(captured)["native_turns"]


def test_they_are_native() -> None:
    captured = evalframe.jit(around)
    for turns in (400, 300, 0, 1, 200):
        assert captured(X, turns) == around(X, turns)
    assert native_turns(captured) > 700
    (loop,) = [evalframe.Loop(**found) for found in _core.jit_loops(captured)]
    assert loop.native and loop.function == "summed"
    assert "loop at" in str(evalframe.explain(captured)(X, 10))


def test_functions_made_at_each_call_have_native_loops() -> None:
    def outer(x: np.ndarray, turns: int, factor: float) -> float:
        def inner(first: float) -> float:
            total = first
            for k in range(turns):
                total = total * factor + x[k % 50]
            return total

        return inner(0.5) + 1.5

    captured = evalframe.jit(outer)
    for factor in (0.5, 0.25, 0.5, 0.75):
        assert captured(X, 300, factor) == outer(X, 300, factor)
    assert _core.jit_counters(captured)["native_loops"] <= 3
    before = native_turns(captured)
    captured(X, 300, 0.125)
    assert native_turns(captured) > before + 250


def test_methods_and_calls_in_loops() -> None:
    class Table:
        def __init__(self, rows: np.ndarray) -> None:
            self.rows = rows

        def row(self, i: int, y: np.ndarray) -> float:
            total = 0.0
            for j in range(len(y)):
                total += self.rows[i, j] * y[j]
            return total

        def product(self, y: np.ndarray) -> np.ndarray:
            out = np.zeros(len(self.rows))
            for i in range(len(self.rows)):
                out[i] = self.row(i, y)
            return out

    table = Table(np.arange(1200.0).reshape(30, 40))
    captured = evalframe.jit(Table.product)
    for _ in range(3):
        assert captured(table, X[:40]).tolist() == table.product(X[:40]).tolist()
    assert native_turns(captured) > 1000
    table.rows = table.rows[:, :7]
    for run in (table.product, lambda y: captured(table, y)):
        with pytest.raises(IndexError, match="index 7 is out of bounds for axis 1 with size 7"):
            run(X[:40])


def places(error: BaseException) -> list[tuple[str, int | None]]:
    return [(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)][1:]


def test_exceptions_pass_through_their_callers() -> None:
    def falling(x: np.ndarray, turns: int) -> float:
        total = 0.0
        for k in range(turns):
            total += x[k]
        return total

    def caught(x: np.ndarray, turns: int) -> Any:
        try:
            return falling(x, turns)
        except IndexError as error:
            return str(error), len(traceback.extract_tb(error.__traceback__))
        finally:
            x[0] += 1

    def passed(x: np.ndarray, turns: int) -> float:
        return falling(x, turns) + 1

    for function in (caught, passed):
        captured = evalframe.jit(function)
        for turns in (40, 50, 51, 30, 60):
            results: list[Any] = []
            for run in (function, captured):
                x = X.copy()
                try:
                    results.append((run(x, turns), x.tolist()))
                except IndexError as error:
                    results.append((str(error), places(error), x.tolist()))
            assert results[0] == results[1]


def test_attribute_errors_name_what_was_asked_for() -> None:
    class Lazy:
        @property
        def total(self) -> float:
            total = 0.0
            for k in range(100):
                total += X[k % 50]
            raise AttributeError("not yet")

    def reading(lazy: Lazy) -> float:
        return lazy.total

    captured = evalframe.jit(reading)
    for run in (reading, captured, captured, captured):
        lazy = Lazy()
        with pytest.raises(AttributeError, match="not yet") as found:
            run(lazy)
        assert (found.value.name, found.value.obj) == ("total", lazy)


def test_callees_see_their_frames() -> None:
    def looking(turns: int) -> list[str]:
        names = []
        for k in range(turns):
            if k % 40 == 39:
                frame = sys._getframe()
                names += [frame.f_code.co_name, frame.f_back.f_code.co_name, frame.f_back.f_lineno]
        return names

    def caller(turns: int) -> list[str]:
        return looking(turns)

    captured = evalframe.jit(caller)
    for _ in range(3):
        assert captured(400) == caller(400)


def test_recursion() -> None:
    def tree(x: np.ndarray, depth: int) -> float:
        total = 0.0
        for k in range(60):
            total += x[k % 50] * depth
        return total + (tree(x, depth - 1) + tree(x, depth - 2) if depth > 1 else 0.0)

    captured = evalframe.jit(tree)
    for depth in (4, 6, 6):
        assert captured(X, depth) == tree(X, depth)
    assert native_turns(captured) > 500

    def endless(x: np.ndarray) -> float:
        total = 0.0
        for k in range(60):
            total += x[k % 50]
        return total + endless(x)

    assert_same_depth(endless)


def assert_same_depth(function: Callable[..., float]) -> None:
    captured = evalframe.jit(function)
    for run in (function, captured, captured):
        with pytest.raises(RecursionError):
            run(X)


def test_generators_go_on_as_they_do() -> None:
    def numbers(x: np.ndarray, turns: int) -> Any:
        for k in range(turns):
            yield x[k % 50] * 2

    def total(x: np.ndarray, turns: int) -> float:
        result = 0.0
        for number in numbers(x, turns):
            result += number if result < 50 else -number
        return result

    captured = evalframe.jit(total)
    for turns in (100, 120, 3):
        assert captured(X, turns) == total(X, turns)


def test_nothing_of_a_callee_is_kept_alive() -> None:
    class Big:
        pass

    def outer(turns: int) -> tuple[float, Any]:
        big = Big()

        def inner() -> float:
            total = 0.0
            for k in range(turns):
                total += X[k % 50]
            return total if big else 0.0

        return inner(), weakref.ref(big)

    captured = evalframe.jit(outer)
    captured(200)  # the first closure is a fact of the caller's recording
    for _ in range(3):
        total, reference = captured(200)
        assert total == outer(200)[0]
        gc.collect()
        assert reference() is None


def test_captures_go_with_their_function() -> None:
    gc.collect()
    captured = evalframe.jit(around)
    captured(X, 400)
    count = len(_core.captures())
    del captured
    gc.collect()
    assert len(_core.captures()) == count - 2


def test_captures_may_be_cleared_in_a_callee() -> None:
    def clearing(x: np.ndarray, turns: int) -> float:
        total = 0.0
        for k in range(turns):
            total += x[k % 50]
            if k == 150:
                clear()
        return total

    def caller(x: np.ndarray, turns: int) -> float:
        return clearing(x, turns) * 2

    captured = evalframe.jit(caller)

    def clear() -> None:
        _core.jit_clear(captured)

    for _ in range(3):
        assert captured(X, 300) == caller(X, 300)


def test_other_globals_are_other_functions() -> None:
    text = "def called(x, turns):\n    total = 0.0\n    for k in range(turns):\n        total += x[k % 50] * FACTOR\n    return total\n"
    code = compile(text, "called.py", "exec")
    functions = []
    for factor in (1.0, 2.0):
        namespace: dict[str, Any] = {"FACTOR": factor}
        exec(code, namespace)
        functions.append(namespace["called"])

    def caller(function: Any, x: np.ndarray, turns: int) -> float:
        return function(x, turns)

    captured = evalframe.jit(caller)
    for _ in range(3):
        for function in functions:
            assert captured(function, X, 200) == function(X, 200)
    functions[0].__globals__["FACTOR"] = 3.0
    assert captured(functions[0], X, 200) == functions[0](X, 200)


def test_whole_programs_have_them() -> None:
    with evalframe.enabled():
        before = evalframe.stats()["native_turns"]
        for _ in range(3):
            assert around(X, 400) == (summed(X, 400), X[0])
        assert evalframe.stats()["native_turns"] > before
