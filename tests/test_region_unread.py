"""Variables of native loops that are written before they are read: what they hold meanwhile is of no matter to the code, but for where it is left."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from region_programs import copies, shown

pytestmark = pytest.mark.usefixtures("native_loops_at_once")

R = np.random.default_rng(44)


def parts(a: Any, weights: Any, n: int) -> Any:
    for i in range(n):
        weight = weights[i]
        row = a[i % len(a)]
        twice = row * weight
        a[(i + 1) % len(a)] = twice + row
    return row, twice


def of_two_dimensions(a: Any, weights: Any, n: int) -> Any:
    for i in range(n):
        weight = weights[i]
        block = a[i % 3 : i % 3 + 2, ::2]
        product = block[:, None, :] * a[None, :2, :1] * (0.01 * weight)
        a[:2] += product.sum(axis=2)[:, :1]
    return block, product


def held(a: Any, weights: Any, n: int) -> Any:
    for i in range(n):
        weight = weights[i]
        order = np.argsort(a[i % len(a)])
        a[(i + 1) % len(a), order[0]] += weight
    return order


def shares(a: Any, weights: Any, n: int) -> Any:
    """Two variables of one array, one of which lives on."""
    last = a[0] * 1.0
    for i in range(n):
        weight = weights[i]
        row = last * weight
        last = row
        a[i % len(a)] = last
    return last, row


def complex_numbers(a: Any, weights: Any, n: int) -> Any:
    for i in range(n):
        weight = weights[i]
        z = complex(weight, i)
        w = z * (a[0, 1] + 2j)
        a[i % 4, 0] = (w * 0.001j).real
    return z, w


def nested(a: Any, weights: Any, n: int) -> Any:
    for i in range(n):
        for j in range(3):
            weight = weights[i + j]
            column = a[:, j]
            if column[0] > 0.5:
                continue
            moved = column - weight
            a[:, j] = moved + 0.25
        a[0] += 0.1
    return column


def swapped(a: Any, weights: Any, n: int) -> Any:
    b = a.copy()
    for i in range(n):
        weight = weights[i]
        before = b
        b = a
        a = before
        a[1:-1] = weight * (b[2:] + b[:-2])
    return a, b


def left(function: Any, arguments: tuple[Any, ...]) -> Any:
    """Result, or the exception with what its frame's variables hold, and which of them are one array, or part of one."""
    try:
        return shown(function(*arguments)), [shown(a) for a in arguments if isinstance(a, np.ndarray)]
    except IndexError as error:
        trace = error.__traceback__
        while trace.tb_next:
            trace = trace.tb_next
        names = trace.tb_frame.f_locals
        arrays = {name: value for name, value in names.items() if isinstance(value, np.ndarray)}
        same = [(x, y) for x in arrays for y in arrays if arrays[x] is arrays[y] or arrays[x].base is arrays[y]]
        return str(error), trace.tb_lineno, {name: shown(value) for name, value in names.items()}, same


FUNCTIONS = [parts, of_two_dimensions, held, shares, complex_numbers, nested, swapped]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("turns", [2**62, 1, 5])
def test_what_they_hold_where_a_loop_is_left(function: Any, turns: int) -> None:
    captured = evalframe.jit(function)
    _core.set_region_turns(turns)
    for there in (200, 200, 190, 0, 1, 2, 150):
        arguments = R.random((4, 4)), R.random(there), 150
        plain, ours = copies(arguments), copies(arguments)
        assert left(function, plain) == left(captured, ours)
    assert _core.jit_counters(captured)["native_turns"] > 20


@pytest.mark.parametrize("function", [parts, of_two_dimensions, held, complex_numbers, swapped])
def test_there_is_one_block_for_all_that_they_hold(function: Any) -> None:
    captured = evalframe.jit(function)
    for _ in range(3):
        captured(R.random((4, 4)), R.random(200), 150)
    explanation = evalframe.explain(captured)(R.random((4, 4)), R.random(200), 150)
    loops = [loop for loop in explanation.loops if loop.native]
    assert loops
    assert all(loop.blocks <= 5 for loop in loops), [(loop.line, loop.blocks) for loop in loops]


@pytest.mark.parametrize("bound", [None, 1, 2.5, "text", np.float32(2), np.arange(3), np.arange(3)[::2], 2j, np.complex64(1 + 2j), np.float64(1).reshape(())])
def test_whatever_they_hold_at_first(bound: Any) -> None:
    def stepped(a: Any, row: Any, n: int) -> Any:
        for i in range(n):
            row = a[i % 4] * 0.5
            a[(i + 1) % 4] += row
        return row

    captured = evalframe.jit(stepped)
    for n in (80, 80, 80, 0, 1, 80):
        plain, ours = R.random((4, 5)), None
        ours = plain.copy()
        assert shown(stepped(plain, bound, n)) == shown(captured(ours, bound, n))
        assert shown(plain) == shown(ours)


def test_arrays_that_share_memory_live_in_two_halves() -> None:
    """More new arrays than memory has room for, one of which is held by a variable that isn't read."""

    def filled(a: Any, n: int) -> Any:
        total = 0.0
        for i in range(n):
            first = a * float(i)
            if i % 3 == 0:
                second = first + 1.0
                total += second[0]
            total += first[-1]
        return total, first, second

    captured = evalframe.jit(filled)
    a = R.random(100_000)
    for _ in range(3):
        assert shown(filled(a, 40)) == shown(captured(a, 40))
