"""Recorded graphs as ``torch.fx`` graphs: the core's rows become nodes."""

from __future__ import annotations

import contextlib
import functools
import linecache
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.graph import _illegal_names, _Namespace

from evalframe import _core
from evalframe._core.bytecode import OPERATORS
from evalframe.torch.checkpoints import Checkpoint
from evalframe.torch.default_device import named
from evalframe.torch.stretches import Stretch

_OPERATORS: dict[str, list[Callable[..., Any]]] = {
    form: [getattr(operator, name) for _, name in rows] for form, rows in OPERATORS.items()
}
PLAIN: dict[Callable[..., Any], Callable[..., Any]] = {
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
_functorch: Any = torch._C._functorch  # type: ignore[attr-defined, unused-ignore]
_TRANSFORMS = {function for name, function in vars(_functorch).items() if name.endswith("_nesting")}
_TRANSFORMS.add(torch._C._enter_dual_level)  # type: ignore[attr-defined, unused-ignore]
"""They give numbers that nobody asks for, and are no questions."""


_DTYPES: dict[Any, Any] = {float: torch.float64, int: torch.int64, bool: torch.bool, complex: torch.complex128}
"""What torch takes these for. FX has no text for classes."""


def has_classes(rows: Sequence[Any]) -> bool:
    """Whether an operand is a class that torch doesn't take for a dtype."""
    return any(
        isinstance(value, type) and not (_takes_dtypes(row) and value in _DTYPES)
        for row in rows
        for space, value in row[4]
        if space == "c"
    )


def has_numbers(rows: Sequence[Any]) -> bool:
    """Whether they ask a tensor for a float."""
    return any(row[0] == "call" and row[5][0] == "float" for row in rows)


def _takes_dtypes(row: Any) -> bool:
    return row[0] == "call" and getattr(row[2], "__module__", None) not in ("builtins", "_operator")


class OfModules:
    """An operator as graphs call it: with modules in the place of functions, and ``made`` of some arguments, by place:
    a dict of pairs."""

    def __init__(self, operator: Any, made: dict[int, Callable[[Any], Any]] | None = None) -> None:
        self.operator = operator
        self._made = made or {}
        self.__name__ = operator.__name__
        self.__module__ = __name__

    def __call__(self, *arguments: Any) -> Any:
        return self.operator(*self.arguments(arguments))

    def arguments(self, given: Sequence[Any]) -> list[Any]:
        return [self._made[place](value) if place in self._made else value for place, value in enumerate(given)]


def graph_of(stretch: Stretch, examples: Sequence[Any]) -> tuple[fx.Graph, list[tuple[Any, Any]]]:
    """The graph of what the core tells of it, and what has to equal a constant in it: checks of sizes."""
    _, input_rows, rows, output_rows = stretch.told
    graph = fx.Graph()
    graph._graph_namespace = _Names()
    inputs: list[Any] = []
    for index, ((name, _, _), example) in enumerate(zip(input_rows, examples, strict=True)):
        node = (_attribute if index in stretch.kept else _placeholder)(graph, _identifier(name))
        node.meta["example_value"] = _alone(example)
        inputs.append(node)
    built = _Rows(graph, stretch, inputs)
    built.add(0, len(rows))
    built.check_conditions()
    graph.output(tuple(built.values[index] for index in output_rows))
    return graph, built.checks


def has_bodies(graph: fx.Graph) -> bool:
    """Whether there are operators that call modules of their own."""
    return any(node.op == "get_attr" and "module" in node.meta for node in graph.nodes)


def _alone(example: Any) -> Any:
    """The same tensor, which keeps nothing alive of what it was computed of."""
    with contextlib.suppress(RuntimeError):  # asked of a view that has been written into where that is an error
        if isinstance(example, torch.Tensor) and example.grad_fn is not None:
            return example.detach().requires_grad_()
    return example


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
        self._numbers: set[int] = set()
        """Rows of floats that depend on elements: they are tensors of float64."""
        self._conditions: list[fx.Node] = []
        """What holds where Python raises no error."""

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
        if space == "c":
            if isinstance(at, fx.GraphModule):
                return self._body(at)
            return _DTYPES.get(at, at) if isinstance(at, type) else at
        return self._inputs[at] if space == "i" else self.values[at]

    def _body(self, module: fx.GraphModule) -> fx.Node:
        """What an operator calls is an attribute of its graph's module."""
        node = _attribute(self._graph, module.meta["name"])
        node.meta["module"] = module
        return node

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
        numbers = [place for place, (space, at) in enumerate(operand_rows) if space == "n" and at in self._numbers]
        if kind == "float" and (numbers or (form == "call" and self._meta(*operand_rows[0])[0] == "tensor")):
            self._numbers.add(index)
            self.values[index] = self._computed(form, code, operands) if numbers else self._element(operands[0])
            return
        for place in numbers:
            dtype = getattr(torch, self._rows[index][5][1])
            operands[place] = _made(self._graph, "call_method", "to", [operands[place], dtype])
        if form == "call" and self._takes_tensor_for_number(getattr(callable_, "__name__", ""), keywords, operand_rows):
            node = _by_tensors(self._graph, callable_, operands)
        elif form in _OPERATORS and 0 in numbers:
            node = _made(self._graph, "call_function", _plain(form, code), operands)
        else:
            node = _node(self._graph, form, code, callable_, keywords, operands, self._device)
        asks = kind in _NUMBERS and not (form == "call" and callable_ in _TRANSFORMS)
        node.meta["fact"] = asks or (form == "getattr" and kind == "object")
        node.meta["part"] = (
            form == "getitem" and operand_rows[0][0] == "n" and self._rows[operand_rows[0][1]][5][0] == "object"
        )
        node.meta["stack_trace"] = _trace(*origin)
        self.values[index] = node

    def _element(self, tensor: fx.Node) -> fx.Node:
        """Of a tensor of floats with one, which may be written into later."""
        detached = _made(self._graph, "call_method", "detach", [tensor])
        alone = _made(self._graph, "call_method", "reshape", [detached, ()])
        return _made(self._graph, "call_method", "to", [alone, torch.float64], {"copy": True})

    def _computed(self, form: str, code: int, operands: list[Any]) -> fx.Node:
        """What Python makes of floats, which raises an error where torch gives infinity."""
        function = _plain(form, code)
        node = _made(self._graph, "call_function", function, operands)
        if function is operator.truediv and isinstance(operands[1], fx.Node):
            self._conditions.append(_made(self._graph, "call_function", operator.ne, [operands[1], 0]))
        if function is operator.pow:
            of = next(operand for operand in operands if isinstance(operand, fx.Node))
            finite, unless = (_made(self._graph, "call_function", torch.isfinite, [one]) for one in (node, of))
            holds = _made(self._graph, "call_function", operator.ge, [finite, unless])  # finite or not unless
            self._conditions.append(holds)
        return node

    def check_conditions(self) -> None:
        """Behind all rows."""
        if self._conditions:
            both = functools.partial(_made, self._graph, "call_function", operator.and_)
            holds = functools.reduce(lambda one, other: both([one, other]), self._conditions)
            _made(self._graph, "call_function", torch._assert_async, [holds, ERROR])

    def _takes_tensor_for_number(self, name: str, keywords: tuple[str, ...] | None, operand_rows: Any) -> bool:
        asked = _NUMBERS_OF.get(name.rstrip("_"))
        if asked is None or len(operand_rows) != asked.operands or (keywords or ()) != asked.keywords:
            return False
        *others, number = (self._meta(*row) for row in operand_rows)
        # Of one dtype: the number is taken in that of the result.
        is_tensor = number[0] == "tensor" or self._is_of_numbers(*operand_rows[-1])
        return bool(is_tensor and len({dtype for _, dtype, _ in others}) == 1)

    def _is_of_numbers(self, space: str, at: Any) -> bool:
        """Whether it is such a float that depends on elements, or a list or tuple of those."""
        if space != "n" or at in self._numbers:
            return space == "n"
        form, operand_rows = self._rows[at][0], self._rows[at][4]
        return form in ("list", "tuple") and all(self._is_of_numbers(*row) for row in operand_rows)

    def _meta(self, space: str, at: Any) -> Any:
        """Its kind, and dtype and shape or None."""
        return _NO_META if space == "c" else self._stretch.told[1][at][1] if space == "i" else self._rows[at][5]

    def _add_checkpoint(self, begin: int, end: int) -> None:
        """What is between the rows is a module, whose results are what is asked for behind them."""
        inner = _Inner(self, self._stretch)
        inner.add(begin + 1, end)
        inner.check_conditions()
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
        self._numbers = outer._numbers
        self._given: dict[fx.Node, fx.Node] = {}

    def value(self, space: str, at: Any) -> Any:
        if space == "c":
            return super().value(space, at)
        if space == "n" and at in self.values:
            return self.values[at]
        return fx.map_arg(self._outer.value(space, at), self._take)

    def _take(self, node: fx.Node) -> fx.Node:
        if node not in self._given:
            placeholder = self.graph.placeholder(node.name)
            placeholder.meta.update(node.meta)
            self._given[node], self.taken[placeholder] = placeholder, node
        return self._given[node]


def _plain(form: str, code: int) -> Callable[..., Any]:
    """The operator, not in place."""
    function = _OPERATORS[form][code]
    return PLAIN.get(function, function)


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
    if of_lists and isinstance(number, fx.Node):
        number = _made(graph, "call_function", torch.unbind, [number])
    scaled = _made(graph, "call_function", how.scaled, others) if how.scaled else others[0]
    scaled = _made(graph, "call_function", how.scales, [scaled, number])
    adds = how.adds + "_" * name.endswith("_")
    if of_lists:
        return _made(graph, "call_function", getattr(torch, adds), [first, scaled])
    return _made(graph, "call_method", adds, [first, scaled])


ERROR = "a number that a tensor gives is divided by zero, or its power is no float"
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
            function = PLAIN.get(function, function)
        return _made(graph, "call_function", function, operands)
    if form == "getattr":
        return _made(graph, "call_function", getattr, [*operands, callable_])
    if form != "call":
        return _made(graph, "call_function", getattr(operator, form), operands)
    positional = len(operands) - len(keywords or ())
    kwargs = dict(zip(keywords or (), operands[positional:], strict=True))
    method = _method_name(callable_, getattr(callable_, "__name__", ""))
    if method is not None:
        return _made(graph, "call_method", method, operands[:positional], kwargs)
    if type(callable_) is OfModules:
        callable_, operands = callable_.operator, callable_.arguments(operands)
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
def _method_name(callable_: Any, name: str) -> str | None:
    """What tensors have the function as, which may be wrapped under another name: `__pow__`; None: it is no method."""
    if getattr(torch.Tensor, name, None) is callable_:
        return name
    own = vars(torch.Tensor).items() if getattr(callable_, "__module__", None) == "torch._tensor" else ()
    return next((known for known, method in own if method is callable_), None)


def graph_module(graph: fx.Graph, runs: bool = True, attributes: dict[str, Any] | None = None) -> fx.GraphModule:
    """Of what an operation gives together, often one part is used; and sizes are asked for checks of them.

    runs: its Python code is wanted, else that is written where somebody asks for it.
    """
    for node in reversed(graph.nodes):
        if not node.users and (node.meta.get("part") or node.meta.get("fact")):
            graph.erase_node(node)
    modules = {node.target: node.meta["module"] for node in graph.nodes if "module" in node.meta}
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
