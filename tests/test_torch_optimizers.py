"""What training does with gradients: reads them, clips them, and has optimizers step."""

from __future__ import annotations

import collections
import functools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import evalframe.torch

pytestmark = pytest.mark.torch

X = torch.linspace(-1, 1, 12).reshape(3, 4)
OPTIMIZERS = {
    "sgd": lambda of: torch.optim.SGD(of, 0.1, momentum=0.9, nesterov=True),
    "sgd of lists": lambda of: torch.optim.SGD(of, 0.1, momentum=0.9, foreach=True),
    "adamw": lambda of: torch.optim.AdamW(of, 1e-2, amsgrad=True),
    "adamw of lists": lambda of: torch.optim.AdamW(of, 1e-2, foreach=True),
    "adam": lambda of: torch.optim.Adam(of, 1e-2),
    "nadam": lambda of: torch.optim.NAdam(of, 1e-2),
    "rmsprop of lists": lambda of: torch.optim.RMSprop(of, 1e-2, centered=True, foreach=True),
    "lbfgs": lambda of: torch.optim.LBFGS(of, 0.5, max_iter=3),
}


def trained(optimizer, wraps):
    """Losses, norms and parameters of a few steps."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
    steps, told = OPTIMIZERS[optimizer](model.parameters()), []

    def loss_of(x):
        steps.zero_grad()
        loss = F.mse_loss(model(x), x[:, :2] * 2)
        loss.backward()
        told.append(nn.utils.clip_grad_norm_(model.parameters(), 0.5).item())
        return loss

    def step(x):
        loss = steps.step(lambda: loss_of(x)) if optimizer == "lbfgs" else loss_of(x)
        if optimizer != "lbfgs":
            steps.step()
        return loss.item()

    called = wraps(step)
    told += [called(X + number) for number in range(5)]
    return told, [parameter.tolist() for parameter in model.parameters()]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_are_those_of_eager(optimizer):
    compiled = functools.partial(evalframe.torch.compile, backend="eager")
    assert trained(optimizer, compiled) == trained(optimizer, lambda step: step)


@pytest.mark.parametrize("is_compiling", [False, True])
@pytest.mark.parametrize("optimizer", [name for name in OPTIMIZERS if name != "lbfgs"])
def test_a_step_is_one_recording(optimizer, is_compiling):
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
    steps = OPTIMIZERS[optimizer](model.parameters())

    def step():
        steps.step()

    model(X).sum().backward()
    step()  # its state is there behind this one
    compiled = evalframe.torch.compile(step, backend="eager", is_compiling=is_compiling)
    before = [parameter.clone() for parameter in model.parameters()]
    for _ in range(3):
        compiled()
    assert not evalframe.torch.explain(compiled)().breaks
    assert all(not torch.equal(parameter, then) for parameter, then in zip(model.parameters(), before, strict=True))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.AdamW])
def test_a_step_whose_number_is_a_tensor_is_one_graph(optimizer, foreach, backend):
    """With default options: the number of the step is taken out of a tensor for each parameter, into a list for all of
    them."""

    def losses(wraps):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
        steps, found = optimizer(model.parameters(), 1e-2, foreach=foreach), []
        step = wraps(lambda: steps.step())
        for number in range(50):
            steps.zero_grad()
            loss = F.mse_loss(model(X + number % 5), X[:, :2] * 2)
            loss.backward()
            if number:
                step()
            else:
                steps.step()
            found.append(loss.item())
        return found, step

    # What inductor imports at first has typing forget what a step asks it for.
    evalframe.torch.compile(lambda x: x + 1, backend=backend)(X)
    (expected, _), (found, compiled) = losses(lambda step: step), losses(functools.partial(evalframe.torch.compile, backend=backend))
    assert found == expected if backend == "eager" else found == pytest.approx(expected, abs=1e-6)
    assert not evalframe.torch.explain(compiled)().breaks
    assert len(evalframe.torch.graph_modules(compiled)) == 1


def of_aot(graphs):
    """A backend that tells how many operations its graphs have."""
    aot_eager = torch._dynamo.lookup_backend("aot_eager")

    def backend(module, examples):
        graphs.append(sum(node.op != "placeholder" for node in module.graph.nodes) - 1)
        return aot_eager(module, examples)

    return backend


@pytest.mark.parametrize("is_compiling", [False, True])
@pytest.mark.parametrize("optimizer", [name for name in OPTIMIZERS if name != "lbfgs"])
def test_steps_are_given_to_backends(optimizer, is_compiling):
    graphs, results = [], []
    for wraps in (lambda step: step, functools.partial(evalframe.torch.compile, backend=of_aot(graphs), is_compiling=is_compiling)):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
        steps = OPTIMIZERS[optimizer](model.parameters())
        called = wraps(steps.step)
        for number in range(5):
            model(X + number).square().sum().backward()
            called()
        results.append([parameter.detach() for parameter in model.parameters()])
    for expected, found in zip(*results):
        torch.testing.assert_close(found, expected)
    assert is_compiling <= (max(graphs) >= 5)


def in_a_with(p, q, g):
    with torch.no_grad():
        for each in (p, q):
            each -= 0.5 * g
    return p.sum()


@torch.no_grad()
def under_a_decorator(p, q, g):
    for each in (p, q):
        each.add_(g)
    return q * 2


def in_two(p, q, g):
    with torch.no_grad():
        with torch.autograd.profiler.record_function("update"):
            p.add_(g)
        q.mul_(p)
    return p + q


class Telling(torch.no_grad):
    told = []

    def __exit__(self, *about):
        self.told.append(about[0])
        super().__exit__(*about)


def in_a_programs_own(p, q, g):
    with Telling():
        p.add_(g)
    return p.sum()


def in_a_try(p, q, g):
    try:
        p.data.add_(g)
        with torch.no_grad():
            q.add_(g)
    finally:
        Telling.told.append(None)
    return p.sum()


@pytest.mark.parametrize("function", [in_a_with, under_a_decorator, in_two, in_a_programs_own, in_a_try])
def test_writes_in_a_with_of_torchs_are_given_to_backends(function):
    """What handles exceptions otherwise may look at the tensors that were written into until then: the recorded calls run it."""
    graphs = []
    compiled = evalframe.torch.compile(function, backend=of_aot(graphs))
    function(X.clone(), X.clone(), X)  # torch imports what it needs for that
    given = [[nn.Parameter(X.clone()), nn.Parameter(X + 1), X * 2] for _ in range(2)]
    for _ in range(4):
        Telling.told.clear()
        expected = function(*given[0]), list(Telling.told)
        Telling.told.clear()
        found = compiled(*given[1]), list(Telling.told)
        assert torch.equal(found[0], expected[0]) and found[1] == expected[1]
        assert all(map(torch.equal, *given)) and torch.is_grad_enabled()
    handled = function in (in_a_programs_own, in_a_try)
    assert graphs == ([] if handled else [1, 3] if function is in_two else [graphs[0]]), graphs


def test_a_backend_that_fails_in_a_with_leaves_nothing_switched():
    def backend(module, examples):
        def raises(*inputs):
            torch._C._set_grad_enabled(False)
            raise ValueError("no")

        return raises

    compiled = evalframe.torch.compile(in_a_with, backend=backend)
    compiled(X.clone(), X.clone(), X)
    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            compiled(X.clone(), X.clone(), X)
        assert torch.is_grad_enabled()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_writes_are_done_whoever_uses_what_they_give(backend):
    def function(p, q, g):
        for each in (p, q):
            each -= g
        kept = g.clone()
        each = kept
        each *= 2
        torch.rand(2)
        each = torch.rand(2)
        each = 0
        return p.sum() + kept + torch.rand(())

    module = evalframe.torch.compile(function, backend=torch._dynamo.lookup_backend(backend))
    given = [[X.clone(), X + 1, X * 2] for _ in range(2)]
    for _ in range(3):
        torch.manual_seed(0)
        expected = function(*given[0])
        torch.manual_seed(0)
        assert torch.equal(module(*given[1]), expected)
        assert all(map(torch.equal, *given))


def test_the_profiler_is_told_from_graphs():
    def call(x):
        with torch.autograd.profiler.record_function("inner"):
            y = x * 2
        return y + 1

    call(X)
    compiled = evalframe.torch.compile(call, backend="eager", fullgraph=True)
    for _ in range(3):
        with torch.profiler.profile() as profile:
            assert torch.equal(compiled(X), call(X))
        inner = [event for event in profile.events() if event.name == "inner"]
        assert len(inner) == 2 and all([child.name for child in event.cpu_children] == ["aten::mul"] for event in inner)

    def raises(x):
        with torch.autograd.profiler.record_function("inner"):
            return x @ x

    compiled = evalframe.torch.compile(raises, backend="eager")
    for _ in range(3):
        with torch.profiler.profile() as profile, pytest.raises(RuntimeError):
            compiled(X)
        assert [event.name for event in profile.events() if event.name == "inner"] == ["inner"]


def test_gradients_are_clipped_in_one_graph():
    model = nn.Linear(4, 4)
    model(X).sum().backward()
    kept = [parameter.grad.clone() for parameter in model.parameters()]

    def clip(x):
        return nn.utils.clip_grad_norm_(model.parameters(), 1.0) + x

    compiled = evalframe.torch.compile(clip, backend="eager", fullgraph=True)
    for factor in (1, 2, 3):
        results = []
        for called in (clip, compiled):
            for parameter, gradient in zip(model.parameters(), kept):
                parameter.grad = gradient * factor
            results.append((called(X).tolist(), [parameter.grad.tolist() for parameter in model.parameters()]))
        assert results[0] == results[1]
    assert len(evalframe.torch.graph_modules(compiled)) == 1


def test_gradients_are_read_in_each_call():
    layer = nn.Linear(4, 4)

    def read(x):
        gradients = [parameter.grad for parameter in layer.parameters() if parameter.grad is not None]
        return x + sum(gradient.sum() for gradient in gradients), len(gradients), layer.weight.grad

    compiled = evalframe.torch.compile(read, backend="eager", fullgraph=True)
    for weight, bias in [(None, None), (torch.ones(4, 4), None), (torch.zeros(4, 4), torch.ones(4)), (None, None)]:
        layer.weight.grad, layer.bias.grad = weight, bias
        expected, found = read(X), compiled(X)
        assert torch.equal(expected[0], found[0]) and expected[1:] == found[1:]
        assert found[2] is weight
    assert len(evalframe.torch.graph_modules(compiled)) == 3


def test_gradients_of_others_than_leaves_warn_in_their_place():
    def read(x):
        y = x * 2
        return y.grad

    compiled = evalframe.torch.compile(read, backend="eager")
    x = torch.ones(2, requires_grad=True)
    for called in (read, compiled, compiled):
        with pytest.warns(UserWarning, match="not a leaf") as told:
            assert called(x) is None
        assert told[0].filename == __file__


LISTS = [X[0], X[1]]
DOUBLE, WHOLE, NOWHERE = X.double()[0], torch.ones(4, dtype=torch.int64), torch.ones(4, device="meta")


@pytest.mark.parametrize(
    "arguments",
    [
        ([LISTS], False), ([LISTS, LISTS], True), ([LISTS, [None, X]], True), ([[X], [DOUBLE]], True),  # one group
        ([], False), ([[]], False), ([LISTS, [1]], False), ([[None]], False), (LISTS, False), ((tuple(LISTS),), False), ([LISTS],),
        ([LISTS, LISTS], 1), ([[X], [WHOLE]], True), ([[DOUBLE, X]], True), ([LISTS, [NOWHERE, NOWHERE]], True), ([[NOWHERE]], True),
    ],
)  # fmt: skip
def test_groups_of_tensors_are_torchs(arguments):
    group = torch._C._group_tensors_by_device_and_dtype

    def function(*given):
        return group(*given)

    def outcome(called):
        try:
            groups = called(*arguments)
        except Exception as error:
            return type(error), str(error)
        return list(groups), [(list(map(list, lists)), indices) for lists, indices in groups.values()]

    compiled = evalframe.torch.compile(function, backend="eager")
    for _ in range(3):
        assert repr(outcome(compiled)) == repr(outcome(function))


def test_a_dict_of_tensors_keys_is_looked_into():
    """Inputs with keys that look alike have names of their own."""
    parameters = [nn.Parameter(torch.full((2,), float(number))) for number in range(3)]
    state = collections.defaultdict(dict)
    for parameter in parameters:
        state[parameter]["momentum"] = parameter.detach() + 1

    def function(x):
        return sum(x * state[parameter]["momentum"] for parameter in parameters)

    for backend in ("eager", lambda module, examples: module.forward):
        compiled = evalframe.torch.compile(function, backend=backend, fullgraph=True)
        for number in range(3):
            state[parameters[1]]["momentum"] = torch.full((2,), float(number))
            assert torch.equal(compiled(X[0, :2]), function(X[0, :2]))
        assert len(evalframe.torch.graph_modules(compiled)) == 1
    compiled = evalframe.torch.compile(function, backend="eager")
    compiled(X[0, :2])
    state.pop(parameters[0])
    with pytest.raises(KeyError, match="momentum"):
        compiled(X[0, :2])


def two_layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))


@pytest.mark.parametrize("clears", ["optimizer", "module", "by hand"])
def test_gradients_are_cleared_between_the_same_graphs(clears):
    """A step has one break, at `backward()`: what clears gradients is no other for each parameter."""

    def made(wraps):
        model = two_layers()
        steps = torch.optim.SGD(model.parameters(), 0.1)

        def clear():
            if clears == "by hand":
                for parameter in model.parameters():
                    parameter.grad = None
            else:
                (steps if clears == "optimizer" else model).zero_grad()

        def step(x):
            clear()
            seen = [parameter.grad for parameter in model.parameters()]
            loss = F.mse_loss(model(x), x[:, :2])
            loss.backward()
            steps.step()
            return loss, seen

        return model, wraps(step)

    (plain, step), (model, captured) = made(lambda step: step), made(functools.partial(evalframe.torch.compile, backend="eager"))
    for number in range(5):
        expected, found = step(X + number), captured(X + number)
        assert torch.equal(expected[0], found[0]) and found[1] == expected[1] == [None] * 4
        for one, other in zip(plain.parameters(), model.parameters(), strict=True):
            assert torch.equal(one, other) and torch.equal(one.grad, other.grad)
    before = len(evalframe.torch.graph_modules(captured))
    captured(X)
    assert len(evalframe.torch.graph_modules(captured)) == before
    assert not any("Parameter" in str(found) for found in evalframe.torch.explain(captured)(X).breaks)


def test_one_parameter_under_two_names_has_one_gradient():
    def clears(one, other):
        one.grad = None
        seen = other.grad
        other.grad = None
        return seen, (one * 2).sum()

    captured = evalframe.torch.compile(clears, backend="eager")
    for alike in (False, True, False, True):
        one = nn.Parameter(torch.ones(2))
        other = one if alike else nn.Parameter(torch.ones(2))
        one.grad, other.grad = torch.ones(2), torch.full((2,), 3.0)
        seen, result = captured(one, other)
        assert (seen is None) if alike else seen.tolist() == [3.0, 3.0]
        assert one.grad is None and other.grad is None and result.item() == 4


def test_what_is_told_of_the_end_of_a_gradient_is_told_in_its_place():
    import weakref

    told = []

    def clears(parameter):
        parameter.grad = None
        told.append("behind")
        return parameter * 2

    captured = evalframe.torch.compile(clears, backend="eager")
    for _ in range(3):
        told.clear()
        parameter = nn.Parameter(torch.ones(2))
        parameter.grad = torch.ones(2)
        weakref.finalize(parameter.grad, told.append, "gradient")
        captured(parameter)
        assert told == ["gradient", "behind"]


def test_a_step_that_a_scheduler_watches_is_one_recording():
    """A scheduler puts a function of its own in the place of `step`, which finds the optimizer by a weak reference."""

    def made():
        model = two_layers()
        steps = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        rate = torch.optim.lr_scheduler.StepLR(steps, 2, 0.5)
        model(X).sum().backward()
        steps.step()
        return model, steps, rate

    (plain, plain_steps, plain_rate), (model, steps, rate) = made(), made()
    captured = evalframe.torch.compile(lambda: steps.step(), backend="eager")
    for _ in range(5):
        plain_steps.step()
        captured()
        plain_rate.step()
        rate.step()
    for one, other in zip(plain.parameters(), model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert steps._opt_called and not evalframe.torch.explain(captured)().breaks


@pytest.mark.parametrize("optimizer", [name for name in OPTIMIZERS if name != "lbfgs"])
def test_what_the_first_step_makes_is_found_by_the_next(optimizer):
    """A recording that ends where the optimizer has no state yet gives way to one that goes on."""

    def made(wraps):
        model = two_layers()
        steps = OPTIMIZERS[optimizer](model.parameters())

        def step(x):
            steps.zero_grad()
            loss = F.mse_loss(model(x), x[:, :2])
            loss.backward()
            steps.step()
            return loss

        return model, wraps(step)

    (plain, step), (model, captured) = made(lambda step: step), made(functools.partial(evalframe.torch.compile, backend="eager"))
    for number in range(6):
        assert torch.equal(step(X + number), captured(X + number))
        for one, other in zip(plain.parameters(), model.parameters(), strict=True):
            assert torch.equal(one, other)
    before = evalframe.stats()
    captured(X)
    after = evalframe.stats()
    assert {name: after[name] - before[name] for name in ("served", "exits")} == {"served": 2, "exits": 1}


def test_a_key_that_is_put_into_a_table_later_is_found():
    table = collections.defaultdict(list)

    def looks(key, name, x):
        table[name].append(len(table[key]))
        table[key].append(name)
        return x * len(table[key])

    captured = evalframe.torch.compile(looks, backend="eager")
    keys = [nn.Parameter(torch.ones(1)) for _ in range(2)]
    told, plain = [], collections.defaultdict(list)
    for key, name in [(0, "a"), (0, "a"), (1, "a"), (0, "b"), (1, "b"), (1, "a"), (0, "a")]:
        plain[name].append(len(plain[keys[key]]))
        plain[keys[key]].append(name)
        told.append((captured(keys[key], name, X), X * len(plain[keys[key]])))
    assert all(torch.equal(found, expected) for found, expected in told)
    assert list(table.values()) == list(plain.values())
