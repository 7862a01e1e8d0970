"""Attributes that recorded code stores, and properties: same effects in the same order as plain Python's, wherever the graph is left."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import leaving_before, outcome, same

A = np.linspace(-1.0, 2.0, 12)
B = np.arange(12.0) - 3
MODULE = types.ModuleType("settings")
LAST: Any = None


class Body:
    count = 0

    def __init__(self) -> None:
        self.position = A * 0
        self.velocity = B * 0.5
        self.time = 0.0
        self.mass = 2.0

    def move(self, force, dt=0.1):
        self.velocity += force / self.mass * dt
        self.position = self.position + self.velocity * dt
        self.time += dt
        self.count += 1
        return self

    @property
    def energy(self):
        return 0.5 * self.mass * (self.velocity * self.velocity).sum()

    @property
    def speed(self):
        return self._speed

    @speed.setter
    def speed(self, value):
        self._speed = value * 2
        self.velocity = self.velocity + value

    @property
    def broken(self):
        z = self.velocity + 1
        return z @ np.ones(5)

    @broken.setter
    def broken(self, value):
        self.half = value
        raise ValueError("broken")


class Slotted:
    __slots__ = ("x", "y")

    def __init__(self) -> None:
        self.x = A


class Watching:
    def __setattr__(self, name, value):
        LOG.append(name)
        object.__setattr__(self, name, value)


class Pair:
    def __init__(self) -> None:
        self.left, self.right = Body(), Body()
        self.slotted = Slotted()
        self.history: list[Any] = [A]
        self.other = self.history
        self.watching = Watching()


LOG: list[Any] = []
OBJECTS = ("left", "right", "slotted", "watching", "history", "other")


def state_of(pair):
    def fields(o):
        return [(k, list(v.items()) if isinstance(v, dict) else v) for k, v in vars(o).items() if k not in OBJECTS]

    slots = [getattr(pair.slotted, name, None) for name in Slotted.__slots__]
    return pair.history, pair.other is pair.history, fields(pair), fields(pair.left), fields(pair.right), slots, fields(pair.watching), pair.left is pair.right, vars(MODULE).get("last"), LAST


def attributes_that_nothing_has(pair, x, y):
    nothing, number = None, 2.5
    try:
        nothing.shape
    except AttributeError as error:
        told = str(error)
    return x + getattr(nothing, "shift", 1), y * getattr(number, "nope", 2), hasattr((x,), "shape"), hasattr([y], "append"), told


def moves(pair, x, y):
    body = pair.left.move(x)
    body.move(y, 0.2)
    return body.position * 2, body.count, body.time


def swaps(pair, x, y):
    pair.left, pair.right = pair.right, pair.left
    pair.left.position = x + 1
    pair.right.position = y * 2
    pair.left.velocity, pair.right.velocity = pair.right.velocity, pair.left.velocity
    return pair.left.position - pair.right.position


def aliased(pair, x, y):
    first, second = pair.left, pair.right
    first.position = x + 1
    second.position = second.position * 2
    first.tag = y
    return first.position, second.position


def one_object_twice(pair, x, y):
    pair.right = pair.left
    pair.right.position = x * 3
    pair.left.extra = pair.left.position + y
    return pair.right.extra


def raises_in_between(pair, x, y):
    pair.left.first = x + 1
    pair.left.second = pair.left.first @ np.ones(5)
    pair.left.third = y


def handled(pair, x, y):
    try:
        raises_in_between(pair, x, y)
    except ValueError as error:
        pair.left.error = str(error)
    pair.left.third = x * 2
    return pair.left.third + 1


def breaks_in_between(pair, x, y):
    body = pair.left
    body.before = x * 2
    if (x + y).sum() > 0:
        body.side = y
    body.after = body.before + 1
    body.before = None
    return body.after


def slots(pair, x, y):
    pair.slotted.x = x - y
    pair.slotted.y = pair.slotted.x * 2
    pair.slotted.x += 1
    return pair.slotted.y


def own_setattr(pair, x, y):
    pair.watching.value = x + 1
    pair.watching.value = y
    return pair.watching.value * 2


def containers(pair, x, y):
    row = [x]
    pair.left.row = row
    row.append(y * 2)
    pair.left.row.append(3)
    pair.left.table = {"a": row}
    return pair.left.row is row, pair.left.table["a"] is row, len(row)


def globals_and_modules(pair, x, y):
    global LAST
    LAST = x + 1
    pair.left.seen = LAST
    MODULE.last = LAST * 2
    LAST = MODULE.last - y
    return LAST


def shadows_a_method(pair, x, y):
    body = pair.right
    body.move = scaled
    z = body.move(x)
    del body.move
    return z + body.move(y).position


def scaled(x, by=2):
    return x * by


def appends(pair, x, y):
    body = pair.left.move(x)
    pair.history.append(body.position)
    history = pair.history
    history.append([y, body.time])
    pair.left.rows = [history, history]
    return history, body.position * 2


def looks_after_appending(pair, x, y):
    pair.history.append(x * 2)
    n = len(pair.other)
    pair.history.append(y - 1)
    z = pair.other[-1] * n
    for a in pair.history[-2:]:
        z = z + a
    return z if pair.other else x


def kept(history, x):
    history.append(x)
    return history


def appends_in_calls(pair, x, y):
    z = kept(pair.other, x + 1)
    w = Holder(z, y)
    w.add(y * 2)
    return w.rows is z, z is pair.history, w.last


class Holder:
    def __init__(self, rows, last):
        self.rows, self.last = rows, last

    def add(self, a):
        self.rows.append(a + self.last)
        self.last = a


def appends_while_iterating(pair, x, y):
    for a in pair.other:
        if len(pair.history) < 6:
            pair.history.append(a + x)
    return len(pair.other)


def appends_turn_by_turn(pair, x, y):
    for i in range(40):
        pair.history.append(x * i)
        y = y + 1
    return y


def raises_behind_append(pair, x, y):
    pair.history.append(x + 1)
    pair.history.append((x + 2) @ np.ones(5))


def missing(pair, x, y):
    z = x + 1
    try:
        return pair.slotted.nothing
    except AttributeError as error:
        text = str(error)
    try:
        pair.slotted.other = z
    except AttributeError as error:
        return text, str(error), z


def reads_properties(pair, x, y):
    return pair.left.energy * x + pair.right.energy, pair.left.energy


def sets_properties(pair, x, y):
    pair.left.speed = x
    pair.left.speed += y
    return pair.left.speed, pair.left.velocity


def broken_property(pair, x, y):
    z = x + 1
    return pair.left.broken + z


def broken_setter(pair, x, y):
    pair.left.before = x
    pair.left.broken = y * 2
    return x


def no_setter(pair, x, y):
    z = x + 1
    try:
        pair.left.energy = z
    except AttributeError as error:
        return str(error), z


def in_a_loop(pair, x, y):
    for i in range(12):
        pair.left.position = pair.left.position + x * i
        pair.left.steps = i
        if i % 5 == 4:
            pair.right.position = pair.left.position
    return pair.left.position


def in_a_long_loop(pair, x, y):
    for i in range(80):
        pair.left.move(x)
    return pair.left.count


def over_objects(pair, x, y):
    for body in (pair.left, pair.right, pair.left):
        body.position = body.position + body.velocity * 0.5
        body.velocity = x - body.position
    return pair.left.position + y


FUNCTIONS: list[Callable[..., Any]] = [
    attributes_that_nothing_has,
    moves, swaps, aliased, one_object_twice, raises_in_between, handled, breaks_in_between, slots, own_setattr, containers,
    globals_and_modules, shadows_a_method, missing, reads_properties, sets_properties, broken_property, broken_setter,
    appends, looks_after_appending, appends_in_calls, appends_while_iterating, appends_turn_by_turn, raises_behind_append,
    no_setter, in_a_loop, in_a_long_loop, over_objects,
]  # fmt: skip
IN_ONE_GRAPH = [attributes_that_nothing_has, moves, swaps, aliased, one_object_twice, slots, containers, globals_and_modules, reads_properties, over_objects, appends]
ARGUMENTS = [(A, B), (B, A), (A, -A)]


def effects(function: Callable[..., Any], *arguments: Any, one_body: bool = False, calls: int = 1) -> Any:
    """What calls on a new pair come to: results, and what is left in the pair and in globals."""
    global LAST
    LAST = None
    vars(MODULE).pop("last", None)
    LOG.clear()
    pair = Pair()
    if one_body:
        pair.right = pair.left
    results = [(outcome(function, pair, *arguments), state_of(pair)) for _ in range(calls)]
    return results, LOG[:]


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_behaves_as_plain_python(function: Callable[..., Any], backend: str) -> None:
    captured = evalframe.jit(function, backend=backend)
    for round in range(5):
        for arguments in ARGUMENTS:
            one_body = round % 2 == 1
            expected = effects(function, *arguments, one_body=one_body, calls=3)
            assert same(effects(captured, *arguments, one_body=one_body, calls=3), expected), round


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_may_be_left_before_every_node(function: Callable[..., Any], backend: str) -> None:
    captured = evalframe.jit(function, backend=backend)
    for node in range(14):
        effects(captured, *ARGUMENTS[0])
        with leaving_before(node):
            for one_body in (False, True):
                for arguments in ARGUMENTS:
                    expected = effects(function, *arguments, one_body=one_body, calls=2)
                    assert same(effects(captured, *arguments, one_body=one_body, calls=2), expected), node


@pytest.mark.parametrize("function", IN_ONE_GRAPH, ids=lambda f: f.__name__)
def test_is_one_graph(function: Callable[..., Any]) -> None:
    captured = evalframe.jit(function, fullgraph=True)
    pair = Pair()
    for _ in range(6):
        captured(pair, A, B)
    assert _core.jit_counters(captured)["recordings"] <= 3


def test_stored_values_are_not_held() -> None:
    def store(body, x):
        body.position = x * 2
        return body.position

    captured = evalframe.jit(store)
    body = Body()
    for _ in range(4):
        captured(body, A)

    def counts(function):
        kept = [function(body, A) for _ in range(10)]
        assert kept[-1] is body.position
        return sys.getrefcount(body), [sys.getrefcount(value) for value in kept]

    assert counts(captured) == counts(store)


def test_classes_and_objects_that_change_are_seen() -> None:
    def store(body, x):
        body.position = x * 2
        body.mass += 1
        return body.position

    class Child(Body):
        pass

    captured = evalframe.jit(store)
    body = Child()
    for _ in range(3):
        assert same(captured(body, A), A * 2)
    Child.position = property(lambda self: self.kept + 1, lambda self, value: setattr(self, "kept", value * 10))  # type: ignore
    assert same(captured(body, A), A * 20 + 1)
    del Child.position
    assert same(captured(body, A), A * 2)

    def watch(self, name, value):
        LOG.append(name)
        object.__setattr__(self, name, value)

    LOG.clear()
    Child.__setattr__ = watch  # type: ignore
    captured(body, B)
    assert LOG == ["position", "mass"] and same(body.position, B * 2)


def test_a_finaliser_runs_once_and_sees_what_was_stored() -> None:
    class Old:
        def __init__(self, body):
            self.body = body

        def __del__(self):
            LOG.append((self.body.first is not None, self.body.second is not None))  # type: ignore

    def store(body, x):
        body.first = x + 1
        body.old = None
        body.second = x * 2

    captured = evalframe.jit(store)
    for function in (store, captured, captured, captured):
        body = Body()
        body.first = body.second = None  # type: ignore
        body.old = Old(body)  # type: ignore
        LOG.clear()
        function(body, A)
        assert LOG == [(True, False)]


def test_cached_property_is_computed_when_it_is_read() -> None:
    from functools import cached_property

    class Lazy:
        def __init__(self, x):
            self.x = x

        @cached_property
        def doubled(self):
            LOG.append("computed")
            return self.x * 2

    def read(lazy, x, flag):
        y = x + 1
        return y if flag.sum() > 0 else y + lazy.doubled

    captured = evalframe.jit(read)
    for flag in (B * 0 - 1, B * 0 + 1, B * 0 - 1, B * 0 + 1):
        for _ in range(3):
            LOG.clear()
            expected = read(Lazy(A), B, flag)
            log = LOG[:]
            LOG.clear()
            assert same(captured(Lazy(A), B, flag), expected) and LOG == log


def test_globals_that_are_an_objects_attributes_are_noticed() -> None:
    """3.13 stores attributes without telling the dict that they are in."""

    class Space:
        pass

    space = Space()
    space.factor = 2.0  # type: ignore[attr-defined]
    code = compile("def scaled(x):\n    return x * factor + 1", "<made>", "exec").co_consts[0]
    scaled = types.FunctionType(code, vars(space))
    captured = evalframe.jit(scaled)
    x = np.arange(5.0)
    for turn in range(10):
        if turn > 4:
            space.factor = float(turn)  # type: ignore[attr-defined]
        np.testing.assert_array_equal(captured(x), scaled(x))


class AsksElsewhere:
    def __getattr__(self, name: str) -> Any:
        raise AttributeError


class AsksFirst:
    def __getattribute__(self, name: str) -> Any:
        raise AttributeError("first")


class HasProperty:
    @property
    def gain(self) -> Any:
        raise AttributeError("property")


class Descriptor:
    def __get__(self, owner: Any, kind: Any) -> Any:
        raise AttributeError("descriptor")


class HasDescriptor:
    gain = Descriptor()


class HasPropertyAndAsks(HasProperty):
    def __getattr__(self, name: str) -> Any:
        raise AttributeError("asked")


class SaysItself:
    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name="other", obj=3)


# CPython 3.12 and later don't note them behind __getattribute__ and properties once they have specialised the instruction.
OFTEN_FORGOTTEN = [AsksFirst, HasProperty] if sys.version_info < (3, 12) else []


@pytest.mark.parametrize("kind", [AsksElsewhere, HasDescriptor, HasPropertyAndAsks, SaysItself, *OFTEN_FORGOTTEN])
def test_an_error_of_an_attribute_knows_its_object_and_name(kind: Any) -> None:
    def asks(x: Any, of: Any) -> Any:
        y = x * 2
        try:
            return y + of.gain
        except AttributeError as error:
            return y, error.name, error.obj is of, error.obj == 3, str(error)

    captured = evalframe.jit(asks, backend="reference")
    for _ in range(3):
        of = kind()
        assert same(captured(np.arange(4.0), of), asks(np.arange(4.0), of))
        with leaving_before(1):
            assert same(captured(np.arange(4.0), of), asks(np.arange(4.0), of))
