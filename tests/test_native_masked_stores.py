"""Numbers that are stored where a mask holds, `x[x < 0] = 0.0`, in kernels."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import evalframe
from graphs import Compiled, check

rng = np.random.default_rng(21)


def numbers(dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    return (rng.random(shape) * 100).astype(dtype)


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "u4", "i8", "f2", "f4", "f8", "c8", "c16"])
def test_types(dtype: str) -> None:
    def step(np: Any, x: Any, y: Any) -> Any:
        x[y > 50.0] = 7
        x[(y < 20.0) | (y > 90.0)] = True
        return x + x

    for shape in [(30,), (9, 12), (5, 6, 7), (0, 3), (300, 301)]:
        check(step, numbers(dtype, *shape), numbers("f8", *shape), examples=[numbers(dtype, *shape[:-1], 8), numbers("f8", *shape[:-1], 8)] if shape[0] else None)


def test_statements_behind_one_another_are_one_kernel() -> None:
    def step(np: Any, x: Any) -> Any:
        x[x > 90.0] = 90.0
        x[x < 10.0] = 10.0
        return x * 2.0

    compiled = check(step, numbers("f8", 40, 50))
    assert compiled.builder.text().count("kernel rank") == 1


def test_new_arrays_views_and_copies() -> None:
    def step(np: Any, x: Any, y: Any) -> Any:
        z = x * 2.0 + y
        z[z > 150.0] = 150.0
        seen = y[1:-1]
        seen[seen < 30.0] = -1.0
        part = x[::2].copy()
        part[part > 50.0] = 0.0
        x[2:][y[2:] > 10.0] = 3.0
        return z, z.sum(), part, seen * 2.0, x + y

    check(step, numbers("f8", 40, 50), numbers("f8", 40, 50))
    check(step, np.asfortranarray(numbers("f8", 40, 50)), numbers("f8", 40, 50)[::-1])
    check(step, numbers("f4", 40, 50)[:, ::2], numbers("f4", 40, 50)[:, ::-2])


def test_elements_elsewhere_keep_their_bits() -> None:
    def step(np: Any, x: Any, mask: Any) -> None:
        x[mask] = 1.0

    x = rng.integers(0, 2**63, 500, dtype="u8")
    x[::3] |= 0x7FF0_0000_0000_0001
    x = x.view("f8")
    mask = rng.random(500) > 0.5
    ours, theirs = x.copy(), x.copy()
    Compiled(step, [numbers("f8", 9), numbers("f8", 9) > 1.0])(ours, mask)
    theirs[mask] = 1.0
    assert ours.tobytes() == theirs.tobytes()


def test_numbers_that_are_computed() -> None:
    def step(np: Any, x: Any, y: Any) -> Any:
        x[x > 50.0] = y.sum()
        y[y > x] = x.mean()
        return x.max()

    check(step, numbers("f8", 400), numbers("f8", 400))


def outcome(program: Any, *arguments: Any) -> Any:
    copies = [x.copy() if isinstance(x, np.ndarray) and x.flags.writeable else x for x in arguments]
    try:
        result = program(*copies)
    except Exception as error:
        result = type(error), str(error)
    return result, [x.tobytes() if isinstance(x, np.ndarray) else x for x in copies]


def test_bad_input_and_other_masks() -> None:
    def program(x: Any, mask: Any, number: Any) -> Any:
        x[mask] = number
        return (x * 2).tobytes()

    captured = evalframe.jit(program)
    x, frozen = numbers("i8", 6, 7), numbers("i8", 6, 7)
    frozen.flags.writeable = False
    masks = [x > 50, x[:1] > 50, x[:, :1] > 50, x[0] > 50, x[:5] > 50, (x > 50).astype("u1"), x > 1000, np.array(True), (x > 50).tolist(), x % 6]
    for array in (x, numbers("u1", 6, 7), numbers("f4", 6, 7), numbers("f8", 6, 7), frozen):
        for mask in masks:
            for number in (3, 2**40, 2**70, -1, 2.5, 1e300, float("nan"), True, 1j, np.float64(2.5), np.int64(4), np.float32(1.5), None, "1", [5], np.array(5.0)):
                assert outcome(captured, array, mask, number) == outcome(program, array, mask, number), (array.dtype, mask, number)


def test_a_mask_in_the_same_memory() -> None:
    def step(np: Any, x: Any, mask: Any) -> None:
        x[mask] = 0

    for first in (0, 1, 5, 20):
        base = rng.integers(0, 2, 60).astype("u1")
        ours, theirs = base.copy(), base.copy()
        Compiled(step, [numbers("u1", 9), numbers("f8", 9) > 1.0])(ours[10:40], ours[first : first + 30].view("?"))
        theirs[10:40][theirs[first : first + 30].view("?")] = 0
        assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("seed", range(120))
def test_random_programs(seed: int) -> None:
    r = random.Random(seed)
    program = [(r.choice(["clip", "mask", "map", "view", "store", "sum"]), r.random(), r.random(), r.randrange(0, 100)) for _ in range(r.randrange(2, 9))]

    def step(np: Any, x: Any, y: Any) -> Any:
        values = [x, y]
        for kind, a, b, number in program:
            one, other = values[int(a * len(values))], values[int(b * len(values))]
            match kind:
                case "clip":
                    one[one > float(number)] = float(number)
                case "mask":
                    one[other < float(number)] = -1.0
                case "map":
                    values.append(one * 0.5 + other)
                case "view":
                    values.append(one[::-1])
                case "store":
                    one[1:] = other[1:]
                case "sum":
                    values.append(one + other.sum())
        return tuple(values[2:]) + (x + 0.0,)

    layout = r.choice([np.ascontiguousarray, np.asfortranarray, lambda x: x[..., ::-1]])
    shape = r.choice([(12,), (5, 6), (3, 4, 2)])
    check(step, layout(numbers("f8", *shape)), layout(numbers("f8", *shape)))
