"""Times evalframe beside plain NumPy and, where they are installed, Numba and JAX, in one run, and prints the ratios.

python benchmarks/run.py [--quick] [--json FILE] [--only NAME ...]
"""

import argparse
import dis
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from interpreter import INTERPRETED, evaluated
from machine import duration, machine
from programs import PROGRAMS, chain, erf, numba
from timing import least

import evalframe
from evalframe import _core

try:
    import jax
except ImportError:
    jax = None

Row = dict[str, Any]
FUNCTIONS = (
    *("sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos"),
    *("arctan", "sinh", "cosh", "tanh", "cbrt", "erf", "arctan2", "hypot", "power"),
)
SCALE = 3  # the global that the dispatch case guards


def dispatch(options: argparse.Namespace) -> Iterator[Row]:
    """A call that hits, with guards on two arrays, an int and a global, against an empty Python call."""

    def empty(x, y, n):
        pass

    def guarded(x, y, n):
        return x if x.ndim + n == SCALE and y.ndim == 1 else y

    def add(x, y):
        return x + y

    class Settings:
        pass

    settings = Settings()
    for number in range(100):
        setattr(settings, f"a{number}", number)
    reading = straight_line("x, settings", [f"settings.a{number}" for number in range(100)], "x")
    x, y = np.arange(8.0), np.arange(8.0)
    # Of the captured call, though running functions that do so little is quicker.
    _core.set_call_trials(False)
    compiled, compiled_add, compiled_reading = evalframe.jit(guarded), evalframe.jit(add), evalframe.jit(reading)
    for _ in range(3):
        compiled_reading(x, settings)
        compiled(x, y, 2)
        compiled_add(x, y)
    sides = {
        "empty call": lambda: empty(x, y, 2),
        "jit, guards only": lambda: compiled(x, y, 2),
        "plain add": lambda: add(x, y),
        "jit add": lambda: compiled_add(x, y),
        "plain reading": lambda: reading(x, settings),
        "jit reading": lambda: compiled_reading(x, settings),
        "nothing": lambda: None,
    }
    times = least(sides, options.rounds, options.seconds)
    _core.set_call_trials(True)
    # Each lambda is a Python call of its own, which is no part of what is measured.
    net = {name: seconds - times["nothing"] for name, seconds in times.items()}
    yield row("dispatch", "guards only", net["empty call"], net["jit, guards only"], base="empty Python call")
    yield row("dispatch", "8 + 8 floats", net["plain add"], net["jit add"])
    yield row("dispatch", "guards on 100 attributes", net["plain reading"], net["jit reading"])
    others = {"numba": numba and numba.njit, "jax": jax and jax.jit}
    for name, make in others.items():
        if make:
            other = make(empty)
            call = bind(other, [x, y, 2])
            seconds = least({name: call, "nothing": sides["nothing"]}, options.rounds, options.seconds)
            yield {"case": "dispatch", "what": f"{name}, empty function", name: seconds[name] - seconds["nothing"]}


def breaks(options: argparse.Namespace) -> Iterator[Row]:
    """What calls cost that aren't recorded: leaving a graph, running the call, entering the next graph."""
    count = 20
    x = np.arange(8.0)
    statements = ["x = x + 1.0"] * count
    with_calls = [statement for pair in zip(statements, ["opaque()"] * count, strict=True) for statement in pair]
    _core.set_call_trials(False)
    for backend in ("reference", "native"):
        whole, broken = (straight_line("x", body, "x", opaque=opaque) for body in (statements, with_calls))
        captured = evalframe.jit(whole, backend=backend), evalframe.jit(broken, backend=backend)
        sides = [bind(function, [x]) for function in (whole, broken, *captured)]
        for side in sides * 2:
            side()
        times = least(dict(zip("1234", sides, strict=True)), options.rounds, options.seconds)
        plain, plain_broken, ours, ours_broken = times.values()
        extra = ((ours_broken - ours) - (plain_broken - plain)) / count
        case = {"case": "breaks", "what": f"{backend}, {count} of them"}
        yield case | {"plain": plain_broken, "evalframe": ours_broken, "extra per break": extra}
    _core.set_call_trials(True)


@evalframe.uncaptured
def opaque() -> None:
    """A call that is a break."""


def programs(options: argparse.Namespace) -> Iterator[Row]:
    """The numeric programs at three sizes, beside NumPy and Numba."""
    for program in PROGRAMS:
        if options.only and "programs" not in options.only and program.name not in options.only:
            continue
        for size in options.sizes:
            arguments = program.arguments(size)
            compiled = evalframe.jit(program.plain)
            sides = {"plain": program.plain, "evalframe": compiled}
            if numba is not None:
                sides["numba"] = numba.njit(parallel=True)(program.loops)
            expected = program.plain(*arguments)
            for name, function in sides.items():
                check_same(f"{program.name} by {name}", function(*arguments), expected)
            calls = {name: bind(function, arguments) for name, function in sides.items()}
            times = least(calls, options.rounds, options.seconds, rest=0.02)
            yield row(program.name, f"{size:.0e}", times["plain"], times["evalframe"], times.get("numba"))


def functions(options: argparse.Namespace) -> Iterator[Row]:
    """f(x) + 1, on arrays that stay in the second-level cache: too small for more than one thread. Per element."""
    size = 16_384
    ranges = {"arcsin": (-1.0, 1.0), "arccos": (-1.0, 1.0)}
    ranges |= {name: (0.1, 100.0) for name in ("log", "log2", "log10", "log1p", "sqrt")}
    for name in FUNCTIONS:
        ufunc: Any = erf if name == "erf" else getattr(np, name)
        prefix = "" if name == "erf" else "np."
        for dtype in ("float64", "float32"):
            low, high = (0.1, 5.0) if name == "power" else ranges.get(name, (-5.0, 5.0))
            random = np.random.default_rng(1)
            arguments = [random.uniform(low, high, size).astype(dtype) for _ in range(ufunc.nin)]
            names = "x, y" if ufunc.nin == 2 else "x"
            # From text, so that each has code of its own.
            plain = eval(f"lambda {names}: {prefix}{name}({names}) + 1.0", {"np": np, "erf": erf})
            compiled = evalframe.jit(plain)
            check_same(name, compiled(*arguments), plain(*arguments), 1e-5 if dtype == "float32" else 1e-9)
            sides = {"plain": bind(plain, arguments), "evalframe": bind(compiled, arguments)}
            times = least(sides, options.rounds, options.seconds / 4)
            yield row("function", f"{name} {dtype}", times["plain"] / size, times["evalframe"] / size)


def reductions(options: argparse.Namespace) -> Iterator[Row]:
    """Sums and maxima of x + x, of rows, of columns and of all."""
    for size in options.sizes:
        for dtype in ("float64", "float32", "int64"):
            table = (np.random.default_rng(1).normal(size=(math.isqrt(size), math.isqrt(size))) * 100).astype(dtype)
            for name in ("sum", "max"):
                for axis in (0, 1, None):
                    plain = eval(f"lambda x: np.{name}(x + x, axis={axis})", {"np": np})
                    compiled = evalframe.jit(plain)
                    compiled(table)
                    sides = {"plain": bind(plain, [table]), "evalframe": bind(compiled, [table])}
                    times = least(sides, options.rounds, options.seconds / 4)
                    what = f"{name} {dtype} axis {axis} {size:.0e}"
                    yield row("reduction", what, times["plain"], times["evalframe"])


def fresh_process(options: argparse.Namespace) -> Iterator[Row]:
    """The first calls in a process whose kernels aren't in the cache on disk, and in one whose are."""
    program = Path(__file__).with_name("fresh.py")
    times: dict[str, list[float]] = {"nothing cached": [], "kernels on disk": []}
    for _ in range(min(options.rounds, 5)):
        with tempfile.TemporaryDirectory() as directory:
            for what in times:
                environment = {**os.environ, "EVALFRAME_CACHE": "1", "EVALFRAME_CACHE_DIR": f"{directory}/cache"}
                done = subprocess.run(
                    [sys.executable, str(program)], env=environment, capture_output=True, text=True, check=True
                )
                plain, first = map(float, done.stdout.split())
                times[what].append(first - plain)
    for what, seconds in times.items():
        yield {"case": "fresh process", "what": what, "first two calls, extra": min(seconds)}


def first_call(options: argparse.Namespace) -> Iterator[Row]:
    """What recording and compiling cost, each time with a function that was never seen before."""

    # Without loops, which are handed to CPython when they don't pay.
    scalar = straight_line("x, total", ["total = (total * 3 + 7) % 1000003"] * 2000, "x + total")
    many_ops = straight_line("x, total", ["x = x + 1.0", "x = x * 0.5"] * 500, "x")
    bytecodes = sum(1 for _ in dis.get_instructions(scalar))
    x = np.arange(8.0)
    for function, unit, count in ((scalar, "bytecode", bytecodes), (many_ops, "graph op", 1_000)):
        plain, recorded = fresh_least(function, [x, 1], "reference", options.rounds)
        extra = (recorded - plain) / count
        what = f"recording {count:,} {unit}s"
        yield {"case": "first call", "what": what, "plain": plain, "evalframe": recorded, f"extra per {unit}": extra}
    data = [np.linspace(0.1, 1.0, 1000), np.linspace(1.0, 2.0, 1000)]
    plain, recorded = fresh_least(chain, data, "reference", options.rounds)
    _, compiled = fresh_least(chain, data, "native", options.rounds)
    yield {"case": "first call", "what": "20-op chain", "plain": plain, "recorded": recorded, "compiled, too": compiled}


def undecorated(options: argparse.Namespace) -> Iterator[Row]:
    """Call-heavy Python that isn't decorated, in processes that do and don't import evalframe."""
    program = Path(__file__).with_name("undecorated.py")

    def run(*flags: str) -> float:
        command = [sys.executable, str(program), *flags]
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    times: dict[str, list[float]] = {"": [], "--import": []}
    for _ in range(min(options.rounds, 9)):
        for flag, seconds in times.items():
            seconds.append(run(*filter(None, [flag])))
    yield row("undecorated code", "evalframe imported", min(times[""]), min(times["--import"]))


def import_time(options: argparse.Namespace) -> Iterator[Row]:
    """CPU time of importing NumPy alone, and with evalframe, each in a process of its own."""
    program = "import time; start = time.thread_time(); import {}; print(time.thread_time() - start)"
    times: dict[str, list[float]] = {"numpy": [], "numpy, evalframe": []}
    for _ in range(min(options.rounds, 15)):
        for what, seconds in times.items():
            command = [sys.executable, "-c", program.format(what)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            seconds.append(float(done.stdout))
    plain, both = (min(seconds) for seconds in times.values())
    yield {"case": "import", "what": "evalframe", "numpy": plain, "evalframe on top": both - plain}


def interpreter(options: argparse.Namespace) -> Iterator[Row]:
    """Plain Python in evalframe's evaluator, every frame of it, beside CPython's."""
    for program in INTERPRETED:
        times = least({"plain": program, "ours": evaluated(program)}, options.rounds, options.seconds)
        yield row("interpreter", program.__name__, times["plain"], times["ours"], base="CPython")


def memory(options: argparse.Namespace) -> Iterator[Row]:
    """Growth of the process over many hits, and over many functions that are compiled and dropped."""

    def add(x, y):
        return x + y * 2.0

    x, y = np.arange(64.0), np.arange(64.0)
    compiled = evalframe.jit(add)
    for _ in range(1000):
        compiled(x, y)
    before = resident_bytes()
    for _ in range(options.hits):
        compiled(x, y)
    yield {"case": "memory", "what": f"{options.hits:,} hits", "bytes grown": resident_bytes() - before}

    def record_new() -> None:
        fresh(add, "reference")(x, y)

    for _ in range(100):
        record_new()
    before = resident_bytes()
    for _ in range(options.recompiles):
        record_new()
    grown = resident_bytes() - before
    yield {"case": "memory", "what": f"{options.recompiles:,} functions dropped", "bytes grown": grown}


CASES: dict[str, Callable[[argparse.Namespace], Iterator[Row]]] = {
    "dispatch": dispatch,
    "breaks": breaks,
    "programs": programs,
    "functions": functions,
    "reductions": reductions,
    "fresh_process": fresh_process,
    "first_call": first_call,
    "undecorated": undecorated,
    "import_time": import_time,
    "interpreter": interpreter,
    "memory": memory,
}


def row(case: str, what: str, plain: float, ours: float, other: float | None = None, base: str = "plain") -> Row:
    result: Row = {
        "case": case,
        "what": what,
        base: plain,
        "evalframe": ours,
        "speed-up": plain / ours,
    }
    if other is not None:
        result |= {"numba": other, "speed-up over numba": other / ours}
    return result


def bind(function: Callable[..., Any], arguments: list[Any]) -> Callable[[], Any]:
    return lambda: function(*arguments)


def straight_line(parameters: str, statements: list[str], result: str, **names: Any) -> Any:
    """A function of these statements, with these globals."""
    exec("\n    ".join([f"def made({parameters}):", *statements, f"return {result}"]), names)
    return names["made"]


def fresh(function: Any, backend: str) -> Callable[..., Any]:
    """A jit of a copy of `function` with a code object of its own, so that nothing recorded before serves it."""
    copy = type(function)(function.__code__.replace(), function.__globals__, function.__name__)
    return evalframe.jit(copy, backend=backend)


def fresh_least(function: Any, arguments: list[Any], backend: str, rounds: int) -> tuple[float, float]:
    """CPU seconds of a plain call, and of the first call of a fresh jit."""

    def seconds(call: Callable[..., Any]) -> float:
        start = time.thread_time()
        call(*arguments)
        return time.thread_time() - start

    seconds(fresh(function, backend))
    pairs = [(seconds(function), seconds(fresh(function, backend))) for _ in range(max(rounds, 5))]
    plain, first = (min(column) for column in zip(*pairs, strict=True))
    return plain, first


def check_same(name: str, result: Any, expected: Any, tolerance: float = 1e-9) -> None:
    if isinstance(expected, tuple):
        for one, other in zip(result, expected, strict=True):
            check_same(name, one, other, tolerance)
    elif not np.allclose(result, expected, rtol=tolerance, atol=tolerance):
        raise SystemExit(f"{name}: wrong result, off by {np.max(np.abs(result - expected)):.1e}")


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def shown(value: Any, key: str) -> str:
    if key.startswith("speed-up"):
        return f"{value:.2f}x"
    if key == "bytes grown":
        return f"{value / 1024:,.0f} kB"
    if not isinstance(value, float):
        return str(value)
    return duration(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rounds and small sizes: to see that it runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows and the machine to FILE")
    names = [*CASES, *(program.name for program in PROGRAMS)]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"of {', '.join(names)}")
    options = parser.parse_args()
    options.rounds, options.seconds = (3, 0.005) if options.quick else (101, 0.005)
    options.sizes = (1_000, 100_000) if options.quick else (1_000, 100_000, 10_000_000)
    options.hits, options.recompiles = (20_000, 100) if options.quick else (1_000_000, 1_000)

    where = machine() | {"evalframe": evalframe.__version__}
    print("\n".join(f"{key:<10}{value}" for key, value in where.items()))
    rows = []
    for name, case in CASES.items():
        chosen = not options.only or name in options.only
        if not chosen and not (name == "programs" and set(options.only) & {p.name for p in PROGRAMS}):
            continue
        for result in case(options):
            rows.append(result)
            cells = [f"{key} {shown(value, key)}" for key, value in result.items() if key not in ("case", "what")]
            print(
                f"{result['case']:<22} {result['what']:<18} " + "   ".join(f"{cell:<20}" for cell in cells), flush=True
            )
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": where, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
