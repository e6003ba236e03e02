"""Positions outside of their log: records were deleted before they were read, or the log was truncated or replaced.

The client is configured not to reset positions by itself: it has one policy for all topics and hardly reports what
it did. It reports the position and stops reading the partition; what to do is decided here, for each source.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from processor_api.clock import Clock
from processor_api.task_id import TopicPartition
from processor_api.user_code.offset_reset import AutoOffsetReset
from streams.kafka.ports import AT_BEGINNING, Consumer
from streams.runtime.start.refusals import own_records_were_deleted, records_were_deleted
from streams.runtime.start.start_offsets import offsets_by_policy, reset_policy
from streams.runtime.tasks.task import Task

log = logging.getLogger("streams.thread")


class LostOffsets:
    """Moves the consumer of a stream thread to where it can read on.

    :param default: the policy of sources that have none of their own.
    """

    def __init__(self, consumer: Consumer, clock: Clock, default: AutoOffsetReset) -> None:
        self._consumer = consumer
        self._clock = clock
        self._default = default
        self._lost: dict[TopicPartition, int] = {}

    def add(self, partition: TopicPartition, offset: int) -> None:
        """Adds a partition that the client has stopped reading, with the offset that is outside of the log."""
        self._lost[partition] = offset

    def clear(self) -> None:
        """Forgets the partitions: all are read from their committed offsets again."""
        self._lost.clear()

    def find(self, running: Mapping[TopicPartition, Task]) -> list[TopicPartition]:
        """Resumes, by the policy of the source, the partitions whose earlier records are all processed.

        :returns: these partitions.
        :raises StreamsError: if the policy is "none", or the records were the application's own.
        :raises RetryableError: if the cluster does not answer.
        """
        found: list[TopicPartition] = []
        for partition, offset in list(self._lost.items()):
            task = running.get(partition)
            if task is None:
                self._read_control_topic(partition)
            elif task.inputs.queues[partition]:
                # It is true while it has records: these were fetched before the loss, and come first.
                continue
            else:
                self._reset(task, partition, offset)
                found.append(partition)
            del self._lost[partition]
        return found

    def _read_control_topic(self, partition: TopicPartition) -> None:
        """Reads a control topic, which is assigned but belongs to no task, from its beginning."""
        if partition in self._consumer.assignment():
            self._read_from(partition, AT_BEGINNING)

    def _reset(self, task: Task, partition: TopicPartition, offset: int) -> None:
        beginning = self._consumer.beginning_offsets([partition])[partition]
        end = self._consumer.end_offsets([partition])[partition]
        policy = reset_policy(task.plan, partition, self._default)
        if beginning <= offset <= end:  # the log has grown meanwhile
            start, did = offset, "none is needed"
        elif partition.topic in task.plan.repartition_topics:
            raise own_records_were_deleted(task.id, partition, offset, beginning, end)
        elif policy.policy == "none":
            raise records_were_deleted(task.id, partition, offset, beginning, end)
        else:
            if partition.topic in {task.plan.changelogs[store] for store in task.plan.source_changelogs}:
                policy = AutoOffsetReset.earliest()  # a restore reads from there, too: the store must have the same
            start, did = offsets_by_policy(policy, [partition], self._consumer, self._clock)[partition], policy.policy
        log.warning(
            "offset outside of the log: %s",
            "records are skipped" if start > offset else "reading goes on",
            extra={
                "task": str(task.id),
                "topic": partition.topic,
                "partition": partition.partition,
                "offset": offset,
                "beginning": beginning,
                "end": end,
                "policy": did,
                "goes_on_at": start,
            },
        )
        self._read_from(partition, start)
        task.continue_at(partition, start)

    def _read_from(self, partition: TopicPartition, offset: int) -> None:
        """Reads from an offset; the client does not seek in a partition that it has stopped reading."""
        self._consumer.unassign([partition])
        self._consumer.assign({partition: offset})
