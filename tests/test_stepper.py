"""The stepper in a terminal, driven by textual's pilot; walks through traces; tables that rich draws."""

import asyncio
import io
import os
import pty
import select
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import terminal
from evalframe.step_walk import Walk

textual = pytest.importorskip("textual")
from rich.console import Console  # noqa: E402
from textual.widgets import DataTable, Input, Static  # noqa: E402

from evalframe.stepper import Lines, Stepper  # noqa: E402


def work(n):
    total, seen = 0.0, []
    for i in range(n):
        total = helper(total, i)
        seen.append(total)
    try:
        return total / 0
    except ZeroDivisionError:
        return total


def helper(a, b):
    return a + b * 0.5


FIRST = work.__code__.co_firstlineno


def test_walks_lead_where_they_say() -> None:
    trace = evalframe.step(work)(3)
    walk = Walk(trace)
    assert not walk.back() and walk.next() and walk.number == 1 and walk.back() and not walk.first()
    assert walk.call() and walk.step.argument == "1" and walk.call() and walk.step.line == FIRST + 3
    call = walk.number
    assert walk.next() and walk.step.function == "helper" and walk.out() and walk.step.function == "work"
    assert walk.to(call) and walk.over() and walk.step.function == "work" and walk.number > call + 5
    assert walk.under() and walk.number == call
    assert walk.line(FIRST + 4) and walk.step.line == FIRST + 4 and not walk.line(1) and walk.line(FIRST + 2, back=True)
    assert walk.last() and walk.step.end == "returned" and not walk.next()
    assert walk.variable("total") and walk.step.instruction == "STORE_FAST" and not walk.variable("nothing")
    assert walk.step.line == FIRST + 3 and [slot.value for slot in trace[walk.number + 1].slots if slot.name == "total"] == ["1.5"]
    assert not walk.graph()
    index = trace.instruction_index(call)
    assert walk.first() and walk.instruction(index) and walk.number == call and walk.instruction(index) and walk.number > call
    assert walk.instruction(index, back=True) and walk.number == call
    namespace = Walk(evalframe.step("x = 1\nx = x + 1\ny = 3\n")())
    assert namespace.last() and namespace.variable("x") and namespace.step.line == 2


def test_walks_give_what_steps_do() -> None:
    trace = evalframe.step(work)(2)
    for step in trace:
        assert trace.code_at(step.number).co_qualname == step.function and trace.line(step.number) == step.line
        assert trace.instruction_name(step.number) == ("" if step.end else step.instruction)
        (first, last), row = trace.span(step.number), trace.listing(step.number)[trace.instruction_index(step.number)]
        assert row["block"] == step.block and (step.columns is None or (first[1], last[1]) == step.columns)
    blocks = {step.block for step in trace if step.handler is not None}
    assert any(block.endswith(" on the stack") for block in blocks) and any(block.endswith(" and the offset") for block in blocks)


def drive(trace: evalframe.Trace, act: Callable[[Any, Any], Awaitable[None]], size: tuple[int, int] = (140, 44)) -> None:
    async def run() -> None:
        app = Stepper(trace, "title")
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await act(app, pilot)

    asyncio.run(run())


def cells(app: Any, name: str) -> list[list[str]]:
    table = app.query_one(f"#{name}", DataTable)
    return [[str(cell) for cell in table.get_row_at(row)] for row in range(table.row_count)]


def lines(app: Any, name: str) -> str:
    box = app.query_one(f"#{name}", Lines)
    return "\n".join(box.render_line(y).text for y in range(box.size.height))


def assert_shows(app: Any, step: evalframe.steps.Step) -> None:
    assert cells(app, "slots") == [[str(slot.index), slot.kind, slot.name, slot.value] for slot in step.slots if slot.kind != "stack"]
    assert [row[2] for row in cells(app, "stack")] == (list(reversed(step.stack)) or ["empty"])
    assert [row[1] for row in cells(app, "stack")][:1] == (["top"] if step.stack else [""])
    assert [", line ".join(row) for row in cells(app, "frames")] == list(reversed(step.frames))
    where = str(app.query_one("#where", Static).render())
    assert f"step {step.number} of" in where and step.function in where and (not step.block or f"exception block {step.block}" in where)
    assert str(app.query_one("#note", Static).render()) == step.note
    assert f"-> {step.offset:4}  {step.instruction}" in lines(app, "code")
    tinted = [row for row in range(app.query_one("#slots", DataTable).row_count) if app.tints.changed in str(app.query_one("#slots", DataTable).get_row_at(row)[3].style)]
    assert tinted == [slot.index for slot in step.slots if slot.changed and slot.kind != "stack"]


def test_the_stepper_shows_what_the_trace_has() -> None:
    trace = evalframe.step(work)(2)

    async def act(app: Any, pilot: Any) -> None:
        assert_shows(app, trace[0])
        for number in (5, 17, 26, len(trace) - 9, len(trace) - 1):
            app.walk.to(number)
            app.show()
            await pilot.pause()
            assert_shows(app, trace[number])

    drive(trace, act)


def test_the_source_has_the_columns_marked() -> None:
    trace = evalframe.step(work)(2)
    number = next(step.number for step in trace if step.instruction == "BINARY_OP" and step.argument == "*")

    async def act(app: Any, pilot: Any) -> None:
        app.walk.to(number)
        app.show()
        await pilot.pause()
        box = app.query_one("#source", Lines)
        marked = [segment.text for y in range(box.size.height) for segment in box.render_line(y) if segment.style and segment.style.bgcolor and segment.style.bgcolor.name == app.tints.mark[3:]]
        assert "".join(marked) == "b * 0.5"
        assert str(FIRST + 11) in lines(app, "source")

    drive(trace, act)


def test_keys_and_clicks_lead_on() -> None:
    trace = evalframe.step(work)(3)

    async def act(app: Any, pilot: Any) -> None:
        await pilot.press("right", "n", "left")
        assert app.walk.number == 1
        await pilot.press("c", "c", "n")
        assert app.walk.step.function == "helper"
        await pilot.press("o")
        assert app.walk.step.function == "work"
        await pilot.press("l", *str(FIRST + 6), "enter")
        assert app.walk.step.line == FIRST + 6
        await pilot.press("home", "s", "7", "enter")
        assert app.walk.number == 7 and not app.query_one(Input).has_class("shown")
        await pilot.press("end", "v", *"total", "enter")
        assert (app.walk.step.instruction, app.walk.step.argument) == ("STORE_FAST", "total")
        before = app.walk.number
        await pilot.press("v", "q", "n", "escape", "n")  # letters of the prompt are none of the keys
        assert app.walk.number == before + 1
        await pilot.press("l", "1", "enter")  # a line that never runs
        assert app.walk.number == before + 1
        app.query_one("#slots", DataTable).focus()
        await pilot.press("down", "enter")  # what has made the value under the cursor
        assert app.walk.number != before + 1 and app.walk.step.instruction == "STORE_FAST"
        app.set_focus(None)
        await pilot.press("home")
        assert await pilot.click("#code", offset=(10, 4))
        assert trace.instruction_index(app.walk.number) == 3
        await pilot.press("end", "down", "c")  # nothing is behind the end
        assert app.walk.number == len(trace) - 1
        await pilot.press("q")

    drive(trace, act)


def scaled(x, k):
    y = x * k
    return y.sum()


def test_notes_are_shown_and_reached_by_a_key() -> None:
    captured = evalframe.jit(scaled)
    captured(np.ones(3), 2.0)

    async def act(app: Any, pilot: Any) -> None:
        assert app.query_one("#noted").has_class("shown")
        await pilot.press("g")
        assert app.walk.step.instruction == "BINARY_OP" and cells(app, "noted")[0] == ["graph 0 of scaled: n0 = binary *(i0, i1): float64[3]"]
        assert "\u25c6" in lines(app, "code")

    drive(evalframe.step(captured)(np.ones(3), 2.0), act)


@pytest.mark.parametrize("size", [(80, 24), (40, 20), (200, 60)])
def test_any_terminal_will_do(size: tuple[int, int]) -> None:
    async def act(app: Any, pilot: Any) -> None:
        await pilot.press("n", "c", "n")
        assert_shows(app, app.walk.step) if size[0] >= 80 else None
        assert app.query_one("#source").size.height > 0 and app.query_one("#slots").size.height > 0

    drive(evalframe.step(work)(2), act, size)


def test_a_module_shows_its_namespace_and_nothing_is_shown_of_nothing() -> None:
    async def act(app: Any, pilot: Any) -> None:
        await pilot.press("end")
        assert ["x", "[1]"] in cells(app, "names") and app.query_one("#names").has_class("shown")
        app.theme = "textual-light"
        app.show()
        assert app.tints.changed == "on #d3f9d8"

    drive(evalframe.step("x = [1]\n")(), act)

    async def nothing(app: Any, pilot: Any) -> None:
        assert "nothing was recorded" in str(app.query_one("#where", Static).render())

    drive(evalframe.step(work, only="nothing")(1), nothing)


def in_terminal(*arguments: str, cwd: Path, keys: bytes = b"", **more: str) -> str:
    """What a command prints in a terminal of its own."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30", **more}
    environment = {name: value for name, value in environment.items() if value}
    process = subprocess.Popen([sys.executable, "-m", "evalframe", *arguments], stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env=environment)
    os.close(theirs)
    shown = b""
    while select.select([ours], [], [], 60)[0]:
        try:
            read = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        shown += read
        if keys and b"of" in shown and b"localsplus" in shown:
            os.write(ours, keys)
            keys = b""
    os.close(ours)
    assert process.wait(60) == 0, shown
    return shown.decode()


def test_commands_draw_tables_in_a_terminal_and_print_plain_text_elsewhere(tmp_path: Path) -> None:
    drawn = in_terminal("variables", "-c", "def f(a): return lambda: a", cwd=tmp_path, NO_COLOR="")
    assert "\x1b[33mcell" in drawn and "made here; used by f.<lambda>" in drawn
    plain = in_terminal("variables", "-c", "def f(a): return lambda: a", cwd=tmp_path, NO_COLOR="1")
    assert "\x1b" not in plain
    piped = subprocess.run([sys.executable, "-m", "evalframe", "variables", "-c", "def f(a): return lambda: a"], capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "FORCE_COLOR": "1"})
    assert piped.stdout == plain.replace("\r\n", "\n")


def test_step_opens_the_stepper_in_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("def f(a):\n    return a * 2\nf('ab')\n")
    assert "BINARY_OP" in in_terminal("step", "script.py:f", cwd=tmp_path, keys=b"q", NO_COLOR="")
    assert "returned 'abab'" in in_terminal("step", "--plain", "script.py:f", cwd=tmp_path)


def test_what_has_been_captured_is_drawn_as_tables() -> None:
    captured = evalframe.jit(scaled)
    for k in (2.0, 3, 2.0):
        captured(np.ones(3), k)
    evalframe.explain(captured)(np.ones(3), 2.0)
    shown = io.StringIO()
    things = [*evalframe.graphs(captured), *evalframe.guards(captured), evalframe.dis(scaled), evalframe.code(scaled), evalframe.variables(scaled)]
    terminal.print_tables(things, shown)  # type: ignore[arg-type]
    for text in ("n0 = binary *(i0, i1)", "failed 2 times", " ns", "CPython's name", "co_qualname", "argument", "scaled"):
        assert text in shown.getvalue(), text
    console = Console(file=io.StringIO(), width=200)
    console.print(evalframe.dis("x[0] = '[bold]'"))
    assert "'[bold]'" in console.file.getvalue()  # type: ignore[attr-defined]


def test_a_long_trace_stays_responsive() -> None:
    import time

    trace = evalframe.step(work, steps=20_000)(2000)
    assert len(trace) == 20_000

    async def act(app: Any, pilot: Any) -> None:
        start = time.monotonic()
        for way in ("last", "first", "graph", "over"):
            getattr(app.walk, way)()
            app.show()
        assert time.monotonic() - start < 5  # with room for a busy machine

    drive(trace, act)
