"""A picture of punctuations: by stream time, which moves with records, and by the wall clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streams import Processor, ProcessorContext, PunctuationType, Record, StreamsBuilder
from tools.timelines.picture import Dot, DotKind, Lane, LaneKind, Picture
from tools.timelines.play import SECOND, Play, seconds

__all__ = ["punctuations"]

INTERVAL_MS = 20 * SECOND
ARRIVALS = ((5, "a"), (20, "b"), (65, "c"), (70, "d"))
"""The timestamps of the records, in s; one comes each 10 s by the wall clock."""
PAUSE_MS = 10 * SECOND


class Ticks(Processor[str, str, str, str]):
    """Forwards the time of each punctuation, under the name of the kind of time."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        for kind in PunctuationType:
            context.schedule(INTERVAL_MS, kind, self._send(kind))

    def _send(self, kind: PunctuationType) -> Callable[[int], None]:
        return lambda time: self.context.forward(Record(kind.name, str(time), time))

    def process(self, record: Record[str, str]) -> None:
        """Does nothing: the record has moved stream time."""


def punctuations() -> Picture:
    """Draws when a processor is called back every 20 s, by either time, while records come."""
    builder = StreamsBuilder()
    stream: Any = builder.stream("records")
    stream.process(Ticks).to("out")
    arrived = []
    with Play(builder) as play:
        out = play.driver.create_output_topic("out")
        ticks = []
        for number, (time_s, value) in enumerate(ARRIVALS, start=1):
            play.driver.advance_wall_clock_time(PAUSE_MS)
            arrived.append((number, value, time_s * SECOND, play.driver.clock.time_ms()))
            ticks += out.read_records()
            play.driver.create_input_topic("records").pipe_input("k", value, timestamp=time_s * SECOND)
            ticks += out.read_records()
        play.driver.advance_wall_clock_time(2 * PAUSE_MS)
        ticks += out.read_records()
    times = {kind: [int(tick.value) for tick in ticks if tick.key == kind.name] for kind in PunctuationType}
    stream_time, clock = PunctuationType.STREAM_TIME, PunctuationType.WALL_CLOCK_TIME
    lanes = (
        Lane("records", LaneKind.RECORDS, tuple(Dot(time, DotKind.RECORD, n, value) for n, value, time, _ in arrived)),
        Lane("by stream time", LaneKind.SPANS, tuple(Dot(time, DotKind.RESULT) for time in times[stream_time])),
        Lane(
            "when they come", LaneKind.RECORDS, tuple(Dot(at, DotKind.RECORD, n, value) for n, value, _, at in arrived)
        ),
        Lane("by the wall clock", LaneKind.SPANS, tuple(Dot(time, DotKind.RESULT) for time in times[clock])),
    )
    records = "; ".join(
        f"{value} has the time {seconds(time)} and comes at {seconds(at)}" for _, value, time, at in arrived
    )
    called = "; ".join(f"{kind.value}: {', '.join(map(seconds, found))}" for kind, found in times.items())
    title = "Punctuations every 20 s: by the times of the records, and by the wall clock"
    return Picture(title, f"{records}. Called back by {called}.", lanes, extra_ms=5 * SECOND)
