"""Inputs that a pattern of the topology matched, and that do not exist when their task asks where to read them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from processor_api.clock import Clock
from processor_api.task_id import TopicPartition
from processor_api.topology.nodes import SourceNode
from streams.kafka.ports import Consumer, UnknownPartitionError
from streams.runtime.tasks.task import Task

log = logging.getLogger("streams.task")

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
