"""Damaged code objects: the decompiler gives source that it has checked, or a reason, and never crashes or hangs."""

import dis
import random
import time
import types

import pytest

import evalframe
import mutants

FIRST_OF_TOOLS = 236

SOURCE = """
def loops(values, limit):
    for value in values:
        while value > limit:
            value -= 1
            if value == 3:
                break
        else:
            print(value and limit or 3)
    return [v for v in values if v]

def handlers(f, g):
    try:
        with f as h:
            return h(1 if g else 2)
    except ValueError as error:
        print(error)
    finally:
        g()

def generator(a, *b, **c):
    a, *d = yield from b
    x = y = f'{a!r:>{d}}'
    assert a < x < y, {1: 2, **c}
    yield lambda: (a, y)
"""


def functions() -> list[types.CodeType]:
    module = compile(SOURCE, "<fuzz>", "exec")
    return [module, *(constant for constant in module.co_consts if isinstance(constant, types.CodeType))]


def damaged(code: types.CodeType, random_: random.Random) -> types.CodeType:
    def bytes_of(text: bytes) -> bytes:
        changed = bytearray(text)
        for _ in range(random_.randint(1, 3)):
            if not changed:
                return bytes([random_.randrange(256)])
            place = random_.randrange(len(changed))
            changed[place] = random_.randrange(256)
        return bytes(changed)

    choice = random_.randrange(5)
    if choice == 0:
        return code.replace(co_exceptiontable=bytes_of(code.co_exceptiontable))
    if choice == 1:
        return code.replace(co_linetable=bytes_of(code.co_linetable))
    if choice == 2:
        # CPython itself writes behind the end of code that is cut in the midst of an instruction's caches.
        ends = [instruction.offset for instruction in dis.get_instructions(code)][1:]
        return code.replace(co_code=code.co_code[: random_.choice(ends)])
    if choice == 3:
        constants: list[object] = list(code.co_consts)
        random_.shuffle(constants)
        return code.replace(co_consts=tuple(constants))
    # As well as behind that of code whose last instructions have other caches than those that stand there. What it puts into code itself,
    # for tools and executors, it takes for its own there.
    tail = bytes([dis.opmap["NOP"], 0]) * 32
    changed = bytes_of(code.co_code)
    return code.replace(co_code=bytes(byte % 128 if byte >= FIRST_OF_TOOLS and i % 2 == 0 else byte for i, byte in enumerate(changed)) + tail)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_code_is_decompiled_or_refused(seed: int) -> None:
    random_ = random.Random(seed)
    codes = functions()
    refused = 0
    for _ in range(100):
        try:
            code = damaged(random_.choice(codes), random_)
        except ValueError:
            continue  # CPython makes no such code object
        started = time.process_time()
        report = evalframe.decompile_report(code)
        assert time.process_time() - started < 10
        assert {row.status for row in report.rows} <= {"exact", "equivalent", "state machine", "refused"}
        for row in report.rows:
            assert row.reason or row.status == "exact"
        refused += report.source is None
    assert refused > 10


def test_hostile_code_is_decompiled_or_refused() -> None:
    """`mutants.py` by itself makes them by the thousand, for AddressSanitizer as well."""
    found = mutants.run(1, range(250))
    assert found["refused"] > 100 and found["exact"] > 20 and found["state machine"] > 20


@pytest.mark.slow
def test_many_hostile_code_objects_are_decompiled_or_refused(share: int) -> None:
    mutants.run(2, range(5000 // share))


@pytest.mark.parametrize("source", ["lambda a, b: f'{a}{b}'", "lambda a, b: f'{a:{b}}'", "lambda a, b: f'{a:{b}x}'"])
def test_texts_that_are_put_together_of_variables(source: str) -> None:
    """BUILD_STRING without what formats its operands: resume functions have it, whose stack values are parameters."""
    code = eval(source).__code__
    instructions, units = list(dis.get_instructions(code)), bytearray(code.co_code)
    (last,) = [i for i in instructions if i.opname in ("BUILD_STRING", "FORMAT_WITH_SPEC") or (i.opname == "FORMAT_VALUE" and i.arg & 4)][-1:]
    for instruction in instructions:
        if instruction is not last and instruction.opname in ("FORMAT_VALUE", "FORMAT_SIMPLE"):
            units[instruction.offset : instruction.offset + 2] = bytes([dis.opmap["NOP"], 0])
    report = evalframe.decompile_report(code.replace(co_code=bytes(units)))
    assert report.rows[0].status == "refused" and "other than an f-string's parts" in report.rows[0].reason
