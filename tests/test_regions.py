"""Loops over numbers and elements run as machine code, and behave as CPython has them behave."""

from __future__ import annotations

import gc
import math
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import outcome
from region_programs import InnerProgram, Kernels, check, copies, differences, shown

pytestmark = pytest.mark.usefixtures("native_loops_at_once")


R = np.random.default_rng(1)
KERNELS = Kernels()
kernel = KERNELS.kernel


@kernel(lambda: (R.integers(0, 256, 600), R.integers(0, 2**31, 256)))
def checksum(data: Any, table: Any) -> Any:
    c = 0xFFFFFFFF
    for i in range(len(data)):
        c = (c >> 8) ^ int(table[(c ^ data[i]) & 0xFF])
    return c


@kernel(lambda: (R.random((14, 14)), R.random((14, 14)), 14))
def gauss_seidel(u: Any, f: Any, n: int) -> Any:
    for _ in range(3):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])
    return u


@kernel(lambda: (np.arange(0, 601, 6), R.integers(0, 50, 600), R.random(600), R.random(50), np.zeros(100)))
def sparse_product(start: Any, column: Any, value: Any, x: Any, y: Any) -> Any:
    for i in range(len(y)):
        s = 0.0
        for k in range(start[i], start[i + 1]):
            s += value[k] * x[column[k]]
        y[i] = s
    return y


@kernel(lambda: (2000,))
def sieve(n: int) -> Any:
    flags = np.ones(n, bool)
    i = 2
    while i * i < n:
        if flags[i]:
            j = i * i
            while j < n:
                flags[j] = False
                j += i
        i += 1
    return flags


@kernel(lambda: (R.random(40),))
def bubble_sort(a: Any) -> Any:
    n = len(a)
    for i in range(n):
        for j in range(n - i - 1):
            if a[j] > a[j + 1]:
                a[j], a[j + 1] = a[j + 1], a[j]
    return a


@kernel(lambda: (R.integers(0, 4, 30), R.integers(0, 4, 25)))
def common_subsequence(a: Any, b: Any) -> Any:
    n, m = len(a), len(b)
    t = np.zeros((n + 1, m + 1), int)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            if a[i - 1] == b[j - 1]:
                t[i, j] = t[i - 1, j - 1] + 1
            else:
                t[i, j] = max(t[i - 1, j], t[i, j - 1])
    return t[n, m], t


@kernel(lambda: (14, 12, 40))
def mandelbrot(w: int, h: int, most: int) -> Any:
    out = np.zeros((h, w), int)
    for y in range(h):
        for x in range(w):
            cr, ci = -2.0 + 3.0 * x / w, -1.5 + 3.0 * y / h
            zr = zi = 0.0
            n = 0
            while zr * zr + zi * zi <= 4.0 and n < most:
                zr, zi = zr * zr - zi * zi + cr, 2.0 * zr * zi + ci
                n += 1
            out[y, x] = n
    return out


@kernel(lambda: (80,))
def collatz(n: int) -> Any:
    out = np.zeros(n, int)
    for i in range(1, n):
        k, c = i, 0
        while k != 1:
            k = k // 2 if k % 2 == 0 else 3 * k + 1
            c += 1
        out[i] = c
    return out


@kernel(lambda: (R.random(100) * 4 + 1,))
def roots(x: Any) -> Any:
    y = np.empty_like(x)
    for i in range(len(x)):
        g = x[i]
        for _ in range(10):
            g = 0.5 * (g + x[i] / g)
        y[i] = g
    return y


@kernel(lambda: (R.random(300) * 6 - 3,))
def elementary(x: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        s += math.sin(x[i]) * math.exp(-x[i] * x[i]) + abs(x[i]) + math.floor(x[i]) + x[i] ** 2
    return s


@kernel(lambda: (10, 30, -0.4 + 0.6j, (R.random((10, 10)) + 1j * R.random((10, 10))) * 3 - 1.5))
def julia(n: int, most: int, c: complex, points: Any) -> Any:
    out = np.zeros((n, n), int)
    for i in range(n):
        for j in range(n):
            z, k = points[i, j], 0
            while abs(z) <= 2.0 and k < most:
                z = z * z + c
                k += 1
            out[i, j] = k
    return out


@kernel(lambda: (R.random(80), R.random(90)))
def items(x: Any, y: Any) -> Any:
    s = 0.0
    for a, b in zip(x, y):
        s += a * b
    for i, a in enumerate(x):
        y[i] = a * i
        if i > 60:
            break
    for a in y:
        s = max(s, a)
    return s, y


@kernel(lambda: (R.random(60), R.random(60)))
def swapped_buffers(a: Any, b: Any) -> Any:
    for _ in range(30):
        for i in range(1, len(a) - 1):
            b[i] = (a[i - 1] + a[i] + a[i + 1]) / 3
        a, b = b, a
    return a


@kernel(lambda: (R.random(50), 0.5))
def search(a: Any, limit: float) -> Any:
    for _ in range(20):
        for i in range(len(a)):
            if a[i] > 10.0:
                return i
        a[0] += limit
    else:
        i = -1
    return i


@kernel(lambda: (R.random((9, 12)), R.integers(-9, 9, 200), R.integers(-12, 12, 200)))
def taken_from_both_ends(x: Any, rows: Any, columns: Any) -> Any:
    total = 0.0
    for k in range(len(rows)):
        total += x[rows[k], columns[k]] - x[-1 - k % 9, -12 + k % 12]
    return total


@kernel(lambda: (R.random((8, 9)), R.integers(0, 2**40, (8, 9))))
def neighbours_around(x: Any, y: Any) -> Any:
    n, m = x.shape
    for i in range(n):
        for j in range(m):
            x[i, j] += x[i - 1, j] - x[i, j - 1]
            y[i, j] += y[i - 1, j] ^ y[i, (j + 1) % m]
    return x, y


@kernel(lambda: (R.random((6, 19)), R.random((6, 19)), 5))
def around_a_torus(x: Any, y: Any, by: int) -> Any:
    n, m = x.shape
    for i in range(n):
        for j in range(m):
            if y[i, j] > 0.5:
                y[i, j] = x[i, (j - 1) % m] + x[(i + by) % n, (j + 1) % m]
            else:
                y[i, j] -= x[(i - 1 + n) % n, (j - 1 + m) % m] * x[i, (j + by) % m]
    return y


@kernel(lambda: (R.random((5, 6, 3)).astype(np.float32), R.random((2, 2, 3, 4)).astype(np.float32), np.zeros((4, 5, 4), np.float32)))
def small_filters(image: Any, weights: Any, out: Any) -> Any:
    rows, columns, filters = out.shape
    for i in range(rows):
        for j in range(columns):
            for f in range(filters):
                for a in range(2):
                    for b in range(2):
                        for c in range(3):
                            out[i, j, f] += image[i + a, j + b, c] * weights[a, b, c, f]
    return out


@kernel(lambda: (R.random(60), R.integers(0, 60, 200)))
def stored_again_and_again(x: Any, places: Any) -> Any:
    """Two places that are sometimes one."""
    for k in range(1, len(places)):
        i, j = places[k], places[k - 1]
        x[i] += 1.0
        x[j] *= 0.5
        x[i] = x[j] - x[i]
        x[i] += x[j]
        x[-1] = x[i]
    return x


@kernel(lambda: (np.array([0, 1, -1, 6, 7, 8, 13, 14, -6, -7, -8, -14, 2**62, -(2**62), 2**63 - 1, -(2**63), 2**63 - 3, -3], np.int64), np.array([7, -7, 1, -1, 2**62, 2**62 + 1, 2**63 - 1, -(2**63), 3, 2**61], np.int64)))
def remainders(a: Any, b: Any) -> Any:
    total = 0
    for j in range(len(b)):
        divisor = int(b[j])
        for i in range(len(a)):
            total ^= (int(a[i]) % divisor) * (i % 3 + 1) // 8
            total ^= (i - 9) % divisor
    return total


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_run_natively(name: str) -> None:
    counters = KERNELS.counters(name, 4)
    assert counters["native_loops"] >= 1
    assert counters["native_turns"] > 50


@pytest.mark.mostly_slow(3)
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("turns", [1, 7])
def test_loops_may_be_left_after_any_turn(name: str, turns: int) -> None:
    _core.set_region_turns(turns)
    counters = KERNELS.counters(name, 3)
    assert counters["native_turns"] > 5, counters


@pytest.mark.mostly_slow(3)
@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    text, found, _ = differences(seed)
    assert not found, text


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1300, 50))
def test_more_random_programs(first: int, share: int) -> None:
    for seed in range(first, first + 50, share):
        text, found, _ = differences(seed)
        assert not found, (seed, text)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_of_inner_loops(seed: int) -> None:
    text, found, _ = differences(seed, kind=InnerProgram)
    assert not found, f"{text}\n{found[0]}"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1120, 20))
def test_more_random_programs_of_inner_loops(first: int, share: int) -> None:
    for seed in range(first, first + 20, share):
        text, found, _ = differences(seed, kind=InnerProgram)
        assert not found, f"seed {seed}\n{text}\n{found[0]}"


def at_once(function: Callable[..., Any], *arguments: Any) -> int:
    """Inner loops that have code for many turns, behind some calls that do the same as plain ones."""
    check(function, *([arguments] * 4))
    captured = evalframe.jit(function)
    for _ in range(4):
        explanation = evalframe.explain(captured)(*copies(arguments))
    return max((loop.at_once for loop in explanation.loops), default=0)


def test_what_many_turns_leave_in_variables_is_read_behind_them() -> None:
    """Variables that the turns write before they read them: the loop around them goes on with what the last one wrote."""

    def sampled(n: int, thin: int, draws: Any, samples: Any) -> Any:
        x = y = 0.0
        k = 0
        for i in range(n):
            for _ in range(thin):
                x = 0.8 * y + draws[k]
                y = 0.5 * x
                k += 1
            samples[i] = x
        return x, k

    check(sampled, *[(40, thin, R.random(400), np.zeros(40)) for thin in (9, 9, 9, 0, 3, 9)])
    explained = evalframe.explain(evalframe.jit(sampled))
    for _ in range(4):
        explanation = explained(40, 9, R.random(400), np.zeros(40))
    runs = [loop.runs for loop in explanation.loops if loop.native]
    assert runs and max(runs) < 40, explanation.loops


def test_inner_loops_do_many_turns_at_once() -> None:
    def summed(a: Any, b: Any, n: int) -> Any:
        s = 0.0
        for i in range(n):
            s += a[i] * b[i + 1]
        return s

    def smoothed(a: Any, c: Any, n: int) -> Any:
        for i in range(1, n):
            for j in range(1, c.shape[1] - 1):
                c[i, j] = (c[i, j - 1] + c[i - 1, j] + a[2 * j]) / 3.0

    def down_columns(a: Any, c: Any, n: int) -> Any:
        for j in range(n):
            for i in range(n):
                c[i, j] += a[j] * c[j, i]

    def by_number(a: Any, b: Any, n: int) -> Any:
        for i in range(n):
            b[int(a[i] * 7)] += 1.0

    assert at_once(summed, R.random(90), R.random(91), 90) == 1
    assert at_once(smoothed, R.random(90), R.random((40, 40)), 40) == 1
    assert at_once(down_columns, R.random(40), R.random((40, 40)), 40) == 1
    assert at_once(by_number, R.random(90), R.random(7), 90) == 1


def test_elements_of_any_type_and_distance_many_at_once() -> None:
    def changed(a: Any, b: Any, n: int) -> Any:
        s = a[0]
        for i in range(2, n):
            b[i] = a[i - 1] + b[i - 2]
            a[n - i] = b[i]
            s = b[i - 1]
        return s

    for dtype in ("f8", "f4", "i8", "i2", "u1", "?", "c16", "c8"):
        values = (R.random(200) * 2).astype(dtype)
        for one, other in [(values[:100], values[100:]), (values[::2], values[1::2]), (values[:100], values[1:101]), (values[::-1], values[:100])]:
            plain, ours = values.copy(), values.copy()
            captured = evalframe.jit(changed)
            for _ in range(4):
                outcomes = []
                for function, memory in ((changed, plain), (captured, ours)):
                    views = [np.ndarray(v.shape, v.dtype, memory, (v.ctypes.data - values.ctypes.data), v.strides) for v in (one, other)]
                    outcomes.append(outcome(function, *views, 100))
                assert repr(outcomes[0]) == repr(outcomes[1])
                assert shown(plain) == shown(ours)


def test_what_goes_wrong_in_the_midst_of_many_turns() -> None:
    def filled(a: Any, b: Any, n: int) -> Any:
        s = 0.0
        for i in range(n):
            b[i] = a[i] * 1e200
            s += b[i]
            b[n - 1 - i] += 1.0
        return s

    def counted(a: Any, b: Any, n: int) -> Any:
        k = 1
        for i in range(n):
            b[i] = k
            k = k * 3
        return k

    small = np.linspace(0.0, 1.0, 300)
    large = small.copy()
    large[[40, 177]] = 1e300
    for state in ("warn", "raise", "ignore"):
        with np.errstate(over=state):
            check(filled, *[(a.copy(), np.zeros(300), n) for n in (300, 250, 301, 300) for a in (small, large)])
    check(counted, *[(small, np.zeros(300), n) for n in (30, 39, 38, 60)])


def test_what_goes_wrong_on_one_of_the_ways_through_many_turns() -> None:
    """Each way stores the same elements: what was there is put back once, and as it was before the first of them."""

    def either(a: Any, b: Any, n: int) -> Any:
        t = u = 0.0
        for i in range(2, n):
            if b[i] > 0.5:
                a[i] = a[i] * 1e200 + a[i - 1]
                a[i - 2] *= 0.5
            else:
                a[i] += b[i]
                t = b[i] * 1e200
                u = (t + 1.0) * a[i - 1]
            a[i - 1] = a[i] - b[i]
        return t, u

    b = R.random(300)
    small = np.linspace(0.0, 1.0, 300)
    large = small.copy()
    large[[40, 177]] = 1e300
    for state in ("warn", "raise", "ignore"):
        with np.errstate(over=state):
            check(either, *[(a.copy(), b, n) for n in (300, 250, 301, 300) for a in (small, large)])
            check(either, *[(np.repeat(a, 2)[::-2], np.repeat(b, 2)[::2], 300) for a in (small, large, small)])
            check(either, *[(a[:290], a[5:295], 290) for a in (small.copy(), large.copy(), small.copy())])
    with np.errstate(over="ignore"):
        assert at_once(either, small, b, 300)


def test_quotients_that_are_the_same_in_all_of_many_turns() -> None:
    def wrapped(x: Any, y: Any, n: int, by: int) -> Any:
        s = 0
        for i in range(y.shape[0]):
            for j in range(y.shape[1]):
                y[i, j] += x[(i + 1) % n, (j + by) % n] - x[(i - 2) % n, (j - 1) % n]
                s += (3 * j) // n + (i - j) % by
        return s, j

    def backwards(x: Any, y: Any, n: int, by: int) -> Any:
        for i in range(y.shape[0]):
            for j in range(y.shape[1] - 1, -1, -by):
                if x[i, (j + by) % n] > 0.5:
                    y[i, j] = x[i, (j + by) % n] * 1e200
                else:
                    y[i, j] -= x[(i + n // by) % n, (j - i) % n]

    def numbers(start: int, step: int, divisor: int, count: int) -> Any:
        bits = total = 0
        for _ in range(5):
            for k in range(count):
                bits ^= (start + k * step) % divisor
                total ^= (start + k * step) // divisor
        return bits, total

    large = R.random((40, 40))
    large[3, 17] = 1e300
    sizes = (40, 7, 39, -40, 1, 0)
    for x in (R.random((40, 40)), large):
        check(wrapped, *[(x, np.zeros((6, 40)), n, by) for n in sizes for by in (1, 3, -5, 39, 40, 0)])
        check(backwards, *[(x, np.zeros((6, 40)), n, by) for n in sizes for by in (1, 3, 40)])
    lowest, highest = -(2**63), 2**63 - 1
    divisors, starts, steps = (1, -1, 3, -7, 2**61, 2**62 + 1, highest, lowest, 0), (0, -1, 2**62, lowest, highest - 29), (1, -1, 2**58, -(2**58))
    check(numbers, *[(start, step, divisor, 30) for start in starts for step in steps for divisor in divisors])
    assert at_once(wrapped, large, np.zeros((6, 40)), 40, 3) == 1
    assert at_once(backwards, np.zeros((40, 40)), np.zeros((6, 40)), 40, 3) == 1
    assert at_once(numbers, 0, 1, 50, 30) == 1


def test_parts_of_arrays_many_at_once() -> None:
    def unpacked(picture: Any, out: Any) -> Any:
        for i in range(picture.shape[0]):
            for j in range(picture.shape[1]):
                r, g, b = picture[i, j]
                out[i, j] = r * 0.25 + g * 0.5 + b

    def counted_from_the_end(picture: Any, out: Any) -> Any:
        for i in range(picture.shape[0]):
            for j in range(-3, picture.shape[1] - 3):
                out[i, j] = picture[i, j][-1] - picture[i][j][0] + picture[i, j].shape[0] + len(picture[i])

    def stored(picture: Any, out: Any) -> Any:
        for i in range(picture.shape[0]):
            for j in range(1, picture.shape[1] + 1):
                colours = picture[i, j - 1]
                colours[0] = out[i, j - 1] * 1e200
                colours[-1] += 1.0
                picture[i, j - 2][1] = j

    def rests(picture: Any, out: Any) -> Any:
        for i in range(picture.shape[0]):
            for j in range(picture.shape[1] - 1):
                rest, start = picture[i, j:], out[i, :j + 2]
                out[i, j] = rest[-1, 0] + rest.shape[0] + start[-1] + rest[1, 2]

    picture, out = R.random((12, 30, 3)), R.random((12, 30))
    wide = np.where(out > 0.98, 1e300, out)
    for function in (unpacked, counted_from_the_end, stored, rests):
        pictures = [picture, picture, picture[:, ::-1], np.asfortranarray(picture), picture.transpose(0, 2, 1).copy().transpose(0, 2, 1)]
        for state in ("warn", "raise"):
            with np.errstate(over=state):
                check(function, *[(p, o) for p in pictures for o in (out, wide, out[:, :-1], out[:, :, None][..., 0])])
        assert at_once(function, picture, out), function
    check(unpacked, *[(picture[..., :k], out) for k in (3, 3, 3, 2, 3)])


def test_guards_of_the_first_and_the_last_turn_many_at_once() -> None:
    """What the guards keep apart would be out of range there."""

    def fluxes(q: Any, w: Any, n: int) -> Any:
        for j in range(q.shape[1]):
            below = 0.0
            for k in range(n):
                above = 0.0
                if k < n - 1:
                    above = w[k + 1, j] * q[k, j] if w[k + 1, j] > 0.5 else w[k + 1, j] * q[k + 1, j]
                if k > 0:
                    q[k - 1, j] *= 0.5
                q[k, j] += below - above
                below = above
        return q.sum()

    def one_too_many(x: Any, y: Any, n: int) -> Any:
        s = 0.0
        for i in range(n):
            y[i] = x[i + 1] * 1e200
            s += y[i]
        return s

    q, w = R.random((40, 6)), R.random((40, 6))
    large = np.where(q > 0.99, 1e308, q)
    for state in ("warn", "raise", "ignore"):
        with np.errstate(over=state):
            check(fluxes, *[(a, w, n) for n in (40, 40, 5, 4, 3, 1, 0, 40) for a in (q, large)], (q[::2], w[::2], 20), (q, w[:-1], 40), (q[:-1], w, 40))
    check(one_too_many, *[(np.linspace(0.0, 1.0, size), np.zeros(90), n) for size in (90, 90, 60) for n in (89, 90, 91, 59, 60, 61, 90)])
    assert at_once(fluxes, q, w, 40)


def test_turns_one_by_one_behind_checks_that_many_turns_fail() -> None:
    """As the last turn of all is out of range, each turn finds that there aren't many at once to do; none of them may fill the log."""

    def accepted(steps: Any, bounds: Any, samples: Any) -> float:
        x = 0.0
        for i in range(len(steps)):
            proposed = x + steps[i]
            if bounds[i] < -abs(proposed):
                x = proposed
            samples[i] = x
        return x

    steps, bounds = R.normal(size=9000), np.log(R.random(9000))
    check(accepted, *[(steps, bounds[:n], np.zeros(9000)) for n in (9000, 9000, 8999, 8990, 9000)])


def test_results_that_nothing_takes_are_computed_in_each_turn() -> None:
    def dropped(a: Any, n: int) -> Any:
        s = 0.0
        for i in range(n):
            a[i] * 1e300
            s += 1.0
        return s

    def overwritten(a: Any, n: int) -> Any:
        t = 0.0
        for i in range(n):
            t = a[i] * 1e300
        return t

    def stored_over(a: Any, n: int) -> Any:
        for i in range(n - 1):
            a[n - 1] = a[i] * 1e300

    def stored_twice(a: Any, n: int) -> Any:
        for i in range(n):
            a[i] = a[i] * 1e300
            a[i] = 1.0

    def passed_on(a: Any, n: int) -> Any:
        s = t = u = 0.0
        for i in range(n):
            s, t = a[i] * 1e300, s
            u = t * 2
        return u

    def added_up(a: Any, n: int) -> Any:
        for i in range(1, n):
            a[0] += a[i] * 1e150

    values = np.ones(200)
    values[150] = 1e200
    for function in (dropped, overwritten, stored_over, stored_twice, passed_on, added_up):
        check(function, *[(values, 200)] * 4)


def test_python_ints_stay_exact() -> None:
    def powers(n: int) -> int:
        x = 1
        for i in range(n):
            x = x * 3 + i
        return x

    check(powers, (10,), (30,), (60,), (200,))


def test_numpy_ints_warn_where_they_overflow() -> None:
    def powers(a: Any, n: int) -> Any:
        x = a[0]
        for i in range(n):
            x = x * a[1] + i
        return x

    check(powers, (np.array([1, 3]), 10), (np.array([1, 3]), 30), (np.array([1, 3]), 45))


def test_conditions_are_reported_at_their_lines() -> None:
    def quotients(a: Any, b: Any) -> Any:
        c = np.zeros(len(a))
        for i in range(len(a)):
            x = a[i] / b[i]
            c[i] = x - x
        return c

    b = np.arange(20.0)
    with np.errstate(over="ignore"):
        huge = b * 1e308
    check(quotients, (b, b + 1), (b, b + 1), (b, b), (b, b[::-1].copy()), (huge, b + 1e-9))


def test_errstate_as_it_stands() -> None:
    def quotients(a: Any, b: Any) -> float:
        s = 0.0
        for i in range(len(a)):
            s += a[i] / b[i]
        return s

    captured = evalframe.jit(quotients)
    a, b = np.ones(30), np.ones(30)
    for _ in range(3):
        captured(a, b)
    b[7] = 0
    with np.errstate(divide="ignore"):
        assert captured(a, b) == math.inf
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        captured(a, b)
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        captured(a, b)


def test_errors_come_with_what_was_done_before() -> None:
    def shift(a: Any, by: int) -> None:
        for i in range(len(a)):
            a[i] = a[i + by] + 1

    check(shift, (np.arange(20.0), 0), (np.arange(20.0), -1), (np.arange(20.0), 3), (np.arange(20), 30))


def test_zero_divisions() -> None:
    def quotients(a: Any, n: int) -> Any:
        s = 0
        for i in range(n):
            s += 100 // (i - 12) + int(a[i % len(a)])
        return s

    check(quotients, (np.arange(5), 10), (np.arange(5), 10), (np.arange(5), 20))


def test_memory_that_is_shared() -> None:
    def mix(a: Any, b: Any) -> None:
        for i in range(len(a) - 1):
            a[i + 1] = b[i] * 0.5
            b[i], a[i] = a[i] + b[i + 1], b[i]

    def run(captured: Any) -> Any:
        memory = np.arange(40.0)
        captured(memory[:20], memory[3:23])
        captured(memory[::2], memory[1::2])
        captured(memory, memory)
        captured(memory[::-1], memory)
        return memory

    captured = evalframe.jit(mix)
    for _ in range(3):
        assert shown(run(mix)) == shown(run(captured))
    assert _core.jit_counters(captured)["native_loops"]


def test_bytes_of_other_types_under_one_store() -> None:
    def punned(a: Any, b: Any) -> int:
        s = 0
        for i in range(len(a)):
            a[i] = i * 3
            s += int(b[2 * i])
        return s

    def run(function: Any) -> Any:
        memory = np.arange(30, dtype=np.int64)
        return function(memory, memory.view(np.int32)), memory

    captured = evalframe.jit(punned)
    for _ in range(3):
        assert shown(run(punned)) == shown(run(captured))


def test_read_only_arrays() -> None:
    def fill(a: Any) -> None:
        for i in range(len(a)):
            a[i] = i

    fixed = np.zeros(20)
    fixed.flags.writeable = False
    captured = evalframe.jit(fill)
    for _ in range(3):
        captured(np.zeros(20))
    with pytest.raises(ValueError, match="read-only"):
        captured(fixed)


def test_sizes_and_types_that_change() -> None:
    def total(a: Any, s: Any) -> Any:
        for i in range(len(a)):
            s = s + a[i]
        return s

    for_types = [np.arange(n).astype(dtype) for dtype in ("f8", "i8", "f4", "i2", "u1", "?", ">f8", "f2", "c16") for n in (0, 1, 15)]
    check(total, *[(a, s) for a in for_types for s in (0, 0.5)], native=False)
    check(total, (np.arange(30.0), 0.0), (np.arange(40.0), 0.0), (np.arange(20.0)[::3], 0.0), (np.arange(20.0)[::-1], 0.0), (np.broadcast_to(np.float64(2), (9,)), 0.0))


def test_steps_of_ranges() -> None:
    def steps(a: Any, first: int, last: int, step: int) -> Any:
        seen = 0
        for i in range(first, last, step):
            a[i] += i
            seen = seen * 3 + i
        return seen, i

    check(steps, *[(np.zeros(12), *r) for r in [(0, 9, 1), (0, 9, 2), (9, 0, -1), (9, 0, -4), (3, 4, 100), (-1, -9, -2), (0, 12, 5), (5, 5, 1), (0, 5, 0)]])


def test_what_callers_see_of_numbers() -> None:
    def numbers(a: Any) -> Any:
        big, small, last = 2**40, 3, None
        for i in range(len(a)):
            big += 1
            small = int(a[i])
            last = a[i] > 0.5
        return big, small, last, type(last), i

    check(numbers, (np.arange(20.0),), (np.arange(20.0),), (np.zeros(7),))


def test_variables_that_a_loop_leaves_alone_stay_the_same_objects() -> None:
    def untouched(a: Any, x: float, text: str, items: list[int]) -> Any:
        for i in range(len(a)):
            a[i] = i * x
        return x, text, items, a

    captured = evalframe.jit(untouched)
    for _ in range(3):
        a, x, text, items = np.zeros(20), 0.1 + len(sys.argv), "a text" * 2, [1]
        result = captured(a, x, text, items)
        assert result[0] is x and result[1] is text and result[2] is items and result[3] is a
    assert _core.jit_counters(captured)["native_loops"]


def test_loops_that_nothing_leads_out_of() -> None:
    def stuck(n: int) -> int:
        s = 0
        for i in range(n):
            s += i
            if s > 1e9:
                while True:
                    pass
        return s

    check(stuck, (50,), (50,), (60,))


def test_stores_of_numbers_that_do_not_fit() -> None:
    def store(a: Any, b: Any) -> None:
        for i in range(len(a)):
            b[i] = a[i]

    for source in ("i8", "u8", "i4", "u2", "i2"):
        for target in ("i1", "i2", "i4", "i8", "u1", "u4", "u8"):
            fitting, odd = np.arange(40).astype(source), np.arange(40).astype(source)
            odd[30] = np.iinfo(source).max
            low = odd.copy()
            low[20] = np.iinfo(source).min
            check(store, *[(a, np.zeros(40, target)) for a in (fitting, fitting, odd, low)])


def test_iterators_that_the_program_has_too() -> None:
    def first_items(n: int) -> int:
        s, it = 0, iter(range(200))
        for _ in range(n):
            for v in it:
                s += v
                break
        return s

    def rest(n: int) -> int:
        s, it = 0, iter(range(200))
        for j in range(n):
            s += j
        for v in it:
            s += v
            if s > 2500:
                break
        return next(it)

    def pairs(a: Any) -> float:
        s, it = 0.0, enumerate(a)
        for j in range(20):
            for i, v in it:
                s += v * j
                if i % 5 == 4:
                    break
        return s

    check(first_items, (60,), (60,), (60,), native=False)
    check(rest, (60,), (60,), (60,), native=False)
    check(pairs, (np.arange(50.0),), (np.arange(50.0),), (np.arange(50.0),), native=False)


def test_objects_that_variables_lose_end_at_once() -> None:
    class Ending:
        def __init__(self, a: Any) -> None:
            self.a = a

        def __del__(self) -> None:
            self.a[0] = 1

    def wait(a: Any, n: int, box: list[Any]) -> int:
        x = box.pop()
        i = 0
        while i < n:
            if a[0] > 0:
                break
            if i > 10:
                x = i  # noqa: F841
            i += 1
        return i

    captured = evalframe.jit(wait)
    for thing in (5, 5, 5, [6], [6], [6]):
        assert captured(np.zeros(2), 50, [thing]) == 50
    a = np.zeros(2)
    assert wait(a, 1000, [Ending(a)]) == 12
    a = np.zeros(2)
    assert captured(a, 1000, [Ending(a)]) in (12, 13)  # behind the graph in which it is lost


def test_powers_of_ints_of_either_sign() -> None:
    def powers(n: int) -> Any:
        t: Any = 0
        for k in range(-n, n):
            t = 2**k
        return t

    check(powers, (20,), (20,), (25,), native=False)


def test_squares_are_those_of_the_c_library() -> None:
    def of_elements(x: Any, out: Any) -> Any:
        for i in range(len(x)):
            out[i] = x[i] ** 2
        return out

    def of_floats(x: Any, out: Any) -> Any:
        for i in range(len(x)):
            out[i] = float(x[i]) ** 2.0 - 1.0
        return out

    many = R.random(20_000) * np.where(np.arange(20_000) % 2, -1.0, 1e130)
    # Where multiplying wouldn't do.
    assert any(x * x != x**2 for x in many.tolist())
    # Whose squares are nearly in the middle between two numbers, of sizes on both sides of those for which pow() is known to be nearest.
    some = np.ldexp(R.random(20_000) + 0.5, R.integers(-130, 131, 20_000))
    nearly = np.array([x for x in some.tolist() if abs(abs(Fraction(x) ** 2 - Fraction(x * x)) / Fraction(math.ulp(x * x)) - Fraction(1, 2)) < Fraction(1, 20)])
    limits = np.array([0.0, -0.0, 1e-155, 1e-300, 5e-324, 1.3e154, -3e-136, 3e135, 1e150])
    large = np.array([1e10, math.nan, -math.inf, math.inf, 1e155, 2.0])
    for function in (of_elements, of_floats):
        for precision in (np.float64, np.float32):
            with np.errstate(over="ignore"):
                calls = [(x.astype(precision), np.empty(len(x))) for x in (many, nearly, limits, large)]
            check(function, *calls)


@pytest.mark.parametrize("base", [1.01, -0.97, np.float64(1.5), 1e30, 0.0, -0.0, 1e-160, math.inf, math.nan, np.float32(1.25)])
def test_powers_that_come_again_are_those_of_the_c_library(base: Any) -> None:
    def of_turns(base: Any, n: int, out: Any) -> Any:
        for step in range(n):
            for i in range(step + 1):
                out[i] = out[i] * 0.5 + base ** (2 * i - step)
        return out

    def of_elements(base: Any, n: int, out: Any, exponents: Any) -> Any:
        for i in range(n):
            out[i % 9] = base ** exponents[i]
            out[9] += (base + i) ** exponents[i]
        return out

    with np.errstate(all="ignore"):
        check(of_turns, *[(base, n, np.zeros(60)) for n in (20, 30, 60, 30)], native=False)
        for exponent_type in (np.int64, np.int8, np.uint64):
            exponents = R.integers(0 if exponent_type is np.uint64 else -20, 21, 200).astype(exponent_type)
            check(of_elements, *[(base, n, np.zeros(10), exponents) for n in (100, 200, 200)], native=False)


NUMBER_TYPES = ["bool", "int8", "uint8", "int16", "int32", "int64", "uint64", "float32", "float64"]


@pytest.mark.parametrize("dtype", NUMBER_TYPES)
def test_powers_of_numbers_of_all_types(dtype: str) -> None:
    """Some are those of one number, which call pow(), and others those of arrays, which may not."""

    def powers(a: Any, b: Any, out: Any, base: Any, exponent: Any) -> None:
        for i in range(len(a)):
            out[i] = a[i] ** b[i]
            out[i] += base ** b[i]
            out[i] += a[i] ** exponent

    def some(of: str) -> Any:
        return (R.random(60) * 3 + 0.5).astype(of) if of.startswith("float") else R.integers(0, 2 if of == "bool" else 5, 60).astype(of)

    numbers = [(1.37, 3), (3, 2.71), (np.float32(1.3), np.int64(7)), (np.float64(1.3), np.float32(2.2)), (np.int32(3), np.uint64(5)), (np.True_, 1.7)]
    with np.errstate(all="ignore"):
        for other in NUMBER_TYPES:
            for base, exponent in numbers:
                check(powers, *[(some(dtype), some(other), np.zeros(60), base, exponent) for _ in range(4)], native=False)


def test_numbers_of_enumerate_grow() -> None:
    def last(a: Any) -> int:
        t = 0
        for i, _ in enumerate(a, 2**63 - 40):
            t = i
        return t

    check(last, (np.zeros(45),), (np.zeros(45),), (np.zeros(45),), native=False)


def test_arrays_that_warn_of_their_first_store() -> None:
    def fill(a: Any) -> None:
        for i in range(len(a)):
            a[i] = i

    captured = evalframe.jit(fill)
    for _ in range(4):
        with pytest.warns(DeprecationWarning):
            captured(np.broadcast_arrays(np.zeros(1), np.zeros(30))[0])


def test_objects_from_call_to_call() -> None:
    class Box:
        def __init__(self, n: int) -> None:
            self.n, self.a = n, np.zeros(20)

    def fill(box: Any) -> int:
        s = 0
        for i in range(box.n):
            box.a[i] = i
            s += i * box.n
        return s

    captured = evalframe.jit(fill)
    for n in (10, 10, 12, 13, 20, 5):
        plain, ours = Box(n), Box(n)
        assert fill(plain) == captured(ours)
        assert shown(plain.a) == shown(ours.a)


def test_references_are_let_go() -> None:
    def fill(a: Any, other: Any) -> None:
        for _ in range(3):
            for i in range(len(a)):
                a[i] = other[i] + i
            a, other = other, a

    captured = evalframe.jit(fill)
    a, other = np.zeros(30), np.zeros(30)
    for _ in range(4):
        captured(a, other)
    before = sys.getrefcount(a), sys.getrefcount(other)
    for _ in range(20):
        captured(a, other)
    assert (sys.getrefcount(a), sys.getrefcount(other)) == before
    gc.collect()


def test_signals_are_handled_while_a_loop_runs() -> None:
    class Stopped(Exception):
        pass

    def stop(*_: object) -> None:
        raise Stopped

    def endless(a: Any) -> None:
        i = 0
        while a[0] < 1.0:
            i += 1
            a[1] = i

    captured = evalframe.jit(endless)
    before = signal.signal(signal.SIGALRM, stop)
    try:
        for _ in range(2):
            a = np.zeros(2)
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(Stopped):
                captured(a)
            assert a[1] > 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert _core.jit_counters(captured)["native_turns"] > 10_000


def test_threads_take_turns_with_a_loop() -> None:
    def endless(a: Any) -> int:
        i = 0
        while a[0] < 1.0:
            i += 1
        return i

    captured = evalframe.jit(endless)
    a = np.zeros(1)
    timer = threading.Timer(0.2, lambda: a.__setitem__(0, 2.0))
    timer.start()
    assert captured(a) > 10_000
    timer.join()


def test_loops_in_threads() -> None:
    def total(a: Any) -> float:
        s = 0.0
        for i in range(len(a)):
            s += a[i]
        return s

    captured = evalframe.jit(total)
    arrays = [np.arange(2000.0) + k for k in range(4)]
    results: dict[int, list[float]] = {k: [] for k in range(4)}

    def work(k: int) -> None:
        for _ in range(30):
            results[k].append(captured(arrays[k]))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(value == total(arrays[k]) for k in range(4) for value in results[k])


def test_names_that_change_between_calls() -> None:
    namespace: dict[str, Any] = {"np": np, "factor": 2}
    exec(
        "def f(a):\n    s = 0\n    for i in range(len(a)):\n        s += int(a[i]) * factor + helper(i)\n    return s\ndef helper(i):\n    return i * 2\n",
        namespace,
    )
    captured = evalframe.jit(namespace["f"])
    a = np.arange(30)
    for change in ({}, {}, {"factor": 3}, {"factor": 2.5}, {"helper": lambda i: i}, {"range": lambda n: [1, 2]}, {"len": lambda a: 4}):
        namespace.update(change)
        for _ in range(3):
            assert captured(a) == namespace["f"](a), change


def test_functions_that_do_not_pay_are_given_up_at_their_loops() -> None:
    @evalframe.uncaptured
    def opaque() -> None:
        pass

    def breaks(n: int) -> int:
        opaque()
        opaque()
        opaque()
        for _ in range(n):
            opaque()
        return n

    captured = evalframe.jit(breaks)
    for _ in range(500):
        assert captured(2) == 2
    assert _core.jit_counters(captured)["given_up"] == 1


def test_functions_whose_loops_are_not_come_to_are_given_up() -> None:
    @evalframe.uncaptured
    def opaque() -> None:
        pass

    def breaks(n: int) -> int:
        opaque()
        opaque()
        if n < 0:
            for _ in range(3):
                opaque()
        return n

    captured = evalframe.jit(breaks)
    for _ in range(500):
        assert captured(2) == 2
    assert _core.jit_counters(captured)["given_up"] == 1


def test_short_loops_are_left_to_the_interpreter() -> None:
    _core.set_region_seconds(0.02)

    def total(a: Any) -> float:
        s = 0.0
        for i in range(len(a)):
            s += a[i]
        return s

    captured = evalframe.jit(total)
    captured(np.arange(10.0))
    assert _core.jit_counters(captured)["native_loops"] == 0
    a = np.arange(400_000.0)
    captured(a)
    assert captured(a) == total(a)
    assert _core.jit_counters(captured)["native_loops"] >= 1


def test_the_log_says_what_is_in_the_way() -> None:
    program = """
import numpy as np, evalframe
from evalframe import _core
_core.set_region_seconds(0.0)
def texts(a):
    text = ""
    for i in range(len(a)):
        if a[i] > 0.5:
            text = text + str(i)
    return text
def total(a):
    s = 0.0
    for i in range(len(a)):
        s += a[i]
    return s
for function in (texts, total):
    captured = evalframe.jit(function)
    for _ in range(3):
        captured(np.arange(20) / 20)
"""
    run = subprocess.run([sys.executable, "-c", program], env={**os.environ, "EVALFRAME_LOG": "regions"}, capture_output=True, text=True, check=True)
    assert "loop in texts (<string>:7): not native" in run.stderr
    assert "loop in total (<string>:13): native, " in run.stderr


def test_lists_of_numbers_are_gone_through() -> None:
    def weighted(ints: list[Any], floats: list[Any]) -> Any:
        total, most, seen = 0, 0.0, []
        for n in ints:
            total = (total * 31 + n) & 0xFFFFFFFF
        for f in floats:
            if f > most:
                most = f
        for i, (n, f) in enumerate(zip(ints, floats)):
            seen.append((i, n, f))
        for n, f in zip(ints, floats):
            most += n * f
        return total, most, len(seen)

    ints, floats = R.integers(-50, 50, 90).tolist(), R.random(90).tolist()
    odd = [*ints[:60], 2.5, True, *ints[62:]]
    large = [*ints[:70], 2**70, -(2**62), 2**40, *ints[73:]]
    scalars = [np.float64(f) for f in floats]
    check(weighted, (ints, floats), (ints, floats), (ints, floats[:40]), (odd, floats), (large, floats), (ints, ints), (ints, scalars), ([], []), (ints, floats))


def test_lists_that_grow_while_they_are_gone_through() -> None:
    def growing(start: list[int], most: int) -> Any:
        items, total = [*start], 0
        for n in items:
            total += n
            if total > most:
                items.append(n)
                most += 1000
        return total, items

    check(growing, ([*range(80)], 500), ([*range(80)], 500), ([*range(300)], 20_000), ([*range(80)], 500))


def test_the_iterator_of_a_list_stands_where_the_loop_is_left() -> None:
    def rest(items: list[Any]) -> Any:
        total, steps = 0, iter(items)
        for n in steps:
            total += n
            if n == 77:
                break
        return total, list(steps)

    def raises(items: list[Any]) -> Any:
        total = 0
        for n in items:
            total += 10 // (n - 60)
        return total

    check(rest, ([*range(100)],), ([*range(100)],), ([*range(70)],), ([*range(100)],), native=False)
    check(raises, ([*range(50)],), ([*range(50)],), ([*range(100)],), ([*range(50)],))


def test_inner_loops_by_other_steps() -> None:
    def coloured(u: Any, n: int) -> Any:
        for i in range(1, n - 1):
            for j in range(1 + i % 2, n - 1, 2):
                u[i, j] += 1.5 * (0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]) - u[i, j])

    def backwards(best: Any, weights: Any, values: Any) -> Any:
        for i in range(len(weights)):
            for r in range(len(best) - 1, weights[i] - 1, -1):
                candidate = best[r - weights[i]] + values[i]
                if candidate > best[r]:
                    best[r] = candidate

    def sparsely(a: Any, n: int, step: int) -> Any:
        last = -1
        for _ in range(n):
            for k in range(step, len(a) - 3, step):
                a[k] = a[k] * 1.5 + k
                last = k
            for k in range(len(a) - 1, 3, -3):
                a[k - 1] *= a[k]
                last -= k
        return last

    u = R.random((40, 40))
    check(coloured, (u, 40), (u, 40), (u.astype(np.float32), 40), (np.asfortranarray(u), 33), (u, 40))
    weights, values = R.integers(1, 20, 30), R.integers(0, 99, 30)
    check(backwards, (np.zeros(90, int), weights, values), (np.zeros(90, int), weights, values), (np.zeros(90, np.int32), weights, values), (np.zeros(90, int), weights, values))
    a = R.random(100)
    check(sparsely, (a, 30, 2), (a, 30, 2), (a, 30, 7), (a, 3, 100), (a[::2], 30, 2), (R.random(200)[::-2], 30, 1), (a, 30, 2))


@pytest.mark.parametrize("direction", [1, -1])
def test_what_other_steps_stored_is_put_back(direction: int) -> None:
    def grow(a: Any, n: int, large: float) -> Any:
        for i in range(n):
            for k in range(2, 200, 2):
                a[k] = a[k] * large + a[k + 1]
            for k in range(199, 2, -1):
                a[k] += a[k - 1] * 0.5
            for k in range(199, 2, -2):
                a[k] -= a[k - 1] * 0.5
            for k in range(2, 199, 3):
                a[k] = a[k] * 0.5 - i

    captured = evalframe.jit(grow)
    a = R.random(200)[::direction]
    for large in (1.0, 1.0, 1.0, 1e30, 1.0, 1e200):
        for state in ("ignore", "raise"):
            with np.errstate(all=state):
                mine, theirs = a.copy(), a.copy()
                assert repr(outcome(captured, mine, 6, large)) == repr(outcome(grow, theirs, 6, large))
                assert mine.tobytes() == theirs.tobytes()
    assert _core.jit_counters(captured)["native_turns"] > 500


def test_quotients_of_complex_numbers_stay_in_the_loop() -> None:
    def tridiagonal(c: Any, d: Any, diagonal: Any, right: Any, r: complex) -> Any:
        for i in range(1, len(c)):
            m = diagonal[i] + r * c[i - 1]
            c[i] = -r / m
            d[i] = (right[i] + r * d[i - 1]) / m

    z = [R.random(80) + 1j * R.random(80) for _ in range(4)]
    zero = z[2] * (np.arange(80) != 50)
    tiny = z[3] * 1e-310
    check(tridiagonal, (*z, 0.3j), (*z, 0.3j), (*z[:3], tiny, 0.3j), (z[0] * 0, z[1] * 0, zero, z[3], 0j), (*z, 0.3j))
    captured = evalframe.jit(tridiagonal)
    for _ in range(4):
        captured(*map(np.copy, z), 0.3j)
    assert _core.jit_counters(captured)["native_turns"] > 100


@pytest.mark.parametrize("other", ["complex128", "complex64", "float64", "float32", "int64", "int8", "bool"])
@pytest.mark.parametrize("one", ["complex128", "complex64"])
def test_order_of_complex_numbers_with_nans(one: str, other: str) -> None:
    """A NaN as imaginary part counts only where the real parts are equal, unless NumPy compares as it does arrays, and warns."""

    def orders(a: Any, b: Any, out: Any) -> Any:
        for i in range(len(a)):
            if a[i] < b[i]:
                out[i, 0] = 1
            if a[i] <= b[i]:
                out[i, 1] = 1
            if b[i] < a[i]:
                out[i, 2] = 1
            if b[i] <= a[i]:
                out[i, 3] = 1

    parts = [0.0, 1.0, np.nan, np.inf, -1.0]
    a = np.array([complex(x, y) for x in parts for y in parts], one)
    b = a if other.startswith("complex") else np.array([0, 1])
    pairs = np.repeat(a, len(b)), np.tile(b, len(a)).astype(other)
    as_arrays = other == "bool" or (one == "complex64" and other in ("float64", "int64"))
    check(orders, *[(*pairs, np.zeros((len(pairs[0]), 4), np.int8))] * 4, native=not as_arrays)


def test_round_of_numpys_numbers() -> None:
    def levels(x: Any, out: Any) -> Any:
        for i in range(len(x)):
            value = np.round(x[i] * 255.0)
            out[i] = int(min(max(value, 0.0), 255.0))
            x[i] = np.round(x[i])
        return value, np.round(-0.4)

    x = np.concatenate([R.random(60), [0.5, 1.5, 2.5, -0.5, -0.2, 1e30]])
    bad = np.where(np.arange(66) == 40, np.nan, x)
    out = np.zeros(66, np.uint8)
    check(levels, (x, out), (x, out), (x.astype(np.float32), out), (bad, out), (x, out))


def test_turns_of_while_loops_are_blocks_of_their_own() -> None:
    """A recording has hundreds of them, one behind the other, and where it jumps back depends on the version."""

    def counted(most: int) -> Any:
        n, s = 0, 0.0
        x = np.zeros(4)
        while n < most:
            n += 1
            s += 1.0
            x[n % 4] = n
        return n, s, x

    captured = evalframe.jit(counted)
    for most in (4000, 5000, 3000):
        assert repr(captured(most)) == repr(counted(most))
    loops = [loop for loop in _core.jit_loops(captured) if loop["native"]]
    assert loops and all(loop["ir_lines"] < 2000 for loop in loops), loops
    assert _core.jit_counters(captured)["native_turns"] > 8000


def stale_numbers(x: Any, fail_at: int) -> Any:
    """`last`, `j` and `k` are written in each turn before they are read, and have numbers of unlike types meanwhile."""
    total = x[0]
    for i in range(len(x)):
        last = i if x[i] > 0.5 else x[i]
        total += last
        for j in range(i % 7):
            for k in range(3):
                total += x[j] * k
        if i == fail_at:
            total += x[len(x) + j + k]
    return total


def variables_where_it_fails(function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    with pytest.raises(IndexError) as raised:
        function(*arguments)
    frame = next(entry for entry in raised.traceback if entry.name == "stale_numbers")
    return {name: (type(value), value) for name, value in frame.locals.items() if name != "x"}


@pytest.mark.parametrize("fail_at", range(700, 704))
def test_variables_that_are_written_before_they_are_read_keep_what_they_had(fail_at: int) -> None:
    x, captured = R.random(1000), evalframe.jit(stale_numbers)
    assert [captured(x, -1) for _ in range(3)] == [stale_numbers(x, -1)] * 3
    for most_turns in (1, 2, 5, 10**9):
        _core.set_region_turns(most_turns)
        try:
            assert variables_where_it_fails(captured, x, fail_at) == variables_where_it_fails(stale_numbers, x, fail_at)
        finally:
            _core.set_region_turns(2**63 - 1)
    assert evalframe.stats()["native_turns"] > 1000


def late_quotients(x: Any, y: Any) -> Any:
    for i in range(len(y)):
        y[i] = 1.0 / float(x[i])
    return y


def late_roots(x: Any, y: Any) -> Any:
    for i in range(len(y)):
        y[i] = math.sqrt(x[i])
    return y


def late_bytes(x: Any, y: Any) -> Any:
    for i in range(len(y)):
        y[i] = int(x[i]) - 1
    return y


def late_maxima(x: Any, y: Any) -> Any:
    for i in range(len(y)):
        y[i] = np.maximum(x[i], 3.0)
    return y


WHERE_NOT_AS_EXPECTED = [
    (late_quotients, R.random(300) + 1, np.zeros(300), 0.0),
    (late_roots, R.random(300), np.zeros(300), -1.0),
    (late_bytes, R.integers(1, 200, 300), np.zeros(300, np.uint8), 0),
    (late_maxima, R.random(300) * 5, np.zeros(300), np.nan),
]


@pytest.mark.parametrize("function, x, y, other", WHERE_NOT_AS_EXPECTED, ids=lambda value: getattr(value, "__name__", ""))
def test_what_is_looked_at_behind_many_turns_is_found_in_its_turn(function: Callable[..., Any], x: Any, y: Any, other: Any) -> None:
    captured, turns = evalframe.jit(function), evalframe.stats()["native_turns"]
    for _ in range(4):
        assert shown(captured(x, y.copy())) == shown(function(x, y.copy()))
    for place in (0, 1, 7, 150, 299):
        unlike = x.copy()
        unlike[place] = other
        assert shown(outcome(captured, unlike, got := y.copy())) == shown(outcome(function, unlike, want := y.copy()))
        assert shown(got) == shown(want)
    assert evalframe.stats()["native_turns"] > turns + 2 * len(y)


def largest_places(x: Any, places: Any) -> Any:
    for i in range(len(places)):
        j = i
        while j + 1 < len(x) and x[j + 1] > x[places[i]]:
            places[i] = j + 1
            j += 1
    return places


def test_arrays_that_stay_are_looked_at_once() -> None:
    """Where their elements are doesn't depend on a way through the loop."""
    captured = evalframe.jit(largest_places)
    for x in (R.random(60), R.random(120)[::2], R.random(60)[::-1], R.random((60, 3))[:, 1]):
        for _ in range(4):
            assert shown(captured(x, np.arange(50))) == shown(largest_places(x, np.arange(50)))
    loops = [loop for loop in evalframe.explain(captured)(R.random(60), np.arange(50)).loops if loop.native]
    begin, turns = loops[0].ir.split("switch i32 %number", 1)
    assert "store ptr %fixeds0.1.ptr, ptr %s0.1.ptr" in begin
    assert "load ptr, ptr %s0.1.ptr\n" in turns
    assert ", ptr %s0.1.ptr\n" not in turns.replace("load ptr, ptr %s0.1.ptr\n", "")


def sum_of_eight(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any) -> Any:
    total = 0.0
    for one, two, three, four, five, six, seven, eight in zip(a, b, c, d, e, f, g, h):
        total += one * two - three * four + five * six - seven * eight
    return total


def deep_sum(x: Any, place: Any) -> Any:
    total = 0.0
    for i in range(len(x)):
        total += x[(i,) + place]
    return total


def test_arrays_of_which_much_is_known() -> None:
    """Many at once, and ones of many dimensions."""
    for function, arguments in ((sum_of_eight, tuple(R.random(200) for _ in range(8))), (deep_sum, (R.random((40,) + (1,) * 20), (0,) * 20))):
        captured = evalframe.jit(function)
        for _ in range(4):
            assert shown(captured(*arguments)) == shown(function(*arguments))


def products_of_rows(A: Any, x: Any, y: Any) -> Any:
    for i in range(len(y)):
        s = 0.0
        for k in range(len(x)):
            s += A[i, k] / x[k]
        y[i] = s
    return y


def products_of_signs(A: Any, x: Any, y: Any) -> Any:
    for i in range(len(y)):
        s = 0.0
        for k in range(len(x)):
            quotient = A[i, k] / x[k]
            if quotient > 0.5:
                s += A[i, k] * x[k]
            else:
                s -= quotient * 0.5
        y[i] = s
    return y


@pytest.mark.parametrize("function", [products_of_rows, products_of_signs])
def test_first_turns_of_many_may_be_for_other_types(function: Callable[..., Any]) -> None:
    """The sum is Python's in the first turn, and NumPy's in those behind it: all are done at once, and whatever one meets is its own."""
    captured = evalframe.jit(function)
    sizes = (7, 7, 3, 4, 2, 1, 0, 7)
    for size in sizes:
        A, x = R.random((9, size)), R.random(size) + 0.5
        assert shown(captured(A, x, np.zeros(9))) == shown(function(A, x, np.zeros(9)))
    loops = evalframe.explain(captured)(R.random((9, 7)), R.random(7) + 0.5, np.zeros(9)).loops
    assert any(".next1:" in loop.ir for loop in loops if loop.native)
    turns = evalframe.stats()["native_turns"]
    for place in range(7):
        for one, other in ((1.0, 0.0), (1e308, 1e10), (np.nan, 1.0), (np.inf, 0.0)):
            A, x = R.random((9, 7)), R.random(7) + 0.5
            A[3, place], x[place] = one, other
            got, want = np.zeros(9), np.zeros(9)
            assert shown(outcome(captured, A, x, got)) == shown(outcome(function, A, x, want))
            assert shown(got) == shown(want)
        assert shown(outcome(captured, A, np.ones(8), got)) == shown(outcome(function, A, np.ones(8), want))
    assert evalframe.stats()["native_turns"] > turns + 7 * 5 * 9


def test_arrays_with_gaps_have_a_loop_of_their_own() -> None:
    """It is made for elements that stand one beside the other, and once more where some don't: the second serves all."""
    captured = evalframe.jit(largest_places)
    close = (R.random(60), R.random((60, 2)).T[0].copy())
    apart = (R.random(120)[::2], R.random(60)[::-1], R.random((60, 3))[:, 1])

    def call(x: Any) -> int:
        turns = evalframe.stats()["native_turns"]
        assert shown(captured(x, np.arange(50))) == shown(largest_places(x, np.arange(50)))
        return int(evalframe.stats()["native_turns"] - turns)

    def strides_are_known() -> bool:
        loops = [loop for loop in evalframe.explain(captured)(close[0], np.arange(50)).loops if loop.native]
        return bool(loops) and not re.search(r"= mul i64 %\S+, %", loops[0].ir)

    for x in close * 3:
        call(x)
    assert call(close[0]) >= 50 and strides_are_known()
    for x in apart * 3:
        call(x)
    for x in (*apart, *close):
        assert call(x) >= 50
    assert not strides_are_known()


def test_elements_that_are_stored_and_read_again_are_known() -> None:
    """One place has one address, however often it is named: only what is read of other arrays is compared with it."""
    captured = evalframe.jit(small_filters)
    arguments = (R.random((5, 6, 3)).astype(np.float32), R.random((2, 2, 3, 4)).astype(np.float32))
    for _ in range(4):
        assert shown(captured(*arguments, np.zeros((4, 5, 4), np.float32))) == shown(small_filters(*arguments, np.zeros((4, 5, 4), np.float32)))
    loops = [loop for loop in evalframe.explain(captured)(*arguments, np.zeros((4, 5, 4), np.float32)).loops if loop.native]
    # As many as there are turns in a block, for the ways into it; each with each other, they are thousands.
    assert loops and all(loop.ir.count(" icmp eq ptr ") <= 6 * 12 * loop.blocks for loop in loops)


def test_loops_in_loops_in_loops_are_no_one_recording() -> None:
    """Of as many turns as all of them have, a recording would have the first, and others begin at each of its places."""
    captured = evalframe.jit(small_filters)
    arguments = (R.random((9, 10, 3)).astype(np.float32), R.random((2, 2, 3, 8)).astype(np.float32))
    for _ in range(4):
        assert shown(captured(*arguments, np.zeros((8, 8, 8), np.float32))) == shown(small_filters(*arguments, np.zeros((8, 8, 8), np.float32)))
    loops = [loop for loop in evalframe.explain(captured)(*arguments, np.zeros((8, 8, 8), np.float32)).loops if loop.native]
    assert any(loop.at_once == 1 for loop in loops) and all(loop.ir_lines < 10_000 for loop in loops)
