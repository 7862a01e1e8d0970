"""Random NumPy programs: plain and captured, by each backend, on inputs that change from call to call, and left at every node."""

from __future__ import annotations

import keyword
import traceback
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
DTYPES = ["f8", "f8", "f8", "f8", "f4", "f4", "i8", "i4", "u1", "bool", "c16", "c8", "f2", "i1", "u8"]
SHAPES = [(6,), (6,), (4, 6), (4, 6), (1, 6), (4, 1), (3, 4, 6), (), (1,), (0, 6), (37,), (5, 40)]
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, 1e308, -1e308, 1e-308, 1.0]
# What a program may do that NumPy doesn't refuse.
REFUSALS = (TypeError, ValueError, IndexError, OverflowError, FloatingPointError, AttributeError, ZeroDivisionError, NameError)


def narrowed(values: Any, dtype: str) -> Any:
    with np.errstate(all="ignore"):
        return (values * (1 - 2j) if dtype[0] == "c" else values).astype(dtype)


def make_array(r: Random) -> Any:
    shape, dtype = r.choice(SHAPES), r.choice(DTYPES)
    values = np.random.default_rng(r.randrange(1 << 30)).standard_normal(shape) * 3
    values = np.rint(values / 4) if r.random() < 0.2 else values  # zeros of both signs
    if dtype[0] in "fc" and r.random() < 0.3:
        values = np.where(np.arange(values.size).reshape(shape) % 3, values, r.choice(SPECIAL))
    x = (values > 0) if dtype == "bool" else values.astype("i4").astype(dtype) if dtype[0] in "ui" else narrowed(values, dtype)
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


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def block(r: Random, names: list[str], fresh: str, depth: int = 0) -> list[str]:
    """The lines of a statement, which may hold others."""
    if depth == 2 or r.random() < 0.7:
        return [statement(r, names, fresh)]
    known, inner = list(names), []
    for number in range(r.randrange(1, 4)):
        lines = block(r, known, f"{fresh}_{number}", depth + 1)
        made = lines[0].split(" ")[0]
        if made.isidentifier() and not keyword.iskeyword(made):
            known.append(made)
        inner += lines
    x, y, n = r.choice(names), r.choice(names), r.choice(NUMBERS)
    condition = r.choice([f"{x}.sum() > 0", f"({x} > {n}).any()", f"{x}.ndim > 1", f"{x}.shape == {y}.shape", "s > 0", f"{x} is {y}"])
    kind = r.randrange(7)
    if kind == 0:
        return [f"for i{depth} in range({r.choice(['3', 'k', f'{x}.ndim'])}):", *indented(inner)]
    if kind == 1:
        return [f"for row{depth} in {x}:", *indented(inner), f"    row{depth} += {n}"]
    if kind == 2:
        return [f"if {condition}:", *indented(inner), "else:", *indented([statement(r, names, fresh)])]
    if kind == 3:
        return ["for turn in range(4):", f"    if {condition}:", f"        {r.choice(['break', 'continue'])}", *indented(inner)]
    if kind == 4:
        return ["try:", *indented(inner), f"    {x}[99]", "except (IndexError, ValueError):", *indented([statement(r, names, fresh)])]
    if kind == 5:
        return [f"with np.errstate({r.choice(['all', 'divide', 'invalid', 'over'])}={r.choice(['ignore', 'raise', 'warn'])!r}):", *indented(inner)]
    function = f"f{fresh}"
    return [f"def {function}(v, w={y}):", f"    return v * {n} + {r.choice(['w', x])}", f"{fresh} = {function}({x})"]


def make_program(seed: int) -> str:
    """Source of `program(a, b, c, s, k)`, of statements that run; the last may raise."""
    r = Random(seed)
    names = ["a", "b", "c"]
    scope: dict[str, Any] = dict(zip("abcsk", make_inputs(seed), strict=True), np=np)
    lines: list[str] = []
    length = r.randrange(3, 14)
    count = 0
    while count < length:
        added = block(r, names, f"t{count}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            before = dict(scope)
            try:
                exec("\n".join(added), scope)
            except REFUSALS:
                scope.clear()
                scope.update(before)
                if count + 1 == length and r.random() < 0.3:
                    lines += added
                    count += 1
                continue
        lines += added
        count += 1
        names += [name for name, value in scope.items() if name not in names and isinstance(value, np.ndarray | np.generic) and name not in "sk"]
        names = [name for name in names if isinstance(scope.get(name), np.ndarray | np.generic)]
    body = "".join(f"    {line}\n" for line in lines)
    return f"def program(a, b, c, s, k):\n{body}    return {', '.join(names)}, np.float64(s)\n"


# The sign of a zero or a NaN depends on where an element stands in NumPy itself.
UNSIGNED_ZEROS = ("np.fmax(", "np.fmin(", "np.max(", "np.min(", "np.maximum(", "np.minimum(", "np.clip(")


def contents(value: Any, signs: bool) -> bytes:
    parts = [value.real, value.imag] if value.dtype.kind == "c" else [value]
    if value.dtype.kind in "fc":
        parts = [np.where(np.isnan(part), np.nan, part if signs else part + 0.0).astype(part.dtype) for part in parts]
    return b"".join(bytes(np.array(part).tobytes()) for part in parts)


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
            # CPython 3.11 takes unbound variables for the instruction before, where it has made one of the two.
            frames = traceback.extract_tb(raised.__traceback__) if not isinstance(raised, UnboundLocalError) else []
            result, error = (), (type(raised), str(raised), [(f.name, f.lineno) for f in frames if f.filename.startswith("<program")])
    everything = [*inputs[:3], *result]
    same = [[x is y for x in everything if isinstance(x, np.ndarray)] for y in everything if isinstance(y, np.ndarray)]
    arrays = [x for x in everything if isinstance(x, np.ndarray)]
    shared = [[np.may_share_memory(x, y) for x in arrays] for y in arrays]
    return [describe(x, signs) for x in everything], same, shared, [tell(w) for w in caught], error


OPTIONS: list[dict[str, Any]] = [{"backend": "reference"}, {}, {"exact": True}]


def check_program(seed: int, leave: bool) -> None:
    source = make_program(seed)
    scope: dict[str, Any] = {"np": np}
    exec(compile(source, f"<program {seed}>", "exec"), scope)
    program = scope["program"]
    signs = not any(name in source for name in UNSIGNED_ZEROS)
    calls = [seed, seed, seed + 1_000_003, seed, seed + 2_000_003, seed]
    wanted = {call: observe(program, call, signs) for call in calls}
    for options in OPTIONS:
        if options == {} and any(np.iscomplexobj(x) for call in calls for x in make_inputs(call)):
            continue  # magnitudes of complex numbers, and some of their products, differ in the last bit
        captured = evalframe.jit(program, **options)
        for call in calls:
            assert observe(captured, call, signs) == wanted[call], f"{source}\n{options}, call {call}, seed {seed}"
    with evalframe.enabled(exact=True):
        for call in calls:
            assert observe(program, call, signs) == wanted[call], f"{source}\nenabled, call {call}, seed {seed}"
    if not leave:
        return
    for node in range(40):
        with leaving_before(node):
            assert observe(captured, seed, signs) == wanted[seed], f"{source}\nleft before node {node}, seed {seed}"


@pytest.mark.mostly_slow(4)
@pytest.mark.parametrize("seed", range(150))
def test_program(seed: int) -> None:
    check_program(seed, leave=seed % 3 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_many_programs(block: int, share: int) -> None:
    for seed in range(1000 + 100 * block, 1100 + 100 * block, share):
        check_program(seed, leave=True)
