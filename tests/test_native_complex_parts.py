"""The real and imaginary parts of complex arrays, which are views, in kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import evalframe

rng = np.random.default_rng(21)


def numbers(dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)


def alike(function: Any, *arguments: Any, times: int = 3) -> Any:
    """Results, what arguments have become, and which results are views of them, as plain Python has it."""
    captured = evalframe.jit(function)
    for _ in range(times):
        ours, theirs = [np.copy(x, order="K") for x in arguments], [np.copy(x, order="K") for x in arguments]
        got, wanted = captured(*ours), function(*theirs)
        for a, b in zip([*as_tuple(got), *ours], [*as_tuple(wanted), *theirs], strict=True):
            np.testing.assert_array_equal(a, b)
            assert type(a) is type(b) and a.dtype == b.dtype and a.strides == b.strides
        for a, b in zip(as_tuple(got), as_tuple(wanted), strict=True):
            assert [np.shares_memory(a, x) for x in ours] == [np.shares_memory(b, x) for x in theirs]
    return captured


def as_tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray, lambda z: z[::-1], lambda z: z[:, ::2], lambda z: z.T])
def test_sizes_of_numbers(dtype: str, layout: Any) -> None:
    alike(lambda z: z.real**2 + z.imag**2, layout(numbers(dtype, 30, 40)))
    alike(lambda z: (z * z).real - (z + 1).imag * 2, layout(numbers(dtype, 30, 40)))
    alike(lambda z: np.where(z.real > 0, z.imag, 0).sum(axis=0), layout(numbers(dtype, 30, 40)))


def test_it_is_one_kernel() -> None:
    z = numbers("c16", 300)
    compiled = str(evalframe.explain(lambda z: np.sqrt(z.real * z.real + z.imag * z.imag) < 2)(z))
    assert "kernels n0 .. n8" in compiled and "call n" not in compiled, compiled


def test_views_stay_views() -> None:
    z = numbers("c16", 20, 30)
    alike(lambda z: z.real, z)
    alike(lambda z: (z.real, z.imag * 2), z)
    alike(lambda z: z.imag[1:3] * 2, z)

    def kept(z: Any) -> Any:
        x = z.real
        return x * 2, x

    alike(kept, z)


def test_what_is_written_in_between_is_seen() -> None:
    z = numbers("c16", 20, 30)

    def later(z: Any) -> Any:
        x = z.real
        z *= 2
        return x + 1

    def through_it(z: Any) -> Any:
        z.real[...] = z.imag * 3
        z.imag += 1.5
        return z + 1

    def by_a_view(z: Any) -> Any:
        x, part = z.real, z[3:5]
        part[...] = 7
        return x * 2

    def itself(z: Any) -> Any:
        z *= z.real
        return z.imag - 1

    def by_the_one_behind(z: Any) -> Any:
        x = z.real * 2
        z += x
        return z.real + x

    for function in (later, through_it, by_a_view, itself, by_the_one_behind):
        alike(function, z)


def test_arguments_that_overlap() -> None:
    def shift(z: Any, w: Any) -> Any:
        x = z.real
        w += 1
        return x * 2 + w.imag

    captured = evalframe.jit(shift)
    for same in (False, True, False, True):
        z = numbers("c16", 50)
        other = z.copy()
        assert np.array_equal(captured(z, z[::-1] if same else z + 0), shift(other, other[::-1] if same else other + 0))
        assert np.array_equal(z, other)


def test_left_early() -> None:
    def rooted(z: Any) -> Any:
        return np.sqrt(z.real - 10) + z.imag

    captured = evalframe.jit(rooted)
    with np.errstate(all="ignore"):
        captured(numbers("c16", 40))
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="sqrt") as told:
            captured(numbers("c16", 40))
        assert [one.lineno for one in told] == [rooted.__code__.co_firstlineno + 1]


def test_masks_of_escaped_points() -> None:
    def step(z: Any, c: Any, counts: Any, inside: Any, n: int) -> Any:
        escaped = inside & (z.real**2 + z.imag**2 > 4.0)
        counts[escaped] = n
        inside &= ~escaped
        z[inside] = z[inside] * z[inside] + c[inside]
        return counts.sum()

    c = np.linspace(-2, 1, 90) + 1j * np.linspace(-1, 1, 70)[:, None]
    captured = evalframe.jit(step)
    ours, theirs = ([np.zeros_like(c), c, np.full(c.shape, 50), np.ones(c.shape, bool)] for _ in range(2))
    for n in range(50):
        assert captured(*ours, n) == step(*theirs, n)
    assert np.array_equal(ours[0].view(float), theirs[0].view(float)) and np.array_equal(ours[3], theirs[3])


def test_of_arrays_of_the_graph() -> None:
    alike(lambda x, y: (x + 1j * y).real * 2 + (x - 1j * y).imag, rng.normal(size=400), rng.normal(size=400))
