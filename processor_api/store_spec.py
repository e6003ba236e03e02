"""Stores as values: a supplier says what kind of store on which engine, a builder adds serdes, logging and caching."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from processor_api.errors import TopologyError
from processor_api.serde import Serde

__all__ = ["MEMORY", "ROCKSDB", "StoreBuilder", "StoreSupplier", "Stores"]

K = TypeVar("K")
V = TypeVar("V")

ROCKSDB = "rocksdb"
MEMORY = "memory"


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
        """Forwards and logs one change per key and commit (or eviction) rather than each."""
        return replace(self, caching=True)

    def with_caching_disabled(self) -> StoreBuilder[K, V]:
        return replace(self, caching=False)


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
    def key_value_store_builder(
        supplier: StoreSupplier, key_serde: Serde[K] | None = None, value_serde: Serde[V] | None = None
    ) -> StoreBuilder[K, V]:
        """A plain key-value store.

        :raises TopologyError: if the supplier is of another kind.
        """
        if supplier.kind not in ("key-value", "timestamped-key-value"):
            raise TopologyError(
                f"a key-value store cannot be built from a {supplier.kind} supplier", store=supplier.name
            )
        return StoreBuilder(supplier=replace(supplier, kind="key-value"), key_serde=key_serde, value_serde=value_serde)

    @staticmethod
    def timestamped_key_value_store_builder(
        supplier: StoreSupplier, key_serde: Serde[K] | None = None, value_serde: Serde[V] | None = None
    ) -> StoreBuilder[K, V]:
        """A key-value store whose values are :class:`~processor_api.stores.ValueAndTimestamp`.

        :raises TopologyError: if the supplier is of another kind.
        """
        if supplier.kind not in ("key-value", "timestamped-key-value"):
            raise TopologyError(
                f"a timestamped key-value store cannot be built from a {supplier.kind} supplier", store=supplier.name
            )
        return StoreBuilder(
            supplier=replace(supplier, kind="timestamped-key-value"), key_serde=key_serde, value_serde=value_serde
        )
