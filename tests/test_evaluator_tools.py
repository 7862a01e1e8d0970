"""Tools that look at a whole process from outside, or end it: the same with every frame evaluated as plainly."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, threading, time

def leaf(n, wait):
    values = [n]
    wait()
    return values

def middle(n, wait):
    return [leaf(i, wait)
            for i in range(n, n + 1)]

def generator(wait):
    yield from middle(1, wait)

class Method:
    def __enter__(self): list(generator(self.wait))
    def __exit__(self, *a): pass

def run(wait):
    m = Method()
    m.wait = wait
    with m: pass
"""


def outcome(folder: Path, text: str, *options: str, mode: str = "", stdin: str = "") -> tuple[int, str, str]:
    """Exit status, output and errors of a program, whose first line is left to us; mode: as EVALFRAME_MODE."""
    (folder / "program.py").write_text(("import evalframe; del evalframe" if mode else "pass") + text)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "EVALFRAME_MODE": mode}
    command = [sys.executable, *options, "program.py"]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, cwd=folder, env=environment, timeout=120)
    return done.returncode, plainer(done.stdout), plainer(done.stderr)


def plainer(text: str) -> str:
    """Without what differs from run to run, and the modules that evalframe has loaded."""
    lines = [line for line in text.splitlines() if not line.startswith(("Extension modules:", "evalframe: "))]
    return re.sub(r"0x[0-9a-f]+|\d+\.\d\d\d\b", "#", "\n".join(lines)).strip()


def assert_same(folder: Path, text: str, *options: str, stdin: str = "") -> tuple[int, str, str]:
    plain = outcome(folder, text, *options, stdin=stdin)
    assert outcome(folder, text, *options, mode="evaluate", stdin=stdin) == plain
    return plain


def test_faulthandler_shows_all_threads(tmp_path: Path) -> None:
    program = PROGRAM + (
        "import faulthandler\nentered, done = threading.Event(), threading.Event()\n"
        "def wait():\n    entered.set()\n    while not done.is_set(): pass\n"
        "t = threading.Thread(target=run, args=(wait,))\nt.start()\nentered.wait()\n"
        "run(lambda: faulthandler.dump_traceback(all_threads=False))\n"
        "done.set()\nt.join()\n"
    )
    _, _, shown = assert_same(tmp_path, program)
    assert [line.split(" in ")[1] for line in shown.splitlines() if " in " in line][1:4] == ["leaf", "<listcomp>", "middle"] or "leaf" in shown


def test_faulthandler_shows_another_thread(tmp_path: Path) -> None:
    program = PROGRAM + (
        "import faulthandler\nentered, done = threading.Event(), threading.Event()\n"
        "def wait():\n    entered.set()\n    while not done.is_set(): pass\n"
        "def dump(): run(entered.wait); faulthandler.dump_traceback(); done.set()\n"
        "t = threading.Thread(target=dump)\nt.start()\nrun(wait)\nt.join()\n"
    )
    _, _, shown = outcome(tmp_path, program, mode="evaluate")
    other = shown.split("Thread #")[-1] if "Thread #" in shown else shown
    names = [line.split(" in ")[1] for line in other.splitlines() if " in " in line]
    assert {"leaf", "middle", "generator", "__enter__", "run", "<module>"} <= set(names), shown


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGSEGV)", "os.abort()"])
def test_faulthandler_tells_where_a_process_dies(tmp_path: Path, end: str) -> None:
    status, _, shown = assert_same(tmp_path, PROGRAM + f"import os, signal\nrun(lambda: {end})\n", "-X", "faulthandler")
    assert status < 0 and "in leaf" in shown and "in __enter__" in shown


def test_faulthandler_shows_later_where_a_process_is(tmp_path: Path) -> None:
    program = PROGRAM + (
        "import faulthandler\nfaulthandler.dump_traceback_later(0.2, exit=True)\n"
        "def wait():\n    while True: len('')\nrun(wait)\n"
    )
    status, _, shown = assert_same(tmp_path, program)
    assert status == 1 and "in wait" in shown and "in leaf" in shown, shown


@pytest.mark.parametrize(
    "program",
    [
        "def f():\n    return 1 / 0\nf()",
        "def f():\n    try: {}[1]\n    except KeyError: raise ValueError(2)\nf()",
        "def f():\n    raise ExceptionGroup('g', [ValueError(1), KeyError(2)])\nf()",
        "def f(n): return f(n + 1)\nf(0)",
        "import sys\ndef f(): sys.exit('text')\nf()",
        "def f(): raise KeyboardInterrupt\nf()",
        "import warnings\ndef f(): warnings.warn('here', stacklevel=2)\nf()\nf()",
        "import threading\ndef f(): 1 / 0\nt = threading.Thread(target=f)\nt.start(); t.join()",
        "class A:\n    def __del__(self): 1 / 0\na = A()\ndel a",
        "import atexit\n@atexit.register\ndef f(): 1 / 0",
        "async def f(): pass\nf()",
        "x = [1,\n     {}['x']]",
        "impor sys",
        "valeu = 1\ndef f(): return value\nf()",
        "import collections\ncollections.namedtupel",
        "from collections import orderedDict",
    ],
)
@pytest.mark.parametrize("options", [(), ("-O", "-W", "error", "-X", "dev")])
def test_what_is_printed_of_errors(tmp_path: Path, program: str, options: tuple[str, ...]) -> None:
    assert_same(tmp_path, "\n" + program, *options)


@pytest.mark.parametrize("module", ["cProfile", "profile", "trace --count --summary --missing --ignore-dir=/", "pdb"])
def test_tools_run_the_program(tmp_path: Path, module: str) -> None:
    """Their modules begin before evalframe is imported, so the program's frames are the tool's."""
    options = ["-m", *module.split()]
    stdin = "b leaf\nc\nw\np n\nn\nn\nr\nc\nc\nq\n"
    program = PROGRAM + "run(lambda: print(sum(range(5))))\n"
    plain = outcome(tmp_path, program, *options, stdin=stdin)
    ours = outcome(tmp_path, program, *options, mode="evaluate", stdin=stdin)

    def calls(shown: str) -> list[str]:
        """The program's lines, without times; the file's name is cut in the middle by trace."""
        return [re.sub(r"#", "", line).strip() for line in shown.splitlines() if "program.py" in line and "program.py(1)" not in line]

    if module == "pdb":
        assert calls(ours[1]) == calls(plain[1])
    elif module != "profile" or sys.version_info < (3, 12):
        assert sorted(calls(ours[1])) == sorted(calls(plain[1]))
    assert (ours[0], ours[2]) == (plain[0], plain[2])


def test_pdb_of_an_evaluated_program(tmp_path: Path) -> None:
    program = PROGRAM + "run(lambda: None)\nbreakpoint()\nrun(lambda: None)\nprint('end')\n"
    stdin = "s\nb leaf\nc\nw\np n, values\nn\np values\nup\np n\nr\nn\nc\n"
    status, shown, _ = assert_same(tmp_path, program, stdin=stdin)
    assert status == 0 and "leaf" in shown and shown.endswith("end")


def test_tracemalloc_has_the_lines(tmp_path: Path) -> None:
    program = (
        "\nimport tracemalloc\ndef f(n):\n    x = bytearray(n)\n    y = [bytearray(n)\n         for _ in range(3)]\n    return x, y\n"
        "def g():\n    yield f(123457)\ntracemalloc.start(5)\nkept = list(g())\n"
        "for s in tracemalloc.take_snapshot().statistics('traceback'):\n"
        "    if s.size > 100000: print(s.size // 1000, s.count, *[(f.filename[-10:], f.lineno) for f in s.traceback])\n"
    )
    _, shown, _ = assert_same(tmp_path, program)
    assert len(shown.splitlines()) == 2


def test_signals_find_the_line(tmp_path: Path) -> None:
    program = PROGRAM + """
import signal
lines = set()
def handler(number, frame):
    while frame.f_code.co_name != "spin": frame = frame.f_back
    lines.add(frame.f_lineno - spin.__code__.co_firstlineno)
def spin():
    while len(lines) < 2:
        x = 1
        y = [x
             for _ in range(9)]
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
try: run(spin)
finally: signal.setitimer(signal.ITIMER_REAL, 0)
print(sorted(lines - {1, 2, 3, 4}), len(lines))
"""
    assert outcome(tmp_path, program, mode="evaluate") == (0, "[] 2", "")
