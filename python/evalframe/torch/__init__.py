"""evalframe for PyTorch: ``compile`` captures functions and modules for any backend of ``torch.compile``.

Importing it imports torch, which is an extra: ``pip install 'evalframe[torch]'``.
"""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("torch") is None:
    raise ModuleNotFoundError(
        "evalframe.torch needs PyTorch, which isn't installed: pip install 'evalframe[torch]'", name="torch"
    )

from evalframe import _core
from evalframe.torch.compiling import CompiledModule, compile, enabled, explain, graph_modules
from evalframe.torch.higher_order import add_operators
from evalframe.torch.modules import watch_modules
from evalframe.torch.operators import watch_operators
from evalframe.torch.stand_ins import add_stand_ins

_core.watch_torch()
add_stand_ins()
add_operators()
watch_operators()
watch_modules()

__all__ = ["CompiledModule", "compile", "enabled", "explain", "graph_modules"]
