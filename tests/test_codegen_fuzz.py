"""Transformed code of generated programs: breaks in calls, branches, loops, handlers and with blocks, left everywhere."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import evalframe
from evalframe.codegen import run_transformed
from helpers import leaving_before
from test_codegen import LOG, A, B, Manager, note, outcome, raise_if, same

SIMPLE = [
    "x = x + y * 2",
    "x, y = y, x - y",
    "z = [x, y, z]",
    "x += 1.5",
    "z = (x, note('tuple', 2.0) * y)",
    "note('call', x.shape)",
    "y = helper(x, y)",
    "y = y / (np.abs(x) + 1)",
    "z = note('in', 1), x, y",
    "raise_if(y, x)",
    "x = x @ np.ones(3)",
    "z = (lambda v: v + y)(x)",
    "y = [v + y for v in (x, note('each', y))][1]",
    "add = lambda v, scale=2.0: v * scale + x",
    "y = add(y) if 'add' in dir() else y",
    "z = [add for add in enumerate([x, y])]",
]
BLOCKS = [
    "if x.sum() > {number}:",
    "for k in range(3):",
    "for k in map(float, (1, 2)):",
    "while y.max() > {number} and note('turn', len(LOG)) < 12:",
    "with Manager():",
]
HELPER = """
def helper(p, q):
    r = p * q
    note('helper', 1)
    return r + p
"""


@st.composite
def programs(draw: Any) -> str:
    def block(depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(draw(st.integers(1, 4 if depth == 0 else 2))):
            kind = draw(st.integers(0, 5)) if depth < 2 else 0
            if kind < 3:
                lines.append(draw(st.sampled_from(SIMPLE)))
            elif kind < 5:
                lines.append(draw(st.sampled_from(BLOCKS)).format(number=draw(st.integers(-5, 30))))
                lines += ["    " + line for line in block(depth + 1)]
            else:
                lines += ["try:", *("    " + line for line in block(depth + 1))]
                lines += ["except ValueError as error:", "    note('caught', str(error))"]
                lines += ["    " + line for line in block(depth + 1)]
                lines += ["finally:", "    note('finally', 1)"]
        return lines

    body = "\n".join("    " + line for line in [*block(0), "return x, y, z"])
    return f"{HELPER}\ndef program(x, y):\n    z = 1.0\n{body}\n"


def function_of(source: str) -> Callable[..., Any]:
    namespace: dict[str, Any] = {"np": np, "note": note, "raise_if": raise_if, "Manager": Manager, "LOG": LOG}
    linecache.cache["<program>"] = (len(source), None, source.splitlines(keepends=True), "<program>")
    exec(compile(source, outcome.__code__.co_filename, "exec"), namespace)
    program: Callable[..., Any] = namespace["program"]
    return program


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_transformed_code_of_generated_programs(source: str) -> None:
    program = function_of(source)
    calls = [(A, B), (A, -B), (-A, B)]
    jit = evalframe.jit(program, backend="reference")
    for arguments in calls:
        outcome(jit, arguments)
    callback = run_transformed(jit)
    for node in (-1, 0, 1, 2, 4):
        for arguments in calls:
            expected = outcome(program, arguments)
            with evalframe.hook(callback), leaving_before(node):
                found = outcome(program, arguments)
            assert same(found, expected)
