"""Groups of exceptions and except*: recorded as other exceptions are, and made anew with all that CPython's have."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_behaves_as_plain, check_may_be_left, same
from test_jit_exceptions import describe

A = np.linspace(-1.0, 2.0, 12)
B = np.arange(12.0) - 3


class Named(ExceptionGroup):
    """Its parts are plain groups."""


class Kept(ExceptionGroup):
    """Its parts are of its class."""

    def derive(self, excs: Any) -> Any:
        return Kept(self.message, excs)


def seen(part: Any) -> Any:
    """An exception with its traceback and the exceptions around it; a group with its members."""
    if isinstance(part, tuple):
        return tuple(seen(one) for one in part)
    if not isinstance(part, BaseException):
        return part
    frames = describe(part)[2]
    around = [seen(part.__context__), seen(part.__cause__), part.__suppress_context__, getattr(part, "__notes__", None)]
    if not isinstance(part, BaseExceptionGroup):
        return type(part), part.args, frames, around
    own = part.exceptions is part.args[1], type(part.args[1])
    return type(part), part.message, [seen(member) for member in part.exceptions], own, frames, around


def told(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        value = function(*arguments)
    except BaseException as error:
        return "raised", seen(error)
    assert sys.exc_info()[1] is None
    return seen(value)


def told_in_handler(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        raise OSError("around")
    except OSError:
        return told_inside(function, *arguments)


def told_inside(function: Callable[..., Any], *arguments: Any) -> Any:
    around = sys.exc_info()[1]
    try:
        value = function(*arguments)
    except BaseException as error:
        return "raised", seen(error)
    assert sys.exc_info()[1] is around
    return seen(value)


def several_clauses(x: Any, y: Any) -> Any:
    z = x + y
    try:
        raise ExceptionGroup("several", [ValueError("a"), KeyError("b"), ValueError("c")])
    except* ValueError as group:
        z = z * len(group.exceptions)
    except* (KeyError, OSError) as group:
        z = z - len(str(group))
    return z


def some_are_left(x: Any, y: Any) -> Any:
    z = x + y
    try:
        try:
            raise ExceptionGroup("several", [ValueError("a"), KeyError("b")])
        except* ValueError:
            z = z + 1
    except ExceptionGroup as group:
            return z * len(group.exceptions), group.message, group.exceptions[0].args
    return z


def nested(x: Any, y: Any) -> Any:
    z = x
    try:
        inner = ExceptionGroup("inner", [ValueError(1), TypeError(2)])
        inner.add_note("of the inner one")
        raise ExceptionGroup("outer", [inner, OSError("c"), ExceptionGroup("more", [ValueError(3)])])
    except* ValueError as group:
        z = z + len(group.exceptions)
        first = group.exceptions[0].exceptions[0].args[0]
    except* OSError:
        z = z * y
    except* TypeError as group:
        z = z - first
        notes = group.exceptions[0].__notes__
    return z * y, notes


def raised_in_clauses(x: Any, y: Any) -> Any:
    z = x + y
    try:
        try:
            raise ExceptionGroup("several", [ValueError("a"), KeyError("b"), OSError("c")])
        except* ValueError:
            z = z + 1
            raise TypeError("new")
        except* KeyError as group:
            z = z * 2
            raise group
        except* OSError:
            raise
    except ExceptionGroup as group:
        z = z * y
        return z, len(group.exceptions), [type(error).__name__ for error in group.exceptions]


def raised_from_within(x: Any, y: Any) -> Any:
    z = x + y
    try:
        raise ExceptionGroup("several", [ValueError("a"), KeyError("b")])
    except* ValueError as group:
        z = z + 1
        raise RuntimeError("from") from group.exceptions[0]


def not_a_group(x: Any, y: Any) -> Any:
    z = x + y
    try:
        raise ValueError("alone")
    except* KeyError:
        z = z + 1
    except* ValueError as group:
        z = z * 2
        told = group.message, len(group.exceptions), group.exceptions is group.args[1], str(group)
    return z, told


def not_a_group_again(x: Any, y: Any) -> Any:
    z = x + y
    try:
        try:
            raise ValueError("alone")
        except* ValueError:
            z = z * 2
            raise
    except ExceptionGroup as group:
        z = z - 1
        return z * y, len(group.exceptions)


def not_a_group_and_not_caught(x: Any, y: Any) -> Any:
    z = x + y
    try:
        raise ValueError("alone")
    except* KeyError:
        z = z + 1
    return z


def group_leaves_the_call(x: Any, y: Any) -> Any:
    z = x + y
    try:
        raise ExceptionGroup("several", [ValueError("a"), ExceptionGroup("in", [KeyError("b"), TypeError()])])
    except* TypeError:
        z = z + 1
    return z


def low(a: Any, kind: Any) -> Any:
    b = a + 1
    raise kind(b.ndim)


def gathered(x: Any, y: Any) -> Any:
    errors = []
    for kind in (ValueError, KeyError, ValueError):
        try:
            low(x, kind)
        except Exception as error:
            error.add_note("gathered")
            errors.append(error)
    z = x + y
    try:
        raise ExceptionGroup(f"{len(errors)} of them", errors)
    except* ValueError as group:
        z = z * len(group.exceptions)
        told = group.message, group.exceptions[1].__notes__
    except* KeyError:
        z = z * y
    return z, told


def of_a_callee(a: Any) -> Any:
    b = a + 1
    try:
        raise ExceptionGroup("callee", [ValueError(b.ndim), KeyError(2)])
    except* ValueError:
        b = b * 2
    return b


def left_by_a_callee(x: Any, y: Any) -> Any:
    try:
        return of_a_callee(x)
    except* KeyError:
        z = x * y
    return z - 1


def given_by_a_generator(x: Any, y: Any) -> Any:
    def steps() -> Any:
        try:
            yield x
        except* ValueError as group:
            yield y * len(group.exceptions)
        yield x - y

    each = steps()
    z = next(each)
    z = z + each.throw(ExceptionGroup("thrown", [ValueError(1)]))
    return z * next(each)


def in_a_loop(x: Any, y: Any) -> Any:
    z = x
    for n in range(3):
        try:
            try:
                raise ExceptionGroup("loop", [ValueError(n), KeyError(n)])
            finally:
                z = z + n
        except* ValueError:
            z = z * y
        except* KeyError:
            z = z - 1
    return z


def divided(x: Any, y: Any) -> Any:
    group = ExceptionGroup("g", [ValueError(1), ExceptionGroup("in", [KeyError(2), ValueError(3)]), TypeError(4)])
    match, rest = group.split(ValueError)
    none, all_of_them = group.split(OSError)
    found = group.subgroup((KeyError, TypeError))
    other = group.derive([OSError(5)])
    z = x * len(match.exceptions) + y * len(rest.exceptions)
    whole, nothing = group.split(ExceptionGroup)
    return z, none, len(all_of_them.exceptions), found.exceptions[1].args, other.message, group.subgroup(OSError), whole is group, nothing


def group_given_back(x: Any, y: Any) -> Any:
    group = ExceptionGroup("g", [ValueError(1), ExceptionGroup("in", [KeyError(2)])])
    z = x * y
    return z, group, group.subgroup(KeyError), group.split(ValueError), BaseExceptionGroup("b", (KeyboardInterrupt(),))


def group_that_leads_to_itself(x: Any, y: Any) -> Any:
    error = ValueError(1)
    group = ExceptionGroup("g", [error])
    error.__context__ = group
    z = x * y
    return z, error.__context__ is group, group.exceptions[0] is error


def changed_list(x: Any, y: Any) -> Any:
    errors: list[Any] = [ValueError(1)]
    group = ExceptionGroup("g", errors)
    errors.append(KeyError(2))
    z = x * y
    return z, group, errors is group.args[1], len(group.exceptions)


def of_a_class_of_its_own(x: Any, y: Any) -> Any:
    z = x + y
    try:
        raise Named("named", [ValueError(1), KeyError(2)])
    except* ValueError as group:
        z = z * len(group.exceptions)
        kind = type(group).__name__
    except* KeyError as group:
        kind += type(group).__name__
    return z, kind


def handled_in_clauses(x: Any, y: Any) -> Any:
    z = x + y
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
    except* ValueError as group:
        z = z + 1
        same = sys.exc_info()[1] is group
        try:
            raise OSError("inside")
        except OSError as error:
            z = z * 2
            same = same and error.__context__ is group
    except* KeyError as group:
        same = same and sys.exc_info()[1] is group
        z = z * y
    return z, same, sys.exc_info()[1] is None


def wrong_classes(x: Any, y: Any) -> Any:
    z = x + y
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1)])
        except* ExceptionGroup:
            z = z + 1
    except TypeError as error:
        z = z * 2
        return z, str(error)
    return z


def wrong_arguments(x: Any, y: Any) -> Any:
    z = x + y
    texts = []
    wrong: Any
    for wrong in ([], [1], (ValueError,)):
        try:
            ExceptionGroup("g", wrong)
        except (ValueError, TypeError) as error:
            texts.append(str(error))
    try:
        ExceptionGroup("g", [KeyboardInterrupt()])
    except TypeError as error:
        texts.append(str(error))
    return z, texts


def finally_inside(x: Any, y: Any) -> Any:
    z = x
    try:
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
        except* ValueError:
            z = z + 1
        else:
            z = z - 5
        finally:
            z = z * y
    except* KeyError:
        z = z + x
    else:
        z = z - 7
    return z


def raised_again_and_again(x: Any, y: Any) -> Any:
    z = x + y
    try:
        try:
            raise ExceptionGroup("g", [KeyError(2), OSError(7)])
        except* OSError:
            z = z + 1
            raise TypeError(3) from None
    except* TypeError:
        try:
            raise
        except* TypeError:
            try:
                z = z * 2
                raise
            except* LookupError:
                z = z - 5


FUNCTIONS = [
    raised_again_and_again,
    several_clauses,
    some_are_left,
    nested,
    raised_in_clauses,
    raised_from_within,
    not_a_group,
    not_a_group_again,
    not_a_group_and_not_caught,
    group_leaves_the_call,
    gathered,
    left_by_a_callee,
    given_by_a_generator,
    in_a_loop,
    divided,
    group_given_back,
    group_that_leads_to_itself,
    changed_list,
    of_a_class_of_its_own,
    handled_in_clauses,
    wrong_classes,
    wrong_arguments,
    finally_inside,
]


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
    breaks = [(note["reason"], note["detail"], note["line"]) for note in _core.jit_breaks(captured)]
    assert _core.jit_counters(captured)["recordings"] == 1, breaks


# --- what isn't recorded ----------------------------------------------------------------------------------------------


def made_outside(x: Any, group: Any) -> Any:
    z = x * 2
    try:
        raise group
    except* ValueError as part:
        z = z + len(part.exceptions)
    return z


def divided_by_a_function(x: Any, y: Any) -> Any:
    group = ExceptionGroup("g", [ValueError(1), KeyError(2)])
    z = x + y
    match, rest = group.split(lambda error: isinstance(error, KeyError))
    return z * len(match.exceptions), rest.exceptions[0].args


def derived(x: Any, y: Any) -> Any:
    z = x + y
    try:
        raise Kept("kept", [ValueError(1), KeyError(2)])
    except* ValueError as group:
        z = z * len(group.exceptions)
        kind = type(group).__name__
    except* KeyError as group:
        kind += type(group).__name__
    return z, kind


def own_derive_of_one(x: Any, y: Any) -> Any:
    group: Any = ExceptionGroup("g", [ValueError(1), KeyError(2)])
    group.derive = lambda errors: ExceptionGroup("other", errors)
    z = x + y
    return z, group.subgroup(KeyError).message


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("function", [divided_by_a_function, derived, own_derive_of_one], ids=lambda f: f.__name__)
def test_breaks_behave_as_plain(function: Callable[..., Any], backend: str) -> None:
    check_behaves_as_plain(function, backend, [(A, B), (B, A), (A, B)], told)
    check_may_be_left(function, "reference", [(A, B), (B, A)], 6, told)


def test_groups_from_outside() -> None:
    captured = evalframe.jit(made_outside, backend="reference")
    for _ in range(3):
        one, other = (ExceptionGroup("g", [ValueError(1), ValueError(2)]) for _ in range(2))
        assert same(told(captured, A, one), told(made_outside, A, other))
    assert told(captured, A, ExceptionGroup("g", [KeyError(1)]))[0] == "raised"


def with_members(x: Any, one: Any, other: Any) -> Any:
    z = x * 2
    try:
        try:
            raise ExceptionGroup("g", [one, KeyError(1), other])
        except* (ValueError, TypeError):
            z = z + 1
            raise
    except* ValueError as group:
        z = z * len(group.exceptions)
    except* KeyError:
        z = z - 1
    return z


def test_members_from_outside() -> None:
    captured = evalframe.jit(with_members, backend="reference")
    first = ValueError(1)
    for one, other in [(first, first), (ValueError(1), ValueError(2)), (ValueError(1), KeyError(2)), (first, first)]:
        assert same(told(captured, A, one, other), told(with_members, A, one, other))
        one.__traceback__ = other.__traceback__ = None
