"""Filters, transforms and correlations of signals of one dimension."""

import numpy as np
from scipy import signal

from .table import kernel


def noise_and_filter(random, n, order):
    return random.normal(size=n), *signal.butter(order, 0.2)


def filtered(x, b, a):
    return signal.lfilter(b, a, x)


@kernel(noise_and_filter, (12, 3), (2000, 4), (20_000, 4), (200_000, 4), reference=filtered)
def iir_filter(x, b, a):
    """Any order: each output is a product of a few of the inputs and outputs before."""
    order = len(b) - 1
    y = np.zeros(len(x) + order)
    padded = np.concatenate([np.zeros(order), x])
    for i in range(len(x)):
        y[i + order] = b @ padded[i : i + order + 1][::-1] - a[1:] @ y[i : i + order][::-1]
    return y[order:]


@kernel(
    *(noise_and_filter, (12, 2), (10_000, 2), (100_000, 2), (1_000_000, 2)),
    reference=filtered,
    numba=True,
)
def biquad(x, b, a):
    y = np.empty_like(x)
    z1 = z2 = 0.0
    for i in range(x.shape[0]):
        y[i] = b[0] * x[i] + z1
        z1 = b[1] * x[i] - a[1] * y[i] + z2
        z2 = b[2] * x[i] - a[2] * y[i]
    return y


def noisy(random, n):
    return random.normal(size=n), 0.1


def smoothed_by_filter(x, alpha):
    return signal.lfilter([alpha], [1.0, alpha - 1.0], x, zi=[(1.0 - alpha) * x[0]])[0]


@kernel(noisy, 9, 22_000, 220_000, 2_200_000, reference=smoothed_by_filter, numba=True)
def exponential_smoothing(x, alpha):
    y = np.empty_like(x)
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = alpha * x[i] + (1 - alpha) * y[i - 1]
    return y


def picture_and_alpha(random, width, height):
    return 0.25, random.random((width, height))


def edges_by_filter(alpha, image):
    """Each of the four passes is a filter of second order."""
    e = np.exp(-alpha)
    k = (1.0 - e) ** 2 / (1.0 + 2.0 * alpha * e - e**2)
    a = [1.0, -2.0 * e, e**2]

    def both_ways(rows):
        there = signal.lfilter([k, k * e * (alpha - 1.0)], a, rows)
        back = signal.lfilter([0.0, k * e * (alpha + 1.0), -k * e**2], a, rows[:, ::-1])
        return there + back[:, ::-1]

    return both_ways(both_ways(image).T).T


@kernel(picture_and_alpha, (6, 8), (260, 240), (800, 700), (2400, 2000), reference=edges_by_filter, elementary=True)
def deriche(alpha, image):
    """A recursive smoothing filter, along rows and then along columns, forwards and backwards."""
    width, height = image.shape
    e = np.exp(-alpha)
    k = (1.0 - e) * (1.0 - e) / (1.0 + 2.0 * alpha * e - e**2)
    a1, a2, a3, a4 = k, k * e * (alpha - 1.0), k * e * (alpha + 1.0), -k * e**2
    b1, b2 = 2.0 * e, -(e**2)
    y1, y2 = np.empty_like(image), np.empty_like(image)
    y1[:, 0] = a1 * image[:, 0]
    y1[:, 1] = a1 * image[:, 1] + a2 * image[:, 0] + b1 * y1[:, 0]
    for j in range(2, height):
        y1[:, j] = a1 * image[:, j] + a2 * image[:, j - 1] + b1 * y1[:, j - 1] + b2 * y1[:, j - 2]
    y2[:, -1] = 0.0
    y2[:, -2] = a3 * image[:, -1]
    for j in range(height - 3, -1, -1):
        y2[:, j] = a3 * image[:, j + 1] + a4 * image[:, j + 2] + b1 * y2[:, j + 1] + b2 * y2[:, j + 2]
    out = y1 + y2
    y1[0, :] = a1 * out[0, :]
    y1[1, :] = a1 * out[1, :] + a2 * out[0, :] + b1 * y1[0, :]
    for i in range(2, width):
        y1[i, :] = a1 * out[i, :] + a2 * out[i - 1, :] + b1 * y1[i - 1, :] + b2 * y1[i - 2, :]
    y2[-1, :] = 0.0
    y2[-2, :] = a3 * out[-1, :]
    for i in range(width - 3, -1, -1):
        y2[i, :] = a3 * out[i + 1, :] + a4 * out[i + 2, :] + b1 * y2[i + 1, :] + b2 * y2[i + 2, :]
    return y1 + y2


def complex_signal(random, bits):
    return (random.normal(size=2**bits) + 1j * random.normal(size=2**bits),)


@kernel(complex_signal, 4, 16, 19, 22, reference=np.fft.fft, elementary=True)
def fft_stockham(x):
    """Radix 2, in order: the shapes of the views are powers of the stage."""
    n = x.size
    y = x.reshape(n, 1)
    length, stride = n, 1
    while length > 1:
        half = length // 2
        w = np.exp(-2j * np.pi * np.arange(half) / length)[:, None]
        top, bottom = y[:half], y[half:]
        z = np.empty((half, 2 * stride), dtype=complex)
        z[:, :stride] = top + bottom
        z[:, stride:] = (top - bottom) * w
        y = z
        length, stride = half, 2 * stride
    return y.reshape(n)


@kernel(complex_signal, 3, 11, 14, 17, reference=np.fft.fft, elementary=True, numba=True)
def fft_elements(x):
    """Radix 2, in place behind a permutation by reversed bits."""
    n = len(x)
    y = x.copy()
    j = 0
    for i in range(1, n):
        bit = n >> 1
        while j & bit:
            j ^= bit
            bit >>= 1
        j ^= bit
        if i < j:
            y[i], y[j] = y[j], y[i]
    length = 2
    while length <= n:
        w = np.exp(-2j * np.pi / length)
        for start in range(0, n, length):
            turn = 1.0 + 0.0j
            for k in range(start, start + length // 2):
                u = y[k]
                v = y[k + length // 2] * turn
                y[k] = u + v
                y[k + length // 2] = u - v
                turn *= w
        length *= 2
    return y


def real_signal(random, n):
    return (random.normal(size=n),)


@kernel(real_signal, 8, 400, 1500, 5000, reference=np.fft.fft, elementary=True, rtol=1e-8)
def fourier_sums(x):
    n = len(x)
    places = np.arange(n)
    result = np.empty(n, dtype=complex)
    for k in range(n):
        result[k] = np.sum(x * np.exp(-2j * np.pi * k * places / n))
    return result


def tones(random, n, count):
    return random.normal(size=n), random.random(count) * np.pi


def power_at(x, frequencies):
    return np.abs(np.exp(-1j * np.outer(frequencies, np.arange(len(x)))) @ x) ** 2


@kernel(
    *(tones, (12, 3), (1500, 40), (5000, 120), (15_000, 400)),
    reference=power_at,
    elementary=True,
    numba=True,
    rtol=1e-6,
)
def goertzel(x, frequencies):
    powers = np.zeros(len(frequencies))
    for k in range(len(frequencies)):
        c = 2.0 * np.cos(frequencies[k])
        s1 = 0.0
        s2 = 0.0
        for value in x:
            s1, s2 = value + c * s1 - s2, s1
        powers[k] = s1 * s1 + s2 * s2 - c * s1 * s2
    return powers


def signal_and_window(random, n, m):
    return random.normal(size=n), random.normal(size=m)


@kernel(
    *(signal_and_window, (12, 4), (1800, 18), (8000, 50), (30_000, 120)),
    reference=lambda x, w: np.convolve(x, w, "valid"),
    numba=True,
)
def convolution_elements(x, w):
    n = len(x) - len(w) + 1
    y = np.zeros(n)
    for i in range(n):
        total = 0.0
        for j in range(len(w)):
            total += x[i + j] * w[len(w) - 1 - j]
        y[i] = total
    return y


def lags(random, n, most):
    return random.normal(size=n), most


def correlated_by_numpy(x, most):
    d = x - x.mean()
    return np.correlate(d, d, "full")[len(d) - 1 :][:most] / (d @ d)


@kernel(lags, (9, 4), (10_000, 700), (40_000, 3000), (150_000, 8000), reference=correlated_by_numpy, numba=True)
def autocorrelation(x, most):
    d = x - x.mean()
    result = np.zeros(most)
    for lag in range(most):
        result[lag] = np.sum(d[: len(d) - lag] * d[lag:])
    return result / np.sum(d * d)




def haar_as_matrix(x):
    if len(x) == 1:
        return x
    pairs = x.reshape(-1, 2) @ np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2.0)
    return np.concatenate([haar_as_matrix(pairs[:, 0]), pairs[:, 1]])


@kernel(lambda random, bits: (random.normal(size=2**bits),), 4, 20, 23, 24, reference=haar_as_matrix, numba=True)
def haar_wavelet(x):
    """What is transformed gets half as long each time."""
    y = x.copy()
    n = y.size
    while n > 1:
        half = n // 2
        low = (y[0:n:2] + y[1:n:2]) / np.sqrt(2.0)
        high = (y[0:n:2] - y[1:n:2]) / np.sqrt(2.0)
        y[:half] = low
        y[half:n] = high
        n = half
    return y
