"""Bad and odd input: as plain Python, or an error that says what to do; and nothing is lost or left installed afterwards."""

from __future__ import annotations

import functools
import gc
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from test_jit import outcome, same

BACKENDS = ["reference", "native", lambda graph, example_inputs: graph]


@pytest.fixture(autouse=True)
def nothing_is_left(no_collections: None) -> Iterator[None]:
    """After each test: no hook, no exception, no tracer; captured code still works."""
    yield
    assert sys.exc_info() == (None, None, None) and sys.gettrace() is None
    seen = []
    with evalframe.hook(lambda frame: seen.append(frame.qualname)):
        (lambda: None)()
    (lambda: None)()
    assert len(seen) == 1
    assert np.array_equal(evalframe.jit(lambda x: x + 1)(np.ones(2)), [2, 2])


def plus_one(x: Any) -> Any:
    return x + 1


class WithCall:
    def __call__(self, x: Any) -> Any:
        return x + 1


# What is called with what, the error, and what its text says.
WRONG_ARGUMENTS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: evalframe.jit(len), TypeError, "needs a Python function, not builtin_function_or_method: <built-in function len> has no Python"),
    (lambda: evalframe.jit(np.exp), TypeError, "needs a Python function, not ufunc"),
    (lambda: evalframe.jit(3), TypeError, "needs a Python function, not int"),
    (lambda: evalframe.jit("f"), TypeError, "needs a Python function, not str"),
    (lambda: evalframe.jit(WithCall), TypeError, "decorate its methods"),
    (lambda: evalframe.jit(WithCall()), TypeError, "decorate its __call__"),
    (lambda: evalframe.jit(functools.partial(plus_one)), TypeError, "the function inside: functools.partial"),
    (lambda: evalframe.jit(WithCall().__call__), TypeError, "decorate the function in the class"),
    (lambda: evalframe.jit(plus_one, backend="no"), ValueError, "unknown backend 'no'; there are: native, reference"),
    (lambda: evalframe.jit(plus_one, backend=None), TypeError, "backend must be callable or one of the names native, reference.*NoneType"),
    (lambda: evalframe.jit(plus_one, fullgraph="yes"), TypeError, "fullgraph must be True or False, not 'yes'"),
    (lambda: evalframe.jit(plus_one, exact=1), TypeError, "exact must be True or False, not 1"),
    (lambda: evalframe.jit(plus_one, max_entries=0), ValueError, "max_entries must be from 1 to 10,000, not 0"),
    (lambda: evalframe.jit(plus_one, max_entries=2.5), TypeError, "max_entries must be an int, not float"),
    (lambda: evalframe.jit(plus_one, max_entries=True), TypeError, "max_entries must be an int, not bool"),
    (lambda: evalframe.jit(plus_one, max_entries=10**20), ValueError, "max_entries must be from 1 to"),
    (lambda: evalframe.jit(plus_one, no_such_option=1), TypeError, "unexpected keyword argument 'no_such_option'"),
    (lambda: evalframe.jit()(3), TypeError, "needs a Python function, not int"),
    (lambda: evalframe.enabled(backend="no"), ValueError, "unknown backend 'no'"),
    (lambda: evalframe.enabled(backend=3), TypeError, "backend must be callable or one of the names"),
    (lambda: evalframe.enabled("native"), TypeError, "positional argument"),
    (lambda: evalframe.enabled().__exit__(None, None, None), RuntimeError, "isn't entered"),
    (lambda: evalframe.explain(len), TypeError, "needs a Python function"),
    (lambda: evalframe.explain(plus_one, backend="no"), ValueError, "unknown backend"),
    (lambda: evalframe.explain(evalframe.jit(plus_one), backend="reference"), TypeError, "has its options already"),
    (lambda: evalframe.hook(3), TypeError, "callable"),
    (lambda: evalframe.hook(), TypeError, "incompatible function arguments"),
    (lambda: evalframe.variables(3), TypeError, "expected a function, a method or a code object, got int"),
    (lambda: evalframe.variables(len), TypeError, "give it a function written in Python"),
    (lambda: evalframe.dis(3), TypeError, "a Python function or a code object is needed, not int"),
    (lambda: evalframe.dis(len), TypeError, "a Python function or a code object is needed"),
    (lambda: evalframe.dis("x ="), SyntaxError, "invalid syntax"),
    (lambda: evalframe.bytecode.Bytecode.from_code(len), TypeError, "a Python function or a code object is needed"),
    (lambda: evalframe.bytecode.Bytecode.from_code(3), TypeError, "a Python function or a code object is needed"),
    (lambda: _core.jit_entries(plus_one), TypeError, "made by evalframe.jit, not function"),
    (lambda: _core.Jit(3), TypeError, "function"),
    (lambda: _core.Jit(), TypeError, "function"),
]


@pytest.mark.parametrize(("call", "error", "text"), WRONG_ARGUMENTS)
def test_wrong_arguments(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with warnings.catch_warnings(), pytest.raises(error, match=text):
        warnings.simplefilter("error")
        call()


def test_lambdas_and_nested_functions_are_functions() -> None:
    scale = 3.0
    captured = evalframe.jit(lambda x: x * scale)
    for _ in range(3):
        assert np.array_equal(captured(np.ones(2)), [3, 3])
    assert evalframe.jit(captured) is captured


# --- hooks -------------------------------------------------------------------------------------------------------------


def victim(a: Any, b: Any = 2) -> Any:
    return a + b


def other_variables(c: Any, d: Any = 2) -> Any:
    e = c
    return e + d


def reordered(b: Any, a: Any = 2) -> Any:
    return a + b


def fewer(a: Any) -> Any:
    return a


def generator(a: Any, b: Any = 2) -> Any:
    yield a


HOOK_RESULTS: list[tuple[Any, type[Exception], str]] = [
    (3, TypeError, r"returned 3 for victim\(\).*it may return None \(the call goes on\), a code object"),
    ("text", TypeError, "returned 'text' for victim"),
    ((1, 2), TypeError, "it may return None"),
    (victim, TypeError, "it may return None"),
    (other_variables.__code__, ValueError, "a"),
    (reordered.__code__, ValueError, "a"),
    (fewer.__code__, ValueError, "b"),
    (compile("1", "x", "eval"), ValueError, ""),
]


@pytest.mark.parametrize(("given", "error", "text"), HOOK_RESULTS)
def test_a_hook_that_returns_nonsense(given: Any, error: type[Exception], text: str) -> None:
    with evalframe.hook(lambda frame: given if frame.code is victim.__code__ else None), pytest.raises(error, match=text):
        victim(1)
    assert victim(1) == 3


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_a_hook_that_raises(error: BaseException) -> None:
    def callback(frame: evalframe.FrameInfo) -> Any:
        if frame.code is victim.__code__:
            raise error

    with evalframe.hook(callback), pytest.raises(type(error)):
        victim(1)
    assert victim(1) == 3


def test_a_hook_that_takes_no_frame() -> None:
    with pytest.raises(TypeError, match="positional argument"), evalframe.hook(lambda: None):
        victim(1)
    assert victim(1) == 3


# --- arrays ------------------------------------------------------------------------------------------------------------


def compute(x: Any, y: Any) -> Any:
    z = x * 2 + y
    return z, np.abs(z - y).sum(), z[..., None].shape


def write(x: Any, y: Any) -> Any:
    x[...] = x + y
    x += y
    y *= 2
    return x - y


def shifted(x: Any, y: Any) -> Any:
    y[1:] = y[:-1] + x[1:]
    y[:-1] += y[1:]
    return np.add(x, 1, out=y)


def reduce(x: Any, y: Any) -> Any:
    return x.sum(), x.mean(), x.max(), np.where(x > 0, x, y), x.astype("f8") @ y.astype("f8")


def views(x: Any, y: Any) -> Any:
    v = x.T[::-1]
    v += 1
    w = x.reshape(-1)
    w[:1] = 7
    return v, w, np.concatenate([x, y])


def raises_in_the_middle(x: Any, y: Any) -> Any:
    x += 1
    z = x * 2
    z[5] = y[0]
    try:
        w = z[:2] + z[:3]
    except ValueError as error:
        z[0] = 9
        return z, str(error)
    return w[99]


PROGRAMS = [compute, write, shifted, reduce, views, raises_in_the_middle]


def overlapping() -> tuple[Any, Any]:
    base = np.arange(12.0)
    return base[2:10], base[:8]


def same_array() -> tuple[Any, Any]:
    x = np.arange(8.0)
    return x, x


def read_only() -> tuple[Any, Any]:
    x = np.arange(8.0)
    x.flags.writeable = False
    return x, np.arange(8.0)


def unaligned() -> tuple[Any, Any]:
    return np.frombuffer(bytearray(65), dtype="u1")[1:].view("f8"), np.arange(8.0)


def broadcast_views() -> tuple[Any, Any]:
    return np.broadcast_to(np.arange(2.0)[:, None], (2, 4)), np.ones((2, 4))


class Mine(np.ndarray):
    pass


def subclass() -> tuple[Any, Any]:
    return np.arange(8.0).view(Mine), np.arange(8.0)


INPUTS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "plain": lambda: (np.arange(8.0), np.arange(8.0) + 1),
    "overlapping": overlapping,
    "overlapping the other way": lambda: overlapping()[::-1],
    "reversed view of the other": lambda: (lambda x: (x, x[::-1]))(np.arange(8.0)),
    "the same array": same_array,
    "no elements": lambda: (np.zeros(0), np.zeros(0)),
    "no rows": lambda: (np.zeros((0, 3)), np.zeros((0, 3))),
    "no columns": lambda: (np.zeros((3, 0)), np.zeros((3, 0))),
    "one element": lambda: (np.ones(1), np.ones(1)),
    "read-only": read_only,
    "read-only second": lambda: read_only()[::-1],
    "no dimensions": lambda: (np.array(2.0), np.array(3.0)),
    "one without dimensions": lambda: (np.array(2.0), np.arange(8.0)),
    "NumPy scalars": lambda: (np.float64(2.0), np.float32(3.0)),
    "strided": lambda: (np.arange(16.0)[::2], np.arange(24.0)[::3]),
    "negative strides": lambda: (np.arange(8.0)[::-1], np.arange(16.0)[::-2]),
    "columns": lambda: (np.arange(24.0).reshape(8, 3)[:, 1], np.arange(8.0)),
    "Fortran order": lambda: (np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.ones((2, 3))),
    "transposed": lambda: (np.arange(6.0).reshape(2, 3).T, np.ones((3, 2))),
    "byte-swapped": lambda: (np.arange(8.0).astype(">f8"), np.arange(8.0)),
    "byte-swapped second": lambda: (np.arange(8.0), np.arange(8).astype(">i4")),
    "unaligned": unaligned,
    "unaligned second": lambda: unaligned()[::-1],
    "stride 0": broadcast_views,
    "stride 0 second": lambda: broadcast_views()[::-1],
    "a subclass": subclass,
    "masked": lambda: (np.ma.masked_greater(np.arange(8.0), 4), np.arange(8.0)),
    "objects": lambda: (np.array([1, 2.5, None, 4, 5, 6, 7, 8], dtype=object), np.arange(8.0)),
    "strings": lambda: (np.array(list("abcdefgh")), np.arange(8.0)),
    "structured": lambda: (np.zeros(8, dtype=[("a", "f8")]), np.arange(8.0)),
    "dates": lambda: (np.arange(8).astype("M8[D]"), np.arange(8).astype("m8[D]")),
    "long double": lambda: (np.arange(8.0).astype("g"), np.arange(8.0)),
    "half": lambda: (np.arange(8.0).astype("f2"), np.arange(8.0).astype("f2")),
    "booleans": lambda: (np.arange(8) > 3, np.arange(8) > 5),
    "unsigned and signed": lambda: (np.arange(8).astype("u8"), np.arange(8).astype("i8") - 4),
    "small integers that overflow": lambda: (np.full(8, 100, "i1"), np.full(8, 100, "i1")),
    "complex": lambda: (np.arange(8) * (1 + 2j), np.arange(8.0)),
    "not finite": lambda: (np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1e308, 5e-324, 1]), np.full(8, 1e308)),
    "sizes that don't fit": lambda: (np.arange(8.0), np.arange(7.0)),
    "ranks that broadcast": lambda: (np.arange(8.0), np.ones((3, 8))),
    "many dimensions": lambda: (np.ones((1,) * 31 + (8,)), np.ones(8)),
    "a list": lambda: ([1.0, 2.0], np.arange(2.0)),
    "None": lambda: (None, np.arange(8.0)),
    "text": lambda: ("text", np.arange(8.0)),
    "Python numbers": lambda: (2, 3.5),
    "a large int": lambda: (10**30, np.arange(8.0)),
}


def state(*arrays: Any) -> list[Any]:
    return [np.array(a, copy=True) if isinstance(a, np.ndarray) else a for a in arrays]


def equal(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        alike = (type(left), left.dtype, left.shape) == (type(right), right.dtype, right.shape)
        return alike and (left.dtype.kind in "fc" and same(left, right) or repr(left) == repr(right))
    if isinstance(left, (tuple, list)) and type(left) is type(right):
        return len(left) == len(right) and all(map(equal, left, right))
    return same(left, right) or repr(left) == repr(right)


@pytest.mark.parametrize("backend", BACKENDS, ids=["reference", "native", "user"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", INPUTS)
def test_arrays_of_any_kind(name: str, program: Callable[..., Any], backend: Any) -> None:
    """Recorded with these inputs, and recorded with plain ones first."""
    for first in (name, "plain"):
        captured = evalframe.jit(program, backend=backend)
        outcome(captured, *INPUTS[first]())
        for _ in range(2):
            plain_inputs, inputs = INPUTS[name](), INPUTS[name]()
            expected = outcome(program, *plain_inputs)
            found = outcome(captured, *inputs)
            assert equal(found[0], expected[0]), (found, expected)
            if callable(backend):  # warnings of a user's code are from the lines of that code
                found, expected = [(r, sorted({(text, category) for text, category, _ in w})) for r, w in (found, expected)]
            assert found[1] == expected[1]
            assert equal(state(*inputs), state(*plain_inputs))


def test_references_are_kept_through_errors() -> None:
    captured = evalframe.jit(raises_in_the_middle)
    x, y = np.arange(8.0), np.arange(8.0)
    for _ in range(3):
        captured(x, y)
    gc.collect()
    before = sys.getrefcount(x), sys.getrefcount(y)
    for _ in range(50):
        captured(x, y)
        outcome(captured, x, np.zeros(0))
    gc.collect()
    assert (sys.getrefcount(x), sys.getrefcount(y)) == before


# --- functions with broken insides ---------------------------------------------------------------------------------------


def test_a_function_whose_code_is_replaced() -> None:
    def function(x: Any) -> Any:
        return x + 1

    captured = evalframe.jit(function)
    assert np.array_equal(captured(np.ones(2)), [2, 2])
    function.__code__ = (lambda x: x * 5).__code__
    for _ in range(3):
        assert np.array_equal(captured(np.ones(2)), [5, 5])
    function.__code__ = (lambda x, y=0, *more: x * 7).__code__
    for _ in range(3):
        assert np.array_equal(captured(np.ones(2), 1, 2), [7, 7])


def test_globals_that_are_gone() -> None:
    namespace: dict[str, Any] = {"np": np, "scale": 2.0}
    exec("def function(x):\n    return np.sqrt(x) * scale\n", namespace)
    captured = evalframe.jit(namespace["function"])
    captured(np.ones(2)), captured(np.ones(2))
    del namespace["scale"]
    for _ in range(3):
        with pytest.raises(NameError, match="name 'scale' is not defined"):
            captured(np.ones(2))
    namespace["scale"] = 3.0
    assert np.array_equal(captured(np.ones(2)), [3, 3])


def test_wrong_calls_are_pythons_errors() -> None:
    def function(x: Any, *, scale: Any = 1) -> Any:
        return x * scale

    captured = evalframe.jit(function)
    for call in (lambda f: f(), lambda f: f(1, 2), lambda f: f(x=1, y=2), lambda f: f(1, x=1), lambda f: f(*[1], **{"scal": 2})):
        assert outcome(call, captured)[0][1][:2] == outcome(call, function)[0][1][:2]


def test_recursion_ends_as_in_python() -> None:
    @evalframe.jit
    def endless(x: Any) -> Any:
        return endless(x + 1)

    for _ in range(2):
        with pytest.raises(RecursionError):
            endless(np.ones(2))
    assert types.FunctionType is type(endless.__wrapped__)


def test_explain_with_the_arguments_of_the_call() -> None:
    with pytest.raises(TypeError, match=r"call what it returns: explain\(function\)\(\*arguments\)"):
        evalframe.explain(lambda x: x, 1.0)
