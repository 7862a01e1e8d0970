"""Objects of the recorded code's end where they end in CPython: weak references to them, and reference counts, tell."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from helpers import check_with_every_frame, differential_tests, one_graph_tests, put_into

A, B = np.arange(4.0), np.arange(4.0) * 2 - 3
CALLS = [(A, B), (B, A), (A, B)]
CASES: list[Callable[..., Any]] = []
BREAKING: list[Callable[..., Any]] = []
case = put_into(CASES)
breaking = put_into(BREAKING)  # those that aren't one graph
ENDED: list[str] = []


class Thing:
    def __init__(self, item: Any = None) -> None:
        self.item = item

    def held_by(self) -> Any:
        return weakref.ref(self)


class Slotted:
    __slots__ = ("item",)


class Telling(Thing):
    def __del__(self) -> None:
        ENDED.append("ended")


@case
def local_that_is_deleted(x: Any, y: Any) -> Any:
    thing = Thing(x)
    ref = weakref.ref(thing)
    before = ref() is thing
    z = ref().item + y
    del thing
    return z, before, ref() is None


@case
def local_that_is_overwritten(x: Any, y: Any) -> Any:
    thing = Thing(x)
    ref = weakref.ref(thing)
    other = thing
    thing = Thing(y)
    first = ref() is other
    other = thing
    return x + y, first, ref()


@case
def temporary(x: Any, y: Any) -> Any:
    return x + y, weakref.ref(Thing(x))() is None, Thing(y).held_by()() is None


@case
def of_a_callee(x: Any, y: Any) -> Any:
    def makes(given: Any) -> Any:
        thing = Thing(given)
        return weakref.ref(thing), thing.item * 2

    ref, z = makes(x)
    return z + y, ref() is None


@case
def in_a_container(x: Any, y: Any) -> Any:
    row = [Thing(x), Thing(y)]
    refs = [weakref.ref(thing) for thing in row]
    told = [ref() is not None for ref in refs]
    row.pop()
    told += [ref() is not None for ref in refs[:1]]
    z = refs[0]().item * 2
    row.clear()
    return z, told, refs[0]()


@case
def of_a_local_function(x: Any, y: Any) -> Any:
    def inner(a: Any) -> Any:
        return a + y

    ref = weakref.ref(inner)
    z = ref()(x)
    del inner
    return z, ref() is None


@case
def reference_is_one_object(x: Any, y: Any) -> Any:
    thing = Thing(x)
    return weakref.ref(thing) is weakref.ref(thing), thing.item + y


@breaking
def given_out(x: Any, y: Any) -> Any:
    thing, gone = Thing(x), Thing(y)
    refs = weakref.ref(thing), weakref.ref(gone)
    del gone
    z = x + y
    return z, refs[0]() is thing, refs[1]() is None, [ref().item for ref in refs if ref()]


@breaking
def slots_without_references(x: Any, y: Any) -> Any:
    thing = Slotted()
    thing.item = x  # type: ignore[attr-defined]
    try:
        weakref.ref(thing)
    except TypeError as error:
        return x + y, str(error)


@breaking
def with_a_callback(x: Any, y: Any) -> Any:
    told: list[Any] = []
    thing = Thing(x)
    ref = weakref.ref(thing, lambda ref: told.append(ref() is None))
    z = x * 2
    del thing
    told.append("behind")
    return z + y, told, ref()


@breaking
def with_a_finaliser(x: Any, y: Any) -> Any:
    ENDED.clear()
    thing = Telling(x)
    ref = weakref.ref(thing)
    z = ref().item + y
    del thing
    ENDED.append("behind")
    return z, list(ENDED), ref()


@breaking
def finalised(x: Any, y: Any) -> Any:
    told: list[Any] = []
    thing = Thing(x)
    weakref.finalize(thing, told.append, 3)
    z = x + y
    del thing
    told.append(4)
    return z, told


@case
def counts(x: Any, y: Any) -> Any:
    row = [x]
    told = [sys.getrefcount(row)]
    other, table, thing = row, {"row": row}, Thing(row)
    told.append(sys.getrefcount(row))
    del other
    table.clear()
    told += [sys.getrefcount(row), sys.getrefcount(table), sys.getrefcount(thing), sys.getrefcount([x])]
    thing.item = None
    z = row[0] + y
    return z, told, sys.getrefcount(row)


@case
def counts_of_what_is_held_in_a_loop(x: Any, y: Any) -> Any:
    told = []
    for row in ([x], [y]):
        pair = (row, row)
        told.append(sys.getrefcount(row))
        del pair
        told.append(sys.getrefcount(row))
    return x + y, told


@breaking
def counts_of_arguments(x: Any, y: Any) -> Any:
    z = x + y
    return sys.getrefcount(z) < 10


test_behaves_as_plain_python, test_may_be_left_before_every_node = differential_tests(CASES + BREAKING, CALLS, left=CALLS[:2], nodes=8)
test_is_one_graph = one_graph_tests(CASES, (A, B))


def test_reference_that_a_call_gives_out() -> None:
    def function(x: Any, y: Any) -> Any:
        thing, gone = Thing(x), Thing(y)
        refs = weakref.ref(thing), weakref.ref(gone)
        return [thing, *refs]

    def told(function: Any, *arguments: Any) -> Any:
        thing, first, second = function(*arguments)
        return first() is thing, second() is None, first.__callback__

    check_with_every_frame(function, CALLS, told)
