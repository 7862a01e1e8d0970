"""Generators that recorded code makes: their frames are recorded like those of calls, and made again where a graph is left."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_behaves_as_plain, check_may_be_left, leaving_before, put_into, same

A = np.linspace(-1.0, 2.0, 6)
B = np.arange(6.0) - 3
CALLS = [(A, B), (B, A), (A, B)]

SEEN: list[Any] = []
CASES: list[Callable[..., Any]] = []
case = put_into(CASES)


def told(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a call comes to, with all of its exception, and what it noted in SEEN."""
    SEEN.clear()
    try:
        came: Any = ("value", function(*arguments))
    except Exception as error:
        came = ("raised", told_of(error))
    return came, list(SEEN)


def told_of(error: BaseException | None) -> Any:
    if error is None:
        return None
    own = ("told", "check_behaves_as_plain")
    lines = [(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__) if frame.name not in own]
    return type(error), str(error), lines, told_of(error.__context__), told_of(error.__cause__)


def note(value: Any) -> None:
    """A call that no recording can have in it."""
    SEEN.append(eval("value", {"value": value}))


def scaled(a: Any, times: int) -> Any:
    for i in range(times):
        yield a * i


def with_finally(a: Any) -> Any:
    try:
        yield a
        yield a + 1
    finally:
        note("finally")


@case
def loop(a: Any, b: Any) -> Any:
    z = b
    for part in scaled(a, 3):
        z = z + part
    return z


@case
def loop_with_break_in_the_body(a: Any, b: Any) -> Any:
    z = b
    for part in scaled(a, 4):
        note(float(part[0]))
        z = z + part
    return z


@case
def break_inside_of_the_generator(a: Any, b: Any) -> Any:
    def noting() -> Any:
        for i in range(3):
            c = a * i
            note(i)
            yield c + 1

    z = b
    for part in noting():
        z = z + part
    return z


@case
def branch_on_data_inside(a: Any, b: Any) -> Any:
    def positive() -> Any:
        for i in range(4):
            c = a * i - b
            if c.sum() > 0:
                yield c

    z = b
    for part in positive():
        z = z + part
    return z


@case
def exception_inside_is_caught_inside(a: Any, b: Any) -> Any:
    def careful() -> Any:
        for i in range(3):
            try:
                if i == 1:
                    raise ValueError(i)
                yield a * i
            except ValueError as error:
                note(str(sys.exc_info()[1]))
                yield b * len(error.args)

    z = b
    for part in careful():
        z = z + part
    return z


@case
def handled_in_the_generator_and_around(a: Any, b: Any) -> Any:
    def inner() -> Any:
        note(repr(sys.exc_info()[1]))
        try:
            raise KeyError("inside")
        except KeyError:
            yield a + 1
            note(repr(sys.exc_info()[1]))
            yield a + 2
        note(repr(sys.exc_info()[1]))
        yield a + 3

    z = b
    try:
        raise ValueError("outside")
    except ValueError:
        for part in inner():
            z = z + part
            note(repr(sys.exc_info()[1]))
    note(repr(sys.exc_info()[1]))
    return z


@case
def context_of_what_is_raised_in_a_handler_in_a_generator(a: Any, b: Any) -> Any:
    def inner() -> Any:
        yield a * 2
        try:
            raise KeyError("first")
        except KeyError:
            yield a * 3
            raise LookupError("second")

    z = b
    try:
        for part in inner():
            z = z + part
    except LookupError as error:
        note(told_of(error))
    return z


@case
def raised_out_of_two_generators(a: Any, b: Any) -> Any:
    def inner() -> Any:
        yield a + 1
        raise RuntimeError("inner")

    def outer() -> Any:
        for part in inner():
            yield part * 2

    z = b
    for part in outer():
        z = z + part
    return z


@case
def raised_out_of_a_delegation(a: Any, b: Any) -> Any:
    def inner() -> Any:
        yield a + 1
        raise RuntimeError("inner")

    def outer() -> Any:
        yield b
        yield from inner()

    z = b
    try:
        for part in outer():
            z = z + part
    except RuntimeError as error:
        note(told_of(error))
    return z


@case
def node_raises_inside(a: Any, b: Any) -> Any:
    def inner() -> Any:
        yield a + 1
        try:
            yield a + b[:2]
        except ValueError:
            yield a + 2

    z = b
    for part in inner():
        z = z + part
    return z


@case
def node_raises_in_a_handler_inside(a: Any, b: Any) -> Any:
    def inner() -> Any:
        yield a + 1
        try:
            raise KeyError(1)
        except KeyError:
            yield a + b[:2]

    z = b
    for part in inner():
        z = z + part
    return z


@case
def stop_iteration_inside(a: Any, b: Any) -> Any:
    def inner() -> Any:
        yield a + 1
        raise StopIteration(3)

    z = b
    for part in inner():
        z = z + part
    return z


@case
def left_in_a_try(a: Any, b: Any) -> Any:
    z = b
    for part in with_finally(a):
        z = z + part
        break
    note("behind the loop")
    return z * 2


@case
def left_in_a_try_by_return(a: Any, b: Any) -> Any:
    for part in with_finally(a):
        return part + b
    return b


@case
def left_in_a_try_in_a_variable(a: Any, b: Any) -> Any:
    steps = with_finally(a)
    z = b
    for part in steps:
        z = z + part
        break
    steps = None
    note("let go")
    return z + a


@case
def left_in_a_try_to_the_end(a: Any, b: Any) -> Any:
    steps = with_finally(a)
    z = b
    for part in steps:
        z = z + part
        break
    return z + a


@case
def left_in_a_try_of_a_callee(a: Any, b: Any) -> Any:
    def first() -> Any:
        steps = with_finally(a)
        for part in steps:
            c = part * 2
            break
        return c

    z = first() + b
    note("behind")
    return z * 2


@case
def taken_up_again(a: Any, b: Any) -> Any:
    steps = scaled(a, 5)
    z = b
    for part in steps:
        z = z + part
        break
    z = z * 2
    for part in steps:
        z = z - part
    for part in steps:
        z = z * 100
    return z


@case
def taken_up_behind_a_break(a: Any, b: Any) -> Any:
    steps = scaled(a, 4)
    z = b
    for part in steps:
        z = z + part
        break
    note("break")
    for part in steps:
        z = z - part
    return z


@case
def returned(a: Any, b: Any) -> Any:
    def make() -> Any:
        return scaled(a, 3)

    z = b + 1
    rows = make()
    note(list(rows))
    return z


@case
def given_away(a: Any, b: Any) -> Any:
    rows = {"steps": scaled(a, 3), "again": None}
    rows["again"] = rows["steps"]
    for part in rows["steps"]:
        z = b + part
        break
    note(rows["steps"] is rows["again"])
    return z + sum(rows["again"]) + len(list(rows["steps"]))


@case
def holds_itself(a: Any, b: Any) -> Any:
    def steps() -> Any:
        yield a + 1
        note(me is not None)
        yield a + 2

    me = steps()
    z = b
    for part in me:
        z = z + part
    return z


@case
def frames_that_are_seen(a: Any, b: Any) -> Any:
    def names() -> Any:
        frame = sys._getframe()
        found = []
        while frame and frame.f_code.co_name != "told":
            found.append((frame.f_code.co_name, frame.f_lineno))
            frame = frame.f_back
        return found

    def inner() -> Any:
        yield a + 1
        note(names())
        yield a + 2

    def outer() -> Any:
        yield from inner()

    z = b
    for part in outer():
        z = z + part
    return z


@case
def what_a_generator_tells_of_itself(a: Any, b: Any) -> Any:
    def steps() -> Any:
        note(me.gi_running)
        c = yield a + 1
        note((c, me.gi_frame.f_locals["c"]))
        yield a + 2

    me = steps()
    note((me.gi_frame.f_lasti, me.gi_running, me.__name__, me.__qualname__))
    z = b
    for part in me:
        z = z + part
        note((me.gi_frame.f_lineno, me.gi_running, me.gi_yieldfrom))
    note((me.gi_frame, me.gi_running))
    return z


@case
def in_itself(a: Any, b: Any) -> Any:
    def steps() -> Any:
        yield a + 1
        for part in me:
            yield part

    me = steps()
    z = b
    try:
        for part in me:
            z = z + part
    except ValueError as error:
        note(told_of(error))
    return z


@case
def delegation_with_results(a: Any, b: Any) -> Any:
    def inner(n: int) -> Any:
        for i in range(n):
            yield a * i
        return n * 10

    def outer() -> Any:
        first = yield from inner(2)
        second = yield from inner(3)
        yield from [b, b + 1]
        yield from (b * 2, b * 3)
        yield from ()
        return first + second

    def all_of_it() -> Any:
        total = yield from outer()
        yield b * total

    z = b
    for part in all_of_it():
        z = z + part
    return z


@case
def traceback_into_a_generator_that_waits(a: Any, b: Any) -> Any:
    kept = []

    def steps() -> Any:
        try:
            raise KeyError("kept")
        except KeyError as error:
            kept.append(error)
        yield a + 1
        note(told_of(kept[0]))
        yield a + 2

    me = steps()
    z = b
    for part in me:
        z = z + part
        break
    z = z * 2
    note(told_of(kept[0]))
    note(kept[0].__traceback__.tb_frame is me.gi_frame)
    for part in me:
        z = z + part
    kept.clear()
    return z


@case
def objects_of_the_generators_own(a: Any, b: Any) -> Any:
    def steps() -> Any:
        rows = [a]
        seen = {"n": 0}
        for i in range(3):
            rows.append(a * i)
            seen["n"] += i
            yield rows, seen

    z = b
    for rows, seen in steps():
        z = z + rows[-1] * seen["n"] + len(rows)
        note((len(rows), seen))
    return z


@case
def default_and_keywords(a: Any, b: Any) -> Any:
    def steps(x: Any, *rest: Any, times: int = 2, **others: Any) -> Any:
        for i in range(times):
            yield x * i + len(rest) + len(others)

    z = b
    for part in steps(a, 1, 2, other=3):
        z = z + part
    for part in steps(a, times=3):
        z = z + part
    return z


@case
def expressions(a: Any, b: Any) -> Any:
    z = b
    for part in (a * i + z for i in range(3) if i != 1):
        z = z + part
    for part in (x + y for x in (a, b) for y in (1, 2)):
        z = z - part
    return z


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_behaves_as_plain(function: Callable[..., Any]) -> None:
    check_behaves_as_plain(function, "reference", CALLS + [(B[:4], A[:4])], told)


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_may_be_left_before_every_node(function: Callable[..., Any]) -> None:
    check_may_be_left(function, "reference", CALLS[:2], 14, told)


@pytest.mark.parametrize("function", [loop, delegation_with_results, default_and_keywords, expressions, raised_out_of_two_generators])
def test_one_graph_where_nothing_breaks(function: Callable[..., Any]) -> None:
    captured = evalframe.jit(function)
    told(captured, A, B)
    assert [found["reason"] for found in _core.jit_breaks(captured)] in ([], ["an exception was raised here"])


def test_a_coroutine_that_is_never_awaited_is_told_of_at_each_call() -> None:
    async def work(a: Any) -> Any:
        return a

    def function(a: Any, b: Any) -> Any:
        work(a)
        return a + b

    captured = evalframe.jit(function)
    for _ in range(3):
        with pytest.warns(RuntimeWarning, match="never awaited"):
            captured(A, B)


def test_what_a_generator_holds_is_released() -> None:
    class Counted:
        alive = 0

        def __init__(self) -> None:
            Counted.alive += 1

        def __del__(self) -> None:
            Counted.alive -= 1

    def held(counted: Any, a: Any) -> Any:
        yield a + 1
        yield a + 2

    def function(a: Any, counted: Any) -> Any:
        z = a
        for part in held(counted, a):
            z = z + part
            break
        return z

    captured = evalframe.jit(function)
    for node in range(-1, 3):
        with leaving_before(node):
            assert same(captured(A, Counted()), function(A, Counted()))
            assert Counted.alive == 0
