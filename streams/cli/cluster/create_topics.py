"""Creates the topics that an application reads and writes and that do not exist."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from processor_api.errors import TopologyError
from processor_api.topology.missing_serdes import check_serdes
from processor_api.topology.topology import Topology
from streams.cli.cluster.topology_topics import copartitioned, restored_from
from streams.kafka.topics.application import application_topics
from streams.kafka.topics.internal import topic_prefix

if TYPE_CHECKING:
    from streams.config import StreamsConfig
    from streams.kafka.ports import Admin, KafkaClients, NewTopic, TopicInfo

log = logging.getLogger("streams.cli")

BROKERS_DEFAULT = -1


def create_missing(
    topology: Topology,
    settings: Mapping[str, Any],
    admin: Admin,
    *,
    partitions: int | None = None,
    replication_factor: int | None = None,
) -> list[NewTopic]:
    """Creates the topics of the user's that a topology names and that do not exist; returns them.

    Topics that must have the same number of partitions get it: that of those that exist, or that the topology fixes.
    A topic that a table is restored from is compacted. Nothing that exists is changed.

    :param partitions: of topics whose number nothing else fixes; the brokers' default if not given.
    :raises TopologyError: if topics that must have the same number of partitions have different ones.
    """
    from streams.kafka.ports import NewTopic

    existing = {name: info.partitions for name, info in admin.topics().items()}
    absent = [
        one for one in application_topics(topology, settings, existing) if one.is_external and one.name not in existing
    ]
    counts = _counts(topology, settings, existing, [one.name for one in absent], partitions)
    restored = restored_from(topology)
    new = [
        NewTopic(
            name=one.name,
            partitions=counts[one.name],
            replication_factor=replication_factor or BROKERS_DEFAULT,
            configs={"cleanup.policy": "compact"} if one.name in restored else {},
        )
        for one in absent
    ]
    admin.create_topics(new)
    return new


def make_topics(topology: Topology, config: StreamsConfig, clients: KafkaClients | None = None) -> None:
    """Creates the missing topics of an application that is about to start, and logs each.

    :param clients: makes the Kafka clients; librdkafka's if not given.
    :raises ConfigError: if a serde is missing; then nothing is created.
    """
    from streams.cli.cluster.connection import Connection

    check_serdes(topology, config.default_key_serde, config.default_value_serde)
    with Connection(config, clients).admin() as admin:
        made = create_missing(topology, config.dotted(), admin)
        existing = admin.topics([topic.name for topic in made]) if made else {}
    for topic in made:
        log.info(made_line(topic, existing), extra={"topic": topic.name})


def made_line(topic: NewTopic, existing: Mapping[str, TopicInfo]) -> str:
    """Returns a line about a topic that was created."""
    info = existing.get(topic.name)
    count = topic.partitions if info is None else info.partitions
    words = [f"{count} partition{'' if count == 1 else 's'}"]
    if topic.partitions == BROKERS_DEFAULT:
        words[0] += " (the brokers' default)"
    words += [f"{name}={value}" for name, value in topic.configs.items()]
    return f"created topic {topic.name} with {', '.join(words)}"


def _counts(
    topology: Topology,
    settings: Mapping[str, Any],
    existing: Mapping[str, int],
    names: list[str],
    partitions: int | None,
) -> dict[str, int]:
    """Returns the number of partitions of each topic to create; groups that share a topic are one."""
    prefix = topic_prefix(settings)
    fixed = {f"{prefix}-{name}": topic.partitions for name, topic in topology.repartition_topics.items()}
    counts = dict.fromkeys(names, BROKERS_DEFAULT if partitions is None else partitions)
    for group in _joined(copartitioned(topology, settings, existing)):
        known = {count for name in group if (count := existing.get(name, fixed.get(name))) is not None}
        if len(known) > 1:
            has = ", ".join(f"{name!r} has {existing[name]}" for name in sorted(group) if name in existing)
            raise TopologyError(
                f"topics that are joined or grouped together need the same number of partitions: {has}. Repartition one"
                " side, or give the topics the same number"
            )
        counts.update((name, count) for name in group if name in counts for count in known)
    return counts


def _joined(groups: list[tuple[str, ...]]) -> list[set[str]]:
    """Returns groups that have no topic in common, made of those that have."""
    found: list[set[str]] = []
    for group in groups:
        whole, apart = set(group), []
        for other in found:
            if other & whole:
                whole |= other
            else:
                apart.append(other)
        found = [*apart, whole]
    return found
