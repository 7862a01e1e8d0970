"""Native loops take arrays in variables that stay as they are to share no memory, which is looked at where they are entered; else they are made once more."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe

pytestmark = [pytest.mark.usefixtures("native_loops_at_once"), pytest.mark.filterwarnings("ignore")]

R = np.random.default_rng(3)


def thrice(out: Any, x: Any, w: Any) -> None:
    for i in range(len(out)):
        for k in range(3):  # one block of three stores
            out[i] += x[k] * w[k]


def two_out(a: Any, b: Any, x: Any) -> None:
    for i in range(len(a) - 2):
        a[i] = x[i] + b[i]
        b[i + 1] = a[i] - x[i + 1]
        a[i + 1] = b[i] * x[i + 2]


def rebound(a: Any, b: Any, x: Any) -> Any:
    for i in range(len(a) - 1):
        a[i] = x[i] + 1.0
        b[i] = x[i + 1] * a[i + 1]
        a, b = b, a
    return a


def by_while(a: Any, b: Any, x: Any) -> Any:
    i, seen = 0, 0.0
    while i < len(a) - 1:
        a[i] = b[i] + x[i]
        b[i + 1] = a[i] * 0.5
        seen += x[i + 1] + a[i + 1]
        i += 1
    return seen


def through_parts(a: Any, b: Any, x: Any) -> None:
    row = x[1:]
    for i in range(len(a) - 1):
        a[i] = row[i] + b[i]
        b[i] = row[i] - a[i + 1]


TABLE = R.random(60)


def into_a_global(a: Any, b: Any, x: Any) -> None:
    for i in range(len(a) - 1):
        a[i] = TABLE[i] + x[i]
        TABLE[i] = b[i] + x[i + 1]
        a[i + 1] = TABLE[i + 1] - b[i]


FUNCTIONS = [thrice, two_out, rebound, by_while, through_parts, into_a_global]


def apart(n: int, dtype: Any) -> tuple[Any, ...]:
    return tuple((R.random(n) * 50).astype(dtype) for _ in range(3))


def shared(n: int, dtype: Any) -> list[Callable[[], tuple[Any, ...]]]:
    """The same arrays, parts of one that overlap, one behind the other, and backwards."""

    def same() -> tuple[Any, ...]:
        a, b, _ = apart(n, dtype)
        return a, b, a

    def both() -> tuple[Any, ...]:
        a, _, x = apart(n, dtype)
        return a, a, x

    def overlapping() -> tuple[Any, ...]:
        whole = (R.random(n + 4) * 50).astype(dtype)
        return whole[2:-2], whole[4:], whole[:-4]

    def backwards() -> tuple[Any, ...]:
        whole = (R.random(n) * 50).astype(dtype)
        return whole, whole[::-1], (R.random(n) * 50).astype(dtype)

    def woven() -> tuple[Any, ...]:
        whole = (R.random(3 * n) * 50).astype(dtype)
        return whole[::3], whole[1::3], whole[2::3]

    return [same, both, overlapping, backwards, woven]


def outcome(function: Any, arguments: tuple[Any, ...]) -> list[Any]:
    TABLE[:] = np.arange(60.0)
    result = function(*arguments)
    return [*(array.tobytes() for array in (*arguments, TABLE)), result.tobytes() if isinstance(result, np.ndarray) else repr(result)]


def copies(made: tuple[Any, ...]) -> tuple[Any, ...]:
    """Of arrays that share memory, which share it, too."""
    bases = {id(array if array.base is None else array.base): array if array.base is None else array.base for array in made}
    new = {key: base.copy() for key, base in bases.items()}

    def one(array: Any) -> Any:
        if array.base is None:
            return new[id(array)]
        base = new[id(array.base)]
        offset = array.__array_interface__["data"][0] - array.base.__array_interface__["data"][0]
        return np.ndarray(array.shape, array.dtype, base, offset, array.strides)

    return tuple(map(one, made))


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "c16"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_arrays_that_stand_apart_and_that_share_memory(function: Callable[..., Any], dtype: str) -> None:
    makers = shared(50, dtype)
    for first in range(len(makers)):
        captured = evalframe.jit(function)
        order = [lambda: apart(50, dtype), makers[first], lambda: apart(50, dtype), *makers]
        for make in itertools.chain(*([one] * 4 for one in order)):
            arguments = make()
            assert outcome(captured, copies(arguments)) == outcome(function, arguments)


def test_what_was_stored_is_not_compared_with_what_is_read() -> None:
    captured = evalframe.jit(thrice)
    for _ in range(6):
        captured(*apart(50, "f8"))
    ours = [loop for loop in evalframe.explain(captured)(*apart(50, "f8")).loops if loop.native]
    assert ours and not any("icmp eq ptr" in loop.ir for loop in ours)
    # Where they share memory it is made once more, and serves both.
    a = R.random(50)
    for _ in range(12):
        captured(a, a, R.random(50))
    loops = [loop for loop in evalframe.explain(captured)(a, a, R.random(50)).loops if loop.native]
    assert any("icmp eq ptr" in loop.ir for loop in loops)
    for arguments in (apart(50, "f8"), (a, a, R.random(50))):
        before = evalframe.stats()["native_turns"]
        captured(*arguments)
        assert evalframe.stats()["native_turns"] - before > 30
