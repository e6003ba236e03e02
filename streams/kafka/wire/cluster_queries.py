"""Asks a cluster what a member needs to know before it opens its tasks, by requests of our own.

librdkafka's admin client keeps the leader epochs that it once saw: after an election it is refused with
``FENCED_LEADER_EPOCH`` until its metadata are a few minutes old. It also ends the process when a request for a group
has timed out and its broker comes back (2.16: an assertion about a reference count). Here each request that depends on
a leader gets metadata of now, and a timeout is an error like any other.
"""

from __future__ import annotations

import re
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, NamedTuple, TypeVar

from processor_api.clock import Clock, SystemClock
from processor_api.errors import AuthorizationError, RetryableError, StreamsError
from processor_api.task_id import TopicPartition
from streams.kafka import ports
from streams.kafka.offset_metadata import LogPoint
from streams.kafka.streams_group import STATIC_LEAVE_EPOCH
from streams.kafka.wire import consumer_groups, error_codes, messages
from streams.kafka.wire.api import Api
from streams.kafka.wire.client_settings import Address, ClientSettings
from streams.kafka.wire.codec import AtMost, BatchHeader, Int16, Int32, Reader, batch_headers, codec_of
from streams.kafka.wire.connection import Connection, Connections, Deadline, UnsupportedRequest
from streams.kafka.wire.coordinator import Coordinator, CoordinatorAnswer
from streams.kafka.wire.offset_texts import fetched_offsets, offsets_request
from streams.kafka.wire.streams_groups.heartbeats import task_lists
from streams.kafka.wire.streams_groups.messages import (
    STREAMS_GROUP_DESCRIBE,
    DescribedStreamsMember,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)


class AssignedTopic(NamedTuple):
    """The partitions of one topic that a member is assigned."""

    topic: str
    partitions: Annotated[tuple[Int32, ...], AtMost(100_000)]


class ConsumerAssignment(NamedTuple):
    """Kafka's ``ConsumerProtocolAssignment``, as far as all of its versions have it.

    Members of a group exchange these bytes; the protocol of the broker passes them on as they are.
    """

    version: Int16
    assigned: Annotated[tuple[AssignedTopic, ...], AtMost(100_000)]

    def partitions(self) -> frozenset[TopicPartition]:
        """Returns the partitions of all topics."""
        return frozenset(TopicPartition(one.topic, number) for one in self.assigned for number in one.partitions)


A = TypeVar("A")
F = TypeVar("F")
Q = TypeVar("Q")
R = TypeVar("R", bound=CoordinatorAnswer)
D = TypeVar(
    "D", messages.DescribeGroupsResponse, consumer_groups.ConsumerGroupDescribeResponse, StreamsGroupDescribeResponse
)

ONGOING = "Ongoing"
FENCED_TIMEOUT_MS = 10_000
"""The timeout of the next transaction of a fenced id; its next producer gives its own."""
_PAUSE_S = 0.1
_NO_ID = bytes(16)
_PROTOCOL_TYPES = frozenset(("", "consumer", "streams"))
"""Those of groups without members, of consumers and of applications; there are groups of other programs, too."""
_NO_EPOCH = -1
_NOT_SHOWN = frozenset((error_codes.UNKNOWN_TOPIC_OR_PARTITION, error_codes.TOPIC_AUTHORIZATION_FAILED))
_NO_RIGHT = (
    error_codes.TOPIC_AUTHORIZATION_FAILED,
    error_codes.GROUP_AUTHORIZATION_FAILED,
    error_codes.CLUSTER_AUTHORIZATION_FAILED,
    error_codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)


class _EpochEnd(NamedTuple):
    """The end of an epoch in a log, as its leader says."""

    epoch: int
    """The largest one up to that which was asked for; -1 if the leader knows none."""
    offset: int
    of_leader: int
    """The epoch of the leader itself; -1 if it is not known."""


_AskLeader = Callable[
    [Mapping[TopicPartition, A], Mapping[TopicPartition, int], dict[TopicPartition, F], Connection, Deadline], None
]
"""Asks one leader: ``(what is asked of each partition, epochs of leaders, what was found, connection, deadline)``."""


class ClusterQueries:
    """Sends questions about logs, topics and groups. May be used by any thread; each call has its own connections
    meanwhile, and leaves them to the next one.

    :param settings: of a client, under librdkafka's names: servers, TLS and login are taken from them.
    :raises ConfigError: if they need what only librdkafka has, such as a login by Kerberos.
    """

    def __init__(self, settings: Mapping[str, Any], clock: Clock | None = None) -> None:
        self._settings = ClientSettings.of(settings)
        self._clock = clock or SystemClock()
        self._connections = Connections(self._settings)
        self._lock = threading.Lock()
        self._coordinators: dict[str, list[Coordinator]] = {}

    def close(self) -> None:
        """Closes the connections that are not in use; may be called again."""
        self._connections.close()
        with self._lock:
            coordinators, self._coordinators = self._coordinators, {}
        for of_group in coordinators.values():
            for one in of_group:
                one.close()

    def __del__(self) -> None:
        with suppress(Exception):  # it was never made whole, or the process ends
            self.close()  # with the last reference, as a client of librdkafka is

    # ------------------------------------------------------------------ logs and topics

    def log_ends(self, partitions: Collection[TopicPartition], timeout_s: float) -> dict[TopicPartition, int]:
        """Returns the ends of logs, with records of open transactions.

        :raises UnknownPartitionError: at once, if a partition does not exist.
        :raises RetryableError: if not all leaders have answered within the time.
        """
        return self.offsets_for_time(dict.fromkeys(partitions, messages.LATEST), timeout_s)

    def offsets_for_time(
        self,
        times: Mapping[TopicPartition, int],
        timeout_s: float,
        isolation: int = messages.READ_UNCOMMITTED,
        *,
        waits: bool = True,
    ) -> dict[TopicPartition, int]:
        """Returns the first offset at or after a time in ms of each partition; -1 where there is no such record. Errors
        are those of :meth:`log_ends`.

        :param isolation: which records count: with :data:`READ_COMMITTED`, those up to the first open transaction.
        :param waits: whether the time is used up if no broker can be reached at all; otherwise the error is raised
            immediately.
        """
        return self._of_leaders(partial(_ask_offsets, isolation), times, timeout_s, waits=waits)

    def divergences(
        self, points: Collection[tuple[TopicPartition, LogPoint]], timeout_s: float
    ) -> dict[tuple[TopicPartition, LogPoint], int]:
        """Returns the points that are no longer in their logs, with the offset from which on each log is another
        one. Errors are those of :meth:`log_ends`.

        A point of an epoch that the leader does not know is left out, unless all leaders of now are of earlier epochs:
        then the cluster was restored from older copies, and the log differs from its beginning.
        """
        found: dict[tuple[TopicPartition, LogPoint], int] = {}
        left = set(points)
        while left:  # a request has one epoch for each partition, and few partitions have two points
            asked = dict(sorted(left))
            left.difference_update(asked.items())
            epochs = {partition: point.leader_epoch for partition, point in asked.items()}
            for partition, (epoch, end, now) in self._of_leaders(_ask_epochs, epochs, timeout_s).items():
                point = asked[partition]
                if epoch >= 0 and end <= point.offset:
                    found[partition, point] = end
                elif epoch < 0 <= now < point.leader_epoch:
                    found[partition, point] = 0
        return found

    def _of_leaders(
        self, ask: _AskLeader[A, F], wanted: Mapping[TopicPartition, A], timeout_s: float, *, waits: bool = True
    ) -> dict[TopicPartition, F]:
        """Returns what the leaders of now say about partitions.

        :param ask: asks one leader, and adds what it says of partitions.
        """
        deadline = Deadline(timeout_s, self._clock)
        found: dict[TopicPartition, F] = {}
        while True:
            missing = {name: one for name, one in wanted.items() if name not in found}
            asked = False
            try:
                metadata = self._metadata({name.topic for name in missing}, deadline)
                asked = True
                self._ask_leaders(ask, metadata, missing, found, deadline)
                return found
            except ports.UnknownPartitionError:
                raise
            except RetryableError as error:
                failure = error
            if not (asked or waits) or not deadline.wait(_PAUSE_S):
                raise failure

    def _ask_leaders(
        self,
        ask: _AskLeader[A, F],
        metadata: messages.MetadataResponse,
        wanted: Mapping[TopicPartition, A],
        found: dict[TopicPartition, F],
        deadline: Deadline,
    ) -> None:
        """Adds to what was found, as far as the leaders of now answer.

        :raises RetryableError: if one of them does not.
        """
        leaders, failure = _leaders(wanted, metadata)
        for left, (address, led) in zip(range(len(leaders), 0, -1), leaders.items(), strict=True):
            part = deadline.share(left)
            try:
                of_leader = {name: wanted[name] for name in led}
                epochs = _epochs(metadata)
                self._connections.ask(address, part, partial(ask, of_leader, epochs, found))
            except RetryableError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _metadata(self, topics: Iterable[str], deadline: Deadline) -> messages.MetadataResponse:
        request = _metadata_request(topics)
        return self._connections.any(deadline, lambda broker, part: broker.call(messages.METADATA, request, part))

    def topic_ids(self, names: Collection[str], timeout_s: float) -> dict[str, str]:
        """Returns the ids of those topics that exist, may be seen and have one, as Kafka's tools print them.

        :raises RetryableError: if no broker answers within the time.
        """
        return {name: state.id for name, state in self.topic_states(names, timeout_s).items()}

    def topic_states(self, names: Collection[str], timeout_s: float) -> dict[str, ports.TopicState]:
        """Returns the same, with the epochs of the leaders of now; errors are those of :meth:`topic_ids`."""
        deadline = Deadline(timeout_s, self._clock)
        while True:
            try:
                answer = self._metadata(names, deadline)
                found = {}
                for topic in answer.topics:
                    if topic.error_code not in (error_codes.NONE, *_NOT_SHOWN):
                        raise _not_described(topic)
                    if topic.name is not None and topic.topic_id != _NO_ID and topic.error_code == error_codes.NONE:
                        id_ = urlsafe_b64encode(topic.topic_id).decode().rstrip("=")
                        epochs = {one.partition_index: one.leader_epoch for one in topic.partitions}
                        found[topic.name] = ports.TopicState(id_, {n: e for n, e in epochs.items() if e >= 0})
                return found
            except RetryableError as error:
                failure = error
            if not deadline.wait(_PAUSE_S):
                raise failure

    def batch_headers(
        self, partition: TopicPartition, offset: int, timeout_s: float, most_bytes: int = messages.FETCH_BYTES
    ) -> list[BatchHeader]:
        """Returns the headers of batches from an offset on, as many as an answer has; the first one may begin before
        it. There are none behind the last batch.

        :raises RetryableError: if the leader does not answer within the time, or does not have the offset.
        :raises MalformedMessage: if the log has batches of an older format.
        """
        deadline = Deadline(timeout_s, self._clock)
        request = messages.fetch_request(*partition, offset, most_bytes)
        while True:
            try:
                found, failure = _leaders([partition], self._metadata({partition.topic}, deadline))
                if failure is not None:
                    raise failure
                (address,) = found
                answer = self._connections.ask(
                    address, deadline, lambda line, limit: line.call(messages.FETCH, request, limit)
                )
                code = answer.error_code or answer.responses[0].partitions[0].error_code
                if code == error_codes.NONE:
                    return list(batch_headers(answer.responses[0].partitions[0].records or b""))
                what, right = f"the batches of {partition} cannot be read", f"READ on topic {partition.topic!r}"
                refused = _refusal(what, code, right, **partition._asdict())
                if not isinstance(refused, RetryableError):
                    raise refused
                failure = refused
            except ports.UnknownPartitionError:
                raise
            except RetryableError as error:
                failure = error
            if not deadline.wait(_PAUSE_S):
                raise failure

    def unknown_somewhere(self, partitions: Mapping[str, int], timeout_s: float) -> set[str]:
        """Returns the topics of which some broker knows fewer partitions with a leader than given.

        A broker that does not answer is passed over, because clients cannot ask it either.

        :raises RetryableError: if no broker answers within the time.
        """
        deadline = Deadline(timeout_s, self._clock)
        request = _metadata_request(partitions)
        brokers = self._metadata((), deadline).brokers
        unknown: set[str] = set()
        for left, broker in zip(range(len(brokers), 0, -1), brokers, strict=True):
            part, address = deadline.share(left), Address(broker.host, broker.port)
            with suppress(RetryableError):
                answer = self._connections.ask(
                    address, part, lambda line, limit: line.call(messages.METADATA, request, limit)
                )
                led = {topic.name: sum(one.leader_id >= 0 for one in topic.partitions) for topic in answer.topics}
                unknown |= {name for name, count in partitions.items() if led.get(name, 0) < count}
        return unknown

    # ------------------------------------------------------------------ transactions

    def open_transactions(self, timeout_s: float) -> list[str]:
        """Returns the transactional ids that have an open transaction and may be seen; each broker knows some.

        :raises RetryableError: if not all brokers have answered within the time.
        """
        return sorted(self.transactions((ONGOING,), timeout_s))

    def transactions(self, states: Collection[str], timeout_s: float) -> dict[str, str]:
        """Returns the states of transactional ids that may be seen, by id; each broker knows some.

        :param states: only ids that are in one of these states; all, if none is given.
        :raises RetryableError: if not all brokers have answered within the time.
        """
        found: dict[str, str] = {}
        for answer in self._ask_all(
            messages.LIST_TRANSACTIONS, messages.ListTransactionsRequest(tuple(states), ()), timeout_s
        ):
            if answer.error_code != error_codes.NONE:
                raise _refusal("transactions cannot be listed", answer.error_code, "DESCRIBE on the cluster")
            found |= {one.transactional_id: one.transaction_state for one in answer.transaction_states}
        return found

    def _ask_all(self, api: Api[Q, R], request: Q, timeout_s: float) -> Iterator[R]:
        """Yields the answer of each broker."""
        deadline = Deadline(timeout_s, self._clock)
        brokers = self._metadata((), deadline).brokers
        for left, broker in zip(range(len(brokers), 0, -1), brokers, strict=True):
            part = deadline.share(left)
            address = Address(broker.host, broker.port)
            yield self._connections.ask(address, part, lambda line, limit: line.call(api, request, limit))

    def fence_producer(self, transactional_id: str, timeout_s: float) -> bool:
        """Ends the open transaction of a transactional id, and fences its producer.

        :returns: whether there was one.
        :raises RetryableError: if its coordinator does not answer within the time.
        """
        request = messages.InitProducerIdRequest(transactional_id, FENCED_TIMEOUT_MS, -1, -1)
        with Coordinator(self._settings, transactional_id, self._clock, messages.TRANSACTION_KEY) as coordinator:
            answer = coordinator.call(messages.INIT_PRODUCER_ID, request, timeout_s)
        if answer.error_code not in (error_codes.NONE, error_codes.CONCURRENT_TRANSACTIONS):  # the latter: it ends now
            name = f"transactional id {transactional_id!r}"
            raise _refusal(f"{name} cannot be fenced", answer.error_code, f"WRITE on {name}")
        return answer.error_code == error_codes.CONCURRENT_TRANSACTIONS

    # ------------------------------------------------------------------ groups

    def groups(self, timeout_s: float) -> list[str]:
        """Returns the names of the groups of consumers and of applications that may be seen, in order.

        :raises RetryableError: if not all brokers answer within the time.
        """
        found: set[str] = set()
        for answer in self._ask_all(messages.LIST_GROUPS, messages.ListGroupsRequest(()), timeout_s):
            if answer.error_code != error_codes.NONE:
                raise _refusal("groups cannot be listed", answer.error_code, "DESCRIBE on the cluster")
            found.update(one.group_id for one in answer.groups if one.protocol_type in _PROTOCOL_TYPES)
        return sorted(found)

    def delete_group(self, group: str, timeout_s: float) -> None:
        """Deletes a group with its offsets; one that does not exist is passed over.

        :raises RetryableError: if its coordinator does not answer within the time.
        :raises StreamsError: if the group has members.
        """
        answer = self._ask_coordinator(group, messages.DELETE_GROUPS, messages.DeleteGroupsRequest((group,)), timeout_s)
        if answer.error_code == error_codes.NON_EMPTY_GROUP:
            raise ports.GroupHasMembers(f"group {group!r} has members: stop its workers first")
        if answer.error_code not in (error_codes.NONE, error_codes.GROUP_ID_NOT_FOUND):
            raise _refusal(f"group {group!r} cannot be deleted", answer.error_code, f"DELETE on group {group!r}")

    def describe_group(self, group: str, timeout_s: float) -> ports.GroupInfo:
        """Returns a group of any of the protocols; one that does not exist is ``dead``. Each protocol has a request of
        its own, which finds no groups of the others.

        :raises RetryableError: if its coordinator does not answer within the time.
        """
        found = self._describe_classic(group, timeout_s)
        if found is not None:
            return found
        consumers = self._describe(
            group,
            consumer_groups.CONSUMER_GROUP_DESCRIBE,
            consumer_groups.ConsumerGroupDescribeRequest((group,), False),
            timeout_s,
        )
        if consumers is not None:
            (one,) = consumers.groups
            members = tuple(map(consumer_groups.consumer_member, one.members))
            return ports.GroupInfo(group, _state(one.group_state), one.assignor_name, members, "consumer")
        streams = self._describe(group, STREAMS_GROUP_DESCRIBE, StreamsGroupDescribeRequest((group,), False), timeout_s)
        if streams is not None:
            (two,) = streams.groups
            return ports.GroupInfo(
                group, _state(two.group_state), "", tuple(map(_streams_member, two.members)), "streams"
            )
        return ports.GroupInfo(group, "dead", "", ())

    def _describe_classic(self, group: str, timeout_s: float) -> ports.GroupInfo | None:
        request = messages.DescribeGroupsRequest((group,), include_authorized_operations=False)
        answer = self._describe(group, messages.DESCRIBE_GROUPS, request, timeout_s)
        if answer is None or answer.groups[0].group_state == "Dead":
            return None
        (found,) = answer.groups
        return ports.GroupInfo(
            group, _state(found.group_state), found.protocol_data, tuple(map(_member, found.members))
        )

    def _describe(self, group: str, api: Api[Q, D], request: Q, timeout_s: float) -> D | None:
        """Returns a description; ``None`` if there is no such group of this protocol."""
        try:
            answer = self._ask_coordinator(group, api, request, timeout_s)
        except UnsupportedRequest:
            if api is messages.DESCRIBE_GROUPS:
                raise
            return None
        if answer.error_code == error_codes.GROUP_ID_NOT_FOUND:
            return None
        if answer.error_code == error_codes.UNSUPPORTED_VERSION and api is not messages.DESCRIBE_GROUPS:
            return None  # the brokers know the request, and their feature is off
        if answer.error_code != error_codes.NONE or len(answer.groups) != 1:
            raise _refusal(f"group {group!r} is not described", answer.error_code, f"DESCRIBE on group {group!r}")
        return answer

    def group_offsets(
        self, group: str, partitions: Collection[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, ports.OffsetAndMetadata]:
        """Returns the committed offsets of a group, without those partitions that have none. An offset that an open
        transaction may change is returned as it is.

        :raises RetryableError: if its coordinator does not answer within the time.
        """
        api, request = offsets_request(group, partitions, require_stable=False)
        answer = self._ask_coordinator(group, api, request, timeout_s)
        if answer.error_code != error_codes.NONE:
            what, right = f"the offsets of group {group!r} cannot be read", f"DESCRIBE on group {group!r}"
            raise _refusal(what, answer.error_code, right)
        return {name: one for name, one in fetched_offsets(group, answer).items() if one.offset >= 0}

    def stable_offsets(
        self, group: str, partitions: Collection[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, ports.OffsetAndMetadata]:
        """Returns the committed offsets of a group, -1 where there is none, without those partitions whose offset an
        open or half-ended transaction may change (KIP-447).

        :raises RetryableError: if its coordinator does not answer within the time.
        """
        api, request = offsets_request(group, partitions, require_stable=True)
        answer = self._ask_coordinator(group, api, request, timeout_s)
        if answer.error_code != error_codes.NONE:
            what, right = f"the offsets of group {group!r} cannot be read", f"DESCRIBE on group {group!r}"
            raise _refusal(what, answer.error_code, right)
        return fetched_offsets(group, answer, only_stable=True)

    def _ask_coordinator(self, group: str, api: Api[Q, R], request: Q, timeout_s: float) -> R:
        with self._lock:
            kept = self._coordinators.get(group)
            coordinator = kept.pop() if kept else Coordinator(self._settings, group, self._clock)
        try:
            answer = coordinator.call(api, request, timeout_s)
        except BaseException:
            coordinator.close()
            raise
        with self._lock:
            self._coordinators.setdefault(group, []).append(coordinator)
        return answer


def _leaders(
    partitions: Collection[TopicPartition], metadata: messages.MetadataResponse
) -> tuple[dict[Address, list[TopicPartition]], RetryableError | None]:
    """Returns the partitions of each leader, and the error of one that has none now."""
    brokers = {one.broker_id: Address(one.host, one.port) for one in metadata.brokers}
    leaders: dict[TopicPartition, int] = {}
    for topic in metadata.topics:
        if topic.error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION:
            raise ports.UnknownPartitionError(f"topic {topic.name!r} does not exist", topic=topic.name)
        if topic.error_code != error_codes.NONE:
            raise _not_described(topic)
        leaders |= {TopicPartition(topic.name or "", one.partition_index): one.leader_id for one in topic.partitions}
    found: dict[Address, list[TopicPartition]] = {}
    failure: RetryableError | None = None
    for name in partitions:
        if name not in leaders:
            raise ports.UnknownPartitionError(
                f"partition {name} does not exist", topic=name.topic, partition=name.partition
            )
        address = brokers.get(leaders[name])
        if address is None:
            failure = RetryableError(f"partition {name} has no leader now", topic=name.topic, partition=name.partition)
        else:
            found.setdefault(address, []).append(name)
    return found, failure


def _metadata_request(topics: Iterable[str]) -> messages.MetadataRequest:
    names = tuple(messages.NamedTopic(_NO_ID, name) for name in sorted(topics))
    return messages.MetadataRequest(names, False, False)


def _epochs(metadata: messages.MetadataResponse) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name or "", one.partition_index): one.leader_epoch
        for topic in metadata.topics
        for one in topic.partitions
    }


def _ask_epochs(
    wanted: Mapping[TopicPartition, int],
    of_leaders: Mapping[TopicPartition, int],
    found: dict[TopicPartition, _EpochEnd],
    leader: Connection,
    deadline: Deadline,
) -> None:
    topics: dict[str, list[messages.EpochEndPartition]] = {}
    for (topic, number), epoch in wanted.items():
        topics.setdefault(topic, []).append(messages.EpochEndPartition(number, _NO_EPOCH, epoch))
    request = messages.OffsetForLeaderEpochRequest(
        -1, tuple(messages.EpochEndTopic(topic, tuple(asked)) for topic, asked in sorted(topics.items()))
    )
    failure: StreamsError | None = None
    for answered in leader.call(messages.OFFSET_FOR_LEADER_EPOCH, request, deadline).topics:
        for one in answered.partitions:
            name = TopicPartition(answered.topic, one.partition)
            if one.error_code == error_codes.NONE:
                found[name] = _EpochEnd(one.leader_epoch, one.end_offset, of_leaders[name])
            else:
                what, right = f"the leader epochs of {name} cannot be looked up", f"DESCRIBE on topic {name.topic!r}"
                failure = _refusal(what, one.error_code, right, **name._asdict())
    if failure is not None:
        raise failure


def _ask_offsets(
    isolation: int,
    times: Mapping[TopicPartition, int],
    of_leaders: Mapping[TopicPartition, int],
    found: dict[TopicPartition, int],
    leader: Connection,
    deadline: Deadline,
) -> None:
    topics: dict[str, list[messages.ListOffsetsPartition]] = {}
    for (topic, number), time in times.items():
        topics.setdefault(topic, []).append(messages.ListOffsetsPartition(number, _NO_EPOCH, time))
    request = messages.ListOffsetsRequest(
        -1, isolation, tuple(messages.ListOffsetsTopic(topic, tuple(asked)) for topic, asked in sorted(topics.items()))
    )
    failure: StreamsError | None = None
    for listed in leader.call(messages.LIST_OFFSETS, request, deadline).topics:
        for one in listed.partitions:
            name = TopicPartition(listed.name, one.partition_index)
            if one.error_code == error_codes.NONE:
                found[name] = one.offset
            else:
                what, right = f"the offsets of {name} cannot be looked up", f"DESCRIBE on topic {name.topic!r}"
                failure = _refusal(what, one.error_code, right, **name._asdict())
    if failure is not None:
        raise failure


def _refusal(what: str, code: int, right: str, **place: Any) -> StreamsError:
    """Returns the error of an answer. All but those about rights may pass: the metadata that the request relied on are
    asked for again before the next try.

    :param right: what the user must be allowed for the request.
    """
    text = f"{what}: {error_codes.described(code)}"
    return AuthorizationError(f"{text}; allow {right}", **place) if code in _NO_RIGHT else RetryableError(text, **place)


def _not_described(topic: messages.TopicMetadata) -> StreamsError:
    name = f"topic {topic.name!r}"
    return _refusal(f"{name} is not described", topic.error_code, f"DESCRIBE on {name}", topic=topic.name)


def _state(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _streams_member(found: DescribedStreamsMember) -> ports.GroupMember:
    lists = task_lists(found.assignment)
    return ports.GroupMember(
        client_id=found.client_id,
        member_id=found.member_id,
        instance_id=found.instance_id,
        partitions=frozenset(),
        host=found.client_host.lstrip("/"),
        tasks=lists.active,
        standby=lists.copies,
        has_left=found.member_epoch == STATIC_LEAVE_EPOCH,
        protocol="streams",
        process_id=found.process_id,
    )


def _member(found: messages.DescribedGroupMember) -> ports.GroupMember:
    assigned: frozenset[TopicPartition] = frozenset()
    if found.member_assignment:
        with suppress(StreamsError):  # of a client with a form of its own: Kafka's tools show no partitions then
            read: Callable[[Reader], ConsumerAssignment] = codec_of(ConsumerAssignment, 0, flexible=False).read
            assigned = read(Reader(found.member_assignment)).partitions()
    return ports.GroupMember(
        client_id=found.client_id,
        member_id=found.member_id,
        instance_id=found.group_instance_id,
        partitions=assigned,
        host=found.client_host.lstrip("/"),
    )
