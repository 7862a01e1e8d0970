"""What `step` costs while it records, beside CPython: time, memory, the page; how soon `variables` and `dis` answer.

    python benchmarks/stepping.py
"""

import argparse
import functools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import evalframe

TURNS = 20_000
STEPS = 1_000_000


def integers() -> int:
    total = 0
    for number in range(TURNS):
        total = (total + number * 3) & 0xFFFF
    return total


def small(a: float, b: int) -> float:
    return a + b * 0.5


def calls() -> float:
    total = 0.0
    for number in range(TURNS):
        total = small(total, number)
    return total


def containers() -> int:
    seen: dict[int, list[int]] = {}
    for number in range(TURNS):
        seen.setdefault(number % 97, []).append(number)
    return len(seen)


def texts() -> int:
    words = [f"word {number}" for number in range(TURNS // 4)]
    return len(" ".join(word.upper() for word in words if "1" in word))


class Point:
    def __init__(self, x: float, y: float) -> None:
        self.x, self.y = x, y

    def moved(self, by: float) -> "Point":
        return Point(self.x + by, self.y - by)


def objects() -> float:
    point = Point(0.0, 0.0)
    for _ in range(TURNS // 4):
        point = point.moved(0.5)
    return point.x


def parser() -> int:
    """The standard library's own, in Python."""
    decoder = json.decoder.JSONDecoder()
    decoder.parse_object, decoder.parse_array = json.decoder.JSONObject, json.decoder.JSONArray  # type: ignore[attr-defined]
    decoder.scan_once = json.scanner.py_make_scanner(decoder)  # type: ignore[attr-defined]
    return len(decoder.decode(json.dumps([{"a": number, "b": [1, 2, number]} for number in range(TURNS // 20)])))


PROGRAMS = (integers, calls, containers, texts, objects, parser)


def cpu_seconds_of(run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def paired(plain: Callable[[], Any], recorded: Callable[[], Any], tries: int = 9) -> tuple[float, float, float]:
    """Processor time of both, which other work misleads least, and how many times the one is of the other: medians."""
    times = [(cpu_seconds_of(plain), cpu_seconds_of(recorded)) for _ in range(tries)]
    first, second = (statistics.median(each) for each in zip(*times, strict=True))
    return first, second, statistics.median(b / a for a, b in times)


def seconds_of(run: Callable[[], Any], tries: int = 3) -> float:
    """The quickest of a few runs."""
    times = []
    for _ in range(tries):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    print("program           plain   recorded  times     steps ns a step bytes a step")
    for program in PROGRAMS:
        record = evalframe.step(program, everything=True, steps=STEPS, memory=1 << 30)
        plain, recorded, times = paired(program, record)
        trace = record()
        steps, memory = len(trace), trace.memory
        print(
            f"{program.__name__:<12} {plain * 1e3:7.2f} ms {recorded * 1e3:7.2f} ms {times:6.1f} {steps:9,} "
            f"{(recorded - plain) / steps * 1e9:9.0f} {memory / steps:12.0f}"
        )
    trace = evalframe.step(calls)()
    page, made = trace.html(), seconds_of(trace.html, 1)
    print(f"\na page of {len(trace):,} steps: {len(page) / 1e6:.1f} MB, made in {made * 1e3:.0f} ms")
    bounded = evalframe.step(calls, steps=STEPS, memory=4 << 20)()
    print(f"bounded to 4 MB: {len(bounded):,} steps, {bounded.memory / 2**20:.1f} MB, stopped by {bounded.stopped}")
    with tempfile.TemporaryDirectory() as folder:
        answer(Path(folder))


def answer(folder: Path) -> None:
    """How long commands take, the start of the interpreter included."""
    library = Path(argparse.__file__)
    lines = len(library.read_text(encoding="utf-8").splitlines())
    names = ("variables", "dis", "code")
    for name in names:
        run = functools.partial(subprocess.run, [sys.executable, "-m", "evalframe", name, str(library)], cwd=folder)
        taken = seconds_of(lambda run=run: run(check=True, stdout=subprocess.DEVNULL))
        print(f"evalframe {name} of argparse.py ({lines:,} lines): {taken * 1e3:.0f} ms")
    for name in names:
        show = getattr(evalframe, name)
        taken = seconds_of(lambda show=show: str(show(argparse.ArgumentParser.parse_known_args)))
        print(f"evalframe.{name} of a method: {taken * 1e3:.2f} ms")


if __name__ == "__main__":
    main()
