"""Publishes the corrections of a table to its topic, each record once.

The steps, each of which may be killed and is continued by the next call:

1. The records are made and kept in the run directory (:mod:`streams.spark.corrections.kept_records`).
2. A producer ends an open transaction of an earlier call, and the number of records that were sent is read: an offset
   of a group that belongs to these records only.
3. Number 0 is committed, and then noted in the run directory as begun. A begun publishing without a number is rejected:
   the broker has forgotten it, so the number of records in the topic is not known.
4. The records are sent in transactions, each of which also commits their number.
5. The publishing is noted in the run directory as complete.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from processor_api.clock import Clock, SystemClock
from processor_api.errors import StreamsError
from processor_api.task_id import TopicPartition
from processor_api.texts import repr_of
from processor_api.topology.nodes import SinkNode
from processor_api.topology.topology import Topology
from state.directory.file_lock import FileLock, holder_of
from streams.config import StreamsConfig
from streams.kafka.own_names import corrections_group
from streams.kafka.ports import Consumer, KafkaClients, OffsetAndMetadata, Producer
from streams.spark.corrections.encoding import encoded, encoder_of, is_difference, rows_of_difference, rows_of_topic
from streams.spark.corrections.kept_records import BEGUN, PUBLISHED, CorrectionRecords, Counted, KeptCorrections
from streams.spark.corrections.sinks import sink_of, with_serdes
from streams.spark.errors import PositionError, RunDirConflict, SparkBridgeError, UnknownPartitionCount
from streams.spark.handover.check import progress_beside
from streams.spark.handover.cluster import Cluster
from streams.spark.handover.finished_run import RunRow
from streams.spark.handover.rows import send_numbered
from streams.spark.rows.columns import column_of
from streams.spark.rows.store_layouts import table_layout
from streams.spark.runs.run_directory import RunDirectory

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

log = logging.getLogger("streams.spark")


@dataclass(frozen=True)
class CorrectionsReport:
    """The records that correct a topic, as :meth:`BackfillResult.publish_corrections` returns it."""

    store: str
    topic: str
    records: int
    """The number of all records, tombstones among them."""
    tombstones: int
    """The number of records with a null value: keys that only the live table has."""
    partitions: Mapping[int, int] = field(default_factory=dict)
    """The number of records by partition of the topic."""
    first: tuple[str, ...] = ()
    """The first few records, as their serdes show them."""
    written: int = 0
    """The number of records that this call wrote; less than all if an earlier call had written some."""
    complete: bool = False
    """Whether all records are in the topic. False after a dry run, unless an earlier call has written all."""
    dry_run: bool = False

    def __str__(self) -> str:
        places = ", ".join(f"partition {number}: {count:,}" for number, count in sorted(self.partitions.items()))
        lines = [
            f"corrections of {self.store!r} for topic {self.topic!r}: {self.records:,} records, {self.tombstones:,} of"
            f" them tombstones{f' ({places})' if places else ''}",
            *(f"  {one}" for one in self.first),
        ]
        if len(self.first) < self.records:
            lines.append(f"  ... and {self.records - len(self.first):,} more")
        return "\n".join([*lines, self._outcome])

    @property
    def _outcome(self) -> str:
        if not self.records:
            return "nothing differs, so nothing is written"
        if self.complete and not self.written:
            return "all of them were published by an earlier call: nothing is written"
        if self.dry_run:
            return "dry run: nothing was written; dry_run=False writes the records"
        before = self.records - self.written
        return f"{self.written:,} records written{f', {before:,} by an earlier call' if before else ''}"


@dataclass(frozen=True)
class CorrectedTable:
    """The table of a backfill whose corrections are published."""

    store: str
    run: RunDirectory
    topology: Topology
    settings: StreamsConfig
    """The configuration of the backfill, which has the default serdes."""


def publish_corrections(
    table: CorrectedTable,
    rows: DataFrame | pa.Table | None,
    config: StreamsConfig,
    *,
    topic: str | None = None,
    dry_run: bool = True,
    positions: str = "check",
    clients: KafkaClients | None = None,
    clock: Clock | None = None,
) -> CorrectionsReport:
    """Publishes rows that correct a table, as :meth:`streams.spark.BackfillResult.publish_corrections` describes it.

    :param config: that of the live application.
    :param clients: makes the Kafka clients; librdkafka's by default.
    """
    if positions not in ("check", "ignore"):
        raise SparkBridgeError(f"positions must be 'check' or 'ignore', got {repr_of(positions)}", store=table.store)
    with Cluster(config, clients, read_only=dry_run) as cluster:
        steps = _Publishing(table, cluster, KeptCorrections(table.run), clock or SystemClock())
        if rows is None:
            return steps.resume(topic, dry_run=dry_run)

        def check_position() -> None:
            if positions == "check":
                _check_position(table, config, clients)

        return steps.publish(rows, topic, check_position, dry_run=dry_run)


def _check_position(table: CorrectedTable, config: StreamsConfig, clients: KafkaClients | None) -> None:
    """Rejects corrections of an application that has processed other records than the backfill.

    :raises PositionError: if it has, by how much.
    """
    run_dir = str(table.run.path)
    found = [one for one in progress_beside(run_dir, config, table.topology, clients=clients) if one[2] is not None]
    if found:
        shown = "; ".join(
            f"{place}: {ended} in the result, {offset} in the application" for place, ended, offset in found
        )
        raise PositionError(
            f"application {config.application_id!r} has processed other records than the result ({shown}), so a"
            " correction could replace a later value of its key. Stop the application, run the backfill up to its"
            " position and compare again; or positions='ignore' publishes the corrections as of the result",
            store=table.store,
        )


class _Publishing:
    """Publishes the corrections of one table."""

    def __init__(self, table: CorrectedTable, cluster: Cluster, kept: KeptCorrections, clock: Clock) -> None:
        self._table = table
        self._cluster = cluster
        self._kept = kept
        self._clock = clock

    # ------------------------------------------------------------------ calls

    def publish(
        self, rows: DataFrame | pa.Table, topic: str | None, check_position: Any, *, dry_run: bool
    ) -> CorrectionsReport:
        """Publishes the records of rows, or returns what they would be."""
        mapped = not is_difference(rows)
        sink = self._sink(topic, mapped=mapped)
        name, partitions, id_ = self._topic(sink)
        store, counted = self._table.store, Counted()
        layout = None if mapped else table_layout(self._table.settings, self._table.topology, store)
        chosen = rows_of_topic(rows, name) if layout is None else rows_of_difference(rows, layout)
        records = counted.passing(encoded(chosen, encoder_of(sink, self._table.settings, partitions, layout)))
        if dry_run:
            for _ in records:
                pass
            check_position()
            done = [one for one in self._kept.all() if one.id == counted.id_for(name, id_)]
            return self._report(
                sink, counted.first, counted.sum.rows, counted.tombstones, counted.partitions,
                complete=any(one.state == PUBLISHED for one in done), dry_run=True,
            )  # fmt: skip
        with self._locked():
            kept = self._kept.keep(store, name, id_, records, self._clock.time_ms())
            self._step("records kept")
            if kept.state is None:
                self._refuse_unfinished(name)
                check_position()
            return self._send(kept, sink, counted.first)

    def resume(self, topic: str | None, *, dry_run: bool) -> CorrectionsReport:
        """Publishes what is left of the corrections that an earlier call began to publish."""
        found = self._kept.unfinished(self._table.store, topic)
        if len(found) != 1:
            left = ", ".join(f"{one.records} records for topic {one.topic!r}" for one in found) or "none"
            raise SparkBridgeError(
                f"without rows, corrections are continued that an earlier call began to publish, and of store"
                f" {self._table.store!r} there are: {left}. Give the rows{', or topic=' if found else ''}",
                store=self._table.store,
            )
        kept = found[0]
        sink = self._sink(kept.topic, mapped=True)
        first = [row for _, row in islice(kept.records(), 5)]
        if dry_run:
            partitions = {int(number): count for number, count in kept.partitions.items()}
            return self._report(sink, first, kept.rows, kept.tombstones, partitions, dry_run=True)
        with self._locked():
            return self._send(kept, sink, first)

    # ------------------------------------------------------------------ steps

    def _sink(self, topic: str | None, *, mapped: bool) -> SinkNode:
        return sink_of(self._table.topology, self._table.store, topic, mapped=mapped)

    def _topic(self, sink: SinkNode) -> tuple[str, int, str]:
        """Returns the name of a sink's topic, how many partitions it has, and its id."""
        name = sink.topic or ""
        found = self._cluster.admin.topics([name]).get(name)
        if found is None:
            raise UnknownPartitionCount(f"topic {name!r} does not exist: create it before publishing to it", topic=name)
        return name, found.partitions, self._cluster.admin.topic_ids([name]).get(name, "")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keeps other processes from publishing corrections of the same result."""
        try:
            self._kept.path.mkdir(exist_ok=True)
            lock = FileLock.try_acquire(self._kept.path / ".lock")
        except OSError as error:
            raise RunDirConflict(f"{str(self._kept.path)!r} cannot be written: {error}") from error
        if lock is None:
            raise RunDirConflict(
                f"{holder_of(self._kept.path / '.lock')} publishes corrections of {str(self._table.run.path)!r}: wait"
                " until it has ended"
            )
        with lock:
            yield

    def _refuse_unfinished(self, topic: str) -> None:
        """Rejects other corrections for a topic while some are not complete."""
        for one in self._kept.unfinished(self._table.store, topic):
            raise RunDirConflict(
                f"an earlier call began to publish {one.rows} other corrections of store {one.store!r} to topic"
                f" {one.topic!r}: complete these first, by publish_corrections({one.store!r}, None, ...,"
                " dry_run=False)",
                store=one.store,
                topic=one.topic,
            )

    def _send(self, kept: CorrectionRecords, sink: SinkNode, first: list[RunRow]) -> CorrectionsReport:
        written = 0
        if kept.rows and kept.state != PUBLISHED:
            group = corrections_group(self._cluster.config.application_id, kept.id)
            with (
                self._cluster.producing([kept.topic], transactional_id=group) as producer,
                self._cluster.offsets_of(group) as offsets,
            ):
                written = self._send_left(kept, producer, offsets)
            kept.note(PUBLISHED)
            self._step("published")
        partitions = {int(number): count for number, count in kept.partitions.items()}
        return self._report(sink, first, kept.rows, kept.tombstones, partitions, written=written, complete=True)

    def _send_left(self, kept: CorrectionRecords, producer: Producer, offsets: Consumer) -> int:
        """Sends the records that no earlier call has sent; returns how many these were."""
        producer.init_transactions()  # Before the number is read, because a killed call may have changed it.
        self._step("earlier transactions ended")
        place = TopicPartition(kept.topic, 0)
        found = offsets.committed([place]).get(place)
        if found is None and kept.state == BEGUN:
            raise StreamsError(
                f"the broker has forgotten how many of {kept.rows} corrections an earlier call has published to topic"
                f' {kept.topic!r}. Compare the topic with {str(kept.path)!r}; then write {{"state": "{PUBLISHED}"}}'
                f" to its state.json if they are there, or else delete that file to publish all of them",
                topic=kept.topic,
            )

        def commit(number: int) -> None:
            producer.send_offsets({place: OffsetAndMetadata(number)}, offsets.group_metadata())

        if found is None:
            offsets.commit({place: OffsetAndMetadata(0)})
            self._step("number committed")
        kept.note(BEGUN)
        self._step("begun")
        done = 0 if found is None else found.offset
        left = islice(kept.records(), done, None)
        return send_numbered(producer, left, done, commit) - done

    def _step(self, done: str) -> None:
        log.info("corrections: %s", done, extra={"run": str(self._table.run.path), "store": self._table.store})

    def _report(
        self, sink: SinkNode, first: list[RunRow], records: int, tombstones: int, partitions: Mapping[int, int],
        **more: Any,
    ) -> CorrectionsReport:  # fmt: skip
        bound = with_serdes(sink, self._table.settings)
        return CorrectionsReport(
            store=self._table.store,
            topic=sink.topic or "",
            records=records,
            tombstones=tombstones,
            partitions=dict(partitions),
            first=tuple(_shown(bound, row) for row in first),
            **more,
        )


def _shown(sink: SinkNode, row: RunRow) -> str:
    """Returns a record as text: its key and value as columns of DataFrames show them."""
    where = {"topic": sink.topic, "partition": row.partition}
    texts = []
    for name, serde, data in (("key", sink.key_serde, row.key), ("value", sink.value_serde, row.value)):
        found = column_of(name, serde).array([data], lambda _: where, [row.headers]).to_pylist()[0]
        texts.append("null" if data is None else repr_of(found, 100))
    return f"{texts[0]}: {texts[1]} (partition {row.partition}, time {row.timestamp_ms} ms)"
