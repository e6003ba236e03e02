"""The stores of one task: engines, changelogs, and the steps of a commit that concern them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from pathlib import Path

from processor_api.errors import InternalError
from processor_api.store_spec import MEMORY, StoreBuilder
from processor_api.task_id import TaskId, TopicPartition
from state.budget import Budget
from state.engine import OFFSETS, POSITIONS, Engine
from state.kinds import OpenStore, family_of, open_store
from streams.kafka.record_collector import Changelog, RecordCollector
from streams.runtime.environment import Environment
from streams.runtime.task_plan import TaskPlan

__all__ = ["EngineOpener", "TaskStores"]

EngineOpener = Callable[[str, Path, list[str]], Engine]
"""``(engine name, task directory, families)`` to an open engine."""

OFFSET = struct.Struct(">q")
DRAIN_ROUNDS_MAX = 1000


class TaskStores:
    """Opened with a task. One engine of each name holds all of the task's stores on it."""

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
        builders = [plan.topology.stores[name] for name in plan.stores]
        for engine in sorted({builder.supplier.engine for builder in builders}):
            families = [family_of(builder) for builder in builders if builder.supplier.engine == engine]
            self.engines[engine] = open_engine(engine, environment.state_dir, families)

    def open(self, collector: RecordCollector, changelog_ends: Mapping[str, int]) -> None:
        """Opens every store on the engines, writing its changelog through ``collector``.

        :param changelog_ends: where the changelog of each store ends; 0 if it is not told.
        """
        self.stores.clear()
        self.changelogs.clear()
        for name in self._plan.stores:
            builder = self._plan.topology.stores[name]
            self.stores[name] = self._open(builder, collector, changelog_ends.get(name, 0))

    def _open(self, builder: StoreBuilder, collector: RecordCollector, end: int) -> OpenStore:  # type: ignore[type-arg]
        name = builder.name
        topic = self._plan.changelogs.get(name)
        log = None
        if topic is not None and name not in self._plan.source_changelogs:
            changelog = self.changelogs[name] = collector.changelog(topic, self._task.partition, end)
            log = changelog.log
        what = f"store {name!r}"
        environment = self._environment
        return open_store(
            builder,
            engine=self.engines[builder.supplier.engine],
            cursor=environment.cursor,
            budget=self._budget,
            log=log,
            log_each=environment.log_each_put,
            key_serde=environment.key_serde(builder.key_serde, what, topic or name),
            value_serde=environment.value_serde(builder.value_serde, what, topic or name),
            drop=environment.drop,
        )

    # ------------------------------------------------------------------ positions

    def changelog_partitions(self) -> dict[TopicPartition, str]:
        """The changelog partition of each store that has one."""
        partition = self._task.partition
        return {TopicPartition(topic, partition): store for store, topic in self._plan.changelogs.items()}

    def engine_of(self, store: str) -> Engine:
        return self.engines[self._plan.topology.stores[store].supplier.engine]

    def stored_offset(self, store: str) -> int | None:
        """Offset of the last changelog record that the store's engine holds."""
        key = f"{self._plan.changelogs[store]}-{self._task.partition}".encode()
        found = self.engine_of(store).family(OFFSETS).get(key)
        return None if found is None else OFFSET.unpack(found)[0]

    def stored_positions(self) -> dict[str, int]:
        """Input positions at the last commit that the persistent engine holds, by ``<topic>-<partition>``."""
        found: dict[str, int] = {}
        for engine in self.engines.values():
            for key, value in engine.family(POSITIONS).range():
                found[key.decode()] = OFFSET.unpack(value)[0]
        return found

    # ------------------------------------------------------------------ commit

    def drain(self) -> None:
        """Logs what was put, and forwards what the caches hold back, in topological order, until nothing is left."""
        stores = list(self.stores.values())
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

    def apply(self, positions: Mapping[TopicPartition, int]) -> None:
        """Writes what was drained to the engines, each with its changelog offsets and the input positions."""
        for name, engine in self.engines.items():
            stores = [store for store in self.stores.values() if store.builder.supplier.engine == name]
            if not any(store.pending for store in stores):
                continue
            batch = engine.batch()
            offsets = engine.family(OFFSETS)
            for store in stores:
                store.apply(batch)
                changelog = self.changelogs.get(store.builder.name)
                if changelog is not None and changelog.offset is not None:
                    key = f"{changelog.topic}-{changelog.partition}".encode()
                    batch.put(key, OFFSET.pack(changelog.offset), offsets.handle)
            if name != MEMORY:
                handle = engine.family(POSITIONS).handle
                for partition, position in positions.items():
                    batch.put(str(partition).encode(), OFFSET.pack(position), handle)
            engine.write(batch)
            for store in stores:
                store.applied()

    def transaction_committed(self) -> None:
        """Call it after :meth:`apply`, where the commit was one of a transaction."""
        for changelog in self.changelogs.values():
            changelog.transaction_committed()

    def drop_uncommitted(self) -> None:
        """Forgets everything the engines do not hold, and closes the stores; the engines stay open."""
        for store in self.stores.values():
            store.close()
        self.stores.clear()
        self.changelogs.clear()

    def close(self) -> None:
        """Closes stores and engines."""
        self.drop_uncommitted()
        engines, self.engines = self.engines, {}
        for engine in engines.values():
            engine.close()
