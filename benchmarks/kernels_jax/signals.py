"""Filters, transforms and correlations."""

import jax.numpy as jnp
from jax import lax, vmap

from . import version


@version("iir_filter")
def iir_filter(x, b, a):
    order = len(b) - 1

    def step(state, value):
        inputs, outputs = state
        inputs = jnp.concatenate([value[None], inputs])
        new = b @ inputs - a[1:] @ outputs
        return (inputs[:-1], jnp.concatenate([new[None], outputs[:-1]])), new

    return lax.scan(step, (jnp.zeros(order), jnp.zeros(order)), x)[1]


@version("biquad")
def biquad(x, b, a):
    def step(state, value):
        z1, z2 = state
        y = b[0] * value + z1
        return (b[1] * value - a[1] * y + z2, b[2] * value - a[2] * y), y

    return lax.scan(step, (0.0, 0.0), x)[1]


@version("exponential_smoothing")
def exponential_smoothing(x, alpha):
    def step(before, value):
        new = alpha * value + (1 - alpha) * before
        return new, new

    return jnp.concatenate([x[:1], lax.scan(step, x[0], x[1:])[1]])


@version("deriche")
def deriche(alpha, image):
    e = jnp.exp(-alpha)
    k = (1.0 - e) * (1.0 - e) / (1.0 + 2.0 * alpha * e - e**2)
    a1, a2, a3, a4 = k, k * e * (alpha - 1.0), k * e * (alpha + 1.0), -k * e**2
    b1, b2 = 2.0 * e, -(e**2)

    def both_ways(rows):
        """Along the first axis."""
        nothing = jnp.zeros_like(rows[0])

        def there(state, x):
            before, y1, y2 = state
            y = a1 * x + a2 * before + b1 * y1 + b2 * y2
            return (x, y, y1), y

        def back(state, x):
            x1, x2, y1, y2 = state
            y = a3 * x1 + a4 * x2 + b1 * y1 + b2 * y2
            return (x, x1, y, y1), y

        forwards = lax.scan(there, (nothing,) * 3, rows)[1]
        return forwards + lax.scan(back, (nothing,) * 4, rows, reverse=True)[1]

    return both_ways(both_ways(image.T).T)


@version("fft_stockham")
def fft_stockham(x):
    y, length = x.reshape(-1, 1), x.size
    while length > 1:
        half = length // 2
        w = jnp.exp(-2j * jnp.pi * jnp.arange(half) / length)[:, None]
        y = jnp.concatenate([y[:half] + y[half:], (y[:half] - y[half:]) * w], axis=1)
        length = half
    return y.reshape(-1)


@version("fourier_sums")
def fourier_sums(x):
    places = jnp.arange(len(x))
    return vmap(lambda k: jnp.sum(x * jnp.exp(-2j * jnp.pi * k * places / len(x))))(places)


@version("goertzel")
def goertzel(x, frequencies):
    c = 2.0 * jnp.cos(frequencies)

    def step(state, value):
        s1, s2 = state
        return (value + c * s1 - s2, s1), None

    (s1, s2), _ = lax.scan(step, (jnp.zeros_like(c), jnp.zeros_like(c)), x)
    return s1 * s1 + s2 * s2 - c * s1 * s2


@version("convolution_elements")
def convolution(x, w):
    return jnp.convolve(x, w, "valid")


@version("autocorrelation", static=("most",))
def autocorrelation(x, most):
    d = x - x.mean()
    padded = jnp.concatenate([d, jnp.zeros(most)])
    return lax.map(lambda lag: d @ lax.dynamic_slice(padded, (lag,), d.shape), jnp.arange(most)) / (d @ d)


@version("haar_wavelet")
def haar_wavelet(x):
    highs = []
    while x.size > 1:
        highs.insert(0, (x[0::2] - x[1::2]) / jnp.sqrt(2.0))
        x = (x[0::2] + x[1::2]) / jnp.sqrt(2.0)
    return jnp.concatenate([x, *highs])
