"""Tells of a code object's attributes: what the compiler has noted down beside the instructions."""

from __future__ import annotations

import dis
import json
import types
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from evalframe import notebook, terminal
from evalframe.bytecode import code_of

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class CodeObject:
    """The attributes of a code object as they are shown: its `str` is a table, `json()` a line."""

    co_name: str
    co_qualname: str
    co_filename: str
    co_firstlineno: int
    co_argcount: int
    co_posonlyargcount: int
    co_kwonlyargcount: int
    co_nlocals: int
    co_stacksize: int
    co_flags: int
    flags: tuple[str, ...]  # co_flags spelled out
    co_varnames: tuple[str, ...]
    co_cellvars: tuple[str, ...]
    co_freevars: tuple[str, ...]
    co_names: tuple[str, ...]
    co_consts: tuple[str, ...]  # as text
    instructions: int  # bytes of co_code
    lines: int  # lines of the source that have instructions
    handled: int  # rows of the exception table

    def __str__(self) -> str:
        width = max(map(len, asdict(self)))
        rows = [f"code {self.co_qualname}, {self.co_filename}:{self.co_firstlineno}"]
        for name, value in self._rows():
            rows.append(f"  {name:<{width}}  {value}".rstrip())
        return "\n".join(rows)

    def __repr__(self) -> str:
        return f"<CodeObject {self.co_qualname}, {self.co_filename}:{self.co_firstlineno}>"

    def _rows(self) -> list[tuple[str, str]]:
        fields = asdict(self).items()
        return [(name, ", ".join(value) if isinstance(value, tuple) else str(value)) for name, value in fields]

    def json(self) -> str:
        """One line, the same for the same source."""
        return json.dumps(asdict(self))

    def __rich__(self) -> Table:
        title = str(self).partition("\n")[0]
        return terminal.table(title, {"name": "dim", "value": ""}, self._rows(), header=False)

    def _repr_html_(self) -> str:
        return notebook.table((), self._rows())


def code(source: Callable[..., Any] | types.CodeType | str) -> CodeObject:
    """The attributes of a function's code object, of a code object, or of what a source text is compiled to."""
    given = compile(source, "<source>", "exec", dont_inherit=True) if isinstance(source, str) else code_of(source)
    bits = (1 << bit for bit in range(32) if given.co_flags >> bit & 1)
    return CodeObject(
        co_name=given.co_name,
        co_qualname=given.co_qualname,
        co_filename=given.co_filename,
        co_firstlineno=given.co_firstlineno,
        co_argcount=given.co_argcount,
        co_posonlyargcount=given.co_posonlyargcount,
        co_kwonlyargcount=given.co_kwonlyargcount,
        co_nlocals=given.co_nlocals,
        co_stacksize=given.co_stacksize,
        co_flags=given.co_flags,
        flags=tuple(_FLAGS.get(bit, hex(bit)) for bit in bits),
        co_varnames=given.co_varnames,
        co_cellvars=given.co_cellvars,
        co_freevars=given.co_freevars,
        co_names=given.co_names,
        co_consts=tuple(map(_constant, given.co_consts)),
        instructions=len(given.co_code),
        lines=len({line for *_, line in given.co_lines() if line}),
        handled=len(dis.Bytecode(given).exception_entries),  # type: ignore[attr-defined]
    )


# `dis` doesn't know those of __future__ statements.
_FLAGS = {
    **dis.COMPILER_FLAG_NAMES,
    0x20000: "FUTURE_DIVISION", 0x40000: "FUTURE_ABSOLUTE_IMPORT", 0x80000: "FUTURE_WITH_STATEMENT",
    0x100000: "FUTURE_PRINT_FUNCTION", 0x200000: "FUTURE_UNICODE_LITERALS", 0x400000: "FUTURE_BARRY_AS_BDFL",
    0x800000: "FUTURE_GENERATOR_STOP", 0x1000000: "FUTURE_ANNOTATIONS",
}  # fmt: skip


def _constant(value: object) -> str:
    if isinstance(value, frozenset):  # whose own order changes from run to run
        return f"frozenset({{{', '.join(sorted(map(_constant, value)))}}})" if value else "frozenset()"
    return f"<code {value.co_qualname}>" if isinstance(value, types.CodeType) else repr(value)
