"""The commands that run a program with its frames captured: `run`, `explain`, `graph` and `guards`."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import evalframe
from evalframe import _core, program, report
from evalframe.commands import Commands, add_command, add_output, checked_file, document, show, show_all
from evalframe.modes import evaluating
from evalframe.program_forms import Program, add_program, chosen_program, command, module, script, usage
from evalframe.user_backends import resolve

if TYPE_CHECKING:
    from evalframe.captured import Listed
    from evalframe.steps import Chosen


# What tells of more than counters: loaded in front of the program, which may leave nothing to import from.
_READERS = ("evalframe.captured", "evalframe.report_page", "evalframe.steps")
_READERS_OF_CODE = ("evalframe._llvm", "evalframe.decompiler")


def add_to(commands: Commands) -> None:
    """Adds the commands of this file."""
    about = "run a script or module with its frames captured"
    parser = add_command(commands, "run", _run, about=about, usage=usage("run"), examples=(
        "evalframe run script.py", "evalframe run --report report.html -m package",
        "evalframe run --report report.html script.py:function",
    ))  # fmt: skip
    parser.add_argument("--report", metavar="FILE", help="write an HTML page of what was captured")
    parser.add_argument("--backend", default="native", metavar="NAME", help="what compiles the graphs (native)")
    parser.add_argument("--exact", action="store_true", help="every bit as NumPy computes it: its own exp, sin ...")
    parser.add_argument("--fastmath", action="store_true", help="loops may add and multiply floats in another order")
    parser.add_argument("--background", action="store_true", help="loops are compiled while plain Python goes on")
    parser.add_argument(
        "--mode", choices=("capture", "evaluate"), default="capture",
        help="capture frames, or run every frame in evalframe's own evaluator and capture nothing (capture)",
    )  # fmt: skip
    parser.add_argument(
        "-m", dest="form", action="store_const", const=module, default=script, help="the name of a module follows",
    )  # fmt: skip
    parser.add_argument("-c", dest="form", action="store_const", const=command, help="the program itself follows")
    about = "run a program and tell what became of its frames"
    parser = add_command(commands, "explain", _explain, about=about, usage=usage("explain"), examples=(
        "evalframe explain script.py", "evalframe explain --html page.html script.py:function",
        "evalframe explain --json -m package",
    ))  # fmt: skip
    parser.add_argument("--html", metavar="FILE", help="one page instead: source, graphs, guards, code, times")
    parser.add_argument(
        "--json", action="store_true", help="a JSON document, one line for each function, graph, break, limit and loop"
    )
    parser.add_argument("--code", action="store_true", help="with --json: LLVM IR and assembly of graphs and loops")
    add_output(parser)
    add_program(parser, "what became")
    about = "run a program and show the graphs that were captured, with their source lines"
    parser = add_command(commands, "graph", _graph, about=about, usage=usage("graph"), examples=(
        "evalframe graph script.py:function", "evalframe graph --json -m package",
    ))  # fmt: skip
    parser.add_argument("--json", action="store_true", help="a JSON document, one line for each input and node")
    add_output(parser)
    add_program(parser, "graphs")
    about = "run a program and show what has to hold for each graph to serve a call, and how often it did"
    parser = add_command(commands, "guards", _guards, about=about, usage=usage("guards"), examples=(
        "evalframe guards script.py:function", "evalframe guards --costs -c \"SOURCE\"",
    ))  # fmt: skip
    parser.add_argument("--costs", action="store_true", help="and what each takes, which isn't the same in each run")
    parser.add_argument("--json", action="store_true", help="a JSON document, one line for each guard")
    add_output(parser)
    add_program(parser, "guards")


def _explain(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    _load_readers(code=options.html is not None or options.code)
    if options.json:
        return _show_told(parser, options, lambda told: document(report.json_rows(told, options.code)))
    asked = chosen_program(parser, options)
    output, page = checked_file(parser, options.output), checked_file(parser, options.html)
    stdout = sys.stdout
    _core.keep_modules(True)

    def tell(captures: report.Captures) -> None:
        asked.remember_source()
        told, stats = told_of(asked, captures), evalframe.stats()
        if page is not None:
            _write_page(page, stats, asked.title, told)
        if page is None or output is not None:
            show(report.text(stats, told), output, stdout)

    return _run_program(asked.prepare, evalframe.enabled(), tell, page is not None)


def _load_readers(code: bool = False) -> None:
    for name in (*_READERS, *(_READERS_OF_CODE if code else ())):
        importlib.import_module(name)


def _write_page(path: Path, stats: report.Stats, title: str, captures: report.Captures) -> None:
    try:
        path.write_text(report.html(stats, title, captures), encoding="utf-8", errors="replace")
    except OSError as error:
        _say(f"evalframe: can't write {str(path)!r}: {error.strerror}")


def _graph(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from evalframe.captured import graphs_of

    return _show_captured(parser, options, graphs_of)


def _guards(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from evalframe.captured import guards_of

    _core.set_measuring_guards(options.costs)
    return _show_captured(parser, options, guards_of)


def _show_captured(
    parser: argparse.ArgumentParser, options: argparse.Namespace, of: Callable[[report.Captures], Listed[Any]]
) -> int:
    if options.json:
        return _show_told(parser, options, lambda told: document(of(told).json()))
    return _show_told(parser, options, of)


def _show_told(
    parser: argparse.ArgumentParser, options: argparse.Namespace, of: Callable[[report.Captures], str | Listed[Any]]
) -> int:
    """Shows what is made of all that was captured: a text, or objects, which a terminal draws."""
    _load_readers()
    asked, output = chosen_program(parser, options), checked_file(parser, options.output)
    stdout = sys.stdout
    _core.keep_modules(True)
    # What is shown is to be the same for the same run: no function is given up for the time that it takes.
    _core.set_call_trials(False)

    def tell(captures: report.Captures) -> None:
        asked.remember_source()
        found = of(told_of(asked, captures))
        if found and not isinstance(found, str):
            show_all(found, path=output, stdout=stdout)
        else:
            show(str(found), output, stdout)

    return _run_captured(asked.prepare(), evalframe.enabled(), tell)


def told_of(asked: Program, captures: report.Captures) -> report.Captures:
    """What was captured of the function that is asked for: its own, and where it was followed from others; all where
    none is named."""
    if not asked.name:
        return captures
    from evalframe.steps import Chosen

    wanted = Chosen((asked.name,), asked.files)
    return [part for capture in captures if (part := _part_of(capture, wanted)) is not None]


def _part_of(capture: Mapping[str, Any], wanted: Chosen) -> Mapping[str, Any] | None:
    def is_wanted(row: Mapping[str, Any]) -> bool:
        return "function" in row and wanted.names(row["function"], row["file"])

    if is_wanted(capture):
        return capture
    entries = [entry for entry in capture["entries"] if any(map(is_wanted, entry["graph_rows"]))]
    notes = {kind: list(filter(is_wanted, capture[kind])) for kind in ("breaks", "limits", "loops")}
    return {**capture, "entries": entries, **notes} if entries or any(notes.values()) else None


def _run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    if not options.program:
        parser.error("no script to run")
    form: Callable[[str, list[str]], Program] = options.form
    asked = form(options.program[0], options.program[1:])
    if asked.name and options.report is None:
        parser.error(f"the function {asked.name!r} is what a page is to tell of: give --report FILE, too")
    try:
        resolve(options.backend)
    except (ValueError, evalframe.BackendError) as error:
        parser.error(str(error))
    report_path = checked_file(parser, options.report)
    if options.mode == "evaluate":
        if report_path is not None:
            parser.error("--report tells of what was captured, and --mode evaluate captures nothing")
        return _run_evaluated(asked.prepare)
    if report_path is not None:
        _load_readers(code=True)
    # Without a page only counters are told, and what was captured of modules may go with them.
    _core.keep_modules(report_path is not None)

    def tell(captures: report.Captures) -> None:
        stats = evalframe.stats()
        _say(report.summary(stats))
        if report_path is not None:
            asked.remember_source()
            _write_page(report_path, stats, asked.title, told_of(asked, captures))

    numerics = {"exact": options.exact, "fastmath": options.fastmath}
    capturing = evalframe.enabled(backend=options.backend, background=options.background, **numerics)
    return _run_program(asked.prepare, capturing, tell, report_path is not None)


def _run_program(
    prepare: Callable[[], Callable[[], object]],
    capturing: evalframe.enabled,
    tell: Callable[[report.Captures], None],
    for_page: bool,
) -> int:
    prepared = prepare()
    _core.set_measuring(True)
    _core.set_measuring_guards(for_page)
    # Else calls of NumPy's beside kernels pay for fresh pages each time, those that are timed to compare included.
    _core.keep_freed_memory()
    return _run_captured(prepared, capturing, tell, for_page)


def _run_captured(
    prepared: Callable[[], object],
    capturing: evalframe.enabled,
    tell: Callable[[report.Captures], None],
    for_page: bool = False,
) -> int:
    captures: list[dict[str, Any]] = []
    program.run(
        prepared,
        capturing,
        lambda: captures.extend(_captures(for_page)),
        lambda: tell(captures),
    )
    return 0


def _captures(for_page: bool) -> list[dict[str, Any]]:
    """What is captured now; for a page with the code that is made of it."""
    if not for_page:
        return _core.captures()
    from evalframe.report_page import with_code

    return with_code(_core.captures(), _core.captured_code())


def _run_evaluated(prepare: Callable[[], Callable[[], object]]) -> int:
    prepared = prepare()
    counts: dict[str, Any] = {}
    program.run(
        prepared,
        evaluating(),
        lambda: counts.update(evalframe.evaluation_counts()),
        lambda: _say(report.evaluation_summary(counts)),
    )
    return 0


def _say(line: str) -> None:
    """A line on the process's stderr: the program may have put something else in its place, or closed it."""
    if sys.__stderr__ is not None:
        with contextlib.suppress(OSError, ValueError):
            print(line, file=sys.__stderr__, flush=True)
