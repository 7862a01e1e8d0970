"""Lists and dicts from outside that recorded code changes: the same contents, order and identities as in plain Python, wherever the graph is left."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from evalframe.codegen import run_transformed
from helpers import leaving_before, outcome, same

A = np.linspace(-1.0, 2.0, 12)
B = np.arange(12.0) - 3
CACHE: dict[Any, Any] = {}


class World:
    def __init__(self) -> None:
        self.table: dict[Any, Any] = {"a": A, "b": 2, 3: "three", (1, "x"): None}
        self.other: dict[Any, Any] = {"a": B}
        self.rows: list[Any] = [A, B, 3.5, None]
        self.more: list[Any] = [B * 2]
        self.empty: dict[Any, Any] = {}


def flat(value: Any) -> list[Any]:
    """All objects in it, in order."""
    if isinstance(value, dict):
        return [part for key, item in value.items() for part in [key, *flat(item)]]
    return [value, *(part for item in value for part in flat(item))] if isinstance(value, (list, tuple)) else [value]


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return ("dict", [(key, plain(item)) for key, item in value.items()])
    return [type(value).__name__, *map(plain, value)] if isinstance(value, (list, tuple)) else value


def stores(w, x, y):
    w.table["a"] = x + 1
    w.table["new"] = w.table["a"] * 2
    w.table["b"] = y
    w.table["new"] = w.table["new"] - w.table["b"]
    return w.table["new"], len(w.table)


def stores_into_global(w, x, y):
    CACHE["x"] = x * 2
    CACHE["y"] = CACHE["x"] + y
    return CACHE["y"] - 1


def remembers(w, x, y):
    if "seen" not in CACHE:
        CACHE["seen"] = x * 3
    return CACHE["seen"] + y


def deletes(w, x, y):
    del w.table["b"]
    w.table["b"] = x * 2
    w.table["tmp"] = y
    z = w.table.pop("tmp") + w.table.pop("a", None)
    w.table["a"] = z
    return z, w.table.pop("nothing", 5), list(w.table)


def updates(w, x, y):
    w.table.update({"b": x + 1, "c": y})
    w.table.update(w.other)
    w.table.setdefault("d", x * y)
    w.table.setdefault("a", None)
    w.other |= {"z": x}
    return sum([value * 1.0 for key, value in w.table.items() if key in ("a", "b", "c", "d")])


def clears(w, x, y):
    kept = w.table["a"] + 1
    w.table.clear()
    w.table["only"] = kept
    key, value = w.other.popitem()
    w.rows.clear()
    w.rows.append(value * x)
    return key, w.rows[0] + y


def in_place(w, x, y):
    w.table["total"] = x * 1.0
    w.table["total"] += y
    w.table["b"] += 1
    w.rows[0] = w.rows[0] * x
    w.rows[-1] = w.rows[0]
    w.rows[0] = w.rows[1] - y
    return w.table["total"], w.table["b"]


def lists(w, x, y):
    w.rows.insert(1, x + 1)
    last = w.rows.pop()
    w.rows.append([last, x])
    del w.rows[0]
    w.rows.reverse()
    w.rows += [y, y * 2]
    w.rows.extend((1, x))
    return w.rows.pop(2), len(w.rows), w.rows[-1] * w.rows[-3]


def grows(w, x, y):
    w.more.extend([x + 1, y])
    w.more += (x * 2,)
    w.more.append(y * 3)
    return x - y


def grows_and_looks(w, x, y):
    w.more.append(x + 1)
    w.more.append(y)
    n = len(w.more)
    w.more[0] = w.more[-2] * 2
    w.more.append(n)
    return w.more[0] + w.more[1], w.more[2:]


def aliased(w, x, y):
    left, right = w.rows, w.alias
    left[0] = x + 1
    right[1] = right[0] * 2
    left.append(right[1])
    w.same["k"] = right[-1] - y
    w.table["k"] = w.table["k"] * 2 if "k" in w.table else x
    return left is right, w.same is w.table, w.same["k"], len(left), len(right)


def holds_itself(w, x, y):
    w.table["self"] = w.table
    w.rows[0] = w.rows
    w.rows[0][1] = x * 2
    w.table["self"]["b"] = w.rows[0][0][1] + y
    return w.table["b"], w.rows[0] is w.rows


def holds_new(w, x, y):
    row = [x + 1]
    w.table["row"] = row
    w.rows[0] = w.table
    row.append(y * 2)
    w.table["row"].append(row[0] * 3)
    w.nested = {"rows": w.rows, "row": row}
    return row is w.table["row"], w.nested["row"][2]


def changed_in_place(w, x, y):
    z = x * 2
    w.table["z"] = z
    z += y
    w.rows[1] = z
    z[2:5] = 0
    np.multiply(z, 2, out=z)
    return w.table["z"] is w.rows[1], z


def while_iterating(w, x, y):
    for i, row in enumerate(w.rows):
        w.rows[i] = x * i if row is None else row * y
    for key in w.other:
        w.other[key] = w.other[key] + x
    for row in w.rows:
        w.table["last"] = row
    for row in w.more:
        w.rows[0] = row + 1
    return w.rows[0]


def grows_while_iterating(w, x, y):
    for row in w.more:
        if len(w.more) < 4:
            w.more.append(row + x)
    for row in w.more[:]:
        w.more.append(row * 2)
    return w.more[-1]


def length_changes_while_iterating(w, x, y):
    z = x + 1
    try:
        for key in w.table:
            w.table[str(key) + "!"] = z
    except RuntimeError as error:
        return str(error), z


def iterators_held(w, x, y):
    it = iter(w.rows)
    first = next(it) + x
    w.rows[1] = first * 2
    items = w.other.items()
    w.other["later"] = x - y
    z = x * 2
    if z.sum() > 100:
        return z
    return next(it) + z, list(items)


def views(w, x, y):
    keys, values = w.table.keys(), w.table.values()
    w.table["late"] = x * 2
    return list(keys), list(values)[-1] + y, len(keys)


def raises(w, x, y):
    w.table["before"] = x + 1
    del w.table["b"]
    w.rows[0] = w.table["before"] * 2
    w.rows.append(w.rows[0] @ np.ones(5))
    w.table["after"] = 1


def handled(w, x, y):
    try:
        raises(w, x, y)
    except ValueError as error:
        w.table["error"] = str(error)
    w.table["b"] = w.rows[0] - y
    return w.table["b"] * 2


def missing(w, x, y):
    w.table["z"] = x + 1
    try:
        del w.table["nothing"]
    except KeyError as error:
        w.rows[0] = repr(error)
    try:
        w.rows[20] = x
    except IndexError as error:
        return str(error), w.table["z"] * 2


def breaks_in_between(w, x, y):
    w.table["before"] = x * 2
    w.rows[0] = x - 1
    if (w.rows[0] + y).sum() > 0:
        w.table["side"] = w.table.pop("before")
    w.table["after"] = w.rows[0] + 1
    w.rows.pop()
    w.rows[0] = None
    return w.table["after"]


def in_calls(w, x, y):
    put(w.table, "p", x + 1)
    put(w.table, "q", w.table["p"] * y)
    return put(w.rows, 0, w.table["q"])[0] + w.rows[0]


def put(into, key, value):
    into[key] = value
    return into


def in_order(w, x, y):
    w.first = x + 1
    w.table["first"] = w.first
    w.first = w.table["first"] * 2
    w.table["first"] = w.first
    w.rows.append(w.table)
    w.table["first"] = y
    return w.first


def in_a_loop(w, x, y):
    for i in range(40):
        w.table["count"] = i
        w.table["sum"] = x * i + y
        w.rows[i % 3] = w.table["sum"] + 1
    return w.rows[0]


def over_a_long_list(w, x, y):
    long = w.long
    for i, row in enumerate(long):
        if i + 1 < len(long):
            long[i + 1] = long[i + 1] + row * 0.5
    for row in long:
        long[3] = row + x
    return long[-1]


def keywords(w, x, y):
    def gathered(**options):
        options["z"] = options["z"] + x
        options.update(w=y)
        return options

    return gathered(z=y, k=2)


FUNCTIONS: list[Callable[..., Any]] = [
    stores, stores_into_global, remembers, deletes, updates, clears, in_place, lists, grows, grows_and_looks, aliased, holds_itself,
    holds_new, changed_in_place, while_iterating, grows_while_iterating, length_changes_while_iterating, iterators_held, views, raises,
    handled, missing, breaks_in_between, in_calls, in_order, in_a_loop, over_a_long_list, keywords,
]  # fmt: skip
IN_ONE_GRAPH = [
    stores, stores_into_global, remembers, deletes, updates, clears, in_place, lists, grows, aliased, holds_itself, holds_new, while_iterating,
    views, in_calls, in_order, keywords,
]  # fmt: skip
ARGUMENTS = [(A, B), (B, A), (A, -A)]


def world(kind: int) -> Any:
    CACHE.clear()
    made = World()
    made.alias = made.rows if kind % 2 == 0 else made.more + [4, 5, 6]  # type: ignore[attr-defined]
    made.same = made.table if kind % 3 == 0 else made.other  # type: ignore[attr-defined]
    made.long = [A * i for i in range(20)]  # type: ignore[attr-defined]
    return made


def effects(function: Callable[..., Any], *arguments: Any, kind: int = 0, calls: int = 1) -> Any:
    """What calls in a new world come to: results, what is left there, and which of its objects are one."""
    w = world(kind)
    told = []
    for _ in range(calls):
        came_to = outcome(function, w, *arguments)
        try:
            state = plain([came_to, list(vars(w).items()), CACHE])
        except RecursionError:
            state = [came_to[0][0], list(w.table)]
        told.append((state, identities([came_to, w.rows, w.table, w.other, w.more, CACHE])))
    return told


def identities(value: Any) -> list[int]:
    try:
        objects = flat(value)
    except RecursionError:
        return []
    first: dict[int, int] = {}
    return [
        first.setdefault(id(part), i)
        for i, part in enumerate(objects)
        if not isinstance(part, (int, float, str, tuple))
    ]


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_behaves_as_plain_python(function: Callable[..., Any], backend: str) -> None:
    captured = evalframe.jit(function, backend=backend)
    for kind in range(6):
        for arguments in ARGUMENTS:
            assert same(
                effects(captured, *arguments, kind=kind, calls=3), effects(function, *arguments, kind=kind, calls=3)
            ), kind


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_may_be_left_before_every_node(function: Callable[..., Any], backend: str) -> None:
    captured = evalframe.jit(function, backend=backend)
    for node in range(12):
        effects(captured, *ARGUMENTS[0])
        with leaving_before(node):
            for kind in range(3):
                for arguments in ARGUMENTS:
                    assert same(effects(captured, *arguments, kind=kind), effects(function, *arguments, kind=kind)), (
                        node,
                        kind,
                    )


@pytest.mark.parametrize("function", IN_ONE_GRAPH, ids=lambda f: f.__name__)
def test_is_one_graph(function: Callable[..., Any]) -> None:
    captured = evalframe.jit(function, backend="reference", fullgraph=True)
    for _ in range(3):
        captured(world(0), A, B)
    assert _core.jit_counters(captured)["recordings"] == 1


@pytest.mark.parametrize(
    "function", [f for f in FUNCTIONS if f not in (raises, handled, missing)], ids=lambda f: f.__name__
)
def test_transformed_code_does_the_same(function: Callable[..., Any]) -> None:
    captured = evalframe.jit(function, backend="reference")
    for kind in range(3):
        for arguments in ARGUMENTS:
            effects(captured, *arguments, kind=kind)
    for kind in range(3):
        for arguments in ARGUMENTS:
            expected = effects(function, *arguments, kind=kind)
            with evalframe.hook(run_transformed(captured)):
                came = effects(function, *arguments, kind=kind)
            assert same(came, expected), kind


class OtherModule(types.ModuleType):
    pass


@pytest.mark.parametrize("kind", [types.ModuleType, OtherModule])
@pytest.mark.parametrize("backend", ["reference", "native"])
def test_a_module_that_is_passed_is_stored_into(kind: type[types.ModuleType], backend: str) -> None:
    def change(module, gain):
        module.before = getattr(module, "gain", None)
        module.gain = A * gain
        return module.gain

    captured = evalframe.jit(change, backend=backend)
    modules = {"plain": kind("plain"), "captured": kind("captured")}
    for gain in (1, 2, 2, 3):
        for again in range(2):
            if again:
                modules = {name: kind(name) for name in modules}
            expected, came = change(modules["plain"], gain), captured(modules["captured"], gain)
            assert same(came, expected)
            assert same(modules["captured"].before, modules["plain"].before) and modules["captured"].gain is came


@pytest.mark.parametrize("method", ["add", "discard", "remove", "update", "__contains__"])
def test_methods_of_sets_from_outside_are_called_wrongly(method: str) -> None:
    def function(x, names):
        try:
            getattr(names, method)()
        except TypeError as error:
            return x + 1, str(error)
        return x + 2, None

    captured = evalframe.jit(function, backend="reference")
    for arguments in [(A, {1}), (B, {2}), (A, {1})]:
        assert same(outcome(captured, *arguments), outcome(function, *arguments))
