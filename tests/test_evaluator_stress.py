"""Threads, signals, depth, finalizers, collections and greenlets: programs come to the same evaluated as plain (`evaluator_stress/`)."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent / "evaluator_stress"
AREAS = ["threads", "signals", "depth", "lifetimes", "switches"]
SLOW = {
    ("lifetimes", "memory_is_flat_over_millions_of_calls"),
    ("threads", "evaluation_comes_and_goes"),
    ("threads", "daemons_at_exit"),
    ("threads", "daemons_and_an_error"),
    ("signals", "asynchronous_exceptions_in_many_threads"),
}
TIMEOUT = 240


def cases(area: str) -> list[Any]:
    """The public functions of the module, without importing it: it may want what isn't installed."""
    tree = ast.parse((FOLDER / f"{area}.py").read_text())
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    if area == "threads":
        kinds = next(node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "REBINDINGS")
        assert isinstance(kinds, ast.Dict)
        names += [f"rebinding_of_{ast.literal_eval(key)}" for key in kinds.keys if key]
    marks = {name: [pytest.mark.slow] if (area, name) in SLOW else [] for name in names}
    return [pytest.param(area, name, marks=marks[name], id=f"{area}-{name}") for name in names]


def start(*arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-X", "faulthandler", "-W", "ignore", str(FOLDER / "run.py"), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def finished(process: subprocess.Popen[str]) -> str:
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"hangs: {process.communicate()}") from None
    assert process.returncode == 0, (process.returncode, out[-1000:], err[-3000:])
    return out


def both(area: str, case: str) -> tuple[str, str]:
    """What it comes to plain and evaluated."""
    plain, evaluated = start(area, case), start(area, case, "evaluated")
    try:
        return finished(plain), finished(evaluated)
    finally:
        for process in (plain, evaluated):
            process.kill()


@pytest.mark.mostly_slow(3)
@pytest.mark.parametrize(("area", "case"), [case for area in AREAS for case in cases(area)])
def test_comes_to_the_same(area: str, case: str) -> None:
    if area == "switches" and not importlib.util.find_spec("greenlet"):
        pytest.skip("greenlet is not installed")
    plain, evaluated = both(area, case)
    assert evaluated == plain


# Here one level of recursion of CPython's takes two of the limit: the call of the class and that of __init__.
CONSTRUCTIONS = {"init", "super"}


def test_recursion_ends_where_it_does_in_cpython() -> None:
    plain, evaluated = (ast.literal_eval(told) for told in both("depth", "_texts_and_depths"))
    assert plain.keys() == evaluated.keys()
    shallower = {key: (plain[key], evaluated[key]) for key in plain if evaluated[key][1] < plain[key][1] - 1}
    assert not shallower
    if sys.version_info < (3, 12):  # there C code has no budget of its own
        assert {key for key in plain if plain[key][1] != evaluated[key][1] and key[0] not in CONSTRUCTIONS} == set()


def test_recursion_in_small_stacks_ends_with_recursion_error() -> None:
    told = ast.literal_eval(finished(start("depth", "_endless_in_small_stacks", "evaluated")))
    assert len(told) > 100 and {text.split(" exceeded")[0] for _, _, text in told} == {"maximum recursion depth"}
