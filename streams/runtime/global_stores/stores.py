"""The global stores of a process: one thread writes them, every task reads them.

They have no buffer: the records of a poll are one write to the engine, with the offset up to which they were read, and
tasks see them from then on. Offsets are kept for each store and row format separately. So a store that is new, or has
another row format, is filled from the beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from processor_api.errors import DamagedStateError
from processor_api.stores.builder import GlobalStore
from processor_api.stores.suppliers import MEMORY
from processor_api.task_id import TopicPartition
from processor_api.topology.data import TopologyData
from state.directory.metadata import DATABASE
from state.engine.port import OFFSETS, Engine
from state.formats.keys import after_prefix
from state.formats.offsets import point_key, read_offset, read_point, topic_id_key, write_offset, write_point
from state.registry.kinds import families_held, family_of, restore_of, restored_from_records
from state.write_buffer.store_kind import OpenStore
from streams.kafka.offset_metadata import LogPoint
from streams.runtime.engines.shared_engine import SharedMemoryEngine
from streams.runtime.engines.store_counters import StoreCounters
from streams.runtime.global_stores.readers import GlobalReaders, global_families
from streams.runtime.processing.environment import Environment
from streams.runtime.tasks.task_stores import EngineOpener


class Reached(NamedTuple):
    """The end of what was read of a partition."""

    position: int
    """The next offset to read."""
    point: LogPoint | None
    """The last record before it; ``None`` if the epoch of its leader is not known."""


class GlobalStores(GlobalReaders):
    """Holds the global stores of a process. Written by one thread; read by any through `reader`.

    It opens them in the directory of ``environment``.
    """

    def __init__(self, topology: TopologyData, environment: Environment, open_engine: EngineOpener) -> None:
        super().__init__(topology, environment)
        self.patiently: Callable[[Callable[[], None]], None] = _at_once
        """Does what writes to a store; the thread that does has it wait where the disk is full."""
        self.engines: dict[str, Engine] = {}
        self.counters: dict[str, StoreCounters] = {}
        for name, families in global_families(topology).items():
            self.engines[name] = _open_engine(open_engine, name, environment.state_dir, families)
        self.stores: dict[str, OpenStore] = {}
        """The stores as the processors that fill them see them."""
        try:
            for name, spec in self._specs.items():
                self.stores[name] = self._opened(spec, cursor=environment.cursor)
                if environment.settings.registry is not None:
                    self.counters[name] = StoreCounters(environment.settings.registry, environment.clock.monotonic)
        except BaseException:
            self.close()
            raise

    def _engine(self, spec: GlobalStore) -> Engine:
        return self.engines[spec.builder.supplier.engine]

    # ------------------------------------------------------------------ writing

    def apply(self, reached: Mapping[TopicPartition, Reached]) -> None:
        """Writes to the engines what processors put, and up to where the topics were read."""
        for name, engine in self.engines.items():
            stores = [store for store in self.stores.values() if store.builder.supplier.engine == name]
            begin = self._environment.clock.monotonic()
            self.patiently(partial(self._apply, engine, stores, reached))
            seconds = self._environment.clock.monotonic() - begin
            for store in stores:
                store.applied()
                if store.builder.name in self.counters:
                    self.counters[store.builder.name].committed(seconds)
        self.writes += 1

    def _apply(self, engine: Engine, stores: Iterable[OpenStore], reached: Mapping[TopicPartition, Reached]) -> None:
        batch = engine.batch()
        for store in stores:
            store.drain()
            store.apply(batch)
            self._put_offsets(batch, self._specs[store.builder.name], reached)
        engine.write(batch)

    def sample(self) -> None:
        """Samples the counters of the stores, for rates."""
        for counters in self.counters.values():
            counters.sample()

    def _put_offsets(self, batch: Any, spec: GlobalStore, reached: Mapping[TopicPartition, Reached]) -> None:
        handle = self._engine(spec).family(OFFSETS).handle
        for partition, (position, point) in reached.items():
            if partition.topic == spec.topic:
                batch.put(_offset_key(spec, partition), write_offset(position - 1), handle)
                if point is not None:
                    batch.put(_point_key(spec, partition), write_point(*point), handle)

    def load(self, spec: GlobalStore, messages: Iterable[Any]) -> int:
        """Writes records of the topic to the store as they are, without those that have no key; returns how many.

        They are on disk only when :meth:`flush` has returned; their offset must not be written before.
        """
        engine = self._engine(spec)
        keyed = [message for message in messages if message.key() is not None]
        self.patiently(partial(self._load, engine, spec, keyed))
        return len(keyed)

    def _load(self, engine: Engine, spec: GlobalStore, keyed: Sequence[Any]) -> None:
        batch = engine.batch()
        serdes = self._environment.store_serdes(spec.builder, spec.topic)
        restored_from_records(restore_of(spec.builder, engine), **serdes)(
            batch,
            (message.key() for message in keyed),
            (message.value() for message in keyed),
            (message.timestamp()[1] for message in keyed),
            (message.headers() for message in keyed),
        )
        engine.load(batch)

    def flush(self) -> None:
        """Writes what was loaded to disk."""
        for engine in self.engines.values():
            self.patiently(engine.flush)

    # ------------------------------------------------------------------ offsets

    def stored_offset(self, spec: GlobalStore, partition: TopicPartition) -> int | None:
        """Returns the offset of the last record of a partition that the store holds; ``None`` if it holds none."""
        found = self._engine(spec).family(OFFSETS).get(_offset_key(spec, partition))
        try:
            return None if found is None else read_offset(found)
        except ValueError as error:
            raise DamagedStateError(
                f"the offset of global store {spec.name!r} for {partition} is damaged: {error}; stop the application"
                f" and run `streams state rebuild {spec.name}` to refill it from its topic",
                path=str(self._environment.state_dir / DATABASE),
                store=spec.name,
            ) from error

    def stored_point(self, spec: GlobalStore, partition: TopicPartition) -> LogPoint | None:
        """Returns a record of a partition that the store holds, with the epoch of its leader; ``None`` if none is
        known."""
        found = read_point(self._engine(spec).family(OFFSETS).get(_point_key(spec, partition)))
        return None if found is None else LogPoint(*found)

    def bind_topic(self, spec: GlobalStore, topic_id: str) -> str | None:
        """Keeps the id of the topic with the store. A store that has rows of another topic is emptied.

        The offsets of such a store would mean other records in this topic.

        :returns: that other topic's id; ``None`` if the id is the same, or was not known.
        """
        engine = self._engine(spec)
        key = topic_id_key(spec.topic, _offset_prefix(spec))
        found = engine.family(OFFSETS).get(key)
        known = None if found is None else found.decode(errors="replace")
        if known == topic_id:
            return None
        if known is not None:
            self.wipe(spec)  # first: rows that are left after a crash must have the former id

        def write() -> None:
            batch = engine.batch()
            batch.put(key, topic_id.encode(), engine.family(OFFSETS).handle)
            engine.write(batch)

        self.patiently(write)
        return known

    def has_rows(self, spec: GlobalStore) -> bool:
        """Whether the store's engine holds anything of it."""
        engine = self._engine(spec)
        return any(map(engine.holds, families_held(spec.builder, engine)))

    def wipe(self, spec: GlobalStore) -> None:
        """Removes the store's offsets, then its rows, also those of an older kind that it would migrate."""
        self.patiently(partial(self._wipe, spec))

    def _wipe(self, spec: GlobalStore) -> None:
        engine = self._engine(spec)
        offsets, rows = engine.family(OFFSETS), _offset_prefix(spec)
        batch = engine.batch()
        for prefix in (rows, point_key("", rows)):
            for key in [key for key, _ in offsets.range(prefix, after_prefix(prefix))]:
                batch.delete(key, offsets.handle)
        engine.write(batch)
        engine.clear(families_held(spec.builder, engine))

    def close(self) -> None:
        """Closes stores and engines; tasks must no longer read them."""
        for store in self.stores.values():
            store.close()
        engines, self.engines = self.engines, {}
        for engine in engines.values():
            engine.close()


def _at_once(write: Callable[[], None]) -> None:
    write()


def _offset_prefix(spec: GlobalStore) -> bytes:
    return f"{family_of(spec.builder)}/".encode()


def _offset_key(spec: GlobalStore, partition: TopicPartition) -> bytes:
    return _offset_prefix(spec) + str(partition).encode()


def _point_key(spec: GlobalStore, partition: TopicPartition) -> bytes:
    return point_key(str(partition), _offset_prefix(spec))


def _open_engine(open_engine: EngineOpener, name: str, directory: Path, families: list[str]) -> Engine:
    if name == MEMORY:
        return cast(Engine, SharedMemoryEngine())
    return open_engine(name, directory, families)
