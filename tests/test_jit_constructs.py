"""Ordinary Python around arrays: same results, effects and exceptions, wherever the graph is left, and no recording for each call."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_behaves_as_plain, check_may_be_left, leaving_before, one_graph_tests, outcome, same

A = np.linspace(-1.0, 2.0, 12)
B = np.arange(12.0) - 3


def lambdas(x: Any, y: Any) -> Any:
    double = lambda a: a * 2  # noqa: E731
    return double(x) + double(y), double


def closure(x: Any, y: Any) -> Any:
    k = x + y

    def scaled(a, factor=k.shape[0], other=x):  # type: ignore[no-untyped-def]
        return (a + k) * factor - other

    return scaled(x) + scaled(y, 2) + scaled(x, other=y)


def shared(x: Any, y: Any) -> Any:
    total, count = x * 0, 0

    def add(a):  # type: ignore[no-untyped-def]
        nonlocal total, count
        total = total + a
        count += 1
        return total

    first = add(x)
    second = add(y * 2)
    return first, second, total, count


def breaks_in_closure(x: Any, y: Any) -> Any:
    k = x * 2

    def limited(a):  # type: ignore[no-untyped-def]
        b = a + k
        if b.sum() > 0:
            b = b - k
        return b * k

    k = k + 1
    return limited(x), limited(y), limited(-y)


def makes_functions(x: Any, y: Any) -> Any:
    def adder(n):  # type: ignore[no-untyped-def]
        m = n * y

        def add(a):  # type: ignore[no-untyped-def]
            return a + m

        return add

    first, second = adder(x), adder(3)
    return first(y) * second(x), first.__closure__[0].cell_contents


def recursive(x: Any, y: Any) -> Any:
    def down(n):  # type: ignore[no-untyped-def]
        return x if n == 0 else down(n - 1) * y + n

    return down(3), down


def unbound(x: Any, y: Any) -> Any:
    def early():  # type: ignore[no-untyped-def]
        return late * 2

    z = x + 1
    try:
        return early()
    except NameError as error:
        late = y
        return str(error), early(), z


def list_comprehension(x: Any, y: Any) -> Any:
    rows = [x * i + y for i in range(4) if i != 2]
    return sum(rows), [row[0] for row in rows]


def nested_comprehension(x: Any, y: Any) -> Any:
    return [[a * b for a in (x, y)] for b in (y, 2)]


def generator_expression(x: Any, y: Any) -> Any:
    return sum(a * 2 for a in (x, y)), max(i * 2 for i in range(3))


def raises_in_lambda(x: Any, y: Any) -> Any:
    z = x * 2
    wrong = lambda a: a @ np.ones(5)  # noqa: E731
    return wrong(z)


def joined(x: Any, y: Any) -> Any:
    pair = (x, x + 1) + (y,)
    row = [x] + [y, 2]
    row.append(pair)
    return pair, row, pair[1] + row[1]


def with_errstate(x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        z = x / (y * 0)
    return z + 1


def nested_errstate(x: Any, y: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        z = x / (y * 0)
        with np.errstate(all="warn"):
            w = y * 2
        with warnings.catch_warnings(record=True) as caught:
            v = np.log(x)
    u = w - 1
    return z, v, u, len(caught), np.geterr()["divide"]


def raises_in_errstate(x: Any, y: Any) -> Any:
    z = x + 1
    try:
        with np.errstate(divide="raise"):
            z = z * 2
            return z / (y * 0)
    except FloatingPointError as error:
        return str(error), z, np.geterr()["divide"]


def warns_behind_errstate(x: Any, y: Any) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with np.errstate(all="ignore"):
            z = x / (y * 0)
        w = (y * 0 + 1) / (x * 0)
        v = w + z
    return v, [str(warning.message) for warning in caught]


class Base:
    def __init__(self, gain: float) -> None:
        self.gain = gain

    def apply(self, x: Any) -> Any:
        return x * self.gain


class Derived(Base):
    def apply(self, x: Any) -> Any:
        return super().apply(x) + 1


def fresh_objects(x: Any, y: Any) -> Any:
    return Derived(2.0).apply(x) - Base(0.5).apply(y)


def formatted(x: Any, y: Any) -> Any:
    n, name = x.shape[0], "x"
    text = f"{name!r:>6}: {n:04d} of {3.5:.2f} {n}"
    return x * len(text), text, name.upper().startswith("X") and "abc".replace("b", name)


def formatted_numbers(x: Any, y: Any, scale: float = 0.5) -> Any:
    z = x * scale
    text = f"{scale} {scale:n} {z[0]:.3f}"
    return z + 1, text


def starred(x: Any, y: Any) -> Any:
    first, *middle, last = (x, y, x * 2, 3)
    *head, end = [x, y]
    only, *nothing = (x + 1,)
    middle.append(last)
    return first + middle[1], middle, head, end * 2, only, nothing


def starred_too_few(x: Any, y: Any) -> Any:
    z = x * 2
    a, b, c, *rest = (z, y)
    return a, b, c, rest


def longer_lists(x: Any, y: Any) -> Any:
    row = [x]
    same_row = row
    row.extend((y, x + y))
    row.extend(row)
    row.extend([])
    return sum(row), row, same_row is row


def parts_of_made(x: Any, y: Any) -> Any:
    row, pair = [x, y, x * 2, y * 3], (x, y, 1)
    whole = pair[:]
    return row[1:], row[::-2], pair[:-1], pair[5:], whole is pair, row[:2][0] + pair[1:][0]


def members(x: Any, y: Any) -> Any:
    k = x.shape[0]
    return x + 1 if k in {1, 12} and "a" not in {"b", "c"} and 0 < k <= 12 else y


FUNCTIONS: list[Callable[..., Any]] = [
    lambdas,
    closure,
    shared,
    breaks_in_closure,
    makes_functions,
    recursive,
    unbound,
    list_comprehension,
    nested_comprehension,
    generator_expression,
    raises_in_lambda,
    joined,
    with_errstate,
    nested_errstate,
    raises_in_errstate,
    warns_behind_errstate,
    fresh_objects,
    formatted,
    formatted_numbers,
    starred,
    starred_too_few,
    longer_lists,
    parts_of_made,
    members,
]
ARGUMENTS = [(A, B), (B, A), (A, -A)]
IN_ONE_GRAPH = [with_errstate, closure, shared, list_comprehension, nested_comprehension, joined, formatted, starred, longer_lists, members]


def plain(result: Any) -> Any:
    """Functions are compared by what they are made of."""
    if isinstance(result, (tuple, list)):
        return type(result)(map(plain, result))
    return (result.__code__, result.__defaults__) if hasattr(result, "__code__") else result


def plain_outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    return plain(outcome(function, *arguments))


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_behaves_as_plain_python(function: Callable[..., Any], backend: str) -> None:
    captured = check_behaves_as_plain(function, backend, ARGUMENTS * 5, plain_outcome)
    assert _core.jit_counters(captured)["plain_calls"] == 0


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_may_be_left_before_every_node(function: Callable[..., Any], backend: str) -> None:
    check_may_be_left(function, backend, ARGUMENTS, 12, plain_outcome)


test_is_one_graph = one_graph_tests(IN_ONE_GRAPH, (A, B))


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if f is not warns_behind_errstate], ids=lambda f: f.__name__)
def test_later_calls_record_nothing_more(function: Callable[..., Any]) -> None:
    captured = evalframe.jit(function)
    for _ in range(6):
        outcome(captured, A, B)
    before = _core.jit_counters(captured)["recordings"]
    for _ in range(6):
        outcome(captured, A, B)
    assert _core.jit_counters(captured)["recordings"] == before


def test_a_function_that_leaves_the_graph_has_its_own_cells() -> None:
    def counter(x: Any) -> Any:
        n = x * 1

        def step() -> Any:
            nonlocal n
            n = n + 1
            return n

        return step

    captured = evalframe.jit(counter)
    for _ in range(3):
        first, second = captured(A), captured(A)
        first()
        assert np.array_equal(first(), A + 2) and np.array_equal(second(), A + 1)


def annotated(x: Any, y: Any) -> Any:
    def scaled(a: Any, factor: float = 2.0) -> Any:
        return a * factor + y

    z = scaled(x) * 2
    return z, scaled


def test_annotations_of_local_functions_are_kept() -> None:
    captured = evalframe.jit(annotated, backend="reference", fullgraph=True)
    captured(A, B)
    assert _core.jit_counters(captured)["recordings"] == 1
    expected, function = annotated(A, B)
    for node in (-1, -1, 0, 1, 2):
        with leaving_before(node):
            z, made = captured(A, B)
        assert same(z, expected) and same(made(B), function(B))
        assert made.__annotations__ == function.__annotations__ == {"a": "Any", "factor": "float", "return": "Any"}
