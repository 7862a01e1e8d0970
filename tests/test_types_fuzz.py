"""Expressions and statements, each in one function that is called with values of many types in random order: whatever was recorded with
one of them, the others come to what they come to plainly."""

from __future__ import annotations

import collections
import copy
import decimal
import enum
import fractions
import functools
import itertools
import math
import operator
import random
import re
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import evalframe

A = np.array([2.0, 3.0, 4.0])


class Number(int):
    pass


class Text(str):
    pass


class Row(tuple):  # type: ignore[type-arg]
    pass


class Items(list):  # type: ignore[type-arg]
    pass


class Table(dict):  # type: ignore[type-arg]
    pass


class Plain:
    def __init__(self) -> None:
        self.x = 1

    def __repr__(self) -> str:
        return f"Plain({self.__dict__})"


class Sequence:
    def __getitem__(self, i: int) -> int:
        return [5, 6, 7][i]

    def __len__(self) -> int:
        return 3


class Mapping:
    def keys(self) -> list[str]:
        return ["a", "b"]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, int) and key > 2:
            raise IndexError("no more")
        return key * 2


class Reflecting:
    def __radd__(self, other: Any) -> str:
        return "added"

    def __ror__(self, other: Any) -> str:
        return "united"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reflecting)

    def __hash__(self) -> int:
        return 3


class Colour(enum.Enum):
    RED = 1


class Rank(enum.IntEnum):
    LOW = 2


Pair = collections.namedtuple("Pair", "a b")


def function(*a: Any, **k: Any) -> Any:
    return a, k


def generator() -> Iterator[int]:
    yield 1
    yield 2


# Each makes a value anew.
VALUES: list[Callable[[], Any]] = [
    lambda: 2,
    lambda: 0,
    lambda: -(2**64),
    lambda: 2.5,
    lambda: float("nan"),
    lambda: -0.0,
    lambda: True,
    lambda: None,
    lambda: 2 + 1j,
    lambda: np.int64(2),
    lambda: np.float32(2),
    lambda: np.bool_(True),
    lambda: "ab",
    lambda: "",
    lambda: "2",
    lambda: Text("2"),
    lambda: b"ab",
    lambda: (2, 3),
    lambda: (),
    lambda: ((1, 2), (3, 4)),
    lambda: Row((2, 3)),
    lambda: Pair(2, 3),
    lambda: [2, 3],
    lambda: [],
    lambda: [[1, 2], [3, 4]],
    lambda: ["a", "b"],
    lambda: Items([2, 3]),
    lambda: frozenset([2]),
    lambda: {2, 3},
    lambda: set(),
    lambda: {"a": 1, "b": 2},
    lambda: {},
    lambda: {2: 3},
    lambda: Table(a=1),
    lambda: collections.OrderedDict(a=1),
    lambda: collections.defaultdict(list, a=[1]),
    lambda: collections.Counter("aab"),
    lambda: collections.deque([2, 3]),
    lambda: types.MappingProxyType({"a": 1}),
    lambda: np.array([2, 3]),
    lambda: np.array([2.0, 3.0]),
    lambda: np.array(2.0),
    lambda: np.array([[1, 2], [3, 4]]),
    lambda: np.array([]),
    lambda: np.array(["a", "b"]),
    lambda: range(2, 4),
    lambda: slice(1, 2),
    lambda: Number(2),
    Plain,
    Sequence,
    Mapping,
    Reflecting,
    lambda: float,
    lambda: Plain,
    lambda: function,
    lambda: len,
    generator,
    lambda: iter([1, 2]),
    lambda: zip([1, 2], "ab", strict=True),
    lambda: Colour.RED,
    lambda: Rank.LOW,
    lambda: decimal.Decimal("1.5"),
    lambda: fractions.Fraction(1, 2),
    lambda: KeyError("k"),
    lambda: ...,
    lambda: math,
    lambda: functools.partial(function, 1),
    lambda: {"a": 1}.items(),
    lambda: bytearray(b"2"),
]

EXPRESSIONS = """
tuple(s) | list(s) | set(s) | frozenset(s) | dict(s) | dict(s, a=1) | dict(a=s) | dict.fromkeys(s) | str(s) | repr(s) | bytes(s) | int(s) | float(s)
complex(s) | bool(s) | abs(s) | round(s) | divmod(s, 2) | pow(2, s) | chr(s) | ord(s) | hex(s) | iter(s) | next(s, 3) | list(reversed(s)) | slice(s)
max(s) | min(s, default=3) | max(s, 2) | min(A, key=s) | sum(s) | sum(s, []) | sum([], s) | any(s) | all(s) | sorted(s) | sorted([2, 1], key=s)
len(s) | range(s) | list(enumerate(s)) | list(zip(s, s)) | list(zip('ab', s)) | list(map(str, s)) | list(map(s, 'ab')) | list(filter(None, s))
isinstance(s, int) | isinstance(1, s) | issubclass(bool, s) | getattr(s, 'x', 3) | hasattr(s, 'shape') | callable(s) | type(s) is int
s.x | s.real | s.shape | s.T | s.a | s.__class__ | s.args | s.value | s.keys() | list(s.items()) | s.copy() | s.pop() | s.get('a') | s.count(2)
s.index(2) | s.upper() | s.join('ab') | s.sum() | s.tolist() | s.astype(float) | s.setdefault('z', 2) | s.append(1) | s.update(a=1) | s.sort()
-s | +s | ~s | not s | s[0] | s[-1] | s['a'] | s[1:] | s[::-1] | [*s] | (*s,) | {*s} | {**s} | function(*s) | function(**s) | s() | s(1)
f'{s}' | f'{s!r:>5}' | '%s' % s | '%d' % s | '%s %s' % s | '{}'.format(s) | s or 1 | s and 1 | 1 if s else 2 | s == s | s != s | s is s | s < s
[x for x in s] | {k: v for k, v in s} | list(x for x in s) | [y for x in s for y in x] | (lambda: s)() | s + s | s * s | s - s | s | s
s == 2 | s == 2.5 | s == 'a' | s == [2, 3] | s == None | s != A | s in (2, 'a') | 2 in s | 'a' in s | s + 1 | 1 + s | s * 2 | 2 * s | s % 2 | s ** 2
s / 2 | s // 2 | s @ s | s & s | s ^ s | s << 1 | s + [1] | [1] + s | s + (1,) | (1,) + s | s + 'a' | 'a' + s | s * True | True * s | A + s | s * A
{1, 2} | s | {1, 2}.union(s) | {1, 2}.issubset(s) | ' '.join(s) | 'a b'.split(s) | 'aba'.replace('a', s) | 'aba'.startswith(s) | 'aba'.find(s)
[1, 2, 3][s] | (1, 2, 3)[s] | 'abc'[s] | {'a': 1, 2: 3}[s] | {'a': 1}.get(s, s) | [1, 2, 3].index(s) | int('10', s) | str(s, 'ascii') | A[s]
np.asarray(s) | np.array(s) | np.sum(s) | np.add(s, 1) | np.zeros(s) | np.full(2, s) | np.where(s, 1, 2) | np.concatenate([s, s]) | np.dot(s, s)
np.max(s) | np.sum(A, axis=s) | A.reshape(s) | A.astype(s) | np.ndim(s) | np.shape(s) | np.float64(s) | np.clip(A, 0, s) | np.isscalar(s) | np.abs(s)
np.result_type(s) | np.dtype(s) | np.maximum(s, 2) | np.repeat(A, s) | np.broadcast_to(A, s) | np.unique(s) | np.transpose(s) | np.array_equal(s, A)
copy.copy(s) | copy.deepcopy(s) | operator.itemgetter(0)(s) | operator.attrgetter('x')(s) | functools.reduce(operator.add, s) | functools.partial(s, 1)
operator.add(s, s) | operator.iadd(s, s) | operator.setitem(s, 0, 5) | operator.delitem(s, 0) | operator.getitem(s, 0) | operator.contains(s, 2)
operator.concat(s, s) | operator.index(s) | operator.not_(s) | operator.truth(s) | operator.length_hint(s) | operator.countOf(s, 2) | operator.call(s)
list(itertools.chain(s, s)) | list(itertools.islice(s, 1)) | list(itertools.product(s, s)) | list(itertools.accumulate(s)) | list(itertools.groupby(s))
collections.OrderedDict(s) | collections.Counter(s) | collections.deque(s) | collections.defaultdict(s) | collections.ChainMap(s) | Colour(s) | Rank(s)
Pair(*s) | Pair._make(s) | Row(s) | Number(s) | Text(s) | Items(s) | Table(s) | tuple.__new__(tuple, s) | str.upper(s) | list.append(s, 1) | object.__new__(s)
math.prod(s) | math.hypot(*s) | math.fsum(s) | math.gcd(s, 4) | math.isclose(s, 2) | math.sqrt(s) | decimal.Decimal(s) | fractions.Fraction(s)
"""

STATEMENTS = [
    "a, b = s\nreturn b, a",
    "a, *b = s\nreturn a, b",
    "r = []\nfor x in s: r.append(x)\nreturn r",
    "for k, v in s.items(): pass\nreturn k, v",
    "try: raise s\nexcept Exception as e: return type(e), e.args",
    "try: raise ValueError('a')\nexcept s: return 1",
    "s += 1\nreturn s",
    "s += [1]\nreturn s",
    "s *= 2\nreturn s",
    "s |= {5}\nreturn s",
    "s -= {5}\nreturn s",
    "x = [3, 1]\nx += s\nreturn x",
    "x = collections.deque([3, 1])\nx += s\nreturn x",
    "x = {'q': 1}\nx |= s\nreturn x",
    "x = {1}\nx |= s\nreturn x",
    "x = [3, 1, 2]\nx.extend(s)\nreturn x",
    "x = [3, 1, 2]\nx[1:2] = s\nreturn x",
    "x = {'q': 1}\nx.update(s)\nreturn x",
    "x = A.copy()\nx[0] = s\nreturn x",
    "x = A.copy()\nx[s] = 1\nreturn x",
    "x = A.copy()\nx += s\nreturn x",
    "s[0] = 5\nreturn s",
    "s['a'] = 5\nreturn s",
    "s.x = 5\nreturn s.x",
    "del s[0]\nreturn s",
    "s[1:] = [7]\nreturn s",
    "t = tuple(s)\nprint(end='')\nreturn t is s, t",
    "t = list(s)\nprint(end='')\nt.append(1)\nreturn t, s",
    "t = dict(s)\nprint(end='')\nt['z'] = 1\nreturn t, s",
    "t = s or 3\nprint(end='')\nreturn t",
    "t = max(s, s)\nprint(end='')\nreturn t is s",
    "def g():\n  yield from s\nreturn list(g())",
    "def g(*a, k=1): return a, k\nreturn g(*s)",
    "def g(a, b): return b, a\nreturn g(**s)",
    "while s:\n  s = s[1:]\nreturn s",
    "r = 0\nfor i in range(s): r += i\nreturn r",
    "if isinstance(s, (list, tuple)): return [x for x in s]\nif isinstance(s, np.ndarray): return s * 2\nreturn s",
    "with s as t: return t\nreturn 7",
    "match s:\n  case 2: return 'two'\n  case str(): return 'text'\n  case [a, b]: return a, b\n  case {'a': x}: return x\n  case None: return 'none'\n  case _: return 'other'",
    "try: return s[0]\nexcept (TypeError, IndexError, KeyError) as e: return type(e)",
    "try: return float(s)\nexcept (TypeError, ValueError) as e: return str(e)",
    "class Q(s): pass\nreturn Q.__mro__[1:]",
    "assert s, s\nreturn 1",
]


def templates() -> list[str]:
    # `|` between blanks parts them, but for the two that unite.
    lines = EXPRESSIONS.replace("s | s\n", "s |s\n").replace("{1, 2} | s |", "{1, 2} |s |").strip().splitlines()
    return ["return " + each.strip() for line in lines for each in line.split(" | ")] + STATEMENTS


def without_places(text: str) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def told(value: Any, depth: int = 0) -> Any:
    """The value as text, with types; what an iterator gives."""
    if isinstance(value, np.ndarray):
        return type(value).__name__, str(value.dtype), value.shape, without_places(repr(value.tolist()))
    if isinstance(value, (list, tuple, collections.deque)) and depth < 3:
        return type(value).__name__, [told(each, depth + 1) for each in value]
    if isinstance(value, dict) and depth < 3:
        return type(value).__name__, [(told(key, 3), told(each, depth + 1)) for key, each in value.items()]
    if hasattr(value, "__next__") and not isinstance(value, type):
        return type(value).__name__, without_places(repr(list(itertools.islice(value, 5))))
    return type(value).__name__, without_places(repr(value))


def came_to(call: Callable[[Any], Any], make: Callable[[], Any]) -> Any:
    value = make()
    A[:] = 2, 3, 4
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call(value)
            found: Any = "gave", told(result), result is value
    except Exception as error:
        found = "raised", type(error), without_places(str(error))
    try:
        return found, told(value)
    except Exception as error:
        return found, type(error)


def made(body: str) -> Callable[[Any], Any]:
    world = dict(globals())
    exec("def templated(s):\n" + "\n".join("  " + line for line in body.split("\n")), world)
    return world["templated"]  # type: ignore[no-any-return]


TEMPLATES = templates()
GROUPS = 12


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 24))])
@pytest.mark.parametrize("group", range(GROUPS))
def test_values_of_many_types_in_turn(group: int, seed: int) -> None:
    for body in TEMPLATES[group::GROUPS]:
        order = random.Random(f"{seed} {body}")
        # Those that it has something to say to, and a few others: of the same recordings, again and again.
        plain = made(body)
        wanted = {number: came_to(plain, make) for number, make in enumerate(VALUES)}
        steady = [number for number, make in enumerate(VALUES) if wanted[number] == came_to(plain, make)]
        gives = [number for number in steady if wanted[number][0][0] == "gave"]
        for _ in range(4):
            captured = evalframe.jit(made(body), backend="reference" if order.random() < 0.7 else "native")
            history: list[int] = []
            for _ in range(10):
                again = history and order.random() < 0.4
                number = order.choice(history if again else gives if gives and order.random() < 0.7 else steady)
                history.append(number)
                found = came_to(captured, VALUES[number])
                assert found == wanted[number], f"{body!r} with {[without_places(repr(VALUES[each]())) for each in history]}"
