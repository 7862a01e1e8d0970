"""Times several callables side by side: rounds are interleaved so that a slow moment of the machine meets all."""

import statistics
import time
from collections.abc import Callable, Mapping


def medians(callables: Mapping[str, Callable[[], object]], rounds: int, seconds: float) -> dict[str, float]:
    """Seconds per call of each, the median over `rounds`; each round calls each of them for about `seconds`."""
    counts = {name: _calls_in(call, seconds) for name, call in callables.items()}
    times: dict[str, list[float]] = {name: [] for name in callables}
    for _ in range(rounds):
        for name, call in callables.items():
            times[name].append(_seconds_of(call, counts[name]) / counts[name])
    return {name: statistics.median(values) for name, values in times.items()}


def _calls_in(call: Callable[[], object], seconds: float) -> int:
    call()  # what happens only once isn't counted
    count = 1
    while (spent := _seconds_of(call, count)) < seconds / 4:
        count *= 2
    return max(1, round(count * seconds / spent))


def _seconds_of(call: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - start
