"""Operators and other protocols of the program's classes: followed, and as in plain Python wherever the graph is left."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import enum
import functools
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_behaves_as_plain, check_may_be_left, outcome, same

A = np.linspace(-1.0, 2.0, 12)
B = np.arange(12.0) - 3
TOLD: list[str] = []


class Money:
    def __init__(self, amount):
        self.amount = amount

    def __add__(self, other):
        scaled = self.amount * 2
        if not isinstance(other, Money):
            return NotImplemented
        return Money(scaled / 2 + other.amount)

    def __radd__(self, other):
        shifted = self.amount + 1
        return Money(shifted + other - 1)

    def __sub__(self, other):
        return NotImplemented

    def __rsub__(self, other):
        doubled = self.amount * 2
        return NotImplemented if isinstance(other, str) else doubled

    def __iadd__(self, other):
        bigger = self.amount + 3
        if isinstance(other, float):
            return NotImplemented
        self.amount = bigger + other.amount
        return self

    def __eq__(self, other):
        if not isinstance(other, Money):
            return NotImplemented
        return self.amount.sum() * 0 == 0

    def __lt__(self, other):
        TOLD.append("lt")
        return len(self.amount) < other if isinstance(other, int) else NotImplemented

    def __gt__(self, other):
        TOLD.append("gt")
        return NotImplemented

    __hash__ = None

    def __len__(self):
        half = self.amount * 0.5
        return len(half)

    def __bool__(self):
        twice = self.amount * 2
        return twice.ndim == 1

    def __contains__(self, item):
        near = self.amount - item
        return near.ndim

    def __call__(self, by, *, plus=0):
        return self.amount * by + plus

    def __getitem__(self, key):
        return self.amount[key] * 2

    def __setitem__(self, key, value):
        changed = self.amount.copy()
        changed[key] = value
        self.amount = changed

    def __delitem__(self, key):
        self.amount = self.amount * 3

    def __iter__(self):
        half = self.amount / 2
        return iter((half, self.amount))

    def __repr__(self):
        shape = (self.amount * 2).shape
        return f"Money{shape}"

    def __format__(self, spec):
        return f"{len(self.amount * 2)}:{spec}"

    def __index__(self):
        return (self.amount * 2).ndim

    def __neg__(self):
        return Money(-self.amount)

    def __matmul__(self, other):
        return self.amount @ other.amount

    def __getattr__(self, name):
        doubled = self.amount * 2
        if name == "none":
            raise AttributeError(name)
        return doubled


class Cents(Money):
    def __radd__(self, other):
        return Money(self.amount * 100 + getattr(other, "amount", 0))

    def __gt__(self, other):
        TOLD.append("cents gt")
        return NotImplemented if other is None else self.amount.ndim == 1


class Wrong:
    def __len__(self):
        return -1

    def __bool__(self):
        return 1

    def __repr__(self):
        return 3

    def __index__(self):
        return "one"

    def __iter__(self):
        return 5

    def __contains__(self, item):
        raise KeyError(item)

    def __hash__(self):
        return 2**70


class Plain:
    pass


class Watched:
    def __init__(self):
        object.__setattr__(self, "names", [])
        self.gain = 2

    def __setattr__(self, name, value):
        self.names.append(name)
        doubled = value * 2
        super().__setattr__(name, doubled)

    def __delattr__(self, name):
        self.names.append("-" + name)
        object.__delattr__(self, name)

    def __getattribute__(self, name):
        return object.__getattribute__(self, name)


class Scaled:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner):
        return self if instance is None else getattr(instance, self.name) * 2

    def __set__(self, instance, value):
        halved = value / 2
        setattr(instance, self.name, halved)

    def __delete__(self, instance):
        delattr(instance, self.name)


class Describing:
    field = Scaled()

    def __init__(self, value):
        self.field = value

    @property
    def shown(self):
        return self.field + 1

    @shown.setter
    def shown(self, value):
        scaled = value * 3
        self.field = scaled
        return "dropped"

    @shown.deleter
    def shown(self):
        del self.field


WATCHED = Watched()


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@functools.total_ordering
class Ranked:
    def __init__(self, rank):
        self.rank = rank

    def __eq__(self, other):
        return self.rank == other.rank

    def __lt__(self, other):
        return self.rank < other.rank


def left_operator(x, y):
    return (Money(x) + Money(y)).amount * y


def reflected_behind_not_implemented(x, y):
    return (Money(x) + 5).amount + (5 + Money(y)).amount


def subclass_first(x, y):
    return (Money(x) + Cents(y)).amount + (Cents(x) + Money(y)).amount


def nobody_can(x, y):
    z = x + y
    return Money(z) - 3


def nobody_can_reflected(x, y):
    z = x + y
    return "a" - Money(z)


def reflected_only(x, y):
    return 3 - Money(x) + y


def handled_error(x, y):
    z = x * 2
    try:
        z = Money(z) - Money(y)
    except TypeError as error:
        z = z * len(str(error))
    return z - y


def in_place(x, y):
    money = Money(x)
    money += Money(y)
    before = money
    money += 2.0
    return before.amount + money.amount


def equalities(x, y):
    a, b = Money(x), Money(y)
    return x * 2 if a == b and not a != b and a != 3 and not a == "a" else y


def plain_equalities(x, y):
    a, b = Plain(), Plain()
    return x * 2 if a == a and a != b and not a == 3 and not None == a else y  # noqa: E711


def orders(x, y):
    TOLD.clear()
    z = x * 2
    first = Money(x) < 20
    second = 20 > Money(z)
    try:
        third = Money(x) < Money(y)
    except TypeError as error:
        third = str(error)
    return z + first + second, third, list(TOLD)


def subclass_orders(x, y):
    TOLD.clear()
    z = x + y
    return (Money(z) < Cents(y)), list(TOLD), z * 2


def truths(x, y):
    a = Money(x)
    z = x * 2 if a else y
    z = z if not a else z + 1
    z = z * 2 if bool(a) else z
    while a:
        z = z + 1
        if z.ndim:
            break
    return z, a and 3, a or 4


def lengths(x, y):
    z = x + y
    return z * len(Money(z)), len(Money(y)) + 1


def memberships(x, y):
    a = Money(x)
    return x * 2 if 3 in a and not 4 not in a else y


def items(x, y):
    a = Money(x)
    a[0] = 5.0
    z = a[1] + y
    del a[3]
    return z + a[0], a.amount


def slices(x, y):
    a = Money(x)
    a[1:3] = 7.0
    return a[1:3], y * 2


def called(x, y):
    return Money(x)(3) + Money(y)(2, plus=x)


def unpacked(x, y):
    a, b = Money(x)
    return a * 2 + b - y


def texts(x, y):
    a = Money(x)
    z = x + y
    return f"{a} {a!r} {a:>9} {a!s}", repr(a), str(a), format(a, "wide"), format(a), z


def indexes(x, y):
    return (10, 20, 30)[Money(x)] * y


def negated(x, y):
    return (-Money(x)).amount + (Money(x) @ Money(y))


def fallback(x, y):
    a = Money(x)
    return a.anything + a.amount * y


def fallback_raises(x, y):
    z = x * 2
    try:
        z = z + Money(y).none
    except AttributeError:
        z = z - 1
    return z


def total_ordering(x, y):
    return x * 2 if Ranked(3) >= Ranked(2) and Ranked(2) <= Ranked(3) and Ranked(3) > Ranked(2) else y


def wrong_length(x, y):
    return (x + y) * len(Wrong())


def wrong_truth(x, y):
    return (x + y) * 2 if Wrong() else y


def wrong_text(x, y):
    return (x + y) * len(repr(Wrong()))


def wrong_index(x, y):
    return (x + y) * (1, 2)[Wrong()]


def wrong_iterator(x, y):
    a, b = Wrong()
    return (x + y) * a


def raising_membership(x, y):
    z = x + y
    try:
        return z if 3 in Wrong() else y
    except KeyError as error:
        return z * error.args[0]


def large_hash(x, y):
    return (x + y), hash(Wrong())


def enums(x, y):
    z = x * Color.RED.value + Level.HIGH.value
    return z if Color.RED == Color.RED and Color.RED != Color.BLUE and Color.BLUE != 2 else y


def by_name(x, y):
    made = Describing(x)
    setattr(made, "extra", y)
    z = getattr(made, "field") + getattr(made, "missing", 3) + made.extra
    got = setattr(made, "shown", x)
    return z + getattr(made, "shown"), got, hasattr(made, "extra"), hasattr(made, "other")


def deleted_by_name(x, y):
    made = Describing(x)
    z = made.field * 2
    made.extra = z
    delattr(made, "extra")
    got = delattr(made, "shown")
    try:
        z = z + made.field
    except AttributeError as error:
        return z, got, str(error), error.name
    return z


def watched(x, y):
    made = Watched()
    made.a = x + 1
    z = made.a * len(made.names)
    del made.a
    return z + y, made.names, hasattr(made, "a")


def watched_outside(x, y):
    z = x + y
    WATCHED.last = z
    z = WATCHED.last * 2
    del WATCHED.names[1:]
    return z, WATCHED.names


def missing_by_name(x, y):
    z = x * 2
    try:
        z = z + getattr(Plain(), "missing")
    except AttributeError as error:
        return z, str(error), type(error.obj).__name__, error.name
    return z


def classes_of_objects(x, y):
    made = Describing(x)
    z = made.field * len(made.__class__.__name__) + len(Describing.__mro__)
    return z, made.__class__ is Describing, type(made).__name__, Describing.__base__ is object


def released_in_order(x, y):
    TOLD.clear()

    class Noted:
        def __init__(self, name):
            self.name = name

        def __add__(self, other):
            return x * 2

        def __del__(self):
            TOLD.append(self.name)

    z = Noted("left") + Noted("right")
    return z + y, list(TOLD)


class Noting:
    def __init__(self, value, log):
        self.value, self.log = value, log

    def __eq__(self, other):
        self.log.append((self.value, getattr(other, "value", other)))
        return self.value == getattr(other, "value", other)


def rows_of_instances(x, y):
    log = []
    a, b, c = (Noting(value, log) for value in (1, 2, 3))
    z = x + y
    found = [a, b] == [a, c], [a, b] != [Noting(1, log), Noting(2, log)], (a, b, c) == (a, b), (a, b) != (a, c), [a] == [a, b], [] == [a]
    return z, found, [1, b] == [1, Noting(2, log)], [[a], (b, 3)] == [[a], (Noting(2, log), 3)], [a] == (a,), log


def rows_in_themselves(x, y):
    log = []
    a, b = [Noting(1, log)], [Noting(1, log)]
    a.insert(0, a)
    same = a == [a, Noting(1, log)]
    b.insert(0, b)
    try:
        return x + y, same, a == b
    except RecursionError:
        return x - y, same, log


def shapes_and_instances(x, y):
    log = []
    return x + y, x.shape == y.shape, [x.shape, Noting(1, log)] == [y.shape, Noting(1, log)], log


def rows_that_raise(x, y):
    class Raises:
        def __eq__(self, other):
            raise KeyError(len(found))

    found = [x + y]
    try:
        found.append([1, Raises()] == [1, Raises()])
    except KeyError as error:
        found.append(str(error))
    return found


FUNCTIONS = [value for name, value in list(globals().items()) if getattr(value, "__code__", None) and value.__code__.co_varnames[:2] == ("x", "y")]
CALLS: list[tuple[Any, ...]] = [(A, B), (A, B), (B, A), (A[:5], B[:5]), (A, B)]
SINGLE = ["left_operator", "reflected_only", "plain_equalities", "lengths", "memberships",
          "called", "unpacked", "indexes", "negated", "fallback", "total_ordering", "enums", "by_name", "classes_of_objects", "missing_by_name", "rows_of_instances"]  # fmt: skip


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_behaves_as_plain_python(function, backend):
    check_behaves_as_plain(function, backend, CALLS)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_may_be_left_anywhere(function):
    check_may_be_left(function, "reference", CALLS[:3], nodes=12)


@pytest.mark.parametrize("name", SINGLE)
def test_is_one_graph(name):
    captured = evalframe.jit(globals()[name], backend="reference")
    captured(A, B)
    assert _core.jit_counters(captured)["recordings"] == 1, _core.jit_breaks(captured)


class Whole(int):
    """A number that has little to say of itself: what it leaves open, int's own methods answer."""

    def __lt__(self, other):
        TOLD.append("lt")
        return NotImplemented

    def __eq__(self, other):
        TOLD.append("eq")
        return NotImplemented

    __hash__ = int.__hash__

    def __radd__(self, other):
        TOLD.append("radd")
        return NotImplemented


class Word(str):
    def __gt__(self, other):
        TOLD.append("gt")
        return NotImplemented

    def __rmod__(self, other):
        TOLD.append("rmod")
        return NotImplemented


@pytest.mark.parametrize(
    "program",
    [
        lambda x, w, s: (x + 1, 8 > w, 2.5 > w, w < 8),
        lambda x, w, s: (x + 1, 3 == w, w == 3, 3.0 == w, w != 4),
        lambda x, w, s: (x + 1, 8 + w, 1.5 + w, w + 1),
        lambda x, w, s: (x + 1, "a" < s, s > "a", "%s" % s),
    ],
)
def test_instances_that_builtin_operators_know(program):
    for backend in ("reference", "native"):
        captured = evalframe.jit(program, backend=backend)
        for _ in range(3):
            TOLD.clear()
            expected = outcome(program, np.ones(3), Whole(3), Word("b"))
            told = list(TOLD)
            TOLD.clear()
            assert same(outcome(captured, np.ones(3), Whole(3), Word("b")), expected)
            assert told == TOLD
