"""The runner of CPython's own tests: what it counts, what it lets pass, and that it runs."""

from __future__ import annotations

import collections
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SUITE = Path(__file__).parent / "cpython_suite"


def runner() -> Any:
    spec = importlib.util.spec_from_file_location("cpython_suite_run", SUITE / "run.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def found(suite: Any, **differing: str) -> Any:
    run = suite.Run("passed", {}, "", collections.Counter(), 0.0)
    return suite.Comparison("test_x", {name.replace("_of_module", ":"): what for name, what in differing.items()}, run, run)


def test_a_module_runs_on_both_sides_and_its_frames_are_counted() -> None:
    done = subprocess.run([sys.executable, SUITE / "run.py", "test_augassign"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test_augassign: 7 cases, 0 differ" in done.stdout
    evaluated = next(int(line.split()[0]) for line in done.stdout.splitlines() if "frames evaluated" in line)
    assert evaluated > 1000


def test_only_cases_of_the_list_may_differ() -> None:
    suite = runner()
    case = found(suite, a="passed -> failure", test_x_of_module="passed -> failed")
    assert suite.unexpected(case, ["a"]) == {}
    assert set(suite.unexpected(case, ["b"])) == {"a", "test_x:"}
    assert set(suite.unexpected(found(suite, test_x_of_module="passed -> killed by SIGSEGV"), [])) == {"test_x:"}


@pytest.mark.parametrize(
    ("counts", "enough"),
    [
        ({"evaluated": 9990, "traced": 500, "IMPORT_FROM": 10}, True),
        ({"evaluated": 9980, "IMPORT_FROM": 20}, False),
        ({}, False),
    ],
)
def test_too_many_frames_handed_over_are_a_failure(counts: dict[str, int], enough: bool) -> None:
    assert runner().enough_evaluated(collections.Counter(counts)) is enough


def test_the_language_modules_are_of_the_core_set() -> None:
    suite = runner()
    core = suite.words(SUITE / "core_set_313.txt")
    assert set(suite.words(SUITE / "language.txt")) <= set(core)


@pytest.mark.slow
@pytest.mark.parametrize("module", ["test_generators", "test_exception_variations", "test_scope", "test_with", "test_augassign"])
def test_references_are_flat(module: str) -> None:
    done = subprocess.run([sys.executable, SUITE / "leaks.py", module], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_module_of_which_nothing_was_counted_is_no_success() -> None:
    done = subprocess.run([sys.executable, SUITE / "leaks.py", "test_no_such_module"], capture_output=True, text=True)
    assert done.returncode == 1 and "not counted" in done.stdout, done.stdout + done.stderr
