"""Sorting, searching, and going through a sequence once: sums, runs, random numbers."""

import itertools

import numpy as np

from .table import kernel


def shuffled(random, n):
    return (random.permutation(n) / n,)


def sorted_in_place(x):
    x.sort()


@kernel(shuffled, 7, 200, 600, 1800, reference=sorted_in_place, numba=True)
def bubble_sort(x):
    n = len(x)
    for i in range(n):
        swapped = False
        for j in range(n - 1 - i):
            if x[j] > x[j + 1]:
                x[j], x[j + 1] = x[j + 1], x[j]
                swapped = True
        if not swapped:
            break


@kernel(shuffled, 7, 350, 1100, 3500, reference=sorted_in_place, numba=True)
def insertion_sort(x):
    for i in range(1, len(x)):
        key = x[i]
        j = i - 1
        while j >= 0 and x[j] > key:
            x[j + 1] = x[j]
            j -= 1
        x[j + 1] = key


@kernel(shuffled, 8, 1200, 9000, 75_000, reference=sorted_in_place, numba=True)
def heap_sort(x):
    n = len(x)
    for start in range(2 * (n // 2) - 1, -1, -1):
        end = n
        root = start
        while 2 * root + 1 < end:
            child = 2 * root + 1
            if child + 1 < end and x[child] < x[child + 1]:
                child += 1
            if x[root] >= x[child]:
                break
            x[root], x[child] = x[child], x[root]
            root = child
    for end in range(n - 1, 0, -1):
        x[0], x[end] = x[end], x[0]
        root = 0
        while 2 * root + 1 < end:
            child = 2 * root + 1
            if child + 1 < end and x[child] < x[child + 1]:
                child += 1
            if x[root] >= x[child]:
                break
            x[root], x[child] = x[child], x[root]
            root = child


def haystack(random, n, m):
    return np.sort(random.random(n)), random.random(m)


@kernel(haystack, (9, 5), (20_000, 2000), (30_000, 20_000), (50_000, 180_000), reference=np.searchsorted, numba=True)
def binary_search(sorted_values, wanted):
    found = np.empty(len(wanted), dtype=np.int64)
    for i in range(len(wanted)):
        low, high = 0, len(sorted_values)
        while low < high:
            middle = (low + high) // 2
            if sorted_values[middle] < wanted[i]:
                low = middle + 1
            else:
                high = middle
        found[i] = low
    return found


def numbers(random, n):
    return (random.random(n) - 0.4,)


@kernel(numbers, 9, 45_000, 450_000, 4_500_000, reference=np.cumsum, numba=True)
def prefix_sum(x):
    result = np.empty_like(x)
    total = 0.0
    for i in range(x.size):
        total += x[i]
        result[i] = total
    return result


@kernel(numbers, 9, 500_000, 4_000_000, 15_000_000, reference=np.cumsum, numba=True)
def prefix_sum_doubling(x):
    """As a parallel machine would have it: log2(n) sweeps."""
    result = x.copy()
    step = 1
    while step < len(result):
        result[step:] = result[step:] + result[:-step]
        step *= 2
    return result


def best_run(x):
    sums = np.concatenate([[0.0], np.cumsum(x)])
    return (sums - np.minimum.accumulate(sums))[1:].max()


@kernel(numbers, 9, 30_000, 300_000, 3_000_000, reference=best_run, numba=True)
def largest_run_sum(x):
    best = here = x[0]
    for value in x[1:]:
        here = max(value, here + value)
        best = max(best, here)
    return best


def few_values(random, n):
    return (np.repeat(random.integers(0, 3, n), random.integers(1, 5, n)),)


def runs_by_groups(x):
    groups = [(value, len(list(group))) for value, group in itertools.groupby(x)]
    return np.array([value for value, _ in groups]), np.array([length for _, length in groups])


@kernel(few_values, 6, 20_000, 200_000, 2_000_000, reference=runs_by_groups)
def run_lengths(x):
    values, lengths = [], []
    for value in x:
        if values and value == values[-1]:
            lengths[-1] += 1
        else:
            values.append(value)
            lengths.append(1)
    return np.array(values), np.array(lengths)


def seeded(random, n):
    return 12345, n


def congruential_in_python(seed, n):
    states = itertools.accumulate(range(n), lambda state, _: (1103515245 * state + 12345) % 2**31, initial=seed)
    return np.array(list(states)[1:]) / 2**31


@kernel(seeded, 9, 35_000, 350_000, 3_500_000, reference=congruential_in_python, numba=True)
def congruential(seed, n):
    x = np.empty(n)
    state = seed
    for i in range(n):
        state = (1103515245 * state + 12345) % 2147483648
        x[i] = state / 2147483648.0
    return x
