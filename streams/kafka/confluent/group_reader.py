"""Reads committed offsets of a group without being a member, by a client of its own.

A member's own client answers only when the broker has answered its request to join, which takes as long as a rebalance.
The admin client could ask too, but librdkafka ends the process when such a request is under way while the brokers go
away (seen with 2.16: an assertion in ``rd_kafka_enq_once_del_source_return``).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from processor_api.errors import RetryableError, StreamsError
from processor_api.forks import belongs_to_this_process, never_free
from processor_api.task_id import TopicPartition
from streams.kafka.confluent.callbacks import ClientLog
from streams.kafka.confluent.outage import ClusterOutage
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.kafka.ports import OffsetAndMetadata

# The texts of committed offsets, which the client shows as they are only if it has committed them itself.

log = logging.getLogger("streams.kafka.client")

Ask = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, str]]
"""Returns the texts as the broker has them."""


def committed_offsets(found: Collection[ClientPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the partitions that have a committed offset, of what the client found: with texts that it may show with
    more behind them (`exact_offsets`), and without those that are no text then."""
    return {
        TopicPartition(one.topic, one.partition): OffsetAndMetadata(one.offset, _shown(one))
        for one in found
        if one.offset >= 0
    }


def exact_offsets(found: Collection[ClientPartition], ask: Ask) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the same with the texts as they were committed, also by other clients, such as Kafka Streams for Java.

    The broker is asked again only where a text is not wholly one of this library's: the client shows those right.

    :raises RetryableError: if the broker does not answer in time.
    """
    offsets = committed_offsets(found)
    shown = {TopicPartition(one.topic, one.partition): one for one in found}
    doubtful = {
        name
        for name, one in offsets.items()
        if not TopicPartitionMetadata.is_whole(one.metadata) and _has_text(shown[name])
    }
    if not doubtful:
        return offsets
    try:
        texts = ask(doubtful)
    except RetryableError:
        raise
    except StreamsError as error:  # a login or a broker that the small client does not know
        log.warning("texts of committed offsets may have more behind them", extra={"error": str(error)})
        return offsets
    return {
        name: OffsetAndMetadata(one.offset, texts.get(name, "")) if name in doubtful else one
        for name, one in offsets.items()
    }


def _has_text(one: ClientPartition) -> bool:
    try:
        return bool(one.metadata)
    except UnicodeDecodeError:
        return True


def _shown(one: ClientPartition) -> str:
    try:
        return one.metadata or ""
    except UnicodeDecodeError:
        return ""


class GroupReader:
    """Reads the committed offsets of groups of one cluster; may be used by any thread. Clients are made when they are
    needed.

    :param config: of an admin client.
    :param outage: that of its cluster.
    """

    def __init__(self, config: Mapping[str, Any], outage: ClusterOutage) -> None:
        self._outage = outage
        self._config = {name: value for name, value in config.items() if name != "error_cb"}
        self._lock = threading.Lock()
        self._clients: dict[str, Consumer] = {}
        belongs_to_this_process(self)

    def leave_to_parent(self) -> Collection[str]:
        """Keeps a forked child from freeing the clients, which wait for their threads."""
        never_free(list(self._clients.values()))
        return ()

    def _client(self, group: str) -> Consumer:
        with self._lock:
            client = self._clients.get(group)
            if client is None:
                settings = {
                    **self._config,
                    "group.id": group,
                    "enable.auto.commit": False,
                    "isolation.level": "read_uncommitted",  # these offsets are never committed in a transaction
                    "error_cb": self._outage.report,
                }
                client = self._clients[group] = Consumer(settings, logger=ClientLog())
            return client

    def offsets(
        self, group: str, partitions: Collection[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the offsets that are committed; partitions without one are left out.

        :raises KafkaException: if the coordinator does not answer.
        """
        client = self._client(group)
        try:
            found = client.committed([ClientPartition(*name) for name in partitions], timeout=timeout_s)
        except KafkaException:
            with self._lock:  # it may have lost all brokers, which a new client finds
                self._clients.pop(group, None)
            raise
        finally:
            client.poll(0)  # it reads nothing; this takes what the client has to log, which would pile up
        for one in found:
            if one.error is not None:
                raise KafkaException(one.error)
        return committed_offsets(found)

    def close(self) -> None:
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()
