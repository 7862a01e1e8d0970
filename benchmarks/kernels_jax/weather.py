"""Weather and flow."""

import jax.numpy as jnp
from jax import lax

from . import version


@version("upwind_elements", "upwind_advection", changed=(1,))
def upwind(steps, q, u, v):
    def step(_, q):
        west, east = q - jnp.roll(q, 1, axis=1), jnp.roll(q, -1, axis=1) - q
        south, north = q - jnp.roll(q, 1, axis=0), jnp.roll(q, -1, axis=0) - q
        return q - (jnp.where(u > 0.0, u * west, u * east) + jnp.where(v > 0.0, v * south, v * north))

    return None, lax.fori_loop(0, steps, step, q)


@version("shallow_water", changed=(3, 4, 5))
def shallow_water(steps, dt, dx, h, hu, hv):
    c = dt / (2.0 * dx)

    def bordered(x, along, across):
        y = x.at[0, :].set(along * x[1, :]).at[-1, :].set(along * x[-2, :])
        sides = x if across < 0.0 else y
        return y.at[:, 0].set(across * sides[:, 1]).at[:, -1].set(across * sides[:, -2])

    def moved(x, fx, fy):
        around = 0.25 * (x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2])
        return x.at[1:-1, 1:-1].set(around - c * (fx[2:, 1:-1] - fx[:-2, 1:-1] + fy[1:-1, 2:] - fy[1:-1, :-2]))

    def step(_, state):
        h, hu, hv = state
        h, hu, hv = bordered(h, 1.0, 1.0), bordered(hu, -1.0, 1.0), bordered(hv, 1.0, -1.0)
        pressure = 0.5 * 9.81 * h * h
        across = hu * hv / h
        return moved(h, hu, hv), moved(hu, hu * hu / h + pressure, across), moved(hv, across, hv * hv / h + pressure)

    return None, *lax.fori_loop(0, steps, step, (h, hu, hv))


@version("vertical_diffusion", changed=(2,))
def vertical_diffusion(dt, mixing, theta):
    nothing = jnp.zeros_like(theta[0])
    ups = jnp.concatenate([nothing[None], dt * mixing[1:-1]])
    downs = jnp.concatenate([dt * mixing[1:-1], nothing[None]])

    def forwards(state, level):
        c, value = state
        up, down, here = level
        m = 1.0 + up + down + up * c
        new = -down / m, (here + up * value) / m
        return new, new

    def backwards(above, level):
        c, value = level
        new = value - c * above
        return new, new

    _, levels = lax.scan(forwards, (nothing, nothing), (ups, downs, theta))
    return None, lax.scan(backwards, nothing, levels, reverse=True)[1]


@version("vertical_advection_elements", changed=(0,))
def vertical_advection(q, w, dt):
    inner = w[1:-1]
    flux = jnp.zeros_like(w).at[1:-1].set(jnp.where(inner > 0.0, inner * q[:-1], inner * q[1:]))
    return None, q - dt * jnp.diff(flux, axis=0)


@version("horizontal_diffusion", changed=(0,))
def horizontal_diffusion(field, coefficient):
    q = field
    lap = 4.0 * q[:, 1:-1, 1:-1] - (q[:, 2:, 1:-1] + q[:, :-2, 1:-1] + q[:, 1:-1, 2:] + q[:, 1:-1, :-2])
    fx = lap[:, 1:-1, 1:] - lap[:, 1:-1, :-1]
    fx = jnp.where(fx * (q[:, 2:-2, 2:-1] - q[:, 2:-2, 1:-2]) > 0.0, 0.0, fx)
    fy = lap[:, 1:, 1:-1] - lap[:, :-1, 1:-1]
    fy = jnp.where(fy * (q[:, 2:-1, 2:-2] - q[:, 1:-2, 2:-2]) > 0.0, 0.0, fy)
    flux = fx[:, :, 1:] - fx[:, :, :-1] + fy[:, 1:, :] - fy[:, :-1, :]
    return None, q.at[:, 2:-2, 2:-2].add(-coefficient[:, 2:-2, 2:-2] * flux)


@version("lattice_boltzmann", changed=(3,))
def lattice_boltzmann(steps, shift, weight, f):
    c = jnp.array(shift, float)

    def step(_, f):
        f = jnp.stack([jnp.roll(f[i], offset, axis=(0, 1)) for i, offset in enumerate(shift)])
        rho = f.sum(axis=0)
        velocity = jnp.tensordot(c.T, f, 1) / rho
        along = jnp.tensordot(c, velocity, 1)
        square = 1.5 * (velocity**2).sum(axis=0)
        target = weight[:, None, None] * rho * (1.0 + 3.0 * along + 4.5 * along**2 - square)
        return f + (target - f) / 0.6

    return None, lax.fori_loop(0, steps, step, f)


@version("semi_lagrangian", changed=(1,))
def semi_lagrangian(steps, q, u, v):
    n, m = q.shape
    i, j = jnp.indices(q.shape)
    y, x = jnp.clip(i - v, 0.0, n - 1.001), jnp.clip(j - u, 0.0, m - 1.001)
    i0, j0 = y.astype(int), x.astype(int)
    a, b = y - i0, x - j0

    def step(_, old):
        above = (1.0 - b) * old[i0, j0] + b * old[i0, j0 + 1]
        below = (1.0 - b) * old[i0 + 1, j0] + b * old[i0 + 1, j0 + 1]
        return (1.0 - a) * above + a * below

    return None, lax.fori_loop(0, steps, step, q)
