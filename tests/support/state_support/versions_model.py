"""A versioned store as KIP-889 describes it, with KIP-968's meaning of a range: a dictionary of all that was ever put.

Kafka Streams' store does otherwise in three places, each a switch of the model: with them on it is that store, defects
included, and with them off what the KIPs say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from processor_api.stores.contracts import PUT_RETURN_CODE_NOT_PUT, PUT_RETURN_CODE_VALID_TO_UNDEFINED, VersionedRecord

__all__ = ["DEFECTS_OF_JAVA", "NO_DEFECTS", "Defects", "VersionsModel"]

Timeline = dict[int, str | None]
"""Values by the start of their validity; ``None`` for a deletion."""


@dataclass(frozen=True)
class Defects:
    """What Kafka Streams' store does otherwise."""

    forgets_deletions: bool = False
    """A deletion at the very time of the latest version leaves nothing behind, unless a version ended there already: a
    deletion is kept as the end of the version before it. An older put then becomes the latest version."""
    ranges_end_with_a_segment: bool = False
    """A read of a range of time leaves out versions that were valid in it and ended in a segment after that of the
    range's end."""
    expires_by_batch: bool = False
    """A restore expires by the highest timestamp of a batch, also for the records before it: what falls into an expired
    segment is not stored, and a deletion among it is forgotten."""


NO_DEFECTS = Defects()
DEFECTS_OF_JAVA = Defects(forgets_deletions=True, ranges_end_with_a_segment=True, expires_by_batch=True)


class VersionsModel:
    """Nothing is ever forgotten, but by a defect: what has expired is left out when it is read.

    :param retention: how long versions are kept, in ms.
    :param segment: versions expire together when they ended in the same segment of so many ms.
    """

    def __init__(self, retention: int, segment: int, defects: Defects = NO_DEFECTS) -> None:
        self.retention, self.segment, self.defects = retention, segment, defects
        self.keys: dict[str, Timeline] = {}
        self.time = -1
        self._rows: dict[str, _Rows] = {}

    def copy(self) -> VersionsModel:
        other = VersionsModel(self.retention, self.segment, self.defects)
        other.keys, other.time = {key: dict(line) for key, line in self.keys.items()}, self.time
        other._rows = {key: rows.copy() for key, rows in self._rows.items()}
        return other

    # ------------------------------------------------------------------ writes

    def is_late(self, timestamp: int) -> bool:
        return timestamp < self.time - self.retention

    def put(self, key: str, value: str | None, timestamp: int) -> int:
        if self.is_late(timestamp):
            return PUT_RETURN_CODE_NOT_PUT
        self.time = max(self.time, timestamp)
        line = self.keys.setdefault(key, {})
        follower = min((time for time in line if time > timestamp), default=None)
        if follower is None and self._forgets(key, value, timestamp):
            del line[timestamp]
        else:
            self._note_rows(key, value, timestamp, follower)
            line[timestamp] = value
        return PUT_RETURN_CODE_VALID_TO_UNDEFINED if follower is None else follower

    def _forgets(self, key: str, value: str | None, timestamp: int) -> bool:
        if not self.defects.forgets_deletions or value is not None or self.keys[key].get(timestamp) is None:
            return False
        return timestamp not in self._rows[key].ends

    def _note_rows(self, key: str, value: str | None, timestamp: int, follower: int | None) -> None:
        """What Kafka Streams' store has rows of after a put."""
        line, rows = self.keys[key], self._rows.setdefault(key, _Rows())
        before = max((time for time in line if time <= timestamp), default=None)
        if follower is not None:
            if follower in rows.stored_before or (before is not None and line[before] is not None):
                rows.end(timestamp)
            rows.end(follower)
        elif before is not None and line[before] is not None and before < timestamp:
            gap = max((time for time in line if time < before), default=None)
            if gap is not None and line[gap] is None and self._share_a_row(rows, gap, timestamp):
                rows.end(before)
            rows.end(timestamp)
        elif value is None and before != timestamp:
            rows.ends.add(timestamp)
            if before is not None and self._share_a_row(rows, before, timestamp):
                rows.end(timestamp)

    def _share_a_row(self, rows: _Rows, time: int, later: int) -> bool:
        return time in rows.ends and time // self.segment == later // self.segment

    def delete(self, key: str, timestamp: int) -> VersionedRecord[str] | None:
        old = None if self.is_late(timestamp) else self.get(key, timestamp)
        self.put(key, None, timestamp)
        return old

    def restore(self, records: Iterable[tuple[str, str | None, int]]) -> None:
        """One batch of a changelog: key, value and timestamp of each record."""
        batch = list(records)
        if not self.defects.expires_by_batch:
            for record in batch:
                self.put(*record)
            return
        at_the_end = max([self.time, *(timestamp for _, _, timestamp in batch)])
        for key, value, timestamp in batch:
            if not self._is_passed_over(key, timestamp, at_the_end):
                self.put(key, value, timestamp)
            if key in self.keys:
                self._drop(key, self._oldest_segment(at_the_end))
            self.time = max(self.time, timestamp)

    def _is_passed_over(self, key: str, timestamp: int, now: int) -> bool:
        """Whether a restore that is to end at a later time leaves a record out: what comes before a row that starts
        before the history is taken for expired."""
        return any(timestamp < start < now - self.retention for start in self._starts_of_rows(key))

    def _starts_of_rows(self, key: str) -> Iterable[int]:
        """Versions of a key that end in the same segment are one row."""
        line, rows = self.keys.get(key, {}), self._rows.get(key, _Rows())
        times = sorted(line)
        starts = {end // self.segment: end for end in sorted(rows.ends, reverse=True)}
        for time, end in zip(reversed(times[:-1]), reversed(times[1:]), strict=True):
            if line[time] is not None or end in rows.stored_before:
                starts[end // self.segment] = time
        return starts.values()

    def _drop(self, key: str, oldest_segment: int) -> None:
        """What ended in an older segment, and a deletion there that nothing follows."""
        line = self.keys[key]
        times = sorted(line)
        for time, end in zip(times, [*times[1:], None], strict=False):
            if end is None and line[time] is not None:
                continue
            if (time if end is None else end) // self.segment < oldest_segment:
                del line[time]
        self._rows[key].drop(oldest_segment * self.segment)

    # ------------------------------------------------------------------ reads

    def _oldest_segment(self, now: int) -> int:
        return max(now - self.retention, 0) // self.segment

    def all(self, key: str) -> Iterator[VersionedRecord[str]]:
        """Every version that can still be seen, oldest first."""
        line = self.keys.get(key, {})
        times = sorted(line)
        oldest_segment = self._oldest_segment(self.time)
        for time, end in zip(times, [*times[1:], None], strict=False):
            value = line[time]
            gone = end is not None and (end // self.segment < oldest_segment or self.retention == 0)
            if value is not None and not gone:
                yield VersionedRecord(value, time, end)

    def versions(self, key: str, first: int, last: int) -> list[VersionedRecord[str]]:
        """Those that were valid at some time from ``first`` to ``last``, both included, oldest first."""
        only_latest = last < self.time - self.retention
        return [
            record
            for record in self.all(key)
            if record.timestamp <= last and (record.valid_to is None or (record.valid_to > first and not only_latest))
        ]

    def range(self, key: str, first: int, last: int) -> list[VersionedRecord[str]]:
        """As :meth:`versions`, with the defect of ranges."""
        found = self.versions(key, first, last)
        if not self.defects.ranges_end_with_a_segment:
            return found
        last_segment = last // self.segment
        return [
            record for record in found if record.valid_to is None or record.valid_to // self.segment <= last_segment
        ]

    def get(self, key: str, as_of: int | None) -> VersionedRecord[str] | None:
        if as_of is None:
            found = list(self.all(key))
            return found[-1] if found and found[-1].valid_to is None else None
        found = self.versions(key, as_of, as_of)
        return found[0] if found else None


class _Rows:
    """What decides whether Kafka Streams' store forgets something of a key: it keeps a version as a row with its start
    and its end. Times without a value have a row only where something was put between them and what follows."""

    def __init__(self) -> None:
        self.ends: set[int] = set()
        """Ends of rows, and deletions that have a row of their own: they came when there was no latest version."""
        self.stored_before: set[int] = set()
        """Ends of rows that are longer than nothing."""

    def end(self, time: int) -> None:
        self.ends.add(time)
        self.stored_before.add(time)

    def drop(self, time: int) -> None:
        """Those before a time."""
        self.ends = {end for end in self.ends if end >= time}
        self.stored_before = {end for end in self.stored_before if end >= time}

    def copy(self) -> _Rows:
        other = _Rows()
        other.ends, other.stored_before = set(self.ends), set(self.stored_before)
        return other
