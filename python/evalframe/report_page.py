"""The page of a run: a timeline, and of each function its source with what was captured, graphs, guards and code."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import tokenize
import types
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from evalframe import graph_svg
from evalframe.bytecode import code_of, listing
from evalframe.captured import CapturedGraph, Guard, GuardTree, Place, graphs_of, guards_of
from evalframe.jit import Break, Explanation, Loop, counted, milliseconds, nanoseconds
from evalframe.steps import characters

_MOST_OPEN_GUARDS = 25
_MOST_ASSEMBLED = 100  # kernels, each of which takes some 20 ms to compile again
_MOST_ASSEMBLED_LINES = 10_000  # of a loop's IR, which take a second
_MOST_LINES = 2000  # of a source that are shown in one piece


class Page:
    """Puts a page together."""

    def __init__(self, title: str, summary: str, captures: Sequence[Mapping[str, Any]]) -> None:
        self._title, self._summary, self._captures = title, summary, captures
        self._files: dict[str, int] = {}
        self._kernels_left = _MOST_ASSEMBLED

    def html(self, above: Mapping[str, str], below: Mapping[str, str]) -> str:
        """The page, which needs no other file and no network; further sections by heading, before the functions and
        behind them."""
        body = [_section(heading, content) for heading, content in above.items()]
        body.append(_section("Timeline", _timeline(self._captures)))
        body += [self._function(capture) for capture in self._captures]
        body += [_section(heading, content) for heading, content in below.items()]
        page = (Path(__file__).parent / "pages" / "report.html").read_text(encoding="utf-8")
        texts = {"TITLE": escape(self._title), "SUMMARY": escape(self._summary), "BODY": "\n".join(body)}
        return re.sub("@(TITLE|SUMMARY|BODY)@", lambda found: texts[found[1]], page)

    def _key(self, file: str, line: int) -> str:
        return f"{self._files.setdefault(file, len(self._files))}:{line}"

    def _key_of(self, place: Place) -> str:
        return self._key(place.file, place.line)

    def _function(self, capture: Mapping[str, Any]) -> str:
        graphs = graphs_of([capture])
        place = f"{capture['function']} ({capture['file']}:{capture['line']})"
        counts = f"{counted(len(graphs), 'graph')}, {counted(len(capture['breaks']), 'place')} of breaks"
        if "calls" in capture:
            counts = f"{counted(capture['calls'], 'call')}, {capture['hits']:,} served from the start, {counts}"
        parts = [f"<p>{counts}</p>", self._sources(capture, graphs)]
        for graph, entry, tree in zip(graphs, capture["entries"], guards_of([capture]), strict=True):
            parts.append(self._graph(graph, entry, tree))
        parts += [self._loop(loop) for loop in (Loop(**found) for found in capture["loops"]) if loop.ir]
        return _section(place, "\n".join(parts))

    def _sources(self, capture: Mapping[str, Any], graphs: Sequence[CapturedGraph]) -> str:
        """The function's own lines, and of those that its graphs follow what the nodes come from."""
        places = [row.place for graph in graphs for row in graph.rows if row.place]
        breaks = [Break(**found) for found in capture["breaks"]]
        captured = {(place.file, place.line) for place in places}
        own = _lines_of_function(capture["file"], capture["line"], capture["function"])
        parts = [self._lines(capture["file"], own, captured, breaks)]
        followed: dict[tuple[str, str], list[int]] = {}
        met: list[Place | Break] = [*places, *breaks]
        for place in met:
            if place.file != capture["file"] or place.line not in own:
                followed.setdefault((place.function, place.file), []).append(place.line)
        for (function, file), lines in followed.items():
            shown = range(min(lines), max(lines) + 1)
            parts.append(f"<h3>followed: {escape(function)} ({escape(file)}:{shown.start})</h3>")
            parts.append(self._lines(file, shown, captured, breaks))
        return "\n".join(parts)

    def _lines(self, file: str, shown: range, captured: set[tuple[str, int]], breaks: Sequence[Break]) -> str:
        rows = []
        for line in shown[:_MOST_LINES]:
            text = linecache.getline(file, line).rstrip("\n")
            here = [found for found in breaks if (found.file, found.line) == (file, line)]
            kind = ' class="captured"' if (file, line) in captured else ""
            rows.append(
                f'<div data-at="{self._key(file, line)}"{kind}><i>{line:5}  </i>{_marked(text, here)}</div>'
            )
            rows += [f'<div class="why">       {escape(_why(found))}</div>' for found in here]
        more = len(shown) - _MOST_LINES
        rows += [f"<div>... and {counted(more, 'line')} more</div>"] if more > 0 else []
        return f'<div class="lines" tabindex="0">{"".join(rows)}</div>'

    def _graph(self, graph: CapturedGraph, entry: Mapping[str, Any], tree: GuardTree) -> str:
        times = f"recorded in {milliseconds(entry['record_seconds'])}, compiled in "
        times += milliseconds(entry["compile_seconds"])
        by = f"run by the recorded calls: {entry['fallback']}" if entry["fallback"] else f"made by {entry['backend']}"
        title = (
            f"graph {graph.number}, from {graph.start}: {counted(entry['nodes'], 'node')}, served "
            f"{counted(entry['hits'], 'time')}, its guards said no {counted(entry['misses'], 'time')}"
        )
        ends, saved = graph.ends or "returns", _saved(entry["measured"])
        again = "recorded, though there was another graph"
        parts = [f'<p class="again">{again}: {escape(why)}</p>' for why in entry["because"]]
        parts += [
            f'<p class="dim">{escape(f"{times}; {by}{saved}; ends: {ends}")}</p>',
            self._drawing(graph), self._list(graph), _guards(tree),
        ]  # fmt: skip
        if "generated" in entry:
            parts.append(_folded("transformed code and what it decompiles to", _code(entry["generated"])))
        parts += [_folded("schedule", f"<pre>{escape(entry['text'])}</pre>")] if entry["text"] else []
        if entry["modules"]:
            parts.append(_folded("kernels: LLVM IR, assembly and Python", self._kernels(entry)))
        return _folded(title, "\n".join(parts), is_open=graph.number == 0)

    def _kernels(self, entry: Mapping[str, Any]) -> str:
        """The modules of an entry, each beside its assembly and the Python that calls it."""
        python = _python_of(entry["generated"][0]) if "generated" in entry and entry["generated"][0] else ""
        parts = []
        for number, module in enumerate(entry["modules"]):
            sides = {f"kernel {number}: LLVM IR": module, "assembly": self._assembly(module)}
            parts.append(_side_by_side(sides | ({"Python": python} if python else {})))
        return "".join(parts)

    def _loop(self, loop: Loop) -> str:
        """A native loop's source beside its code."""
        lines = _lines_of_loop(loop.file, loop.line)
        source = "".join(f"{line:5}  {linecache.getline(loop.file, line)}" for line in lines[:_MOST_LINES])
        sides = {"source": source, "LLVM IR": loop.ir, "assembly": self._assembly(loop.ir)}
        size = f"{counted(loop.blocks, 'block')}, {counted(loop.turns, 'turn')} in {counted(loop.runs, 'run')}"
        return _folded(f"native loop in line {lines.start}: {size}", _side_by_side(sides))

    def _assembly(self, module: str) -> str:
        from evalframe._llvm import assembly

        self._kernels_left -= 1
        if self._kernels_left < 0:
            return f"not shown of more than {_MOST_ASSEMBLED} kernels and loops"
        if module.count("\n") > _MOST_ASSEMBLED_LINES:
            return f"not shown of more than {counted(_MOST_ASSEMBLED_LINES, 'line')} of IR"
        return assembly(module)

    def _drawing(self, graph: CapturedGraph) -> str:
        drawing = graph_svg.svg(graph, self._key_of)
        if not drawing:
            return ""
        buttons = "".join(
            f'<button data-zoom="{factor}" title="{title}">{text}</button>'
            for factor, title, text in (("1.25", "larger", "+"), ("0.8", "smaller", "-"), ("0", "as it was", "1:1"))
        )
        return f'<div class="drawn"><div class="zoom">{buttons}</div><div class="drawing">{drawing}</div></div>'

    def _list(self, graph: CapturedGraph) -> str:
        rows = []
        for row in graph.rows:
            at = f' data-at="{self._key_of(row.place)}"' if row.place else ""
            line = str(row.place.line) if row.place else ""
            rows.append(f"<span{at}>{line:>5}  {escape(row.text)}</span>")
        return _folded("list of nodes", f'<pre class="list">{chr(10).join(rows)}</pre>')


def _saved(measured: Mapping[str, Any] | None) -> str:
    """What serving saved in all, and in each call; "" where that wasn't measured."""
    if not measured or not measured["known"]:
        return ""
    plain, served, seconds = (measured[name] for name in ("plain_seconds", "served_seconds", "saved_seconds"))
    in_all = f"{milliseconds(abs(seconds))} {'saved' if seconds >= 0 else 'lost'}"
    each = f"{milliseconds(abs(plain - served))} {'less' if served <= plain else 'more'}"
    return f"; a call takes {milliseconds(served)} and not {milliseconds(plain)}, {each}; about {in_all}"


def _section(heading: str, content: str) -> str:
    return f"<h2>{escape(heading)}</h2>\n{content}"


def _folded(title: str, content: str, is_open: bool = False) -> str:
    opened = " open" if is_open else ""
    return f'<details{opened}><summary>{escape(title)}</summary><div class="inside">{content}</div></details>'


def _lines_of_function(file: str, first: int, function: str) -> range:
    """The lines that a function has in its file; all of it for a module's body."""
    lines = linecache.getlines(file)
    if function == "<module>" or not 0 < first <= len(lines):
        return range(1, len(lines) + 1)
    try:
        return range(first, first + len(inspect.getblock(lines[first - 1 :])))
    except (SyntaxError, IndentationError, tokenize.TokenError):
        return range(first, first + 1)


def _lines_of_loop(file: str, line: int) -> range:
    """The lines of the innermost loop around a line; that line where there is none, as of a comprehension."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return range(line, line + 1)
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.AsyncFor | ast.While)]
    spans = [range(node.lineno, (node.end_lineno or node.lineno) + 1) for node in loops]
    around = [lines for lines in spans if line in lines]
    return max(around, key=lambda lines: lines.start, default=range(line, line + 1))


def _marked(text: str, breaks: Sequence[Break]) -> str:
    """The line with the columns of its breaks marked."""
    in_bytes = len(text.encode("utf-8", "surrogatepass"))
    ends = [found.end_column if found.end_line == found.line else in_bytes for found in breaks]
    places = {(found.column, end) for found, end in zip(breaks, ends, strict=True) if 0 <= found.column < end}
    parts, at = [], 0
    for begin, end in sorted(places):
        start, stop = (characters([text], 1, column) for column in (begin, end))
        if start < at:  # inside another one
            continue
        why = "; ".join(found.reason for found in breaks if found.column == begin)
        parts += [escape(text[at:start]), f'<mark title="{escape(why, quote=True)}">{escape(text[start:stop])}</mark>']
        at = stop
    return "".join(parts) + escape(text[at:])


def _why(found: Break) -> str:
    detail = f" ({found.detail})" if found.detail else ""
    return f"break, recorded {counted(found.count, 'time')}: {found.reason}{detail}; hint: {found.hint}"


def _guards(tree: GuardTree) -> str:
    failed = sum(guard.failed > 0 for guard in tree.guards)
    title = f"{counted(len(tree.guards), 'guard')}{f', {failed} of them failed' if failed else ''}"
    title += f"; {counted(tree.unlike, 'time')} other variables were set" if tree.unlike else ""
    title += f"; {nanoseconds(tree.seconds)} a call" if tree.seconds is not None else ""
    return _folded(title, _guard_tree(tree.guards), is_open=len(tree.guards) <= _MOST_OPEN_GUARDS)


def _guard_tree(guards: Sequence[Guard]) -> str:
    parts, depth = ['<div class="guards"><ul>'], 0
    for guard in guards:
        parts += ["<ul>"] * (guard.depth - depth) + ["</ul>"] * (depth - guard.depth)
        depth = guard.depth
        failed = f' <span class="failed">{escape(guard.failures)}; hint: {escape(guard.hint)}</span>'
        cost = f' <span class="dim">{nanoseconds(guard.seconds)}</span>' if guard.seconds is not None else ""
        parts.append(f"<li>{escape(str(guard))}{cost}{failed if guard.failed else ''}</li>")
    return "".join(parts) + "</ul>" * (depth + 1) + "</div>"


def _code(generated: tuple[Any, ...]) -> str:
    """The transformed code object of an entry, its resume functions behind it, each beside its Python source."""
    code, resumes, reason, *_ = generated
    if code is None:
        return f"<p>no code object: {escape(reason)}</p>"
    inner = [code_of(getattr(resume, "__wrapped__", resume)) for resume in resumes]
    return "".join(_beside(each) for each in (code, *inner))


def _beside(code: types.CodeType) -> str:
    return _side_by_side({code.co_name: listing(code), "Python": _python_of(code)})


def _side_by_side(texts: Mapping[str, str]) -> str:
    sides = "".join(
        f'<div><h3>{escape(title)}</h3><pre tabindex="0">{escape(text)}</pre></div>' for title, text in texts.items()
    )
    return f'<div class="side of{len(texts)}">{sides}</div>'


def _python_of(code: types.CodeType) -> str:
    from evalframe.decompiler import decompile_report

    report = decompile_report(code, generated=True)
    return report.source if report.source is not None else f"can't be decompiled: {report.rows[0].reason}\n"


def _timeline(captures: Sequence[Mapping[str, Any]]) -> str:
    """When which function was recorded and compiled, from the first recording on."""
    entries = [entry for capture in captures for entry in capture["entries"]]
    if not entries:
        return "<p>nothing was captured</p>"
    begin = min(_begin(entry) for entry in entries)
    end = max(max(entry["made_at"] for entry in entries), begin + 1e-6)
    rows = []
    for capture in captures:
        bars = "".join(_bars(entry, begin, end) for entry in capture["entries"])
        name = f"{capture['function']}:{capture['line']}"
        rows.append(
            f'<span title="{escape(name, quote=True)}">{escape(name)}</span>'
            f'<svg viewBox="0 0 1000 16" preserveAspectRatio="none" role="img" aria-label="{escape(name, quote=True)}">'
            f"{bars}</svg>"
        )
    legend = (
        f'<p class="dim">{milliseconds(end - begin)} from the first recording to the last compilation:'
        '<span class="key record"></span>recorded (the run included)<span class="key compile"></span>compiled</p>'
    )
    return f'{legend}<div class="time">{"".join(rows)}</div>'


def _begin(entry: Mapping[str, Any]) -> float:
    begin: float = entry["made_at"] - entry["compile_seconds"] - entry["record_seconds"]
    return begin


def _bars(entry: Mapping[str, Any], begin: float, end: float) -> str:
    def bar(kind: str, start: float, seconds: float) -> str:
        x, width = 1000 * (start - begin) / (end - begin), 1000 * seconds / (end - begin)
        return (
            f'<rect class="{kind}" x="{min(x, 998):.1f}" y="0" width="{max(width, 2):.1f}" height="16">'
            f"<title>{kind}: {milliseconds(seconds)}</title></rect>"
        )

    start = _begin(entry)
    recorded = bar("record", start, entry["record_seconds"])
    return recorded + bar("compile", start + entry["record_seconds"], entry["compile_seconds"])


def page_of(explanation: Explanation, title: str) -> str:
    """The page of what became of a call."""
    captures: dict[tuple[Any, ...], dict[str, Any]] = {}
    for entry in explanation.entries:
        owner = entry["owner"]
        capture = captures.setdefault(tuple(owner.values()), {**owner, "entries": [], "breaks": [], "loops": []})
        capture["entries"].append(_with_own_code(entry))
    told_of: dict[str, Sequence[Break | Loop]] = {"breaks": explanation.breaks, "loops": explanation.loops}
    for kind, notes in told_of.items():
        for found in notes:
            place = (found.function, found.file)
            owners = [one for one in captures.values() if (one["function"], one["file"]) == place]
            for capture in (owners or list(captures.values()))[:1]:
                capture[kind].append(vars(found))
    told: dict[str, Sequence[object]] = {"Limits": explanation.limits, "Loops": explanation.loops}
    below = {heading: f"<pre>{escape(chr(10).join(map(str, rows)))}</pre>" for heading, rows in told.items() if rows}
    summary = f"{counted(len(explanation.entries), 'graph')}, {counted(len(explanation.breaks), 'break')}"
    return Page(title, summary, list(captures.values())).html({}, below)


def _with_own_code(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    from evalframe.codegen import Entry

    if not isinstance(entry, Entry):
        return entry
    return {**entry, "generated": (entry.code, entry.resume_functions, entry.no_code)}


def with_code(captures: list[dict[str, Any]], codes: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """What `_core.captures()` tells, with what `_core.captured_code()` does of each entry."""
    for capture, of_one in zip(captures, codes, strict=True):
        for entry, generated in zip(capture["entries"], of_one, strict=True):
            entry["generated"] = generated
    return captures
