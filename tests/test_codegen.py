"""Transformed code objects and resume functions: they do what the evaluator's exits do, wherever a graph is left."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe.codegen import Entry, entries_of, run_transformed
from helpers import leaving_before

A = np.linspace(-2.0, 3.0, 12).reshape(3, 4)
B = np.arange(12.0).reshape(3, 4) + 1
LOG: list[Any] = []


def note(*what: Any) -> Any:
    sys.getallocatedblocks()  # a break
    LOG.append(what)
    return what[-1]


class Manager:
    def __enter__(self) -> Manager:
        note("enter")
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> bool:
        note("exit", kind and kind.__name__)
        return kind is KeyError


class Dropped:
    def __init__(self, name: str) -> None:
        self.name = name

    def __del__(self) -> None:
        note("dropped", self.name)


def toy_function(a: Any, b: Any) -> Any:
    x = a / (np.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def break_in_call(x: Any, y: Any) -> Any:
    z = x + y
    note("middle", float(z[0, 0]))
    return z * 2


def several_breaks(x: Any, y: Any) -> Any:
    z = x + y
    w = note("first", 3.0) * z
    u = [w, z, note("second", 4.0)]
    return u, z - w, u


def callee(x: Any, scale: float = 2.0) -> Any:
    y = x * scale
    note("callee", y.shape)
    return y + 1


def break_in_callee(x: Any, y: Any) -> Any:
    z = x - y
    w = callee(z)
    v = callee(w, 3.0)
    return z, w, v, [callee(x), callee(y, scale=0.5)]


def branches(x: Any, y: Any) -> Any:
    z = x * 2
    if z.sum() > 0:
        if y.min() > 5:
            return z - y
        z = z + 1
    else:
        y = y / 2
    return z if y.max() > 3 else -z


def and_or(x: Any, y: Any) -> Any:
    z = x + 1
    return (z.sum() > 100 and z.max() > 2) or (y.min() and z)


def loop_over_unknown(x: Any, y: Any) -> Any:
    total = x * 0
    for k in map(float, (1, 2, 3)):
        total = total + y * k
        note("turn", k)
    return total


def loop_with_break(x: Any, y: Any) -> Any:
    for i in range(5):
        x = x + y * i
        if x.sum() > 100:
            break
    else:
        return "never", x
    return i, x


def stack_at_break(x: Any, y: Any) -> Any:
    return (x + 1, [y * 2, note("inner", 1.0)], x - note("second", 2.0) * y)


def in_try(x: Any, y: Any) -> Any:
    z = x + 1
    try:
        w = z * 2
        note("before", 1)
        raise_if(y, w)
        w = w + z
    except ValueError as error:
        return "caught", str(error), z, w
    finally:
        note("finally", 1)
    return w


def raise_if(y: Any, w: Any) -> None:
    note("asked", w.shape)
    if y.sum() < 0:
        raise ValueError("negative")


def in_with(x: Any, y: Any) -> Any:
    z = x + 1
    with Manager() as m:
        w = z * 2
        note("inside", m is not None)
        if y.sum() < 0:
            raise KeyError("swallowed")
        w = w + 1
    return z + 1


def raises_in_graph(x: Any, y: Any) -> Any:
    z = x * 2
    try:
        w = z + 1
        u = w * 2
        u += np.ones(9)
    except ValueError as error:
        return "handled", str(error), w, z
    return u


def raises_out(x: Any, y: Any) -> Any:
    z = x * 2
    note("before", 1)
    return callee(z) @ np.ones(7)


def raises_behind(x: Any, y: Any) -> Any:
    z = x * 2
    note("here", z.shape)
    z = z + 1
    raise RuntimeError(f"shape {z.shape}")


def closure(x: Any, y: Any) -> Any:
    scale = 2.0

    def inner(v: Any) -> Any:
        return v * scale

    z = inner(x) + 1
    scale = 3.0
    note("scale", scale)
    return inner(z), inner(y)


def make_free() -> Callable[..., Any]:
    factor = 3.0

    def free(x: Any, y: Any) -> Any:
        z = x * factor
        note("free", factor)
        return z + y * factor

    return free


free = make_free()


def containers(x: Any, y: Any) -> Any:
    parts = [x, y]
    parts.append(x + y)
    pair = (parts[2], parts)
    note("made", len(parts))
    parts.append(pair[0] * 2)
    return parts, pair, pair[1] is parts


def unbound(x: Any, y: Any) -> Any:
    z = x + y
    if z.sum() > 1e9:
        late = 1
    note("unbound", 1)
    del y
    try:
        return z, late
    except UnboundLocalError as error:
        return z, str(error)


def swaps(x: Any, y: Any) -> Any:
    x, y = y, x + y
    z = x
    note("swapped", 1)
    x, y, z = z, x, y
    return x, y, z, x is y


def lifetimes(x: Any, y: Any) -> Any:
    d = Dropped("first")
    z = x + y
    note("one", 1)
    d = Dropped("second")
    note("two", 2)
    del d
    note("three", 3)
    return z


def keywords(x: Any, *rest: Any, scale: float = 2.0, **more: Any) -> Any:
    z = x * scale
    note("rest", len(rest), sorted(more))
    return z + rest[0]


def comprehension(x: Any, y: Any) -> Any:
    z = x + y
    rows = [note("row", k) * z for k in (1.0, 2.0)]
    return rows, [k for k in map(int, (1, 2))]


def stack_at_followed_call_in_try(x: Any, y: Any) -> Any:
    z = 1.0
    try:
        z = (x, callee(x) * y)
    except ValueError as error:
        z = str(error)
    return z


def nested_handlers(x: Any, y: Any) -> Any:
    z = x + 1
    try:
        try:
            raise_if(-z - 100, z)
        except ValueError:
            note("inner", sys.exc_info()[0])
            z = z * 2
            raise KeyError("again") from None
    except KeyError:
        note("outer", sys.exc_info()[0])
        z = z + 1
    note("after", sys.exc_info()[0])
    return z


def returned_functions(x: Any, y: Any) -> Any:
    scale = x * 2

    def inner(v: Any, shift: float = 1.0) -> Any:
        return v * scale + shift

    return [function(y) for function in (inner, make_adder(x))], inner(x), inner.__name__, inner.__defaults__


def make_adder(start: Any) -> Callable[[Any], Any]:
    total = start

    def add(v: Any) -> Any:
        nonlocal total
        total = total + v
        return total

    return add


def shared_cells(x: Any, y: Any) -> Any:
    count = x * 0

    def add(v: Any) -> None:
        nonlocal count
        count = count + v

    def read() -> Any:
        return count

    add(x)
    note("added", read().shape)
    add(y)
    count = count * 2
    note("doubled", 2)
    both = (add, read, [add, read])
    note("kept", len(both))
    both[0](x)
    return read(), both[2][0] is add, both[2][1]()


class Field:
    def __init__(self, value: Any) -> None:
        self.value = value

    def scope(self) -> Any:
        return Narrow(self.value)

    def moved(self, other: Any) -> Any:
        return self.value + other.value

    @property
    def scaled(self) -> Any:
        z = self.value * 2
        note("scaled", z.shape)
        return z + self.shift

    @scaled.setter
    def scaled(self, value: Any) -> None:
        self.shift = value + 1
        note("set", value.shape)
        self.value = value * self.value


NOTED: list[Any] = []


def attributes(x: Any, y: Any) -> Any:
    NOTED.clear()
    field, other = Field(x), Field(y)
    field.shift = other.shift = x + y
    note("shifted", 1)
    field.value = [field.shift, y]
    NOTED.append(field.shift * 2)
    field.value[0], other.value = other.value, field.value[0] * 2
    other.scaled = y
    return other.scaled, field.value, field.shift, list(vars(other).items()), NOTED[:]


class Narrow(Field):
    shift: Any = 0

    def __init__(self, value: Any) -> None:
        super().__init__(value * 2)
        note("made", value.shape)
        self.width = self.value + 1

    def __enter__(self) -> Any:
        self.value = self.value + 1
        return self

    def __exit__(self, *error: Any) -> None:
        note("left", error[0])
        self.value = self.value * 2


def classes(x: Any, y: Any) -> Any:
    field = Field(x)
    note("field", field.value.shape)
    narrow = Narrow(y)
    with narrow as entered, Field(x + 1).scope() as other:
        z = entered.value + other.value
        note("inside", z.shape)
        z = z * narrow.width
    method = narrow.moved
    return z, method(field), list(vars(narrow).items()), [Narrow(z).width, entered is narrow, method.__self__ is narrow]


def recursive(x: Any, y: Any) -> Any:
    def down(v: Any, n: int) -> Any:
        w = v + y
        note("depth", n)
        return down(w, n - 1) if n else w * x

    return down(x, 2)


def break_in_closure(x: Any, y: Any) -> Any:
    factor = 2.0

    def scaled(v: Any) -> Any:
        part = v * factor
        note("inside", part.shape)
        kept = [lambda: part + factor][0]
        note("kept", 1)
        return kept()

    z = scaled(x) + y
    factor = 3.0
    return scaled(z), z


def argument_cells(x: Any, y: Any) -> Any:
    def read() -> Any:
        return x + y

    z = read()
    note("read", z.shape)
    x = x * 2
    note("changed", 1)
    return read(), z, x


def argument_cells_in_callee(x: Any, y: Any) -> Any:
    x += 1.5
    w = callee(y) + callee(x)
    z = (lambda v: v + y)(x)
    note("made", 1)
    return z, w, (lambda: x - y)()


def iterators(x: Any, y: Any) -> Any:
    pairs = zip([x, y], (1.0, 2.0))
    counted = enumerate([x * 2, y * 2], 5)
    note("made", 1)
    first = next(pairs)
    return [a * b for a, b in pairs], [i + v for i, v in counted], first


FUNCTIONS: list[Callable[..., Any]] = [
    classes,
    attributes,
    returned_functions,
    shared_cells,
    recursive,
    break_in_closure,
    argument_cells,
    argument_cells_in_callee,
    iterators,
    toy_function,
    break_in_call,
    several_breaks,
    break_in_callee,
    branches,
    and_or,
    loop_over_unknown,
    loop_with_break,
    stack_at_break,
    in_try,
    in_with,
    raises_in_graph,
    raises_out,
    raises_behind,
    closure,
    free,
    containers,
    unbound,
    swaps,
    keywords,
    comprehension,
    nested_handlers,
    stack_at_followed_call_in_try,
]
ARGUMENTS = [(A, B), (A, -B), (-A - 1, B), (A[0:1], -B[0:1])]


def same(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right) or repr(left) == repr(right)


def identities(value: Any, known: list[Any]) -> list[Any]:
    """Which parts of the value are one object, by order of their first place."""
    for index, other in enumerate(known):
        if other is value:
            return [index]
    known.append(value)
    parts = [identities(part, known) for part in value] if isinstance(value, (list, tuple)) else []
    return [len(known) - 1, parts]


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    LOG.clear()
    copies = tuple(np.array(each) for each in arguments)
    try:
        result = function(*copies)
    except Exception as error:
        last = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == __file__][-1]
        return "raised", type(error), str(error), last, list(LOG), copies
    return "returned", result, identities(result, list(copies)), list(LOG), copies


def captured(function: Callable[..., Any], backend: str = "reference") -> Any:
    jit = evalframe.jit(function, backend=backend)
    for arguments in ARGUMENTS:
        outcome(jit, arguments)
    return jit


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_transformed_code_behaves_as_the_original(function: Callable[..., Any]) -> None:
    jit = captured(function)
    ran = []

    def spy(frame: evalframe.FrameInfo) -> types.CodeType | None:
        code = callback(frame)
        ran.append(code is not None)
        return code

    callback = run_transformed(jit)
    for arguments in ARGUMENTS * 2:
        expected = outcome(function, arguments)
        with evalframe.hook(spy):
            found = outcome(function, arguments)
        assert same(found, expected)
    # 3.13 sets the defaults of a function by an instruction of its own, between two of which there is no code.
    assert any(ran) or (function is returned_functions and sys.version_info >= (3, 13))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_a_graph_can_be_left_anywhere_in_transformed_code(function: Callable[..., Any]) -> None:
    jit = captured(function)
    entries = entries_of(jit)
    callback = run_transformed(jit)
    for node in range(max(entry["nodes"] for entry in entries)):
        for arguments in ARGUMENTS:
            expected = outcome(function, arguments)
            with evalframe.hook(callback), leaving_before(node):
                found = outcome(function, arguments)
            assert same(found, expected)


def test_variables_are_dropped_when_the_original_drops_them() -> None:
    """Without a hook, for CPython then passes arguments on and keeps none; and so for plain resume functions only."""
    jit = captured(lifetimes)
    entry = entries_of(jit, capture_resumed=False)[0]
    expected = outcome(lifetimes, (A, B))
    assert entry.code is not None and entry.accepts(A, B)
    transformed = types.FunctionType(entry.code, globals())
    assert same(outcome(transformed, (A, B)), expected)


def test_generated_code_is_given_back() -> None:
    jit = captured(several_breaks)

    def count() -> int:
        gc.collect()
        return sum(isinstance(each, (types.FunctionType, types.BuiltinFunctionType)) for each in gc.get_objects())

    entries_of(jit)
    before = count()
    for _ in range(20):
        entries_of(jit)
    assert count() <= before + 2


def test_why_there_is_no_code_is_told() -> None:
    jit = captured(break_in_callee)
    reasons = {entry.no_code for entry in entries_of(jit)}
    assert reasons >= {""}
    assert all(isinstance(entry, Entry) for entry in entries_of(jit))
    assert any("inside a call that was followed" in reason for reason in reasons)


def test_the_toy_function_has_one_graph_a_break_and_two_resume_functions() -> None:
    entries = entries_of(captured(toy_function))
    assert len(entries) == 3
    start, *sides = entries
    names = [resume.__name__ for resume in start.resume_functions if isinstance(resume, types.FunctionType)]
    assert len(names) == 2
    assert all(name.startswith("__resume_at_") for name in names)
    for resume in start.resume_functions:
        code = evalframe.bytecode.code_of(resume)
        assert code.co_varnames[: code.co_argcount] == ("b", "x")
        assert set(code.co_varnames) == {"a", "b", "x"}
    assert start.code is not None
    evalframe.bytecode.verify(toy_function, start.code)
    assert start.code.co_varnames[:3] == ("a", "b", "x")
    assert {side.code.co_name for side in sides if side.code} == set(names)
    assert all(side.resume_functions == [] for side in sides)


def test_inputs_that_a_graph_is_not_for_are_refused() -> None:
    entry = entries_of(captured(toy_function))[0]
    assert entry.code is not None
    assert not entry.accepts(1, 2)
    assert not entry.accepts(A)
    assert not entry.accepts(A, B, A, B, A, B)
    with pytest.raises(ValueError, match="made for other inputs"):
        types.FunctionType(entry.code, globals())(1, 2)
    called = {getattr(constant, "__name__", ""): constant for constant in entry.code.co_consts}
    graph, leave = called["__compiled_fn_0"], called["__leave"]
    with pytest.raises(TypeError, match="takes the 2 inputs"):
        graph(A)
    with pytest.raises(TypeError, match="by transformed code only"):
        leave(1)


def test_an_explanation_has_the_code() -> None:
    explained = evalframe.explain(toy_function, backend="reference")(A, B)
    assert explained.entries[0].code is not None
    assert len(explained.entries[0].resume_functions) == 2
    shown = str(explained)
    assert "transformed code object:\n    code toy_function, " in shown
    assert "__compiled_fn_0" in shown
    assert shown.count("goes on in __resume_at_") == 2
    assert shown.count("(b, x)") == 2


TOY_CODE = """\
code toy_function
  RESUME 0
L1:
  LOAD_CONST __compiled_fn_0
  LOAD_FAST a
  LOAD_FAST b
  CALL 2
L2:
  UNPACK_SEQUENCE 2
  STORE_FAST x
  POP_JUMP_IF_FALSE -> L3
  LOAD_CONST __resume_at_N_0
  LOAD_FAST b
  LOAD_FAST x
  DELETE_FAST b
  DELETE_FAST x
  CALL 2
  RETURN_VALUE
L3:
  LOAD_CONST __resume_at_N_1
  LOAD_FAST b
  LOAD_FAST x
  DELETE_FAST b
  DELETE_FAST x
  CALL 2
  RETURN_VALUE
L4:
  STORE_FAST __left
  LOAD_CONST __leave
  LOAD_FAST __left
  DELETE_FAST __left
  LOAD_FAST a
  LOAD_FAST b
  CALL 3
  RETURN_VALUE
exceptions:
  L1 up to L2 -> L4, depth 0
code __resume_at_N_0
  RESUME 0
  LOAD_FAST b
  LOAD_CONST -1
  BINARY_OP *
  STORE_FAST b
  LOAD_FAST x
  LOAD_FAST b
  BINARY_OP *
  RETURN_VALUE
code __resume_at_N_1
  RESUME 0
  LOAD_FAST x
  LOAD_FAST b
  BINARY_OP *
  RETURN_VALUE
"""


def normalized(shown: str) -> str:
    """A listing without what differs between versions: offsets, PUSH_NULL, and TO_BOOL (3.13)."""
    lines: list[str] = []
    for line in re.sub(r"__resume_at_\d+_", "__resume_at_N_", shown).splitlines():
        match = re.match(r"[ \d]*\d+ +(?:(L\d+):)? *([A-Z_]+) *(\d+)? *(.*?)(?: +\[[A-Z_]+\])?$", line)
        if match is None:
            lines += [line.split(",")[0]] if line.startswith("code") else [line] if line else []
            continue
        label, name, number, value = match.groups()
        lines += [f"{label}:"] if label else []
        lines.append(" ".join(filter(None, ["  " + name, value or number])))
    differing = ("  PUSH_NULL", "  TO_BOOL")
    return "".join(line + "\n" for line in lines if line not in differing)


def test_all_code_of_the_toy_function_is_shown() -> None:
    assert normalized(entries_of(captured(toy_function))[0].listing()) == TOY_CODE


def wrong_objects() -> list[Any]:
    return [5, None, "text", object(), [1], {"a": 1}, {1}, (1, 2), iter([1.0]), ValueError("wrong"), ValueError, len]


def call_by_hand(seed: int) -> None:
    """Calls every piece of code made for FUNCTIONS with objects that were not there."""
    generator = np.random.default_rng(seed)
    refused = 0
    for function in [*FUNCTIONS, lifetimes, builds_while_it_breaks]:
        entries = entries_of(captured(function), capture_resumed=bool(seed % 2))
        pieces = [piece for entry in entries for piece in (entry.code, *entry.resume_functions) if piece is not None]
        for piece in pieces:
            code = evalframe.bytecode.code_of(piece)
            closure = tuple(types.CellType(1.0) for _ in code.co_freevars)
            by_hand = types.FunctionType(code, globals(), closure=closure)
            names = code.co_varnames[: code.co_argcount]
            for turn in range(24):
                wrong = wrong_objects()
                keeps = [turn % 2 == 0 and not name.startswith("__stack") for name in names]
                arguments = [A if keep else wrong[generator.integers(len(wrong))] for keep in keeps]
                try:
                    by_hand(*arguments)
                except Exception as error:
                    refused += "__stack_" in str(error) and isinstance(error, TypeError)
    assert refused > 100, refused


def builds_while_it_breaks(x: Any, y: Any) -> Any:
    rows = [x * 2 for k in map(float, (1, 2)) if note("row", k)]
    pairs = {k: x * k for k in map(float, (1, 2)) if note("pair", k)}
    kinds = {float(k) for k in map(float, (1, 2)) if note("kind", k)}
    made = dict(first=x + 1, **{"second": note("made", 2.0)})
    def inner(v: Any = x + 2, *, w: Any = note("default", 3.0)) -> Any:
        return v * w
    parts = [x, *[y, note("part", 1.0)], *map(float, (note("last", 2.0), 1))]
    return rows, pairs, sorted(kinds), made, inner(), note(*(x, y), **{}), parts


@pytest.mark.parametrize("seed", range(4))
def test_code_that_is_called_by_hand_with_wrong_objects_raises(seed: int) -> None:
    command = f"import test_codegen; test_codegen.call_by_hand({seed})"
    done = subprocess.run([sys.executable, "-c", command], cwd=Path(__file__).parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
