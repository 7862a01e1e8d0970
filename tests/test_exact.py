"""``exact=True``: kernels compute every bit as NumPy does. ``fastmath=True``: native loops add in another order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core

ELEMENTARY = [
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan",
    "sinh", "cosh", "tanh", "cbrt",
]  # fmt: skip
ELEMENTARY_OF_TWO = ["arctan2", "hypot", "power"]


def bits(array: Any) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def inputs(dtype: str) -> Any:
    return np.random.default_rng(7).uniform(0.001, 0.999, 5000).astype(dtype)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", ELEMENTARY)
def test_functions_have_numpys_bits(name: str, dtype: str) -> None:
    function = getattr(np, name)

    def scaled(x: Any) -> Any:
        return function(x * 0.75) * 3.0 - x

    x = inputs(dtype)
    captured = evalframe.jit(scaled, exact=True)
    for _ in range(3):
        assert bits(captured(x)) == bits(scaled(x))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", ELEMENTARY_OF_TWO)
def test_functions_of_two_have_numpys_bits(name: str, dtype: str) -> None:
    function = getattr(np, name)

    def scaled(x: Any) -> Any:
        return function(x * 0.75, x[::-1]) * 3.0 - x

    x = inputs(dtype)
    captured = evalframe.jit(scaled, exact=True)
    for _ in range(3):
        assert bits(captured(x)) == bits(scaled(x))


def test_what_is_around_a_function_is_still_fused() -> None:
    def smooth(x: Any) -> Any:
        y = (x * 2.0 + 1.0) / (x + 3.0)
        z = np.exp(y)
        return (z * z - 1.0) / (z + x)

    told = evalframe.explain(smooth, exact=True)(inputs("f8"))
    assert "exp" not in "".join(told.kernels)
    assert "".join(told.kernels).count("@evalframe_kernel(") == 2
    one = "".join(evalframe.explain(smooth)(inputs("f8")).kernels)
    assert "exp" in one and one.count("@evalframe_kernel(") == 1


def test_magnitudes_of_complex_numbers_have_numpys_bits() -> None:
    def magnitudes(x: Any) -> Any:
        return np.abs(x * (1 + 2j)) + 1.0

    x = inputs("f8") + 1j * inputs("f8")[::-1]
    captured = evalframe.jit(magnitudes, exact=True)
    for _ in range(3):
        assert bits(captured(x)) == bits(magnitudes(x))


def test_whole_blocks_can_be_exact() -> None:
    def waves(x: Any) -> Any:
        return np.sin(x * 3.0) * np.exp(-x)

    x = inputs("f8")
    plain = bits(waves(x))
    with evalframe.enabled(exact=True):
        for _ in range(5):
            assert bits(waves(x)) == plain
    with pytest.raises(TypeError, match="exact must be True or False, not 1"):
        evalframe.enabled(exact=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="exact must be True or False"):
        evalframe.jit(waves, exact="no")  # type: ignore[call-overload]


def products(x: Any, y: Any) -> Any:
    z = x * y
    z *= x
    w = np.square(y) - x * (0.5 - 2j)
    return z, w, x[::-1] * y + 1, np.multiply(x[::2], y[1::2]), (x * y).sum(), x[3] * y[2], np.square(x[1]), x.real * y, np.array(x[0]) * y


@pytest.mark.parametrize("layout", [slice(None), slice(None, None, -1), slice(None, None, 3), slice(0, 6)])
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_products_of_complex_numbers_have_numpys_bits(dtype: str, layout: slice) -> None:
    """NumPy rounds each part once or twice, by processor, and in some types by layout; single numbers always twice."""
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal(300) + 1j * rng.standard_normal(300)).astype(dtype), rng.standard_normal(600).view("c16").astype(dtype)
    x, y = x[layout], y[layout]
    captured = evalframe.jit(products, exact=True)
    for _ in range(3):
        for got, wanted in zip(captured(x, y), products(x, y), strict=True):
            assert bits(got) == bits(wanted)


def added_up(x: Any, y: Any, n: int) -> float:
    total = 0.0
    for _ in range(n):
        total = 0.0
        for i in range(len(x)):
            total += x[i] * y[i]
    return total


def test_sums_in_another_order_are_close(native_loops_at_once: None, optimised_code: None) -> None:
    random = np.random.default_rng(3)
    x, y = random.normal(size=1000), random.normal(size=1000)
    plain, fast, ordered = added_up(x, y, 1), evalframe.jit(added_up, fastmath=True), evalframe.jit(added_up)
    for _ in range(3):
        assert ordered(x, y, 40) == plain
        assert fast(x, y, 40) == pytest.approx(plain, abs=1e-10)
    assert _core.jit_counters(fast)["native_turns"] > 1000
    # Else nothing was put in another order. Of rounds side by side each sum has its own, and by processor its products are rounded, too.
    assert any(fast(x, y, rounds) != plain for rounds in (1, 3, 40))


def test_loops_meet_what_they_meet_in_any_order(native_loops_at_once: None) -> None:
    x = np.ones(300)
    fast = evalframe.jit(added_up, fastmath=True)
    for _ in range(3):
        fast(x, x, 40)
    x[150] = np.inf
    y = np.ones(300)
    y[200], x[200] = 0.0, -np.inf
    with pytest.warns(RuntimeWarning, match="invalid value"):
        assert np.isnan(fast(x, y, 40))
    with pytest.raises(IndexError):
        fast(x, y[:100], 40)


def test_numerics_exclude_one_another() -> None:
    with pytest.raises(ValueError, match="ask for one of them"):
        evalframe.jit(added_up, exact=True, fastmath=True)
    with pytest.raises(ValueError, match="ask for one of them"):
        evalframe.enabled(exact=True, fastmath=True)
    with pytest.raises(TypeError, match="fastmath must be True or False"):
        evalframe.jit(added_up, fastmath=1)  # type: ignore[arg-type]
