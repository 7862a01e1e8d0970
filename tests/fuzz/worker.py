"""Compares a batch of programs, and tells of each on stdout before it begins, so that a crash is known to be its doing.

``python worker.py STRATEGY SEED FIRST END`` is how run.py starts it.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import evalframe
from fuzz import compare, programs  # noqa: E402

TIME_LIMIT = 30  # seconds for a program


def tell(*what: Any) -> None:
    sys.__stdout__.write(json.dumps(what) + "\n")  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]


def compare_batch(strategy: str, seed: int, numbers: range) -> None:
    compare.prepare()
    for number in numbers:
        tell("begun", number)
        signal.alarm(TIME_LIMIT)
        program = programs.make(strategy, seed, number)
        found = compare.compared(program, lambda: tell("evaluated", number))
        signal.alarm(0)
        if isinstance(found, str):
            tell("done", number, found, "")
        else:
            tell("done", number, *found)
    tell("counts", evalframe.evaluation_counts())


if __name__ == "__main__":
    compare_batch(sys.argv[1], int(sys.argv[2]), range(int(sys.argv[3]), int(sys.argv[4])))
