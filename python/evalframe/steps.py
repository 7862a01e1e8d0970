"""Records a run step by step: what a frame's stack and variables hold before each instruction."""

import base64
import json
import linecache
import os
import sysconfig
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, overload

from evalframe import _core
from evalframe.bytecode import code_of
from evalframe.jit import counted
from evalframe.step_notes import Notes, notes_of_function

STEPS = 100_000
MEMORY = 256 << 20
_DONE = ("caught", "returned", "yielded", "raised", "", "run by")
_ENDS = ("", "returned", "yielded", "raised", "left to CPython", "captured")


@dataclass(frozen=True)
class Slot:
    """One place of localsplus, of the stack or of a namespace, before a step."""

    index: int
    kind: str  # "argument", "local", "cell", "free", "stack", or "name" of a module's or class's namespace
    name: str
    value: str
    changed: bool


@dataclass(frozen=True)
class Step:
    """The state of one frame before an instruction; or its end, if `end` says how it ended."""

    number: int
    function: str
    file: str
    line: int | None
    columns: tuple[int, int] | None  # in characters from 0, where it's on one line
    offset: int
    instruction: str
    argument: str
    end: str  # "", "returned", "yielded", "raised", "left to CPython", or "captured": a graph runs it, in one step
    note: str  # what was returned, yielded, raised, has been caught, or runs the call
    stack: tuple[str, ...]  # its top last
    slots: tuple[Slot, ...]  # localsplus, then the stack
    names: tuple[Slot, ...]  # of a module's or class's namespace
    handler: int | None  # byte offset of where the exception table has it go on if the instruction raises
    block: str  # the row of the exception table that says so: "6 to 28: to 90, 1 on the stack"; "" where there is none
    frames: tuple[str, ...]  # callers as "function, line", the frame itself last
    noted: tuple[str, ...] = ()  # by the recorder at this instruction, when the function was captured: see `step`

    @property
    def changed(self) -> tuple[Slot, ...]:
        """What the instruction before has changed."""
        return tuple(slot for slot in (*self.slots, *self.names) if slot.changed)

    def __str__(self) -> str:
        where = f"{self.function}:{self.line if self.line is not None else '?'}"
        doing = f"{self.offset:4} {self.instruction} {self.argument}".rstrip()
        parts = [f"{self.number:6}  {where:24} {self.note if self.end else doing:36}"]
        if self.note and not self.end:
            parts.append(self.note)
        if not self.end:
            parts.append("[" + " | ".join(self.stack) + "]")
            parts += [f"{slot.name}={slot.value}" for slot in self.changed if slot.kind != "stack"]
            guards = [note for note in self.noted if note.startswith("guard ")]
            parts += [f"<{counted(len(guards), 'guard')}>"] if guards else []
            parts += [f"<{note}>" for note in self.noted if note not in guards]
        return "  ".join(parts).rstrip()


class Trace(Sequence[Step]):
    """The steps of a run, indexed from 0. `result` is what the run gave, `exception` what it raised."""

    def __init__(self, recorder: _core.StepRecorder, sources: dict[str, str], notes: Notes | None = None) -> None:
        self._recorder = recorder
        self._sources = sources
        self._notes = notes or Notes()
        self.result: Any = None
        self.exception: BaseException | None = None

    @property
    def stopped(self) -> str:
        """What ended the recording before the run: "steps", "memory", or "" if nothing did."""
        return self._recorder.stopped()

    @property
    def memory(self) -> int:
        """Bytes that the recording takes."""
        return self._recorder.memory()

    def __len__(self) -> int:
        return len(self._recorder)

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> list[Step]: ...
    def __getitem__(self, index: int | slice) -> Step | list[Step]:
        if isinstance(index, slice):
            return [self._step(number) for number in range(*index.indices(len(self)))]
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(f"there is no step {index}: the trace has {len(self)}")
        return self._step(number)

    def __iter__(self) -> Iterator[Step]:
        return map(self._step, range(len(self)))

    def _step(self, number: int, changed_names_only: bool = False) -> Step:
        node, at, kind, note, slots, names, *changes = self._recorder.step(number, changed_names_only)
        changed, changed_names = changes
        code = self._codes[self._nodes[node][3]]
        row = code.rows[at]
        found = []
        for index, text in enumerate(slots):
            what, name = code.kind_and_name(index)
            found.append(Slot(index, what, name, self._texts[text], index in changed))
        held = [
            Slot(index, "name", code.code.co_names[index], self._texts[text], index in changed_names)
            for index, text in names
        ]
        columns = row["columns"]
        return Step(
            number=number,
            function=code.code.co_qualname,
            file=code.code.co_filename,
            line=row["line"],
            columns=(columns[0], columns[1]) if columns and row["line"] == row["end_line"] else None,
            offset=row["offset"],
            instruction=row["name"],
            argument=row["text"],
            end=_ENDS[kind],
            note=f"{_DONE[kind]} {self._texts[note]}" if note is not None else _ENDS[kind],
            stack=tuple(slot.value for slot in found[len(code.slots) :]),
            slots=tuple(found),
            names=tuple(held),
            handler=row["handler"],
            block=row["block"],
            frames=tuple(reversed(list(self._frames(node, row["line"])))),
            noted=code.noted(self._notes, at) if kind == 0 else (),
        )

    # What is looked for among many steps, without putting their states together.

    def node(self, number: int) -> int:
        """Which call it belongs to, or stretch of a generator; numbered as they began."""
        return self._recorder.place(number)[0]

    @property
    def parents(self) -> list[int | None]:
        """Of each such call that in which it began."""
        return [parent for _, parent, _, _ in self._nodes]

    def code_number(self, number: int) -> int:
        """Which of the code objects that ran."""
        code: int = self._nodes[self.node(number)][3]
        return code

    def code_at(self, number: int) -> types.CodeType:
        """The code object that a step is of."""
        return self._codes[self.code_number(number)].code

    def instruction_index(self, number: int) -> int:
        """Which instruction of its code object."""
        return self._recorder.place(number)[1]

    def listing(self, number: int) -> list[dict[str, Any]]:
        """The instructions of the code object that a step is of."""
        return self._codes[self.code_number(number)].rows

    def source(self, number: int) -> list[str]:
        """The lines of the file that a step is in."""
        return self._lines(self.code_at(number).co_filename)

    def line(self, number: int) -> int | None:
        """The line that it is in."""
        line: int | None = self.listing(number)[self.instruction_index(number)]["line"]
        return line

    def instruction_name(self, number: int) -> str:
        """The instruction that runs next; "" of a frame's end."""
        _, index, kind = self._recorder.place(number)
        return self.listing(number)[index]["name"] if kind == 0 else ""

    def noted(self, number: int) -> tuple[str, ...]:
        """What the recorder noted at its instruction."""
        _, index, kind = self._recorder.place(number)
        return self._codes[self.code_number(number)].noted(self._notes, index) if kind == 0 else ()

    def notes_by_instruction(self, number: int) -> list[tuple[str, ...]]:
        """The same for each instruction of its code object."""
        return self._codes[self.code_number(number)].all_noted(self._notes)

    def span(self, number: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Lines and columns (in characters) between which its instruction's source is; (0, 0) twice where that isn't
        known."""
        row = self.listing(number)[self.instruction_index(number)]
        if row["line"] is None or row["columns"] is None:
            return (0, 0), (0, 0)
        return (row["line"], row["columns"][0]), (row["end_line"], row["columns"][1])

    @property
    def has_notes(self) -> bool:
        """Whether the recorder noted anything of what ran."""
        return bool(self._notes.at or self._notes.at_begin)

    def previous(self, number: int) -> int | None:
        """The step before in the same frame."""
        return self._recorder.previous(number)

    def last_change(self, number: int, index: int, is_name: bool = False) -> int:
        """The step of the frame, this one or before, that shows a slot (or a name by its index in co_names) changed."""
        return self._recorder.last_change(number, index, is_name)

    def _frames(self, node: int, line: int | None) -> Iterator[str]:
        yield f"{self._codes[self._nodes[node][3]].code.co_qualname}, line {line}"
        _, parent, parent_step, _ = self._nodes[node]
        while parent is not None:
            code = self._codes[self._nodes[parent][3]]
            at = self.instruction_index(parent_step) if parent_step is not None else 0
            yield f"{code.code.co_qualname}, line {code.rows[at]['line']}"
            _, parent, parent_step, _ = self._nodes[parent]

    @cached_property
    def _texts(self) -> list[str]:
        return self._recorder.texts()

    @cached_property
    def _nodes(self) -> list[tuple[Any, ...]]:
        return self._recorder.nodes()

    @cached_property
    def _codes(self) -> list["_Code"]:
        return [_Code(code, self._lines) for code in self._recorder.codes()]

    def _lines(self, file: str) -> list[str]:
        if file in self._sources:
            return self._sources[file].splitlines()
        return [line.rstrip("\n") for line in linecache.getlines(file)]

    def __repr__(self) -> str:
        end = f", stopped by the bound on {self.stopped}" if self.stopped else ""
        return f"<Trace of {len(self)} steps in {len(self._nodes)} frames{end}>"

    def __str__(self) -> str:
        return self.text()

    def text(self) -> str:
        """One line a step."""
        # A module may have thousands of names, at each of as many steps.
        lines = [str(self._step(number, changed_names_only=True)) for number in range(len(self))]
        lines += [self.stopped_line] if self.stopped else []
        return "\n".join(lines)

    @property
    def stopped_line(self) -> str:
        """Says where the recording was ended by a bound; "" where it wasn't."""
        if not self.stopped:
            return ""
        option = "--steps" if self.stopped == "steps" else "--memory"
        return f"... not recorded from here on: the bound on {self.stopped} is reached ({option} sets it)"

    def json(self) -> Iterator[str]:
        """The lines of a JSON document, one a step, the same for the same run of the same program."""
        yield '{"version": 1, "stopped": ' + json.dumps(self.stopped) + ', "steps": ['
        for step in self:
            yield json.dumps(asdict(step)) + ("," if step.number + 1 < len(self) else "")
        yield "]}"

    def html(self, title: str = "steps") -> str:
        """One page that needs nothing else: forwards and backwards by keys and buttons."""
        page = (Path(__file__).parent / "pages" / "steps.html").read_text(encoding="utf-8")
        data = {
            "steps": len(self),
            "packed": base64.b64encode(self._recorder.packed()).decode("ascii"),
            "texts": self._texts,
            "nodes": self._nodes,
            "codes": [code.for_page(self._notes) for code in self._codes],
            "sources": {code.code.co_filename: self._lines(code.code.co_filename) for code in self._codes},
            "stopped": self.stopped_line,
        }
        # A text of the program's may have "</script>" in it.
        shown = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
        return page.replace("@TITLE@", escape(title)).replace("@DATA@", shown)

    def _repr_html_(self) -> str:
        return f'<iframe style="width:100%;height:640px;border:0" srcdoc="{escape(self.html(), quote=True)}"></iframe>'


class _Code:
    """A code object as steps of it are shown."""

    def __init__(self, code: types.CodeType, lines: Callable[[str], list[str]]) -> None:
        self.code = code
        self.slots = _core.slot_rows(code)
        source = lines(code.co_filename)
        rows = _core.instruction_rows(code)
        self.rows: list[dict[str, Any]] = []
        for offset, name, real, argument, text, target, (line, end_line, column, end_column) in rows:
            columns = None
            if line > 0 and column >= 0 and end_column >= 0:
                columns = [characters(source, line, column), characters(source, end_line, end_column)]
            shown = text or (f"to {rows[target][0]}" if target >= 0 else str(argument) if argument else "")
            self.rows.append(
                {
                    "offset": offset, "name": name, "real": real if real != name else "", "text": shown,
                    "line": line if line > 0 else None, "end_line": end_line, "columns": columns, "handler": None,
                    "block": "",
                }
            )  # fmt: skip
        for start, end, target, depth, lasti in _core.bytecode.decode(code)[1]:
            handler, last = self.rows[target]["offset"], self.rows[min(end, len(self.rows)) - 1]["offset"]
            shown = f"{self.rows[start]['offset']} to {last}: to {handler}, {depth} on the stack"
            for row in self.rows[start:end]:
                row["handler"], row["block"] = handler, shown + (" and the offset" if lasti else "")

    def kind_and_name(self, index: int) -> tuple[str, str]:
        if index >= len(self.slots):
            return "stack", ""
        name, kind = self.slots[index]
        return kind, name

    def noted(self, notes: Notes, index: int) -> tuple[str, ...]:
        """What the recorder noted at an instruction; at the first one, of the function's beginning, too."""
        offset = self.rows[index]["offset"]
        return notes.of(self.code.co_filename, self.code.co_qualname, offset, begins=index == 0)

    def all_noted(self, notes: Notes) -> list[tuple[str, ...]]:
        """The same of each."""
        return [self.noted(notes, index) for index in range(len(self.rows))]

    def for_page(self, notes: Notes) -> dict[str, Any]:
        """What the page needs of the code."""
        code = self.code
        rows = [[*row.values(), noted] for row, noted in zip(self.rows, self.all_noted(notes), strict=True)]
        return {
            "name": code.co_qualname, "file": code.co_filename, "line": code.co_firstlineno, "slots": self.slots,
            "names": code.co_names, "rows": rows, "stack": code.co_stacksize,
        }  # fmt: skip


def characters(lines: list[str], line: int, column: int) -> int:
    """CPython counts columns in bytes of UTF-8."""
    if not 0 < line <= len(lines) or lines[line - 1].isascii():
        return column
    return len(lines[line - 1].encode("utf-8", "surrogatepass")[:column].decode("utf-8", "replace"))


@dataclass(frozen=True)
class Chosen:
    """Which frames are recorded: by the names of functions, else all but those of libraries."""

    only: tuple[str, ...] = ()
    files: tuple[str, ...] = ()  # with names: only in these; else also these, wherever they are
    everything: bool = False

    def __call__(self, code: types.CodeType) -> bool:
        file = code.co_filename
        if self.only:
            return self.names(code.co_qualname, file)
        if file in self.files:
            return True
        if file.startswith(_OWN_FOLDER):
            return False
        return self.everything or not (file.startswith("<frozen ") or file.startswith(_LIBRARIES))

    def names(self, qualname: str, file: str) -> bool:
        """Whether a function is one of those that are named, or inside one."""
        return (not self.files or file in self.files) and any(_is_named(qualname, name) for name in self.only)


_OWN_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LIBRARIES = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def _is_named(qualname: str, name: str) -> bool:
    """`name` is a qualified name, with or without "<locals>"; functions inside it count, too."""
    plain, wanted = qualname.replace(".<locals>", ""), name.replace(".<locals>", "")
    return plain == wanted or plain.startswith(wanted + ".")


def recorder(chosen: Callable[[types.CodeType], bool], steps: int, memory: int, reprs: bool) -> _core.StepRecorder:
    """A recorder; ValueError for bounds that make no sense."""
    if steps < 1 or steps > 1 << 30:
        raise ValueError(f"steps={steps}: at least 1 and at most {1 << 30} steps can be recorded")
    if memory < 1:
        raise ValueError(f"memory={memory}: a recording needs some bytes")
    return _core.StepRecorder(chosen, steps, memory, reprs)


def step(
    program: Callable[..., Any] | str,
    *,
    only: str | Sequence[str] = (),
    everything: bool = False,
    steps: int = STEPS,
    memory: int = MEMORY,
    reprs: bool = False,
) -> Callable[..., Trace]:
    """Record a run of a function, or of a source text, instruction by instruction: ``step(fn)(*args)`` is a trace.

    ``only`` names the functions whose frames are recorded (qualified names; functions inside them count, too); without
    it, all frames but those of libraries are, with ``everything`` those as well. ``steps`` and ``memory`` (bytes) bound
    the recording, not the run. Values are shown without running code of the program's; ``reprs=True`` asks objects of
    its classes and arrays for their repr. What the run raises is the trace's ``exception``. Of a function made by
    :func:`evalframe.jit` steps tell what the recorder noted there in the calls before; the run itself is plain Python.
    """
    names = (only,) if isinstance(only, str) else tuple(only)
    notes = notes_of_function(program) if isinstance(program, _core.Jit) else Notes()
    sources: dict[str, str] = {}
    files: tuple[str, ...] = ()
    run: Callable[..., Any]
    if isinstance(program, str):
        code = compile(program, "<source>", "exec", dont_inherit=True)
        sources["<source>"] = program

        def run() -> None:
            exec(code, {"__name__": "__main__"})

    elif callable(program):
        run = program.__wrapped__ if isinstance(program, _core.Jit) else program
        if not names:
            files = (code_of(run).co_filename,) if hasattr(run, "__code__") else ()
    else:
        raise TypeError(f"evalframe.step: expected a function or a source text, got {type(program).__name__}")

    def record(*args: Any, **kwargs: Any) -> Trace:
        made = recorder(Chosen(names, files, everything), steps, memory, reprs)
        trace = Trace(made, sources, notes)
        try:
            trace.result = made.call(run, args, kwargs)
        except Exception as error:
            trace.exception = error
        return trace

    return record
