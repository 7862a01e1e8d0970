"""Random edits of code objects: what is assembled behaves or reads back as it was written; all else is refused by name."""

from __future__ import annotations

import copy
import json.decoder
import textwrap
import types
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalframe.bytecode import OPNAMES, Bytecode, Handler, Instruction, listing

FEW = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def search(values: list[int], wanted: int) -> Any:
    found = []
    try:
        for index, value in enumerate(values):
            if value == wanted:
                found.append(index)
            elif value < 0:
                raise ValueError(f"{value} at {index}")
    except ValueError as error:
        return str(error), found
    finally:
        found.append(-1)
    return [number * 2 for number in found], {**dict.fromkeys(found)}


def closing(start: int, *rest: int, step: int = 1) -> Any:
    total = start

    def add(value: int) -> int:
        nonlocal total
        total += value * step
        return total

    with memoryview(b"abc") as view:
        seen = [add(each) for each in (*rest, *view)]
    return seen, total, (lambda: total)()


def matching(value: Any) -> Any:
    match value:
        case {"kind": kind, **others}:
            return kind, others
        case [first, *_, last] if first is not last:
            return first, last
        case int() | str():
            return value
    return None


def generating(count: int) -> Any:
    received = yield count
    while received is None:
        count -= 1
        received = yield count
    return received


CALLS: list[tuple[Any, list[tuple[Any, ...]]]] = [
    (search, [([1, 2, 1], 1), ([3, -1], 3), ([], 0)]),
    (closing, [(1, 2, 3), (0,)]),
    (matching, [({"kind": 1, "other": 2},), ([1, 2, 3],), (5,), (2.5,)]),
]
POOL: list[types.FunctionType] = [
    search,
    closing,
    matching,
    generating,
    textwrap.dedent,
    copy.deepcopy,
    json.decoder.scanstring if isinstance(json.decoder.scanstring, types.FunctionType) else textwrap.wrap,
]


def outcome(function: Any, arguments: tuple[Any, ...]) -> Any:
    try:
        return "returned", function(*copy.deepcopy(arguments))
    except Exception as error:
        return "raised", type(error), str(error)


def harmless(draw: Any) -> list[Instruction]:
    """Instructions without an effect."""
    value = draw(st.sampled_from([None, 7, "text", (1, 2), 2.5]))
    kind = draw(st.sampled_from(["nop", "constant", "two", "variable", "jump", "many"]))
    load, pop = Instruction("LOAD_CONST", argval=value), Instruction("POP_TOP")
    if kind == "nop":
        return [Instruction("NOP")]
    if kind == "constant":
        return [load, pop]
    if kind == "two":
        return [load, Instruction("COPY", 1), Instruction("SWAP", 2), pop, Instruction("POP_TOP")]
    if kind == "variable":
        return [load, Instruction("STORE_FAST", argval=draw(st.sampled_from(["fresh", "newer"])))]
    if kind == "many":
        return [Instruction("NOP") for _ in range(draw(st.sampled_from([130, 300])))]
    end = Instruction("NOP")
    return [Instruction("JUMP_FORWARD", target=end), Instruction("NOP"), end]


def starts(body: Bytecode) -> list[Instruction]:
    """Where something can be inserted: behind the start, and not among what FOR_ITER skips or between fused halves."""
    places = []
    begun = False
    for before, each in zip([None, *body.instructions], body.instructions, strict=False):
        skipped = each.opname == "END_FOR" or (before is not None and (before.opname == "END_FOR" or before.fused))
        if begun and not skipped:
            places.append(each)
        begun = begun or each.opname == "RESUME"
    return places


@FEW
@given(st.data())
def test_code_with_harmless_insertions_behaves_as_before(data: st.DataObject) -> None:
    function, calls = data.draw(st.sampled_from(CALLS))
    body = Bytecode.from_code(function)
    for _ in range(data.draw(st.integers(1, 8))):
        place = data.draw(st.sampled_from(starts(body)))
        body.insert_before(place, *harmless(data.draw))
    made = types.FunctionType(body.assemble(), function.__globals__, function.__name__, function.__defaults__)
    made.__kwdefaults__ = function.__kwdefaults__
    for arguments in calls:
        assert outcome(made, arguments) == outcome(function, arguments)


def edit(data: st.DataObject, body: Bytecode) -> None:
    """One arbitrary change."""
    instructions = body.instructions
    each = data.draw(st.sampled_from(instructions))
    other = data.draw(st.sampled_from(instructions))
    kind = data.draw(st.integers(0, 8))
    number = data.draw(st.one_of(st.integers(-2, 40), st.sampled_from([255, 256, 65536, 2**31 - 1, 2**31, 2**40])))
    if kind == 0 and len(instructions) > 1:
        body.remove(each)
    elif kind == 1:
        body.insert_before(each, Instruction(data.draw(st.sampled_from(sorted(OPNAMES))), number, target=other))
    elif kind == 2:
        each.arg = number
    elif kind == 3:
        each.opname = data.draw(st.sampled_from(sorted(OPNAMES)))
    elif kind == 4:
        each.target = other
    elif kind == 5:
        each.handler = Handler(other, data.draw(st.integers(-1, 6)), data.draw(st.booleans()))
    elif kind == 6:
        each.arg2 = data.draw(st.integers(-1, 40))
    elif kind == 7:
        each.fused = not each.fused
    else:
        at, to = instructions.index(each), instructions.index(other)
        instructions[at], instructions[to] = instructions[to], instructions[at]


@FEW
@given(st.data())
def test_arbitrary_edits_are_assembled_or_refused(data: st.DataObject) -> None:
    function = data.draw(st.sampled_from(POOL))
    body = Bytecode.from_code(function)
    for _ in range(data.draw(st.integers(1, 4))):
        edit(data, body)
    try:
        code = body.assemble()
    except ValueError as error:
        assert function.__name__ in str(error)
        return
    again = Bytecode.from_code(code)
    assert [each.opname for each in again] == [each.opname for each in body]
    assert again.assemble().co_code == code.co_code
    assert listing(code).count("\n") >= len(again)


@FEW
@given(st.data())
def test_random_bytes_are_decoded_or_refused(data: st.DataObject) -> None:
    """Of the instructions only arguments change: CPython itself writes behind code that ends within an instruction."""
    code = data.draw(st.sampled_from(POOL)).__code__
    field = data.draw(st.sampled_from(["co_code", "co_linetable", "co_exceptiontable"]))
    raw = bytearray(getattr(code, field))
    for _ in range(data.draw(st.integers(1, 4)) if raw else 0):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at | 1 if field == "co_code" else at] = data.draw(st.integers(0, 255))
    if field != "co_code" and data.draw(st.booleans()):
        del raw[data.draw(st.integers(0, len(raw))) :]
    try:
        broken = code.replace(**{field: bytes(raw)})
        text = listing(broken)
        Bytecode.from_code(broken).assemble()
    except ValueError as error:
        assert str(error)
    else:
        assert text.startswith("code ")
