"""Indices that are arrays, and masks, in native loops: what they take is made by the loop itself, and is NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from region_programs import check, copies

pytestmark = pytest.mark.usefixtures("native_loops_at_once")

R = np.random.default_rng(5)
INDEX_TYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
ELEMENT_TYPES = ["bool", "int16", "float32", "float64", "complex128", "uint64"]


def numpy_calls(function: Any, *arguments: Any) -> int:
    """What the native loop leaves to NumPy."""
    captured = evalframe.jit(function)
    for _ in range(4):
        captured(*copies(arguments))
    assert _core.jit_counters(captured)["native_turns"] > 50
    return max(loop.numpy_calls for loop in evalframe.explain(captured)(*copies(arguments)).loops)


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


@pytest.mark.parametrize("index", ["[i % 9, 1]", "[i % 9, b[i] % 4, -1]", "[b[i] % 9]", "[i % 9, 2], i % 5", "i % 9, [2, i % 5, 2]", "[i % 9, 2], [b[i] % 5, 1]", "[i % 9, 2], o", "[i, 0]", "-i, [0, 1]", "[i % 9, b[i] - 7]"])
@pytest.mark.parametrize("index_type", ["int64", "int8", "uint16"])
def test_lists_of_ints_are_indices(index: str, index_type: str) -> None:
    space: dict[str, Any] = {"np": np}
    exec(f"def f(A, b, o):\n    s = 0.0\n    for i in range(len(b)):\n        taken = A[{index}]\n        s += taken.sum() + taken.size\n        A[1, 1] = i\n    return s, taken, taken.base is None", space)
    A, b, o = R.random((9, 5)), R.integers(0, 9, 60).astype(index_type), np.array([3, 0])
    check(space["f"], (A, b, o), (A, b, o), (A.T.copy().T, b, o), (A[::-1], b, o), (A, b[:3], o), (A[:4], b, o), (A, b, o[:1]), native=False)


@pytest.mark.parametrize(("index", "calls"), [("[k, 3]", 0), ("[k, len(x) - 1 - k]", 0), ("[u[k], 1]", None), ("[k > 2, k > 5] + [False] * 4", None), ("[]", None)])
def test_lists_of_what_numpy_has_other_arrays_for_are_its_own(index: str, calls: int | None) -> None:
    space: dict[str, Any] = {"np": np}
    exec(f"def f(x, u, n):\n    s = 0.0\n    for i in range(n):\n        k = i % 6\n        s += x[{index}].sum()\n        x[0] = i\n    return s", space)
    usual = R.random(6), np.arange(6, dtype=np.uint64), 80
    assert calls is None or numpy_calls(space["f"], *usual) == calls
    check(space["f"], usual, usual, (usual[0][:4], *usual[1:]), native=False)


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
    assert not numpy_calls(kept, rows, masks)


def test_masks_with_runs_of_any_length() -> None:
    def moved(rows: Any, masks: Any, some: Any) -> Any:
        out = np.zeros(len(rows), complex)
        for i in range(len(rows)):
            x, mask = rows[i], masks[i]
            kept = x[mask]
            out[i] = kept.sum() + len(kept)
            x[mask] = some[: len(kept)]
            out[i] += x.sum()
            x[mask] = 0.5
        return out

    places, some = np.arange(45), R.random(90)
    runs = [(places >= first) & (places < first + n) for first in (0, 3, 8, 13) for n in (0, 1, 7, 8, 9, 16, 24, 32)]
    masks = np.array([*runs, *(~run for run in runs), *(run ^ (places % 5 == 0) for run in runs)])
    bits = (masks * R.integers(1, 256, masks.shape)).astype(np.uint8).view(np.bool_)  # NumPy takes any byte but 0 for true
    for dtype in (np.float64, np.complex128, np.float32, np.uint8, np.int16):
        rows, values = (R.random(masks.shape) * 9).astype(dtype), (some * 9).astype(dtype)
        layouts = [(rows, masks), (rows[:, ::-1], masks), (rows, masks[:, ::-1]), (rows.T.copy().T, masks), (rows, masks.T.copy().T), (rows, bits)]
        calls = [(*layout, values) for layout in layouts]
        check(moved, *calls[:1] * 2, *calls, (rows, masks, values[::2].copy()[::-1]), (rows, masks, np.repeat(values, 2)[::2]))
    assert not numpy_calls(moved, rows, masks, values)


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


def test_masks_of_matrices_and_of_rows() -> None:
    def kept(A: Any, masks: Any) -> Any:
        total = 0.0
        for i in range(len(masks)):
            rows = A[masks[i, 0]]
            total += rows.sum() + len(rows)
            some = A[masks[i]]
            total += some.sum() + len(some) + A[A > 0.9].sum()
            A[0, 0] = 0.5 / (i + 1)
        return total, rows, some

    A, masks = R.random((6, 6)), R.random((60, 6, 6)) > 0.5
    masks[20], masks[30] = False, True
    check(kept, (A, masks), (A, masks), (A.T, masks), (A[::-1, ::-1], masks), (A, masks[:, ::-1, ::2].repeat(2, axis=2)), (A, masks[:, :5]), (A[:, :0], masks[:, :, :0]))


# What is stored, and how much of it is left to NumPy; None: no turn is native, as it raises, or what is stored may stand in the way.
STORES = [
    ("x[o] = v", 0),
    ("x[o] += v", 0),
    ("x[o] = i", 0),
    ("x[o] = 0.25", 0),
    ("x[o] = x[::-1][:5]", 0),
    ("x[o] = x[o[::-1]]", 0),
    ("x[x > 0.5] = 0.1", 0),
    ("x[x > 0.5] *= 0.5", 0),
    ("x[m] = w[: m.sum()]", 0),
    ("x[m] = x[::-1][m]", 0),
    ("x[m] = 0.5", 0),
    ("A[o] = i", 0),
    ("A[o] = A[o[::-1]] * 0.5", 0),
    ("A[o, o] = v", 0),
    ("A[o, i % 3] += v", 0),
    ("A[1, o] = v", 0),
    ("A[A > 0.5] *= 0.5", 0),
    ("A[A > 0.9] = i", 0),
    ("A[m] = 0.0", 1),
    ("A[o[:, None], o] = 1.0", 1),
    ("b[o] = v", 0),
    ("b[b > 3] = 2.75", 0),
    ("o[o] = o + 1 - 1", None),
    ("o[o > 3] -= 1", 0),
    ("f[o] = v", 0),
    ("x[o] = w[:1]", 0),
    ("A[o] = w", 1),
    ("A[o] = A[:, :1][o]", 0),
    ("A[o] = v[:, None]", 0),
    ("x[m] = w[:1]", 0),
    ("x[o] = w", None),
    ("x[o] = -1 + b[o]", 0),
    ("x[[i % 5, -1]] = v[:2]", 0),
    ("x[[0, i % 3, 0]] = x[[2, 1, i % 6]]", 0),
    ("A[[i % 6, b[1] % 6]] = A[[b[1] % 6, i % 6]]", 0),
    ("A[[i % 6, o[0]], [o[2], 1]] += 0.5", 0),
    ("A[:, [i % 6, 0]] = 0.5", None),
    ("x[[i > 40, i < 9, True, False, True, False]] = i", 1),
    ("x[[i, 1]] = 0.25", None),
]


@pytest.mark.parametrize(("store", "calls"), STORES)
def test_stores_by_arrays(store: str, calls: int | None) -> None:
    space: dict[str, Any] = {"np": np}
    exec(f"def f(x, A, b, f, o, m, v, w):\n    s = 0.0\n    for i in range(80):\n        {store}\n        s += x[1] + A[2, 2] + b[0] + f[1]\n    return s, x, A, b, f, o", space)
    x, A, b, f = R.random(6), R.random((6, 6)), R.integers(0, 9, 6), R.random(6).astype(np.float32)
    o, m, v, w = np.array([3, 0, 5, -1, 2]), np.array([True, False, True, True, False, True]), R.random(5), R.random(6)
    usual = (x, A, b, f, o, m, v, w)
    assert calls is None or numpy_calls(space["f"], *usual) == calls
    out_of_range = np.array([3, 0, 5, 6, 2])
    # Before anything else is stored.
    large = np.array([1.0, 1e300, 2.0, 3.0, 4.0])
    check(space["f"], usual, usual, (x, A.T, b, f, o, m, v, w), (x[::-1], A[::-1], b, f, o, m, v, w), (x, A, b, f, out_of_range, m, v, w), (x, A, b, f, o, m[:5], v, w), (x, A, b, f, o, m, v[:4], w), (x, A, b, f, o, m, large, w), (x, A, b, f, o, ~m, v, w[::-1]), native=False)
    read_only = x.copy()
    read_only.flags.writeable = False
    check(space["f"], (read_only, A, b, f, o, m, v, w), usual, native=False)


def test_stores_by_arrays_that_share_memory() -> None:
    def shift(x: Any, y: Any, o: Any, mask: Any) -> Any:
        for i in range(80):
            x[o] = y
            x[mask] = y[: mask.sum()]
            o[o] = (o + 1) % 5
        return x

    x = R.random(12)
    o, numbers = R.permutation(5), np.arange(8)
    flags = np.array([1, 0, 1, 1, 0], np.uint8).view(bool)
    check(shift, (x[:5], x[1:6], o, flags), (x[:5], x[6:11], o, flags), (x[4::-1], x[:5], o, flags), (x[:5], x[:5], o, flags), native=False)

    def own(a: Any, o: Any, n: int) -> Any:
        for i in range(n):
            a[a[:5]] = a[1:6]
            a[o] = o[::-1]
        return a

    check(own, (numbers, numbers[:5], 80), (numbers, np.arange(5), 80), (numbers, numbers[3:], 80), native=False)


def test_only_what_is_left_to_numpy_is_told_as_such() -> None:
    def sorts(x: Any, indices: Any) -> Any:
        for i in range(len(indices)):
            x[indices[i]] = np.sort(x[indices[i]]) + i
        return x

    indices = R.integers(0, 9, (60, 4))
    assert numpy_calls(by_rows, R.random(9), indices, np.zeros((60, 4))) == 0
    assert numpy_calls(by_rows, R.random(9), indices.astype(np.uint64), np.zeros((60, 4))) == 1
    assert numpy_calls(sorts, R.random(9), indices) == 1
    captured = evalframe.jit(sorts)
    for _ in range(4):
        captured(R.random(9), indices)
    assert "1 call of NumPy, " in str(evalframe.explain(captured)(R.random(9), indices).loops[0])
