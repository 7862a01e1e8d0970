"""Names that have no UTF-8: of files in a folder that is named in another encoding, and of attributes that setattr() made."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_behaves_as_plain

X = np.arange(3.0)
NAME = "\ud800"


class Own:
    pass


def attributes(x: Any) -> Any:
    own = Own()
    setattr(own, "\ud800", x)
    return getattr(own, "\ud800") + 1, hasattr(own, "\udfff"), getattr(own, "\udfff", 3), getattr(Own, "\udfff", 4), vars(own)


def stored_into_class(x: Any) -> Any:
    class Local:
        pass

    setattr(Local, "\ud800", 2)
    return x * getattr(Local, "\ud800"), getattr(Local, "\udfff", 5)


def annotated(x: Any) -> Any:
    @dataclass
    class Local:
        item: "\ud800" = 1  # type: ignore[valid-type]  # noqa: F722, F821

    return repr(Local(2)), x + 1, Local.__annotations__


def in_class_body(x: Any) -> Any:
    made = type("Made", (), {"\ud800": 3, "item": 1})
    return dataclass(made)(), getattr(made(), "\ud800") * x


def missing(x: Any) -> Any:
    try:
        getattr(Own(), "\udfff")
    except AttributeError as error:
        return str(error), error.name, x + 1


def frames(x: Any) -> Any:
    def inner() -> Any:
        return [name for name in sorted(vars(Own)) if "\udfff" in name], locals()

    return inner(), x + 1


@pytest.mark.parametrize("function", [attributes, stored_into_class, annotated, in_class_body, missing, frames])
def test_behaves_as_plain(function: Callable[..., Any]) -> None:
    check_behaves_as_plain(function, "reference", [(X,)] * 3, told=lambda function, *arguments: repr(function(*arguments)).replace("0x", ""))


def test_files_and_functions() -> None:
    """Texts about them have a question mark."""
    names: dict[str, Any] = {"np": np}
    source = "def f(x, n):\n    y = x + n\n    if y.sum() > 0:\n        return y * 2\n    return y\n"
    exec(compile(source, "caf\udce9.py", "exec"), names)
    function = names["f"]
    function.__code__ = function.__code__.replace(co_name="f\ud800", co_qualname="f\ud800")
    captured = evalframe.jit(function, backend="reference", max_entries=2)
    for rank in range(1, 6):
        x = X.reshape((1,) * (rank - 1) + (3,))
        np.testing.assert_array_equal(captured(x, 1), function(x, 1))
    assert {found["file"] for found in _core.jit_breaks(captured)} == {"?"}
    assert _core.jit_limits(captured)[0]["file"] == "?"
    assert "branch on the value of an array" in str(evalframe.explain(function)(X, 1))
    assert {entry["file"] for entry in _core.jit_entries(captured)} == {"caf\udce9.py"}


def test_a_name_that_is_missing_is_told_of_as_in_cpython() -> None:
    def reads() -> Any:
        return not_there  # type: ignore[name-defined]  # noqa: F821

    code = reads.__code__.replace(co_names=tuple(NAME if name == "not_there" else name for name in reads.__code__.co_names))
    function = types.FunctionType(code, {})
    told = []
    for run in (function, lambda: _core.evaluate(function)):
        try:
            run()
        except Exception as error:
            told.append((type(error), str(error)))
    assert len(told) == 2 and told[0] == told[1]
