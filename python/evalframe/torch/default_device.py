"""What ``torch.set_default_device`` and ``with torch.device(...)`` mean for graphs.

A mode of torch's names the device to functions that make tensors. Graphs name it themselves: a backend needs no mode.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from torch.overrides import _pop_mode, _push_mode
from torch.utils import _device

from evalframe import _core


@functools.cache
def _makers() -> set[Any]:
    makers: set[Any] = _device._device_constructors()
    return makers


def named(function: Callable[..., Any], keywords: dict[str, Any], device: Any) -> dict[str, Any]:
    """The keywords of a call of the program's, as the mode gives them to torch."""
    if device is None or function not in _makers() or keywords.get("device") is not None:
        return keywords
    return {**keywords, "device": device}


@contextlib.contextmanager
def set_aside() -> Iterator[None]:
    """A backend makes tensors of its own meanwhile."""
    if _core.torch_default_device() is None:
        yield
        return
    mode = _pop_mode()
    try:
        yield
    finally:
        _push_mode(mode)
