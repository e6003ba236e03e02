"""One partition: records by offset, the open transactions over them, and what is deleted.

Offsets are never reused. A transaction's marker takes an offset and is not stored, so that a log with markers, like a
compacted one, has gaps. Aborted records stay in the log, known by their offsets, for consumers that read uncommitted.
Nothing here takes a lock: the broker holds its own around every call.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter

from streams.kafka.embedded.messages import Record

__all__ = ["PartitionLog"]

_offset_of = attrgetter("log_offset")


class PartitionLog:
    """The log of a partition. ``end_offset`` is its high watermark too: there are no replicas to wait for."""

    __slots__ = (
        "_aborted",
        "_gapless",
        "_last_aborted",
        "_open",
        "_records",
        "end_offset",
        "last_stable_offset",
        "partition",
        "start_offset",
        "topic",
    )

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.start_offset = 0
        self.end_offset = 0
        self.last_stable_offset = 0
        """The end for a consumer that reads committed: the first record of the oldest open transaction."""
        self._records: list[Record] = []
        self._gapless = True
        self._open: dict[int, list[Record]] = {}
        self._aborted: set[int] = set()
        self._last_aborted = -1

    def append(self, record: Record, producer_id: int | None = None) -> None:
        """Gives the record the next offset; with a producer id it is part of that producer's open transaction."""
        record.log_offset = offset = self.end_offset
        self._records.append(record)
        self.end_offset = offset + 1
        if producer_id is not None:
            self._open.setdefault(producer_id, []).append(record)
        elif not self._open:
            self.last_stable_offset = offset + 1

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Writes the marker that ends the producer's transaction in this partition."""
        records = self._open.pop(producer_id)
        if not committed:
            self._aborted.update(map(_offset_of, records))
            self._last_aborted = max(self._last_aborted, records[-1].log_offset)
        self.end_offset += 1
        self._gapless = False
        stable = min((run[0].log_offset for run in self._open.values()), default=self.end_offset)
        self.last_stable_offset = max(self.start_offset, stable)

    def limit(self, committed: bool) -> int:
        """The offset at which a consumer of this isolation level stops."""
        return self.last_stable_offset if committed else self.end_offset

    def read(self, position: int, count: int, committed: bool) -> tuple[list[Record], int]:
        """Up to ``count`` records from ``position`` on, and the position after them, past markers and, if
        ``committed``, past aborted records. No records are returned only if the position is then the limit."""
        limit = self.limit(committed)
        records = self._records
        while position < limit:
            start, stop = self._index(position), self._index(limit)
            if start + count < stop:
                run = records[start : start + count]
                position = run[-1].log_offset + 1
            else:
                run = records[start:stop]
                position = limit
            if committed and run and run[0].log_offset <= self._last_aborted:
                run = [record for record in run if record.log_offset not in self._aborted]
            if run:
                return run, position
        return [], position

    def offset_for_time(self, timestamp_ms: int, committed: bool) -> int:
        """The first offset in order of the log whose record is at or after the time; the limit if there is none."""
        limit = self.limit(committed)
        for record in self._records:
            if record.stamp[1] >= timestamp_ms and record.log_offset < limit:
                return record.log_offset
        return limit

    def delete_before(self, offset: int) -> None:
        """Moves the log's start up to ``offset``, never back."""
        if offset > self.start_offset:
            del self._records[: self._index(offset)]
            self.start_offset = offset
            self.last_stable_offset = max(self.last_stable_offset, offset)
            self._records_removed()

    def delete_older(self, timestamp_ms: int) -> None:
        """Deletes the records before the first one that is not older, as far as transactions are closed."""
        kept = (record.log_offset for record in self._records if record.stamp[1] >= timestamp_ms)
        self.delete_before(min(next(kept, self.end_offset), self.last_stable_offset))

    def compact(self, tombstones_before_ms: int) -> None:
        """Keeps the last record of every key, and a tombstone only if it is not older than the time given."""
        stable = self._index(self.last_stable_offset)
        last: dict[bytes | None, Record] = {}
        for record in self._records[:stable]:
            if record.log_offset not in self._aborted:
                last[record.key()] = record
        kept = [r for r in last.values() if r.value() is not None or r.stamp[1] >= tombstones_before_ms]
        kept.sort(key=_offset_of)
        self._records[:stable] = kept
        self._records_removed()

    def _records_removed(self) -> None:
        records = self._records
        if self._aborted:
            self._aborted.intersection_update(map(_offset_of, records))
        self._gapless = not records or len(records) == self.end_offset - records[0].log_offset

    def _index(self, offset: int) -> int:
        """Where the first record at or after the offset is."""
        records = self._records
        if self._gapless:
            return max(0, offset - records[0].log_offset) if records else 0
        return bisect_left(records, offset, key=_offset_of)
