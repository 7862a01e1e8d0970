"""What the commands share: parsers with examples, files to write into, and how results are shown."""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TextIO

from evalframe import terminal

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
