"""Modes that recorded code switches on its way: autocast, the default dtype, inference mode, kernels of attention."""

import contextlib
import threading

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import evalframe.torch
from evalframe import GraphBreakError

pytestmark = pytest.mark.torch

BACKENDS = ["eager", "aot_eager", "inductor"]


def numbers(*shape):
    drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape) + 1), device="cpu")
    return drawn.to(torch.get_default_device())


def state():
    return (
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.is_autocast_cache_enabled(),
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
    )


def gradient(results, w):
    return torch.autograd.grad(sum(result.float().sum() for result in results if result.requires_grad), w)[0]


def nesting():
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def whole(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ w
        return y, torch.relu(y) @ w


def part(x, w):
    a = x @ w
    with torch.autocast("cpu", dtype=torch.bfloat16):
        b = x @ w
        with torch.autocast("cpu", enabled=False):
            c = x @ w
        d = x @ w
    return a, b, c, d, a @ w


@torch.autocast("cpu", dtype=torch.float16)
def decorated(x, w):
    return (x @ w + 1,)


def default_dtype(x, w):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        made = torch.ones(3)
    finally:
        torch.set_default_dtype(before)
    return made, torch.zeros(2), x @ w


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [whole, part, decorated, default_dtype])
def test_modes_are_part_of_graphs(function, backend):
    x, w = numbers(4, 4), numbers(4, 4).requires_grad_()
    before = state(), nesting()
    compiled = evalframe.torch.compile(function, backend=backend, fullgraph=True)
    wanted = function(x, w)
    for _ in range(3):
        got = compiled(x, w)
        for a, b in zip(got, wanted, strict=True):
            assert a.dtype == b.dtype
            assert a.requires_grad == b.requires_grad
            assert torch.equal(a, b) if backend != "inductor" else torch.allclose(a, b, atol=1e-2)
        assert (state(), nesting()) == before
    assert torch.allclose(gradient(got, w), gradient(wanted, w), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_modes_hold_behind_breaks_and_end_where_the_program_says(backend):
    seen = []

    def function(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ w
            seen.append(repr(y.dtype))
            if y.sum().item() > 1e9:
                return y
            z = x @ w
        return y, z, x @ w

    x, w = numbers(4, 4), numbers(4, 4)
    before = state(), nesting()
    compiled = evalframe.torch.compile(function, backend=backend)
    for _ in range(3):
        y, z, plain = compiled(x, w)
        assert [y.dtype, z.dtype, plain.dtype] == [torch.bfloat16, torch.bfloat16, torch.float32]
        assert torch.allclose(plain, x @ w)
        assert (state(), nesting()) == before
    assert seen == ["torch.bfloat16"] * 3


def test_exceptions_leave_modes_as_the_program_does():
    def function(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ w
            return y @ torch.ones(7, 7)

    before = state(), nesting()
    for backend in BACKENDS:
        compiled = evalframe.torch.compile(function, backend=backend)
        for _ in range(3):
            with pytest.raises(RuntimeError, match="mat1 and mat2"):
                compiled(numbers(4, 4), numbers(4, 4))
            assert (state(), nesting()) == before


def test_a_graph_that_may_not_break_leaves_modes_as_they_were():
    def function(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
            y = x @ w
            if y.sum().item() > 1e9:
                return y
        return x

    before = state(), nesting()
    with pytest.raises(GraphBreakError):
        evalframe.torch.compile(function, backend="eager", fullgraph=True)(numbers(4, 4), numbers(4, 4))
    assert (state(), nesting()) == before


def test_a_mode_around_the_call_is_another_graph():
    layer = nn.Linear(4, 4)
    compiled = evalframe.torch.compile(layer, backend="aot_eager", fullgraph=True)
    x = numbers(2, 4)
    for _ in range(2):
        assert compiled(x).dtype == torch.float32
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert compiled(x).dtype == torch.bfloat16
    assert len(evalframe.torch.graph_modules(compiled)) == 2


def test_nesting_is_the_callers():
    def function(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ w

    x, w = numbers(4, 4), numbers(4, 4)
    compiled = evalframe.torch.compile(function, backend="eager")
    assert compiled(x, w).dtype == compiled(x, w).dtype == torch.bfloat16
    with torch.autocast("cpu", dtype=torch.float16):
        inside = nesting()
        assert compiled(x, w).dtype == compiled(x, w).dtype == torch.bfloat16
        assert (x @ w).dtype == torch.float16
        assert nesting() == inside


@contextlib.contextmanager
def deterministic(warn_only):
    torch.use_deterministic_algorithms(True, warn_only=warn_only)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextlib.contextmanager
def other_number_of_threads():
    count = torch.get_num_threads()
    torch.set_num_threads(count + 1)
    try:
        yield
    finally:
        torch.set_num_threads(count)


@contextlib.contextmanager
def other_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


# What another graph is for, and what the program's modes see.
HOLDING = {
    "no gradients": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "another autocast": lambda: torch.autocast("cpu", dtype=torch.float16),
    "autocast without a cache": lambda: torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False),
    "autocast of another device": lambda: torch.autocast("cuda", enabled=torch.cuda.is_available(), cache_enabled=False),
    "deterministic": lambda: deterministic(False),
    "deterministic with warnings": lambda: deterministic(True),
    "threads": other_number_of_threads,
    "dtype": other_dtype,
    "no functions of torch's": torch._C.DisableTorchFunction,
    "a mode that sees calls": torch.overrides.BaseTorchFunctionMode,
}


def made_and_multiplied(x, w):
    return x @ w, torch.ones(2), torch.is_grad_enabled()


def looks_of(results):
    return [(each.dtype, each.requires_grad, each.is_inference()) for each in results[:2]] + [results[2]]


@pytest.mark.parametrize("calls", [3, 40])
def test_what_holds_in_a_thread_is_seen_in_later_calls(calls):
    compiled, x, w = evalframe.torch.compile(made_and_multiplied, backend="eager", max_entries=100), numbers(2, 2), numbers(2, 2).requires_grad_()
    graphs = evalframe.torch.graph_modules
    for _ in range(calls):
        compiled(x, w)
    assert len(graphs(compiled)) == 1
    for name, manager in HOLDING.items():
        count = len(graphs(compiled))
        for _ in range(2):
            with manager():
                for _ in range(3):
                    assert looks_of(compiled(x, w)) == looks_of(made_and_multiplied(x, w)), name
            for _ in range(3):
                assert looks_of(compiled(x, w)) == looks_of(made_and_multiplied(x, w)), name
        assert len(graphs(compiled)) == count + (name != "a mode that sees calls"), name


def test_threads_have_what_holds_in_each():
    compiled, x, w = evalframe.torch.compile(made_and_multiplied, backend="eager", max_entries=100), numbers(2, 2), numbers(2, 2).requires_grad_()
    turn, wrong = threading.Barrier(3), []

    def run(manager):
        with manager():
            for _ in range(20):
                turn.wait()
                if looks_of(compiled(x, w)) != looks_of(made_and_multiplied(x, w)):
                    wrong.append(manager)

    threads = [threading.Thread(target=run, args=(manager,)) for manager in (contextlib.nullcontext, torch.no_grad, torch.inference_mode)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Ended threads have left their places to others.
    for manager in (torch.no_grad, contextlib.nullcontext, torch.inference_mode):
        turn = threading.Barrier(1)
        thread = threading.Thread(target=run, args=(manager,))
        thread.start()
        thread.join()
    assert not wrong
    assert len(evalframe.torch.graph_modules(compiled)) <= 4


def inferred(x, w):
    a = x @ w
    with torch.inference_mode():
        b = x @ w + 1
        with torch.inference_mode(False):
            c = torch.relu(x @ w)
        d = b * 2
    return a, b, c, d, a @ w


@torch.inference_mode()
def all_inferred(x, w):
    return (x @ w + 1,)


def inferred_without_gradients(x, w):
    with torch.no_grad():
        with torch.inference_mode():
            b = x @ w
        c = x @ w
    return b, c, x @ w


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [inferred, all_inferred, inferred_without_gradients])
def test_inference_mode_is_part_of_graphs(function, backend):
    x, w = numbers(4, 4), numbers(4, 4).requires_grad_()
    before = state()
    compiled = evalframe.torch.compile(function, backend=backend, fullgraph=True)
    wanted = function(x, w)
    for _ in range(3):
        got = compiled(x, w)
        for a, b in zip(got, wanted, strict=True):
            assert (a.is_inference(), a.requires_grad) == (b.is_inference(), b.requires_grad)
            assert torch.equal(a, b) if backend != "inductor" else torch.allclose(a, b, atol=1e-5)
        assert state() == before
    if function is not all_inferred:
        assert torch.allclose(gradient(got, w), gradient(wanted, w))


@pytest.mark.parametrize("backend", BACKENDS)
def test_inference_mode_ends_where_the_program_says(backend):
    def branching(x, w):
        with torch.inference_mode():
            y = x @ w
            if y.sum() > 1e9:
                return y
            z = torch.relu(y)
        return z, x @ w

    def failing(x, w):
        with torch.inference_mode():
            y = x @ w
            return y @ torch.ones(7, 7)

    x, w = numbers(4, 4), numbers(4, 4).requires_grad_()
    before = state()
    compiled = evalframe.torch.compile(branching, backend=backend)
    for _ in range(3):
        z, plain = compiled(x, w)
        assert torch.allclose(z, torch.relu(x @ w), atol=1e-5)
        assert (z.is_inference(), plain.is_inference(), plain.requires_grad) == (True, False, True)
        assert state() == before
    compiled = evalframe.torch.compile(failing, backend=backend)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="mat1 and mat2"):
            compiled(x, w)
        assert state() == before
    with pytest.raises(GraphBreakError):
        evalframe.torch.compile(branching, backend=backend, fullgraph=True)(x, w)
    assert state() == before


KERNELS = [torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.mem_efficient_sdp_enabled, torch.backends.cuda.math_sdp_enabled]


def kernels():
    return [enabled() for enabled in KERNELS]


def attention(q):
    with sdpa_kernel(SDPBackend.MATH):
        a = functional.scaled_dot_product_attention(q, q, q)
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH, SDPBackend.MATH]):
            b = functional.scaled_dot_product_attention(a, q, q)
        c = functional.scaled_dot_product_attention(b, q, q)
    return a, b, c, functional.scaled_dot_product_attention(c, q, q)


@sdpa_kernel([SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION])
def decorated_attention(q):
    return (functional.scaled_dot_product_attention(q, q, q) + 1,)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [attention, decorated_attention])
def test_kernels_of_attention_are_part_of_graphs(function, backend):
    q = numbers(1, 2, 3, 4)
    compiled = evalframe.torch.compile(function, backend=backend, fullgraph=True)
    wanted = function(q)
    for _ in range(3):
        for a, b in zip(compiled(q), wanted, strict=True):
            assert torch.equal(a, b) if backend == "eager" else torch.allclose(a, b, atol=1e-6)
        assert kernels() == [True, True, True]


def test_kernels_of_attention_hold_behind_breaks():
    seen = []

    def function(q):
        with sdpa_kernel(SDPBackend.MATH):
            y = functional.scaled_dot_product_attention(q, q, q)
            seen.append(kernels())
            if y.sum().item() > 1e9:
                raise ValueError
            y = y + 1
        return functional.scaled_dot_product_attention(y, q, q)

    q = numbers(1, 2, 3, 4)
    compiled = evalframe.torch.compile(function, backend="eager")
    for _ in range(3):
        assert torch.equal(compiled(q), function(q))
        assert kernels() == [True, True, True]
    assert seen == [[False, False, True]] * 6


def test_kernels_of_attention_end_where_exceptions_leave_them():
    def function(q, k):
        with sdpa_kernel(SDPBackend.MATH):
            return functional.scaled_dot_product_attention(q, k, k)

    compiled = evalframe.torch.compile(function, backend="eager")
    q = numbers(1, 2, 3, 4)
    for _ in range(2):
        assert torch.equal(compiled(q, q), function(q, q))
    for _ in range(2):
        with pytest.raises(RuntimeError):
            compiled(q, numbers(1, 2, 3, 5))
        assert kernels() == [True, True, True]


def test_other_kernels_of_attention_are_another_graph():
    def function(q):
        return functional.scaled_dot_product_attention(q, q, q)

    q = numbers(1, 2, 3, 4)
    compiled = evalframe.torch.compile(function, backend="aot_eager")
    for _ in range(2):
        assert torch.allclose(compiled(q), function(q), atol=1e-6)
    with sdpa_kernel(SDPBackend.MATH):
        for _ in range(2):
            assert torch.equal(compiled(q), function(q))
    assert len(evalframe.torch.graph_modules(compiled)) == 2
