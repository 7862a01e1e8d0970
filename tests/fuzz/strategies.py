"""The strategies: what sort of programs each writes, by seed or as hypothesis chooses."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from random import Random
from typing import Any

from fuzz.definitions import Definitions

COMMON = {"note": 8, "expression": 3, "assign": 9, "annotated": 1, "augment": 4, "unpack": 4, "delete": 2, "store_item": 1, "check": 1, "if": 5, "for": 4, "while": 2, "try": 4, "with": 2,
          "def": 5, "raise": 2, "reraise": 1, "return": 2, "break": 2, "continue": 2, "yield": 4, "delegate": 2, "await": 4, "async_for": 3, "async_with": 3, "outside": 1, "call": 5,
          "generator_object": 2, "generator_use": 3, "class": 1, "instance": 1, "instance_use": 3, "match": 1, "execute": 1, "import": 1, "closure": 1, "hot_loop": 1, "type_alias": 0,
          "star_import": 0, "text": 1, "changing": 1, "long": 0, "callback": 2, "frame": 2, "watch": 0}  # fmt: skip
THEMES: dict[str, dict[str, int]] = {
    "generators": {"generators": 30, "yield": 10, "delegate": 6, "generator_object": 6, "generator_use": 10, "def": 8},
    "exceptions": {"try": 16, "raise": 8, "reraise": 4, "with": 8, "return": 5, "break": 4, "continue": 4, "star": 30},
    "closures": {"closure": 12, "outside": 8, "def": 10, "delete": 5, "class": 3},
    "classes": {"class": 12, "instance": 5, "instance_use": 14, "metaclass": 25, "hot_loop": 3},
    "coroutines": {"coroutines": 40, "async_generators": 20, "await": 10, "async_for": 8, "async_with": 8, "def": 8, "yield": 6},
    "matching": {"match": 20, "class": 4, "instance": 3},
    "calls": {"def": 14, "callback": 10, "frame": 6, "call": 16, "hot_loop": 4},
    "names": {"unpack": 12, "delete": 8, "execute": 8, "import": 4, "text": 5, "long": 2, "changing": 4, "augment": 8, "assign": 14, "annotated": 5, "star_import": 2, "expression": 10},
    "caches": {"hot_loop": 20, "class": 6, "instance": 5, "def": 8, "instance_use": 6},
    "tools": {"watch": 14, "generators": 6, "def": 8, "try": 8, "callback": 4},
    "generics": {"type_alias": 12, "generic": 60, "class": 6, "def": 10},
    "arrays": {"arrays": 20, "assign": 14, "def": 10, "call": 10, "for": 6, "if": 6, "try": 6, "with": 3, "closure": 3, "class": 2, "instance": 2, "generators": 4, "hot_loop": 0},
    "mixed": {"class": 4, "match": 4, "closure": 3, "generators": 8, "coroutines": 6, "async_generators": 4, "try": 8, "hot_loop": 2, "star": 15, "generic": 10, "callback": 4, "frame": 4, "changing": 2},
}
VERSION = sys.version_info[:2]
ATTEMPTS = 50


def text(random: Random, theme: str, size: int) -> str:
    """A program's text; not always one that compiles. `size`: statements, roughly."""
    writer = Definitions(random, {**COMMON, **THEMES[theme]}, VERSION, size)
    writer.line("a, b, c, d, e = 1, 2, [1, 2], Magic(1), None")
    if writer.has_arrays:
        writer.line("f, g = np.arange(6.0) - 2, np.arange(6)")
    writer.scope.own = list(writer.variables)
    writer.scope.names = list(writer.variables)
    while writer.budget > 0:
        writer.statement()
    if writer.has_arrays:
        call_again(writer)
    return "\n".join(writer.lines) + "\n"


def call_again(writer: Definitions) -> None:
    """Each function of the program once more, thrice: what was recorded serves."""
    for function in [each for each in writer.scope.functions if each.kind == "function"]:
        with writer.block("for z in range(3):"), writer.block("try:"):
            writer.line(f"note({writer.called(function, 2)})")
        writer.lines += ["    except Exception as x:", "        note(x)"]


def compiles(source: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "<program>", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def program(random: Random, theme: str) -> str:
    for _ in range(ATTEMPTS):
        source = text(random, theme, random.choice([12, 20, 35, 50]))
        if compiles(source):
            return source
    return "pass\n"


def maker(theme: str) -> Callable[[Random], str]:
    return lambda random: program(random, theme)


def hypothesis_strategy(theme: str, size: int) -> Any:
    """The same for hypothesis, which makes the choices and shrinks what differs."""
    from hypothesis import strategies

    return strategies.randoms(use_true_random=False).map(lambda random: text(random, theme, size)).filter(compiles)


STRATEGIES = {theme: maker(theme) for theme in THEMES}
