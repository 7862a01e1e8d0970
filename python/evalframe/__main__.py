"""The command line: ``evalframe`` and ``python -m evalframe``."""

import argparse
import sys
from collections.abc import Callable, Sequence

import evalframe
from evalframe import commands, completion, lookup, program, run_command, step_command


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    rest: list[str] = []
    if given[:1] == ["run"]:
        head, rest = run_command.split_at_program(given[1:])
        given = ["run", *head]
    options = command_line().parse_args(given, argparse.Namespace(program=rest))
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except lookup.CannotFind as error:
        return _fail(str(error))
    except program.CannotOpen as error:
        return _fail(str(error), error.status)


def command_line() -> argparse.ArgumentParser:
    """The parser of all commands."""
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
    return parser


def _fail(message: str, status: int = 2) -> int:
    print(f"evalframe: {message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
