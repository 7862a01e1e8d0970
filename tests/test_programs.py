"""Programs as people write them (`tests/whole_programs`) say the same captured as plain: results, effects, output, warnings, exceptions."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import traceback
import types
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evalframe

FOLDER = Path(__file__).parent / "whole_programs"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py"))
ROUNDS = 3


def load(name: str) -> dict[str, Any]:
    path = FOLDER / f"{name}.py"
    module = types.ModuleType(f"program_{name}")
    sys.modules[module.__name__] = module  # dataclasses look for it
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    return module.__dict__


def capture_functions(scope: dict[str, Any], backend: str) -> None:
    """Has each function and method that the program defines captured."""

    def is_own(value: Any) -> bool:
        return isinstance(value, types.FunctionType) and value.__code__.co_filename.startswith(str(FOLDER))

    for name, value in list(scope.items()):
        if is_own(value) and name != "main":
            scope[name] = evalframe.jit(value, backend=backend)
        elif isinstance(value, type) and value.__module__ == scope["__name__"]:
            for key, member in list(vars(value).items()):
                if is_own(member):
                    setattr(value, key, evalframe.jit(member, backend=backend))
                elif isinstance(member, property) and is_own(member.fget):
                    setattr(value, key, property(evalframe.jit(member.fget, backend=backend), member.fset))
                elif isinstance(member, (staticmethod, classmethod)) and is_own(member.__func__):
                    setattr(value, key, evalframe.jit(member, backend=backend))


def observe(scope: dict[str, Any]) -> Any:
    """What can be told of one call of the program: value, output, warnings, exception with its places."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value, error = scope["main"](), None
        except Exception as raised:
            places = [(f.name, f.lineno) for f in traceback.extract_tb(raised.__traceback__) if f.name != "observe"]
            value, error = None, (type(raised), str(raised), places)
    told = Counter((w.category, str(w.message), Path(w.filename).name, w.lineno) for w in caught)
    return error, told, printed.getvalue(), describe(value)


def describe(value: Any) -> Any:
    """Plain data with all that matters of a value. Arrays stay arrays, their elements are compared with a tolerance."""
    if isinstance(value, np.ndarray):
        described = (type(value).__name__, value.dtype.str, value.shape, value.strides, value.flags.writeable, value.base is None)
        return described, np.array(value, copy=True)
    if isinstance(value, (tuple, list)):
        return type(value).__name__, [describe(x) for x in value]
    if isinstance(value, dict):
        return "dict", [(repr(key), describe(x)) for key, x in value.items()]
    return type(value).__name__, np.asarray(value) if isinstance(value, (float, complex, np.inexact)) else repr(value)


def difference(left: Any, right: Any, tolerance: float, place: str = "") -> str | None:
    """The first place where two descriptions differ."""
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        if left.dtype == right.dtype and left.shape == right.shape:
            if left.tobytes() == right.tobytes():
                return None
            if left.dtype.kind in "fc" and tolerance:
                own = max(tolerance, 1e-3) if left.dtype.itemsize <= 4 + 4 * (left.dtype.kind == "c") else tolerance
                if np.allclose(left, right, rtol=own, atol=own, equal_nan=True):
                    return None
            if left.dtype.kind == "O" and repr(left) == repr(right):
                return None
        return f"{place}: {left!r} instead of {right!r}"
    if isinstance(left, (tuple, list)) and isinstance(right, (tuple, list)) and len(left) == len(right):
        found = (difference(x, y, tolerance, f"{place}[{i}]") for i, (x, y) in enumerate(zip(left, right, strict=True)))
        return next((text for text in found if text), None)
    return None if type(left) is type(right) and left == right else f"{place}: {left!r} instead of {right!r}"


def check(name: str, backend: str, *, whole: bool) -> None:
    plain, captured = load(name), load(name)
    if not whole:
        capture_functions(captured, backend)
    # Elementary functions may differ by two units in the last place, which programs let grow.
    tolerance = plain.get("TOLERANCE", 0.0) if backend == "native" else 0.0
    for call in range(ROUNDS):
        wanted = observe(plain)
        assert wanted[0] is None, f"the program itself raises: {wanted[0]}"
        with evalframe.enabled(backend=backend) if whole else contextlib.nullcontext():
            got = observe(captured)
        found = difference(got, wanted, tolerance)
        assert not found, f"call {call}: {found}"


@pytest.mark.parametrize("backend", ["reference", "native"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_functions(name: str, backend: str) -> None:
    check(name, backend, whole=False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_as_a_whole(name: str) -> None:
    check(name, "native", whole=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_scripts(name: str, tmp_path: Path) -> None:
    """Module bodies, loops included: what a script prints and warns, run as `evalframe run` does."""
    script = tmp_path / f"{name}.py"
    tail = "\nfor turn in range(3):\n    text = repr(main())\nprint(len(text))\n"
    script.write_text((FOLDER / f"{name}.py").read_text() + tail)
    plain = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300)
    command = [sys.executable, "-m", "evalframe", "run", str(script)]
    captured = subprocess.run(command, capture_output=True, text=True, timeout=300)
    own = "\n".join(line for line in captured.stderr.splitlines() if not line.startswith("evalframe: "))
    assert (captured.returncode, own.strip()) == (plain.returncode, plain.stderr.strip())
    if not load(name).get("TOLERANCE"):
        assert captured.stdout == plain.stdout
