"""Weak references from outside, which are asked in each run what they lead to, and functions that are bound by asking them."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import evalframe
from evalframe.codegen import entries_of, run_transformed
from helpers import same

A = np.linspace(-1.0, 2.0, 5)


class Box:
    def __init__(self, scale):
        self.scale = scale
        self.calls = 0

    def scaled(self, a, more=0):
        self.calls += 1
        return a * self.scale + more


class Own(weakref.ref):
    def __call__(self):
        found = super().__call__()
        return None if found is None else found.scale


def scaled_by(reference, a):
    box = reference()
    if box is None:
        return a - 1
    box.calls += 1
    return a * box.scale


def bound(reference, a):
    box = reference()
    return Box.scaled.__get__(box, type(box))(a, more=2.0), Box.scaled.__get__(box)(a)


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("function", [scaled_by, bound])
def test_what_it_leads_to_is_asked_for(function, backend):
    captured = evalframe.jit(function, backend=backend)
    boxes = [Box(2.0), Box(2.0), Box(3.5)]
    plain = [Box(box.scale) for box in boxes]
    for number in (0, 1, 0, 2, 1):
        for a in (A, A * 2):
            assert same(captured(weakref.ref(boxes[number]), a), function(weakref.ref(plain[number]), a))
    assert [box.calls for box in boxes] == [box.calls for box in plain]
    assert not evalframe.explain(captured)(weakref.ref(boxes[0]), A).breaks


def test_one_that_leads_nowhere_gives_none():
    captured = evalframe.jit(scaled_by)
    box = Box(2.0)
    reference = weakref.ref(box)
    assert same(captured(reference, A), A * 2) and same(captured(reference, A), A * 2)
    del box
    gc.collect()
    assert reference() is None
    assert same(captured(reference, A), A - 1) and same(captured(reference, A), A - 1)
    other = Box(4.0)
    assert same(captured(weakref.ref(other), A), A * 4)


def test_what_it_leads_to_is_held_by_no_recording():
    box = Box(2.0)
    reference = weakref.ref(box)

    def of_a_cell(a):
        return a * reference().scale

    captured = evalframe.jit(of_a_cell)
    for _ in range(3):
        assert same(captured(A), A * 2)
    told = []
    weakref.finalize(box, told.append, "gone")
    del box
    assert told == ["gone"] and reference() is None
    with pytest.raises(AttributeError):
        captured(A)


def test_one_of_a_class_of_the_programs_is_asked_itself():
    box = Box(2.0)
    captured = evalframe.jit(lambda reference, a: a * reference())
    for reference in (Own(box), Own(box)):
        assert same(captured(reference, A), A * 2)


def test_transformed_code_asks_it():
    def times(reference, a):
        return a * reference().scale

    captured = evalframe.jit(times)
    boxes = Box(2.0), Box(3.0)
    assert same(captured(weakref.ref(boxes[0]), A), A * 2)
    (entry,) = entries_of(captured)
    assert entry.code is not None and entry.accepts(weakref.ref(boxes[1]), A)
    with evalframe.hook(run_transformed(captured)):
        assert same(times(weakref.ref(boxes[1]), A), A * 3)
