"""Hostile code objects for the decompiler: real ones, damaged in every way that CPython lets a code object be made.

``python tests/mutants.py [--mutants N] [--seed S] [--of KIND]`` decompiles N of them, of the standard library's code, by structure and as state
machines. Each must give source or a reason; one that crashes, or takes longer than ten seconds (``--limit``, for a build with sanitizers), is told by
its number, which ``--only NUMBER`` makes again.
"""

from __future__ import annotations

import argparse
import dis
import faulthandler
import inspect
import os
import random
import signal
import sys
import time
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random

from evalframe import _core

MODULES = ["ast", "bdb", "contextlib", "dataclasses", "json/decoder", "tarfile", "test/test_generators", "test/test_patma", "asyncio/base_events"]
LIMIT = 10  # seconds of the processor's for one
# What CPython puts into code itself, for tools and executors, it takes for its own.
FIRST_OF_TOOLS = 236
OF_EXECUTORS = dis.opmap.get("ENTER_EXECUTOR", -1)  # 3.13
OPCODES = [number for number in dis.opmap.values() if number < FIRST_OF_TOOLS and number != OF_EXECUTORS]
# It reads, and writes, behind the end of code whose last instructions have other caches than those that stand there.
TAIL = bytes([dis.opmap["NOP"], 0]) * 32
WAITS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
#: What may be damaged.
KINDS: dict[str, Callable[[types.CodeType], bool]] = {
    "all": lambda code: True,
    "classes": lambda code: "__qualname__" in code.co_names[:3] and not code.co_flags & inspect.CO_OPTIMIZED,
    "generators": lambda code: bool(code.co_flags & WAITS),
}


def inner(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from inner(constant)


@cache
def originals(kind: str = "all") -> list[types.CodeType]:
    found: list[types.CodeType] = []
    for name in MODULES:
        path = Path(os.__file__).parent / f"{name}.py"
        if path.exists():
            found += inner(compile(path.read_bytes(), str(path), "exec", dont_inherit=True))
    return [code for code in found if len(code.co_code) < 4000 and KINDS[kind](code)]


def with_bytes(text: bytes, r: Random) -> bytes:
    changed = bytearray(text)
    for _ in range(r.randint(1, 3)):
        if not changed:
            return bytes([r.randrange(256)])
        changed[r.randrange(len(changed))] = r.randrange(256)
    return bytes(changed)


def starts_of(code: types.CodeType) -> list[int]:
    """Where instructions begin: caches are zero."""
    return [at for at in range(0, len(code.co_code), 2) if 0 < code.co_code[at] < FIRST_OF_TOOLS]


def with_units(code: types.CodeType, r: Random, change: Callable[[bytearray, int], None]) -> types.CodeType:
    units = bytearray(code.co_code)
    starts = starts_of(code)
    for _ in range(r.randint(1, 3)):
        change(units, r.choice(starts))
    return code.replace(co_code=bytes(units) + TAIL)


def other_instruction(code: types.CodeType, r: Random) -> types.CodeType:
    return with_units(code, r, lambda units, at: units.__setitem__(at, r.choice(OPCODES)))


def other_argument(code: types.CodeType, r: Random) -> types.CodeType:
    return with_units(code, r, lambda units, at: units.__setitem__(at + 1, r.choice([0, 1, 2, 3, 255, r.randrange(256)])))


def missing_instruction(code: types.CodeType, r: Random) -> types.CodeType:
    return with_units(code, r, lambda units, at: units.__setitem__(slice(at, at + 2), TAIL[:2]))


def truncated(code: types.CodeType, r: Random) -> types.CodeType:
    # CPython itself writes behind the end of code that is cut in the midst of an instruction's caches.
    ends = starts_of(code)[1:]
    return code.replace(co_code=code.co_code[: r.choice(ends)])


def number(value: int, first: bool) -> bytes:
    """As the exception table has it: six bits a byte, the first of a row marked."""
    digits = [value & 63]
    while value := value >> 6:
        digits.append(value & 63)
    text = bytearray(digit | 64 for digit in reversed(digits))
    text[-1] &= 63
    text[0] |= 128 if first else 0
    return bytes(text)


def other_handlers(code: types.CodeType, r: Random) -> types.CodeType:
    """Rows of its own: handlers inside of what they handle, behind the code, with any depth."""
    units, rows, at = len(code.co_code) // 2, b"", 0
    for _ in range(r.randint(1, 4)):
        start = at + r.randrange(max(units - at, 1))
        size = r.randint(1, max(units - start, 1))
        at = start + size
        depth_and_lasti = r.randrange(12)
        rows += number(start, True) + number(size, False) + number(r.randrange(units + 2), False) + number(depth_and_lasti, False)
    return code.replace(co_exceptiontable=rows)


def damaged_handlers(code: types.CodeType, r: Random) -> types.CodeType:
    return code.replace(co_exceptiontable=with_bytes(code.co_exceptiontable, r))


def damaged_bytes(code: types.CodeType, r: Random) -> types.CodeType:
    changed = bytearray(with_bytes(code.co_code, r))
    for at in range(0, len(changed), 2):
        if changed[at] >= FIRST_OF_TOOLS or changed[at] == OF_EXECUTORS:
            changed[at] = dis.opmap["NOP"]
    return code.replace(co_code=bytes(changed) + TAIL)


def damaged_lines(code: types.CodeType, r: Random) -> types.CodeType:
    return code.replace(co_linetable=with_bytes(code.co_linetable, r))


def other_constants(code: types.CodeType, r: Random) -> types.CodeType:
    constants = list(code.co_consts)
    r.shuffle(constants)
    deep: object = ()
    for _ in range(2000):
        deep = (deep,)
    odd = [object(), deep, 10**5000, "\ud800", float("nan"), -0.0, frozenset({()}), r.choice(originals()), b"\0", ..., type]
    for at in range(len(constants)):
        if r.random() < 0.1:
            constants[at] = r.choice(odd)
    return code.replace(co_consts=tuple(constants))


def other_names(code: types.CodeType, r: Random) -> types.CodeType:
    odd = ["", "a b", "None", "\ud800", "def", ".0", "__class__", "x\ny", "é"]
    return code.replace(co_names=tuple(r.choice(odd) if r.random() < 0.2 else name for name in code.co_names))


def other_variables(code: types.CodeType, r: Random) -> types.CodeType:
    odd = ["", "a b", "None", "\ud800", "def", "__class__", *code.co_varnames]
    return code.replace(co_varnames=tuple(r.choice(odd) if r.random() < 0.2 else name for name in code.co_varnames))


def other_head(code: types.CodeType, r: Random) -> types.CodeType:
    return r.choice(
        [
            lambda: code.replace(co_stacksize=r.choice([0, 1, 2, 10_000])),
            lambda: code.replace(co_flags=code.co_flags ^ (1 << r.randrange(10))),
            lambda: code.replace(co_argcount=r.randrange(5)),
            lambda: code.replace(co_name=r.choice(["<lambda>", "<listcomp>", "<genexpr>", "a b", "", "\ud800"])),
            lambda: code.replace(co_firstlineno=r.choice([0, -5, 2**31 - 1])),
        ]
    )()


DAMAGES = [
    other_instruction, other_argument, missing_instruction, truncated, other_handlers, damaged_handlers, damaged_bytes, damaged_lines, other_constants,
    other_names, other_variables, other_head,
]  # fmt: skip


def mutant(seed: int, number: int, kind: str = "all") -> types.CodeType | None:
    """None where CPython makes no such code object."""
    r = Random(f"{seed} {number}")
    code = r.choice(originals(kind))
    try:
        for _ in range(r.choice([1, 1, 2])):
            code = r.choice(DAMAGES)(code, r)
    except (ValueError, IndexError, SystemError):  # SystemError: more parameters than variables, in 3.11
        return None
    return code


def decompiled(code: types.CodeType) -> list[str]:
    """How it came out, both ways."""
    told = []
    for machines in (False, True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            source, rows, _ = _core.decompiler.decompile(code, [], [], machines=machines)
        if (source is None) != (rows[0][1] == "refused") or any(status == "refused" and not why for _, status, why in rows[:1]):
            raise AssertionError(f"neither source nor a reason: {rows[0]}")
        told.append(rows[0][1])
    return told


def run(seed: int, numbers: range, limit: float = LIMIT, kind: str = "all") -> Counter[str]:
    found: Counter[str] = Counter()
    for number in numbers:
        code = mutant(seed, number, kind)
        if code is None:
            found["no code object"] += 1
            continue
        started = time.process_time()
        try:
            found.update(decompiled(code))
        except Exception as error:
            raise AssertionError(f"mutant {number} of seed {seed}: {error!r}") from error
        if time.process_time() - started > limit:
            raise AssertionError(f"mutant {number} of seed {seed} took more than {limit} s")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--of", choices=list(KINDS), default="all", dest="kind")
    parser.add_argument("--only", type=int, metavar="NUMBER")
    parser.add_argument("--limit", type=int, default=LIMIT, metavar="SECONDS")
    options = parser.parse_args()
    faulthandler.enable()
    found: Counter[str] = Counter()
    begun = time.perf_counter()
    for number in range(options.mutants) if options.only is None else [options.only]:
        if number % 500 == 0 or options.only is not None:
            print(f"from {number}", flush=True)
        # Ends the process where it hangs; on a busy machine waiting isn't hanging.
        signal.setitimer(signal.ITIMER_PROF, 6 * options.limit)
        found += run(options.seed, range(number, number + 1), options.limit, options.kind)
    print(f"{options.mutants} mutants in {time.perf_counter() - begun:.0f} s: {dict(found)}")
    return 0


if __name__ == "__main__":
    random.seed(0)
    sys.exit(main())
