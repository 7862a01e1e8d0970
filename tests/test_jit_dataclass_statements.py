"""Dataclasses that captured functions make: the library finishes them while they are recorded, and what it put into them is made anew."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest

import evalframe
from helpers import check_behaves_as_plain, check_may_be_left
from shown_classes import outcome

X, Y = np.linspace(-1, 1, 5), np.ones(5)
CALLS = [(X, Y), (X * 3, Y + 2), (X.astype("f4"), Y), (X, Y)]
ONE_GRAPH: dict[str, Callable[..., Any]] = {}
OTHERS: dict[str, Callable[..., Any]] = {}


def case(function: Callable[..., Any]) -> Callable[..., Any]:
    ONE_GRAPH[function.__name__] = function
    return function


def other(function: Callable[..., Any]) -> Callable[..., Any]:
    OTHERS[function.__name__] = function
    return function


@dataclass
class Base:
    a: Any
    b: int = 2


@case
def plain(x, y):
    @dataclass
    class Local:
        gain: float
        offset: float = 1.0

    local = Local(2.0)
    return x * local.gain + y * local.offset, Local, local


@case
def all_options(x, y):
    @dataclass(frozen=True, order=True, kw_only=True, unsafe_hash=True)
    class Local:
        """Text."""

        a: int
        b: Any = field(default=3, compare=False, repr=False)

    one, two = Local(a=1, b=x), Local(a=2, b=y)
    try:
        one.a = 3  # type: ignore[misc]
    except dataclasses.FrozenInstanceError as error:
        return one < two, {one: 3}[Local(a=1)], str(error), x + y, Local, one


@case
def fields_of_all_kinds(x, y):
    @dataclass
    class Local:
        a: Any
        b: list[int] = field(default_factory=list)
        _: KW_ONLY
        c: int = field(default=4, repr=False)
        d: InitVar[int] = 3
        e: ClassVar[int] = 8
        f: list[int] = field(default_factory=lambda: [1, 2])

        def __post_init__(self, d):
            self.a = self.a * d

    local = Local(x, d=4)
    local.b.append(local.c)
    return local.a + y * Local.e, Local, local, Local(y).b, Local.__match_args__


@case
def made_base(x, y):
    @dataclass
    class First:
        a: Any
        b: int = 2

    @dataclass
    class Second(First):
        c: int = 3

        def __repr__(self):
            return super().__repr__()

        def sum(self):
            return self.a * self.b + self.c

    return Second(x).sum() + y, First, Second, Second(y)


@case
def base_from_outside(x, y):
    @dataclass
    class Local(Base):
        c: int = 3

    local = Local(x)
    return local.a * local.b + local.c + y, Local, local


@case
def with_slots(x, y):
    @dataclass(slots=True, frozen=True)
    class Local:
        a: Any
        b: int = 2

        def twice(self):
            return self.a * 2, __class__  # noqa: F821

    local = Local(x)
    return local.twice()[0] + y, local.twice()[1] is Local, Local, local


@case
def with_slots_and_weak_references(x, y):
    @dataclass(slots=True, weakref_slot=True)
    class Local:
        a: Any

        @property
        def more(self):
            return self.a + 1

        @classmethod
        def of(cls, a):
            return cls(a)

    return Local.of(x).more + y, Local


@case
def own_methods_stay(x, y):
    @dataclass
    class Local:
        a: int

        def __init__(self):
            self.a = 4

        def __eq__(self, other):
            return True

        def __repr__(self):
            return "text"

    return Local() == 3, repr(Local()), x * Local().a + y, Local


@case
def helpers_of_the_library(x, y):
    @dataclass
    class Local:
        a: int
        b: int = 1

    local = dataclasses.replace(Local(3), b=4)
    names = [one.name for one in dataclasses.fields(Local)]
    match local:
        case Local(a, b):
            return x * a + y * b, dataclasses.asdict(local), names, local == Local(3, 4), local != Local(3, 5)


@case
def classes_of_a_loop(x, y):
    made = []
    for number in range(3):

        @dataclass
        class Local:
            a: int = number

        made.append(Local)
    return [one().a for one in made], made, x + y


@case
def exceptions(x, y):
    @dataclass
    class Failed(Exception):
        code: int

    z = x + y
    try:
        raise Failed(3)
    except Failed as error:
        return z * error.code, error.args


@case
def raises_behind_the_making(x, y):
    @dataclass
    class Local:
        a: Any

        def __post_init__(self):
            raise ValueError("no")

    z = x + y
    return Local(z)


@other
def made_twice(x, y):
    class Local:
        a: int = 3

    first = dataclass(Local)
    second = dataclass(repr=False)(Local)
    return first is second, x * second().a + y, Local


@other
def stored_into_before(x, y):
    def more(made):
        made.extra = 1
        return dataclass(made)

    @more
    class Local:
        a: int = 3

    return x + y, Local


@other
def mutable_default(x, y):
    z = x + y

    @dataclass
    class Local:
        a: list[int] = [z]  # noqa: RUF008

    return Local


@other
def order_of_defaults(x, y):
    @dataclass
    class Local:
        a: int = 1
        b: int  # type: ignore[misc]

    return Local


@other
def field_without_annotation(x, y):
    @dataclass
    class Local:
        a: int
        b = field(default=3)

    return Local


@other
def default_of_the_call(x, y):
    @dataclass
    class Local:
        a: Any = x

    return Local


@other
def text_with_an_address(x, y):
    @dataclass
    class Local:
        a: Any = lambda: 3

    @dataclass
    class Other:
        a: Any = property(lambda self: 3)

    return repr(Local.a) in (Local.__doc__ or ""), (repr(Other.a) in (Other.__doc__ or "")), x + y


LOG: list[Any] = []


class Asked:
    def __get__(self, instance, owner=None):
        LOG.append(instance is None)
        return 3

    def __set__(self, instance, value):
        LOG.append(value)


@other
def descriptor_for_default(x, y):
    LOG.clear()

    @dataclass
    class Local:
        a: int = Asked()  # type: ignore[assignment]

    return Local(4).a, list(LOG), x + y


class Meta(type):
    def __setattr__(cls, name, value):
        LOG.append(name)
        super().__setattr__(name, value)


@other
def metaclass_is_told(x, y):
    LOG.clear()

    @dataclass
    class Local(metaclass=Meta):
        a: int = 1

    return list(LOG), x + y


class Shown:
    def __repr__(self):
        LOG.append("repr")
        return "shown"


@other
def text_of_a_default(x, y):
    LOG.clear()

    @dataclass
    class Local:
        a: Any = Shown()  # noqa: RUF009

    return Local.__doc__, list(LOG), x + y


class Told:
    def __init_subclass__(cls):
        LOG.append(cls.__name__)


@other
def base_is_told(x, y):
    LOG.clear()

    @dataclass(slots=True)
    class Local(Told):
        a: int = 1

    return list(LOG), x + y, Local


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("function", [*ONE_GRAPH.values(), *OTHERS.values()])
def test_behaves_as_plain_python(function: Callable[..., Any], backend: str) -> None:
    check_behaves_as_plain(function, backend, CALLS, outcome)


@pytest.mark.parametrize("function", [*ONE_GRAPH.values(), *OTHERS.values()])
def test_may_be_left_before_every_node(function: Callable[..., Any]) -> None:
    check_may_be_left(function, "reference", CALLS, 12, outcome)


@pytest.mark.parametrize("name", sorted(set(ONE_GRAPH) - {"raises_behind_the_making"}))
def test_is_one_graph(name: str) -> None:
    told = evalframe.explain(ONE_GRAPH[name], backend="reference")(X, Y)
    assert len(told.entries) == 1 and not told.breaks, [f"{one.reason}: {one.detail}" for one in told.breaks]


def test_each_call_makes_another_class() -> None:
    captured = evalframe.jit(plain, backend="reference")
    made = [captured(X, Y)[1] for _ in range(4)]
    assert len({id(one) for one in made}) == 4
    assert len({id(one.__init__) for one in made}) == 4
    assert len({id(one.__dataclass_fields__["gain"]) for one in made}) == 4
    assert made[0](1.0) != made[1](1.0)
    made[0].__dataclass_fields__["gain"].repr = False
    assert made[1].__dataclass_fields__["gain"].repr and captured(X, Y)[1].__dataclass_fields__["gain"].repr


def test_names_that_texts_of_types_begin_with() -> None:
    scope = types.ModuleType("scope_of_types")
    sys.modules[scope.__name__] = scope
    try:
        text = "from dataclasses import dataclass\nfrom typing import ClassVar as Kind\ndef f(x):\n    @dataclass\n    class P:\n        a: 'Kind[int]' = 3\n"
        exec(text + "    return x + 1, list(P.__init__.__annotations__)", vars(scope))
        captured = evalframe.jit(vars(scope)["f"], backend="reference")
        for kind in (ClassVar, list, list, ClassVar, None):
            vars(scope)["Kind"] = kind
            assert captured(X)[1] == vars(scope)["f"](X)[1]
        del vars(scope)["Kind"]
        assert captured(X)[1] == vars(scope)["f"](X)[1]
    finally:
        del sys.modules[scope.__name__]


def test_the_name_of_a_type_in_the_text_of_the_class() -> None:
    scope = types.ModuleType("scope_of_types")
    sys.modules[scope.__name__] = scope
    try:
        text = "from dataclasses import dataclass\nclass C: pass\ndef f(x):\n    @dataclass\n    class P:\n        a: C\n        b: list[C]\n"
        exec(text + "    return x + 1, P.__doc__, P(1, [2]).a", vars(scope))
        captured = evalframe.jit(vars(scope)["f"], backend="reference")
        for name in ("C", "D", "D", "C"):
            vars(scope)["C"].__qualname__ = name
            assert captured(X)[1:] == vars(scope)["f"](X)[1:]
    finally:
        del sys.modules[scope.__name__]


def test_what_is_looked_for_in_a_module_that_is_gone() -> None:
    captured = evalframe.jit(plain, backend="reference")
    captured(X, Y)
    module = sys.modules.pop(__name__)
    try:
        with pytest.raises(AttributeError):
            captured(X, Y)
    finally:
        sys.modules[__name__] = module


def test_a_replaced_function_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    captured = evalframe.jit(plain, backend="reference")
    captured(X, Y)
    process = dataclasses._process_class  # type: ignore[attr-defined]

    def other_process(cls: Any, *options: Any) -> Any:
        made = process(cls, *options)
        made.extra = 3
        return made

    monkeypatch.setattr(dataclasses, "_process_class", other_process)
    assert captured(X, Y)[1].extra == 3
    monkeypatch.undo()
    assert not hasattr(captured(X, Y)[1], "extra")
