"""The Mandelbrot set with shrinking masks and with in-place complex arithmetic that overflows."""

import numpy as np


def by_mask(c, most):
    z = np.zeros_like(c)
    counts = np.zeros(c.shape, dtype=int)
    alive = np.ones(c.shape, dtype=bool)
    for i in range(most):
        z[alive] = z[alive] ** 2 + c[alive]
        alive = np.abs(z) <= 2
        counts[alive] = i + 1
    return counts


def by_overflow(c, most):
    z = np.zeros_like(c)
    for _ in range(most):
        z = z * z + c
    return np.isfinite(z) & (abs(z) < 2)


def julia(re, im, c, most=12):
    z = re + 1j * im
    out = np.full(z.shape, most)
    for n in range(most):
        z *= z
        z += c
        gone = z.real**2 + z.imag**2 > 4
        out[gone & (out == most)] = n
        z[gone] = 0
    return out


def main():
    out = []
    for n, m in [(10, 12), (15, 7), (10, 12)]:
        y, x = np.ogrid[-1.2:1.2 : n * 1j, -2 : 0.5 : m * 1j]
        c = x + y * 1j
        out += [by_mask(c, 20), by_overflow(c, 12), julia(x, y, -0.8 + 0.156j)]
    return out
