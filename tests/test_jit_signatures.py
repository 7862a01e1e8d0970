"""What `inspect` tells of functions, and what it is made of: read-only views of dicts, ordered dicts, members of enumerations."""

from __future__ import annotations

import enum
import functools
import inspect
import itertools
import keyword
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import evalframe
from helpers import differential_tests, one_graph_tests, outcome, put_into

A, B = np.arange(4.0), np.arange(4.0) * 2 - 3
CALLS = [(A, B), (B, A), (A, B)]
CASES: list[Callable[..., Any]] = []
BREAKING: list[Callable[..., Any]] = []
case = put_into(CASES)
breaking = put_into(BREAKING)  # those that aren't one graph


def plain(a: int, b: float = 2, /, c: Any = None, *rest: Any, d: str, e: int = 5, **others: Any) -> int:
    return 3


def short(a, b=1):  # type: ignore[no-untyped-def]
    return a


@functools.wraps(plain)
def wrapper(*given: Any, **named: Any) -> Any:
    return plain(*given, **named)


def signed() -> None: ...


signed.__signature__ = inspect.signature(short)  # type: ignore[attr-defined]


class Machine:
    def __init__(self, gain: float, *, name: str = "m") -> None:
        self.gain = gain

    def step(self, by: Any, times: int = 2) -> Any:
        return by * times

    @classmethod
    def made(cls, gain: float) -> Machine:
        return cls(gain)


MACHINE = Machine(2.0)
STEP = functools.partial(short, b=7)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Loud(enum.IntEnum):
    LOW = 1
    HIGH = 2

    def __eq__(self, other: Any) -> bool:
        return int(self) == 1

    __hash__ = enum.IntEnum.__hash__  # type: ignore[assignment]


def text_of(value: Any) -> Any:
    """With proxies and iterators gone through, as these have only their places for texts."""
    if isinstance(value, types.MappingProxyType):
        return "proxy", repr(value)
    if isinstance(value, (inspect.Signature, inspect.Parameter, inspect.BoundArguments, OrderedDict)):
        return type(value), repr(value)
    if isinstance(value, Iterator):
        return "iterator", text_of(tuple(value))
    if type(value) is tuple:
        return tuple(text_of(part) for part in value)
    return value


def told(function: Any, *arguments: Any) -> Any:
    return outcome(lambda: text_of(function(*arguments)))


@case
def parameters(x: Any, y: Any) -> Any:
    found = inspect.signature(plain).parameters
    return x * len(found), list(found), found["b"].default, "d" in found, "z" in found, [p.name for p in found.values() if p.kind is p.KEYWORD_ONLY]


@case
def given_out(x: Any, y: Any) -> Any:
    signature = inspect.signature(short)
    return x + y, signature, signature.parameters, signature.parameters["b"]


@case
def kinds(x: Any, y: Any) -> Any:
    kinds = [parameter.kind for parameter in inspect.signature(plain).parameters.values()]
    return x - y, kinds, [kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_KEYWORD) for kind in kinds]


@case
def bound(x: Any, y: Any) -> Any:
    bound = inspect.signature(short).bind(x, b=y)
    return bound.arguments["a"] * bound.arguments["b"], bound.args, bound.kwargs


@case
def bound_with_all_kinds(x: Any, y: Any) -> Any:
    bound = inspect.signature(plain).bind(x, 1, 2, 3, 4, d=y, z=5)
    bound.apply_defaults()
    return x * bound.arguments["d"], bound.arguments, bound.args, bound.kwargs


@case
def bound_in_part(x: Any, y: Any) -> Any:
    bound = inspect.signature(plain).bind_partial(x + 1)
    before = dict(bound.arguments)
    bound.apply_defaults()
    return before, bound.arguments, y


@case
def bound_and_changed(x: Any, y: Any) -> Any:
    bound = inspect.signature(short).bind(x)
    bound.arguments["b"] = y * 2
    return short(*bound.args, **bound.kwargs), bound.arguments["b"], bound.signature.parameters["b"].default


@case
def of_a_wrapped_function(x: Any, y: Any) -> Any:
    return x * len(inspect.signature(wrapper).parameters) + y


@breaking
def of_one_that_says_it(x: Any, y: Any) -> Any:
    return x * len(inspect.signature(signed).parameters) + y


@breaking
def of_a_local_function(x: Any, y: Any) -> Any:
    def inner(a: Any, b: Any = x) -> Any: ...

    return inspect.signature(inner).parameters["b"].default + y


@breaking
def of_methods_and_classes(x: Any, y: Any) -> Any:
    return x, str(inspect.signature(Machine)), str(inspect.signature(MACHINE.step)), str(inspect.signature(Machine.made)), str(inspect.signature(STEP)), y


@breaking
def replaced(x: Any, y: Any) -> Any:
    signature = inspect.signature(short)
    first = signature.parameters["a"].replace(default=3, kind=inspect.Parameter.KEYWORD_ONLY)
    return x, str(signature.replace(parameters=[first], return_annotation=int)), signature == inspect.signature(short), y


@breaking
def refused(x: Any, y: Any) -> Any:
    errors = []
    for given, named in [((), {}), ((x, y, 1), {}), ((x,), {"a": 1}), ((x,), {"z": 1})]:
        try:
            inspect.signature(short).bind(*given, **named)
        except TypeError as error:
            errors.append(str(error))
    return x + y, errors


@breaking
def refused_and_raised(x: Any, y: Any) -> Any:
    return inspect.signature(short).bind(x, y, x + y)


@breaking
def texts(x: Any, y: Any) -> Any:
    return x + y, str(inspect.signature(plain)), repr(inspect.signature(short).parameters["b"])


@case
def views(x: Any, y: Any) -> Any:
    table = OrderedDict((name, value) for name, value in zip("ab", (x, y)))
    view = types.MappingProxyType(table)
    table["c"] = x + y
    table.move_to_end("a")
    gone_through = [name for name, _ in view.items()]
    return view["a"] * 2, gone_through, list(view.keys()), view.get("c"), view.get("d"), view.get("e", y), len(view), "a" in view, view.copy()


@case
def views_given_out(x: Any, y: Any) -> Any:
    table = {"a": x + 1}
    view = types.MappingProxyType(table)
    copy = view.copy()
    copy["b"] = y
    table["c"] = 3
    return view, copy, tuple(view.values()), view.get("c")


@breaking
def view_that_changes_meanwhile(x: Any, y: Any) -> Any:
    table = {"a": x}
    view = types.MappingProxyType(table)
    for name in view:
        table[name + "b"] = y
    return view


@case
def ordered_of_pairs(x: Any, y: Any) -> Any:
    table = OrderedDict((pair for pair in [("b", x), ("a", y), ("b", x + y)]), z=3)
    return table, list(table), table["b"] + 1


@breaking
def ordered_of_odd_pairs(x: Any, y: Any) -> Any:
    told: list[Any] = [OrderedDict(pair for pair in ["ab", ["c", x], iter((3, y))])]
    for odd in (1, "a", "abc", (1, 2, 3), [], None, ([], 1)):
        try:
            OrderedDict(pair for pair in (odd,))
        except (TypeError, ValueError) as error:
            told.append((type(error), str(error)))
    return x, told


@case
def members(x: Any, y: Any) -> Any:
    level, color = Level.HIGH, Color.RED
    found = [level in (Level.LOW, Level.HIGH), color in (Color.BLUE, 1), level in (1, 2), level in (Color.RED, None), 2 in [Level.HIGH], color in [1, color]]
    return x * sum(found), found, y


@breaking
def members_that_compare_in_python(x: Any, y: Any) -> Any:
    return x, [Loud.HIGH in (1, Loud.LOW), 5 in (Loud.LOW,), Color.RED in (Loud.LOW,)], y


@case
def kept_methods(x: Any, y: Any) -> Any:
    return x + y, keyword.iskeyword("if"), keyword.iskeyword("x"), JOIN("ab"), [word for word in ("is", "was") if keyword.iskeyword(word)]


JOIN = ", ".join


@case
def whole_slices(x: Any, y: Any) -> Any:
    row = (x, y)
    return row[:] is row, row[0:5] is row, row[::-1] is row, row[::-1][0], row[:1] is row, row[-2:] is row


@case
def whole_slice_of_an_argument(x: Any, y: Any) -> Any:
    return whole_of(x, y)


def whole_of(*given: Any) -> Any:
    return given[:] is given, given[0:], (*given, 1)[:]


@case
def chain_over_what_goes_on(x: Any, y: Any) -> Any:
    numbers = iter([1, 2, 3, 4])
    chained = itertools.chain((0,), numbers)
    first = next(chained), next(numbers), next(chained), next(numbers)
    return x * sum(first) + y, first, list(chained), next(numbers, None)


@breaking
def chain_given_out(x: Any, y: Any) -> Any:
    numbers = iter([1, x, 3])
    chained = itertools.chain((0,), numbers)
    next(chained)
    return next(chained), x + y, numbers, chained


@case
def places(x: Any, y: Any) -> Any:
    table = {id(plain): x, id(Machine): y}
    return table[id(plain)] + 1, id(short) in table, id(Machine) in table, id(plain) == id(short), {id(np)} == {id(np)}


test_behaves_as_plain_python, test_may_be_left_before_every_node = differential_tests(CASES + BREAKING, CALLS, told, left=CALLS[:2], nodes=8)
test_is_one_graph = one_graph_tests(CASES, (A, B), told)


@pytest.mark.parametrize("of", [plain, short, wrapper, signed, Machine, Machine.step, MACHINE.step, STEP, len, 3], ids=lambda of: type(of).__name__)
def test_signature_of_an_argument(of: Any) -> None:
    def function(x: Any, of: Any) -> Any:
        return x + 1, inspect.signature(of), len(inspect.signature(of).parameters)

    captured = evalframe.jit(function, backend="reference")
    for given in (of, short, of):
        assert repr(told(captured, A, given)) == repr(told(function, A, given))
