"""`evalframe code` and the JSON documents of `dis`, `code` and `variables`."""

import json
import sys
from pathlib import Path

import pytest

import evalframe
from evalframe.__main__ import main

NEST = str(Path(__file__).parent.parent / "examples" / "variables_nest.py")


async def coroutine(a, /, b, *c, d, **e):
    try:
        return await a
    finally:
        print(b)


def document(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert main(arguments) == 0 and capsys.readouterr().out == printed
    return json.loads(printed)


def test_flags_and_counts_are_those_of_the_code_object() -> None:
    shown = evalframe.code(coroutine)
    made = coroutine.__code__
    assert set(shown.flags) == {"OPTIMIZED", "NEWLOCALS", "VARARGS", "VARKEYWORDS", "COROUTINE"}
    for name in ("co_name", "co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_varnames", "co_stacksize", "co_names"):
        assert getattr(shown, name) == getattr(made, name)
    assert shown.handled > 0 and evalframe.code("x = 1").handled == 0
    assert "  flags " in str(shown) and shown._repr_html_().count("<tr>") == 19
    assert "FUTURE_ANNOTATIONS" in evalframe.code("from __future__ import annotations").flags
    assert "frozenset({'a', 'b'})" in evalframe.code("x in {'b', 'a'}").co_consts
    with pytest.raises(TypeError):
        evalframe.code(3)  # type: ignore[arg-type]


def test_documents_are_stable(capsys: pytest.CaptureFixture[str]) -> None:
    names = document(["variables", "--json", f"{NEST}:function_2"], capsys)
    assert [(row["kind"], row["name"]) for row in names if row["kind"] == "free"] == [("free", "arg1")]
    codes = document(["code", "--json", f"{NEST}:function_1"], capsys)
    assert [row["co_name"] for row in codes] == ["function_1", "function_2", "function_3"]
    rows = document(["dis", "--json", "-c", "while x: pass"], capsys)
    jumps = [row for row in rows if row["target"] is not None]
    assert jumps and {row["target"] for row in jumps} <= {row["offset"] for row in rows}


def test_modules_are_found_and_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["code", "-m", "this"]) == 0
    assert "this.py" in capsys.readouterr().out and "this" not in sys.modules
    assert main(["dis", "-m", "no_such_module"]) == 2
    assert "there is no module 'no_such_module'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["code", "-c", "x", "file.py"])
    assert main(["code", "-c", "x ="]) == 2
    assert "line 1" in capsys.readouterr().err
