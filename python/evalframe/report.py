"""Tells people what was captured: a line for the end of a run, a longer text, and a page of HTML.

Only this file knows how `evalframe.stats()` and what `_core.captures()` tells of each function are shown.
"""

import html as markup
import json
import linecache
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evalframe.jit import Break, Explanation, Limit, Loop, counted, milliseconds, nanoseconds, start_of

Stats = Mapping[str, Any]
Captures = Sequence[Mapping[str, Any]]


def summary(stats: Stats) -> str:
    """One line: what was captured, how often it served, breaks, time saved."""
    if not stats.get("recordings"):
        return "evalframe: nothing was captured"
    parts = [
        f"{counted(stats['recordings'], 'graph')} recorded",
        f"run {counted(stats['served'], 'time')}",
        *([f"{stats['hits']:,} of {counted(stats['calls'], 'call')} served"] if stats["calls"] else []),
        counted(stats["breaks"], "graph break"),
        _saved(stats["saved_seconds"], stats["compile_seconds"], stats["uncompared_seconds"]),
    ]
    if stats["limited"]:
        parts.insert(-1, f"{counted(stats['limited'], 'call')} beyond the limit of recordings")
    if stats["differences"]:
        parts.insert(-1, f"{counted(stats['differences'], 'difference')} from plain Python")
    if stats["given_up"]:
        parts.insert(-1, f"{counted(stats['given_up'], 'function')} given up")
    return "evalframe: " + ", ".join(parts)


def evaluation_summary(counts: Mapping[str, Any]) -> str:
    """One line: how many frames our evaluator ran, how many it left to CPython, and why."""
    left = counts["handed over"]
    times = counted(sum(left.values()), "time")
    line = f"evalframe: {counted(counts['evaluated'], 'frame')} evaluated, {times} left to CPython"
    return f"{line} ({_by_reason(left)})" if left else line


def _by_reason(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in sorted(counts.items(), key=lambda item: -item[1]))


def text(stats: Stats, captures: Captures = ()) -> str:
    """Everything, for a terminal."""
    counters = [f"  {name}: {shown}" for name, shown in _counters(stats).items()]
    parts = ["\n".join([summary(stats), *counters])]
    for capture in _with_recordings(captures):
        parts.append(f"{_place(capture)}: {_explanation(capture)}")
    return "\n\n".join(parts)


def json_rows(captures: Captures, with_code: bool = False) -> Iterator[str]:
    """JSON objects of functions, their graphs, breaks, limits and loops: no times, which differ in each run. Code
    is LLVM IR and assembly, and of a loop in the runs that make it native."""
    for capture in _with_recordings(captures):
        of = {key: capture[key] for key in ("function", "file", "line")}
        counts = {key: capture[key] for key in ("calls", "hits", "recordings", "plain_calls", "limited")}
        yield json.dumps({"told": "function", **of, **counts})
        for number, entry in enumerate(capture["entries"]):
            kept = {key: entry[key] for key in ("nodes", "ends", "because", "backend", "fallback", "hits", "misses")}
            code = {"code": [_code(module) for module in entry["modules"]]} if with_code else {}
            yield json.dumps({"told": "graph", **of, "graph": number, "start": start_of(entry), **kept, **code})
        yield from (json.dumps({"told": "break", **found}) for found in capture["breaks"])
        yield from (json.dumps({"told": "limit", **found}) for found in capture["limits"])
        for loop in capture["loops"]:
            kept = {key: loop[key] for key in ("file", "function", "line", "obstacles")}
            code = {"code": [_code(loop["ir"])] if loop["ir"] else []} if with_code else {}
            yield json.dumps({"told": "loop", **kept, **code})


def _code(module: str) -> dict[str, str]:
    from evalframe._llvm import assembly

    return {"ir": module, "assembly": assembly(module)}


def html(stats: Stats, title: str, captures: Captures = ()) -> str:
    """Everything, as one page that needs no other file."""
    from evalframe.report_page import Page

    told = _with_recordings(captures)
    page = Page(title, summary(stats).removeprefix("evalframe: "), told)
    return page.html({"Functions": _table([_function_row(capture) for capture in told])}, _sections(stats, told))


def _saved(saved: float | None, compiling: float, uncompared: float) -> str:
    if saved is None:
        return "time saved not known"
    notes = [f"compiling took {_seconds(compiling)}"] if saved < 0 else []
    if uncompared > abs(saved):  # more than that may have been lost there
        notes.append(f"not counting {_seconds(uncompared)} of first runs")
    told = f"about {_seconds(abs(saved))} {'lost' if saved < 0 else 'saved'}"
    return f"{told} ({', '.join(notes)})" if notes else told


def _seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _with_recordings(captures: Captures) -> list[Mapping[str, Any]]:
    return [capture for capture in captures if capture["recordings"]]


def _place(capture: Mapping[str, Any]) -> str:
    return f"{capture['function']} ({capture['file']}:{capture['line']})"


def _explanation(capture: Mapping[str, Any]) -> Explanation:
    return Explanation(None, capture["entries"], _breaks(capture), _limits(capture), _loops(capture))


def _breaks(capture: Mapping[str, Any]) -> list[Break]:
    return [Break(**found) for found in capture["breaks"]]


def _limits(capture: Mapping[str, Any]) -> list[Limit]:
    return [Limit(**found) for found in capture["limits"]]


def _loops(capture: Mapping[str, Any]) -> list[Loop]:
    return [Loop(**found) for found in capture["loops"]]


def _sections(stats: Stats, told: Captures) -> dict[str, str]:
    """HTML by heading: tables of breaks, limits and loops, the counters."""
    return {
        "Graph breaks": _table([_break_row(found) for capture in told for found in _breaks(capture)]),
        "Limits": _table([vars(limit) for capture in told for limit in _limits(capture)]),
        "Loops": _table([_loop_row(loop) for capture in told for loop in _loops(capture)]),
        "Counters": _table([{"counter": name, "": shown} for name, shown in _counters(stats).items()]),
    }


def _counters(stats: Stats) -> dict[str, str]:
    """The counters of `stats` by the words for them; seconds as milliseconds."""
    shown = {}
    for key, value in stats.items():
        if isinstance(value, Mapping):
            shown[key.replace("_", " ")] = _by_reason(value) or "none"
            continue
        is_time = key.endswith("_seconds")
        name = key.removesuffix("_seconds").replace("_", " ") + (" time" if is_time else "")
        shown[name] = "not known" if value is None else milliseconds(value) if is_time else f"{value:,}"
    return shown


def _loop_row(loop: Loop) -> dict[str, Any]:
    place, *obstacles = str(loop).split("\n")
    return {"loop": place, "in the way": "; ".join(line.strip() for line in obstacles)}


def _break_row(found: Break) -> dict[str, Any]:
    return {
        "place": f"{found.file}:{found.line}:{found.column + 1}",
        "function": found.function,
        "source": linecache.getline(found.file, found.line).strip(),
        "reason": f"{found.reason} ({found.detail})" if found.detail else found.reason,
        "hint": found.hint,
        "times recorded": found.count,
    }


def _function_row(capture: Mapping[str, Any]) -> dict[str, Any]:
    measured = [entry["measured"] for entry in capture["entries"] if entry["measured"] and entry["measured"]["known"]]
    served = sum(one["served"] for one in measured)

    def mean(key: str) -> str:
        return milliseconds(sum(one[key] * one["served"] for one in measured) / served) if served else "not known"

    return {
        "function": capture["function"],
        "place": f"{capture['file']}:{capture['line']}",
        "calls": capture["calls"],
        "served": capture["hits"],
        "graphs": capture["recordings"],
        "breaks": capture["breaks_count"],
        "recording": milliseconds(capture["record_seconds"]),
        "compiling": milliseconds(capture["compile_seconds"]),
        "guards of a call": _guards_of_a_call(capture),
        "a plain call": mean("plain_seconds"),
        "a served call": mean("served_seconds"),
        "saved": milliseconds(sum(one["saved_seconds"] for one in measured)) if measured else "not known",
    }


def _guards_of_a_call(capture: Mapping[str, Any]) -> str:
    """Of the graphs at its start, by how often they served."""
    timed = [entry for entry in capture["entries"] if entry["guard_seconds"] is not None and entry["hits"]]
    timed = [entry for entry in timed if start_of(entry) == "start"]
    hits = sum(entry["hits"] for entry in timed)
    return nanoseconds(sum(entry["guard_seconds"] * entry["hits"] for entry in timed) / hits) if hits else "not known"


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "<p>none</p>"
    head = "".join(f"<th>{markup.escape(column)}</th>" for column in rows[0])
    body = "".join(f"<tr>{''.join(_cell(*cell) for cell in row.items())}</tr>\n" for row in rows)
    return f'<div class="wide"><table>\n<tr>{head}</tr>\n{body}</table></div>'


def _cell(column: str, value: Any) -> str:
    if isinstance(value, int):
        return f'<td class="number">{value:,}</td>'
    kind = ' class="source"' if column == "source" else ""
    return f"<td{kind}>{markup.escape(str(value))}</td>"
