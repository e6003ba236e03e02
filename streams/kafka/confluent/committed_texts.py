"""The texts of committed offsets, which the client shows as they are only if it has committed them itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from confluent_kafka import TopicPartition as ClientPartition

from processor_api.errors import RetryableError, StreamsError
from processor_api.task_id import TopicPartition
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.kafka.ports import OffsetAndMetadata

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
