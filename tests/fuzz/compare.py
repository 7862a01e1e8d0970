"""One program run by CPython and by us, and what differs.

The environment variable EVALFRAME_FUZZ_MODE says how we run it: ``evaluate`` (every frame in our evaluator), or ``capture``
(every function recorded at its first call, served after, and once more with every graph left early). With EVALFRAME_FUZZ_EVERY_NODE
there is such a run for each node that the longest graph has; with EVALFRAME_FUZZ_STAND_INS functions of C that call Python back and
class statements are followed, too.
"""

from __future__ import annotations

import functools
import gc
import io
import itertools
import os
import re
import sys
import types
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import evalframe
from fuzz import programs
from fuzz.programs import Program, execute
from fuzz.world import Log, show


class Outcome(NamedTuple):
    events: list[str]
    output: str
    handled: Any  # an exception that is still taken for being handled


class Difference(NamedTuple):
    kind: str  # what differs, in a word
    text: str


def run_once(program: Program, codes: list[types.CodeType]) -> Outcome:
    output = io.StringIO()
    with redirect_stdout(output):
        execute(program, codes)
    gc.collect()
    return Outcome(Log.events, output.getvalue(), sys.exc_info()[1])


def run_plain(program: Program, codes: list[types.CodeType]) -> list[Outcome]:
    """In the second run, code and classes' caches are warm."""
    return [run_once(program, codes) for _ in range(2)]


def run_evaluated(program: Program, warm: list[types.CodeType]) -> list[Outcome]:
    """Code that nothing has run, and code that CPython has specialised."""
    fresh = programs.fresh_codes(program)
    before = evalframe.evaluation_counts()["evaluated"]
    evalframe.enable(mode="evaluate")
    try:
        outcomes = [run_once(program, codes) for codes in (fresh, warm)]
    finally:
        evalframe.disable()
    if evalframe.evaluation_counts()["evaluated"] - before < 2 * len(fresh):
        raise AssertionError("the program was not evaluated")
    return outcomes


@functools.cache
def give_stand_ins() -> None:
    """The module of the tests has a core of its own, which takes the functions of stand_ins.py, too."""
    from evalframe import _core, _core_tests, stand_ins

    source = Path(stand_ins.__file__)
    evalframe._core = _core_tests
    try:
        exec(compile(source.read_text(), str(source), "exec"), {"__name__": stand_ins.__name__})
    finally:
        evalframe._core = _core


def run_captured(program: Program, warm: list[types.CodeType]) -> list[Outcome]:
    """With functions of their own each time: served to the end of each graph, and left before its second node, or before each."""
    from evalframe import _core_tests

    if STAND_INS:
        give_stand_ins()
    hook = _core_tests.capture_all_frames()
    outcomes = []
    try:
        for leave_before in itertools.chain([-1], itertools.count() if EVERY_NODE else [1]):
            _core_tests.set_leave_before(leave_before)
            outcomes.append(run_once(program, programs.fresh_codes(program)))
            graphs_left = _core_tests.set_leave_before(-1)
            if leave_before >= 0 and not graphs_left:
                break
    finally:
        _core_tests.set_leave_before(-1)
        _core_tests.capture_no_more(hook)
    return outcomes


OURS = {"evaluate": run_evaluated, "capture": run_captured}
MODE = os.environ.get("EVALFRAME_FUZZ_MODE", "evaluate")
EVERY_NODE = "EVALFRAME_FUZZ_EVERY_NODE" in os.environ
STAND_INS = "EVALFRAME_FUZZ_STAND_INS" in os.environ


def is_too_deep(outcomes: list[Outcome]) -> bool:
    """How deep a recursion may go is each evaluator's own."""
    return any("RecursionError" in event or "MemoryError" in event for outcome in outcomes for event in outcome.events)


# Calls of Python functions whose arguments don't fit.
REFUSED = re.compile(r"TypeError\(.*\(\) (takes|got|missing) ")


def with_refusals_in_order(events: list[str]) -> list[str]:
    """What a refused call releases, sorted: CPython lets the arguments go by how far it came in binding them."""
    ordered = list(events)
    for end, event in enumerate(ordered):
        if REFUSED.search(event):
            start = end
            while start > 0 and ordered[start - 1].startswith("released"):
                start -= 1
            ordered[start:end] = sorted(ordered[start:end])
    return ordered


def without_releases(events: list[str]) -> list[str]:
    """Recordings hold what their guards ask for, so that objects end later, and __del__ fails elsewhere."""
    return [event for event in events if not event.startswith(("released", "unraisable"))]


def first_difference(plain: Outcome, ours: Outcome) -> Difference | None:
    comparable = without_releases if MODE == "capture" else with_refusals_in_order
    plain, ours = (one._replace(events=comparable(one.events)) for one in (plain, ours))
    for number, event in enumerate(plain.events):
        other = ours.events[number] if number < len(ours.events) else "nothing more"
        if event != other:
            return Difference(event.split()[0], f"event {number}:\n  plain: {event}\n  ours:  {other}")
    if len(ours.events) > len(plain.events):
        return Difference("more", f"more events: {ours.events[len(plain.events)]}")
    if plain.output != ours.output:
        return Difference("output", f"output:\n  plain: {plain.output!r}\n  ours:  {ours.output!r}")
    if plain.handled is not ours.handled:
        return Difference("handled", f"left as handled:\n  plain: {plain.handled!r}\n  ours:  {ours.handled!r}")
    return None


def difference(plain: list[Outcome], ours: list[Outcome]) -> Difference | None:
    """The first run of ours is compared with the first plain one, all others with the second."""
    for one, other in zip(itertools.chain(plain, itertools.repeat(plain[-1])), ours):
        found = first_difference(one, other)
        if found:
            return found
    return None


def prepare() -> None:
    """What a process that compares programs needs: whatever is told of errors goes into the log, and nothing runs by chance."""
    gc.disable()
    sys.unraisablehook = lambda told: Log.events.append(f"unraisable {told.err_msg} {show(told.exc_value)}")
    warnings.simplefilter("ignore")
    warnings.filterwarnings("always", category=RuntimeWarning)
    warnings.showwarning = lambda message, kind, file, line, *_: Log.events.append(f"warning {message} {line}")  # type: ignore[assignment]


def compared(program: Program, before_ours: Callable[[], None] = lambda: None) -> Difference | str:
    """The difference, or why there is none: "same", "too deep", or "not deterministic"."""
    gc.freeze()
    warm = programs.fresh_codes(program)
    plain = run_plain(program, warm)
    if is_too_deep(plain):
        return "too deep"
    before_ours()
    found = difference(plain, OURS[MODE](program, warm))
    if not found:
        return "same"
    again = run_plain(program, programs.fresh_codes(program))
    return "not deterministic" if difference(plain, again) or difference(plain[:1], plain[1:]) else found
