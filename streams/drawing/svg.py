"""A topology as SVG: a picture that any browser shows and that needs no other file."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from streams.drawing.graph import Box, Graph, Kind
from streams.drawing.layers import Edge, Layout, Point, place

_CHARACTER = 7.3
_LINE = 15.0
_SMALL = 5 / 6
"""The size of a node's own name below the call that made it."""
_LONGEST_LINE = 30
_PADDING = 14.0
_CAP = 7.0
"""How far the round ends of cylinders reach."""
_GAP = (28.0, 34.0)
_GROUP_GAP = (40.0, 52.0)
_GROUP_MARGIN = 18.0
_GROUP_TITLE = 26.0
_MARGIN = 16.0

_STYLE = """
text { font: 12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1c2733; text-anchor: middle; }
.small { font-size: 10px; fill: #55636f; }
.title { font-weight: bold; text-anchor: start; fill: #55636f; }
.group { fill: #f6f8fa; stroke: #b9c3cc; }
.box { stroke-width: 1.3; }
.source, .sink { fill: #e2f3e6; stroke: #2d8045; }
.processor { fill: #ffffff; stroke: #45535f; }
.store { fill: #fdf1d6; stroke: #b07d12; }
.topic, .internal-topic { fill: #e3eefc; stroke: #2f67b1; }
.internal-topic { stroke-dasharray: 5 3; }
.link { fill: none; stroke: #45535f; stroke-width: 1.3; }
.flows { marker-end: url(#arrow); }
.state { stroke: #b07d12; stroke-dasharray: 3 3; }
"""


@dataclass(frozen=True)
class _Group:
    """A subtopology, laid out by itself."""

    title: str
    boxes: Sequence[Box]
    layout: Layout
    width: float
    height: float

    def inner(self, box: str) -> Point:
        x, y = self.layout.places[box]
        return x + _GROUP_MARGIN, y + _GROUP_MARGIN + _GROUP_TITLE


def svg(graph: Graph) -> str:
    """Returns the graph as a document, ending with a newline.

    Each subtopology is laid out by itself; they and the topics between them then are the boxes of the whole picture.
    """
    return _Drawing(graph).document()


class _Drawing:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._boxes = {box.id: box for group in graph.groups.values() for box in group}
        self._boxes |= {topic.id: topic for topic in graph.topics}
        self._group_of = {box.id: title for title, boxes in graph.groups.items() for box in boxes}
        self._groups = {title: self._group(title, boxes) for title, boxes in graph.groups.items()}
        self._outside = [link for link in graph.links if not self._is_inside(link.source, link.target)]
        sizes = {title: (group.width, group.height) for title, group in self._groups.items()}
        topics = {topic.id: _size(topic) for topic in graph.topics}
        self._whole = place(topics | sizes, [self._edge(*ends) for ends in self._ends()], gap=_GROUP_GAP)

    def _is_inside(self, source: str, target: str) -> bool:
        return source in self._group_of and target in self._group_of

    def _group(self, title: str, boxes: Sequence[Box]) -> _Group:
        ids = {box.id for box in boxes}
        links = [link for link in self._graph.links if link.source in ids and link.target in ids]
        layout = place(
            {box.id: _size(box) for box in boxes},
            [Edge(link.source, link.target) for link in links],
            gap=_GAP,
            top=[box.id for box in boxes if box.kind is Kind.SOURCE],
            bottom=[box.id for box in boxes if box.kind is Kind.SINK],
        )
        width = max(layout.width, len(title) * _CHARACTER) + 2 * _GROUP_MARGIN
        return _Group(title, boxes, layout, width, layout.height + 2 * _GROUP_MARGIN + _GROUP_TITLE)

    def _ends(self) -> list[tuple[str, str]]:
        return [(link.source, link.target) for link in self._outside]

    def _edge(self, source: str, target: str) -> Edge:
        """Returns the edge between two boxes; at a box inside of a group it ends at the group's border, right above or
        below the box."""
        (first, leaves), (second, enters) = self._outer(source), self._outer(target)
        return Edge(first, second, leaves, enters)

    def _outer(self, box: str) -> tuple[str, float | None]:
        title = self._group_of.get(box)
        if title is None:
            return box, None
        return title, self._groups[title].inner(box)[0] + _size(self._boxes[box])[0] / 2

    # ------------------------------------------------------------------ text

    def document(self) -> str:
        width, height = self._whole.width + 2 * _MARGIN, self._whole.height + 2 * _MARGIN
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}"'
            f' height="{height:.0f}" role="img" aria-label="Topology">',
            f"<style>{_STYLE}</style>",
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7"'
            ' orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#45535f"/></marker></defs>',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            f'<g transform="translate({_MARGIN:.0f},{_MARGIN:.0f})">',
        ]
        lines += self._frames()
        lines += self._inner_links()
        lines += self._outer_links()
        lines += [_shape(box, self._at(box.id)) for box in self._boxes.values()]
        return "\n".join([*lines, "</g>", "</svg>"]) + "\n"

    def _at(self, box: str) -> Point:
        title = self._group_of.get(box)
        if title is None:
            return self._whole.places[box]
        (left, top), (x, y) = self._whole.places[title], self._groups[title].inner(box)
        return left + x, top + y

    def _frames(self) -> list[str]:
        lines = []
        for title, group in self._groups.items():
            x, y = self._whole.places[title]
            lines.append(
                f'<rect class="group" x="{x:.1f}" y="{y:.1f}" width="{group.width:.1f}" height="{group.height:.1f}"'
                ' rx="8"/>'
            )
            lines.append(f'<text class="title" x="{x + _GROUP_MARGIN:.1f}" y="{y + 22:.1f}">{escape(title)}</text>')
        return lines

    def _inner_links(self) -> list[str]:
        lines = []
        for title, group in self._groups.items():
            left, top = self._whole.places[title]
            ids = {box.id for box in group.boxes}
            links = [link for link in self._graph.links if link.source in ids and link.target in ids]
            for link, route in zip(links, group.layout.routes, strict=True):
                points = [(x + left + _GROUP_MARGIN, y + top + _GROUP_MARGIN + _GROUP_TITLE) for x, y in route]
                lines.append(_path(points, "link flows" if link.flows else "link state"))
        return lines

    def _outer_links(self) -> list[str]:
        lines = []
        for link, route in zip(self._outside, self._whole.routes, strict=True):
            points = list(route)
            if link.source in self._group_of:
                points.insert(0, (points[0][0], self._at(link.source)[1] + _size(self._boxes[link.source])[1]))
            if link.target in self._group_of:
                points.append((points[-1][0], self._at(link.target)[1]))
            lines.append(_path(points, "link flows"))
        return lines


def _path(points: Sequence[Point], style: str) -> str:
    """Returns a line that leaves and enters vertically; straight where two points are above or beside each other."""
    (x, y), *others = points
    steps = [f"M{x:.1f},{y:.1f}"]
    for to_x, to_y in others:
        if abs(to_x - x) < 0.5 or abs(to_y - y) < 0.5:
            steps.append(f"L{to_x:.1f},{to_y:.1f}")
        else:
            middle = (y + to_y) / 2
            steps.append(f"C{x:.1f},{middle:.1f} {to_x:.1f},{middle:.1f} {to_x:.1f},{to_y:.1f}")
        x, y = to_x, to_y
    return f'<path class="{style}" d="{" ".join(steps)}"/>'


def _lines(name: str, longest: int = _LONGEST_LINE) -> list[str]:
    """Splits a long name into several lines, after a dash, a dot or an underscore where there is one."""
    lines = []
    while len(name) > longest:
        cut = max(name.rfind(mark, 0, longest) for mark in "-._ ") + 1
        cut = cut if cut > longest // 3 else longest
        lines.append(name[:cut])
        name = name[cut:]
    return [*lines, name]


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)


def _texts(box: Box) -> tuple[list[str], list[str]]:
    """Returns the lines of a box: what a node does, and small its name and the line of the script; else the name."""
    if box.call is None:
        return _lines(box.name), []
    longest = int(_LONGEST_LINE / _SMALL)
    return _lines(box.call), [*_lines(box.name, longest), *_lines(box.line or "", longest)]


def _size(box: Box) -> tuple[float, float]:
    lines, small = _texts(box)
    columns = max([*map(_columns, lines), *(_columns(line) * _SMALL for line in small)])
    width = max(columns * _CHARACTER + 2 * _PADDING, 80.0)
    height = (len(lines) + len(small) * _SMALL) * _LINE + 16.0
    if box.kind is Kind.STORE:
        return width, height + 2 * _CAP
    return (width + 2 * _CAP if box.kind in (Kind.TOPIC, Kind.INTERNAL_TOPIC) else width), height


def _shape(box: Box, at: Point) -> str:
    (x, y), (width, height) = at, _size(box)
    style = f'class="box {box.kind.replace(" ", "-")}"'
    if box.kind is Kind.STORE:
        outline = _standing_cylinder(x, y, width, height, style)
    elif box.kind in (Kind.TOPIC, Kind.INTERNAL_TOPIC):
        outline = _lying_cylinder(x, y, width, height, style)
    else:
        round_corners = {Kind.PROCESSOR: 3, Kind.SOURCE: 12, Kind.SINK: 12}[box.kind]
        outline = (
            f'<rect {style} x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{round_corners}"/>'
        )
    lines, small = _texts(box)
    own_height = (len(lines) + len(small) * _SMALL) * _LINE
    first = y + (height - own_height) / 2 + 11.5 + (_CAP / 2 if box.kind is Kind.STORE else 0)
    below = first + (len(lines) - 1) * _LINE
    texts = [_text(x + width / 2, first + number * _LINE, line) for number, line in enumerate(lines)]
    texts += [
        _text(x + width / 2, below + number * _LINE * _SMALL, line, ' class="small"')
        for number, line in enumerate(small, start=1)
    ]
    label = f"{box.kind} {box.name}"
    return f"<g aria-label={quoteattr(label)}><title>{escape(label)}</title>{outline}{''.join(texts)}</g>"


def _text(x: float, y: float, text: str, style: str = "") -> str:
    return f'<text{style} x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _standing_cylinder(x: float, y: float, width: float, height: float, style: str) -> str:
    side = height - 2 * _CAP
    arc = f"a{width / 2:.1f},{_CAP} 0 0"
    body = f"M{x:.1f},{y + _CAP:.1f} {arc} 1 {width:.1f},0 v{side:.1f} {arc} 1 {-width:.1f},0 z"
    rim = f"M{x:.1f},{y + _CAP:.1f} {arc} 0 {width:.1f},0"
    return _outlines(style, body, rim)


def _lying_cylinder(x: float, y: float, width: float, height: float, style: str) -> str:
    side = width - 2 * _CAP
    arc = f"a{_CAP},{height / 2:.1f} 0 0"
    right = x + width - _CAP
    body = f"M{x + _CAP:.1f},{y:.1f} h{side:.1f} {arc} 1 0,{height:.1f} h{-side:.1f} {arc} 1 0,{-height:.1f} z"
    return _outlines(style, body, f"M{right:.1f},{y:.1f} {arc} 0 0,{height:.1f}")


def _outlines(style: str, body: str, rim: str) -> str:
    """Returns the filled outline, and a line within it that is not filled."""
    return f'<path {style} d="{body}"/><path {style} style="fill: none" d="{rim}"/>'
