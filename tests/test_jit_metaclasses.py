"""Classes that metaclasses of the program's make, in captured functions: the same calls in the same order, and the same classes."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import leaving_before

X, Y = np.linspace(-1, 1, 5), np.ones(5)
CALLS = [(X, Y), (X * 3, Y + 2), (X.astype("f4"), Y), (X, Y)]
CASES: dict[str, Callable[..., Any]] = {}
SEEN: list[Any] = []


def case(function: Callable[..., Any]) -> Callable[..., Any]:
    CASES[function.__name__] = function
    return function


class Meta(type):
    def __new__(mcls, name, bases, names, **keywords):
        SEEN.append((name, bases, [key for key in names if not key.startswith("__")], keywords, sys._getframe(1).f_code.co_name))
        names["extra"] = keywords.get("flag", 2)
        made = super().__new__(mcls, name, bases, names)
        made.late = len(name)
        return made


class Derived(Meta):
    pass


class Finishing(type):
    def __init__(cls, name, bases, names):
        super().__init__(name, bases, names)
        SEEN.append(name)
        cls.tag = name


class Failing(type):
    def __new__(mcls, name, bases, names):
        super().__new__(mcls, name, bases, names)
        raise ValueError(name)


class Other(type):
    def __new__(mcls, name, bases, names):
        return 5


class Copying(type):
    def __new__(mcls, name, bases, names):
        return super().__new__(mcls, name, bases, dict(names, w=3))

    def __init__(cls, *given):
        return 4


class Returning(type):
    def __init__(cls, *given):
        return 4


class Storing(type):
    def __setattr__(cls, name, value):
        SEEN.append(name)
        super().__setattr__(name, value)

    def __new__(mcls, name, bases, names):
        made = super().__new__(mcls, name, bases, names)
        made.z = 1
        return made


class Preparing(type):
    @classmethod
    def __prepare__(mcls, name, bases):
        return {"prepared": 5}


class Plain(type):
    pass


class Base(metaclass=Meta):
    pass


class PlainBase(metaclass=Plain):
    pass


class Told:
    def __init_subclass__(cls, **keywords):
        SEEN.append(("told", cls.__name__, keywords))


class Named:
    def __set_name__(self, owner, name):
        SEEN.append((owner.__name__, name))


@case
def keyword(x, y):
    class Local(metaclass=Meta, flag=9):
        k = 2

        def f(self):
            return x * self.k

    return Local().f() * Local.extra, Local


@case
def from_a_base(x, y):
    class Local(Base):
        k = x

    return Local.k * Local.late, Local


@case
def raising(x, y):
    class Local(metaclass=Failing):
        pass

    return x


@case
def no_class(x, y):
    class Local(metaclass=Other):
        pass

    return x * Local


@case
def wrong_result(x, y):
    class Local(metaclass=Copying):
        pass

    return x


@case
def wrong_result_of_an_initialiser(x, y):
    class Local(metaclass=Returning):
        pass

    return x


@case
def stores_are_followed(x, y):
    class Local(metaclass=Storing):
        q = 2

    Local.t = x
    return x * Local.z, Local


@case
def more_derived_with_super(x, y):
    class Local(Base, metaclass=Derived, flag=1):
        def f(self, a):
            return super().__eq__(a), __class__  # noqa: F821

    return x * Local.extra, Local, Local().f(3)[1] is Local


@case
def told_and_named(x, y):
    class Local(Told, metaclass=Meta):
        named = Named()

    return x, Local


@case
def finished(x, y):
    class Local(metaclass=Finishing):
        k = x

    return Local.k + y, Local.tag, Local


@case
def called(x, y):
    first, second, third = Finishing("First", (), {"k": x}), Meta("Second", (Base,), {"k": y}), Plain("Third", (PlainBase,), {})
    return first.k + second.k, first, second, third


@case
def conflict(x, y):
    class Local(Base, metaclass=Finishing):
        pass

    return x


@case
def conflict_in_a_call(x, y):
    return Plain("Local", (Base,), {})


@case
def wrong_number(x, y):
    return Finishing("Local", ()), x


@case
def slots(x, y):
    class Local(metaclass=Plain):
        __slots__ = ("a",)

        def __init__(self, a):
            self.a = a

    class Inner(Local):
        pass

    return Local(x).a + y, Local, Inner, Inner.__base__ is Local


@case
def prepared_names(x, y):
    class Local(metaclass=Preparing):
        k = prepared  # type: ignore[name-defined] # noqa: F821

    return x * Local.k, Local


@case
def branch_behind(x, y):
    class Local(metaclass=Meta):
        k = x

    if float(x.sum()) > 3:
        SEEN.append("much")
    return Local.k + y, Local


@case
def in_a_loop(x, y):
    made = []
    for q in range(3):

        class Local(Base):
            k = q

        made.append(Local)
    return [one.k * x for one in made], made


@case
def found_by_a_function(x, y):
    class Local(metaclass=Finishing):
        pass

    def late():
        return Local

    return x + 1, late().tag, late


def shown(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype, value.tolist()
    if isinstance(value, type):
        return value.__qualname__, value.__module__, type(value), [base.__name__ for base in value.__mro__], shown(value.__dict__.get("k")), list(value.__dict__)
    if isinstance(value, (tuple, list)):
        return [shown(one) for one in value]
    if callable(value):
        return shown(value())
    return value


def told(function: Callable[..., Any], arguments: Any) -> Any:
    SEEN.clear()
    try:
        result = shown(function(*arguments))
    except Exception as error:
        names = []
        traceback = error.__traceback__
        while traceback:
            names.append((traceback.tb_frame.f_code.co_name, traceback.tb_lineno))
            traceback = traceback.tb_next
        result = type(error), str(error), names[1:]
    return result, list(SEEN)


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("name", CASES)
def test_as_in_plain_python(name: str, backend: str) -> None:
    captured = evalframe.jit(CASES[name], backend=backend)
    for arguments in CALLS:
        assert told(captured, arguments) == told(CASES[name], arguments)


@pytest.mark.parametrize("name", CASES)
def test_may_be_left_before_every_node(name: str) -> None:
    captured = evalframe.jit(CASES[name], backend="reference")
    told(captured, CALLS[0])
    for node in range(max((entry["nodes"] for entry in _core.jit_entries(captured)), default=0)):
        with leaving_before(node):
            for arguments in CALLS[:2]:
                assert told(captured, arguments) == told(CASES[name], arguments), node


@pytest.mark.parametrize("name", ["finished", "found_by_a_function"])
def test_one_graph(name: str) -> None:
    assert not evalframe.explain(CASES[name])(X, Y).breaks
