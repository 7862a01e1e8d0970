"""Constructs: coroutines that are run by hand, and generators that others go on."""

from __future__ import annotations

from typing import Any


def _run(coroutine: Any) -> Any:
    try:
        while True:
            coroutine.send(None)
    except StopIteration as stop:
        return stop.value


class _Sleep:
    def __init__(self, result: Any) -> None:
        self.result = result

    def __await__(self) -> Any:
        yield
        return self.result


class _Gain:
    async def __aenter__(self) -> float:
        self.left = False
        return 2.0

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> bool:
        self.left = True
        return kind is ValueError


class _Rows:
    def __init__(self, a: Any, number: int) -> None:
        self.a, self.number = a, number

    def __aiter__(self) -> _Rows:
        return self

    async def __anext__(self) -> Any:
        if self.number == 0:
            raise StopAsyncIteration
        self.number -= 1
        return self.a * self.number


async def _doubled(a: Any) -> Any:
    return a * 2


async def _slowly(a: Any, steps: int) -> Any:
    for n in range(steps):
        a = a + await _Sleep(n)
    return a


async def _failing(a: Any) -> Any:
    raise KeyError("from the coroutine")


def _relayed(a: Any) -> Any:
    received = yield
    while received is not None:
        received = yield a * received


def _averages() -> Any:
    total, count, mean = 0, 0, None
    while True:
        term = yield mean
        total = total + term
        count += 1
        mean = total / count


def _tree(n: int) -> Any:
    if n > 0:
        yield from _tree(n - 1)
        yield n
        yield from _tree(n - 1)


def _cleaning(a: Any, seen: list[Any]) -> Any:
    try:
        yield a + 1
        yield a + 2
    finally:
        seen.append(a)


def one_await(x: Any, y: Any) -> Any:
    async def work() -> Any:
        return await _doubled(x) + y

    return _run(work())


def awaits_in_a_loop(x: Any, y: Any) -> Any:
    async def work() -> Any:
        z = y
        for n in range(3):
            z = z + await _doubled(x * n)
        return z

    return _run(work())


def suspended(x: Any, y: Any) -> Any:
    return _run(_slowly(x, 2)) + y


def awaitable_object(x: Any, y: Any) -> Any:
    async def work() -> Any:
        return await _Sleep(x) * await _Sleep(y)

    return _run(work())


def async_with(x: Any, y: Any) -> Any:
    async def work() -> Any:
        async with _Gain() as gain:
            z = x * gain
        return z + y

    return _run(work())


def async_with_exception(x: Any, y: Any) -> Any:
    async def work() -> Any:
        manager = _Gain()
        async with manager:
            raise ValueError("swallowed")
        return x * manager.left + y

    return _run(work())


def async_for(x: Any, y: Any) -> Any:
    async def work() -> Any:
        z = y
        async for row in _Rows(x, 3):
            z = z + row
        return z

    return _run(work())


def async_comprehension(x: Any, y: Any) -> Any:
    async def work() -> Any:
        rows = [row + 1 async for row in _Rows(x, 2)]
        return rows[0] * rows[1] + y

    return _run(work())


def exception_of_awaited(x: Any, y: Any) -> Any:
    async def work() -> Any:
        try:
            await _failing(x)
        except KeyError as error:
            return x + len(error.args)
        return y

    return _run(work())


def exception_thrown_into_coroutine(x: Any, y: Any) -> Any:
    async def work() -> Any:
        return await _Sleep(x)

    coroutine = work()
    coroutine.send(None)
    try:
        coroutine.throw(KeyError("cancelled"))
    except KeyError:
        return x * y
    return x


def two_coroutines_in_turn(x: Any, y: Any) -> Any:
    waiting = [_slowly(x, 2), _slowly(y, 1)]
    results = []
    while waiting:
        coroutine = waiting.pop(0)
        try:
            coroutine.send(None)
            waiting.append(coroutine)
        except StopIteration as stop:
            results.append(stop.value)
    return results[0] - results[1]


def coroutine_closed(x: Any, y: Any) -> Any:
    coroutine = _slowly(x, 3)
    coroutine.send(None)
    coroutine.close()
    return x + y


def async_method(x: Any, y: Any) -> Any:
    class Model:
        async def forward(self, a: Any) -> Any:
            return a * 3

    return _run(Model().forward(x)) + y


def generator_that_averages(x: Any, y: Any) -> Any:
    averages = _averages()
    next(averages)
    averages.send(x)
    return averages.send(y)


def generator_that_relays(x: Any, y: Any) -> Any:
    relay = _relayed(x)
    relay.send(None)
    return relay.send(2) + relay.send(y) + (next(relay, None) is None)


def generator_in_itself(x: Any, y: Any) -> Any:
    z = x
    for n in _tree(2):
        z = z * n + y
    return z


def generator_let_go(x: Any, y: Any) -> Any:
    seen: list[Any] = []
    for row in _cleaning(x, seen):
        break
    return row + y * len(seen)


def generator_closed_by_finally(x: Any, y: Any) -> Any:
    seen: list[Any] = []
    steps = _cleaning(x, seen)
    try:
        z = next(steps) * y
    finally:
        steps.close()
    return z + seen[0]


def generator_asked_with_a_method(x: Any, y: Any) -> Any:
    step = _tree(3).__next__
    return x * step() + y * step()


def generator_in_an_attribute(x: Any, y: Any) -> Any:
    class Source:
        def __init__(self) -> None:
            self.steps = _tree(3)

        def read(self) -> Any:
            return next(self.steps)

    source = Source()
    return x * source.read() + y * source.read()
