"""Larger programs, whose every Python function runs in our evaluator: the standard library as it is."""

from __future__ import annotations

import ast
import collections
import dataclasses
import decimal
import difflib
import fractions
import functools
import importlib
import inspect
import io
import json
import pprint
import random
import re
import statistics
import string
import sys
import textwrap
import tokenize
from collections.abc import Callable
from typing import Any

import pytest

from evalframe import _core


def unparse() -> str:
    return ast.unparse(ast.parse(inspect.getsource(textwrap)))


def tokens() -> int:
    return len(list(tokenize.generate_tokens(io.StringIO(inspect.getsource(string)).readline)))


def json_roundtrip() -> Any:
    encoder = json.encoder._make_iterencode  # type: ignore[attr-defined]
    data = {"a": [1, 2.5, None, True, {"b": "ü\n"}], "c": []}
    text = json.dumps(data, indent=2, sort_keys=True)
    return encoder.__name__, text, json.loads(text)


def compiled_patterns() -> Any:
    re.purge()
    return [re.match(pattern, "abc123xyz") is not None for pattern in (r"[a-c]+\d{2,}(?P<rest>.*)$", r"(a|b)*?c(?=1)", r"\W")]


def wrapped_text() -> list[str]:
    return textwrap.wrap("the quick brown fox jumps over the lazy dog " * 5, 30)


def differences() -> list[str]:
    return list(difflib.unified_diff("a b c d e".split(), "a c d x e".split(), lineterm=""))


def exact_numbers() -> Any:
    pydecimal = importlib.import_module("_pydecimal")
    value = fractions.Fraction(1, 3) + fractions.Fraction("2/7") ** 3
    return value, statistics.stdev([1, 2, 3.5]), pydecimal.Decimal(2).sqrt(), pydecimal.Decimal("1.1") / 7, decimal.Decimal(1)


def pseudo_random() -> Any:
    source = random.Random(5)
    values = list(range(20))
    source.shuffle(values)
    return values, source.sample(values, 5), source.gauss(0, 1), source.choices(values, k=3)


@dataclasses.dataclass(order=True)
class Record:
    name: str
    values: list[int] = dataclasses.field(default_factory=list)


def records() -> Any:
    made = dataclasses.make_dataclass("Made", [("x", int, 5)])
    pair = collections.namedtuple("pair", "left right")
    a, b = Record("a", [1]), Record("b")
    return a < b, a, dataclasses.asdict(a), dataclasses.replace(a, name="c"), made(), pair(1, right=2)._replace(left=3)


def signatures() -> str:
    return str(inspect.signature(inspect.signature)) + pprint.pformat({i: list(range(i)) for i in range(12)}, width=40)


def caches() -> Any:
    @functools.lru_cache
    def fibonacci(n: int) -> int:
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    @functools.singledispatch
    def kind(value: object) -> str:
        return "object"

    @kind.register
    def _(value: int) -> str:
        return "int"

    return fibonacci(60), kind(1), kind("x"), functools.reduce(lambda a, b: a * b, range(1, 10))


def sudoku_like() -> list[list[int]]:
    """Backtracking with closures, sets and early returns: eight queens."""
    solutions: list[list[int]] = []

    def place(row: int, columns: list[int]) -> None:
        if row == 6:
            solutions.append(columns)
            return
        for column in range(6):
            if all(column != c and abs(column - c) != row - r for r, c in enumerate(columns)):
                place(row + 1, [*columns, column])

    place(0, [])
    return solutions


PROGRAMS: list[Callable[[], Any]] = [
    unparse, tokens, json_roundtrip, compiled_patterns, wrapped_text, differences, exact_numbers, pseudo_random, records,
    signatures, caches, sudoku_like,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_gives_the_same_in_our_evaluator(program: Callable[[], Any]) -> None:
    expected = repr(program())
    assert repr(_core.evaluate_deep(program)) == expected
    assert sys.exc_info() == (None, None, None)
