"""No call of a captured function loses or keeps a reference: every feature that is recorded, wherever its graphs are left, and when
it is recorded anew."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from inspect import getattr_static
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import evalframe
import test_jit
import test_jit_calls
import test_jit_classes
import test_jit_constructs
import test_jit_containers
import test_jit_loops
import test_jit_random
from evalframe import _core
from helpers import leaving_before, outcome

X = np.linspace(0.5, 2.0, 12)
Y = np.arange(12.0) - 3
ROUNDS = 8
NODES = 9
clear_type_cache = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache  # type: ignore[attr-defined]


def written_in_place(x: Any, y: Any) -> Any:
    x[1:-1] += y[2:] * 0.5
    x *= 0.5
    x[::2] = x[::2] + 1
    return x


def written_by_out(x: Any, y: Any) -> Any:
    np.add(x, y, out=x)
    np.sqrt(np.abs(x), out=x, where=y > 0)
    return x.sum()


def undone_where_it_raises(x: Any, y: Any) -> Any:
    try:
        with np.errstate(all="raise"):
            x[2:] += y[2:]
            x /= y * 0
    except FloatingPointError as error:
        return str(error), x + 1
    return x


def copy_written_in_parts(x: Any, y: Any) -> Any:
    new = x.copy()
    new[1:-1] += y[1:-1]
    new[0] = new[-1]
    return new, new[1:]


def breaks_behind_a_write(x: Any, y: Any) -> Any:
    x[:3] = y[:3] * 2
    if x.sum() > 0:
        x[3:] -= 1
    return x


WRITES = [written_in_place, written_by_out, undone_where_it_raises, copy_written_in_parts, breaks_behind_a_write]
MODULES: list[tuple[Any, list[tuple[Any, ...]]]] = [
    (test_jit, test_jit.ARGUMENTS[:2]),
    (test_jit_calls, test_jit_calls.ARGUMENTS[:2]),
    (test_jit_classes, test_jit_classes.ARGUMENTS[:2]),
    (test_jit_constructs, test_jit_constructs.ARGUMENTS[:2]),
    (test_jit_containers, test_jit_containers.ARGUMENTS[:2]),
    (test_jit_loops, test_jit_loops.ARGUMENTS[:2]),
    (test_jit_random, [(test_jit_random.X, 1), (test_jit_random.X, 2)]),
]
CASES = [pytest.param(function, [(X, Y), (X, -Y)], id=function.__name__) for function in WRITES] + [
    pytest.param(function, arguments, id=f"{module.__name__.removeprefix('test_jit')}-{function.__name__}".lstrip("_-"))
    for module, arguments in MODULES
    for function in module.FUNCTIONS
]


def within(value: Any) -> Iterator[Any]:
    """The value, and what is held by it if it is a container."""
    yield value
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    for one in inside:
        yield from within(one)


def around(function: Callable[..., Any], arguments: list[tuple[Any, ...]]) -> list[Any]:
    """Objects that calls of the function touch: arguments, the globals it names, their attributes that it names, its constants."""
    assert isinstance(function, FunctionType)
    names = function.__code__.co_names
    named = [function.__globals__[name] for name in names if name in function.__globals__]
    attributes = [getattr_static(one, name, None) for one in named for name in names]
    given = [function, function.__code__, *function.__code__.co_consts, *named, *attributes, *arguments, np.float64, list, dict]
    return [one for value in given for one in within(value)]


def growth(work: Callable[[], None], watched: list[Any]) -> list[int]:
    """What ROUNDS of the work add: objects alive, and references to each of those watched."""
    counts = np.empty((2, 2 + len(watched)), int)  # of a fixed size, so that counting itself makes no objects
    for rounds, row in zip((1, ROUNDS), counts, strict=True):
        for _ in range(rounds):
            work()
        clear_type_cache()  # it holds names that were asked for
        gc.collect()
        row[0], row[1] = sys.getallocatedblocks(), len(gc.get_objects())
        for i, one in enumerate(watched, 2):
            row[i] = sys.getrefcount(one)
    return [int(after - before) for before, after in counts.T]


@pytest.mark.parametrize("way", ["native", "reference", "recorded"])
@pytest.mark.parametrize(("function", "arguments"), CASES)
def test_no_reference_is_lost_or_kept(function: Callable[..., Any], arguments: list[tuple[Any, ...]], way: str) -> None:
    captured = evalframe.jit(function, backend="native" if way == "native" else "reference")
    watched = around(function, arguments)

    def calls() -> None:
        test_jit_classes.LOG.clear()  # programs write it
        for leave in range(-1, NODES) if way != "recorded" else (-1, 1, 4):
            if way == "recorded":
                _core.jit_clear(captured)
            with leaving_before(leave):
                for given in arguments:
                    outcome(captured, *given)

    for _ in range(3):
        calls()
    found: list[int] = []
    # Free lists and caches grow for a while; a leak grows in every try.
    for _ in range(12):
        found = growth(calls, watched)
        if all(abs(grown) < ROUNDS for grown in found):
            return
    objects = [("blocks", found[0]), ("collected objects", found[1])]
    references = [(repr(one)[:60], grown) for one, grown in zip(watched, found[2:]) if abs(grown) >= ROUNDS]
    raise AssertionError(objects + references[:8])
