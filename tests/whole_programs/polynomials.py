"""Polynomials, interpolation, roots, splines, quadrature."""

import numpy as np


def horner(c, x):
    r = np.zeros_like(x)
    for a in c:
        r = r * x + a
    return r


def lagrange(xs, ys, x):
    total = 0.0
    for i, xi in enumerate(xs):
        term = ys[i]
        for j, xj in enumerate(xs):
            if i != j:
                term = term * (x - xj) / (xi - xj)
        total += term
    return total


def newton(f, df, x, tol=1e-12, most=50):
    for i in range(most):
        step = f(x) / df(x)
        x = x - step
        if np.all(np.abs(step) < tol):
            return x, i
    raise RuntimeError(f"no root after {most} steps")


def bisect(f, a, b):
    a, b = np.broadcast_arrays(a, b)
    a, b = a.copy(), b.copy()
    for _ in range(40):
        m = (a + b) / 2
        left = np.sign(f(m)) == np.sign(f(a))
        a[left] = m[left]
        b[~left] = m[~left]
    return (a + b) / 2


def tridiagonal(a, b, c, d):
    n = len(d)
    c, d = c.copy(), d.copy()
    c[0] /= b[0]
    d[0] /= b[0]
    for i in range(1, n):
        w = b[i] - a[i] * c[i - 1]
        c[i] /= w
        d[i] = (d[i] - a[i] * d[i - 1]) / w
    for i in range(n - 2, -1, -1):
        d[i] -= c[i] * d[i + 1]
    return d


def simpson(f, a, b, n):
    x = np.linspace(a, b, n + 1)
    y = f(x)
    return (b - a) / n / 3 * (y[0] + 4 * y[1:-1:2].sum() + 2 * y[2:-1:2].sum() + y[-1])


def romberg(f, a, b, n):
    if n == 0:
        return 0.5 * (b - a) * (f(a) + f(b))
    m = 0.5 * (a + b)
    return (romberg(f, a, m, n - 1) + romberg(f, m, b, n - 1)) if n > 0 else None


TOLERANCE = 1e-11


def main():
    out = []
    for n in (4, 9, 5):
        x = np.linspace(-1, 1, n)
        out += [horner([1, -2, 0.5], x), horner(np.array([1, 2, 3]), x.astype("f4")), lagrange(x[:4], x[:4] ** 3, 0.3)]
        out.append(tridiagonal(np.ones(n), np.full(n, 4.0), np.ones(n), x * n))
        out.append(simpson(np.sin, 0, np.pi, 2 * n))
        out.append(newton(lambda v: v**2 - 2, lambda v: 2 * v, x + 3))
        out.append(bisect(lambda v: v**3 - x, -2.0 + 0 * x, 2.0))
        out.append(np.polyval(np.polyfit(x, x**2, 2), x).round(6) + 0.0)
    out.append(romberg(np.cos, 0.0, 1.0, 5))
    try:
        newton(lambda v: v * v + 1, lambda v: 2 * v, np.array([0.5]))
    except RuntimeError as error:
        out.append(str(error))
    out.append(newton(lambda v: v * v, lambda v: 2 * v, 1.0, tol=1e-3))
    return out
