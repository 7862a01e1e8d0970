"""Each construct of Python does what it does plainly, and costs the graphs that `constructs/graphs.txt` says.

`EVALFRAME_ACCEPT=1 python -m pytest tests/test_constructs.py` writes the table anew: the diff is what changed. Rows with a version
behind the name (`loops.for_range@3.13`) hold for that version instead.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evalframe
from constructs import CONSTRUCTS, Construct
from evalframe import _core
from helpers import leaving_before, outcome, same

A = np.linspace(-1.0, 2.0, 12)
B = np.arange(12.0) - 3
OTHERS = (A[:5].astype(np.float32), np.arange(5))
CALLS = [(A, B), (A, B), (B, A), OTHERS, (A, B)]

TABLE = Path(__file__).parent / "constructs" / "graphs.txt"
HEADING = "# Construct | graphs of a first call | why it breaks"
VERSION = "{}.{}".format(*sys.version_info)
BASE = "3.11"  # whose rows hold for all versions that have none of their own
ACCEPT = os.environ.get("EVALFRAME_ACCEPT") == "1"

# Share of the constructs that are one graph; to be raised as it grows.
FLOOR = 0.95


def read_table() -> dict[str, str]:
    rows = [line.split(" | ", 1) for line in TABLE.read_text().splitlines() if not line.startswith("#")] if TABLE.exists() else []
    return {name: cost for name, cost in rows}


EXPECTED = read_table()


def expected_cost(name: str) -> str | None:
    return EXPECTED.get(f"{name}@{VERSION}", EXPECTED.get(name))


def accept(name: str, cost: str) -> None:
    EXPECTED.pop(f"{name}@{VERSION}", None)
    if VERSION == BASE or name not in EXPECTED:
        EXPECTED[name] = cost
    elif EXPECTED[name] != cost:
        EXPECTED[f"{name}@{VERSION}"] = cost
    order = {known: number for number, known in enumerate(CONSTRUCTS)}
    rows = {known: text for known, text in EXPECTED.items() if known.split("@")[0] in order}
    lines = [f"{known} | {rows[known]}" for known in sorted(rows, key=lambda known: (order[known.split("@")[0]], known))]
    TABLE.write_text("\n".join([HEADING, *lines]) + "\n")


def cost_of(captured: Any) -> str:
    """Graphs of the calls so far, and the reasons of their breaks by number."""
    reasons: Counter[str] = Counter()
    for found in _core.jit_breaks(captured):
        reasons[found["reason"]] += found["count"]
    named = "; ".join(f"{number} {reason}" for reason, number in sorted(reasons.items()))
    return f"{_core.jit_counters(captured)['recordings']} | {named}".rstrip(" |")


def observed(construct: Construct, function: Callable[..., Any], calls: Any, capsys: Any) -> list[Any]:
    """All that can be told of each call: what came of it, what was printed, what is left outside and in the arguments."""
    told = []
    for arguments in calls:
        copies = [argument.copy() for argument in arguments]
        construct.reset()
        capsys.readouterr()
        came_of_it = outcome(function, *copies)
        told.append((came_of_it, capsys.readouterr().out, construct.state(), copies))
    return told


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_behaves_as_plain_python_in_as_many_graphs_as_the_table_says(
    name: str, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    if name == "effects.collection":
        request.getfixturevalue("plain_collections")
    construct = CONSTRUCTS[name]
    captured = evalframe.jit(construct.function, backend="reference")
    plain = observed(construct, construct.function, CALLS, capsys)
    first = observed(construct, captured, CALLS[:1], capsys)
    cost = cost_of(captured)
    later = observed(construct, captured, CALLS[1:], capsys)
    for number, (got, expected) in enumerate(zip(first + later, plain, strict=True)):
        assert same(got, expected), f"call {number}: {got} instead of {expected}"
    if ACCEPT:
        accept(name, cost)
    assert cost == expected_cost(name)


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_may_be_left_before_every_node(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    construct = CONSTRUCTS[name]
    plain = observed(construct, construct.function, CALLS[:3], capsys)
    captured = evalframe.jit(construct.function, backend="reference")
    observed(construct, captured, CALLS[:1], capsys)
    for node in itertools.count():
        with leaving_before(node) as graphs_left:
            got = observed(construct, captured, CALLS[:3], capsys)
        assert same(got, plain), f"left before node {node}: {got} instead of {plain}"
        if graphs_left == [0]:
            break


def test_share_of_constructs_in_one_graph() -> None:
    single = [name for name in CONSTRUCTS if expected_cost(name) == "1"]
    assert len(CONSTRUCTS) >= 250
    assert len(single) / len(CONSTRUCTS) >= FLOOR, f"{len(single)} of {len(CONSTRUCTS)} constructs are one graph"
