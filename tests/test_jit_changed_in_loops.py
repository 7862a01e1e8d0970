"""Sets and deques that change while the function goes through them, and sets that a call leaves half changed."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import collections
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_behaves_as_plain, check_may_be_left, put_into

A = np.linspace(-1.0, 2.0, 6)
B = np.arange(6.0) - 3
CALLS = [(A, B), (B, A), (A, B)]

CASES: list[Callable[..., Any]] = []
ONE_GRAPH: list[Callable[..., Any]] = []
case = put_into(CASES)
one_graph = put_into(CASES, ONE_GRAPH)


@one_graph
def set_grows(x: Any, y: Any) -> Any:
    s = {1, 2}
    try:
        for n in s:
            s.add(n + 10)
            x = x + y
    except RuntimeError as error:
        return x, str(error), sorted(s)
    return x


@one_graph
def set_shrinks(x: Any, y: Any) -> Any:
    s = {1, 2, 3}
    turns = 0
    try:
        for n in s:
            x = x + y * n
            if turns:
                s.remove(n)
            turns += 1
    except RuntimeError as error:
        x = x * 2
        return x, error.args, s, turns
    return x


@one_graph
def set_is_put_together_in_place(x: Any, y: Any) -> Any:
    s = {1, 2}
    try:
        for n in s:
            x = x + y
            s |= {n, 7, 8}
    except RuntimeError as error:
        return x * y, str(error), s
    return x


@one_graph
def set_changes_in_the_last_turn(x: Any, y: Any) -> Any:
    s = {1}
    try:
        for _ in s:
            x = x + y
            s.clear()
            x = x * 2
    except RuntimeError:
        x = x - 1
    return x, s


@one_graph
def set_changes_and_the_loop_is_left(x: Any, y: Any) -> Any:
    s = {1, 2}
    for n in s:
        x = x + y * n
        s.add(9)
        break
    x = x * 3
    s.add(11)
    return x, s


@one_graph
def set_does_not_change(x: Any, y: Any) -> Any:
    s = {1, 2}
    for n in s:
        s.add(n)
        s.discard(n + 5)
        x = x + y * n
    return x, s


@case
def set_comes_back_to_its_size(x: Any, y: Any) -> Any:
    s = {1, 2, 3}
    seen = []
    for n in s:
        if len(seen) < 2:
            s.discard(3 - n)
            x = x + y
            s.add(3 - n)
        seen.append(n)
        x = x * 2
    return x, seen, s


@case
def iterator_is_kept(x: Any, y: Any) -> Any:
    s = {1, 2, 3}
    steps = iter(s)
    x = x + next(steps)
    told = []
    s.add(4)
    x = x * y
    for _ in range(2):
        try:
            next(steps)
        except RuntimeError as error:
            told.append(str(error))
    s.discard(4)
    x = x + 1
    try:
        next(steps)
    except RuntimeError as error:
        told.append(str(error))
    return x, told, operator.length_hint(steps), steps.__reduce__()[0] is iter


@case
def iterator_is_given_out(x: Any, y: Any) -> Any:
    s = {1, 2, 3}
    steps = iter(s)
    next(steps)
    s.add(4)
    x = x * y
    s.discard(4)
    x = x + 1
    return x, list(steps), s


@case
def two_loops_over_one_set(x: Any, y: Any) -> Any:
    s = {1, 2}
    try:
        for n in s:
            try:
                for m in s:
                    x = x + y
                    s.add(n + m + 5)
            except RuntimeError:
                x = x * 2
    except RuntimeError:
        x = x - 3
    return x, s


@case
def other_iterators_over_it(x: Any, y: Any) -> Any:
    s = {1, 2}
    try:
        for i, n in enumerate(s):
            x = x + y * n
            s.add(i + 10)
    except RuntimeError as error:
        return x, str(error)
    return x


@case
def in_a_generator(x: Any, y: Any) -> Any:
    s = {1, 2}

    def steps() -> Any:
        for n in s:
            yield n * x

    try:
        for part in steps():
            y = y + part
            s.add(5)
    except RuntimeError as error:
        return y, str(error), s
    return y


@one_graph
def deque_grows(x: Any, y: Any) -> Any:
    queue = collections.deque([1, 2])
    try:
        for n in queue:
            queue.append(n)
            x = x + y
    except RuntimeError as error:
        return x + len(str(error)), queue
    return y


@one_graph
def deque_shrinks(x: Any, y: Any) -> Any:
    queue: Any = collections.deque([x, y, 1])
    try:
        for part in queue:
            x = x + part
            queue.popleft()
            x = x * 2
    except RuntimeError as error:
        return x, error.args, queue
    return x


@one_graph
def deque_ends_empty(x: Any, y: Any) -> Any:
    queue = collections.deque([1])
    try:
        for _ in queue:
            queue.clear()
            x = x * y
    except RuntimeError as error:
        return x, str(error), queue
    return x


@case
def deque_of_a_greatest_length(x: Any, y: Any) -> Any:
    queue = collections.deque([1, 2], maxlen=2)
    try:
        for n in queue:
            x = x * y
            queue.append(n + 5)
    except RuntimeError as error:
        return x, str(error), queue
    return x


@case
def deque_iterator_is_kept(x: Any, y: Any) -> Any:
    queue = collections.deque([1, 2, 3])
    steps = iter(queue)
    ended = iter(collections.deque())
    x = x * next(steps)
    queue.append(4)
    x = x + y
    queue.pop()
    x = x * 2
    told = [operator.length_hint(steps), list(ended)]
    for _ in range(2):
        try:
            next(steps)
        except RuntimeError as error:
            told.append(str(error))
    return x, told, queue


@case
def empty_deque_is_told(x: Any, y: Any) -> Any:
    queue: Any = collections.deque()
    steps = iter(queue)
    queue.append(1)
    queue.pop()
    x = x * y
    try:
        return x, next(steps, 3)
    except RuntimeError as error:
        return x + 1, str(error)


@one_graph
def update_ends_in_the_middle(x: Any, y: Any) -> Any:
    s = {1}
    try:
        s.update([2, 3, [], 4])  # type: ignore[list-item]
    except TypeError as error:
        x = x * y
        return x, str(error), s
    return x


@one_graph
def update_ends_at_once(x: Any, y: Any) -> Any:
    s = {1}
    try:
        s.update(({}, 2))  # type: ignore[arg-type]
    except TypeError as error:
        x = x * y
        return x, str(error), s
    return x


@one_graph
def update_of_a_set_that_is_gone_through(x: Any, y: Any) -> Any:
    s = {1, 2}
    told = []
    try:
        for n in s:
            x = x * y
            try:
                s.update([n + 20, []])  # type: ignore[list-item]
            except TypeError as error:
                told.append(str(error))
    except RuntimeError as error:
        told.append(str(error))
    return x, told, s


@one_graph
def bound_methods(x: Any, y: Any) -> Any:
    kinds: Any = set()
    add, has = kinds.add, kinds.__contains__
    for part in (1, 2.5, "a", 3):
        add(type(part))
    data = bytearray()
    more = data.extend
    more(b"ab")
    x = x * len(kinds)
    return x + y, has(int), has(bytes), int in kinds, kinds, data


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_behaves_as_plain(function: Callable[..., Any], backend: str) -> None:
    check_behaves_as_plain(function, backend, CALLS)


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_may_be_left_before_every_node(function: Callable[..., Any]) -> None:
    check_may_be_left(function, "reference", CALLS[:2], 12)


@pytest.mark.parametrize("function", ONE_GRAPH, ids=lambda function: function.__name__)
def test_one_graph(function: Callable[..., Any]) -> None:
    captured = evalframe.jit(function, backend="reference")
    for arguments in CALLS:
        captured(*arguments)
    assert _core.jit_counters(captured)["recordings"] == 1, _core.jit_breaks(captured)


def grows_outside(x: Any, s: Any) -> Any:
    try:
        for n in s:
            x = x * 2
            s.add(n + 10)
    except RuntimeError as error:
        return x, str(error)
    return x


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_sets_from_outside(backend: str) -> None:
    captured = evalframe.jit(grows_outside, backend=backend)
    for elements in ({1, 2}, {1, 2}, set(), {3}):
        mine, other = set(elements), set(elements)
        assert repr(captured(A, mine)) == repr(grows_outside(A, other))
        assert list(mine) == list(other)
