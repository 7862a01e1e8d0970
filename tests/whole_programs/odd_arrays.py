"""Arrays of strings, records, dates and objects; masked arrays, matrices, memory maps, subclasses."""

import datetime
import os
import tempfile
from decimal import Decimal
from fractions import Fraction

import numpy as np


class Unit(np.ndarray):
    def __new__(cls, values, unit):
        self = np.asarray(values).view(cls)
        self.unit = unit
        return self

    def __array_finalize__(self, other):
        self.unit = getattr(other, "unit", "?")


class Logged:
    calls = 0

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        Logged.calls += 1
        return np.array(self.values, dtype)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        Logged.calls += 10
        return ufunc.__name__, method, len(inputs)


def affine(x, a, b):
    return x * a + b


def total(x):
    return x.sum(), len(x), x[-1]


def strings(s):
    return np.char.upper(s), s == "b", np.char.add(s, "!"), s[s > "a"], np.unique(s)


def records(r):
    r["x"] += 1
    r[0] = (9, 9.5, b"zz")
    return r["x"] * r["y"], r[r["x"] > 2], r.dtype.names, np.sort(r, order="y")


def dates(d):
    return d + np.timedelta64(1, "D"), np.diff(d), d > d[0], d.astype("M8[M]"), (d[-1] - d[0]) / np.timedelta64(1, "h")


def masked(m):
    return (m * 2 + 1).filled(-1), m.mean(), m.mask.sum(), np.ma.median(m)


def matrix(m):
    return m * m, m.T, m[0], m.sum(axis=0), m**2


def mapped(path, n):
    f = np.memmap(path, dtype="f4", mode="w+", shape=(n, 2))
    f[:] = 1
    f[1:] *= 3
    f.flush()
    g = np.memmap(path, dtype="f4", mode="r", shape=(n, 2))
    try:
        g[0] = 1
    except ValueError as error:
        return float(g.sum()), type(f * 2) is np.memmap, str(error)


def main():
    out = []
    for x in [
        np.arange(3.0),
        np.array([Decimal("1.5"), Decimal(2)]),
        np.array([Fraction(1, 3), 2]),
        np.array([1, 2.5, 3j], dtype=object),
        np.arange(3, dtype=np.float16),
        np.arange(3, dtype=np.longdouble),
        np.array([1, 2], ">i4"),
        Unit([1, 2], "m"),
    ]:
        try:
            y = affine(x, 2, 1)
            out += [type(y).__name__, str(y), getattr(y, "unit", None), str(total(x))]
        except TypeError as error:
            out.append(str(error))
    out += [np.add(Logged([1]), 1), np.arange(2) * Logged([1, 2]), Logged.calls]
    Logged.calls = 0
    for s in (["a", "b"], ["x", "yy", "b", "a"]):
        out += map(repr, strings(np.array(s)))
    r = np.array([(1, 2.0, b"a"), (3, 1.0, b"b")], dtype=[("x", "i4"), ("y", "f8"), ("s", "S2")])
    out += [*map(repr, records(r)), repr(r)]
    out += [*map(repr, dates(np.arange("2024-01-30", "2024-02-03", dtype="M8[D]")))]
    out += [*map(repr, dates(np.array([datetime.datetime(2020, 2, 28), datetime.datetime(2020, 3, 1)], "M8[s]")))]
    for mask in ([0, 1, 0], [0, 0, 0]):
        out += map(repr, masked(np.ma.array([1.0, 2, 3], mask=mask)))
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out += map(repr, matrix(np.matrix([[1, 2], [3, 4]])))
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "m.dat")
    out.append(mapped(path, 4))
    os.remove(path)
    os.rmdir(folder)
    return out
