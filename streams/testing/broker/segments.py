"""Cuts a partition's log into segments, as Kafka deletes and compacts by whole segments.

A segment ends where a batch would make it larger than ``segment.bytes``, or is more than ``segment.ms`` younger than
its first one, by the records' timestamps. The newest segment is never compacted, and deleted only as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from streams.testing.broker.messages import LogRecord

BATCH_OVERHEAD = 61
"""Bytes of a batch beside its records."""

RECORD_OVERHEAD = 9
"""Approximate bytes of a record beside its key, value and headers; lengths and differences are counted as they are."""

DAY_MS = 24 * 60 * 60 * 1000


def record_bytes(record: LogRecord) -> int:
    """Returns about how many bytes a record takes in a batch."""
    size = RECORD_OVERHEAD + len(record.key() or b"") + len(record.value() or b"")
    for name, value in record.headers() or ():
        size += 2 + len(name) + len(value or b"")
    return size


@dataclass(slots=True)
class Segment:
    """The records from ``base_offset`` on, up to the next segment."""

    base_offset: int
    size: int = 0
    first_timestamp: int = -1
    """The largest timestamp of the first batch."""
    largest_timestamp: int = -1


class LogSegments:
    """The segments of one partition. There is always one that is written to."""

    __slots__ = ("_all", "segment_bytes", "segment_ms")

    def __init__(self, segment_bytes: int = 1 << 30, segment_ms: int = 7 * DAY_MS) -> None:
        self.segment_bytes = segment_bytes
        self.segment_ms = segment_ms
        self._all = [Segment(0)]

    def add(self, offset: int, batch: Sequence[LogRecord]) -> None:
        """Adds a batch that is appended at ``offset``."""
        size = BATCH_OVERHEAD
        latest = -1
        for record in batch:
            size += record_bytes(record)
            if record.stamp[1] > latest:
                latest = record.stamp[1]
        active = self._all[-1]
        if active.size and (
            active.size + size > self.segment_bytes or latest - active.first_timestamp > self.segment_ms
        ):
            active = self.roll(offset)
        if not active.size:
            active.first_timestamp = latest
        active.size += size
        active.largest_timestamp = max(active.largest_timestamp, latest)

    def roll(self, offset: int) -> Segment:
        """Starts a segment with the next record, at ``offset``."""
        if self._all[-1].size:
            self._all.append(Segment(offset))
        return self._all[-1]

    def expired(self, end_offset: int, oldest_ms: int | None, most_bytes: int | None) -> int:
        """Returns the start of the log without the segments that are too old or too many; ``None`` removes the limit.

        :param end_offset: of the log: where it starts if all of it goes.
        :param oldest_ms: a segment whose largest timestamp is before goes, if all older ones do.
        :param most_bytes: the oldest go as long as what is left is not less than this.
        """
        excess = sum(segment.size for segment in self._all) - (most_bytes or 0)
        for segment in self._all:
            too_old = oldest_ms is not None and segment.largest_timestamp < oldest_ms
            too_many = most_bytes is not None and segment.size <= excess
            if not segment.size or not (too_old or too_many):
                return segment.base_offset
            excess -= segment.size
        return end_offset

    def cleanable_before(self, youngest_ms: int | None) -> int:
        """Returns the offset up to which the log may be compacted: that of the newest segment, or of an earlier one
        with records after the time given."""
        for segment in self._all[:-1]:
            if youngest_ms is not None and segment.largest_timestamp > youngest_ms:
                return segment.base_offset
        return self._all[-1].base_offset

    def starts_at(self, offset: int) -> None:
        """Removes the segments that end before an offset, to which the start of the log has moved; the others stay as
        they are."""
        while len(self._all) > 1 and self._all[1].base_offset <= offset:
            del self._all[0]

    def ends_at(self, offset: int, records: Iterable[LogRecord]) -> None:
        """Removes what is at or after an offset, to which the end of the log has gone back.

        :param records: those that are left, in order.
        """
        while len(self._all) > 1 and self._all[-1].base_offset >= offset:
            del self._all[-1]
        active = self._all[-1]
        left = [record for record in records if record.log_offset >= active.base_offset]
        self._all[-1] = Segment(min(active.base_offset, offset))
        for record in left:
            self._all[-1].size += BATCH_OVERHEAD + record_bytes(record)
            self._all[-1].largest_timestamp = max(self._all[-1].largest_timestamp, record.stamp[1])
        self._all[-1].first_timestamp = active.first_timestamp if left else -1

    def start_over(self, offset: int) -> None:
        """Removes all segments, the newest one too."""
        self._all = [Segment(offset)]

    def measure(self, records: Iterable[LogRecord]) -> None:
        """Counts the sizes of the segments again after a compaction, from the records that are left, in order."""
        by_start = [segment.base_offset for segment in self._all[1:]]
        sizes = [0] * len(self._all)
        number = 0
        for record in records:
            while number < len(by_start) and record.log_offset >= by_start[number]:
                number += 1
            sizes[number] += BATCH_OVERHEAD + record_bytes(record)
        for segment, size in zip(self._all[:-1], sizes[:-1], strict=True):
            segment.size = size
        self._all[:-1] = [segment for segment in self._all[:-1] if segment.size]
