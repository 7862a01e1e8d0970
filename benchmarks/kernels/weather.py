"""Weather and flow: advection, diffusion, shallow water, columns of air, a driven cavity, lattice Boltzmann."""

import numpy as np
from scipy import linalg, ndimage

from .table import kernel


def tracer_in_wind(random, steps, n):
    u, v = 0.4 * random.normal(size=(2, n, n)).clip(-1.0, 1.0)
    return steps, random.random((n, n)), u, v


def upwind_by_sign(steps, q, u, v):
    for _ in range(steps):
        west, east = q - np.roll(q, 1, 1), np.roll(q, -1, 1) - q
        south, north = q - np.roll(q, 1, 0), np.roll(q, -1, 0) - q
        q -= np.maximum(u, 0) * west + np.minimum(u, 0) * east + np.maximum(v, 0) * south + np.minimum(v, 0) * north


@kernel(tracer_in_wind, (2, 7), (2, 50), (5, 100), (12, 200), reference=upwind_by_sign, numba=True)
def upwind_elements(steps, q, u, v):
    n, m = q.shape
    for _ in range(steps):
        old = q.copy()
        for i in range(n):
            for j in range(m):
                if u[i, j] > 0.0:
                    dx = old[i, j] - old[i, j - 1]
                else:
                    dx = old[i, (j + 1) % m] - old[i, j]
                dy = old[i, j] - old[i - 1, j] if v[i, j] > 0.0 else old[(i + 1) % n, j] - old[i, j]
                q[i, j] -= u[i, j] * dx + v[i, j] * dy


@kernel(tracer_in_wind, (2, 8), (60, 110), (90, 250), (130, 600), reference=upwind_by_sign, numba=upwind_elements)
def upwind_advection(steps, q, u, v):
    for _ in range(steps):
        west, east = q - np.roll(q, 1, axis=1), np.roll(q, -1, axis=1) - q
        south, north = q - np.roll(q, 1, axis=0), np.roll(q, -1, axis=0) - q
        q -= np.where(u > 0.0, u * west, u * east) + np.where(v > 0.0, v * south, v * north)


def bump(random, steps, n):
    x = np.linspace(-1.0, 1.0, n)
    height = 1.0 + 0.2 * np.exp(-20.0 * (x[:, None] ** 2 + x**2)) + 0.001 * random.random((n, n))
    return steps, 0.2 / n, 2.0 / n, height, np.zeros((n, n)), np.zeros((n, n))


@kernel(bump, (2, 10), (45, 75), (90, 190), (180, 420), numba=True)
def shallow_water(steps, dt, dx, h, hu, hv):
    """Lax and Friedrichs, with walls that reflect."""
    g = 9.81
    for _ in range(steps):
        h[0, :], h[-1, :], h[:, 0], h[:, -1] = h[1, :], h[-2, :], h[:, 1], h[:, -2]
        hu[0, :], hu[-1, :], hu[:, 0], hu[:, -1] = -hu[1, :], -hu[-2, :], hu[:, 1], hu[:, -2]
        hv[0, :], hv[-1, :], hv[:, 0], hv[:, -1] = hv[1, :], hv[-2, :], -hv[:, 1], -hv[:, -2]
        pressure = 0.5 * g * h * h
        fx_u, fx_v = hu * hu / h + pressure, hu * hv / h
        fy_u, fy_v = fx_v, hv * hv / h + pressure
        c = dt / (2.0 * dx)
        h_new = 0.25 * (h[2:, 1:-1] + h[:-2, 1:-1] + h[1:-1, 2:] + h[1:-1, :-2])
        h_new = h_new - c * (hu[2:, 1:-1] - hu[:-2, 1:-1] + hv[1:-1, 2:] - hv[1:-1, :-2])
        u_new = 0.25 * (hu[2:, 1:-1] + hu[:-2, 1:-1] + hu[1:-1, 2:] + hu[1:-1, :-2])
        u_new = u_new - c * (fx_u[2:, 1:-1] - fx_u[:-2, 1:-1] + fy_u[1:-1, 2:] - fy_u[1:-1, :-2])
        v_new = 0.25 * (hv[2:, 1:-1] + hv[:-2, 1:-1] + hv[1:-1, 2:] + hv[1:-1, :-2])
        v_new = v_new - c * (fx_v[2:, 1:-1] - fx_v[:-2, 1:-1] + fy_v[1:-1, 2:] - fy_v[1:-1, :-2])
        h[1:-1, 1:-1], hu[1:-1, 1:-1], hv[1:-1, 1:-1] = h_new, u_new, v_new


def columns_of_air(random, levels, n):
    return 0.5, 0.5 + random.random((levels + 1, n, n)), 280.0 + random.random((levels, n, n))


def diffused_column_by_column(dt, mixing, theta):
    for i, j in np.ndindex(theta.shape[1:]):
        above, below = -dt * mixing[1:-1, i, j], -dt * mixing[1:-1, i, j]
        diagonal = 1.0 - np.append(above, 0.0) - np.insert(below, 0, 0.0)
        bands = np.array([np.insert(above, 0, 0.0), diagonal, np.append(below, 0.0)])
        theta[:, i, j] = linalg.solve_banded((1, 1), bands, theta[:, i, j])


@kernel(columns_of_air, (5, 4), (80, 90), (120, 200), (120, 450), reference=diffused_column_by_column, numba=True)
def vertical_diffusion(dt, mixing, theta):
    """One implicit step: a tridiagonal system in each column, all columns at once."""
    levels = theta.shape[0]
    c = np.empty_like(theta)
    for k in range(levels):
        if k == 0:
            down = dt * mixing[1]
            c[0] = -down / (1.0 + down)
            theta[0] = theta[0] / (1.0 + down)
        else:
            up = dt * mixing[k]
            down = dt * mixing[k + 1] if k + 1 < levels else np.zeros_like(up)
            m = 1.0 + up + down + up * c[k - 1]
            c[k] = -down / m
            theta[k] = (theta[k] + up * theta[k - 1]) / m
    for k in range(levels - 2, -1, -1):
        theta[k] -= c[k] * theta[k + 1]


def wind_and_field(random, nx, ny, levels):
    return random.random((levels, ny, nx)), random.random((levels + 1, ny, nx)) - 0.5, 0.1


def fluxes_at_once(q, w, dt):
    inner = w[1:-1]
    flux = np.zeros_like(w)
    flux[1:-1] = np.where(inner > 0.0, inner * q[:-1], inner * q[1:])
    q -= dt * np.diff(flux, axis=0)


@kernel(wind_and_field, (3, 2, 5), (14, 14, 50), (40, 40, 70), (110, 100, 100), reference=fluxes_at_once, numba=True)
def vertical_advection_elements(q, w, dt):
    """First order upwind fluxes through the faces of each column's cells, none through its ends."""
    levels, rows, columns = q.shape
    for j in range(rows):
        for i in range(columns):
            flux_below = 0.0
            for k in range(levels):
                flux_above = 0.0
                if k < levels - 1:
                    wind = w[k + 1, j, i]
                    flux_above = wind * q[k, j, i] if wind > 0.0 else wind * q[k + 1, j, i]
                q[k, j, i] += dt * (flux_below - flux_above)
                flux_below = flux_above


def layers(random, levels, n):
    return random.random((levels, n, n)), 0.1 * random.random((levels, n, n))


def limited_layer_by_layer(field, coefficient):
    for layer, c in zip(field, coefficient, strict=True):
        lap = ndimage.correlate(layer, -np.array([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]]))
        fx, fy = np.diff(lap, axis=1), np.diff(lap, axis=0)
        fx = np.where(fx * np.diff(layer, axis=1) > 0.0, 0.0, fx)
        fy = np.where(fy * np.diff(layer, axis=0) > 0.0, 0.0, fy)
        inner = slice(2, -2)
        flux = np.diff(fx, axis=1)[2:-2, 1:-1] + np.diff(fy, axis=0)[1:-1, 2:-2]
        layer[inner, inner] -= c[inner, inner] * flux


@kernel(layers, (2, 8), (30, 110), (60, 250), (100, 600), reference=limited_layer_by_layer, numba=True)
def horizontal_diffusion(field, coefficient):
    """Of fourth order, with fluxes that may not go uphill."""
    for k in range(field.shape[0]):
        q = field[k]
        lap = 4.0 * q[1:-1, 1:-1] - (q[2:, 1:-1] + q[:-2, 1:-1] + q[1:-1, 2:] + q[1:-1, :-2])
        fx = lap[1:-1, 1:] - lap[1:-1, :-1]
        fx = np.where(fx * (q[2:-2, 2:-1] - q[2:-2, 1:-2]) > 0.0, 0.0, fx)
        fy = lap[1:, 1:-1] - lap[:-1, 1:-1]
        fy = np.where(fy * (q[2:-1, 2:-2] - q[1:-2, 2:-2]) > 0.0, 0.0, fy)
        q[2:-2, 2:-2] -= coefficient[k, 2:-2, 2:-2] * (fx[:, 1:] - fx[:, :-1] + fy[1:, :] - fy[:-1, :])


def cavity(random, steps, n):
    dt = 0.1 * (2.0 / (n - 1)) ** 2
    return steps, 20, dt, 1.0, 0.1, *(0.01 * random.random((n, n)) for _ in range(3))


@kernel(cavity, (2, 8), (10, 41), (35, 90), (100, 200))
def cavity_flow(steps, sweeps, dt, rho, nu, u, v, p):
    dx = dy = 2.0 / (len(u) - 1)
    for _ in range(steps):
        un, vn = u.copy(), v.copy()
        du, dv = (u[1:-1, 2:] - u[1:-1, :-2]) / (2 * dx), (v[2:, 1:-1] - v[:-2, 1:-1]) / (2 * dy)
        uy, vx = (u[2:, 1:-1] - u[:-2, 1:-1]) / (2 * dy), (v[1:-1, 2:] - v[1:-1, :-2]) / (2 * dx)
        b = rho * ((du + dv) / dt - du**2 - 2 * uy * vx - dv**2)
        for _ in range(sweeps):
            pn = p.copy()
            p[1:-1, 1:-1] = (
                (pn[1:-1, 2:] + pn[1:-1, :-2]) * dy**2
                + (pn[2:, 1:-1] + pn[:-2, 1:-1]) * dx**2
                - b * dx**2 * dy**2
            ) / (2 * (dx**2 + dy**2))
            p[:, -1] = p[:, -2]
            p[0, :] = p[1, :]
            p[:, 0] = p[:, 1]
            p[-1, :] = 0
        u[1:-1, 1:-1] = (
            un[1:-1, 1:-1]
            - un[1:-1, 1:-1] * dt / dx * (un[1:-1, 1:-1] - un[1:-1, :-2])
            - vn[1:-1, 1:-1] * dt / dy * (un[1:-1, 1:-1] - un[:-2, 1:-1])
            - dt / (2 * rho * dx) * (p[1:-1, 2:] - p[1:-1, :-2])
            + nu * dt / dx**2 * (un[1:-1, 2:] - 2 * un[1:-1, 1:-1] + un[1:-1, :-2])
            + nu * dt / dy**2 * (un[2:, 1:-1] - 2 * un[1:-1, 1:-1] + un[:-2, 1:-1])
        )
        v[1:-1, 1:-1] = (
            vn[1:-1, 1:-1]
            - un[1:-1, 1:-1] * dt / dx * (vn[1:-1, 1:-1] - vn[1:-1, :-2])
            - vn[1:-1, 1:-1] * dt / dy * (vn[1:-1, 1:-1] - vn[:-2, 1:-1])
            - dt / (2 * rho * dy) * (p[2:, 1:-1] - p[:-2, 1:-1])
            + nu * dt / dx**2 * (vn[1:-1, 2:] - 2 * vn[1:-1, 1:-1] + vn[1:-1, :-2])
            + nu * dt / dy**2 * (vn[2:, 1:-1] - 2 * vn[1:-1, 1:-1] + vn[:-2, 1:-1])
        )
        u[0, :] = u[:, 0] = u[:, -1] = 0
        u[-1, :] = 1
        v[0, :] = v[-1, :] = v[:, 0] = v[:, -1] = 0


def gas(random, steps, n):
    shift = [(0, 0), (0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (-1, 1), (-1, -1), (1, -1)]
    weight = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)
    return steps, shift, weight, weight[:, None, None] * (1.0 + 0.1 * random.random((9, n, 2 * n)))


def relaxed_all_at_once(steps, shift, weight, f):
    c = np.array(shift, float)
    for _ in range(steps):
        for i, offset in enumerate(shift):
            f[i] = np.roll(f[i], offset, axis=(0, 1))
        rho = f.sum(0)
        velocity = np.tensordot(c.T, f, 1) / rho
        along = np.tensordot(c, velocity, 1)
        target = weight[:, None, None] * rho * (1 + 3 * along + 4.5 * along**2 - 1.5 * (velocity**2).sum(0))
        f += (target - f) / 0.6


@kernel(gas, (2, 5), (18, 40), (40, 110), (90, 240), reference=relaxed_all_at_once)
def lattice_boltzmann(steps, shift, weight, f):
    for _ in range(steps):
        for i, (di, dj) in enumerate(shift):
            f[i] = np.roll(np.roll(f[i], di, axis=0), dj, axis=1)
        rho = f.sum(axis=0)
        u = np.zeros_like(rho)
        v = np.zeros_like(rho)
        for i, (di, dj) in enumerate(shift):
            u += di * f[i]
            v += dj * f[i]
        u /= rho
        v /= rho
        square = 1.5 * (u * u + v * v)
        for i, (di, dj) in enumerate(shift):
            along = di * u + dj * v
            target = weight[i] * rho * (1.0 + 3.0 * along + 4.5 * along**2 - square)
            f[i] += (target - f[i]) / 0.6


def traced_by_map(steps, q, u, v):
    i, j = np.indices(q.shape)
    places = [np.clip(i - v, 0.0, q.shape[0] - 1.001), np.clip(j - u, 0.0, q.shape[1] - 1.001)]
    for _ in range(steps):
        q[:] = ndimage.map_coordinates(q, places, order=1)


@kernel(tracer_in_wind, (1, 6), (1, 50), (4, 85), (10, 180), reference=traced_by_map, numba=True)
def semi_lagrangian(steps, q, u, v):
    """Each cell takes what is where its air came from, between four cells."""
    n, m = q.shape
    for _ in range(steps):
        old = q.copy()
        for i in range(n):
            for j in range(m):
                y = min(max(i - v[i, j], 0.0), n - 1.001)
                x = min(max(j - u[i, j], 0.0), m - 1.001)
                i0, j0 = int(y), int(x)
                a, b = y - i0, x - j0
                q[i, j] = (1.0 - a) * ((1.0 - b) * old[i0, j0] + b * old[i0, j0 + 1]) + a * (
                    (1.0 - b) * old[i0 + 1, j0] + b * old[i0 + 1, j0 + 1]
                )


def humid(random, n):
    return 270.0 + 30.0 * random.random(n), 0.004 + 0.03 * random.random(n)


@kernel(humid, 3, 4000, 40_000, 400_000, elementary=True, numba=True)
def saturation_adjustment(T, q):
    """Condenses what the air can't hold: a few of Newton's steps in each cell."""
    heat = 2.5e6 / 1004.0
    for i in range(len(T)):
        condensed = 0.0
        for _ in range(5):
            saturated = 0.0038 * np.exp(17.27 * (T[i] - 273.16) / (T[i] - 35.86))
            if q[i] <= saturated:
                break
            slope = saturated * 17.27 * 237.3 / (T[i] - 35.86) ** 2
            delta = (q[i] - saturated) / (1.0 + heat * slope)
            T[i] += heat * delta
            q[i] -= delta
            condensed += delta
            if delta < 1e-12:
                break
        if condensed < 0.0:
            raise ValueError("negative condensate")
