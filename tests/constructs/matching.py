"""Constructs: `match`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class Scale:
    by: int


class Shift:
    __match_args__ = ("by", "sign")

    def __init__(self, by: int, sign: int) -> None:
        self.by, self.sign = by, sign


RED = 1


def _matched(command: Any, a: Any) -> Any:
    match command:
        case "double":
            return a * 2
        case ["add", n]:
            return a + n
        case ["add", n, *rest]:
            return a + n + len(rest)
        case {"scale": n}:
            return a * n
        case {"shift": n, **rest}:
            return a + n - len(rest)
        case Scale(by=n) if n > 3:
            return a * n
        case Scale(n):
            return a / n
        case Shift(n, -1):
            return a - n
        case int() | float() as n:
            return a + n
        case None:
            return -a
        case (1, 2) | (2, 1):
            return a * 12
        case _:
            return a


def literal(x: Any, y: Any) -> Any:
    return _matched("double", x) + y


def sequence(x: Any, y: Any) -> Any:
    return _matched(["add", 3], x) + y


def sequence_with_star(x: Any, y: Any) -> Any:
    return _matched(["add", 3, 4, 5], x) + y


def mapping(x: Any, y: Any) -> Any:
    return _matched({"scale": 3}, x) + y


def mapping_with_rest(x: Any, y: Any) -> Any:
    return _matched({"shift": 3, "a": 1}, x) + y


def class_with_keyword(x: Any, y: Any) -> Any:
    return _matched(Scale(5), x) + y


def class_with_position(x: Any, y: Any) -> Any:
    return _matched(Scale(2), x) + y


def class_with_match_args(x: Any, y: Any) -> Any:
    return _matched(Shift(2, -1), x) + y


def capture_of_type(x: Any, y: Any) -> Any:
    return _matched(2.5, x) + y


def none(x: Any, y: Any) -> Any:
    return _matched(None, x) + y


def alternatives(x: Any, y: Any) -> Any:
    return _matched((2, 1), x) + y


def wildcard(x: Any, y: Any) -> Any:
    return _matched({1, 2}, x) + y


def capture_of_arrays(x: Any, y: Any) -> Any:
    match (x, y):
        case (a, b):
            return a - b


def value_pattern(x: Any, y: Any) -> Any:
    import math

    match 3.0:
        case math.pi:
            return x
        case _:
            return x + y


def guard_on_shape(x: Any, y: Any) -> Any:
    match x.shape:
        case (n,) if n > 3:
            return x * n
        case (n,):
            return x + n
        case _:
            return y
