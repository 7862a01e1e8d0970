"""Calls that are native from their start through a loop to the return: same results, objects, exceptions and references as CPython's."""

from __future__ import annotations

import gc
import sys
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import outcome
from region_programs import check, copies, shown

pytestmark = pytest.mark.usefixtures("native_loops_at_once")

R = np.random.default_rng(11)
MANY = 12  # calls behind which all is native that is to be


def native_calls(captured: Any) -> int:
    return int(_core.jit_counters(captured)["native_calls"])


def warm(function: Any, *arguments: Any) -> Any:
    """Captured, and native for such arguments."""
    captured = evalframe.jit(function)
    for _ in range(MANY):
        plain, ours = copies(arguments), copies(arguments)
        assert repr(outcome(function, *plain)) == repr(outcome(captured, *ours))
        assert [shown(a) for a in plain] == [shown(a) for a in ours]
    return captured


def is_native(captured: Any, *arguments: Any) -> bool:
    before = native_calls(captured)
    captured(*arguments)
    return native_calls(captured) == before + 1


def filled(a: Any, b: Any, n: int) -> Any:
    scale = 0.5
    offset = 3
    for i in range(n):
        for j in range(n):
            a[i, j] = b[i, j] * scale + offset
    return a


def relaxed(u: Any, omega: float) -> Any:
    rows, columns = u.shape
    weight = 0.25 * omega
    for i in range(1, rows - 1):
        for j in range(1, columns - 1):
            u[i, j] = (1 - omega) * u[i, j] + weight * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
    return u


def mean(x: Any) -> Any:
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    return total / len(x)


def count_of(x: Any, least: float) -> Any:
    found = 0
    for value in x:
        if value > least:
            found += 1
    share = found / 7
    if share > 1:
        return -found
    return share


def place_of(x: Any, wanted: int) -> int:
    for i in range(len(x)):
        if x[i] == wanted:
            return i
    return -1


def two_loops(x: Any, y: Any, n: int) -> None:
    last = n - 1
    for i in range(n):
        x[i] = y[last - i]
    half = n // 2
    for i in range(half):
        y[i] = x[i] + half


def made_first(x: Any, n: int) -> Any:
    out = np.zeros((n, n))
    sums = np.ones(n, int) * 2
    for i in range(n):
        for j in range(n):
            out[i, j] = x[i] * j
            sums[i] += j
    return out, sums, n, out


def counted(x: Any, least: float) -> Any:
    large = x > least
    found, last = 0, None
    for i in range(len(x)):
        if large[i]:
            found += 1
            last = i
    return found, last, "found"


def scaled_by_its_norm(x: Any) -> Any:
    y = x / np.sqrt((x * x).sum())
    smallest = 1e300
    for value in y:
        if value < smallest:
            smallest = value
    return smallest


# Of more turns than are written one behind the other.
COMMON = [
    (filled, (np.zeros((12, 13)), R.random((12, 13)), 12)),
    (relaxed, (R.random((12, 13)), 1.3)),
    (mean, (R.random(50),)),
    (count_of, (R.random(50), 0.5)),
    (place_of, (np.arange(50), 44)),
    (made_first, (R.random(12), 12)),
    (counted, (R.random(50), 0.5)),
    (scaled_by_its_norm, (R.random(50),)),
    (two_loops, (np.zeros(80), R.random(80), 80)),
]


@pytest.mark.parametrize(("function", "arguments"), COMMON, ids=lambda one: getattr(one, "__name__", ""))
def test_common_shapes_are_native_throughout(function: Any, arguments: Any) -> None:
    assert is_native(warm(function, *arguments), *copies(arguments))


@pytest.mark.parametrize(("function", "arguments"), COMMON, ids=lambda one: getattr(one, "__name__", ""))
def test_other_sizes_and_ways_through_are_right(function: Any, arguments: Any) -> None:
    captured = warm(function, *arguments)
    others = [
        tuple(a[:1] if isinstance(a, np.ndarray) else a for a in arguments),
        tuple(a[:0] if isinstance(a, np.ndarray) else a for a in arguments),
        tuple(np.repeat(a, 2, 0) if isinstance(a, np.ndarray) else a for a in arguments),
        tuple(a[::-1] if isinstance(a, np.ndarray) else a for a in arguments),
        tuple(a.astype("f4") if isinstance(a, np.ndarray) else a for a in arguments),
        tuple(np.full_like(a, np.inf) if isinstance(a, np.ndarray) and a.dtype == float else a for a in arguments),
        tuple(a if isinstance(a, np.ndarray) else a * 2 for a in arguments),
        tuple(a if isinstance(a, np.ndarray) else -a for a in arguments),
        tuple(a if isinstance(a, np.ndarray) else float(a) for a in arguments),
        tuple(a if isinstance(a, np.ndarray) else None for a in arguments),
        arguments[:-1],
    ]
    for other in others * 3:
        plain, ours = copies(other), copies(other)
        assert repr(outcome(function, *plain)) == repr(outcome(captured, *ours)), other
        assert [shown(a) for a in plain] == [shown(a) for a in ours], other


@pytest.mark.parametrize("turns", [1, 2, 5])
@pytest.mark.parametrize(("function", "arguments"), COMMON, ids=lambda one: getattr(one, "__name__", ""))
def test_calls_that_leave_on_the_way_go_on_there(function: Any, arguments: Any, turns: int) -> None:
    _core.set_region_turns(turns)
    try:
        warm(function, *arguments)
    finally:
        _core.set_region_turns(2**63 - 1)


def test_what_is_given_and_returned_are_the_same_objects() -> None:
    def given(a: Any, key: Any, number: int) -> Any:
        for i in range(len(a)):
            a[i] += 1.0
        return key

    def changed(a: Any, number: int) -> Any:
        for i in range(len(a)):
            a[i] += 1.0
        return number

    a, key, number = np.zeros(144), object(), 2**40 + 7
    captured = warm(given, a, key, number)
    assert is_native(captured, a, key, number)
    assert captured(a, key, number) is key
    other = object()
    assert captured(a, other, number) is other and captured(a, a, number) is a and captured(a, None, number) is None
    assert warm(filled, *COMMON[0][1])(a.reshape(12, 12), np.ones((12, 12)), 12).base is a
    assert warm(changed, a, number)(a, number) == number


@pytest.mark.parametrize("leaves", [False, True])
def test_references_are_counted(leaves: bool) -> None:
    a, b, n = np.zeros((12, 13)), R.random((12, 13)), 10**6 + 12

    def partly(a: Any, b: Any, n: int) -> Any:
        rows = n - 10**6
        for i in range(rows):
            for j in range(rows):
                a[i, j] = b[i, j] * 2
        return a

    captured = warm(partly, a, b, n)
    if leaves:
        _core.set_region_turns(3)
    try:
        result = captured(a, b, n)
        del result
        gc.collect()
        before = [sys.getrefcount(one) for one in (a, b, n, None)]
        for _ in range(200):
            captured(a, b, n)
        after = [sys.getrefcount(one) for one in (a, b, n, None)]
    finally:
        _core.set_region_turns(2**63 - 1)
    assert after[:3] == before[:3]
    assert abs(after[3] - before[3]) < 100


def test_new_arrays_are_the_callers_alone() -> None:
    x = R.random(12)
    captured = warm(made_first, x, 12)
    assert is_native(captured, x, 12)
    before = sys.getrefcount(x)
    out, sums, n, again = captured(x, 12)
    assert out is again and sys.getrefcount(x) == before
    assert (sys.getrefcount(out), sys.getrefcount(sums)) == (3, 2)


def test_exceptions_and_warnings_are_told_at_their_lines() -> None:
    def scaled(x: Any, factor: float, n: int) -> Any:
        factor = factor * 1e200
        rest = n // (n - 3)
        for i in range(n):
            x[i] = x[i] * factor
        return x[n - 1] * rest + x[n]

    x = np.ones(500)
    captured = warm(scaled, x, 1e-200, 46)
    assert is_native(captured, x.copy(), 1e-200, 46)
    for factor, n in [(1e-200, 46), (1e-200, 3), (1e-200, 50), (1e-200, 51), (1e200, 46), (1e-200, 2**70)]:
        for state in ("warn", "raise", "ignore"):
            with np.errstate(all=state), warnings.catch_warnings():
                warnings.simplefilter("always")
                for values in (x, x * 1e300):
                    plain, ours = values.copy(), values.copy()
                    assert repr(outcome(scaled, plain, factor, n)) == repr(outcome(captured, ours, factor, n))
                    assert shown(plain) == shown(ours)


def test_arrays_that_are_one_or_overlap() -> None:
    x = R.random(50)

    def shifted(a: Any, b: Any, n: int) -> Any:
        same = a is b
        for i in range(n - 1):
            a[i + 1] = b[i] + 1
        return same

    captured = warm(shifted, x, x.copy(), 50)
    for make in (lambda: (x.copy(),) * 2, lambda: (lambda c: (c[1:], c[:-1]))(x.copy()), lambda: (x.copy(), x.copy())):
        for _ in range(6):
            plain, ours = make(), make()
            assert shifted(*plain, 49) == captured(*ours, 49)
            assert [shown(a) for a in plain] == [shown(a) for a in ours]


FACTOR = 2.0


def test_globals_attributes_and_defaults_that_change() -> None:
    global FACTOR

    class Model:
        def __init__(self) -> None:
            self.scale, self.data = 3.0, np.arange(50.0)

    def by_global(x: Any, n: int = 44) -> Any:
        scale = FACTOR
        for i in range(n):
            x[i] = x[i] * scale
        return scale

    def by_attribute(model: Any, x: Any) -> Any:
        scale = model.scale
        for i in range(len(x)):
            x[i] = x[i] * scale + model.data[i]
        return model.scale

    model, x = Model(), np.arange(50.0)
    captured = warm(by_global, x)
    assert is_native(captured, x.copy())
    for FACTOR in (3.0, 2.0, 5, None, 2.0):
        assert repr(outcome(by_global, x.copy())) == repr(outcome(captured, x.copy()))
    by_global.__defaults__ = (2,)
    plain, ours = x.copy(), x.copy()
    by_global(plain), captured(ours)
    assert shown(plain) == shown(ours)
    FACTOR = 2.0
    of_model = evalframe.jit(by_attribute)
    for _ in range(MANY):
        of_model(model, x.copy())
    for scale in (3.0, 4.0, 5, "text", 3.0):
        model.scale = scale
        for data in (np.arange(50.0), np.arange(50), np.arange(30.0)):
            model.data = data
            plain, ours = x.copy(), x.copy()
            assert repr(outcome(by_attribute, model, plain)) == repr(outcome(of_model, model, ours))
            assert shown(plain) == shown(ours)


def test_other_types_of_arguments_have_native_calls_in_their_turn() -> None:
    def scaled(x: Any, factor: Any) -> Any:
        for i in range(len(x)):
            x[i] *= factor
        return x

    captured = warm(scaled, np.ones(50), 2.0)
    assert is_native(captured, np.ones(50), 2.0)
    assert not is_native(captured, np.ones(50, "f4"), 2.0)
    for _ in range(100):
        captured(np.ones(50, "f4"), 2.0)
    assert is_native(captured, np.ones(50, "f4"), 2.0)


def test_code_that_is_exchanged_and_what_is_let_go() -> None:
    def doubled(x: Any) -> Any:
        for i in range(len(x)):
            x[i] *= 2
        return x

    def tripled(x: Any) -> Any:
        for i in range(len(x)):
            x[i] *= 3
        return x

    captured = warm(doubled, np.ones(50))
    doubled.__code__ = tripled.__code__
    for _ in range(MANY):
        assert captured(np.ones(50)).tolist() == [3.0] * 50

    class Noted:
        pass

    noted = Noted()

    def holds(x: Any, what: Any = noted) -> Any:
        for i in range(len(x)):
            x[i] += 1
        return what

    told = weakref.ref(noted)
    of_noted = warm(holds, np.ones(50))
    assert is_native(of_noted, np.ones(50))
    del holds, of_noted, noted
    gc.collect()
    assert told() is None


def test_recursion_is_limited_as_ever() -> None:
    def last(x: Any) -> Any:
        for i in range(len(x)):
            x[i] += 1
        return x

    captured = warm(last, np.ones(50))

    def deep(levels: int) -> Any:
        return captured(np.ones(50)) if levels == 0 else deep(levels - 1)

    assert deep(100).tolist() == [2.0] * 50
    with pytest.raises(RecursionError):
        for levels in range(sys.getrecursionlimit() - 60, sys.getrecursionlimit() + 1):
            deep(levels)
    check(last, *[(np.ones(50),)] * MANY)
