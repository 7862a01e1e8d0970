"""The kernels of `benchmarks/kernels` come to the same captured as plain, bit by bit, also where arguments make them fail; and plain to the same as references."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import outcome

pytest.importorskip("scipy")
from kernels import KERNELS, Kernel  # noqa: E402
from kernels.compare import difference  # noqa: E402

ELEMENTARY = [name for name, kernel in KERNELS.items() if kernel.elementary]

Arguments = tuple[Any, ...]
Calls = Sequence[Callable[[Arguments], Arguments]]


pytestmark = pytest.mark.usefixtures("native_loops_at_once")


def as_they_are(arguments: Arguments) -> Arguments:
    return arguments


def one_short(arguments: Arguments) -> Arguments:
    """The last array has lost its last row."""
    return changed_last(arguments, lambda array: array[:-1].copy(), kinds="biufc")


def with_a_nan(arguments: Arguments) -> Arguments:
    def put(array: np.ndarray) -> np.ndarray:
        array.flat[array.size // 2] = np.nan
        return array

    return changed_last(arguments, put, kinds="fc")


def all_zero(arguments: Arguments) -> Arguments:
    return tuple(np.zeros_like(value) if isinstance(value, np.ndarray) and value.dtype.kind in "fc" else value for value in arguments)


def changed_last(arguments: Arguments, change: Callable[[np.ndarray], np.ndarray], kinds: str) -> Arguments:
    """With the last array of these kinds of elements changed."""
    places = [i for i, value in enumerate(arguments) if isinstance(value, np.ndarray) and value.ndim and value.dtype.kind in kinds]
    return tuple(change(value) if i in places[-1:] else value for i, value in enumerate(arguments))


def each_array(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Arguments], Arguments]:
    """Arguments with each array changed."""

    def changed(arguments: Arguments) -> Arguments:
        return tuple(change(value) if isinstance(value, np.ndarray) and value.ndim else value for value in arguments)

    return changed


def spread_out(array: np.ndarray) -> np.ndarray:
    """Every second element of a larger array, whose others would be noticed."""
    larger = np.full((*array.shape[:-1], 2 * array.shape[-1]), 77, array.dtype)
    larger[..., ::2] = array
    return larger[..., ::2]


def backwards_in_memory(array: np.ndarray) -> np.ndarray:
    return np.flip(np.flip(array).copy())


def in_fewer_bits(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind == "i":
        return (array.astype(np.int64) % 2**31).astype(np.int32)
    return array.astype({"f": np.float32, "c": np.complex64}.get(array.dtype.kind, array.dtype))


def of_whole_numbers(array: np.ndarray) -> np.ndarray:
    return (10 * array).astype(np.int64) if array.dtype.kind == "f" else array


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def with_infinities(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind in "fc":
        array.flat[:: max(array.size // 3, 1)] = np.inf
    return array


def one_array_for_all(arguments: Arguments) -> Arguments:
    """Arguments of the same shape and type are the same array."""
    first: dict[Any, np.ndarray] = {}
    return tuple(first.setdefault((v.shape, v.dtype), v) if isinstance(v, np.ndarray) else v for v in arguments)


# Three calls as they should be, then those that leave what was recorded.
CALLS = [as_they_are] * 3 + [one_short, with_a_nan, all_zero, as_they_are]
OTHER_ARRAYS = (spread_out, backwards_in_memory, np.asfortranarray, in_fewer_bits, of_whole_numbers, read_only, with_infinities)
OTHERS = {change.__name__: each_array(change) for change in OTHER_ARRAYS} | {"one_array_for_all": one_array_for_all}


def observed(function: Callable[..., Any], arguments: Arguments) -> Any:
    """Value or exception, warnings, and what became of the arguments; those are copied before."""
    memory: dict[int, Any] = {}
    arguments = tuple(copied(value, memory) for value in arguments)
    return [outcome(function, *arguments), [memory_of(value) for value in arguments]]


def copied(value: Any, memory: dict[int, Any]) -> Any:
    """A deep copy, in which arrays are views of the same kind, of copies of the whole memory that they are views of."""
    if not isinstance(value, np.ndarray):
        return copy.deepcopy(value, memory)
    if id(value) not in memory:
        owner = memory_of(value)
        buffer = owner.copy(order="K")
        start = value.ctypes.data - owner.ctypes.data
        view = np.ndarray(value.shape, value.dtype, buffer, start, value.strides) if owner is not value else buffer
        view.flags.writeable = value.flags.writeable
        memory[id(value)] = view
    return memory[id(value)]


def memory_of(value: Any) -> Any:
    while isinstance(value, np.ndarray) and isinstance(value.base, np.ndarray):
        value = value.base
    return value


def differences(kernel: Kernel, size: str = "tiny", calls: Calls = CALLS, exact: bool = False) -> Iterator[tuple[str, str]]:
    captured = evalframe.jit(kernel.function, exact=exact)
    for change in calls:
        arguments = change(kernel.arguments(size))
        got, wanted = (observed(function, arguments) for function in (captured, kernel.function))
        if found := difference(got, wanted, 0.0 if exact else kernel.tolerance(arguments), "outcome"):
            yield change.__name__, found


@pytest.mark.mostly_slow(3)
@pytest.mark.parametrize("name", KERNELS)
def test_comes_to_the_same_captured(name: str) -> None:
    assert list(differences(KERNELS[name])) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_comes_to_the_same_captured_with_long_loops(name: str) -> None:
    assert list(differences(KERNELS[name], "small")) == []


@pytest.mark.slow
@pytest.mark.parametrize("turns", [1, 4])
@pytest.mark.parametrize("name", KERNELS)
def test_comes_to_the_same_where_native_loops_are_left(name: str, turns: int) -> None:
    _core.set_region_turns(turns)
    assert list(differences(KERNELS[name])) == []


@pytest.mark.slow
@pytest.mark.parametrize("change", OTHERS)
@pytest.mark.parametrize("name", KERNELS)
def test_comes_to_the_same_with_other_arrays(name: str, change: str) -> None:
    """What has been recorded and compiled for some arrays is asked for others: of other layouts, types and values."""
    calls = [as_they_are] * 3 + [OTHERS[change]] * 2 + [as_they_are]
    assert list(differences(KERNELS[name], "tiny", calls)) == []


@pytest.mark.parametrize("name", ELEMENTARY)
def test_comes_to_the_same_bits_with_exact_functions(name: str) -> None:
    assert list(differences(KERNELS[name], exact=True)) == []


@pytest.mark.parametrize("name", [name for name, kernel in KERNELS.items() if kernel.reference])
def test_comes_to_the_same_as_its_reference(name: str) -> None:
    kernel = KERNELS[name]
    arguments, others = kernel.arguments("tiny"), kernel.arguments("tiny")
    result, wanted = kernel.function(*arguments), kernel.reference(*others)
    got, wanted = (arguments, others) if result is None else (result, wanted)
    assert_close(got, wanted, kernel.rtol)


def assert_close(got: Any, wanted: Any, rtol: float) -> None:
    if isinstance(got, (tuple, list)):
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted):
            assert_close(one, other, rtol)
    elif not isinstance(got, str):
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol)


def test_arguments_are_the_same_each_time() -> None:
    for kernel in KERNELS.values():
        for size in ("tiny", "small"):
            assert difference(kernel.arguments(size), kernel.arguments(size)) is None, (kernel.name, size)


def test_a_second_kernel_of_a_name_is_refused() -> None:
    from kernels.table import kernel

    def gemm():
        pass

    with pytest.raises(ValueError, match="two kernels gemm"):
        kernel(lambda random, n: (n,), 1, 2, 3, 4)(gemm)


def test_differences_are_told() -> None:
    x = np.arange(3.0)
    assert difference((x, "a", [1]), (x.copy(), "a", [1])) is None
    assert difference(x, x.astype(np.float32)) == "result is float64 of shape (3,), not float32 of shape (3,)"
    assert difference([x, 1], [x, 1.0]) == "result[1] is of type int, not float"
    assert difference(np.array([0.0, np.nan]), np.array([-0.0, np.nan])) == "result: 1 of 2 differ, the first at (0,): np.float64(0.0), not np.float64(-0.0)"
    assert difference(x, x + 1e-13) is not None
    assert difference(x, x + 1e-13, tolerance=1e-12) is None
