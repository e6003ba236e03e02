"""Timestamp 0 on a changelog that is written by a client which cannot send it.

librdkafka takes 0 for "now". Such a client sends another timestamp in its place, and a header of the record says so, so
that the store is restored with 0. No other record has the header.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from processor_api.record import HeaderList

__all__ = ["TIME_HEADER", "as_written", "with_time_zero"]

TIME_HEADER = "streams.timestamp"
"""Header of a changelog record with the timestamp in ms that it was written with (i64)."""
_MARK = (TIME_HEADER, bytes(8))


def with_time_zero(headers: HeaderList | None) -> HeaderList:
    """The headers of a record that has timestamp 0 and is sent with another."""
    return [*(headers or ()), _MARK]


def as_written(
    timestamps: Sequence[int], headers: Iterable[HeaderList | None]
) -> tuple[list[int], list[HeaderList | None]]:
    """Timestamps and headers of changelog records as they were before they were sent."""
    times, found = list(timestamps), list(headers)
    for place, given in enumerate(found):
        if given and given[-1] == _MARK:
            times[place], found[place] = 0, given[:-1] or None
    return times, found
