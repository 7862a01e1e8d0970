"""Loops that an earlier process has made native are so in the next one, as soon as as much of them has been recorded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
import numpy as np
import evalframe
from evalframe import _core

@evalframe.jit
def solved(a, b, rounds):
    x = np.zeros(len(b))
    for r in range(rounds):
        for i in range(len(b)):
            total = b[i]
            for j in range(len(b)):
                if j != i:
                    total -= a[i, j] * x[j]
            x[i] = total / a[i, i]
    return x

n, rounds = map(int, sys.argv[1:3])
_core.set_region_seconds(float(sys.argv[3]))
a = np.random.default_rng(0).random((n, n)) + n * np.eye(n)
x = solved(a, a.sum(axis=1), rounds)
assert abs(x - 1).max() < 0.1, x
counted = _core.jit_counters(solved)
print(counted["native_loops"], counted["native_turns"])
"""


def run(place: Path, rounds: int, wait: float = 0.02, **environment: str) -> tuple[int, int]:
    variables = {**os.environ, "EVALFRAME_CACHE": "1", "EVALFRAME_CACHE_DIR": str(place), **environment}
    told = subprocess.run([sys.executable, "-c", PROGRAM, "60", str(rounds), str(wait)], env=variables, stdout=subprocess.PIPE, text=True, check=True).stdout
    native, turns = map(int, told.split())
    return native, turns


def test_a_loop_that_was_native_before_is_not_waited_for(tmp_path: Path) -> None:
    assert run(tmp_path, 200)[0] > 0
    # With other arguments, and so another number of turns.
    native, turns = run(tmp_path, 40, wait=1000.0)
    assert native > 0 and turns > 10_000
    assert run(tmp_path / "elsewhere", 40, wait=1000.0) == (0, 0)


@pytest.mark.parametrize("text", [b"", b"no hints", b"\xff" * 200])
def test_hints_that_are_damaged_are_none(tmp_path: Path, text: bytes) -> None:
    assert run(tmp_path, 200)[0] > 0
    for entry in tmp_path.glob("*.loops"):
        entry.write_bytes(entry.read_bytes()[:-8] + text)
    assert run(tmp_path, 200)[0] > 0


def test_there_are_none_without_a_cache(tmp_path: Path) -> None:
    assert run(tmp_path, 200, EVALFRAME_CACHE="0")[0] > 0
    assert not list(tmp_path.iterdir())
