"""Runs the cheap cases of the benchmarks, to see that they run and what they print."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import evalframe

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


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
