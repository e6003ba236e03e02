"""Factories for stores: suppliers, which say what kind of store on which engine, and builders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from processor_api.errors import TopologyError
from processor_api.serde import Serde, Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.custom import CustomStateStore, KeyValueBytesStoreSupplier, VersionedBytesStoreSupplier
from processor_api.stores.suppliers import (
    CUSTOM_VERSIONED,
    MEMORY,
    PLAIN_BYTES,
    ROCKSDB,
    StoreSupplier,
    as_supplier,
    custom_supplier,
)
from processor_api.texts import repr_of
from processor_api.user_code.durations import Duration, to_ms
from processor_api.user_code.given_serdes import SerdeLike
from processor_api.user_code.given_values import check_flags
from processor_api.user_code.open_types import K, V

_KEY_VALUE, _TIMESTAMPED, _HEADERS = "key-value", "timestamped-key-value", "headers-key-value"
_LRU_MAP, _TIMESTAMPED_LRU_MAP = "lru-map", "timestamped-lru-map"
_PLAIN_OF = {
    _KEY_VALUE: _KEY_VALUE,
    _TIMESTAMPED: _KEY_VALUE,
    _HEADERS: _KEY_VALUE,
    _LRU_MAP: _LRU_MAP,
    _TIMESTAMPED_LRU_MAP: _LRU_MAP,
    PLAIN_BYTES: _KEY_VALUE,
}
"""The plain kind of each kind of key-value store that a builder can give timestamps or headers."""
_TIMESTAMPED_OF = {_KEY_VALUE: _TIMESTAMPED, _LRU_MAP: _TIMESTAMPED_LRU_MAP}

PROXIED = "proxied-key-value"
"""The kind of a timestamped store over bytes without timestamps."""

_BYTES: Serde[Any] = Serdes.BYTES
"""The serdes of custom stores, which write bytes themselves."""

_ALONE, _WITH_TIMESTAMPS, _WITH_HEADERS = "", "timestamped-", "headers-"
"""Prefixes of the names of window and session kinds, by what is kept beside the values."""

_SECOND, _MINUTE, _HOUR = 1000, 60_000, 3_600_000
_SEGMENTS = ((_MINUTE, 3, 2 * _SECOND), (5 * _MINUTE, 5, 20 * _SECOND), (_HOUR, 12, _MINUTE))


class Stores:
    """Factories for stores.

    :meth:`key_value_store`, :meth:`window_store` and :meth:`session_store` make a builder in one call, and keyword
    arguments choose the kind. The others have Kafka Streams' names: a supplier says what kind of store on which engine,
    and a builder of it adds serdes.

    ::

        counts = Stores.key_value_store("counts", "string", "long", in_memory=True)
        builder.add_state_store(counts)
        java = Stores.key_value_store_builder(Stores.in_memory_key_value_store("the-same"), "string", "long")
        builder.add_state_store(java)
    """

    @staticmethod
    def key_value_store(
        name: str,
        key_serde: SerdeLike[K] | None = None,
        value_serde: SerdeLike[V] | None = None,
        *,
        with_timestamps: bool = False,
        with_headers: bool = False,
        in_memory: bool = False,
    ) -> StoreBuilder[K, V]:
        """Returns a builder of a key-value store.

        ::

            counts = Stores.key_value_store("counts", "string", "long")
            recent = Stores.key_value_store("recent", "string", "json", with_timestamps=True, in_memory=True)
            builder.add_state_store(counts).add_state_store(recent)

        :param key_serde: the application's default key serde if left out; so ``value_serde``.
        :param with_timestamps: values are :class:`~processor_api.stores.contracts.ValueAndTimestamp` (KIP-258).
        :param with_headers: values are :class:`~processor_api.stores.contracts.ValueTimestampHeaders` (KIP-1271); they
            have timestamps in any case.
        :param in_memory: keeps rows in memory, restored from the changelog at every start, rather than on RocksDB.
        """
        check_flags(with_headers=with_headers, with_timestamps=with_timestamps)
        kind = _HEADERS if with_headers else _TIMESTAMPED if with_timestamps else _KEY_VALUE
        supplier = StoreSupplier(name=name, kind=kind, engine=_engine(in_memory), can_expire=True)
        return StoreBuilder(supplier=supplier, key_serde=key_serde, value_serde=value_serde)

    @staticmethod
    def window_store(
        name: str,
        retention: Duration,
        window_size: Duration,
        key_serde: SerdeLike[K] | None = None,
        value_serde: SerdeLike[V] | None = None,
        *,
        with_timestamps: bool = False,
        with_headers: bool = False,
        in_memory: bool = False,
        retain_duplicates: bool = False,
        segment_interval: Duration | None = None,
        time_ordered: bool = False,
    ) -> StoreBuilder[K, V]:
        """Returns a builder of a window store.

        The keyword arguments that :meth:`key_value_store` has mean the same here, the others what they mean to
        :meth:`persistent_window_store`.

        ::

            counts = Stores.window_store("counts", timedelta(hours=1), timedelta(minutes=1), "string", "long")
            builder.add_state_store(counts)

        :param retention: how long rows are kept behind the largest window start put: a ``timedelta`` or integer
            milliseconds.
        :param window_size: the length of windows: likewise.

        :raises TopologyError: if a duration is negative, the interval 0, or the retention smaller than the window.
        """
        check_flags(with_headers=with_headers, with_timestamps=with_timestamps)
        values = _WITH_HEADERS if with_headers else _WITH_TIMESTAMPS if with_timestamps else _ALONE
        how = (retain_duplicates, segment_interval, time_ordered, values)
        supplier = _window_supplier(name, _engine(in_memory), retention, window_size, *how)
        return StoreBuilder(supplier=supplier, key_serde=key_serde, value_serde=value_serde)

    @staticmethod
    def session_store(
        name: str,
        retention: Duration,
        key_serde: SerdeLike[K] | None = None,
        value_serde: SerdeLike[V] | None = None,
        *,
        with_timestamps: bool = False,
        with_headers: bool = False,
        in_memory: bool = False,
        segment_interval: Duration | None = None,
        time_ordered: bool = False,
    ) -> StoreBuilder[K, V]:
        """Returns a builder of a session store.

        ::

            visits = Stores.session_store("visits", timedelta(hours=1), "string", "long", in_memory=True)
            builder.add_state_store(visits)

        :param retention: how long rows are kept behind the largest session end put: a ``timedelta`` or integer
            milliseconds.
        :param with_timestamps: aggregates are :class:`~processor_api.stores.contracts.ValueAndTimestamp`.
        :param with_headers: aggregates are :class:`~processor_api.stores.contracts.AggregationWithHeaders` (KIP-1271),
            which have no timestamps.
        :param in_memory: keeps rows in memory, restored from the changelog at every start, rather than on RocksDB.
        :param segment_interval: as for :meth:`persistent_window_store`; so ``time_ordered``.
        :raises TopologyError: if a duration is negative, the interval 0, or both timestamps and headers are asked for.
        """
        check_flags(with_headers=with_headers, with_timestamps=with_timestamps)
        if with_timestamps and with_headers:
            raise TopologyError(
                f"session store {repr_of(name)} can have timestamps or headers with its aggregates, not both: remove"
                " with_timestamps or with_headers",
                store=name,
            )
        values = _WITH_HEADERS if with_headers else _WITH_TIMESTAMPS if with_timestamps else _ALONE
        supplier = _session_supplier(name, _engine(in_memory), retention, segment_interval, time_ordered, values)
        return StoreBuilder(supplier=supplier, key_serde=key_serde, value_serde=value_serde)

    @staticmethod
    def persistent_key_value_store(name: str) -> StoreSupplier:
        """Returns a supplier of a key-value store on RocksDB.

        ::

            counts = Materialized(supplier=Stores.persistent_key_value_store("counts"))
            clicks.group_by_key().count(materialized=counts)
        """
        return StoreSupplier(name=name, kind=_KEY_VALUE, engine=ROCKSDB, can_expire=True)

    @staticmethod
    def persistent_timestamped_key_value_store(name: str) -> StoreSupplier:
        """Returns a supplier of a key-value store with timestamps on RocksDB (KIP-258).

        ::

            counts = Stores.persistent_timestamped_key_value_store("counts")
            builder.add_state_store(Stores.timestamped_key_value_store_builder(counts, "string", "long"))
        """
        return StoreSupplier(name=name, kind=_TIMESTAMPED, engine=ROCKSDB, can_expire=True)

    @staticmethod
    def in_memory_key_value_store(name: str) -> StoreSupplier:
        """Returns a supplier of a key-value store in memory, restored from the changelog at every start.

        ::

            counts = Materialized(supplier=Stores.in_memory_key_value_store("counts"))
            clicks.group_by_key().count(materialized=counts)
        """
        return StoreSupplier(name=name, kind=_KEY_VALUE, engine=MEMORY, can_expire=True)

    @staticmethod
    def persistent_timestamped_key_value_store_with_headers(name: str) -> StoreSupplier:
        """Returns a supplier of a key-value store with timestamps and headers on RocksDB (KIP-1271).

        ::

            counts = Stores.persistent_timestamped_key_value_store_with_headers("counts")
            builder.add_state_store(Stores.timestamped_key_value_store_with_headers_builder(counts, "string", "long"))
        """
        return StoreSupplier(name=name, kind=_HEADERS, engine=ROCKSDB, can_expire=True)

    @staticmethod
    def lru_map(name: str, max_entries: int) -> StoreSupplier:
        """Returns a supplier of an LRU map: the ``max_entries`` keys that were put or read last, in memory.

        Keys that are dropped are deleted from the changelog.

        ::

            last_1000 = Stores.lru_map("recent", max_entries=1000)
            builder.add_state_store(Stores.key_value_store_builder(last_1000, "string", "json"))

        :raises TopologyError: if ``max_entries`` is not a positive number.
        """
        if type(max_entries) is not int or max_entries < 1:
            raise TopologyError(
                f"max_entries of an LRU map must be a positive number, got {repr_of(max_entries)}", store=name
            )
        return StoreSupplier(
            name=name,
            kind=_LRU_MAP,
            engine=MEMORY,
            parameters={"max_entries": max_entries},
            can_be_cached=False,
            can_move=False,
        )

    @staticmethod
    def persistent_versioned_key_value_store(
        name: str, history_retention: Duration, segment_interval: Duration | None = None
    ) -> StoreSupplier:
        """Returns a supplier of a store of versions on RocksDB (KIP-889).

        ::

            limits = Stores.persistent_versioned_key_value_store("limits", timedelta(days=1))
            table = builder.table("limits", materialized=Materialized(supplier=limits))
            at_the_time = payments.join(table, lambda cents, limit: cents <= limit)
            # limits("ann", 500) @ 0, limits("ann", 100) @ 5_000, payments("ann", 300) @ 1_000
            #   -> at_the_time("ann", True)

        :param history_retention: how long versions stay readable after they ended, and how late a put may come: a
            ``timedelta`` or integer milliseconds. 0 keeps no history.
        :param segment_interval: older versions go by segments of this length: by the third of a history of a minute, up
            to the 24th of one of days, if left out.
        :raises TopologyError: if the retention is negative or the interval not positive.
        """
        return _versioned(name, ROCKSDB, history_retention, segment_interval)

    @staticmethod
    def in_memory_versioned_key_value_store(
        name: str, history_retention: Duration, segment_interval: Duration | None = None
    ) -> StoreSupplier:
        """Returns a supplier of a store of versions in memory, restored from the changelog at every start.

        The parameters are those of :meth:`persistent_versioned_key_value_store`.

        ::

            limits = Stores.in_memory_versioned_key_value_store("limits", timedelta(days=1))
            table = builder.table("limits", materialized=Materialized(supplier=limits))
        """
        return _versioned(name, MEMORY, history_retention, segment_interval)

    @staticmethod
    def persistent_list_store(name: str) -> StoreSupplier:
        """Returns a supplier of a store of lists on RocksDB, as outer joins of streams need it.

        ::

            counts = Stores.persistent_list_store("counts")
            builder.add_state_store(Stores.list_store_builder(counts, "string", "long"))
        """
        return StoreSupplier(name=name, kind="list", engine=ROCKSDB, can_be_cached=False)

    @staticmethod
    def in_memory_list_store(name: str) -> StoreSupplier:
        """Returns a supplier of a store of lists in memory, restored from the changelog at every start.

        ::

            counts = Stores.in_memory_list_store("counts")
            builder.add_state_store(Stores.list_store_builder(counts, "string", "long"))
        """
        return StoreSupplier(name=name, kind="list", engine=MEMORY, can_be_cached=False)

    @staticmethod
    def persistent_window_store(
        name: str,
        retention: Duration,
        window_size: Duration,
        retain_duplicates: bool = False,
        *,
        segment_interval: Duration | None = None,
        time_ordered: bool = False,
    ) -> StoreSupplier:
        """Returns a supplier of a window store on RocksDB, kept for ``retention`` behind the largest window start put.

        ::

            counts = Stores.persistent_window_store("counts", timedelta(hours=1), timedelta(minutes=1))
            minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
            clicks.group_by_key().windowed_by(minutes).count(materialized=Materialized(supplier=counts))

        :param retention: a ``timedelta`` or integer milliseconds.
        :param window_size: the length of windows, from which the store knows their ends: likewise.
        :param retain_duplicates: every put adds a row; nothing is replaced or deleted (stream-stream joins).
        :param segment_interval: rows expire in segments of this length; by default half of the retention, at least a
            minute. A store that has rows keeps the interval they were written with.
        :param time_ordered: reads over all keys go by time and cost no more than what they return (KIP-825), at the
            price of an index for reads by key: for results that are emitted when windows close.
        :raises TopologyError: if a duration is negative, the interval 0, or the retention smaller than the window.
        """
        return _window_supplier(
            name, ROCKSDB, retention, window_size, retain_duplicates, segment_interval, time_ordered, _ALONE
        )

    @staticmethod
    def persistent_timestamped_window_store(
        name: str,
        retention: Duration,
        window_size: Duration,
        retain_duplicates: bool = False,
        *,
        segment_interval: Duration | None = None,
        time_ordered: bool = False,
    ) -> StoreSupplier:
        """Returns a supplier of a window store on RocksDB with timestamps beside the values (KIP-258).

        The parameters are those of :meth:`persistent_window_store`.

        ::

            counts = Stores.persistent_timestamped_window_store("counts", timedelta(hours=1), timedelta(minutes=1))
            minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
            clicks.group_by_key().windowed_by(minutes).count(materialized=Materialized(supplier=counts))
        """
        return _window_supplier(
            name, ROCKSDB, retention, window_size, retain_duplicates, segment_interval, time_ordered, _WITH_TIMESTAMPS
        )

    @staticmethod
    def persistent_timestamped_window_store_with_headers(
        name: str,
        retention: Duration,
        window_size: Duration,
        retain_duplicates: bool = False,
        *,
        segment_interval: Duration | None = None,
        time_ordered: bool = False,
    ) -> StoreSupplier:
        """Returns a supplier of a window store on RocksDB with timestamps and headers beside the values (KIP-1271).

        The parameters are those of :meth:`persistent_window_store`.

        ::

            hour, minute = timedelta(hours=1), timedelta(minutes=1)
            counts = Stores.persistent_timestamped_window_store_with_headers("counts", hour, minute)
            minutes = TimeWindows.of_size_with_no_grace(minute)
            clicks.group_by_key().windowed_by(minutes).count(materialized=Materialized(supplier=counts))
        """
        return _window_supplier(
            name, ROCKSDB, retention, window_size, retain_duplicates, segment_interval, time_ordered, _WITH_HEADERS
        )

    @staticmethod
    def in_memory_window_store(
        name: str,
        retention: Duration,
        window_size: Duration,
        retain_duplicates: bool = False,
        *,
        time_ordered: bool = False,
    ) -> StoreSupplier:
        """Returns a supplier of a window store in memory, restored from the changelog at every start.

        Reads over several keys go by time, then key. The parameters are those of :meth:`persistent_window_store`.

        ::

            counts = Stores.in_memory_window_store("counts", timedelta(hours=1), timedelta(minutes=1))
            minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))
            clicks.group_by_key().windowed_by(minutes).count(materialized=Materialized(supplier=counts))
        """
        return _window_supplier(name, MEMORY, retention, window_size, retain_duplicates, None, time_ordered, _ALONE)

    @staticmethod
    def persistent_session_store(
        name: str, retention: Duration, *, segment_interval: Duration | None = None, time_ordered: bool = False
    ) -> StoreSupplier:
        """Returns a supplier of a session store on RocksDB, kept for ``retention`` behind the largest session end put.

        The other parameters are those of :meth:`persistent_window_store`.

        ::

            visits = Stores.persistent_session_store("visits", timedelta(hours=1))
            builder.add_state_store(Stores.session_store_builder(visits, "string", "long"))

        :raises TopologyError: if a duration is negative, or the interval 0.
        """
        return _session_supplier(name, ROCKSDB, retention, segment_interval, time_ordered, _ALONE)

    @staticmethod
    def persistent_timestamped_session_store(
        name: str, retention: Duration, *, segment_interval: Duration | None = None, time_ordered: bool = False
    ) -> StoreSupplier:
        """Returns a supplier of a session store on RocksDB with timestamps beside the aggregates.

        It was planned in KIP-258 and is not in Kafka Streams. The changelog is that of a session store. The parameters
        are those of :meth:`persistent_session_store`.

        ::

            visits = Stores.persistent_timestamped_session_store("visits", timedelta(hours=1))
            builder.add_state_store(Stores.timestamped_session_store_builder(visits, "string", "long"))
        """
        return _session_supplier(name, ROCKSDB, retention, segment_interval, time_ordered, _WITH_TIMESTAMPS)

    @staticmethod
    def persistent_session_store_with_headers(
        name: str, retention: Duration, *, segment_interval: Duration | None = None, time_ordered: bool = False
    ) -> StoreSupplier:
        """Returns a supplier of a session store on RocksDB with headers beside the aggregates (KIP-1271).

        The parameters are those of :meth:`persistent_session_store`.

        ::

            visits = Stores.persistent_session_store_with_headers("visits", timedelta(hours=1))
            builder.add_state_store(Stores.session_store_with_headers_builder(visits, "string", "long"))
        """
        return _session_supplier(name, ROCKSDB, retention, segment_interval, time_ordered, _WITH_HEADERS)

    @staticmethod
    def in_memory_session_store(name: str, retention: Duration, *, time_ordered: bool = False) -> StoreSupplier:
        """Returns a supplier of a session store in memory, restored from the changelog at every start.

        Reads over several keys go by time, then key. The parameters are those of :meth:`persistent_session_store`.

        ::

            visits = Stores.in_memory_session_store("visits", timedelta(hours=1))
            builder.add_state_store(Stores.session_store_builder(visits, "string", "long"))
        """
        return _session_supplier(name, MEMORY, retention, None, time_ordered, _ALONE)

    @staticmethod
    def custom(name: str, supplier: Callable[[], CustomStateStore]) -> StoreBuilder[Any, Any]:
        """Returns a builder of a store that brings everything of its own.

        Processors get it by ``context.get_state_store(name)``.

        ::

            class Tally(CustomStateStore):
                name, persistent, is_open = "tally", False, False

                def init(self, context):
                    self.is_open, self.total = True, 0

                def commit(self, offsets): ...

                def close(self):
                    self.is_open = False

            builder.add_state_store(Stores.custom("tally", Tally).with_logging_disabled())

        :param supplier: makes a new store, not open yet, at each call; it is called twice here to check that.
        :raises TopologyError: if it does not, or what it makes is not a
            :class:`~processor_api.stores.custom.CustomStateStore` of this name.
        """
        return StoreBuilder(supplier=custom_supplier(name, supplier), key_serde=_BYTES, value_serde=_BYTES)

    @staticmethod
    def key_value_store_builder(
        supplier: StoreSupplier | KeyValueBytesStoreSupplier,
        key_serde: SerdeLike[K] | None = None,
        value_serde: SerdeLike[V] | None = None,
    ) -> StoreBuilder[K, V]:
        """Returns a builder of a plain key-value store.

        ::

            supplier = Stores.in_memory_key_value_store("counts")
            builder.add_state_store(Stores.key_value_store_builder(supplier, "string", "long").with_caching_enabled())

        :raises TopologyError: if the supplier is of another kind.
        """
        return _builder(supplier, "a key-value store", _PLAIN_OF, key_serde, value_serde)

    @staticmethod
    def timestamped_key_value_store_builder(
        supplier: StoreSupplier | KeyValueBytesStoreSupplier,
        key_serde: SerdeLike[K] | None = None,
        value_serde: SerdeLike[V] | None = None,
    ) -> StoreBuilder[K, V]:
        """Returns a builder of a key-value store of :class:`~processor_api.stores.contracts.ValueAndTimestamp`.

        A persistent byte store of the user's that keeps no timestamps reads -1 (KIP-258).

        ::

            supplier = Stores.persistent_timestamped_key_value_store("counts")
            builder.add_state_store(Stores.timestamped_key_value_store_builder(supplier, "string", "long"))

        :raises TopologyError: if the supplier is of another kind.
        """
        kinds = {kind: _TIMESTAMPED_OF[plain] for kind, plain in _PLAIN_OF.items()} | {PLAIN_BYTES: PROXIED}
        return _builder(supplier, "a timestamped key-value store", kinds, key_serde, value_serde)

    @staticmethod
    def timestamped_key_value_store_with_headers_builder(
        supplier: StoreSupplier | KeyValueBytesStoreSupplier,
        key_serde: SerdeLike[K] | None = None,
        value_serde: SerdeLike[V] | None = None,
    ) -> StoreBuilder[K, V]:
        """Returns a builder of a key-value store of values with timestamps and headers (KIP-1271).

        They are :class:`~processor_api.stores.contracts.ValueTimestampHeaders`.

        ::

            supplier = Stores.persistent_timestamped_key_value_store_with_headers("counts")
            builder.add_state_store(Stores.timestamped_key_value_store_with_headers_builder(supplier, "string", "long"))

        :raises TopologyError: if the supplier is of another kind.
        """
        kinds = {kind: _HEADERS for kind, plain in _PLAIN_OF.items() if plain == _KEY_VALUE and kind != PLAIN_BYTES}
        return _builder(supplier, "a key-value store with headers", kinds, key_serde, value_serde)

    @staticmethod
    def versioned_key_value_store_builder(
        supplier: StoreSupplier | VersionedBytesStoreSupplier,
        key_serde: SerdeLike[K] | None = None,
        value_serde: SerdeLike[V] | None = None,
    ) -> StoreBuilder[K, V]:
        """Returns a builder of a versioned store, which is never cached.

        It is a :class:`~processor_api.stores.contracts.VersionedKeyValueStore`.

        ::

            limits = Stores.persistent_versioned_key_value_store("limits", timedelta(days=1))
            builder.add_state_store(Stores.versioned_key_value_store_builder(limits, "string", "long"))

        :raises TopologyError: if the supplier is of another kind.
        """
        kinds = {kind: kind for kind in ("versioned-key-value", CUSTOM_VERSIONED)}
        return _builder(supplier, "a versioned key-value store", kinds, key_serde, value_serde)

    @staticmethod
    def list_store_builder(
        supplier: StoreSupplier, key_serde: SerdeLike[K] | None = None, value_serde: SerdeLike[V] | None = None
    ) -> StoreBuilder[K, V]:
        """Returns a builder of a :class:`~processor_api.stores.contracts.ListStore`; ``value_serde`` is for one value.

        ::

            waiting = Stores.list_store_builder(Stores.persistent_list_store("waiting"), "string", "json")
            builder.add_state_store(waiting)

        :raises TopologyError: if the supplier is of another kind.
        """
        return _builder(supplier, "a list store", {"list": "list"}, key_serde, value_serde)

    @staticmethod
    def window_store_builder(
        supplier: StoreSupplier, key_serde: SerdeLike[K] | None = None, value_serde: SerdeLike[V] | None = None
    ) -> StoreBuilder[K, V]:
        """Returns a builder of a window store. One that keeps duplicates is never cached.

        ::

            supplier = Stores.persistent_window_store("counts", timedelta(hours=1), timedelta(minutes=1))
            builder.add_state_store(Stores.window_store_builder(supplier, "string", "long"))

        :raises TopologyError: if the supplier is of another kind.
        """
        return _timed_builder(supplier, "window", key_serde, value_serde, _ALONE)

    @staticmethod
    def timestamped_window_store_builder(
        supplier: StoreSupplier, key_serde: SerdeLike[K] | None = None, value_serde: SerdeLike[V] | None = None
    ) -> StoreBuilder[K, V]:
        """Returns a builder of a window store of :class:`~processor_api.stores.contracts.ValueAndTimestamp`.

        ::

            supplier = Stores.persistent_timestamped_window_store("counts", timedelta(hours=1), timedelta(minutes=1))
            builder.add_state_store(Stores.timestamped_window_store_builder(supplier, "string", "long"))

        :raises TopologyError: if the supplier is of another kind.
        """
        return _timed_builder(supplier, "window", key_serde, value_serde, _WITH_TIMESTAMPS)

    @staticmethod
    def timestamped_window_store_with_headers_builder(
        supplier: StoreSupplier, key_serde: SerdeLike[K] | None = None, value_serde: SerdeLike[V] | None = None
    ) -> StoreBuilder[K, V]:
        """Returns a builder of a window store of values with timestamps and headers (KIP-1271).

        They are :class:`~processor_api.stores.contracts.ValueTimestampHeaders`.

        ::

            hour, minute = timedelta(hours=1), timedelta(minutes=1)
            supplier = Stores.persistent_timestamped_window_store_with_headers("counts", hour, minute)
            builder.add_state_store(Stores.timestamped_window_store_with_headers_builder(supplier, "string", "long"))

        :raises TopologyError: if the supplier is of another kind.
        """
        return _timed_builder(supplier, "window", key_serde, value_serde, _WITH_HEADERS)

    @staticmethod
    def session_store_builder(
        supplier: StoreSupplier, key_serde: SerdeLike[K] | None = None, value_serde: SerdeLike[V] | None = None
    ) -> StoreBuilder[K, V]:
        """Returns a builder of a session store.

        ::

            supplier = Stores.persistent_session_store("visits", timedelta(hours=1))
            builder.add_state_store(Stores.session_store_builder(supplier, "string", "long"))

        :raises TopologyError: if the supplier is of another kind.
        """
        return _timed_builder(supplier, "session", key_serde, value_serde, _ALONE)

    @staticmethod
    def timestamped_session_store_builder(
        supplier: StoreSupplier, key_serde: SerdeLike[K] | None = None, value_serde: SerdeLike[V] | None = None
    ) -> StoreBuilder[K, V]:
        """Returns a builder of a session store of :class:`~processor_api.stores.contracts.ValueAndTimestamp`.

        ::

            supplier = Stores.persistent_timestamped_session_store("visits", timedelta(hours=1))
            builder.add_state_store(Stores.timestamped_session_store_builder(supplier, "string", "long"))

        :raises TopologyError: if the supplier is of another kind.
        """
        return _timed_builder(supplier, "session", key_serde, value_serde, _WITH_TIMESTAMPS)

    @staticmethod
    def session_store_with_headers_builder(
        supplier: StoreSupplier, key_serde: SerdeLike[K] | None = None, value_serde: SerdeLike[V] | None = None
    ) -> StoreBuilder[K, V]:
        """Returns a builder of a session store of aggregates with headers (KIP-1271).

        They are :class:`~processor_api.stores.contracts.AggregationWithHeaders`.

        ::

            supplier = Stores.persistent_session_store_with_headers("visits", timedelta(hours=1))
            builder.add_state_store(Stores.session_store_with_headers_builder(supplier, "string", "long"))

        :raises TopologyError: if the supplier is of another kind.
        """
        return _timed_builder(supplier, "session", key_serde, value_serde, _WITH_HEADERS)


def _engine(in_memory: bool) -> str:
    check_flags(in_memory=in_memory)
    return MEMORY if in_memory else ROCKSDB


def _builder(
    given: Any,
    what: str,
    kinds: Mapping[str, str],
    key_serde: SerdeLike[K] | None,
    value_serde: SerdeLike[V] | None,
) -> StoreBuilder[K, V]:
    supplier = as_supplier(given)
    kind = kinds.get(supplier.kind)
    if kind is None:
        raise TopologyError(f"{what} cannot be built from a {supplier.kind} supplier", store=supplier.name)
    supplier = replace(supplier, kind=kind, can_expire=supplier.can_expire and kind != PROXIED)
    return StoreBuilder(supplier=supplier, key_serde=key_serde, value_serde=value_serde)


def _versioned(name: str, engine: str, history_retention: Duration, segment_interval: Duration | None) -> StoreSupplier:
    what = f"store {repr_of(name)}:"
    retention = to_ms(history_retention, f"{what} history_retention")
    if retention < 0:
        raise TopologyError(f"history_retention must not be negative, got {retention} ms", store=name)
    given = None if segment_interval is None else to_ms(segment_interval, f"{what} segment_interval")
    segment = _segment_interval(retention) if given is None else given
    if segment < 1:
        raise TopologyError(f"segment_interval must be positive, got {segment} ms", store=name)
    parameters = {"history_retention_ms": retention, "segment_interval_ms": segment}
    return StoreSupplier(
        name=name, kind="versioned-key-value", engine=engine, parameters=parameters, can_be_cached=False
    )


def _segment_interval(retention_ms: int) -> int:
    """Returns the interval that Kafka Streams chooses (semantics 128)."""
    for up_to, parts, least in _SEGMENTS:
        if retention_ms <= up_to:
            return max(retention_ms // parts, least)
    return max(retention_ms // 24, 5 * _MINUTE)


def _kind_name(window_or_session: str, values: str, time_ordered: bool) -> str:
    check_flags(time_ordered=time_ordered)
    return f"{'time-ordered-' if time_ordered else ''}{values}{window_or_session}"


def _window_supplier(
    name: str,
    engine: str,
    retention: Duration,
    window_size: Duration,
    retain_duplicates: bool,
    segment_interval: Duration | None,
    time_ordered: bool,
    values: str,
) -> StoreSupplier:
    check_flags(retain_duplicates=retain_duplicates)
    size_ms = _not_negative(window_size, "window_size", name)
    parameters = _retention(retention, segment_interval, name)
    if parameters["retention_ms"] < size_ms:
        raise TopologyError(
            f"store {repr_of(name)}: the retention ({parameters['retention_ms']} ms) is smaller than the window"
            f" ({size_ms} ms), so rows would expire before their windows end",
            store=name,
        )
    return StoreSupplier(
        name=name,
        kind=_kind_name("window", values, time_ordered),
        engine=engine,
        parameters={**parameters, "window_size_ms": size_ms, "retain_duplicates": retain_duplicates},
    )


def _session_supplier(
    name: str,
    engine: str,
    retention: Duration,
    segment_interval: Duration | None,
    time_ordered: bool,
    values: str,
) -> StoreSupplier:
    return StoreSupplier(
        name=name,
        kind=_kind_name("session", values, time_ordered),
        engine=engine,
        parameters=_retention(retention, segment_interval, name),
    )


def _retention(retention: Duration, segment_interval: Duration | None, name: str) -> dict[str, int]:
    parameters = {"retention_ms": _not_negative(retention, "retention", name)}
    if segment_interval is not None:
        parameters["segment_interval_ms"] = interval = _not_negative(segment_interval, "segment_interval", name)
        if interval == 0:
            raise TopologyError(f"store {repr_of(name)}: segment_interval must be at least 1 ms, got 0", store=name)
    return parameters


def _not_negative(duration: Duration, what: str, name: str) -> int:
    given = to_ms(duration, f"store {repr_of(name)}: {what}")
    if given < 0:
        raise TopologyError(f"store {repr_of(name)}: {what} must not be negative, got {given} ms", store=name)
    return given


def _timed_builder(
    supplier: StoreSupplier,
    window_or_session: str,
    key_serde: SerdeLike[K] | None,
    value_serde: SerdeLike[V] | None,
    values: str,
) -> StoreBuilder[K, V]:
    supplier = as_supplier(supplier)
    if not supplier.kind.endswith(window_or_session):
        raise TopologyError(
            f"a {window_or_session} store cannot be built from a {supplier.kind} supplier", store=supplier.name
        )
    time_ordered = supplier.kind.startswith("time-ordered-")
    kind = _kind_name(window_or_session, values, time_ordered)
    return StoreBuilder(supplier=replace(supplier, kind=kind), key_serde=key_serde, value_serde=value_serde)
