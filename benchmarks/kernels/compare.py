"""Where two values differ, bit by bit."""

from typing import Any

import numpy as np


def difference(got: Any, wanted: Any, tolerance: float = 0.0, place: str = "result") -> str | None:
    """The first place where two values differ, in words; None where they are the same, types included.

    NaNs are the same as one another, 0.0 and -0.0 aren't. With a tolerance numbers may differ by that much of the
    largest one beside them.
    """
    if type(got) is not type(wanted):
        return f"{place} is of type {type(got).__name__}, not {type(wanted).__name__}"
    if isinstance(wanted, (tuple, list)):
        return _in_items(got, wanted, tolerance, place)
    if isinstance(wanted, (np.ndarray, np.generic, float, complex)):
        return _in_numbers(np.asarray(got), np.asarray(wanted), tolerance, place)
    return None if got == wanted else f"{place} is {got!r}, not {wanted!r}"


def _in_items(got: Any, wanted: Any, tolerance: float, place: str) -> str | None:
    if len(got) != len(wanted):
        return f"{place} has {len(got)} items, not {len(wanted)}"
    pairs = enumerate(zip(got, wanted, strict=True))
    found = (difference(one, other, tolerance, f"{place}[{number}]") for number, (one, other) in pairs)
    return next(filter(None, found), None)


def _in_numbers(got: np.ndarray, wanted: np.ndarray, tolerance: float, place: str) -> str | None:
    if (got.dtype, got.shape) != (wanted.dtype, wanted.shape):
        return f"{place} is {got.dtype} of shape {got.shape}, not {wanted.dtype} of shape {wanted.shape}"
    wrong = np.atleast_1d(~_same(got, wanted, tolerance))
    if not wrong.any():
        return None
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    values = f"{np.atleast_1d(got)[first]!r}, not {np.atleast_1d(wanted)[first]!r}"
    return f"{place}: {np.count_nonzero(wrong)} of {wrong.size} differ, the first at {first}: {values}"


def _same(got: np.ndarray, wanted: np.ndarray, tolerance: float) -> Any:
    if wanted.dtype.kind == "c":
        return _same(got.real, wanted.real, tolerance) & _same(got.imag, wanted.imag, tolerance)
    if wanted.dtype.kind != "f":
        return got == wanted
    same = (got == wanted) & (np.signbit(got) == np.signbit(wanted)) | (np.isnan(got) & np.isnan(wanted))
    if tolerance:
        finite = np.isfinite(got) & np.isfinite(wanted)
        scale = np.max(np.abs(wanted), initial=0.0, where=np.isfinite(wanted))
        same = same | finite & (np.abs(np.where(finite, got, 0) - np.where(finite, wanted, 0)) <= tolerance * scale)
    return same
