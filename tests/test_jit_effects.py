"""Printing, clocks and Python's random numbers stand in the graph: the same text, in the same order, whoever reads it."""

from __future__ import annotations

import contextlib
import io
import random
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_may_be_left, outcome, same

X = np.linspace(-1.0, 2.0, 5)
COUNT = 0
BACKENDS = ["reference", "native"]


TEXT = io.StringIO()


def printed(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a call came to and what it printed."""
    random.seed(5)
    TEXT.seek(0)
    TEXT.truncate()
    with contextlib.redirect_stdout(TEXT):
        told = outcome(function, *arguments)
    return told, TEXT.getvalue()


def reports(x: Any, n: Any) -> Any:
    print("begin", n, 2.5, None, ("a", 1), sep="-")
    y = x * n
    print(f"shape {y.shape}", end="!\n", flush=True)
    z = y + random.random()
    print()
    return z, random.getrandbits(40)


def counts(x: Any, n: Any) -> Any:
    global COUNT
    for i in range(3):
        COUNT = i + n
        x = x + COUNT
        print("step", i, n * 2)
    return x


def fails_between(x: Any, n: Any) -> Any:
    print("before", n)
    y = x.reshape(n, -1)
    print("between")
    z = y + np.ones((7, 3))
    print("never")
    return z


def timed(x: Any, n: Any) -> Any:
    start = time.perf_counter()
    y = np.sqrt(np.abs(x)) * n
    passed = time.perf_counter() - start
    return y, type(passed), time.time_ns() > 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [reports, counts, fails_between, timed])
def test_effects_are_those_of_plain_python_in_one_graph(function: Callable[..., Any], backend: str) -> None:
    captured = evalframe.jit(function, backend=backend)
    for n in (1, 1, 5, 5, 1, 2):
        assert same(printed(captured, X, n), printed(function, X, n)), n
    check_may_be_left(function, backend, [(X, 1), (X, 5)], 12, told=printed)


@pytest.mark.parametrize("function", [reports, counts])
def test_one_graph_has_it_all(function: Callable[..., Any]) -> None:
    captured = evalframe.jit(function, backend="reference", fullgraph=True)
    for n in (1, 1, 2, 3):
        assert same(printed(captured, X, n), printed(function, X, n))
    assert _core.jit_counters(captured)["recordings"] <= 2  # the second is of any n


class Shouting(io.StringIO):
    def write(self, text: str) -> int:
        return super().write(text.upper() + str(COUNT))


class Inheriting(io.TextIOWrapper):
    def __init__(self) -> None:
        super().__init__(io.BytesIO())


class Silent:
    def write(self, text: str) -> None:
        Silent.said = (text, COUNT, sys._getframe(1).f_code.co_name)


def test_another_stream_is_asked_as_plain_python_asks_it() -> None:
    captured = evalframe.jit(counts, backend="reference")
    streams: list[Callable[[], Any]] = [io.StringIO, Shouting, Silent, lambda: None, lambda: io.TextIOWrapper(io.BytesIO()), Inheriting]
    for make in streams * 2:
        told = []
        for function in (counts, captured):
            stream = make()
            with contextlib.redirect_stdout(stream):
                told.append(outcome(function, X, 2))
            if isinstance(stream, io.StringIO):
                told[-1] = (told[-1], stream.getvalue())
            elif stream is not None and not isinstance(stream, Silent):
                stream.flush()
                told[-1] = (told[-1], stream.buffer.getvalue())
        assert same(told[0], told[1])


@pytest.mark.parametrize("make", [io.StringIO, Inheriting])
def test_a_stream_whose_methods_are_replaced_is_asked_anew(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    captured = evalframe.jit(counts, backend="reference")
    stream = make()
    said: list[str] = []
    with contextlib.redirect_stdout(stream):
        for _ in range(2):
            captured(X, 2)
        stream.write = said.append
        for function in (counts, captured):
            function(X, 2)
        del stream.write
        captured(X, 2)
        assert said and said[: len(said) // 2] == said[len(said) // 2 :]
        if make is Inheriting:
            monkeypatch.setattr(Inheriting, "write", lambda self, text: said.append(text.upper()), raising=False)
            before = len(said)
            captured(X, 2)
            assert len(said) > before and "STEP" in said


def test_a_closed_stream_is_an_error_where_it_is_printed_to() -> None:
    captured = evalframe.jit(reports, backend="reference")
    printed(captured, X, 2)
    for function in (reports, captured):
        stream = io.StringIO()
        stream.close()
        with contextlib.redirect_stdout(stream), pytest.raises(ValueError, match="closed") as error:
            function(X, 2)
        assert error.traceback[-1].lineno + 1 == reports.__code__.co_firstlineno + 1


def test_streams_of_random_numbers_go_on_as_in_plain_python() -> None:
    stream = random.Random(3)

    def draws(x: Any) -> Any:
        draw = stream.random
        return x * draw() + random.random()

    captured = evalframe.jit(draws, backend="reference")
    told = []
    for function in (draws, captured):
        stream.seed(3), random.seed(4)
        told.append([function(X) for _ in range(4)])
    assert same(told[0], told[1])


class Machine:
    def __init__(self, gain: int) -> None:
        self.gain = gain

    def step(self, x: Any, a: Any = 1) -> Any:
        return x * self.gain + a


MACHINE = Machine(2)
STEP = MACHINE.step


def kept_method(x: Any, n: Any) -> Any:
    return STEP(x) + STEP(x, a=n) + x * random.uniform(1.0, 2.0)


def pure_methods(x: Any, n: Any) -> Any:
    names = "alpha,beta;gamma".replace(";", ",").split(",")
    names.append("delta")
    key = "/".join(names).encode("ascii").hex()
    return x * (n.bit_length() + len(names) + (2.5).as_integer_ratio()[0] + (1, 2, 1).count(1)), key, names, "a b".partition(" ")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [kept_method, pure_methods])
def test_methods_kept_and_methods_of_what_is_known(function: Callable[..., Any], backend: str) -> None:
    captured = evalframe.jit(function, backend=backend)
    for n in (1, 1, 5, 5):
        assert same(printed(captured, X, n), printed(function, X, n)), n
    MACHINE.gain += 1
    assert same(printed(captured, X, 1), printed(function, X, 1))
    check_may_be_left(function, backend, [(X, 1), (X, 5)], 8, told=printed)


def test_a_list_that_a_method_gives_is_a_new_one_each_time() -> None:
    captured = evalframe.jit(pure_methods, backend="reference", fullgraph=True)
    first, second = captured(X, 1), captured(X, 1)
    assert first[2] == second[2] and first[2] is not second[2]


def lets_go(x: Any, n: Any) -> Any:
    y = x + n
    weakref.finalize(y, print, "dropped")
    z = y * 2
    print("before")
    del y
    print("after")
    return z


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_let_go_of_tells_so_before_the_next_line(backend: str) -> None:
    captured = evalframe.jit(lets_go, backend=backend)
    for _ in range(4):
        assert same(printed(captured, X, 1), printed(lets_go, X, 1))
