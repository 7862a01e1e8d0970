"""Loops that go through lists and tuples run as machine code, and behave as CPython has them behave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from region_programs import GrowingProgram, Kernels, Program, TupleProgram, check, differences

pytestmark = pytest.mark.usefixtures("native_loops_at_once")


R = np.random.default_rng(3)
KERNELS = Kernels()
kernel = KERNELS.kernel
SHIFTS = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1, 2)]  # shorter ones are unrolled


@kernel(lambda: (R.random((12, 6, 7)), list(SHIFTS), 12))
def stream(f: Any, shifts: Any, n: int) -> Any:
    for _ in range(n):
        for i, (di, dj) in enumerate(shifts):
            f[i] = np.roll(np.roll(f[i], di, axis=0), dj, axis=1) * 0.5
    return di, dj


@kernel(lambda: (R.random(20), ((1, 0.5), (2, 0.25), (3, -1.0)) * 5, 30))
def weighted(a: Any, pairs: Any, n: int) -> Any:
    total = 0.0
    for i in range(n):
        for k, weight in pairs:
            total += weight * a[(i * k) % 20]
    return total


@kernel(lambda: (R.random(30), [(i, float(i)) for i in range(100)], list(range(100)), 3))
def beside(a: Any, pairs: Any, numbers: Any, n: int) -> Any:
    found = 0.0
    for (i, y), j in zip(pairs, numbers):
        for k in range(n):
            found += a[j % 30] * y if i % 2 else y - k
    return found, i, j


@kernel(lambda: (R.random((20, 3)), R.random(20), np.zeros(3), 60))
def descent(x: Any, y: Any, w: Any, steps: int) -> Any:
    losses = []
    for _ in range(steps):
        error = x @ w - y
        losses.append(np.mean(error**2))
        w -= 0.1 * (x.T @ error) / len(x)
    return tuple(losses)


@kernel(lambda: (R.random(200), 0.5))
def above(x: Any, least: float) -> Any:
    places, values, kinds = [], [], []
    for i in range(len(x)):
        if x[i] > least:
            x[i] = -x[i]
            places.append(i)
            values.append(x[i])
            kinds.append(x[i] < -0.9)
    return tuple(places), tuple(values), tuple(kinds)


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_run_natively(name: str) -> None:
    assert KERNELS.counters(name, 5)["native_turns"] > 50


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("turns", [1, 7])
def test_loops_may_be_left_after_any_turn(name: str, turns: int) -> None:
    _core.set_region_turns(turns)
    assert KERNELS.counters(name, 3)["native_turns"] > 5


def total_of(pairs: Any, n: int) -> Any:
    total = 0.0
    for _ in range(n):
        for k, weight in pairs:
            total += k * weight
    return total


@pytest.mark.parametrize("odd", [(1, 2), (True, 1.0), (1 << 70, 0.5), (1.5, 0.5), (np.int64(2), 0.5), [1, 0.5], "ab", np.array([1.0, 2.0])], ids=str)
def test_an_item_of_another_kind_is_the_interpreters(odd: Any) -> None:
    plain = [(i, i / 2) for i in range(30)]
    check(total_of, (plain, 9), (plain, 9), ([*plain[:20], odd, *plain], 9), (tuple(plain), 9), (plain, 9))


@pytest.mark.parametrize("odd", [(1, 2.0, 3), (1,), (), 5, None], ids=str)
def test_items_that_are_not_unpacked_raise_at_their_line(odd: Any) -> None:
    plain = [(i, i / 2) for i in range(30)]
    check(total_of, (plain, 9), (plain, 9), ([*plain[:20], odd, *plain], 9))


def test_what_is_gone_through_may_be_another_kind_of_object_in_the_next_call() -> None:
    plain = [(i, i / 2) for i in range(30)]
    of_all_kinds = [plain, tuple(plain), dict(plain), {1: 2}.items(), np.ones((5, 2)), [], plain[:1], {(1, 2.0)}]
    check(total_of, *[(plain, 20)] * 3, *[(kind, 20) for kind in of_all_kinds], native=True)


def test_a_list_that_grows_while_it_is_gone_through() -> None:
    def grow(pairs: Any, n: int) -> Any:
        total = 0.0
        for k, weight in pairs:
            total += k * weight
            if len(pairs) < n and k == 7:
                pairs.append((k, weight))
        return total, len(pairs)

    captured = evalframe.jit(grow)
    for _ in range(4):
        one, other = [[(i, i / 2) for i in range(40)] for _ in range(2)]
        assert captured(one, 60) == grow(other, 60)
        assert one == other


def test_what_is_appended_where_numpy_warns_or_an_index_is_out_of_range() -> None:
    def quotients(a: Any, b: Any, n: int) -> Any:
        found: list[Any] = []
        try:
            for i in range(n):
                found.append(a[i] / b[i])
        except IndexError as error:
            return tuple(found), str(error)
        return tuple(found)

    a, b = R.random(60), np.where(np.arange(60) % 17 == 16, 0.0, 1.5)
    check(quotients, (a, b, 16), (a, b, 60), (a, b, 61), (a, b, 70), (a, b, 60))


def test_a_list_whose_length_is_asked_while_it_grows() -> None:
    def fill(x: Any, most: int) -> Any:
        kept: list[Any] = []
        for value in x:
            kept.append(value)
            if len(kept) > most:
                kept = kept[-2:]
        return tuple(kept)

    check(fill, *[(R.random(100), most) for most in (5, 9, 5, 200, 1)], native=False)


@pytest.mark.mostly_slow(3)
@pytest.mark.parametrize("kind", [TupleProgram, GrowingProgram])
@pytest.mark.parametrize("seed", range(25))
def test_random_programs(seed: int, kind: type[Program]) -> None:
    text, found, _ = differences(seed, kind=kind)
    assert not found, text
