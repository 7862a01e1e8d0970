"""What several test files use: captured functions beside plain ones, graphs that are left early."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

import evalframe
from evalframe import _core

BACKENDS = ["reference", "native"]
_FUZZ = Path(__file__).parent / "fuzz" / "run.py"


def fuzz(mode: str, *arguments: str) -> None:
    """Generated programs, plain and in one of our ways, in a process of their own: none differs."""
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(_FUZZ), "--mode", mode, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]


def outcome(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a call came to: its value or exception with the lines of the traceback, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = ("value", function(*arguments))
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            here = [(frame.name, frame.lineno) for frame in frames if frame.name != "outcome"]
            result = ("raised", (type(error), str(error), here))
    return result, [(str(w.message), w.category, w.lineno) for w in caught]


def same(left: Any, right: Any) -> bool:
    """Equal, types included; elementary functions may differ in their last bits."""
    if type(left) is not type(right):
        return False
    if isinstance(left, deque) and left.maxlen != right.maxlen:
        return False
    if isinstance(left, (tuple, list, deque)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return same(list(left.items()), list(right.items()))
    if isinstance(left, np.ndarray):
        if left.dtype != right.dtype or left.shape != right.shape:
            return False
        if left.dtype.kind == "f":
            return np.allclose(left, right, rtol=1e-14, atol=0, equal_nan=True)
        return np.array_equal(left, right)
    if isinstance(left, float):
        return math.isclose(left, right, rel_tol=1e-14) or left == right or (left != left and right != right)
    return bool(left == right)


@contextmanager
def leaving_before(node: int) -> Iterator[list[int]]:
    """Every graph is left before this node; -1: nowhere. The list then holds how many were."""
    _core.set_leave_before(node)
    graphs_left: list[int] = []
    try:
        yield graphs_left
    finally:
        graphs_left.append(_core.set_leave_before(-1))


Calls = Iterable[tuple[Any, ...]]


def check_behaves_as_plain(function: Callable[..., Any], backend: str, calls: Calls, told: Callable[..., Any] = outcome) -> Any:
    """Asserts that each call, in turn, comes to the same captured and plain. `told(function, *arguments)`: what is compared."""
    captured = evalframe.jit(function, backend=backend)
    for arguments in calls:
        assert same(told(captured, *arguments), told(function, *arguments)), arguments
    return captured


def check_may_be_left(
    function: Callable[..., Any], backend: str, calls: list[tuple[Any, ...]], nodes: int, told: Callable[..., Any] = outcome
) -> None:
    """The same with every graph left before each of its first `nodes` nodes."""
    captured = evalframe.jit(function, backend=backend)
    for node in range(nodes):
        told(captured, *calls[0])
        with leaving_before(node):
            for arguments in calls:
                assert same(told(captured, *arguments), told(function, *arguments)), (node, arguments)


def check_is_one_graph(function: Callable[..., Any], arguments: tuple[Any, ...], told: Callable[..., Any] = outcome) -> None:
    """Asserts that nothing but exceptions that are raised ends a graph, and that later calls find the recordings of the first."""
    captured = evalframe.jit(function, backend="reference")
    told(captured, *arguments)
    breaks = [(found["reason"], found["detail"], found["line"]) for found in _core.jit_breaks(captured)]
    assert [found for found in breaks if found[0] != "an exception was raised here"] == []
    recordings = _core.jit_counters(captured)["recordings"]
    assert breaks or recordings == 1
    for _ in range(3):
        told(captured, *arguments)
    assert _core.jit_counters(captured)["recordings"] == recordings


def check_with_every_frame(function: Callable[..., Any], calls: Calls, told: Callable[..., Any] = outcome) -> None:
    """Asserts that the calls come to the same where every frame is captured."""
    calls = list(calls)
    plain = [told(function, *arguments) for arguments in calls]
    with evalframe.enabled():
        got = [told(function, *arguments) for arguments in calls]
    assert repr(got) == repr(plain)


Function = TypeVar("Function", bound=Callable[..., Any])


def put_into(*lists: list[Callable[..., Any]]) -> Callable[[Function], Function]:
    """A decorator that adds functions to the lists."""

    def put(function: Function) -> Function:
        for cases in lists:
            cases.append(function)
        return function

    return put


def name_of(function: Any) -> str:
    return str(function.__name__)


def differential_tests(
    functions: list[Callable[..., Any]],
    calls: Calls,
    told: Callable[..., Any] = outcome,
    *,
    left: list[tuple[Any, ...]],
    nodes: int,
    left_on: Sequence[str] = ("reference",),
) -> tuple[Callable[..., None], Callable[..., None]]:
    """Two tests of each function: captured it behaves as plain, and also where graphs are left before each node, in the calls `left`."""

    @pytest.mark.parametrize("backend", BACKENDS)
    @pytest.mark.parametrize("function", functions, ids=name_of)
    def behaves_as_plain(function: Callable[..., Any], backend: str) -> None:
        check_behaves_as_plain(function, backend, calls, told)

    @pytest.mark.parametrize("backend", left_on)
    @pytest.mark.parametrize("function", functions, ids=name_of)
    def may_be_left(function: Callable[..., Any], backend: str) -> None:
        check_may_be_left(function, backend, left, nodes, told)

    return behaves_as_plain, may_be_left


def one_graph_tests(functions: list[Callable[..., Any]], arguments: tuple[Any, ...], told: Callable[..., Any] = outcome) -> Callable[..., None]:
    """The test that each function is one graph."""

    @pytest.mark.parametrize("function", functions, ids=name_of)
    def is_one_graph(function: Callable[..., Any]) -> None:
        check_is_one_graph(function, arguments, told)

    return is_one_graph
