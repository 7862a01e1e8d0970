"""Times several callables side by side: rounds are interleaved so that a slow moment of the machine meets all."""

import time
from collections.abc import Callable, Mapping

PATIENCE = 15.0  # seconds for all rounds
FEWEST = 5


def least(
    callables: Mapping[str, Callable[[], object]], rounds: int, seconds: float, rest: float = 0.0
) -> dict[str, float]:
    """Seconds per call of each, the least over `rounds`; each round calls each of them for about `seconds`.

    What else runs on a machine only ever adds time; short rounds find the moments when nothing does. `rest`: seconds of
    sleep before each, for libraries whose threads look for more work a while, on the cores that the next one needs.
    """
    counts = {name: _calls_in(call, seconds) for name, call in callables.items()}
    times: dict[str, list[float]] = {name: [] for name in callables}
    end = time.perf_counter() + PATIENCE
    for i in range(rounds):
        if i >= FEWEST and time.perf_counter() > end:
            break
        for name, call in callables.items():
            if rest:
                time.sleep(rest)
                call()  # awake again
            times[name].append(_seconds_of(call, counts[name]) / counts[name])
    return {name: min(values) for name, values in times.items()}


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
