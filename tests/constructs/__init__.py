"""Small functions of two arrays, one for each construct of Python, in a module for each area; `graphs.txt` has what each costs.

Every public function of a module with the parameters `x` and `y` is a construct. A module whose functions change what lives outside of
them has `reset()`, which is called before each run, and `state()`, which is compared behind it.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

AREAS = (
    "loops",
    "functions",
    "containers",
    "replayed",
    "pure",
    "comprehensions",
    "generators",
    "coroutines",
    "exceptions",
    "contexts",
    "classes",
    "records",
    "matching",
    "text",
    "library",
    "collected",
    "effects",
)


@dataclass
class Construct:
    name: str
    function: Callable[[Any, Any], Any]
    module: ModuleType

    def reset(self) -> None:
        getattr(self.module, "reset", lambda: None)()

    def state(self) -> Any:
        return getattr(self.module, "state", lambda: None)()


def _of_area(area: str) -> list[Construct]:
    module = importlib.import_module(f"constructs.{area}")
    return [
        Construct(f"{area}.{name}", function, module)
        for name, function in vars(module).items()
        if inspect.isfunction(function)
        and function.__module__ == module.__name__
        and not name.startswith("_")
        and list(inspect.signature(function).parameters) == ["x", "y"]
    ]


CONSTRUCTS = {construct.name: construct for area in AREAS for construct in _of_area(area)}
