"""The command ``evalframe step``: runs a program and shows it instruction by instruction."""

import argparse
import contextlib
import sys
from pathlib import Path
from typing import TextIO

from evalframe import program, terminal
from evalframe.commands import Commands, add_command, add_output, checked_file, fail, show
from evalframe.program_forms import add_program, chosen_program, usage
from evalframe.step_notes import notes_of_files
from evalframe.steps import MEMORY, STEPS, Chosen, Trace, recorder


def add_to(commands: Commands) -> None:
    """Adds the command."""
    about = "run a program and show what its frames hold before each instruction"
    parser = add_command(commands, "step", _step, about=about, usage=usage("step"), examples=(
        "evalframe step script.py                                a stepper, in a terminal",
        'evalframe step -c "x = [1]; x.append(2)" | less         one line a step',
        "evalframe step --html steps.html script.py:function    a page that steps forwards and backwards",
    ))  # fmt: skip
    parser.add_argument("--plain", action="store_true", help="one line a step, in a terminal, too, which has a stepper")
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
    parser.add_argument(
        "--notes", action="append", default=[], metavar="FILE",
        help="a document of `evalframe graph --json` or `guards --json`: what the recorder noted at each instruction",
    )  # fmt: skip
    add_output(parser)
    add_program(parser, "only frames")


def _step(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    asked = chosen_program(parser, options)
    only = (*([asked.name] if asked.name else []), *options.only)
    html, output = checked_file(parser, options.html), checked_file(parser, options.output)
    stdout, streams = sys.stdout, (sys.stdin, sys.stdout, sys.stderr)
    in_own_files = not only or asked.name or (options.module is None and options.source is None)
    chosen = Chosen(only, asked.files if in_own_files else (), options.everything)
    try:
        made = recorder(chosen, options.steps, options.memory << 20, options.reprs)
        notes = notes_of_files(options.notes)
    except ValueError as error:
        parser.error(str(error))
    prepared = asked.prepare()
    trace = Trace(made, {"<string>": asked.source} if asked.source is not None else {}, notes)

    def tell() -> None:
        asked.remember_source()
        if not (options.plain or options.json or html or output) and all(map(terminal.is_one, streams)):
            terminal.run_stepper(trace, asked.title)
        else:
            _show(trace, options.json, html, asked.title, (output, stdout))
        if only and not len(trace):
            fail(parser, f"no frame of {', '.join(only)} was begun")

    program.run(lambda: made.call(prepared, (), {}), contextlib.nullcontext(), lambda: None, tell)
    return 0


def _show(trace: Trace, as_json: bool, html: Path | None, title: str, to: tuple[Path | None, TextIO]) -> None:
    try:
        if html is not None:
            html.write_text(trace.html(title), encoding="utf-8", errors="replace")
            print(f"evalframe: {len(trace)} steps in {str(html)!r}", file=sys.stderr)
        if as_json:
            show("\n".join(trace.json()), *to)
        elif html is None or to[0] is not None:
            show(trace.text(), *to)
    except OSError as error:
        print(f"evalframe step: can't write {error.filename or 'the output'!r}: {error.strerror}", file=sys.stderr)
