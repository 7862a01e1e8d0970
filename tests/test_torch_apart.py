"""What stands apart from all tensors, looks into caches and context variables, doesn't cut a backend's graphs in two."""

import contextvars
import functools

import pytest
import torch
from torch.nn import functional

import evalframe.torch

pytestmark = pytest.mark.torch

VARIABLE = contextvars.ContextVar("VARIABLE", default=0)


@functools.lru_cache(maxsize=None)
def looked_up(name):
    return len(name)


@functools.lru_cache(maxsize=None)
def size_of(name):
    return len(name)


def run(module, inputs):
    return module.forward


def cached(x):
    y = x * 2
    if looked_up("abc") == 3:
        y = y + 1
    return torch.relu(y) - 1


def behind_an_effect(x):
    y = x * 2
    y += looked_up("abc")
    if looked_up("abcd") == 4:
        y = y * 3
    y.add_(1)
    return y


def in_a_shape(x):
    y = x * 2
    return y.reshape(size_of("abc"), -1) + 1


def context(x, token):
    y = x * 2
    VARIABLE.reset(token)
    return y + 1


def check_counts(compiled, function, *arguments):
    """Of the cache, too: what it did for the compiled function and for the plain one."""
    before = looked_up.cache_info()
    found = compiled(*arguments)
    between = looked_up.cache_info()
    assert torch.equal(found, function(*arguments))
    after = looked_up.cache_info()
    assert (between.hits - before.hits, between.misses - before.misses) == (after.hits - between.hits, after.misses - between.misses)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", run])
@pytest.mark.parametrize("function", [cached, behind_an_effect])
def test_caches_count_as_they_do(function, backend):
    looked_up.cache_clear()
    function(torch.ones(6))
    compiled = evalframe.torch.compile(function, backend=backend)
    for number in range(4):
        check_counts(compiled, function, torch.arange(6.0) - number)


def picks(table, first, second):
    y = table[first] * 2
    looked_up("abc")
    return y + table[second]


@pytest.mark.raises_in_kernels
@pytest.mark.parametrize("backend", ["eager", "aot_eager", run])
def test_what_raises_comes_before_or_behind_a_lookup(backend):
    looked_up("abc")
    compiled = evalframe.torch.compile(picks, backend=backend)
    table, inside, outside = torch.arange(4.0), torch.tensor([1, 2]), torch.tensor([1, 9])
    for first, second in [(inside, inside), (inside, inside), (outside, inside), (inside, outside), (inside, inside)]:
        found = []
        for called in (compiled, picks):
            before = looked_up.cache_info().hits
            try:
                result = called(table, first, second).tolist()
            except (IndexError, RuntimeError) as error:
                result = type(error)
            found.append((result, looked_up.cache_info().hits - before))
        assert found[0] == found[1]


def test_a_lookup_cuts_nothing():
    cached(torch.ones(6))
    compiled = evalframe.torch.compile(cached, backend=run, fullgraph=True)
    for number in range(3):
        check_counts(compiled, cached, torch.arange(6.0) - number)
    (graph,) = evalframe.torch.graph_modules(compiled)
    assert [node.name for node in graph.graph.nodes if node.op not in ("placeholder", "output")] == ["mul", "add", "relu", "sub"]


def places(x):
    order = torch.argsort(x)
    looked_up("abc")
    back = torch.empty_like(order)
    back[order] = torch.arange(len(x))
    looked_up("abc")
    return x[back]


def test_writing_into_what_the_graph_has_made_cuts_nothing():
    places(torch.ones(6))
    compiled = evalframe.torch.compile(places, backend=run)
    for number in range(3):
        check_counts(compiled, places, torch.arange(6.0) - number)
    assert len(evalframe.torch.graph_modules(compiled)) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager", run])
@pytest.mark.parametrize("function", [cached, behind_an_effect, places])
def test_a_cache_that_was_cleared_is_filled_again(function, backend):
    compiled = evalframe.torch.compile(function, backend=backend)
    for number in range(6):
        x = torch.arange(6.0) - number
        found = []
        for called in (compiled, function):
            if number % 2:
                looked_up.cache_clear()
            called(x) if number == 0 else None
            before = looked_up.cache_info()
            result = called(x)
            after = looked_up.cache_info()
            found.append((result.tolist(), after.misses - before.misses, after.hits - before.hits))
        assert found[0] == found[1]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", run])
def test_what_is_looked_up_for_an_operation_comes_before_it(backend):
    compiled = evalframe.torch.compile(in_a_shape, backend=backend)
    for number in range(3):
        x = torch.arange(6.0) - number
        assert torch.equal(compiled(x), in_a_shape(x))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", run])
def test_context_variables_are_reset_once(backend):
    compiled = evalframe.torch.compile(context, backend=backend)
    for number in range(4):
        token = VARIABLE.set(number + 1)
        assert torch.equal(compiled(torch.ones(3), token), torch.ones(3) * 2 + 1)
        assert VARIABLE.get() == 0
        with pytest.raises(RuntimeError, match="already been used once"):
            compiled(torch.ones(3), token)
        assert VARIABLE.get() == 0


@pytest.mark.parametrize("backend", ["eager", "aot_eager", run])
def test_operations_that_are_switched_off_act_on_nothing(backend):
    weight, tokens = torch.arange(12.0).reshape(4, 3), torch.tensor([1, 3])

    def function(weight, p, norm, training):
        y = functional.embedding(tokens, weight, max_norm=norm)
        looked_up("abc")
        y = functional.scaled_dot_product_attention(y[None], y[None], y[None], dropout_p=p)
        return functional.dropout(y, 0.5, training=training), weight + 0

    compiled = evalframe.torch.compile(function, backend=backend)
    for arguments in [(0.0, None, False), (0.0, 1.0, False), (0.5, None, False), (0.0, None, True), (0.5, 2.0, True)]:
        for seed in range(2):
            results = []
            for called in (compiled, function):
                torch.manual_seed(seed)
                own = weight.clone()
                results.append([*called(own, *arguments), own])
            for mine, plain in zip(*results, strict=True):
                torch.testing.assert_close(mine, plain)


def into_new(x):
    n = 0
    n += x * 2
    try:
        y = n + 1
        y += x
        y *= 3
        return torch.relu(y) + n
    except RuntimeError:
        return x


def into_parts_of_new(x):
    try:
        places = torch.zeros_like(x)
        places[1:] = x[1:]
        values, order = torch.topk(places, 3)
        values /= values.sum() + 10
        return values, order, places
    except RuntimeError:
        return x


def into_given(x):
    try:
        torch.arange(6, out=x)
        x[0] = 5.0
        return x * 2
    except RuntimeError:
        return x


def into_a_convolution(x):
    try:
        y = torch.nn.functional.conv1d(x.view(1, 1, -1), torch.ones(1, 1, 3))
        y += torch.sigmoid(y)
        z = torch.nn.functional.batch_norm(y, torch.zeros(1), torch.ones(1))
        z *= 2
        return z
    except RuntimeError:
        return x


def into_a_dropout(x):
    """In evaluation that gives what it got."""
    try:
        y = torch.nn.functional.dropout(x, training=False)
        y += 1
        return y
    except RuntimeError:
        return x


def into_what_came(x):
    try:
        x += 1
        return x * 2
    except RuntimeError:
        return x


def into_a_view(x):
    y = (x + 1).reshape(-1)
    try:
        z = x.view(-1)
        z += y
        return z * 2
    except RuntimeError:
        return x


@pytest.mark.parametrize(("function", "compiles"), [(into_new, True), (into_a_convolution, True), (into_a_dropout, False), (into_parts_of_new, True), (into_given, False), (into_what_came, False), (into_a_view, False)])
def test_what_writes_into_new_tensors_alone_may_be_run_twice(function, compiles):
    given = []

    def backend(module, inputs):
        given.append(module)
        return module.forward

    compiled = evalframe.torch.compile(function, backend=backend)
    for scale in (1.0, 2.0, 3.0):
        x = torch.linspace(-1.0, scale, 6)
        other = x.clone()
        found, wanted = compiled(x), function(other)
        for each, plain in zip(*(side if isinstance(side, tuple) else (side,) for side in (found, wanted)), strict=True):
            assert torch.equal(each, plain)
        assert torch.equal(x, other)
    assert bool(given) == compiles
