"""Constructs: generators, and iterators of the program's own."""

from __future__ import annotations

from typing import Any


def _counting(start: int, stop: int) -> Any:
    while start < stop:
        yield start
        start += 1


def _scaled(a: Any) -> Any:
    for i in range(3):
        yield a * i


def _echo(a: Any) -> Any:
    received = a
    while received is not None:
        received = yield received * 2


def _with_result(a: Any) -> Any:
    yield a
    return a * 3


def _delegating(a: Any) -> Any:
    result = yield from _with_result(a)
    yield result + 1


def _closing(seen: list[str]) -> Any:
    try:
        yield 1
        yield 2
    finally:
        seen.append("closed")


def _catching(a: Any) -> Any:
    try:
        yield a
    except ValueError:
        yield a * 5


def _failing(a: Any) -> Any:
    yield a
    raise KeyError("from the generator")


class _Steps:
    def __init__(self, a: Any, number: int) -> None:
        self.a, self.number = a, number

    def __iter__(self) -> _Steps:
        return self

    def __next__(self) -> Any:
        if self.number == 0:
            raise StopIteration
        self.number -= 1
        return self.a * self.number


class _Tree:
    def __init__(self, value: Any, *children: _Tree) -> None:
        self.value, self.children = value, children

    def __iter__(self) -> Any:
        yield self.value
        for child in self.children:
            yield from child


def expression_in_sum(x: Any, y: Any) -> Any:
    return sum(a * 2 for a in (x, y))


def expression_with_condition(x: Any, y: Any) -> Any:
    z = x + 1
    return sum(z * i for i in range(5) if i % 2)


def expression_in_any(x: Any, y: Any) -> Any:
    z = x + 1
    return z * 2 if any(n > 3 for n in (1, 4, 2)) else y


def expression_in_all(x: Any, y: Any) -> Any:
    z = x + 1
    return z * 2 if all(a.ndim == 1 for a in (x, y)) else y


def expression_in_tuple(x: Any, y: Any) -> Any:
    a, b = tuple(v + 1 for v in (x, y))
    return a * b


def expression_in_list(x: Any, y: Any) -> Any:
    rows = list(v * n for n, v in enumerate((x, y)))
    return rows[0] + rows[1]


def expression_in_dict(x: Any, y: Any) -> Any:
    d = dict((name, v + 1) for name, v in zip("ab", (x, y)))
    return d["a"] * d["b"]


def expression_in_set(x: Any, y: Any) -> Any:
    return x * len(set(n % 3 for n in range(7))) + y


def expression_in_max(x: Any, y: Any) -> Any:
    return x * max(n * n for n in (1, -5, 2)) + y


def expression_in_join(x: Any, y: Any) -> Any:
    return x * len(",".join(str(n) for n in range(4))) + y


def loop_over_function(x: Any, y: Any) -> Any:
    z = x
    for a in _scaled(y):
        z = z + a
    return z


def loop_over_numbers(x: Any, y: Any) -> Any:
    z = x + y
    for n in _counting(1, 4):
        z = z * n
    return z


def list_of_function(x: Any, y: Any) -> Any:
    rows = list(_scaled(x))
    return rows[1] + rows[2] * y


def unpacked(x: Any, y: Any) -> Any:
    a, b, c = _scaled(x)
    return a + b * c + y


def next_by_hand(x: Any, y: Any) -> Any:
    steps = _scaled(x)
    next(steps)
    return next(steps) + y


def next_with_default(x: Any, y: Any) -> Any:
    z = x + 1
    found = next((n for n in (1, 2, 3) if n > 5), 7)
    return z * found


def next_found(x: Any, y: Any) -> Any:
    found = next(a for a in (x, y) if a.ndim == 1)
    return found + 1


def sent_values(x: Any, y: Any) -> Any:
    echo = _echo(x)
    first = next(echo)
    return first + echo.send(y)


def thrown_exception(x: Any, y: Any) -> Any:
    steps = _catching(x)
    first = next(steps)
    return first + steps.throw(ValueError("thrown")) + y


def closed(x: Any, y: Any) -> Any:
    seen: list[str] = []
    steps = _closing(seen)
    next(steps)
    steps.close()
    return x * len(seen) + y


def left_unfinished(x: Any, y: Any) -> Any:
    seen: list[str] = []
    for n in _closing(seen):
        x = x + n
        break
    return x + y, len(seen)


def result_of_yield_from(x: Any, y: Any) -> Any:
    a, b = _delegating(x)
    return a + b * y


def stop_iteration_value(x: Any, y: Any) -> Any:
    steps = _with_result(x)
    next(steps)
    try:
        next(steps)
    except StopIteration as stop:
        return stop.value + y


def exception_from_inside(x: Any, y: Any) -> Any:
    z = x
    try:
        for a in _failing(x):
            z = z + a
    except KeyError:
        z = z * 2
    return z + y


def recursive_generator(x: Any, y: Any) -> Any:
    tree = _Tree(1, _Tree(2, _Tree(3)), _Tree(4))
    z = x + y
    for n in tree:
        z = z + n
    return z


def pipeline(x: Any, y: Any) -> Any:
    squares = (n * n for n in range(6))
    odd = (n for n in squares if n % 2)
    z = x + y
    for n in odd:
        z = z + n
    return z


def closure_in_generator(x: Any, y: Any) -> Any:
    def scaled() -> Any:
        for i in range(3):
            yield x * i + y

    total = y
    for a in scaled():
        total = total + a
    return total


def returned_generator_is_used_later(x: Any, y: Any) -> Any:
    def make() -> Any:
        return (a + 1 for a in (x, y))

    rows = make()
    z = x * y
    return z + sum(rows)


def iterator_class(x: Any, y: Any) -> Any:
    z = y
    for a in _Steps(x, 3):
        z = z + a
    return z


def iterator_class_in_list(x: Any, y: Any) -> Any:
    rows = list(_Steps(x, 3))
    return rows[0] + rows[1] + y


def iter_with_sentinel(x: Any, y: Any) -> Any:
    rest = [3, 2, 1, 0]
    z = x
    for n in iter(lambda: rest.pop(0), 0):
        z = z + y * n
    return z


def getitem_protocol(x: Any, y: Any) -> Any:
    class Row:
        def __getitem__(self, i: int) -> Any:
            if i > 2:
                raise IndexError(i)
            return x * i

    z = y
    for a in Row():
        z = z + a
    return z
