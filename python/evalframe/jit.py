"""``evalframe.jit``: functions whose calls are captured and served by compiled graphs."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar, overload

from evalframe import _core
from evalframe.codegen import Entry, entries_of
from evalframe.user_backends import TORCH, resolve

# Entries are tried one after the other.
_MOST_ENTRIES = 10_000

DYNAMIC = {None: 0, True: 1, False: 2}  # runtime::Dynamic

F = TypeVar("F", bound=Callable[..., Any])


class GraphBreakError(RuntimeError):
    """``fullgraph=True`` was asked for, and the function can't be captured in one graph."""


@overload
def jit(
    function: F,
    *,
    backend: Any = ...,
    fullgraph: bool = ...,
    max_entries: int = ...,
    exact: bool = ...,
    fastmath: bool = ...,
    background: bool = ...,
    dynamic: bool | None = ...,
) -> F: ...
@overload
def jit(
    function: None = None,
    *,
    backend: Any = ...,
    fullgraph: bool = ...,
    max_entries: int = ...,
    exact: bool = ...,
    fastmath: bool = ...,
    background: bool = ...,
    dynamic: bool | None = ...,
) -> Callable[[F], F]: ...
def jit(
    function: Any = None,
    *,
    backend: Any = "native",
    fullgraph: bool = False,
    max_entries: int = 8,
    exact: bool = False,
    fastmath: bool = False,
    background: bool = False,
    dynamic: bool | None = None,
) -> Any:
    """Captures a function's calls as graphs with guards; later calls run compiled code.

    ``backend`` is a name from :func:`evalframe.backends` or a callable ``(graph, example_inputs) -> callable``.
    ``max_entries`` bounds how many recordings may start at one place; beyond it the call runs as plain Python.
    With ``exact`` the native backend computes every bit as NumPy does: elementary functions (``exp``, ``sin`` ...), of
    which its own are at most 2 ulp off, are called as they are.
    With ``fastmath`` loops that run as native code may add and multiply floats in another order than they say, so that
    sums over elements are computed several at a time. ValueError together with ``exact``.
    With ``background`` loops are made native on a thread of their own, while plain Python goes on with them.
    An int argument is fixed by a guard until it is seen to change; from then on it is an input of the graph, where that
    can have it as one. With ``dynamic=True`` it is one from the start, with ``dynamic=False`` never: each value has a
    recording of its own. :func:`mark` says it of single parameters.
    Of generator functions and coroutines the stretches between their suspensions are captured.
    staticmethod and classmethod objects are wrapped inside. Raises TypeError for what has no Python code, such as a
    builtin. With a backend of torch's, and for a ``torch.nn.Module``, it is ``evalframe.torch.compile``.
    """
    options = {"backend": backend, "fullgraph": fullgraph, "max_entries": max_entries}
    options |= {"exact": exact, "fastmath": fastmath, "background": background, "dynamic": dynamic}
    if function is None:
        return lambda wrapped: jit(wrapped, **options)
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(jit(function.__func__, **options))
    if isinstance(function, _core.Jit):
        return function
    if _is_torchs_module(function):
        return _jit_for_torch(function, **options | {"backend": "inductor" if backend == "native" else backend})
    if not isinstance(function, types.FunctionType):
        raise TypeError(f"evalframe.jit needs a Python function, not {type(function).__name__}: {_advice(function)}")
    _check_options(fullgraph, max_entries)
    _check_numerics(exact, fastmath)
    check_flag("background", background)
    _check_dynamic(dynamic)
    name, custom = resolve(backend)
    if name == TORCH:
        return _jit_for_torch(function, **options)
    make: Any = _core.Jit  # made with the C API: its stub has no signature
    made = make(function, name, custom, fullgraph, max_entries, exact, fastmath, background, DYNAMIC[dynamic])
    made.__dict__.update(
        {name: getattr(function, name) for name in ("__module__", "__name__", "__qualname__", "__doc__")}
    )
    return made


def _is_torchs_module(given: object) -> bool:
    nn = sys.modules.get("torch.nn")
    return nn is not None and isinstance(given, nn.Module)


def _jit_for_torch(function: Any, *, exact: bool, fastmath: bool, background: bool, **options: Any) -> Any:
    from evalframe.torch import compile

    if exact or fastmath or background:
        raise ValueError(
            "exact, fastmath and background are for NumPy: torch's backends have options of their own"
        )
    return compile(function, **options)


def _advice(given: object) -> str:
    """What to do with something that can't be captured itself."""
    if isinstance(given, functools.partial):
        return "capture the function inside: functools.partial(evalframe.jit(function), ...)"
    if isinstance(given, types.MethodType):
        return "decorate the function in the class; it works as a method"
    if isinstance(given, type):
        return "decorate its methods"
    if any(isinstance(vars(base).get("__call__"), types.FunctionType) for base in type(given).__mro__):
        return "decorate its __call__ in the class"
    return f"{given!r} has no Python code to capture; decorate the function that calls it"


def _check_options(fullgraph: object, max_entries: object) -> None:
    check_flag("fullgraph", fullgraph)
    if not isinstance(max_entries, int) or isinstance(max_entries, bool):
        raise TypeError(f"max_entries must be an int, not {type(max_entries).__name__}")
    if not 1 <= max_entries <= _MOST_ENTRIES:
        raise ValueError(f"max_entries must be from 1 to {_MOST_ENTRIES:,}, not {max_entries}")


def _check_numerics(exact: object, fastmath: object) -> None:
    check_flag("exact", exact)
    check_flag("fastmath", fastmath)
    if exact and fastmath:
        raise ValueError("exact=True keeps the bits that fastmath=True gives up: ask for one of them")


def _check_dynamic(value: object) -> None:
    if value is not None:
        check_flag("dynamic", value)


def check_flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r}")


class enabled:
    """``with evalframe.enabled():`` captures the functions that the block calls, without touching their source.

    A function is captured if it gets arrays or names a NumPy module; library code and module bodies run as
    they are. With a backend of torch's those are captured that get tensors, layers of torch's among them.
    ``backend``, ``exact``, ``fastmath``, ``background`` and ``dynamic`` as for :func:`jit`. Nothing is left installed
    behind the block, once its generators have ended, too.
    """

    def __init__(
        self,
        *,
        backend: Any = "native",
        exact: bool = False,
        fastmath: bool = False,
        background: bool = False,
        dynamic: bool | None = None,
    ) -> None:
        _check_numerics(exact, fastmath)
        check_flag("background", background)
        _check_dynamic(dynamic)
        self._backend = resolve(backend)
        self._numerics = exact, fastmath, background
        self._dynamic = DYNAMIC[dynamic]
        self._is_compiling = False  # for torch: evalframe.torch.enabled
        self._hooks: list[int] = []

    def __enter__(self) -> Self:
        asked = *self._backend, *self._numerics
        self._hooks.append(_core.enable(*asked, dynamic=self._dynamic, compiling=self._is_compiling))
        return self

    def __exit__(self, *exc_info: object) -> None:
        if not self._hooks:
            raise RuntimeError("this evalframe.enabled() isn't entered: use it as `with evalframe.enabled():`")
        _core.disable(self._hooks.pop())


def stats() -> dict[str, Any]:
    """Counters over all captured functions of the process.

    ``recordings``, ``calls``, ``hits`` (calls served), ``breaks``, ``exits`` (graphs left at a break, a check or an
    exception), ``plain_calls`` (calls that ran as plain Python), ``limited`` (calls that found no room for one more
    recording), ``given_up`` (functions that were slower captured), ``put_off`` (times that a recording waited, as
    others had taken their share of a program's time), ``verified`` (hits that CPython ran, too, as EVALFRAME_VERIFY
    asks), ``differences`` (of these), ``native_loops`` (loops made into native code), ``optimised_loops`` (of
    these, that ran long enough for their code to be compiled once more, in full) and ``native_turns`` (turns that
    they ran), ``native_calls`` (calls that were native from their first instruction to the return, or from behind
    the graph that they begin with), ``record_seconds``, ``compile_seconds``, and ``saved_seconds``: what serving
    saved, less recording and compiling; None where it wasn't measured, which is done by ``evalframe run``, nor does
    it count ``uncompared_seconds``: what recorded runs took whose calls came too seldom to run one plainly, for
    comparison. ``evaluated_frames`` and ``handed_over_frames`` count what evalframe's own evaluator ran and what it
    left to CPython, at the entry or on the way; ``handed_over_reasons`` has the latter by reason: ``traced`` (a
    tracer, profiler or monitoring tool was active), ``not decoded`` (bytecode that no compiler makes).
    """
    counters: dict[str, Any] = dict(_core.total_counters())
    saved = _core.saved_seconds()
    counters["saved_seconds"] = None if saved is None else saved - counters["compile_seconds"]
    counters["uncompared_seconds"] = _core.uncompared_seconds()
    evaluation = _core.evaluation_counts()
    counters["evaluated_frames"] = evaluation["evaluated"]
    counters["handed_over_frames"] = sum(evaluation["handed over"].values())
    counters["handed_over_reasons"] = evaluation["handed over"]
    return counters


@dataclass
class Break:
    """A place where captured code hands over to ordinary Python: why, where, and what can be done about it.

    Lines begin at 1, columns at 0, in bytes of UTF-8; -1 where unknown. ``count`` is how often recordings broke there.
    """

    reason: str
    detail: str
    hint: str
    file: str
    function: str
    line: int
    end_line: int
    column: int
    end_column: int
    count: int

    def __str__(self) -> str:
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.file}:{self.line}:{self.column + 1}: {self.reason}{detail}\n    hint: {self.hint}"


@dataclass
class Limit:
    """A place with as many recordings as there may be, none of which serves all calls.

    ``entries`` recordings start there, ``replaced`` gave way to more general ones, ``refused`` calls found no room and
    ran as plain Python; ``guard`` is the one that fails most.
    """

    file: str
    function: str
    line: int
    entries: int
    replaced: int
    refused: int
    guard: str
    hint: str

    def __str__(self) -> str:
        more = f" ({self.replaced} more gave way to general ones)" if self.replaced else ""
        return (
            f"{self.file}:{self.line}: {self.function} has {counted(self.entries, 'recording')} from here{more}, and "
            f"{counted(self.refused, 'call')} that none of them serves ran as plain Python\n"
            f"    failing most: {self.guard}\n    hint: {self.hint}"
        )


@dataclass
class Loop:
    """A loop that runs as native code, is to, or can't.

    One that isn't native becomes so once its turns have taken ``wait_seconds`` in all, which grow with what compiling
    it costs; 0 where something is in the way. ``compiling``: a thread in the background
    makes its code now. Its first code is made quickly; ``optimised``: it has run long enough for that to be compiled
    once more, in full. ``obstacles`` are lines and reasons: all there is in the way, or where native code is left.
    ``turns`` are those that ran natively, in so many ``runs``; ``ir`` is its code as LLVM IR, "" where there is none,
    ``blocks`` and ``ir_lines`` are its size; ``at_once`` is how many inner loops have code for many turns at a time,
    and ``numpy_calls`` how many operations are left to NumPy.
    """

    file: str
    function: str
    line: int
    native: bool
    compiling: bool
    optimised: bool
    blocks: int
    at_once: int
    numpy_calls: int
    ir_lines: int
    compile_seconds: float
    runs: int
    turns: int
    wait_seconds: float
    obstacles: list[tuple[int, str]]
    ir: str = field(repr=False)

    def __str__(self) -> str:
        many = f"{counted(self.at_once, 'inner loop')} many turns at a time, " if self.at_once else ""
        calls = f"{counted(self.numpy_calls, 'call')} of NumPy, " if self.numpy_calls else ""
        size = f"{counted(self.blocks, 'block')}, {many}{calls}{counted(self.ir_lines, 'line')} of IR"
        if self.native:
            ran = f"{counted(self.turns, 'turn')} in {counted(self.runs, 'run')}"
            how = "made and optimised" if self.optimised else "made"
            became = f"native: {size}, {how} in {milliseconds(self.compile_seconds)}; {ran}"
        elif self.compiling:
            became = f"being made native in the background: {size}"
        elif self.wait_seconds:
            became = f"to be native once it has taken {milliseconds(self.wait_seconds)}: {size}"
        else:
            became = "not native"
        obstacles = [f"    line {line}: {reason}" for line, reason in self.obstacles]
        return "\n".join([f"{self.file}:{self.line}: {became}", *obstacles])

    def assembly(self) -> str:
        """Of its code for this machine, "" where there is none; compiled again to be shown."""
        from evalframe._llvm import assembly

        return assembly(self.ir) if self.ir else ""


@dataclass
class Explanation:
    """What became of a call. Its ``str`` is for reading.

    ``result`` is the call's own. ``entries`` are the function's recordings; ``graphs`` and ``guards`` have an item for
    each. ``schedules`` say what is fused into which kernel, ``kernels`` are LLVM IR; ``timings`` are in seconds.
    """

    result: Any
    entries: Sequence[Any]
    breaks: list[Break]
    limits: list[Limit] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    graphs: list[str] = field(init=False)
    guards: list[list[str]] = field(init=False)
    schedules: list[str] = field(init=False)
    kernels: list[str] = field(init=False)
    timings: dict[str, float] = field(init=False)

    def __post_init__(self) -> None:
        self.graphs = [entry["graph"] for entry in self.entries]
        self.guards = [entry["guards"] for entry in self.entries]
        self.schedules = [entry["text"] for entry in self.entries if entry["text"]]
        self.kernels = [entry["source"] for entry in self.entries if entry["source"]]
        self.timings = {
            "record": sum(entry["record_seconds"] for entry in self.entries),
            "compile": sum(entry["compile_seconds"] for entry in self.entries),
        }

    def __str__(self) -> str:
        lines = [f"{counted(len(self.entries), 'graph')}, {counted(len(self.breaks), 'break')}"]
        for number, entry in enumerate(self.entries):
            lines += _entry_lines(number, entry)
        for found in self.breaks:
            lines.append(f"\nbreak at {found}")
        lines += [f"\nlimit at {limit}" for limit in self.limits]
        lines += [f"\nloop at {loop}" for loop in self.loops]
        return "\n".join(lines)

    __repr__ = __str__

    def assembly(self) -> list[str]:
        """The assembly of each kernel for this machine, in the order of ``kernels``; compiled again to be shown."""
        from evalframe._llvm import assembly

        return [assembly(module) for entry in self.entries for module in entry["modules"]]

    def html(self, title: str = "explain") -> str:
        """One page that needs nothing else: sources with what was captured, graphs, guards, code."""
        from evalframe.report_page import page_of

        return page_of(self, title)

    def _repr_html_(self) -> str:
        from html import escape

        page = escape(self.html(), quote=True)
        return f'<iframe style="width:100%;height:640px;border:0" srcdoc="{page}"></iframe>'


def counted(number: int, noun: str) -> str:
    """``1 graph``, ``2 graphs``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _entry_lines(number: int, entry: dict[str, Any]) -> Iterator[str]:
    start = "start" if entry["instruction"] == 0 and entry["depth"] == 1 else f"line {entry['line']}"
    yield f"\ngraph {number}: {entry['function']}, from {start}; {counted(entry['nodes'], 'node')}"
    yield from (f"  recorded, though there was another graph: {why}" for why in entry["because"])
    if entry["graph"]:
        yield from _indented(entry["graph"], "  ")
    yield "  guards:"
    for guard in entry["guard_rows"]:
        yield from _indented(guard["text"] + failures_of(guard, "  <- "), "    ")
    if entry["fallback"]:
        yield f"  run by the recorded calls: {entry['fallback']}"
    elif entry["text"]:
        yield f"  made by {entry['backend']}:"
        yield from _indented(entry["text"], "    ")
    if isinstance(entry, Entry):
        yield from ("  " + line for line in entry.code_lines())
    cost = f" and take {nanoseconds(entry['guard_seconds'])}" if entry["guard_seconds"] is not None else ""
    yield (
        f"  recorded in {milliseconds(entry['record_seconds'])}, compiled in {milliseconds(entry['compile_seconds'])}; "
        f"served {counted(entry['hits'], 'time')}, its guards said no {counted(entry['misses'], 'time')}{cost}"
    )


def start_of(entry: Mapping[str, Any]) -> str:
    """Where a graph begins: "start" of its function, or a line."""
    return "start" if entry["instruction"] == 0 and entry["depth"] == 1 else f"line {entry['line']}"


def failures_of(guard: Mapping[str, Any], before: str = "") -> str:
    """How often a guard said no, and what it found then, behind `before`; "" where it didn't."""
    failed, found = guard["failed"], guard["found"]
    if not failed:
        return ""
    told = [text if count == failed else f"{text} ({counted(count, 'time')})" for text, count in found]
    more = failed - sum(count for _, count in found)
    told += [f"other things ({counted(more, 'time')})"] if more else []
    return f"{before}failed {counted(failed, 'time')}, finding {', '.join(told)}"


def _indented(text: str, indent: str) -> list[str]:
    return [indent + line for line in text.rstrip("\n").split("\n")]


def milliseconds(seconds: float) -> str:
    """Such as ``0.031 ms``."""
    return f"{seconds * 1e3:.3f} ms"


def nanoseconds(seconds: float) -> str:
    """Such as ``3.1 ns``."""
    return f"{seconds * 1e9:.1f} ns"


def explain(function: Any, *arguments: Any, **options: Any) -> Callable[..., Explanation]:
    """``explain(f)(*args)`` calls a captured ``f`` and tells what was captured.

    ``f`` may be a plain function (a jit object is made for it with ``options``) or one made by :func:`jit`.
    """
    if arguments:
        raise TypeError("explain takes the function only; call what it returns: explain(function)(*arguments)")
    if isinstance(function, _core.Jit) and options:
        raise TypeError(f"{function!r} has its options already; give explain the plain function: function.__wrapped__")
    captured: Any = function if isinstance(function, _core.Jit) else jit(function, **options)

    def call(*args: Any, **kwargs: Any) -> Explanation:
        measured_before = _core.set_measuring_guards(True)
        try:
            result = captured(*args, **kwargs)
        finally:
            _core.set_measuring_guards(measured_before)
        breaks = [Break(**found) for found in _core.jit_breaks(captured)]
        limits = [Limit(**found) for found in _core.jit_limits(captured)]
        loops = [Loop(**found) for found in _core.jit_loops(captured)]
        return Explanation(result, entries_of(captured), breaks, limits, loops)

    return call
