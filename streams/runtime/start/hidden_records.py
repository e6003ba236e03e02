"""Changelogs that hide committed records behind an open transaction.

A reader of committed records stops before the first record of an open transaction. In a changelog, such a transaction
belongs to a former owner of the task that has died or has not noticed yet that it lost the task; or it is committed and
its marker is not written yet. Records that later owners committed come after it in the log, so a store that is restored
now would lack them: its task waits until the transaction has ended, which takes ``transaction.timeout.ms`` at most.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from processor_api.clock import Clock
from processor_api.task_id import TaskId, TopicPartition
from streams.kafka.ports import Consumer
from streams.runtime.tasks.task import Task

log = logging.getLogger("streams.restore")

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
