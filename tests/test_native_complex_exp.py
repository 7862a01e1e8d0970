"""numpy.exp of complex numbers in kernels: e^a (cos b + i sin b), and NumPy's own where that isn't an ordinary number."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from graphs import check
from test_vector_math import sweep, ulps

rng = np.random.default_rng(12)


def numbers(dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    return (rng.normal(size=shape) * 3 + 20j * rng.normal(size=shape)).astype(dtype)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_accuracy(dtype: str) -> None:
    real = np.float32 if dtype == "complex64" else np.float64
    limit = 85 if dtype == "complex64" else 700
    size = np.concatenate([np.zeros(30_000), rng.uniform(-3, 3, 30_000), rng.uniform(-limit, limit, 30_000)]).astype(real)
    angle = np.resize(sweep(real.__name__, seed=4), size.shape)
    angle = np.where(np.abs(angle) < 1e5, angle, real(0.5)).astype(real)
    rng.shuffle(angle)
    z = np.empty(size.shape, dtype)
    z.real, z.imag = size, angle
    kernel = _core.kernel_compile(1, 0, [(dtype, False)], [("exp", dtype, [0])], [(1, dtype, "store")])
    got = np.empty_like(z)
    assert _core.kernel_run(kernel, [z.size], [z.ctypes.data, got.ctypes.data], [list(z.strides)] * 2) & 11 == 0
    wide, turn = size.astype(np.longdouble), angle.astype(np.longdouble)
    with np.errstate(all="ignore"):
        for part, exact in [(got.real, np.exp(wide) * np.cos(turn)), (got.imag, np.exp(wide) * np.sin(turn))]:
            ordinary = np.abs(part) > np.finfo(real).tiny
            error = ulps(part.copy(), exact)[ordinary]
            assert error.max() <= 2.5, error.max()
            assert ulps(part.copy(), exact)[(size == 0) & ordinary].max() <= 2


SPECIAL = [0.0, -0.0, 1.0, -1.0, 700.5, 709.9, -745.2, 1e5, -1e5, np.inf, -np.inf, np.nan, 5e-324, 1e300]


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_special_numbers_are_numpys(dtype: str) -> None:
    with np.errstate(all="ignore"):
        for real in SPECIAL:
            z = np.array([complex(real, imag) for imag in SPECIAL]).astype(dtype)
            check(lambda np, z: np.exp(z), z, examples=[numbers(dtype, 9)], ulp=4)
            for one in z:
                check(lambda np, z: np.exp(z), np.full(9, one), examples=[numbers(dtype, 9)], ulp=4)
                check(lambda np, z: np.exp(z) * z, np.full(9, one), examples=[numbers(dtype, 9)], ulp=4)


@pytest.mark.parametrize("layout", [np.asfortranarray, lambda z: z[::-1], lambda z: z[:, ::2], lambda z: z.T, lambda z: z[1:-1, 2:]])
def test_layouts(layout: Any) -> None:
    z = layout(numbers("c16", 31, 42))
    check(lambda np, z: np.exp(z) * 2.0, z, ulp=4, kernels=1)
    check(lambda np, x: np.exp(1j * x), z.real.copy(), ulp=4, kernels=1)


def test_targets_and_sums() -> None:
    z = numbers("c16", 500)
    check(lambda np, z: np.exp(z, out=z), z, ulp=4)
    check(lambda np, x, y: (x * np.exp(-6j * math.pi * y / 500)).sum(), rng.normal(size=500), np.arange(500), ulp=60)
    check(lambda np, z: np.exp(z[3]) * z, z, ulp=8)


def phases(x: Any, most: int) -> Any:
    places, n = np.arange(len(x)), len(x)
    result = np.empty(most, complex)
    for k in range(most):
        result[k] = np.sum(x * np.exp(-2j * np.pi * k * places / n))
    return result


@pytest.mark.parametrize("n", [5, 300, 70_000])
def test_in_loops(native_loops_at_once: None, n: int) -> None:
    x = rng.normal(size=n)
    captured = evalframe.jit(phases)
    for _ in range(3):
        np.testing.assert_allclose(captured(x, 40), phases(x, 40), rtol=1e-9, atol=1e-9)
    x[n // 2] = np.inf
    for _ in range(2):
        with pytest.warns(RuntimeWarning) as told:
            got = captured(x, 40)
        with pytest.warns(RuntimeWarning) as wanted:
            plain = phases(x, 40)
        assert [str(one.message) for one in told] == [str(one.message) for one in wanted]
        np.testing.assert_allclose(got, plain, rtol=1e-9, atol=1e-9)


def test_exact_is_numpys() -> None:
    z = numbers("c16", 700)
    captured = evalframe.jit(lambda z: np.exp(z * 0.5) + z, exact=True)
    for _ in range(3):
        assert captured(z).tobytes() == (np.exp(z * 0.5) + z).tobytes()
