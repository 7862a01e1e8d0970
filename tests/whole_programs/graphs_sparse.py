"""Graphs and sparse matrices: PageRank, CSR products with add.at, components, degrees with bincount."""

import numpy as np


def page_rank(links, n, d=0.85, tol=1e-8):
    M = np.zeros((n, n))
    for a, b in links:
        M[b, a] += 1
    out = M.sum(axis=0)
    M = np.divide(M, out, out=np.full_like(M, 1 / n), where=out > 0)
    r = np.full(n, 1 / n)
    for i in range(100):
        new = d * M @ r + (1 - d) / n
        if np.linalg.norm(new - r, 1) < tol:
            return new, i
        r = new
    return r, 100


def spmv(row, col, data, x, n):
    y = np.zeros(n, dtype=np.result_type(data, x))
    np.add.at(y, row, data * x[col])
    return y


def csr(row, col, data, n):
    order = np.lexsort((col, row))
    pointers = np.zeros(n + 1, int)
    np.cumsum(np.bincount(row, minlength=n), out=pointers[1:])
    return pointers, col[order], data[order]


def csr_product(pointers, col, data, x):
    return np.array([data[a:b] @ x[col[a:b]] for a, b in zip(pointers[:-1], pointers[1:])])


def components(edges, n):
    label = np.arange(n)
    while True:
        low = np.minimum(label[edges[:, 0]], label[edges[:, 1]])
        new = label.copy()
        np.minimum.at(new, edges[:, 0], low)
        np.minimum.at(new, edges[:, 1], low)
        if np.array_equal(new, label):
            return label
        label = new


def main():
    rng = np.random.default_rng(13)
    out = []
    for n in (4, 7, 10):
        edges = rng.integers(0, n, (2 * n, 2))
        out.append(page_rank(edges.tolist(), n))
        data, x = rng.random(2 * n), rng.random(n)
        row, col = edges.T
        out += [spmv(row, col, data, x, n), csr_product(*csr(row, col, data, n), x), components(edges, n)]
        out.append(spmv(row, col, data.astype("f4"), x.astype("f4"), n))
    return out
