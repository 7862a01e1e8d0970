"""Coroutines that recorded code makes and runs by hand, and what they await."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_behaves_as_plain, check_may_be_left, one_graph_tests, put_into
from test_jit_generators import note, told, told_of

A = np.linspace(-1.0, 2.0, 6)
B = np.arange(6.0) - 3
CALLS = [(A, B), (B, A), (A, B)]

CASES: list[Callable[..., Any]] = []
ONE_GRAPH: list[Callable[..., Any]] = []
case = put_into(CASES)
one_graph = put_into(CASES, ONE_GRAPH)


def run(coroutine: Any) -> Any:
    steps = 0
    try:
        while True:
            coroutine.send(None)
            steps += 1
    except StopIteration as stop:
        return stop.value, steps


class Wait:
    def __init__(self, result: Any) -> None:
        self.result = result

    def __await__(self) -> Any:
        yield self
        return self.result


class Manager:
    def __init__(self, noted: bool, swallows: Any = ()) -> None:
        self.noted, self.swallows = noted, swallows

    async def __aenter__(self) -> Any:
        if self.noted:
            note("enter")
        return await Wait(2.0)

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> bool:
        if self.noted:
            note(told_of(error))
        await Wait(None)
        return kind is not None and issubclass(kind, self.swallows)


class Rows:
    def __init__(self, *rows: Any) -> None:
        self.rows, self.at = rows, 0

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        if self.at == len(self.rows):
            raise StopAsyncIteration
        self.at += 1
        return await Wait(self.rows[self.at - 1])


async def doubled(a: Any) -> Any:
    return a * 2


@one_graph
def awaits(a: Any, b: Any) -> Any:
    async def inner(n: int) -> Any:
        return await Wait(a * n)

    async def work() -> Any:
        return await inner(2) + await inner(3) * await doubled(b)

    return run(work())


@case
def awaits_with_breaks(a: Any, b: Any) -> Any:
    async def inner(n: int) -> Any:
        c = a * n
        note(n)
        return await Wait(c)

    async def work() -> Any:
        z = await inner(2)
        note("between")
        return z + await inner(3)

    return run(work())


@one_graph
def managers(a: Any, b: Any) -> Any:
    async def work() -> Any:
        async with Manager(False) as gain, Manager(False, KeyError):
            z = a * gain
            raise KeyError(1)
        return z + b

    return run(work())


@case
def managers_with_breaks(a: Any, b: Any) -> Any:
    async def work() -> Any:
        z = a
        async with Manager(True) as gain:
            z = z * gain
        try:
            async with Manager(True, ValueError):
                raise KeyError("let through")
        except KeyError as error:
            note(told_of(error))
        return z + b

    return run(work())


@one_graph
def loops(a: Any, b: Any) -> Any:
    async def work() -> Any:
        z = b
        async for row in Rows(a, 2, 3.0):
            z = z + row
        else:
            z = z * 2
        return z, [row * 2 async for row in Rows(a, b) if row is not None]

    return run(work())


@case
def loops_with_breaks(a: Any, b: Any) -> Any:
    async def work() -> Any:
        z = b
        async for row in Rows(a, a * 2, b):
            note("turn")
            z = z + row
        async for row in Rows(a, b):
            z = z - row
            break
        return z

    return run(work())


@case
def raised_in_what_is_awaited(a: Any, b: Any) -> Any:
    async def inner() -> Any:
        await Wait(1)
        raise KeyError("inner")

    async def work() -> Any:
        try:
            await inner()
        except KeyError as error:
            note(told_of(error))
        return a + b

    return run(work())


@case
def raised_out_of_all(a: Any, b: Any) -> Any:
    async def inner() -> Any:
        z = a + b
        raise LookupError(z.ndim)

    async def work() -> Any:
        return await inner()

    return run(work())


@case
def stop_iteration_inside(a: Any, b: Any) -> Any:
    async def work() -> Any:
        z = a + b
        raise StopIteration(z.ndim)

    try:
        run(work())
    except RuntimeError as error:
        note(told_of(error))
    return a * b


@case
def awaited_again(a: Any, b: Any) -> Any:
    async def work() -> Any:
        coroutine = doubled(a)
        z = await coroutine
        try:
            await coroutine
        except RuntimeError as error:
            note(str(error))
        return z + b

    return run(work())


@case
def awaited_by_two(a: Any, b: Any) -> Any:
    async def inner() -> Any:
        return await Wait(a)

    async def work(coroutine: Any) -> Any:
        return await coroutine

    coroutine = inner()
    first, second = work(coroutine), work(coroutine)
    first.send(None)
    try:
        second.send(None)
    except RuntimeError as error:
        note(told_of(error))
    return run(first)[0] + b


@case
def sent_too_early_and_too_late(a: Any, b: Any) -> Any:
    coroutine = doubled(a)
    try:
        coroutine.send(1)
    except TypeError as error:
        note(str(error))
    z = run(coroutine)[0] + b
    try:
        coroutine.send(None)
    except RuntimeError as error:
        note(str(error))
    return z


@case
def awaits_what_is_no_awaitable(a: Any, b: Any) -> Any:
    class Wrong:
        def __init__(self, given: Any) -> None:
            self.given = given

        def __await__(self) -> Any:
            return self.given

        def __aiter__(self) -> Any:
            return self.given

    class WrongNext:
        def __aiter__(self) -> Any:
            return self

        def __anext__(self) -> Any:
            return 3

    async def wait(value: Any) -> Any:
        return await value

    async def loop(value: Any) -> Any:
        async for part in value:
            return part

    z = a + b
    waiting = doubled(a)
    for work in (wait(3), wait(Wrong(3)), wait(Wrong(waiting)), loop([1]), loop(Wrong(3)), loop(Wrong(Wrong(1))), loop(WrongNext())):
        try:
            run(work)
        except TypeError as error:
            note(str(error))
    waiting.close()
    return z * 2


@case
def awaits_an_iterator(a: Any, b: Any) -> Any:
    class Plain:
        def __await__(self) -> Any:
            return iter([1, 2])

    async def work() -> Any:
        z = a * 2
        await Plain()
        return z + b

    return run(work())


@case
def throws_into_what_waits(a: Any, b: Any) -> Any:
    async def work() -> Any:
        try:
            await Wait(1)
        except KeyError as error:
            note(told_of(error))
            return await Wait(a + b)

    coroutine = work()
    coroutine.send(None)
    coroutine.throw(KeyError("cancelled"))
    return run(coroutine)


@case
def closes_what_waits(a: Any, b: Any) -> Any:
    async def work() -> Any:
        try:
            await Wait(1)
        finally:
            note(repr(sys.exc_info()[1]))

    coroutine = work()
    coroutine.send(None)
    coroutine.close()
    return a + b


@case
def handed_out(a: Any, b: Any) -> Any:
    async def work() -> Any:
        z = a + b
        note("begun")
        return z

    coroutine = work()
    note(type(coroutine).__name__)
    return run(coroutine)


@case
def from_types_coroutine(a: Any, b: Any) -> Any:
    import types

    @types.coroutine
    def steps() -> Any:
        yield 1
        return a * 2

    async def work() -> Any:
        return await steps() + b

    return run(work())


@case
def asynchronous_generator(a: Any, b: Any) -> Any:
    async def rows() -> Any:
        yield a
        yield await Wait(b)

    async def work() -> Any:
        z = a + b
        async for row in rows():
            z = z * row
        return z

    return run(work())


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_behaves_as_plain(function: Callable[..., Any]) -> None:
    check_behaves_as_plain(function, "reference", CALLS + [(B[:4], A[:4])], told)


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_may_be_left_before_every_node(function: Callable[..., Any]) -> None:
    check_may_be_left(function, "reference", CALLS[:2], 14, told)


test_one_graph = one_graph_tests(ONE_GRAPH, (A, B), told)


def test_a_coroutine_that_is_never_awaited_is_told_of_where_it_is_let_go() -> None:
    def dropped(a: Any, b: Any) -> Any:
        doubled(a)
        return a + b

    def overwritten(a: Any, b: Any) -> Any:
        waiting = doubled(a)
        waiting = a + b
        return waiting

    def kept_to_the_end(a: Any, b: Any) -> Any:
        waiting = doubled(a)
        return a + b if waiting is not None else b

    def of_a_callee(a: Any, b: Any) -> Any:
        def inner() -> Any:
            waiting = doubled(a)
            return b if waiting else a

        return inner() * 2

    def let_go_by_an_exception(a: Any, b: Any) -> Any:
        async def fails() -> Any:
            return doubled(a), missing  # type: ignore[name-defined]  # noqa: F821

        try:
            return run(fails())
        except NameError as error:
            return a + b, str(error)

    for function in (dropped, overwritten, kept_to_the_end, of_a_callee, let_go_by_an_exception):
        told_of_them = []
        for called in (function, evalframe.jit(function)):
            for _ in range(3):
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    called(A, B)
                told_of_them.append([(str(warning.message), warning.filename, warning.lineno) for warning in caught])
        assert told_of_them[:3] == told_of_them[3:], function


def test_a_coroutine_may_be_the_result() -> None:
    def function(a: Any, b: Any) -> Any:
        z = a + b
        return doubled(z)

    captured = evalframe.jit(function)
    for _ in range(3):
        assert np.array_equal(run(captured(A, B))[0], (A + B) * 2)
