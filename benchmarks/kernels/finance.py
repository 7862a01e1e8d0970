"""Prices of options and loans: trees, paths, grids, and one contract at a time."""

import math

import numpy as np
from scipy import signal, special

from .table import kernel


def american_put(random, steps):
    return 100.0 + random.random(), 105.0, 1.0, 0.03, 0.2, steps


def tree_as_recursion(spot, strike, years, rate, volatility, steps):
    """The tree from its root, each of its nodes once."""
    dt = years / steps
    up = math.exp(volatility * math.sqrt(dt))
    p = (math.exp(rate * dt) - 1.0 / up) / (up - 1.0 / up)
    known = {}

    def value(step, ups):
        if (step, ups) not in known:
            exercise = max(strike - spot * up ** (2 * ups - step), 0.0)
            if step < steps:
                later = p * value(step + 1, ups + 1) + (1.0 - p) * value(step + 1, ups)
                exercise = max(exercise, math.exp(-rate * dt) * later)
            known[step, ups] = exercise
        return known[step, ups]

    return value(0, 0)


@kernel(american_put, 7, 900, 4000, 20_000, reference=tree_as_recursion, elementary=True, numba=True)
def binomial_tree(spot, strike, years, rate, volatility, steps):
    """The arrays get shorter step by step."""
    dt = years / steps
    up = np.exp(volatility * np.sqrt(dt))
    down = 1.0 / up
    p = (np.exp(rate * dt) - down) / (up - down)
    discount = np.exp(-rate * dt)
    prices = spot * up ** np.arange(-steps, steps + 1, 2).astype(np.float64)
    values = np.maximum(strike - prices, 0.0)
    for _ in range(steps):
        values = discount * (p * values[1:] + (1.0 - p) * values[:-1])
        prices = prices[1:] * down
        values = np.maximum(values, strike - prices)
    return values[0]


@kernel(american_put, 6, 130, 420, 1300, reference=tree_as_recursion, numba=True)
def binomial_tree_elements(spot, strike, years, rate, volatility, steps):
    dt = years / steps
    up = math.exp(volatility * math.sqrt(dt))
    down = 1.0 / up
    p = (math.exp(rate * dt) - down) / (up - down)
    discount = math.exp(-rate * dt)
    values = np.zeros(steps + 1)
    for i in range(steps + 1):
        values[i] = max(strike - spot * up ** (2 * i - steps), 0.0)
    for step in range(steps - 1, -1, -1):
        for i in range(step + 1):
            hold = discount * (p * values[i + 1] + (1.0 - p) * values[i])
            exercise = strike - spot * up ** (2 * i - step)
            values[i] = max(hold, exercise)
    return values[0]


def contracts(random, n):
    ranges = ((80.0, 120.0), (70.0, 130.0), (0.1, 2.0), (0.0, 0.05), (0.1, 0.6))
    return tuple(random.uniform(low, high, n) for low, high in ranges)


def priced_at_once(S, K, T, r, sigma):
    d1 = (np.log(S / K) + (r + sigma**2 / 2.0) * T) / (sigma * np.sqrt(T))
    return S * special.ndtr(d1) - K * np.exp(-r * T) * special.ndtr(d1 - sigma * np.sqrt(T))


@kernel(contracts, 4, 4000, 40_000, 400_000, reference=priced_at_once, numba=True)
def black_scholes_elements(S, K, T, r, sigma):
    call = np.zeros(len(S))
    for i in range(len(S)):
        spread = sigma[i] * math.sqrt(T[i])
        d1 = (math.log(S[i] / K[i]) + (r[i] + 0.5 * sigma[i] ** 2) * T[i]) / spread
        d2 = d1 - spread
        n1 = 0.5 * (1.0 + math.erf(d1 / math.sqrt(2.0)))
        n2 = 0.5 * (1.0 + math.erf(d2 / math.sqrt(2.0)))
        call[i] = S[i] * n1 - K[i] * math.exp(-r[i] * T[i]) * n2
    return call


def draws_of_paths(random, paths, steps):
    return 100.0, 100.0, 0.03, 0.25, 1.0, random.normal(size=(steps, paths))


def paths_by_cumsum(spot, strike, rate, volatility, years, draws):
    dt = years / len(draws)
    logs = np.cumsum((rate - 0.5 * volatility**2) * dt + volatility * np.sqrt(dt) * draws, axis=0)
    payoff = (spot * np.exp(logs)).mean(0) - strike
    return np.exp(-rate * years) * payoff.clip(0.0).mean()


@kernel(
    *(draws_of_paths, (5, 4), (15_000, 120), (50_000, 350), (100_000, 400)),
    reference=paths_by_cumsum,
    elementary=True,
    numba=True,
)
def asian_option(spot, strike, rate, volatility, years, draws):
    steps, paths = draws.shape
    dt = years / steps
    price = np.full(paths, spot)
    total = np.zeros(paths)
    for t in range(steps):
        price = price * np.exp((rate - 0.5 * volatility**2) * dt + volatility * np.sqrt(dt) * draws[t])
        total += price
    payoff = np.maximum(total / steps - strike, 0.0)
    return np.exp(-rate * years) * np.mean(payoff)


@kernel(draws_of_paths, (5, 4), (400, 80), (2500, 150), (12_000, 250), numba=True)
def barrier_option_elements(spot, strike, rate, volatility, years, draws):
    """A path ends at the barrier."""
    steps, paths = draws.shape
    dt = years / steps
    drift, scale = rate * dt, volatility * math.sqrt(dt)
    total = 0.0
    knocked_out = 0
    for i in range(paths):
        price = spot
        alive = True
        for t in range(steps):
            price *= 1.0 + drift + scale * draws[t, i]
            if price > 130.0:
                alive = False
                knocked_out += 1
                break
        if alive and price > strike:
            total += price - strike
    return total / paths, knocked_out


def grid_of_prices(random, steps, n):
    return steps, 0.02, 0.3, 100.0 + random.random(), 1.0, np.linspace(0.0, 300.0, n)


def by_matrix_powers(steps, rate, volatility, strike, years, S):
    dt, i = years / steps, np.arange(len(S))
    a, b = 0.5 * dt * (volatility**2 * i**2 - rate * i), 1.0 - dt * (volatility**2 * i**2 + rate)
    c = 0.5 * dt * (volatility**2 * i**2 + rate * i)
    M = np.diag(b) + np.diag(a[1:], -1) + np.diag(c[:-1], 1)
    M[0], M[-1] = 0.0, 0.0
    M[0, 0] = M[-1, -1] = 1.0 - rate * dt
    return np.linalg.matrix_power(M, steps) @ np.maximum(strike - S, 0.0)


@kernel(grid_of_prices, (20, 9), (900, 90), (4000, 200), (40_000, 500), reference=by_matrix_powers, numba=True)
def explicit_option_grid(steps, rate, volatility, strike, years, S):
    """A put by explicit differences of the Black-Scholes equation, back in time."""
    dt = years / steps
    i = np.arange(len(S))
    V = np.maximum(strike - S, 0.0)
    for _ in range(steps):
        gamma = V[2:] - 2.0 * V[1:-1] + V[:-2]
        delta = 0.5 * (V[2:] - V[:-2])
        inner = 0.5 * volatility**2 * i[1:-1] ** 2 * gamma + rate * i[1:-1] * delta - rate * V[1:-1]
        V[1:-1] += dt * inner
        V[0] *= 1.0 - rate * dt
        V[-1] *= 1.0 - rate * dt
    return V


def loans(random, n):
    principal, rate = 1e5 * (1.0 + random.random(n)), 0.02 + 0.03 * random.random(n)
    return principal, rate, principal * (rate / 12.0 + 0.01 * random.random(n))


def paid_together(principal, rate, payment):
    left, interest, months = principal.copy(), np.zeros_like(principal), np.zeros(len(principal), dtype=np.int64)
    while (open_ones := (left > 0.0) & (months < 600)).any():
        due = np.where(open_ones, left * rate / 12.0, 0.0)
        interest += due
        left += np.where(open_ones, due - payment, 0.0)
        months += open_ones
    return months, interest


@kernel(loans, 4, 50, 500, 5000, reference=paid_together, numba=True)
def loan_schedules(principal, rate, payment):
    """Month by month, until nothing is left or fifty years have passed."""
    months = np.zeros(len(principal), dtype=np.int64)
    total = np.zeros(len(principal))
    for i in range(len(principal)):
        left = principal[i]
        while left > 0.0 and months[i] < 600:
            interest = left * rate[i] / 12.0
            total[i] += interest
            left -= payment[i] - interest
            months[i] += 1
    return months, total


def prices_of_assets(random, days, assets):
    return np.cumprod(1.0 + 0.01 * random.normal(size=(days, assets)), axis=0), 5, 20


def crossings_by_filters(prices, short, long):
    cash = np.ones(prices.shape[1])
    fast, slow = (signal.lfilter(np.ones(k) / k, 1.0, prices, axis=0) for k in (short, long))
    for day in range(long, len(prices)):
        cash *= np.where(fast[day - 1] > slow[day - 1], prices[day] / prices[day - 1], 1.0)
    return cash


@kernel(prices_of_assets, (24, 2), (800, 6), (3000, 25), (15_000, 60), reference=crossings_by_filters)
def moving_average_crossing(prices, short, long):
    """Holds an asset on the days behind those when its short average is above its long one."""
    days, assets = prices.shape
    cash = np.ones(assets)
    for day in range(long, days):
        fast = prices[day - short : day].mean(axis=0)
        slow = prices[day - long : day].mean(axis=0)
        for a in range(assets):
            if fast[a] > slow[a]:
                cash[a] *= prices[day, a] / prices[day - 1, a]
    return cash
