"""Generated programs with array operations among all else, plain and captured: recorded, served, and left early."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.programs import RANDOM_SYNTAX

COMMAND = Path(__file__).parent / "fuzz" / "run.py"


def fuzz(*arguments: str) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(COMMAND), "--mode", "capture", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]


def test_programs_with_arrays_do_not_differ() -> None:
    fuzz("--strategy", "arrays", "--programs", "120", "--seed", "1")


def test_programs_of_all_sorts_do_not_differ() -> None:
    fuzz("--strategy", "mixed", "--strategy", "classes", "--strategy", "exceptions", "--programs", "90", "--seed", "1")


def test_programs_left_before_every_node_do_not_differ() -> None:
    fuzz("--every-node", "--strategy", "arrays", "--strategy", "mixed", "--programs", "16", "--seed", "3")


@pytest.mark.skipif(importlib.util.find_spec("pysource_codegen") is None, reason="pysource-codegen is not installed")
def test_programs_of_random_syntax_do_not_differ() -> None:
    fuzz("--strategy", RANDOM_SYNTAX, "--programs", "30", "--seed", "1")


@pytest.mark.slow
def test_many_programs_do_not_differ() -> None:
    fuzz("--programs", "390", "--seed", "2", "--jobs", "2")
    fuzz("--strategy", "arrays", "--programs", "300", "--seed", "2", "--jobs", "2")
    fuzz("--every-node", "--strategy", "arrays", "--strategy", "mixed", "--programs", "60", "--seed", "3", "--jobs", "2")
