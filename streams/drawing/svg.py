"""A topology as SVG: a picture that any browser shows and that needs no other file."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from streams.drawing.graph import Box, Graph, Kind
from streams.drawing.picture import LONGEST_LINE, Frame, PlacedBox, columns, picture_of, wrapped

_CHARACTER = 7.3
_LINE = 15.0
_SMALL = 5 / 6
"""The size of a node's own name below the call that made it."""
_PADDING = 14.0
_CAP = 7.0
"""How far the round ends of cylinders reach."""
_MARGIN = 16.0

_STYLE = """
text { font: 12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1c2733; text-anchor: middle; }
.small { font-size: 10px; fill: #55636f; }
.title { font-weight: bold; text-anchor: start; fill: #55636f; }
.group { fill: #f6f8fa; stroke: #b9c3cc; }
.box { stroke-width: 1.3; }
.source, .sink { fill: #e2f3e6; stroke: #2d8045; }
.processor, .subtopology { fill: #ffffff; stroke: #45535f; }
.store { fill: #fdf1d6; stroke: #b07d12; }
.topic, .internal-topic { fill: #e3eefc; stroke: #2f67b1; }
.internal-topic { stroke-dasharray: 5 3; }
.link { fill: none; stroke: #45535f; stroke-width: 1.3; }
.flows { marker-end: url(#arrow); }
.state { stroke: #b07d12; stroke-dasharray: 3 3; }
"""


def svg(graph: Graph) -> str:
    """Returns the graph as a document, ending with a newline."""
    picture = picture_of(graph, _size)
    width, height = picture.width + 2 * _MARGIN, picture.height + 2 * _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}"'
        f' height="{height:.0f}" role="img" aria-label="Topology">',
        f"<style>{_STYLE}</style>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7"'
        ' orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#45535f"/></marker></defs>',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<g transform="translate({_MARGIN:.0f},{_MARGIN:.0f})">',
    ]
    for frame in picture.frames:
        lines += _frame(frame)
    for curve in picture.curves:
        style = "link flows" if curve.link.flows else "link state"
        lines.append(f'<path class="{style}" d="{curve.path}"/>')
    lines += [_shape(each) for each in picture.boxes]
    return "\n".join([*lines, "</g>", "</svg>"]) + "\n"


def _frame(frame: Frame) -> list[str]:
    return [
        f'<rect class="group" x="{frame.x:.1f}" y="{frame.y:.1f}" width="{frame.width:.1f}"'
        f' height="{frame.height:.1f}" rx="8"/>',
        f'<text class="title" x="{frame.x + 18:.1f}" y="{frame.y + 22:.1f}">{escape(frame.title)}</text>',
    ]


def _texts(box: Box) -> tuple[list[str], list[str]]:
    """Returns the lines of a box: what a node does, and small its name and the line of the script; otherwise the
    name."""
    if box.call is None:
        return wrapped(box.name), []
    longest = int(LONGEST_LINE / _SMALL)
    return wrapped(box.call), [*wrapped(box.name, longest), *wrapped(box.line or "", longest)]


def _size(box: Box) -> tuple[float, float]:
    lines, small = _texts(box)
    widest = max([*map(columns, lines), *(columns(line) * _SMALL for line in small)])
    width = max(widest * _CHARACTER + 2 * _PADDING, 80.0)
    height = (len(lines) + len(small) * _SMALL) * _LINE + 16.0
    if box.kind is Kind.STORE:
        return width, height + 2 * _CAP
    return (width + 2 * _CAP if box.kind in (Kind.TOPIC, Kind.INTERNAL_TOPIC) else width), height


def _shape(placed: PlacedBox) -> str:
    box, x, y, width, height = placed.box, placed.x, placed.y, placed.width, placed.height
    style = f'class="box {box.kind.replace(" ", "-")}"'
    if box.kind is Kind.STORE:
        outline = _standing_cylinder(x, y, width, height, style)
    elif box.kind in (Kind.TOPIC, Kind.INTERNAL_TOPIC):
        outline = _lying_cylinder(x, y, width, height, style)
    else:
        round_corners = 12 if box.kind in (Kind.SOURCE, Kind.SINK) else 3
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
