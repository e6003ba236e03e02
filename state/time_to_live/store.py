"""Key-value stores with a time to live: the kinds of :mod:`state.key_value.store` and
:mod:`state.key_value.with_headers` on rows that expire.

By record time the rows are those of timestamped stores, also of a plain store, and the changelog is as without. By
access, rows have the time of the last access in front; on the changelog it is a header behind all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from operator import attrgetter
from typing import Any, cast

from processor_api.record import HeaderList
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.custom import ChangelogRecord
from processor_api.stores.time_to_live import ACCESS, RECORD_TIME
from state.engine.port import Batch, Engine, Snapshot
from state.formats.values import read_session_with_headers, write_session_with_headers
from state.key_value import store, with_headers
from state.key_value.live_view import KeyValueView
from state.read_views.index import Taken
from state.read_views.snapshots import AtomicRead
from state.row_format.access_header import NOT_KNOWN, split_access, with_access
from state.row_format.codec import ACCESSED, TIMESTAMPED, Logged, RowCodec, pack_access, row_from_plain, without_access
from state.row_format.row_format import KeyFormat
from state.time_to_live.buffer import ByAccess, ByRecordTime, ExpiringRows
from state.time_to_live.options import EXPIRY, EXPIRY_ROW, Lifetime
from state.time_to_live.rules import Accesses, AccessRule, ExpiryRule, RecordTimeRule
from state.write_buffer.headers_codec import row_from_timestamped
from state.write_buffer.store_kind import Opening, OpenStore, Restore, RowsAsRecords, StoreKind, logged_rows
from state.write_buffer.stored_rows import (
    ACCESSED_FAMILY,
    HEADERS_ACCESSED_FAMILY,
    HEADERS_FAMILY,
    TIMESTAMPED_FAMILY,
    StoredFamily,
)

# Views of stores with a time to live, for other threads.
#
# Rows that have expired at the view's moment are hidden, and no read refreshes anything.


class RecordTimeView(KeyValueView):
    """A store whose rows expire by the timestamps of their values."""

    def __init__(self, store: OpenStore, committed: bool) -> None:
        self._expiry = cast(ExpiryRule, store.rows.rule)
        self._lifetime = self._expiry.lifetime
        super().__init__(store, committed)

    def _more_families(self) -> list[str]:
        return [self._lifetime.family_name]

    def _more_reads(self) -> list[AtomicRead]:
        """Returns the store's time. It does no harm if it moves on after the view's moment."""
        cursor = self._shared.cursor
        return [partial(attrgetter("stream_time"), cursor), partial(attrgetter("latest"), self._lifetime)]

    def _limit(self) -> Callable[[], int]:
        return self._lifetime.committed_limit if self._committed else self._expiry.limit

    def _live_rule(self) -> ExpiryRule:
        return RecordTimeRule(self._shared.format, self._lifetime, self._limit())

    def _frozen_rule(self, snapshot: Snapshot, more: tuple[Any, ...]) -> ExpiryRule:
        return RecordTimeRule(self._shared.format, self._lifetime, self._limit_at(snapshot, more))

    def _limit_at(self, snapshot: Snapshot, more: tuple[Any, ...]) -> Callable[[], int]:
        lifetime = self._lifetime
        time = max([lifetime.latest_of(snapshot.family(lifetime.family_name)), *more[:2]])
        return lambda: time - lifetime.length


class AccessView(RecordTimeView):
    """A store whose rows expire by when they were last put or read."""

    _expiry: AccessRule

    def _more_reads(self) -> list[AtomicRead]:
        """Returns reads of the accesses as well.

        Reads by the task after the view's moment do no harm: they refresh only rows that were alive.
        """
        accesses = self._expiry.accesses
        return [*super()._more_reads(), accesses.times.copy, partial(attrgetter("refreshed"), accesses)]

    def _more_of_keys(self, keys: list[Any]) -> list[AtomicRead]:
        reads = self._more_reads()
        reads[2] = partial(list, map(self._expiry.accesses.times.get, keys))
        return reads

    def _more_taken(self, taken: Taken) -> tuple[Any, ...]:
        stream_time, latest, found, refreshed = taken.more
        times = {key: time for key, time in zip(taken.keys, found, strict=True) if time is not None}
        return stream_time, latest, times, refreshed

    def _live_rule(self) -> ExpiryRule:
        accesses = self._accesses() if self._committed else self._expiry.accesses
        return AccessRule(self._shared.format, self._lifetime, self._limit(), accesses)

    def _frozen_rule(self, snapshot: Snapshot, more: tuple[Any, ...]) -> ExpiryRule:
        limit = self._limit_at(snapshot, more)
        return AccessRule(self._shared.format, self._lifetime, limit, self._accesses(*more[2:]))

    def _accesses(self, *copies: dict[Any, int]) -> Accesses:
        return Accesses(self._shared.format.keys.row_key_of, *copies)


_HEADERS = with_headers.KINDS["headers-key-value"]
HEADERS_ACCESSED = replace(ACCESSED, family_suffix="headers-accessed")


def kind_name(kind: str, by: str) -> str:
    """Returns the name of the kind of a store that has a time to live."""
    return f"{kind} with a time to live by {by}"


@dataclass(frozen=True, kw_only=True)
class _ExpiringStore(OpenStore):
    rows: ExpiringRows

    def drain(self) -> bool:
        drained = super().drain()
        self.rows.tidy()
        return drained


def _expiring(store: OpenStore, lifetime: Lifetime) -> OpenStore:
    given = {field.name: getattr(store, field.name) for field in fields(store)}
    return _ExpiringStore(**{**given, "participants": (*store.participants, lifetime)})


def _lifetime(opening: Opening) -> Lifetime:
    builder = opening.builder
    assert builder.time_to_live is not None
    return Lifetime(opening.engine, builder.name, builder.time_to_live, opening.cursor)


def _open_by_record_time(open_kind: Callable[[Opening], OpenStore]) -> Callable[[Opening], OpenStore]:
    def opened(opening: Opening) -> OpenStore:
        lifetime = _lifetime(opening)
        return _expiring(open_kind(replace(opening, make_rows=partial(ByRecordTime, lifetime=lifetime))), lifetime)

    return opened


def _open_by_access(open_kind: Callable[[Opening], OpenStore]) -> Callable[[Opening], OpenStore]:
    def opened(opening: Opening) -> OpenStore:
        lifetime = _lifetime(opening)
        accesses = Accesses(KeyFormat(opening.builder.name, opening.key_serde).row_key_of)
        rows = partial(ByAccess, lifetime=lifetime, accesses=accesses)
        log = None if opening.log is None else _with_access(opening.log, accesses)
        return _expiring(open_kind(replace(opening, make_rows=rows, log=log, log_many=None)), lifetime)

    return opened


def _with_access(log: Callable[..., None], accesses: Accesses) -> Callable[..., None]:
    """Writes the time of the access behind the headers of each record that is not a tombstone."""

    def logged(key: bytes, data: bytes | None, timestamp: int, headers: HeaderList | None = None) -> None:
        if data is not None:
            headers = with_access(headers, pack_access(accesses.of(key)))
        log(key, data, timestamp, headers)

    return logged


def _restoring_by_access(write: Callable[[bytes, HeaderList | None], bytes | None]) -> Callable[..., Restore]:
    """Returns how a store with a time to live by access is restored.

    :param write: makes the part of a row behind its access and timestamp, from a value and its headers.
    """

    def restoring(builder: StoreBuilder[Any, Any], engine: Engine, codec: RowCodec) -> Restore:
        fill, handle = codec.fill, engine.family(f"{builder.name}.{codec.family_suffix}").handle

        def restore(
            batch: Batch,
            keys: Iterable[bytes],
            values: Iterable[bytes | None],
            timestamps: Iterable[int],
            headers: Iterable[HeaderList | None],
        ) -> None:
            fill(batch, handle, rows(keys, values, timestamps, headers))

        return restore

    def rows(
        keys: Iterable[bytes],
        values: Iterable[bytes | None],
        timestamps: Iterable[int],
        headers: Iterable[HeaderList | None],
    ) -> Iterator[Logged]:
        for key, value, timestamp, found in zip(keys, values, timestamps, headers, strict=True):
            data = None
            if value is not None:
                accessed, others = split_access(found)
                row = write(value, others)
                assert row is not None
                data = accessed + row
            yield key, data, timestamp

    return restoring


def _records_by_access(read: Callable[[bytes], tuple[bytes, HeaderList | None]]) -> RowsAsRecords:
    """Returns the function that yields the rows of such a store as records of its changelog.

    :param read: returns a value and its headers, from the part of a row behind its access and timestamp.
    """

    def records(builder: StoreBuilder[Any, Any], engine: Engine, codec: RowCodec) -> Iterator[ChangelogRecord]:
        for key, data, timestamp in logged_rows(builder, engine, codec):
            value, headers = read(data[8:])
            yield ChangelogRecord(key, value, timestamp, with_access(headers, data[:8]))

    return records


def _value_alone(value: bytes, headers: HeaderList | None) -> bytes | None:
    return value


def _without_headers(value: bytes) -> tuple[bytes, HeaderList | None]:
    return value, None


# ---------------------------------------------------------------------- rows of other kinds


Convert = Callable[[bytes], bytes]


def _with_unknown_access(convert: Convert | None = None) -> Convert:
    return lambda row: NOT_KNOWN + (row if convert is None else convert(row))


_headers_from_timestamped = row_from_timestamped
_OLDER: Mapping[str, Mapping[str, Convert]] = {
    "timestamped": {"plain": row_from_plain, "accessed": without_access},
    "accessed": {"timestamped": _with_unknown_access(), "plain": _with_unknown_access(row_from_plain)},
    "headers": _HEADERS.older,
    "headers-accessed": {
        "headers": _with_unknown_access(),
        "accessed": lambda row: row[:8] + _headers_from_timestamped(row[8:]),
        "timestamped": _with_unknown_access(_headers_from_timestamped),
        "plain": _with_unknown_access(_HEADERS.older["plain"]),
    },
}


def _expiry(key: bytes, row: bytes) -> None:
    EXPIRY_ROW.unpack(row)


_NOTES = {EXPIRY: StoredFamily(_expiry)}
_OFFLINE = {
    "timestamped": TIMESTAMPED_FAMILY,
    "accessed": ACCESSED_FAMILY,
    "headers": HEADERS_FAMILY,
    "headers-accessed": HEADERS_ACCESSED_FAMILY,
}


def _on_codec(kind: StoreKind, codec: RowCodec) -> StoreKind:
    suffix = codec.family_suffix
    offline = {suffix: _OFFLINE[suffix], **_NOTES}
    return replace(kind, codec=codec, older=_OLDER[suffix], notes=(EXPIRY,), offline=offline, expires=True)


def _by_record_time(kind: StoreKind, codec: RowCodec) -> StoreKind:
    return replace(_on_codec(kind, codec), open=_open_by_record_time(kind.open), view=RecordTimeView)


def _by_access(
    kind: StoreKind,
    codec: RowCodec,
    write: Callable[[bytes, HeaderList | None], bytes | None],
    read: Callable[[bytes], tuple[bytes, HeaderList | None]],
) -> StoreKind:
    return replace(
        _on_codec(kind, codec),
        open=_open_by_access(kind.open),
        restoring=_restoring_by_access(write),
        changelog_records=_records_by_access(read),
        view=AccessView,
    )


KINDS = {
    **{kind_name(name, RECORD_TIME): _by_record_time(kind, TIMESTAMPED) for name, kind in store.KINDS.items()},
    **{
        kind_name(name, ACCESS): _by_access(kind, ACCESSED, _value_alone, _without_headers)
        for name, kind in store.KINDS.items()
    },
    kind_name("headers-key-value", RECORD_TIME): _by_record_time(_HEADERS, _HEADERS.codec),
    kind_name("headers-key-value", ACCESS): _by_access(
        _HEADERS, HEADERS_ACCESSED, write_session_with_headers, read_session_with_headers
    ),
}
