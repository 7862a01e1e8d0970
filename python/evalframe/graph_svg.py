"""Draws a captured graph as SVG: boxes from inputs down to results, and lines from each value to where it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evalframe.captured import CapturedGraph, GraphRow, Place

_MOST_ROWS = 300  # drawn; beyond them the list says more
_LETTER, _HEIGHT, _GAP, _RISE, _LETTERS = 7.0, 38, 16, 34, 34


@dataclass
class _Box:
    row: GraphRow
    level: int
    x: float = 0.0
    width: float = 0.0

    @property
    def y(self) -> float:
        return self.level * (_HEIGHT + _RISE) + 2.0


def svg(graph: CapturedGraph, key_of: Callable[[Place], str] | None = None) -> str:
    """The drawing; "" for a graph that is empty or too large for one. `key_of` names the source line of a node, which
    becomes its `data-at`."""
    if not 0 < len(graph.rows) <= _MOST_ROWS:
        return ""
    boxes = _placed(graph.rows)
    width = max(box.x + box.width for box in boxes.values()) + 2
    height = max(box.y for box in boxes.values()) + _HEIGHT + 2
    lines = "".join(_edge(boxes[name], box) for box in boxes.values() for name in box.row.operands if name in boxes)
    shapes = "".join(_shape(box, key_of) for box in boxes.values())
    return (
        f'<svg class="graph" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label="{escape(graph.title, quote=True)}">'
        f"{lines}{shapes}</svg>"
    )


def parts_of(row: GraphRow) -> tuple[str, str]:
    """What the row is, without its name, and its type: "binary +(i0, 1)" and "float64[3]"."""
    text, _, kind = row.text.partition(" = ")[2].rpartition(": ")
    return text, kind


def _placed(rows: Sequence[GraphRow]) -> dict[str, _Box]:
    """Boxes below all that they are made of, and near it: in a level ordered by where their operands stand."""
    boxes: dict[str, _Box] = {}
    for row in rows:
        level = max((boxes[name].level + 1 for name in row.operands if name in boxes), default=0)
        boxes[row.name] = _Box(row, level, width=_width(row))
    for level in range(max(box.level for box in boxes.values()) + 1):
        at = [box for box in boxes.values() if box.level == level]
        at.sort(key=lambda box: _middle(box.row.operands, boxes))
        x = 2.0
        for box in at:
            box.x = x
            x += box.width + _GAP
    return boxes


def _middle(names: Sequence[str], boxes: Mapping[str, _Box]) -> float:
    middles = [boxes[name].x + boxes[name].width / 2 for name in names if name in boxes]
    return sum(middles) / len(middles) if middles else 0.0


def _width(row: GraphRow) -> float:
    text, kind = parts_of(row)
    return max(len(_short(f"{row.name}  {text}")), len(_short(kind))) * _LETTER + 16


def _short(text: str) -> str:
    return text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"


def _edge(above: _Box, below: _Box) -> str:
    x0, y0 = above.x + above.width / 2, above.y + _HEIGHT
    x1, y1 = below.x + below.width / 2, below.y
    bend = max(12.0, (y1 - y0) / 2)
    return f'<path d="M{x0:.0f} {y0:.0f}C{x0:.0f} {y0 + bend:.0f} {x1:.0f} {y1 - bend:.0f} {x1:.0f} {y1:.0f}"/>'


def _shape(box: _Box, key_of: Callable[[Place], str] | None) -> str:
    row, (text, kind) = box.row, parts_of(box.row)
    at = f' data-at="{escape(key_of(row.place), quote=True)}"' if row.place and key_of else ""
    where = f", line {row.place.line}" if row.place else ""
    return (
        f'<g class="{"node" if row.place else "input"}"{at}><title>{escape(row.text + where)}</title>'
        f'<rect x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{_HEIGHT}" rx="5"/>'
        f'<text x="{box.x + 8:.0f}" y="{box.y + 16:.0f}">{escape(_short(f"{row.name}  {text}"))}</text>'
        f'<text class="kind" x="{box.x + 8:.0f}" y="{box.y + 31:.0f}">{escape(_short(kind))}</text></g>'
    )
