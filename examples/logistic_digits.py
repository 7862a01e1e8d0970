"""Learns to tell handwritten digits apart (softmax regression on scikit-learn's images), plain and under evalframe.

    python examples/logistic_digits.py [--steps 400]
"""

import argparse
import time

import numpy as np
from sklearn.datasets import load_digits

import evalframe


def softmax(scores):
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def train_step(X, Y, W, b, rate, decay):
    """One step down the gradient; Y has a 1 in the column of the right digit. The new weights, and the loss before."""
    P = softmax(X @ W + b)
    loss = -np.mean(np.sum(Y * np.log(P + 1e-12), axis=1)) + 0.5 * decay * np.sum(W * W)
    G = (P - Y) / X.shape[0]
    return W - rate * (X.T @ G + decay * W), b - rate * G.sum(axis=0), loss


def train(step, X: np.ndarray, Y: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray, float, float]:
    W, b = np.zeros((X.shape[1], Y.shape[1])), np.zeros(Y.shape[1])
    loss = np.inf
    begin = time.perf_counter()
    for _ in range(steps):
        W, b, loss = step(X, Y, W, b, 0.5, 1e-4)
    return W, b, float(loss), time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args()
    if options.steps < 1:
        parser.error("--steps must be at least 1")

    images, digits = load_digits(return_X_y=True)
    images = images / 16.0
    train_count = 1347  # three quarters
    X, Y = images[:train_count], np.eye(10)[digits[:train_count]]

    plain_W, plain_b, plain_loss, plain = train(train_step, X, Y, options.steps)
    W, b, loss, jitted = train(evalframe.jit(train_step), X, Y, options.steps)
    if not (np.allclose(W, plain_W, rtol=1e-6, atol=1e-9) and np.allclose(b, plain_b, rtol=1e-6, atol=1e-9)):
        raise SystemExit(f"weights differ by {np.max(np.abs(W - plain_W)):.1e}")
    right = np.mean(np.argmax(images[train_count:] @ W + b, axis=1) == digits[train_count:])
    print(f"{options.steps} steps: loss {loss:.4f} (plain {plain_loss:.4f})")
    print(f"{right:.1%} of {len(images) - train_count} unseen digits right")
    print(f"plain NumPy      {plain:7.3f} s")
    print(f"under evalframe  {jitted:7.3f} s   {plain / jitted:.1f} times as fast, first call included")


if __name__ == "__main__":
    main()
