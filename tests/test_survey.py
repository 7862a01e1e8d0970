"""What each construct of the language costs: graphs recorded for one call, and where it breaks. A change is to be seen here."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import outcome, same

A = np.linspace(-1.0, 2.0, 12)
B = np.arange(12.0) - 3
RANDOM = np.random  # NumPy imports it when it is first asked for


class Box:
    def __init__(self, gain: float) -> None:
        self.gain = gain
        self.last: Any = None

    @property
    def twice(self) -> float:
        return self.gain * 2


BOX = Box(2.0)


def helper(a: Any, b: Any = 1) -> Any:
    return a * 2 + b


def gather(*arrays: Any) -> Any:
    return arrays[0] + arrays[1]


def f_string(x: Any, y: Any) -> Any:
    n = 3
    return x * len(f"a{n}b{n:03d}")


def str_method(x: Any, y: Any) -> Any:
    return x + 1 if "abc".upper() == "ABC" else y


def membership(x: Any, y: Any) -> Any:
    return x + 1 if "a" in ("a", "b") and 3 in {1, 3} else y


def chained_comparison(x: Any, y: Any) -> Any:
    return x + 1 if 0 < x.shape[0] < 100 else y


def math_of_numbers(x: Any, y: Any) -> Any:
    return x * math.sqrt(2.0) + min(3, 4) + max(len(x), 2) + round(2.567, 1) + abs(-3) + int(2.5) + sum(range(4))


def unpack_ex(x: Any, y: Any) -> Any:
    a, *rest = (x, y, x)
    return a + rest[0]


def slice_of_list(x: Any, y: Any) -> Any:
    return [x, y, x][1:][0] + (x, y)[:1][0]


def list_extend(x: Any, y: Any) -> Any:
    row = [x]
    row.extend([y, y])
    return row[0] + row[2]


def list_pop(x: Any, y: Any) -> Any:
    row = [x, y]
    return row.pop() + 1


def list_store(x: Any, y: Any) -> Any:
    row = [x, y]
    row[0] = y
    return row[0] + 1


def enumerated(x: Any, y: Any) -> Any:
    for i, a in enumerate((x, y)):
        x = x + a * i
    return x


def zipped(x: Any, y: Any) -> Any:
    for a, b in zip((x, y), (1, 2), strict=True):
        x = x + a * b
    return x


def dict_literal(x: Any, y: Any) -> Any:
    d = {"a": x, "b": y}
    return d["a"] + d["b"]


def dict_loop(x: Any, y: Any) -> Any:
    d = {"a": x, "b": y}
    d["c"] = x - y
    return sum([value * len(name) for name, value in d.items()])


def dict_comprehension(x: Any, y: Any) -> Any:
    d = {name: a * 2 for name, a in zip("ab", (x, y), strict=True)}
    return d.get("a") + d["b"]


def tuple_of_results(x: Any, y: Any) -> Any:
    q, r = np.linalg.qr(np.outer(x, y))
    return q @ r


def array_unpacking(x: Any, y: Any) -> Any:
    a, b, c = x[:3]
    return a * y + b - c


def random_numbers(x: Any, y: Any) -> Any:
    rng = np.random.default_rng(3)
    return x + rng.normal(size=x.shape)


def keyword_call(x: Any, y: Any) -> Any:
    return helper(x, b=y)


def star_call(x: Any, y: Any) -> Any:
    pair = (x, y)
    return helper(*pair)


def call_of_variadic(x: Any, y: Any) -> Any:
    return gather(x, y)


def assertion(x: Any, y: Any) -> Any:
    assert x.ndim == 1, "one dimension"
    return x + 1


def generator_sum(x: Any, y: Any) -> Any:
    return sum(a * 2 for a in (x, y))


def comprehension(x: Any, y: Any) -> Any:
    return sum([a * 2 for a in (x, y)])


def errstate(x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        z = x / (y * 0)
    return z


def try_without_exception(x: Any, y: Any) -> Any:
    try:
        return x + 1
    except ValueError:
        return y


def raised_and_caught(x: Any, y: Any) -> Any:
    try:
        raise ValueError("a")
    except ValueError:
        return x + 1


def property_read(x: Any, y: Any) -> Any:
    return x * BOX.twice


def attribute_read(x: Any, y: Any) -> Any:
    return x * BOX.gain


def attribute_store(x: Any, y: Any) -> Any:
    BOX.last = x + 1
    return BOX.last * 2


def construction(x: Any, y: Any) -> Any:
    return x * Box(2.0).gain


# Graphs of one call; one more than the breaks in it.
SURVEY: dict[Callable[..., Any], int] = {
    f_string: 1,
    str_method: 1,
    membership: 1,
    chained_comparison: 1,
    math_of_numbers: 1,
    unpack_ex: 1,
    slice_of_list: 1,
    list_extend: 1,
    list_pop: 1,
    list_store: 1,
    enumerated: 1,
    zipped: 1,
    dict_literal: 1,
    dict_loop: 1,
    dict_comprehension: 1,
    tuple_of_results: 1,
    array_unpacking: 1,
    random_numbers: 1,
    keyword_call: 1,
    star_call: 1,
    call_of_variadic: 1,
    assertion: 1,
    generator_sum: 3,
    comprehension: 1,
    errstate: 1,
    try_without_exception: 1,
    raised_and_caught: 6,
    property_read: 1,
    attribute_read: 1,
    attribute_store: 1,
    construction: 1,
}


@pytest.mark.parametrize("function", SURVEY, ids=lambda f: f.__name__)
def test_graphs_of_a_construct(function: Callable[..., Any]) -> None:
    captured = evalframe.jit(function, backend="reference")
    assert same(outcome(captured, A, B), outcome(function, A, B))
    assert _core.jit_counters(captured)["recordings"] == SURVEY[function]
    assert same(outcome(captured, B, A), outcome(function, B, A))
