"""Times capturing PyTorch functions and models beside torch.compile, both with backend="eager" and in this process.

    python benchmarks/torch_capture.py [--only bert ...] [--repeat 3] [--is-compiling] [--device cuda]

For each: an eager call; the first call under evalframe and under torch.compile (recorded or traced, FX graphs
made), the least of so many; graphs and their operations on both sides; and what a later call costs more than eager.
It wants torch, and transformers for the models.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch_models import Made, begin, made_on, parser_of, timed

import evalframe.torch


def seconds(function: Callable[[], Any]) -> float:
    return timed(function)[0]


def least(function: Callable[[], Any], repeat: int) -> float:
    return min(seconds(function) for _ in range(repeat))


def operations(graph_modules: list[Any]) -> int:
    return sum(node.op.startswith("call") for module in graph_modules for node in module.graph.nodes)


def captured_by_evalframe(made: Made, is_compiling: bool) -> tuple[float, list[Any], Callable[[], Any]]:
    function, args, kwargs = made
    compiled = evalframe.torch.compile(function, backend="eager", is_compiling=is_compiling)
    took = seconds(lambda: compiled(*args, **kwargs))
    return took, evalframe.torch.graph_modules(compiled), lambda: compiled(*args, **kwargs)


def captured_by_torch(made: Made) -> tuple[float, list[Any], Callable[[], Any]]:
    function, args, kwargs = made
    torch._dynamo.reset()
    seen: list[Any] = []

    def eager(graph_module: Any, example_inputs: list[Any]) -> Any:
        seen.append(graph_module)
        return graph_module.forward

    compiled = torch.compile(function, backend=eager)
    took = seconds(lambda: compiled(*args, **kwargs))
    # A later reset has later calls traced again.
    return took, list(seen), lambda: compiled(*args, **kwargs)


class Ours(NamedTuple):
    made: Made
    run: float  # seconds of an eager call
    first: float
    graph_modules: list[Any]
    later: float


def calls(made: Made) -> Callable[[], Any]:
    function, args, kwargs = made
    return lambda: function(*args, **kwargs)


def ours(made: Made, repeat: int, is_compiling: bool) -> Ours:
    eager = calls(made)
    eager()
    run = least(eager, 20)
    results = (captured_by_evalframe(made, is_compiling) for _ in range(repeat))
    first, modules, call = min(results, key=lambda result: result[0])
    return Ours(made, run, first, modules, least(call, 30))


def row(name: str, mine: Ours, repeat: int) -> tuple[float, str]:
    calls(mine.made)()
    first, modules, call = min((captured_by_torch(mine.made) for _ in range(repeat)), key=lambda result: result[0])
    ratio = first / mine.first
    hits = [f"{(later - mine.run) * 1e6:8.1f}" for later in (mine.later, least(call, 30))]
    cells = [f"{name:12}", f"{mine.run * 1e3:9.3f}", f"{mine.first * 1e3:9.2f}", f"{first * 1e3:9.1f}", f"{ratio:6.1f}"]
    cells += [f"{len(side):3} / {operations(side):4}" for side in (mine.graph_modules, modules)]
    return ratio, "  ".join([*cells, *hits])


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    begin(options.device)
    print("              eager ms   ours ms   torch ms  ratio  graphs / operations       later calls, us over eager")
    ratios = []
    with torch.no_grad():
        captured_by_evalframe(made_on(options.device, "pointwise"), False)  # imports what it needs
        # All of them first: torch.compile patches nn.Module, for the rest of the process.
        made = {name: made_on(options.device, name) for name in options.only}
        mine = {name: ours(made[name], options.repeat, options.is_compiling) for name in options.only}
        captured_by_torch(made_on(options.device, "pointwise"))
        for name in options.only:
            ratio, text = row(name, mine[name], options.repeat)
            ratios.append(ratio)
            print(text, flush=True)
    print(f"geometric mean of the ratios: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.1f}")


if __name__ == "__main__":
    main()
