"""Small programs that tracers drop, raise for, or answer from the past: ours do what eager does, and are captured."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import itertools
import logging
import random
import sys
import threading

import pytest
import torch
from torch.utils._pytree import tree_map

import evalframe.torch
from evalframe import GraphBreakError
from test_torch_compile import same

pytestmark = pytest.mark.torch

X = torch.arange(6.0).reshape(2, 3)
WARNERS = []


def break_in_a_loop(x):
    for step in range(3):
        x = x * 2
        print("step", step)
        x = x + step
    return x


def break_in_try_finally(x):
    told = []
    try:
        x = x + 1
        print("inside")
        x = x / x.sum()
    finally:
        told.append(x.mean())
        print("finally")
    return x, told


def break_in_an_except_block(x):
    try:
        x = torch.relu(x) * 2
        raise KeyError("none")
    except KeyError as error:
        print("caught", error.args)
        return x - 1


def break_in_a_with_block(x):
    with torch.no_grad():
        x = x * 3
        print(torch.is_grad_enabled())
        x = x + 1
    return x, torch.is_grad_enabled()


def returned_by_yield_from(x):
    def inner(y):
        yield y + 1
        yield y * 2
        return y.sum()

    def outer(y):
        total = yield from inner(y)
        yield total

    return list(outer(x))


def logging_in_the_middle(x):
    x = x.exp()
    logging.getLogger(__name__).info("in the middle %s", tuple(x.shape))
    return x.log() + 1


def class_in_a_function(x):
    class Scaled:
        factor = 3

        def __init__(self, y):
            self.y = y * self.factor

        def __call__(self):
            return self.y + 1

    return Scaled(x)()


def dataclass_results(x):
    @dataclasses.dataclass
    class Pair:
        low: object
        high: object = None

    pair = Pair(x.min(), x.max())
    return dataclasses.astuple(dataclasses.replace(pair, high=pair.high * 2))


def generator_left_early(x):
    def pieces():
        try:
            for row in range(2):
                yield x[row] * 2
        finally:
            print("closed")

    for piece in pieces():
        return piece + 1
    return None


def context_manager_of_its_own(x):
    @contextlib.contextmanager
    def scaled(factor):
        print("enter")
        yield x * factor
        print("exit")

    with scaled(4) as y:
        return y + 1


def text_of_a_tensor(x):
    y = x.sum()
    return f"sum {y.item():.1f}", y * 2


def value_steers_a_loop(x):
    steps = 0
    while x.sum() < 1000:
        x = x * 2
        steps += 1
    return x, steps


def sorted_by_values(x):
    return sorted([x.sum(), x.mean(), x.max() * 3], key=lambda value: value.item())


def closure_that_is_changed(x):
    count = 0

    def more(y):
        nonlocal count
        count += 1
        return y + count

    return more(more(x)), count


def frame_that_is_asked_for(x):
    y = x * 2
    name = sys._getframe().f_code.co_name
    return y + len(name), name


def exception_with_a_cause(x):
    y = x + 1
    try:
        try:
            raise ValueError("first")
        except ValueError as error:
            raise RuntimeError("second") from error
    except RuntimeError as error:
        return y * 2, type(error.__cause__).__name__


def written_to_a_stream(x):
    stream = io.StringIO()
    y = x * 2
    stream.write("text")
    return y + 1, stream.getvalue()


PROGRAMS = [
    break_in_a_loop, break_in_try_finally, break_in_an_except_block, break_in_a_with_block, returned_by_yield_from,
    logging_in_the_middle, class_in_a_function, dataclass_results, generator_left_early, context_manager_of_its_own,
    text_of_a_tensor, value_steers_a_loop, sorted_by_values, closure_that_is_changed, frame_that_is_asked_for,
    exception_with_a_cause, written_to_a_stream,
]  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs(program, backend, capsys):
    compiled = evalframe.torch.compile(program, backend=backend)
    for call in range(3):
        x = X + call
        wanted, printed = program(x), capsys.readouterr().out
        assert same(compiled(x), wanted) and capsys.readouterr().out == printed
        assert torch.is_grad_enabled()
    assert evalframe.torch.graph_modules(compiled)


class Layer(torch.nn.Module):
    def scale(self, x):
        return x * 2

    def forward(self, x):
        return self.scale(x) + 1


def test_a_method_that_is_bound_anew(monkeypatch):
    layer = Layer()
    compiled = evalframe.torch.compile(layer, backend="eager")
    assert same(compiled(X), X * 2 + 1)
    monkeypatch.setattr(Layer, "scale", lambda self, x: x * 5)
    assert same(compiled(X), X * 5 + 1)
    layer.scale = lambda x: x * 7
    assert same(compiled(X), X * 7 + 1)


def test_a_builtin_that_is_shadowed(monkeypatch):
    def total(x):
        return abs(x) + len(x)

    compiled = evalframe.torch.compile(total, backend="eager")
    assert same(compiled(X), X + 2)
    monkeypatch.setitem(globals(), "len", lambda value: 40)
    assert same(compiled(X), X + 40)


def test_a_function_of_torch_that_is_replaced(monkeypatch):
    def relu(x):
        return torch.relu(x - 2)

    compiled = evalframe.torch.compile(relu, backend="eager")
    assert same(compiled(X), torch.relu(X - 2))
    monkeypatch.setattr(torch, "relu", lambda x: x * 0)
    assert same(compiled(X), (X - 2) * 0)


def test_threads_have_gradients_of_their_own():
    weight = torch.ones(3, requires_grad=True)

    def scaled(x):
        return x * weight + torch.is_grad_enabled()

    compiled = evalframe.torch.compile(scaled, backend="eager")
    results = {}

    def run(name, enabled):
        with torch.set_grad_enabled(enabled):
            results[name] = [compiled(X + call) for call in range(20)]

    threads = [threading.Thread(target=run, args=(name, name % 2 == 0)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, values in results.items():
        with torch.set_grad_enabled(name % 2 == 0):
            wanted = [scaled(X + call) for call in range(20)]
        assert same(values, wanted)
        assert all(value.requires_grad == (name % 2 == 0) for value in values)


def test_threads_compile_at_the_same_time():
    def scaled(x, factor):
        return x * factor + x.shape[0]

    compiled = evalframe.torch.compile(scaled, backend="aot_eager")
    calls = [(torch.ones(2 + call % 5, 3), call % 3) for call in range(20)]
    results = {}

    def run(name):
        results[name] = [compiled(*args) for args in calls]

    threads = [threading.Thread(target=run, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same(results[name], [scaled(*args) for args in calls]) for name in range(4))


def test_operations_made_of_others_take_symbols(capfd):
    def padded(x):
        return torch.nn.functional.pad(x, (0, 8 - x.shape[-1] % 8))

    compiled = evalframe.torch.compile(padded, backend="aot_eager", dynamic=True)
    for columns in (2, 3, 5, 11):
        x = torch.ones(4, columns)
        assert same(compiled(x), padded(x))
    assert len(evalframe.torch.graph_modules(compiled)) == 1
    assert capfd.readouterr().err == ""


def test_a_break_that_is_an_error_leaves_gradients_as_they_were():
    def printed(x):
        with torch.no_grad():
            x = x * 2
            print(x)
        return x

    compiled = evalframe.torch.compile(printed, backend="eager", fullgraph=True)
    with pytest.raises(GraphBreakError):
        compiled(X)
    assert torch.is_grad_enabled()


def test_random_numbers_make_sizes_vary_only_where_they_are_sizes():
    generator = random.Random(1)

    def scaled(x):
        generator.random()
        y = x + 1
        return y.view(y.shape[0], -1), y.shape

    def cropped(x):
        y = x[: generator.getrandbits(1) + 1] + 1
        return y.view(y.shape[0], -1), y.shape

    for function in (scaled, cropped):
        compiled = evalframe.torch.compile(function, backend="eager")
        for call in range(12):
            generator.seed(call)
            wanted = function(X)
            generator.seed(call)
            assert same(compiled(X), wanted)
        if function is scaled:
            (module,) = evalframe.torch.graph_modules(compiled)
            assert [str(node) for node in module.graph.nodes] == ["x", "add", "view", "output"]


class Branching(torch.nn.Module):
    def __init__(self, *names):
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)
        for name in names:
            setattr(self, name, torch.nn.Linear(3, 3))

    def forward(self, x):
        x = self.inner(x)
        if x.sum() > 1e9:
            x = x * 2
        if hasattr(self, "more"):
            x = self.more(x)
        return torch.relu(self.inner(x))


class Stack(torch.nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def test_layers_behind_a_break_have_the_same_attributes_until_one_has_others():
    x = X.to(torch.get_default_device())
    for names in [[()] * 6, [(), ("more",), (), ("more", "most")], [(f"layer{i}",) for i in range(20)]]:
        model = Stack(*[Branching(*of) for of in names])
        compiled = evalframe.torch.compile(model, backend="eager")
        with torch.no_grad():
            breaks = evalframe.torch.explain(compiled)(x).breaks
            assert same(compiled(x), model(x))
            assert same(compiled(x), model(x))
        if len(set(names)) == 1:
            assert {stop.reason.split()[0] for stop in breaks} == {"branch", "step"}
            assert len(evalframe.torch.graph_modules(compiled)) == 3
            del model.layers[1]
            with torch.no_grad():
                assert same(compiled(x), model(x))


def test_ranges_in_layers_are_unrolled_where_their_bodies_are_short():
    class Scan(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(3, 3)

        def forward(self, x):
            state, given = torch.zeros(x.shape[-1]), []
            for at in range(x.shape[0]):
                state = state * 0.5 + self.inner(x[at])
                given.append(torch.relu(state) * (at + 1))
            return torch.stack(given)

    model = Stack(*[Scan() for _ in range(3)])
    compiled = evalframe.torch.compile(model, backend="eager")
    with torch.no_grad():
        for rows in (20, 20, 7, 20):
            x = torch.arange(3.0 * rows).reshape(rows, 3)
            assert same(compiled(x), model(x))
            if rows == 20:
                assert len(evalframe.torch.graph_modules(compiled)[0].graph.nodes) > 3 * 20 * 5


def test_a_logger_that_warns_once_is_part_of_the_graph():
    class Logger(logging.Logger):
        @functools.lru_cache(None)  # noqa: B019
        def warning_once(self, text):
            self.warning(text)

    told = []
    logger = Logger("of the test")
    logger.addHandler(handler := logging.Handler())
    handler.emit = lambda record: told.append(record.getMessage())

    def warned(x):
        x = x + 1
        WARNERS[0].warning_once("slow")
        return x * 2

    WARNERS[:] = [logger]
    assert same(warned(X), (X + 1) * 2)
    compiled = evalframe.torch.compile(warned, backend="eager", fullgraph=True)
    for _ in range(3):
        assert same(compiled(X), (X + 1) * 2)
    assert told == ["slow"]
    Logger.warning_once.cache_clear()
    compiled = evalframe.torch.compile(warned, backend="eager")
    for _ in range(3):
        assert same(compiled(X), (X + 1) * 2)
    assert told == ["slow"] * 2


def test_operations_that_could_act_in_place_and_do_not_are_compiled_where_a_caller_handles_exceptions():
    layer, graphs = torch.nn.ReLU(), []

    def backend(graph_module, examples):
        graphs.append([node.name for node in graph_module.graph.nodes])
        return graph_module.forward

    def handled(x, out=None):
        try:
            return layer(x - 1) * torch.mul(x, 2, out=out)
        except RuntimeError:
            return x

    compiled = evalframe.torch.compile(handled, backend=backend)
    for _ in range(2):
        assert same(compiled(X), handled(X))
    assert graphs == [["x", "sub", "relu", "mul", "mul_1", "output"]]


def test_what_draws_numbers_is_compiled_where_a_caller_handles_exceptions():
    ran = []

    def backend(graph_module, examples):
        ran.append(0)

        def run(*inputs):
            ran[-1] += 1
            return graph_module(*inputs)

        return run

    def handled(x, places):
        z = torch.dropout(x, 0.5, True) + 1
        try:
            z = torch.dropout(z, 0.5, True)
            z = torch.embedding(z, places) * 2
        except IndexError:
            return torch.dropout(z, 0.5, True) * 3
        return z

    compiled = evalframe.torch.compile(handled, backend=backend)
    x, inside, outside = torch.ones(4, 4), torch.tensor([0, 3]), torch.tensor([0, 7])
    for places in (inside, inside, outside, inside, outside):
        torch.manual_seed(2)
        want = handled(x, places)
        torch.manual_seed(2)
        assert same(compiled(x, places), want)
    assert ran[0] == 4


TREE = {"a": X, "b": [X + 1, (X + 2,)]}


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tree_map(lambda leaf: leaf + x, TREE)["b"][1][0],
        lambda x: tree_map(lambda one, other: one * other + x, TREE, TREE)["b"][0],
        lambda x: [one + other for one, other in zip(x, x * 2)][1],
        lambda x: torch.stack([row * scale for scale, row in zip((1, 2), x)]),
        lambda x: sum(itertools.islice(x, 1, 2)),
        lambda x: torch.stack(list(map(torch.add, *(x, x + 1)))),
        lambda x: list(itertools.accumulate(x))[-1],
    ],
    ids=["tree_map", "tree_map of two", "zip", "zip with numbers", "islice", "starred map", "accumulate"],
)
def test_rows_of_tensors_and_trees_are_gone_through(function):
    compiled = evalframe.torch.compile(function, backend="eager", fullgraph=True)
    for x in (X, X + 1):
        assert torch.equal(compiled(x), function(x))
    assert len(evalframe.torch.graph_modules(compiled)) == 1


def test_what_is_disabled_for_the_compiler_is_left_alone():
    @torch.compiler.disable
    def off(x):
        return torch.sin(x) * 2

    @torch.compiler.disable(recursive=False)
    def itself_off(x):
        return torch.cos(x) * 3

    @functools.wraps(off)
    def like_it(x):
        return x - 1

    def call(x):
        return like_it(itself_off(off(x + 1)) * 4)

    captured = evalframe.torch.compile(call, backend="eager")
    for _ in range(3):
        assert same(captured(X), call(X))
    breaks = evalframe.torch.explain(captured)(X).breaks
    assert [found.detail.split(".")[-1] for found in breaks] == ["off", "itself_off"]
    graphs = evalframe.torch.graph_modules(captured)
    assert [[node.name for node in graph.graph.nodes if node.op.startswith("call")] for graph in graphs] == [["add"], ["mul", "sub"]]
    evalframe.followed(off)
    captured = evalframe.torch.compile(call, backend="eager")
    for _ in range(3):
        assert same(captured(X), call(X))
    breaks = evalframe.torch.explain(captured)(X).breaks
    assert [found.detail.split(".")[-1] for found in breaks] == ["itself_off"]


@pytest.mark.filterwarnings("ignore:Error detected in MulBackward0")
def test_what_cant_be_differentiated_is_run_by_the_recorded_calls():
    """A backend that traces backward with the graph would raise where eager does when backward is called."""

    def function(x, y):
        product = x * y
        y.mul_(2)
        return product

    compiled = evalframe.torch.compile(function, backend="aot_eager")
    for _ in range(3):
        results = []
        for called in (function, compiled):
            x, y = X.clone().requires_grad_(), X.clone()
            product = called(x, y)
            results.append((product.detach(), y))
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                product.sum().backward()
        assert all(map(torch.equal, *results))


def gives_what_it_wrote(x, y):
    x.mul_(2)
    return torch.relu_(y)


def gives_a_variable(x, y):
    t = y
    t += 1
    x *= 2
    return t, x


def gives_the_contiguous(x, y):
    t = y.contiguous()
    t.mul_(2)
    x.mul_(2)
    return t + 1, t, x.add_(1), t.mul_(2)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", lambda module, examples: module.forward])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("function", [gives_what_it_wrote, gives_a_variable, gives_the_contiguous])
def test_an_argument_that_is_written_into_and_given_back_is_no_other(function, backend, dynamic):
    """AOTAutograd writes the one without gradients into the other."""
    compiled = evalframe.torch.compile(function, backend=backend, dynamic=dynamic)
    for size in (2, 2, 3, 4, 4):
        outcomes = []
        for called in (function, compiled):
            leaf = torch.arange(size, dtype=torch.float32).requires_grad_()
            x, y = leaf * 1, torch.linspace(-1, 1, size)
            results = called(x, y)
            results = results if isinstance(results, tuple) else (results,)
            (x * x).sum().backward()
            outcomes.append(([x.detach(), y, *results, leaf.grad], [result is y for result in results], [result is x for result in results]))
        assert all(map(torch.equal, outcomes[0][0], outcomes[1][0])) and outcomes[0][1:] == outcomes[1][1:]


@pytest.mark.parametrize("backend", ["aot_eager", lambda module, examples: module.forward])
def test_a_number_that_something_is_added_to_is_no_argument_given_back(backend):
    def function(x, y, n):
        y.mul_(2)
        n += x
        return n

    compiled = evalframe.torch.compile(function, backend=backend)
    for number in (1, 1, 2, 3, 0.5, 4):
        x, y = X.clone().requires_grad_(), X.clone()
        assert torch.equal(compiled(x, y, number), X + number) and torch.equal(y, X * 2)


class Shifted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x, y):
        x.mul_(self.weight)
        self.seen.add_(1)
        return y.mul_(2), x + self.seen


@pytest.mark.parametrize("parameters", ["inputs", "attributes"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_arguments_are_given_back_beside_parameters_that_are_attributes(parameters, dynamic):
    plain, module = Shifted(), Shifted()
    compiled = evalframe.torch.compile(module, backend="aot_eager", parameters=parameters, dynamic=dynamic)
    for rows in (2, 2, 3, 4):
        results = []
        for called in (plain, compiled):
            x, y = torch.ones(rows, 3, requires_grad=True) * 2, torch.arange(rows * 3.0).reshape(rows, 3)
            first, second = called(x, y)
            assert first is y
            results.append((y, x.detach(), second.detach()))
        assert all(map(torch.equal, *results)) and torch.equal(plain.seen, module.seen)


def classes_and_repeats(index, x):
    heads = x.repeat_interleave(2, dim=1) + torch.repeat_interleave(x, repeats=2, dim=1)
    return torch.nn.functional.one_hot(index, 5).float() @ heads, torch.nn.functional.one_hot(index, num_classes=4)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_sizes_that_follow_from_numbers_end_no_graph(backend):
    captured = evalframe.torch.compile(classes_and_repeats, backend=backend)
    x = torch.arange(15.0).reshape(5, 3)
    for index in ([0, 2, 1], [3, 3, 0], [0, 4, 1], [0, 9, 1], [2, 2, 2]):
        told = []
        for function in (classes_and_repeats, captured):
            try:
                told.append([each.tolist() for each in function(torch.tensor(index), x)])
            except RuntimeError as error:
                told.append(str(error))
        assert told[0] == told[1]
    fresh = evalframe.torch.compile(classes_and_repeats, backend=backend, fullgraph=True)
    fresh(torch.tensor([0, 1, 2]), x)


def test_what_a_hook_stores_by_a_call_ends_no_graph():
    model, kept, rows = torch.nn.Linear(4, 4), {}, [None]
    model.register_forward_hook(lambda layer, given, result: kept.__setitem__("result", result.detach()))
    model.register_forward_pre_hook(lambda layer, given: rows.__setitem__(0, given[0]))
    captured = evalframe.torch.compile(model, backend="eager")
    for number in range(4):
        x = torch.ones(2, 4) * number
        result = captured(x)
        assert torch.equal(kept["result"], result) and rows[0] is x
    assert not evalframe.torch.explain(captured)(x).breaks
