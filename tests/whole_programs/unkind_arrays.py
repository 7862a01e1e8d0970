"""Arrays as they shouldn't be: overlapping, read-only, swapped, unaligned, empty, without dimensions, with changing layouts."""

import sys

import numpy as np


def into_first(a, b):
    a[...] = a + b
    a += b * 2
    b[:1] = a[-1:]
    return a - b


def shifted(a):
    a[1:] = a[:-1]
    a[:-1] += a[1:]
    a[::-1] *= 2
    return a.sum()


def transposed(a):
    a += a.T
    a.T[0] = a[1]
    b = a.reshape(-1)
    b[::2] = 0
    return a, b, a.ravel(), a[::-1].copy()


def outs(a, b, out):
    np.add(a, b, out=out)
    np.multiply(out, a, out)
    np.sqrt(np.abs(out), out=out, where=a > b)
    return out


def views(a):
    v = a[1:]
    w = v[::2]
    w += 1
    return v, w, v.base is a, w.base is a, a[...], a[None], a.T, a.reshape(a.shape), a.view(), np.atleast_2d(a)


def flags(a):
    b = a * 2
    b.flags.writeable = False
    c = b[:1]
    try:
        c[0] = 1
    except ValueError as error:
        return str(error), b, c
    return b, c


def shapes(a):
    b = a + 0
    b.shape = (-1, 1)
    c = b * b.T
    b.resize(b.size, refcheck=False)
    return b, c, b.shape, c.ndim, c.nbytes, c.strides, c.itemsize


def integers(a, b):
    return a + b, a - b, a * b, a // b, a % b, a & b, a << (b & 7), ~a, -a, abs(a), a**2, a == b, a / b, np.divmod(a, b)


def floats(a):
    return np.floor(a), np.sign(a), a % 1, a // 0.3, np.isnan(a), a > 0, a.round(1), np.maximum(a, 0), a.clip(-1, 1), 1 / a, a**0.5, a**2, a**-1


def reductions(a):
    return a.sum(), a.mean(), a.min(axis=-1), a.max(), a.argmax(), a.any(), a.prod(axis=0), a.std(), a.cumsum(), np.ptp(a)


def scalars(a):
    s = a.ravel()[0]
    t = s + 1
    return s, t, t * 2.5, s == t, s.item(), float(s), int(s), bool(s), -s, s**2, type(s).__name__, [s] * 2, {s: 1}, f"{s:.2f}", round(s, 1)


def resized(a, b):
    c = a + b
    c.resize(5, 2)
    d = c[1:]
    e = [c, d, a]
    return c, d.base is c, e


def masks(a, m):
    b = a.copy()
    b[m] = 0
    b[~m] += 1
    return b, a[m], a[m].sum(), np.where(m, a, -a), np.nonzero(m), b[m] == 0


def fancy(a, i):
    b = a[i]
    a[i] += 1
    a[i] = a[i] * 2
    return b, a, np.take(a, i), a[i, None]


def same(a, b):
    return a is b, a + b, (a == b).all(), np.array_equal(a, b), a is a[:]


def attempt(f, *args):
    try:
        return f(*args)
    except Exception as error:
        return type(error).__name__, str(error), str(error.__context__)


def arrays():
    r = np.random.default_rng(3)
    base = (r.random(9) * 20 - 10).reshape(3, 3)
    raw = bytearray(8 * 9 + 1)
    odd = np.frombuffer(raw, "f8", 9, offset=1).reshape(3, 3)
    odd[...] = base
    wide = np.zeros((6, 9))
    wide[::2, ::3] = base
    fixed = base.copy()
    fixed.flags.writeable = False
    return [
        base.copy(), np.asfortranarray(base), odd, wide[::2, ::3], base[::-1, ::-1].copy()[::-1], fixed, base.astype(">f8"),
        np.broadcast_to(base[0], (3, 3)), base.astype("f4"), base.astype("i4"), base.astype("u1"), base.astype("i1"),
        base.astype(bool), base.astype("c8"), base.astype("f2"), np.zeros((0, 3)), np.zeros((3, 0)), np.array(2.5),
        np.array([[1.0]]), base[0].copy(), np.array([np.nan, np.inf, -np.inf, -0.0]), base.astype("u8"), base.astype("i8"),
        np.zeros((2, 1, 3)), np.arange(16.0).reshape(4, 4)[1:3, 1:3],
    ]


def main():
    out = []
    # Lowest float16 and int8 results are where NumPy warns; all warnings are compared.
    for pick in range(len(arrays())):
        for f in (shifted, transposed, views, flags, shapes, floats, reductions, scalars):
            a = arrays()[pick]
            out += [f.__name__, attempt(f, a), a]
        for f in (into_first, integers, same, resized):
            a = arrays()[pick]
            out += [f.__name__, attempt(f, a, a), a, sys.getrefcount(a)]
            a = arrays()[pick]
            if a.ndim and len(a):
                out += [attempt(f, a, a[-1]), a]
                a = arrays()[pick]
                out += [attempt(f, a[1:], a[:-1]), a]
            out += [attempt(f, arrays()[pick], 2), attempt(f, arrays()[pick], np.float32(0)), attempt(f, arrays()[pick], arrays()[0])]
        a, b = arrays()[pick], arrays()[pick]
        out += [attempt(outs, a, b, a), a, attempt(outs, b, b, np.empty_like(b)), b]
        if a.ndim:
            out += [attempt(outs, a[1:], b[1:], a[:-1]), a]
            out += [attempt(masks, a, a > 0), attempt(fancy, a, [0, 0, -1]), attempt(fancy, a, np.array([0, 9]))]
    for kind in ("raise", "ignore", "warn"):
        with np.errstate(all=kind):
            for pick in (0, 4, 11, 14, 18, 20):
                out += [attempt(floats, arrays()[pick]), attempt(integers, arrays()[pick], np.int8(0)), attempt(scalars, arrays()[pick])]
    seen = []
    with np.errstate(all="call", call=lambda kind, flag: seen.append((kind, flag))):
        out += [attempt(floats, arrays()[20]), attempt(integers, arrays()[12], arrays()[11])]
    out.append(seen)
    return out
