"""``evalframe.torch.compile``: what it takes and returns."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable
from typing import Any

import torch

import evalframe
from evalframe import _core
from evalframe.jit import DYNAMIC, Explanation, check_flag
from evalframe.jit import explain as explain_jit
from evalframe.torch.lowering import Lowering
from evalframe.user_backends import TORCH


def compile(
    model: Any = None,
    *,
    backend: str | Callable[..., Any] = "inductor",
    dynamic: bool | None = None,
    fullgraph: bool = False,
    options: dict[str, Any] | None = None,
    parameters: str = "inputs",
    is_compiling: bool = False,
    max_entries: int = 8,
) -> Any:
    """Captures the calls of a function or module as ``torch.fx`` graphs for a backend of ``torch.compile``.

    ``backend`` is one of ``torch._dynamo.list_backends()``, or a callable ``(graph_module, example_inputs) ->
    callable``. With ``backend="eager"`` the recorded calls are made again, without Python code in between. ``options``
    go to the backend. With ``fullgraph`` a graph break is an error. A size of an argument, or an int, that is another
    one at a later call is a symbol of the graph from then on (sizes from 2 on); with ``dynamic=True`` all are from the
    start, with ``dynamic=False`` graphs are for the sizes that they were recorded with. ``parameters`` and buffers of
    modules are ``"inputs"`` of graphs, or ``"attributes"`` of their modules; then others in their places get functions
    of their own. With ``is_compiling`` what is captured gets True from ``torch.compiler.is_compiling()``, as under
    ``torch.compile``: libraries leave tests of values out then, at each of which a graph would end, and may come to
    other last bits than as they are. ``max_entries`` bounds how many graphs there are for one place. Without a model it
    is a decorator.
    """
    if dynamic not in (None, True, False):
        raise TypeError(f"dynamic must be True, False or None, not {dynamic!r}")
    settings: dict[str, Any] = {"backend": backend, "dynamic": dynamic, "fullgraph": fullgraph}
    settings |= {"options": options, "parameters": parameters, "max_entries": max_entries, "is_compiling": is_compiling}
    if model is None:
        return lambda wrapped: compile(wrapped, **settings)
    if isinstance(model, CompiledModule):
        return model
    if isinstance(model, torch.nn.Module):
        return _compiled_module(model, settings)
    if isinstance(model, types.MethodType):
        return types.MethodType(compile(model.__func__, **settings), model.__self__)
    if isinstance(model, _core.Jit):
        return model
    if not isinstance(model, types.FunctionType):
        raise TypeError(f"evalframe.torch.compile takes a module or a Python function, not {type(model).__name__}")
    return _captured(model, settings)


def _captured(function: Any, settings: dict[str, Any]) -> Any:
    for name in ("fullgraph", "is_compiling"):
        check_flag(name, settings[name])
    lowering = Lowering(settings["backend"], settings["options"], settings["parameters"])
    make: Any = _core.Jit  # made with the C API: its stub has no signature
    numerics = False, False, False
    dynamic = DYNAMIC[settings["dynamic"]]
    bounds = settings["fullgraph"], settings["max_entries"]
    made = make(function, TORCH, lowering, *bounds, *numerics, dynamic, settings["is_compiling"])
    made.__dict__.update(
        {name: getattr(function, name) for name in ("__module__", "__name__", "__qualname__", "__doc__")}
    )
    made.__dict__["lowering"] = lowering
    return made


def call_module(module: Any, /, *args: Any, **kwargs: Any) -> Any:
    """What is captured of a module: its call, with all of its hooks."""
    return type(module).__call__(module, *args, **kwargs)


class CompiledModule:
    """A compiled module is one of its own class, too, and has the very parameters, buffers, hooks and attributes."""

    _evalframe: tuple[Any, Any, dict[str, Any]]  # what is called, the module, settings

    __call__: Any = _core.call_stand_in

    def __reduce_ex__(self, protocol: Any) -> Any:
        _, model, settings = self._evalframe
        return _compiled_module, (model, settings)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        _, model, settings = self._evalframe
        return _compiled_module(copy.deepcopy(model, memo), settings)


def _compiled_module(model: Any, settings: dict[str, Any]) -> Any:
    if isinstance(model, torch.jit.ScriptModule):
        raise TypeError("a torch.jit.ScriptModule is compiled already; give evalframe.torch.compile the module itself")
    # Of its own: the jit object keeps what it has captured by function.
    function = types.FunctionType(call_module.__code__, call_module.__globals__, type(model).__name__)
    captured = _captured(function, settings)
    kind = type(model)
    names = {
        "_evalframe": (captured, model, settings),
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
    }
    metaclass: Any = type(kind)
    compiled = metaclass(kind.__name__, (CompiledModule, kind), names)
    _core.take_calls(compiled)
    made: Any = object.__new__(compiled)
    made.__dict__ = model.__dict__
    return made


class enabled(evalframe.enabled):
    """``with evalframe.torch.enabled():`` captures what the block calls with tensors, without touching its source.

    Functions and modules' ``forward`` are captured where they are given a tensor, or a list, tuple or dict that begins
    with one; of torch's own functions only layers' ``forward`` are. Arguments as for :func:`compile`.
    """

    def __init__(
        self,
        *,
        backend: str | Callable[..., Any] = "inductor",
        dynamic: bool | None = None,
        options: dict[str, Any] | None = None,
        is_compiling: bool = False,
    ) -> None:
        check_flag("is_compiling", is_compiling)
        super().__init__(dynamic=dynamic)
        self._is_compiling = is_compiling
        self.lowering = Lowering(backend, options)
        self._backend = TORCH, self.lowering


def graph_modules(compiled: Any) -> list[Any]:
    """The ``torch.fx.GraphModule`` of each graph that was captured so far, in order; under :class:`enabled`, too."""
    holder = compiled if isinstance(compiled, enabled) else _jit_of(compiled)
    return list(holder.lowering.graph_modules)


def explain(compiled: Any) -> Callable[..., Explanation]:
    """``explain(f)(*args)`` calls a compiled ``f`` and tells what was captured."""
    if isinstance(compiled, CompiledModule):
        captured, model, _ = compiled._evalframe
        return lambda *args, **kwargs: explain_jit(captured)(model, *args, **kwargs)
    return explain_jit(_jit_of(compiled))


def _jit_of(compiled: Any) -> Any:
    jit = compiled._evalframe[0] if isinstance(compiled, CompiledModule) else compiled
    if not isinstance(jit, _core.Jit) or not hasattr(jit, "lowering"):
        raise TypeError(f"needs what evalframe.torch.compile has returned, not {type(compiled).__name__}")
    return jit
