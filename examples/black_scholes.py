"""Prices the options of a CSV file by Black and Scholes, plain and under evalframe, and compares results and times.

    python examples/black_scholes.py [--count 1000000] [--file examples/options.csv]

The options of the file are repeated until there are --count of them. `black_scholes` is ordinary NumPy and SciPy:
nothing in it knows evalframe.
"""

import argparse
import csv
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.special import erf

import evalframe


def normal_cdf(x):
    return 0.5 * (1.0 + erf(x / np.sqrt(2.0)))


def black_scholes(S, K, T, r, sigma):
    """Prices of European calls and puts: spot S, strike K, years to expiry T, rate r, volatility sigma."""
    spread = sigma * np.sqrt(T)
    d1 = (np.log(S / K) + (r + 0.5 * sigma * sigma) * T) / spread
    d2 = d1 - spread
    discounted = K * np.exp(-r * T)
    call = S * normal_cdf(d1) - discounted * normal_cdf(d2)
    put = call - S + discounted
    return call, put


def load(path: Path, count: int) -> list[np.ndarray]:
    """The five columns that the formula needs, each repeated to `count` rows."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows:
        raise SystemExit(f"{path}: no options in this file")
    columns = ("spot", "strike", "years", "rate", "volatility")
    return [np.resize(np.array([float(row[name]) for row in rows]), count) for name in columns]


def times(functions: list[Callable], arguments: list[np.ndarray], repeats: int = 9) -> list[float]:
    """The median time of each function, taken in turns, so that a busy machine is busy for all of them."""
    taken: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for function, list_of_times in zip(functions, taken, strict=True):
            start = time.perf_counter()
            function(*arguments)
            list_of_times.append(time.perf_counter() - start)
    return [statistics.median(each) for each in taken]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--file", type=Path, default=Path(__file__).with_name("options.csv"))
    options = parser.parse_args()

    arguments = load(options.file, options.count)
    compiled = evalframe.jit(black_scholes)

    start = time.perf_counter()
    compiled(*arguments)  # recorded while it runs
    first = time.perf_counter() - start
    call, put = compiled(*arguments)  # served by native code
    expected_call, expected_put = black_scholes(*arguments)

    strike = arguments[1]
    difference = max(np.max(np.abs(call - expected_call) / strike), np.max(np.abs(put - expected_put) / strike))
    if not difference <= 1e-12:
        raise SystemExit(f"results differ by {difference:.1e} of the strike")

    plain, jitted = times([black_scholes, compiled], arguments)
    print(f"{options.count:,} options from {options.file.name}; mean call {call.mean():.4f}, mean put {put.mean():.4f}")
    print(f"largest difference to plain NumPy: {difference:.1e} of the strike")
    print(f"plain NumPy      {plain * 1e3:9.3f} ms")
    print(f"under evalframe  {jitted * 1e3:9.3f} ms   {plain / jitted:.1f} times as fast")
    print(f"first call       {first * 1e3:9.3f} ms   recorded, and compiled or loaded from the cache")


if __name__ == "__main__":
    main()
