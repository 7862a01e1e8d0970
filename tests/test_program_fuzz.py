"""Random NumPy programs, statement by statement: plain, by the reference and the native backend, and left at every node."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import evalframe
from graphs import steps
from helpers import leaving_before

KEYS = ["1:", ":-1", "::-1", "1:-1", "::2", "...", ":", "0", "-1", "..., 0", "..., 1:", "None", "1:3", "0:0", "..., ::-1", "-2:", "5:1:-1"]
OPERATORS = ["+", "-", "*", "/", "+", "*", "-"]
COMPARISONS = ["<", ">", "==", "!=", "<=", ">="]
BINARY = ["maximum", "minimum", "add", "multiply", "subtract", "fmax", "fmin", "true_divide", "copysign"]
UNARY = ["sqrt", "abs", "negative", "square", "floor", "sign", "isnan", "ceil", "rint", "positive"]
REDUCTIONS = ["sum", "mean", "min", "max", "prod", "any", "all", "argmax", "argmin", "var", "std", "cumsum"]
MAKERS = ["zeros_like", "ones_like", "copy", "array", "ascontiguousarray", "asarray", "ravel", "transpose", "squeeze", "atleast_1d"]
NUMBERS = ["2", "0.5", "-1.5", "3", "True", "s", "k", "np.float32(1.5)", "np.float64(0.25)", "np.int64(2)", "1e-3"]
DTYPES = ["f8", "f8", "f8", "f8", "f4", "f4", "i8", "i4", "u1", "bool"]
SHAPES = [(6,), (6,), (4, 6), (4, 6), (1, 6), (4, 1), (3, 4, 6), (), (1,), (0, 6)]
# What a program may do that NumPy doesn't refuse.
REFUSALS = (TypeError, ValueError, IndexError, OverflowError, FloatingPointError, AttributeError, ZeroDivisionError)


def make_array(r: Random) -> Any:
    shape, dtype = r.choice(SHAPES), r.choice(DTYPES)
    values = np.random.default_rng(r.randrange(1 << 30)).standard_normal(shape) * 3
    values = np.rint(values / 4) if r.random() < 0.2 else values  # zeros of both signs
    x = (values > 0) if dtype == "bool" else values.astype("i4").astype(dtype) if dtype[0] in "ui" else values.astype(dtype)
    layout = r.random()
    x = np.asarray(x)
    if layout < 0.15:
        return np.asfortranarray(x)
    if layout < 0.3 and x.ndim:
        wide = np.zeros([2 * n + 1 for n in x.shape], x.dtype)
        view = wide[tuple(slice(None, 2 * n, 2) for n in x.shape)]
        view[...] = x
        return view
    if layout < 0.4 and x.ndim:
        return x[::-1]
    if layout < 0.45 and x.ndim > 1:
        return x.T
    return x


def make_inputs(seed: int) -> list[Any]:
    r = Random(seed)
    a, b, c = make_array(r), make_array(r), make_array(r)
    kind = r.random()
    if kind < 0.1 and a.ndim:
        b = a[1:]
    elif kind < 0.15:
        c = a
    elif kind < 0.18 and a.size:
        a = a.copy()
        a.flags.writeable = False
    return [a, b, c, r.choice([0.5, -2.0, 3.25]), r.choice([2, 3, -1])]


def expression(r: Random, names: list[str]) -> str:
    x, y, z = (r.choice(names[-4:] if r.random() < 0.5 else names) for _ in range(3))
    n = r.choice(NUMBERS)
    where = r.choice(["", "", ", axis=0", ", axis=-1", ", axis=-1, keepdims=True"])
    return r.choices(
        [
            f"{x} {r.choice(OPERATORS)} {y}",
            f"{x} {r.choice(OPERATORS)} {n}",
            f"{n} {r.choice(OPERATORS)} {x} {r.choice(OPERATORS)} {y}",
            f"np.{r.choice(UNARY)}({x})",
            f"np.{r.choice(BINARY)}({x}, {y})",
            f"{x}[{r.choice(KEYS)}]",
            f"{x}[{r.choice(KEYS)}] {r.choice(OPERATORS)} {y}[{r.choice(KEYS)}]",
            f"np.where({x} {r.choice(COMPARISONS)} {y}, {z}, {r.choice([y, n])})",
            f"np.{r.choice(REDUCTIONS)}({x}{where})",
            f"({x} {r.choice(COMPARISONS)} {r.choice([y, n])})",
            f"{x}.T",
            f"{x}.reshape({r.choice(['-1', '(-1, 2)', '(2, -1)', f'{x}.shape', '(-1, 1)'])})",
            f"np.{r.choice(MAKERS)}({x})",
            f"{x}.astype({r.choice(['np.float32', 'np.float64', 'int', 'bool'])})",
            f"np.clip({x}, {r.choice(['-1', '-0.0', y])}, {r.choice(['1', '2.5', '0.0', z])})",
        ],
        [8, 6, 4, 4, 3, 5, 4, 3, 5, 2, 2, 2, 3, 1, 1],
    )[0]


def statement(r: Random, names: list[str], fresh: str) -> str:
    x, y, z = (r.choice(names) for _ in range(3))
    key = r.choice(KEYS)
    kind = r.random()
    if kind < 0.55:
        return f"{fresh} = {expression(r, names)}"
    if kind < 0.65:
        return f"{x} {r.choice(OPERATORS)}= {expression(r, names)}"
    if kind < 0.75:
        return f"{x}[{key}] {r.choice(OPERATORS)}= {expression(r, names)}"
    if kind < 0.87:
        return f"{x}[{key}] = {r.choice([expression(r, names), r.choice(NUMBERS)])}"
    if kind < 0.93:
        return f"{fresh} = np.{r.choice(BINARY)}({x}, {y}, out={z})"
    return f"np.{r.choice(UNARY[:6])}({x}, out={z})"


def make_program(seed: int) -> str:
    """Source of `program(a, b, c, s, k)`, of statements that run; the last may raise."""
    r = Random(seed)
    names = ["a", "b", "c"]
    scope: dict[str, Any] = dict(zip("abcsk", make_inputs(seed), strict=True), np=np)
    lines: list[str] = []
    length = r.randrange(3, 14)
    while len(lines) < length:
        line = statement(r, names, f"t{len(lines)}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                exec(line, scope)
            except REFUSALS:
                if len(lines) + 1 == length and r.random() < 0.3:
                    lines.append(line)
                continue
        lines.append(line)
        name = line.split(" ")[0]
        if name.isidentifier() and name not in names and isinstance(scope[name], np.ndarray | np.generic):
            names.append(name)
    body = "".join(f"    {line}\n" for line in lines)
    return f"def program(a, b, c, s, k):\n{body}    return {', '.join(names)}, np.float64(s)\n"


# The sign of a zero or a NaN depends on where an element stands in NumPy itself.
UNSIGNED_ZEROS = ("np.fmax(", "np.fmin(", "np.max(", "np.min(")


def contents(value: Any, signs: bool) -> bytes:
    elements = np.array(value)
    if not signs and value.dtype.kind == "f":
        elements = np.where(np.isnan(elements), np.nan, elements + 0.0)
    return bytes(elements.tobytes())


def describe(value: Any, signs: bool) -> Any:
    if isinstance(value, np.ndarray):
        return "array", value.dtype, value.shape, steps(value), value.flags.writeable, value.base is None, contents(value, signs)
    if isinstance(value, np.generic):
        return type(value), contents(value, signs)
    return type(value), repr(value)


def tell(warning: warnings.WarningMessage) -> tuple[Any, ...]:
    return warning.category, str(warning.message), warning.filename, warning.lineno


def observe(function: Callable[..., Any], seed: int, signs: bool) -> Any:
    """All that can be told of a call: results and their identities and memory, what became of the inputs, warnings, exceptions."""
    inputs = make_inputs(seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result, error = function(*inputs), None
        except REFUSALS as raised:
            result, error = (), (type(raised), str(raised))
    everything = [*inputs[:3], *result]
    same = [[x is y for x in everything if isinstance(x, np.ndarray)] for y in everything if isinstance(y, np.ndarray)]
    arrays = [x for x in everything if isinstance(x, np.ndarray)]
    shared = [[np.may_share_memory(x, y) for x in arrays] for y in arrays]
    return [describe(x, signs) for x in everything], same, shared, [tell(w) for w in caught], error


def check_program(seed: int, leave: bool) -> None:
    source = make_program(seed)
    scope: dict[str, Any] = {"np": np}
    exec(compile(source, f"<program {seed}>", "exec"), scope)
    program = scope["program"]
    signs = not any(name in source for name in UNSIGNED_ZEROS)
    wanted = observe(program, seed, signs)
    for backend in ("reference", "native"):
        captured = evalframe.jit(program, backend=backend)
        for call in range(3):
            assert observe(captured, seed, signs) == wanted, f"{source}\nbackend {backend}, call {call}, seed {seed}"
    if not leave:
        return
    for node in range(40):
        with leaving_before(node):
            assert observe(captured, seed, signs) == wanted, f"{source}\nleft before node {node}, seed {seed}"


@pytest.mark.parametrize("seed", range(150))
def test_program(seed: int) -> None:
    check_program(seed, leave=seed % 3 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_many_programs(block: int) -> None:
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        check_program(seed, leave=True)
