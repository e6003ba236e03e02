"""What a client may do on topics and on the cluster, as the brokers tell (KIP-430)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from streams.kafka.confluent.errors import mapped

__all__ = ["Rights", "read_rights"]

log = logging.getLogger("streams.kafka.client")

TIMEOUT_S = 10.0

Operations = frozenset[str] | None
"""Names of Kafka's ``AclOperation``, such as ``READ``; ``None`` where the broker does not tell."""


@dataclass(frozen=True)
class Rights:
    """Of one client."""

    topics: Mapping[str, Operations]
    """Of those that it may see."""
    cluster: Operations


def read_rights(config: Mapping[str, Any], topics: Collection[str]) -> Rights:
    """Asks for the rights on topics that exist, and on the cluster.

    :param config: of a client, under librdkafka's names.
    :raises StreamsError: if the brokers cannot be asked.
    """
    found: dict[str, Operations] = {}
    try:
        client = AdminClient(dict(config), logger=log)
        asked = client.describe_cluster(include_authorized_operations=True, request_timeout=TIMEOUT_S)
        if topics:
            names = TopicCollection(sorted(topics))
            futures = client.describe_topics(names, include_authorized_operations=True, request_timeout=TIMEOUT_S)
            found = {name: _operations(future.result(TIMEOUT_S)) for name, future in futures.items()}
        return Rights(found, _operations(asked.result(TIMEOUT_S)))
    except KafkaException as error:
        raise mapped(error, "ask for the rights of this client") from error


def _operations(description: Any) -> Operations:
    operations = description.authorized_operations
    return None if operations is None else frozenset(operation.name for operation in operations)
