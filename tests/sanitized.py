"""Builds the `sanitize` preset (AddressSanitizer, UndefinedBehaviorSanitizer) and runs tests in it.

``python tests/sanitized.py [test files and pytest options]``; without any, the tests of the C++ core's own rooms.
``python tests/sanitized.py --all [test files]``: every test file, or these, in a process of its own, ``JOBS`` (2) at a time;
what each printed, and the sanitizers' reports, is in the build folder's ``logs/``.
``python tests/sanitized.py --suite [modules]``: the modules of CPython's own tests, every frame in evalframe's evaluator; without any,
those of ``cpython_suite/language.txt``. What counts are reports and crashes, not failures: instrumented code is slow and large.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cpython_suite import run as suite

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / f"sanitize{sys.version_info[0]}{sys.version_info[1]}"
LOGS = BUILD / "logs"
JOBS = int(os.environ.get("JOBS", "2"))
MODULE_TIMEOUT = 1200  # seconds
TESTS = ["cpp", "bytecode", "evaluator", "evaluator_programs", "hook", "jit", "native"]
# Whole files that have nothing to say here, and why.
LEFT_OUT = {
    "test_house.py": "reads the sources, runs nothing of the core",
}
# Tests that can't pass here, and why.
EXCLUDED = {
    "test_evaluator_stress.py::test_comes_to_the_same[switches": "greenlets copy C stacks, between whose variables AddressSanitizer has its marks",
    "test_evaluator_stress.py::test_comes_to_the_same[lifetimes-memory": "AddressSanitizer keeps freed memory",
    "test_cli.py::test_freed_memory_is_kept_unless": "AddressSanitizer keeps freed memory",
    "test_evaluator_tools.py::test_faulthandler_tells_where_a_process_dies": "kills itself by signals that AddressSanitizer reports",
    "test_cli.py::test_a_run_is_told_in_one_line_and_on_a_page": "wants a function that isn't slower captured",
    "test_cpython_suite.py::test_a_module_runs_on_both_sides_and_its_frames_are_counted": "the runner's processes load an instrumented core without its runtime library",
    "test_evaluator_depth.py::test_recursion_ends_with_recursion_error[1000000]": "fills the stack, many times larger here: minutes",
    "test_evaluator_stress.py::test_recursion_in_small_stacks": "instrumented frames are too large for small stacks",
    "test_jit.py::test_enabled_captures_a_module_whose_code_lies_where": "AddressSanitizer gives no memory twice",
    "test_jit.py::test_recordings_wait_once": "measures time, of which instrumented code takes another share",
    "test_jit.py::test_functions_are_left_to_cpython_that_break_again_and_again": "measures time, too",
    "test_guard_failures.py::test_other_variables_being_set": "measures time, too",
    "test_patience.py::test_a_short_program_compiles_nothing": "measures time, too",
    "test_hook.py::test_too_deep_a_recursion_is_an_exception_on_every_stack": "instrumented frames are too large for its threads' stacks",
}


def runtime_library(name: str) -> str:
    """Where the compiler keeps a sanitizer's library: it has to be loaded before everything else."""
    return subprocess.check_output(["g++", f"-print-file-name={name}"], text=True).strip()


def build() -> Path:
    """The folder to import the sanitized package from."""
    configure = ["cmake", "--preset", "sanitize", "-S", str(ROOT), "-B", str(BUILD), f"-DPython_EXECUTABLE={sys.executable}"]
    subprocess.run(configure, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", str(BUILD), "-j", str(JOBS)], check=True)
    package = BUILD / "py" / "evalframe"
    package.mkdir(parents=True, exist_ok=True)
    for link in package.iterdir():
        link.unlink()
    for file in [*(ROOT / "python" / "evalframe").iterdir(), *BUILD.glob("_core*.so")]:
        if file.name != "__pycache__":
            (package / file.name).symlink_to(file)
    return package.parent


def environment(package: Path, report: Path) -> dict[str, str]:
    libraries = ":".join(runtime_library(name) for name in ("libasan.so", "libubsan.so", "libstdc++.so"))
    return {
        **os.environ,
        "PYTHONPATH": str(package),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LD_PRELOAD": libraries,
        # CPython frees little at exit. Its own allocator would hide what is used after it was freed.
        # pytest keeps what a test writes to stderr, and loses it when the process ends: reports go to files.
        "ASAN_OPTIONS": f"detect_leaks=0:allocator_may_return_null=1:log_path={report}",
        "UBSAN_OPTIONS": f"print_stacktrace=1:halt_on_error=1:log_path={report}",
        "PYTHONMALLOC": "malloc",
    }


def reports_in(report: Path) -> list[str]:
    """What the sanitizers have found. Where they only warn, of memory that a test asks for in vain, there is no summary."""
    told = [file.read_text(errors="replace") for file in sorted(LOGS.glob(f"{report.name}.*"))]
    return [text for text in told if "SUMMARY:" in text]


def run(package: Path, given: list[str], name: str) -> tuple[int, str]:
    """Not 0: a test failed, or the sanitizers have found something; and what they told. All but the tests `--all` prints."""
    report = LOGS / f"{name}.report"
    for old in LOGS.glob(f"{report.name}.*"):
        old.unlink()
    kept = None if name == "tests" else (LOGS / f"{name}.txt").open("w")
    command = [sys.executable, "-m", "pytest", "--capture=sys", *given, *(f"--deselect=tests/{test}" for test in EXCLUDED)]
    done = subprocess.run(command, env=environment(package, report), cwd=ROOT, stdout=kept, stderr=kept)
    if kept:
        kept.close()
    found = "\n".join(reports_in(report))
    failed = done.returncode not in (0, pytest.ExitCode.NO_TESTS_COLLECTED)  # all of a file's tests may be slow ones
    return done.returncode if failed else int(bool(found)), found


def run_all(package: Path, given: list[str]) -> int:
    """Goes on behind a file that fails, as the others' findings are wanted too."""
    files = [Path(file) for file in given] or sorted((ROOT / "tests").glob("test_*.py"))

    def one(file: Path) -> bool:
        begun = time.perf_counter()
        status, found = run(package, [str(file)], file.stem)
        said = (LOGS / f"{file.stem}.txt").read_text(errors="replace").strip().splitlines()[-1:]
        outcome = "FAILED" if status else "clean"
        reported = f"{found.count('SUMMARY:')} reports, " if found else ""
        print(f"{file.name}: {outcome}, {reported}{time.perf_counter() - begun:.0f} s: {''.join(said)}", flush=True)
        return status != 0

    with ThreadPoolExecutor(JOBS) as pool:
        failed = sum(pool.map(one, [file for file in files if file.name not in LEFT_OUT]))
    print(f"{failed} files failed; {LOGS} has what they printed")
    return failed


def run_module(package: Path, module: str) -> bool:
    """Whether the sanitizers found nothing in a module of CPython's tests, and nothing crashed. Tells, too."""
    report, core = LOGS / f"{module}.report", next((package / "evalframe").glob("_core_tests*.so"))
    for old in LOGS.glob(f"{report.name}.*"):
        old.unlink()
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, (LOGS / f"{module}.txt").open("w") as kept:
        own = {"EVALFRAME_SUITE_CORE": str(core.resolve()), "PYTHONPATH": str(suite.HERE / "site"), "PYTHONHASHSEED": "0", "TMPDIR": folder}
        command = [suite.interpreter(), "-u", "-m", "test", "--timeout", str(MODULE_TIMEOUT), "--tempdir", folder, module]
        done = subprocess.run(command, env={**environment(package, report), **own}, cwd=folder, stdout=kept, stderr=kept)
    reports = reports_in(report)
    outcome = f"{len(reports)} reports" if reports else f"killed by {-done.returncode}" if done.returncode < 0 else "clean"
    said = (LOGS / f"{module}.txt").read_text(errors="replace").strip().splitlines()[-1:]
    print(f"{module}: {outcome}, {time.perf_counter() - begun:.0f} s: {''.join(said)}", flush=True)
    return outcome == "clean"


def run_suite(package: Path, given: list[str]) -> int:
    modules = given or suite.words(suite.HERE / "language.txt")
    with ThreadPoolExecutor(JOBS) as pool:
        failed = sum(not clean for clean in pool.map(lambda module: run_module(package, module), modules))
    print(f"{failed} of {len(modules)} modules have reports or crashed; {LOGS} has what they printed")
    return failed


def main() -> int:
    given = sys.argv[1:] or [str(ROOT / "tests" / f"test_{name}.py") for name in TESTS]
    package = build()
    LOGS.mkdir(exist_ok=True)
    # Instrumented frames take several times as much of the C stack.
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    resource.setrlimit(resource.RLIMIT_STACK, (64 << 20, hard))
    if given[0] == "--all":
        return run_all(package, given[1:])
    if given[0] == "--suite":
        return run_suite(package, given[1:])
    status, found = run(package, given, "tests")
    print(found)
    return status


if __name__ == "__main__":
    sys.exit(main())
