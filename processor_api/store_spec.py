"""Stores as values: a supplier says what kind of store on which engine, a builder adds serdes, logging and caching."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from processor_api.durations import Duration, to_ms
from processor_api.errors import TopologyError
from processor_api.serde import Serde
from processor_api.time_to_live import RECORD_TIME, TimeToLive

__all__ = ["MEMORY", "ROCKSDB", "StoreBuilder", "StoreSupplier", "Stores"]

K = TypeVar("K")
V = TypeVar("V")

ROCKSDB = "rocksdb"
MEMORY = "memory"

UNCACHED_KINDS = frozenset(
    {"versioned-key-value", "lru-map", "timestamped-lru-map", "list", "change-buffer", "join-buffer"}
)
"""Kinds of store that log and forward every put."""

_KEY_VALUE, _TIMESTAMPED, _HEADERS = "key-value", "timestamped-key-value", "headers-key-value"
_LRU_MAP, _TIMESTAMPED_LRU_MAP = "lru-map", "timestamped-lru-map"
_PLAIN_OF = {
    _KEY_VALUE: _KEY_VALUE,
    _TIMESTAMPED: _KEY_VALUE,
    _HEADERS: _KEY_VALUE,
    _LRU_MAP: _LRU_MAP,
    _TIMESTAMPED_LRU_MAP: _LRU_MAP,
}
"""The plain kind of each kind of key-value store that a builder can give timestamps or headers."""
EXPIRING_KINDS = frozenset({_KEY_VALUE, _TIMESTAMPED, _HEADERS})
"""Kinds of store that can be given a time to live."""
_TIMESTAMPED_OF = {_KEY_VALUE: _TIMESTAMPED, _LRU_MAP: _TIMESTAMPED_LRU_MAP}

_SECOND, _MINUTE, _HOUR = 1000, 60_000, 3_600_000
_SEGMENTS = ((_MINUTE, 3, 2 * _SECOND), (5 * _MINUTE, 5, 20 * _SECOND), (_HOUR, 12, _MINUTE))


@dataclass(frozen=True, kw_only=True)
class StoreSupplier:
    """A kind of store on an engine; ``parameters`` are the kind's own (retention, window size, ... in ms)."""

    name: str
    kind: str
    engine: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name:
            raise TopologyError("a store needs a name")

    @property
    def persistent(self) -> bool:
        return self.engine != MEMORY


@dataclass(frozen=True, kw_only=True)
class StoreBuilder(Generic[K, V]):
    """Everything needed to open a store, and nothing opened. The ``with_*`` methods return a changed copy.

    A serde of ``None`` is the application's default serde. Logging is on and caching off unless said otherwise, as with
    Kafka Streams' ``Stores`` builders.
    """

    supplier: StoreSupplier
    key_serde: Serde[K] | None = None
    value_serde: Serde[V] | None = None
    logging: bool = True
    topic_config: Mapping[str, str] = field(default_factory=dict)
    caching: bool = False
    time_to_live: TimeToLive | None = None

    @property
    def name(self) -> str:
        return self.supplier.name

    @property
    def kind(self) -> str:
        return self.supplier.kind

    def with_logging_enabled(self, topic_config: Mapping[str, str] | None = None) -> StoreBuilder[K, V]:
        """Logs changes to a changelog topic, created with ``topic_config`` over the built-in settings."""
        return replace(self, logging=True, topic_config=dict(topic_config or {}))

    def with_logging_disabled(self) -> StoreBuilder[K, V]:
        """No changelog topic: the store cannot be restored on another worker."""
        return replace(self, logging=False, topic_config={})

    def with_caching_enabled(self) -> StoreBuilder[K, V]:
        """Forwards and logs one change per key and commit (or eviction) rather than each.

        :raises TopologyError: if the store is of a kind that is never cached.
        """
        if self.kind in UNCACHED_KINDS:
            raise TopologyError(f"a {self.kind} store is never cached: each of its changes counts", store=self.name)
        return replace(self, caching=True)

    def with_caching_disabled(self) -> StoreBuilder[K, V]:
        return replace(self, caching=False)

    def with_time_to_live(self, duration: Duration, by: str = RECORD_TIME) -> StoreBuilder[K, V]:
        """Lets keys expire (not in Kafka Streams): see :class:`~processor_api.time_to_live.TimeToLive`.

        An expired key is invisible at once. Its row is deleted in the background, with a tombstone on the changelog;
        nothing is forwarded. Time is the task's stream time.

        :raises TopologyError: if the duration is not positive, ``by`` is neither ``"record_time"`` nor ``"access"``, or
            the store is of a kind that has a retention or a size of its own.
        """
        if self.kind not in EXPIRING_KINDS:
            raise TopologyError(
                f"store {self.name!r} is a {self.kind} store, which can have no time to live: it bounds what it keeps"
                " by itself, or must not lose any; key-value stores, plain, timestamped and with headers, can",
                store=self.name,
            )
        try:
            return replace(self, time_to_live=TimeToLive(duration, by))
        except TopologyError as error:
            raise TopologyError(f"store {self.name!r}: {error.message}", store=self.name) from None


class Stores:
    """Factories for stores, under Kafka Streams' names."""

    @staticmethod
    def persistent_key_value_store(name: str) -> StoreSupplier:
        """Keys and values on RocksDB."""
        return StoreSupplier(name=name, kind="key-value", engine=ROCKSDB)

    @staticmethod
    def persistent_timestamped_key_value_store(name: str) -> StoreSupplier:
        """Keys and values with timestamps on RocksDB (KIP-258)."""
        return StoreSupplier(name=name, kind="timestamped-key-value", engine=ROCKSDB)

    @staticmethod
    def in_memory_key_value_store(name: str) -> StoreSupplier:
        """Keys and values in memory, restored from the changelog at every start."""
        return StoreSupplier(name=name, kind="key-value", engine=MEMORY)

    @staticmethod
    def persistent_timestamped_key_value_store_with_headers(name: str) -> StoreSupplier:
        """Keys and values with timestamps and headers on RocksDB (KIP-1271)."""
        return StoreSupplier(name=name, kind=_HEADERS, engine=ROCKSDB)

    @staticmethod
    def lru_map(name: str, max_entries: int) -> StoreSupplier:
        """The ``max_entries`` keys that were put or read last, in memory; those that go are deleted from the changelog.

        :raises TopologyError: if ``max_entries`` is not a positive number.
        """
        if type(max_entries) is not int or max_entries < 1:
            raise TopologyError(f"max_entries of an LRU map is a positive number, not {max_entries!r}", store=name)
        return StoreSupplier(name=name, kind=_LRU_MAP, engine=MEMORY, parameters={"max_entries": max_entries})

    @staticmethod
    def persistent_versioned_key_value_store(
        name: str, history_retention: Duration, segment_interval: Duration | None = None
    ) -> StoreSupplier:
        """Keys with the versions of their values on RocksDB (KIP-889).

        :param history_retention: how long versions stay readable after they ended, and how late a put may come; 0 keeps
            no history.
        :param segment_interval: older versions go by segments of this length: by the third of a history of a minute, up
            to the 24th of one of days, if left out.
        :raises TopologyError: if the retention is negative or the interval not positive.
        """
        return _versioned(name, ROCKSDB, history_retention, segment_interval)

    @staticmethod
    def in_memory_versioned_key_value_store(
        name: str, history_retention: Duration, segment_interval: Duration | None = None
    ) -> StoreSupplier:
        """As :meth:`persistent_versioned_key_value_store`, in memory, restored from the changelog at every start."""
        return _versioned(name, MEMORY, history_retention, segment_interval)

    @staticmethod
    def persistent_list_store(name: str) -> StoreSupplier:
        """A list of values for each key on RocksDB, as outer joins of streams need it."""
        return StoreSupplier(name=name, kind="list", engine=ROCKSDB)

    @staticmethod
    def in_memory_list_store(name: str) -> StoreSupplier:
        """As :meth:`persistent_list_store`, in memory."""
        return StoreSupplier(name=name, kind="list", engine=MEMORY)

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
        """Values of keys in windows on RocksDB, kept for ``retention`` behind the largest window start put.

        :param window_size: tells the ends of the windows that the store lists.
        :param retain_duplicates: every put adds a row; nothing is replaced or deleted (stream-stream joins).
        :param segment_interval: rows expire in segments of this length; by default half of the retention, at least a
            minute. A store that has rows keeps the interval they were written with.
        :param time_ordered: reads over all keys go by time and cost no more than what they return (KIP-825), at the
            price of an index for reads by key: for results that are emitted when windows close.
        :raises TopologyError: if a duration is negative, the interval 0, or the retention smaller than the window.
        """
        return _window_supplier(
            name, ROCKSDB, retention, window_size, retain_duplicates, segment_interval, time_ordered, timestamped=False
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
        """As :meth:`persistent_window_store`, with timestamps beside the values (KIP-258)."""
        return _window_supplier(
            name, ROCKSDB, retention, window_size, retain_duplicates, segment_interval, time_ordered, timestamped=True
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
        """As :meth:`persistent_window_store`, in memory; restored from the changelog at every start. Reads over several
        keys go by time, then key."""
        return _window_supplier(
            name, MEMORY, retention, window_size, retain_duplicates, None, time_ordered, timestamped=False
        )

    @staticmethod
    def persistent_session_store(
        name: str, retention: Duration, *, segment_interval: Duration | None = None, time_ordered: bool = False
    ) -> StoreSupplier:
        """Aggregates of sessions on RocksDB, kept for ``retention`` behind the largest session end put. The other
        parameters are those of :meth:`persistent_window_store`.

        :raises TopologyError: if a duration is negative, or the interval 0.
        """
        return _session_supplier(name, ROCKSDB, retention, segment_interval, time_ordered, timestamped=False)

    @staticmethod
    def persistent_timestamped_session_store(
        name: str, retention: Duration, *, segment_interval: Duration | None = None, time_ordered: bool = False
    ) -> StoreSupplier:
        """As :meth:`persistent_session_store`, with timestamps beside the aggregates (planned in KIP-258, and not in
        Kafka Streams). The changelog is that of a session store."""
        return _session_supplier(name, ROCKSDB, retention, segment_interval, time_ordered, timestamped=True)

    @staticmethod
    def in_memory_session_store(name: str, retention: Duration, *, time_ordered: bool = False) -> StoreSupplier:
        """As :meth:`persistent_session_store`, in memory; restored from the changelog at every start. Reads over
        several keys go by time, then key."""
        return _session_supplier(name, MEMORY, retention, None, time_ordered, timestamped=False)

    @staticmethod
    def key_value_store_builder(
        supplier: StoreSupplier, key_serde: Serde[K] | None = None, value_serde: Serde[V] | None = None
    ) -> StoreBuilder[K, V]:
        """A plain key-value store.

        :raises TopologyError: if the supplier is of another kind.
        """
        return _builder(supplier, "a key-value store", _PLAIN_OF, key_serde, value_serde)

    @staticmethod
    def timestamped_key_value_store_builder(
        supplier: StoreSupplier, key_serde: Serde[K] | None = None, value_serde: Serde[V] | None = None
    ) -> StoreBuilder[K, V]:
        """A key-value store whose values are :class:`~processor_api.stores.ValueAndTimestamp`.

        :raises TopologyError: if the supplier is of another kind.
        """
        kinds = {kind: _TIMESTAMPED_OF[plain] for kind, plain in _PLAIN_OF.items()}
        return _builder(supplier, "a timestamped key-value store", kinds, key_serde, value_serde)

    @staticmethod
    def timestamped_key_value_store_with_headers_builder(
        supplier: StoreSupplier, key_serde: Serde[K] | None = None, value_serde: Serde[V] | None = None
    ) -> StoreBuilder[K, V]:
        """A key-value store whose values are :class:`~processor_api.stores.ValueTimestampHeaders` (KIP-1271).

        :raises TopologyError: if the supplier is of another kind.
        """
        kinds = {kind: _HEADERS for kind, plain in _PLAIN_OF.items() if plain == _KEY_VALUE}
        return _builder(supplier, "a key-value store with headers", kinds, key_serde, value_serde)

    @staticmethod
    def versioned_key_value_store_builder(
        supplier: StoreSupplier, key_serde: Serde[K] | None = None, value_serde: Serde[V] | None = None
    ) -> StoreBuilder[K, V]:
        """A versioned key-value store, :class:`~processor_api.stores.VersionedKeyValueStore`. It is never cached.

        :raises TopologyError: if the supplier is of another kind.
        """
        kinds = {"versioned-key-value": "versioned-key-value"}
        return _builder(supplier, "a versioned key-value store", kinds, key_serde, value_serde)

    @staticmethod
    def list_store_builder(
        supplier: StoreSupplier, key_serde: Serde[K] | None = None, value_serde: Serde[V] | None = None
    ) -> StoreBuilder[K, V]:
        """A store of lists, :class:`~processor_api.stores.ListStore`; ``value_serde`` is of one value.

        :raises TopologyError: if the supplier is of another kind.
        """
        return _builder(supplier, "a list store", {"list": "list"}, key_serde, value_serde)

    @staticmethod
    def window_store_builder(
        supplier: StoreSupplier, key_serde: Serde[K] | None = None, value_serde: Serde[V] | None = None
    ) -> StoreBuilder[K, V]:
        """A store of values in windows. One that keeps duplicates is never cached.

        :raises TopologyError: if the supplier is of another kind.
        """
        return _timed_builder(supplier, "window", key_serde, value_serde, timestamped=False)

    @staticmethod
    def timestamped_window_store_builder(
        supplier: StoreSupplier, key_serde: Serde[K] | None = None, value_serde: Serde[V] | None = None
    ) -> StoreBuilder[K, V]:
        """A window store whose values are :class:`~processor_api.stores.ValueAndTimestamp`.

        :raises TopologyError: if the supplier is of another kind.
        """
        return _timed_builder(supplier, "window", key_serde, value_serde, timestamped=True)

    @staticmethod
    def session_store_builder(
        supplier: StoreSupplier, key_serde: Serde[K] | None = None, value_serde: Serde[V] | None = None
    ) -> StoreBuilder[K, V]:
        """A store of aggregates of sessions.

        :raises TopologyError: if the supplier is of another kind.
        """
        return _timed_builder(supplier, "session", key_serde, value_serde, timestamped=False)

    @staticmethod
    def timestamped_session_store_builder(
        supplier: StoreSupplier, key_serde: Serde[K] | None = None, value_serde: Serde[V] | None = None
    ) -> StoreBuilder[K, V]:
        """A session store whose aggregates are :class:`~processor_api.stores.ValueAndTimestamp`.

        :raises TopologyError: if the supplier is of another kind.
        """
        return _timed_builder(supplier, "session", key_serde, value_serde, timestamped=True)


def _builder(
    supplier: StoreSupplier,
    what: str,
    kinds: Mapping[str, str],
    key_serde: Serde[K] | None,
    value_serde: Serde[V] | None,
) -> StoreBuilder[K, V]:
    kind = kinds.get(supplier.kind)
    if kind is None:
        raise TopologyError(f"{what} cannot be built from a {supplier.kind} supplier", store=supplier.name)
    return StoreBuilder(supplier=replace(supplier, kind=kind), key_serde=key_serde, value_serde=value_serde)


def _versioned(name: str, engine: str, history_retention: Duration, segment_interval: Duration | None) -> StoreSupplier:
    retention = to_ms(history_retention, "history_retention")
    if retention < 0:
        raise TopologyError(f"history_retention is {retention} ms; it cannot be negative", store=name)
    segment = _segment_interval(retention) if segment_interval is None else to_ms(segment_interval, "segment_interval")
    if segment < 1:
        raise TopologyError(f"segment_interval is {segment} ms; it must be positive", store=name)
    parameters = {"history_retention_ms": retention, "segment_interval_ms": segment}
    return StoreSupplier(name=name, kind="versioned-key-value", engine=engine, parameters=parameters)


def _segment_interval(retention_ms: int) -> int:
    """Kafka Streams' choice (reference 3.3)."""
    for up_to, parts, least in _SEGMENTS:
        if retention_ms <= up_to:
            return max(retention_ms // parts, least)
    return max(retention_ms // 24, 5 * _MINUTE)


def _kind_name(window_or_session: str, *, timestamped: bool, time_ordered: bool) -> str:
    return f"{'time-ordered-' if time_ordered else ''}{'timestamped-' if timestamped else ''}{window_or_session}"


def _window_supplier(
    name: str,
    engine: str,
    retention: Duration,
    window_size: Duration,
    retain_duplicates: bool,
    segment_interval: Duration | None,
    time_ordered: bool,
    *,
    timestamped: bool,
) -> StoreSupplier:
    size_ms = _not_negative(window_size, "window_size", name)
    parameters = _retention(retention, segment_interval, name)
    if parameters["retention_ms"] < size_ms:
        raise TopologyError(
            f"store {name!r}: the retention ({parameters['retention_ms']} ms) is smaller than the window"
            f" ({size_ms} ms), so that rows would be gone before their windows end",
            store=name,
        )
    return StoreSupplier(
        name=name,
        kind=_kind_name("window", timestamped=timestamped, time_ordered=time_ordered),
        engine=engine,
        parameters={**parameters, "window_size_ms": size_ms, "retain_duplicates": retain_duplicates},
    )


def _session_supplier(
    name: str,
    engine: str,
    retention: Duration,
    segment_interval: Duration | None,
    time_ordered: bool,
    *,
    timestamped: bool,
) -> StoreSupplier:
    return StoreSupplier(
        name=name,
        kind=_kind_name("session", timestamped=timestamped, time_ordered=time_ordered),
        engine=engine,
        parameters=_retention(retention, segment_interval, name),
    )


def _retention(retention: Duration, segment_interval: Duration | None, name: str) -> dict[str, int]:
    parameters = {"retention_ms": _not_negative(retention, "retention", name)}
    if segment_interval is not None:
        parameters["segment_interval_ms"] = interval = _not_negative(segment_interval, "segment_interval", name)
        if interval == 0:
            raise TopologyError(f"store {name!r}: segment_interval must be at least 1 ms, got 0", store=name)
    return parameters


def _not_negative(duration: Duration, what: str, name: str) -> int:
    given = to_ms(duration, f"store {name!r}: {what}")
    if given < 0:
        raise TopologyError(f"store {name!r}: {what} cannot be negative, got {given} ms", store=name)
    return given


def _timed_builder(
    supplier: StoreSupplier,
    window_or_session: str,
    key_serde: Serde[K] | None,
    value_serde: Serde[V] | None,
    *,
    timestamped: bool,
) -> StoreBuilder[K, V]:
    if not supplier.kind.endswith(window_or_session):
        raise TopologyError(
            f"a {window_or_session} store cannot be built from a {supplier.kind} supplier", store=supplier.name
        )
    time_ordered = supplier.kind.startswith("time-ordered-")
    kind = _kind_name(window_or_session, timestamped=timestamped, time_ordered=time_ordered)
    return StoreBuilder(supplier=replace(supplier, kind=kind), key_serde=key_serde, value_serde=value_serde)
