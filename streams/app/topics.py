"""Fits a topology to the topics of a cluster: checks sources, makes internal topics, plans tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from processor_api.topology import Topology
from streams.config import StreamsConfig
from streams.kafka.group import GroupTopology, topology_hash
from streams.kafka.internal_topics import check_existing_topics, internal_topic_counts, internal_topics, topic_prefix
from streams.kafka.ports import Admin, NewTopic
from streams.runtime.task_plan import TaskPlan, plan_tasks

__all__ = ["plan_and_create"]


def plan_and_create(
    topology: Topology, config: StreamsConfig, settings: Mapping[str, Any], admin: Admin
) -> tuple[dict[int, TaskPlan], GroupTopology]:
    """Plans by subtopology, and what membership needs; internal topics exist when it returns.

    :raises MissingTopicError: if a source topic does not exist.
    :raises TopologyError: if partition counts do not fit.
    """
    existing = {name: info.partitions for name, info in admin.topics().items()}
    expected = internal_topic_counts(topology, settings, existing)
    missing = check_existing_topics(expected, existing)
    known = internal_topics(topology, settings)
    admin.create_topics(
        [
            NewTopic(
                name=name,
                partitions=expected[name],
                replication_factor=config.replication_factor,
                configs=known[name].configs,
            )
            for name in missing
        ]
    )
    plans = {plan.subtopology: plan for plan in plan_tasks(topology, settings, {**existing, **expected})}
    group = GroupTopology(
        application_id=config.application_id,
        prefix=topic_prefix(settings),
        task_counts={number: plan.tasks for number, plan in plans.items()},
        hash=topology_hash(topology.describe()),
    )
    return plans, group
