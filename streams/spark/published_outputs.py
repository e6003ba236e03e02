"""Publishes the outputs of a backfill to Kafka, each record once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from processor_api.task_id import TopicPartition
from streams.kafka.ports import OffsetAndMetadata
from streams.spark.cluster import Cluster
from streams.spark.finished_run import FinishedRun, RunRow
from streams.spark.handover_errors import BackfillMismatchError
from streams.spark.handover_plan import HandoverPlan
from streams.spark.handover_rows import Sender

__all__ = ["OutputPublisher", "progress_of"]

CHUNK_ROWS = 50_000

Notes = Callable[[int], Mapping[TopicPartition, OffsetAndMetadata]]


def progress_of(handover: str) -> int:
    """Returns how many output records were published, by the note of a handover that is not complete."""
    _, _, number = handover.partition(" ")
    return int(number) if number.isdigit() else 0


class OutputPublisher:
    """Writes the records that sinks wrote in a backfill to their topics.

    Records and the number of those that are published are written in one transaction, the number in the notes of the
    handover: a call after a kill goes on behind the last one that was committed.

    :param topics: the topics to publish.
    :raises BackfillMismatchError: if a topic is not one of the topology's, or the backfill has kept no outputs.
    """

    def __init__(self, cluster: Cluster, plan: HandoverPlan, run: FinishedRun, topics: frozenset[str]) -> None:
        self._cluster = cluster
        self._run = run
        self._topics = sorted(topics)
        unknown = sorted(topics - plan.written_topics)
        if unknown:
            raise BackfillMismatchError(
                f"the topology does not write topic {unknown[0]!r}; it writes"
                f" {', '.join(sorted(plan.written_topics)) or 'none'}",
                topic=unknown[0],
            )
        options = run.run.get("options")
        if topics and isinstance(options, Mapping) and options.get("outputs") == "none":
            raise BackfillMismatchError(
                "the backfill was run with outputs='none', so there is nothing to publish: run it with outputs='all'"
            )

    def counts(self) -> dict[str, int]:
        """Returns how many records there are of each topic."""
        return {topic: sum(task.counts.get(topic, 0) for task in self._run.tasks) for topic in self._topics}

    def publish(self, done: int, notes: Notes) -> dict[str, int]:
        """Writes the records behind the first ``done``.

        :param notes: returns the offsets to commit with so many records.
        """
        if not self._topics:
            return {}
        rows = islice(self._rows(), done, None)
        with self._cluster.producing(transactional=True) as producer:
            producer.init_transactions()
            while chunk := list(islice(rows, CHUNK_ROWS)):
                done += len(chunk)
                producer.begin_transaction()
                try:
                    for topic in self._topics:
                        sender = Sender(producer, topic)
                        sender.send(row for name, row in chunk if name == topic)
                        sender.finish()
                    producer.send_offsets(notes(done), self._cluster.reader.group_metadata())
                    producer.commit_transaction()
                except BaseException:
                    producer.abort_transaction()
                    raise
        return self.counts()

    def _rows(self) -> Iterator[tuple[str, RunRow]]:
        """Yields all records, always in the same order."""
        for topic in self._topics:
            for task in self._run.tasks:
                for row in task.rows(topic, "record"):
                    yield topic, row
