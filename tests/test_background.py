"""``background=True``: loops are made native on a thread of their own, while plain Python goes on with them."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import evalframe
from evalframe import _core, _llvm


def summed(x: np.ndarray, turns: int) -> float:
    total = 0.0
    for k in range(turns):
        total = total * 0.5 + x[k % 7] * k
    return total


X = np.linspace(0.25, 3.0, 7)


class Gate:
    """Loops wait for it before they are compiled, once it is closed."""

    def __init__(self, compile_quickly: Callable[[str], bytes]) -> None:
        self.compile_quickly, self.opened, self.entered, self.error = compile_quickly, threading.Event(), threading.Event(), ""
        self.threads: list[int] = []

    def __call__(self, ir: str) -> bytes:
        self.threads.append(threading.get_ident())
        self.entered.set()
        assert self.opened.wait(60)
        if self.error:
            raise RuntimeError(self.error)
        return self.compile_quickly(ir)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch, native_loops_at_once: None) -> Iterator[Gate]:
    monkeypatch.setenv("EVALFRAME_CACHE", "0")
    gate = Gate(_llvm.compile_quickly)
    monkeypatch.setattr(_llvm, "compile_quickly", gate)
    _core.forget_machine_code()
    yield gate
    gate.opened.set()
    _core.wait_for_background()


def loop_of(captured: object) -> evalframe.Loop:
    return evalframe.Loop(**_core.jit_loops(captured)[0])


def test_python_goes_on_while_a_loop_is_compiled(gate: Gate) -> None:
    captured = evalframe.jit(summed, background=True)
    assert captured(X, 3000) == summed(X, 3000)
    assert gate.entered.wait(60)
    assert captured(X, 2000) == summed(X, 2000)  # before its code is there
    assert _core.jit_counters(captured)["native_turns"] == 0
    assert "being made native in the background" in str(loop_of(captured))
    gate.opened.set()
    _core.wait_for_background()
    assert captured(X, 3000) == summed(X, 3000)
    assert _core.jit_counters(captured)["native_turns"] > 2900
    assert loop_of(captured).native and not loop_of(captured).compiling


def test_the_loop_that_runs_goes_on_in_its_code(gate: Gate) -> None:
    """Entered in the midst of the run in which it was begun."""

    def with_pause(x: np.ndarray, turns: int) -> float:
        total = 0.0
        for k in range(turns):
            total = total * 0.5 + x[k % 7] * k
            if k == 2000:
                pause()
        return total

    def pause() -> None:
        assert gate.entered.wait(60)
        gate.opened.set()
        _core.wait_for_background()

    captured = evalframe.jit(with_pause, background=True)
    assert captured(X, 6000) == summed(X, 6000)
    assert _core.jit_counters(captured)["native_turns"] > 3900


def test_code_that_is_dropped_meanwhile_is_not_taken(gate: Gate) -> None:
    captured = evalframe.jit(summed, background=True)
    captured(X, 3000)
    assert gate.entered.wait(60)
    _core.jit_clear(captured)
    gate.opened.set()
    _core.wait_for_background()
    assert captured(X, 3000) == summed(X, 3000)


def test_functions_may_go_while_their_loop_is_compiled(gate: Gate) -> None:
    captured = evalframe.jit(summed, background=True)
    captured(X, 3000)
    assert gate.entered.wait(60)
    del captured
    gate.opened.set()
    _core.wait_for_background()


def test_failures_to_compile_leave_the_loop_to_python(gate: Gate) -> None:
    gate.error = "no such instruction"
    gate.opened.set()
    captured = evalframe.jit(summed, background=True)
    for _ in range(5):  # it is tried again when more of the loop has been recorded, but not for ever
        assert captured(X, 3000) == summed(X, 3000)
        _core.wait_for_background()
    assert captured(X, 3000) == summed(X, 3000)
    assert _core.jit_counters(captured)["native_turns"] == 0
    assert "no such instruction" in str(loop_of(captured))


def test_other_functions_have_loops_of_their_own(gate: Gate) -> None:
    one, other = (evalframe.jit(summed, background=True) for _ in range(2))
    one(X, 3000)
    other(X, 3000)
    gate.opened.set()
    _core.wait_for_background()
    for captured in (one, other):
        assert captured(X, 3000) == summed(X, 3000)
        assert _core.jit_counters(captured)["native_turns"] > 2900


PROGRAM = """
import os, sys, threading, time
import numpy as np
import evalframe
from evalframe import _core, _llvm
os.environ["EVALFRAME_CACHE"] = "0"
_core.set_region_seconds(0.0)
compile_quickly, entered = _llvm.compile_quickly, threading.Event()
def slowly(ir):
    entered.set()
    time.sleep(0.3)
    return compile_quickly(ir)
_llvm.compile_quickly = slowly

@evalframe.jit(background=True)
def summed(x, turns):
    total = 0.0
    for k in range(turns):
        total = total * 0.5 + x[k % 7] * k
    return total

x = np.ones(7)
wanted = summed.__wrapped__(x, 3000)
assert summed(x, 3000) == wanted
assert entered.wait(30)
"""


@pytest.mark.parametrize(
    "then",
    [
        "",  # ends while it is being compiled
        "import atexit; atexit.register(lambda: summed(x, 3000))",
        "_core.jit_clear(summed); summed = None",
        # A child has LLVM to itself.
        "pid = os.fork()\nfor _ in range(3): assert summed(x, 3000) == wanted\n"
        "assert evalframe.jit(lambda y: y * 2.5 - 1)(x)[0] == 1.5\nif pid: assert os.waitpid(pid, 0)[1] == 0",
    ],
    ids=["end", "function at the end", "dropped", "fork"],
)
def test_programs_end_and_fork_while_loops_are_compiled(then: str) -> None:
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM + then + "\nprint('right')"], capture_output=True, text=True, timeout=60, env=os.environ)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines()[0] == "right"


def test_whole_programs_have_it(gate: Gate) -> None:
    with evalframe.enabled(background=True):
        assert summed(X, 3000) == summed(X, 3000)
        assert gate.entered.wait(60)
    assert threading.main_thread().ident not in gate.threads


def test_it_is_a_flag() -> None:
    for made in (lambda: evalframe.jit(summed, background=1), lambda: evalframe.enabled(background="yes")):
        with pytest.raises(TypeError, match="background must be True or False"):
            made()
