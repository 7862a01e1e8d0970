"""The kinds of variables, as `evalframe.variables` tells them."""

import py_compile
import sys
from pathlib import Path

import pytest

import evalframe
from evalframe import _core
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
    compiled = py_compile.compile(str(file), str(tmp_path / "shadow.pyc"))
    for form in (file, compiled):
        (table,) = variables_of_file(form, "f")
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


SCOPES = """\
count = 0
def counter(step):
    total = 0
    def add(by=1):
        nonlocal total
        global count
        count += 1
        total += by * step
        return total
    def only_hands_on():
        return lambda: total
    class Inner:
        size = total
        def method(self):
            return super().__repr__(), step
    return add, only_hands_on, Inner
"""


def tables(source: str, tmp_path: Path) -> dict[str, VariableTable]:
    file = tmp_path / "scopes.py"
    file.write_text(source)
    return {table.code.co_qualname.replace(".<locals>", ""): table for table in variables_of_file(file)}


def test_cells_tell_who_makes_and_who_uses_them(tmp_path: Path) -> None:
    found = tables(SCOPES, tmp_path)
    total, step = found["counter"]["total"], found["counter"]["step"]
    assert (total.kind, total.made_by) == ("cell", "counter")
    assert total.used_by == ("counter.add", "counter.only_hands_on.<lambda>", "counter.Inner")
    assert step.used_by == ("counter.add", "counter.Inner.method") and step.is_argument
    handed_on = found["counter.only_hands_on"]["total"]
    assert (handed_on.kind, handed_on.made_by, handed_on.used_by) == ("free", "counter", ("counter.only_hands_on.<lambda>",))
    assert found["counter.Inner.method"]["__class__"].made_by == "counter.Inner"
    assert found["counter.Inner"]["__class__"].used_by == ("counter.Inner.method",)


def test_names_that_are_bound_for_another_scope_say_so(tmp_path: Path) -> None:
    found = tables(SCOPES, tmp_path)
    assigned = {(scope, v.name) for scope, table in found.items() for v in table if v.assigned}
    assert assigned == {("counter.add", "total"), ("counter.add", "count")}
    assert found["counter.add"]["total"].notes == "made by counter; assigned here"
    assert kinds(found["<module>"]) == {"count": "global", "counter": "global"}


def test_a_function_alone_does_not_know_who_made_its_free_variables() -> None:
    table = evalframe.variables(nest())
    assert (table["arg1"].made_by, table["arg1"].notes) == ("", "made by an enclosing scope")
    assert table["value"].used_by[0].endswith("nest.function_1.function_2.function_3")


def test_comprehensions_have_a_scope_or_are_inlined(tmp_path: Path) -> None:
    found = tables("def f(rows):\n    x = 1\n    return [[c + x for c in r] for r in rows], [lambda: k for k in rows], sum(g for g in rows)\n", tmp_path)
    assert kinds(found["f.<genexpr>"]) == {".0": "argument", "g": "local"}
    if sys.version_info < (3, 12):
        assert kinds(found["f"]) == {"rows": "argument", "x": "cell", "sum": "builtin"}
        assert found["f"]["x"].used_by == ("f.<listcomp>.<listcomp>",)
        return
    inlined = {v.name: v.kind for v in found["f"] if v.inlined}
    assert inlined == {"c": "local", "r": "local", "k": "cell"}
    assert found["f"]["c"].notes == "of an inlined comprehension"
    module = tables("squares = [n * n for n in range(3)]\n", tmp_path)["<module>"]
    assert (module["n"].inlined, module["n"].storage) == (True, "localsplus")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters came with 3.12")
def test_type_parameters_have_a_scope_of_their_own(tmp_path: Path) -> None:
    found = tables("def f[T](x: T, y=1) -> T:\n    z: T = x\n    return T\nclass C[K]:\n    kept: K\n    def m(self): return K\n", tmp_path)
    scope = found["<generic parameters of f>"]
    assert (scope["T"].kind, scope["T"].used_by) == ("cell", ("f",))
    assert found["f"]["T"].made_by == "<generic parameters of f>"
    assert found["C.m"]["K"].made_by == "<generic parameters of C>"


def test_slots_are_where_the_interpreter_has_them() -> None:
    import argparse
    import enum
    import typing

    for module in (argparse, enum, typing):
        for table in variables_of_file(str(module.__file__)):
            slots = sorted((v.index, v.name) for v in table if v.storage == "localsplus")
            assert slots == list(enumerate(name for name, _ in _core.slot_rows(table.code))), table.code


def test_a_table_in_html_has_the_same_cells() -> None:
    page = evalframe.variables(nest())._repr_html_()
    assert page.count("<tr>") == 7 and "<td>made by an enclosing scope</td>" in page


def test_deep_nests_are_told_of_at_once(tmp_path: Path) -> None:
    """Each of the functions hands on all that is outside it."""
    lines = [f"{' ' * n}def f{n}(x{n}):" for n in range(60)] + [f"{' ' * 60}return {' + '.join(f'x{n}' for n in range(60))}"]
    found = tables("\n".join(lines) + "\n", tmp_path)
    innermost = ".".join(f"f{n}" for n in range(60))
    assert found["f0"]["x0"].used_by == (innermost,)
    assert {v.made_by for v in found[innermost] if v.kind == "free"} == {".".join(f"f{n}" for n in range(m + 1)) for m in range(59)}
