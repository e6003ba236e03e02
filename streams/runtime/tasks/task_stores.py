"""The stores of one task: engines, changelogs, and the steps of a commit that concern them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from processor_api.errors import DamagedStateError, InternalError, StoreError
from processor_api.record import NO_TIMESTAMP
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.suppliers import CustomStoreSupplier
from processor_api.task_id import TaskId, TopicPartition
from state.directory.metadata import DATABASE
from state.engine.port import OFFSETS, POSITIONS, Batch, BulkLoading, Engine
from state.engine.repair_hints import rebuild_store, rebuild_task
from state.formats.offsets import (
    complete_at_key,
    offset_key,
    read_offset,
    read_time,
    topic_id_key,
    write_offset,
    write_time,
)
from state.read_views.queryable import why_unreadable
from state.registry.kinds import check_kind, families_held, families_of, family_of, open_store, restores_blindly
from state.row_format.record_context import Cursor
from state.windowed.segments import stored_time
from state.write_buffer.memory_budget import Budget
from state.write_buffer.store_kind import OpenStore
from streams.kafka.offset_metadata import changelog_mark
from streams.kafka.producing.record_collector import Changelog, RecordCollector
from streams.runtime.engines.custom_stores import open_custom_store
from streams.runtime.engines.store_counters import StoreCounters
from streams.runtime.plan.task_plan import TaskPlan
from streams.runtime.processing.environment import Environment

EngineOpener = Callable[[str, Path, list[str]], Engine]
"""``(engine name, task directory, families)`` to an open engine."""

_Applied = tuple[OpenStore, Changelog | None, bytes, bytes]
"""The parts of a store that a commit writes: its rows, and the offset of its changelog and the time under keys, which
are empty where there are none."""

DRAIN_ROUNDS_MAX = 1000


class TaskStores:
    """Holds the stores of one task. One engine of each name holds all stores that are on such an engine."""

    def __init__(
        self, plan: TaskPlan, task: TaskId, environment: Environment, budget: Budget, open_engine: EngineOpener
    ) -> None:
        self._plan = plan
        self._task = task
        self._environment = environment
        self._budget = budget
        self.engines: dict[str, Engine] = {}
        self.stores: dict[str, OpenStore] = {}
        self.changelogs: dict[str, Changelog] = {}
        self.counters: dict[str, StoreCounters] = {}
        self._of_engine: list[tuple[Engine, list[_Applied], Any, Any]] = []
        """Each engine with what it writes, and its handles of the families of offsets and positions."""
        self._position_keys: dict[TopicPartition, bytes] = {}
        self._marks: frozenset[int] = frozenset()
        self.unfinished: frozenset[str] = frozenset()
        """Stores of which final results were sent on in part before: also their expired rows are restored."""
        self._readers_change = threading.Lock()
        self._readers: WeakValueDictionary[int, OpenStore] = WeakValueDictionary()
        builders = [plan.topology.stores[name] for name in plan.stores]
        try:
            for engine in sorted({builder.supplier.engine for builder in builders}):
                own = [builder for builder in builders if builder.supplier.engine == engine]
                self.engines[engine] = self._open_engine(engine, own, open_engine)
            for builder in builders:
                check_kind(builder, self.engines[builder.supplier.engine])
        except BaseException:
            self.close()
            raise

    def _open_engine(self, name: str, builders: Sequence[StoreBuilder[Any, Any]], open_engine: EngineOpener) -> Engine:
        if isinstance(builders[0].supplier, CustomStoreSupplier):
            partition = self._task.partition
            changelog = self._plan.changelogs.get(builders[0].name)
            return open_custom_store(builders[0], self._environment, changelog, self._plan.partitions(partition))
        return open_engine(name, self._environment.state_dir, [one for each in builders for one in families_of(each)])

    def open(self, collector: RecordCollector, changelog_ends: Mapping[str, int]) -> None:
        """Opens every store on the engines, writing its changelog through ``collector``.

        :param changelog_ends: where the changelog of each store ends; 0 for one that is not given.
        """
        self.stores.clear()
        self.changelogs.clear()
        self._marks = frozenset()
        self._of_engine.clear()
        for name in self._plan.stores:
            builder = self._plan.topology.stores[name]
            self.stores[name] = self._open(builder, collector, changelog_ends.get(name, 0))
        for name, engine in self.engines.items():
            own = [self._applied(store) for store in self.stores.values() if store.builder.supplier.engine == name]
            self._of_engine.append((engine, own, engine.family(OFFSETS).handle, engine.family(POSITIONS).handle))
        self.note_complete(self._plan.stores, self._environment.clock.time_ms())

    def _applied(self, store: OpenStore) -> _Applied:
        changelog = self.changelogs.get(store.builder.name)
        name = store.builder.name
        return store, changelog, self.offset_key(name) if name in self._plan.changelogs else b"", self._time_key(name)

    def _open(self, builder: StoreBuilder, collector: RecordCollector, end: int) -> OpenStore:  # type: ignore[type-arg]
        name = builder.name
        topic = self._plan.changelogs.get(name)
        log = log_many = None
        if topic is not None and name not in self._plan.source_changelogs:
            changelog = self.changelogs[name] = collector.changelog(topic, self._task.partition, end)
            log, log_many = changelog.log, changelog.log_many
            if self._environment.probe is not None:
                log, log_many = self._environment.probe.changelog(name, changelog)
        environment = self._environment
        opened = open_store(
            builder,
            engine=self.engines[builder.supplier.engine],
            cursor=environment.cursor,
            budget=self._budget,
            log=log,
            log_many=log_many,
            log_each=environment.settings.log_each_put,
            drop=environment.drop,
            **self._serdes(builder),
        )
        if environment.settings.registry is None:
            return opened
        counters = self.counters.get(name)
        if counters is None:
            counters = self.counters[name] = StoreCounters(environment.settings.registry, environment.clock.monotonic)
        facade, operator = counters.measured(opened.facade), counters.measured(opened.operator)
        return replace(opened, facade=facade, operator=operator, bare=opened.facade)

    def sample(self) -> None:
        """Samples the counters of the stores, for rates."""
        for counters in self.counters.values():
            counters.sample()

    def _serdes(self, builder: StoreBuilder) -> dict[str, Any]:  # type: ignore[type-arg]
        what, topic = f"store {builder.name!r}", self._plan.changelogs.get(builder.name) or builder.name
        environment = self._environment
        return {
            "key_serde": environment.key_serde(builder.key_serde, what, topic),
            "value_serde": environment.value_serde(builder.value_serde, what, topic),
        }

    def open_reader(self, name: str) -> OpenStore | None:
        """Opens a store as its engine has it now, for a query while the task restores; any thread may call it.

        :returns: the store, which is closed before the engine; ``None`` if the engine is closed.
        :raises StoreError: for a custom store.
        """
        builder = self._plan.topology.stores[name]
        if why := why_unreadable(builder):
            raise StoreError(why, store=name)
        with self._readers_change:
            engine = self.engines.get(builder.supplier.engine)
            if engine is None:
                return None
            found = open_store(
                builder,
                engine=engine,
                cursor=Cursor(),
                budget=Budget(0),
                log=None,
                log_each=False,
                reads_only=True,
                **self._serdes(builder),
            )
            self._readers[id(found)] = found
            return found

    # ------------------------------------------------------------------ positions

    def changelog_marks(self) -> frozenset[int]:
        """Returns the marks of those changelogs that hold records, or have held some."""
        written = [one.topic for one in self.changelogs.values() if one.end]
        if len(written) != len(self._marks):
            self._marks = frozenset(map(changelog_mark, written))
        return self._marks

    def changelog_partitions(self) -> dict[TopicPartition, str]:
        """Returns the changelog partition of each store that has one."""
        partition = self._task.partition
        return {TopicPartition(topic, partition): store for store, topic in self._plan.changelogs.items()}

    def engine_of(self, store: str) -> Engine:
        """Returns the engine that holds a store."""
        return self.engines[self._plan.topology.stores[store].supplier.engine]

    def offset_key(self, store: str) -> bytes:
        """Returns the key of the store's changelog offset.

        A source topic may be the changelog of one store now and of another after an upgrade of the topology, so the key
        names the rows as well there.
        """
        key = offset_key(self._plan.changelogs[store], self._task.partition)
        return self._rows_prefix(store) + key if store in self._plan.source_changelogs else key

    def _time_key(self, store: str) -> bytes:
        """Returns the key of the time as of which a store is complete; empty for a store without such a time.

        Others write into a source topic at any time.
        """
        topic, plan = self._plan.changelogs.get(store), self._plan
        if topic is None or store in plan.source_changelogs or not self.engine_of(store).persistent:
            return b""
        custom = isinstance(plan.topology.stores[store].supplier, CustomStoreSupplier)
        return b"" if custom else complete_at_key(topic)

    def complete_at(self, store: str) -> int | None:
        """Returns the time in ms as of which the store had all of its changelog up to its offset: deletions that were
        written later may be gone from the changelog. ``None`` if that is not known."""
        key = self._time_key(store)
        return read_time(self.engine_of(store).family(OFFSETS).get(key)) if key else None

    def note_complete(self, stores: Iterable[str], time_ms: int) -> None:
        """Notes for stores that they have all of their changelogs as of a time, or are empty and will be filled."""
        for store in stores:
            key, engine = self._time_key(store), self.engine_of(store)
            if key:
                batch = engine.batch()
                batch.put(key, write_time(time_ms), engine.family(OFFSETS).handle)
                engine.write(batch)

    def forget(self, store: str) -> None:
        """Removes a store's offset and then its rows: rows that a crash leaves without an offset are removed later."""
        engine = self.engine_of(store)
        batch = engine.batch()
        batch.delete(self.offset_key(store), engine.family(OFFSETS).handle)
        engine.write(batch)
        self.wipe(store)

    def _rows_prefix(self, store: str) -> bytes:
        return f"{family_of(self._plan.topology.stores[store])}/".encode()

    def stored_offset(self, store: str) -> int | None:
        """Returns the offset of the last changelog record that the store's engine holds."""
        found = self.engine_of(store).family(OFFSETS).get(self.offset_key(store))
        try:
            return None if found is None else read_offset(found)
        except ValueError as error:
            raise DamagedStateError(
                f"the changelog offset of store {store!r} is damaged: {error}; {rebuild_store(store)}",
                path=self._database,
                store=store,
                task=str(self._task),
            ) from error

    def window_time(self, store: str) -> int:
        """Returns the time of a window or session store as of the last commit, which its changelog tells too; -1 if it
        has none. It is earlier while rows are needed that have expired."""
        found = stored_time(self.engine_of(store).family(family_of(self._plan.topology.stores[store])))
        needed = [one.needed_from for one in self.stores[store].participants] if store in self.stores else []
        return NO_TIMESTAMP if found is None else min([found, *(time for time in needed if time is not None)])

    def bind_topic(self, store: str, topic_id: str) -> str | None:
        """Keeps the id of the changelog topic with the store. A store that has rows of another topic is emptied.

        The changelog offset of such a store would mean other records in this topic.

        :returns: that other topic's id; ``None`` if the id is the same, or was not known.
        """
        engine = self.engine_of(store)
        offsets = engine.family(OFFSETS)
        source = store in self._plan.source_changelogs
        key = topic_id_key(self._plan.changelogs[store], self._rows_prefix(store) if source else b"")
        found = offsets.get(key)
        known = None if found is None else found.decode(errors="replace")
        if known == topic_id:
            return None
        batch = engine.batch()
        if known is not None:
            self.wipe(store)  # first: rows that are left after a crash must have the former id
            offsets = engine.family(OFFSETS)
            batch.delete(self.offset_key(store), offsets.handle)
        batch.put(key, topic_id.encode(), offsets.handle)
        engine.write(batch)
        return known

    @property
    def _database(self) -> str:
        return str(self._environment.state_dir / DATABASE)

    def has_rows(self, store: str) -> bool:
        """Whether the store's engine holds anything of it."""
        engine = self.engine_of(store)
        return any(map(engine.holds, families_held(self._plan.topology.stores[store], engine)))

    def start_bulk_load(self, stores: Collection[str]) -> None:
        """Opens engines for bulk loading of long restores that read no rows, until :meth:`finish_bulk_load`."""
        for name, engine in self.engines.items():
            own = [b for b in map(self._plan.topology.stores.__getitem__, stores) if b.supplier.engine == name]
            if own and isinstance(engine, BulkLoading) and all(restores_blindly(builder, engine) for builder in own):
                self._reopen(engine, bulk=True)

    def finish_bulk_load(self) -> None:
        """Opens engines that were loaded in bulk for use, when restores are over."""
        for engine in self.engines.values():
            if isinstance(engine, BulkLoading) and engine.bulk:
                self._reopen(engine, bulk=False)

    def _reopen(self, engine: BulkLoading, *, bulk: bool) -> None:
        with self._readers_change:
            self._close_readers()
            engine.reopen(bulk=bulk)

    def _close_readers(self) -> None:
        for reader in list(self._readers.values()):
            reader.close()

    def wipe(self, store: str) -> None:
        """Removes the store's rows, and before them the keys that name the source topic they are from."""
        engine, prefix = self.engine_of(store), self._rows_prefix(store)
        offsets = engine.family(OFFSETS)
        batch = engine.batch()
        for key in [key for key, _ in offsets.range(prefix, prefix[:-1] + bytes([prefix[-1] + 1]))]:
            batch.delete(key, offsets.handle)
        engine.write(batch)
        engine.clear(families_held(self._plan.topology.stores[store], engine))

    def stored_positions(self) -> dict[str, int]:
        """Returns the input positions of the last commit in the persistent engine, by ``<topic>-<partition>``."""
        found: dict[str, int] = {}
        for engine in self.engines.values():
            found.update(self._positions_in(engine))
        return found

    def _positions_in(self, engine: Engine) -> dict[str, int]:
        found: dict[str, int] = {}
        for key, value in engine.family(POSITIONS).range():
            try:
                found[key.decode()] = read_offset(value)
            except ValueError as error:
                raise DamagedStateError(
                    f"the position of {key.decode(errors='replace')} in the state of task {self._task} is damaged:"
                    f" {error}; {rebuild_task(self._database)}",
                    path=self._database,
                    task=str(self._task),
                ) from error
        return found

    @property
    def all_logged(self) -> bool:
        """Whether every store that is on disk can be restored from a changelog."""
        return all(name in self._plan.changelogs or not self.engine_of(name).persistent for name in self._plan.stores)

    def unlogged_positions(self) -> dict[str, dict[str, int]]:
        """Returns, for each store on disk without a changelog, the input positions of the last commit that it holds."""
        return {
            name: self._positions_in(engine)
            for name in self._plan.stores
            if name not in self._plan.changelogs and (engine := self.engine_of(name)).persistent
        }

    def write_positions(self, store: str, positions: Mapping[TopicPartition, int]) -> None:
        """Writes the input positions from which on the store's engine holds what is consumed."""
        engine = self.engine_of(store)
        batch = engine.batch()
        self._put_positions(batch, engine.family(POSITIONS).handle, positions)
        engine.write(batch)

    def restored_positions(
        self, committed: Mapping[TopicPartition, int], changelog_ends: Mapping[str, int]
    ) -> dict[str, dict[TopicPartition, int]]:
        """Returns, by store, the input offsets before which it holds everything once it is restored.

        That is where the task starts, or further if the engine was written by a commit whose offsets were lost. A store
        that is new, or that nothing restores, has no such offsets.

        :param committed: where the task starts.
        """
        found: dict[str, dict[TopicPartition, int]] = {}
        stored = self.stored_positions()
        for name in self._plan.stores:
            engine = self.engine_of(name)
            if not changelog_ends.get(name) and not engine.holds(family_of(self._plan.topology.stores[name])):
                continue
            ahead = stored if engine.persistent else {}
            found[name] = {one: max(offset, ahead.get(str(one), 0)) for one, offset in committed.items()}
        return found

    # ------------------------------------------------------------------ commit

    def drain(self) -> None:
        """Logs what was put, and forwards what the caches hold back, in topological order, until they are empty."""
        stores = self.stores.values()
        for _ in range(DRAIN_ROUNDS_MAX):
            drained = False
            for store in stores:
                drained = store.drain() or drained
            if not drained:
                return
        raise InternalError(
            f"caches were not empty after {DRAIN_ROUNDS_MAX} rounds: does a table feed itself without end?",
            task=str(self._task),
        )

    def hold_changes(self) -> None:
        """Keeps what is logged from now on until :meth:`log_held_changes`."""
        for changelog in self.changelogs.values():
            changelog.hold()

    def log_held_changes(self) -> bool:
        """Sends what was kept to the changelogs; returns whether there was anything."""
        sent = [changelog.send_held() for changelog in self.changelogs.values()]
        return any(sent)

    def apply(self, positions: Mapping[TopicPartition, int]) -> None:
        """Writes what was drained to the engines, each with its changelog offsets and the input positions."""
        now, counters = self._environment.clock.monotonic, self.counters
        for engine, stores, offsets_handle, positions_handle in self._of_engine:
            pending = [store for store, _, _, _ in stores if store.pending]
            if not pending and not (positions and self._has_unlogged_store(engine, stores)):
                continue
            begin = now() if counters else 0.0
            batch = engine.batch()
            time = write_time(self._environment.clock.time_ms())
            for store, changelog, key, time_key in stores:
                store.apply(batch)
                if time_key:
                    batch.put(time_key, time, offsets_handle)
                if changelog is not None and (offset := changelog.offset) is not None:
                    batch.put(key, write_offset(offset), offsets_handle)
                elif key and (position := self._source_position(store.builder.name, positions)) is not None:
                    batch.put(key, write_offset(position - 1), offsets_handle)
            if positions and engine.persistent:
                self._put_positions(batch, positions_handle, positions)
            engine.write(batch)
            for store, _, _, _ in stores:
                store.applied()
            if counters:
                seconds = now() - begin
                for store in pending:
                    counters[store.builder.name].committed(seconds)

    @staticmethod
    def _has_unlogged_store(engine: Engine, stores: Sequence[_Applied]) -> bool:
        """Whether there is a store on disk without a changelog: its positions must be written exactly."""
        return engine.persistent and any(not key for _, _, key, _ in stores)

    def _source_position(self, store: str, positions: Mapping[TopicPartition, int]) -> int | None:
        """Returns up to where a store holds the source topic that is its changelog."""
        if store not in self._plan.source_changelogs:
            return None
        return positions.get(TopicPartition(self._plan.changelogs[store], self._task.partition))

    def _put_positions(self, batch: Batch, handle: Any, positions: Mapping[TopicPartition, int]) -> None:
        keys = self._position_keys
        for partition, position in positions.items():
            key = keys.get(partition)
            if key is None:
                key = keys[partition] = offset_key(*partition)
            batch.put(key, write_offset(position), handle)

    def transaction_committed(self) -> None:
        """Notes that a transaction was committed; to be called after :meth:`apply`."""
        for changelog in self.changelogs.values():
            changelog.transaction_committed()

    def drop_uncommitted(self) -> None:
        """Drops everything that the engines do not hold, and closes the stores; the engines remain open."""
        for store in self.stores.values():
            store.close()
        self.stores.clear()
        self.changelogs.clear()
        self._of_engine.clear()

    def close(self) -> None:
        """Closes stores and engines."""
        self.drop_uncommitted()
        with self._readers_change:
            engines, self.engines = self.engines, {}
            self._close_readers()
        for engine in engines.values():
            engine.close()
