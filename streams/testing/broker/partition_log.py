"""One partition: records by offset, the open transactions over them, and what is deleted.

Offsets are reused only after `lose_from`: the election of a leader that lacks the end of the log (KIP-101). A
transaction's marker takes an offset and is not stored, so that a log with markers, like a compacted one, has gaps.
Aborted records stay in the log, known by their offsets, for consumers that read uncommitted. Nothing here takes a lock:
the broker holds its own around every call.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import NamedTuple

from streams.testing.broker.messages import LogRecord
from streams.testing.broker.segments import LogSegments

_offset_of = attrgetter("log_offset")
_epoch_of = itemgetter(0)


class _Epoch(NamedTuple):
    """A leader of the partition, by its epoch, and the offset of its first record."""

    epoch: int
    start: int


class _Ended(NamedTuple):
    """A transaction that has ended in the partition: its first record, and its marker."""

    first: int
    marker: int


class _History:
    """The transactions that have ended in a partition, and its leaders."""

    __slots__ = ("ended", "epochs", "last_aborted")

    def __init__(self) -> None:
        self.ended: list[_Ended] = []
        self.epochs = [_Epoch(0, 0)]
        """The leaders that have written records or are to write the next one, in their order."""
        self.last_aborted = -1
        """The offset of the last record of an aborted transaction."""


class PartitionLog:
    """The log of a partition. ``end_offset`` is its high watermark too: there are no replicas to wait for."""

    __slots__ = (
        "_aborted",
        "_gapless",
        "_history",
        "_open",
        "_records",
        "_tombstones_go_ms",
        "end_offset",
        "last_stable_offset",
        "partition",
        "segments",
        "start_offset",
        "topic",
    )

    def __init__(self, topic: str, partition: int, segments: LogSegments | None = None) -> None:
        self.topic = topic
        self.partition = partition
        self.segments = segments or LogSegments()
        self.start_offset = 0
        self.end_offset = 0
        self.last_stable_offset = 0
        """The end for a consumer with ``read_committed``: the first record of the oldest open transaction."""
        self._records: list[LogRecord] = []
        self._gapless = True
        self._open: dict[int, list[LogRecord]] = {}
        self._aborted: set[int] = set()
        self._history = _History()
        self._tombstones_go_ms: dict[int, int] = {}
        """The time at which a tombstone that was kept by a compaction may be removed, by its offset (KIP-534)."""

    def append(self, batch: Sequence[LogRecord], producer_id: int | None = None) -> None:
        """Gives the records the next offsets; with a producer id they are part of that producer's open transaction."""
        self.segments.add(self.end_offset, batch)
        epoch = self.leader_epoch
        for offset, record in enumerate(batch, self.end_offset):
            record.log_offset = offset
            record.epoch = epoch
        self._records += batch
        self.end_offset += len(batch)
        if producer_id is not None:
            self._open.setdefault(producer_id, []).extend(batch)
        elif not self._open:
            self.last_stable_offset = self.end_offset

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Writes the marker that ends the producer's transaction in this partition."""
        records = self._open.pop(producer_id, [])
        if records:
            self._history.ended.append(_Ended(records[0].log_offset, self.end_offset))
        if records and not committed:
            self._aborted.update(map(_offset_of, records))
            self._history.last_aborted = max(self._history.last_aborted, records[-1].log_offset)
        self.end_offset += 1
        self._gapless = False
        stable = min((run[0].log_offset for run in self._open.values()), default=self.end_offset)
        self.last_stable_offset = max(self.start_offset, stable)

    # ------------------------------------------------------------------ leaders

    @property
    def leader_epoch(self) -> int:
        """The number of the present leader, one more with each election."""
        return self._history.epochs[-1].epoch

    def elect(self) -> None:
        """Gives the partition another leader that has the whole log."""
        epoch = self.leader_epoch + 1
        while self._history.epochs and self._history.epochs[-1].start >= self.end_offset:
            del self._history.epochs[-1]
        self._history.epochs.append(_Epoch(epoch, self.end_offset))

    def lose_from(self, offset: int) -> None:
        """Gives the partition a leader that lacks the records from an offset on, which the next records get again.

        That is what an unclean election does, or a broker whose disk is an older copy. Here the leader also lacks the
        first records of a transaction whose marker it lacks, because nothing would ever end that transaction.
        """
        while cut := [one.first for one in self._history.ended if one.first < offset <= one.marker]:
            offset = min(cut)
        offset = max(offset, self.start_offset)
        epoch = self.leader_epoch + 1
        if offset < self.end_offset:
            del self._records[self._index(offset) :]
            self.end_offset = offset
            self._history.ended = [one for one in self._history.ended if one.marker < offset]
            for producer_id, run in list(self._open.items()):
                run[:] = [record for record in run if record.log_offset < offset]
                if not run:
                    del self._open[producer_id]
            self.last_stable_offset = min((run[0].log_offset for run in self._open.values()), default=offset)
            self._history.last_aborted = min(self._history.last_aborted, offset - 1)
            self.segments.ends_at(offset, self._records)
            self._records_removed()
        while self._history.epochs and self._history.epochs[-1].start >= offset:
            del self._history.epochs[-1]
        self._history.epochs.append(_Epoch(epoch, self.end_offset))

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """Returns the largest epoch in the log up to one, and the offset after its last record (OffsetForLeaderEpoch);
        -1 and -1 for an epoch that is to come."""
        if epoch > self.leader_epoch:
            return -1, -1
        index = bisect_right(self._history.epochs, epoch, key=_epoch_of)
        if index == 0:
            return epoch, self._history.epochs[0].start
        end = self._history.epochs[index].start if index < len(self._history.epochs) else self.end_offset
        return self._history.epochs[index - 1].epoch, end

    # ------------------------------------------------------------------ reading

    def limit(self, committed: bool) -> int:
        """Returns the offset at which a consumer of this isolation level stops."""
        return self.last_stable_offset if committed else self.end_offset

    def read(self, position: int, count: int, committed: bool) -> tuple[list[LogRecord], int]:
        """Returns up to ``count`` records from ``position`` on, and the position after them, past markers and, if
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
            if committed and run and run[0].log_offset <= self._history.last_aborted:
                run = [record for record in run if record.log_offset not in self._aborted]
            if run:
                return run, position
        return [], position

    def offset_for_time(self, timestamp_ms: int, committed: bool) -> int:
        """Returns the first offset, in order of the log, whose record is at or after the time; the limit if there is
        none."""
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
            self.segments.starts_at(offset)
            self._records_removed()

    def delete_expired(self, oldest_ms: int | None, most_bytes: int | None) -> None:
        """Deletes the segments that are too old or too many, from the oldest on and as far as transactions are closed;
        see :meth:`Segments.expired`."""
        start = self.segments.expired(self.end_offset, oldest_ms, most_bytes)
        if start == self.end_offset <= self.last_stable_offset:
            self.segments.start_over(start)
        self.delete_before(min(start, self.last_stable_offset))

    def compact(self, now_ms: int, *, delete_retention_ms: int = 0, youngest_ms: int | None = None) -> None:
        """Keeps the last record of every key, in the segments before the newest one and before open transactions. A
        tombstone stays, and goes in a compaction ``delete_retention_ms`` after its first one.

        :param youngest_ms: segments with records after it are left alone.
        """
        limit = min(self.segments.cleanable_before(youngest_ms), self.last_stable_offset)
        cleanable = self._index(limit)
        last: dict[bytes | None, LogRecord] = {}
        for record in self._records[:cleanable]:
            if record.log_offset not in self._aborted:
                last[record.key()] = record
        kept = [record for record in last.values() if not self._may_go(record, now_ms, delete_retention_ms)]
        kept.sort(key=_offset_of)
        self._records[:cleanable] = kept
        self.segments.measure(self._records)
        self._records_removed()

    def _may_go(self, record: LogRecord, now_ms: int, delete_retention_ms: int) -> bool:
        if record.value() is not None:
            return False
        goes_ms = self._tombstones_go_ms.get(record.log_offset)
        if goes_ms is None:
            self._tombstones_go_ms[record.log_offset] = now_ms + delete_retention_ms
        return goes_ms is not None and goes_ms <= now_ms

    def _records_removed(self) -> None:
        records = self._records
        if self._aborted:
            self._aborted.intersection_update(map(_offset_of, records))
        if self._tombstones_go_ms:
            left = set(map(_offset_of, records))
            self._tombstones_go_ms = {offset: ms for offset, ms in self._tombstones_go_ms.items() if offset in left}
        self._gapless = not records or len(records) == self.end_offset - records[0].log_offset

    def _index(self, offset: int) -> int:
        """Returns the index of the first record at or after the offset."""
        records = self._records
        if self._gapless:
            return max(0, offset - records[0].log_offset) if records else 0
        return bisect_left(records, offset, key=_offset_of)
