"""Times captured programs beside what the machine allows: memory's bandwidth, BLAS, NumPy's peak of memory, its cores.

python benchmarks/limits.py [--quick] [--only NAME ...] [--json FILE]

Each program has a process of its own, as a peak of memory and the cores that may be used are a process's.
"""

import argparse
import json
import multiprocessing
import os
import resource
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from machine import duration, machine
from timing import least

import evalframe

Row = dict[str, Any]


class Program(NamedTuple):
    function: Callable[..., Any]
    make: Callable[[int], tuple[Any, ...]]
    elements: int
    moved: int = 0  # arrays of as many elements that it has to read or to write; 0: it is bound by products
    products: Callable[..., Any] | None = None  # nothing but its matrix products, into arrays that are there


def add(x, y):
    return x + y


def axpy(a, x, y):
    return a * x + y


def smooth(x):
    return 0.25 * x[:-2] + 0.5 * x[1:-1] + 0.25 * x[2:]


def polynomial(x):
    return ((((2.0 * x - 3.0) * x + 0.5) * x - 1.0) * x + 4.0) * x - 0.125


def jacobi(u):
    return 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])


def heat_steps(u, steps):
    for _ in range(steps):
        u[1:-1, 1:-1] += 0.1 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4.0 * u[1:-1, 1:-1])
    return u


def norm(x, y):
    return np.sqrt(((x - y) ** 2).sum())


def dense(x, w, b):
    return np.maximum(x @ w + b, 0.0)


def two_layers(x, w, b):
    return np.tanh(np.maximum(x @ w + b, 0.0) @ w + b)


def one_product(x, w, out):
    np.matmul(x, w, out=out)


def two_products(x, w, out):
    np.matmul(x, w, out=out)
    np.matmul(out, w, out=x)


def _numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).random(shape)


def _side(n: int) -> int:
    return int(n**0.5)


def _layers(n: int) -> tuple[np.ndarray, ...]:
    side = _side(n)
    return _numbers(side, side), _numbers(side, side) / side, _numbers(side)


ELEMENTS = 10_000_000
STEPS = 10
PROGRAMS = {
    "add": Program(add, lambda n: (_numbers(n), _numbers(n)), ELEMENTS, 3),
    "axpy": Program(axpy, lambda n: (1.5, _numbers(n), _numbers(n)), ELEMENTS, 3),
    "smooth": Program(smooth, lambda n: (_numbers(n),), ELEMENTS, 2),
    "polynomial": Program(polynomial, lambda n: (_numbers(n),), ELEMENTS, 2),
    "jacobi": Program(jacobi, lambda n: (_numbers(_side(n), _side(n)),), ELEMENTS, 2),
    "heat_steps": Program(heat_steps, lambda n: (_numbers(_side(n), _side(n)), STEPS), ELEMENTS, 2 * STEPS),
    "norm": Program(norm, lambda n: (_numbers(n), _numbers(n)), ELEMENTS, 2),
    "dense": Program(dense, _layers, 1_440_000, products=one_product),
    "two_layers": Program(two_layers, _layers, 1_440_000, products=two_products),
}
SETTLE = 6  # calls until everything is compiled


def seconds_of_copy(n: int) -> float:
    """To read and to write an array of doubles once, with all cores: the least of some rounds."""
    cores = len(os.sched_getaffinity(0))
    source, target = _numbers(n), np.zeros(n)
    parts = [slice(n * core // cores, n * (core + 1) // cores) for core in range(cores)]
    with ThreadPoolExecutor(cores) as pool:
        times = []
        for _ in range(12):
            start = time.perf_counter()
            list(pool.map(lambda part: np.copyto(target[part], source[part]), parts))
            times.append(time.perf_counter() - start)
    return min(times)


def seconds_on_one_core(name: str, elements: int) -> float:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    captured = evalframe.jit(PROGRAMS[name].function)
    arguments = PROGRAMS[name].make(elements)
    for _ in range(SETTLE):
        captured(*arguments)
    return least({"captured": lambda: captured(*arguments)}, 7, 0.3)["captured"]


def peak(name: str, elements: int, captured: bool) -> int:
    """Bytes that a call takes at its peak, in a process that has called it with fewer elements."""
    program = PROGRAMS[name]
    function = evalframe.jit(program.function) if captured else program.function
    for _ in range(SETTLE):
        function(*program.make(elements // 100))
    arguments = program.make(elements)
    before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    function(*arguments)
    return max(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before, 0)


def compared(name: str, elements: int) -> Row:
    """Both sides in one process, in turns."""
    program = PROGRAMS[name]
    captured = evalframe.jit(program.function)
    arguments = program.make(elements)
    for _ in range(SETTLE):
        captured(*arguments)
    sides = {"plain": lambda: program.function(*arguments), "evalframe": lambda: captured(*arguments)}
    if program.products:
        x, w, _ = program.make(elements)
        out = np.empty_like(x)
        sides["limit"] = lambda: program.products(x, w, out)
    times: Row = dict(least(sides, 7, 0.5))
    if not program.products:
        times["limit"] = statistics.median(seconds_of_copy(elements) for _ in range(3)) * program.moved / 2
    return times


def in_process(task: Callable[..., Any], *arguments: Any) -> Any:
    """What it gives, in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(task, *arguments).result()


def row_of(name: str, elements: int) -> Row:
    row: Row = {"program": name, "elements": elements, **in_process(compared, name, elements)}
    row["one core"] = in_process(seconds_on_one_core, name, elements)
    row["peak"], row["plain peak"] = (in_process(peak, name, elements, captured) for captured in (True, False))
    row["limited by"] = "BLAS" if PROGRAMS[name].products else "memory"
    return row


TIMES = ("plain", "evalframe", "limit")
HEAD = " ".join([f"{'program':12} {'elements':>10}", *(f"{name:>10}" for name in TIMES)])
HEAD += f"  {'of':7} {'evalframe / limit':>17} {'one core / all':>15} {'peak':>8} {'plain':>8}"


def line(row: Row) -> str:
    times = " ".join(f"{duration(row[key]):>10}" for key in TIMES)
    peaks = " ".join(f"{row[key] / 2**20:4.0f} MiB" for key in ("peak", "plain peak"))
    ratios = f"{row['evalframe'] / row['limit']:17.2f} {row['one core'] / row['evalframe']:15.2f}"
    return f"{row['program']:12} {row['elements']:10,} {times}  {row['limited by']:7} {ratios} {peaks}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = list(PROGRAMS)
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", default=names, help=", ".join(names))
    parser.add_argument("--quick", action="store_true", help="a hundredth of the elements, to see that it runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows and the machine to FILE")
    options = parser.parse_args()
    about = {**machine(), "evalframe": evalframe.__version__}
    print("\n".join(f"{key:9} {value}" for key, value in about.items()), HEAD, sep="\n\n", flush=True)
    rows = []
    for name in options.only:
        rows.append(row_of(name, PROGRAMS[name].elements // (100 if options.quick else 1)))
        print(line(rows[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps({"machine": about, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
