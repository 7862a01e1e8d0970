"""Whole programs are captured without being asked: LLVM compiles for them only what has taken as long as compiling does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SHORT = """
import numpy as np

def scaled(x):
    return np.sqrt(x * 2.0 + 1.0) * x

def count(n):
    x, total = np.arange(float(n)), 0.0
    for i in range(n):
        if x[i] > 2.0:
            total += x[i] * 0.5
    return total

def main(calls, size, n):
    return [float(scaled(np.arange(float(size)))[3]) for _ in range(calls)], count(n)
"""
TOLD = "; from evalframe import _core; print(told, _core.llvm_is_loaded())"


def run(*arguments: str, cwd: Path, cache: str = "0") -> str:
    (cwd / "program.py").write_text(SHORT)
    environment = os.environ | {"EVALFRAME_CACHE": cache, "EVALFRAME_CACHE_DIR": str(cwd / "cache")}
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def program(calls: int, size: int, n: int) -> str:
    return f"from program import main; told = str(main({calls}, {size}, {n}))[:20]{TOLD}"


def test_a_short_program_compiles_nothing(tmp_path: Path) -> None:
    source = program(20, 50, 400)
    captured = run("-m", "evalframe", "run", "-c", source, cwd=tmp_path)
    assert captured == run("-c", source, cwd=tmp_path) and captured.endswith("False\n")


@pytest.mark.parametrize(("calls", "size", "n"), [(600, 400_000, 5), (3, 10, 2_000_000)])
def test_a_long_program_does(calls: int, size: int, n: int, tmp_path: Path) -> None:
    source = program(calls, size, n)
    captured = run("-m", "evalframe", "run", "-c", source, cwd=tmp_path)
    assert captured == run("-c", source, cwd=tmp_path).replace("False\n", "True\n")


def test_a_function_that_is_asked_for_is_compiled_at_once(tmp_path: Path) -> None:
    source = f"import numpy as np, evalframe, program; f = evalframe.jit(program.scaled); told = [f(np.arange(9.0))[1] for _ in range(3)]{TOLD}"
    assert run("-c", source, cwd=tmp_path).endswith("True\n")


def test_what_is_on_disk_serves_at_once(tmp_path: Path) -> None:
    jitted = "import numpy as np, evalframe, program; f = evalframe.jit(program.scaled); [f(np.arange(9.0)) for _ in range(3)]"
    run("-c", jitted, cwd=tmp_path, cache="1")
    source = (
        "import numpy as np, program; from evalframe import _core; before = _core.runs_that_waited()\n"
        "for _ in range(4): program.scaled(np.arange(9.0))\n"
        f"told = _core.runs_that_waited() > before{TOLD}"
    )
    assert run("-m", "evalframe", "run", "-c", source, cwd=tmp_path, cache="1") == "False False\n"
    assert run("-m", "evalframe", "run", "-c", source, cwd=tmp_path) == "True False\n"


def test_no_function_is_given_up_while_its_kernels_wait(tmp_path: Path) -> None:
    source = (
        "import numpy as np, program, evalframe; from evalframe import _core\n"
        "x = np.arange(20_000.0)\n"
        "while not _core.llvm_is_loaded(): program.scaled(x); assert not evalframe.stats().get('given_up', 0)\n"
        "print('compiled')"
    )
    assert run("-m", "evalframe", "run", "-c", source, cwd=tmp_path) == "compiled\n"


SORTING = """
import numpy as np
import evalframe

rng = np.random.default_rng(0)

def sort(a):
    if len(a) < 2:
        return a
    return np.concatenate([sort(a[a < a[0]]), a[:1], sort(a[1:][a[1:] >= a[0]])])

told = True
for _ in range(600):
    x = rng.random(300)
    told = told and (sort(x) == np.sort(x)).all()
print(told, evalframe.stats()["recordings"])
"""


def test_where_each_call_takes_another_way_the_more_was_recorded_the_longer_all_wait(tmp_path: Path) -> None:
    """A function that calls itself has a place for each depth and way, and all of them are met often: each turn was recorded anew."""
    told, recordings = run("-m", "evalframe", "run", "-c", SORTING, cwd=tmp_path).split()[:2]
    assert told == "True" and 10 < int(recordings) < 350
