"""iter() and enumerate() of instances whose class has an __iter__ of Python's, and the text of classes."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import differential_tests, one_graph_tests, put_into, same

A = np.linspace(-1.0, 2.0, 12)
B = np.arange(12.0) - 3
CALLS = [(A, B), (B, A), (A, -A)]
CASES: list[Callable[..., Any]] = []
IN_ONE_GRAPH: list[Callable[..., Any]] = []
case = put_into(CASES)
in_one_graph = put_into(CASES, IN_ONE_GRAPH)
LOG: list[str] = []


class Layers:
    def __init__(self, *layers):
        self.layers = dict(enumerate(layers))

    def __iter__(self):
        return iter(self.layers.values())


class Shared:
    """Gives the same iterator each time."""

    def __init__(self, items):
        self.items = iter(items)

    def __iter__(self):
        return self.items


class Walking:
    """Its own iterator, which tells how often it is asked for one."""

    def __init__(self):
        self.at = 0

    def __iter__(self):
        LOG.append("iter")
        return self

    def __next__(self):
        self.at += 1
        if self.at > 3:
            raise StopIteration
        return self.at


class Leading:
    """Leads to an iterator of the program's that is asked for one of its own by nobody but a loop."""

    def __iter__(self):
        LOG.append("lead")
        return Walking()


class OnlySteps:
    def __init__(self):
        self.at = 0

    def __next__(self):
        self.at += 1
        if self.at > 3:
            raise StopIteration
        return self.at


class LeadingToSteps:
    """Nobody can loop over what it gives."""

    def __len__(self):
        LOG.append("len")
        return 1

    def __iter__(self):
        return OnlySteps()


class Generated:
    def __iter__(self):
        yield 1.0
        yield 2.0


class Counted:
    def __init__(self, *items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, number):
        return self.items[number]

    def __iter__(self):
        return iter(self[number] for number in range(len(self)))


class Failing:
    def __iter__(self):
        yield 1.0
        raise ValueError("no more")


class Wrong:
    def __iter__(self):
        return 3


class Measured(Counted):
    """Tells in which order it is asked, and may refuse."""

    def __init__(self, error, *items):
        super().__init__(*items)
        self.error = error

    def __len__(self):
        LOG.append("len")
        if self.error is not None:
            raise self.error
        return len(self.items)

    def __iter__(self):
        LOG.append("iter")
        return iter([*self.items])


LAYERS = Layers(1.0, 2.5, A)
GENERATED = Generated()
COUNTED = Counted(1.0, 2.5, 0.5)


@in_one_graph
def enumerated(x: Any, y: Any) -> Any:
    for i, layer in enumerate(LAYERS):
        x = x * layer + i
    return x + y


@in_one_graph
def enumerated_instances_made_here(x: Any, y: Any) -> Any:
    return [(i, layer * y) for i, layer in enumerate(Layers(x, y, 2.0))]


@in_one_graph
def enumerated_generators(x: Any, y: Any) -> Any:
    for i, scale in enumerate(GENERATED):
        x = x * scale + i
    walked = iter(GENERATED)
    return x + y, next(walked), list(walked), [i for i, _ in enumerate(Generated())]


@case
def enumerated_generators_that_fail(x: Any, y: Any) -> Any:
    found = []
    try:
        for i, scale in enumerate(Failing()):
            found.append((i, scale))
            x = x * scale
    except ValueError as error:
        found.append(str(error))
    return x + y, found


@in_one_graph
def lists_of_what_has_a_length(x: Any, y: Any) -> Any:
    for scale in list(COUNTED):
        x = x * scale
    return x + y, tuple(COUNTED), list(COUNTED)[1:]


@case
def a_length_is_asked_for_behind_the_iterator(x: Any, y: Any) -> Any:
    LOG.clear()
    found = [list(Measured(None, 1.0, 2.0)), tuple(Measured(TypeError("none"), 3.0))]
    try:
        found.append(list(Measured(ValueError("no"), 4.0)))
    except ValueError as error:
        found.append(str(error))
    return x + y, found, LOG[:]


@in_one_graph
def an_iterator_asked_for(x: Any, y: Any) -> Any:
    layers = iter(LAYERS)
    first = next(layers)
    return x * first + y, list(layers)


@case
def enumerated_from_another_number(x: Any, y: Any) -> Any:
    z = x + y
    return z, [i for i, _ in enumerate(LAYERS, 3)], [i for i, _ in enumerate(LAYERS, start=2)]


@case
def an_iterator_that_is_shared(x: Any, y: Any) -> Any:
    shared = Shared([1.0, 2.0, 3.0, 4.0])
    numbered = enumerate(shared)
    z = x * next(numbered)[1]
    return z, next(shared.items), next(numbered), list(numbered), list(shared) + [y]


@case
def instances_that_are_iterators(x: Any, y: Any) -> Any:
    LOG.clear()
    z = x - y
    walked = [(i, k * z) for i, k in enumerate(Walking())]
    return walked, iter(Walking()).at, list(LOG)


@case
def generators_of_instances(x: Any, y: Any) -> Any:
    return [x * k + i for i, k in enumerate(Generated())], [k * y for k in iter(Generated())]


@in_one_graph
def generators_of_what_is_counted(x: Any, y: Any) -> Any:
    for i, factor in enumerate(COUNTED):
        x = x * factor + i
    return x + y, [(i, k) for i, k in enumerate(COUNTED) if i], [k * y for k, _ in zip(COUNTED, "ab")]


@case
def generators_that_are_left_halfway(x: Any, y: Any) -> Any:
    numbered, asked = enumerate(Generated()), iter(COUNTED)
    first, second = next(numbered), next(asked)
    z = x * first[1] + second
    for i, k in enumerate(COUNTED):
        if z[0] > i:
            break
        z = z + k
    return z, list(numbered), next(numbered, None), list(asked), next(asked, y)


@case
def generators_that_raise(x: Any, y: Any) -> Any:
    z = x + y
    told: list[Any] = []
    for make in (iter, enumerate):
        try:
            for k in make(Failing()):
                told.append(k)
        except ValueError as error:
            told.append(str(error))
    return z, told


@case
def generators_that_are_held(x: Any, y: Any) -> Any:
    shared = Shared(k for k in (1.0, 2.0, 3.0, 4.0))
    numbered = enumerate(shared)
    z = x * next(numbered)[1]
    return z, next(shared.items), next(numbered), list(numbered), list(shared) + [y]


@case
def no_iterators(x: Any, y: Any) -> Any:
    z = x + y
    told: list[Any] = [z]
    for make in (iter, enumerate):
        try:
            make(Wrong())  # type: ignore[operator]
        except TypeError as error:
            told.append(str(error))
    return told


class Grown:
    def __init__(self, items=None):
        self.items = {}
        if items is not None:
            self += items

    def __iadd__(self, items):
        for item in items:
            self.items[len(self.items)] = item
        return self

    def __add__(self, other):
        return NotImplemented if isinstance(other, tuple) else Grown([*self.items.values(), *other])


@in_one_graph
def grown_by_lists(x: Any, y: Any) -> Any:
    grown = Grown([x, x * 2])
    grown += (y, 3)
    return grown.items, (grown + [x + y]).items


@case
def what_is_not_added(x: Any, y: Any) -> Any:
    grown = Grown([x * y])
    told: list[Any] = [grown.items]
    for join in (lambda: grown + (x,), lambda: [x] + grown, lambda: (y,) + grown, lambda: grown * [x]):
        try:
            told.append(join())
        except TypeError as error:
            told.append(str(error))
    return told


HOOKS: collections.OrderedDict[str, Any] = collections.OrderedDict()


@in_one_graph
def nothing_to_go_through(x: Any, y: Any) -> Any:
    for hook in HOOKS.values():
        x = hook(x)
    return x + y, [name for name in HOOKS.keys()], list(HOOKS.items())


class Named:
    pass


class Says(type):
    def __repr__(cls):
        return f"<{cls.__name__} says>"


class Said(metaclass=Says):
    pass


@case
def iterators_of_the_program_are_asked_once(x: Any, y: Any) -> Any:
    LOG.clear()
    found: list[Any] = [list(map(abs, Leading())), list(zip(Leading(), Leading())), list(enumerate(Leading())), list(filter(None, Leading()))]
    found += [list(itertools.islice(Leading(), 2)), list(itertools.accumulate(Leading())), list(Leading()), tuple(Leading())]
    return x * y, found, LOG[:]


@case
def iterators_that_give_none_of_their_own(x: Any, y: Any) -> Any:
    LOG.clear()
    one = LeadingToSteps()
    return x * y, [list(map(abs, one)), list(zip(one, one)), list(enumerate(one)), list(one), tuple(one)], LOG[:]


@in_one_graph
def texts_of_classes(x: Any, y: Any) -> Any:
    return x * y, str(Named), repr(Named), str(type(LAYERS)), str(int), repr(ValueError)


@case
def texts_that_a_metaclass_gives(x: Any, y: Any) -> Any:
    return x * y, str(Said), repr(Said)


test_behaves_as_plain_python, test_may_be_left_before_every_node = differential_tests(CASES, CALLS * 3, left=CALLS, nodes=8)
test_is_one_graph = one_graph_tests(IN_ONE_GRAPH, (A, B))


def test_an_ordered_dict_that_gets_something_is_seen() -> None:
    captured = evalframe.jit(nothing_to_go_through, backend="reference")
    for names in ((), ("a",), ("b", "a"), ("a", "b"), ()):
        HOOKS.clear()
        HOOKS.update((name, {"a": np.sin, "b": np.negative}[name]) for name in names)
        for _ in range(3):
            assert same(captured(A, B), nothing_to_go_through(A, B))


def test_changes_of_what_is_gone_through_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = Layers(1.0, 2.0)

    def numbered(x: Any) -> Any:
        return [x * k + i for i, k in enumerate(layers)], len(str(Named)), str(Named)

    captured = evalframe.jit(numbered, backend="reference")

    def both() -> None:
        for _ in range(3):
            assert same(captured(A), numbered(A))

    both()
    recordings = _core.jit_counters(captured)["recordings"]
    both()
    assert _core.jit_counters(captured)["recordings"] == recordings
    layers.layers[7] = 5.0
    both()
    layers.layers = {1: 3.0}
    both()
    Named.__qualname__ = "Another"
    both()
    monkeypatch.setattr(Named, "__module__", "elsewhere")
    both()
    monkeypatch.setattr(Layers, "__iter__", lambda self: iter((1.0, 2.0)))
    both()
