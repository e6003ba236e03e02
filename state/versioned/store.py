"""Versioned key-value stores (KIP-889): facades of :class:`state.versioned.versions.Versions`, opening and restore."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from processor_api.errors import StoreError
from processor_api.record import HeaderList
from processor_api.serde import Serde, Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import VersionedRecord
from processor_api.stores.queries import MultiVersionedKeyQuery, ResultOrder, VersionedKeyQuery
from processor_api.texts import repr_of
from processor_api.user_code.durations import whole_ms
from processor_api.user_code.given_serdes import SerdeLike
from state.engine.port import Batch, Engine
from state.formats.values import read_value_and_timestamp
from state.read_views.answers import QueryRows
from state.row_format.checked_serdes import key_writer, prefix_bounds, reader, value_writer
from state.row_format.codec import TIMESTAMPED, RowCodec
from state.row_format.record_context import Cursor
from state.row_format.row_format import RowFormat
from state.row_format.row_probe import probed_get
from state.versioned.as_records import versions_as_records
from state.versioned.history import VERSIONS, VersionHistory, front_of, read_version_row
from state.versioned.live_view import VersionedView
from state.versioned.versions import Found, VersionReads, Versions
from state.write_buffer.buffer import UNLOGGED, Rows
from state.write_buffer.changelog_form import ChangelogForm
from state.write_buffer.iterators import ClosableFacade, OpenIterators, RowIterator
from state.write_buffer.memory_budget import Budget
from state.write_buffer.store_kind import AS_OF, ITSELF, Opening, OpenStore, Restore, StoreKind, share_rows
from state.write_buffer.stored_rows import StoredFamily, StoredRow

FIRST_TIME, LAST_TIME = -1, (1 << 63) - 1
# A restore reads the latest version of a key for each put: this many of them are kept in memory.
RESTORE_CACHE_BYTES = 16 << 20
_PLACE_TIME = struct.Struct(">q")
"""The time behind the key in the place of a version."""
LATEST = replace(TIMESTAMPED, family_suffix="latest")


class VersionedReads(ClosableFacade):
    """A versioned store, for reading; base of what processors get.

    :param iterators: opens its iterators.
    """

    def __init__(
        self,
        versions: VersionReads,
        key_serde: Serde[Any],
        value_serde: Serde[Any],
        iterators: OpenIterators | None = None,
    ) -> None:
        name = self.name = versions.name
        self.persistent: bool = versions.latest.persistent
        self._versions = versions
        self._serdes = key_serde, value_serde
        self._write_key, self._read_key = key_writer(key_serde, name), reader(key_serde, "key", name)
        self._read_value = reader(value_serde, "value", name)
        self._iterators = iterators or OpenIterators(name)
        self.get: Callable[..., VersionedRecord[Any] | None] = self._make_get()

    def reading(self, versions: VersionReads, iterators: OpenIterators) -> VersionedReads:
        """Returns a versioned store that reads other rows and is not written."""
        return VersionedReads(versions, *self._serdes, iterators)

    @property
    def versions_read(self) -> VersionReads:
        """The versions that it reads."""
        return self._versions

    def _make_get(self) -> Callable[..., VersionedRecord[Any] | None]:
        """Returns `get`, which runs for every record of a join; where possible it makes no other calls of ours."""
        (key_serde, value_serde), iterators = self._serdes, self._iterators
        write_slowly, read_slowly, check_time = self._write_key, self._read_value, self._check_time
        # What the serde does, without its check: other values than strings fail here too, and take the slow path.
        write = str.encode if key_serde is Serdes.STRING else key_serde.serialize
        read, older, new = value_serde.deserialize, self._versions.older, tuple.__new__
        latest = self._versions.latest
        dirty_get, clean_get, read_through = latest.dirty.get, latest.clean.get, latest.read_through

        def get(key: Any, as_of: int | None = None) -> VersionedRecord[Any] | None:
            found: Found | None
            if not iterators.is_open:
                iterators.check()
            try:
                raw = write(key) if key is not None else write_slowly(key)
            except Exception:
                raw = write_slowly(key)  # writes it after all, or raises the same again, with the name of the store
            if as_of is not None and (type(as_of) is not int or not 0 <= as_of <= LAST_TIME):
                as_of = check_time(as_of, "as_of")
            entry = dirty_get(raw) or clean_get(raw) or read_through(raw)
            if entry is not None and entry[0] is not None and (as_of is None or entry[1] <= as_of):
                found = entry[0], entry[1], None
            else:
                found = None if as_of is None else older(raw, as_of)
                if found is None:
                    return None
            try:
                return new(VersionedRecord, (read(found[0]), found[1], found[2]))
            except Exception:
                return VersionedRecord(read_slowly(found[0]), found[1], found[2])

        return probed_get(latest, write_slowly, get)

    def versions(self, key: Any, from_time: int | None = None, to_time: int | None = None) -> RowIterator:
        return self._between(key, from_time, to_time, reverse=False)

    def backward_versions(self, key: Any, from_time: int | None = None, to_time: int | None = None) -> RowIterator:
        return self._between(key, from_time, to_time, reverse=True)

    def range(self, from_key: Any = None, to_key: Any = None, as_of: int | None = None) -> RowIterator:
        return self._range(from_key, to_key, as_of, as_of, reverse=False, newest=as_of is None)

    def reverse_range(self, from_key: Any = None, to_key: Any = None, as_of: int | None = None) -> RowIterator:
        return self._range(from_key, to_key, as_of, as_of, reverse=True, newest=as_of is None)

    def prefix_scan(
        self, prefix: Any, prefix_serde: SerdeLike[Any] | None = None, as_of: int | None = None
    ) -> RowIterator:
        self._iterators.check()
        low, high = prefix_bounds(prefix, self._write_key, prefix_serde, self.name)
        return self._scan(low, high, as_of, as_of, reverse=False, newest=as_of is None)

    def range_versions(
        self, from_key: Any = None, to_key: Any = None, from_time: int | None = None, to_time: int | None = None
    ) -> RowIterator:
        return self._range(from_key, to_key, from_time, to_time, reverse=False)

    def reverse_range_versions(
        self, from_key: Any = None, to_key: Any = None, from_time: int | None = None, to_time: int | None = None
    ) -> RowIterator:
        return self._range(from_key, to_key, from_time, to_time, reverse=True)

    def rows_after(
        self,
        place: bytes | None,
        time_from: int | None,
        time_to: int | None,
        *,
        key: Any = None,
        reverse: bool = False,
    ) -> RowIterator:
        """Returns the versions that follow a place, each as ``(place, (key, version))``: so they are read page by page.

        They come by key, then by time. A version that is there all the while comes once, whatever is put beside it.

        :param place: of a version, which may be gone; ``None`` begins with the first one.
        :param time_from: the time in which they were valid, both ends included; ``None`` removes the bound.
        :param key: the one key whose versions are read; ``None`` reads all.
        :raises ValueError: if the place is none of a versioned store.
        """
        self._iterators.check()
        first, last = self._times(time_from, time_to)
        low = None if key is None else self._write_key(key)
        high = None if low is None else low + b"\0"
        if place is not None and len(place) < _PLACE_TIME.size:
            raise ValueError(f"a place must have at least {_PLACE_TIME.size} bytes, got {len(place)}")
        at = None if place is None else (place[: -_PLACE_TIME.size], _PLACE_TIME.unpack(place[-_PLACE_TIME.size :])[0])
        found = self._versions.range_after(low, high, first, last, at, reverse=reverse)
        read_key, read, pack = self._read_key, self._read_value, _PLACE_TIME.pack
        rows = (
            (raw + pack(start), (read_key(raw), VersionedRecord(read(value), start, end)))
            for raw, (value, start, end) in found
        )
        return self._iterators.open(rows)

    def approximate_num_entries(self) -> int:
        """Keys that have a latest version."""
        self._iterators.check()
        return self._versions.latest.approximate_count()

    # ------------------------------------------------------------------ helpers

    def _between(self, key: Any, from_time: int | None, to_time: int | None, *, reverse: bool) -> RowIterator:
        self._iterators.check()
        first, last = self._times(from_time, to_time)
        found = self._versions.between(self._write_key(key), first, last, reverse=reverse)
        read = self._read_value
        shown: Iterator[Any] = (VersionedRecord(read(value), start, end) for value, start, end in found)
        return self._iterators.open(shown)

    def _range(
        self,
        from_key: Any,
        to_key: Any,
        from_time: int | None,
        to_time: int | None,
        *,
        reverse: bool,
        newest: bool = False,
    ) -> RowIterator:
        self._iterators.check()
        low = None if from_key is None else self._write_key(from_key)
        high = None if to_key is None else self._write_key(to_key) + b"\0"
        return self._scan(low, high, from_time, to_time, reverse=reverse, newest=newest)

    def _scan(
        self,
        low: bytes | None,
        high: bytes | None,
        from_time: int | None,
        to_time: int | None,
        *,
        reverse: bool,
        newest: bool,
    ) -> RowIterator:
        first, last = self._times(from_time, to_time)
        found = (
            self._versions.newest_of(low, high, reverse=reverse)
            if newest
            else (self._versions.range(low, high, first, last, reverse=reverse))
        )
        read_key, read = self._read_key, self._read_value
        shown = ((read_key(key), VersionedRecord(read(value), start, end)) for key, (value, start, end) in found)
        return self._iterators.open(shown)

    def _times(self, from_time: int | None, to_time: int | None) -> tuple[int, int]:
        first = FIRST_TIME if from_time is None else self._check_time(from_time, "from_time")
        last = LAST_TIME if to_time is None else self._check_time(to_time, "to_time")
        if first > last:
            raise StoreError(f"store {self.name!r}: from_time {first} is after to_time {last}", store=self.name)
        return first, last

    def _check_time(self, time: Any, what: str) -> int:
        found = time if type(time) is int else whole_ms(time)
        if found is None or not 0 <= found <= LAST_TIME:
            raise StoreError(
                f"store {self.name!r} needs non-negative times in ms; {what} is {repr_of(time)}",
                store=self.name,
            )
        return found


class VersionedFacade(VersionedReads):
    """A versioned store for processors: :class:`processor_api.stores.contracts.VersionedKeyValueStore`."""

    _versions: Versions

    def __init__(self, versions: Versions, opening: Opening) -> None:
        super().__init__(versions, opening.key_serde, opening.value_serde)
        self._log = opening.log
        self._write_value = value_writer(opening.value_serde, self.name)

    def put(self, key: Any, value: Any, timestamp: int) -> int:
        self._iterators.check()
        timestamp = self._check_time(timestamp, "timestamp")
        raw, data = self._write_key(key), self._write_value(value)
        if self._log is not None:
            self._log(raw, data, timestamp)
        return self._versions.put(raw, data, timestamp)

    def delete(self, key: Any, timestamp: int) -> VersionedRecord[Any] | None:
        self._iterators.check()
        timestamp = self._check_time(timestamp, "timestamp")
        old = None
        if timestamp >= self._versions.history.oldest:
            old = self.get(key, timestamp)
        self.put(key, None, timestamp)
        return old


class VersionedOperator:
    """A versioned store for operators: like :class:`state.key_value.store.OperatorStore`, with reads as of a time."""

    cached = False
    versioned = True

    def __init__(self, facade: VersionedFacade) -> None:
        self.name = facade.name
        self._facade = facade

    def get(self, key: Any) -> tuple[Any, int] | None:
        """Returns value and timestamp of the latest version."""
        found = self._facade.get(key)
        return None if found is None else (found.value, found.timestamp)

    def get_as_of(self, key: Any, as_of: int) -> tuple[Any, int] | None:
        """Returns value and timestamp of the version as of a time in ms."""
        found = self._facade.get(key, as_of)
        return None if found is None else (found.value, found.timestamp)

    def put(self, key: Any, value: Any, timestamp: int, headers: HeaderList | None = None) -> int:
        """Puts a version; returns the end of its validity, as the store's put does."""
        return self._facade.put(key, value, timestamp)

    def on_flush(self, callback: Callable[..., None], *, old_values: bool) -> None:
        """Does nothing: nothing is cached, so that the callback would never be called."""


def _versions(
    builder: StoreBuilder[Any, Any],
    engine: Engine,
    codec: RowCodec,
    cursor: Cursor,
    budget: Budget,
    drop: Callable[[int], None],
) -> Versions:
    """Returns the versions of a store, which logs each of its puts itself."""
    format = RowFormat(builder.name, codec, Serdes.BYTES, Serdes.BYTES)
    latest = Rows(share_rows(format, engine, cursor), budget=budget, logging=UNLOGGED, caching=False)
    parameters = builder.supplier.parameters
    retention = parameters["history_retention_ms"]
    history = VersionHistory(engine, builder.name, budget, retention, parameters["segment_interval_ms"])
    return Versions(latest, history, keeps_history=retention > 0, drop=drop)


def _open(opening: Opening) -> OpenStore:
    versions = _versions(opening.builder, opening.engine, opening.codec, opening.cursor, opening.budget, opening.drop)
    facade = VersionedFacade(versions, opening)
    return OpenStore(
        kind=opening.kind,
        builder=opening.builder,
        rows=versions.latest,
        facade=facade,
        operator=VersionedOperator(facade),
        participants=(versions.history,),
    )


def _nothing(by_ms: int) -> None:
    """Does nothing: dropped puts of a restore were counted when they were made."""


def _restoring(builder: StoreBuilder[Any, Any], engine: Engine, codec: RowCodec) -> Restore:
    """Returns a restore that makes the puts again, one by one, so that the same are dropped and the same expire; but
    what has expired since the time that it is as of stays.

    (Java uses the largest timestamp of a batch instead, which brings deleted values back.)
    """
    versions = _versions(builder, engine, codec, Cursor(), Budget(RESTORE_CACHE_BYTES), _nothing)
    put, latest, history = versions.put, versions.latest, versions.history
    as_of = builder.supplier.parameters.get(AS_OF)
    if as_of is not None:
        history.delete_before(as_of)

    def restore(
        batch: Batch,
        keys: Iterable[bytes],
        values: Iterable[bytes | None],
        timestamps: Iterable[int],
        headers: Iterable[HeaderList | None],
    ) -> None:
        # Only now the batch of the call before is surely written.
        latest.applied()
        history.applied()
        for key, value, timestamp in zip(keys, values, timestamps, strict=True):
            put(key, value, timestamp)
        latest.drain()
        latest.apply(batch)
        history.apply(batch)

    return restore


def _stored_latest(key: bytes, row: bytes) -> StoredRow:
    value, timestamp = read_value_and_timestamp(row)
    return StoredRow(key, value, more={"valid_from": timestamp})


def _stored_version(key: bytes, row: bytes) -> StoredRow | None:
    found = read_version_row(key, row)
    if found is None:
        return None
    name, end, start, value = found
    return StoredRow(name, value, more={"valid_from": start, "valid_to": end})


def _fronts(low: bytes | None, high: bytes | None) -> tuple[bytes | None, bytes | None]:
    """Bounds of keys as they stand before the times."""
    return None if low is None else front_of(low), None if high is None else front_of(high)


def _by_key_and_time(row: StoredRow) -> tuple[bytes, int]:
    return row.key, row.more["valid_from"]


def _versions_of_key(store: Any, query: Any) -> QueryRows:
    read = store.versions if query.order is ResultOrder.ASCENDING else store.backward_versions
    return QueryRows(read(query.key, query.from_time, query.to_time))


KINDS: dict[str, StoreKind] = {
    "versioned-key-value": StoreKind(
        codec=LATEST,
        changelog_form=ChangelogForm.VERSIONS,
        open=_open,
        restoring=_restoring,
        changelog_records=versions_as_records,
        families=(VERSIONS,),
        expires=True,
        view=VersionedView,
        offline={
            LATEST.family_suffix: StoredFamily(_stored_latest, ("valid_from",), order=_by_key_and_time),
            VERSIONS: StoredFamily(_stored_version, ("valid_from", "valid_to"), _fronts, _by_key_and_time),
        },
        forms={"versioned-key-value": ITSELF},
        answers={
            VersionedKeyQuery: lambda store, query: store.get(query.key, query.as_of),
            MultiVersionedKeyQuery: _versions_of_key,
        },
    ),
}
