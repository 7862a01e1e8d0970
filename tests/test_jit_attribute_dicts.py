"""The dicts of objects' attributes, read-only views of dicts, plain namespaces, classes among classes, and numbers of identity."""

from __future__ import annotations

import collections
import functools
import sys
import types
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_behaves_as_plain, check_may_be_left, outcome, same

X = np.linspace(-1.0, 1.0, 5)
CALLS = [(X,), (X,), (X * 2,), (X[:3],), (X,)]


class Box:
    kind = "box"

    def __init__(self, a: Any, b: Any) -> None:
        self.a = a
        self.b = b

    @property
    def fixed(self) -> int:
        return 3

    @functools.cached_property
    def doubled(self) -> Any:
        return self.a * 2


class Slotted:
    __slots__ = ("__dict__", "a")


class Hooked:
    def __getattribute__(self, name: str) -> Any:
        return {"a": 7} if name == "__dict__" else object.__getattribute__(self, name)


class Odd:
    __dict__ = {"a": 5}  # type: ignore[assignment]


OUTER = Box(2.0, 3)
ORDERED = collections.OrderedDict(gain=2.0, offset=1)
GROUPS: Any = collections.defaultdict(int, a=4)


def made_dict(x: Any) -> Any:
    box = Box(x, 2)
    names = vars(box)
    names["c"] = x + 1
    names["a"] = x * 3
    del names["b"]
    box.d = 5  # type: ignore[attr-defined]
    return box.a + box.c, list(names), len(names), "b" in names, hasattr(box, "b"), names is box.__dict__  # type: ignore[attr-defined]


def given_out(x: Any) -> Any:
    box = Box(x, 2)
    return box, box.__dict__, vars(box)


def only_the_dict(x: Any) -> Any:
    names = Box(x + 1, 2).__dict__
    return names


def updated(x: Any) -> Any:
    box = Box(x, 2)
    box.__dict__.update(b=3, c=x * 2)
    return box.b * box.c, sorted(box.__dict__), box  # type: ignore[attr-defined]


def stored_property(x: Any) -> Any:
    box = Box(x, 2)
    vars(box)["fixed"] = 9
    return box.fixed * x, vars(box)["fixed"]


def stored_number(x: Any) -> Any:
    box = Box(x, 2)
    vars(box)[3] = 9  # type: ignore[index]
    return x + 1, len(vars(box))


def stored_while_iterated(x: Any) -> Any:
    box = Box(x, 2)
    try:
        for name in vars(box):
            setattr(box, name + "_", 1)
    except RuntimeError as error:
        return x + 1, str(error), sorted(vars(box))
    return x


def cleared(x: Any) -> Any:
    box = Box(x, 2)
    vars(box).clear()
    try:
        return box.a
    except AttributeError as error:
        return x * 2, str(error)


def left_half_way(x: Any) -> Any:
    box = Box(x, 2)
    names = vars(box)
    names["c"] = x + 1
    y = box.c / x  # type: ignore[attr-defined]
    names["d"] = y
    return names, box


def from_outside(x: Any) -> Any:
    return x * vars(OUTER)["a"] + OUTER.__dict__["b"], len(vars(OUTER))


def from_outside_and_stored(x: Any) -> Any:
    OUTER.a = 5.0
    z = x * vars(OUTER)["a"]
    OUTER.a = 2.0
    return z * vars(OUTER)["a"]


def of_an_argument(x: Any, box: Any) -> Any:
    return x * vars(box)["a"]


def slotted(x: Any) -> Any:
    made = Slotted()
    made.a = x  # type: ignore[attr-defined]
    made.b = 2  # type: ignore[attr-defined]
    return list(vars(made)), x + 1


def hooked(x: Any) -> Any:
    return x * vars(Hooked())["a"] + Odd().__dict__["a"]


def cached(x: Any) -> Any:
    box = Box(x, 2)
    return box.doubled + box.doubled, list(vars(box))


def formatted(x: Any) -> Any:
    box = Box("one", 2)
    return "%(a)s and %(b)d" % vars(box), x + 1


def namespace(x: Any) -> Any:
    space = types.SimpleNamespace(a=x, b=2)
    space.c = x + 1
    space.b += 1
    return space.a * space.b, space, vars(space), hasattr(space, "d")


def proxy(x: Any) -> Any:
    inner = {"a": x, "b": 2}
    view = types.MappingProxyType(inner)
    inner["c"] = 3
    total = view["a"] * view["c"] * len(view)
    try:
        view["a"] = 1  # type: ignore[index]
    except TypeError as error:
        return total, list(view), "b" in view, view, str(error)
    return None


def class_among_classes(x: Any) -> Any:
    kind = type(OUTER)
    return x * (2 if kind in (int, Box) else 3) + (kind in (int, str)) + (type(x) in [Box, Slotted])


def ordered_from_outside(x: Any) -> Any:
    return x * ORDERED["gain"] + len(ORDERED) + GROUPS["a"]


def missing_in_groups(x: Any) -> Any:
    return x * GROUPS["new"] + len(GROUPS)


def identities(x: Any) -> Any:
    a, b = [x], [x]
    number = id(a)
    return x + 1, id(a) == number, id(a) == id(b), number == id(a) != id(OUTER), a


def identity_given_out(x: Any) -> Any:
    row = [x]
    number = id(row)
    return row, number, x + 1


def inside_itself(x: Any) -> Any:
    row: list[Any] = [1]
    row.append(row)
    table = {"a": row}
    return x + 1, repr(row), repr(table), str(row)


CASES = [
    made_dict, given_out, only_the_dict, updated, stored_property, stored_number, stored_while_iterated, cleared, left_half_way, from_outside,
    from_outside_and_stored, slotted, hooked, cached, formatted, namespace, proxy, class_among_classes, ordered_from_outside, missing_in_groups,
    identities, inside_itself,
]
SINGLE = [
    made_dict, given_out, only_the_dict, updated, from_outside, cached, formatted, namespace, class_among_classes, ordered_from_outside,
]


def shown(value: Any) -> Any:
    """With what objects have in their places."""
    if isinstance(value, (Box, types.SimpleNamespace)):
        return type(value), shown(vars(value))
    if isinstance(value, types.MappingProxyType):
        return "proxy", shown(dict(value))
    if type(value) is tuple:
        return tuple(shown(part) for part in value)
    return value


def told(function: Any, *arguments: Any) -> Any:
    return outcome(lambda: shown(function(*arguments)))


def told_anew(function: Any, x: Any) -> Any:
    reset()
    return told(function, x.copy())


def reset() -> None:
    GROUPS.pop("new", None)
    OUTER.a = 2.0


@pytest.mark.parametrize("function", CASES)
def test_does_what_plain_python_does(function: Any) -> None:
    check_behaves_as_plain(function, "reference", CALLS, told_anew)


@pytest.mark.parametrize("function", CASES)
def test_may_be_left_before_every_node(function: Any) -> None:
    check_may_be_left(function, "reference", CALLS[:1], 8, told_anew)
    reset()


@pytest.mark.parametrize("function", SINGLE)
def test_is_one_graph(function: Any) -> None:
    reset()
    captured = evalframe.jit(function, backend="reference")
    captured(X.copy())
    assert _core.jit_counters(captured)["recordings"] == 1


def test_object_and_dict_stay_together() -> None:
    for function in (given_out, namespace):
        captured = evalframe.jit(function, backend="reference")
        for _ in range(3):
            result = captured(X.copy())
            box = result[0] if function is given_out else result[1]
            names = result[1] if function is given_out else result[2]
            assert vars(box) is names
            names["later"] = 1
            assert box.later == 1


def test_identity_is_that_of_the_object_that_is_given_out() -> None:
    captured = evalframe.jit(identity_given_out, backend="reference")
    for _ in range(3):
        row, number, _ = captured(X.copy())
        assert id(row) == number


def test_other_objects_and_shared_dicts() -> None:
    captured = evalframe.jit(of_an_argument, backend="reference")
    box, other = Box(2.0, 1), Box(3, 1)
    other.__dict__ = {"a": 4.0}
    for argument in (box, other, Odd(), Hooked(), Box(1.5, 2), types.SimpleNamespace(a=2), other):
        plain = outcome(of_an_argument, X, argument)
        assert same(told(captured, X, argument), plain)


def test_reference_counts_of_a_dict_that_is_gone() -> None:
    captured = evalframe.jit(made_dict, backend="reference")
    value = np.ones(4)
    for _ in range(3):
        before = sys.getrefcount(value)
        captured(value)
        assert sys.getrefcount(value) == before
