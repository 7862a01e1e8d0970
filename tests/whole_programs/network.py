"""A small network trained by gradient descent: dicts of parameters, momentum, softmax, dropout."""

import numpy as np


def relu(x):
    return np.maximum(x, 0)


def softmax(logits):
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def init(rng, sizes):
    return {
        f"{kind}{i}": rng.standard_normal((a, b)) * np.sqrt(2 / a) if kind == "W" else np.zeros(b)
        for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:]))
        for kind in "Wb"
    }


def forward(p, x, keep=None):
    cache = {"x": x}
    h = relu(x @ p["W0"] + p["b0"])
    if keep is not None:
        h = h * keep / 0.8
    cache["h"] = h
    cache["p"] = softmax(h @ p["W1"] + p["b1"])
    return cache


def backward(p, cache, y):
    n = y.shape[0]
    d = cache["p"].copy()
    d[np.arange(n), y] -= 1
    d /= n
    grads = {"W1": cache["h"].T @ d, "b1": d.sum(0)}
    dh = d @ p["W1"].T
    dh[cache["h"] <= 0] = 0
    grads["W0"], grads["b0"] = cache["x"].T @ dh, dh.sum(axis=0)
    return grads


def loss(probs, y):
    return -np.log(probs[range(len(y)), y] + 1e-9).mean()


def train(p, x, y, steps, lr, rng):
    velocity = {k: np.zeros_like(v) for k, v in p.items()}
    losses = []
    for step in range(steps):
        keep = (rng.random((len(x), 6)) < 0.8) if step % 2 else None
        cache = forward(p, x, keep)
        grads = backward(p, cache, y)
        for k in p:
            velocity[k] = 0.9 * velocity[k] - lr * grads[k]
            p[k] += velocity[k]
        losses.append(loss(cache["p"], y))
        if step and losses[-1] > 1e3:
            raise FloatingPointError("diverged")
    return losses


TOLERANCE = 1e-7


def main():
    rng = np.random.default_rng(4)
    out = []
    for n in (12, 20, 12):
        x = rng.standard_normal((n, 4))
        y = (x.sum(1) > 0).astype(int) + (x[:, 0] > 1)
        p = init(rng, [4, 6, 3])
        out += [train(p, x, y, 25, 0.1, rng), p]
    return out
