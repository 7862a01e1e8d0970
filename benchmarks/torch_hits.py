"""Times what a later call of a captured PyTorch function costs besides its graphs, beside torch.compile.

    python benchmarks/torch_hits.py [--only bert ...] [--is-compiling] [--device cuda]

The backend gives for each graph a function that returns what the graph came to at first, so that what is left of a call
is its entry, its guards and what it makes of the results; the functions' own time, called alone, is taken off.
It wants torch, and transformers for the models.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch_models import Made, begin, made_on, parser_of, timed

import evalframe.torch

ROUNDS = 300


class Remembering:
    """A backend whose functions run their graphs once."""

    def __init__(self) -> None:
        self.calls: dict[int, Callable[[], Any]] = {}

    def __call__(self, graph_module: Any, example_inputs: list[Any]) -> Callable[..., Any]:
        results: list[Any] = []
        number = len(self.calls)
        self.calls[number] = lambda: None

        def remembered(*inputs: Any) -> Any:
            if not results:
                results.extend(graph_module.forward(*inputs))
                self.calls[number] = lambda: remembered(*inputs)
            return results

        return remembered


class Cost(NamedTuple):
    seconds: float
    graphs: int


def least(call: Callable[[], Any]) -> float:
    return min(timed(call)[0] for _ in range(ROUNDS))


def cost(made: Made, compiled_by: Callable[..., Any]) -> Cost:
    function, args, kwargs = made
    backend = Remembering()
    compiled = compiled_by(function, backend=backend)
    for _ in range(5):
        compiled(*args, **kwargs)
    inside = sum(least(call) for call in backend.calls.values())
    return Cost(least(lambda: compiled(*args, **kwargs)) - inside, len(backend.calls))


def main() -> None:
    options = parser_of(__doc__).parse_args()
    begin(options.device)
    print("              graphs, both     ours us    torch us   ratio")

    def by_evalframe(function: Any, backend: Any) -> Any:
        return evalframe.torch.compile(function, backend=backend, is_compiling=options.is_compiling)

    ratios = []
    with torch.no_grad():
        made = {name: made_on(options.device, name) for name in options.only}
        # All of evalframe's first: torch.compile patches nn.Module, for the rest of the process.
        ours = {name: cost(made[name], by_evalframe) for name in options.only}
        for name in options.only:
            torch._dynamo.reset()
            mine, theirs = ours[name], cost(made[name], torch.compile)
            ratios.append(theirs.seconds / mine.seconds)
            times = [f"{side.seconds * 1e6:10.2f}" for side in (mine, theirs)]
            print(f"{name:14}", f"{mine.graphs:5}, {theirs.graphs:<5}", *times, f"{ratios[-1]:7.1f}", flush=True)
    print(f"geometric mean of the ratios: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.1f}")


if __name__ == "__main__":
    main()
