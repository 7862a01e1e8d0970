"""Captured functions behave as the plain ones: results, exceptions, effects, whichever graph serves and wherever it is left."""

from __future__ import annotations

import inspect
import math
import pickle
import traceback
import types
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import leaving_before, outcome, same

A = np.linspace(-2.0, 3.0, 12).reshape(3, 4)
B = np.arange(12.0).reshape(3, 4) + 1
V = np.array([3.0, -1.0, 2.0, 5.0])
WEIGHT = np.full(4, 0.5)


def chain(x: Any, y: Any) -> Any:
    z = x + y * 2
    return np.exp(z) - 1


def toy_function(a: Any, b: Any) -> Any:
    x = a / (np.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def helper(x: Any, scale: float = 2.0, *, shift: float = 1.0) -> Any:
    if x.ndim > 1:
        return x * scale + shift
    return x - shift


def inlined(x: Any, y: Any) -> Any:
    return helper(x) + helper(y, 3.0) + helper(x, shift=0.5)


def inlined_break(x: Any, y: Any) -> Any:
    def unused() -> None:
        return None

    return toy_function(x, y) + toy_function(x, -y)


def break_in_callee(x: Any, y: Any) -> Any:
    r = toy_function(x, y)
    s = toy_function(x, -y)
    return r + s * 2


def loop(x: Any, y: Any) -> Any:
    for i in range(4):
        x = x + y[i % 3] * i
    return x


def long_loop(x: Any, y: Any) -> Any:
    for i in range(300):
        x = x * 0.99 + y
    return x


def shapes(x: Any, y: Any) -> Any:
    n, m = x.shape
    if n > 2:
        x = x[1:, : m - 1]
    return x.sum() + n * m + len(y)


def containers(x: Any, y: Any) -> Any:
    parts = [x, y]
    parts.append(x + y)
    pair = (parts[2], parts[0])
    u, v = pair
    return parts, pair, u - v


def in_place(x: Any, y: Any) -> Any:
    x = x.copy()
    x += y
    x[1] = 0.0
    x[:, 1:3] *= 2
    z = x
    z[0, 0] = 7
    return x, z


def scalars(x: Any, y: Any) -> Any:
    t = 0.5
    s = x.mean() * t
    k = math.sqrt(4.0)
    return x * s + k, float(s)


def reductions(x: Any, y: Any) -> Any:
    m = x.max(axis=1, keepdims=True)
    e = np.exp(x - m)
    return e / e.sum(axis=1, keepdims=True), x.argmin(), np.any(x > 0)


def opaque(x: Any, y: Any) -> Any:
    q = np.sort(x, axis=1)
    return np.concatenate([q, y]) @ WEIGHT, np.where(x > 0, x, 0.0), x[x > 0]


def handled(x: Any, y: Any) -> Any:
    try:
        z = x + 1
        w = z @ np.ones(9)
    except ValueError as error:
        return str(error), z * 2
    return w


def raises(x: Any, y: Any) -> Any:
    z = x * 2
    return helper(z) @ np.ones(9)


def with_none(x: Any, y: Any, out: Any = None) -> Any:
    if out is None:
        out = x * 0
    return out + y


def comprehension(x: Any, y: Any) -> Any:
    return sum([row * 2 for row in [x, y]])


FUNCTIONS: list[Callable[..., Any]] = [
    chain,
    toy_function,
    inlined,
    inlined_break,
    break_in_callee,
    loop,
    long_loop,
    shapes,
    containers,
    in_place,
    scalars,
    reductions,
    opaque,
    handled,
    raises,
    with_none,
    comprehension,
]
ARGUMENTS = [(A, B), (A, -B), (B, A), (A[:2], B[:2])]


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_behaves_as_plain_python(function: Callable[..., Any], backend: str) -> None:
    captured = evalframe.jit(function, backend=backend)
    for arguments in ARGUMENTS * 3:
        expected = outcome(function, *arguments)
        assert same(outcome(captured, *arguments), expected)


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_may_be_left_before_every_node(function: Callable[..., Any], backend: str) -> None:
    for node in range(14):
        captured = evalframe.jit(function, backend=backend)
        for arguments in ARGUMENTS:
            outcome(captured, *arguments)
        with leaving_before(node):
            for arguments in ARGUMENTS:
                assert same(outcome(captured, *arguments), outcome(function, *arguments)), node


def test_toy_function_is_one_graph_and_two_that_go_on() -> None:
    captured = evalframe.jit(toy_function)
    evalframe.explain(captured)(A, B)
    told = evalframe.explain(captured)(A, -B)
    assert len(told.graphs) == 3
    assert len(told.breaks) == 1
    assert told.breaks[0].reason == "branch on the value of an array"


def test_identities_hold() -> None:
    def function(x: Any) -> Any:
        y = x + 1
        pair = [y, y]
        return pair, pair, y

    captured = evalframe.jit(function)
    for _ in range(3):
        first, second, y = captured(A)
        assert first is second and first[0] is y and first[1] is y


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_lines_are_right_where_a_graph_begins_inside_a_call(backend: str) -> None:
    seen: list[list[tuple[str, int | None]]] = []

    def handler(kind: str, flag: int) -> None:
        seen.append([(frame.name, frame.lineno) for frame in traceback.extract_stack()[-3:-1]])

    def inner(x: Any) -> Any:
        if x.sum() < 0:
            x = -x
        return x / (x - x)

    def outer(x: Any) -> Any:
        y = inner(x + 1)

        return y

    captured = evalframe.jit(outer, backend=backend)
    with np.errstate(all="call", call=handler):
        outer(V)
        for _ in range(5):
            captured(V)
    assert len(seen) >= 6
    assert seen == [seen[0]] * len(seen)


def test_hits_are_counted_and_sizes_may_vary() -> None:
    captured = evalframe.jit(chain)
    for n in (3, 4, 5, 100):
        assert np.array_equal(captured(np.ones(n), np.ones(n)), chain(np.ones(n), np.ones(n)))
    assert _core.jit_counters(captured)["recordings"] == 1
    assert _core.jit_counters(captured)["hits"] == 3


class Model:
    factor = 2.0

    def __init__(self) -> None:
        self.weight = V

    @evalframe.jit
    def forward(self, x: Any) -> Any:
        return self.activate(x * self.weight) * self.factor

    def activate(self, x: Any) -> Any:
        return np.maximum(x, 0)

    @staticmethod
    @evalframe.jit
    def double(x: Any) -> Any:
        return x * 2

    @evalframe.jit
    @classmethod
    def scaled(cls, x: Any) -> Any:
        return x * cls.factor


def test_methods() -> None:
    model = Model()
    for _ in range(3):
        assert np.array_equal(model.forward(A), np.maximum(A * V, 0) * 2)
        assert np.array_equal(Model.double(A), A * 2)
        assert np.array_equal(Model.scaled(A), A * 2)
    model.weight = V + 1
    assert np.array_equal(model.forward(A), np.maximum(A * (V + 1), 0) * 2)


def test_nothing_goes_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    model.forward(A)
    model.forward(A)
    monkeypatch.setattr(Model, "activate", lambda self, x: x)
    assert np.array_equal(model.forward(A), A * V * 2)
    model.activate = lambda x: x + 1
    assert np.array_equal(model.forward(A), (A * V + 1) * 2)
    Model.factor = 3.0
    try:
        assert np.array_equal(model.forward(A), (A * V + 1) * 3)
    finally:
        Model.factor = 2.0

    captured = evalframe.jit(inlined)
    before = captured(A, B)
    assert np.array_equal(before, inlined(A, B))
    monkeypatch.setattr(helper, "__defaults__", (5.0,))
    assert np.array_equal(captured(A, B), inlined(A, B))
    monkeypatch.setattr(helper, "__kwdefaults__", {"shift": -1.0})
    assert np.array_equal(captured(A, B), inlined(A, B))
    monkeypatch.setattr(helper, "__code__", (lambda x, scale=1, *, shift=1: x).__code__)
    assert np.array_equal(captured(A, B), inlined(A, B))


def test_is_a_function_to_others() -> None:
    captured = evalframe.jit(helper)
    assert captured.__name__ == "helper" and captured.__wrapped__ is helper
    assert captured.__defaults__ == helper.__defaults__
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        captured()
    assert pickle.loads(pickle.dumps(Model.double)) is Model.double


def test_what_calls_depend_on_may_be_set_from_outside() -> None:
    def function(x: Any, shift: Any = 1, *, scale: Any = 2) -> Any:
        return x * scale + shift

    def other(x: Any, shift: Any = 1, *, scale: Any = 2) -> Any:
        return x - scale - shift

    captured: Any = evalframe.jit(function)
    x = np.ones(3)
    assert all(np.array_equal(captured(x), [3, 3, 3]) for _ in range(3))
    captured.__defaults__ = (5,)
    assert np.array_equal(captured(x), [7, 7, 7])
    captured.__kwdefaults__ = {"scale": 3}
    assert np.array_equal(captured(x), [8, 8, 8])
    captured.__code__ = other.__code__
    assert np.array_equal(captured(x), function(x)) and np.array_equal(captured(x), [-7, -7, -7])
    with pytest.raises(TypeError, match="__defaults__ must be set to a tuple object"):
        captured.__defaults__ = 3
    captured.note = "kept here"
    assert captured.note == "kept here" and not hasattr(function, "note")
    del captured.__defaults__
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'shift'"):
        captured(x)


def test_generators_run_as_they_are() -> None:
    @evalframe.jit
    def generate(x: Any) -> Any:
        yield x + 1
        yield x * 2

    assert np.array_equal(list(generate(A))[1], A * 2)


def test_fullgraph_names_the_place_of_the_break() -> None:
    captured = evalframe.jit(toy_function, fullgraph=True)
    with pytest.raises(evalframe.GraphBreakError, match=r"test_jit\.py:\d+:8: in toy_function: branch on the value"):
        captured(A, B)
    assert same(evalframe.jit(chain, fullgraph=True)(A, B), chain(A, B))


def test_refuses_what_has_no_code() -> None:
    with pytest.raises(TypeError, match="no Python code to capture"):
        evalframe.jit(len)
    with pytest.raises(ValueError, match="unknown backend 'nothing'"):
        evalframe.jit(chain, backend="nothing")
    with pytest.raises(TypeError, match="backend must be callable or one of the names"):
        evalframe.jit(chain, backend=3)


def test_enabled_captures_functions_as_they_are() -> None:
    expected = chain(A, B), inlined(A, B), toy_function(A, -B)
    before = evalframe.stats()
    with evalframe.enabled():
        for _ in range(3):
            assert same((chain(A, B), inlined(A, B), toy_function(A, -B)), expected)
    after = evalframe.stats()
    assert after["recordings"] > before["recordings"]
    with evalframe.enabled(), pytest.raises(ValueError, match="mismatch in its core dimension"):
        raises(A, B)
    with pytest.raises(ValueError, match="unknown backend"):
        evalframe.enabled(backend="nothing")


def test_enabled_leaves_functions_alone_that_make_no_arrays() -> None:
    def passed_on(x: Any) -> Any:
        return x

    before = evalframe.stats()["calls"]
    with evalframe.enabled():
        for _ in range(5000):
            assert passed_on(A) is A
    assert evalframe.stats()["calls"] - before < 100


def test_enabled_captures_a_function_whose_first_thousands_of_calls_had_no_arrays() -> None:
    def doubled(x: Any, by: Any = 2) -> Any:
        return x * by

    with evalframe.enabled():
        assert [doubled(k) for k in range(3000)] == [2 * k for k in range(3000)]
        before = evalframe.stats()
        assert all(same(doubled(A), A * 2) for _ in range(4))
        assert same(doubled(3, by=A), 3 * A)
        with evalframe.hook(lambda frame: None):  # and where it isn't the only hook
            assert all(same(doubled(A), A * 2) and doubled(4) == 8 for _ in range(4))
        after = evalframe.stats()
    assert after["hits"] - before["hits"] >= 6


def test_enabled_captures_functions_that_find_their_arrays_themselves() -> None:
    """In globals, in closures, and in attributes of the first argument."""
    world: dict[str, Any] = {"__name__": "world", "table": A}
    exec("def of_globals(k):\n    return table * k + table", world)

    def closing(kept: Any) -> Any:
        return lambda k: kept * k + kept

    class Slotted:
        __slots__ = ("kept",)

        def scaled(self, k: float) -> Any:
            return self.kept * k + self.kept

    class Plain(Slotted):
        def __init__(self) -> None:
            self.table = A
            self.kept = A

        def moved(self, k: float) -> Any:
            self.table = self.table * k + 1.0
            return self.table

    slotted = Slotted()
    slotted.kept = A
    for function in (world["of_globals"], closing(A), slotted.scaled, Plain().scaled, Plain().moved):
        expected = [function(k / 4) for k in range(5)]
        if hasattr(function, "__self__") and hasattr(function.__self__, "table"):
            function.__self__.table = A
        before = evalframe.stats()["recordings"]
        with evalframe.enabled():
            assert same([function(k / 4) for k in range(5)], expected)
        assert evalframe.stats()["recordings"] > before


def test_enabled_captures_a_module_whose_code_lies_where_that_of_a_function_did() -> None:
    code = compile("import numpy as np\ntotal = np.zeros(3)\nfor k in range(400):\n    total = total + k * np.ones(3)\n", "module.py", "exec")
    # It names no module of NumPy's, so that its code is none to capture.
    flags, names = code.co_flags | inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS, tuple("x" + name for name in code.co_names)
    tried = 0
    with evalframe.enabled():
        for _ in range(20):
            function = types.FunctionType(code.replace(co_flags=flags, co_names=names), {"__name__": "world", "__builtins__": {}})
            for _ in range(2):
                with pytest.raises(ImportError):
                    function()
            address = id(function.__code__)
            del function
            module = code.replace()
            if id(module) != address:
                continue
            tried += 1
            before = evalframe.stats()["recordings"]
            exec(module, {"__name__": "other"})
            assert evalframe.stats()["recordings"] > before
    assert tried


def test_enabled_bounds_what_a_program_of_many_functions_without_arrays_loses() -> None:
    source = """
def sorted_out(items, table):
    out = []
    for item in items:
        if item % 3 == 0:
            table[item] = table.get(item, 0) + 1
        else:
            try:
                out.append({"a": item}["b" if item % 7 == 3 else "a"])
            except KeyError as error:
                out.append(error.args)
    return np.zeros(2) if len(items) > 99 else sorted(map(str, out))
"""
    functions = []
    for number in range(400):
        world: dict[str, Any] = {"__name__": f"world{number}", "np": np}
        exec(source, world)
        functions.append(world["sorted_out"])

    def called() -> list[Any]:
        table: dict[int, int] = {}
        return [function([call + k for k in range(12)], table) for call in range(8) for function in functions] + [table]

    wanted = called()
    before = evalframe.stats()
    with evalframe.enabled():
        assert called() == wanted
        made = functions[-1](np.arange(120), {})
    assert made.shape == (2,)
    assert evalframe.stats()["recordings"] - before["recordings"] < 1200  # of some 6,000


def test_recordings_wait_once_they_have_taken_their_share_of_a_programs_time() -> None:
    source = """
def called_once(x, seen):
    y = x * 2 + 1 + pause()
    print(end="")
    seen.append(y)
    return y - x

def loops(x, turns):
    total = x * 0
    for turn in range(turns):
        total = total + x * turn + pause()
        print(end="")
    return total
"""
    now = [0.0]

    @evalframe.leaf
    def pause() -> float:
        now[0] += 4e-4
        return 0.0

    def made(number: int) -> dict[str, Any]:
        world: dict[str, Any] = {"__name__": f"world{number}", "np": np, "pause": pause}
        exec(source, world)
        return world

    many, often, hot = [made(number)["called_once"] for number in range(1500)], made(-1)["called_once"], made(-2)["loops"]
    _core.set_clock(lambda: now[0])
    try:
        with evalframe.enabled():
            stats = [evalframe.stats()]
            assert same([function(A, []) for function in many], [A + 1] * 1500)
            stats.append(evalframe.stats())
            assert same([often(A, []) for _ in range(60)], [A + 1] * 60)
            stats.append(evalframe.stats())
            assert same(hot(A, 300), A * sum(range(300)))
            stats.append(evalframe.stats())
    finally:
        _core.set_clock(None)
        evalframe.followed(pause)
    of_many, of_often, of_hot = ({key: after[key] - before[key] for key in ("recordings", "served", "put_off")} for before, after in pairwise(stats))
    assert 250 <= of_many["recordings"] < 1000  # of 3,000
    assert of_many["put_off"] > 1000
    assert 2 <= of_often["recordings"] <= 4  # no function is too late
    assert of_often["served"] >= 40
    assert of_hot["recordings"]  # nor is a loop that is run once
    assert of_hot["served"] > 16  # until its trial, which sees no time pass


def test_functions_are_left_to_cpython_that_break_again_and_again_with_no_array_between() -> None:
    source = "def barren(x, seen):\n" + "    seen.append(len(seen)); print(end='')\n" * 200 + "    return x"
    world: dict[str, Any] = {"__name__": "world"}
    exec(source, world)
    before = evalframe.stats()
    seen: list[int] = []
    assert evalframe.jit(world["barren"])(A, seen) is A
    after = evalframe.stats()
    assert seen == list(range(200))
    assert after["recordings"] - before["recordings"] < 50
    assert after["given_up"] == before["given_up"] + 1


def test_enabled_notices_that_a_module_comes_to_name_numpy() -> None:
    world: dict[str, Any] = {"__name__": "late"}
    exec("def f(n):\n    return lib.arange(n) * 2.0 + 1.0 if n else 0", world)
    before = evalframe.stats()["recordings"]
    with evalframe.enabled():
        for _ in range(10):
            assert world["f"](0) == 0
        assert evalframe.stats()["recordings"] == before
        world["lib"] = np
        for _ in range(2000):
            assert world["f"](3)[2] == 5.0
    assert evalframe.stats()["recordings"] > before


def test_keywords_and_defaults_bind_as_in_a_plain_call():
    def f(x, /, y=2.0, *, scale=3.0, shift=4.0):
        return (x * y * scale + shift).sum()

    compiled = evalframe.jit(f)
    x = np.arange(3.0)
    for _ in range(3):
        assert compiled(x) == f(x)
        assert compiled(x, y=5.0) == f(x, y=5.0)
        assert compiled(x, scale=1.0) == f(x, scale=1.0)
        assert compiled(x, shift=1.0, scale=7.0, y=0.5) == f(x, shift=1.0, scale=7.0, y=0.5)
        assert compiled(x, **{"".join(["sca", "le"]): 9.0, "shift": 2.0}) == f(x, scale=9.0, shift=2.0)
    for arguments, keywords in (((), {}), ((x,), {"x": x}), ((x, 1.0), {"y": 2.0}), ((x,), {"z": 1}), ((x, 1, 2), {})):
        with pytest.raises(TypeError) as plain:
            f(*arguments, **keywords)
        with pytest.raises(TypeError) as ours:
            compiled(*arguments, **keywords)
        assert str(ours.value) == str(plain.value)
    f.__kwdefaults__["scale"] = 30.0
    f.__defaults__ = (20.0,)
    assert compiled(x) == f(x) == compiled.__wrapped__(x)


def test_callers_stand_at_their_calls_when_what_they_call_raises() -> None:
    def divided(x: Any, by: Any) -> Any:
        y = x + 1
        str(y)  # breaks here
        return y / by

    def outer(x: Any, by: Any) -> Any:
        result = (
            x
            + divided(
                x,
                by,
            )
        )
        return result * 2

    def places(function: Callable[..., Any], by: Any) -> list[Any]:
        try:
            function(np.ones(3), by)
        except ValueError as error:
            frames = traceback.extract_tb(error.__traceback__)[1:]
            return [(frame.name, frame.lineno, frame.colno, frame.end_colno) for frame in frames]
        return []

    captured = evalframe.jit(outer)
    for by in (2.0, 3.0, np.ones(2), np.ones(2), 4.0, np.ones(2)):
        assert places(captured, by) == places(outer, by)


def depth_left() -> int:
    try:
        return 1 + depth_left()
    except RecursionError:
        return 0


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_levels_of_recursion_are_given_back_on_every_way_out(backend: str) -> None:
    def inner(x: Any, how: int) -> Any:
        y = x + 1
        if how == 1:
            print(end="")
        if how == 2:
            raise ValueError(y)
        if y.sum() > 100:
            return y[100]
        return y

    def outer(x: Any, how: int) -> Any:
        try:
            return inner(inner(x, how), how) * 2
        except ValueError:
            return inner(x, 0)

    captured = evalframe.jit(outer, backend=backend)
    before = depth_left()
    for _ in range(50):
        for how in (0, 1, 2):
            assert same(captured(A, how), outer(A, how))
        with pytest.raises(IndexError):
            captured(A + 100, 0)
    assert depth_left() == before


def test_calls_that_are_followed_are_levels_of_recursion() -> None:
    def deep(n: int, x: Any) -> Any:
        return x.sum() if n == 0 else deep(n - 1, x + 1)

    captured = evalframe.jit(deep)
    for _ in range(3):
        assert captured(100, A) == deep(100, A)
        with pytest.raises(RecursionError):
            captured(20_000, A)
    with evalframe.enabled():
        for _ in range(3):
            with pytest.raises(RecursionError):
                deep(20_000, A)


def test_thirty_thousand_operations_are_one_graph() -> None:
    lines = "    x = x + 1.0\n    x = x * 0.5\n" * 15_000
    names: dict[str, Any] = {}
    exec(f"def long(x):\n{lines}    return x\n", names)
    captured = evalframe.jit(names["long"], backend="reference", fullgraph=True)
    for _ in range(2):
        assert np.array_equal(captured(A), names["long"](A))
    assert _core.jit_counters(captured)["recordings"] == 1
