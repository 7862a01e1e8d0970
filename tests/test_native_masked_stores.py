"""Numbers that are stored where a mask holds, `x[x < 0] = 0.0`, and what comes of the elements that it keeps, `x[m] = x[m] * 2.0 + y[m]`, in kernels."""

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


def kernels(compiled: Compiled) -> int:
    return int(compiled.builder.text().count("kernel rank"))


@pytest.mark.parametrize("dtype", ["i1", "u4", "i8", "f2", "f4", "f8", "c8", "c16"])
def test_what_is_kept_is_computed_where_it_stands(dtype: str) -> None:
    def step(np: Any, x: Any, y: Any, z: Any) -> Any:
        mask = z > 40.0
        x[mask] = x[mask] * y[mask] + y[mask]
        part = x[z > 80.0]
        part *= 2
        part += 1
        x[z > 80.0] = part
        x[z < 10.0] -= 3
        return x + y

    for shape in [(30,), (9, 12), (5, 6, 7), (0, 3), (300, 301)]:
        arrays = numbers(dtype, *shape), numbers(dtype, *shape), numbers("f8", *shape)
        check(step, *arrays, examples=[numbers(dtype, *shape[:-1], 8), numbers(dtype, *shape[:-1], 8), numbers("f8", *shape[:-1], 8)] if shape[0] else None)


def test_one_kernel_for_a_mask() -> None:
    def step(np: Any, z: Any, c: Any) -> None:
        mask = np.abs(z) <= 2.0
        z[mask] = z[mask] * z[mask] + c[mask]

    compiled = check(step, numbers("f8", 40, 50) / 20, numbers("f8", 40, 50) / 100)
    assert kernels(compiled) == 1 and "call n" not in compiled.builder.text().replace("call n0\n", "")
    check(step, numbers("c16", 40, 50) / 20, numbers("c16", 40, 50) * 1j)


def test_nothing_is_told_of_elements_that_a_mask_leaves_out() -> None:
    def step(np: Any, x: Any, y: Any) -> None:
        mask = x > 0.0
        x[mask] = 1.0 / (x[mask] - 1.0) + np.sqrt(y[mask])
        y[mask] = np.sqrt(x[mask] * x[mask]) / y[mask]

    x, y = numbers("f8", 400) - 50.0, numbers("f8", 400) - 50.0
    x[x == 1.0] = 2.0
    y[x > 0.0] = abs(y[x > 0.0]) + 1.0
    check(step, x, y)
    x[5] = y[7] = 1.0
    y[9], x[9] = -1.0, 3.0
    check(step, x, y)


def test_what_else_sees_what_is_kept() -> None:
    def step(np: Any, x: Any, y: Any, w: Any) -> Any:
        mask = x > 50.0
        kept = x[mask]
        total = kept.sum()
        x[mask] = kept * 2.0
        again = y[mask]
        y[mask] = again + w.sum()
        other = x[y > 50.0]
        x[y > 50.0] = other[::-1]
        left = x[mask]
        y[mask] = left * 2.0
        return total, left, x[mask] + y[mask]

    check(step, numbers("f8", 60), numbers("f8", 60), numbers("f8", 60))


def test_masks_that_change() -> None:
    def step(np: Any, x: Any, y: Any) -> Any:
        mask = x > 50.0
        kept = x[mask]
        mask[:] = ~~mask
        x[mask] = kept * 2.0
        mask &= y > 10.0
        x[mask] += 1.0
        y[:] = x
        y[mask] *= y[mask]
        return mask.sum(), x + y

    check(step, numbers("f8", 60), numbers("f8", 60))


def test_a_mask_in_the_same_memory() -> None:
    def step(np: Any, x: Any, mask: Any) -> None:
        x[mask] = 0

    for first in (0, 1, 5, 20):
        base = rng.integers(0, 2, 60).astype("u1")
        ours, theirs = base.copy(), base.copy()
        Compiled(step, [numbers("u1", 9), numbers("f8", 9) > 1.0])(ours[10:40], ours[first : first + 30].view("?"))
        theirs[10:40][theirs[first : first + 30].view("?")] = 0
        assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("seed", range(250))
def test_random_programs(seed: int) -> None:
    r = random.Random(seed)
    program = [(r.choice(["clip", "mask", "kept", "kept", "moved", "map", "view", "store", "sum"]), r.random(), r.random(), r.randrange(0, 100)) for _ in range(r.randrange(2, 9))]

    def step(np: Any, x: Any, y: Any) -> Any:
        values = [x, y]
        for kind, a, b, number in program:
            one, other = values[int(a * len(values))], values[int(b * len(values))]
            match kind:
                case "clip":
                    one[one > float(number)] = float(number)
                case "mask":
                    one[other < float(number)] = -1.0
                case "kept":
                    mask = other < float(number)
                    one[mask] = one[mask] * 0.5 + other[mask]
                case "moved":
                    one[one < float(number)] += 1.0
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
