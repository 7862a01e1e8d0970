"""Objects from outside the recorded code, made behind breaks: they end where they end in CPython, whatever the recording knows of them."""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_with_every_frame, differential_tests, put_into

A, B = np.arange(4.0), np.arange(4.0) * 2 - 3
CALLS = [(A, B), (B, A), (A, B)]
CASES: list[Callable[..., Any]] = []
case = put_into(CASES)
SEEN: weakref.WeakSet[Any] = weakref.WeakSet()
ENDED: list[str] = []
TABLE: dict[str, Any] = {}
ROWS: list[Any] = []


class Thing:
    def __init__(self, item: Any = None) -> None:
        self.item = item


class Kept:
    thing: Any = None


class Telling(Thing):
    def __del__(self) -> None:
        ENDED.append("ended")


def unknown(item: Any, kind: Any = Thing) -> Any:
    """Another object, which somebody watches, and of which a recording knows nothing."""
    sys.getrefcount(None)
    thing = kind(item)
    SEEN.add(thing)
    return thing


def first_of(*things: Any) -> Any:
    sys.getrefcount(None)
    return things[0]


def sum_of(thing: Any, y: Any) -> Any:
    return thing.item + y


@case
def value_of_a_weak_dictionary(x: Any, y: Any) -> Any:
    table: Any = weakref.WeakValueDictionary()
    thing = Thing(x)
    table["a"] = thing
    z = table["a"].item + y
    before = len(table)
    del thing
    return z, before, len(table), "a" in table


@case
def deleted(x: Any, y: Any) -> Any:
    thing = unknown(x)
    z, before = thing.item + y, len(SEEN)
    del thing
    return z, before, len(SEEN)


@case
def overwritten(x: Any, y: Any) -> Any:
    thing = unknown(x)
    z, before = thing.item + y, len(SEEN)
    thing = None
    return z, before, len(SEEN), thing


@case
def operand_alone(x: Any, y: Any) -> Any:
    z = unknown(x).item + y
    return z, len(SEEN), sum_of(unknown(y), x), len(SEEN)


@case
def local_of_a_call(x: Any, y: Any) -> Any:
    def inner() -> Any:
        thing = unknown(x)
        return thing.item + y

    return inner(), len(SEEN)


@case
def in_an_attribute(x: Any, y: Any) -> Any:
    box = Thing()
    box.item = unknown(x)
    z, before = box.item.item + y, len(SEEN)
    box.item = None
    return z, before, len(SEEN)


@case
def in_an_attribute_of_what_ends(x: Any, y: Any) -> Any:
    box = Thing()
    box.item = unknown(x)
    z, before = box.item.item + y, len(SEEN)
    del box
    return z, before, len(SEEN)


@case
def held_twice(x: Any, y: Any) -> Any:
    box = Thing()
    box.item = unknown(x)
    thing = box.item
    z = thing.item + y
    told = [len(SEEN)]
    del box
    told.append(len(SEEN))
    del thing
    return z, told, len(SEEN)


@case
def in_containers(x: Any, y: Any) -> Any:
    row, pair, table = [unknown(x)], (unknown(y), 1), {"a": unknown(x)}
    z = row[0].item + pair[0].item * table["a"].item
    told = [len(SEEN)]
    row.clear()
    told.append(len(SEEN))
    pair = (None, 0)
    told.append(len(SEEN))
    table["a"] = None
    return z, told, len(SEEN), pair


@case
def in_containers_from_outside(x: Any, y: Any) -> Any:
    ROWS.append(unknown(x))
    TABLE["a"] = [unknown(y)]
    z = ROWS[0].item + TABLE["a"][0].item
    told = [len(SEEN)]
    ROWS.pop()
    told.append(len(SEEN))
    TABLE["a"] = 0
    return z, told, len(SEEN)


@case
def in_starred_arguments(x: Any, y: Any) -> Any:
    return sum_of(first_of(unknown(x)), y), len(SEEN), first_of(unknown(y)).item * x, len(SEEN)


@case
def in_a_cell(x: Any, y: Any) -> Any:
    thing = unknown(x)

    def inner() -> Any:
        return thing.item + y

    z, before = inner(), len(SEEN)
    del inner
    thing = None
    return z, before, len(SEEN)


@case
def in_a_generator(x: Any, y: Any) -> Any:
    def steps() -> Any:
        thing = unknown(x)
        yield thing.item + y
        del thing
        yield len(SEEN)

    return list(steps()), len(SEEN)


@case
def in_a_loop(x: Any, y: Any) -> Any:
    told = []
    for _ in range(3):
        thing = unknown(x)
        told += [thing.item + y, len(SEEN)]
    del thing
    return told, len(SEEN)


@case
def in_an_exception(x: Any, y: Any) -> Any:
    try:
        thing = unknown(x)
        z = thing.item + y
        raise ValueError(thing)
    except ValueError as error:
        told = [len(SEEN), error.args[0] is thing]
    del thing
    return z, told, len(SEEN)


@case
def by_bound_method(x: Any, y: Any) -> Any:
    method = unknown(x).__eq__
    z, before = x + y, len(SEEN)
    method = None
    return z, before, len(SEEN), method


@case
def finaliser(x: Any, y: Any) -> Any:
    ENDED.clear()
    thing = Telling(x)
    z = thing.item + y
    del thing
    return z, list(ENDED), sum_of(Telling(y), x), list(ENDED)


@case
def several_at_once(x: Any, y: Any) -> Any:
    told: list[int] = []

    def inner() -> Any:
        things = unknown(x), unknown(y), unknown(x)
        for i, thing in enumerate(things):
            weakref.finalize(thing, told.append, i)
        first, second, third = things
        return first.item + second.item * third.item

    return inner(), told, len(SEEN)


@case
def callback_that_finds_its_line(x: Any, y: Any) -> Any:
    lines: list[int] = []
    thing = unknown(x)
    refs = [weakref.ref(thing, lambda _: lines.append(sys._getframe(1).f_lineno))]
    z = thing.item + y
    del thing
    return z, lines, len(refs)


@case
def reference_with_callback(x: Any, y: Any) -> Any:
    told: list[Any] = []
    thing = unknown(x)
    ref = weakref.ref(thing, lambda ref: told.append(ref()))
    z = thing.item + y
    before = ref() is thing
    thing = unknown(y)
    return z + thing.item, before, told, ref(), len(SEEN)


@case
def function_that_was_called(x: Any, y: Any) -> Any:
    def inner(value: Any) -> Any:
        return value + y

    ref = weakref.ref(inner)
    sys.getrefcount(None)
    z = inner(x)
    del inner
    return z, ref() is None


@case
def array_with_a_view(x: Any, y: Any) -> Any:
    array = x + 1
    ref = weakref.ref(array)
    view = array[1:]
    del array
    z, before = view + 1, ref() is not None
    del view
    return z, before, ref() is None


@case
def as_data_of_a_class(x: Any, y: Any) -> Any:
    ENDED.clear()
    told = []
    for make in (lambda: unknown(x), lambda: [unknown(y)], lambda: Telling(x), lambda: {"k": Telling(y)}):
        Kept.thing = make()
        thing = Kept.thing
        z = (thing[0] if type(thing) is list else thing["k"] if type(thing) is dict else thing).item + y
        told.append((z, len(SEEN), len(ENDED)))
        del thing
        Kept.thing = None
        told.append((len(SEEN), len(ENDED)))
    return told


@case
def argument_that_the_callee_lets_go(x: Any, y: Any) -> Any:
    def lets_go(thing: Any, *, other: Any = None) -> Any:
        z = thing.item + y
        del thing
        return z, len(SEEN), other

    told = [lets_go(unknown(x))]
    if x[0] < 100:
        told += [lets_go(unknown(y)), lets_go(thing=unknown(y)), lets_go(unknown(x), other=1)]
    return told, len(SEEN)


@case
def counts_behind_an_exit(x: Any, y: Any) -> Any:
    def count(row: Any) -> int:
        return sys.getrefcount(row)

    row = [x]
    if x[0] > 100:
        return x
    told = [count(row), count(row=row), *map(count, [row]), max([row], key=count) is row]
    return x[0] + y[0], told, sys.getrefcount(row)


@case
def stored_and_read_at_once(x: Any, y: Any) -> Any:
    first = unknown(x)
    second = unknown(y)
    z = first.item + second.item
    told = [len(SEEN)]
    first, second = y, x
    told.append(len(SEEN))
    third = unknown(x)
    z = z + third.item
    third = z
    fourth = third + len(SEEN)
    for first in (unknown(x), unknown(y), y):
        if first is not y:
            z = z + first.item
        second = first
        told.append(len(SEEN))
    return z, told, fourth, second, len(SEEN)


@case
def that_lives_on(x: Any, y: Any) -> Any:
    thing = unknown(x)
    kept = [thing]
    z = thing.item + y
    del thing
    told = [len(SEEN)]
    kept.append(len(SEEN))
    del kept
    return z, told, len(SEEN)


test_behaves_as_plain_python, test_may_be_left_before_every_node = differential_tests(CASES, CALLS, left=CALLS[:2], nodes=8)


def test_break_is_told() -> None:
    captured = evalframe.jit(deleted)
    captured(A, B)
    reasons = [(found["reason"], found["detail"]) for found in _core.jit_breaks(captured)]
    assert ("an object is let go whose end is told", "Thing") in reasons


def test_later_calls_are_served() -> None:
    captured = evalframe.jit(deleted, backend="reference")
    captured(A, B)
    recordings = _core.jit_counters(captured)["recordings"]
    assert [same[1:] for same in (captured(A, B), captured(B, A))] == [(1, 0), (1, 0)]
    assert _core.jit_counters(captured)["recordings"] == recordings


def test_what_nobody_watches_ends_no_graph() -> None:
    def made(x: Any) -> Any:
        sys.getrefcount(None)
        return Thing([x])

    def function(x: Any, y: Any) -> Any:
        thing = made(x)
        z = thing.item[0] + y
        del thing
        return z * 2

    captured = evalframe.jit(function)
    captured(A, B)
    assert [found["reason"] for found in _core.jit_breaks(captured)] == ["call of a function that may do anything"]


def test_watching_many_goes_through_the_recording_once_an_instruction() -> None:
    def seconds(count: int) -> float:
        things = [Thing(float(item)) for item in range(count)]
        told = [weakref.ref(thing) for thing in things]
        names: dict[str, Any] = {}
        body = "".join(f"    x = x + things[{place}].item\n" for place in range(count))
        exec(f"def program(things, x):\n{body}    return x\n", names)
        program = evalframe.jit(names["program"], backend="reference")
        start = time.process_time()
        z = program(things, A)
        passed = time.process_time() - start
        assert np.array_equal(z, A + sum(range(count)))
        assert all(thing() is not None for thing in told)
        return passed

    # A walk for each of the watched took four hundred times as long.
    assert min(seconds(800) for _ in range(2)) < 100 * min(seconds(100) for _ in range(2)) + 0.02


def telling_of(how: str, told: list[float], a: Any) -> Any:
    """Something whose end is told of, with what `a` holds then."""

    class Tells:
        def __del__(self) -> None:
            told.append(float(a[1, 0]))

    def generator() -> Any:
        try:
            yield 1
        finally:
            told.append(float(a[1, 0]))

    if how == "generator":
        suspended = generator()
        next(suspended)
        return suspended
    array = a[0] * 1.0
    if how == "array":
        weakref.finalize(array, lambda: told.append(float(a[1, 0])))
        return array
    return Tells() if how == "object" else [1, Tells()] if how == "list" else 1.5


@pytest.mark.parametrize("natively", [False, True])
@pytest.mark.parametrize("how", ["array", "object", "list", "generator", "number"])
def test_what_a_variable_had_ends_before_what_comes_behind(how: str, natively: bool, request: pytest.FixtureRequest) -> None:
    """The turn was recorded where the variable had something else, of whose end nobody is told."""

    def stepped(a: Any, told: list[float], n: int) -> None:
        for kind in ("number", how, how):
            row = telling_of(kind, told, a)
            for i in range(n):
                row = a[i % 4] * 0.5
                a[(i + 1) % 4] += row

    if natively:
        request.getfixturevalue("native_loops_at_once")
    captured = evalframe.jit(stepped)
    for n in (20, 20, 1, 0, 20):
        plain = np.random.default_rng(n).random((4, 5))
        ours = plain.copy()
        heard: list[float] = []
        also: list[float] = []
        stepped(plain, heard, n)
        captured(ours, also, n)
        assert heard == also and (plain == ours).all()
    assert _core.jit_counters(captured)["served" if not natively else "native_turns"] > 20


def test_of_every_frame() -> None:
    for function in (deleted, operand_alone, in_containers, in_a_generator, finaliser):
        check_with_every_frame(function, CALLS)
