"""C functions that call back into Python: what they call is recorded with them, and nobody sees how."""

from __future__ import annotations

import functools
import itertools
import operator
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_behaves_as_plain, check_may_be_left, differential_tests, one_graph_tests, put_into, same

A = np.linspace(-1.0, 2.0, 6)
B = np.arange(6.0) - 3
CALLS = [(A, B), (B, A), (A, B)]

SEEN: list[Any] = []
CASES: list[Callable[..., Any]] = []
BREAKING: list[Callable[..., Any]] = []
case = put_into(CASES)
breaking = put_into(BREAKING)  # those that aren't one graph


def told(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a call comes to, with all of its exception, and what it noted in SEEN."""
    SEEN.clear()
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            came: Any = ("value", function(*arguments))
    except Exception as error:
        came = ("raised", told_of(error))
    return came, list(SEEN), [(str(one.message), one.filename, one.lineno) for one in warned]


OWN = ("told", "check_behaves_as_plain", "check_may_be_left")


def told_of(error: BaseException | None) -> Any:
    if error is None:
        return None
    lines = [(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__) if frame.name not in OWN]
    return type(error), str(error), lines, told_of(error.__context__), told_of(error.__cause__)


def note(value: Any) -> None:
    """A call that no recording can have in it."""
    SEEN.append(eval("value", {"value": value}))


def callers() -> list[Any]:
    """Who has called, up to the case."""
    frame: Any = sys._getframe(1)
    names = []
    while frame and frame.f_code.co_name not in OWN:
        names.append((frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return names


def scaled(a: Any, times: int) -> Any:
    for i in range(times):
        yield a * i


def with_finally(a: Any) -> Any:
    try:
        yield a
        yield a + 1
    finally:
        SEEN.append("finally")


def raising(a: Any) -> Any:
    yield a
    raise LookupError("in the generator")


class Vector:
    def __init__(self, x: Any, rank: int) -> None:
        self.x, self.rank = x, rank

    def __add__(self, other: Any) -> Any:
        return Vector(self.x + other.x, self.rank) if isinstance(other, Vector) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return Vector(self.x + other, self.rank)

    def __gt__(self, other: Any) -> Any:
        return self.rank > other.rank

    def __lt__(self, other: Any) -> Any:
        return self.rank < other.rank

    def __bool__(self) -> bool:
        return self.rank > 2


class Rank(int):
    pass


class Steps:
    def __init__(self, a: Any, count: int) -> None:
        self.a, self.count = a, count

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        if self.count == 0:
            raise StopIteration
        self.count -= 1
        return self.a * self.count


class Row:
    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    def __iter__(self) -> Any:
        yield from self.parts


class Hinted(Row):
    def __length_hint__(self) -> int:
        SEEN.append("asked")
        return 3


class Wrong:
    def __iter__(self) -> Any:
        return 5


ITEM = operator.itemgetter(0)


@case
def sum_of_arrays(a: Any, b: Any) -> Any:
    return sum(part + b for part in scaled(a, 3))


@case
def sum_from_a_start(a: Any, b: Any) -> Any:
    return sum((part for part in (a, b)), a * 2), sum((i for i in range(3)), start=10)


@case
def sum_of_numbers(a: Any, b: Any) -> Any:
    numbers = [0.1, 0.2, 0.3, 1e16, -1e16, 1, True, 10**30]
    return sum(n for n in numbers), sum((n for n in numbers), 0.5), sum(n for n in (1, 2.5, np.float64(1e16), 0.1, 0.1)), a + b


@case
def sum_of_measured_numbers(a: Any, b: Any) -> Any:
    return sum(float(n) for n in (a[0], b[1], 0.1, a[2], 1e16, b[0])), sum(len(x) for x in (a, b))


@case
def sum_of_objects(a: Any, b: Any) -> Any:
    return sum(Vector(x, 1) for x in (a, b)).x


@case
def sum_of_nothing(a: Any, b: Any) -> Any:
    return sum(x for x in ()), sum((x for x in ()), a), b


@breaking
def sum_of_text(a: Any, b: Any) -> Any:
    try:
        return sum((x for x in ("a", "b")), "c")
    except TypeError as error:
        return str(error), a + b


@case
def sum_of_wrong_things(a: Any, b: Any) -> Any:
    try:
        return sum(x for x in (1, "a", SEEN.append(1)))
    except TypeError as error:
        return str(error), a + b


@case
def any_and_all(a: Any, b: Any) -> Any:
    ranks = [x.ndim for x in (a, b)]
    found = [any(r == 1 for r in ranks), any(r > 5 for r in ranks), all(r == 1 for r in ranks), all(r for r in (1, [], 2))]
    return found, any(Vector(x, 3) for x in (a, b)), any(()), all(()), a + b


@case
def any_leaves_the_generator(a: Any, b: Any) -> Any:
    parts = (x.ndim for x in (a, b, a[None], b))
    return any(r == 1 for r in parts), list(parts), a * b


@case
def largest(a: Any, b: Any) -> Any:
    big = max((Vector(a, 1), Vector(b, 3), Vector(a * b, 3)), key=lambda v: v.rank)
    small = min(Vector(x, i % 2) for i, x in enumerate((a, b, a)))
    return big.x, small.x, max((i for i in range(4)), default=9), min((i for i in ()), default=a), max(Vector(a, 1), Vector(b, 2)).x


@case
def largest_of_nothing(a: Any, b: Any) -> Any:
    try:
        return max(x for x in ())
    except ValueError as error:
        return str(error), a + b


@case
def containers_of_generators(a: Any, b: Any) -> Any:
    rows = list(x + 1 for x in (a, b))
    columns = tuple(x * b for x in scaled(a, 3))
    names = {f"n{i}": x for i, x in enumerate(rows)}
    pairs = dict((name, x * 2) for name, x in names.items())
    more = dict(((i, i + 1) for i in range(3)), last=b)
    return rows, columns, pairs, more, set(i % 3 for i in range(7)), frozenset(i * 8 for i in range(5)), ", ".join(str(i) for i in range(3))


@breaking
def wrong_pairs(a: Any, b: Any) -> Any:
    told = []
    for pairs in ([(1, 2), (3, 4, 5)], [(1, 2), 7], ["ab", "cd"], [(1, 2), "abc"]):
        try:
            told.append(dict(pair for pair in pairs))
        except (TypeError, ValueError) as error:
            told.append((str(error), repr(error.__context__)))
    return told, a + b


@case
def wrong_words(a: Any, b: Any) -> Any:
    try:
        return ", ".join(x for x in ("a", 1))
    except TypeError as error:
        return str(error), a + b


@case
def extended(a: Any, b: Any) -> Any:
    rows = [a]
    rows.extend(x + len(rows) for x in (a, b, a))
    return rows


@case
def reduced(a: Any, b: Any) -> Any:
    first = functools.reduce(lambda x, y: x * 2 + y, scaled(a, 3))
    return first, functools.reduce(lambda x, y: x + y, [a, b], b), functools.reduce(np.add, [a, b, a])


@breaking
def nothing_reduced(a: Any, b: Any) -> Any:
    try:
        return functools.reduce(lambda x, y: x, (x for x in ()))
    except TypeError as error:
        return str(error), a + b


@case
def sorted_by_key(a: Any, b: Any) -> Any:
    vectors = [Vector(a, 2), Vector(b, 1), Vector(a + b, 2), Vector(a * b, 0)]
    up = sorted(vectors, key=lambda v: v.rank)
    down = sorted((v for v in vectors), key=lambda v: -v.rank, reverse=True)
    vectors.sort(key=lambda v: v.rank + v.x.ndim, reverse=True)
    return [v.x for v in up], [v.x for v in down], [v.x for v in vectors]


@case
def list_is_empty_while_it_is_sorted(a: Any, b: Any) -> Any:
    lengths: list[int] = []
    numbers = [3, 1, 2]

    def key(n: int) -> int:
        lengths.append(len(numbers))
        return n

    numbers.sort(key=key)
    return numbers, lengths, a + b


@case
def list_is_changed_while_it_is_sorted(a: Any, b: Any) -> Any:
    numbers = [3, 1, 2]

    def key(n: int) -> int:
        numbers.append(n)
        return n

    try:
        numbers.sort(key=key)
    except ValueError as error:
        return numbers, str(error), a + b
    return a


@breaking
def key_raises(a: Any, b: Any) -> Any:
    numbers = [3, 0, 2]
    try:
        numbers.sort(key=lambda n: 6 // n)
    except ZeroDivisionError as error:
        return numbers, told_of(error), a + b
    return a


@case
def keys_are_looked_at_by_nobody(a: Any, b: Any) -> Any:
    names = []

    def key(n: int) -> int:
        frame = sys._getframe(0)
        names.append((frame.f_code.co_name, frame.f_back.f_code.co_name, frame.f_back.f_lineno, sys._getframe(1).f_code.co_name))  # type: ignore
        return -n

    largest = max([1, 2], key=key)
    return sorted([3, 1, 2], key=key), names, largest, a + b


@breaking  # the first warning changes what the second call finds
def key_warns(a: Any, b: Any) -> Any:
    def key(n: int) -> int:
        warnings.warn("here", stacklevel=2)
        return -n

    return sorted([3, 1], key=key), a + b


@breaking
def error_of_a_generator(a: Any, b: Any) -> Any:
    try:
        return list(x + b for x in raising(a))
    except LookupError as error:
        return told_of(error), a + b


@case
def error_that_leaves(a: Any, b: Any) -> Any:
    return sum(x + b for x in raising(a))


@case
def one_in_another(a: Any, b: Any) -> Any:
    return sum(max((x * i for i in range(3)), key=lambda y: y.ndim) for x in (a, b)), [sorted((j for j in range(i)), key=lambda j: -j) for i in range(4)]


@case
def shared_generator(a: Any, b: Any) -> Any:
    parts = scaled(a, 4)
    head = any(part.ndim for part in parts)
    return head, sum(parts), list(parts), b


@breaking
def branch_on_data(a: Any, b: Any) -> Any:
    z = a + b
    return any(x.sum() > 0 for x in (z, a, b)), z * 2


@breaking
def key_of_data(a: Any, b: Any) -> Any:
    z = a + b
    return sorted([z, a, b], key=lambda x: float(x.sum())), max((z, a, b), key=lambda x: x.max()), z * 2


@breaking
def notes_on_the_way(a: Any, b: Any) -> Any:
    z = a + b

    def key(n: int) -> int:
        note(n)
        SEEN.append(callers())
        return -n

    numbers = sorted((n for n in [3, 1, 2]), key=key)
    numbers.sort(key=key)
    return numbers, z * 2, sum(note(x.ndim) or x for x in (a, b))


@breaking
def long_generator(a: Any, b: Any) -> Any:
    z = a + b
    return sum(part for part in scaled(z, 100)), sum(i * i for i in range(1000)), z * 2


@breaking
def left_in_a_finally(a: Any, b: Any) -> Any:
    z = a + b
    found = any(x.ndim for x in with_finally(z))
    SEEN.append("behind")
    return found, z * 2


@breaking
def raises_behind_a_break(a: Any, b: Any) -> Any:
    z = a + b

    def key(n: int) -> float:
        note(n)
        return 6 / n

    try:
        return sorted([3, 0, 2], key=key)
    except ZeroDivisionError as error:
        return told_of(error), z * 2


@breaking
def shapes_that_do_not_fit(a: Any, b: Any) -> Any:
    return sum(x for x in (a, b, np.concatenate((a, b)), note("never")))


@breaking
def sum_of_odd_numbers(a: Any, b: Any) -> Any:
    return sum(n for n in (Rank(3), 0.1, 0.2, 0.3)), sum(n for n in (0.1, Rank(3), 0.2, 0.3)), a + b


@case
def steps(a: Any, b: Any) -> Any:
    z = b
    for part in Steps(a, 3):
        z = z + part
    kept = Steps(b, 4)
    for part in kept:
        if kept.count == 2:
            break
        z = z * part
    return z, list(kept), list(kept), sum(Steps(a, 2)), [x for x in Row(a, b, 1)]


@case
def steps_of_c(a: Any, b: Any) -> Any:
    z = a
    for x, n in itertools.product([a, b], (1, 2)):
        z = z + x * n
    for x, n in zip(itertools.cycle((a, b)), range(3)):
        z = z - x * n
    pairs = list(itertools.combinations([a, b, z], 2)), list(itertools.permutations((1, 2, 3), 2)), list(itertools.pairwise((a, b, z)))
    longest = list(itertools.zip_longest((a, b), (1,), fillvalue=z)), list(itertools.zip_longest((a,), ()))
    return z, pairs, longest, list(itertools.islice(itertools.count(3, 2), 1, 6, 2)), list(itertools.repeat(a, 2)), list(itertools.chain((a,), [b], "xy"))


@case
def counted(a: Any, b: Any) -> Any:
    numbers, turns, same = itertools.count(5), itertools.cycle("ab"), itertools.repeat(a)
    got = [next(numbers), next(turns), next(turns), next(turns), next(numbers)]
    left, right = itertools.tee([a, b, 3])
    return got, next(same), next(same), next(left), list(right), list(left), next(itertools.chain(), b)


@case
def nothing_arranged(a: Any, b: Any) -> Any:
    return list(itertools.product()), list(itertools.combinations((a,), 2)), list(itertools.chain()), list(itertools.zip_longest()), a + b


@case
def partials(a: Any, b: Any) -> Any:
    def inner(x: Any, y: Any = 1, *rest: Any, scale: Any = 2, **more: Any) -> Any:
        return x * scale + y, rest, sorted(more)

    first = functools.partial(inner, a, scale=3, last=1)
    return first(), first(b), first(b, 1, 2, scale=a), first(first=0, last=5), functools.partial(np.add, a)(b), functools.partial(operator.mul, 2)(a)


@case
def getters(a: Any, b: Any) -> Any:
    rows = [(2, a), (1, b), (3, a + b)]
    ordered = sorted(rows, key=operator.itemgetter(0))
    vector = Vector(a, 3)
    vector.inner = Vector(b, 4)  # type: ignore
    ranks = operator.attrgetter("rank")(vector), operator.attrgetter("inner.rank")(vector)
    return ordered, operator.itemgetter(1, 0)((a, b)), ranks, max(rows, key=ITEM), operator.itemgetter("k")({"k": a})


@case
def unpacked(a: Any, b: Any) -> Any:
    first, second = (x + 1 for x in (a, b))
    one, two, three = scaled(b, 3)
    return first, second, one, two, three


@breaking
def unpacked_wrongly(a: Any, b: Any) -> Any:
    told = []
    for count in (0, 1, 3, 4):
        parts = scaled(a, count)
        try:
            first, second = parts
        except ValueError as error:
            told.append((str(error), len(list(parts))))
    return told, a + b


@breaking
def unpacked_from_raising(a: Any, b: Any) -> Any:
    first, second = raising(a + b)
    return first


@breaking
def no_iterator(a: Any, b: Any) -> Any:
    z = a + b
    try:
        for x in Wrong():
            z = z + x
    except TypeError as error:
        return told_of(error), z
    return z


@breaking
def asked_for_its_length(a: Any, b: Any) -> Any:
    return list(Hinted(a, b)), tuple(Hinted(b)), sum(Hinted(a)), a + b


@breaking
def notes_in_steps(a: Any, b: Any) -> Any:
    class Noting(Steps):
        def __next__(self) -> Any:
            note(self.count)
            SEEN.append(callers())
            if self.count == 1:
                raise LookupError("here")
            return super().__next__()

    z = a + b
    try:
        for part in Noting(z, 3):
            z = z + part
    except LookupError as error:
        return told_of(error), z, [x for x in zip(Noting(a, 0), (1, 2))]
    return z


@breaking
def left_in_the_midst(a: Any, b: Any) -> Any:
    z = a
    for x, n in itertools.zip_longest([a, b, a], (1, 2), fillvalue=3):
        note(n)
        z = z + x * n
    turns = itertools.cycle([1, 2])
    for n in (next(turns), next(turns)):
        note(next(turns))
        z = z * n
    half = functools.partial(operator.mul, 0.5)
    note(repr(operator.itemgetter(1)))
    return half(z), next(turns), half.args, itertools.islice(turns, 2).__reduce__()[0]


@breaking
def partial_of_partial(a: Any, b: Any) -> Any:
    half = functools.partial(functools.partial(operator.mul, 0.5), a)
    note(half.args[0])
    return half(), a + b


@breaking
def wrong_partials(a: Any, b: Any) -> Any:
    told = []
    for make in (lambda: functools.partial(), lambda: functools.partial(5), lambda: functools.partial(len, 1, 2)(), lambda: ITEM(), lambda: ITEM(3)):
        try:
            make()  # type: ignore
        except TypeError as error:
            told.append(str(error))
    return told, a + b


@case
def mapped(a: Any, b: Any) -> Any:
    first, second = map(lambda x: x * 2, (a, b))
    z = first
    for part in map(lambda x, n: x * n, scaled(b, 3), [1, 2, 3, 4]):
        z = z + part
    for n in filter(lambda n: n > 1, [1, 2, 3]):
        z = z * n
    kept = map(lambda n: n + 1, [1, 2, 3, 4])
    for n in kept:
        if n == 3:
            break
    return z, second, n, list(kept), list(kept), sum(map(len, (a, b))), list(filter(None, [0, 1, "", "a"])), tuple(map(str, range(3)))


@breaking
def mapped_by_noting(a: Any, b: Any) -> Any:
    z = a + b

    def step(x: Any) -> Any:
        note(x.ndim)
        SEEN.append(callers())
        return x * 2

    for part in map(step, (a, b, z)):
        note("turn")
        z = z + part
    parts = filter(lambda x: note("asked") is None, map(step, scaled(z, 3)))
    return next(parts), list(parts), z, map(step, [a]).__reduce__()[1][0] is step


@breaking
def caught_of_a_stand_in(a: Any, b: Any) -> Any:
    try:
        return sum(x for x in ((1, 2), a.ndim))
    except TypeError as error:
        return told_of(error), a + b


@breaking
def mapped_until_an_error(a: Any, b: Any) -> Any:
    def stops(n: int) -> Any:
        if n == 2:
            raise StopIteration(n)
        return 6 / n

    numbers = iter([3, 2, 1])
    got = list(map(stops, numbers)), list(numbers)
    try:
        for n in map(stops, (1, 0)):
            SEEN.append(n)
    except ZeroDivisionError as error:
        return got, told_of(error), a + b
    return got


@breaking
def sorts_that_fail(a: Any, b: Any) -> Any:
    told: list[Any] = []
    for rows in ([5, 3, 4, "a", 1], [(2, 1), (1, 2), (1, None), (1, 3)], [3, 1, 2, None], [2, 1]):
        for reverse in (False, True):
            left = list(rows)
            try:
                left.sort(key=lambda x: x, reverse=reverse)
            except TypeError as error:
                told.append(str(error))
            told.append(left)
    vectors = [Vector(a, 2), Vector(b, 1)]
    vectors.sort(key=lambda v: v, reverse=True)
    return told, [v.rank for v in vectors], [v.rank for v in sorted(vectors)], a + b


class Loud(list):  # type: ignore
    def append(self, item: Any) -> None:
        SEEN.append("append")

    def clear(self) -> None:
        SEEN.append("clear")


@breaking
def methods_of_a_subclass(a: Any, b: Any) -> Any:
    z, rows = a + b, Loud([3, 1, 2])
    rows.extend(x for x in (5, 4))
    list.extend(rows, (x for x in (7, 6)))
    rows.sort(key=lambda n: -n)
    return list(rows), z * 2


test_behaves_as_plain, test_may_be_left_before_every_node = differential_tests(CASES + BREAKING, CALLS, told, left=CALLS, nodes=12)
test_is_one_graph = one_graph_tests(CASES, (A, B), told)


def test_a_break_has_the_place_of_the_call() -> None:
    captured = evalframe.jit(branch_on_data, backend="reference")
    captured(A, B)
    (note,) = _core.jit_breaks(captured)
    assert note["function"] == "branch_on_data"
    assert note["line"] == branch_on_data.__code__.co_firstlineno + 3


def test_functions_are_those_of_the_import(monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins

    def f(a: Any) -> Any:
        return sum(x for x in (a, a * 2))

    captured = evalframe.jit(f, backend="reference")
    assert same(captured(A), f(A))
    with monkeypatch.context() as changed:
        changed.setattr(builtins, "type", lambda *_: None)
        got = captured(A)
    assert same(got, f(A))
    monkeypatch.setattr(builtins, "sum", lambda _: "another")
    assert captured(A) == f(A) == "another"


def test_objects_die_when_they_do_in_cpython() -> None:
    class Noted:
        def __init__(self, number: int) -> None:
            self.number = number

        def __del__(self) -> None:
            SEEN.append(f"dead {self.number}")

    def made(a: Any) -> Any:
        for i in range(3):
            SEEN.append(i)
            yield Noted(i)

    def f(a: Any) -> Any:
        return [all(x for x in made(a)), max(made(a), key=lambda x: x.number).number, sum(1 for x in made(a))], a + 1

    check_behaves_as_plain(f, "reference", [(A,), (B,), (A,)], told)
