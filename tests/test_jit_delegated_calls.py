"""throw() and close() of generators and coroutines that wait for others: the others come first, wherever the graph is left."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_behaves_as_plain, differential_tests, one_graph_tests, put_into
from test_jit_generators import note, told, told_of

A = np.linspace(-1.0, 2.0, 6)
B = np.arange(6.0) - 3
CALLS = [(A, B), (B, A), (A, B)]

CASES: list[Callable[..., Any]] = []
ONE_GRAPH: list[Callable[..., Any]] = []
case = put_into(CASES)
one_graph = put_into(CASES, ONE_GRAPH)


def inner(a: Any, log: Any) -> Any:
    try:
        yield a + 1
        yield a + 2
    except KeyError as error:
        log.append(("inner", error.args, sys.exc_info()[1] is error))
        a = a * 2
        yield a
        return a + 5
    finally:
        log.append("inner ends")


def outer(a: Any, log: Any) -> Any:
    try:
        got = yield from inner(a, log)
        yield got
    except ValueError as error:
        log.append(("outer", error.args))
        yield a - 1
    finally:
        a = a + 1
        log.append("outer ends")
    return a


def outermost(a: Any, log: Any) -> Any:
    got = yield from outer(a, log)
    return got * 2


@one_graph
def thrown_and_caught_inside(a: Any, b: Any) -> Any:
    log: list[Any] = []
    steps = outermost(a, log)
    x = next(steps)
    y = steps.throw(KeyError("k", 3))
    z = next(steps)
    return x + b, y, z, log, list(steps)


@one_graph
def thrown_and_caught_further_out(a: Any, b: Any) -> Any:
    log: list[Any] = []
    steps = outermost(a, log)
    x = next(steps)
    y = steps.throw(ValueError("v"))
    try:
        steps.throw(TypeError)
    except TypeError as error:
        log.append(error.args)
        b = b * 2
    return x + b, y, log


@case
def thrown_through_all(a: Any, b: Any) -> Any:
    log: list[Any] = []
    steps = outermost(a, log)
    x = next(steps) + b
    SEEN_BY.append(log)
    del SEEN_BY[:]
    steps.throw(OSError("through"))
    return x


SEEN_BY: list[Any] = []


@one_graph
def closed_in_turn(a: Any, b: Any) -> Any:
    log: list[Any] = []
    steps = outermost(a, log)
    x = next(steps)
    closed = steps.close()
    again = steps.close()
    return x * b, log, closed, again, list(steps)


def failing(a: Any, log: Any) -> Any:
    try:
        yield a
    finally:
        a = a * 3
        raise LookupError("in finally")


def around_failing(a: Any, log: Any) -> Any:
    try:
        yield from failing(a, log)
    except LookupError as error:
        log.append((told_of(error), sys.exc_info()[1] is error))
        a = a + 1
        log.append(a)
        raise IndexError("instead") from None


def around_all(a: Any, log: Any) -> Any:
    try:
        yield from around_failing(a, log)
    except IndexError as error:
        log.append(told_of(error))


@case
def closing_raises(a: Any, b: Any) -> Any:
    log: list[Any] = []
    steps = around_failing(a, log)
    x = next(steps)
    try:
        steps.close()
    except IndexError as error:
        return x + b, told_of(error), log, sys.exc_info()[1] is error
    return x


@case
def closing_raises_and_is_caught(a: Any, b: Any) -> Any:
    log: list[Any] = []
    steps = around_all(a, log)
    x = next(steps)
    return x + b, steps.close(), log, sys.exc_info()[1]


def stubborn(a: Any) -> Any:
    while True:
        try:
            yield a
        except GeneratorExit:
            a = a + 1


def around_stubborn(a: Any, log: Any) -> Any:
    try:
        yield from stubborn(a)
    except RuntimeError as error:
        log.append(error.args)
        a = a * 2
        log.append(a)


@case
def ignored_inside(a: Any, b: Any) -> Any:
    log: list[Any] = []
    steps = around_stubborn(a, log)
    x = next(steps)
    return x + b, steps.close(), log


@case
def exit_thrown(a: Any, b: Any) -> Any:
    log: list[Any] = []
    steps = outermost(a, log)
    x = next(steps)
    try:
        steps.throw(GeneratorExit("now"))
    except GeneratorExit as error:
        return x + b, log, error.args
    return x


@case
def breaks_while_closed(a: Any, b: Any) -> Any:
    def breaking(a: Any) -> Any:
        try:
            yield a
        finally:
            note("closing")
            a = a * 2
            note(a)

    def waits(a: Any) -> Any:
        try:
            yield from breaking(a)
        finally:
            note("outer")

    steps = waits(a)
    x = next(steps)
    steps.close()
    return x + b


@case
def over_a_list(a: Any, b: Any) -> Any:
    def waits() -> Any:
        try:
            yield from [a, b]
        except KeyError as error:
            yield a * len(error.args)

    steps = waits()
    x = next(steps)
    y = steps.throw(KeyError(1, 2))
    steps.close()
    return x + y


class Sleep:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __await__(self) -> Any:
        got = yield self.value
        return got


@one_graph
def coroutine_cancelled(a: Any, b: Any) -> Any:
    async def work(x: Any) -> Any:
        try:
            return await Sleep(x)
        except KeyError as error:
            return await Sleep(x * 2) + len(error.args)

    async def main(x: Any) -> Any:
        return await work(x) + 1

    coroutine = main(a)
    x = coroutine.send(None)
    y = coroutine.throw(KeyError("stop"))
    try:
        coroutine.send(b)
    except StopIteration as stop:
        return x, y, stop.value
    return x


@one_graph
def coroutine_closed(a: Any, b: Any) -> Any:
    log: list[Any] = []

    async def work(x: Any) -> Any:
        try:
            await Sleep(x)
        finally:
            x = x * 2
            log.append(x)

    async def main(x: Any) -> Any:
        try:
            await work(x)
        finally:
            log.append(len(log))

    coroutine = main(a)
    x = coroutine.send(None)
    coroutine.close()
    return x + b, log


@case
def caller_is_seen(a: Any, b: Any) -> Any:
    names: list[Any] = []

    def looks(x: Any) -> Any:
        try:
            yield x
        except KeyError:
            names.append(sys._getframe(1).f_code.co_name)
            x = x + 1
            yield x

    def waits(x: Any) -> Any:
        yield from looks(x)

    steps = waits(a)
    x = next(steps)
    return x + steps.throw(KeyError()), names, b * 2


test_behaves_as_plain, test_may_be_left_anywhere = differential_tests(CASES, CALLS, told, left=[(A, B), (B, A)], nodes=8)
test_is_one_graph = one_graph_tests(ONE_GRAPH, (A, B))


def test_near_the_limit_of_recursion() -> None:
    """Nothing that is thrown is lost."""

    def deep(n: int, function: Callable[..., Any]) -> Any:
        try:
            return deep(n - 1, function) if n else function(A, B)[2]
        except RecursionError:
            return "too deep"

    captured = evalframe.jit(coroutine_cancelled, backend="reference")
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(150)
    try:
        found = [deep(n, captured) for n in range(20, 130)]
    finally:
        sys.setrecursionlimit(limit)
    assert all(isinstance(one, str) or np.array_equal(one, B + 2) for one in found)


def waits(a: Any) -> Any:
    yield a


def handles_inside(a: Any) -> Any:
    try:
        raise KeyError("a")
    except KeyError:
        yield a


def handles_around(a: Any, inner: Any) -> Any:
    try:
        raise LookupError("b")
    except LookupError:
        yield from inner(a)


def delegates(a: Any) -> Any:
    yield from handles_inside(a)


def delegates_to_one_around(a: Any) -> Any:
    yield from handles_around(a, waits)


def around_waits(a: Any) -> Any:
    return handles_around(a, waits)


def around_one_that_handles(a: Any) -> Any:
    return handles_around(a, handles_inside)


@pytest.mark.parametrize("made", [delegates, delegates_to_one_around, around_waits, around_one_that_handles])
def test_what_is_thrown_into_a_handler_has_its_exception_as_context(made: Any) -> None:
    def thrown(a: Any) -> Any:
        generator = made(a)
        next(generator)
        try:
            generator.throw(ValueError(1))
        except ValueError as error:
            return repr(error.__context__), a + 1

    check_behaves_as_plain(thrown, "reference", [(np.ones(2),)] * 3)
