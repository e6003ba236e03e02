"""Refuses to start tasks whose changelogs and committed offsets do not belong together.

Offsets without their changelogs leave out what the stores held; changelogs without their offsets have it counted a
second time. Both come from a handover that was not completed, from offsets that expired, and from changelogs that were
deleted. The runtime could go on in either case, and the results would be wrong without a word, so a task is checked
before anything is committed for it. The second start finds the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, Protocol

from processor_api.errors import BootstrapIncompleteError, RetryableError
from processor_api.task_id import TaskId, TopicPartition
from streams.kafka.offset_metadata import TopicPartitionMetadata, changelog_mark
from streams.kafka.ports import Consumer, OffsetAndMetadata
from streams.kafka.topics.internal import changelog_name
from streams.runtime.plan.task_plan import TaskPlan

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


def check_complete(application_id: str, committed: Committed) -> None:
    """Refuses committed offsets of a handover that is not complete.

    :raises BootstrapIncompleteError: with what to do about it.
    """
    for partition, found in committed.items():
        handover = TopicPartitionMetadata.decode(found.metadata).handover
        if handover is not None:
            raise BootstrapIncompleteError(
                f"the handover {handover!r} of a backfill to application {application_id!r} was begun and is not"
                " complete: changelogs may lack rows. Run the bootstrap again until it reports success, then start the"
                " workers; to give it up, reset the application by `streams reset`",
                topic=partition.topic,
                partition=partition.partition,
                offset=found.offset,
            )


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
                raise _renamed(application_id, task, place, len(noted.changelogs - marks), noted.handed_over)


def check_changelogs(
    application_id: str,
    tasks: Collection[GuardedTask],
    committed: Committed,
    consumer: Consumer,
    read_again: Callable[[Collection[TopicPartition]], Committed],
) -> None:
    """Refuses changelogs that hold records although no input has a committed offset, and the other way round.

    Topics that serve as source and changelog are left out: they are never written. At most three requests are made,
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
    for task in tasks:
        known = [committed[name] for name in _inputs(task) if name in committed]
        marks = {mark for one in known for mark in TopicPartitionMetadata.decode(one.metadata).changelogs}
        for changelog in _own_changelogs(task):
            if not known:
                unread[changelog] = task
            elif changelog_mark(changelog.topic) in marks:
                marked[changelog] = task
    if not marked and not unread:
        return
    ends = consumer.end_offsets([*marked, *unread])
    for changelog, task in marked.items():
        if not ends[changelog]:
            raise _emptied(application_id, task, changelog)
    filled = {name: task for name, task in unread.items() if ends[name]}
    _check_unread(application_id, filled, ends, consumer, read_again)


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
            raise _unread(application_id, task, changelog, lost)


def _inputs(task: GuardedTask) -> tuple[TopicPartition, ...]:
    return task.plan.partitions(task.id.partition)


def _own_changelogs(task: GuardedTask) -> list[TopicPartition]:
    plan = task.plan
    return [
        TopicPartition(topic, task.id.partition)
        for store, topic in plan.changelogs.items()
        if store not in plan.source_changelogs
    ]


def _renamed(
    application: str, task: GuardedTask, place: TopicPartition, count: int, handover: str
) -> BootstrapIncompleteError:
    stores = ", ".join(repr(store) for store in sorted(task.plan.changelogs)) or "none"
    inputs = ",".join(dict.fromkeys(one.topic for one in _inputs(task)))
    return BootstrapIncompleteError(
        f"the handover {handover!r} to application {application!r} has filled {count} changelog(s) of task {task.id}"
        f" that this topology does not have (its stores there: {stores}): a store was renamed or removed since. A"
        f" renamed one would begin empty, though the handover has processed the records of {place} before its offset."
        " Start the topology that was handed over, or run the backfill of this one, and the bootstrap with"
        " overwrite=True. To go on without these tables on purpose, set the group's offsets again, as they are:"
        f" `streams reset APP --offsets-only --shift-by 0 --input-topics {inputs}`",
        task=str(task.id),
        topic=place.topic,
        partition=place.partition,
    )


def _emptied(application: str, task: GuardedTask, changelog: TopicPartition) -> BootstrapIncompleteError:
    return BootstrapIncompleteError(
        f"changelog {str(changelog)!r} is empty, but the committed offsets of task {task.id} say that it has had"
        " records: the topic was deleted, or a handover was not completed. The stores would lack everything before"
        f" these offsets. Run the bootstrap again, or reset application {application!r} (`streams reset APP`: internal"
        " topics, committed offsets, local state) to process its input again. To go on with empty stores on purpose,"
        " set the group's"
        " offsets again, as they are: `streams reset APP --offsets-only --shift-by 0 --input-topics"
        f" {','.join(dict.fromkeys(one.topic for one in _inputs(task)))}`",
        task=str(task.id),
        topic=changelog.topic,
        partition=changelog.partition,
    )


def _unread(
    application: str, task: GuardedTask, changelog: TopicPartition, inputs: Collection[TopicPartition]
) -> BootstrapIncompleteError:
    return BootstrapIncompleteError(
        f"changelog {str(changelog)!r} has records, but group {application!r} has no committed offset for"
        f" {', '.join(map(str, inputs))}: a handover was not completed, or the offsets expired or were deleted. Records"
        " that the stores hold would be processed again. Run the bootstrap again, or set the group's offsets to where"
        " the stores are (`streams reset APP --offsets-only --from-file FILE`, with lines TOPIC,PARTITION,OFFSET), or"
        " delete the changelogs to start with empty stores",
        task=str(task.id),
        topic=changelog.topic,
        partition=changelog.partition,
    )
