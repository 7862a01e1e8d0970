"""Times kernels with loops: plain, captured by evalframe and, where it is asked for, by Numba and JAX; prints a table.

python benchmarks/loops.py [--size SIZE ...] [--only NAME ...] [--peers] [--breaks] [--json FILE]

Each kernel has a process of its own, so that none can end the run.
"""

import argparse
import copy
import itertools
import json
import multiprocessing
import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

# First calls are to be those of a user who has never run the program.
os.environ.setdefault("EVALFRAME_CACHE", "0")

import numpy as np
from kernels import KERNELS, SIZES, THEMES, Kernel
from kernels.compare import difference
from kernels_jax import Version, version_of
from machine import duration, machine

import evalframe

try:
    import numba
except ImportError:
    numba = None

Row = dict[str, Any]
Tell = Callable[[Row], None]

# Calls before those that are timed: so many in which evalframe made nothing new, and some seconds, within reason.
# Loops that are worth it are optimised by then.
QUIET_CALLS, MOST_WARM_CALLS = 4, 4000
WARM_SECONDS, MOST_WARM_SECONDS = 1.5, 6.0
MOST_ROUNDS, FEWEST_ROUNDS = 25, 9
MOST_IN_ROUND, ROUND_SECONDS = 9, 3e-3
COUNTERS = ("recordings", "breaks", "exits", "given_up", "native_loops", "optimised_loops", "native_turns")


class Side:
    """A function that is timed with copies of the arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def called(self, made: tuple[Any, ...]) -> tuple[Any, float]:
        """What a call gives and makes of the arguments, and its seconds."""
        arguments = copy.deepcopy(made)
        start = time.perf_counter()
        result = self.function(*arguments)
        seconds = time.perf_counter() - start
        return (result, arguments), seconds


class JaxSide(Side):
    """With JAX's own arrays, made before; until what comes of it is there."""

    def __init__(self, version: Version) -> None:
        super().__init__(version.function)
        self.version = version

    def called(self, made: tuple[Any, ...]) -> tuple[Any, float]:
        import jax

        as_its_own = jax.numpy.asarray
        arguments = jax.tree.map(lambda value: as_its_own(value) if isinstance(value, np.ndarray) else value, made)
        start = time.perf_counter()
        outcome = jax.block_until_ready(self.version.outcome(arguments))
        return outcome, time.perf_counter() - start


def by_numba(kernel: Kernel) -> Side | None:
    return Side(numba.njit(kernel.numba)) if numba is not None and kernel.numba is not None else None


def by_jax(kernel: Kernel) -> Side | None:
    version = version_of(kernel.name, kernel.theme)
    return JaxSide(version) if version else None


PEERS: dict[str, Callable[[Kernel], Side | None]] = {"numba": by_numba, "jax": by_jax}
AFTER_OTHERS = "speed-up after others"
COLUMNS = ("kernel", "plain", "evalframe", "speed-up", "first call", "breaks", "loops", *PEERS, "")


def measure(kernel: Kernel, size: str, options: argparse.Namespace, tell: Tell) -> None:
    """Tells the row of a kernel as far as it is known, after each step: the last one may never end."""
    row: Row = {"kernel": kernel.name, "theme": kernel.theme, "size": size, "notes": []}
    made = kernel.arguments(size)
    captured = evalframe.jit(kernel.function)
    sides = {"plain": Side(kernel.function), "evalframe": Side(captured)}
    for name, peer in PEERS.items() if options.peers else ():
        if (side := peer(kernel)) is not None:
            sides[name] = side
    wanted: Any = None
    for name in list(sides):
        tell(row | {"doing": f"first calls of {name}"})
        try:
            got, row[f"{name} first"] = sides[name].called(made)
            wanted = got if name == "plain" else wanted
            row["notes"] += wrong(name, itertools.chain([got], warm(sides[name], made)), wanted, kernel)
        except Exception as error:
            row["notes"].append(f"{name} raised {type(error).__name__}: {error}".splitlines()[0])
            del sides[name]
    tell(row | {"doing": "timed calls"})
    row |= medians(sides, made, options.seconds)
    row |= counted(captured) if "evalframe" in sides else {}
    tell(row | {"done": True})


def warm(side: Side, made: tuple[Any, ...]) -> Iterator[Any]:
    """The outcomes of the calls before those that are timed."""
    spent, calls, quiet, known = 0.0, 0, 0, things_made()
    while calls < QUIET_CALLS or (calls < MOST_WARM_CALLS and spent < MOST_WARM_SECONDS):
        if quiet >= QUIET_CALLS and spent >= WARM_SECONDS:
            break
        outcome, seconds = side.called(made)
        yield outcome
        spent, calls = spent + seconds, calls + 1
        before, known = known, things_made()
        quiet = quiet + 1 if known == before else 0


def things_made() -> int:
    stats = evalframe.stats()
    return sum(stats.get(name, 0) for name in ("recordings", "native_loops", "optimised_loops", "given_up"))


def wrong(name: str, outcomes: Iterable[Any], wanted: Any, kernel: Kernel) -> list[str]:
    """A note of the first outcome that isn't as the plain function has it. Peers have sums of their own."""
    tolerance = kernel.tolerance(wanted[1])
    if name in PEERS:
        outcomes, wanted, tolerance = map(as_numbers, outcomes), as_numbers(wanted), kernel.rtol
    for got in outcomes:
        for one, other, place in zip(got, wanted, ("result", "arguments"), strict=True):
            if found := difference(one, other, tolerance, place):
                return [f"{name} DIFFERS: {found}"]
    return []


def as_numbers(value: Any) -> Any:
    """The value with complex numbers for those of any type, arrays for lists of numbers, and tuples for other lists."""
    if isinstance(value, (tuple, list)) and not (isinstance(value, list) and all(map(np.isscalar, value))):
        return tuple(map(as_numbers, value))
    return value if value is None or isinstance(value, str) else np.asarray(value, dtype=complex)


def medians(sides: dict[str, Side], made: tuple[Any, ...], seconds: float) -> dict[str, float]:
    """Of calls that follow one another, in rounds in which the sides take turns: slow moments meet all.

    A round's first call of a side finds the processor's caches as the others have left them (`... after others`). Of
    the others and of the ratio of the plain ones of the same round to them.
    """
    times: dict[str, list[float]] = {name: [] for name in sides}
    cold: dict[str, list[float]] = {name: [] for name in sides}
    end = time.perf_counter() + seconds * len(sides)
    for number in range(MOST_ROUNDS):
        if number >= FEWEST_ROUNDS and time.perf_counter() > end:
            break
        for name, side in sides.items():
            first, later = one_behind_the_other(side, made)
            cold[name].append(first)
            times[name].append(later)
    row = {name: statistics.median(values) for name, values in times.items()}
    for name in sides if "plain" in sides else ():
        for key, found in (("speed-up", times), (AFTER_OTHERS, cold)):
            pairs = zip(found["plain"], found[name], strict=True)
            row[f"{name} {key}"] = statistics.median(plain / other for plain, other in pairs)
    return row


def one_behind_the_other(side: Side, made: tuple[Any, ...]) -> tuple[float, float]:
    """Seconds of a call after something else, and the median of those behind it."""
    first = side.called(made)[1]
    later = [side.called(made)[1]]
    while len(later) < MOST_IN_ROUND and sum(later) < ROUND_SECONDS:
        later.append(side.called(made)[1])
    return first, statistics.median(later)


def counted(captured: Any) -> Row:
    """What evalframe tells of the function, the only one of its process."""
    stats = evalframe.stats()
    breaks = evalframe._core.jit_breaks(captured)
    return {name: stats.get(name, 0) for name in COUNTERS} | {
        "break places": [f"line {b['line']}: {b['reason']} ({b['detail']}), {b['count']} times" for b in breaks]
    }


def row_of(kernel: Kernel, size: str, options: argparse.Namespace) -> Row:
    """The row of a kernel, measured in a process of its own."""
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)
    child = fork.Process(target=_measured, args=(there, kernel, size, options))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # BLAS's threads sleep, and are made anew in the child
        child.start()
    there.close()
    row: Row = {"kernel": kernel.name, "theme": kernel.theme, "size": size, "notes": [], "doing": "its beginning"}
    end = time.monotonic() + options.limit
    try:
        while "done" not in row:
            if not here.poll(max(end - time.monotonic(), 0.0)):
                row["notes"].append(f"stopped after {options.limit:g} s in {row['doing']}")
                break
            row = here.recv()
    except EOFError:
        child.join()
        row["notes"].append(f"the process ended with {child.exitcode} in {row['doing']}")
    child.kill()
    child.join()
    return row


def _measured(there: Connection, kernel: Kernel, size: str, options: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")  # Numba's advice
    measure(kernel, size, options, there.send)


def shown(row: Row) -> str:
    """A line of the table."""
    cells = [row["kernel"]]
    for name in ("plain", "evalframe"):
        cells.append(duration(row[name]) if name in row else "-")
    cells.append(speed_up(row, "evalframe"))
    cells.append(duration(row["evalframe first"]) if "evalframe first" in row else "-")
    cells += [str(row.get(name, "-")) for name in ("breaks", "native_loops")]
    cells += [speed_up(row, name) for name in PEERS]
    notes = [*row["notes"], *(["given up"] if row.get("given_up") else [])]
    return line([*cells, "; ".join(notes)])


def line(cells: Any) -> str:
    name, *others, notes = cells
    return f"{name:<28}" + "".join(f"{cell:>11}" for cell in others) + f"  {notes}".rstrip()


def speed_up(row: Row, side: str) -> str:
    ratio = row.get(f"{side} speed-up")
    return "-" if ratio is None else f"{ratio:.2f}"


def summary(rows: list[Row], side: str) -> Iterator[str]:
    """The geometric mean over plain Python, and who is slower."""
    speed_ups = {row["kernel"]: row[f"{side} speed-up"] for row in rows if f"{side} speed-up" in row}
    if not speed_ups:
        return
    mean = statistics.geometric_mean(speed_ups.values())
    failing = len(rows) - len(speed_ups)
    all_of_them = mean ** (len(speed_ups) / len(rows))
    yield f"{side}: geometric mean {mean:.2f} of {len(speed_ups)} kernels; {all_of_them:.2f} with {failing} others as 1"
    after = [row[f"{side} {AFTER_OTHERS}"] for row in rows if f"{side} {AFTER_OTHERS}" in row]
    yield f"    {statistics.geometric_mean(after):.2f} where calls follow something else"
    slower = sorted((ratio, name) for name, ratio in speed_ups.items() if ratio < 0.95)
    faster = sum(ratio > 1.05 for ratio in speed_ups.values())
    yield f"{side}: {faster} faster, {len(slower)} slower than plain by 5 %"
    yield from (f"    {name} {ratio:.2f}" for ratio, name in slower)


def beside_peers(rows: list[Row]) -> Iterator[str]:
    """How the calls compare with those of the quickest peer, and the first calls with those of each."""
    for key, when in (("speed-up", "one call behind the other"), (AFTER_OTHERS, "calls after something else")):
        ratios = []
        for row in rows:
            peers = [row[f"{name} {key}"] for name in PEERS if f"{name} {key}" in row]
            if peers and f"evalframe {key}" in row:
                ratios.append(row[f"evalframe {key}"] / max(peers))
        if ratios:
            mean = statistics.geometric_mean(ratios)
            as_fast, nearly = (sum(ratio >= least for ratio in ratios) for least in (1.0, 1 / 1.5))
            yield f"evalframe beside its quickest peer, {when}: {mean:.2f} times as fast in the mean of {len(ratios)}"
            yield f"    at least as fast on {as_fast}, within 1.5 times on {nearly}"
    for name in PEERS:
        both = [row for row in rows if f"{name} first" in row and "evalframe first" in row]
        if both:
            means = [statistics.geometric_mean(row[f"{side} first"] for row in both) for side in ("evalframe", name)]
            yield f"first calls of {len(both)} kernels: {duration(means[0])}, by {name} {duration(means[1])}"


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", nargs="+", choices=SIZES, default=["small"], help="of the arguments")
    names = [*THEMES, *KERNELS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="kernels, or themes")
    parser.add_argument("--peers", action="store_true", help="time Numba and JAX, too, where they are")
    parser.add_argument("--breaks", action="store_true", help="say below each kernel where and why it breaks")
    parser.add_argument("--seconds", type=float, default=0.5, help="of timed calls on each side, at least nine (0.5)")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds after which a kernel is stopped (120)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows and the machine to FILE")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    where = machine() | {"evalframe": evalframe.__version__}
    print("\n".join(f"{key:<10}{value}" for key, value in where.items()))
    rows: list[Row] = []
    for size in options.size:
        print(f"\n{size}\n{line(COLUMNS)}", flush=True)
        for kernel in KERNELS.values():
            if options.only and not {kernel.name, kernel.theme} & set(options.only):
                continue
            rows.append(row_of(kernel, size, options))
            print(shown(rows[-1]), flush=True)
            for place in rows[-1].get("break places", ()) if options.breaks else ():
                print(f"    {place}")
        of_size = [row for row in rows if row["size"] == size]
        for side in ("evalframe", *PEERS):
            print(*summary(of_size, side), sep="\n")
        print(*beside_peers(of_size), sep="\n")
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": where, "rows": rows}, indent=1) + "\n")
    if any("DIFFERS" in note for row in rows for note in row["notes"]):
        raise SystemExit("there are results that differ from plain Python's")


if __name__ == "__main__":
    main()
