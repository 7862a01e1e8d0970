"""Descriptors that only give what an object hasn't got yet, properties of classes of the program's, and keys that are rows of classes."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from helpers import outcome, same

A = np.linspace(-1.0, 2.0, 5)


class Lazy:
    def __init__(self, function):
        self.function = function

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        value = self.function(instance)
        setattr(instance, self.function.__name__, value)
        return value


class Told(property):
    """A property that knows more."""

    def __init__(self, function, note=None):
        super().__init__(function)
        self.note = note


class Other(property):
    def __get__(self, instance, owner=None):
        return "other"


class Thing:
    def __init__(self, scale, area=None):
        self.scale = scale
        if area is not None:
            self.area = area

    @Lazy
    def area(self):
        return self.scale * self.scale

    @Lazy
    def fails(self):
        raise AttributeError("no")

    @property
    def double(self):
        return self.scale * 2

    def _half(self):
        return self.scale / 2

    half = Told(_half, note="half")
    other = Other(_half)


class Sub(Thing):
    pass


DOUBLE = vars(Thing)["double"]
RULES: dict[Any, Any] = {(Thing, Thing): "both", (Thing, Sub): "one", (Sub, 3): "three", 7: "seven"}


def computed_once(a):
    thing = Thing(a)
    before = "area" in vars(thing)
    return before, thing.area, thing.area is thing.area, list(vars(thing)), thing.half + thing.double


def stored_before(a):
    thing = Thing(a, area=a + 1)
    thing.area = thing.area * 2
    return thing.area, vars(thing)["area"]


def given_away(a):
    thing = Thing(a, area=a)
    thing.area
    return thing


def of_the_class(a):
    return Thing.double is DOUBLE, Thing.half.note, isinstance(Thing.area, Lazy), getattr(Thing, "double") is Thing.double, a + 1


def without_setter(a):
    thing = Thing(a)
    try:
        thing.half = a
    except AttributeError:
        return thing.half


def overridden(a):
    return Thing(a).other, a * 2


def failing(a):
    return getattr(Thing(a), "fails", None), a - 1


def looked_up(a):
    thing, sub = Thing(a), Sub(a)
    found = [RULES[type(thing), type(thing)], RULES[type(thing), type(sub)], RULES[type(sub), 3], RULES[7]]
    try:
        found.append(RULES[type(sub), type(sub)])
    except KeyError as error:
        found.append(error.args)
    return found, a + 1


FUNCTIONS: list[Callable[..., Any]] = [
    computed_once, stored_before, given_away, of_the_class, without_setter, overridden, failing, looked_up,
]  # fmt: skip


def told(function, *arguments):
    (how, value), warned = outcome(function, *arguments)
    return how, (type(value), vars(value)) if isinstance(value, Thing) else value, warned


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_behaves_as_plain_python(function, backend):
    captured = evalframe.jit(function, backend=backend)
    for a in (A, A * 2, A, A.astype(np.float32)):
        assert same(told(captured, a), told(function, a))


@pytest.mark.parametrize("function", [computed_once, stored_before, of_the_class], ids=lambda f: f.__name__)
def test_is_one_graph(function):
    captured = evalframe.jit(function)
    captured(A)
    assert list(map(str, evalframe.explain(captured)(A).breaks)) == []


def test_a_descriptor_that_begins_to_store_is_asked():
    class Late(Lazy):
        pass

    class Holder:
        value = Late(lambda self: 1)

    def stores(a):
        holder = Holder()
        holder.value = a
        return vars(holder)

    captured = evalframe.jit(stores)
    assert same(captured(A), {"value": A}) and same(captured(A), {"value": A})
    Late.__set__ = lambda self, instance, value: vars(instance).update(hidden=value)
    assert same(captured(A), {"hidden": A}) and same(captured(A), {"hidden": A})


def test_rules_that_change_are_seen():
    rules = {(Thing, Thing): 1.0}

    def scaled(thing, a):
        return a * rules[type(thing), type(thing)]

    captured = evalframe.jit(scaled)
    thing = Thing(A)
    assert same(captured(thing, A), A) and same(captured(thing, A), A)
    rules[Thing, Thing] = 2.0
    assert same(captured(thing, A), A * 2)
    rules[Sub, Sub] = 3.0
    assert same(captured(Sub(A), A), A * 3) and same(captured(thing, A), A * 2)
    del rules[Thing, Thing]
    with pytest.raises(KeyError):
        captured(thing, A)
