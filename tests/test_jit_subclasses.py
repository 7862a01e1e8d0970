"""Classes that inherit from builtin types: named tuples, numbers, text, lists and dicts, as in plain Python, wherever the graph is left."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import collections
import dataclasses
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


class Ordered(collections.OrderedDict):
    """Has all of an OrderedDict's methods, and attributes."""


@dataclasses.dataclass
class Result(collections.OrderedDict):
    """What it holds are its fields that aren't None, as with results of models."""

    last: Any = None
    states: Any = None
    loss: Any = None

    def __post_init__(self):
        for name in FIELDS:
            value = self.__dict__.get(name)
            if value is not None:
                self[name] = value

    def __getitem__(self, key):
        return dict(self.items())[key] if isinstance(key, str) else self.to_tuple()[key]

    def __setattr__(self, name, value):
        if name in FIELDS and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def __contains__(self, key):
        return super().__contains__(key.lower())

    def to_tuple(self):
        return tuple(self[key] for key in self.keys())


class Registry(dict):
    """Is asked by something else than what it keeps."""

    def get(self, key, *default):
        return super().get(str(key), *default) or {}

    def __getitem__(self, key):
        return super().__getitem__(str(key))

    def __contains__(self, key):
        return super().__contains__(str(key))


FIELDS = tuple(field.name for field in dataclasses.fields(Result))
REGISTRY = Registry({"1": {"scale": 3.0}, "<class 'int'>": 4})
REGISTERED = {int, Table, "name", Ordered}


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


def ordered_dicts(a, b):
    ordered, other = Ordered(x=a, y=b), Ordered([("k", b)])
    ordered["z"] = 1
    ordered.move_to_end("x")
    ordered.tag = a
    order = list(ordered)
    del ordered["y"]
    popped = ordered.pop("z", None)
    other.update(ordered, q=2)
    return ordered, order, popped, other, ordered["x"], "x" in ordered, len(ordered), ordered.get("q"), dict(other), list(other.items()), ordered.tag, vars(ordered)


def ordered_dicts_with_methods_before_their_base(a, b):
    result = Result(a, loss=None)
    before = result.to_tuple()
    result.states = (b,)
    last, states = result.to_tuple()
    return result, before, last, states[0], result[0], result["states"], "LAST" in result, result.get("loss"), len(result), result.loss, dict(vars(result)), list(result.values())


def results_that_are_empty(a, b):
    result, other = Result(), Result(states=[])
    return a + b, result, other, bool(result), bool(other), other.states


def attributes_of_dicts_as_a_dict(a, b):
    table, number = Table(x=1), Share(2.5)
    table.scale = a
    kept = table.__dict__
    kept["shift"] = b
    number.unit = "m"
    return table.scale * table.shift, kept.get("scale"), sorted(kept), table, number.__dict__.get("unit"), "x" in kept, vars(number)


def dicts_from_outside(a, b):
    found = REGISTRY.get(1)["scale"]
    return a * found, REGISTRY.get(2), REGISTRY.get("none", 5), REGISTRY[int], 1 in REGISTRY, 7 in REGISTRY


def members_of_sets_from_outside(a, b):
    known = [what in REGISTERED for what in (int, Table, "name", Ordered, Row, str, "other", 2)]
    return a + 1 if Table in REGISTERED else b, known


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


FUNCTIONS = [named_tuples, named_tuples_from_outside, named_tuples_by_function, lists, dicts, dicts_with_methods_before_their_base, ordered_dicts,
             ordered_dicts_with_methods_before_their_base, results_that_are_empty, attributes_of_dicts_as_a_dict, dicts_from_outside,
             members_of_sets_from_outside, methods_behind_super, numbers, text, tuples, own_methods_come_first, enumerations, a_list_inside_of_itself, a_tuple_inside_of_its_list, an_iterator_over_a_list]  # fmt: skip
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


class Gain(float):
    pass


class Converted(float):
    def __float__(self):
        return 99.0


class NotForNumPy(float):
    __array_ufunc__ = None


class AsArray(tuple):
    def __array__(self, dtype=None, copy=None):
        return np.array([9.0, 8.0])


ONE: Any = None


def product(x):
    return x * ONE


def sum_of_both(x):
    return ONE + x


def comparison(x):
    return x > ONE, ONE == x


def remainder(x):
    return ONE % x


@pytest.mark.parametrize("one", [Level.HIGH, Gain(0.1), Converted(2), NotForNumPy(2), AsArray((1, 2)), Point(1, 2), Mode.FAST], ids=repr)
@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint64", "float32", "float64", "complex64"])
def test_numpy_is_given_the_instances(one: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it makes of one isn't what it makes of the contents: arrays of int8 and ints are int8, and one with an IntEnum is int64."""
    monkeypatch.setitem(globals(), "ONE", one)
    x = np.array([1, 100]).astype(dtype)
    for function in (product, sum_of_both, comparison, remainder):
        captured = evalframe.jit(function)
        for given in [x, x, x, x[1], x[1], x[1]]:
            assert typed(captured, given) == typed(function, given)


def typed(function: Callable[..., Any], x: Any) -> Any:
    (kind, came_of_it), caught = outcome(function, x)
    return kind, [(type(one), getattr(one, "dtype", None), shown(one)) for one in (came_of_it if type(came_of_it) is tuple else [came_of_it])], caught


def test_what_a_set_or_dict_from_outside_has_may_change() -> None:
    held: set[Any] = {int, "b"}
    registry = Registry()

    def function(a: Any) -> Any:
        return (a + 1 if Table in held else a - 1), registry.get(Table, 3), 2 * a if "b" in held else a

    captured = evalframe.jit(function)
    for change in (lambda: None, lambda: held.add(Table), lambda: held.discard("b"), lambda: dict.__setitem__(registry, str(Table), 8), held.clear, registry.clear):
        change()
        for _ in range(2):
            assert told(captured, A) == told(function, A)


def test_recording_asks_no_methods_of_their_own() -> None:
    ASKED.clear()
    check_behaves_as_plain(counted, "reference", CALLS, told)
    assert not ASKED


ONE_GRAPH = [named_tuples_from_outside, dicts, dicts_with_methods_before_their_base, ordered_dicts_with_methods_before_their_base, results_that_are_empty,
             attributes_of_dicts_as_a_dict, dicts_from_outside, members_of_sets_from_outside, numbers, text, tuples, a_tuple_inside_of_its_list]  # fmt: skip


test_is_one_graph = one_graph_tests(ONE_GRAPH, (A, B))
