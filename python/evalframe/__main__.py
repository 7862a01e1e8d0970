"""The command line: ``evalframe`` and ``python -m evalframe``."""

import argparse
import signal
import sys
from collections.abc import Callable, Sequence

import evalframe
from evalframe import commands, completion, lookup, program, run_command, step_command
from evalframe.program_forms import split_at_program

_RUN_PROGRAMS = ("run", "explain", "graph", "guards", "step")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser, commands_by_name = command_line()
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


def command_line() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser of the command line, and those of its commands by name."""
    parser = argparse.ArgumentParser(
        prog="evalframe", description=(evalframe.__doc__ or "").splitlines()[0],
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="evalframe COMMAND --help has an example of each.\n\n"
        "example:\n  evalframe run --report report.html script.py",
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"evalframe {evalframe.__version__}")
    added = parser.add_subparsers(required=True, metavar="COMMAND")
    for module in (run_command, commands, step_command, completion):
        module.add_to(added)
    return parser, added.choices


def _fail(message: str, status: int = 2) -> int:
    print(f"evalframe: {message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
