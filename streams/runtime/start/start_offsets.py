"""The offsets at which the input partitions of a task are read from the start.

That is the committed offset of the group. A partition that has none, or one outside of its log, is read from where the
reset policy of its source says (KIP-1106).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping

from processor_api.clock import Clock
from processor_api.task_id import TopicPartition
from processor_api.topology.nodes import SourceNode
from processor_api.user_code.offset_reset import AutoOffsetReset
from streams.kafka.ports import Consumer, OffsetAndMetadata, UnknownPartitionError
from streams.runtime.plan.task_plan import TaskPlan
from streams.runtime.start import start_guard
from streams.runtime.start.refusals import no_reset_policy, records_were_replaced
from streams.runtime.start.topic_ids import keep_changelog_ids, note_states, topics_of, with_ids
from streams.runtime.start.truncated_logs import find_truncated, from_difference
from streams.runtime.start.waiting_records import with_forms
from streams.runtime.start.write_back import WriteBack
from streams.runtime.tasks.assembly import ThreadClients
from streams.runtime.tasks.commit import Committer
from streams.runtime.tasks.task import Task

# Inputs that a pattern of the topology matched, and that do not exist when their task asks where to read them.

CHECK_INTERVAL_S = 1.0


class AbsentInputs:
    """Finds input partitions that do not exist, and says when to check again.

    A topic that a pattern matched may have been deleted since, or may be so new that not all brokers know it. Neither
    keeps the other inputs of a task from being read. A topic that the topology names must exist.
    """

    def __init__(self, consumer: Consumer, clock: Clock) -> None:
        self._consumer = consumer
        self._clock = clock
        self._next_check = 0.0

    def find(self, task: Task, uncommitted: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Returns those of the partitions that a pattern matched and that do not exist now.

        :param uncommitted: partitions of the task without a committed offset; others existed a moment ago.
        """
        plan = task.plan
        matched = []
        for name in uncommitted:
            node = plan.topology.nodes[plan.topics[name.topic]]
            if isinstance(node, SourceNode) and node.pattern is not None:
                matched.append(name)
        absent = frozenset(self._unknown(matched))
        if absent:
            self._next_check = self._clock.monotonic() + CHECK_INTERVAL_S
        if absent - task.absent:
            names = ", ".join(sorted(map(str, absent)))
            log.warning(
                "inputs that a pattern matched do not exist and are not read; they are looked for again",
                extra={"task": str(task.id), "partitions": names},
            )
        return absent

    def _unknown(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        if not partitions:
            return []
        try:
            self._consumer.beginning_offsets(partitions)
        except UnknownPartitionError:
            if len(partitions) == 1:
                return partitions
            return [name for one in partitions for name in self._unknown([one])]
        return []

    def due(self, running: Iterable[Task]) -> bool:
        """Whether it is time to check the absent inputs of running tasks again."""
        now = self._clock.monotonic()
        if now < self._next_check:
            return False
        if any(task.absent for task in running):
            return True
        self._next_check = now + CHECK_INTERVAL_S  # :meth:`find` sets it where it finds one
        return False


log = logging.getLogger("streams.restore")


Starts = dict[TopicPartition, OffsetAndMetadata]
"""The start of each input partition of a task."""


class StartOffsets:
    """Finds where the input partitions of a stream thread's tasks are read from.

    :param committer: commits where partitions start that have no committed offset.
    :param default: the reset policy of sources that have none of their own.
    :param write_back: writes stores into changelogs that were replaced; without it such tasks are left as they are.
    """

    def __init__(
        self,
        clients: ThreadClients,
        committer: Committer,
        clock: Clock,
        default: AutoOffsetReset,
        write_back: WriteBack | None = None,
    ) -> None:
        self._consumer = clients.consumer
        self._restore_consumer = clients.restore_consumer
        self._admin = clients.admin
        self._committer = committer
        self._clock = clock
        self._default = default
        self._write_back = write_back
        self._absent = AbsentInputs(clients.consumer, clock)

    def absent_inputs_due(self, running: Iterable[Task]) -> bool:
        """Whether it is time to look again for inputs that did not exist."""
        return self._absent.due(running)

    def find(self, tasks: Collection[Task]) -> Iterator[tuple[Task, Starts]]:
        """Yields each of some tasks that were just opened, with where its partitions start.

        All tasks are checked before anything is committed for one of them.

        :raises BootstrapIncompleteError: if changelogs and committed offsets do not belong together.
        :raises RetryableError: if another worker has committed the first offsets meanwhile.
        :raises StateError: if a topic was deleted and made again, or committed offsets are gone that stores rely on.
        :raises StreamsError: if the reset policy is "none".
        """
        states = self._admin.topic_states(topics_of(tasks))
        ids = {topic: state.id for topic, state in states.items()}
        inputs = {task.id: task.plan.partitions(task.id.partition) for task in tasks}
        committed = self._consumer.committed([name for names in inputs.values() for name in names])
        for task in tasks:
            application = task.environment.settings.application_id
            known = {name: committed[name] for name in inputs[task.id] if name in committed}
            note_states(task, states)
            task.absent = self._absent.find(task, [name for name in inputs[task.id] if name not in known])
            start_guard.check_complete(application, known, task.id)
            start_guard.check_topics(task.id, known, ids)
            start_guard.check_positions(task, known.keys() | task.absent)
            if self._write_back is not None:
                committed.update(self._write_back.restore_changelogs(task, known))
        lost = find_truncated(tasks, committed, self._admin)
        for task in tasks:  # before the changelogs are checked, which may have lost all of their records
            known = {name: committed[name] for name in inputs[task.id] if name in committed}
            for store in [one for one in task.stores.progress.truncated if one not in task.plan.source_changelogs]:
                if self._write_back is not None and self._write_back.keep(task, store, known) is not None:
                    del task.stores.progress.truncated[store]
        if tasks:
            application = next(iter(tasks)).environment.settings.application_id
            start_guard.check_handed_over(application, tasks, committed)
            consumer = self._restore_consumer
            left = start_guard.check_changelogs(application, tasks, committed, consumer, self._consumer.committed)
            start_guard.log_left_out(left)
        wanted: dict[Task, tuple[Collection[TopicPartition], Starts]] = {}
        for task in tasks:
            keep_changelog_ids(task)
            names = inputs[task.id]
            known = self._before_lost(task, {name: committed[name] for name in names if name in committed}, lost)
            wanted[task] = [name for name in names if name not in task.absent], known
        yield from self._with_starts(wanted)

    def find_added(self, task: Task, added: Collection[TopicPartition]) -> Starts:
        """Returns where partitions start that a running task did not read before.

        :raises StateError: as :meth:`find`.
        """
        committed = self._consumer.committed(added)
        task.absent = self._absent.find(task, [name for name in added if name not in committed])
        existing = [name for name in added if name not in task.absent]
        task.topic_ids = {**task.topic_ids, **self._admin.topic_ids({name.topic for name in existing})}
        start_guard.check_complete(task.environment.settings.application_id, committed, task.id)
        start_guard.check_topics(task.id, committed, task.topic_ids)
        lost = find_truncated([task], committed, self._admin)
        ((_, starts),) = self._with_starts({task: (existing, self._before_lost(task, committed, lost))})
        return starts

    def _before_lost(self, task: Task, committed: Starts, lost: Mapping[TopicPartition, int]) -> Starts:
        """Returns committed offsets, earlier ones of inputs whose logs have other records before them now.

        :param lost: the first offset whose record is another one, of each of these.
        :raises StreamsError: if the reset policy of one is "none", or its records are the application's own.
        """
        found = dict(committed)
        for name, one in committed.items():
            if (first := lost.get(name)) is not None and first < one.offset:
                is_own = name.topic in task.plan.repartition_topics
                if is_own or reset_policy(task.plan, name, self._default).policy == "none":
                    raise records_were_replaced(task.id, name, one.offset, first, is_own=is_own)
                found[name] = from_difference(task, name, one, first)
        return found

    def _with_starts(
        self, wanted: Mapping[Task, tuple[Collection[TopicPartition], Starts]]
    ) -> list[tuple[Task, Starts]]:
        """Adds to committed offsets where partitions without one start, and commits that, of all tasks at once.

        :param wanted: the inputs of each task, and those of its offsets that are committed.
        """
        missing = {task: [one for one in inputs if one not in known] for task, (inputs, known) in wanted.items()}
        offsets = starting_offsets(missing, self._consumer, self._default, self._clock)
        found: dict[Task, dict[TopicPartition, OffsetAndMetadata]] = {}
        for task, names in missing.items():
            begun = {name: OffsetAndMetadata(offsets[name]) for name in names}
            found[task] = with_forms(task, with_ids(begun, task.topic_ids))
        # From now on a missing offset is a lost one (`check_positions`), also before the first commit.
        first = {name: one for task, of_task in found.items() if task.stores.engines for name, one in of_task.items()}
        if first:
            self._committer.offsets.start_at(first)
        starts = [(task, {**known, **found[task]}) for task, (_, known) in wanted.items()]
        for task, of_task in starts:
            start_unrestored(task, wanted[task][1], of_task)
        return starts


def reset_policy(plan: TaskPlan, partition: TopicPartition, default: AutoOffsetReset) -> AutoOffsetReset:
    """Returns the policy for a partition whose offset is missing or outside of its log."""
    if partition.topic in plan.repartition_topics:
        return AutoOffsetReset.earliest()  # its records are the application's own: none may be skipped
    node = plan.topology.nodes[plan.topics[partition.topic]]
    return (node.offset_reset if isinstance(node, SourceNode) else None) or default


def offsets_by_policy(
    reset: AutoOffsetReset, partitions: Collection[TopicPartition], consumer: Consumer, clock: Clock
) -> dict[TopicPartition, int]:
    """Returns the offsets that a policy other than "none" means now."""
    if reset.policy == "earliest":
        return consumer.beginning_offsets(partitions)
    if reset.policy == "latest":
        return consumer.end_offsets(partitions)
    assert reset.duration_ms is not None
    since = max(0, clock.time_ms() - reset.duration_ms)
    return consumer.offsets_for_time(dict.fromkeys(partitions, since))


def start_unrestored(
    task: Task,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    starts: Mapping[TopicPartition, OffsetAndMetadata],
) -> None:
    """Logs which records are missing in stores without a changelog, which nothing restores.

    It is logged once: the stores continue from where the task starts.

    :param committed: offsets found committed.
    :param starts: these, and where partitions without one start.
    """
    for store, positions in task.stores.progress.unlogged_positions().items():
        behind = [name for name, one in sorted(committed.items()) if positions.get(str(name), 0) < one.offset]
        if behind:
            log.warning(
                "store without a changelog lacks records that the group has consumed: the task ran elsewhere, its"
                " directory is an older copy, or a crash lost the last commits",
                extra={
                    "store": store,
                    "task": str(task.id),
                    "lacks": "; ".join(
                        f"{name} {positions.get(str(name), 0)}-{committed[name].offset}" for name in behind
                    ),
                },
            )
        # Against -1, so that a start at offset 0 is noted too.
        later = {name: one.offset for name, one in starts.items() if positions.get(str(name), -1) < one.offset}
        if later:
            task.stores.progress.write_positions(store, later)


def starting_offsets(
    missing: Mapping[Task, Collection[TopicPartition]], consumer: Consumer, default: AutoOffsetReset, clock: Clock
) -> dict[TopicPartition, int]:
    """Returns the offsets at which partitions without a committed one start, by the policy of each.

    :raises StreamsError: if the reset policy is "none".
    """
    found: dict[TopicPartition, int] = {}
    by_policy: dict[AutoOffsetReset, list[TopicPartition]] = {}
    for task, partitions in missing.items():
        for partition in partitions:
            reset = reset_policy(task.plan, partition, default)
            if reset.policy == "none":
                without = [one for one in partitions if reset_policy(task.plan, one, default).policy == "none"]
                raise no_reset_policy(task.id, without)
            by_policy.setdefault(reset, []).append(partition)
    for reset, partitions in by_policy.items():
        found.update(offsets_by_policy(reset, partitions, consumer, clock))
    return found
