"""The kinds of variables, as `evalframe.variables` tells them."""

import sys
from pathlib import Path

import pytest

import evalframe
from evalframe.variables import VariableTable, variables_of_file

NEST = Path(__file__).parent.parent / "examples" / "variables_nest.py"
NEST_KINDS = {
    "arg2": "argument",
    "function_3": "local",
    "tmp": "local",
    "value": "cell",
    "arg1": "free",
    "global_var": "global",
}


def kinds(table: VariableTable) -> dict[str, str]:
    return {variable.name: variable.kind for variable in table}


def nest() -> object:
    def function_1(arg1):  # type: ignore[no-untyped-def]
        def function_2(arg2):  # type: ignore[no-untyped-def]
            def function_3(arg3):  # type: ignore[no-untyped-def]
                return value + arg3

            tmp = arg1 + arg2
            value = tmp + global_var  # type: ignore[name-defined]  # noqa: F821
            return value + function_3("3 ")

        return function_2

    return function_1("1 ")


def test_nest_seen_from_function_2() -> None:
    assert kinds(evalframe.variables(nest())) == NEST_KINDS


def test_nest_seen_from_its_file() -> None:
    for name in ("function_2", "function_1.function_2"):
        (table,) = variables_of_file(NEST, name)
        assert kinds(table) == NEST_KINDS


def test_slots_are_one_array_of_locals_cells_and_free_variables() -> None:
    table = evalframe.variables(nest())
    slots = {v.name: v.index for v in table if v.storage == "localsplus"}
    assert slots["arg2"] == 0
    assert {slots["function_3"], slots["tmp"]} == {1, 2}
    assert (slots["value"], slots["arg1"]) == (3, 4)


def test_an_argument_that_an_inner_function_uses_is_a_cell_and_keeps_its_slot() -> None:
    def outer(a, b, *rest, key=1, **more):  # type: ignore[no-untyped-def]
        return lambda: (b, more)

    table = evalframe.variables(outer)
    assert kinds(table) == {"a": "argument", "key": "argument", "rest": "argument", "b": "cell", "more": "cell"}
    assert (table["b"].index, table["b"].is_argument) == (1, True)
    assert "b (argument)" in str(table)


def test_globals_and_builtins_are_told_apart_by_the_functions_globals() -> None:
    def uses() -> object:
        return len, sys, never_bound  # type: ignore[name-defined]  # noqa: F821

    assert kinds(evalframe.variables(uses)) == {"sys": "global", "never_bound": "global", "len": "builtin"}


def test_a_file_that_binds_a_builtins_name_has_it_as_a_global(tmp_path: Path) -> None:
    file = tmp_path / "shadow.py"
    file.write_text("def f():\n    return len, max, min\ndef g():\n    global max\n    max = 1\nfrom m import min\n")
    (table,) = variables_of_file(file, "f")
    assert kinds(table) == {"max": "global", "min": "global", "len": "builtin"}


def test_class_and_module_bodies(tmp_path: Path) -> None:
    file = tmp_path / "body.py"
    file.write_text("x = 1\nclass C:\n    y = x\n    def m(self):\n        return __class__, y, print\n")
    module, body, method = variables_of_file(file)
    assert kinds(module) == {"x": "global", "C": "global"}
    assert kinds(body)["y"] == "local"
    assert body["y"].storage == "namespace"
    assert (kinds(body)["x"], kinds(body)["__class__"]) == ("global", "cell")
    assert kinds(method) == {"self": "argument", "__class__": "free", "y": "global", "print": "builtin"}


def test_methods_wrappers_and_code_objects() -> None:
    class C:
        def m(self, a: int) -> int:
            return a

    assert kinds(evalframe.variables(C().m)) == {"self": "argument", "a": "argument"}
    assert kinds(evalframe.variables(C.m.__code__)) == {"self": "argument", "a": "argument"}
    assert kinds(evalframe.variables(staticmethod(C.m))) == {"self": "argument", "a": "argument"}


@pytest.mark.parametrize(("wrong", "text"), [(print, "no Python code"), (int, "no Python code"), (3, "got int")])
def test_what_has_no_code_is_refused(wrong: object, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        evalframe.variables(wrong)


def test_a_function_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(LookupError, match=r"no function 'nope'.*function_1\.function_2"):
        variables_of_file(NEST, "nope")
