"""Deep recursion with every frame in our evaluator: RecursionError where the stack or the limit ends, never a crash."""

from __future__ import annotations

import subprocess
import sys

import pytest

PRELUDE = """
import sys, threading
from evalframe import _core
_core.evaluate_all_frames(True)

def plain(n): return n and 1 + plain(n - 1)
class Chain:
    def __init__(self, n): self.next = Chain(n - 1) if n else None
    def __repr__(self): return repr(self.next)
    def __getattr__(self, name): return getattr(self, name + "_")
    def __eq__(self, other): return self == other
def by_generators(n): yield from by_generators(n + 1)
def by_sorting(n): sorted([1, 2], key=lambda _: by_sorting(n + 1))
def in_handler(n):
    try: in_handler(n + 1)
    finally: len("")
async def awaits(n): return await awaits(n + 1)
def by_awaiting(n): awaits(n).send(None)
def by_class(n):
    class Inner: by_class(n + 1)

def endless(f):
    try:
        f()
    except RecursionError as error:
        assert "recursion" in str(error) or "stack" in str(error), error
        return "RecursionError"
    return "none"

def every():
    attempts = [lambda: plain(-1), lambda: list(by_generators(0)), lambda: by_sorting(0), lambda: in_handler(0),
                lambda: by_awaiting(0), lambda: by_class(0), lambda: Chain(0).x, lambda: Chain(0) == 1]
    return [endless(f) for f in attempts]
"""


def run(program: str) -> list[str]:
    command = [sys.executable, "-X", "faulthandler", "-W", "ignore", "-c", PRELUDE + program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split()


@pytest.mark.parametrize("limit", [300, 1000, 10**6])
def test_recursion_ends_with_recursion_error(limit: int) -> None:
    assert run(f"sys.setrecursionlimit({limit}); print(*every())") == ["RecursionError"] * 8


@pytest.mark.parametrize("size", [256, 512])
def test_recursion_on_a_small_stack_ends_with_recursion_error(size: int) -> None:
    # CPython's own ways to free a chain of more tracebacks than these use up such a stack, from 3.13 on.
    program = f"""
sys.setrecursionlimit(2000)
threading.stack_size({size} * 1024)
found = []
thread = threading.Thread(target=lambda: found.extend(every()))
thread.start()
thread.join()
print(*found)
"""
    assert run(program) == ["RecursionError"] * 8


def test_the_limit_is_met_at_the_depth_of_cpython() -> None:
    program = """
def depth(n):
    global deepest
    deepest = n
    depth(n + 1)
def measured():
    try: depth(0)
    except RecursionError: return deepest
ours = measured()
_core.evaluate_all_frames(False)
print(ours - measured())
"""
    assert run(program) == ["0"]
