"""Products of matrices and vectors: loops over rows, over triangles, over elements, and of sparse matrices."""

import numpy as np

from .table import kernel


def two_factors(random, rows, columns, inner):
    C, A, B = random.random((rows, columns)), random.random((rows, inner)), random.random((inner, columns))
    return 1.5, 1.2, C, A, B


def product(alpha, beta, C, A, B):
    C[:] = beta * C + alpha * A @ B


@kernel(two_factors, (5, 6, 7), (50, 70, 60), (160, 200, 200), (500, 600, 550), reference=product, numba=True)
def gemm(alpha, beta, C, A, B):
    for i in range(C.shape[0]):
        C[i] *= beta
        for k in range(A.shape[1]):
            C[i] += alpha * A[i, k] * B[k]


@kernel(two_factors, (3, 4, 5), (26, 28, 30), (54, 60, 66), (120, 130, 140), reference=product, numba=True)
def gemm_elements(alpha, beta, C, A, B):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            total = 0.0
            for k in range(A.shape[1]):
                total += A[i, k] * B[k, j]
            C[i, j] = beta * C[i, j] + alpha * total


def four_matrices(random, n):
    return 1.5, 1.2, *(random.random((n, n)) for _ in range(4))


def two_products_at_once(alpha, beta, A, B, C, D):
    D[:] = np.linalg.multi_dot([alpha * A, B, C]) + beta * D


@kernel(four_matrices, 8, 450, 1000, 2100, reference=two_products_at_once, numba=True)
def two_products(alpha, beta, A, B, C, D):
    between = alpha * A @ B
    D *= beta
    D += between @ C


@kernel(four_matrices, 6, 36, 110, 340, reference=lambda alpha, beta, A, B, C, D: np.linalg.multi_dot([A, B, C, D]))
def three_products(alpha, beta, A, B, C, D):
    E, F, G = np.zeros_like(A), np.zeros_like(A), np.zeros_like(A)
    for i in range(A.shape[0]):
        for k in range(A.shape[1]):
            E[i] += A[i, k] * B[k]
    for i in range(C.shape[0]):
        for k in range(C.shape[1]):
            F[i] += C[i, k] * D[k]
    for i in range(E.shape[0]):
        for k in range(E.shape[1]):
            G[i] += E[i, k] * F[k]
    return G


def matrix_and_vectors(random, rows, columns):
    return random.random((rows, columns)), random.random(columns), random.random(rows)


def transposed_product(A, x, y):
    return A.T @ (A @ x)


@kernel(matrix_and_vectors, (7, 5), (2500, 500), (7000, 2000), (9000, 5000), reference=transposed_product, numba=True)
def atax(A, x, y):
    result = np.zeros(A.shape[1])
    for i in range(A.shape[0]):
        result += A[i] * np.dot(A[i], x)
    return result


@kernel(matrix_and_vectors, (7, 5), (1000, 700), (4500, 3500), (9000, 6000), reference=lambda A, p, r: (r @ A, A @ p))
def bicg(A, p, r):
    s = np.zeros(A.shape[1])
    q = np.zeros(A.shape[0])
    for i in range(A.shape[0]):
        s += r[i] * A[i]
        q[i] = np.sum(A[i] * p)
    return s, q


def two_pairs(random, n):
    return *(random.random(n) for _ in range(4)), random.random((n, n))


def both_products(x1, x2, y1, y2, A):
    x1 += A @ y1
    x2 += A.T @ y2


@kernel(two_pairs, 6, 105, 330, 1000, reference=both_products, numba=True)
def mvt(x1, x2, y1, y2, A):
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            x1[i] += A[i, j] * y1[j]
            x2[i] += A[j, i] * y2[j]


def rank_two_update(random, n):
    vectors = [random.random(n) / n for _ in range(8)]
    return 1.5, 1.2, random.random((n, n)), *vectors


def update_rows(alpha, beta, A, u1, v1, u2, v2, w, x, y, z):
    for i in range(A.shape[0]):
        A[i] += u1[i] * v1 + u2[i] * v2
    x += beta * (A.T @ y) + z
    w += alpha * (A @ x)


@kernel(rank_two_update, 8, 1100, 3000, 6000, reference=update_rows, numba=True)
def gemver(alpha, beta, A, u1, v1, u2, v2, w, x, y, z):
    A += np.outer(u1, v1) + np.outer(u2, v2)
    x += beta * y @ A + z
    w += alpha * A @ x


def two_matrices_and_vector(random, n):
    return 1.5, 1.2, random.random((n, n)), random.random((n, n)), random.random(n)


@kernel(
    *(two_matrices_and_vector, 6, 110, 350, 1100),
    reference=lambda alpha, beta, A, B, x: alpha * (A @ x) + beta * (B @ x),
    numba=True,
)
def gesummv(alpha, beta, A, B, x):
    n = x.size
    y = np.zeros(n)
    for i in range(n):
        a = 0.0
        b = 0.0
        for j in range(n):
            a += A[i, j] * x[j]
            b += B[i, j] * x[j]
        y[i] = alpha * a + beta * b
    return y


def volume_and_matrix(random, r, q, p):
    return random.random((r, q, p)), random.random((p, p))


def contracted(A, C4):
    A[:] = np.einsum("rqs,sp->rqp", A, C4)


@kernel(volume_and_matrix, (3, 4, 5), (60, 60, 50), (140, 150, 80), (300, 300, 200), reference=contracted, numba=True)
def doitgen(A, C4):
    for r in range(A.shape[0]):
        for q in range(A.shape[1]):
            A[r, q, :] = A[r, q, :] @ C4


def square_and_wide(random, m, n):
    return 1.5, 1.2, random.random((m, n)), random.random((m, m)), random.random((m, n))


def mirrored_product(alpha, beta, C, A, B):
    C[:] = beta * C + alpha * (np.tril(A) + np.tril(A, -1).T) @ B


@kernel(square_and_wide, (4, 5), (38, 50), (120, 150), (330, 450), reference=mirrored_product, numba=True)
def symm(alpha, beta, C, A, B):
    """Only the lower triangle of the symmetric A is looked at."""
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            C[:i, j] += alpha * B[i, j] * A[i, :i]
            C[i, j] = beta * C[i, j] + alpha * B[i, j] * A[i, i] + alpha * (B[:i, j] @ A[i, :i])


def square_and_tall(random, n, m):
    return 1.5, 1.2, random.random((n, n)), random.random((n, m)), random.random((n, m))


def into_lower_triangle(C, full):
    lower = np.tril_indices_from(C)
    C[lower] = full[lower]


def rank_k(alpha, beta, C, A, B):
    into_lower_triangle(C, beta * C + alpha * A @ A.T)


def rank_2k(alpha, beta, C, A, B):
    into_lower_triangle(C, beta * C + alpha * (A @ B.T + B @ A.T))


@kernel(square_and_tall, (5, 4), (70, 40), (200, 130), (500, 500), reference=rank_k, numba=True)
def syrk(alpha, beta, C, A, B):
    for i in range(A.shape[0]):
        C[i, : i + 1] *= beta
        for k in range(A.shape[1]):
            C[i, : i + 1] += alpha * A[i, k] * A[: i + 1, k]


@kernel(square_and_tall, (5, 4), (50, 30), (150, 100), (400, 350), reference=rank_2k, numba=True)
def syr2k(alpha, beta, C, A, B):
    for i in range(A.shape[0]):
        C[i, : i + 1] *= beta
        for k in range(A.shape[1]):
            C[i, : i + 1] += A[: i + 1, k] * alpha * B[i, k] + B[: i + 1, k] * alpha * A[i, k]


def triangle_times(alpha, beta, C, A, B):
    B[:] = alpha * (np.tril(A, -1).T + np.eye(len(A))) @ B


@kernel(square_and_wide, (5, 6), (60, 60), (200, 180), (550, 600), reference=triangle_times, numba=True)
def trmm(alpha, beta, C, A, B):
    for i in range(B.shape[0]):
        for j in range(B.shape[1]):
            B[i, j] += np.dot(A[i + 1 :, i], B[i + 1 :, j])
    B *= alpha


def compressed_rows(random, rows, in_a_row):
    lengths = random.integers(0, 2 * in_a_row, rows)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = random.integers(0, rows, indptr[-1])
    return indptr, indices, random.random(indptr[-1]), random.random(rows)


def added_by_row(indptr, indices, data, x):
    rows = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    return np.bincount(rows, weights=data * x[indices], minlength=indptr.size - 1)


@kernel(compressed_rows, (8, 3), (2500, 20), (30_000, 20), (300_000, 20), reference=added_by_row, numba=True)
def sparse_rows(indptr, indices, data, x):
    y = np.empty(indptr.size - 1)
    for i in range(y.size):
        start, stop = indptr[i], indptr[i + 1]
        y[i] = data[start:stop] @ x[indices[start:stop]]
    return y


@kernel(compressed_rows, (8, 3), (1000, 20), (10_000, 20), (100_000, 20), reference=added_by_row, numba=True)
def sparse_elements(indptr, indices, data, x):
    y = np.zeros(indptr.size - 1)
    for i in range(indptr.size - 1):
        for k in range(indptr[i], indptr[i + 1]):
            y[i] += data[k] * x[indices[k]]
    return y


def positive_system(random, n):
    A = random.random((n, n))
    return A @ A.T + n * np.eye(n), random.random(n)


def spread_system(random, n):
    """With eigenvalues from about 1 to 100, and one of about 115."""
    A = 0.1 * random.random((n, n)) / n
    values = np.linspace(1.0, 100.0, n)
    values[-1] = 115.0
    return A + A.T + np.diag(values), random.random(n)


@kernel(spread_system, 8, 500, 1300, 3000, reference=np.linalg.solve, numba=True, rtol=1e-7)
def conjugate_gradient(A, b):
    x = np.zeros_like(b)
    r = b - A @ x
    p = r.copy()
    rr = r @ r
    steps = 0
    while rr > 1e-22 * b.size and steps < 10 * b.size:
        Ap = A @ p
        alpha = rr / (p @ Ap)
        x += alpha * p
        r -= alpha * Ap
        rr_new = r @ r
        p = r + (rr_new / rr) * p
        rr = rr_new
        steps += 1
    return x


@kernel(spread_system, 8, 550, 1700, 3500, reference=lambda A, b: np.linalg.eigvalsh(A)[-1], numba=True, rtol=1e-7)
def power_iteration(A, b):
    v = b / np.sqrt(np.sum(b * b))
    value = 0.0
    for _ in range(500):
        w = A @ v
        before, value = value, v @ w
        v = w / np.sqrt(np.sum(w * w))
        if abs(value - before) <= 1e-14 * abs(value):
            break
    return value
