"""What C functions do outside of a program's objects stands in the graph: streams, files, context variables, random numbers."""

from __future__ import annotations

import codecs
import contextvars
import gc
import io
import os
import random
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_may_be_left, outcome, same

X = np.linspace(-1.0, 2.0, 5)
BACKENDS = ["reference", "native"]
VARIABLE: contextvars.ContextVar[Any] = contextvars.ContextVar("variable", default=1)
STATE = {"seen": 0}
COUNT = 0


def writes(x: Any, stream: Any) -> Any:
    global COUNT
    COUNT = 7
    stream.write("begin ")
    y = x * 2
    print("middle", 2.5, file=stream, end="|")
    COUNT = 0
    stream.flush()
    return y + 1


def in_memory(x: Any, n: Any) -> Any:
    text, data = io.StringIO(), io.BytesIO(b"abc")
    text.write("one ")
    y = x + len(data.read(2))
    print("two", n, file=text)
    text.seek(0)
    return y, text.readline(), data.tell(), text.tell()


def variable(x: Any, n: Any) -> Any:
    token = VARIABLE.set(x)
    y = VARIABLE.get() + 1
    VARIABLE.reset(token)
    return y * VARIABLE.get(), VARIABLE.get(n)


def variable_of_made_values(x: Any, n: Any) -> Any:
    found: dict[str, Any] = {"first": x}
    token = VARIABLE.set(found)
    VARIABLE.get()["second"] = x + n
    inner = VARIABLE.set([n])
    had = VARIABLE.get(None), VARIABLE.get() is found
    VARIABLE.reset(inner)
    same = VARIABLE.get() is found
    VARIABLE.reset(token)
    return found, had, same, VARIABLE.get(), x * n


def variable_that_stays_set(x: Any, n: Any) -> Any:
    token = VARIABLE.set([x * 2])
    y = VARIABLE.get()[0] + n
    VARIABLE.set((y, n))
    return y * 2, token.var is VARIABLE, VARIABLE.get()[1]


def variable_across_a_break(x: Any, n: Any) -> Any:
    token = VARIABLE.set({"n": n})
    y = x * 2
    gc.get_count()
    seen = contextvars.copy_context()[VARIABLE], VARIABLE.get()
    y = y + 1
    VARIABLE.reset(token)
    return y, seen, VARIABLE.get()


def variable_reset_twice(x: Any, n: Any) -> Any:
    token = VARIABLE.set([x])
    VARIABLE.reset(token)
    y = x + n
    try:
        VARIABLE.reset(token)
    except RuntimeError:
        return y, VARIABLE.get()
    return None


def variable_reset_by_another(x: Any, n: Any) -> Any:
    first, second = VARIABLE.set([x]), VARIABLE.set([n])
    y = x + n
    VARIABLE.reset(first)
    had = VARIABLE.get()
    VARIABLE.reset(second)
    return y, had, VARIABLE.get()


def draws(x: Any, n: Any) -> Any:
    stream = random.getrandbits(3)
    y = x * (1.0, 2.0, 3.0, 4.0)[random.randrange(4)] + stream
    if random.random() < 0.5:
        y = y + n
    names = ["a", "b", "c"]
    return y * random.uniform(1.0, 2.0), names[random.randint(0, 2)], random.choice("xyz")


def process(x: Any, n: Any) -> Any:
    return x * (os.getpid() > n) + (threading.get_ident() == threading.main_thread().ident) * 3, os.getcwd()


OF_VARIABLES = [variable_of_made_values, variable_that_stays_set, variable_across_a_break, variable_reset_twice, variable_reset_by_another]


def seeded(function: Callable[..., Any], *arguments: Any) -> Any:
    random.seed(5)
    VARIABLE.set(4)
    return outcome(function, *arguments), VARIABLE.get()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [in_memory, variable, *OF_VARIABLES, draws, process])
def test_the_same_as_plain_python(function: Callable[..., Any], backend: str) -> None:
    captured = evalframe.jit(function, backend=backend)
    for n in (1, 1, 5, 5, 1):
        assert same(seeded(captured, X, n), seeded(function, X, n)), n
    check_may_be_left(function, backend, [(X, 1), (X, 5)], 12, told=seeded)


@pytest.mark.parametrize("function", [in_memory, variable, variable_of_made_values, process])
def test_one_graph_has_it_all(function: Callable[..., Any]) -> None:
    captured = evalframe.jit(function, backend="reference", fullgraph=True)
    for n in (1, 1):
        assert same(seeded(captured, X, n), seeded(function, X, n))
    assert _core.jit_counters(captured)["recordings"] == 1


def test_branches_on_random_numbers_are_checks() -> None:
    captured = evalframe.jit(draws, backend="native")
    told: list[list[Any]] = []
    for function in (draws, captured):
        random.seed(9)
        told.append([function(X, 1) for _ in range(60)])
    assert same(told[0], told[1])


class Watching(io.StringIO):
    """Its methods look at what the program has stored meanwhile."""

    def write(self, text: str) -> int:
        return super().write(f"{text}{COUNT}")


class Inheriting(io.StringIO):
    """Runs C code only, for now."""


class Other:
    def __init__(self) -> None:
        self.said: list[Any] = []

    def write(self, text: str) -> int:
        self.said.append((text, COUNT))
        return len(text)

    def flush(self) -> None:
        self.said.append(COUNT)

    def getvalue(self) -> Any:
        return self.said


class Buffer(io.BytesIO):
    def write(self, data: Any) -> int:
        return super().write(bytes(data) + b"%d" % COUNT)


class Encoder(codecs.IncrementalEncoder):
    def encode(self, text: str, final: bool = False) -> bytes:
        return f"{text}{COUNT}".encode()


def _codec(name: str) -> codecs.CodecInfo | None:
    """A codec of the program's, that looks at what it has stored."""
    if name != "evalframe_test":
        return None
    return codecs.CodecInfo(codecs.utf_8_encode, codecs.utf_8_decode, incrementalencoder=Encoder, incrementaldecoder=codecs.getincrementaldecoder("utf-8"), name=name)


codecs.register(_codec)
STREAMS: list[Callable[[], Any]] = [
    io.StringIO,
    Watching,
    Inheriting,
    Other,
    lambda: io.TextIOWrapper(io.BytesIO(), encoding="utf-8"),
    lambda: io.TextIOWrapper(Buffer(), encoding="utf-8"),
    lambda: io.TextIOWrapper(io.BytesIO(), encoding="evalframe_test"),
]


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_stream_is_written_to_as_plain_python_does_it(backend: str) -> None:
    captured = evalframe.jit(writes, backend=backend)
    for make in STREAMS * 2 + STREAMS[::-1]:
        told = []
        for function in (writes, captured):
            stream = make()
            told.append((outcome(function, X, stream), stream.getvalue() if hasattr(stream, "getvalue") else stream.buffer.getvalue()))
        assert same(told[0], told[1])


def test_a_stream_that_gets_a_method_of_its_own_is_left_to_python() -> None:
    captured = evalframe.jit(writes, backend="reference")
    for replaced in (False, False, True, False):
        told = []
        for function in (writes, captured):
            stream, said = Inheriting(), []
            if replaced:
                setattr(stream, "write", lambda text, said=said: said.append((text, COUNT)))
            told.append((outcome(function, X, stream), stream.getvalue(), said))
        assert same(told[0], told[1])


def to_file(x: Any, path: Any) -> Any:
    y = x + 1
    with open(path, "a", encoding="utf-8") as file:
        file.write("line\n")
        y = y * 2
        print("of", y.shape, file=file)
    with open(path) as file:
        return y, file.read(), file.closed


def fails_in_file(x: Any, path: Any) -> Any:
    with open(path, "a") as file:
        file.write("before\n")
        x = x + x[:2]
        file.write("never\n")
    return x


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [to_file, fails_in_file])
def test_files(function: Callable[..., Any], backend: str, tmp_path: Path) -> None:
    path = str(tmp_path / "lines.txt")

    def told(call: Callable[..., Any], *arguments: Any) -> Any:
        Path(path).write_text("")
        return outcome(call, *arguments), Path(path).read_text()

    captured = evalframe.jit(function, backend=backend)
    for _ in range(3):
        assert same(told(captured, X, path), told(function, X, path))
    check_may_be_left(function, backend, [(X, path)], 14, told=told)


def naps(x: Any, seen: Any) -> Any:
    STATE["seen"] = 1
    time.sleep(0.05)
    seen.append(STATE["seen"])
    return x + 1


def reports(x: Any, seen: Any) -> Any:
    STATE["seen"] = 3
    token = VARIABLE.set([3])
    y = 1 / x
    STATE["seen"] = 0
    VARIABLE.reset(token)
    return y


def reports_within(x: Any, seen: Any) -> Any:
    STATE["seen"] = 4
    token = VARIABLE.set([4])
    with np.errstate(divide="call", call=lambda kind, flag: seen.append((kind, STATE["seen"], VARIABLE.get()))):
        y = 1 / x
    STATE["seen"] = 0
    VARIABLE.reset(token)
    return y


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [reports, reports_within])
def test_functions_that_numpy_calls_see_what_was_stored(function: Callable[..., Any], backend: str) -> None:
    captured, x = evalframe.jit(function, backend=backend), np.array([0.0, 2.0])
    for state in ("ignore", "call", "ignore", "call", "call"):
        found: list[Any] = []
        for called in (captured, function):
            STATE["seen"], seen = 0, []  # type: ignore[var-annotated]
            with np.errstate(divide=state, call=lambda kind, flag, seen=seen: seen.append((kind, STATE["seen"], VARIABLE.get()))):  # type: ignore[call-overload]
                called(x, seen)
            found.append(seen)
        assert found[0] == found[1] and len(found[0]) == (state == "call" or function is reports_within)


@pytest.mark.parametrize("backend", BACKENDS)
def test_who_shows_warnings_of_numpy_sees_what_was_stored(backend: str) -> None:
    captured, x = evalframe.jit(reports, backend=backend), np.array([0.0, 2.0])
    for shown in (False, True, False, True, True):
        found: list[Any] = []
        for called in (captured, reports):
            STATE["seen"], seen = 0, []  # type: ignore[var-annotated]
            with warnings.catch_warnings():
                warnings.simplefilter("always" if shown else "ignore")
                if shown:
                    warnings.showwarning = lambda *what, seen=seen: seen.append((str(what[0]), STATE["seen"], VARIABLE.get()))  # type: ignore[assignment]
                called(x, seen)
            found.append(seen)
        assert found[0] == found[1] and len(found[0]) == shown


def test_others_see_what_was_stored_before_a_nap() -> None:
    captured = evalframe.jit(naps, backend="reference")
    for _ in range(3):
        STATE["seen"], seen, found = 0, [], threading.Event()

        def watch(found: threading.Event = found) -> None:
            deadline = time.monotonic() + 5
            while not STATE["seen"] and time.monotonic() < deadline:
                time.sleep(0.001)
            STATE["seen"] += 1
            found.set()

        thread = threading.Thread(target=watch)
        thread.start()
        captured(X, seen)
        found.wait()
        thread.join()
        assert seen == [2]
