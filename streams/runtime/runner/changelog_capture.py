"""The compacted changelogs of a task: the last record of each key, in memory up to a number of bytes, then on disk.

A task over years of history writes each row of its stores many times, and only the last record of a key is of use. The
rows of a store's engine cannot take their place: they lack the timestamps and headers of the changelog.

In a store that keeps duplicates every put is a row of its own, so all of the history would be kept for a join whose
windows are seconds long. Their rows are dropped once they have expired.

A task that continues with the records of an earlier one can have its changes tracked: which records it wrote, and which
earlier ones these replace. The cost is that of the changed records, not of all.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from processor_api.errors import StreamsError
from processor_api.record import HeaderList
from state.engine.port import Batch, Engine
from state.engine.spilling import save_files
from state.formats.keys import window_start
from state.formats.values import read_headers, write_headers

ChangelogRow = tuple[bytes, bytes | None, int, HeaderList | None]
"""``(key, value, timestamp_ms, headers)`` of the last record of a changelog key."""

CAPTURE_BYTES = 64 << 20
"""Bytes of records that stay in memory, unless something else is asked for."""

RECORD_OVERHEAD_BYTES = 280
"""Bytes of a record in memory beside those of its key and value: four objects, and a place in a dictionary that has
just grown."""
HEADER_OVERHEAD_BYTES = 250

RECORDS, NOTES = "records", "notes"
"""The names of databases."""

LOAD_ROWS = 2000
"""Rows that are written to the database at once."""

_Record = tuple[bytes | None, int, HeaderList | None]


class Change(NamedTuple):
    """One key whose record is another one than that of the earlier task."""

    number: int | None
    """The number of the record; ``None`` if the key was deleted."""
    row: ChangelogRow | None
    replaces: int | None
    """The number of the earlier record; ``None`` if there was none."""
    former: ChangelogRow | None


_Log = Callable[[bytes, bytes | None, int, HeaderList | None], None]

_HEAD = struct.Struct(">QqB")
"""The number of the record in the order of writing, its timestamp, and what follows."""
_NULL, _VALUE, _NULL_WITH_HEADERS, _VALUE_WITH_HEADERS = range(4)
_ORDER = struct.Struct(">Q")
_TIME = struct.Struct(">q")


@dataclass
class _Topic:
    """The records of one changelog."""

    versioned: bool
    lasts_ms: int | None = None
    """Time after which a row may be dropped, counted from its window's start to that of the latest row."""
    latest_ms: int = -1
    """The start of the latest window."""
    waiting: dict[bytes, _Record] = field(default_factory=dict)
    """Records that are not on disk, in the order in which they were written."""
    spilled: bool = field(default=False, init=False)
    """Whether records are on disk."""
    next: int = field(default=0, init=False)
    """The number of the next record that goes to disk."""
    first: int | None = field(default=None, init=False)
    """The number of the first record whose changes are tracked; ``None`` if none are."""
    changed: int = field(default=0, init=False)
    """The number of keys whose record is another one since."""

    def row_of(self, record: ChangelogRow) -> ChangelogRow:
        """Returns a record without the time of a version in its key."""
        return (record[0][: -_TIME.size], *record[1:]) if self.versioned else record

    def is_over(self, key: bytes) -> bool:
        """Whether a row has expired."""
        return self.lasts_ms is not None and window_start(key) < self.latest_ms - self.lasts_ms


class ChangelogCapture:
    """Keeps the last record of each key of some changelogs. Used by one thread.

    :param changelogs: topics.
    :param versioned: those of them in which every timestamp of a key is a record of its own, deletions included.
    :param open_engine: opens a database of a name with some families, for the records that are too many: `RECORDS`, and
        `NOTES` for what is of use until :meth:`close` only; called at most once for each.
    :param most_bytes: the bytes of all records that may be in memory, objects included.
    :param lasting: changelogs of window stores whose rows are dropped when they are older than this many ms.
    """

    def __init__(
        self,
        changelogs: Collection[str],
        versioned: Collection[str],
        open_engine: Callable[[str, list[str]], Engine],
        most_bytes: int = CAPTURE_BYTES,
        lasting: Mapping[str, int] | None = None,
    ) -> None:
        lasting = lasting or {}
        self._topics = {topic: _Topic(topic in versioned, lasting.get(topic)) for topic in changelogs}
        self._open_engine = open_engine
        self._most_bytes = most_bytes
        self._engine: Engine | None = None
        self._notes: Engine | None = None
        self._bytes = 0
        self._closed = False

    @property
    def topics(self) -> tuple[str, ...]:
        """The changelogs."""
        return tuple(self._topics)

    @property
    def bytes_in_memory(self) -> int:
        """The bytes of the records that are in memory, about."""
        return self._bytes

    @property
    def spilled(self) -> bool:
        """Whether records are on disk."""
        return self._engine is not None

    def writer(self, topic: str) -> _Log:
        """Returns the function that takes a record of a changelog: ``(key, value, timestamp_ms, headers)``."""
        found = self._topics[topic]
        waiting = found.waiting
        pop, pack = waiting.pop, _TIME.pack

        def log(key: bytes, value: bytes | None, timestamp: int, headers: HeaderList | None) -> None:
            former = pop(key, None)  # the order of the last writes, as a compacted topic has it
            waiting[key] = value, timestamp, headers
            if former is None:
                self._bytes += len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES
            else:
                self._bytes += len(value or b"") - len(former[0] or b"")
                if former[2]:
                    self._bytes -= _header_bytes(former[2])
            if headers:
                self._bytes += _header_bytes(headers)

        def log_version(key: bytes, value: bytes | None, timestamp: int, headers: HeaderList | None) -> None:
            log(key + pack(timestamp), value, timestamp, headers)

        def log_window(key: bytes, value: bytes | None, timestamp: int, headers: HeaderList | None) -> None:
            start = window_start(key)
            if start > found.latest_ms:
                found.latest_ms = start
            log(key, value, timestamp, headers)

        if found.lasts_ms is not None:
            return log_window
        return log_version if found.versioned else log

    def settle(self) -> None:
        """Writes the records to disk if they are too many for the memory; to be called after each commit.

        :raises StateError: if they cannot be written; they are in memory still.
        """
        if self._bytes > self._most_bytes:
            self._drop_expired()
            if self._bytes > self._most_bytes // 2:  # otherwise the next check would follow soon
                self.spill()

    # ------------------------------------------------------------------ the records

    def rows(self, topic: str) -> Iterator[ChangelogRow]:
        """Yields the last record of each key, in the order in which they were written.

        Keys that were deleted last are left out; of a versioned changelog, deletions are records like others. Rows that
        have expired are left out where they may be dropped.

        :raises StreamsError: if the capture is closed.
        """
        found = self._open_topic(topic)
        rows: Iterable[ChangelogRow]
        if not found.spilled:
            rows = [(place, *record) for place, record in found.waiting.items()]
        else:
            self.spill()
            self._put_in_order(topic)
            rows = (row for _, row in self._in_order(topic))
        for row in rows:
            if not found.is_over(row[0]) and (found.versioned or row[1] is not None):
                yield found.row_of(row)

    def _open_topic(self, topic: str) -> _Topic:
        if self._closed:
            raise StreamsError(f"the records of changelog {topic!r} are gone: read them before close()", topic=topic)
        return self._topics[topic]

    def _put_in_order(self, topic: str) -> None:
        """Writes the records on disk once more by their numbers, since they are there by their keys."""
        notes, order = self._noted(), _order_family(topic)
        notes.clear([order])
        batch = notes.batch()
        for count, (place, row) in enumerate(self._database().family(topic).range(), 1):
            batch.put(row[: _ORDER.size], _with_place(place, row), notes.family(order).handle)
            if count % LOAD_ROWS == 0:
                notes.load(batch)
                batch = notes.batch()
        notes.load(batch)

    def _in_order(self, topic: str) -> Iterator[tuple[int, ChangelogRow]]:
        """Yields the records that are on disk by their numbers."""
        for number, both in self._noted().family(_order_family(topic)).range():
            end = _ORDER.size + _ORDER.unpack_from(both)[0]
            yield _ORDER.unpack(number)[0], _read_row(both[_ORDER.size : end], both[end:])

    def _drop_expired(self) -> None:
        for found in self._topics.values():
            if found.lasts_ms is not None:
                oldest = found.latest_ms - found.lasts_ms
                for key in [key for key in found.waiting if window_start(key) < oldest]:
                    value, _, headers = found.waiting.pop(key)
                    self._bytes -= len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES
                    if headers:
                        self._bytes -= _header_bytes(headers)

    def spill(self) -> None:
        """Writes what is in memory to disk."""
        engine = self._database()
        for topic, found in self._topics.items():
            if found.waiting:
                found.spilled = True
                write = self._write if found.first is None else self._write_changes
                write(engine, topic, found)
        self._bytes = 0

    def _database(self) -> Engine:
        if self._engine is None:
            self._engine = self._open_engine(RECORDS, list(self._topics))
        return self._engine

    def _noted(self) -> Engine:
        if self._notes is None:
            families = [name(topic) for topic in self._topics for name in (_order_family, _former_family)]
            self._notes = self._open_engine(NOTES, families)
        return self._notes

    def _write(self, engine: Engine, topic: str, found: _Topic) -> None:
        waiting, handle = found.waiting, engine.family(topic).handle
        batch: Batch = engine.batch()
        for count, (place, record) in enumerate(waiting.items(), 1):
            if record[0] is None and not found.versioned:
                batch.delete(place, handle)
            else:
                batch.put(place, _row_of(found.next, record), handle)
                found.next += 1
            if count % LOAD_ROWS == 0:
                engine.load(batch)
                batch = engine.batch()
        engine.load(batch)
        waiting.clear()

    # ------------------------------------------------------------------ changes

    def resume(self, known: Mapping[str, int]) -> None:
        """Continues with the records in the database of an earlier capture, whose changes are tracked from now on.

        :param known: the changelogs that were tracked, with the number of the next record of each. Records of others
            are deleted.
        """
        self._database().clear([topic for topic in self._topics if topic not in known])
        for topic, number in known.items():
            found = self._topics[topic]
            found.spilled, found.next, found.first = True, number, number

    def track(self) -> None:
        """Tracks the changes of all records that are here; but not of those that expire here."""
        self.spill()
        for found in self._topics.values():
            if found.lasts_ms is None:
                found.spilled, found.first = True, found.next

    @property
    def tracked(self) -> Mapping[str, int]:
        """The changelogs whose changes are tracked, with the number of the next record of each."""
        return {topic: found.next for topic, found in self._topics.items() if found.first is not None}

    def changed(self) -> dict[str, int]:
        """Writes all records to disk; returns the number of keys of each tracked changelog that have changed."""
        self.spill()
        return {topic: found.changed for topic, found in self._topics.items() if found.first is not None}

    def changes(self, topic: str) -> Iterator[Change]:
        """Yields the keys whose records have changed, those that have a record in the order in which they were written.

        A key that was deleted and written again has a change too, even if the record is the same.
        """
        self.spill()
        found, formers = self._open_topic(topic), self._noted().family(_former_family(topic))
        former_of, now = formers.get, self._database().family(topic).get

        def change(number: int | None, row: ChangelogRow | None, place: bytes, former: bytes | None) -> Change:
            if former is None:
                return Change(number, row, None, None)
            return Change(number, row, _ORDER.unpack_from(former)[0], found.row_of(_read_row(place, former)))

        for number, row in self._in_order(topic):
            yield change(number, found.row_of(row), row[0], former_of(row[0]))
        for place, former in formers.range():
            if now(place) is None:
                yield change(None, None, place, former)

    def _write_changes(self, engine: Engine, topic: str, found: _Topic) -> None:
        """Writes records that are in memory, and notes those that they replace.

        A record that was written earlier than the tracking is kept as the former one of its key; later ones are
        deleted from the order.
        """
        waiting, rows, notes = found.waiting, engine.family(topic), self._noted()
        row_handle = rows.handle
        order, former = (notes.family(name(topic)).handle for name in (_order_family, _former_family))
        get, first = rows.get, found.first
        assert first is not None
        batch, noted = engine.batch(), notes.batch()
        for count, (place, record) in enumerate(waiting.items(), 1):
            before = get(place)
            if before is None:
                found.changed += 1
            elif _ORDER.unpack_from(before)[0] < first:
                noted.put(place, before, former)
                found.changed += 1
            else:
                noted.delete(before[: _ORDER.size], order)
            if record[0] is None and not found.versioned:
                batch.delete(place, row_handle)
            else:
                row = _row_of(found.next, record)
                batch.put(place, row, row_handle)
                noted.put(row[: _ORDER.size], _with_place(place, row), order)
                found.next += 1
            if count % LOAD_ROWS == 0:
                engine.load(batch)
                notes.load(noted)
                batch, noted = engine.batch(), notes.batch()
        engine.load(batch)
        notes.load(noted)
        waiting.clear()

    def save(self, directory: Path) -> None:
        """Writes all records to disk, and the files of the database to a directory, which must not exist.

        :raises StateError: if they cannot be written.
        """
        self.spill()
        save_files(self._database(), directory)

    def close(self) -> None:
        """Closes the databases, if there are any; the records are gone."""
        self._closed = True
        engines = self._engine, self._notes
        self._engine = self._notes = None
        for engine in engines:
            if engine is not None:
                engine.close()


def _order_family(topic: str) -> str:
    return f"{topic}.order"


def _former_family(topic: str) -> str:
    return f"{topic}.former"


def _with_place(place: bytes, row: bytes) -> bytes:
    return _ORDER.pack(len(place)) + place + row


def _header_bytes(headers: HeaderList) -> int:
    return sum(len(key) + len(value or b"") + HEADER_OVERHEAD_BYTES for key, value in headers)


def _row_of(number: int, record: _Record) -> bytes:
    value, timestamp, headers = record
    if headers:
        data = write_headers(headers)
        kind = _NULL_WITH_HEADERS if value is None else _VALUE_WITH_HEADERS
        return _HEAD.pack(number, timestamp, kind) + _ORDER.pack(len(data)) + data + (value or b"")
    if value is None:
        return _HEAD.pack(number, timestamp, _NULL)
    return _HEAD.pack(number, timestamp, _VALUE) + value


def _read_row(place: bytes, row: bytes) -> ChangelogRow:
    _, timestamp, kind = _HEAD.unpack_from(row)
    rest, headers = row[_HEAD.size :], None
    if kind in (_NULL_WITH_HEADERS, _VALUE_WITH_HEADERS):
        end = _ORDER.size + _ORDER.unpack_from(rest)[0]
        rest, headers = rest[end:], read_headers(rest[_ORDER.size : end])
    return place, rest if kind in (_VALUE, _VALUE_WITH_HEADERS) else None, timestamp, headers
