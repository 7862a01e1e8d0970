"""What the standard library makes of classes and functions: keys of sorts, generic classes, typed dicts, named tuples, fractions."""

from __future__ import annotations

import enum
import fractions
import functools
import sys
from collections import namedtuple
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypedDict, TypeVar

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_behaves_as_plain, differential_tests, one_graph_tests, put_into
from test_jit_stand_ins import A, B, callers, note, told

CALLS = [(A, B), (B, A), (A[:3], B[:3]), (A, B)]
CASES: list[Callable[..., Any]] = []
BREAKING: list[Callable[..., Any]] = []
T = TypeVar("T")
U = TypeVar("U")
case = put_into(CASES)
breaking = put_into(BREAKING)  # those that aren't one graph


class Point(NamedTuple):
    a: Any
    b: Any = 2


Plain = namedtuple("Plain", "a b")


class Own(Point):
    def __iter__(self) -> Any:
        note("iterated")
        return iter((self.b, self.a))


class Options(TypedDict, total=False):
    gain: float
    name: str


class Box(Generic[T]):
    def __init__(self, item: T) -> None:
        self.item = item


class Slotted(Generic[T]):
    __slots__ = ("item",)

    def __init__(self, item: T) -> None:
        self.item = item


class Pair(Box[T], Generic[T, U]):
    def __class_getitem__(cls, key: Any) -> Any:
        note("asked")
        return super().__class_getitem__(key)


class Two(Generic[T, U]):
    made = 0


class Kind(enum.Enum):
    A = 1


class Base:
    def scaled(self, by: Any) -> Any:
        return by * 2

    @classmethod
    def make(cls) -> Any:
        return cls


class Middle(Base):
    def scaled(self, by: Any) -> Any:
        return by + 1


class Derived(Middle):
    def scaled(self, by: Any) -> Any:
        return super(Middle, self).scaled(by) + super(Derived, self).scaled(by)

    @classmethod
    def make(cls) -> Any:
        return super(Derived, cls).make()


def backwards(left: Any, right: Any) -> int:
    note(("compared", left, right))
    return right - left


@case
def keys_that_are_compared(a: Any, b: Any) -> Any:
    key = functools.cmp_to_key(lambda left, right: right - left)
    row = sorted([3, 1, 2], key=key)
    return a * row[0], row, max([1, 3, 2], key=key), min([1, 3, 2], key=key), key(1) < key(2), key(1) == key(1), key(2) >= key(1), key(1) != key(1), b


@breaking
def comparisons_in_their_order(a: Any, b: Any) -> Any:
    return a + 1, sorted([3, 1, 2, 5, 4], key=functools.cmp_to_key(backwards), reverse=True), b


@case
def keys_of_arrays(a: Any, b: Any) -> Any:
    row = sorted([(2, a), (1, b)], key=functools.cmp_to_key(lambda left, right: left[0] - right[0]))
    return row[0][1] - row[1][1]


@breaking
def keys_that_are_kept(a: Any, b: Any) -> Any:
    key = functools.cmp_to_key(backwards)
    low, high = key(1), key(2)
    c = a + b
    note("here")
    told = [low < high, low.obj, high.obj, c]
    for wrong in (lambda: key(), lambda: key(1, 2), lambda: low < 3, lambda: functools.cmp_to_key(3)(1) < functools.cmp_to_key(3)(2), lambda: key < low):
        try:
            told.append(wrong())
        except (TypeError, AttributeError) as error:
            told.append(type(error).__name__)
    return told, key(obj=3).obj, callable(key)


@breaking
def comparisons_that_fail(a: Any, b: Any) -> Any:
    def compare(left: Any, right: Any) -> Any:
        note((left, right))
        if left == 2:
            raise ValueError("two", callers())
        return None if right == 3 else 1

    told = []
    for row in ([1, 2], [1, 3, 2], [3, 1]):
        try:
            told.append(sorted(row, key=functools.cmp_to_key(compare)))
        except (ValueError, TypeError) as error:
            told.append((str(error), row))
    return told, a - b


@case
def named_tuples_made_anew(a: Any, b: Any) -> Any:
    point = Point(a, b)._replace(a=b)
    plain = Plain._make([a, b])._replace(b=a, a=1)
    table = point._asdict()
    return point, plain, type(point), list(table), table["a"], Point._make((a, b))[1], Point(a)._replace().b


@breaking
def named_tuples_that_are_wrong(a: Any, b: Any) -> Any:
    told: list[Any] = [Own(a, b)._replace(a=1), a + b]
    for wrong in (lambda: Point(1)._replace(c=1), lambda: Point._make([1]), lambda: Point._make(3), lambda: tuple.__new__(Point, [1], 2), lambda: tuple.__new__(list, [1])):
        try:
            told.append(wrong())
        except (TypeError, ValueError) as error:
            told.append(str(error))
    return told


@case
def items_taken_out_by_a_bound_method(a: Any, b: Any) -> Any:
    table = {"a": a, "b": b, "c": 3}
    take = table.pop
    first, missing = take("a"), take("d", 4)
    row = list(map(table.pop, ("b", "x"), (1, 2)))
    return first + row[0], missing, row[1], table


@breaking
def missing_item_taken_out(a: Any, b: Any) -> Any:
    take = {"a": a}.pop
    try:
        take("b")
    except KeyError as error:
        return str(error), b * 2


@case
def generic_classes(a: Any, b: Any) -> Any:
    box = Box[int](a)
    other = Box[str](b)
    same = Box[int] is Box[int]
    return box.item + other.item, box.__orig_class__ is Box[int], same, type(box) is Box, Two[int, str]().made


@case
def unions_that_are_made(a: Any, b: Any) -> Any:
    rows = list[tuple[int, ...] | None]
    other = None | dict[str, rows | int] | list[int]
    return a + b, rows, other


@breaking
def unions_that_are_none(a: Any, b: Any) -> Any:
    rows = list[int] | None
    told: list[Any] = [a + b, rows == list[int] | None, rows.__args__, len(rows.__args__)]
    for wrong in (lambda: list[int] | 3, lambda: 3 | list[int], lambda: list[int] | Kind, lambda: list[int] | "Box"):
        try:
            told.append(wrong())
        except TypeError as error:
            told.append(str(error))
    return told


@breaking
def generic_classes_of_all_kinds(a: Any, b: Any) -> Any:
    class Local(Generic[T]):
        def __init__(self, item: Any) -> None:
            self.item = item

    told: list[Any] = [Pair[int, str](a).item, Slotted[str](b).item, Local[int](b).item, list[int]([1]), dict[str, int](x=a), Box[Kind](a).item]
    for wrong in (lambda: Box[int, str], lambda: Two[int], lambda: Kind["B"], lambda: Base[int]):
        try:
            told.append(wrong())
        except (TypeError, KeyError) as error:
            told.append(str(error))
    return told


@case
def typed_dicts(a: Any, b: Any) -> Any:
    options = Options(gain=2.0)
    more = Options(options, name="x")
    return a * options["gain"] + b, more, type(options), Options()


@case
def explicit_super(a: Any, b: Any) -> Any:
    return Derived().scaled(a) + b, Derived.make() is Derived


@breaking
def explicit_super_that_is_wrong(a: Any, b: Any) -> Any:
    told: list[Any] = [a + b]
    for wrong in (lambda: super(Derived, Middle()).scaled(1), lambda: super(Derived, 3).scaled, lambda: super(Derived, Middle).make()):
        try:
            told.append(wrong())
        except TypeError:
            told.append("wrong")
    return told, super(Derived).__self__


@case
def rational_numbers(a: Any, b: Any) -> Any:
    f = fractions.Fraction(1, 3) + fractions.Fraction(1, 6)
    g = fractions.Fraction("3/4") * 2 - 1
    return a * float(f) + b * float(g), f.numerator, f.denominator, f > g, f == fractions.Fraction(1, 2), -f


@breaking
def rational_numbers_that_are_wrong(a: Any, b: Any) -> Any:
    f = fractions.Fraction(3, 4)
    told: list[Any] = [a + b, abs(-f), int(f * 5), str(f), round(f, 1), f**2, hash(f), {f: a}[fractions.Fraction(6, 8)], f + 0.5, f // 2]
    for wrong in (lambda: fractions.Fraction(1, 0), lambda: fractions.Fraction("x"), lambda: fractions.Fraction(1, 3) + "1"):
        try:
            told.append(wrong())
        except (TypeError, ValueError, ZeroDivisionError) as error:
            told.append(str(error))
    return told


test_behaves_as_plain_python, test_may_be_left_before_every_node = differential_tests(CASES + BREAKING, CALLS, told, left=CALLS[:2], nodes=12)
test_is_one_graph = one_graph_tests(CASES, (A, B))


def test_generic_class_of_which_typing_has_forgotten_the_item() -> None:
    def f(x: Any) -> Any:
        return Box[int](x).__orig_class__ is Box[int], x + 1

    captured = evalframe.jit(f, backend="reference")
    for _ in range(3):
        assert captured(1.0) == f(1.0)
        for clear in getattr(sys.modules["typing"], "_cleanups"):
            clear()


@pytest.mark.parametrize("row", [[3, 1, 2], [1.5, 0.5], []])
def test_rows_from_outside(row: Any) -> None:
    def f(x: Any, row: Any) -> Any:
        return x * 2, sorted(row, key=functools.cmp_to_key(lambda left, right: (left < right) - (left > right)))

    captured = evalframe.jit(f, backend="reference")
    for more in ([], [4], [9, 8]):
        assert repr(captured(np.ones(2), row + more)) == repr(f(np.ones(2), row + more))


class MySuper(super):
    def __init__(self, *args: Any) -> None:
        return super(MySuper, self).__init__(*args)


def test_super_of_a_class_that_inherits_from_it() -> None:
    def function(a: Any) -> Any:
        return repr(MySuper(dict)), a + 1

    check_behaves_as_plain(function, "reference", [(np.ones(2),)] * 3)
