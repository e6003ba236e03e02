"""The input partitions of a task: what is buffered of each, which has the next record, and the offsets to commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from processor_api.record import NO_TIMESTAMP
from processor_api.task_id import TopicPartition
from streams.kafka.offset_metadata import ChangelogId, LogPoint, SchemaMark, TopicPartitionMetadata
from streams.kafka.ports import OffsetAndMetadata
from streams.runtime.plan.co_partitioned import KeySample, KeyWatch
from streams.runtime.processing.environment import Environment
from streams.runtime.processing.inputs import BatchLoop, BoundSource, InputQueue, RecordForm
from streams.runtime.processing.time_merge import TimeMerge


class TaskInputs:
    """Holds the queues of a task's input partitions. Filled and emptied by the task's thread."""

    def __init__(self) -> None:
        self.queues: dict[TopicPartition, InputQueue] = {}
        self.known_offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        """The committed offset of each partition, or where the task started if there was none.

        A commit replaces the mapping and does not change it, so any thread may read it.
        """
        self.sent_offsets: Mapping[TopicPartition, OffsetAndMetadata] = {}
        """The offsets that the last commit without a transaction was to change, as long as its answer is not known."""
        self._absent: set[TopicPartition] = set()
        """Partitions that brokers do not know: their topics were deleted."""
        self.only: BatchLoop | None = None
        """The queue of a task that has one alone."""
        self.merge_of: Callable[[Iterable[InputQueue]], TimeMerge] = TimeMerge
        """Makes the choice between several."""
        self.merge = TimeMerge(())
        self.samples: dict[TopicPartition, KeySample] = {}
        """The samples of keys of partitions that are read together."""
        self.forms: Mapping[TopicPartition, RecordForm] = {}
        """The forms of the records of repartition topics."""
        self.run = 1
        """How many records of several inputs are processed between two looks at the clock."""

    def open(
        self,
        sources: Mapping[TopicPartition, BoundSource],
        committed: Mapping[TopicPartition, OffsetAndMetadata],
        environment: Environment,
        watch: KeyWatch | None = None,
    ) -> None:
        """Begins to read partitions at their committed offsets, with the times that these hold (semantics 2).

        :param watch: looks at keys.
        """
        samples = {} if watch is None else {name: watch.sample(*name) for name in sources}
        self.samples = {name: sample for name, sample in samples.items() if sample is not None}
        self.queues = {partition: InputQueue(partition, source, environment) for partition, source in sources.items()}
        for partition, queue in self.queues.items():
            queue.reader.form = self.forms.get(partition)
            if (found := committed.get(partition)) is not None:
                queue.start = queue.ends.delivered = found.offset
                _continue(queue, found)
        self.known_offsets, self.sent_offsets = dict(committed), {}
        self._absent.clear()
        self._choose(environment)

    def add(
        self,
        partition: TopicPartition,
        source: BoundSource,
        committed: OffsetAndMetadata | None,
        environment: Environment,
    ) -> InputQueue:
        """Reads one more partition, from the next record added."""
        queue = self.queues[partition] = InputQueue(partition, source, environment)
        if committed is not None:
            self.known_offsets = {**self.known_offsets, partition: committed}
            queue.start = queue.ends.delivered = committed.offset
            _continue(queue, committed)
        self._choose(environment)
        return queue

    def _choose(self, environment: Environment) -> None:
        queues = list(self.queues.values())
        self.only = BatchLoop(queues[0], environment) if len(queues) == 1 else None
        self.merge = self.merge_of(self.queues.values())

    @property
    def latest_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets for a commit that changes none: while the last answer is not known, those that were sent.

        Those of deleted topics are left out, since brokers refuse them.
        """
        latest = {**self.known_offsets, **self.sent_offsets}
        return {name: one for name, one in latest.items() if name not in self._absent} if self._absent else latest

    def clear(self) -> None:
        """Forgets what is buffered and what is committed."""
        self.queues.clear()
        self._absent.clear()
        self.known_offsets, self.sent_offsets = {}, {}

    def leave_out(self, partitions: Collection[TopicPartition]) -> None:
        """Has commits that change nothing leave out partitions of this task that brokers do not know, until an offset
        of theirs is committed."""
        self._absent.update(name for name in partitions if name in self.queues)

    def note_absent(self, partition: TopicPartition) -> None:
        """Takes that there is no such partition: its topic was deleted, and nothing waits for it."""
        self.queues[partition].caught_up = True
        self.leave_out([partition])

    # ------------------------------------------------------------------ what there is

    def holding_back(self) -> InputQueue | None:
        """Returns the partition without a record that holds stream time back; ``None`` if all have records to process.

        It is one for which others wait; if there is nothing to process at all, the one that had the latest record.
        """
        queues = list(self.queues.values())
        empty = [queue for queue in queues if not queue]
        if len(empty) < len(queues):
            return min(empty, key=lambda queue: queue.partition_time, default=None)
        return max(empty, key=lambda queue: queue.partition_time, default=None)

    def has_records(self) -> bool:
        """Whether anything is buffered."""
        only = self.only
        return bool(only.queue) if only is not None else any(map(len, self.queues.values()))

    def all(self) -> list[InputQueue]:
        """Lists the queues as they are now; any thread may ask."""
        return list(self.queues.values())

    def at_end(self) -> bool:
        """Whether every partition was read and processed to its end."""
        return all(queue.caught_up and not queue for queue in self.queues.values())

    def stream_time(self) -> int:
        """Returns the latest time among the partitions."""
        return max((queue.partition_time for queue in self.queues.values()), default=NO_TIMESTAMP)

    def measure_ends(self, end_of: Callable[[TopicPartition], int | None], now_ms: int) -> None:
        """Notes where the log of each partition ends now, and whether more of it was read.

        :param end_of: returns ``None`` where that is not known; then it is what it was.
        """
        for partition, queue in self.queues.items():
            queue.ends.look(end_of(partition), queue.reader.consumed.records, now_ms)

    # ------------------------------------------------------------------ offsets

    def pass_markers(self) -> None:
        """Moves the positions of partitions that were processed to their ends past markers of transactions."""
        for queue in self.queues.values():
            queue.pass_markers()

    def is_ahead(self, partition: TopicPartition) -> bool:
        """Whether the task has come further in a partition than the offset that is committed."""
        known, at = self.known_offsets.get(partition), self.queues[partition].position
        return known is not None and at is not None and at > known.offset

    def positions(self) -> dict[TopicPartition, int]:
        """Returns the next offset to process of each partition that has moved since the task started."""
        return {name: queue.position for name, queue in self.queues.items() if queue.position is not None}

    def points(self) -> dict[TopicPartition, LogPoint]:
        """Returns the last record that was processed of each partition, with the epoch of its leader, where known."""
        found = {}
        for name, queue in self.queues.items():
            point = None if queue.position is None else queue.ends.epochs.before(queue.position)
            if point is not None:
                found[name] = point
        return found

    def committable(
        self,
        times: Mapping[str, int],
        topic_ids: Mapping[str, str],
        marks: frozenset[int],
        schemas: frozenset[SchemaMark] = frozenset(),
        changelog_ids: frozenset[ChangelogId] = frozenset(),
        *,
        progressed: bool,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the offsets that the next commit changes, with their metadata (semantics 79).

        :param times: of the operators.
        :param marks: of the changelogs that hold records.
        :param schemas: those of the stores.
        :param changelog_ids: those of the changelogs that hold records.
        :param progressed: whether an operator has a later time than in the last commit.
        """
        known = self.known_offsets
        changed: dict[TopicPartition, OffsetAndMetadata] = {}
        for name, queue in self.queues.items():
            before, position = known.get(name), queue.position
            if position is None and progressed and before is not None:  # results were sent on before the first record
                position = before.offset
            if position is not None:
                skip, topic_id = queue.skip_rule(position), topic_ids.get(name.topic)
                form = None if queue.reader.form is None else queue.reader.form.at(position)
                metadata = TopicPartitionMetadata(
                    queue.partition_time,
                    times,
                    topic_id,
                    marks,
                    skip=skip,
                    schemas=schemas,
                    form=form,
                    changelog_ids=changelog_ids,
                    point=queue.ends.epochs.before(position),
                )
                found = OffsetAndMetadata(position, metadata.encode())
                if found != before:
                    changed[name] = found
        return changed

    def committed(self, changed: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Notes which offsets were committed."""
        self.sent_offsets = {}
        if changed:
            self.known_offsets = {**self.known_offsets, **changed}
            self._absent.difference_update(changed)


def _continue(queue: InputQueue, committed: OffsetAndMetadata) -> None:
    metadata = TopicPartitionMetadata.decode(committed.metadata)
    queue.partition_time = metadata.partition_time
    queue.skip(metadata.skip)
    queue.ends.epochs.begin(metadata.point)
