"""Ordinary differential equations: Runge and Kutta with a closure, a lambda, and an adaptive step."""

import numpy as np


def make_lorenz(sigma=10.0, rho=28.0, beta=8 / 3):
    def f(t, s):
        x, y, z = s
        return np.array([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])

    return f


def rk4(f, y, t, dt):
    k1 = f(t, y)
    k2 = f(t + dt / 2, y + dt / 2 * k1)
    k3 = f(t + dt / 2, y + dt / 2 * k2)
    k4 = f(t + dt, y + dt * k3)
    return y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def integrate(f, y, t1, dt, step=rk4):
    t, out = 0.0, [y]
    while t < t1:
        y = step(f, y, t, dt)
        t += dt
        out.append(y)
    return np.stack(out)


def adaptive(f, y, t1, tol=1e-4):
    t, dt, tries = 0.0, 0.1, 0
    while t < t1:
        dt = min(dt, t1 - t)
        whole = rk4(f, y, t, dt)
        half = rk4(f, rk4(f, y, t, dt / 2), t + dt / 2, dt / 2)
        error = np.abs(whole - half).max()
        tries += 1
        if error > tol:
            dt /= 2
            continue
        t, y = t + dt, half
        dt *= 1.5 if error < tol / 10 else 1
    return y, tries


def pendulum(t, s, g=9.81):
    return np.array([s[1], -g * np.sin(s[0])])


TOLERANCE = 1e-6


def main():
    out = [integrate(make_lorenz(), np.ones(3), 0.5, 0.01)]
    out.append(integrate(make_lorenz(rho=14), np.ones(3), 0.3, 0.01))
    out.append(integrate(lambda t, y: -y * t, np.linspace(0, 1, 4), 1, 0.1))
    out.append(integrate(pendulum, np.array([1.0, 0]), 1, 0.05, step=lambda f, y, t, dt: y + dt * f(t, y)))
    out.append(adaptive(pendulum, np.array([0.5, 0.1]), 2.0))
    out.append(integrate(make_lorenz(), np.ones((3, 4), "f4"), 0.05, 0.01))
    return out
