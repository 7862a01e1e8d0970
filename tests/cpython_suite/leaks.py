"""References that CPython's own tests lose when every frame runs in evalframe's evaluator: regrtest's ``-R 3:3``.

``python tests/cpython_suite/leaks.py [MODULE ...]``, with a Python that has evalframe; without modules, those of language.txt.
A module that leaks is run plainly, too, as some do. With a debug build of Python (``--python``, ``--core``: the ``_core_tests``
built for it) all references are counted. Others have no such count: there it's the references of all objects that the garbage
collector knows, and of the constants. Exit status: 0 no module leaks that doesn't plainly, 1 one does.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import run as suite

REPETITIONS = "3:3"
NOT_COUNTED = "not counted"
# Run by the Python under test. 3.13 asks for a debug build by name, too.
PROGRAM = """
import gc, sys
if not hasattr(sys, "gettotalrefcount"):
    constants = [None, True, False, Ellipsis, NotImplemented, (), "", b"", *range(-5, 257)]
    def gettotalrefcount():
        return sum(map(sys.getrefcount, gc.get_objects())) + sum(map(sys.getrefcount, constants))
    sys.gettotalrefcount = gettotalrefcount
    import test.libregrtest.cmdline
    test.libregrtest.cmdline.Py_DEBUG = True
from test.libregrtest.main import main
main()
"""


class Leaks(NamedTuple):
    found: list[str]  # the lines that regrtest prints of them
    result: str


class Subject(NamedTuple):
    python: str
    core: str
    timeout: int
    left_out: list[str]  # cases


def leaks(subject: Subject, module: str, evaluated: bool) -> Leaks:
    with tempfile.TemporaryDirectory(prefix="leaks-") as folder:
        environment = suite.environment(folder, "evaluate", None)
        if evaluated:
            environment["EVALFRAME_SUITE_CORE"] = subject.core
        command = [subject.python, "-c", PROGRAM, "-R", REPETITIONS, "--tempdir", folder, module]
        # What may differ may fail, and then nothing is counted.
        command += [word for case in subject.left_out for word in ("--ignore", case)]
        try:
            done = subprocess.run(
                command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                errors="replace", timeout=subject.timeout,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Leaks([], "hung")
    output = done.stdout + done.stderr
    result = f"ended with {done.returncode}"
    # Without repetitions nothing was counted, whatever the status says.
    if not re.search("^beginning [0-9]+ repetitions", output, re.MULTILINE):
        result = "skipped" if f"{module} skipped" in output else NOT_COUNTED
    leaked = f"{module.split('.')[-1]} leaked ["
    return Leaks([line for line in output.splitlines() if leaked in line and "this is fine" not in line], result)


def told(subject: Subject, module: str) -> tuple[str, bool]:
    """A line about the module, and whether it is as good as plainly."""
    ours = leaks(subject, module, True)
    if not ours.found and ours.result == "ended with 0":
        return f"{module}: flat", True
    plain = leaks(subject, module, False)
    kinds = [{line.split("] ")[-1].split(", ")[0] for line in side.found} for side in (plain, ours)]
    good = kinds[1] <= kinds[0] and plain.result == ours.result != NOT_COUNTED
    return f"{module}: {'as plainly' if good else 'DIFFERS'}: {ours.result} {ours.found}; plainly {plain.result} {plain.found}", good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE")
    parser.add_argument("--python", help="the Python to run; otherwise this one")
    parser.add_argument("--core", help="the _core_tests built for it")
    parser.add_argument("--jobs", type=int, default=1, help="how many modules run at the same time")
    parser.add_argument("--timeout", type=int, default=600, help="seconds for a module")
    options = parser.parse_args()
    if bool(options.python) != bool(options.core):
        parser.error("--python and --core belong together: _core_tests is built for one Python")
    expected = [case for case in suite.words(suite.HERE / f"expected_{suite.VERSION}.txt") if "." in case]
    core = os.path.abspath(options.core or suite.core())
    subject = Subject(options.python or suite.interpreter(), core, options.timeout, expected)
    core_set = suite.words(suite.HERE / f"core_set_{suite.VERSION}.txt")
    modules = options.modules or [module for module in suite.words(suite.HERE / "language.txt") if module in core_set]
    failures = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for line, good in pool.map(lambda module: told(subject, module), modules):
            print(line, flush=True)
            failures += not good
    print(f"{len(modules)} modules, {failures} of them worse than plainly")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
