"""The graph that a user's backend gets: inputs, nodes in program order, outputs. Each node is a call of a callable.

A graph has no effects: nothing in it writes into an array that was there before. It can be printed, iterated over, and
called, which runs it as the program would have run.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from evalframe._core.bytecode import OPERATORS

if TYPE_CHECKING:
    import numpy.typing as npt


def make_tuple(*items: Any) -> tuple[Any, ...]:
    """What a node for `(a, b)` calls."""
    return items


def make_list(*items: Any) -> list[Any]:
    """What a node for `[a, b]` calls."""
    return list(items)


def iterator_at(iterable: Any, position: int) -> Iterator[Any]:
    """What a node for an iterator calls that has given `position` items."""
    made: Any = iter(iterable)
    if position:
        made.__setstate__(position)
    return cast("Iterator[Any]", made)


# By the number in the instruction; graphs have the in-place ones for numbers only.
_OPERATORS: dict[str, list[tuple[str, Callable[..., Any]]]] = {
    form: [(name, getattr(operator, name)) for _, name in rows] for form, rows in OPERATORS.items()
}
_SYMBOLS = {name: symbol for symbol, name in OPERATORS["binary"] if not symbol.endswith("=")} | {
    name: symbol for symbol, name in OPERATORS["compare"]
}
_PLAIN: dict[str, Callable[..., Any]] = {
    "getitem": operator.getitem,
    "getattr": getattr,
    "truth": bool,
    "tuple": make_tuple,
    "list": make_list,
    "slice": slice,
    "iterator": iterator_at,
}


@dataclass(frozen=True, eq=False)
class Value:
    """An input, or what a node makes."""

    name: str
    kind: str
    """"array", "scalar" (of NumPy's), "int", "float", "bool", "complex", "none" or "object"."""
    dtype: np.dtype[Any] | None
    shape: tuple[str, ...]
    """A name for each size; the same name is the same size."""
    recorded_shape: tuple[int, ...]
    """The sizes of the recorded run: an example, not a fact."""

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def type_text(self) -> str:
        """Such as ``float64[s0, s1]``, ``float64`` for a NumPy scalar, ``int``."""
        if self.kind == "array":
            return f"{self.dtype or 'object'}[{', '.join(self.shape)}]"
        return str(self.dtype) if self.kind == "scalar" else self.kind

    def __str__(self) -> str:
        return f"{self.name}: {self.type_text}"


@dataclass(frozen=True, eq=False)
class Node(Value):
    """One call: ``target(*args, **kwargs)``, where a Value among the arguments stands for what it holds."""

    op: str
    """Such as "add", "exp", "sum", "getitem", "tuple"."""
    target: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: MappingProxyType[str, Any]
    file: str
    line: int
    function: str

    @property
    def operands(self) -> tuple[Value, ...]:
        """The values among the arguments."""
        return tuple(arg for arg in (*self.args, *self.kwargs.values()) if isinstance(arg, Value))

    @property
    def expression(self) -> str:
        """The call as Python would write it."""
        shown = [_text(arg) for arg in self.args]
        if self.op in _SYMBOLS:
            return f"{shown[0]} {_SYMBOLS[self.op]} {shown[1]}"
        if self.op == "getitem":
            return f"{shown[0]}[{shown[1]}]"
        if self.op == "getattr":
            return f"{shown[0]}.{self.args[1]}"
        shown += [f"{name}={_text(arg)}" for name, arg in self.kwargs.items()]
        return f"{self.op}({', '.join(shown)})"

    def run(self, values: dict[Value, Any]) -> Any:
        """Makes the call, with the values that are known."""

        def known(arg: Any) -> Any:
            return values[arg] if isinstance(arg, Value) else arg

        return self.target(*map(known, self.args), **{name: known(arg) for name, arg in self.kwargs.items()})


@dataclass(frozen=True, eq=False)
class Graph:
    """What a backend compiles. The callable it returns takes ``inputs`` and returns a tuple of ``outputs``."""

    inputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Node, ...]
    file: str
    line: int
    function: str
    example_inputs: list[Any] = field(repr=False)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """Runs the graph by the calls that were recorded."""
        if len(inputs) != len(self.inputs):
            raise TypeError(f"the graph of {self.function} takes {len(self.inputs)} inputs, not {len(inputs)}")
        values: dict[Value, Any] = dict(zip(self.inputs, inputs, strict=True))
        for node in self.nodes:
            values[node] = node.run(values)
        return tuple(values[output] for output in self.outputs)

    def __str__(self) -> str:
        head = f"graph of {self.function} ({self.file}:{self.line})"
        rows = [(f"{node.name} = {node.expression}", node.type_text, node.line) for node in self.nodes]
        width = max((len(row[0]) + len(row[1]) + 2 for row in rows), default=0)
        lines = [f"  input {value}" for value in self.inputs]
        lines += [f"  {f'{text}: {kind}':<{width}}  # line {line}" for text, kind, line in rows]
        return "\n".join([head, *lines, f"  return {', '.join(output.name for output in self.outputs)}"])


def _text(arg: Any) -> str:
    if isinstance(arg, Value):
        return arg.name
    plain = isinstance(arg, (int, float, complex, str, tuple, slice, type(None), type(...)))
    return repr(arg) if plain else str(getattr(arg, "__name__", f"<{type(arg).__name__}>"))


class _Sizes:
    """Gives names to sizes: new ones, but where an element-wise node's array operands all have the same."""

    def __init__(self) -> None:
        self._count = 0

    def new(self, rank: int) -> tuple[str, ...]:
        self._count += rank
        return tuple(f"s{number}" for number in range(self._count - rank, self._count))

    def of_node(self, elementwise: bool, operands: list[Any], rank: int) -> tuple[str, ...]:
        shapes = {operand.shape for operand in operands if isinstance(operand, Value) and operand.kind == "array"}
        if elementwise and len(shapes) == 1 and len(next(iter(shapes))) == rank:
            return shapes.pop()
        return self.new(rank)


_Meta = tuple[str, str | None, tuple[int, ...] | None]
_Origin = tuple[str, int, str]
_Row = tuple[str, int, Any, tuple[str, ...] | None, list[tuple[str, Any]], _Meta, _Origin]


def from_core(
    told: tuple[_Origin, list[tuple[str, _Meta, int]], list[_Row], list[int]], example_inputs: list[Any]
) -> Graph:
    """The graph of what the core tells of it."""
    (file, line, function), input_rows, rows, output_rows = told
    sizes = _Sizes()
    names: set[str] = set()
    inputs = []
    for name, (kind, dtype, shape), _ in input_rows:
        unique = name if name not in names else f"{name}_{len(names)}"
        names.add(unique)
        recorded = shape or ()
        inputs.append(Value(unique, kind, _dtype(dtype), sizes.new(len(recorded)), recorded))
    nodes: list[Node] = []
    for row in rows:
        nodes.append(_node(row, f"v{len(nodes)}", inputs, nodes, sizes))
    examples = [_example(value, given) for value, given in zip(inputs, example_inputs, strict=True)]
    outputs = tuple(nodes[index] for index in output_rows)
    return Graph(tuple(inputs), tuple(nodes), outputs, file, line, function, examples)


def _node(row: _Row, name: str, inputs: list[Value], nodes: list[Node], sizes: _Sizes) -> Node:
    form, code, callable_, keywords, operand_rows, (kind, dtype, shape), (file, line, function) = row
    spaces: dict[str, list[Any]] = {"i": list(inputs), "n": list(nodes)}
    operands = [spaces[space][at] if space in spaces else at for space, at in operand_rows]
    op, target = _op(form, code, callable_)
    if op == "getattr":
        operands.append(callable_)
    if op == "iterator":
        operands.append(code)
    positional = len(operands) - len(keywords or ())
    kwargs = MappingProxyType(dict(zip(keywords or (), operands[positional:], strict=True)))
    recorded = shape or ()
    symbolic = sizes.of_node(_is_elementwise(op, target, kwargs), operands, len(recorded))
    args = tuple(operands[:positional])
    return Node(name, kind, _dtype(dtype), symbolic, recorded, op, target, args, kwargs, file, line, function)


def _is_elementwise(op: str, target: object, kwargs: Mapping[str, Any]) -> bool:
    if isinstance(target, np.ufunc):
        return target.signature is None and not kwargs
    return (op in _SYMBOLS and op != "matmul") or op in ("neg", "pos", "invert")


def _op(form: str, code: int, callable_: Any) -> tuple[str, Callable[..., Any]]:
    if form == "call":
        return str(getattr(callable_, "__name__", type(callable_).__name__)), callable_
    if form in _OPERATORS:
        return _OPERATORS[form][code]
    return form, _PLAIN[form]


def _dtype(name: str | None) -> np.dtype[Any] | None:
    return None if name is None else np.dtype(name.rstrip("_"))


def _example(value: Value, given: Any) -> Any:
    """The object of the recorded run, or zeros of its shape."""
    if given is not None or value.kind == "none":
        return given
    zeros: npt.NDArray[Any] = np.zeros(value.recorded_shape, value.dtype or object)
    if value.kind == "array":
        return zeros
    numbers = {"int": 0, "float": 0.0, "bool": False, "complex": 0j}
    return zeros[()] if value.kind == "scalar" else numbers.get(value.kind)
