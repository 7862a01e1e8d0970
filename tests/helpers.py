"""What several test files use: graphs that are left early, and threads that run at once."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from evalframe import _core


@contextmanager
def leaving_before(node: int) -> Iterator[None]:
    """Every graph is left before this node; -1: nowhere."""
    _core.set_leave_before(node)
    try:
        yield
    finally:
        _core.set_leave_before(-1)


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
