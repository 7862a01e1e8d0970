"""The command line: ``evalframe`` and ``python -m evalframe``."""

import argparse
import contextlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import evalframe
from evalframe import _core, program, report
from evalframe.dis import main as disassemble
from evalframe.modes import evaluating
from evalframe.user_backends import resolve
from evalframe.variables import variables_of_file

_RUN_USAGE = """evalframe run [OPTION ...] SCRIPT [ARGUMENT ...]
       evalframe run [OPTION ...] -m MODULE [ARGUMENT ...]
       evalframe run [OPTION ...] -c COMMAND [ARGUMENT ...]"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # `run` hands everything behind the script's name over as it is, which argparse can't do.
    if given[:1] == ["run"]:
        return _run(given[1:])
    if given[:1] == ["step"]:
        from evalframe.step_command import main as record_steps

        return record_steps(given[1:])
    if given[:1] in (["dis"], ["code"]):
        return disassemble(given[1:], given[0])
    options = _parser().parse_args(given)
    command: Callable[[argparse.Namespace], int] = options.command
    return command(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="evalframe", description=(evalframe.__doc__ or "").splitlines()[0])
    parser.add_argument("--version", action="version", version=f"evalframe {evalframe.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("run", help="run a script or module with its frames captured")
    commands.add_parser("dis", help="disassemble a file, a function of it, or a source text")
    commands.add_parser("code", help="the attributes of a code object")
    commands.add_parser("step", help="run a program and show it instruction by instruction")
    names = commands.add_parser("variables", help="the kind and the slot of each variable of a function")
    names.add_argument("where", metavar="FILE[:FUNCTION]", help="a source file, and a function in it by qualified name")
    names.add_argument("--json", action="store_true", help="a JSON document, one line for each variable")
    names.set_defaults(command=_variables)
    source = commands.add_parser("decompile", help="a file's bytecode, or that of a function in it, as Python source")
    source.add_argument("where", metavar="FILE[:FUNCTION]", help="a source file or .pyc, and a function in it")
    source.add_argument("--report", action="store_true", help="tell how each code object came out instead")
    source.set_defaults(command=_decompile)
    explain = commands.add_parser("explain", help="run a script and tell what became of its frames")
    explain.add_argument("script", metavar="SCRIPT")
    explain.add_argument("arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER)
    explain.set_defaults(command=_explain)
    return parser


def _variables(options: argparse.Namespace) -> int:
    path, colon, function = options.where.rpartition(":")
    if not colon:
        path, function = options.where, ""
    try:
        tables = variables_of_file(path, function or None)
    except OSError as error:
        return _fail(f"can't open file {path!r}: [Errno {error.errno}] {error.strerror}")
    except SyntaxError as error:
        return _fail(f"{path}, line {error.lineno}: {error.msg}")
    except LookupError as error:
        return _fail(str(error.args[0]))
    if options.json:
        print("[\n" + ",\n".join(row for table in tables for row in table.json()) + "\n]")
    else:
        print("\n\n".join(map(str, tables)))
    return 0


def _decompile(options: argparse.Namespace) -> int:
    from evalframe.decompiler import code_of_file, decompile_report

    try:
        report = decompile_report(code_of_file(options.where))
    except OSError as error:
        return _fail(f"can't open file {error.filename!r}: [Errno {error.errno}] {error.strerror}")
    except SyntaxError as error:
        return _fail(f"{options.where}, line {error.lineno}: {error.msg}")
    except (LookupError, ValueError) as error:
        return _fail(str(error.args[0]))
    if options.report:
        print(report)
        return 0
    if report.source is None:
        return _fail(f"can't decompile {report.rows[0].name}: {report.rows[0].reason}", 1)
    print(report.source, end="")
    return 0


def _explain(options: argparse.Namespace) -> int:
    def tell(captures: report.Captures) -> None:
        print(report.text(evalframe.stats(), captures))

    return _run_program(lambda: program.script(options.script, options.arguments), evalframe.enabled(), tell)


def _run(arguments: list[str]) -> int:
    head, rest = _split_at_program(arguments)
    parser = argparse.ArgumentParser(prog="evalframe run", usage=_RUN_USAGE)
    parser.add_argument("--report", type=Path, metavar="FILE", help="write an HTML page of what was captured")
    parser.add_argument("--backend", default="native", metavar="NAME", help="what compiles the graphs (native)")
    parser.add_argument("--exact", action="store_true", help="every bit as NumPy computes it: its own exp, sin ...")
    parser.add_argument("--fastmath", action="store_true", help="loops may add and multiply floats in another order")
    parser.add_argument("--background", action="store_true", help="loops are compiled while plain Python goes on")
    parser.add_argument(
        "--mode", choices=("capture", "evaluate"), default="capture",
        help="capture frames, or run every frame in evalframe's own evaluator and capture nothing (capture)",
    )  # fmt: skip
    parser.add_argument(
        "-m", dest="prepare", action="store_const", const=program.module, default=program.script,
        help="SCRIPT is the name of a module",
    )  # fmt: skip
    parser.add_argument("-c", dest="prepare", action="store_const", const=program.command, help="SCRIPT is the program")
    options = parser.parse_args(head)
    if not rest:
        parser.error("no script to run")
    try:
        resolve(options.backend)
    except (ValueError, evalframe.BackendError) as error:
        parser.error(str(error))
    if options.report is not None and (problem := _not_writable(options.report)):
        parser.error(f"can't write {str(options.report)!r}: {problem}")
    report_path = None if options.report is None else options.report.absolute()
    prepare: Callable[[str, list[str]], Callable[[], object]] = options.prepare
    if options.mode == "evaluate":
        if report_path is not None:
            parser.error("--report tells of what was captured, and --mode evaluate captures nothing")
        return _run_evaluated(lambda: prepare(rest[0], rest[1:]))

    def tell(captures: report.Captures) -> None:
        stats = evalframe.stats()
        _say(report.summary(stats))
        if report_path is not None:
            try:
                report_path.write_text(report.html(stats, " ".join(rest), captures), encoding="utf-8")
            except OSError as error:
                _say(f"evalframe: can't write {str(report_path)!r}: {error.strerror}")

    numerics = {"exact": options.exact, "fastmath": options.fastmath}
    capturing = evalframe.enabled(backend=options.backend, background=options.background, **numerics)
    return _run_program(lambda: prepare(rest[0], rest[1:]), capturing, tell)


def _run_program(
    prepare: Callable[[], Callable[[], object]], capturing: evalframe.enabled, tell: Callable[[report.Captures], None]
) -> int:
    try:
        prepared = prepare()
    except program.CannotOpen as error:
        return _fail(str(error), error.status)
    captures: list[dict[str, Any]] = []
    _core.set_measuring(True)
    # Else calls of NumPy's beside kernels pay for fresh pages each time, those that are timed to compare included.
    _core.keep_freed_memory()
    program.run(
        prepared,
        capturing,
        lambda: captures.extend(_core.captures()),
        lambda: tell(captures),
    )
    return 0


def _run_evaluated(prepare: Callable[[], Callable[[], object]]) -> int:
    try:
        prepared = prepare()
    except program.CannotOpen as error:
        return _fail(str(error), error.status)
    counts: dict[str, Any] = {}
    program.run(
        prepared,
        evaluating(),
        lambda: counts.update(evalframe.evaluation_counts()),
        lambda: _say(report.evaluation_summary(counts)),
    )
    return 0


def _split_at_program(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our own options, and the program with its arguments, which are not ours to read."""
    index = 0
    while index < len(arguments):
        argument = arguments[index]
        if argument in ("-m", "-c"):
            return arguments[: index + 1], arguments[index + 1 :]
        if argument == "--":
            return arguments[:index], arguments[index + 1 :]
        if not argument.startswith("-") or argument == "-":
            break
        index += 2 if argument in ("--report", "--backend", "--mode") else 1
    return arguments[:index], arguments[index:]


def _not_writable(path: Path) -> str | None:
    """Why a report can't be written to `path`, told before a long run and not after it."""
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


def _say(line: str) -> None:
    """A line on the process's stderr: the program may have put something else in its place, or closed it."""
    if sys.__stderr__ is not None:
        with contextlib.suppress(OSError, ValueError):
            print(line, file=sys.__stderr__, flush=True)


def _fail(message: str, status: int = 2) -> int:
    print(f"evalframe: {message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
