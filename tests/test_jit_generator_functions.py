"""Captured generator functions, coroutines and asynchronous generators: what runs between two suspensions is captured."""

from __future__ import annotations

import gc
import inspect
import sys
import threading
import traceback
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import leaving_before, outcome, same

A = np.linspace(-1.0, 2.0, 6)
B = np.arange(6.0) - 3

CASES: list[tuple[Callable[..., Any], Callable[..., Any]]] = []


def case(drive: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A generator function, and who drives what it makes: `drive(function)` gives what is compared."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES.append((function, drive))
        return function

    return add


def place(error: BaseException) -> Any:
    lines = [(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__) if frame.name in NAMES]
    context = error.__context__
    return type(error), str(error), lines, type(context), type(error.__cause__)


def steps(generator: Any, *actions: Any) -> list[Any]:
    """What each action came to: an exception is thrown, anything else is sent."""
    told: list[Any] = []
    for action in actions:
        try:
            if isinstance(action, BaseException):
                told.append(("threw", generator.throw(type(action)(*action.args))))
            elif isinstance(action, str):
                told.append(("closed", generator.close()))
            else:
                told.append(("sent", generator.send(action)))
        except StopIteration as stop:
            told.append(("ended", stop.value))
        except BaseException as error:
            told.append(("raised", *place(error)))
    return told


def drive_with(*actions: Any, arguments: tuple[Any, ...] = (A,)) -> Callable[..., Any]:
    return lambda function: steps(function(*arguments), *actions)


def in_a_loop(function: Callable[..., Any]) -> Any:
    return [item for item in function(A)], list(function(B)), tuple(zip(function(A), function(B)))


NONES = (None,) * 6


@case(in_a_loop)
def doubles_until(a: Any) -> Any:
    total = a
    for i in range(4):
        total = total * 2 - a + i
        yield total
    yield total.sum()


@case(drive_with(None, 1.5, 2, A, None, None))
def gives_back(a: Any) -> Any:
    got = yield a + 1
    while got is not None:
        got = yield a * got - 1
    return a.sum(), got


@case(drive_with(None, ValueError("one"), None, KeyError("two"), None, None))
def handles(a: Any) -> Any:
    for i in range(3):
        try:
            b = a * i + 1
            yield b
            yield b - 1
        except ValueError as error:
            yield str(error), a - i, sys.exc_info()[0]
        except KeyError:
            yield sys.exc_info()[1].args, np.tanh(a)
            c = a * 3
            yield c, sys.exc_info()[0]


@case(drive_with(None, None, None, None))
def raises(a: Any) -> Any:
    b = a * 2
    yield b
    c = b + 1
    yield c
    yield c @ np.ones(4)


@case(drive_with(None, None, None))
def raises_stop(a: Any) -> Any:
    b = a * 2
    yield b
    b = b + 1
    raise StopIteration(b)


@case(drive_with(None, None, "close", None))
@case(drive_with(None, "close", "close"))
@case(drive_with("close", None))
@case(drive_with(None, GeneratorExit(), None))
@case(drive_with(None, None, RuntimeError("r"), None))
def cleans_up(a: Any) -> Any:
    try:
        b = a * 2 + 1
        yield b
        b = b * b
        yield b
    finally:
        NOTED.append((a * 3).sum())


@case(drive_with(None, "close", None))
def ignores_the_end(a: Any) -> Any:
    b = a + 1
    try:
        yield b
    except GeneratorExit:
        b = b * 2
        yield b


NOTED: list[Any] = []


def inner(a: Any) -> Any:
    got = yield a * 2 + 1
    try:
        got = yield a - got
    except ValueError as error:
        got = yield error.args, a * 5
    return a * 7, got


@case(drive_with(None, 2, 3, None))
@case(drive_with(None, 2, ValueError("x"), 4, None))
@case(drive_with(None, KeyError("x"), 4, None))
@case(drive_with(None, "close", 4))
def delegates(a: Any) -> Any:
    result = yield from inner(a + 1)
    b = a * 2
    yield b, result
    yield from (a * i + b for i in range(2))
    yield from [a, b]


class Awaited:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __await__(self) -> Any:
        got = yield self.value * 2
        return got, self.value + 1


async def helper(a: Any) -> Any:
    b = a * 2 - 1
    c = await Awaited(b)
    return b + 1, c


@case(drive_with(None, 1, 2, 3))
@case(drive_with(None, ValueError("into"), 2, 3))
@case(drive_with(None, 1, ValueError("into"), 2, 3))
@case(drive_with(None, 1, "close", 2))
async def awaits(a: Any) -> Any:
    b = a * 3
    try:
        c = await Awaited(b)
    except ValueError as error:
        c = str(error), b - 1
    d = await helper(b)
    return b.sum(), c, d


class Manager:
    async def __aenter__(self) -> Any:
        return await Awaited(A)

    async def __aexit__(self, *exception: Any) -> Any:
        NOTED.append(await Awaited(B))
        return exception[0] is KeyError


@case(drive_with(None, 1, 2, 3))
@case(drive_with(None, 1, KeyError("k"), 2, 3))
@case(drive_with(None, 1, ValueError("v"), 2, 3))
async def awaits_with(a: Any) -> Any:
    async with Manager() as entered:
        b = a * 2
        await Awaited(b)
    return b, entered


def drive_asynchronous(*actions: Any) -> Callable[..., Any]:
    def drive(function: Callable[..., Any]) -> Any:
        generator = function(A)
        told = []
        for action in actions:
            if isinstance(action, BaseException):
                step = generator.athrow(type(action)(*action.args))
            else:
                step = generator.aclose() if isinstance(action, str) else generator.asend(action)
            told.append(steps(step, None, None, None))
        return told

    return drive


@case(drive_asynchronous(None, 1, 2, 3))
@case(drive_asynchronous(None, ValueError("v"), 2, 3))
@case(drive_asynchronous(None, 1, "close", 3))
async def asynchronous(a: Any) -> Any:
    b = a * 2 + 1
    try:
        got = yield b
        c = await Awaited(b)
        yield b * 3, c, got
    except ValueError as error:
        yield str(error), a - 1
    finally:
        NOTED.append((a * 4).sum())
    async for x in source(a):
        yield x * 2


async def source(a: Any) -> Any:
    for i in range(2):
        await Awaited(a)
        yield a + i


@case(drive_with(None, None, None, arguments=(A, 2)))
def looks_at_frames(a: Any, n: int = 3) -> Any:
    b = a * n
    frame = sys._getframe()
    yield frame.f_code.co_name, frame.f_lineno, sorted(frame.f_locals), frame.f_back.f_code.co_name, b
    b = b + 1
    yield frame.f_locals["b"], frame.f_back.f_code.co_name, sys._getframe() is frame
    del b
    yield sorted(locals())


def looked_at(function: Callable[..., Any]) -> Any:
    told: list[Any] = []
    generator = function(A)
    state = inspect.getgeneratorstate

    def look() -> None:
        frame = generator.gi_frame
        seen = None if frame is None else (frame.f_lineno, frame.f_lasti, sorted(frame.f_locals), frame.f_back)
        told.append((state(generator), generator.gi_running, generator.gi_yieldfrom is None, seen))

    generator.__name__
    look()
    for item in generator:
        told.append(item)
        look()
    look()
    return told, generator.__name__, generator.__qualname__, generator.gi_code is getattr(function, "__wrapped__", function).__code__


@case(looked_at)
def is_looked_at(a: Any) -> Any:
    b = a * 2
    yield b
    for i in range(2):
        b = b * b + i
        yield b
    yield from [b, a]
    return b


def runs_itself(function: Callable[..., Any]) -> Any:
    told: list[Any] = []

    def again() -> None:
        told.append((generator.gi_running, steps(generator, None)[0][:3]))

    generator = function(A, again)
    return steps(generator, None, None, None), told


@case(runs_itself)
def is_entered_again(a: Any, call: Any) -> Any:
    b = a * 2
    call()
    yield b
    b = b + 1
    call()
    yield b


def counted(function: Callable[..., Any]) -> Any:
    """Reference counts of what it is given, and of what it yields."""
    a, told = A.copy(), []
    generator = function(a)
    for item in generator:
        told.append((sys.getrefcount(a), sys.getrefcount(item)))
    told.append(sys.getrefcount(a))
    generator = function(a)
    next(generator)
    told.append(sys.getrefcount(a))
    generator.close()
    told.append(sys.getrefcount(a))
    return told


@case(counted)
def is_counted(a: Any) -> Any:
    b = a * 2
    yield b
    c = a + b
    del b
    yield c
    yield a


@case(drive_with(None, None, None, None))
def closes_over(a: Any) -> Any:
    count = 0

    def add(x: Any) -> Any:
        nonlocal count
        count += 1
        return x * count

    b = add(a)
    yield b
    b = add(b)
    yield b, count
    b = add(b) + add(a)
    yield b, count


def collected(function: Callable[..., Any]) -> Any:
    class Thing:
        pass

    thing = Thing()
    generator = function(A, thing)
    first = next(generator)
    thing.generator = generator
    gone = weakref.ref(thing)
    del thing, generator
    gc.collect()
    return first, gone() is None


@case(collected)
def is_in_a_cycle(a: Any, thing: Any) -> Any:
    b = a * 2
    yield b
    yield b, thing


@case(drive_with(None, None, None, None, None, arguments=(3,)))
def changes_types(n: Any) -> Any:
    x = n
    for y in (1, 2.5, A, A.astype(np.float32)):
        x = x * y + 1
        yield x


@case(drive_with(None, None, None))
def warns(a: Any) -> Any:
    b = a * 0.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        c = a / b
    yield [(str(w.message), w.lineno) for w in caught], np.isnan(c)
    with np.errstate(all="ignore"):
        c = b / b
        yield np.geterr()["invalid"], c
    yield np.geterr()["invalid"]


@case(lambda function: steps(function(A, b=B), None, None, None))
def has_defaults(a: Any, *rest: Any, b: Any = A, **more: Any) -> Any:
    yield a * b, rest, more
    yield a - b


@case(in_a_loop)
@types.coroutine
def of_types_coroutine(a: Any) -> Any:
    b = a * 2
    yield b
    yield b + 1


NAMES = {function.__name__ for function, _ in CASES} | {"inner", "helper", "source", "__await__", "__aenter__", "__aexit__"}
BACKENDS = ["native", "reference"]


def ids(of: Any) -> str:
    return str(of.__name__)


def told_of(function: Callable[..., Any], drive: Callable[..., Any]) -> Any:
    NOTED.clear()
    return outcome(drive, function), list(NOTED)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("function", "drive"), CASES, ids=lambda of: of.__name__)
def test_generators_behave_as_plain_ones(function: Callable[..., Any], drive: Callable[..., Any], backend: str) -> None:
    captured = evalframe.jit(function, backend=backend)
    for _ in range(4):
        assert same(told_of(captured, drive), told_of(function, drive))
    # Of one that is closed before it begins nothing runs.
    assert _core.jit_counters(captured)["recordings"] > 0 or told_of(function, drive)[0][0][1][0] == ("closed", None)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("function", "drive"), CASES, ids=lambda of: of.__name__)
def test_stretches_may_be_left_before_every_node(function: Callable[..., Any], drive: Callable[..., Any], backend: str) -> None:
    captured = evalframe.jit(function, backend=backend)
    for node in range(6):
        told_of(captured, drive)
        with leaving_before(node):
            assert same(told_of(captured, drive), told_of(function, drive)), node


# --- what is captured, and when ---------------------------------------------------------------------------------------


def averages(a: Any, rate: float) -> Any:
    mean = a * 0.0
    while True:
        got = yield mean
        if got is None:
            return mean
        mean = mean * (1 - rate) + got * rate


def test_stretches_are_served_also_in_other_generators() -> None:
    captured = evalframe.jit(averages)
    for _ in range(3):
        generator, plain = captured(A, 0.25), averages(A, 0.25)
        for sent in (None, A, B, A * 2, None):
            assert same(steps(generator, sent), steps(plain, sent))
    counters = _core.jit_counters(captured)
    assert counters["calls"] == 15
    assert counters["recordings"] == 4  # the start, the first turn, where `got` is unbound, a turn, the end
    assert counters["hits"] == 11
    assert counters["breaks"] == 0


def test_fullgraph_is_about_each_stretch() -> None:
    generator = evalframe.jit(averages, fullgraph=True)(A, 0.5)
    plain = averages(A, 0.5)
    assert same(steps(generator, None, A, B, None), steps(plain, None, A, B, None))

    def prints(a: Any) -> Any:
        yield a * 2
        if (a * 2).sum() > 0:
            yield a * 3

    generator = evalframe.jit(prints, fullgraph=True)(A)
    next(generator)
    with pytest.raises(evalframe.GraphBreakError):
        next(generator)
    assert inspect.getgeneratorstate(generator) == inspect.GEN_CLOSED


def scaled(a: Any) -> Any:
    yield a * SCALE
    yield a * SCALE + 1


SCALE: Any = 2


def test_what_was_read_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    captured = evalframe.jit(scaled)
    for scale in (2, 2, 3, 2.5, A):
        monkeypatch.setitem(globals(), "SCALE", scale)
        assert same(list(captured(A)), list(scaled(A)))
    monkeypatch.setitem(globals(), "SCALE", 2)
    generator = captured(A)
    assert same(next(generator), A * 2)
    monkeypatch.setitem(globals(), "SCALE", 5)
    assert same(next(generator), A * 5 + 1)


def test_new_code_is_that_of_new_generators() -> None:
    def first(a: Any) -> Any:
        yield a * 2
        yield a * 3

    def second(a: Any) -> Any:
        yield a * 20

    def third(a: Any) -> Any:
        return a * 7

    captured, code = evalframe.jit(first), first.__code__
    list(captured(A))
    begun = captured(A)
    assert same(next(begun), A * 2)
    captured.__code__ = second.__code__
    assert same(list(captured(A)), [A * 20]) and same(list(captured(A)), [A * 20])
    assert same(next(begun), A * 3)
    captured.__code__ = third.__code__
    assert same(captured(A), A * 7)
    captured.__code__ = code
    assert same(list(captured(A)), [A * 2, A * 3])


def test_defaults_and_names_are_those_of_the_call() -> None:
    def function(a: Any, b: Any = 1, *, c: Any = 2) -> Any:
        yield a * b + c

    captured = evalframe.jit(function)
    assert same(list(captured(A)), [A + 2])
    function.__defaults__, function.__kwdefaults__ = (3,), {"c": 4}
    assert same(list(captured(A)), [A * 3 + 4])
    function.__name__, function.__qualname__ = "other", "quite.other"
    generator = captured(A)
    assert (generator.__name__, generator.__qualname__) == ("other", "quite.other")
    with pytest.raises(TypeError, match=r"quite.other\(\) missing 1 required"):
        captured()


def test_generators_hold_what_they_need_and_no_more() -> None:
    def function(a: Any) -> Any:
        yield a * 2
        yield a * 3

    captured = evalframe.jit(function)
    gone = weakref.ref(captured)
    generator = captured(A)
    del captured
    assert same(list(generator), [A * 2, A * 3])
    del generator
    assert gone() is None
    generator = evalframe.jit(function)(A)
    assert same(next(generator), A * 2)
    del generator
    gc.collect()
    assert not [found for found in gc.get_objects() if type(found).__name__ == "GeneratorsOf"]


def test_hooks_see_the_function() -> None:
    seen: list[Any] = []
    captured = evalframe.jit(scaled)

    def note(frame: Any) -> None:
        if frame.name == "scaled":
            seen.append(frame.function)

    with evalframe.hook(note):
        assert same(list(captured(A)), [A * SCALE, A * SCALE + 1])
    assert seen == [scaled]


def test_tools_see_the_lines() -> None:
    def lines_of(function: Callable[..., Any]) -> Any:
        told: list[Any] = []

        def trace(frame: Any, event: str, argument: Any) -> Any:
            if frame.f_code is scaled.__code__:
                told.append((event, frame.f_lineno))
            return trace

        generator = function(A)
        next(generator)
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            list(generator)
        finally:
            sys.settrace(before)
        return [line for event, line in told if event == "line"]

    captured = evalframe.jit(scaled)
    for _ in range(3):
        assert lines_of(captured) == lines_of(scaled)


def test_threads_share_them() -> None:
    captured = evalframe.jit(averages)
    results: list[Any] = []

    def work() -> None:
        for _ in range(20):
            generator = captured(A, 0.5)
            results.append(steps(generator, None, A, B, A, None))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = steps(averages(A, 0.5), None, A, B, A, None)
    assert len(results) == 80 and all(same(result, expected) for result in results)


def test_one_goes_on_in_another_thread() -> None:
    generator = evalframe.jit(averages)(A, 0.5)
    told: list[Any] = steps(generator, None, A)
    thread = threading.Thread(target=lambda: told.extend(steps(generator, B)))
    thread.start()
    thread.join()
    told += steps(generator, A)
    assert same(told, steps(averages(A, 0.5), None, A, B, A))


def test_event_loops_run_them() -> None:
    import asyncio

    def run_with(wrap: Callable[..., Any]) -> Any:
        async def child(a: Any, delay: float) -> Any:
            b = a * 2
            await asyncio.sleep(delay)
            b = b + 1
            return b.sum(), b

        async def numbers(a: Any) -> Any:
            for i in range(3):
                await asyncio.sleep(0)
                yield a * i

        async def fails(a: Any) -> Any:
            await asyncio.sleep(0)
            raise ValueError(float(a.sum()))

        child, numbers, fails = wrap(child), wrap(numbers), wrap(fails)

        async def parent(a: Any) -> Any:
            results = await asyncio.gather(child(a, 0), child(a * 2, 0.001), fails(a), return_exceptions=True)
            listed = [x async for x in numbers(a)]
            task = asyncio.ensure_future(child(a, 10))
            await asyncio.sleep(0)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                listed.append("cancelled")
            return [repr(result) for result in results], listed

        return asyncio.run(wrap(parent)(A))

    for _ in range(3):
        assert same(run_with(evalframe.jit), run_with(lambda function: function))


def test_deep_recursion_is_an_error() -> None:
    def deeper(a: Any, depth: int) -> Any:
        yield a * depth
        if depth:
            yield from deeper(a, depth - 1)

    plain = deeper
    expected = list(plain(A, 20))
    deeper = evalframe.jit(deeper)
    assert same(list(deeper(A, 20)), expected) and same(list(deeper(A, 20)), expected)
    with pytest.raises(RecursionError):
        list(deeper(A, 100_000))


def test_context_managers_are_made_of_them() -> None:
    from contextlib import contextmanager

    def managed(a: Any) -> Any:
        b = a * 2
        try:
            yield b
        except ValueError:
            NOTED.append((b + 1).sum())

    def use(function: Callable[..., Any]) -> Any:
        NOTED.clear()
        manager = contextmanager(function)
        with manager(A) as b:
            first = b + 1
        with manager(A):
            raise ValueError
        return first, list(NOTED)

    captured = evalframe.jit(managed)
    for _ in range(3):
        assert same(use(captured), use(managed))


def test_trials_leave_results_alone() -> None:
    captured = evalframe.jit(averages)
    _core.set_call_trials(True)
    try:
        for _ in range(60):
            actions = (None, A, B, A, None)
            assert same(steps(captured(A, 0.5), *actions), steps(averages(A, 0.5), *actions))
    finally:
        _core.set_call_trials(False)


def test_what_makes_no_arrays_is_given_up() -> None:
    @evalframe.jit
    def counts(n: int) -> Any:
        for i in range(n):
            yield i

    assert list(counts(1000)) == list(range(1000))
    assert _core.jit_counters(counts)["given_up"] == 1


def test_enabled_captures_generators() -> None:
    def twice(a: Any) -> Any:
        for i in range(3):
            yield np.add(a, a) * i

    expected = list(twice(A))
    before = evalframe.stats()["served"]
    with evalframe.enabled():
        for _ in range(3):
            assert same(list(twice(A)), expected)
        left = twice(A)
        assert same(next(left), expected[0])
    assert evalframe.stats()["served"] > before
    assert same(list(left), expected[1:])
