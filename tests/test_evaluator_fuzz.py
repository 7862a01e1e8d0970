"""Generated programs, plain and with every frame in our evaluator; and those that once differed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz import kept, shrink, strategies
from fuzz.programs import RANDOM_SYNTAX, Program
from helpers import fuzz


@pytest.mark.parametrize("path", kept.paths(), ids=lambda path: path.stem)
def test_a_kept_program_no_longer_differs(path: Path) -> None:
    program = kept.load(path)
    if not strategies.compiles(program.source):
        pytest.skip("its syntax is of a later version")
    kind, text = shrink.outcome_kind(program)
    assert not kind, text


@pytest.mark.parametrize("theme", strategies.THEMES)
def test_programs_that_hypothesis_writes_do_not_differ(theme: str) -> None:
    @settings(max_examples=12, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(strategies.hypothesis_strategy(theme, 10))
    def check(source: str) -> None:
        kind, text = shrink.outcome_kind(Program(source, theme))
        assert not kind, f"{text}\n{source}"

    check()


@pytest.mark.skipif(importlib.util.find_spec("pysource_codegen") is None, reason="pysource-codegen is not installed")
def test_programs_of_random_syntax_do_not_differ() -> None:
    fuzz("evaluate", "--strategy", RANDOM_SYNTAX, "--programs", "40", "--seed", "3")


@pytest.mark.slow
def test_many_programs_do_not_differ(share: int) -> None:
    fuzz("evaluate", "--programs", str(1000 // share), "--seed", "4", "--jobs", "2")
