"""On a GPU: tensors, random numbers, streams and graphs of CUDA's. All other files run there with ``--device cuda``."""

import pytest
import torch
from torch import nn
from torch_models import made_on

import evalframe.torch

pytestmark = [pytest.mark.torch, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU with CUDA")]

BACKENDS = ["eager", "aot_eager", "inductor"]


@pytest.fixture(autouse=True)
def exact_products():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


def numbers(*shape, device="cuda"):
    return torch.randn(*shape, generator=torch.Generator(device="cpu").manual_seed(sum(shape)), device="cpu").to(device)


def is_close(a, b):
    return a.device == b.device and torch.allclose(a, b, rtol=1e-4, atol=1e-4)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.norm, self.narrow = nn.Linear(32, 64), nn.LayerNorm(64), nn.Linear(64, 8)

    def forward(self, x):
        return torch.softmax(self.narrow(torch.relu(self.norm(self.wide(x)))), -1)


@pytest.fixture
def network():
    torch.manual_seed(0)
    return Network().to("cuda")


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_and_gradients(network, backend):
    compiled = evalframe.torch.compile(network, backend=backend, fullgraph=True)
    x = numbers(16, 32)

    def gradients(called):
        network.zero_grad()
        called(x).square().sum().backward()
        return [each.grad for each in network.parameters()]

    wanted = gradients(network)
    for _ in range(3):
        got = gradients(compiled)
        assert all(torch.equal(a, b) if backend == "eager" else is_close(a, b) for a, b in zip(got, wanted, strict=True))
    assert is_close(compiled(x), network(x))
    assert len(evalframe.torch.graph_modules(compiled)) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_device_is_guarded(backend):
    def function(x, y):
        return torch.sin(x) * y + x.sum()

    compiled = evalframe.torch.compile(function, backend=backend)
    for device in ("cuda", "cpu", "cuda", "cpu"):
        x, y = numbers(8, device=device), numbers(8, device=device)
        assert is_close(compiled(x, y), function(x, y))
    assert len(evalframe.torch.graph_modules(compiled)) == 2
    with pytest.raises(RuntimeError, match="same device|two devices"):
        compiled(numbers(8), numbers(8, device="cpu"))


def test_tensors_that_move():
    def function(x):
        there = x.cuda() * 2
        back = there.cpu() + x
        return there.to("cpu", non_blocking=False), back, there.to(torch.float64), x.to(there.device) - 1

    x = numbers(8, device="cpu")
    compiled = evalframe.torch.compile(function, backend="eager", fullgraph=True)
    for _ in range(3):
        for a, b in zip(compiled(x), function(x), strict=True):
            assert a.device == b.device
            assert torch.equal(a, b)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_random_numbers_are_those_of_eager(backend):
    def function(x):
        return nn.functional.dropout(x, 0.5), torch.rand(4, device=x.device), torch.randn_like(x)

    x = numbers(64)
    compiled = evalframe.torch.compile(function, backend=backend)
    for _ in range(3):
        torch.manual_seed(3)
        wanted = function(x), torch.rand(2, device="cuda")
        torch.manual_seed(3)
        got = compiled(x), torch.rand(2, device="cuda")
        assert all(torch.equal(a, b) for a, b in zip(got[0], wanted[0], strict=True))
        assert torch.equal(got[1], wanted[1])


def test_a_compilation_draws_no_numbers(network):
    torch.manual_seed(5)
    wanted = torch.rand(3, device="cuda")
    torch.manual_seed(5)
    with torch.no_grad():
        evalframe.torch.compile(network, backend="inductor", options={"max_autotune": True})(numbers(16, 32))
    assert torch.equal(torch.rand(3, device="cuda"), wanted)


def test_autocast():
    def function(x, w):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            y = x @ w
        return y, x @ w

    x, w = numbers(8, 8), numbers(8, 8)
    for backend in BACKENDS:
        compiled = evalframe.torch.compile(function, backend=backend, fullgraph=True)
        for _ in range(2):
            for a, b in zip(compiled(x, w), function(x, w), strict=True):
                assert a.dtype == b.dtype
                assert torch.allclose(a, b, rtol=1e-2, atol=1e-2)


def test_values_end_graphs():
    def function(x):
        y = x * 2
        n = int(y.sum().item())
        return y + n, torch.nonzero(y > 0)

    x = torch.arange(5.0, device="cuda")
    compiled = evalframe.torch.compile(function, backend="eager")
    for _ in range(3):
        assert all(torch.equal(a, b) for a, b in zip(compiled(x), function(x), strict=True))


@pytest.mark.parametrize("backend", BACKENDS)
def test_calls_are_captured_by_cuda_graphs(network, backend):
    """Guards ask nothing of the device, and a hit makes nothing that a graph of CUDA's can't have in it."""
    compiled = evalframe.torch.compile(network, backend=backend)
    x, other = numbers(16, 32), numbers(17, 32)[1:].contiguous()
    with torch.no_grad():
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                compiled(x)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = compiled(x)
        x.copy_(other)
        graph.replay()
        assert is_close(result, network(other))
    assert len(evalframe.torch.graph_modules(compiled)) == 1


def test_what_asks_for_captures_is_recorded():
    def function(x):
        return x * 2 if torch.cuda.is_current_stream_capturing() else x + 1

    compiled = evalframe.torch.compile(function, backend="aot_eager", fullgraph=True)
    x = numbers(4)
    assert torch.equal(compiled(x), x + 1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = compiled(x)
    graph.replay()
    assert torch.equal(result, x * 2)
    assert torch.equal(compiled(x), x + 1)
    # What isn't compiled yet runs as it is while a graph of CUDA's is made.
    assert len(evalframe.torch.graph_modules(compiled)) == 1


def test_a_model_of_transformers_is_one_graph():
    pytest.importorskip("transformers")
    function, args, kwargs = made_on("cuda", "bert")
    compiled = evalframe.torch.compile(function, backend="eager", fullgraph=True)
    with torch.no_grad():
        wanted = function(*args, **kwargs)
        for _ in range(2):
            assert torch.equal(compiled(*args, **kwargs)[0], wanted[0])


@pytest.mark.parametrize("backend", ["cudagraphs", "inductor"])
def test_backends_with_cuda_graphs(network, backend):
    options = {"triton.cudagraphs": True} if backend == "inductor" else None
    compiled = evalframe.torch.compile(network, backend=backend, options=options)
    with torch.no_grad():
        for turn in range(6):
            x = numbers(16, 32 + turn)[:, :32].contiguous()
            torch.compiler.cudagraph_mark_step_begin()
            assert is_close(compiled(x), network(x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_streams(network, backend):
    compiled = evalframe.torch.compile(network, backend=backend)
    x = numbers(16, 32)
    streams = [torch.cuda.Stream() for _ in range(3)]
    torch.cuda.synchronize()
    with torch.no_grad():
        results = []
        for stream in streams:
            with torch.cuda.stream(stream):
                results.append(compiled(x))
        torch.cuda.synchronize()
        assert all(is_close(result, network(x)) for result in results)


def test_default_device():
    def function(n):
        return torch.arange(n) + torch.ones(n)

    compiled = evalframe.torch.compile(function, backend="inductor", fullgraph=True)
    with torch.device("cuda"):
        assert is_close(compiled(5), function(5))
        assert compiled(5).is_cuda
    assert not compiled(5).is_cuda


def test_failures_on_the_way():
    def function(x):
        return x.reshape(3, -1) @ torch.ones(7, 7, device=x.device)

    compiled = evalframe.torch.compile(function, backend="inductor")
    for _ in range(3):
        with pytest.raises(RuntimeError, match="mat1 and mat2"):
            compiled(numbers(6))


def test_triton_makes_the_kernels(network):
    from torch._inductor.utils import run_and_get_code

    compiled = evalframe.torch.compile(network, backend="inductor")
    with torch.no_grad():
        _, sources = run_and_get_code(compiled, numbers(16, 32))
    assert any("triton.jit" in source for source in sources)


@pytest.mark.parametrize("name", ["encoder", "bert", "llama", "resnet50", "mixtral", "t5"])
def test_models(name):
    if name not in ("encoder",):
        pytest.importorskip("transformers")
    function, args, kwargs = made_on("cuda", name)
    function.eval()
    compiled = evalframe.torch.compile(function, backend="eager", max_entries=30)
    with torch.no_grad():
        wanted = function(*args, **kwargs)
        for _ in range(3):
            got = compiled(*args, **kwargs)
            assert torch.equal(got[0], wanted[0])
