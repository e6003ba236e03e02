"""Publishes the outputs of a backfill to Kafka, each record once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from processor_api.task_id import TopicPartition
from streams.kafka.offset_metadata import TopicPartitionMetadata, changelog_mark
from streams.kafka.own_names import publishing_id
from streams.kafka.ports import OffsetAndMetadata
from streams.spark.errors import BackfillMismatchError
from streams.spark.handover.cluster import Cluster
from streams.spark.handover.finished_run import FinishedRun, RunRow
from streams.spark.handover.plan import HandoverPlan
from streams.spark.handover.rows import send_numbered


class OutputPublisher:
    """Writes the records that sinks wrote in a backfill to their topics.

    Records and the number of those that are published are written in one transaction, the number in the notes of the
    handover: a call after a kill continues after the last committed one.

    :param topics: the topics to publish.
    :raises BackfillMismatchError: if a topic is not one of the topology's, or the backfill has kept no outputs.
    """

    def __init__(self, cluster: Cluster, plan: HandoverPlan, run: FinishedRun, topics: frozenset[str]) -> None:
        self._cluster = cluster
        self._plan = plan
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

    def resumed(self, note: str) -> int:
        """Returns how many records an earlier call has published.

        :param note: the note that it has left; empty if there was none.
        :raises BackfillMismatchError: if it was asked to publish other topics.
        """
        parts = note.split(" ")
        if len(parts) < 3:
            return 0
        if parts[2] != self._mark:
            raise BackfillMismatchError(
                f"an earlier call has published {parts[1]} records of other topics: give the same publish_outputs, so"
                " that none is written twice or left out"
            )
        return int(parts[1])

    @property
    def _mark(self) -> str:
        """The identity of the topics to publish, for notes."""
        return f"{changelog_mark(','.join(self._topics)):08x}"

    def notes(self, done: int) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the offsets that say that the handover has begun, and how many records are published."""
        handover = f"{self._run.run_id} {done} {self._mark}" if done else self._run.run_id
        text = TopicPartitionMetadata(handover=handover).encode()
        return {place: OffsetAndMetadata(0, text) for _, place in self._plan.inputs()}

    def publish(self, done: int) -> dict[str, int]:
        """Writes the records behind the first ``done``."""
        if not self._topics:
            return {}
        rows = islice(self._rows(), done, None)
        id_ = publishing_id(self._cluster.config.application_id)
        with self._cluster.producing(self._topics, transactional_id=id_) as producer:
            producer.init_transactions()

            def commit(number: int) -> None:
                producer.send_offsets(self.notes(number), self._cluster.reader.group_metadata())

            send_numbered(producer, rows, done, commit)
        return self.counts()

    def _rows(self) -> Iterator[tuple[str, RunRow]]:
        """Yields all records, always in the same order."""
        for topic in self._topics:
            for task in self._run.tasks:
                for row in task.records(topic):
                    yield topic, row
