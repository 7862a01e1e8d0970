"""Sweeps over grids."""

import jax.numpy as jnp
from jax import lax

from . import version


@version("jacobi_1d", "jacobi_1d_elements", changed=(1, 2))
def jacobi_1d(steps, A, B):
    def step(_, both):
        A, B = both
        B = B.at[1:-1].set((A[:-2] + A[1:-1] + A[2:]) / 3.0)
        return A.at[1:-1].set((B[:-2] + B[1:-1] + B[2:]) / 3.0), B

    return None, *lax.fori_loop(0, steps, step, (A, B))


def cross(A):
    return 0.2 * (A[1:-1, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:] + A[2:, 1:-1] + A[:-2, 1:-1])


@version("jacobi_2d", changed=(1, 2))
def jacobi_2d(steps, A, B):
    def step(_, both):
        A, B = both
        B = B.at[1:-1, 1:-1].set(cross(A))
        return A.at[1:-1, 1:-1].set(cross(B)), B

    return None, *lax.fori_loop(0, steps, step, (A, B))


def spread(A):
    middle = A[1:-1, 1:-1, 1:-1]
    return (
        0.125 * (A[2:, 1:-1, 1:-1] - 2.0 * middle + A[:-2, 1:-1, 1:-1])
        + 0.125 * (A[1:-1, 2:, 1:-1] - 2.0 * middle + A[1:-1, :-2, 1:-1])
        + 0.125 * (A[1:-1, 1:-1, 2:] - 2.0 * middle + A[1:-1, 1:-1, :-2])
        + middle
    )


@version("heat_3d", changed=(1, 2))
def heat_3d(steps, A, B):
    inner = (slice(1, -1),) * 3

    def step(_, both):
        A, B = both
        B = B.at[inner].set(spread(A))
        return A.at[inner].set(spread(B)), B

    return None, *lax.fori_loop(0, steps, step, (A, B))


@version("seidel_2d", "seidel_2d_rows", changed=(1,))
def seidel_2d(steps, A):
    """A row, given what doesn't depend on it, is a recurrence."""

    def row(above, rows):
        here, below = rows
        known = above[:-2] + above[1:-1] + above[2:] + here[1:-1] + here[2:] + below[:-2] + below[1:-1] + below[2:]

        def element(left, sum_of_others):
            new = (left + sum_of_others) / 9.0
            return new, new

        _, inner = lax.scan(element, here[0], known)
        new = here.at[1:-1].set(inner)
        return new, new

    def step(_, A):
        _, inner = lax.scan(row, A[0], (A[1:-1], A[2:]))
        return A.at[1:-1].set(inner)

    return None, lax.fori_loop(0, steps, step, A)


@version("fdtd_2d", changed=(0, 1, 2))
def fdtd_2d(ex, ey, hz, source):
    def step(fields, value):
        ex, ey, hz = fields
        ey = ey.at[0].set(value)
        ey = ey.at[1:].add(-0.5 * (hz[1:] - hz[:-1]))
        ex = ex.at[:, 1:].add(-0.5 * (hz[:, 1:] - hz[:, :-1]))
        hz = hz.at[:-1, :-1].add(-0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]))
        return (ex, ey, hz), None

    return None, *lax.scan(step, (ex, ey, hz), source)[0]


def implicit(right, first, last, outer, middle):
    """The same tridiagonal system for each column of the right sides, whose ends are given."""

    def down(state, known):
        p, q = state
        new = -outer / (outer * p + middle), (known - outer * q) / (outer * p + middle)
        return new, new

    def up(value, coefficients):
        p, q = coefficients
        value = p * value + q
        return value, value

    start = jnp.zeros_like(first), first
    _, coefficients = lax.scan(down, start, right)
    return lax.scan(up, last, coefficients, reverse=True)[1]


@version("adi", changed=(1,))
def adi(steps, u):
    n = u.shape[0]
    dx, dt = 1.0 / n, 1.0 / steps
    a, d = -dt / dx**2, -0.5 * dt / dx**2
    b, e = 1.0 - 2.0 * a, 1.0 - 2.0 * d
    ones = jnp.ones(n - 2)

    def step(_, state):
        u, v = state
        right = -d * u[1:-1, :-2] + (1.0 + 2.0 * d) * u[1:-1, 1:-1] - d * u[1:-1, 2:]
        v = v.at[1:-1, 1:-1].set(implicit(right, ones, ones, a, b)).at[0, 1:-1].set(1.0).at[-1, 1:-1].set(1.0)
        right = (-a * v[:-2, 1:-1] + (1.0 + 2.0 * a) * v[1:-1, 1:-1] - a * v[2:, 1:-1]).T
        inner = implicit(right, ones, ones, d, e).T
        return u.at[1:-1, 1:-1].set(inner).at[1:-1, 0].set(1.0).at[1:-1, -1].set(1.0), v

    return None, lax.fori_loop(0, steps, step, (u, jnp.zeros_like(u)))[0]


@version("red_black_sor", changed=(1,))
def red_black_sor(steps, u):
    rows, columns = u.shape
    i, j = jnp.indices((rows - 2, columns - 2)) + 1

    def half(u, colour):
        middle = u[1:-1, 1:-1]
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        new = middle + 1.5 * (0.25 * around - middle)
        return u.at[1:-1, 1:-1].set(jnp.where((i + j) % 2 == colour, new, middle))

    return None, lax.fori_loop(0, steps, lambda _, u: half(half(u, 0), 1), u)


@version("laplace_until", changed=(0,))
def laplace_until(plate, most, tolerance):
    def goes_on(state):
        _, count, change = state
        return (change > tolerance) & (count < most)

    def step(state):
        before, count, _ = state
        new = 0.25 * (before[:-2, 1:-1] + before[2:, 1:-1] + before[1:-1, :-2] + before[1:-1, 2:])
        plate = before.at[1:-1, 1:-1].set(new)
        return plate, count + 1, jnp.max(jnp.abs(plate - before))

    plate, count, change = lax.while_loop(goes_on, step, (plate, 0, tolerance + 1.0))
    return (count, change), plate


@version("wave_1d")
def wave_1d(steps, c, u):
    def step(_, both):
        before, now = both
        inner = 2.0 * now[1:-1] - before[1:-1] + c * (now[2:] - 2.0 * now[1:-1] + now[:-2])
        return now, jnp.pad(inner, 1)

    return lax.fori_loop(0, steps, step, (u, u))[1]


def laplacian(x):
    return jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) + jnp.roll(x, 1, 1) + jnp.roll(x, -1, 1) - 4.0 * x


@version("gray_scott", changed=(1, 2))
def gray_scott(steps, u, v):
    def step(_, both):
        u, v = both
        reaction = u * v * v
        return u + 0.16 * laplacian(u) - reaction + 0.035 * (1.0 - u), v + 0.08 * laplacian(v) + reaction - 0.1 * v

    return None, *lax.fori_loop(0, steps, step, (u, v))


@version("life", "life_elements", changed=(1,))
def life(steps, board):
    def step(_, board):
        alive = sum(jnp.roll(board, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
        return ((alive == 3) | ((board == 1) & (alive == 2))).astype(board.dtype)

    board = lax.fori_loop(0, steps, step, board)
    return board.sum(), board
