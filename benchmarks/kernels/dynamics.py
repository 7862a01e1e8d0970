"""Bodies, molecules, spins and oscillators, step by step in time."""

import itertools

import numpy as np
from scipy import linalg
from scipy.spatial import distance

from .table import kernel


def cluster(random, steps, n):
    return steps, 0.001, random.random(n) + 0.1, random.normal(size=(n, 3)), random.normal(size=(n, 3))


def leapfrog_by_broadcasting(steps, dt, mass, position, velocity):
    def acceleration():
        apart = position - position[:, None]
        weight = mass / (distance.cdist(position, position) ** 2 + 0.01) ** 1.5
        return np.einsum("ij,ijk->ik", weight, apart)

    for _ in range(steps):
        velocity += 0.5 * dt * acceleration()
        position += dt * velocity
        velocity += 0.5 * dt * acceleration()


def attraction(position, mass, softening):
    x, y, z = position[:, 0:1], position[:, 1:2], position[:, 2:3]
    dx, dy, dz = x.T - x, y.T - y, z.T - z
    weight = dx**2 + dy**2 + dz**2 + softening**2
    weight[weight > 0] = weight[weight > 0] ** (-1.5)
    return np.hstack(((weight * dx) @ mass[:, None], (weight * dy) @ mass[:, None], (weight * dz) @ mass[:, None]))


@kernel(cluster, (2, 5), (20, 130), (50, 280), (100, 600), reference=leapfrog_by_broadcasting, elementary=True)
def n_body(steps, dt, mass, position, velocity):
    acceleration = attraction(position, mass, 0.1)
    for _ in range(steps):
        velocity += acceleration * dt / 2.0
        position += velocity * dt
        acceleration = attraction(position, mass, 0.1)
        velocity += acceleration * dt / 2.0


def symplectic_by_broadcasting(steps, dt, mass, position, velocity):
    for _ in range(steps):
        apart = position - position[:, None]
        weight = mass / ((apart**2).sum(-1) + 0.01) ** 1.5
        velocity += dt * np.einsum("ij,ijk->ik", weight, apart)
        position += dt * velocity


@kernel(cluster, (2, 4), (8, 22), (25, 40), (60, 80), reference=symplectic_by_broadcasting, numba=True)
def n_body_elements(steps, dt, mass, position, velocity):
    """Each pair once."""
    n = len(mass)
    for _ in range(steps):
        for i in range(n):
            for j in range(i + 1, n):
                dx = position[j, 0] - position[i, 0]
                dy = position[j, 1] - position[i, 1]
                dz = position[j, 2] - position[i, 2]
                square = dx * dx + dy * dy + dz * dz + 0.01
                weight = dt / (square * np.sqrt(square))
                velocity[i, 0] += dx * mass[j] * weight
                velocity[i, 1] += dy * mass[j] * weight
                velocity[i, 2] += dz * mass[j] * weight
                velocity[j, 0] -= dx * mass[i] * weight
                velocity[j, 1] -= dy * mass[i] * weight
                velocity[j, 2] -= dz * mass[i] * weight
        for i in range(n):
            position[i] += dt * velocity[i]


def box_of_molecules(random, steps, side):
    places = np.indices((side,) * 3).reshape(3, -1).T * 1.2 + 0.05 * random.random((side**3, 3))
    return steps, 0.002, 1.2 * side, places, random.normal(size=places.shape)


def forces_by_broadcasting(steps, dt, box, x, v):
    energies = np.empty(steps)
    for step in range(steps):
        apart = x[:, None] - x
        apart -= box * np.round(apart / box)
        square = (apart**2).sum(-1)
        np.fill_diagonal(square, np.inf)
        close = np.where(square < 6.25, 1.0 / square, 0.0)
        sixth = close**3
        energies[step] = 2.0 * (sixth * (sixth - 1.0)).sum()
        v += dt * ((24.0 * close * sixth * (2.0 * sixth - 1.0))[..., None] * apart).sum(1)
        x += dt * v
    return energies


@kernel(box_of_molecules, (1, 2), (1, 4), (10, 4), (8, 6), reference=forces_by_broadcasting, numba=True)
def molecules(steps, dt, box, x, v):
    """Lennard-Jones in a periodic box, with a cutoff."""
    n = len(x)
    energies = np.zeros(steps)
    for step in range(steps):
        force = np.zeros_like(x)
        for i in range(n - 1):
            for j in range(i + 1, n):
                d = x[i] - x[j]
                d -= box * np.round(d / box)
                square = d[0] * d[0] + d[1] * d[1] + d[2] * d[2]
                if square < 6.25:
                    inverse = 1.0 / square
                    sixth = inverse * inverse * inverse
                    energies[step] += 4.0 * sixth * (sixth - 1.0)
                    push = 24.0 * inverse * sixth * (2.0 * sixth - 1.0)
                    force[i] += push * d
                    force[j] -= push * d
        v += dt * force
        x += dt * v
    return energies


def convection(random, steps):
    return steps, 0.005, random.random(3)


def lorenz_slope(state, sigma=10.0, rho=28.0, beta=8.0 / 3.0):
    x, y, z = state
    return np.array([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])


def runge_kutta_by_tableau(steps, dt, state):
    path = [state]
    for _ in range(steps):
        slopes = [lorenz_slope(path[-1])]
        for part in (0.5, 0.5, 1.0):
            slopes.append(lorenz_slope(path[-1] + part * dt * slopes[-1]))
        path.append(path[-1] + dt * np.dot([1 / 6, 1 / 3, 1 / 3, 1 / 6], slopes))
    return np.array(path)


@kernel(convection, 4, 400, 4000, 40_000, reference=runge_kutta_by_tableau)
def lorenz(steps, dt, state):
    path = np.empty((steps + 1, 3))
    path[0] = state
    for i in range(steps):
        s = path[i]
        k1 = lorenz_slope(s)
        k2 = lorenz_slope(s + 0.5 * dt * k1)
        k3 = lorenz_slope(s + 0.5 * dt * k2)
        k4 = lorenz_slope(s + dt * k3)
        path[i + 1] = s + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return path


def predators(random, steps):
    return steps, 0.001, 1.0 + random.random(), 0.5 + random.random()


def euler_as_vectors(steps, dt, prey, predator):
    path = np.empty((steps + 1, 2))
    path[0] = prey, predator
    for here, there in itertools.pairwise(path):
        there[:] = here + dt * here * (np.array([1.1, -0.4]) + np.array([-0.4, 0.1]) * here[::-1])
    return path


@kernel(predators, 9, 15_000, 150_000, 1_500_000, reference=euler_as_vectors, numba=True)
def lotka_volterra(steps, dt, prey, predator):
    """Euler's method on two plain numbers."""
    path = np.zeros((steps + 1, 2))
    path[0, 0] = prey
    path[0, 1] = predator
    for i in range(steps):
        births = 1.1 * prey - 0.4 * prey * predator
        growth = 0.1 * prey * predator - 0.4 * predator
        prey += dt * births
        predator += dt * growth
        path[i + 1, 0] = prey
        path[i + 1, 1] = predator
    return path


def swing(random, steps):
    return steps, 0.01, 1.0 + random.random(), 0.0


@kernel(swing, 9, 9000, 90_000, 900_000, elementary=True, numba=True)
def pendulum(steps, dt, angle, speed):
    """Symplectic Euler, with friction; counts how often it passes the lowest point."""
    passed = 0
    highest = 0.0
    for _ in range(steps):
        before = angle
        speed -= dt * (9.81 * np.sin(angle) + 0.01 * speed)
        angle += dt * speed
        if before * angle < 0.0:
            passed += 1
        highest = max(highest, abs(speed))
    return passed, highest, angle, speed


def oscillator(random, end):
    return float(end), 5.0, 1e-6, np.array([2.0, random.random()])


@kernel(oscillator, 1, 16, 160, 1600, numba=True)
def van_der_pol(end, mu, tolerance, y):
    """Heun's method within Euler's: a step is as long as the difference of the two allows."""
    t, dt = 0.0, 0.001
    accepted = rejected = 0
    while t < end:
        dt = min(dt, end - t)
        slope0 = y[1]
        slope1 = mu * (1.0 - y[0] * y[0]) * y[1] - y[0]
        a = y[0] + dt * slope0
        b = y[1] + dt * slope1
        next0 = y[0] + 0.5 * dt * (slope0 + b)
        next1 = y[1] + 0.5 * dt * (slope1 + mu * (1.0 - a * a) * b - a)
        error = max(abs(next0 - a), abs(next1 - b))
        if error <= tolerance * 100.0:
            t += dt
            y[0], y[1] = next0, next1
            accepted += 1
            if error < tolerance * 20.0:
                dt *= 1.5
        else:
            rejected += 1
            dt *= 0.5
        if dt < 1e-12:
            raise ArithmeticError(f"no step is short enough at {t}")
    return accepted, rejected


def spins(random, sweeps, n):
    draws = random.random((sweeps, n, n))
    return 2.0 * random.integers(0, 2, (n, n)) - 1.0, draws, np.exp(-0.8 * np.array([0.0, 0.0, 1.0, 0.0, 2.0]))


def flipped_by_neighbours(spin, draws, acceptance):
    """Sums of neighbours looked up in a padded copy, each spin in turn."""
    n, m = spin.shape
    energies = []
    for draw in draws:
        for place in np.ndindex(n, m):
            i, j = place
            field = spin[[i - 1, (i + 1) % n, i, i], [j, j, j - 1, (j + 1) % m]].sum()
            cost = spin[place] * field
            if cost <= 0 or draw[place] < acceptance[int(cost)]:
                spin[place] *= -1
        energies.append(-(spin * (np.roll(spin, 1, 0) + np.roll(spin, 1, 1))).sum())
    return np.array(energies)


@kernel(spins, (2, 6), (2, 45), (6, 80), (15, 170), reference=flipped_by_neighbours, numba=True)
def ising(spin, draws, acceptance):
    """Metropolis, spin by spin; `acceptance` is looked up by the energy."""
    sweeps, n, m = draws.shape
    energies = np.zeros(sweeps)
    for t in range(sweeps):
        for i in range(n):
            for j in range(m):
                around = spin[i - 1, j] + spin[(i + 1) % n, j] + spin[i, j - 1] + spin[i, (j + 1) % m]
                cost = spin[i, j] * around
                if cost <= 0.0 or draws[t, i, j] < acceptance[int(cost)]:
                    spin[i, j] = -spin[i, j]
        for i in range(n):
            for j in range(m):
                energies[t] -= spin[i, j] * (spin[i - 1, j] + spin[i, j - 1])
    return energies


def packet(random, steps, n):
    x = np.linspace(-10.0, 10.0, n)
    psi = np.exp(-((x + 5.0) ** 2) + 5j * x)
    return steps, 0.001, x[1] - x[0], 0.5 * x**2 + random.random(n), psi / np.sqrt(np.sum(np.abs(psi) ** 2))


def banded_schroedinger(steps, dt, dx, potential, psi):
    r = 1j * dt / (4.0 * dx**2)
    diagonal = 1.0 + 2.0 * r + 0.5j * dt * potential
    bands = np.array([np.full(len(psi), -r), diagonal, np.full(len(psi), -r)])
    for _ in range(steps):
        right = np.conj(diagonal) * psi
        right[:-1] += r * psi[1:]
        right[1:] += r * psi[:-1]
        psi[:] = linalg.solve_banded((1, 1), bands, right)


@kernel(packet, (2, 9), (15, 500), (50, 1500), (150, 5000), reference=banded_schroedinger, numba=True)
def crank_nicolson(steps, dt, dx, potential, psi):
    """Schroedinger's equation: complex numbers, one tridiagonal system a step."""
    n = psi.size
    r = 1j * dt / (4.0 * dx**2)
    diagonal = 1.0 + 2.0 * r + 0.5j * dt * potential
    c = np.zeros(n, dtype=np.complex128)
    d = np.zeros(n, dtype=np.complex128)
    for _ in range(steps):
        right = np.conj(diagonal) * psi
        right[:-1] += r * psi[1:]
        right[1:] += r * psi[:-1]
        c[0] = -r / diagonal[0]
        d[0] = right[0] / diagonal[0]
        for i in range(1, n):
            m = diagonal[i] + r * c[i - 1]
            c[i] = -r / m
            d[i] = (right[i] + r * d[i - 1]) / m
        psi[-1] = d[-1]
        for i in range(n - 2, -1, -1):
            psi[i] = d[i] - c[i] * psi[i + 1]
