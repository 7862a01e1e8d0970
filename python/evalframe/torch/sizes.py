"""Graphs for tensors of several sizes: torch's symbols, and the relations between them that a function was made for."""

from __future__ import annotations

import contextlib
import logging
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import LocalSource
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import (
    SYMPY_INTERP,
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
)

_INPUTS = ("placeholder", "get_attr")
_MOST_FUNCTIONS = 8
"""Of one graph. Behind them, other sizes are served by the recorded calls."""


_FAKE_LOG = logging.getLogger("torch._subclasses.fake_tensor")


@contextlib.contextmanager
def unlogged() -> Iterator[None]:
    """What doesn't go with symbols is tried without, and is no error that a user is to read of."""

    def nothing(_: logging.LogRecord) -> bool:
        return False

    _FAKE_LOG.addFilter(nothing)
    try:
        yield
    finally:
        _FAKE_LOG.removeFilter(nothing)


@contextlib.contextmanager
def unwarned() -> Iterator[None]:
    """The program's own call warns, and is the first where torch warns once. Filters that change as others do
    would have warnings told again that were told once for their lines."""
    ignored: Any = "ignore", None, Warning, None, 0
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    warnings.filters.insert(0, ignored)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        warnings.filters.remove(ignored)  # type: ignore[attr-defined]
        torch.set_warn_always(always)


class OtherSizesError(Exception):
    """A branch that the program took for its sizes isn't taken for these, or it raises."""


@contextlib.contextmanager
def told_if_made() -> Iterator[None]:
    """What this thread is warned of is told at the end, and not at all where no graph comes of it."""
    told: list[tuple[Any, ...]] = []
    show, thread = warnings.showwarning, threading.get_ident()

    def keep(*warning: Any) -> None:
        told.append(warning) if threading.get_ident() == thread else show(*warning)

    warnings.showwarning = keep  # type: ignore[assignment]
    try:
        yield
    except OtherSizesError:
        told.clear()
        raise
    finally:
        warnings.showwarning = show
        for warning in told:
            show(*warning)


class Symbolic:
    """What torch knows of a graph's sizes.

    ``examples`` have symbols in the place of those that vary; so have the numbers of ``inputs``, whose tensors have
    elements. ``sizes`` says where each of the ``symbols`` is found: the number of an input, and a dimension of it.

    ``varies`` has a bit for each dimension of an input whose size varies; without it all are as they are.
    """

    def __init__(self, inputs: Sequence[Any], varies: Sequence[int] | None) -> None:
        self._shapes = ShapeEnv()
        self._mode = FakeTensorMode(shape_env=self._shapes, static_shapes=False)
        plain = [_without_base(value) for value in inputs]
        self.examples = [
            self._example(value, None if varies is None else varies[index], LocalSource(f"t{index}"))
            for index, value in enumerate(plain)
        ]
        self.sizes, self.symbols = self._found_sizes()
        self._names = [str(symbol.node.expr) for symbol in self.symbols]  # they may turn out to be one number
        self.inputs = [
            example if isinstance(example, torch.SymInt) else value
            for example, value in zip(self.examples, plain, strict=True)
        ]
        self._fixed = varies is None

    def _example(self, value: Any, dimensions: int | None, source: LocalSource) -> Any:
        if isinstance(value, torch.Tensor):
            varies = [dimensions is not None and dimensions >> at & 1 for at in range(value.ndim)]
            sizes: list[Any] = [DimDynamic.DUCK if one else DimDynamic.STATIC for one in varies]
            context: Any = StatelessSymbolicContext(dynamic_sizes=sizes)
            return self._mode.from_tensor(value, source=source, symbolic_context=context)
        if type(value) is int and dimensions is not None:
            symbol = self._shapes.create_unspecified_symbol(value, source, DimDynamic.DYNAMIC)
            return self._shapes.create_symintnode(symbol, hint=value, source=source)
        return value

    def _found_sizes(self) -> tuple[list[tuple[int, int]], list[torch.SymInt]]:
        known = {example.node.expr for example in self.examples if isinstance(example, torch.SymInt)}
        found, symbols = [], []
        for index, example in enumerate(self.examples):
            for dimension, size in enumerate(example.shape if isinstance(example, torch.Tensor) else ()):
                if isinstance(size, torch.SymInt) and size.node.expr.is_symbol and size.node.expr not in known:
                    known.add(size.node.expr)
                    found.append((index, dimension))
                    symbols.append(size)
        return found, symbols

    @contextlib.contextmanager
    def tracing(self) -> Iterator[None]:
        """Where a backend asks for the mode that the examples belong to."""
        with tracing(TracingContext(self._mode)):
            yield

    def propagate(self, graph: fx.Graph, checks: Sequence[tuple[Any, Any]]) -> None:
        """Gives each node an ``example_value``, and the graph its symbols as inputs, before the others.

        Numbers that are the same for all sizes become constants. ``checks`` are nodes, or numbers, that have to equal a
        constant.
        """
        examples = iter(self.examples)
        values: dict[fx.Node, Any] = {}
        wanted = {id(asked): constant for asked, constant in checks}
        with self._mode, enable_python_dispatcher():  # operations that are made of others take symbols, too
            for node in graph.nodes:
                if node.op == "get_attr" and "module" in node.meta:
                    values[node] = node.meta["module"]
                elif node.op in _INPUTS:
                    values[node] = next(examples)
                elif node.op != "output":
                    values[node] = _called(node, *fx.map_arg((node.args, node.kwargs), values.__getitem__))
                    node.meta["example_value"] = values[node]
                # Before anything is computed that relies on it.
                if id(node) in wanted and not _is_equal(values[node], wanted[id(node)]):
                    raise OtherSizesError
        named = reversed(list(zip(self._names, self.symbols, strict=True)))
        symbols = {symbol.node.expr: self._added(graph, name, symbol) for name, symbol in named}
        for node, value in values.items():
            if node.op not in _INPUTS and (number := _number(value)) is not None:
                node.replace_all_uses_with(number)
            elif isinstance(value, torch.SymInt) and value.node.expr in symbols:
                node.replace_all_uses_with(symbols[value.node.expr])

    @staticmethod
    def _added(graph: fx.Graph, name: str, symbol: torch.SymInt) -> fx.Node:
        with graph.inserting_before(next(iter(graph.nodes))):
            node = graph.placeholder(name)
        node.meta["example_value"] = symbol
        return node

    def guard(self) -> Callable[..., bool]:
        """Whether inputs have sizes for which all that was found holds."""
        relations = self._shapes.produce_guards_expression(self.examples, ignore_static=not self._fixed)
        # What was found to be one number for all calls.
        numbers = [
            f"L['t{index}'].size()[{dimension}] == {number}"
            for (index, dimension), symbol in zip(self.sizes, self.symbols, strict=True)
            if (number := _number(symbol)) is not None
        ]
        text = " and ".join([relations or "True", *numbers])
        names = ", ".join(f"'t{index}': t{index}" for index in range(len(self.examples)))
        parameters = ", ".join(f"t{index}" for index in range(len(self.examples)))
        made: Callable[..., bool] = eval(f"lambda {parameters}: (lambda L: {text})({{{names}}})", dict(SYMPY_INTERP))
        return made


def _without_base(value: Any) -> Any:
    """For a view, torch would have symbols of the tensor that it is a view of, which the graph doesn't know."""
    if isinstance(value, torch.Tensor) and value._is_view():
        return value.detach().requires_grad_(value.requires_grad)
    return value


def _called(node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if node.op == "call_method":
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    target: Any = node.meta["module"] if node.op == "call_module" else node.target
    return target(*args, **kwargs)


def _is_equal(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, bool):
        return bool(found) is wanted
    return bool(found == wanted)


def _number(value: Any) -> Any:
    """The number, where it is one for all sizes."""
    if isinstance(value, (bool, int, float)):
        return value
    return value.node.maybe_as_int() if isinstance(value, torch.SymInt) else None


def with_sizes(function: Callable[..., Any], sizes: Sequence[tuple[int, int]]) -> Callable[..., Any]:
    """Of a graph's inputs; the function takes symbols before them."""
    return lambda *inputs: function(*[inputs[index].size(dimension) for index, dimension in sizes], *inputs)


class Served:
    """Functions for one graph, each for the sizes that its guard lets through."""

    def __init__(self, make: Callable[[Sequence[Any]], tuple[Callable[..., bool], Callable[..., Any]]]) -> None:
        self._make = make
        self._functions: list[tuple[Callable[..., bool], Callable[..., Any]]] = []

    def add(self, inputs: Sequence[Any]) -> bool:
        """Makes one for these inputs, if the graph holds for them."""
        try:
            self._functions.append(self._make(inputs))
        except OtherSizesError:
            return False
        return True

    def __call__(self, *inputs: Any) -> Any:
        for guard, function in self._functions:
            if guard(*inputs):
                return function(*inputs)
        if len(self._functions) < _MOST_FUNCTIONS and self.add(inputs):
            return self._functions[-1][1](*inputs)
        return NotImplemented
