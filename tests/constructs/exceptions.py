"""Constructs: exceptions, raised, caught and passed on."""

from __future__ import annotations

from typing import Any


class _Problem(ValueError):
    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


def _fails(n: int) -> Any:
    if n > 0:
        raise _Problem(n)
    return n


def _fails_deep(n: int) -> Any:
    return _fails(n) if n > 2 else _fails_deep(n + 1)


def not_raised(x: Any, y: Any) -> Any:
    try:
        return x + 1
    except ValueError:
        return y


def raised_and_caught(x: Any, y: Any) -> Any:
    try:
        raise ValueError("a")
    except ValueError:
        return x + 1


def with_else(x: Any, y: Any) -> Any:
    try:
        z = x + 1
    except ValueError:
        z = y
    else:
        z = z * 2
    return z + y


def with_finally(x: Any, y: Any) -> Any:
    try:
        z = x + 1
    finally:
        y = y * 2
    return z + y


def return_through_finally(x: Any, y: Any) -> Any:
    seen = []
    try:
        return x + 1, seen
    finally:
        seen.append("left")


def caught_in_finally_chain(x: Any, y: Any) -> Any:
    z = x + 1
    try:
        try:
            raise KeyError("inner")
        finally:
            z = z * 2
    except KeyError:
        z = z + y
    return z


def caught_from_call(x: Any, y: Any) -> Any:
    z = x + y
    try:
        _fails(2)
    except _Problem as problem:
        z = z * problem.code
    return z


def caught_from_deep_call(x: Any, y: Any) -> Any:
    z = x + y
    try:
        _fails_deep(0)
    except ValueError as problem:
        z = z * len(str(problem))
    return z


def tuple_of_types(x: Any, y: Any) -> Any:
    z = x + y
    try:
        {}["missing"]
    except (TypeError, KeyError):
        z = z * 3
    return z


def second_handler(x: Any, y: Any) -> Any:
    z = x + y
    try:
        int("no number")
    except KeyError:
        z = z * 2
    except ValueError:
        z = z * 3
    return z


def bare_except(x: Any, y: Any) -> Any:
    z = x + y
    try:
        [][1]
    except:  # noqa: E722
        z = z - 1
    return z


def raised_again(x: Any, y: Any) -> Any:
    z = x + y
    try:
        try:
            _fails(1)
        except _Problem:
            z = z * 2
            raise
    except ValueError:
        z = z + 1
    return z


def chained_from(x: Any, y: Any) -> Any:
    z = x + y
    try:
        try:
            _fails(1)
        except _Problem as problem:
            raise RuntimeError("outer") from problem
    except RuntimeError as error:
        return z * error.__cause__.code


def chained_context(x: Any, y: Any) -> Any:
    z = x + y
    try:
        try:
            _fails(4)
        except _Problem:
            raise RuntimeError("outer")
    except RuntimeError as error:
        return z * error.__context__.code


def chained_from_none(x: Any, y: Any) -> Any:
    z = x + y
    try:
        try:
            _fails(4)
        except _Problem:
            raise RuntimeError("outer") from None
    except RuntimeError as error:
        return z * (2 if error.__suppress_context__ else 3)


def notes(x: Any, y: Any) -> Any:
    z = x + y
    error = ValueError("a")
    error.add_note("more")
    return z * len(error.__notes__)


def exception_group(x: Any, y: Any) -> Any:
    z = x + y
    try:
        raise ExceptionGroup("several", [ValueError("a"), KeyError("b")])
    except* ValueError as group:
        z = z * len(group.exceptions)
    except* KeyError:
        z = z + 1
    return z


def exception_group_divided(x: Any, y: Any) -> Any:
    group = ExceptionGroup("all", [ValueError(1), ExceptionGroup("some", [KeyError(2), ValueError(3)])])
    match, rest = group.split(ValueError)
    return x * len(match.exceptions) + y * len(rest.exceptions), str(group), group.subgroup(OSError)


def exception_group_raised_again(x: Any, y: Any) -> Any:
    z = x + y
    try:
        try:
            raise ExceptionGroup("several", [ValueError("a"), KeyError("b"), OSError("c")])
        except* ValueError:
            raise
        except* KeyError as group:
            raise TypeError("d") from group
    except ExceptionGroup as left:
        return z * len(left.exceptions), left.message
    return z


def exception_group_without_match(x: Any, y: Any) -> Any:
    z = x + y
    try:
        z = z + 1
    except* ValueError:
        z = z * 2
    return z


def exception_is_a_value(x: Any, y: Any) -> Any:
    error = ValueError("a", 3)
    return x * error.args[1] + y


def exception_with_attributes(x: Any, y: Any) -> Any:
    problem = _Problem(4)
    return x * problem.code + y


def assertion_holds(x: Any, y: Any) -> Any:
    assert x.ndim == 1, "one dimension"
    return x + 1


def assertion_caught(x: Any, y: Any) -> Any:
    z = x + y
    try:
        assert x.ndim == 2, "two dimensions"
    except AssertionError as error:
        z = z * len(str(error))
    return z


def raised_to_the_caller(x: Any, y: Any) -> Any:
    z = x + y
    raise _Problem(z.ndim)


def error_of_numpy(x: Any, y: Any) -> Any:
    z = x + y
    return z + x[:3]


def error_of_numpy_caught(x: Any, y: Any) -> Any:
    z = x + y
    try:
        z = z + x[:3]
    except ValueError:
        z = z * 2
    return z


def attribute_error_caught(x: Any, y: Any) -> Any:
    z = x + y
    try:
        z = z.missing
    except AttributeError:
        z = z * 2
    return z


def loop_with_continue_on_error(x: Any, y: Any) -> Any:
    z = x + y
    for n in (0, 1, 0, 2):
        try:
            z = z + _fails(n)
        except _Problem as problem:
            z = z - problem.code
            continue
        z = z * 2
    return z


def break_through_finally(x: Any, y: Any) -> Any:
    z = x
    for n in range(4):
        try:
            if n == 2:
                break
        finally:
            z = z + y
    return z


def nested_functions_with_finally(x: Any, y: Any) -> Any:
    order = []

    def inner(a: Any) -> Any:
        try:
            return a + 1
        finally:
            order.append("inner")

    try:
        z = inner(x)
    finally:
        order.append("outer")
    return z * y, order


def name_is_deleted_behind_handler(x: Any, y: Any) -> Any:
    z = x + 1
    error = 3
    try:
        raise ValueError("a")
    except ValueError as error:
        z = z + len(error.args)
    try:
        return z, error
    except UnboundLocalError:
        return z * y


def isinstance_of_exception(x: Any, y: Any) -> Any:
    return x * 2 if issubclass(_Problem, ValueError) and isinstance(_Problem(1), Exception) else y


def stop_iteration_by_hand(x: Any, y: Any) -> Any:
    z = x + y
    steps = iter((1, 2))
    try:
        while True:
            z = z * next(steps)
    except StopIteration:
        z = z - 1
    return z


def error_in_handler(x: Any, y: Any) -> Any:
    z = x + y
    try:
        try:
            raise KeyError("a")
        except KeyError:
            [].pop()
    except IndexError as error:
        z = z * len(error.__context__.args)
    return z
