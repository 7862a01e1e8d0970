"""Large results: ordinary arrays that own their data, in memory that is used again."""

import gc
import pickle
import resource
import tracemalloc

import numpy as np
import pytest

import evalframe

SIZES = [4_095, 4_096, 100_000, 1_000_000]


@evalframe.jit
def doubled(x):
    return x * 2 + 1


@pytest.mark.parametrize("size", SIZES)
def test_a_result_owns_its_data(size):
    x = np.arange(float(size))
    result = doubled(x)
    assert result.flags.owndata and result.flags.writeable and result.flags.aligned and result.base is None
    np.testing.assert_array_equal(result, x * 2 + 1)


@pytest.mark.parametrize("shape", [(1000, 1000), (1, 100_000), (100_000, 1), (10, 100, 100)])
def test_results_have_numpys_order(shape):
    x = np.random.default_rng(0).random(shape)
    for array in (x, x.T, np.asfortranarray(x)):
        expected, result = array * 2 + 1, doubled(array)
        assert result.strides == expected.strides
        assert result.flags.c_contiguous == expected.flags.c_contiguous
        assert result.flags.f_contiguous == expected.flags.f_contiguous
        np.testing.assert_array_equal(result, expected)


def test_memory_is_used_again_and_never_twice():
    x = np.arange(100_000.0)
    doubled(x)
    first = doubled(x)
    place = first.ctypes.data
    second = doubled(x)
    assert not np.may_share_memory(first, second)
    del first
    third = doubled(x)
    assert third.ctypes.data == place and not np.may_share_memory(second, third)


def test_results_stand_at_different_places_of_their_pages():
    x = np.arange(100_000.0)
    places = {result.ctypes.data % 4096 for result in [doubled(x) for _ in range(20)]}
    assert len(places) > 4 and 0 not in places and all(place % 64 == 0 for place in places)


@pytest.mark.parametrize("size", [0, 10, 50_000, 100_001, 3_000_000])
def test_results_can_be_resized(size):
    x = np.arange(100_000.0)
    result, expected = doubled(x), x * 2 + 1
    result.resize(size)
    expected.resize(size)
    np.testing.assert_array_equal(result, expected)


def test_a_view_keeps_its_memory():
    x = np.arange(100_000.0)
    view = doubled(x)[10:20]
    gc.collect()
    other = doubled(x + 1)
    assert not np.may_share_memory(view, other.base if other.base is not None else other)
    np.testing.assert_array_equal(view, x[10:20] * 2 + 1)


def test_results_pickle_as_arrays():
    x = np.arange(100_000.0)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(doubled(x))), x * 2 + 1)


def test_tracemalloc_sees_results():
    x = np.arange(100_000.0)
    doubled(x)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        result = doubled(x)
        during = tracemalloc.get_traced_memory()[0]
        del result
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert during - before >= x.nbytes
    assert after < before + 10_000


def test_what_is_kept_is_bounded():
    x = np.ones(2_000_000)
    doubled(x)
    held = [doubled(x) for _ in range(40)]
    held.clear()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for size in range(1_000_000, 2_000_000, 50_000):
        doubled(np.ones(size))
    # Kilobytes: blocks of twenty sizes don't add up beyond what may be kept.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 300_000
