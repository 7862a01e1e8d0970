"""Tables of columns: group by, rolling means, ranks, histograms, quantiles, missing values."""

import numpy as np


def group_sum(keys, values):
    unique, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    sums = np.zeros(len(unique), values.dtype)
    np.add.at(sums, inverse, values)
    return dict(zip(unique.tolist(), (sums / counts).tolist()))


def rolling(x, n):
    c = np.cumsum(np.insert(x, 0, 0.0))
    return (c[n:] - c[:-n]) / n


def ranks(x):
    order = x.argsort(kind="stable")
    r = np.empty(len(x), int)
    r[order] = np.arange(len(x))
    return r


def histogram(x, bins):
    edges = np.linspace(x.min(), x.max(), bins + 1)
    which = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, bins - 1)
    return np.bincount(which, minlength=bins), edges, np.histogram(x, bins)[0]


def describe(x):
    good = x[~np.isnan(x)]
    with np.errstate(invalid="ignore", divide="ignore"):
        z = (x - good.mean()) / good.std()
    return {"mean": good.mean(), "std": good.std(ddof=1), "q": np.quantile(good, [0.25, 0.5, 0.75]), "n": good.size, "z": z}


def correlation(a, b):
    a, b = a - a.mean(), b - b.mean()
    return (a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum())


def fill(x):
    idx = np.where(np.isnan(x), 0, np.arange(len(x)))
    np.maximum.accumulate(idx, out=idx)
    return x[idx]


def main():
    rng = np.random.default_rng(14)
    out = []
    for n in (10, 25, 10):
        x, y = rng.normal(size=(2, n))
        keys = rng.integers(0, 4, n)
        out += [group_sum(keys, x), rolling(x, 3), ranks(x), histogram(x, 5), correlation(x, y)]
        x[2::4] = np.nan
        out += [describe(x), fill(x), np.nanmax(x), np.nan_to_num(x)]
        f = x.astype("f4")
        out += [describe(f), fill(f)]
    out.append(describe(np.array([1.0])))
    out.append(np.array([]).mean())
    return out
