"""Tells of each variable of a function what kind it is, and where CPython stores it."""

from __future__ import annotations

import builtins
import dis
import os
import types
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from evalframe import lookup, notebook, terminal

if TYPE_CHECKING:
    from rich.table import Table

# How a name is read or written where it isn't one of the frame's slots.
_GLOBAL_OPS = frozenset({"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL"})
_NAME_OPS = frozenset({"LOAD_NAME", "STORE_NAME", "DELETE_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_STORE_OPS = frozenset({"STORE_NAME", "STORE_GLOBAL"})

_DEREF_STORES = frozenset({"STORE_DEREF", "DELETE_DEREF"})
_DEREF_OPS = _DEREF_STORES | {"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"}

_COLUMNS = ("kind", "index", "storage", "name", "notes")
# What each module has without binding it.
_MODULE_NAMES = ("__name__", "__doc__", "__package__", "__loader__", "__spec__", "__file__", "__builtins__")
_STYLES = {"argument": "green", "local": "", "cell": "yellow", "free": "magenta", "global": "cyan", "builtin": "dim"}
_ORDER = ("argument", "local", "cell", "free", "global", "builtin")


@dataclass(frozen=True)
class Variable:
    """One variable as seen from one code object."""

    name: str
    kind: str  # one of _ORDER
    storage: str  # "localsplus", or the dict it is looked up in
    index: int  # slot in localsplus; index into co_names for a name that is looked up in a dict
    is_argument: bool = False  # also true of an argument that an inner function uses, whose kind is "cell"
    made_by: str = ""  # of a cell: the qualified name of the scope that makes it; "" where that isn't known
    used_by: tuple[str, ...] = ()  # of a cell: the scopes inside this one that read or bind it
    assigned: bool = False  # a free variable or a global that is bound here: `nonlocal`, `global`
    inlined: bool = False  # a comprehension's own, which has no frame for itself (from 3.12 on)

    @property
    def notes(self) -> str:
        """What else there is to tell, in words."""
        told = {"cell": ["made here"], "free": [f"made by {self.made_by or 'an enclosing scope'}"]}.get(self.kind, [])
        told += [f"used by {', '.join(self.used_by)}"] if self.used_by else []
        told += ["assigned here"] if self.assigned else []
        told += ["of an inlined comprehension"] if self.inlined else []
        return "; ".join(told)


@dataclass(frozen=True)
class VariableTable:
    """The variables of one code object: iterable, indexed by name, and a text table as its str."""

    code: types.CodeType
    variables: tuple[Variable, ...]

    def __iter__(self) -> Iterator[Variable]:
        return iter(self.variables)

    def __len__(self) -> int:
        return len(self.variables)

    def __getitem__(self, name: str) -> Variable:
        for variable in self.variables:
            if variable.name == name:
                return variable
        raise KeyError(name)

    def _title(self) -> str:
        code = self.code
        slots = sum(variable.storage == "localsplus" for variable in self.variables)
        return (
            f"{code.co_qualname} ({code.co_filename}, line {code.co_firstlineno}): "
            f"{slots} slot{'' if slots == 1 else 's'} in localsplus, at most {code.co_stacksize} on the stack"
        )

    def __str__(self) -> str:
        rows = [_COLUMNS, *map(_row, self.variables)]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = [
            f"{kind:<{widths[0]}}  {index:>{widths[1]}}  {storage:<{widths[2]}}  {name:<{widths[3]}}  {notes}".rstrip()
            for kind, index, storage, name, notes in rows
        ]
        return "\n".join([self._title(), *lines])

    __repr__ = __str__

    def json(self) -> Iterator[str]:
        """Each variable as a JSON object with the name of its function."""
        import json

        for variable in self.variables:
            yield json.dumps({"code": self.code.co_qualname, **asdict(variable)})

    def __rich__(self) -> Table:
        styles = (_STYLES[variable.kind] for variable in self.variables)
        return terminal.table(self._title(), dict.fromkeys(_COLUMNS, ""), map(_row, self.variables), styles)

    def _repr_html_(self) -> str:
        return notebook.titled(self._title(), notebook.table(_COLUMNS, map(_row, self.variables)))


def variables(function: object) -> VariableTable:
    """The variables of a function, a method, or a code object.

    A function's globals decide what is a global and what a builtin at this moment; a bare code object has none, so
    there a name counts as a builtin if the builtins have it.
    """
    target = _unwrapped(function)
    if isinstance(target, types.FunctionType):
        return _table(target.__code__, target.__globals__, vars(builtins))
    if isinstance(target, types.CodeType):
        return _table(target, dict.fromkeys(_MODULE_NAMES), vars(builtins))
    if isinstance(target, types.BuiltinFunctionType | types.BuiltinMethodType | type):
        raise TypeError(f"evalframe.variables: {target!r} has no Python code; give it a function written in Python")
    raise TypeError(f"evalframe.variables: expected a function, a method or a code object, got {type(target).__name__}")


def variables_of_file(path: str | os.PathLike[str], function: str | None = None) -> list[VariableTable]:
    """The tables of every function in a source file that `function` names (all of them where it is None).

    The file is compiled, not run. `function` is a qualified name, or the end of one: `function_2` or
    `function_1.function_2`. Raises LookupError, with the names there are, if none matches.
    """
    return tables_of(lookup.in_file(f"{path}:{function}" if function else os.fspath(path)))


def tables_of(found: lookup.Found) -> list[VariableTable]:
    """The tables of what was found: of a file without a name, those of all functions and classes in it."""
    whole = found.codes == (found.module,)
    known = dict.fromkeys(_MODULE_NAMES)
    known |= dict.fromkeys(_module_names(found.module))
    codes = list(lookup.codes_in(found.module)) if whole else found.codes
    makers, uses = _makers(found.module), _Uses()
    return [_table(code, known, vars(builtins), makers.get(id(code), {}), uses) for code in codes]


def _unwrapped(function: object) -> object:
    while not isinstance(function, types.FunctionType | types.CodeType):
        inner = getattr(function, "__func__", None) or getattr(function, "__wrapped__", None)
        if inner is None:
            return function
        function = inner
    return function


def _module_names(module: types.CodeType) -> Iterator[str]:
    """Names that the module binds: at its top level, or by a `global` statement in any function."""
    for code in lookup.codes_in(module):
        stores = _STORE_OPS if code is module else {"STORE_GLOBAL"}
        yield from (i.argval for i in dis.get_instructions(code) if i.opname in stores)


def _table(
    code: types.CodeType,
    known_globals: Mapping[str, object],
    known_builtins: Mapping[str, object],
    makers: Mapping[str, str] | None = None,
    uses: _Uses | None = None,
) -> VariableTable:
    found = [*_slots(code, makers or {}, uses or _Uses()), *_looked_up(code, known_globals, known_builtins)]
    return VariableTable(code, tuple(sorted(found, key=lambda v: (_ORDER.index(v.kind), v.index))))


def _makers(module: types.CodeType) -> dict[int, dict[str, str]]:
    """For each code object, by its id: who makes the cells of its free variables, which only those around it tell."""
    found: dict[int, dict[str, str]] = {}
    waiting: list[tuple[types.CodeType, dict[str, str]]] = [(module, {})]
    while waiting:
        code, around = waiting.pop()
        found[id(code)] = {name: around.get(name, "") for name in code.co_freevars}
        inside = around | dict.fromkeys(code.co_cellvars, lookup.plain_name(code))
        waiting += [(inner, inside) for inner in _inner(code)]
    return found


def _inner(code: types.CodeType) -> list[types.CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]


def _slots(code: types.CodeType, makers: Mapping[str, str], uses: _Uses) -> Iterator[Variable]:
    """The variables in localsplus, in order: arguments, other locals, cells that aren't arguments, free variables."""
    names = [*code.co_varnames]
    names += [name for name in code.co_cellvars if name not in names]
    cells = frozenset(code.co_cellvars)
    instructions = list(dis.get_instructions(code))
    saved = {i.argval for i in instructions if i.opname == "LOAD_FAST_AND_CLEAR"}
    bound = {i.argval for i in instructions if i.opname in _DEREF_STORES}
    argument_count = code.co_argcount + code.co_kwonlyargcount
    argument_count += bool(code.co_flags & _VARARGS) + bool(code.co_flags & _VARKEYWORDS)
    for index, name in enumerate(names):
        is_argument = index < argument_count
        kind = "cell" if name in cells else "argument" if is_argument else "local"
        cell = (lookup.plain_name(code), uses.inside(code, name)) if kind == "cell" else ("", ())
        yield Variable(name, kind, "localsplus", index, is_argument, *cell, inlined=name in saved)
    for index, name in enumerate(code.co_freevars, len(names)):
        users = uses.inside(code, name)
        yield Variable(name, "free", "localsplus", index, False, makers.get(name, ""), users, assigned=name in bound)


class _Uses:
    """Who uses cells, found out once for each code object."""

    def __init__(self) -> None:
        self._names: dict[int, frozenset[str]] = {}

    def inside(self, code: types.CodeType, name: str) -> tuple[str, ...]:
        """The scopes inside that use the cell themselves, and don't only hand it on."""
        users: list[str] = []
        for inner in _inner(code):
            if name in inner.co_freevars:
                users += [lookup.plain_name(inner)] if name in self._names_of(inner) else []
                users += self.inside(inner, name)
        return tuple(dict.fromkeys(users))

    def _names_of(self, code: types.CodeType) -> frozenset[str]:
        if id(code) not in self._names:
            names = {i.argval for i in dis.get_instructions(code) if i.opname in _DEREF_OPS}
            # super() reads the frame's cell itself.
            self._names[id(code)] = frozenset(names | ({"__class__"} if "super" in code.co_names else set()))
        return self._names[id(code)]


def _looked_up(
    code: types.CodeType, known_globals: Mapping[str, object], known_builtins: Mapping[str, object]
) -> Iterator[Variable]:
    """The names that are looked up in a dict each time: globals, builtins, and those of a class or module body."""
    instructions = [i for i in dis.get_instructions(code) if i.opname in _GLOBAL_OPS | _NAME_OPS]
    is_module = code.co_name == "<module>"
    bound = {i.argval for i in instructions if i.opname in _STORE_OPS}
    global_names = {i.argval for i in instructions if i.opname in _GLOBAL_OPS}
    slots = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    indices = {name: index for index, name in enumerate(code.co_names)}
    for name in dict.fromkeys(i.argval for i in instructions):
        if name in slots:
            continue
        index = indices[name]
        if name in bound and name not in global_names and not is_module:
            yield Variable(name, "local", "namespace", index)
        elif name in bound or name in known_globals or name not in known_builtins:
            yield Variable(name, "global", "globals", index, assigned=name in bound and not is_module)
        else:
            yield Variable(name, "builtin", "builtins", index)


_VARARGS, _VARKEYWORDS = 0x04, 0x08


def _row(variable: Variable) -> tuple[str, ...]:
    is_both = variable.is_argument and variable.kind == "cell"
    name = f"{variable.name} (argument)" if is_both else variable.name
    return variable.kind, str(variable.index), variable.storage, name, variable.notes
