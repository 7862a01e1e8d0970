"""What a module keeps is found as torch.nn.Module.__getattr__ finds it, though that isn't followed."""

import functools

import pytest
import torch
from torch import nn

import evalframe.torch

pytestmark = pytest.mark.torch


class Keeps(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([2.0, 3.0]))
        self.register_parameter("bias", None)
        self.register_buffer("scale", torch.tensor(4.0))
        self.inner = nn.Linear(2, 2)

    def forward(self, x):
        y = self.inner(x * self.weight) * self.scale
        return y if self.bias is None else y + self.bias


def same(model, captured, x):
    with torch.no_grad():
        return torch.equal(captured(x), model(x))


def entries(captured):
    return len(evalframe.torch.graph_modules(captured))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Keeps()


@pytest.fixture
def x():
    return torch.tensor([[1.0, -2.0]])


def test_one_graph_serves_while_the_module_keeps_the_same(model, x):
    captured = evalframe.torch.compile(model, backend="eager")
    for _ in range(3):
        assert same(model, captured, x)
    assert entries(captured) == 1


def put_bias(model):
    model.bias = nn.Parameter(torch.tensor([5.0, 6.0]))


def replace_layer(model):
    model.inner = nn.Linear(2, 2)


def replace_layer_by_function(model):
    del model.inner
    model.inner = torch.relu


def move_to_buffers(model):
    weight = model.weight
    del model.weight
    model.register_buffer("weight", weight.detach() + 1)


def shadow(model):
    model.__dict__["scale"] = torch.tensor(7.0)


def other_dict(model):
    model.__dict__["_buffers"] = {"scale": torch.tensor(8.0)}


def in_place_of_buffer(model):
    model.scale = torch.tensor(9.0)


@pytest.mark.parametrize(
    "change",
    [
        put_bias,
        replace_layer,
        replace_layer_by_function,
        move_to_buffers,
        shadow,
        other_dict,
        in_place_of_buffer,
    ],
)
def test_a_change_of_what_the_module_keeps_is_seen(model, x, change):
    captured = evalframe.torch.compile(model, backend="eager")
    assert same(model, captured, x) and same(model, captured, x)
    before = captured(x)
    change(model)
    assert same(model, captured, x) and same(model, captured, x)
    assert not torch.equal(captured(x), before)


def test_what_was_taken_out_is_missing(model, x):
    captured = evalframe.torch.compile(model, backend="eager")
    assert same(model, captured, x)
    del model.scale
    for _ in range(2):
        with pytest.raises(AttributeError, match="'Keeps' object has no attribute 'scale'"):
            captured(x)


class Asks(nn.Module):
    def forward(self, x):
        if hasattr(self, "later"):
            return x * self.later
        return x + getattr(self, "never", 1)


def test_what_is_missing_is_asked_for_again(x):
    model = Asks()
    captured = evalframe.torch.compile(model, backend="eager")
    assert same(model, captured, x) and same(model, captured, x)
    model.later = nn.Parameter(torch.tensor(3.0))
    assert same(model, captured, x) and same(model, captured, x)


def test_a_getattr_of_the_programs_own_is_followed(model, x, monkeypatch):
    captured = evalframe.torch.compile(model, backend="eager")
    assert same(model, captured, x)
    plain = nn.Module.__getattr__

    def doubled(self, name):
        found = plain(self, name)
        return found * 2 if name == "scale" else found

    monkeypatch.setattr(nn.Module, "__getattr__", doubled)
    fresh = evalframe.torch.compile(model, backend="eager")
    for each in (captured, fresh):
        assert same(model, each, x) and same(model, each, x)


def test_other_code_of_the_same_function_is_followed(model, x, monkeypatch):
    plain = nn.Module.__getattr__
    kept = plain.__code__

    def other(self, name):
        if name == "scale":
            return self.__dict__["_buffers"][name] + 100
        for kept in (self.__dict__["_parameters"], self.__dict__["_modules"]):
            if name in kept:
                return kept[name]
        raise AttributeError(name)

    captured = evalframe.torch.compile(model, backend="eager")
    assert same(model, captured, x)
    before = captured(x)
    try:
        plain.__code__ = other.__code__
        assert same(model, captured, x) and same(model, captured, x)
        assert not torch.equal(captured(x), before)
    finally:
        plain.__code__ = kept
    assert torch.equal(captured(x), before)


class Changes(nn.Module):
    """Reads what it has changed on its way."""

    def __init__(self, how):
        super().__init__()
        self.how = how
        self.register_buffer("seen", torch.tensor(1.0))
        self.layers = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})

    def forward(self, x):
        x = self.layers["a"](x) * self.seen
        getattr(self, self.how)(x)
        return self.layers["a"](x) * self.seen

    def sets_buffer(self, x):
        self.seen = x.sum()

    def registers(self, x):
        self.register_buffer("seen", x.mean())

    def stores_item(self, x):
        self._buffers["seen"] = x.max()

    def swaps_layers(self, x):
        layers = self.layers._modules
        layers["a"], layers["b"] = layers["b"], layers["a"]

    def replaces_dict(self, x):
        self.__dict__["_buffers"] = {"seen": x.min()}

    def goes_through(self, x):
        for layer in self.layers.values():
            x = layer(x)
        self.seen = x.sum()


@pytest.mark.parametrize("how", ["sets_buffer", "registers", "stores_item", "swaps_layers", "replaces_dict", "goes_through"])
def test_what_the_recorded_code_changes_is_read_as_it_is_then(how, x):
    def made():
        torch.manual_seed(1)
        return Changes(how)

    plain, model = made(), made()
    captured = evalframe.torch.compile(model, backend="eager")
    with torch.no_grad():
        for _ in range(4):
            assert torch.equal(captured(x), plain(x))
            assert torch.equal(model.seen, plain.seen)


def test_a_module_that_the_recorded_code_makes(x):
    def function(x):
        layer = nn.ReLU()
        layer.bias = nn.Parameter(torch.ones(2))
        return layer(x) + layer.bias

    captured = evalframe.torch.compile(function, backend="eager")
    assert same(function, captured, x) and same(function, captured, x)


def test_this_torch_looks_as_the_core_does():
    from evalframe.torch import modules

    theirs, known = nn.Module.__getattr__.__code__, modules._Module.__getattr__.__code__
    assert modules._what_it_does(theirs) == modules._what_it_does(known)


def test_nodes_have_the_names_that_fx_gives_them():
    from torch.fx.graph import _Namespace

    from evalframe.torch.graphs import _Names

    parts = ["x", "x_1", "x_1_2", "x_", "linear", "relu_", "relu__1", "sum", "class", "self", "_", "__", "a1", "1a", "a-b", "", "\u00e4", "None", "a_01"]
    theirs, ours = _Namespace(), _Names()
    for step in range(300):
        candidate = parts[step * step % len(parts)]
        assert ours.create_name(candidate, None) == theirs.create_name(candidate, None)
    assert ours._used_names == theirs._used_names and ours._base_count == theirs._base_count


class TakesAll(nn.Module):
    def forward(self, x, *rest, scale=1.0, **others):
        for each in rest:
            x = x + each
        return x * scale, others

    def extra_repr(self):
        return "all"


def outcome(called, args, kwargs):
    try:
        return called(*args, **kwargs)
    except TypeError:
        return "TypeError"


@pytest.mark.parametrize("by", [lambda of: of, lambda of: of.__call__, lambda of: functools.partial(of), lambda of: lambda *args, **kwargs: of(*args, **kwargs)])
def test_a_compiled_module_is_called_with_all_that_the_module_takes(by, x):
    model = TakesAll()
    captured = evalframe.torch.compile(model, backend="eager")
    given = [((x,), {}), ((x, x, x), {}), ((x,), {"scale": 2.0}), ((), {"x": x, "scale": 3.0}), ((x,), {"module": 1, "args": 2, "kwargs": 3, "arguments": 4})]
    given += [((), {}), ((x,), {"x": x}), ((x,), {1: 2}), ((x,), {"self": 1})]
    for args, kwargs in given:
        wanted, before = outcome(model, args, kwargs), dict(kwargs)
        for _ in range(3):
            found = outcome(by(captured), args, kwargs)
            assert type(found) is type(wanted) and kwargs == before
            assert found == wanted if wanted == "TypeError" else torch.equal(found[0], wanted[0]) and found[1] == wanted[1]


def test_the_keywords_of_a_call_are_its_own(x):
    class Counts(nn.Module):
        def forward(self, x, **others):
            others["more"] = len(others)
            return x + others["more"]

    model = Counts()
    captured = functools.partial(evalframe.torch.compile(model, backend="eager"), scale=1)
    for _ in range(3):
        assert torch.equal(captured(x), x + 1)
    assert captured.keywords == {"scale": 1}


def test_a_call_method_that_a_class_gets_later_is_called(model, x):
    captured = evalframe.torch.compile(model, backend="eager")
    assert same(model, captured, x)
    made = type(captured)
    made.__call__ = lambda self, x: ("other", x)
    assert captured(x) == ("other", x)
    del made.__call__
    assert same(model, captured, x)

    class Derived(made):
        pass

    derived = object.__new__(Derived)
    derived.__dict__ = captured.__dict__
    assert same(model, derived, x)
    Derived.__call__ = lambda self, x: "derived"
    assert derived(x) == "derived" and same(model, captured, x)


class Stores(nn.Module):
    """Stores what it has computed behind layers that it has read, as models do that keep statistics or hidden states."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)
        self.register_buffer("average", torch.zeros(2))
        self.calls, self.last = 0, None

    def forward(self, x):
        hidden = self.first(x)
        self.last = hidden.detach()
        self.calls += 1
        self.average = self.average * 0.9 + hidden.detach().mean(0) * 0.1
        result = self.second(hidden) - self.average
        self.norm = result.norm()
        return result


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_a_module_stores_on_its_way_ends_no_graph(backend, x):
    def made():
        torch.manual_seed(2)
        return Stores()

    plain, model = made(), made()
    captured = evalframe.torch.compile(model, backend=backend)
    for number in range(5):
        results = captured(x + number), plain(x + number)
        assert torch.equal(*results)
        for name in ("last", "average", "norm"):
            assert torch.equal(getattr(model, name), getattr(plain, name))
        assert model.calls == plain.calls and list(model.__dict__) == list(plain.__dict__)
        for each in (model, plain):
            each.zero_grad()
        for result in results:
            result.sum().backward()
        assert torch.equal(model.first.weight.grad, plain.first.weight.grad)
    fresh = evalframe.torch.compile(made(), backend=backend, fullgraph=True)
    fresh(x)
    assert entries(fresh) == 1


def trains_and_evaluates(model, x):
    model.eval()
    first = model(x)
    model.train()
    return first, model(x), [each.training for each in model.modules()]


def test_train_and_eval_inside_end_no_graph(x):
    def made():
        torch.manual_seed(2)
        return nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5), nn.BatchNorm1d(2))

    plain, model, x = made(), made(), torch.cat([x, x + 1])
    captured = evalframe.torch.compile(trains_and_evaluates, backend="eager")
    for number in range(3):
        torch.manual_seed(number)
        expected = trains_and_evaluates(plain, x)
        torch.manual_seed(number)
        found = captured(model, x)
        assert torch.equal(found[0], expected[0]) and torch.equal(found[1], expected[1]) and found[2] == expected[2]
        assert torch.equal(model[2].running_mean, plain[2].running_mean)
    assert not evalframe.torch.explain(captured)(model, x).breaks


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).T


PARAMETRIZED = {
    "spectral_norm": lambda layer: nn.utils.parametrizations.spectral_norm(layer),
    "weight_norm": lambda layer: nn.utils.parametrizations.weight_norm(layer),
    "orthogonal": lambda layer: nn.utils.parametrizations.orthogonal(layer),
    "own": lambda layer: (nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric()), layer)[1],
    "old spectral_norm": lambda layer: nn.utils.spectral_norm(layer),
    "old weight_norm": lambda layer: nn.utils.weight_norm(layer),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PARAMETRIZED)
def test_parametrized_layers_are_one_graph(name, backend, x):
    def made():
        torch.manual_seed(4)
        return PARAMETRIZED[name](nn.Linear(2, 2))

    plain, model = made(), made()
    captured = evalframe.torch.compile(model, backend=backend)
    for number in range(4):
        results = []
        for layer, called in ((plain, plain), (model, captured)):
            layer.zero_grad()
            layer.train(number != 2)
            result = called(x + number)
            result.square().sum().backward()
            results.append([result, *(each.grad for each in layer.parameters()), *layer.buffers(), layer.weight])
        for expected, found in zip(*results, strict=True):
            assert torch.equal(expected, found) if backend == "eager" else torch.allclose(expected, found)
    assert not evalframe.torch.explain(captured)(x).breaks


class Several(nn.Module):
    def __init__(self):
        super().__init__()
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(2) * number) for number in range(3)])
        self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])

    def forward(self, x):
        for scale in list(self.scales):
            x = x * scale
        for layer in tuple(self.layers)[1:]:
            x = layer(x)
        return x


def test_lists_of_containers_end_no_graph(x):
    model = Several()
    captured = evalframe.torch.compile(model, backend="eager", fullgraph=True)
    for _ in range(2):
        assert same(model, captured, x)
    model.scales.append(nn.Parameter(torch.ones(2)))
    assert same(model, captured, x)
