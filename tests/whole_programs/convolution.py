"""Image convolution with stride tricks, with sliding windows, and with loops over the kernel."""

import numpy as np
from numpy.lib.stride_tricks import as_strided, sliding_window_view


def strided(image, kernel):
    kh, kw = kernel.shape
    h, w = image.shape
    windows = as_strided(image, (h - kh + 1, w - kw + 1, kh, kw), image.strides * 2)
    return np.einsum("ijkl,kl->ij", windows, kernel)


def windowed(image, kernel):
    return (sliding_window_view(image, kernel.shape) * kernel).sum(axis=(2, 3))


def looped(image, kernel):
    kh, kw = kernel.shape
    padded = np.pad(image, ((kh // 2, kh // 2), (kw // 2, kw // 2)), mode="edge")
    out = np.zeros(image.shape, dtype=np.result_type(image, kernel))
    for i in range(kh):
        for j in range(kw):
            out += padded[i : i + image.shape[0], j : j + image.shape[1]] * kernel[i, j]
    return out


def edges(image):
    gx = looped(image, np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]]))
    gy = looped(image, np.array([[1, 2, 1], [0, 0, 0], [-1, -2, -1]]))
    size = np.hypot(gx, gy)
    return (255 * size / size.max()).clip(0, 255).astype(np.uint8)


TOLERANCE = 1e-12


def main():
    rng = np.random.default_rng(0)
    out = []
    for shape, dtype in [((12, 15), "f8"), ((9, 9), "f4"), ((10, 11), "i4"), ((6, 20), "u1")]:
        image = (rng.random(shape) * 200).astype(dtype)
        blur = np.ones((3, 3)) / 9
        out += [strided(image, blur), windowed(image, blur), looped(image, blur), edges(image)]
        out.append(windowed(image[::-1, ::2], blur[:, :2]))
    return out
