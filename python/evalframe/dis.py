"""Lists the canonical bytecode of functions, code objects, source texts and files."""

import json
import types
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from evalframe import _core
from evalframe.bytecode import code_of, listing
from evalframe.lookup import codes_in


def dis(source: Callable[..., Any] | types.CodeType | str, *, file: TextIO | None = None) -> None:
    """Prints the listing of a function, a code object or a source text, and of the functions inside it."""
    print(text(source), end="", file=file)


def text(source: Callable[..., Any] | types.CodeType | str) -> str:
    """The listing that `dis` prints."""
    code = compile(source, "<source>", "exec", dont_inherit=True) if isinstance(source, str) else code_of(source)
    return "\n".join(listing(each) for each in codes_in(code))


def json_rows(source: types.CodeType) -> Iterator[str]:
    """Each instruction as a JSON object, those of the functions inside it, too."""
    return (row for each in codes_in(source) for row in _rows(each))


def _rows(source: types.CodeType) -> Iterator[str]:
    rows = _core.instruction_rows(source)
    for offset, name, real, argument, shown, target, (line, end_line, column, end_column) in rows:
        row: dict[str, object] = {
            "code": source.co_qualname, "offset": offset, "instruction": name, "name": real, "argument": argument,
            "text": shown, "target": rows[target][0] if target >= 0 else None, "line": line, "end_line": end_line,
            "column": column, "end_column": end_column,
        }  # fmt: skip
        yield json.dumps(row)
