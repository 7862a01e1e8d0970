"""Loops over what is asked for items by their numbers: arrays, and instances that have a `__getitem__` alone."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import differential_tests, one_graph_tests, put_into
from test_jit_stand_ins import A, B, note, told

CALLS = [(A, B), (B, A), (A, B), (A[:4], B[:4]), (A.astype(np.float32), B), (A[:0], B[:0]), (A.reshape(2, 3), B.reshape(2, 3)), (A[0, ...], B[1, ...]), (A, B)]
CASES: list[Callable[..., Any]] = []
BREAKING: list[Callable[..., Any]] = []
OUTER: list[Any] = []
case = put_into(CASES)
breaking = put_into(BREAKING)  # those that aren't one graph


@case
def items_of_argument(a: Any, b: Any) -> Any:
    total: Any = 0
    for item in a:
        total = total + item * 2
    else:
        total = total - 1
    return total, b + 1


@case
def rows_are_views(a: Any, b: Any) -> Any:
    grid = np.zeros((3, 4))
    for row in grid:
        row += a.sum()
        for number, _ in enumerate(row):
            row[number] *= number
    return grid, row, b + 1


@case
def items_are_read_when_asked_for(a: Any, b: Any) -> Any:
    numbers, seen = np.arange(5.0), []
    for item in numbers:
        numbers *= 2
        seen.append(item)
    for pair in zip(numbers, numbers[::-1]):
        numbers += 1
        seen.append(pair)
    for pair in enumerate(numbers, 3):
        numbers -= 1
        seen.append(pair)
    for item in reversed(numbers):
        numbers[:] = item + 2
        seen.append(item)
    return seen, a + b


@case
def left_early(a: Any, b: Any) -> Any:
    seen = []
    for number, item in enumerate(b[:3] * 2):
        if number == 2:
            break
        if number == 0:
            continue
        seen.append(item)
    else:
        seen.append(a)
    return seen, a + 1


@case
def asked_by_hand(a: Any, b: Any) -> Any:
    items = iter(np.arange(2) + 5)
    seen = [next(items), next(items), next(items, "none"), next(items, a), list(items)]
    try:
        next(items)
    except StopIteration as stop:
        seen.append(stop.args)
    return seen, iter(items) is items, b - a


@case
def iterators_are_kept(a: Any, b: Any) -> Any:
    once, twice, ended, back, gone = iter(A), enumerate(B, 2), iter(B[:1]), reversed(A), reversed(B[:1])
    next(once), next(twice), next(twice), next(ended), next(ended, 0), next(back), next(gone), next(gone, 0)
    return once, twice, ended, back, gone, zip(A, B), reversed(A[:0]), a + b


@case
def iterator_is_taken_over(a: Any, b: Any) -> Any:
    items, seen = iter(np.arange(6)), []
    for item in items:
        seen.append(item)
        for other in items:
            seen.append(other * 10)
            if len(seen) > 2:
                break
    return seen, a + b


@case
def gone_through_by_others(a: Any, b: Any) -> Any:
    x = np.arange(4.0)
    seen = [list(map(lambda n, m: n - m, x, x[::-1])), [n for n in filter(lambda n: n.ndim == 0, x)], list(zip(x, [1, 2], range(5)))]
    seen.append(list(itertools.islice(x, 1, 3)))
    seen.append(list(itertools.accumulate(x)))
    return seen, [n * 2 for n in x for m in x[:2]], {k: v for k, v in zip("ab", x)}, a + b


@case
def in_generators(a: Any, b: Any) -> Any:
    def rows(x: Any) -> Any:
        for row in x:
            yield row.sum()

    x = np.arange(6.0).reshape(3, 2)
    return list(rows(x)), sum(row @ row for row in x), tuple(n for n in x[0]), a + b


@case
def made_into_others(a: Any, b: Any) -> Any:
    x, grown = np.arange(3.0), [1]
    grown.extend(x)
    return list(x), tuple(x[:2]), sum(x), sum(x.reshape(3, 1)), grown, a + b


@breaking
def asked_for_by_comparing(a: Any, b: Any) -> Any:
    x = np.arange(3.0)
    return max(x), sorted(x), any(x), set(x), max(np.zeros(2), key=abs), [*x], a + b


@case
def of_no_rows(a: Any, b: Any) -> Any:
    seen = []
    for x in (np.zeros(0), np.zeros((0, 3)), np.zeros((2, 0))):
        for row in x:
            seen.append(row)
        else:
            seen.append("none")
    return seen, a + b


@case
def of_no_axis(a: Any, b: Any) -> Any:
    seen = []
    try:
        for _ in np.zeros(()):
            seen.append(1)
    except TypeError as error:
        seen.append(str(error))
    return seen, a + b


@case
def of_many_types(a: Any, b: Any) -> Any:
    seen = []
    for kind in ("?", "i1", "u2", "f4", "c16"):
        for item in np.arange(3).astype(kind):
            seen.append((item, item.dtype.kind))
    return seen, a + b


@breaking
def broken_in_the_midst(a: Any, b: Any) -> Any:
    total: Any = 0
    for row in np.arange(6.0).reshape(3, 2):
        for item in row:
            note(item)
            total = total + item
        note("row")
    return total, a + b


@breaking
def changes_its_shape(a: Any, b: Any) -> Any:
    x, seen = np.arange(6.0), []
    for item in x:
        seen.append(item)
        x.shape = (2, 3)
    return seen, a + b


@breaking
def of_many_rows(a: Any, b: Any) -> Any:
    total: Any = 0
    for item in np.arange(200.0):
        total = total + item
    for number, item in enumerate(np.arange(100.0)):
        total = total + number * item
    return total, a + b


@breaking
def of_objects(a: Any, b: Any) -> Any:
    seen = []
    for item in np.array([1, "two", None], dtype=object):
        seen.append(item)
    for item in np.array(["a", "b"]):
        seen.append(item)
    for item in np.ma.masked_array([1, 2], [0, 1]):
        seen.append(str(item))
    return seen, a + b


class Squares:
    def __init__(self, count: int) -> None:
        self.count, self.asked = count, []

    def __getitem__(self, number: int) -> Any:
        self.asked.append(number)
        if number >= self.count:
            raise IndexError(number)
        return number * number


class Stopping:
    def __getitem__(self, number: int) -> Any:
        if number == 2:
            raise StopIteration("over")
        return "n", number


class Failing:
    def __getitem__(self, number: int) -> Any:
        if number == 1:
            raise KeyError(number)
        return number


class Rows:
    def __init__(self, *rows: Any) -> None:
        self.rows = rows

    def __getitem__(self, number: int) -> Any:
        return self.rows[number]

    def __len__(self) -> int:
        return len(self.rows)


class Neither(Rows):
    __iter__ = None


class Asking:
    """Its items ask the iterator itself."""

    def __init__(self) -> None:
        self.items: Any = None
        self.depth = 0

    def __getitem__(self, number: int) -> Any:
        self.depth += 1
        if self.depth == 2:
            return "inner", next(self.items, None)
        if number > 4:
            raise IndexError
        return number


@case
def instance_of_squares(a: Any, b: Any) -> Any:
    squares = Squares(3)
    for n in squares:
        a = a + n
    else:
        a = a * 2
    return a, squares.asked, list(Squares(2)), [n for n in Squares(4) if n % 2]


@case
def instance_that_stops(a: Any, b: Any) -> Any:
    return [n for n in Stopping()], list(enumerate(Stopping())), list(zip(Squares(3), Squares(2))), a + b


@case
def instance_asked_by_hand(a: Any, b: Any) -> Any:
    squares = Squares(1)
    items = iter(squares)
    seen = [next(items), next(items, "none"), next(items, "still")]
    squares.count = 5
    seen.append(next(items, "ended"))
    return seen, squares.asked, a + b


@case
def instance_that_fails(a: Any, b: Any) -> Any:
    seen = []
    items = iter(Failing())
    try:
        for n in items:
            seen.append(n)
    except KeyError as error:
        seen.append(error.args)
    try:
        next(items)
    except KeyError as error:
        seen.append(error.args)
    return seen, a + b


@case
def instance_of_rows(a: Any, b: Any) -> Any:
    total = 0
    for row in Rows(a, b):
        total = total + row
    return total, [row.ndim for row in Rows(a, b)], {number: row for number, row in enumerate(Rows(b))}


@case
def instance_changed_in_loop(a: Any, b: Any) -> Any:
    squares = Squares(2)
    seen = []
    for n in squares:
        seen.append(n)
        squares.count = 4
    return seen, squares.asked, a + b


@case
def instances_of_instances(a: Any, b: Any) -> Any:
    return [[n + m for m in row] for n, row in enumerate(Rows(Squares(2), Squares(3)))], a + b


@case
def instances_are_kept(a: Any, b: Any) -> Any:
    some, ended, begun = iter(Squares(3)), iter(Squares(1)), enumerate(Squares(4))
    next(some), next(ended), next(ended, 0), next(begun)
    return some, ended, begun, iter(Squares(2)), a + b


@case
def called_until(a: Any, b: Any) -> Any:
    rest = [3, 2, 1, 0, 5]
    for n in iter(lambda: rest.pop(), 1):
        a = a + n
    else:
        a = a * 2
    return a, rest, [n for n in iter(lambda: rest.pop(0), 2)], list(iter(lambda: "x", "x")), list(enumerate(iter(lambda: rest.append(1) or len(rest), 3)))


@case
def called_by_hand(a: Any, b: Any) -> Any:
    rest: list[Any] = [1, 2, "end", 4]
    items = iter(lambda: rest.pop(0), "end")
    seen = [next(items), next(items, 0), next(items, "none"), next(items, "still"), list(rest)]
    try:
        next(items)
    except StopIteration as stop:
        seen.append(stop.args)
    return seen, iter(items) is items, a + b


@case
def called_until_it_stops(a: Any, b: Any) -> Any:
    rows = iter([a, b])
    seen = []
    for rank in iter(lambda: next(rows).ndim, None):
        seen.append(a * rank)
    return seen, list(iter(lambda: next(rows), 1))


@case
def called_and_fails(a: Any, b: Any) -> Any:
    rest, seen = [2, 1], []
    items = iter(lambda: rest.pop(), 5)
    try:
        for n in items:
            seen.append(n)
    except IndexError as error:
        seen.append(str(error))
    rest.append(7)
    return seen, next(items), a + b


@case
def called_are_kept(a: Any, b: Any) -> Any:
    rest, last = [5, 4, 3, 2], [1]
    begun, ended = iter(lambda: rest.pop(), 5), iter(lambda: last.pop(), 1)
    next(begun), next(ended, None)
    return begun, ended, a + b


class Wanted:
    def __init__(self, asked: list[Any]) -> None:
        self.asked = asked

    def __eq__(self, other: object) -> bool:
        self.asked.append(other)
        return other == 3

    __hash__ = None  # type: ignore[assignment]


@case
def called_until_the_sentinel_says(a: Any, b: Any) -> Any:
    asked: list[Any] = []
    wanted = Wanted(asked)
    rest, others = [4, 3, 2, 1], [1, wanted, 2]
    seen = list(iter(lambda: rest.pop(), wanted)), list(iter(lambda: others.pop(), wanted))
    return seen, asked, a + b


@breaking
def called_and_asks_itself(a: Any, b: Any) -> Any:
    rest, seen = [1, 2, 3, 4, 5], []

    def ask() -> Any:
        n = rest.pop()
        if n == 3:
            seen.append(list(items))
        return n

    items = iter(ask, 1)
    seen.extend(items)
    try:
        iter(3, 3)  # type: ignore[call-overload]
    except TypeError as error:
        seen.append(str(error))
    nan = float("nan")
    return seen, list(iter([nan, 1.0].pop, nan)), list(iter([0, True, 2].pop, 1)), a + b


class Alike:
    def __init__(self, asks: Any) -> None:
        self.asks = asks

    def __eq__(self, other: object) -> bool:
        self.asks()
        return True

    __hash__ = None  # type: ignore[assignment]


@breaking
def group_that_is_asked_by_a_comparison(a: Any, b: Any) -> Any:
    seen: list[Any] = []

    def ask() -> None:
        seen.append(len(seen))
        if len(seen) == 1:
            next(group, None)

    groups = itertools.groupby(range(10), lambda n: Alike(ask))
    group = next(groups)[1]
    for _ in range(2):
        next(group, None)
    return seen, a + b


class Counting:
    def __init__(self) -> None:
        self.hashed = 0

    def __hash__(self) -> int:
        self.hashed += 1
        return 7


@breaking
def sets_take_hashes_over(a: Any, b: Any) -> Any:
    known = {Counting(): 1, Counting(): 2}
    once, twice = set(known), frozenset(set(known))
    return len(once), len(twice), [one.hashed for one in known], a + b


@breaking
def instance_that_asks_itself(a: Any, b: Any) -> Any:
    asking = Asking()
    asking.items = iter(asking)
    return [next(asking.items), next(asking.items), next(asking.items), list(asking.items)], a + b


@breaking
def instance_without_iteration(a: Any, b: Any) -> Any:
    for n in Neither(a, b):
        a = a + n
    return a


@breaking
def instance_whose_item_breaks(a: Any, b: Any) -> Any:
    class Noting:
        def __getitem__(self, number: int) -> Any:
            note(number)
            return (a, b)[number]

    return [row + 1 for row in Noting()], list(Noting())


KEPT = (type(iter(A)), type(iter(int, 1)), reversed, enumerate, zip)


def first_and_last(*parts: Any, more: Any = 1) -> Any:
    return parts[0] * more + parts[-1], len(parts)


@case
def rows_in_a_display(a: Any, b: Any) -> Any:
    both = [*a, 1, *b]
    return both, len(both), (*a,), [[*a], [*b]][1][-1:]


@case
def rows_behind_others(a: Any, b: Any) -> Any:
    row = [b]
    row.extend(a)
    row += b
    queue = deque(a, maxlen=3)
    queue.extend(b)
    queue.extendleft(a)
    return row, list(queue)


@case
def rows_as_arguments(a: Any, b: Any) -> Any:
    if len(a) == 0:
        return a + b
    return first_and_last(*a, more=2), first_and_last(*a, *b), first_and_last(0, *b, **{"more": 3})


@case
def rows_unpacked_around_a_star(a: Any, b: Any) -> Any:
    if len(a) < 2:
        return a + b
    first, *others, last = a
    *front, end = b
    return first + last, others, front, end


@case
def too_few_rows_around_a_star(a: Any, b: Any) -> Any:
    try:
        one, *more, two, three, four, five, six, seven = a
    except ValueError as error:
        return str(error), b + 1
    return one, more, two, three, four, five, six, seven


@breaking  # what the list has held before is guarded
def rows_for_outer_lists(a: Any, b: Any) -> Any:
    del OUTER[:]
    OUTER.extend(a)
    OUTER.extend([*b])
    return len(OUTER), [part + 1 for part in OUTER[:2]]


@breaking
def rows_of_nothing(a: Any, b: Any) -> Any:
    found = []
    for made in (lambda: [*a[0, ...].sum()], lambda: first_and_last(*np.array(3.0)), lambda: [*np.ones(3)] + [*b]):
        try:
            found.append(made())
        except (TypeError, IndexError) as error:
            found.append(str(error))
    return found


@breaking
def more_rows_than_are_read_at_once(a: Any, b: Any) -> Any:
    long = np.arange(40.0) + len(a)
    first, *others = long
    return [*long][39] + first, len(others), first_and_last(*long), b + 1


def told_of_kept(function: Callable[..., Any], *arguments: Any) -> Any:
    """`told`, with what iterators that are handed out still give."""
    came, seen, warned = told(function, *arguments)
    if came[0] == "value" and isinstance(came[1], tuple):
        came = "value", [(type(part), list(part)) if isinstance(part, KEPT) else part for part in came[1]]
    return came, seen, warned


test_is_one_graph = one_graph_tests(CASES, (A, B), told)
test_is_as_in_plain_python, test_may_be_left_before_every_node = differential_tests(CASES + BREAKING, CALLS, told_of_kept, left=CALLS[:3], nodes=30)


@pytest.mark.parametrize("function", CASES + BREAKING, ids=lambda function: function.__name__)
def test_is_as_in_plain_python_with_every_frame(function: Callable[..., Any]) -> None:
    plain = [told_of_kept(function, *arguments) for arguments in CALLS]
    with evalframe.enabled():
        got = [told_of_kept(function, *arguments) for arguments in CALLS]
    assert repr(got) == repr(plain)
