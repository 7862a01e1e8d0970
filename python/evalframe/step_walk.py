"""Walks through a recorded run: to the next call, within a frame, to a line, to where a variable has last changed."""

from collections.abc import Callable
from functools import cached_property

from evalframe.steps import Step, Trace

_BETWEEN_CALLS = ("CALL_INTRINSIC",)  # names that begin as calls do, and are none


class Walk:
    """A place in a trace. Each way to go on gives False where it leads nowhere, and then stays."""

    def __init__(self, trace: Trace, number: int = 0) -> None:
        self.trace = trace
        self.number = number

    @property
    def step(self) -> Step:
        """The present step."""
        return self.trace[self.number]

    def to(self, number: int) -> bool:
        """To a step by its number."""
        if not 0 <= number < len(self.trace) or number == self.number:
            return False
        self.number = number
        return True

    def next(self) -> bool:
        """Forwards."""
        return self.to(self.number + 1)

    def back(self) -> bool:
        """Backwards."""
        return self.to(self.number - 1)

    def first(self) -> bool:
        """To the beginning."""
        return self.to(0)

    def last(self) -> bool:
        """To the end."""
        return self.to(len(self.trace) - 1)

    def over(self) -> bool:
        """Forwards in this frame, or in a caller where it ends."""
        level = self._level(self.number)
        return self._search(lambda number: self._level(number) <= level)

    def under(self) -> bool:
        """Backwards in this frame, or in its caller."""
        level = self._level(self.number)
        return self._search(lambda number: self._level(number) <= level, back=True)

    def out(self) -> bool:
        """Forwards to where the caller goes on."""
        level = self._level(self.number)
        return self._search(lambda number: self._level(number) < level)

    def call(self) -> bool:
        """To the next call."""
        return self._search(self._is_call)

    def graph(self) -> bool:
        """To the next node, effect or end of a graph."""
        return self._search(self._has_node)

    def line(self, line: int, back: bool = False) -> bool:
        """To where a line of the present file is next entered."""
        file = self._file(self.number)
        return self._search(lambda number: self._enters(number, file, line), back)

    def instruction(self, index: int, back: bool = False) -> bool:
        """To where an instruction of the present code object is run next."""
        trace, code = self.trace, self.trace.code_number(self.number)
        return self._search(
            lambda number: trace.instruction_index(number) == index and trace.code_number(number) == code, back
        )

    def made(self, index: int, is_name: bool = False) -> bool:
        """To the instruction that gave a slot (or a name of a namespace) what it has."""
        at = self.trace.last_change(self.number, index, is_name)
        previous = self.trace.previous(at)
        return self.to(at if previous is None else previous)

    def variable(self, name: str) -> bool:
        """The same for a variable by its name."""
        found = [slot for slot in (*self.step.slots, *self.step.names) if slot.name == name and slot.kind != "stack"]
        return bool(found) and self.made(found[0].index, found[0].kind == "name")

    def _search(self, fits: Callable[[int], bool], back: bool = False) -> bool:
        numbers = range(self.number - 1, -1, -1) if back else range(self.number + 1, len(self.trace))
        return any(fits(number) and self.to(number) for number in numbers)

    def _level(self, number: int) -> int:
        return self._levels[self.trace.node(number)]

    @cached_property
    def _levels(self) -> list[int]:
        levels: list[int] = []
        for parent in self.trace.parents:
            levels.append(0 if parent is None else levels[parent] + 1)
        return levels

    def _is_call(self, number: int) -> bool:
        name = self.trace.instruction_name(number)
        return name.startswith("CALL") and not name.startswith(_BETWEEN_CALLS)

    def _has_node(self, number: int) -> bool:
        return any(not note.startswith("guard ") for note in self.trace.noted(number))

    def _file(self, number: int) -> str:
        return self.trace.code_at(number).co_filename

    def _enters(self, number: int, file: str, line: int) -> bool:
        if self.trace.line(number) != line or self._file(number) != file:
            return False
        before = number - 1
        return before < 0 or self.trace.node(before) != self.trace.node(number) or self.trace.line(before) != line
