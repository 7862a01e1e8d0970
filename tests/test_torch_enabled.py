"""Whole programs for torch's backends: enabled(), run and jit take their names, and capture what gets tensors."""

import subprocess
import sys

import pytest
import torch
from torch import nn

import evalframe
import evalframe.torch
from evalframe import _core

pytestmark = pytest.mark.torch


def numbers(*shape):
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape) + 1), device="cpu")
    return drawn.to(torch.get_default_device())


class Seen:
    """A backend of torch's that keeps the graphs that it is given."""

    def __init__(self):
        self.graphs = []

    def __call__(self, module, inputs):
        self.graphs.append([str(node.target) for node in module.graph.nodes if node.op.startswith("call")])
        return module.forward


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.inner(x)) + x


def train(model, steps):
    """As a script does it, with losses told of on the way."""
    torch.manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    losses = []
    for step in range(steps):
        x = numbers(8 + step % 2, 4)
        loss = nn.functional.mse_loss(model(x), x.flip(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def made(dropout=0.1):
    torch.manual_seed(0)
    return nn.Sequential(Block(), nn.Tanh(), nn.Dropout(dropout), Block())


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_training_script_is_captured_as_it_is(backend):
    dropout = 0 if backend == "inductor" else 0.1  # whose random numbers are its own
    wanted_model, model = made(dropout), made(dropout)
    wanted = train(wanted_model, 6)
    before = evalframe.stats()["hits"]
    with evalframe.enabled(backend=backend):
        got = train(model, 6)
    assert got == pytest.approx(wanted, rel=1e-5)
    if backend == "eager":
        assert got == wanted
    assert evalframe.stats()["hits"] >= before + 2
    for a, b in zip(model.parameters(), wanted_model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_a_backend_of_the_users_own_sees_whole_modules():
    seen = Seen()
    model, x = made().eval(), numbers(3, 4)
    wanted = model(x)
    with evalframe.torch.enabled(backend=seen):
        assert torch.equal(model(x), wanted)
        assert torch.equal(model(x), wanted)
    assert len(seen.graphs) == 1
    assert len(seen.graphs[0]) == 8
    assert torch.equal(model(x), wanted)
    assert len(seen.graphs) == 1


def test_sizes_vary_under_it_as_asked():
    for dynamic, graphs in ((True, 1), (None, 2), (False, 3)):
        seen = Seen()
        with evalframe.torch.enabled(backend=seen, dynamic=dynamic):
            for size in (5, 6, 7):
                x = numbers(size, 4)
                assert torch.equal(scaled(x), x * 2 + 1)
        assert len(seen.graphs) == graphs, dynamic


def scaled(x):
    return x * 2 + 1


def batch_mean(batch):
    return sum(batch) / len(batch), batch[0].shape


def by_name(batch):
    return {name: value + 1 for name, value in batch.items()}


def test_batches_count_as_tensors():
    x, y = numbers(3), numbers(3)
    seen = Seen()
    with evalframe.torch.enabled(backend=seen):
        assert torch.equal(batch_mean([x, y])[0], sum([x, y]) / 2)
        assert torch.equal(batch_mean((x, y))[0], sum([x, y]) / 2)
        assert torch.equal(by_name({"a": x})["a"], x + 1)
    assert len(seen.graphs) == 3


def test_what_runs_a_graph_is_not_captured_again():
    seen = Seen()
    x = numbers(3)
    with evalframe.torch.enabled(backend=seen):
        for _ in range(4):
            assert torch.equal(scaled(x), x * 2 + 1)
    assert len(seen.graphs) == 1


def with_a_break(x):
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y - 1


@pytest.mark.parametrize("function", [scaled, with_a_break])
def test_a_program_goes_on_being_served_by_its_graphs(function):
    x, ran = numbers(3), []

    def backend(module, inputs):
        return lambda *given: ran.append(len(given)) or module.forward(*given)

    compiled = evalframe.torch.compile(function, backend=backend)
    calls = 300  # so many exits without an array would end it
    for _ in range(calls):
        assert torch.equal(compiled(x), function(x))
    served = len(ran)
    with evalframe.torch.enabled(backend=backend):
        for _ in range(calls):
            function(x)
    assert min(served, len(ran) - served) >= calls - 1


def test_enabled_is_for_its_block_and_its_thread():
    seen = Seen()
    enabled = evalframe.torch.enabled(backend=seen)
    x = numbers(3)
    scaled(x)
    with pytest.raises(ZeroDivisionError), enabled:
        scaled(x)
        raise ZeroDivisionError
    scaled(x)
    assert len(seen.graphs) == len(evalframe.torch.graph_modules(enabled)) == 1
    with pytest.raises(RuntimeError, match="isn't entered"):
        enabled.__exit__(None, None, None)


def test_a_script_is_run_for_a_backend(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\n"
        "model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())\n"
        "for i in range(4):\n"
        "    with torch.no_grad():\n"
        "        print(model(torch.ones(2, 4)).shape)\n"
    )
    page = tmp_path / "page.html"
    command = [sys.executable, "-m", "evalframe", "run", "--backend", "aot_eager", "--report", str(page), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout == "torch.Size([2, 4])\n" * 4
    assert done.returncode == 0
    assert "calls" in done.stderr
    assert "linear" in page.read_text()


def test_jit_takes_modules_and_torchs_backends():
    block, x = Block(), numbers(2, 4)
    assert torch.equal(evalframe.jit(block, backend="eager")(x), block(x))
    assert isinstance(evalframe.jit(block), Block)
    jitted = evalframe.jit(backend="aot_eager", fullgraph=True)(scaled)
    assert torch.equal(jitted(x), scaled(x))
    assert len(evalframe.torch.graph_modules(jitted)) == 1
    with pytest.raises(ValueError, match="torch's backends have options of their own"):
        evalframe.jit(scaled, backend="eager", exact=True)
    with pytest.raises(ValueError, match="unknown backend 'no such'"):
        evalframe.jit(scaled, backend="no such")


def test_the_name_of_the_core_is_nobodys():
    with pytest.raises(ValueError, match="evalframe's own"):
        evalframe.register_backend("torch", lambda graph, inputs: None)


def test_what_torch_captures_itself_is_left_to_it():
    model, x = made().eval(), numbers(3, 4)
    wanted = model(x)
    plain = str(torch.jit.trace(model, x).graph)
    traced = torch.compile(scaled, backend="aot_eager")
    seen = Seen()
    with evalframe.torch.enabled(backend=seen):
        model(x)
        graph = str(torch.jit.trace(model, x).graph)
        assert graph.count("CallMethod") == plain.count("CallMethod")
        count = len(seen.graphs)
        assert torch.equal(traced(x), scaled(x))
        assert len(seen.graphs) == count + 1  # `scaled` itself, as it is called here
        assert torch.equal(torch.export.export(model, (x,)).module()(x), wanted)


def test_a_compiled_module_is_traced_as_it_is():
    model, x = made().eval(), numbers(3, 4)
    for backend in ("eager", "aot_eager"):
        compiled = evalframe.torch.compile(model, backend=backend)
        compiled(x)
        traced = torch.jit.trace(compiled, x)
        y = numbers(5, 4)
        assert torch.equal(traced(y), model(y))


def outer(x):
    return traced_inside(x) * 2


def traced_inside(x):
    return x.cos() + 1


def test_torch_compile_stands_in_captured_code(monkeypatch):
    wanted = outer(numbers(3))
    monkeypatch.setitem(outer.__globals__, "traced_inside", torch.compile(traced_inside, backend="eager"))
    with evalframe.torch.enabled(backend="aot_eager"):
        for _ in range(3):
            assert torch.equal(outer(numbers(3)), wanted)
