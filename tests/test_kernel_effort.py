"""Kernels are made quickly, and with more effort, twice, once they have taken as much longer for it as that takes."""

import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import evalframe
from evalframe import _core, _llvm
from test_kernels import Array, run

UNARY = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "tanh", "sqrt", "floor", "reciprocal", "negative")
BINARY = ("add", "divide", "maximum", "remainder", "floor_divide", "power", "arctan2", "hypot")


@pytest.fixture
def as_it_pays(most_machine_code_is_made_quickly: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """How often something was compiled, in each way."""
    made = {"quickly": 0, "optimised": 0, "in full": 0}
    for name, how in (("compile_quickly", "quickly"), ("compile_optimised", "optimised"), ("compile_ir", "in full")):
        plain = getattr(_llvm, name)

        def counted(ir: str, plain=plain, how=how) -> bytes:
            made[how] += 1
            return plain(ir)

        monkeypatch.setattr(_llvm, name, counted)
    monkeypatch.setenv("EVALFRAME_CACHE", "0")
    _core.forget_machine_code()
    _core.set_efforts(None)
    yield made
    _core.set_efforts(None)


def both_ways(op: str, arity: int, dtype: str, inputs: list[Array]) -> list[Array]:
    """What a kernel makes of a row, quickly made, and of the same as a matrix, made in full: another kernel. Those of the process are shared."""
    results = []
    for in_full, shape in ((False, (-1,)), (True, (1, -1))):
        _core.set_efforts(in_full)
        shaped = [x.reshape(shape) for x in inputs]
        results.append(run([(op, dtype, list(range(arity)))], shaped, [(arity, dtype, "store")])[0][0])
    return results


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("op", UNARY + BINARY)
def test_bits_are_the_same_in_both_ways(op: str, dtype: str, as_it_pays: dict[str, int]) -> None:
    rng = np.random.default_rng(5)
    arity = 1 if op in UNARY else 2
    inputs = [(10.0 ** rng.uniform(-3, 2, 1003) * rng.choice([-1, 1], 1003)).astype(dtype) for _ in range(arity)]
    quick, full = both_ways(op, arity, dtype, inputs)
    assert quick.tobytes() == full.tobytes()


def smooth(x, y):
    return np.sqrt(x * x + 0.125 * y) - y * 0.0625


def test_a_kernel_is_made_in_full_once_that_pays(as_it_pays: dict[str, int]) -> None:
    captured = evalframe.jit(smooth)
    x, y = np.linspace(1, 2, 3001), np.linspace(3, 4, 3001)
    wanted = smooth(x, y)
    for _ in range(2):  # the first one is recorded
        assert captured(x, y).tobytes() == wanted.tobytes()
    assert as_it_pays == {"quickly": 1, "optimised": 0, "in full": 0}
    met = []
    for _ in range(150_000):
        assert captured(x, y).tobytes() == wanted.tobytes()
        met += [dict(as_it_pays)] if not met or as_it_pays != met[-1] else []
        if as_it_pays["in full"]:
            break
    assert met[1:] == [{"quickly": 1, "optimised": 1, "in full": 0}, {"quickly": 1, "optimised": 1, "in full": 1}]
    for _ in range(100):
        assert captured(x, y).tobytes() == wanted.tobytes()
    assert as_it_pays == met[-1]


def test_a_long_one_is_optimised_at_once(as_it_pays: dict[str, int]) -> None:
    captured = evalframe.jit(lambda x: x * 3.5 + x / 7.0 - 0.03125)
    for _ in range(2):
        captured(np.ones(20_000_000))
    assert as_it_pays == {"quickly": 0, "optimised": 1, "in full": 0}


def test_what_cannot_be_optimised_stays_as_it_is(as_it_pays: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def fails(ir: str) -> bytes:
        tries.append(ir)
        raise RuntimeError("no")

    monkeypatch.setattr(_llvm, "compile_optimised", fails)
    monkeypatch.setattr(_llvm, "compile_ir", fails)
    captured = evalframe.jit(lambda x: (x * 3.25 + 0.75) / (x + 5.5) - 0.53125)
    x = np.linspace(0, 1, 1_000_000)
    for _ in range(60):
        assert (captured(x) == (x * 3.25 + 0.75) / (x + 5.5) - 0.53125).all()
    assert len(tries) == 1


def swept(a, b, turns):
    for _ in range(turns):
        a[1:-1] = 0.3125 * (b[2:] + b[1:-1]) - 0.125 * b[:-2]
        b[1:-1] = 0.3125 * (a[2:] + a[1:-1]) - 0.125 * a[:-2]
    return a


def test_kernels_of_a_loop_are_optimised_once_that_pays(as_it_pays: dict[str, int], native_loops_at_once: None) -> None:
    """Within one run, too."""
    captured = evalframe.jit(swept)
    for turns in (30, 30, 4000):
        x = np.linspace(0, 1, 4000)
        assert captured(x.copy(), x, turns).tobytes() == swept(np.linspace(0, 1, 4000), np.linspace(0, 1, 4000), turns).tobytes()
    assert _core.jit_counters(captured)["native_turns"] > 3000
    assert as_it_pays["quickly"] >= 2 and as_it_pays["optimised"] >= 1


def test_a_trial_is_of_code_made_in_full(as_it_pays: dict[str, int], call_trials: None) -> None:
    """Calls on few elements, which are slower captured: their kernels would stay as they are for a million calls."""
    captured = evalframe.jit(lambda x: x + 0.40625)
    x = np.arange(3.0)
    for _ in range(1000):
        captured(x)
    assert as_it_pays["quickly"] == 1 and as_it_pays["in full"] <= 1 and not as_it_pays["optimised"]
    if _core.jit_counters(captured)["given_up"]:
        assert as_it_pays["in full"] == 1


SHARED = """
import numpy as np, evalframe
from evalframe import _core, _llvm
made = []
for name in ("compile_quickly", "compile_optimised", "compile_ir"):
    plain = getattr(_llvm, name)
    setattr(_llvm, name, lambda ir, plain=plain, name=name: made.append(name) or plain(ir))

def one(x):
    return (np.sqrt(x * x + 0.125 * x) - x * 0.0625) * (x + 1.0) - (x * 0.5 - 1.0) * (x - 2.0) + 3.0 * x

def other(x):
    return (np.sqrt(x * x + 0.125 * x) - x * 0.0625) * (x + 1.0) - (x * 0.5 - 1.0) * (x - 2.0) + 3.0 * x

x = np.linspace(1, 2, 20_000)
wanted = one(x)
with evalframe.enabled():
    while not made:
        one(x)
    for _ in range(20_000):
        assert (other(x) == wanted).all()
        if "compile_ir" in made:
            break
print(made)
"""


def test_who_waits_for_its_kernels_improves_those_of_others() -> None:
    """A function of a whole program, which compiles nothing until that is worth it, runs what another one has had compiled."""
    done = subprocess.run([sys.executable, "-c", SHARED], env=os.environ | {"EVALFRAME_CACHE": "0"}, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "['compile_quickly', 'compile_optimised', 'compile_ir']\n"


TASKS = """
import numpy as np, evalframe, threading
def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)
x = np.random.default_rng(1).random((400, 600))
wanted = softmax(x)
captured = evalframe.jit(softmax)
faults = []
def go():
    for _ in range(60):
        got = captured(x)
        if not np.allclose(got, wanted, rtol=1e-13): faults.append(1)
threads = [threading.Thread(target=go) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(faults))
"""


def test_threads_share_kernels_that_are_made_in_full_meanwhile() -> None:
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", TASKS], env=os.environ | {"EVALFRAME_CACHE": "0"}, capture_output=True, text=True, timeout=120, check=True)
        assert done.stdout == "0\n"


WITHOUT = """
import sys, types
import numpy as np, evalframe
sys.modules["llvmlite"] = {module}

def smooth(x):
    return np.sqrt(x * x + 0.125 * x) - x * 0.0625

def summed(n):
    total = 0.0
    for i in range(n):
        total += i * 0.5 if i % 3 else -1.0
    return total

captured, loop, x = evalframe.jit(smooth), evalframe.jit(summed), np.linspace(1, 2, 100)
for _ in range(5):
    assert (captured(x) == smooth(x)).all() and loop(200_000) == summed(200_000)
print(evalframe.explain(loop)(200_000).loops[0].native)
"""


@pytest.mark.parametrize("module", ["None", "types.ModuleType('llvmlite')"])
def test_without_llvm_nothing_is_native(module: str) -> None:
    program = WITHOUT.format(module=module)
    done = subprocess.run([sys.executable, "-c", program], env=os.environ | {"EVALFRAME_CACHE": "0"}, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


LOADING = """
import os, sys
import numpy as np, evalframe

@evalframe.jit
def smooth(x, y):
    return np.sqrt(x * x + 0.125 * y) - y * 0.0625

x = np.linspace(1, 2, 50)
smooth(x, x)  # recorded: LLVM is being loaded from here on
{then}
"""
ENDS = "sys.exit(0)"
FORKS = """
child = os.fork()
for _ in range(5):
    assert np.isfinite(smooth(x, x)).all()
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
IMPORTS = """
import llvmlite.binding as llvm
for _ in range(5):
    assert np.isfinite(smooth(x, x)).all()
llvm.initialize_native_target(); llvm.parse_assembly("define i32 @f() { ret i32 0 }").verify()
"""


@pytest.mark.parametrize("then", [ENDS, FORKS, IMPORTS], ids=["ends", "forks", "imports llvmlite"])
def test_a_process_does_something_else_while_llvm_is_loaded(then: str) -> None:
    for _ in range(4):
        done = subprocess.run(
            [sys.executable, "-c", LOADING.format(then=then)], env=os.environ | {"EVALFRAME_CACHE": "0"}, capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, "")
