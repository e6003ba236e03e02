"""The contents of a picture: lanes below each other with records, spans of time and results, all at times in ms."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Dot", "DotKind", "Lane", "LaneKind", "Picture", "Span", "SpanKind"]


class DotKind(Enum):
    """Kinds of points in time; the value is what the legend says."""

    RECORD = "record, numbered in order of arrival"
    LATE = "record that is too late for a window"
    RESULT = "result, when it is sent on"
    TIMED_RESULT = "result, at its timestamp"


class SpanKind(Enum):
    """Kinds of spans of time; the value is what the legend says."""

    WINDOW = "window"
    GRACE = "grace period, by stream time"
    GAP = "inactivity gap, in which the session goes on"
    GONE = "session that was deleted"
    VERSION = "version of a row"
    WAIT = "waits in the buffer"


class LaneKind(Enum):
    """Kinds of lanes, which differ in height and in where texts go."""

    RECORDS = "records"
    SPANS = "spans"
    RESULTS = "results"


@dataclass(frozen=True)
class Dot:
    """A record or a result at a time in ms."""

    time: int
    kind: DotKind = DotKind.RECORD
    number: int = 0
    """The place of the record in the order of arrival, from 1; 0 writes none."""
    text: str = ""


@dataclass(frozen=True)
class Span:
    """A span of time in ms, both ends drawn; an end of ``None`` is that of the picture."""

    start: int
    end: int | None
    kind: SpanKind = SpanKind.WINDOW
    text: str = ""


@dataclass(frozen=True)
class Lane:
    """A line of the picture: a label on the left, contents by time, and a note on the right."""

    label: str
    kind: LaneKind
    dots: tuple[Dot, ...] = ()
    spans: tuple[Span, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Picture:
    """A title, lanes from top to bottom, and the text that a screen reader gets."""

    title: str
    description: str
    lanes: tuple[Lane, ...]
    tick_ms: int = 10_000
    """The time between two marks of the axis."""
    notes_title: str = ""
    """The heading of the notes on the right."""
    extra_ms: int = 0
    """Time to show behind the last thing that has a time."""
