"""Higher-order operators in graphs: what ``torch.cond`` and the like call is recorded, and a GraphModule each.

The functions here that have an operator as their first argument are followed in the place of its ``__call__``, as those
of `evalframe.torch.stand_ins`.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, NamedTuple

import torch
import torch.nn.attention.flex_attention
from torch import fx
from torch._dynamo.eval_frame import is_dynamo_supported
from torch._higher_order_ops import utils
from torch._higher_order_ops.associative_scan import AssociativeScanOp, associative_scan_op
from torch._higher_order_ops.cond import CondOp, cond_op
from torch._higher_order_ops.flex_attention import FlexAttentionHOP
from torch._higher_order_ops.flex_attention import flex_attention as flex_op
from torch._higher_order_ops.map import MapImpl
from torch._higher_order_ops.map import map_impl as map_op
from torch._higher_order_ops.scan import ScanOp, scan_op
from torch._higher_order_ops.while_loop import WhileLoopOp, while_loop_op
from torch.utils import _pytree

from evalframe import _core
from evalframe.torch.graphs import OfModules, graph_module, graph_of
from evalframe.torch.stretches import Stretch

_begin: Any = _core.begin_body
_end: Any = _core.end_body
_input: Any = _core.body_input
_take: Any = _core.take_bodies
_follows: Any = _core.follows_body
_ask: Any = _core.call_operator
_Left: Any = _core.BodyLeft
_isinstance, _len, _tuple, _Tensor = isinstance, len, tuple, torch.Tensor
_compile_and_call: Any = getattr(utils, "_hop_compile_and_call", None)
_compilation_env: Any = utils.setup_compilation_env
_compile: Any = torch.compile
_warn_once: Any = getattr(torch.nn.attention.flex_attention, "_warn_once", None)
_nullcontext, _int = contextlib.nullcontext, torch.int
_tree_flatten, _tree_unflatten = _pytree.tree_flatten, _pytree.tree_unflatten
_COND, _WHILE_LOOP, _MAP = OfModules(cond_op), OfModules(while_loop_op), OfModules(map_op)
_SCAN, _ASSOCIATIVE_SCAN = OfModules(scan_op), OfModules(associative_scan_op)
_FLEX_ATTENTION = OfModules(flex_op, {6: dict})
_OPERATORS = _COND, _WHILE_LOOP, _MAP, _SCAN, _ASSOCIATIVE_SCAN, _FLEX_ATTENTION
_FOLLOWED = (
    "_cond_op_wrapper",
    "_flex_attention_hop_wrapper",
    "_while_loop_op_wrapper",
    "run_flattened_associative_scan",
    "run_flattened_map",
    "run_flattened_scan",
)


class _Body(NamedTuple):
    """A function that an operator calls, with such arguments. ``gives_one``: a tensor that isn't in a tuple; ``keeps``:
    its first results are like so many of its arguments; -1: they are like those of the function before; ``copies``: it
    gives a copy of what the operator is to get, which may be an argument."""

    function: Any
    arguments: Any
    name: str
    keeps: int = 0
    gives_one: bool = False
    copies: bool = False


def _module_of(told: Any, body: _Body) -> fx.GraphModule:
    """Of what the core tells of a function's rows."""
    nothing = [None] * len(told[1])
    graph, _ = graph_of(Stretch(told, nothing, False, True, False), nothing)
    if body.gives_one:
        output = graph.output_node()
        output.args = output.args[0]
    if body.copies:
        copy = output.args[0]
        copy.replace_all_uses_with(copy.args[0])
        graph.erase_node(copy)
    module = graph_module(graph)
    module.meta["name"] = body.name
    return module


def _as_it_is(operator: Any, *arguments: Any) -> Any:
    """As torch calls it without a graph around it."""

    def call(*arguments: Any) -> Any:
        return operator(*arguments)

    return _compile_and_call(call, arguments)


def _recorded(bodies: Any) -> Any:
    """The bodies' modules, what they take from around them, and how the last one's results are put together."""
    for body in bodies:
        if not _follows(body.function):
            return None
        for argument in body.arguments:
            if not _isinstance(argument, _Tensor):
                return None
    leaves: Any = ()
    spec = None
    try:
        for body in bodies:
            _begin(body.function)
            given = []
            for argument in body.arguments:
                given.append(_input(argument))
            like = _tuple(leaves) if body.keeps < 0 else _tuple(given[: body.keeps])
            before = spec
            leaves, spec = _tree_flatten(body.function(*given))
            if body.keeps < 0 and spec != before:
                raise _Left
            _end(like, *leaves)
        taken = _take(_module_of, bodies)
    except (_Left, Exception):
        taken = None
    return taken and (*taken, spec)


def _called(of_modules: OfModules, front: Any, bodies: Any, middle: Any, more: Any) -> Any:
    """Its call, with the functions behind ``front``, and what they take from around them behind ``more``, its last
    argument."""
    recorded = _recorded(bodies)
    if recorded is None:
        functions = []
        for body in bodies:
            functions.append(body.function)
        return _ask(_as_it_is, of_modules.operator, *front, *functions, *middle, more)
    modules, around, spec = recorded
    results = of_modules(*front, *modules, *middle, (*more, *around))
    return _tree_unflatten(results, spec)


def _first(tensors: Any) -> Any:
    return [tensor[0] for tensor in tensors]


def cond(operator: Any, pred: Any, true_fn: Any, false_fn: Any, operands: Any) -> Any:
    leaves, tree = _tree_flatten(operands)

    def true(*leaves: Any) -> Any:
        return true_fn(*_tree_unflatten(leaves, tree))

    def false(*leaves: Any) -> Any:
        return false_fn(*_tree_unflatten(leaves, tree))

    bodies = _Body(true, leaves, "cond_true_0"), _Body(false, leaves, "cond_false_0", -1)
    return _called(_COND, (pred,), bodies, (), leaves)


def while_loop(operator: Any, cond_fn: Any, body_fn: Any, carried: Any, more: Any, /, **keywords: Any) -> Any:
    if keywords:
        return _ask(functools.partial(operator, **keywords), operator, cond_fn, body_fn, carried, more)
    arguments = (*carried, *more)
    turns = _Body(cond_fn, arguments, "cond_fn_0", gives_one=True)
    bodies = turns, _Body(body_fn, arguments, "body_fn_0", _len(carried))
    return _called(_WHILE_LOOP, (), bodies, (carried,), more)


def scan(operator: Any, combine_fn: Any, init: Any, xs: Any, additional_inputs: Any) -> Any:
    bodies = (_Body(combine_fn, (*init, *_first(xs), *additional_inputs), "scan_combine_fn_0", _len(init)),)
    return _called(_SCAN, (), bodies, (init, xs), additional_inputs)


def associative_scan(operator: Any, combine_fn: Any, xs: Any, additional_inputs: Any) -> Any:
    first = _first(xs)
    bodies = (_Body(combine_fn, (*first, *first, *additional_inputs), "associative_scan_combine_fn_0", _len(first)),)
    return _called(_ASSOCIATIVE_SCAN, (), bodies, (xs,), additional_inputs)


def map_impl(operator: Any, f: Any, xs: Any, pos_args: Any) -> Any:
    bodies = (_Body(f, (*_first(xs), *pos_args), "map_body_0"),)
    return _called(_MAP, (), bodies, (xs,), pos_args)


def _of_scalars(function: Any, scalars: Any, name: str) -> _Body:
    def copied(*scalars: Any) -> Any:
        return function(*scalars).clone()

    return _Body(copied, scalars, name, gives_one=True, copies=True)


def flex_attention(
    operator: Any, query: Any, key: Any, value: Any, score_mod: Any, block_mask: Any, scale: Any, options: Any
) -> Any:
    places = [query.new_zeros((), dtype=_int) for _ in range(4)]
    of_score = query.new_zeros((), requires_grad=query.requires_grad), *places
    score = _recorded((_of_scalars(score_mod, of_score, "score_mod_0"),))
    mask = score and _recorded((_of_scalars(block_mask[-1], places, "mask_fn_0"),))
    if not mask:
        return _ask(_as_it_is, operator, query, key, value, score_mod, block_mask, scale, options)
    (scores,), of_scores, _ = score
    (masks,), of_masks, _ = mask
    around = (*block_mask[:-1], masks), scale, _tuple(options.items()), of_scores, of_masks
    return _FLEX_ATTENTION(query, key, value, scores, *around)


def compile_and_call(function: Any, arguments: Any, keywords: Any = None) -> Any:
    """As torch has an operator that is called outside of its compiler called in it."""
    if function.__name__ in _FOLLOWED and not keywords:
        return function(*arguments)
    return _compile_and_call(function, arguments, keywords)


_BACKEND = object()
"""What functions are compiled for in which torch calls an operator, outside of its compiler."""


def compilation_env() -> Any:
    return _nullcontext(_BACKEND)


def _uncaptured_compile(*arguments: Any, **keywords: Any) -> Any:
    return _compile(*arguments, **keywords)


def compile(*arguments: Any, **keywords: Any) -> Any:
    """As torch has flex_attention called in its compiler, in two steps."""
    if keywords.get("backend") is not _BACKEND:
        return _uncaptured_compile(*arguments, **keywords)
    (function,) = arguments

    def compiled(*arguments: Any, **keywords: Any) -> Any:
        return compile_and_call(function, arguments, keywords)

    return compiled


def _uncaptured_warning(*arguments: Any, **keywords: Any) -> Any:
    return _warn_once(*arguments, **keywords)


def warn_once(warning_id: Any, *arguments: Any, **keywords: Any) -> Any:
    """As in torch's compiler nothing says that flex_attention isn't compiled."""
    if warning_id == "flex_attention_performance":
        return None
    return _uncaptured_warning(warning_id, *arguments, **keywords)


STAND_INS: dict[Any, Any] = {
    CondOp.__call__: cond,
    WhileLoopOp.__call__: while_loop,
    ScanOp.__call__: scan,
    AssociativeScanOp.__call__: associative_scan,
    MapImpl.__call__: map_impl,
    FlexAttentionHOP.__call__: flex_attention,
    _compile_and_call: compile_and_call,
    _compilation_env: compilation_env,
    _compile: compile,
    _warn_once: warn_once,
}


def add_operators() -> None:
    if _compile_and_call is None:  # an older torch has operators call its compiler each in its own way
        return
    for of_modules in _OPERATORS:
        # Its class keeps what is found for the first copy, such as backends make of graphs: guards would see that.
        of_modules.operator.__reduce_ex__(2)
    _core.set_policy(is_dynamo_supported, "constant")
    for function in (_uncaptured_compile, _uncaptured_warning):
        _core.set_policy(function, "uncaptured")
    _core.add_stand_ins({operator: (function, -3) for operator, function in STAND_INS.items() if operator is not None})
