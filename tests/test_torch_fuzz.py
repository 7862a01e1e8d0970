"""Random programs on tensors, plain and compiled: operations in place, views and aliases, loops, branches, `with` and `try`, on inputs that change."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import torch

import evalframe.torch

pytestmark = pytest.mark.torch

EXPRESSIONS = [
    "torch.sin({a})", "{a} * {b}", "{a} + {b}", "{a} - {b}", "{a}.abs()", "torch.maximum({a}, {b})", "{a} * {k}", "{k} - {a}", "torch.where({a} > {b}, {a}, {b})", "torch.relu({a})",
    "{a}.clone()", "{a}.detach()", "torch.zeros_like({a})", "{a} + {b}.sum()", "{a} * {s}", "{a}.t().t()", "torch.add({a}, {b}, alpha={k})", "{a}.clamp(-2, 2)", "-{a}", "{a} + {b}[0]",
    "{a} + {b}[:, 1:2]", "torch.stack([{a}, {b}]).sum(0)", "torch.cat([{a}, {b}])[: len({a})]", "{a}.mean(1, keepdim=True) + {b}", "{a} @ {b}.t() @ {a} * 0.1", "torch.rand_like({a})",
    "{a}.float()", "{a}.contiguous()", "{a}.view(-1).view({a}.shape)", "helper({a}, {b})", "swap({a}, {b})[0]", "{a}.expand_as({b})", "torch.cumsum({a}, 0)", "{a}.flip(0)",
]  # fmt: skip
WRITES = [
    "{a} += {e}", "{a} -= {e}", "{a} *= {e}", "{a}.add_({e})", "{a}.mul_({e})", "{a}.copy_({e})", "{a}.zero_()", "{a}[0] = {e}[1]", "{a}[:, 1] += {e}[:, 2]", "{a}[1:] *= {k}",
    "torch.add({a}, {e}, out={a})", "{a}.clamp_(-1, 1)", "{a}[{a} > 1] = {k}", "{a}.t().add_({k})", "{a}[0].fill_({k})", "{a} += {s}", "{a}.sub_({e}, alpha={k})", "torch.relu_({a})",
    "writes({a}, {e})", "{a}.masked_fill_({a} < 0, {k})", "{a}.data.mul_({k})", "{a}[-1], {a}[0] = {a}[0].clone(), {a}[-1].clone()", "torch._foreach_add_([{a}], [{e}])", "{a}.uniform_()",
]  # fmt: skip
VIEWS = ["{a}[1:]", "{a}[0]", "{a}.t()", "{a}[:, :2]", "{a}.view(-1)", "{a}.unsqueeze(0)", "{a}.detach()", "{a}", "{a}.narrow(0, 0, 2)"]
USES = ["v += 1", "v.mul_(2)", "v *= n", "kept.append(v)", "v[0] = 1", "v.add_(v)", "kept.append(v * 2); v -= 1"]
NUMBERS = ["s = s * 2", "s = s + n", "s = {a}.sum().item() * 0.01", "s = float({a}[0, 0])", "n = n + len({a})", "s = {a}.shape[0] * 0.1"]
CONDITIONS = ["n > 2", "len(x) > 3", "x.requires_grad", "s > 3", "{a}.sum() > {k}"]
MANAGERS = ["torch.no_grad()", "torch.no_grad()", "torch.enable_grad()", "torch.autograd.profiler.record_function('r')", "torch.inference_mode(False)"]
RAISING = ["{a}.view(7)", "{a}[10]", "torch.linalg.cholesky(-torch.eye(2))", "1 / 0", "torch.gather({a}, 0, torch.full((1, 1), n))", "kept.append(1)"]
KINDS = ["assign"] * 5 + ["write"] * 6 + ["view", "keep", "number", "delete"]
BLOCKS = ["each", "loop", "branch", "manager", "attempt"]
HELPERS = """
import torch

def helper(a, b):
    c = a * 2
    c += b
    return c

def swap(a, b):
    return b, a

def writes(a, b):
    for each in (a, a):
        each += b * 0.5
        each = None
    return a
"""


class Writer:
    """Writes a function of two tensors and a number. Each method of KINDS and BLOCKS writes one statement."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.names = ["x", "y"]
        self.lines = ["def program(x, y, n):", "    s, kept = 0.5, []"]

    def program(self) -> str:
        self.block(1, self.random.randint(3, 9))
        self.line(1, f"return {', '.join(self.names)}, kept, s")
        return HELPERS + "\n".join(self.lines) + "\n"

    def line(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def filled(self, forms: list[str]) -> str:
        return self.random.choice(forms).format(a=self.random.choice(self.names), e=self.expression(1), k=self.constant(), s=self.random.choice("ns"))

    def constant(self) -> str:
        return self.random.choice(["2", "0.5", "-1", "3", "1", "0.25"])

    def expression(self, depth: int = 0) -> str:
        if depth > 1 or self.random.random() < 0.3:
            return self.random.choice(self.names)
        a, b = (f"({self.expression(depth + 1)})" for _ in "ab")
        return self.random.choice(EXPRESSIONS).format(a=a, b=b, k=self.constant(), s=self.random.choice("ns"))

    def block(self, indent: int, most: int = 2) -> None:
        self.line(indent, "pass")
        for _ in range(self.random.randint(1, most)):
            getattr(self, self.random.choice(KINDS + (BLOCKS if indent < 4 else [])))(indent)

    def assign(self, indent: int) -> None:
        name = self.random.choice("abcde" if indent == 1 else self.names)
        self.line(indent, f"{name} = {self.expression()}")
        if name not in self.names:
            self.names.append(name)

    def write(self, indent: int) -> None:
        self.line(indent, self.filled(WRITES))

    def view(self, indent: int) -> None:
        self.line(indent, f"v = {self.filled(VIEWS)}")
        self.line(indent, self.random.choice(USES))

    def keep(self, indent: int) -> None:
        self.line(indent, f"kept.append({self.expression()})")

    def number(self, indent: int) -> None:
        self.line(indent, self.filled(NUMBERS))

    def delete(self, indent: int) -> None:
        if indent == 1 and len(self.names) > 3:
            self.line(indent, f"del {self.names.pop(self.random.randrange(2, len(self.names)))}")

    def each(self, indent: int) -> None:
        self.line(indent, f"for each in ({self.filled(['{a}, {a}'])}, x):")
        self.line(indent + 1, self.random.choice(WRITES).format(a="each", e=self.expression(1), k=self.constant(), s="s"))
        self.block(indent + 1, 1)

    def loop(self, indent: int) -> None:
        self.line(indent, f"for i in range({self.random.choice('23n')}):")
        self.block(indent + 1)
        self.line(indent + 1, "s = s + i")

    def branch(self, indent: int) -> None:
        self.line(indent, f"if {self.filled(CONDITIONS)}:")
        self.block(indent + 1, 1)
        self.line(indent, "else:")
        self.block(indent + 1, 1)

    def manager(self, indent: int) -> None:
        self.line(indent, f"with {self.random.choice(MANAGERS)}:")
        self.block(indent + 1)

    def attempt(self, indent: int) -> None:
        self.line(indent, "try:")
        self.block(indent + 1)
        self.line(indent + 1, self.filled(RAISING))
        self.line(indent, self.random.choice(["finally:", "except (RuntimeError, IndexError, ZeroDivisionError):"]))
        self.line(indent + 1, f"kept.append({self.filled(['{a} * 2'])})")


def given(call: int, leaf: bool) -> tuple[list[Any], Any]:
    """The arguments of a call, and what gradients are wanted of."""
    numbers = torch.Generator().manual_seed(call)
    rows, n = [(3, 2), (3, 2), (3, 3), (5, 2), (3, 1), (4, 4)][call]
    x, y = (torch.randn(rows, 4, generator=numbers) for _ in range(2))
    return [x.requires_grad_().clone() if leaf else x, y, n], x


def flat(value: Any) -> list[Any]:
    return [type(value), *(part for each in value for part in flat(each))] if isinstance(value, (tuple, list)) else [value]


def told(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().view(-1).tolist(), value.shape, value.stride(), value.dtype, value.requires_grad, value.is_leaf


def outcome(program: Callable[..., Any], call: int, leaf: bool) -> str:
    """What a call comes to: its values, which of them are one or share memory, its arguments behind it, gradients, the random state."""
    arguments, wanted = given(call, leaf)
    torch.manual_seed(call)
    try:
        result: Any = ["value", program(*arguments)]
    except Exception as error:
        frames = [(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<program>"]
        result = ["raised", type(error), str(error).partition("\n")[0], frames]
    switched, drawn = torch.is_grad_enabled(), torch.rand(2).tolist()
    values = flat(result) + arguments
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    pairs = [(i, j, a is b, a.data_ptr() == b.data_ptr()) for i, a in enumerate(tensors) for j, b in enumerate(tensors[:i]) if a is b or a.data_ptr() == b.data_ptr()]
    all_told = [told(value) for value in values]
    gradient: Any = None
    losses = [tensor.sum() for tensor in tensors if tensor.requires_grad]
    if leaf and losses:
        try:
            sum(losses).backward()  # type: ignore[union-attr]
            gradient = told(wanted.grad)
        except RuntimeError as error:
            gradient = str(error).partition("\n")[0]
    return repr((all_told, pairs, drawn, gradient, switched))


BACKENDS: dict[str, Any] = {"recorded calls": "eager", "modules": lambda module, examples: module.forward}
AT_ONCE = 20


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("first", range(0, 100, AT_ONCE))
def test_programs_are_as_plain(first, backend):
    for seed in range(first, first + AT_ONCE):
        source = Writer(seed).program()
        for leaf in (False, True):
            plain: dict[str, Any] = {}
            captured: dict[str, Any] = {}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for names in (plain, captured):
                    exec(compile(source, "<program>", "exec"), names)
                compiled = evalframe.torch.compile(captured["program"], backend=BACKENDS[backend])
                for call in range(6):
                    expected, found = outcome(plain["program"], call, leaf), outcome(compiled, call, leaf)
                assert found == expected, f"seed {seed}, call {call}, {'with' if leaf else 'without'} gradients:\n{source}"
