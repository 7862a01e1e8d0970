"""Lists the canonical bytecode of functions, code objects, source texts and files."""

import importlib.util
import json
import os
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TextIO

from evalframe import _core
from evalframe.bytecode import code_of, listing
from evalframe.code_object import code


def dis(source: Callable[..., Any] | types.CodeType | str, *, file: TextIO | None = None) -> None:
    """Prints the listing of a function, a code object or a source text, and of the functions inside it."""
    print(text(source), end="", file=file)


def text(source: Callable[..., Any] | types.CodeType | str) -> str:
    """The listing that `dis` prints."""
    code = compile(source, "<source>", "exec", dont_inherit=True) if isinstance(source, str) else code_of(source)
    return "\n".join(listing(each) for each in _code_objects(code))


def main(arguments: Sequence[str], command: str = "dis") -> int:
    """The commands ``evalframe dis`` and ``evalframe code``; the exit status."""
    import argparse

    what = "Lists bytecode by canonical instructions." if command == "dis" else "Shows a code object's attributes."
    parser = argparse.ArgumentParser(
        prog=f"evalframe {command}", description=what, epilog=f'example: evalframe {command} -c "x = 1"'
    )
    parser.add_argument(
        "where", nargs="?", metavar="FILE[:FUNCTION]", help="a file, or a function in it by qualified name"
    )
    parser.add_argument("-c", dest="source", metavar="SOURCE", help="a source text")
    parser.add_argument("-m", dest="module", metavar="MODULE[:FUNCTION]", help="a module, which isn't run")
    parser.add_argument("--json", action="store_true", help="a JSON document, one line for each instruction or object")
    options = parser.parse_args(arguments)
    if (options.where, options.source, options.module).count(None) != 2:
        parser.error("give one of FILE[:FUNCTION], -m MODULE[:FUNCTION] and -c SOURCE")
    try:
        where = options.where if options.module is None else _file_of_module(options.module)
        compiled = None if where is not None else compile(options.source, "<source>", "exec", dont_inherit=True)
        print(_shown(compiled or _code_in_file(where), command, options.json))
    except OSError as error:
        return _fail(f"can't open file {error.filename!r}: {error.strerror}", command)
    except SyntaxError as error:
        return _fail(f"{error.filename}, line {error.lineno}: {error.msg}", command)
    except (LookupError, ValueError, ImportError) as error:
        return _fail(str(error.args[0]), command)
    return 0


def _shown(source: types.CodeType, command: str, as_json: bool) -> str:
    codes = list(_code_objects(source))
    if command == "code":
        found = list(map(code, codes))
        return _document(each.json() for each in found) if as_json else "\n\n".join(map(str, found))
    if not as_json:
        return text(source).rstrip("\n")
    return _document(row for each in codes for row in _rows(each))


def _document(lines: Iterable[str]) -> str:
    return "[\n" + ",\n".join(lines) + "\n]"


def _rows(source: types.CodeType) -> Iterator[str]:
    rows = _core.instruction_rows(source)
    for offset, name, real, argument, shown, target, (line, end_line, column, end_column) in rows:
        row: dict[str, object] = {
            "code": source.co_qualname, "offset": offset, "instruction": name, "name": real, "argument": argument,
            "text": shown, "target": rows[target][0] if target >= 0 else None, "line": line, "end_line": end_line,
            "column": column, "end_column": end_column,
        }  # fmt: skip
        yield json.dumps(row)


def _file_of_module(where: str) -> str:
    name, colon, function = where.partition(":")
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None or not found.has_location:
        raise LookupError(f"there is no source file of a module {name!r}")
    return found.origin + colon + function


def _code_in_file(where: str) -> types.CodeType:
    path, colon, function = where.rpartition(":")
    if not colon or os.path.exists(where):
        path, function = where, ""
    with open(path, "rb") as file:
        module = compile(file.read(), path, "exec", dont_inherit=True)
    if not function:
        return module
    for each in _code_objects(module):
        if each.co_qualname in (function, function.replace(".", ".<locals>.")):
            return each
    names = ", ".join(each.co_qualname for each in list(_code_objects(module))[1:9])
    raise LookupError(f"{path} has no function {function!r}; it has {names or 'none'}")


def _code_objects(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code_objects(constant)


def _fail(message: str, command: str) -> int:
    print(f"evalframe {command}: {message}", file=sys.stderr)
    return 2
