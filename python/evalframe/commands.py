"""The commands that look at code without running it: `variables`, `dis`, `code` and `decompile`."""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TextIO

from evalframe import lookup, terminal
from evalframe.code_object import code
from evalframe.dis import dis
from evalframe.variables import tables_of

Commands = Any  # what argparse has no name for: the action that holds the parsers of commands
Run = Callable[[argparse.ArgumentParser, argparse.Namespace], int]


def add_command(
    commands: Commands, name: str, run: Run, *, about: str, examples: tuple[str, ...], usage: str | None = None
) -> argparse.ArgumentParser:
    """A command with its help and examples; `run` gets its parser, for errors, and the options: the exit status."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=about, description=about[0].upper() + about[1:] + ".", usage=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
        epilog="\n  ".join(["example:" if len(examples) == 1 else "examples:", *examples]),
    )  # fmt: skip
    parser.set_defaults(run=lambda options: run(parser, options), program=[])
    return parser


def fail(parser: argparse.ArgumentParser, message: str, status: int = 2) -> int:
    """Tells on stderr why the command can't be carried out."""
    print(f"{parser.prog}: {message}", file=sys.stderr)
    return status


def add_output(parser: argparse.ArgumentParser) -> None:
    """The option of commands whose programs print something, too."""
    parser.add_argument("--output", metavar="FILE", help="write it there, and not behind what the program prints")


def checked_file(parser: argparse.ArgumentParser, given: str | None) -> Path | None:
    """The file of an option, which is to be one that can be written, told before a long run and not after it."""
    if given is None:
        return None
    path = Path(given).absolute()
    if problem := _not_writable(path):
        parser.error(f"can't write {given!r}: {problem}")
    return path


def _not_writable(path: Path) -> str | None:
    """Why a file can't be written; None where it can be."""
    created = not path.exists()
    try:
        with path.open("a"):
            pass
    except OSError as error:
        return error.strerror
    if created:
        with contextlib.suppress(OSError):
            path.unlink()
    return None


def show(shown: str, path: Path | None = None, stdout: TextIO | None = None) -> None:
    """Prints a result, or writes it into a file; whoever reads what is printed may stop before its end.

    `stdout` is what it was before a program has run, which may have put something else in its place.
    """
    if path is not None:
        path.write_text(shown + "\n", encoding="utf-8", errors="backslashreplace")
        return
    stream = stdout or sys.stdout
    if stream.closed:
        print("evalframe: the program has closed stdout; --output FILE writes into a file", file=sys.__stderr__)
        return
    try:
        print(shown, file=stream, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except UnicodeEncodeError:  # of a locale that has not all characters
        print(shown.encode("ascii", "backslashreplace").decode(), file=stream, flush=True)


def show_all(
    objects: Iterable[Any], between: str = "\n\n", path: Path | None = None, stdout: TextIO | None = None
) -> None:
    """The same for objects: drawn by rich in a terminal, as plain text everywhere else."""
    if path is None and terminal.has_colours(stdout or sys.stdout):
        terminal.print_tables(objects, stdout or sys.stdout)
    else:
        show(between.join(str(each).rstrip("\n") for each in objects), path, stdout)


def document(lines: Iterable[str]) -> str:
    """A JSON document of one object a line."""
    return "[\n" + ",\n".join(lines) + "\n]"


def add_to(commands: Commands) -> None:
    """Adds the commands of this file."""
    about = "the kind and the slot of each variable"
    parser = add_command(commands, "variables", _variables, about=about, examples=(
        "evalframe variables script.py", "evalframe variables script.py:Class.method",
    ))  # fmt: skip
    _add_forms(parser)
    _add_json(parser, "variable")
    about = "list bytecode by canonical instructions"
    parser = add_command(commands, "dis", _dis, about=about, examples=('evalframe dis -c "x = 1"',))
    _add_forms(parser)
    _add_json(parser, "instruction")
    about = "the attributes of code objects"
    parser = add_command(commands, "code", _code, about=about, examples=("evalframe code -m json:loads",))
    _add_forms(parser)
    _add_json(parser, "code object")
    about = "bytecode as Python source"
    parser = add_command(commands, "decompile", _decompile, about=about, examples=(
        "evalframe decompile __pycache__/script.cpython-311.pyc", "evalframe decompile --report -m textwrap",
    ))  # fmt: skip
    _add_forms(parser)
    parser.add_argument("--report", action="store_true", help="tell how each code object came out instead")
    _add_json(parser, "code object, with its status; that of the whole has the source")


def _add_forms(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "where", nargs="?", metavar="FILE[:NAME]",
        help="a file of source or a .pyc, or a function or class in it by qualified name; - is standard input",
    )  # fmt: skip
    parser.add_argument("-m", dest="module", metavar="MODULE[:NAME]", help="a module, which isn't run")
    parser.add_argument("-c", dest="source", metavar="SOURCE", help="a source text, which isn't run")


def _add_json(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--json", action="store_true", help=f"a JSON document, one line for each {what}")


def _found(parser: argparse.ArgumentParser, options: argparse.Namespace) -> lookup.Found:
    if (options.where, options.module, options.source).count(None) != 2:
        parser.error("give one of FILE[:NAME], -m MODULE[:NAME] and -c SOURCE")
    if options.module is not None:
        return lookup.in_module(options.module)
    return lookup.in_file(options.where) if options.where is not None else lookup.in_source(options.source)


def _variables(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    tables = tables_of(_found(parser, options))
    if options.json:
        show(document(row for table in tables for row in table.json()))
    else:
        show_all(tables)
    return 0


def _dis(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    found = [dis(each) for each in _found(parser, options).codes]
    if options.json:
        show(document(row for each in found for row in each.json()))
    else:
        show_all(found, "\n\n")
    return 0


def _code(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    found = [code(inner) for each in _found(parser, options).codes for inner in lookup.codes_in(each)]
    if options.json:
        show(document(each.json() for each in found))
    else:
        show_all(found)
    return 0


def _decompile(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from evalframe.decompiler import decompile_report

    found = _found(parser, options)
    reports = [decompile_report(each, module=found.module) for each in found.codes]
    if options.json:
        show(document(row for report in reports for row in report.json()))
        return 0
    if options.report:
        show("\n".join(map(str, reports)))
        return 0
    refused = [report.rows[0] for report in reports if report.source is None]
    sources = [report.source for report in reports if report.source is not None]
    if sources:
        show("\n".join(sources).removesuffix("\n"))
    for row in refused:
        fail(parser, f"can't decompile {row.name}: {row.reason}")
    return 1 if refused else 0
