"""Kernels whose operands aren't neighbours in memory: every second element, from the last one on, and other steps. LLVM puts into vectors what it
knows the step of, and reads what lies between, but nothing beyond the ends."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
import pytest

import evalframe

STEPS = [1, 2, 3, 4, -1, -2]
DTYPES = ["?", "u1", "i1", "u2", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"]
SIZES = [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 127, 128, 129, 1000]


def numbers(dtype: str, count: int, seed: int) -> Any:
    random = np.random.default_rng(abs(seed))
    whole = random.integers(0, 2 if dtype == "?" else 100, count).astype(dtype)
    return whole + whole[::-1] * dtype_of(dtype, 1j) if dtype[0] == "c" else whole


def dtype_of(dtype: str, number: complex) -> Any:
    return np.dtype(dtype).type(number)


def both(x: Any, y: Any) -> Any:
    return x + y


def compared(x: Any, y: Any) -> Any:
    return (x != y) & (x == x)


def as_floats(x: Any, y: Any) -> Any:
    return x * 0.5 + y


def chosen(x: Any, y: Any) -> Any:
    return np.where(x == y, y, x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("program", [both, compared, as_floats, chosen])
def test_elements_at_steps(program: Any, dtype: str) -> None:
    captured = evalframe.jit(program)
    for size in SIZES:
        for step in STEPS:
            for other in (1, step):
                x, y = (numbers(dtype, size * abs(by), size + by)[::by] for by in (step, other))
                wanted = program(x, y)
                got = captured(x, y)
                assert got.dtype == wanted.dtype and got.tobytes() == wanted.tobytes(), (size, step, other)


@pytest.mark.parametrize("dtype", DTYPES)
def test_stores_at_steps_leave_what_lies_between(dtype: str) -> None:
    def stored(x: Any, y: Any) -> None:
        x[...] = x + y

    captured = evalframe.jit(stored)
    for size in SIZES:
        for step in STEPS:
            plain = numbers(dtype, (size + 1) * abs(step), size)
            ours, other = plain.copy(), numbers(dtype, size, step + 9)
            for memory, program in ((plain, stored), (ours, captured)):
                program(memory[::step][:size], other)
            assert ours.tobytes() == plain.tobytes(), (size, step)


@pytest.mark.parametrize("step", [step for step in STEPS if step != 1])
def test_columns_of_rows_at_steps(step: int) -> None:
    def stencil(x: Any) -> Any:
        return x[1:, ::step] - x[:-1, ::step] * 2

    captured = evalframe.jit(stencil)
    for rows, columns in ((2, 9), (5, 64), (30, 131)):
        for dtype in ("u1", "i2", "f4", "f8"):
            x = numbers(dtype, rows * columns, rows).reshape(rows, columns)
            wanted = stencil(x)
            assert captured(x).tobytes() == wanted.tobytes()


def test_parts_of_complex_numbers() -> None:
    def inside(z: Any, mask: Any) -> Any:
        return mask & (z.real**2 + z.imag**2 > 0.5)

    captured = evalframe.jit(inside)
    random = np.random.default_rng(3)
    for shape in ((3, 5), (17, 33), (40, 64)):
        z, mask = random.random(shape) + random.random(shape) * 1j, random.random(shape) > 0.3
        z[0, 0] = complex(np.nan, 1)
        for _ in range(3):
            assert captured(z, mask).tobytes() == inside(z, mask).tobytes()


def at_the_end_of_memory(dtype: str, count: int, guarded: Any) -> Any:
    """An array behind which there is nothing that can be read, and one that begins where there was nothing before."""
    pages, begin, end = guarded
    size = np.dtype(dtype).itemsize * count
    return (
        np.frombuffer(pages, dtype=dtype, count=count, offset=end - size),
        np.frombuffer(pages, dtype=dtype, count=count, offset=begin),
    )


@pytest.fixture
def guarded() -> Any:
    libc, page = ctypes.CDLL(None, use_errno=True), mmap.PAGESIZE
    pages = mmap.mmap(-1, 6 * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    for number in (0, 5):
        assert not libc.mprotect(ctypes.c_void_p(address + number * page), page, 0)
    yield pages, page, 5 * page
    for number in (0, 5):
        assert not libc.mprotect(ctypes.c_void_p(address + number * page), page, mmap.PROT_READ | mmap.PROT_WRITE)


@pytest.mark.parametrize("dtype", ["u1", "i2", "i4", "f4", "f8"])
def test_nothing_is_read_beyond_the_ends(dtype: str, guarded: Any) -> None:
    def tripled(x: Any) -> Any:
        return x + x + x

    captured = evalframe.jit(tripled)
    for size in SIZES[1:-1]:
        for step in STEPS:
            for whole in at_the_end_of_memory(dtype, (size - 1) * abs(step) + 1, guarded):
                x = whole[::step]
                assert x.size == size
                assert captured(x).tobytes() == tripled(x).tobytes(), (size, step)


@pytest.mark.parametrize("step", STEPS)
def test_rows_at_steps_in_native_loops(step: int) -> None:
    def smoothed(x: Any, times: int) -> Any:
        for k in range(times):
            x[k, 1:-1] = (x[k, :-2] + x[k, 2:]) * 0.5 - x[k - 1, 1:-1]
        return x

    captured = evalframe.jit(smoothed)
    for columns in (5, 40, 130):
        for dtype in ("f4", "f8"):
            plain = numbers(dtype, 60 * columns * abs(step), columns).reshape(60, -1)
            ours = plain.copy()
            for _ in range(4):
                smoothed(plain[:, ::step], 60)
                captured(ours[:, ::step], 60)
                assert ours.tobytes() == plain.tobytes(), (columns, dtype)
