"""The metadata of a committed offset: the partition's time, and the numbers that processors need after a restart.

Base64 of ``magic byte 2``, ``partition time i64`` and, if there are any, the processors' numbers: ``count i32``, each
as ``name length i32``, name, ``value i64`` (formats 8, semantics 2 and 51). The names are those of stores, the
numbers the window close time that was emitted last. After them, which Kafka Streams does not read: a byte 1 and the 16
bytes of the topic's id, which distinguishes the offsets of a topic from those of one that was deleted before. Then
notes, each as ``kind byte``, ``length u16`` and its bytes: the changelogs that hold records, a handover that is not
complete, records to skip, the handover that committed the offset, the stream times of operators, by marks instead of
names, the schemas of stores, by marks, the form of the records of a repartition topic, and the ids of the changelogs,
by marks, and the last record before the offset with the epoch of its leader. A note of another kind is passed over.

A broker takes a text of 4,096 bytes with an offset (``offset.metadata.max.bytes``), and refuses a commit with a longer
one. So marks replace names that are too long together, and times that have no room after that are left out, or the
marks of schemas.
"""

from __future__ import annotations

import base64
import logging
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from processor_api.record import NO_TIMESTAMP

log = logging.getLogger("streams.kafka")

_FRONT = struct.Struct(">bq")
_COUNT = struct.Struct(">i")
_VALUE = struct.Struct(">q")
_PARTITION_TIME_ONLY, _LATEST = 1, 2
_ID, ID_BYTES = b"\x01", 16
_NOTE, _MARK, _SKIP, _TIME = struct.Struct(">BH"), struct.Struct(">I"), struct.Struct(">qq"), struct.Struct(">Iq")
_SCHEMA, _CHANGELOG_ID, _LOG_POINT = struct.Struct(">III"), struct.Struct(">II"), struct.Struct(">qi")
_MARKS, _HANDOVER, _SKIPPED, _HANDED_OVER, _TIMES, _SCHEMAS, _FORM, _CHANGELOG_IDS, _POINT = 2, 3, 4, 5, 6, 7, 8, 9, 10

_MOST_BYTES = 4096 // 4 * 3
"""Bytes that a broker takes with an offset by default, as they are before base64."""
MOST_TIMES = 180
"""This many times of operators always fit, along with as many changelogs and the other parts."""
MOST_MARKS = 400
"""The most changelogs that are named; the others are not known to hold records."""
_MARKED = "#"
CLONE = "clone of "
"""The beginning of the id of a handover by which an application is made of another one (`streams state clone`)."""
PROMOTION = "promotion of "
"""The beginning of the id of a handover by which a shadow takes the place of an application (`streams shadow`)."""


class LogPoint(NamedTuple):
    """A record of a partition, with the epoch of a leader that had it in its log (KIP-101).

    If the log was truncated before the record and has grown again, a later leader has another record at the offset."""

    offset: int
    leader_epoch: int


class SkipRule(NamedTuple):
    """The records of a partition that a backfill has processed already, by their times: live processing skips them."""

    before_ms: int
    """Records with an earlier timestamp are skipped."""
    until_offset: int
    """Only records before this offset are."""


@lru_cache(maxsize=4096)
def changelog_mark(topic: str) -> int:
    """Returns the number that stands for a changelog in the metadata of offsets: the CRC-32 of its name."""
    return zlib.crc32(topic.encode())


@lru_cache(maxsize=4096)
def time_mark(name: str) -> str:
    """Returns the short form of the name of a time: ``#`` and the CRC-32 of the name; of a short form, itself."""
    return name if name.startswith(_MARKED) else f"{_MARKED}{zlib.crc32(name.encode()):08x}"


class SchemaMark(NamedTuple):
    """The schemas of a store as of a commit, as CRC-32s, by which a restore knows whether all rows have them."""

    store: int
    """That of the store's name."""
    last: int
    """That of the schemas of the serdes that wrote its rows last."""
    kept: int
    """That of all that is kept of the schemas of its rows; equal to ``last`` if none are of an older form."""


class ChangelogId(NamedTuple):
    """The topic that a changelog was as of a commit, which distinguishes it from a later one of the same name."""

    mark: int
    """That of the changelog's name."""
    id: int
    """The CRC-32 of the topic's id."""

    @classmethod
    def of(cls, topic: str, topic_id: str) -> ChangelogId:
        """Returns that of a changelog with this id."""
        return cls(changelog_mark(topic), zlib.crc32(topic_id.encode()))


@dataclass(frozen=True)
class TopicPartitionMetadata:
    """The metadata that is committed with the offset of one input partition."""

    partition_time: int = NO_TIMESTAMP
    """The largest timestamp seen in the partition, in ms; -1 when none was."""
    processors: Mapping[str, int] = field(default_factory=dict)
    """The times that operators keep, by the name of a store or by :func:`time_mark`."""
    topic_id: str | None = None
    """The id of the topic that the offset is of, as Kafka's tools print it; ``None`` if it is not known."""
    changelogs: frozenset[int] = frozenset()
    """The task's changelogs that hold records, by :func:`changelog_mark`: an empty one has lost its records."""
    handover: str | None = None
    """The id of a handover that has begun and is not complete; the offset must not be used then."""
    skip: SkipRule | None = None
    handed_over: str | None = None
    """The id of the handover that committed the offset, until a worker commits another."""
    schemas: frozenset[SchemaMark] = frozenset()
    """The schemas of the task's stores."""
    form: str | None = None
    """The form of the records of a repartition topic that were not processed, as far as one is known
    (:mod:`streams.runtime.start.waiting_records`)."""
    changelog_ids: frozenset[ChangelogId] = frozenset()
    """The ids of the task's changelogs that hold records, where they have room: a changelog with another id has lost
    what the offset stands for."""
    point: LogPoint | None = None
    """The last record before the offset that was read, if its leader epoch is known."""

    def encode(self) -> str:
        """Returns the text, of at most 4,096 characters: the times that have no room are left out."""
        id_, notes = _packed_id(self.topic_id) if self.topic_id else b"", b"".join(self._notes())
        named, marked = self._times(_MOST_BYTES - _FRONT.size - _COUNT.size - len(id_) - len(notes))
        notes += _packed_note(_TIMES, b"".join(marked)) if marked else b""
        size = _FRONT.size + _COUNT.size + sum(map(len, named)) + len(id_)
        for more in (_packed_ids(self.changelog_ids), _packed_schemas(self.schemas)):
            if size + len(notes) + len(more) <= _MOST_BYTES:
                notes += more
        front = _FRONT.pack(_LATEST, self.partition_time)
        if named or id_ or notes:
            front += _COUNT.pack(len(named)) + b"".join(named)
        return base64.b64encode(front + id_ + notes).decode("ascii")

    def _times(self, room: int) -> tuple[list[bytes], list[bytes]]:
        """Returns the times under their names, and those under marks, which fit into ``room`` bytes."""
        named = {name: time for name, time in self.processors.items() if not name.startswith(_MARKED)}
        marked = {name: time for name, time in self.processors.items() if name not in named}
        packed = [_packed_number(name, time) for name, time in named.items()]
        most = (room - _NOTE.size) // _TIME.size
        if sum(map(len, packed)) + (_NOTE.size + len(marked) * _TIME.size if marked else 0) > room:
            packed, marked = [], {time_mark(name): time for name, time in named.items()} | marked
        return packed, [_TIME.pack(int(mark[1:], 16), time) for mark, time in islice(marked.items(), most)]

    def _notes(self) -> Iterator[bytes]:
        if self.changelogs:
            yield _packed_marks(self.changelogs)
        if self.handover is not None:
            yield _packed_note(_HANDOVER, self.handover.encode())
        if self.skip is not None:
            yield _packed_note(_SKIPPED, _SKIP.pack(*self.skip))
        if self.handed_over is not None:
            yield _packed_note(_HANDED_OVER, self.handed_over.encode())
        if self.form is not None:
            yield _packed_note(_FORM, self.form.encode())
        if self.point is not None:
            yield _packed_note(_POINT, _LOG_POINT.pack(*self.point))

    @classmethod
    def is_whole(cls, text: str) -> bool:
        """Returns whether a text is, from its beginning to its end, one that `encode` writes for a topic with an id."""
        try:
            data = base64.b64decode(text, validate=True)
            if data[:1] != bytes([_LATEST]):
                return False
            _, end = _read_processors(data)
            if _read_id(data, end) is None:
                return False
            ends = [behind for _, _, behind in _read_notes(data, end + 1 + ID_BYTES)]
            return len(data) == (ends[-1] if ends else end + 1 + ID_BYTES)
        except (ValueError, struct.error):
            return False

    @classmethod
    def decode(cls, text: str) -> TopicPartitionMetadata:
        """Reads what `encode` has written. What cannot be read is logged and counts as not known, as in Kafka Streams:
        another tool may have committed the offset."""
        if not text:
            return cls()
        partition_time = NO_TIMESTAMP
        try:
            data = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
            magic, time = _FRONT.unpack_from(data)
            if magic not in (_PARTITION_TIME_ONLY, _LATEST):
                raise ValueError(f"version {magic} is not known")
            partition_time = time
            if magic != _LATEST:
                return cls(partition_time)
            processors, end = _read_processors(data)
            topic_id = _read_id(data, end)
            if topic_id is not None:
                end += 1 + ID_BYTES
            notes = {kind: note for kind, note, _ in _read_notes(data, end)}
            return cls(partition_time, processors | _marked_times(notes), topic_id, *_known_notes(notes))
        except (ValueError, struct.error) as error:
            log.warning("metadata of a committed offset cannot be read", extra={"metadata": text, "error": str(error)})
            return cls(partition_time)


@lru_cache
def _packed_id(topic_id: str) -> bytes:
    return _ID + base64.urlsafe_b64decode(topic_id + "==")


@lru_cache
def _packed_marks(changelogs: frozenset[int]) -> bytes:
    return _packed_note(_MARKS, b"".join(map(_MARK.pack, sorted(changelogs)[:MOST_MARKS])))


@lru_cache
def _packed_ids(ids: frozenset[ChangelogId]) -> bytes:
    return _packed_note(_CHANGELOG_IDS, b"".join(_CHANGELOG_ID.pack(*one) for one in sorted(ids))) if ids else b""


@lru_cache
def _packed_schemas(schemas: frozenset[SchemaMark]) -> bytes:
    if not schemas:
        return b""
    return _packed_note(_SCHEMAS, b"".join(_SCHEMA.pack(*one) for one in sorted(schemas)))


def _packed_number(name: str, value: int) -> bytes:
    raw = name.encode()
    return _COUNT.pack(len(raw)) + raw + _VALUE.pack(value)


def _packed_note(kind: int, note: bytes) -> bytes:
    return _NOTE.pack(kind, len(note)) + note


def _read_notes(data: bytes, offset: int) -> Iterator[tuple[int, bytes, int]]:
    """Yields the kind and bytes of each note, and the offset behind it; one that is cut off ends them."""
    while len(data) >= offset + _NOTE.size:
        kind, length = _NOTE.unpack_from(data, offset)
        begin, offset = offset + _NOTE.size, offset + _NOTE.size + length
        if len(data) < offset or kind <= _ID[0]:
            return
        yield kind, data[begin:offset], offset


_Notes = tuple[
    frozenset[int],
    str | None,
    SkipRule | None,
    str | None,
    frozenset[SchemaMark],
    str | None,
    frozenset[ChangelogId],
    LogPoint | None,
]


def _all(entry: struct.Struct, data: bytes) -> Iterable[tuple[Any, ...]]:
    """Returns the entries of a note; none if it does not end with one."""
    return () if len(data) % entry.size else entry.iter_unpack(data)


def _known_notes(notes: Mapping[int, bytes]) -> _Notes:
    """Returns what the notes say, in the order of the fields."""
    marks, skip, schemas = notes.get(_MARKS, b""), notes.get(_SKIPPED), notes.get(_SCHEMAS, b"")
    point = notes.get(_POINT, b"")
    return (
        frozenset(mark for (mark,) in _all(_MARK, marks)),
        _text(notes.get(_HANDOVER)),
        SkipRule(*_SKIP.unpack(skip)) if skip is not None and len(skip) == _SKIP.size else None,
        _text(notes.get(_HANDED_OVER)),
        frozenset(map(SchemaMark._make, _all(_SCHEMA, schemas))),
        _text(notes.get(_FORM)),
        frozenset(map(ChangelogId._make, _all(_CHANGELOG_ID, notes.get(_CHANGELOG_IDS, b"")))),
        LogPoint(*_LOG_POINT.unpack(point)) if len(point) == _LOG_POINT.size else None,
    )


def _marked_times(notes: Mapping[int, bytes]) -> dict[str, int]:
    """Returns the times of operators that are known by marks."""
    times = notes.get(_TIMES, b"")
    if len(times) % _TIME.size:
        return {}
    return {f"{_MARKED}{mark:08x}": time for mark, time in _TIME.iter_unpack(times)}


def _text(note: bytes | None) -> str | None:
    return None if note is None else note.decode(errors="replace")


def _read_id(data: bytes, offset: int) -> str | None:
    """Returns the id at an offset; anything else at this place is ignored."""
    end = offset + 1 + ID_BYTES
    if data[offset : offset + 1] != _ID or len(data) < end:
        return None
    return base64.urlsafe_b64encode(data[offset + 1 : end]).decode().rstrip("=")


def _read_processors(data: bytes) -> tuple[dict[str, int], int]:
    """Returns the processors' numbers, and the offset behind them."""
    offset = _FRONT.size
    if offset == len(data):
        return {}, offset
    (count,) = _COUNT.unpack_from(data, offset)
    offset += 4
    processors = {}
    for _ in range(count):
        (length,) = _COUNT.unpack_from(data, offset)
        end = offset + 4 + length
        if length < 0:
            raise ValueError("a processor's name has a negative length")
        processors[data[offset + 4 : end].decode()] = _VALUE.unpack_from(data, end)[0]
        offset = end + 8
    return processors, offset
