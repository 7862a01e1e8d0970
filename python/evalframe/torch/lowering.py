"""Recorded graphs as ``torch.fx.GraphModule``, and what backends of ``torch.compile`` make of them."""

from __future__ import annotations

import functools
import linecache
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from evalframe._core.bytecode import OPERATORS
from evalframe.user_backends import BackendError

Backend = Callable[[fx.GraphModule, list[Any]], Callable[..., Sequence[Any]]]

_OPERATORS: dict[str, list[Callable[..., Any]]] = {
    form: [getattr(operator, name) for _, name in rows] for form, rows in OPERATORS.items()
}
_PLAIN: dict[Callable[..., Any], Callable[..., Any]] = {
    function: _OPERATORS["binary"][row]
    for row, function in enumerate(_OPERATORS["binary"][len(_OPERATORS["binary"]) // 2 :])
}
"""What ``+=`` and the like do to a number, which FX would write as ``0 += x``."""
_CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {
    "tuple": tuple,
    "list": list,
    "slice": lambda parts: slice(*parts),
}
_REPLAYED = "eager"
"""The backend that runs graphs as they are: the recorded calls do so without Python in between."""


class Lowering:
    """Makes GraphModules of what the core records, and asks a backend for functions that run them."""

    def __init__(self, backend: str | Backend, options: dict[str, Any] | None) -> None:
        self.name = (
            backend if isinstance(backend, str) else str(getattr(backend, "__qualname__", type(backend).__name__))
        )
        self.graph_modules: list[fx.GraphModule] = []
        self._backend = None if backend == _REPLAYED else _found(backend)
        self._options = options

    def __call__(self, told: Any, examples: list[Any], acts: int, handled: int, gradients: int) -> Any:
        """Called by the core for a stretch of a graph; None: it is to be run by the recorded calls.

        ``acts``: the stretch writes into tensors or draws random numbers; ``handled``: and what it raises is handled in
        the frames that it was recorded in.
        """
        module, inputs = graph_module(told, examples)
        self.graph_modules.append(module)
        if self._backend is None or handled:
            return None
        function = self._compiled(self._backend, module, inputs, told[0], bool(gradients))
        return _apart(function, module) if acts else function

    def _compiled(
        self, backend: Backend, module: fx.GraphModule, inputs: list[Any], origin: tuple[str, int, str], gradients: bool
    ) -> Callable[..., Sequence[Any]]:
        options = {} if self._options is None else {"options": self._options}
        if self.name == "inductor" and options:
            options = {"config_patches": self._options or {}}
        random = torch.random.get_rng_state()
        try:
            with torch.set_grad_enabled(gradients):
                function = backend(module, inputs, **options)
        except Exception as error:
            raise _error(self.name, origin, f"raised {type(error).__name__}: {error}") from error
        finally:
            torch.random.set_rng_state(random)
        if not callable(function):
            raise _error(self.name, origin, f"returned {type(function).__name__}, which can't be called")
        return function


def _found(backend: str | Backend) -> Backend:
    if callable(backend):
        return backend
    from torch._dynamo import list_backends, lookup_backend
    from torch._dynamo.exc import InvalidBackend

    try:
        found: Backend = lookup_backend(backend)
    except InvalidBackend:
        known = ", ".join(list_backends(exclude_tags=()))
        raise ValueError(f"unknown backend {backend!r}; torch has: {known}") from None
    return found


def _error(name: str, origin: tuple[str, int, str], problem: str) -> BackendError:
    file, line, function = origin
    return BackendError(f'backend {name!r} {problem} (compiling {function}, {file}:{line}); try backend="eager"')


def _apart(function: Callable[..., Any], module: fx.GraphModule) -> Callable[..., Any]:
    """What writes into tensors was compiled for such that share no memory; others go through the graph as it is."""

    @functools.wraps(function)
    def call(*inputs: Any) -> Any:
        storages = {tensor.untyped_storage()._cdata for tensor in inputs if isinstance(tensor, torch.Tensor)}
        tensors = sum(isinstance(tensor, torch.Tensor) for tensor in inputs)
        return function(*inputs) if len(storages) == tensors else module(*inputs)

    return call


def graph_module(told: Any, examples: list[Any]) -> tuple[fx.GraphModule, list[Any]]:
    """The graph of what the core tells of it, and its example inputs."""
    _, input_rows, rows, output_rows = told
    graph = fx.Graph()
    inputs: list[Any] = []
    for (name, _), example in zip(input_rows, examples, strict=True):
        node = graph.placeholder(_identifier(name))
        node.meta["example_value"] = example
        inputs.append(node)
    values: list[Any] = []
    spaces = {"i": inputs, "n": values}
    for form, code, callable_, keywords, operand_rows, _, origin in rows:
        operands = [spaces[space][at] if space in spaces else at for space, at in operand_rows]
        if form in _CONTAINERS:
            values.append(_CONTAINERS[form](operands))
            continue
        node = _node(graph, form, code, callable_, keywords, operands)
        node.meta["part"] = (
            form == "getitem" and operand_rows[0][0] == "n" and rows[operand_rows[0][1]][5][0] == "object"
        )
        node.meta["stack_trace"] = _trace(*origin)
        values.append(node)
    graph.output(tuple(values[index] for index in output_rows))
    _drop_unused_items(graph)
    return fx.GraphModule(_EMPTY, graph), examples


_EMPTY = torch.nn.Module()


def _node(
    graph: fx.Graph, form: str, code: int, callable_: Any, keywords: tuple[str, ...] | None, operands: list[Any]
) -> fx.Node:
    if form in _OPERATORS:
        function = _OPERATORS[form][code]
        if not isinstance(operands[0], fx.Node):
            function = _PLAIN.get(function, function)
        return graph.create_node("call_function", function, tuple(operands))
    if form == "getattr":
        return graph.create_node("call_function", getattr, (*operands, callable_))
    if form != "call":
        return graph.create_node("call_function", getattr(operator, form), tuple(operands))
    positional = len(operands) - len(keywords or ())
    kwargs = dict(zip(keywords or (), operands[positional:], strict=True))
    name = getattr(callable_, "__name__", "")
    if _is_method(callable_, name):
        return graph.create_node("call_method", name, tuple(operands[:positional]), kwargs)
    return graph.create_node("call_function", callable_, tuple(operands[:positional]), kwargs)


@functools.lru_cache(maxsize=4096)
def _is_method(callable_: Any, name: str) -> bool:
    return getattr(torch.Tensor, name, None) is callable_


def _drop_unused_items(graph: fx.Graph) -> None:
    """Of what an operation gives together, often one part is used."""
    for node in reversed(graph.nodes):
        if node.target is operator.getitem and not node.users and node.meta["part"]:
            graph.erase_node(node)


@functools.lru_cache(maxsize=16384)
def _identifier(name: str) -> str:
    for kept_in in ("__dict__", "['_modules']", "['_parameters']", "['_buffers']"):
        name = name.replace(kept_in, "")
    kept = "_".join(re.findall(r"\w+", name)).strip("_") or "input"
    return f"input_{kept}" if kept[0].isdigit() else kept


@functools.lru_cache(maxsize=16384)
def _trace(file: str, line: int, function: str) -> str:
    return f'  File "{file}", line {line}, in {function}\n    {linecache.getline(file, line).strip()}\n'
