"""How much of given code the decompilers give back: ours, depyf and pycdc (pycdecompile), those that are installed.

``python benchmarks/decompiler.py [--each N] [NAME=FOLDER ...]`` takes the functions of the standard library, of each
folder, and of random programs (pysource-codegen), N of each (400), evenly spread. Of a function without free variables
and all that is in it, each decompiler's source is compiled again; it counts where the code is the same by the
comparison of docs/13-decompiler.md. The decompilers run in processes of their own, ten seconds for a function.

``--shares`` decompiles the modules of the standard library instead, or of the folders that are given, and tells how
their code objects come out: all, those with an exception table, generators and coroutines, class bodies.
"""

from __future__ import annotations

import argparse
import collections
import importlib.util
import itertools
import marshal
import os
import signal
import sys
import tempfile
import textwrap
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import evalframe
from evalframe import _core
from evalframe.bytecode import Bytecode

LIMIT = 10  # seconds
OPTIMIZED_AND_NEW_LOCALS = 3
CO_FUTURE_ANNOTATIONS = 0x1000000
GENERATOR_OR_COROUTINE = 0x20 | 0x80 | 0x200
STATUSES = ("exact", "equivalent", "state machine", "refused")


def functions_of(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if not isinstance(constant, types.CodeType):
            continue
        is_function = constant.co_flags & OPTIMIZED_AND_NEW_LOCALS == OPTIMIZED_AND_NEW_LOCALS
        if is_function and not constant.co_freevars and constant.co_name.isidentifier():
            yield constant
        yield from functions_of(constant)


def compiled(text: str | bytes, name: str) -> types.CodeType | None:
    try:
        return compile(text, name, "exec", dont_inherit=True, optimize=0)
    except (SyntaxError, ValueError, RecursionError):
        return None


def of_folder(folder: Path) -> Iterator[types.CodeType]:
    for path in sorted(folder.rglob("*.py")):
        if "site-packages" not in path.relative_to(folder).parts and (code := compiled(path.read_bytes(), str(path))):
            yield from functions_of(code)


def of_random_programs(count: int) -> Iterator[types.CodeType]:
    from pysource_codegen import generate

    # Most of what they define has free variables, or no name of its own.
    for seed in range(5 * count):
        try:
            text = generate(seed, node_limit=200, depth_limit=8)
        except ValueError:  # 3.11 can't write every formatted string that there can be
            continue
        if code := compiled(text, f"<program {seed}>"):
            yield from functions_of(code)


def spread(codes: Iterable[types.CodeType], count: int) -> list[types.CodeType]:
    found = list(codes)
    return found if len(found) <= count else [found[i * len(found) // count] for i in range(count)]


def ours(code: types.CodeType) -> str:
    return evalframe.decompile(code)


def depyf(code: types.CodeType) -> str:
    from depyf import decompile

    return str(decompile(code))


def pycdc(code: types.CodeType) -> str:
    """Reads files; one that defines the function alone."""
    import pycdecompile

    module = compile(f"def {code.co_name}(): pass", "<module>", "exec")
    constants = tuple(code if isinstance(each, types.CodeType) else each for each in module.co_consts)
    module = module.replace(co_consts=constants)
    with tempfile.NamedTemporaryFile(suffix=".pyc") as file:
        file.write(importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(module))
        file.flush()
        return str(pycdecompile.decompile(file.name))


DECOMPILERS: dict[str, tuple[str, Callable[[types.CodeType], str]]] = {
    "evalframe": ("evalframe", ours),
    "depyf": ("depyf", depyf),
    "pycdc": ("pycdecompile", pycdc),
}


def named(code: types.CodeType, name: str) -> types.CodeType | None:
    found = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return next((each for each in found if each.co_name == name), None)


def same(code: types.CodeType, again: types.CodeType | None) -> bool:
    """The function and all that is in it, in order."""
    if again is None or _core.decompiler.compare(code, again)[0] == "refused":
        return False
    inner, others = ([each for each in one.co_consts if isinstance(each, types.CodeType)] for one in (code, again))
    return len(inner) == len(others) and all(map(same, inner, others))


def around(code: types.CodeType) -> str:
    """What is compiled otherwise for what stands in the module: annotations, and calls of what it imports."""
    head = "from __future__ import annotations\n" if code.co_flags & CO_FUTURE_ANNOTATIONS else ""
    for each in (code, *functions_of(code)):
        one = Bytecode.from_code(each).instructions
        pairs = [(a.argval, a.opname, b.opname) for a, b in itertools.pairwise(one)]
        imported = {name for name, *names in pairs if names == ["LOAD_GLOBAL", "LOAD_ATTR"]}
        head += "".join(f"import {name}\n" for name in sorted(imported) if name.isidentifier())
    return head


def comes_back(decompile: Callable[[types.CodeType], str], code: types.CodeType) -> bool:
    again = compiled(around(code) + textwrap.dedent(decompile(code)), "<again>")
    return again is not None and same(code, named(again, code.co_name))


def in_a_process(decompile: Callable[[types.CodeType], str], code: types.CodeType) -> bool:
    """False, too, where it crashes or takes too long."""
    child = os.fork()
    if child == 0:
        result = 1
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
            signal.alarm(LIMIT)
            result = 0 if comes_back(decompile, code) else 1
        except BaseException:
            pass
        os._exit(result)
    return os.waitpid(child, 0)[1] == 0


def is_class_body(code: types.CodeType) -> bool:
    is_function = code.co_flags & OPTIMIZED_AND_NEW_LOCALS
    return not is_function and code.co_names[:1] == ("__name__",) and "__qualname__" in code.co_names


KINDS: dict[str, Callable[[types.CodeType], bool]] = {
    "code objects": lambda code: True,
    "exception table": lambda code: bool(code.co_exceptiontable),
    "generators": lambda code: bool(code.co_flags & GENERATOR_OR_COROUTINE),
    "class bodies": is_class_body,
}


def print_shares(name: str, folder: Path) -> None:
    """What becomes of the code objects of a folder's modules, by kind."""
    found: dict[str, collections.Counter[str]] = {kind: collections.Counter() for kind in KINDS}
    for path in sorted(folder.rglob("*.py")):
        if "site-packages" in path.relative_to(folder).parts or not (code := compiled(path.read_bytes(), str(path))):
            continue
        for row in evalframe.decompile_report(code).rows:
            for kind in (name for name, is_one in KINDS.items() if is_one(row.code)):
                found[kind][row.status] += 1
    print(f"CPython {sys.version.split()[0]}, {name}; percent of code objects")
    print(f"{'':20}{'':>10}" + "".join(f"{status:>15}" for status in STATUSES))
    for kind, counts in found.items():
        parts = [100 * counts[status] / max(counts.total(), 1) for status in STATUSES]
        print(f"{kind:20}{counts.total():10}" + "".join(f"{part:15.2f}" for part in parts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", metavar="NAME=FOLDER")
    parser.add_argument("--each", type=int, default=400, metavar="N")
    parser.add_argument("--shares", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    library = {"standard library": Path(os.__file__).parent}
    folders = {name: Path(folder) for name, _, folder in (each.partition("=") for each in options.folders)}
    if options.shares:
        for name, folder in (folders or library).items():
            print_shares(name, folder)
        return
    sources = {name: spread(of_folder(folder), options.each) for name, folder in (library | folders).items()}
    if importlib.util.find_spec("pysource_codegen"):
        sources["pysource-codegen"] = spread(of_random_programs(options.each), options.each)
    else:
        print("pysource-codegen is not installed: no random programs")
    there = {name: run for name, (package, run) in DECOMPILERS.items() if importlib.util.find_spec(package)}
    for name in DECOMPILERS.keys() - there.keys():
        print(f"{name} is not installed: not run")
    print(f"CPython {sys.version.split()[0]}; percent of functions whose code comes back the same")
    print(f"{'':20}{'functions':>10}" + "".join(f"{name:>12}" for name in there))
    for name, codes in sources.items():
        right = [sum(in_a_process(run, code) for code in codes) for run in there.values()]
        shares = [100 * count / max(len(codes), 1) for count in right]
        print(f"{name:20}{len(codes):10}" + "".join(f"{share:12.1f}" for share in shares), flush=True)


if __name__ == "__main__":
    main()
