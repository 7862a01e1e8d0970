"""What native loops don't compute themselves they leave to NumPy: it behaves as CPython and NumPy have it behave."""

from __future__ import annotations

import gc
import re
import signal
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import outcome
from region_programs import Kernels, check, shown

pytestmark = pytest.mark.usefixtures("native_loops_at_once")

R = np.random.default_rng(3)
KERNELS = Kernels()
kernel = KERNELS.kernel


def sparse(rows: int, columns: int) -> Any:
    """A matrix in compressed rows, and a vector."""
    counts = R.integers(0, 9, rows)
    pointers = np.concatenate([[0], np.cumsum(counts)])
    return pointers, R.integers(0, columns, pointers[-1]), R.random(pointers[-1]), R.random(columns)


@kernel(lambda: sparse(200, 50))
def rows_by_gathers(pointers: Any, columns: Any, values: Any, x: Any) -> Any:
    y = np.zeros(len(pointers) - 1)
    for i in range(len(y)):
        first, last = pointers[i], pointers[i + 1]
        y[i] = values[first:last] @ x[columns[first:last]]
    return y


@kernel(lambda: (R.integers(0, 30, (100, 12)), R.random((100, 12))))
def scattered(indices: Any, values: Any) -> Any:
    counts, last = np.zeros(30), np.zeros(30)
    for i in range(len(indices)):
        counts[indices[i]] += values[i]
        last[indices[i]] = values[i]
    return counts, last


@kernel(lambda: (R.random((100, 20)),))
def by_masks(rows: Any) -> Any:
    out = np.zeros((len(rows), 4))
    for i in range(len(rows)):
        row = rows[i]
        kept = row[row > 0.5]
        out[i, 0] = kept.sum()
        out[i, 1] = len(kept)
        row[row < 0.2] = 0.2
        row[row > 0.9] *= 0.5
        out[i, 2] = row[::-1][kept.argmax()] if len(kept) else -1.0
    return out


@kernel(lambda: (R.random((100, 15)), 0.3))
def in_order(rows: Any, least: float) -> Any:
    out = np.zeros(rows.shape)
    for i in range(len(rows)):
        order = np.argsort(rows[i])
        rows[i] = rows[i][order]
        out[i] = np.cumsum(rows[i])
        out[i] -= np.roll(out[i], 2)
        out[i, : np.searchsorted(rows[i], least)] = 0.0
    return out


@kernel(lambda: (R.integers(0, 256, 4096).astype(np.uint8), 64))
def chunks(data: Any, size: int) -> Any:
    """What is held goes from turn to turn."""
    total = np.zeros(256, dtype=np.int64)
    best = data[:size]
    for start in range(0, len(data), size):
        chunk = data[start : start + size]
        counts = np.bincount(chunk, minlength=256)
        total += counts
        chosen = chunk[chunk > 128]
        if len(chosen) > len(best) // 4:
            best = chosen
    return total, best


@kernel(lambda: (R.random(40), R.integers(0, 40, 40), 200))
def permuted(x: Any, order: Any, n: int) -> Any:
    """A new object for the variable in each turn."""
    for _ in range(n):
        x = x[order] * 0.5 + 0.25
    return x


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_run_natively(name: str) -> None:
    assert KERNELS.counters(name, 5)["native_turns"] > 50


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("turns", [1, 7])
def test_loops_may_be_left_after_any_turn(name: str, turns: int) -> None:
    _core.set_region_turns(turns)
    counters = KERNELS.counters(name, 3)
    assert counters["native_turns"] > 5, counters


def test_indices_out_of_range_raise_at_their_lines() -> None:
    def gather(x: Any, indices: Any, out: Any) -> Any:
        for i in range(len(indices)):
            out[i] = x[indices[i]].sum()
            out[i, indices[i]] += 1.0

    indices = R.integers(0, 6, (60, 3))
    wrong = indices.copy()
    wrong[40, 1] = 6
    x, out = R.random(9), np.zeros((60, 6))
    check(gather, (x, indices, out), (x, indices, out), (x, wrong, out), (x[:6], wrong, out), (x, indices - 6, out), (x, indices - 7, out))


def test_shapes_that_do_not_fit_raise_at_their_lines() -> None:
    def scatter(x: Any, mask: Any, values: Any) -> Any:
        for i in range(len(x)):
            x[i][mask[i]] = values
            x[i][mask[0]] += values

    x, mask = R.random((60, 8)), np.zeros((60, 8), bool)
    mask[:, 3:5] = True
    uneven = mask.copy()
    uneven[33, 6] = True
    check(scatter, (x, mask, np.ones(2)), (x, mask, np.ones(2)), (x, uneven, np.ones(2)), (x, uneven, np.ones(1)), (x, mask[:, :7], np.ones(2)))


def test_conditions_are_reported_at_their_lines() -> None:
    def scans(x: Any, order: Any, out: Any) -> Any:
        for i in range(len(x)):
            out[i] = np.cumsum(x[i])[order]
            out[i] += np.diff(x[i], prepend=0.0)
        return out

    x, order = R.random((60, 5)), R.integers(0, 5, 5)
    large = x.copy()
    large[45, 2:4] = 1.7e308
    arguments = x, order, np.zeros((60, 5))
    check(scans, arguments, arguments, (large, *arguments[1:]), arguments)
    captured = evalframe.jit(scans)
    for _ in range(3):
        with np.errstate(all="ignore"):
            assert shown(scans(large, order, arguments[2].copy())) == shown(captured(large, order, arguments[2].copy()))
    for _ in range(2):
        with np.errstate(all="raise"):
            assert repr(outcome(captured, large, order, arguments[2].copy())) == repr(outcome(scans, large, order, arguments[2].copy()))
    told: dict[str, list[tuple[str, int]]] = {"plain": [], "ours": []}
    for side, function in (("plain", scans), ("ours", captured)):
        with np.errstate(all="call", call=lambda kind, flag, side=side: told[side].append((kind, flag))):
            function(large, order, arguments[2].copy())
    assert told["plain"] == told["ours"] != []


def test_results_of_other_types_leave_the_loop() -> None:
    def least(x: Any, mask: Any) -> Any:
        out = []
        kept = x[0]
        for i in range(len(x)):
            kept = x[i][mask[i % len(mask)]]
            x[i] += kept.sum()
        out.append(kept)
        return out

    x, mask = R.random((60, 5)), R.random((7, 5)) > 0.5
    check(least, (x, mask), (x, mask), (x, np.array([1, 2, 0])), (x, np.arange(35).reshape(7, 5) % 5), (x, mask), native=False)


# The first is the loop's own array, the second one an object of NumPy's.
NEW_ARRAYS = pytest.mark.parametrize("new", [lambda x, order: x[order], lambda x, order: np.diff(x, prepend=0.5)], ids=["own", "held"])


@NEW_ARRAYS
def test_long_loops_of_new_arrays_take_no_memory(new: Callable[[Any, Any], Any]) -> None:
    def gather(x: Any, order: Any, n: int) -> float:
        total = 0.0
        for _ in range(n):
            y = new(x, order)
            total += y[0]
        return total

    captured = evalframe.jit(gather)
    x, order = R.random(20_000), R.integers(0, 20_000, 20_000)
    for _ in range(4):
        assert captured(x, order, 60) == gather(x, order, 60)
    gc.collect()
    tracemalloc.start()
    assert captured(x, order, 3000) == gather(x, order, 3000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert _core.jit_counters(captured)["native_turns"] > 100
    # 160 kB each: a few more than the 4 MiB that are held until the loop is left.
    assert peak < 8 << 20


@NEW_ARRAYS
def test_what_is_held_is_let_go_and_what_leaves_is_alone(new: Callable[[Any, Any], Any]) -> None:
    def last(x: Any, order: Any, n: int) -> Any:
        y = x
        for i in range(n):
            y = new(x, order)
            y[0] += i
            z = y
        return y, z, y is z, y.base is None, y.flags.owndata

    captured = evalframe.jit(last)
    x, order = R.random(10), R.integers(0, 10, 10)
    results = []
    for n in (40, 41, 40, 300, 40):
        want, got = last(x, order, n), captured(x, order, n)
        assert shown(want) == shown(got)
        results.append(got)
    assert len({id(result[0]) for result in results}) == len(results)
    assert not any(np.shares_memory(one[0], x) for one in results)
    gc.collect()
    assert _core.jit_counters(captured)["native_loops"]


@NEW_ARRAYS
@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError, FloatingPointError])
def test_handlers_of_signals_that_raise_end_the_loop(new: Callable[[Any, Any], Any], error: type[BaseException]) -> None:
    """Wherever they run: np.diff() is code of Python's, too."""

    def gather(x: Any, order: Any, n: int) -> Any:
        for i in range(n):
            x = new(x, order) * 0.25
            x[0] = i
        return x

    captured = evalframe.jit(gather)
    x, order = R.random(50), R.permutation(50)
    for _ in range(4):
        captured(x, order, 200)

    def stop(number: int, frame: Any) -> None:
        raise error("time is up")

    before = signal.signal(signal.SIGALRM, stop)
    try:
        for _ in range(5):
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            with pytest.raises(error, match="time is up"):
                captured(x, order, 10**6)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert shown(captured(x, order, 70)) == shown(gather(x, order, 70))


def test_warnings_of_calls_have_their_places() -> None:
    def means(rows: Any, masks: Any) -> Any:
        out = np.zeros(len(rows))
        for i in range(len(rows)):
            kept = rows[i][masks[i]]
            out[i] = kept.mean()
        return out

    rows, masks = R.random((60, 6)), R.random((60, 6)) > 0.3
    masks[:, 0] = True
    empty = masks.copy()
    empty[37] = False
    captured = evalframe.jit(means)
    for arguments in ((rows, masks), (rows, masks), (rows, empty), (rows, masks)):
        sides: list[Any] = []
        for function in (means, captured):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                result = shown(function(*arguments))
            sides.append((result, [(str(w.message), w.category, w.filename, w.lineno) for w in caught]))
        assert sides[0] == sides[1]


@NEW_ARRAYS
def test_a_part_of_what_is_held_keeps_it(new: Callable[[Any, Any], Any]) -> None:
    def parts(x: Any, order: Any, n: int) -> Any:
        tail = x
        for i in range(n):
            made = new(x, order)
            tail = made[2:]
            tail[0] = i
        return tail, tail.base.shape

    x, order = R.random(12), R.permutation(12)
    check(parts, (x, order, 50), (x, order, 50), (x, order, 300), (x, order, 2), native=False)


def means_of_what_is_there(rows: Any, out: Any) -> None:
    for i in range(len(rows)):
        out[i] = np.nanmean(rows[i])


def variances_of_few(rows: Any, out: Any) -> None:
    for i in range(len(rows)):
        out[i] = np.var(rows[i, 0], ddof=1)


def products_of_two(rows: Any, out: Any) -> None:
    for i in range(len(rows)):
        out[i] = np.cross(rows[i, : 2 + i % 2], rows[i])[0]


def medians_of_none(rows: Any, out: Any) -> None:
    for i in range(len(rows)):
        out[i] = np.median(rows[i, 1 : 1 + i % 2])


@pytest.mark.parametrize("function", [means_of_what_is_there, variances_of_few, products_of_two, medians_of_none])
@pytest.mark.parametrize("state", ["warn", "ignore", "raise"])
def test_warnings_that_numpy_gives_by_python_code(function: Callable[..., Any], state: Any) -> None:
    """Each once, and at the program's line: nothing makes an exception of them for one call."""
    rows = R.random((40, 3))
    rows[7] = rows[30] = np.nan
    with np.errstate(all=state):
        check(function, *[(rows, np.zeros(40))] * 4, native=False)


ERRSTATES: list[Callable[[], Any]] = [lambda: np.errstate(over="raise"), lambda: np.errstate(invalid="ignore"), lambda: np.errstate(divide="warn")]


@pytest.mark.parametrize("state", ERRSTATES)
def test_error_states_that_change_between_calls(state: Callable[[], Any]) -> None:
    def logs(x: Any, order: Any) -> Any:
        out = np.zeros(x.shape)
        for i in range(len(x)):
            out[i] = np.cumprod(x[i])[order]
        return out

    captured = evalframe.jit(logs)
    x, order = R.random((60, 4)), R.permutation(4)
    large = np.where(R.random((60, 4)) > 0.9, 1e200, x)
    for arguments in ((x, order), (x, order), (x, order), (large, order), (x, order), (large, order)):
        assert repr(outcome(logs, *arguments)) == repr(outcome(captured, *arguments))
        with state():
            assert repr(outcome(logs, *arguments)) == repr(outcome(captured, *arguments))


def equalised(pictures: Any, out: Any) -> Any:
    """Elements beside calls."""
    for k in range(len(pictures)):
        counts = np.zeros(16, np.int64)
        for i in range(pictures.shape[1]):
            counts[pictures[k, i]] += 1
        below = np.cumsum(counts)
        for i in range(pictures.shape[1]):
            out[k, i] = below[pictures[k, i]] * out[k, i]
    return out


def turns_of_calls(function: Callable[..., Any], *arguments: Any) -> list[int]:
    """As how many turns more calls count, in each native loop that has some."""
    captured = evalframe.jit(function)
    for _ in range(4):
        captured(*arguments)
    loops = [loop.ir for loop in evalframe.explain(captured)(*arguments).loops if loop.native]
    return [int(number) for ir in loops for number in re.findall(r"%turns.of.calls = or i64 (\d+), 0", ir)]


def test_turns_of_elements_beside_calls_are_looked_at_as_seldom_as_others() -> None:
    def many_stores(x: Any, order: Any) -> Any:
        for i in range(len(x)):
            row = x[i][order]
            for j in range(1, len(row) - 1):
                x[i, j], x[i, j - 1], x[i, j + 1], x[0, j] = row[j], row[j - 1], row[j + 1], row[j]
                x[1, j], x[2, j], x[3, j], x[4, j] = row[j], row[j - 1], row[j + 1], row[0]
                x[5, j], x[6, j], x[7, j], x[8, j] = row[j], row[j - 1], row[j + 1], row[1]
        return x

    assert 7 in turns_of_calls(equalised, R.integers(0, 16, (30, 40)), np.ones((30, 40)))
    stored = turns_of_calls(many_stores, R.random((30, 40)), R.permutation(40))
    assert stored and max(stored) < 7, stored


@pytest.mark.parametrize("late", [0, 3, 16, 1000, 1023, 1024, 1025, 2500, 5999])
def test_conditions_of_elements_beside_calls_are_reported_in_their_turn(late: int) -> None:
    pictures, out = R.integers(0, 16, (4, 1500)), np.ones((4, 1500))
    large = out.copy()
    large[late // 1500, late % 1500] = 1.7e308
    check(equalised, (pictures, out), (pictures, out), (pictures, large), (pictures, out))
    captured = evalframe.jit(equalised)
    captured(pictures, out.copy())
    with np.errstate(all="raise"):
        ours, plain = large.copy(), large.copy()
        assert repr(outcome(captured, pictures, ours)) == repr(outcome(equalised, pictures, plain))
        assert shown(ours) == shown(plain)


def least_changed(x: Any, value: float) -> float:
    ordered = np.sort(x)
    ordered[0] = value
    return float(ordered[0] + ordered[1])


def sums_of_changed(x: Any, y: Any) -> float:
    total = 0.0
    for i in range(len(y)):
        total += least_changed(x, 1.0 / y[i])
    return total


@pytest.mark.parametrize("size", [8, 1000, 60_000])
def test_what_is_stored_into_what_a_call_has_made_is_not_put_back_once_that_is_gone(size: int) -> None:
    x = np.random.default_rng(1).random(size)
    compiled = evalframe.jit(sums_of_changed)
    with np.errstate(divide="ignore"):
        for _ in range(4):
            compiled(x, np.ones(120))
    for at in range(0, 120, 17):
        y = np.ones(120)
        y[at] = 0.0
        assert outcome(compiled, x, y) == outcome(sums_of_changed, x, y)
    assert evalframe.explain(compiled)(x, np.ones(120)).loops
