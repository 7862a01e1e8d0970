"""The same program is recorded as the same graphs on all versions of CPython: one text for each program."""

# ruff: noqa: E731
# mypy: ignore-errors

from collections.abc import Callable
from typing import Any

import expecttest
import numpy as np

import evalframe

X = np.array([0.5, 1.5, 2.5, 3.5])
Y = np.array([1.0, 2.0, 0.5, 4.0])
M = np.arange(8.0).reshape(2, 4)
EXAMPLES = {"x": X, "m": M, "y": Y, "n": 3, "s": 0.5}


def ufuncs(x, y):
    return np.exp(x + y * 2) - np.minimum(x, 1) / np.hypot(x, y)


def reductions(m, y):
    return m.sum(axis=0, dtype=np.float32), np.mean(m, axis=1, keepdims=True), m.max(initial=0, where=m > 0), m.argmax()


def outputs(x, y):
    z = np.empty_like(x)
    np.add(x, y, out=z)
    np.multiply(z, 2, z)
    return z


def in_place(x, y):
    z = x.copy()
    z += y
    z *= 2
    z **= 2
    return z


def basic_indexing(m, y):
    return m[0], m[1, 2], m[:, 1:3], m[..., None], m[-1, ::2], m[1:], m[:-1]


def advanced_indexing(x, y):
    k = np.argsort(x)
    return x[k], x[x > 1], x[[0, 2]]


def views(m, y):
    t = m.T
    r = m.reshape(-1)[1:]
    return t, r, m.ravel()


def slice_stores(m, y):
    z = m.copy()
    z[0] = y
    z[1:] = 0
    z[:, 1] += 1
    z[z > 3] = 3
    return z


def creation(x, y):
    n = x.shape[0]
    return np.zeros(n), np.ones_like(x), np.arange(n), np.linspace(0, 1, 3), np.eye(2), np.full((2, 2), 7.0)


def selection(x, y):
    return np.where(x > 1, x, y), np.clip(x, 0, 2), x.clip(max=1)


def casts(x, y):
    return x.astype(np.float32), x.astype(int) // 2, np.asarray(y, dtype=np.int16), x.astype("i8")


def rearranged(m, y):
    a = np.stack([y, y * 2])
    return m.reshape(4, -1), m.transpose(1, 0), np.broadcast_to(y, (2, 4)), a, np.concatenate((m, a), axis=0), np.vstack([y, y])


def products(m, y):
    return m @ y, np.dot(m, y), m.T.dot(m), np.einsum("ij,j->i", m, y), np.outer(y, y)


def linear_algebra(m, y):
    square = m @ m.T
    return np.linalg.norm(y), np.linalg.solve(square, m[:, 0]), np.linalg.det(square)


def numpy_scalars(x, y):
    s = x.mean()
    t = np.float32(2) * s + np.sqrt(2.0)
    return t * y, x[0] * x[1], -s


RNG = np.random.default_rng(0)

def random_numbers(x, y):
    return x + RNG.normal(size=x.shape), RNG.integers(0, 10)


def scaled(x, factor=2.0, *, shift=1):
    return x * factor + shift

def calls(x, y):
    return scaled(x) + scaled(y, 3.0) + scaled(x, shift=x.shape[0])


def closures(x, y):
    k = x * 2

    def add(a):
        return a + k

    twice = lambda f, a: f(f(a))
    return twice(add, y)


def branch_on_int(x, n):
    if n > 2:
        x = x * n
    elif n == 0:
        return x
    return x + 1 if n % 2 and 0 < n < 10 else -x


def branch_on_shape(x, y):
    if x.shape[0] > 3 and len(y) != 2:
        x = x[1:3]
    if x.ndim == 1:
        return x + 1
    return y


def branch_on_float(x, s):
    if s > 0.25:
        x = x * s
    return x if not s < 0 else -x


def branch_on_data(x, y):
    if x.sum() > 2:
        y = y * -1
    return x * y


def branch_on_truth(x, y):
    if (x > 5).any() or not y.all():
        y = y + 1
    return y * 2


def loop(x, y):
    for i in range(3):
        x = x + y[i] * i
    return x


def loop_on_data(x, y):
    while x.max() > 1:
        x = x / 2
    return x + y


def while_loop(x, n):
    while n > 1:
        x = x * n
        n -= 1
    return x


def parts_of_lists(x, y):
    rows = [x, y, x + y]
    first, *rest = rows
    return rows[1:][0] + first, (x, y, 1)[:2][1] * 2, rest[0] - 1, "abc"[1:] == "bc"


def comprehensions(x, y):
    return np.array([a.sum() for a in (x, y)]), [x * i for i in range(2)]


def unpacking(m, y):
    n, k = m.shape
    (a, b), c = (y, n), k
    a, b = b, a
    return b * a + c


def metadata(m, y):
    if m.dtype == np.float64 and m.ndim == 2 and m.size:
        return m.T * m.shape[1]
    return m.flags


def is_none(x, y=None):
    if y is None:
        y = 1
    return x + y if x is not None else y


class Layer:
    def __init__(self, weight):
        self.weight = weight
        self.gain = 0.5

    def __call__(self, x):
        return self.apply(x) * self.gain

    def __repr__(self):
        return "Layer"

    def apply(self, x):
        return x @ self.weight

LAYER = Layer(np.ones((4, 2)))

def methods(x, y):
    return LAYER.apply(x) + LAYER.gain


class State:
    def __init__(self, x):
        self.x = x
        self.total = 0.0

    @property
    def doubled(self):
        return self.x * 2

    @doubled.setter
    def doubled(self, value):
        self.x = value / 2


STATE = State(X)


def attributes(x, y):
    STATE.x = x + y
    STATE.total += STATE.doubled.sum()
    STATE.doubled = y * STATE.total
    return STATE.x - 1


def assertions(x, y):
    assert x.shape == y.shape, "shapes differ"
    assert x.ndim == 1
    return x + y


def recorded(function: Callable[..., Any]) -> str:
    """The graphs of one call, and the breaks between them, without positions."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    explained = evalframe.explain(evalframe.jit(function, backend="reference"))(*(EXAMPLES[name] for name in names))
    breaks = sorted({f"break: {note.reason} ({note.detail})" for note in explained.breaks})
    return "\n\n".join([graph.strip() for graph in explained.graphs] + breaks) + "\n"


class TestRecordedGraphs(expecttest.TestCase):
    def shows(self, function: Callable[..., Any], text: str) -> None:
        self.assertExpectedInline(recorded(function), text, skip=1)

    def test_ufuncs(self) -> None:
        self.shows(
            ufuncs,
            """\
i0 = input y: float64[4]
i1 = input x: float64[4]
n0 = binary *(i0, 2): float64[4]
n1 = binary +(i1, n0): float64[4]
n2 = call exp(n1): float64[4]
n3 = call minimum(i1, 1): float64[4]
n4 = call hypot(i1, i0): float64[4]
n5 = binary /(n3, n4): float64[4]
n6 = binary -(n2, n5): float64[4]
""",
        )

    def test_reductions(self) -> None:
        self.shows(
            reductions,
            """\
i0 = input m: float64[2, 4]
n0 = call sum(i0, axis=0, dtype=float32): float32[4]
n1 = check_meta(n0): float32[4]
n2 = call mean(i0, axis=1, keepdims=True): float64[2, 1]
n3 = check_meta(n2): float64[2, 1]
n4 = compare >(i0, 0): bool_[2, 4]
n5 = call max(i0, initial=0, where=n4): float64
n6 = check_meta(n5): float64
n7 = call argmax(i0): int64
n8 = check_meta(n7): int64
""",
        )

    def test_outputs(self) -> None:
        self.shows(
            outputs,
            """\
i0 = input x: float64[4]
i1 = input y: float64[4]
n0 = call empty_like(i0): float64[4]
n1 = check_meta(n0): float64[4]
n2 = call add(i0, i1, out=n0): float64[4]
n3 = call multiply(n0, 2, n0): float64[4]
""",
        )

    def test_in_place(self) -> None:
        self.shows(
            in_place,
            """\
i0 = input x: float64[4]
i1 = input y: float64[4]
n0 = call copy(i0): float64[4]
n1 = check_meta(n0): float64[4]
n2 = binary +=(n0, i1): float64[4]
n3 = binary *=(n2, 2): float64[4]
n4 = binary **=(n3, 2): float64[4]
""",
        )

    def test_basic_indexing(self) -> None:
        self.shows(
            basic_indexing,
            """\
i0 = input m: float64[2, 4]
n0 = getitem(i0, 0): float64[4]
n1 = getitem(i0, (1, 2)): float64
n2 = getitem(i0, (slice(None, None, None), slice(1, 3, None))): float64[2, 2]
n3 = getitem(i0, (Ellipsis, None)): float64[2, 4, 1]
n4 = getitem(i0, (-1, slice(None, None, 2))): float64[2]
n5 = getitem(i0, slice(1, None, None)): float64[1, 4]
n6 = getitem(i0, slice(None, -1, None)): float64[1, 4]
""",
        )

    def test_advanced_indexing(self) -> None:
        self.shows(
            advanced_indexing,
            """\
i0 = input x: float64[4]
n0 = call argsort(i0): int64[4]
n1 = check_meta(n0): int64[4]
n2 = getitem(i0, n0): float64[4]
n3 = compare >(i0, 1): bool_[4]
n4 = getitem(i0, n3): float64[3]
n5 = list(0, 2): object
n6 = getitem(i0, n5): float64[2]
""",
        )

    def test_views(self) -> None:
        self.shows(
            views,
            """\
i0 = input m: float64[2, 4]
n0 = getattr 'T'(i0): float64[4, 2]
n1 = call reshape(i0, -1): float64[8]
n2 = check_meta(n1): float64[8]
n3 = getitem(n1, slice(1, None, None)): float64[7]
n4 = call ravel(i0): float64[8]
n5 = check_meta(n4): float64[8]
""",
        )

    def test_slice_stores(self) -> None:
        self.shows(
            slice_stores,
            """\
i0 = input m: float64[2, 4]
i1 = input y: float64[4]
n0 = call copy(i0): float64[2, 4]
n1 = check_meta(n0): float64[2, 4]
n2 = setitem(n0, 0, i1): None
n3 = setitem(n0, slice(1, None, None), 0): None
n4 = getitem(n0, (slice(None, None, None), 1)): float64[2]
n5 = binary +=(n4, 1): float64[2]
n6 = setitem(n0, (slice(None, None, None), 1), n5): None
n7 = compare >(n0, 3): bool_[2, 4]
n8 = setitem(n0, n7, 3): None
""",
        )

    def test_creation(self) -> None:
        self.shows(
            creation,
            """\
i0 = input x: float64[4]
n0 = getattr 'shape'(i0): object
n1 = getitem(n0, 0): int
n2 = call zeros(n1): float64[4]
n3 = check_meta(n2): float64[4]
n4 = call ones_like(i0): float64[4]
n5 = check_meta(n4): float64[4]
n6 = call arange(n1): int64[4]
n7 = check_meta(n6): int64[4]
n8 = call linspace(0, 1, 3): float64[3]
n9 = check_meta(n8): float64[3]
n10 = call eye(2): float64[2, 2]
n11 = check_meta(n10): float64[2, 2]
n12 = call full((2, 2), 7.0): float64[2, 2]
n13 = check_meta(n12): float64[2, 2]
""",
        )

    def test_selection(self) -> None:
        self.shows(
            selection,
            """\
i0 = input x: float64[4]
i1 = input y: float64[4]
n0 = compare >(i0, 1): bool_[4]
n1 = call where(n0, i0, i1): float64[4]
n2 = check_meta(n1): float64[4]
n3 = call clip(i0, 0, 2): float64[4]
n4 = check_meta(n3): float64[4]
n5 = call clip(i0, max=1): float64[4]
n6 = check_meta(n5): float64[4]
""",
        )

    def test_casts(self) -> None:
        self.shows(
            casts,
            """\
i0 = input x: float64[4]
i1 = input y: float64[4]
n0 = call astype(i0, float32): float32[4]
n1 = check_meta(n0): float32[4]
n2 = call astype(i0, int): int64[4]
n3 = check_meta(n2): int64[4]
n4 = binary //(n2, 2): int64[4]
n5 = call asarray(i1, dtype=int16): int16[4]
n6 = check_meta(n5): int16[4]
n7 = call astype(i0, 'i8'): int64[4]
n8 = check_meta(n7): int64[4]
""",
        )

    def test_rearranged(self) -> None:
        self.shows(
            rearranged,
            """\
i0 = input y: float64[4]
i1 = input m: float64[2, 4]
n0 = binary *(i0, 2): float64[4]
n1 = list(i0, n0): object
n2 = call stack(n1): float64[2, 4]
n3 = check_meta(n2): float64[2, 4]
n4 = call reshape(i1, 4, -1): float64[4, 2]
n5 = check_meta(n4): float64[4, 2]
n6 = call transpose(i1, 1, 0): float64[4, 2]
n7 = check_meta(n6): float64[4, 2]
n8 = call broadcast_to(i0, (2, 4)): float64[2, 4]
n9 = check_meta(n8): float64[2, 4]
n10 = tuple(i1, n2): object
n11 = call concatenate(n10, axis=0): float64[4, 4]
n12 = check_meta(n11): float64[4, 4]
n13 = list(i0, i0): object
n14 = call vstack(n13): float64[2, 4]
n15 = check_meta(n14): float64[2, 4]
""",
        )

    def test_products(self) -> None:
        self.shows(
            products,
            """\
i0 = input m: float64[2, 4]
i1 = input y: float64[4]
n0 = binary @(i0, i1): float64[2]
n1 = call dot(i0, i1): float64[2]
n2 = check_meta(n1): float64[2]
n3 = getattr 'T'(i0): float64[4, 2]
n4 = call dot(n3, i0): float64[4, 4]
n5 = check_meta(n4): float64[4, 4]
n6 = call einsum('ij,j->i', i0, i1): float64[2]
n7 = check_meta(n6): float64[2]
n8 = call outer(i1, i1): float64[4, 4]
n9 = check_meta(n8): float64[4, 4]
""",
        )

    def test_linear_algebra(self) -> None:
        self.shows(
            linear_algebra,
            """\
i0 = input m: float64[2, 4]
i1 = input y: float64[4]
n0 = getattr 'T'(i0): float64[4, 2]
n1 = binary @(i0, n0): float64[2, 2]
n2 = call norm(i1): float64
n3 = check_meta(n2): float64
n4 = getitem(i0, (slice(None, None, None), 0)): float64[2]
n5 = call solve(n1, n4): float64[2]
n6 = check_meta(n5): float64[2]
n7 = call det(n1): float64
n8 = check_meta(n7): float64
""",
        )

    def test_numpy_scalars(self) -> None:
        self.shows(
            numpy_scalars,
            """\
i0 = input x: float64[4]
i1 = input y: float64[4]
n0 = call mean(i0): float64
n1 = check_meta(n0): float64
n2 = call float32(2): float32
n3 = check_meta(n2): float32
n4 = binary *(n2, n0): float64
n5 = call sqrt(2.0): float64
n6 = binary +(n4, n5): float64
n7 = binary *(n6, i1): float64[4]
n8 = getitem(i0, 0): float64
n9 = getitem(i0, 1): float64
n10 = binary *(n8, n9): float64
n11 = unary -(n0): float64
""",
        )

    def test_random_numbers(self) -> None:
        self.shows(
            random_numbers,
            """\
i0 = input x: float64[4]
i1 = input test_recorded_graphs.RNG: object
n0 = getattr 'shape'(i0): object
n1 = call normal(i1, size=n0): float64[4]
n2 = check_meta(n1): float64[4]
n3 = binary +(i0, n1): float64[4]
n4 = call integers(i1, 0, 10): int64
n5 = check_meta(n4): int64
""",
        )

    def test_calls(self) -> None:
        self.shows(
            calls,
            """\
i0 = input x: float64[4]
i1 = input y: float64[4]
n0 = binary *(i0, 2.0): float64[4]
n1 = binary +(n0, 1): float64[4]
n2 = binary *(i1, 3.0): float64[4]
n3 = binary +(n2, 1): float64[4]
n4 = binary +(n1, n3): float64[4]
n5 = getattr 'shape'(i0): object
n6 = getitem(n5, 0): int
n7 = binary *(i0, 2.0): float64[4]
n8 = binary +(n7, n6): float64[4]
n9 = binary +(n4, n8): float64[4]
""",
        )

    def test_closures(self) -> None:
        self.shows(
            closures,
            """\
i0 = input x: float64[4]
i1 = input y: float64[4]
n0 = binary *(i0, 2): float64[4]
n1 = binary +(i1, n0): float64[4]
n2 = binary +(n1, n0): float64[4]
""",
        )

    def test_branch_on_int(self) -> None:
        self.shows(
            branch_on_int,
            """\
i0 = input x: float64[4]
i1 = input n: int
n0 = binary *(i0, i1): float64[4]
n1 = binary +(n0, 1): float64[4]
""",
        )

    def test_branch_on_shape(self) -> None:
        self.shows(
            branch_on_shape,
            """\
i0 = input x: float64[4]
i1 = input y: float64[4]
n0 = getattr 'shape'(i0): object
n1 = getitem(n0, 0): int
n2 = compare >(n1, 3): bool
n3 = check(n2, True): None
n4 = call len(i1): int
n5 = compare !=(n4, 2): bool
n6 = check(n5, True): None
n7 = getitem(i0, slice(1, 3, None)): float64[2]
n8 = getattr 'ndim'(n7): int
n9 = compare ==(n8, 1): bool
n10 = check(n9, True): None
n11 = binary +(n7, 1): float64[2]
""",
        )

    def test_branch_on_float(self) -> None:
        self.shows(
            branch_on_float,
            """\
i0 = input s: float
i1 = input x: float64[4]
n0 = compare >(i0, 0.25): bool
n1 = check(n0, True): None
n2 = binary *(i1, i0): float64[4]
n3 = compare <(i0, 0): bool
n4 = check(n3, False): None
""",
        )

    def test_branch_on_data(self) -> None:
        self.shows(
            branch_on_data,
            """\
i0 = input x: float64[4]
n0 = call sum(i0): float64
n1 = check_meta(n0): float64
n2 = compare >(n0, 2): bool_

i0 = input y: float64[4]
i1 = input x: float64[4]
n0 = binary *(i0, -1): float64[4]
n1 = binary *(i1, n0): float64[4]

break: branch on the value of an array (numpy.bool)
""",
        )

    def test_branch_on_truth(self) -> None:
        self.shows(
            branch_on_truth,
            """\
i0 = input x: float64[4]
n0 = compare >(i0, 5): bool_[4]
n1 = call any(n0): bool_
n2 = check_meta(n1): bool_

i0 = input y: float64[4]
n0 = call all(i0): bool_
n1 = check_meta(n0): bool_

i0 = input y: float64[4]
n0 = binary *(i0, 2): float64[4]

break: branch on the value of an array (numpy.bool)
""",
        )

    def test_loop(self) -> None:
        self.shows(
            loop,
            """\
i0 = input y: float64[4]
i1 = input x: float64[4]
n0 = getitem(i0, 0): float64
n1 = binary *(n0, 0): float64
n2 = binary +(i1, n1): float64[4]
n3 = getitem(i0, 1): float64
n4 = binary *(n3, 1): float64
n5 = binary +(n2, n4): float64[4]
n6 = getitem(i0, 2): float64
n7 = binary *(n6, 2): float64
n8 = binary +(n5, n7): float64[4]
""",
        )

    def test_loop_on_data(self) -> None:
        self.shows(
            loop_on_data,
            """\
i0 = input x: float64[4]
n0 = call max(i0): float64
n1 = check_meta(n0): float64
n2 = compare >(n0, 1): bool_

i0 = input x: float64[4]
n0 = binary /(i0, 2): float64[4]
n1 = call max(n0): float64
n2 = check_meta(n1): float64
n3 = compare >(n1, 1): bool_

i0 = input x: float64[4]
i1 = input y: float64[4]
n0 = binary +(i0, i1): float64[4]

break: branch on the value of an array (numpy.bool)
""",
        )

    def test_while_loop(self) -> None:
        self.shows(
            while_loop,
            """\
i0 = input x: float64[4]
i1 = input n: int
n0 = binary *(i0, i1): float64[4]
n1 = binary *(n0, 2): float64[4]
""",
        )

    def test_parts_of_lists(self) -> None:
        self.shows(
            parts_of_lists,
            """\
i0 = input x: float64[4]
i1 = input y: float64[4]
n0 = binary +(i0, i1): float64[4]
n1 = binary +(i1, i0): float64[4]
n2 = binary *(i1, 2): float64[4]
n3 = binary -(i1, 1): float64[4]
""",
        )

    def test_comprehensions(self) -> None:
        self.shows(
            comprehensions,
            """\
i0 = input x: float64[4]
i1 = input y: float64[4]
n0 = call sum(i0): float64
n1 = check_meta(n0): float64
n2 = call sum(i1): float64
n3 = check_meta(n2): float64
n4 = list(n0, n2): object
n5 = call array(n4): float64[2]
n6 = check_meta(n5): float64[2]
n7 = binary *(i0, 0): float64[4]
n8 = binary *(i0, 1): float64[4]
""",
        )

    def test_unpacking(self) -> None:
        self.shows(
            unpacking,
            """\
i0 = input m: float64[2, 4]
i1 = input y: float64[4]
n0 = getattr 'shape'(i0): object
n1 = getitem(n0, 0): int
n2 = getitem(n0, 1): int
n3 = binary *(i1, n1): float64[4]
n4 = binary +(n3, n2): float64[4]
""",
        )

    def test_metadata(self) -> None:
        self.shows(
            metadata,
            """\
i0 = input m: float64[2, 4]
n0 = getattr 'size'(i0): int
n1 = check(n0, 8): None
n2 = getattr 'T'(i0): float64[4, 2]
n3 = getattr 'shape'(i0): object
n4 = getitem(n3, 1): int
n5 = binary *(n2, n4): float64[4, 2]
""",
        )

    def test_is_none(self) -> None:
        self.shows(
            is_none,
            """\
i0 = input y: float64[4]
i1 = input x: float64[4]
n0 = binary +(i1, i0): float64[4]
""",
        )

    def test_methods(self) -> None:
        self.shows(
            methods,
            """\
i0 = input x: float64[4]
i1 = input test_recorded_graphs.LAYER.weight: float64[4, 2]
i2 = input test_recorded_graphs.LAYER.gain: float
n0 = binary @(i0, i1): float64[2]
n1 = binary +(n0, i2): float64[2]
""",
        )

    def test_attributes(self) -> None:
        self.shows(
            attributes,
            """\
i0 = input x: float64[4]
i1 = input y: float64[4]
i2 = input test_recorded_graphs.STATE.total: float
n0 = binary +(i0, i1): float64[4]
n1 = binary *(n0, 2): float64[4]
n2 = call sum(n1): float64
n3 = check_meta(n2): float64
n4 = binary +=(i2, n2): float64
n5 = binary *(i1, n4): float64[4]
n6 = binary /(n5, 2): float64[4]
n7 = binary -(n6, 1): float64[4]
""",
        )

    def test_assertions(self) -> None:
        self.shows(
            assertions,
            """\
i0 = input x: float64[4]
i1 = input y: float64[4]
n0 = getattr 'shape'(i0): object
n1 = getattr 'shape'(i1): object
n2 = compare ==(n0, n1): bool
n3 = check(n2, True): None
n4 = binary +(i0, i1): float64[4]
""",
        )
