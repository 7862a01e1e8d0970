"""The commands that look at code without running it: `variables`, `dis`, `code` and `decompile`."""

import argparse

from evalframe import lookup
from evalframe.code_object import code
from evalframe.commands import Commands, add_command, document, fail, show, show_all
from evalframe.dis import dis
from evalframe.variables import tables_of


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
