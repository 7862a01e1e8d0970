"""What is told of guards that said no: which, how often, what they found instead; and what guards cost."""

from __future__ import annotations

import json
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core

X = np.arange(6.0)


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def unaligned(array: np.ndarray) -> np.ndarray:
    raw = np.zeros(array.nbytes + 1, dtype=np.uint8)
    made = raw[1:].view(array.dtype)
    made[:] = array
    return made


class Plain:
    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


class Class:
    @staticmethod
    def scaled(x: Any) -> Any:
        return x * 2.0

    def plus(self, x: Any) -> Any:
        return x + 1.0


def changed(made: Callable[[], Any]) -> Callable[[], Any]:
    def change() -> Any:
        Class.plus, Class.scaled = lambda self, x: x, staticmethod(lambda x: x)  # type: ignore[assignment,method-assign,misc]
        return made()

    return change


def plus(x: Any, y: Any) -> Any:
    return x + y


def by_equal(x: Any, y: Any) -> Any:
    return x + 1 if y == "one" else x


def by_length(x: Any, y: Any) -> Any:
    return x * len(y)


def by_key(x: Any, y: Any) -> Any:
    for key in y:
        x = x + y[key]
    return x


def by_set(x: Any, y: Any) -> Any:
    for element in y:
        x = x + element
    return x


def by_member(x: Any, y: Any) -> Any:
    return x + 1 if Plain in y else x


def by_attribute(x: Any, y: Any) -> Any:
    return x * y.weight if hasattr(y, "weight") else x


def by_method(x: Any, y: Any) -> Any:
    return y.plus(x)


def by_class(x: Any, y: Any) -> Any:
    return Class.scaled(x)


def by_call(x: Any, y: Any) -> Any:
    return y(x)


def by_identity(x: Any, y: Any) -> Any:
    return x if y is plus else x + 1


# A function of X and what is found in its second call, the first argument, the second, and what the guard of it tells.
CASES: list[tuple[Callable[..., Any], Any, Callable[[], Any], str]] = [
    (plus, 1.0, lambda: 2, "the type int"),
    (plus, 1.0, lambda: X, "the type ndarray"),
    (plus, X, lambda: np.ones((2, 1)), "an array of float64, rank 2"),
    (plus, X, lambda: X.astype(np.float32), "an array of float32, rank 1"),
    (plus, X, lambda: X.astype(">f8"), "an array of float64, rank 1, not in native byte order"),
    (plus, X, lambda: read_only(X + 1), "an array of float64, rank 1, read-only"),
    (plus, X, lambda: unaligned(X), "an array of float64, rank 1, not aligned"),
    (plus, X, lambda: 1, "the type int"),
    (by_equal, "one", lambda: "two", "'two'"),
    (by_equal, "one", lambda: 1, "1"),
    (by_equal, "one", lambda: "x" * 100, "'" + "x" * 56 + "..."),
    (by_length, [1], lambda: [1, 2], "length 2"),
    (by_length, [1], lambda: (1,), "the type tuple"),
    (by_key, {"a": 1.0}, lambda: {"b": 1.0}, "the keys ('b',)"),
    (by_set, {1.0}, lambda: {2.0}, "the elements (2.0,)"),
    (by_member, {Plain, 1}, lambda: {1}, "one without it"),
    (by_member, {1}, lambda: {Plain}, "one that has it"),
    (by_member, {1}, lambda: {Plain: 1}, "the type dict"),
    (by_attribute, Plain(), lambda: Plain(weight=2.0), "an object that has it"),
    (by_method, Class(), lambda: Plain(plus=np.negative), "the type Plain"),
    (by_method, Class(), changed(Class), "the class, changed"),
    (by_class, 1, changed(int), "the class, changed"),
    (by_call, np.negative, lambda: np.absolute, "absolute"),
    (by_identity, plus, lambda: by_set, "another object"),
]


@pytest.mark.parametrize(("function", "first", "second", "found"), CASES, ids=[f"{case[0].__name__}-{case[3]}" for case in CASES])
def test_what_was_found_is_told(function: Callable[..., Any], first: Any, second: Callable[[], Any], found: str) -> None:
    captured = evalframe.jit(types.FunctionType(function.__code__, globals()), backend="reference")
    captured(X.copy(), first)
    captured(X.copy(), second())
    told = [guard.found for guard in evalframe.guards(captured)[0].guards if guard.failed]
    assert len(told) == 1 and [text for text, _ in told[0]] == [found]


def test_aliases_are_told() -> None:
    captured = evalframe.jit(by_identity)
    for y in (plus, by_set, by_set, plus):
        captured(X, y)
    found = {text for tree in evalframe.guards(captured) for guard in tree.guards for text, _ in guard.found}
    assert found == {"the same object", "another object"}


def test_names_functions_and_attributes_that_are_gone_are_told() -> None:
    names: dict[str, Any] = {"np": np, "k": 2.0, "m": Plain(weight=2.0)}
    exec("def helper(x, by=1.0):\n    return x * by\ndef program(x):\n    return helper(x) + k * m.weight", names)
    captured = evalframe.jit(names["program"], backend="reference", max_entries=1)
    captured(X)
    defaults = names["helper"].__defaults__
    names["helper"].__defaults__ = (3.0,)
    np.testing.assert_array_equal(captured(X), X * 3 + 4)
    names["helper"].__defaults__ = defaults
    del names["m"].weight
    with pytest.raises(AttributeError):
        captured(X)
    names["m"] = None
    with pytest.raises(AttributeError):
        captured(X)
    found = {guard.subject: [text for text, _ in guard.found] for guard in evalframe.guards(captured)[0].guards if guard.failed}
    assert found["function helper"] == ["other defaults"]
    assert found["m.weight"] == ["nothing"] and found["m"] == ["None"], found


def test_few_values_are_counted_each_and_many_are_bounded() -> None:
    def scaled(x: Any, by: str) -> Any:
        return x * (2.0 if by == "two" else 1.0)

    captured = evalframe.jit(scaled, max_entries=1)
    for by in ["two", "one", "three", "one", "two", "one"]:
        captured(X, by)
    guard = next(guard for guard in evalframe.guards(captured)[0].guards if guard.failed)
    assert guard.found == (("'one'", 3), ("'three'", 1)) and guard.failed == 4
    assert guard.failures == "failed 4 times, finding 'one' (3 times), 'three' (1 time)"
    for number in range(100):
        captured(X, f"{number}")
    guard = next(guard for guard in evalframe.guards(captured)[0].guards if guard.failed)
    assert guard.failed == 104 and len(guard.found) == 8
    assert guard.failures.endswith("other things (94 times)")


def test_texts_of_what_has_no_mark_are_made_for_the_first_failures_only() -> None:
    def told(x: Any, y: Any) -> Any:
        return x + 1 if y == b"one" else x

    captured = evalframe.jit(told, max_entries=1)
    captured(X, b"one")
    before = next(iter(evalframe.guards(captured)[0].guards)).failed
    for _ in range(200):
        captured(X, bytes(3))
    guard = next(guard for guard in evalframe.guards(captured)[0].guards if guard.failed)
    assert before == 0 and guard.failed == 200
    assert guard.found == (("b'\\x00\\x00\\x00'", 64),) and guard.failures.endswith("other things (136 times)")


def test_other_variables_being_set_is_no_guards_failure() -> None:
    def late(x: Any, n: int) -> Any:
        if n:
            y = x + 1
        print(end="")
        return y * 2 if n else x * 2

    captured = evalframe.jit(late, dynamic=False)
    for n in (1, 0, 1, 0):
        captured(X, n)
    unlike = [tree for tree in evalframe.guards(captured) if tree.unlike]
    assert unlike and all(f"{tree.unlike} of them by other variables being set" in tree.title for tree in unlike)
    assert all(tree.start != "start" for tree in unlike)


def test_costs_are_measured_where_they_are_asked_for() -> None:
    def weighted(x: Any, model: Any, n: list[int]) -> Any:
        return (x * model.weight).sum() * len(n)

    captured = evalframe.jit(weighted)
    model = Plain(weight=np.ones(6))
    for _ in range(3):
        captured(X, model, [1])
    tree = evalframe.guards(captured)[0]
    assert tree.seconds is None and {guard.seconds for guard in tree.guards} == {None}
    told = evalframe.explain(captured)(X, model, [1])
    assert " and take " in str(told)
    tree = evalframe.guards(captured)[0]
    assert tree.seconds is not None and 0 < tree.seconds < 1e-3
    assert all(guard.seconds is not None and 0 <= guard.seconds < 1e-3 for guard in tree.guards)
    assert str(tree).count(" ns  ") == len(tree.guards) and "ns a call" in tree.title
    assert not _core.set_measuring_guards(False)  # only during the call
    assert json.loads(next(tree.json()))["graph_seconds"] == tree.seconds
    assert " ns</td>" in tree._repr_html_()


def test_what_guards_reach_is_let_go_when_they_are_measured() -> None:
    import sys

    def deep(x: Any, models: list[Any]) -> Any:
        return x * models[0].weight * models[1].weight

    captured = evalframe.jit(deep)
    models = [Plain(weight=np.ones(6)), Plain(weight=np.ones(6))]
    captured(X, models)
    things = [models, *models, *(model.weight for model in models)]
    before = [sys.getrefcount(thing) for thing in things]
    for _ in range(4):
        evalframe.explain(captured)(X, models)
    assert [sys.getrefcount(thing) for thing in things] == before
