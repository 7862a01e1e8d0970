"""Our evaluator against CPython's: the same result, exception, traceback, output and references, feature by feature."""

# The programs under test are odd on purpose.
# ruff: noqa: B012, B016, B018, B023, B030, B905, F401, F821, F842, RUF012, RUF100, SIM105, UP032, UP037

from __future__ import annotations

import gc
import io
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import contextmanager, redirect_stdout
from typing import Any

import pytest

from evalframe import _core

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {}
GLOBAL = 10


def case(*args: Any, **keywords: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__
        while name in CASES:
            name += "_"
        CASES[name] = (function, args, keywords)
        return function

    return add


class Point:
    __match_args__ = ("x", "y")
    kind = "point"

    def __init__(self, x, y):
        self.x, self.y = x, y

    def add(self, other, *, scale=1):
        return Point(self.x + scale * other.x, self.y + scale * other.y)

    def __eq__(self, other):
        return (self.x, self.y) == (other.x, other.y)

    def __repr__(self):
        return f"Point({self.x}, {self.y})"


class Child(Point):
    def add(self, other):
        return super().add(other, scale=2)


class Falsy:
    def __bool__(self):
        raise ZeroDivisionError("no truth")


@contextmanager
def noisy(swallow):
    print("enter")
    try:
        yield "value"
    except ValueError as error:
        print("caught", error)
        if not swallow:
            raise
    finally:
        print("exit")


class Manager:
    def __init__(self, swallow):
        self.swallow = swallow

    def __enter__(self):
        return self

    def __exit__(self, kind, value, tb):
        print("exit", kind, value, tb is not None)
        return self.swallow


def fails(depth):
    if depth:
        return fails(depth - 1)
    raise ValueError("at the bottom")


@case(3, 4)
def arithmetic(a, b):
    return a + b, a - b, a * b, a / b, a // b, a % b, a**b, -a, +a, ~a, a << b, a >> 1, a & b, a | b, a ^ b


@case(7)
def inplace(a):
    b = [a]
    b += [1]
    a += 1
    a -= 2
    a *= 3
    a //= 2
    a **= 2
    a %= 50
    a <<= 2
    a >>= 1
    a &= 255
    a |= 1
    a ^= 3
    a /= 4
    return a, b


@case(1, 0)
def zero_division(a, b):
    x = a + 1
    return (x *
            (a / b))


@case()
def type_error():
    return 1 + "x"


@case(3, 5)
def comparisons(a, b):
    ordered = a < b, a <= b, a == b, a != b, a > b, a >= b, 1 < a < b < 9
    return ordered, a is b, a is not b, a in [a], b not in [a], not a


@case(Falsy())
def truth_raises(value):
    if value:
        return 1
    return 2


@case([])
@case([1])
def boolean_operators(a):
    return a or "empty", a and "full", (a or None) is None, 1 if a else 2


@case(10)
def while_loop(n):
    total = 0
    while n > 0:
        n -= 1
        if n == 7:
            continue
        if n == 2:
            break
        total += n
    else:
        total = -1
    return total


@case(5)
def for_loops(n):
    result = []
    for i in range(n):
        for j, k in zip("ab", [1, 2]):
            if i == 3:
                break
            result.append((i, j, k))
        else:
            result.append(i)
    return result


@case([3, 1, 2])
def comprehensions(values):
    x = "outer"
    a = [x * 2 for x in values if x > 1]
    b = {x: y for x, y in zip(values, "abc")}
    c = {x % 2 for x in values}
    d = sorted(x for x in values)
    e = [[y + x for y in range(x)] for x in values]
    return x, a, b, c, d, e


@case()
def comprehension_unbound():
    result = [y for y in range(3)]
    return result, y  # noqa: F821


@case([1, 2, 0])
def comprehension_raises(values):
    x = 5
    try:
        return [1 / x for x in values]
    except ZeroDivisionError:
        return x


@case(1)
def closures(a):
    b = a + 1

    def inner(c, d=b, *, e=a):
        nonlocal b
        b += c
        return a + b + c + d + e

    first = inner(1)
    a = 100
    return first, inner(2, e=5), b, (lambda: b * 2)()


@case()
def unbound_cell():
    def inner():
        return late  # noqa: F821

    result = inner()
    late = 1
    return result, late


@case()
def unbound_own_cell():
    if GLOBAL < 0:
        late = 1
    print(late)
    return lambda: late


@case()
def delete_variables():
    a = 1
    del a
    try:
        a
    except UnboundLocalError as error:
        return str(error)


@case()
def delete_unbound():
    if GLOBAL < 0:
        a = 1
    del a


@case()
def globals_and_builtins():
    global NEW_GLOBAL
    NEW_GLOBAL = GLOBAL + len("abc")
    before = NEW_GLOBAL
    del NEW_GLOBAL
    return before, max(1, 2)


@case()
def missing_global():
    return not_there  # noqa: F821


@case()
def delete_missing_global():
    global never_there
    del never_there


@case(Point(1, 2))
def attributes(p):
    p.z = p.x + p.y
    kind, z = p.kind, p.z
    del p.z
    return kind, z, hasattr(p, "z"), p.add(Point(3, 4)), p.add(Point(3, 4), scale=10), str.upper("x")


@case(Point(1, 2))
def missing_attribute(p):
    return (p.x,
            p.nothing)


@case(Point(1, 2))
def missing_method(p):
    return p.nothing(1)


@case()
def super_call():
    return Child(1, 2).add(Point(1, 1))


@case([1, 2, 3, 4], {"a": 1})
def subscripts(values, mapping):
    copied = list(values)
    copied[0] = 9
    copied[1:3] = [7]
    del copied[-1]
    return copied, values[1], values[1:], values[:2], values[::2], mapping["a"], values[-1:0:-1]


@case({})
def missing_key(mapping):
    return mapping["nothing"]


@case()
def displays():
    a, b = [1, 2], {"k": 1}
    return [*a, 3], (*a, *a), {*a, 5}, {**b, "l": 2}, {1: 2, "x": a}, [], (), {}, {1, 2}, (a, b)


@case()
def display_not_iterable():
    return [*5]


@case()
def display_not_mapping():
    return {**5}


@case()
def unpacking():
    a, b = 1, 2
    a, b = b, a
    (c, d), e = [3, 4], 5
    f, *g, h = range(6)
    *i, j = "xyz"
    k, = {7}
    return a, b, c, d, e, f, g, h, i, j, k


@case((1, 2, 3))
@case([1])
@case(iter([1, 2, 3]).__class__)
@case(5)
@case({"a": 1, "b": 2})
def unpack_two(values):
    a, b = values
    return a, b


@case("x")
@case(7)
def unpack_star(values):
    a, *b, c = values
    return a, b, c


@case(3.14159, "text", [1])
def f_strings(number, text, values):
    return f"{number:.2f} {text!r:>10} {text!s} {text!a} {values} {number:{len(text)}.1f} {text}{{}}"


@case(3)
def f_string_raises(number):
    return f"{number:bad}"


def target(a, b=2, /, c=3, *args, d, e=5, **others):
    return a, b, c, args, d, e, others


@case()
def calls():
    positional, named = (1, 2, 3, 4), {"d": 4, "z": 26}
    return (
        target(1, d=2),
        target(*positional, **named),
        target(*positional, d=0, **{"y": 1}),
        target(1, 2, c=7, d=8, e=9, q=10),
        print("out", end="!\n"),
        max(*[1, 5], key=lambda v: -v),
        dict(a=1, **{"b": 2}),
        "{}-{x}".format(1, x=2),
    )


@case()
def call_missing_argument():
    return target(1)


@case()
def call_duplicate():
    return target(1, d=1, **{"d": 2})


@case()
def call_not_mapping():
    return target(1, **5)


@case()
def call_not_iterable():
    return target(*5)


@case()
def call_not_callable():
    number = 1
    return number(2)


@case(3)
def callee_raises(n):
    x = [fails(n)
         for _ in range(2)]
    return x


@case()
def try_except():
    log = []
    for value in (1, 0, "x"):
        try:
            log.append(1 / value)
        except ZeroDivisionError as error:
            log.append(str(error))
        except (TypeError, KeyError):
            log.append("type")
        else:
            log.append("else")
        finally:
            log.append("finally")
    return log


@case()
def nested_handlers():
    try:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer") from error
    except ValueError as error:
        line = error.__traceback__.tb_lineno
        return repr(error), repr(error.__cause__), repr(error.__context__), sys.exc_info()[0], line


@case()
def reraise():
    try:
        fails(1)
    except ValueError:
        print(sys.exc_info()[1])
        raise


@case()
def raise_in_handler():
    try:
        fails(0)
    except ValueError:
        {}["missing"]


@case()
def finally_reraises():
    try:
        fails(0)
    finally:
        print("finally", sys.exc_info()[0])


@case()
def finally_returns():
    for i in range(3):
        try:
            fails(0)
        finally:
            if i == 1:
                return i
            continue


@case()
def raise_from_none():
    raise ValueError from None


@case()
def raise_not_exception():
    raise 5


@case()
def raise_bad_cause():
    raise ValueError from 5


@case()
def bare_raise():
    raise


@case()
def catch_not_exception():
    try:
        fails(0)
    except 5:
        pass


@case()
def no_exception_left():
    try:
        fails(0)
    except ValueError:
        pass
    return sys.exc_info()


@case(0)
@case(1)
def asserts(value):
    assert value, "must be true"
    return value


@case(True)
@case(False)
def with_statement(swallow):
    with Manager(swallow) as manager, noisy(True) as value:
        print(manager.swallow, value)
        if swallow:
            raise ValueError("in with")
        raise KeyError("in with")
    return "after"


@case()
def with_return():
    for _ in range(2):
        with Manager(False):
            return "from with"


@case()
def with_bad_manager():
    with 5:
        pass


@case()
def imports():
    import math
    import os.path as path
    from collections import OrderedDict
    from os import sep

    return math.floor(2.5), path.join("a", "b"), OrderedDict.__name__, sep


@case()
def import_missing_module():
    import there_is_no_such_module


@case()
def import_missing_name():
    from math import there_is_no_such_name


@case(2)
def class_body(n):
    class Local(Point):
        size = n
        doubled = [i * 2 for i in range(size)]

        def method(self, y: int = 4) -> str:
            return __class__.__name__ + str(self.size + y)

    return Local(1, 2).method(), Local.doubled, Local.method.__annotations__, Local.__qualname__


@case([1, 2, 3])
@case({"k": 1, "r": 2})
@case(Point(0, 5))
@case("text")
@case(None)
@case((1,))
def matching(value):
    match value:
        case [a, *rest]:
            return "sequence", a, rest
        case {"k": k, **others}:
            return "mapping", k, others
        case Point(x=0, y=y):
            return "point", y
        case str() as s if len(s) == 4:
            return "str", s
        case None | True:
            return "singleton"
        case _:
            return "else"


class NoMatchArgs:
    x = 1


class BadMatchArgs:
    __match_args__ = [1]


@case(5)
@case("abc")
@case(Point(3, 4))
@case(Point("s", 1.5))
@case(NoMatchArgs())
@case([])
def class_patterns(value):
    match value:
        case int(n):
            return "int", n
        case Point(int(x), y) if y > 1:
            return "ints", x, y
        case Point(str(), y=float()):
            return "mixed"
        case NoMatchArgs(x=1) | Point():
            return "x"
        case str(text):
            return "text", text
    return "none"


@case(NoMatchArgs())
def too_many_patterns(value):
    match value:
        case NoMatchArgs(1):
            return 1


@case(BadMatchArgs())
def bad_match_args(value):
    match value:
        case BadMatchArgs(1):
            return 1


@case(Point(1, 2))
def pattern_twice(value):
    match value:
        case Point(1, x=1):
            return 1


@case(4)
def generator(n):
    for i in range(n):
        received = yield i
    return received


@case(4)
def uses_generators(n):
    def numbers():
        total = 0
        for i in range(n):
            total += yield i
        return total

    def outer():
        return (yield from numbers())

    g = outer()
    out = [next(g)]
    try:
        while True:
            out.append(g.send(10))
    except StopIteration as stop:
        return out, stop.value


@case()
def frames():
    local = 5
    frame = sys._getframe()
    return dict(sys._getframe().f_locals)["local"], frame.f_lineno - frame.f_code.co_firstlineno, locals()["local"]


@case()
def walrus_and_chain():
    if (n := len("abcd")) > 3 and (m := n * 2):
        return n, m


@case(200)
def many_locals(n):
    exec("a = 1", {}, {})
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = a8 = a9 = b0 = b1 = b2 = b3 = b4 = b5 = b6 = b7 = b8 = b9 = n
    return a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9, b0 + b1 + b2 + b3 + b4 + b5 + b6 + b7 + b8 + b9


@case("x" * 3)
def string_building(s):
    out = ""
    for c in s:
        out += c + "-"
    return out


@case(1, 2, c=4, d=5, z=1)
@case(1)
@case(d=1)
@case(1, 2, 3, 4, 5, d=6)
@case(1, b=2, d=3)
def signature(a, b=2, /, c=3, *args, d, e=5, **others):
    return a, b, c, args, d, e, others


@case(1, 2)
@case(1, a=2)
@case(1, b=2)
@case()
def one_argument(a):
    return a


@case(1, 2, k=3)
@case(k=3)
def only_rest(*args, **keywords):
    args += (1,)
    keywords["x"] = args
    return args, keywords


@case(lambda: 5)
def cell_argument(f):
    return [f() for _ in range(2)], (lambda: f())()


@case()
def exception_group():
    try:
        raise ExceptionGroup("group", [ValueError(1), KeyError(2)])
    except* ValueError as group:
        print("values", group.exceptions)
    except* KeyError as group:
        print("keys", group.exceptions)


@case()
def annotated():
    x: int = 5
    y: "undefined"  # noqa: F821
    return x


@case()
def f_trace_of_lines():
    error = None
    try:
        (fails
         (2))
    except ValueError as caught:
        error = caught
    return [entry.tb_lineno for entry in walk(error.__traceback__)], error.__traceback__.tb_frame.f_lineno > 0


def walk(tb):
    while tb:
        yield tb
        tb = tb.tb_next


def described(tb: Any, function: Callable[..., Any]) -> list[Any]:
    """Name, line and columns of each entry from the function on."""
    entries = []
    for frame, _ in traceback.walk_tb(tb):
        entries.append(frame)
    found = []
    while tb:
        positions = list(tb.tb_frame.f_code.co_positions())[tb.tb_lasti // 2]
        found.append((tb.tb_frame.f_code.co_name, tb.tb_lineno, positions))
        tb = tb.tb_next
    names = [entry[0] for entry in found]
    return found[names.index(function.__name__) :] if function.__name__ in names else []


def plain_value(value: Any) -> Any:
    return list(value) if hasattr(value, "gi_frame") else value


def outcome(function: Callable[..., Any], run: Callable[[], Any]) -> tuple[Any, ...]:
    out = io.StringIO()
    result: Any = None
    raised: Any = None
    with redirect_stdout(out):
        try:
            result = repr(plain_value(run()))
        except Exception as error:
            chain = []
            link: BaseException | None = error
            while link is not None:
                chain.append((type(link), str(link), described(link.__traceback__, function)))
                link = link.__cause__ or link.__context__
            raised = (chain, error.__suppress_context__, getattr(error, "name", None))
    handled = sys.exc_info()
    return result, raised, out.getvalue(), handled


@pytest.fixture(params=sorted(CASES))
def program(request: pytest.FixtureRequest) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    return CASES[request.param]


Program = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def test_a_function_does_as_under_cpython(program: Program) -> None:
    function, args, keywords = program
    expected = outcome(function, lambda: function(*args, **keywords))
    assert outcome(function, lambda: _core.evaluate(function, *args, **keywords)) == expected


def test_a_function_does_as_under_cpython_with_its_callees_in_our_evaluator(program: Program) -> None:
    function, args, keywords = program
    expected = outcome(function, lambda: function(*args, **keywords))
    assert outcome(function, lambda: _core.evaluate_deep(function, *args, **keywords)) == expected


def test_a_frame_is_handed_over_at_every_instruction_boundary(program: Program) -> None:
    function, args, keywords = program
    expected = outcome(function, lambda: function(*args, **keywords))
    for steps in range(400):
        run: list[int] = []
        got = outcome(function, lambda: _core.evaluate_handing_over_at(function, steps, run, *args, **keywords))
        assert got == expected, f"handed over after {steps} steps"
        if run and run[0] < steps:
            break


@pytest.mark.parametrize("evaluate", [_core.evaluate, _core.evaluate_deep], ids=["plain", "deep"])
def test_no_reference_is_lost_or_kept(program: Program, evaluate: Callable[..., Any]) -> None:
    function, args, keywords = program
    watched = [function, function.__code__, None, True, *args, *keywords.values()]

    def repeat(run: Callable[[], Any]) -> list[int]:
        outcome(function, run)
        gc.collect()
        before = [sys.getrefcount(each) for each in watched] + [sys.getallocatedblocks() // 400]
        for _ in range(20):
            outcome(function, run)
        gc.collect()
        after = [sys.getrefcount(each) for each in watched] + [sys.getallocatedblocks() // 400]
        return [b - a for a, b in zip(before, after)]

    plain = repeat(lambda: function(*args, **keywords))
    for _ in range(3):
        ours = repeat(lambda: evaluate(function, *args, **keywords))
        if all(o <= max(p, 0) + 6 for o, p in zip(ours, plain)) and all(o > -6 for o in ours):
            return
    raise AssertionError((ours, plain))


def test_frame_objects_keep_their_values() -> None:
    def keeps(x: int) -> Any:
        y = [x, 1000]  # noqa: F841
        return sys._getframe()

    frame = _core.evaluate(keeps, 5)
    assert frame.f_locals == {"x": 5, "y": [5, 1000]}
    assert frame.f_back.f_code.co_name == "test_frame_objects_keep_their_values"
    assert frame.f_lineno == keeps.__code__.co_firstlineno + 2
    frame.clear()
    assert frame.f_locals == {}


def recursive(n: int) -> int:
    return 0 if n == 0 else 1 + recursive(n - 1)


def test_recursion_ends_with_recursion_error() -> None:
    assert _core.evaluate_deep(recursive, 500) == 500
    for _ in range(3):
        with pytest.raises(RecursionError, match="maximum recursion depth exceeded"):
            _core.evaluate_deep(recursive, 10**6)


def test_recursion_on_a_small_stack_ends_with_recursion_error() -> None:
    results: list[Any] = []

    def body() -> None:
        try:
            results.append(_core.evaluate_deep(recursive, 10**6))
        except RecursionError:
            results.append("RecursionError")

    limit = sys.getrecursionlimit()
    size = threading.stack_size(256 * 1024)
    try:
        sys.setrecursionlimit(10**7)
        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(size)
        sys.setrecursionlimit(limit)
    assert results == ["RecursionError"]


def test_deep_recursion_far_beyond_the_default_limit() -> None:
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(10**7)
        assert _core.evaluate_deep(recursive, 5000) == 5000
        with pytest.raises(RecursionError):
            _core.evaluate_deep(recursive, 10**6)
    finally:
        sys.setrecursionlimit(limit)


def test_calls_between_the_evaluators_take_no_recursion_budget() -> None:
    def ours(n: int) -> int:
        return 0 if n == 0 else 1 + plain(n - 1)

    def plain(n: int) -> int:
        return 0 if n == 0 else 1 + _core.evaluate(ours, n - 1)

    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(10**6)
        assert _core.evaluate(ours, 3000) == 3000
        with pytest.raises(RecursionError):
            _core.evaluate(ours, 10**6)
    finally:
        sys.setrecursionlimit(limit)


def test_a_signal_ends_a_loop_and_runs_its_finally() -> None:
    log = []

    def spin() -> None:
        try:
            while True:
                pass
        finally:
            log.append("finally")

    def handler(number: int, frame: Any) -> None:
        log.append(frame.f_code.co_name)
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            _core.evaluate(spin)
    finally:
        signal.signal(signal.SIGALRM, old)
    names = [frame.f_code.co_name for frame, _ in traceback.walk_tb(caught.tb)]
    assert names[-2:] == ["spin", "handler"] and log[0] == "spin"


def test_other_threads_run_while_a_loop_spins() -> None:
    stop = []

    def spin() -> int:
        n = 0
        while not stop:
            n += 1
        return n

    counts: list[int] = []
    threads = [threading.Thread(target=lambda: counts.append(_core.evaluate(spin))) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    stop.append(True)
    for thread in threads:
        thread.join(timeout=20)
    assert len(counts) == 3 and min(counts) > 0


def test_threads_that_begin_together_all_run() -> None:
    """Some of what gives the interpreter's lock away is made when first needed, by the thread that needs it first."""
    program = """
import threading
from evalframe import _core
stop = []
def spin():
    while not stop:
        pass
threads = [threading.Thread(target=_core.evaluate, args=(spin,)) for _ in range(4)]
for thread in threads:
    thread.start()
stop.append(True)
for thread in threads:
    thread.join()
"""
    for _ in range(8):
        subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_tracer_switched_on_in_the_middle_sees_the_rest_of_the_frame() -> None:
    def middle(log: list[Any]) -> int:
        def tracer(frame: Any, event: str, arg: Any) -> Any:
            if frame.f_code is middle.__code__:
                log.append((event, frame.f_lineno - middle.__code__.co_firstlineno))
            return tracer

        sys._getframe().f_trace = tracer
        sys.settrace(tracer)
        a = 1
        a += 1
        for _ in range(2):
            a += 1
        sys.settrace(None)
        return a

    plain: list[Any] = []
    ours: list[Any] = []
    old = sys.gettrace()
    try:
        assert middle(plain) == _core.evaluate(middle, ours) == 4
    finally:
        sys.settrace(old)
    assert ours == plain and len(plain) > 5


def test_only_functions_are_taken() -> None:
    with pytest.raises(TypeError, match="runs Python functions, not"):
        _core.evaluate(len, "abc")
    with pytest.raises(TypeError, match="needs a function"):
        _core.evaluate()


OPERATORS = ("+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>", "**", "<", "<=", "==", "!=", ">", ">=")
NUMBERS = (0, 1, -1, 7, -7, 2**30 - 1, 2**30, -(2**30), 2**62, True, 0.0, -0.0, 2.5, -1e308, 1e308, float("inf"), float("nan"), 1j)


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_on_plain_numbers_are_those_of_cpython(operator: str) -> None:
    def answer(operate: Callable[..., Any], left: Any, right: Any) -> str:
        try:
            return f"{(result := operate(left, right))!r} {type(result).__name__}"
        except Exception as error:
            return repr(error)

    lines = ["def plain(x, y):", "    z = x", f"    z {operator}= y", f"    return (z, x {operator} y)"]
    if operator in ("<", "<=", "==", "!=", ">", ">="):
        lines = ["def plain(x, y):", f"    return x {operator} y"]
    names: dict[str, Any] = {}
    exec("\n".join(lines), names)
    ours = lambda *pair: _core.evaluate(names["plain"], *pair)  # noqa: E731
    pairs = [(x, y) for x in NUMBERS for y in NUMBERS if operator not in ("<<", "**") or abs(y) < 100]
    assert [answer(ours, *pair) for pair in pairs] == [answer(names["plain"], *pair) for pair in pairs]


def test_a_global_that_changes_within_a_loop_is_seen() -> None:
    names: dict[str, Any] = {"n": 0}
    exec(
        "def f():\n    global n, len\n    seen = []\n    for i in range(6):\n        seen.append((n, len('ab')))\n        n += 1\n"
        "        if i == 2: len = lambda text: 'mine'\n        if i == 4: del len\n    return seen",
        names,
    )
    assert _core.evaluate(names["f"]) == [(0, 2), (1, 2), (2, 2), (3, "mine"), (4, "mine"), (5, 2)]


def test_items_at_the_ends_of_lists_and_tuples_are_those_of_cpython() -> None:
    def items(values: Any) -> list[Any]:
        found = []
        for index in (0, 1, 2, 3, -1, -3, -4, 2**40, True, 1.0):
            try:
                found.append(values[index])
                values[index] = [index]
            except (IndexError, TypeError) as error:
                found.append(str(error))
        return [found, values]

    for values in ([1, 2, 3], (1, 2, 3), []):
        assert _core.evaluate(items, values.copy() if isinstance(values, list) else values) == items(values)


def test_faulthandler_shows_frames_of_ours() -> None:
    program = """
import faulthandler, sys, threading
from evalframe import _core
def innermost(): faulthandler.dump_traceback(sys.stderr, all_threads=True)
def waits():
    entered.set()
    while not done.is_set(): pass
def outer():
    innermost()
entered, done = threading.Event(), threading.Event()
thread = threading.Thread(target=_core.evaluate, args=(waits,))
thread.start()
entered.wait()
_core.evaluate(outer)
done.set()
thread.join()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    dumped = [line.split(" in ")[1] for line in done.stderr.splitlines() if " in " in line]
    assert "waits" in dumped
    at = dumped.index("innermost")
    assert dumped[at : at + 3] == ["innermost", "outer", "<module>"]
