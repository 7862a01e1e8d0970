"""Counts the calls of a program with a hook on frame evaluation; the program knows nothing of it.

    python examples/hook_counts.py [n]
"""

import sys
from collections import Counter

import evalframe


def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    calls: Counter[str] = Counter()

    def count(frame: evalframe.FrameInfo) -> None:
        calls[frame.qualname] += 1  # returning None lets the frame run

    with evalframe.hook(count):
        result = fibonacci(n)
    print(f"fibonacci({n}) = {result}")
    for name, number in calls.most_common():
        print(f"{number:>8} calls of {name}")


if __name__ == "__main__":
    main()
