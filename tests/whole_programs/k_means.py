"""Clusters: distances by broadcasting, argmin, means by masks, until nothing changes."""

import numpy as np


def distances(points, centres):
    return ((points[:, np.newaxis] - centres) ** 2).sum(axis=2)


def k_means(points, k, most=50):
    centres = points[:k].copy()
    labels = None
    for turn in range(most):
        nearest = np.argmin(distances(points, centres), axis=1)
        if labels is not None and (nearest == labels).all():
            break
        labels = nearest
        for i in range(k):
            mine = points[labels == i]
            if len(mine):
                centres[i] = mine.mean(axis=0)
    inertia = distances(points, centres)[np.arange(len(points)), labels].sum()
    return centres, labels, turn, float(inertia)


def main():
    rng = np.random.default_rng(3)
    return [
        k_means(np.concatenate([rng.normal(c, 0.3, (n, d)) for c in range(k)]).astype(t), k)
        for n, d, k, t in [(20, 2, 3, "f8"), (10, 3, 4, "f8"), (30, 2, 2, "f4")]
    ]
