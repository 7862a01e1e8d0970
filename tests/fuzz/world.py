"""What generated programs find in their namespace: a log of what happens, and objects that tell of all that is done to them."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from fuzz.shown import Shown

SHOWN = Shown()
EVENT_LIMIT = 600


class Stop(BaseException):
    """Ends a program that has done enough; raised again at each further event."""


class Log:
    """Of the program that runs."""

    events: list[str] = []
    program_file = "<program>"
    limit = EVENT_LIMIT
    count = 0

    @classmethod
    def begin(cls, limit: int) -> None:
        cls.events = []
        cls.limit = limit
        cls.count = 0

    @classmethod
    def add(cls, text: str) -> int:
        """Number of this event."""
        cls.count += 1
        if cls.count > cls.limit:
            raise Stop
        cls.events.append(text)
        return cls.count


def show(value: Any, depth: int = 2) -> str:
    return SHOWN.text(value, depth)


def note(*values: Any) -> Any:
    """Writes the values to the log; gives back the last."""
    Log.add("note " + ", ".join([show(value) for value in values]))
    return values[-1] if values else None


def fuel() -> bool:
    """At the head of loops and functions: a program that runs on ends here."""
    Log.count += 1
    if Log.count > Log.limit:
        raise Stop
    return True


def where(names: bool = False) -> None:
    """Writes down the program's stack: where each frame stands, and the names it has."""
    frame = sys._getframe(1)
    told = []
    for _ in range(8):
        if frame.f_code.co_filename == Log.program_file:
            told.append(SHOWN.frame(frame, 0) + (f" with {sorted(frame.f_locals)[:20]}" if names else ""))
        if frame.f_back is None:
            break
        frame = frame.f_back
    Log.add("where " + "; ".join(told))


def _is_program(frame: types.FrameType) -> bool:
    return frame.f_code.co_filename == Log.program_file


def _traced(frame: types.FrameType, event: str, argument: Any) -> Any:
    if _is_program(frame):
        Log.events.append(f"{event} {frame.f_code.co_name} {frame.f_lineno} {show(argument, 0)}")
    return _traced


def _traced_by_opcode(frame: types.FrameType, event: str, argument: Any) -> Any:
    frame.f_trace_opcodes = True
    _traced(frame, event, argument)
    return _traced_by_opcode


def _profiled(frame: types.FrameType, event: str, argument: Any) -> None:
    if _is_program(frame):
        Log.events.append(f"profile {event} {frame.f_code.co_name} {frame.f_lineno} {show(argument, 0)}")


TOOL = 3
MONITORED = """PY_START PY_RESUME PY_RETURN PY_YIELD PY_UNWIND PY_THROW CALL C_RETURN C_RAISE LINE JUMP BRANCH RAISE RERAISE EXCEPTION_HANDLED
STOP_ITERATION""".split()


OF_WHAT_WAS_RAISED = {"PY_UNWIND", "PY_THROW", "RAISE", "RERAISE", "EXCEPTION_HANDLED"}


def _monitored(event: str) -> Any:
    def callback(code: types.CodeType, *where: Any) -> Any:
        if code.co_filename == Log.program_file:
            # CPython tells of the last cache unit of a call, or of the instruction before, where its callee has raised.
            where = where[1:] if event in OF_WHAT_WAS_RAISED else where
            Log.events.append(f"monitored {event} {code.co_name} {[each if type(each) is int else show(each, 0) for each in where]}")

    return callback


def watch(how: str, back: bool = False) -> None:
    """Switches a tracer, a profiler or monitoring on; `back`: the caller is traced, too."""
    if how in ("trace", "opcodes"):
        tracer = _traced if how == "trace" else _traced_by_opcode
        sys.settrace(tracer)
        if back:
            sys._getframe(1).f_trace = tracer
    elif how == "profile":
        sys.setprofile(_profiled)
    elif sys.version_info >= (3, 12) and sys.monitoring.get_tool(TOOL) is None:
        events = sys.monitoring.events
        sys.monitoring.use_tool_id(TOOL, "fuzz")
        for name in MONITORED:
            sys.monitoring.register_callback(TOOL, getattr(events, name), _monitored(name))
        sys.monitoring.set_events(TOOL, sum(getattr(events, name) for name in MONITORED if name not in ("C_RETURN", "C_RAISE")))


def unwatch() -> None:
    sys.settrace(None)
    sys.setprofile(None)
    if sys.version_info >= (3, 12) and sys.monitoring.get_tool(TOOL) is not None:
        sys.monitoring.set_events(TOOL, 0)
        for name in MONITORED:
            sys.monitoring.register_callback(TOOL, getattr(sys.monitoring.events, name), None)
        sys.monitoring.free_tool_id(TOOL)


class Token:
    """Tells when it is released."""

    def __init__(self, name: Any = 0) -> None:
        self.name = name

    def __del__(self) -> None:
        Log.events.append(f"released {self.name}")

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Token) and self.name == other.name

    def __repr__(self) -> str:
        return f"Token({self.name!r})"


class Thing(Token):
    """One with operators: operands that nothing else holds."""

    def _another(self, *others: Any, **named: Any) -> Any:
        return Thing(f"of {self.name}")

    __add__ = __sub__ = __radd__ = __rsub__ = __and__ = __call__ = __getitem__ = __iadd__ = __neg__ = m = _another
    __lt__ = __gt__ = __setitem__ = __delitem__ = _another  # type: ignore[assignment]

    def __contains__(self, other: Any) -> bool:
        return True

    def __format__(self, how: str) -> str:
        return "thing"

    def __iter__(self) -> Iterator[Any]:
        return iter([Thing(1), Thing(2)])

    def __enter__(self) -> Any:
        return Thing("entered")

    def __exit__(self, *error: Any) -> bool:
        return True


class Fault(Exception):
    """The programs' own exception."""


class FirstFault(Fault):
    pass


class SecondFault(Fault):
    def __init__(self, *values: Any, extra: Any = None) -> None:
        super().__init__(*values)
        self.extra = extra


class BaseFault(BaseException):
    pass


class Manager:
    """A context manager: swallows what it is told to, and raises where it is told to."""

    def __init__(self, name: Any = 0, swallow: Any = (), enter: Any = None, exit: Any = None) -> None:
        self.name, self.swallow, self.enter, self.exit = name, swallow, enter, exit

    def __enter__(self) -> Any:
        Log.add(f"enter {self.name}")
        if self.enter is not None:
            raise self.enter
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> Any:
        Log.add(f"exit {self.name} {show(error)}")
        if self.exit is not None:
            raise self.exit
        return isinstance(error, self.swallow)


class Pause:
    """Awaitable: gives a value to whoever drives the coroutine, and is what that sends."""

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def __await__(self) -> Iterator[Any]:
        sent = yield self.value
        Log.add(f"sent {show(sent)}")
        return sent


class AsyncManager:
    """The same for `async with`, pausing in both methods."""

    def __init__(self, name: Any = 0, swallow: Any = (), enter: Any = None, exit: Any = None) -> None:
        self.name, self.swallow, self.enter, self.exit = name, swallow, enter, exit

    async def __aenter__(self) -> Any:
        Log.add(f"aenter {self.name}")
        await Pause(f"entering {self.name}")
        if self.enter is not None:
            raise self.enter
        return self

    async def __aexit__(self, kind: Any, error: Any, traceback: Any) -> Any:
        Log.add(f"aexit {self.name} {show(error)}")
        await Pause(f"leaving {self.name}")
        if self.exit is not None:
            raise self.exit
        return isinstance(error, self.swallow)


class Items:
    """An iterator of numbers that may fail at one of them."""

    def __init__(self, count: int = 3, fail_at: int = -1, error: Any = None) -> None:
        self.left, self.at, self.fail_at, self.error = count, 0, fail_at, error

    def __iter__(self) -> Items:
        return self

    def __next__(self) -> int:
        Log.add(f"next {self.at}")
        if self.at == self.fail_at:
            raise self.error or Fault("item", self.at)
        if self.at >= self.left:
            raise StopIteration
        self.at += 1
        return self.at - 1


class AsyncItems(Items):
    """The same for `async for`, pausing at each."""

    def __aiter__(self) -> AsyncItems:
        return self

    async def __anext__(self) -> int:
        await Pause(f"item {self.at}")
        try:
            return next(self)
        except StopIteration:
            raise StopAsyncIteration from None


class Sequence:
    """What only has items by number."""

    def __init__(self, count: int = 3) -> None:
        self.count = count

    def __getitem__(self, index: Any) -> Any:
        Log.add(f"item {show(index)}")
        if isinstance(index, int) and index >= self.count:
            raise IndexError(index)
        return index


class Number(int):
    """A subclass whose operators tell: what is quick for numbers isn't for these."""

    def __add__(self, other: Any) -> Any:
        Log.add(f"add {show(other)}")
        return Number(int(self) + 1)

    def __lt__(self, other: Any) -> Any:
        Log.add(f"less {show(other)}")
        return NotImplemented

    def __bool__(self) -> bool:
        Log.add("truth")
        return int(self) != 0

    def __index__(self) -> int:
        Log.add("index")
        return 1


class Text(str):
    def __add__(self, other: Any) -> Any:
        Log.add(f"add {show(other)}")
        return "sum"

    def __eq__(self, other: object) -> bool:
        Log.add(f"equal {show(other)}")
        return len(self) == 2

    __hash__ = str.__hash__


class Row(list[Any]):
    def __getitem__(self, index: Any) -> Any:
        Log.add(f"get {show(index)}")
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        Log.add(f"set {show(index)} {show(value)}")
        super().__setitem__(index, value)

    def __iter__(self) -> Any:
        Log.add("iter")
        return super().__iter__()

    def __contains__(self, value: object) -> bool:
        Log.add(f"contains {show(value)}")
        return True


class Pair(tuple[Any, ...]):
    def __getitem__(self, index: Any) -> Any:
        Log.add(f"get {show(index)}")
        return 7

    def __len__(self) -> int:
        Log.add("length")
        return 3


class Table(dict[Any, Any]):
    def __getitem__(self, key: Any) -> Any:
        Log.add(f"get {show(key)}")
        return super().__getitem__(key)

    def __missing__(self, key: Any) -> Any:
        Log.add(f"missing {show(key)}")
        return 8

    def keys(self) -> Any:
        Log.add("keys")
        return super().keys()


class Names(dict[Any, Any]):
    """A namespace that tells what is looked up."""

    def __getitem__(self, key: Any) -> Any:
        Log.add(f"look up {key}")
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        Log.add(f"bind {key} {show(value, 1)}")
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        Log.add(f"unbind {key}")
        super().__delitem__(key)


def _step(thing: Any, step: Any) -> Any:
    if step == "next":
        return next(thing)
    if step == "close":
        return thing.close()
    action, value = step
    return thing.throw(value) if action == "throw" else thing.send(value)


def _drive_coroutine(coroutine: Any, script: list[Any]) -> Any:
    """Runs it to its end; the script says what each pause is answered with."""
    answer: Any = ("send", None)
    while True:
        yielded = _step(coroutine, answer)
        Log.add(f"paused {show(yielded, 1)}")
        answer = script.pop(0) if script else ("send", None)
        if answer in ("next", "close"):
            answer = ("send", 0)


def drive(thing: Any, *script: Any) -> list[Any]:
    """Sends, throws and closes as the script says, whatever comes of it; what was yielded."""
    results: list[Any] = []
    waiting = list(script)
    while waiting:
        step = waiting.pop(0)
        try:
            if hasattr(thing, "asend"):
                action, value = step if isinstance(step, tuple) else (step, None)
                wanted = {"next": thing.__anext__, "close": thing.aclose}.get(action)
                made = wanted() if wanted else thing.athrow(value) if action == "throw" else thing.asend(value)
                result = _drive_coroutine(made, waiting)
            elif hasattr(thing, "cr_frame"):
                if step == "close":
                    result = thing.close()
                else:
                    result = _drive_coroutine(thing, [step, *waiting])
            else:
                result = _step(thing, step)
        except Stop:
            raise
        except BaseException as error:
            if isinstance(error, StopIteration) and hasattr(thing, "asend"):
                results.append(error.value)
            Log.add(f"drive {show(step, 1)} raised {show(error)}")
        else:
            results.append(result)
            Log.add(f"drive {show(step, 1)} gave {show(result)}")
    return results


def run(coroutine: Any, *script: Any) -> Any:
    """The value of a coroutine, driven by hand."""
    try:
        return _drive_coroutine(coroutine, list(script))
    except StopIteration as stop:
        return stop.value


FUNCTIONS = (note, fuel, where, drive, run, watch, unwatch)
CLASSES = (Token, Thing, Fault, FirstFault, SecondFault, BaseFault, Manager, Pause, AsyncManager, Items, AsyncItems, Sequence, Number, Text, Row, Pair, Table, Names)
BUILT_IN = {"getframe": sys._getframe, "getrefcount": sys.getrefcount, "exc_info": sys.exc_info}


def names() -> dict[str, Any]:
    """For a program's namespace; it may change the functions, which are copies."""
    copies = {each.__name__: types.FunctionType(each.__code__, each.__globals__, each.__name__, each.__defaults__) for each in FUNCTIONS}
    return {**copies, **{each.__name__: each for each in CLASSES}, **BUILT_IN, "np": np}
