"""The intake of a stream thread: records from the consumer to the queues of tasks, and events of the client.

A partition of which enough is buffered is paused until its task has caught up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from itertools import groupby
from typing import Any

from processor_api.clock import Clock
from processor_api.task_id import TopicPartition
from streams.config import clients as client_configs
from streams.kafka.client_errors import client_event, is_event
from streams.log import RepeatedLines
from streams.runtime.processing.inputs import InputQueue
from streams.runtime.tasks.task import Task
from streams.runtime.threads.due_tasks import DueTasks
from streams.runtime.threads.thread_resources import ThreadResources
from streams.runtime.threads.undelivered import LostOffsets, StalledPartitions

# Records gather before the next turn of a stream thread, where turns find few of them.
#
# A turn costs about a tenth of a millisecond whatever it finds: calls of the clients, a look at the clock, at the tasks
# and at what is due. At some thousand records a second each would get a turn of its own, and most of the time would go
# there. So a turn that found few is followed by the next one only after a moment, if some are likely to come meanwhile.
# Records that come more seldom are processed at once (docs/decisions/commits-and-transactions.md, "A thread with few
# records waits a moment for more").

LIKELY = 4
"""Waiting is worthwhile if this many records are likely to arrive, judging by the arrivals since the turn before."""

MANY = 100
"""The number of records in one turn at which the cost of the turn itself is small."""


class Gathering:
    """The moments that one stream thread waits between turns.

    :param gather_ms: the least time from one turn with few records to the next; 0 is none.
    """

    def __init__(self, clock: Clock, gather_ms: int) -> None:
        self._clock = clock
        self._gather_s = gather_ms / 1000
        self._found_at = -math.inf
        self._next = 0.0

    def found(self, records: int) -> None:
        """Notes how many records the client had for a turn."""
        if not self._gather_s:
            return
        now = self._clock.monotonic()
        since_s, self._found_at = now - self._found_at, now
        if records < MANY and records * self._gather_s >= LIKELY * since_s:
            self._next = now + self._gather_s

    def wait(self, most_s: Callable[[], float]) -> None:
        """Waits for the rest of the moment.

        :param most_s: returns until when something else is due.
        """
        if self._next:
            left_s, self._next = self._next - self._clock.monotonic(), 0.0
            if (wait_s := min(left_s, most_s())) > 0:
                self._clock.wait(wait_s)


class Intake:
    """Hands what the consumer of one set of resources has fetched to its tasks.

    :param due: notes which tasks have records.
    :param stands_still: returns whether nothing is processed now.
    """

    def __init__(
        self, resources: ThreadResources, due: DueTasks, repeated: RepeatedLines, stands_still: Callable[[], bool]
    ) -> None:
        config, clock = resources.process.config, resources.process.platform.clock
        self._resources = resources
        self._consumer = resources.clients.consumer
        self._lost = LostOffsets(
            self._consumer, resources.clients.admin, clock, client_configs.auto_offset_reset(config)
        )
        self._max_poll_records = client_configs.max_poll_records(config)
        self._buffered_records_max = config.buffered_records_per_partition
        self._gathering = Gathering(clock, config.poll_gather_ms)
        self._due = due
        self._repeated = repeated
        self._stands_still = stands_still
        self._stalled = StalledPartitions(self._consumer, clock)
        self.paused: set[TopicPartition] = set()
        """Partitions that the consumer does not fetch, since enough of them is buffered."""

    def poll(self, busy: bool, wait_s: Callable[[], float]) -> None:
        """Takes what the consumer has fetched.

        :param busy: whether tasks have work, so that nothing is waited for.
        :param wait_s: returns how long to wait for records otherwise, in seconds.
        """
        resources = self._resources
        for partition in self._lost.find(resources.tasks.running):
            self.paused.discard(partition)
            self._due.touched(resources.tasks.running[partition])
        consumer, limit = self._consumer, self._max_poll_records
        if not busy:
            self._gathering.wait(wait_s)
        messages: Sequence[Any] = consumer.consume(limit, 0.0)
        if not messages:
            if busy:
                return
            # `poll` comes back with the first record; `consume` would wait until it has all that were asked for.
            first = consumer.poll(wait_s())
            if first is None:
                return
            messages = (first, *consumer.consume(limit, 0.0))
        if not self.paused:  # else there is a backlog, of which few come at a time
            self._gathering.found(len(messages))
        self._route(messages)

    def forget(self) -> None:
        """Forgets all partitions: they are read from their committed offsets again."""
        self._lost.clear()
        self._stalled.clear()
        self.paused.clear()

    def watch(self, now: float, tasks: Collection[Task]) -> None:
        """Finds partitions that the consumer does not deliver, if it is time.

        :param now: of the monotonic clock, in seconds.
        """
        self._stalled.check(now, tasks, self.paused)

    def resume(self) -> None:
        """Resumes the partitions of which no longer too much is buffered."""
        if not self.paused:
            return
        running = self._resources.tasks.running
        ready = [p for p in self.paused if p not in running or not self._full(running[p].inputs.queues[p])]
        self._consumer.resume([partition for partition in ready if partition in running])
        self.paused.difference_update(ready)

    def _route(self, messages: Sequence[Any]) -> None:
        """Passes records and events on in the order in which the client delivered them.

        The end of a partition is not the end of records that came after it. Where there are no events but ends, which
        come after nearly every record where few come, the order is kept in each partition alone.
        """
        errors = [error for message in messages if (error := message.error()) is not None]
        if not errors:
            return self._take(messages)
        eof = self._consumer.partition_eof
        if all(error.code() == eof for error in errors):
            return self._take_with_ends(messages)
        for happened, run in groupby(messages, is_event):
            if happened:
                for event in run:
                    self._event(event)
            else:
                self._take(list(run))

    def _take(self, messages: Sequence[Any]) -> None:
        kind = type(messages[0])
        for number, by_partition in groupby(messages, kind.partition):
            for topic, run in groupby(by_partition, kind.topic):
                self._add(TopicPartition(topic, number), list(run))

    def _take_with_ends(self, messages: Sequence[Any]) -> None:
        batches: dict[TopicPartition, list[Any]] = {}
        ends: dict[TopicPartition, Any] = {}
        for message in messages:
            partition = TopicPartition(message.topic(), message.partition())
            if message.error() is not None:
                ends[partition] = message
            else:
                ends.pop(partition, None)
                batches.setdefault(partition, []).append(message)
        for partition, batch in batches.items():
            self._add(partition, batch)
        for event in ends.values():
            self._event(event)

    def _add(self, partition: TopicPartition, batch: Sequence[Any]) -> None:
        task = self._resources.tasks.running.get(partition)
        if task is None:
            return self._resources.membership.take(partition, batch)
        batch = self._lost.checked(task, task.inputs.queues[partition], batch)
        if not batch:
            return
        queue = task.add(partition, batch)
        self._resources.idling.arrived(partition)
        self._due.got_records(task)
        waits = len(task.inputs.queues) > 1 or self._stands_still()
        if waits or len(queue) > len(batch):
            queue.measure(batch)
            if self._full(queue, 0 if waits else len(batch)):
                self._pausing(partition)

    def _full(self, queue: InputQueue, new: int = 0) -> bool:
        """Whether a partition buffers more than it may.

        A task with one partition processes new records at once, unless that takes long.
        """
        limit = self._resources.input_bytes_limit()
        return len(queue) - new > self._buffered_records_max or 0 <= limit < queue.buffered_bytes()

    def _pausing(self, partition: TopicPartition) -> None:
        if partition not in self.paused:
            self.paused.add(partition)
            self._consumer.pause([partition])

    def _event(self, event: Any) -> None:
        error, partition = event.error(), TopicPartition(event.topic() or "", event.partition() or 0)
        if error.code() == self._consumer.partition_eof:
            task = self._resources.tasks.running.get(partition)
            if (
                task is not None
                and self._lost.at_end(task, task.inputs.queues[partition], event.offset())
                and task.reached_end(partition, event.offset())
            ):
                self._due.touched(task)
            return
        if error.name() == "UNKNOWN_TOPIC_OR_PART" and partition in self._resources.tasks.running:
            self._resources.tasks.running[partition].inputs.note_absent(partition)
        if event.topic() and partition not in self._resources.tasks.running and error.name() != "_FATAL":
            self._repeated.log("cannot read", partition=str(partition), error=error.str())
            return
        client_event(error, partition, self._repeated)
