"""Builds the `sanitize` preset (AddressSanitizer, UndefinedBehaviorSanitizer) and runs tests in it.

``python tests/sanitized.py [test files and pytest options]``; without any, the tests of the C++ core's own rooms.
``python tests/sanitized.py --all``: every test file in a process of its own, what it printed in the build folder's ``logs/``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / f"sanitize{sys.version_info[0]}{sys.version_info[1]}"
REPORT = BUILD / "report"
TESTS = ["cpp", "bytecode", "evaluator", "evaluator_programs", "hook", "jit", "native"]
# Frames of instrumented code take several times as much of the C stack as these allow for.
TOO_DEEP = [
    "tests/test_evaluator.py::test_deep_recursion_far_beyond_the_default_limit",
    "tests/test_evaluator.py::test_calls_between_the_evaluators_take_no_recursion_budget",
    "tests/test_hook.py::test_too_deep_a_recursion_is_an_exception_on_every_stack",
]


def runtime_library(name: str) -> str:
    """Where the compiler keeps a sanitizer's library: it has to be loaded before everything else."""
    return subprocess.check_output(["g++", f"-print-file-name={name}"], text=True).strip()


def build() -> Path:
    """The folder to import the sanitized package from."""
    configure = ["cmake", "--preset", "sanitize", "-S", str(ROOT), "-B", str(BUILD), f"-DPython_EXECUTABLE={sys.executable}"]
    subprocess.run(configure, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", str(BUILD), "-j", os.environ.get("JOBS", "2")], check=True)
    package = BUILD / "py" / "evalframe"
    package.mkdir(parents=True, exist_ok=True)
    for link in package.iterdir():
        link.unlink()
    for file in [*(ROOT / "python" / "evalframe").iterdir(), *BUILD.glob("_core*.so")]:
        if file.name != "__pycache__":
            (package / file.name).symlink_to(file)
    return package.parent


def environment(package: Path) -> dict[str, str]:
    libraries = ":".join(runtime_library(name) for name in ("libasan.so", "libubsan.so", "libstdc++.so"))
    return {
        **os.environ,
        "PYTHONPATH": str(package),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LD_PRELOAD": libraries,
        # CPython frees little at exit. Its own allocator would hide what is used after it was freed.
        # pytest keeps what a test writes to stderr, and loses it when the process ends: reports go to files.
        "ASAN_OPTIONS": f"detect_leaks=0:allocator_may_return_null=1:log_path={REPORT}",
        "UBSAN_OPTIONS": f"print_stacktrace=1:halt_on_error=1:log_path={REPORT}",
        "PYTHONMALLOC": "malloc",
    }


def reports() -> list[Path]:
    """What the sanitizers have found, one file for each process."""
    return sorted(BUILD.glob(f"{REPORT.name}.*"))


def run(package: Path, given: list[str], log: Path | None = None) -> int:
    """Not 0: a test failed, or the sanitizers have found something. Without a log all is printed."""
    for old in reports():
        old.unlink()
    command = [sys.executable, "-m", "pytest", *given, *(f"--deselect={test}" for test in TOO_DEEP)]
    done = subprocess.run(command, env=environment(package), cwd=ROOT, capture_output=log is not None, text=True)
    found = "\n".join(report.read_text(errors="replace") for report in reports())
    if log:
        log.write_text(f"{done.stdout}{done.stderr}{found}")
    elif found:
        print(found)
    return done.returncode or bool(found)


def run_all(package: Path, options: list[str]) -> int:
    """Goes on behind a file that fails, as the others' findings are wanted too."""
    logs = BUILD / "logs"
    logs.mkdir(exist_ok=True)
    failed = 0
    for file in sorted((ROOT / "tests").glob("test_*.py")):
        begun = time.perf_counter()
        status = run(package, [str(file), *options], logs / f"{file.stem}.txt")
        failed += status != 0
        print(f"{file.name}: {'FAILED' if status else 'clean'}, {time.perf_counter() - begun:.0f} s", flush=True)
    print(f"{failed} files failed; {logs} has what they printed")
    return failed


def main() -> int:
    given = sys.argv[1:] or [str(ROOT / "tests" / f"test_{name}.py") for name in TESTS]
    package = build()
    return run_all(package, given[1:]) if given[0] == "--all" else run(package, given)


if __name__ == "__main__":
    sys.exit(main())
