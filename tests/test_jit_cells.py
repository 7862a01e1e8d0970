"""Variables shared with functions outside that recorded code stores: as in plain Python, wherever the graph is left."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import leaving_before, outcome, same

A = np.linspace(-1.0, 2.0, 12)
B = np.arange(12.0) - 3


def counting():
    total, count = A * 0, 0

    def step(x, y):
        nonlocal total, count
        total = total + x
        count += 1
        total = total * 2 - y
        return total, count

    return step, lambda: (total, count)


def in_calls():
    state, calls = B * 0, []

    def put(value):
        nonlocal state
        state = value
        calls.append(value)
        return state

    def step(x, y):
        first = put(x + 1)
        second = put(first * y)
        return first + state, second is state

    return step, lambda: (state, calls)


def two_functions():
    last: Any = None

    def maker():
        def inner(value):
            nonlocal last
            last, old = value, last
            return old

        return inner

    swap, other = maker(), maker()

    def step(x, y):
        nonlocal last
        swap(x * 2)
        z = other(y - 1) + 1
        last = last * 3
        return z + swap(None)

    return step, lambda: last


def raises():
    seen: Any = 0

    def step(x, y):
        nonlocal seen
        seen = x + 1
        try:
            seen = seen @ np.ones(5)
        except ValueError as error:
            seen = (seen, str(error))
        return seen[0] * y

    return step, lambda: seen


def breaks():
    seen: Any = 0

    def step(x, y):
        nonlocal seen
        seen = x + 1
        local = y * 2

        def add(value):
            nonlocal local
            local = local + value
            return local

        add(seen)
        if (x + y).sum() > 0:
            seen = local
        local = local - seen
        seen = add(x) * 2
        return local, add

    return lambda x, y: step(x, y)[0], lambda: seen


def deletes():
    seen: Any = 1

    def step(x, y):
        nonlocal seen
        seen = x * 2
        del seen
        seen = y + 1
        return seen

    return step, lambda: seen


MAKERS: list[Callable[[], Any]] = [counting, in_calls, two_functions, raises, breaks, deletes]
ARGUMENTS = [(A, B), (B, A), (A, -A), (A, B)]


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("make", MAKERS, ids=lambda f: f.__name__)
def test_behaves_as_plain_python(make: Callable[[], Any], backend: str) -> None:
    (function, state), (captured, captured_state) = make(), make()
    captured = evalframe.jit(captured, backend=backend)
    for _ in range(4):
        for arguments in ARGUMENTS:
            assert same(
                (outcome(captured, *arguments)[0][1], captured_state()), (outcome(function, *arguments)[0][1], state())
            )


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("make", MAKERS, ids=lambda f: f.__name__)
def test_may_be_left_before_every_node(make: Callable[[], Any], backend: str) -> None:
    for node in range(10):
        (function, state), (captured, captured_state) = make(), make()
        captured = evalframe.jit(captured, backend=backend)
        captured(*ARGUMENTS[0]), function(*ARGUMENTS[0])
        with leaving_before(node):
            for arguments in ARGUMENTS:
                assert same(
                    (outcome(captured, *arguments)[0][1], captured_state()),
                    (outcome(function, *arguments)[0][1], state()),
                ), node


@pytest.mark.parametrize("make", [counting, in_calls, two_functions], ids=lambda f: f.__name__)
def test_is_one_graph(make: Callable[[], Any]) -> None:
    captured = evalframe.jit(make()[0], backend="reference", fullgraph=True)
    for _ in range(6):
        captured(A, B)
    assert _core.jit_counters(captured)["recordings"] <= 3


COUNTED = 0


class Telling:
    def __init__(self, told: list[str]) -> None:
        self.told = told

    def __del__(self) -> None:
        self.told.append(f"ended at {COUNTED}")


def keeps_in_cell(thing: Any, x: Any, drops: bool) -> Any:
    global COUNTED
    inner = lambda: thing  # noqa: E731
    if drops:
        thing = None
    COUNTED += 1
    return x * 2, inner() is None


def test_what_a_closure_has_is_held_while_stores_wait() -> None:
    global COUNTED
    captured = evalframe.jit(keeps_in_cell, backend="reference")
    for _ in range(4):
        found = []
        for call in (keeps_in_cell, captured):
            COUNTED, told = 0, []
            made, is_none = call(Telling(told), A, False)
            found.append((made.tolist(), is_none, told, COUNTED))
        assert found[0] == found[1]
    assert _core.jit_counters(captured)["breaks"] == 0
    # What dies on the way has to see what is stored.
    captured(Telling([]), A, True)
    assert "finaliser" in str(_core.jit_breaks(captured))
