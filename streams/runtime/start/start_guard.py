"""Refuses to start tasks whose topics, changelogs, stores and committed offsets do not belong together.

Offsets without their changelogs leave out what the stores held; changelogs without their offsets have it counted a
second time. Both come from a handover that was not completed, from offsets that expired, and from topics that were
deleted. The runtime could continue in either case, and the results would be wrong unnoticed, so a task is checked
before anything is committed for it. The second start finds the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, Protocol

from processor_api.errors import RetryableError
from processor_api.task_id import TaskId, TopicPartition
from streams.kafka.offset_metadata import MOST_MARKS, TopicPartitionMetadata, changelog_mark
from streams.kafka.ports import Consumer, OffsetAndMetadata
from streams.kafka.topics.internal import changelog_name
from streams.runtime.plan.task_plan import TaskPlan
from streams.runtime.start import refusals
from streams.runtime.tasks.task import Task

log = logging.getLogger("streams.tasks")

Committed = Mapping[TopicPartition, OffsetAndMetadata]


class GuardedTask(Protocol):
    """The parts of a task that are looked at before it starts."""

    @property
    def id(self) -> TaskId: ...

    @property
    def plan(self) -> TaskPlan: ...

    @property
    def absent(self) -> frozenset[TopicPartition]:
        """Inputs that do not exist."""
        ...


class PlannedTask(NamedTuple):
    """A task that is checked without being opened."""

    id: TaskId
    plan: TaskPlan
    absent: frozenset[TopicPartition] = frozenset()


def check_complete(application_id: str, committed: Committed, task: TaskId | None = None) -> None:
    """Refuses committed offsets of a handover that is not complete.

    :raises BootstrapIncompleteError: with what to do about it.
    """
    for partition, found in committed.items():
        handover = TopicPartitionMetadata.decode(found.metadata).handover
        if handover is not None:
            raise refusals.handover_is_open(task, application_id, handover, partition, found.offset)


def check_topics(task: TaskId, committed: Committed, ids: Mapping[str, str]) -> None:
    """Refuses committed offsets of topics that were deleted and made again.

    :param ids: the ids of topics, where the cluster knows them.
    :raises StateError: with what to do about it.
    """
    for partition, found in committed.items():
        known = TopicPartitionMetadata.decode(found.metadata).topic_id
        now = ids.get(partition.topic)
        if known is not None and now is not None and known != now:
            raise refusals.topic_was_replaced(task, partition, found.offset, known, now)


def check_positions(task: Task, committed: Collection[TopicPartition]) -> None:
    """Refuses a store that has consumed from partitions whose committed offsets are gone.

    :raises StateError: with what to do about it.
    """
    names = {str(partition): partition for partition in _inputs(task)}
    for name, position in task.stores.progress.stored_positions().items():
        partition = names.get(name)
        if partition is not None and partition not in committed:
            raise refusals.offset_is_gone(task.id, partition, position, task.environment.state_dir)


def check_handed_over(application_id: str, tasks: Collection[GuardedTask], committed: Committed) -> None:
    """Refuses offsets of a handover that has filled changelogs which the topology does not have: a store was renamed
    between the handover and the first start, and would begin empty behind records that it has never seen.

    A worker's first commit takes the place of what the handover has noted. From then on stores come and go.

    :raises BootstrapIncompleteError: with the stores of the topology, and what to do about it.
    """
    for task in tasks:
        plan = task.plan
        known = {changelog_name(plan.prefix, store) for store in plan.topology.stores} | set(plan.changelogs.values())
        marks = {changelog_mark(topic) for topic in known}
        for place in _inputs(task):
            found = committed.get(place)
            noted = None if found is None else TopicPartitionMetadata.decode(found.metadata)
            if noted is not None and noted.handed_over is not None and not noted.changelogs <= marks:
                raise refusals.store_was_renamed(
                    task.id,
                    application_id,
                    noted.handed_over,
                    place,
                    lost=len(noted.changelogs - marks),
                    stores=plan.changelogs,
                    inputs=_topics(task),
                )


def check_changelogs(
    application_id: str,
    tasks: Collection[GuardedTask],
    committed: Committed,
    consumer: Consumer,
    read_again: Callable[[Collection[TopicPartition]], Committed],
) -> list[tuple[GuardedTask, TopicPartition]]:
    """Refuses changelogs that hold records although no input has a committed offset, and the other way round. Returns
    those that hold records of which the last commit knows nothing, though it knows of other ones: that was made by a
    version without the store, or their store has had its first records and its worker was killed (semantics 198).

    Topics that serve as source and changelog are left out: they are never written. At most four requests are made,
    and one in the usual case, for all tasks together.

    :param committed: offsets of the tasks' inputs that the group has.
    :param consumer: reads committed records.
    :param read_again: reads committed offsets of the group. They are read again before a task is refused for lack of
        them: another worker may have committed the first ones, and filled the changelogs, since they were read.
    :raises BootstrapIncompleteError: with what to do about it.
    :raises RetryableError: if the offsets have been committed meanwhile.
    """
    marked: dict[TopicPartition, GuardedTask] = {}
    unread: dict[TopicPartition, GuardedTask] = {}
    unknown: dict[TopicPartition, GuardedTask] = {}
    for task in tasks:
        known = [committed[name] for name in _inputs(task) if name in committed]
        marks = {mark for one in known for mark in TopicPartitionMetadata.decode(one.metadata).changelogs}
        for changelog in _own_changelogs(task):
            if not known:
                unread[changelog] = task
            elif changelog_mark(changelog.topic) in marks:
                marked[changelog] = task
            elif marks and len(marks) < MOST_MARKS:
                unknown[changelog] = task
    if not marked and not unread and not unknown:
        return []
    ends = consumer.end_offsets([*marked, *unread, *unknown])
    for changelog, task in marked.items():
        # Deletions of records do not move the end: at 0 the topic is another one, or nothing was ever written.
        if not ends[changelog]:
            raise refusals.changelog_was_emptied(task.id, application_id, changelog, _topics(task))
    filled = {name: task for name, task in unread.items() if ends[name]}
    _check_unread(application_id, filled, ends, consumer, read_again)
    written = {name: task for name, task in unknown.items() if ends[name]}
    begins = consumer.beginning_offsets(written) if written else {}
    return [(task, name) for name, task in written.items() if begins[name] < ends[name]]


def log_left_out(changelogs: Collection[tuple[GuardedTask, TopicPartition]]) -> None:
    """Warns of stores that a version left out which ran last, one line for each store."""
    tasks: dict[tuple[str, str], list[TaskId]] = {}
    for task, place in changelogs:
        store = next(store for store, topic in task.plan.changelogs.items() if topic == place.topic)
        tasks.setdefault((store, place.topic), []).append(task.id)
    for (store, topic), ids in tasks.items():
        log.warning(
            "store has rows, and the last commit knows nothing of it: if a version without the store has run since, as"
            " after a roll back, it lacks the records of that time; give it another name to begin with an empty store."
            " Nothing is missing if a worker was killed before its first commit with records of the store",
            extra={"store": store, "changelog": topic, "tasks": " ".join(map(str, sorted(ids)))},
        )


def _check_unread(
    application_id: str,
    unread: Mapping[TopicPartition, GuardedTask],
    ends: Mapping[TopicPartition, int],
    consumer: Consumer,
    read_again: Callable[[Collection[TopicPartition]], Committed],
) -> None:
    """Refuses changelogs with records, of tasks none of whose inputs has an offset, unless no input had any record."""
    if not unread:
        return
    beginnings = consumer.beginning_offsets(unread)
    filled = {name: task for name, task in unread.items() if beginnings[name] < ends[name]}
    inputs = {name for task in filled.values() for name in _inputs(task) if name not in task.absent}
    written = {name for name, end in consumer.end_offsets(inputs).items() if end} if inputs else set()
    for changelog, task in filled.items():
        lost = [name for name in _inputs(task) if name in written]
        if lost and read_again(_inputs(task)):
            raise RetryableError(
                f"the first offsets of task {task.id} were committed by another worker while they were read",
                task=str(task.id),
            )
        if lost:
            raise refusals.inputs_have_no_offsets(task.id, application_id, changelog, lost)


def _inputs(task: GuardedTask) -> tuple[TopicPartition, ...]:
    return task.plan.partitions(task.id.partition)


def _topics(task: GuardedTask) -> list[str]:
    return list(dict.fromkeys(one.topic for one in _inputs(task)))


def _own_changelogs(task: GuardedTask) -> list[TopicPartition]:
    plan = task.plan
    return [
        TopicPartition(topic, task.id.partition)
        for store, topic in plan.changelogs.items()
        if store not in plan.source_changelogs
    ]
