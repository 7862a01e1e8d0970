"""What a kernel is made of, and the decorator that puts one into the table of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

SIZES = ("tiny", "small", "medium", "large")

# What 2 ulp of an elementary function may have become at the end of a kernel, in ulp of the largest number.
AMPLIFIED = 1e4

Function = Callable[..., Any]
Size = int | tuple[int, ...]


@dataclass(frozen=True)
class Kernel:
    """A function in plain NumPy, and how to call it.

    `reference` takes the same arguments and comes to the same in another way: it returns what the kernel returns or,
    for a kernel that returns nothing, changes its arguments in the same way. `numba` is for `numba.njit`; None where
    that has no way of doing it. The bits of a kernel with `elementary` functions of arrays may be those of another
    implementation of these, at most 2 ulp off in each call of one. `rtol` is for the comparison with the reference,
    which adds up in another order.
    """

    name: str
    theme: str
    function: Function
    make: Callable[..., tuple[Any, ...]]
    sizes: dict[str, tuple[int, ...]]
    reference: Function | None
    numba: Function | None
    elementary: bool
    rtol: float

    def arguments(self, size: str) -> tuple[Any, ...]:
        """New arguments of a size, the same ones each time."""
        return self.make(np.random.default_rng(1), *self.sizes[size])

    def tolerance(self, arguments: tuple[Any, ...]) -> float:
        """By how much of its largest number a result may differ from plain Python's: none, or a few amplified ulp."""
        if not self.elementary:
            return 0.0
        return AMPLIFIED * float(np.finfo(np.float32 if _has_single(arguments) else np.float64).eps)


def _has_single(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_has_single, value))
    return getattr(value, "dtype", None) in (np.float32, np.complex64)


KERNELS: dict[str, Kernel] = {}


def kernel(
    make: Callable[..., tuple[Any, ...]],
    *sizes: Size,
    reference: Function | None = None,
    numba: Function | bool = False,
    elementary: bool = False,
    rtol: float = 1e-9,
) -> Callable[[Function], Function]:
    """Puts a function into the table; `make(random, *size)` makes its arguments for each of the four sizes.

    A tiny one takes at most 5 ms in plain CPython, a small one some 5 to 10, a medium one ten times and a large one a
    hundred times the work of a small one. `numba=True`: the function itself is for Numba.
    """
    whole = {name: size if isinstance(size, tuple) else (size,) for name, size in zip(SIZES, sizes, strict=True)}

    def put(function: Function) -> Function:
        name, theme = function.__name__, function.__module__.rpartition(".")[2]
        if name in KERNELS:
            raise ValueError(f"there are two kernels {name}: in {KERNELS[name].theme} and in {theme}")
        peer = function if numba is True else numba or None
        KERNELS[name] = Kernel(name, theme, function, make, whole, reference, peer, elementary, rtol)
        return function

    return put
