"""The native backend against NumPy: values, types, layouts, warnings, aliasing."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from graphs import Compiled, assert_same, check

DTYPES = ["bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]
rng = np.random.default_rng(7)


def array(dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(1, 7, shape).astype(dtype)
    return (rng.random(shape) + 0.5).astype(dtype)


def layouts(x: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
    wide = np.zeros((x.shape[0] * 2, x.shape[1] * 3), x.dtype)
    wide[::2, ::3] = x
    return {
        "c": x,
        "f": np.asfortranarray(x),
        "sliced": wide[::2, ::3],
        "negative": x[::-1, ::-1],
        "row": np.broadcast_to(x[0], x.shape),
        "column": np.broadcast_to(x[:, :1], x.shape),
    }


def chain(np: Any, x: Any, y: Any) -> Any:
    a = x * y + x
    b = a - y * a
    return a, b * b + a


def test_a_chain_of_operators_is_one_kernel() -> None:
    compiled = check(chain, array("f8", 1000), array("f8", 1000))
    assert compiled.builder.text().count("kernels") == 1


@pytest.mark.parametrize("a", DTYPES)
@pytest.mark.parametrize("b", DTYPES)
def test_operators_promote_as_numpy(a: str, b: str) -> None:
    check(lambda np, x, y: (x + y, x * y, x == y, x < y, np.maximum(x, y), x / y), array(a, 33), array(b, 33))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("number", [2, True, 0.5])
def test_python_numbers_are_weak(dtype: str, number: Any) -> None:
    check(lambda np, x, n: (x + n, n * x, x > n, x / n), array(dtype, 40), number)
    check(lambda np, x: (x + number, number * x, x > number), array(dtype, 40))


@pytest.mark.parametrize("dtype", DTYPES)
def test_other_python_numbers_of_the_same_type_are_not_baked_in(dtype: str) -> None:
    compiled = Compiled(lambda np, x, n: x * n + n, [array(dtype, 40), 2])
    x = array(dtype, 40)
    assert_same(compiled(x, 3), x * 3 + 3)
    if dtype == "u1":
        with pytest.raises(OverflowError):
            compiled(x, 300)


@pytest.mark.parametrize("left", ["c", "f", "sliced", "negative", "row", "column"])
@pytest.mark.parametrize("right", ["c", "f", "sliced", "negative", "row", "column"])
def test_layouts(left: str, right: str) -> None:
    x, y = layouts(array("f8", 6, 5))[left], layouts(array("f8", 6, 5))[right]
    check(chain, x, y)
    check(chain, x, y, examples=[array("f8", 6, 5), array("f8", 6, 5)])
    check(lambda np, a, b: (np.where(a > b, a, b) * 2.0, (a + b).sum(axis=0), np.max(a * b)), x, y)


@pytest.mark.parametrize("shapes", [((3, 4), (4,)), ((3, 1), (1, 4)), ((1,), (5,)), ((2, 3, 4), (3, 1)), ((), (3,)), ((), ())])
def test_broadcasting(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    x, y = array("f8", *shapes[0]), array("f8", *shapes[1])
    check(chain, x, y)


def test_other_shapes_than_recorded() -> None:
    compiled = Compiled(chain, [array("f8", 3, 4), array("f8", 3, 4)])
    for left, right in [((7, 9), (7, 9)), ((1, 9), (7, 9)), ((7, 1), (7, 9)), ((1, 1), (1, 1)), ((0, 4), (0, 4)), ((3, 4), (1, 1))]:
        x, y = array("f8", *left), array("f8", *right)
        assert_same(compiled(x, y), chain(np, x, y))
    with pytest.raises(ValueError, match="broadcast"):
        compiled(array("f8", 3, 4), array("f8", 4, 4))


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["sum", "mean", "min", "max", "prod", "any", "all"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "bool"])
def test_reductions(name: str, axis: Any, keepdims: bool, dtype: str) -> None:
    x = array(dtype, 37, 53)

    def function(np: Any, x: Any) -> Any:
        y = x * x
        method = getattr(y, name)(axis=axis, keepdims=keepdims)
        return method, getattr(np, name)(x, axis=axis, keepdims=keepdims)

    check(function, x)


@pytest.mark.parametrize("axis", [None, 0, 1, -1, 2, (0, 1), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "u1", "bool"])
def test_spreads_and_positions(axis: Any, keepdims: bool, dtype: str) -> None:
    def spreads(np: Any, x: Any) -> Any:
        y = x * x
        return y.var(axis=axis, keepdims=keepdims), np.std(x, axis=axis, ddof=1, keepdims=keepdims), y.max(axis=axis, keepdims=keepdims)

    def positions(np: Any, x: Any) -> Any:
        y = x * x
        return y.argmin(axis=axis, keepdims=keepdims), np.argmax(x, axis=axis, keepdims=keepdims)

    for x in (array(dtype, 7, 5, 31), array(dtype, 1, 1, 1), np.asfortranarray(array(dtype, 3, 4, 5)), array(dtype, 3, 4, 9)[:, ::-1, ::2]):
        check(spreads, x)
        if not isinstance(axis, tuple):
            check(positions, x)


def test_positions_of_nan_and_of_the_first_of_equals() -> None:
    x = np.array([[1.0, np.nan, 3.0], [2.0, 2.0, 2.0], [np.nan, np.nan, 0.0]])
    check(lambda np, x: (np.argmin(x * 1.0, axis=1), np.argmax(x * 1.0, axis=0), (x * 1.0).argmax()), x)


def nearest(np: Any, points: Any, centres: Any) -> Any:
    distances = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
    return distances.argmin(axis=1), distances.min(axis=1)


def test_nearest_centres() -> None:
    compiled = check(nearest, array("f8", 50, 3), array("f8", 4, 3))
    assert "call" not in compiled.builder.text()


@pytest.mark.parametrize("exponent", [2, 2.0, 3, 1, 0, -1, 0.5, 2 + 0j, True])
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_powers_of_complex_arrays(dtype: str, exponent: Any) -> None:
    parts = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e-310, 1e300, -1e200, 3e-170]
    with np.errstate(all="ignore"):
        z = np.array([complex(a, b) for a in parts for b in parts] + list(np.linspace(-3, 2, 99) * (1 + 0.3j)), dtype)
        for x in (z, z[::-1], z[::2], np.asfortranarray(z[:200].reshape(10, 20))):
            check(lambda np, x: (x**exponent) * 1.0, x)
            check(lambda np, x: np.power(x, exponent) * 1.0, x)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_powers_of_numbers_are_those_of_the_c_library(dtype: str) -> None:
    def norms(rows: Any) -> Any:
        found = []
        for x in rows:
            found.append(np.sqrt(x[0] ** 2 + x[1] ** 2.5) + x[2] ** x[0])
        return np.atleast_1d(found)

    captured = evalframe.jit(norms)
    for rows in np.random.default_rng(3).uniform(1, 10, (200, 7, 3)).astype(dtype):
        assert_same(captured(rows), norms(rows))
    assert _core.jit_counters(captured)["hits"] > 190


def test_new_arrays_do_not_cut_a_segment() -> None:
    def function(np: Any, x: Any) -> Any:
        y = x * 2.0
        out = np.zeros_like(x)
        ramp = np.arange(x.shape[0])
        out[1:-1] = y[2:] - y[:-2] + ramp[1:-1]
        return out

    compiled = check(function, array("f8", 20))
    assert "call n" not in compiled.builder.text()


def softmax(np: Any, x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def test_softmax() -> None:
    check(softmax, rng.standard_normal((20, 30)), ulp=4)


def stencil(np: Any, u: Any) -> Any:
    v = u.copy()
    v[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
    v[0] = v[1]
    return v


def test_stencil_with_stores() -> None:
    check(stencil, array("f8", 12, 17))
    check(stencil, array("f8", 12, 17), examples=[array("f8", 5, 5)])


def test_views_escape_as_views() -> None:
    x = array("f8", 6, 5)
    compiled = check(lambda np, x: ((x * 2)[1:, ::-2], x[1], x[2, 3], x.T, x[None, ..., 0]), x)
    view = compiled(x)[1]
    assert view.base is x and np.shares_memory(view, x)


def test_stores_order_with_reads() -> None:
    def function(np: Any, x: Any) -> Any:
        before = x[1:] * 2.0
        x[1:] = x[:-1] + before
        after = x * 3.0
        x += after
        return before, after, x.sum()

    check(function, array("f8", 50))


def test_in_place_on_fresh_arrays_is_fused_and_keeps_identity() -> None:
    def function(np: Any, x: Any) -> Any:
        y = x * 2.0
        y += 1.0
        y *= x
        return y

    compiled = check(function, array("f4", 64))
    assert compiled.builder.text().count("call n") == 0

    def aliased(np: Any, x: Any) -> Any:
        y = x * 2.0
        z = y
        y += 1.0
        return y, z

    a, b = check(aliased, array("f4", 64))(array("f4", 64))
    assert a is b


def test_overlapping_inputs() -> None:
    def function(np: Any, x: Any, y: Any) -> Any:
        y[:] = x * 2.0 + y
        return x + y

    compiled = Compiled(function, [array("f8", 9), array("f8", 9)])
    base, copy = array("f8", 10), None
    copy = base.copy()
    got = compiled(base[:-1], base[1:])
    wanted = function(np, copy[:-1], copy[1:])
    assert_same(got, wanted)
    assert_same(base, copy)


def warn(np: Any, x: Any, y: Any) -> Any:
    return np.log(x) / y + np.sqrt(x)


def test_warnings_are_numpys() -> None:
    x, y = array("f8", 20), array("f8", 20)
    check(warn, x, y, ulp=4)
    x[3], y[4] = -1.0, 0.0
    check(warn, x, y, ulp=4)
    compiled = Compiled(warn, [x, y])
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="invalid value encountered in log"):
        compiled(x, y)
    with np.errstate(all="ignore"):
        assert_same(compiled(x, y), warn(np, x, y), ulp=4)


def test_integer_division_by_zero_warns() -> None:
    check(lambda np, x, y: (x // y) + x, array("i4", 10), np.zeros(10, "i4"))


def test_opaque_calls_between_kernels() -> None:
    def function(np: Any, x: Any, y: Any) -> Any:
        a = x * 2.0 + y
        s = np.sort(a)
        return np.cumsum(s - a) * 2.0, s

    check(function, array("f8", 31), array("f8", 31))


def test_exception_in_an_opaque_call() -> None:
    def function(np: Any, x: Any, y: Any) -> Any:
        a = x * 2.0
        return np.dot(a, y) + 1.0

    compiled = Compiled(function, [array("f8", 3), array("f8", 3)])
    with pytest.raises(ValueError, match="not aligned"):
        compiled(array("f8", 4), array("f8", 3))


def test_shape_of_an_input_in_arithmetic() -> None:
    check(lambda np, x: x / x.shape[0] + x.sum() / x.shape[0], array("f8", 21), examples=[array("f8", 5)])


def test_every_forced_exit_leaves_a_state_to_go_on_from() -> None:
    x, y = array("f8", 31), array("f8", 31)
    compiled = Compiled(chain, [x, y])
    for node in range(6):
        assert compiled.builder.run([x, y], node)[0] == node


def test_misaligned_and_swapped_arrays_are_left_to_numpy() -> None:
    raw = np.zeros(81, "u1")[1:].view("f8")
    raw[:] = array("f8", 10)
    compiled = Compiled(chain, [array("f8", 10), array("f8", 10)])
    assert_same(compiled(raw, raw), chain(np, raw, raw))


def test_index_out_of_range_raises_numpys_error() -> None:
    compiled = Compiled(lambda np, x: x[7] + x[1:], [array("f8", 9)])
    with pytest.raises(IndexError, match="out of bounds"):
        compiled(array("f8", 3))


def test_memory_and_references_stay_flat() -> None:
    import sys

    x, y = array("f8", 1000), array("f8", 1000)
    compiled = Compiled(chain, [x, y])
    before = sys.getrefcount(x), sys.getrefcount(y)
    for _ in range(1000):
        compiled(x, y)
    assert (sys.getrefcount(x), sys.getrefcount(y)) == before


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2"])
@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin"])
def test_extremes_meet_nan_anywhere(name: str, dtype: str) -> None:
    """Kernels look for NaNs by a flag first, so that each place of one needs a kernel that hasn't met any: the factor tells them apart."""
    for size, place in ((1, 0), (7, 6), (8, 0), (67, 3), (67, 40), (67, 66), (50_000, 49_999)):
        for side in (0, 1):
            pair = [array(dtype, size), array(dtype, size)]
            pair[side][place] = np.nan
            factor = 1 + size * 1000 + place * 2 + side
            check(eval(f"lambda np, x, y: (np.{name}(x, y) * {factor % 1021}, np.{name}(x, {factor % 1019 / 64}))"), *pair)


@pytest.mark.parametrize("left", [1.5, 0.0, -0.0, 1e308, 1e-308, np.inf, np.nan])
@pytest.mark.parametrize("right", [np.float64(2.0), np.float64(0.0), np.float64(-1e200), np.float64(5e-324), np.float32(3.0)])
def test_single_numbers(left: float, right: Any) -> None:
    check(lambda np, x, y: (x + y, x - y, x * y, x / y, x * 2, 3.0 - y, y * 2**60, x * y + x), np.float64(left), right)
    check(lambda np, x, y: (x + y, x - y, x * y, x / y), left, right)


def single_numbers(np: Any, x: Any, s: Any, k: Any) -> Any:
    scale = np.exp(-s * 0.5) / np.sqrt(2.0)
    return x * scale + np.multiply(k, 3) - np.sqrt(k), x / np.add(scale, s)


def test_functions_of_single_numbers_are_part_of_the_kernel() -> None:
    compiled = check(single_numbers, array("f8", 100), 0.75, 5, ulp=8)
    assert compiled.builder.text().count("kernel rank") == 1
    check(single_numbers, array("f4", 3, 4), 1.5, 2, ulp=8)
    check(single_numbers, array("f8", 6), -2.5, 2**62, ulp=8)


def test_a_function_of_a_single_number_warns() -> None:
    check(lambda np, x, s: (x * np.sqrt(s), x + np.log(s)), array("f8", 10), -1.0, examples=[array("f8", 10), 2.0], ulp=4)
    check(lambda np, x, s: x * np.sqrt(s), array("f8", 10), True)


def test_a_mean_is_divided_where_it_is_used() -> None:
    compiled = check(lambda np, x: (x - x.mean()) / np.sqrt(x.max() + 1.0), array("f8", 1000))
    assert compiled.builder.text().count("kernel rank") == 2


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_extremes_of_zeros_have_the_sign_that_numpy_gives(dtype: str) -> None:
    zeros = np.array([0.0, -0.0, -0.0, 0.0], dtype)

    def signs(np: Any, x: Any, y: Any, n: Any) -> Any:
        extremes = np.maximum(x, y), np.minimum(x, y), np.maximum(x, n), np.copysign(1.0, np.minimum(y, x))
        return *(np.signbit(e) for e in extremes), np.signbit(np.clip(x, n, 1.0)), np.signbit(np.clip(x, y, n)), np.signbit(np.clip(x, -1, -n))

    for number in (0.0, -0.0):
        check(signs, zeros, -zeros, zeros.dtype.type(number))
        check(signs, zeros[::-1], zeros, zeros.dtype.type(number))


def computed_bounds(np: Any, x: Any, lo: Any, hi: Any) -> Any:
    middle = x[lo:hi] * 2.0 + x[lo + 1 : hi + 1]
    return middle, x[lo] + x[hi:].max(), x[..., : hi - lo] - x[-lo - 1]


@pytest.mark.parametrize(("lo", "hi"), [(2, 6), (0, 3), (1, 19), (2, 3), (5, 5), (-7, -2), (3, 40), (25, 2), (0, 0)])
def test_bounds_that_are_computed(lo: int, hi: int) -> None:
    compiled = Compiled(computed_bounds, [array("f8", 20, 3), 1, 4])
    x = array("f8", 20, 3)
    for _ in range(2):
        for a, b in ((lo, hi), (1, 5)):
            try:
                wanted = computed_bounds(np, x, a, b)
            except (IndexError, ValueError) as error:
                with pytest.raises(type(error), match=re.escape(str(error))):
                    compiled(x, a, b)
            else:
                assert_same(compiled(x, a, b), wanted)
    assert "call " not in compiled.builder.text() and "kernels n" in compiled.builder.text()


def test_stores_with_computed_bounds() -> None:
    def function(np: Any, x: Any, y: Any, k: Any) -> Any:
        x[k] = y[k] * 2.0 + 1.0
        x[k + 1 :, 0] = y[k, 0] - y[k + 1 :, 1]
        return x

    for k in (0, 3, -2):
        compiled = check(function, array("f8", 6, 4), array("f8", 6, 4), k)
        assert "call " not in compiled.builder.text()


def test_sizes_of_arrays_as_bounds() -> None:
    compiled = check(lambda np, x, y: x[: y.shape[0]] * y + x[-y.shape[0] :], array("f8", 12), array("f8", 5))
    assert "call " not in compiled.builder.text()


def sums_between(np: Any, x: Any) -> Any:
    y = x * 2.0 + 1.0
    total = y.sum(axis=0)
    return (y - total) * 3.0 + x, np.maximum(y, 0.5) * 2.0


def test_only_the_whole_sum_of_what_has_gaps_is_called() -> None:
    compiled = check(sums_between, np.asfortranarray(array("f8", 30, 40)))
    assert "call n" not in compiled.builder.text()
    compiled = check(lambda np, x: (np.exp(x) * 2, x[:, ::3].sum(), x * 3), array("f8", 30, 40), ulp=4)
    assert compiled.builder.text().count("call n") == 1 and compiled.builder.text().count("kernels n") == 2
    check(sums_between, array("f8", 30, 40), examples=[np.asfortranarray(array("f8", 30, 40))])
    check(lambda np, x: (x[::2, ::2].sum() + x * 2.0, np.exp(x * 0.5)), array("f8", 30, 40), ulp=4)


def test_a_layout_met_later_leaves_the_others_as_they_are() -> None:
    compiled = Compiled(sums_between, [array("f8", 30, 40)])
    for x in (array("f8", 30, 40), np.asfortranarray(array("f8", 30, 40)), array("f8", 30, 40)):
        assert_same(compiled(x), sums_between(np, x))
    assert "call n" not in compiled.builder.text()


def test_a_part_from_the_start_is_not_the_whole() -> None:
    x = np.arange(100.0).reshape(10, 10)
    check(lambda np, x: (x[:5, :3] + 1.0, np.sqrt(x[:, :3])), x)
    check(lambda np, x: (x[:5, :3] - x[:5, :3].max(), (x[:5, :3] * 2.0).sum()), x)
    check(lambda np, x: (x + 1.0)[:5, :3] * 2.0, x)
    check(lambda np, x: np.exp(x[:2, :3, :2]).sum(), np.arange(60.0).reshape(3, 4, 5), ulp=4)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "i8"])
def test_roots_that_are_only_compared_still_warn(dtype: str) -> None:
    x = np.array([-1.0, 2, 3, 4] * 9).astype(dtype)
    for ask in (np.isnan, np.isfinite, np.isinf, np.signbit):
        check(lambda np, x, ask=ask: np.logical_not(getattr(np, ask.__name__)(np.sqrt(x))), x)
    check(lambda np, x: (np.sqrt(x) == np.sqrt(x)) * 1.5, x)
    check(lambda np, x: (np.sqrt(x) > 0, np.where(np.sqrt(x) >= 0, 1.0, 2.0)), x)
    quiet = np.array([0.0, -0.0, np.inf, np.nan]).astype(dtype) if dtype[0] == "f" else np.array([0, 1]).astype(dtype)
    check(lambda np, x: (np.isnan(np.sqrt(x)), np.sqrt(x) + 1), quiet)


def test_what_is_nothing_for_all_numbers_still_warns() -> None:
    x = np.arange(9)
    check(lambda np, x: (x - x) / (x - x), x)
    check(lambda np, x: (x < x) / (x ^ x) * 2.0, x)
    check(lambda np, x: 1.0 / (x < x), x * 0.5)
    check(lambda np, x: np.isnan(x) / np.isinf(x), x)
    check(lambda np, x: 1.0 / ((x + 1) - (np.positive(x) + 1)), x)


@pytest.mark.parametrize("key", [np.s_[..., :-1], np.s_[:-1, :-1], np.s_[:-1], np.s_[:, :2, 1:], np.s_[:, :-1, :]])
def test_beginnings_of_rows(key: Any) -> None:
    check(lambda np, x: x[key] * 2.0 + 1.0, np.arange(60.0).reshape(3, 4, 5))
    check(lambda np, x: ((x * 2.0)[key] + 1.0, (x[key] * 2.0).sum()), np.arange(60.0).reshape(3, 4, 5))
