"""The kernels rewritten for JAX as its users would write them: `version_of` gives one, or none.

JAX starts threads when it is imported, which nothing does until a version is asked for: in the kernel's own process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module, util
from typing import Any

THEMES = ("products", "factorisations", "stencils", "weather", "dynamics", "signals", "networks", "finance")


@dataclass(frozen=True)
class Version:
    """`function` is compiled, takes what the kernel takes and returns what that returns.

    Where that changes some of its arguments, the `changed` ones by their places, it returns these behind the result.
    """

    function: Callable[..., Any]
    changed: tuple[int, ...]

    def outcome(self, arguments: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """The result, and the arguments as the kernel would have left them."""
        given = self.function(*arguments)
        result, *new = given if self.changed else (given,)
        left = list(arguments)
        for place, value in zip(self.changed, new, strict=True):
            left[place] = value
        return result, tuple(left)


VERSIONS: dict[str, Version] = {}


def version(
    *names: str, static: tuple[str, ...] = (), changed: tuple[int, ...] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Puts a function into the table, for these kernels; `static` parameters are known when it is compiled."""
    import jax

    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        compiled = jax.jit(function, static_argnames=static)
        for name in names:
            if name in VERSIONS:
                raise ValueError(f"there are two versions of {name}")
            VERSIONS[name] = Version(compiled, changed)
        return function

    return put


def version_of(name: str, theme: str) -> Version | None:
    """Of the kernel of that theme; None: there is none, or no JAX."""
    if theme not in THEMES or util.find_spec("jax") is None:
        return None
    import jax

    jax.config.update("jax_enable_x64", True)
    import_module(f".{theme}", __name__)
    return VERSIONS.get(name)
