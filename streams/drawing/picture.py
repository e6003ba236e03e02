"""A graph with a place for each box and line: what a drawing in any form has in common.

Each subtopology is laid out by itself; they and the topics between them then are the boxes of the whole picture.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from streams.drawing.graph import Box, Graph, Kind, Link
from streams.drawing.layers import Edge, Layout, Point, place

Size = tuple[float, float]

_GAP = (28.0, 34.0)
_GROUP_GAP = (40.0, 52.0)
_GROUP_MARGIN = 18.0
_GROUP_TITLE = 26.0
_TITLE_CHARACTER = 7.3

LONGEST_LINE = 30
"""Characters in a line of a box."""


@dataclass(frozen=True)
class PlacedBox:
    """A box, and the rectangle in which it is drawn."""

    box: Box
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Frame:
    """The rectangle around the boxes of a subtopology."""

    title: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Curve:
    """A link, and the curve along which it is drawn, in the words of an SVG path."""

    link: Link
    path: str


@dataclass(frozen=True)
class Picture:
    """Holds a place for everything of a graph; x grows to the right, y downwards, both from 0."""

    width: float
    height: float
    frames: Sequence[Frame]
    boxes: Sequence[PlacedBox]
    curves: Sequence[Curve]


def picture_of(graph: Graph, size: Callable[[Box], Size], *, gap: Size = _GAP, group_gap: Size = _GROUP_GAP) -> Picture:
    """Places the boxes and links of a graph.

    :param size: returns the width and height that a box needs.
    :param gap: the least distance between the boxes of a subtopology, beside and below each other.
    :param group_gap: the same between subtopologies and topics.
    """
    return _Arranging(graph, size, gap, group_gap).picture()


class _Group:
    """A subtopology, laid out by itself."""

    def __init__(self, title: str, boxes: Sequence[Box], sizes: dict[str, Size], graph: Graph, gap: Size) -> None:
        self.title = title
        ids = {box.id for box in boxes}
        self.links = [link for link in graph.links if link.source in ids and link.target in ids]
        self._layout: Layout = place(
            {box.id: sizes[box.id] for box in boxes},
            [Edge(link.source, link.target) for link in self.links],
            gap=gap,
            top=[box.id for box in boxes if box.kind is Kind.SOURCE],
            bottom=[box.id for box in boxes if box.kind is Kind.SINK],
        )
        self.width = max(self._layout.width, len(title) * _TITLE_CHARACTER) + 2 * _GROUP_MARGIN
        self.height = self._layout.height + 2 * _GROUP_MARGIN + _GROUP_TITLE

    def inner(self, box: str) -> Point:
        """Returns where a box stands within the group."""
        return _inside(self._layout.places[box])

    def routes(self) -> Sequence[Sequence[Point]]:
        """Returns the points of each link within the group."""
        return [[_inside(point) for point in route] for route in self._layout.routes]


def _inside(point: Point) -> Point:
    return point[0] + _GROUP_MARGIN, point[1] + _GROUP_MARGIN + _GROUP_TITLE


class _Arranging:
    def __init__(self, graph: Graph, size: Callable[[Box], Size], gap: Size, group_gap: Size) -> None:
        inner = {box.id: box for boxes in graph.groups.values() for box in boxes}
        self._boxes = inner | {topic.id: topic for topic in graph.topics}
        self._sizes = {name: size(box) for name, box in self._boxes.items()}
        self._group_of = {box.id: title for title, boxes in graph.groups.items() for box in boxes}
        self._groups = {title: _Group(title, boxes, self._sizes, graph, gap) for title, boxes in graph.groups.items()}
        self._outside = [link for link in graph.links if not (link.source in inner and link.target in inner)]
        sizes = {title: (group.width, group.height) for title, group in self._groups.items()}
        topics = {topic.id: self._sizes[topic.id] for topic in graph.topics}
        self._whole = place(topics | sizes, [self._edge(link) for link in self._outside], gap=group_gap)

    def _edge(self, link: Link) -> Edge:
        """Returns the edge between two boxes; at a box inside of a group it ends at the group's border, right above or
        below the box."""
        (first, leaves), (second, enters) = self._end(link.source), self._end(link.target)
        return Edge(first, second, leaves, enters)

    def _end(self, box: str) -> tuple[str, float | None]:
        title = self._group_of.get(box)
        if title is None:
            return box, None
        return title, self._groups[title].inner(box)[0] + self._sizes[box][0] / 2

    def _at(self, box: str) -> Point:
        title = self._group_of.get(box)
        if title is None:
            return self._whole.places[box]
        (left, top), (x, y) = self._whole.places[title], self._groups[title].inner(box)
        return left + x, top + y

    def picture(self) -> Picture:
        frames = [
            Frame(title, *self._whole.places[title], group.width, group.height) for title, group in self._groups.items()
        ]
        boxes = [PlacedBox(box, *self._at(box.id), *self._sizes[box.id]) for box in self._boxes.values()]
        return Picture(self._whole.width, self._whole.height, frames, boxes, [*self._inner(), *self._outer()])

    def _inner(self) -> list[Curve]:
        curves = []
        for title, group in self._groups.items():
            left, top = self._whole.places[title]
            for link, route in zip(group.links, group.routes(), strict=True):
                curves.append(Curve(link, _path([(x + left, y + top) for x, y in route])))
        return curves

    def _outer(self) -> list[Curve]:
        curves = []
        for link, route in zip(self._outside, self._whole.routes, strict=True):
            points = list(route)
            if link.source in self._group_of:
                points.insert(0, (points[0][0], self._at(link.source)[1] + self._sizes[link.source][1]))
            if link.target in self._group_of:
                points.append((points[-1][0], self._at(link.target)[1]))
            curves.append(Curve(link, _path(points)))
        return curves


def _path(points: Sequence[Point]) -> str:
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
    return " ".join(steps)


def wrapped(name: str, longest: int = LONGEST_LINE) -> list[str]:
    """Splits a long name into several lines, after a dash, a dot or an underscore where there is one."""
    lines = []
    while len(name) > longest:
        cut = max(name.rfind(mark, 0, longest) for mark in "-._ ") + 1
        cut = cut if cut > longest // 3 else longest
        lines.append(name[:cut])
        name = name[cut:]
    return [*lines, name]


def columns(text: str) -> int:
    """Returns how many characters of the usual width a text is as wide as."""
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)
