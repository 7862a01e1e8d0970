"""Locks, warnings and frames in a graph: what other threads, filters of warnings and sys._getframe can tell is as in plain Python."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import evalframe
from evalframe import _core
from helpers import check_may_be_left, outcome, same
from threads_at_once import run_in_threads

X = np.linspace(-1.0, 2.0, 5)
BACKENDS = ["reference", "native"]
LOCK = threading.Lock()
AGAIN = threading.RLock()
TOTAL = 0


class Account:
    def __init__(self) -> None:
        self.lock, self.total, self.log = threading.Lock(), 0, []


ACCOUNT = Account()


def pure(x: Any, n: Any) -> Any:
    with LOCK:
        y = x + n
    AGAIN.acquire()
    with AGAIN:
        y = y * 2
    AGAIN.release()
    return y, LOCK.locked()


def local(x: Any, n: Any) -> Any:
    lock = threading.Lock()
    with lock:
        y = x * n
    taken = lock.acquire(False)
    return y, taken, lock.locked(), lock.acquire(False)


def counts(x: Any, n: Any) -> Any:
    global TOTAL
    y = x + 1
    with LOCK:
        TOTAL += n
        seen = TOTAL
    return y * 2, seen - seen % 1 >= n


def deposits(x: Any, n: Any) -> Any:
    y = x * 2
    with ACCOUNT.lock:
        ACCOUNT.total += n
        ACCOUNT.log.append(n)
        total = ACCOUNT.total
    return y + total


def fails(x: Any, n: Any) -> Any:
    with LOCK:
        y = x + n
        y = y + x[:2]
    return y


STATE = False


def is_on() -> Any:
    return STATE and True


def under_the_lock() -> Any:
    with LOCK:
        return 1 if is_on() else getattr(np, "nothing", 2)


def breaks(x: Any, n: Any) -> Any:
    y = x * under_the_lock()
    return y + n


def holds_its_frame() -> Any:
    frames, total = [sys._getframe()], 0
    for _ in range(300):
        total += len(frames[0].f_code.co_name)
    return total


def holds_frames(x: Any, n: Any) -> Any:
    total = holds_its_frame()
    y = x * 2
    return y + n * total


def told(function: Callable[..., Any], *arguments: Any) -> Any:
    global TOTAL
    TOTAL, ACCOUNT.total, ACCOUNT.log = 0, 0, []
    result = outcome(function, *arguments)
    return result, TOTAL, ACCOUNT.total, list(ACCOUNT.log), LOCK.locked(), ACCOUNT.lock.locked(), AGAIN._is_owned()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [pure, local, counts, deposits, fails, breaks, holds_frames])
def test_locks_are_taken_as_in_plain_python(function: Callable[..., Any], backend: str) -> None:
    captured = evalframe.jit(function, backend=backend)
    for n in (1, 1, 5, 5):
        assert same(told(captured, X, n), told(function, X, n)), n
    check_may_be_left(function, backend, [(X, 1), (X, 5)], 10, told=told)


def test_arrays_under_a_lock_are_one_graph() -> None:
    captured = evalframe.jit(pure, backend="reference", fullgraph=True)
    assert same(told(captured, X, 1), told(pure, X, 1)) and _core.jit_counters(captured)["recordings"] == 1


def test_a_break_under_a_lock_is_recorded_once() -> None:
    captured = evalframe.jit(breaks, backend="reference")
    recordings = []
    for _ in range(4):
        assert same(told(captured, X, 1), told(breaks, X, 1))
        recordings.append(_core.jit_counters(captured)["recordings"])
    assert recordings[0] == recordings[-1]


def test_a_frame_that_is_held_is_no_reason_to_give_up() -> None:
    captured = evalframe.jit(holds_frames, backend="reference")
    for _ in range(4):
        assert same(told(captured, X, 1), told(holds_frames, X, 1))
    assert _core.jit_counters(captured)["given_up"] == 0
    assert "binary *" in str(evalframe.explain(captured)(X, 1))


@pytest.mark.parametrize("function", [counts, deposits])
def test_no_update_is_lost_between_threads(function: Callable[..., Any]) -> None:
    global TOTAL
    captured = evalframe.jit(function, backend="native")
    x = np.ones(20_000)
    captured(x, 1), captured(x, 1)
    TOTAL, ACCOUNT.total, ACCOUNT.log = 0, 0, []

    def work() -> None:
        for _ in range(150):
            captured(x, 1)

    assert run_in_threads(*[work] * 4, switch_interval=1e-5) == []
    assert max(TOTAL, ACCOUNT.total) == 600


WAITING = threading.Event()
FLAG = False


def waits(x: Any, n: Any) -> Any:
    global FLAG
    FLAG = True
    with LOCK:
        y = x + n
    return y


def test_others_see_what_was_stored_before_a_lock_is_waited_for() -> None:
    global FLAG
    captured = evalframe.jit(waits, backend="reference")
    captured(X, 1)
    for _ in range(2):
        FLAG, seen = False, []
        LOCK.acquire()

        def release_when_asked(seen: list[bool] = seen) -> None:
            deadline = time.monotonic() + 5
            while not FLAG and time.monotonic() < deadline:
                time.sleep(0.001)
            seen.append(FLAG)
            LOCK.release()

        thread = threading.Thread(target=release_when_asked)
        thread.start()
        assert same(captured(X, 1), X + 1)
        thread.join()
        assert seen == [True]


# --- warnings --------------------------------------------------------------------------------------------------------


def _helper(x: Any, level: int) -> Any:
    warnings.warn("from the helper", UserWarning, stacklevel=level)
    return x + 1


def warns(x: Any, n: Any) -> Any:
    global TOTAL
    TOTAL = n
    y = _helper(x, 1)
    y = _helper(y, 2)
    TOTAL = 0
    y = _helper(y, 3)
    warnings.warn("old", category=DeprecationWarning)
    return y * 2


def in_turn(function: Callable[..., Any], x: Any, n: Any) -> Any:
    """Where each warning is said to be, and which are shown again."""
    for namespace in (globals(), vars(sys.modules["helpers"])):
        namespace.get("__warningregistry__", {}).clear()
    here = []
    for action in ("always", "default", "once", "ignore", "error"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter(action)
            try:
                result: Any = function(x, n)
                result = function(x, n)
            except Warning as error:
                result = (str(error), error.__traceback__.tb_next.tb_lineno)
            here.append((result, [(str(w.message), w.category, w.filename, w.lineno) for w in caught if "from the helper" not in str(w.message) or "test_jit" in w.filename]))
    return here


@pytest.mark.parametrize("backend", BACKENDS)
def test_warnings_have_their_places(backend: str) -> None:
    captured = evalframe.jit(warns, backend=backend)
    for n in (1, 1, 5):
        assert same(in_turn(captured, X, n), in_turn(warns, X, n))
    check_may_be_left(warns, backend, [(X, 1)], 8)


def test_who_shows_warnings_sees_what_was_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    captured = evalframe.jit(warns, backend="reference")
    captured_told, plain_told = [], []
    outcome(captured, X, 7)
    for function, seen in ((captured, captured_told), (warns, plain_told)):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            monkeypatch.setattr(warnings, "showwarning", lambda message, category, *rest, seen=seen: seen.append((str(message), TOTAL, sys._getframe(1).f_code.co_name)))
            function(X, 7)
    assert captured_told == plain_told and captured_told[0][1] == 7


def test_warnings_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    captured = evalframe.jit(warns, backend="reference")
    texts = []
    for function in (captured, captured, warns):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = warnings._showwarning_orig  # type: ignore[attr-defined]
            warnings._showwarnmsg_impl = ORIGINAL  # type: ignore[attr-defined]
            function(X, 1)
        texts.append([line for line in capsys.readouterr().err.splitlines() if "stacklevel=level" in line or "old" in line])
    assert texts[0] == texts[1] == texts[2] and texts[0]


def _original() -> Any:
    import types

    fresh = types.ModuleType("warnings")
    with open(warnings.__file__) as file:
        exec(compile(file.read(), warnings.__file__, "exec"), fresh.__dict__)
    return fresh._showwarnmsg_impl  # type: ignore[attr-defined]


ORIGINAL = _original()


# --- frames ----------------------------------------------------------------------------------------------------------


def _caller(up: int) -> tuple[str, int, str]:
    frame: Any = sys._getframe(up)
    return frame.f_code.co_name, frame.f_lineno, frame.f_globals["__name__"]


def looks_up(x: Any, n: Any) -> Any:
    y = x + n
    where = [_caller(0), _caller(1)]
    frame: Any = sys._getframe()
    here = (frame.f_code.co_qualname, frame.f_lineno, frame.f_code.co_argcount)
    return y * 2, where, here, sys.exc_info()


def looks_beyond(x: Any, n: Any) -> Any:
    y = x + n
    return y * 2, _caller(2)[0] in ("outcome", "told")


def in_handler(x: Any, n: Any) -> Any:
    try:
        raise ValueError(n)
    except ValueError as error:
        kind, value, trace = sys.exc_info()
        y = x * (2 if value is error and kind is ValueError else 3)
        line = trace.tb_lineno if trace else 0
    return y, line, sys.exc_info()[0]


def keeps_frame(x: Any, n: Any) -> Any:
    y = x * n
    frame = sys._getframe()
    z = y + x[: len(x) - (n - 1)]
    return z, frame.f_locals["n"] + 1, frame.f_lineno


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [looks_up, looks_beyond, in_handler, keeps_frame])
def test_frames_are_told_of_as_in_plain_python(function: Callable[..., Any], backend: str) -> None:
    captured = evalframe.jit(function, backend=backend)
    for n in (1, 1, 2, 1):
        assert same(told(captured, X, n), told(function, X, n)), n
    check_may_be_left(function, backend, [(X, 1), (X, 2)], 10, told=told)


def test_a_frame_that_is_returned_lives_on() -> None:
    def gives(x: Any) -> Any:
        z = x + 1
        return z, sys._getframe()

    captured = evalframe.jit(gives)
    for _ in range(3):
        z, frame = captured(X)
        assert frame.f_code is gives.__code__ and same(frame.f_locals["z"], z) and frame.f_back is None or frame.f_back is sys._getframe()


def test_an_exception_outside_is_seen() -> None:
    def asks(x: Any) -> Any:
        return x + 1, sys.exc_info()[0]

    captured = evalframe.jit(asks)
    for _ in range(2):
        assert captured(X)[1] is None
        try:
            raise KeyError
        except KeyError:
            assert captured(X)[1] is KeyError
        assert captured(X)[1] is None
