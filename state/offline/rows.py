"""What a row on disk says, by the suffix of its family: key, value, times and headers, without a topology.

Sizes and serdes are the topology's: a window has its start here and no end, keys and values are bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from processor_api.record import HeaderList
from state.formats.buffer_value import read_buffer_value
from state.formats.headers_value import read_session_with_headers
from state.formats.keys import read_window_key_by_time
from state.formats.list_value import read_items
from state.formats.value_and_timestamp import read_value_and_timestamp
from state.registry.kinds import KINDS
from state.time_ordered.index import FACTS_KEY as BUFFER_FACTS_KEY
from state.time_ordered.index import check_facts
from state.versioned.history import read_version_row
from state.windowed.key_layout import SESSION, WINDOW, KeyFirst, TimeFirst
from state.windowed.segments import FACTS, FACTS_KEY
from state.write_buffer.row_codec import access_of, without_access
from state.write_buffer.time_to_live import EXPIRY, EXPIRY_ROW

__all__ = ["COLUMNS", "READERS", "StoredRow", "columns_of", "kind_of_families"]


@dataclass(frozen=True)
class StoredRow:
    """One entry of a store."""

    key: bytes
    value: bytes | list[bytes | None] | None
    """A list for list stores; ``None`` where a version says that there was no value."""
    timestamp: int | None = None
    """In ms; ``None`` where the kind keeps none."""
    headers: HeaderList | None = None
    """``None`` where the kind keeps none."""
    more: Mapping[str, int] = field(default_factory=dict)
    """Times in ms and numbers that the kind has besides: ``window_start``, ``session_end``, ``valid_from``..."""


Reader = Callable[[bytes, bytes], StoredRow | None]
"""``(key, value)`` of a row to what it says; ``None`` for rows that the store keeps for itself.

Raises ValueError or struct.error if the row is not one of the kind."""

_LRU = struct.Struct(">qq")


def _plain(key: bytes, row: bytes) -> StoredRow:
    return StoredRow(key, row)


def _timestamped(key: bytes, row: bytes) -> StoredRow:
    value, timestamp = read_value_and_timestamp(row)
    return StoredRow(key, value, timestamp)


def _headers(key: bytes, row: bytes) -> StoredRow:
    rest, timestamp = read_value_and_timestamp(row)
    value, headers = read_session_with_headers(rest)
    return StoredRow(key, value, timestamp, headers)


def _aggregate_with_headers(key: bytes, row: bytes) -> StoredRow:
    value, headers = read_session_with_headers(row)
    return StoredRow(key, value, None, headers)


def _accessed(read: Reader) -> Reader:
    def read_accessed(key: bytes, row: bytes) -> StoredRow:
        found = read(key, without_access(row))
        assert found is not None
        return replace(found, more={"accessed": access_of(row)})

    return read_accessed


def _expiry(key: bytes, row: bytes) -> None:
    EXPIRY_ROW.unpack(row)


def _list(key: bytes, row: bytes) -> StoredRow:
    return StoredRow(key, read_items(row))


def _lru(key: bytes, row: bytes) -> StoredRow:
    number, timestamp = _LRU.unpack_from(row)
    return StoredRow(key, row[_LRU.size :], timestamp, more={"number": number})


def _latest(key: bytes, row: bytes) -> StoredRow:
    value, timestamp = read_value_and_timestamp(row)
    return StoredRow(key, value, more={"valid_from": timestamp})


def _version(key: bytes, row: bytes) -> StoredRow | None:
    found = read_version_row(key, row)
    if found is None:
        return None
    name, end, start, value = found
    return StoredRow(name, value, more={"valid_from": start, "valid_to": end})


def _suppressed(key: bytes, row: bytes) -> StoredRow:
    found = read_buffer_value(row)
    return StoredRow(key, found.new, found.context.timestamp, found.context.headers, {"leaves_at": found.time})


def _suppressed_times(key: bytes, row: bytes) -> None:
    if key == BUFFER_FACTS_KEY:
        check_facts(row)
    elif len(key) < 9 or row:
        raise ValueError(f"a row of the index has at least 9 bytes and no value, this one has {len(key)}")


def _joining(key: bytes, row: bytes) -> StoredRow | None:
    if key == BUFFER_FACTS_KEY:
        check_facts(row)
        return None
    name, _, sequence = read_window_key_by_time(key)
    found = read_buffer_value(row)
    return StoredRow(name, found.new, found.context.timestamp, found.context.headers, {"sequence": sequence})


def _timed(layout: KeyFirst | TimeFirst, value_of: Reader) -> Reader:
    session = layout.keys is SESSION
    front = 9 if isinstance(layout, TimeFirst) else 8
    least = front + layout.keys.tail.size

    def read(key: bytes, row: bytes) -> StoredRow | None:
        if key == FACTS_KEY:
            FACTS.unpack(row)
            return None
        if len(key) < least:
            raise ValueError(f"such a key has at least {least} bytes, this one has {len(key)}")
        if front == 9 and key[8] == 1:
            if row:
                raise ValueError(f"a row of the index has no value, this one has {len(row)} bytes")
            return None
        name, time, rest = layout.parts(key)
        if time < 0 or rest < 0:
            raise ValueError(f"times are never negative, these are {time} and {rest}")
        found = value_of(name, row)
        assert found is not None
        more = {"session_start": rest, "session_end": time} if session else {"window_start": time, "sequence": rest}
        return StoredRow(name, found.value, found.timestamp, found.headers, more)

    return read


def _timed_readers() -> dict[str, Reader]:
    found: dict[str, Reader] = {}
    for name, keys in (("window", WINDOW), ("session", SESSION)):
        with_headers = _headers if keys is WINDOW else _aggregate_with_headers
        for suffix, value_of in (("plain", _plain), ("timestamped", _timestamped), ("headers", with_headers)):
            found[f"{name}-{suffix}"] = _timed(KeyFirst(keys), value_of)
            found[f"time-ordered-{name}-{suffix}"] = _timed(TimeFirst(keys), value_of)
    return found


READERS: Mapping[str, Reader] = {
    "plain": _plain,
    "timestamped": _timestamped,
    "headers": _headers,
    "accessed": _accessed(_timestamped),
    "headers-accessed": _accessed(_headers),
    EXPIRY: _expiry,
    "list": _list,
    "suppressed": _suppressed,
    "suppressed-times": _suppressed_times,
    "join-buffer": _joining,
    "lru": _lru,
    "latest": _latest,
    "versions": _version,
    **_timed_readers(),
}
"""By the suffix of the family. What is in memory only is never on disk, and so not here."""


def _columns() -> dict[str, tuple[str, ...]]:
    with_headers = ("timestamp", "headers")
    found: dict[str, tuple[str, ...]] = {
        "plain": (),
        "timestamped": ("timestamp",),
        "headers": with_headers,
        "accessed": ("timestamp", "accessed"),
        "headers-accessed": (*with_headers, "accessed"),
        EXPIRY: (),
        "list": (),
        "suppressed": (*with_headers, "leaves_at"),
        "suppressed-times": (),
        "join-buffer": (*with_headers, "sequence"),
        "lru": ("timestamp", "number"),
        "latest": ("valid_from",),
        "versions": ("valid_from", "valid_to"),
    }
    for name, times in (("window", ("window_start", "sequence")), ("session", ("session_start", "session_end"))):
        headers = with_headers if name == "window" else ("headers",)
        for suffix, columns in (("plain", ()), ("timestamped", ("timestamp",)), ("headers", headers)):
            found[f"{name}-{suffix}"] = found[f"time-ordered-{name}-{suffix}"] = (*columns, *times)
    return found


COLUMNS: Mapping[str, tuple[str, ...]] = _columns()
"""What an entry has besides its key and value, by the suffix of the family: `timestamp`, `headers`, and what is in
:attr:`StoredRow.more`."""


def columns_of(suffixes: Collection[str]) -> list[str]:
    """What entries of a store have that has these families, and those of older kinds that the store takes over.

    :param suffixes: of all its families, also in several tasks.
    """
    kind = KINDS.get(kind_of_families(suffixes) or "")
    every = dict.fromkeys([*suffixes, *(() if kind is None else (kind.codec.family_suffix, *kind.families))])
    return list(dict.fromkeys(column for suffix in every for column in COLUMNS.get(suffix, ())))


def kind_of_families(suffixes: Collection[str]) -> str | None:
    """The kind that has all of these families of one store, older ones that it takes over included."""
    wanted = set(suffixes)
    for name, kind in KINDS.items():
        own = {kind.codec.family_suffix, *kind.families}
        if own & wanted and wanted <= own | set(kind.older) | set(kind.notes):
            return name
    return None
