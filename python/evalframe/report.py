"""Tells people what was captured: a line for the end of a run, a longer text, and a page of HTML.

Only this file knows how `evalframe.stats()` and what `_core.captures()` tells of each function are shown.
"""

import html as markup
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evalframe.jit import Break, Explanation, Limit, counted, milliseconds

Stats = Mapping[str, Any]
Captures = Sequence[Mapping[str, Any]]


def summary(stats: Stats) -> str:
    """One line: what was captured, how often it served, breaks, time saved."""
    if not stats.get("recordings"):
        return "evalframe: nothing was captured"
    parts = [
        f"{counted(stats['recordings'], 'graph')} recorded",
        f"run {counted(stats['served'], 'time')}",
        f"{stats['hits']:,} of {counted(stats['calls'], 'call')} served",
        counted(stats["breaks"], "graph break"),
        _saved(stats["saved_seconds"], stats["compile_seconds"]),
    ]
    if stats["limited"]:
        parts.insert(-1, f"{counted(stats['limited'], 'call')} beyond the limit of recordings")
    if stats["given_up"]:
        parts.insert(-1, f"{counted(stats['given_up'], 'function')} given up")
    return "evalframe: " + ", ".join(parts)


def text(stats: Stats, captures: Captures = ()) -> str:
    """Everything, for a terminal."""
    parts = ["\n".join([summary(stats), *_text_lines(stats, "  ")])]
    for capture in _with_recordings(captures):
        parts.append(f"{_place(capture)}: {_explanation(capture)}")
    return "\n\n".join(parts)


def html(stats: Stats, title: str, captures: Captures = ()) -> str:
    """Everything, as one page that needs no other file."""
    name = markup.escape(title)
    shown = {"totals": stats, **_sections(captures)}
    sections = "\n".join(f"<h2>{markup.escape(_words(key))}</h2>\n{_html_of(value)}" for key, value in shown.items())
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>evalframe: {name}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>evalframe: {name}</h1>\n"
        f"<p>{markup.escape(summary(stats).removeprefix('evalframe: '))}</p>\n{sections}\n</body>\n</html>\n"
    )


def _saved(saved: float | None, compiling: float) -> str:
    if saved is None:
        return "time saved not known"
    if saved >= 0:
        return f"about {_seconds(saved)} saved"
    return f"about {_seconds(-saved)} lost (compiling took {_seconds(compiling)})"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _with_recordings(captures: Captures) -> list[Mapping[str, Any]]:
    return [capture for capture in captures if capture["recordings"]]


def _place(capture: Mapping[str, Any]) -> str:
    return f"{capture['function']} ({capture['file']}:{capture['line']})"


def _explanation(capture: Mapping[str, Any]) -> Explanation:
    return Explanation(None, capture["entries"], _breaks(capture), _limits(capture))


def _breaks(capture: Mapping[str, Any]) -> list[Break]:
    return [Break(**found) for found in capture["breaks"]]


def _limits(capture: Mapping[str, Any]) -> list[Limit]:
    return [Limit(**found) for found in capture["limits"]]


def _sections(captures: Captures) -> dict[str, Any]:
    """Tables of functions and breaks, and the text of each function's graphs."""
    told = _with_recordings(captures)
    breaks = [
        {
            "place": f"{found['file']}:{found['line']}:{found['column'] + 1}",
            "function": found["function"],
            "reason": f"{found['reason']} ({found['detail']})" if found["detail"] else found["reason"],
            "hint": found["hint"],
            "times recorded": found["count"],
        }
        for capture in told
        for found in capture["breaks"]
    ]
    return {
        "functions": [_function_row(capture) for capture in told],
        "graph breaks": breaks,
        "limits": [vars(limit) for capture in told for limit in _limits(capture)],
        "graphs": {_place(capture): str(_explanation(capture)) for capture in told},
        "kernels": {_place(capture): "\n".join(_explanation(capture).kernels) or "none" for capture in told},
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
        "a plain call": mean("plain_seconds"),
        "a served call": mean("served_seconds"),
        "compiling": milliseconds(capture["compile_seconds"]),
    }


_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; } th, td { text-align: left; padding: .2rem 1rem .2rem 0; vertical-align: top; }
th { border-bottom: 1px solid; } tr + tr td { border-top: 1px solid #8884; }
pre { background: #8882; padding: .8rem; overflow-x: auto; } td.number { text-align: right; }
"""


def _words(key: object) -> str:
    return str(key).replace("_", " ")


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _is_rows(value: object) -> bool:
    return isinstance(value, Sequence) and bool(value) and all(isinstance(row, Mapping) for row in value)


def _text_lines(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(inner, Mapping | list | tuple):
                yield f"{indent}{_words(key)}:"
                yield from _text_lines(inner, indent + "  ")
            else:
                yield f"{indent}{_words(key)}: {_shown(inner)}".replace("\n", "\n" + indent + "  ")
    else:
        for row in value:
            cells = row.items() if isinstance(row, Mapping) else ()
            shown = ", ".join(f"{_words(key)} {_shown(inner)}" for key, inner in cells) or str(row)
            yield indent + shown.replace("\n", "\n" + indent)


def _html_of(value: Any) -> str:
    if isinstance(value, Mapping):
        rows = "".join(f"<tr><td>{markup.escape(_words(k))}</td>{_cell(v)}</tr>" for k, v in value.items())
        return f"<table>{rows}</table>"
    if _is_rows(value):
        columns = list(dict.fromkeys(key for row in value for key in row))
        head = "".join(f"<th>{markup.escape(_words(column))}</th>" for column in columns)
        rows = "".join(f"<tr>{''.join(_cell(row.get(column, '')) for column in columns)}</tr>" for row in value)
        return f"<table><tr>{head}</tr>{rows}</table>"
    if isinstance(value, list | tuple):
        return "".join(_html_of(item) for item in value) or "<p>none</p>"
    if isinstance(value, str) and "\n" in value:
        return f"<pre>{markup.escape(value)}</pre>"
    return f"<p>{markup.escape(_shown(value))}</p>"


def _cell(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f'<td class="number">{_shown(value)}</td>'
    if isinstance(value, str) and "\n" not in value:
        return f"<td>{markup.escape(value)}</td>"
    return f"<td>{_html_of(value)}</td>"
