"""Traces of `evalframe.step`: what frames hold before each instruction, beside what CPython's own tracing sees."""

import json
import os
import subprocess
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import Trace, steps
from evalframe.__main__ import main

NEST = Path(__file__).parent.parent / "examples" / "variables_nest.py"


def loops(n):
    total, seen = 0, []
    for i in range(n):
        if i % 2:
            continue
        total += i
        seen.append(total)
    return total, seen


def closures(a, *rest, key="k"):
    value = a

    def inner(b):
        nonlocal value
        value = value + b
        return [value + c for c in rest]

    return inner(2), value, key


def exceptions(n):
    try:
        try:
            return 1 // n
        except ZeroDivisionError as error:
            kept = str(error)
            raise ValueError(kept) from error
        finally:
            n = 5
    except ValueError:
        return n


def generators(n):
    def numbers(k):
        for i in range(k):
            got = yield i * i
            if got:
                yield got

    made = numbers(n)
    return next(made), made.send("sent"), list(made)


def withs(text):
    class Manager:
        entered = 0

        def __enter__(self):
            Manager.entered += 1
            return text

        def __exit__(self, *args):
            return True

    with Manager() as given:
        raise KeyError(given)
    return Manager.entered


def matches(value):
    match value:
        case {"a": x, **rest}:
            return x, rest
        case [first, *others]:
            return first, others
    return f"{value!r:>5}"


PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (loops, (5,)), (closures, (1, 2, 3)), (exceptions, (0,)), (generators, (4,)), (withs, ("x",)),
    (matches, ({"a": 1, "b": 2},)), (matches, ([1, 2, 3],)), (matches, (4,)),
]  # fmt: skip
IDS = [f"{function.__name__}{number}" for number, (function, _) in enumerate(PROGRAMS)]


def traced_by_cpython(function: Callable[..., Any], args: tuple[Any, ...]) -> list[tuple[int, dict[str, str]]]:
    """(offset, locals as text) before each instruction of the function's own frame."""
    seen: list[tuple[int, dict[str, str]]] = []
    # 3.13: code that was traced by opcodes stays instrumented, and is CPython's from then on.
    copy = types.FunctionType(function.__code__.replace(), function.__globals__, closure=function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__

    def tracer(frame, event, arg):
        if frame.f_code is not copy.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            seen.append((frame.f_lasti, {name: repr(value) for name, value in frame.f_locals.items() if is_shown(value)}))
        return tracer

    sys._getframe().f_trace_opcodes = True  # 3.12 looks for such a frame when tracing is switched on
    sys.settrace(tracer)
    try:
        copy(*args)
    finally:
        sys.settrace(None)
    return seen


def is_shown(value: object) -> bool:
    return type(value) in (int, str, list, tuple, dict, type(None)) and len(repr(value)) < 60


@pytest.mark.parametrize(("function", "args"), PROGRAMS, ids=IDS)
def test_locals_are_those_that_cpythons_tracing_sees(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    trace = evalframe.step(function, only=function.__qualname__)(*args)
    assert repr(trace.result) == repr(function(*args))
    ours: list[tuple[int, dict[str, str]]] = []
    for step in trace:
        if step.function != function.__qualname__ or step.end or (ours and ours[-1][0] == step.offset):
            continue
        held = {slot.name: slot.value for slot in step.slots if slot.kind != "stack" and slot.value != "NULL"}
        held = {name: value.removeprefix("<cell: ").removesuffix(">") if "<cell" in value else value for name, value in held.items()}
        ours.append((step.offset, held))
    theirs = traced_by_cpython(function, args)
    ours_by_offset: dict[int, list[dict[str, str]]] = {}
    for offset, held in ours:
        ours_by_offset.setdefault(offset, []).append(held)
    compared = 0
    for offset, names in theirs:
        if not ours_by_offset.get(offset):
            continue  # CPython's prefixes of instructions are parts of them here
        held = ours_by_offset[offset].pop(0)
        assert {name: held.get(name) for name in names} == names, offset
        compared += 1
    assert compared > len(theirs) // 2


@pytest.mark.parametrize(("function", "args"), PROGRAMS, ids=IDS)
def test_states_follow_from_what_has_changed(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Between two steps of a frame nothing differs but what the second says has changed."""
    trace = evalframe.step(function)(*args)
    before: dict[tuple[str, ...], Any] = {}
    for step in trace:
        key = step.frames[:-1] + (step.function,)
        last = before.get(key)
        if last is not None and last.number == step.number - 1 and not last.end:
            for old, new in zip(last.slots, step.slots):
                assert new.changed or old.value == new.value
        before[key] = step
    assert trace[-1].end == "returned"


def test_the_first_step_is_the_frame_as_its_caller_filled_it() -> None:
    trace = evalframe.step(closures)(1, 2, key="z")
    first = trace[0]
    held = {slot.name: slot.value for slot in first.slots}
    assert held == {"a": "1", "rest": "(2,)", "key": "'z'", "inner": "NULL", "value": "NULL"}
    assert first.stack == () and first.changed == ()
    inner = next(step for step in trace if step.function.endswith("inner"))
    assert {slot.name: slot.value for slot in inner.slots if slot.kind == "argument"} == {"b": "2"}
    assert inner.frames[0].startswith("closures, line ") and len(inner.frames) == 2


def test_what_a_list_holds_is_seen_to_change() -> None:
    values = [slot.value for step in evalframe.step(loops)(5) for slot in step.changed if slot.name == "seen"]
    assert values == ["[]", "[0]", "[0, 2]", "[0, 2, 6]"]


def test_containers_that_are_moved_about_are_seen_as_they_are() -> None:
    """What was seen of one holds only while nothing can have changed it, and for no other that is made where it was."""

    def moved(turns: int) -> object:
        seen: dict[int, list[int]] = {}
        kept: object = None
        for number in range(turns):
            seen.setdefault(number % 2, []).append(number)
            pair = (number, seen)
            kept = (seen, pair[0])
            kept = (number, number)
        return kept

    trace = evalframe.step(moved)(4)
    for step in trace:
        shown = {value for value in (*(slot.value for slot in step.slots), *step.stack) if value.startswith("{")}
        assert len(shown) <= 1, (step.offset, shown)

    def changes(name: str) -> list[str]:
        return [slot.value for step in trace for slot in step.changed if slot.name == name and slot.value[0] in "{("]

    assert changes("seen") == ["{}", "{0: []}", "{0: [0]}", "{0: [0], 1: []}", "{0: [0], 1: [1]}", "{0: [0, 2], 1: [1]}", "{0: [0, 2], 1: [1, 3]}"]
    assert [value for value in changes("kept") if value[1] != "{"] == ["(0, 0)", "(1, 1)", "(2, 2)", "(3, 3)"]


def test_showing_values_runs_none_of_the_programs_code() -> None:
    class Loud:
        asked = 0

        def __repr__(self):
            Loud.asked += 1
            return "loud\nand clear"

    def f(x):
        y = [x]
        return y

    assert "<test_showing_values_runs_none_of_the_programs_code.<locals>.Loud object>" in str(evalframe.step(f)(Loud()))
    assert Loud.asked == 0
    assert evalframe.step(f, reprs=True)(Loud())[0].slots[0].value == "loud and clear"


def test_values_of_all_kinds_have_bounded_texts() -> None:
    nested: list[Any] = []
    nested.append(nested)
    values = [
        1 << 100_000, "é" * 1000, b"\0" * 1000, list(range(1000)), {i: {i: i} for i in range(99)}, nested, {1, 2}, {"a"},
        np.ones((2, 3)), 1e300, -0.0, float("nan"), 1e-7, 123456789.125, 2j, ..., range(3), slice(1), len, int, os, ValueError(1, "x"),
        frozenset(), bytearray(b"ab"), "\udc80", "a" * 61,
    ]  # fmt: skip
    texts = [evalframe.step(lambda x: x)(value)[0].slots[0].value for value in values]
    assert max(map(len, texts)) < 200
    assert texts[0] == "<int of 100001 bits>"
    assert texts[8] == "<array of float64, shape (2, 3)>"
    assert texts[9:15] == ["1e+300", "-0.0", "nan", "1e-07", "123456789.125", "2j"]
    assert texts[21] == "ValueError(1, 'x')"
    floats = [x * 10.0**e for x in (1.0, -1.5, 0.1, 123.456, 2 / 3) for e in range(-8, 20)]
    assert [evalframe.step(lambda x: x)(x)[0].slots[0].value for x in floats] == [repr(x) for x in floats]


def test_exceptions_are_told_where_they_are_raised_and_caught() -> None:
    trace = evalframe.step(exceptions)(0)
    caught = [step.note for step in trace if step.note.startswith("caught")]
    assert caught[0] == "caught ZeroDivisionError('integer division or modulo by zero')"
    assert set(caught[1:]) == {"caught ValueError('integer division or modulo by zero')"}
    raising = next(step for step in trace if step.instruction == "BINARY_OP")
    assert raising.handler is not None
    failed = evalframe.step(lambda: [][1])()
    assert isinstance(failed.exception, IndexError) and failed[-1].end == "raised"
    assert failed[-1].note == "raised IndexError('list index out of range')"


def test_a_generator_keeps_its_frame() -> None:
    trace = evalframe.step(generators)(3)
    ends = [(step.end, step.note) for step in trace if step.function.endswith("numbers") and step.end]
    assert [note for end, note in ends if end == "yielded"] == ["yielded 0", "yielded 'sent'", "yielded 1", "yielded 4"]
    resumed = [step for step in trace if step.function.endswith("numbers") and not step.end]
    assert {slot.name: slot.value for slot in resumed[-1].slots if slot.kind != "stack"}["i"] == "2"


def test_bounds_end_the_recording_and_not_the_run() -> None:
    by_steps = evalframe.step(loops, steps=10)(1000)
    assert len(by_steps) == 10 and by_steps.stopped == "steps" and by_steps.result == loops(1000)
    by_memory = evalframe.step(loops, memory=20_000)(1000)
    assert 10 < len(by_memory) < 2000 and by_memory.stopped == "memory" and by_memory.result == loops(1000)
    assert "the bound on memory is reached" in str(by_memory)
    for wrong in ({"steps": 0}, {"memory": 0}):
        with pytest.raises(ValueError, match="record"):
            evalframe.step(loops, **wrong)(1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected a function or a source text"):
        evalframe.step(3)  # type: ignore[arg-type]


def test_frames_are_chosen_by_name() -> None:
    trace = evalframe.step(closures, only="closures.inner")(1, 2)
    assert {step.function.split(".")[2] for step in trace} == {"inner"}
    assert trace.result == closures(1, 2)
    libraries = evalframe.step("import json\nx = json.dumps([1])")
    assert {step.function for step in libraries()} == {"<module>"}
    everything = evalframe.step("import json\nx = json.dumps([1])", everything=True)()
    assert "dumps" in {step.function for step in everything}


def test_a_source_text_shows_its_namespace() -> None:
    trace = evalframe.step("x = 1\ny = [x]\ny.append(2)\ndel x\n")()
    assert {slot.name: slot.value for slot in trace[-1].names} == {"x": "NULL", "y": "[1, 2]"}
    assert trace[3].line is not None and trace._repr_html_().startswith("<iframe")
    assert repr(trace) == f"<Trace of {len(trace)} steps in 1 frames>"


def test_a_big_namespace_is_not_gone_through_for_each_line_of_text(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = evalframe.step("".join(f"a{n} = {n}\n" for n in range(200)))()
    expected = "\n".join(map(str, trace))
    made, plain = [], steps.Slot
    monkeypatch.setattr(steps, "Slot", lambda *given: made.append(given) or plain(*given))
    assert trace.text() == expected
    assert len(made) < 2 * len(trace)


def test_the_same_run_gives_the_same_document() -> None:
    first, second = (list(evalframe.step(withs)("x").json()) for _ in range(2))
    assert first == second and json.loads("".join(first))["version"] == 1


def test_steps_are_indexed() -> None:
    trace: Trace = evalframe.step(loops)(3)
    assert trace[-1] == list(trace)[-1] and trace[1:3] == [trace[1], trace[2]]
    with pytest.raises(IndexError, match="the trace has"):
        trace[len(trace)]


def test_recursion_tracers_threads_and_recordings_inside() -> None:
    def deep(n):
        return deep(n + 1)

    assert isinstance(evalframe.step(deep, steps=1 << 20)(0).exception, RecursionError)

    def traced():
        sys.settrace(lambda *args: None)
        x = 1
        sys.settrace(None)
        return x

    trace = evalframe.step(traced)()
    assert trace.result == 1 and trace[-1].end == "left to CPython"

    def threads():
        thread = threading.Thread(target=loops, args=(100,))
        thread.start()
        thread.join()
        return loops(3)

    assert evalframe.step(threads)().result == loops(3)

    def inside():
        return evalframe.step(loops)(3)

    trace = evalframe.step(inside)()
    assert "are being recorded already" in str(trace.exception or trace.result.exception)
    assert evalframe.step(loops)(3).result == loops(3)


def captured_sum(x, k):
    y = x * k
    if y.sum() > 3:
        y = y + 1
    return y


def test_steps_tell_what_the_recorder_noted_there() -> None:
    captured = evalframe.jit(captured_sum)
    for _ in range(2):
        captured(np.ones(3), 2.0)
    trace = evalframe.step(captured)(np.ones(3), 2.0)
    assert np.array_equal(trace.result, np.full(3, 3.0))
    noted = [(step.line - captured_sum.__code__.co_firstlineno, step.instruction, note) for step in trace for note in step.noted if step.line]
    assert (1, "BINARY_OP", "graph 0 of captured_sum: n0 = binary *(i0, i1): float64[3]") in noted
    assert (3, "BINARY_OP", "graph 1 of captured_sum: n0 = binary +(i0, 1): float64[3]") in noted
    ((line, instruction, _),) = [note for note in noted if "ends: branch on the value of an array (numpy.bool)" in note[2]]
    assert (line, instruction) == (2, "POP_JUMP_IF_FALSE")
    assert (1, "BINARY_OP", "guard of graph 0 of captured_sum: x is an array of float64, rank 1") in noted
    assert not any(step.noted for step in evalframe.step(captured_sum)(np.ones(3), 2.0))
    lines = [line for line in str(trace).split("\n") if "<graph" in line or "guards>" in line]
    assert "<2 guards>  <graph 0 of captured_sum: n0 = binary" in lines[0]


class Kept:
    def __init__(self):
        self.total, self.seen = 0.0, []


def captured_effects(kept, x, names):
    x[0] = 4.0
    kept.total = x.sum()
    kept.seen.append(1)
    names["n"] = kept
    print(end="")
    kept.total = 1.0


def test_effects_are_noted_where_they_are_recorded() -> None:
    captured = evalframe.jit(captured_effects)
    for _ in range(2):
        captured(Kept(), np.ones(3), {"n": 1})
    first = captured_effects.__code__.co_firstlineno
    trace = evalframe.step(captured)(Kept(), np.ones(3), {"n": 1})
    noted = {(step.line - first, note.partition(": ")[2].partition(" = ")[2]) for step in trace for note in step.noted if note.startswith("effect in ") and step.line}
    assert noted >= {
        (1, "setitem(i0, 0, 4.0): None"), (2, "store kept.total, when it is left"),
        (3, "append to kept.seen, when it is left"), (4, "store names['n'], when it is left"), (6, "store kept.total, when it is left"),
    }  # fmt: skip
    graph = evalframe.graphs(captured)[0]
    assert "       s0 = store kept.total, when it is left" in str(graph)
    assert [row.name for row in graph.in_order if row.effect == "effect"][:2] == ["n0", "s0"]


def calls_captured(function, *args):
    return [function(*args) for _ in range(2)]


def test_a_captured_call_is_one_step_that_names_its_graph() -> None:
    def helped(x):
        y = x * 2
        return y.sum() + len(np.frompyfunc(doubled, 1, 1)(y))

    def fails(x):
        raise KeyError(x.shape)

    captured, failing, plain = evalframe.jit(helped), evalframe.jit(fails), calls_captured(helped, np.ones(2))
    calls_captured(captured, np.ones(2))
    trace = evalframe.step(calls_captured, only=("calls_captured", helped.__qualname__, "doubled"))(captured, np.ones(2))
    assert trace.result == plain
    served = [step for step in trace if step.end == "captured"]
    assert [step.note for step in served] == ["run by graph 0 (__compiled_fn_0, 3 nodes)"] * 2
    assert [(slot.kind, slot.name, slot.value) for slot in served[0].slots] == [("argument", "x", "<array of float64, shape (2,)>")]
    assert trace[served[0].number - 1].instruction == "CALL_FUNCTION_EX"
    of_calls = [step for step in trace if step.function == helped.__qualname__]
    assert [step.end for step in of_calls] == ["captured", "returned"] * 2 and of_calls[1].note == f"returned {of_calls[1].note.partition(' ')[2]}"
    below = [step for step in trace if step.function == "doubled"]
    assert len({step.frames[-2] for step in below}) == 1 and all(helped.__qualname__ in step.frames[-2] for step in below)
    assert sum(step.end == "returned" for step in below) == 4
    recorded = evalframe.step(failing)  # itself, as plain Python
    assert recorded(np.ones(2)).exception.args == ((2,),)
    trace = evalframe.step(lambda: failing(np.ones(2)))()
    assert [step.note for step in trace if "fails" in step.function] == ["run by a new recording", "raised KeyError((2,))"]
    assert "captured" not in {step.end for step in evalframe.step(calls_captured)(helped, np.ones(2))}
    stopped = evalframe.step(calls_captured, steps=served[0].number + 1)(captured, np.ones(2))
    assert stopped.stopped == "steps" and stopped.result == plain


def doubled(element):
    return element * 2


def run(*arguments: str, cwd: Path, command: str = "step") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, "-m", "evalframe", command, *arguments], capture_output=True, text=True, cwd=cwd, env=environment
    )


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    (tmp_path / "script.py").write_text("import sys\ndef f(a):\n    return a * 2\nprint(f(sys.argv[1]))\nsys.exit(3)\n")
    done = run("script.py:f", "ab", cwd=tmp_path)
    lines = done.stdout.splitlines()
    assert done.returncode == 3 and done.stderr == ""
    assert lines[0] == "abab" and lines[-1].endswith("returned 'abab'") and all(" f:" in line for line in lines[1:])
    as_json = run("--json", "-c", "x = [1]\nx[0] = 2", cwd=tmp_path)
    document = json.loads(as_json.stdout)
    assert document["steps"][-1]["end"] == "returned" and document["steps"][-1]["names"][0]["value"] == "[2]"
    page = run("--html", "page.html", "script.py", "ab", cwd=tmp_path)
    assert page.stdout == "abab\n" and "steps in" in page.stderr
    assert "http" not in (tmp_path / "page.html").read_text()
    odd = run("--html", "odd.html", "-c", "print(1)", os.fsdecode(b"\xff"), cwd=tmp_path)  # no text of UTF-8
    assert odd.returncode == 0 and "steps in" in odd.stderr and (tmp_path / "odd.html").exists()
    failed = run("--only", "g", "-c", "1 / 0", cwd=tmp_path)
    assert failed.returncode == 1 and failed.stderr.count("Traceback") == 1 and failed.stdout.strip() == ""
    assert "no frame of g was begun" in failed.stderr
    (tmp_path / "arrays.py").write_text("import numpy as np\ndef f(x):\n    return x * 2\ndef main(xs):\n    for x in xs: f(x)\nmain([np.ones(2)] * 3)\n")
    for what, name in (("graph", "graphs.json"), ("guards", "guards.json")):
        assert run("--json", "--output", name, "arrays.py", cwd=tmp_path, command=what).returncode == 0
    noted = run("--notes", "graphs.json", "--notes", "guards.json", "arrays.py:f", cwd=tmp_path).stdout.splitlines()
    assert sum("<graph 0 of f: n0 = binary *(i0, 2): float64[2]>" in line for line in noted) == 3
    assert sum(line.count("<1 guard>") for line in noted) == 6
    wrong = run("--notes", "arrays.py", "arrays.py", cwd=tmp_path)
    assert wrong.returncode == 2 and "arrays.py is no document of `evalframe graph --json`" in wrong.stderr
    (tmp_path / "deep.json").write_text("[" * 100_000)
    deep = run("--notes", "deep.json", "arrays.py", cwd=tmp_path)
    assert deep.returncode == 2 and "deep.json is no document of" in deep.stderr and "Traceback" not in deep.stderr
    assert "can't open file 'none.json'" in run("--notes", "none.json", "arrays.py", cwd=tmp_path).stderr
    assert main(["step", str(tmp_path / "nothing.py")]) == 2
    with pytest.raises(SystemExit):
        main(["step", "--steps", "0", "-c", "1"])
    with pytest.raises(SystemExit):
        main(["step"])
