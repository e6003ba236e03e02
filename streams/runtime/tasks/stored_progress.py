"""The progress of a task's stores: in their changelogs, and in the inputs of the task.

Nothing is done for each record. A store holds every record that the task has processed, and queues know that position
at the end of a batch at the latest. So a position that is read before the store is too low rather than too high. What a
commit brought to the engines is noted when it is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from processor_api.errors import DamagedStateError
from processor_api.record import NO_TIMESTAMP
from processor_api.stores.suppliers import CustomStoreSupplier
from processor_api.task_id import TaskId, TopicPartition
from processor_api.texts import kind_and_text
from state.directory.metadata import DATABASE
from state.engine.port import OFFSETS, POSITIONS, Batch, Engine
from state.engine.repair_hints import rebuild_store, rebuild_task
from state.formats.keys import after_prefix
from state.formats.offsets import (
    complete_at_key,
    last_logged_key,
    offset_key,
    passed_key,
    point_key,
    read_offset,
    read_point,
    read_time,
    rebuilt_key,
    schemas_key,
    topic_id_key,
    write_offset,
    write_point,
    write_time,
)
from state.registry.kinds import families_held, family_of, family_reader
from state.windowed.segments import stored_time
from state.write_buffer.stored_rows import StoredRow
from streams.kafka.offset_metadata import LogPoint, TopicPartitionMetadata
from streams.kafka.ports import OffsetAndMetadata
from streams.runtime.plan.task_plan import TaskPlan
from streams.runtime.processing.inputs import InputQueue

Offsets = Mapping[TopicPartition, int]
"""The next offset of each input partition."""

_NOTHING: Offsets = MappingProxyType({})


class StorePositions:
    """Holds the input positions of a task's stores. Written by the task's thread, read by any."""

    def __init__(self) -> None:
        self._starts: Mapping[str, Offsets] = {}
        self._committed: Offsets = _NOTHING

    def start(self, starts: Mapping[str, Offsets]) -> None:
        """Sets the offsets before which each store holds everything, when the task starts to run."""
        self._starts, self._committed = starts, _NOTHING

    def stop(self) -> None:
        """Forgets all positions: what was not committed is gone, and the stores may be restored."""
        self._starts, self._committed = {}, _NOTHING

    def note_commit(self, positions: Offsets) -> None:
        """Sets the offsets before which the engines hold everything; the mapping must no longer change."""
        self._committed = positions

    def committed(self, store: str) -> dict[TopicPartition, int]:
        """Returns up to where the store's engine has its inputs."""
        return _further(self._starts.get(store, _NOTHING), self._committed)

    def uncommitted(self, store: str, queues: Mapping[TopicPartition, InputQueue]) -> dict[TopicPartition, int]:
        """Returns up to where the store has its inputs, with what waits for a commit."""
        moved = {one: at for one, queue in list(queues.items()) if (at := queue.position) is not None}
        return _further(self._starts.get(store, _NOTHING), moved)


def _further(starts: Offsets, moved: Offsets) -> dict[TopicPartition, int]:
    """Returns the higher offset of each input: after a crash, a store may be ahead of the task."""
    return {**starts, **{one: max(offset, starts.get(one, 0)) for one, offset in moved.items()}}


class StoredProgress:
    """Reads and writes what the engines of a task keep beside the rows of its stores: the changelog offset of each, the
    id of that topic, a record of it with the epoch of its leader, the time as of which it is complete, and the input
    positions of the last commit.

    :param engines: those of the task, by name.
    :param state_dir: the directory of the task.
    """

    def __init__(self, plan: TaskPlan, task: TaskId, engines: Mapping[str, Engine], state_dir: Path) -> None:
        self._plan = plan
        self._task = task
        self._engines = engines
        self._database = str(state_dir / DATABASE)
        self._position_keys: dict[TopicPartition, bytes] = {}
        self.truncated: dict[str, int] = {}
        """The stores that hold records which their changelogs have lost, each with the first offset whose record is
        another one now."""

    def engine_of(self, store: str) -> Engine:
        """Returns the engine that holds a store."""
        return self._engines[self._plan.topology.stores[store].supplier.engine]

    def offset_key(self, store: str) -> bytes:
        """Returns the key of the store's changelog offset.

        A source topic may be the changelog of one store now and of another after an upgrade of the topology, so the key
        names the rows as well there.
        """
        key = offset_key(self._plan.changelogs[store], self._task.partition)
        return self._rows_prefix(store) + key if store in self._plan.source_changelogs else key

    def point_key(self, store: str) -> bytes:
        """Returns the key of the record by which a truncated changelog is noticed; empty for a store without one, as
        custom stores, which keep offsets alone."""
        topic = self._plan.changelogs.get(store)
        if topic is None or isinstance(self._plan.topology.stores[store].supplier, CustomStoreSupplier):
            return b""
        return point_key(topic, self._rows_prefix(store) if store in self._plan.source_changelogs else b"")

    def stored_point(self, store: str) -> LogPoint | None:
        """Returns a record that the changelog had when the engine was written; ``None`` if none is known."""
        key = self.point_key(store)
        found = read_point(self.engine_of(store).family(OFFSETS).get(key)) if key else None
        return None if found is None else LogPoint(*found)

    def last_logged_key(self, store: str) -> bytes:
        """Returns the key of the last record that the store has logged; empty where no point is kept, or others write
        the changelog."""
        is_kept = self.point_key(store) and store not in self._plan.source_changelogs
        return last_logged_key(self._plan.changelogs[store]) if is_kept else b""

    def last_logged(self, store: str) -> LogPoint | None:
        """Returns the last record that the store has logged, with the epoch of the leader before it was: the record may
        be of the next one. ``None`` if a later commit or start knows which leader has it."""
        key = self.last_logged_key(store)
        found = read_point(self.engine_of(store).family(OFFSETS).get(key)) if key else None
        return None if found is None else LogPoint(*found)

    def time_key(self, store: str) -> bytes:
        """Returns the key of the time as of which a store is complete; empty for a store without such a time.

        Others write into a source topic at any time.
        """
        topic, plan = self._plan.changelogs.get(store), self._plan
        if topic is None or store in plan.source_changelogs:
            return b""
        custom = isinstance(plan.topology.stores[store].supplier, CustomStoreSupplier)
        return b"" if custom else complete_at_key(topic)

    def complete_at(self, store: str) -> int | None:
        """Returns the time in ms as of which the store had all of its changelog up to its offset: deletions that were
        written later may be gone from the changelog. ``None`` if that is not known."""
        key = self.time_key(store)
        return read_time(self.engine_of(store).family(OFFSETS).get(key)) if key else None

    def note_complete(self, stores: Iterable[str], time_ms: int, *, is_filled: bool = True) -> None:
        """Notes for stores that they have all of their changelogs as of a time.

        :param is_filled: ``False`` if they are empty as of that time and will be filled.
        """
        for store in stores:
            key, engine = self.time_key(store), self.engine_of(store)
            if key:
                batch, handle = engine.batch(), engine.family(OFFSETS).handle
                batch.put(key, write_time(time_ms), handle)
                if is_filled:
                    for note in (self._rebuilt_key(store), self._passed_key(store)):
                        batch.delete(note, handle)
                engine.write(batch)

    def forget(self, store: str) -> None:
        """Removes a store's offset and then its rows: rows that a crash leaves without an offset are removed later."""
        engine = self.engine_of(store)
        batch = engine.batch()
        self._delete_offset(store, batch, engine.family(OFFSETS).handle)
        engine.write(batch)
        self.wipe(store)

    def _delete_offset(self, store: str, batch: Batch, handle: Any) -> None:
        """Deletes what says which records of its changelog a store has."""
        batch.delete(self.offset_key(store), handle)
        for key in (self.point_key(store), self.last_logged_key(store)):
            if key:
                batch.delete(key, handle)

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

    def bind_topic(self, store: str, topic_id: str) -> str | None:
        """Keeps the id of the changelog topic with the store. A store that has rows of another topic is emptied.

        The changelog offset of such a store would mean other records in this topic.

        :returns: that other topic's id; ``None`` if the id is the same, or was not known.
        """
        engine = self.engine_of(store)
        offsets, key = engine.family(OFFSETS), self._topic_id_key(store)
        known = self.topic_id(store)
        if known == topic_id:
            return None
        batch = engine.batch()
        if known is not None:
            self.wipe(store)  # first: rows that are left after a crash must have the former id
            offsets = engine.family(OFFSETS)
            self._delete_offset(store, batch, offsets.handle)
        batch.put(key, topic_id.encode(), offsets.handle)
        engine.write(batch)
        return known

    def topic_id(self, store: str) -> str | None:
        """Returns the id of the changelog topic that the store's rows are of; ``None`` if none is known."""
        found = self.engine_of(store).family(OFFSETS).get(self._topic_id_key(store))
        return None if found is None else found.decode(errors="replace")

    def _topic_id_key(self, store: str) -> bytes:
        source = store in self._plan.source_changelogs
        return topic_id_key(self._plan.changelogs[store], self._rows_prefix(store) if source else b"")

    def bind_written(self, store: str, topic_id: str | None, offset: int, leader_epoch: int | None) -> None:
        """Notes that all rows of the store are in the changelog up to an offset.

        :param topic_id: the id of that topic; ``None`` if the cluster gives none.
        :param leader_epoch: that of a leader that has them; ``None`` if it is not known.
        """
        engine = self.engine_of(store)
        batch, handle = engine.batch(), engine.family(OFFSETS).handle
        if topic_id is not None:
            batch.put(topic_id_key(self._plan.changelogs[store]), topic_id.encode(), handle)
        self._delete_offset(store, batch, handle)
        batch.put(self.offset_key(store), write_offset(offset), handle)
        if leader_epoch is not None and (key := self.point_key(store)):
            batch.put(key, write_point(offset, leader_epoch), handle)
        engine.write(batch)

    def _rebuilt_key(self, store: str) -> bytes:
        return rebuilt_key(family_of(self._plan.topology.stores[store]))

    def _passed_key(self, store: str) -> bytes:
        return passed_key(family_of(self._plan.topology.stores[store]))

    def note_passed(self, store: str, time: int) -> None:
        """Notes of an empty store that it is filled from a later record than the first one of its changelog.

        :param time: the stream time in ms that it must have when it is filled: otherwise the records that were passed
            over may have rows that it lacks.
        """
        engine = self.engine_of(store)
        batch = engine.batch()
        batch.put(self._passed_key(store), write_time(time), engine.family(OFFSETS).handle)
        engine.write(batch)

    def reaches_noted_time(self, store: str) -> bool:
        """Whether the rows of a store, which has all of its changelog from its start on, lack none of the records that
        were passed over; ``True`` if none were."""
        if isinstance(self._plan.topology.stores[store].supplier, CustomStoreSupplier):
            return True
        engine = self.engine_of(store)
        row = engine.family(OFFSETS).get(self._passed_key(store))
        if row is None:
            return True
        least, time = read_time(row), stored_time(engine.family(family_of(self._plan.topology.stores[store])))
        return least is not None and time is not None and time >= least

    def is_complete_at(self, store: str, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> bool:
        """Whether the rows of a store on disk hold everything up to committed offsets, as its own notes show.

        A store that is being filled, one whose last commit was killed before it reached the disk, and one that ran
        elsewhere since are not.
        """
        engine = self.engine_of(store)
        if not engine.persistent or isinstance(self._plan.topology.stores[store].supplier, CustomStoreSupplier):
            return False
        if engine.family(OFFSETS).get(self._rebuilt_key(store)) is not None:
            return False
        positions = self._positions_in(engine)
        for name, one in committed.items():
            position = positions.get(str(name))
            if position is None:
                if TopicPartitionMetadata.decode(one.metadata).partition_time != NO_TIMESTAMP:
                    return False  # a record of the partition was processed, but not with this state
            elif position < one.offset:
                return False
        return bool(positions)

    def has_rows(self, store: str) -> bool:
        """Whether the store's engine holds anything of it."""
        engine = self.engine_of(store)
        return any(map(engine.holds, families_held(self._plan.topology.stores[store], engine)))

    def rows(self, store: str) -> Iterator[StoredRow]:
        """Yields the rows of a store as they stand; none of a kind whose rows are read by its stores alone.

        :raises DamagedStateError: if one does not belong to its family.
        """
        engine = self.engine_of(store)
        for family in families_held(self._plan.topology.stores[store], engine):
            how = family_reader(family.removeprefix(f"{store}."))
            if how is None:
                continue
            for key, row in engine.family(family).range():
                try:
                    found = how.read(key, row)
                except Exception as error:  # whatever a damaged row does to its reader
                    raise DamagedStateError(
                        f"a row of store {store!r} is damaged: {kind_and_text(error)}; {rebuild_store(store)}",
                        path=self._database,
                        store=store,
                        task=str(self._task),
                    ) from error
                if found is not None:
                    yield found

    def _schemas_key(self, store: str) -> bytes:
        return schemas_key(family_of(self._plan.topology.stores[store]))

    def schemas(self, store: str) -> bytes | None:
        """Returns what was noted of the serdes by which the store's rows were written."""
        return self.engine_of(store).family(OFFSETS).get(self._schemas_key(store))

    def note_schemas(self, store: str, row: bytes) -> None:
        """Notes it."""
        engine = self.engine_of(store)
        batch = engine.batch()
        batch.put(self._schemas_key(store), row, engine.family(OFFSETS).handle)
        engine.write(batch)

    def wipe(self, store: str) -> None:
        """Removes the store's rows, and before them the keys that name the source topic they are from."""
        engine, prefix = self.engine_of(store), self._rows_prefix(store)
        offsets = engine.family(OFFSETS)
        batch = engine.batch()
        for key in [key for key, _ in offsets.range(prefix, after_prefix(prefix))]:
            batch.delete(key, offsets.handle)
        if not isinstance(self._plan.topology.stores[store].supplier, CustomStoreSupplier):  # those keep offsets alone
            batch.delete(self._schemas_key(store), offsets.handle)
            batch.delete(self._passed_key(store), offsets.handle)
            batch.put(self._rebuilt_key(store), b"", offsets.handle)
        engine.write(batch)
        engine.clear(families_held(self._plan.topology.stores[store], engine))

    def stored_positions(self) -> dict[str, int]:
        """Returns the input positions of the last commit in the persistent engine, by ``<topic>-<partition>``."""
        found: dict[str, int] = {}
        for engine in self._engines.values():
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
        self.put_positions(batch, engine.family(POSITIONS).handle, positions)
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

    def put_positions(self, batch: Batch, handle: Any, positions: Mapping[TopicPartition, int]) -> None:
        """Adds input positions to what is written to an engine."""
        keys = self._position_keys
        for partition, position in positions.items():
            key = keys.get(partition)
            if key is None:
                key = keys[partition] = offset_key(*partition)
            batch.put(key, write_offset(position), handle)
