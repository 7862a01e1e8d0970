"""Calls of classes: metaclasses, __new__ and __init__ as in plain Python, wherever the graph is left."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import differential_tests, one_graph_tests, outcome

A = np.linspace(-1.0, 2.0, 12)
B = np.arange(12.0) - 3
LOG: list[Any] = []


class Made:
    def __new__(cls, *positional, **named):
        self = super().__new__(cls)
        self.given = len(positional) + len(named)
        return self

    def __init__(self, a, b=2, *, c=3):
        self.parts = (a, b, c)


class Derived(Made):
    def __init__(self, *positional, **named):
        super().__init__(*positional, **named)
        self.extra = self.given


class Chooser:
    def __new__(cls, kind):
        if kind == "other class":
            return Derived(1)
        if kind == "no instance":
            return 5.0
        return super().__new__(cls)


class Chosen(Chooser):
    def __init__(self, kind):
        self.kind = kind


class FromSubclass:
    def __new__(cls):
        return Chosen.__new__(SubclassOfIt, "own") if cls is FromSubclass else object.__new__(cls)


class SubclassOfIt(FromSubclass, Chosen):
    def __init__(self, kind="nothing"):
        self.kind = kind


class GivesSomething:
    def __new__(cls, a):
        return object.__new__(cls)

    def __init__(self, a):
        return a


class Refusing:
    def __new__(cls, a):
        if a > 2:
            raise ValueError(a)
        return super().__new__(cls)

    def __init__(self, a):
        if a > 1:
            raise KeyError(a)
        self.a = a


class Cached:
    made: ClassVar[dict[str, Any]] = {}

    def __new__(cls, name):
        if name not in cls.made:
            cls.made[name] = super().__new__(cls)
        return cls.made[name]

    def __init__(self, name):
        self.times = getattr(self, "times", 0) + 1


class Breaking:
    def __new__(cls, a):
        self = super().__new__(cls)
        LOG.append(float(a.sum()))
        self.a = a + 1
        return self

    def __init__(self, a):
        LOG.append("set up")
        self.b = self.a * len(LOG)
        LOG.append(str(a.sum()))


class Tagging(type):
    def __call__(cls, *positional, **named):
        made = super().__call__(*positional, **named)
        made.tag = len(positional)
        return made


class Tagged(Made, metaclass=Tagging):
    pass


class Listing(type):
    def __call__(cls, *positional):
        return [cls.__name__, *positional]


class Listed(metaclass=Listing):
    pass


def starred(a, b):
    positional, named = (a, 2), {"c": 4}
    made, derived = Made(*positional, **named), Derived(1, c=b)
    return made.parts, made.given, derived.parts, derived.extra, type(derived)


def chosen(a, b):
    return a + b, [type(Chooser(kind)) for kind in ("other class", "no instance", "own")], Chosen("own").kind, vars(Chosen("own"))


def of_a_subclass(a, b):
    return a + b, type(FromSubclass())


def init_gives_something(a, b):
    GivesSomething(None)
    return a + b, GivesSomething(5)


def refused_by_new(a, b):
    try:
        return a, Refusing(3)
    except ValueError as error:
        return b, str(error), error.__traceback__.tb_next.tb_lineno


def refused_by_init(a, b):
    try:
        return a, Refusing(2)
    except KeyError as error:
        return b, str(error)


def refused(a, b):
    return a + Refusing(1).a, Refusing(3)


def kept_by_the_class(a, b):
    first, second = Cached("a"), Cached("b")
    return a * Cached("a").times, first is Cached("a"), first is second


def left_in_new_and_init(a, b):
    made = Breaking(a * 2)
    return made.a + made.b + b


def by_metaclass(a, b):
    return a + b, Tagged(1, 2, c=a).parts, Tagged(b).tag, Listed(3, 4)


def too_many_arguments(a, b):
    return a + b, Chooser(1, 2)


def too_few_arguments(a, b):
    return a + b, Made()


def as_arguments_of_one_another(a, b):
    return Made(Derived(a), Made(b).given).parts[0].parts[0] + b


FUNCTIONS = [starred, chosen, of_a_subclass, init_gives_something, refused_by_new, refused_by_init, refused, kept_by_the_class,
             left_in_new_and_init, by_metaclass, too_many_arguments, too_few_arguments, as_arguments_of_one_another]  # fmt: skip
CALLS = [(A, B), (A, B), (B, A), (A[:3], 2.0)]


def told(function: Callable[..., Any], *arguments: Any) -> Any:
    LOG.clear()
    Cached.made.clear()
    came_of_it = outcome(function, *arguments)
    return came_of_it, list(LOG), [each.times for each in Cached.made.values()]


test_behaves_as_plain_python, test_may_be_left_before_every_node = differential_tests(FUNCTIONS, CALLS, told, left=CALLS, nodes=10)
test_is_one_graph = one_graph_tests([starred, of_a_subclass, by_metaclass, as_arguments_of_one_another], (A, B))


def test_new_may_be_replaced_while_it_runs() -> None:
    class Changing:
        def __new__(cls, a):
            if a is None:
                Changing.__init__ = lambda self, a: setattr(self, "late", True)
            return super().__new__(cls)

        def __init__(self, a):
            self.early = True

    def function(x, a):
        return x + 1, vars(Changing(a))

    captured = evalframe.jit(function)
    assert [captured(A, 1)[1] for _ in range(3)] == [{"early": True}] * 3
    assert captured(A, None)[1] == {"late": True}
    assert captured(A, 1)[1] == {"late": True}
