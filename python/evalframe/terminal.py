"""What commands show in a terminal: tables by rich and the stepper by textual, where these are installed."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.table import Table

    from evalframe.steps import Trace

_EXTRA = "pip install 'evalframe[terminal]'"


def is_one(stream: TextIO | None) -> bool:
    """Whether someone sits at the other end, and no program or file."""
    try:
        return stream is not None and not stream.closed and stream.isatty()
    except (AttributeError, ValueError, OSError):  # what a program has put in its place
        return False


def has_colours(stream: TextIO) -> bool:
    """Whether tables are drawn by rich: in a terminal that isn't asked to do without (NO_COLOR)."""
    return is_one(stream) and not os.environ.get("NO_COLOR") and importlib.util.find_spec("rich") is not None


_NUMBERS = ("line", "offset", "index", "cost")  # columns on whose right side the numbers stand


def table(
    title: str, columns: Mapping[str, str], rows: Iterable[tuple[str, ...]], styles: Iterable[str] = (),
    header: bool = True,
) -> Table:  # fmt: skip
    """A table for rich to draw: columns with their styles, rows with theirs."""
    from rich.table import Table
    from rich.text import Text

    made = Table(title=Text(title, "bold"), title_justify="left", box=None, pad_edge=False, show_header=header)
    for name, style in columns.items():
        made.add_column(name, style=style, justify="right" if name in _NUMBERS else "left")
    given = iter(styles)
    for row in rows:
        made.add_row(*map(Text, row), style=next(given, ""))
    return made


def print_tables(tables: Iterable[Any], stream: TextIO) -> None:
    """Objects that rich can draw."""
    from rich.console import Console

    console = Console(file=stream)
    for number, table in enumerate(tables):
        if number:
            console.print()
        console.print(table)


def run_stepper(trace: Trace, title: str) -> None:
    """Steps through the trace; as text where that can't be done."""
    if importlib.util.find_spec("textual") is None:
        print(trace.text())
        print(f"evalframe: to step through it here: {_EXTRA}", file=sys.__stderr__)
        return
    from evalframe.stepper import Stepper

    Stepper(trace, title).run()
