"""Records that the consumer does not deliver: they were deleted before they were read, or their partition has stopped.

A position leaves its log when records are deleted, or the log is truncated or replaced. The consumer moves such a
position to the beginning of the log by itself and reports nothing. A client that reports it stops the partition
instead, and a member of a group cannot start it again: the removal that this takes would answer a revocation
(docs/decisions/clients-and-brokers.md, "Gaps in fetched offsets reveal deleted records"). So the offsets that arrive
are compared with those that should, and what to do is decided here, for each source.

A client may also stop a partition for a reason that it does not report. The application then runs, with a lag that does
not show, so such a partition is named in the log, counted, and makes the worker not ready.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from processor_api.clock import Clock
from processor_api.errors import RetryableError, StreamsError
from processor_api.record import DropReason
from processor_api.task_id import TopicPartition
from processor_api.user_code.offset_reset import AutoOffsetReset
from streams.kafka.ports import Admin, Consumer, TransactionAborted
from streams.runtime.processing.inputs import InputQueue
from streams.runtime.start.refusals import own_records_were_deleted, records_were_deleted, records_were_replaced
from streams.runtime.start.start_offsets import offsets_by_policy, reset_policy
from streams.runtime.start.truncated_logs import note_lost
from streams.runtime.tasks.task import Task

log = logging.getLogger("streams.thread")

STALLED_S = 10.0
"""How long a partition may deliver neither records nor its end before its end is requested."""
QUIET_S = 60.0
"""How long one that was read to its end may deliver nothing before its end is requested."""
CHECK_INTERVAL_S = 1.0
ASK_TIMEOUT_S = 0.5
_BEHIND_ALL = (1 << 63) - 1
"""An offset that no log reaches."""
AGAIN_S = 60.0
"""How often a partition is named that remains stalled."""


class Found(NamedTuple):
    """A range of offsets that a partition should have delivered and that its log does not have."""

    expected: int
    """The offset that should have been next."""
    resumed: int
    """The offset at which the consumer continues: that of the next record, or the end of the log."""
    before: int
    """How many messages of the batch come before the gap."""


class LostOffsets:
    """Finds the partitions of a stream thread whose positions have left their logs, and continues them by the policies
    of their sources.

    :param admin: knows where logs were truncated.
    :param default: the policy of sources that have none of their own.
    """

    def __init__(self, consumer: Consumer, admin: Admin, clock: Clock, default: AutoOffsetReset) -> None:
        self._consumer = consumer
        self._admin = admin
        self._clock = clock
        self._default = default
        self._lost: dict[TopicPartition, Found] = {}
        """Partitions to be read from another offset, by what was found."""
        self._went_back: dict[TopicPartition, tuple[int, int]] = {}
        """Where offsets went back last: the offset that should have been next, and the one that came."""

    def clear(self) -> None:
        """Forgets the partitions: all are read from their committed offsets again."""
        self._lost.clear()
        self._went_back.clear()

    # ------------------------------------------------------------------ what arrives

    def checked(self, task: Task, queue: InputQueue, batch: Sequence[Any]) -> Sequence[Any]:
        """Returns the messages of a batch that the task may process; to be called for each batch, in order.

        Those behind a gap stay where the policy of the source continues at the beginning of the log anyway. Otherwise
        they are left out, and :meth:`find` says where to read on.
        """
        expected = queue.ends.delivered
        if queue.partition in self._lost:
            return ()
        first, last = batch[0].offset(), batch[-1].offset()
        queue.ends.delivered = last + 1
        if expected is None or (first == expected and last - first == len(batch) - 1):
            return batch
        found = self._gap(queue.partition, expected, batch)
        return batch if found is None else self._met(task, queue, found, batch)

    def _gap(self, partition: TopicPartition, expected: int, batch: Sequence[Any]) -> Found | None:
        """Returns where the log has lost records.

        :returns: ``None`` where the missing offsets are markers of transactions, or records that were aborted or
            compacted.
        """
        first, last = batch[0].offset(), batch[-1].offset()
        start = self._consumer.log_start(partition)
        if (start is None or start <= expected) and expected <= first and last - first >= len(batch) - 1:
            return None
        for index, message in enumerate(batch):
            offset = message.offset()
            if offset < expected or (start is not None and expected < min(start, offset)):
                return Found(expected, offset, index)
            expected = offset + 1
        return None

    def _met(self, task: Task, queue: InputQueue, found: Found, batch: Sequence[Any]) -> Sequence[Any]:
        partition = queue.partition
        went_back = found.resumed < found.expected  # the log was truncated: its leader may know where
        if not went_back and self._begins_again(task, partition):
            start = self._consumer.log_start(partition)
            end = self._consumer.high_watermark(partition)
            self._log(task, partition, found.expected, start, end, "earliest", found.resumed)
            return batch
        self._lost[partition] = found
        queue.ends.delivered = found.expected
        return batch[: found.before]

    def at_end(self, task: Task, queue: InputQueue, offset: int) -> bool:
        """Returns whether the end of a partition may be taken for the end of what was read before it.

        :param offset: the end that the consumer has reported.
        """
        expected, partition = queue.ends.delivered, queue.partition
        if partition in self._lost:
            return False
        if expected is None or offset == expected:
            return True
        start = self._consumer.log_start(partition)
        queue.ends.delivered = offset
        if offset >= expected and (start is None or start <= expected):
            return True
        self._met(task, queue, Found(expected, offset, 0), ())
        if partition in self._lost:
            return False
        if not queue:  # The next commit must not keep a position that the log does not have.
            task.continue_at(partition, offset)
        return True

    def _begins_again(self, task: Task, partition: TopicPartition) -> bool:
        """Whether the policy of a partition's source is where the consumer has gone by itself."""
        if partition.topic in task.plan.repartition_topics:
            return False  # the records were the application's own
        policy = reset_policy(task.plan, partition, self._default).policy
        return policy == "earliest" or (policy != "none" and self._is_changelog(task, partition))

    @staticmethod
    def _is_changelog(task: Task, partition: TopicPartition) -> bool:
        """Whether a source topic is the changelog of its table: a restore reads all of it, and the store must have the
        same."""
        return partition.topic in {task.plan.changelogs[store] for store in task.plan.source_changelogs}

    # ------------------------------------------------------------------ what follows

    def find(self, running: Mapping[TopicPartition, Task]) -> list[TopicPartition]:
        """Continues, by the policies of their sources, the partitions whose earlier records are all processed.

        :returns: these partitions.
        :raises StreamsError: if the policy is "none", or the records were the application's own.
        :raises TransactionAborted: if a store has rows of records that were lost: its task starts again.
        :raises RetryableError: if the cluster does not answer.
        """
        continued: list[TopicPartition] = []
        for partition, found in list(self._lost.items()):
            task = running.get(partition)
            if task is None:
                del self._lost[partition]
            elif not task.inputs.queues[partition]:  # what was fetched before comes first
                self._reset(task, partition, found)
                del self._lost[partition]
                continued.append(partition)
        return continued

    def _reset(self, task: Task, partition: TopicPartition, found: Found) -> None:
        offset = found.expected
        beginning = self._consumer.beginning_offsets([partition])[partition]
        end = self._consumer.end_offsets([partition])[partition]
        policy = reset_policy(task.plan, partition, self._default)
        first = self._first_other(task, partition, offset)
        if first is not None and beginning <= first < offset:
            start, did = self._truncated(task, partition, offset, first), "none is needed"
        elif self._has_disorder(partition, found, first) and beginning <= offset <= end:
            return self._skip_disorder(task, partition, found)
        elif self._begins_again(task, partition):
            start, did = beginning, "earliest"
        elif beginning <= offset <= end:  # the log has grown meanwhile
            start, did = offset, "none is needed"
        elif partition.topic in task.plan.repartition_topics:
            raise own_records_were_deleted(task.id, partition, offset, beginning, end)
        elif policy.policy == "none":
            raise records_were_deleted(task.id, partition, offset, beginning, end)
        else:
            start, did = offsets_by_policy(policy, [partition], self._consumer, self._clock)[partition], policy.policy
        self._log(task, partition, offset, beginning, end, did, start)
        self._consumer.seek(partition, start)
        task.continue_at(partition, start)

    def _first_other(self, task: Task, partition: TopicPartition, expected: int) -> int | None:
        """Returns the first offset whose record is another one than that which was read; the expected offset if there
        is none, and ``None`` if that is not known."""
        queue = task.inputs.queues[partition]
        point = None if queue.next_offset is None else queue.ends.epochs.before(queue.next_offset)
        if point is None:
            return None
        ends = self._admin.divergences([(partition, point._replace(offset=_BEHIND_ALL))])
        end = next(iter(ends.values()), None)  # of the records of the leader that wrote the last one
        return end if end is None or end <= point.offset else expected

    def _has_disorder(self, partition: TopicPartition, found: Found, first_other: int | None) -> bool:
        """Whether offsets go back within the log itself: a broker takes such a batch from a faulty client.

        Where the leader does not tell whether the log was truncated, the partition is read from the beginning once: if
        the offsets go back there again, they are in the log.
        """
        if found.resumed >= found.expected:
            return False
        went_back = found.expected, found.resumed
        again = self._went_back.get(partition) == went_back
        self._went_back[partition] = went_back
        return again or first_other == found.expected

    def _skip_disorder(self, task: Task, partition: TopicPartition, found: Found) -> None:
        log.warning(
            "offsets go back within the log: a client has written a batch whose offsets are not in order. Its records"
            " that come too late are skipped, as Kafka's own consumer does",
            extra={
                "task": str(task.id),
                "topic": partition.topic,
                "partition": partition.partition,
                "offset": found.resumed,
                "goes_on_at": found.expected,
            },
        )
        self._consumer.seek(partition, found.expected)
        task.continue_at(partition, found.expected)

    def _truncated(self, task: Task, partition: TopicPartition, offset: int, first: int) -> int:
        """Returns where a partition is read from whose log was truncated, and may have grown again."""
        is_own = partition.topic in task.plan.repartition_topics
        if is_own or reset_policy(task.plan, partition, self._default).policy == "none":
            raise records_were_replaced(task.id, partition, offset, first, is_own=is_own)
        if self._is_changelog(task, partition):
            raise TransactionAborted(
                f"the log of {str(partition)!r} was truncated at offset {first}, and a table has rows of the lost"
                " records",
                **partition._asdict(),
            )
        note_lost(task, partition, max(0, offset - first))
        return first

    @staticmethod
    def _log(
        task: Task, partition: TopicPartition, offset: int, beginning: int | None, end: int | None, did: str, start: int
    ) -> None:
        if start > offset:
            drops = task.environment.metrics.drops.of(task.inputs.queues[partition].reader.source.node)
            drops.counts[DropReason.DELETED_UNREAD] += start - offset
        skipped, continued = "offset outside of the log: records are skipped", "offset outside of the log"
        log.warning(
            skipped if start > offset else continued,
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


@dataclass
class _Wait:
    """The time for which a partition has delivered nothing."""

    queue: InputQueue
    fetched: int | None
    since_s: float
    end: int | None = None
    """Its end, if it was requested once: more than was delivered."""
    log_at_s: float = 0.0

    @property
    def limit_s(self) -> float:
        """The seconds after which its end is requested."""
        return QUIET_S if self.queue.caught_up else STALLED_S


class StalledPartitions:
    """Watches the input partitions of a stream thread, and marks those that are stalled (`KnownEnds.stalled`).

    :param consumer: that of the thread.
    """

    def __init__(self, consumer: Consumer, clock: Clock) -> None:
        self._consumer = consumer
        self._clock = clock
        self._next = 0.0
        self._waits: dict[TopicPartition, _Wait] = {}

    def clear(self) -> None:
        """Forgets the partitions: their tasks are opened again."""
        for wait in self._waits.values():
            wait.queue.ends.stalled = False
        self._waits.clear()

    def check(self, now: float, tasks: Collection[Task], held_back: Collection[TopicPartition]) -> None:
        """Checks the partitions of running tasks, if it is time.

        :param now: of the monotonic clock, in seconds.
        :param held_back: partitions that are paused on purpose.
        """
        if now < self._next:
            return
        self._next = now + CHECK_INTERVAL_S
        before, self._waits = self._waits, {}
        for task in tasks:
            for partition, queue in task.inputs.queues.items():
                wait = before.get(partition)
                if queue or partition in held_back or partition in task.absent:
                    continue
                if wait is None or wait.queue is not queue or wait.fetched != queue.ends.delivered:
                    wait = _Wait(queue, queue.ends.delivered, now)
                self._waits[partition] = wait
        for partition, wait in before.items():
            if wait.queue.ends.stalled and self._waits.get(partition) is not wait:
                wait.queue.ends.stalled = False
                log.info("partition is read again", extra={"partition": str(partition)})
        late = {name: wait for name, wait in self._waits.items() if now - wait.since_s >= wait.limit_s}
        if late:
            self._ask(now, late)

    def _ask(self, now: float, late: Mapping[TopicPartition, _Wait]) -> None:
        try:
            ends = self._consumer.end_offsets(list(late), ASK_TIMEOUT_S)
        except RetryableError:  # an outage, which the client reports
            self._next = now + STALLED_S
            return
        except StreamsError as error:
            log.debug("ends of stalled partitions are not known", extra={"error": str(error)})
            return
        for partition, wait in late.items():
            position = self._consumer.position(partition)
            fetched = max(one for one in (position, wait.fetched, 0) if one is not None)
            if ends[partition] <= fetched:
                wait.since_s, wait.end = now, None  # the event of its end was lost
            elif wait.end is None or wait.end <= fetched:
                wait.end = ends[partition]  # records may have come just now: they have until the next check
            else:
                self._report(now, partition, wait, ends[partition])

    @staticmethod
    def _report(now: float, partition: TopicPartition, wait: _Wait, end: int) -> None:
        wait.queue.ends.stalled = True
        if now < wait.log_at_s:
            return
        wait.log_at_s = now + AGAIN_S
        log.warning(
            "partition is not read: it has records, and the client delivers none. See whether its leader is reached"
            " (`streams doctor`); if nothing else is wrong, restart the worker and report it with the client's log"
            " (consumer.debug=fetch,cgrp)",
            extra={
                "topic": partition.topic,
                "partition": partition.partition,
                "position": wait.fetched,
                "end": end,
                "stalled_s": round(now - wait.since_s),
            },
        )
