"""What backends of ``torch.compile`` make of recorded graphs."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, PendingUnbackedSymbolNotFound

from evalframe import _core
from evalframe.torch.default_device import set_aside
from evalframe.torch.graphs import ERROR, graph_module, graph_of, has_bodies, has_classes, has_numbers
from evalframe.torch.sizes import OtherSizesError, Served, Symbolic, told_if_made, unlogged, unwarned, with_sizes
from evalframe.torch.stretches import PARAMETERS, Guard, Stretch
from evalframe.torch.writes import apart, separated, take_given_back, with_given_back
from evalframe.user_backends import BackendError

Backend = Callable[[fx.GraphModule, list[Any]], Callable[..., Sequence[Any]]]

_set_tracing: Any = torch._C._autograd._saved_tensors_hooks_set_tracing  # type: ignore[attr-defined, unused-ignore]
_IS_OVERWRITTEN = "needed for gradient computation has been modified by an inplace operation"
"""What backward would raise, which a backend that traces it learns before anybody has called it."""
_MAY_ALIAS = "might be aliasing the input or the output"
"""What AOTAutograd says of operators whose functions get a tensor twice, which eager gives them."""
_NO_GRAPHS = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    GuardOnDataDependentSymNode,
    PendingUnbackedSymbolNotFound,
    UnsupportedFakeTensorException,
)
"""An operation takes a tensor for a number, or gives as many elements as others tell, which no graph for other elements
can have; a tensor is a view of what torch has no likeness of, such as a sparse one."""
_REPLAYED = "eager"
"""The backend that runs graphs as they are: the recorded calls do so without Python in between."""


_one_at_a_time = threading.RLock()
"""What torch traces with isn't for several threads at once."""


class Lowering:
    """Makes GraphModules of what the core records, and asks a backend for functions that run them."""

    def __init__(self, backend: str | Backend, options: dict[str, Any] | None, parameters: str = PARAMETERS[0]) -> None:
        if parameters not in PARAMETERS:
            raise ValueError(f"parameters must be one of {', '.join(map(repr, PARAMETERS))}, not {parameters!r}")
        self.name = (
            backend if isinstance(backend, str) else str(getattr(backend, "__qualname__", type(backend).__name__))
        )
        self.graph_modules: list[fx.GraphModule] = []
        self._backend = None if backend == _REPLAYED else _found(backend)
        self.replays = self._backend is None
        """The core asks: whether the recorded calls run all graphs."""
        self._options = options
        self._keeps = parameters == "attributes"

    def __call__(self, told: Any, examples: list[Any], writes: int, handled: int, gradients: int) -> Any:
        """Called by the core for a stretch of a graph; None: it is to be run by the recorded calls.

        ``writes``: the stretch writes into tensors; ``handled``: it does, and what it raises is handled in the frames
        that it was recorded in.
        """
        with _one_at_a_time:
            return self._lowered(told, examples, writes, handled, gradients)

    def _lowered(self, told: Any, examples: list[Any], writes: int, handled: int, gradients: int) -> Any:
        stretch = Stretch(told, examples, bool(writes), bool(gradients), self._keeps)
        if handled or (self._backend is None and not stretch.checkpoints):
            self._module(stretch, graph_of(stretch, examples)[0], examples, runs=self._backend is not None)
            return None
        if any(type(example) is complex for example in examples):  # numbers that backends don't take
            return None
        if has_classes(told[2]) or any(meta[0] == "float" for _, meta, _ in told[1]):
            return None
        if self._backend is None and has_numbers(told[2]):  # which Python computes with others' last bits
            return None
        if not stretch.varies and not stretch.kept:
            with contextlib.suppress(OtherSizesError):
                return self._for_these(stretch, examples)
            return None
        served = Served(lambda inputs: self._for_others_too(stretch, inputs))
        return served if served.add(examples) else None

    @staticmethod
    def random_state() -> Any:
        """The core asks, in front of a function that draws numbers, for the recorded calls may have to run it again."""
        return _random_state()

    @staticmethod
    def set_random_state(state: Any) -> None:
        _set_random_state(state)

    def _for_others_too(self, stretch: Stretch, inputs: Sequence[Any]) -> tuple[Guard, Callable[..., Any]]:
        """What serves these inputs, and which others it serves."""
        with _one_at_a_time:
            if stretch.varies:
                guard, function = self._for_sizes(stretch, inputs)
                return stretch.guard(inputs, guard), function
            return stretch.guard(inputs), self._for_these(stretch, inputs)

    def _for_these(self, stretch: Stretch, inputs: Sequence[Any]) -> Callable[..., Any]:
        alone = separated(inputs) if stretch.writes else inputs
        graph, _ = graph_of(stretch, inputs)
        if not has_bodies(graph):
            return self._compiled(stretch, graph, inputs, alone)
        symbolic = Symbolic(alone, None)  # loops give numbers that nobody knows
        with symbolic.tracing():
            return self._compiled(stretch, graph, inputs, symbolic.inputs)

    def _for_sizes(self, stretch: Stretch, inputs: Sequence[Any]) -> tuple[Guard, Callable[..., Any]]:
        alone = separated(inputs) if stretch.writes else inputs
        symbolic, graph = self._propagated(stretch, alone, stretch.dimensions)
        with symbolic.tracing():
            function = self._compiled(stretch, graph, inputs, symbolic.inputs, symbolic.symbols)
        return symbolic.guard(), with_sizes(function, symbolic.sizes)

    def _module(self, stretch: Stretch, graph: fx.Graph, inputs: Sequence[Any], runs: bool = True) -> fx.GraphModule:
        kept = (node for node in graph.nodes if node.op == "get_attr" and "module" not in node.meta)
        values = (value for index, value in enumerate(inputs) if index in stretch.kept)
        attributes = {node.target: value for node, value in zip(kept, values, strict=True)}
        module = graph_module(graph, runs, attributes)
        self.graph_modules.append(module)
        return module

    def _propagated(
        self, stretch: Stretch, inputs: Sequence[Any], varies: Sequence[int] | None
    ) -> tuple[Symbolic, fx.Graph]:
        try:
            symbolic = Symbolic(inputs, varies)
            graph, checks = graph_of(stretch, symbolic.examples)
            with (
                torch.set_grad_enabled(stretch.gradients),
                _random_kept(),
                _state_kept(),
                set_aside(),
                unlogged(),
                unwarned(),
            ):
                symbolic.propagate(graph, checks)
        except OtherSizesError:
            raise
        except Exception as error:
            if varies is None:  # the program's own mistake, which the recorded calls make, too
                raise OtherSizesError from error
            # An operation that can't do with symbols.
            return self._propagated(stretch, inputs, None)
        return symbolic, graph

    def _compiled(
        self,
        stretch: Stretch,
        graph: fx.Graph,
        inputs: Sequence[Any],
        asked: Sequence[Any],
        symbols: Sequence[Any] = (),
    ) -> Callable[..., Any]:
        """The backend's function, for which it gets ``asked`` in the place of the inputs. It takes symbols, and all
        inputs, and knows those that are kept."""
        given = [*symbols, *stretch.rest(asked)]
        given_back = take_given_back(graph, given) if stretch.writes and stretch.gradients else []
        module = self._module(stretch, graph, inputs)

        def called(function: Callable[..., Any]) -> Callable[..., Any]:
            return stretch.called_with_all(with_given_back(function, given_back), len(symbols))

        function = called(self._asked(stretch, module, given))
        if has_numbers(stretch.told[2]) and not stretch.writes:
            return without_errors(function)
        return apart(function, called(module)) if stretch.writes else function

    def _asked(self, stretch: Stretch, module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        if self._backend is None:  # torch's own checkpoints call the graph's modules
            forward: Callable[..., Any] = module.forward
            return forward
        options = {} if self._options is None else {"options": self._options}
        if self.name == "inductor" and options:
            options = {"config_patches": self._options or {}}
        with told_if_made():
            try:
                with torch.set_grad_enabled(stretch.gradients), _random_kept(), _state_kept(), set_aside():
                    function = self._backend(module, inputs, **options)
            except Exception as error:
                if _has_no_graph(error) or _IS_OVERWRITTEN in str(error) or _MAY_ALIAS in str(error):
                    raise OtherSizesError from error
                raise _error(self.name, stretch.told[0], f"raised {type(error).__name__}: {error}") from error
        if not callable(function):
            raise _error(self.name, stretch.told[0], f"returned {type(function).__name__}, which can't be called")
        return function


def without_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Where Python's arithmetic would raise an error, the recorded calls do."""

    @functools.wraps(function)
    def call(*inputs: Any) -> Any:
        try:
            return function(*inputs)
        except RuntimeError as error:
            if ERROR not in str(error):
                raise
            return NotImplemented

    return call


def _random_state() -> tuple[Any, Any]:
    on_device = torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None
    return torch.random.get_rng_state(), on_device


def _set_random_state(state: tuple[Any, Any]) -> None:
    torch.random.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1])


@contextlib.contextmanager
def _random_kept() -> Iterator[None]:
    """Numbers that are drawn meanwhile aren't missing in the program's."""
    state = _random_state()
    try:
        yield
    finally:
        _set_random_state(state)


@contextlib.contextmanager
def _state_kept() -> Iterator[None]:
    """How torch.func's transformations are, where an exception keeps a graph from ending what it begins; and hooks for
    saved tensors aren't told of tensors without elements."""
    then: Any = _core.transforms_now()
    traced = _set_tracing(True)
    try:
        yield
    except BaseException:
        _core.set_transforms_back(then)
        raise
    finally:
        _set_tracing(traced)


def _has_no_graph(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, _NO_GRAPHS):
        error = error.__cause__ or error.__context__
    return error is not None


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
