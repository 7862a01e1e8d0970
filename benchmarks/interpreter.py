"""Plain Python programs, each by CPython's evaluator and by evalframe's.

``python benchmarks/interpreter.py [--rounds N] [PROGRAM ...]`` prints both times, their ratio, and the geometric mean.
"""

import argparse
import re
from collections.abc import Callable
from statistics import geometric_mean
from typing import Any

from timing import least

import evalframe


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


class Task:
    """One of Richards' tasks: takes packets off its queue, and passes them on."""

    def __init__(self, name: int, target: int) -> None:
        self.name, self.target = name, target
        self.queue: list[Packet] = []
        self.handled = 0

    def waits(self) -> bool:
        return not self.queue

    def run(self, scheduler: "Scheduler") -> None:
        packet = self.queue.pop()
        self.handled += 1
        scheduler.pass_on(packet, self.target)


class Device(Task):
    def run(self, scheduler: "Scheduler") -> None:
        if self.queue[-1].left % 3 == 0:
            self.queue[-1].left -= 1
        super().run(scheduler)


class Packet:
    __slots__ = ("kind", "left")

    def __init__(self, left: int) -> None:
        self.left, self.kind = left, left & 1


class Scheduler:
    def __init__(self) -> None:
        self.tasks = [Task(0, 1), Device(1, 2), Task(2, 3), Device(3, 0)]

    def pass_on(self, packet: Packet, target: int) -> None:
        packet.left -= 1
        if packet.left > 0:
            self.tasks[target].queue.append(packet)

    def run(self) -> int:
        busy = True
        while busy:
            busy = False
            for task in self.tasks:
                if task.waits():
                    continue
                busy = True
                task.run(self)
        return sum(task.handled for task in self.tasks)


def richards() -> int:
    scheduler = Scheduler()
    for left in (40, 50, 60, 70, 80):
        scheduler.pass_on(Packet(left), left % 4)
    return scheduler.run()


class Variable:
    def __init__(self, value: int) -> None:
        self.value = value
        self.constraints: list[Constraint] = []
        self.mark = 0


class Constraint:
    def __init__(self, source: Variable, target: Variable) -> None:
        self.source, self.target = source, target
        source.constraints.append(self)

    def execute(self) -> None:
        raise NotImplementedError

    def is_satisfied(self) -> bool:
        return self.target.mark == self.source.mark


class Equal(Constraint):
    def execute(self) -> None:
        self.target.value = self.source.value


class Scaled(Constraint):
    def __init__(self, source: Variable, target: Variable, factor: int, offset: int) -> None:
        super().__init__(source, target)
        self.factor, self.offset = factor, offset

    def execute(self) -> None:
        self.target.value = self.source.value * self.factor + self.offset


def deltablue() -> int:
    """Values that go along chains of constraints."""
    variables = [Variable(i) for i in range(60)]
    for i in range(59):
        if i % 2:
            Equal(variables[i], variables[i + 1])
        else:
            Scaled(variables[i], variables[i + 1], 1, i)
    for mark in range(1, 20):
        variables[0].value, variables[0].mark = mark, mark
        todo = [variables[0]]
        while todo:
            for constraint in todo.pop().constraints:
                if not constraint.is_satisfied():
                    constraint.execute()
                    constraint.target.mark = mark
                    todo.append(constraint.target)
    return variables[-1].value


def json_text(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json_text(key)}: {json_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join([json_text(item) for item in value]) + "]"
    return "null" if value is None else repr(value)


def json_value(text: str, at: int) -> tuple[Any, int]:
    first = text[at]
    if first == "{":
        members: dict[str, Any] = {}
        at += 1
        while text[at] != "}":
            key, at = json_value(text, at)
            members[key], at = json_value(text, at + 2)
            if text[at] == ",":
                at += 2
        return members, at + 1
    if first == "[":
        items = []
        at += 1
        while text[at] != "]":
            item, at = json_value(text, at)
            items.append(item)
            if text[at] == ",":
                at += 2
        return items, at + 1
    if first == '"':
        end = text.index('"', at + 1)
        return text[at + 1 : end], end + 1
    end = at
    while end < len(text) and text[end] not in ",]}":
        end += 1
    return (None if text[at:end] == "null" else float(text[at:end])), end


def json() -> int:
    document = {"rows": [{"id": i, "name": f"row {i}", "tags": ["a", "b"], "next": None} for i in range(30)]}
    text = json_text(document)
    value, end = json_value(text, 0)
    return end + len(value["rows"])


TOKEN = re.compile(r"\s*(?:(\d+)|(\w+)|(.))")


def parsing() -> int:
    """A calculator: tokens by regular expression, then recursive descent."""
    tokens = [match.groups() for match in TOKEN.finditer("(1 + 2) * x - 7 * (y + 3 * (2 - x)) " * 1 + "+ 4 * y " * 30)]
    names = {"x": 5, "y": 6}
    place = 0

    def atom() -> int:
        nonlocal place
        number, name, sign = tokens[place]
        place += 1
        if number:
            return int(number)
        if name:
            return names[name]
        assert sign == "("
        value = expression()
        place += 1
        return value

    def term() -> int:
        nonlocal place
        value = atom()
        while place < len(tokens) and tokens[place][2] == "*":
            place += 1
            value *= atom()
        return value

    def expression() -> int:
        nonlocal place
        value = term()
        while place < len(tokens) and tokens[place][2] in ("+", "-"):
            sign = tokens[place][2]
            place += 1
            value = value + term() if sign == "+" else value - term()
        return value

    return expression()


def queens(size: int = 6) -> int:
    def place(row: int, columns: tuple[int, ...]) -> int:
        if row == size:
            return 1
        found = 0
        for column in range(size):
            if all(column != other and abs(column - other) != row - at for at, other in enumerate(columns)):
                found += place(row + 1, (*columns, column))
        return found

    return place(0, ())


INTERPRETED: list[Callable[[], Any]] = [
    calls, methods, attributes, integers, floats, lists, dicts, strings, exceptions, generators, closures,
    richards, deltablue, json, parsing, queens,
]  # fmt: skip


def evaluated(program: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> None:
        evalframe.enable(mode="evaluate")
        program()
        evalframe.disable()

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=0.01, help="for each program and round")
    options = parser.parse_args()
    ratios = []
    print(f"{'program':<12}{'CPython':>12}{'evalframe':>12}{'ratio':>8}")
    for program in INTERPRETED:
        if options.programs and program.__name__ not in options.programs:
            continue
        times = least({"plain": program, "ours": evaluated(program)}, options.rounds, options.seconds)
        plain, ours = times["plain"], times["ours"]
        ratios.append(ours / plain)
        print(f"{program.__name__:<12}{plain * 1e6:>9.0f} us{ours * 1e6:>9.0f} us{ours / plain:>8.2f}", flush=True)
    print(f"{'mean':<36}{geometric_mean(ratios):>8.2f}")


if __name__ == "__main__":
    main()
