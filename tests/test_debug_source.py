"""Generated code as source: what transformed code decompiles to, and files of it that tracebacks and debuggers use."""

from __future__ import annotations

import bdb
import contextlib
import io
import re
import sys
import traceback
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe.bytecode import code_of
from evalframe.codegen import Entry, entries_of, run_transformed

PAGE = Path(__file__).parent.parent / "docs" / "13-decompiler.md"
A, B = np.linspace(-1.0, 1.0, 5), np.ones(5)


def toy(a: Any, b: Any) -> Any:
    x = a / (np.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def fails_behind(a: Any, b: Any) -> Any:
    x = a + 1
    if b.sum() < 0:
        b = b * -1
    return x * b.nothing


def breaks_in_handler(a: Any, b: Any) -> Any:
    x = a + 1
    for k in (1, 2):
        try:
            if b.sum() < 0:
                raise ValueError(k)
            x = x * k
        except ValueError as error:
            x = x + len(str(error))
            if x.sum() > 100:
                return x, error
    return x


def captured(function: Any) -> Any:
    made = evalframe.jit(function)
    for sign in (1, -1):
        try:
            made(A, sign * B)
        except AttributeError:
            pass
    return made


def codes_of(entries: list[Entry]) -> Iterator[types.CodeType]:
    for entry in entries:
        if entry.code is None:
            continue  # src/codegen/limits.def
        yield entry.code
        yield from (code_of(getattr(each, "__wrapped__", each)) for each in entry.resume_functions)


TOY = """\
def toy(a, b):
    # evalframe: this does what the code does, but is compiled to other code: constants of it are __compiled_fn_0, {first}, {second}, __leave
    from builtins import BaseException as _BaseException
    try:
        _s0 = __compiled_fn_0(a, b)
    except _BaseException as _error1:
        _s0 = _error1
    else:
        x, _t0 = _s0
        _s0 = None
        if _t0:
            _t0 = None
            return {first}(b, x)
        _t0 = None
        return {second}(b, x)
    __left = _s0
    _s0 = None
    return __leave(__left, a, b)
"""


def test_transformed_code_can_be_read_and_run() -> None:
    start, *_ = entries_of(captured(toy))
    assert start.code is not None
    report = evalframe.decompile_report(start.code)
    first, second = (code_of(getattr(each, "__wrapped__", each)).co_name for each in start.resume_functions)
    assert report.source == TOY.format(first=first, second=second)
    namespace = {**report.objects}
    exec(report.source, namespace)
    for sign in (1, -1):
        assert np.array_equal(namespace["toy"](A, sign * B), toy(A, sign * B))


def test_all_variables_are_there_in_their_order() -> None:
    start, *_ = entries_of(captured(toy))
    resume = code_of(getattr(start.resume_functions[0], "__wrapped__", start.resume_functions[0]))
    namespace: dict[str, Any] = {}
    source = evalframe.decompile(resume)
    assert "# never run: so all variables of the function are variables here, in their order" in source
    exec(source, namespace)
    assert namespace[resume.co_name].__code__.co_varnames == resume.co_varnames == ("b", "x", "a")


@pytest.mark.parametrize("function", [toy, fails_behind, breaks_in_handler])
def test_generated_code_stands_in_files(function: Any, tmp_path: Path) -> None:
    made = captured(function)
    with evalframe.debug_source(tmp_path / "generated") as files:
        inside = list(codes_of(entries_of(made)))
    # Taken up in the midst of a handler, code may have no source.
    without = [code for code in inside if code.co_filename == function.__code__.co_filename]
    assert all(evalframe.decompile_report(code).source is None for code in without) and (function is breaks_in_handler or not without)
    inside = [code for code in inside if code not in without]
    assert {code.co_filename for code in inside} == set(map(str, files.files))
    for code in inside:
        path = Path(code.co_filename)
        lines = path.read_text().splitlines()
        assert lines[0] == f"# Made by evalframe of {function.__code__.co_filename}:{function.__code__.co_firstlineno}"
        assert lines[1].startswith(f"def {code.co_name}(")
        told = {line for *_, line in code.co_lines() if line}
        assert told <= set(range(2, len(lines) + 1)) and len(told) > 1
        compile(path.read_text(), str(path), "exec")
    assert {code.co_filename for code in codes_of(entries_of(made))} == {function.__code__.co_filename}


def raised_in(callback: Any) -> list[tuple[str, str]]:
    with evalframe.hook(callback):
        try:
            fails_behind(A, -B)
        except AttributeError as error:
            return [(Path(frame.filename).name, frame.line or "") for frame in traceback.extract_tb(error.__traceback__)[1:]]
    return []


def test_tracebacks_show_them(tmp_path: Path) -> None:
    made = captured(fails_behind)
    assert raised_in(run_transformed(made)) == [(Path(__file__).name, "if b.sum() < 0:"), (Path(__file__).name, "return x * b.nothing")]
    with evalframe.debug_source(tmp_path):
        callback = run_transformed(made, capture_resumed=False)
    (file, line), (resume, last) = raised_in(callback)
    assert file == "fails_behind.py" and line.startswith("return __resume_at_") and line.endswith("(b, x)")
    assert resume == line.removeprefix("return ").removesuffix("(b, x)") + ".py" and last == "return x * b.nothing"


def test_debuggers_stop_in_them(tmp_path: Path) -> None:
    with evalframe.debug_source(tmp_path) as files:
        callback = run_transformed(captured(toy), capture_resumed=False)
    lines = [(str(path), number) for path in files.files for number, line in enumerate(path.read_text().splitlines(), 1) if "b = b * -1" in line]
    stops: list[tuple[str, int, list[str]]] = []

    class Debugger(bdb.Bdb):
        def user_line(self, frame: types.FrameType) -> None:
            if self.get_break(frame.f_code.co_filename, frame.f_lineno):
                stops.append((frame.f_code.co_filename, frame.f_lineno, sorted(frame.f_locals)))
            self.set_continue()

    debugger = Debugger()
    for file, number in lines:
        assert debugger.set_break(file, number) is None
    with evalframe.hook(callback):
        sys.settrace(None)
        assert np.array_equal(debugger.runcall(toy, A, -B), toy(A, -B))
    assert stops == [(*lines[0], ["b", "x"])]


def test_the_last_one_opened_gets_the_code_and_closed_ones_none(tmp_path: Path) -> None:
    made = captured(toy)
    outer = evalframe.debug_source(tmp_path / "outer")
    with evalframe.debug_source(tmp_path / "inner") as inner:
        entries_of(made)
    count = len(inner.files)
    entries_of(made)
    outer.close()
    outer.close()
    entries_of(made)
    assert (len(inner.files), len(outer.files)) == (count, count) and count > 3
    assert len(set(inner.files)) == count


def test_the_page_shows_what_comes_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = PAGE.read_text().partition("## Generated code\n")[2]
    code, shown = re.findall(r"^```(?:python no-run|text)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[:2]
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "program.py", "exec", dont_inherit=True), {"evalframe": evalframe, "__name__": "program"})
    # Where a function is taken up is told in its name by the version's own offset.
    offsets = re.compile(r"(?<=__resume_at_)\d+")
    assert offsets.sub("N", printed.getvalue().rstrip("\n")) == offsets.sub("N", shown.rstrip("\n"))
