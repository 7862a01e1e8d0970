"""Copies in kernels: the values, and the order in memory that NumPy's own copies have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphs import Compiled, assert_same, check

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]


def layouts() -> dict[str, Array]:
    x = np.arange(1.0, 211.0).reshape(5, 6, 7)
    wide = np.arange(1.0, 5 * 6 * 7 * 4 + 1).reshape(5, 12, 14)
    return {
        "c": x,
        "f": np.asfortranarray(x),
        "swapped": np.ascontiguousarray(x.transpose(1, 2, 0)).transpose(2, 0, 1),
        "sliced": wide[:, ::2, ::2],
        "negative": x[::-1, :, ::-1],
        "rows": np.broadcast_to(x[0, 0], x.shape),
        "columns": np.broadcast_to(x[:, :1, :1], x.shape),
        "middle": np.broadcast_to(x[:1, :, :1], x.shape),
        "single": wide[:, :1, ::2],
        "turned single": wide[:, :1].transpose(2, 1, 0),
        "point": wide[:1, :1, :1],
        "empty": x[:0],
    }


COPIES: dict[str, Function] = {
    "method": lambda np, x: (x.copy(), x * 1.0),
    "function": lambda np, x: (np.copy(x), x * 1.0),
    "array": lambda np, x: (np.array(x), x * 1.0),
    "astype": lambda np, x: (x.astype("f8"), x * 1.0),
    "astype, asked": lambda np, x: (x.astype(np.float64, copy=True), x * 1.0),
    "float32": lambda np, x: (x.astype("f4"), x.astype(dtype="f4") * 2),
    "of a view": lambda np, x: (np.copy(x[::-1, 1:]), x[None].astype("f4"), x.T.copy(), np.copy(x.T) * 2.0),
    "of a value": lambda np, x: ((x + 1.0).copy(), np.copy(x + 1.0), np.copy((x + 1.0).T), (x * 2.0).T.copy() + 1.0),
    "with another": lambda np, x: (x.copy() + x, np.copy(x) + x, np.copy(x.T).T + x.copy(), np.copy(x) * 2.0),
    "twice": lambda np, x: (np.copy(np.copy(x)) + 0.5, np.copy(x.copy()) + 0.5, x.copy().T.copy() * 2.0),
}


def assert_copies(got: Any, wanted: Any) -> None:
    assert_same(got, wanted)
    for a, b in zip(got, wanted, strict=True):
        assert a.flags.owndata and a.base is None and str(a.flags) == str(b.flags)


@pytest.mark.parametrize("example", ["c", "f", "rows", "single"])
@pytest.mark.parametrize("copy", COPIES)
def test_order(copy: str, example: str) -> None:
    function = COPIES[copy]
    compiled = Compiled(function, [layouts()[example]])
    assert "kernels n0" in compiled.builder.text()
    for x in layouts().values():
        for _ in range(2):
            got, wanted = compiled(x), function(np, x)
            assert_copies(got, wanted)
            # What the first is computed from, where it isn't a copy itself, leaves the strides of single elements open.
            assert got[0].strides == wanted[0].strides or copy in ("with another", "twice")


@pytest.mark.parametrize("dtype", ["?", "i1", "i8", "u4", "f2", "f4", "f8", "c8", "c16"])
def test_bits(dtype: str) -> None:
    x = np.frombuffer(np.random.default_rng(3).bytes(64 * 16), dtype)

    def function(np: Any, x: Any, y: Any) -> Any:
        return x.copy(), np.copy(x), x.astype(dtype), y * 2.0

    got, wanted = Compiled(function, [x, np.ones(3)])(x, np.ones(3)), function(np, x, np.ones(3))
    for a, b in zip(got, wanted, strict=True):
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes()


def test_a_copy_is_another_array() -> None:
    def function(np: Any, x: Any) -> Any:
        before, y = x.copy(), x * 2.0
        x[1:3] = y[1:3]
        after = np.copy(x)
        after += 1.0
        return before, after, y, x.copy() + before

    check(function, np.arange(6.0))
    check(lambda np, x: (x.copy(), x.copy(), np.copy(x), x + 1.0), np.arange(6.0))
    x = np.arange(6.0)
    got = Compiled(lambda np, x: (x.copy(), x.copy(), x + 1.0), [x])(x)
    assert not np.shares_memory(got[0], got[1]) and not np.shares_memory(got[0], x)
    assert Compiled(lambda np, x: (x.astype("f8", copy=False), x + 1.0), [x])(x)[0] is x


def test_exits() -> None:
    def function(np: Any, x: Any) -> Any:
        y = np.copy(x)
        y += x
        z = y.T.copy()
        return z * 2.0, y

    x = np.arange(12.0).reshape(3, 4)
    compiled = Compiled(function, [x])
    for node in range(4):
        compiled.builder.run([x], node)
    np.testing.assert_array_equal(x, np.arange(12.0).reshape(3, 4))


def test_a_copy_alone_is_numpys() -> None:
    assert "kernels" not in Compiled(lambda np, x: x.copy(), [np.ones(3)]).builder.text()


def in_place(np: Any, x: Any, y: Any) -> Any:
    z = x + 1.0
    z *= y
    return z


def test_what_is_written_in_place_keeps_its_order() -> None:
    c, f = np.ones((5, 6)), np.asfortranarray(np.ones((5, 6)))
    for example in ([c, c], [f, c], [c, f]):
        for x, y in ([c, c], [f, c], [c, f], [f, f]):
            check(in_place, x, y, examples=example)


def test_what_is_written_in_place_keeps_its_shape() -> None:
    compiled = Compiled(in_place, [np.ones((5, 6)), np.ones((5, 6))])
    for shape in ((1, 6), (5, 1), (1, 1)):
        with pytest.raises(ValueError, match="non-broadcastable output operand"):
            compiled(np.ones(shape), np.ones((5, 6)))
        assert_same(compiled(np.ones((5, 6)), np.ones(shape)), np.full((5, 6), 2.0))


def test_the_order_of_a_turned_result() -> None:
    for example in ((1, 5), (5, 1), (3, 5)):
        for shape in ((1, 5), (5, 1), (3, 5)):
            check(lambda np, x: (x + 1.0).T * 2.0, np.ones(shape), examples=[np.ones(example)])
