"""Dynamic programming: tables that are filled cell by cell, row by row or diagonal by diagonal."""

import numpy as np
from scipy.sparse import csgraph

from .table import kernel


def two_texts(random, n, m):
    return random.integers(0, 4, n), random.integers(0, 4, m)


def one_text(random, n):
    return (random.integers(0, 4, n),)


def folded_by_length(sequence):
    """The same table by interval length."""
    n = len(sequence)
    best = np.zeros((n, n), dtype=np.int64)
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            inside = best[i + 1, j - 1] if length > 1 else 0
            pair = inside + int(length > 1 and sequence[i] + sequence[j] == 3)
            best[i, j] = max(pair, (best[i, i:j] + best[i + 1 : j + 1, j]).max())
    return best


@kernel(one_text, 6, 42, 100, 220, reference=folded_by_length, numba=True)
def nussinov(sequence):
    """The most pairs of bases when a strand folds."""
    n = len(sequence)
    table = np.zeros((n, n), dtype=np.int64)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            table[i, j] = max(table[i, j], table[i, j - 1], table[i + 1, j])
            if i < j - 1:
                match = 1 if sequence[i] + sequence[j] == 3 else 0
                table[i, j] = max(table[i, j], table[i + 1, j - 1] + match)
            else:
                table[i, j] = max(table[i, j], table[i + 1, j - 1])
            for k in range(i + 1, j):
                table[i, j] = max(table[i, j], table[i, k] + table[k + 1, j])
    return table


def aligned_by_rows(a, b):
    """In a row, what comes from the left is a running maximum."""
    gap = 2 * np.arange(len(b) + 1)
    H = np.zeros((len(a) + 1, len(b) + 1), dtype=np.int64)
    for i in range(1, len(a) + 1):
        step = np.where(a[i - 1] == b, 3, -3)
        H[i, 1:] = np.maximum(np.maximum(H[i - 1, :-1] + step, H[i - 1, 1:] - 2), 0)
        H[i] = np.maximum.accumulate(H[i] + gap) - gap
    return H, H.max()


@kernel(two_texts, (5, 6), (65, 75), (200, 220), (650, 700), reference=aligned_by_rows, numba=True)
def smith_waterman(a, b):
    H = np.zeros((len(a) + 1, len(b) + 1), dtype=np.int64)
    best = 0
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            diagonal = H[i - 1, j - 1] + (3 if a[i - 1] == b[j - 1] else -3)
            H[i, j] = max(0, diagonal, H[i - 1, j] - 2, H[i, j - 1] - 2)
            if H[i, j] > best:
                best = H[i, j]
    return H, best


def common_by_rows(a, b):
    L = np.zeros((len(a) + 1, len(b) + 1), dtype=np.int64)
    for i in range(len(a)):
        L[i + 1, 1:] = np.maximum.accumulate(np.maximum(L[i, 1:], L[i, :-1] + (a[i] == b)))
    return L[-1, -1]


@kernel(two_texts, (5, 6), (100, 120), (320, 380), (1000, 1150), reference=common_by_rows, numba=True)
def longest_common_subsequence(a, b):
    L = np.zeros((len(a) + 1, len(b) + 1), dtype=np.int64)
    for i in range(len(a)):
        for j in range(len(b)):
            if a[i] == b[j]:
                L[i + 1, j + 1] = L[i, j] + 1
            else:
                L[i + 1, j + 1] = max(L[i, j + 1], L[i + 1, j])
    return L[len(a), len(b)]


def words(random, n, m):
    return tuple("".join(random.choice(list("acgt"), size)) for size in (n, m))


def edited_by_rows(a, b):
    a, b = np.array(list(a)), np.array(list(b))
    row = place = np.arange(len(b) + 1)
    for i, letter in enumerate(a, 1):
        changed = np.minimum(row[1:] + 1, row[:-1] + (b != letter))
        row = np.minimum.accumulate(np.concatenate([[i], changed]) - place) + place
    return row[-1]


@kernel(words, (5, 6), (130, 150), (400, 440), (1300, 1400), reference=edited_by_rows)
def edit_distance(a, b):
    """Two rows of the table, letters of text."""
    before = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (x != y)))
        before = row
    return before[-1]


def goods(random, n, room):
    return random.integers(1, 1 + room // 4, n), random.integers(1, 100, n), room


def packed_by_sets(weights, values, room):
    """The best worth of each weight that can be reached."""
    best = {0: 0}
    for w, v in zip(weights.tolist(), values.tolist(), strict=True):
        for used, worth in list(best.items()):
            if used + w <= room:
                best[used + w] = max(best.get(used + w, 0), worth + v)
    return max(best.values())


@kernel(goods, (4, 12), (700, 10_000), (1500, 50_000), (3000, 150_000), reference=packed_by_sets, numba=True)
def knapsack(weights, values, room):
    best = np.zeros(room + 1, dtype=np.int64)
    for w, v in zip(weights, values):
        best[w:] = np.maximum(best[w:], best[:-w] + v)
    return best[room]


def packed_by_rows(weights, values, room):
    best = np.zeros(room + 1, dtype=np.int64)
    for w, v in zip(weights, values, strict=True):
        best[w:] = np.maximum(best[w:], best[:-w] + v)
    return best[room]


@kernel(goods, (4, 12), (20, 1000), (60, 3000), (200, 10_000), reference=packed_by_rows, numba=True)
def knapsack_elements(weights, values, room):
    best = np.zeros(room + 1, dtype=np.int64)
    for i in range(len(weights)):
        for r in range(room, weights[i] - 1, -1):
            candidate = best[r - weights[i]] + values[i]
            if candidate > best[r]:
                best[r] = candidate
    return best[room]


def roads(random, n):
    paths = random.integers(1, 100, (n, n)).astype(float)
    paths[random.random((n, n)) < 0.3] = 999.0
    np.fill_diagonal(paths, 0.0)
    return (paths,)


def shortest_by_scipy(paths):
    paths[:] = csgraph.shortest_path(paths, method="D")


@kernel(roads, 7, 60, 160, 380, reference=shortest_by_scipy, numba=True)
def floyd_warshall(paths):
    for k in range(paths.shape[0]):
        for i in range(paths.shape[0]):
            paths[i, :] = np.minimum(paths[i, :], paths[i, k] + paths[k, :])


@kernel(roads, 6, 27, 60, 130, reference=shortest_by_scipy, numba=True)
def floyd_warshall_elements(paths):
    n = len(paths)
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if paths[i, k] + paths[k, j] < paths[i, j]:
                    paths[i, j] = paths[i, k] + paths[k, j]


def lengths(random, n):
    return (random.integers(5, 50, n + 1),)


def cheapest_by_slices(sizes):
    n = len(sizes) - 1
    cost = np.zeros((n, n), dtype=np.int64)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            cost[i, j] = (cost[i, i:j] + cost[i + 1 : j + 1, j] + sizes[i] * sizes[i + 1 : j + 1] * sizes[j + 1]).min()
    return cost[0, -1]


@kernel(lengths, 5, 45, 100, 220, reference=cheapest_by_slices, numba=True)
def matrix_chain(sizes):
    n = len(sizes) - 1
    cost = np.zeros((n, n), dtype=np.int64)
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            best = 2**62
            for k in range(i, j):
                c = cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1]
                if c < best:
                    best = c
            cost[i, j] = best
    return cost[0, n - 1]


def hidden_states(random, states, symbols, steps):
    start, trans, emit = random.random(states), random.random((states, states)), random.random((states, symbols))
    logs = np.log(start / start.sum()), np.log(trans / trans.sum(1)[:, None]), np.log(emit / emit.sum(1)[:, None])
    return *logs, random.integers(0, symbols, steps)


def best_path_in_full(start, trans, emit, observed):
    score, paths = start + emit[:, observed[0]], [[state] for state in range(len(start))]
    for symbol in observed[1:]:
        through = score[:, None] + trans
        paths = [paths[through[:, state].argmax()] + [state] for state in range(len(start))]
        score = through.max(0) + emit[:, symbol]
    return np.array(paths[score.argmax()]), score.max()


@kernel(hidden_states, (3, 4, 5), (20, 8, 500), (60, 20, 3000), (150, 50, 8000), reference=best_path_in_full)
def viterbi(start, trans, emit, observed):
    steps, states = len(observed), len(start)
    score = np.zeros((steps, states))
    back = np.zeros((steps, states), dtype=int)
    score[0] = start + emit[:, observed[0]]
    for t in range(1, steps):
        through = score[t - 1][:, np.newaxis] + trans
        back[t] = np.argmax(through, axis=0)
        score[t] = np.max(through, axis=0) + emit[:, observed[t]]
    path = np.zeros(steps, dtype=int)
    path[-1] = np.argmax(score[-1])
    for t in range(steps - 2, -1, -1):
        path[t] = back[t + 1, path[t + 1]]
    return path, score[-1].max()


def coins(random, total):
    return np.array([1, 2, 5, 10, 20, 50, 100]), total


def ways_by_sums(kinds, total):
    ways = np.ones(total + 1, dtype=np.int64)
    for coin in kinds[1:]:
        for first in range(min(coin, total + 1)):
            ways[first::coin] = np.cumsum(ways[first::coin])
    return ways[total] % 1_000_000_007


@kernel(coins, 20, 5000, 50_000, 500_000, reference=ways_by_sums, numba=True)
def coin_change(kinds, total):
    """How many ways there are to pay, modulo a prime."""
    ways = np.zeros(total + 1, dtype=np.int64)
    ways[0] = 1
    for coin in kinds:
        for amount in range(coin, total + 1):
            ways[amount] = (ways[amount] + ways[amount - coin]) % 1_000_000_007
    return ways[total]


def grid_of_costs(random, n, m):
    return (random.integers(1, 10, (n, m)).astype(np.int32),)


def cheapest_row_by_row(costs):
    total = costs[0].cumsum()
    for row in costs[1:]:
        before = np.concatenate([[0], row.cumsum()[:-1]])
        total = np.minimum.accumulate(total - before) + row.cumsum()
    return total[-1]


@kernel(grid_of_costs, (4, 5), (100, 110), (300, 330), (1000, 1100), reference=cheapest_row_by_row, numba=True)
def cheapest_path(costs):
    total = costs.copy()
    rows, columns = total.shape
    for i in range(rows):
        for j in range(columns):
            if i > 0 and j > 0:
                total[i, j] += min(total[i - 1, j], total[i, j - 1])
            elif i > 0:
                total[i, j] += total[i - 1, j]
            elif j > 0:
                total[i, j] += total[i, j - 1]
    return total[rows - 1, columns - 1]
