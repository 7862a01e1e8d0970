"""What a function may ask of its own frame's names: locals(), vars() and dir() without arguments."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_behaves_as_plain, check_may_be_left

X = np.linspace(-1.0, 2.0, 5)
BACKENDS = ["reference", "native"]
NAMES = ["a module's"]


def reads(x: Any, n: Any) -> Any:
    k = 3
    return x * locals()["k"] + vars()["n"], sorted(locals()), dir()


def gives(x: Any, n: Any) -> Any:
    y = x + 1
    if n > 2:
        late = y * 2
    return locals()


def formats(x: Any, n: Any) -> Any:
    width = 4
    y = x * n
    return f"{locals()['width']}-{len(vars())}", y + 1


def keeps(x: Any, n: Any) -> Any:
    names = locals()
    names["added"] = 5
    names["n"] = -1
    y = x * names["n"]
    again = locals()
    del n
    z = y + 1
    third = vars()
    z = z * 2
    return names is again, third is names, sorted(names), sorted(third), "added" in again, names.get("n"), again.get("n"), z


def holds_itself(x: Any, n: Any) -> Any:
    names = locals()
    y = x + n
    names = locals()
    y = y * 2
    return names["x"] is x, "names" in names, names.get("names") is names, y


def shares(x: Any, n: Any) -> Any:
    k = n
    seen = []

    def inner(a: Any) -> Any:
        nonlocal k
        k = k + 1
        seen.append(sorted(locals()))
        return a * locals()["k"]

    y = inner(x) + 1
    return y, locals()["k"], seen, sorted(locals()), inner(y)


def from_outside(n: Any) -> Any:
    shared = n

    def inner(x: Any) -> Any:
        nonlocal shared
        before = locals()["shared"]
        shared = before + 1
        y = x * before + locals()["shared"], sorted(locals())
        shared = before
        return y

    return inner


def unbound_cell(x: Any, n: Any) -> Any:
    def inner() -> Any:
        return late

    names = sorted(locals())
    y = x + len(names)
    late = 3
    return y * inner(), names, sorted(locals())


def followed(x: Any, n: Any) -> Any:
    return called(x * 2, b=n)


def called(a: Any, *more: Any, b: Any = 2, **others: Any) -> Any:
    c = a + b
    d = locals()
    c = c * 2
    return d, c


def raises(x: Any, n: Any) -> Any:
    tail = failing(x + 1, n)
    return tail


def failing(a: Any, n: Any) -> Any:
    names = locals()
    b = a * 2
    names["own"] = 1
    if n > 2:
        raise ValueError(locals()["n"])
    return b + 1, sorted(names)


def caught(x: Any, n: Any) -> Any:
    try:
        y = failing(x, n)
    except ValueError as error:
        y = x * 2
        of = error.__traceback__.tb_next.tb_frame.f_locals
        return y + 1, sorted(of), of["n"]
    return y


def in_comprehension(x: Any, n: Any) -> Any:
    k = n
    rows = [sorted(locals()) for i in range(2)]
    return x * len(rows[0]), rows, k


def in_generator(x: Any, n: Any) -> Any:
    def steps() -> Any:
        k = 1
        yield x * k, sorted(locals())
        m = 2
        yield x + m, sorted(locals())

    return list(steps())


def class_body(x: Any, n: Any) -> Any:
    class Holder:
        one = n
        names = sorted(locals())
        locals()["two"] = 2

    return x * Holder.one + Holder.two, Holder.names


def seen_from_elsewhere(x: Any, n: Any) -> Any:
    names = locals()
    y = x + 1
    frame_names = sys._getframe().f_locals
    return y * 2, sorted(frame_names), sorted(names)


def gone_through(x: Any, n: Any) -> Any:
    names = locals()
    y = x
    try:
        for name in names:
            y = y + 1
            locals()
    except RuntimeError as error:
        return y, str(error)
    return y * 2, "quiet"


def several_times(x: Any, n: Any) -> Any:
    y = x
    for i in range(4):
        y = y + locals()["i"]
        if i == n:
            y = y * 2
    return y, i


FUNCTIONS = [reads, gives, formats, keeps, holds_itself, shares, from_outside(3), unbound_cell, followed, raises, caught, in_comprehension, in_generator,
             class_body, seen_from_elsewhere, gone_through, several_times]  # fmt: skip
CALLS = [(X, 2), (X, 2), (X, 3), (X[:3], 2), (X.astype(np.float32), 3), (X, 1.5)]


def calls_of(function: Any) -> Any:
    return [(x,) for x, _ in CALLS] if function.__code__.co_argcount == 1 else CALLS


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__qualname__)
def test_names_are_those_of_plain_frames(function: Any, backend: str) -> None:
    check_behaves_as_plain(function, backend, calls_of(function))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__qualname__)
def test_may_be_left_before_every_node(function: Any, backend: str) -> None:
    check_may_be_left(function, backend, calls_of(function)[:3], 8)


@pytest.mark.parametrize("function", [reads, gives, formats, holds_itself, shares, followed])
def test_names_of_frames_cost_no_graph(function: Any) -> None:
    captured = evalframe.jit(function)
    for _ in range(2):
        captured(X, 2)
    assert _core.jit_counters(captured)["recordings"] == 1


def test_kept_dicts_are_brought_up_to_date_behind_a_break() -> None:
    def f(x: Any, n: Any) -> Any:
        names = locals()
        names["own"] = 1
        y = x * 2
        print(end="")
        exec("")
        again = locals()
        return y + 1, names is again, sorted(again), sorted(names)

    check_behaves_as_plain(f, "native", CALLS)
    check_may_be_left(f, "native", CALLS[:2], 5)


def test_modules_names() -> None:
    def f(x: Any) -> Any:
        return x + len(globals()["NAMES"])

    check_behaves_as_plain(f, "native", [(X,), (X,)])


def test_objects_live_as_long_as_the_dict() -> None:
    told: list[str] = []

    class Mortal:
        def __del__(self) -> None:
            told.append("end")

    def f(x: Any, n: Any) -> Any:
        mortal = Mortal()
        locals()
        y = x + 1
        del mortal
        told.append("behind")
        return y

    def outcome(function: Any, *arguments: Any) -> Any:
        told.clear()
        return function(*arguments), told.copy()

    check_behaves_as_plain(f, "native", CALLS, outcome)
