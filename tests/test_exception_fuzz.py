"""Generated programs that raise, catch and look, with arrays in between: as plain Python's, left at each of the first nodes."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from helpers import leaving_before

A, B = np.linspace(-1.0, 2.0, 3), np.arange(3.0) - 3

PRELUDE = """
import sys, traceback
class E0(Exception):
    def __init__(self, a, b=2):
        super().__init__(a, b)
        self.a = a
class E1(ValueError):
    pass
class Manager:
    def __init__(self, catches, number):
        self.catches = catches
        self.number = number
    def __enter__(self):
        return self.number
    def __exit__(self, kind, error, trace):
        {at_exit}
        return kind is not None and issubclass(kind, self.catches)
def look():
    return str(sys.exc_info()[1]), traceback.format_exc().count("line")
"""

RAISES = [
    "raise ValueError(3)",
    "raise E0(4)",
    "raise E1",
    "raise KeyError('k', x.ndim)",
    "q = {}['m']",
    "q = 1 // (x.ndim - 1)",
    "q = x.nope",
    "q = [1][3]",
]
RAISES_AGAIN = ["raise", "raise E0(1) from error", "raise ValueError('n') from None", "raise error", "raise E1('z')"]
LOOKS = [
    "seen.append(str(error))",
    "kept = error",
    "error.add_note('n')",
    "seen.append(error)",
    "x = x + len(error.args)",
]
AT_EXIT = ["pass", "look()", "self.number = self.number + 1"]


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


class Writer:
    """Writes one program; `handling`: an exception named `error` is being handled."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.functions: list[str] = []
        self.count = 0

    def block(self, depth: int, handling: bool, in_loop: bool) -> list[str]:
        return sum((self.statement(depth, handling, in_loop) for _ in range(self.random.randint(1, 3))), [])

    def simple(self, handling: bool) -> str:
        choose = self.random.choice
        kind = self.random.randint(0, 7)
        if kind <= 2:
            return f"x = x {choose('+-*')} {choose('y12x')}"
        if kind == 3:
            return f"if x.sum() > {self.random.randint(-5, 5)}: x = x - y"
        if kind == 4:
            return "seen.append(look())"
        if kind == 5 and handling:
            return choose(LOOKS)
        return choose(RAISES + RAISES_AGAIN if handling else RAISES)

    def attempt(self, depth: int, handling: bool, in_loop: bool) -> list[str]:
        lines = ["try:", *indented(self.block(depth, handling, in_loop))]
        kinds = self.random.sample(
            ["ValueError", "E0", "(KeyError, E1)", "ZeroDivisionError"], self.random.randint(0, 2)
        )
        for kind in [*kinds, "Exception"] if self.random.random() < 0.6 else kinds:
            lines += [f"except {kind} as error:", *indented(self.block(depth, True, in_loop))]
        catches = any(line.startswith("except") for line in lines)
        if catches and self.random.random() < 0.3:
            lines += ["else:", *indented(self.block(depth, False, in_loop))]
        if not catches or self.random.random() < 0.3:
            lines += ["finally:", *indented(self.block(depth, False, False))]
        return lines

    def function(self, depth: int) -> list[str]:
        name = f"helper{self.count}"
        self.count += 1
        body = self.block(depth, False, False)
        self.functions += [f"def {name}(x, y, seen):", "    kept = None", *indented(body), "    return x"]
        return [f"x = {name}(x, y, seen)"]

    def statement(self, depth: int, handling: bool, in_loop: bool) -> list[str]:
        kind = self.random.random()
        if depth == 0 or kind < 0.45:
            return [self.simple(handling)]
        if kind < 0.72:
            return self.attempt(depth - 1, handling, in_loop)
        if kind < 0.8:
            catches = self.random.choice(["E0", "ValueError", "(KeyError, E1)", "Exception"])
            return [f"with Manager({catches}, 2) as q:", *indented(self.block(depth - 1, handling, in_loop))]
        if kind < 0.87:
            return [
                f"for i in range({self.random.randint(1, 3)}):",
                *indented(self.block(depth - 1, handling, True)),
                "    x = x + i",
            ]
        if kind < 0.9:
            return [self.random.choice(["break", "continue"]) if in_loop else "return x, seen"]
        return self.function(depth - 1)

    def program(self) -> str:
        body = self.block(4, False, False) + self.block(3, False, False)
        lines = ["def program(x, y):", "    seen = []", "    kept = None", *indented(body), "    return x, seen, kept"]
        return PRELUDE.format(at_exit=self.random.choice(AT_EXIT)) + "\n".join(self.functions + lines) + "\n"


def text_of(value: Any) -> str:
    return repr(value) if isinstance(value, (np.ndarray, int, float, str, tuple, type(None))) else type(value).__name__


def has_its_place(error: BaseException) -> bool:
    """CPython 3.11 gives this error the place of the instruction before, once it has made one of the two: docs/limits.md."""
    return sys.version_info >= (3, 12) or not isinstance(error, UnboundLocalError)


def described(value: Any, depth: int = 0) -> Any:
    """All that can be seen of exceptions, with the variables of the frames in their tracebacks; other values as text."""
    if isinstance(value, (list, tuple)):
        return [described(part, depth) for part in value]
    if not isinstance(value, BaseException) or depth > 4:
        return text_of(value)
    frames = []
    entry = value.__traceback__
    while entry:
        frame = entry.tb_frame
        position = list(frame.f_code.co_positions())[entry.tb_lasti // 2]
        caller = frame.f_back.f_code.co_name if frame.f_back else None
        variables = sorted((name, text_of(value)) for name, value in frame.f_locals.items() if name != "seen")
        if frame.f_code.co_filename != __file__:
            places = (entry.tb_lineno, frame.f_lineno, position) if has_its_place(value) else None
            frames.append((frame.f_code.co_name, places, variables, caller))
        entry = entry.tb_next
    own = {name: text_of(of) for name, of in vars(value).items()}
    chain = described(value.__context__, depth + 1), described(value.__cause__, depth + 1), value.__suppress_context__
    return type(value), value.args, frames, chain, own


def told(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        value = function(*arguments)
    except Exception as error:
        return "raised", described(error) if has_its_place(error) else error.args
    assert sys.exc_info()[1] is None
    return described(value)


def told_in_handler(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        raise OSError("around")
    except OSError as around:
        try:
            value = function(*arguments)
        except Exception as error:
            return "raised", described(error) if has_its_place(error) else error.args
        assert sys.exc_info()[1] is around
        return described(value)


def check(seed: int, nodes: int) -> None:
    source = Writer(seed).program()
    names: dict[str, Any] = {}
    exec(compile(source, f"<program {seed}>", "exec"), names)
    program = names["program"]
    for tell in (told, told_in_handler):
        plain = [tell(program, *arguments) for arguments in ((A, B), (B, A))]
        captured = evalframe.jit(program, backend="reference", max_entries=64)
        for node in [-1, -1, *range(nodes)]:
            with leaving_before(node):
                assert [tell(captured, *arguments) for arguments in ((A, B), (B, A))] == plain, (seed, node, source)


@pytest.mark.parametrize("seed", range(0, 100, 10))
def test_programs_that_raise(seed: int) -> None:
    for one in range(seed, seed + 10):
        check(one, 6)


@pytest.mark.slow
def test_many_programs_that_raise(share: int) -> None:
    for seed in range(100, 1100, share):
        check(seed, 8)
