"""Questions about element types, ranks and shapes cut no graph, and their answers stay true."""

import numpy as np
import pytest

import evalframe

QUESTIONS = [
    "x.dtype == np.float64",
    "x.dtype != np.int64",
    "x.dtype == 'float64'",
    "x.dtype.kind == 'f'",
    "x.dtype.itemsize == 8",
    "x.dtype.char == 'd'",
    "x.dtype is y.dtype",
    "x.dtype in (np.float64, np.float32)",
    "(x * y).dtype == np.float64",
    "np.dtype('f8') == x.dtype",
    "issubclass(x.dtype.type, np.floating)",
    "np.issubdtype(x.dtype, np.floating)",
    "np.result_type(x, y) == np.float64",
    "np.promote_types(x.dtype, np.float32) == np.float64",
    "np.can_cast(x.dtype, np.float32)",
    "np.finfo(x.dtype).bits == 64",
    "np.iscomplexobj(x)",
    "np.isscalar(x)",
    "np.ndim(x) == 2",
    "np.shape(x) == (2, 3)",
    "np.size(x) == 6",
    "x.size > 3",
    "x.shape == y.shape",
    "len(x) == 2",
    "isinstance(x, np.ndarray)",
    "hasattr(x, 'shape')",
]
ARGUMENTS = [
    (np.ones((2, 3)), np.ones((2, 3))),
    (np.ones((2, 3), np.float32), np.ones((2, 3), np.float32)),
    (np.ones(6), np.ones((2, 6))),
    (np.ones((4, 3), complex), np.ones((4, 3))),
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_about_metadata_cuts_no_graph_and_is_asked_anew_of_other_arrays(question):
    names = {"np": np}
    exec(f"def f(x, y):\n    if {question}:\n        x = x + 1\n    else:\n        x = x - 1\n    return x * 2\n", names)
    plain = names["f"]
    compiled = evalframe.jit(plain, fullgraph=True)
    for _ in range(2):
        for arguments in ARGUMENTS:
            expected, result = plain(*arguments), compiled(*arguments)
            assert result.dtype == expected.dtype and (result == expected).all()


def test_types_of_one_size_and_several_names_are_told_apart():
    def character(x):
        return x.dtype.char, x + 1

    compiled = evalframe.jit(character)
    for code in ("l", "q", "l", "q"):
        assert compiled(np.ones(3, code))[0] == np.ones(3, code).dtype.char


def test_a_type_that_is_an_argument_is_a_fact():
    def cast(x, dtype):
        return x + 1 if x.dtype == dtype else x.astype(dtype)

    compiled = evalframe.jit(cast)
    for dtype in (np.float64, np.int32, np.dtype("f4"), np.float64, np.int32):
        assert compiled(np.ones(3), dtype).dtype == cast(np.ones(3), dtype).dtype


def test_a_class_that_numpy_asks_for_its_dtype_is_no_constant():
    class Described:
        dtype = np.dtype(np.float64)

    def same(x, kind):
        return (x + 1, x.dtype == kind)

    compiled = evalframe.jit(same)
    assert [compiled(np.ones(2), Described)[1] for _ in range(3)] == [True] * 3
    Described.dtype = np.dtype(np.int8)
    assert compiled(np.ones(2), Described)[1] is False


def test_a_function_of_numpys_that_is_replaced_is_seen(monkeypatch):
    def rank(x):
        return x * np.ndim(x)

    compiled = evalframe.jit(rank)
    assert (compiled(np.ones((2, 2))) == 2).all()
    monkeypatch.setattr(np, "ndim", lambda x: 5)
    assert (compiled(np.ones((2, 2))) == 5).all()


def test_limits_of_a_type_enter_the_graph():
    def clipped(x):
        return x + np.finfo(x.dtype).eps

    compiled = evalframe.jit(clipped, fullgraph=True)
    for dtype in (np.float64, np.float32, np.float64):
        result = compiled(np.ones(3, dtype))
        assert result.dtype == dtype and (result == clipped(np.ones(3, dtype))).all()
