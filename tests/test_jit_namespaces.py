"""One dict under two names: that of an object's attributes or of a module's variables, read and changed as a dict, too."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from helpers import outcome, same

VALUES = (1, 2, 2, 2.5, "three", np.arange(3.0))
kept: Any = 0
NAMES = globals()


class Box:
    def __init__(self) -> None:
        self.x: Any = 0
        self.y: Any = [1]

    def get(self) -> Any:
        return self.x


def stored_attribute_is_an_item(box, other, table, value):
    box.x = value
    return table["x"], len(table)


def stored_item_is_an_attribute(box, other, table, value):
    table["x"] = value
    return box.x


def new_item_is_an_attribute(box, other, table, value):
    table["z"] = value
    return getattr(box, "z", None), box.x


def new_attribute_is_a_key(box, other, table, value):
    box.z = value
    return list(table), dict(table)


def attribute_of_another_with_the_same_dict(box, other, table, value):
    box.x = value
    return other.x


def item_hides_a_method(box, other, table, value):
    table["get"] = lambda: value
    return box.get()


def read_before(box, other, table, value):
    before = table["x"], box.x
    box.x = value
    table["y"] = value
    return before, box.x, table["x"], box.y, table["y"]


def dict_of_an_attribute(box, other, table, value):
    box.__dict__["x"] = value
    box.y = value
    return box.x, vars(box)["y"]


def starred(box, other, table, value):
    box.x = value
    return (lambda **given: given)(**table)


def own_dict_asked_for_a_name(box, other, table, value):
    before = "x" in box.__dict__, box.__dict__["y"], box.__dict__.get("z")
    box.x = value
    behind = "x" in box.__dict__, "y" in box.__dict__, box.__dict__.get("y"), box.__dict__.get("z")
    box.z = value
    return before, behind, box.__dict__.get("z"), box.__dict__["x"], box.x, "z" in other.__dict__, other.__dict__["x"]


def own_dict_asked_in_between(box, other, table, value):
    names = box.__dict__
    seen = []
    for name in ("x", "z", "y"):
        seen += [names.get(name), name in names]
        setattr(box, name, value)
        seen += [names.get(name), name in names, len(names)]
    return seen


def own_dict_gone_through(box, other, table, value):
    for name in box.__dict__:
        if name == "x":
            box.z = value
    return box.x


def own_dict_gone_through_behind(box, other, table, value):
    found = "x" in box.__dict__
    box.z = value
    return found, [*box.__dict__], [*other.__dict__.items()]


def own_dict_changed_behind(box, other, table, value):
    found = box.__dict__.get("x")
    box.x = value
    box.__dict__["x"] = 7
    table["x"] = 8
    return found, box.x, other.x


FUNCTIONS: list[Callable[..., Any]] = [
    own_dict_asked_for_a_name, own_dict_asked_in_between, own_dict_gone_through, own_dict_gone_through_behind, own_dict_changed_behind,
    stored_attribute_is_an_item, stored_item_is_an_attribute, new_item_is_an_attribute, new_attribute_is_a_key,
    attribute_of_another_with_the_same_dict, item_hides_a_method, read_before, dict_of_an_attribute, starred,
]  # fmt: skip


def situation(kind: int) -> tuple[Box, Box, dict[str, Any]]:
    box, other = Box(), Box()
    if kind == 1:
        other.__dict__ = box.__dict__
    return box, other, vars(box) if kind == 2 else vars(other) if kind == 3 else {"x": 0, "y": [1]}


def told(function: Callable[..., Any], kind: int, value: Any) -> Any:
    box, other, table = situation(kind)
    came = outcome(function, box, other, table, value)
    return came, sorted(vars(box)), [vars(box)[name] for name in "xy"], [vars(other)[name] for name in "xy"], list(table)


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kinds", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0)], ids=str)
def test_is_one_dict(function: Callable[..., Any], kinds: tuple[int, ...], backend: str) -> None:
    captured = evalframe.jit(function, backend=backend)
    for value in VALUES:
        for kind in kinds:
            assert same(told(captured, kind, value), told(function, kind, value)), (kind, value)


def stored_name_is_an_item(names, value):
    global kept
    kept = value
    return names["kept"]


def stored_item_is_a_name(names, value):
    names["kept"] = value
    return kept


@pytest.mark.parametrize("function", [stored_name_is_an_item, stored_item_is_a_name], ids=lambda f: f.__name__)
@pytest.mark.parametrize("kinds", [(0, 1), (1, 0)], ids=str)
def test_names_of_a_module_are_items_of_its_dict(function: Callable[..., Any], kinds: tuple[int, ...]) -> None:
    captured = evalframe.jit(function, backend="reference")
    for value in VALUES:
        for kind in kinds:
            results = []
            for run in (function, captured):
                NAMES["kept"] = 0
                names = NAMES if kind else {"kept": 0}
                results.append((outcome(run, names, value), kept, names["kept"]))
            assert same(*results), (kind, value)


def test_a_store_behind_a_look_into_the_objects_dict_ends_no_recording() -> None:
    def function(box, x):
        y = x * box.__dict__["x"]
        box.y = y
        box.z = "x" in box.__dict__
        return y + box.y

    captured = evalframe.jit(function)
    for number in range(4):
        box, expected = Box(), Box()
        box.x = expected.x = 2.0 + number
        x = np.arange(3.0)
        assert same(captured(box, x), function(expected, x)) and same(list(vars(box)), list(vars(expected)))
    assert not evalframe.explain(captured)(box, x).breaks
