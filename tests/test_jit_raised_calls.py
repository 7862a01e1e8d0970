"""Exceptions that calls of known arguments raise: recorded on, and made anew with all that CPython's has wherever a graph is left."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import datetime
import json
import re
import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_behaves_as_plain, check_may_be_left, outcome, same
from test_jit_exceptions import describe, told, told_in_handler

A = np.linspace(-1.0, 2.0, 12)
B = np.arange(12.0) - 3


def wrong_pattern(x: Any, y: Any) -> Any:
    z = x + 1
    try:
        re.compile("(a")
    except re.error as error:
        z = z * y
        return z, error.msg, error.pos, str(error), error.pattern
    return x


def wrong_json(x: Any, y: Any) -> Any:
    try:
        json.loads("[1,")
    except ValueError as error:
        return x + y, error.args, error.doc, isinstance(error, json.JSONDecodeError)
    return x


def wrong_bytes(x: Any, y: Any) -> Any:
    z = x * 2
    try:
        b"ab\xff".decode("utf8")
    except UnicodeDecodeError as error:
        return z - y, error.start, error.end, error.reason, error.object, error.encoding
    return z


def wrong_dates(x: Any, y: Any) -> Any:
    n = 0
    for day in ("2024-02-30", "nonsense", "2024-01-02"):
        try:
            n = n + datetime.date.fromisoformat(day).day
        except ValueError:
            n = n + 100
    return x * n + y


def wrong_struct(x: Any, y: Any) -> Any:
    try:
        return x, struct.unpack("<i", b"ab")
    except struct.error:
        return x + y


def kept(x: Any, y: Any) -> Any:
    z = x + 1
    try:
        json.loads("{")
    except ValueError as error:
        z = z + y
        problem = error
        problem.note = 5
        z = z * problem.note
    problem.add_note("while reading")
    z = z - 1
    del error_of[:]
    raise problem


error_of: list[Any] = []


def of_argument(x: Any, y: Any, text: Any) -> Any:
    try:
        return x + json.loads(text)
    except ValueError as error:
        z = x * y
        return z + 1, error.pos


def raised_in_handler(x: Any, y: Any) -> Any:
    z = x * 2
    try:
        raise KeyError("first")
    except KeyError:
        z = z + y
        json.loads("nothing")
    return z


def chained(x: Any, y: Any) -> Any:
    z = x * 2
    try:
        try:
            json.loads("nothing")
        except ValueError as error:
            z = z + y
            raise KeyError(error.pos) from error
    except KeyError as outer:
        z = z + 1
        error_of.append(outer)
        z = z * 2
        raise
    return z


def deep(x: Any, text: Any) -> Any:
    z = x - 1
    return z * json.loads(text)


def through_frames(x: Any, y: Any) -> Any:
    z = x + y
    try:
        return deep(z, "]")
    finally:
        z = z * 2


class Catches:
    def __enter__(self) -> Any:
        self.seen: Any = None
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        self.seen = kind, error
        return kind is not None


def in_with(x: Any, y: Any) -> Any:
    with Catches() as catches:
        z = x + 1
        re.match("*", "a")
    return z * y, catches.seen[0] is re.error, catches.seen[1].msg


def generator_meets_it(x: Any, y: Any) -> Any:
    def rows() -> Any:
        yield x
        try:
            yield json.loads("?")
        except ValueError as error:
            yield y * error.pos

    return [row + 1 for row in rows()]


ONE_GRAPH = [wrong_pattern, wrong_json, wrong_bytes, wrong_dates, wrong_struct, in_with, generator_meets_it]
OTHERS = [kept, raised_in_handler, chained, through_frames]


@pytest.mark.parametrize("function", ONE_GRAPH)
def test_is_one_graph(function: Callable[..., Any]) -> None:
    captured = check_behaves_as_plain(function, "reference", [(A, B), (B, A), (A, B)], told)
    assert _core.jit_counters(captured)["recordings"] == 1, _core.jit_breaks(captured)


@pytest.mark.parametrize("telling", [told, told_in_handler])
@pytest.mark.parametrize("function", ONE_GRAPH + OTHERS)
def test_is_as_in_plain_python_wherever_the_graph_is_left(function: Callable[..., Any], telling: Callable[..., Any]) -> None:
    check_behaves_as_plain(function, "reference", [(A, B), (B, A), (A, B)], telling)
    check_may_be_left(function, "reference", [(A, B), (B, A)], 8, telling)


def test_is_another_exception_at_each_call() -> None:
    def function(x: Any) -> Any:
        y = x + 1
        try:
            json.loads("")
        except ValueError as error:
            return y, error
        return y

    captured = evalframe.jit(function, backend="reference")
    (_, first), (_, second), (_, third) = (captured(A) for _ in range(3))
    assert first is not second is not third
    assert describe(second)[:2] == describe(function(A)[1])[:2] and second.pos == 0
    back = second.__traceback__.tb_next.tb_frame.f_back
    assert back is second.__traceback__.tb_frame


def test_arguments_are_asked_for() -> None:
    calls = [(A, B, "1"), (A, B, "["), (B, A, "["), (A, B, "  ["), (A, B, "2"), (A, B, b"["), (A, B, 5)]
    check_behaves_as_plain(of_argument, "reference", calls, told)
    check_may_be_left(of_argument, "reference", calls, 4, told)


def test_what_a_program_puts_in_the_place_of_the_function_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    captured = evalframe.jit(wrong_json, backend="reference")
    captured(A, B)
    monkeypatch.setattr(json, "loads", lambda text: [1])
    assert same(outcome(captured, A, B), outcome(wrong_json, A, B))


def test_what_is_raised_for_other_reasons_is_no_fact() -> None:
    """As the handler of a signal does."""
    failing = [True]
    original = json.decoder.JSONDecoder.raw_decode

    def raw_decode(self: Any, s: str, idx: int = 0) -> Any:
        if failing and failing.pop():
            raise TimeoutError("too long")
        return original(self, s, idx)

    def function(x: Any) -> Any:
        try:
            return x + json.loads("1")
        except TimeoutError:
            return x - 1

    json.decoder.JSONDecoder.raw_decode = raw_decode  # type: ignore[method-assign]
    try:
        captured = evalframe.jit(function, backend="reference")
        assert same(captured(A), A - 1)
    finally:
        json.decoder.JSONDecoder.raw_decode = original  # type: ignore[method-assign]
    assert same(captured(A), A + 1)


def test_warnings_come_at_each_call() -> None:
    def function(x: Any) -> Any:
        try:
            re.compile("[[a](")
        except re.error:
            return x + 1

    captured = evalframe.jit(function, backend="reference")
    for _ in range(3):
        assert same(outcome(captured, A), outcome(function, A))


def test_no_reference_is_kept() -> None:
    def function(x: Any, text: str) -> Any:
        try:
            json.loads(text)
        except ValueError as error:
            return x + error.pos

    captured = evalframe.jit(function, backend="reference")
    text = "not json " * 2
    captured(A, text)
    before = sys.getrefcount(text)
    for _ in range(20):
        captured(A, text)
    assert sys.getrefcount(text) == before


def shapes_that_differ(x: Any, y: Any) -> Any:
    z = x + y
    try:
        z = z + x[:3]
    except ValueError as error:
        z = z * 2
        return z, str(error), error.args
    return z


def shapes_of_many(x: Any, y: Any) -> Any:
    n = 0
    for other in (x[:3], y, x.reshape(2, -1), 2.0):
        try:
            y = np.multiply(y, other)
        except ValueError:
            n += 1
        try:
            y = y + np.concatenate([y[:6], other])[0]
        except ValueError:
            n += 10
    return y, n


def shape_error_to_the_caller(x: Any, y: Any) -> Any:
    z = x + y
    try:
        return np.dot(z, x[:4])
    finally:
        z = z * 2
        error_of.append(z)
        del error_of[:]


def compared(x: Any, y: Any) -> Any:
    try:
        return x < y[:2]
    except ValueError as error:
        error.add_note("compared")
        z = x * 3
        raise KeyError(len(z)) from error


SHAPES = [shapes_that_differ, shapes_of_many, shape_error_to_the_caller, compared]
FLOATS = A.astype(np.float32)
SHAPE_CALLS = [(A, B), (A[:3], B[:3]), (B, A), (A[:6], B[:6]), (A[:3], B[:3]), (A[:6], A), (FLOATS, B), (A[:1], B[:1]), (A, B)]


@pytest.mark.parametrize("telling", [told, told_in_handler])
@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("function", SHAPES)
def test_shapes_that_do_not_fit(function: Callable[..., Any], backend: str, telling: Callable[..., Any]) -> None:
    check_behaves_as_plain(function, backend, SHAPE_CALLS, telling)
    check_may_be_left(function, backend, SHAPE_CALLS[:4], 12, telling)


def test_shapes_that_do_not_fit_are_one_graph() -> None:
    for function in SHAPES[:2]:
        captured = evalframe.jit(function, backend="reference")
        captured(A, B)
        assert _core.jit_counters(captured)["recordings"] == 1, _core.jit_breaks(captured)


def test_values_that_raise_are_no_facts() -> None:
    def function(x: Any, y: Any) -> Any:
        try:
            return np.power(x, y)
        except ValueError as error:
            return x + 1, str(error)

    whole = np.arange(4)
    check_behaves_as_plain(function, "reference", [(whole, whole - 2), (whole, whole), (whole, whole - 2), (whole, whole[:2])], told)


def test_what_is_written_into_may_be_read_only() -> None:
    def function(x: Any, y: Any) -> Any:
        try:
            x += y
        except ValueError as error:
            return y + 1, str(error)
        return x

    fixed = A.copy()
    fixed.flags.writeable = False
    check_behaves_as_plain(function, "reference", [(A.copy(), B[:3]), (fixed, B[:3]), (A.copy(), B[:3])], told)
