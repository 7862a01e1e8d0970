"""The language, feature by feature and error by error: programs of tests/language, plain and evaluated, told in full.

A file there is a prelude and programs, each below a line `## name`; `## name [3.12]` needs that version.
"""

from __future__ import annotations

import contextlib
import gc
import io
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from evalframe import _core
from test_evaluator_all_frames import all_frames

FOLDER = Path(__file__).parent / "language"
ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


def programs_of(file: Path) -> Iterator[tuple[str, str]]:
    prelude, *parts = re.split(r"^## ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    prelude = prelude.partition("\n")[2]
    for part in parts:
        name, _, text = part.partition("\n")
        needs = re.search(r" \[3\.(\d+)\]$", name)
        if needs and sys.version_info < (3, int(needs[1])):
            continue
        future, here = ("", text) if not text.startswith("from __future__") else text.split("\n", 1)
        yield f"{file.stem}: {name}", f"{future}\n{prelude}{here}"


PROGRAMS = {name: text for file in sorted(FOLDER.glob("*.txt")) for name, text in programs_of(file)}


def entries(traceback: TracebackType | None) -> list[Any]:
    found: list[Any] = []
    while traceback:
        code = traceback.tb_frame.f_code
        positions = list(code.co_positions())[traceback.tb_lasti // 2]
        found.append((code.co_filename, code.co_qualname, traceback.tb_lineno, positions))
        traceback = traceback.tb_next
    return [entry for entry in found if entry[0] != __file__]


def told(error: BaseException | None, known: tuple[BaseException, ...] = ()) -> Any:
    """Everything that an exception tells."""
    if error is None or error in known:
        return error and "known"
    known += (error,)
    return {
        "type": (type(error).__module__, type(error).__qualname__),
        "text": ADDRESS.sub("0x", str(error)),
        "args": ADDRESS.sub("0x", repr(error.args)),
        "notes": getattr(error, "__notes__", None),
        "more": [ADDRESS.sub("0x", repr(getattr(error, name, None))) for name in ("name", "path", "name_from", "value", "code")],
        "suppressed": error.__suppress_context__,
        "cause": told(error.__cause__, known),
        "context": told(error.__context__, known),
        "exceptions": [told(inner, known) for inner in getattr(error, "exceptions", ())],
        "traceback": entries(error.__traceback__),
    }


def outcome(text: str) -> dict[str, Any]:
    raised: Any = None
    modules = set(sys.modules)
    names: dict[str, Any] = {"__name__": "program"}
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            exec(compile(text, "<program>", "exec", dont_inherit=True), names)
        except BaseException as error:
            raised = told(error)
            del error
        names.clear()
        gc.collect()
    for name in set(sys.modules) - modules:
        if name[:2] in ("m_", "s_", "o_", "pk"):
            del sys.modules[name]
    shown = [(str(w.message), w.category, w.filename, w.lineno) for w in warned]
    return {"raised": raised, "printed": ADDRESS.sub("0x", out.getvalue()).splitlines(), "warned": shown, "handled": sys.exc_info()}


def handed_over() -> dict[str, int]:
    """The frames that CPython had to run, but for those that a tool had."""
    return {reason: count for reason, count in _core.evaluation_counts()["handed over"].items() if reason != "traced"}


@pytest.fixture(scope="module", autouse=True)
def only_new_objects_are_collected() -> Iterator[None]:
    """Each program is followed by a collection, which takes long over all that the tests have imported."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_as_under_cpython(name: str) -> None:
    outcome(PROGRAMS[name])  # what is imported on the way is there from now on
    expected = outcome(PROGRAMS[name])
    before = handed_over()
    for _ in range(2):
        with all_frames():
            assert outcome(PROGRAMS[name]) == expected
    assert handed_over() == before
