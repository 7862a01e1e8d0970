"""gc.collect() runs as Python: what ends in it, what that changes, and what it counts are as in CPython."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_behaves_as_plain, check_may_be_left

X = np.linspace(-1.0, 2.0, 5)
BACKENDS = ["reference", "native"]
CALLS = [(X, 2), (X, 2), (X, 3), (X[:3], 2), (X.astype(np.float32), 3), (X, 1.5)]
FACTOR = 1
TOLD: list[str] = []


class Ring:
    """Garbage whose end changes what a function reads."""

    def __init__(self, factor: Any) -> None:
        self.me = self
        self.factor = factor

    def __del__(self) -> None:
        global FACTOR
        FACTOR = self.factor
        TOLD.append("end")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    gc.collect()
    gc.disable()
    gc.freeze()  # collections needn't look at all that the other tests have made
    yield
    gc.unfreeze()
    gc.enable()


def collects(x: Any, n: Any) -> Any:
    y = x + 1
    gc.collect()
    return y * n


def lets_go(x: Any, n: Any) -> Any:
    ring = Ring(n)
    y = x + ring.factor
    told = len(TOLD)
    del ring
    gc.collect()
    return y, len(TOLD) - told


def counts(x: Any, n: Any) -> Any:
    return x * (gc.collect() >= 0), gc.collect(generation=1) >= 0, gc.collect(0) >= 0


def reads_behind(x: Any, n: Any) -> Any:
    y = x * FACTOR
    gc.collect()
    return y + FACTOR * n


def stores_before(x: Any, n: Any) -> Any:
    global FACTOR
    FACTOR = n
    y = x + 1
    gc.collect()
    return y * FACTOR


def of_weak(x: Any, n: Any) -> Any:
    reference = weakref.ref(Ring(n))
    y = x + 1
    gc.collect()
    return y, reference() is None


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [collects, lets_go, counts, reads_behind, stores_before, of_weak])
def test_collections_behave_as_plain(function: Any, backend: str) -> None:
    check_behaves_as_plain(function, backend, CALLS)
    gc.collect()
    check_may_be_left(function, backend, CALLS[:3], 5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("recorded", [0, 1, 2, 3])
def test_what_finalisers_change_is_seen(backend: str, recorded: int) -> None:
    global FACTOR
    captured = evalframe.jit(reads_behind, backend=backend)
    for garbage in ([False] * recorded, [True, False, True, True, False])[recorded > 3 :]:
        for factor, there in enumerate(garbage):
            told = []
            for function in (captured, reads_behind):
                FACTOR = 7
                TOLD.clear()
                if there:
                    Ring(factor + 2)
                told.append((function(X, 2).tolist(), TOLD.copy(), FACTOR))
            assert told[0] == told[1], (factor, there)


def test_generators_that_end_are_noticed() -> None:
    def waits(holder: list[Any]) -> Iterator[None]:
        global FACTOR
        try:
            yield
        finally:
            FACTOR = 11

    def garbage() -> None:
        holder: list[Any] = []
        holder.append(waits(holder))
        next(holder[0])

    global FACTOR
    captured = evalframe.jit(reads_behind)
    for there in (False, False, True, False, True):
        told = []
        for function in (captured, reads_behind):
            FACTOR = 1
            if there:
                garbage()
            told.append(function(X, 2).tolist())
        assert told[0] == told[1]


def test_callbacks_of_the_collector_are_noticed() -> None:
    global FACTOR

    def callback(phase: str, info: Any) -> None:
        global FACTOR
        FACTOR += 1

    captured = evalframe.jit(reads_behind)
    FACTOR = 1
    captured(X, 2), captured(X, 2)
    gc.callbacks.append(callback)
    try:
        for _ in range(3):
            told = []
            for function in (captured, reads_behind):
                FACTOR = 1
                told.append(function(X, 2).tolist())
            assert told[0] == told[1]
    finally:
        gc.callbacks.remove(callback)


def counts_what_was_made(x: Any) -> Any:
    class Local:
        pass

    assert Local
    del Local
    return gc.collect() > 0, x + 1


def counts_in_turns(x: Any) -> Any:
    found = []
    for _ in range(3):
        ring: Any = []
        ring.append(ring)
        ring = x + 1
        found.append(gc.collect() == 1)
    return found, ring


def counts_inside(x: Any) -> Any:
    return counts_what_was_made(x), x * 2


@pytest.mark.parametrize("function", [counts_what_was_made, counts_in_turns, counts_inside])
def test_counts_are_those_of_objects_that_are_really_made(function: Any, plain_collections: None) -> None:
    check_behaves_as_plain(function, "reference", [(X,)] * 4)
