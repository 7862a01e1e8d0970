"""What the native backend leaves alone: streams of random numbers, arrays of objects, subclasses, types with protocols of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np

import evalframe


def test_random_numbers_keep_their_stream() -> None:
    def function(rng: Any, x: Any) -> Any:
        a = rng.standard_normal(5) * x
        b = a + rng.random(5)
        x += b
        return b, rng.integers(0, 10, 5)

    captured = evalframe.jit(function)
    ours, theirs = np.random.default_rng(3), np.random.default_rng(3)
    x, y = np.ones(5), np.ones(5)
    for _ in range(4):
        for got, wanted in zip(captured(ours, x), function(theirs, y), strict=True):
            np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(x, y)
    assert ours.bit_generator.state == theirs.bit_generator.state


def test_the_global_stream() -> None:
    def function(x: Any) -> Any:
        return x * 2.0 + np.random.rand(4), np.random.normal(size=3)

    captured = evalframe.jit(function)
    for seed in range(3):
        np.random.seed(seed)
        got = captured(np.ones(4))
        np.random.seed(seed)
        for a, b in zip(got, function(np.ones(4)), strict=True):
            np.testing.assert_array_equal(a, b)


def steps(x: Any, y: Any) -> Any:
    z = x * 2 + y
    z[1:] += x[:-1]
    x += y
    return z


def test_arrays_of_objects() -> None:
    captured = evalframe.jit(steps)
    for _ in range(3):
        x = np.array([1, 2.5, 10**30], dtype=object)
        y = x.copy()
        assert list(captured(x, 1)) == list(steps(y, 1))
        assert list(x) == list(y)


class Tagged(np.ndarray):
    """A subclass that counts how often it is made."""

    made = 0

    def __array_finalize__(self, source: Any) -> None:
        Tagged.made += 1


def test_subclasses() -> None:
    captured = evalframe.jit(steps)
    for _ in range(3):
        x, y = np.arange(4.0).view(Tagged), np.arange(4.0).view(Tagged)
        before = Tagged.made
        wanted = steps(y, 1.0)
        count = Tagged.made - before
        before = Tagged.made
        got = captured(x, 1.0)
        assert type(got) is Tagged and Tagged.made - before == count
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(x, y)


class Logged:
    """Takes part in ufuncs and functions by its protocols, and writes down which."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        self.seen.append(ufunc.__name__ + "." + method)
        return self

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        self.seen.append(function.__name__)
        return self


def test_protocols() -> None:
    def function(x: Any, y: Any) -> Any:
        np.add(x * 2.0, y)
        return np.mean(np.where(y, y, y))

    captured = evalframe.jit(function)
    for _ in range(3):
        ours, theirs = Logged(), Logged()
        captured(np.ones(3), ours)
        function(np.ones(3), theirs)
        assert ours.seen == theirs.seen == ["add.__call__", "where", "mean"]


CHANGED = """
import numpy as np
import evalframe
from evalframe import _core

_core.set_region_seconds(0.0)
np.sin, np.multiply, np.matmul, np.dot = np.cos, np.subtract, lambda a, b: "changed", np.outer

def function(a, b):
    total = 0.0
    for i in range(20):
        product = a @ b
        total += product[0, 0]
        last = np.dot(a[0], b[0])
    return total, product, last, a * b, np.cos(a), np.subtract(a, b)

captured = evalframe.jit(function)
a = np.arange(9.0).reshape(3, 3)
for _ in range(4):
    assert repr(captured(a, a + 1)) == repr(function(a, a + 1))
"""


def test_what_a_program_puts_in_the_place_of_numpys_functions() -> None:
    """Before anything is captured: a function isn't known by the name under which numpy has it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", CHANGED], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
