"""Hands the result of a backfill over to live workers: changelogs first, committed offsets last.

The steps, each of which may be killed and is done again by the next call (docs/decisions/spark.md, "A handover marks
the offsets first and sets them last"):

1. Everything is checked: the application does not run, the backfill fits the topology and its topics, the cut is in
   their logs, and there is no state of the application, unless that may be overwritten.
2. Missing internal topics are made.
3. An offset with the note "handover begun" is committed for every input partition. From now on no worker starts.
4. Each changelog is written, and read back: as many rows, with the same bytes, times and headers.
5. Outputs are published, if they are asked for.
6. The offsets of the cut are committed in one request, which replaces all notes. From now on workers start.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from processor_api.clock import Clock, SystemClock
from processor_api.errors import RetryableError, TaskMigratedError
from processor_api.record import NO_TIMESTAMP
from processor_api.task_id import TopicPartition
from processor_api.topology.function import TopologyLike, topology_of
from processor_api.topology.topology import Topology
from streams.config import StreamsConfig
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.kafka.ports import GroupMember, KafkaClients, OffsetAndMetadata
from streams.kafka.record_ranges import read_ranges
from streams.runtime.plan.task_plan import TaskPlan
from streams.spark import errors
from streams.spark.handover.cluster import Cluster
from streams.spark.handover.cut import Cut
from streams.spark.handover.finished_run import FinishedRun
from streams.spark.handover.plan import (
    HandoverPlan,
    PlannedChangelog,
    check_run,
    check_topics,
    committed_offsets,
    complete_cut,
    cut_of,
    kept_topics,
    lost_by_time,
    name_in_run,
    plan_handover,
)
from streams.spark.handover.published_outputs import OutputPublisher
from streams.spark.handover.report import HandoverReport, StoreHandover
from streams.spark.handover.rows import Sender, Sum, live_rows, sums_in_kafka
from streams.spark.handover.snapshots import SnapshotWriter
from streams.spark.position import has_offsets

log = logging.getLogger("streams.spark")

MEMBERS_S = 10.0
"""How long workers that are refused may take to leave the group before the last step."""
PAUSE_S = 0.2


class BackfillRun(Protocol):
    """The parts of a backfill's result that a handover needs."""

    @property
    def run_dir(self) -> str | os.PathLike[str]: ...

    @property
    def topology(self) -> Topology: ...


@dataclass(frozen=True)
class Former:
    """Holds what the application had before the handover."""

    complete: bool = False
    """Whether this backfill was handed over already, and nothing has changed since."""
    resumed: bool = False
    """Whether an earlier call began to hand this backfill over."""
    note: str = ""
    """The note that the earlier call has left."""


def bootstrap(
    result: BackfillRun | str | os.PathLike[str],
    config: StreamsConfig | Mapping[str, Any],
    *,
    topology: TopologyLike | None = None,
    cut: Cut | None = None,
    overwrite: bool = False,
    publish_outputs: Collection[str] = (),
    verify: bool = True,
    dry_run: bool = False,
    snapshot_dir: str | os.PathLike[str] | None = None,
    clients: KafkaClients | None = None,
) -> HandoverReport:
    """Hands the result of a backfill over to the live application of a configuration.

    All workers of the application must be stopped. When it returns, they can be started, and continue at the cut with
    the state that the backfill has computed. If it fails or is killed, no worker starts until it was called again and
    has returned. With an application id that has no state yet, such as ``shop-v2``, the former application may run on.

    :param result: the result of the backfill, or its run directory.
    :param config: the configuration of the live application; its application id may differ from the backfill's.
    :param topology: the topology that was run; needed with a run directory only.
    :param cut: where live workers begin; by default the cut of the backfill, or the end of a history with offsets.
    :param overwrite: whether to replace changelogs and committed offsets that the application has.
    :param publish_outputs: topics whose records of the backfill are written to Kafka too, exactly once.
    :param verify: whether to read the changelogs back.
    :param dry_run: whether to check everything and to change nothing.
    :param snapshot_dir: where to write snapshots of the stores too, which workers with this ``state.snapshot.dir`` take
        instead of replaying changelogs.
    :param clients: makes the Kafka clients; librdkafka's by default.
    :raises ApplicationRunningError: if workers of the application run.
    :raises ChangelogNotEmptyError: if the application has state or offsets, without ``overwrite``.
    :raises InternalTopicMismatch: if internal topics have other partition counts than the topology needs, or settings
        by which they would lose rows.
    :raises BackfillMismatchError: if the backfill is not complete, or of another topology.
    :raises CutError: if the cut does not fit the topics, with subclasses of its own for records that would be lost or
        processed twice.
    :raises BootstrapVerificationError: if a changelog does not hold what was written.
    """
    run = FinishedRun(result if isinstance(result, str | os.PathLike) else result.run_dir)
    made = topology if topology is not None else getattr(result, "topology", None)
    if made is None:
        raise errors.BackfillMismatchError(
            "a run directory does not have the topology: give bootstrap(..., topology=...) the function that makes it"
        )
    with Cluster(config, clients, read_only=dry_run) as cluster:
        plan = plan_handover(cluster, topology_of(made, cluster.config), run.application_id)
        steps = _Bootstrap(cluster, plan, run, cut, overwrite=overwrite, verify=verify)
        if snapshot_dir is not None and not dry_run:
            steps.write_snapshots(Path(snapshot_dir))
        return steps.run(frozenset(publish_outputs), dry_run=dry_run)


class _Bootstrap:
    """Runs the steps of one handover."""

    def __init__(
        self,
        cluster: Cluster,
        plan: HandoverPlan,
        run: FinishedRun,
        cut: Cut | None,
        *,
        overwrite: bool,
        verify: bool,
    ) -> None:
        check_run(plan, run)
        self._cluster = cluster
        self._plan = plan
        self._run = run
        self._cut = complete_cut(plan, run, cut or cut_of(run), given=bool(cut or run.run.get("cut")))
        self._overwrite = overwrite
        self._verify = verify
        self._clock: Clock = SystemClock()
        self._snapshots: SnapshotWriter | None = None
        self._notes: list[str] = []

    def write_snapshots(self, root: Path) -> None:
        """Has `run` write snapshots of the stores below a directory.

        :raises SparkBridgeError: if the changelogs are not to be read back, or it cannot be written.
        """
        if not self._verify:
            raise errors.SparkBridgeError(
                "snapshot_dir needs verify=True: a snapshot stands for the rows that were read back from the changelog"
            )
        self._snapshots = SnapshotWriter(root, self._cluster, self._plan.application_id, self._clock)

    def run(self, topics: frozenset[str], *, dry_run: bool) -> HandoverReport:
        publisher = OutputPublisher(self._cluster, self._plan, self._run, topics)
        self._check_stopped()
        self._check_settings()
        self._check_cut()
        if not dry_run:
            self._cluster.end_publishing()
        former = self._former()
        if former.complete or dry_run:
            self._clear_snapshots()
            look = self._stored if self._snapshots is None else self._verified
            stores = [look(one) for one in self._plan.changelogs]
            published = publisher.counts() if dry_run and not former.complete else {}
            return self._report(stores, published, dry_run=dry_run)
        if self._plan.missing:
            self._cluster.admin.create_topics([self._plan.internal[name] for name in sorted(self._plan.missing)])
        self._step("internal topics exist")
        self._clear_snapshots()
        done = publisher.resumed(former.note)
        self._commit(publisher.notes(done))
        self._step("handover begun")
        stores = []
        for changelog in self._plan.changelogs:
            stores.append(self._hand_over(changelog, former))
            self._step(f"changelog {changelog.topic} written")
        published = publisher.publish(done)
        self._step("outputs published")
        self._commit(self._offsets())
        self._step("offsets committed")
        return self._report(stores, published)

    def _step(self, done: str) -> None:
        log.info("bootstrap: %s", done, extra={"application": self._plan.application_id, "run": self._run.run_id})

    def _report(
        self, stores: list[StoreHandover], published: Mapping[str, int], *, dry_run: bool = False
    ) -> HandoverReport:
        return HandoverReport(
            application_id=self._plan.application_id,
            run_id=self._run.run_id,
            complete=not dry_run,
            stores=tuple(stores),
            offsets=self._starts(),
            published=published,
            notes=tuple(self._notes),
            dry_run=dry_run,
        )

    # ------------------------------------------------------------------ snapshots

    def _clear_snapshots(self) -> None:
        if self._snapshots is not None:
            self._snapshots.clear()

    def _with_snapshots(
        self, changelog: PlannedChangelog, sums: Mapping[TopicPartition, Sum], found: StoreHandover
    ) -> StoreHandover:
        """Writes the snapshots of a store whose changelog was read back, if they are asked for."""
        if self._snapshots is None or not found.rows:
            return found
        tasks = sorted(self._run.tasks_of(changelog.source).items())
        written, why = self._snapshots.write(changelog, tasks, sums)
        if why:
            self._notes.append(f"store {changelog.store!r} has no snapshot, workers replay its changelog: {why}")
        return replace(found, snapshots=written)

    def _verified(self, changelog: PlannedChangelog) -> StoreHandover:
        """Compares the changelog of a handover that is complete with the backfill, and writes its snapshots."""
        expected, expired = self._expected(changelog)
        self._compare(changelog, expected)
        return self._with_snapshots(changelog, expected, _handed_over(changelog, expected, expired))

    # ------------------------------------------------------------------ checks

    def _check_stopped(self) -> None:
        application = self._plan.application_id
        members = self._members(application)
        if members:
            names = ", ".join(sorted({one.client_id for one in members})[:3])
            raise errors.ApplicationRunningError(
                f"application {application!r} runs: its group has {len(members)} members ({names}). Stop all workers,"
                " and wait until they have left the group; or hand over to a new application id"
            )

    def _members(self, application: str) -> list[GroupMember]:
        """Returns the members of a group, whose coordinator may be on its way from one broker to another."""
        until = self._clock.monotonic() + MEMBERS_S
        while True:
            try:
                return self._cluster.admin.group_members(application)
            except RetryableError:
                if self._clock.monotonic() > until:
                    raise
            self._clock.wait(PAUSE_S)

    def _check_settings(self) -> None:
        """Refuses topics that lose rows; those that this makes keep them, however long ago the history ends."""
        times, now = self._times(), self._clock.time_ms()
        if found := {**lost_by_time(self._plan, times, now), **self._plan.harmful}:
            raise errors.InternalTopicMismatch("; ".join(found.values()), topic=min(found))
        self._plan = replace(self._plan, internal=kept_topics(self._plan, times, now))

    def _times(self) -> dict[int, int]:
        """Returns where the stream time of each subtopology ends, the smallest among its tasks."""
        found: dict[int, int] = {}
        for one in self._plan.tasks:
            for number in range(one.tasks):
                times = [
                    max(task.partition_times.values(), default=NO_TIMESTAMP)
                    for place in one.partitions(number)
                    if (task := self._run.reader_of(self._place_in_run(one, place))) is not None
                ]
                if (time := max(times, default=NO_TIMESTAMP)) != NO_TIMESTAMP:
                    found[one.subtopology] = min(time, found.get(one.subtopology, time))
        return found

    def _place_in_run(self, plan: TaskPlan, place: TopicPartition) -> TopicPartition:
        return TopicPartition(name_in_run(plan, place.topic, self._run.application_id), place.partition)

    def _check_cut(self) -> None:
        places = self._plan.sources
        check_topics(self._run, self._cut, self._cluster.admin.topic_ids({place.topic for place in places}))
        reader = self._cluster.reader
        begins, ends = reader.beginning_offsets(places), reader.end_offsets(places)
        for place in places:
            cut, where = self._cut.offsets[place], {"topic": place.topic, "partition": place.partition}
            if cut > ends[place]:
                raise errors.CutError(
                    f"the cut of {place} is {cut}, and the partition ends at {ends[place]}: the cut or the history is"
                    " of another topic, or the topic was deleted and made again. Make a new cut and run the backfill"
                    " with it",
                    **where,
                )
            if cut < begins[place]:
                raise errors.HistoryShortOfCutError(
                    f"the cut of {place} is {cut}, and the partition begins at {begins[place]}: the records between"
                    " were deleted from Kafka and are not in the backfill. Run it over a history that goes further",
                    **where,
                )
        self._check_gaps(begins)
        self._check_tables()

    def _check_tables(self) -> None:
        """Refuses a cut by time that would leave rows of a table out.

        Of a table whose changelog is its source topic, workers restore what is before the cut. A record of the history
        that lies behind it, because one of a later time came first, would be in neither.
        """
        tables = {one.changelogs[store]: store for one in self._plan.tasks for store in one.source_changelogs}
        before_ms = self._cut.skip_before_ms
        if before_ms is None or not tables:
            return
        ranges = {
            place: (at, self._cut.until_offsets[place])
            for place, at in self._cut.offsets.items()
            if place.topic in tables and at < self._cut.until_offsets.get(place, 0)
        }
        for message in read_ranges(self._cluster.reader, ranges):
            if message.timestamp()[1] < before_ms:
                store = tables[message.topic()]
                raise errors.CutError(
                    f"the record at offset {message.offset()} of {message.topic()}-{message.partition()} is earlier"
                    f" than the cut by time, and comes after one that is later: store {store!r}, whose changelog is"
                    " this topic, would lose it. Use a cut by offsets (Cut.at_end), or run the application and the"
                    " backfill with topology.optimization=none",
                    store=store,
                    topic=message.topic(),
                    partition=message.partition(),
                    offset=message.offset(),
                )

    def _check_gaps(self, begins: Mapping[TopicPartition, int]) -> None:
        """Refuses committed records between the end of the history and the cut, where Kafka still has them."""
        ranges = {}
        for place in self._plan.sources:
            if has_offsets(self._run.run, place.topic) and self._cut.skip_before_ms is None:
                position = max(self._run.position.read_to(place), begins[place])
                ranges[place] = position, self._cut.offsets[place]
        for message in read_ranges(self._cluster.reader, ranges):
            cut = self._cut.offsets[TopicPartition(message.topic(), message.partition())]
            raise errors.HistoryShortOfCutError(
                f"the history ends before the cut: {message.topic()}-{message.partition()} has a record at offset"
                f" {message.offset()}, which the backfill has not processed, and the cut is {cut}: no worker would"
                " process it. Run the backfill over a history that has it, or with an earlier cut",
                topic=message.topic(),
                partition=message.partition(),
                offset=message.offset(),
            )

    def _former(self) -> Former:
        """Returns what an earlier handover has done.

        :raises ChangelogNotEmptyError: if the application has state that must not be overwritten.
        """
        places = [place for _, place in self._plan.inputs() if place.topic not in self._plan.missing]
        committed = self._cluster.reader.committed(places)
        handovers = {TopicPartitionMetadata.decode(one.metadata).handover for one in committed.values()} - {None}
        filled = self._filled()
        if handovers:
            own = {text for text in handovers if text is not None and text.split(" ")[0] == self._run.run_id}
            if own == handovers:
                return Former(resumed=True, note=max(own))
            why = f"the handover {min(map(str, handovers))!r} of another backfill was begun and is not complete"
        elif committed and not self._plan.missing and committed == self._offsets():
            return Former(complete=True)
        elif committed:
            place = min(committed)
            why = f"its group has committed offset {committed[place].offset} of {place}"
        elif filled:
            why = f"changelog {min(filled)} has records"
        else:
            return Former()
        if not self._overwrite:
            raise errors.ChangelogNotEmptyError(
                f"application {self._plan.application_id!r} has state already: {why}. Say overwrite=True to replace its"
                " changelogs and offsets, or hand over to a new application id"
            )
        return Former()

    def _filled(self) -> set[TopicPartition]:
        """Returns the changelog partitions that have had records."""
        places = [
            place for one in self._plan.changelogs if one.topic not in self._plan.missing for place in one.places()
        ]
        return {place for place, end in self._cluster.ends(places).items() if end}

    # ------------------------------------------------------------------ offsets

    def _starts(self) -> dict[TopicPartition, int]:
        """Returns where live workers begin: at the cut, and at the end of what the application wrote for itself."""
        missing = self._plan.missing
        existing = [place for place in self._plan.repartitioned if place.topic not in missing]
        return {
            **dict.fromkeys(self._plan.repartitioned, 0),
            **self._cluster.ends(existing),
            **{place: self._cut.offsets[place] for place in self._plan.sources},
        }

    def _offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        places = [place for one in self._plan.changelogs for place in one.places()]
        topics = {place.topic for _, place in self._plan.inputs()}
        ids = self._cluster.admin.topic_ids(topics)
        filled = self._cluster.ends(places)
        return committed_offsets(self._plan, self._run, self._starts(), self._cut, ids, filled)

    def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commits offsets of the group in one request, and reads them back.

        :raises ApplicationRunningError: if workers have joined the group.
        """
        until = self._clock.monotonic() + MEMBERS_S
        while True:
            try:
                self._cluster.reader.commit(offsets)
                break
            except (TaskMigratedError, RetryableError):  # a worker that is refused is in the group for a moment
                if self._clock.monotonic() > until:
                    self._check_stopped()
                    raise
                self._clock.wait(PAUSE_S)
        found = self._cluster.reader.committed(offsets)
        for place, one in offsets.items():
            if found.get(place) != one:
                raise errors.BootstrapVerificationError(
                    f"the group has {found.get(place)} as the committed offset of {place}, not {one}: another process"
                    " has changed it. Stop it, and call bootstrap again",
                    topic=place.topic,
                    partition=place.partition,
                )

    # ------------------------------------------------------------------ changelogs

    def _hand_over(self, changelog: PlannedChangelog, former: Former) -> StoreHandover:
        """Writes a changelog, unless an earlier call has written it."""
        ends = self._cluster.ends(changelog.places())
        if former.resumed and any(ends.values()):
            expected, expired = self._expected(changelog)
            if self._in_kafka(changelog) == expected:
                return self._with_snapshots(changelog, expected, _handed_over(changelog, expected, expired))
        if any(ends.values()):
            if not (former.resumed or self._overwrite):
                raise errors.ChangelogNotEmptyError(
                    f"changelog {changelog.topic!r} was written while the bootstrap began: is a worker running? Stop"
                    " all workers, and call bootstrap again with overwrite=True",
                    topic=changelog.topic,
                )
            self._cluster.make_again(self._plan.internal[changelog.topic])
        sums: dict[TopicPartition, Sum] = {}
        expired = 0
        with self._cluster.producing([changelog.topic]) as producer:
            sender = Sender(producer, changelog.topic)
            for partition, task in sorted(self._run.tasks_of(changelog.source).items()):
                rows, left_out = live_rows(changelog, task)
                sums[TopicPartition(changelog.topic, partition)] = sender.send(rows)
                expired += left_out()
            sender.finish()
        if self._verify:
            self._compare(changelog, sums)
        found = _handed_over(changelog, sums, expired, written=sum(one.rows for one in sums.values()))
        return self._with_snapshots(changelog, sums, found)

    def _expected(self, changelog: PlannedChangelog) -> tuple[dict[TopicPartition, Sum], int]:
        sums: dict[TopicPartition, Sum] = {}
        expired = 0
        for partition, task in self._run.tasks_of(changelog.source).items():
            rows, left_out = live_rows(changelog, task)
            found = sums[TopicPartition(changelog.topic, partition)] = Sum()
            for row in rows:
                found.add(row.key, row.value, row.timestamp_ms, row.headers)
            expired += left_out()
        return sums, expired

    def _in_kafka(self, changelog: PlannedChangelog) -> dict[TopicPartition, Sum]:
        with self._cluster.reading() as reader:
            places = changelog.places()
            begins, ends = reader.beginning_offsets(places), reader.end_offsets(places)
            return sums_in_kafka(reader, {place: (begins[place], ends[place]) for place in places})

    def _compare(self, changelog: PlannedChangelog, written: Mapping[TopicPartition, Sum]) -> None:
        found = self._in_kafka(changelog)
        for place, one in written.items():
            if found[place] != one:
                same = found[place].rows == one.rows
                how = "with other bytes, times or headers" if same else "so rows are missing or there twice"
                raise errors.BootstrapVerificationError(
                    f"{place} holds {found[place].rows} rows and {one.rows} were written, {how}. Another process wrote"
                    " to it, or its settings delete or change records (retention.ms, message.timestamp.type). Remove"
                    " the cause and call bootstrap again",
                    store=changelog.store,
                    topic=place.topic,
                    partition=place.partition,
                )

    def _stored(self, changelog: PlannedChangelog) -> StoreHandover:
        """Returns what would be handed over, or was by an earlier call."""
        expected, expired = self._expected(changelog)
        return _handed_over(changelog, expected, expired)


def _handed_over(
    changelog: PlannedChangelog, sums: Mapping[TopicPartition, Sum], expired: int, *, written: int = 0
) -> StoreHandover:
    rows = sum(one.rows for one in sums.values())
    return StoreHandover(changelog.store, changelog.topic, changelog.partitions, rows, expired, written)
