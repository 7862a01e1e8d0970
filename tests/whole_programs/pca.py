"""Principal components by SVD and by eigenvalues of the covariance."""

import numpy as np


def centred(X):
    X = np.asarray(X, dtype=float)
    return X - X.mean(axis=0)


def by_svd(X, n):
    Xc = centred(X)
    u, s, vt = np.linalg.svd(Xc, full_matrices=False)
    signs = np.sign(vt[np.arange(vt.shape[0]), np.abs(vt).argmax(axis=1)])
    vt *= signs[:, None]
    return Xc @ vt[:n].T, s**2 / (len(X) - 1), vt[:n]


def by_covariance(X, n):
    Xc = centred(X)
    values, vectors = np.linalg.eigh(Xc.T @ Xc / (Xc.shape[0] - 1))
    order = values.argsort()[::-1]
    ratio = values[order] / values.sum()
    return ratio[:n], np.abs(vectors[:, order[:n]])


TOLERANCE = 1e-9


def main():
    rng = np.random.default_rng(8)
    results = []
    for shape, n in [((30, 4), 2), ((12, 6), 3), ((9, 2), 1)]:
        data = rng.standard_normal(shape) @ rng.standard_normal((shape[1], shape[1]))
        results += [by_svd(data, n), by_covariance(data, n), by_svd(data.tolist(), n)]
    return results
