"""The command line: ``evalframe`` and ``python -m evalframe``."""

import argparse
import importlib
import signal
import sys
from collections.abc import Callable, Sequence

import evalframe
from evalframe import lookup, program
from evalframe.program_forms import split_at_program

_RUN_PROGRAMS = ("run", "explain", "graph", "guards", "step")
_FILES = {
    "evalframe.run_command": ("run", "explain", "graph", "guards"),
    "evalframe.code_commands": ("variables", "dis", "code", "decompile"),
    "evalframe.step_command": ("step",),
    "evalframe.completion": ("completion",),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser, commands_by_name = command_line(given[0] if given else None)
    rest: list[str] = []
    if given[:1] and given[0] in _RUN_PROGRAMS:
        head, rest = split_at_program(commands_by_name[given[0]], given[1:])
        given = [given[0], *head]
    options, unknown = parser.parse_known_args(given)
    if unknown:  # told with the usage of the command, not that of all
        commands_by_name.get(given[0], parser).error(f"unrecognized arguments: {' '.join(unknown)}")
    options.program = rest
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except lookup.CannotFind as error:
        return _fail(str(error))
    except program.CannotOpen as error:
        return _fail(str(error), error.status)
    except KeyboardInterrupt:
        if given[0] in _RUN_PROGRAMS:  # the program's own affair
            raise
        return 128 + signal.SIGINT


def command_line(command: str | None = None) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser of the command line, and those of its commands by name.

    ``command``: if there is one of this name, only what its file has, as a program that is run waits for all others.
    """
    parser = argparse.ArgumentParser(
        prog="evalframe", description=(evalframe.__doc__ or "").splitlines()[0],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="evalframe COMMAND --help has an example of each.\n\n"
        "example:\n  evalframe run --report report.html script.py",
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"evalframe {evalframe.__version__}")
    added = parser.add_subparsers(required=True, metavar="COMMAND")
    for file in [file for file, names in _FILES.items() if command in names] or _FILES:
        importlib.import_module(file).add_to(added)
    return parser, added.choices


def _fail(message: str, status: int = 2) -> int:
    print(f"evalframe: {message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
