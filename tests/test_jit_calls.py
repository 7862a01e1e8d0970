"""Calls with starred arguments and of functions that take any: bound as CPython binds them, wherever the graph is left."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import (
    BACKENDS,
    check_behaves_as_plain,
    check_may_be_left,
    differential_tests,
    one_graph_tests,
    outcome,
    same,
)

A = np.linspace(-1.0, 2.0, 12)
B = np.arange(12.0) - 3
OPTIONS = {"scale": 3.0, "shift": A * 2}


def scaled(x, scale=2.0, *, shift=0):
    y = x * scale
    return y + shift


def gather(first, *rest, weight=1, **others):
    total = first * weight
    for a in rest:
        total = total + a
    for name, value in others.items():
        total = total - value * len(name)
    return total, rest, others


def passed_on(*args, **keywords):
    z = args[0] + 1
    return scaled(*args, **keywords) + z


def starred(x, y):
    pair, row = (x, 3.0), [y]
    return scaled(*pair) + scaled(*row, shift=x) + scaled(*row, *(2,), **{"shift": y})


def variadic(x, y):
    return gather(x), gather(x, y, x, weight=2), gather(y, *[x, y], k=x, long=2.0)


def forwarded(x, y):
    return passed_on(x, shift=y) - passed_on(y, 0.5) * passed_on(*(x,), **dict(scale=4.0, shift=1))


def from_outside(x, y):
    return scaled(x, **OPTIONS) + scaled(y, **{**OPTIONS, "scale": 1})


def of_numpy(x, y):
    shape = (3, 4)
    return np.add(*(x, y)), np.full(*(shape, 2.0)), np.sum(*[x], **{"axis": 0, "keepdims": True}), np.zeros(*x.shape) + y


def local_function(x, y):
    k = x * 2

    def inner(*args, factor=3):
        return sum([a * k for a in args]) * factor

    return inner(x, y), inner()


def too_many(x, y):
    z = x + 1
    try:
        return scaled(*(z, 2, 3))
    except TypeError as error:
        return str(error), z


def twice_given(x, y):
    z = x + 1
    try:
        return scaled(z, *(2,), **{"scale": y})
    except TypeError as error:
        return str(error), z


def unknown_keyword(x, y):
    z = x + 1
    try:
        return scaled(z, **{"nonsense": y})
    except TypeError as error:
        return str(error), z


def raises_inside(x, y):
    z = gather(x, y)[0]
    return gather(z, np.ones(5))


def breaks_inside(*arrays, limit=0.0):
    total = arrays[0]
    for a in arrays:
        if a.sum() > limit:
            total = total + a
    return total


def break_in_variadic(x, y):
    return breaks_inside(x, y, -y, limit=1.0) * 2 + breaks_inside(*(y, x))


class Scaler:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, x, *others, shift=0, **named):
        self.last = x
        return gather(x * self.scale + shift, *others, **named)


class Forwarding:
    def __init__(self, inner):
        self.inner = inner

    def __call__(self, *args, **keywords):
        return self.inner(*args, **keywords)


SCALER = Scaler(4.0)
FORWARDING = Forwarding(Forwarding(SCALER))


def to_instances(x, y):
    made = Scaler(2.0)
    row, options = [x, y], {"shift": y, "long": x}
    return made(*row), made(x, **options), SCALER(*row, **OPTIONS), FORWARDING(y, *row, shift=x), made.last + 1


def to_instances_wrongly(x, y):
    z = x + 1
    try:
        return FORWARDING(*(), **{"shift": z}), z
    except TypeError as error:
        return str(error), z


def to_what_cant_be_called(x, y):
    z = x + 1
    try:
        return np.random.SeedSequence(3)(*(z,)), z
    except TypeError as error:
        return str(error), z


FUNCTIONS: list[Callable[..., Any]] = [
    starred, variadic, forwarded, from_outside, of_numpy, local_function, too_many, twice_given, unknown_keyword,
    raises_inside, break_in_variadic, passed_on, gather, to_instances, to_instances_wrongly, to_what_cant_be_called,
]  # fmt: skip
IN_ONE_GRAPH = [starred, variadic, forwarded, from_outside, of_numpy, passed_on, gather, to_instances]
ARGUMENTS = [(A, B), (B, A), (A, -A)]


test_behaves_as_plain_python, test_may_be_left_before_every_node = differential_tests(FUNCTIONS, ARGUMENTS * 5, left=ARGUMENTS, nodes=16, left_on=BACKENDS)
test_is_one_graph = one_graph_tests(IN_ONE_GRAPH, (A, B))


def test_options_may_change_between_calls() -> None:
    options: dict[str, Any] = {"scale": 2.0}

    def call(x: Any) -> Any:
        return scaled(x, **options) + scaled(*rows)

    rows = [B]
    captured = evalframe.jit(call)
    for change in ({}, {"scale": 3.0}, {"shift": A}, {"scale": 1}):
        options.update(change)
        rows.append(1.5) if len(rows) == 1 and change else None
        for _ in range(2):
            assert same(captured(A), call(A))


UNRECORDED = [
    np.arange(4).astype(dtype) for dtype in ("g", "G", object, "m8[s]", [("a", "f8")])
] + [np.ma.arange(4), np.arange(4.0).view(np.recarray), "abcd", [1, 2], {1: 2}, b"abc", (1, 2)]  # fmt: skip


@pytest.mark.parametrize("method", ["copy", "sum", "count", "index", "tolist", "__len__", "__repr__"])
@pytest.mark.parametrize("given", UNRECORDED, ids=lambda given: f"{type(given).__name__} {getattr(given, 'dtype', '')}")
def test_bound_methods_of_what_is_not_recorded(given: Any, method: str) -> None:
    def bound(given: Any, x: Any) -> Any:
        y = x + 1
        call = getattr(given, method)
        return call(), y

    def spread(given: Any, x: Any) -> Any:
        calls = given.__len__, given.__repr__
        arguments: tuple[Any, ...] = ()
        return [call(*arguments) for call in calls], x * 2

    def attribute(given: Any, x: Any) -> Any:
        y = x * 2
        call = given.copy
        return call(), y

    def total(given: Any, x: Any) -> Any:
        call = given.sum
        y = x * 2
        return call(), y

    for function in (bound, spread, attribute, total):
        captured = evalframe.jit(function)
        for _ in range(3):
            assert same(outcome(captured, given, np.ones(3)), outcome(function, given, np.ones(3)))


SETTINGS = {"scale": 2, "names": ["a", "b"]}


class Slotted:
    __slots__ = ("scale", "cached")

    def __init__(self, scale):
        self.scale = scale

    def of(self, x):
        try:
            return x * self.cached
        except AttributeError as error:
            told = error.args, error.name, error.obj is self
            self.cached = self.scale + 1
            return x * self.cached, told

    def forget(self):
        del self.cached


class Fallback(Slotted):
    __slots__ = ()

    def __getattr__(self, name):
        return len(name)


def methods_of_text(x, y):
    text, join = "{scale} {names[1]}".format, "-".join
    return x + y, text(**SETTINGS), "{} {}".format(*("a", 2)), join(["a", "b"]), join(*[("c", "d")]), len("a b".split(*[" "]))


def methods_of_containers(x, y):
    rows, counts = [], {}
    rows.append(*(x,))
    add, get = rows.append, counts.get
    add(*[y])
    counts.update(*({"a": 1},))
    return rows[0] * get(*("a",)) + rows[1], rows, counts, len(rows)


def pure_functions(x, y):
    return x * math.gcd(*(4, 6)) + y, int(*("7", 8)), max(*[1, 3, 2])


def starred_errors(x, y):
    z = x + 1
    try:
        return "a".join(*(1,))
    except TypeError as error:
        z = z * 2
        return str(error), z, y


def slots_without_values(x, y):
    made = Slotted(2.0)
    first, told = made.of(x)
    second = made.of(y)
    made.forget()
    return first, told, second, made.of(x), hasattr(made, "cached"), Fallback(1.0).of(y)


@pytest.mark.parametrize("function", [methods_of_text, methods_of_containers, slots_without_values, starred_errors])
def test_bound_methods_of_c_and_slots_without_values_are_recorded(function: Callable[..., Any]) -> None:
    captured = evalframe.jit(function, backend="reference")
    for arguments in [(A, B), (B, A), (A, B)]:
        assert same(outcome(captured, *arguments), outcome(function, *arguments))
    assert _core.jit_counters(captured)["recordings"] == 1, _core.jit_breaks(captured)
    check_may_be_left(function, "reference", [(A, B), (B, A)], 6)


def test_starred_arguments_of_builtins() -> None:
    check_behaves_as_plain(pure_functions, "reference", [(A, B), (B, A)])
    check_may_be_left(pure_functions, "reference", [(A, B), (B, A)], 4)


def test_keywords_of_a_method_are_asked_for() -> None:
    def function(x, options):
        return x + 1, "{scale}".format(**options)

    check_behaves_as_plain(function, "reference", [(A, {"scale": 1}), (A, {"scale": 2}), (A, {"shift": 1}), (A, {"shift": 1, "scale": [3]}), (A, 5)])


def test_methods_of_text_that_varies() -> None:
    def function(x, text):
        upper = text.upper
        return x + 1, upper()

    check_behaves_as_plain(function, "reference", [(A, "a"), (A, "b"), (A, "a"), (A, b"c"), (A, 3)])


SEEN: list[float] = []


def noted(value):
    SEEN.append(value)
    return value + len(SEEN)


NOTED = np.frompyfunc(noted, 1, 1)


def with_ufunc_in_python(x):
    SEEN.clear()
    y = NOTED(x)
    return y.tolist(), len(SEEN), list(SEEN)


@pytest.mark.parametrize("backend", BACKENDS)
def test_ufuncs_that_call_python_do_what_they_do_in_their_place(backend: str) -> None:
    captured = evalframe.jit(with_ufunc_in_python, backend=backend)
    for start in range(3):
        arguments = (np.arange(3.0) + start,)
        assert same(outcome(captured, *arguments), outcome(with_ufunc_in_python, *arguments))
