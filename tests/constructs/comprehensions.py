"""Constructs: comprehensions of each kind."""

from __future__ import annotations

from typing import Any


def of_list(x: Any, y: Any) -> Any:
    return sum([a * 2 for a in (x, y)])


def with_condition(x: Any, y: Any) -> Any:
    return sum([x * n for n in range(5) if n % 2]) + y


def with_two_loops(x: Any, y: Any) -> Any:
    return sum([a * n for a in (x, y) for n in (1, 2)])


def nested(x: Any, y: Any) -> Any:
    grid = [[a * n for n in (1, 2)] for a in (x, y)]
    return grid[0][1] + grid[1][0]


def of_dict(x: Any, y: Any) -> Any:
    d = {name: a * 2 for name, a in zip("ab", (x, y), strict=True)}
    return d.get("a") + d["b"]


def of_set(x: Any, y: Any) -> Any:
    return x * len({n % 3 for n in range(7)}) + y


def with_walrus(x: Any, y: Any) -> Any:
    rows = [last := a + 1 for a in (x, y)]
    return rows[0] + last


def with_unpacking(x: Any, y: Any) -> Any:
    return sum([a * n for n, (a, _) in enumerate([(x, 1), (y, 2)])])


def with_closure(x: Any, y: Any) -> Any:
    functions = [lambda a, n=n: a * n for n in (2, 3)]
    return functions[0](x) + functions[1](y)


def with_late_closure(x: Any, y: Any) -> Any:
    functions = [lambda a: a * n for n in (2, 3)]
    return functions[0](x) + functions[1](y)


def over_dict_items(x: Any, y: Any) -> Any:
    d = {"a": 2, "bc": 3}
    return sum([x * len(name) * n for name, n in d.items()]) + y


def over_rows_of_array(x: Any, y: Any) -> Any:
    grid = x.reshape(-1, 1)[:3]
    return sum([row.sum() for row in grid]) + y


def inverted_dict(x: Any, y: Any) -> Any:
    d = {"a": 1, "b": 2}
    inverted = {n: name for name, n in d.items()}
    return x * len(inverted[2]) + y


def with_conditional_expression(x: Any, y: Any) -> Any:
    rows = [a if n else a * 2 for n, a in enumerate((x, y))]
    return rows[0] - rows[1]


def with_method_calls(x: Any, y: Any) -> Any:
    names = [name.strip().upper() for name in " a, b ".split(",")]
    return x * len("".join(names)) + y


def with_nested_condition(x: Any, y: Any) -> Any:
    return sum([x * n * m for n in range(4) if n > 1 for m in range(n) if m != 1]) + y
