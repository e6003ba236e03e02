"""Versioned key-value stores (KIP-889): how :class:`state.versioned.versions.Versions` are used, opened and
restored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from processor_api.errors import StoreError
from processor_api.record import HeaderList
from processor_api.serde import Serde, Serdes
from processor_api.stores.contracts import VersionedRecord
from processor_api.stores.factory import StoreBuilder
from state.engine.port import Batch, Engine
from state.versioned.history import VERSIONS, History
from state.versioned.versions import Found, Versions
from state.write_buffer.buffer import Rows, RowsSettings
from state.write_buffer.checked_serdes import key_writer, prefix_bounds, reader, value_writer
from state.write_buffer.iterators import OpenIterators, RowIterator
from state.write_buffer.memory_budget import Budget
from state.write_buffer.record_context import Cursor
from state.write_buffer.row_codec import TIMESTAMPED, RowCodec
from state.write_buffer.store_kind import Opening, OpenStore, Restore, StoreKind

__all__ = ["KINDS", "VersionedFacade", "VersionedOperator"]

FIRST_TIME, LAST_TIME = -1, (1 << 63) - 1
RESTORE_CACHE_BYTES = 16 << 20
LATEST = replace(TIMESTAMPED, family_suffix="latest")


class VersionedFacade:
    """For processors: :class:`processor_api.stores.contracts.VersionedKeyValueStore`."""

    def __init__(self, versions: Versions, opening: Opening) -> None:
        name = self.name = versions.name
        self.persistent: bool = opening.engine.persistent
        self._versions = versions
        self._opening = opening
        self._log = opening.log
        self._write_key, self._read_key = key_writer(opening.key_serde, name), reader(opening.key_serde, "key", name)
        self._write_value = value_writer(opening.value_serde, name)
        self._read_value = reader(opening.value_serde, "value", name)
        self._open = True
        self._iterators = OpenIterators(name)
        self.get: Callable[..., VersionedRecord[Any] | None] = self._make_get(opening)

    @property
    def is_open(self) -> bool:
        return self._open

    def close(self) -> None:
        """Every later call fails."""
        self._open = False
        self.get = self._closed
        self._iterators.close()

    # ------------------------------------------------------------------ writes

    def put(self, key: Any, value: Any, timestamp: int) -> int:
        self._check()
        self._check_time(timestamp, "timestamp")
        raw, data = self._write_key(key), self._write_value(value)
        if self._log is not None:
            self._log(raw, data, timestamp)
        return self._versions.put(raw, data, timestamp)

    def delete(self, key: Any, timestamp: int) -> VersionedRecord[Any] | None:
        self._check()
        self._check_time(timestamp, "timestamp")
        old = None
        if timestamp >= self._versions.history.oldest:
            old = self.get(key, timestamp)
        self.put(key, None, timestamp)
        return old

    # ------------------------------------------------------------------ reads

    def _make_get(self, opening: Opening) -> Callable[..., VersionedRecord[Any] | None]:
        """`get`, a function that runs for every record of a join: without calls of ours where that can be."""
        write_slowly, read_slowly, check_time = self._write_key, self._read_value, self._check_time
        write = str.encode if opening.key_serde is Serdes.STRING else opening.key_serde.serialize
        read, older, new = opening.value_serde.deserialize, self._versions.older, tuple.__new__
        latest = self._versions.latest
        dirty_get, clean_get, miss = latest.dirty.get, latest.clean.get, latest.quick_miss

        def get(key: Any, as_of: int | None = None) -> VersionedRecord[Any] | None:
            found: Found | None
            try:
                raw = write(key) if key is not None else write_slowly(key)
            except Exception:
                raw = write_slowly(key)  # writes it after all, or raises the same again, with the name of the store
            if as_of is not None and (type(as_of) is not int or not 0 <= as_of <= LAST_TIME):
                check_time(as_of, "as_of")
            entry = dirty_get(raw) or clean_get(raw) or miss(raw)
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

        trace = opening.cursor.row_trace
        return get if trace is None else trace.reading(latest, write_slowly, get)

    def _closed(self, *arguments: Any) -> None:
        self._check()

    def versions(self, key: Any, from_time: int | None = None, to_time: int | None = None) -> RowIterator:
        return self._between(key, from_time, to_time, reverse=False)

    def backward_versions(self, key: Any, from_time: int | None = None, to_time: int | None = None) -> RowIterator:
        return self._between(key, from_time, to_time, reverse=True)

    def range(self, from_key: Any = None, to_key: Any = None, as_of: int | None = None) -> RowIterator:
        return self._range(from_key, to_key, as_of, as_of, reverse=False, newest=as_of is None)

    def reverse_range(self, from_key: Any = None, to_key: Any = None, as_of: int | None = None) -> RowIterator:
        return self._range(from_key, to_key, as_of, as_of, reverse=True, newest=as_of is None)

    def prefix_scan(self, prefix: Any, prefix_serde: Serde[Any] | None = None, as_of: int | None = None) -> RowIterator:
        self._check()
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

    def approximate_num_entries(self) -> int:
        """Keys that have a latest version."""
        self._check()
        latest = self._versions.latest
        return latest.family.approximate_count() + len(latest.dirty) + len(latest.drained)

    # ------------------------------------------------------------------ helpers

    def _between(self, key: Any, from_time: int | None, to_time: int | None, *, reverse: bool) -> RowIterator:
        self._check()
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
        self._check()
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
        for time, what in ((from_time, "from_time"), (to_time, "to_time")):
            if time is not None:
                self._check_time(time, what)
        first, last = FIRST_TIME if from_time is None else from_time, LAST_TIME if to_time is None else to_time
        if first > last:
            raise StoreError(f"store {self.name!r}: from_time {first} is after to_time {last}", store=self.name)
        return first, last

    def _check_time(self, time: Any, what: str) -> None:
        if type(time) is not int or not 0 <= time <= LAST_TIME:
            raise StoreError(
                f"store {self.name!r} takes times in ms that are not negative; {what} is {time!r}", store=self.name
            )

    def _check(self) -> None:
        if not self._open:
            raise StoreError(f"store {self.name!r} is closed: its task is not on this worker any more", store=self.name)


class VersionedOperator:
    """For operators of the DSL: as :class:`state.key_value.store.OperatorStore`, and as of a time."""

    cached = False
    versioned = True

    def __init__(self, facade: VersionedFacade) -> None:
        self.name = facade.name
        self._facade = facade

    def get(self, key: Any) -> tuple[Any, int] | None:
        """Value and timestamp of the latest version."""
        found = self._facade.get(key)
        return None if found is None else (found.value, found.timestamp)

    def get_as_of(self, key: Any, as_of: int) -> tuple[Any, int] | None:
        """Value and timestamp of the version as of a time in ms."""
        found = self._facade.get(key, as_of)
        return None if found is None else (found.value, found.timestamp)

    def put(self, key: Any, value: Any, timestamp: int, headers: HeaderList | None = None) -> int:
        """The end of the version's validity, as the store's put."""
        return self._facade.put(key, value, timestamp)

    def on_flush(self, callback: Callable[..., None], *, old_values: bool) -> None:
        """Nothing is cached, so nobody is ever told."""


def _versions(
    builder: StoreBuilder[Any, Any],
    engine: Engine,
    codec: RowCodec,
    cursor: Cursor,
    budget: Budget,
    drop: Callable[[], None],
) -> Versions:
    latest = Rows(
        RowsSettings(
            name=builder.name,
            engine=engine,
            codec=codec,
            key_serde=Serdes.BYTES,
            value_serde=Serdes.BYTES,
            cursor=cursor,
            budget=budget,
            log=None,  # the store logs each of its puts itself
            log_each=False,
            caching=False,
        )
    )
    parameters = builder.supplier.parameters
    retention = parameters["history_retention_ms"]
    history = History(engine, builder.name, budget, retention, parameters["segment_interval_ms"])
    return Versions(builder.name, latest, history, keeps_history=retention > 0, drop=drop)


def _open(opening: Opening) -> OpenStore:
    versions = _versions(opening.builder, opening.engine, opening.codec, opening.cursor, opening.budget, opening.drop)
    facade = VersionedFacade(versions, opening)
    return OpenStore(
        builder=opening.builder,
        rows=versions.latest,
        facade=facade,
        operator=VersionedOperator(facade),
        upkeep=(versions.history,),
    )


def _nothing() -> None:
    """Puts of a restore were counted when they were made."""


def _restoring(builder: StoreBuilder[Any, Any], engine: Engine, codec: RowCodec) -> Restore:
    """The puts again, one by one, so that the same are dropped and the same expire (Java looks at the largest timestamp
    of a batch instead, which brings deleted values back)."""
    versions = _versions(builder, engine, codec, Cursor(), Budget(RESTORE_CACHE_BYTES), _nothing)
    put, latest, history = versions.put, versions.latest, versions.history

    def restore(
        batch: Batch,
        keys: Iterable[bytes],
        values: Iterable[bytes | None],
        timestamps: Iterable[int],
        headers: Iterable[HeaderList | None],
    ) -> None:
        latest.applied()
        history.applied()
        for key, value, timestamp in zip(keys, values, timestamps, strict=True):
            put(key, value, timestamp)
        latest.drain()
        latest.apply(batch)
        history.apply(batch)

    return restore


KINDS: dict[str, StoreKind] = {
    "versioned-key-value": StoreKind(LATEST, _open, _restoring, families=(VERSIONS,)),
}
