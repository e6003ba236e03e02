"""Counts the clicks on each page by the minute, and writes one final count when a minute is over.

A click may come ten seconds late, by the time of the other clicks. What comes later is dropped and counted in the
metric `dropped-records-total`, since the result of its minute has been sent.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from streams import (
    EmitStrategy,
    Serdes,
    StreamsBuilder,
    TimeWindows,
    Windowed,
    json_serde,
    run,
)

TEXT, JSON = Serdes.STRING, json_serde()

MINUTES = TimeWindows.of_size_and_grace(timedelta(minutes=1), grace=timedelta(seconds=10))


def page_of(user: str, click: dict[str, Any]) -> str:
    """Returns the page of a click without what follows in its address."""
    return str(click["url"]).partition("?")[0]


def row(minute: Windowed[str], clicks: int) -> tuple[str, dict[str, Any]]:
    """Returns the record of a result: the page as key, the minute and the count as value."""
    start = datetime.fromtimestamp(minute.window.start / 1000, UTC)
    return minute.key, {"minute": start.isoformat(timespec="minutes"), "clicks": clicks}


def topology() -> StreamsBuilder:
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", key_serde=TEXT, value_serde=JSON)
    by_page = clicks.group_by(page_of, "clicks-by-page", key_serde=TEXT)
    minutes = by_page.windowed_by(MINUTES).emit_strategy(EmitStrategy.on_window_close())
    counts = minutes.count(materialized="clicks-per-minute").to_stream()
    counts.map(row).to("clicks-per-minute", key_serde=TEXT, value_serde=JSON)
    return builder


if __name__ == "__main__":
    run(topology)
