"""Checks whether a live application could start, without changing anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from processor_api.clock import SystemClock
from processor_api.errors import BootstrapIncompleteError
from processor_api.record import NO_TIMESTAMP
from processor_api.task_id import TaskId, TopicPartition
from processor_api.topology.function import TopologyLike, topology_of
from streams.config import StreamsConfig
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.kafka.ports import KafkaClients, OffsetAndMetadata
from streams.kafka.record_ranges import read_ranges
from streams.runtime.start.start_guard import PlannedTask, check_changelogs, check_complete, check_handed_over
from streams.spark.handover.cluster import Cluster
from streams.spark.handover.finished_run import FinishedRun
from streams.spark.handover.plan import HandoverPlan, lost_by_time, plan_handover
from streams.spark.handover.report import HandoverReport, StoreHandover
from streams.spark.position import has_offsets


def check_handover(
    config: StreamsConfig | Mapping[str, Any], topology: TopologyLike, *, clients: KafkaClients | None = None
) -> HandoverReport:
    """Returns whether the live application of a configuration can start, and what keeps it from starting.

    It looks at the same as a worker does before it starts, and at the settings of internal topics, with some of which
    state would be lost; it changes nothing, and needs no Spark. The rows of a store
    in the report are the records that its changelog has, which may be more than one for a key.

    :param topology: the topology of the application, or the function that makes it.
    :param clients: makes the Kafka clients; librdkafka's by default.
    """
    with Cluster(config, clients, read_only=True) as cluster:
        plan = plan_handover(cluster, topology_of(topology, cluster.config), cluster.config.application_id)
        places = [place for _, place in plan.inputs() if place.topic not in plan.missing]
        committed = cluster.reader.committed(places)
        metadata = [TopicPartitionMetadata.decode(one.metadata) for one in committed.values()]
        lost = lost_by_time(plan, _times(plan, committed), SystemClock().time_ms())
        problems = [*_problems(cluster, plan, committed), *{**lost, **plan.harmful}.values()]
        runs = {one.handed_over or (one.handover or "").split(" ")[0] for one in metadata} - {""}
        members = cluster.admin.group_members(plan.application_id)
        return HandoverReport(
            application_id=plan.application_id,
            run_id=min(runs) if len(runs) == 1 else None,
            complete=not problems,
            stores=_stores(cluster, plan),
            offsets={place: one.offset for place, one in committed.items()},
            problems=tuple(problems),
            notes=tuple(_notes(plan, committed, len(members))),
        )


def progress_beside(
    run_dir: str,
    config: StreamsConfig | Mapping[str, Any],
    topology: TopologyLike,
    *,
    clients: KafkaClients | None = None,
) -> list[tuple[TopicPartition, int, int | None]]:
    """Returns the partitions of which a backfill and an application have processed other records.

    Each with the offset before which the backfill has processed all records, and the committed offset of the
    application, if it has one. Offsets between which there is no committed record are the same. Histories without
    offsets are left out.

    :param run_dir: that of the backfill.
    :param topology: the topology of both, or the function that makes it.
    :param clients: makes the Kafka clients; librdkafka's by default.
    """
    run = FinishedRun(run_dir)
    with Cluster(config, clients, read_only=True) as cluster:
        plan = plan_handover(cluster, topology_of(topology, cluster.config), run.application_id)
        places = [place for place in plan.sources if has_offsets(run.run, place.topic)]
        committed, begins = cluster.reader.committed(places), cluster.reader.beginning_offsets(places)
        ends = cluster.reader.end_offsets(places)
        found = []
        for place in places:
            ended = run.position.read_to(place)
            offset = committed[place].offset if place in committed else None
            low, high = sorted((max(ended, begins[place]), max(offset or 0, begins[place])))
            if low >= high:
                continue
            # Records behind the end of the partition would be waited for: they were never there, or of another topic.
            if high > ends[place] or next(read_ranges(cluster.reader, {place: (low, high)}), None) is not None:
                found.append((place, ended, offset))
        return found


def _problems(cluster: Cluster, plan: HandoverPlan, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> list[str]:
    """Returns the errors with which workers would end, each once."""
    found: dict[str, None] = {}
    try:
        check_complete(plan.application_id, committed)
    except BootstrapIncompleteError as error:
        return [str(error)]
    for one in plan.tasks:
        is_made = plan.missing.isdisjoint({*one.changelogs.values(), *one.topics})
        for number in range(one.tasks):
            try:
                task = PlannedTask(TaskId(one.subtopology, number), one)
                check_handed_over(plan.application_id, [task], committed)
                if is_made:
                    check_changelogs(plan.application_id, [task], committed, cluster.reader, cluster.reader.committed)
            except BootstrapIncompleteError as error:
                found[str(error)] = None
    return list(found)


def _times(plan: HandoverPlan, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> dict[int, int]:
    """Returns the stream time of each subtopology by its committed offsets, the smallest among its tasks."""
    found: dict[int, int] = {}
    for one in plan.tasks:
        for number in range(one.tasks):
            metadata = [committed[place].metadata for place in one.partitions(number) if place in committed]
            time = max((TopicPartitionMetadata.decode(text).partition_time for text in metadata), default=NO_TIMESTAMP)
            if time != NO_TIMESTAMP:
                found[one.subtopology] = min(time, found.get(one.subtopology, time))
    return found


def _notes(plan: HandoverPlan, committed: Mapping[TopicPartition, OffsetAndMetadata], members: int) -> list[str]:
    notes = []
    if members:
        notes.append(f"the application runs: its group has {members} members")
    if plan.missing:
        notes.append(f"internal topics do not exist yet: {', '.join(sorted(plan.missing))}")
    if not committed:
        notes.append("the group has no committed offsets: workers begin where auto.offset.reset says")
    return notes


def _stores(cluster: Cluster, plan: HandoverPlan) -> tuple[StoreHandover, ...]:
    existing = [one for one in plan.changelogs if one.topic not in plan.missing]
    places = [place for one in existing for place in one.places()]
    begins = cluster.reader.beginning_offsets(places) if places else {}
    ends = cluster.ends(places)
    return tuple(
        StoreHandover(one.store, one.topic, one.partitions, sum(ends[place] - begins[place] for place in one.places()))
        for one in existing
    )
