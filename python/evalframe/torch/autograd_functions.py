"""``torch.autograd.Function`` in graphs: ``forward`` is recorded, and what goes backward is the class's own."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from torch import Tensor
from torch.autograd import Function


class _Told(threading.local):
    def __init__(self) -> None:
        self.result: Any = None
        self.attributes: dict[str, Any] = {}


_told = _Told()


def _forward(ctx: Any, *_: Any) -> Any:
    for name, value in _told.attributes.items():
        setattr(ctx, name, value)
    return _told.result


class Finish:
    """Called with what a forward has given, the attributes that its context has got, and its arguments: makes the
    results those of the class's ``apply``, and gives those that are tensors. They come in a tuple, for torch takes
    tensors that are arguments themselves for inputs."""

    def __init__(self, cls: type[Function]) -> None:
        own = {"forward": staticmethod(_forward), "setup_context": staticmethod(Function.setup_context)}
        names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
        metaclass: Any = type(cls)
        self._class = metaclass(cls.__name__, (cls,), own | names)
        self.__name__ = f"finish_{cls.__name__}"
        self.__module__ = __name__

    def apply(self, result: tuple[Any], names: tuple[str, ...], values: tuple[Any, ...], *arguments: Any) -> Any:
        before = _told.result, _told.attributes
        (_told.result,), _told.attributes = result, dict(zip(names, values, strict=True))
        try:
            return self._class.apply(*arguments)
        finally:
            _told.result, _told.attributes = before

    def __call__(self, *told: Any) -> Any:
        made = self.apply(*told)
        return tuple(part for part in made if isinstance(part, Tensor)) if isinstance(made, tuple) else made


_made: weakref.WeakValueDictionary[type[Function], Finish] = weakref.WeakValueDictionary()


def finish_of(cls: type[Function]) -> Finish:
    """The same for a class as long as somebody has it."""
    found = _made.get(cls)
    if found is None:
        found = _made[cls] = Finish(cls)
    return found
