"""``evalframe.jit``: functions whose calls are captured and served by compiled graphs."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from evalframe import _core
from evalframe.user_backends import resolve

F = TypeVar("F", bound=Callable[..., Any])


class GraphBreakError(RuntimeError):
    """``fullgraph=True`` was asked for, and the function can't be captured in one graph."""


@overload
def jit(function: F, *, backend: Any = ..., fullgraph: bool = ..., max_entries: int = ...) -> F: ...
@overload
def jit(
    function: None = None, *, backend: Any = ..., fullgraph: bool = ..., max_entries: int = ...
) -> Callable[[F], F]: ...
def jit(
    function: Any = None, *, backend: Any = "native", fullgraph: bool = False, max_entries: int = 8
) -> Any:
    """Captures a function's calls as graphs with guards; later calls run compiled code.

    ``backend`` is a name from :func:`evalframe.backends` or a callable ``(graph, example_inputs) -> callable``.
    ``max_entries`` bounds how many recordings may start at one place; beyond it the call runs as plain Python.
    staticmethod and classmethod objects are wrapped inside. Raises TypeError for what has no Python code, such as a
    builtin.
    """
    options = {"backend": backend, "fullgraph": fullgraph, "max_entries": max_entries}
    if function is None:
        return lambda wrapped: jit(wrapped, **options)
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(jit(function.__func__, **options))
    if isinstance(function, _core.Jit):
        return function
    if not isinstance(function, types.FunctionType):
        raise TypeError(
            f"evalframe.jit needs a Python function, not {type(function).__name__}: "
            f"{function!r} has no Python code to capture"
        )
    name, custom = resolve(backend)
    make: Any = _core.Jit  # made with the C API: its stub has no signature
    made = make(function, name, custom, fullgraph, max_entries)
    made.__dict__.update(
        {name: getattr(function, name) for name in ("__module__", "__name__", "__qualname__", "__doc__")}
    )
    return made


class enabled:
    """``with evalframe.enabled():`` captures the functions that the block calls, without touching their source.

    A function is captured if it gets arrays or names a NumPy module; library code, module bodies and generators run as
    they are. Nothing is left installed behind the block.
    """

    def __init__(self, *, backend: Any = "native") -> None:
        self._backend = resolve(backend)
        self._hooks: list[int] = []

    def __enter__(self) -> enabled:
        self._hooks.append(_core.enable(*self._backend))
        return self

    def __exit__(self, *exc_info: object) -> None:
        _core.disable(self._hooks.pop())


def stats() -> dict[str, int]:
    """Counters over all captured functions of the process: calls, hits, recordings, breaks, exits, plain calls."""
    return dict(_core.total_counters())


@dataclass
class Break:
    """A place where captured code hands over to ordinary Python."""

    reason: str
    detail: str
    hint: str
    file: str
    function: str
    line: int
    column: int
    end_column: int
    count: int

    def __str__(self) -> str:
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.file}:{self.line}:{self.column + 1}: {self.reason}{detail}\n    hint: {self.hint}"


@dataclass
class Explanation:
    """What became of a call: graphs, breaks, guards, entries, kernels, timings."""

    result: Any
    entries: list[dict[str, Any]]
    breaks: list[Break]
    graphs: list[str] = field(init=False)
    guards: list[list[str]] = field(init=False)
    kernels: list[str] = field(init=False)
    timings: dict[str, float] = field(init=False)

    def __post_init__(self) -> None:
        self.graphs = [entry["graph"] for entry in self.entries]
        self.guards = [entry["guards"] for entry in self.entries]
        self.kernels = [entry["text"] for entry in self.entries if entry["text"]]
        self.timings = {
            "record": sum(entry["record_seconds"] for entry in self.entries),
            "compile": sum(entry["compile_seconds"] for entry in self.entries),
        }

    def __str__(self) -> str:
        lines = [f"{len(self.entries)} graphs, {len(self.breaks)} breaks"]
        for number, entry in enumerate(self.entries):
            start = "start" if entry["instruction"] == 0 and entry["depth"] == 1 else f"line {entry['line']}"
            size = f"{entry['nodes']} nodes, backend {entry['backend']}"
            lines.append(f"\ngraph {number}: {entry['function']}, from {start}; {size}")
            if entry["fallback"]:
                lines.append(f"  served by the reference backend: {entry['fallback']}")
            lines += ["  " + line for line in entry["graph"].rstrip("\n").split("\n")]
            lines.append("  guards:")
            lines += ["    " + guard for guard in entry["guards"]]
        for found in self.breaks:
            lines.append(f"\nbreak at {found}")
        return "\n".join(lines)


def explain(function: Any, **options: Any) -> Callable[..., Explanation]:
    """``explain(f)(*args)`` calls a captured ``f`` and tells what was captured.

    ``f`` may be a plain function (a jit object is made for it with ``options``) or one made by :func:`jit`.
    """
    captured: Any = function if isinstance(function, _core.Jit) else jit(function, **options)

    def call(*args: Any, **kwargs: Any) -> Explanation:
        result = captured(*args, **kwargs)
        return Explanation(
            result, _core.jit_entries(captured), [Break(**found) for found in _core.jit_breaks(captured)]
        )

    return call
