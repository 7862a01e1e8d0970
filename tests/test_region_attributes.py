"""Attributes that native loops store into."""

import gc
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import outcome
from region_programs import shown

pytestmark = pytest.mark.usefixtures("native_loops_at_once")


class Walk:
    def __init__(self, n: int = 50) -> None:
        self.x = np.linspace(0.25, 3.0, n)
        self.total = 0.0
        self.steps = 0

    def step(self, k: int) -> None:
        self.total = self.total * 0.5 + self.x[k % 50]
        self.steps += 1

    def run(self, turns: int) -> float:
        for k in range(turns):
            self.step(k)
        return self.total


def state(walk: object) -> list[tuple[str, Any]]:
    return [(name, shown(value) if isinstance(value, (np.ndarray, float, np.floating)) else repr(value)) for name, value in vars(walk).items()]


def same(function: Callable[..., Any], make: Callable[[], Any], *turns: int, native: bool = True) -> Any:
    """The function does the same to objects captured, call by call: what comes of it, attributes and their order."""
    captured = evalframe.jit(function)
    plain, ours = make(), make()
    for number in turns:
        assert repr(outcome(function, plain, number)) == repr(outcome(captured, ours, number))
        assert state(plain) == state(ours)
    if native:
        assert _core.jit_counters(captured)["native_turns"] > 0
    return captured


def test_they_are_variables_of_the_loop() -> None:
    captured = same(Walk.run, Walk, 400, 300, 0, 1, 200)
    assert _core.jit_counters(captured)["native_turns"] > 800


def test_another_object_is_another_owner() -> None:
    captured = same(Walk.run, Walk, 400)
    walks = [Walk() for _ in range(3)]
    for walk in walks:
        captured(walk, 200)
    plain = Walk()
    plain.run(200)
    assert all(state(walk) == state(plain) for walk in walks)


def test_the_loop_is_left_with_what_it_has_stored() -> None:
    def run(walk: Walk, turns: int) -> None:
        for k in range(turns):
            walk.steps = k
            walk.total += walk.x[k]

    same(run, Walk, 40, 51, 30, 60)

    def growing(walk: Walk, turns: int) -> None:
        for _ in range(turns):
            walk.steps = walk.steps * 3 + 1

    same(growing, Walk, 60, 60)


def test_two_names_for_one_object() -> None:
    def run(one: Walk, other: Walk, turns: int) -> float:
        for k in range(turns):
            one.total += one.x[k % 50]
            other.total *= 0.5
        return one.total

    captured = evalframe.jit(run)
    for alike in (False, True, False, True):
        plain, ours = [Walk(), Walk()], [Walk(), Walk()]
        if alike:
            plain[1], ours[1] = plain[0], ours[0]
        for turns in (300, 200):
            assert run(*plain, turns) == captured(*ours, turns)
            assert [state(walk) for walk in plain] == [state(walk) for walk in ours]


def test_another_way_to_the_object() -> None:
    class Linked(Walk):
        def __init__(self) -> None:
            super().__init__()
            self.other = self

    def reading(walk: Linked, turns: int) -> float:
        seen = 0.0
        for k in range(turns):
            walk.total += walk.x[k % 50]
            if k % 3:
                seen += walk.other.total
        return seen

    def storing(walk: Linked, turns: int) -> float:
        for k in range(turns):
            walk.total += walk.x[k % 50]
            if k % 3:
                walk.other.total *= 0.5
        return walk.total

    def by_dict(walk: Linked, turns: int) -> float:
        seen = 0.0
        for k in range(turns):
            walk.total += walk.x[k % 50]
            seen += walk.__dict__["total"] + vars(walk)["steps"]
        return seen

    for function in (reading, storing, by_dict):
        captured = evalframe.jit(function)
        plain, ours = Linked(), Linked()
        for turns in (300, 200):
            assert function(plain, turns) == captured(ours, turns)
            assert plain.total == ours.total


def test_a_dict_that_someone_has() -> None:
    def run(walk: Walk, contents: dict[str, Any], turns: int) -> float:
        seen = 0.0
        for k in range(turns):
            walk.total += walk.x[k % 50]
            seen += contents["total"]
        return seen

    captured = evalframe.jit(run)
    for own in (False, True, True, False):
        plain, ours = Walk(), Walk()
        for turns in (200, 100):
            assert run(plain, vars(plain) if own else {"total": 1.0}, turns) == captured(ours, vars(ours) if own else {"total": 1.0}, turns)


def test_slots_and_data_classes() -> None:
    class Slotted:
        __slots__ = ("total",)

        def __init__(self) -> None:
            self.total = 0.0

    @dataclass
    class Data:
        total: float = 0.0

    @dataclass(frozen=True)
    class Frozen:
        total: float = 0.0

    def run(thing: Any, turns: int) -> float:
        for k in range(turns):
            thing.total = thing.total * 0.5 + k
        return thing.total

    for make in (Slotted, Data, Frozen):
        captured = evalframe.jit(run)
        plain, ours = make(), make()
        for turns in (300, 100):
            assert repr(outcome(run, plain, turns)) == repr(outcome(captured, ours, turns))
            assert plain.total == ours.total


def test_classes_with_a_say() -> None:
    class Counting(Walk):
        stores = 0

        def __setattr__(self, name: str, value: object) -> None:
            Counting.stores += 1
            object.__setattr__(self, name, value)

    class Halving(Walk):
        @property
        def half(self) -> float:
            return self.total / 2

        @half.setter
        def half(self, value: float) -> None:
            self.total = value * 2

    def halves(walk: Halving, turns: int) -> float:
        for k in range(turns):
            walk.half += walk.x[k % 50]
        return walk.half

    same(Walk.run, Counting, 300, 100, native=False)
    assert Counting.stores == 2 * (3 + 2 * 400)
    same(halves, Halving, 300, 100)


def test_classes_that_change_between_calls() -> None:
    captured = same(Walk.run, Walk, 300, 200)
    told: list[object] = []

    class Told(Walk):
        pass

    plain, ours = Told(), Told()
    assert plain.run(200) == captured(ours, 200)
    Told.steps = property(lambda self: 7, lambda self, value: told.append(value))
    assert plain.run(200) == captured(ours, 200)
    assert len(told) == 400


def test_attributes_that_are_not_there_yet() -> None:
    class Bare:
        def __init__(self) -> None:
            self.total = 0.0

    def run(bare: Any, turns: int) -> float:
        for k in range(turns):
            bare.second = k
            bare.first = k * 0.5
            bare.total += bare.first
        return bare.total

    same(run, Bare, 300, 200)

    def deleting(bare: Any, turns: int) -> float:
        for k in range(turns):
            bare.first = k * 0.5
            bare.total += bare.first
            del bare.first
        return bare.total

    same(deleting, Bare, 300, 200, native=False)


def test_types_that_change() -> None:
    def run(walk: Any, turns: int) -> Any:
        for k in range(turns):
            walk.total = walk.total * 2 if k % 7 else k
        return walk.total

    captured = same(run, Walk, 300, 200)
    for value in (1, np.float32(2), "text", [1], None, 1 + 2j):
        plain, ours = Walk(), Walk()
        plain.total = ours.total = value  # type: ignore[assignment]
        assert repr(outcome(run, plain, 100)) == repr(outcome(captured, ours, 100))
        assert state(plain) == state(ours)


def test_arrays_in_attributes() -> None:
    class Grid:
        def __init__(self) -> None:
            self.a, self.b = np.linspace(0, 1, 30), np.zeros(30)

    def run(grid: Grid, turns: int) -> bool:
        for _ in range(turns):
            grid.b[1:-1] = 0.5 * (grid.a[:-2] + grid.a[2:])
            grid.a, grid.b = grid.b, grid.a
        return grid.a is grid.b

    same(run, Grid, 101, 50, 3)

    def renewing(grid: Grid, turns: int) -> None:
        for _ in range(turns):
            grid.a = grid.a * 0.5 + 1

    same(renewing, Grid, 101, 50, 3)


def test_an_owner_that_the_loop_lets_go() -> None:
    def run(walk: Walk, turns: int) -> float:
        other = Walk()
        for k in range(turns):
            walk.total += walk.x[k % 50]
            if k == 150:
                walk = other
        return walk.total

    same(run, Walk, 300, 100)


def test_values_that_are_told_of_their_end() -> None:
    ended = []

    class Told:
        def __del__(self) -> None:
            ended.append("told")

    def run(walk: Any, turns: int) -> int:
        for k in range(turns):
            walk.total = k * 0.5
        return len(ended)

    captured = evalframe.jit(run)
    walk = Walk()
    captured(walk, 300)
    for _ in range(3):
        walk.total = Told()  # type: ignore[assignment]
        captured(walk, 300)
    gc.collect()
    assert ended == ["told"] * 3


def test_modules_and_classes_as_owners() -> None:
    module = types.ModuleType("module")

    class Kept:
        total = 0.0

    def run(thing: Any, turns: int) -> float:
        for k in range(turns):
            thing.total = thing.total * 0.5 + k
        return thing.total

    for thing in (module, Kept):
        captured = evalframe.jit(run)
        for turns in (300, 100):
            thing.total = 0.0
            want = run(thing, turns)
            thing.total = 0.0
            assert captured(thing, turns) == want == thing.total
