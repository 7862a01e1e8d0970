"""Generated code as source: what transformed code decompiles to, and files of it that tracebacks and debuggers use."""

from __future__ import annotations

import bdb
import contextlib
import io
import random
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
from helpers import leaving_before
from test_jit_loops import over_dict

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
    told = {code.co_filename for code in inside}
    # A resume function has its file when it's made, and is dropped where the code before it can't be.
    assert told == set(map(str, files.files)) or (function is breaks_in_handler and told < set(map(str, files.files)))
    for code in inside:
        path = Path(code.co_filename)
        lines = path.read_text().splitlines()
        assert lines[0] == f"# Made by evalframe of {function.__code__.co_filename}:{function.__code__.co_firstlineno}"
        assert lines[1].startswith(f"def {code.co_name}(")
        places = {line for *_, line in code.co_lines() if line}
        assert places <= set(range(2, len(lines) + 1)) and len(places) > 1
        compile(path.read_text(), str(path), "exec")
    assert {code.co_filename for code in codes_of(entries_of(made))} == {function.__code__.co_filename}


def in_clauses(a: Any, b: Any) -> Any:
    x = a + 1
    try:
        raise ExceptionGroup("several", [ValueError(1), KeyError(2), OSError(3)])
    except* ValueError as group:
        x = x * len(group.exceptions)
    except* KeyError:
        x = x - b
        raise
    except* OSError as group:
        x = x + 2
        raise TypeError(4) from group.exceptions[0]
    return x


def in_a_handler(a: Any, b: Any) -> Any:
    x = a + 1
    try:
        raise ValueError(2)
    except (ValueError, KeyError) as error:
        x = x * 2
        try:
            x = x - b
            raise ExceptionGroup("inner", [ValueError(1), KeyError(2)])
        except* KeyError as group:
            x = x * len(group.exceptions)
        return x, error


def shown(value: Any) -> Any:
    if isinstance(value, BaseExceptionGroup):
        return type(value).__name__, value.message, [shown(each) for each in value.exceptions]
    return [shown(each) for each in value] if isinstance(value, tuple) else re.sub("0x[0-9a-f]+", "", repr(value))


def called_while_handled(function: Any, arguments: list[Any], error: BaseException) -> Any:
    """In a generator, which has an exception of its own that is handled: a resume function may leave another."""

    def run() -> Iterator[Any]:
        try:
            raise error
        except BaseException:
            try:
                told = "returned", shown(function(*arguments))
            except BaseException as raised:
                told = "raised", shown(raised)
        yield told

    return next(run())


def raised_error(r: random.Random) -> BaseException:
    single = [kind(r.randrange(9)) for kind in (ValueError, KeyError, OSError)]
    error = r.choice([*single, ExceptionGroup("g", single[:2]), ExceptionGroup("g", [single[0], ExceptionGroup("h", single[1:])])])
    with contextlib.suppress(BaseException):
        raise error
    return error


def entry_for(kind: int | None, error: BaseException, r: random.Random) -> Any:
    """What a resume function may get, by the kinds of src/codegen/entry_kinds.def."""
    if kind == 5:
        return r.choice([None, error, raised_error(r)])
    lists: list[Any] = [[], [None], [raised_error(r), None]]
    by_kind: dict[int | None, Any] = {2: r.choice(lists), 6: error, 7: error, 8: 0}
    return by_kind.get(kind, r.choice([None, error, raised_error(r)]))


def taken_up(function: Any) -> Iterator[types.FunctionType]:
    """Resume functions for all places where graphs of the function can be left."""
    made = evalframe.jit(function, backend="reference")
    for node in range(8):
        for sign in (1, 1, -1, -1):
            with contextlib.suppress(Exception), leaving_before(node):
                made(A, sign * B)
    for entry in entries_of(made, capture_resumed=False):
        yield from (each for each in entry.resume_functions if isinstance(each, types.FunctionType))


@pytest.mark.parametrize("function", [in_clauses, in_a_handler, breaks_in_handler])
def test_what_is_taken_up_in_a_handler_does_the_same(function: Any) -> None:
    called = 0
    for resume in taken_up(function):
        code = resume.__code__
        report = evalframe.decompile_report(code)
        assert report.source is not None, report
        namespace = {**function.__globals__, **report.objects}
        exec(report.source, namespace)
        checks = [each.__self__ for each in code.co_consts if getattr(each, "__name__", "") == "__check_stack"]
        kinds = {name: kind for check in checks for name, kind in zip(check[1::2], check[2::2], strict=True)}
        first = next((name for name, kind in kinds.items() if kind == 5), None)
        for seed in range(20):
            told = []
            for one in (types.FunctionType(code, function.__globals__), namespace[code.co_name]):
                r = random.Random(seed)
                error = raised_error(r)
                arguments: list[Any] = []
                for name in code.co_varnames[: code.co_argcount]:
                    # What was handled before is nothing, for both.
                    stacked = None if name == first else entry_for(kinds.get(name), error, r)
                    arguments.append(stacked if name.startswith("__stack_") else A)
                told.append(called_while_handled(one, arguments, error))
            assert told[0] == told[1], (code.co_name, seed)
            called += bool(first)
    assert called >= 40


def test_variables_are_in_their_order_in_state_machines_too() -> None:
    for resume in taken_up(in_clauses):
        code = resume.__code__
        namespace: dict[str, Any] = {}
        exec(evalframe.decompile(code), namespace)
        again = [name for name in namespace[code.co_name].__code__.co_varnames if name in code.co_varnames]
        assert tuple(again) == code.co_varnames


def test_lambdas_and_what_shares_its_name_with_a_constant() -> None:
    offset = A

    def nested(a: Any, b: Any) -> Any:
        for part in (a, b):
            if part.sum() > 0:
                a = a + part * offset
        return a

    for function in (lambda a, b: a + 1 if b.sum() < 0 else a * b, nested):
        made = captured(function)
        for code in codes_of(entries_of(made)):
            report = evalframe.decompile_report(code)
            assert report.source is not None and code.co_name not in report.objects
            assert report.source.startswith(f"def {code.co_name.replace('<lambda>', '__lambda')}(")


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


def test_there_is_a_file_for_what_runs_and_no_other(tmp_path: Path) -> None:
    """An entry that goes on in a loop is made of a resume function that no code calls."""
    made = evalframe.jit(over_dict)
    for node in (-1, 0, 1, 2, 5, 10, 15):
        with leaving_before(node):
            made(A, 0, 0.5)
            made(A, 0, 0.5)
    with evalframe.debug_source(tmp_path) as files:
        entries = entries_of(made)
    codes = [entry.code for entry in entries if entry.code] + [code_of(resume) for entry in entries for resume in entry.resume_functions]
    assert files.files and {str(file) for file in files.files} == {code.co_filename for code in codes}


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
