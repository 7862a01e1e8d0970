"""EVALFRAME_VERIFY: hits that are run both ways, what can't be, and what is told of a difference."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import outcome, same

X = np.arange(6.0) - 2


@pytest.fixture(autouse=True)
def each_hit_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("EVALFRAME_VERIFY_FOLDER", str(tmp_path))
    assert _core.set_verify("all")
    yield
    _core.set_verify("0")


def counted(captured: Any) -> tuple[int, int]:
    counters = _core.jit_counters(captured)
    return counters["verified"], counters["differences"]


def check(function: Callable[..., Any], *arguments: Any, verified: int = 3) -> None:
    """Three hits, each of which is verified and as plain Python."""
    for backend in ("reference", "native"):
        captured = evalframe.jit(function, backend=backend)
        for _ in range(4):
            given = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
            plain = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
            assert same(outcome(captured, *given), outcome(function, *plain))
            assert same(given, plain)
        assert counted(captured) == (verified, 0)


def test_hits_are_verified() -> None:
    check(lambda x, n: (x * n, {"sum": x.sum()}, [x + 1, "text"]), X, 3)
    check(lambda x: np.exp(np.sin(x)) / 3, np.linspace(-3, 3, 1000))
    check(lambda x: 1 / (x - x), X)


def add_in_place(x: Any, y: Any) -> Any:
    x += 1
    y[1:] = x[:-1] * 2
    np.multiply(x, y, out=x)
    return x, y[::-1]


def test_what_was_written_is_put_back_between_the_two() -> None:
    check(add_in_place, X, X + 1)


def test_what_raises_is_verified() -> None:
    def raises(x: Any) -> Any:
        y = x * 2
        return y + np.ones(3)

    captured = evalframe.jit(raises, backend="reference")
    captured(np.ones(3)), captured(np.ones(3))
    for _ in range(2):
        assert same(outcome(captured, X), outcome(raises, X))


PRINTED: list[Any] = []


@pytest.mark.parametrize("name", ["appends", "draws", "prints", "breaks"])
def test_what_acts_is_not_run_twice(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    stream = np.random.default_rng(3)

    def appends(x: Any) -> Any:
        PRINTED.append(1)
        return x + 1

    def draws(x: Any) -> Any:
        return x + stream.normal(size=6)

    def prints(x: Any) -> Any:
        print("once")
        return x + 1

    def breaks(x: Any) -> Any:
        y = x + 1
        if y.sum() > 0:
            return y * 2
        return y

    function = locals()[name]
    captured = evalframe.jit(function, backend="reference")
    PRINTED.clear()
    for _ in range(4):
        captured(X)
    assert counted(captured) == (0, 0)
    assert len(PRINTED) == (4 if name == "appends" else 0)
    assert capsys.readouterr().out == ("once\n" * 4 if name == "prints" else "")
    if name == "draws":
        other = np.random.default_rng(3)
        for _ in range(4):
            other.normal(size=6)
        assert stream.bit_generator.state == other.bit_generator.state


def wrong_backend(graph: Any, example_inputs: Any) -> Callable[..., Any]:
    run = graph.__call__ if hasattr(graph, "__call__") else graph

    def wrong(*inputs: Any) -> Any:
        return tuple(np.asarray(result) + 1 for result in run(*inputs))

    return wrong


def doubled(x: Any) -> Any:
    return x * 2.0


def test_a_difference_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    captured = evalframe.jit(doubled, backend=wrong_backend)
    for _ in range(4):
        assert same(captured(X), X * 2)  # what plain Python gives
    assert counted(captured) == (1, 1)
    told = capsys.readouterr().err
    assert "test_verify.doubled differs from plain Python: the result at [0]:" in told and "and 5 more of 6" in told
    (folder,) = tmp_path.glob("evalframe-difference-*")
    report = (folder / "report.txt").read_text()
    for text in ("doubled (", "NumPy " + np.__version__, "x = array([-2.", "binary *", "guards:", "plain: ("):
        assert text in report
    assert same(pickle.loads((folder / "arguments.pickle").read_bytes()), {"x": X})
    assert evalframe.stats()["differences"] >= 1


def test_what_can_not_be_written_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("EVALFRAME_VERIFY_FOLDER", "/no/such/folder")
    captured = evalframe.jit(doubled, backend=wrong_backend)
    captured(X), captured(X)
    told = capsys.readouterr().err
    assert "can't be written" in told and "differs from plain Python" in told


def test_the_call_can_be_made_again(tmp_path: Path) -> None:
    """With the program that was written, on a module that it can import."""
    (tmp_path / "mine.py").write_text("def scaled(x, *, by):\n    return x * by\n")
    program = """
import sys, numpy as np, evalframe
sys.path.insert(0, %r)
import mine
from evalframe import verify
verify.agree(mine.scaled, {"x": np.ones(2), "by": 3.0}, (np.ones(2), None), (np.ones(2) * 3, None), [], [], ("reference", "", "", "", ""))
""" % str(tmp_path)
    environment = {**os.environ, "EVALFRAME_VERIFY_FOLDER": str(tmp_path), "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True)
    (folder,) = tmp_path.glob("evalframe-difference-*")
    done = subprocess.run([sys.executable, str(folder / "reproduce.py")], env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [f"{how}, call {call}: [3. 3.]" for call in range(3) for how in ("plain", "captured")]


def test_now_and_then() -> None:
    _core.set_verify("1")
    captured = evalframe.jit(lambda x: x + 1, backend="reference")
    for _ in range(66):
        captured(X)
    assert counted(captured) == (7, 0)  # of 65 hits: 1, 2, 4, ... 64


def test_what_the_environment_may_say() -> None:
    environment = {**os.environ, "EVALFRAME_VERIFY": "yes", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", "import evalframe"], env=environment, capture_output=True, text=True)
    assert "EVALFRAME_VERIFY must be 1 (now and then), all (each hit), or 0" in done.stderr
    environment["EVALFRAME_VERIFY"] = "all"
    program = "import evalframe, numpy as np\nf = evalframe.jit(lambda x: x + 1)\nfor _ in range(5): f(np.ones(3))\nprint(evalframe.stats()['verified'])"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "4\n"


@pytest.mark.parametrize(
    ("served", "plain", "bits", "found"),
    [
        (1, 1.0, True, "int instead of float"),
        (np.float64(1), np.float64(1 + 1e-15), False, ""),
        (np.float64(1), np.float64(1 + 1e-15), True, "instead of"),
        (np.array([np.nan, 1]), np.array([np.nan, 1]), True, ""),
        (np.array([1, 2]), np.array([1, 3]), False, "[1]: np.int64(2) instead of np.int64(3)"),
        (np.ones(3, "f4"), np.ones(3), True, "dtype float32 instead of float64"),
        (np.ones(3), np.ones((1, 3)), True, "shape (3,) instead of (1, 3)"),
        ([np.ones(2), 1], [np.ones(2), 2], True, "the result[1]: 1 instead of 2"),
        ((1,), (1, 2), True, "1 elements instead of 2"),
        ({"a": 1}, {"b": 1}, True, "keys"),
        ({"a": np.ones(1)}, {"a": np.zeros(1)}, True, "the result['a'] at [0]"),
        (1e-20, 0.0, False, "instead of"),
        (float("nan"), float("nan"), True, ""),
        ("a", "b", True, "'a' instead of 'b'"),
    ],
)
def test_differences(served: Any, plain: Any, bits: bool, found: str) -> None:
    from evalframe import verify

    text = "; ".join(verify._differences("the result", served, plain, bits))
    assert (found in text) if found else text == ""


def test_calls_that_keep_only_what_they_read_are_verified() -> None:
    """Behind many calls, and called in its own midst, which takes memory that no call has filled."""

    class Part:
        def __init__(self, by: float) -> None:
            self.by, self.row = by, np.full(len(X), by)

    names = [f"part_{number}" for number in range(30)]
    scope: dict[str, Any] = {}
    exec("def f(stage, x):\n" + "".join(f"    x = x * stage.{name}.by + stage.{name}.row\n" for name in names) + "    return x\n", scope)
    stage = type("Stage", (), {})()
    for number, name in enumerate(names):
        setattr(stage, name, Part(number / 32))
    deeper = [0]

    def calling(graph: evalframe.Graph, examples: list[Any]) -> Any:
        def run_graph(*inputs: Any) -> Any:
            deeper[0] -= 1
            if deeper[0] > 0:
                captured(stage, X)
            return graph(*inputs)

        return run_graph

    captured = evalframe.jit(scope["f"], backend=calling)
    for _ in range(60):
        deeper[0] = 4
        assert same(outcome(captured, stage, X), outcome(scope["f"], stage, X))
    verified, differences = counted(captured)
    assert verified > 60 and differences == 0
