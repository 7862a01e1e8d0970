"""Editing, assembling, verifying and listing bytecode."""

import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import evalframe
from evalframe.__main__ import main
from evalframe.bytecode import Bytecode, Instruction, listing, verify


def with_code(function: Callable[..., Any], code: types.CodeType) -> Callable[..., Any]:
    made = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def plus_to_times(function: Callable[..., Any]) -> Callable[..., Any]:
    body = Bytecode.from_code(function)
    for instruction in body:
        if instruction.opname == "BINARY_OP" and instruction.argval in ("+", "+="):
            instruction.argval = {"+": "*", "+=": "*="}[instruction.argval]
    return with_code(function, body.assemble())


def find(body: Bytecode, opname: str) -> Instruction:
    return next(each for each in body if each.opname == opname)


def test_every_plus_becomes_times() -> None:
    def total(values: list[int]) -> int:
        result = 1
        for value in values:
            result += value
        return result + 10 - 1

    assert plus_to_times(total)([2, 3, 4]) == 2 * 3 * 4 * 10 - 1


def test_unchanged_code_assembles_to_the_same_bytes() -> None:
    for function in (Bytecode.assemble, evalframe.dis, Path.exists, plus_to_times, find):
        code = evalframe.bytecode.code_of(function)
        again = Bytecode.from_code(code).assemble()
        assert again.co_code == code.co_code
        assert again.co_exceptiontable == code.co_exceptiontable
        assert again.co_consts == code.co_consts


def test_insertion_keeps_jumps_handlers_and_lines() -> None:
    def search(values: list[int], wanted: int) -> str:
        try:
            for value in values:
                if value == wanted:
                    raise KeyError(value)
        except KeyError:
            return "found"
        return "none"

    body = Bytecode.from_code(search)
    end_of_loop = find(body, "FOR_ITER").target
    assert end_of_loop is not None
    skipped = body.instructions.index(end_of_loop)
    for instruction in body.instructions[2:skipped] + body.instructions[skipped + 2 :]:
        for _ in range(60):  # enough to push jumps over the reach of one byte
            body.insert_before(instruction, Instruction("NOP"))
    edited = body.assemble()
    assert len(edited.co_code) > 20 * len(search.__code__.co_code)
    for values in ([], [1, 2], [3, 1]):
        assert with_code(search, edited)(values, 1) == search(values, 1)
    assert {line for *_, line in edited.co_lines()} == {line for *_, line in search.__code__.co_lines()}


def test_what_is_inserted_after_an_instruction_is_skipped_by_jumps_to_what_follows() -> None:
    def choose(flag: bool) -> str:
        result = "a"
        if flag:
            result = "b"
        return result

    body = Bytecode.from_code(choose)
    branch = find(body, "POP_JUMP_IF_FALSE")
    last = body.instructions[body.instructions.index(branch.target) - 1]
    assert last.opname == "STORE_FAST"
    body.insert_after(last, Instruction("LOAD_CONST", argval="c"), Instruction("STORE_FAST", argval="result"))
    edited = with_code(choose, body.assemble())
    assert (edited(True), edited(False)) == ("c", "a")
    assert {line for *_, line in edited.__code__.co_lines()} == {line for *_, line in choose.__code__.co_lines()}
    with pytest.raises(ValueError, match="not among the instructions of"):
        body.insert_after(Instruction("NOP"), Instruction("NOP"))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="END_FOR is new in 3.12")
def test_what_for_iter_skips_must_stay_together() -> None:
    def loop(values: list[int]) -> None:
        for _ in values:
            pass

    body = Bytecode.from_code(loop)
    body.insert_before(find(body, "END_FOR"), Instruction("NOP"))
    with pytest.raises(ValueError, match=r"\(FOR_ITER, line \d+\): its target must be END_FOR"):
        body.assemble()


def test_new_variable_stands_behind_the_locals_and_before_cells() -> None:
    def outer(start: int) -> Any:
        step = 2

        def inner(count: int) -> int:
            scaled = count * step
            return start + scaled

        return inner

    inner = outer(100)
    body = Bytecode.from_code(inner)
    end = body.instructions[-1]
    body.insert_before(end, Instruction("STORE_FAST", argval="spare"), Instruction("LOAD_FAST", argval="spare"))
    code = body.assemble()
    assert code.co_varnames == (*inner.__code__.co_varnames, "spare")
    assert with_code(inner, code)(4) == inner(4) == 108
    verify(inner, code)


def test_new_constants_and_names_are_added() -> None:
    def answer() -> object:
        return len

    body = Bytecode.from_code(answer)
    body.replace(find(body, "LOAD_GLOBAL"), Instruction("LOAD_GLOBAL", argval="max", arg2=0))
    assert with_code(answer, body.assemble())() is max
    marker = object()
    body.replace(find(body, "LOAD_GLOBAL"), Instruction("LOAD_CONST", argval=marker))
    assert with_code(answer, body.assemble())() is marker


def test_removed_instruction_hands_its_jumps_to_the_next() -> None:
    def pick(flag: bool) -> int:
        value = 1
        if flag:
            value = 2
        return value

    body = Bytecode.from_code(pick)
    jump = next(each for each in body if each.opname == "POP_JUMP_IF_FALSE")
    assert jump.target is not None
    nop = Instruction("NOP")
    body.insert_before(jump.target, nop)
    assert jump.target is nop
    body.remove(nop)
    assert [with_code(pick, body.assemble())(flag) for flag in (True, False)] == [2, 1]


def add(a: int, b: int) -> int:
    return a + b


def edited_add(edit: Callable[[Bytecode], None]) -> Bytecode:
    body = Bytecode.from_code(add)
    edit(body)
    return body


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda body: body.remove(find(body, "LOAD_FAST")), r"add, instruction \d \(BINARY_OP, line \d+\): it takes 2"),
        (lambda body: body.remove(body.instructions[-1]), "runs off the end"),
        (lambda body: body.instructions.clear(), "needs at least a return"),
        (lambda body: setattr(find(body, "LOAD_FAST"), "arg", 7), "no variable 7"),
        (lambda body: setattr(find(body, "BINARY_OP"), "arg", 99), "out of range; 0 to 25"),
        (lambda body: setattr(find(body, "BINARY_OP"), "argval", "!"), "argval '!'"),
        (lambda body: body.instructions.insert(0, Instruction("JUMP_FORWARD")), "needs a target"),
        (lambda body: body.instructions.insert(0, Instruction("LOAD_CONST")), "needs an arg or an argval"),
        (lambda body: body.instructions.insert(0, Instruction("LOAD_CONST", 1000)), "no constant 1000"),
        (lambda body: body.instructions.insert(0, Instruction("LOAD_DEREF", 0)), "'a' is no cell or free variable"),
        (lambda body: body.instructions.insert(0, Instruction("POP_TOP")), "takes 1 stack entries where there are 0"),
        (
            lambda body: body.instructions.insert(0, Instruction("JUMP_FORWARD", target=Instruction("NOP"))),
            "isn't in the list",
        ),
        (lambda body: body.instructions.append(body.instructions[0]), "stands in the list twice"),
        # Sums with them aren't what 32 bits hold: as -1 entries, the rest of the code counted as not reached.
        *(
            (lambda body, op=op, size=size: body.instructions.__setitem__(slice(1, None), [Instruction(op, size)]), rf"\({op}.*: its argument {size} is more than a stack")
            for op in ("LIST_APPEND", "MAP_ADD", "BUILD_MAP", "CALL", "UNPACK_SEQUENCE")
            for size in (2**31 - 1, 2**30)
        ),
        (lambda body: body.insert_before(body.instructions[-1], *(Instruction("UNPACK_SEQUENCE", 2**24 - 1) for _ in range(200))), "more stack entries than the 16777216"),
    ],
)
def test_code_that_cannot_run_is_refused(edit: Callable[[Bytecode], None], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        edited_add(edit).assemble()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="LOAD_FAST looks for unbound variables up to 3.11")
def test_read_of_a_variable_that_may_be_unbound_is_refused() -> None:
    body = Bytecode.from_code(add)
    read = Instruction("LOAD_FAST", argval="fresh")
    body.insert_before(find(body, "BINARY_OP"), read, Instruction("POP_TOP"))
    with pytest.raises(ValueError, match=r"\(LOAD_FAST, line \d+\): .* may be unbound .* use LOAD_FAST_CHECK"):
        body.assemble()
    read.opname = "LOAD_FAST_CHECK"
    with pytest.raises(UnboundLocalError, match="fresh"):
        with_code(add, body.assemble())(1, 2)


def test_read_of_a_cell_that_was_not_made_is_refused() -> None:
    def outer(value: int) -> Any:
        return lambda: value

    body = Bytecode.from_code(outer(1))
    body.remove(find(body, "COPY_FREE_VARS"))
    with pytest.raises(ValueError, match="may have no cell here"):
        body.assemble()


def test_instruction_of_another_version_is_refused() -> None:
    missing = "TO_BOOL" if sys.version_info < (3, 13) else "LOAD_CLOSURE"
    body = Bytecode.from_code(add)
    body.insert_before(find(body, "BINARY_OP"), Instruction(missing, 0))
    with pytest.raises(ValueError, match=r"no such instruction|is no cell"):
        body.assemble()
    with pytest.raises(ValueError, match="no canonical instruction 'LOAD_NOTHING'"):
        Instruction("LOAD_NOTHING")


@pytest.mark.parametrize("source", [len, 3, object(), "text"])
def test_what_has_no_bytecode_is_refused(source: Any) -> None:
    with pytest.raises(TypeError, match="which has no bytecode"):
        Bytecode.from_code(source)


def test_replacement_must_keep_the_variables() -> None:
    def swapped(b: int, a: int) -> int:
        return a + b

    def renamed(a: int, c: int) -> int:
        return a + c

    def fewer(a: int, *, b: int) -> int:
        return a + b

    verify(add, add)
    with pytest.raises(ValueError, match=r"frame of add\(\): where the original has the local variable 'a'"):
        verify(add, swapped)
    with pytest.raises(ValueError, match="lacks the local variable 'b'"):
        verify(add, renamed)
    with pytest.raises(ValueError, match="another number of positional parameters"):
        verify(add, fewer)


def test_hidden_variables_of_comprehensions_stay_hidden() -> None:
    code = compile("seen = [sorted(locals()) for hidden in [1]]", "<test>", "exec")
    expected: dict[str, Any] = {}
    found: dict[str, Any] = {}
    exec(code, expected)
    exec(Bytecode.from_code(code).assemble(), found)
    assert found["seen"] == expected["seen"]


def test_listing_names_instructions_operands_and_labels() -> None:
    def sample(values: list[int]) -> int:
        total = 0
        for value in values:
            total += value
        return total

    text = listing(sample)
    assert text == listing(sample)
    assert text.startswith("code test_listing_names_instructions_operands_and_labels.<locals>.sample, ")
    rows = [row.split() for row in text.splitlines()]
    assert any(row[-2:] == ["0", "total"] or row[-3:-1] == ["STORE_FAST", "1"] for row in rows)
    assert any("FOR_ITER" in row and "->" in row for row in rows)
    assert any(row[-1] == "+=" for row in rows)
    if sys.version_info >= (3, 13):
        assert "[LOAD_FAST_LOAD_FAST]" in listing(add)


def test_listing_shows_the_exception_table() -> None:
    def sample() -> None:
        try:
            print()
        finally:
            print()

    assert "exceptions:\n" in listing(sample)
    assert "with lasti" in listing(sample)


def test_dis_of_a_source_lists_its_functions() -> None:
    shown = evalframe.dis("def f(x):\n    return x\n")
    output = str(shown)
    assert repr(shown) == output.rstrip("\n") and len(list(shown.json())) == sum("<td" in row for row in shown._repr_html_().split("<tr>"))
    assert "code <module>, <source>:1" in output
    assert "<code f>" in output
    assert "code f, <source>:1" in output
    assert "0x" not in output


def test_dis_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "program.py"
    path.write_text("def outer():\n    def inner(): return 1\n    return inner\nclass K:\n    def m(self): pass\n")
    assert main(["dis", f"{path}:K.m"]) == 0
    assert capsys.readouterr().out.startswith(f"code K.m, {path}:5\n")
    assert main(["dis", f"{path}:outer.inner"]) == 0
    assert main(["dis", str(path)]) == 0
    assert main(["dis", "-c", "x = 1"]) == 0
    capsys.readouterr()
    assert main(["dis", f"{path}:nothing"]) == 2
    assert "has no function 'nothing'; its functions are: outer, outer.inner, K, K.m" in capsys.readouterr().err
    assert main(["dis", str(tmp_path / "missing.py")]) == 2
    assert "can't open file" in capsys.readouterr().err
    assert main(["dis", "-c", "x ="]) == 2
