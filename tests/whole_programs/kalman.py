"""A Kalman filter: a dataclass of matrices that are replaced at each step."""

from dataclasses import dataclass, field, replace

import numpy as np


@dataclass
class Filter:
    F: np.ndarray
    H: np.ndarray
    Q: np.ndarray
    R: np.ndarray
    x: np.ndarray
    P: np.ndarray
    history: list = field(default_factory=list)

    def predict(self):
        self.x = self.F @ self.x
        self.P = self.F @ self.P @ self.F.T + self.Q

    def update(self, z):
        y = z - self.H @ self.x
        S = self.H @ self.P @ self.H.T + self.R
        K = self.P @ self.H.T @ np.linalg.inv(S)
        self.x = self.x + K @ y
        self.P = (np.eye(len(self.x)) - K @ self.H) @ self.P
        self.history.append(self.x.copy())


@dataclass(frozen=True)
class State:
    mean: float
    var: float

    def update(self, z, r):
        k = self.var / (self.var + r)
        return replace(self, mean=self.mean + k * (z - self.mean), var=(1 - k) * self.var)


def track(kf, zs):
    for z in zs:
        kf.predict()
        if not np.isnan(z).any():
            kf.update(z)
    return np.array(kf.history)


def main():
    rng = np.random.default_rng(11)
    out = []
    for dt in (0.1, 1.0, 0.5):
        zs = np.arange(20)[:, None] * dt + rng.normal(0, 0.1, (20, 1))
        zs[5] = np.nan
        f = Filter(
            np.array([[1, dt], [0, 1]]), np.array([[1.0, 0]]), np.eye(2) * 1e-3, np.array([[0.01]]), np.zeros(2), np.eye(2)
        )
        out.append(track(f, zs))
        out += [f.x, f.P]
        s = State(0.0, 1.0)
        for z in zs[6:, 0]:
            s = s.update(z, 0.1)
        out.append((s.mean, s.var))
    return out
