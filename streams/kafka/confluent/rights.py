"""Asks the brokers what a client may do on topics and on the cluster (KIP-430)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from processor_api.errors import RetryableError
from streams.kafka.confluent.callbacks import ClientLog
from streams.kafka.confluent.errors import kafka_error, mapped

TIMEOUT_S = 10.0

Operations = frozenset[str] | None
"""Names of Kafka's ``AclOperation``, such as ``READ``; ``None`` where the broker does not report them."""


@dataclass(frozen=True)
class Rights:
    """The rights of one client."""

    topics: Mapping[str, Operations]
    """The operations on each topic that exists and that it may see."""
    hidden: frozenset[str]
    """Topics that it may not see, whether they exist or not."""
    cluster: Operations
    refused: Mapping[str, str]
    """Topics that it may not create, with the broker's reason."""


def read_rights(config: Mapping[str, Any], topics: Collection[str], to_be_made: Collection[str] = ()) -> Rights:
    """Asks for the rights on topics and on the cluster.

    :param config: of a client, under librdkafka's names.
    :param to_be_made: topics that the broker is asked whether it would create; none is created.
    :raises StreamsError: if the brokers cannot be asked.
    """
    found: dict[str, Operations] = {}
    hidden: set[str] = set()
    try:
        client = AdminClient(dict(config), logger=ClientLog())
        asked = client.describe_cluster(include_authorized_operations=True, request_timeout=TIMEOUT_S)
        for name, future in _described(client, topics).items():
            try:
                found[name] = _operations(future.result(TIMEOUT_S))
            except KafkaException as error:
                match _name(error):
                    case "TOPIC_AUTHORIZATION_FAILED":
                        hidden.add(name)
                    case "UNKNOWN_TOPIC_OR_PART":
                        pass
                    case _:
                        raise
        return Rights(found, frozenset(hidden), _operations(asked.result(TIMEOUT_S)), _refused(client, to_be_made))
    except KafkaException as error:
        raise mapped(error, "read the rights of this client") from error
    except TimeoutError:
        raise RetryableError(f"cannot read the rights of this client: no answer within {TIMEOUT_S:g} s") from None


def _described(client: AdminClient, topics: Collection[str]) -> Mapping[str, Any]:
    if not topics:
        return {}
    names = TopicCollection(sorted(topics))
    futures: Mapping[str, Any] = client.describe_topics(
        names, include_authorized_operations=True, request_timeout=TIMEOUT_S
    )
    return futures


def _refused(client: AdminClient, topics: Collection[str]) -> dict[str, str]:
    """Returns the topics that may not be created; one that exists but is hidden counts as one that may be, if the right
    is there."""
    found = {}
    if topics:
        wanted = [NewTopic(name, 1) for name in sorted(topics)]
        for name, future in client.create_topics(wanted, validate_only=True, request_timeout=TIMEOUT_S).items():
            try:
                future.result(TIMEOUT_S)
            except KafkaException as error:
                reason = _name(error)
                if reason.endswith("AUTHORIZATION_FAILED"):
                    found[name] = reason
    return found


def _name(error: KafkaException) -> str:
    found = kafka_error(error)
    return "" if found is None else str(found.name())


def _operations(description: Any) -> Operations:
    operations = description.authorized_operations
    return None if operations is None else frozenset(operation.name for operation in operations)
