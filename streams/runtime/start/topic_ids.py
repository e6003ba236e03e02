"""Distinguishes the topics of a task from deleted topics of the same names.

An offset means a record of one topic. When a topic is deleted and made again, an offset of the former topic may fit the
new one by chance, and means another record there. So the topic's id (KIP-516) is kept with the offset: in the metadata
of a committed offset, in the engine for the offset of a changelog. An offset without an id was written before ids were
kept, or by another tool, and is accepted.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from processor_api.errors import StateError
from processor_api.task_id import TopicPartition
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.kafka.ports import OffsetAndMetadata
from streams.runtime.tasks.task import Task

log = logging.getLogger("streams.restore")


def topics_of(tasks: Collection[Task]) -> set[str]:
    """Returns the topics that tasks read, and the changelogs of their stores."""
    return {topic for task in tasks for topic in (*task.plan.topics, *task.plan.changelogs.values())}


def check_same(known: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Compares the ids of topics in use with those that they have now.

    :raises StateError: if a topic was deleted and made again meanwhile.
    """
    for topic, before in known.items():
        if now.get(topic, before) != before:
            raise StateError(
                f"topic {topic!r} was deleted and made again while this worker used it: its id was {before} and is"
                f" {now[topic]}. What the stores and the committed offsets stand for is not in it. Stop every worker"
                " and reset the application (`streams reset`: internal topics, committed offsets, local state)",
                topic=topic,
            )


def with_ids(
    offsets: Mapping[TopicPartition, OffsetAndMetadata], ids: Mapping[str, str]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns offsets to commit for the first time, with the ids of their topics where these are known."""
    return {
        name: OffsetAndMetadata(one.offset, TopicPartitionMetadata(topic_id=ids[name.topic]).encode())
        if name.topic in ids
        else one
        for name, one in offsets.items()
    }


def keep_changelog_ids(task: Task) -> None:
    """Keeps the ids of changelogs with the stores; a store of a former changelog is emptied and logged."""
    for store, topic in task.plan.changelogs.items():
        now = task.topic_ids.get(topic)
        former = None if now is None else task.stores.progress.bind_topic(store, now)
        if former is not None:
            log.error(
                "store is rebuilt from its changelog: the topic was deleted and made again",
                extra={"store": store, "task": str(task.id), "topic": topic, "former_id": former, "id": now},
            )
