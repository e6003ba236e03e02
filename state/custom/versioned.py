"""Byte stores of versions that users bring, with serdes: each put is logged, and reaches the store at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from processor_api.errors import StoreError
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import VersionedRecord
from processor_api.stores.suppliers import CUSTOM_VERSIONED, lacks
from processor_api.texts import repr_of
from processor_api.user_code.durations import whole_ms
from processor_api.user_code.given_serdes import SerdeLike
from state.custom.engine import CustomStoreEngine
from state.custom.store import engine_of, open_custom, restoring_custom
from state.engine.port import Batch, Engine
from state.row_format.checked_serdes import key_writer, prefix_bounds, reader, value_writer
from state.row_format.codec import RowCodec, without_rows
from state.write_buffer.iterators import OpenIterators, RowIterator
from state.write_buffer.store_kind import ITSELF, Opening, OpenStore, Restore, StoreKind


class VersionedBytesFacade:
    """A byte store of versions with serdes, each of whose puts is logged.

    :param iterators: opens its iterators; when they are closed, every call fails.
    """

    def __init__(self, opening: Opening, engine: CustomStoreEngine, iterators: OpenIterators) -> None:
        name = self.name = engine.name
        self.persistent = engine.persistent
        self._engine = engine
        self._of: Any = engine.store
        self._log = opening.log
        self._write_key, self._read_key = key_writer(opening.key_serde, name), reader(opening.key_serde, "key", name)
        self._write_value = value_writer(opening.value_serde, name)
        self._read_value = reader(opening.value_serde, "value", name)
        self._iterators = iterators

    @property
    def is_open(self) -> bool:
        return self._iterators.is_open

    def put(self, key: Any, value: Any, timestamp: int) -> int:
        store, data = self._store(), self._write_value(value)
        raw, timestamp = self._write_key(key), self._checked(timestamp)
        self._change(raw, data, timestamp)
        result: int = store.put(raw, data, timestamp)
        return result

    def delete(self, key: Any, timestamp: int) -> VersionedRecord[Any] | None:
        store, raw, timestamp = self._store(), self._write_key(key), self._checked(timestamp)
        self._change(raw, None, timestamp)
        return self._shown(store.delete(raw, timestamp))

    def get(self, key: Any, as_of: int | None = None) -> VersionedRecord[Any] | None:
        store, raw = self._store(), self._write_key(key)
        return self._shown(store.get(raw) if as_of is None else store.get(raw, self._checked(as_of)))

    def versions(self, key: Any, from_time: int | None = None, to_time: int | None = None) -> RowIterator:
        return self._of_key("versions", key, from_time, to_time)

    def backward_versions(self, key: Any, from_time: int | None = None, to_time: int | None = None) -> RowIterator:
        return self._of_key("backward_versions", key, from_time, to_time)

    def range(self, from_key: Any = None, to_key: Any = None, as_of: int | None = None) -> RowIterator:
        return self._of_keys("range", from_key, to_key, as_of)

    def reverse_range(self, from_key: Any = None, to_key: Any = None, as_of: int | None = None) -> RowIterator:
        return self._of_keys("reverse_range", from_key, to_key, as_of)

    def prefix_scan(
        self, prefix: Any, prefix_serde: SerdeLike[Any] | None = None, as_of: int | None = None
    ) -> RowIterator:
        """Reads the rows whose keys start with ``prefix``, as a range that ends behind the last such key."""
        low, high = prefix_bounds(prefix, self._write_key, prefix_serde, self.name)
        found, read_key, shown = self._call("range")(low, high, self._limit(as_of)), self._read_key, self._shown
        return self._iterators.open((read_key(key), shown(record)) for key, record in found if key.startswith(low))

    def range_versions(
        self, from_key: Any = None, to_key: Any = None, from_time: int | None = None, to_time: int | None = None
    ) -> RowIterator:
        return self._of_keys("range_versions", from_key, to_key, from_time, to_time)

    def reverse_range_versions(
        self, from_key: Any = None, to_key: Any = None, from_time: int | None = None, to_time: int | None = None
    ) -> RowIterator:
        return self._of_keys("reverse_range_versions", from_key, to_key, from_time, to_time)

    def approximate_num_entries(self) -> int:
        return int(self._call("approximate_num_entries")())

    def _change(self, key: bytes, data: bytes | None, timestamp: int) -> None:
        """Logs a change, then makes it: a change that is in the store but not on the changelog would be lost with the
        task."""
        self._engine.context.changes.dirty = True
        if self._log is not None:
            self._log(key, data, timestamp)

    def _checked(self, timestamp: Any) -> int:
        found = timestamp if type(timestamp) is int else whole_ms(timestamp)
        if found is None or found < 0:
            raise StoreError(
                f"store {self.name!r} needs non-negative timestamps in ms, got {repr_of(timestamp)}",
                store=self.name,
            )
        return found

    def _limit(self, time: Any) -> int | None:
        return None if time is None else self._checked(time)

    def _shown(self, record: Any) -> VersionedRecord[Any] | None:
        return None if record is None else VersionedRecord(self._read_value(record[0]), *record[1:])

    def _of_key(self, call: str, key: Any, *times: int | None) -> RowIterator:
        found = self._call(call)(self._write_key(key), *map(self._limit, times))
        rows: Iterator[Any] = map(self._shown, found)
        return self._iterators.open(rows)

    def _of_keys(self, call: str, from_key: Any, to_key: Any, *times: int | None) -> RowIterator:
        low, high = (None if key is None else self._write_key(key) for key in (from_key, to_key))
        found, read_key = self._call(call)(low, high, *map(self._limit, times)), self._read_key
        return self._iterators.open((read_key(key), self._shown(record)) for key, record in found)

    def _call(self, call: str) -> Callable[..., Any]:
        store = self._store()
        if lacks(store, call):
            raise StoreError(
                f"store {self.name!r} does not support {call}: {type(store).__name__} does not implement it",
                store=self.name,
            )
        found: Callable[..., Any] = getattr(store, call)
        return found

    def _store(self) -> Any:
        self._iterators.check()
        return self._of


def _open_versioned(opening: Opening) -> OpenStore:
    engine = engine_of(opening.builder.name, opening.engine)
    iterators = OpenIterators(engine.name)
    return open_custom(opening, engine, VersionedBytesFacade(opening, engine, iterators), iterators.close)


def _restoring_versioned(builder: StoreBuilder[Any, Any], engine: Engine, codec: RowCodec) -> Restore:
    custom = engine_of(builder.name, engine)
    put_all, restoring = _put_each(custom), restoring_custom(builder, engine, codec)

    def restore(batch: Batch, *records: Any) -> None:
        if custom.context.restore is None:
            custom.context.restore = put_all
        restoring(batch, *records)

    return restore


def _put_each(engine: CustomStoreEngine) -> Callable[[Any], None]:
    def restore(records: Any) -> None:
        put = engine.store.put
        for key, value, timestamp, _ in records:
            put(key, value, timestamp)

    return restore


KINDS = {
    CUSTOM_VERSIONED: StoreKind(
        codec=without_rows("custom-versioned"),
        open=_open_versioned,
        restoring=_restoring_versioned,
        has_rows=False,
        forms={"versioned-key-value": ITSELF},
    )
}
