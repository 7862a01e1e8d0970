"""Functions and code objects as Python source that is compiled to the same code again."""

import json
import math
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from evalframe import _core


class DecompileError(ValueError):
    """There is no source for a code object, and its text says why."""


@dataclass(frozen=True)
class DecompiledCode:
    """What became of one code object."""

    code: types.CodeType
    status: str  # "exact", "equivalent", "state machine" or "refused"
    reason: str  # of what is refused or a state machine; of what is equivalent: the first difference

    @property
    def name(self) -> str:
        return self.code.co_qualname

    def __str__(self) -> str:
        return f"{self.status:<13}  {self.name}" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True)
class DecompileReport:
    """The source, or None where the code object itself is refused, and a row for it and for each code object in it."""

    source: str | None
    rows: tuple[DecompiledCode, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.rows))

    def json(self) -> Iterator[str]:
        """Each code object as a JSON object; the first one, which has the others in it, with its source."""
        for row in self.rows:
            told: dict[str, object] = {"code": row.name, "line": row.code.co_firstlineno, "status": row.status}
            told |= {"reason": row.reason} | ({"source": self.source} if row is self.rows[0] else {})
            yield json.dumps(told)


def decompile(code: types.CodeType | Callable[..., Any]) -> str:
    """The source of a function or code object; that of a module's has all functions and classes in it.

    The source is compiled again and compared; what has no structure that source can have is a state machine, and a
    comment says so. DecompileError where the code object can't be written at all; a function inside it that can't be
    raises NotImplementedError in the source, and a comment there says why.
    """
    report = decompile_report(code)
    if report.source is None:
        raise DecompileError(f"can't decompile {report.rows[0].name}: {report.rows[0].reason}")
    return report.source


def decompile_report(code: types.CodeType | Callable[..., Any]) -> DecompileReport:
    """The source as `decompile` gives it, and how each code object came out."""
    function = code if hasattr(code, "__code__") else getattr(code, "__wrapped__", code)
    defaults: list[str] = []
    keyword_defaults: list[tuple[str, str]] = []
    if not isinstance(code, types.CodeType):
        found = getattr(function, "__code__", None)
        if not isinstance(found, types.CodeType):
            raise TypeError(f"a function or code object is needed, not {type(code).__name__}")
        defaults = [_literal(value) for value in getattr(function, "__defaults__", None) or ()]
        keywords = getattr(function, "__kwdefaults__", None) or {}
        keyword_defaults = [(name, _literal(value)) for name, value in keywords.items()]
        code = found
    with warnings.catch_warnings():
        # What the compiler warned of, it would warn of again.
        warnings.simplefilter("ignore")
        source, rows = _core.decompiler.decompile(code, defaults, keyword_defaults)
    told = [
        DecompiledCode(each, status, reason) for each, status, reason in rows if isinstance(each, types.CodeType)
    ]
    return DecompileReport(source, tuple(told))


def _literal(value: object) -> str:
    """A default value as source; `...` where it has none, which the code itself doesn't tell."""
    if value is None or (isinstance(value, (bool, int, str, bytes)) and len(repr(value)) <= 200):
        return repr(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    if isinstance(value, tuple) and len(value) <= 20:
        return "(" + "".join(_literal(item) + ", " for item in value) + ")"
    return "..."
