"""Exceptions that the recorded code raises and handles: one graph, and plain Python's state wherever that is left."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_behaves_as_plain, check_may_be_left, leaving_before, same

A = np.linspace(-1.0, 2.0, 12)
B = np.arange(12.0) - 3
TABLE = {"a": 1}


class Refused(ValueError):
    """Has attributes of its own."""

    def __init__(self, code: int, text: str = "refused") -> None:
        super().__init__(f"{text} {code}")
        self.code = code


class Plain(Refused.__mro__[1]):  # type: ignore[misc]
    pass


class Guard:
    def __init__(self, catches: Any) -> None:
        self.catches = catches
        self.seen: Any = ()

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        self.seen = (kind, error)
        return kind is not None and issubclass(kind, self.catches)


def describe(error: Any, depth: int = 0) -> Any:
    """All that can be seen of an exception: traceback with the frames' variables, context, cause and notes."""
    if error is None or depth > 4:
        return None
    frames = []
    trace = error.__traceback__
    while trace:
        frame = trace.tb_frame
        names = sorted(frame.f_locals)
        callers = frame.f_back.f_code.co_name if frame.f_back else None
        position = list(frame.f_code.co_positions())[trace.tb_lasti // 2]
        frames.append((frame.f_code.co_name, trace.tb_lineno, position, names, callers))
        trace = trace.tb_next
    frames = [frame for frame in frames if not frame[0].startswith("told")]
    return (
        type(error),
        error.args,
        frames,
        describe(error.__context__, depth + 1),
        describe(error.__cause__, depth + 1),
        error.__suppress_context__,
        getattr(error, "__notes__", None),
        {key: str(value) for key, value in vars(error).items() if key != "__notes__"},
    )


def told(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a call came to; exceptions it gave or raised as they can be seen."""
    try:
        value = function(*arguments)
    except Exception as error:
        return "raised", describe(error), describe(sys.exc_info()[1].__context__)  # type: ignore[union-attr]
    assert sys.exc_info()[1] is None
    parts = value if isinstance(value, tuple) else (value,)
    return tuple(describe(part) if isinstance(part, BaseException) else part for part in parts)


def told_in_handler(function: Callable[..., Any], *arguments: Any) -> Any:
    """The same where the caller handles an exception."""
    try:
        raise OSError("around")
    except OSError as around:
        try:
            value = function(*arguments)
        except Exception as error:
            return "raised", describe(error)
        assert sys.exc_info()[1] is around
        parts = value if isinstance(value, tuple) else (value,)
        return tuple(describe(part) if isinstance(part, BaseException) else part for part in parts)


def raised_here(x: Any, y: Any) -> Any:
    try:
        z = x * 2
        raise ValueError("a")
    except ValueError:
        z = x + 1
    return z * y


def inner(a: Any) -> Any:
    b = a * 2
    if b.ndim == 1:
        raise KeyError("inner", 3)
    return b


def raised_in_callee(x: Any, y: Any) -> Any:
    try:
        x = inner(x)
    except (TypeError, KeyError) as error:
        x = x - y
        text = error.args[0]
    return x * len(text)


def low(a: Any) -> Any:
    local = a + 1
    raise Refused(local.ndim)


def middle(a: Any) -> Any:
    try:
        return low(a)
    finally:
        a = a * 2
        a = a + 1


def two_levels(x: Any, y: Any) -> Any:
    try:
        return middle(x)
    except Refused as error:
        z = x + error.code
        w = z * y
        return w, str(error)


def chained(x: Any, y: Any) -> Any:
    try:
        try:
            raise KeyError("first")
        except KeyError as error:
            z = x + 1
            raise Refused(3) from error
    except ValueError as error:
        z = z * y
        z = z + error.code
        return z, error.__cause__ is error.__context__


def in_context(x: Any, y: Any) -> Any:
    try:
        try:
            raise KeyError("first")
        except KeyError:
            z = x + 1
            raise Plain("second")
    except Plain:
        z = z * y
        z = z - 1
    return z


def from_nothing(x: Any, y: Any) -> Any:
    try:
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError("second") from None
    except ValueError as error:
        assert error.__cause__ is None
        return x + y


def raised_again(x: Any, y: Any) -> Any:
    try:
        try:
            raise ValueError("once")
        except ValueError:
            x = x + 1
            raise
    except ValueError as error:
        x = x * y
        raise error


def noted(x: Any, y: Any) -> Any:
    try:
        raise ValueError("once")
    except ValueError as error:
        error.add_note("one")
        x = x + 1
        error.add_note("two")
        x = x * y
        kept = error
    return x, kept


def with_else_and_finally(x: Any, y: Any) -> Any:
    for turn in range(3):
        try:
            if turn == 1:
                raise ValueError(turn)
        except ValueError as error:
            x = x + error.args[0]
            continue
        else:
            x = x * 2
        finally:
            x = x - y
    return x


def missing_key(x: Any, y: Any) -> Any:
    numbers = {"a": 1}
    try:
        x = x * numbers["b"]
    except KeyError as error:
        x = x + len(error.args[0])
    try:
        x = x * TABLE["c"]
    except KeyError:
        x = x - y
    return x


def divided_by_zero(x: Any, y: Any) -> Any:
    zero = x.ndim - 1
    try:
        k = 1 // zero
    except ZeroDivisionError as error:
        x = x + 1
        k = len(str(error))
    return x * k


# pytest has assertions of its own.
ASSERTED = """
def asserted(x, y):
    try:
        assert x.ndim == 2, "two dimensions"
    except AssertionError as error:
        return x * len(str(error)) + y
"""
namespace: dict[str, Any] = {}
exec(ASSERTED, namespace)
asserted = namespace["asserted"]


def leaves(x: Any, y: Any) -> Any:
    z = x * 2
    z = z + y
    if z.ndim == 1:
        raise Refused(z.ndim)
    return z


def passes_on(a: Any) -> Any:
    try:
        return low(a * 2)
    except KeyError:
        return a


def leaves_callees(x: Any, y: Any) -> Any:
    try:
        return passes_on(x)
    finally:
        x = x + 1
        x = x * y


def kept_error(x: Any, y: Any) -> Any:
    kept = None
    try:
        raise ValueError("kept")
    except ValueError as error:
        kept = error
    x = x + 1
    x = x * y
    return x, kept


def array_raises_in_handler(x: Any, y: Any) -> Any:
    try:
        raise ValueError("first")
    except ValueError:
        z = x + 1
        z += y[:5]
    return z


def user_context(x: Any, y: Any) -> Any:
    with Guard(ValueError) as guard:
        x = x + 1
        raise Refused(3)
    x = x * 2
    return x * y, guard.seen[0]


def context_lets_through(x: Any, y: Any) -> Any:
    try:
        with Guard(KeyError):
            x = x + 1
            raise Refused(3)
    except Refused:
        x = x * 2
    return x * y


def of_builtins(x: Any, y: Any) -> Any:
    kept = []
    row, steps = [x, y], iter((1, 2))
    for turn in range(7):
        try:
            if turn == 0:
                x = row[2]
            elif turn == 1:
                x = x * next(steps) + next(steps)
                x = next(steps)
            elif turn == 2:
                x = x.missing
            elif turn == 3:
                a, b, c = row
            elif turn == 4:
                x = x + undefined  # type: ignore[name-defined]  # noqa: F821
            elif turn == 5:
                x = unbound  # noqa: F821
                unbound = x  # noqa: F841
            else:
                [].pop()
        except Exception as error:
            x = x + len(str(error))
            kept.append(error)
    x = x * y
    x = x - next(steps, 3)
    return x, [str(error) for error in kept]


def kept_of_builtins(x: Any, y: Any) -> Any:
    try:
        x = x.missing
    except AttributeError as error:
        x = x + 1
        missing = error
    x = x * y
    return x * missing.obj.ndim, missing.name


def context_from_outside(x: Any, y: Any) -> Any:
    try:
        try:
            x = x + 0
            x += y[:3]
        except ValueError:
            x = x + 1
            raise KeyError("new")
    except KeyError as error:
        x = x * 2
        return x + y, error.__context__


FUNCTIONS = [
    of_builtins,
    kept_of_builtins,
    context_from_outside,
    raised_here,
    raised_in_callee,
    two_levels,
    chained,
    in_context,
    from_nothing,
    raised_again,
    noted,
    with_else_and_finally,
    missing_key,
    divided_by_zero,
    asserted,
    leaves,
    leaves_callees,
    kept_error,
    array_raises_in_handler,
    user_context,
    context_lets_through,
]
# What raises in the graph is handled outside of it.
SEVERAL = {array_raises_in_handler: 2, context_from_outside: 2}


@pytest.mark.parametrize("seen", [told, told_in_handler])
@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_behaves_as_plain(function: Callable[..., Any], backend: str, seen: Callable[..., Any]) -> None:
    check_behaves_as_plain(function, backend, [(A, B), (B, A), (A, B)], seen)


@pytest.mark.parametrize("seen", [told, told_in_handler])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_may_be_left_anywhere(function: Callable[..., Any], seen: Callable[..., Any]) -> None:
    check_may_be_left(function, "reference", [(A, B), (B, A)], 10, seen)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_is_one_graph(function: Callable[..., Any]) -> None:
    captured = evalframe.jit(function, backend="reference")
    told(captured, A, B)
    told(captured, B, A)
    breaks = [(note["reason"], note["detail"]) for note in _core.jit_breaks(captured)]
    assert _core.jit_counters(captured)["recordings"] == SEVERAL.get(function, 1), breaks


class Fallback:
    def __init__(self, a: Any) -> None:
        self.a = a * 2
        try:
            eval("1 / 0")
        except ZeroDivisionError:
            self.b = a + 1
        self.c = self.a * self.b


def falls_back(a: Any) -> Any:
    c = a * 2
    try:
        eval("1 / 0")
    except ZeroDivisionError:
        c = c + 1
    return c


def break_that_raises_in_initializer(x: Any, y: Any) -> Any:
    made = Fallback(x)
    return made.c + y


def break_that_raises_in_callee(x: Any, y: Any) -> Any:
    return falls_back(x) * 3 + y


@pytest.mark.parametrize("function", [break_that_raises_in_initializer, break_that_raises_in_callee])
def test_recording_goes_on_behind_a_break_that_raises_in_a_callee(function: Callable[..., Any]) -> None:
    captured = check_behaves_as_plain(function, "reference", [(A, B), (B, A), (A, B)], told)
    assert _core.jit_counters(captured)["recordings"] == 2
    check_may_be_left(function, "reference", [(A, B), (B, A)], 6, told)


class OwnArguments(Exception):
    __slots__ = ("args",)

    def __init__(self, *given: Any) -> None:
        self.args = (*given, "own")


class ComputedArguments(Exception):
    @property
    def args(self) -> Any:
        return ("computed",)


class OwnCause(Exception):
    __slots__ = ("__cause__", "__notes__")


class AttributesOfItsOwn(Exception):
    def __getattribute__(self, name: str) -> Any:
        return "asked" if name == "args" else super().__getattribute__(name)


@pytest.mark.parametrize("kind", [OwnArguments, ComputedArguments, OwnCause, AttributesOfItsOwn])
def test_attributes_that_classes_put_before_base_exceptions_own(kind: Any) -> None:
    def raised(x: Any, kind: Any) -> Any:
        try:
            raise kind("given") from KeyError(1)
        except kind as error:
            error.add_note("note")
            return x + 1, error.args, str(error), repr(error), repr(error.__cause__), error.__notes__, type(error)(*error.args).args

    def made(x: Any, kind: Any) -> Any:
        error = kind("given")
        return x + 1, error.args, str(error), BaseException.args.__get__(error)

    for function in (raised, made):
        check_behaves_as_plain(function, "reference", [(A, kind)] * 3)


def ring_of_contexts(x: Any, y: Any) -> Any:
    try:
        try:
            raise ValueError(1)
        except ValueError as error:
            error.__context__ = error
            raise TypeError(2)
    except TypeError as error:
        context = error.__context__
        return x + y, context is not None and context.__context__ is context


def ring_behind_the_handled_one(x: Any, y: Any) -> Any:
    first, second, third = KeyError(1), KeyError(2), KeyError(3)
    first.__context__, second.__context__, third.__context__ = second, third, second
    try:
        try:
            raise first
        except KeyError:
            x = x * 2
            raise TypeError(2)
    except TypeError as error:
        return x + y, error.__context__ is first, second.__context__ is third, third.__context__ is second


@pytest.mark.parametrize("function", [ring_of_contexts, ring_behind_the_handled_one])
def test_a_ring_of_contexts_ends(function: Callable[..., Any]) -> None:
    check_behaves_as_plain(function, "reference", [(A, B), (B, A), (A, B)])
    check_may_be_left(function, "reference", [(A, B), (B, A)], 6)
