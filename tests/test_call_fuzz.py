"""Calls of builtins, of the library, of NumPy and of methods, with arguments that fit and that don't: captured they come to what they come to plainly.

``python tests/test_call_fuzz.py SEED FUNCTIONS`` runs more of them.
"""

from __future__ import annotations

import collections
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import evalframe
from fuzz.shown import Shown

FUNCTIONS = """abs all any ascii bin bool bytes callable chr complex dict divmod enumerate filter float format frozenset getattr hasattr hex int
isinstance issubclass iter len list map max min next oct ord pow range repr reversed round set slice sorted str sum tuple type vars zip math.sqrt
math.floor math.gcd math.isclose math.prod math.hypot operator.add operator.mul operator.getitem operator.contains operator.itemgetter operator.index
itertools.chain itertools.accumulate itertools.product itertools.islice itertools.repeat itertools.groupby itertools.zip_longest itertools.pairwise
functools.reduce functools.partial collections.Counter collections.deque collections.OrderedDict collections.defaultdict collections.ChainMap
heapq.nsmallest heapq.heapify bisect.bisect json.dumps json.loads re.sub re.match re.findall copy.copy decimal.Decimal
fractions.Fraction datetime.timedelta datetime.date string.Template textwrap.dedent struct.pack struct.unpack statistics.mean np.asarray np.array
np.sum np.zeros np.ones np.arange np.full np.reshape np.shape np.ndim np.dtype np.float32 np.int64 np.where np.stack np.concatenate np.broadcast_to
np.result_type np.clip np.linspace np.add np.multiply np.dot np.isnan np.allclose np.array_equal np.errstate""".split()
METHODS = {
    "text": "upper split join replace find format strip encode startswith partition center count index translate zfill splitlines isdigit",
    "row": "append extend insert pop remove sort reverse index count copy clear",
    "table": "get pop setdefault update keys values items copy popitem clear",
    "pair": "index count",
    "names": "add discard union pop update difference remove issubset clear",
    "data": "decode hex find split join",
    "queue": "append appendleft pop popleft extend extendleft rotate insert remove index count reverse clear copy",
    "ordered": "move_to_end popitem pop get setdefault update keys items clear copy",
    "counts": "most_common elements update subtract total copy get pop",
    "lists": "get setdefault pop __missing__ items copy update",
    "buffer": "append extend pop insert decode find clear",
    "steps": "__next__ __length_hint__ __iter__",
    "own": "shift scale total name kind",
    "made": "send throw close __next__",
    "x": "sum mean reshape astype copy max argsort cumsum clip dot item tolist flatten ravel fill take repeat sort any all nonzero round",
}
KEYWORDS = ["**table", "key=len", "default=0", "start=1", "strict=True", "axis=0", "maxlen=2", "reverse=True"]
MODULES = "math operator itertools functools collections heapq bisect json re copy decimal fractions datetime string textwrap struct statistics".split()
MADE_INSIDE = (
    "row = [3, 1, 2]; empty = []; table = {'a': 1, 'b': 2}; blank = {}; names = {1}; pair = (1, 2, 3); text = 'ab'; number = 3; half = 2.5; ids = range(4); "
    "queue = collections.deque([3, 1, 2]); ordered = collections.OrderedDict(a=1, b=2); counts = collections.Counter('aab'); "
    "lists = collections.defaultdict(list); buffer = bytearray(b'xyz'); steps = iter([1, 2, 3]); own = Own(2); made = generator(x)"
)
SHOWN = Shown()


class Own:
    kind = "k"

    def __init__(self, number: Any) -> None:
        self.number = number

    @property
    def name(self) -> str:
        return f"own {self.number}"

    def shift(self, by: Any = 1) -> Any:
        self.number += by
        return self.number

    def scale(self, x: Any, *more: Any, by: Any = 2) -> Any:
        self.last = more
        return x * by

    @classmethod
    def total(cls, *more: Any) -> Any:
        return cls.kind, more

    def __repr__(self) -> str:
        return f"Own({self.number!r}, {getattr(self, 'last', None)!r})"

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Own) and bool(self.number == other.number)

    def __hash__(self) -> int:
        return hash(self.number)

    def __len__(self) -> int:
        return int(self.number)

    def __getitem__(self, index: Any) -> Any:
        if index >= self.number:
            raise IndexError(index)
        return index * 10

    def __add__(self, other: Any) -> Any:
        return ("sum", self.number, other) if isinstance(other, int) else NotImplemented


def generator(x: Any) -> Iterator[Any]:
    try:
        y = yield x
        y = yield (y, x + 1)
    except ValueError as error:
        yield str(error)
    return 5


def arguments() -> dict[str, Any]:
    x = np.arange(3.0)
    return {
        "x": x, "number": 3, "zero": 0, "below": -2, "half": 2.5, "nan": float("nan"), "endless": float("inf"), "text": "ab", "no_text": "", "data": b"xy", "none": None,
        "pair": (1, 2, 3), "no_pair": (), "row": [3, 1, 2], "empty": [], "table": {"a": 1, "b": 2}, "blank": {}, "names": {1}, "fixed": frozenset([1, 2]), "turn": 1j,
        "flag": True, "ids": range(4), "kind": int, "part": slice(0, 2), "dots": ..., "queue": collections.deque([3, 1, 2]), "ordered": collections.OrderedDict(a=1, b=2),
        "counts": collections.Counter("aab"), "lists": collections.defaultdict(list), "buffer": bytearray(b"xyz"), "steps": iter([1, 2, 3]), "own": Own(2), "made": generator(x),
    }  # fmt: skip


PARAMETERS = list(arguments())


def call(choose: random.Random) -> str:
    given = [choose.choice(PARAMETERS) for _ in range(choose.choice([0, 1, 1, 1, 2, 2, 2, 3]))]
    if choose.random() < 0.2:
        given.append("*" + choose.choice(["pair", "row", "ids", "text", "no_pair", "x"]))
    if choose.random() < 0.1:
        given.append(choose.choice(KEYWORDS))
    owner = choose.choice(list(METHODS))
    called = choose.choice(FUNCTIONS) if choose.random() < 0.6 else f"{owner}.{choose.choice(METHODS[owner].split())}"
    return f"{called}({', '.join(given)})"


def source(choose: random.Random) -> str:
    lines = [f"def function({', '.join(PARAMETERS)}):", "    found = []"]
    if choose.random() < 0.6:
        lines.append(f"    {MADE_INSIDE}")
    for _ in range(choose.choice([1, 2, 3])):
        lines += ["    try:", f"        found.append({call(choose)})", "    except Exception as error:", "        found.append((type(error).__name__, str(error)[:200]))"]
    lines.append("    return found, x + 1, x, row, table, empty, blank, names, queue, ordered, counts, lists, buffer, steps, own")
    return "\n".join(lines) + "\n"


def shown(value: Any, depth: int = 3) -> Any:
    """Iterators are gone through, a few steps."""
    if isinstance(value, list | tuple | collections.deque | bytearray) and depth:
        return type(value).__name__, [shown(part, depth - 1) for part in value]
    if not hasattr(value, "__next__"):
        return SHOWN.text(value, 3)
    given: list[Any] = []
    try:
        for part in value:
            given.append(shown(part, 1))
            if len(given) == 5:
                break
    except Exception as error:
        given.append(repr(error))
    return type(value).__name__, given


def outcome(function: Callable[..., Any]) -> Any:
    random.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return shown(function(**arguments()))


def differing(seed: int, functions: int) -> list[str]:
    """The functions that come to something else captured, with what came of each call."""
    choose = random.Random(seed)
    names: dict[str, Any] = {"np": np, "Own": Own, "generator": generator, **{name: __import__(name) for name in MODULES}}
    different = []
    for _ in range(functions):
        text = source(choose)
        exec(text, names)
        function = names["function"]
        captured = evalframe.jit(function, backend="reference")
        plain = outcome(function)
        came = [outcome(captured) for _ in range(3)]
        different += [f"{text}plain:    {plain}\ncaptured: {each}" for each in came if each != plain][:1]
    return different


def test_calls_come_to_what_they_come_to_plainly() -> None:
    assert differing(1, 250) == []


@pytest.mark.slow
def test_many_calls_come_to_what_they_come_to_plainly(share: int) -> None:
    assert differing(2, 3000 // share) == []


if __name__ == "__main__":
    for found in differing(int(sys.argv[1]), int(sys.argv[2])):
        print(found)
