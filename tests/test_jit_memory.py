"""What a jit object holds: the collector sees it, nothing leaks, and clearing or threads in the midst of a run do no harm."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tracemalloc
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import leaving_before
from threads_at_once import run_in_threads

X = np.arange(6.0)
Y = np.ones(6)


class Watched:
    """An object that recordings hold as a constant."""

    factor = 2.0


def collected(make: Callable[[], Any]) -> bool:
    """Whether what `make` gives a weak reference to dies with the next collection."""
    reference = make()
    gc.collect()
    return reference() is None


def test_function_that_names_itself_is_collected() -> None:
    def make() -> Any:
        namespace: dict[str, Any] = {"np": np, "watched": Watched()}
        source = "def f(x, n):\n    return x * watched.factor if n else f(x, n + 1) + 1\n"
        exec(source, namespace)
        namespace["f"] = evalframe.jit(namespace["f"])
        for n in (1, 0, 1, 0):
            namespace["f"](X, n)
        return weakref.ref(namespace["watched"])

    assert collected(make)


def test_closure_over_itself_is_collected() -> None:
    def make() -> Any:
        watched = Watched()

        @evalframe.jit
        def f(x: Any) -> Any:
            return x * watched.factor + (0 if f is None else 1)

        for _ in range(3):
            f(X)
        watched.f = f  # type: ignore[attr-defined]
        return weakref.ref(watched)

    assert collected(make)


def test_constant_of_a_recording_that_leads_back_is_collected() -> None:
    def make() -> Any:
        watched = Watched()

        def helper(x: Any, by: Any = watched) -> Any:
            return x * by.factor

        compiled = evalframe.jit(lambda x: helper(x))
        for _ in range(3):
            np.testing.assert_array_equal(compiled(X), X * 2)
        assert _core.jit_counters(compiled)["hits"] == 2
        watched.compiled = compiled  # type: ignore[attr-defined]
        return weakref.ref(watched)

    assert collected(make)


def test_user_backend_that_leads_back_is_collected() -> None:
    def make() -> Any:
        watched = Watched()

        def backend(graph: Any, examples: Any) -> Any:
            watched.graph = graph  # type: ignore[attr-defined]
            return lambda *inputs: pytest.fail("not called") if watched is None else graph(*inputs)

        compiled = evalframe.jit(lambda x: x * 2 + 1, backend=backend)
        for _ in range(3):
            compiled(X)
        watched.compiled = compiled  # type: ignore[attr-defined]
        return weakref.ref(watched)

    assert collected(make)


def test_collector_runs_inside_a_call() -> None:
    @evalframe.jit
    def f(x: Any) -> Any:
        y = x + 1
        gc.collect()
        return y * 2

    for _ in range(4):
        np.testing.assert_array_equal(f(X), (X + 1) * 2)


def test_clear_inside_a_call() -> None:
    @evalframe.jit
    def f(x: Any) -> Any:
        for i in range(3):
            x = x + i
            _core.jit_clear(f)
            x = x * 2
        return x

    for _ in range(4):
        np.testing.assert_array_equal(f(X), ((X * 2 + 1) * 2 + 2) * 2)


def test_entry_that_runs_is_replaced_meanwhile() -> None:
    class Holder:
        weight = np.ones(6)

    holder, depth = Holder(), 0

    class Reader:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            nonlocal depth
            depth += 1
            if depth < 6:
                # A number that varies replaces the entry that is running now.
                f(X, depth, X)
                gc.collect()
            return X

    @evalframe.jit
    def f(x: Any, n: int, other: Any) -> Any:
        y = x * holder.weight + (1 if n == 1 else 2)
        return np.add(y, other) if n > 0 else np.subtract(y, other)

    for turn in range(8):
        depth = 0
        np.testing.assert_array_equal(f(X, turn, X), X + (1 if turn == 1 else 2) + (X if turn > 0 else -X))
        np.testing.assert_array_equal(f(X, 1, Reader()), X + 1 + X)


def changed(x: Any, change: Callable[[], None] | None = None) -> Any:
    y = x + 1
    if change:
        change()
    return y * 2


def test_new_code_inside_a_call() -> None:
    def change() -> None:
        changed.__code__ = chain.__code__.replace(co_name="changed")

    code, compiled = changed.__code__, evalframe.jit(changed)
    try:
        for _ in range(2):
            np.testing.assert_array_equal(compiled(X), (X + 1) * 2)
        np.testing.assert_array_equal(compiled(X, change), (X + 1) * 2)
        for _ in range(2):
            np.testing.assert_allclose(compiled(X, Y), chain(X, Y))
    finally:
        changed.__code__ = code
    np.testing.assert_array_equal(compiled(X), (X + 1) * 2)


def chain(x: Any, y: Any) -> Any:
    return np.exp(x + y) - 1


def broken(x: Any, y: Any) -> Any:
    z = x + y
    if z.sum() < 0:
        z = -z
    return z * y


def raising(x: Any, y: Any) -> Any:
    z = x + y
    try:
        z = z @ np.ones(5)
    except ValueError:
        z = z * 2
    if len(y) > 100:
        return z
    return z @ np.ones(7)


def inner(x: Any, y: Any) -> Any:
    parts = [x, (x, y)]
    if y[0] > 100:
        return parts
    parts.append(x * y)
    return parts


def nested(x: Any, y: Any) -> Any:
    one, two, three = inner(x, y)
    return [one, two, three + 1, {"three": three}]


FUNCTIONS = [chain, broken, raising, nested]


def run(function: Callable[..., Any], *arguments: Any) -> None:
    try:
        function(*arguments)
    except ValueError:
        pass


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_no_reference_is_lost_or_leaked(function: Callable[..., Any], backend: str) -> None:
    x, y, small = np.arange(6.0), np.ones(6), np.arange(6.0, dtype=np.float32)
    watched = [x, y, small, function, function.__code__, None, np.exp, np.ones]
    compiled = evalframe.jit(function, backend=backend)
    arguments = [(x, y), (-x, y), (small, y)]
    nodes = 12

    def rounds(count: int) -> None:
        for _ in range(count):
            for leave in range(-1, nodes):
                with leaving_before(leave):
                    for pair in arguments:
                        run(compiled, *pair)

    rounds(3)
    gc.collect()
    before = [sys.getrefcount(one) for one in watched]
    rounds(10)
    gc.collect()
    after = [sys.getrefcount(one) for one in watched]
    # None's count moves with what the test itself does; the others must stand still.
    assert [b - a for a, b in zip(before, after, strict=True) if abs(b - a) > 2] == []


def grown_bytes(work: Callable[[], None]) -> int:
    """Bytes of Python objects that `work` leaves behind, when it has been run before."""
    work()
    gc.collect()
    tracemalloc.start()
    try:
        work()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        work()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_calls_leave_memory_flat(function: Callable[..., Any]) -> None:
    compiled = evalframe.jit(function)

    def work() -> None:
        for _ in range(300):
            run(compiled, X, Y)
            run(compiled, -X, Y)

    assert grown_bytes(work) < 4000


def test_recompiles_leave_memory_flat() -> None:
    compiled = [evalframe.jit(function, backend="reference") for function in FUNCTIONS]

    def work() -> None:
        for _ in range(150):
            for function in compiled:
                for _ in range(2):
                    run(function, X, Y)
                _core.jit_clear(function)

    # NumPy keeps some small blocks for itself; one object for each recompile would be twice as much.
    assert grown_bytes(work) < 16000


@pytest.mark.slow
def test_a_million_calls_and_a_thousand_recompiles_leave_memory_flat() -> None:
    compiled = [evalframe.jit(function) for function in FUNCTIONS]

    def calls(count: int) -> None:
        for _ in range(count):
            for function in compiled:
                run(function, X, Y)

    def recompiles(count: int) -> None:
        for _ in range(count):
            for function in compiled:
                run(function, X, Y)
                _core.jit_clear(function)

    for work, count in ((calls, 250_000), (recompiles, 1_000)):
        work(count // 10)
        gc.collect()
        before = resident_bytes()
        work(count)
        gc.collect()
        assert resident_bytes() - before < 2_000_000, work.__name__


def test_threads_share_a_jit_object() -> None:
    big = np.linspace(0.0, 1.0, 300_000)

    @evalframe.jit
    def work(x: Any, n: int, y: Any) -> Any:
        z = np.sin(x) * n
        if z[0] > 10:
            return z
        return (z + y).sum() if n % 2 else np.sqrt(z + y)

    expected = {
        (n, dtype): (np.sin(big.astype(dtype)) * n + 1).sum() if n % 2 else np.sqrt(np.sin(big.astype(dtype)) * n + 1)
        for n in range(4)
        for dtype in (np.float64, np.float32)
    }

    def caller(number: int) -> None:
        for turn in range(12):
            n, dtype = (turn + number) % 4, (np.float64, np.float32)[(turn // 4 + number) % 2]
            np.testing.assert_allclose(work(big.astype(dtype), n, 1), expected[n, dtype], rtol=1e-4)

    def clearer() -> None:
        for _ in range(40):
            _core.jit_clear(work)
            _core.jit_entries(work)
            _core.jit_limits(work)
            gc.collect()

    callers = [partial(caller, number) for number in range(5)]
    assert run_in_threads(*callers, clearer, switch_interval=1e-5) == []


def test_threads_record_small_functions_at_once() -> None:
    def recorder() -> None:
        for turn in range(60):
            for function, compiled in pairs:
                if turn % 7 == 0:
                    _core.jit_clear(compiled)
                got, expected = compiled(X, Y), function(X, Y)
                for one, other in zip(got, expected, strict=True):
                    if isinstance(one, np.ndarray):
                        np.testing.assert_allclose(one, other)

    pairs = [(function, evalframe.jit(function)) for function in (chain, broken, nested)]
    assert run_in_threads(*[recorder] * 4, switch_interval=1e-6) == []


def test_threads_may_all_be_the_first_to_compile() -> None:
    program = (
        "import numpy as np, evalframe\n"
        "from threads_at_once import run_in_threads\n"
        "@evalframe.jit\n"
        "def scaled(x): return x * 2 + 1\n"
        "def first():\n"
        "    for size in range(2, 6): assert scaled(np.ones(size)).sum() == 3 * size\n"
        "assert run_in_threads(*[first] * 3, switch_interval=1e-6) == []\n"
    )
    for cache in ("0", "1") * 4:
        environment = {**os.environ, "EVALFRAME_CACHE": cache}
        command = [sys.executable, "-c", program]
        subprocess.run(command, cwd=Path(__file__).parent, env=environment, timeout=60, check=True)


def by_default(x: Any) -> Any:
    def scaled(*, by: Any = x) -> Any:
        return by + 1

    return scaled


def by_closure(x: Any) -> Any:
    return lambda: x + 1


def by_closure_over_itself(x: Any) -> Any:
    def counted(times: int = 3) -> Any:
        return counted(times - 1) + 1 if times else x

    return counted


def repeated(function: Callable[..., Any], x: Any) -> Any:
    for _ in range(4):
        y = x + function()
        if y[0] > 1e9:
            break
    return y


@pytest.mark.parametrize("make", [by_default, by_closure, by_closure_over_itself])
def test_functions_made_anew_do_not_pile_up_in_a_block(make: Callable[..., Any]) -> None:
    arrays = []
    with evalframe.enabled():
        for _ in range(100):
            x = np.arange(4.0)
            arrays.append(weakref.ref(x))
            function = make(x)
            assert function()[1] == repeated(function, x)[1] - 1 == (4 if make is by_closure_over_itself else 2)
        del x, function
        gc.collect()
        assert sum(array() is not None for array in arrays) < 8


@pytest.mark.parametrize("make", [by_default, by_closure, by_closure_over_itself])
def test_functions_made_anew_do_not_pile_up_in_recordings(make: Callable[..., Any]) -> None:
    arrays = []
    captured = evalframe.jit(repeated)
    for _ in range(100):
        x = np.arange(4.0)
        arrays.append(weakref.ref(x))
        captured(make(x), x)
    del x
    gc.collect()
    assert sum(array() is not None for array in arrays) < 4


def test_recordings_of_functions_that_live_are_kept() -> None:
    captured = evalframe.jit(repeated)
    functions = [by_closure(np.arange(4.0)) for _ in range(3)]
    for function in functions * 4:
        captured(function, X[:4])
    recordings = _core.jit_counters(captured)["recordings"]
    for function in functions * 4:
        captured(function, X[:4])
    assert _core.jit_counters(captured)["recordings"] == recordings


def test_endless_recursion_raises() -> None:
    def down(x: Any) -> Any:
        if x.sum() < 0:
            return x
        return again(x + 1) + 1

    again = evalframe.jit(down)
    with pytest.raises(RecursionError):
        again(X)
    assert again(X - 100).sum() < 0
