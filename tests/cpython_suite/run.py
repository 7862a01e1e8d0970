"""CPython's own tests, plain against every frame in evalframe's evaluator, compared case by case.

``python tests/cpython_suite/run.py [MODULE ...]``, with a Python that has evalframe; without modules, the core set of its version.
Each module is a process of its own, so that a crash costs one module. Modules that differ run a second time on both sides, alone.
Cases in ``expected_3XX.txt`` may differ. In the end it says how many frames our evaluator ran, and how many CPython's did, and why.
Exit status: 0 nothing else differs and at least 99.9 % of the frames ran here, 1 otherwise.

``--mode capture`` captures all Python functions instead, with the reference backend, and whether it pays or not: each is recorded at
its first call, and served where its guards hold. It needs NumPy, which both sides then have loaded.
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
VERSION = f"{sys.version_info[0]}{sys.version_info[1]}"
ADDRESS = re.compile(r"0x[0-9a-f]{4,}")
LEAST_SHARE = 0.999
TRACED = "traced"  # the reason that is none of ours: a tracer, profiler or monitoring tool has the frame


class Run(NamedTuple):
    result: str  # of the module: passed, failed, or how it ended
    cases: dict[str, str]
    output: str
    counts: collections.Counter[str]  # frames evaluated, and handed over by reason, of all its processes
    seconds: float


class Comparison(NamedTuple):
    module: str
    differing: dict[str, str]  # by case; "module:" is the module's own result
    plain: Run
    ours: Run


def lines(path: Path) -> list[list[str]]:
    """The words of each line that isn't a comment."""
    text = path.read_text().splitlines() if path.exists() else []
    return [line.split() for line in text if line.strip() and not line.startswith("#")]


def words(path: Path) -> list[str]:
    return [first for first, *_ in lines(path)]


def core() -> Path:
    import evalframe

    found = list(Path(evalframe.__file__).parent.glob("_core_tests*.so"))
    if not found:
        sys.exit("this evalframe was built without its C++ tests (EVALFRAME_TESTS), which the suite needs")
    return found[0].resolve()


def interpreter() -> str:
    """The Python below the virtual environment: its tests ask where it is."""
    below = Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
    return str(below if below.exists() else sys.executable)


def environment(folder: str, mode: str, counts: str | None) -> dict[str, str]:
    """counts: of a run of ours, the file that each of its processes adds its counts to."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "EVALFRAME", "LD_"))}
    kept |= {"PYTHONHASHSEED": "0", "TMPDIR": folder, "PYTHONPATH": str(HERE / "site")}
    if mode == "capture":  # which needs NumPy: then it is there on both sides
        kept["EVALFRAME_SUITE_LIBRARIES"] = sysconfig.get_path("platlib")
    return {**kept, "EVALFRAME_SUITE_CORE": str(core()), "EVALFRAME_SUITE_COUNTS": counts, "EVALFRAME_SUITE_MODE": mode} if counts else kept


def status(case: ElementTree.Element) -> str:
    kinds = [child.tag for child in case if child.tag in ("error", "failure", "skipped")]
    return kinds[0] if kinds else "passed"


def cases_in(report: Path) -> dict[str, str]:
    if not report.exists() or not report.stat().st_size:
        return {}
    cases = ElementTree.parse(report).iter("testcase")
    return {ADDRESS.sub("0x", case.get("name") or "?"): status(case) for case in cases}


def counts_in(report: Path) -> collections.Counter[str]:
    total: collections.Counter[str] = collections.Counter()
    for line in report.read_text().splitlines() if report.exists() else []:
        total.update(json.loads(line))
    return total


def run(module: str, ours: bool, options: argparse.Namespace) -> Run:
    timeout = (3 if ours else 1) * options.timeout
    folder = tempfile.mkdtemp(prefix="suite-")
    counts = tempfile.mkdtemp(prefix="suite-counts-")
    report = Path(folder, "report.xml")
    count_file = Path(counts, "counts.txt")
    command = [interpreter(), "-u", "-m", "test", "--timeout", str(timeout), "--junit-xml", str(report), "--tempdir", folder, module]
    command += [word for pattern in options.leave_out for word in ("--ignore", pattern)]
    began = time.monotonic()
    process = subprocess.Popen(
        command, env=environment(folder, options.mode, str(count_file) if ours else None), cwd=folder, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        output = process.communicate(timeout=timeout + 20)[0].decode(errors="replace")
        code = process.returncode
        result = {0: "passed", 2: "failed", 3: "passed", 4: "passed"}.get(code, f"ended with {code}")
        result = f"killed by {signal.Signals(-code).name}" if code < 0 else result
    except subprocess.TimeoutExpired:
        result, output = "hung", ""
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    found = Run(result, cases_in(report), output, counts_in(count_file), time.monotonic() - began)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(counts, ignore_errors=True)
    return found


def compare(module: str, options: argparse.Namespace) -> Comparison:
    plain, ours = run(module, False, options), run(module, True, options)
    differing = {
        name: f"{plain.cases.get(name, 'absent')} -> {ours.cases.get(name, 'absent')}"
        for name in plain.cases.keys() | ours.cases.keys()
        if plain.cases.get(name) != ours.cases.get(name)
    }
    if plain.result != ours.result:
        differing[f"{module}:"] = f"{plain.result} -> {ours.result}"
    return Comparison(module, differing, plain, ours)


def compare_again(first: Comparison, options: argparse.Namespace) -> Comparison:
    """With what differs in both tries."""
    second = compare(first.module, options)
    both = {name: what for name, what in second.differing.items() if name in first.differing}
    return second._replace(differing=both)


def compare_all(modules: list[str], options: argparse.Namespace) -> Iterable[Comparison]:
    """Those that differ come last, as each is run again then, with nothing beside it."""
    differing = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for done in as_completed([pool.submit(compare, module, options) for module in modules]):
            found = done.result()
            if found.differing:
                differing.append(found)
            else:
                yield found
    for found in differing:
        yield compare_again(found, options)


def unexpected(found: Comparison, expected: list[str]) -> dict[str, str]:
    told = {name: what for name, what in found.differing.items() if not any(fnmatch.fnmatchcase(name, e) for e in expected)}
    # The module's own result follows from its cases.
    return {} if set(told) == {f"{found.module}:"} and len(found.differing) > 1 else told


def tell(found: Comparison, told: dict[str, str], output: Path | None) -> None:
    as_expected = len(found.differing) - len(told)
    print(f"{found.module}: {len(found.plain.cases)} cases, {len(told)} differ, {as_expected} differ as expected", flush=True)
    for name, what in sorted(told.items()):
        print(f"  {name}: {what}", flush=True)
    if told and output:
        with output.open("a") as file:
            file.write(f"==== {found.module}\n{found.ours.output}\n")


def enough_evaluated(counts: collections.Counter[str]) -> bool:
    """Prints the counts; frames that tools have are none that our evaluator could run."""
    evaluated = counts.pop("evaluated", 0)
    traced = counts.pop(TRACED, 0)
    share = evaluated / max(evaluated + counts.total(), 1)
    print(f"{evaluated} frames evaluated, {counts.total()} handed over: {100 * share:.4f} % evaluated; {traced} were left to tools")
    for reason, count in counts.most_common():
        print(f"  {reason}: {count}")
    return share >= LEAST_SHARE


def enough_captured(counts: collections.Counter[str]) -> bool:
    recordings, served = counts["recordings"], counts["served"]
    print(f"{recordings} recordings, which were gone into {served} times")
    return served > 0


def modules_named(options: argparse.Namespace) -> list[str]:
    modules = words(HERE / f"core_set_{VERSION}.txt")
    if options.language:
        language = words(HERE / "language.txt")
        modules = [module for module in modules if module in language]
    return options.modules or modules


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE")
    parser.add_argument("--language", action="store_true", help="the modules of language.txt instead of the core set")
    parser.add_argument("--mode", choices=("evaluate", "capture"), default="evaluate", help="evaluate all frames, or capture them all")
    parser.add_argument("--jobs", type=int, default=1, help="how many modules run at the same time")
    parser.add_argument("--timeout", type=int, default=120, help="seconds for a module run plainly")
    parser.add_argument("--leave-out", action="append", default=[], metavar="CASE", help="cases (a pattern) that can't run here")
    parser.add_argument("--output", type=Path, help="where to write the output of modules that differ")
    options = parser.parse_args()
    # Started in the background these are ignored, which the tests of signals don't expect.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    captures = options.mode == "capture"
    expected = words(HERE / f"expected_{VERSION}.txt") + (words(HERE / "expected_capture.txt") if captures else [])
    if captures:
        options.leave_out += [name for name, *more in lines(HERE / "expected_capture.txt") if more == ["waits"]]
    began = time.monotonic()
    cases = differences = 0
    seconds = [0.0, 0.0]
    counts: collections.Counter[str] = collections.Counter()
    for found in compare_all(modules_named(options), options):
        told = unexpected(found, expected)
        tell(found, told, options.output)
        cases += len(found.plain.cases)
        differences += len(told)
        counts += found.ours.counts
        seconds = [seconds[0] + found.plain.seconds, seconds[1] + found.ours.seconds]
    print(f"{cases} cases, {differences} differences that aren't expected")
    print(f"{time.monotonic() - began:.0f} s; modules ran {seconds[0]:.0f} s plainly, {seconds[1]:.0f} s {options.mode}d")
    enough = enough_captured(counts) if captures else enough_evaluated(counts)
    return 0 if enough and not differences else 1


if __name__ == "__main__":
    sys.exit(main())
