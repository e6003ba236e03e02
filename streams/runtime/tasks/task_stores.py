"""The stores of one task: engines, changelogs, and the steps of a commit that concern them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from processor_api.errors import InternalError, StoreError
from processor_api.record import NO_TIMESTAMP
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.suppliers import CustomStoreSupplier
from processor_api.task_id import TopicPartition
from state.engine.port import OFFSETS, POSITIONS, BulkLoading, Checkpointing, Engine
from state.formats.offsets import write_offset, write_point, write_time
from state.read_views.view import why_unreadable
from state.registry.kinds import check_kind, families_of, family_of, open_store, restores_blindly
from state.row_format.record_context import Cursor
from state.windowed.segments import stored_time, time_name
from state.write_buffer.memory_budget import Budget
from state.write_buffer.store_kind import CommitParticipant, OpenStore
from streams.kafka.offset_metadata import ChangelogId, LogPoint, SchemaMark, changelog_mark
from streams.kafka.producing.record_collector import Changelog, RecordCollector
from streams.runtime.engines.opener import open_custom_store
from streams.runtime.engines.store_counters import OPERATOR_CALLS, StoreCounters
from streams.runtime.plan.task_plan import TaskPlan
from streams.runtime.processing.environment import Environment
from streams.runtime.tasks.stored_progress import StoredProgress, StorePositions

EngineOpener = Callable[[str, Path, list[str]], Engine]
"""``(engine name, task directory, families)`` to an open engine."""


class _Applied(NamedTuple):
    """The parts of a store that a commit writes. A key is empty where there is nothing to be written under it."""

    store: OpenStore
    changelog: Changelog | None
    offset_key: bytes
    """That of the offset of the changelog."""
    point_key: bytes
    """That of a record of the changelog, with the epoch of its leader."""
    last_key: bytes
    """That of the last record, with the epoch of the leader before it was logged."""
    time_key: bytes


T = TypeVar("T")

DRAIN_ROUNDS_MAX = 1000
HELD_BYTES = 200
"""Memory of a record that waits to be logged; its bytes are those of the row that waits, where it is the last one."""


class TaskChangelogs:
    """Holds the changelogs that the stores of a task write; a source topic that serves as one is not written."""

    def __init__(self) -> None:
        self.by_store: dict[str, Changelog] = {}
        self._marks: frozenset[int] = frozenset()
        self._ids: tuple[frozenset[int], Mapping[str, str], frozenset[ChangelogId]] = frozenset(), {}, frozenset()
        """The ids of changelogs, behind what they were made of."""
        self.leaders: Mapping[str, int] = {}
        """The epoch of the leader of each, by topic, where it is known: it had the last record that was applied."""
        self.schemas: frozenset[SchemaMark] = frozenset()
        """The schemas of the rows of the stores, which are committed with the offsets of the inputs."""

    def clear(self) -> None:
        """Forgets the changelogs, with what they hold back."""
        self.by_store.clear()
        self._marks = frozenset()

    def marks(self) -> frozenset[int]:
        """Returns the marks of those that hold records, or have held some."""
        written = [one.topic for one in self.by_store.values() if one.end]
        # Changelogs that hold records only become more: an equal number means the same ones.
        if len(written) != len(self._marks):
            self._marks = frozenset(map(changelog_mark, written))
        return self._marks

    def ids(self, topic_ids: Mapping[str, str]) -> frozenset[ChangelogId]:
        """Returns the ids of those that hold records.

        :param topic_ids: of the topics of the task, as far as they are known; another mapping when one has changed.
        """
        marks, (of_marks, of_ids, found) = self.marks(), self._ids
        if of_marks is not marks or of_ids is not topic_ids:
            written = [one.topic for one in self.by_store.values() if one.end and one.topic in topic_ids]
            found = frozenset(ChangelogId.of(topic, topic_ids[topic]) for topic in written)
            self._ids = marks, topic_ids, found
        return found

    def held_bytes(self) -> int:
        """Returns about how much memory the records take that wait for :meth:`send_held`."""
        return HELD_BYTES * sum(len(changelog.held or ()) for changelog in self.by_store.values())

    def send_held(self) -> bool:
        """Sends what was kept; returns whether there was anything."""
        sent = [changelog.send_held() for changelog in self.by_store.values()]
        return any(sent)

    def transaction_committed(self) -> None:
        """Notes that a transaction was committed; to be called after :meth:`TaskStores.apply`."""
        for changelog in self.by_store.values():
            changelog.transaction_committed()


def _time_of(participant: CommitParticipant) -> int:
    time = participant.time
    return NO_TIMESTAMP if time is None else time


class StoreTime(NamedTuple):
    """The times of a store whose rows expire, as of the offsets at which its task starts.

    The store may be ahead of them: the records behind them are processed again."""

    observed: int
    """The stream time of its operator, or its own."""
    needed: int
    """Rows that had not expired at this time are needed."""
    is_unfinished: bool = False
    """Whether some of its final results have left and others are left."""


class _StoreReaders:
    """Holds the stores that queries have opened while the task restores; they are closed before their engine."""

    def __init__(self) -> None:
        self.change = threading.Lock()
        """Held while readers are opened or closed, and while engines are."""
        self._opened: WeakValueDictionary[int, OpenStore] = WeakValueDictionary()

    def add(self, reader: OpenStore) -> None:
        """Takes a store that was opened."""
        self._opened[id(reader)] = reader

    def close(self) -> None:
        """Closes all that are in use."""
        for reader in list(self._opened.values()):
            reader.close()


class TaskStores:
    """Holds the stores of one task. One engine of each name holds all stores that are on such an engine."""

    def __init__(self, plan: TaskPlan, environment: Environment, budget: Budget, open_engine: EngineOpener) -> None:
        self._plan = plan
        self._environment = environment
        self._budget = budget
        self.engines: dict[str, Engine] = {}
        self.stores: dict[str, OpenStore] = {}
        self.changelogs = TaskChangelogs()
        self.counters: dict[str, StoreCounters] = {}
        self._of_engine: list[tuple[Engine, list[_Applied], Any, Any]] = []
        """Each engine with what it writes, and its handles of the families of offsets and positions."""
        self.positions = StorePositions()
        self.progress = StoredProgress(plan, environment.task_id, self.engines, environment.state_dir)
        self.times: Mapping[str, StoreTime] = {}
        """The times of those stores whose rows expire, as of the offsets at which the task starts, where known."""
        self._readers = _StoreReaders()
        builders = [plan.topology.stores[name] for name in plan.stores]
        if builders:  # asked at each turn of the thread
            budget.reports.append(self.changelogs.held_bytes)
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
            partition = self._environment.task_id.partition
            changelog = self._plan.changelogs.get(builders[0].name)
            return open_custom_store(builders[0], self._environment, changelog, self._plan.partitions(partition))
        return open_engine(name, self._environment.state_dir, [one for each in builders for one in families_of(each)])

    def open(self, collector: RecordCollector, changelog_ends: Mapping[str, int]) -> None:
        """Opens every store on the engines, writing its changelog through ``collector``.

        :param changelog_ends: where the changelog of each store ends; 0 for one that is not given.
        """
        self.stores.clear()
        self.changelogs.clear()
        self._of_engine.clear()
        for name in self._plan.stores:
            builder = self._plan.topology.stores[name]
            self.stores[name] = self._open(builder, collector, changelog_ends.get(name, 0))
        for name, engine in self.engines.items():
            own = [self._applied(store) for store in self.stores.values() if store.builder.supplier.engine == name]
            self._of_engine.append((engine, own, engine.family(OFFSETS).handle, engine.family(POSITIONS).handle))
        self.progress.note_complete(self._plan.stores, self._environment.clock.time_ms())
        self.note_leaders()

    def _applied(self, store: OpenStore) -> _Applied:
        name = store.builder.name
        key = self.progress.offset_key(name) if name in self._plan.changelogs else b""
        changelog, progress = self.changelogs.by_store.get(name), self.progress
        points = progress.point_key(name), progress.last_logged_key(name)
        return _Applied(store, changelog, key, *points, progress.time_key(name))

    def _open(self, builder: StoreBuilder, collector: RecordCollector, end: int) -> OpenStore:
        name, environment = builder.name, self._environment
        topic = self._plan.changelogs.get(name)
        log = log_many = None
        if topic is not None and name not in self._plan.source_changelogs:
            changelog = collector.changelog(topic, environment.task_id.partition, end)
            self.changelogs.by_store[name] = changelog
            log, log_many = changelog.log, changelog.log_many
            if environment.probe is not None:
                log, log_many = environment.probe.changelog(name, changelog)
        counters = self._counters(name)
        opened = open_store(
            builder,
            engine=self.engines[builder.supplier.engine],
            cursor=environment.cursor,
            budget=self._budget,
            log=log,
            log_many=log_many,
            log_each=environment.settings.log_each_put,
            drop=environment.dropping_by_store(builder, self._nodes_with(name)),
            reads=None if counters is None else counters.reads,
            **self.serdes_of(builder),
        )
        if name in self.times:
            for one in opened.participants:
                one.go_back(self.times[name].observed)
        if counters is None:
            return opened
        facade, operator = counters.measured(opened.facade), counters.measured(opened.operator, OPERATOR_CALLS)
        return replace(opened, facade=facade, operator=operator, bare=opened.facade)

    def _counters(self, store: str) -> StoreCounters | None:
        """Returns the counters of a store, which continue when it is opened again; ``None`` where nothing is
        measured."""
        registry = self._environment.settings.registry
        found = self.counters.get(store)
        if found is None and registry is not None:
            found = self.counters[store] = StoreCounters(registry, self._environment.clock.monotonic)
        return found

    def keep_times(self) -> None:
        """Has commits keep the times of those stores of which no operator keeps one."""
        for name in self._plan.expiring_stores:
            for one in self.stores[name].participants:
                if one.time is not None:
                    self._environment.operators.times.keep_of_store(time_name(name), partial(_time_of, one))

    def _nodes_with(self, store: str) -> list[str]:
        topology = self._plan.topology
        return [node for node in topology.nodes if store in topology.stores_of(node)]

    def sample(self) -> None:
        """Samples the counters of the stores, for rates."""
        for counters in self.counters.values():
            counters.sample()

    def serdes_of(self, builder: StoreBuilder) -> dict[str, Any]:
        """Returns the serdes with which a store of the task is opened, by the name of their part."""
        return {part: serde.inside() for part, serde in self.record_serdes_of(builder).items()}

    def record_serdes_of(self, builder: StoreBuilder) -> dict[str, Any]:
        """Returns the serdes of the records that are the rows of a store, if a source topic is its changelog."""
        return self._environment.store_serdes(builder, self._plan.changelogs.get(builder.name) or builder.name)

    def open_reader(self, name: str) -> OpenStore | None:
        """Opens a store as its engine has it now, for a query while the task restores; any thread may call it.

        :returns: the store, which is closed before the engine; ``None`` if the engine is closed.
        :raises StoreError: for a custom store.
        """
        builder = self._plan.topology.stores[name]
        if why := why_unreadable(builder):
            raise StoreError(why, store=name)
        with self._readers.change:
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
                **self.serdes_of(builder),
            )
            self._readers.add(found)
            return found

    # ------------------------------------------------------------------ restore

    def changelog_partitions(self) -> dict[TopicPartition, str]:
        """Returns the changelog partition of each store that has one."""
        partition = self._environment.task_id.partition
        return {TopicPartition(topic, partition): store for store, topic in self._plan.changelogs.items()}

    def window_time(self, store: str) -> int:
        """Returns the time of a window or session store as of the last commit, which its changelog tells too; -1 if it
        has none. It is earlier while rows are needed that have expired."""
        found = stored_time(self.progress.engine_of(store).family(family_of(self._plan.topology.stores[store])))
        needed = [one.needed_from for one in self.stores[store].participants] if store in self.stores else []
        return NO_TIMESTAMP if found is None else min([found, *(time for time in needed if time is not None)])

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

    def take_over(self, engine: Checkpointing, directory: Path) -> Exception | None:
        """Puts the files of a snapshot in the place of an engine without rows.

        :returns: the error if they cannot be opened, or are not of the stores that the task has: then the engine is
            without rows again.
        :raises StateError: if the engine cannot be opened at all.
        """
        with self._readers.change:
            self._readers.close()
            try:
                engine.take_over(directory)
                for builder in map(self._plan.topology.stores.__getitem__, self._plan.stores):
                    check_kind(builder, self.engines[builder.supplier.engine])
            except Exception as error:
                engine.take_over(None)
                return error
            return None

    def _reopen(self, engine: BulkLoading, *, bulk: bool) -> None:
        with self._readers.change:
            self._readers.close()
            engine.reopen(bulk=bulk)

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
            f"caches were not empty after {DRAIN_ROUNDS_MAX} rounds: check whether a table feeds itself endlessly",
            task=str(self._environment.task_id),
        )

    def apply(
        self, positions: Mapping[TopicPartition, int], points: Mapping[TopicPartition, LogPoint] = MappingProxyType({})
    ) -> None:
        """Writes what was drained to the engines, each with its changelog offsets and the input positions.

        :param points: records before the positions, with the epochs of their leaders, where these are known.
        """
        leaders = self.changelogs.leaders
        now, counters = self._environment.clock.monotonic, self.counters
        for engine, stores, offsets_handle, positions_handle in self._of_engine:
            pending = [one.store for one in stores if one.store.pending]
            # Positions are written also if no store has changed: they show that the stores lack nothing.
            if not pending and not (positions and engine.persistent):
                continue
            begin = now() if counters else 0.0
            batch, points_noted = engine.batch(), list[tuple[Changelog, LogPoint]]()
            time = write_time(self._environment.clock.time_ms())
            for store, changelog, key, point_key, last_key, time_key in stores:
                store.apply(batch)
                if time_key:
                    batch.put(time_key, time, offsets_handle)
                if changelog is not None and (offset := changelog.offset) is not None:
                    batch.put(key, write_offset(offset), offsets_handle)
                    if point_key and (noted := changelog.point_to_note(leaders)) is not None:
                        points_noted.append((changelog, noted))
                        batch.put(point_key, write_point(*noted), offsets_handle)
                    if last_key and offset > changelog.applied and (epoch := leaders.get(changelog.topic)) is not None:
                        batch.put(last_key, write_point(offset, epoch), offsets_handle)
                elif key and (position := self._of_source(store.builder.name, positions)) is not None:
                    batch.put(key, write_offset(position - 1), offsets_handle)
                    if point_key and (point := self._of_source(store.builder.name, points)) is not None:
                        batch.put(point_key, write_point(*point), offsets_handle)
            if positions and engine.persistent:
                self.progress.put_positions(batch, positions_handle, positions)
            engine.write(batch)
            for one in stores:
                one.store.applied()
                if one.changelog is not None:
                    one.changelog.was_applied()
            for changelog, noted in points_noted:
                changelog.point = noted
            if counters:
                seconds = now() - begin
                for store in pending:
                    counters[store.builder.name].committed(seconds)

    def note_leaders(self) -> None:
        """Writes to the engines that the leaders of now have all that was applied."""
        for engine, stores, offsets_handle, _ in self._of_engine:
            batch, found = engine.batch(), list[tuple[Changelog, LogPoint]]()
            for one in stores:
                noted = None if one.changelog is None else one.changelog.point_to_note(self.changelogs.leaders)
                if one.changelog is not None and one.point_key and noted is not None:
                    batch.put(one.point_key, write_point(*noted), offsets_handle)
                    batch.delete(one.last_key, offsets_handle)
                    found.append((one.changelog, noted))
            if found:
                engine.write(batch)
            for changelog, noted in found:
                changelog.point = noted

    def commit_ended(self) -> None:
        """Tells the stores whose times are known that what :meth:`apply` wrote is committed."""
        for name in self.times:
            for one in self.stores[name].participants:
                one.commit_ended()

    def _of_source(self, store: str, values: Mapping[TopicPartition, T]) -> T | None:
        """Returns what is known of the source topic that is the changelog of a store; ``None`` for other stores."""
        if store not in self._plan.source_changelogs:
            return None
        return values.get(TopicPartition(self._plan.changelogs[store], self._environment.task_id.partition))

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
        if self.changelogs.held_bytes in self._budget.reports:
            self._budget.reports.remove(self.changelogs.held_bytes)
        with self._readers.change:
            engines = list(self.engines.values())
            self.engines.clear()
            self._readers.close()
        for engine in engines:
            engine.close()
