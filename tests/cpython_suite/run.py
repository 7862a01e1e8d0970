"""CPython's own tests, plain against every frame in evalframe's evaluator, compared case by case.

``python tests/cpython_suite/run.py [MODULE ...]``, with a Python that has evalframe; without modules, the core set of its version.
Each module is a process of its own, so that a crash costs one module. Modules that differ run a second time on both sides.
Cases in ``expected_3XX.txt`` may differ. Exit status: 0 nothing else differs, 1 something does.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
VERSION = f"{sys.version_info[0]}{sys.version_info[1]}"
ADDRESS = re.compile(r"0x[0-9a-f]{4,}")


class Run(NamedTuple):
    result: str  # of the module: passed, failed, or how it ended
    cases: dict[str, str]
    output: str


def words(path: Path) -> list[str]:
    """The first word of each line that isn't a comment."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]


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


def environment(folder: str, evaluated: bool) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "EVALFRAME", "LD_"))}
    kept |= {"PYTHONHASHSEED": "0", "TMPDIR": folder, "PYTHONPATH": str(HERE / "site")}
    return {**kept, "EVALFRAME_SUITE_CORE": str(core())} if evaluated else kept


def status(case: ElementTree.Element) -> str:
    kinds = [child.tag for child in case if child.tag in ("error", "failure", "skipped")]
    return kinds[0] if kinds else "passed"


def cases_in(report: Path) -> dict[str, str]:
    if not report.exists() or not report.stat().st_size:
        return {}
    cases = ElementTree.parse(report).iter("testcase")
    return {ADDRESS.sub("0x", case.get("name") or "?"): status(case) for case in cases}


def run(module: str, evaluated: bool, timeout: int) -> Run:
    folder = tempfile.mkdtemp(prefix="suite-")
    report = Path(folder, "report.xml")
    command = [interpreter(), "-u", "-m", "test", "--timeout", str(timeout), "--junit-xml", str(report), "--tempdir", folder, module]
    process = subprocess.Popen(
        command, env=environment(folder, evaluated), cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True,
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
    found = Run(result, cases_in(report), output)
    shutil.rmtree(folder, ignore_errors=True)
    return found


def differences(module: str, timeout: int) -> tuple[dict[str, str], int, Run]:
    """What differs in two tries one after the other, the number of cases, and the last evaluated run."""
    differing: dict[str, str] | None = None
    for _ in range(2):
        plain, ours = run(module, False, timeout), run(module, True, 3 * timeout)
        now = {
            name: f"{plain.cases.get(name, 'absent')} -> {ours.cases.get(name, 'absent')}"
            for name in plain.cases.keys() | ours.cases.keys()
            if plain.cases.get(name) != ours.cases.get(name)
        }
        if plain.result != ours.result:
            now[f"{module}:"] = f"{plain.result} -> {ours.result}"
        differing = now if differing is None else {name: what for name, what in now.items() if name in differing}
        if not differing:
            break
    return differing or {}, len(plain.cases), ours


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE")
    parser.add_argument("--timeout", type=int, default=120, help="seconds for a module run plainly")
    parser.add_argument("--output", type=Path, help="where to write the output of modules that differ")
    options = parser.parse_args()
    # Started in the background these are ignored, which the tests of signals don't expect.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    expected = words(HERE / f"expected_{VERSION}.txt")
    total = unexpected = 0
    for module in options.modules or words(HERE / f"core_set_{VERSION}.txt"):
        differing, count, ours = differences(module, options.timeout)
        total += count
        told = {name: what for name, what in differing.items() if not any(fnmatch.fnmatchcase(name, e) for e in expected)}
        # The module's own result follows from its cases.
        if set(told) == {f"{module}:"} and len(differing) > 1:
            told = {}
        unexpected += len(told)
        print(f"{module}: {count} cases, {len(told)} differ, {len(differing) - len(told)} differ as expected", flush=True)
        for name, what in sorted(told.items()):
            print(f"  {name}: {what}", flush=True)
        if told and options.output:
            with options.output.open("a") as file:
                file.write(f"==== {module}\n{ours.output}\n")
    print(f"{total} cases, {unexpected} differences that aren't expected")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
