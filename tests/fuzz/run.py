"""Generated programs, plain against every frame in evalframe's evaluator, or captured (``--mode capture``), or with its functions
as the decompiler's state machines (``--mode decompile``): results, output, exceptions, tracebacks, releases.

``python tests/fuzz/run.py [--programs N] [--seed S] [--jobs J] [--strategy NAME ...] [--keep]``, with a Python that has evalframe.
The same seed gives the same programs. Programs run in batches in processes of their own; one that crashes or hangs costs
that program. ``--only NUMBER`` runs that one program of a strategy and shows it; ``--keep`` shrinks what differs and saves it in
``kept/``, where a test runs it from then on.
Exit status: 0 nothing differs, 1 something does.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from fuzz import compare, kept, programs, shrink  # noqa: E402

BATCH = 250  # programs of one process


class Failure(NamedTuple):
    strategy: str
    number: int
    kind: str
    text: str


class Tally:
    """What became of the programs, of all workers."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.kinds: collections.Counter[str] = collections.Counter()
        self.handed_over: collections.Counter[str] = collections.Counter()
        self.evaluated = 0
        self.failures: list[Failure] = []

    def add(self, kind: str) -> None:
        with self.lock:
            self.kinds[kind] += 1

    def fail(self, failure: Failure) -> None:
        with self.lock:
            self.failures.append(failure)
        print(f"{failure.strategy} {failure.number} differs: {failure.kind}\n{failure.text[:1500]}", flush=True)

    def count(self, counts: dict[str, object]) -> None:
        with self.lock:
            self.evaluated += counts["evaluated"]  # type: ignore[operator]
            self.handed_over.update(counts["handed over"])  # type: ignore[arg-type]


def how_it_ended(status: int) -> str:
    if status == -signal.SIGALRM:
        return "it did not end"
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


def run_batch(strategy: str, seed: int, numbers: range, tally: Tally) -> None:
    """The programs in worker processes: another one after each that ends too early."""
    while numbers:
        command = [sys.executable, str(HERE / "worker.py"), strategy, str(seed), str(numbers.start), str(numbers.stop)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
        assert process.stdout is not None and process.stderr is not None
        at, evaluated = numbers.start, False
        for line in process.stdout:
            what, *rest = json.loads(line)
            if what == "begun":
                at, evaluated = rest[0], False
            elif what == "evaluated":
                evaluated = True
            elif what == "counts":
                tally.count(rest[0])
            elif rest[1] in ("same", "too deep", "not deterministic", "asks for places"):
                tally.add(rest[1])
            else:
                tally.fail(Failure(strategy, *rest))
        errors = process.stderr.read()
        status = process.wait()
        if status == 0:
            return
        if evaluated or status > 0:
            tally.fail(Failure(strategy, at, shrink.CRASH, f"{how_it_ended(status)}\n{errors[-3000:]}"))
        else:
            tally.add("not run plainly, either")
            print(f"{strategy} {at}, plainly: {how_it_ended(status)}", flush=True)
        numbers = range(at + 1, numbers.stop)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONHASHSEED": "0", "PYTHONFAULTHANDLER": "1"}


def show_one(strategy: str, seed: int, number: int) -> int:
    program = programs.make(strategy, seed, number)
    print(program.source)
    kind, text = shrink.outcome_kind(program)
    print(f"differs: {kind}\n{text}" if kind else "no difference")
    return 1 if kind else 0


def run_kept() -> int:
    found = {path.name: shrink.outcome_kind(kept.load(path)) for path in kept.paths()}
    differing = {name: text for name, (kind, text) in found.items() if kind}
    for name, text in differing.items():
        print(f"{name} differs: {text}")
    print(f"{len(found)} programs, {len(differing)} differ")
    return 1 if differing else 0


def keep(failures: list[Failure], seed: int) -> None:
    """Of what differs in the same way, the first two."""
    seen: collections.Counter[tuple[str, str]] = collections.Counter()
    for failure in failures:
        seen[failure.strategy, failure.kind] += 1
        if seen[failure.strategy, failure.kind] <= 2:
            program = shrink.shrunk(programs.make(failure.strategy, seed, failure.number))
            path = kept.save(program, f"{failure.strategy}_{seed}_{failure.number}", failure.kind)
            print(f"kept as {path}\n{program.source}\n{shrink.outcome_kind(program)[1][:1000]}\n", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=10_000, help="how many, shared among the strategies (10000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes at once (1)")
    parser.add_argument("--strategy", action="append", choices=sorted(programs.strategies()), help="may be given several times (all)")
    parser.add_argument("--mode", choices=sorted(compare.OURS), default="evaluate", help="how we run them (evaluate)")
    parser.add_argument("--every-node", action="store_true", help="with --mode capture: leave the graphs before each of their nodes")
    parser.add_argument("--stand-ins", action="store_true", help="with --mode capture: follow C functions that call back, and class statements")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="one program of one strategy")
    parser.add_argument("--keep", action="store_true", help="shrink what differs and save it in kept/")
    parser.add_argument("--kept", action="store_true", help="run the programs in kept/ instead")
    options = parser.parse_args()
    compare.MODE = os.environ["EVALFRAME_FUZZ_MODE"] = options.mode
    if options.stand_ins:
        compare.STAND_INS = True
        os.environ["EVALFRAME_FUZZ_STAND_INS"] = "1"
    if options.every_node:
        compare.EVERY_NODE = True
        os.environ["EVALFRAME_FUZZ_EVERY_NODE"] = "1"
    # What tools are told while a hook is there is another thing (docs/limits.md), and of a state machine they are told its own lines.
    told_apart = {"tools"} if options.mode != "evaluate" else set()
    chosen = options.strategy or sorted(programs.strategies().keys() - told_apart)
    if options.kept:
        return run_kept()
    if options.only is not None:
        if len(chosen) != 1:
            parser.error("--only needs one --strategy")
        return show_one(chosen[0], options.seed, options.only)
    tally, began = Tally(), time.monotonic()
    with ThreadPoolExecutor(options.jobs) as pool:
        for place, strategy in enumerate(chosen):
            count = options.programs // len(chosen) + (place < options.programs % len(chosen))
            for start in range(0, count, BATCH):
                pool.submit(run_batch, strategy, options.seed, range(start, min(start + BATCH, count)), tally).add_done_callback(lambda done: done.result())
    print(f"{sum(tally.kinds.values()) + len(tally.failures)} programs in {time.monotonic() - began:.0f} s: {dict(tally.kinds)}")
    print(f"{tally.evaluated} frames evaluated; handed over: {dict(tally.handed_over)}")
    for failure in tally.failures:
        print(f"differs ({failure.kind}): python tests/fuzz/run.py --strategy {failure.strategy} --seed {options.seed} --only {failure.number}")
    if options.keep:
        keep(tally.failures, options.seed)
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
