"""One function, called with values of one type after values of another: what was recorded of the one never serves the other."""

from __future__ import annotations

import collections
import functools
import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from helpers import outcome, same

NAN = float("nan")


class Mapping:
    def keys(self) -> list[str]:
        return ["k"]

    def __getitem__(self, key: str) -> str:
        return key * 2

    def __ror__(self, other: Any) -> str:
        return "reflected"


class Reflecting(set):  # type: ignore[type-arg]
    def __ror__(self, other: Any) -> str:
        return "reflected"


class Pair(collections.namedtuple("Pair", "x y")):
    pass


def array() -> Any:
    return np.array([3.0, 4.0])


def list_added(a: Any) -> Any:
    x = [1, 2]
    x += a
    return x


def deque_added(a: Any) -> Any:
    x = collections.deque([1, 2])
    x += a
    return x


def added(x: Any, a: Any) -> Any:
    x += a
    return x


def added_in_turns(x: Any, a: Any) -> Any:
    for _ in range(2):
        x += a
    return x


def equal(s: Any, t: Any) -> Any:
    return s == t, s != t


def equal_to_itself(s: Any) -> Any:
    return s == s, s != s  # noqa: PLR0124


def as_tuple(s: Any) -> Any:
    return tuple(s), tuple(s) is s


def as_dict(s: Any) -> Any:
    return dict(s)


def as_dict_with(s: Any) -> Any:
    return dict(s, a=1)


def as_set(s: Any) -> Any:
    return set(s), frozenset(s)


def largest(a: Any, b: Any) -> Any:
    r = max(a, b)
    r.append(7)
    return a, b, r is a, r is b


def smallest_of_three(a: Any, b: Any, c: Any) -> Any:
    r = min(a, b, c)
    r.append(7)
    return a, b, c


def smallest_or(a: Any, b: Any) -> Any:
    r = min(a, default=b)
    return r, r is b


def summed(a: Any, start: Any) -> Any:
    r = sum(a, start)
    return r, r is start


def set_item(s: Any) -> Any:
    return operator.setitem(s, 0, 9), s


def del_item(s: Any) -> Any:
    return operator.delitem(s, 0), s


def item_of_local(a: Any) -> Any:
    x = [1, 2]
    operator.setitem(x, 0, 5)
    operator.delitem(x, 1)
    return x, a


def in_place(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)

    def written(s: Any, t: Any) -> Any:
        r = function(s, t)
        return r, r is s, s

    return written


def item_of(s: Any) -> Any:
    r = operator.getitem(s, 0)
    return r, r is s[0]


def counted(s: Any) -> Any:
    it = iter(s)
    return operator.countOf(it, 1), list(it)


def united(d: Any, m: Any) -> Any:
    d |= m
    return d


def with_factory(s: Any) -> Any:
    return collections.defaultdict(s)


def reduced(s: Any) -> Any:
    return functools.reduce(operator.add, s)


def partial_of(s: Any) -> Any:
    return functools.partial(s, 1)


def iterator_of(s: Any) -> Any:
    return next(iter(s, "end"))


def result_type(s: Any) -> Any:
    return np.result_type(s), np.can_cast(np.result_type(s), np.int64)


def made_tuple(s: Any) -> Any:
    r = tuple.__new__(tuple, s)
    return r, r is s


def repeated_once(s: Any, n: Any) -> Any:
    return s * n, s * n is s


def bucket(x: Any) -> Any:
    buckets: Any = [[], [], []]
    buckets[x % 3].append(x)
    return buckets


def buckets_of(xs: Any) -> Any:
    buckets: Any = ([], [])
    for x in xs:
        buckets[int(x > 0.5)].append(x)
    return buckets


def bucket_of_nearest(x: Any, centres: Any) -> Any:
    buckets: Any = [[] for _ in range(len(centres))]
    buckets[int(np.abs(centres - x).argmin())].append(x)
    return buckets


def cell_of_table(i: Any, j: Any) -> Any:
    table = [[0, 0], [0, 0]]
    table[i % 2][j % 2] += 1
    row = table[j % 2]
    return table, row is table[0], row is table[1]


def pair_at(i: Any, a: Any) -> Any:
    return [(a, 1), (a * 2, 2)][i % 2], (a, a * 2, 3.0)[i % 3]


def best(a: Any, b: Any) -> Any:
    candidates = [[a], [b]]
    found = max(candidates)
    found.append(0)
    least = operator.getitem([[a], [b]], 0)
    both = operator.add(candidates, candidates)
    both[0].append(5)
    return candidates, found is candidates[0], least, sum([candidates], [])[1] is candidates[1], functools.reduce(max, candidates) is candidates[1]


def larger_row(x: Any, y: Any) -> Any:
    p, q = [x.sum()], [y.sum()]
    r = max(p, q)
    r.append(0.0)
    return p, q, r is p, min([y.sum()], p) is p


def rows_joined(x: Any, y: Any) -> Any:
    p, q = [x.sum()], [[y.sum()]]
    r = operator.add(p, q)
    r[1].append(0.0)
    nothing = sum([], p)
    nothing.append(1.0)
    return p, q, r, nothing is p, max([x.sum(), y.sum()]), sum((x.sum(), y.sum()))


def same_key(s: Any, t: Any) -> Any:
    return len({s: 1, t: 2}), s in [t], (s,) == (t,), s in {t: 1}, {s} == {t}, {NAN: 1}.get(s), [s].count(t)


def chosen(s: Any, t: Any) -> Any:
    return max(s, t) is s, min(s, t) is s, max(s, t) is t


def item_at_instance(i: Any) -> Any:
    return "abc"[i], (1, 2, 3)[i], [1, 2, 3][i], range(5)[i]


def nothing_summed(start: Any) -> Any:
    return sum([], start), sum([], start) is start, sum([1, 2], start)


def named_contents(s: Any) -> Any:
    return dict(b=1, a=s), dict({}, a=s), dict(a=s, b=s)["a"] is s


def dtype_of(name: Any) -> Any:
    return np.dtype(name), np.result_type(name)


class Second(int):
    def __index__(self) -> int:
        return 1


# Each: the function, and arguments one after the other, each of them three times.
CASES: list[tuple[Callable[..., Any], list[Callable[[], tuple[Any, ...]]]]] = [
    (list_added, [lambda: ([3],), lambda: (array(),), lambda: (np.float64(2),), lambda: (3,), lambda: ("ab",), lambda: (np.array([[1, 2]]),)]),
    (deque_added, [lambda: ([3],), lambda: (array(),), lambda: (np.float64(2),), lambda: (3,), lambda: ((4, 5),)]),
    (added, [lambda: ([1, 2], array()), lambda: ([1, 2], [3]), lambda: ([1, 2], np.int64(3)), lambda: ([1, 2], collections.Counter("a")), lambda: ([1], 2.5)]),
    (added_in_turns, [lambda: ([1, 2], array()), lambda: ([1, 2], [3])]),
    (equal, [lambda: (object(), object()), lambda: (2.5, float("2.5")), lambda: (len, abs), lambda: ([1], [1]), lambda: (array(), array())]),
    (equal, [lambda: (array, added), lambda: ("ab", "ab"), lambda: (ValueError(), ValueError()), lambda: (array(), 3.0)]),
    (equal, [lambda: (np, operator), lambda: ((1, 2), (1, 2))]),
    (equal_to_itself, [lambda: (None,), lambda: (np.array([1.0, NAN]),), lambda: (object(),), lambda: (NAN,), lambda: (array,)]),
    (as_tuple, [lambda: ((1, 2),), lambda: ([1, 2],), lambda: (array(),), lambda: (5,), lambda: ("ab",), lambda: (Pair(1, 2),)]),
    (as_dict, [lambda: ("",), lambda: ({"a": 1},), lambda: (Mapping(),), lambda: ([(1, 2)],), lambda: (frozenset(),), lambda: (range(0),), lambda: (5,)]),
    (as_dict_with, [lambda: (range(0),), lambda: ({"b": 1},), lambda: ("",), lambda: (collections.OrderedDict(b=2),)]),
    (as_set, [lambda: ([1, 2],), lambda: ({1: 2},), lambda: ({3},), lambda: ("ab",), lambda: (5,)]),
    (largest, [lambda: ([1], [2]), lambda: ([2], [1]), lambda: ([2], [2]), lambda: ([1, 2], [1, 3])]),
    (smallest_of_three, [lambda: ([1], [2], [0]), lambda: ([2], [1], [1])]),
    (smallest_or, [lambda: ([], [2]), lambda: ([3, 4], [2]), lambda: ((), "ab"), lambda: ([], {1: 2})]),
    (summed, [lambda: ([], [2]), lambda: ([[1]], [2]), lambda: ("", [1]), lambda: ("", Pair(1, 2)), lambda: ([1, 2], 3), lambda: ((), {1})]),
    (set_item, [lambda: ([1, 2],), lambda: ({0: 1},), lambda: (array(),), lambda: ((1, 2),)]),
    (del_item, [lambda: ([1, 2],), lambda: ({0: 1},), lambda: (collections.deque([1, 2]),)]),
    (item_of_local, [lambda: (1,), lambda: (array(),)]),
    *[(in_place(name), [lambda: ([1, 2], [3]), lambda: (array(), array()), lambda: (array(), 2.0)]) for name in ("iadd", "iconcat")],
    *[(in_place(name), [lambda: ({1, 2}, {2, 3}), lambda: (np.array([1, 2]), np.array([3, 4])), lambda: (6, 3)]) for name in ("ior", "iand", "ixor", "isub")],
    (in_place("imul"), [lambda: ([1, 2], 2), lambda: (array(), 2.0), lambda: (3, 4)]),
    (in_place("ior"), [lambda: ({1: 2}, {3: 4})]),
    (in_place("concat"), [lambda: ([1, 2], [3]), lambda: ((1,), (2,)), lambda: ("a", "b")]),
    (item_of, [lambda: ([[1], 2],), lambda: (([1],),), lambda: ("ab",), lambda: (array(),)]),
    (counted, [lambda: ([1, 2, 1],), lambda: ((1, 1),)]),
    (united, [lambda: ({}, Mapping()), lambda: ({1: 2}, Reflecting()), lambda: ({1: 2}, [(3, 4)]), lambda: ({1}, {2}), lambda: ({1}, Reflecting({2}))]),
    (with_factory, [lambda: (int,), lambda: (5,), lambda: (None,), lambda: ("ab",), lambda: (array,)]),
    (reduced, [lambda: ("ab",), lambda: (5,), lambda: ([1, 2],), lambda: ([],)]),
    (partial_of, [lambda: (int,), lambda: (5,)]),
    (iterator_of, [lambda: (iter("ab").__next__,), lambda: (5,), lambda: ("ab",)]),
    (result_type, [lambda: (3,), lambda: (2**70,), lambda: (2**63,), lambda: (-1,), lambda: (2.5,)]),
    (bucket, [lambda: (0,), lambda: (1,), lambda: (5,), lambda: (np.int64(4),)]),
    (buckets_of, [lambda: ([0.1, 0.7, 0.3, 0.9],), lambda: ([0.6, 0.2, 0.8],), lambda: (np.array([0.1, 0.7]),)]),
    (bucket_of_nearest, [lambda: (0.4, np.array([0.0, 1.0])), lambda: (0.9, np.array([0.0, 1.0])), lambda: (2.9, np.arange(4.0))]),
    (cell_of_table, [lambda: (0, 1), lambda: (1, 1), lambda: (3, 2), lambda: (4, 5)]),
    (pair_at, [lambda: (0, array()), lambda: (1, array()), lambda: (5, array()), lambda: (3, 2.5)]),
    (best, [lambda: (1.5, 2.5), lambda: (2.5, 3.5), lambda: (4.5, 3.5), lambda: (1, 2)]),
    (larger_row, [lambda: (array(), array() * 2), lambda: (array() * 3, array()), lambda: (array(), array())]),
    (rows_joined, [lambda: (array(), array() * 2), lambda: (array() * 3, array())]),
    (same_key, [lambda: (NAN, NAN), lambda: (NAN, float("nan")), lambda: (1.0, 1.0), lambda: (complex(NAN, 1), complex(NAN, 1)), lambda: ((NAN,), (NAN,))]),
    (chosen, [lambda: (tuple([1, 2]), tuple([1, 2])), lambda: ("".join(["a", "b"]), "".join(["a", "b"])), lambda: (10**20, 10**20), lambda: (2.5, 3.5)]),
    (item_at_instance, [lambda: (Second(2),), lambda: (2,), lambda: (True,), lambda: (np.int64(1),)]),
    (nothing_summed, [lambda: (2.5,), lambda: (NAN,), lambda: (10**20,), lambda: (3,), lambda: (array(),)]),
    (named_contents, [lambda: (Pair(1, 2),), lambda: (Reflecting(),), lambda: ([1],), lambda: (collections.Counter("a"),)]),
    (dtype_of, [lambda: ("f8",), lambda: ("a",), lambda: ("<a5",), lambda: ("i4",)]),
    (made_tuple, [lambda: ([1, 2],), lambda: ((1, 2),)]),
    (repeated_once, [lambda: ((1, 2), 1), lambda: ((1, 2), True), lambda: ((int, str), True), lambda: ((1, 2), 2)]),
]


def without_places(value: Any) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def alike(left: Any, right: Any) -> bool:
    return same(left, right) or without_places(left) == without_places(right)


@pytest.mark.parametrize(("function", "calls"), CASES, ids=[f"{function.__name__}-{number}" for number, (function, _) in enumerate(CASES)])
@pytest.mark.parametrize("backwards", [False, True], ids=["", "backwards"])
def test_values_of_other_types_come_to_what_they_are(function: Callable[..., Any], calls: list[Callable[[], tuple[Any, ...]]], backwards: bool) -> None:
    captured = evalframe.jit(function)
    in_turn = calls[::-1] if backwards else calls
    for make in [make for make in in_turn for _ in range(3)] + in_turn:
        plainly, given = make(), make()
        expected = outcome(function, *plainly)
        found = outcome(captured, *given)
        assert alike(found, expected), (given, found, expected)
        assert alike(given, plainly)


def test_functions_of_operator_that_call_others_do_so_each_time() -> None:
    seen: list[int] = []

    def called(x: Any) -> Any:
        operator.call(seen.append, len(seen))
        return x + 1

    captured = evalframe.jit(called)
    for _ in range(4):
        captured(np.arange(3))
    assert seen == [0, 1, 2, 3]
