"""What is asked of stretches that write into tensors: who shares memory, and which results are arguments themselves."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from evalframe import _core
from evalframe.torch.graphs import PLAIN


def _share_no_memory(values: Sequence[Any]) -> bool:
    told: bool | None = _core.torch_share_no_memory(tuple(values))
    if told is not None:
        return told
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    return len({tensor.untyped_storage()._cdata for tensor in tensors}) == len(tensors)


def separated(values: Sequence[Any]) -> Sequence[Any]:
    """The same values, in tensors that share no memory."""
    return values if _share_no_memory(values) else [_copied(value) for value in values]


def _copied(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    # What an expanded tensor has several times is there once.
    once = value[tuple(slice(None if stride else 1) for stride in value.stride())]
    copy = torch.empty_strided(once.size(), value.stride(), dtype=value.dtype, device=value.device)
    with torch.no_grad():
        copy.copy_(once)
        copy = copy.expand(value.size())
    return copy.requires_grad_(value.requires_grad)


def apart(function: Callable[..., Any], module: Callable[..., Any]) -> Callable[..., Any]:
    """What writes into tensors was compiled for such that share no memory; others go through the graph as it is."""

    @functools.wraps(function)
    def call(*inputs: Any) -> Any:
        return function(*inputs) if _share_no_memory(inputs) else module(*inputs)

    return call


def take_given_back(graph: fx.Graph, inputs: Sequence[Any]) -> list[tuple[int, int]]:
    """Takes results out of the graph that are inputs themselves, where gradients are recorded: their places, and those
    of the inputs. AOTAutograd (torch 2.13) takes them for what to write into another one, with gradients."""
    if not any(isinstance(value, torch.Tensor) and value.requires_grad for value in inputs):
        return []
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    values = dict(zip(placeholders, inputs, strict=True))
    places = {node: at for at, node in enumerate(placeholders) if isinstance(values[node], torch.Tensor)}
    for node in graph.find_nodes(op="call_method", target="contiguous"):
        (of, *more), keywords = node.args, node.kwargs
        if of in places and not more and not keywords and values[of].is_contiguous():
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
        if not (node.target in PLAIN or (name.endswith("_") and not name.endswith("__"))):
            break
        node = node.args[0]
    return node


def with_given_back(function: Callable[..., Any], given_back: list[tuple[int, int]]) -> Callable[..., Any]:
    if not given_back:
        return function

    @functools.wraps(function)
    def call(*inputs: Any) -> Any:
        results = list(function(*inputs))
        for at, place in given_back:
            results.insert(at, inputs[place])
        return results

    return call
