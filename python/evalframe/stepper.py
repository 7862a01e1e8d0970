"""Steps through a recorded run in a terminal, forwards and backwards: what its page shows, by textual."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import DataTable, Footer, Input, Static

from evalframe.step_walk import Walk
from evalframe.steps import Slot, Step, Trace


@dataclass(frozen=True)
class Tints:
    """Colours that mark things, of a dark or a light theme."""

    here: str
    mark: str
    changed: str
    dim: str
    note: str


_TINTS = {
    True: Tints("on #3b3413", "on #7a6400", "on #12401c", "#98a2ac", "#ffa8a8"),
    False: Tints("on #fff3bf", "on #ffd43b", "on #d3f9d8", "#5c6670", "#c92a2a"),
}


class Lines(ScrollView):
    """Lines of any number, of which those that can be seen are made."""

    can_focus = False

    class Picked(Message):
        """A line was clicked at, with Shift or without."""

        def __init__(self, lines: Lines, index: int, back: bool) -> None:
            super().__init__()
            self.lines, self.index, self.back = lines, index, back

    def __init__(self, title: str, id: str) -> None:
        super().__init__(id=id)
        self.border_title = title
        self._draw: Callable[[int], Text] = lambda index: Text()

    def show_lines(self, count: int, width: int, here: int, draw: Callable[[int], Text]) -> None:
        """`draw` makes a line; that of the number `here` is to be seen, if it is one."""
        self._draw = draw
        self.virtual_size = Size(width, count)
        if 0 <= here < count:
            self.scroll_to_region(Region(0, here, 1, 1), animate=False, x_axis=False, center=not self._shows(here))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Textual's: a line of what can be seen."""
        left, top = self.scroll_offset
        if top + y >= self.virtual_size.height:
            return Strip.blank(self.size.width)
        line = Strip(self._draw(top + y).render(self.app.console))
        return line.crop_extend(left, left + self.size.width, Style())

    def on_click(self, event: events.Click) -> None:
        """Textual's."""
        index = self.scroll_offset.y + event.y - self.gutter.top
        if 0 <= index < self.virtual_size.height:
            self.post_message(self.Picked(self, index, event.shift))

    def _shows(self, line: int) -> bool:
        return self.scroll_offset.y <= line < self.scroll_offset.y + self.size.height


@dataclass(frozen=True)
class Prompt:
    """What is asked for at the bottom, and what is done with it: False where it leads nowhere."""

    about: str
    go: Callable[[Walk, str], bool]


def _numbered(go: Callable[[Walk, int], bool]) -> Callable[[Walk, str], bool]:
    return lambda walk, text: text.strip().isdecimal() and go(walk, int(text))


_PROMPTS = {
    "line": Prompt("line", _numbered(lambda walk, number: walk.line(number) or walk.line(number, back=True))),
    "step": Prompt("step", _numbered(Walk.to)),
    "variable": Prompt("last change of variable", lambda walk, text: walk.variable(text.strip())),
}
# What keys and buttons do: an action is a method of Walk.
_KEYS = (
    ("right,n", "next", "next"), ("left,p", "back", "back"), ("down,j", "over", "over"), ("up,k", "under", "under"),
    ("c", "call", "next call"), ("g", "graph", "next node"), ("o", "out", "out"),
    ("home", "first", "first"), ("end", "last", "last"),
)  # fmt: skip


class Stepper(App[None]):
    """The stepper of one trace."""

    CSS = """
    #where, #note { height: 1; padding: 0 1; }
    Lines, DataTable { border: round $surface-lighten-2; height: 1fr; scrollbar-size: 1 1; }
    #left { width: 1fr; } #right { width: 1fr; } #noted, #names { display: none; }
    #noted.shown, #names.shown { display: block; }
    Lines, DataTable { border-title-color: $text; } DataTable:focus { border: round $accent; }
    DataTable:blur > .datatable--cursor { background: transparent; color: $text; text-style: none; }
    Input { display: none; height: 3; } Input.shown { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(keys, f"walk('{way}')", about, priority=True) for keys, way, about in _KEYS),
        *(
            Binding(prompt[0], f"ask('{prompt}')", _PROMPTS[prompt].about, priority=True, show=prompt != "step")
            for prompt in ("line", "step", "variable")
        ),
        Binding("q", "quit", "quit", priority=True),
        Binding("escape", "dismiss_prompt", show=False, priority=True),
    ]
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None

    def __init__(self, trace: Trace, title: str = "steps") -> None:
        super().__init__()
        self.title = title
        self.walk = Walk(trace)
        self._prompt: Prompt | None = None

    def compose(self) -> ComposeResult:
        """Textual's."""
        yield Static(id="where")
        yield Static(id="note")
        with Horizontal():
            with Vertical(id="left"):
                yield Lines("source", "source")
                yield Lines("instructions", "code")
            with Vertical(id="right"):
                for name, about, columns in (
                    ("stack", "value stack", ("index", "", "value")),
                    ("slots", "localsplus", ("index", "kind", "name", "value")),
                    ("names", "namespace", ("name", "value")),
                    ("frames", "frames", ("function", "line")),
                    ("noted", "noted by the recorder", ("",)),
                ):
                    table: DataTable[Text] = DataTable(id=name, cursor_type="row", show_header=name != "noted")
                    table.border_title = about
                    table.add_columns(*columns)
                    yield table
        yield Input()
        yield Footer()

    def on_mount(self) -> None:
        """Textual's."""
        self.show()

    def on_resize(self) -> None:
        """Textual's."""
        self.call_after_refresh(self.show)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Textual's: letters go into the prompt while there is one."""
        if self._prompt is not None:
            return action in ("dismiss_prompt",)
        focused = isinstance(self.focused, DataTable) and parameters in (("over",), ("under",))
        return not (action == "walk" and focused) and action != "dismiss_prompt"

    def action_walk(self, way: str) -> None:
        """Goes on in one of the ways of a Walk."""
        moved: bool = getattr(self.walk, way)()
        self.show() if moved else self.bell()

    def action_ask(self, prompt: str) -> None:
        """Asks for a line, a step or a variable."""
        self._prompt = _PROMPTS[prompt]
        box = self.query_one(Input)
        box.value, box.border_title = "", self._prompt.about
        box.add_class("shown")
        box.focus()
        self.refresh_bindings()

    def action_dismiss_prompt(self) -> None:
        """Asks for nothing any more."""
        self._prompt = None
        self.query_one(Input).remove_class("shown")
        self.set_focus(None)
        self.refresh_bindings()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Textual's."""
        prompt = self._prompt
        self.action_dismiss_prompt()
        if prompt is not None and prompt.go(self.walk, event.value):
            self.show()
        else:
            self.notify(f"there is no such {prompt.about if prompt else 'thing'}: {event.value!r}", severity="warning")

    def on_lines_picked(self, message: Lines.Picked) -> None:
        """A click on a line goes to where it runs next; with Shift, to where it ran last."""
        find = self.walk.line if message.lines.id == "source" else self.walk.instruction
        number = message.index + 1 if message.lines.id == "source" else message.index
        self.show() if find(number, message.back) else self.bell()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """A value leads to what made it."""
        step, row = self.walk.step, event.cursor_row
        slots = {
            "stack": [slot for slot in reversed(step.slots) if slot.kind == "stack"],
            "slots": [slot for slot in step.slots if slot.kind != "stack"],
            "names": list(step.names),
        }.get(event.data_table.id or "", [])
        if row < len(slots) and self.walk.made(slots[row].index, slots[row].kind == "name"):
            self.show()

    @property
    def tints(self) -> Tints:
        """Those of the present theme."""
        return _TINTS[self.current_theme.dark]

    def show(self) -> None:
        """Shows the present step."""
        if not len(self.walk.trace):
            self.query_one("#where", Static).update("nothing was recorded")
            return
        step = self.walk.step
        self.query_one("#where", Static).update(self._where(step), layout=False)
        self.query_one("#note", Static).update(Text(self._note(step), self.tints.note), layout=False)
        self._show_source(step)
        self._show_code(step)
        variables = [slot for slot in step.slots if slot.kind != "stack"]
        stack = list(reversed(step.slots[len(variables) :]))
        self._fill("stack", self._stack_rows(stack))
        self._fill("slots", [self._row(slot, (str(slot.index), slot.kind, slot.name)) for slot in variables])
        self._fill("names", [self._row(slot, (slot.name,)) for slot in step.names])
        self._fill("frames", [[Text(part) for part in frame.rsplit(", line ", 1)] for frame in reversed(step.frames)])
        self._fill("noted", [[Text(note)] for note in step.noted])
        self.query_one("#names").set_class(bool(step.names), "shown")
        self.query_one("#noted").set_class(self.walk.trace.has_notes, "shown")

    def _where(self, step: Step) -> Text:
        doing = step.end or f"at {step.offset} {step.instruction} {step.argument}".rstrip()
        shown = Text(f"{self.title}: step {step.number} of {len(self.walk.trace)}  ", self.tints.dim)
        shown.append(f"{step.function}, line {step.line or '?'}: {doing}", "bold")
        return shown.append(f"  exception block {step.block}" if step.block else "", self.tints.dim)

    def _note(self, step: Step) -> str:
        is_last = step.number + 1 == len(self.walk.trace)
        return step.note or (self.walk.trace.stopped_line if is_last else "")

    def _show_source(self, step: Step) -> None:
        lines = self.walk.trace.source(step.number)
        begin, end = self.walk.trace.span(step.number)
        box = self.query_one("#source", Lines)
        box.border_title = step.file

        def draw(index: int) -> Text:
            line = Text(f"{index + 1:5}  ", self.tints.dim).append(lines[index], "not dim default")
            if begin[0] <= index + 1 <= end[0]:
                first = begin[1] if index + 1 == begin[0] else 0
                last = end[1] if index + 1 == end[0] else len(lines[index])
                line.stylize(self.tints.here)
                line.stylize(self.tints.mark, 7 + first, 7 + last)
            return line

        width = max((len(line) for line in lines), default=0) + 8
        box.show_lines(len(lines), width, (step.line or 0) - 1, draw)

    def _show_code(self, step: Step) -> None:
        rows, here = self.walk.trace.listing(step.number), self.walk.trace.instruction_index(step.number)
        noted = self.walk.trace.notes_by_instruction(step.number)

        def draw(index: int) -> Text:
            row = rows[index]
            line = Text(f"{'->' if index == here else '  '} {row['offset']:4}  ", self.tints.dim)
            line.append(f"{row['name']:<24} {row['text']}", "default")
            line.append("   \u25c6" if noted[index] else "", "bold")
            line.append(f"   (raises: to {row['handler']})" if row["handler"] is not None else "", self.tints.dim)
            line.stylize(self.tints.here if index == here else "")
            return line

        width = max(60 + len(row["text"]) for row in rows)
        self.query_one("#code", Lines).show_lines(len(rows), width, here, draw)

    def _stack_rows(self, stack: Sequence[Slot]) -> Iterator[list[Text]]:
        if not stack:
            yield [Text(""), Text(""), Text("empty", self.tints.dim)]
        for place, slot in enumerate(stack):
            yield self._row(slot, (str(slot.index), "top" if place == 0 else ""))

    def _row(self, slot: Slot, cells: tuple[str, ...]) -> list[Text]:
        """Tinted where the instruction before has changed the slot."""
        tint = self.tints.changed if slot.changed else ""
        dim = self.tints.dim if slot.value == "NULL" else ""
        return [*(Text(cell, tint) for cell in cells), Text(slot.value, f"{dim} {tint}".strip())]

    def _fill(self, name: str, rows: Sequence[list[Text]] | Iterator[list[Text]]) -> None:
        table: DataTable[Text] = self.query_one(f"#{name}", DataTable)
        at = table.cursor_row
        table.clear()
        table.add_rows(rows)
        if 0 <= at < table.row_count:
            table.move_cursor(row=at, animate=False)
