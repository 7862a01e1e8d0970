"""What the author of a program says of its functions: which ones are called as they are, left alone, or constant."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any, TypeVar

from evalframe import _core

F = TypeVar("F", bound=Callable[..., Any])


def leaf(function: F) -> F:
    """The graph calls the function as it is, where it stands among the other nodes.

    It takes arrays, NumPy scalars, numbers, strings and tuples of such, and gives an array or a number. It may write
    into the arrays it is given; other objects that captured code has read before the call it must leave as they are.
    For code that one can't edit: ``evalframe.leaf(module.function)``. Returns the function. Raises TypeError for what
    can't be called.
    """
    return _say(function, "leaf")


def uncaptured(function: F) -> F:
    """The function runs as ordinary Python: captured code breaks before its calls, ``enabled()`` leaves it alone."""
    return _say(function, "uncaptured")


def constant(function: F) -> F:
    """What the function gives for the same arguments is the same object in each run.

    It is called when a call of it is recorded, and not when that recording serves. Its arguments must be known then:
    numbers and strings that the guards fix, or nothing. The graph breaks in front of other calls.
    """
    return _say(function, "constant")


def followed(function: F) -> F:
    """Takes back what was said of the function: calls of it are recorded as all are."""
    return _say(function, "followed")


def skip_modules(*names: str) -> None:
    """Functions of these modules, and of modules inside of them, run as ordinary Python, as ``uncaptured`` ones do."""
    for name in names:
        if not isinstance(name, str) or not name:
            raise TypeError(f"skip_modules takes names of modules, such as 'package.module', not {name!r}")
    for name in names:
        _core.skip_module(name)


def mark(function: F, **parameters: str) -> F:
    """Says of int parameters whether they are inputs of the graph or constants: ``mark(f, n="input", k="constant")``.

    An ``"input"`` is one from the first call on, where else an int is fixed by a guard until it is seen to change. A
    ``"constant"`` stays one: each value has a recording of its own. It holds wherever the function is captured
    itself; where it is followed as part of another, the other's parameters count. Returns the function.
    """
    code = _plain(function).__code__
    names = list(inspect.signature(_plain(function), follow_wrapped=False).parameters)
    for name, kind in parameters.items():
        if kind not in ("input", "constant"):
            raise ValueError(f"{name} can be marked as 'input' or 'constant', not as {kind!r}")
        if name not in names or name not in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            raise ValueError(f"{code.co_qualname}() has no parameter {name!r} to mark; it has: {', '.join(names)}")
    for name, kind in parameters.items():
        _core.mark_parameter(code, code.co_varnames.index(name), kind == "input")
    return function


def reset(function: Any = None) -> None:
    """Drops what was recorded of a function made by :func:`evalframe.jit`, or (None) all that was recorded."""
    if function is None:
        _core.reset()
    else:
        _core.jit_clear(function)


def _say(function: F, policy: str) -> F:
    if isinstance(function, (staticmethod, classmethod)):
        _say(function.__func__, policy)
        return function
    meant: Any = function.__wrapped__ if isinstance(function, _core.Jit) else function
    if not callable(meant) or isinstance(meant, type):
        raise TypeError(f"a function or method is needed, not {meant!r}")
    _core.set_policy(meant, policy)
    return function


def _plain(function: Any) -> types.FunctionType:
    """The function of Python's in a method, a staticmethod, or what jit has made."""
    if isinstance(function, _core.Jit):
        function = function.__wrapped__
    function = getattr(function, "__func__", function)
    if not isinstance(function, types.FunctionType):
        raise TypeError(f"mark needs a Python function, not {function!r}")
    return function
