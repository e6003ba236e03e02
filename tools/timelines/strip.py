"""Strips of operators: for each operator, the records that go in, what it keeps, and the records that come out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from string import Template
from xml.sax.saxutils import escape

from tools.timelines.sheet import FONT, MARGIN, WIDTH, paper, sheet
from tools.timelines.svg import element, text, text_width

__all__ = ["Cell", "Chip", "ChipKind", "Panel", "Strip", "draw_strip"]

TOP = 52
CHIP = 24
LINE = 31
"""The height of a chip with the space below it."""
ARROW = 30
"""The space between two columns, which holds the arrow."""
GAP = 20
"""The least space between two panels."""
HEAD = 64
"""The height of a panel above its first row: name, explanation and headings of the columns."""
BOLD = 15
"""The size that bold letters need, in pixels."""


class ChipKind(Enum):
    """Kinds of chips; the value is what the legend says."""

    RECORD = "record, from top to bottom in order of arrival"
    ROW = "row in a store"
    RESULT = "result"
    DELETION = "deletion: the value is null"


@dataclass(frozen=True)
class Chip:
    """A key and a value; a value of ``None`` is a null."""

    key: str
    value: str | None
    kind: ChipKind = ChipKind.RECORD
    note: str = ""
    """Written after the chip, such as the name of a topic."""

    @property
    def shown_kind(self) -> ChipKind:
        """The kind by which the chip is drawn."""
        return ChipKind.DELETION if self.value is None else self.kind

    @property
    def shown_value(self) -> str:
        """The value as written on the chip."""
        return "null" if self.value is None else self.value or '""'

    @property
    def body(self) -> int:
        """The width of the chip without its note."""
        return round(28 + text_width(self.key, BOLD) + text_width(self.shown_value, FONT))

    @property
    def width(self) -> int:
        """The width of the chip and its note."""
        return self.body + (round(6 + text_width(self.note, FONT)) if self.note else 0)

    def __str__(self) -> str:
        return f"{self.key}: {self.shown_value}" + (f" ({self.note})" if self.note else "")


Cell = tuple[Chip, ...] | str
"""Chips below each other, or a remark, such as "dropped"; an empty tuple leaves the place free."""


@dataclass(frozen=True)
class Panel:
    """One operator: its name, what it does here, and a row of cells for each record."""

    name: str
    about: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def described(self) -> str:
        """Returns the panel in words."""
        rows = "; ".join(
            ", ".join(f"{column} {_described(cell)}" for column, cell in zip(self.columns, row, strict=True) if cell)
            for row in self.rows
        )
        return f"{self.name}, {self.about}: {rows}."


def _described(cell: Cell) -> str:
    return cell if isinstance(cell, str) else " and ".join(map(str, cell))


@dataclass(frozen=True)
class Strip:
    """Panels from left to right, in as many lines as they need."""

    title: str
    panels: tuple[Panel, ...]

    @property
    def description(self) -> str:
        """The text that a screen reader gets."""
        return " ".join(panel.described() for panel in self.panels)


@dataclass
class _Box:
    """The place of a panel."""

    panel: Panel
    x: int = 0
    y: int = 0
    columns: list[int] = field(default_factory=list)
    """The widths of the columns."""

    def __post_init__(self) -> None:
        for number, heading in enumerate(self.panel.columns):
            cells = (_width(row[number]) for row in self.panel.rows)
            self.columns.append(round(max(text_width(heading, FONT), *cells)))

    @property
    def width(self) -> int:
        table = sum(self.columns) + ARROW * (len(self.columns) - 1)
        return round(max(table, text_width(self.panel.name, BOLD), text_width(self.panel.about, FONT)))

    @property
    def height(self) -> int:
        return HEAD + LINE * sum(_lines(row) for row in self.panel.rows)

    def start(self, column: int) -> int:
        """Returns where a column begins."""
        return self.x + sum(self.columns[:column]) + ARROW * column


def _width(cell: Cell) -> float:
    return text_width(cell, FONT) if isinstance(cell, str) else max((chip.width for chip in cell), default=0)


def _lines(row: tuple[Cell, ...]) -> int:
    return max(1 if isinstance(cell, str) else len(cell) for cell in row)


FONTS = """
text { font-family: sans-serif; font-size: 13px }
.title { font-size: 15px; font-weight: bold }
.name { font-family: monospace; font-weight: bold }
.key { font-weight: bold }
.faint { font-size: 12px }
.arrow { fill: none }
.deletion { stroke-dasharray: 4 3 }
"""
PAINT = Template("""
text { fill: $ink }
.faint { fill: $faint }
.paper { fill: $paper }
.edge { stroke: $line }
.arrow { stroke: $faint }
.record { fill: $window; stroke: $window_edge }
.row { fill: $grace; stroke: $grace_edge }
.result { fill: $version; stroke: $version_edge }
.deletion { fill: $paper; stroke: $faint }
""")


def draw_strip(strip: Strip) -> str:
    """Returns the SVG of a strip; the same bytes each time."""
    lines = _placed(strip)
    body = [text(MARGIN, 30, strip.title, "title")]
    for boxes in lines:
        body += [part for box in boxes for part in _panel(box)]
    edges = [boxes[0].y - 18 for boxes in lines[1:]]
    body += [element("line", class_="edge", x1=MARGIN, y1=y, x2=WIDTH - MARGIN, y2=y) for y in edges]
    bottom = max(box.y + box.height for box in lines[-1])
    body += _legend(strip, bottom + 16)
    height = bottom + 34
    return sheet(strip.title, strip.description, height, [paper(height), *body], FONTS, PAINT)


def _placed(strip: Strip) -> list[list[_Box]]:
    """Returns the panels by line, with their places; the panels of a line share the space that is left."""
    lines: list[list[_Box]] = [[]]
    most = WIDTH - 2 * MARGIN
    for box in map(_Box, strip.panels):
        if lines[-1] and sum(each.width for each in lines[-1]) + box.width + GAP * len(lines[-1]) > most:
            lines.append([])
        lines[-1].append(box)
    y = TOP
    for boxes in lines:
        space = (most - sum(box.width for box in boxes)) // len(boxes)
        x = MARGIN
        for box in boxes:
            box.x, box.y = x, y
            x += box.width + space
        y = max(box.y + box.height for box in boxes) + 26
    return lines


def _panel(box: _Box) -> Iterator[str]:
    yield text(box.x, box.y + 14, box.panel.name, "name")
    yield text(box.x, box.y + 32, box.panel.about, "faint")
    for number, heading in enumerate(box.panel.columns):
        yield text(box.start(number), box.y + 54, heading, "faint")
    y = box.y + HEAD + CHIP // 2
    for row in box.panel.rows:
        yield from _row(box, row, y)
        y += LINE * _lines(row)


def _row(box: _Box, row: tuple[Cell, ...], y: int) -> Iterator[str]:
    """Yields the cells of a row, with an arrow from each to the next that is not empty."""
    end: int | None = None
    for number, cell in enumerate(row):
        if not cell:
            continue
        x = box.start(number)
        if end is not None:
            yield element("path", class_="arrow", d=f"M{end + 6} {y}H{x - 6}m-5 -4l5 4l-5 4")
        if isinstance(cell, str):
            yield text(x, y + 4, cell, "faint")
        else:
            for place, chip in enumerate(cell):
                yield from _chip(chip, x, y + LINE * place)
        end = round(x + (text_width(cell, FONT) if isinstance(cell, str) else cell[0].width))


def _chip(chip: Chip, x: int, y: int) -> Iterator[str]:
    kind = chip.shown_kind.name.lower()
    yield element("rect", class_=kind, x=x, y=y - CHIP // 2, width=chip.body, height=CHIP, rx=4)
    parts = element("tspan", escape(chip.key), class_="key"), element("tspan", escape(chip.shown_value), dx=6)
    yield element("text", "".join(parts), x=round(x + chip.body / 2), y=y + 4, text_anchor="middle")
    if chip.note:
        yield text(x + chip.body + 6, y + 4, chip.note, "faint")


def _legend(strip: Strip, y: int) -> Iterator[str]:
    cells = [cell for panel in strip.panels for row in panel.rows for cell in row if not isinstance(cell, str)]
    shown = {chip.shown_kind for cell in cells for chip in cell}
    x = MARGIN
    for kind in (kind for kind in ChipKind if kind in shown):
        yield element("rect", class_=kind.name.lower(), x=x, y=y - 8, width=22, height=16, rx=3)
        yield text(x + 28, y + 4, kind.value, "faint")
        x += round(50 + text_width(kind.value, 12))
