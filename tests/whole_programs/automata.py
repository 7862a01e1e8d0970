"""Automata: rules of Wolfram, Langton's ant, a forest fire, sand."""

import numpy as np


def rule(number, width, steps):
    table = np.array([(number >> i) & 1 for i in range(8)], dtype=np.uint8)
    row = np.zeros(width, np.uint8)
    row[width // 2] = 1
    rows = [row]
    for _ in range(steps):
        index = 4 * np.roll(row, 1) + 2 * row + np.roll(row, -1)
        row = table[index]
        rows.append(row)
    return np.vstack(rows)


def ant(n, steps):
    grid = np.zeros((n, n), bool)
    i = j = n // 2
    di, dj = -1, 0
    for _ in range(steps):
        if grid[i, j]:
            di, dj = -dj, di
        else:
            di, dj = dj, -di
        grid[i, j] = not grid[i, j]
        i, j = (i + di) % n, (j + dj) % n
    return grid, (i, j)


def fire(forest, steps):
    counts = []
    for _ in range(steps):
        burning = forest == 2
        near = np.zeros_like(burning)
        near[1:] |= burning[:-1]
        near[:-1] |= burning[1:]
        near[:, 1:] |= burning[:, :-1]
        near[:, :-1] |= burning[:, 1:]
        forest = np.where(burning, 0, np.where(near & (forest == 1), 2, forest))
        counts.append((forest == 2).sum())
        if not counts[-1]:
            break
    return forest, counts


def topple(sand):
    turns = 0
    while (sand >= 4).any():
        high = sand >= 4
        sand[high] -= 4
        sand[1:] += high[:-1]
        sand[:-1] += high[1:]
        sand[:, 1:] += high[:, :-1]
        sand[:, :-1] += high[:, 1:]
        turns += 1
    return turns


def main():
    out = [rule(30, 31, 10), rule(110, 20, 12), rule(90, 31, 15), ant(9, 60)]
    rng = np.random.default_rng(12)
    for n in (6, 11):
        forest = (rng.random((n, n)) < 0.7).astype(int)
        forest[0, 0] = 2
        out.append(fire(forest, 30))
        sand = rng.integers(0, 7, (n, n + 1))
        out += [topple(sand), sand]
    return out
