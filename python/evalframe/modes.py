"""What evalframe does with the frames of the whole process."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from evalframe import _core


def enable(*, mode: str = "evaluate") -> None:
    """Run every Python frame of the process in evalframe's own evaluator, until disable(). Nothing is captured."""
    if mode != "evaluate":
        raise ValueError(f"no mode {mode!r}; there is 'evaluate'. Use evalframe.enabled() to capture frames")
    _core.evaluate_all_frames(True)


def disable() -> None:
    """Give the frames of the process back to CPython's evaluator."""
    _core.evaluate_all_frames(False)


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
    if mode not in (None, "", "evaluate"):
        raise ValueError(f"the environment variable EVALFRAME_MODE is {mode!r}; set it to 'evaluate', or to nothing")
    if mode:
        enable(mode=mode)
