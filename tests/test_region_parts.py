"""Parts of arrays that native loops store in each turn, large ones, too: what was there is kept once, and put back where a condition is found later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from region_programs import check, shown

pytestmark = pytest.mark.usefixtures("native_loops_at_once")

R = np.random.default_rng(29)


def planes(u: Any, v: Any, by: Any) -> None:
    for t in range(len(by)):
        v[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        u[1:-1, 1:-1] += v[1:-1, 1:-1] / by[t]


def spaces(u: Any, v: Any, by: Any) -> None:
    for t in range(len(by)):
        v[1:-1, 1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1] + u[1:-1, 1:-1, :-2]) - u[1:-1, 1:-1, 2:]
        u[1:-1, 1:-1, 1:-1] *= v[1:-1, 1:-1, 1:-1] / by[t]


def rows(u: Any, v: Any, by: Any) -> None:
    for t in range(len(by)):
        v[1:-1] = 0.5 * (u[:-2] + u[2:])
        u[1:-1] = u[1:-1] * 0.5 + v[1:-1] / by[t]


def many_axes(u: Any, v: Any, by: Any) -> None:
    for t in range(len(by)):
        v[:, 1:, :, :-1] = (u[:, :-1, :, 1:] + u[:, 1:, :, :-1]) * 0.5
        u[1:, :, :, :] = u[1:, :, :, :] * 0.25 + v[1:, :, :, :] / by[t]


SIZES = {planes: [(40, 41), (90, 100), (3, 3), (2, 5), (200, 30)], spaces: [(9, 10, 11), (20, 22, 25), (3, 3, 3), (2, 4, 4)], rows: [(700,), (5000,), (40_000,), (2,)],
         many_axes: [(3, 8, 4, 30), (4, 5, 6, 7), (1, 2, 2, 2)]}
FUNCTIONS: list[Callable[..., Any]] = list(SIZES)


def fields(function: Callable[..., Any], dtype: str = "float64", turns: int = 70) -> list[tuple[Any, ...]]:
    return [((R.random(size) + 1).astype(dtype), R.random(size).astype(dtype), np.ones(turns, dtype)) for size in SIZES[function]]


@pytest.mark.mostly_slow(3)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_parts_of_all_sizes(function: Callable[..., Any], dtype: str) -> None:
    check(function, *[call for call in fields(function, dtype) for _ in range(2)])


def of_ints(u: Any, v: Any, by: Any) -> None:
    for t in range(len(by)):
        v[1:-1, 1:-1] = u[:-2, 1:-1] + u[2:, 1:-1] * 3
        v[0] = v[-2]
        u[1:-1, 1:-1] -= v[1:-1, 1:-1] // by[t]


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
@pytest.mark.parametrize("turn", [0, 5, 40])
def test_ints(dtype: str, turn: int) -> None:
    for size in [(4, 5), (90, 100)]:
        u, v, by = (R.integers(1, 100, size).astype(dtype), R.integers(1, 100, size).astype(dtype), np.full(60, 3, dtype))
        zero = by.copy()
        zero[turn] = 0
        with np.errstate(all="raise"):
            check(of_ints, (u, v, by), (u, v, by), (u, v, zero), (u, v, by))


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("turn", [0, 1, 2, 3, 6, 33, 69])
def test_what_was_there_is_put_back(function: Callable[..., Any], turn: int) -> None:
    """The condition is met in the second statement, when the first one has stored for the last time."""
    calls = []
    for u, v, by in fields(function):
        zero = by.copy()
        zero[turn] = 0.0
        calls += [(u, v, by), (u, v, zero), (u, v, by)]
    check(function, *calls)
    with np.errstate(all="raise"):
        check(function, *calls)


def exchanged(u: Any, v: Any, by: Any) -> Any:
    for t in range(len(by)):
        v[1:-1, 1:-1] = (u[:-2, 1:-1] + u[2:, 1:-1]) / by[t]
        u, v = v, u
    return u


def numbers_between(u: Any, v: Any, by: Any) -> None:
    for t in range(len(by)):
        u[t % len(u), 3] = 7.0 * t
        v[:, :] = v * 0.5 + u
        u[3, t % 5] += v[2, 2]
        u[2] = u[2] * 0.25 + v[1]
        u[:, :] = u / by[t]
        v[3, 3] = u[2, t % 5]


@pytest.mark.parametrize("function", [exchanged, numbers_between])
@pytest.mark.parametrize("turn", [1, 4, 30, 58])
def test_elements_and_rows_of_the_same_arrays(function: Callable[..., Any], turn: int) -> None:
    for size in [(6, 8), (60, 70), (90, 100)]:
        u, v, by = R.random(size), R.random(size), np.ones(60)
        zero = by.copy()
        zero[turn] = 0.0
        with np.errstate(all="raise"):
            check(function, (u, v, by), (u, v, by), (u, v, zero), (u, v, by))


def walls(u: Any, inside: Any, by: Any) -> None:
    for t in range(len(by)):
        u[0, :] = u[1, :]
        u[:, 0], u[:, -1] = u[:, 1], u[:, -2]
        u[-1] = by[t] - 2.0
        inside[:] = u[1:-1, 1:-1] / by[t]
        u[::2, 1] = 0.5
        u[1:-1, 1:-1] = inside
        u[::-1, 2] = u[:, 3]


@pytest.mark.parametrize("make", [lambda a: a, np.asfortranarray, lambda a: a[::-1], lambda a: a.repeat(2, 1)[:, ::2]])
@pytest.mark.parametrize("turn", [0, 2, 17, 49])
def test_parts_that_are_copied(make: Callable[[Any], Any], turn: int) -> None:
    for size in [(4, 6), (30, 40), (70, 80), (300, 5)]:
        u, by = R.random(size), np.ones(50)
        zero = by.copy()
        zero[turn] = 0.0
        inside = np.zeros((size[0] - 2, size[1] - 2))
        calls = [(make(u), inside, by), (make(u), inside, by), (make(u), inside, zero), (make(u), inside, by)]
        check(walls, *calls)
        with np.errstate(all="raise"):
            check(walls, *calls)


def faces(u: Any, by: Any) -> None:
    for t in range(len(by)):
        u[0], u[-1] = u[1], u[-2]
        u[:, 0, :] = 1.0 / by[t]
        u[:, :, -1] = u[:, :, -2] * 0.5
        u[:, :, 0] = by[t]
        u[1:-1, 1:-1, 1:-1] *= 0.75


@pytest.mark.parametrize("turn", [0, 5, 49])
def test_faces(turn: int) -> None:
    for size in [(5, 6, 7), (30, 31, 32)]:
        u, by = R.random(size), np.ones(50)
        zero = by.copy()
        zero[turn] = 0.0
        with np.errstate(all="raise"):
            check(faces, *[(u.copy(order), given) for order in "CF" for given in (by, by, zero, by)])


def of_many(fields: Any, parts: int, by: Any) -> None:
    for t in range(len(by)):
        for i in range(parts):
            fields[i] = fields[i] * 0.5 + fields[(i + 1) % parts] / by[t]


@pytest.mark.parametrize("parts, size", [(3, (4, 5)), (15, (30, 40)), (40, (30, 40)), (20, (180, 200)), (9, (250, 260))])
def test_more_than_there_is_room_for(parts: int, size: tuple[int, int]) -> None:
    stack, by = R.random((parts, *size)), np.ones(6)
    zero = by.copy()
    zero[4] = 0.0
    with np.errstate(all="raise"):
        check(of_many, (stack, parts, by), (stack, parts, by), (stack, parts, zero), (stack, parts, by))


def left(u: Any, v: Any, order: Any) -> float:
    total = 0.0
    for t in range(len(order)):
        v[:, :] = u * 0.5 + v
        u[0] = v[1]
        u[1:] -= v[:-1] * 0.25
        total += v[0, order[t]]
        u[0] = u[0] + 1.0
    return total


@pytest.mark.parametrize("at", [0, 1, 30, 59])
def test_loops_that_are_left_behind_it(at: int) -> None:
    order = R.integers(0, 5, 60)
    outside = order.copy()
    outside[at] = 700
    check(left, *[(R.random((50, 60)), R.random((50, 60)), of) for of in (order, order, outside, order)])


@pytest.mark.parametrize("turns", [1, 2, 5])
def test_loops_that_are_left_in_the_midst(turns: int) -> None:
    _core.set_region_turns(turns)
    for function in FUNCTIONS:
        check(function, *fields(function, turns=20)[:2])


def test_arguments_that_share_memory() -> None:
    memory = R.random(20_000)

    def shapes() -> list[tuple[Any, ...]]:
        by = np.ones(40)
        u = memory[:9000].reshape(90, 100)
        return [(u, memory[9000:18_000].reshape(90, 100), by), (u, memory[100:9100].reshape(90, 100), by), (u, u, by), (u, u[::-1], by),
                (u, memory[4000:13_000].reshape(90, 100), by), (u, memory[9000:18_000].reshape(90, 100), by)]

    for function in (planes, numbers_between, left):
        captured = evalframe.jit(function)
        for u, v, by in shapes():
            before = memory.copy()
            given = by if function is not left else np.arange(40) % 7
            captured(u, v, given)
            ours = memory.copy()
            memory[:] = before
            function(u, v, given)
            assert shown(ours) == shown(memory)
            memory[:] = before


def calling(u: Any, v: Any, by: Any, order: Any) -> None:
    for t in range(len(by)):
        v[:, :] = u * 0.5 + v / by[t]
        u[0] = np.sort(v[0])[::-1]
        u[:, :] = v * 0.25 + np.searchsorted(order, t % 3)
        u[:, 1] = v[:, 2]


@pytest.mark.parametrize("turn", [0, 9, 33])
def test_calls_of_numpy_between(turn: int) -> None:
    u, v, by, order = R.random((60, 70)), R.random((60, 70)), np.ones(40), np.arange(3.0)
    zero = by.copy()
    zero[turn] = 0.0
    with np.errstate(all="raise"):
        check(calling, (u, v, by, order), (u, v, by, order), (u, v, zero, order), (u, v, by, order))


def held(u: Any, by: Any) -> Any:
    for t in range(len(by)):
        v = np.sqrt(u)
        v[1:-1, 1:-1] = v[:-2, 1:-1] / by[t]
        w = v + 1.0
        w[:, 0] = v[:, 1]
        u[:, :] = w * 0.5
        u[3] = w[2]
    return v, w


@pytest.mark.parametrize("turn", [1, 20, 39])
def test_new_arrays_of_each_turn(turn: int) -> None:
    for size in [(5, 6), (90, 100)]:
        u, by = R.random(size), np.ones(40)
        zero = by.copy()
        zero[turn] = 0.0
        with np.errstate(all="raise"):
            check(held, (u, by), (u, by), (u, zero), (u, by))


def of_three_axes(u: Any, v: Any, whole: Any, by: Any) -> Any:
    total = 0.0
    for t in range(len(by)):
        whole[:, 1:] = u[:, 1:] * by[t]
        v[:] = u * by[t]
        total += (v * by[t]).sum(axis=(0, 1))[1]
    return total, (u * by[t]).astype(np.uint32)


@pytest.mark.parametrize("number", [1e-200, 1e308, np.nan, 4e9, 5e9, -3.5])
def test_conditions_of_three_axes(number: float) -> None:
    """Of all kinds, those that NumPy is told to ignore included."""
    u, by = R.random((4, 5, 6)) + 1.0, np.full(30, 1.5)
    odd, of_turn = u.copy(), by.copy()
    odd[2, 3, 5], of_turn[20] = number, min(abs(number), 1e300)
    for conditions in ({}, {"all": "ignore"}, {"all": "raise"}, {"under": "raise"}, {"over": "warn", "invalid": "ignore"}):
        with np.errstate(**conditions):
            check(of_three_axes, *[(of, np.zeros_like(u), np.zeros((4, 5, 6), np.uint32), turns) for of in (u, u, odd) for turns in (by, of_turn)])
