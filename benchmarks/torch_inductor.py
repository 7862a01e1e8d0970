"""Runs PyTorch functions and models through inductor, captured by evalframe and by torch.compile, in this process.

    python benchmarks/torch_inductor.py [--only bert ...] [--is-compiling] [--device cuda]

For each, without gradients, and forward and backward: the seconds to the first result, which are mostly inductor's own,
whose caches are off; by how much results, and gradients, differ from eager's at most, relative to the largest of
theirs; and what a later call takes. Models are in evaluation. It wants torch, and transformers for the models.
"""

from __future__ import annotations

import copy
import functools
import math
import os
import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

os.environ.setdefault("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1")  # what was compiled first would be found by the other

import torch
from torch_models import MODELS, begin, made_on, parser_of, timed

import evalframe.torch

Call = Callable[[], Any]
NAMED = ("pointwise", "toy", "perceptron", "encoder", "bert", "gpt2", "llama", "t5", "mixtral", "resnet50", "vit")


class Ran(NamedTuple):
    first: float  # seconds
    later: float
    values: list[torch.Tensor]


def tensors(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    parts = result.values() if isinstance(result, dict) else result if isinstance(result, (tuple, list)) else ()
    return [tensor for part in parts for tensor in tensors(part)]


def ran(call: Call, values: Callable[[Any], list[torch.Tensor]]) -> Ran:
    """Looks at what a later call gives, too: the first may be the recorded run."""
    first, result = timed(call)
    kept = [value.detach().clone() for value in values(result)]
    later = [timed(call) for _ in range(10)]
    kept += [value.detach().clone() for value in values(later[-1][1])]
    return Ran(first, statistics.median(seconds for seconds, _ in later), kept)


def forward(called: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Ran:
    with torch.no_grad():
        return ran(lambda: called(*args, **kwargs), tensors)


def forward_and_backward(called: Any, of: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Ran:
    def call() -> Any:
        of.zero_grad()
        result = called(*args, **kwargs)
        torch.stack([part.float().square().mean() for part in tensors(result) if part.requires_grad]).sum().backward()
        return result

    def gradients(_: Any) -> list[torch.Tensor]:
        return [parameter.grad for parameter in of.parameters() if parameter.grad is not None]

    return ran(call, gradients)


def difference(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> float:
    """Relative to the largest value of each tensor."""
    if len(found) != len(wanted):
        return math.inf
    pairs = [(a.double(), b.double()) for a, b in zip(found, wanted, strict=True) if b.numel()]
    return max(((a - b).abs().max() / b.abs().max().clamp(min=1e-6)).item() for a, b in pairs)


def row(name: str, results: list[Ran]) -> tuple[float, str]:
    """Of eager, evalframe and torch.compile."""
    eager, ours, theirs = results
    apart = [f"{difference(side.values, eager.values):9.1e}" for side in (ours, theirs)]
    firsts = [f"{side.first:8.2f}" for side in (ours, theirs)]
    later = [f"{side.later * 1e3:8.3f}" for side in results]
    return theirs.first / ours.first, "  ".join([f"{name:20}", *firsts, *apart, *later])


class Attention(torch.nn.Module):
    """A layer with what most models have, for what inductor sets up where it first sees it."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = torch.nn.Linear(32, 96)
        self.norm = torch.nn.LayerNorm(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.parts(x).view(2, 16, 3, 2, 16).permute(2, 0, 3, 1, 4)
        y = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.norm(x + torch.nn.functional.gelu(y.transpose(1, 2).reshape(2, 16, 32)))


MODELS["attention"] = lambda: (Attention(), (torch.randn(2, 16, 32),), {})


def measured(name: str, device: str, capture: Callable[[Any], Any]) -> dict[str, Ran]:
    made, args, kwargs = made_on(device, name)
    function = made.eval() if isinstance(made, torch.nn.Module) else made

    def captured() -> tuple[Any, Any]:
        torch._dynamo.reset()
        of = copy.deepcopy(function)
        return capture(of), of

    found = {name: forward(captured()[0], args, kwargs)}
    if isinstance(made, torch.nn.Module):
        found[f"{name}, backward"] = forward_and_backward(*captured(), args, kwargs)
    return found


def main() -> None:
    options = parser_of(__doc__, NAMED).parse_args()
    begin(options.device)
    print("                      first result, s     differs by            later call, ms")
    print("                      ours    torch       ours      torch       eager     ours      torch")
    ours = functools.partial(evalframe.torch.compile, is_compiling=options.is_compiling)
    for name in ("perceptron", "attention"):
        measured(name, options.device, ours)  # imports and compiles what both need
    # All of evalframe's first: torch.compile patches nn.Module, for the rest of the process.
    captures: list[Callable[[Any], Any]] = [lambda of: of, ours, torch.compile]
    found = [[measured(name, options.device, capture) for name in options.only] for capture in captures]
    ratios = []
    for sides in zip(*found, strict=True):
        for name in sides[0]:
            ratio, text = row(name, [side[name] for side in sides])
            ratios.append(ratio)
            print(text, flush=True)
    mean = math.exp(statistics.mean(map(math.log, ratios)))
    print(f"torch.compile's seconds to the first result over evalframe's, geometric mean: {mean:.2f}")


if __name__ == "__main__":
    main()
