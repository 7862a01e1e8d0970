"""What a mask keeps of an array, computed and stored under that mask again: in native loops where the elements stand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import evalframe
from region_programs import check, copies

pytestmark = pytest.mark.usefixtures("native_loops_at_once")

R = np.random.default_rng(11)

FUSED = [
    "x[m] = x[m] * x[m] + y[m]",
    "x[m] += y[m]",
    "x[m] *= 0.5",
    "x[m] = np.sqrt(np.abs(x[m])) / (np.abs(y[m]) + k)",
    "x[m] = np.where(x[m] > y[m], x[m], 1.5)",
    "x[m] = y[m]",
    "x[m] = -x[m]",
    "x[m] = np.clip(x[m] * k, -1.0, 1.0)",
    "x[m] = x[m].astype(np.float32) * y[m]",
]
OTHERS = [
    "t = x[m]; x[m] = t + y[m]",
    "t = x[m]; x[m] = t * 2 - y[m]; y[0] = t.sum()",
    "t = x[m]; t += 1; u = t * 2; x[m] = u; y[1] = t.sum()",
    "t = x[m]; u = t; t += y[m]; x[m] = u; y[1] = 1.0 if t is u else 0.0",
    "t = x[m]; s = t[1:]; t += y[m]; x[m] = t; y[0] = s.sum()",
    "t = x[m]; s = t * 2; t += 1; x[m] = t; y[0] = s.sum()",
    "x[m] = x[m] + y[~m][: m.sum()].sum()",
    "x[m] = x[m][::-1]",
    "x[m] -= x[m].mean()",
    "x[m] = y[q]",
    "x[m] = np.full(3, k)",
    "x[m] = np.full(int(m.sum()), k) + x[m]",
    "x[m] = np.full(2, k) * x[m]",
    "x[m] = np.full(1, k) * x[m]",
    "x[m] = x[m] * 2; m ^= q; x[m] = x[m] + y[m]",
    "t = x[m]; m[:5] = q[:5]; x[m] = t[:1] * 2",
    "x[q] = y[q]; x[m] = x[m] * x[0]",
    "x[:3] = y[:3]; x[m] = x[m] + x[0]",
    "x[m] = x[m] + y[3]; x[2] = k; x[m] += x[m]",
    "t = x * 2; t += y; t *= 0.5; x[m] = t[m]",
    "t = x - y; t += k; u = t; u -= x; x[:] = np.where(m, u, t) * 0.25",
]


def looped(statement: str) -> Any:
    space: dict[str, Any] = {"np": np}
    exec(f"def f(x, y, m, q, k, n):\n    for i in range(n):\n        {statement}\n        k = k * 0.75 + 0.25\n    return x, y, m, k", space)
    return space["f"]


def arguments(shape: Any, dtype: str = "float64", share: float = 0.5) -> tuple[Any, ...]:
    x, y = (R.random(shape) * 4 - 2).astype(dtype), (R.random(shape) + 0.5).astype(dtype)
    if np.iscomplexobj(x):
        x += 1j * R.random(shape)
    return x, y, R.random(shape) < share, R.random(shape) < 0.5, 1.25, 60


def calls_of_routines(function: Any, *values: Any) -> int:
    captured = evalframe.jit(function)
    for _ in range(4):
        captured(*copies(values))
    return min(loop.ir.count("call i32 @routine(") for loop in evalframe.explain(captured)(*copies(values)).loops if loop.native)


@pytest.mark.parametrize("statement", FUSED)
def test_nothing_is_taken_or_put_back(statement: str) -> None:
    function = looped(statement)
    values = arguments(300)
    with np.errstate(all="ignore"):
        check(function, values, values, *[arguments(shape) for shape in (1, 7, 64, 65, 1000, 5000)], arguments(200, share=0.0), arguments(200, share=1.0), arguments(0))
        check(function, *[arguments(shape) for shape in ((20, 30), (20, 30), (70, 3), (3, 200), (1, 1))])
        # How many they are, what they become, and the store.
        assert calls_of_routines(function, *values) == 3


@pytest.mark.parametrize("statement", OTHERS)
def test_what_is_kept_is_needed_elsewhere(statement: str) -> None:
    values = arguments(90)
    with np.errstate(all="ignore"):
        check(looped(statement), values, values, arguments(90), arguments(70, share=0.9), arguments(70, share=0.0), arguments(1, share=1.0), native=False)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128", "int16", "int64", "uint8", "bool"])
@pytest.mark.parametrize("statement", ["x[m] = x[m] * y[m]", "x[m] += y[m]", "x[m] = x[m] == y[m]"])
def test_elements_of_all_types(dtype: str, statement: str) -> None:
    function = looped(statement)
    with np.errstate(all="ignore"):
        check(function, *[arguments(shape, dtype) for shape in (200, 200, 33, (9, 11))], native=False)


def test_arrays_of_any_layout() -> None:
    function = looped("x[m] = x[m] * 0.5 + y[m]")
    x, y, m, q, k, n = arguments((60, 66))
    bits = (m * R.integers(1, 256, m.shape)).astype(np.uint8).view(np.bool_)  # NumPy takes any byte but 0 for true
    layouts = [(x, y, m), (x[:, ::-1], y, m), (x.T, y.T, m.T), (x[::2], y[1::2], m[::2]), (x[:, ::3], y[:, 1::3], m[:, 2::3]), (x, y, bits), (x, y[::-1], m[:, ::-1]), (x, y, m[:, :1].repeat(66, axis=1))]
    check(function, *[(x, y, m, q, k, n)] * 2, *[(*layout, q, k, n) for layout in layouts])
    check(function, *[(*(array[0] for array in layout), q, k, n) for layout in layouts])
    check(function, (x, y, m[:, :65], q, k, n), (x, y, m[0], q, k, n), (x, y[:59], m, q, k, n), (x[0], y[0], m, q, k, n), native=False)
    x.flags.writeable = False
    check(function, (x, y, m, q, k, n), native=False)


def test_memory_that_is_shared() -> None:
    function = looped("x[m] = x[m] * 0.5 + y[m]")
    x, _, m, q, k, n = arguments(200)
    for mine, other in ((x[:150], x[:150]), (x[:150], x[1:151]), (x[1:151], x[:150]), (x[150:0:-1], x[:150])):
        check(function, *[(mine, other, m[:150], q, k, n)] * 2, native=False)
    flags = R.integers(0, 2, 200).astype(np.uint8)
    for shift in range(3):
        check(looped("x[m] = x[m] ^ y[m]"), *[(flags[: 200 - shift], flags[:200][::-1][: 200 - shift], flags[shift:].view(bool), q, k, 5 * n)] * 3, native=False)


@pytest.mark.parametrize("how", ["warn", "ignore", "raise"])
def test_conditions_are_those_of_elements_that_are_kept(how: str) -> None:
    def divided(x: Any, y: Any, m: Any, n: int, how: str) -> Any:
        with np.errstate(all=how):
            for i in range(n):
                x[m] = x[m] / y[m]
                x[m] = np.log(x[m]) - np.sqrt(x[m] - 0.25)
                m[i % len(m)] ^= True
        return x, m

    for x, y in ((0.0, 0.0), (1.0, 0.0), (-1.0, 1.0), (np.nan, 1.0), (1e300, 1e-300), (np.inf, np.inf)):
        values = np.full(80, 1.5), np.full(80, 1.5)
        values[0][40], values[1][40] = x, y
        for kept in (False, True):
            mask = np.arange(80) % 3 == 0
            mask[40] = kept
            check(divided, *[(*values, mask, 30, how)] * 2, (*values, mask, 90, how), native=False)


def test_a_loop_is_left_in_the_midst() -> None:
    def grown(x: Any, m: Any, n: int) -> Any:
        seen = []
        for i in range(n):
            t = x[m]
            t += 0.5
            if i % 17 == 3:
                seen.append(str(t.sum()))
            x[m] = t
        return x, seen

    x = R.random(50)
    check(grown, *[(x, x > 0.5, 80)] * 3, native=False)
