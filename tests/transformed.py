"""A pytest plugin that decompiles all transformed code: ``python -m pytest -p transformed tests/test_jit.py ...``

After each test, code is made of whatever it captured, and each code object and each of its resume functions is decompiled. At the end
stands how they came out; a code object that is refused fails the run.
"""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import evalframe
from evalframe import _core
from evalframe.decompiler import decompile_report

found: Counter[str] = Counter()
refused: dict[str, list[str]] = {}


def codes_of(generated: tuple[object, ...]) -> list[types.CodeType]:
    code, resumes, *_ = generated
    assert isinstance(resumes, list)
    inner = [getattr(getattr(each, "__wrapped__", each), "__code__", each) for each in resumes]
    return [each for each in (code, *inner) if isinstance(each, types.CodeType)]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """What a test captures is kept until its code is made, even where nothing else keeps it; but not what a test wants to see collected."""
    plain, kept = evalframe.jit, []
    keeps = not item.name.endswith(("_is_collected", "_and_no_more"))

    def keeping(*arguments: Any, **options: Any) -> Any:
        captured = plain(*arguments, **options)
        if keeps:
            kept.append(captured)
        return captured

    evalframe.jit = keeping
    try:
        yield
        decompile_captured(item.nodeid)
    finally:
        evalframe.jit = plain


def decompile_captured(test: str) -> None:
    for entries in _core.captured_code():
        for generated in entries:
            for code in codes_of(generated):
                row = decompile_report(code, generated=True).rows[0]
                found[row.status] += 1
                if row.status == "refused":
                    refused.setdefault(row.reason, []).append(f"{test}: {row.name}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if refused:
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"transformed code, decompiled: {dict(found)}")
    for reason, where in refused.items():
        terminalreporter.write_line(f"{len(where)} refused: {reason} ({where[0]})")
