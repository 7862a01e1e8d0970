"""What was captured, as objects to look at: graphs with the source lines of their nodes, guards as trees."""

from __future__ import annotations

import json
import linecache
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from evalframe import _core, notebook, terminal
from evalframe.graph_svg import svg
from evalframe.jit import counted, failures_of, nanoseconds, start_of

if TYPE_CHECKING:
    from rich.table import Table

Captures = Sequence[Mapping[str, Any]]
# Of a graph's table, with their styles in a terminal.
_COLUMNS = {"line": "dim", "node": "cyan", "source": ""}


@dataclass(frozen=True)
class Place:
    """Where the program has what became a node. Lines from 1, columns in bytes from 0; -1 where unknown."""

    file: str
    function: str
    offset: int  # of the instruction
    line: int
    end_line: int
    column: int
    end_column: int


@dataclass(frozen=True)
class GraphRow:
    """An input or a node of a graph, or a store that is put off to the graph's exit."""

    name: str  # "i0" of an input, "n0" of a node, "s0" of a store
    text: str
    operands: tuple[str, ...]  # names of the inputs and nodes that it is made of
    effect: str  # "pure", "derived" (of an operand's memory or identity), "check" (may leave the graph) or "effect"
    place: Place | None  # None: an input


@dataclass(frozen=True)
class CapturedGraph:
    """A graph as recorded. Its `str` has its nodes under the lines of the program that they come from."""

    function: str
    file: str
    line: int  # of the function
    number: int  # among those of the function
    start: str  # "start", or the line where it begins behind a break or in a loop
    ends: str  # why it ends; "": it ends with the function
    end_place: Place | None  # of the instruction that comes next then
    rows: tuple[GraphRow, ...]  # inputs and nodes
    stores: tuple[tuple[int, GraphRow], ...]  # behind how many nodes, in order

    @property
    def title(self) -> str:
        return f"{self.function} ({self.file}:{self.line}), graph {self.number}, from {self.start}"

    @property
    def in_order(self) -> Iterator[GraphRow]:
        """Inputs, nodes and stores as the program comes to them."""
        stores, nodes = list(self.stores), 0
        for row in self.rows:
            if row.place is not None:
                while stores and stores[0][0] <= nodes:
                    yield stores.pop(0)[1]
                nodes += 1
            yield row
        yield from (row for _, row in stores)

    def __str__(self) -> str:
        lines, at = [self.title], (self.file, -1)
        for row in self.in_order:
            if row.place and (row.place.file, row.place.line) != at:
                at = (row.place.file, row.place.line)
                lines.append(self._source_line(row.place))
            lines.append(f"       {row.text}")
        return "\n".join([*lines, f"  ends: {self.ends or 'returns'}"])

    __repr__ = __str__

    def _source_line(self, place: Place) -> str:
        source = linecache.getline(place.file, place.line).strip()
        other_file = "" if place.file == self.file else f" in {place.file}"
        where = f"  [{place.function}{other_file}]" if other_file or place.function != self.function else ""
        return f"{place.line:4} | {source}{where}".rstrip()

    def json(self) -> Iterator[str]:
        """Each input and node as a JSON object, and the graph's end."""
        for row in (*self.in_order, GraphRow("end", self.ends or "returns", (), "", self.end_place)):
            told: dict[str, Any] = {"function": self.function, "file": self.file, "graph": self.number}
            told |= {"start": self.start, "name": row.name, "text": row.text, "effect": row.effect}
            yield json.dumps(told | {"operands": row.operands, "place": vars(row.place) if row.place else None})

    def _cells(self) -> Iterator[tuple[str, str, str]]:
        for row in self.in_order:
            line = f"{row.place.line}" if row.place else ""
            yield line, row.text, linecache.getline(row.place.file, row.place.line).strip() if row.place else ""

    def __rich__(self) -> Table:
        end = "", f"ends: {self.ends or 'returns'}", ""
        return terminal.table(self.title, _COLUMNS, (*self._cells(), end))

    def _repr_html_(self) -> str:
        table = notebook.table(_COLUMNS, self._cells())
        style = "<style>svg.graph { max-width: 100% } svg.graph * { font: 12px monospace; fill: none; stroke: #888 } "
        style += "svg.graph text { fill: currentColor; stroke: none }</style>"
        return f"<p>{escape(self.title)}</p>{style}{svg(self)}{table}<p>{escape(self.ends or 'returns')}</p>"


@dataclass(frozen=True)
class Guard:
    """Something that has to hold for a graph to serve a call."""

    subject: str  # what it looks at, as the program reaches it
    fact: str  # what it asks of that
    depth: int  # in the tree: `self.weight` is reached through `self`
    failed: int  # times that it was the one that said no
    found: tuple[tuple[str, int], ...]  # what it found then, and how often: the first few such things
    hint: str  # what to do where it fails often
    seconds: float | None  # that a look takes; None: not measured
    place: Place | None  # of the instruction that it is for; None: of the recording's beginning

    def __str__(self) -> str:
        return f"{self.subject} {self.fact}"

    @property
    def failures(self) -> str:
        """How often it said no, and what it found then; "" where it didn't."""
        return failures_of(vars(self))


@dataclass(frozen=True)
class GuardTree:
    """The guards of one graph. Its `str` has each under the one through which it is reached."""

    function: str
    file: str
    line: int
    number: int
    start: str
    held: int  # times that all of them held, so that the graph served
    failed: int  # times that one didn't; a call that is recorded anew has asked twice
    seconds: float | None  # that all of them take where they hold; None: not measured
    guards: tuple[Guard, ...]  # parents before their children

    @property
    def title(self) -> str:
        counts = f"held {counted(self.held, 'time')}, failed {counted(self.failed, 'time')}"
        counts += f", {self.unlike} of them by other variables being set" if self.unlike else ""
        cost = f"; {nanoseconds(self.seconds)} a call" if self.seconds is not None else ""
        return f"{self.function} ({self.file}:{self.line}), graph {self.number}, from {self.start}: {counts}{cost}"

    @property
    def unlike(self) -> int:
        """Times that none of them was asked, as other variables were set than in the recorded frame."""
        return self.failed - sum(guard.failed for guard in self.guards)

    def __str__(self) -> str:
        width = min(40, max((2 * guard.depth + len(guard.subject) for guard in self.guards), default=0))
        lines = [self.title]
        for guard in self.guards:
            failed = f"  ({guard.failures}; {guard.hint})" if guard.failed else ""
            cost = f"{nanoseconds(guard.seconds):>8}  " if guard.seconds is not None else ""
            lines.append(f"  {cost}{'  ' * guard.depth + guard.subject:<{width}}  {guard.fact}{failed}")
        return "\n".join(lines if self.guards else [*lines, "  none"])

    __repr__ = __str__

    def _cells(self, guard: Guard) -> tuple[str, str, str]:
        why = f"{guard.failures}; {guard.hint}" if guard.failed else ""
        return guard.fact, why, nanoseconds(guard.seconds) if guard.seconds is not None else ""

    def __rich__(self) -> Table:
        rows = (("  " * guard.depth + guard.subject, *self._cells(guard)) for guard in self.guards)
        return terminal.table(self.title, {"of": "cyan", "asked": "", "failed": "red", "cost": "dim"}, rows)

    def json(self) -> Iterator[str]:
        """Each guard as a JSON object."""
        for guard in self.guards:
            told = {"function": self.function, "file": self.file, "graph": self.number, "start": self.start}
            of_all = {"graph_held": self.held, "graph_failed": self.failed, "graph_seconds": self.seconds}
            place = vars(guard.place) if guard.place else None
            yield json.dumps(told | of_all | vars(guard) | {"place": place})

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><td style="text-align:left;padding-left:{1 + guard.depth * 1.5}em">{escape(guard.subject)}</td>'
            + "".join(f'<td style="text-align:left">{escape(cell)}</td>' for cell in self._cells(guard))
            + "</tr>"
            for guard in self.guards
        )
        head = "<tr><th>of</th><th>asked</th><th>failed</th><th>cost</th></tr>"
        return f"<p>{escape(self.title)}</p><table>{head}{rows}</table>"


Told = TypeVar("Told", CapturedGraph, GuardTree)


class Listed(tuple[Told, ...], Generic[Told]):
    """Graphs or guards of functions: a tuple whose `str`, `repr` and HTML show all of it."""

    def __str__(self) -> str:
        return "\n\n".join(map(str, self)) or "nothing was captured"

    __repr__ = __str__

    def json(self) -> Iterator[str]:
        """JSON objects, one for each node or guard."""
        return (line for one in self for line in one.json())

    def _repr_html_(self) -> str:
        return "\n".join(one._repr_html_() for one in self) or "<p>nothing was captured</p>"


def graphs(function: Any) -> Listed[CapturedGraph]:
    """The graphs that were captured of a function: of one made by :func:`evalframe.jit`, or of a plain one that was
    called under :class:`evalframe.enabled`, while that is on."""
    return graphs_of(_captures_of(function))


def guards(function: Any) -> Listed[GuardTree]:
    """The guards of these graphs: what has to hold of a call for the graph to serve it, and how often it didn't."""
    return guards_of(_captures_of(function))


def graphs_of(captures: Captures) -> Listed[CapturedGraph]:
    """The graphs in what `_core.captures()` tells."""
    return Listed(
        CapturedGraph(*_head(capture, number, entry), *_end(entry), *_graph_rows(entry))
        for capture in captures
        for number, entry in enumerate(capture["entries"])
    )


def guards_of(captures: Captures) -> Listed[GuardTree]:
    """The guards in what `_core.captures()` tells."""
    return Listed(
        GuardTree(*_head(capture, number, entry), *_counts(entry), tuple(_tree(entry["guard_rows"])))
        for capture in captures
        for number, entry in enumerate(capture["entries"])
    )


def _head(capture: Mapping[str, Any], number: int, entry: Mapping[str, Any]) -> tuple[str, str, int, int, str]:
    return capture["function"], capture["file"], capture["line"], number, start_of(entry)


def _counts(entry: Mapping[str, Any]) -> tuple[int, int, float | None]:
    return entry["hits"], entry["misses"], entry["guard_seconds"]


def _end(entry: Mapping[str, Any]) -> tuple[str, Place | None]:
    return entry["ends"], _place(entry["end_place"]) if entry["end_place"] is not None else None


def _graph_rows(entry: Mapping[str, Any]) -> tuple[tuple[GraphRow, ...], tuple[tuple[int, GraphRow], ...]]:
    rows = tuple(
        GraphRow(row["name"], row["text"], tuple(row.get("operands", ())), row.get("effect", ""), _place(row))
        for row in entry["graph_rows"]
    )
    stores = tuple(
        (row["nodes"], GraphRow(f"s{number}", f"s{number} = {row['text']}, when it is left", (), "effect", _place(row)))
        for number, row in enumerate(entry["store_rows"])
    )
    return rows, stores


def _place(row: Mapping[str, Any]) -> Place | None:
    return Place(**{name: row[name] for name in Place.__dataclass_fields__}) if "line" in row else None


def _tree(rows: Sequence[Mapping[str, Any]]) -> Iterator[Guard]:
    """Guards of functions, modules and names, then sources in depth first order."""
    by_parent: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["source"] < 0:
            yield _guard(row, 0)
        else:
            by_parent.setdefault(row["parent"], []).append(row)
    waiting = [(row, 0) for row in reversed(by_parent.get(-1, ()))]
    while waiting:
        row, depth = waiting.pop()
        yield _guard(row, depth)
        is_last = not waiting or waiting[-1][0]["source"] != row["source"]
        if is_last:  # of the facts about one source
            waiting += [(child, depth + 1) for child in reversed(by_parent.get(row["source"], ()))]


def _guard(row: Mapping[str, Any], depth: int) -> Guard:
    fact = row["text"].removeprefix(row["subject"]).strip()
    failures = row["failed"], tuple(row["found"])
    return Guard(row["subject"], fact, depth, *failures, row["hint"], row["seconds"], _place(row))


def _captures_of(function: Any) -> Captures:
    wrapped = getattr(function, "__func__", function)
    if isinstance(wrapped, _core.Jit):
        return _by_function(_core.jit_entries(wrapped))
    code = getattr(wrapped, "__code__", None)
    if not isinstance(code, types.CodeType):
        raise TypeError(f"a function made by evalframe.jit or a plain one is needed, not {type(function).__name__}")
    wanted = (code.co_qualname, code.co_filename, code.co_firstlineno)
    return [one for one in _core.captures() if (one["function"], one["file"], one["line"]) == wanted]


def _by_function(entries: Sequence[Mapping[str, Any]]) -> Captures:
    """The entries of a jit object under the functions that they belong to: itself, and those that it calls."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for entry in entries:
        owner = entry["owner"]
        found.setdefault(tuple(owner.values()), {**owner, "entries": []})["entries"].append(entry)
    return list(found.values())
