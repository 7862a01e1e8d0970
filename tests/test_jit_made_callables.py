"""Calls of what C functions make of others, and substitutions by functions: what they call is recorded with them."""

from __future__ import annotations

import functools
import inspect
import operator
import re
import string
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_with_every_frame, differential_tests, one_graph_tests, put_into
from test_jit_stand_ins import SEEN, A, B, Vector, callers, note, told

CALLS = [(A, B), (B, A), (A, B)]
CASES: list[Callable[..., Any]] = []
BREAKING: list[Callable[..., Any]] = []
WORDS = re.compile(r"(\w)(\w*)")
UPPER = operator.methodcaller("upper")


case = put_into(CASES)
breaking = put_into(BREAKING)  # those that aren't one graph


class Table:
    def __init__(self, a: Any) -> None:
        self.a = a

    def scaled(self, by: Any, more: Any = 1) -> Any:
        return self.a * by + more


class Text(str):
    def upper(self) -> Any:
        return "own"


@case
def methods_by_name(a: Any, b: Any) -> Any:
    table = Table(a)
    table.lower = lambda: b  # type: ignore
    texts = list(map(operator.methodcaller("strip", "x"), ["xa", "bx"])), operator.methodcaller("upper")("ab"), operator.methodcaller("upper")(Text("ab"))
    return operator.methodcaller("scaled", 2)(table), operator.methodcaller("scaled", b, a)(table), operator.methodcaller("lower")(table), texts


@breaking
def methods_that_are_wrong(a: Any, b: Any) -> Any:
    told = []
    calls: list[Any] = [
        lambda: operator.methodcaller("no")("a"),
        lambda: operator.methodcaller("strip", 1)("a"),
        lambda: operator.methodcaller(5),
        lambda: operator.methodcaller(),
        lambda: operator.methodcaller("upper")(),
        lambda: operator.methodcaller("upper")("a", "b"),
        lambda: operator.methodcaller("sum")(a),
        lambda: operator.methodcaller("scaled", by=2)(Table(a)),
        lambda: UPPER("a"),
    ]
    for call in calls:
        try:
            told.append(call())
        except (TypeError, AttributeError) as error:
            told.append(str(error))
    caller = operator.methodcaller("index", 2)
    note("here")
    return told, caller([1, 2]), repr(caller), a + b


@case
def substituted(a: Any, b: Any) -> Any:
    seen = []

    def by(found: Any) -> Any:
        seen.append(found.span())
        return found[1].upper() + found[2]

    long = "the quick brown fox " * 3
    texts = WORDS.sub(by, "to be"), re.sub("x*", lambda found: "-", "abxd"), re.sub(r"\d", lambda found: str(int(found[0]) + 1), "a1b2", count=1)
    parts = re.sub("b|", lambda found: None, "abc"), re.sub("a", lambda found: "", ""), WORDS.sub(by, long, 2), re.sub("A", lambda found: "b", "aA", flags=re.I)
    return texts, parts, seen, a + b


@case
def template(a: Any, b: Any) -> Any:
    text = string.Template("$a is ${b}, $$1").substitute({"a": 1}, b="two")
    return text, string.Template("$a and $c").safe_substitute(a=a.ndim), a + b


@case
def numbers_of_the_locale(a: Any, b: Any) -> Any:
    return "{:n}|{:>8n}".format(1234567, 0.5), format(10**20, "n"), format(2.5, ".3n"), str({"a": [1, (2,)], "b": {}}), str([[1], {2}]), a + b


@breaking
def wrong_substitutions(a: Any, b: Any) -> Any:
    told: list[Any] = []
    calls: list[Any] = [
        lambda: WORDS.sub(lambda found: 5, "ab cd"),
        lambda: WORDS.sub(lambda found: found[9], "ab"),
        lambda: WORDS.sub(str.upper, "ab"),
        lambda: WORDS.sub(lambda found: "x", b"ab"),
        lambda: WORDS.sub(lambda found: "x", Text("ab cd")),
        lambda: WORDS.sub(lambda found: Text("x"), "ab cd"),
        lambda: WORDS.sub(lambda found: "x", "ab cd", -1),
        lambda: WORDS.sub(lambda found: "x", "ab cd", "1"),
        lambda: WORDS.sub(repl=lambda found: "x", string="ab cd"),
        lambda: WORDS.sub(5, "ab"),
        lambda: string.Template("$a").substitute(b=1),
        lambda: string.Template("$").substitute(b=1),
    ]
    for call in calls:
        try:
            told.append((call(), type(call())))
        except (TypeError, IndexError, KeyError, ValueError) as error:
            told.append((type(error), str(error)))
    return told, a + b


@breaking
def noting_substitution(a: Any, b: Any) -> Any:
    z = a + b

    def by(found: Any) -> Any:
        note(found.start())
        SEEN.append(callers())
        if found[0] == "stop":
            raise LookupError("here")
        return found[0] * 2

    texts = [re.sub(r"\w+", by, "to be"), WORDS.sub(by, "or not", 1)]
    try:
        WORDS.sub(by, "to stop")
    except LookupError as error:
        return texts, str(error), z
    return z


@case
def wrapped(a: Any, b: Any) -> Any:
    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def inner(*arguments: Any) -> Any:
            return function(*arguments) * 2

        return inner

    @decorate
    def local(x: Any) -> Any:
        "Adds."
        return x + b

    return local(a), local.__name__, local.__doc__, local.__wrapped__(b)


@case
def partials_of_methods(a: Any, b: Any) -> Any:
    table = Table(a)
    scaled, doubled = functools.partial(table.scaled, more=b), functools.partial(table.scaled, 2)
    method = table.scaled
    signature = inspect.signature(method)
    return scaled(3), scaled(more=1, by=b), doubled(), doubled(a), method.__self__ is table, method.__func__ is Table.scaled, [*signature.parameters]


def combined(x: Any, y: Any = 1, *, by: Any = 2) -> Any:
    return x * y + by


KEPT, OF_BUILTIN = functools.partial(combined, y=3), functools.partial(max, 2)


@case
def partials_from_outside(a: Any, b: Any) -> Any:
    return KEPT(a), KEPT(a, by=b), KEPT(b, y=a), OF_BUILTIN(5)


def test_keywords_of_a_partial_may_change() -> None:
    kept = functools.partial(combined, y=3)
    captured = evalframe.jit(lambda x: kept(x) + 1)
    for change in (lambda: None, lambda: kept.keywords.update(y=A), lambda: kept.keywords.update(by=1.5), kept.keywords.clear):
        change()
        for _ in range(2):
            assert np.array_equal(captured(A), kept(A) + 1)


@breaking
def partials_of_methods_that_are_wrong(a: Any, b: Any) -> Any:
    told = []
    calls: list[Any] = [functools.partial(Table(a).scaled), functools.partial(Table(a).scaled, 1, 2, 3), functools.partial(Table(a).scaled, 1, by=2)]
    for call in calls:
        try:
            told.append(call())
        except TypeError as error:
            told.append(str(error))
    return told


@breaking
def wrappers_are_kept(a: Any, b: Any) -> Any:
    def local(x: Any, n: int = 2) -> Any:
        "Adds."
        return x * n

    local.mark = 5  # type: ignore

    @functools.wraps(local, assigned=("__doc__", "__name__"), updated=())
    def other(x: Any) -> Any:
        return local(x) + b

    @functools.wraps(local)
    def third(x: Any) -> Any:
        return local(x) + a

    note("here")
    facts = [(f.__name__, f.__qualname__, f.__doc__, f.__module__, f.__wrapped__ is local, sorted(vars(f)), f.__annotations__) for f in (other, third)]  # type: ignore
    return other(a), third(b), facts


def test_the_locale_is_asked_in_each_run() -> None:
    captured = evalframe.jit(numbers_of_the_locale, backend="reference")
    captured(A, B)
    (entry,) = _core.jit_entries(captured)
    assert "numbers_of_locale" in entry["graph"]


test_is_one_graph = one_graph_tests(CASES, (A, B), told)
test_is_as_in_plain_python, test_may_be_left_before_every_node = differential_tests(CASES + BREAKING, CALLS, told, left=CALLS, nodes=10)


@pytest.mark.parametrize("function", CASES + BREAKING, ids=lambda function: function.__name__)
def test_is_as_in_plain_python_with_every_frame(function: Callable[..., Any]) -> None:
    check_with_every_frame(function, CALLS, told)
