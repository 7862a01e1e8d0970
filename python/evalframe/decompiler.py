"""Functions and code objects as Python source that is compiled to the same code again."""

import ast
import json
import keyword
import math
import re
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html import escape
from typing import Any

from evalframe import _core, notebook


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
    #: What names in the source stand for that the code has as constants: only in code that evalframe made.
    objects: dict[str, object] = field(default_factory=dict)
    #: Of the code object's instructions, by index: the line of the source. Those not there go with the next one.
    lines: dict[int, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n".join(map(str, self.rows))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = ((row.status, row.name, row.reason) for row in self.rows)
        return f"<pre>{escape(self.source or '')}</pre>{notebook.table(('status', 'code', 'reason'), rows)}"

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


def decompile_report(
    code: types.CodeType | Callable[..., Any], *, generated: bool = False, module: types.CodeType | None = None
) -> DecompileReport:
    """The source as `decompile` gives it, and how each code object came out.

    `generated`: evalframe made the code, and constants that no literal is have names in the source. Most such code
    tells so itself. `module`: the code object that the code is inside of, which tells what defaults a function gets.
    """
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
    elif module is not None and module is not code:
        defaults, keyword_defaults = _defaults_in(module, code)
    with warnings.catch_warnings():
        # What the compiler warned of, it would warn of again.
        warnings.simplefilter("ignore")
        names = _constant_names(code, generated)
        if names is not None:
            code = _with_written_names(code)
        source, rows, lines = _core.decompiler.decompile(
            code, defaults, keyword_defaults, names or {}, generated=names is not None
        )
    told = [
        DecompiledCode(each, status, reason) for each, status, reason in rows if isinstance(each, types.CodeType)
    ]
    objects = {name: code.co_consts[index] for index, name in (names or {}).items()}
    return DecompileReport(source, tuple(told), objects, dict(lines))


def _defaults_in(module: types.CodeType, code: types.CodeType) -> tuple[list[str], list[tuple[str, str]]]:
    """A function's defaults as the source of its module has them: its own code doesn't know of them."""
    from evalframe.lookup import codes_in

    source = decompile_report(module).source if code.co_argcount + code.co_kwonlyargcount else None
    known = [each for each in codes_in(module) if each.co_qualname == code.co_qualname]
    nodes = [node for name, node in _functions_in(ast.parse(source or "")) if name == code.co_qualname]
    place = next((index for index, each in enumerate(known) if each is code), -1)
    if place < 0 or len(nodes) != len(known):
        return [], []
    arguments = nodes[place].args
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return [*map(ast.unparse, arguments.defaults)], [(each.arg, ast.unparse(it)) for each, it in keywords if it]


def _functions_in(tree: ast.AST, around: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Those that `def` makes, with their qualified names."""
    for node in ast.iter_child_nodes(tree):
        inside = around
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield around + node.name, node
            inside = f"{around}{node.name}.<locals>."
        elif isinstance(node, ast.ClassDef):
            inside = f"{around}{node.name}."
        yield from _functions_in(node, inside)


# Names that evalframe gives to what it makes (docs/07-breaks-and-exits.md).
_GENERATED = re.compile(r"__(compiled_fn_\d+|resume_at_\d+_\d+|leave|rebuild)$")


def _name_of(value: object) -> str:
    if isinstance(value, types.CodeType):
        return value.co_name
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, type, types.ModuleType, _core.Jit)):
        return str(value.__name__)
    return ""


def _constant_names(code: types.CodeType, generated: bool) -> dict[int, str] | None:
    """Names for the constants that no literal is; None for code that evalframe didn't make."""
    named = [_name_of(value) for value in code.co_consts]
    if not generated and not any(map(_GENERATED.match, [code.co_name, *named])):
        return None
    names: dict[int, str] = {}
    taken = {code.co_name, *code.co_names, *code.co_varnames, *code.co_cellvars, *code.co_freevars}
    for index, value in enumerate(code.co_consts):
        if _is_literal(value) or _is_of_function(value):
            continue
        name = named[index] if named[index].isidentifier() else f"__{type(value).__name__}_{index}"
        while name in taken:
            name += "_"
        taken.add(name)
        names[index] = name
    return names


def _is_of_function(value: object) -> bool:
    """Code of a function or class that is defined where it's loaded, not a resume function's or a compiled text's."""
    if not isinstance(value, types.CodeType):
        return False
    return value.co_name != "<module>" and not _GENERATED.match(value.co_name)


def _with_written_names(code: types.CodeType) -> types.CodeType:
    """With names that source can have, for lambdas and comprehensions, their iterator, and what tools put into code."""
    taken = {*code.co_names, *code.co_varnames, *code.co_cellvars, *code.co_freevars}

    def written(name: str) -> str:
        if name.isidentifier() and not keyword.iskeyword(name):
            return name
        made = re.sub(r"\W", "_", "__iterator_" + name[1:] if name.startswith(".") else "__" + name.strip("<@>"))
        while made in taken:
            made += "_"
        taken.add(made)
        return made

    return code.replace(co_name=written(code.co_name), co_varnames=tuple(map(written, code.co_varnames)))


def _is_literal(value: object) -> bool:
    if isinstance(value, (tuple, frozenset)):
        return type(value) in (tuple, frozenset) and all(map(_is_literal, value))
    return value is None or value is ... or type(value) in (bool, int, float, complex, str, bytes)


def _literal(value: object) -> str:
    """A default value as source; `...` where it has none, which the code itself doesn't tell."""
    if value is None or (isinstance(value, (bool, int, str, bytes)) and len(repr(value)) <= 200):
        return repr(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    if isinstance(value, tuple) and len(value) <= 20:
        return "(" + "".join(_literal(item) + ", " for item in value) + ")"
    return "..."
