"""Lists the canonical bytecode of functions, code objects, source texts and files."""

import os
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

from evalframe.bytecode import code_of, listing


def dis(source: Callable[..., Any] | types.CodeType | str, *, file: TextIO | None = None) -> None:
    """Prints the listing of a function, a code object or a source text, and of the functions inside it."""
    print(text(source), end="", file=file)


def text(source: Callable[..., Any] | types.CodeType | str) -> str:
    """The listing that `dis` prints."""
    code = compile(source, "<source>", "exec", dont_inherit=True) if isinstance(source, str) else code_of(source)
    return "\n".join(listing(each) for each in _code_objects(code))


def main(arguments: Sequence[str]) -> int:
    """The command ``evalframe dis``; its exit status."""
    import argparse

    parser = argparse.ArgumentParser(prog="evalframe dis", description="Lists bytecode by canonical instructions.")
    parser.add_argument(
        "where", nargs="?", metavar="FILE[:FUNCTION]", help="a file, or a function in it by qualified name"
    )
    parser.add_argument("-c", dest="source", metavar="SOURCE", help="a source text")
    options = parser.parse_args(arguments)
    if (options.where is None) == (options.source is None):
        parser.error("give either FILE[:FUNCTION] or -c SOURCE")
    try:
        print(text(options.source if options.where is None else _code_in_file(options.where)), end="")
    except OSError as error:
        return _fail(f"can't open file {error.filename!r}: {error.strerror}")
    except SyntaxError as error:
        return _fail(f"{error.filename}, line {error.lineno}: {error.msg}")
    except (LookupError, ValueError) as error:
        return _fail(str(error.args[0]))
    return 0


def _code_in_file(where: str) -> types.CodeType:
    path, colon, function = where.rpartition(":")
    if not colon or os.path.exists(where):
        path, function = where, ""
    with open(path, "rb") as file:
        module = compile(file.read(), path, "exec", dont_inherit=True)
    if not function:
        return module
    for code in _code_objects(module):
        if code.co_qualname in (function, function.replace(".", ".<locals>.")):
            return code
    names = ", ".join(code.co_qualname for code in list(_code_objects(module))[1:9])
    raise LookupError(f"{path} has no function {function!r}; it has {names or 'none'}")


def _code_objects(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code_objects(constant)


def _fail(message: str) -> int:
    print(f"evalframe dis: {message}", file=sys.stderr)
    return 2
