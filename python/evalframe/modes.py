"""What evalframe does with the frames of the whole process."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from evalframe import _core
from evalframe.user_backends import resolve

_MODES = ("capture", "evaluate")
_captures: list[int] = []  # the hook of mode="capture", while it is there


def enable(
    *,
    mode: str = "evaluate",
    backend: Any = "native",
    exact: bool = False,
    fastmath: bool = False,
    background: bool = False,
) -> None:
    """Take over every Python frame of the process, in all of its threads, until :func:`disable`.

    ``mode="evaluate"`` runs them in evalframe's own evaluator and captures nothing. ``mode="capture"`` captures
    functions as :func:`evalframe.enabled` does for a block and a thread, with the same ``backend``, ``exact``,
    ``fastmath`` and ``background``.
    Called again with another backend, it takes the first one's place. Raises ValueError for an unknown mode or backend.
    """
    if mode not in _MODES:
        raise ValueError(f"no mode {mode!r}; there are {' and '.join(map(repr, _MODES))}")
    if mode == "evaluate":
        _core.evaluate_all_frames(True)
        return
    chosen = resolve(backend)
    _stop_capturing()
    _captures.append(_core.enable(*chosen, exact, fastmath, background, all_threads=True))


def disable() -> None:
    """Give the frames of the process back to CPython's evaluator."""
    _stop_capturing()
    _core.evaluate_all_frames(False)


def _stop_capturing() -> None:
    while _captures:
        _core.disable(_captures.pop())


@contextmanager
def evaluating() -> Iterator[None]:
    """The same for a block."""
    enable()
    try:
        yield
    finally:
        disable()


def evaluation_counts() -> dict[str, Any]:
    """How many frames evalframe's evaluator ran in this process, and how many it left to CPython, by reason."""
    return dict(_core.evaluation_counts())


def enable_as_asked() -> None:
    """Does what the environment variable EVALFRAME_MODE asks for."""
    mode = os.environ.get("EVALFRAME_MODE")
    if mode not in (None, "", *_MODES):
        wanted = " or ".join(map(repr, _MODES))
        raise ValueError(f"the environment variable EVALFRAME_MODE is {mode!r}; set it to {wanted}, or to nothing")
    if mode:
        enable(mode=mode)
