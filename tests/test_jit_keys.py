"""Keys of dicts that their classes hash and compare, or that are known by their places; and sorts that compare by methods."""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_behaves_as_plain, check_may_be_left, leaving_before, one_graph_tests, outcome, same

X = np.linspace(-1.0, 1.0, 5)
CALLS = [(X,), (X,), (X * 2,), (X[:3],), (X,)]
ASKED: list[Any] = []


@dataclass(frozen=True)
class Point:
    a: int
    b: int = 2


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Loud:
    """Tells of each question."""

    def __init__(self, name: Any, number: int = 7) -> None:
        self.name = name
        self.number = number

    def __hash__(self) -> int:
        ASKED.append(("hash", self.name))
        return self.number

    def __eq__(self, other: object) -> Any:
        ASKED.append(("eq", self.name, getattr(other, "name", other)))
        return isinstance(other, Loud) and self.name == other.name


class Failing(Loud):
    def __eq__(self, other: object) -> Any:
        ASKED.append("fails")
        raise ValueError("not to be compared")

    __hash__ = Loud.__hash__


class Unhashable:
    __hash__ = None  # type: ignore[assignment]


class Bare:
    pass


class Table(dict[Any, Any]):
    pass


@functools.total_ordering
class Ranked:
    def __init__(self, rank: Any) -> None:
        self.rank = rank

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranked) and self.rank == other.rank

    def __lt__(self, other: Any) -> Any:
        ASKED.append(("lt", self.rank, getattr(other, "rank", other)))
        if other.rank == 99:
            raise ValueError("out of range")
        return NotImplemented if self.rank == 50 else self.rank < other.rank

    def __gt__(self, other: Any) -> Any:
        ASKED.append(("gt", self.rank, other.rank))
        return self.rank > other.rank


class Upside(Ranked):
    def __lt__(self, other: Any) -> Any:
        return [1] if self.rank > other.rank else []


TABLE = {Color.RED: 2.0, Color.GREEN: 3.0}
BY_CLASS: Any = {int: 2.0, Bare: 3.0, np.ndarray: 4.0}
BARE = Bare()
BY_PLACE: Any = {BARE: 2.0, Bare: 3.0, outcome: 4.0}
MIXED: Any = {7: 1.0, Loud("a"): 2.0}


def literal(x: Any) -> Any:
    d = {Point(1): x, Point(2): x + 1, "a": 3}
    return d[Point(2, 2)] * d["a"], len(d), d[Point(1)]


def stores(x: Any) -> Any:
    d: Any = {}
    d[Point(1)] = x
    d[Point(1)] += 1
    d[Point(2)] = 5
    del d[Point(1)]
    d[Point(1)] = x * 2
    return list(d.values()), list(d), d


def asked(x: Any) -> Any:
    d: Any = {Point(1): x}
    d.setdefault(Point(3), 5)
    d.setdefault(Point(1), 6)
    return d.get(Point(1)) * 2, d.get(Point(9)), d.get(Point(9), 4), Point(1) in d, Point(8) not in d, d.pop(Point(3)), d.pop(Point(3), None), len(d)


def missing(x: Any) -> Any:
    d: Any = {Point(1): x}
    told = []
    for take in (lambda: d[Point(5)], lambda: d.pop(Point(6)), lambda: d.__delitem__(Point(7))):
        try:
            take()
        except KeyError as error:
            told.append(error.args)
    try:
        del d[Point(8)]
    except KeyError as error:
        told.append(error.args)
    return x + 1, told


def loud(x: Any) -> Any:
    d: Any = {Loud("a"): x, Loud("b"): 2, 7: 3, Loud("a"): 4}
    key = Loud("b")
    z = x * d[key]
    d[key] = 9
    d[Loud("c", 8)] = z
    return z + d[Loud("c", 8)], list(d.values()), 7 in d, Loud("d") in d, d[7]


def loud_left(x: Any) -> Any:
    d: Any = {Loud("a"): x + 1}
    z = x * 2
    d[Loud("c", 8)] = z / x
    y = z + d[Loud("a")]
    return y * d[Loud("c", 8)], d


def failing(x: Any) -> Any:
    d: Any = {Failing("a"): x}
    try:
        d[Failing("b")] = 3
    except ValueError as error:
        return x + 1, str(error), len(d)
    return d


def unhashable(x: Any) -> Any:
    try:
        return {Unhashable(): x}
    except TypeError as error:
        return x + 1, str(error)


def members(x: Any) -> Any:
    d = {Color.RED: x, Color.GREEN: x + 1}
    d[Color.RED] = d[Color.RED] * 2
    return d[Color.RED] - d[Color.GREEN], list(d), d


def members_outside(x: Any) -> Any:
    return x * TABLE[Color.RED] + TABLE.get(Color.GREEN, 0) + (Color.RED in TABLE)


def classes_outside(x: Any) -> Any:
    return x * BY_CLASS[type(BARE)] + BY_CLASS[int] + BY_CLASS[type(x)]


def objects_outside(x: Any) -> Any:
    return x * BY_PLACE[BARE] + BY_PLACE[Bare] + BY_PLACE[outcome]


def mixed_outside(x: Any) -> Any:
    return x * MIXED[Loud("a")] + MIXED[7]


def by_place(x: Any) -> Any:
    one, other = Bare(), Bare()
    function = lambda: 3  # noqa: E731
    d: Any = {one: x, other: 2, function: 4, Bare: 5, "a": 6}
    d[one] = d[one] + 1
    del d[other]
    return d[one] * d[function] + d[Bare], other in d, one in d, [*d.values()], len(d), d.get(other, 8)


def copied(x: Any) -> Any:
    d: Any = dict.fromkeys([Loud("a"), Loud("b")], x)
    e: Any = {**d, Loud("a"): 3}
    e.update({Loud("c"): 1})
    f, g = dict(e), e | {Loud("c"): 9}
    return list(e.values()), f, g, e == f, e.copy(), [*e.items()], x + 1


def rehashed(x: Any) -> Any:
    d: Any = {Loud("a"): 1}
    key = next(iter(d))
    key.number = 6
    return key in d, d.get(key), len(d), x + 1


def with_number_of_one_hash(x: Any) -> Any:
    d: Any = {7: x, Loud("a", 7): 2}
    return d[7] * 2, 8 in d, d.get(7), d[Loud("a", 7)]


def in_a_subclass(x: Any) -> Any:
    d = Table()
    d[Point(1)] = x
    d["a"] = 2
    del d["a"]
    return d[Point(1)] + 1, list(d), len(d)


def gone_through(x: Any) -> Any:
    d: Any = {Point(1): x, Point(2): 2}
    for key, value in d.items():
        d[key] = value + 1
    return d[Point(1)], [key.b for key in d], sorted(key.a for key in d.keys())


def of_mixed_numbers(x: Any) -> Any:
    d: Any = {Loud("a", -1): 1, Loud("b", 2**70 + 3): x, Loud("c", True): 3}
    return d[Loud("a", -2)], d[Loud("b", hash(2**70 + 3))] + 1, d[Loud("c", 1)]


def set_default_by_place(x: Any) -> Any:
    seen: Any = {}
    node = Bare()
    seen.setdefault(node, []).append(x)
    seen.setdefault(node, []).append(1)
    return x + 1, seen[node]


def sorted_by_methods(x: Any) -> Any:
    rows = [Ranked(n) for n in (3, 1, 2, 2, 5, 4, 0)]
    return x + 1, [row.rank for row in sorted(rows)], [row.rank for row in sorted(rows, reverse=True)]


def sorted_with_doubts(x: Any) -> Any:
    return x + 1, [row.rank for row in sorted([Ranked(3), Ranked(50), Ranked(1), Ranked(7)])]


def sorted_of_two_types(x: Any) -> Any:
    return x + 1, [row.rank for row in sorted([Ranked(3), Upside(5), Ranked(1), Upside(2)])]


def sorted_with_key(x: Any) -> Any:
    return x + 1, sorted([3, 1, 2], key=Ranked), sorted([(2, x), (1, x)], key=lambda pair: Ranked(pair[0]))[0][0]


def sort_that_fails(x: Any) -> Any:
    try:
        sorted([Ranked(3), Ranked(99), Ranked(1)])
    except ValueError as error:
        return x + 1, str(error)
    return x


CASES = [
    literal, stores, asked, missing, loud, loud_left, failing, unhashable, members, members_outside, classes_outside, objects_outside,
    mixed_outside, copied, rehashed, with_number_of_one_hash, in_a_subclass, gone_through, of_mixed_numbers, by_place, set_default_by_place, sorted_by_methods, sorted_with_doubts, sorted_of_two_types, sorted_with_key, sort_that_fails,
]
SINGLE = [literal, stores, asked, members, members_outside, classes_outside, objects_outside, by_place, set_default_by_place, sorted_by_methods, sorted_with_key]


def shown(value: Any) -> Any:
    if isinstance(value, Loud):
        return "loud", value.name
    if type(value) is dict:
        return [(shown(key), shown(item)) for key, item in value.items()]
    if type(value) in (tuple, list):
        return [shown(part) for part in value]
    return value


def came_to(function: Any, x: Any) -> Any:
    return outcome(lambda: shown(function(x.copy())))


def told(function: Any, x: Any) -> Any:
    ASKED.clear()
    return came_to(function, x), list(ASKED)


@pytest.mark.parametrize("function", CASES)
def test_does_what_plain_python_does(function: Any) -> None:
    check_behaves_as_plain(function, "reference", CALLS, told)


@pytest.mark.parametrize("function", CASES)
def test_may_be_left_before_every_node(function: Any) -> None:
    check_may_be_left(function, "reference", CALLS[:1], 8, came_to)


test_is_one_graph = one_graph_tests(SINGLE, (X.copy(),))


def test_tables_from_outside_change() -> None:
    captured = evalframe.jit(members_outside, backend="reference")
    for change in (lambda: None, lambda: TABLE.update({Color.RED: 5.0}), lambda: TABLE.pop(Color.GREEN), lambda: TABLE.update({Color.GREEN: 3.0, Color.RED: 2.0})):
        change()
        assert same(told(captured, X), told(members_outside, X))


def test_a_given_key() -> None:
    def of(x: Any, key: Any) -> Any:
        d: Any = {BARE: x, Color.RED: x * 2, "a": 3}
        return d[key] if key in d else d.get(key, 4)

    captured = evalframe.jit(of, backend="reference")
    for key in (BARE, Color.RED, "a", Bare(), Color.GREEN, Loud("a"), 1.5, BARE, Color.RED):
        assert same(outcome(captured, X, key), outcome(of, X, key))


class Named(dict[Any, Any]):
    mark = 1


def in_table(x: Any, n: Any) -> Any:
    table = Named({1: 2})
    table[Loud("a", n)] = 1
    table[Loud("b", n)] = len(table)
    y = x * len(table)
    return y + table.mark, list(table.values())


def table_of_dict(x: Any, n: Any) -> Any:
    table = Named({key: n for key in (Loud("a"), Loud("b", 8))})
    return x * len(table), list(table.values())


@pytest.mark.parametrize("function", [in_table, table_of_dict])
def test_keys_of_classes_that_inherit_are_asked_as_often(function: Any) -> None:
    def told(called: Any) -> Any:
        ASKED.clear()
        return outcome(called, X, 2), ASKED.copy()

    captured = evalframe.jit(function)
    for node in (-1, -1, 0, 1, 2):
        with leaving_before(node):
            assert same(told(captured), told(function)), node
