"""Functions of `math`, and round(), of numbers in native loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe

pytestmark = pytest.mark.usefixtures("native_loops_at_once")

R = np.random.default_rng(7)

OF_ONE = """
def loop(x, out):
    for i in range(len(x)):
        out[i] = {call}(float(x[i]))
"""
OF_TWO = """
def loop(x, out):
    for i in range(1, len(x)):
        out[i] = {call}(float(x[i]), float(x[i - 1]))
"""
OF_INTS = """
def loop(x, out):
    for i in range(1, len(x)):
        out[i] = {call}({arguments})
"""
FLOATS = [
    *("sqrt", "fabs", "floor", "ceil", "trunc", "exp", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("erf", "erfc", "gamma", "lgamma", "log", "log1p", "log2", "log10", "cbrt", "exp2", "degrees", "radians"),
]
PAIRS = ["atan2", "pow", "fmod", "remainder", "copysign", "hypot"]
NATIVE_TURNS = 1800  # of 2000


def made(text: str, **parts: str) -> Callable[..., Any]:
    names: dict[str, Any] = {"math": math}
    exec(text.format(**parts), names)
    return names["loop"]


def outcome(function: Callable[..., Any], x: Any) -> Any:
    out = np.zeros(len(x))
    try:
        function(x, out)
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        return type(error), str(error), out.tobytes()
    return out.tobytes()


def compare(function: Callable[..., Any], ordinary: Any, rare: list[Any]) -> None:
    captured = evalframe.jit(function)
    for _ in range(6):
        before = evalframe.stats()["native_turns"]
        assert outcome(captured, ordinary) == outcome(function, ordinary)
    assert evalframe.stats()["native_turns"] - before > NATIVE_TURNS
    for value in rare:
        x = ordinary.copy()
        x[700] = value
        assert outcome(captured, x) == outcome(function, x), value


@pytest.mark.parametrize("name", FLOATS)
def test_of_one_float(name: str) -> None:
    if not hasattr(math, name):
        pytest.skip(f"math.{name} came later")
    low, high = {"asin": (-1, 1), "acos": (-1, 1), "atanh": (-0.99, 0.99), "acosh": (1, 50)}.get(name, (0.01, 30))
    compare(made(OF_ONE, call=f"math.{name}"), R.uniform(low, high, 2000), [0.0, -0.0, -1.0, 1.0, 2.5, 1e308, -1e308, 5e-324, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("name", PAIRS)
def test_of_two_floats(name: str) -> None:
    compare(made(OF_TWO, call=f"math.{name}"), R.uniform(0.1, 9, 2000), [0.0, -0.0, -1.5, 1e308, -1e308, 5e-324, np.inf, -np.inf, np.nan])


def test_round() -> None:
    compare(made(OF_ONE, call="round"), np.round(R.uniform(-99, 99, 2000), 1), [0.5, -0.5, 1.5, 2.5, 1e18, 1e25, np.inf, np.nan])


@pytest.mark.parametrize(
    ("call", "arguments"),
    [("math.gcd", "int(x[i]), int(x[i - 1])"), ("math.lcm", "int(x[i]), int(x[i - 1])"), ("math.isqrt", "int(x[i])"), ("math.gcd", "int(x[i]), 30"), ("math.gcd", "i, x[i]")],
)
def test_of_ints(call: str, arguments: str) -> None:
    ordinary = R.integers(0, 10_000, 2000)
    compare(made(OF_INTS, call=call, arguments=arguments), ordinary, [0, 1, -6, 2**62, 2**63 - 1, -(2**63), (2**31 - 1) ** 2, (2**31 - 1) ** 2 - 1])


def test_a_function_under_another_name_is_that_function() -> None:
    def loop(x: Any, f: Callable[[float], float]) -> float:
        total = 0.0
        for value in x:
            total += f(value)
        return total

    captured, x = evalframe.jit(loop), R.uniform(0.1, 3, 1000)
    for _ in range(3):
        for f in (math.hypot, math.radians, math.cbrt if hasattr(math, "cbrt") else math.exp, abs):
            assert captured(x, f) == loop(x, f)
