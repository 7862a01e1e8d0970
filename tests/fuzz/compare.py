"""One program run by CPython and by us, and what differs.

The environment variable EVALFRAME_FUZZ_MODE says how we run it: ``evaluate`` (every frame in our evaluator), or ``capture``
(every function recorded at its first call, served after, and once more with every graph left early), or ``decompile`` (functions as the
state machines that the decompiler writes where it finds no structure). With EVALFRAME_FUZZ_EVERY_NODE
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


def as_machines(code: types.CodeType) -> types.CodeType:
    """Its functions as the state machines that the decompiler writes; the code itself where one of them can't be."""
    source, rows, _ = evalframe._core.decompiler.decompile(code, [], [], machines=True)
    if source is None or any(status == "refused" for _, status, _ in rows):
        return code
    again = compile(source, Log.program_file, "exec", dont_inherit=True)
    if len([*programs.inner_codes(again)]) != len([*programs.inner_codes(code)]):
        return code  # copies of a `finally` body have their functions each, which are run by themselves
    # The names that a program is given are those of its code, and some were in code that the compiler has left out.
    named = {name for each in (again, *programs.inner_codes(again)) for name in each.co_names}
    before = {name for each in (code, *programs.inner_codes(code)) for name in each.co_names}
    return again.replace(co_names=(*again.co_names, *sorted(before - named)))


def run_decompiled(program: Program, warm: list[types.CodeType]) -> list[Outcome]:
    return [run_once(program, [as_machines(code) for code in programs.fresh_codes(program)])]


OURS = {"evaluate": run_evaluated, "capture": run_captured, "decompile": run_decompiled}
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


# Where in the source it was, in tracebacks and warnings.
PLACES = re.compile(r" line \d+ at \((?:\d+|None|[-, ])+\)|^(warning .*) \d+$")
# What asks for lines and variables by itself: those of a state machine are others.
ASKS_FOR_PLACES = re.compile(r"lineno|f_locals|gi_frame|cr_frame|ag_frame|\b(locals|vars|dir)\(")


def without_places(events: list[str]) -> list[str]:
    """An operand that waits in a variable ends a little later, with the statement that uses it."""
    return [PLACES.sub(r"\1", event) for event in without_releases(events) if not event.startswith("where")]


COMPARABLE = {"capture": without_releases, "evaluate": with_refusals_in_order, "decompile": without_places}


def first_difference(plain: Outcome, ours: Outcome) -> Difference | None:
    plain, ours = (one._replace(events=COMPARABLE[MODE](one.events)) for one in (plain, ours))
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
    """The difference, or why there is none: "same", "too deep", "not deterministic", or "asks for places"."""
    if MODE == "decompile" and ASKS_FOR_PLACES.search(program.source):
        return "asks for places"
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
