"""Threads that begin together, for the tests of captured functions and for the programs of `evaluator_stress/`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable


def run_in_threads(*work: Callable[[], None], switch_interval: float) -> list[BaseException]:
    """Runs each in a thread of its own, all begun together; what they raised."""
    failures: list[BaseException] = []
    start = threading.Barrier(len(work))

    def run(one: Callable[[], None]) -> None:
        try:
            start.wait()
            one()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(one,)) for one in work]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(switch_interval)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    return failures
