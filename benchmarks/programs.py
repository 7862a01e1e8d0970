"""The programs that are timed: each in plain NumPy, and rewritten with loops for numba.njit(parallel=True)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import erf

try:
    import numba
except ImportError:
    numba = None


def black_scholes(S, K, T, r, sigma):
    spread = sigma * np.sqrt(T)
    d1 = (np.log(S / K) + (r + 0.5 * sigma * sigma) * T) / spread
    d2 = d1 - spread
    discounted = K * np.exp(-r * T)
    call = S * (0.5 * (1.0 + erf(d1 / np.sqrt(2.0)))) - discounted * (0.5 * (1.0 + erf(d2 / np.sqrt(2.0))))
    return call, call - S + discounted


def black_scholes_loops(S, K, T, r, sigma):
    call, put = np.empty_like(S), np.empty_like(S)
    for i in numba.prange(S.size):
        spread = sigma[i] * math.sqrt(T[i])
        d1 = (math.log(S[i] / K[i]) + (r[i] + 0.5 * sigma[i] * sigma[i]) * T[i]) / spread
        d2 = d1 - spread
        discounted = K[i] * math.exp(-r[i] * T[i])
        root = math.sqrt(2.0)
        value = S[i] * (0.5 * (1.0 + math.erf(d1 / root))) - discounted * (0.5 * (1.0 + math.erf(d2 / root)))
        call[i] = value
        put[i] = value - S[i] + discounted
    return call, put


def simulation(u, v):
    """One step of Gray and Scott; new arrays, so that every call has the same work."""
    reaction = u[1:-1, 1:-1] * v[1:-1, 1:-1] ** 2
    du = 0.16 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1])
    dv = 0.08 * (v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:] - 4.0 * v[1:-1, 1:-1])
    new_u, new_v = u.copy(), v.copy()
    new_u[1:-1, 1:-1] += du - reaction + 0.035 * (1.0 - u[1:-1, 1:-1])
    new_v[1:-1, 1:-1] += dv + reaction - 0.1 * v[1:-1, 1:-1]
    return new_u, new_v


def simulation_loops(u, v):
    rows, columns = u.shape
    new_u, new_v = np.empty_like(u), np.empty_like(v)
    for i in numba.prange(rows):
        for j in range(columns):
            a, b = u[i, j], v[i, j]
            if 0 < i < rows - 1 and 0 < j < columns - 1:
                reaction = a * b * b
                du = 0.16 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * a)
                dv = 0.08 * (v[i - 1, j] + v[i + 1, j] + v[i, j - 1] + v[i, j + 1] - 4.0 * b)
                new_u[i, j] = a + (du - reaction + 0.035 * (1.0 - a))
                new_v[i, j] = b + (dv + reaction - 0.1 * b)
            else:
                new_u[i, j], new_v[i, j] = a, b
    return new_u, new_v


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def softmax_loops(x):
    rows, columns = x.shape
    result = np.empty_like(x)
    for i in numba.prange(rows):
        top = x[i, 0]
        for j in range(1, columns):
            top = max(top, x[i, j])
        total = 0.0
        for j in range(columns):
            result[i, j] = math.exp(x[i, j] - top)
            total += result[i, j]
        for j in range(columns):
            result[i, j] /= total
    return result


def chain(x, y):
    """Twenty element-wise operations."""
    a = x * y + 1.5
    b = a - x * 0.25
    c = np.abs(b) + 2.0
    d = np.sqrt(c) * y
    e = d / c + a
    f = np.maximum(e, b) - 0.5
    g = f * f + d
    h = np.minimum(g, 10.0) * x
    return h + f * 0.125 - c * y


def chain_loops(x, y):
    result = np.empty_like(x)
    for i in numba.prange(x.size):
        a = x[i] * y[i] + 1.5
        b = a - x[i] * 0.25
        c = abs(b) + 2.0
        d = math.sqrt(c) * y[i]
        e = d / c + a
        f = max(e, b) - 0.5
        g = f * f + d
        h = min(g, 10.0) * x[i]
        result[i] = h + f * 0.125 - c * y[i]
    return result


@dataclass(frozen=True)
class Program:
    """A program to time; `arguments(size)` makes inputs with about `size` elements in all their first array."""

    name: str
    plain: Callable[..., Any]
    loops: Callable[..., Any]
    arguments: Callable[[int], list[np.ndarray]]


def _random() -> np.random.Generator:
    return np.random.default_rng(1)


def _options(size: int) -> list[np.ndarray]:
    ranges = ((80.0, 120.0), (70.0, 130.0), (0.1, 2.0), (0.0, 0.05), (0.1, 0.6))
    return [_random().uniform(low, high, size) for low, high in ranges]


def _grids(size: int) -> list[np.ndarray]:
    side = math.isqrt(size)
    return [_random().random((side, side)), _random().random((side, side))]


PROGRAMS = (
    Program("black_scholes", black_scholes, black_scholes_loops, _options),
    Program("simulation", simulation, simulation_loops, _grids),
    Program("softmax", softmax, softmax_loops, lambda size: [_random().normal(size=(max(1, size // 100), 100))]),
    Program("chain", chain, chain_loops, lambda size: [_random().normal(size=size), _random().normal(size=size)]),
)
