"""Guards: every fact that a recording used is asked again, all of them, and cheap ones leave nothing in the graph."""

from __future__ import annotations

import gc
import operator
import time
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core

X = np.arange(6.0)


def entries(function: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _core.jit_entries(function)
    return found


def hits(function: Any) -> int:
    return _core.jit_counters(function)["hits"]


def test_metadata_that_guards_fix_leaves_no_node() -> None:
    @evalframe.jit
    def rank_and_type(x: Any, n: int) -> Any:
        return n if x.ndim == 1 else x.dtype

    assert rank_and_type(X, 2) == 2
    assert rank_and_type(X, 2) == 2
    assert rank_and_type(X.reshape(2, 3), 2) == np.float64
    assert rank_and_type(X.astype(np.float32), 2) == 2
    assert rank_and_type(X.reshape(2, 3), 2) == np.float64
    assert [entry["nodes"] for entry in entries(rank_and_type)] == [0, 0, 0]
    assert hits(rank_and_type) == 2


def test_equality_is_still_asked_where_a_method_is_used_too() -> None:
    @evalframe.jit
    def both(x: Any, n: int) -> Any:
        if n == 3:
            return x * n.bit_length()
        return x - n

    for n in (3, 4, 3, 5, 4):
        np.testing.assert_array_equal(both(X, n), X * 2 if n == 3 else X - n)


def test_length_is_still_asked_where_a_method_is_used_too() -> None:
    @evalframe.jit
    def both(x: Any, items: list[int]) -> Any:
        if items:
            return x * items.count(1)
        return x

    for items in ([1], [], [1, 1], [], [2]):
        np.testing.assert_array_equal(both(X, items), X * items.count(1) if items else X)


class Scale:
    by = 2.0

    def __call__(self, x: Any) -> Any:
        return x * self.by


class Twice(Scale):
    by = 4.0


@pytest.mark.parametrize("change", ["class attribute", "instance attribute", "__class__"])
def test_object_is_guarded_in_all_that_was_read(change: str) -> None:
    class Own(Scale):
        pass

    scale = Own()

    @evalframe.jit
    def through_object(x: Any) -> Any:
        return x * scale.by + (1.0 if isinstance(scale, Twice) else 0.0)

    for _ in range(3):
        np.testing.assert_array_equal(through_object(X), X * 2)
    if change == "class attribute":
        Own.by = 3.0
    elif change == "instance attribute":
        scale.by = 3.0
    else:
        scale.__class__ = Twice  # type: ignore[assignment]
    np.testing.assert_array_equal(through_object(X), X * 4 + 1 if change == "__class__" else X * 3)


def test_signed_zeros_and_nans_are_told_apart() -> None:
    @evalframe.jit
    def sign(x: Any, by: Any) -> Any:
        return x if str(by) == "0j" else by

    for by in (0j, complex(0.0, -0.0), complex(-0.0, 0.0)):
        assert str(sign(X, by)) == str(X if str(by) == "0j" else by)


def test_the_entry_that_served_last_is_tried_first() -> None:
    @evalframe.jit
    def typed(x: Any) -> Any:
        return x + 1

    arguments = [X, X.astype(np.int32), X.astype(np.float32), X.reshape(2, 3)]
    for x in arguments:
        typed(x)
    before = [entry["misses"] for entry in entries(typed)]
    for _ in range(10):
        typed(arguments[2])
    after = [entry["misses"] for entry in entries(typed)]
    assert sum(after) - sum(before) <= 4
    assert [entry["hits"] for entry in entries(typed)] == [0, 0, 10, 0]


@pytest.mark.parametrize("keywords", [False, True])
def test_arguments_are_bound_as_the_function_binds_them(keywords: bool) -> None:
    def many(a: Any, /, b: Any, c: Any = 2.0, *rest: Any, d: Any = 3.0, **others: Any) -> Any:
        return a + b * c + d, rest, others

    compiled = evalframe.jit(many)
    for _ in range(3):
        for args, kwargs in (((X, 1.0), {}), ((X,), {"b": 2.0}), ((X, 1.0, 4.0, 5, 6), {"d": 1.0, "e": 2})):
            if not keywords and kwargs:
                continue
            got, expected = compiled(*args, **kwargs), many(*args, **kwargs)  # type: ignore[arg-type]
            np.testing.assert_array_equal(got[0], expected[0])
            assert got[1:] == expected[1:]
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        compiled(X)


def test_new_code_of_the_function_is_seen() -> None:
    def add(x: Any, y: Any = 1) -> Any:
        return x + y

    def subtract(x: Any, y: Any = 1) -> Any:
        return x - y

    compiled: Any = evalframe.jit(add)
    for _ in range(2):
        np.testing.assert_array_equal(compiled(X, 1), X + 1)
    add.__code__ = subtract.__code__
    for _ in range(2):
        np.testing.assert_array_equal(compiled(X, 1), X - 1)
    add.__defaults__ = (5,)
    np.testing.assert_array_equal(compiled(X), X - 5)


def test_many_sources_are_looked_up_in_linear_time() -> None:
    def seconds(count: int) -> float:
        items = [float(i) for i in range(count)]

        def total(x: Any, items: list[float]) -> Any:
            for item in items:
                x = x + item
            return x

        best = float("inf")
        for _ in range(3):
            compiled = evalframe.jit(total, backend="reference")
            start = time.thread_time()
            compiled(X, items)
            best = min(best, time.thread_time() - start)
            np.testing.assert_allclose(compiled(X, items), X + sum(items))
        return best / count

    assert seconds(60) > 0  # warm
    assert seconds(60) < 20 * seconds(15) + 1e-3


def test_the_limit_of_entries_is_told_with_the_guard_that_varied() -> None:
    @evalframe.jit(max_entries=3)
    def typed(x: Any, name: str) -> Any:
        return x + 1 if name != "none" else x

    for turn in range(8):
        np.testing.assert_array_equal(typed(X, f"name {turn}"), X + 1)
    assert len(entries(typed)) == 3
    assert _core.jit_counters(typed)["limited"] == _core.jit_counters(typed)["plain_calls"] == 5
    (note,) = _core.jit_limits(typed)
    assert note["guard"] == "name is exactly 'name 2'"
    assert "max_entries" in note["hint"]
    assert (note["function"], note["entries"], note["refused"]) == (typed.__qualname__, 3, 5)
    assert note["file"] == __file__ and note["line"] == typed.__code__.co_firstlineno


def test_recordings_that_replace_each_other_count_toward_the_limit() -> None:
    @evalframe.jit(max_entries=4)
    def weighted(x: Any, a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: int) -> Any:
        return x * abs(a) + x * abs(b) - x * abs(c) + x * abs(d) - x * abs(e) + x * abs(f) - x * abs(g) + x * abs(h)

    numbers = [3] * 8
    for turn in range(8):
        numbers[turn] += 1
        np.testing.assert_array_equal(weighted(X, *numbers), weighted.__wrapped__(X, *numbers))
    assert _core.jit_counters(weighted)["recordings"] == 5
    assert _core.jit_counters(weighted)["limited"] == 3
    (note,) = _core.jit_limits(weighted)
    assert (note["entries"], note["replaced"], note["refused"]) == (1, 4, 3)
    assert "is exactly 3" in note["guard"] and "raise max_entries" in note["hint"]
    for turn in range(4):
        numbers[turn] += 1
        np.testing.assert_array_equal(weighted(X, *numbers), weighted.__wrapped__(X, *numbers))
    assert _core.jit_counters(weighted)["limited"] == 3 + 4


def test_the_limit_of_entries_behind_a_break() -> None:
    @evalframe.jit(max_entries=2)
    def behind(x: Any, names: list[str]) -> Any:
        y = x + 1
        gc.get_count()  # may do anything
        return y if names[0] == "none" else y * 2

    for turn in range(6):
        np.testing.assert_array_equal(behind(X, [f"name {turn}", "x"]), (X + 1) * 2)
    (note,) = _core.jit_limits(behind)
    assert note["guard"] == "names[0] is exactly 'name 1'"
    assert note["line"] == behind.__code__.co_firstlineno + 3
    assert note["refused"] == 4


def test_a_function_of_tiny_segments_is_given_up() -> None:
    def tiny(x: Any) -> Any:
        gc.get_count()
        gc.get_count()
        gc.get_count()
        return x + 1

    compiled = evalframe.jit(tiny)
    for _ in range(1000):
        np.testing.assert_array_equal(compiled(X), X + 1)
    counters = _core.jit_counters(compiled)
    assert counters["given_up"] == 1
    assert counters["plain_calls"] > 0


def test_a_function_with_breaks_that_pays_is_not_given_up() -> None:
    @evalframe.jit(backend="reference")
    def pays(x: Any) -> Any:
        y = np.exp(x) + 1
        if y.sum() < 0:
            return y
        return y * 2 - x

    for _ in range(2500):
        pays(X)
    assert _core.jit_counters(pays)["given_up"] == 0
    assert _core.jit_counters(pays)["exits"] >= 2499


def test_an_attribute_of_an_object_is_read_in_the_graph() -> None:
    class Model:
        def __init__(self, weight: float) -> None:
            self.weight = weight

    def scaled(model: Model, x: Any) -> Any:
        return x * model.weight

    compiled = evalframe.jit(scaled, fullgraph=True)
    model = Model(2.0)
    for _ in range(3):
        assert compiled(model, np.ones(2)).tolist() == [2.0, 2.0]
    model.weight = 3.0
    assert compiled(model, np.ones(2)).tolist() == [3.0, 3.0]
    Model.weight = property(lambda self: 5.0)  # type: ignore[assignment]
    assert compiled(model, np.ones(2)).tolist() == [5.0, 5.0]
    Model.weight = property(operator.attrgetter("other"))  # type: ignore[assignment]
    model.other = 6.0  # type: ignore[attr-defined]
    assert evalframe.jit(scaled)(model, np.ones(2)).tolist() == [6.0, 6.0]
    with pytest.raises(evalframe.GraphBreakError):
        compiled(model, np.ones(2))


def test_recording_runs_no_code_of_the_program_for_its_texts(capsys: pytest.CaptureFixture[str]) -> None:
    class Meta(type):
        def __getattribute__(cls, name: str) -> Any:
            print("metaclass asked for", name)
            return super().__getattribute__(name)

        def __repr__(cls) -> str:
            print("repr of a class")
            return "class"

    class Holder:
        def __init__(self) -> None:
            self.weight = np.ones(6)

        def __repr__(self) -> str:
            print("repr of an object")
            return "holder"

    class Callable(Holder):
        def __getattr__(self, name: str) -> Any:
            print("object asked for", name)
            raise AttributeError(name)

        def __call__(self, x: Any) -> Any:
            return x

    class Made(metaclass=Meta):
        pass

    names: dict[str, Any] = {"holder": Holder(), "holders": [Holder()], "called": Callable(), "Made": Made, "__name__": "program"}
    exec(
        "def program(x):\n"
        "    y = x * holder.weight + holders[0].weight\n"
        "    Made()\n"
        "    called(y)\n"
        "    return y + 1\n",
        names,
    )
    program = evalframe.jit(names["program"])
    capsys.readouterr()
    for _ in range(4):
        np.testing.assert_array_equal(program(X), X + 2)
    assert capsys.readouterr().out == ""
    guards = [line for entry in entries(program) for line in entry["guards"]]
    assert "program.holder.weight is an array of float64, rank 1" in guards
    assert "program.holders[0].weight is an array of float64, rank 1" in guards
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("place", ["item", "name"])
def test_the_cost_of_recording_grows_with_the_lines_only(place: str) -> None:
    def seconds(lines: int) -> float:
        names: dict[str, Any] = {f"name{i}": np.ones(1000) for i in range(lines)}
        names["item"] = [np.ones(1000) for _ in range(lines)]
        read = "item[{}]" if place == "item" else "name{}"
        body = "".join(f"    x = x + {read.format(i)}\n" for i in range(lines))
        exec(f"def program(x):\n{body}    return x\n", names)
        program = evalframe.jit(names["program"], backend="reference")
        x = np.ones(1000)
        start = time.process_time()
        program(x)
        return time.process_time() - start

    # Texts of all that a list holds, at each of its items, took two hundred times as long.
    assert min(seconds(1600) for _ in range(2)) < 16 * min(seconds(200) for _ in range(2)) + 0.02
