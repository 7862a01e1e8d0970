"""Finds the code objects that a command is asked about, without running them: those of files, modules, source texts."""

import contextlib
import importlib.machinery
import importlib.util
import marshal
import os
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass

SOURCE_NAME = "<source>"  # the file of what `-c` gives
_MOST_NAMES = 8  # in an error


class CannotFind(LookupError):
    """What was asked for isn't there or can't be read; the text says what, where, and what to do."""


@dataclass(frozen=True)
class Found:
    """What a look-up came to."""

    file: str
    source: bytes | None  # None: the file is a compiled one
    module: types.CodeType
    codes: tuple[types.CodeType, ...]  # those that the name means; the module's own where none is given


def in_file(where: str) -> Found:
    """FILE or FILE:NAME. A folder stands for its `__main__.py`, `-` for standard input; a `.pyc` is read as it is."""
    path, name = split(where)
    return _found(*_read(path), name)


def in_module(where: str) -> Found:
    """MODULE or MODULE:NAME, found as `python -m` finds it. A package is imported where the module is inside it."""
    module, _, name = where.partition(":")
    return _found(*_read(file_of_module(module)), name)


def in_source(source: str) -> Found:
    """A source text."""
    return _found(SOURCE_NAME, source.encode("utf-8", "surrogatepass"), None, "")


def split(where: str) -> tuple[str, str]:
    """The file and the name ("": none) of FILE:NAME; a file may have a colon in its own name."""
    path, colon, name = where.rpartition(":")
    return (path, name) if colon and path and not os.path.exists(where) else (where, "")


def file_to_run(name: str) -> str:
    """The file that `python -m` runs for the module: of a package, its `__main__`."""
    if _spec(name).submodule_search_locations is None:
        return file_of_module(name)
    try:
        return file_of_module(f"{name}.__main__")
    except CannotFind:
        raise CannotFind(f"the package {name!r} can't be run: it has no __main__") from None


def file_of_module(name: str) -> str:
    """The file that the module is read from."""
    spec = _spec(name)
    frozen = getattr(spec.loader_state, "filename", None) if spec.origin == "frozen" else None
    file = frozen or spec.origin if frozen or spec.has_location else None
    if file is None or file.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)):
        what = "a folder without __init__.py" if spec.origin is None else "not written in Python"
        raise CannotFind(f"there is no source file of the module {name!r}: it is {what}")
    return file


def _spec(name: str) -> importlib.machinery.ModuleSpec:
    try:
        with _present_folder_first():
            spec = importlib.util.find_spec(name) if name else None
    except Exception as error:  # of a package around it, which is imported
        raise CannotFind(f"can't look for the module {name!r}: {type(error).__name__}: {error}") from error
    if spec is None:
        raise CannotFind(f"there is no module {name!r}; what `python -m` finds is in the present folder or on sys.path")
    return spec


def codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code object, and those inside it in the order of the source."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_in(constant)


def plain_name(code: types.CodeType) -> str:
    """The qualified name without `<locals>`."""
    return ".".join(_parts(code.co_qualname))


def named(module: types.CodeType, name: str) -> tuple[types.CodeType, ...]:
    """The code objects of this qualified name, with or without `<locals>`; else those whose names end in it."""
    wanted = _parts(name)
    codes = list(codes_in(module))[1:]
    exact = tuple(code for code in codes if _parts(code.co_qualname) == wanted)
    return exact or tuple(code for code in codes if _parts(code.co_qualname)[-len(wanted) :] == wanted)


def _found(file: str, source: bytes | None, module: types.CodeType | None, name: str) -> Found:
    compiled = _compiled(file, source) if source is not None else module
    assert compiled is not None
    codes = named(compiled, name) if name else (compiled,)
    if not codes:
        raise CannotFind(f"{file} has no function {name!r}{_instead(compiled, name)}")
    return Found(file, source, compiled, codes)


def _instead(module: types.CodeType, name: str) -> str:
    known = list(dict.fromkeys(plain_name(code) for code in list(codes_in(module))[1:]))
    by_end = {end: full for full in reversed(known) for end in (full, full.rpartition(".")[2])}
    import difflib

    near = difflib.get_close_matches(name, by_end, n=3)
    if near:
        return f"; did you mean {' or '.join(dict.fromkeys(by_end[each] for each in near))}?"
    more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
    return f"; its functions are: {', '.join(known[:_MOST_NAMES]) or 'none'}{more}"


def _read(path: str) -> tuple[str, bytes | None, types.CodeType | None]:
    """The file's name, and its source or what it was compiled to."""
    if path == "-":
        return "<stdin>", sys.stdin.buffer.read(), None
    if os.path.isdir(path) and os.path.exists(main := os.path.join(path, "__main__.py")):
        path = main
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        reason = f"[Errno {error.errno}] {error.strerror}" if isinstance(error, OSError) else str(error)
        raise CannotFind(f"can't open file {path!r}: {reason}") from error
    return (path, None, _unmarshalled(path, data)) if path.endswith(".pyc") else (path, data, None)


def _unmarshalled(path: str, data: bytes) -> types.CodeType:
    if data[:4] != importlib.util.MAGIC_NUMBER:
        raise CannotFind(f"{path} was compiled by another version of Python; run evalframe under that one")
    try:
        loaded = marshal.loads(data[16:])
    except (EOFError, TypeError, ValueError) as error:
        raise CannotFind(f"{path} is no compiled module: {error}") from error
    if not isinstance(loaded, types.CodeType):
        raise CannotFind(f"{path} is no compiled module: it holds no code object")
    return loaded


def _compiled(file: str, source: bytes) -> types.CodeType:
    try:
        return compile(source, file, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise CannotFind(_syntax_error(file, _in_characters(file, source, error))) from error
    except (ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise CannotFind(f"{file} can't be compiled: {str(error) or type(error).__name__}") from error


def _in_characters(file: str, source: bytes, error: SyntaxError) -> SyntaxError:
    """The same error with its column in characters: of bytes CPython counts it in bytes."""
    try:
        compile(importlib.util.decode_source(source), file, "exec", dont_inherit=True)
    except SyntaxError as found:
        return found if found.lineno else error
    except (UnicodeDecodeError, ValueError):
        pass
    return error


def _syntax_error(file: str, error: SyntaxError) -> str:
    line = f", line {error.lineno}" if error.lineno else ""
    column = f", column {error.offset}" if error.lineno and error.offset and error.offset > 0 else ""
    text = f"{file}{line}{column}: {error.msg}"
    if not (column and error.offset and error.text):
        return text
    shown = error.text.rstrip("\n")
    indent = len(shown) - len(shown.lstrip())
    return f"{text}\n    {shown.lstrip()}\n    {' ' * (error.offset - 1 - indent)}^"


def _parts(name: str) -> list[str]:
    return [part for part in name.split(".") if part != "<locals>"]


@contextlib.contextmanager
def _present_folder_first() -> Iterator[None]:
    """Modules are looked for as by `python -m`, and not where the command itself stands."""
    before = list(sys.path)
    if not sys.flags.safe_path:
        sys.path.insert(0, os.getcwd())
    try:
        yield
    finally:
        sys.path[:] = before
