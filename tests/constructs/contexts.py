"""Constructs: `with`, and what contextlib makes."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import numpy as np


class _Gain:
    def __init__(self, gain: float) -> None:
        self.gain, self.left = gain, False

    def __enter__(self) -> float:
        return self.gain

    def __exit__(self, *details: object) -> None:
        self.left = True


class _Swallow:
    def __enter__(self) -> _Swallow:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        self.kind = kind
        return kind is ValueError


@contextlib.contextmanager
def _managed(gain: float) -> Any:
    try:
        yield gain
    finally:
        gain = 0.0


class _Decorating(contextlib.ContextDecorator):
    def __enter__(self) -> None:
        self.entered = True

    def __exit__(self, *details: object) -> None:
        self.entered = False


@_Decorating()
def _decorated(a: Any) -> Any:
    return a * 2


def user_manager(x: Any, y: Any) -> Any:
    with _Gain(2.0) as gain:
        z = x * gain
    return z + y


def user_manager_state(x: Any, y: Any) -> Any:
    manager = _Gain(2.0)
    with manager as gain:
        z = x * gain
    return z + y * manager.left


def two_managers(x: Any, y: Any) -> Any:
    with _Gain(2.0) as a, _Gain(3.0) as b:
        z = x * a + y * b
    return z - 1


def nested_managers(x: Any, y: Any) -> Any:
    with _Gain(2.0) as a:
        z = x * a
        with _Gain(3.0) as b:
            z = z + y * b
    return z


def return_inside(x: Any, y: Any) -> Any:
    with _Gain(2.0) as gain:
        return x * gain + y


def loop_with_manager(x: Any, y: Any) -> Any:
    for n in range(3):
        with _Gain(n) as gain:
            x = x + y * gain
    return x


def swallowed_exception(x: Any, y: Any) -> Any:
    z = x + y
    with _Swallow() as manager:
        raise ValueError("a")
    return z * (2 if manager.kind is ValueError else 3)


def not_swallowed_exception(x: Any, y: Any) -> Any:
    z = x + y
    try:
        with _Swallow():
            raise KeyError("a")
    except KeyError:
        z = z * 2
    return z


def generator_manager(x: Any, y: Any) -> Any:
    with _managed(2.0) as gain:
        z = x * gain
    return z + y


def generator_manager_with_exception(x: Any, y: Any) -> Any:
    z = x + y
    try:
        with _managed(2.0):
            raise KeyError("a")
    except KeyError:
        z = z * 2
    return z


def suppress(x: Any, y: Any) -> Any:
    z = x + y
    with contextlib.suppress(KeyError):
        z = z * 2
        {}["missing"]
    return z + 1


def suppress_nothing(x: Any, y: Any) -> Any:
    with contextlib.suppress(KeyError):
        z = x * 2
    return z + y


def nullcontext(x: Any, y: Any) -> Any:
    with contextlib.nullcontext(3) as n:
        z = x * n
    return z + y


def closing(x: Any, y: Any) -> Any:
    class Resource:
        open = True

        def close(self) -> None:
            self.open = False

    with contextlib.closing(Resource()) as resource:
        z = x * (2 if resource.open else 3)
    return z + y * (2 if resource.open else 3)


def exit_stack(x: Any, y: Any) -> Any:
    with contextlib.ExitStack() as stack:
        a = stack.enter_context(_Gain(2.0))
        b = stack.enter_context(_Gain(3.0))
        z = x * a + y * b
    return z + 1


def exit_stack_callback(x: Any, y: Any) -> Any:
    seen = []
    z = x + 1
    with contextlib.ExitStack() as stack:
        stack.callback(seen.append, 1)
        stack.callback(seen.append, 2)
        z = z * y
    return z * seen[0], seen


def decorator_manager(x: Any, y: Any) -> Any:
    return _decorated(x) + y


def errstate(x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        z = x / (y * 0)
    return z


def lock(x: Any, y: Any) -> Any:
    guard = threading.Lock()
    with guard:
        z = x + y
    return z * 2


def redirected_output(x: Any, y: Any) -> Any:
    import io

    target = io.StringIO()
    z = x + 1
    with contextlib.redirect_stdout(target):
        print("inside")
    return z * len(target.getvalue()) + y


def manager_by_hand(x: Any, y: Any) -> Any:
    manager = _Gain(2.0)
    gain = manager.__enter__()
    z = x * gain
    manager.__exit__(None, None, None)
    return z + y


def local_manager_class(x: Any, y: Any) -> Any:
    class Local:
        def __enter__(self) -> Any:
            return x

        def __exit__(self, *details: object) -> None:
            pass

    with Local() as a:
        z = a * 2
    return z + y
