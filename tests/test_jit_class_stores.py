"""Stores into classes, into functions, and names that are deleted: put off to the exit, as in plain Python, and no recording at each call."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import differential_tests, outcome

A = np.linspace(-1.0, 2.0, 12)
B = np.arange(12.0) - 3
FIRST: Any
SECOND: Any


def make_classes():
    class Counted:
        number = 0
        last: ClassVar[Any] = None
        items: ClassVar[list[Any]] = []
        ratio = 2.5

        def own(self):
            return self.number

    class Derived(Counted):
        pass

    return Counted, Derived


Counted, Derived = make_classes()


def renew():
    """CPython 3.13 gives a class a thousand versions and no more, and the tests of this file store into it more often."""
    global Counted, Derived, COUNTED, DERIVED
    Counted, Derived = make_classes()
    COUNTED, DERIVED = Counted(), Derived()
    reset()


class Watching(type):
    def __setattr__(cls, name, value):
        super().__setattr__(name, value * 2)


class Watched(metaclass=Watching):
    number = 1


COUNTED, DERIVED = Counted(), Derived()


def helper(a):
    """Doubles."""
    return a * 2


def reset():
    for name in ("number", "last", "added"):
        if name in vars(Derived):
            delattr(Derived, name)
    Counted.number, Counted.last, Counted.ratio = 0, None, 2.5
    if "added" in vars(Counted):
        del Counted.added  # type: ignore[attr-defined]
    type.__setattr__(Watched, "number", 1)
    helper.__dict__.clear()
    globals().pop("FIRST", None)
    globals().pop("SECOND", None)


def counted(a, b):
    Counted.number += 1
    return a * Counted.number, COUNTED.number, DERIVED.number, COUNTED.own()


def shadowed_by_a_subclass(a, b):
    Counted.number = 5
    Derived.number = 6
    return a + COUNTED.number, DERIVED.number, Counted.number


def shadowed_by_an_instance(a, b):
    Counted.number = 8
    other = Counted()
    other.number = 9
    return a * other.number, DERIVED.number


def an_array_kept_in_a_class(a, b):
    Counted.last = a + 1
    z = Counted.last * 2
    Counted.last = COUNTED
    return z, COUNTED.last is COUNTED


def added(a, b):
    Counted.added = 3
    return a * COUNTED.added, Derived.added


def two_of_them(a, b):
    Counted.number += 2
    Counted.ratio = Counted.number * 1.5
    return a * Counted.ratio


def in_a_loop(a, b):
    for i in range(3):
        Counted.number += i
    return a + Counted.number


def only_read(a, b):
    return a * Counted.number + Counted.ratio


def watched(a, b):
    Watched.number = 4
    return a * Watched.number


def calls_counted_by_a_function(a, b):
    helper.calls = getattr(helper, "calls", 0) + 1
    return helper(a) * helper.calls, helper.__name__, helper.__doc__, helper.__defaults__, hasattr(helper, "nothing")


def local_function(a, b):
    def inner(a, b: int = 2, *, k=3):
        return a * b + inner.gain

    inner.gain = 3
    inner.__name__ = "other"
    inner.itself = inner
    annotations = inner.__annotations__
    annotations["k"] = "int"
    return inner(a), inner.__name__, inner.__qualname__, inner.__annotations__, inner.__defaults__, inner.__kwdefaults__, inner.__module__, inner.__doc__


def local_function_that_leaves(a, b):
    def inner(a):
        return a

    inner.tag = len(a)
    inner.itself = inner
    return inner


def deleted_names(a, b):
    global FIRST, SECOND
    FIRST = 1
    SECOND = 2
    del FIRST
    FIRST = 3
    z = a * FIRST
    del SECOND
    return z


FUNCTIONS = [counted, shadowed_by_a_subclass, shadowed_by_an_instance, an_array_kept_in_a_class, added, two_of_them, in_a_loop, only_read, watched,
             calls_counted_by_a_function, local_function, local_function_that_leaves, deleted_names]  # fmt: skip
CALLS = [(A, B), (A, B), (B, A), (A, B), (A[:3], 2.0), (A, B)]


def shown(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(shown, value))
    if hasattr(value, "__code__"):
        return value.__name__, value.__qualname__, sorted(vars(value)), vars(value).get("tag"), vars(value).get("itself") is value
    return value


def told(function: Callable[..., Any], *arguments: Any) -> Any:
    """The second of two calls, as the first has left the classes."""
    reset()
    outcome(function, *arguments)
    (kind, came_of_it), caught = outcome(function, *arguments)
    own = {name: repr(value) for name, value in vars(Derived).items() if not name.startswith("__")}
    names = [name for name in globals() if name in ("FIRST", "SECOND")]
    return kind, shown(came_of_it), caught, Counted.number, Counted.ratio, Counted.last is COUNTED, own, list(vars(helper)), names, Watched.number


test_behaves_as_plain_python, test_may_be_left_before_every_node = differential_tests(FUNCTIONS, CALLS, told, left=CALLS, nodes=6)


@pytest.mark.parametrize("function", [counted, two_of_them, shadowed_by_a_subclass, an_array_kept_in_a_class], ids=lambda f: f.__name__)
def test_is_not_recorded_at_each_call(function: Callable[..., Any]) -> None:
    renew()
    captured = evalframe.jit(function, fullgraph=True)
    for _ in range(12):
        captured(A, B)
    assert _core.jit_counters(captured)["recordings"] <= 3


def test_a_class_that_others_count_in_is_not_recorded_again() -> None:
    renew()
    captured = evalframe.jit(lambda a: a * COUNTED.ratio + len(COUNTED.items))
    for number in range(12):
        Counted.number = number
        captured(A)
    assert _core.jit_counters(captured)["recordings"] == 1
