"""Lists the canonical bytecode of functions, code objects, source texts and files."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalframe import _core, notebook, terminal
from evalframe.bytecode import code_of, listing
from evalframe.lookup import codes_in

if TYPE_CHECKING:
    from rich.console import Group

# With their styles in a terminal.
_COLUMNS = {"line": "dim", "offset": "dim", "instruction": "bold", "argument": "", "CPython's name": "dim"}


@dataclass(frozen=True)
class Listing:
    """The instructions of code objects: its `str` is for reading, `json()` has a line for each instruction."""

    codes: tuple[types.CodeType, ...]

    def __str__(self) -> str:
        return "\n".join(map(listing, self.codes))

    def __repr__(self) -> str:
        return str(self).rstrip("\n")

    def json(self) -> Iterator[str]:
        """Each instruction as a JSON object."""
        import json

        return (json.dumps(row) for code in self.codes for row in _rows(code))

    def _repr_html_(self) -> str:
        return "\n".join(map(_html, self.codes))

    def __rich__(self) -> Group:
        from rich.console import Group
        return Group(*(terminal.table(_title(code), _COLUMNS, _cells(code)) for code in self.codes))


def dis(source: Callable[..., Any] | types.CodeType | str) -> Listing:
    """The listing of a function, a code object or a source text, and of the functions inside it."""
    code = compile(source, "<source>", "exec", dont_inherit=True) if isinstance(source, str) else code_of(source)
    return Listing(tuple(codes_in(code)))


def text(source: Callable[..., Any] | types.CodeType | str) -> str:
    """The same as text."""
    return str(dis(source))


def _title(code: types.CodeType) -> str:
    return f"code {code.co_qualname}, {code.co_filename}:{code.co_firstlineno}"


def _html(code: types.CodeType) -> str:
    return notebook.titled(_title(code), notebook.table(_COLUMNS, _cells(code), left=True))


def _cells(code: types.CodeType) -> Iterator[tuple[str, str, str, str, str]]:
    """The rows of tables; a line's number stands where the line begins."""
    before = None
    for row in _rows(code):
        line, name, target = row["line"], row["name"], row["target"]
        shown = row["text"] or (f"to {target}" if target is not None else str(row["argument"] or ""))
        begins = line != before and line > 0
        yield (
            str(line) if begins else "", str(row["offset"]), row["instruction"], shown,
            name if name != row["instruction"] else "",
        )  # fmt: skip
        before = line


def _rows(source: types.CodeType) -> Iterator[dict[str, Any]]:
    rows = _core.instruction_rows(source)
    for offset, name, real, argument, shown, target, (line, end_line, column, end_column) in rows:
        yield {
            "code": source.co_qualname, "offset": offset, "instruction": name, "name": real, "argument": argument,
            "text": shown, "target": rows[target][0] if target >= 0 else None, "line": line, "end_line": end_line,
            "column": column, "end_column": end_column,
        }  # fmt: skip
