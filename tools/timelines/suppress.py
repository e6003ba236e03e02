"""A picture of a suppression by time limit: which changes wait, and which of them is sent on."""

from __future__ import annotations

from dataclasses import dataclass

from streams import BufferConfig, StreamsBuilder, Suppressed
from tools.timelines.picture import Dot, DotKind, Lane, LaneKind, Picture, Span, SpanKind
from tools.timelines.play import SECOND, Play, Step, seconds

__all__ = ["time_limit"]

LIMIT_MS = 60 * SECOND


def time_limit() -> Picture:
    """Draws prices of two products, of which the last change of each minute is sent on."""
    builder = StreamsBuilder()
    limit = Suppressed.until_time_limit(LIMIT_MS, BufferConfig.unbounded())
    builder.table("prices").suppress(limit).to_stream().to("out")
    with Play(builder) as play:
        play.pipe("prices", [(5, "3.10"), (25, "3.20")], key="tea")
        play.pipe("prices", [(40, "9.90")], key="oil")
        play.pipe("prices", [(70, "3.30")], key="tea")
        play.pipe("prices", [(115, "3.00")], key="tea")
    lanes = []
    for key in ("tea", "oil"):
        dots = tuple(Dot(step.time, DotKind.RECORD, step.number, step.value) for step in play.steps if step.key == key)
        lanes.append(Lane(f"prices of {key}", LaneKind.RECORDS, dots))
        lanes += [_waiting(key, wait) for wait in _waits(key, play.steps)]
    changes = [f"record {step.number}, {step.key} {step.value}, at {seconds(step.time)}" for step in play.steps]
    waits = [f"{lane.label}: {lane.note}" for lane in lanes if lane.note]
    return Picture(
        "Suppressed for 60 s from the first change of a key: its last one is sent on",
        f"In order of arrival: {'; '.join(changes)}. {'; '.join(waits)}.",
        tuple(lanes),
        tick_ms=20 * SECOND,
        notes_title="sent on",
    )


@dataclass(frozen=True)
class _Wait:
    """The time for which changes of a key waited, until a record released the last of them."""

    start: int
    released_by: Step | None
    value: str


def _waits(key: str, steps: list[Step]) -> list[_Wait]:
    """Returns the waits of a key, as the results show them."""
    waits: list[_Wait] = []
    start: int | None = None
    for step in steps:
        if step.key == key and start is None:
            start = step.time
        for result in step.results:
            if result.key == key and start is not None:
                waits.append(_Wait(start, step, result.value))
                start = None
    return waits if start is None else [*waits, _Wait(start, None, "")]


def _waiting(key: str, wait: _Wait) -> Lane:
    spans = (Span(wait.start, wait.start + LIMIT_MS, SpanKind.WAIT),)
    if wait.released_by is None:
        return Lane(f"{key} waits", LaneKind.SPANS, spans=spans, note="nothing yet")
    sent = Dot(wait.released_by.time, DotKind.RESULT)
    return Lane(f"{key} waits", LaneKind.SPANS, (sent,), spans, f"{wait.value}, when {wait.released_by.number} arrives")
