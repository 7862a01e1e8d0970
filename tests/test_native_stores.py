"""Writes into arrays under the native backend: fused with what is computed, and seen as NumPy's would be."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import evalframe
from graphs import Compiled, assert_same, check

DTYPES = ["bool", "i1", "i4", "i8", "u1", "u8", "f4", "f8", "c16"]
rng = np.random.default_rng(5)


def array(dtype: str, *shape: int) -> np.ndarray[Any, Any]:
    return (rng.random(shape) * 6 + 1).astype(dtype)


def heat(np: Any, u: Any, k: Any) -> Any:
    u[1:-1, 1:-1] += k * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
    return u


def laplacian(a: Any) -> Any:
    return a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] - 4.0 * a[1:-1, 1:-1]


def gray_scott(np: Any, u: Any, v: Any) -> Any:
    reaction = u[1:-1, 1:-1] * v[1:-1, 1:-1] ** 2
    du = 0.16 * laplacian(u) - reaction + 0.03 * (1.0 - u[1:-1, 1:-1])
    dv = 0.08 * laplacian(v) + reaction - 0.09 * v[1:-1, 1:-1]
    u[1:-1, 1:-1] += du
    v[1:-1, 1:-1] += dv


def given_places(np: Any, a: Any, b: Any, t: Any, o: Any) -> Any:
    np.multiply(a, b, out=t)
    np.add(t, a, out=t)
    np.sqrt(t, o)
    return o


def calls(compiled: Compiled) -> int:
    return sum(line.startswith("call") for line in compiled.builder.text().splitlines())


def test_a_stencil_in_place_is_one_kernel_and_one_write() -> None:
    compiled = check(heat, array("f8", 12, 17), 0.1)
    assert calls(compiled) == 0
    assert compiled.builder.text().count("kernel rank") == 2


def test_two_coupled_stencils_are_one_kernel() -> None:
    compiled = check(gray_scott, array("f8", 12, 17), array("f8", 12, 17))
    assert calls(compiled) == 0
    assert compiled.builder.text().count("kernel rank") == 3


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_ufuncs_into_given_arrays(dtype: str) -> None:
    compiled = check(given_places, *(array(dtype, 50) for _ in range(4)))
    assert calls(compiled) == 0
    a, b, t, o = (array(dtype, 50) for _ in range(4))
    assert compiled(a, b, t, o) is o


def test_ufuncs_into_given_arrays_that_overlap() -> None:
    base, other = array("f8", 60), None
    other = base.copy()
    compiled = Compiled(given_places, [array("f8", 40) for _ in range(4)])
    parts = [slice(0, 40), slice(10, 50), slice(5, 45), slice(20, 60)]
    compiled(*(base[part] for part in parts))
    given_places(np, *(other[part] for part in parts))
    assert_same(base, other)


@pytest.mark.parametrize("left", DTYPES)
@pytest.mark.parametrize("right", DTYPES)
def test_stores_cast_as_numpy(left: str, right: str) -> None:
    def function(np: Any, x: Any, y: Any) -> Any:
        t = y * y
        x[1:] = t[1:] * y[1:]
        x[0] = t[3]
        return t

    check(function, array(left, 20), array(right, 20))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [True, 3, 300, -1, 2.5, 1e300])
def test_numbers_stored(dtype: str, value: Any) -> None:
    def function(np: Any, x: Any) -> Any:
        y = x * x
        x[2:5] = value
        x[..., -1] = value
        return y * y

    x = array(dtype, 9)
    try:
        function(np, x.copy())
    except (OverflowError, ValueError, TypeError) as error:
        compiled = Compiled(lambda np, x, v: [x.__setitem__(slice(2, 5), v), x * x][1], [x, 1])
        with pytest.raises(type(error)):
            compiled(x, value)
        return
    check(function, x)


@pytest.mark.parametrize("key", [slice(None), slice(None, None, -1), slice(1, -1), slice(7, 2, -2), Ellipsis, 3, -1, (Ellipsis, None), slice(0, 0)])
def test_keys(key: Any) -> None:
    def function(np: Any, x: Any, y: Any) -> Any:
        part = x[key] * 2.0 + y[key]
        x[key] = part
        x[key] += part
        return part

    check(function, array("f8", 10), array("f8", 10))
    check(function, array("f8", 10, 3), array("f8", 10, 3))
    check(function, array("f8", 10, 3).T.copy().T, array("f8", 10, 3))


@pytest.mark.parametrize("shape", [(3, 4), (4,), (1, 4), (3, 1), (), (1, 1, 4)])
def test_stored_values_broadcast(shape: tuple[int, ...]) -> None:
    def function(np: Any, x: Any, y: Any) -> Any:
        x[...] = y * y + y
        return x

    check(function, array("f8", 3, 4), array("f8", *shape))


def test_a_value_that_does_not_fit_raises_and_leaves_the_array() -> None:
    def function(np: Any, x: Any, y: Any) -> Any:
        t = x * 2.0
        x[1:] = y * y + y
        return t

    compiled = Compiled(function, [array("f8", 8), array("f8", 7)])
    x = array("f8", 8)
    before = x.copy()
    with pytest.raises(ValueError, match="could not broadcast"):
        compiled(x, array("f8", 3))
    assert_same(x, before)


def test_read_only_arrays_raise() -> None:
    compiled = Compiled(heat, [array("f8", 5, 5), 0.1])
    x = array("f8", 5, 5)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        compiled(x, 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shared = np.broadcast_arrays(array("f8", 1, 5), array("f8", 5, 5))[0]
    other = np.array(shared)
    with pytest.warns(DeprecationWarning):
        compiled(shared, 0.1)
    del other


def test_self_overlapping_targets() -> None:
    base = array("f8", 6)
    windows = np.lib.stride_tricks.as_strided(base, (4, 3), (8, 8))
    other = base.copy()
    theirs = np.lib.stride_tricks.as_strided(other, (4, 3), (8, 8))
    compiled = Compiled(heat, [array("f8", 4, 3), 0.1])
    compiled(windows, 0.1)
    heat(np, theirs, 0.1)
    assert_same(base, other)


def test_what_is_read_after_a_write_is_new() -> None:
    def function(np: Any, x: Any, y: Any) -> Any:
        x[1:] = x[:-1] * 2.0 + y[1:]
        a = x * y
        x += a
        x *= 2.0
        b = x[3:] + a[3:]
        first = x[0] * 1.0
        x[0] = 7.0
        return a, b, first, x[0] * 1.0, x

    check(function, array("f8", 30), array("f8", 30))


def test_writes_through_views_of_one_array() -> None:
    def function(np: Any, x: Any) -> Any:
        left, right = x[:5], x[5:]
        left += right * 2.0
        right -= left * 3.0
        x[2:7] *= left + 1.0
        return left, right, x

    check(function, array("f8", 10))


def test_two_names_of_one_array() -> None:
    def function(np: Any, x: Any, y: Any) -> Any:
        x += y * 2.0
        return y + x, y * x

    compiled = Compiled(function, [array("f8", 9), array("f8", 9)])
    x = array("f8", 9)
    other = x.copy()
    assert_same(compiled(x, x), function(np, other, other))
    assert_same(x, other)


def test_identity_of_what_is_written() -> None:
    compiled = Compiled(lambda np, x, y: [x := x.__iadd__(y * 2.0), x.__imul__(y)][1], [array("f8", 9), array("f8", 9)])
    x = array("f8", 9)
    assert compiled(x, array("f8", 9)) is x


@pytest.mark.parametrize("how", ["raise", "warn", "ignore"])
def test_floating_point_conditions_come_before_the_write(how: Any) -> None:
    def function(np: Any, x: Any, y: Any) -> Any:
        x[1:] += np.sqrt(y[1:]) / y[1:]
        return x

    compiled = Compiled(function, [array("f8", 9), array("f8", 9)])
    x, y = array("f8", 9), array("f8", 9)
    y[3], y[5] = -1.0, 0.0
    wanted, got = x.copy(), x.copy()
    seen: list[Any] = []
    for run, target in ((lambda a: function(np, a, y), wanted), (lambda a: compiled(a, y), got)):
        with warnings.catch_warnings(record=True) as caught, np.errstate(all=how):
            warnings.simplefilter("always")
            error = None
            try:
                run(target)
            except FloatingPointError as raised:
                error = str(raised)
        seen.append(([str(w.message) for w in caught], error))
    assert seen[0] == seen[1]
    assert_same(got, wanted)


def test_in_place_casts_that_numpy_refuses() -> None:
    compiled = Compiled(lambda np, x, y: [x.__iadd__(y), x * 2][1], [array("f8", 9), array("f8", 9)])
    x = array("i8", 9)
    with pytest.raises(TypeError, match="same_kind"):
        compiled(x, array("f8", 9))


def test_every_exit_around_a_write() -> None:
    def function(np: Any, x: Any, y: Any) -> Any:
        a = x * y
        x[1:] += a[1:] * 2.0
        b = a + y
        x[0] = b[1]
        return a, b

    compiled = Compiled(function, [array("f8", 9), array("f8", 9)])
    for node in range(14):
        x, y = array("f8", 9), array("f8", 9)
        left, values, _ = compiled.builder.run([x, y], node)
        assert left == node or left < node


def test_a_check_that_fails_after_a_write_does_not_write_twice() -> None:
    def function(np: Any, x: Any, y: Any) -> Any:
        x += y * 2.0
        return x[3] * 2.0 + y

    compiled = Compiled(function, [array("f8", 9), array("f8", 9)])
    x, y = array("f8", 3), array("f8", 3)
    wanted = x + y * 2.0
    with pytest.raises(IndexError, match="out of bounds"):
        compiled(x, y)
    assert_same(x, wanted)


TURN = "\n        ".join(["x = x + 1.0; x = x * 0.5; x = x - 0.25"] * 14)
LONG_RUN = f"""
def long_run(x, y, turns):
    i = 0
    while i < turns:
        {TURN}
        i += 1
    before = x * 2.0
    x[...] = 0.0
    try:
        z = x + 1.0
        z = z + y
    except ValueError:
        return x, before
    before = None
    np.sort(z)
    return z, before
"""


def test_what_an_exit_of_a_long_graph_needs_is_older_than_a_write() -> None:
    scope: dict[str, Any] = {"np": np}
    exec(LONG_RUN, scope)
    captured = evalframe.jit(scope["long_run"])
    for size in (4, 4, 3):
        got, wanted = (run(np.arange(4.0), np.ones(size), 60) for run in (captured, scope["long_run"]))
        assert len(got) == len(wanted) and all(np.array_equal(a, b) for a, b in zip(got, wanted, strict=True))
    assert evalframe.explain(scope["long_run"])(np.arange(4.0), np.ones(4), 60).entries[0]["nodes"] > 2000


def written_by_two_names(np: Any, x: Any, y: Any) -> Any:
    np.floor(x, out=x)
    y[..., 0] = 7.0
    return x * x + 1.0


@pytest.mark.parametrize("second", [slice(None), slice(1, None), None])
def test_one_array_written_by_two_names(second: Any) -> None:
    compiled = Compiled(written_by_two_names, [array("f8", 4, 5), array("f8", 4, 5)])
    ours = array("f8", 4, 5)
    theirs = ours.copy()
    got = compiled(ours, ours.copy() if second is None else ours[second])
    assert_same(got, written_by_two_names(np, theirs, theirs.copy() if second is None else theirs[second]))
    assert_same(ours, theirs)


def test_what_is_overwritten_unread_still_warns() -> None:
    def function(np: Any, x: Any, y: Any, t: Any) -> Any:
        z = y * y + 1.0
        np.sqrt(x, out=t)
        np.add(z, y, out=t)
        return t

    check(function, -array("f8", 20), array("f8", 20), array("f8", 20), examples=[array("f8", 20) for _ in range(3)])
