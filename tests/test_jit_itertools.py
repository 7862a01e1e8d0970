"""Iterators of itertools that ask others, and may call a function: each step is recorded, and an exit makes them as far as they have come."""

from __future__ import annotations

import collections
import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_with_every_frame, differential_tests, one_graph_tests, put_into
from test_jit_stand_ins import SEEN, A, B, Vector, callers, note, scaled, told, told_of

CALLS = [(A, B), (B, A), (A, B)]
CASES: list[Callable[..., Any]] = []
BREAKING: list[Callable[..., Any]] = []
case = put_into(CASES)
breaking = put_into(BREAKING)  # those that aren't one graph


@case
def taken_and_dropped(a: Any, b: Any) -> Any:
    rows = [a, b, a[None], b]
    taken = list(itertools.takewhile(lambda x: x.ndim == 1, rows))
    dropped = [x * 2 for x in itertools.dropwhile(lambda x: x.ndim == 1, rows)]
    kept = list(itertools.filterfalse(lambda n: n % 2, range(6))), list(itertools.filterfalse(None, [0, 1, "", a.ndim]))
    return taken, dropped, kept, list(itertools.takewhile(bool, ())), list(itertools.dropwhile(bool, (1, 1)))


@case
def taken_in_part(a: Any, b: Any) -> Any:
    numbers = iter([1, 2, 5, 1, 6])
    small = itertools.takewhile(lambda n: n < 3, numbers)
    got = [next(small), next(small), next(small, "ended"), next(small, "still"), list(small), list(numbers)]
    late = itertools.dropwhile(lambda n: n < 3, [1, 4, 1, 7])
    return got, next(late), next(late, None), list(late), next(late, a), type(small) is itertools.takewhile, a + b


@case
def iterators_are_kept(a: Any, b: Any) -> Any:
    small = itertools.takewhile(lambda n: n < 3, [1, 2, 5, 1])
    late = itertools.dropwhile(lambda n: n < 3, [1, 4, 1])
    sums = itertools.accumulate([a, b, a], operator.mul)
    next(small), next(late), next(sums)
    ended = itertools.takewhile(lambda n: n < 3, [5, 1])
    next(ended, None)
    return small, late, sums, ended, itertools.accumulate([1, 2], initial=a), itertools.starmap(operator.add, [(a, b)]), a + b


@case
def accumulated(a: Any, b: Any) -> Any:
    sums = list(itertools.accumulate([a, b, a]))
    products = list(itertools.accumulate(scaled(b, 4), lambda x, y: x * 2 + y, initial=a))
    largest = list(itertools.accumulate([3, 1, 4, 1, 5], max)), list(itertools.accumulate([], initial=b)), list(itertools.accumulate(()))
    nothing = list(itertools.accumulate([None, 1, None], lambda x, y: y, initial=None)), list(itertools.accumulate("abc", func=operator.add))
    vectors = itertools.accumulate([Vector(a, 1), Vector(b, 2)])
    return sums, products, largest, nothing, [v.x for v in vectors]


@case
def called_with_rows(a: Any, b: Any) -> Any:
    z = a
    for part in itertools.starmap(np.add, ((x, 2) for x in (a, b))):
        z = z + part
    several = list(itertools.starmap(lambda *n: n, [(), [1], "ab", (1, 2, 3)]))
    return z, several, sum(itertools.starmap(pow, [(2, 3), (3, 2)])), list(itertools.compress([a, b, z, a], [1, 0, z.ndim]))


@case
def one_over_another(a: Any, b: Any) -> Any:
    small = itertools.takewhile(lambda n: n < 20, itertools.accumulate(map(lambda n: n * n, range(8))))
    z = a
    for n in small:
        z = z + b * n
    return z, list(itertools.compress(itertools.filterfalse(lambda n: n == 2, range(5)), itertools.starmap(divmod, [(1, 2), (3, 4)])))


@case
def numbered(a: Any, b: Any) -> Any:
    z = a
    for n, part in enumerate(scaled(b, 3), 2):
        z = z + part * n
    steps = enumerate((x for x in (a, b, z)), start=a.ndim)
    rows = zip(scaled(a, 3), [1, 2], (x for x in "abc"))
    return z, next(steps, None), next(steps, None), steps, next(rows, None), rows, list(zip(scaled(a, 3), [1])), next(zip(x for x in ()), b), zip(map(len, [a, b]))


@case
def chained(a: Any, b: Any) -> Any:
    z = a
    for part in itertools.chain(scaled(a, 3), [b], (x for x in (1, 2)), ()):
        z = z + part
    rows = itertools.chain.from_iterable([[a, b], (1,), "xy", range(2)])
    ended = itertools.chain.from_iterable(scaled(a, 0))
    parts = itertools.chain(map(len, [a, b]), scaled(b, 2))
    return z, next(rows), next(rows), next(rows), rows, next(ended, "end"), ended, next(parts), parts, list(itertools.chain.from_iterable(x for x in ([a], [b])))


@case
def cut(a: Any, b: Any) -> Any:
    z = a
    for part in itertools.islice(scaled(b, 8), 1, 6, 2):
        z = z + part
    steps, all_of_it = scaled(a, 8), scaled(b, 3)
    rows = itertools.islice(steps, 2), itertools.islice(steps, 2, 3), itertools.islice(all_of_it, None), itertools.islice(map(len, [a, b]), 1, None)
    first = [next(row, None) for row in rows]
    ended = itertools.islice(scaled(a, 5), 0)
    return z, first, [list(row) for row in rows[:2]], rows[2], rows[3], next(ended, 7), ended, next(steps, None)


@case
def grouped(a: Any, b: Any) -> Any:
    z = a
    for key, group in itertools.groupby("aabccc"):
        z = z + b * len(list(group)) * ord(key)
    rows = [(1, a), (1, b), (2, z)]
    sums = {key: sum(row[1] for row in group) for key, group in itertools.groupby(rows, key=lambda row: row[0])}
    ranks = [(rank, list(map(len, group))) for rank, group in itertools.groupby((x for x in (a, b, a[None])), lambda x: x.ndim)]
    skipped = [key for key, _ in itertools.groupby([1, 1, 2, 3, 3])]
    kept = [group for _, group in itertools.groupby([1, 1, 2, 2])]
    groups = itertools.groupby([1, 1, 1, 2, 3])
    first, second = next(groups, None), next(groups, None)
    one = next(second[1], 0)  # type: ignore
    third = next(itertools.groupby([5, 5, 6]))
    next(third[1])
    return z, sums, ranks, skipped, [list(group) for group in kept], one, first[1], second[1], groups, third[1], list(itertools.groupby([]))  # type: ignore


@case
def end_is_told(a: Any, b: Any) -> Any:
    small = itertools.takewhile(lambda n: n < 3, [1, 5])
    next(small)
    try:
        next(small)
    except StopIteration as error:
        return error.args, error.__context__ is None, a + b
    return a


@breaking
def end_of_a_generator_is_told(a: Any, b: Any) -> Any:
    def parts() -> Any:
        yield a
        return b

    steps = itertools.takewhile(lambda x: True, parts())
    next(steps)
    try:
        next(steps)
    except StopIteration as error:
        return error.value, a + b
    return a


@breaking
def function_asks_itself(a: Any, b: Any) -> Any:
    steps: Any = None

    def late(n: int) -> bool:
        if n == 2:
            SEEN.append(next(steps))
        return n < 3

    steps = itertools.dropwhile(late, [1, 2, 4, 1, 5])
    got = list(steps)
    sums: Any = None

    def add(x: Any, y: Any) -> Any:
        if y == 2:
            SEEN.append(next(sums))
        return x + y

    sums = itertools.accumulate([1, 2, 4, 8], add)
    return got, list(sums), a + b


@breaking
def function_raises(a: Any, b: Any) -> Any:
    told: list[Any] = []
    for make in (itertools.takewhile, itertools.dropwhile, itertools.filterfalse):
        steps = make(lambda n: 6 // n > 2, [2, 0, 3, 1, 0])
        for _ in range(6):
            try:
                told.append(next(steps, "ended"))
            except ZeroDivisionError as error:
                told.append(told_of(error))
    sums = itertools.accumulate([1, "a", 2])
    for _ in range(4):
        try:
            told.append(next(sums, "ended"))
        except TypeError as error:
            told.append(str(error))
    return told, a + b


@breaking
def noting_functions(a: Any, b: Any) -> Any:
    z = a + b

    def small(n: int) -> bool:
        note(n)
        SEEN.append(callers())
        return n < 3

    for n in itertools.takewhile(small, [1, 2, 3, 4]):
        note("turn")
        z = z + n
    late = itertools.dropwhile(small, [1, 2, 3, 1])
    sums = itertools.accumulate([a, b, z], lambda x, y: note("sum") or x + y)
    return z, next(late), list(late), [next(sums), next(sums)], list(sums), list(itertools.starmap(lambda x, y: note(x) or y, [(1, a), (2, b)]))


@breaking
def left_on_the_way(a: Any, b: Any) -> Any:
    z = a + b
    small = itertools.takewhile(lambda n: n < 3, [1, 2, 3, 1])
    late = itertools.dropwhile(lambda n: n < 3, [1, 3, 1, 2])
    sums = itertools.accumulate([a, b, z], initial=1)
    got = [next(small), next(late), next(sums), next(sums)]
    note("here")
    got += [next(small), next(late), next(sums), next(small, "ended"), next(small, "ended")]
    note("there")
    return got, list(small), list(late), list(sums), z


@breaking
def chains_that_fail(a: Any, b: Any) -> Any:
    told: list[Any] = []

    def rows() -> Any:
        yield [a]
        raise LookupError("in the rows")

    for parts in (itertools.chain([1], 5, [2]), itertools.chain.from_iterable(rows()), itertools.chain(scaled(a, 1), 5, [2])):  # type: ignore
        for _ in range(4):
            try:
                told.append(next(parts, "ended"))
            except (TypeError, LookupError) as error:
                told.append(str(error))
    return told, a + b


@breaking
def slices_that_fail(a: Any, b: Any) -> Any:
    told: list[Any] = []

    def rows() -> Any:
        yield a
        raise LookupError("in the rows")

    calls: list[Any] = [lambda: itertools.islice(rows(), 3), lambda: itertools.islice(rows(), 2, 3), lambda: itertools.islice(rows(), -1)]
    calls += [lambda: itertools.islice(rows(), 1, 2, 0), lambda: itertools.islice(rows(), "1"), lambda: itertools.islice(rows()), lambda: itertools.islice(rows(), 2**70)]
    for call in calls:
        try:
            steps = call()
        except (TypeError, ValueError) as error:
            told.append(str(error))
            continue
        for _ in range(3):
            try:
                told.append(next(steps, "ended"))
            except LookupError as error:
                told.append(told_of(error))
    generator = scaled(a, 4)
    kept = itertools.islice(generator, 1, 4, 2)
    told.append(next(kept))
    note("here")
    return told, list(kept), list(generator), a + b


class Key:
    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: Any) -> Any:
        if other.number == 7:
            raise LookupError("seven")
        note((self.number, other.number))
        return self.number // 2 == other.number // 2


@breaking
def noting_groups(a: Any, b: Any) -> Any:
    z = a + b
    told: list[Any] = []
    for key, group in itertools.groupby([0, 1, 2, 4, 5], Key):
        note("turn")
        told.append((key.number, list(group)))
    groups = itertools.groupby([0, 1, 7, 2, 2], lambda n: note(n) or Key(n))
    for _ in range(5):
        try:
            key, group = next(groups)
            told.append((key.number, next(group, "none")))
        except (LookupError, StopIteration) as error:
            told.append(type(error))
    kept = itertools.groupby("aabbc")
    first = next(kept)
    told.append(next(first[1]))
    note("here")
    second = next(kept)
    told.append([list(first[1]), next(second[1])])
    note("there")
    return told, list(second[1]), [(key, list(group)) for key, group in kept], z


@breaking
def noting_generators(a: Any, b: Any) -> Any:
    def parts() -> Any:
        for n in (1, 2):
            note(n)
            SEEN.append(callers())
            yield n

    z = a + b
    for n, part in enumerate(parts()):
        z = z + n * part
    for n, x in zip(parts(), scaled(z, 5)):
        z = z + x
    numbers = enumerate(scaled(z, 3), 5)
    chain = itertools.chain(parts(), [z], parts())
    got = [next(numbers), next(chain), next(chain)]
    note("here")
    return got, next(numbers), list(chain), list(numbers), list(zip(parts(), parts(), [3, 4], strict=True)), list(enumerate(parts(), 2**80))


@breaking
def wrong_calls(a: Any, b: Any) -> Any:
    told = []
    calls: list[Any] = [
        lambda: itertools.takewhile(bool),
        lambda: itertools.dropwhile(bool, 5),
        lambda: itertools.starmap(1, 2, 3),
        lambda: itertools.accumulate([1], start=1),
        lambda: list(itertools.starmap(divmod, [5])),
        lambda: list(itertools.starmap(divmod, [(5,)])),
        lambda: list(itertools.takewhile(5, [1])),
        lambda: itertools.compress([1]),
        lambda: list(itertools.compress(data=[1, 2], selectors=[0, 1])),
    ]
    for call in calls:
        try:
            told.append(call())
        except TypeError as error:
            told.append(str(error))
    return told, a + b


GROUP = type(next(itertools.groupby("a"))[1])
KEPT = (itertools.takewhile, itertools.dropwhile, itertools.accumulate, itertools.starmap, itertools.chain, itertools.islice, itertools.groupby, GROUP, enumerate, zip)


def what_it_gives(iterator: Any) -> Any:
    return type(iterator), [[part[0], list(part[1])] if isinstance(iterator, itertools.groupby) else part for part in iterator]


def told_of_kept(function: Callable[..., Any], *arguments: Any) -> Any:
    """`told`, with what iterators that are handed out still give."""
    came, seen, warned = told(function, *arguments)
    if came[0] == "value" and isinstance(came[1], tuple):
        came = "value", [what_it_gives(part) if isinstance(part, KEPT) else part for part in came[1]]
    return came, seen, warned


@case
def gone_through_by_a_deque(a: Any, b: Any) -> Any:
    seen: list[Any] = []

    def note(value: Any) -> Any:
        seen.append(value)
        return value * 2

    nothing = collections.deque(map(note, (a, b)), maxlen=0)
    last = collections.deque((note(value) for value in (1, 2, 3)), 2)
    return list(nothing), list(last), last.maxlen, list(collections.deque(map(note, [a]))), seen


@breaking
def a_deque_that_cannot_be(a: Any, b: Any) -> Any:
    seen: list[Any] = []
    try:
        collections.deque(map(seen.append, (a, b)), maxlen=-1)
    except ValueError as error:
        return str(error), seen, a + b


test_is_one_graph = one_graph_tests(CASES, (A, B), told)
test_is_as_in_plain_python, test_may_be_left_before_every_node = differential_tests(CASES + BREAKING, CALLS, told_of_kept, left=CALLS, nodes=10)


@pytest.mark.parametrize("function", CASES + BREAKING, ids=lambda function: function.__name__)
def test_is_as_in_plain_python_with_every_frame(function: Callable[..., Any]) -> None:
    check_with_every_frame(function, CALLS, told_of_kept)
