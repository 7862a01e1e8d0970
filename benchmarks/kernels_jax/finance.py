"""Prices of options and loans."""

import jax.numpy as jnp
from jax import lax
from jax.scipy.special import erf

from . import version


@version("binomial_tree", "binomial_tree_elements", static=("steps",))
def binomial_tree(spot, strike, years, rate, volatility, steps):
    """The arrays keep their length: what is behind the tree isn't looked at."""
    dt = years / steps
    up = jnp.exp(volatility * jnp.sqrt(dt))
    down = 1.0 / up
    p = (jnp.exp(rate * dt) - down) / (up - down)
    discount = jnp.exp(-rate * dt)
    prices = spot * up ** jnp.arange(-steps, steps + 1, 2).astype(float)

    def step(_, state):
        values, prices = state
        held = discount * (p * jnp.roll(values, -1) + (1.0 - p) * values)
        prices = jnp.roll(prices, -1) * down
        return jnp.maximum(held, strike - prices), prices

    return lax.fori_loop(0, steps, step, (jnp.maximum(strike - prices, 0.0), prices))[0][0]


@version("black_scholes_elements")
def black_scholes(S, K, T, r, sigma):
    spread = sigma * jnp.sqrt(T)
    d1 = (jnp.log(S / K) + (r + 0.5 * sigma**2) * T) / spread
    n1, n2 = (0.5 * (1.0 + erf(d / jnp.sqrt(2.0))) for d in (d1, d1 - spread))
    return S * n1 - K * jnp.exp(-r * T) * n2


@version("asian_option")
def asian_option(spot, strike, rate, volatility, years, draws):
    steps, paths = draws.shape
    dt = years / steps

    def step(state, draw):
        price, total = state
        price = price * jnp.exp((rate - 0.5 * volatility**2) * dt + volatility * jnp.sqrt(dt) * draw)
        return (price, total + price), None

    (_, total), _ = lax.scan(step, (jnp.full(paths, spot), jnp.zeros(paths)), draws)
    return jnp.exp(-rate * years) * jnp.mean(jnp.maximum(total / steps - strike, 0.0))


@version("barrier_option_elements")
def barrier_option(spot, strike, rate, volatility, years, draws):
    steps, paths = draws.shape
    dt = years / steps
    drift, scale = rate * dt, volatility * jnp.sqrt(dt)

    def step(state, draw):
        price, alive = state
        price = price * (1.0 + drift + scale * draw)
        return (price, alive & (price <= 130.0)), None

    (price, alive), _ = lax.scan(step, (jnp.full(paths, spot), jnp.ones(paths, bool)), draws)
    return jnp.where(alive, jnp.maximum(price - strike, 0.0), 0.0).sum() / paths, paths - alive.sum()


@version("explicit_option_grid")
def explicit_option_grid(steps, rate, volatility, strike, years, S):
    dt = years / steps
    i = jnp.arange(len(S))

    def step(_, V):
        gamma = V[2:] - 2.0 * V[1:-1] + V[:-2]
        delta = 0.5 * (V[2:] - V[:-2])
        inner = 0.5 * volatility**2 * i[1:-1] ** 2 * gamma + rate * i[1:-1] * delta - rate * V[1:-1]
        ends = 1.0 - rate * dt
        return V.at[1:-1].add(dt * inner).at[0].multiply(ends).at[-1].multiply(ends)

    return lax.fori_loop(0, steps, step, jnp.maximum(strike - S, 0.0))


@version("loan_schedules")
def loan_schedules(principal, rate, payment):
    def goes_on(state):
        left, months, _ = state
        return ((left > 0.0) & (months < 600)).any()

    def step(state):
        left, months, total = state
        is_open = (left > 0.0) & (months < 600)
        interest = left * rate / 12.0
        left = jnp.where(is_open, left - (payment - interest), left)
        return left, months + is_open, total + jnp.where(is_open, interest, 0.0)

    start = principal, jnp.zeros(len(principal), int), jnp.zeros_like(principal)
    _, months, total = lax.while_loop(goes_on, step, start)
    return months, total
