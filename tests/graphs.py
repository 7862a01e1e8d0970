"""Graphs for tests: a function of arrays is recorded node by node, run by the native backend, and compared with NumPy."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from evalframe._core.bytecode import OPERATORS

from evalframe import _core


class Traced:
    """A value of the graph; what is done to it becomes nodes."""

    def __init__(self, recorder: Recorder, handle: int) -> None:
        self.recorder = recorder
        self.handle = handle

    def __getattr__(self, name: str) -> Any:
        if name in ("T", "shape"):
            return self.recorder.node("getattr", name, [self])
        descriptor = np.ndarray.__dict__[name]
        return lambda *args, **kwargs: self.recorder.call(descriptor, self, *args, **kwargs)

    def __getitem__(self, key: Any) -> Traced:
        return self.recorder.node("getitem", None, [self, key])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.recorder.node("setitem", None, [self, key, value])

    def __neg__(self) -> Traced:
        return self.recorder.node("unary", None, [self], code=0)

    def __invert__(self) -> Traced:
        return self.recorder.node("unary", None, [self], code=2)


def _define(name: str, form: str, code: int, swapped: bool = False) -> None:
    def method(self: Traced, other: Any) -> Traced:
        return self.recorder.node(form, None, [other, self] if swapped else [self, other], code=code)

    setattr(Traced, f"__{name}__", method)


for _form in ("binary", "compare"):
    for _code, (_symbol, _function) in enumerate(OPERATORS[_form]):
        _name = _function.rstrip("_")
        _define(_name, _form, _code)
        if _form == "binary" and not _symbol.endswith("="):
            _define("r" + _name, _form, _code, swapped=True)


class Recorder:
    """Stands for the numpy module while a function is recorded."""

    def __init__(self) -> None:
        self.builder = _core.GraphBuilder()

    def handle(self, value: Any) -> int:
        if isinstance(value, Traced):
            return value.handle
        parts = [value.start, value.stop, value.step] if isinstance(value, slice) else value if isinstance(value, tuple) else []
        if any(isinstance(part, Traced | slice) for part in parts):
            return self.node("slice" if isinstance(value, slice) else "tuple", None, parts).handle
        return self.builder.constant(value)

    def node(self, form: str, callable: Any, operands: Sequence[Any], keywords: Any = None, code: int = 0) -> Traced:
        handles = [self.handle(operand) for operand in operands]
        return Traced(self, self.builder.node(form, callable, handles, keywords, code))

    def call(self, function: Any, *args: Any, **kwargs: Any) -> Traced:
        return self.node("call", function, [*args, *kwargs.values()], tuple(kwargs) or None)

    def __getattr__(self, name: str) -> Any:
        value = getattr(np, name)
        if isinstance(value, type):
            return value
        return lambda *args, **kwargs: self.call(value, *args, **kwargs)


class Compiled:
    """A function recorded with example inputs and compiled."""

    def __init__(self, function: Callable[..., Any], examples: Sequence[Any]) -> None:
        recorder = Recorder()
        copies = [np.copy(x, subok=True, order="K") if isinstance(x, np.ndarray) else x for x in examples]
        traced = [Traced(recorder, recorder.builder.input(x, f"x{i}")) for i, x in enumerate(copies)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(recorder, *traced)
            self.single = not isinstance(result, tuple)
            outputs = (result,) if self.single else result
            self.builder = recorder.builder
            self.builder.compile([recorder.handle(output) for output in outputs])

    def __call__(self, *inputs: Any, leave_before: int = -1) -> Any:
        _, values, _ = self.builder.run(list(inputs), leave_before)
        return values[0] if self.single else tuple(values)


def _run(function: Callable[..., Any], inputs: Sequence[Any]) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function(*inputs)
    return result, [str(w.message) for w in caught]


def _copy_layout(x: Any) -> Any:
    if not isinstance(x, np.ndarray) or x.base is None:
        return np.copy(x, order="K") if isinstance(x, np.ndarray) else x
    base = x.base
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    copy = base.copy(order="K")
    offset = x.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return np.ndarray(x.shape, x.dtype, copy, offset, x.strides)


def steps(x: np.ndarray[Any, Any]) -> list[int]:
    """The strides that lead to an element."""
    return [stride for stride, size in zip(x.strides, x.shape, strict=True) if size > 1 and x.size]


def assert_same(got: Any, wanted: Any, ulp: int = 0) -> None:
    assert type(got) is type(wanted), (type(got), type(wanted))
    if isinstance(wanted, tuple):
        assert len(got) == len(wanted)
        for a, b in zip(got, wanted, strict=True):
            assert_same(a, b, ulp)
        return
    if isinstance(wanted, np.ndarray):
        assert got.shape == wanted.shape
        assert steps(got) == steps(wanted), (got.strides, wanted.strides)
        assert got.flags.writeable == wanted.flags.writeable
    if not isinstance(wanted, np.ndarray | np.generic):
        assert got == wanted or (got != got and wanted != wanted)
        return
    assert got.dtype == wanted.dtype
    if ulp and got.dtype.kind in "fc":
        real = got.dtype.char.lower() if got.dtype.kind == "c" else got.dtype.char
        a = np.ascontiguousarray(got).reshape(-1).view(real)
        b = np.ascontiguousarray(wanted).reshape(-1).view(real)
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        with np.errstate(all="ignore"):
            near = np.abs(a - b) <= ulp * np.spacing(np.maximum(np.abs(a), np.abs(b)))
        assert np.all((a == b) | near | np.isnan(a))
    else:
        np.testing.assert_array_equal(got, wanted)
        parts = "real", "imag"
        for a, b in [(getattr(got, part), getattr(wanted, part)) for part in parts] if got.dtype.kind in "fc" else []:
            assert np.array_equal(np.signbit(a) & ~np.isnan(a), np.signbit(b) & ~np.isnan(b))


def check(function: Callable[..., Any], *inputs: Any, examples: Sequence[Any] | None = None, ulp: int = 0, kernels: int | None = None) -> Compiled:
    """Asserts that `function(numpy, *inputs)` and its compiled graph agree: results, warnings, and what they do to the inputs."""
    compiled = Compiled(function, inputs if examples is None else examples)
    ours, theirs = [_copy_layout(x) for x in inputs], [_copy_layout(x) for x in inputs]
    wanted, expected_warnings = _run(lambda *xs: function(np, *xs), theirs)
    got, our_warnings = _run(compiled, ours)
    assert_same(got, wanted, ulp)
    assert our_warnings == expected_warnings
    for a, b in zip(ours, theirs, strict=True):
        assert_same(a, b, ulp)
    if kernels is not None:
        assert compiled.builder.text().count("kernel") >= kernels, compiled.builder.text()
    return compiled
