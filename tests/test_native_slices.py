"""Kernels that run slice by slice: rows that depend on rows, and all that looks like it but doesn't."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import evalframe


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def softmax_of_columns(x):
    e = np.exp(x - x.max(axis=0))
    return e / e.sum(axis=0)


def layer_norm(x):
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + 1e-5)


def two_results(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    s = e.sum(axis=1)
    return e, s, np.log(s)


def neighbouring_rows(x):
    s = x.sum(axis=1, keepdims=True)
    return x[1:] - s[:-1], x[:-1] * s[1:]


def rows_turned_round(x):
    s = (x * 2).sum(axis=1, keepdims=True)
    return x[::-1] - s


def whole_and_rows(x):
    s = x.sum(axis=1, keepdims=True)
    shifted = x - s
    return shifted / shifted.max() + shifted.min(axis=1, keepdims=True)


def positions(x):
    shifted = x - x.mean(axis=1, keepdims=True)
    return shifted.argmax(axis=1), shifted.min(axis=1)


def in_place(x):
    y = x * 2
    y -= y.max(axis=1, keepdims=True)
    y[:, 1:-1] += y.sum(axis=1, keepdims=True)
    return y


def depth(x):
    x = x.reshape(-1, x.shape[1] // 2, 2)
    s = x.sum(axis=1, keepdims=True)
    return (x - s) / x.max(axis=2, keepdims=True)


PROGRAMS = [
    softmax,
    softmax_of_columns,
    layer_norm,
    two_results,
    neighbouring_rows,
    rows_turned_round,
    whole_and_rows,
    positions,
    in_place,
    depth,
]
SHAPES = [(3000, 100), (40, 9000), (100_000, 2), (2, 100_000), (5001, 34), (1025, 514)]
LAYOUTS = {
    "c": lambda x: x,
    "fortran": np.asfortranarray,
    "backwards": lambda x: x[::-1, ::-1],
    "part": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "float32": lambda x: x.astype(np.float32),
}


def check(program, shape, layout):
    x = LAYOUTS[layout](np.random.default_rng(3).normal(size=shape) + 3)
    expected = program(x)
    fast = evalframe.jit(program)
    for _ in range(2):
        results = fast(x)
    if not isinstance(expected, tuple):
        expected, results = (expected,), (results,)
    exact = program in (neighbouring_rows, rows_turned_round, whole_and_rows, positions, in_place, depth)
    for one, other in zip(expected, results, strict=True):
        assert one.dtype == other.dtype and one.strides == other.strides
        if exact:
            np.testing.assert_array_equal(one, other)
        else:
            np.testing.assert_allclose(one, other, rtol=2e-5 if one.dtype == np.float32 else 1e-13)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_slices_compute_what_numpy_does(program, layout):
    for shape in SHAPES:
        check(program, shape, layout)


def test_slices_with_many_threads():
    environment = dict(os.environ, EVALFRAME_NUM_THREADS="5", PYTHONPATH=os.pathsep.join([*sys.path]))
    done = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_condition_in_one_slice_is_reported():
    @evalframe.jit
    def logarithms(x):
        return np.log(x - x.min(axis=1, keepdims=True) + 1) - x.sum(axis=1, keepdims=True)

    x = np.random.default_rng(0).random((3000, 100))
    logarithms(x)
    x[2500, 50], x[2500, 51] = np.inf, -np.inf
    with pytest.warns(RuntimeWarning, match="invalid value"):
        logarithms(x)


@pytest.mark.parametrize("shape", [(3, 7), (3000, 100), (700, 3001)])
def test_comparing_nan_is_silent_and_right(shape):
    def compared(x):
        top = np.maximum(x, 0.5)
        low = np.minimum(top - x.max(axis=1, keepdims=True), 1.0)
        return top, low, np.where(x < 0.2, top, low), (x >= 0.1).sum(axis=1)

    x = np.random.default_rng(0).random(shape)
    fast = evalframe.jit(compared)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fast(x), fast(x)
        x[1, 3], x[2, 5], x[-1, -1] = np.nan, -np.nan, 5.0
        for _ in range(3):
            for one, other in zip(fast(x), compared(x), strict=True):
                np.testing.assert_array_equal(one, other)
        x[:] = np.arange(x.size).reshape(x.shape)
        for one, other in zip(fast(x), compared(x), strict=True):
            np.testing.assert_array_equal(one, other)


if __name__ == "__main__":
    for program in PROGRAMS:
        for shape in SHAPES:
            check(program, shape, "c")
    for shape in ((3000, 100), (700, 3001)):
        test_comparing_nan_is_silent_and_right(shape)
