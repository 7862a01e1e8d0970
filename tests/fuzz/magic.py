"""Objects that can do everything: what the free names of a random program stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fuzz.world import Log


class MagicError(Exception):
    """Raised by every forty-first operation."""


def short(value: Any) -> str:
    kind = type(value)
    if kind is Magic:
        return f"M{value.number}"
    if kind in (int, float, complex, str, bytes, bool, type(None), type(Ellipsis)):
        return repr(value)[:40]
    if kind in (tuple, list, set, frozenset):
        return f"{kind.__name__}[{len(value)}]"
    return kind.__name__


def told(*what: Any) -> int:
    return Log.add(" ".join([each if type(each) is str else short(each) for each in what]))


class Magic(Exception):
    """Implements every protocol; answers depend on the number of events so far. Can be raised, and be a base class's stand-in."""

    __match_args__ = ("a0", "a1", "a2")

    def __init__(self, number: int = 0) -> None:
        super().__init__()
        object.__setattr__(self, "number", number)

    def __repr__(self) -> str:
        return f"M{self.number}"

    __str__ = __repr__

    def __format__(self, how: Any) -> str:
        told("format", self, how)
        return "F"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        told("getattr", self, name)
        return Magic((self.number + len(name)) % 7)

    def __setattr__(self, name: str, value: Any) -> None:
        told("setattr", self, name, value)
        if name.startswith("__"):
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        told("delattr", self, name)

    def __setitem__(self, key: Any, value: Any) -> None:
        told("setitem", self, key, value)

    def __delitem__(self, key: Any) -> None:
        told("delitem", self, key)

    def __iter__(self) -> Iterator[Any]:
        count = told("iter", self)
        return iter([Magic((count + each) % 7) for each in range((1, 2, 3, 0, 4)[count % 5])])

    def keys(self) -> list[str]:
        told("keys", self)
        return [f"k{self.number}"]

    def __enter__(self) -> Any:
        told("enter", self)
        return Magic(1)

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        told("exit", self, kind.__name__ if kind else "")
        return self.number % 2 == 0

    async def __aenter__(self) -> Any:
        told("aenter", self)
        return Magic(2)

    async def __aexit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        told("aexit", self, kind.__name__ if kind else "")
        return self.number % 2 == 0

    def __await__(self) -> Iterator[Any]:
        told("await", self)
        sent = yield Magic(3)
        told("sent", sent)
        return Magic(4)

    def __aiter__(self) -> Any:
        told("aiter", self)
        object.__setattr__(self, "left", 2)
        return self

    async def __anext__(self) -> Any:
        told("anext", self)
        left = self.__dict__.get("left", 0)
        if left <= 0:
            raise StopAsyncIteration
        object.__setattr__(self, "left", left - 1)
        return Magic(5)

    def __mro_entries__(self, bases: Any) -> tuple[Any, ...]:
        told("mro_entries", self)
        return ()

    def __instancecheck__(self, value: Any) -> bool:
        return told("instancecheck", value) % 2 == 0


def _operation(name: str, answer: str = "magic") -> Callable[..., Any]:
    def operation(self: Any, *values: Any, **named: Any) -> Any:
        count = told(name, self, *values, *sorted(named))
        if answer == "bool":
            return bool((count * 7 + self.number) % 3)
        if answer == "int":
            return count % 5
        if count % 41 == 0:
            raise MagicError(name, count)
        return Magic(count % 7)

    operation.__name__ = name
    return operation


_BINARY = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
_NAMES = [f"{prefix}{name}" for name in _BINARY for prefix in ("", "r", "i")]
for _name in [*_NAMES, *"neg pos invert abs getitem call".split()]:
    setattr(Magic, f"__{_name}__", _operation(_name))
for _name in "lt le gt ge eq ne contains bool".split():
    setattr(Magic, f"__{_name}__", _operation(_name, "bool"))
for _name in "index int len hash".split():
    setattr(Magic, f"__{_name}__", _operation(_name, "int"))


def drive(thing: Any, kind: str) -> None:
    """Sends and throws by a fixed script."""
    told("drive", kind)
    if kind == "async_generator":
        for step in range(4):
            made = thing.athrow(MagicError("athrow")) if step == 2 else thing.asend(None if step == 0 else Magic(step))
            drive(made, "coroutine")
        return
    for step in range(6):
        try:
            if step == 3:
                yielded = thing.throw(MagicError("thrown"))
            else:
                yielded = thing.send(None if step == 0 else Magic(step))
        except StopIteration as stop:
            told("stopped", stop.value)
            return
        except Exception as error:
            told("raised", type(error).__name__, str(error)[:80])
            return
        told("yielded", yielded)
    try:
        thing.close()
    except Exception as error:
        told("close raised", type(error).__name__)
