"""The kinds of store that users bring: with everything of their own, as byte stores of versions, and timestamped over
bytes without timestamps (KIP-258). The engine of each is a :class:`state.custom_engine.CustomStoreEngine`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

from processor_api.custom_stores import ChangelogRecord
from processor_api.errors import StateError, StoreError
from processor_api.record import NO_TIMESTAMP, HeaderList
from processor_api.serde import Serdes
from processor_api.store_spec import PROXIED, StoreBuilder
from processor_api.store_supplier import CUSTOM, CUSTOM_VERSIONED, lacks
from processor_api.stores import ValueAndTimestamp, VersionedRecord
from state.budget import Budget
from state.checked import key_writer, reader, value_writer
from state.codec import PLAIN, RowCodec
from state.custom_engine import CustomStoreEngine
from state.engine import Batch, Engine
from state.key_value import OperatorStore, TimestampedFacade
from state.kind import Opening, OpenStore, Restore, StoreKind, open_rows
from state.row_iterator import OpenIterators, RowIterator
from state.rows import Entry, Rows

__all__ = ["KINDS", "ROWLESS", "CustomFacade", "ProxiedFacade", "VersionedBytesFacade"]

OPTIONAL_CALLS = frozenset(
    (
        "prefix_scan",
        "reverse_range",
        "reverse_all",
        "backward_fetch",
        "backward_fetch_all",
        "backward_all",
        "backward_find_sessions",
        "versions",
        "backward_versions",
        "range_versions",
        "reverse_range_versions",
    )
)
"""Reads that a store need not have, and that are an error only when somebody asks (KIP-617)."""
OPERATORS = ("__len__", "__contains__", "__iter__", "__getitem__", "__setitem__", "__delitem__")


class CustomFacade:
    """A user's store as processors see it: all of it but its life, which is the runtime's."""

    def __init__(self, engine: CustomStoreEngine) -> None:
        self._name = engine.name
        self._engine = engine
        self._of: Any = engine.store
        self._touches = engine.unsafe

    @property
    def name(self) -> str:
        return self._name

    @property
    def persistent(self) -> bool:
        return self._engine.persistent

    @property
    def is_open(self) -> bool:
        return self._of is not None and bool(self._of.is_open)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"store {self._name!r} does not show {name!r}")
        store = self._store()
        if name in OPTIONAL_CALLS and lacks(store, name):
            return self._lacking(name)
        try:
            found = getattr(store, name)
        except AttributeError:
            raise AttributeError(f"store {self._name!r} is a {type(store).__name__}, which has no {name!r}") from None
        return self._touching(found) if self._touches and callable(found) else found

    def _store(self) -> Any:
        if self._of is None:
            raise StoreError(
                f"store {self._name!r} is closed: its task is not on this worker any more", store=self._name
            )
        return self._of

    def _touching(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Whatever a processor calls may be a write, which an unclean stop would leave in the store."""
        context = self._engine.context

        def touching(*args: Any, **named: Any) -> Any:
            context.dirty = True
            return call(*args, **named)

        return touching

    def _lacking(self, call: str) -> Callable[..., NoReturn]:
        def refuse(*args: Any, **named: Any) -> NoReturn:
            raise StoreError(
                f"store {self._name!r} cannot do {call}: {type(self._of).__name__} does not implement it",
                store=self._name,
            )

        return refuse

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise StoreError(
            f"store {self._name!r} is initialised, committed and closed by the runtime alone; a processor that wants a"
            " commit calls context.commit()",
            store=self._name,
        )

    init = commit = close = _refuse

    def _end(self) -> None:
        self._of = None


def _operator(name: str) -> Callable[..., Any]:
    def call(self: CustomFacade, *args: Any) -> Any:
        store = self._store()
        if self._touches:
            self._engine.context.dirty = True
        return getattr(type(store), name)(store, *args)

    return call


def _shown(engine: CustomStoreEngine) -> CustomFacade:
    """With the operators (``in``, ``[]``, ...) that the store has."""
    has = {name: _operator(name) for name in OPERATORS if getattr(type(engine.store), name, None) is not None}
    shown: CustomFacade = type("CustomFacade", (CustomFacade,), has)(engine)
    return shown


class _Life:
    """An upkeep (`state.kind.Upkeep`): a custom store is committed with every commit of its task."""

    def __init__(self, engine: CustomStoreEngine, budget: Budget, facade: Any) -> None:
        self._engine, self._budget, self._facade = engine, budget, facade
        self._report = _reports(engine)
        budget.reports.append(self._report)

    @property
    def pending(self) -> bool:
        return True

    def apply(self, batch: Batch) -> None:
        """The engine commits the store when it takes the batch."""

    def applied(self) -> None:
        """Nothing is kept here."""

    def close(self) -> None:
        if self._report in self._budget.reports:
            self._budget.reports.remove(self._report)
        self._facade._end()
        self._engine.release()


def _reports(engine: CustomStoreEngine) -> Callable[[], int]:
    store = engine.store
    return lambda: int(store.approximate_num_uncommitted_bytes())


class _OpenCustom(OpenStore):
    """Its facade is closed by its life, since a processor may not close it."""

    def close(self) -> None:
        self.rows.close()
        for part in self.upkeep:
            part.close()


def _engine_of(name: str, engine: Engine) -> CustomStoreEngine:
    custom: Any = engine
    if not isinstance(custom, CustomStoreEngine):
        raise StateError(f"custom store {name!r} cannot be opened on an engine", store=name)
    return custom


def _no_rows(opening: Opening) -> Rows:
    """What is between the store and the engine: nothing ever."""
    return open_rows(opening, key_serde=Serdes.BYTES)


def _open_custom(opening: Opening) -> OpenStore:
    engine = _engine_of(opening.builder.name, opening.engine)
    if opening.log is not None and not engine.registered:
        raise StateError(
            f"custom store {engine.name!r} is logged and could not be restored: call context.register(...) in init, or"
            " build it with_logging_disabled()",
            store=engine.name,
        )
    return _opened(opening, engine, _shown(engine))


def _opened(opening: Opening, engine: CustomStoreEngine, facade: Any) -> OpenStore:
    engine.begin()
    context = engine.context
    context.write, context.running = opening.log, True
    life = _Life(engine, opening.budget, facade)
    return _OpenCustom(builder=opening.builder, rows=_no_rows(opening), facade=facade, operator=facade, upkeep=(life,))


def _restoring_custom(builder: StoreBuilder[Any, Any], engine: Engine, codec: RowCodec) -> Restore:
    custom = _engine_of(builder.name, engine)

    def restore(
        batch: Batch,
        keys: Iterable[bytes],
        values: Iterable[bytes | None],
        timestamps: Iterable[int],
        headers: Iterable[HeaderList | None],
    ) -> None:
        custom.restore(list(map(ChangelogRecord, keys, values, timestamps, headers)))

    return restore


# ---------------------------------------------------------------------- byte stores of versions


class VersionedBytesFacade:
    """A byte store of versions with serdes, each of whose puts is logged."""

    def __init__(self, opening: Opening, engine: CustomStoreEngine) -> None:
        name = self.name = engine.name
        self.persistent = engine.persistent
        self._engine = engine
        self._of: Any = engine.store
        self._log = opening.log
        self._write_key, self._write_value = (
            key_writer(opening.key_serde, name),
            value_writer(opening.value_serde, name),
        )
        self._read_key, self._read_value = (
            reader(opening.key_serde, "key", name),
            reader(opening.value_serde, "value", name),
        )
        self._iterators = OpenIterators(name)

    @property
    def is_open(self) -> bool:
        return self._of is not None

    def _end(self) -> None:
        self._of = None
        self._iterators.close()

    def put(self, key: Any, value: Any, timestamp: int) -> int:
        store, data = self._store(), self._write_value(value)
        raw = self._write_key(key)
        self._change(raw, data, self._checked(timestamp))
        result: int = store.put(raw, data, timestamp)
        return result

    def delete(self, key: Any, timestamp: int) -> VersionedRecord[Any] | None:
        store, raw = self._store(), self._write_key(key)
        self._change(raw, None, self._checked(timestamp))
        return self._shown(store.delete(raw, timestamp))

    def get(self, key: Any, as_of: int | None = None) -> VersionedRecord[Any] | None:
        store, raw = self._store(), self._write_key(key)
        return self._shown(store.get(raw) if as_of is None else store.get(raw, as_of))

    def versions(self, key: Any, from_time: int | None = None, to_time: int | None = None) -> RowIterator:
        return self._of_key("versions", key, from_time, to_time)

    def backward_versions(self, key: Any, from_time: int | None = None, to_time: int | None = None) -> RowIterator:
        return self._of_key("backward_versions", key, from_time, to_time)

    def range(self, from_key: Any = None, to_key: Any = None, as_of: int | None = None) -> RowIterator:
        return self._of_keys("range", from_key, to_key, as_of)

    def reverse_range(self, from_key: Any = None, to_key: Any = None, as_of: int | None = None) -> RowIterator:
        return self._of_keys("reverse_range", from_key, to_key, as_of)

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
        """Logged before it is made: what is in the store and not on the changelog would be lost with the task."""
        self._engine.context.dirty = True
        if self._log is not None:
            self._log(key, data, timestamp)

    def _checked(self, timestamp: Any) -> int:
        if type(timestamp) is not int or timestamp < 0:
            raise StoreError(
                f"store {self.name!r} takes timestamps in ms that are not negative, not {timestamp!r}", store=self.name
            )
        return timestamp

    def _shown(self, record: Any) -> VersionedRecord[Any] | None:
        return None if record is None else VersionedRecord(self._read_value(record[0]), *record[1:])

    def _of_key(self, call: str, key: Any, *times: int | None) -> RowIterator:
        found = self._call(call)(self._write_key(key), *times)
        rows: Iterator[Any] = map(self._shown, found)
        return self._iterators.open(rows)

    def _of_keys(self, call: str, from_key: Any, to_key: Any, *times: int | None) -> RowIterator:
        low, high = (None if key is None else self._write_key(key) for key in (from_key, to_key))
        found, read_key, shown = self._call(call)(low, high, *times), self._read_key, self._shown
        return self._iterators.open((read_key(key), shown(record)) for key, record in found)

    def _call(self, call: str) -> Callable[..., Any]:
        store = self._store()
        if lacks(store, call):
            raise StoreError(
                f"store {self.name!r} cannot do {call}: {type(store).__name__} does not implement it", store=self.name
            )
        found: Callable[..., Any] = getattr(store, call)
        return found

    def _store(self) -> Any:
        if self._of is None:
            raise StoreError(f"store {self.name!r} is closed: its task is not on this worker any more", store=self.name)
        return self._of


def _open_versioned(opening: Opening) -> OpenStore:
    engine = _engine_of(opening.builder.name, opening.engine)
    engine.context.logged_for_it = True
    return _opened(opening, engine, VersionedBytesFacade(opening, engine))


def _restoring_versioned(builder: StoreBuilder[Any, Any], engine: Engine, codec: RowCodec) -> Restore:
    custom = _engine_of(builder.name, engine)
    put_all = _put_each(custom)

    def restore(
        batch: Batch,
        keys: Iterable[bytes],
        values: Iterable[bytes | None],
        timestamps: Iterable[int],
        headers: Iterable[HeaderList | None],
    ) -> None:
        records = list(map(ChangelogRecord, keys, values, timestamps, headers))
        if custom.context.restore is None:
            custom.context.restore = put_all
        custom.restore(records)

    return restore


def _put_each(engine: CustomStoreEngine) -> Callable[[Any], None]:
    def restore(records: Any) -> None:
        put = engine.store.put
        for key, value, timestamp, _ in records:
            put(key, value, timestamp)

    return restore


# ---------------------------------------------------------------------- timestamps over bytes without


class ProxiedFacade(TimestampedFacade):
    """A timestamped store over a byte store that keeps the values alone: reads give the timestamp -1 (KIP-258)."""

    def _shown(self, value: Any, timestamp: int) -> Any:
        return ValueAndTimestamp(value, NO_TIMESTAMP)


class _ProxiedOperator(OperatorStore):
    """What operators get: never a timestamp, also of what is still in the buffer."""

    __slots__ = ()

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows)
        get = self.get

        def without_timestamp(key: Any) -> Entry | None:
            entry = get(key)
            return None if entry is None else (entry[0], NO_TIMESTAMP)

        self.get = without_timestamp


def _open_proxied(opening: Opening) -> OpenStore:
    rows = open_rows(opening, log_each=opening.log_each)
    return OpenStore(builder=opening.builder, rows=rows, facade=ProxiedFacade(rows), operator=_ProxiedOperator(rows))


def _named(suffix: str) -> RowCodec:
    """Of a kind that has no rows."""
    return RowCodec(suffix, PLAIN.write, PLAIN.read, PLAIN.fill)


KINDS = {
    CUSTOM: StoreKind(_named("custom"), _open_custom, _restoring_custom),
    CUSTOM_VERSIONED: StoreKind(_named("custom-versioned"), _open_versioned, _restoring_versioned),
    PROXIED: StoreKind(PLAIN, _open_proxied),
}
ROWLESS = frozenset({CUSTOM, CUSTOM_VERSIONED})
"""The kinds whose stores have no rows that the engine knows of."""
