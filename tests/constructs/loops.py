"""Constructs: loops and branches, and breaks that are due to data."""

from __future__ import annotations

from typing import Any


def for_range(x: Any, y: Any) -> Any:
    for n in range(4):
        x = x + y * n
    return x


def for_range_with_step(x: Any, y: Any) -> Any:
    for n in range(10, 0, -3):
        x = x + y * n
    return x


def for_else(x: Any, y: Any) -> Any:
    for n in (1, 2, 3):
        if n == 5:
            break
    else:
        x = x * 2
    return x + y


def for_break(x: Any, y: Any) -> Any:
    for n in range(10):
        if n == 3:
            break
        x = x + y
    return x * n


def for_continue(x: Any, y: Any) -> Any:
    for n in range(5):
        if n % 2:
            continue
        x = x + y * n
    return x


def nested_loops(x: Any, y: Any) -> Any:
    for n in range(3):
        for m in range(n):
            x = x + y * m
    return x


def while_loop(x: Any, y: Any) -> Any:
    n = 5
    while n > 0:
        x = x + y
        n -= 2
    return x


def while_true(x: Any, y: Any) -> Any:
    n = 0
    while True:
        n += 1
        if n == 4:
            break
        x = x * 2
    return x + y


def while_else(x: Any, y: Any) -> Any:
    n = 3
    while n:
        n -= 1
        x = x + n
    else:
        x = x * 2
    return x + y


def loop_over_string(x: Any, y: Any) -> Any:
    for letter in "abc":
        x = x + y * ord(letter)
    return x


def loop_over_nothing(x: Any, y: Any) -> Any:
    for _ in ():
        x = x * 2
    return x + y


def branch_on_rank(x: Any, y: Any) -> Any:
    if x.ndim == 1:
        return x + y
    return x - y


def branch_on_type(x: Any, y: Any) -> Any:
    if x.dtype.kind == "f":
        return x + y
    return x - y


def branch_on_data(x: Any, y: Any) -> Any:
    z = x + y
    if z.sum() > 0:
        z = z * 2
    return z - 1


def value_of_data(x: Any, y: Any) -> Any:
    z = x + y
    n = float(z.max())
    return z * (n + 1)


def printed_data(x: Any, y: Any) -> Any:
    z = x + y
    print(z.shape, z.sum())
    return z * 2


def loop_until_data(x: Any, y: Any) -> Any:
    n = 0
    while x.max() < 10:
        x = x * 2 + 1
        n += 1
    return x + n


def loop_with_branch_on_data(x: Any, y: Any) -> Any:
    for n in range(3):
        if y[n] > 0:
            x = x + 1
        else:
            x = x - n
    return x


def comparison_chain_of_data(x: Any, y: Any) -> Any:
    z = x + y
    return z * 2 if -100 < z.min() < 100 else z


def data_in_text(x: Any, y: Any) -> Any:
    z = x + y
    return z, f"{z.sum():.3f}"


def list_of_data(x: Any, y: Any) -> Any:
    z = x + y
    return z * len(z.tolist())


def long_loop(x: Any, y: Any) -> Any:
    for n in range(20):
        x = x * 0.5 + y
    return x


def loop_over_array(x: Any, y: Any) -> Any:
    total = 0.0
    for value in x[:4]:
        total = total + value
    return y + total


def break_in_inner_function(x: Any, y: Any) -> Any:
    def positive(a: Any) -> Any:
        if a.sum() > 0:
            return a
        return -a

    z = positive(x + 1)
    return z * y


def break_in_try(x: Any, y: Any) -> Any:
    z = x + y
    try:
        if z.sum() > 0:
            z = z * 2
        z = z + 1
    finally:
        z = z - 3
    return z * y


def break_in_with(x: Any, y: Any) -> Any:
    import numpy as np

    with np.errstate(all="ignore"):
        z = x / y
        if z.size > 0 and (x + y).sum() > 0:
            z = z * 2
        z = z + 1
    return z - 1


def break_in_comprehension(x: Any, y: Any) -> Any:
    rows = [a * 2 if a.sum() > 0 else -a for a in (x, y)]
    return rows[0] + rows[1]
