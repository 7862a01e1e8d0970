"""Generated programs with array operations among all else, plain and captured: recorded, served, and left early."""

from __future__ import annotations

import importlib.util

import pytest

from fuzz.programs import RANDOM_SYNTAX
from helpers import fuzz


def test_programs_with_arrays_do_not_differ() -> None:
    fuzz("capture", "--strategy", "arrays", "--programs", "120", "--seed", "1")


def test_programs_of_all_sorts_do_not_differ() -> None:
    fuzz("capture", "--strategy", "mixed", "--strategy", "classes", "--strategy", "exceptions", "--programs", "90", "--seed", "1")


def test_programs_left_before_every_node_do_not_differ() -> None:
    fuzz("capture", "--every-node", "--strategy", "arrays", "--strategy", "mixed", "--programs", "16", "--seed", "3")


@pytest.mark.skipif(importlib.util.find_spec("pysource_codegen") is None, reason="pysource-codegen is not installed")
def test_programs_of_random_syntax_do_not_differ() -> None:
    fuzz("capture", "--strategy", RANDOM_SYNTAX, "--programs", "30", "--seed", "1")


@pytest.mark.slow
def test_many_programs_do_not_differ(share: int) -> None:
    fuzz("capture", "--programs", str(390 // share), "--seed", "2", "--jobs", "2")
    fuzz("capture", "--strategy", "arrays", "--programs", str(300 // share), "--seed", "2", "--jobs", "2")
    fuzz("capture", "--every-node", "--strategy", "arrays", "--strategy", "mixed", "--programs", str(60 // share), "--seed", "3", "--jobs", "2")
