"""Branches on tensors that are there to refuse arguments: they are part of a graph, which is left where one raises.

PYTEST_DONT_REWRITE: the functions' assertions are to be the language's own.
"""

import pytest
import torch
from torch.distributions import Bernoulli, Beta, Categorical, Dirichlet, Distribution, Gamma, Normal, kl_divergence

import evalframe.torch

pytestmark = pytest.mark.torch

X = torch.linspace(-1, 1, 12).reshape(3, 4)


@pytest.fixture(autouse=True)
def _distributions_that_check(monkeypatch):
    """torch.compile has them check nothing, for the rest of the process."""
    monkeypatch.setattr(Distribution, "_validate_args", True)


def asserted(x):
    assert (x < 10).all(), "too large"
    return x * 2


def refused(x):
    if not torch.isfinite(x).all():
        names = [name for name in ("x", "y") if name]
        raise ValueError(f"{names[0]} isn't finite: {x.sum()}")
    return x.exp() + 1


def refused_by_any(x):
    y = x + 1
    if (y > 20).any():
        raise OverflowError("y")
    return y.sin()


def refused_in_turn(x):
    for number in range(3):
        if x.min() < -50 * (number + 1):
            raise ValueError(number)
        x = x * 2
    return x


def refused_behind_random_numbers(x):
    y = x + torch.rand(4)
    assert y.max() < 5
    return y + torch.rand(4)


def refused_between_writes(x):
    x += 1
    assert (x < 10).all()
    x *= 2
    return x


def handled(x):
    try:
        if (x > 10).any():
            raise ValueError("large")
        y = x * 3
    except ValueError as error:
        return x, str(error)
    return y, None


def came_of(function, *args):
    torch.manual_seed(3)
    try:
        result = function(*args)
    except Exception as error:
        lines, traceback = [], error.__traceback__.tb_next
        while traceback:
            lines.append(traceback.tb_lineno)
            traceback = traceback.tb_next
        return type(error), str(error), lines, [each.tolist() for each in args], torch.rand(2).tolist()
    parts = result if isinstance(result, tuple) else (result,)
    told = [each.tolist() if isinstance(each, torch.Tensor) else each for each in parts]
    return told, [each.tolist() for each in args], torch.rand(2).tolist()


def is_same(function, captured, *args):
    one, other = ([each.clone() for each in args] for _ in range(2))
    return repr(came_of(function, *one)) == repr(came_of(captured, *other))  # NaNs are equal then


ALL = [asserted, refused, refused_by_any, refused_in_turn, refused_behind_random_numbers, refused_between_writes, handled]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", ALL)
def test_what_is_refused_is_refused_by_the_program(function, backend):
    captured = evalframe.torch.compile(function, backend=backend)
    for x in (X, X + 1, X * 100, X + 2, X * float("nan"), X, X * 1000, X + 1):
        assert is_same(function, captured, x)


@pytest.mark.parametrize("function", [asserted, refused, refused_by_any, refused_in_turn, refused_behind_random_numbers])
def test_they_are_one_graph_without_a_break(function):
    captured = evalframe.torch.compile(function, backend="aot_eager", fullgraph=True)
    captured(X)
    assert len(evalframe.torch.graph_modules(captured)) == 1
    assert not evalframe.torch.explain(captured)(X + 0.5).breaks


def test_what_is_refused_first_is_no_graph_of_its_own():
    captured = evalframe.torch.compile(refused, backend="eager")
    for x in (X * float("inf"), X, X * float("nan"), X + 1):
        assert is_same(refused, captured, x)


def test_the_index_behind_a_check_is_in_the_graph_and_isnt_read_where_it_is_refused():
    def picked(x, index):
        if (index >= 4).any():
            raise IndexError(int(index.max()))
        return x[:, index] * 2

    captured = evalframe.torch.compile(picked, backend="aot_eager")
    for index in ([0, 1], [3, 3], [9, 1], [2, 0]):
        assert is_same(picked, captured, X, torch.tensor(index))


def test_gradients_go_through():
    def both(function):
        x = X.clone().requires_grad_()
        result = function(x)
        result.sum().backward()
        return result.tolist(), x.grad.tolist()

    captured = evalframe.torch.compile(refused, backend="aot_eager")
    for _ in range(2):
        assert both(captured) == both(refused)


def of_normal(m, s):
    d = Normal(m, s)
    return d.log_prob(m * 2), d.rsample(), d.entropy()


def of_gamma(m, s):
    return Gamma(s, s * 2).log_prob(m.abs() + 1)


def of_beta(m, s):
    return Beta(s, s + 1).mean * m


def of_dirichlet(m, s):
    d = Dirichlet(s)
    return d.log_prob(d.mean), d.sample() + torch.rand(4), m


def of_categorical(m, s):
    d = Categorical(logits=m / s)
    action = d.sample()
    return d.log_prob(action), d.entropy(), d.probs, action


def of_bernoulli(m, s):
    return Bernoulli(probs=s / (s + 1)).log_prob((m > 0).float()), Bernoulli(logits=m).mean


def of_two(m, s):
    return kl_divergence(Normal(m, s), Normal(m * 2, s + 1)), kl_divergence(Categorical(logits=m), Categorical(logits=s))


# What is looked up once in a process.
for pair in ((Normal(X, X.exp()), Normal(X, X.exp())), (Categorical(logits=X), Categorical(logits=X))):
    kl_divergence(*pair)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", [of_normal, of_gamma, of_beta, of_dirichlet, of_categorical, of_bernoulli, of_two])
def test_distributions_refuse_parameters(function, backend):
    captured = evalframe.torch.compile(function, backend=backend)
    for m, s in ((X, X.abs() + 0.5), (X, X), (X * float("nan"), X.abs() + 1), (X * 2, X.abs() + 0.5)):
        assert is_same(function, captured, m, s)
    fresh = evalframe.torch.compile(function, backend=backend, fullgraph=True)
    fresh(X, X.abs() + 0.7)
    assert len(evalframe.torch.graph_modules(fresh)) == 1


def test_sizes_that_vary_leave_it_open_whether_there_is_one_element():
    def refused_by_all(x):
        if (x > 5):
            raise ValueError("large")
        return x + 1

    captured = evalframe.torch.compile(refused_by_all, backend="eager")
    for x in (torch.ones(1), torch.ones(1, 1), torch.ones(2), torch.ones(3), torch.ones(()), torch.full((1,), 7.0)):
        assert is_same(refused_by_all, captured, x)


def test_none_is_done_behind_a_write():
    captured = evalframe.torch.compile(refused_between_writes, backend="aot_eager")
    for _ in range(2):
        captured(X.clone())
    assert len(evalframe.torch.graph_modules(captured)) == 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_is_drawn_stays_what_it_is_where_something_is_refused(backend):
    def draws(m, s):
        x = Gamma(s, s).rsample() + torch.rand(4)
        return x * Normal(m, s.exp()).sample(), torch.rand(4)

    captured = evalframe.torch.compile(draws, backend=backend)
    for m, s in ((X, X.abs() + 0.5), (X, X), (X * float("nan"), X.abs() + 1), (X * 2, X.abs() + 0.5), (X, X.abs() + 1)):
        assert is_same(draws, captured, m, s)
    evalframe.torch.compile(draws, backend=backend, fullgraph=True)(X, X.abs() + 0.7)
