"""Code objects as lists of canonical instructions that can be read, edited, verified and assembled.

    body = Bytecode.from_code(function)
    for instruction in body:
        if instruction.opname == "BINARY_OP" and instruction.argval == "+":
            instruction.argval = "*"
    function.__code__ = body.assemble()

Jumps and exception handlers refer to instructions, not to numbers, so inserting and removing keeps them right.
"""

import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from evalframe._core import bytecode as _core

__all__ = ["FOLLOWING", "OPNAMES", "Bytecode", "Handler", "Instruction", "Position", "code_of", "listing", "verify"]

#: The canonical instructions by name, with what the argument of each means.
OPNAMES: Final[dict[str, str]] = _core.ARGUMENT_KINDS

_OPERATORS: Final[dict[str, tuple[str, ...]]] = {
    "BINARY_OP": tuple(symbol for symbol, _ in _core.OPERATORS["binary"]),
    "COMPARE_OP": tuple(symbol for symbol, _ in _core.OPERATORS["compare"]),
}
# Types whose equal values can stand for each other.
_PLAIN_TYPES = (int, str, bytes, bool, type(None))


class Position(NamedTuple):
    """Where in the source an instruction comes from; -1 where unknown."""

    line: int = -1
    end_line: int = -1
    column: int = -1
    end_column: int = -1


class _Following:
    def __repr__(self) -> str:
        return "FOLLOWING"


class _Unset:
    def __repr__(self) -> str:
        return "unset"


#: The position or handler of an inserted instruction: that of the instruction which follows it.
FOLLOWING: Final = _Following()
_UNSET: Final = _Unset()


class Handler:
    """An exception handler; instructions that share the object form one region of the exception table."""

    __slots__ = ("depth", "lasti", "target")

    def __init__(self, target: "Instruction", depth: int, lasti: bool = False) -> None:
        self.target = target
        self.depth = depth
        self.lasti = lasti

    def __repr__(self) -> str:
        return f"Handler({self.target!r}, depth={self.depth}, lasti={self.lasti})"


class Instruction:
    """One canonical instruction. Give `arg` (a number) or `argval` (what it refers to); setting one resets the other.

    `argval` is the constant, the name, the variable's name, or the operator ("+", "<="). `arg2` is the second argument
    of those that have one (-1: none). `target` is the instruction jumped to.
    """

    __slots__ = ("_arg", "_argval", "arg2", "fused", "handler", "offset", "opname", "position", "target")

    def __init__(
        self,
        opname: str,
        arg: int | None = None,
        *,
        argval: Any = _UNSET,
        arg2: int = -1,
        target: "Instruction | None" = None,
        position: Position | _Following = FOLLOWING,
        handler: Handler | _Following | None = FOLLOWING,
    ) -> None:
        if opname not in OPNAMES:
            raise ValueError(f"there is no canonical instruction {opname!r}; evalframe.bytecode.OPNAMES lists them")
        self.opname = opname
        self._arg = arg
        self._argval = argval
        self.arg2 = arg2
        self.target = target
        self.position = position
        self.handler = handler
        self.offset = -1  # in bytes, in the code object it was decoded from
        self.fused = False  # one of CPython's instructions together with the next one (3.13)

    @property
    def arg(self) -> int | None:
        return self._arg

    @arg.setter
    def arg(self, value: int) -> None:
        self._arg = value
        self._argval = _UNSET

    @property
    def argval(self) -> Any:
        return None if self._argval is _UNSET else self._argval

    @argval.setter
    def argval(self, value: Any) -> None:
        self._argval = value
        self._arg = None

    def __repr__(self) -> str:
        if self.target is not None:
            return f"<{self.opname} to {self.target.opname} at {self.target.offset}>"
        shown = self._arg if self._argval is _UNSET else self._argval
        return f"<{self.opname}>" if shown is None and OPNAMES[self.opname] == "none" else f"<{self.opname} {shown!r}>"


class Bytecode:
    """The instructions of one code object; `instructions` is a list to be edited freely."""

    def __init__(self, code: types.CodeType, instructions: Iterable[Instruction]) -> None:
        self.code = code
        self.instructions = list(instructions)

    @classmethod
    def from_code(cls, source: Callable[..., Any] | types.CodeType) -> "Bytecode":
        """The instructions of a Python function, method or code object."""
        code = code_of(source)
        rows, regions = _core.decode(code)
        variables = _variables(code)
        instructions = [_decoded(row, code, variables) for row in rows]
        for instruction, row in zip(instructions, rows, strict=True):
            if row[3] >= 0:
                instruction.target = instructions[row[3]]
        for start, end, target, depth, lasti in regions:
            handler = Handler(instructions[target], depth, lasti)
            for instruction in instructions[start:end]:
                instruction.handler = handler
        return cls(code, instructions)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(tuple(self.instructions))

    def __len__(self) -> int:
        return len(self.instructions)

    def __str__(self) -> str:
        return listing(self.assemble())

    def insert_before(self, instruction: Instruction, *new: Instruction) -> None:
        """Puts `new` before `instruction`; what jumped to `instruction` then jumps to the first of them."""
        at = self._index(instruction)
        if not new:
            return
        self._retarget(instruction, new[0])
        self.instructions[at:at] = new

    def insert_after(self, instruction: Instruction, *new: Instruction) -> None:
        """Puts `new` behind `instruction`; jumps to what follows skip them."""
        at = self._index(instruction) + 1
        self.instructions[at:at] = new

    def remove(self, instruction: Instruction) -> None:
        """Takes `instruction` out; what jumped to it then jumps to the one behind it."""
        at = self._index(instruction)
        if at + 1 < len(self.instructions):
            self._retarget(instruction, self.instructions[at + 1])
        del self.instructions[at]

    def replace(self, instruction: Instruction, *new: Instruction) -> None:
        """Puts `new` in the place of `instruction`; they take over its position, its handler and the jumps to it."""
        if not new:
            return self.remove(instruction)
        at = self._index(instruction)
        for each in new:
            each.position = instruction.position if each.position is FOLLOWING else each.position
            each.handler = instruction.handler if each.handler is FOLLOWING else each.handler
        self._retarget(instruction, new[0])
        self.instructions[at : at + 1] = new
        return None

    def assemble(self) -> types.CodeType:
        """A new code object of these instructions, verified; its stack size, jumps and tables are made anew.

        ValueError where the code could not run: it names the function, the instruction, and what to do.
        """
        return _Assembler(self.code, self.instructions).assemble()

    def _index(self, instruction: Instruction) -> int:
        for index, each in enumerate(self.instructions):
            if each is instruction:
                return index
        raise ValueError(f"{instruction!r} is not among the instructions of {self.code.co_qualname}")

    def _retarget(self, old: Instruction, new: Instruction) -> None:
        for each in self.instructions:
            if each.target is old:
                each.target = new
            if isinstance(each.handler, Handler) and each.handler.target is old:
                each.handler.target = new


class _Assembler:
    """Turns instructions that refer to objects and to each other into rows of numbers."""

    def __init__(self, code: types.CodeType, instructions: Sequence[Instruction]) -> None:
        self.code = code
        self.instructions = instructions
        self.constants = list(code.co_consts)
        self.names = list(code.co_names)
        self.variables = _variables(code)
        self.new_variables: list[str] = []
        self.index_of = {id(instruction): index for index, instruction in enumerate(instructions)}

    def assemble(self) -> types.CodeType:
        if len(self.index_of) != len(self.instructions):
            raise ValueError(
                f"{self.code.co_qualname}: an instruction stands in the list twice; make a new one instead"
            )
        positions = self._positions()
        arguments = [self._argument(instruction) for instruction in self.instructions]
        rows = [
            (each.opname, self._moved(each, arg), each.arg2, self._target(each), each.fused, position, each.offset)
            for each, arg, position in zip(self.instructions, arguments, positions, strict=True)
        ]
        code: types.CodeType = _core.assemble(
            self._base(), rows, self._regions(), tuple(self.constants), tuple(self.names)
        )
        return code

    def _base(self) -> types.CodeType:
        if not self.new_variables:
            return self.code
        variables = (*self.code.co_varnames, *self.new_variables)
        return self.code.replace(co_varnames=variables, co_nlocals=len(variables))

    def _argument(self, instruction: Instruction) -> int:
        kind = OPNAMES.get(instruction.opname)
        for number in (instruction._arg, instruction.arg2):
            if number is not None and not -1 <= number < 2**31:
                self._fail(instruction, f"can't have the argument {number}; arguments are 0 to {2**31 - 1}")
        if instruction._arg is not None:
            return instruction._arg
        value = instruction._argval
        if isinstance(value, _Unset):
            return 0 if kind in ("none", "jump") else self._fail(instruction, "needs an arg or an argval")
        if kind == "constant":
            return self._constant(value)
        if kind == "name" and isinstance(value, str):
            return _index_or_append(self.names, value)
        if kind == "local" and isinstance(value, str):
            return self._variable(value)
        if value in _OPERATORS.get(instruction.opname, ()):
            return _OPERATORS[instruction.opname].index(value)
        return self._fail(instruction, f"can't have the argval {value!r}; give it its arg as a number")

    def _constant(self, value: object) -> int:
        for index, known in enumerate(self.constants):
            if known is value or (type(known) is type(value) and type(value) in _PLAIN_TYPES and known == value):
                return index
        self.constants.append(value)
        return len(self.constants) - 1

    def _variable(self, name: str) -> int:
        """The slot in the original; new variables count on from there."""
        if name not in self.variables:
            self.variables.append(name)
            self.new_variables.append(name)
        return self.variables.index(name)

    def _moved(self, instruction: Instruction, arg: int) -> int:
        """The slot with the new variables in their place: behind the other locals, before cells and free variables."""
        old, new, local = len(self.variables) - len(self.new_variables), len(self.new_variables), self.code.co_nlocals
        if OPNAMES[instruction.opname] != "local" or new == 0 or arg < local:
            return arg
        return arg - old + local if arg >= old else arg + new

    def _target(self, instruction: Instruction) -> int:
        if OPNAMES[instruction.opname] != "jump":
            return -1
        if instruction.target is None:
            return self._fail(instruction, "needs a target")
        return self._place(instruction, instruction.target)

    def _place(self, instruction: Instruction, target: Instruction) -> int:
        index = self.index_of.get(id(target))
        if index is None:
            return self._fail(instruction, f"leads to {target!r}, which isn't in the list; remove() keeps jumps right")
        return index

    def _positions(self) -> list[Position]:
        known = Position()
        positions = []
        for each in reversed(self.instructions):
            if isinstance(each.position, Position):
                known = each.position
            positions.append(known)
        return positions[::-1]

    def _regions(self) -> list[tuple[int, int, int, int, bool]]:
        """The exception table: one row for each run of instructions with the same handler."""
        handlers: list[Handler | None] = []
        known: Handler | None = None
        for each in reversed(self.instructions):
            if not isinstance(each.handler, _Following):
                known = each.handler
            handlers.append(known)
        handlers.reverse()
        regions: list[tuple[int, int, int, int, bool]] = []
        start = 0
        for index, handler in enumerate(handlers):
            if index + 1 < len(handlers) and handlers[index + 1] is handler:
                continue
            if handler is not None:
                target = self._place(self.instructions[index], handler.target)
                regions.append((start, index + 1, target, handler.depth, handler.lasti))
            start = index + 1
        return regions

    def _fail(self, instruction: Instruction, text: str) -> int:
        index = self.index_of[id(instruction)]
        raise ValueError(f"{self.code.co_qualname}, instruction {index} ({instruction.opname}): it {text}")


def verify(original: Callable[..., Any] | types.CodeType, replacement: Callable[..., Any] | types.CodeType) -> None:
    """ValueError where frames of `original` can't run `replacement`: it must keep all variables in their order."""
    _core.stack_size(code_of(replacement))
    _core.verify_replacement(code_of(original), code_of(replacement))


def listing(source: Callable[..., Any] | types.CodeType) -> str:
    """The instructions of a function or code object as text, one a line, and the exception table."""
    text: str = _core.listing(code_of(source))
    return text


def code_of(source: object) -> types.CodeType:
    """The code object of a Python function, method or code object."""
    function = getattr(source, "__func__", source)
    code = getattr(function, "__code__", function)
    if not isinstance(code, types.CodeType):
        raise TypeError(
            f"a Python function or a code object is needed, not {type(source).__name__}, which has no bytecode"
        )
    return code


def _variables(code: types.CodeType) -> list[str]:
    """The names of localsplus: arguments and locals, cells that are no arguments, free variables."""
    cells = [name for name in code.co_cellvars if name not in code.co_varnames]
    return [*code.co_varnames, *cells, *code.co_freevars]


def _decoded(row: tuple[Any, ...], code: types.CodeType, variables: list[str]) -> Instruction:
    opname, arg, arg2, _, fused, position, offset = row
    instruction = Instruction(opname, arg, arg2=arg2, position=Position(*position), handler=None)
    instruction.fused = fused
    instruction.offset = offset
    table = {"constant": code.co_consts, "name": code.co_names, "local": variables}.get(OPNAMES[opname])
    if table is None:
        table = _OPERATORS.get(opname)
    if table is not None and arg < len(table):
        instruction._argval = table[arg]
    return instruction


def _index_or_append(table: list[str], name: str) -> int:
    if name not in table:
        table.append(name)
    return table.index(name)
