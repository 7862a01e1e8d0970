"""Random numbers: the state of generators must move as it does without capture."""

import numpy as np


def pi(rng, n):
    x, y = rng.random((2, n))
    return 4 * np.mean(x * x + y * y < 1)


def walk(rng, steps, walkers=5):
    moves = rng.choice([-1, 1], size=(steps, walkers))
    path = moves.cumsum(axis=0)
    return path, np.abs(path).max(axis=0), (path == 0).any(axis=0)


def paths(rng, spot, rate, vol, years, steps, n):
    dt = years / steps
    z = rng.standard_normal((steps, n))
    log = np.cumsum((rate - 0.5 * vol**2) * dt + vol * np.sqrt(dt) * z, axis=0)
    s = spot * np.exp(log)
    payoff = np.maximum(s.mean(axis=0) - 100, 0)
    return np.exp(-rate * years) * payoff.mean(), payoff.std() / np.sqrt(n)


def bootstrap(data, rng, n=50):
    means = np.empty(n)
    for i in range(n):
        sample = data[rng.integers(0, len(data), len(data))]
        means[i] = sample.mean()
    return np.percentile(means, [2.5, 50, 97.5]), means.std(ddof=1)


def metropolis(rng, steps):
    x, kept, chain = 0.0, 0, []
    for _ in range(steps):
        new = x + rng.normal()
        if np.log(rng.random()) < (x * x - new * new) / 2:
            x, kept = new, kept + 1
        chain.append(x)
    return np.array(chain), kept


TOLERANCE = 1e-12


def main():
    rng = np.random.default_rng(7)
    out = []
    for n in (100, 1000, 100):
        out += [pi(rng, n), walk(rng, n), paths(rng, 100.0, 0.05, 0.2, 1, 10, n), bootstrap(rng.random(n), rng)]
        out.append(metropolis(rng, n))
    np.random.seed(5)
    out += [np.random.rand(3) + np.random.randn(3), rng.random(), rng.permutation(6)]
    return out
