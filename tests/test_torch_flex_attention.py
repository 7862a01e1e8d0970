"""flex_attention: one node, with modules for what is done to scores and for its mask, as under torch.compile."""

import warnings

import pytest
import torch
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

import evalframe.torch

pytestmark = pytest.mark.torch

torch.manual_seed(0)
SLOPES = torch.tensor([0.5, 0.25])
BIAS = torch.nn.Parameter(torch.randn(16, 16))
DOCUMENTS = torch.tensor([0] * 6 + [1] * 10)
FACTORS = [2.0]


def is_before(batch, head, query, key):
    return query >= key


def is_of_document(batch, head, query, key):
    return DOCUMENTS[query] == DOCUMENTS[key]


BEFORE = create_block_mask(is_before, None, None, 16, 16, device="cpu", BLOCK_SIZE=8)
OF_DOCUMENTS = create_block_mask(is_of_document, None, None, 16, 16, device="cpu", BLOCK_SIZE=8)

LONG = create_block_mask(is_before, None, None, 128, 128, device="cpu")


def plain(q, k, v):
    return flex_attention(q * 2, k, v) + 1


def masked(q, k, v):
    return flex_attention(q * 2, k, v, block_mask=BEFORE) + 1


def of_documents(q, k, v):
    return flex_attention(q, k, v, block_mask=OF_DOCUMENTS, scale=0.3)


def with_slopes(q, k, v):
    def score(score, batch, head, query, key):
        return score + SLOPES[head] * (key - query)

    return flex_attention(q, k, v, score_mod=score, block_mask=BEFORE)


def with_bias(q, k, v):
    return flex_attention(q, k, v, score_mod=lambda score, b, h, query, key: score * FACTORS[0] + BIAS[query, key])


def of_groups(q, k, v):
    return flex_attention(q, k[:, :1], v[:, :1], enable_gqa=True, kernel_options={"BLOCK_M": 16})


def with_sums(q, k, v):
    found, told = flex_attention(q, k, v, block_mask=BEFORE, return_aux=AuxRequest(lse=True))
    return found + told.lse.unsqueeze(-1)


PROGRAMS = [plain, masked, of_documents, with_slopes, with_bias, of_groups, with_sums]


def given(length=16, seed=1):
    drawn = torch.Generator().manual_seed(seed)
    return [torch.randn(1, 2, length, 8, generator=drawn) for _ in range(3)]


@pytest.fixture(autouse=True)
def without_gradients_and_warnings():
    """torch goes back through it on other devices alone, and warns that it isn't compiled."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flex_attention(*given())
        yield


def check(function, captured, **settings):
    assert torch.equal(captured(*given(**settings)), function(*given(**settings)))


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_it_is_one_node_with_two_modules(function):
    captured = evalframe.torch.compile(function, backend="eager")
    for seed in (1, 1, 2):
        check(function, captured, seed=seed)
    assert not evalframe.torch.explain(captured)(*given()).breaks
    (module,) = evalframe.torch.graph_modules(captured)
    (call,) = (node for node in module.graph.nodes if getattr(node.target, "__name__", "") == "flex_attention")
    assert [node.target for node in call.all_input_nodes if node.op == "get_attr"] == ["score_mod_0", "mask_fn_0"]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_its_nodes_are_those_of_torch_compile(function):
    found = []

    def backend(module, _):
        found.append(module)
        return module

    torch._dynamo.reset()
    torch.compile(function, backend=backend)(*given())
    captured = evalframe.torch.compile(function, backend="eager")
    captured(*given())

    def shape(module):
        """Without what vmap asks of torch once."""
        nodes = [getattr(node.target, "__name__", node.target) for node in module.graph.nodes if node.op not in ("placeholder", "get_attr")]
        return [name for name in nodes if name != "lazy_load_decompositions"], sorted(map(shape, module.children()))

    assert shape(evalframe.torch.graph_modules(captured)[0]) == shape(found[0])


def long(q, k, v):
    return flex_attention(q, k, v, score_mod=lambda score, *places: score * FACTORS[0], block_mask=LONG)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_backends_get_it(backend):
    """On a CPU inductor has it for long rows alone, with nothing behind it."""
    captured = evalframe.torch.compile(long, backend=backend)
    for seed in (1, 1, 2):
        torch.testing.assert_close(captured(*given(128, seed)), long(*given(128, seed)))
    assert not evalframe.torch.explain(captured)(*given(128)).breaks


def test_what_its_functions_read_is_guarded():
    captured = evalframe.torch.compile(with_bias, backend="eager")
    check(with_bias, captured)
    FACTORS[0] = 3.0
    try:
        check(with_bias, captured)
    finally:
        FACTORS[0] = 2.0
    check(with_bias, captured)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_sizes_may_vary(backend):
    captured = evalframe.torch.compile(plain, backend=backend)
    for length in (16, 12, 7, 16):
        torch.testing.assert_close(captured(*given(length=length)), plain(*given(length=length)))


def test_nobody_is_warned_and_it_is_compiled_once():
    warned = torch.nn.attention.flex_attention._WARNINGS_SHOWN
    warned.discard("flex_attention_performance")
    captured = evalframe.torch.compile(masked, backend="aot_eager")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(3):
            captured(*given())
    assert not [warning for warning in told if "flex_attention" in str(warning.message)]
    assert len(evalframe.torch.graph_modules(captured)) == 1


def tells_others(q, k, v):
    def score(score, batch, head, query, key):
        FACTORS.append(1.0)
        return score

    return flex_attention(q, k, v, score_mod=score)


def raises(q, k, v):
    return flex_attention(q, k, v, score_mod=lambda score, *places: score + torch.ones(3) @ torch.ones(4))


@pytest.mark.parametrize("function", [tells_others, raises], ids=lambda function: function.__name__)
def test_what_can_be_no_module_is_done_as_torch_does_it(function):
    def outcome(called):
        torch._dynamo.reset()
        try:
            return called(*given())
        except Exception as error:
            return type(error)
        finally:
            del FACTORS[1:]

    captured = evalframe.torch.compile(function, backend="eager")
    for _ in range(3):
        expected, found = outcome(function), outcome(captured)
        assert torch.equal(found, expected) if isinstance(expected, torch.Tensor) else found is expected
