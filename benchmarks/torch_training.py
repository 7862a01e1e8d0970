"""Trains two small models beside eager PyTorch and torch.compile, in this process, and compares the losses.

    python benchmarks/torch_training.py [--only gpt cnn] [--backend eager inductor] [--steps 50] [--device cuda]

A GPT learns to count in steps, a CNN scikit-learn's digits; both with AdamW. For each way of running: by how much the
loss of a step differs from eager's at most, the seconds of the first step, and the median of those from the sixth on.
inductor draws other numbers for dropout than eager does, so the CNN has none; its caches are off. It wants torch, and
scikit-learn for the digits.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1")  # what was compiled first would be found by the other

import torch
from machine import duration, machine
from torch import nn
from torch.nn import functional
from torch_models import where

import evalframe.torch

WORDS, LENGTH = 64, 32
Batches = Iterator[tuple[torch.Tensor, torch.Tensor]]


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.behind = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attended, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widened, self.narrowed = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.attended(self.before(x)).split(width, dim=2)
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.joined(y.transpose(1, 2).reshape(batch, length, width))
        narrowed: torch.Tensor = self.narrowed(functional.gelu(self.widened(self.behind(x))))
        return x + narrowed


class GPT(nn.Module):
    def __init__(self, width: int = 64, blocks: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, WORDS, bias=False)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.words(words) + self.places(torch.arange(words.shape[1], device=words.device))
        for block in self.blocks:
            x = block(x)
        found: torch.Tensor = self.head(self.norm(x))
        return found


def cnn() -> nn.Module:
    seeing = [nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3)]
    return nn.Sequential(*seeing, nn.ReLU(), nn.Flatten(), nn.Linear(32 * 4, 10))


def sequences(steps: int) -> Batches:
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        start = torch.randint(0, WORDS, (8, 1), generator=generator)
        stride = torch.randint(1, 4, (8, 1), generator=generator)
        words = (start + stride * torch.arange(LENGTH + 1)) % WORDS
        yield words[:, :-1], words[:, 1:]


def digits(steps: int) -> Batches:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    seen, said = torch.tensor(images, dtype=torch.float32).view(-1, 1, 8, 8) / 16, torch.tensor(labels)
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        rows = torch.randint(0, len(seen), (64,), generator=generator)
        yield seen[rows], said[rows]


PROGRAMS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Batches]]] = {
    "gpt": (GPT, sequences),
    "cnn": (cnn, digits),
}


def trained(name: str, wrap: Callable[[nn.Module], Any], steps: int, device: str) -> tuple[list[float], list[float]]:
    """The loss and the seconds of each step."""
    torch.manual_seed(0)
    make, batches = PROGRAMS[name]
    model = make().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    called = wrap(model)
    losses, times = [], []
    for x, y in ((x.to(device), y.to(device)) for x, y in batches(steps)):
        start = time.perf_counter()
        found = called(x)
        loss = functional.cross_entropy(found.reshape(-1, found.shape[-1]), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        times.append(time.perf_counter() - start)
    return losses, times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(PROGRAMS), default=list(PROGRAMS))
    parser.add_argument("--backend", nargs="*", default=["eager", "inductor"])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(", ".join(f"{key} {value}" for key, value in machine().items()), where(options.device), sep=", ")
    ways: dict[str, Callable[[nn.Module], Any]] = {"eager": lambda model: model}
    for backend in options.backend:
        ways[f"evalframe, {backend}"] = lambda model, backend=backend: evalframe.torch.compile(model, backend=backend)
        ways[f"torch.compile, {backend}"] = lambda model, backend=backend: torch.compile(model, backend=backend)
    for way in list(ways.values())[1:]:  # imports what it needs
        way(nn.Linear(2, 2).to(options.device))(torch.ones(1, 2, device=options.device))
    print("                                loss   differs by    first step       others")
    for name in options.only:
        wanted: list[float] = []
        for way, wrap in ways.items():
            losses, times = trained(name, wrap, options.steps, options.device)
            wanted = wanted or losses
            differs = max(abs(a - b) for a, b in zip(losses, wanted, strict=True))
            rest = statistics.median(times[5:] or times)
            told = f"{losses[-1]:7.4f}   {differs:10.2e}  {duration(times[0]):>12} {duration(rest):>12}"
            print(f"{name:4} {way:24} {told}", flush=True)


if __name__ == "__main__":
    main()
