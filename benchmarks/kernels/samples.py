"""Statistics: moments, histograms, correlations, clusters, Markov chains, regressions."""

import numpy as np
from scipy import special
from scipy.spatial import distance

from .table import kernel


def observations(random, n, m):
    return (random.random((n, m)) * np.arange(1, m + 1),)


@kernel(observations, (9, 4), (450, 400), (900, 900), (2000, 2200), reference=lambda data: np.cov(data.T), numba=True)
def covariance(data):
    n, m = data.shape
    mean = np.zeros(m)
    for i in range(n):
        mean += data[i]
    mean /= n
    data = data - mean
    cov = np.zeros((m, m))
    for i in range(m):
        cov[i, i:m] = data[:, i] @ data[:, i:m] / (n - 1.0)
        cov[i:m, i] = cov[i, i:m]
    return cov


@kernel(observations, (9, 4), (120, 60), (300, 150), (700, 500), reference=lambda data: np.corrcoef(data.T), numba=True)
def correlation(data):
    m = data.shape[1]
    result = np.eye(m)
    deviation = np.empty(m)
    centred = np.empty_like(data)
    for j in range(m):
        centred[:, j] = data[:, j] - np.mean(data[:, j])
        deviation[j] = np.sqrt(np.sum(centred[:, j] ** 2))
    for i in range(m):
        for j in range(i + 1, m):
            result[i, j] = np.sum(centred[:, i] * centred[:, j]) / (deviation[i] * deviation[j])
            result[j, i] = result[i, j]
    return result


def normal(random, n):
    return (random.normal(size=n),)


def moments_of_prefixes(x):
    count = np.arange(1, len(x) + 1)
    mean = np.cumsum(x) / count
    return mean, np.array([np.var(x[:n]) for n in count]), np.maximum.accumulate(x)


@kernel(normal, 9, 10_000, 100_000, 1_000_000, reference=moments_of_prefixes, numba=True)
def running_statistics(x):
    """Mean, variance and maximum so far, by Welford's method."""
    means, variances, highest = np.empty_like(x), np.empty_like(x), np.empty_like(x)
    mean = 0.0
    squares = 0.0
    top = -np.inf
    for i in range(len(x)):
        delta = x[i] - mean
        mean += delta / (i + 1)
        squares += delta * (x[i] - mean)
        if x[i] > top:
            top = x[i]
        means[i], variances[i], highest[i] = mean, squares / (i + 1), top
    return means, variances, highest


def values_and_bins(random, n, bins):
    return random.normal(size=n), np.linspace(-3.0, 3.0, bins + 1)


@kernel(
    *(values_and_bins, (12, 4), (15_000, 50), (150_000, 100), (1_500_000, 200)),
    reference=lambda x, edges: np.histogram(x, edges)[0],
    numba=True,
)
def histogram(x, edges):
    """Into bins of one width; what is outside isn't counted."""
    bins = len(edges) - 1
    low, high = edges[0], edges[-1]
    counts = np.zeros(bins, dtype=np.int64)
    for value in x:
        if low <= value <= high:
            k = int((value - low) / (high - low) * bins)
            if k == bins:
                k -= 1
            counts[k] += 1
    return counts


def unequal_bins(random, n, bins):
    return random.normal(size=n), random.random(n), np.sort(random.normal(size=bins + 1))


def weighted_by_numpy(x, weight, edges):
    inside = (x >= edges[0]) & (x < edges[-1])
    return np.histogram(x[inside], edges, weights=weight[inside])[0]


@kernel(unequal_bins, (12, 4), (30_000, 200), (150_000, 500), (500_000, 1200), reference=weighted_by_numpy)
def weighted_histogram(x, weight, edges):
    """Bin by bin, with a mask."""
    result = np.zeros(len(edges) - 1)
    for k in range(len(edges) - 1):
        inside = (x >= edges[k]) & (x < edges[k + 1])
        result[k] = weight[inside].sum()
    return result


def detector(random, n, radii):
    y, x = np.indices((n, n))
    return np.hypot(y - n / 2.2, x - n / 1.9), random.random((n, n)), radii


def by_bincount(radius, intensity, radii):
    ring = (radius / radius.max() * radii).astype(int).clip(0, radii - 1).ravel()
    total = np.bincount(ring, weights=intensity.ravel(), minlength=radii)
    return total / np.maximum(np.bincount(ring, minlength=radii), 1)


@kernel(detector, (7, 3), (90, 150), (270, 500), (800, 1000), reference=by_bincount, numba=True)
def radial_integration(radius, intensity, radii):
    """The mean of each ring around the centre of a detector, pixel by pixel."""
    total = np.zeros(radii)
    count = np.zeros(radii)
    scale = radii / radius.max()
    rows, columns = intensity.shape
    for i in range(rows):
        for j in range(columns):
            ring = min(int(radius[i, j] * scale), radii - 1)
            total[ring] += intensity[i, j]
            count[ring] += 1.0
    for ring in range(radii):
        if count[ring] > 0.0:
            total[ring] /= count[ring]
    return total


@kernel(detector, (7, 3), (250, 120), (500, 300), (1000, 600))
def radial_masks(radius, intensity, radii):
    """Ring by ring, with masks."""
    limits = np.linspace(0.0, radius.max() + 1e-9, radii + 1)
    profile = np.zeros(radii)
    for k in range(radii):
        ring = intensity[np.logical_and(radius >= limits[k], radius < limits[k + 1])]
        if ring.size > 0:
            profile[k] = ring.mean()
    return profile


def clouds(random, n, dimensions, k):
    centres = 10.0 * random.random((k, dimensions))
    points = centres[random.integers(0, k, n)] + random.normal(size=(n, dimensions))
    return points, points[:k].copy(), 30


def clustered_by_cdist(points, centres, most):
    for _ in range(most):
        label = distance.cdist(points, centres, "sqeuclidean").argmin(1)
        means = np.array([points[label == j].mean(0) if (label == j).any() else c for j, c in enumerate(centres)])
        if np.allclose(means, centres):
            break
        centres = means
    return label, centres


@kernel(clouds, (15, 2, 3), (150, 3, 5), (450, 4, 10), (1200, 6, 15), reference=clustered_by_cdist, numba=True)
def k_means_elements(points, centres, most):
    n, dimensions = points.shape
    k = centres.shape[0]
    label = np.zeros(n, dtype=np.int64)
    for _ in range(most):
        sums = np.zeros((k, dimensions))
        counts = np.zeros(k, dtype=np.int64)
        for i in range(n):
            nearest = np.inf
            for j in range(k):
                square = 0.0
                for d in range(dimensions):
                    square += (points[i, d] - centres[j, d]) ** 2
                if square < nearest:
                    nearest = square
                    label[i] = j
            counts[label[i]] += 1
            for d in range(dimensions):
                sums[label[i], d] += points[i, d]
        moved = 0.0
        new = centres.copy()
        for j in range(k):
            if counts[j] > 0:
                for d in range(dimensions):
                    new[j, d] = sums[j, d] / counts[j]
                    moved = max(moved, abs(new[j, d] - centres[j, d]))
        if moved < 1e-8:
            break
        centres = new
    return label, centres


@kernel(
    *(clouds, (20, 2, 3), (1500, 3, 8), (5000, 5, 16), (20_000, 8, 30)),
    reference=clustered_by_cdist,
    numba=k_means_elements,
)
def k_means(points, centres, most):
    for _ in range(most):
        squares = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        label = np.argmin(squares, axis=1)
        new = np.zeros_like(centres)
        for j in range(len(centres)):
            members = points[label == j]
            new[j] = members.mean(axis=0) if len(members) > 0 else centres[j]
        if np.allclose(new, centres):
            break
        centres = new
    return label, centres


def correlated_normals(random, n, thin):
    return n, thin, 0.8, random.normal(size=(n * thin, 2))


def gibbs_by_hand(n, thin, rho, draws):
    x, y, kept = 0.0, 0.0, []
    scale = (1.0 - rho**2) ** 0.5
    for k, (a, b) in enumerate(draws.tolist(), 1):
        x = rho * y + scale * a
        y = rho * x + scale * b
        if k % thin == 0:
            kept.append((x, y))
    return np.array(kept)


@kernel(correlated_normals, (4, 3), (500, 20), (5000, 20), (50_000, 20), reference=gibbs_by_hand, numba=True)
def gibbs(n, thin, rho, draws):
    """Samples of two correlated normal variables, from normal draws."""
    samples = np.zeros((n, 2))
    x = y = 0.0
    scale = np.sqrt(1.0 - rho * rho)
    k = 0
    for i in range(n):
        for _ in range(thin):
            x = rho * y + scale * draws[k, 0]
            y = rho * x + scale * draws[k, 1]
            k += 1
        samples[i, 0] = x
        samples[i, 1] = y
    return samples


def seed_and_length(random, n):
    return int(random.integers(0, 1000)), n


@kernel(seed_and_length, 5, 2500, 25_000, 250_000)
def gibbs_with_generator(seed, n):
    """With a generator of NumPy's, asked twice a step: a gamma and a normal distribution."""
    rng = np.random.default_rng(seed)
    samples = np.empty((n, 2))
    x, y = 0.0, 0.0
    for i in range(n):
        x = rng.gamma(3.0, 1.0 / (y * y + 4.0))
        y = rng.normal(1.0 / (1.0 + x), 1.0 / np.sqrt(2.0 * x + 2.0))
        samples[i] = x, y
    return samples


def chain_of_draws(random, n):
    return random.normal(size=n), np.log(random.random(n)), 2.4


@kernel(chain_of_draws, 9, 9000, 90_000, 900_000, numba=True)
def metropolis(steps, log_uniform, width):
    """A chain whose density has two hills; tells the share of accepted steps, too."""
    n = len(steps)
    samples = np.empty(n)
    x = 0.0
    density = -((x * x - 4.0) ** 2) / 8.0
    accepted = 0
    for i in range(n):
        proposed = x + width * steps[i]
        other = -((proposed * proposed - 4.0) ** 2) / 8.0
        if log_uniform[i] < other - density:
            x = proposed
            density = other
            accepted += 1
        samples[i] = x
    return samples, accepted / n


def sample_and_choices(random, n, rounds):
    return random.normal(size=n), random.integers(0, n, (rounds, n))


def all_resampled(x, choices):
    return np.sort(x[choices].mean(1))


@kernel(sample_and_choices, (9, 5), (1000, 1000), (5000, 3500), (12_000, 6000), reference=all_resampled)
def bootstrap(x, choices):
    means = np.empty(len(choices))
    for i in range(len(choices)):
        means[i] = x[choices[i]].mean()
    means.sort()
    return means


def points(random, n, dimensions):
    return random.random((n, dimensions)), random.random((n + 1, dimensions))


@kernel(points, (4, 3), (65, 5), (180, 6), (550, 7), reference=distance.cdist, numba=True)
def pairwise_distances(a, b):
    result = np.empty((a.shape[0], b.shape[0]))
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            square = 0.0
            for k in range(a.shape[1]):
                difference = a[i, k] - b[j, k]
                square += difference * difference
            result[i, j] = np.sqrt(square)
    return result


@kernel(points, (4, 3), (450, 10), (1500, 20), (4500, 30), reference=lambda a, b: distance.cdist(a, b).argmin(1))
def nearest_rows(a, b):
    nearest = np.zeros(len(a), dtype=int)
    for i in range(len(a)):
        nearest[i] = np.argmin(np.sum((b - a[i]) ** 2, axis=1))
    return nearest


def labelled(random, n, m, steps):
    X = random.normal(size=(n, m))
    return X, (X @ random.normal(size=m) + random.normal(size=n) > 0).astype(float), steps, 0.1


def descended_with_expit(X, y, steps, rate):
    w = np.zeros(X.shape[1])
    for _ in range(steps):
        w = w - rate * (X.T @ (special.expit(X @ w) - y)) / len(y)
    return w


@kernel(
    *(labelled, (9, 3, 4), (2000, 15, 200), (10_000, 25, 400), (25_000, 60, 1000)),
    reference=descended_with_expit,
    elementary=True,
    numba=True,
)
def logistic_regression(X, y, steps, rate):
    w = np.zeros(X.shape[1])
    for _ in range(steps):
        p = 1.0 / (1.0 + np.exp(-(X @ w)))
        w -= rate * (X.T @ (p - y)) / len(y)
    return w


def series(random, n, window):
    return random.normal(size=n), window


def averaged_windows(x, window):
    windows = np.lib.stride_tricks.sliding_window_view(x, window)
    return windows.mean(1), windows.min(1), windows.max(1)


@kernel(series, (12, 4), (800, 10), (8000, 50), (80_000, 30), reference=averaged_windows)
def moving_window(x, window):
    n = len(x) - window + 1
    mean, low, high = np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        part = x[i : i + window]
        mean[i] = part.mean()
        low[i] = part.min()
        high[i] = part.max()
    return mean, low, high


def table_of_prices(random, rows, groups):
    return random.integers(0, groups, rows), 100.0 * random.random(rows), groups


def grouped_by_masks(key, value, groups):
    return [
        (int((key == g).sum()), value[key == g].sum(), value[key == g].max() if (key == g).any() else 0.0)
        for g in range(groups)
    ]


@kernel(table_of_prices, (12, 3), (40_000, 20), (400_000, 50), (4_000_000, 100), reference=grouped_by_masks)
def group_by(key, value, groups):
    """A dict from key to a list of count, sum and maximum."""
    found = {}
    for k, v in zip(key.tolist(), value.tolist()):
        if k not in found:
            found[k] = [0, 0.0, 0.0]
        entry = found[k]
        entry[0] += 1
        entry[1] += v
        if v > entry[2]:
            entry[2] = v
    return [tuple(found.get(g, (0, 0.0, 0.0))) for g in range(groups)]
