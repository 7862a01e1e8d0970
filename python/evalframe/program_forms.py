"""The programs that commands run: FILE[:NAME], -m MODULE[:NAME] or -c SOURCE, with arguments of their own behind."""

import argparse
import linecache
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evalframe import lookup, program


@dataclass(frozen=True)
class Program:
    """A program that is asked for, and the function of it that is to be told of."""

    title: str
    files: tuple[str, ...]  # its own, as code objects name it; empty where that is found out by the run
    name: str  # a qualified name; "": all of it
    source: str | None  # of -c
    prepare: Callable[[], Callable[[], object]]  # sets up the process for it, and returns what runs it

    def remember_source(self) -> None:
        """Has the lines of a program of -c found by its file's name, as those of others are."""
        if self.source is not None:
            lines = self.source.splitlines(keepends=True)
            linecache.cache["<string>"] = (len(self.source), None, lines, "<string>")


def usage(command: str) -> str:
    """The usage of a command that runs a program."""
    forms = ("FILE[:NAME]", "-m MODULE[:NAME]", "-c SOURCE")
    return "\n       ".join(f"evalframe {command} [OPTION ...] {form} [ARGUMENT ...]" for form in forms)


def add_program(parser: argparse.ArgumentParser, what: str) -> None:
    """The forms of programs; `what` is told of the function that is named."""
    parser.add_argument("-m", dest="module", metavar="MODULE[:NAME]", help="run a module")
    parser.add_argument("-c", dest="source", metavar="SOURCE", help="run a source text")
    parser.add_argument(
        "where", nargs="?", metavar="FILE[:NAME]", help=f"a script; {what} of this function or class alone"
    )
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="the program's own")


def split_at_program(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """A command's options, and the program with its arguments, which are not ours to read.

    All behind a script's name, or that of a module, is handed over as it is, which argparse can't do.
    """
    actions = [action for action in parser._actions if action.nargs != 0]
    with_value = {flag for action in actions for flag in action.option_strings}
    index = 0
    while index < len(arguments):
        argument = arguments[index]
        behind = index + (2 if argument in with_value else 1)
        if argument in ("-m", "-c"):
            return list(arguments[:behind]), list(arguments[behind:])
        if argument == "--":
            return list(arguments[:index]), list(arguments[behind:])
        if not argument.startswith("-") or argument == "-":
            break
        index = behind
    return list(arguments[:index]), list(arguments[index:])


def chosen_program(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Program:
    """What the options ask for; CannotFind where it has no function of the name."""
    given: list[str] = options.program
    if options.module is not None:
        return module(options.module, given)
    if options.source is not None:
        return command(options.source, given)
    if not given:
        parser.error("no program to run: give FILE[:NAME], -m MODULE[:NAME] or -c SOURCE")
    return script(given[0], given[1:])


def command(source: str, arguments: list[str]) -> Program:
    """A source text."""
    title = " ".join(["-c", source, *arguments])
    return Program(title, ("<string>",), "", source, lambda: program.command(source, arguments))


def script(where: str, arguments: list[str]) -> Program:
    """FILE[:NAME]."""
    path, name = lookup.split(where)
    if name:
        lookup.in_file(where)
    title = " ".join([path, *arguments])
    return Program(title, (_file(path),), name, None, lambda: program.script(path, arguments))


def module(where: str, arguments: list[str]) -> Program:
    """MODULE[:NAME]."""
    name_of_module, _, name = where.partition(":")
    try:
        files: tuple[str, ...] = (lookup.file_to_run(name_of_module),)
    except lookup.CannotFind:  # which the run tells as `python -m` does
        files = ()
    if name:
        lookup.in_file(f"{lookup.file_to_run(name_of_module)}:{name}")
    title = " ".join(["-m", name_of_module, *arguments])
    return Program(title, files, name, None, lambda: program.module(name_of_module, arguments))


def _file(path: str) -> str:
    path = os.path.join(path, "__main__.py") if os.path.isdir(path) else path
    return "<stdin>" if path == "-" else os.path.abspath(path)
