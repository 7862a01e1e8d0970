"""``torch.utils.checkpoint`` in graphs: what is computed again when gradients are asked for is a module of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.utils.checkpoint
from torch import fx
from torch._higher_order_ops.wrap import tag_activation_checkpoint

from evalframe import _core

_Key = torch._C._TorchDispatchModeKey
_TRACED = _Key.FUNCTIONAL, _Key.PROXY


def _is_in(*keys: Any) -> bool:
    return any(torch._C._get_dispatch_mode(key) is not None for key in keys)


class Checkpoint(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """Calls a graph as ``torch.utils.checkpoint`` does. It gives a tuple."""

    def __init__(self, graph: fx.GraphModule, preserve_rng_state: bool) -> None:
        super().__init__()
        self.graph_module = graph
        self.preserve_rng_state = preserve_rng_state

    def forward(self, *inputs: Any) -> Any:
        if _is_in(*_TRACED):  # for AOTAutograd, which takes it apart
            return tag_activation_checkpoint(self.graph_module, *inputs, use_reentrant=False)
        if _is_in(_Key.FAKE):  # for sizes alone
            return self.graph_module(*inputs)
        preserves = self.preserve_rng_state
        return torch.utils.checkpoint.checkpoint(
            self.graph_module, *inputs, use_reentrant=False, preserve_rng_state=preserves
        )


def ends_of(rows: Sequence[Any]) -> dict[int, int]:
    """Where what begins at a row ends."""
    ends, begun = {}, []
    for index, row in enumerate(rows):
        if row[2] is _core.begin_checkpoint:
            begun.append(index)
        elif row[2] is _core.end_checkpoint and begun:
            ends[begun.pop()] = index
    return ends
