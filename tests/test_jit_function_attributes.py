"""Attributes of functions that recorded code makes, and which exception it handles."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_behaves_as_plain, check_may_be_left, one_graph_tests, outcome, put_into

A = np.linspace(-1.0, 2.0, 6)
B = np.arange(6.0) - 3

CASES: list[Callable[..., Any]] = []
ONE_GRAPH: list[Callable[..., Any]] = []
case = put_into(CASES)
one_graph = put_into(CASES, ONE_GRAPH)


def told_of(function: Any) -> Any:
    names = {name: value for name, value in vars(function).items() if value is not function}
    return function.__name__, function.__qualname__, function.__doc__, function.__defaults__, function.__kwdefaults__, function.__annotations__, names


@one_graph
def stored_and_read(a: Any, b: Any) -> Any:
    def inner(c: Any) -> Any:
        inner.calls += 1
        return c * inner.gain

    inner.calls = 0
    inner.gain = b
    return inner(a) + inner(b), inner.calls


@one_graph
def facts(a: Any, b: Any) -> Any:
    def inner(c: int, d: float = 2.0, *, by: Any = 3) -> float:
        "The text."
        return c * d * by

    z = inner(a) + b
    return z, inner.__name__, inner.__qualname__, inner.__defaults__, inner.__kwdefaults__, inner.__annotations__, inner.__closure__


@one_graph
def annotations_are_one_dict(a: Any, b: Any) -> Any:
    def inner(c: int) -> None: ...

    def bare(c): ...  # type: ignore[no-untyped-def]

    inner.__annotations__["d"] = "float"
    bare.__annotations__["e"] = "str"
    return a + b, inner.__annotations__, bare.__annotations__, inner.__annotations__ is inner.__annotations__


@one_graph
def renamed(a: Any, b: Any) -> Any:
    def inner() -> Any:
        return a

    inner.__name__ = "other"
    inner.__qualname__ = "an.other"
    return inner() * b, inner.__name__, inner.__qualname__


@case
def handed_out(a: Any, b: Any) -> Any:
    def inner(c: int = 3) -> Any:
        return a

    inner.me = inner
    inner.rows = [a, b]
    inner.__name__ = "other"
    inner.__annotations__
    z = a + b
    inner.late = z * 2
    eval("0")
    inner.rows.append(z)
    return z, inner.me is inner, told_of(inner)


@case
def given_back(a: Any, b: Any) -> Any:
    def inner() -> Any:
        return a

    inner.first = 1
    inner.first = b + 1
    inner.second = "x"
    return told_of(inner), a * 2


@case
def refused(a: Any, b: Any) -> Any:
    def inner() -> Any:
        return a

    z = inner() + b
    try:
        inner.__name__ = 3
    except TypeError:
        z = z * 2
    try:
        return inner.missing
    except AttributeError:
        return z


@case
def which_exception_is_handled(a: Any, b: Any) -> Any:
    z = a + b
    before = sys.exception()
    try:
        raise KeyError("handled")
    except KeyError as error:
        z = z * (2 if sys.exception() is error else 3)
    return z, before, sys.exception()


class Gain:
    def __init__(self, gain: float, catches: Any = ()) -> None:
        self.gain, self.catches = gain, catches

    def __enter__(self) -> float:
        return self.gain

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        return kind is not None and issubclass(kind, self.catches)


@case
def stacks_of_managers(a: Any, b: Any) -> Any:
    seen: list[Any] = []
    z = a
    with contextlib.ExitStack() as stack:
        z = z * stack.enter_context(Gain(2.0))
        stack.callback(seen.append, 1)
        stack.enter_context(Gain(3.0, KeyError))
        z = z + b
        raise KeyError("caught by the stack")
    return z, seen


@case
def stack_that_lets_through(a: Any, b: Any) -> Any:
    with contextlib.ExitStack() as stack:
        z = a * stack.enter_context(Gain(2.0, KeyError))
        raise ValueError(z.ndim)
    return b


@one_graph
def taken_out(a: Any, b: Any) -> Any:
    def inner(c: Any) -> Any:
        return c * 2

    inner.gain = 3  # type: ignore[attr-defined]
    inner.other = 4  # type: ignore[attr-defined]
    taken = inner.__dict__.pop("gain"), inner.__dict__.pop("gain", None), inner.__dict__.pop("missing", b), inner.__dict__.pop("__name__", 5)
    return inner(a), taken, hasattr(inner, "gain"), inner.other, inner.__name__  # type: ignore[attr-defined]


@case
def taken_out_of_nothing(a: Any, b: Any) -> Any:
    def inner(c: Any) -> Any:
        return c * 2

    try:
        inner.__dict__.pop("missing")
    except KeyError as error:
        return inner(a) + b, str(error)


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_behaves_as_plain(function: Callable[..., Any]) -> None:
    check_behaves_as_plain(function, "reference", [(A, B), (B, A), (A, B), (B[:4], A[:4])], outcome)


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_may_be_left_before_every_node(function: Callable[..., Any]) -> None:
    check_may_be_left(function, "reference", [(A, B), (B, A)], 10, outcome)


test_one_graph = one_graph_tests(ONE_GRAPH, (A, B))
