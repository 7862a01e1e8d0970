"""Calls of what functools.lru_cache has made: what they give, how often the function runs, and what the caches count."""

from __future__ import annotations

import collections.abc
import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_behaves_as_plain, check_may_be_left, leaving_before, put_into, same
from test_jit_stand_ins import A, B, callers, told

CALLS = [(A, B), (B, A), (A, B), (A, B)]
CASES: list[Callable[..., Any]] = []
ONE_GRAPH: list[Callable[..., Any]] = []
MADE: list[Any] = []
case = put_into(CASES)
one_graph = put_into(CASES, ONE_GRAPH)  # where the caches are empty at first


@functools.lru_cache(maxsize=None)
def square(n: Any, by: Any = 1) -> Any:
    MADE.append(n)
    return n * n * by


@functools.cache
def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@functools.lru_cache(maxsize=2)
def scaled(n: Any) -> Any:
    MADE.append(n)
    return A * n


@functools.lru_cache(maxsize=2, typed=True)
def listed(n: Any) -> Any:
    MADE.append(n)
    return [n]


@functools.lru_cache(maxsize=0)
def uncached(n: Any) -> Any:
    MADE.append(n)
    return str(n)


@functools.lru_cache
def failing(n: Any) -> Any:
    MADE.append((n, callers()))
    if n > 1:
        raise ValueError(n)
    return (n, "text", None)


@functools.lru_cache(maxsize=3)
def nested(n: Any) -> Any:
    """Has the result of the same call cached by the time it has one itself."""
    if len(MADE) < 2:
        MADE.append(n)
        nested(n)
    return len(MADE) * 10


@functools.cache
def nested_without_bound(n: Any) -> Any:
    if len(MADE) < 2:
        MADE.append(n)
        nested_without_bound(n)
    return len(MADE) * 10


absolute = functools.lru_cache(maxsize=5)(abs)


class Key:
    """Equal to a number, by a method that tells."""

    def __repr__(self) -> str:
        return "key"

    def __hash__(self) -> int:
        return hash(3)

    def __eq__(self, other: object) -> bool:
        MADE.append(("compared", type(other).__name__))
        return other == 3


class Held:
    gain = 3

    @functools.lru_cache(maxsize=4)  # noqa: B019
    def method(self, n: int) -> int:
        MADE.append(n)
        return n * self.gain

    @staticmethod
    @functools.cache
    def static(n: int) -> int:
        return n + 1


CACHES: list[Any] = [square, fibonacci, scaled, listed, uncached, failing, nested, nested_without_bound, absolute, Held.method, Held.static]
HELD = Held()


class Speaker:
    """Hashed by its place, as a logger is."""

    @functools.lru_cache(None)  # noqa: B019
    def once(self, text: str, times: int = 1) -> str:
        MADE.append(text)
        return text * times


SPEAKER, OTHER = Speaker(), Speaker()
CACHES.append(Speaker.once)


@one_graph
def numbers(a: Any, b: Any) -> Any:
    return a * square(3) + b * square(3) - square(2, by=5) + Held.static(4)


@one_graph
def of_an_object(a: Any, b: Any) -> Any:
    told = SPEAKER.once("a"), SPEAKER.once("b", times=2), OTHER.once("a"), HELD.method(2)
    return told, a + b


@case
def of_a_new_object(a: Any, b: Any) -> Any:
    return Speaker().once("a"), [one.once("c") for one in (SPEAKER, OTHER)], a + b


@one_graph
def recursion(a: Any, b: Any) -> Any:
    return a * fibonacci(10) + b


@case
def tuples(a: Any, b: Any) -> Any:
    return len(failing(1)), failing(1)[1], a + b


@one_graph
def arrays(a: Any, b: Any) -> Any:
    return scaled(2) + a, scaled(2) - b, scaled(3)


@case
def one_object(a: Any, b: Any) -> Any:
    row = listed(1)
    row.append(2)
    return row is listed(1), listed(1), listed(1.0), listed(True), a + b


@case
def results_that_are_let_go(a: Any, b: Any) -> Any:
    return [len(listed(n)) for n in (1, 2, 3, 1, 3)], [scaled(n)[0] for n in (1, 2, 3, 1, 3)], a * b


@case
def errors(a: Any, b: Any) -> Any:
    told = []
    for n in (1, 2, 2, 1, "a", []):
        try:
            told.append(failing(n))
        except (ValueError, TypeError) as error:
            told.append(str(error))
    return told, failing.cache_info(), a + b


@case
def calls_inside_of_calls(a: Any, b: Any) -> Any:
    return nested(1), nested(1), nested_without_bound(1), nested_without_bound(1), a + b


@case
def others(a: Any, b: Any) -> Any:
    return uncached(1), uncached(1), absolute(-3), absolute(-3), HELD.method(2), HELD.method(2), Held().method(1), a + b


@case
def keys_with_methods(a: Any, b: Any) -> Any:
    return square(Key.__hash__(Key())), len(listed(Key())), listed(3), listed(3), a + b


@case
def cleared_meanwhile(a: Any, b: Any) -> Any:
    first = square(5)
    square.cache_clear()
    return first, square(5), square.cache_info(), square.__wrapped__(2), a + b


def clear() -> None:
    for cache in CACHES:
        cache.cache_clear()


def told_with_caches(function: Callable[..., Any], *arguments: Any) -> Any:
    MADE.clear()
    came = told(function, *arguments)
    return came, list(map(str, MADE)), [tuple(cache.cache_info()) for cache in CACHES]


def told_from_empty_caches(function: Callable[..., Any], *arguments: Any) -> Any:
    clear()
    return told_with_caches(function, *arguments)


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_behaves_as_plain_python(function: Callable[..., Any], backend: str) -> None:
    check_behaves_as_plain(function, backend, CALLS, told_from_empty_caches)


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_behaves_as_plain_python_with_what_the_caches_have(function: Callable[..., Any], backend: str) -> None:
    clear()
    plain = [told_with_caches(function, *arguments) for arguments in CALLS]
    clear()
    captured = evalframe.jit(function, backend=backend)
    for arguments, expected in zip(CALLS, plain, strict=True):
        assert same(told_with_caches(captured, *arguments), expected)


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_may_be_left_before_every_node(function: Callable[..., Any]) -> None:
    check_may_be_left(function, "reference", CALLS[:2], 16, told_from_empty_caches)


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_hits_may_be_left_before_every_node(function: Callable[..., Any]) -> None:
    for node in range(10):
        clear()
        plain = [told_with_caches(function, *CALLS[0]) for _ in range(3)]
        clear()
        captured = evalframe.jit(function, backend="reference")
        got = [told_with_caches(captured, *CALLS[0]) for _ in range(2)]
        with leaving_before(node):
            got.append(told_with_caches(captured, *CALLS[0]))
        assert same(got, plain), node


@pytest.mark.parametrize("function", ONE_GRAPH, ids=lambda f: f.__name__)
def test_is_one_graph(function: Callable[..., Any]) -> None:
    captured = evalframe.jit(function, backend="reference")
    for arguments in CALLS:
        told_from_empty_caches(captured, *arguments)
    assert _core.jit_counters(captured)["recordings"] == 1, _core.jit_breaks(captured)
    warm = evalframe.jit(function, backend="reference")
    for arguments in CALLS:
        told_with_caches(warm, *arguments)
    assert _core.jit_counters(warm)["recordings"] == 1, _core.jit_breaks(warm)


def test_the_cached_object_is_given() -> None:
    def f(x: Any) -> Any:
        return scaled(7), x + 1

    clear()
    captured = evalframe.jit(f)
    first = captured(A)[0]
    for _ in range(4):
        assert captured(A)[0] is first
    assert scaled(7) is first
    clear()
    assert captured(A)[0] is not first


def test_what_was_recorded_for_an_empty_cache_gives_way() -> None:
    def f(x: Any) -> Any:
        return x * 2 + scaled(7), x * 3 + square(3)

    clear()
    captured = evalframe.jit(f)
    for _ in range(3):  # the first call finds nothing there, the second does where nothing was
        captured(A)
    before = _core.jit_counters(captured)
    for _ in range(3):
        captured(A)
    after = _core.jit_counters(captured)
    assert after["recordings"] == before["recordings"]
    assert after["served"] - before["served"] == 3  # by one graph each, up to its end
    only_one = evalframe.jit(f, max_entries=1)
    clear()
    for _ in range(4):
        only_one(A)
    assert _core.jit_counters(only_one)["limited"] == 0


def test_what_was_recorded_before_a_module_was_loaded_gives_way(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("loaded_late", "loaded_later"):
        (tmp_path / f"{name}.py").write_text("GAIN = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def f(x: Any) -> Any:
        x = x + 1
        import loaded_late

        x = x * loaded_late.GAIN
        from loaded_later import GAIN

        try:
            import not_there_at_all
        except ImportError:
            return x * GAIN
        return not_there_at_all

    captured = evalframe.jit(f)
    for _ in range(3):
        assert same(captured(A), (A + 1) * 9)
    before = _core.jit_counters(captured)
    for _ in range(30):
        assert same(captured(A), (A + 1) * 9)
    after = _core.jit_counters(captured)
    assert after["recordings"] == before["recordings"]
    assert after["served"] - before["served"] == 60  # up to the import that fails, and behind it
    for name in ("loaded_late", "loaded_later"):
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "loaded_late.py").write_text("GAIN = 5.0\n")
    assert same(captured(A), (A + 1) * 15)


def test_a_recording_gives_way_to_classes_registered_since() -> None:
    def f(x: Any, y: Any) -> Any:
        z = x * 2
        return z + y if isinstance(y, collections.abc.Sized) else z

    captured = evalframe.jit(f, backend="reference")
    a, b = np.arange(3.0), np.arange(3.0) + 1

    class Registered:
        pass

    for _ in range(3):
        assert (captured(a, b) == f(a, b)).all()
    collections.abc.Sized.register(Registered)
    for _ in range(2):
        assert (captured(a, b) == f(a, b)).all()
    before = _core.jit_counters(captured)
    for _ in range(4):
        assert (captured(a, b) == f(a, b)).all()
    after = _core.jit_counters(captured)
    assert (after["hits"] - before["hits"], after["recordings"] - before["recordings"]) == (4, 0)
    (entry,) = [entry for entry in _core.jit_entries(captured) if entry["instruction"] == 0]
    assert entry["hits"] == 4, "the first one serves still"
