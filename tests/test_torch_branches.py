"""Branches on what a graph has computed: behind them a call goes on in the recording of the side that is taken, without a frame in between."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import gc
import sys
import traceback
import weakref

import numpy as np
import pytest
import torch

import evalframe
import evalframe.torch

pytestmark = pytest.mark.torch

X = torch.linspace(-1, 1, 6)


def one(a, b):
    x = a / (a.abs() + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def three(a, b):
    if a.sum() > 3:
        a = a - b
    if not b.any():
        return a + 1
    if (a * b).sum() > 0:
        return {"sum": a + b, "given": a}
    kept = [a, b]
    return kept, a - b


def in_expression(a, b):
    return a * (1 if (a > b).all() else b)


def returned_at_once(a, b):
    if a.sum() > b.sum():
        return a
    return None


def raised_behind(a, b):
    if a.sum() > 0:
        return a.reshape(5, 5)
    return a + b


def written(a, b):
    a = a.clone()
    if b.sum() > 0:
        a += b
    if a.sum() > 2:
        a[1:3] = 0
    return a


PROGRAMS = [one, three, in_expression, returned_at_once, raised_behind, written]
CALLS = [(X, X + 1), (X + 1, -X), (X + 2, X * 0), (X - 1, X + 1), (X + 1, X - 3)] * 4


def outcome(function, *arguments):
    try:
        return repr(function(*(argument.clone() for argument in arguments)))
    except RuntimeError as error:
        lines = [frame.line for frame in traceback.extract_tb(error.__traceback__) if frame.filename == __file__]
        return type(error), str(error), lines[1:]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_all_sides_in_turn(program, backend):
    captured = evalframe.torch.compile(program, backend=backend)
    for arguments in CALLS:
        assert outcome(captured, *arguments) == outcome(program, *arguments)


@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients(program):
    captured = evalframe.torch.compile(program, backend="aot_eager")

    def gradients(function, arguments):
        given = [argument.clone().requires_grad_() for argument in arguments]
        try:
            result = function(*given)
        except RuntimeError:
            return None
        tensors = [part for part in [result] if isinstance(part, torch.Tensor) and part.requires_grad]
        sum((part.sum() for part in tensors), torch.zeros(())).backward() if tensors else None
        return [argument.grad for argument in given]

    for arguments in CALLS:
        assert repr(gradients(captured, arguments)) == repr(gradients(program, arguments))


def test_counts_are_those_of_frames():
    captured = evalframe.torch.compile(one, backend="eager")
    for _ in range(10):
        captured(X, X + 1)
    info = captured.stats if hasattr(captured, "stats") else evalframe.stats()
    assert info["exits"] >= 9


def test_a_side_that_was_not_met_is_recorded():
    captured = evalframe.torch.compile(one, backend="eager")
    for _ in range(5):
        captured(X, X + 1)
    assert len(evalframe.torch.graph_modules(captured)) == 2
    assert torch.equal(captured(X, X - 1), one(X, X - 1))
    assert len(evalframe.torch.graph_modules(captured)) == 3


def test_guards_of_the_side_are_asked():
    scale = [2.0]

    def scaled(a):
        if a.sum() > 0:
            return a * scale[0]
        return a

    captured = evalframe.torch.compile(scaled, backend="eager")
    for number in range(6):
        scale[0] = float(number // 2)
        assert torch.equal(captured(X + 1), scaled(X + 1))


def test_a_condition_of_several_elements_raises_there():
    def chosen(a):
        if a > 0:
            return a
        return -a

    captured = evalframe.torch.compile(chosen, backend="eager")
    for _ in range(4):
        assert torch.equal(captured(X[5:]), X[5:])
        assert outcome(captured, X) == outcome(chosen, X)


def test_truth_that_is_replaced(monkeypatch):
    captured = evalframe.torch.compile(one, backend="eager")
    for _ in range(4):
        captured(X, X + 1)
    seen = []

    def truth(tensor):
        seen.append(sys._getframe(1).f_code.co_name)
        return True

    monkeypatch.setattr(torch.Tensor, "__bool__", truth)
    expected = one(X, X + 1)
    for _ in range(4):
        assert torch.equal(captured(X, X + 1), expected)
    assert seen == ["one"] * 5


def test_tracers_see_the_frame():
    captured = evalframe.torch.compile(one, backend="eager")
    for _ in range(4):
        captured(X, X + 1)
    lines = []

    def trace(frame, event, _):
        if frame.f_code is one.__code__:
            lines.append((event, frame.f_lineno - one.__code__.co_firstlineno))
        return trace

    sys.settrace(trace)
    try:
        captured(X, X + 1)
    finally:
        sys.settrace(None)
    assert lines == [("call", 0), ("line", 1), ("line", 2), ("line", 4), ("return", 4)]


def test_what_a_side_lets_go_of_is_gone():
    def lets_go(a):
        b = a * 2
        if b.sum() > 0:
            kept.append(weakref.ref(b))
            b = None
            c = a + 1
            if c.sum() > 0:
                return c
        return a

    kept: list = []
    captured = evalframe.torch.compile(lets_go, backend="eager")
    for _ in range(5):
        captured(X + 1)
    gc.collect()
    assert [reference() for reference in kept] == [None] * 5


def test_as_many_branches_as_there_may_be():
    source = "def many(a):\n" + "".join(f"    if a.sum() > {limit}:\n        a = a - 1\n" for limit in range(300)) + "    return a\n"
    scope: dict = {}
    exec(source, scope)
    captured = evalframe.torch.compile(scope["many"], backend="eager")
    for start in (0, 3, 200):
        for _ in range(2):
            assert torch.equal(captured(X + start), scope["many"](X + start))


def test_branches_of_numpy_go_on_so_too():
    def numbers(a, b):
        x = a / (np.abs(a) + 1)
        if b.sum() < 0:
            b = b * -1
        if (x > 0).any():
            return x * b
        return x

    captured = evalframe.jit(numbers)
    a = np.linspace(-1, 1, 7)
    for number in range(12):
        given = (a if number % 3 else -abs(a)), (a + 1 if number % 2 else a - 1)
        assert np.array_equal(captured(*given), numbers(*given))
