"""Plain Python programs, each for CPython's evaluator and evalframe's."""

from collections.abc import Callable
from typing import Any


class Vector:
    def __init__(self, x: float, y: float) -> None:
        self.x, self.y = x, y

    def add(self, other: "Vector") -> "Vector":
        return Vector(self.x + other.x, self.y + other.y)


def calls(n: int = 16) -> int:
    return n if n < 2 else calls(n - 1) + calls(n - 2)


def methods() -> float:
    position, step = Vector(0.0, 0.0), Vector(1.0, 0.5)
    for _ in range(2000):
        position = position.add(step)
    return position.x


def attributes() -> float:
    vector = Vector(0.0, 1.0)
    for _ in range(5000):
        vector.x = vector.x + vector.y
    return vector.x


def integers() -> int:
    total = i = 0
    while i < 10_000:
        total += i * i & 7
        i += 1
    return total


def floats() -> float:
    total = 0.0
    for i in range(10_000):
        total = total * 0.5 + i
    return total


def lists() -> int:
    values = [0] * 1000
    for _ in range(5):
        for i in range(1000):
            values[i] = values[i - 1] + 1
    return len(values)


def dicts() -> int:
    counts: dict[int, int] = {}
    for i in range(5000):
        counts[i % 97] = counts.get(i % 97, 0) + 1
    return len(counts)


def strings() -> int:
    words = ["the", "quick", "brown", "fox", "jumps", "over", "it"]
    return sum(len(f"{i}:{word.upper()}") for i in range(50) for word in words)


def exceptions() -> int:
    missed = 0
    for i in range(2000):
        try:
            [].pop(i)
        except IndexError:
            missed += 1
    return missed


def generators() -> int:
    def numbers(n: int) -> Any:
        yield from range(n)

    return sum(numbers(10_000))


def closures() -> int:
    total = 0

    def add(amount: int) -> None:
        nonlocal total
        total += amount

    for i in range(3000):
        add(i)
    return total


INTERPRETED: list[Callable[[], Any]] = [
    calls, methods, attributes, integers, floats, lists, dicts, strings, exceptions, generators, closures,
]  # fmt: skip
