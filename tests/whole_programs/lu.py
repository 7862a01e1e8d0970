"""LU with pivoting, substitution and Cholesky, by hand, row by row."""

import numpy as np


def lu(A):
    A = A.copy()
    n = A.shape[0]
    P = np.arange(n)
    for k in range(n - 1):
        p = k + int(np.argmax(np.abs(A[k:, k])))
        if A[p, k] == 0:
            raise np.linalg.LinAlgError(f"singular at column {k}")
        if p != k:
            A[[k, p]] = A[[p, k]]
            P[[k, p]] = P[[p, k]]
        A[k + 1 :, k] /= A[k, k]
        A[k + 1 :, k + 1 :] -= np.outer(A[k + 1 :, k], A[k, k + 1 :])
    return P, A


def solve(A, b):
    P, LU = lu(A)
    x = b[P].astype(A.dtype)
    n = len(x)
    for i in range(1, n):
        x[i] -= LU[i, :i] @ x[:i]
    for i in reversed(range(n)):
        x[i] = (x[i] - LU[i, i + 1 :] @ x[i + 1 :]) / LU[i, i]
    return x


def cholesky(A):
    L = np.zeros_like(A)
    for i in range(len(A)):
        for j in range(i + 1):
            s = A[i, j] - np.dot(L[i, :j], L[j, :j])
            L[i, j] = np.sqrt(s) if i == j else s / L[j, j]
    return L


def main():
    rng = np.random.default_rng(2)
    out = []
    for n, dtype in [(3, "f8"), (6, "f4"), (5, "c16"), (8, "f8")]:
        A = rng.standard_normal((n, n)).astype(dtype)
        b = np.arange(n)
        out += [lu(A), solve(A, b)]
        S = (A @ A.conj().T + n * np.eye(n)).real
        out.append(cholesky(S))
    try:
        lu(np.zeros((3, 3)))
    except np.linalg.LinAlgError as error:
        out.append(str(error))
    return out
