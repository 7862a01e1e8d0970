"""Elementary functions: at most 2 ulp over all binades, right on special values, NumPy's conditions."""

import math
from typing import Any

import numpy as np
import pytest

from test_kernels import Array, one, run

pytestmark = pytest.mark.filterwarnings("ignore")
UNARY = [
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan"),
    *("sinh", "cosh", "tanh", "cbrt"),
]
BINARY = ["arctan2", "hypot", "power"]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 2.3e-308, 1.7e308, -1.7e308]


def sweep(dtype: str, seed: int, n: int = 20_000) -> Array:
    """Numbers of every binade, and many of ordinary size."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2 ** (64 if dtype == "float64" else 32), n, dtype=f"uint{64 if dtype == 'float64' else 32}")
    wide = bits.view(dtype)
    parts = [wide, rng.standard_normal(n), rng.uniform(-750, 750, n), rng.uniform(-1, 1, n), rng.uniform(0, 1e5, n)]
    with np.errstate(all="ignore"):
        near = np.arange(-3000, 3000) * (np.pi / 2)
        special = np.array([*SPECIAL, 709.78, 709.79, 710.4, 710.5, -745.1, -745.2, -708.5, 88.72, 88.73, 1023.9, 1024])
        return np.concatenate([p.astype(dtype) for p in [*parts, near, special]])


def ulps(got: Array, exact: Array) -> Array:
    """Errors in units in the last place; infinite where a special value is wrong."""
    with np.errstate(all="ignore"):
        want = exact.astype(got.dtype)
        unit = np.spacing(np.abs(want)).astype(np.longdouble)
        error = np.abs((got.astype(np.longdouble) - exact) / unit)
        special = ~np.isfinite(want) | ~np.isfinite(got)
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        # One side of the largest number may round to infinity.
        error = np.where(special, np.where(same, 0, np.inf), error)
        wrong_sign = (want == 0) & (got == 0) & (np.signbit(got) != np.signbit(want))
        return np.where(wrong_sign, np.inf, error)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("op", UNARY)
def test_unary_accuracy(op: str, dtype: str) -> None:
    x = sweep(dtype, seed=1)
    if op in ("sin", "cos", "tan"):
        x = x[(np.abs(x) < 1e5) | ~np.isfinite(x)]
    with np.errstate(all="ignore"):
        exact = getattr(np, op)(x.astype(np.longdouble))
    error = ulps(one(op, dtype, x), exact)
    assert error.max() <= 2, (error.max(), x[error.argmax()])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("op", ["log", "log2", "log10", "log1p"])
def test_logarithms_near_one_and_at_the_borders_of_tables(op: str, dtype: str) -> None:
    rng = np.random.default_rng(5)
    near = [1 + rng.standard_normal(50_000) * 10.0 ** rng.uniform(-16, -2, 50_000), rng.uniform(0.68, 1.45, 300_000)]
    edges = np.sqrt(0.5) * 2.0 ** (np.arange(64) / 16)
    borders = [np.nextafter(edges, 0), edges, np.nextafter(edges, 9), 2.0 ** np.arange(-100, 100)]
    x = np.abs(np.concatenate([*near, *borders])).astype(dtype)
    x = x - 1 if op == "log1p" else x
    error = ulps(one(op, dtype, x), getattr(np, op)(x.astype(np.longdouble)))
    assert error.max() <= 2, (error.max(), x[error.argmax()])


@pytest.mark.parametrize("op", ["sin", "cos", "tan"])
def test_large_angles(op: str) -> None:
    x = np.concatenate([[1e22, 3e300, -1e17], sweep("float64", seed=3)])
    with np.errstate(all="ignore"):
        error = ulps(one(op, "float64", x), getattr(np, op)(x.astype(np.longdouble)))
        assert error.max() <= 2, (error.max(), x[error.argmax()])
        again = x.copy()
        from evalframe import _core

        kernel = _core.kernel_compile(1, 0, [("float64", False)], [(op, "float64", [0])], [(1, "float64", "store")])
        _core.kernel_run(kernel, [x.size], [again.ctypes.data] * 2, [[8], [8]])
        assert (
            np.array_equal(again, getattr(np, op)(x), equal_nan=True)
            or ulps(again, getattr(np, op)(x.astype(np.longdouble))).max() <= 2
        )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("op", BINARY)
def test_binary_accuracy(op: str, dtype: str) -> None:
    x, y = sweep(dtype, seed=1), np.random.default_rng(5).permutation(sweep(dtype, seed=2))
    special = np.array([*SPECIAL, 3.0, -3.0, 1e17, 0.3], "float64").astype(dtype)
    x = np.concatenate([x, np.repeat(special, special.size)])
    y = np.concatenate([y, np.tile(special, special.size)])
    with np.errstate(all="ignore"):
        exact = getattr(np, op)(x.astype(np.longdouble), y.astype(np.longdouble))
    error = ulps(one(op, dtype, x, y), exact)
    assert error.max() <= 2, (error.max(), x[error.argmax()], y[error.argmax()])


def test_erf() -> None:
    x = np.concatenate([sweep("float64", seed=1), np.random.default_rng(0).uniform(-6.5, 6.5, 50_000)])
    exact = np.array([math.erf(v) for v in x])  # itself within 1 ulp
    error = ulps(one("erf", "float64", x), exact.astype(np.longdouble))
    assert error.max() <= 2, (error.max(), x[error.argmax()])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("op", UNARY)
def test_conditions(op: str, dtype: str) -> None:
    names = {"divide": 1, "over": 2, "invalid": 8}
    for value in np.array([*SPECIAL, 3.0, -3.0, 100000.0, -100000.0, 100.0], dtype):
        x = np.full(21, value)
        want = 0
        for name, bit in names.items():
            try:
                with np.errstate(**{"all": "ignore", name: "raise"}):
                    getattr(np, op)(x)
            except FloatingPointError:
                want |= bit
        got: Any = run([(op, dtype, [0])], [x], [(1, dtype, "store")])[1]
        assert got & 11 == want, (op, value)


@pytest.mark.parametrize(
    "op", ["divide", "floor_divide", "remainder", "arctan2", "hypot", "maximum", "minimum", "fmax", "fmin", "multiply"]
)
def test_conditions_of_pairs(op: str) -> None:
    names = {"divide": 1, "over": 2, "invalid": 8}
    values = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e300, 1e-300, 5e-324, 3.0, -7.5]
    for a in values:
        for b in values:
            x, y = np.full(21, a), np.full(21, b)
            want = 0
            for name, bit in names.items():
                try:
                    with np.errstate(**{"all": "ignore", name: "raise"}):
                        getattr(np, op)(x, y)
                except FloatingPointError:
                    want |= bit
            got: Any = run([(op, "float64", [0, 1])], [x, y], [(2, "float64", "store")])[1]
            assert got & 11 == want, (op, a, b)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("op", UNARY)
def test_a_result_does_not_depend_on_the_place(op: str, dtype: str) -> None:
    values = np.array([*SPECIAL, 0.3, -0.7, 3.0, 100.0], dtype)
    width = "uint64" if dtype == "float64" else "uint32"
    for value in values:
        results = one(op, dtype, np.full(31, value, dtype))  # whole vectors, halves and single elements
        assert np.isnan(results).all() or len(set(results.view(width))) == 1, (op, value, results)
