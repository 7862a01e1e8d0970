"""Kernels against NumPy: every scalar operation and type, layouts, reductions, conditions, cache."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from evalframe import _core

Array = NDArray[Any]
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]


def run(ops: list[Any], inputs: list[Any], outputs: list[Any], reduced: int = 0) -> tuple[list[Array], int]:
    """Runs a kernel over the broadcast inputs; outputs: (value, dtype, reduction)."""
    shape = np.broadcast_shapes(*(np.shape(x) for x in inputs))
    scalars = [np.ndim(x) == 0 for x in inputs]
    kernel = _core.kernel_compile(
        len(shape),
        reduced,
        [(np.asarray(x).dtype.name, s) for x, s in zip(inputs, scalars, strict=True)],
        ops,
        outputs,
    )
    data, strides, results = [], [], []
    keep = [np.asarray(x) for x in inputs]
    for array in keep:
        data.append(array.ctypes.data)
        strides.append(np.broadcast_to(array, shape).strides)
    for _, dtype, reduce in outputs:
        mask = reduced if reduce != "store" else 0
        own = [1 if mask >> d & 1 else n for d, n in enumerate(shape)]
        result = np.full(own, 77, dtype="bool" if dtype == "bool_" else dtype)
        results.append(result)
        data.append(result.ctypes.data)
        strides.append([0 if mask >> d & 1 else s for d, s in enumerate(result.strides)])
    flags = _core.kernel_run(kernel, list(shape), data, [list(s) for s in strides])
    return results, flags


def one(op: str, dtype: Any, *inputs: Any) -> Array:
    name = np.dtype(dtype).name
    outputs = [(len(inputs), name, "store")]
    return run([(op, name, list(range(len(inputs))))], list(inputs), outputs)[0][0]


def flags_of(op: str, *inputs: Array) -> int:
    name = inputs[0].dtype.name
    return run([(op, name, list(range(len(inputs))))], list(inputs), [(len(inputs), name, "store")])[1] & 11


def samples(dtype: str, n: int = 1003, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return rng.integers(0, 2, n).astype(bool)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        edges = np.array(
            [info.min, info.max, 0, 1, 2, 3, info.max - 1] + ([-1, -2] if kind.kind == "i" else [7]), dtype
        )
        wide = rng.integers(info.min, info.max, n, dtype=kind, endpoint=True)
        small = rng.integers(0, 12, n).astype(kind)
        return np.where(
            rng.integers(0, 3, n) == 0, small, np.where(rng.integers(0, 3, n) == 0, rng.choice(edges, n), wide)
        )
    if kind.kind == "f":
        info_f = np.finfo(kind)
        edges = np.array(
            [0.0, -0.0, np.inf, -np.inf, np.nan, info_f.max, info_f.tiny, info_f.smallest_subnormal, 1, -1], kind
        )
        return np.where(rng.integers(0, 5, n) == 0, rng.choice(edges, n), (rng.standard_normal(n) * 10).astype(kind))
    part = "float32" if kind == np.complex64 else "float64"
    return (rng.standard_normal(n).astype(part) + 1j * rng.standard_normal(n).astype(part)).astype(kind)


def assert_same(got: Array, want: Array, exact: bool = True) -> None:
    assert got.dtype == want.dtype, (got.dtype, want.dtype)
    if exact:
        equal = (got == want) | ((got != got) & (want != want))
        if got.dtype.kind == "f":
            equal &= (np.signbit(got) == np.signbit(want)) | np.isnan(want)
        assert equal.all(), (np.flatnonzero(~equal)[:5], got[~equal][:5], want[~equal][:5])
    else:
        np.testing.assert_allclose(got, want, rtol=4 * np.finfo(got.dtype).eps)


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS, *COMPLEX])
@pytest.mark.parametrize("op", ["add", "subtract", "multiply", "maximum", "minimum", "fmax", "fmin"])
def test_binary(op: str, dtype: str) -> None:
    a, b = samples(dtype, seed=1), samples(dtype, seed=2)
    want = getattr(np, op)(a, b)
    assert_same(one(op, dtype, a, b), want, exact=np.dtype(dtype).kind != "c")


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize(
    "op", ["floor_divide", "remainder", "left_shift", "right_shift", "bitwise_and", "bitwise_or", "bitwise_xor"]
)
def test_integers(op: str, dtype: str) -> None:
    a, b = samples(dtype, seed=1), samples(dtype, seed=2)
    assert_same(one(op, dtype, a, b), getattr(np, op)(a, b))


@pytest.mark.parametrize("dtype", INTS)
def test_integer_power(dtype: str) -> None:
    a, b = samples(dtype, seed=1), samples(dtype, seed=2)
    b = np.where(b < 0, ~b, b).astype(dtype)
    assert_same(one("integer_power", dtype, a, b), np.power(a, b))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["divide", "floor_divide", "remainder", "copysign"])
def test_float_binary(op: str, dtype: str) -> None:
    a, b = samples(dtype, seed=1), samples(dtype, seed=2)
    assert_same(one(op, dtype, a, b), getattr(np, op)(a, b))


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS])
@pytest.mark.parametrize("op", ["negative", "positive", "absolute", "sign", "square"])
def test_unary(op: str, dtype: str) -> None:
    a = samples(dtype)
    assert_same(one(op, dtype, a), getattr(np, op)(a))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["sqrt", "reciprocal", "floor", "ceil", "trunc", "rint"])
def test_float_unary(op: str, dtype: str) -> None:
    a = samples(dtype)
    assert_same(one(op, dtype, a), getattr(np, op)(a))


@pytest.mark.parametrize("dtype", ["bool", *INTS, *FLOATS, *COMPLEX])
@pytest.mark.parametrize("op", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and"])
def test_comparisons(op: str, dtype: str) -> None:
    a, b = samples(dtype, seed=1), samples(dtype, seed=2)
    a[::3] = b[::3]
    got, flags = run([(op, "bool_", [0, 1])], [a, b], [(2, "bool_", "store")])
    assert_same(got[0], getattr(np, op)(a, b))
    assert flags & 11 == 0


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["isnan", "isinf", "isfinite", "signbit"])
def test_classification(op: str, dtype: str) -> None:
    a = samples(dtype)
    got, flags = run([(op, "bool_", [0])], [a], [(1, "bool_", "store")])
    assert_same(got[0], getattr(np, op)(a))
    assert flags & 11 == 0


@pytest.mark.parametrize("to", ["bool", *INTS, *FLOATS, *COMPLEX])
@pytest.mark.parametrize("dtype", ["bool", *INTS, *FLOATS, *COMPLEX])
def test_casts(dtype: str, to: str) -> None:
    a = samples(dtype)
    if np.dtype(dtype).kind in "fc" and np.dtype(to).kind in "iu":
        a = (np.arange(100) - (50 if np.dtype(to).kind == "i" else 0)).astype(dtype) + np.dtype(dtype).type(0.5)
    with (
        np.errstate(all="ignore"),
        pytest.warns(np.exceptions.ComplexWarning)
        if np.dtype(dtype).kind == "c" and np.dtype(to).kind not in "cb"
        else np.errstate(),
    ):
        want = a.astype(to)
    assert_same(one("cast", "bool" if to == "bool" else to, a), want)


def test_double_to_half_rounds_once() -> None:
    a = np.float64(1 + 2**-11) + np.array([2**-40, -(2**-40), 0, 2**-30, -(2**-30), 3e-8, 1e300, 65519.999999, 65520])
    assert_same(one("cast", "float16", a), a.astype(np.float16))


def test_conditions() -> None:
    f, i = np.array([1.0, 0.0, -1.0, 5.0]), np.array([1, 0, -1, 5])
    assert flags_of("divide", f, f * 0) == 9
    assert flags_of("multiply", f * 1e300, f * 1e300) == 2
    assert flags_of("sqrt", f) == 8
    assert flags_of("sqrt", np.abs(f)) == 0
    assert flags_of("log", np.array([1.0, 0.0])) == 1
    assert flags_of("log", np.array([1.0, -3.0])) == 8
    assert flags_of("log", np.array([np.nan, np.inf, 1e-310])) == 0
    assert flags_of("exp", np.array([np.nan, np.inf, -np.inf, -1000.0, 3.0])) == 0
    assert flags_of("exp", np.array([709.9])) == 2 and flags_of("exp", np.array([1000.0])) == 2
    assert flags_of("floor_divide", i, i) == 1
    assert flags_of("floor_divide", i, i * 0 - 1) == 0
    assert flags_of("floor_divide", np.full(3, -(2**63)), np.full(3, -1)) == 2
    assert flags_of("maximum", f, f * np.nan) == 0


@pytest.mark.parametrize("shape", [(7, 130), (3, 4, 5), (40, 3), (1, 9), (9, 1), (0, 4)])
@pytest.mark.parametrize("order", ["C", "F", "reversed", "step", "broadcast"])
def test_layouts(shape: tuple[int, ...], order: str) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal(shape)
    if order == "F":
        a = np.asfortranarray(a)
    elif order == "reversed":
        a = a[..., ::-1]
    elif order == "step":
        a = np.repeat(a, 2, axis=-1)[..., ::2]
    elif order == "broadcast":
        a = rng.standard_normal((*shape[:-1], 1))
    b = rng.standard_normal(shape)
    got = run([("multiply", "float64", [0, 1]), ("add", "float64", [3, 2])], [a, b, 2.5], [(4, "float64", "store")])[0][
        0
    ]
    assert_same(got, np.asarray(a * b + 2.5).reshape(shape))


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 127, 128, 129, 511, 513, 1000, 4097, 300_001])
@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX])
def test_sum_in_numpys_order(n: int, dtype: str) -> None:
    x = (np.random.default_rng(n).standard_normal(n)).astype(dtype)
    if np.dtype(dtype).kind == "c":
        x = x + (1j * np.random.default_rng(n + 1).standard_normal(n)).astype(dtype)
    got = run([("multiply", dtype, [0, 0])], [x], [(0, dtype, "sum")], reduced=1)[0][0]
    assert_same(got, x.sum(keepdims=True))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint8"])
@pytest.mark.parametrize("axis", [0, 1, 2, (0, 1), (1, 2), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("op", ["sum", "prod", "min", "max"])
@pytest.mark.parametrize("shape", [(5, 6, 7), (300, 2, 3), (2, 3, 1000)])
def test_reductions(op: str, axis: Any, dtype: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(3).uniform(0.9, 1.1, shape).astype(dtype)
    if np.dtype(dtype).kind != "f":
        x = np.random.default_rng(3).integers(0, 200, shape).astype(dtype)
    axes = (axis,) if isinstance(axis, int) else axis
    got = run([], [x], [(0, dtype, op)], reduced=sum(1 << a for a in axes))[0][0]
    assert_same(
        got, getattr(np, op)(x, axis=axis, keepdims=True, **({"dtype": dtype} if op in ("sum", "prod") else {}))
    )


@pytest.mark.parametrize("op", ["argmin", "argmax"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arg_reductions(op: str, axis: int, order: str) -> None:
    x = np.array(np.random.default_rng(3).integers(0, 9, (50, 70)), dtype=float, order=order)  # type: ignore[call-overload]
    x[7, 9] = np.nan
    got, flags = run([], [x], [(0, "int64", op)], reduced=1 << axis)
    assert_same(got[0], getattr(np, op)(x, axis=axis, keepdims=True))
    got, _ = run([], [x], [(0, "int64", op)], reduced=3)
    assert got[0].item() == getattr(np, op)(x)
    assert flags & 11 == 0


def test_any_and_all_and_map_in_one_kernel() -> None:
    x = np.random.default_rng(0).standard_normal((60, 70))
    got, _ = run(
        [("less", "bool_", [0, 1])],
        [x, 1.5],
        [(2, "bool_", "any"), (2, "bool_", "all"), (2, "bool_", "store")],
        reduced=2,
    )
    assert_same(got[0], (x < 1.5).any(1, keepdims=True))
    assert_same(got[1], (x < 1.5).all(1, keepdims=True))
    assert_same(got[2], x < 1.5)


def test_unknown_lowering_is_named() -> None:
    with pytest.raises(RuntimeError, match="log: no native lowering for complex128"):
        one("log", "complex128", np.zeros(3, complex))


CACHE_PROGRAM = """
import sys; sys.path.insert(0, {tests!r})
import numpy as np, evalframe._llvm as llvm
from test_kernels import one
compiled = []
plain = llvm.compile_quickly
llvm.compile_quickly = lambda ir: compiled.append(ir) or plain(ir)
x = np.arange(5.0)
assert (one("add", "float64", x, x) == 2 * x).all()
print(len(compiled))
"""


def compiles(**environment: str) -> int:
    """How many kernels a fresh process compiles rather than loads."""
    program = CACHE_PROGRAM.format(tests=str(Path(__file__).parent))
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_cache_on_disk(tmp_path: Path) -> None:
    place = tmp_path / "cache"
    assert compiles(EVALFRAME_CACHE_DIR=str(place)) == 1
    assert place.stat().st_mode & 0o777 == 0o700
    assert compiles(EVALFRAME_CACHE_DIR=str(place)) == 0
    assert compiles(EVALFRAME_CACHE_DIR=str(place), EVALFRAME_CACHE="0") == 1
    (entry,) = place.glob("*.o")
    good = entry.read_bytes()
    for bad in (b"", good[:50], good[:-1], good[:-1] + bytes([good[-1] ^ 1]), b"x" + good[1:]):
        entry.write_bytes(bad)
        assert compiles(EVALFRAME_CACHE_DIR=str(place)) == 1
        assert entry.read_bytes() == good
    entry.chmod(0o666)
    assert compiles(EVALFRAME_CACHE_DIR=str(place)) == 1
    place.chmod(0o777)
    assert compiles(EVALFRAME_CACHE_DIR=str(place)) == 1
    assert compiles(EVALFRAME_CACHE_DIR="/proc/nowhere") == 1


FRESH_PROGRAM = """
import sys; sys.path.insert(0, {tests!r})
import numpy as np
from evalframe import _core
from test_kernels import one
x = np.linspace(0.1, 9, 1001)
for name in ("exp", "log", "tanh", "floor", "sqrt", "remainder"):
    got = one(name, "float64", x, x + 1) if name == "remainder" else one(name, "float64", x)
    wanted = np.remainder(x, x + 1) if name == "remainder" else getattr(np, name)(x)
    assert np.allclose(got, wanted, rtol=1e-15), name
print(_core.llvm_is_loaded())
"""


def start_fresh(place: Path) -> "subprocess.Popen[str]":
    program = FRESH_PROGRAM.format(tests=str(Path(__file__).parent))
    environment = {**os.environ, "EVALFRAME_CACHE_DIR": str(place)}
    return subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)


def test_processes_share_the_cache_and_load_from_it_without_llvm(tmp_path: Path) -> None:
    together = [start_fresh(tmp_path / "cache") for _ in range(3)]
    assert [process.communicate()[0] for process in together].count("True\n") >= 1
    assert all(process.returncode == 0 for process in together)
    assert not list((tmp_path / "cache").glob("*.tmp"))
    later = start_fresh(tmp_path / "cache")
    assert later.communicate()[0] == "False\n"


BESIDE_PROGRAM = """
import sys; sys.path.insert(0, {tests!r})
if {imports_llvmlite}:
    import llvmlite.binding
import numpy as np, evalframe
from evalframe import _core
from test_kernels import one
x = np.linspace(0.1, 9, 1001)
assert (one("sqrt", "float64", x) == np.sqrt(x)).all() and (one("multiply", "float64", x, x) == x * x).all()

@evalframe.jit
def summed(x):
    total = 0.0
    for i in range(len(x)):
        total += x[i] * x[i]
    return total

long = np.linspace(0.0, 1.0, 200_000)
for _ in range(400):
    assert abs(summed(long) - (long * long).sum()) < 1e-6
    if _core.jit_counters(summed)["optimised_loops"]:
        break
assert _core.jit_counters(summed)["optimised_loops"] == 1

@evalframe.jit
def by_rows(A, x):
    for i in range(len(A)):
        A[i] = A[i] * 0.5 + x

rows = np.ones((2000, 50))
for _ in range(40):
    by_rows(rows, x[:50])
assert _core.jit_counters(by_rows)["native_turns"] > 0
print(_core.llvm_is_loaded(), "llvmlite.binding" in sys.modules)
"""


def test_code_is_the_same_by_llvms_functions_and_by_those_of_python(tmp_path: Path) -> None:
    """The latter are taken where the program has imported llvmlite itself."""
    code = []
    for imports_llvmlite in (False, True):
        place = tmp_path / str(imports_llvmlite)
        program = BESIDE_PROGRAM.format(tests=str(Path(__file__).parent), imports_llvmlite=imports_llvmlite)
        environment = {**os.environ, "EVALFRAME_CACHE_DIR": str(place)}
        told = subprocess.run([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
        assert told == f"True {imports_llvmlite}\n"
        code.append({entry.name: entry.read_bytes() for entry in place.glob("*.o")})
    both = code[0].keys() & code[1].keys()
    assert len(both) >= 4 and all(code[0][name] == code[1][name] for name in both)


def test_links_in_the_cache_are_not_followed(tmp_path: Path) -> None:
    place = tmp_path / "cache"
    assert compiles(EVALFRAME_CACHE_DIR=str(place)) == 1
    (entry,) = place.glob("*.o")
    entry.rename(tmp_path / "elsewhere")
    entry.symlink_to(tmp_path / "elsewhere")
    assert compiles(EVALFRAME_CACHE_DIR=str(place)) == 1
    entry.unlink()
    os.mkfifo(entry, 0o600)
    assert compiles(EVALFRAME_CACHE_DIR=str(place)) == 1


THREADS_PROGRAM = """
import os, sys, threading, time; sys.path.insert(0, {tests!r})
import numpy as np
from test_kernels import run
x = np.random.default_rng(0).standard_normal(1_000_001)
def check():
    outputs = [(1, "float64", "sum"), (1, "float64", "max"), (0, "float64", "min"), (1, "float64", "store")]
    total, largest, smallest, square = run([("multiply", "float64", [0, 0])], [x], outputs, reduced=1)[0]
    assert total[0] == (x * x).sum() and largest[0] == (x * x).max() and smallest[0] == x.min()
    assert (square == x * x).all()
    table = x[:1_000_000].reshape(500, 2000)
    for array in (table, table.T):
        for axis in (0, 1):
            got = run([], [array], [(0, "float64", "sum")], reduced=1 << axis)[0][0]
            assert (got == array.sum(axis, keepdims=True)).all()
check()
child = os.fork()
if child == 0:
    check()
    os._exit(0)
for _ in range(100):  # the system lists those that were joined a little longer
    if len(os.listdir("/proc/self/task")) == 1:
        break
    time.sleep(0.01)
else:
    raise AssertionError("CPython warns of forks beside other threads")
check()
assert os.waitpid(child, 0)[1] == 0
failures = []
threading.excepthook = failures.append
threads = [threading.Thread(target=check) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not failures
"""


def test_threads_and_forks() -> None:
    program = THREADS_PROGRAM.format(tests=str(Path(__file__).parent))
    environment = {**os.environ, "EVALFRAME_NUM_THREADS": "4"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
