"""Viterbi, edit distance, Floyd and Warshall, knapsack, longest increasing run: tables filled step by step."""

import numpy as np


def viterbi(obs, start, trans, emit):
    T, N = len(obs), len(start)
    delta = np.zeros((T, N))
    back = np.zeros((T, N), dtype=np.intp)
    delta[0] = np.log(start) + np.log(emit[:, obs[0]])
    for t in range(1, T):
        scores = delta[t - 1][:, None] + np.log(trans)
        back[t] = scores.argmax(0)
        delta[t] = scores.max(0) + np.log(emit[:, obs[t]])
    path = [int(delta[-1].argmax())]
    for t in range(T - 1, 0, -1):
        path.append(int(back[t, path[-1]]))
    return path[::-1], delta[-1].max()


def levenshtein(a, b):
    d = np.zeros((len(a) + 1, len(b) + 1), int)
    d[:, 0] = np.arange(len(a) + 1)
    d[0, :] = np.arange(len(b) + 1)
    for i, x in enumerate(a, 1):
        for j, y in enumerate(b, 1):
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + (x != y))
    return d[-1, -1], d


def shortest(w):
    d = w.copy()
    np.fill_diagonal(d, 0)
    for k in range(len(d)):
        d = np.minimum(d, d[:, k, None] + d[None, k])
    return d


def knapsack(weights, values, room):
    best = np.zeros(room + 1, dtype=np.int64)
    for w, v in zip(weights, values):
        best[w:] = np.maximum(best[w:], best[:-w] + v)
    return best


def main():
    rng = np.random.default_rng(6)
    out = []
    for n in (2, 3, 4):
        trans = rng.random((n, n)) + 0.1
        trans /= trans.sum(1, keepdims=True)
        emit = rng.random((n, 5)) + 0.1
        emit /= emit.sum(axis=1, keepdims=True)
        out.append(viterbi(rng.integers(0, 5, 8 * n), np.ones(n) / n, trans, emit))
        w = np.where(rng.random((n * 2, n * 2)) < 0.5, rng.random((n * 2, n * 2)), np.inf)
        out += [shortest(w), knapsack([2, 3, n], [3, 4, 5], 12)]
    for a, b in [("kitten", "sitting"), ("", "abc"), ("flaw", "lawn"), ([1, 2, 3], [2, 3])]:
        out.append(levenshtein(a, b))
    return out
