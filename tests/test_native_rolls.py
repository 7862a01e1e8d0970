"""Arrays that are rolled: kernels read them where their elements were, in parts of their space."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import evalframe
from graphs import Compiled, check

rng = np.random.default_rng(3)


def numbers(dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    return (rng.random(shape) * 100).astype(dtype)


def kernels(compiled: Compiled) -> int:
    return int(compiled.builder.text().count("kernel rank"))


def laplacian(np: Any, u: Any) -> Any:
    return np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, axis=1) + np.roll(u, -1, axis=1) - 4.0 * u


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i8", "f2", "f4", "f8", "c8", "c16"])
def test_one_kernel_for_a_stencil_whose_borders_meet(dtype: str) -> None:
    for shape in [(5, 6), (1, 7), (7, 1), (1, 1), (2, 2), (60, 70), (300, 301)]:
        compiled = check(laplacian, numbers(dtype, *shape), examples=[numbers(dtype, 9, 9)])
        assert kernels(compiled) == 1


@pytest.mark.parametrize("layout", [np.asfortranarray, lambda x: x[::-1], lambda x: x[:, ::2], lambda x: x.T, lambda x: x[1:-1, 2:]])
def test_layouts(layout: Any) -> None:
    check(laplacian, layout(numbers("f8", 12, 14)))
    check(lambda np, u: (np.roll(u, 3, 0) * 2.0, np.roll(u, 1, 1) * u), layout(numbers("f8", 12, 14)))


@pytest.mark.parametrize("by", [0, 1, -1, 5, 12, -12, 13, 1000, -1001, 2**62, -(2**62), True, 2**63, -(2**63), 2**70, np.int64(2)])
def test_how_far(by: Any) -> None:
    def step(np: Any, x: Any) -> Any:
        return np.roll(x, by) * 2.0 + x

    check(step, numbers("f8", 12), examples=[numbers("f8", 9)])
    check(step, numbers("f8", 1))


@pytest.mark.parametrize(
    "arguments",
    [((1, 2), (0, 1)), ((1, -2), (1, 0)), (2, (0, 2)), ((0, 1, 0), (0, 1, 2)), (1, -1), (3, -3), ((1, 1), (0, 0)), ((1,), (0, 1)), (1, ()), ((1, 2), 0), (2, None)],
)
def test_axes(arguments: Any) -> None:
    check(lambda np, x: np.roll(x, *arguments) * 2.0 + x, numbers("f8", 4, 5, 6))


def test_rolls_of_rolls_are_read_once() -> None:
    def step(np: Any, x: Any) -> Any:
        return np.roll(np.roll(np.roll(x, 1, 0), -2, 1), 2, 0) * 2.0 - np.roll(np.roll(x, 1, 1), -1, 1)

    assert kernels(check(step, numbers("f8", 7, 8))) == 1


def test_what_is_computed_is_rolled_behind_its_kernel() -> None:
    def step(np: Any, x: Any, y: Any) -> Any:
        z = x * y + 1.0
        return np.roll(z, 2, 0) - z, np.roll(np.sqrt(z), 1, 1) + x

    assert kernels(check(step, numbers("f8", 7, 8), numbers("f8", 7, 8))) == 2


def test_rolled_arrays_are_arrays_of_their_own() -> None:
    def step(np: Any, x: Any) -> Any:
        once, again = np.roll(x, 1, 0), np.roll(x, 1, 0)
        seen = np.roll(x, 2, 1)[1:, ::2]
        turned = np.roll(x, 1, 1).T
        return once * 1.0, once, again, seen + 1.0, seen, turned, np.roll(turned, 1, 0) + 1.0

    check(step, numbers("f8", 6, 7))
    check(step, np.asfortranarray(numbers("f8", 6, 7)))


def test_what_is_written_then() -> None:
    def step(np: Any, x: Any, y: Any) -> Any:
        z = np.roll(x, 1)
        z += y
        w = np.roll(x, 2)
        w[1:] *= 2.0
        x[:] = np.roll(x, 1) + y
        y[1:] -= np.roll(y, 1)[1:]
        y += np.roll(x, -1)
        return z, w, np.roll(x, 3) - y

    check(step, numbers("f8", 50), numbers("f8", 50))


def test_sums_of_what_is_rolled() -> None:
    def step(np: Any, x: Any) -> Any:
        product = x * np.roll(x, 1, 0)
        return product.sum(), product.sum(axis=0), np.roll(x, 1, 1).max(axis=1), (np.roll(x, 1, 1) - x).mean(), np.argmin(np.roll(x, 3, 0))

    check(step, numbers("f8", 40, 50))
    check(step, numbers("f8", 300, 301), examples=[numbers("f8", 4, 5)])


def test_broadcasting() -> None:
    def step(np: Any, x: Any, row: Any, column: Any) -> Any:
        return np.roll(row, 1) * x + np.roll(column, 2, 0) - np.roll(np.broadcast_to(row, (6, 7)), 1, 0)

    check(step, numbers("f8", 6, 7), numbers("f8", 7), numbers("f8", 6, 1))


def test_nothing() -> None:
    check(lambda np, x: np.roll(x, 1, 0) + np.roll(x, 2, 1), numbers("f8", 0, 4), examples=[numbers("f8", 3, 4)])
    check(lambda np, x: np.roll(x, 1) + 1.0, numbers("f8", 0))


def test_conditions_are_told_and_nothing_is_written() -> None:
    def step(np: Any, x: Any, y: Any) -> Any:
        y += np.roll(x, 1) * 2.0
        return y / np.roll(x, 2)

    x = numbers("f8", 30)
    x[3], x[7] = 1e308, 0.0
    check(step, x, numbers("f8", 30), examples=[numbers("f8", 9), numbers("f8", 9)])
    y = numbers("f8", 30)
    before = y.tobytes()
    with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow encountered in multiply"):
        Compiled(step, [numbers("f8", 9), numbers("f8", 9)])(x, y)
    assert y.tobytes() == before


def test_ints_of_the_program() -> None:
    @evalframe.jit
    def moved(x: Any, by: Any, axis: Any) -> Any:
        return np.roll(x, by, axis) * 2.0 + x

    x = numbers("f8", 20, 30)
    for by in [1, 2, 3, -4, 21, 0, np.int64(5), 6.0, 2**80, (1, 2)]:
        for axis in [0, 1, -1, (0, 1), 2]:
            try:
                wanted = np.roll(x, by, axis) * 2.0 + x
            except Exception as error:
                with pytest.raises(type(error)):
                    moved(x, by, axis)
            else:
                assert moved(x, by, axis).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("cells", [40, 300])
def test_life(cells: int) -> None:
    def life(steps: int, board: Any) -> Any:
        for _ in range(steps):
            around = sum(np.roll(np.roll(board, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
            board[:] = (around == 3) | ((board == 1) & (around == 2))
        return board.sum()

    start = rng.integers(0, 2, (cells, cells + 2))
    ours, theirs = start.copy(), start.copy()
    captured = evalframe.jit(life)
    for _ in range(4):
        assert captured(9, ours) == life(9, theirs)
        assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("seed", range(150))
def test_random_rolls(seed: int) -> None:
    r = random.Random(seed)
    shape = r.choice([(7,), (1,), (5, 6), (4, 1, 5), (3, 4, 2)])
    program = [(r.choice(["roll", "roll", "map", "view", "store", "sum", "part"]), r.random(), r.random(), r.randrange(-9, 10), r.randrange(len(shape))) for _ in range(r.randrange(2, 9))]

    def step(np: Any, x: Any, y: Any) -> Any:
        values = [x, y]
        for kind, a, b, by, axis in program:
            one, other = values[int(a * len(values))], values[int(b * len(values))]
            match kind:
                case "roll":
                    values.append(np.roll(one, by, axis))
                case "map":
                    values.append(one * 0.5 + other)
                case "view":
                    values.append(one[::-1])
                case "store":
                    one[...] = other
                case "part":
                    one[:1] += np.roll(other, by, axis)[-1:] * 0.5
                case "sum":
                    values.append(one + other.sum(axis=axis, keepdims=True))
        return tuple(values[2:]) + (x + 0.0,)

    layout = r.choice([np.ascontiguousarray, np.asfortranarray, lambda x: x[..., ::-1]])
    check(step, layout(numbers("f8", *shape)), layout(numbers("f8", *shape)))
