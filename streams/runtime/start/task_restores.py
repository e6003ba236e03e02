"""The restores of the stores of a stream thread's tasks: what each store lacks, and what to do about it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial

from processor_api.clock import Clock
from processor_api.errors import RetryableError
from processor_api.record import NO_TIMESTAMP
from processor_api.task_id import TaskId, TopicPartition
from state.registry.kinds import restore_of, restored_from_records
from state.windowed.segments import sent_name, time_name
from state.write_buffer.store_kind import Restore
from streams.kafka.offset_metadata import MOST_TIMES, TopicPartitionMetadata, time_mark
from streams.kafka.ports import Admin, Consumer, OffsetAndMetadata
from streams.restore.follower import NO_END
from streams.restore.jobs import RestoreJob, plan_restore
from streams.restore.restorer import Restorer
from streams.runtime.plan.task_plan import TaskPlan
from streams.runtime.snapshots.task_snapshots import TaskSnapshots
from streams.runtime.start.passed_records import ChangelogRange, PassedRecords
from streams.runtime.start.truncated_logs import REBUILT
from streams.runtime.start.write_back import WriteBack
from streams.runtime.tasks.assembly import ThreadClients
from streams.runtime.tasks.expired_windows import CutChangelogs
from streams.runtime.tasks.task import Task
from streams.runtime.tasks.task_stores import StoreTime

# Changelogs that hide committed records behind an open transaction.
#
# A reader of committed records stops before the first record of an open transaction. In a changelog, such a
# transaction belongs to a former owner of the task that has died or has not noticed yet that it lost the task; or it
# is committed and its marker is not written yet. Records that later owners committed come after it in the log, so a
# store that is restored now would lack them: its task waits until the transaction has ended, which takes
# ``transaction.timeout.ms`` at most.

CHECK_INTERVAL_S = 0.1


class HiddenRecords:
    """Finds the tasks of a stream thread whose changelogs can be read to their ends.

    :param log_ends: see :meth:`streams.kafka.ports.Admin.log_ends`.
    :param consumer: reads committed records.
    """

    def __init__(
        self,
        log_ends: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]],
        consumer: Consumer,
        clock: Clock,
    ) -> None:
        self._log_ends = log_ends
        self._consumer = consumer
        self._clock = clock
        self._next_check = 0.0
        self._logged: set[TaskId] = set()

    def readable(self, tasks: Collection[Task]) -> list[Task]:
        """Returns those tasks that need not wait; none for a short time after some had to."""
        now = self._clock.monotonic()
        if now < self._next_check:
            return []
        changelogs = {
            partition: task
            for task in tasks
            for partition, store in task.stores.changelog_partitions().items()
            if store not in task.plan.source_changelogs
        }
        if not changelogs:
            return list(tasks)
        # The ends of the logs first: what is committed in between is readable, and what is written is not waited for.
        ends = self._log_ends(changelogs)
        readable = self._consumer.end_offsets(changelogs)
        hidden = {name: task for name, task in changelogs.items() if readable[name] < ends.get(name, 0)}
        waiting = {task.id for task in hidden.values()}
        if waiting:
            self._next_check = now + CHECK_INTERVAL_S
        for name, task in hidden.items():
            if task.id not in self._logged:
                log.info(
                    "task waits for an open transaction in its changelog, which hides what was committed after it",
                    extra={"task": str(task.id), "changelog": str(name), "from": readable[name], "to": ends[name]},
                )
        self._logged = waiting
        return [task for task in tasks if task.id not in waiting]


ASKED_FROM_MS = 60_000
"""Stores that were complete a minute ago are taken as they are: most starts ask the cluster nothing."""
MARGIN = 0.9
"""The part of ``delete.retention.ms`` that state may be old: the restore takes time, and clocks differ."""


class ForgottenDeletions:
    """Finds the stores of tasks which may hold keys that were deleted.

    :param admin: is asked for the settings of the changelogs of old state.
    """

    def __init__(self, admin: Admin, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock

    def stores(
        self, task: Task, changelogs: Mapping[TopicPartition, str], ends: Mapping[TopicPartition, int]
    ) -> frozenset[str]:
        """Returns the stores of a task that must be restored from the beginning, and logs them.

        :param ends: of the changelogs; what has nothing behind its offset misses no deletion.
        :raises RetryableError: if no broker answers.
        """
        now = self._clock.time_ms()
        ages: dict[TopicPartition, int] = {}
        for partition, store in changelogs.items():
            complete_at, stored = task.stores.progress.complete_at(store), task.stores.progress.stored_offset(store)
            if complete_at is None or stored is None or stored + 1 >= ends[partition]:
                continue
            if abs(now - complete_at) >= ASKED_FROM_MS:
                ages[partition] = now - complete_at
        kept = self._kept_ms({partition.topic for partition in ages})
        found = {one: age for one, age in ages.items() if one.topic in kept and not _is_young(age, kept[one.topic])}
        for partition, age in found.items():
            log.warning(
                "store is rebuilt from its changelog: it is older than the deletions that the changelog still has"
                if age > 0
                else "store is rebuilt from its changelog: its time is ahead of the clock, so its age is not known",
                extra={
                    "task": str(task.id),
                    "store": changelogs[partition],
                    "changelog": str(partition),
                    "age_ms": age,
                    "delete.retention.ms": kept[partition.topic],
                },
            )
        return frozenset(changelogs[partition] for partition in found)

    def _kept_ms(self, topics: Collection[str]) -> dict[str, int]:
        """Returns how long topics keep deletions, of those that are compacted and whose settings can be read."""
        if not topics:
            return {}
        try:
            settings = self._admin.topic_settings(topics)
        except RetryableError:
            raise
        except Exception as error:
            log.warning(
                "old state is used as it is: the settings of its changelogs cannot be read",
                extra={"topics": ", ".join(sorted(topics)), "error": str(error)},
            )
            return {}
        found: dict[str, int] = {}
        for topic, values in settings.items():
            kept = values.get("delete.retention.ms", "")
            if "compact" in values.get("cleanup.policy", "") and kept.isdecimal():
                found[topic] = int(kept)
        return found


def _is_young(age_ms: int, kept_ms: int) -> bool:
    """Whether state is so young that its changelog still has each deletion that it lacks. A time that is further ahead
    than clocks may differ says nothing: the clock was ahead once, or is behind now."""
    return -(1 - MARGIN) * kept_ms <= age_ms <= MARGIN * kept_ms


log = logging.getLogger("streams.tasks")

BULK_RECORDS = 100_000
"""Restores of a task that are as long are loaded in bulk (docs/decisions/changelogs-and-restore.md, "Long restores use
memtables that are sorted at the flush"): to open its database twice takes as long as some thousand records."""

Starts = Mapping[TopicPartition, OffsetAndMetadata]


class TaskRestores:
    """Plans the restores of a stream thread's tasks, and starts those again whose changelogs were truncated."""

    def __init__(
        self,
        restorer: Restorer,
        clients: ThreadClients,
        snapshots: TaskSnapshots,
        clock: Clock,
        write_back: WriteBack | None = None,
    ) -> None:
        self._restorer = restorer
        self._snapshots = snapshots
        self._clock = clock
        self._write_back = write_back
        self._forgotten = ForgottenDeletions(clients.admin, clock)
        self._passed = PassedRecords(clients.admin)
        self._cut = CutChangelogs(clients.admin, clock)
        self._consumer = clients.restore_consumer
        self._log_ends = clients.admin.log_ends
        self._divergences = clients.admin.divergences
        self._hidden = HiddenRecords(clients.admin.log_ends, clients.restore_consumer, clock)
        self._changelog_ends: dict[TaskId, dict[str, int]] = {}

    def readable(self, tasks: Collection[Task]) -> list[Task]:
        """Returns those tasks whose changelogs can be read to their ends now."""
        return self._hidden.readable(tasks)

    def changelog_ends(self, task: TaskId) -> Mapping[str, int]:
        """Returns where the changelog of each store ended when its restore began; any thread may call it."""
        return self._changelog_ends.get(task, {})

    def take_changelog_ends(self, task: TaskId) -> Mapping[str, int]:
        """Returns the same, and forgets it: the task runs."""
        return self._changelog_ends.pop(task, {})

    def pending(self, task: TaskId) -> bool:
        """Whether stores of a task are being restored."""
        return self._restorer.pending(task) or self._snapshots.pending(task)

    def start(self, jobs: Collection[RestoreJob]) -> None:
        """Starts the restores that were planned."""
        if jobs:
            self._restorer.add(jobs)

    def stop(self, task: TaskId) -> None:
        """Stops the restores of a task."""
        self._snapshots.stop(task)
        self._restorer.remove(task)

    def take_snapshots(self) -> None:
        """Continues snapshots that are being copied, and starts the restores of the changelog records after them."""
        self.start([_job(*rest) for rest in self._snapshots.step()])

    def by_task(self) -> dict[TaskId, dict[str, RestoreJob]]:
        """Returns what is being restored, by task and store; any thread may call it."""
        found: dict[TaskId, dict[str, RestoreJob]] = {}
        for job in [*self._snapshots.jobs(), *self._restorer.jobs()]:
            found.setdefault(job.task, {})[job.store] = job
        return found

    # ------------------------------------------------------------------ planning

    def plan(self, starts: Collection[tuple[Task, Starts]]) -> list[RestoreJob]:
        """Returns what the stores of tasks lack; removes the rows of those that must be restored from the beginning.
        What a snapshot has is left out: its store is restored when it is taken.

        :param starts: the tasks, each with where its input partitions start.
        """
        changelogs = [name for task, _ in starts for name in task.stores.changelog_partitions()]
        beginnings = self._consumer.beginning_offsets(changelogs) if changelogs else {}
        ends = self._consumer.end_offsets(changelogs) if changelogs else {}
        return [job for task, of_task in starts for job in self._plan(task, of_task, beginnings, ends)]

    def _plan(
        self,
        task: Task,
        starts: Starts,
        beginnings: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> list[RestoreJob]:
        self._snapshots.remove_leftovers(task)
        changelogs = task.stores.changelog_partitions()
        task.stores.times = store_times(task.plan, starts)
        self._changelog_ends[task.id] = {store: ends[partition] for partition, store in changelogs.items()}
        ranges: dict[str, ChangelogRange] = {}
        emptied: dict[str, ChangelogRange] = {}
        read: dict[TopicPartition, int] = {}
        for store in self._forgotten.stores(task, changelogs, ends):
            task.stores.progress.forget(store)
        now = self._clock.time_ms()
        for partition, store in changelogs.items():
            end, stored = ends[partition], self._stored_offset(task, store, ends[partition])
            is_source, is_other = store in task.plan.source_changelogs, store in task.stores.progress.truncated
            if is_source:  # only what was processed (semantics 95)
                end = _up_to(starts.get(partition), end)
            elif stored is not None and not (is_other or beginnings[partition] <= stored + 1 <= end):
                written = None if self._write_back is None else self._write_back.keep(task, store, starts)
                if written is not None:
                    self._changelog_ends[task.id][store] = written
                    continue
            if is_other:
                self._forget_truncated(task, store, partition)
                stored = None
            has_rows = stored is None and task.stores.progress.has_rows(store)
            start, clear = plan_restore(
                stored, beginnings[partition], end, store, task.id, has_rows=has_rows, is_committed=is_source
            )
            if clear:
                read[partition] = beginnings[partition]
                task.stores.progress.wipe(store)
                # Empty as of now: all deletions that the changelog has now will be read.
                task.stores.progress.note_complete([store], now, is_filled=False)
            time = task.stores.times.get(store)
            is_empty = stored is None and not has_rows and (time is None or not time.is_unfinished)
            if is_empty and start < end and self._snapshots.begin(task, _job(task, store, partition, start, end)):
                continue
            if start < end:
                ranges[store] = partition, start, end
                if clear:
                    emptied[store] = ranges[store]
        self._cut.at_start(task, read, starts)
        for store, start in self._later_starts(task, emptied).items():
            partition, _, end = emptied[store]
            ranges[store] = partition, start, end
        if sum(end - start for _, start, end in ranges.values()) >= BULK_RECORDS:
            task.stores.start_bulk_load(ranges)
        return [_job(task, store, partition, start, end) for store, (partition, start, end) in ranges.items()]

    def _stored_offset(self, task: Task, store: str, end: int) -> int | None:
        """Returns the offset of the last record that a store holds. One that has all of its changelog, and lacks rows
        of the records that its restore has passed over, is emptied."""
        progress = task.stores.progress
        stored = progress.stored_offset(store)
        if stored is None or stored + 1 < end or progress.reaches_noted_time(store):
            return stored
        self.read_whole(task, store)
        return None

    def read_whole(self, task: Task, store: str) -> None:
        """Empties a store that lacks rows of the records which its restore has passed over, so that the next plan
        reads all of its changelog."""
        self._passed.are_needed(task, store)
        task.stores.progress.forget(store)

    def _later_starts(self, task: Task, emptied: Mapping[str, ChangelogRange]) -> dict[str, int]:
        """Returns the later starts of stores without rows, and notes with each store what it must reach by it."""
        found = self._passed.later_starts(task, emptied)
        for store, start in found.items():
            task.stores.progress.note_passed(store, start.least_time)
        return {store: start.offset for store, start in found.items()}

    @staticmethod
    def _forget_truncated(task: Task, store: str, partition: TopicPartition) -> None:
        """Empties a store of records that its changelog has lost."""
        progress = task.stores.progress
        place = {"store": store, "task": str(task.id), "topic": partition.topic, "partition": partition.partition}
        offset, first = progress.stored_offset(store), task.stores.progress.truncated.pop(store)
        log.error(REBUILT, extra={**place, "offset": offset, "first_other": first})
        progress.forget(store)

    def plan_standby(self, task: Task, starts: Starts) -> list[RestoreJob]:
        """Returns the changelogs of a task that is not to run, to be followed from where each of its stores is; removes
        the rows of stores that must be filled from the beginning.

        :param starts: the committed offsets of its inputs: a source topic that is a changelog is followed so far.
        """
        progress = task.stores.progress
        changelogs = task.stores.changelog_partitions()
        beginnings, ends = self._consumer.beginning_offsets(changelogs), self._log_ends(changelogs)
        task.stores.times = store_times(task.plan, starts)
        for store in self._forgotten.stores(task, changelogs, ends):
            progress.forget(store)
        planned: dict[str, ChangelogRange] = {}
        emptied: dict[str, ChangelogRange] = {}
        for partition, store in changelogs.items():
            if store in task.stores.progress.truncated:
                self._forget_truncated(task, store, partition)
            end, stored, limit = ends[partition], progress.stored_offset(store), NO_END
            has_rows = stored is None and progress.has_rows(store)
            start, clear = plan_restore(stored, beginnings[partition], end, store, task.id, has_rows=has_rows)
            if store in task.plan.source_changelogs:
                # A store ahead of the committed offset waits there: it is right again when the group has come so far.
                # Its offset must not go back, because the rows of later records would stay.
                limit = max(_up_to(starts.get(partition), end), start)
            if clear:
                progress.wipe(store)
                progress.note_complete([store], self._clock.time_ms(), is_filled=False)
                emptied[store] = partition, start, end
            planned[store] = partition, start, limit
        later = self._later_starts(task, emptied)
        return [
            _job(task, store, partition, later.get(store, start), limit)
            for store, (partition, start, limit) in planned.items()
        ]

    def renewed(self, task: Task, starts: Starts) -> dict[TopicPartition, Restore]:
        """Returns other functions for the changelogs of a standby whose stores need fewer rows, since the group has
        gone on: rows expire by the time that is committed, and not by that of the changelog."""
        before, now = task.stores.times, store_times(task.plan, starts)
        task.stores.times = now
        return {
            partition: _restore_of(task, store)
            for partition, store in task.stores.changelog_partitions().items()
            if store in now and (store not in before or now[store].needed != before[store].needed)
        }

    # ------------------------------------------------------------------ truncated changelogs

    def start_truncated_over(self, tasks: Mapping[TaskId, Task], starts: Mapping[TaskId, Starts]) -> None:
        """Empties stores whose changelogs lost records while they were read, and restores them from what is left.

        :param starts: where the input partitions of each task start.
        """
        for job in self._restorer.truncated():
            task, partition, position = tasks[job.task], job.partition, job.progress.position
            beginning = self._consumer.beginning_offsets([partition])[partition]
            end = self._consumer.end_offsets([partition])[partition]
            if position is not None and position >= job.end and not job.is_enough():
                # All records from the later start on were read, and the store still needs those before it.
                self.read_whole(task, job.store)
                self._restorer.start_over(job, _job(task, job.store, partition, beginning, job.end))
                continue
            is_inside = beginning <= (job.start if position is None else position) and job.end <= end
            if is_inside and not self._is_other(task, job):
                self._restorer.resume(job)
                continue
            log.error(
                "store is rebuilt from its changelog: records were deleted from it while it was restored",
                extra={**job.place(), "position": position, "beginning": beginning, "end": end},
            )
            self._changelog_ends[task.id][job.store] = end
            if job.from_source:
                end = _up_to(starts[task.id].get(partition), end)
            task.stores.progress.forget(job.store)
            self._restorer.start_over(job, _job(task, job.store, partition, beginning, end))

    def _is_other(self, task: Task, job: RestoreJob) -> bool:
        """Whether the client has stopped because records that were read are no longer in the changelog: the log was
        truncated before the position, and may have grown again."""
        point = task.stores.progress.stored_point(job.store) if job.progress.lost else None
        return point is not None and bool(self._divergences([(job.partition, point)]))


def _job(task: Task, store: str, partition: TopicPartition, start: int, end: int) -> RestoreJob:
    return RestoreJob(
        task=task.id,
        store=store,
        partition=partition,
        engine=task.stores.progress.engine_of(store),
        restore=_restore_of(task, store),
        start=start,
        end=end,
        offset_key=task.stores.progress.offset_key(store),
        point_key=task.stores.progress.point_key(store),
        from_source=store in task.plan.source_changelogs,
        is_enough=partial(task.stores.progress.reaches_noted_time, store),
    )


def _restore_of(task: Task, store: str) -> Restore:
    engine, time = task.stores.progress.engine_of(store), task.stores.times.get(store)
    builder = task.plan.topology.stores[store]
    restore = restore_of(builder, engine, None if time is None else time.needed)
    if store not in task.plan.source_changelogs:
        return restore
    return restored_from_records(restore, **task.stores.record_serdes_of(builder))


def store_times(plan: TaskPlan, starts: Starts) -> dict[str, StoreTime]:
    """Returns the times of stores by what was committed with the offsets, of those whose times are known.

    The time of an operator that is not there was -1, unless something else has committed the offsets, or there was no
    room for it. That of a store of which no operator keeps one was at most the stream time of the task.
    """
    metadata = [TopicPartitionMetadata.decode(one.metadata) for one in starts.values()]
    committed: dict[str, int] = {}
    for one in metadata:
        for name, time in one.processors.items():
            mark = time_mark(name)
            committed[mark] = max(time, committed.get(mark, NO_TIMESTAMP))
    has_room = len(committed) < MOST_TIMES
    is_own = all(one.topic_id is not None and one.handed_over is None for one in metadata)
    found: dict[str, StoreTime] = {}
    for own in plan.own_times:
        observed = committed.get(time_mark(own.observed), NO_TIMESTAMP if has_room and is_own else None)
        if observed is None:
            continue
        needed = observed
        if own.sent is not None:
            needed = committed.get(time_mark(own.sent), NO_TIMESTAMP if has_room else observed)
        before = found.get(own.store, StoreTime(NO_TIMESTAMP, NO_TIMESTAMP))
        unfinished = time_mark(sent_name(own.store)) in committed
        found[own.store] = StoreTime(max(observed, before.observed), max(needed, before.needed), unfinished)
    latest = max((one.partition_time for one in metadata), default=NO_TIMESTAMP)
    for store in plan.expiring_stores:
        known = committed.get(time_mark(time_name(store)), latest if is_own else None)
        if known is not None:
            found[store] = StoreTime(known, known)
    return found


def _up_to(committed: OffsetAndMetadata | None, end: int) -> int:
    """Returns the end of a restore from a source topic: what lies behind the committed offset is processed again."""
    return 0 if committed is None else min(end, committed.offset)
