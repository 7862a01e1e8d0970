"""State that changes between calls: globals, cells, attributes, classes, defaults, modules, modes of NumPy."""

import enum
import math
import sys
import types

import numpy as np

TOLERANCE = 1e-14

scale = 2.0
table = [1, 2, 3]
options = {"k": 1, "axis": 0}
offset = np.ones(3)
hook = np.exp
counter = 0


def by_global(x):
    return x * scale + table[0] + options["k"] + offset


def by_hook(x):
    return hook(x) + abs(-1)


def counting(x):
    global counter
    counter += 1
    y = x + counter
    counter += 1
    return y


def appending(x, kept=[]):
    kept.append(float(x.sum()))
    return list(kept), len(kept) * x


def keyword(x, *rest, k=1, **more):
    for r in rest:
        x = x + r
    for name in more:
        x = x * more[name]
    return x - k


def typed(x, n):
    return x * n, x[n:] if isinstance(n, int) else None, type(n).__name__


def branching(x, n):
    if n == 1:
        return x + 1
    elif n > 1:
        return x * n
    elif not n:
        return x - 1
    return -x


def make():
    step = 1

    def use(x):
        return x + step

    def move(by):
        nonlocal step
        step += by

    return use, move


class Base:
    weight = 1.0

    def __init__(self):
        self.data = np.arange(3.0)

    def apply(self, x):
        return self.act(x) * self.weight + self.data

    def act(self, x):
        return x + 1

    @property
    def twice(self):
        return self.data * 2

    def grow(self):
        self.data = self.data + 1
        self.data[0] = -1
        self.data *= 2
        return self.data

    def __call__(self, x):
        return self.apply(x) - self.twice


class Child(Base):
    weight = 3.0

    def act(self, x):
        return super().act(x) * 10


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b

    def both(self):
        return self.a + self.b


class Dynamic:
    def __getattr__(self, name):
        return len(name)


def by_dynamic(o, x):
    return x + o.abc + o.weight


class Kind(enum.IntEnum):
    ONE = 1
    TWO = 2


class Int(int):
    def __mul__(self, other):
        return "mine"

    __rmul__ = __mul__


def attempt(f, *args, **kwargs):
    try:
        return f(*args, **kwargs)
    except Exception as error:
        return type(error).__name__, str(error)


def main():
    global scale, hook, offset, counter
    counter = 0
    appending_kept = (appending.__wrapped__ if hasattr(appending, "__wrapped__") else appending).__defaults__[0]
    appending_kept.clear()
    x = np.array([1.0, 2, 3])
    out = []
    scale, hook, offset, table[:], options["k"] = 2.0, np.exp, np.ones(3), [1, 2, 3], 1
    for new in (2.0, 2, True, np.float32(2), np.arange(3), 1j, 2.5):
        scale = new
        out.append(by_global(x))
    table[0] = 7
    out.append(by_global(x))
    table.insert(0, 0.5)
    out.append(by_global(x))
    options["k"] = -1
    out.append(by_global(x))
    del options["k"]
    out.append(attempt(by_global, x))
    options["k"] = 4
    offset[:] = 5
    out.append(by_global(x))
    offset = [1, 2, 3]
    out.append(by_global(x))
    for hook in (np.exp, np.sqrt, lambda v: v, math.floor, np.negative, np.sort):
        out.append(attempt(by_hook, x))
    globals()["abs"] = lambda v: 100
    out.append(attempt(by_hook, x))
    del globals()["abs"]
    out.append(attempt(by_hook, x))
    real, np.tanh = np.tanh, np.cosh
    hook = np.tanh
    out.append(by_hook(x))
    np.tanh = real
    for _ in range(4):
        out += [counting(x), counter]
    counter = 0.5
    out += [counting(x), counter, appending(x), appending(x), appending(x * 2)]
    out += [keyword(x), keyword(x, 1), keyword(x, 1, 2.0, k=3), keyword(x, k=0), keyword(x, a=2, b=x), keyword(x, b=x, a=2)]
    out += [attempt(keyword), attempt(keyword, x, None)]
    for n in (1, True, 1.0, np.int64(1), np.float32(1), Kind.ONE, Int(1), 2, False, 0, 0.0, -0.0, 10**30, np.True_, "a", None, Kind.TWO, 3, 4, 5, 6, 7, 8, 9):
        out += [attempt(typed, x, n), attempt(typed, x.astype("i4"), n), attempt(branching, x, n)]
    for n in (float("nan"), float("inf"), np.nan):
        out.append(branching(x, n))
    (u, m), (u2, m2) = make(), make()
    for by in (1, 0.5, x, -2, 3, 3):
        out += [u(x), u2(x)]
        m(by)
        m2(2)
    a, b = Base(), Child()
    for o in (a, b, a, b):
        out += [o(x), o.grow(), o.twice]
    a.weight = 5
    out.append(a(x))
    del a.weight
    out.append(a(x))
    a.act = lambda v: v * 0
    out.append(a(x))
    a.__class__ = Child
    out.append(a(x))
    del a.act
    out.append(a(x))
    old = Child.act
    Child.act = lambda self, v: v * 7
    out.append(a(x))
    Child.act = old
    Child.extra = 1
    out.append(a(x))
    a.data = a.data.astype("f4")
    out.append(a(x))
    a.data = 3
    out.append(a(x))
    Base.weight = 9
    Child.weight = 2.5
    out += [a(x), Base()(x)]
    Base.weight, Child.weight = 1.0, 3.0
    for s in (Slots(x, 1), Slots(1, 2), Slots(x, x), Slots([1], [2])):
        out.append(s.both())
        s.a = x * 2
        out.append(attempt(s.both))
    d = Dynamic()
    out.append(by_dynamic(d, x))
    d.abc = 10
    out.append(by_dynamic(d, x))
    Dynamic.weight = x
    out.append(by_dynamic(d, x))
    del Dynamic.weight
    return out
