"""Backends made by users: what they get, that what they return serves as plain Python would, and how failures are told."""

from __future__ import annotations

import gc
import importlib
import math
import operator
import re
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from helpers import leaving_before
from test_jit import ARGUMENTS, FUNCTIONS, A, B, Model, V, chain, in_place, outcome, raises, same, toy_function


def by_reference(graph: evalframe.Graph, example_inputs: list[Any]) -> Any:
    return graph


class Collector:
    """A backend that keeps the graphs."""

    def __init__(self) -> None:
        self.graphs: list[evalframe.Graph] = []

    def __call__(self, graph: evalframe.Graph, example_inputs: list[Any]) -> Any:
        self.graphs.append(graph)
        return graph


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_behaves_as_plain_python(function: Callable[..., Any]) -> None:
    captured = evalframe.jit(function, backend=by_reference)
    for arguments in ARGUMENTS * 3:
        assert same(outcome(captured, *arguments), outcome(function, *arguments))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_may_be_left_before_every_node(function: Callable[..., Any]) -> None:
    for node in range(14):
        captured = evalframe.jit(function, backend=by_reference)
        for arguments in ARGUMENTS:
            outcome(captured, *arguments)
        with leaving_before(node):
            for arguments in ARGUMENTS:
                assert same(outcome(captured, *arguments), outcome(function, *arguments)), node


def test_the_graph_is_readable() -> None:
    collect = Collector()
    evalframe.jit(chain, backend=collect)(A, B)
    (graph,) = collect.graphs
    assert [(value.name, value.kind, value.dtype, value.rank, value.shape) for value in graph.inputs] == [
        ("y", "array", np.dtype("float64"), 2, ("s0", "s1")),  # in the order in which the nodes ask for them
        ("x", "array", np.dtype("float64"), 2, ("s2", "s3")),
    ]
    assert [node.op for node in graph] == ["mul", "add", "exp", "sub"]
    assert len(graph) == 4 and list(graph) == list(graph.nodes)
    double, total, exp, last = graph
    assert double.target is operator.mul and double.args == (graph.inputs[0], 2)
    assert exp.target is np.exp and exp.operands == (total,) and exp.kwargs == {}
    assert graph.outputs == (last,)
    start = chain.__code__.co_firstlineno
    assert [(node.line - start, node.function) for node in graph] == [(1, "chain"), (1, "chain"), (2, "chain"), (2, "chain")]
    assert graph.file == __file__.replace("test_user_backends", "test_jit")
    assert graph.example_inputs[0] is B and graph.example_inputs[1] is A
    assert np.array_equal(graph(B, A)[0], chain(A, B))
    with pytest.raises(TypeError, match="the graph of chain takes 2 inputs, not 1"):
        graph(A)
    text = str(graph)
    assert "input y: float64[s0, s1]" in text and "v0 = y * 2: float64[s0, s1]" in text and "return v3" in text


def test_sizes_keep_their_names_through_element_wise_nodes() -> None:
    def function(x: Any) -> Any:
        y = np.exp(x) + 1
        return y @ y.T

    collect = Collector()
    evalframe.jit(function, backend=collect)(A)
    (graph,) = collect.graphs
    add = next(node for node in graph if node.op == "add")
    product = next(node for node in graph if node.op == "matmul")
    assert add.shape == graph.inputs[0].shape
    assert product.rank == 2 and product.recorded_shape == (3, 3) and not set(product.shape) & set(add.shape)


def test_a_graph_has_no_effects_and_no_checks() -> None:
    collect = Collector()
    evalframe.jit(in_place, backend=collect)(A, B)
    ops = {node.op for graph in collect.graphs for node in graph}
    assert "setitem" not in ops and "iadd" not in ops and not any(op.startswith("check") for op in ops)


def test_outputs_that_share_memory_are_copied() -> None:
    def lazy(graph: evalframe.Graph, example_inputs: list[Any]) -> Any:
        return lambda x: tuple(x for _ in graph.outputs)  # x * 1 is x: right in value, wrong in identity

    def function(x: Any) -> Any:
        y = x * 1
        z = x * 1.0
        y += 1
        return x, y, z

    x = np.arange(3.0)
    captured = evalframe.jit(function, backend=lazy)
    for _ in range(3):
        same_x, y, z = captured(x)
        assert same_x is x and np.array_equal(x, [0, 1, 2]) and np.array_equal(y, [1, 2, 3]) and np.array_equal(z, x)
        assert not np.shares_memory(x, y) and not np.shares_memory(y, z)


def test_compiled_methods() -> None:
    class Other(Model):
        forward = evalframe.jit(Model.forward.__wrapped__, backend=by_reference)  # type: ignore[attr-defined]

    model = Other()
    for _ in range(3):
        assert np.array_equal(model.forward(A), np.maximum(A * V, 0) * 2)


def test_enabled_takes_a_backend() -> None:
    collect = Collector()
    with evalframe.enabled(backend=collect):
        result = [chain(A, B) for _ in range(3)]
    assert collect.graphs and np.array_equal(result[2], chain(A, B))


def failing_compile(graph: evalframe.Graph, example_inputs: list[Any]) -> Any:
    raise KeyError("no such kernel")


def not_callable(graph: evalframe.Graph, example_inputs: list[Any]) -> Any:
    return 42


def returning(make: Callable[..., Any]) -> Any:
    def nonsense(graph: evalframe.Graph, example_inputs: list[Any]) -> Any:
        return lambda x, y: make(x, y)

    return nonsense


def raise_here(*arguments: Any) -> Any:
    raise ZeroDivisionError("kernel")


FAILURES: list[tuple[Any, str]] = [
    (failing_compile, r"backend 'failing_compile' raised KeyError: 'no such kernel' \(compiling chain, .*test_jit.py:\d+\)"),
    (not_callable, "backend 'not_callable' returned int, which can't be called"),
    (returning(lambda x, y: None), r"returned NoneType; return a tuple of the 1 values in graph.outputs"),
    (returning(lambda x, y: x), r"returned numpy.ndarray; return a tuple of the 1 values in graph.outputs"),
    (returning(lambda x, y: (x, y)), "returned 2 values; return a tuple of the 1 values"),
    (returning(lambda x, y: ("text",)), "returned an object of type str as output 0; return a numpy.ndarray of float64 and rank 2"),
    (returning(lambda x, y: (x[0],)), "returned a numpy.ndarray of float64 and rank 1 as output 0"),
    (returning(lambda x, y: (x.astype("f4"),)), "returned a numpy.ndarray of float32 and rank 2 as output 0"),
    (returning(lambda x, y: (x.view(np.matrix),)), "returned a matrix of float64 and rank 2 as output 0"),
    (returning(raise_here), "raised ZeroDivisionError: kernel, where the recorded calls don't"),
    (returning(lambda x: x), "raised TypeError: .*positional argument"),
]


@pytest.mark.parametrize(("backend", "text"), FAILURES)
def test_a_backend_that_fails_is_named(backend: Any, text: str) -> None:
    captured = evalframe.jit(chain, backend=backend)
    x, y = A.copy(), B.copy()
    seen = []
    for _ in range(3):
        try:
            captured(x, y)
        except evalframe.BackendError as error:
            seen.append(error)
    assert seen
    assert re.search(text, str(seen[-1])), str(seen[-1])
    assert "chain" in str(seen[-1]) and "test_jit.py" in str(seen[-1]) and 'use backend="native"' in str(seen[-1])
    assert np.array_equal(x, A) and np.array_equal(y, B)
    # Nothing is left: another function with another backend works.
    assert np.array_equal(evalframe.jit(chain, backend=by_reference)(A, B), chain(A, B))


def test_the_cause_is_kept() -> None:
    with pytest.raises(evalframe.BackendError) as caught:
        evalframe.jit(chain, backend=failing_compile)(A, B)
    assert isinstance(caught.value.__cause__, KeyError)


def test_an_exception_of_the_program_stays_the_programs() -> None:
    """A compiled function that raises because the program would is no failure: the traceback names the program's line."""
    captured = evalframe.jit(raises, backend=by_reference)
    for _ in range(3):
        assert same(outcome(captured, A, B), outcome(raises, A, B))

    def add(x: Any, y: Any) -> Any:
        z = x + 1
        return z + y

    captured = evalframe.jit(add, backend=by_reference)
    captured(np.ones(3), np.ones(3))
    assert outcome(captured, np.ones(3), np.ones(4))[0][1][:2] == outcome(add, np.ones(3), np.ones(4))[0][1][:2]


def test_effects_happen_once_though_a_stretch_is_run_again() -> None:
    def function(x: Any, log: Any) -> Any:
        log[0] = log[0] + 1.0
        return np.exp(x) + log

    def nonsense(graph: evalframe.Graph, example_inputs: list[Any]) -> Any:
        def run(*inputs: Any) -> Any:
            if any(node.op == "exp" for node in graph):
                raise_here()
            return graph(*inputs)

        return run

    captured = evalframe.jit(function, backend=nonsense)
    log = np.zeros(1)
    captured(A, log)
    with pytest.raises(evalframe.BackendError):
        captured(A, log)
    assert log[0] == 2


def test_an_interrupt_in_compiled_code_goes_through() -> None:
    def interrupted(graph: evalframe.Graph, example_inputs: list[Any]) -> Any:
        def run(*inputs: Any) -> Any:
            raise KeyboardInterrupt

        return run

    captured = evalframe.jit(chain, backend=interrupted)
    captured(A, B)
    with pytest.raises(KeyboardInterrupt):
        captured(A, B)


def test_names() -> None:
    assert evalframe.backends()[:2] == ["native", "reference"]
    evalframe.register_backend("test-by-reference", by_reference)
    assert "test-by-reference" in evalframe.backends()
    assert np.array_equal(evalframe.jit(chain, backend="test-by-reference")(A, B), chain(A, B))
    with pytest.raises(ValueError, match="unknown backend 'nothing'; there are: native, reference.*test-by-reference"):
        evalframe.jit(chain, backend="nothing")
    with pytest.raises(TypeError, match="backend must be callable or one of the names native, reference.*, not int"):
        evalframe.jit(chain, backend=3)
    with pytest.raises(TypeError, match="a backend's name must be a str that isn't empty, not 3"):
        evalframe.register_backend(3, by_reference)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="backend 'x' must be callable"):
        evalframe.register_backend("x", None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'native' is a backend of evalframe's own"):
        evalframe.register_backend("native", by_reference)


def test_entry_points(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "somebackend-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: somebackend\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[evalframe.backends]\nsome = somebackend:compile\nbroken = nosuchmodule:compile\nnumber = somebackend:number\n"
    )
    (tmp_path / "somebackend.py").write_text("number = 3\ndef compile(graph, example_inputs):\n    return graph\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    assert {"some", "broken"} <= set(evalframe.backends())
    assert np.array_equal(evalframe.jit(chain, backend="some")(A, B), chain(A, B))
    with pytest.raises(evalframe.BackendError, match="backend 'broken' can't be loaded: .*'nosuchmodule:compile' raised ModuleNotFound"):
        evalframe.jit(chain, backend="broken")
    with pytest.raises(evalframe.BackendError, match="its entry point 'somebackend:number' is int, not callable"):
        evalframe.jit(chain, backend="number")


def test_nothing_is_held() -> None:
    class Held:
        def __call__(self, graph: evalframe.Graph, example_inputs: list[Any]) -> Any:
            return graph

    def make() -> list[Any]:
        backend, x = Held(), np.ones(3)
        captured = evalframe.jit(lambda x: x + 1, backend=backend)
        for _ in range(3):
            captured(x)
        backend.loop = captured  # type: ignore[attr-defined]
        return [weakref.ref(backend), weakref.ref(captured)]

    references = make()
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_reference_counts_stay() -> None:
    captured = evalframe.jit(chain, backend=by_reference)
    captured(A, B)
    before = sys.getrefcount(A), sys.getrefcount(None) if sys.version_info < (3, 12) else 0
    for _ in range(200):
        captured(A, B)
    after = sys.getrefcount(A), sys.getrefcount(None) if sys.version_info < (3, 12) else 0
    assert after[0] == before[0] and abs(after[1] - before[1]) < 20
    assert math.isfinite(float(toy_function(A, B).sum()))


def test_functions_stand_in_the_frames_that_all_of_their_nodes_stand_in() -> None:
    seen: list[list[str]] = []

    def looking(graph: Any, example_inputs: Any) -> Any:
        def run(*inputs: Any) -> Any:
            names, frame = [], sys._getframe(1)
            while frame.f_code.co_name != "test_functions_stand_in_the_frames_that_all_of_their_nodes_stand_in" and frame.f_back:
                names.append(f"{frame.f_code.co_name}+{frame.f_lineno - frame.f_code.co_firstlineno}")
                frame = frame.f_back
            seen.append(names)
            return graph(*inputs)

        return run

    def inner(x: Any) -> Any:
        return x * 2 + 1

    def other(x: Any) -> Any:
        return x - 3

    def middle(x: Any) -> Any:
        y = inner(x)
        return y + other(x)

    def outer(x: Any) -> Any:
        return middle(x)

    def first(x: Any) -> Any:
        y = x + 1
        return middle(y)

    for function, frames in [(lambda x: inner(x), ["inner+1", "<lambda>+0"]), (outer, ["middle+2", "outer+1"]), (first, ["first+2"])]:
        compiled = evalframe.jit(function, backend=looking)
        for _ in range(4):
            assert np.array_equal(compiled(np.arange(3.0)), function(np.arange(3.0)))
        assert seen[-3:] == [frames] * 3


def test_frames_that_functions_have_seen_live_on() -> None:
    seen: list[Any] = []
    depth = 0

    def looking(graph: Any, example_inputs: Any) -> Any:
        def run(*inputs: Any) -> Any:
            nonlocal depth
            frame: Any = sys._getframe(1)
            seen.append([frame, frame.f_back])
            assert frame.f_locals == {} and frame.f_back.f_lineno > 0
            if depth < 3:  # the graph is run in itself
                depth += 1
                compiled(inputs[0] + 1)
                depth -= 1
            return graph(*inputs)

        return run

    def inner(x: Any) -> Any:
        return x * 2 + 1

    def outer(x: Any) -> Any:
        return inner(x)

    compiled = evalframe.jit(outer, backend=looking)
    for _ in range(3):
        assert np.array_equal(compiled(np.arange(3.0)), outer(np.arange(3.0)))
    gc.collect()
    for frame, back in seen:
        assert frame.f_code is inner.__code__ and frame.f_back is back and back.f_code is outer.__code__
        assert frame.f_lineno == inner.__code__.co_firstlineno + 1 and frame.f_globals is globals()
    assert len({id(frame) for frame, _ in seen}) == len(seen) == 8
    seen.clear()
    del frame, back
    before = sys.getrefcount(inner), sys.getrefcount(inner.__code__)
    for _ in range(50):
        compiled(np.arange(3.0))
        seen.clear()
    assert (sys.getrefcount(inner), sys.getrefcount(inner.__code__)) == before


def test_a_function_that_gets_other_code_in_a_call_of_its_graph_is_run_to_the_end() -> None:
    changes = False

    def changing(graph: Any, example_inputs: Any) -> Any:
        def run(*inputs: Any) -> Any:
            if changes:
                inner.__code__ = other.__code__
                gc.collect()
                assert sys._getframe(1).f_code.co_name == "inner"
            return graph(*inputs)

        return run

    def inner(x: Any) -> Any:
        return x * 2 + 1

    def other(x: Any) -> Any:
        return x * 3

    captured = evalframe.jit(lambda x: inner(x), backend=changing)
    for _ in range(4):
        assert np.array_equal(captured(np.arange(3.0)), np.arange(3.0) * 2 + 1)
    changes = True
    assert np.array_equal(captured(np.arange(3.0)), np.arange(3.0) * 2 + 1)
    changes = False
    for _ in range(3):
        assert np.array_equal(captured(np.arange(3.0)), np.arange(3.0) * 3)
