"""Finds logs that were truncated and have grown again, before tasks start from offsets in them (KIP-320).

A leader that lacks the end of a log truncates it: after an unclean election, or on a broker whose disk is an older
copy. New records then get the offsets of those that are gone, so an offset may be inside of the log and stand for other
records. A record whose leader epoch is known tells: the leader of now says where that epoch ends in its log. An offset
without such a record was written by an earlier release, or its broker gives no epochs; it is accepted.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from processor_api.record import DropReason
from processor_api.task_id import TopicPartition
from streams.kafka.offset_metadata import LogPoint, TopicPartitionMetadata
from streams.kafka.ports import Admin, OffsetAndMetadata
from streams.runtime.tasks.task import Task

log = logging.getLogger("streams.restore")

Committed = Mapping[TopicPartition, OffsetAndMetadata]

REBUILT = "store is rebuilt from its changelog: that has lost records which the store has"


def find_truncated(tasks: Collection[Task], committed: Committed, admin: Admin) -> dict[TopicPartition, int]:
    """Finds what the logs of tasks have lost, with one request to each leader; notes it with the stores of each task.

    Of a store that has no such record yet, since it was written by one commit or by an earlier release, its offset is
    compared with the end of its changelog.

    :param committed: the offsets of their inputs.
    :returns: of each input that has lost records before its offset, the first offset whose record is another one.
    :raises RetryableError: if not all leaders answer.
    """
    of_inputs = dict(_points_of_inputs(tasks, committed))
    of_stores: dict[tuple[TopicPartition, LogPoint], list[tuple[Task, str]]] = {}
    without: dict[TopicPartition, tuple[Task, str, int]] = {}
    for task, store, changelog in _stores(tasks):
        progress = task.stores.progress
        point, last = progress.stored_point(store), progress.last_logged(store)
        # The last record may be of a leader after the one that is known, and be there. A store that is complete is not
        # written again for that; one that is not, which its owner has left, is filled again.
        if last is not None and not progress.is_complete_at(store, _of_task(task, committed)):
            of_stores.setdefault((changelog, last), []).append((task, store))
        if point is not None:
            of_stores.setdefault((changelog, point), []).append((task, store))
        elif store not in task.plan.source_changelogs and (offset := progress.stored_offset(store)) is not None:
            without[changelog] = task, store, offset
    lost = admin.divergences(of_inputs.keys() | of_stores.keys()) if of_inputs or of_stores else {}
    for at, first in lost.items():
        for task, store in of_stores.get(at, ()):
            task.stores.progress.truncated[store] = first
    ends = admin.log_ends(without) if without else {}
    for changelog, (task, store, offset) in without.items():
        if offset >= ends[changelog]:
            task.stores.progress.truncated[store] = ends[changelog]
    return {of_inputs[at]: first for at, first in lost.items() if at in of_inputs}


def _stores(tasks: Collection[Task]) -> Iterator[tuple[Task, str, TopicPartition]]:
    """Yields the stores whose rows are of the topics that their changelogs are now."""
    for task in tasks:
        for store, topic in task.plan.changelogs.items():
            if task.stores.progress.topic_id(store) == task.topic_ids.get(topic, ""):
                yield task, store, TopicPartition(topic, task.id.partition)


def _of_task(task: Task, committed: Committed) -> Committed:
    return {one: committed[one] for one in task.plan.partitions(task.id.partition) if one in committed}


def _points_of_inputs(
    tasks: Collection[Task], committed: Committed
) -> Iterator[tuple[tuple[TopicPartition, LogPoint], TopicPartition]]:
    """Yields the records that were committed with the offsets of inputs, of the topics that these are now."""
    for task in tasks:
        for partition in task.plan.partitions(task.id.partition):
            if partition in committed and partition not in task.absent:
                noted = TopicPartitionMetadata.decode(committed[partition].metadata)
                if noted.point is not None and noted.topic_id == task.topic_ids.get(partition.topic, ""):
                    yield (partition, noted.point), partition


def note_lost(task: Task, partition: TopicPartition, count: int) -> None:
    """Counts records of an input that its log lost after they were read."""
    drops = task.environment.metrics.drops.of(task.plan.topics[partition.topic])
    drops.counts[DropReason.LOST_AFTER_READ] += count


def from_difference(task: Task, partition: TopicPartition, found: OffsetAndMetadata, first: int) -> OffsetAndMetadata:
    """Returns where an input is read from that has lost records before its offset, and logs it.

    :param found: the committed offset.
    :param first: the first offset whose record is another one.
    """
    note_lost(task, partition, found.offset - first)
    log.warning(
        "records of an input were lost after they were read: its log was truncated and has grown again; it is read from"
        " the first record that is another one",
        extra={
            "task": str(task.id),
            "topic": partition.topic,
            "partition": partition.partition,
            "offset": found.offset,
            "goes_on_at": first,
        },
    )
    metadata = replace(TopicPartitionMetadata.decode(found.metadata), point=None)
    return OffsetAndMetadata(first, metadata.encode())
