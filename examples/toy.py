"""Shows what evalframe makes of a function that branches on data: two graphs and the break between them.

    python examples/toy.py
"""

import numpy as np

import evalframe


def toy_function(a, b):
    x = a / (np.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def main() -> None:
    a, b = np.linspace(-1.0, 1.0, 10), np.arange(10.0) - 3.0
    compiled = evalframe.jit(toy_function)
    for b_now in (b, -b, b, -b):  # both sides of the branch, and again
        if not np.array_equal(compiled(a, b_now), toy_function(a, b_now)):
            raise SystemExit("results differ")
    print(evalframe.explain(toy_function)(a, b))


if __name__ == "__main__":
    main()
