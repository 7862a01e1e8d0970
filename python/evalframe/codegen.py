"""The code that is made of what was captured: transformed code objects, and resume functions behind their breaks."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

from evalframe import _core
from evalframe.bytecode import code_of, listing
from evalframe.dis import text

__all__ = ["Entry", "entries_of", "run_transformed"]


class Entry(dict[str, Any]):
    """What was recorded at one place, and the code that is made of it."""

    #: The transformed code object: loads inputs, calls the compiled graph, and returns or breaks. None: see `no_code`.
    code: types.CodeType | None
    #: Why there is no code object; empty where there is one.
    no_code: str
    #: What the code goes on with behind its break: a function for each way on, the exception handler's included. A code
    #: object stands for a function that is made anew in each call, as its cells are the call's own.
    resume_functions: list[types.FunctionType | types.CodeType]

    def __init__(self, facts: dict[str, Any], generated: tuple[Any, ...]) -> None:
        super().__init__(facts)
        self.code, resumes, self.no_code, self._accepts = generated
        self.resume_functions = [getattr(resume, "__wrapped__", resume) for resume in resumes]

    def accepts(self, *arguments: object) -> bool:
        """Whether the guards hold for these arguments, given in the order of the parameters: then the code may run."""
        accepted: bool = self._accepts(*arguments)
        return accepted

    def listing(self) -> str:
        """The transformed code object and its resume functions as canonical instructions."""
        if self.code is None:
            return f"no code object: {self.no_code}\n"
        return "\n".join(text(each) for each in (self.code, *self.resume_functions))

    def code_lines(self) -> Iterator[str]:
        """The code for an explanation: its instructions, and what it goes on with."""
        if self.code is None:
            yield f"no transformed code object: {self.no_code}"
            return
        yield "transformed code object:"
        yield from ("  " + line for line in listing(self.code).splitlines())
        for resume in self.resume_functions:
            code = code_of(resume)
            yield f"goes on in {code.co_name}({', '.join(code.co_varnames[: code.co_argcount])})"


def entries_of(captured: Any, *, capture_resumed: bool = True) -> list[Entry]:
    """The entries of a function made by :func:`evalframe.jit`, with their code.

    Resume functions are captured, too, unless `capture_resumed` is false or they begin inside a loop: each of its turns
    would be one call deeper. Whoever calls a captured function holds its arguments while it runs, so an object that a
    variable drops behind a break then lives to the function's end.
    """
    generated = _core.generated_code(captured, capture_resumed)
    return [Entry(facts, code) for facts, code in zip(_core.jit_entries(captured), generated, strict=True)]


def run_transformed(
    captured: Any, *, capture_resumed: bool = True
) -> Callable[[_core.FrameInfo], types.CodeType | None]:
    """A callback for :func:`evalframe.hook`: the captured function's frames run transformed code while guards hold."""
    function = captured.__wrapped__
    entries = [entry for entry in entries_of(captured, capture_resumed=capture_resumed) if entry.code is not None]

    def callback(frame: _core.FrameInfo) -> types.CodeType | None:
        if frame.function is not function:
            return None
        arguments = tuple(frame.locals.values())
        return next((entry.code for entry in entries if entry.accepts(*arguments)), None)

    return callback
