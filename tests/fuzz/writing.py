"""The common ground of the strategies: lines, scopes, and choices that a seed (or hypothesis) makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

FUNCTIONS = {"function", "generator", "coroutine", "async generator"}
PREFIX = {"function": "", "generator": "", "coroutine": "async ", "async generator": "async "}
# What each holds, most often: numbers, a list or text, a Magic object, anything.
KINDS = {"a": "number", "b": "number", "c": "items", "d": "magic", "e": "any"}
VARIABLES = list(KINDS)
ARRAYS = {"f": "array", "g": "array"}  # of the programs that have any


@dataclass
class Function:
    """A function that the program has defined."""

    name: str
    kind: str
    positional: int = 0  # parameters that may be given by place
    required: int = 0
    names: list[str] = field(default_factory=list)  # that may be given by name
    keyword_only: list[str] = field(default_factory=list)


@dataclass
class Class:
    name: str
    attributes: list[str] = field(default_factory=list)
    methods: list[str] = field(default_factory=list)
    is_error: bool = False


@dataclass
class Scope:
    kind: str
    outer: Scope | None = None
    names: list[str] = field(default_factory=list)  # bound, most likely
    own: list[str] = field(default_factory=list)  # that statements may bind; the others are those of outer scopes
    declared: set[str] = field(default_factory=set)  # global or nonlocal
    parameters: list[str] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    classes: list[Class] = field(default_factory=list)
    generators: list[str] = field(default_factory=list)  # variables with a generator
    instances: list[tuple[str, Class]] = field(default_factory=list)
    loops: int = 0
    handlers: int = 0
    star: bool = False  # in except*: no way out but raising

    def known(self, what: str) -> list[Any]:
        """Of this scope and those around it."""
        found = list(getattr(self, what))
        outer = self.outer
        while outer is not None:
            if outer.kind != "class":
                found += getattr(outer, what)
            outer = outer.outer
        return found


class Writing:
    """A program that grows line by line."""

    def __init__(self, random: Random, weights: dict[str, int], version: tuple[int, int], size: int) -> None:
        self.random = random
        self.weights = weights
        self.version = version
        self.budget = size  # statements that are left
        self.lines: list[str] = []
        self.depth = 0
        self.count = 0
        self.scope = Scope("module")
        self.statement_weights: dict[str, int] = {}
        self.has_arrays = weights.get("arrays", 0) > 0
        self.kind_of = {**KINDS, **ARRAYS} if self.has_arrays else KINDS
        self.variables = list(self.kind_of)

    # --- choices -------------------------------------------------------------------------------------------------------
    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def pick(self, options: Any) -> Any:
        return options[self.random.randrange(len(options))]

    def weighted(self, options: dict[str, int]) -> str:
        names = [name for name, weight in options.items() if weight > 0]
        at = self.random.randrange(sum(options[name] for name in names))
        for name in names:
            at -= options[name]
            if at < 0:
                return name
        raise AssertionError

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    # --- lines ---------------------------------------------------------------------------------------------------------
    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    @contextmanager
    def inner(self, kind: str, parameters: list[str] | None = None) -> Iterator[Scope]:
        self.scope = Scope(kind, self.scope)
        self.scope.own = list(self.variables) if kind == "class" else []
        self.scope.parameters = list(parameters or [])
        self.scope.names = list(parameters or [])
        yield self.scope
        assert self.scope.outer is not None
        self.scope = self.scope.outer

    @contextmanager
    def changed(self, **values: Any) -> Iterator[None]:
        """Fields of the scope, for a block."""
        before = {name: getattr(self.scope, name) for name in values}
        for name, value in values.items():
            setattr(self.scope, name, value)
        yield
        for name, value in before.items():
            setattr(self.scope, name, value)

    def bind(self, name: str) -> str:
        if name not in self.scope.names:
            self.scope.names.append(name)
        return name

    def target(self, *kinds: str) -> str:
        """A variable to be bound that holds such values; without kinds, of any."""
        own = [name for name in self.scope.own if not kinds or self.kind_of[name] in kinds]
        if self.chance(3):
            return self.bind(self.pick(self.variables))
        return self.bind(self.pick(own) if own else self.fresh("v"))

    def begin_function(self) -> None:
        """Decides on each variable: this function's, an outer function's, or the module's, to be bound here or not."""
        scope = self.scope
        outer, visible = scope.outer, set()
        while outer is not None and outer.kind != "module":
            if outer.kind != "class":
                visible |= {name for name in [*outer.own, *outer.parameters] if name not in outer.declared}
            outer = outer.outer
        for name in self.variables:
            if name in scope.parameters:
                scope.own.append(name)
                continue
            choice = self.number(0, 99)
            if choice < 50:
                scope.own.append(name)
                if not self.chance(6):
                    self.line(f"{name} = {self.initial(name)}")
                    scope.names.append(name)
            elif choice < 50 + self.weights["outside"] * 3:
                self.line(f"{'nonlocal' if name in visible and not self.chance(25) else 'global'} {name}")
                scope.own.append(name)
                scope.declared.add(name)
                scope.names.append(name)

    def initial(self, name: str) -> str:
        options = {"number": ["1", "2", "0", "-3"], "items": ["[1, 2]", "'text'", "(3, 4)", "[]"], "magic": ["Magic(1)", "Magic(3)", "Thing(5)"], "any": ["None", "{'x': 1}", "Token(0)", "1.5"],
                   "array": ["np.arange(6.0) - 2", "np.ones(6)", "np.arange(6)", "np.linspace(0, 1, 6)"]}  # fmt: skip
        return str(self.pick(options[self.kind_of[name]]))

    def function_scope(self) -> Scope | None:
        return self.scope if self.scope.kind in FUNCTIONS else None

    def methods(self, prefix: str) -> dict[str, Callable[[], Any]]:
        return {name[len(prefix) :]: getattr(self, name) for name in dir(self) if name.startswith(prefix)}
