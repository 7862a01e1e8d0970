"""Native loops are compiled quickly at first, and once more, in full, when they have run for long enough."""

import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import evalframe
from evalframe import _core, _llvm


def summed(x: np.ndarray, turns: int) -> float:
    total = 0.0
    for k in range(turns):
        total = total * 0.5 + x[k % 7] * k
    return total


def swept(a: np.ndarray, turns: int) -> np.ndarray:
    for k in range(turns):
        a[1:] = a[1:] * 0.25 + a[:-1] * 0.5
    return a


X = np.linspace(0.25, 3.0, 7)


@pytest.fixture(autouse=True)
def nothing_compiled(monkeypatch: pytest.MonkeyPatch, optimised_code: None) -> None:
    monkeypatch.setenv("EVALFRAME_CACHE", "0")
    _core.forget_machine_code()


@pytest.fixture
def soon() -> Iterator[None]:
    """Loops become native when they have taken a millisecond."""
    _core.set_region_seconds(0.001)
    yield
    _core.set_region_seconds(0.02)


def counted(captured: Callable[..., object]) -> tuple[int, int]:
    counters = _core.jit_counters(captured)
    return counters["native_loops"], counters["optimised_loops"]


def test_the_code_of_the_first_run_is_made_quickly(native_loops_at_once: None) -> None:
    captured = evalframe.jit(summed)
    assert captured(X, 300) == summed(X, 300)
    assert counted(captured) == (1, 0)
    loop = evalframe.Loop(**_core.jit_loops(captured)[0])
    assert loop.native and not loop.optimised and "IR, made in" in str(loop)
    for turns in range(301, 306):
        assert captured(X, turns) == summed(X, turns)
    loop = evalframe.Loop(**_core.jit_loops(captured)[0])
    assert loop.optimised and "IR, made and optimised in" in str(loop)
    made = counted(captured)
    assert captured(X, 306) == summed(X, 306)
    assert counted(captured) == made


def test_code_that_is_there_in_full_is_used_at_once(native_loops_at_once: None) -> None:
    for is_there in (False, True):
        captured = evalframe.jit(summed)
        for turns in range(301, 304):
            assert captured(X, turns) == summed(X, turns)
        assert (counted(captured)[1] == 0) == is_there
        assert all(loop["optimised"] for loop in _core.jit_loops(captured))


def test_a_long_run_is_optimised_in_its_midst(soon: None) -> None:
    captured = evalframe.jit(summed)
    assert captured(X, 4_000_000) == summed(X, 4_000_000)
    assert counted(captured) == (1, 1)


def test_what_kernels_take_is_no_reason_to_optimise(soon: None) -> None:
    """The same loop with rows so long that it takes all its time in them."""
    captured = evalframe.jit(swept)
    for _ in range(4):
        a, b = np.ones(60_000), np.ones(60_000)
        assert (captured(a, 400) == swept(b, 400)).all()
    native, optimised = counted(captured)
    assert native and not optimised


def test_a_loop_that_cant_be_optimised_runs_as_it_is(
    native_loops_at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(ir: str) -> bytes:
        raise RuntimeError("no")

    monkeypatch.setattr(_llvm, "compile_ir", fails)
    captured = evalframe.jit(summed)
    for turns in (300, 301, 302):
        assert captured(X, turns) == summed(X, turns)
    assert not any(loop["optimised"] for loop in _core.jit_loops(captured))
    assert _core.jit_counters(captured)["native_turns"] > 700


def generations(steps: int, board: np.ndarray) -> int:
    for _ in range(steps):
        neighbours = sum(np.roll(np.roll(board, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i != 0 or j != 0))
        board[:] = (neighbours == 3) | ((board == 1) & (neighbours == 2))
    return int(board.sum())


def test_a_loop_stays_native_when_its_calls_are_tried(soon: None) -> None:
    """In front of it is a graph, and its calls can't be native from end to end: each try of that left it to graphs."""
    captured, board, steps = evalframe.jit(generations), np.random.default_rng(3).integers(0, 2, (40, 100)), 40
    wanted, tried = generations(steps, board.copy()), 0
    while not _core.jit_counters(captured)["optimised_loops"]:
        assert captured(steps, board.copy()) == wanted
        tried += 1
        assert tried < 20_000
    for _ in range(150):
        assert captured(steps, board.copy()) == wanted
    before = _core.jit_counters(captured)["native_turns"]
    for _ in range(20):
        captured(steps, board.copy())
    assert _core.jit_counters(captured)["native_turns"] - before >= 15 * (steps - 1)  # a few are timed in plain Python


def test_recordings_that_do_the_same_are_written_once() -> None:
    def set_bits(numbers: np.ndarray) -> np.ndarray:
        counts = np.zeros(numbers.size, dtype=np.uint8)
        for i in range(numbers.size):
            rest = int(numbers[i])
            while rest:
                rest &= rest - 1
                counts[i] += 1
        return counts

    def product(A: np.ndarray, B: np.ndarray, C: np.ndarray) -> None:
        for i in range(C.shape[0]):
            for j in range(C.shape[1]):
                for k in range(A.shape[1]):
                    C[i, j] += 0.5 * A[i, k] * B[k, j]

    random = np.random.default_rng(3)
    block_of = re.compile(r"^(block\d+)\.(\d+):\n((?:(?!block\d+[.:]\d*:?$|save|exit).*\n)+)", re.MULTILINE)
    some: tuple[tuple[Callable[..., object], list[np.ndarray]], ...] = ((set_bits, [random.integers(0, 1 << 40, 700)]), (product, [random.random((20, 20)) for _ in range(3)]))
    for function, arguments in some:
        captured = evalframe.jit(function)
        for _ in range(40):
            captured(*arguments)
        native = [loop.ir for loop in evalframe.explain(captured)(*arguments).loops if loop.ir]
        assert native
        for ir in native:
            bodies: dict[str, list[str]] = {}
            for block, number, body in block_of.findall(ir):
                body = re.sub(rf"{block}\.{int(number) + 1}\b", "next", body)
                bodies.setdefault(block, []).append(re.sub(rf"{block}\.{number}\b", "this", body))
            assert all(len(set(one)) == len(one) for one in bodies.values())
