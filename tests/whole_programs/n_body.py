"""Bodies that attract each other: leapfrog steps on a class with state in arrays."""

import numpy as np


class System:
    gravity = 1.0

    def __init__(self, count, dtype, seed):
        rng = np.random.default_rng(seed)
        self.position = rng.standard_normal((count, 3)).astype(dtype)
        self.velocity = np.zeros_like(self.position)
        self.mass = rng.random(count).astype(dtype) + 1
        self.steps = 0

    @property
    def energy(self):
        kinetic = 0.5 * (self.mass * (self.velocity**2).sum(axis=1)).sum()
        return kinetic, self.steps

    def acceleration(self):
        apart = self.position[None, :, :] - self.position[:, None, :]
        squared = (apart**2).sum(axis=-1) + 0.01
        inverse = squared**-1.5
        np.fill_diagonal(inverse, 0)
        return self.gravity * (apart * inverse[:, :, None] * self.mass[None, :, None]).sum(axis=1)

    def step(self, dt=0.01):
        self.velocity += self.acceleration() * (dt / 2)
        self.position += self.velocity * dt
        self.velocity += self.acceleration() * (dt / 2)
        self.steps += 1
        return self


TOLERANCE = 1e-3


def main():
    results = []
    for count, dtype in [(5, "f8"), (7, "f4"), (3, "f8")]:
        system = System(count, dtype, count)
        for _ in range(20):
            assert system.step() is system
        System.gravity = 1.0 + count / 10
        system.step(dt=0.02)
        results += [system.position, system.velocity, system.energy]
    System.gravity = 1.0
    return results
