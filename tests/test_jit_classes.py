"""Instances that recorded code makes, bound methods as values, super(): as in plain Python, wherever the graph is left."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import gc
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import BACKENDS, differential_tests, one_graph_tests, outcome, same

A = np.linspace(-1.0, 2.0, 12)
B = np.arange(12.0) - 3


class Point:
    scale = 2.0

    def __init__(self, x, y=1.0, *, z=None):
        self.x = x
        self.y = y * self.scale
        if z is not None:
            self.z = z

    def moved(self, by):
        return Point(self.x + by, self.y)

    @property
    def norm(self):
        return self.x * self.x + self.y * self.y

    @staticmethod
    def double(a):
        return a * 2


class Child(Point):
    def __init__(self, x, y):
        z = x + 1
        super().__init__(x, y, z=z)
        self.name = "child"
        self.total = z + self.y

    def moved(self, by):
        other = super().moved(by * 2)
        other.extra = self.total
        return other


class Root:
    def __init__(self):
        super().__init__()
        self.log = ["root"]


class Left(Root):
    def __init__(self):
        super().__init__()
        self.log.append("left")


class Right(Root):
    def __init__(self):
        super().__init__()
        self.log.append("right")


class Diamond(Left, Right):
    def __init__(self, value):
        super().__init__()
        self.value = value


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a = a
        self.b = self.a + b


class Empty:
    pass


class Shape(ABC):
    def __init__(self, side):
        self.side = side

    @abstractmethod
    def area(self): ...


class Square(Shape):
    def area(self):
        return self.side * self.side


@dataclass
class Record:
    first: Any
    second: Any = 2.0
    rows: list[Any] = field(default_factory=list)

    def total(self):
        return self.first * self.second


@dataclass
class Checked:
    value: Any

    def __post_init__(self):
        self.mean = self.value.mean()
        if self.mean > 0:
            self.value = -self.value


class Broken:
    def __init__(self, x):
        self.x = x + 1
        self.y = self.x @ np.ones(5)


class Breaking:
    def __init__(self, x):
        self.x = x * 2
        if self.x.sum() > 0:
            self.x = self.x + 1
        self.y = self.x - 1


class Returning:
    def __init__(self, x):
        self.x = x + 1
        return x  # noqa: PLE0101


class Finalised:
    def __init__(self, x):
        self.x = x

    def __del__(self):
        LOG.append("gone")


LOG: list[str] = []


class Settings:
    factor = 2.0
    table = {"a": A}

    def __init__(self, x):
        self.x = x

    @classmethod
    def create(cls, x):
        return cls(x * cls.factor)

    @classmethod
    def again(cls, settings):
        return cls.create(settings.x + cls.table["a"])


class Special(Settings):
    factor = 3.0


class Manager:
    def __init__(self, x):
        self.x = x
        self.depth = 0

    def __enter__(self):
        self.depth += 1
        self.x = self.x * 2
        return self.x

    def __exit__(self, kind, error, trace):
        self.depth -= 1
        self.last = kind
        return kind is ValueError


def fields(o):
    return type(o).__name__, list(vars(o).items()) if hasattr(o, "__dict__") else [("a", o.a), ("b", o.b)]


def made(x, y):
    p = Point(x, 2.0)
    q = p.moved(y).moved(1)
    return q.x, q.norm + p.norm, Point.double(x) + p.double(y)


def kept(x, y):
    p = Point(x, y=y, z=[x])
    p.again = p
    row = [p, Point(y)]
    row[1].other = p
    p.z.append(row[1].x * 2)
    return row[1].other is p, p.again is p, p.z, type(p) is Point, isinstance(p, Point)


def children(x, y):
    c = Child(x, 2.0)
    other = c.moved(y)
    return c, other, c.norm


def diamond(x, y):
    d = Diamond(x + y)
    return d.log, d.value * 2, d


def with_slots(x, y):
    s = Slots(x, y)
    s.a = s.b * 2
    return s


def empty(x, y):
    e = Empty()
    e.value = x + y
    e.value += 1
    return e


def abstract(x, y):
    return Square(x).area() + y


def dataclasses(x, y):
    r = Record(x)
    r.rows.append(y)
    s = Record(first=y, second=r.total(), rows=r.rows)
    return r, s, s.total(), r.rows is s.rows


def checked(x, y):
    c = Checked(x + 1)
    return c, c.value * y


def broken(x, y):
    z = x * 2
    try:
        return Broken(z)
    except ValueError as error:
        return str(error), z


def broken_uncaught(x, y):
    return Broken(x * 2)


def breaking(x, y):
    return Breaking(x), Breaking(-y), [Breaking(x + y).y, Breaking(y).x]


def returning(x, y):
    z = x + 1
    try:
        return Returning(z)
    except TypeError as error:
        return str(error), z


def wrong_arguments(x, y):
    z = x + 1
    try:
        return Point(z, 1, 2, 3)
    except TypeError as error:
        return str(error), z


def finalised(x, y):
    LOG.clear()
    z = Finalised(x).x + 1
    LOG.append("after")
    return z, LOG[:]


def bound(x, y):
    p = Point(x)
    move, norm = p.moved, Point.norm.fget
    q = move(y)
    args = (1,)
    return move(*args).x + q.x, norm(q), move


def bound_of_arrays(x, y):
    reshape, total = x.reshape, y.sum
    shape = (3, 4)
    z = reshape(*shape) * 2
    return z, total() + total(axis=0, keepdims=True), x.reshape(*shape).T, x.transpose(*[0])


def bound_from_outside(x, y):
    f = POINT.moved
    p = f(x)
    g = p.moved
    POINT.seen = g
    return f(y).x * p.x, g(1).x


def bound_of_lists(x, y):
    row = POINT.rows
    append, size = row.append, row.__len__
    append(x + 1)
    append(y)
    POINT.rows = []
    return size(), row[-1] * 2, append


def in_loop(x, y):
    total = x * 0
    for i in range(20):
        p = Point(total, float(i))
        total = p.moved(y).x
        if i == 7:
            LOG.append("seven")
    return total


def of_classes(x, y):
    s = Special.create(x)
    return Settings.again(s).x * Special.factor, s.create(y).x, type(s) is Special


def managed(x, y):
    manager = Manager(x)
    with manager as z, Manager(y) as w:
        z = z + manager.depth * w
        with manager:
            z = z * manager.depth
    return z, manager


def managed_from_outside(x, y):
    MANAGER.x = x
    with MANAGER as z:
        z = z + y
    return z * MANAGER.depth


def managed_and_raised(x, y):
    manager = Manager(x)
    with manager as z:
        z = z + 1
        z @ np.ones(5)
    with manager as w:
        if w.sum() > 0:
            raise ValueError("a")
        w = w * 2
    return z, w, manager.depth, manager.last


def identities(x, y):
    p, q = Point(x), POINT
    z = x if p is q else x + 1
    if q is POINT and p is not None and q is not None and MANAGER is not POINT:
        z = z * 2
    return z, x is y, x is x


def makes_closures(x, y):
    k = x * 2

    def scaled(a):
        if a.sum() > 0:
            a = a + k
        return a * k

    return scaled(x) + scaled(-x), scaled(y)


POINT = Point(A)
MANAGER = Manager(A)
FUNCTIONS: list[Callable[..., Any]] = [
    made, kept, children, diamond, with_slots, empty, abstract, dataclasses, checked, broken, broken_uncaught, breaking,
    returning, wrong_arguments, finalised, bound, bound_of_arrays, bound_from_outside, bound_of_lists, in_loop,
    of_classes, managed, managed_from_outside, managed_and_raised, identities, makes_closures,
]  # fmt: skip
IN_ONE_GRAPH = [made, children, diamond, with_slots, empty, abstract, dataclasses, bound_of_arrays, bound_from_outside, of_classes, managed, managed_from_outside, identities]
ARGUMENTS = [(A, B), (B, A), (A, -A)]


def result_of(function: Callable[..., Any], *arguments: Any) -> Any:
    vars(POINT).pop("seen", None)
    POINT.rows = [A]

    def plain(value):
        if isinstance(value, (list, tuple)):
            return [plain(item) for item in value]
        if type(value).__module__ == __name__:
            name, values = fields(value)
            return name, [(k, None if v is value else plain(v)) for k, v in values]
        bound = hasattr(value, "__self__") and not isinstance(value.__self__, type(sys))
        return (plain(value.__self__), value.__name__) if bound else value

    return plain(outcome(function, *arguments)), plain(getattr(POINT, "seen", None))


test_behaves_as_plain_python, test_may_be_left_before_every_node = differential_tests(FUNCTIONS, ARGUMENTS * 5, result_of, left=ARGUMENTS, nodes=16, left_on=BACKENDS)
test_is_one_graph = one_graph_tests(IN_ONE_GRAPH, (A, B), result_of)


def test_instances_die_when_they_are_dropped() -> None:
    captured = evalframe.jit(made)
    for _ in range(4):
        captured(A, B)
    gc.collect()
    before = sum(isinstance(each, Point) for each in gc.get_objects())
    for _ in range(50):
        captured(A, B)
    assert sum(isinstance(each, Point) for each in gc.get_objects()) == before
    assert sys.getrefcount(Point) < 100


def test_changes_of_classes_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    captured = evalframe.jit(made)
    for _ in range(3):
        assert same(captured(A, B), made(A, B))
    monkeypatch.setattr(Point, "scale", 5.0)
    assert same(captured(A, B), made(A, B))
    monkeypatch.setattr(Point, "norm", property(lambda self: self.x))
    assert same(captured(A, B), made(A, B))

    def initialise(self, x, y=1.0):
        self.x, self.y = x * 2, y

    monkeypatch.setattr(Point, "__init__", initialise)
    assert same(captured(A, B), made(A, B))
    monkeypatch.setattr(Point, "__setattr__", lambda self, name, value: object.__setattr__(self, name, value * 3), raising=False)
    assert same(captured(A, B), made(A, B))
