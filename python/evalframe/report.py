"""Tells people what was captured: a line for the end of a run, a longer text, and a page of HTML.

Only this file knows how `evalframe.stats()` is shown. It shows whatever is in it: a dict as a table of two columns, a
list of dicts as a table with their keys as columns, several lines of text as they are.
"""

import html as markup
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Stats = Mapping[str, Any]


def summary(stats: Stats) -> str:
    """One line: what was captured, how often it served, and breaks."""
    if not stats.get("recordings"):
        return "evalframe: nothing was captured"
    calls, hits = stats.get("calls", 0), stats.get("hits", 0)
    parts = [f"{_counted(stats['recordings'], 'graph')} recorded, {hits:,} of {_counted(calls, 'call')} served"]
    if "breaks" in stats:
        parts.append(_counted(stats["breaks"], "graph break"))
    return "evalframe: " + ", ".join(parts)


def text(stats: Stats) -> str:
    """Everything in `stats`, for a terminal."""
    return "\n".join([summary(stats), *_text_lines(stats, "  ")])


def html(stats: Stats, title: str) -> str:
    """Everything in `stats` as one page that needs no other file."""
    name = markup.escape(title)
    sections = "\n".join(f"<h2>{markup.escape(_words(key))}</h2>\n{_html_of(value)}" for key, value in stats.items())
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>evalframe: {name}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>evalframe: {name}</h1>\n"
        f"<p>{markup.escape(summary(stats).removeprefix('evalframe: '))}</p>\n{sections}\n</body>\n</html>\n"
    )


_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; } th, td { text-align: left; padding: .2rem 1rem .2rem 0; vertical-align: top; }
th { border-bottom: 1px solid; } tr + tr td { border-top: 1px solid #8884; }
pre { background: #8882; padding: .8rem; overflow-x: auto; } td.number { text-align: right; }
"""


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


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
