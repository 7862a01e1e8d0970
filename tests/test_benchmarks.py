"""Runs the cheap cases of the benchmarks, to see that they run, what they print, and what becomes of those that fail."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import evalframe

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.mark.slow
def test_quick_run_writes_rows_and_machine(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    output = tmp_path / "rows.json"
    command = [sys.executable, str(BENCHMARKS / "run.py"), "--quick", "--only", "dispatch", "first_call", "chain", "fresh_process"]
    done = subprocess.run([*command, "--json", str(output)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    written = json.loads(output.read_text())
    assert {row["case"] for row in written["rows"]} == {"dispatch", "first call", "chain", "fresh process"}
    assert written["machine"]["evalframe"] == evalframe.__version__


def test_an_unknown_case_is_refused_with_those_there_are() -> None:
    pytest.importorskip("scipy")
    command = [sys.executable, str(BENCHMARKS / "run.py"), "--only", "nope"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "black_scholes" in done.stderr


ILL_BEHAVED = """
import itertools, os, signal, time
from kernels.table import kernel
import loops

count = itertools.count()

@kernel(lambda random, n: (n,), 1, 1, 1, 1)
def raises(n):
    raise KeyError("of its own")

@kernel(lambda random, n: (n,), 1, 1, 1, 1)
def hangs(n):
    time.sleep(600)

@kernel(lambda random, n: (n,), 1, 1, 1, 1)
def dies(n):
    os.kill(os.getpid(), signal.SIGKILL)

@kernel(lambda random, n: (n,), 1, 1, 1, 1)
def drifts(n):
    return next(count)

loops.main()
"""


def run_loops(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(BENCHMARKS), *sys.path]))}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_loops_are_timed_beside_plain_python(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    output = tmp_path / "rows.json"
    done = run_loops(str(BENCHMARKS / "loops.py"), "--size", "tiny", "--only", "lu", "finance", "--seconds", "0.01", "--json", str(output))
    assert done.returncode == 0, done.stderr
    rows = {row["kernel"]: row for row in json.loads(output.read_text())["rows"]}
    assert {"lu", "binomial_tree"} <= rows.keys()
    assert all(row["plain"] > 0 and row["evalframe"] > 0 and row["notes"] == [] for row in rows.values())
    assert "geometric mean" in done.stdout


def test_loops_that_fail_are_rows(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    output = tmp_path / "rows.json"
    names = ["raises", "hangs", "dies", "drifts"]
    done = run_loops("-c", ILL_BEHAVED, "--size", "tiny", "--only", *names, "--limit", "3", "--json", str(output))
    rows = json.loads(output.read_text())["rows"]
    notes = {row["kernel"]: row["notes"] for row in rows}
    assert notes["raises"] == [f"{side} raised KeyError: 'of its own'" for side in ("plain", "evalframe")]
    assert notes["hangs"] == ["stopped after 3 s in first calls of plain"]
    assert notes["dies"] == ["the process ended with -9 in first calls of plain"]
    assert notes["drifts"][0] == "plain DIFFERS: result is 1, not 0"
    assert done.returncode == 1


@pytest.mark.slow
def test_programs_are_timed_beside_what_the_machine_allows(tmp_path: Path) -> None:
    output = tmp_path / "rows.json"
    done = run_loops(str(BENCHMARKS / "limits.py"), "--quick", "--only", "axpy", "dense", "--json", str(output))
    assert done.returncode == 0, done.stderr
    rows = json.loads(output.read_text())["rows"]
    assert [(row["program"], row["limited by"]) for row in rows] == [("axpy", "memory"), ("dense", "BLAS")]
    assert all(row[side] > 0 for row in rows for side in ("plain", "evalframe", "limit", "one core"))
    assert done.stdout.count("MiB") == 4


JAXS_VERSIONS = """
from kernels import KERNELS
from kernels_jax import VERSIONS, version_of
import loops

checked = 0
for kernel in KERNELS.values():
    version = version_of(kernel.name, kernel.theme)
    if version is not None:
        made = kernel.arguments("tiny")
        wanted, _ = loops.Side(kernel.function).called(made)
        got, _ = loops.JaxSide(version).called(made)
        assert not loops.wrong("jax", [got], wanted, kernel), loops.wrong("jax", [got], wanted, kernel)
        checked += 1
assert checked == len(VERSIONS) > 60, (checked, len(VERSIONS))
"""


@pytest.mark.slow
def test_jaxs_versions_come_to_the_same() -> None:
    pytest.importorskip("scipy")
    if importlib.util.find_spec("jax") is None:
        pytest.skip("JAX isn't installed")
    done = run_loops("-c", JAXS_VERSIONS)
    assert done.returncode == 0, done.stderr
