"""Decoding and encoding again gives the same code object, for the standard library of the running version."""

import opcode
import os
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from evalframe import _core

LIBRARY = Path(os.__file__).parent
SAMPLE = [
    "argparse",
    "ast",
    "asyncio/base_events",
    "asyncio/tasks",
    "bdb",
    "calendar",
    "codecs",
    "collections/__init__",
    "contextlib",
    "copy",
    "csv",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "doctest",
    "enum",
    "fractions",
    "functools",
    "heapq",
    "inspect",
    "json/decoder",
    "pickle",
    "re/_parser",
    "statistics",
    "tarfile",
    "test/test_generators",
    "test/test_grammar",
    "test/test_patma",
    "test/test_with",
    "typing",
]


def code_objects(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from code_objects(constant)


def check_file(path: Path) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            module = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return 0  # test data that isn't Python 3
    codes = list(code_objects(module))
    for code in codes:
        again = _core.bytecode.round_trip(code)
        for attribute in ("co_code", "co_exceptiontable", "co_linetable", "co_stacksize", "co_consts", "co_names"):
            assert getattr(again, attribute) == getattr(code, attribute), (attribute, code)
        assert _core.bytecode.stack_size(code) <= code.co_stacksize, code  # less where the compiler saw dead code
        assert list(again.co_positions()) == list(code.co_positions()), code
    return len(codes)


@pytest.mark.parametrize("module", SAMPLE)
def test_round_trip_of_a_sample(module: str) -> None:
    path = LIBRARY / f"{module}.py"
    if not path.exists():
        pytest.skip(f"not in the library of Python {sys.version_info.major}.{sys.version_info.minor}")
    assert check_file(path) > 0


@pytest.mark.slow
def test_round_trip_of_the_whole_standard_library(share: int) -> None:
    files = [path for path in sorted(LIBRARY.rglob("*.py")) if "site-packages" not in path.parts]
    assert sum(check_file(path) for path in files[::share]) > 10_000 // share


def test_running_code_is_decoded_as_it_was_compiled() -> None:
    def loop() -> int:
        total = 0
        for i in range(1000):
            total += i
        return total

    before = _core.bytecode.round_trip(loop.__code__).co_code
    for _ in range(100):
        loop()
    assert _core.bytecode.round_trip(loop.__code__).co_code == before


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (bytes([opcode.opmap["NOP"], 0, opcode.EXTENDED_ARG, 1]), "ends in the middle"),
        (bytes([opcode.opmap["JUMP_FORWARD"], 200]), "a jump to where no instruction starts"),
        (bytes([opcode.opmap["CACHE"], 0]), "inline cache"),
    ],
)
def test_bytecode_that_no_compiler_makes_is_refused(code: bytes, problem: str) -> None:
    broken = (lambda: None).__code__.replace(co_code=code)
    with pytest.raises(ValueError, match=problem):
        _core.bytecode.round_trip(broken)
