"""Factorisations of matrices, and solving triangular, tridiagonal, Toeplitz and full systems."""

import numpy as np
from scipy import linalg

from .products import positive_system
from .table import kernel


def one_matrix(random, n):
    return (random.random((n, n)) + n * np.eye(n),)


def system(random, n):
    return random.random((n, n)) + n * np.eye(n), random.random(n)


def lower_factor(A):
    lower = np.tril_indices_from(A)
    A[lower] = np.linalg.cholesky(A)[lower]


@kernel(lambda random, n: positive_system(random, n)[:1], 6, 85, 270, 800, reference=lower_factor, numba=True)
def cholesky(A):
    for i in range(A.shape[0]):
        for j in range(i):
            A[i, j] -= A[i, :j] @ A[j, :j]
            A[i, j] /= A[j, j]
        A[i, i] -= A[i, :i] @ A[i, :i]
        A[i, i] = np.sqrt(A[i, i])


@kernel(lambda random, n: positive_system(random, n)[:1], 5, 48, 105, 300, reference=np.linalg.cholesky, numba=True)
def cholesky_elements(A):
    n = len(A)
    L = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            total = A[i, j]
            for k in range(j):
                total -= L[i, k] * L[j, k]
            if i == j:
                if total <= 0.0:
                    raise ValueError("the matrix isn't positive definite")
                L[i, i] = np.sqrt(total)
            else:
                L[i, j] = total / L[j, j]
    return L


def eliminated(A):
    for k in range(len(A)):
        A[k + 1 :, k] /= A[k, k]
        A[k + 1 :, k + 1 :] -= np.outer(A[k + 1 :, k], A[k, k + 1 :])


@kernel(one_matrix, 6, 65, 200, 600, reference=eliminated, numba=True)
def lu(A):
    n = A.shape[0]
    for i in range(n):
        for j in range(i):
            A[i, j] -= A[i, :j] @ A[:j, j]
            A[i, j] /= A[j, j]
        for j in range(i, n):
            A[i, j] -= A[i, :i] @ A[:i, j]


@kernel(lambda random, n: (random.random((n, n)),), 6, 170, 450, 1100, reference=lambda A: linalg.lu(A, p_indices=True))
def lu_pivoted(A):
    A = A.copy()
    n = A.shape[0]
    order = np.arange(n)
    for k in range(n):
        pivot = k + np.argmax(np.abs(A[k:, k]))
        if A[pivot, k] == 0.0:
            raise np.linalg.LinAlgError(f"singular at column {k}")
        if pivot != k:
            A[[k, pivot]] = A[[pivot, k]]
            order[[k, pivot]] = order[[pivot, k]]
        A[k + 1 :, k] /= A[k, k]
        A[k + 1 :, k + 1 :] -= A[k + 1 :, k, None] * A[k, k + 1 :]
    place = np.empty_like(order)
    for row in range(n):
        place[order[row]] = row
    return place, np.tril(A, -1) + np.eye(n), np.triu(A)


@kernel(system, 5, 40, 90, 220, reference=np.linalg.solve, numba=True)
def lu_solve_elements(A, b):
    n = len(b)
    for i in range(n):
        for j in range(i):
            w = A[i, j]
            for k in range(j):
                w -= A[i, k] * A[k, j]
            A[i, j] = w / A[j, j]
        for j in range(i, n):
            w = A[i, j]
            for k in range(i):
                w -= A[i, k] * A[k, j]
            A[i, j] = w
    x = np.zeros(n)
    for i in range(n):
        w = b[i]
        for j in range(i):
            w -= A[i, j] * x[j]
        x[i] = w
    for i in range(n - 1, -1, -1):
        w = x[i]
        for j in range(i + 1, n):
            w -= A[i, j] * x[j]
        x[i] = w / A[i, i]
    return x


@kernel(system, 9, 2000, 5000, 7000, reference=lambda L, b: linalg.solve_triangular(L, b, lower=True), numba=True)
def forward_substitution(L, b):
    x = np.zeros_like(b)
    for i in range(x.shape[0]):
        x[i] = (b[i] - L[i, :i] @ x[:i]) / L[i, i]
    return x


@kernel(system, 9, 1500, 4000, 7000, reference=linalg.solve_triangular)
def back_substitution(U, b):
    x = b.copy()
    for i in reversed(range(len(x))):
        x[i] /= U[i, i]
        x[:i] -= x[i] * U[:i, i]
    return x


@kernel(
    *(lambda random, n: (random.random(n) / (2.0 * n),), 8, 1200, 7000, 22_000),
    reference=lambda r: linalg.solve_toeplitz(np.concatenate([[1.0], r[:-1]]), -r),
    numba=True,
)
def durbin(r):
    y = np.empty_like(r)
    alpha = -r[0]
    beta = 1.0
    y[0] = -r[0]
    for k in range(1, r.size):
        beta *= 1.0 - alpha * alpha
        alpha = -(r[k] + np.dot(np.flip(r[:k]), y[:k])) / beta
        y[:k] += alpha * np.flip(y[:k])
        y[k] = alpha
    return y


def qr_with_positive_diagonal(A):
    Q, R = np.linalg.qr(A)
    signs = np.sign(np.diagonal(R))
    return Q * signs, R * signs[:, None]


def tall(random, rows, columns):
    return (random.random((rows, columns)),)


@kernel(tall, (7, 5), (60, 55), (200, 180), (500, 450), reference=qr_with_positive_diagonal, numba=True, rtol=1e-7)
def gram_schmidt(A):
    A = A.copy()
    n = A.shape[1]
    Q = np.zeros_like(A)
    R = np.zeros((n, n))
    for k in range(n):
        R[k, k] = np.sqrt(A[:, k] @ A[:, k])
        Q[:, k] = A[:, k] / R[k, k]
        for j in range(k + 1, n):
            R[k, j] = Q[:, k] @ A[:, j]
            A[:, j] -= Q[:, k] * R[k, j]
    return Q, R


@kernel(tall, (7, 5), (200, 150), (500, 400), (1000, 900), reference=lambda A: qr_with_positive_diagonal(A)[1])
def householder(A):
    R = A.copy()
    columns = R.shape[1]
    for k in range(columns):
        v = R[k:, k].copy()
        norm = np.sqrt(np.sum(v**2))
        v[0] += norm if v[0] >= 0 else -norm
        length = v @ v
        if length > 0.0:
            R[k:, k:] -= np.outer(v, (2.0 / length) * (v @ R[k:, k:]))
        if R[k, k] < 0:
            R[k, k:] *= -1.0
        R[k + 1 :, k] = 0.0
    return R[:columns]


@kernel(
    *(lambda random, n: (random.random((n, n)),), 4, 15, 38, 100),
    reference=lambda A: np.linalg.eigvalsh(A + A.T),
    numba=True,
    rtol=1e-7,
)
def jacobi_eigenvalues(A):
    S = A + A.T
    n = S.shape[0]
    for _ in range(30):
        off = 0.0
        for i in range(n):
            for j in range(i):
                off += S[i, j] ** 2
        if off < 1e-20:
            break
        for p in range(n - 1):
            for q in range(p + 1, n):
                if abs(S[p, q]) < 1e-300:
                    continue
                theta = (S[q, q] - S[p, p]) / (2.0 * S[p, q])
                t = 1.0 / (abs(theta) + np.sqrt(theta * theta + 1.0))
                if theta < 0.0:
                    t = -t
                c = 1.0 / np.sqrt(t * t + 1.0)
                s = t * c
                row_p, row_q = S[p].copy(), S[q].copy()
                S[p] = c * row_p - s * row_q
                S[q] = s * row_p + c * row_q
                column_p, column_q = S[:, p].copy(), S[:, q].copy()
                S[:, p] = c * column_p - s * column_q
                S[:, q] = s * column_p + c * column_q
    return np.sort(np.diag(S))


def three_diagonals(random, n):
    lower, upper = random.random(n), random.random(n)
    return lower, 2.5 + random.random(n), upper, random.random(n)


def banded(lower, diagonal, upper, right):
    bands = np.array([np.roll(upper, 1), diagonal, np.roll(lower, -1)])
    return linalg.solve_banded((1, 1), bands, right)


@kernel(three_diagonals, 9, 9000, 90_000, 900_000, reference=banded, numba=True)
def thomas(lower, diagonal, upper, right):
    n = len(right)
    c = np.zeros(n)
    d = np.zeros(n)
    c[0] = upper[0] / diagonal[0]
    d[0] = right[0] / diagonal[0]
    for i in range(1, n):
        m = diagonal[i] - lower[i] * c[i - 1]
        c[i] = upper[i] / m
        d[i] = (right[i] - lower[i] * d[i - 1]) / m
    x = np.zeros(n)
    x[-1] = d[-1]
    for i in range(n - 2, -1, -1):
        x[i] = d[i] - c[i] * x[i + 1]
    return x


@kernel(one_matrix, 5, 55, 180, 500, reference=np.linalg.inv, numba=True)
def gauss_jordan(A):
    n = len(A)
    A = A.copy()
    inverse = np.eye(n)
    for k in range(n):
        pivot = A[k, k]
        A[k] /= pivot
        inverse[k] /= pivot
        for i in range(n):
            if i == k:
                continue
            factor = A[i, k]
            A[i] -= factor * A[k]
            inverse[i] -= factor * inverse[k]
    return inverse


@kernel(system, 6, 150, 800, 2500, reference=np.linalg.solve, numba=True)
def gauss_seidel(A, b):
    x = np.zeros_like(b)
    for _ in range(200):
        largest = 0.0
        for i in range(len(b)):
            value = (b[i] - A[i, :i] @ x[:i] - A[i, i + 1 :] @ x[i + 1 :]) / A[i, i]
            largest = max(largest, abs(value - x[i]))
            x[i] = value
        if largest < 1e-13:
            break
    return x
