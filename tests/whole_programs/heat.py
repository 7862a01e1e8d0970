"""Heat in one, two and three dimensions, and waves; in place, with swapped buffers, with out=."""

import numpy as np


def heat_1d(u, nu, steps):
    for _ in range(steps):
        u[1:-1] = u[1:-1] + nu * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


def heat_2d(u, steps, alpha=0.2):
    new = u.copy()
    for n in range(steps):
        new[1:-1, 1:-1] = u[1:-1, 1:-1] + alpha * (
            u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        )
        new[0], new[-1] = 0, new[-2]
        u, new = new, u
    return u


def heat_3d(u):
    c = u[1:-1, 1:-1, 1:-1]
    lap = -6 * c
    for axis in range(3):
        for side in (slice(None, -2), slice(2, None)):
            key = [slice(1, -1)] * 3
            key[axis] = side
            lap += u[tuple(key)]
    c += 0.1 * lap
    return np.abs(lap).max()


def wave(n, c, steps):
    x = np.linspace(0, 1, n)
    now, before = np.exp(-100 * (x - 0.5) ** 2), None
    before = now.copy()
    buffer = np.empty_like(now)
    for _ in range(steps):
        np.subtract(now[2:], 2 * now[1:-1], out=buffer[1:-1])
        buffer[1:-1] += now[:-2]
        buffer *= c**2
        after = 2 * now - before + buffer
        after[0] = after[-1] = 0
        before, now = now, after
    return now


def gray_scott(U, V, steps, F=0.04, k=0.06):
    u, v = U[1:-1, 1:-1], V[1:-1, 1:-1]
    for _ in range(steps):
        Lu = U[:-2, 1:-1] + U[1:-1, :-2] - 4 * u + U[1:-1, 2:] + U[2:, 1:-1]
        Lv = V[:-2, 1:-1] + V[1:-1, :-2] - 4 * v + V[1:-1, 2:] + V[2:, 1:-1]
        uvv = u * v * v
        u += 0.16 * Lu - uvv + F * (1 - u)
        v += 0.08 * Lv + uvv - (F + k) * v
        for Z in (U, V):
            Z[0, :] = Z[-2, :]
            Z[-1, :] = Z[1, :]
            Z[:, 0] = Z[:, -2]
            Z[:, -1] = Z[:, 1]


TOLERANCE = 1e-9


def main():
    rng = np.random.default_rng(9)
    out = []
    for n, dtype in [(10, "f8"), (21, "f4"), (6, "f8")]:
        a = rng.random(n).astype(dtype)
        assert heat_1d(a, 0.2, 30) is a
        b = rng.random((n, n + 2)).astype(dtype)
        out += [a, heat_2d(b, 7), b]
        c = rng.random((n, n, 5)).astype(dtype)
        out += [[heat_3d(c) for _ in range(4)], c, wave(n * 3, 0.5, 20)]
        U, V = np.ones((n, n)), np.zeros((n, n))
        V[2:4, 2:4] = 0.25
        gray_scott(U, V, 10)
        out += [U, V]
    return out
