"""Two frame hooks: one counts the calls of each function, one runs every `+` of a function as `*`.

    python examples/hooks.py
"""

import types
from collections import Counter
from collections.abc import Callable

import evalframe
from evalframe.bytecode import Bytecode


def count_calls(counts: Counter[str]) -> Callable[[evalframe.FrameInfo], None]:
    """A callback that counts calls by the function's name, and lets them run."""

    def callback(frame: evalframe.FrameInfo) -> None:
        counts[frame.qualname] += 1

    return callback


def times_for_plus(function: types.FunctionType) -> Callable[[evalframe.FrameInfo], types.CodeType | None]:
    """A callback that runs calls of `function` with each `+` turned into `*`. The function itself stays as it is."""
    body = Bytecode.from_code(function)
    for instruction in body:
        if instruction.opname == "BINARY_OP" and instruction.argval in ("+", "+="):
            instruction.argval = instruction.argval.replace("+", "*")
    replacement = body.assemble()

    def callback(frame: evalframe.FrameInfo) -> types.CodeType | None:
        return replacement if frame.function is function else None

    return callback


def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def product_or_sum(a: int, b: int, c: int) -> int:
    return a + b + c


def main() -> None:
    counts: Counter[str] = Counter()
    with evalframe.hook(count_calls(counts)):
        result = fibonacci(15)
    print(f"fibonacci(15) = {result}; calls: {dict(counts)}")

    print(f"product_or_sum(2, 3, 4) = {product_or_sum(2, 3, 4)}")
    with evalframe.hook(times_for_plus(product_or_sum)):
        print(f"with + as *: {product_or_sum(2, 3, 4)}")
    print(f"afterwards: {product_or_sum(2, 3, 4)}")


if __name__ == "__main__":
    main()
