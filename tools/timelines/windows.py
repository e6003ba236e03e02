"""Pictures of windowed aggregations: what each kind of window holds, and when it takes no more records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streams import (
    BufferConfig,
    KTable,
    Produced,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Windowed,
    WindowedSerdes,
)
from tools.timelines.picture import Dot, DotKind, Lane, LaneKind, Picture, Span, SpanKind
from tools.timelines.play import SECOND, Play, Step, seconds

__all__ = ["hopping", "session", "sliding", "suppressed", "tumbling"]


@dataclass(frozen=True)
class Closing:
    """The ends of windows: whether they belong to them, and what lies behind until no record is taken any more."""

    after: tuple[tuple[SpanKind, int], ...]
    end_included: bool = False

    def holds(self, key: Windowed[Any], step: Step) -> bool:
        """Returns whether the time of a record is in a window."""
        start, end = key.window
        return start <= step.time < end or (self.end_included and step.time == end)


GRACE = (SpanKind.GRACE, 10 * SECOND)


def tumbling() -> Picture:
    """Counts in windows of 60 s, one of which takes a late record within its grace period."""
    windows = TimeWindows.of_size_and_grace(60 * SECOND, 10 * SECOND)
    serde = WindowedSerdes.time_windowed_serde_from(Serdes.STRING, 60 * SECOND)
    play = _counted(_count_by(windows), serde, (8, 31, 63, 52, 75, 45, 98))
    return _picture(
        "Tumbling windows of 60 s, with a grace period of 10 s", play, Closing((GRACE,)), tick_ms=20 * SECOND
    )


def hopping() -> Picture:
    """Counts in windows of 60 s that start every 30 s."""
    windows = TimeWindows.of_size_and_grace(60 * SECOND, 10 * SECOND).advance_by(30 * SECOND)
    serde = WindowedSerdes.time_windowed_serde_from(Serdes.STRING, 60 * SECOND)
    play = _counted(_count_by(windows), serde, (8, 40, 68, 50, 85, 57))
    title = "Hopping windows of 60 s that advance by 30 s, with a grace period of 10 s"
    return _picture(title, play, Closing((GRACE,)), tick_ms=30 * SECOND)


def sliding() -> Picture:
    """Counts in windows that end with a record, or start just behind one."""
    windows = SlidingWindows.of_time_difference_and_grace(20 * SECOND, 10 * SECOND)
    serde = WindowedSerdes.time_windowed_serde_from(Serdes.STRING, 20 * SECOND)
    play = _counted(_count_by(windows), serde, (25, 35, 50, 30))
    title = "Sliding windows with a time difference of 20 s and a grace period of 10 s"
    return _picture(title, play, Closing((GRACE,), end_included=True), tick_ms=10 * SECOND)


def session() -> Picture:
    """Counts in sessions, two of which a late record merges."""
    windows = SessionWindows.of_inactivity_gap_and_grace(20 * SECOND, 10 * SECOND)
    serde = WindowedSerdes.session_windowed_serde_from(Serdes.STRING)
    play = _counted(_count_by(windows), serde, (10, 24, 58, 41, 95, 64, 110))
    closing = Closing(((SpanKind.GAP, windows.gap_ms), (SpanKind.GRACE, windows.grace_ms)), end_included=True)
    title = "Sessions with an inactivity gap of 20 s and a grace period of 10 s"
    return _picture(title, play, closing, tick_ms=20 * SECOND)


def suppressed() -> Picture:
    """Counts in windows of 60 s that are held back until their windows close."""
    windows = TimeWindows.of_size_and_grace(60 * SECOND, 10 * SECOND)
    serde = WindowedSerdes.time_windowed_serde_from(Serdes.STRING, 60 * SECOND)
    table = _count_by(windows)
    held = table[0], table[1].suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    times = (8, 31, 63, 52, 75, 98, 131)
    updates = _counted(_count_by(windows), serde, times)
    finals = _counted(held, serde, times)
    picture = _picture("Suppressed until windows close", updates, Closing((GRACE,)), tick_ms=20 * SECOND)
    sent = [(step, result) for step in finals for result in step.results]
    results = tuple(
        Dot(step.time, DotKind.RESULT, text=f"{bounds(result.key)}: {result.value}, when {step.number} arrives")
        for step, result in sent
    )
    lane = Lane("sent on", LaneKind.RESULTS, dots=results)
    description = f"{picture.description} Sent on: {'; '.join(dot.text for dot in results)}."
    return Picture(
        "Suppressed until windows of 60 s close, with a grace period of 10 s",
        description,
        (*picture.lanes, lane),
        tick_ms=picture.tick_ms,
        notes_title=picture.notes_title,
    )


def _count_by(windows: Any) -> tuple[StreamsBuilder, KTable[Any, int]]:
    builder = StreamsBuilder()
    return builder, builder.stream("clicks").group_by_key().windowed_by(windows).count()


def _counted(counts: tuple[StreamsBuilder, KTable[Any, int]], key_serde: Any, times_s: tuple[int, ...]) -> list[Step]:
    """Returns what happened when records of these times came, each of which has its number as value."""
    builder, table = counts
    table.to_stream().to("out", Produced(key_serde=key_serde, value_serde=Serdes.LONG))
    with Play(builder, key_serde, Serdes.LONG) as play:
        play.pipe("clicks", ((time, "click") for time in times_s))
    return play.steps


def bounds(key: Windowed[Any]) -> str:
    """Returns the bounds of a window as text."""
    return f"{key.window.start / SECOND:g} to {seconds(key.window.end)}"


def _picture(title: str, steps: list[Step], closing: Closing, tick_ms: int) -> Picture:
    """Draws the records, and a lane for each window in the order of their starts."""
    records = tuple(Dot(s.time, DotKind.LATE if s.dropped else DotKind.RECORD, s.number) for s in steps)
    found: dict[Windowed[Any], list[tuple[Step, int | None]]] = {}
    for step in steps:
        for result in step.results:
            found.setdefault(result.key, []).append((step, result.value))
    keys = sorted(found, key=lambda key: (key.window.start, key.window.end))
    lanes = [_window_lane(key, found[key], steps, closing) for key in keys]
    arrived = [f"record {s.number} at {seconds(s.time)}{', too late' if s.dropped else ''}" for s in steps]
    described = [f"window {lane.label}, {lane.note}" for lane in lanes]
    return Picture(
        title,
        f"In order of arrival: {'; '.join(arrived)}. Counts: {'; '.join(described)}.",
        (Lane("records", LaneKind.RECORDS, dots=records), *lanes),
        tick_ms=tick_ms,
        notes_title="counts in turn",
    )


def _window_lane(
    key: Windowed[Any], updates: list[tuple[Step, int | None]], steps: list[Step], closing: Closing
) -> Lane:
    start, end = key.window
    deleted = updates[-1][1] is None
    spans = [Span(start, end, SpanKind.GONE if deleted else SpanKind.WINDOW)]
    for kind, length in () if deleted else closing.after:
        spans.append(Span(spans[-1].end or end, (spans[-1].end or end) + length, kind))
    counted = [step for step, value in updates if value is not None]
    inside = (
        Dot(step.time, DotKind.RECORD, step.number)
        for step in steps
        if closing.holds(key, step) and (step in counted or (not step.dropped and step.number < counted[-1].number))
    )
    values = ", ".join("deleted" if value is None else str(value) for _, value in updates)
    return Lane(bounds(key), LaneKind.SPANS, tuple(inside), tuple(spans), values)
