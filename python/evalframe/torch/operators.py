"""What the core asks of operators of ``torch.ops``: torch's own, and those that programs register."""

from __future__ import annotations

from typing import Any

import torch
from torch._higher_order_ops.effects import has_effects
from torch._ops import OpOverload, OpOverloadPacket, TorchBindOpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._pytree import tree_leaves, tree_map_only

from evalframe import _core
from evalframe.torch.autograd_functions import Finish
from evalframe.torch.graphs import OfModules
from evalframe.torch.sizes import unlogged, unwarned

_OF_ELEMENTS = torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape


def _overloads(operator: Any) -> list[Any]:
    if isinstance(operator, OpOverload):
        return [operator]
    names: list[str] = operator.overloads()
    return [getattr(operator, name) for name in names if "out" not in name]


def kind_of(operator: Any) -> tuple[str, bool]:
    """How calls are recorded, by the name of a kind of ``frontends/torch/calls.h``, and whether it mustn't be called
    twice: it writes into an argument, draws random numbers, or is registered as one with effects. Of others torch's
    own passes leave out calls, too, or repeat them."""
    if type(operator) in (Finish, OfModules):
        return "operation", False
    overloads = _overloads(operator)
    tags = {tag for overload in overloads for tag in overload.tags}
    if tags.intersection(_OF_ELEMENTS):
        return "value", True
    if {overload.namespace for overload in overloads} == {"profiler"}:
        return "noted", True
    own = all(overload.namespace == "aten" for overload in overloads)
    acts = any(overload._schema.is_mutable or has_effects(overload) for overload in overloads)
    return ("operation" if own else "described"), acts or torch.Tag.nondeterministic_seeded in tags


def results_follow(operator: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Whether the metadata of the results follow from that of the arguments: the program has described the operator for
    tensors without elements, and no size in the results is one that only elements tell. So has it its gradients, where
    they are recorded: backends ask for them when they compile a graph, and not when a program goes back through it."""
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    given, named = tree_map_only(
        torch.Tensor, lambda tensor: mode.from_tensor(tensor, static_shapes=True), (arguments, keywords)
    )
    try:
        with unlogged(), unwarned(), mode:
            results = tree_leaves(operator(*given, **named))
            _go_back(tree_leaves((given, named)), results)
    except Exception:
        return False
    return all(
        result is None or (isinstance(result, torch.Tensor) and all(type(size) is int for size in result.shape))
        for result in results
    )


def _go_back(arguments: list[Any], results: list[Any]) -> None:
    """Raises where an operator has no gradients."""
    sides = arguments, results
    inputs, outputs = ([each for each in side if getattr(each, "requires_grad", False)] for side in sides)
    if inputs and outputs:
        torch.autograd.grad(outputs, inputs, [torch.empty_like(each) for each in outputs], allow_unused=True)


def watch_operators() -> None:
    types = OpOverload, OpOverloadPacket, TorchBindOpOverload, Finish, OfModules
    _core.watch_torch_operators(types, kind_of, results_follow)
