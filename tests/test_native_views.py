"""Arrays seen in another shape: in kernels without a copy where NumPy has none, and as objects NumPy's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from graphs import Compiled, assert_same, check
from helpers import leaving_before

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]


def layouts() -> dict[str, Array]:
    x = np.arange(1.0, 121.0).reshape(4, 5, 6)
    wide = np.arange(1.0, 4 * 10 * 12 + 1).reshape(4, 10, 12)
    return {
        "c": x,
        "f": np.asfortranarray(x),
        "swapped": np.ascontiguousarray(x.transpose(1, 2, 0)).transpose(2, 0, 1),
        "joined behind": wide[:, :5, :].reshape(4, 5, 12)[:, :, :6],
        "joined before": np.ascontiguousarray(wide[:, ::2, ::2]),
        "sliced": wide[:, ::2, ::2],
        "negative": x[::-1, :, ::-1],
        "all negative": x[::-1, ::-1, ::-1],
        "broadcast": np.broadcast_to(x[0, 0], x.shape),
        "columns": np.broadcast_to(x[:, :1, :1], x.shape),
        "empty": x[:0],
        "empty behind": x[:, :, :0],
        "first one": x[:1],
        "middle one": x[:, 2:3],
        "last one": wide[:, :5, 3:4],
        "point": x[1:2, 1:2, 1:2],
    }


VIEWS: dict[str, Function] = {
    "all": lambda np, x: x.reshape(-1),
    "first two": lambda np, x: x.reshape(-1, x.shape[2]),
    "last two": lambda np, x: np.reshape(x, (x.shape[0], -1)),
    "split": lambda np, x: x.reshape(x.shape[0], x.shape[1], 1, x.shape[2] // 2, -1) if x.shape[2] == 6 else x.reshape(-1, 1),
    "regrouped": lambda np, x: x.reshape(2, -1, 3) if x.size == 120 else x.reshape(1, -1),
    "same": lambda np, x: x.reshape(x.shape),
    "list": lambda np, x: x.reshape([x.shape[0], -1]),
    "ravel": lambda np, x: np.ravel(x),
    "ravelled": lambda np, x: x.ravel(),
    "flatten": lambda np, x: x.flatten(),
    "expand": lambda np, x: np.expand_dims(x, (0, -1)),
    "newaxis": lambda np, x: x[:, None, :, None],
    "squeeze": lambda np, x: np.squeeze(np.expand_dims(x, 1), axis=1),
    "turned": lambda np, x: x.transpose(2, 0, 1),
    "turned round": lambda np, x: np.transpose(x),
    "swap": lambda np, x: np.swapaxes(x, 0, -1),
    "move": lambda np, x: np.moveaxis(x, (0, 1), (-1, 0)),
    "matrices": lambda np, x: x.mT if hasattr(x, "mT") else x.swapaxes(-1, -2),
    "stretch": lambda np, x: np.broadcast_to(x, (2, *x.shape)),
    "stretch one": lambda np, x: np.broadcast_to(x[:, :1], x.shape),
    "part of reshaped": lambda np, x: x.reshape(-1, x.shape[2])[1:, ::2],
    "reshaped part": lambda np, x: x[1:, :, ::2].reshape(-1, 3) if x.shape[2] == 6 else x[1:].reshape(-1),
    "turned and back": lambda np, x: x.transpose(1, 0, 2).reshape(x.shape[1], -1).T,
    "twice": lambda np, x: x.reshape(-1).reshape(x.shape).ravel()[::-1],
}


def base_of(x: Array) -> Any:
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x


def assert_same_array(got: Array, wanted: Array, x: Array) -> None:
    assert_same(got, wanted)
    assert got.strides == wanted.strides and str(got.flags) == str(wanted.flags)
    assert (base_of(got) is base_of(x)) == (base_of(wanted) is base_of(x))
    if base_of(got) is base_of(x):
        assert got.__array_interface__["data"] == wanted.__array_interface__["data"]




@pytest.mark.parametrize("view", VIEWS)
def test_values_and_objects(view: str) -> None:
    see = VIEWS[view]

    def used(x: Any) -> Any:
        y = see(np, x)
        return np.sqrt(y) + y * 2.0, (y + 1.0).sum(axis=-1), y

    for example in layouts().values():
        function = evalframe.jit(used)
        for x in [example, *layouts().values()]:
            for _ in range(2):
                try:
                    wanted = used(x)
                except ValueError as error:
                    with pytest.raises(ValueError) as raised:
                        function(x)
                    assert str(raised.value) == str(error)
                    continue
                got = function(x)
                assert_same(got, wanted)
                assert_same_array(got[2], wanted[2], x)


@pytest.mark.parametrize("view", VIEWS)
def test_of_computed_values(view: str) -> None:
    see = VIEWS[view]

    def used(x: Any) -> Any:
        y = see(np, x * 2.0)
        z = see(np, (x + 1.0).T.T)
        return np.sqrt(y) + z, y, z

    function = evalframe.jit(used)
    for x in layouts().values():
        for _ in range(2):
            try:
                wanted = used(x)
            except ValueError:
                with pytest.raises(ValueError):
                    function(x)
                continue
            got = function(x)
            assert_same(got, wanted)
            for a, b in zip(got, wanted, strict=True):
                assert a.flags.owndata == b.flags.owndata and a.flags.writeable == b.flags.writeable


@pytest.mark.parametrize("view", ["same", "last two", "ravel", "expand", "newaxis", "squeeze", "turned", "swap", "move", "stretch one"])
def test_no_calls(view: str) -> None:
    compiled = check(lambda np, x: np.sqrt(VIEWS[view](np, x)) + 1.0, layouts()["c"])
    assert "call" not in compiled.builder.text()


def test_a_chain_of_views_is_one_kernel() -> None:
    def function(np: Any, x: Any) -> Any:
        y = x.reshape(4, -1).T.reshape(5, 6, 4)
        return np.sqrt(np.swapaxes(np.expand_dims(y, 1), 0, 2)) * 2.0

    x = np.arange(120.0).reshape(4, 5, 6)
    compiled = check(lambda np, x: np.sqrt(np.squeeze(np.swapaxes(x.reshape(20, 6), 0, 1)[None])) * 2.0, x)
    assert compiled.builder.text().count("kernel rank") == 1 and "call" not in compiled.builder.text()
    compiled = check(function, x)
    assert "call" not in compiled.builder.text()


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i8", "f2", "f4", "c8", "c16"])
def test_types(dtype: str) -> None:
    x = (np.arange(60) % 7).astype(dtype).reshape(5, 12)
    for z in (x, np.asfortranarray(x), x[::-1, ::2]):
        check(lambda np, x: (x.reshape(-1) + x.ravel(), x.T.reshape(-1, 3 if x is z else 3) == 0, x.flatten(), -x.flatten() if dtype != "?" else ~x.flatten()), z)


def test_sizes_that_do_not_fit_raise() -> None:
    def function(x: Any, n: int, m: int) -> Any:
        y = x * 2.0
        return y.reshape(n, m) + 1.0, np.broadcast_to(y[:1], (n,)) + y[:n]

    jit = evalframe.jit(function)
    x = np.arange(12.0)
    for n, m in [(3, 4), (4, 3), (2, 6), (12, 1), (5, 2), (-3, -4), (0, 0), (3, -1), (-1, 3), (-2, -6), (12, -1), (1, 12), (2**62, 4), (2**32, 2**32)]:
        try:
            wanted = function(x, n, m)
        except (ValueError, OverflowError) as error:
            with pytest.raises(type(error)) as raised:
                jit(x, n, m)
            assert str(raised.value) == str(error)
        else:
            assert_same(jit(x, n, m), wanted)


def test_squeeze_of_what_has_more_ones_at_another_call() -> None:
    def function(x: Any) -> Any:
        return np.squeeze(x * 2.0) + 1.0, np.squeeze(x)

    for example in [(1, 5), (5, 1), (4, 5), (1, 1)]:
        jit = evalframe.jit(function)
        for shape in [example, example, (1, 5), (5, 1), (4, 5), (1, 1), (0, 5), (1, 0)]:
            assert_same(jit(np.ones(shape)), function(np.ones(shape)))


def test_writes_through_views() -> None:
    def reshaped(np: Any, x: Any) -> Any:
        x.reshape(-1)[3:9] = x.reshape(-1)[:6] * 2.0
        return x + 1.0

    def turned(np: Any, x: Any) -> Any:
        y = np.swapaxes(x, 0, 1)
        y += 1.0
        x.ravel()[0] = 5.0
        return np.squeeze(x * 2.0), y.reshape(-1) - 1.0

    def read_after(np: Any, x: Any) -> Any:
        y = x.reshape(-1)
        x[1:] = x[:-1] * 2.0
        z = x.T.reshape(-1)
        x[:, 1:] *= 0.5
        return y + z, x.flatten() * 1.5, y, z

    for function in (reshaped, turned, read_after):
        for example in ("c", "f", "sliced", "negative"):
            for name in ("c", "f", "sliced", "negative", "middle one", "first one"):
                x = layouts()[name][0] if function is not turned else layouts()[name]
                e = layouts()[example][0] if function is not turned else layouts()[example]
                if x.size > 9 and (function is not turned or 1 not in x.shape):
                    check(function, x, examples=[e])


def test_what_is_broadcast_is_not_written() -> None:
    def function(x: Any) -> Any:
        y = np.broadcast_to(x * 2.0, (3, *x.shape))
        z = x * 3.0
        y[0] = z
        return y

    def in_place(x: Any) -> Any:
        y = np.broadcast_to(x, (3, *x.shape))[1:]
        z = x * 3.0 + 1.0
        y += z
        return y

    for f in (function, in_place):
        jit = evalframe.jit(f)
        for _ in range(3):
            x = np.arange(5.0)
            with pytest.raises(ValueError, match="read-only"):
                jit(x)
            np.testing.assert_array_equal(x, np.arange(5.0))


def test_forced_exits() -> None:
    def function(x: Any, n: int) -> Any:
        y = x.reshape(n, -1) * 2.0
        z = np.swapaxes(y, 0, 1).reshape(-1)
        w = np.expand_dims(x, 0).ravel()
        w = np.broadcast_to(w, (2, w.shape[0]))
        v = x.T.flatten()
        y += 1.0
        return y, z, w, v * z, np.squeeze(y[None]) + 1.0

    for name in ("c", "f", "sliced", "negative", "empty"):
        x = layouts()[name]
        jit = evalframe.jit(function)
        if x.size:
            jit(x, 4)
            for node in range(30):
                with leaving_before(node):
                    assert_same(jit(x, 4), function(x, 4))


def test_what_ravel_copies_is_another_array() -> None:
    def function(np: Any, x: Any) -> Any:
        y = np.ravel(x)
        z = y * 2.0
        y += z
        return x + 1.0, y

    for x in (np.arange(5.0)[::-1, None], np.arange(20.0).reshape(10, 2)[:, :1], np.arange(5.0)[:, None], np.arange(10.0)[::2]):
        for example in (x, np.ones(x.shape)):
            check(function, x, examples=[example])


@pytest.mark.parametrize("dtypes", [("f8", "f8"), ("f4", "f8"), ("i4", "u8"), ("?", "?"), ("c16", "f4"), ("f2", "i1")])
def test_outer_products_of_vectors_are_part_of_kernels(dtypes: tuple[str, str]) -> None:
    def function(np: Any, A: Any, u: Any, v: Any) -> Any:
        A += np.outer(u, v) * 2
        return np.outer(A[0], u), np.outer(v, v), np.outer(u + u, v)

    u, v = (np.arange(-3, -3 + n).astype(dtype) for n, dtype in zip((7, 4), dtypes, strict=True))
    for a, b in [(u, v), (u[::2], v[::-1]), (u[:0], v), (u[:1], v[:1]), (np.broadcast_to(u[:1], (7,)), v[:0])]:
        A = np.ones((len(a), len(b)), np.result_type(np.outer(a, b) * 2, np.float64))
        examples = [np.ones((7, 4), A.dtype), u, v] if len(a) else None
        compiled = check(function, A, a, b, examples=examples) if len(a) else check(lambda np, A, u, v: (np.outer(u, v), np.outer(v, u)), A, a, b)
        assert "outer" not in compiled.builder.text()


def test_outer_products_of_other_things_are_numpys() -> None:
    for a, b in [(np.arange(4.0).reshape(2, 2), np.arange(3.0)), (np.arange(3.0), 2.0), (np.float64(3), np.arange(2))]:
        check(lambda np, a, b: np.outer(a, b) + 1.0, a, b)
    check(lambda np, a, b, c: (np.outer(a, b, c), np.outer(a, b, out=c), np.outer(a=a, b=b)), np.arange(2.0), np.arange(3.0), np.zeros((2, 3)))


def test_outer_products_that_overflow_warn_at_their_line() -> None:
    check(lambda np, a: np.outer(a * 2.0, a) - 1.0, np.array([1e200, 1.0, np.inf, 0.0]))
