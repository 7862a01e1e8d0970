"""Attributes behind a __getattribute__ or __getattr__ of the program's, asked for by name, with a default, or whether they are there."""

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
from helpers import differential_tests, one_graph_tests, outcome, put_into, same

A = np.linspace(-1.0, 2.0, 12)
B = np.arange(12.0) - 3
CALLS = [(A, B), (B, A), (A, -A)]
CASES: list[Callable[..., Any]] = []
IN_ONE_GRAPH: list[Callable[..., Any]] = []
case = put_into(CASES)
in_one_graph = put_into(CASES, IN_ONE_GRAPH)
LOG: list[Any] = []


class Layered:
    def __getattribute__(self, key):
        layers = super().__getattribute__("__dict__").get("_layers")
        if layers is not None and key in layers:
            raise AttributeError(f"{key} is another one in each layer")
        return super().__getattribute__(key)


class Config(Layered):
    attribute_map = {"size": "width", "heads": "count"}

    def __init__(self, width, count, **more):
        self.width = width
        self.count = count
        for name, value in more.items():
            setattr(self, name, value)

    def __setattr__(self, key, value):
        if key in super().__getattribute__("attribute_map"):
            key = super().__getattribute__("attribute_map")[key]
        super().__setattr__(key, value)

    def __getattribute__(self, key):
        if key != "attribute_map" and key in super().__getattribute__("attribute_map"):
            key = super().__getattribute__("attribute_map")[key]
        return super().__getattribute__(key)

    @property
    def area(self):
        return self.size * self.heads

    def scaled(self, x):
        return x * self.size


class Slotted:
    __slots__ = ("scale", "unset")

    def __init__(self, scale):
        self.scale = scale

    def __getattribute__(self, key):
        return object.__getattribute__(self, "scale" if key == "gain" else key)


class Parts:
    """Keeps its parts as torch.nn.Module does."""

    training = False

    def __init__(self, **parts):
        self.__dict__["_parts"] = parts

    def __getattr__(self, name):
        if "_parts" in self.__dict__:
            parts = self.__dict__["_parts"]
            if name in parts:
                return parts[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


class Failing:
    def __getattr__(self, name):
        if name == "missing":
            raise AttributeError(name)
        raise ValueError(name)

    @property
    def broken(self):
        return self.missing


class Describing:
    def __init__(self, scale):
        self.scale = scale

    def __get__(self, owner, kind):
        if owner is None or self.scale < 0:
            raise AttributeError("described")
        return owner.factor * self.scale


class Storing(Describing):
    def __set__(self, owner, value):
        owner.factor = value


class Asking(type):
    @property
    def shown(cls):
        raise AttributeError("shown")

    def __getattr__(cls, name):
        return f"class {name}"


class Asked(metaclass=Asking):
    good, bad = Describing(2), Describing(-1)
    kept, lost = Storing(3), Storing(-3)

    def __init__(self, factor):
        self.factor = factor

    def __getattr__(self, name):
        if name == "nowhere":
            raise AttributeError("nowhere at all")
        return f"asked {name}"

    @property
    def given(self):
        return self.factor + 1

    @property
    def refused(self):
        raise AttributeError("refused")

    @property
    def failing(self):
        raise LookupError("failing")

    @property
    def nowhere(self):
        raise AttributeError("in the property")


class AskedTwice:
    def __getattribute__(self, name):
        if name.startswith("a"):
            raise AttributeError(name)
        return object.__getattribute__(self, name)

    def __getattr__(self, name):
        if name == "anywhere":
            raise AttributeError("nowhere")
        return name * 2


class Telling:
    def __getattr__(self, name):
        LOG.append(name)
        raise AttributeError(name)


CONFIG = Config(3, 2, hidden=True)
LAYERED = Config(3, 2)
LAYERED.__dict__["_layers"] = ("width",)
SLOTTED = Slotted(2.5)
PARTS = Parts(weight=A * 2, bias=None)


@in_one_graph
def mapped_attributes(x: Any, y: Any) -> Any:
    return x * CONFIG.size + y * CONFIG.width, CONFIG.heads, CONFIG.area, CONFIG.scaled(y), CONFIG.attribute_map is Config.attribute_map


@in_one_graph
def of_a_made_object(x: Any, y: Any) -> Any:
    made = Config(2, 5)
    made.size = 7
    return x * made.size, made.width, getattr(made, "heads", None), getattr(made, "nothing", y), hasattr(made, "size")


@in_one_graph
def with_a_default(x: Any, y: Any) -> Any:
    return getattr(CONFIG, "size", 1) * x, getattr(CONFIG, "nothing", y), getattr(CONFIG, "hidden", None), getattr(LAYERED, "size", "none")


@in_one_graph
def whether_there(x: Any, y: Any) -> Any:
    there = [hasattr(CONFIG, name) for name in ("size", "width", "nothing", "area")]
    return x + y, there, hasattr(LAYERED, "width"), hasattr(LAYERED, "count"), hasattr(PARTS, "weight"), hasattr(PARTS, "gain")


@in_one_graph
def in_slots(x: Any, y: Any) -> Any:
    return x * SLOTTED.gain + SLOTTED.scale * y


@case
def in_an_empty_slot(x: Any, y: Any) -> Any:
    z = x + y
    return z, hasattr(SLOTTED, "unset"), getattr(SLOTTED, "unset", None), hasattr(SLOTTED, "gain")


@in_one_graph
def of_parts(x: Any, y: Any) -> Any:
    bias = getattr(PARTS, "bias", 3)
    scale = getattr(PARTS, "scale", 2.0)
    return x * PARTS.weight * scale if bias is None else y, getattr(PARTS, "training", None), getattr(PARTS, "weight", None) is PARTS.weight


@case
def other_errors_go_on(x: Any, y: Any) -> Any:
    z = x * 2
    try:
        return getattr(Failing(), "other", None), z
    except ValueError as error:
        return str(error), z


@case
def other_errors_of_hasattr(x: Any, y: Any) -> Any:
    z = x * 2
    try:
        return hasattr(Failing(), "other"), z
    except ValueError as error:
        return str(error), hasattr(Failing(), "missing"), z


@in_one_graph
def properties_that_raise(x: Any, y: Any) -> Any:
    asked = Asked(x)
    return asked.given + y, asked.refused, getattr(asked, "refused", None), hasattr(asked, "refused"), asked.good, asked.bad, asked.kept, asked.lost


@in_one_graph
def properties_of_classes_that_raise(x: Any, y: Any) -> Any:
    return x + y, Asked.shown, Asked.good, Asked.other, hasattr(Asked, "bad")


@case
def what_both_raise(x: Any, y: Any) -> Any:
    z, asked = x + y, Asked(2)
    told: list[Any] = []
    for name in ("nowhere", "failing"):
        try:
            getattr(asked, name)
        except Exception as error:
            told.append((type(error), str(error), error.__context__ and str(error.__context__)))
    try:
        return asked.nowhere
    except AttributeError as error:
        return z, told, str(error), error.__context__, hasattr(asked, "nowhere"), getattr(asked, "nowhere", 3)


@in_one_graph
def asked_twice(x: Any, y: Any) -> Any:
    one = AskedTwice()
    one.b = x  # type: ignore[attr-defined]
    return one.a, one.b + y, hasattr(one, "anywhere"), hasattr(one, "c"), getattr(one, "anywhere", 1)  # type: ignore[attr-defined]


@in_one_graph
def in_a_handler(x: Any, y: Any) -> Any:
    z = x - y
    try:
        raise KeyError("one")
    except KeyError:
        return getattr(Failing(), "missing", z), hasattr(Failing(), "missing")


@case
def what_is_handled(x: Any, y: Any) -> Any:
    z = x - y
    try:
        raise KeyError("one")
    except KeyError:
        return getattr(Failing(), "missing", z), repr(sys.exc_info()[1])


@case
def errors_of_a_property_and_of_what_is_asked_then(x: Any, y: Any) -> Any:
    return x + y, getattr(Failing(), "broken", None)


@case
def behind_a_handler(x: Any, y: Any) -> Any:
    z = x + getattr(Failing(), "missing", y)
    return z, sys.exc_info()


@case
def tells(x: Any, y: Any) -> Any:
    LOG.clear()
    told = Telling()
    z = getattr(told, "first", x) + y
    return z, hasattr(told, "second"), list(LOG)


@case
def breaks_inside(x: Any, y: Any) -> Any:
    class Breaking:
        def __getattr__(self, name: str) -> Any:
            if (x + y).sum() > 1e9:
                return x
            raise AttributeError(name)

    one = Breaking()
    return getattr(one, "a", x * 2) + y, hasattr(one, "b")


@case
def wrong_arguments(x: Any, y: Any) -> Any:
    z = x + y
    try:
        return getattr(CONFIG, 3, None), z
    except TypeError as error:
        return str(error), z


class Forwarding(types.ModuleType):
    def __init__(self, name, kept):
        super().__init__(name)
        self.kept = kept

    def __getattr__(self, name):
        return getattr(self.kept, name)


FORWARDING = Forwarding("forwarding", types.SimpleNamespace(exp=np.exp, sqrt=np.sqrt))


@in_one_graph
def of_a_module_that_forwards(x: Any, y: Any) -> Any:
    return FORWARDING.exp(x) + FORWARDING.sqrt(y * y), FORWARDING.kept.exp is np.exp, getattr(FORWARDING, "nothing", 3)


test_behaves_as_plain_python, test_may_be_left_before_every_node = differential_tests(CASES, CALLS * 4, left=CALLS, nodes=8)
test_is_one_graph = one_graph_tests(IN_ONE_GRAPH, (A, B))


def test_objects_that_change_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    config, parts = Config(3, 2), Parts(weight=A)

    def read(x: Any) -> Any:
        scale = getattr(config, "size", 1)
        return x * scale + getattr(parts, "shift", 0.5), hasattr(config, "extra"), hasattr(parts, "weight"), getattr(config, "heads", None)

    captured = evalframe.jit(read, backend="reference")

    def both() -> None:
        for _ in range(3):
            assert same(captured(B), read(B))

    both()
    recordings = _core.jit_counters(captured)["recordings"]
    both()
    assert _core.jit_counters(captured)["recordings"] == recordings
    config.size = 10
    both()
    vars(parts)["_parts"]["shift"] = A
    both()
    config.extra = 1
    both()
    del vars(parts)["_parts"]["weight"]
    both()
    vars(config)["_layers"] = ("width",)
    both()
    vars(parts)["shift"] = 4.0
    both()
    monkeypatch.setattr(Config, "attribute_map", {"size": "count"})
    both()
    monkeypatch.setattr(Config, "extra", property(lambda self: 1), raising=False)
    both()
    monkeypatch.setattr(Layered, "__getattribute__", lambda self, key: object.__getattribute__(self, key))
    both()


def test_what_a_module_that_forwards_gives_is_looked_for_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(x):
        return FORWARDING.sqrt(x * x) * 2

    captured = evalframe.jit(read)

    def both() -> None:
        for _ in range(3):
            assert repr(outcome(captured, B)) == repr(outcome(read, B))

    both()
    monkeypatch.setattr(FORWARDING, "sqrt", np.cbrt, raising=False)
    both()
    monkeypatch.undo()
    both()
    monkeypatch.setattr(Forwarding, "__getattr__", lambda self, name: np.exp)
    both()
    monkeypatch.setattr(Forwarding, "sqrt", staticmethod(np.abs), raising=False)
    both()
    monkeypatch.undo()
    monkeypatch.setattr(FORWARDING, "kept", types.SimpleNamespace(sqrt=np.square))
    both()
    monkeypatch.setattr(FORWARDING, "kept", types.SimpleNamespace())
    both()


class UnitArray(np.ndarray):
    def __getattr__(self, name):
        if name == "unit":
            return "m"
        raise AttributeError(name)

    def with_unit(self, unit):
        self._unit = unit
        return self


class AskedArray(np.ndarray):
    def __getattribute__(self, name):
        return super().__getattribute__(name)


METHODS = [
    lambda x: (x * 2).view(np.recarray).sum(),
    lambda x: (x * 2).view(UnitArray).sum(),
    lambda x: (x * 2).view(UnitArray).with_unit(1).unit,
    lambda x: (x * 2).view(AskedArray).reshape(2, -1).max(),
    lambda x: (x * 2).view(np.matrix).mean(),
    lambda x: (x * 2).view(np.recarray).missing(),
]


@pytest.mark.parametrize("number", range(len(METHODS)))
def test_methods_of_arrays_whose_class_is_asked(number: int) -> None:
    """What such a class gives isn't taken apart into a function and its first argument."""
    captured = evalframe.jit(METHODS[number])
    for _ in range(4):
        for x in (np.arange(6.0), np.arange(8)):
            wanted, got = outcome(METHODS[number], x), outcome(captured, x)
            assert repr(wanted) == repr(got)
