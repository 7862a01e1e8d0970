"""Calls of C's functions and types whose arguments are starred, and of those that ask instances for iterators."""

import functools
import itertools
import sys
import traceback

import numpy as np
import pytest

import evalframe

LOG = []
A = np.arange(4.0)
KINDS = frozenset([tuple, list, sys.getrecursionlimit])


class Bag:
    def __init__(self, *values):
        self.values = values

    def __iter__(self):
        LOG.append(self.values)
        return iter(self.values)


class Yields(Bag):
    def __iter__(self):
        LOG.append("begun")
        yield from self.values


class Counts:
    def __init__(self, number):
        self.number = number

    def __iter__(self):
        return self

    def __next__(self):
        if self.number == 0:
            raise StopIteration
        self.number -= 1
        return self.number


class Refuses:
    def __iter__(self):
        raise ValueError("refused")


class GivesNumber:
    def __iter__(self):
        return 3


class TellsCaller:
    def __iter__(self):
        return iter([sys._getframe(1).f_code.co_name])


@functools.lru_cache
def doubled(number):
    return number * 2


RECORDED = {
    "zip of instances": lambda: [x + y for x, y in zip(Bag(1, 2), Bag(4, 5))],
    "map of instances": lambda: list(map(lambda p, q: p * q, Bag(1, 2), Bag(3, 4))),
    "islice of an instance": lambda: list(itertools.islice(Bag(1, 2, 3, 4), 1, 3)),
    "filter of an instance": lambda: list(filter(None, Bag(0, 1, 2))),
    "accumulate of an instance": lambda: list(itertools.accumulate(Bag(1, 2, 3))),
    "starred zip": lambda: list(zip(*[(1, 2), (3, 4)])),
    "starred zip of instances": lambda: list(zip(*[Bag(1, 2), (3, 4)])),
    "starred max": lambda: max(*[1, 5, 2]) + min(*(3, 2)),
    "starred range": lambda: sum(range(*(1, 5))),
    "starred types": lambda: (list(*["ab"]), tuple(*[(1,)]), list(reversed(*[[1, 2]]))),
    "starred questions": lambda: (isinstance(*(3, int)), callable(*[3]), len(*["ab"])),
    "starred map of arrays": lambda: [float(x) for x in map(np.add, *[[1.0, 2.0], [3.0, 4.0]])],
    "starred cache": lambda: doubled(*(3,)),
    "a type among others": lambda: (type([]) in KINDS, type({}) not in KINDS),
}
OTHERS = {
    "starred cache with keywords": lambda: doubled(*[], **{"number": 4}),
    "zip that ends early": lambda: [x + y for x, y in zip(Bag(1, 2, 3), Bag(4, 5))],
    "zip of generators": lambda: [x + y for x, y in zip(Yields(1, 2, 3), [4, 5])],
    "map of generators": lambda: list(map(lambda p, q: p * q, Bag(1, 2), Yields(3, 4))),
    "an iterator": lambda: [x + y for x, y in zip(Counts(3), Bag(4, 5, 6))],
    "chain": lambda: list(itertools.chain(Bag(1), Yields(2, 3))),
    "enumerate": lambda: list(enumerate(Bag(5, 6), start=2)),
    "refused": lambda: list(zip([1], Refuses())),
    "a number for an iterator": lambda: list(zip([1], GivesNumber())),
    "a number": lambda: list(zip(Bag(1), 3)),
    "max of one": lambda: max(*[Bag(1, 5, 2)]),
    "scopes": lambda: ("LOG" in globals(*()), list(locals(*()))),
    "a class": lambda: type(*("Made", (), {})).__module__,
    "conversions": lambda: (dict(*[[("a", 1)]]), str(*[b"x", "ascii"]), int(*["11", 2]), bytes(*[3])),
    "attributes": lambda: (getattr(*(A, "shape")), hasattr(*[A, "nothing"])),
    "too many": lambda: len(*[1, 2]),
    "no iterable": lambda: list(*[3]),
    "callers": lambda: list(zip(*[TellsCaller(), TellsCaller()])),
    "rows": lambda: (sum(x * y for x, y in zip(*[A, A + 1])), [float(x) for x in map(np.sqrt, *[A])]),
    "more than are counted": lambda: (max(*range(9)), list(zip(*[[1, 2]] * 7))),
}


def outcome(function):
    LOG.clear()
    try:
        result = repr(function())
    except Exception as error:
        places = [(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)[1:]]
        return type(error), str(error), places, list(LOG)
    return result, list(LOG)


@pytest.mark.parametrize("function", [*RECORDED.values(), *OTHERS.values()], ids=[*RECORDED, *OTHERS])
def test_does_what_it_does_plainly(function):
    captured = evalframe.jit(function)
    expected = outcome(function)
    for _ in range(3):
        assert outcome(captured) == expected


@pytest.mark.parametrize("function", RECORDED.values(), ids=RECORDED)
def test_breaks_nothing(function):
    def around(x):
        return x + 1, function()

    captured = evalframe.jit(around, fullgraph=True)
    for _ in range(2):
        captured(A)


def test_iterators_that_are_asked_for_are_given_up():
    class Quiet(Bag):
        def __iter__(self):
            return iter(self.values)

    def function(x, bag):
        return x + sum(y * z for y, z in zip(bag, [1, 2]))

    bag = Quiet(3, 4)
    captured = evalframe.jit(function, fullgraph=True)
    count = sys.getrefcount(bag), sys.getrefcount(bag.values)
    for _ in range(3):
        assert captured(A, bag).tolist() == (A + 11).tolist()
    assert (sys.getrefcount(bag), sys.getrefcount(bag.values)) == count
