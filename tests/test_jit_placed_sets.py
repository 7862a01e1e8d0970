"""Sets of objects that are hashed by their places, as walks through trees and graphs of objects keep them, and of dicts' keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_behaves_as_plain, check_is_one_graph, check_may_be_left, put_into

A = np.linspace(-1.0, 2.0, 6)
CASES: list[Callable[..., Any]] = []
BREAKING: list[Callable[..., Any]] = []
case = put_into(CASES)
breaking = put_into(BREAKING)  # those that aren't one graph


class Part:
    def __init__(self, factor: float, *parts: Part) -> None:
        self.factor = factor
        self.parts = list(parts)

    def walk(self, seen: set[Part] | None = None) -> Iterator[Part]:
        if seen is None:
            seen = set()
        if self not in seen:
            seen.add(self)
            yield self
            for part in self.parts:
                yield from part.walk(seen)


class Equal(Part):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal)

    def __hash__(self) -> int:
        return 3


def tree() -> Part:
    return Part(1.0, Part(2.0, Part(3.0)), Part(4.0))


@case
def walked(x: Any, top: Any) -> Any:
    for part in top.walk():
        x = x * part.factor + 1
    return x


@case
def keys_of_what_was_made(x: Any, top: Any) -> Any:
    values = {f"part {number}": x * number for number in range(20)}
    values.pop("part 3")
    keys = set(values)
    keys.add("more")
    return x, list(keys), sorted(keys - set({"part 1": top}))


@case
def keys_of_keywords(x: Any, top: Any) -> Any:
    def same(**given: Any) -> bool:
        return set(given) == {"x", "top"}

    return x + same(x=x, top=top)


@breaking
def keys_that_are_hashed_by_the_program(x: Any, top: Any) -> Any:
    return x + len(set({Equal(1.0): x}))


@case
def counted(x: Any, top: Any) -> Any:
    seen = set()
    for part in top.parts:
        seen.add(part)
    return x * len(seen), top in seen, top.parts[0] in seen, bool(seen)


@case
def among_constants(x: Any, top: Any) -> Any:
    seen = set()
    seen.add("name")
    seen.add(top)
    return x + ("name" in seen) if top in seen else x


@case
def returned(x: Any, top: Any) -> Any:
    seen = set()
    seen.add(top)
    seen.add(top.parts[-1])
    return x + 1, seen


@breaking
def gone_through(x: Any, top: Any) -> Any:
    seen = set()
    for part in top.parts:
        seen.add(part)
    return [x * part.factor for part in sorted(seen, key=lambda part: part.factor)], seen == set(top.parts), seen - {top}, list(seen) == [*seen]


@breaking
def changed(x: Any, top: Any) -> Any:
    seen = set()
    for part in top.parts:
        seen.add(part)
    seen.discard(top.parts[0])
    copied = seen.copy()
    copied.update([top])
    return x * len(seen), x * len(copied), top.parts[0] in seen


def calls() -> list[tuple[Any, ...]]:
    top, other, short, twice = tree(), tree(), Part(5.0, Part(6.0)), tree()
    twice.parts[1] = twice.parts[0]
    again = tree()
    again.parts[1].parts.append(again)
    return [(A, one) for one in (top, top, other, other, top, short, twice, twice, again, top)]


def told(function: Callable[..., Any], *arguments: Any) -> Any:
    return [sorted(map(id, part)) if isinstance(part, set) else part for part in np.atleast_1d(np.array(function(*arguments), dtype=object))]


@pytest.mark.parametrize("function", CASES + BREAKING)
@pytest.mark.parametrize("backend", ["reference", "native"])
def test_comes_to_what_plain_python_does(function: Callable[..., Any], backend: str) -> None:
    check_behaves_as_plain(function, backend, calls(), told)


@pytest.mark.parametrize("function", CASES + BREAKING)
def test_may_be_left_anywhere(function: Callable[..., Any]) -> None:
    check_may_be_left(function, "reference", calls(), 5, told)


@pytest.mark.parametrize("function", CASES)
def test_is_one_graph(function: Callable[..., Any]) -> None:
    check_is_one_graph(function, calls()[0], told)


def test_objects_with_an_equality_of_their_own_are_asked() -> None:
    top = Equal(1.0, Equal(2.0), Part(3.0))
    captured = evalframe.jit(walked)
    for _ in range(3):
        assert np.array_equal(captured(A, top), walked(A, top))
    assert _core.jit_counters(captured)["breaks"] > 0


def test_an_equality_that_comes_later_is_asked() -> None:
    class Late(Part):
        pass

    top = Late(1.0, Late(2.0), Late(3.0))
    captured = evalframe.jit(walked)
    assert np.array_equal(captured(A, top), walked(A, top))
    Late.__eq__, Late.__hash__ = Equal.__eq__, Equal.__hash__  # type: ignore[method-assign, assignment]
    Late.__eq__ = lambda self, other: True  # type: ignore[method-assign, assignment]
    assert np.array_equal(captured(A, top), walked(A, top))
