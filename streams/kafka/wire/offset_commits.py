"""Commits a member's offsets, and reads those that are committed, over a connection of its own.

librdkafka sends a commit over the connection on which it asks to join. A broker answers the requests of a connection
one after the other, so a commit waits there until a rebalance is over, which may be as long as the session of a dead
member. A client that has lost all brokers keeps a commit for the time of a session, too (2.16). Over another connection
the coordinator answers at once: it takes commits of members of the present generation while the next one is prepared.
The same holds for a request for committed offsets.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

from processor_api.clock import Clock
from processor_api.task_id import TopicPartition
from streams.kafka.ports import OffsetAndMetadata, PartlyCommitted
from streams.kafka.wire import error_codes
from streams.kafka.wire.api import Api
from streams.kafka.wire.client_settings import ClientSettings
from streams.kafka.wire.codec import AtMost, Int16, Int32, Int64
from streams.kafka.wire.coordinator import Coordinator
from streams.kafka.wire.messages import OffsetFetchResponse
from streams.kafka.wire.offset_texts import TEXT_END, offsets_request

_NO_EPOCH = -1


class CommittedPartition(NamedTuple):
    """The offset to commit for one partition."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32
    committed_metadata: str | None


class CommittedTopic(NamedTuple):
    """The offsets to commit for one topic."""

    name: str
    partitions: tuple[CommittedPartition, ...]


class OffsetCommitRequest(NamedTuple):
    """A commit of a member; without generation and member, that of a client outside of an empty group."""

    group_id: str
    generation_id: Int32
    member_id: str
    group_instance_id: str | None
    topics: tuple[CommittedTopic, ...]


class AnsweredPartition(NamedTuple):
    """The result for one partition."""

    partition_index: Int32
    error_code: Int16


class AnsweredTopic(NamedTuple):
    """The results for one topic."""

    name: str
    partitions: Annotated[tuple[AnsweredPartition, ...], AtMost(100_000)]


class OffsetCommitResponse(NamedTuple):
    """The results of a commit."""

    throttle_time_ms: Int32
    topics: Annotated[tuple[AnsweredTopic, ...], AtMost(100_000)]

    @property
    def error_code(self) -> int:
        """The first error; one of the group is that of all partitions."""
        codes = (partition.error_code for topic in self.topics for partition in topic.partitions)
        return next((code for code in codes if code != error_codes.NONE), error_codes.NONE)

    @property
    def absent(self) -> frozenset[TopicPartition]:
        """The partitions that do not exist, if nothing else is wrong."""
        codes = {
            TopicPartition(topic.name, one.partition_index): one.error_code
            for topic in self.topics
            for one in topic.partitions
        }
        only = {error_codes.NONE, error_codes.UNKNOWN_TOPIC_OR_PARTITION}.issuperset(codes.values())
        return frozenset(name for name, code in codes.items() if code != error_codes.NONE) if only else frozenset()


OFFSET_COMMIT = Api(
    name="OffsetCommit",
    key=8,
    lowest=8,
    highest=8,
    flexible_from=8,
    request=OffsetCommitRequest,
    response=OffsetCommitResponse,
    needs="2.4",
    most_answer_bytes=16 * 1024 * 1024,
)
EPOCH_OFFSET_COMMIT = replace(OFFSET_COMMIT, lowest=9, highest=9, needs="4.0")
"""The version for members with an epoch of their own, in groups of the consumer and of the streams protocol; these
refuse version 8, and version 10 has ids of topics."""


class CommittingMember(NamedTuple):
    """The identity that the coordinator checks."""

    member_id: str
    generation: int
    instance_id: str | None


class OffsetCommits:
    """Sends the commits of one consumer, and reads what its group has committed. For one thread at a time.

    :param settings: of the consumer, under librdkafka's names: servers, TLS and login are taken from them.
    :param api: the version of the request, which depends on the protocol of the group.
    :raises ConfigError: if they need what only librdkafka has, such as a login by Kerberos.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        group: str,
        clock: Clock | None = None,
        api: Api[OffsetCommitRequest, OffsetCommitResponse] = OFFSET_COMMIT,
    ) -> None:
        self._group = group
        self._api = api
        self._coordinator = Coordinator(ClientSettings.of(settings), group, clock)

    def commit(
        self, member: CommittingMember, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_s: float
    ) -> int:
        """Commits offsets; returns the first error code of the answer, which is 0 if all were committed.

        :raises PartlyCommitted: if partitions do not exist, and nothing else is wrong.

        The request is sent again only where it cannot arrive twice: after the end of a connection, or where the
        coordinator moves.

        :raises RetryableError: if there was no answer within the time. Then it may still arrive, as long as the group
            has this generation.
        :raises StreamsError: if it cannot be asked: a refused login or certificate, or an older broker.
        """
        topics: dict[str, list[CommittedPartition]] = {}
        for (topic, number), (offset, text) in offsets.items():
            topics.setdefault(topic, []).append(CommittedPartition(number, offset, _NO_EPOCH, text + TEXT_END))
        request = OffsetCommitRequest(
            self._group,
            member.generation,
            member.member_id,
            member.instance_id,
            tuple(CommittedTopic(topic, tuple(partitions)) for topic, partitions in topics.items()),
        )
        answer = self._coordinator.call(self._api, request, timeout_s)
        code = answer.error_code
        if code == error_codes.UNKNOWN_TOPIC_OR_PARTITION and (absent := answer.absent):
            raise PartlyCommitted.without(absent)
        return code

    def committed(
        self, partitions: Collection[TopicPartition], *, require_stable: bool, timeout_s: float
    ) -> OffsetFetchResponse:
        """Returns the committed offsets of partitions, -1 where there is none; the caller looks at the error codes.

        :param require_stable: whether an offset is an error as long as a transaction may change it (KIP-447).
        :raises RetryableError: if there was no answer within the time.
        :raises StreamsError: if it cannot be asked: a refused login or certificate, or an older broker.
        """
        api, request = offsets_request(self._group, partitions, require_stable=require_stable)
        return self._coordinator.call(api, request, timeout_s)

    def close(self) -> None:
        """Closes the connection; may be called again."""
        self._coordinator.close()

    def __del__(self) -> None:
        with suppress(Exception):  # it was never made whole, or the process ends
            self.close()  # with the last reference, as a client of librdkafka is
