"""The picture of a topology as a page draws it: places, texts, and room for figures that change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from streams.drawing.graph import Box, Graph, Kind, Link
from streams.drawing.picture import PlacedBox, columns, picture_of, wrapped

_CHARACTER = 7.3
_SMALL_CHARACTER = 6.1
_LARGE_CHARACTER = 11.6
"""The width of a letter as it is read from far away, on one line in all boxes but nodes."""
_LINE = 15.0
_LAST_LINE = 29.0
"""The height of the line with the small text and the figures, with what is free above and below all text."""
_BESIDE = 24.0
_FIGURES = 96.0
"""The width of the figures, which change."""
_MORE_HEIGHT = {Kind.STORE: 8.0, Kind.TOPIC: -14.0, Kind.INTERNAL_TOPIC: -14.0}
"""Room for the round top of a store; the figures of a topic stand beside the lines from it."""
_LEAST_WIDTH = 132.0
_LONGEST_SMALL = 28
_GAP = (26.0, 28.0)
_GROUP_GAP = (34.0, 46.0)


def drawn(graph: Graph, *, names: bool = False, collapsed: Iterable[str] = ()) -> dict[str, Any]:
    """Returns where a page draws each box and line of a topology, and which texts stand in the boxes.

    :param names: whether the title of a node is its name, and not the call that made it.
    :param collapsed: titles of the subtopologies that are drawn as one box.
    """
    picture = picture_of(
        _with_whole(graph, frozenset(collapsed)), lambda box: _size(box, names), gap=_GAP, group_gap=_GROUP_GAP
    )
    group_of = {box.id: title for title, boxes in graph.groups.items() for box in boxes}
    return {
        "width": picture.width,
        "height": picture.height,
        "groups": {title: [asdict(box) for box in boxes] for title, boxes in graph.groups.items()},
        "frames": [asdict(frame) for frame in picture.frames],
        "boxes": [_box(placed, names, group_of.get(placed.box.id)) for placed in picture.boxes],
        "lines": [{**asdict(curve.link), "path": curve.path} for curve in picture.curves],
    }


def _with_whole(graph: Graph, collapsed: frozenset[str]) -> Graph:
    """Returns the graph with one box, among the topics, instead of each of these subtopologies."""
    whole = {title: Box(f"g{n}", Kind.SUBTOPOLOGY, title) for n, title in enumerate(graph.groups) if title in collapsed}
    ids = {box.id: own.id for title, own in whole.items() for box in graph.groups[title]}
    ends = [(ids.get(link.source, link.source), ids.get(link.target, link.target), link.flows) for link in graph.links]
    links = dict.fromkeys(Link(*end) for end in ends if end[0] != end[1])
    groups = {title: boxes for title, boxes in graph.groups.items() if title not in whole}
    return Graph(groups, [*graph.topics, *whole.values()], list(links))


def _texts(box: Box, names: bool) -> tuple[list[str], str]:
    """Returns the title of a box, in lines, and the small text below it."""
    if box.call is None or names:
        return wrapped(box.name), _end(box.call or "")
    return wrapped(box.call), _end(box.line or "")


def _end(text: str) -> str:
    """Returns the end of a long text: that of a path says most."""
    return text if len(text) <= _LONGEST_SMALL else "…" + text[1 - _LONGEST_SMALL :]


def _size(box: Box, names: bool) -> tuple[float, float]:
    title, small = _texts(box, names)
    character = _CHARACTER if box.call is not None else _LARGE_CHARACTER
    texts = max(map(columns, title)) * character, columns(small) * _SMALL_CHARACTER + _FIGURES if small else 0.0
    height = len(title) * _LINE + _LAST_LINE
    return max(*texts, _LEAST_WIDTH) + _BESIDE, height + _MORE_HEIGHT.get(box.kind, 0.0)


def _box(placed: PlacedBox, names: bool, group: str | None) -> dict[str, Any]:
    title, small = _texts(placed.box, names)
    place = {"x": placed.x, "y": placed.y, "width": placed.width, "height": placed.height}
    return {**asdict(placed.box), **place, "group": group, "title": title, "small": small}
