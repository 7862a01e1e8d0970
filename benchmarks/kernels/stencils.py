"""Sweeps over grids of one to three dimensions: explicit, in place, implicit, and cellular automata."""

import numpy as np
from scipy import linalg, ndimage, signal

from .table import kernel


def two_grids(dimensions):
    def make(random, steps, n):
        shape = (n,) * dimensions
        return steps, random.random(shape), random.random(shape)

    return make


def one_grid(random, steps, n):
    return steps, random.random((n, n))


def averaged_1d(steps, A, B):
    for _ in range(steps):
        B[1:-1] = np.convolve(A, [1.0, 1.0, 1.0], "valid") / 3.0
        A[1:-1] = np.convolve(B, [1.0, 1.0, 1.0], "valid") / 3.0


@kernel(two_grids(1), (4, 12), (1000, 500), (4000, 5000), (10_000, 20_000), reference=averaged_1d, numba=True)
def jacobi_1d(steps, A, B):
    for _ in range(steps):
        B[1:-1] = (A[:-2] + A[1:-1] + A[2:]) / 3.0
        A[1:-1] = (B[:-2] + B[1:-1] + B[2:]) / 3.0


@kernel(two_grids(1), (3, 12), (10, 700), (60, 1700), (200, 5000), reference=averaged_1d, numba=True)
def jacobi_1d_elements(steps, A, B):
    n = len(A)
    for _ in range(steps):
        for i in range(1, n - 1):
            B[i] = (A[i - 1] + A[i] + A[i + 1]) / 3.0
        for i in range(1, n - 1):
            A[i] = (B[i - 1] + B[i] + B[i + 1]) / 3.0


CROSS = np.array([[0.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 0.0]])


def averaged_2d(steps, A, B):
    for _ in range(steps):
        B[1:-1, 1:-1] = 0.2 * signal.convolve2d(A, CROSS, "valid")
        A[1:-1, 1:-1] = 0.2 * signal.convolve2d(B, CROSS, "valid")


@kernel(two_grids(2), (3, 8), (70, 115), (130, 290), (250, 600), reference=averaged_2d, numba=True)
def jacobi_2d(steps, A, B):
    for _ in range(steps):
        B[1:-1, 1:-1] = 0.2 * (A[1:-1, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:] + A[2:, 1:-1] + A[:-2, 1:-1])
        A[1:-1, 1:-1] = 0.2 * (B[1:-1, 1:-1] + B[1:-1, :-2] + B[1:-1, 2:] + B[2:, 1:-1] + B[:-2, 1:-1])


STAR = ndimage.generate_binary_structure(3, 1) * 0.125
STAR[1, 1, 1] = 0.25


def spread_3d(steps, A, B):
    inner = (slice(1, -1),) * 3
    for _ in range(steps):
        B[inner] = ndimage.convolve(A, STAR)[inner]
        A[inner] = ndimage.convolve(B, STAR)[inner]


@kernel(two_grids(3), (3, 6), (30, 28), (60, 56), (70, 90), reference=spread_3d, numba=True)
def heat_3d(steps, A, B):
    for _ in range(steps):
        B[1:-1, 1:-1, 1:-1] = (
            0.125 * (A[2:, 1:-1, 1:-1] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[:-2, 1:-1, 1:-1])
            + 0.125 * (A[1:-1, 2:, 1:-1] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[1:-1, :-2, 1:-1])
            + 0.125 * (A[1:-1, 1:-1, 2:] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[1:-1, 1:-1, :-2])
            + A[1:-1, 1:-1, 1:-1]
        )
        A[1:-1, 1:-1, 1:-1] = (
            0.125 * (B[2:, 1:-1, 1:-1] - 2.0 * B[1:-1, 1:-1, 1:-1] + B[:-2, 1:-1, 1:-1])
            + 0.125 * (B[1:-1, 2:, 1:-1] - 2.0 * B[1:-1, 1:-1, 1:-1] + B[1:-1, :-2, 1:-1])
            + 0.125 * (B[1:-1, 1:-1, 2:] - 2.0 * B[1:-1, 1:-1, 1:-1] + B[1:-1, 1:-1, :-2])
            + B[1:-1, 1:-1, 1:-1]
        )


def sweep_by_recurrence(steps, A):
    """A row, given what doesn't depend on it, is a recurrence x[j] = x[j - 1] / 9 + known[j]."""
    for _ in range(steps):
        for i in range(1, len(A) - 1):
            known = np.convolve(A[i - 1], [1.0, 1.0, 1.0], "valid") + np.convolve(A[i + 1], [1.0, 1.0, 1.0], "valid")
            known += A[i, 1:-1] + A[i, 2:]
            A[i, 1:-1] = signal.lfilter([1.0 / 9.0], [1.0, -1.0 / 9.0], known, zi=[A[i, 0] / 9.0])[0]


@kernel(one_grid, (2, 7), (2, 55), (8, 95), (20, 190), reference=sweep_by_recurrence, numba=True)
def seidel_2d(steps, A):
    n = len(A)
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                A[i, j] = (
                    A[i - 1, j - 1]
                    + A[i - 1, j]
                    + A[i - 1, j + 1]
                    + A[i, j - 1]
                    + A[i, j]
                    + A[i, j + 1]
                    + A[i + 1, j - 1]
                    + A[i + 1, j]
                    + A[i + 1, j + 1]
                ) / 9.0


@kernel(one_grid, (2, 7), (4, 50), (10, 105), (25, 210), reference=sweep_by_recurrence, numba=True)
def seidel_2d_rows(steps, A):
    n = len(A)
    for _ in range(steps):
        for i in range(1, n - 1):
            A[i, 1:-1] += (
                A[i - 1, :-2] + A[i - 1, 1:-1] + A[i - 1, 2:] + A[i, 2:] + A[i + 1, :-2] + A[i + 1, 1:-1] + A[i + 1, 2:]
            )
            for j in range(1, n - 1):
                A[i, j] += A[i, j - 1]
                A[i, j] /= 9.0


def three_fields(random, steps, n):
    return *(random.random((n, n + 3)) for _ in range(3)), random.random(steps)


def fields_by_differences(ex, ey, hz, source):
    for value in source:
        ey[0] = value
        ey[1:] -= 0.5 * np.diff(hz, axis=0)
        ex[:, 1:] -= 0.5 * np.diff(hz, axis=1)
        hz[:-1, :-1] -= 0.7 * (np.diff(ex, axis=1)[:-1] + np.diff(ey, axis=0)[:, :-1])


@kernel(three_fields, (3, 8), (90, 110), (170, 250), (270, 550), reference=fields_by_differences, numba=True)
def fdtd_2d(ex, ey, hz, source):
    for t in range(len(source)):
        ey[0, :] = source[t]
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])


def implicit_sweeps(steps, u):
    """The same half steps, each as one banded system."""
    n = len(u)
    mul1, mul2 = 2.0 * n * n / steps, 1.0 * n * n / steps

    def half_step(field, along, across):
        """Implicit along the first axis, where both borders are one; explicit along the second."""
        bands = np.array([[-along / 2.0], [1.0 + along], [-along / 2.0]]) * np.ones(n - 2)
        right = (1.0 - across) * field[1:-1, 1:-1] + 0.5 * across * (field[1:-1, :-2] + field[1:-1, 2:])
        right[[0, -1]] += along / 2.0
        return linalg.solve_banded((1, 1), bands, right)

    for _ in range(steps):
        v = np.ones_like(u)
        v[1:-1, 1:-1] = half_step(u, mul1, mul2)
        u[1:-1, 1:-1] = half_step(v.T, mul2, mul1).T
        u[1:-1, [0, -1]] = 1.0


@kernel(one_grid, (2, 14), (6, 60), (20, 130), (60, 300), reference=implicit_sweeps, numba=True)
def adi(steps, u):
    """Alternating directions, implicit in one at a time."""
    n = u.shape[0]
    v, p, q = np.zeros_like(u), np.zeros_like(u), np.zeros_like(u)
    dx, dt = 1.0 / n, 1.0 / steps
    mul1, mul2 = 2.0 * dt / dx**2, 1.0 * dt / dx**2
    a, b = -mul1 / 2.0, 1.0 + mul1
    d, e = -mul2 / 2.0, 1.0 + mul2
    for _ in range(steps):
        v[0, 1:-1] = 1.0
        p[1:-1, 0] = 0.0
        q[1:-1, 0] = v[0, 1:-1]
        for j in range(1, n - 1):
            p[1:-1, j] = -a / (a * p[1:-1, j - 1] + b)
            q[1:-1, j] = (
                -d * u[j, :-2] + (1.0 + 2.0 * d) * u[j, 1:-1] - d * u[j, 2:] - a * q[1:-1, j - 1]
            ) / (a * p[1:-1, j - 1] + b)
        v[-1, 1:-1] = 1.0
        for j in range(n - 2, 0, -1):
            v[j, 1:-1] = p[1:-1, j] * v[j + 1, 1:-1] + q[1:-1, j]
        u[1:-1, 0] = 1.0
        p[1:-1, 0] = 0.0
        q[1:-1, 0] = u[1:-1, 0]
        for j in range(1, n - 1):
            p[1:-1, j] = -d / (d * p[1:-1, j - 1] + e)
            q[1:-1, j] = (
                -a * v[:-2, j] + (1.0 + 2.0 * a) * v[1:-1, j] - a * v[2:, j] - d * q[1:-1, j - 1]
            ) / (d * p[1:-1, j - 1] + e)
        u[1:-1, -1] = 1.0
        for j in range(n - 2, 0, -1):
            u[1:-1, j] = p[1:-1, j] * u[1:-1, j + 1] + q[1:-1, j]


def checkerboard(steps, u):
    for _ in range(steps):
        for colour in (0, 1):
            mask = np.indices(u.shape).sum(0) % 2 == colour
            mask[[0, -1]] = mask[:, [0, -1]] = False
            around = ndimage.convolve(u, CROSS - np.diag([0.0, 1.0, 0.0]))
            u[mask] += (1.5 * (0.25 * around - u))[mask]


@kernel(one_grid, (2, 8), (3, 45), (6, 110), (15, 220), reference=checkerboard, numba=True)
def red_black_sor(steps, u):
    rows, columns = u.shape
    for _ in range(steps):
        for colour in range(2):
            for i in range(1, rows - 1):
                for j in range(1 + (i + 1 + colour) % 2, columns - 1, 2):
                    around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
                    u[i, j] += 1.5 * (0.25 * around - u[i, j])


def hot_wall(random, n, cycles):
    plate = np.zeros((n, n))
    plate[0] = 100.0 * random.random(n)
    return plate, cycles, 1e-3


@kernel(hot_wall, (8, 30), (60, 280), (120, 1000), (240, 3000), numba=True)
def laplace_until(plate, most, tolerance):
    """As many sweeps as it takes."""
    count = 0
    change = tolerance + 1.0
    while change > tolerance and count < most:
        before = plate.copy()
        plate[1:-1, 1:-1] = 0.25 * (before[:-2, 1:-1] + before[2:, 1:-1] + before[1:-1, :-2] + before[1:-1, 2:])
        change = np.max(np.abs(plate - before))
        count += 1
    return count, change


def plucked(random, steps, n):
    return steps, 0.25 * random.random(), np.sin(np.linspace(0.0, np.pi, n)) + 0.01 * random.random(n)


def wave_by_matrix(steps, c, u):
    n = len(u)
    D = c * (np.eye(n, k=1) + np.eye(n, k=-1) - 2.0 * np.eye(n))
    D[[0, -1]] = 0.0
    inner = np.eye(n)
    inner[[0, -1]] = 0.0
    before, now = u, u
    for _ in range(steps):
        before, now = now, inner @ (2.0 * now - before) + D @ now
    return now


@kernel(plucked, (5, 12), (1000, 500), (5000, 2500), (12_000, 16_000), reference=wave_by_matrix, numba=True)
def wave_1d(steps, c, u):
    before, now, after = u.copy(), u.copy(), np.zeros_like(u)
    for _ in range(steps):
        after[1:-1] = 2.0 * now[1:-1] - before[1:-1] + c * (now[2:] - 2.0 * now[1:-1] + now[:-2])
        before, now, after = now, after, before
        now[0] = 0.0
        now[-1] = 0.0
    return now


def spots(random, steps, n):
    u, v = np.ones((n, n)), np.zeros((n, n))
    middle = slice(n // 3, 2 * n // 3)
    u[middle, middle], v[middle, middle] = 0.5, 0.25
    v += 0.05 * random.random((n, n))
    return steps, u, v


def laplacian(x):
    return np.roll(x, 1, 0) + np.roll(x, -1, 0) + np.roll(x, 1, 1) + np.roll(x, -1, 1) - 4.0 * x


def periodic_gray_scott(steps, u, v):
    for _ in range(steps):
        du, dv = 0.16 * ndimage.laplace(u, mode="wrap"), 0.08 * ndimage.laplace(v, mode="wrap")
        reaction = u * v**2
        u += du - reaction + 0.035 * (1.0 - u)
        v += dv + reaction - 0.1 * v


@kernel(spots, (2, 8), (40, 95), (80, 250), (150, 550), reference=periodic_gray_scott)
def gray_scott(steps, u, v):
    for _ in range(steps):
        reaction = u * v * v
        u_new = u + 0.16 * laplacian(u) - reaction + 0.035 * (1.0 - u)
        v_new = v + 0.08 * laplacian(v) + reaction - 0.1 * v
        u[:] = u_new
        v[:] = v_new


def cells(random, steps, n):
    return steps, random.integers(0, 2, (n, n + 2))


def counted_by_convolution(steps, board):
    for _ in range(steps):
        neighbours = signal.convolve2d(board, np.ones((3, 3), int), "same", "wrap") - board
        board[:] = (neighbours == 3) | ((board == 1) & (neighbours == 2))
    return board.sum()


@kernel(cells, (2, 7), (2, 40), (5, 80), (12, 160), reference=counted_by_convolution, numba=True)
def life_elements(steps, board):
    rows, columns = board.shape
    for _ in range(steps):
        old = board.copy()
        for i in range(rows):
            for j in range(columns):
                alive = 0
                for di in range(-1, 2):
                    for dj in range(-1, 2):
                        if di != 0 or dj != 0:
                            alive += old[(i + di) % rows, (j + dj) % columns]
                if alive == 3:
                    board[i, j] = 1
                elif alive != 2:
                    board[i, j] = 0
    return board.sum()


@kernel(cells, (3, 8), (40, 100), (80, 260), (150, 600), reference=counted_by_convolution, numba=life_elements)
def life(steps, board):
    for _ in range(steps):
        neighbours = sum(
            np.roll(np.roll(board, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i != 0 or j != 0)
        )
        board[:] = (neighbours == 3) | ((board == 1) & (neighbours == 2))
    return board.sum()


def one_row(random, steps, n):
    return random.integers(0, 2, n).astype(np.uint8), np.array([0, 1, 1, 1, 0, 1, 1, 0], dtype=np.uint8), steps


def rule_by_operators(row, rule, steps):
    history = [row]
    for _ in range(steps):
        left, right = np.roll(row, 1), np.roll(row, -1)
        row = (row | right) ^ (left & row & right)
        history.append(row)
    return np.array(history)


@kernel(one_row, (5, 12), (400, 400), (2500, 2000), (15_000, 10_000), reference=rule_by_operators)
def rule_110(row, rule, steps):
    """Each new cell is looked up by the three that are above it."""
    history = np.zeros((steps + 1, row.size), dtype=np.uint8)
    history[0] = row
    for t in range(steps):
        now = history[t]
        history[t + 1] = rule[4 * np.roll(now, 1) + 2 * now + np.roll(now, -1)]
    return history
