"""Programs that are one graph, as under torch.compile."""

import functools

import pytest
import torch

import evalframe.torch

pytestmark = pytest.mark.torch

layer = torch.nn.Linear(8, 8)
attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
hooked = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())


def double(module, arguments, result):
    return result * 2


def shift(module, arguments, keywords):
    return (arguments[0] + 1, *arguments[1:]), keywords


hooked[0].register_forward_hook(double)
hooked[1].register_forward_pre_hook(shift, with_kwargs=True)


def with_hooks(x):
    return hooked(x)


def attends(x):
    return attention(x[None], x[None], x[None])[0]


def is_another(x):
    y = x + 1
    return y * 2 if y is not x and x is not y and (x + 1) is not y else y


def counts_elements(x):
    return x.reshape(x.shape[:-1] + (2, 4)) + x.shape.numel()


def of_partials(x):
    return functools.partial(functools.partial(torch.add, x), alpha=2)(x) + functools.partial(torch.mul, x)(*(x,))


def of_partials_with_names(x):
    inner = functools.partial(torch.addcmul, value=2)
    outer = functools.partial(inner, x, tensor2=x + 1, value=3)
    return outer(tensor1=x)


def asks_for_classes(x):
    return x + issubclass(type(x), torch.Tensor) if not issubclass(type(x), tuple) else x


def of_partials_with_starred_arguments(x):
    names = {"alpha": 2}
    return functools.partial(torch.add, *(x,), **names)(x + 1)


def asks_for_gradients_again(x):
    y = layer(x)
    return y.requires_grad_() * 2 if y.requires_grad else y


WHOLE = [of_partials_with_starred_arguments, asks_for_gradients_again, with_hooks, attends, is_another, counts_elements, of_partials, of_partials_with_names, asks_for_classes]


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("function", WHOLE, ids=lambda function: function.__name__)
def test_it_is_one_graph(function, gradients):
    compiled = evalframe.torch.compile(function, backend="eager", fullgraph=True)
    x = torch.linspace(-1, 1, 32).reshape(4, 8).requires_grad_(gradients)
    with torch.set_grad_enabled(gradients):
        for _ in range(3):
            assert torch.equal(compiled(x), function(x))
    assert len(evalframe.torch.graph_modules(compiled)) == 1


def test_hooks_are_called_in_the_order_that_they_have():
    module = torch.nn.Linear(8, 8)
    module.register_forward_hook(lambda module, arguments, result: result * 3)
    second = module.register_forward_hook(lambda module, arguments, result: result + 1)
    compiled = evalframe.torch.compile(module, backend="eager")
    x = torch.ones(4, 8)
    changes = [
        lambda: None,
        lambda: module._forward_hooks.move_to_end(second.id, last=False),
        lambda: module._forward_hooks.move_to_end(second.id),
        lambda: module.register_forward_hook(lambda module, arguments, result: -result, prepend=True),
        second.remove,
    ]
    with torch.no_grad():
        for change in changes:
            change()
            for _ in range(40):  # behind what is settled about its guards
                assert torch.equal(compiled(x), module(x))


def test_a_tensor_that_may_be_the_same_is_asked_for():
    def same_or_not(x, y):
        return x * 2 if x.contiguous() is y else y * 3

    compiled = evalframe.torch.compile(same_or_not, backend="eager")
    x, y = torch.ones(3), torch.ones(3)
    for first, second in [(x, y), (x, x), (y, x), (y, y)]:
        assert torch.equal(compiled(first, second), same_or_not(first, second))


def test_a_seed_is_set_and_the_rest_captured():
    def draws(x):
        torch.manual_seed(3)
        return (x + torch.rand(8)) * 2

    compiled = evalframe.torch.compile(draws, backend="eager")
    x = torch.ones(8)
    for _ in range(3):
        assert torch.equal(compiled(x), draws(x))
    assert any("rand" in str(module.graph) for module in evalframe.torch.graph_modules(compiled))
