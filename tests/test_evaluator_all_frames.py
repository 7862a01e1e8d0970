"""Every Python frame of the process in our evaluator: class bodies, names, generators, coroutines; against CPython."""

# The programs under test are odd on purpose.
# ruff: noqa: B012, B018, B030, F401, F403, F821, SIM117

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import os
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import evalframe
from evalframe import _core
from test_evaluator import CASES as FUNCTIONS
from test_evaluator import case, outcome

OURS = set(FUNCTIONS)


@contextmanager
def all_frames() -> Iterator[None]:
    _core.evaluate_all_frames(True)
    try:
        yield
    finally:
        _core.evaluate_all_frames(False)


def source(text: str) -> Callable[..., Any]:
    """A program as module code, with names of its own."""

    def run() -> Any:
        names: dict[str, Any] = {"__name__": "program", "print": print}
        exec(compiled, names)
        return {name: repr(names[name]) for name in ("r", "r2", "x", "y", "z") if name in names}

    compiled = compile(text, "<program>", "exec")
    run.__name__ = "<module>"
    return run


class Spoken(dict):
    """A namespace that is no plain dict."""

    def __getitem__(self, key):
        print("get", key)
        return super().__getitem__(key)

    def __setitem__(self, key, value):
        print("set", key)
        super().__setitem__(key, value)

    def __delitem__(self, key):
        print("del", key)
        super().__delitem__(key)


class Meta(type):
    @classmethod
    def __prepare__(cls, name, bases):
        return Spoken()


SOURCES = {
    "class_names": "x = 1\nclass A:\n    x = x + 1\n    y = [x for _ in (1, 2)]\n    del x\n    z = x\n",
    "class_missing_name": "class A:\n    y = nothing\n",
    "class_delete_missing": "class A:\n    del nothing\n",
    "delete_missing_name": "x = 1\ndel x\ndel x\n",
    "annotations": "x: int = 1\ny: str\nclass A:\n    a: int\n    b: str = ''\nz = A.__annotations__, __annotations__\n",
    "class_cell": "def f():\n    v = 5\n    class A:\n        w = v\n        v = 6\n        u = v\n    return A.w, A.u\nr = f()\n",
    "class_cell_unbound": "def f():\n    class A:\n        w = v\n    v = 5\n    return A.w\nr = f()\n",
    "class_of_nothing": "class A(5): pass\n",
    "decorators": "def d(c):\n    c.seen = 1\n    return c\n@d\nclass A: pass\nr = A.seen\n",
    "no_build_class": "__builtins__ = {}\nclass A: pass\n",
    "star": "from math import *\nr = floor(2.5), 'pi' in dir()\n",
    "star_all": "import types, sys\nm = types.ModuleType('m_with_all')\nm.__all__ = ['a', 'missing']\nm.a = 1\n"
    "sys.modules['m_with_all'] = m\nfrom m_with_all import *\n",
    "star_not_str": "import types, sys\nm = types.ModuleType('m_odd')\nm.__all__ = [1]\nsys.modules['m_odd'] = m\n"
    "from m_odd import *\n",
    "star_private": "import types, sys\nm = types.ModuleType('m_private')\nm._a = 1\nm.b = 2\nsys.modules['m_private'] = m\n"
    "from m_private import *\nr = [n for n in dir() if n in ('_a', 'b')]\n",
    "import_missing": "from math import nothing_there\n",
    "import_from_odd_modules": "import os, types, sys\nr = []\n"
    "for odd in {'__name__': None}, {'__name__': 3, '__file__': '/x'}, {'__file__': 5}, {'__spec__': 5, '__file__': '/x'}, {}, \\\n"
    "        {'__name__': None, '__file__': '/x', '__spec__': os.__spec__}, {'__file__': '/x', '__spec__': os.__spec__}:\n"
    "    for gone in (), ('__name__',), ('__spec__',):\n"
    "        m = sys.modules['m_odd_names'] = types.ModuleType('m_odd_names')\n        vars(m).update(odd)\n"
    "        for name in gone: delattr(m, name)\n"
    "        try:\n            from m_odd_names import nothing_there\n"
    "        except Exception as e: r.append((type(e), str(e), getattr(e, 'name', 0), getattr(e, 'path', 0)))\n"
    "del sys.modules['m_odd_names']\n",
    "import_lazily": "import types, sys\nm = types.ModuleType('m_lazy')\nm.__getattr__ = lambda name: print(name) or 7\n"
    "sys.modules['m_lazy'] = m\nfrom m_lazy import a, b\nr = a + b\ndel sys.modules['m_lazy']\n",
    "except_star": "r = []\ntry:\n    raise ExceptionGroup('g', [ValueError(1), KeyError(2), OSError(3)])\n"
    "except* (ValueError, KeyError) as e:\n    r.append(e)\nexcept* OSError:\n    r.append(4)\n",
    "except_star_naked": "r = []\ntry:\n    1 / 0\nexcept* ZeroDivisionError as e:\n    r.append(e)\n",
    "except_star_rest": "try:\n    raise ExceptionGroup('g', [ValueError(1), KeyError(2)])\nexcept* ValueError:\n    pass\n",
    "except_star_raises": "try:\n    raise ExceptionGroup('g', [ValueError(1), KeyError(2)])\nexcept* ValueError:\n    raise\n"
    "except* KeyError:\n    raise OSError(3)\n",
    "except_star_none": "try:\n    raise ValueError(1)\nexcept* KeyError:\n    pass\n",
    "except_star_group": "try:\n    raise ValueError(1)\nexcept* ExceptionGroup:\n    pass\n",
    "except_star_int": "try:\n    raise ValueError(1)\nexcept* 5:\n    pass\n",
    "match_mapping": "from collections import UserDict, ChainMap\ndef f(v):\n    match v:\n        case {1: a, 'x': b, **r}: return a, b, r\n"
    "        case {'x': b}: return b\n        case {}: return 'empty'\nr = [f(v) for v in ({1: 2, 'x': 3, 4: 5}, ChainMap({'x': 1}), {}, 5)]\n",
    "match_duplicate": "class K:\n    a = b = 'x'\nmatch {'x': 1}:\n    case {K.a: 1, K.b: 1}: pass\n",
    "call_errors_star": "def f(*a): pass\nf(*5)\n",
    "call_errors_map": "def f(**a): pass\nf(**5)\n",
    "call_errors_twice": "def f(**a): pass\nf(**{'a': 1}, **{'a': 2})\n",
    "call_errors_key": "def f(**a): pass\nf(**{1: 2})\n",
    "call_errors_named": "def f(a): pass\nf(a=1, **{'a': 2})\n",
    "call_with_mapping": "from collections import UserDict\ndef f(*a, **k): return a, k\nr = f(*[1], **UserDict(x=2)), f(*{3: 1}, y=1, **UserDict(x=2))\n",
    "list_star": "r = [*5]\n",
    "dict_star": "r = {**5}\n",
    "unpack_int": "a, b = 5\n",
    "unpack_rest_int": "a, *b = 5\n",
    "generator_stop": "def g():\n    yield 1\n    raise StopIteration(5)\nlist(g())\n",
    "generator_return": "def g():\n    yield 1\n    return 5\ndef h():\n    r = yield from g()\n    yield r\nr = list(h())\n",
    "yield_from_coroutine": "async def c(): pass\ndef g():\n    yield from c()\nr = list(g())\n",
    "generator_throw": "def g():\n    try:\n        yield 1\n    except ValueError as e:\n        yield str(e)\n    finally:\n        print('f')\n"
    "i = g()\nr = next(i), i.throw(ValueError('x'))\ni.close()\n",
    "generator_throw_new": "def g(): yield 1\ng().throw(ValueError('x'))\n",
    "generator_throw_through": "def g():\n    yield 1\ndef h():\n    yield from g()\ni = h()\nnext(i)\ni.throw(KeyError(1))\n",
    "generator_close_yields": "def g():\n    try:\n        yield 1\n    except GeneratorExit:\n        yield 2\ni = g()\nnext(i)\ni.close()\n",
    "generator_reentered": "def g():\n    yield next(i)\ni = g()\nnext(i)\n",
    "generator_context": "def g():\n    try:\n        yield 1\n    except ValueError:\n        yield 2\n        raise KeyError\ni = g()\nnext(i)\n"
    "try:\n    raise OSError(1)\nexcept OSError:\n    i.throw(ValueError)\n    next(i)\n",
    "yield_from_throw": "def g():\n    try:\n        yield 1\n    except KeyError:\n        return 7\ndef h():\n    r = yield from g()\n    yield r\n"
    "i = h()\nnext(i)\nr = i.throw(KeyError)\n",
    "gen_expression": "r = list(x * y for x in range(3) for y in range(x))\n",
}
SOURCES_312 = {
    "type_parameters": "def f[T: int](x: T) -> T: return x\nclass A[T]:\n    def m(self) -> T: ...\ntype L[T] = list[T]\n"
    "r = f.__type_params__, A.__type_params__, L.__value__, f(3)\n",
    "inlined_comprehension": "x = 5\nr = [x for x in range(3)], x\ndef f():\n    return [y for y in (1, 2)], [lambda: y for y in (1, 2)][0]()\nr2 = f()\n",
}
ASYNC = {
    "await_int": "async def main():\n    await 5\n",
    "await_twice": "async def c():\n    await asyncio.sleep(0)\nasync def main():\n    k = c()\n    t = asyncio.ensure_future(k)\n    await asyncio.sleep(0)\n    await k\n",
    "await_bad": "class B:\n    def __await__(self): return 5\nasync def main():\n    await B()\n",
    "await_coroutine": "async def c(): pass\nclass B:\n    def __await__(self): return c()\nasync def main():\n    await B()\n",
    "for_int": "async def main():\n    async for x in 5: pass\n",
    "for_bad": "class B:\n    def __aiter__(self): return 5\nasync def main():\n    async for x in B(): pass\n",
    "for_bad_next": "class B:\n    def __aiter__(self): return self\n    def __anext__(self): return 5\nasync def main():\n    async for x in B(): pass\n",
    "with_int": "async def main():\n    async with 5: pass\n",
    "with_no_exit": "class B:\n    async def __aenter__(self): pass\nasync def main():\n    async with B(): pass\n",
    "with_bad_enter": "class B:\n    def __aenter__(self): pass\n    async def __aexit__(self, *a): pass\nasync def main():\n    async with B(): pass\n",
    "with_bad_exit": "class B:\n    async def __aenter__(self): pass\n    def __aexit__(self, *a): pass\nasync def main():\n    async with B(): pass\n",
    "generators": "async def g(n):\n    try:\n        for i in range(n):\n            x = yield i\n            print(x)\n            await asyncio.sleep(0)\n"
    "    finally:\n        print('end')\nasync def main():\n    r = [x async for x in g(3)]\n    i = g(2)\n    r.append(await i.asend(None))\n"
    "    r.append(await i.asend(5))\n    await i.aclose()\n    return r, {x: 1 async for x in g(2) if x}\n",
    "generator_stop": "async def g():\n    yield 1\n    raise StopAsyncIteration\nasync def main():\n    return [x async for x in g()]\n",
    "coroutine_stop": "async def main():\n    raise StopIteration\n",
    "throws": "async def g():\n    try:\n        yield 1\n    except ValueError:\n        yield 2\nasync def main():\n    i = g()\n"
    "    return await i.asend(None), await i.athrow(ValueError)\n",
    "tasks": "async def c(n):\n    await asyncio.sleep(0)\n    return n\nasync def main():\n    async with asyncio.TaskGroup() as group:\n"
    "        tasks = [group.create_task(c(i)) for i in range(3)]\n    return [t.result() for t in tasks]\n",
    "task_fails": "async def c(n):\n    await asyncio.sleep(0)\n    raise ValueError(n)\nasync def main():\n    async with asyncio.TaskGroup() as group:\n"
    "        group.create_task(c(1))\n        await asyncio.sleep(5)\n",
    "cancelled": "async def main():\n    try:\n        async with asyncio.timeout(0.001):\n            await asyncio.sleep(5)\n    except TimeoutError as e:\n        return type(e)\n",
    "with_swallows": "class B:\n    async def __aenter__(self): return 1\n    async def __aexit__(self, *a): return True\nasync def main():\n"
    "    async with B() as b:\n        raise ValueError(b)\n    return 5\n",
}
PROGRAMS: dict[str, Callable[..., Any]] = {name: source(text) for name, text in SOURCES.items()}
if sys.version_info >= (3, 12):
    PROGRAMS |= {name: source(text) for name, text in SOURCES_312.items()}
PROGRAMS |= {
    "async_" + name: source("import asyncio\n" + text + "r = asyncio.run(main())\n") for name, text in ASYNC.items()
}


@pytest.mark.parametrize("name", sorted(OURS))
def test_a_function_does_as_under_cpython(name: str) -> None:
    function, args, keywords = FUNCTIONS[name]
    expected = outcome(function, lambda: function(*args, **keywords))
    with all_frames():
        assert outcome(function, lambda: function(*args, **keywords)) == expected


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_program_does_as_under_cpython(name: str) -> None:
    run = PROGRAMS[name]
    expected = outcome(run, run)
    for _ in range(2):
        with all_frames():
            assert outcome(run, run) == expected
    assert outcome(run, run) == expected


def test_a_namespace_that_is_no_dict_is_asked_as_by_cpython() -> None:
    def run() -> Any:
        names = Spoken(x=1)
        exec("y = x\ndel x\nz = len('a')\nw: int = 3", {}, names)

        class A(metaclass=Meta):
            a: int = 1
            b = a
            del a

        try:
            exec("nothing", {}, names)
        except NameError as error:
            print(error)
        try:
            exec("del nothing", {}, names)
        except NameError as error:
            print(error)
        return sorted(names)

    expected = outcome(run, run)
    with all_frames():
        assert outcome(run, run) == expected


def test_generator_objects_can_be_inspected_while_they_wait() -> None:
    def numbers() -> Iterator[int]:
        local = 5
        yield local
        yield from iter([1, 2])

    def seen() -> list[Any]:
        generator = numbers()
        found: list[Any] = [inspect.getgeneratorstate(generator), generator.gi_frame.f_lasti]
        for value in generator:
            frame = generator.gi_frame
            found += [value, inspect.getgeneratorstate(generator), generator.gi_frame.f_lineno, generator.gi_yieldfrom is None]
            found += [dict(frame.f_locals), frame.f_lasti, frame.f_back]
        return [*found, inspect.getgeneratorstate(generator), generator.gi_frame, dict(frame.f_locals)]

    expected = seen()
    with all_frames():
        assert seen() == expected


def test_a_frame_object_outlives_its_generator() -> None:
    def numbers() -> Iterator[Any]:
        value = [1]
        yield sys._getframe()
        value.append(2)

    with all_frames():
        generator = numbers()
        frame = next(generator)
        assert frame is generator.gi_frame  # type: ignore[attr-defined]
        assert list(generator) == []
        assert frame.f_locals == {"value": [1, 2]}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_no_reference_is_lost_or_kept(name: str) -> None:
    run = PROGRAMS[name]
    watched = [None, True, StopIteration, ValueError, ExceptionGroup, types.CodeType]

    def changes() -> list[int]:
        outcome(run, run)
        gc.collect()
        before = [sys.getrefcount(each) for each in watched] + [sys.getallocatedblocks() // 500]
        for _ in range(10):
            outcome(run, run)
        gc.collect()
        after = [sys.getrefcount(each) for each in watched] + [sys.getallocatedblocks() // 500]
        return [b - a for a, b in zip(before, after)]

    plain = changes()
    for _ in range(20):  # the first runs let go of what was kept for the ones before
        with all_frames():
            ours = changes()
        if all(abs(o) <= abs(p) + 6 for o, p in zip(ours, plain)):
            return
    raise AssertionError((ours, plain))


def test_no_reference_to_a_namespace_is_kept() -> None:
    def references() -> list[int]:
        globals_given: dict[str, Any] = {}
        locals_given: dict[str, Any] = {}
        for _ in range(20):
            exec("x = 1", globals_given)
            exec("x = 1", globals_given, locals_given)
        return [sys.getrefcount(globals_given), sys.getrefcount(locals_given)]

    expected = references()
    with all_frames():
        assert references() == expected


def test_nothing_is_handed_over() -> None:
    before = _core.evaluation_counts()
    with all_frames():
        for name in sorted(PROGRAMS):
            outcome(PROGRAMS[name], PROGRAMS[name])
    after = _core.evaluation_counts()
    assert after["evaluated"] > before["evaluated"]
    assert after["handed over"] == before["handed over"]


def test_a_mode_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="no mode 'fast'"):
        evalframe.enable(mode="fast")
    assert not _core.evaluates_all_frames()


def test_the_environment_switches_it_on() -> None:
    program = "import evalframe; print(evalframe._core.evaluates_all_frames(), evalframe.evaluation_counts()['evaluated'] > 0)"
    environment = {**os.environ, "EVALFRAME_MODE": "evaluate"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]
    environment["EVALFRAME_MODE"] = "fast"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert "EVALFRAME_MODE is 'fast'; set it to 'capture' or 'evaluate', or to nothing" in done.stderr


@pytest.mark.parametrize("settings", ["settrace", "setprofile"])
def test_a_callee_that_switches_a_tracer_on_and_raises_is_seen_raising(settings: str) -> None:
    events: list[Any] = []

    def tracer(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_name in ("caller", "callee"):
            events.append((frame.f_code.co_name, event, frame.f_lineno - frame.f_code.co_firstlineno))
        return tracer

    def callee() -> None:
        getattr(sys, settings)(tracer)
        sys._getframe().f_back.f_trace = tracer  # type: ignore[union-attr]
        raise ValueError

    def caller(handles: bool) -> None:
        try:
            callee()
        except (ValueError if handles else KeyError):
            len("")

    def run() -> list[Any]:
        events.clear()
        try:
            caller(True)
            getattr(sys, settings)(None)
            caller(False)
        except ValueError:
            pass
        finally:
            getattr(sys, settings)(None)
        return list(events)

    expected = run()
    with all_frames():
        assert run() == expected


def test_switching_off_gives_the_frames_back() -> None:
    _core.evaluate_all_frames(True)
    _core.evaluate_all_frames(True)
    assert _core.evaluates_all_frames()
    _core.evaluate_all_frames(False)
    assert not _core.evaluates_all_frames()
    _core.evaluate_all_frames(False)
    counts = _core.evaluation_counts()
    asyncio.run(asyncio.sleep(0))
    assert _core.evaluation_counts() == counts


# --- tools: while they have a frame, CPython runs it as without a hook -------------------------------------------------


def monitored(action: Callable[[], Any]) -> list[Any]:
    """The events of all kinds that a tool of sys.monitoring sees in this file."""
    monitoring = sys.monitoring  # type: ignore[attr-defined]
    kinds = [name for name in vars(monitoring.events) if name.isupper() and name not in ("NO_EVENTS", "INSTRUCTION")]
    seen: list[Any] = []

    def listener(kind: str) -> Callable[..., None]:
        def listen(code: types.CodeType, *details: Any) -> None:
            if code.co_filename == __file__:
                seen.append((kind, code.co_name, *(d for d in details if isinstance(d, int)), type(details[-1]).__name__))

        return listen

    monitoring.use_tool_id(3, "test")
    try:
        for kind in kinds:
            monitoring.register_callback(3, getattr(monitoring.events, kind), listener(kind))
        monitoring.set_events(3, sum(getattr(monitoring.events, kind) for kind in kinds))
        action()
        monitoring.set_events(3, 0)
    finally:
        monitoring.set_events(3, 0)
        monitoring.free_tool_id(3)
    return seen


def busy() -> Any:
    """Calls of all kinds, generators, coroutines, exceptions."""

    def counting(n: int) -> Iterator[int]:
        for i in range(n):
            yield i
        yield from (x + 1 for x in range(2))

    async def waits() -> int:
        async def inner() -> int:
            return 5

        class Each:
            def __aiter__(self) -> Any:
                return numbers()

        async def numbers() -> Any:
            yield await inner()

        return sum([x async for x in Each()])

    class Point:
        def __init__(self, x: int) -> None:
            self.x = x

        @property
        def double(self) -> int:
            return self.x * 2

        def __lt__(self, other: Any) -> bool:
            return bool(self.x < other.x)

    def fails() -> None:
        try:
            raise KeyError(1)
        finally:
            len("x")

    total = sum(counting(3)) + Point(4).double
    for value in counting(2):
        total += value
    try:
        waits().send(None)
    except StopIteration as end:
        total += end.value
    try:
        fails()
    except KeyError:
        total += 1
    return total, sorted([Point(2), Point(1)])[0].x, max([1, 2], key=lambda x: -x)


needs_monitoring = pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with 3.12")


@needs_monitoring
def test_a_monitoring_tool_sees_what_it_sees_plainly() -> None:
    expected = monitored(busy)
    assert len(expected) > 100
    with all_frames():
        assert monitored(busy) == expected
    assert monitored(busy) == expected


def evaluated() -> int:
    return int(_core.evaluation_counts()["evaluated"])


def nothing() -> None:
    pass


@pytest.mark.parametrize("way", ["returns", "raises"])
def test_frames_are_ours_again_behind_the_one_that_a_tool_had(way: str) -> None:
    def traced() -> None:
        sys.setprofile(lambda *_: None)
        try:
            nothing()
            if way == "raises":
                raise ValueError
        finally:
            sys.setprofile(None)

    def drive() -> int:
        with contextlib.suppress(ValueError):
            traced()
        before = evaluated()
        for _ in range(5):
            nothing()
        return evaluated() - before

    with all_frames():
        assert drive() >= 5
        assert _core.evaluates_all_frames()


def test_evaluation_can_be_switched_off_and_on_while_a_tool_has_a_frame() -> None:
    def switch(on: bool) -> None:
        sys.setprofile(lambda *_: None)
        nothing()
        _core.evaluate_all_frames(on)
        nothing()
        sys.setprofile(None)

    def count() -> int:
        before = evaluated()
        nothing()
        return evaluated() - before

    try:
        for _ in range(20):
            _core.evaluate_all_frames(True)
            switch(False)
            assert not _core.evaluates_all_frames() and count() == 0
            switch(True)
            assert _core.evaluates_all_frames() and count() > 0
            switch(True)
            assert _core.evaluates_all_frames() and count() > 0
            _core.evaluate_all_frames(False)
            assert count() == 0
    finally:
        sys.setprofile(None)
        _core.evaluate_all_frames(False)


def test_a_hook_installed_while_a_tool_has_a_frame_sees_frames() -> None:
    seen: list[str] = []

    def traced() -> Any:
        sys.setprofile(lambda *_: None)
        nothing()
        hook = evalframe.hook(lambda frame: seen.append(frame.code.co_name))
        nothing()
        sys.setprofile(None)
        return hook

    with all_frames():
        hook = traced()
        nothing()
        hook.remove()
        assert seen.count("nothing") == 2
        before = evaluated()
        nothing()
        assert evaluated() > before


def test_another_thread_goes_on_while_a_tool_has_a_frame_of_this_one() -> None:
    stop = threading.Event()
    rounds = [0]

    def work() -> None:
        while not stop.is_set():
            assert busy()[1] == 1
            rounds[0] += 1

    def traced() -> None:
        sys.setprofile(lambda *_: None)
        until = rounds[0] + 3
        while rounds[0] < until:
            time.sleep(0.001)
        sys.setprofile(None)

    with all_frames():
        thread = threading.Thread(target=work)
        thread.start()
        for _ in range(5):
            traced()
            assert busy()[1] == 1
        stop.set()
        thread.join()
        before = evaluated()
        nothing()
        assert evaluated() > before


def test_other_users_of_data_kept_with_code_are_not_called_for_ours() -> None:
    program = """
import ctypes, sys
from evalframe import _core
_core.evaluate_all_frames(True)
(lambda: 0)()
api = ctypes.pythonapi
request = api.PyUnstable_Eval_RequestCodeExtraIndex if sys.version_info >= (3, 12) else api._PyEval_RequestCodeExtraIndex
freed = []
function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(freed.append)
index = request(function)
for _ in range(10):
    exec(compile("def f(): return 1\\nf()", "<text>", "exec"), {})
print(index >= 0, len(freed))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "0"], done
