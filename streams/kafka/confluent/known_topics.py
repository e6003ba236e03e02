"""Fetches the metadata of topics before librdkafka needs it.

A client that meets a topic for the first time asks for its partitions once a second, so the first record that it reads
or writes there waits up to a second. A topic that was requested before is known at once.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from confluent_kafka import KafkaException

log = logging.getLogger("streams.kafka.client")

TIMEOUT_S = 2.0
ONE_BY_ONE_MAX = 5
"""Most topics that are requested one by one; more are requested with all others of the cluster, since a client can ask
for one or for all."""


class WrittenTopics:
    """The metadata of the topics that a producer writes."""

    def __init__(self) -> None:
        self.prepared: set[str] = set()
        """Those whose metadata the client was asked for."""
        self.counts: dict[str, tuple[float, int]] = {}
        """How many partitions each has, with the time at which that was read."""


def learn_topics(client: Any, topics: Collection[str]) -> None:
    """Makes a client know the partitions of topics. One that is not there yet, or a broker that does not answer, is
    left to the client, which asks again."""
    try:
        if len(topics) > ONE_BY_ONE_MAX:
            client.list_topics(timeout=TIMEOUT_S)
        else:
            for topic in topics:
                client.list_topics(topic, timeout=TIMEOUT_S)
    except (KafkaException, SystemError) as error:
        log.debug("topics were not looked up", extra={"topics": sorted(topics), "error": str(error)})
