"""Prints the seconds that call-heavy Python takes, with evalframe imported or not; started by run.py."""

import sys
import time

if "--import" in sys.argv:
    import evalframe  # noqa: F401


def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def add(self, amount: int = 1, *, twice: bool = False) -> None:
        self.count += amount * 2 if twice else amount


def work() -> float:
    start = time.perf_counter()
    fibonacci(20)
    counter = Counter()
    for i in range(20_000):
        counter.add(i, twice=True)
    sorted([str(i) for i in range(10_000)], key=len)
    return time.perf_counter() - start


print(min(work() for _ in range(10)))
