"""The device that the program names for all tensors that it makes: ``torch.set_default_device``, ``with torch.device``."""

import threading

import pytest
import torch
from torch.overrides import TorchFunctionMode

import evalframe.torch

pytestmark = pytest.mark.torch

BACKENDS = ["eager", "aot_eager", "inductor"]


@pytest.fixture(autouse=True)
def no_default_device():
    """Whatever the tests are run with."""
    before = torch.get_default_device()
    torch.set_default_device(None)
    yield
    torch.set_default_device(None if before == torch.device("cpu") else before)


class Counting(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.calls.append(getattr(function, "__name__", ""))
        return function(*args, **(kwargs or {}))


def made(n):
    places = torch.arange(n) * 2
    return places + torch.ones(n, dtype=torch.int64), torch.zeros(2, device="cpu"), torch.zeros_like(places)


def facts(results):
    return [(each.device, each.dtype, each.shape) for each in results]


def nodes(compiled):
    return [
        (node.name, node.kwargs.get("device"))
        for module in evalframe.torch.graph_modules(compiled)
        for node in module.graph.nodes
        if node.name.startswith(("arange", "ones", "zeros"))
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_graphs_name_the_device(backend):
    compiled = evalframe.torch.compile(made, backend=backend, fullgraph=True)
    torch.set_default_device("cpu")
    wanted = made(5)
    for _ in range(3):
        got = compiled(5)
        assert facts(got) == facts(wanted)
        assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))
    cpu = torch.device("cpu")
    assert nodes(compiled) == [("arange", cpu), ("ones", cpu), ("zeros", "cpu"), ("zeros_like", None)]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_each_device_has_its_graph(backend):
    compiled = evalframe.torch.compile(made, backend=backend)
    for _ in range(3):
        for device in ("meta", "cpu", "meta"):
            with torch.device(device):
                assert facts(compiled(5)) == facts(made(5))
                assert compiled(5)[0].device.type == device
        assert facts(compiled(5)) == facts(made(5))
    # meta, cpu, and without a mode
    assert len(evalframe.torch.graph_modules(compiled)) == 3


def test_the_mode_is_there_behind_a_compilation():
    compiled = evalframe.torch.compile(made, backend="inductor")
    with torch.device("cpu") as _:
        compiled(4)
        assert torch._C._len_torch_function_stack() == 1
        assert torch.get_default_device() == torch.device("cpu")
    assert torch._C._len_torch_function_stack() == 0


def test_a_compilation_that_fails_leaves_the_mode():
    def fails(graph_module, examples):
        assert torch._C._len_torch_function_stack() == 0
        raise ValueError("no")

    compiled = evalframe.torch.compile(made, backend=fails)
    with torch.device("meta"):
        with pytest.raises(evalframe.BackendError, match="no"):
            compiled(4)
        assert torch.ones(1).device.type == "meta"


def test_entered_on_the_way():
    def function(x):
        y = x * 2
        with torch.device("meta"):
            z = torch.ones(3) + 1
            with torch.device("cpu"):
                y = y + torch.ones(3)
        return y, z, torch.ones(2)

    compiled = evalframe.torch.compile(function, backend="eager")
    for _ in range(3):
        got = compiled(torch.arange(3.0))
        assert [each.device.type for each in got] == ["cpu", "meta", "cpu"]
        assert got[0].tolist() == [1, 3, 5]
        assert torch._C._len_torch_function_stack() == 0


def test_other_threads_have_none():
    compiled = evalframe.torch.compile(made, backend="eager")
    seen = []
    with torch.device("meta"):
        compiled(3)
        thread = threading.Thread(target=lambda: seen.append(facts(compiled(3))))
        thread.start()
        thread.join()
        assert compiled(3)[0].device.type == "meta"
    assert seen == [facts(made(3))]


def test_other_modes_see_each_call():
    compiled = evalframe.torch.compile(made, backend="eager")
    with torch.device("cpu"), Counting() as counting:
        wanted = facts(made(3))
        calls, counting.calls = counting.calls, []
        assert facts(compiled(3)) == wanted
        assert counting.calls == calls
        assert "arange" in calls
    assert not evalframe.torch.graph_modules(compiled)


def test_layers_that_a_program_makes_and_calls():
    torch.set_default_device("cpu")
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
    compiled = evalframe.torch.compile(model, backend="aot_eager", fullgraph=True)
    x = torch.randn(3, 4)
    for _ in range(3):
        torch.manual_seed(1)
        wanted = model(x)
        torch.manual_seed(1)
        assert torch.equal(compiled(x), wanted)
