"""`x ** 2` in native loops calls `pow()` for few numbers, and nothing else in a turn has to leave registers for that."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _llvm

pytestmark = pytest.mark.usefixtures("native_loops_at_once")

R = np.random.default_rng(4)
NAME = "squared_by_pow"


def chain(steps: Any, out: Any) -> Any:
    x, width = 0.0, 0.5
    density = -((x * x - 4.0) ** 2) / 8.0
    for i in range(len(steps)):
        proposed = x + width * steps[i]
        other = -((proposed * proposed - 4.0) ** 2) / 8.0
        if other - density > -0.7:
            x = proposed
            density = other
        out[i] = x
    return out


@pytest.fixture
def loops(native_loops_at_once: None) -> list[str]:
    """The code of the chain's native loops."""
    captured = evalframe.jit(chain)
    steps, out = R.normal(size=400), np.zeros(400)
    for _ in range(6):
        captured(steps, out)
    found = [loop.ir for loop in evalframe.explain(captured)(steps, out).loops if loop.native]
    assert found
    return found


@pytest.fixture
def definition(loops: list[str]) -> str:
    """Of the function around pow(), as loops have it."""
    found = re.search(rf"^define internal [^\n]*@{NAME}\(.*?^}}$", loops[0], re.MULTILINE | re.DOTALL)
    if not found:
        pytest.skip("squares are pow()'s on this processor")
    return found.group(0)


def test_numbers_of_chains_are_those_of_the_c_library() -> None:
    captured = evalframe.jit(chain)
    for n in (5, 400, 20_000, 20_000):
        steps = R.normal(size=n)
        assert captured(steps, np.zeros(n)).tobytes() == chain(steps, np.zeros(n)).tobytes()


def around_a_loop(definition: str, lanes: int) -> str:
    """A loop that squares elements, and adds up a vector meanwhile."""
    vector = f"<{lanes} x double>"
    return f"""declare double @pow(double, double)
{definition}
define void @evalframe_squares{lanes}(ptr %elements, i64 %count, ptr %vector) {{
begin:
  %first = load {vector}, ptr %vector, align 8
  br label %turn
turn:
  %i = phi i64 [ 0, %begin ], [ %next, %turn ]
  %sum = phi {vector} [ %first, %begin ], [ %more, %turn ]
  %place = getelementptr double, ptr %elements, i64 %i
  %element = load double, ptr %place
  %squares = call preserve_allcc <4 x double> @{NAME}(double %element)
  %square = extractelement <4 x double> %squares, i64 0
  store double %square, ptr %place
  %more = fadd {vector} %sum, %first
  %next = add i64 %i, 1
  %ends = icmp eq i64 %next, %count
  br i1 %ends, label %end, label %turn
end:
  store {vector} %more, ptr %vector, align 8
  ret void
}}
attributes #2 = {{ nobuiltin }}
attributes #4 = {{ cold noinline nounwind willreturn memory(none) }}
"""


@pytest.mark.parametrize("lanes", [2, 4, 8, 32])
@pytest.mark.parametrize("compile_it", [_llvm.compile_ir, _llvm.compile_quickly], ids=["in full", "quickly"])
def test_vectors_are_kept_where_a_square_is_computed(definition: str, lanes: int, compile_it: Any) -> None:
    name = f"evalframe_squares{lanes}_{compile_it.__name__}"
    code = compile_it(around_a_loop(definition, lanes).replace(f"@evalframe_squares{lanes}(", f"@{name}("))
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(_llvm.link(code, name))
    elements, vector = R.random(50) + 1.0, R.integers(1, 100, lanes).astype(float)
    squared, summed = [x**2 for x in elements.tolist()], vector * 51.0
    function(elements.ctypes.data, 50, vector.ctypes.data)
    assert elements.tolist() == squared
    assert vector.tolist() == summed.tolist()


def test_turns_call_pow_in_one_place(definition: str, loops: list[str]) -> None:
    assert "preserve_allcc" in definition and definition.count("call double @pow(") == 1
    assert all(loop.count("call double @pow(") == 1 for loop in loops if NAME in loop)
