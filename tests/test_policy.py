"""What a program's author says of functions: leaves, constants, uncaptured ones, skipped modules, inputs and constants by name."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import leaving_before, outcome, same
from threads_at_once import run_in_threads

X = np.arange(6.0) - 2


@pytest.fixture
def nothing_stays_marked() -> Iterator[Callable[[Any], None]]:
    marked: list[Any] = []
    yield marked.append
    for function in marked:
        evalframe.followed(function)


def graphs_of(captured: Any) -> int:
    return int(_core.jit_counters(captured)["recordings"])


def breaks_of(captured: Any) -> list[str]:
    return [found["reason"] for found in _core.jit_breaks(captured)]


def check(function: Any, *arguments: Any, graphs: int, breaks: int = 0) -> Any:
    """Captured calls do as plain ones, by each backend and left at each node; returns the captured function."""
    captured = [evalframe.jit(function, backend=backend) for backend in ("native", "reference")]
    left = False
    for node in (-1, -1, -1, 0, 1, 2, -1):
        with leaving_before(node):
            for one in captured:
                given = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
                plain = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
                assert same(outcome(one, *given), outcome(function, *plain))
                assert same(given, plain)
        left = left or node >= 0
        if not left:
            assert [(graphs_of(one), len(breaks_of(one))) for one in captured] == [(graphs, breaks)] * 2
    return captured[1]


SEEN: list[Any] = []


def make_noisy() -> Any:
    def noisy(a: Any, gain: Any = 2) -> Any:
        SEEN.append(len(SEEN))
        for value in a:
            if value > 100:
                break
        return a * gain

    return noisy


def test_a_leaf_is_called_in_the_graph() -> None:
    noisy = evalframe.leaf(make_noisy())
    SEEN.clear()
    captured = check(lambda x: noisy(x + 1) - noisy(x, gain=3), X, graphs=1)
    seen = len(SEEN)
    captured(X)
    assert len(SEEN) == seen + 2
    assert "noisy" in evalframe.explain(captured)(X).graphs[0]


def test_a_leaf_may_be_of_c_or_a_method() -> None:
    class Filter:
        def __init__(self) -> None:
            self.calls = 0

        @evalframe.leaf
        def apply(self, a: Any) -> Any:
            self.calls += 1
            return np.convolve(a, [1.0, 2.0], "same")

    box = Filter()
    captured = evalframe.jit(lambda x: box.apply(x * 2) + 1, backend="reference")
    for _ in range(3):
        assert same(captured(X), np.convolve(X * 2, [1.0, 2.0], "same") + 1)
    assert box.calls == 3
    assert breaks_of(captured) == ["call of a function that is marked"]  # its first argument is an object


def test_a_leaf_that_writes_into_its_argument() -> None:
    @evalframe.leaf
    def fill(a: Any, value: Any) -> Any:
        a[1:3] = value
        return a

    check(lambda x: (fill(x, 7.0) + x, x * 2), X, graphs=1)


def test_a_leaf_that_raises() -> None:
    @evalframe.leaf
    def picky(a: Any) -> Any:
        if a[0] > 0:
            raise ValueError("too large")
        return a + 1

    def caught(x: Any) -> Any:
        y = x * 2
        try:
            return picky(y) + 1
        except ValueError as error:
            return str(error), y

    captured = evalframe.jit(caught, backend="reference")
    for x in (X, X, X + 5, X + 5, X):
        assert same(outcome(captured, x), outcome(caught, x))


def test_a_leaf_sees_what_was_stored() -> None:
    class Box:
        value = 1

    box = Box()

    @evalframe.leaf
    def look(a: Any) -> Any:
        return a * box.value

    def stores(x: Any) -> Any:
        y = x + 1
        box.value = 5
        return look(y)

    captured = evalframe.jit(stores, backend="reference")
    for _ in range(3):
        box.value = 1
        assert same(captured(X), (X + 1) * 5)
    assert breaks_of(captured) == ["call of a function that is marked"]


def test_a_leaf_may_not_be_given_a_list() -> None:
    rows = [1, 2]
    change = evalframe.leaf(lambda some, a: some.append(3) or a + len(some))

    def reads(x: Any) -> Any:
        before = len(rows)
        y = change(rows, x)
        return y, before, len(rows)

    captured = evalframe.jit(reads, backend="reference")
    for _ in range(3):
        rows[:] = [1, 2]
        got = captured(X)
        assert same(got, (X + 3, 2, 3))


def test_an_uncaptured_function_runs_as_it_is() -> None:
    plain = evalframe.uncaptured(lambda a: a * 2)
    captured = check(lambda x: plain(x + 1) + 1, X, graphs=2, breaks=1)
    assert breaks_of(captured) == ["call of a function that is marked"]
    assert "followed" in _core.jit_breaks(captured)[0]["hint"]
    evalframe.followed(plain)
    captured = check(lambda x: plain(x + 1) + 1, X, graphs=1)


def test_marks_drop_what_was_recorded() -> None:
    def inner(a: Any) -> Any:
        return a * 2

    captured = evalframe.jit(lambda x: inner(x) + 1, backend="reference")
    captured(X)
    assert graphs_of(captured) == 1 and breaks_of(captured) == []
    evalframe.uncaptured(inner)
    assert len(_core.jit_entries(captured)) == 0
    assert same(captured(X), X * 2 + 1)
    assert breaks_of(captured) == ["call of a function that is marked"]


def test_an_uncaptured_function_under_enabled() -> None:
    @evalframe.uncaptured
    def left(a: Any) -> Any:
        return np.sqrt(a * a) + 1

    def taken(a: Any) -> Any:
        return np.sqrt(a * a) + 2

    with evalframe.enabled():
        for _ in range(3):
            left(X), taken(X)
        names = [found["function"].rpartition(".")[2] for found in _core.captures()]
    assert "taken" in names and "left" not in names


def test_a_constant_is_called_once() -> None:
    calls = []

    class Table:
        scale = 3.0

    @evalframe.constant
    def table(size: int = 1) -> Any:
        calls.append(size)
        return Table()

    def scaled(x: Any, n: int) -> Any:
        t = table(n)
        return x * t.scale, t is table(n)

    captured = evalframe.jit(scaled, backend="reference")
    for _ in range(3):
        got = captured(X, 2)
        assert same(got[0], X * 3.0)
    assert calls == [2, 2]
    captured(X, 4)
    assert calls[2:] == [4, 4]


def test_a_constant_of_an_array_breaks() -> None:
    total = evalframe.constant(lambda a: float(a.sum()))
    captured = evalframe.jit(lambda x: x * total(x), backend="reference")
    for x in (X, X + 1, X):
        assert same(captured(x), x * float(x.sum()))
    assert breaks_of(captured)[0] == "call of a function that is marked"


def test_skipped_modules() -> None:
    module: Any = types.ModuleType("skipped_package.inner")
    exec("def helper(a):\n    return a * 2\n", module.__dict__)
    sys.modules["skipped_package.inner"] = module
    evalframe.skip_modules("skipped_package")
    captured = check(lambda x: module.helper(x) + 1, X, graphs=2, breaks=1)
    assert "helper" in _core.jit_breaks(captured)[0]["detail"]
    other: Any = types.ModuleType("skipped_package_not")
    exec("def helper(a):\n    return a * 2\n", other.__dict__)
    check(lambda x: other.helper(x) + 1, X, graphs=1)


def power(x: Any, n: int) -> Any:
    return x * n + n * n


def entries(function: Any, numbers: list[int], **options: Any) -> int:
    captured = evalframe.jit(function, backend="reference", **options)
    for n in numbers:
        assert same(captured(X, n), power(X, n))
    return graphs_of(captured)


def test_dynamic() -> None:
    assert entries(power, [2, 2, 3, 4, 5]) == 2  # seen to change at the second value
    assert entries(power, [2, 2, 3, 4, 5], dynamic=True) == 1
    assert entries(power, [2, 2, 3, 4, 5, 3], dynamic=False) == 4


def test_dynamic_leaves_bools_and_strings_alone() -> None:
    def either(x: Any, flag: bool, how: str) -> Any:
        return x + 1 if flag else x - 1 if how == "minus" else x

    captured = evalframe.jit(either, backend="reference", dynamic=True)
    for flag in (True, False):
        for how in ("minus", "none"):
            assert same(captured(X, flag, how), either(X, flag, how))


def test_marked_parameters() -> None:
    def marked(x: Any, n: int) -> Any:
        return x * n + n * n

    assert evalframe.mark(marked, n="input") is marked
    assert entries(marked, [2, 3, 4]) == 1
    evalframe.mark(marked, n="constant")
    assert entries(marked, [2, 3, 4, 3]) == 3
    assert entries(evalframe.mark(evalframe.jit(marked), n="input").__wrapped__, [2, 3, 4]) == 1


def test_a_changing_int_is_an_input_in_a_loop_of_many_sizes() -> None:
    def steps(x: Any, n: int) -> Any:
        for _ in range(n):
            x = x + 1
        return x

    evalframe.mark(steps, n="input")
    captured = evalframe.jit(steps, backend="reference")
    for n in (0, 1, 3, 20, 5):
        assert same(captured(X, n), steps(X, n))


def test_reset() -> None:
    one, other = (evalframe.jit(lambda x, k=k: x * k, backend="reference") for k in (2, 3))
    one(X), other(X)
    evalframe.reset(one)
    assert (len(_core.jit_entries(one)), len(_core.jit_entries(other))) == (0, 1)
    evalframe.reset()
    assert len(_core.jit_entries(other)) == 0
    assert same(one(X), X * 2) and same(other(X), X * 3)


def test_reset_from_inside() -> None:
    """What is running stays until it is done."""

    @evalframe.leaf
    def forgets(a: Any) -> Any:
        evalframe.reset()
        return a + 1

    captured = evalframe.jit(lambda x: forgets(x) * 2, backend="reference")
    for _ in range(4):
        assert same(captured(X), (X + 1) * 2)


def squares(x: Any) -> Any:
    return x * x + 1


def served(name: str) -> int:
    return sum(found["hits"] for found in _core.captures() if found["function"] == name)


def test_the_whole_process_is_captured() -> None:
    # In a list, so that nothing but `squares` is given an array, or finds one.
    arguments = [X] * 3

    def several() -> None:
        for x in arguments:
            assert same(squares(x), x * x + 1)

    evalframe.enable(mode="capture", backend="reference")
    try:
        several()
        here = served("squares")
        assert run_in_threads(*[several] * 3, switch_interval=1e-4) == []
        assert here > 0 and served("squares") == here + 9
        evalframe.enable(mode="capture")  # in the place of the first
        several()
        assert run_in_threads(several, switch_interval=1e-4) == []
        assert {entry["backend"] for found in _core.captures() for entry in found["entries"] if found["function"] == "squares"} == {"native"}
    finally:
        evalframe.disable()
    gone = served("squares")
    several()
    assert served("squares") == gone == 0


def test_the_environment_has_the_process_captured() -> None:
    program = "import numpy as np, evalframe\ndef f(x):\n    return x + 1\nfor _ in range(4): f(np.ones(3))\nprint(evalframe.stats()['hits'])"
    environment = {**os.environ, "EVALFRAME_MODE": "capture", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout) >= 3


WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: evalframe.leaf(3), TypeError, "a function or method is needed, not 3"),
    (lambda: evalframe.constant(int), TypeError, "a function or method is needed, not <class 'int'>"),
    (lambda: evalframe.skip_modules(np), TypeError, "takes names of modules"),
    (lambda: evalframe.mark(len, x="input"), TypeError, "mark needs a Python function"),
    (lambda: evalframe.mark(power, n="dynamic"), ValueError, "n can be marked as 'input' or 'constant', not as 'dynamic'"),
    (lambda: evalframe.mark(power, m="input"), ValueError, r"power\(\) has no parameter 'm' to mark; it has: x, n"),
    (lambda: evalframe.jit(power, dynamic="yes"), TypeError, "dynamic must be True or False, not 'yes'"),
    (lambda: evalframe.enable(mode="capture", backend="no"), ValueError, "unknown backend 'no'"),
    (lambda: evalframe.reset(power), TypeError, "expected a function made by evalframe.jit"),
]


@pytest.mark.parametrize("wrong", range(len(WRONG)))
def test_wrong_arguments(wrong: int) -> None:
    call, error, text = WRONG[wrong]
    with pytest.raises(error, match=text):
        call()


def test_marks_hold_for_static_and_class_methods() -> None:
    class Tools:
        @staticmethod
        @evalframe.leaf
        def twice(a: Any) -> Any:
            return a * 2

        @evalframe.uncaptured
        @classmethod
        def thrice(cls, a: Any) -> Any:
            return a * 3

    check(lambda x: Tools.twice(x) + 1, X, graphs=1)
    check(lambda x: Tools.thrice(x) + 1, X, graphs=2, breaks=1)
