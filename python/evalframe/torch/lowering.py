"""Recorded graphs as ``torch.fx.GraphModule``, and what backends of ``torch.compile`` make of them."""

from __future__ import annotations

import contextlib
import functools
import linecache
import operator
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.fx.graph import _illegal_names, _Namespace

from evalframe import _core
from evalframe._core.bytecode import OPERATORS
from evalframe.torch.checkpoints import Checkpoint
from evalframe.torch.default_device import named, set_aside
from evalframe.torch.sizes import OtherSizesError, Served, Symbolic, unlogged, with_sizes
from evalframe.torch.stretches import PARAMETERS, Guard, Stretch
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
_MARKS = _core.begin_checkpoint, _core.end_checkpoint
_set_tracing: Any = torch._C._autograd._saved_tensors_hooks_set_tracing  # type: ignore[attr-defined, unused-ignore]
_IS_OVERWRITTEN = "needed for gradient computation has been modified by an inplace operation"
"""What backward would raise, which a backend that traces it learns before anybody has called it."""
_OF_ELEMENTS = DataDependentOutputException, GuardOnDataDependentSymNode
_functorch: Any = torch._C._functorch  # type: ignore[attr-defined, unused-ignore]
_TRANSFORMS = {function for name, function in vars(_functorch).items() if name.endswith("_nesting")}
_TRANSFORMS.add(torch._C._enter_dual_level)  # type: ignore[attr-defined, unused-ignore]
"""They give numbers that nobody asks for, and are no questions."""
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
        graph = graph_of(stretch, inputs)[0]
        given_back = _given_back(graph, inputs) if stretch.writes and stretch.gradients else []
        module = self._module(stretch, graph, inputs)
        function = self._compiled(stretch, module, _separated(inputs) if stretch.writes else inputs)
        return _with_given_back(function, given_back)

    def _for_sizes(self, stretch: Stretch, inputs: Sequence[Any]) -> tuple[Guard, Callable[..., Any]]:
        apart = _separated(inputs) if stretch.writes else inputs
        symbolic, graph = self._propagated(stretch, apart, stretch.dimensions)
        given_back = _given_back(graph, symbolic.inputs) if stretch.writes and stretch.gradients else []
        module = self._module(stretch, graph, inputs)
        with symbolic.tracing():
            function = self._compiled(stretch, module, symbolic.inputs, symbolic.symbols)
        return symbolic.guard(), with_sizes(_with_given_back(function, given_back), symbolic.sizes)

    def _module(self, stretch: Stretch, graph: fx.Graph, inputs: Sequence[Any], runs: bool = True) -> fx.GraphModule:
        kept = (node for node in graph.nodes if node.op == "get_attr")
        values = (value for index, value in enumerate(inputs) if index in stretch.kept)
        attributes = {node.target: value for node, value in zip(kept, values, strict=True)}
        module = graph_module(graph, runs, attributes)
        self.graph_modules.append(module)
        return module

    def _propagated(
        self, stretch: Stretch, inputs: Sequence[Any], varies: Sequence[int] | None
    ) -> tuple[Symbolic, fx.Graph]:
        symbolic = Symbolic(inputs, varies)
        graph, checks = graph_of(stretch, symbolic.examples)
        try:
            with torch.set_grad_enabled(stretch.gradients), _random_kept(), _state_kept(), set_aside(), unlogged():
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
        self, stretch: Stretch, module: fx.GraphModule, inputs: Sequence[Any], symbols: Sequence[Any] = ()
    ) -> Callable[..., Any]:
        """The backend's function. It takes symbols, and all inputs, and knows those that are kept."""
        function = stretch.called_with_all(
            self._asked(stretch, module, [*symbols, *stretch.rest(inputs)]), len(symbols)
        )
        return _apart(function, stretch.called_with_all(module, len(symbols))) if stretch.writes else function

    def _asked(self, stretch: Stretch, module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        if self._backend is None:  # torch's own checkpoints call the graph's modules
            forward: Callable[..., Any] = module.forward
            return forward
        options = {} if self._options is None else {"options": self._options}
        if self.name == "inductor" and options:
            options = {"config_patches": self._options or {}}
        try:
            with torch.set_grad_enabled(stretch.gradients), _random_kept(), _state_kept(), set_aside():
                function = self._backend(module, inputs, **options)
        except Exception as error:
            if _asks_for_elements(error) or _IS_OVERWRITTEN in str(error):
                raise OtherSizesError from error
            raise _error(self.name, stretch.told[0], f"raised {type(error).__name__}: {error}") from error
        if not callable(function):
            raise _error(self.name, stretch.told[0], f"returned {type(function).__name__}, which can't be called")
        return function


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


def _asks_for_elements(error: BaseException | None) -> bool:
    """An operation takes a tensor for a number, which no graph for other elements can have."""
    while error is not None and not isinstance(error, _OF_ELEMENTS):
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


def _share_no_memory(values: Sequence[Any]) -> bool:
    told: bool | None = _core.torch_share_no_memory(tuple(values))
    if told is not None:
        return told
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    return len({tensor.untyped_storage()._cdata for tensor in tensors}) == len(tensors)


def _separated(values: Sequence[Any]) -> Sequence[Any]:
    """The same values, in tensors that share no memory."""
    return values if _share_no_memory(values) else [_copied(value) for value in values]


def _copied(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    copy = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=value.device)
    with torch.no_grad():
        copy.copy_(value)
    return copy.requires_grad_(value.requires_grad)


def _apart(function: Callable[..., Any], module: Callable[..., Any]) -> Callable[..., Any]:
    """What writes into tensors was compiled for such that share no memory; others go through the graph as it is."""

    @functools.wraps(function)
    def call(*inputs: Any) -> Any:
        return function(*inputs) if _share_no_memory(inputs) else module(*inputs)

    return call


def _given_back(graph: fx.Graph, inputs: Sequence[Any]) -> list[tuple[int, int]]:
    """Takes results out of the graph that are inputs themselves, where gradients are recorded: their places, and those
    of the inputs. AOTAutograd (torch 2.13) takes them for what to write into another one, with gradients."""
    if not any(isinstance(value, torch.Tensor) and value.requires_grad for value in inputs):
        return []
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    places = {node: at for at, node in enumerate(placeholders)}
    values = dict(zip(reversed(placeholders), reversed(inputs), strict=False))  # behind symbols
    for node in graph.find_nodes(op="call_method", target="contiguous"):
        (of, *more), keywords = node.args, node.kwargs
        if of in values and not more and not keywords and values[of].is_contiguous():
            places[node] = places[of]
    (output,) = graph.find_nodes(op="output")
    results = [_first_of(node) for node in output.args[0]]
    given_back = [(at, places[node]) for at, node in enumerate(results) if node in places]
    kept = {at for at, _ in given_back}
    output.args = (tuple(node for at, node in enumerate(output.args[0]) if at not in kept),)
    return given_back


def _first_of(node: fx.Node) -> fx.Node:
    """What the node is, if it is an operation in place: its first operand."""
    while node.op.startswith("call") and node.args and isinstance(node.args[0], fx.Node):
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        if not (node.target in _PLAIN or (name.endswith("_") and not name.endswith("__"))):
            break
        node = node.args[0]
    return node


def _with_given_back(function: Callable[..., Any], given_back: list[tuple[int, int]]) -> Callable[..., Any]:
    if not given_back:
        return function

    @functools.wraps(function)
    def call(*inputs: Any) -> Any:
        results = list(function(*inputs))
        for at, place in given_back:
            results.insert(at, inputs[place])
        return results

    return call


def graph_of(stretch: Stretch, examples: Sequence[Any]) -> tuple[fx.Graph, list[tuple[Any, Any]]]:
    """The graph of what the core tells of it, and what has to equal a constant in it: checks of sizes."""
    _, input_rows, rows, output_rows = stretch.told
    graph = fx.Graph()
    graph._graph_namespace = _Names()
    inputs: list[Any] = []
    for index, ((name, _, _), example) in enumerate(zip(input_rows, examples, strict=True)):
        node = (_attribute if index in stretch.kept else _placeholder)(graph, _identifier(name))
        node.meta["example_value"] = example
        inputs.append(node)
    built = _Rows(graph, stretch, inputs)
    built.add(0, len(rows))
    graph.output(tuple(built.values[index] for index in output_rows))
    return graph, built.checks


class _Rows:
    """Makes nodes of the core's rows; ``values`` are nodes, and containers of such, by row."""

    def __init__(self, graph: fx.Graph, stretch: Stretch, inputs: list[Any]) -> None:
        self.values: dict[int, Any] = {}
        self.checks: list[tuple[Any, Any]] = []
        self._graph = graph
        self._stretch = stretch
        self._inputs = inputs
        self._rows = stretch.told[2]
        self._device = _core.torch_default_device()

    def add(self, begin: int, end: int) -> None:
        index = begin
        while index < end:
            last = self._stretch.checkpoints.get(index)
            if last is None:
                self._add_row(index)
            else:
                self._add_checkpoint(index, last)
            index = (index if last is None else last) + 1

    def value(self, space: str, at: Any) -> Any:
        return at if space == "c" else self._inputs[at] if space == "i" else self.values[at]

    def _add_row(self, index: int) -> None:
        form, code, callable_, keywords, operand_rows, (kind, _, _), origin = self._rows[index]
        operands = [self.value(space, at) for space, at in operand_rows]
        if form in _CONTAINERS:
            self.values[index] = _CONTAINERS[form](operands)
            return
        if form == "check":
            self.checks.append((operands[0], operands[1]))
            return
        if callable_ in _MARKS:  # of one that ends elsewhere
            self.values[index] = None
            return
        if form == "call" and self._takes_tensor_for_number(getattr(callable_, "__name__", ""), keywords, operand_rows):
            node = _by_tensors(self._graph, callable_, operands)
        else:
            node = _node(self._graph, form, code, callable_, keywords, operands, self._device)
        asks = kind in _NUMBERS and not (form == "call" and callable_ in _TRANSFORMS)
        node.meta["fact"] = asks or (form == "getattr" and kind == "object")
        node.meta["part"] = (
            form == "getitem" and operand_rows[0][0] == "n" and self._rows[operand_rows[0][1]][5][0] == "object"
        )
        node.meta["stack_trace"] = _trace(*origin)
        self.values[index] = node

    def _takes_tensor_for_number(self, name: str, keywords: tuple[str, ...] | None, operand_rows: Any) -> bool:
        asked = _NUMBERS_OF.get(name.rstrip("_"))
        if asked is None or len(operand_rows) != asked.operands or (keywords or ()) != asked.keywords:
            return False
        *others, number = (self._meta(*row) for row in operand_rows)
        # Of one dtype: the number is taken in that of the result.
        return bool(number[0] == "tensor" and len({dtype for _, dtype, _ in others}) == 1)

    def _meta(self, space: str, at: Any) -> Any:
        """Its kind, and dtype and shape or None."""
        return _NO_META if space == "c" else self._stretch.told[1][at][1] if space == "i" else self._rows[at][5]

    def _add_checkpoint(self, begin: int, end: int) -> None:
        """What is between the rows is a module, whose results are what is asked for behind them."""
        inner = _Inner(self, self._stretch)
        inner.add(begin + 1, end)
        asked = [index for index in inner.values if self._last_use(index) > end]
        results: dict[fx.Node, Any] = {}
        fx.map_arg([inner.values[index] for index in asked] + inner.checks, lambda node: results.setdefault(node, None))
        inner.graph.output(tuple(results))
        ((_, preserves),) = self._rows[begin][4]
        module = Checkpoint(graph_module(inner.graph), preserves)
        node = self._graph.create_node("call_module", "checkpoint", args=tuple(inner.taken.values()))
        node.target = node.name
        node.meta["module"] = module
        node.meta["stack_trace"] = _trace(*self._rows[begin + 1][6])
        for at, result in enumerate(results):
            results[result] = _made(self._graph, "call_function", operator.getitem, [node, at])
        for index in asked:
            self.values[index] = fx.map_arg(inner.values[index], results.__getitem__)
        self.checks += fx.map_arg(inner.checks, results.__getitem__)

    def _last_use(self, index: int) -> int:
        if self._uses is None:
            self._uses = {}
            for at, row in enumerate(self._rows):
                self._uses |= {operand: at for space, operand in row[4] if space == "n"}
            self._uses |= dict.fromkeys(self._stretch.told[3], len(self._rows))
        return self._uses.get(index, -1)

    _uses: dict[int, int] | None = None


class _Inner(_Rows):
    """Of a graph within another; ``taken`` are the nodes of that one that it needs, by its own placeholders."""

    def __init__(self, outer: _Rows, stretch: Stretch) -> None:
        super().__init__(fx.Graph(), stretch, [])
        self.graph = self._graph
        self.taken: dict[fx.Node, fx.Node] = {}
        self._outer = outer
        self._given: dict[fx.Node, fx.Node] = {}

    def value(self, space: str, at: Any) -> Any:
        if space == "c":
            return at
        if space == "n" and at in self.values:
            return self.values[at]
        return fx.map_arg(self._outer.value(space, at), self._take)

    def _take(self, node: fx.Node) -> fx.Node:
        if node not in self._given:
            placeholder = self.graph.placeholder(node.name)
            placeholder.meta.update(node.meta)
            self._given[node], self.taken[placeholder] = placeholder, node
        return self._given[node]


def _placeholder(graph: fx.Graph, name: str) -> fx.Node:
    node = graph.create_node("placeholder", name, name=_name_for(name))
    if node.name != _name_for(name):  # objects that are keys look alike
        node.target = node.name
    return node


def _attribute(graph: fx.Graph, name: str) -> fx.Node:
    """By a name that no other attribute has."""
    node = graph.get_attr(name)
    node.target = node.name
    return node


class _Number(NamedTuple):
    """An operation whose last operand is a number by which something is multiplied in front of an addition."""

    operands: int
    keywords: tuple[str, ...]
    scaled: Callable[..., Any] | None
    """What is multiplied is this of the operands behind the first; None: the one that there is."""
    scales: Callable[..., Any] = torch.mul
    adds: str = "add"


_NUMBERS_OF = {
    "add": _Number(3, ("alpha",), None),
    "sub": _Number(3, ("alpha",), None, adds="sub"),
    "addcmul": _Number(4, ("value",), torch.mul),
    "addcdiv": _Number(4, ("value",), torch.div),
    "_foreach_addcmul": _Number(4, (), torch._foreach_mul, torch._foreach_mul, "_foreach_add"),
    "_foreach_addcdiv": _Number(4, (), torch._foreach_div, torch._foreach_mul, "_foreach_add"),
}


def _by_tensors(graph: fx.Graph, callable_: Any, operands: list[Any]) -> fx.Node:
    """The same where the number is a tensor, which torch would read, and what traces can't: it is multiplied by it."""
    name = callable_.__name__
    how = _NUMBERS_OF[name.rstrip("_")]
    first, *others, number = operands
    of_lists = how.adds.startswith("_foreach")
    if of_lists:
        number = _made(graph, "call_function", torch.unbind, [number])
    scaled = _made(graph, "call_function", how.scaled, others) if how.scaled else others[0]
    scaled = _made(graph, "call_function", how.scales, [scaled, number])
    adds = how.adds + "_" * name.endswith("_")
    if of_lists:
        return _made(graph, "call_function", getattr(torch, adds), [first, scaled])
    return _made(graph, "call_method", adds, [first, scaled])


_NO_META = None, None, None
_EMPTY = torch.nn.Module()
_NUMBERS = ("int", "bool", "float")


def _node(
    graph: fx.Graph,
    form: str,
    code: int,
    callable_: Any,
    keywords: tuple[str, ...] | None,
    operands: list[Any],
    device: Any,
) -> fx.Node:
    if form in _OPERATORS:
        function = _OPERATORS[form][code]
        if not isinstance(operands[0], fx.Node):
            function = _PLAIN.get(function, function)
        return _made(graph, "call_function", function, operands)
    if form == "getattr":
        return _made(graph, "call_function", getattr, [*operands, callable_])
    if form != "call":
        return _made(graph, "call_function", getattr(operator, form), operands)
    positional = len(operands) - len(keywords or ())
    kwargs = dict(zip(keywords or (), operands[positional:], strict=True))
    name = getattr(callable_, "__name__", "")
    if _is_method(callable_, name):
        return _made(graph, "call_method", name, operands[:positional], kwargs)
    return _made(graph, "call_function", callable_, operands[:positional], named(callable_, kwargs, device))


def _made(
    graph: fx.Graph, op: str, target: Any, operands: Sequence[Any], keywords: dict[str, Any] | None = None
) -> fx.Node:
    """A node that gets its operands once it is there: what create_node is given it looks through for symbols, which
    takes longer than all else. They are set as the node's own attributes set them, which look for its target anew."""
    node = graph.create_node(op, target, name=_name_for(target))
    node._update_args_kwargs(tuple(operands), keywords or node.kwargs)
    return node


class _Names(_Namespace):  # type: ignore[misc, unused-ignore]
    """Names as FX gives them, without a regular expression for those that are plain."""

    def create_name(self, candidate: str, obj: object | None) -> str:
        plain = obj is None and candidate not in _illegal_names and candidate.isidentifier() and candidate.isascii()
        if not plain or candidate[-1].isdigit():
            found: str = super().create_name(candidate, obj)
            return found
        name, number = candidate, self._base_count.get(candidate, 0)
        while name in self._used_names:
            number += 1
            name = f"{candidate}_{number}"
        self._used_names.add(name)
        self._base_count[candidate] = number
        return name


_NAMING = fx.Graph()


@functools.lru_cache(maxsize=16384)
def _name_for(target: Any) -> str:
    """What FX calls a node, before it tells it from others."""
    name: str = _NAMING._target_to_str(target)
    return name


@functools.lru_cache(maxsize=4096)
def _is_method(callable_: Any, name: str) -> bool:
    return getattr(torch.Tensor, name, None) is callable_


def graph_module(graph: fx.Graph, runs: bool = True, attributes: dict[str, Any] | None = None) -> fx.GraphModule:
    """Of what an operation gives together, often one part is used; and sizes are asked for checks of them.

    runs: its Python code is wanted, else that is written where somebody asks for it.
    """
    for node in reversed(graph.nodes):
        if not node.users and (node.meta.get("part") or node.meta.get("fact")):
            graph.erase_node(node)
    modules = {node.target: node.meta["module"] for node in graph.nodes if node.op == "call_module"}
    root = (attributes or {}) | modules or _EMPTY
    return fx.GraphModule(root, graph) if runs else _LazyGraphModule(root, graph)


@functools.lru_cache(maxsize=16384)
def _identifier(name: str) -> str:
    for kept_in in ("__dict__", "['_modules']", "['_parameters']", "['_buffers']"):
        name = name.replace(kept_in, "")
    kept = "_".join(re.findall(r"\w+", name)).strip("_") or "input"
    return f"input_{kept}" if kept[0].isdigit() else kept


@functools.lru_cache(maxsize=16384)
def _trace(file: str, line: int, function: str) -> str:
    return f'  File "{file}", line {line}, in {function}\n    {linecache.getline(file, line).strip()}\n'
