"""Records of history, as an input queue takes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat

from processor_api.errors import StreamsError
from processor_api.record import HeaderList, RecordMetadata, TimestampType

_CREATE_TIME = int(TimestampType.CREATE_TIME)


class HistoryRecord(tuple[bytes | None, bytes | None, tuple[int, int], HeaderList | None, int]):
    """A record as `streams.kafka.ports.Message`: ``(key, value, (timestamp type, ms), headers, offset)``.

    A tuple is made without a call of Python code, which is a third of the cost of an object with fields.
    """

    __slots__ = ()

    def key(self) -> bytes | None:
        return self[0]

    def value(self) -> bytes | None:
        return self[1]

    def leader_epoch(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return self[2]

    def headers(self) -> HeaderList | None:
        return self[3]

    def offset(self) -> int:
        return self[4]


class UnsupportedContextError(StreamsError):
    """A processor asks for a part of a record's context that the history does not have."""


class UnplacedMetadata(RecordMetadata):
    """The metadata of a record whose history has no offsets."""

    @property
    def offset(self) -> int:
        """The offset is not known.

        :raises UnsupportedContextError: always.
        """
        raise UnsupportedContextError(
            "a processor reads the offset of a record, but the history does not have offsets: give the history a"
            " column with the offsets, or use a processor that works without them",
            topic=self.topic,
            partition=self.partition,
        )


class UnplacedRecord(HistoryRecord):
    """A record whose offset is only its place among those of the history."""

    __slots__ = ()
    metadata_type = UnplacedMetadata


def history_records(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    timestamps: Sequence[int],
    headers: Iterable[HeaderList | None],
    offsets: Sequence[int],
    kind: type[HistoryRecord] = HistoryRecord,
) -> list[HistoryRecord]:
    """Returns the records of some columns, which are equally long."""
    stamps = zip(repeat(_CREATE_TIME), timestamps, strict=False)
    return list(map(kind, zip(keys, values, stamps, headers, offsets, strict=True)))
