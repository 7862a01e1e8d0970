"""evalframe: a frame evaluation framework for CPython.

It captures unmodified NumPy programs as graphs with guards and runs them as native code.
"""

__version__ = "0.1.0"

import importlib
from typing import TYPE_CHECKING

from evalframe import bytecode, stand_ins  # noqa: F401
from evalframe._core import FrameInfo, Hook, Result, hook
from evalframe.dis import dis
from evalframe.headers import get_include
from evalframe.jit import Break, Explanation, GraphBreakError, Limit, Loop, enabled, explain, jit, stats
from evalframe.modes import disable, enable, enable_as_asked, evaluation_counts
from evalframe.policy import constant, followed, leaf, mark, reset, skip_modules, uncaptured
from evalframe.user_backends import BackendError, backends, register_backend
from evalframe.variables import Variable, VariableTable, variables

__all__ = [
    "BackendError",
    "Break",
    "CapturedGraph",
    "CodeObject",
    "DecompileError",
    "DecompileReport",
    "Explanation",
    "FrameInfo",
    "Graph",
    "GraphBreakError",
    "GuardTree",
    "Hook",
    "Limit",
    "Loop",
    "Node",
    "Result",
    "Slot",
    "Step",
    "Trace",
    "Value",
    "Variable",
    "VariableTable",
    "backends",
    "bytecode",
    "code",
    "constant",
    "debug_source",
    "decompile",
    "decompile_report",
    "dis",
    "disable",
    "enable",
    "enabled",
    "evaluation_counts",
    "explain",
    "followed",
    "get_include",
    "graphs",
    "guards",
    "hook",
    "jit",
    "leaf",
    "mark",
    "register_backend",
    "reset",
    "skip_modules",
    "stats",
    "step",
    "uncaptured",
    "variables",
]

if TYPE_CHECKING:
    from evalframe.captured import CapturedGraph, GuardTree, graphs, guards
    from evalframe.code_object import CodeObject, code
    from evalframe.decompiler import DecompileError, DecompileReport, decompile, decompile_report
    from evalframe.graph import Graph, Node, Value
    from evalframe.sources import debug_source
    from evalframe.steps import Slot, Step, Trace, step
else:
    _LATER = {
        **dict.fromkeys(("Graph", "Node", "Value"), "evalframe.graph"),
        **dict.fromkeys(("CapturedGraph", "GuardTree", "graphs", "guards"), "evalframe.captured"),
        **dict.fromkeys(("CodeObject", "code"), "evalframe.code_object"),
        **dict.fromkeys(("Slot", "Step", "Trace", "step"), "evalframe.steps"),
        **dict.fromkeys(("DecompileError", "DecompileReport", "decompile", "decompile_report"), "evalframe.decompiler"),
        "debug_source": "evalframe.sources",
    }

    def __getattr__(name: str) -> object:
        """What few programs need, imported when it is asked for."""
        if name == "torch":  # an extra, which is imported by whoever asks for it
            return importlib.import_module("evalframe.torch")
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
        return globals()[name]


enable_as_asked()
