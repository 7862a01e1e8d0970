"""Inference with neural networks."""

import jax.numpy as jnp
from jax import lax, nn

from . import version


@version("mlp")
def mlp(x, layers):
    for W, b in layers[:-1]:
        x = nn.relu(x @ W + b)
    return nn.softmax(x @ layers[-1][0] + layers[-1][1])


@version("dense_elements")
def dense(x, W, b):
    return nn.relu(W @ x + b)


def conv2d(images, W):
    return lax.conv_general_dilated(images, W, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


@version("convolution_layer_elements")
def convolution_layer_elements(images, W):
    return conv2d(images, W)


@version("convolution_layer")
def convolution_layer(images, W):
    y = conv2d(images, W)
    return nn.relu(y) - nn.relu(-y)


def max_pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


@version("lenet")
def lenet(images, conv1, conv2, W1, W2, W3):
    x = max_pool(nn.relu(conv2d(images, conv1)))
    x = max_pool(nn.relu(conv2d(x, conv2)))
    x = x.reshape(x.shape[0], -1)
    return nn.relu(nn.relu(x @ W1) @ W2) @ W3


def batch_norm(x):
    return (x - x.mean(axis=0, keepdims=True)) / jnp.sqrt(x.std(axis=0, keepdims=True) + 1e-5)


@version("resnet_block")
def resnet_block(x, W1, W2, W3):
    y = nn.relu(batch_norm(conv2d(x, W1)))
    y = nn.relu(batch_norm(conv2d(jnp.pad(y, ((0, 0), (1, 1), (1, 1), (0, 0))), W2)))
    return nn.relu(batch_norm(conv2d(y, W3)) + x)


@version("causal_attention")
def causal_attention(q, k, v):
    scores = jnp.einsum("hid,hjd->hij", q, k) / jnp.sqrt(q.shape[-1]).astype(q.dtype)
    return nn.softmax(jnp.where(jnp.tri(q.shape[1], dtype=bool), scores, -jnp.inf)) @ v


@version("gru")
def gru(x, W, U):
    def step(h, gates):
        (a, b, c), (d, e, f) = jnp.split(gates, 3), jnp.split(h @ U, 3)
        z = nn.sigmoid(a + d)
        h = z * h + (1.0 - z) * jnp.tanh(c + nn.sigmoid(b + e) * f)
        return h, h

    return lax.scan(step, jnp.zeros(len(U)), x @ W)[1]


@version("train_two_layers", static=("steps",), changed=(2, 3))
def train_two_layers(x, y, W1, W2, steps, rate):
    def step(both, _):
        W1, W2 = both
        hidden = jnp.tanh(x @ W1)
        error = hidden @ W2 - y
        grad_out = 2.0 * error / len(x)
        grad_hidden = (grad_out @ W2.T) * (1.0 - hidden**2)
        return (W1 - rate * (x.T @ grad_hidden), W2 - rate * (hidden.T @ grad_out)), jnp.mean(error**2)

    (W1, W2), losses = lax.scan(step, (W1, W2), None, length=steps)
    return losses, W1, W2
