"""Filters, transformations and labellings of images."""

import numpy as np
from scipy import ndimage, signal

from .table import kernel


def grey(random, rows, columns):
    return (random.random((rows, columns)),)


def grey_bytes(random, rows, columns):
    return (random.integers(0, 256, (rows, columns), dtype=np.uint8),)


def grey_and_mask(random, rows, columns, k):
    return random.random((rows, columns)), random.normal(size=(k, k))


@kernel(
    *(grey_and_mask, (6, 7, 3), (42, 52, 3), (80, 90, 5), (180, 200, 7)),
    reference=lambda image, mask: signal.correlate2d(image, mask, "valid"),
    numba=True,
)
def convolve_elements(image, mask):
    m = mask.shape[0]
    rows, columns = image.shape[0] - m + 1, image.shape[1] - m + 1
    out = np.zeros((rows, columns))
    for i in range(rows):
        for j in range(columns):
            for a in range(m):
                for b in range(m):
                    out[i, j] += image[i + a, j + b] * mask[a, b]
    return out


@kernel(
    *(grey_and_mask, (6, 7, 3), (500, 520, 5), (1000, 1000, 9), (2200, 2200, 11)),
    reference=lambda image, mask: signal.correlate2d(image, mask, "valid"),
    numba=True,
)
def convolve_slices(image, mask):
    m = mask.shape[0]
    rows, columns = image.shape[0] - m + 1, image.shape[1] - m + 1
    out = np.zeros((rows, columns))
    for a in range(m):
        for b in range(m):
            out += mask[a, b] * image[a : a + rows, b : b + columns]
    return out


def gradient_by_ndimage(image):
    return np.hypot(ndimage.sobel(image, 1), ndimage.sobel(image, 0))[1:-1, 1:-1]


@kernel(grey, (6, 7), (50, 55), (160, 180), (500, 550), reference=gradient_by_ndimage, numba=True)
def sobel(image):
    rows, columns = image.shape
    out = np.zeros((rows - 2, columns - 2))
    for i in range(1, rows - 1):
        for j in range(1, columns - 1):
            gx = (
                image[i - 1, j + 1] + 2.0 * image[i, j + 1] + image[i + 1, j + 1]
                - image[i - 1, j - 1] - 2.0 * image[i, j - 1] - image[i + 1, j - 1]
            )  # fmt: skip
            gy = (
                image[i + 1, j - 1] + 2.0 * image[i + 1, j] + image[i + 1, j + 1]
                - image[i - 1, j - 1] - 2.0 * image[i - 1, j] - image[i - 1, j + 1]
            )  # fmt: skip
            out[i - 1, j - 1] = np.sqrt(gx * gx + gy * gy)
    return out


def middle_of_nine(image):
    return ndimage.median_filter(image, 3)[1:-1, 1:-1]


@kernel(
    *(grey, (5, 6), (30, 40), (95, 120), (300, 380)),
    reference=middle_of_nine,
    numba=True,
)
def median_sorted(image):
    """With a sort of its own of the nine pixels."""
    rows, columns = image.shape
    out = np.empty((rows - 2, columns - 2))
    window = np.empty(9)
    for i in range(1, rows - 1):
        for j in range(1, columns - 1):
            k = 0
            for a in range(-1, 2):
                for b in range(-1, 2):
                    value = image[i + a, j + b]
                    place = k
                    while place > 0 and window[place - 1] > value:
                        window[place] = window[place - 1]
                        place -= 1
                    window[place] = value
                    k += 1
            out[i - 1, j - 1] = window[4]
    return out


@kernel(grey, (5, 6), (25, 30), (75, 90), (250, 280), reference=middle_of_nine, numba=median_sorted)
def median_filter(image):
    rows, columns = image.shape
    out = np.empty((rows - 2, columns - 2))
    for i in range(rows - 2):
        for j in range(columns - 2):
            out[i, j] = np.median(image[i : i + 3, j : j + 3])
    return out


def box_sums(image, radius):
    size = 2 * radius + 1
    return ndimage.uniform_filter(image, size)[radius:-radius, radius:-radius]


def square_and_radius(random, n, radius):
    return random.random((n, n)), radius


@kernel(square_and_radius, (9, 1), (90, 5), (280, 8), (850, 12), reference=box_sums, numba=True)
def box_blur(image, radius):
    """By a table of sums, which takes the same time for any radius."""
    rows, columns = image.shape
    sums = np.zeros((rows + 1, columns + 1))
    for i in range(rows):
        row = 0.0
        for j in range(columns):
            row += image[i, j]
            sums[i + 1, j + 1] = sums[i, j + 1] + row
    size = 2 * radius + 1
    out = np.empty((rows - 2 * radius, columns - 2 * radius))
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = (sums[i + size, j + size] - sums[i, j + size] - sums[i + size, j] + sums[i, j]) / size**2
    return out


def eroded(image):
    return ndimage.grey_erosion(image, 5)[2:-2, 2:-2]


@kernel(grey_bytes, (6, 7), (1500, 1600), (4000, 4500), (9000, 9000), reference=eroded)
def erosion(image):
    rows, columns = image.shape
    out = np.full((rows - 4, columns - 4), 255, dtype=np.uint8)
    for a in range(5):
        for b in range(5):
            out = np.minimum(out, image[a : rows - 4 + a, b : columns - 4 + b])
    return out


def equalised_by_table(image):
    counts = np.bincount(image.ravel(), minlength=256)
    below = counts.cumsum()
    lowest = below[np.flatnonzero(counts)[0]]
    scaled = np.round((below - lowest) * 255.0 / max(image.size - lowest, 1))
    return scaled.clip(0.0, 255.0).astype(np.uint8)[image]


@kernel(grey_bytes, (6, 7), (110, 130), (350, 400), (1100, 1300), reference=equalised_by_table, numba=True)
def equalise_histogram(image):
    rows, columns = image.shape
    counts = np.zeros(256, dtype=np.int64)
    for i in range(rows):
        for j in range(columns):
            counts[image[i, j]] += 1
    below = np.cumsum(counts)
    lowest = 0
    for level in range(256):
        if counts[level] > 0:
            lowest = below[level]
            break
    out = np.empty_like(image)
    table = np.zeros(256, dtype=np.uint8)
    for level in range(256):
        value = np.round((below[level] - lowest) * 255.0 / max(rows * columns - lowest, 1))
        table[level] = int(min(max(value, 0.0), 255.0))
    for i in range(rows):
        for j in range(columns):
            out[i, j] = table[image[i, j]]
    return out


@kernel(lambda random, n, m: (255.0 * random.random((n, m)),), (5, 6), (60, 65), (200, 210), (650, 680), numba=True)
def dither(image):
    """Floyd and Steinberg's: what is rounded off goes to the pixels that follow."""
    rows, columns = image.shape
    for i in range(rows):
        for j in range(columns):
            old = image[i, j]
            new = 255.0 if old > 127.5 else 0.0
            image[i, j] = new
            error = old - new
            if j + 1 < columns:
                image[i, j + 1] += error * 7.0 / 16.0
            if i + 1 < rows:
                if j > 0:
                    image[i + 1, j - 1] += error * 3.0 / 16.0
                image[i + 1, j] += error * 5.0 / 16.0
                if j + 1 < columns:
                    image[i + 1, j + 1] += error / 16.0


def image_and_shape(random, n, m, rows, columns):
    return random.random((n, m)), rows, columns


def resized_by_map(image, rows, columns):
    y = np.linspace(0.0, image.shape[0] - 1.0, rows)
    x = np.linspace(0.0, image.shape[1] - 1.0, columns)
    return ndimage.map_coordinates(image, np.meshgrid(y, x, indexing="ij"), order=1)


@kernel(
    *(image_and_shape, (4, 5, 6, 8), (40, 40, 70, 60), (90, 90, 220, 200), (300, 300, 700, 600)),
    reference=resized_by_map,
    numba=True,
)
def bilinear_resize(image, rows, columns):
    out = np.empty((rows, columns))
    n, m = image.shape
    for i in range(rows):
        y = i * (n - 1) / (rows - 1)
        i0 = min(int(y), n - 2)
        dy = y - i0
        for j in range(columns):
            x = j * (m - 1) / (columns - 1)
            j0 = min(int(x), m - 2)
            dx = x - j0
            top = image[i0, j0] * (1.0 - dx) + image[i0, j0 + 1] * dx
            bottom = image[i0 + 1, j0] * (1.0 - dx) + image[i0 + 1, j0 + 1] * dx
            out[i, j] = top * (1.0 - dy) + bottom * dy
    return out


def blobs(random, n):
    return (ndimage.uniform_filter(random.random((n, n)), 3) > 0.48,)


@kernel(blobs, 7, 90, 280, 900, reference=ndimage.label)
def flood_fill(mask):
    """Labels connected regions, with a list of pixels to visit."""
    rows, columns = mask.shape
    labels = np.zeros((rows, columns), dtype=np.int32)
    count = 0
    for i in range(rows):
        for j in range(columns):
            if not mask[i, j] or labels[i, j]:
                continue
            count += 1
            labels[i, j] = count
            waiting = [(i, j)]
            while waiting:
                y, x = waiting.pop()
                for ny, nx in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
                    if 0 <= ny < rows and 0 <= nx < columns and mask[ny, nx] and not labels[ny, nx]:
                        labels[ny, nx] = count
                        waiting.append((ny, nx))
    return labels, count


def colours(random, n, m):
    return (random.integers(0, 256, (n, m, 3), dtype=np.uint8),)


def weighed(picture):
    return (picture.astype(int) @ np.array([77, 150, 29]) // 256).astype(np.uint8)


@kernel(colours, (5, 6), (65, 70), (200, 220), (650, 700), reference=weighed, numba=True)
def luminance(picture):
    """Bytes: what is written is cut off."""
    rows, columns = picture.shape[:2]
    out = np.empty((rows, columns), dtype=np.uint8)
    for i in range(rows):
        for j in range(columns):
            r, g, b = picture[i, j]
            out[i, j] = np.uint8((int(r) * 77 + int(g) * 150 + int(b) * 29) >> 8)
    return out
