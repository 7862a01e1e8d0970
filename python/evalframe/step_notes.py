"""What the recorder noted at the instructions that a trace shows: nodes of graphs, effects, where
graphs end and why, guards."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Notes:
    """Texts by instruction, and by function for its beginning."""

    at: dict[tuple[str, str, int], list[str]] = field(default_factory=dict)
    at_begin: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def of(self, file: str, function: str, offset: int, begins: bool) -> tuple[str, ...]:
        """The notes at the instruction; `begins`: those of the function's beginning, too."""
        found = self.at_begin.get((file, function), []) if begins else []
        return (*found, *self.at.get((file, function, offset), ()))

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Takes the rows of documents of `evalframe graph --json` and `evalframe guards --json`."""
        for row in rows:
            place = row["place"]
            if place is not None:
                self._put(self.at, (place["file"], place["function"], place["offset"]), _text(row))
            elif "fact" in row and row["start"] == "start":
                self._put(self.at_begin, (row["file"], row["function"]), _text(row))

    def _put(self, where: dict[Any, list[str]], key: Any, text: str) -> None:
        texts = where.setdefault(key, [])
        if text not in texts:
            texts.append(text)


def _text(row: Mapping[str, Any]) -> str:
    of = f"graph {row['graph']} of {row['function']}"
    if "fact" in row:
        return f"guard of {of}: {row['subject']} {row['fact']}"
    if row["name"] == "end":
        return f"{of} ends: {row['text']}"
    return f"effect in {of}: {row['text']}" if row["effect"] == "effect" else f"{of}: {row['text']}"


def notes_of_function(function: Any) -> Notes:
    """Those of a function that was captured before."""
    from evalframe.captured import graphs, guards

    notes = Notes()
    notes.add(map(json.loads, graphs(function).json()))
    notes.add(map(json.loads, guards(function).json()))
    return notes


def notes_of_files(paths: Iterable[str]) -> Notes:
    """Those of documents; ValueError with the reason where a file is none."""
    notes = Notes()
    for path in paths:
        try:
            notes.add(json.loads(Path(path).read_text(encoding="utf-8")))
        except OSError as error:
            raise ValueError(f"can't open file {path!r}: [Errno {error.errno}] {error.strerror}") from error
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            what = "`evalframe graph --json` and `evalframe guards --json`"
            raise ValueError(f"{path} is no document of {what}: {error!r}") from error
    return notes
