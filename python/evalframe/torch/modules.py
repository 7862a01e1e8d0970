"""What the core takes for known of ``torch.nn.Module``, without following its methods."""

from __future__ import annotations

from types import CodeType
from typing import Any

import torch

from evalframe import _core


class _Module:
    """Where torch.nn.Module looks for what a module keeps, line by line: the core looks in the same places
    (src/recorder/rules/torch_modules.cpp)."""

    def __getattr__(self, name: str) -> Any:
        if "_parameters" in self.__dict__:
            _parameters = self.__dict__["_parameters"]
            if name in _parameters:
                return _parameters[name]
        if "_buffers" in self.__dict__:
            _buffers = self.__dict__["_buffers"]
            if name in _buffers:
                return _buffers[name]
        if "_modules" in self.__dict__:
            modules = self.__dict__["_modules"]
            if name in modules:
                return modules[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


def _what_it_does(code: CodeType) -> tuple[Any, ...]:
    return code.co_code, code.co_names, code.co_varnames, code.co_consts


def watch_modules() -> None:
    """Another version of torch may look for attributes in another way: then that is followed, as all Python code is."""
    theirs: Any = torch.nn.Module.__getattr__
    if _what_it_does(theirs.__code__) == _what_it_does(_Module.__getattr__.__code__):
        _core.watch_torch_modules(theirs)
