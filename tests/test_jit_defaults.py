"""Defaults of functions that captured code makes: those that were there before a break are what they are in each call."""
# Annotations are evaluated here, behind the defaults.

# mypy: disable-error-code="valid-type"

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from helpers import outcome, same

THIRD = 0


def is_third(factor: float = 1) -> float:
    """No recording can have it in it, and it says something else at each call."""
    global THIRD
    THIRD += 1
    return factor * eval("THIRD % 3", {"THIRD": THIRD})


def stop() -> str:
    return eval("'text'")


def broken_behind_defaults(x: Any) -> Any:
    def inner(a: Any, by: Any = is_third(), more: Any = is_third(2)) -> stop():
        return a * by + more

    return inner(x), inner(x, 2)


def broken_behind_keyword_defaults(x: Any) -> Any:
    def inner(a: Any, *, by: Any = is_third(), more: Any = 4) -> stop():
        return a * by + more

    return inner(x), inner(x, more=2)


def broken_behind_both(x: Any) -> Any:
    def inner(a: Any = is_third(), *, by: Any = x * is_third()) -> stop():
        return a * by

    return inner(), inner.__defaults__, inner.__kwdefaults__


@pytest.mark.parametrize("function", [broken_behind_defaults, broken_behind_keyword_defaults, broken_behind_both])
def test_defaults_that_a_break_has_left_on_the_stack(function: Callable[..., Any]) -> None:
    def counted(called: Callable[..., Any], first: int) -> Any:
        global THIRD
        THIRD = first
        return outcome(called, np.arange(3.0))

    captured = evalframe.jit(function, backend="reference")
    for first in (0, 1, 2, 3, 1, 2):
        assert same(counted(captured, first), counted(function, first))
