"""Stores of the user's own: their contract, their context, and suppliers of byte stores.

There are two sorts. A *custom store* brings everything of its own: its calls, its bytes on disk, its changes on the
changelog (:class:`CustomStateStore`, made by ``Stores.custom``). A *byte store* only keeps bytes by bytes, and gets
serdes, the cache, the write buffer and the changelog from the runtime (:class:`KeyValueBytesStoreSupplier`,
:class:`VersionedBytesStoreSupplier`). `docs/custom-stores.md` has examples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, overload

from processor_api.metrics import StreamsMetrics
from processor_api.record import HeaderList
from processor_api.serde import Serde
from processor_api.stores.contracts import KeyValueStore, VersionedKeyValueStore
from processor_api.task_id import TaskId, TopicPartition


class ChangelogRecord(NamedTuple):
    """A record of a store's changelog."""

    key: bytes
    value: bytes | None
    timestamp: int
    """Milliseconds since the epoch."""
    headers: HeaderList | None


RestoreCallback = Callable[[Sequence[ChangelogRecord]], None]
"""Takes the next records of the changelog, in order, into the store. What it writes is committed by
:meth:`CustomStateStore.commit` with the offset of the last of them."""


class StateStoreContext(Protocol):
    """The context of a custom store, for the thread that runs the task, until the store closes."""

    @property
    def application_id(self) -> str:
        """The setting ``application.id``."""
        ...

    @property
    def task_id(self) -> TaskId:
        """The task that the store belongs to."""
        ...

    @property
    def state_dir(self) -> Path:
        """The store's own directory, which exists. It is deleted, with all that is in it, when the store must be
        rebuilt from its changelog."""
        ...

    @property
    def changelog_topic(self) -> str | None:
        """The real name of the store's changelog; ``None`` if it has none."""
        ...

    @property
    def key_serde(self) -> Serde[Any] | None:
        """The application's default key serde."""
        ...

    @property
    def value_serde(self) -> Serde[Any] | None:
        """The application's default value serde."""
        ...

    def register(self, restore: RestoreCallback) -> None:
        """Sets how the store is restored. A custom store that is logged calls it in ``init``; a byte store need not."""
        ...

    def log_change(
        self, key: bytes, value: bytes | None, timestamp: int | None = None, headers: HeaderList | None = None
    ) -> None:
        """Writes a change to the changelog; does nothing where there is none. Every change of a store that is logged
        must come through here, or it is lost when the task moves.

        :param value: ``None`` deletes.
        :param timestamp: in ms; that of the current record if left out.
        :raises StoreError: while the store is initialised or restored, and in a byte store, which is logged for it.
        """
        ...

    def current_stream_time_ms(self) -> int:
        """Returns the task's stream time in ms; -1 before the first record."""
        ...

    def current_system_time_ms(self) -> int:
        """Returns the wall-clock time in ms since 1970."""
        ...

    def record_timestamp_ms(self) -> int:
        """Returns the timestamp of the current record in ms; -1 if there is none."""
        ...

    def commit(self) -> None:
        """Asks for a commit soon; it does not commit by itself."""
        ...

    def app_configs(self) -> Mapping[str, Any]:
        """Returns the application's configuration under Kafka's dotted names, secrets masked."""
        ...

    def app_configs_with_prefix(self, prefix: str) -> Mapping[str, Any]:
        """Returns the settings of :meth:`app_configs` whose names begin with a prefix, by the rest of their names."""
        ...

    def metrics(self) -> StreamsMetrics:
        """Returns the registry for metrics of the user's own."""
        ...


class CustomStateStore(Protocol):
    """The contract of a store that brings everything of its own (Kafka Streams' ``StateStore`` with KIP-892).

    Inherit from it: what has a default here need not be written. One object serves one task, made by its supplier and
    used by one thread, in this order: ``init``; the restore callback, as often as needed, each time followed by
    ``commit``; then the processors' calls and a ``commit`` for each commit of the task; ``close``. After an aborted
    transaction it is closed, and replaced by a new one.

    What the store must promise decides what happens after a crash, and after an aborted transaction:

    * it :attr:`manages_offsets`: rows and offsets become durable together in ``commit``, and what was written since the
      last one is gone when it is opened again. It is never rebuilt, and needs no file of the runtime's;
    * it :attr:`buffers_writes`: likewise, without the offsets. The runtime writes them to a file ``.checkpoint_NAME``
      after each ``commit``; what a crash leaves between the two is replayed;
    * neither: its writes last at once, committed or not. Under exactly-once it is the only kind of store that is
      deleted and rebuilt from its changelog after an unclean stop or an abort. At least once it keeps what it has.
    """

    @property
    def name(self) -> str:
        """The name of the store, the one that its supplier was given."""
        ...

    @property
    def persistent(self) -> bool:
        """Whether what was committed is there when the store is opened again by another process."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether the store can be used: from the end of ``init`` to ``close``."""
        ...

    def init(self, context: StateStoreContext) -> None:
        """Opens the store, in ``context.state_dir`` if it has files, and registers how it is restored."""
        ...

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Makes what was written durable. Called by the runtime only: a processor that calls it gets an error.

        :param offsets: for the changelog's partition, the offset of its last record that the store holds; for each
            input partition of a persistent store, the next offset that the task will read. A store that manages its
            offsets keeps them; those of partitions that are not in it stay as they are.
        """
        ...

    def close(self) -> None:
        """Frees all resources, without a commit. It may be called twice."""
        ...

    def committed_offset(self, partition: TopicPartition) -> int | None:
        """Returns the offset of a partition that the last ``commit`` was given, also by an earlier process.

        :returns: ``None`` if there was none, or the store does not manage its offsets.
        """
        return None

    @property
    def manages_offsets(self) -> bool:
        """Whether ``commit`` keeps offsets, atomically with the rows."""
        return False

    @property
    def buffers_writes(self) -> bool:
        """Whether writes wait for ``commit``, and are gone if it does not come."""
        return self.manages_offsets

    def approximate_num_uncommitted_bytes(self) -> int:
        """Returns how many bytes of memory the next ``commit`` frees.

        They count against ``statestore.uncommitted.max.bytes``, which asks for an early commit. It is called often:
        keep a counter.
        """
        return 0

    @property
    def position(self) -> Mapping[TopicPartition, int]:
        """The offset of the last record whose changes the store has, by input partition; empty if it does not know.

        It is for the processors that use the store. The runtime keeps positions of its own, and queries, which use it
        in Kafka Streams, do not read custom stores here.
        """
        return {}


class KeyValueBytesStore(CustomStateStore, KeyValueStore[bytes, bytes], Protocol):
    """A byte store of keys and values, with the lifecycle of a custom store."""


class VersionedBytesStore(CustomStateStore, VersionedKeyValueStore[bytes, bytes], Protocol):
    """A byte store of versions, with the lifecycle of a custom store."""


class KeyValueBytesStoreSupplier(Protocol):
    """A supplier of byte stores of keys and values. It is taken wherever a `StoreSupplier` is: by ``Materialized``, the
    builders of ``Stores`` and `DslStoreSuppliers`.

    The store has the lifecycle of :class:`CustomStateStore` and the calls of ``KeyValueStore[bytes, bytes]``, with keys
    in the order of their unsigned bytes. It is written at commits only (``put_all``, then ``commit``), so that it need
    not buffer. A backward read that it does not have is an error when it is called. If it is persistent and no
    :class:`TimestampedBytesStore`, a table on it has no timestamps: it reads -1 (KIP-258).
    """

    @property
    def name(self) -> str:
        """The name of the store."""
        ...

    def get(self) -> KeyValueBytesStore:
        """Returns a new store, not open yet."""
        ...


class VersionedBytesStoreSupplier(Protocol):
    """A supplier of byte stores of versions (KIP-889).

    The store has the lifecycle of :class:`CustomStateStore` and the calls of ``VersionedKeyValueStore[bytes, bytes]``.
    Each put reaches the store at once, and is logged before.
    """

    @property
    def name(self) -> str:
        """The name of the store."""
        ...

    @property
    def history_retention_ms(self) -> int:
        """Returns how long versions stay readable, in ms; the changelog is created to keep them a day longer."""
        ...

    def get(self) -> VersionedBytesStore:
        """Returns a new store, not open yet."""
        ...


class TimestampedBytesStore:
    """Marks a byte store that keeps timestamps: its values are eight bytes of timestamp and the value (KIP-258).

    A store that has older rows without timestamps returns them by :meth:`convert_to_timestamped_format`.
    """

    @overload
    @staticmethod
    def convert_to_timestamped_format(plain_value: bytes) -> bytes: ...
    @overload
    @staticmethod
    def convert_to_timestamped_format(plain_value: None) -> None: ...
    @staticmethod
    def convert_to_timestamped_format(plain_value: bytes | None) -> bytes | None:
        """Returns a plain value with the timestamp -1, which stands for one that is not known."""
        return None if plain_value is None else b"\xff" * 8 + plain_value
