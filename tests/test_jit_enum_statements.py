"""Enumerations that captured functions make: their members are made anew at each call, as in plain Python."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import enum
import gc
import weakref
from collections.abc import Callable
from enum import Enum, IntEnum, auto
from typing import Any

import numpy as np
import pytest

import evalframe
from helpers import check_behaves_as_plain, check_may_be_left
from shown_classes import outcome

X, Y = np.linspace(-1, 1, 5), np.ones(5)
CALLS = [(X, Y), (X * 3, Y + 2), (X.astype("f4"), Y), (X, Y)]
ONE_GRAPH: dict[str, Callable[..., Any]] = {}
OTHERS: dict[str, Callable[..., Any]] = {}


def case(function: Callable[..., Any]) -> Callable[..., Any]:
    ONE_GRAPH[function.__name__] = function
    return function


def other(function: Callable[..., Any]) -> Callable[..., Any]:
    OTHERS[function.__name__] = function
    return function


@case
def members_and_aliases(x, y):
    class Local(Enum):
        """Text."""

        A = auto()
        B = enum.auto()
        C = 2  # noqa: PIE796
        D = (1, "x")

        @property
        def doubled(self):
            return self.value * 2

        @staticmethod
        def four():
            return 4

        @classmethod
        def first(cls):
            return cls.A

        def me(self):
            return Local

        def __str__(self):
            return "text"

    named = [one.name for one in Local]
    same = Local.C is Local.B, Local(2) is Local.B, Local["A"] is Local.first(), Local.A.me() is Local
    return Local, Local.A, named, same, len(Local), x * Local.B.doubled + y * Local.four()


@case
def values_of_all_kinds(x, y):
    class Local(Enum):
        A = 2.5
        B = None
        C = True
        D = "t"
        E = -1

    return Local, Local(2.5), Local("t"), x + y


@case
def numbers(x, y):
    class Local(IntEnum):
        LOW = 1
        HIGH = 5

    return Local, Local.LOW + 1, Local(5), x * Local.HIGH + y


@case
def texts(x, y):
    class Local(enum.StrEnum):
        A = "a"
        B = auto()

    class Other(str, Enum):
        A = "a"

    return Local, Local.B, Other, Other.A.upper(), x * len(Local.B) + y


@case
def flags(x, y):
    class Local(enum.Flag):
        READ = auto()
        WRITE = auto()
        BOTH = 3

    return Local, Local.READ | Local.WRITE, Local.BOTH, x * Local.WRITE.value + y


@case
def in_a_match(x, y):
    class Local(Enum):
        A = 1
        B = 2

        def inside(self):
            return __class__  # noqa: F821

    match Local.B:
        case Local.A:
            return y
        case Local.B:
            return x * 2, {Local.A: 3}[Local.A], Local.B.inside() is Local, isinstance(Local.A, Local), Local.__members__["B"]


@case
def classes_of_a_loop(x, y):
    made = []
    for _ in range(3):

        class Local(Enum):
            A = 1

        made.append(Local)
    return made, made[0].A == made[1].A, x + y


@other
def named_as_an_attribute_is(x, y):
    class Local(Enum):
        name = 7
        value = 8

    return Local, Local.name, Local.value.value, x + y


@other
def unknown_value(x, y):
    class Local(Enum):
        A = 1

    try:
        Local(4)
    except ValueError as error:
        return str(error), x + y


@other
def text_of_members(x, y):
    class Local(Enum):
        A = 1

    return repr(Local.A), str(Local.A), f"{Local.A}", repr(Local), x + y


@other
def not_in_order(x, y):
    class Local(enum.IntFlag):
        A = 4
        B = 2

    return Local, list(Local), x * Local.B + y


@other
def stored_twice(x, y):
    class Local(Enum):
        A = 1
        A = 2  # type: ignore[misc]  # noqa: PIE794

    return Local


@other
def read_in_the_body(x, y):
    class Local(Enum):
        A = auto()
        B = A

    return Local, Local.B is Local.A


@other
def names_that_are_refused(x, y):
    class Local(Enum):
        mro = 1

    return Local


@other
def values_that_are_refused(x, y):
    z = x + y

    class Local(IntEnum):
        A = "x"

    return z, Local


@other
def own_hooks(x, y):
    log = []

    class Local(Enum):
        def __init__(self, value):
            log.append(value)

        def _generate_next_value_(name, start, count, last):  # type: ignore[override]  # noqa: N805
            return name * 2

        A = 1
        B = auto()

    return Local, log, x + y


@other
def own_new(x, y):
    log = []

    class Local(Enum):
        def __new__(cls, value):
            log.append(value)
            made = object.__new__(cls)
            made._value_ = value * 2
            return made

        A = 1

    return Local, log, Local(2), x + y


LOG: list[Any] = []


class Value:
    def __hash__(self):
        LOG.append("hash")
        return 1

    def __set_name__(self, owner, name):
        LOG.append(name)


@other
def hash_of_a_value(x, y):
    LOG.clear()

    class Local(Enum):
        A = Value()

    return list(LOG), Local.A.name, x + y


class Base(Enum):
    def __init_subclass__(cls, **keywords):
        LOG.append(cls.__name__)
        super().__init_subclass__(**keywords)


@other
def base_of_the_programs(x, y):
    LOG.clear()

    class Local(Base):
        A = 1

    return list(LOG), Local, x + y


@other
def names_of_the_body(x, y):
    class Local(Enum):
        A = 1
        _ignore_ = ["B"]
        B = type(vars()).__name__
        C = B

    return Local, x + y


@other
def values_of_the_call(x, y):
    n = len(x)

    class Local(Enum):
        A = n
        B = x

    return Local.A, Local.B.value is x


@other
def with_a_boundary(x, y):
    class Local(enum.Flag, boundary=enum.KEEP):
        A = 1

    return Local, Local(3), x + y


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("function", [*ONE_GRAPH.values(), *OTHERS.values()])
def test_behaves_as_plain_python(function: Callable[..., Any], backend: str) -> None:
    check_behaves_as_plain(function, backend, CALLS, outcome)


@pytest.mark.parametrize("function", [*ONE_GRAPH.values(), *OTHERS.values()])
def test_may_be_left_before_every_node(function: Callable[..., Any]) -> None:
    check_may_be_left(function, "reference", CALLS, 12, outcome)


@pytest.mark.parametrize("name", sorted(ONE_GRAPH))
def test_is_one_graph(name: str) -> None:
    told = evalframe.explain(ONE_GRAPH[name], backend="reference")(X, Y)
    assert len(told.entries) == 1 and not told.breaks, [f"{one.reason}: {one.detail}" for one in told.breaks]


def test_each_call_makes_another_class() -> None:
    captured = evalframe.jit(numbers, backend="reference")
    made = [captured(X, Y)[0] for _ in range(4)]
    assert len({id(one) for one in made}) == 4 and len({id(one.LOW) for one in made}) == 4
    assert all(one(5) is one.HIGH and one._member_map_ is not made[0]._member_map_ for one in made[1:])
    assert all(isinstance(one.LOW, one) and one.LOW.__objclass__ is one for one in made)


def test_classes_die() -> None:
    captured = evalframe.jit(members_and_aliases, backend="reference")
    weak = [weakref.ref(captured(X, Y)[0]) for _ in range(3)]
    gc.collect()
    assert [one() for one in weak] == [None, None, None]


def test_changes_of_the_library_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    captured = evalframe.jit(members_and_aliases, backend="reference")
    captured(X, Y)
    make = enum.EnumType.__new__

    def other_make(*arguments: Any, **keywords: Any) -> Any:
        made = make(*arguments, **keywords)
        type.__setattr__(made, "extra", 3)
        return made

    monkeypatch.setattr(enum.EnumType, "__new__", other_make)
    assert captured(X, Y)[0].extra == 3
    monkeypatch.undo()
    assert not hasattr(captured(X, Y)[0], "extra")


def test_what_the_body_reads_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    captured = evalframe.jit(members_and_aliases, backend="reference")
    captured(X, Y)

    class Other(auto):
        pass

    monkeypatch.setitem(globals(), "auto", Other)
    assert outcome(captured, X, Y) == outcome(members_and_aliases, X, Y)
    monkeypatch.setitem(globals(), "auto", lambda: 17)
    assert captured(X, Y)[1].value == 17
