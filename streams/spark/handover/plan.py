"""The plan of a handover: which rows go to which changelogs, and which offsets are committed with what."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from processor_api.errors import TopologyError
from processor_api.record import NO_TIMESTAMP
from processor_api.stores.builder import StoreBuilder
from processor_api.task_id import TopicPartition
from processor_api.topology.nodes import SourceNode
from processor_api.topology.topology import Topology
from streams.app.topics import TopicFitter
from streams.kafka.offset_metadata import TopicPartitionMetadata, changelog_mark
from streams.kafka.ports import NewTopic, OffsetAndMetadata
from streams.kafka.topics.changelog_keeping import needed_by
from streams.kafka.topics.internal import (
    InternalTopic,
    changelog_name,
    check_existing_topics,
    harmful_settings,
    internal_topic_counts,
    internal_topics,
)
from streams.runtime.plan.task_plan import TaskPlan, plan_tasks
from streams.spark.errors import BackfillMismatchError, CutError, HistoryBeyondCutError, InternalTopicMismatch
from streams.spark.handover.cluster import Cluster
from streams.spark.handover.cut import Cut
from streams.spark.handover.finished_run import FinishedRun
from streams.spark.position import has_offsets


@dataclass(frozen=True)
class PlannedChangelog:
    """Holds one changelog to write."""

    store: str
    builder: StoreBuilder[Any, Any]
    topic: str
    """Its name in the cluster."""
    source: str
    """Its name in the files of the backfill, which may have run under another application id."""
    partitions: int

    def places(self) -> list[TopicPartition]:
        """Returns its partitions."""
        return [TopicPartition(self.topic, number) for number in range(self.partitions)]


@dataclass(frozen=True)
class HandoverPlan:
    """Holds what a handover writes."""

    application_id: str
    tasks: tuple[TaskPlan, ...]
    internal: Mapping[str, NewTopic]
    """All internal topics, as they are made."""
    missing: frozenset[str]
    """Internal topics that do not exist."""
    changelogs: tuple[PlannedChangelog, ...]
    harmful: Mapping[str, str]
    """Internal topics that would lose records, each with the reason and what to do about it."""
    settings: Mapping[str, Mapping[str, str]]
    """The settings of the internal topics that exist, where they may be read."""
    written_topics: frozenset[str]
    """Topics of the user that sinks write."""

    def inputs(self) -> list[tuple[TaskPlan, TopicPartition]]:
        """Returns each input partition with the plan of its task."""
        return [(plan, place) for plan in self.tasks for one in range(plan.tasks) for place in plan.partitions(one)]

    @property
    def sources(self) -> list[TopicPartition]:
        """The input partitions that are not repartition topics: those that a cut is about."""
        return [place for plan, place in self.inputs() if place.topic not in plan.repartition_topics]

    @property
    def repartitioned(self) -> list[TopicPartition]:
        """The input partitions that the application writes itself."""
        return [place for plan, place in self.inputs() if place.topic in plan.repartition_topics]


def _harmful(settings: Mapping[str, Mapping[str, str]], known: Mapping[str, InternalTopic]) -> dict[str, str]:
    """Returns the internal topics whose settings lose records of the application, or their times."""
    found = {}
    for name in sorted(settings):
        if needed := harmful_settings(known[name].configs, settings[name]):
            has = settings[name]
            differences = ", ".join(f"{key} is {has.get(key)}, needs {value}" for key, value in needed.items())
            given = ",".join(f"{key}=[{value}]" for key, value in needed.items())
            found[name] = (
                f"internal topic {name!r} has settings by which state is lost: {differences}. Change them"
                f" (kafka-configs.sh --entity-type topics --entity-name {name} --alter --add-config '{given}'), or"
                " delete the topic while the application is stopped and has no state, so that it is made again"
            )
    return found


def plan_handover(cluster: Cluster, topology: Topology, run_application_id: str) -> HandoverPlan:
    """Returns the plan for the topics that exist. Changes nothing.

    :param run_application_id: the application id under which the backfill ran.
    :raises MissingTopicError: if a source topic does not exist.
    :raises InternalTopicMismatch: if an internal topic has another number of partitions than is needed.
    """
    config = cluster.config
    settings = config.dotted()
    fitter = TopicFitter(topology, config, settings, cluster.admin)
    existing = fitter.existing()
    readable = fitter.readable(existing)
    counts = {name: count for name, count in internal_topic_counts(topology, settings, readable).items() if count}
    known = internal_topics(topology, settings)
    try:
        missing = check_existing_topics(counts, existing)
    except TopologyError as error:
        raise InternalTopicMismatch(error.message) from error
    tasks = plan_tasks(topology, settings, readable)
    internal = {
        name: NewTopic(
            name=name,
            partitions=count,
            replication_factor=config.replication_factor,
            configs=known[name].created_with,
        )
        for name, count in counts.items()
    }
    found = cluster.admin.topic_settings([name for name in internal if name not in missing])
    return HandoverPlan(
        application_id=config.application_id,
        tasks=tasks,
        internal=internal,
        missing=frozenset(missing),
        harmful=_harmful(found, known),
        settings=found,
        changelogs=tuple(
            PlannedChangelog(
                store, plan.topology.stores[store], topic, changelog_name(run_application_id, store), counts[topic]
            )
            for plan in tasks
            for store, topic in plan.changelogs.items()
            if store not in plan.source_changelogs
        ),
        written_topics=frozenset(topic for plan in tasks for topic in plan.topics_written if topic not in counts),
    )


def lost_by_time(plan: HandoverPlan, times: Mapping[int, int], now_ms: int) -> dict[str, str]:
    """Returns the changelogs from which the broker removes rows that their stores need, each with what to do about it.

    :param times: the stream time of each subtopology, the smallest among its tasks.
    :param now_ms: the wall clock.
    """
    found = {}
    for one in plan.tasks:
        for store, topic in one.changelogs.items():
            need = None if store in one.source_changelogs else needed_by(one.topology.stores[store])
            settings, time = plan.settings.get(topic), times.get(one.subtopology, NO_TIMESTAMP)
            if need is None or settings is None:
                continue
            kept_ms = need.at_risk_ms(settings, time, now_ms)
            if kept_ms is not None:
                found[topic] = (
                    f"changelog {topic!r} loses rows that store {store!r} still needs: {need.setting} is {kept_ms}, and"
                    f" the last records are {now_ms - time} ms behind the clock. Keep them:"
                    f" {need.remedy(topic, time, now_ms)}"
                )
    return found


def kept_topics(plan: HandoverPlan, times: Mapping[int, int], now_ms: int) -> dict[str, NewTopic]:
    """Returns the internal topics as they are to be made, so that versions of so long ago are not compacted away.

    :param times: the stream time of each subtopology, the smallest among its tasks.
    """
    found = dict(plan.internal)
    for one in plan.tasks:
        for store, topic in one.changelogs.items():
            need = None if store in one.source_changelogs else needed_by(one.topology.stores[store])
            time = times.get(one.subtopology, NO_TIMESTAMP)
            if need is None or need.at_risk_ms(found[topic].configs, time, now_ms) is None:
                continue
            kept = {need.setting: str(need.kept_ms(time, now_ms))}
            found[topic] = replace(found[topic], configs={**found[topic].configs, **kept})
    return found


def source_topics_of(topology: Topology) -> list[str]:
    """Returns the topics by name that tasks of a topology read and do not write for themselves.

    :raises CutError: if sources read topics by a pattern: then only the cluster knows their names.
    """
    global_topics = {store.topic for store in topology.global_stores.values()}
    found: set[str] = set()
    for node in topology.nodes.values():
        if isinstance(node, SourceNode):
            if node.pattern is not None:
                raise CutError(
                    f"source {node.name!r} reads topics by a pattern: make the cut with the names of the topics,"
                    " Cut.at_time(config, topics, time), and give its JSON",
                    node=node.name,
                )
            found.update(node.topics)
    return sorted(found - global_topics - set(topology.repartition_topics))


def check_run(plan: HandoverPlan, run: FinishedRun) -> None:
    """Checks that a backfill has the rows of every task of the plan.

    :raises BackfillMismatchError: if stores or partitions are not those of the topology and its topics.
    """
    options = run.run.get("options")
    if isinstance(options, Mapping) and options.get("flush_at_end"):
        raise BackfillMismatchError(
            f"the backfill in {str(run.path)!r} was run with flush_at_end: its windows were closed early, and a live"
            " worker would send their results again. Run it without, in another directory"
        )
    for one in plan.changelogs:
        found = sorted(run.tasks_of(one.source))
        if not found:
            raise BackfillMismatchError(
                f"the backfill in {str(run.path)!r} has no rows of store {one.store!r} (changelog {one.source!r}): it"
                " ran another topology. Give the topology that was run, or run the backfill again",
                store=one.store,
            )
        if found != list(range(one.partitions)):
            raise BackfillMismatchError(
                f"the backfill in {str(run.path)!r} has {len(found)} partitions of store {one.store!r}, and changelog"
                f" {one.topic!r} has {one.partitions}: keys would lie in other partitions. Run the backfill with the"
                " partition counts that the topics have in Kafka",
                store=one.store,
            )


def cut_of(run: FinishedRun) -> Cut:
    """Returns the cut of a backfill: the one that it was given, or the end of histories that have offsets.

    :raises CutError: if there is neither.
    """
    given = run.run.get("cut")
    if given is not None:
        return Cut.from_json(given if isinstance(given, str) else json.dumps(given))
    offsets = run.position.offsets()
    if not offsets and not any(has_offsets(run.run, topic) for topic in run.run.get("inputs", ())):
        raise CutError(
            f"the backfill in {str(run.path)!r} has no cut, and its history has no offsets: say where live workers"
            " begin, bootstrap(..., cut=Cut.at_time(...)) with the time at which the history ends"
        )
    return Cut(offsets, topic_ids=run.position.topic_ids())


def complete_cut(plan: HandoverPlan, run: FinishedRun, cut: Cut, *, given: bool) -> Cut:
    """Returns a cut with an offset for each source partition.

    :param given: whether the cut is not made of the history; then every partition must be in it.
    :raises CutError: if partitions are missing.
    :raises HistoryBeyondCutError: if the backfill has processed more than is before the cut.
    """
    absent = [place for place in plan.sources if place not in cut.offsets]
    if absent and (given or not all(has_offsets(run.run, place.topic) for place in absent)):
        raise CutError(
            f"the cut has no offset for {', '.join(map(str, absent[:5]))}: make it of all topics that the topology"
            " reads, with the partitions that they have now"
        )
    for place in plan.sources:
        position = run.position.read_to(place)
        if cut.skip_before_ms is None and position > cut.offsets.get(place, 0):
            raise HistoryBeyondCutError(
                f"the backfill has processed {place} up to offset {position}, and the cut is {cut.offsets.get(place)}:"
                " live workers would process records a second time. Run the backfill with this cut",
                topic=place.topic,
                partition=place.partition,
                offset=position,
            )
    return replace(cut, offsets={**dict.fromkeys(absent, 0), **cut.offsets})


def check_topics(run: FinishedRun, cut: Cut, now: Mapping[str, str]) -> None:
    """Refuses topics that were made again since the cut or the backfill.

    :param now: the ids of the topics in the cluster.
    :raises CutError: if one was.
    """
    for what, ids in (("the cut", cut.topic_ids), ("the backfill", run.position.topic_ids())):
        for topic, given in ids.items():
            if now.get(topic, given) != given:
                raise CutError(
                    f"topic {topic!r} was deleted and made again since {what} was made (its id was {given}, it is"
                    f" {now[topic]}): offsets of the two mean other records. Make a new cut, and run the backfill over"
                    " the history of the topic that is there",
                    topic=topic,
                )


def committed_offsets(
    plan: HandoverPlan,
    run: FinishedRun,
    starts: Mapping[TopicPartition, int],
    cut: Cut,
    ids: Mapping[str, str],
    filled: Mapping[TopicPartition, int],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the offsets to commit, with what live workers need to continue where the backfill ended (formats 8).

    :param starts: the offset of each input partition.
    :param ids: the ids of topics.
    :param filled: the number of rows in each changelog partition.
    """
    found = {}
    for task_plan, place in plan.inputs():
        marks = {
            changelog_mark(topic)
            for store, topic in task_plan.changelogs.items()
            if store not in task_plan.source_changelogs and filled.get(TopicPartition(topic, place.partition))
        }
        source = name_in_run(task_plan, place.topic, run.application_id)
        task = run.reader_of(TopicPartition(source, place.partition))
        time = cut.partition_times.get(place, NO_TIMESTAMP) if task is None else task.partition_times[source]
        times = {} if task is None else task.processor_times
        metadata = TopicPartitionMetadata(
            time, times, ids.get(place.topic), frozenset(marks), None, cut.skip_rule(place), run.run_id
        )
        found[place] = OffsetAndMetadata(starts[place], metadata.encode())
    return found


def name_in_run(plan: TaskPlan, topic: str, run_application_id: str) -> str:
    """Returns the name that a topic has in the files of a backfill, which may have run under another application id."""
    if topic not in plan.repartition_topics:
        return topic
    return run_application_id + topic.removeprefix(plan.prefix)
