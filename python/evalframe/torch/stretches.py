"""Stretches of recorded graphs, for each of which a backend is asked for a function, and inputs that are kept in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from evalframe.torch.checkpoints import ends_of

PARAMETERS = ("inputs", "attributes")
"""What parameters and buffers of modules are in a graph."""

Guard = Callable[..., bool]


class Stretch:
    """What the core tells of a stretch.

    ``told`` has the place it is from, and rows for its inputs, operations and outputs; ``writes``: it writes into
    tensors that are there already; ``gradients``: they are recorded where it runs; ``kept``: the numbers of the inputs
    that are attributes of its module; ``checkpoints``: the rows of operations where one ends, by those where it begins.
    """

    def __init__(self, told: Any, examples: Sequence[Any], writes: bool, gradients: bool, keeps: bool) -> None:
        self.told = told
        self.writes = writes
        self.gradients = gradients
        self.dimensions: list[int] = [dimensions for _, _, dimensions in told[1]]
        """For each input a bit for each dimension whose size varies."""
        self.varies = any(self.dimensions) or any(type(example) is int for example in examples)
        self.checkpoints = ends_of(told[2])
        self.kept = frozenset(_of_modules(told[1], examples) if keeps else ())

    def rest(self, inputs: Sequence[Any]) -> list[Any]:
        """Of the inputs, or what stands for them, those that aren't kept."""
        return [value for index, value in enumerate(inputs) if index not in self.kept]

    def called_with_all(self, function: Callable[..., Any], symbols: int = 0) -> Callable[..., Any]:
        """Called with all inputs, it calls the function with those that aren't kept, behind so many symbols."""
        if not self.kept:
            return function
        return lambda *inputs: function(*inputs[:symbols], *self.rest(inputs[symbols:]))

    def guard(self, inputs: Sequence[Any], other: Guard | None = None) -> Guard:
        """Whether the kept ones of its arguments are those of ``inputs``, and ``other`` holds."""
        kept = [(index, inputs[index]) for index in self.kept]

        def holds(*given: Any) -> bool:
            return all(given[index] is value for index, value in kept) and (other is None or other(*given))

        return holds if kept or other is None else other


def _of_modules(rows: Sequence[Any], examples: Sequence[Any]) -> list[int]:
    """The inputs that are parameters, or buffers of a module."""
    pairs = enumerate(zip(rows, examples, strict=True))
    return [index for index, (row, value) in pairs if isinstance(value, torch.nn.Parameter) or "['_buffers']" in row[0]]
