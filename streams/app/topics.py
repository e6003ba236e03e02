"""Fits a topology to the topics of a cluster: checks sources, makes internal topics, plans tasks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from processor_api.errors import MissingTopicError, TopologyError
from processor_api.topology.layout import layout_digest
from processor_api.topology.nodes import SourceNode
from processor_api.topology.subtopology import subtopologies
from processor_api.topology.topology import Topology
from streams.config import StreamsConfig
from streams.kafka.membership.port import GroupTopology
from streams.kafka.membership.task_slots import has_plans
from streams.kafka.own_names import control_topic
from streams.kafka.ports import Admin, NewTopic
from streams.kafka.streams_group import GroupSubtopology
from streams.kafka.topics import internal
from streams.kafka.topics.application import DEAD_LETTERS, Use, application_topics, readable_topics
from streams.kafka.topics.group_topology import group_subtopologies
from streams.kafka.topics.readers import matching_topics, reads_pattern
from streams.runtime.plan.task_plan import PlanBook, Plans, TaskPlan, plan_tasks
from streams.runtime.threads.partition_watch import partition_count_changed

log = logging.getLogger("streams.topics")


def warn_of_lost_history(topology: Topology) -> None:
    """Warns of source topics that serve as changelogs of versioned stores (KIP-889).

    They are topics of the user, which need not be configured to keep what the history is restored from.
    """
    for store, topic in topology.source_changelogs.items():
        history_ms = topology.stores[store].supplier.parameters.get("history_retention_ms", 0)
        if history_ms:
            log.warning(
                "store %r keeps versions, and topic %r serves as its changelog: what a compaction of the topic removes"
                " is missing after a restore. Give the topic a min.compaction.lag.ms of at least %d",
                store,
                topic,
                min(history_ms + internal.DAY_MS, internal.LONGEST_MS),
                extra={"store": store, "topic": topic},
            )


class TopicFitter:
    """Plans an application for the topics that exist."""

    def __init__(self, topology: Topology, config: StreamsConfig, settings: Mapping[str, Any], admin: Admin) -> None:
        """Takes what it plans for.

        :raises TopologyError: if a pattern is read in a way in which the group protocol cannot.
        """
        self._topology = topology
        self._config = config
        self._settings = settings
        self._admin = admin
        self._prefix = internal.topic_prefix(settings)
        parts = subtopologies(topology)
        sources = [node for node in topology.nodes.values() if isinstance(node, SourceNode)]
        self._patterns = [node for node in sources if node.pattern is not None]
        self._open_ended = frozenset(part.id for part in parts if reads_pattern(topology, part))
        self.growing = self._open_ended | {part.id for part in parts if not part.stores and not part.is_global}
        """Subtopologies that may get more tasks: those that read a pattern, and those without stores, to whose topics
        partitions may be added."""
        self._named = {topic for node in sources for topic in node.topics}
        global_topics = {store.topic for store in topology.global_stores.values()}
        self._read = (self._named | global_topics) - set(topology.repartition_topics)
        self._by_group = config.group_protocol == "streams"
        self._subtopologies: tuple[GroupSubtopology, ...] = ()
        if self._by_group:
            self._subtopologies = group_subtopologies(topology, settings, config.replication_factor)

    def existing(self) -> dict[str, int]:
        """Returns the partition counts of all topics of the cluster."""
        return {name: info.partitions for name, info in self._admin.topics().items()}

    def readable(self, existing: Mapping[str, int]) -> dict[str, int]:
        """Returns the topics that sources may read.

        These are the topics they name, and all others but internal topics of the brokers and of this application, which
        a pattern does not match.
        """
        return readable_topics(self._topology, self._settings, existing)

    def check_written(self, existing: Mapping[str, int]) -> None:
        """Checks the topics of the user's that are written, before anything is processed.

        An output that does not exist is a warning, since a broker may make it when it is written. Dead letters are the
        last copy of what they hold, and come when something else is wrong already: their topic has to exist.

        :raises MissingTopicError: if the topic for dead letters does not exist.
        :raises AuthorizationError: if it may not be seen.
        """
        absent = [
            one
            for one in application_topics(self._topology, self._settings, existing)
            if one.is_written and one.name not in existing
        ]
        for one in absent:
            if Use.DEAD_LETTERS in one.uses:
                self._admin.topics([one.name])  # which says whether it is a right that is missing
                raise MissingTopicError(
                    f"the dead-letter topic {one.name!r} ({DEAD_LETTERS}) does not exist: create it, then start again",
                    topic=one.name,
                )
        if absent:
            log.warning(
                "output topics do not exist: a record for one of them holds its task up, unless the brokers make the"
                " topic. Create them",
                extra={"topics": ", ".join(one.name for one in absent)},
            )

    def matched(self, readable: Mapping[str, int]) -> set[str]:
        """Returns the topics that patterns of the topology match, one or several."""
        return {topic for node in self._patterns for topic in matching_topics(self._topology, node, readable)}

    def grown(self, before: Mapping[str, int], readable: Mapping[str, int]) -> list[str]:
        """Returns the topics that have more partitions than before, and are read by no subtopology with stores."""
        stateful = {
            topic for plan in plan_tasks(self._topology, self._settings, before) if plan.stores for topic in plan.topics
        }
        read = (self._named | self.matched(readable)) - stateful
        return sorted(topic for topic in read if 0 < before.get(topic, 0) < readable.get(topic, 0))

    def internal_counts(self, readable: Mapping[str, int]) -> dict[str, int]:
        """Returns the partitions of the internal topics that the application needs.

        :raises MissingTopicError: if a source topic does not exist.
        :raises AuthorizationError: if it may not be seen.
        :raises TopologyError: if partition counts do not fit.
        """
        try:
            counts = internal.internal_topic_counts(self._topology, self._settings, readable)
        except MissingTopicError:
            self._admin.topics(self._read - readable.keys())  # which says whether it is a right that is missing
            raise
        return {name: count for name, count in counts.items() if count}

    def fit(self, readable: Mapping[str, int], existing: Mapping[str, int]) -> Plans:
        """Returns the plans; internal topics exist when it returns, unless the group makes them, which gives no task
        before.

        :raises MissingTopicError: if a source topic does not exist.
        :raises AuthorizationError: if it may not be seen, or an internal one may not be made.
        :raises TopologyError: if partition counts do not fit, or two patterns match one topic.
        """
        expected = self.internal_counts(readable)
        missing = internal.check_existing_topics(expected, existing, self._named | self.matched(readable))
        known = internal.internal_topics(self._topology, self._settings)
        tasks = {plan.subtopology: plan for plan in plan_tasks(self._topology, self._settings, readable)}
        if not self._by_group:  # otherwise the group creates them
            self._admin.create_topics(
                [
                    NewTopic(
                        name=name,
                        partitions=expected[name],
                        replication_factor=self._config.replication_factor,
                        configs=known[name].created_with,
                    )
                    for name in missing
                ]
            )
        self._check_tasks(tasks, existing)
        group = GroupTopology(
            application_id=self._config.application_id,
            prefix=self._prefix,
            task_counts={number: max(plan.tasks, self._least_tasks(plan)) for number, plan in tasks.items()},
            hash=layout_digest(self._topology, self._mark_of_plans(tasks)),
            growing=self.growing,
            subtopologies=self._subtopologies,
            logged=frozenset(number for number, plan in tasks.items() if plan.changelogs),
            changelogs={
                number: tuple(sorted(plan.changelogs.values())) for number, plan in tasks.items() if plan.changelogs
            },
        )
        return Plans(tasks, group)

    def _least_tasks(self, plan: TaskPlan) -> int:
        """Returns how many tasks a subtopology has while its pattern matches no topic: one, so that the group has a
        partition to assign; but none where the brokers would make its changelogs as narrow at once."""
        return int(plan.subtopology in self._open_ended and not (self._by_group and plan.changelogs))

    def _mark_of_plans(self, tasks: Mapping[int, TaskPlan]) -> str:
        """Returns a text that is in the hash of a topology whose members follow plans of tasks only since they keep or
        fill copies, which members of earlier versions did not: one that followed no plan would own the tasks of others.
        """
        counts = {number: plan.tasks for number, plan in tasks.items()}
        follows = has_plans(counts, copies=any(plan.changelogs for plan in tasks.values()))
        return "with plans of tasks" if follows and not has_plans(counts, copies=False) else ""

    def _check_tasks(self, tasks: Mapping[int, TaskPlan], existing: Mapping[str, int]) -> None:
        """Checks the number of tasks of each subtopology with stores.

        :raises TopologyError: if it was another one when the subtopology was first run.
        """
        for number, plan in tasks.items():
            topic = control_topic(self._prefix, number)
            before = existing.get(topic, plan.tasks)
            if before != plan.tasks and number not in self.growing:
                wide = sorted(name for name, count in plan.partition_counts.items() if count == plan.tasks)
                raise TopologyError(
                    f"subtopology {number} has stores, and its state was made for {before} tasks (topic {topic!r}),"
                    f" but {', '.join(f'{name!r} has {plan.tasks}' for name in wide)} partitions: keys may be in other"
                    f" partitions than their state. {internal.RESET_HINT}",
                    topic=topic,
                )


class TopicWatch:
    """Looks for new topics and partitions to read while the application runs.

    These are topics that a pattern of the topology matches, and partitions that were added where no store depends on
    their number.
    """

    def __init__(self, fitter: TopicFitter, readable: Mapping[str, int], book: PlanBook) -> None:
        self._fitter = fitter
        self._known = dict(readable)
        self._book = book
        self._refused: set[str] = set()

    def check(self) -> None:
        """Changes the plans if there is more to read.

        A new topic that does not fit is left out, which is logged once. Added partitions that do not fit end the
        application.

        :raises RetryableError: if no broker answers.
        """
        existing = self._fitter.existing()
        readable = self._fitter.readable(existing)
        self._check_partitions(readable, existing)
        new = self._fitter.matched(readable) - self._known.keys() - self._refused
        plans = None
        for topic in sorted(new):
            try:
                plans = self._fitter.fit({**self._known, topic: readable[topic]}, existing)
            except TopologyError as error:
                self._refused.add(topic)
                log.error(
                    "the new topic %r matches a pattern of the topology but cannot be read: %s",
                    topic,
                    error,
                    extra={"topic": topic, "error": str(error)},
                )
            else:
                self._known[topic] = readable[topic]
                existing = self._fitter.existing()
        if plans is not None:
            log.info("new topics are read", extra={"topics": ", ".join(sorted(new - self._refused))})
            self._change(plans)

    def _check_partitions(self, readable: Mapping[str, int], existing: Mapping[str, int]) -> None:
        grown = self._fitter.grown(self._known, readable)
        if not grown:
            return
        now = {topic: readable[topic] for topic in grown}
        try:
            plans = self._fitter.fit({**self._known, **now}, existing)
        except TopologyError as error:
            first = grown[0]
            self._book.refusal = partition_count_changed(first, self._known[first], now[first], f": {error.message}")
            return
        self._known |= now
        log.info("new partitions are read", extra={"topics": ", ".join(f"{name}: {now[name]}" for name in grown)})
        self._change(plans)

    def _change(self, plans: Plans) -> None:
        before = self._book.current.tasks
        kept = {number: before[number] if before[number] == plan else plan for number, plan in plans.tasks.items()}
        self._book.current = Plans(kept, plans.group)
