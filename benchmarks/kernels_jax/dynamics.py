"""Bodies, molecules and oscillators."""

import jax.numpy as jnp
from jax import lax

from . import version


def attraction(position, mass, softening):
    apart = position - position[:, None]
    weight = ((apart**2).sum(-1) + softening**2) ** -1.5
    return jnp.einsum("ij,ijk->ik", weight * mass, apart)


@version("n_body", changed=(3, 4))
def n_body(steps, dt, mass, position, velocity):
    def step(_, state):
        position, velocity, acceleration = state
        velocity = velocity + acceleration * dt / 2.0
        position = position + velocity * dt
        acceleration = attraction(position, mass, 0.1)
        return position, velocity + acceleration * dt / 2.0, acceleration

    return None, *lax.fori_loop(0, steps, step, (position, velocity, attraction(position, mass, 0.1)))[:2]


@version("n_body_elements", changed=(3, 4))
def n_body_elements(steps, dt, mass, position, velocity):
    def step(_, state):
        position, velocity = state
        velocity = velocity + dt * attraction(position, mass, 0.1)
        return position + dt * velocity, velocity

    return None, *lax.fori_loop(0, steps, step, (position, velocity))


@version("molecules", static=("steps",), changed=(3, 4))
def molecules(steps, dt, box, x, v):
    pairs = ~jnp.eye(len(x), dtype=bool)

    def step(state, _):
        x, v = state
        apart = x[:, None] - x
        apart = apart - box * jnp.round(apart / box)
        square = jnp.where(pairs, (apart**2).sum(-1), jnp.inf)
        close = jnp.where(square < 6.25, 1.0 / square, 0.0)
        sixth = close**3
        push = 24.0 * close * sixth * (2.0 * sixth - 1.0)
        v = v + dt * (push[..., None] * apart).sum(1)
        return (x + dt * v, v), 2.0 * (sixth * (sixth - 1.0)).sum()

    (x, v), energies = lax.scan(step, (x, v), None, length=steps)
    return energies, x, v


def lorenz_slope(state):
    x, y, z = state
    return jnp.array([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z])


@version("lorenz", static=("steps",))
def lorenz(steps, dt, state):
    def step(s, _):
        k1 = lorenz_slope(s)
        k2 = lorenz_slope(s + 0.5 * dt * k1)
        k3 = lorenz_slope(s + 0.5 * dt * k2)
        k4 = lorenz_slope(s + dt * k3)
        new = s + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        return new, new

    return jnp.concatenate([state[None], lax.scan(step, state, None, length=steps)[1]])


@version("lotka_volterra", static=("steps",))
def lotka_volterra(steps, dt, prey, predator):
    def step(both, _):
        prey, predator = both
        births = 1.1 * prey - 0.4 * prey * predator
        growth = 0.1 * prey * predator - 0.4 * predator
        new = jnp.array([prey + dt * births, predator + dt * growth])
        return new, new

    start = jnp.array([prey, predator])
    return jnp.concatenate([start[None], lax.scan(step, start, None, length=steps)[1]])


@version("pendulum")
def pendulum(steps, dt, angle, speed):
    def step(_, state):
        passed, highest, before, speed = state
        speed = speed - dt * (9.81 * jnp.sin(before) + 0.01 * speed)
        angle = before + dt * speed
        return passed + (before * angle < 0.0), jnp.maximum(highest, jnp.abs(speed)), angle, speed

    return lax.fori_loop(0, steps, step, (0, 0.0, angle, speed))


@version("crank_nicolson", changed=(4,))
def crank_nicolson(steps, dt, dx, potential, psi):
    r = 1j * dt / (4.0 * dx**2)
    diagonal = 1.0 + 2.0 * r + 0.5j * dt * potential
    nothing = jnp.zeros((), complex)

    def forwards(state, row):
        c, d = state
        middle, right = row
        m = middle + r * c
        new = -r / m, (right + r * d) / m
        return new, new

    def backwards(value, row):
        c, d = row
        value = d - c * value
        return value, value

    def step(_, psi):
        right = jnp.conj(diagonal) * psi
        right = right.at[:-1].add(r * psi[1:]).at[1:].add(r * psi[:-1])
        _, rows = lax.scan(forwards, (nothing, nothing), (diagonal, right))
        return lax.scan(backwards, nothing, rows, reverse=True)[1]

    return None, lax.fori_loop(0, steps, step, psi)
