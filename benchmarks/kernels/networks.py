"""Inference with neural networks: loops around products of arrays, and loops over single numbers."""

import itertools

import numpy as np
from scipy import signal, special

from .table import kernel


def weights(random, *shape):
    """float32, of a size that keeps what comes out near one."""
    return (random.normal(size=shape) / np.sqrt(np.prod(shape[:-1]))).astype(np.float32)


def relu(x):
    return np.maximum(x, 0)


def layers_of(random, batch, *widths):
    layers = [(weights(random, a, b), weights(random, 1, b)[0]) for a, b in itertools.pairwise(widths)]
    return weights(random, widths[0], batch).T.copy(), layers


def probabilities(x, layers):
    x = x.astype(float)
    for W, b in layers[:-1]:
        x = (x @ W + b).clip(0.0)
    return special.softmax(x @ layers[-1][0] + layers[-1][1], axis=1)


@kernel(
    *(layers_of, (3, 5, 6, 4), (256, 600, 800, 800, 10), (1024, 900, 1500, 1500, 10), (2048, 2000, 4000, 3000, 100)),
    reference=probabilities,
    elementary=True,
    rtol=1e-4,
)
def mlp(x, layers):
    for W, b in layers[:-1]:
        x = np.maximum(x @ W + b, 0)
    W, b = layers[-1]
    x = x @ W + b
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def dense(random, n, m):
    return random.normal(size=n), random.normal(size=(m, n)) / n, random.normal(size=m)


def dense_at_once(x, W, b):
    return (W @ x + b).clip(0.0)


@kernel(dense, (5, 4), (170, 130), (500, 420), (1900, 1500), reference=dense_at_once, numba=True)
def dense_elements(x, W, b):
    y = np.zeros(W.shape[0])
    for i in range(W.shape[0]):
        total = b[i]
        for j in range(W.shape[1]):
            total += W[i, j] * x[j]
        y[i] = total if total > 0.0 else 0.0
    return y


def conv2d(images, W):
    """Images of shape N, H, W, C; without a border."""
    k = W.shape[0]
    n, rows, columns, _ = images.shape
    out = np.empty((n, rows - k + 1, columns - k + 1, W.shape[3]), dtype=images.dtype)
    for i in range(rows - k + 1):
        for j in range(columns - k + 1):
            window = images[:, i : i + k, j : j + k, :, np.newaxis]
            out[:, i, j, :] = np.sum(window * W[np.newaxis], axis=(1, 2, 3))
    return out


def correlated_channels(images, W):
    """Each pair of channels by SciPy."""
    images, W = images.astype(float), W.astype(float)
    return np.stack(
        [
            sum(signal.oaconvolve(images[..., c], W[None, ::-1, ::-1, c, f], "valid") for c in range(W.shape[2]))
            for f in range(W.shape[3])
        ],
        axis=-1,
    )


def images_and_filters(random, n, side, channels, k, filters):
    return random.random((n, side, side, channels), dtype=np.float32), weights(random, k, k, channels, filters)


@kernel(
    *(images_and_filters, (1, 4, 2, 3, 2), (1, 10, 3, 3, 8), (1, 20, 4, 5, 8), (2, 25, 6, 5, 16)),
    reference=correlated_channels,
    numba=True,
    rtol=1e-3,
)
def convolution_layer_elements(images, W):
    n, rows, columns, channels = images.shape
    k, filters = W.shape[0], W.shape[3]
    out = np.zeros((n, rows - k + 1, columns - k + 1, filters), dtype=np.float32)
    for image in range(n):
        for i in range(rows - k + 1):
            for j in range(columns - k + 1):
                for f in range(filters):
                    for a in range(k):
                        for b in range(k):
                            for c in range(channels):
                                out[image, i, j, f] += images[image, i + a, j + b, c] * W[a, b, c, f]
    return out


@kernel(
    *(images_and_filters, (2, 5, 2, 3, 3), (4, 20, 3, 5, 12), (8, 40, 3, 7, 16), (8, 80, 3, 9, 16)),
    reference=correlated_channels,
    rtol=1e-3,
    numba=convolution_layer_elements,
)
def convolution_layer(images, W):
    return relu(conv2d(images, W)) - relu(-conv2d(images, W))


def max_pool(x):
    n, rows, columns, channels = x.shape
    out = np.empty((n, rows // 2, columns // 2, channels), dtype=x.dtype)
    for i in range(rows // 2):
        for j in range(columns // 2):
            out[:, i, j, :] = np.max(x[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2, :], axis=(1, 2))
    return out


def pooled_by_reshaping(x):
    n, rows, columns, channels = x.shape
    return x[:, : rows // 2 * 2, : columns // 2 * 2].reshape(n, rows // 2, 2, columns // 2, 2, channels).max((2, 4))


def lenet_weights(random, n, side):
    flat = ((side - 4) // 2 - 4) // 2
    shapes = [(5, 5, 1, 6), (5, 5, 6, 16), (16 * flat * flat, 120), (120, 84), (84, 10)]
    return random.random((n, side, side, 1), dtype=np.float32), *(weights(random, *shape) for shape in shapes)


def lenet_by_scipy(x, conv1, conv2, W1, W2, W3):
    x = pooled_by_reshaping(correlated_channels(x, conv1).clip(0.0))
    x = pooled_by_reshaping(correlated_channels(x, conv2).clip(0.0))
    x = x.reshape(len(x), -1)
    return (((x @ W1).clip(0.0) @ W2).clip(0.0)) @ W3


@kernel(lenet_weights, (1, 16), (1, 28), (16, 40), (48, 64), reference=lenet_by_scipy, rtol=1e-3)
def lenet(images, conv1, conv2, W1, W2, W3):
    x = max_pool(relu(conv2d(images, conv1)))
    x = max_pool(relu(conv2d(x, conv2)))
    x = x.reshape(x.shape[0], x.shape[1] * x.shape[2] * x.shape[3])
    x = relu(x @ W1)
    x = relu(x @ W2)
    return x @ W3


def block(random, n, side, channels, inner):
    filters = [(1, 1, channels, inner), (3, 3, inner, inner), (1, 1, inner, channels)]
    return random.random((n, side, side, channels), dtype=np.float32), *(weights(random, *shape) for shape in filters)


def batch_norm(x):
    mean = np.mean(x, axis=0, keepdims=True)
    deviation = np.std(x, axis=0, keepdims=True)
    return (x - mean) / np.sqrt(deviation + 1e-5)


def block_by_scipy(x, W1, W2, W3):
    y = batch_norm(correlated_channels(x, W1)).clip(0.0)
    y = correlated_channels(np.pad(y, ((0, 0), (1, 1), (1, 1), (0, 0))), W2)
    y = batch_norm(y).clip(0.0)
    return (batch_norm(correlated_channels(y, W3)) + x).clip(0.0)


@kernel(block, (2, 4, 3, 2), (6, 12, 16, 12), (12, 26, 32, 16), (12, 56, 64, 32), reference=block_by_scipy, rtol=1e-3)
def resnet_block(x, W1, W2, W3):
    y = relu(batch_norm(conv2d(x, W1)))
    padded = np.zeros((y.shape[0], y.shape[1] + 2, y.shape[2] + 2, y.shape[3]), dtype=y.dtype)
    padded[:, 1:-1, 1:-1, :] = y
    y = relu(batch_norm(conv2d(padded, W2)))
    return relu(batch_norm(conv2d(y, W3)) + x)


def heads(random, count, length, width):
    return tuple(weights(random, width, length, count).T.copy() for _ in range(3))


def attention_by_einsum(q, k, v):
    scores = np.einsum("hid,hjd->hij", q, k, dtype=float) / np.sqrt(q.shape[-1])
    scores[:, ~np.tri(q.shape[1], dtype=bool)] = -np.inf
    return special.softmax(scores, axis=-1) @ v


@kernel(
    *(heads, (2, 4, 3), (4, 180, 32), (12, 450, 48), (20, 1200, 64)),
    reference=attention_by_einsum,
    elementary=True,
    rtol=1e-4,
)
def causal_attention(q, k, v):
    """Head by head, token by token, each looking at those before."""
    out = np.empty_like(v)
    scale = 1.0 / np.sqrt(q.shape[-1]).astype(np.float32)
    for head in range(q.shape[0]):
        for t in range(q.shape[1]):
            scores = k[head, : t + 1] @ q[head, t] * scale
            e = np.exp(scores - scores.max())
            out[head, t] = (e / e.sum()) @ v[head, : t + 1]
    return out


def sequence(random, steps, width, hidden):
    return random.normal(size=(steps, width)), *(
        random.normal(size=(rows, 3 * hidden)) / np.sqrt(rows) for rows in (width, hidden)
    )


def gru_with_expit(x, W, U):
    h, states = np.zeros(len(U)), []
    for gates in x @ W:
        (a, b, c), (d, e, f) = np.split(gates, 3), np.split(h @ U, 3)
        z = special.expit(a + d)
        h = z * h + (1.0 - z) * np.tanh(c + special.expit(b + e) * f)
        states.append(h)
    return np.array(states)


@kernel(sequence, (3, 2, 4), (500, 24, 48), (2500, 64, 96), (5000, 128, 400), reference=gru_with_expit, elementary=True)
def gru(x, W, U):
    n = U.shape[0]
    h = np.zeros(n)
    states = np.zeros((x.shape[0], n))
    for t in range(x.shape[0]):
        gates = x[t] @ W
        inner = h @ U
        z = 1.0 / (1.0 + np.exp(-(gates[:n] + inner[:n])))
        r = 1.0 / (1.0 + np.exp(-(gates[n : 2 * n] + inner[n : 2 * n])))
        candidate = np.tanh(gates[2 * n :] + r * inner[2 * n :])
        h = z * h + (1.0 - z) * candidate
        states[t] = h
    return states


def training_set(random, n, inputs, hidden, steps):
    x = random.normal(size=(n, inputs))
    y = np.sin(x.sum(axis=1, keepdims=True))
    return x, y, random.normal(size=(inputs, hidden)), random.normal(size=(hidden, 1)) / hidden, steps, 0.02


@kernel(training_set, (6, 2, 3, 3), (300, 4, 20, 120), (600, 8, 64, 250), (2000, 16, 128, 500), elementary=True)
def train_two_layers(x, y, W1, W2, steps, rate):
    """Gradient descent by hand; the losses, and the weights in place."""
    losses = []
    for _ in range(steps):
        hidden = np.tanh(x @ W1)
        error = hidden @ W2 - y
        losses.append(np.mean(error**2))
        grad_out = 2.0 * error / len(x)
        grad_hidden = (grad_out @ W2.T) * (1.0 - hidden**2)
        W2 -= rate * (hidden.T @ grad_out)
        W1 -= rate * (x.T @ grad_hidden)
    return losses
