"""Backends made by users: their names, and what happens when one of them fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NoReturn

from evalframe._core import BACKENDS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

    from evalframe.graph import Graph

BUILT_IN: tuple[str, ...] = BACKENDS
ENTRY_POINTS = "evalframe.backends"
TORCH = "torch"
"""The name that the core knows by that graphs go to a backend of torch's."""

Backend = Callable[["Graph", list[Any]], Callable[..., Sequence[Any]]]

_registered: dict[str, Backend] = {}


class BackendError(RuntimeError):
    """A backend raised, or returned what can't be used."""


def register_backend(name: str, backend: Backend) -> None:
    """Makes ``backend=name`` mean ``backend``, a callable ``(graph, example_inputs) -> callable``.

    What it returns takes the values of ``graph.inputs`` and returns a tuple of those of ``graph.outputs``. A name that
    is registered again means the new backend from then on.
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"a backend's name must be a str that isn't empty, not {name!r}")
    if name in (*BUILT_IN, TORCH):
        raise ValueError(f"{name!r} is a backend of evalframe's own; register yours by another name")
    if not callable(backend):
        raise TypeError(f"backend {name!r} must be callable with (graph, example_inputs), not {type(backend).__name__}")
    _registered[name] = backend


def backends() -> list[str]:
    """Names that ``backend=`` takes: built in, registered, and installed as entry points ``evalframe.backends``."""
    installed = {point.name for point in _entry_points()}
    return [*BUILT_IN, *sorted(_registered.keys() | installed - set(BUILT_IN))]


def resolve(backend: object) -> tuple[str, Any]:
    """Name and callable of what was given as ``backend=``; no callable for those built in.

    A name that only torch knows means its backend, and imports torch.
    """
    if isinstance(backend, str):
        if backend in BUILT_IN:
            return backend, None
        if backend in _registered:
            return backend, _registered[backend]
        return _installed(backend) or _torchs(backend) or _unknown(backend)
    if callable(backend):
        name = str(getattr(backend, "__qualname__", type(backend).__qualname__))
        return f"{name}()" if name == TORCH else name, backend
    raise TypeError(
        f"backend must be callable or one of the names {', '.join(backends())}, not {type(backend).__name__}"
    )


def _entry_points() -> EntryPoints:
    # Imported where it is needed: few programs ask for it, and it takes longer than all of evalframe.
    import importlib.metadata

    return importlib.metadata.entry_points(group=ENTRY_POINTS)


def _unknown(name: str) -> NoReturn:
    raise ValueError(f"unknown backend {name!r}; there are: {', '.join(backends())}")


def _torchs(name: str) -> tuple[str, Any] | None:
    if find_spec("torch") is None:
        return None
    from evalframe.torch.lowering import Lowering

    try:
        return TORCH, Lowering(name, None)
    except ValueError:  # torch doesn't know it, either
        return None


def _installed(name: str) -> tuple[str, Backend] | None:
    for point in _entry_points().select(name=name):
        try:
            backend = point.load()
        except Exception as error:
            raise BackendError(
                f"backend {name!r} can't be loaded: its entry point {point.value!r} raised {_told(error)}"
            ) from error
        if not callable(backend):
            raise BackendError(
                f"backend {name!r} can't be used: its entry point {point.value!r} is {type(backend).__name__}, "
                "not callable with (graph, example_inputs)"
            )
        register_backend(name, backend)
        return name, backend
    return None


def compiled(backend: Backend, name: str, told: Any, example_inputs: list[Any]) -> Callable[..., Sequence[Any]]:
    """What the backend makes of a graph; called by the core."""
    from evalframe.graph import from_core

    graph = from_core(told, example_inputs)
    try:
        function = backend(graph, graph.example_inputs)
    except Exception as error:
        raise _error(name, told[0], f"raised {_told(error)}") from error
    if not callable(function):
        problem = f"returned {type(function).__name__}, which can't be called; return a function of graph.inputs"
        raise _error(name, told[0], problem)
    return function


def failed(name: str, origin: tuple[str, int, str], problem: str, cause: BaseException | None) -> None:
    """Raises the error for a compiled function that raised or returned nonsense; called by the core."""
    said = f"raised {_told(cause)}, where the recorded calls don't" if cause is not None else problem
    raise _error(name, origin, f"made a function that {said}") from cause


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _error(name: str, origin: tuple[str, int, str], problem: str) -> BackendError:
    file, line, function = origin
    return BackendError(
        f"backend {name!r} {problem} (compiling {function}, {file}:{line}); "
        'mend the backend, or use backend="native" or backend="reference"'
    )
