"""Reads the texts that were committed with a group's offsets, as long as they are.

librdkafka keeps their lengths, but the text that its Python client returns ends at the first byte 0 of memory. That is
where the text ends if this client has committed it, which sends that byte too. Behind a text of another client, such as
Kafka Streams for Java, comes whatever was in memory: more characters, or bytes that are not text (seen with 2.16).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from processor_api.clock import Clock
from processor_api.errors import RetryableError, StreamsError
from processor_api.task_id import TopicPartition
from streams.kafka.ports import OffsetAndMetadata
from streams.kafka.wire import error_codes, messages
from streams.kafka.wire.api import Api
from streams.kafka.wire.client_settings import ClientSettings
from streams.kafka.wire.coordinator import Coordinator

TEXT_END = "\0"
"""The byte that librdkafka's Python client sends behind each text that it commits."""


def offset_texts(
    settings: Mapping[str, Any],
    group: str,
    partitions: Collection[TopicPartition],
    *,
    timeout_s: float = 10.0,
    clock: Clock | None = None,
) -> dict[TopicPartition, str]:
    """Returns the text of each partition's committed offset, without the byte 0 at its end; empty where there is none.

    :param settings: of the consumer, under librdkafka's names: servers, TLS and login are taken from them.
    :param timeout_s: for all of it, but for finding the hosts' addresses.
    :raises RetryableError: if no coordinator was ready within the time, or a transaction is about to change an offset.
    :raises StreamsError: if it cannot be done: a refused login or certificate, a missing right, a wrong setting, or a
        broker older than Kafka 3.0.
    """
    api, request = offsets_request(group, partitions, require_stable=True)
    with Coordinator(ClientSettings.of(settings), group, clock) as coordinator:
        answer = coordinator.call(api, request, timeout_s)
    if answer.error_code != error_codes.NONE:
        raise StreamsError(f"the offsets of group {group!r} cannot be read: {error_codes.described(answer.error_code)}")
    return {name: one.metadata for name, one in fetched_offsets(group, answer).items()}


def offsets_request(
    group: str, partitions: Collection[TopicPartition], *, require_stable: bool
) -> tuple[Api[messages.OffsetFetchRequest, messages.OffsetFetchResponse], messages.OffsetFetchRequest]:
    """Returns the request for the committed offsets of a group."""
    numbers: dict[str, list[int]] = {}
    for topic, number in partitions:
        numbers.setdefault(topic, []).append(number)
    topics = tuple(
        messages.OffsetFetchTopic(topic, tuple(sorted(of_topic))) for topic, of_topic in sorted(numbers.items())
    )
    return messages.OFFSET_FETCH, messages.OffsetFetchRequest(
        (messages.OffsetFetchGroup(group, topics),), require_stable
    )


def fetched_offsets(
    group: str, answer: messages.OffsetFetchResponse, *, only_stable: bool = False
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the offsets of an answer, -1 where there is none, with their texts without the byte 0 at the end.

    :param only_stable: whether those that a transaction may change are left out, where they are an error else.
    :raises RetryableError: if one cannot be read now.
    """
    offsets = {}
    for name, found in _partitions(answer):
        if only_stable and found.error_code == error_codes.UNSTABLE_OFFSET_COMMIT:
            continue
        if found.error_code != error_codes.NONE:
            raise RetryableError(
                f"the offset of group {group!r} in {name} cannot be read: {error_codes.described(found.error_code)}"
            )
        offsets[name] = OffsetAndMetadata(found.committed_offset, (found.metadata or "").removesuffix(TEXT_END))
    return offsets


def first_error(answer: messages.OffsetFetchResponse) -> int:
    """Returns the error code of an answer or of its first partition that has one; 0 if there is none."""
    codes = (answer.error_code, *(found.error_code for _, found in _partitions(answer)))
    return next((code for code in codes if code != error_codes.NONE), error_codes.NONE)


def _partitions(answer: messages.OffsetFetchResponse) -> Iterator[tuple[TopicPartition, messages.FetchedOffset]]:
    for topic in (topic for one in answer.groups for topic in one.topics):
        for found in topic.partitions:
            yield TopicPartition(topic.name, found.partition_index), found
