"""What the handler of a signal raises while a kernel is compiled is the program's, not a failure to compile."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _llvm


class Stopped(Exception):
    pass


def test_a_handlers_exception_isnt_lost(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compile_ir = _llvm.compile_ir

    def slow_compile(*arguments: Any) -> Any:
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.05)
        return compile_ir(*arguments)

    def handler(number: int, frame: object) -> None:
        raise Stopped

    def function(x: Any, n: int) -> Any:
        for i in range(n):
            x = np.sqrt(x * x + 1) * 0.5 - x * 0.1 + i
        return x

    old = signal.signal(signal.SIGUSR1, handler)
    try:
        monkeypatch.setenv("EVALFRAME_CACHE_DIR", str(tmp_path))
        monkeypatch.setattr(_llvm, "compile_ir", slow_compile)
        with pytest.raises(Stopped):
            evalframe.jit(function)(np.ones(50_000), 400)
    finally:
        signal.signal(signal.SIGUSR1, old)


def test_no_python_code_runs_to_read_the_error_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """There a handler could raise, and its exception would be lost."""

    def geterr() -> None:
        raise Stopped

    def function(x: Any) -> Any:
        return np.sqrt(x) * 2.0 + 1.0

    x = np.linspace(-1.0, 1.0, 100)
    compiled = evalframe.jit(function)
    with np.errstate(all="ignore"):
        expected = function(x)
        for _ in range(3):
            np.testing.assert_array_equal(compiled(x), expected)
        with monkeypatch.context() as patch:
            patch.setattr(np, "geterr", geterr)
            np.testing.assert_array_equal(compiled(x), expected)
