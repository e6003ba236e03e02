"""Timestamp 0 on a changelog that is written by a client which cannot send it.

librdkafka takes 0 for "now". Such a client sends 1 instead, and a header of the record says so, so that the store
is restored with 0. A row of timestamp 1 whose own last header has the same name gets the header too, with 1 in it: so a
record that was given such a header is not a mark. Only changelogs have marks; a topic that serves as one has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct

from processor_api.record import HeaderList

TIME_HEADER = "streams.timestamp"
"""Header of a changelog record with the timestamp in ms that it was written with (i64)."""
ZERO_SENT = 1
"""The timestamp that is sent instead of 0. No record with another one has a mark."""
_TIME = Struct(">q")
_MARKS: dict[tuple[str, bytes | None], int] = {(TIME_HEADER, _TIME.pack(time)): time for time in (0, ZERO_SENT)}


def with_time(headers: HeaderList | None, timestamp: int) -> HeaderList:
    """Returns the headers of a record that says with which timestamp it was written: 0, or `ZERO_SENT`."""
    return [*(headers or ()), (TIME_HEADER, _TIME.pack(timestamp))]


def looks_marked(headers: HeaderList | None) -> bool:
    """Whether the last header of a row could be taken for the mark."""
    return bool(headers) and headers[-1][0] == TIME_HEADER  # type: ignore[index]


def as_written(
    timestamps: Sequence[int], headers: Iterable[HeaderList | None]
) -> tuple[list[int], list[HeaderList | None]]:
    """Returns timestamps and headers of changelog records as they were before they were sent."""
    times, found = list(timestamps), list(headers)
    for place, given in enumerate(found):
        if given and times[place] == ZERO_SENT:
            written = _MARKS.get(given[-1])
            if written is not None:
                times[place], found[place] = written, given[:-1] or None
    return times, found
