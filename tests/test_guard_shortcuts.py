"""Guards of later calls ask versions of dicts and classes instead of what is in them: each change is seen all the same."""

from __future__ import annotations

import collections
import gc
import random
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe

# Of the first, which records, and of those that make a check shorter.
CALLS = 4
# ... and behind which a call keeps only what it reads.
SETTLED = 40


class Gain:
    def __init__(self, by: float) -> None:
        self.by = by
        self.table = {"off": 1, "other": None}
        self.hooks: collections.OrderedDict[str, Any] = collections.OrderedDict()
        vars(self)["named"] = "gain"

    def of(self, x: Any) -> Any:
        return x * self.by + self.table["off"]


class Louder(Gain):
    def of(self, x: Any) -> Any:
        return x * self.by * 10


class Slotted:
    __slots__ = ("inner",)

    def __init__(self, inner: Any) -> None:
        self.inner = inner


class Registry(dict[str, Any]):
    """A dict with methods and attributes."""

    def of(self, x: Any) -> Any:
        return x * self.by + self["off"]


class Shy(Registry):
    def of(self, x: Any) -> Any:
        return x - self.by


class Level(int):
    """A number with attributes."""

    def of(self, x: Any) -> Any:
        return x * self.by + int(self)


class Lower(Level):
    def of(self, x: Any) -> Any:
        return x - int(self)


class Meta(type):
    """Of classes whose names are asked for."""


class Renaming(Meta):
    @property
    def level(cls) -> int:
        return 77

    @property
    def __module__(cls) -> str:
        return "somewhere else altogether"


class Leveled:
    level = 7


class Counted(int):
    """A number that may become a descriptor."""


class Plain:
    """Its instances have their attributes in themselves."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.by = 1.5

    def of(self, x: Any) -> Any:
        return x * self.by


class Turned(Plain):
    def of(self, x: Any) -> Any:
        return -x * self.by


def closure(by: float) -> Callable[[Any], Any]:
    def scaled(x: Any) -> Any:
        return x * by

    return scaled


class Stage:
    def __init__(self) -> None:
        self.gain = Gain(2.0)
        self.parts = {"first": Gain(3.0), "second": Gain(4.0)}
        self.row = [Gain(5.0)]
        self.pair = (Gain(6.0), 7)
        self.slotted = Slotted(Gain(8.0))
        self.plain = Plain(Gain(9.0))
        self.space = types.SimpleNamespace(inner=Gain(1.5))
        self.sizes = {1, 2}
        self.scaled = closure(1.25)
        self.kind = type("Kind", (Gain,), {})
        self.empty: dict[str, Any] = {}
        self.kept = np.arange(3.0)
        self.numbers = [0.5, 2.5, 4.5, *range(5)]
        self.registry = Registry(off=3)
        self.registry.by = 1.5
        self.level = Level(70)
        self.level.by = 0.5
        self.made = Meta("Made", (Leveled,), {"level": 3, "counted": Counted(4)})
        for each in (self, self.gain, *self.parts.values(), self.row[0], self.pair[0], self.slotted.inner):
            vars(each)["named"] = "seen"  # a dict of its own

    def run(self, x: Any) -> Any:
        x = self.gain.of(x)
        for part in self.parts.values():
            x = part.of(x)
        x = self.row[0].of(x) + len(self.row) + self.pair[0].of(x) + self.pair[1]
        x = self.slotted.inner.of(x) + self.plain.inner.of(x) + self.plain.of(x) + self.space.inner.of(x)
        x = self.scaled(x) + len(self.scaled.__name__) + len(self.scaled.__qualname__) - len(self.kind.__name__) - len(self.kind.__qualname__)
        x = x * self.numbers[0] - self.numbers[2] + self.registry.of(x) + self.level.of(x) + len(self.scaled.__annotations__)
        x = x + self.made.level + int(self.made.counted) - len(self.made.__qualname__) * len(self.made.__module__)
        if not self.gain.hooks and "key" not in self.empty and 2 in self.sizes:
            x = x + self.kept
        return x if self.named == "seen" and self.gain.named == "seen" else -x


def run(stage: Stage, x: Any) -> Any:
    return stage.run(x)


def _new_dict(stage: Stage) -> None:
    stage.gain.__dict__ = {**vars(stage.gain), "by": -1.0}


def _same_place(stage: Stage) -> None:
    """Another object where the last one was, if the allocator has it so."""
    stage.row.clear()
    stage.row.append(Gain(-5.0))
    vars(stage.row[0])["named"] = "seen"


CHANGES: dict[str, Callable[[Stage], Any]] = {
    "attribute": lambda stage: setattr(stage.gain, "by", 20.0),
    "attribute of a part": lambda stage: setattr(stage.parts["second"], "by", 20.0),
    "part": lambda stage: stage.parts.update(first=Gain(0.5)),
    "new part": lambda stage: stage.parts.update(third=Gain(0.5)),
    "part gone": lambda stage: stage.parts.pop("second"),
    "other order": lambda stage: stage.parts.update(first=stage.parts.pop("first")),
    "item of a table": lambda stage: stage.gain.table.update(off=11),
    "table": lambda stage: setattr(stage.gain, "table", {"off": 12}),
    "element of a list": _same_place,
    "longer list": lambda stage: stage.row.append(None),
    "of a list's element": lambda stage: setattr(stage.row[0], "by", 0.25),
    "of a tuple's": lambda stage: setattr(stage.pair[0], "by", 0.25),
    "tuple": lambda stage: setattr(stage, "pair", (stage.pair[0], 8)),
    "slot": lambda stage: setattr(stage.slotted, "inner", Gain(0.1)),
    "behind a slot": lambda stage: setattr(stage.slotted.inner, "by", 0.1),
    "value in itself": lambda stage: setattr(stage.plain, "inner", Gain(0.1)),
    "behind a value in itself": lambda stage: setattr(stage.plain.inner, "by", 0.1),
    "namespace": lambda stage: setattr(stage.space, "inner", Gain(0.1)),
    "class": lambda stage: setattr(stage.gain, "__class__", Louder),
    "class of a part": lambda stage: setattr(stage.parts["first"], "__class__", Louder),
    "class of a list's element": lambda stage: setattr(stage.row[0], "__class__", Louder),
    "dict": _new_dict,
    "method of its own": lambda stage: setattr(stage.gain, "of", lambda x: x),
    "method of a part's own": lambda stage: setattr(stage.parts["first"], "of", lambda x: x),
    "hook": lambda stage: stage.gain.hooks.update(key=1),
    "key": lambda stage: stage.empty.update(key=1),
    "set": lambda stage: stage.sizes.discard(2),
    "array": lambda stage: setattr(stage, "kept", np.arange(3)),
    "array in place": lambda stage: stage.kept.fill(100.0),
    "text": lambda stage: setattr(stage, "named", "other"),
    "text gone and back": lambda stage: (vars(stage).pop("named"), setattr(stage, "named", "seen")),
    "nothing": lambda stage: None,
    "an equal value": lambda stage: setattr(stage.gain, "by", float("2.0")),
    "a value of another type": lambda stage: setattr(stage.gain, "by", 2),
    "cell": lambda stage: setattr(stage.scaled.__closure__[0], "cell_contents", 0.75),
    "cell of another type": lambda stage: setattr(stage.scaled.__closure__[0], "cell_contents", np.float32(0.75)),
    "another cell": lambda stage: setattr(stage, "scaled", closure(0.5)),
    "name of a function": lambda stage: setattr(stage.scaled, "__name__", "another"),
    "longer name of a function": lambda stage: setattr(stage.scaled, "__qualname__", "a.longer.name.of.it"),
    "name of a class": lambda stage: setattr(stage.kind, "__name__", "Another"),
    "longer name of a class": lambda stage: setattr(stage.kind, "__qualname__", "a.longer.name.of.it"),
    "a dict is made": lambda stage: vars(stage.plain),
    "another value in itself": lambda stage: setattr(stage.plain, "by", -2.5),
    "a value in itself of another type": lambda stage: setattr(stage.plain, "by", 2),
    "a method in itself": lambda stage: setattr(stage.plain, "of", lambda x: -x),
    "another name in itself": lambda stage: setattr(stage.plain, f"name_{len(vars(stage))}", 1),
    "a class with values in itself": lambda stage: setattr(stage.plain, "__class__", Turned),
    "number of a list": lambda stage: stage.numbers.__setitem__(2, 8.5),
    "longer list of numbers": lambda stage: stage.numbers.extend(range(50)),
    "shorter list of numbers": lambda stage: stage.numbers.pop(1),
    "numbers gone and back": lambda stage: (stage.numbers.clear(), stage.numbers.extend([0.5, 2.5, 9.5])),
    "other order of numbers": lambda stage: stage.numbers.reverse(),
    "other list of numbers": lambda stage: setattr(stage, "numbers", [7.5, 2.5, 4.5]),
    "number of another type in a list": lambda stage: stage.numbers.__setitem__(0, 3),
    "attribute of a dict": lambda stage: setattr(stage.registry, "by", -1.5),
    "item of a dict with attributes": lambda stage: stage.registry.update(off=33),
    "method of a dict's own": lambda stage: setattr(stage.registry, "of", lambda x: x - 3),
    "class of a dict": lambda stage: setattr(stage.registry, "__class__", Shy),
    "attributes of a dict come anew": lambda stage: setattr(stage.registry, "__dict__", {"by": 6.5}),
    "attribute of a number": lambda stage: setattr(stage.level, "by", -1.5),
    "method of a number's own": lambda stage: setattr(stage.level, "of", lambda x: x - 3),
    "class of a number": lambda stage: setattr(stage.level, "__class__", Lower),
    "attributes of a number come anew": lambda stage: setattr(stage.level, "__dict__", {"by": 6.5}),
    "annotation of a function": lambda stage: stage.scaled.__annotations__.update(y=int),
    "other annotations of a function": lambda stage: setattr(stage.scaled, "__annotations__", {"x": 1, "y": 2, "z": 3}),
    "attribute of a class": lambda stage: setattr(stage.made, "level", 5),
    "attribute of a class is a base's": lambda stage: "level" in vars(stage.made) and delattr(stage.made, "level"),
    "module of a class": lambda stage: setattr(stage.made, "__module__", "elsewhere"),
    "longer name of a class of a metaclass": lambda stage: setattr(stage.made, "__qualname__", "a.longer.name.of.it"),
    "metaclass": lambda stage: setattr(stage.made, "__class__", Renaming),
    "attribute of a class of another type": lambda stage: setattr(stage.made, "level", 5.5),
    "values in itself come anew": lambda stage: (setattr(stage.plain, "by", 0.5), stage.plain.__dict__.update(by=-3.5)),
}


def agree(captured: Callable[..., Any], stage: Stage) -> None:
    x = np.linspace(0.0, 1.0, 3)
    np.testing.assert_array_equal(captured(stage, x), run(stage, x), strict=True)


@pytest.mark.parametrize("calls", [CALLS, SETTLED])
@pytest.mark.parametrize("change", CHANGES)
def test_each_change_is_seen(change: str, calls: int) -> None:
    captured, stage = evalframe.jit(run), Stage()
    for _ in range(calls):
        agree(captured, stage)
    for _ in range(3):
        CHANGES[change](stage) if change not in ("part gone",) or "second" in stage.parts else None
        for _ in range(CALLS):
            agree(captured, stage)


def test_methods_of_classes_are_seen() -> None:
    captured, stage = evalframe.jit(run), Stage()
    for _ in range(CALLS):
        agree(captured, stage)
    was = Gain.of
    try:
        Gain.of = lambda self, x: x - self.by
        for _ in range(CALLS):
            agree(captured, stage)
    finally:
        Gain.of = was
    for _ in range(CALLS):
        agree(captured, stage)


def test_changes_of_metaclasses_are_seen() -> None:
    captured, stage = evalframe.jit(run), Stage()
    module = Meta.__module__
    for name, value in {"level": property(lambda cls: 50), "__module__": property(lambda cls: "its.module")}.items():
        for _ in range(CALLS):
            agree(captured, stage)
        setattr(Meta, name, value)
        try:
            for _ in range(CALLS):
                agree(captured, stage)
        finally:
            setattr(Meta, name, module) if name == "__module__" else delattr(Meta, name)
    Counted.__get__ = lambda self, instance, owner: 90
    try:
        for _ in range(CALLS):
            agree(captured, stage)
    finally:
        del Counted.__get__
    for _ in range(CALLS):
        agree(captured, stage)


def test_of_many_objects_each_is_looked_at() -> None:
    captured, stages = evalframe.jit(run), [Stage() for _ in range(6)]
    stages[3].gain.by = 0.125
    for _ in range(20):
        for stage in stages:
            agree(captured, stage)


def test_what_changes_all_the_time_is_read_all_the_time() -> None:
    captured, stage = evalframe.jit(run), Stage()
    for number in range(60):
        stage.calls = number
        stage.gain.calls = number
        stage.parts["first"].table["calls"] = number
        if number % 7 == 0:
            stage.parts["second"].by = number
        agree(captured, stage)


@pytest.mark.parametrize("calls", [CALLS, SETTLED])
def test_nothing_is_held(calls: int) -> None:
    captured, stage = evalframe.jit(run), Stage()
    x = np.linspace(0.0, 1.0, 3)
    watched = [stage, stage.gain, stage.gain.table, stage.parts, stage.parts["first"], stage.row[0], stage.slotted.inner, stage.kept, vars(stage)]
    for _ in range(calls):
        captured(stage, x)
    before = [sys.getrefcount(each) for each in watched]
    for _ in range(10):
        captured(stage, x)
        stage.row[0] = stage.row[0]
    assert [sys.getrefcount(each) for each in watched] == before


def held_over_a_break(stage: Stage, x: Any) -> Any:
    first, table, element, pair = stage.parts["first"], stage.gain.table, stage.row[0], stage.pair
    x = first.of(x) * stage.scaled(x)
    x = x if x.sum() > -1.0 else -x  # a branch on data ends a graph
    return x + first.by + table["off"], [first, element, pair]


def test_what_is_read_behind_a_graph_outlives_what_held_it() -> None:
    clears = False

    def clearing(graph: evalframe.Graph, examples: list[Any]) -> Any:
        def run_graph(*inputs: Any) -> Any:
            if clears:
                stage.parts, stage.row, stage.pair, stage.gain.table = {}, [Gain(1.0)], (), {}
                gc.collect()
            return graph(*inputs)

        return run_graph

    captured, stage = evalframe.jit(held_over_a_break, backend=clearing), Stage()
    x = np.linspace(0.0, 1.0, 3)
    for _ in range(SETTLED):
        captured(stage, x)
    wanted = held_over_a_break(stage, x)[0]
    clears = True
    array, (first, element, pair) = captured(stage, x)
    np.testing.assert_array_equal(array, wanted)
    assert (first.by, element.by, pair[0].by) == (3.0, 5.0, 6.0)


class Collecting:
    """Its end changes what guards ask for."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.self = stage, self

    def __del__(self) -> None:
        self.stage.parts = {"only": Gain(1.0)}


def test_a_collection_between_calls_may_change_everything() -> None:
    captured, stage = evalframe.jit(run), Stage()
    threshold = gc.get_threshold()
    gc.set_threshold(3)
    x = np.linspace(0.0, 1.0, 3)
    try:
        for number in range(60):
            if number % 5 == 4:
                Collecting(stage)
            if number % 5 == 1:
                stage.parts = {"first": Gain(3.0)}
            before, found, after = run(stage, x), captured(stage, x), run(stage, x)
            assert any(np.array_equal(found, each) for each in (before, after))
    finally:
        gc.set_threshold(*threshold)
    assert gc.isenabled()


class Bare:
    """Its instances have no dict until somebody asks for it."""

    value: Any


def in_list() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    held: list[Any] = [None]
    return lambda: held[0], lambda value: held.__setitem__(0, value)


def in_cell() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    held = None

    def put(value: Any) -> None:
        nonlocal held
        held = value

    return lambda: held, put


def in_slot() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    held = Slotted(None)
    return lambda: held.inner, lambda value: setattr(held, "inner", value)


def in_itself() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    held = Bare()
    return lambda: held.value, lambda value: setattr(held, "value", value)


def in_tuple_of_list() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    held: list[Any] = [None]
    return lambda: held[0][1], lambda value: held.__setitem__(0, (held, value))


def in_numbers_of_itself() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    held = Bare()
    return lambda: held.value[1], lambda value: setattr(held, "value", (1, value))


def in_object_of_list() -> tuple[Callable[[], Any], Callable[[Any], None]]:
    held: list[Any] = [None]

    def put(value: Any) -> None:
        held[0] = Bare()
        held[0].value = (held, Slotted(value))

    return lambda: held[0].value[1].inner, put


PLACES = [in_list, in_cell, in_slot, in_itself, in_tuple_of_list, in_numbers_of_itself, in_object_of_list]


@pytest.mark.parametrize("made", [float, lambda number: f"text {number}", lambda number: (float(number), "text"), lambda number: float(number) if number % 2 else complex(number)])
@pytest.mark.parametrize("place", PLACES)
def test_another_object_at_the_address_of_one_that_is_gone(place: Callable[[], Any], made: Callable[[int], Any]) -> None:
    held, put = place()
    wanted = [made(number) for number in range(4)]

    def which(x: Any) -> Any:
        value = held()
        for number in range(4):
            if value == wanted[number]:
                return x + number
        return x

    captured = evalframe.jit(which, fullgraph=True, dynamic=False)
    x, numbers = np.arange(3.0), random.Random(0)
    for _ in range(300):
        others = [made(number + 10) for number in range(numbers.randrange(4))]
        number = numbers.randrange(4)
        for _ in range(numbers.randrange(1, 3)):
            put(None)
            put(made(number))
            del others[: numbers.randrange(3)]
            np.testing.assert_array_equal(captured(x), x + number)
