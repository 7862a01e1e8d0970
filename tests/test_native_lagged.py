"""Values that are stored into an array while others are computed of their neighbours there: slice by slice, one late."""

from __future__ import annotations

import random
import threading
import warnings
from typing import Any

import numpy as np
import pytest

import evalframe
from graphs import Compiled, check

rng = np.random.default_rng(12)


def numbers(dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    return (rng.random(shape) * 100).astype(dtype)


def heat(np: Any, u: Any) -> None:
    u[1:-1, 1:-1] += 0.1 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1])


def far(np: Any, u: Any) -> None:
    u[5:-7] = u[:-12] * 0.5 + u[12:] * 0.25 + u[6:-6]


def one_way(np: Any, u: Any) -> None:
    u[1:] -= u[:-1] * 0.5


def other_way(np: Any, u: Any) -> None:
    u[:-1] -= u[1:] * 0.5


def whole(np: Any, u: Any) -> None:
    u[2:-1] = u[:-3] + u[3:] - u[1:-2]


@pytest.mark.mostly_slow(5)
@pytest.mark.parametrize(
    ("step", "dtype"),
    [*((step, dtype) for step in (heat, far, one_way, other_way) for dtype in ("f4", "f8", "c16")), *((whole, dtype) for dtype in ("u1", "i4", "i8", "f8"))],
)
def test_steps_in_place(step: Any, dtype: str) -> None:
    rows = {1: 37_000, 4: 9_000, 8: 4_500, 16: 2_300}[np.dtype(dtype).itemsize]
    for shape in [(rows, 1000), (3, rows * 334), (rows * 250, 4)]:
        check(step, numbers(dtype, *shape), examples=[numbers(dtype, 20, 9)])


@pytest.mark.parametrize("shape", [(4_500_000,), (300, 150, 100), (40, 300, 400)])
def test_other_ranks(shape: tuple[int, ...]) -> None:
    def step(np: Any, u: Any) -> None:
        u[1:-1] = u[1:-1] * 0.5 + u[2:] * 0.25 - u[:-2] * 0.125

    check(step, numbers("f8", *shape), examples=[numbers("f8", *(9 for _ in shape))])


LAYOUTS = [
    np.asfortranarray,
    lambda x: x[::-1],
    lambda x: x[:, ::-1],
    lambda x: x[:, 3:-5],
    lambda x: x[::2],
    lambda x: x[:, ::2],
    lambda x: x.T,
    lambda x: np.concatenate([x, x])[: len(x)],
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: Any) -> None:
    check(heat, layout(numbers("f8", 2900, 3100)), examples=[layout(numbers("f8", 20, 30))])


@pytest.mark.parametrize("where", [(1, 1), (1000, 300), (2198, 1998), (550, 5), (551, 5)])
@pytest.mark.parametrize("how", ["raise", "warn", "ignore"])
def test_what_stood_there_comes_back_where_a_condition_is_told(where: tuple[int, int], how: Any) -> None:
    u = numbers("f8", 2200, 2000)
    u[where] = 1.7e308
    u[where[0], where[1] - 1] = -1.7e308
    compiled = Compiled(heat, [numbers("f8", 9, 9)])
    ours, theirs = u.copy(), u.copy()
    told = []
    for run, array in ((compiled, ours), (lambda x: heat(np, x), theirs)):
        with np.errstate(over=how), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                run(array)
                error = ""
            except FloatingPointError as raised:
                error = str(raised)
        told.append((error, [str(warning.message) for warning in caught]))
    assert told[0] == told[1]
    assert ours.tobytes() == theirs.tobytes()
    assert (ours.tobytes() == u.tobytes()) == (how == "raise")


def test_what_else_sees_the_array() -> None:
    def step(np: Any, u: Any, v: Any) -> Any:
        first, row = u[3, 4], u[2]
        v[:] = u * 2.0
        u[1:-1] += u[2:] - u[:-2]
        copy = u[5:9].copy()
        u[2:-2] -= u[4:] * 0.5 + u[:-4]
        return first, row, copy, u[7, 8], u.sum()

    check(step, numbers("f8", 2200, 2000), numbers("f8", 2200, 2000), examples=[numbers("f8", 12, 12), numbers("f8", 12, 12)])


def test_the_value_may_be_needed() -> None:
    def step(np: Any, u: Any) -> Any:
        change = u[2:] - u[:-2]
        u[1:-1] = change
        return change

    check(step, numbers("f8", 2200, 2000), examples=[numbers("f8", 12, 12)])


def test_arrays_that_share_memory() -> None:
    def step(np: Any, u: Any, v: Any) -> None:
        u[1:-1] = u[2:] * 0.5 + v[:-2]

    base = numbers("f8", 4500, 2000)
    for first in (0, 1, 5, 300, 2300):
        ours, theirs = base.copy(), base.copy()
        compiled = Compiled(step, [numbers("f8", 12, 12), numbers("f8", 12, 12)])
        compiled(ours[:2200], ours[first : first + 2200])
        step(np, theirs[:2200], theirs[first : first + 2200])
        assert ours.tobytes() == theirs.tobytes()


@pytest.mark.mostly_slow(4)
@pytest.mark.parametrize("seed", range(25))
def test_random_neighbours(seed: int) -> None:
    r = random.Random(seed)
    reads = [(r.randrange(-6, 7), r.randrange(-3, 4), r.choice([0.5, -0.25, 0.125])) for _ in range(r.randrange(1, 6))]

    def step(np: Any, u: Any) -> None:
        value = u[6:-6, 3:-3] * 0.5
        for down, right, by in reads:
            value = value + by * u[6 + down : -6 + down or None, 3 + right : -3 + right or None]
        u[6:-6, 3:-3] = value

    columns = r.choice([700, 2000, 1001])
    check(step, numbers("f8", r.choice([33, 34, 40]) * 2**17 // columns, columns), examples=[numbers("f8", 30, 30)])


def test_loops_and_threads() -> None:
    def steps(u: Any, count: int) -> Any:
        for _ in range(count):
            u[1:-1, 1:-1] += 0.1 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1])
        return u

    start = numbers("f8", 2200, 2000)
    wanted = steps(start.copy(), 4).tobytes()
    captured = evalframe.jit(steps)
    got: list[bytes] = []
    threads = [threading.Thread(target=lambda: got.extend(captured(start.copy(), 4).tobytes() for _ in range(3))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [wanted] * 9
