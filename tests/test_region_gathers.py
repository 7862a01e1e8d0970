"""Indices that are arrays, and masks, in native loops: what they take is made by the loop itself, and is NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from region_programs import check, shown

pytestmark = pytest.mark.usefixtures("native_loops_at_once")

R = np.random.default_rng(5)
INDEX_TYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
ELEMENT_TYPES = ["bool", "int16", "float32", "float64", "complex128", "uint64"]


def held_objects(function: Any, *arguments: Any) -> bool:
    """Whether the native loop has NumPy make objects in its turns."""
    captured = evalframe.jit(function)
    for _ in range(4):
        captured(*arguments)
    assert _core.jit_counters(captured)["native_turns"] > 50
    return any("held" in str(loop) for loop in evalframe.explain(captured)(*arguments).loops)


def by_rows(x: Any, indices: Any, out: Any) -> Any:
    for i in range(len(indices)):
        out[i] = x[indices[i]]
    return out


@pytest.mark.parametrize("index_type", INDEX_TYPES)
def test_ints_of_all_types_are_indices(index_type: str) -> None:
    indices = R.integers(0, 9, (60, 4))
    if index_type.startswith("i"):
        indices -= 4
    check(by_rows, *[(R.random(9), indices.astype(index_type), np.zeros((60, 4)))] * 3)


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_elements_of_all_types_are_taken(dtype: str) -> None:
    x = (R.random(9) * 9).astype(dtype)
    check(by_rows, *[(x, R.integers(-9, 9, (60, 4)), np.zeros((60, 4), dtype))] * 3)
    check(by_rows, *[(x[::-2], R.integers(-5, 5, (60, 4))[:, ::2], np.zeros((60, 2), dtype))] * 3)


@pytest.mark.parametrize("index", ["o, j", "j, o", "o, o", "o, p", "o", "p, ", "o, -1", "p % 3, j", "o[1:], p[1:]"])
def test_rows_columns_and_pairs(index: str) -> None:
    space: dict[str, Any] = {"np": np}
    exec(f"def f(A, o, p):\n    for j in range(A.shape[1]):\n        A[j % 3] += A[{index}].sum() * 0.01\n    last = A[{index}]\n    return last, last.base is None, last.flags.writeable", space)
    A, o, p = R.random((6, 80)), R.integers(-6, 6, 5), R.integers(0, 6, 5)
    check(space["f"], (A, o, p), (A, o, p), (np.asfortranarray(A), o, p), (A[::-1], o, p), (A, o, p[:1]), (A[:5], o, p), (A[:, ::-1], o, p), (A, o[:0], p[:0]), (A, o[:, None], p))


def test_what_is_taken_stays_as_it_was() -> None:
    def swap(x: Any, order: Any, n: int) -> Any:
        y = z = x[order]
        for i in range(n):
            y, z = x[order], y
            x[i % 5] = i
            y[0] -= 1.0
        return x, y, z

    check(swap, *[(R.random(9), R.permutation(9), n) for n in (60, 60, 61, 1, 0, 300)])


def test_stores_before_are_seen() -> None:
    def steps(x: Any, order: Any) -> Any:
        for i in range(1, len(x) - 3):
            x[i] = x[i - 1] * 0.5
            x[i : i + 3] = x[order[:3]] + x[i]
            x[i + 1] += x[order + i // 90][2]
        return x

    check(steps, *[(R.random(90), R.integers(0, 80, 9))] * 3)


def test_masks_keep_elements_of_rows() -> None:
    def kept(rows: Any, masks: Any) -> Any:
        out = np.zeros((len(rows), 3))
        some = rows[0]
        for i in range(len(rows)):
            some = rows[i][masks[i]]
            out[i, 0] = some.sum()
            out[i, 1] = len(some)
            out[i, 2] = (rows[i][rows[i] > 0.5] * 2.0).sum()
        return out, some

    rows, masks = R.random((60, 8)), R.random((60, 8)) > 0.5
    masks[20], masks[30] = False, True
    check(kept, (rows, masks), (rows, masks), (rows[:, ::-1], masks), (rows.T[:8, :8], masks), (rows, masks[:, :7]), (rows[:, :0], masks[:, :0]))
    assert not held_objects(kept, rows, masks)


def test_indices_out_of_range_raise_at_their_lines() -> None:
    def gather(A: Any, o: Any, p: Any) -> Any:
        total = 0.0
        for i in range(len(o)):
            total += A[o[i], p[i]].sum()
            A[1, 2] += 1.0
            total -= A[0][o[i]].sum()
            total += A[o[i]].sum()
        return total

    o, p = R.integers(-6, 6, (60, 3)), R.integers(0, 6, (60, 3))
    calls = [(R.random((6, 6)), o, p)] * 2
    for which, value in ((0, 6), (0, -7), (1, 6)):
        wrong = [o.copy(), p.copy()]
        wrong[which][45, 1] = value
        calls.append((R.random((6, 6)), *wrong))
    check(gather, *calls, calls[0])


def test_what_numpy_makes_in_another_order_is_left_to_it() -> None:
    def rows(A: Any, o: Any, n: int) -> Any:
        for _ in range(n):
            part = A[o]
            A[0, 0] += part[0, 0]
        return part, part.strides, part.flags.c_contiguous

    A, o = R.random((7, 5)), R.integers(0, 5, 4)
    check(rows, (A, o, 60), (A, o, 60), (A.T, o, 60), (A[:, ::-1], o, 60), (A, o, 60), native=False)


def test_nothing_is_held_for_them() -> None:
    indices = R.integers(0, 9, (60, 4))
    assert not held_objects(by_rows, R.random(9), indices, np.zeros((60, 4)))
    assert shown(by_rows(R.random(9) * 0, indices, np.zeros((60, 4)))) == shown(np.zeros((60, 4)))
