"""Signals and asynchronous exceptions: in loops, in long calls of C, in generators, in handlers; and where they are seen to be raised."""

# The programs are odd on purpose.
# ruff: noqa: F841

import _thread
import asyncio
import collections
import contextlib
import ctypes
import functools
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
import traceback


class Stop(Exception):
    pass


def _where(error):
    """The functions and lines (counted from the function's first) of the traceback, without this module's helpers."""
    entries = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        entries.append((code.co_name, line - code.co_firstlineno))
    return entries


def _kill(number=signal.SIGINT):
    os.kill(os.getpid(), number)


@contextlib.contextmanager
def _handling(number, handler):
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def _stop(number, frame):
    raise Stop


# --- Ctrl-C at a place that is known ----------------------------------------------------------------------------------


def _interrupt(n):
    _kill()
    for _ in range(n):
        pass
    return "not reached"


def _call_c():
    signal.raise_signal(signal.SIGINT)
    return "not reached"


def _in_finally():
    try:
        1 / 0
    finally:
        _kill()
        len("")


def _in_except():
    try:
        1 / 0
    except ZeroDivisionError:
        _kill()
        len("")


class _Manager:
    def __init__(self, where):
        self.where = where

    def __enter__(self):
        if self.where == "enter":
            _kill()
            len("")

    def __exit__(self, *error):
        if self.where == "exit":
            _kill()
            len("")
        return False


def _in_with(where):
    with _Manager(where):
        if where == "body":
            _kill()
            len("")


def _in_comprehension():
    return [_kill() or x for x in range(5)]


def _in_generator():
    def generator():
        for i in range(3):
            yield i
            _kill()

    return list(generator())


def _in_generator_expression():
    return sum(_kill() or x for x in range(5))


def _in_sort():
    def key(x):
        if x == 3:
            _kill()
        return x

    return sorted(range(6), key=key)


def _in_comparison():
    class Odd:
        def __lt__(self, other):
            _kill()
            return True

    return sorted([Odd(), Odd()])


def _in_attribute():
    class Odd:
        @property
        def value(self):
            _kill()
            return 1

        def __getattr__(self, name):
            _kill()
            return name

    try:
        return Odd().value
    except KeyboardInterrupt:
        return Odd().other


def _in_class_body():
    class Body:
        first = 1
        _kill()
        second = 2


def _in_decorator():
    def decorate(function):
        _kill()
        return function

    @decorate
    def decorated():
        pass


def _in_import():
    name = "import_that_is_interrupted"
    finder = type("Finder", (), {"find_spec": staticmethod(lambda *_: _kill())})
    sys.meta_path.insert(0, finder)
    try:
        __import__(name)
    finally:
        sys.meta_path.remove(finder)


def _in_del():
    class Odd:
        def __del__(self):
            _kill()

    odd = Odd()
    del odd
    return 1


def _in_loop_after_call():
    i = 0
    while True:
        i += 1
        if i == 100:
            _kill()


async def _wait():
    _kill()
    await asyncio.sleep(0)


def _in_coroutine():
    coroutine = _wait()
    coroutine.send(None)


async def _iterate():
    async def generator():
        yield 1
        _kill()
        yield 2

    return [x async for x in generator()]


def _in_async_generator():
    _iterate().send(None)


def _in_async_with():
    class Manager:
        async def __aenter__(self):
            _kill()

        async def __aexit__(self, *error):
            pass

    async def main():
        async with Manager():
            pass

    main().send(None)


def _in_yield_from():
    def inner():
        yield 1
        _kill()
        yield 2

    def outer():
        yield from inner()

    return list(outer())


def _in_star_call():
    def generator():
        yield 1
        _kill()
        yield 2

    return max(*generator())


def _in_recursion():
    def deep(n):
        if n == 0:
            _kill()
            return 0
        return deep(n - 1)

    return deep(20)


def _in_map():
    return list(map(lambda x: _kill() or x, range(3)))


PLACES = [
    (_interrupt, 3), (_interrupt, 0), (_call_c,), (_in_finally,), (_in_except,), (_in_with, "enter"), (_in_with, "body"), (_in_with, "exit"),
    (_in_comprehension,), (_in_generator,), (_in_generator_expression,), (_in_sort,), (_in_comparison,), (_in_attribute,), (_in_class_body,),
    (_in_decorator,), (_in_import,), (_in_del,), (_in_loop_after_call,), (_in_coroutine,), (_in_async_generator,), (_in_async_with,),
    (_in_yield_from,), (_in_star_call,), (_in_recursion,), (_in_map,),
]  # fmt: skip


def _told(function, *arguments):
    try:
        return function.__name__, arguments, "value", repr(function(*arguments))[:100]
    except BaseException as error:
        context = error.__context__
        return function.__name__, arguments, type(error).__name__, _where(error)[1:], context and (type(context).__name__, _where(context))


def interrupts_are_raised_at_the_same_places():
    import warnings

    warnings.simplefilter("ignore")
    unraisable = []
    sys.unraisablehook = lambda told: unraisable.append((told.exc_type.__name__, _where(told.exc_value)))
    # The second time caches are warm.
    return [[_told(*place) for place in PLACES] for _ in range(3)], unraisable


def handlers_see_the_frame_they_interrupt():
    seen = []

    def handler(number, frame):
        line = frame.f_lineno - frame.f_code.co_firstlineno
        names = {name: value for name, value in frame.f_locals.items() if isinstance(value, int)}
        seen.append((frame.f_code.co_name, line, frame.f_back.f_code.co_name, sorted(names.items()), sys._getframe().f_back is frame))

    def loop(n):
        total = 0
        for i in range(n):
            total += i
            if i == 2:
                _kill(signal.SIGUSR1)
            total += 1
        return total

    def generator():
        x = 1
        _kill(signal.SIGUSR1)
        yield x
        x = 2
        signal.raise_signal(signal.SIGUSR1)
        yield x

    class Body:
        pass

    with _handling(signal.SIGUSR1, handler):
        results = [loop(4), list(generator()), [_kill(signal.SIGUSR1) for i in range(2)], sorted([2, 1], key=lambda x: _kill(signal.SIGUSR1) or x)]
        exec("def made(a):\n    b = a\n    for _ in range(3):\n        kill(SIGUSR1)\n    return b\nmade(5)", {"kill": _kill, "SIGUSR1": signal.SIGUSR1})
    return results, seen


def handlers_change_what_is_running():
    results = []

    def handler(number, frame):
        global changing
        changing += 100
        Thing.value += 100
        Thing.method = lambda self: "changed"
        sys.modules[__name__].__dict__["len"] = lambda x: "hidden"

    class Thing:
        value = 0

        def method(self):
            return "method"

    def loop():
        thing = Thing()
        for i in range(6):
            if i == 3:
                _kill(signal.SIGUSR1)
            results.append((changing, thing.value, thing.method(), len("")))

    with _handling(signal.SIGUSR1, handler):
        loop()
    del sys.modules[__name__].__dict__["len"]
    return results


changing = 0


def handlers_raise_in_a_row():
    """The handler's own code is interrupted, and what it raises has what was being handled as its context."""
    results = []

    def first(number, frame):
        try:
            _kill(signal.SIGUSR2)
            len("")
        finally:
            results.append("first")
        raise KeyError

    def second(number, frame):
        results.append("second")
        raise OSError

    def run():
        try:
            1 / 0
        except ZeroDivisionError:
            _kill(signal.SIGUSR1)
            len("")

    with _handling(signal.SIGUSR1, first), _handling(signal.SIGUSR2, second):
        try:
            run()
        except BaseException as error:
            while error:
                results.append((type(error).__name__, _where(error)))
                error = error.__context__
    return results


def handlers_switch_tracers_on():
    events = []

    def tracer(frame, event, argument):
        if frame.f_code.co_name in ("loop", "step", "generator"):
            events.append((frame.f_code.co_name, event, frame.f_lineno - frame.f_code.co_firstlineno))
        return tracer

    def handler(number, frame):
        while frame:
            frame.f_trace = tracer
            frame = frame.f_back
        getattr(sys, tool)(tracer)

    def step(i):
        return i + 1

    def generator():
        yield 1
        _kill(signal.SIGUSR1)
        yield 2
        yield step(2)

    def loop():
        total = 0
        for i in range(4):
            if i == 1:
                _kill(signal.SIGUSR1)
            total += step(i)
        return total

    results = []
    with _handling(signal.SIGUSR1, handler):
        for tool in ("settrace", "setprofile"):
            for function in (loop, lambda: list(generator())):
                events.clear()
                result = function()
                sys.settrace(None)
                sys.setprofile(None)
                results.append((tool, result, list(events)))
    return results


def handlers_run_generators_and_exceptions():
    results = []

    def generator():
        try:
            for i in range(5):
                yield i
        finally:
            results.append("closed")

    shared = generator()

    def handler(number, frame):
        try:
            results.append(next(shared))
            raise ValueError
        except ValueError as error:
            results.append(sys.exc_info()[1] is error)

    def loop():
        try:
            raise KeyError(1)
        except KeyError as error:
            for _ in range(3):
                _kill(signal.SIGUSR1)
                results.append(sys.exc_info()[1] is error)
        return sum(shared)

    with _handling(signal.SIGUSR1, handler):
        return loop(), results


def handlers_that_resume_what_is_running():
    def handler(number, frame):
        try:
            next(running)
        except ValueError as error:
            results.append(str(error))
        try:
            running.close()
        except ValueError as error:
            results.append(str(error))
        try:
            frame.clear()
        except RuntimeError as error:
            results.append(str(error))

    def generator():
        yield 1
        _kill(signal.SIGUSR1)
        yield 2

    results = []
    running = generator()
    with _handling(signal.SIGUSR1, handler):
        return list(running), results


# --- Ctrl-C by a clock ------------------------------------------------------------------------------------------------


def _forever():
    while True:
        pass


def _counting():
    i = 0
    while True:
        i += 1


def _for_ever():
    from itertools import count, repeat

    for x in repeat(None):
        pass


def _calling():
    def nothing():
        pass

    while True:
        nothing()


def _calling_methods():
    class Thing:
        def __init__(self):
            self.value = 1

        def method(self):
            return self.value

    while True:
        Thing().method()


def _catching():
    while True:
        try:
            raise ValueError
        except ValueError:
            continue


def _generating():
    def generator():
        while True:
            yield 1

    for _ in generator():
        pass


def _summing():
    def generator():
        while True:
            yield 1

    return sum(generator())


def _one_generator():
    def generator():
        while True:
            pass
        yield 1

    return list(generator())


def _sorting():
    while True:
        sorted(range(100), key=lambda x: -x)


def _sleeping():
    time.sleep(100)


def _selecting():
    select.select([], [], [], 100)


def _locking():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def _joining():
    event = threading.Event()
    thread = threading.Thread(target=event.wait, daemon=True)
    thread.start()
    try:
        thread.join()
    finally:
        event.set()


def _waiting_for_input():
    reading, writing = os.pipe()
    os.read(reading, 1)


def _matching():
    while True:
        re.match(r"(a*)*b", "a" * 14)


def _comprehending():
    while True:
        [x for x in range(100)]
        {x: x for x in range(100)}


def _reducing():
    while True:
        functools.reduce(lambda a, b: a + b, range(100))


def _recursing():
    def deep(n):
        return n and deep(n - 1)

    while True:
        deep(50)


def _class_bodies():
    while True:

        class Body:
            x = 1


def _awaiting():
    async def inner():
        return 1

    async def outer():
        while True:
            await inner()

    outer().send(None)


def _in_jumping_back():
    x = 5
    while x:
        if x > 3:
            continue


def _matching_values():
    while True:
        match 1, 2:
            case (1, x):
                pass


def _with_blocks():
    @contextlib.contextmanager
    def manager():
        yield

    while True:
        with manager():
            pass


LOOPS = [
    _forever, _counting, _for_ever, _calling, _calling_methods, _catching, _generating, _summing, _one_generator, _sorting, _sleeping, _selecting,
    _locking, _joining, _waiting_for_input, _matching, _comprehending, _reducing, _recursing, _class_bodies, _awaiting, _in_jumping_back,
    _matching_values, _with_blocks,
]  # fmt: skip


def loops_are_interrupted_by_a_clock():
    told = []
    for handler, number, clock in ((signal.default_int_handler, signal.SIGALRM, signal.ITIMER_REAL), (_stop, signal.SIGALRM, signal.ITIMER_REAL)):
        for loop in LOOPS:
            with _handling(number, handler):
                signal.setitimer(clock, 0.03)
                try:
                    loop()
                except (KeyboardInterrupt, Stop) as error:
                    told.append((loop.__name__, type(error).__name__))
                signal.setitimer(clock, 0)
    return told


def _many_interrupts(work, seconds):
    """Interrupted again and again at any place; nothing may break."""
    count = 0
    end = time.monotonic() + seconds
    with _handling(signal.SIGALRM, _stop):
        while time.monotonic() < end:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0002)
                try:
                    while True:
                        work()
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except Stop:
                count += 1
            except RuntimeError as error:
                # Thrown out of the handler of another one.
                assert "Stop" in str(error) or "generator" in str(error), error
            finally:
                while True:
                    try:
                        signal.setitimer(signal.ITIMER_REAL, 0)
                        break
                    except Stop:
                        pass
    return count > 20


def any_place_is_interrupted():
    class Thing:
        def __init__(self, n):
            self.n = n
            self.items = [n]

        def method(self, n):
            return self.n if n == 0 else self.method(n - 1)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.items.clear()

        @property
        def value(self):
            return self.n

    def generator(n):
        try:
            for i in range(n):
                yield i
        finally:
            len("")

    def delegate(n):
        yield from generator(n)

    async def inner(n):
        return n

    async def outer(n):
        total = 0
        for i in range(n):
            total += await inner(i)
        return total

    def work():
        with Thing(3) as thing:
            assert thing.method(5) == 3 and thing.value == 3
            assert sum(delegate(5)) == 10
        try:
            try:
                raise ValueError(1)
            except ValueError as error:
                raise KeyError(2) from error
        except KeyError as error:
            assert error.__cause__.args == (1,)
        coroutine = outer(4)
        try:
            coroutine.send(None)
        except StopIteration as end:
            assert end.value == 6
        assert sorted([3, 1, 2], key=lambda x: -x) == [3, 2, 1]
        assert {k: [v for v in range(k)] for k in range(3)} == {0: [], 1: [0], 2: [0, 1]}
        assert (lambda *a, **k: (a, k))(1, *[2], x=3, **{"y": 4}) == ((1, 2), {"x": 3, "y": 4})

    return _many_interrupts(work, 1.5)


def any_place_is_interrupted_and_goes_on():
    """The handler runs a lot of code, and raises nothing: no value is disturbed."""
    count = 0

    def handler(number, frame):
        nonlocal count, handling
        if handling:
            return
        handling = True
        count += 1
        list(generator(3))
        try:
            raise ValueError
        except ValueError:
            pass
        frame.f_locals
        traceback.extract_stack(frame, 3)
        handling = False

    def generator(n):
        for i in range(n):
            yield i

    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    handling = False
    numbers = set()
    end = time.monotonic() + 1
    with _handling(signal.SIGALRM, handler):
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        while time.monotonic() < end:
            assert fib(12) == 144
            assert list(generator(10)) == [*range(10)]
            x = 0.5
            for i in range(100):
                x = x * 1.5 + i
                x = x / 1.5
            numbers.add(x)
        signal.setitimer(signal.ITIMER_REAL, 0)
        len("")
    return count > 20, numbers


# --- exceptions that another thread sets ------------------------------------------------------------------------------


def _raise_in(thread_id, kind):
    return ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(kind))


def asynchronous_exceptions():
    told = []

    def one(loop, kind):
        begun = threading.Event()

        def run():
            begun.set()
            try:
                loop()
            except BaseException as error:
                told.append((loop.__name__, type(error).__name__, "service_breaker" in str(_where(error))))

        thread = threading.Thread(target=run)
        thread.start()
        begun.wait()
        time.sleep(0.005)
        assert _raise_in(thread.ident, kind) == 1
        thread.join()

    waiting_in_c = {_sleeping, _selecting, _locking, _joining, _waiting_for_input}
    for loop in LOOPS:
        if loop not in waiting_in_c:
            one(loop, Stop)
            one(loop, KeyboardInterrupt)
    return told


def asynchronous_exceptions_in_ones_own_thread():
    def loop(where_to):
        raised = 0
        for i in range(5):
            try:
                if i == 2:
                    _raise_in(threading.get_ident(), Stop)
                    len("")
            except Stop:
                raised += 1
        return raised

    def generator():
        yield 1
        try:
            _raise_in(threading.get_ident(), Stop)
            while True:
                pass
        except Stop:
            yield 2

    return loop(None), list(generator())


def asynchronous_exceptions_in_many_threads():
    """Each thread is hit again and again, and goes on."""
    stop = []
    hits = collections.Counter()

    def generator(n):
        try:
            for i in range(n):
                yield i
        except Stop:
            yield -1

    def work():
        mine = threading.get_ident()
        while not stop:
            try:
                while not stop:
                    sum(generator(10))
                    sorted(range(5), key=lambda x: -x)
            except Stop:
                hits[mine] += 1

    threading.excepthook = sys.unraisablehook = lambda told: None  # one may be hit where it doesn't expect it, and end
    threads = [threading.Thread(target=work) for _ in range(8)]
    sys.setswitchinterval(1e-5)
    for thread in threads:
        thread.start()
    for _ in range(200):
        for thread in threads:
            _raise_in(thread.ident, Stop)
        time.sleep(0.0005)
    stop.append(True)
    for thread in threads:
        thread.join()
    return len(hits) > 4


def main_is_interrupted_by_a_thread():
    told = []
    for loop in LOOPS:
        timer = threading.Timer(0.02, _thread.interrupt_main)
        # Calls that block go on until a real signal comes.
        if loop in (_sleeping, _selecting, _locking, _joining, _waiting_for_input):
            continue
        timer.start()
        try:
            loop()
        except BaseException as error:
            told.append((loop.__name__, type(error).__name__))
        timer.join()
    return told


# --- the end of the process -------------------------------------------------------------------------------------------


def _in_a_process(program):
    begin = "from evalframe import _core; _core.evaluate_all_frames(True)\n" if "evalframe" in sys.modules else "\n"
    done = subprocess.run([sys.executable, "-c", begin + program], capture_output=True, text=True, timeout=60)
    lines = [re.sub("0x[0-9a-f]+", "0x", line) for line in done.stderr.splitlines() if "^" not in line]
    return done.returncode, done.stdout, lines


def nobody_handles_an_interrupt():
    loop = "import os, signal\ndef loop():\n    os.kill(os.getpid(), signal.SIGINT)\n    while True:\n        pass\n"
    at_exit = "import atexit\natexit.register(lambda: print('at exit'))\n"
    in_del = "class Odd:\n    def __del__(self):\n        os.kill(os.getpid(), signal.SIGINT)\n        len('')\nodd = Odd()\ndel odd\nprint(1)\n"
    return [_in_a_process(program) for program in (loop + "loop()\n", loop + at_exit + "loop()\n", loop + in_del)]


def pending_calls_run():
    called = []
    kind = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)

    @kind
    def pending(argument):
        called.append(sum(x for x in range(4)))
        return 0

    for _ in range(3):
        ctypes.pythonapi.Py_AddPendingCall(pending, None)
        for _ in range(3):
            len("")
    return called
