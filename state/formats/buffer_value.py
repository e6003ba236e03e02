"""Rows of the time-ordered buffers: a change of a table, or a record of a stream, with the context of its record.

::

    context   timestamp i64, offset i64, topic (i32 and UTF-8), partition i32, count of headers i32,
              and for each its name (i32 and UTF-8) and value (i32 and bytes)
    value     context, prior, old, new (each i32 and bytes), buffer time i64

A length of -1 is null; the old value has -2 where it is the prior one. On changelogs of suppressions this is version 3,
which their header ``v`` says; older ones (Kafka Streams 2.1 to 2.5) are read too.

Where stores keep headers (``dsl.store.format=HEADERS``), the prior and the old value have headers and a timestamp of
their own, those of the record that they came with. In the engine they follow the buffer time, as prefixes (i32 and
bytes) of the prior and of the old value; on the changelog they are the headers ``vh.prior`` and ``vh.old``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from processor_api.record import HeaderList
from state.formats.values import write_prefix

VERSION = b"\x03"
"""The header ``v`` of changelog records of this format."""

_HEAD = struct.Struct(">qqi")
_TAIL = struct.Struct(">ii")
_LENGTH = struct.Struct(">i")
_TIME = struct.Struct(">q")
_NULL = _LENGTH.pack(-1)
_SAME_AS_PRIOR = _LENGTH.pack(-2)
_FIXED_CONTEXT_BYTES = 20


class BufferContext(NamedTuple):
    """The context of a buffered record: timestamp, offset, partition, topic and headers."""

    timestamp: int
    offset: int
    topic: str
    """Empty for a record that came from no topic (a punctuation)."""
    partition: int
    headers: HeaderList


class ValuePrefixes(NamedTuple):
    """Headers and timestamps of the prior and the old value, as they stand before a value in a store with headers
    (formats 3); ``None`` where there is no value."""

    prior: bytes | None
    old: bytes | None


class BufferValue(NamedTuple):
    """The value of a row of a buffer, as bytes."""

    context: BufferContext
    prior: bytes | None
    """The value before the first change that is buffered."""
    old: bytes | None
    new: bytes | None
    time: int
    """When it may leave the buffer, in ms."""
    prefixes: ValuePrefixes | None = None
    """Given for rows of a buffer that keeps headers; those of the new value are in the context."""

    @property
    def is_old_prior(self) -> bool:
        """Whether the old value is the prior one, with its headers and timestamp."""
        prefixes = self.prefixes
        return self.old == self.prior and (prefixes is None or prefixes.old == prefixes.prior)


# ------------------------------------------------------------------ context


def write_context(
    timestamp: int, offset: int, topic: str, partition: int, headers: Iterable[tuple[str, bytes | None]] | None
) -> bytes:
    """The context's bytes."""
    name = topic.encode()
    head = _HEAD.pack(timestamp, offset, len(name)) + name
    if not headers:
        return head + _TAIL.pack(partition, 0)
    listed = list(headers)
    parts = [head, _TAIL.pack(partition, len(listed))]
    for header, value in listed:
        raw = header.encode()
        parts += (_LENGTH.pack(len(raw)), raw)
        parts += (_NULL,) if value is None else (_LENGTH.pack(len(value)), value)
    return b"".join(parts)


def read_context(data: bytes, offset: int = 0) -> tuple[BufferContext, int]:
    """The context at ``offset``, and the offset behind it.

    :raises ValueError: if there is none.
    """
    try:
        timestamp, record_offset, length = _HEAD.unpack_from(data, offset)
        topic, offset = _exactly(data, offset + _HEAD.size, length)
        partition, count = _TAIL.unpack_from(data, offset)
        offset += _TAIL.size
        headers: HeaderList = []
        for _ in range(count):
            name, offset = _piece(data, offset)
            value, offset = _piece(data, offset)
            headers.append(("" if name is None else name.decode(), value))
    except struct.error as error:
        raise ValueError(f"the context of a buffered record ends early: {error}") from None
    return BufferContext(timestamp, record_offset, topic.decode(), partition, headers), offset


def _exactly(data: bytes, start: int, length: int) -> tuple[bytes, int]:
    end = start + length
    if length < 0 or end > len(data):
        raise ValueError(f"{length} bytes at byte {start} of {len(data)}: not a buffered record")
    return data[start:end], end


def _piece(data: bytes, offset: int) -> tuple[bytes | None, int]:
    length: int = _LENGTH.unpack_from(data, offset)[0]
    offset += 4
    return (None, offset) if length == -1 else _exactly(data, offset, length)


# -------------------------------------------------------------------- value


def write_buffer_value(
    context: bytes,
    prior: bytes | None,
    old: bytes | None,
    new: bytes | None,
    time: int,
    prefixes: ValuePrefixes | None = None,
) -> bytes:
    """A row, from a written context; without prefixes it is that of the changelog."""
    if old is None:
        old_part = _NULL
    elif old == prior:
        old_part = _SAME_AS_PRIOR
    else:
        old_part = _LENGTH.pack(len(old)) + old
    row = b"".join((context, _sized(prior), old_part, _sized(new), _TIME.pack(time)))
    return row if prefixes is None else row + b"".join(map(_sized, prefixes))


def _sized(data: bytes | None) -> bytes:
    return _NULL if data is None else _LENGTH.pack(len(data)) + data


def read_buffer_value(data: bytes) -> BufferValue:
    """Reads a row that `write_buffer_value` has written.

    :raises ValueError: if it is not such a row.
    """
    context, offset = read_context(data)
    try:
        prior, offset = _piece(data, offset)
        if data[offset : offset + 4] == _SAME_AS_PRIOR:
            old, offset = prior, offset + 4
        else:
            old, offset = _piece(data, offset)
        new, offset = _piece(data, offset)
        time: int = _TIME.unpack_from(data, offset)[0]
        if len(data) == offset + 8:
            return BufferValue(context, prior, old, new, time)
        prior_prefix, offset = _piece(data, offset + 8)
        old_prefix, offset = _piece(data, offset)
    except struct.error as error:
        raise ValueError(f"a buffered record ends early: {error}") from None
    if offset != len(data):
        raise ValueError(f"{len(data) - offset} bytes follow a buffered record")
    return BufferValue(context, prior, old, new, time, ValuePrefixes(prior_prefix, old_prefix))


def _last_time(data: bytes, offset: int) -> int:
    if len(data) != offset + 8:
        raise ValueError(f"{len(data) - offset} bytes instead of the 8 of a time")
    time: int = _TIME.unpack_from(data, offset)[0]
    return time


def resident_size(value: BufferValue) -> int:
    """The bytes that Kafka Streams counts for a value: those of the values, each once, and of the context, with two
    bytes' worth of text as one. Values that keep headers count with these and their timestamp."""
    context, prior, old, new, _, prefixes = value
    size = _FIXED_CONTEXT_BYTES + _characters(context.topic)
    for name, data in context.headers:
        size += _characters(name) + (0 if data is None else len(data))
    if prefixes is not None:
        size += _resident_prefixes(value, prefixes)
    if prior is not None:
        size += len(prior)
    if old is not None and (old != prior or (prefixes is not None and not value.is_old_prior)):
        size += len(old)
    return size if new is None else size + len(new)


def _resident_prefixes(value: BufferValue, prefixes: ValuePrefixes) -> int:
    known = [*prefixes[: 1 if value.is_old_prior else 2]]
    if value.new is not None:
        known.append(write_prefix(value.context.timestamp, value.context.headers))
    return sum(len(prefix) for prefix in known if prefix is not None)


def _characters(text: str) -> int:
    """Java's characters: two for those beyond 16 bits."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


# ------------------------------------------------------------ older versions


def read_any_version(
    version: bytes | None, data: bytes, record: BufferContext, previous: bytes | None, *, is_buffered: bool
) -> BufferValue:
    """A changelog record of a suppression.

    :param version: the record's header ``v``; version 0 has none.
    :param record: stands for the context, which version 0 does not have.
    :param previous: the prior value of the record buffered for the key, if one ``is_buffered``: versions 0 and 1 do not
        have it.
    :raises ValueError: if it is damaged, or of a version that is not known.
    """
    if version == VERSION:
        return read_buffer_value(data)
    try:
        if version == b"\x02":
            return _read_2(data)
        if version not in (None, b"\x01"):
            raise ValueError(f"version {version!r} is unknown; a newer release may have written it")
        time: int = _TIME.unpack_from(data)[0]
        context, changes = record, data[8:]
        if version is not None:
            context, offset = read_context(data, 8)
            changes, _ = _present(data, offset)
        old, new = _read_changes(changes)
        return BufferValue(context, previous if is_buffered else old, old, new, time)
    except struct.error as error:
        raise ValueError(f"a buffered record ends early: {error}") from None


def _read_2(data: bytes) -> BufferValue:
    """Reads a row of version 2, or of version 3 that is marked as 2: some releases of Kafka Streams wrote these."""
    try:
        context, offset = read_context(data)
        changes, offset = _present(data, offset)
        old, new = _read_changes(changes)
        prior, offset = _piece(data, offset)
        return BufferValue(context, prior, old, new, _last_time(data, offset))
    except (ValueError, struct.error):
        return read_buffer_value(data)


def _present(data: bytes, offset: int) -> tuple[bytes, int]:
    found, offset = _piece(data, offset)
    if found is None:
        raise ValueError("a buffered record without a change")
    return found, offset


def _read_changes(data: bytes) -> tuple[bytes | None, bytes | None]:
    old, offset = _piece(data, 0)
    new, offset = _piece(data, offset)
    if offset != len(data):
        raise ValueError(f"{len(data) - offset} bytes follow a change")
    return old, new
