"""Whatever changes between two calls is seen: each case is captured, changed, called, and compared with plain Python.

A case is a generator. It first yields the function (or the function and its arguments, if these aren't one array), then changes
something and yields again, with new arguments where it has some.
"""

from __future__ import annotations

import abc
import ast
import builtins
import collections
import collections.abc
import contextvars
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import importlib
import inspect
import io
import itertools
import json
import logging
import operator
import os
import random
import re
import sys
import textwrap
import threading
import time
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import pytest

import evalframe
from helpers import outcome, same

X = np.arange(6.0) - 2
T = TypeVar("T")
CASES: dict[str, Callable[..., Iterator[Any]]] = {}


def case(function: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    CASES[function.__name__] = function
    return function


def module(source: str, name: str = "changing") -> Any:
    made: Any = types.ModuleType(name)
    exec(source, made.__dict__)
    return made


# --- classes ---------------------------------------------------------------------------------------------------------


class _Base:
    def apply(self, a: Any) -> Any:
        return a + 1


def _box() -> tuple[Any, Any, Any]:
    """An object, its class and the class's base, all of them new."""

    class Base:
        shared = 2

        def apply(self, a: Any) -> Any:
            return a * 2

    class Box(Base):
        def __init__(self) -> None:
            self.gain = 3.0

    return Box(), Box, Base


def _applies(box: Any) -> Any:
    return lambda x: box.apply(x) + 1


@case
def locals_replaced():
    changing = module("shared = 2\ndef f(x):\n    k = 3\n    return x * locals()['k'], dir()")
    yield changing.f
    changing.locals = lambda: {"k": 5}
    yield
    changing.dir = lambda: ["none"]
    del changing.locals
    yield
    del changing.dir
    yield


@case
def locals_of_a_cell_changed():
    def outer():
        shared = 2

        def store(value):
            nonlocal shared
            shared = value

        def f(x):
            return x * locals()["shared"] * shared

        return f, store

    f, store = outer()
    yield f
    store(4)
    yield
    store(2.5)
    yield
    store(X)
    yield


@case
def function_whose_signature_is_asked_changes() -> Any:
    def asked(a: Any, b: Any = 2) -> Any: ...

    def reads(x: Any) -> Any:
        signature = inspect.signature(asked)
        bound = signature.bind(x)
        bound.apply_defaults()
        return list(signature.parameters), list(bound.arguments), signature.parameters["b"].annotation, signature.return_annotation, x * 2

    yield reads
    asked.__defaults__ = (1, 3)
    yield
    asked.__annotations__ = {"b": int, "return": str}
    yield
    asked.__annotations__["b"] = float
    yield
    asked.__code__ = (lambda a, /, b, *c, d=4, **e: None).__code__
    asked.__kwdefaults__ = {"d": 5}
    yield
    asked.__kwdefaults__["d"] = 6
    yield
    asked.__wrapped__ = lambda a, b=7: None  # type: ignore[attr-defined]
    yield
    asked.__wrapped__.__wrapped__ = lambda b: None  # type: ignore[attr-defined]
    yield
    asked.__signature__ = inspect.signature(lambda a, b, c=1: None)  # type: ignore[attr-defined]
    yield
    del asked.__signature__, asked.__wrapped__  # type: ignore[attr-defined]
    yield


@case
def name_of_a_kept_method_becomes_another() -> Any:
    changing = module("check = frozenset(['a', 'b']).__contains__\ndef f(x):\n    return x * 2, check('a'), check('c')")
    yield changing.f
    changing.check = frozenset(["c"]).__contains__
    yield
    changing.check = lambda text: text
    yield


@case
def members_of_an_enumeration_compare_in_another_way() -> Any:
    class Level(enum.IntEnum):
        LOW = 1
        HIGH = 2

    def reads(x: Any) -> Any:
        return x * 2, Level.HIGH in (Level.LOW, 2), Level.LOW in (2, None)

    yield reads
    Level.__eq__ = lambda self, other: other is None  # type: ignore[method-assign, assignment]
    yield
    del Level.__eq__
    yield


@case
def names_of_evaluated_text_changed():
    changing = module("factor = 2\ntext = 'x * factor + len([1])'\ndef f(x):\n    return eval(text)")
    yield changing.f
    changing.factor = 3
    yield
    changing.text = "x - factor"
    yield
    changing.len = lambda row: 9
    changing.text = "x * factor + len([1])"
    yield
    changing.eval = lambda text: text
    yield


@case
def dict_of_executed_text_changed():
    changing = module("names = {'a': 1}\ndef f(x):\n    own = dict(names)\n    exec('b = a + len([1])', own)\n    return x * own['b']")
    yield changing.f
    changing.names["a"] = 4
    yield
    changing.names["len"] = lambda row: 9
    yield
    changing.names["__builtins__"] = {"len": lambda row: 5}
    yield
    changing.names = {}
    yield


@case
def base_of_local_class_changed():
    class Base:
        gain = 2

        def apply(self, a):
            return a * self.gain

    def f(x):
        class Local(Base):
            def twice(self, a):
                return self.apply(a) * 2

        return Local().twice(x)

    yield f
    Base.gain = 3
    yield
    Base.apply = lambda self, a: a - self.gain
    yield
    Base.__init_subclass__ = classmethod(lambda cls: setattr(cls, "gain", 10))
    yield
    del Base.__init_subclass__
    yield
    Base.twice = 3
    Base.__init__ = lambda self: setattr(self, "gain", 5)
    yield


@case
def base_of_local_class_replaced():
    class Base:
        gain = 2

    class Other(Base):
        gain = 3

    base: Any = Base

    def f(x):
        class Local(base):
            pass

        return x * Local.gain

    yield f
    base = Other
    yield
    base = type("Third", (Base,), {"gain": 4})
    yield


@case
def names_of_class_body_changed(monkeypatch):
    changing = module("""
gain = 2
def f(x):
    class Local:
        own = gain
        @property
        def twice(self):
            return x * 2
    twice = Local().twice
    return (twice if isinstance(twice, type(x)) else x) * Local.own, Local.__module__
""")
    yield changing.f
    changing.gain = 3
    yield
    changing.property = lambda function: 5
    yield
    changing.__name__ = "another"
    yield


@case
def metaclass_of_local_class_changed():
    class Meta(type):
        def __call__(cls):
            made = super().__call__()
            made.tag = 2
            return made

    class Base(metaclass=Meta):
        pass

    def new(metaclass, name, bases, names):
        made = type.__new__(metaclass, name, bases, names)
        made.gain = 7
        return made

    def f(x):
        class Local(Base):
            gain = 3

        local = Local()
        return x * local.gain * getattr(local, "tag", 1)

    yield f
    del Meta.__call__
    yield
    Meta.__new__ = new
    yield
    Meta.__init__ = lambda cls, *arguments: setattr(cls, "gain", 9)
    yield
    del Meta.__init__, Meta.__new__
    Meta.__prepare__ = classmethod(lambda *arguments: {"tag": 4})
    yield


@case
def hook_for_local_classes_changed():
    class Base:
        def __init_subclass__(cls, gain=1):
            cls.gain = gain

    def f(x):
        class Local(Base, gain=3):
            pass

        return x * Local.gain

    yield f
    Base.__init_subclass__ = classmethod(lambda cls, gain: setattr(cls, "gain", gain * 2))
    yield
    Base.__init_subclass__.__func__.__code__ = (lambda cls, gain: setattr(cls, "gain", gain * 3)).__code__
    yield


@case
def abstract_base_of_local_class_changed():
    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self, x): ...

    def f(x):
        class Local(Shape):
            def area(self, x):
                return x * 2

        return Local().area(x), Local.__abstractmethods__

    yield f
    Shape.__abstractmethods__ = frozenset({"area", "more"})
    yield
    Shape.more = abc.abstractmethod(lambda self: 1)
    yield


@case
def maker_of_classes_replaced(monkeypatch):
    build = builtins.__build_class__

    def other(*arguments, **keywords):
        made = build(*arguments, **keywords)
        made.gain = 7
        return made

    def f(x):
        class Local:
            gain = 2

        return x * Local.gain

    yield f
    monkeypatch.setattr(builtins, "__build_class__", other)
    yield
    monkeypatch.undo()
    yield


@case
def method_rebound_on_a_base_class() -> Any:
    box, Box, Base = _box()
    yield _applies(box)
    Base.apply = lambda self, a: a * 3
    yield


@case
def method_added_before_the_bases() -> Any:
    box, Box, Base = _box()
    yield _applies(box)
    Box.apply = lambda self, a: a * 3
    yield
    del Box.apply
    yield


@case
def method_shadowed_by_an_instance() -> Any:
    box, Box, Base = _box()
    yield _applies(box)
    box.apply = lambda a: a * 3
    yield
    del box.apply
    yield


@case
def method_becomes_static() -> Any:
    box, Box, Base = _box()
    yield _applies(box)
    Base.apply = staticmethod(lambda a: a * 3)
    yield
    Base.apply = classmethod(lambda cls, a: a * cls.shared * 5)
    yield


@case
def new_of_a_class() -> Any:
    class Made:
        def __new__(cls, a: Any) -> Any:
            self = super().__new__(cls)
            self.a = a
            return self

    yield lambda x: Made(x).a + 1
    Made.__new__ = lambda cls, a: object.__new__(cls)
    Made.a = 7
    yield
    Made.__init__ = lambda self, a: setattr(self, "a", a * 2)
    yield


@case
def metaclass_that_makes_classes_changed() -> Any:
    class Meta(type):
        def __new__(mcls, name: str, bases: Any, names: Any) -> Any:
            names["gain"] = 2
            return super().__new__(mcls, name, bases, names)

    class Finishing(type):
        def __init__(cls, name: str, bases: Any, names: Any) -> None:
            super().__init__(name, bases, names)
            cls.gain = len(name)

    def reads(x: Any) -> Any:
        class Local(metaclass=Meta):
            pass

        class Other(metaclass=Finishing):
            pass

        return x * Local.gain + Other.gain  # type: ignore[attr-defined]

    yield reads
    Meta.__new__ = lambda mcls, name, bases, names: type.__new__(mcls, name, bases, {**names, "gain": 5})  # type: ignore
    yield
    Meta.__init__ = lambda cls, *rest: setattr(cls, "gain", 6)  # type: ignore
    yield
    Finishing.__init__ = lambda cls, *rest: setattr(cls, "gain", 7)  # type: ignore
    yield
    Finishing.__prepare__ = classmethod(lambda mcls, *rest: {"gain": 8})  # type: ignore
    del Finishing.__init__
    yield


@case
def call_of_a_metaclass() -> Any:
    class Meta(type):
        def __call__(cls, *arguments: Any) -> Any:
            made = super().__call__(*arguments)
            made.tag = 3
            return made

    class Made(metaclass=Meta):
        pass

    yield lambda x: x * Made().tag
    Meta.__call__ = lambda cls: type("Other", (), {"tag": 5})
    yield
    del Meta.__call__
    Made.tag = 7
    yield


@case
def call_of_a_metaclass_that_is_a_type() -> Any:
    class Meta(type):
        __call__ = dict  # type: ignore

    class Made(metaclass=Meta):
        pass

    yield lambda x: x * len(Made(a=1))
    Meta.__call__ = list  # type: ignore
    yield
    Meta.__call__ = lambda cls, **named: "three"  # type: ignore
    yield


@case
def item_of_a_generic_class() -> Any:
    class Held(Generic[T]):
        gain = 2

    yield lambda x: x * Held[int]().gain
    Held.__class_getitem__ = classmethod(lambda cls, key: lambda: types.SimpleNamespace(gain=5))  # type: ignore
    yield
    del Held.__class_getitem__
    Held.gain = 3
    yield


@case
def context_of_decimals() -> Any:
    yield lambda x: (x, decimal.Decimal("1.234") + 1, decimal.Decimal("2E+3").to_eng_string())
    with decimal.localcontext(decimal.Context(prec=2, capitals=0)):
        yield
    with decimal.localcontext(decimal.Context(traps=[decimal.Inexact], prec=3)):
        yield
    yield


@case
def cached_results() -> Any:
    gain = [2]
    cached = functools.lru_cache(lambda n: n * gain[0])
    cached(3)
    yield lambda x: x * cached(3)
    gain[0] = 5
    yield
    cached.cache_clear()
    yield
    cached.cache_clear()
    cached(3.0)
    yield
    cached = functools.lru_cache(lambda n: "ab"[n - 3 :])
    yield


@case
def function_that_keys_compare_with() -> Any:
    scope = module("def compare(left, right): return left - right")
    yield lambda x: x * sorted([2, 1, 3], key=functools.cmp_to_key(scope.compare))[0]
    scope.compare = lambda left, right: right - left
    yield
    scope.compare.__code__ = (lambda left, right: left % 2 - right % 2).__code__
    yield


@case
def class_that_super_is_told() -> Any:
    class Base:
        def scaled(self, x: Any) -> Any:
            return x * 2

    class Middle(Base):
        def scaled(self, x: Any) -> Any:
            return x * 3

    class Derived(Middle):
        pass

    scope = types.SimpleNamespace(start=Derived)
    one = Derived()
    yield lambda x: super(scope.start, one).scaled(x)
    scope.start = Middle
    yield
    Base.scaled = lambda self, x: x - 1  # type: ignore
    yield


@case
def method_that_super_finds_in_new() -> Any:
    class Base:
        def __new__(cls) -> Any:
            return object.__new__(cls)

    class Made(Base):
        gain = 2

        def __new__(cls) -> Any:
            return super().__new__(cls)

    yield lambda x: x * Made().gain
    Base.__new__ = staticmethod(lambda cls: types.SimpleNamespace(gain=5))
    yield


@case
def operators_of_a_class_that_inherits_from_int() -> Any:
    class Number(int):
        pass

    number = Number(3)
    yield lambda x: x * (number + 1)
    Number.__add__ = lambda self, other: 10
    yield


@case
def items_of_a_class_that_inherits_from_tuple() -> Any:
    Pair = collections.namedtuple("Pair", "a b")  # noqa: PYI024
    pair = Pair(2, 3)
    yield lambda x: x * pair[0] + len(pair) + Pair(4, 5)[1]
    Pair.__getitem__ = lambda self, i: 10
    yield
    Pair.__len__ = lambda self: 10
    yield


@case
def fields_of_a_named_tuple() -> Any:
    Pair = collections.namedtuple("Pair", "a b")  # noqa: PYI024
    yield (lambda x, pair: x * pair.a), (X, Pair(2, 3))
    yield X, Pair(5, 3)
    Pair.a = Pair.b
    yield X, Pair(5, 3)
    yield X, types.SimpleNamespace(a=7)


@case
def missing_keys_of_a_class_that_inherits_from_dict() -> Any:
    class Table(dict):
        def __missing__(self, key: str) -> int:
            return 2

    yield lambda x: x * Table()["a"]
    Table.__missing__ = lambda self, key: 5
    yield
    del Table.__missing__
    yield


@case
def data_in_a_class_becomes_a_descriptor() -> Any:
    class Box:
        gain = 2
        other = 3

    box = Box()
    yield lambda x: x * box.gain
    Box.other = 4
    yield
    Box.gain = property(lambda self: 7)
    yield
    Box.gain = 5
    yield


@case
def data_that_recorded_code_stores_into_a_class() -> Any:
    class Box:
        gain = 2

    def function(x: Any) -> Any:
        Box.gain = 3
        return x * Box().gain

    yield function
    Box.gain = property(lambda self: 7)
    yield
    del Box.gain
    yield
    Box.__getattribute__ = lambda self, name: 11
    yield


@case
def attributes_of_a_function() -> Any:
    def helper(x: Any) -> Any:
        return x * helper.gain + len(helper.__name__)

    helper.gain = 2
    yield helper
    helper.gain = 5
    yield
    helper.__name__ = "other"
    yield
    del helper.gain
    yield


@case
def defaults_of_a_function_that_are_looked_at() -> Any:
    def helper(x: Any, y: Any = 2) -> Any:
        return x

    yield lambda x: x * helper.__defaults__[0]
    helper.__defaults__ = (5,)
    yield


@case
def method_deleted() -> Any:
    box, Box, Base = _box()
    yield _applies(box)
    del Base.apply
    yield


def _settings(count: int) -> Any:
    class Settings:
        pass

    made = Settings()
    for number in range(count):
        setattr(made, f"a{number}", number)
    return made


def _sum_of_settings(s: Any) -> Any:
    return lambda x: x * (s.a0 + s.a7 * 10 + s.a19 * 100) + s.a3


def _changes_of_settings(count: int) -> Any:
    s = _settings(count)
    yield _sum_of_settings(s)
    s.a7 = 5
    yield
    vars(s)["a19"] = 4
    yield
    del s.a0
    s.a0 = 2.5
    yield
    s.__dict__ = {name: value for name, value in reversed(vars(s).items())}
    yield
    s.a3 = 8
    yield
    type(s).a7 = property(lambda self: 11)
    yield
    del type(s).a7
    yield
    type(s).a19 = 100
    yield
    del s.a19
    yield


@case
def few_attributes() -> Any:
    yield from _changes_of_settings(20)


@case
def more_attributes_than_stand_in_the_object() -> Any:
    yield from _changes_of_settings(100)


@case
def attributes_of_objects_in_turn() -> Any:
    one, other = _settings(20), _settings(20)
    del other.a7
    other.a7 = 3
    yield (lambda x, s: x * s.a7 + s.a19), (X, one)
    yield X, other
    yield X, one
    vars(other)["a7"] = 2
    yield X, other


@case
def method_called_through_the_class() -> Any:
    box, Box, Base = _box()
    yield lambda x: Box.apply(box, x)
    Base.apply = lambda self, a: a * 3
    yield


@case
def code_of_a_method() -> Any:
    box, Box, Base = _box()
    yield _applies(box)
    Base.apply.__code__ = (lambda self, a: a * 3).__code__
    yield


@case
def class_attribute_rebound() -> Any:
    box, Box, Base = _box()
    yield lambda x: x * box.shared
    Base.shared = 3
    yield
    Box.shared = 4
    yield
    del Box.shared
    yield


@case
def class_attribute_becomes_the_instances() -> Any:
    box, Box, Base = _box()
    yield lambda x: x * box.shared
    box.shared = 5
    yield
    del box.shared
    yield


@case
def instance_attribute_deleted_before_a_class_attribute() -> Any:
    box, Box, Base = _box()
    Box.gain = 7
    yield lambda x: x * box.gain
    del box.gain
    yield


@case
def instance_attribute_deleted() -> Any:
    box, Box, Base = _box()
    yield lambda x: x * box.gain
    del box.gain
    yield


@case
def instance_attribute_of_another_type() -> Any:
    box, Box, Base = _box()
    yield lambda x: x * box.gain
    box.gain = 3
    yield
    box.gain = X
    yield
    box.gain = "abc"
    yield


@case
def instance_dict_replaced() -> Any:
    box, Box, Base = _box()
    yield lambda x: x * box.gain
    box.__dict__ = {"gain": 9.0}
    yield


@case
def instance_dict_changed_through_vars() -> Any:
    box, Box, Base = _box()
    yield lambda x: x * box.gain
    vars(box)["gain"] = 9.0
    yield


@case
def property_put_over_an_instance_attribute() -> Any:
    box, Box, Base = _box()
    yield lambda x: x * box.gain
    Box.gain = property(lambda self: 11)
    yield


@case
def descriptor_put_over_an_instance_attribute() -> Any:
    class Constant:
        def __get__(self, instance: Any, owner: Any) -> Any:
            return 11

        def __set__(self, instance: Any, value: Any) -> None: ...

    box, Box, Base = _box()
    yield lambda x: x * box.gain
    Box.gain = Constant()
    yield


@case
def descriptor_gets_another_get() -> Any:
    class Constant:
        def __get__(self, instance: Any, owner: Any) -> Any:
            return 11

    box, Box, Base = _box()
    Box.by = Constant()
    yield lambda x: x * box.by
    Constant.__get__ = lambda self, instance, owner: 12  # type: ignore[method-assign]
    yield


@case
def class_attribute_becomes_a_descriptor() -> Any:
    class Value:
        pass

    box, Box, Base = _box()
    value = Value()
    Box.by = value
    yield lambda x: x * 2 if box.by is value else x * 3
    Value.__get__ = lambda self, instance, owner: 12  # type: ignore[attr-defined]
    yield


@case
def instance_attribute_hidden_by_a_class_that_becomes_a_descriptor() -> Any:
    class Value:
        pass

    box, Box, Base = _box()
    Box.gain = Value()
    yield lambda x: x * box.gain
    Value.__get__ = lambda self, instance, owner: 12  # type: ignore[attr-defined]
    Value.__set__ = lambda self, instance, value: None  # type: ignore[attr-defined]
    yield


@case
def property_replaced() -> Any:
    box, Box, Base = _box()
    Box.by = property(lambda self: self.gain)
    yield lambda x: x * box.by
    Box.by = property(lambda self: self.gain * 2)
    yield
    Box.by = 5
    yield


@case
def code_of_a_property() -> Any:
    box, Box, Base = _box()
    Box.by = property(lambda self: self.gain)
    yield lambda x: x * box.by
    Box.__dict__["by"].fget.__code__ = (lambda self: self.gain * 2).__code__
    yield


@case
def getattr_added() -> Any:
    box, Box, Base = _box()
    yield lambda x: x * getattr(box, "missing", 2)
    Box.__getattr__ = lambda self, name: len(name)
    yield
    Box.__getattr__ = lambda self, name: len(name) + 1
    yield


@case
def attribute_appears_before_getattr() -> Any:
    box, Box, Base = _box()
    Box.__getattr__ = lambda self, name: len(name)
    yield lambda x: x * box.missing
    box.missing = 2
    yield
    Box.missing = property(lambda self: 3)
    yield


@case
def getattribute_added() -> Any:
    box, Box, Base = _box()
    yield lambda x: x * box.gain
    Box.__getattribute__ = lambda self, name: 5
    yield


@case
def setattr_added() -> Any:
    box, Box, Base = _box()

    def stores(x: Any) -> Any:
        box.last = 3
        return x * box.last

    yield stores
    Box.__setattr__ = lambda self, name, value: object.__setattr__(self, name, value + 1)
    yield


@case
def property_put_over_a_stored_attribute() -> Any:
    box, Box, Base = _box()

    def stores(x: Any) -> Any:
        box.last = 3
        return x * box.last

    yield stores
    Box.last = property(lambda self: 5, lambda self, value: None)
    yield


@case
def bases_changed() -> Any:
    box, Box, Base = _box()

    class Other(Base):
        shared = 8

        def apply(self, a: Any) -> Any:
            return a * 8

    yield lambda x: box.apply(x) * box.shared
    Box.__bases__ = (Other,)
    yield


@case
def class_of_an_object() -> Any:
    box, Box, Base = _box()

    class Other(Box):
        def apply(self, a: Any) -> Any:
            return a * 8

    yield lambda x: box.apply(x)
    box.__class__ = Other
    yield
    box.__class__ = Box
    yield


@case
def class_of_an_object_that_is_asked() -> Any:
    box, Box, Base = _box()

    class Other(Base):
        pass

    yield lambda x: x * (2 if isinstance(box, Box) else 3) + (1 if type(box) is Box else 4)
    box.__class__ = Other
    yield


@case
def bases_of_a_class_that_is_asked() -> Any:
    box, Box, Base = _box()

    class Other:
        pass

    class Empty(Box):
        pass

    made = Empty()
    yield lambda x: x * (2 if isinstance(made, Base) else 3) + (1 if issubclass(Empty, Base) else 2)
    Empty.__bases__ = (type("Other", (), {"apply": None}),)
    yield


@case
def class_that_an_object_claims() -> Any:
    class Other:
        pass

    class Claiming:
        claims: Any = Other

        @property
        def __class__(self) -> Any:
            return Claiming.claims

    claiming = Claiming()
    yield lambda x: x * (2 if isinstance(claiming, Other) else 3)
    Claiming.claims = int
    yield


@case
def class_that_is_asked_for_is_another() -> Any:
    box, Box, Base = _box()
    yield lambda x, kind: x * (2 if isinstance(box, kind) else 3), (X, Box)
    yield X, Base
    yield X, int
    yield X, (int, Box)


@case
def attributes_of_the_class_of_an_object() -> Any:
    box, Box, Base = _box()
    yield lambda x: x * type(box).shared + box.__class__.shared
    Box.shared = 8
    yield
    Base.shared = 9
    del Box.shared
    yield


def _vector() -> tuple[Any, Any]:
    class Vector:
        def __init__(self, a: Any) -> None:
            self.a = a

        def __add__(self, other: Any) -> Any:
            return self.a + other

        def __call__(self, a: Any) -> Any:
            return self.a * a

        def __len__(self) -> int:
            return 2

        def __bool__(self) -> bool:
            return True

        def __eq__(self, other: object) -> bool:
            return True

        def __getitem__(self, i: int) -> Any:
            if i > 3:
                raise IndexError(i)
            return self.a * i

        def __contains__(self, i: int) -> bool:
            return True

        def __iter__(self) -> Any:
            return iter((self.a, 2))

        def __enter__(self) -> Any:
            return self.a

        def __exit__(self, *details: object) -> None:
            pass

        def __float__(self) -> float:
            return 2.5

        def __index__(self) -> int:
            return 1

        def __format__(self, spec: str) -> str:
            return "abc"

        def __radd__(self, other: Any) -> Any:
            return other + 7

    return Vector(2.0), Vector


def _special(name: str, function: Callable[..., Any], changed: Callable[..., Any]) -> None:
    def changes() -> Any:
        vector, Vector = _vector()
        yield function, (X, vector)
        setattr(Vector, name, changed)
        yield
        delattr(Vector, name)
        yield

    CASES[f"special_method {name}"] = changes


def _enters(x: Any, v: Any) -> Any:
    with v as a:
        z = x * a
    return z


_special("__add__", lambda x, v: x * 2 + (v + 1), lambda self, other: 9)
_special("__radd__", lambda x, v: x * 2 + (1 + v), lambda self, other: 9)
_special("__call__", lambda x, v: v(x), lambda self, a: a * 9)
_special("__len__", lambda x, v: x * len(v), lambda self: 9)
_special("__bool__", lambda x, v: x * 2 if v else x, lambda self: False)
_special("__eq__", lambda x, v: x * 2 if v == 3 else x, lambda self, other: False)
_special("__getitem__", lambda x, v: x * v[2], lambda self, i: 9)
_special("__contains__", lambda x, v: x * 2 if 3 in v else x, lambda self, i: False)
_special("__iter__", lambda x, v: [x * a for a in v], lambda self: iter((3, 4)))
_special("__enter__", _enters, lambda self: 9)
_special("__float__", lambda x, v: x * float(v), lambda self: 9.5)
_special("__index__", lambda x, v: x * (3, 4, 5)[v], lambda self: 2)
_special("__format__", lambda x, v: x * len(f"{v}"), lambda self, spec: "x")
_special("__init__", lambda x, v: x * type(v)(3.0).a, lambda self, a: setattr(self, "a", 9.0))


def _waits(result: Any) -> Any:
    class Waits:
        def __await__(self) -> Any:
            yield
            return result

        async def __aenter__(self) -> Any:
            return result

        async def __aexit__(self, *details: object) -> bool:
            return result == 5

        def __aiter__(self) -> Any:
            self.left = result
            return self

        async def __anext__(self) -> Any:
            if self.left == 0:
                raise StopAsyncIteration
            self.left -= 1
            return result

    return Waits


def _awaited(coroutine: Any) -> Any:
    try:
        while True:
            coroutine.send(None)
    except StopIteration as stop:
        return stop.value


def _asynchronous(name: str) -> None:
    """A method of an awaitable, an asynchronous context manager or iterator is replaced."""

    def changing() -> Any:
        kind, other = _waits(2), _waits(5)
        waits = kind()

        async def work(x: Any) -> Any:
            z = x + await waits
            async with waits as gain:
                z = z * gain
                if name == "__aexit__":
                    raise KeyError(3)
            async for part in waits:
                z = z - part
            return z

        def f(x: Any) -> Any:
            try:
                return _awaited(work(x))
            except KeyError as error:
                return x * error.args[0]

        yield f
        setattr(kind, name, getattr(other, name))
        yield

    CASES[f"replaced{name}"] = changing


for _name in ("__await__", "__aenter__", "__aexit__", "__aiter__", "__anext__"):
    _asynchronous(_name)


@case
def next_replaced() -> Any:
    here = module("def steps(x):\n    yield x + 1\n    yield x + 2\n\ndef f(x):\n    made = steps(x)\n    return next(made) * next(made)")
    yield here.f
    here.next = lambda steps: 3.0
    yield None


@case
def generator_function_replaced() -> Any:
    here = module("def steps(x):\n    c = yield x + 1\n    yield c * 2\n\ndef f(x):\n    made = steps(x)\n    return next(made) * made.send(x)")
    yield here.f
    here.steps = module("def steps(x):\n    c = yield x + 5\n    yield c * 7").steps
    yield None
    here.steps.__code__ = module("def steps(x):\n    c = yield x\n    yield c").steps.__code__
    yield None


@case
def new_added() -> Any:
    class Box:
        def __init__(self) -> None:
            self.gain = 2.0

    def makes(x: Any) -> Any:
        return x * Box().gain

    yield makes

    def new(cls: Any) -> Any:
        made = object.__new__(cls)
        made.gain = 1.0
        return types.SimpleNamespace(gain=7.0)

    Box.__new__ = new  # type: ignore[assignment]
    yield


@case
def initialiser_inherited_and_replaced() -> Any:
    class Base:
        def __init__(self) -> None:
            self.gain = 2.0

    class Box(Base):
        pass

    yield lambda x: x * Box().gain
    Base.__init__ = lambda self: setattr(self, "gain", 5.0)  # type: ignore[method-assign, misc]
    yield
    Box.__init__ = lambda self: setattr(self, "gain", 6.0)  # type: ignore[method-assign, misc]
    yield


@case
def what_super_finds() -> Any:
    class Base:
        def apply(self, a: Any) -> Any:
            return a * 2

    class Middle(Base):
        pass

    class Box(Middle):
        def apply(self, a: Any) -> Any:
            return super().apply(a) + 1

    box = Box()
    yield lambda x: box.apply(x)
    Base.apply = lambda self, a: a * 3  # type: ignore[method-assign]
    yield
    Middle.apply = lambda self, a: a * 4  # type: ignore[method-assign]
    yield


@case
def class_method_rebound() -> Any:
    class Box:
        gain = 2

        @classmethod
        def by(cls) -> int:
            return cls.gain

    yield lambda x: x * Box.by()
    Box.gain = 3
    yield
    Box.by = classmethod(lambda cls: 7)  # type: ignore[assignment, method-assign]
    yield


@case
def metaclass_gets_an_attribute() -> Any:
    class Meta(type):
        pass

    class Box(metaclass=Meta):
        gain = 2

    yield lambda x: x * Box.gain
    Meta.gain = property(lambda cls: 9)  # type: ignore[attr-defined]
    yield


@case
def metaclass_gets_a_call() -> Any:
    class Meta(type):
        pass

    class Box(metaclass=Meta):
        def __init__(self) -> None:
            self.gain = 2

    yield lambda x: x * Box().gain
    Meta.__call__ = lambda cls: types.SimpleNamespace(gain=9)  # type: ignore[method-assign]
    yield


@case
def instance_check_added() -> Any:
    class Meta(type):
        pass

    class Box(metaclass=Meta):
        pass

    yield lambda x: x * 2 if isinstance(x, Box) else x * 3
    Meta.__instancecheck__ = lambda cls, instance: True  # type: ignore[method-assign]
    yield


@case
def class_registered_with_an_abstract_base() -> Any:
    class Shape(abc.ABC):
        pass

    class Square:
        pass

    square = Square()
    yield lambda x: x * 2 if isinstance(square, Shape) else x * 3
    Shape.register(Square)
    yield


@case
def slot_changed() -> Any:
    class Slotted:
        __slots__ = ("gain",)

    box = Slotted()
    box.gain = 2.0
    yield lambda x: x * box.gain
    box.gain = 3.0
    yield
    box.gain = 4
    yield
    del box.gain
    yield


@case
def slot_descriptor_replaced() -> Any:
    class Slotted:
        __slots__ = ("gain",)

    box = Slotted()
    box.gain = 2.0
    yield lambda x: x * box.gain
    Slotted.gain = property(lambda self: 9)  # type: ignore[assignment]
    yield


@case
def cached_property_emptied() -> Any:
    class Caching:
        source = 2

        @functools.cached_property
        def gain(self) -> int:
            return self.source

    caching = Caching()
    yield lambda x: x * caching.gain
    caching.source = 5
    del caching.gain
    yield
    caching.gain = 7  # type: ignore[misc]
    yield


@case
def dataclass_default_changed() -> Any:
    @dataclasses.dataclass
    class Setting:
        gain: float = 2.0

    setting = Setting()
    yield lambda x: x * setting.gain * Setting().gain
    setting.gain = 5.0
    yield
    Setting.__init__.__defaults__ = (7.0,)
    yield


@case
def enum_value_changed() -> Any:
    class Color(enum.Enum):
        RED = 1

    yield lambda x: x * Color.RED.value
    Color.RED._value_ = 5
    yield


@case
def named_tuple_of_other_values() -> Any:
    Point = collections.namedtuple("Point", "a b")
    yield lambda x, p: x * p.a + p[1], (X, Point(1, 2))
    yield X, Point(3, 2)
    yield X, Point(3, 2.5)
    yield X, (3, 2.5)


@case
def class_statement_reads_what_is_outside() -> Any:
    gain = 2

    def makes(x: Any) -> Any:
        class Box:
            by = gain

        return x * Box.by

    yield makes
    gain = 3
    yield


# --- C functions that call back ---------------------------------------------------------------------------------------


def _parts(a: Any) -> Any:
    yield a
    yield a * 2


@case
def generator_function_replaced_below_sum() -> Any:
    scope = module("def parts(a):\n    yield a\n\ndef f(a):\n    return sum(x + 1 for x in parts(a))")
    yield scope.f
    scope.parts = _parts
    yield


@case
def summing_function_replaced() -> Any:
    scope = module("def f(a):\n    return sum(x + 1 for x in (a, a))")
    yield scope.f
    scope.sum = list
    yield
    del scope.sum
    yield


@case
def step_of_an_iterator_replaced() -> Any:
    class Steps:
        def __init__(self, a: Any) -> None:
            self.a, self.left = a, 2

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> Any:
            self.left -= 1
            if self.left < 0:
                raise StopIteration
            return self.a * (self.left + 1)

    scope = module("def f(a):\n    for x in Steps(a):\n        a = a + x\n    return a, list(Steps(a))")
    scope.Steps = Steps
    yield scope.f
    plain = Steps.__next__
    Steps.__next__ = lambda self: plain(self) + 1  # type: ignore
    yield
    Steps.__iter__ = lambda self: iter([self.a])  # type: ignore
    yield
    Steps.__length_hint__ = lambda self: 1 / 0  # type: ignore
    yield


@case
def items_by_number_replaced() -> Any:
    class Row:
        def __getitem__(self, number: int) -> Any:
            return (1, 2)[number]

    scope = module("def f(a, row):\n    for n in row:\n        a = a + n\n    return a, list(row), [n for n in enumerate(row)]")
    yield scope.f, (X, Row())
    Row.__getitem__ = lambda self, number: (3, 2, 1)[number]  # type: ignore
    yield
    Row.__len__ = lambda self: -1  # type: ignore
    yield
    Row.__iter__ = lambda self: iter((4, 5))  # type: ignore
    yield
    Row.__iter__ = None  # type: ignore
    yield


@case
def called_until_a_sentinel() -> Any:
    class Source:
        def __init__(self) -> None:
            self.left = 3

        def step(self) -> int:
            self.left -= 1
            return self.left

    scope = module("def f(a):\n    for n in iter(Source().step, end):\n        a = a + n\n    return a, list(iter(Source().step, 1))")
    scope.Source, scope.end = Source, 0
    yield scope.f
    scope.end = 1
    yield
    plain = Source.step
    Source.step = lambda self: plain(self) - 1  # type: ignore
    yield
    scope.end = -4
    yield
    scope.iter = lambda function, end: [end]
    yield


@case
def rows_of_an_array_change() -> Any:
    scope = module("def f(a):\n    return [row for row in a], [row * n for n, row in enumerate(a[1:])], list(zip(a, reversed(a)))")
    yield scope.f, (X,)
    for shape in ((7,), (2, 3), (0,), (3, 2), (), (1, 1, 2), (40,)):
        yield (np.arange(float(np.prod(shape))).reshape(shape),)
    scope.reversed = scope.enumerate = lambda a: [a, a]
    yield (X,)


@case
def arranging_functions_replaced() -> Any:
    scope = module("def f(a):\n    for x, n in product((a, a * 2), numbers):\n        a = a + x * n\n    return a")
    scope.product, scope.numbers = itertools.product, [1, 2]
    yield scope.f
    scope.numbers[0] = 3
    yield
    scope.numbers.append(4)
    yield
    scope.product = lambda rows, numbers: [(rows[0], numbers[1])]
    yield


@case
def asking_iterators_replaced() -> Any:
    source = "def small(n):\n    return n < 3\n\ndef f(a):\n    for n in takewhile(small, numbers):\n        a = a * n\n    return a, list(accumulate([a, a], add))"
    scope = module(source)
    scope.takewhile, scope.accumulate, scope.add, scope.numbers = itertools.takewhile, itertools.accumulate, operator.add, [1, 2, 3]
    yield scope.f
    scope.numbers[2] = 2
    yield
    scope.small.__code__ = (lambda n: n < 2).__code__
    yield
    scope.add = operator.mul
    yield
    scope.takewhile = itertools.dropwhile
    yield
    scope.accumulate = lambda rows, function: function(*rows)
    yield


@case
def groups_and_slices_replaced() -> Any:
    source = """
def by(n):
    return n // 2

def steps(a):
    for n in numbers:
        yield a * n

def f(a):
    return [(key, sum(x * a for x in group)) for key, group in groupby(numbers, by)], sum(islice(steps(a), 1, most))
"""
    scope = module(source)
    scope.groupby, scope.islice, scope.numbers, scope.most = itertools.groupby, itertools.islice, [0, 1, 2, 3], 3
    yield scope.f
    scope.by.__code__ = (lambda n: n // 3).__code__
    yield
    scope.numbers[1] = 5
    yield
    scope.most = 2
    yield
    scope.by = None
    yield
    scope.islice = lambda steps, first, most: list(steps)[:most]
    yield
    scope.groupby = lambda numbers, by: [(0, numbers)]
    yield


@case
def substitution_replaced() -> Any:
    source = "def by(found):\n    return found[0] * 2\n\ndef f(a):\n    return len(re.sub(pattern, by, text)) * a, pattern.sub(by, text), call('upper')(text)"
    scope = module(source)
    scope.re, scope.pattern, scope.text, scope.call = re, re.compile("[ab]"), "abc", operator.methodcaller
    yield scope.f
    scope.by.__code__ = (lambda found: found[0] * 3).__code__
    yield
    scope.text = "bbbb"
    yield
    scope.pattern = re.compile("b")
    yield
    scope.by = lambda found: "-"
    yield
    scope.call = lambda name: len
    yield
    scope.re = types.SimpleNamespace(sub=lambda pattern, by, text: "other")
    yield


@case
def made_callables_replaced() -> Any:
    scope = module("def g(a, n=2):\n    return a * n\n\ndef f(a):\n    return half(a), sorted([(2, a), (1, a)], key=first)[0][0] * a, partial(g, n=3)(a)")
    scope.partial, scope.first, scope.half = functools.partial, operator.itemgetter(0), functools.partial(operator.mul, 0.5)
    yield scope.f
    scope.first = lambda row: -row[0]
    yield
    scope.g.__defaults__ = (7,)
    scope.g.__code__ = (lambda a, n: a - n).__code__
    yield
    scope.half = functools.partial(operator.mul, 2)
    yield
    scope.partial = lambda f, n: f
    yield


@case
def key_function_replaced() -> Any:
    scope = module("def key(n):\n    return -n\n\ndef f(a):\n    return a * sorted([1, 3, 2], key=key)[0]")
    yield scope.f
    scope.key = lambda n: n
    yield
    scope.key.__code__ = (lambda n: (n != 2, n)).__code__
    yield


@case
def sorted_numbers_changed() -> Any:
    numbers = [1, 3, 2]
    scope = module("def f(a):\n    return a * max(numbers, key=lambda n: -n)")
    scope.numbers = numbers
    yield scope.f
    numbers[0] = 5
    yield
    numbers.append(-1)
    yield


# --- operators and other protocols -----------------------------------------------------------------------------------


def _number() -> tuple[Any, Any, Any]:
    """Two operands and the class of the second, a subclass of that of the first."""

    class Left:
        def __init__(self) -> None:
            self.gain = 3.0

        def __add__(self, other: Any) -> Any:
            return other.gain + self.gain

        def __eq__(self, other: Any) -> Any:
            return NotImplemented

        def __hash__(self) -> int:
            return 3

        def __len__(self) -> int:
            return 2

    class Right(Left):
        pass

    return Left(), Right(), Right


@case
def operator_replaced() -> Any:
    left, right, Right = _number()
    yield lambda x: x * (left + right)
    Right.__bases__[0].__add__ = lambda self, other: 9.0
    yield
    del Right.__bases__[0].__add__
    yield


@case
def reflected_operator_added_to_a_subclass() -> Any:
    left, right, Right = _number()
    yield lambda x: x * (left + right)
    Right.__radd__ = lambda self, other: 9.0
    yield
    Right.__radd__ = lambda self, other: NotImplemented
    yield


@case
def operator_in_place_added() -> Any:
    left, right, Right = _number()

    def function(x: Any) -> Any:
        total = left
        total += right
        return x * total

    yield function
    type(left).__iadd__ = lambda self, other: 9.0
    yield
    type(left).__iadd__ = lambda self, other: NotImplemented
    yield


@case
def operator_of_a_constant() -> Any:
    left, right, Right = _number()
    Right.__rmul__ = lambda self, other: other + 1
    yield lambda x: x + 3 * right
    Right.__rmul__ = lambda self, other: other + 2
    yield


@case
def comparison_added() -> Any:
    left, right, Right = _number()
    yield lambda x: x * 2 if left == right else x + 1
    Right.__eq__ = lambda self, other: True
    yield
    type(left).__eq__ = lambda self, other: True
    yield
    Right.__eq__ = lambda self, other: False
    yield
    Right.__ne__ = lambda self, other: False
    yield


@case
def identity_of_what_compares_by_it() -> Any:
    left, right, Right = _number()
    pair = [left, left]
    yield lambda x: x * 2 if pair[0] == pair[1] else x + 1
    pair[1] = type(left)()
    yield


@case
def truth_added() -> Any:
    left, right, Right = _number()
    yield lambda x: x * 2 if right else x + 1
    Right.__len__ = lambda self: 0
    yield
    Right.__bool__ = lambda self: True
    yield
    left_class = Right.__bases__[0]
    del Right.__len__, Right.__bool__, left_class.__len__
    yield


@case
def length_changes() -> Any:
    left, right, Right = _number()
    yield lambda x: x * len(right)
    right.items = [1, 2, 3]
    Right.__len__ = lambda self: len(self.items)
    yield
    right.items.append(4)
    yield


@case
def membership_added() -> Any:
    left, right, Right = _number()
    Right.__contains__ = lambda self, item: self.gain == item
    yield lambda x: x * 2 if 3.0 in right else x + 1
    right.gain = 4.0
    yield
    Right.__contains__ = lambda self, item: True
    yield


@case
def items_replaced() -> Any:
    left, right, Right = _number()
    Right.__getitem__ = lambda self, key: key
    yield lambda x: x * right[4]
    Right.__getitem__ = lambda self, key: key + 1
    yield
    del Right.__getitem__
    yield


@case
def call_replaced() -> Any:
    left, right, Right = _number()
    Right.__call__ = lambda self, a: a * 2
    yield lambda x: right(x)
    Right.__call__ = lambda self, a: a * 3
    yield
    del Right.__call__
    yield


@case
def text_added() -> Any:
    left, right, Right = _number()
    Right.__repr__ = lambda self: "right"
    yield lambda x: x * len(f"{right}")
    Right.__str__ = lambda self: "other text"
    yield
    Right.__format__ = lambda self, spec: "another"
    yield


@case
def fallback_for_attributes() -> Any:
    left, right, Right = _number()
    Right.__getattr__ = lambda self, name: len(name)
    yield lambda x: x * right.missing
    right.missing = 2
    yield
    del right.missing
    Right.missing = 5
    yield
    del Right.missing
    Right.__getattr__ = lambda self, name: 11
    yield
    Right.__getattribute__ = lambda self, name: 12
    yield


@case
def attribute_hook() -> Any:
    left, right, Right = _number()
    Right.__getattribute__ = lambda self, name: 4
    yield lambda x: x * right.gain
    Right.__getattribute__ = lambda self, name: 5
    yield
    del Right.__getattribute__
    yield


class _Descriptor:
    def __init__(self, value: int) -> None:
        self.value = value

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self.value if instance is None else instance.gain * self.value


@case
def descriptor_of_the_program() -> Any:
    left, right, Right = _number()

    class Descriptor(_Descriptor):
        pass

    Right.scaled = Descriptor(2)
    yield lambda x: x * right.scaled + Right.scaled
    vars(Right)["scaled"].value = 3
    yield
    vars(Right)["scaled"].value = 4
    yield
    Descriptor.__get__ = lambda self, instance, owner: 7
    yield
    Descriptor.__set__ = lambda self, instance, value: None
    right.__dict__["scaled"] = 8
    yield
    del Descriptor.__set__
    yield
    Right.scaled = 9
    yield


@case
def class_of_a_class_attribute_gets_get() -> Any:
    left, right, Right = _number()

    class Value:
        factor = 3

    Right.value = Value()
    yield lambda x: x * right.value.factor
    Right.value.factor = 4
    yield
    Value.__get__ = lambda self, instance, owner: type("Other", (), {"factor": 5})
    yield


@case
def enum_members() -> Any:
    class Color(enum.Enum):
        RED = 2
        BLUE = 3

        @property
        def doubled(self) -> Any:
            return self.value * 2

    yield lambda x: x * Color.RED.value + Color.BLUE.doubled if Color.RED != Color.BLUE else x
    Color.RED._value_ = 5
    yield
    Color.doubled = property(lambda self: 1)  # type: ignore[assignment]
    yield
    Color.__eq__ = lambda self, other: True  # type: ignore[method-assign, assignment]
    yield


@case
def attribute_by_name() -> Any:
    left, right, Right = _number()
    yield lambda x: x * getattr(right, "gain") + getattr(right, "missing", 1) + hasattr(right, "other")
    right.missing = 2
    yield
    Right.other = 3
    yield
    right.gain = 5
    yield
    del right.missing
    yield
    Right.__getattr__ = lambda self, name: 7
    yield


@case
def store_hooks() -> Any:
    left, right, Right = _number()

    def function(x: Any) -> Any:
        right.gain = 4.0
        setattr(right, "last", 2)
        return x * right.gain

    yield function
    Right.__setattr__ = lambda self, name, value: object.__setattr__(self, name, value * 2)
    yield
    Right.__setattr__ = lambda self, name, value: None
    yield
    del Right.__setattr__
    Right.last = property(lambda self: 1, lambda self, value: self.__dict__.update(gain=11.0))
    yield


@case
def object_hooks() -> Any:
    left, right, Right = _number()

    def function(x: Any) -> Any:
        object.__setattr__(right, "last", 2)
        return x * right.last + object.__getattribute__(right, "gain")

    yield function
    Right.__setattr__ = lambda self, name, value: None
    yield
    Right.gain = property(lambda self: 6)
    yield
    Right.last = property(lambda self: 8, lambda self, value: None)
    yield


@case
def name_of_a_class() -> Any:
    left, right, Right = _number()
    yield lambda x: x * len(type(right).__name__) + len(right.__class__.__qualname__)
    Right.__name__ = "Another"
    yield
    Right.__qualname__ = "Q"
    yield
    right.__class__ = type("Third", (Right,), {})
    yield


@case
def property_of_a_metaclass() -> Any:
    class Meta(type):
        @property
        def doubled(cls) -> int:
            return cls.factor * 2

    class Made(metaclass=Meta):
        factor = 3

    yield lambda x: x * Made.doubled
    Made.factor = 4
    yield
    Meta.doubled = property(lambda cls: 1)
    yield
    Meta.doubled = 6  # type: ignore[assignment]
    yield
    Made.doubled = 7
    yield


# --- match -----------------------------------------------------------------------------------------------------------


def _described(subject: Any, x: Any) -> Any:
    match subject:
        case [a, *rest]:
            return x * a + len(rest)
        case {"gain": gain, **rest}:
            return x * gain - len(rest)
        case collections.UserString():
            return x / 2
        case object(gain=gain, extra=extra):
            return x * gain + extra
        case object(gain=gain):
            return x * gain
    return x


@case
def matched_sequence_changes() -> Any:
    subject: Any = [2, 3]
    yield lambda x: _described(subject, x)
    subject.append(4)
    yield
    subject[0] = 5
    yield
    subject.clear()
    yield


@case
def matched_mapping_changes() -> Any:
    subject: Any = {"gain": 2}
    yield lambda x: _described(subject, x)
    subject["other"] = 4
    yield
    subject["gain"] = 5
    yield
    del subject["gain"]
    yield


@case
def matched_attributes_change() -> Any:
    subject, Box, _ = _box()
    yield lambda x: _described(subject, x)
    subject.extra = 4
    yield
    del subject.extra
    yield
    Box.extra = 7
    yield
    del subject.gain
    yield


@case
def matched_attribute_becomes_a_property() -> Any:
    subject, Box, _ = _box()
    yield lambda x: _described(subject, x)
    Box.extra = property(lambda self: 9)
    yield
    Box.gain = property(lambda self: 2)
    yield


@case
def class_registered_as_a_sequence() -> Any:
    class Items:
        gain = 3

        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> int:
            if index > 1:
                raise IndexError(index)
            return index + 5

    yield lambda x: _described(Items(), x)
    collections.abc.Sequence.register(Items)
    yield


@case
def match_args_replaced() -> Any:
    class Pair:
        __match_args__ = ("a", "b")

        def __init__(self) -> None:
            self.a, self.b = 2, 3

    pair = Pair()

    def function(x: Any) -> Any:
        match pair:
            case Pair(first):
                return x * first
        return x

    yield function
    Pair.__match_args__ = ("b", "a")
    yield
    Pair.__match_args__ = ()  # type: ignore[assignment]
    yield


@case
def class_of_the_subject_changes() -> Any:
    subject, Box, Base = _box()

    def function(x: Any) -> Any:
        match subject:
            case Box(gain=gain):
                return x * gain
        return x - 1

    yield function
    subject.__class__ = type("Other", (Base,), {})
    yield


# --- functions -------------------------------------------------------------------------------------------------------


def _helper() -> Any:
    def helper(a: Any, b: Any = 2, *, c: Any = 3) -> Any:
        return a * b + c

    return helper


@case
def code_of_a_function() -> Any:
    helper = _helper()
    yield lambda x: helper(x)
    helper.__code__ = (lambda a, b=2, *, c=3: a - b - c).__code__
    yield


@case
def defaults_of_a_function() -> Any:
    helper = _helper()
    yield lambda x: helper(x)
    helper.__defaults__ = (5,)
    yield
    helper.__defaults__ = None
    yield


@case
def keyword_defaults_of_a_function() -> Any:
    helper = _helper()
    yield lambda x: helper(x)
    helper.__kwdefaults__ = {"c": 7}
    yield
    helper.__kwdefaults__["c"] = 8
    yield
    helper.__kwdefaults__["c"] = X
    yield
    del helper.__kwdefaults__["c"]
    yield


@case
def own_code_and_defaults() -> Any:
    helper = _helper()
    yield helper
    helper.__defaults__ = (5,)
    yield
    helper.__kwdefaults__["c"] = 8
    yield
    helper.__kwdefaults__ = {"c": 9}
    yield
    helper.__code__ = (lambda a, b=2, *, c=3: a - b - c).__code__
    yield


@case
def mutable_default_filled() -> Any:
    def helper(a: Any, seen: Any = []) -> Any:  # noqa: B006
        return a * (len(seen) + 1) + sum(seen)

    yield lambda x: helper(x)
    helper.__defaults__[0].append(3)
    yield
    helper.__defaults__[0][0] = 4
    yield


@case
def closure_cell_changed() -> Any:
    gain = 2

    def helper(a: Any) -> Any:
        return a * gain

    yield lambda x: helper(x)
    gain = 3
    yield
    helper.__closure__[0].cell_contents = 4.5
    yield
    helper.__closure__[0].cell_contents = X
    yield
    del helper.__closure__[0].cell_contents
    yield
    gain = 1


@case
def function_in_a_cell_replaced() -> Any:
    def first(a: Any) -> Any:
        return a * 2

    apply = first
    yield lambda x: apply(x)
    apply = lambda a: a * 3  # noqa: E731
    yield


@case
def function_attribute_changed() -> Any:
    helper = _helper()
    helper.gain = 2
    yield lambda x: x * helper.gain
    helper.gain = 3
    yield


@case
def argument_is_another_function() -> Any:
    yield lambda x, f: f(x), (X, np.sin)
    yield X, np.cos
    yield X, lambda a: a * 2
    yield X, lambda a: a * 3
    yield X, _Base().apply
    yield X, functools.partial(np.add, 1)


@case
def partial_of_other_arguments() -> Any:
    yield lambda x, f: f(x), (X, functools.partial(np.add, 1))
    yield X, functools.partial(np.add, 2)
    yield X, functools.partial(np.multiply, 2)


@case
def decorated_function_replaced() -> Any:
    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def inner(a: Any) -> Any:
            return inner.__wrapped__(a) + 1

        return inner

    decorated = decorate(lambda a: a * 2)
    yield lambda x: decorated(x)
    decorated.__wrapped__ = lambda a: a * 3
    yield


@case
def name_and_doc_of_a_function() -> Any:
    helper = _helper()
    yield lambda x: x * len(helper.__name__) + len(helper.__qualname__)
    helper.__name__ = "b"
    yield
    helper.__qualname__ = "ab"
    yield


# --- names and modules -----------------------------------------------------------------------------------------------


@case
def global_rebound() -> Any:
    changing = module("gain = 2\ndef helper(a): return a * gain\ndef f(x): return helper(x) + gain")
    yield changing.f
    changing.gain = 3
    yield
    changing.gain = 3.0
    yield
    changing.gain = X
    yield
    changing.helper = lambda a: a * 7
    yield
    del changing.gain
    yield


@case
def builtin_shadowed() -> Any:
    changing = module("def f(x): return x * abs(-2) + len((1, 2)) + max(1, 2)")
    yield changing.f
    changing.abs = lambda n: 5
    yield
    changing.max = min
    yield
    del changing.abs
    yield


@case
def builtin_replaced() -> Any:
    changing = module("def f(x): return x * abs(-2) + len((1, 2))")
    yield changing.f
    plain = builtins.abs
    builtins.abs = lambda n: 5  # type: ignore[assignment]
    try:
        yield
    finally:
        builtins.abs = plain
    yield


@case
def builtins_of_a_module_replaced() -> Any:
    names: dict[str, Any] = {"__builtins__": {"abs": abs, "len": len}}
    exec("def f(x): return x * abs(-2)", names)
    yield names["f"]
    names["__builtins__"]["abs"] = lambda n: 5
    yield
    del names["__builtins__"]["abs"]
    yield


@case
def module_attribute_rebound() -> Any:
    other = module("gain = 2\ndef helper(a): return a * gain", "other")
    changing = module("def f(x): return other.helper(x) + other.gain")
    changing.other = other
    yield changing.f
    other.gain = 3
    yield
    other.helper = lambda a: a - 1
    yield
    del other.gain
    yield
    other.__getattr__ = lambda name: len(name)
    yield


@case
def module_gets_another_class() -> Any:
    class Constant(types.ModuleType):
        gain = property(lambda self: 9)  # type: ignore[assignment]

    other = module("gain = 2", "other")
    changing = module("def f(x): return x * other.gain")
    changing.other = other
    yield changing.f
    other.__class__ = Constant
    yield


@case
def module_reloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    source = tmp_path / "reloaded_by_a_test.py"
    source.write_text("gain = 2\ndef helper(a):\n    return a * gain\n")
    reloaded = importlib.import_module("reloaded_by_a_test")
    yield lambda x: reloaded.helper(x)
    source.write_text("# This is longer.\ngain = 3\ndef helper(a):\n    return a * gain + 100\n")
    importlib.invalidate_caches()
    importlib.reload(reloaded)
    yield
    del sys.modules["reloaded_by_a_test"]


@case
def imported_module_replaced(monkeypatch: pytest.MonkeyPatch) -> Any:
    def f(x: Any) -> Any:
        import changing_module

        return x * changing_module.gain

    monkeypatch.setitem(sys.modules, "changing_module", module("gain = 2"))
    yield f
    monkeypatch.setitem(sys.modules, "changing_module", module("gain = 3"))
    yield
    sys.modules["changing_module"].gain = 4
    yield
    monkeypatch.setitem(sys.modules, "changing_module", None)
    yield


@case
def import_replaced(monkeypatch: pytest.MonkeyPatch) -> Any:
    def f(x: Any) -> Any:
        import math

        return x * math.floor(2.5)

    yield f
    monkeypatch.setattr(builtins, "__import__", lambda *arguments: types.SimpleNamespace(floor=lambda n: 9))
    yield
    monkeypatch.undo()
    yield


@case
def name_imported_from_a_module(monkeypatch: pytest.MonkeyPatch) -> Any:
    def f(x: Any) -> Any:
        from changing_module import gain

        return x * gain

    monkeypatch.setitem(sys.modules, "changing_module", module("gain = 2"))
    yield f
    sys.modules["changing_module"].gain = 4
    yield
    del sys.modules["changing_module"].gain
    yield


@case
def function_of_numpy_replaced(monkeypatch: pytest.MonkeyPatch) -> Any:
    yield lambda x: np.sin(x) + np.linalg.norm(x)
    monkeypatch.setattr(np, "sin", np.cos)
    yield
    monkeypatch.setattr(np.linalg, "norm", lambda a: 5.0)
    yield


# --- containers ------------------------------------------------------------------------------------------------------


@case
def list_changed() -> Any:
    row: list[Any] = [1, 2, 3]
    yield lambda x: x * row[0] + len(row) + sum(row)
    row[0] = 5
    yield
    row[0] = 5.0
    yield
    row.append(4)
    yield
    row.reverse()
    yield
    row.clear()
    yield


@case
def list_that_is_gone_through() -> Any:
    row: list[Any] = [1, 2, 3]

    def f(x: Any) -> Any:
        for n in row:
            x = x * 2 + n
        return x

    yield f
    row[:] = [3, 2, 1]
    yield
    row.append(5)
    yield
    del row[:3]
    yield
    row[0] = X
    yield


@case
def nested_list_changed() -> Any:
    rows = [[1, 2], [3, X]]
    yield lambda x: x * rows[0][1] + rows[1][1]
    rows[0][1] = 5
    yield
    rows[0] = [7, 8]
    yield
    rows[1][1] = X * 2
    yield


@case
def membership_in_containers_from_outside() -> Any:
    row, names, numbers = [1, 2], {"a": 1}, {3}
    yield lambda x: x * (2 if 2 in row else 3) + (4 if "a" in names else 5) + (6 if 3 in numbers else 7)
    row.remove(2)
    yield
    del names["a"]
    yield
    numbers.clear()
    yield


@case
def dict_changed() -> Any:
    table: dict[str, Any] = {"a": 2, "b": 3}
    yield lambda x: x * table["a"] + table.get("b", 9) + table.get("c", 4) + len(table)
    table["a"] = 5
    yield
    table["c"] = 6
    yield
    del table["b"]
    yield
    table["a"] = X
    yield
    table.clear()
    yield


@case
def dict_in_another_order() -> Any:
    table: dict[str, Any] = {"a": 2, "b": 3}

    def f(x: Any) -> Any:
        for name, n in table.items():
            x = x * n + len(name)
        return x

    yield f
    table["a"] = table.pop("a")
    yield
    table["abc"] = 4
    yield
    table["b"] = 2.5
    yield


@case
def keys_of_a_dict_of_another_type() -> Any:
    yield lambda x, d: [[x * n, n] for n in d], (X, {1: 0, 2: 0})
    yield X, {1.0: 0, 2: 0}
    yield X, {True: 0, 2: 0}


@case
def dict_as_keywords() -> Any:
    def helper(a: Any, b: Any = 2, c: Any = 3) -> Any:
        return a * b - c

    table: dict[str, Any] = {"b": 5}
    yield lambda x: helper(x, **table)
    table["c"] = 7
    yield
    del table["b"]
    yield
    table["d"] = 1
    yield


@case
def list_as_arguments() -> Any:
    def helper(a: Any, b: Any = 2, c: Any = 3) -> Any:
        return a * b - c

    row = [5]
    yield lambda x: helper(x, *row)
    row.append(7)
    yield
    row.append(9)
    yield


@case
def default_dict_and_counter() -> Any:
    table: Any = collections.defaultdict(lambda: 3, a=2)
    yield lambda x: x * table["a"] + table["b"]
    table["b"] = 7
    yield
    table.default_factory = None
    del table["b"]
    yield


@case
def deque_changed() -> Any:
    queue = collections.deque([1, 2])
    yield lambda x: x * queue[0] + len(queue)
    queue.appendleft(5)
    yield


@case
def bytes_that_change() -> Any:
    data = bytearray(b"ab")
    yield lambda x: x * data[0] + len(data)
    data[0] = 1
    yield
    data.append(1)
    yield


@case
def list_is_another_list() -> Any:
    yield lambda x, row: [row[0] * x, row[1]], (X, [X, 1])
    yield X, [X, 2]
    yield X, (X, 2)
    yield X, [2, X]
    yield X, {0: 5, 1: X}


@case
def tuples_of_equal_numbers() -> Any:
    yield lambda x, t: [x, t, [n * 2 for n in t]], (X, (1, 2))
    yield X, (1.0, 2)
    yield X, (True, 2)
    yield X, (1, 2 + 0j)


@case
def constants_of_equal_numbers() -> Any:
    yield lambda x, t: (x, repr(t), t), (X, (0.0, 1))
    yield X, (-0.0, 1)
    yield X, (0, 1)
    yield X, (False, True)
    yield X, frozenset((0, 1))
    yield X, frozenset((False, True))
    yield X, frozenset((0.0, 1))


@case
def ranges_that_are_equal() -> Any:
    yield lambda x, r: x * r.start + r.stop + len(r), (X, range(0, 3, 2))
    yield X, range(0, 4, 2)
    yield X, range(5, 5)
    yield X, range(7, 7)


@case
def slices_and_bytes_as_arguments() -> Any:
    yield lambda x, s: (x[s], repr(s)), (X, slice(1, 4))
    yield X, slice(1, 3)
    yield X, slice(True, 3)
    yield X, slice(np.int64(1), 3)
    yield X, slice(None)
    yield X, 2
    yield X, Ellipsis
    yield X, None


# --- arguments -------------------------------------------------------------------------------------------------------


@case
def number_of_another_type() -> Any:
    yield lambda x, n: [x * n, n, repr(n)], (X, 1)
    for n in (True, 1.0, 1 + 0j, np.float64(1), np.float32(1), np.int64(1), np.True_, 2, 2**70, -0.0, 0.0, float("nan")):
        yield X, n


@case
def text_of_another_value() -> Any:
    class Name(str):
        def upper(self) -> str:
            return "other"

    yield lambda x, s: x * len(s.upper()) if s != "abc" else x, (X, "ab")
    yield X, "abc"
    yield X, Name("ab")
    yield X, b"ab"


@case
def subclass_of_int() -> Any:
    class Level(int):
        def __mul__(self, other: Any) -> Any:
            return 9

        def __add__(self, other: Any) -> Any:
            return 9

    yield lambda x, n: x * (n * 2 + (n + 1)), (X, 3)
    yield X, Level(3)


@case
def subclass_of_list_and_dict() -> Any:
    class Row(list):
        def __getitem__(self, i: Any) -> Any:
            return 9

        def __len__(self) -> int:
            return 7

        def __iter__(self) -> Any:
            return iter((1,))

    class Table(dict):
        def __getitem__(self, key: Any) -> Any:
            return 9

        def get(self, key: Any, default: Any = None) -> Any:
            return 8

    yield lambda x, r, d: x * r[0] + len(r) + sum([n for n in r]) + d["a"] + d.get("a"), (X, [1, 2], {"a": 1})
    yield X, Row([1, 2]), {"a": 1}
    yield X, [1, 2], Table(a=1)


@case
def flag_that_is_asked() -> Any:
    yield lambda x, flag=None: x * 2 if flag is None else x * 3 if flag else x * 4, (X, None)
    for flag in (True, False, 0, 1, "", "a", [], [1], np.True_, np.False_, np.zeros(1), ...):
        yield X, flag


@case
def type_as_argument() -> Any:
    yield lambda x, t: x.astype(t) * 2, (X, float)
    yield X, int
    yield X, np.float32
    yield X, np.dtype("f4")
    yield X, "i2"


@case
def number_that_is_not_an_array_any_more() -> Any:
    yield lambda x: x * 2 + 1, (X,)
    yield (3,)
    yield ([1],)
    yield ("ab",)
    yield (np.float64(3),)
    yield (None,)


# --- arrays ----------------------------------------------------------------------------------------------------------


@case
def arrays_of_another_type() -> Any:
    yield lambda x: (x * 2 + 1, x / 2, x.sum(), x.dtype.kind), (X,)
    for kind in ("f4", "i8", "i4", "u1", "c16", "?", ">f8", "O", "f2", "M8[s]"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield (X.astype(kind),)


def _metadata(*arrays: Any) -> list[Any]:
    return [dict(array.dtype.metadata or {}) for array in arrays]


@case
def arrays_with_metadata_of_their_type() -> Any:
    yield lambda x: (_metadata(x, x + 1, x[1:], x.copy(), np.zeros_like(x)), x * 2), (X,)
    yield (X.astype(np.dtype("f8", metadata={"unit": "m"})),)
    yield (X.astype(np.dtype("f8", metadata={"unit": "s"})),)
    yield (X,)


@case
def metadata_of_a_type_given() -> Any:
    yield lambda x, t: _metadata(x.astype(t) + 1, x.view(t), np.zeros(3, t)), (X, np.dtype("f8"))
    yield X, np.dtype("f8", metadata={"unit": "m"})
    yield X, np.dtype("f8", metadata={"unit": "s"})


@case
def metadata_of_a_field() -> Any:
    yield lambda x, t: dict(np.zeros(3, t).dtype["a"].metadata or {}), (X, np.dtype([("a", "f8"), ("b", "i4")]))
    for unit in "ms":
        yield X, np.dtype([("a", np.dtype("f8", metadata={"unit": unit})), ("b", "i4")])


@case
def metadata_of_a_type_shared() -> Any:
    kind = np.dtype("f8")
    yield lambda x: _metadata(x.astype(kind) + 1, np.zeros(3, kind), np.asarray(x, dtype=kind))
    kind = np.dtype("f8", metadata={"unit": "m"})
    yield
    kind = np.dtype("f8", metadata={"unit": "s"})
    yield


@case
def arrays_of_another_shape() -> Any:
    yield lambda x: (x * 2 + 1, x.sum(axis=-1), x.shape, len(x)), (X,)
    yield (X[:3],)
    yield (X[:0],)
    yield (X.reshape(2, 3),)
    yield (X.reshape(3, 2),)
    yield (X.reshape(1, 6, 1),)
    yield (np.array(3.0),)


@case
def arrays_of_another_layout() -> Any:
    grid = X.reshape(2, 3)
    yield lambda x: (x * 2 + 1, x.ravel(), x.flags.c_contiguous, x.strides, (x + 1).flags.f_contiguous), (grid,)
    yield (np.asfortranarray(grid),)
    yield (grid[:, ::-1],)
    yield (grid.T,)
    yield (np.broadcast_to(X[:3], (2, 3)),)
    yield (np.lib.stride_tricks.as_strided(X, (2, 3), (8, 8)),)
    packed = np.zeros(49, np.uint8)[1:].view(np.float64).reshape(2, 3)
    yield (packed,)


@case
def array_becomes_read_only() -> Any:
    array = X.copy()

    def f(x: Any) -> Any:
        array[1:3] = x[:2] * 2
        array[0] = x[3]
        return array + 1

    yield f
    array.flags.writeable = False
    yield
    array.flags.writeable = True
    yield


@case
def arguments_that_share_memory() -> Any:
    def f(x: Any, y: Any) -> Any:
        x[1:] = y[:-1] * 2
        y += 1
        return x + y, x is y

    base = X.copy()
    yield f, (X.copy(), X.copy())
    yield base, base
    longer = np.arange(7.0)
    yield longer[1:], longer[:-1]
    yield longer[:-1], longer[1:]
    yield longer[:6], longer[5::-1]
    yield X.copy(), X.copy()


@case
def array_changed_in_place() -> Any:
    array = X.copy()
    yield lambda x: x * array.sum() + len(array) + array.ndim
    array[:] = 1
    yield
    array.shape = (2, 3)
    yield
    array.shape = (6,)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        array.dtype = np.dtype("i8")
    yield
    array.resize(3, refcheck=False)
    yield


@case
def subclasses_of_arrays() -> Any:
    class Loud(np.ndarray):
        def __mul__(self, other: Any) -> Any:
            return np.ndarray.__mul__(self, 9)

    yield lambda x: (type(x * 2).__name__, np.asarray(x * 2), np.asarray(x + 1)), (X,)
    yield (X.view(Loud),)
    yield (np.ma.masked_array(X, X > 1),)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        matrix = np.matrix([[1.0, 2.0]])
    yield (matrix,)


@case
def data_that_decides() -> Any:
    def f(x: Any) -> Any:
        z = x + 1
        if z.sum() > 3:
            return z * 2
        return z[z > 0] if z.max() > 0 else -z

    yield f, (X,)
    yield (X - 3,)
    yield (X * 10,)
    yield (X - 100,)


@case
def elements_as_python_numbers() -> Any:
    yield lambda x: [x * int(x[0]), range(int(x.max())), float(x.sum())], (X,)
    yield (X + 1,)
    yield (X - 1,)


@case
def index_arrays_and_masks() -> Any:
    yield lambda x, i: (x[i], x[i].shape), (X, np.array([0, 1]))
    yield X, np.array([0, 1, 2])
    yield X, X > 0
    yield X, [1, 2]
    yield X, (1,)
    yield X, np.array([], int)
    yield X, np.array([9])


# --- what is known through and through ---------------------------------------------------------------------------------


@case
def number_in_a_list_that_is_sorted() -> Any:
    row = [3, 1, 2]
    yield lambda x: x * sorted(row)[0] + len(row)
    row[1] = 0
    yield
    row.append(-1)
    yield
    row[0] = -5.5
    yield


@case
def value_in_a_dict_that_becomes_text() -> Any:
    table: dict[str, Any] = {"a": 1, "b": [2, 3]}
    yield lambda x: (x + 1, json.dumps(table), str(table["b"]))
    table["a"] = 2
    yield
    table["b"].append(4)
    yield
    table["c"] = None
    yield


@case
def elements_of_a_set() -> Any:
    numbers = {1, 5}
    yield lambda x: (x * len(numbers), 5 in numbers, sorted(numbers), numbers | {2})
    numbers.add(6)
    yield
    numbers.discard(5)
    yield
    numbers.clear()
    yield


@case
def set_that_is_changed() -> Any:
    numbers = {1, 5}

    def function(x: Any) -> Any:
        z = x * 2
        numbers.add(7)
        numbers.discard(1)
        return z + len(numbers), numbers

    yield function
    numbers.add(9)
    yield
    numbers.update((1, 2))
    yield


@case
def frozenset_of_another_order() -> Any:
    holder = [frozenset((8, 0))]
    yield lambda x: (x + 1, list(holder[0]))
    holder[0] = frozenset((0, 8))
    yield
    holder[0] = frozenset((0, 8, 1))
    yield


@case
def function_of_the_library_replaced() -> Any:
    plain = re.match
    yield lambda x: x * len(re.match("a+", "aab").group())
    try:
        re.match = lambda pattern, text: plain(pattern, text[1:])  # type: ignore[assignment,misc]
        yield
    finally:
        re.match = plain


@case
def code_of_a_function_of_the_library() -> Any:
    plain = textwrap.dedent.__code__
    yield lambda x: x * len(textwrap.dedent("  a\n  b"))
    try:
        textwrap.dedent.__code__ = (lambda text: text).__code__
        yield
    finally:
        textwrap.dedent.__code__ = plain


@case
def pattern_rebound() -> Any:
    pattern = re.compile("a+")
    yield lambda x: x * len(pattern.findall("aabab"))
    pattern = re.compile("c")
    yield


@case
def date_rebound() -> Any:
    day = datetime.date(2024, 2, 28)
    yield lambda x: x * (day + datetime.timedelta(days=2)).day
    day = datetime.date(2023, 2, 28)
    yield


# --- the state of NumPy and of the interpreter -----------------------------------------------------------------------


@case
def error_state_changed() -> Any:
    yield lambda x: 1 / (x * 0) + np.log(x)
    with np.errstate(all="ignore"):
        yield
    with np.errstate(all="raise"):
        yield
    with np.errstate(all="call", call=lambda *arguments: None):
        yield
    yield


@case
def error_state_made_outside() -> Any:
    state = {"divide": "ignore", "invalid": "ignore"}

    def f(x: Any) -> Any:
        with np.errstate(**state):
            return 1 / (x * 0)

    yield f
    state["divide"] = "raise"
    yield
    state["divide"] = "warn"
    yield


@case
def warnings_become_errors() -> Any:
    action: Any = "always"

    def f(x: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter(action)
            return np.log(x)

    yield f
    action = "error"
    yield
    action = "ignore"
    yield


@case
def print_options_changed() -> Any:
    yield lambda x: x * len(str(x)) + len(f"{x}") + len(repr(x))
    with np.printoptions(precision=2, threshold=3):
        yield
    yield


@case
def print_replaced(monkeypatch: pytest.MonkeyPatch) -> Any:
    seen: list[str] = []

    def f(x: Any) -> Any:
        seen.clear()
        print("in the middle")
        return x * (len(seen) + 1)

    yield f
    monkeypatch.setattr(sys, "stdout", types.SimpleNamespace(write=seen.append, flush=lambda: None))
    yield
    monkeypatch.undo()
    monkeypatch.setattr(builtins, "print", lambda *texts: seen.extend(texts))
    yield


# --- effects and locks ---------------------------------------------------------------------------------------------------


@case
def clock_replaced(monkeypatch: pytest.MonkeyPatch) -> Any:
    yield lambda x: x * (time.perf_counter() > 0) + len(str(time.sleep))
    monkeypatch.setattr(time, "perf_counter", lambda: -1)
    yield


@case
def working_directory_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    yield lambda x: x * len(os.getcwd())
    monkeypatch.chdir(tmp_path)
    yield
    monkeypatch.setattr(os, "getcwd", lambda: "/")
    yield


@case
def recursion_limit_changed() -> Any:
    limit = sys.getrecursionlimit()
    yield lambda x: x * sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(limit + 10)
        yield
    finally:
        sys.setrecursionlimit(limit)


@case
def random_numbers_replaced(monkeypatch: pytest.MonkeyPatch) -> Any:
    def f(x: Any) -> Any:
        random.seed(4)
        return x * random.random()

    yield f
    monkeypatch.setattr(random, "random", lambda: 2)
    yield
    monkeypatch.setattr(random, "seed", lambda n: None)
    yield


@case
def context_variable_set_and_rebound() -> Any:
    variable: Any = contextvars.ContextVar("variable", default=3)
    yield lambda x: x * variable.get()
    variable.set(5)
    yield
    variable.set("ab")
    yield
    variable = types.SimpleNamespace(get=lambda: 7)
    yield


@case
def stream_of_another_class() -> Any:
    class Loud(io.StringIO):
        def write(self, text: str) -> int:
            return super().write(text.upper())

    stream = io.StringIO()

    def f(x: Any) -> Any:
        stream.seek(0)
        stream.write("abc")
        print("de", file=stream)
        return x + 1, stream.getvalue()

    yield f
    stream = Loud()
    yield
    stream = io.StringIO()
    stream.write("something longer")
    yield
    stream.close()
    yield


class _Counting:
    entered = 0

    def __enter__(self) -> None:
        self.entered += 1

    def __exit__(self, *details: object) -> None:
        pass


@case
def lock_replaced() -> Any:
    lock: Any = threading.Lock()

    def f(x: Any) -> Any:
        with lock:
            y = x + 1
        return y * 2, getattr(lock, "entered", 0) > 0, getattr(lock, "locked", bool)()

    yield f
    lock = _Counting()
    yield
    lock = threading.RLock()
    yield
    lock = None
    yield


@case
def lock_that_is_held() -> Any:
    lock = threading.Lock()

    def f(x: Any) -> Any:
        taken = lock.acquire(False)
        if taken:
            lock.release()
        return x + 1, taken

    yield f
    lock.acquire()
    yield
    lock.release()
    yield


@case
def warnings_go_elsewhere(monkeypatch: pytest.MonkeyPatch) -> Any:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        seen.clear()
        warnings.warn("careful", UserWarning, stacklevel=1)
        return x + len(seen)

    yield f
    monkeypatch.setattr(warnings, "warn", lambda *given, **more: seen.append(given))
    yield


# --- objects that are kept by their history ------------------------------------------------------------------------------


@case
def type_of_what_is_made_is_shadowed() -> Any:
    set = builtins.set
    bytearray = builtins.bytearray

    def f(x: Any) -> Any:
        found, text = set((1, 2)), bytearray(b"ab")
        found.add(3)
        text.append(67)
        return x * len(found), bytes(text)

    yield f
    set = lambda given: builtins.set((*given, 8))  # type: ignore[assignment, misc]  # noqa: E731
    yield
    bytearray = lambda given: builtins.bytearray(given * 2)  # type: ignore[assignment, misc]  # noqa: E731
    yield


@case
def digest_replaced(monkeypatch: pytest.MonkeyPatch) -> Any:
    def f(x: Any) -> Any:
        digest = hashlib.sha256(b"abc")
        digest.update(b"de")
        return x + 1, digest.hexdigest()

    yield f
    monkeypatch.setattr(hashlib, "sha256", hashlib.md5)
    yield


@case
def factory_of_a_defaultdict() -> Any:
    factory: Any = int
    start = {"a": 1}
    longest: Any = 2

    def f(x: Any) -> Any:
        table = collections.defaultdict(factory, start)
        queue = collections.deque((1, 2, 3), longest)
        return x + 1, table["b"], table["a"], queue, list(table)

    yield f
    factory = str
    yield
    factory = lambda: 7  # noqa: E731
    yield
    start["b"] = 5
    yield
    longest = None
    yield
    longest = 1
    yield


@case
def subclass_of_dict_gets_methods() -> Any:
    class Table(dict[Any, Any]):
        def __missing__(self, key: str) -> Any:
            return 2

    def f(x: Any) -> Any:
        table = Table(a=1)
        table["c"] = 4
        return x * table["b"], table["a"], "z" in table, len(table), list(table), bool(table), table.get("c")

    yield f
    Table.__missing__ = lambda self, key: 3  # type: ignore[method-assign]
    yield
    for name, method in {
        "__getitem__": lambda self, key: 7,
        "__contains__": lambda self, key: True,
        "__len__": lambda self: 5,
        "__iter__": lambda self: iter("xyz"),
        "__setitem__": lambda self, key, value: None,
        "__bool__": lambda self: False,
        "get": lambda self, key: 9,
        "__init__": lambda self, **given: None,
    }.items():
        setattr(Table, name, method)
        yield


@case
def counter_gets_another_count() -> Any:
    words = ["a", "b", "a"]

    def f(x: Any) -> Any:
        counts = collections.Counter(words)
        return x * counts["a"] + counts["z"], dict(counts)

    yield f
    words.append("z")
    yield
    plain = collections.Counter.__missing__
    try:
        collections.Counter.__missing__ = lambda self, key: 5  # type: ignore[method-assign]
        words.pop()
        yield
    finally:
        collections.Counter.__missing__ = plain  # type: ignore[method-assign]


@case
def attribute_of_a_thread() -> Any:
    local: Any = threading.local()
    local.gain = 2
    yield lambda x: x * local.gain
    local.gain = 3
    yield
    local.gain = 2.5
    yield
    local.gain = X
    yield
    del local.gain
    yield
    local = types.SimpleNamespace(gain=8)
    yield


@case
def numbers_that_are_counted() -> Any:
    numbers: Any = itertools.count()

    def f(x: Any) -> Any:
        n = next(numbers)
        return x + 1, n > 20, type(n).__name__

    yield f
    numbers = itertools.count(50)
    yield
    numbers = itertools.count(fractions.Fraction(5))
    yield
    numbers = itertools.count(1.5)
    yield
    numbers = iter([1, 2])
    yield


@case
def object_of_a_weak_reference() -> Any:
    class Box:
        gain = 2

    box = Box()

    def f(x: Any) -> Any:
        found = weakref.ref(box)()
        return x * found.gain, found is box

    yield f
    box = Box()
    box.gain = 3  # type: ignore[misc]
    yield
    Box = weakref.ref  # type: ignore[misc, assignment]
    weakref.ref = lambda found: lambda: types.SimpleNamespace(gain=7)  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        weakref.ref = Box  # type: ignore[misc]


@case
def implementation_registered() -> Any:
    @functools.singledispatch
    def kind(value: Any) -> int:
        return 1

    def f(x: Any) -> Any:
        return x * kind("a") + kind(2)

    kind("a"), kind(2)
    yield f
    kind.register(str, lambda value: 5)
    yield
    kind.register(object, lambda value: 7)
    yield


@case
def level_of_a_logger() -> Any:
    log = logging.getLogger("evalframe.changing")
    log.propagate, log.level = False, logging.INFO
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    log.addHandler(handler)

    def f(x: Any) -> Any:
        stream.seek(0), stream.truncate()
        log.info("shape %s", x.shape)
        return x + 1, stream.getvalue()

    yield f
    log.setLevel(logging.ERROR)
    yield
    log.setLevel(logging.DEBUG)
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    yield
    handler.setFormatter(logging.Formatter("%(funcName)s %(lineno)d %(threadName)s"))
    yield
    handler.addFilter(lambda record: False)
    yield
    log.removeHandler(handler)
    log.addHandler(logging.NullHandler())
    yield


@case
def abstract_base_of_the_library() -> Any:
    class Row:
        def __len__(self) -> int:
            return 2

    row: Any = Row()
    yield lambda x: x * (2 if isinstance(row, collections.abc.Sequence) else 3) + isinstance(row, collections.abc.Sized) + isinstance([], collections.abc.Mapping)
    collections.abc.Sequence.register(Row)
    yield
    row = 5
    yield
    row = {}
    yield


@case
def names_of_the_module() -> Any:
    yield lambda x: x * globals().get("EVALFRAME_FACTOR", 2)
    globals()["EVALFRAME_FACTOR"] = 3
    yield
    globals()["EVALFRAME_FACTOR"] = 4.5
    yield
    del globals()["EVALFRAME_FACTOR"]
    yield


@case
def text_that_a_made_object_gets() -> Any:
    text, numbers = b"abc", [1, 2]

    def f(x: Any) -> Any:
        made, found = bytearray(text), set(numbers)
        made.extend(b"de")
        found.update(numbers)
        return x + 1, made, found

    yield f
    text = b"xyz"
    yield
    numbers.append(3)
    yield


@case
def dict_of_an_object_changes() -> Any:
    class Box:
        def __init__(self) -> None:
            self.gain = 2.0

    box = Box()
    yield lambda x: x * vars(box)["gain"] + box.__dict__["gain"]
    box.gain = 3.0
    yield
    box.__dict__ = {"gain": 4.0}
    yield
    Box.__getattribute__ = lambda self, name: {"gain": 5.0} if name == "__dict__" else object.__getattribute__(self, name)  # type: ignore[method-assign, assignment]
    yield


@case
def class_says_what_the_dict_is() -> Any:
    class Box:
        def __init__(self, gain: Any) -> None:
            self.gain = gain

    def scaled(x: Any) -> Any:
        names = vars(Box(x))
        names["twice"] = x * 2
        return [*names], x + 1

    yield scaled
    Box.twice = property(lambda self: 3, lambda self, value: None)  # type: ignore[attr-defined]
    yield
    Box.__getattribute__ = lambda self, name: {"other": 1} if name == "__dict__" else object.__getattribute__(self, name)  # type: ignore[method-assign, assignment]
    yield


@case
def ordered_dict_changes() -> Any:
    settings = collections.OrderedDict(gain=2.0)
    yield lambda x: x * settings["gain"] + len(settings)
    settings["gain"] = 3.0
    yield
    settings["more"] = 1.0
    yield
    settings.clear()
    settings["gain"] = 1.0
    yield


@case
def classes_become_equal() -> Any:
    class Meta(type):
        pass

    class Row(metaclass=Meta):
        pass

    class Column(metaclass=Meta):
        pass

    row = Row()
    yield lambda x: x * (2 if type(row) in (int, Column) else 3)
    Meta.__eq__ = lambda self, other: True  # type: ignore[method-assign, assignment]
    yield


@case
def cached_property_is_another() -> Any:
    class Box:
        def __init__(self, a: Any) -> None:
            self.a = a

        @functools.cached_property
        def twice(self) -> Any:
            return self.a * 2

    yield lambda x: Box(x).twice
    Box.twice.func = lambda self: self.a * 3  # type: ignore[assignment]
    yield
    Box.twice.attrname = "thrice"
    yield


@case
def hash_of_a_key() -> Any:
    class Key:
        def __init__(self, name: str) -> None:
            self.name = name

        def __hash__(self) -> int:
            return 7

        def __eq__(self, other: Any) -> Any:
            return self.name == other.name

    def looked_up(x: Any) -> Any:
        d = {Key("a"): x, Key("b"): x * 2}
        return d.get(Key("b"), 0) * 2, len(d)

    yield looked_up
    Key.__eq__ = lambda self, other: True  # type: ignore[method-assign, assignment]
    yield
    Key.__hash__ = lambda self: hash(self.name)  # type: ignore[method-assign, assignment]
    yield
    Key.__eq__ = lambda self, other: False  # type: ignore[method-assign, assignment]
    yield


@case
def table_of_members() -> Any:
    class Color(enum.Enum):
        RED = 1
        GREEN = 2

    table: Any = {Color.RED: 2.0}
    yield lambda x: x * table[Color.RED] + (Color.GREEN in table)
    table[Color.RED] = 3.0
    yield
    table[Color.GREEN] = 1.0
    yield
    table.clear()
    table[Color.RED] = 5.0
    yield


@case
def class_gets_a_hash() -> Any:
    class Key:
        pass

    def counted(x: Any) -> Any:
        return x * len({Key(): 1, Key(): 2})

    yield counted
    Key.__hash__ = lambda self: 3  # type: ignore[method-assign, assignment]
    yield
    Key.__eq__ = lambda self, other: True  # type: ignore[method-assign, assignment]
    yield


@case
def order_of_instances() -> Any:
    class Row:
        def __init__(self, n: int) -> None:
            self.n = n

        def __lt__(self, other: Any) -> Any:
            return self.n < other.n

    rows = [Row(2), Row(1), Row(3)]
    yield lambda x: (x * sorted(rows)[0].n, [row.n for row in sorted(rows)])
    rows[0].n = 5
    yield
    Row.__lt__ = lambda self, other: self.n > other.n  # type: ignore[method-assign, assignment]
    yield
    rows.append(Row(0))
    yield


def told(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """What came of a call, and what it left in its arguments; those that overlapped do so in the call, too."""
    copies: dict[int, Any] = {}

    def copied(argument: Any) -> Any:
        if type(argument) is not np.ndarray:
            return argument
        base = argument if argument.base is None or type(argument.base) is not np.ndarray else argument.base
        if base.base is not None or argument.dtype.hasobject or not argument.flags.writeable:
            return argument
        own = copies.setdefault(id(base), base.copy())
        offset = argument.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        return own if argument is base else np.ndarray(argument.shape, argument.dtype, own.data, offset, argument.strides)

    given = [copied(argument) for argument in arguments]
    return outcome(function, *given), [argument for argument in given if type(argument) is np.ndarray]


def with_globals(changes: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """The same case, but that what it shares with its function is a global: that is guarded in other ways than a closure."""
    tree: Any = ast.parse(textwrap.dedent(inspect.getsource(changes)))
    (definition,) = tree.body
    definition.decorator_list.clear()
    code = changes.__code__
    for statement in definition.body:  # a global can't be annotated
        if isinstance(statement, ast.AnnAssign):
            definition.body[definition.body.index(statement)] = ast.Assign([statement.target], statement.value)
    names = dict.fromkeys((*code.co_varnames[code.co_argcount :], *code.co_cellvars))
    if names:
        definition.body.insert(0, ast.Global(list(names)))
    namespace = dict(changes.__globals__)
    exec(compile(ast.fix_missing_locations(tree), __file__, "exec"), namespace)
    made: Callable[..., Iterator[Any]] = namespace[changes.__name__]
    return made


def check_is_seen(changes: Callable[..., Iterator[Any]], backend: str, request: pytest.FixtureRequest) -> None:
    fixtures = {wanted: request.getfixturevalue(wanted) for wanted in changes.__code__.co_varnames[: changes.__code__.co_argcount]}
    steps = changes(**fixtures)
    first = next(steps)
    function, arguments = first if isinstance(first, tuple) else (first, (X,))
    captured = evalframe.jit(function, backend=backend)
    results = []
    for number in range(100):
        for call in range(3):
            expected = told(function, arguments)
            got = told(captured, arguments)
            assert same(got, expected), f"behind change {number}, call {call}: {got} instead of {expected}"
        results.append(expected)
        try:
            arguments = next(steps) or arguments
        except StopIteration:
            break
    assert any(not same(before, after) for before, after in zip(results, results[1:])), "a case that changes nothing shows nothing"


@case
def metaclass_of_a_class_exchanged() -> Any:
    class Plain(type):
        @property
        def gain(cls) -> float:
            return 2.0

    class Other(type):
        @property
        def gain(cls) -> float:
            return 3.0

    class Box(metaclass=Plain):
        pass

    yield lambda x: x * Box.gain
    Box.__class__ = Other  # type: ignore[assignment]
    yield


@case
def attribute_of_a_metaclass_becomes_a_descriptor() -> Any:
    class Descriptor: ...

    class Meta(type):
        gain = Descriptor()

    class Box(metaclass=Meta):
        gain = 2.0  # type: ignore[assignment]

    yield lambda x: x * Box.gain  # type: ignore[operator]
    Descriptor.__get__ = lambda self, cls, meta: 3.0  # type: ignore[attr-defined]
    Descriptor.__set__ = lambda self, cls, value: None  # type: ignore[attr-defined]
    yield


@case
def numbers_behind_int_and_float() -> Any:
    class Ratio:
        def __init__(self, above: int, below: int) -> None:
            self.above, self.below = above, below

        def __int__(self) -> int:
            return self.above // self.below

        def __float__(self) -> float:
            return self.above / self.below

        def __len__(self) -> int:
            return self.above + self.below

    def asks(x: Any, ratio: Any) -> Any:
        return x * int(ratio), x + float(ratio), len(ratio)

    yield asks, (X, Ratio(5, 2))
    for above, below in ((7, 1), (9, 2), (20, 3), (-3, 5)):
        yield (X, Ratio(above, below))


@case
def function_whose_dict_was_asked_for_becomes_another_callable() -> Any:
    def other(a: Any) -> Any: ...

    other.gain = 3  # type: ignore[attr-defined]

    def reads(x: Any, by: Any) -> Any:
        return x * 2, getattr(by, "__dict__", {})

    yield reads, (X, other)
    yield (X, len)
    yield (X, other)


@case
def class_of_an_exception_that_a_call_raises_changes() -> Any:
    def reads(x: Any) -> Any:
        try:
            json.loads("[")
        except ValueError as error:
            return x * 2, getattr(error, "pos", None), getattr(error, "extra", None)

    yield reads
    json.JSONDecodeError.extra = 3  # type: ignore[attr-defined]
    yield
    json.JSONDecodeError.pos = property(lambda self: 7, lambda self, value: None)  # type: ignore[assignment]
    yield
    del json.JSONDecodeError.extra, json.JSONDecodeError.pos  # type: ignore[attr-defined]
    yield


@case
def function_that_raises_is_another_one() -> Any:
    original = re.compile

    def reads(x: Any) -> Any:
        try:
            return x, re.compile("(").pattern
        except re.error as error:
            return x + 1, error.msg

    yield reads
    re.compile = lambda *given: original("a") if given == ("(",) else original(*given)  # type: ignore[assignment]
    yield
    re.compile = original  # type: ignore[assignment]
    yield


@case
def classes_of_groups_of_exceptions_change() -> Any:
    class Own(ExceptionGroup):
        pass

    def reads(x: Any) -> Any:
        texts = []
        try:
            raise Own("g", [ValueError(1), KeyError(2)])
        except* ValueError as group:
            texts.append(str(group))
        except* KeyError as group:
            texts.append(group.message)
        return x * 2, texts, [part and part.message for part in Own("h", [OSError(3)]).split(OSError)]

    yield reads
    Own.derive = lambda self, errors: ExceptionGroup("other", errors)  # type: ignore[method-assign, assignment, return-value]
    yield
    del Own.derive
    Own.split = lambda self, kind: (None, ExceptionGroup("rest", self.exceptions))  # type: ignore
    yield
    del Own.split
    Own.__str__ = lambda self: "text"  # type: ignore[method-assign, assignment]
    yield
    del Own.__str__
    Own.__notes__ = ["of the class"]
    yield


@case
def classes_that_a_clause_catches_change() -> Any:
    caught: Any = module("kinds = (ValueError, OSError)")

    def reads(x: Any) -> Any:
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
        except* caught.kinds as group:
            x = x * len(group.exceptions)
        except* LookupError:
            x = x + 1
        return x

    yield reads
    caught.kinds = KeyError
    yield
    caught.kinds = (KeyError, ValueError)
    yield
    caught.kinds = (KeyError, ExceptionGroup)
    yield
    caught.kinds = 3
    yield


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("name", CASES)
def test_is_seen(name: str, backend: str, request: pytest.FixtureRequest) -> None:
    check_is_seen(CASES[name], backend, request)


@pytest.mark.parametrize("name", [name for name, changes in CASES.items() if changes.__name__ == name and name != "closure_cell_changed"])
def test_is_seen_of_globals(name: str, request: pytest.FixtureRequest) -> None:
    check_is_seen(with_globals(CASES[name]), "reference", request)


def test_what_loads_a_module_is_left_to_importlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loaded_by_a_test.py").write_text("gain = 2.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load() -> types.ModuleType:
        return importlib.import_module("loaded_by_a_test")

    def function(x: Any) -> Any:
        return x * load().gain

    captured, x = evalframe.jit(function), np.ones(3)
    try:
        np.testing.assert_array_equal(captured(x), 2.0 * x)
        (found,) = evalframe.explain(captured)(x).breaks
        assert "import of loaded_by_a_test" in str(found)
        np.testing.assert_array_equal(captured(x), 2.0 * x)
        loaded = evalframe.jit(function)
        np.testing.assert_array_equal(loaded(x), 2.0 * x)
        assert not evalframe.explain(loaded)(x).breaks
    finally:
        sys.modules.pop("loaded_by_a_test", None)
