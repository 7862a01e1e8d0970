"""Elementary functions of NumPy's numbers, one at a time, in native loops: the C library's, and in turns that LLVM puts into vectors the vector forms."""

from __future__ import annotations

import ctypes
import ctypes.util
import warnings
from typing import Any

import numpy as np
import pytest

import evalframe

pytestmark = pytest.mark.usefixtures("native_loops_at_once")

# NumPy's name, and the C library's.
NAMES = {
    **{name: name for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "cbrt")},
    **{f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan")},
}
R = np.random.default_rng(8)

CHAIN = """
def chain(x, out):
    y = x[0]
    for i in range(len(x)):
        y = np.{name}(x[i] + y * zero)
        out[i] = y
    return y
"""
APART = """
def apart(x, out):
    for i in range(len(x)):
        out[i] = np.{name}(x[i])
"""


def made(text: str, name: str) -> Any:
    space: dict[str, Any] = {"np": np, "zero": 0.0}
    exec(text.format(name=name), space)
    return next(value for key, value in space.items() if key in ("chain", "apart"))


def by_c(name: str, x: Any) -> Any:
    one = ctypes.c_double if x.dtype == np.float64 else ctypes.c_float
    function = getattr(ctypes.CDLL(ctypes.util.find_library("m")), NAMES[name] + ("" if one is ctypes.c_double else "f"))
    function.argtypes, function.restype = [one], one
    return np.array([function(value) for value in x], x.dtype)


def arguments(name: str, dtype: Any) -> Any:
    low, high = {"log1p": (-0.9, 30.0), "arcsin": (-1.0, 1.0), "arccos": (-1.0, 1.0)}.get(name, (0.01, 40.0) if name.startswith("log") else (-20.0, 20.0))
    return R.uniform(low, high, 3000).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", NAMES)
def test_where_each_waits_for_the_one_before_they_are_the_c_librarys(name: str, dtype: Any) -> None:
    captured = evalframe.jit(made(CHAIN, name))
    x = arguments(name, dtype)
    out = np.zeros(len(x), dtype)
    for _ in range(5):
        last = captured(x, out)
    before = evalframe.stats()["native_turns"]
    out[:] = 0.0
    last = captured(x, out)
    assert evalframe.stats()["native_turns"] - before > 2900
    assert type(last) is dtype and last == out[-1]
    # The first ones may be NumPy's own.
    assert (out[2:] == by_c(name, x)[2:]).all()


@pytest.mark.parametrize("name", NAMES)
def test_those_of_turns_in_vectors_are_as_near(name: str) -> None:
    captured, plain = evalframe.jit(made(APART, name)), made(APART, name)
    x = arguments(name, np.float64)
    ours, theirs = np.zeros_like(x), np.zeros_like(x)
    for _ in range(5):
        captured(x, ours)
    plain(x, theirs)
    assert (np.abs(ours - by_c(name, x)) <= 3 * np.spacing(np.abs(theirs))).all()


@pytest.mark.parametrize("name", ["log", "exp", "arcsin", "sinh"])
def test_what_numpy_warns_of_is_told_at_its_line(name: str) -> None:
    x = arguments(name, np.float64)
    x[1700] = {"log": -1.0, "exp": 800.0, "arcsin": 3.0, "sinh": -900.0}[name]
    captured, plain = evalframe.jit(made(CHAIN, name)), made(CHAIN, name)
    for function in (plain, captured, captured, captured, captured):
        out = np.zeros_like(x)
        with pytest.warns(RuntimeWarning) as told:
            function(x, out)
        found = [(str(warning.message), warning.lineno) for warning in told]
        if function is plain:
            wanted, theirs = found, out
        assert found == wanted
        assert np.allclose(out, theirs, rtol=1e-14, atol=0, equal_nan=True)


def test_exact_ones_are_numpys() -> None:
    for name in NAMES:
        captured, plain = evalframe.jit(made(CHAIN, name), exact=True), made(CHAIN, name)
        x = arguments(name, np.float64)[:300]
        ours, theirs = np.zeros_like(x), np.zeros_like(x)
        for _ in range(4):
            captured(x, ours)
        plain(x, theirs)
        assert ours.tobytes() == theirs.tobytes()


COMPLEX = """
def apart(x, out):
    w = 0j
    for i in range(len(x)):
        w = np.{name}(x[i]) + np.{name}(1.0 / (i + 1) - 2j) * zero
        out[i] = w
    return w
"""


@pytest.mark.parametrize("name", ["sqrt", "exp", "log", "sin", "cos", "sinh", "cosh", "tanh"])
def test_those_of_complex_numbers_are_numpys(name: str) -> None:
    captured, plain = evalframe.jit(made(COMPLEX, name)), made(COMPLEX, name)
    x = R.normal(size=3000) * 3 + 1j * R.normal(size=3000)
    x[:4] = 1.0, 0.5j, -2.0, complex(-0.0, -0.0) - 3.0
    ours, theirs = np.zeros_like(x), np.zeros_like(x)
    for _ in range(5):
        captured(x, ours)
    before = evalframe.stats()["native_turns"]
    ours[:] = 0.0
    assert captured(x, ours) == plain(x, theirs)
    assert evalframe.stats()["native_turns"] - before > 2900
    assert ours.tobytes() == theirs.tobytes()
    x[1200] = {"log": 0.0, "exp": 1000.0, "sinh": 900.0, "cosh": -900.0}.get(name, complex(np.inf, np.nan))
    found = []
    for function, out in ((plain, theirs), (captured, ours)):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            function(x, out)
        found.append([(str(warning.message), warning.lineno) for warning in told])
    assert found[0] == found[1]
    assert ours.tobytes() == theirs.tobytes()
