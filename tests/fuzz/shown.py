"""Values, exceptions and frames as text that is the same in each run: no addresses, no code of the program's run."""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

LONGEST = 6000
# CPython 3.11 takes an unbound variable for the instruction before, where it has made one of the two.
TAKEN_FOR_THE_ONE_BEFORE = sys.version_info < (3, 12)
ADDRESS = re.compile(r"0x[0-9a-f]{4,}")
PLAIN = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented))
# What the program may have set that tells nothing but how it was run.
UNTOLD = {"__builtins__", "__module__", "__qualname__", "__dict__", "__weakref__", "__firstlineno__", "__static_attributes__"}

_positions: dict[int, tuple[types.CodeType, list[Any]]] = {}


def position(code: types.CodeType, lasti: int) -> Any:
    """Line and columns of an instruction."""
    if lasti < 0:
        return "not begun"
    known = _positions.get(id(code))
    if known is None:
        if len(_positions) > 5000:
            _positions.clear()
        known = _positions[id(code)] = (code, list(code.co_positions()))
    return known[1][lasti // 2]


def entries(traceback: types.TracebackType | None, untold: str) -> Iterator[str]:
    for _ in range(30):
        if traceback is None:
            return
        code = traceback.tb_frame.f_code
        if code.co_filename != untold:
            yield f"{code.co_name} line {traceback.tb_lineno} at {position(code, traceback.tb_lasti)}"
        traceback = traceback.tb_next


class Shown:
    """Writes values down. `untold` is the file whose frames are the harness's."""

    def __init__(self, untold: str = "") -> None:
        self.untold = untold

    def text(self, value: Any, depth: int = 3) -> str:
        return ADDRESS.sub("0x", self._value(value, depth))[:LONGEST]

    def _many(self, values: Any, depth: int) -> str:
        return ", ".join([self._value(value, depth - 1) for value in values])

    def _value(self, value: Any, depth: int) -> str:
        kind = type(value)
        if kind in PLAIN:
            return repr(value)[:200]
        if isinstance(value, BaseException):
            return self.exception(value, depth)
        if depth <= 0:
            return f"a {kind.__name__}"
        if kind in (tuple, list):
            return f"{kind.__name__}[{self._many(value[:20], depth)}]"
        if kind in (set, frozenset):
            shown = [self._value(each, depth - 1) for each in value]
            # How many addresses there are depends on what has been freed meanwhile.
            placed = {ADDRESS.sub("0x", text) for text in shown if ADDRESS.search(text)}
            return f"{kind.__name__}{sorted([text for text in shown if not ADDRESS.search(text)] + list(placed))}"
        if isinstance(value, dict):
            return f"{kind.__name__}{{{self._items(dict.items(value), depth)}}}"
        special = SPECIAL.get(kind)
        if special is not None:
            return special(self, value, depth)
        if isinstance(value, np.generic):
            return self._array(value, depth)
        if isinstance(value, type):
            if value.__module__ == "builtins":
                return f"class {value.__qualname__}"
            own = [name for name in type.__dict__["__dict__"].__get__(value) if name not in UNTOLD]
            return f"class {value.__qualname__} of {[each.__name__ for each in type.mro(value)]} with {own}"
        try:
            attributes = object.__getattribute__(value, "__dict__")
        except AttributeError:
            attributes = {}
        return f"a {kind.__name__}({self._items(dict.items(attributes), depth) if type(attributes) is dict else ''})"

    def _items(self, items: Any, depth: int) -> str:
        told = [(name, each) for name, each in list(items)[:30] if not (isinstance(name, str) and name in UNTOLD)]
        return ", ".join(f"{self._value(name, depth - 1)}: {self._value(each, depth - 1)}" for name, each in told)

    def exception(self, error: BaseException, depth: int) -> str:
        what = f"{type(error).__name__}({', '.join(self._value(each, min(depth, 1)) for each in error.args)})"
        if depth < 0:
            return what
        parts = [what, *entries(error.__traceback__, self.untold)]
        if TAKEN_FOR_THE_ONE_BEFORE and type(error) is UnboundLocalError and len(parts) > 1:
            parts[-1] = parts[-1].split(" line ")[0]
        attributes = {name: each for name, each in BaseException.__dict__["__dict__"].__get__(error).items()}
        if attributes:
            parts.append(f"with {self._items(attributes.items(), min(depth, 1))}")
        if isinstance(error, BaseExceptionGroup):
            parts.append(f"of [{self._many(error.exceptions, depth)}]")
        if error.__suppress_context__:
            parts.append("context suppressed")
        if error.__cause__ is not None:
            parts.append(f"from ({self.exception(error.__cause__, depth - 1)})")
        if error.__context__ is not None:
            parts.append(f"in handling ({self.exception(error.__context__, depth - 1)})")
        return "; ".join(parts)

    def frame(self, frame: types.FrameType, depth: int) -> str:
        code = frame.f_code
        return f"{code.co_name} line {frame.f_lineno} at {position(code, frame.f_lasti)}"

    def _function(self, value: types.FunctionType, depth: int) -> str:
        parts = [f"function {value.__qualname__}", self._value(value.__defaults__, depth), self._value(value.__kwdefaults__, depth)]
        if value.__closure__:
            parts.append(self._many(value.__closure__, depth))
        return " ".join(parts)

    def _cell(self, value: types.CellType, depth: int) -> str:
        try:
            return f"cell({self._value(value.cell_contents, depth - 1)})"
        except ValueError:
            return "cell()"

    def _generator(self, value: Any, depth: int) -> str:
        prefix, state = STATES[type(value)]
        frame = getattr(value, f"{prefix}_frame")
        where = "no frame" if frame is None else f"{self.frame(frame, 0)} {self._items(frame.f_locals.items(), depth - 1)}"
        waits = getattr(value, f"{prefix}_yieldfrom" if prefix == "gi" else f"{prefix}_await")
        told = state(value) if state is not None else getattr(value, "ag_running", "")
        return f"{value.__qualname__} {told} {where} waits for {self._value(waits, depth - 2)}"

    def _named(self, value: Any, depth: int) -> str:
        return f"{type(value).__name__} {value.__name__}"

    def _method(self, value: types.MethodType, depth: int) -> str:
        return f"method {self._value(value.__func__, depth - 1)} of {self._value(value.__self__, depth - 1)}"

    def _plainly(self, value: Any, depth: int) -> str:
        return repr(value)

    def _array(self, value: Any, depth: int) -> str:
        return f"{type(value).__name__} {value.dtype} {value.shape} {value.flags.writeable} {value.tolist()!r}"

    def _object(self, value: Any, depth: int) -> str:
        return "object"


STATES: dict[type, tuple[str, Any]] = {
    types.GeneratorType: ("gi", inspect.getgeneratorstate),
    types.CoroutineType: ("cr", inspect.getcoroutinestate),
    types.AsyncGeneratorType: ("ag", None),
}
SPECIAL: dict[type, Any] = {
    types.FunctionType: Shown._function,
    types.CellType: Shown._cell,
    types.GeneratorType: Shown._generator,
    types.CoroutineType: Shown._generator,
    types.AsyncGeneratorType: Shown._generator,
    types.ModuleType: Shown._named,
    types.BuiltinFunctionType: Shown._named,
    types.MethodType: Shown._method,
    types.FrameType: Shown.frame,
    np.ndarray: Shown._array,
    range: Shown._plainly,
    slice: Shown._plainly,
    object: Shown._object,
}
