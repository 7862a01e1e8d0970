"""Writes that kernels make straight into the target: random programs over arrays that may share memory, and what is left of a write
that is given up."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphs import Compiled, assert_same, check

rng = np.random.default_rng(11)


def array(dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    return (rng.random(shape) * 6 + 1).astype(dtype)


def kernels(compiled: Compiled) -> int:
    return int(compiled.builder.text().count("kernel rank"))


def test_a_copy_and_the_part_that_is_computed_are_two_kernels() -> None:
    def step(np: Any, u: Any) -> Any:
        change = u[:-2, 1:-1] + u[2:, 1:-1] - 2.0 * u[1:-1, 1:-1]
        new = u.copy()
        new[1:-1, 1:-1] += 0.1 * change
        return new

    for shape in [(5, 6), (3, 3), (120, 130), (130, 3), (3, 4000), (2, 7), (2, 2), (0, 4)]:
        for layout in (np.ascontiguousarray, np.asfortranarray, lambda x: x[::-1], lambda x: x[:, ::-1]):
            compiled = check(step, layout(array("f8", *shape)), examples=[array("f8", 9, 9)])
            assert kernels(compiled) >= 2
    assert kernels(check(step, array("f8", 9, 9))) == 2


def test_a_statement_isnt_cut_where_it_sees_an_earlier_one() -> None:
    """Kernels end in front of it, not between the view that it changes and the change."""

    def step(np: Any, ex: Any, ey: Any, hz: Any, number: Any) -> None:
        ey[0, :] = number[2]
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])

    compiled = check(step, *(array("f8", 30, 40) for _ in range(3)), array("f8", 5))
    parts = [line.strip() for line in compiled.builder.text().splitlines() if "kernels n" in line]
    assert parts == ["kernels n4 .. n25", "kernels n26 .. n41"]


def test_a_view_that_was_taken_before_a_call_is_changed_by_a_kernel() -> None:
    """`a[k] -= f(...)` ends by storing the view into itself, which would be a second array in the same memory."""

    def step(np: Any, R: Any, v: Any) -> Any:
        R[2:, 1:] -= np.outer(v, np.cumsum(v @ R[2:, 1:]))
        R[1] += np.cumsum(R[0])
        R[np.arange(1, 3)] *= 2.0
        return R[0] * 2.0

    compiled = check(step, array("f8", 30, 40), array("f8", 28))
    check(step, array("f4", 30, 40)[::-1], array("f4", 28), examples=[array("f4", 30, 40), array("f4", 28)])
    assert "kernels n6 .. n11\n" in compiled.builder.text()


def test_what_is_large_is_needed_by_one_part_only() -> None:
    def step(np: Any, x: Any, y: Any) -> Any:
        x[:3] += 1.0
        left = np.sqrt(y) * 2.0
        first = left[:2] + y[:2]
        return x * 3.0 + first.sum() + left.sum()

    check(step, array("f8", 90), array("f8", 90))
    check(step, *[array("f8", 91)] * 2, examples=[array("f8", 90), array("f8", 90)])


def test_a_copy_is_read_before_it_is_written() -> None:
    def step(np: Any, u: Any, v: Any) -> Any:
        new = u.copy()
        root = np.sqrt(new * 0.5)
        new[0] += v[0] * 0.5
        return root, new

    check(step, array("f8", 9), array("f8", 9))


def test_what_was_read_by_calls_is_old() -> None:
    def step(np: Any, x: Any, y: Any) -> Any:
        first, flat = x[0, 0], x.T.reshape(-1)
        x *= y + 2.0
        new = y.copy()
        single, row = new[1, 1], new.reshape(-1)
        new[1:] += x[1:] * 2.0
        return first, flat, single, row, new

    check(step, array("f8", 3, 4), array("f8", 3, 4))
    check(step, array("f8", 4, 3).T, array("f8", 4, 3).T)


@pytest.mark.parametrize("dtype", ["i4", "f4", "f8", "c16"])
def test_borders_of_a_copy(dtype: str) -> None:
    def step(np: Any, u: Any, v: Any) -> Any:
        new = u.copy()
        new[1:-1] = (u[2:] + u[:-2]) * v[1:-1]
        new[0] = 7
        new[-1] = new[1]
        return new, u + v

    check(step, array(dtype, 9), array(dtype, 9))
    check(step, array(dtype, 90, 100), array(dtype, 90, 100), examples=[array(dtype, 5, 6), array(dtype, 5, 6)])


def test_small_parts_of_large_copies() -> None:
    def step(np: Any, u: Any, v: Any) -> Any:
        new = u.copy()
        new[5:10, 3:9] += u[:5, :6] * 2
        filled = np.zeros_like(v)
        filled[5:, 1:-1] = v[5:, 1:-1] * 2.0 + 1.0
        return new, filled

    for dtype in ("f4", "f8", "i8", "c16"):
        check(step, array(dtype, 200, 210), array(dtype, 20, 21))
    check(step, array("f8", 210, 200).T, array("f8", 21, 20).T)


@pytest.mark.parametrize("shape", [(300, 310), (40, 50, 60), (2, 9000), (9000, 3)])
def test_borders_that_several_threads_copy(shape: tuple[int, ...]) -> None:
    def step(np: Any, u: Any, v: Any) -> Any:
        new, other = u.copy(), v.copy()
        new[1:-1, 1:-1] = u[1:-1, 1:-1] * 2.0
        other[:-5, 1:] += v[5:, :-1]
        return new, other

    small = [array("f8", *[min(size, 8) for size in shape]) for _ in range(2)]
    check(step, array("f8", *shape), array("f8", *shape), examples=small)
    transposed = [array("f8", *shape[::-1]).T for _ in range(2)]
    check(step, *transposed, examples=small)


def test_parts_of_parts_of_a_copy() -> None:
    def step(np: Any, u: Any) -> Any:
        new = u.copy()
        new[1:][1:, 2:] += u[:-2, 2:] * 2.0
        other = u.copy()
        other[::2] = u[::2] * u[::2] + 1.0
        third = u.copy()
        third[1:-1, 0] = u[1:-1, 1] * 3.0 + 1.0
        return new, other, third

    check(step, array("f8", 100, 101))
    check(step, array("f8", 4, 5))


def test_new_arrays_are_written_by_the_kernel() -> None:
    def step(np: Any, u: Any, v: Any) -> Any:
        out = np.zeros_like(u)
        out[1:-1] = u[1:-1] * v[1:-1] + 1.0
        empty = np.empty_like(u)
        empty[:] = u + v * 2.0
        return out, empty

    compiled = check(step, array("f8", 20), array("f8", 20))
    assert kernels(compiled) == 2
    check(step, array("f8", 20, 7).T, array("f8", 20, 7).T)


def test_what_a_copy_was_made_of_may_be_written_too() -> None:
    def step(np: Any, u: Any, v: Any) -> Any:
        old = u.copy()
        old[2:] += v[2:] * 2.0
        part = old[:2] * 3.0
        u += v * 4.0
        old[0] = 5.0
        return old, u, part

    check(step, array("f8", 20), array("f8", 20))


def test_old_parts_are_read_before_they_are_written() -> None:
    def step(np: Any, x: Any, y: Any) -> Any:
        first = x[0] * 2.0
        total = (x * y).sum()
        x *= y + first
        y[1:] = x[1:] * total + first
        return first, total

    check(step, array("f8", 20), array("f8", 20))


@pytest.mark.parametrize("dtype", ["bool", "f2", "f4", "f8", "c8"])
def test_what_stood_there_comes_back_bit_by_bit(dtype: str) -> None:
    def step(np: Any, x: Any, y: Any, z: Any) -> Any:
        np.sqrt(z)
        x[1:] = y[1:] * y[1:]
        return np.sqrt(z) + 1.0

    word = f"u{np.dtype(dtype).itemsize}"
    old = rng.integers(2, 200, 40).astype(word) if dtype == "bool" else rng.bytes(40 * np.dtype(dtype).itemsize)
    x = np.frombuffer(bytearray(old), dtype)
    before = x.tobytes()
    compiled = Compiled(step, [array(dtype, 40) for _ in range(2)] + [array("f8", 9)])
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        compiled(x, array(dtype, 40), -array("f8", 9))
    assert x.tobytes() == before
    compiled(x, y := array(dtype, 40), array("f8", 9))
    assert x.tobytes() != before
    assert_same(x[1:], y[1:] * y[1:])


SHAPES = [(12,), (5, 6), (1, 6), (6, 1), (3, 4, 5), (1,), (2, 3), (0, 3)]
KEYS = [
    (slice(None),), (slice(1, None),), (slice(None, -1),), (slice(1, -1),), (slice(None, None, -1),), (slice(None, None, 2),),
    (Ellipsis, slice(1, None)), (Ellipsis, slice(None, -1)), (Ellipsis, 0), (0,), (-1,), (Ellipsis, None),
]  # fmt: skip


def family(r: random.Random) -> Callable[[np.ndarray[Any, Any]], list[np.ndarray[Any, Any]]]:
    """Arrays of one shape that are cut out of one base, apart, shifted against each other, or the same."""
    shape = r.choice(SHAPES)
    size = max(1, int(np.prod(shape)))
    starts = [r.choice([0, size, 2 * size, 3 * size, 1, 2, size // 2]) for _ in range(3)]
    if r.random() < 0.5:
        starts = [0, size, 2 * size]
    turned = [r.random() < 0.2 for _ in range(3)]

    def cut(base: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        made = [base[start : start + int(np.prod(shape))].reshape(shape) for start in starts]
        return [x[::-1] if turn else x for x, turn in zip(made, turned, strict=True)]

    return cut


def make_program(r: random.Random) -> list[tuple[Any, ...]]:
    program: list[tuple[Any, ...]] = []
    for i in range(r.randrange(2, 9)):
        pick = lambda: r.randrange(3 + i)  # noqa: E731, B023
        kind = r.choice(
            ["map", "map", "root", "copy", "view", "store", "store", "inplace", "part", "part", "out", "zeros", "sum"]
        )
        program.append((kind, pick(), pick(), r.choice(KEYS), r.choice(["add", "subtract", "multiply", "maximum"])))
    return program


def step(np: Any, values: list[Any], op: tuple[Any, ...]) -> Any:
    kind, a, b, key, name = op
    x, y = values[a], values[b]
    match kind:
        case "map":
            return getattr(np, name)(x, y)
        case "root":
            return np.sqrt(x * 0.5)
        case "copy":
            return x.copy()
        case "view":
            return x[key]
        case "store":
            x[key] = y[key] * 0.25
            return x
        case "inplace":
            return x.__iadd__(y * 0.5)
        case "part":
            x[key] += y[key] * 0.5
            return x
        case "out":
            return getattr(np, name)(x, y * 0.5, out=values[a])
        case "zeros":
            return np.zeros_like(x)
        case _:
            return x + x.sum()


def outcome(run: Callable[[], Any], how: Any) -> tuple[Any, str | None, list[str]]:
    with warnings.catch_warnings(record=True) as caught, np.errstate(all=how):
        warnings.simplefilter("always")
        result = error = None
        try:
            result = run()
        except (FloatingPointError, ValueError) as raised:
            error = f"{type(raised).__name__}: {raised}"
    return result, error, [str(warning.message) for warning in caught]


@pytest.mark.parametrize("seed", range(300))
def test_random_writes(seed: int) -> None:
    r = random.Random(seed)
    cut = family(r)
    dtype = r.choice(["f8", "f8", "f4", "i8"])
    fill = np.random.default_rng(seed)
    base = (fill.standard_normal(400) * 4 if r.random() < 0.5 else fill.random(400) * 4 + 1).astype(dtype)
    program: list[tuple[Any, ...]] = []
    values = cut(base.copy())
    for op in make_program(r):
        with np.errstate(all="ignore"):
            try:
                value = step(np, values, op)
                ok = isinstance(value, np.ndarray)
            except (TypeError, ValueError, IndexError):
                ok = False
        program.append(op if ok else ("copy", 0, 0, (slice(None),), "add"))
        values.append(value if ok else values[0].copy())
    outputs = r.sample(range(len(values)), 2) + [len(values) - 1]

    def function(np: Any, *xs: Any) -> Any:
        values = list(xs)
        for op in program:
            values.append(step(np, values, op))
        return tuple(values[i] for i in outputs)

    compiled = Compiled(function, cut(base))
    for how in ("ignore", "warn", "raise", "ignore"):
        ours, theirs = base.copy(), base.copy()
        got, wanted = outcome(lambda: compiled(*cut(ours)), how), outcome(lambda: function(np, *cut(theirs)), how)  # noqa: B023
        assert got[1:] == wanted[1:]
        assert_same(ours, theirs)
        if wanted[0] is not None:
            for x, y in zip(got[0], wanted[0], strict=True):
                assert_same(x, y)
