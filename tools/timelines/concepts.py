"""Pictures of what everything else is made of: a stream, and a table of it."""

from __future__ import annotations

from streams import KTable, StreamsBuilder
from tools.timelines.picture import Dot, DotKind, Lane, LaneKind, Picture, Span, SpanKind
from tools.timelines.play import SECOND, Play, seconds

__all__ = ["stream_and_table"]

PRICES = "prices"


def stream_and_table() -> Picture:
    """Draws records of one key as a stream, whose records stay, and as a table, whose row each of them replaces."""
    builder = StreamsBuilder()
    prices: KTable[str, str] = builder.table(PRICES)
    prices.to_stream().to("out")
    with Play(builder) as play:
        play.pipe(PRICES, [(10, "3.10"), (35, "3.50"), (60, "3.30")])
    times = [step.time for step in play.steps]
    records = tuple(Dot(step.time, number=step.number, text=step.value) for step in play.steps)
    rows = tuple(
        Span(step.time, end, SpanKind.VERSION, step.value)
        for step, end in zip(play.steps, [*times[1:], None], strict=True)
    )
    changes = tuple(
        Dot(step.time, DotKind.RESULT, text=str(result.value)) for step in play.steps for result in step.results
    )
    lanes = (
        Lane("stream", LaneKind.RECORDS, records),
        Lane("table", LaneKind.SPANS, spans=rows),
        Lane("changes", LaneKind.RESULTS, changes),
    )
    described = "; ".join(f"at {seconds(step.time)} the row becomes {step.value}" for step in play.steps)
    return Picture("Prices of one product, as a stream and as a table", f"{described}.", lanes, extra_ms=20 * SECOND)
