"""Classes that inherit from builtin types: named tuples, numbers, text, lists and dicts, as in plain Python, wherever the graph is left."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import collections
import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_behaves_as_plain, differential_tests, one_graph_tests, outcome

A = np.linspace(-1.0, 2.0, 12)
B = np.arange(12.0) - 3


class Point(NamedTuple):
    a: Any
    b: Any = 3

    def total(self):
        return self.a + self.b


Simple = collections.namedtuple("Simple", "p q", defaults=[7])


class Row(list):
    def total(self):
        return self[0] + self[1]


class Table(dict):
    def __missing__(self, key):
        return len(key)


ASKED: list[str] = []


class Asked(collections.Counter):
    def __iter__(self):
        ASKED.append("__iter__")
        return super().__iter__()

    def keys(self):
        ASKED.append("keys")
        return super().keys()

    def __getitem__(self, key):
        ASKED.append("__getitem__")
        return super().__getitem__(key)


class Upper(dict):
    def __init__(self, *positional, **named):
        super().__init__(*positional, **named)
        self.stored = 0

    def __setitem__(self, key, value):
        super().__setitem__(key.upper(), value)
        self.stored += 1


class Stack(list):
    def push(self, item):
        super().append(item)
        return len(self)


class Number(int):
    def doubled(self):
        return self * 2


class Share(float):
    pass


class Name(str):
    __slots__ = ()

    def size(self):
        return len(self)


class Pair(tuple):
    __slots__ = ()

    def __new__(cls, a, b):
        return super().__new__(cls, (a, b))

    @property
    def first(self):
        return self[0]


class Own(list):
    """Has its own idea of what lists have of their own."""

    def __init__(self, *items):
        super().__init__(*items)
        self.made = True

    def __getitem__(self, i):
        return "own"

    def __len__(self):
        return 77


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Mode(str, enum.Enum):
    FAST = "fast"


POINT, OF_ARRAYS = Point(2.0, 5), Point(A, B)


def named_tuples(a, b):
    point = Point(a)
    first, second = point
    return point, point.a + first, point[1], point[-1], len(point), second, point.total(), [*point], tuple(point), point + (1,)


def named_tuples_from_outside(a, b):
    x, y = OF_ARRAYS
    return POINT.a * a, POINT[1], [*POINT], OF_ARRAYS.total(), OF_ARRAYS, x + y, POINT * 2, POINT[0:1], POINT is Point(2.0, 5)


def named_tuples_by_function(a, b):
    simple, other = Simple(a), Simple(q=b, p=1)
    return simple, other.p, other._asdict(), simple._fields, other._make([a, 4]), Simple._make((a, a))


def lists(a, b):
    row, other = Row([a, 2]), Row()
    other.append(b)
    other.extend([1, 2])
    same = other
    other += [3]
    longer = row + [1]
    other.insert(0, 9)
    same[0] = 8
    for item in other:
        a = a + item
    other.tag = a
    return row, other, same is other, type(longer), row.total(), other.pop(), len(other), 3 in other[1:2], type(other[1:]), bool(Row()), vars(other)


def dicts(a, b):
    table, other = Table(a=a), Table({"k": b})
    table["b"] = 2
    missing, plain = table["four"], dict(table)
    table.update(z=5)
    return table, other, missing, type(plain), list(table), table.get("q"), "a" in table, len(table), table.pop("a"), list(table.items()), {**other}


def dicts_with_methods_before_their_base(a, b):
    upper, other = Upper(), Upper({"q": 1}, )
    upper["ab"] = a
    return upper, upper.stored, other, upper["AB"]


def methods_behind_super(a, b):
    stack = Stack([b])
    return stack.push(a), stack.push(2), stack


def numbers(a, b):
    number, share = Number(4), Share(2.5)
    return a * number.doubled(), number + 1, type(number + 1), -number, number, a * number, share * 2, share, number > 3, number == 4, Number("7")


def text(a, b):
    name = Name("four")
    return a * name.size(), name + "!", name.upper(), name, name == "four", name[1:], "o" in name


def tuples(a, b):
    pair = Pair(a, 2)
    return pair, pair.first, pair[1], type(pair), pair + (b,)


def own_methods_come_first(a, b):
    own = Own([1, 2])
    return own[0], len(own), own.made, bool(own), a + b


def enumerations(a, b):
    return a * Level.HIGH, Level.HIGH > Level.LOW, Level.LOW + 1, Level(5), Mode.FAST == "fast", Mode("fast") is Mode.FAST, a[Level.LOW], Level["LOW"]


def a_list_inside_of_itself(a, b):
    row = Row([a])
    row.append(row)
    row.tag = row
    return len(row), row[1] is row, row.tag is row, row


def a_tuple_inside_of_its_list(a, b):
    point = Point([a], 2)
    point.a.append(point)
    return point.a[1] is point, len(point.a)


def an_iterator_over_a_list(a, b):
    row = Row([a, b, 3])
    items = iter(row)
    first = next(items)
    return first, row, list(items)


def counted(a, b):
    counts = Asked()
    counts["a"] = 1
    counts.update("abc")
    counts.update("bb")
    put = counts.__setitem__
    put("d", 4)
    return a + counts.get("b"), b + counts.get("d")


def as_arguments(a, point, row):
    row.append(a)
    return point.a * a, point[1], len(point), len(row), row[0], row


FUNCTIONS = [named_tuples, named_tuples_from_outside, named_tuples_by_function, lists, dicts, dicts_with_methods_before_their_base, methods_behind_super,
             numbers, text, tuples, own_methods_come_first, enumerations, a_list_inside_of_itself, a_tuple_inside_of_its_list, an_iterator_over_a_list]  # fmt: skip
CALLS = [(A, B), (A, B), (B, A), (A[:6], 2.0)]


def shown(value: Any, depth: int = 4) -> Any:
    """With the types of all that is in it."""
    if depth and isinstance(value, (list, tuple)):
        return [type(value).__name__, *(shown(item, depth - 1) for item in tuple(value))]
    return [type(value).__name__, repr(value)]


def told(function: Callable[..., Any], *arguments: Any) -> Any:
    (kind, came_of_it), caught = outcome(function, *arguments)
    return kind, shown(came_of_it), caught


test_behaves_as_plain_python, test_may_be_left_before_every_node = differential_tests(FUNCTIONS, CALLS, told, left=CALLS, nodes=10)


@pytest.mark.parametrize("point", [Point(1.5, 2), Simple(1, 2), (3, 4)], ids=repr)
@pytest.mark.parametrize("make_row", [lambda: Row([1]), lambda: Own([4]), lambda: [5]])
def test_arguments_of_such_classes(point: Any, make_row: Callable[[], Any]) -> None:
    captured = evalframe.jit(as_arguments)
    for _ in range(3):
        assert told(captured, A, point, make_row()) == told(as_arguments, A, point, make_row())


def test_recording_asks_no_methods_of_their_own() -> None:
    ASKED.clear()
    check_behaves_as_plain(counted, "reference", CALLS, told)
    assert not ASKED


ONE_GRAPH = [named_tuples_from_outside, dicts, dicts_with_methods_before_their_base, numbers, text, tuples, a_tuple_inside_of_its_list]


test_is_one_graph = one_graph_tests(ONE_GRAPH, (A, B))
