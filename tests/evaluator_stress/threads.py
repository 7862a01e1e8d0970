"""Threads at once: values rebound under hot caches, generators handed around, exceptions, locks, ends of threads and of the process."""

import asyncio
import builtins
import collections
import concurrent.futures
import contextvars
import functools
import gc
import multiprocessing
import os
import queue
import subprocess
import sys
import threading
import time
import traceback
import types

from threads_at_once import run_in_threads

MANY = 16
here = sys.modules[__name__]


def _at_once(*work, interval=1e-6):
    """Runs each in a thread of its own; what they raised."""
    failures = run_in_threads(*work, switch_interval=interval)
    return ["".join(traceback.format_exception(error)) for error in failures]


# --- what one thread rebinds, the others see at once ------------------------------------------------------------------

shared_global = 0


class Owner:
    attribute = 0

    def method(self):
        return 0

    @classmethod
    def of_class(cls):
        return cls.attribute

    @property
    def computed(self):
        return self.attribute


class Child(Owner):
    pass


class Slotted:
    __slots__ = ("value",)


owner = Owner()
child = Child()
slotted = Slotted()
bag = types.SimpleNamespace(value=0)
module = types.ModuleType("module")
module.value = 0


def _function(value=0):
    return value


def _write_global(i):
    global shared_global
    shared_global = i


def _read_global():
    return shared_global


def _write_namespace(i):
    here.__dict__["shared_global"] = i


def _write_by_exec(i):
    exec(f"shared_global = {i}", globals())


builtins.shared_builtin = 0


def _write_builtin(i):
    builtins.shared_builtin = i


def _read_builtin():
    return shared_builtin  # noqa: F821


def _write_hiding(i):
    """A global of the same name comes and goes."""
    builtins.sometimes = i
    here.__dict__["sometimes"] = i
    del here.__dict__["sometimes"]


def _read_hiding():
    return sometimes  # noqa: F821


def _write_attribute(i):
    owner.value = i


def _read_attribute():
    return owner.value


def _write_by_dict(i):
    owner.__dict__["value"] = i


def _write_new_dict(i):
    owner.__dict__ = {"value": i}


def _write_class_attribute(i):
    Owner.attribute = i


def _read_class_attribute():
    return Owner.attribute


def _read_through_instance():
    return owner.attribute


def _read_through_child():
    return child.attribute


def _read_through_child_class():
    return Child.attribute


def _read_by_classmethod():
    return Child.of_class()


def _read_by_property():
    return child.computed


def _write_method(i):
    Owner.method = lambda self: i


def _read_method():
    return owner.method()


def _read_childs_method():
    return child.method()


def _write_own_method(i):
    """On the class, then on the instance, which hides it."""
    Owner.method = lambda self: i
    owner.method = lambda: i


def _write_hidden_method(i):
    Owner.method = lambda self: i
    owner.method = lambda: i
    del owner.method


def _write_bases(i):
    parent = type("Parent", (Owner,), {"method": lambda self: i})
    Child.__bases__ = (parent,)


def _write_class_of_object(i):
    child.__class__ = type("Other", (Owner,), {"method": lambda self: i, "attribute": i})


def _write_slot(i):
    slotted.value = i


def _read_slot():
    return slotted.value


def _write_bag(i):
    bag.value = i


def _read_bag():
    return bag.value


def _write_module(i):
    module.value = i


def _read_module():
    return module.value


def _write_defaults(i):
    _function.__defaults__ = (i,)


def _read_defaults():
    return _function()


CODES = [eval(f"lambda: {i}").__code__ for i in range(2000)]
coded = eval("lambda: 0")


def _write_code(i):
    coded.__code__ = CODES[i]


def _read_code():
    return coded()


def _closures():
    value = 0

    def write(i):
        nonlocal value
        value = i

    def read():
        return value

    def inner():
        return (lambda: value)()

    return [(write, read), (write, inner)]


class Constructed:
    def __init__(self):
        self.made = 0


def _write_initializer(i):
    def __init__(self):
        self.made = i

    Constructed.__init__ = __init__


def _read_initializer():
    return Constructed().made


items = {"key": 0}
row = [0]


def _write_items(i):
    items["key"] = i
    row[0] = i


def _read_items():
    return items["key"]


def _read_row():
    return row[0]


REBINDINGS = {
    "globals": [(_write_global, _read_global)],
    "namespace": [(_write_namespace, _read_global)],
    "exec": [(_write_by_exec, _read_global)],
    "builtins": [(_write_builtin, _read_builtin), (_write_hiding, _read_hiding)],
    "attributes": [(_write_attribute, _read_attribute), (_write_bag, _read_bag), (_write_slot, _read_slot)],
    "dicts": [(_write_by_dict, _read_attribute), (_write_new_dict, _read_attribute)],
    "class_attributes": [
        (_write_class_attribute, read)
        for read in (_read_class_attribute, _read_through_instance, _read_through_child, _read_through_child_class, _read_by_classmethod, _read_by_property)
    ],
    "methods": [(_write_method, _read_method), (_write_method, _read_childs_method), (_write_own_method, _read_method), (_write_hidden_method, _read_method)],
    "bases": [(_write_bases, _read_childs_method)],
    "classes_of_objects": [(_write_class_of_object, _read_childs_method), (_write_class_of_object, _read_through_child)],
    "modules": [(_write_module, _read_module)],
    "functions": [(_write_defaults, _read_defaults), (_write_code, _read_code)],
    "closures": _closures(),
    "initializers": [(_write_initializer, _read_initializer)],
    "items": [(_write_items, _read_items), (_write_items, _read_row)],
}


def _no_stale_value(write, read, turns):
    """What was written before a read began, or something newer."""
    write(0)
    newest = [0]
    stop = []

    def writer():
        try:
            for i in range(1, turns):
                write(i)
                newest[0] = i
        finally:
            stop.append(True)

    def reader():
        last = 0
        while not stop:
            least = newest[0]
            for _ in range(5):
                got = read()
                assert got >= least and got >= last, (read.__name__, got, least, last)
                last = got

    failures = _at_once(writer, *[reader] * (MANY - 1))
    assert not failures, failures[0]
    assert read() == turns - 1
    return turns - 1


def _rebinding(kind, turns=1000):
    return [_no_stale_value(write, read, turns) for write, read in REBINDINGS[kind]]


for _kind in REBINDINGS:
    globals()["rebinding_of_" + _kind] = functools.partial(_rebinding, _kind)


def all_rebound_at_once():
    """All writers and readers beside each other: their caches are invalidated all the time."""
    pairs = [pair for kind in ("globals", "attributes", "class_attributes", "modules", "methods", "items") for pair in REBINDINGS[kind][:1]]
    stop = []
    for writer, _ in pairs:
        writer(0)

    def write():
        for i in range(300):
            for writer, _ in pairs:
                writer(i)
        stop.append(True)

    def read():
        while not stop:
            for _, reader in pairs:
                assert isinstance(reader(), int)

    return _at_once(write, *[read] * MANY)


# --- generators and exceptions ----------------------------------------------------------------------------------------


def generators_are_passed_around():
    def count(n):
        try:
            for i in range(n):
                try:
                    raise ValueError(i)
                except ValueError as error:
                    yield error.args[0]
        finally:
            ended.append(n)

    def delegate(n):
        yield from count(n)

    ended = []
    waiting = queue.SimpleQueue()
    sums = collections.Counter()
    lock = threading.Lock()
    for which in range(40):
        waiting.put((which, delegate(50 + which)))

    def work():
        while True:
            try:
                which, generator = waiting.get_nowait()
            except queue.Empty:
                return
            for value in generator:
                with lock:
                    sums[which] += value
                waiting.put((which, generator))
                break

    failures = _at_once(*[work] * MANY)
    while not waiting.empty():
        which, generator = waiting.get()
        sums[which] += sum(generator)
    return failures, sorted(sums.items()), sorted(ended)


def one_generator_in_all_threads():
    def count():
        i = 0
        while True:
            yield i
            i += 1

    generator = count()
    seen = [[] for _ in range(MANY)]

    def work(mine):
        while len(mine) < 300:
            try:
                mine.append(next(generator))
            except ValueError as error:
                assert str(error) == "generator already executing"

    failures = _at_once(*[functools.partial(work, mine) for mine in seen])
    values = sorted(value for mine in seen for value in mine)
    return failures, values == list(range(len(values))), all(mine == sorted(mine) for mine in seen)


def generators_end_in_other_threads():
    ended = []

    def wait(n):
        try:
            while True:
                yield n
        finally:
            ended.append(n)

    def begin():
        for n in range(50):
            generator = wait(n)
            next(generator)
            waiting.put(generator)

    def end():
        for n in range(50):
            generator = waiting.get()
            if n % 3 == 0:
                generator.close()
            elif n % 3 == 1:
                try:
                    generator.throw(KeyError(n))
                except KeyError:
                    pass
            del generator

    waiting = queue.Queue()
    failures = _at_once(*[begin] * 8, *[end] * 8)
    gc.collect()
    return failures, sorted(ended) == sorted(list(range(50)) * 8)


def each_thread_has_its_exceptions():
    def deep(which, n):
        if n:
            try:
                return deep(which, n - 1)
            except ValueError as error:
                assert sys.exc_info()[1] is error and error.args[0] == which
                raise KeyError(which) from error
            finally:
                assert sys.exc_info()[1].args[0] == which
        raise ValueError(which)

    def generator(which):
        try:
            raise OSError(which)
        except OSError as error:
            for _ in range(5):
                yield sys.exc_info()[1] is error

    def work(which):
        for _ in range(60):
            assert sys.exc_info()[1] is None
            try:
                deep(which, 1)
            except KeyError as error:
                assert type(error.__cause__) is ValueError and error.__context__ is error.__cause__
                assert all(generator(which)) and sys.exc_info()[1] is error

    return _at_once(*[functools.partial(work, i) for i in range(MANY)]), _at_once(*[functools.partial(_generator_of_exceptions, i) for i in range(MANY)])


def _generator_of_exceptions(which):
    def inner():
        while True:
            try:
                yield
            except ValueError as error:
                assert error.args == (which,)

    generator = inner()
    next(generator)
    for _ in range(200):
        try:
            raise KeyError(which)
        except KeyError as error:
            generator.throw(ValueError(which))
            assert sys.exc_info()[1] is error


def uncaught_exceptions_are_told():
    told = []
    threading.excepthook = lambda args: told.append((args.exc_type.__name__, str(args.exc_value), len(traceback.extract_tb(args.exc_traceback))))

    def fail(n):
        if n:
            fail(n - 1)
        raise ValueError("told")

    threads = [threading.Thread(target=fail, args=(n,)) for n in range(MANY)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(told)


# --- what the library has for threads ---------------------------------------------------------------------------------


def local_values():
    class Mine(threading.local):
        made = 0

        def __init__(self, start):
            self.value = start

    local, mine = threading.local(), Mine(5)

    def work(which):
        local.value = which
        for i in range(300):
            mine.value += 1
            mine.made = i
            assert local.value == which and mine.value == 6 + i and mine.made == i

    return _at_once(*[functools.partial(work, i) for i in range(MANY)]), mine.value, hasattr(local, "value"), mine.made


def locks_and_conditions():
    total = 0
    lock, condition, semaphore, event, barrier = threading.RLock(), threading.Condition(), threading.Semaphore(3), threading.Event(), threading.Barrier(MANY)
    turn = 0
    order = []

    def work(which):
        nonlocal total, turn
        barrier.wait()
        for _ in range(100):
            with lock, lock:
                before = total
                len("")
                total = before + 1
        with condition:
            condition.wait_for(lambda: turn == which)
            order.append(which)
            turn += 1
            condition.notify_all()
        with semaphore:
            time.sleep(0)
        if which == MANY - 1:
            event.set()
        event.wait()

    return _at_once(*[functools.partial(work, i) for i in range(MANY)]), total, order


def queues_and_pools():
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    with concurrent.futures.ThreadPoolExecutor(MANY) as pool:
        sys.setswitchinterval(1e-6)
        values = list(pool.map(fib, [10] * 40))
        future = pool.submit(lambda: 1 / 0)
        error = repr(future.exception())
    given, taken = queue.Queue(3), queue.PriorityQueue()

    def produce():
        for i in range(50):
            given.put(i)
        given.put(None)

    def consume():
        while (value := given.get()) is not None:
            taken.put(value)

    failures = _at_once(*[produce] * 8, *[consume] * 8)
    return set(values), error, failures, taken.qsize(), [taken.get() for _ in range(20)]


def contexts_and_event_loops():
    variable = contextvars.ContextVar("variable", default=-1)

    async def task(which):
        variable.set(which)
        for _ in range(10):
            await asyncio.sleep(0)
            assert variable.get() == which
        return await asyncio.to_thread(lambda: variable.get())

    async def main(which):
        return await asyncio.gather(*[task(which * 10 + i) for i in range(5)])

    found = []
    failures = _at_once(*[lambda which=which: found.append(asyncio.run(main(which))) for which in range(4)])
    return failures, sorted(found), variable.get()


def others_look_at_frames():
    """Frame objects are made of frames that run in other threads, and outlive them."""
    stop = []
    kept = collections.deque(maxlen=50)

    def busy(n):
        local = [n]
        total = 0
        for i in range(20):
            total += i
            local.append(total)
        return total if n == 0 else busy(n - 1) + sum(k for k in range(3))

    def work():
        while not stop:
            assert busy(6) == 190 + 18

    def look():
        for _ in range(150):
            for frame in sys._current_frames().values():
                kept.append(frame)
                while frame:
                    # 3.11 and 3.12: the frame of another thread may be between two instructions.
                    names = frame.f_code.co_name, frame.f_lineno, frame.f_lasti, len(frame.f_locals)
                    assert names[0]
                    frame = frame.f_back
            traceback.extract_stack()
        stop.append(True)

    failures = _at_once(look, *[work] * 8)
    for frame in set(kept):
        if frame.f_code is busy.__code__:
            assert frame.f_locals["n"] in range(7)
            frame.clear()
    return failures


# --- ends -------------------------------------------------------------------------------------------------------------


def threads_end_in_deep_frames():
    import _thread

    left = []

    def leave(n, how):
        try:
            return n and leave(n - 1, how) or how()
        finally:
            left.append(n)

    def by_exit():
        leave(5, _thread.exit)

    def by_system_exit():
        leave(5, sys.exit)

    def in_generator():
        def generator():
            try:
                yield leave(2, sys.exit)
            finally:
                left.append("generator")

        list(generator())

    threads = [threading.Thread(target=each) for each in (by_exit, by_system_exit, in_generator) * 5]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(map(str, left))


def threads_of_c():
    """Threads that no Python code has begun, and whose state comes and goes with each call."""
    import ctypes

    kind = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
    called = []

    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    @kind
    def entry(argument):
        called.append(fib(12) + sum(x for x in range(5)))
        return 0

    pthreads = ctypes.CDLL(None)
    for _ in range(10):
        threads = [ctypes.c_ulong() for _ in range(8)]
        for thread in threads:
            assert pthreads.pthread_create(ctypes.byref(thread), None, entry, None) == 0
        for thread in threads:
            pthreads.pthread_join(thread, None)
    return collections.Counter(called)


def _in_a_process(program, *arguments):
    """In a process of its own that evaluates as this one does."""
    begin = "from evalframe import _core; _core.evaluate_all_frames(True)\n" if "evalframe" in sys.modules else ""
    done = subprocess.run([sys.executable, *arguments, "-c", begin + program], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr[-1000:]


DAEMONS = """
import sys, threading, time
sys.setswitchinterval(1e-6)
class Thing:
    def method(self, n): return n and self.method(n - 1)
def generator():
    while True: yield [x for x in range(3)]
def loop():
    thing = Thing()
    for _ in generator():
        thing.method(5)
        try: raise ValueError
        except ValueError: pass
def wait():
    time.sleep(1000)
for each in [loop] * 14 + [wait] * 2:
    threading.Thread(target=each, daemon=True).start()
time.sleep(0.05)
"""


def daemons_at_exit():
    return [_in_a_process(DAEMONS + end) for end in ("print('end')", "sys.exit(3)", "import atexit; atexit.register(lambda: [time.sleep(0.01), print('at exit')])")]


def daemons_and_an_error():
    code, out, err = _in_a_process(DAEMONS + "1 / 0")
    return code, out, err.strip().splitlines()[-1]


# --- forks ------------------------------------------------------------------------------------------------------------


def fork_in_deep_frames():
    def deep(n):
        if n:
            return deep(n - 1) + 1
        child = os.fork()
        if child == 0:
            return 0
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    parent = os.getpid()
    found = []

    def generator():
        yield deep(10)

    for value in generator():
        if os.getpid() != parent:
            os._exit(value + 20)
        found.append(value)
    return found


def fork_beside_threads():
    stop = []

    def busy():
        while not stop:
            sum(x for x in range(10))

    def forking():
        try:
            for _ in range(5):
                child = os.fork()
                if child == 0:
                    thread = threading.Thread(target=lambda: codes.append(sum([x * x for x in range(10)])))
                    thread.start()
                    thread.join()
                    os._exit(codes[-1] % 100)
                codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        finally:
            stop.append(True)

    import warnings

    warnings.simplefilter("ignore")
    codes = []
    return _at_once(forking, *[busy] * 8), codes


def _square(x):
    return x * x


def pools_of_processes():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(_square, range(20))


# --- switching evaluation and tools on and off ----------------------------------------------------------------------------


def evaluation_comes_and_goes(evaluate):
    stop = []

    def gen(n):
        for i in range(n):
            try:
                yield i
            except KeyError:
                yield -i

    class Thing:
        def __init__(self, n):
            self.n = n

        def rec(self, n):
            return self.n if n == 0 else self.rec(n - 1)

    def work():
        turns = 0
        while not stop or turns < 3:
            turns += 1
            generator = gen(5)
            assert [next(generator), generator.throw(KeyError), *generator] == [0, 0, 1, 2, 3, 4]
            assert Thing(turns).rec(10) == turns
            try:
                Thing(1).rec("")
            except TypeError as error:
                assert len(traceback.extract_tb(error.__traceback__)) == 2

    def toggle():
        for i in range(40):
            evaluate(i % 2 == 1)
            time.sleep(0.0005)
        stop.append(True)

    return _at_once(toggle, *[work] * MANY)


def tools_come_and_go():
    """Tracers and profilers of one thread beside others that have none."""
    stop = []
    wrong = []

    def step(n):
        total = 0
        for i in range(n):
            total += i
        return total

    def gen(n):
        for i in range(n):
            yield step(i)

    def work():
        turns = 0
        while not stop or turns < 3:
            turns += 1
            assert list(gen(6)) == [0, 0, 1, 3, 6, 10]

    def traced():
        for turn in range(60):
            events = collections.Counter()

            def tracer(frame, event, argument):
                if frame.f_code in (step.__code__, gen.__code__):
                    events[event] += 1
                return tracer

            (sys.settrace if turn % 2 else sys.setprofile)(tracer)
            list(gen(3))
            sys.settrace(None)
            sys.setprofile(None)
            wrong.append(tuple(sorted(events.items())))
        stop.append(True)

    return _at_once(traced, *[work] * 8), sorted(set(wrong))


def tools_of_all_threads():
    """threading.settrace_all_threads: the frames of others that run now are to be seen, too (3.12+)."""
    if sys.version_info < (3, 12):
        return None
    stop = []
    seen = collections.Counter()

    def step(n):
        return n + 1

    def work():
        while not stop:
            for i in range(5):
                step(i)

    def profiler(frame, event, argument):
        if frame.f_code is step.__code__:
            seen[threading.get_ident(), event] += 1  # each thread its own: CPython may switch threads in the middle of it

    def switch():
        for _ in range(20):
            threading.setprofile_all_threads(profiler)
            time.sleep(0.002)
            threading.setprofile_all_threads(None)
            time.sleep(0.001)
        stop.append(True)

    failures = _at_once(switch, *[work] * 8)
    calls = {thread: number for (thread, event), number in seen.items() if event == "call"}
    return failures, sum(calls.values()) > 100, all(abs(number - seen[thread, "return"]) <= 40 for thread, number in calls.items())


# --- interpreters -----------------------------------------------------------------------------------------------------


def _interpreters():
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        import _interpreters as interpreters
    return interpreters


PROGRAM = """
import sys
class Thing:
    def __init__(self, n): self.n = n
    def rec(self, n): return self.n if n == 0 else self.rec(n - 1)
def gen(n):
    for i in range(n):
        try: yield i
        except KeyError: yield -1
value = 0
for value in range(50):
    assert Thing(value).rec(20) == value
    assert list(gen(5)) == [0, 1, 2, 3, 4]
try: 1 / 0
except ZeroDivisionError: pass
assert value == 49
"""


def subinterpreters():
    interpreters = _interpreters()
    found = []
    for _ in range(5):
        made = interpreters.create()
        found.append(interpreters.run_string(made, PROGRAM))
        exec(PROGRAM, {"__name__": "program"})
        interpreters.destroy(made)
    return found


def subinterpreters_in_threads():
    interpreters = _interpreters()

    def work():
        for _ in range(2):
            made = interpreters.create()
            interpreters.run_string(made, PROGRAM)
            interpreters.destroy(made)

    def beside():
        for _ in range(5):
            exec(PROGRAM, {"__name__": "program"})

    return _at_once(*[work] * 4, *[beside] * 8)


def modules_shared_with_subinterpreters():
    """Frozen code objects are the same in all interpreters."""
    interpreters = _interpreters()
    use = "import os, abc, codecs, io\nfor _ in range(20): assert os.path.join('a', 'b', '..') == 'a/b/..' and os.path.normpath('a/./b') == 'a/b' and os.path.splitext('x.py')[1] == '.py'"
    for _ in range(4):
        exec(use, {"__name__": "program"})
        made = interpreters.create()
        interpreters.run_string(made, use)
        exec(use, {"__name__": "program"})
        interpreters.destroy(made)
        exec(use, {"__name__": "program"})
    return "done"
