"""The game of life, with rolled boards and with slices, on boards of integers and of bools."""

import numpy as np


def step(board):
    neighbours = sum(np.roll(np.roll(board, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
    return (neighbours == 3) | (board & (neighbours == 2))


def step_in_place(Z):
    N = (
        Z[0:-2, 0:-2] + Z[0:-2, 1:-1] + Z[0:-2, 2:]
        + Z[1:-1, 0:-2] + Z[1:-1, 2:]
        + Z[2:, 0:-2] + Z[2:, 1:-1] + Z[2:, 2:]
    )
    birth = (N == 3) & (Z[1:-1, 1:-1] == 0)
    survive = ((N == 2) | (N == 3)) & (Z[1:-1, 1:-1] == 1)
    Z[...] = 0
    Z[1:-1, 1:-1][birth | survive] = 1
    return Z


def main():
    rng = np.random.default_rng(1)
    out = []
    for shape in [(8, 8), (16, 5), (3, 3)]:
        for dtype in (int, np.uint8, np.int8):
            board = (rng.random(shape) < 0.4).astype(dtype)
            for _ in range(8):
                board = step(board)
            other = (rng.random(shape) < 0.4).astype(dtype)
            for _ in range(8):
                other = step_in_place(other)
            out += [board, other, int(other.sum())]
    return out
