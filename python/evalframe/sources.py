"""Files with the Python source of generated code, for debuggers and tracebacks."""

from __future__ import annotations

import os
import re
import types
from pathlib import Path

from evalframe import _core
from evalframe.bytecode import Bytecode, Position
from evalframe.decompiler import DecompileReport, decompile_report

__all__ = ["debug_source"]


class debug_source:
    """Writes the source of transformed code and resume functions to files in `folder`, from now until `close()`.

        with evalframe.debug_source("generated"):
            entries = entries_of(captured)

    Code that is made meanwhile stands in those files: debuggers stop at their lines, and tracebacks show them. It stays
    so afterwards. All other code, and code that was made before or is made later, is where the user wrote it. Of
    several that are open, the last one opened gets the code.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder).absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        #: The files that were written, in order.
        self.files: list[Path] = []
        _open.append(self)
        _core.set_code_finisher(_finished)

    def close(self) -> None:
        """Code that is made from now on has no file."""
        if self in _open:
            _open.remove(self)
        if not _open:
            _core.set_code_finisher(None)

    def __enter__(self) -> debug_source:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def write(self, code: types.CodeType) -> types.CodeType:
        """The same code, with its source in a new file; the code itself where it has none."""
        report = decompile_report(code, generated=True)
        if report.source is None:
            return code
        # What is made of a resume function is made of its original.
        origin = _origins.get(code.co_filename, f"{code.co_filename}:{code.co_firstlineno}")
        head = f"# Made by evalframe of {origin}\n"
        path = self._new_file(code.co_name)
        _origins[str(path)] = origin
        path.write_text(head + report.source, encoding="utf-8")
        self.files.append(path)
        return _placed(code, str(path), report)

    def _new_file(self, name: str) -> Path:
        stem = re.sub(r"\W", "_", name)
        number = 0
        while (path := self.folder / (f"{stem}_{number}.py" if number else f"{stem}.py")).exists():
            number += 1
        return path


_open: list[debug_source] = []
# Where the user wrote what a file was made of.
_origins: dict[str, str] = {}


def _finished(code: types.CodeType) -> types.CodeType:
    return _open[-1].write(code) if _open else code


def _placed(code: types.CodeType, file: str, report: DecompileReport) -> types.CodeType:
    """Each instruction on its line, in the file behind the head's; those that no line tells of go with the next one."""
    body = Bytecode.from_code(code.replace(co_filename=file, co_firstlineno=2))
    line = max(report.lines.values(), default=1)
    for index in range(len(body.instructions) - 1, -1, -1):
        line = report.lines.get(index, line)
        body.instructions[index].position = Position(line + 1, line + 1)
    return body.assemble()
