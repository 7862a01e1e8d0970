"""Generators that recorded code makes and lets go on by hand: next(), send(), throw() and close()."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_behaves_as_plain, check_may_be_left, put_into
from test_jit_generators import note, told, told_of

A = np.linspace(-1.0, 2.0, 6)
B = np.arange(6.0) - 3
CALLS = [(A, B), (B, A), (A, B)]

CASES: list[Callable[..., Any]] = []
ONE_GRAPH: list[Callable[..., Any]] = []
case = put_into(CASES)
one_graph = put_into(CASES, ONE_GRAPH)


def scaled(a: Any, times: int) -> Any:
    for i in range(times):
        yield a * i
    return a * 10


def noting(a: Any) -> Any:
    note("begins")
    c = yield a + 1
    note(repr(c))
    c = yield a + 2
    note(repr(c))
    return a + 3


def catching(a: Any) -> Any:
    while True:
        try:
            yield a
        except ValueError as error:
            a = a * len(error.args) + 1


def put_together(*arrays: Any, scale: float = 1.0, **named: Any) -> Any:
    z = 0
    for array in arrays:
        z = z + array * scale
    for name in named:
        z = z * len(name) + named[name]
    return z, len(arrays)


class Together:
    def __call__(self, a: Any, b: Any) -> Any:
        return a * 2 - b

    def less(self, a: Any, b: Any) -> Any:
        return b - a


@one_graph
def spread_into_a_call(a: Any, b: Any) -> Any:
    first = put_together(*(x + 1 for x in (a, b)))
    second = put_together(*scaled(a, 3), scale=2.0)
    third = put_together(*(x for x in (a, b)), **{"scale": 3.0, "more": a})
    return first, second, third, put_together(*(x for x in ()))


@one_graph
def spread_into_calls_of_other_kinds(a: Any, b: Any) -> Any:
    of_object, of_method = Together()(*(x * 2 for x in (a, b))), Together().less(*(x for x in (a, b)))
    return of_object, of_method, np.add(*(x + 1 for x in (a, b))), (lambda x, y: x - y)(*(x for x in (b, a)))


@one_graph
def spread_behind_others(a: Any, b: Any) -> Any:
    return put_together(a, *scaled(b, 2), scale=0.5)


@one_graph
def spread_in_the_midst(a: Any, b: Any) -> Any:
    first = put_together(a, *(x + 1 for x in (b, a)), b, *scaled(a, 2), more=b)
    listed = [a, *(x * 2 for x in (a, b)), *(x for x in ())]
    return first, listed[1] - listed[0], len(listed), (*scaled(b, 2), a)[2]


@case
def spread_behind_others_with_effects_in_order(a: Any, b: Any) -> Any:
    return put_together(a, *noting(b), more=b), [note("then"), *noting(a)][1]


@case
def spread_behind_others_of_what_raises(a: Any, b: Any) -> Any:
    def failing() -> Any:
        yield a
        raise KeyError("in it")

    listed = [a]
    try:
        return put_together(b, *failing())
    except KeyError as error:
        return a * b, listed, error.args, error.__traceback__.tb_next.tb_lineno if error.__traceback__ and error.__traceback__.tb_next else 0


@case
def spread_into_what_takes_no_such_arguments(a: Any, b: Any) -> Any:
    told_errors = []
    for count in (1, 3):
        try:
            Together().less(*(a for _ in range(count)))
        except TypeError as error:
            told_errors.append(str(error))
    return a + b, told_errors


@case
def spread_of_what_raises(a: Any, b: Any) -> Any:
    def failing() -> Any:
        yield a
        raise KeyError("in it")

    try:
        return put_together(*failing(), more=b)
    except KeyError as error:
        return a * b, error.args, error.__traceback__.tb_next.tb_lineno if error.__traceback__ and error.__traceback__.tb_next else 0


@case
def spread_with_effects_in_order(a: Any, b: Any) -> Any:
    return put_together(*noting(a), more=b)


@one_graph
def next_to_the_end(a: Any, b: Any) -> Any:
    steps = scaled(a, 2)
    z = next(steps) + next(steps)
    try:
        next(steps)
    except StopIteration as stop:
        z = z * stop.value + len(stop.args)
    try:
        next(steps)
    except StopIteration as stop:
        z = z + len(stop.args) + (stop.value is None)
    return z + next(steps, b)


@one_graph
def dunder_next(a: Any, b: Any) -> Any:
    steps = scaled(a, 3)
    return steps.__next__() + steps.__next__() * b


@one_graph
def defaults(a: Any, b: Any) -> Any:
    steps = scaled(a, 1)
    first = next(steps, None)
    return first + next(steps, b) * next(steps, 3)


@one_graph
def value_of_stop_is_a_tuple_or_an_exception(a: Any, b: Any) -> Any:
    def ends(value: Any) -> Any:
        yield a
        return value

    z = b
    for value in ((1, 2), KeyError("x"), None, ()):
        steps = ends(value)
        z = z + next(steps)
        try:
            steps.send(None)
        except StopIteration as stop:
            z = z * (1 if stop.value is value else 100) + len(stop.args)
    return z


@case
def stop_leaves_the_function(a: Any, b: Any) -> Any:
    steps = scaled(a, 1)
    z = next(steps) + b
    next(steps)
    return z


@case
def stop_leaves_a_callee(a: Any, b: Any) -> Any:
    def second(steps: Any) -> Any:
        next(steps)
        return next(steps)

    z = a + b
    try:
        z = z + second(scaled(a, 1))
    except StopIteration as stop:
        note(told_of(stop))
        z = z * 2
    return z


@case
def stop_in_a_handler(a: Any, b: Any) -> Any:
    steps = scaled(a, 1)
    z = next(steps) + b
    try:
        raise KeyError("first")
    except KeyError:
        try:
            next(steps)
        except StopIteration as stop:
            note(told_of(stop))
            z = z + 1
    return z


@case
def breaks_inside(a: Any, b: Any) -> Any:
    steps = noting(a)
    z = next(steps) * 2
    z = z + steps.send(5)
    z = z + next(steps, b)
    return z * next(steps, 2)


@case
def breaks_inside_of_one_whose_end_is_caught(a: Any, b: Any) -> Any:
    steps = noting(a)
    z = next(steps) * 2 + next(steps)
    try:
        steps.send("x")
    except StopIteration as stop:
        z = z + stop.value
    return z * b


@one_graph
def sends(a: Any, b: Any) -> Any:
    def averaged() -> Any:
        total, count = a * 0, 0
        mean = None
        while True:
            term = yield mean
            total = total + term
            count += 1
            mean = total / count

    steps = averaged()
    next(steps)
    steps.send(a)
    return steps.send(b) + steps.send(a * b)


@case
def send_to_one_that_has_not_begun(a: Any, b: Any) -> Any:
    steps = scaled(a, 2)
    z = a + b
    try:
        steps.send(1)
    except TypeError as error:
        note(str(error))
    return z + steps.send(None)


@case
def sends_to_itself(a: Any, b: Any) -> Any:
    def steps() -> Any:
        yield a
        yield next(me)

    me = steps()
    z = next(me) + b
    try:
        next(me)
    except ValueError as error:
        note(told_of(error))
    return z


@one_graph
def throws(a: Any, b: Any) -> Any:
    steps = catching(a)
    z = next(steps)
    z = z + steps.throw(ValueError("one", "two"))
    z = z + steps.throw(ValueError)
    return z * b


@case
def throws_what_is_not_caught(a: Any, b: Any) -> Any:
    steps = catching(a)
    z = next(steps) + b
    try:
        steps.throw(KeyError("thrown"))
    except KeyError as error:
        note(told_of(error))
    return z + next(steps, 1)


@case
def throws_out_of_the_function(a: Any, b: Any) -> Any:
    steps = catching(a)
    z = next(steps) + b
    steps.throw(KeyError("thrown"))
    return z


@case
def throws_into_one_that_has_not_begun(a: Any, b: Any) -> Any:
    steps = catching(a)
    z = a + b
    try:
        steps.throw(ValueError("thrown"))
    except ValueError as error:
        note(told_of(error))
    return z + next(steps, 1)


@case
def throws_into_one_that_has_ended(a: Any, b: Any) -> Any:
    steps = scaled(a, 1)
    z = next(steps) + next(steps, b)
    try:
        steps.throw(ValueError("thrown"))
    except ValueError as error:
        note(told_of(error))
    return z


@case
def throws_what_was_caught(a: Any, b: Any) -> Any:
    steps = catching(a)
    z = next(steps) + b
    try:
        raise ValueError("first")
    except ValueError as error:
        z = z + steps.throw(error)
        note(told_of(error))
    return z


@case
def throws_in_a_handler_into_a_handler(a: Any, b: Any) -> Any:
    def steps() -> Any:
        try:
            raise KeyError("inside")
        except KeyError:
            try:
                yield a + 1
            except ValueError as error:
                note(told_of(error))
                yield a + 2
            raise

    z = b
    try:
        raise LookupError("outside")
    except LookupError:
        me = steps()
        z = z + next(me) + me.throw(ValueError("thrown"))
        try:
            next(me)
        except KeyError as error:
            note(told_of(error))
        note(repr(sys.exc_info()[1]))
    return z


@case
def throw_is_replaced(a: Any, b: Any) -> Any:
    def steps() -> Any:
        try:
            yield a
        except ValueError as error:
            raise KeyError("other") from error

    me = steps()
    z = next(me) + b
    try:
        me.throw(ValueError("thrown"))
    except KeyError as error:
        note(told_of(error))
    return z


@case
def throw_ends_it(a: Any, b: Any) -> Any:
    def steps() -> Any:
        try:
            yield a
        except ValueError:
            return b + 1

    me = steps()
    z = next(me)
    try:
        me.throw(ValueError("thrown"))
    except StopIteration as stop:
        note(told_of(stop))
        z = z + stop.value
    return z


@case
def throws_stop_iteration(a: Any, b: Any) -> Any:
    steps = scaled(a, 3)
    z = next(steps) + b
    try:
        steps.throw(StopIteration(3))
    except RuntimeError as error:
        note(told_of(error))
    return z


@case
def throws_into_a_delegation(a: Any, b: Any) -> Any:
    def outer() -> Any:
        yield b
        yield from catching(a)

    steps = outer()
    z = next(steps) + next(steps)
    z = z + steps.throw(ValueError("one", "two"))
    try:
        steps.throw(KeyError("thrown"))
    except KeyError as error:
        note(told_of(error))
    return z


@one_graph
def closes(a: Any, b: Any) -> Any:
    seen = []

    def steps() -> Any:
        try:
            yield a + 1
        finally:
            seen.append(b + 1)

    me = steps()
    z = next(me)
    result = me.close()
    z = z + seen[0] + (result is None) + (me.close() is None)
    other = steps()
    other.close()
    return z + len(seen) + next(other, 7)


@case
def closes_with_breaks(a: Any, b: Any) -> Any:
    def steps() -> Any:
        try:
            yield a + 1
        except GeneratorExit as error:
            note(told_of(error))
            raise
        finally:
            note(repr(sys.exc_info()[1]))

    me = steps()
    z = next(me) + b
    note(me.close())
    note(me.gi_frame)
    return z


@case
def close_is_caught_and_ends(a: Any, b: Any) -> Any:
    def steps() -> Any:
        try:
            yield a + 1
        except GeneratorExit:
            return b + 2

    me = steps()
    z = next(me)
    result = me.close()
    return z, result


@case
def close_is_ignored(a: Any, b: Any) -> Any:
    def steps() -> Any:
        try:
            yield a + 1
        except GeneratorExit:
            yield b + 2

    me = steps()
    z = next(me)
    try:
        me.close()
    except RuntimeError as error:
        note(told_of(error))
    return z + next(me, 3)


@case
def close_raises(a: Any, b: Any) -> Any:
    def steps() -> Any:
        try:
            yield a + 1
        finally:
            raise KeyError("closing")

    me = steps()
    z = next(me) + b
    try:
        me.close()
    except KeyError as error:
        note(told_of(error))
    return z


@case
def closes_a_delegation(a: Any, b: Any) -> Any:
    def inner() -> Any:
        try:
            yield a + 1
        finally:
            note("inner")

    def outer() -> Any:
        try:
            yield from inner()
        finally:
            note("outer")

    me = outer()
    z = next(me) + b
    me.close()
    return z


@case
def given_to_others(a: Any, b: Any) -> Any:
    steps = scaled(a, 4)
    z = next(steps) + next(steps)
    note(type(next(steps)))
    return z + next(steps), steps


@one_graph
def returned_unfinished(a: Any, b: Any) -> Any:
    steps = scaled(a, 4)
    return next(steps) + b, steps


@one_graph
def two_at_once(a: Any, b: Any) -> Any:
    first, second = scaled(a, 3), scaled(b, 3)
    z = a
    for _ in range(3):
        z = z * next(first) + next(second)
    return z


@one_graph
def in_each_other(a: Any, b: Any) -> Any:
    def doubled(steps: Any) -> Any:
        while True:
            try:
                yield next(steps) * 2
            except StopIteration as stop:
                return stop.value

    outer = doubled(doubled(scaled(a, 2)))
    z = next(outer) + next(outer)
    try:
        next(outer)
    except StopIteration as stop:
        return z + stop.value * b


def cleaning(a: Any, seen: list[Any]) -> Any:
    try:
        yield a + 1
        yield a + 2
    finally:
        seen.append(a * 2)


@one_graph
def let_go_by_break(a: Any, b: Any) -> Any:
    seen: list[Any] = []
    z = b
    for part in cleaning(a, seen):
        z = z + part
        break
    return z * seen[0]


@one_graph
def let_go_by_a_variable(a: Any, b: Any) -> Any:
    seen: list[Any] = []
    steps = cleaning(a, seen)
    z = next(steps)
    steps = cleaning(b, seen)
    z = z * next(steps)
    del steps
    return z + seen[0] - seen[1]


@one_graph
def let_go_by_a_callee(a: Any, b: Any) -> Any:
    seen: list[Any] = []

    def first(steps: Any) -> Any:
        for part in steps:
            return part * 2
        return b

    z = first(cleaning(a, seen)) + first(cleaning(b, seen))
    return z * seen[1] - seen[0]


@one_graph
def let_go_as_a_result(a: Any, b: Any) -> Any:
    seen: list[Any] = []
    next(cleaning(a, seen))
    cleaning(b, seen)
    return b * seen[0] + len(seen)


@case
def let_go_with_a_break(a: Any, b: Any) -> Any:
    def steps() -> Any:
        try:
            yield a + 1
        finally:
            c = a * 3
            note("finally")
            note(c + b)

    z = b
    for part in steps():
        z = z + part
        break
    note("behind")
    return z * 2


@case
def let_go_twice_at_once(a: Any, b: Any) -> Any:
    seen: list[Any] = []

    def first() -> Any:
        one, two = cleaning(a, seen), cleaning(b, seen)
        return next(one) + next(two)

    z = first()
    return z + seen[0] * 2 + seen[1], len(seen)


@case
def let_go_in_a_handler(a: Any, b: Any) -> Any:
    def steps() -> Any:
        try:
            yield a + 1
        finally:
            note(repr(sys.exc_info()[1]))

    z = b
    try:
        raise KeyError("handled")
    except KeyError:
        for part in steps():
            z = z + part
            break
        note(repr(sys.exc_info()[1]))
    return z * 2


@case
def let_go_and_raises(a: Any, b: Any) -> Any:
    def steps() -> Any:
        try:
            yield a + 1
        finally:
            raise KeyError("nobody is told")

    told_of_it: list[Any] = []
    before, sys.unraisablehook = sys.unraisablehook, lambda given: told_of_it.append(repr(given.exc_value))
    z = b
    for part in steps():
        z = z + part
        break
    z = z * 2
    sys.unraisablehook = before
    return z, told_of_it


@case
def let_go_and_yields_again(a: Any, b: Any) -> Any:
    def steps() -> Any:
        try:
            yield a + 1
        finally:
            yield b

    told_of_it: list[Any] = []
    before, sys.unraisablehook = sys.unraisablehook, lambda given: told_of_it.append(repr(given.exc_value))
    z = b
    for part in steps():
        z = z + part
        break
    z = z * 2
    sys.unraisablehook = before
    return z, told_of_it


@case
def let_go_with_one_inside(a: Any, b: Any) -> Any:
    seen: list[Any] = []

    def outer() -> Any:
        inner = cleaning(a, seen)
        try:
            yield next(inner)
        finally:
            seen.append(b)

    z = b
    for part in outer():
        z = z + part
        break
    return z + seen[0] - seen[1]


@case
def let_go_where_it_delegates(a: Any, b: Any) -> Any:
    seen: list[Any] = []

    def outer() -> Any:
        try:
            yield from cleaning(a, seen)
        finally:
            seen.append(b)

    z = b
    for part in outer():
        z = z + part
        break
    return z + seen[0] - seen[1]


@one_graph
def let_go_in_a_loop(a: Any, b: Any) -> Any:
    seen: list[Any] = []
    z = b
    for n in range(3):
        for part in cleaning(a * n, seen):
            z = z + part
            break
    return z + seen[0] + seen[1] * seen[2]


@case
def kept_in_a_cycle(a: Any, b: Any) -> Any:
    seen: list[Any] = []

    def steps() -> Any:
        try:
            yield a + 1
            yield me
        finally:
            seen.append(1)

    me = steps()
    z = next(me) + b
    me = [me]
    return z, len(seen)


@one_graph
def left_in_the_handler_of_an_except(a: Any, b: Any) -> Any:
    def steps() -> Any:
        try:
            raise KeyError(1)
        except KeyError as error:
            yield a * error.args[0]
            yield b

    me = steps()
    return next(me) + b


def finished(came: Any) -> Any:
    """The rest of the generators in a result, too."""
    (kind, value), seen = came
    if isinstance(value, tuple):
        value = tuple(list(part) if hasattr(part, "send") else part for part in value)
    return kind, value, seen


def told_to_the_end(function: Callable[..., Any], *arguments: Any) -> Any:
    return finished(told(function, *arguments))


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_behaves_as_plain(function: Callable[..., Any]) -> None:
    check_behaves_as_plain(function, "reference", CALLS + [(B[:4], A[:4])], told_to_the_end)


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_may_be_left_before_every_node(function: Callable[..., Any]) -> None:
    check_may_be_left(function, "reference", CALLS[:2], 14, told_to_the_end)


@pytest.mark.parametrize("function", ONE_GRAPH, ids=lambda function: function.__name__)
def test_one_graph(function: Callable[..., Any]) -> None:
    captured = evalframe.jit(function)
    told(captured, A, B)
    assert _core.jit_counters(captured)["recordings"] == 1, _core.jit_breaks(captured)


FIRST_OF_A_PROCESS = """
import numpy as np, evalframe

def low(a):
    raise ValueError(a.ndim)

def unwinds(a):
    for _ in range(3):
        try:
            low(a)
        except ValueError:
            pass
    return a * 2

def resumes(a):
    steps = (row for row in (a, a))
    return next(steps) + next(steps)

A = np.arange(3.0)
for function in (unwinds, resumes):
    captured = evalframe.jit(function, backend="reference")
    for _ in range(3):
        assert np.array_equal(captured(A), function(A))
"""


def test_the_first_call_of_a_process_may_unwind() -> None:
    subprocess.run([sys.executable, "-c", FIRST_OF_A_PROCESS], check=True)
