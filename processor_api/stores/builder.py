"""Stores as values: a supplier says what kind of store on which engine, a builder adds serdes, logging and caching.

The builders of stores in which operators of the DSL keep records that wait, and global stores, are values too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic

from processor_api.errors import TopologyError
from processor_api.stores.suppliers import MEMORY, ROCKSDB, StoreSupplier
from processor_api.stores.time_to_live import RECORD_TIME, TimeToLive
from processor_api.user_code.durations import Duration, to_ms
from processor_api.user_code.given_serdes import SerdeLike, SerdeOption, serde_option
from processor_api.user_code.given_values import attribute_of, texts_by_name
from processor_api.user_code.open_types import K, V


def _named(builder: StoreBuilder[Any, Any]) -> tuple[str, dict[str, Any]]:
    name = attribute_of(builder.supplier, "name", "of a builder")
    return f"store {name!r}", {"store": name}


@dataclass(frozen=True, kw_only=True)
class StoreBuilder(Generic[K, V]):
    """A store to be opened: its supplier, serdes, logging and caching. The methods return a changed copy.

    A serde of ``None`` is the application's default serde. Logging is on and caching off unless said otherwise, as with
    Kafka Streams' ``Stores`` builders.

    ::

        counts = Stores.key_value_store("counts", "string", "long").with_caching_enabled()
        builder.add_state_store(counts)
    """

    supplier: StoreSupplier
    key_serde: SerdeOption[K] = serde_option(_named)
    value_serde: SerdeOption[V] = serde_option(_named)
    logging: bool = True
    topic_config: Mapping[str, str] = field(default_factory=dict)
    caching: bool = False
    time_to_live: TimeToLive | None = None
    logs_headers: bool = False
    """Whether the changelog's records have the headers of the records for which they were put, where each put is logged
    by itself. A restore does not need them."""

    @property
    def name(self) -> str:
        """The name of the store."""
        return self.supplier.name

    @property
    def kind(self) -> str:
        """The name of the kind of store, such as ``timestamped-key-value``."""
        return self.supplier.kind

    def on_engine(self, engine: str) -> StoreBuilder[K, V]:
        """Puts the store on another engine: ``Stores.key_value_store("visits").on_engine("sqlite")``.

        ::

            counts = Stores.key_value_store("counts", "string", "long").on_engine("memory")
            builder.add_state_store(counts)

        :param engine: ``rocksdb``, ``memory``, or the name of an engine that is registered.
        :raises TopologyError: if the store cannot be on another engine.
        """
        return replace(self, supplier=self.supplier.on_engine(engine))

    def with_logging_enabled(self, topic_config: Mapping[str, str] | None = None) -> StoreBuilder[K, V]:
        """Logs changes to a changelog topic, created with ``topic_config`` over the built-in settings.

        ::

            counts = Stores.key_value_store("counts", "string", "long")
            builder.add_state_store(counts.with_logging_enabled({"min.insync.replicas": "2"}))
        """
        return replace(self, logging=True, topic_config=texts_by_name(topic_config, "topic_config"))

    def with_logging_disabled(self) -> StoreBuilder[K, V]:
        """Leaves out the changelog topic: the store cannot be restored on another worker.

        ::

            counts = Stores.key_value_store("counts", "string", "long").with_logging_disabled()
            builder.add_state_store(counts)
        """
        return replace(self, logging=False, topic_config={})

    def with_caching_enabled(self) -> StoreBuilder[K, V]:
        """Forwards and logs one change of each key per commit (or eviction) rather than each change.

        ::

            counts = Stores.key_value_store("counts", "string", "long").with_caching_enabled()
            builder.add_state_store(counts)

        :raises TopologyError: if the store is of a kind that is never cached.
        """
        if not self.supplier.can_be_cached:
            raise TopologyError(
                f"store {self.name!r} is a {self.kind} store, which is never cached because each of its changes"
                " counts: remove with_caching_enabled",
                store=self.name,
            )
        return replace(self, caching=True)

    def with_caching_disabled(self) -> StoreBuilder[K, V]:
        """Forwards and logs each change at once; the default.

        ::

            counts = Stores.key_value_store("counts", "string", "long").with_caching_disabled()
            builder.add_state_store(counts)
        """
        return replace(self, caching=False)

    def with_time_to_live(self, duration: Duration, by: str = RECORD_TIME) -> StoreBuilder[K, V]:
        """Lets keys expire (not in Kafka Streams): see :class:`~processor_api.stores.time_to_live.TimeToLive`.

        An expired key is invisible at once. Its row is deleted in the background, with a tombstone on the changelog;
        nothing is forwarded. Time is the task's stream time.

        ::

            visits = Stores.key_value_store("visits", "string", "long").with_time_to_live(timedelta(days=30))
            builder.add_state_store(visits)

        :raises TopologyError: if the duration is not positive, ``by`` is neither ``"record_time"`` nor ``"access"``, or
            the store is of a kind that has a retention or a size of its own.
        """
        if not self.supplier.can_expire:
            raise TopologyError(
                f"store {self.name!r} is a {self.kind} store, which cannot have a time to live: only key-value stores"
                " can (plain, timestamped and with headers); remove with_time_to_live",
                store=self.name,
            )
        try:
            return replace(self, time_to_live=TimeToLive(duration, by))
        except TopologyError as error:
            raise TopologyError(f"store {self.name!r}: {error.message}", store=self.name) from None


def change_buffer_builder(
    name: str,
    key_serde: SerdeLike[Any] | None = None,
    value_serde: SerdeLike[Any] | None = None,
    *,
    engine: str = MEMORY,
    headers: bool = False,
) -> StoreBuilder[Any, Any]:
    """Returns a builder of the buffer of a suppression: the last change of each key, in order of time.

    :param engine: in memory, where Kafka Streams has it, it is restored from the changelog at every start.
    :param headers: whether old values keep the headers and the timestamp of their records (``dsl.store.format``).
    """
    parameters = {"headers": True} if headers else {}
    supplier = StoreSupplier(name=name, kind="change-buffer", engine=engine, parameters=parameters, can_be_cached=False)
    return StoreBuilder(supplier=supplier, key_serde=key_serde, value_serde=value_serde)


def join_buffer_builder(
    name: str,
    grace: Duration,
    key_serde: SerdeLike[Any] | None = None,
    value_serde: SerdeLike[Any] | None = None,
    *,
    engine: str = ROCKSDB,
) -> StoreBuilder[Any, Any]:
    """Returns a builder of the buffer of a join of a stream with a table, with grace (KIP-923).

    It holds every record, in order of time.

    :param grace: how long the stream's time must be past a record's before the record is joined.
    :raises TopologyError: if the grace is negative.
    """
    grace_ms = to_ms(grace, f"store {name!r}: grace")
    if grace_ms < 0:
        raise TopologyError(f"store {name!r}: grace must not be negative, got {grace_ms} ms", store=name)
    supplier = StoreSupplier(
        name=name, kind="join-buffer", engine=engine, parameters={"grace_ms": grace_ms}, can_be_cached=False
    )
    return StoreBuilder(supplier=supplier, key_serde=key_serde, value_serde=value_serde)


@dataclass(frozen=True, kw_only=True)
class GlobalStore:
    """A global store: its builder, the topic that fills it, and the two nodes between them.

    The topic is its changelog as well.
    """

    builder: StoreBuilder[Any, Any]
    source: str
    """Name of the source node."""
    processor: str
    """Name of the processor node, the only one that writes to the store."""
    topic: str
    reprocess: bool
    """Whether a restore runs the processor on each record; otherwise records go into the store as they are."""

    @property
    def name(self) -> str:
        """The name of the store."""
        return self.builder.name
