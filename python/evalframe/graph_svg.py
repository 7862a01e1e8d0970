"""Draws a captured graph as SVG: boxes from inputs down to results, and lines from each value to where it is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evalframe.captured import CapturedGraph, GraphRow, Place

_MOST_ROWS = 300  # drawn; beyond them the list says more
_LETTER, _HEIGHT, _GAP, _RISE, _LETTERS, _LANE = 7.3, 38, 16, 34, 34, 4.0


@dataclass
class _Box:
    """A box, or a place where a line passes between the boxes of a level."""

    row: GraphRow | None
    level: int
    width: float
    above: list[_Box] = field(default_factory=list)  # what lines lead to it from, a level higher
    x: float = 0.0

    @property
    def y(self) -> float:
        return self.level * (_HEIGHT + _RISE) + 2.0

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


def svg(graph: CapturedGraph, key_of: Callable[[Place], str] | None = None) -> str:
    """The drawing; "" for a graph that is empty or too large for one. `key_of` names the source line of a node, which
    becomes its `data-at`."""
    if not 0 < len(graph.rows) <= _MOST_ROWS:
        return ""
    boxes = _placed(graph.rows)
    width = max(box.x + box.width for box in boxes) + 2
    height = max(box.y for box in boxes) + _HEIGHT + 2
    lines = "".join(_edge(above, box) for box in boxes for above in box.above)
    shapes = "".join(_shape(box, box.row, key_of) if box.row else _passing(box) for box in boxes)
    return (
        f'<svg class="graph" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label="{escape(graph.title, quote=True)}">'
        f"{lines}{shapes}</svg>"
    )


def parts_of(row: GraphRow) -> tuple[str, str]:
    """What the row is, without its name, and its type: "binary +(i0, 1)" and "float64[3]"."""
    text, _, kind = row.text.partition(" = ")[2].rpartition(": ")
    return text, kind


def _placed(rows: Sequence[GraphRow]) -> list[_Box]:
    """Boxes below all that they are made of, and near it: in a level ordered by where their lines come from."""
    levels = _levels(rows)
    boxes = {row.name: _Box(row, levels[row.name], _width(row)) for row in rows}
    passing: dict[tuple[str, int], _Box] = {}

    def at(name: str, level: int) -> _Box:
        """The box, or the place where its lines pass through a level below it."""
        if level == boxes[name].level:
            return boxes[name]
        if (name, level) not in passing:
            passing[name, level] = _Box(None, level, _LANE, [at(name, level - 1)])
        return passing[name, level]

    for row in rows:
        boxes[row.name].above = [at(name, levels[row.name] - 1) for name in row.operands]
    found = [*boxes.values(), *passing.values()]
    for level in range(max(levels.values()) + 1):
        x = 2.0
        for box in sorted((box for box in found if box.level == level), key=_wished):
            box.x = x
            x += box.width + _GAP
    return found


def _levels(rows: Sequence[GraphRow]) -> dict[str, int]:
    """How deep each row stands; inputs stand just above their first use."""
    levels: dict[str, int] = {}
    first_use: dict[str, int] = {}
    for row in rows:
        levels[row.name] = max((levels[name] + 1 for name in row.operands), default=0)
        for name in row.operands:
            first_use[name] = min(first_use.get(name, len(rows)), levels[row.name])
    inputs = {row.name for row in rows if row.place is None}
    return {name: first_use.get(name, 1) - 1 if name in inputs else level for name, level in levels.items()}


def _wished(box: _Box) -> float:
    return sum(above.middle for above in box.above) / len(box.above) if box.above else 0.0


def _width(row: GraphRow) -> float:
    text, kind = parts_of(row)
    return max(len(_short(f"{row.name}  {text}")), len(_short(kind))) * _LETTER + 16


def _short(text: str) -> str:
    return text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"


def _edge(above: _Box, below: _Box) -> str:
    x0, y0, x1, y1 = above.middle, above.y + _HEIGHT, below.middle, below.y
    bend = (y1 - y0) / 2
    return f'<path d="M{x0:.0f} {y0:.0f}C{x0:.0f} {y0 + bend:.0f} {x1:.0f} {y1 - bend:.0f} {x1:.0f} {y1:.0f}"/>'


def _passing(box: _Box) -> str:
    return f'<path d="M{box.middle:.0f} {box.y:.0f}v{_HEIGHT}"/>'


def _shape(box: _Box, row: GraphRow, key_of: Callable[[Place], str] | None) -> str:
    text, kind = parts_of(row)
    at = f' data-at="{escape(key_of(row.place), quote=True)}"' if row.place and key_of else ""
    where = f", line {row.place.line}" if row.place else ""
    return (
        f'<g class="{"node" if row.place else "input"}"{at}><title>{escape(row.text + where)}</title>'
        f'<rect x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{_HEIGHT}" rx="5"/>'
        f'<text x="{box.x + 8:.0f}" y="{box.y + 16:.0f}">{escape(_short(f"{row.name}  {text}"))}</text>'
        f'<text class="kind" x="{box.x + 8:.0f}" y="{box.y + 31:.0f}">{escape(_short(kind))}</text></g>'
    )
