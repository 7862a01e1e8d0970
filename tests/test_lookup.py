"""What commands are asked about: FILE, FILE:NAME, -m MODULE[:NAME], -c SOURCE, and what they say where it isn't there."""

import io
import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

from evalframe import lookup
from evalframe.__main__ import main

PROGRAM = """\
def outer():
    def inner():
        return [lambda: 1]
    return inner

class First:
    def run(self): pass

class Second:
    def run(self): pass
    @property
    def size(self): return 1
    @size.setter
    def size(self, value): pass
"""
COMMANDS = ["variables", "dis", "code", "decompile"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("def top(): pass\n")
    (tmp_path / "package" / "__main__.py").write_text("def main(): pass\n")
    (tmp_path / "package" / "part.py").write_text("raise SystemExit('was run')\n")
    return tmp_path


def names(found: lookup.Found) -> list[str]:
    return [code.co_qualname for code in found.codes]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("outer", ["outer"]),
        ("outer.inner", ["outer.<locals>.inner"]),
        ("outer.<locals>.inner", ["outer.<locals>.inner"]),
        ("inner", ["outer.<locals>.inner"]),
        ("<lambda>", ["outer.<locals>.inner.<locals>.<lambda>"]),
        ("First", ["First"]),
        ("First.run", ["First.run"]),
        ("run", ["First.run", "Second.run"]),
        ("Second.size", ["Second.size", "Second.size"]),
    ],
)
def test_a_name_is_qualified_or_the_end_of_one(folder: Path, name: str, expected: list[str]) -> None:
    assert names(lookup.in_file(f"program.py:{name}")) == expected
    assert names(lookup.in_module(f"program:{name}")) == expected


@pytest.mark.parametrize("command", COMMANDS)
def test_all_commands_take_all_forms(folder: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    for form in (["program.py"], ["program.py:First.run"], ["-m", "program"], ["-m", "program:outer"], ["-c", "x = 1"], ["package"]):
        for more in ([], ["--json"]):
            assert main([command, *form, *more]) == 0, form
            told = capsys.readouterr()
            assert told.out.strip() and told.err == ""


def test_files_with_colons_folders_and_standard_input(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("with:colon.py").write_text("def f(): pass\n")
    assert names(lookup.in_file("with:colon.py")) == ["<module>"]
    assert names(lookup.in_file("with:colon.py:f")) == ["f"]
    assert names(lookup.in_file("package:main")) == ["main"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"def given(): pass")))
    assert names(lookup.in_file("-:given")) == ["given"]


def test_compiled_files(folder: Path) -> None:
    py_compile.compile("program.py", cfile="program.pyc")
    assert names(lookup.in_file("program.pyc:First.run")) == ["First.run"]
    Path("old.pyc").write_bytes(b"1234" * 10)
    Path("cut.pyc").write_bytes(Path("program.pyc").read_bytes()[:40])
    with pytest.raises(lookup.CannotFind, match=r"old.pyc was compiled by another version of Python; run"):
        lookup.in_file("old.pyc")
    with pytest.raises(lookup.CannotFind, match=r"cut.pyc is no compiled module"):
        lookup.in_file("cut.pyc")


def test_modules_are_found_as_python_finds_them(folder: Path) -> None:
    before = list(sys.path)
    assert names(lookup.in_module("package:top")) == ["top"]
    assert names(lookup.in_module("package.part")) == ["<module>"]
    assert lookup.file_to_run("package") == str(folder / "package" / "__main__.py")
    assert lookup.file_to_run("package.part") == str(folder / "package" / "part.py")
    assert names(lookup.in_module("os:walk")) == ["walk"]  # frozen
    assert sys.path == before


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (["nope.py"], "can't open file 'nope.py': [Errno 2] No such file or directory"),
        (["nope.py:f"], "can't open file 'nope.py': [Errno 2] No such file or directory"),
        (["x\0y"], "can't open file 'x\\x00y': embedded null byte"),
        (["."], "can't open file '.': [Errno 21] Is a directory"),
        (["program.py:outr"], "program.py has no function 'outr'; did you mean outer?"),
        (["program.py:First.rum"], "program.py has no function 'First.rum'; did you mean First.run or"),
        (["program.py:zz"], "program.py has no function 'zz'; its functions are: outer, outer.inner, outer.inner.<lambda>, First, First.run, "),
        (["empty.py:f"], "empty.py has no function 'f'; its functions are: none"),
        (["broken.py"], 'broken.py, line 2, column 13: invalid syntax\n    x = "é" + + = 1\n                ^\n'),
        (["encoding.py"], "encoding.py, line 1"),
        (["deep.py"], "deep.py"),
        (["minuses.py"], "minuses.py can't be compiled: " + ("MemoryError" if sys.version_info < (3, 12) else "Parser stack overflowed")),
        (["-c", "def f(:"], "<source>, line 1, column 7: invalid syntax\n    def f(:\n          ^\n"),
        (["-m", "nope"], "there is no module 'nope'; what `python -m` finds is in the present folder or on sys.path"),
        (["-m", "nope.part"], "can't look for the module 'nope.part': ModuleNotFoundError: No module named 'nope'"),
        (["-m", "sys"], "there is no source file of the module 'sys': it is not written in Python"),
        (["-m", "bare"], "there is no source file of the module 'bare': it is a folder without __init__.py"),
        (["-m", ""], "there is no module ''"),
        (["-m", "package:tap"], "has no function 'tap'; did you mean top?"),
    ],
)
def test_what_is_not_there_is_named(folder: Path, form: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("broken.py").write_text('y = 1\nx = "é" + + = 1\n', encoding="utf-8")
    Path("encoding.py").write_bytes(b"\xff\xfe")
    Path("deep.py").write_text("(" * 5000)
    Path("minuses.py").write_text("-" * 100_000 + "1")
    Path("empty.py").write_text("")
    Path("bare").mkdir()
    for command in COMMANDS:
        assert main([command, *form]) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.startswith("evalframe: ") and text in told.err


SHOWS_SETS = """
import evalframe
source = "def f(x):\\n    return x in {'a', 'b', 'c', 'dd', 'e', (1, 'f')}\\nf('a')\\n"
code = compile(source, "<sets>", "exec")
for shown in (evalframe.dis(source), evalframe.code(source), evalframe.decompile(code), evalframe.step(source)()):
    print(shown)
"""


def test_what_is_shown_does_not_depend_on_hashes() -> None:
    def shown(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        return subprocess.run([sys.executable, "-c", SHOWS_SETS], env=environment, capture_output=True, text=True, check=True).stdout

    first = shown("1")
    assert "return x in {'a', 'b', 'c', 'dd', 'e', (1, 'f')}" in first
    assert "return x in {'a', 'b', 'c', 'dd', 'e', (1, 'f')}" in first or "return x in {" in first
    assert all(shown(seed) == first for seed in ("2", "3"))


def test_one_form_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        for forms in ([], ["x.py", "-c", "y"], ["-m", "a", "-c", "b"]):
            with pytest.raises(SystemExit):
                main([command, *forms])
            assert "give one of FILE[:NAME], -m MODULE[:NAME] and -c SOURCE" in capsys.readouterr().err
