"""Drawing a picture as SVG: lanes below each other over one axis of time, in light and in dark colours."""

from __future__ import annotations

from collections.abc import Iterator
from string import Template

from tools.timelines.picture import Dot, DotKind, Lane, LaneKind, Picture, Span, SpanKind
from tools.timelines.play import SECOND
from tools.timelines.sheet import FONT, MARGIN, WIDTH, paper, sheet
from tools.timelines.svg import element, text, text_width

__all__ = ["draw"]

LEFT = 150
"""Where the axis begins; labels of lanes are left of it."""
TOP = 64
RADIUS = 10
ROW = 24
"""The height of a line of results, and of a span."""
CLASSES = {DotKind.RECORD: "record", DotKind.LATE: "late", DotKind.RESULT: "result", DotKind.TIMED_RESULT: "result"}
"""The class of a dot in the style."""

FONTS = """
text { font-family: sans-serif; font-size: 13px }
.title { font-size: 15px; font-weight: bold }
.faint, .tick { font-size: 12px }
.number { font-size: 11px; font-weight: bold; text-anchor: middle }
.grace, .gap, .gone { stroke-dasharray: 4 3 }
.late { stroke-width: 2 }
"""
PAINT = Template("""
text { fill: $ink }
.faint, .tick { fill: $faint }
.paper { fill: $paper }
.axis { stroke: $faint }
.grid { stroke: $line }
.window { fill: $window; stroke: $window_edge }
.grace, .wait { fill: $grace; stroke: $grace_edge }
.gap { fill: $paper; stroke: $window_edge }
.gone { fill: $paper; stroke: $faint }
.version { fill: $version; stroke: $version_edge }
.record { fill: $dot; stroke: $paper }
.late { fill: $paper; stroke: $bad }
.result { fill: $version_edge }
.number { fill: #fff }
.bad { fill: $bad }
""")


def draw(picture: Picture) -> str:
    """Returns the SVG of a picture; the same bytes each time."""
    drawing = _Drawing(picture)
    body = [paper(drawing.height), *drawing.head(), *drawing.body()]
    return sheet(picture.title, picture.description, drawing.height, body, FONTS, PAINT)


class _Drawing:
    """The elements of one picture, with its scale of time."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        times = [dot.time for lane in picture.lanes for dot in lane.dots]
        times += [time for lane in picture.lanes for span in lane.spans for time in (span.start, span.end or 0)]
        self.last = max(times) + picture.extra_ms
        noted = max(text_width(words, FONT) for words in (picture.notes_title, *(lane.note for lane in picture.lanes)))
        self.right = WIDTH - MARGIN - (round(noted) + 14 if noted else 0)
        self.rows = [list(self._result_rows(lane)) for lane in picture.lanes]
        self.tops = [TOP]
        for lane, rows in zip(picture.lanes, self.rows, strict=True):
            self.tops.append(self.tops[-1] + self._height(lane, max(rows, default=0) + 1))
        self.axis = self.tops[-1] + 6
        self.legend = list(self._legend(self.axis + 62))
        self.height = self.axis + 74 + 22 * self._legend_lines

    def x(self, time: int | None) -> int:
        """Returns where a time lies on the axis; ``None`` is the end of the picture."""
        return round(LEFT + (self.right - LEFT) * (self.last if time is None else time) / self.last)

    @staticmethod
    def _height(lane: Lane, result_rows: int) -> int:
        if lane.kind is LaneKind.RESULTS:
            return ROW * result_rows + 12
        if lane.kind is LaneKind.SPANS:
            return ROW + 12
        return ROW + (28 if any(dot.text for dot in lane.dots) else 12)

    def _result_rows(self, lane: Lane) -> Iterator[int]:
        """Yields a row for each result, so that their texts do not overlap."""
        if lane.kind is not LaneKind.RESULTS:
            return
        ends: list[float] = []
        for dot in lane.dots:
            x, width = self.x(dot.time), 24 + text_width(dot.text, FONT)
            start = x - 10 if x + width <= self.right else x - width
            row = next((row for row, end in enumerate(ends) if end <= start), len(ends))
            ends[row : row + 1] = [start + width + 10]
            yield row

    # ------------------------------------------------------------------ parts

    def head(self) -> Iterator[str]:
        """Yields the title, the axis and the legend."""
        picture = self.picture
        yield text(MARGIN, 30, picture.title, "title")
        if picture.notes_title:
            yield text(self.right + 14, TOP - 8, picture.notes_title, "faint")
        for time in range(0, self.last + 1, picture.tick_ms):
            x = self.x(time)
            yield element("line", class_="grid", x1=x, y1=TOP - 10, x2=x, y2=self.axis)
            yield text(x, self.axis + 18, f"{time // SECOND}", "tick", text_anchor="middle")
        yield element("line", class_="axis", x1=LEFT, y1=self.axis, x2=self.right, y2=self.axis)
        yield text(LEFT, self.axis + 36, "time of the records, and stream time, in seconds", "faint")
        yield from self.legend

    def body(self) -> Iterator[str]:
        """Yields the lanes."""
        middles = [self._middle(number) for number in range(len(self.picture.lanes))]
        for number, lane in enumerate(self.picture.lanes):
            yield text(MARGIN, middles[number] + 4, lane.label)
            if lane.note:
                yield text(self.right + 14, middles[number] + 4, lane.note)
            for span in lane.spans:
                yield from self._span(span, middles[number])
            for place, dot in enumerate(lane.dots):
                row = self.rows[number][place] if self.rows[number] else 0
                yield from self._dot(dot, middles[number] + ROW * row)

    def _middle(self, number: int) -> int:
        """Returns the height of the first row of a lane."""
        lane, top = self.picture.lanes[number], self.tops[number]
        height = self._height(lane, 1)
        return top + (height - ROW // 2 - 6 if lane.kind is LaneKind.RECORDS else height // 2)

    def _span(self, span: Span, y: int) -> Iterator[str]:
        x, end = self.x(span.start), self.x(span.end)
        name = span.kind.name.lower()
        yield element("rect", class_=name, x=x, y=y - ROW // 2, width=max(end - x, 1), height=ROW, rx=3)
        if span.text:
            yield text(x + 6, y + 4, span.text)

    def _dot(self, dot: Dot, y: int) -> Iterator[str]:
        x = self.x(dot.time)
        if CLASSES[dot.kind] == "result":
            yield element("path", class_="result", d=f"M{x} {y - 7}l7 7l-7 7l-7 -7z")
            beside = 24 + text_width(dot.text, FONT) <= self.right - x
            yield text(x + (12 if beside else -12), y + 4, dot.text, text_anchor="start" if beside else "end")
            return
        yield element("circle", class_=CLASSES[dot.kind], cx=x, cy=y, r=RADIUS)
        if dot.number:
            bad = " bad" if dot.kind is DotKind.LATE else ""
            yield text(x, y + 4, str(dot.number), f"number{bad}")
        if dot.text:
            yield text(x, y - RADIUS - 5, dot.text, text_anchor="middle")

    def _legend(self, y: int) -> Iterator[str]:
        """Yields a symbol and its meaning for each kind of thing in the picture."""
        lanes = self.picture.lanes
        dots = {dot.kind for lane in lanes for dot in lane.dots}
        spans = {span.kind for lane in lanes for span in lane.spans}
        x, self._legend_lines = MARGIN, 0
        kinds: list[DotKind | SpanKind] = [kind for kind in DotKind if kind in dots]
        for kind in [*kinds, *(kind for kind in SpanKind if kind in spans)]:
            width = round(50 + text_width(kind.value, 12))
            if x + width > WIDTH and x > MARGIN:
                x, self._legend_lines = MARGIN, self._legend_lines + 1
            middle = y + 22 * self._legend_lines
            if isinstance(kind, SpanKind):
                yield element("rect", class_=kind.name.lower(), x=x, y=middle - 8, width=22, height=16, rx=3)
            elif CLASSES[kind] == "result":
                yield element("path", class_="result", d=f"M{x + 11} {middle - 7}l7 7l-7 7l-7 -7z")
            else:
                yield element("circle", class_=CLASSES[kind], cx=x + 11, cy=middle, r=8)
            yield text(x + 28, middle + 4, kind.value, "faint")
            x += width
