"""The command ``evalframe step``: runs a program and shows it instruction by instruction."""

import argparse
import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evalframe import program
from evalframe.steps import MEMORY, STEPS, Chosen, Trace, recorder

_USAGE = """evalframe step [OPTION ...] FILE[:FUNCTION] [ARGUMENT ...]
       evalframe step [OPTION ...] -m MODULE [ARGUMENT ...]
       evalframe step [OPTION ...] -c SOURCE [ARGUMENT ...]"""
_EXAMPLE = """example:
  evalframe step --html steps.html script.py:function    a page that steps forwards and backwards"""


def main(arguments: Sequence[str]) -> int:
    """The exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    given = ([options.where] if options.where is not None else []) + options.arguments
    only = tuple(options.only)
    prepare: Callable[[str, list[str]], Callable[[], object]]
    files: tuple[str, ...]
    if options.module is not None:
        files, prepare, name = _files_of_module(options.module), program.module, options.module
    elif options.source is not None:
        files, prepare, name = ("<string>",), program.command, options.source
    elif given:
        path, function = _split(given.pop(0))
        only = (function, *only) if function else only
        files, prepare, name = (os.path.abspath(path),), program.script, path
    else:
        parser.error("no program to run: give FILE[:FUNCTION], -m MODULE or -c SOURCE")
    html = None if options.html is None else Path(options.html).absolute()
    chosen = Chosen(only, files if not only or _names_a_file(options) else (), options.everything)
    try:
        made = recorder(chosen, options.steps, options.memory << 20, options.reprs)
    except ValueError as error:
        parser.error(str(error))
    try:
        prepared = prepare(name, given)
    except program.CannotOpen as error:
        print(f"evalframe step: {error}", file=sys.stderr)
        return error.status
    trace = Trace(made, {"<string>": options.source} if options.source is not None else {})

    def tell() -> None:
        _show(trace, options.json, html, " ".join([name, *given]))
        if only and not len(trace):
            print(f"evalframe step: no frame of {', '.join(only)} was begun", file=sys.stderr)

    program.run(lambda: made.call(prepared, (), {}), contextlib.nullcontext(), lambda: None, tell)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="evalframe step", usage=_USAGE, epilog=_EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Runs a program and shows what its frames hold before each instruction.",
    )  # fmt: skip
    parser.add_argument("--plain", action="store_true", help="one line a step (as without any of these three)")
    parser.add_argument("--json", action="store_true", help="a JSON document, one line a step")
    parser.add_argument("--html", metavar="FILE", help="one page to step through, forwards and backwards")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="record frames of this function (qualified name)"
    )
    parser.add_argument("--all", dest="everything", action="store_true", help="record frames of libraries, too")
    parser.add_argument("--steps", type=int, default=STEPS, metavar="N", help=f"at most so many steps ({STEPS})")
    parser.add_argument(
        "--memory", type=int, default=MEMORY >> 20, metavar="MB", help=f"of the recording, at most ({MEMORY >> 20})"
    )
    parser.add_argument("--reprs", action="store_true", help="ask objects for their repr, which runs code of theirs")
    parser.add_argument("-m", dest="module", metavar="MODULE", help="run a module")
    parser.add_argument("-c", dest="source", metavar="SOURCE", help="run a source text")
    parser.add_argument("where", nargs="?", metavar="FILE[:FUNCTION]", help="a script; only frames of this function")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="the program's own")
    return parser


def _names_a_file(options: Any) -> bool:
    return options.module is None and options.source is None


def _split(where: str) -> tuple[str, str]:
    path, colon, function = where.rpartition(":")
    return (path, function) if colon and not os.path.exists(where) else (where, "")


def _files_of_module(name: str) -> tuple[str, ...]:
    """The module's own file, which is recorded even where it's a library's. Not finding it is told by the run."""
    with contextlib.suppress(ImportError, ValueError, AttributeError):
        for candidate in (f"{name}.__main__", name):
            with contextlib.suppress(ImportError):
                found = importlib.util.find_spec(candidate)
                if found is not None and found.origin is not None:
                    return (found.origin,)
    return ()


def _show(trace: Trace, as_json: bool, html: Path | None, title: str) -> None:
    try:
        if html is not None:
            html.write_text(trace.html(title), encoding="utf-8")
            print(f"evalframe: {len(trace)} steps in {str(html)!r}", file=sys.stderr)
        if as_json:
            for line in trace.json():
                print(line)
        elif html is None:
            print(trace.text())
    except OSError as error:
        print(f"evalframe step: can't write {error.filename or 'the output'!r}: {error.strerror}", file=sys.stderr)
