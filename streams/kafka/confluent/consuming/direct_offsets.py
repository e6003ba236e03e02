"""Asks for a consumer over connections of our own: the offsets of its group and of its partitions, by its client only
where our own cannot log in or a broker is too old for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from processor_api.clock import SystemClock
from processor_api.errors import AuthorizationError, ConfigError, RetryableError, StreamsError
from processor_api.task_id import TopicPartition
from streams.kafka.confluent.consuming.group_place import generation_of, member_of
from streams.kafka.confluent.errors import Resources, mapped, offsets_error, raise_first
from streams.kafka.ports import ClientUnusable, OffsetAndMetadata, UnknownPartitionError
from streams.kafka.wire.cluster_queries import ClusterQueries
from streams.kafka.wire.error_codes import NONE
from streams.kafka.wire.messages import READ_COMMITTED, READ_UNCOMMITTED
from streams.kafka.wire.offset_commits import CommittingMember, OffsetCommits
from streams.kafka.wire.offset_texts import fetched_offsets, first_error

log = logging.getLogger("streams.kafka.client")

TIMEOUT_S = 30.0
COMMIT_S = 30.0
READ_S = 10.0
UNSTABLE_S = 5.0
"""So long a transaction that may change committed offsets is waited for, before the caller polls and tries again."""
RETRY_WAIT_S = 0.05

Offsets = dict[TopicPartition, int]
GroupPositions = Mapping[TopicPartition, OffsetAndMetadata]


class DirectOffsets:
    """Reads and commits a group's offsets over a connection of its own, until a broker turns out to be too old.

    librdkafka sends both on the connection on which it asks to join, where they wait for each rebalance
    (docs/decisions/clients-and-brokers.md, "Offset commits and reads use a separate connection").

    :param settings: of the consumer, under librdkafka's names.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._group = str(settings.get("group.id"))
        self._instance_id: str | None = settings.get("group.instance.id")
        self._requires_stable = settings.get("isolation.level", "read_committed") == "read_committed"
        self._reads = True
        self.connection: OffsetCommits | None = None
        """Takes the requests; ``None`` where only the client can log in, or a broker is too old to commit."""
        # A login that only librdkafka has, or a consumer without a group.
        with suppress(ConfigError, KeyError):
            self.connection = OffsetCommits(settings, settings["group.id"])

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata] | None:
        """Reads committed offsets; returns ``None`` if that is not possible.

        :raises KafkaException: if the coordinator refuses it, or a transaction may change an offset for seconds.
        :raises RetryableError: if it does not answer.
        """
        if self.connection is None or not self._reads:
            return None
        clock = SystemClock()
        deadline = clock.monotonic() + UNSTABLE_S
        while True:
            try:
                answer = self.connection.committed(partitions, require_stable=self._requires_stable, timeout_s=READ_S)
            except RetryableError:
                raise
            except StreamsError as error:  # such as a broker that is older than our request
                log.info("the client reads committed offsets", extra={"error": str(error)})
                self._reads = False
                return None
            code = first_error(answer)
            if code == NONE:
                found = fetched_offsets(self._group, answer)
                return {name: one for name, one in found.items() if one.offset >= 0}
            if code != KafkaError.UNSTABLE_OFFSET_COMMIT or clock.monotonic() >= deadline:
                raise KafkaException(KafkaError(code))
            clock.wait(RETRY_WAIT_S)

    def commit(self, metadata: bytes, offsets: GroupPositions) -> bool:
        """Commits offsets; returns whether that is possible.

        :param metadata: the group's metadata, which name the member that commits.
        :raises KafkaException: if the coordinator refuses it.
        :raises RetryableError: if it does not answer.
        """
        found = member_of(metadata)
        if self.connection is None or found is None:
            return False
        # The instance id without a member would fence the very member whose id the client has just forgotten.
        instance_id = self._instance_id if found else None
        member = CommittingMember(found.decode(), generation_of(metadata), instance_id)
        try:
            code = self.connection.commit(member, offsets, COMMIT_S)
        except (RetryableError, KafkaException):
            raise
        except StreamsError as error:  # such as a broker that is older than our request
            log.info("the client commits offsets", extra={"error": str(error)})
            self.connection = None
            return False
        if code != NONE:
            raise KafkaException(KafkaError(code))
        return True

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()


class PartitionOffsets:
    """Looks up offsets of partitions by time, as far as the consumer may read.

    A connection of librdkafka that a firewall has forgotten takes all of ``socket.timeout.ms`` (30 s) before the client
    makes another; so a task that had just been opened stood still for as long. Of our own connections one that has
    rested gets a few seconds.

    The protocol has special times for the beginning and the end of a log, which have the same values as librdkafka's
    names for these places.

    :param config: of the consumer, under librdkafka's names.
    """

    def __init__(self, config: Mapping[str, Any], resources: Resources) -> None:
        self._resources = resources
        committed = config.get("isolation.level", "read_committed") == "read_committed"
        self._isolation = READ_COMMITTED if committed else READ_UNCOMMITTED
        self._queries: ClusterQueries | None = None
        try:
            self._queries = ClusterQueries(config)
        except (ConfigError, KeyError) as error:  # such as a login by Kerberos
            self._ask_client_from_now(error)

    def _ask_client_from_now(self, error: Exception) -> None:
        self.close()
        self._queries = None
        log.info("only the client reads offsets of partitions", extra={"error": str(error)})

    def beginnings(self, client: Any, partitions: Collection[TopicPartition]) -> Offsets:
        """Returns the first offset of each log."""
        return self._at(client, dict.fromkeys(partitions, OFFSET_BEGINNING), TIMEOUT_S)

    def ends(self, client: Any, partitions: Collection[TopicPartition], timeout_s: float) -> Offsets:
        """Returns the offset behind the last record that may be read, of each log."""
        return self._at(client, dict.fromkeys(partitions, OFFSET_END), timeout_s)

    def for_times(self, client: Any, times: Mapping[TopicPartition, int]) -> Offsets:
        """Returns the first offset at or after a time in ms; the end where no record has such a time."""
        # The ends first: a record that comes between the two questions lies behind the end then, and is not left out.
        ends = self.ends(client, times, TIMEOUT_S)
        found = self._at(client, times, TIMEOUT_S)
        return {name: ends[name] if offset == OFFSET_END else offset for name, offset in found.items()}

    def _at(self, client: Any, times: Mapping[TopicPartition, int], timeout_s: float) -> Offsets:
        """Returns an offset for each time; `OFFSET_END` where no record has such a time.

        :raises UnknownPartitionError: if a partition does not exist.
        :raises RetryableError: if not all leaders have answered in time.
        """
        if not times:
            return {}
        if self._queries is not None:
            try:
                # The owner of the consumer tries again, and does what it can meanwhile.
                found = self._queries.offsets_for_time(times, timeout_s, self._isolation, waits=False)
                return {name: found[name] for name in times}  # in the order of the question, whichever leader was first
            except (AuthorizationError, RetryableError, UnknownPartitionError):
                raise
            except StreamsError as error:  # such as a broker that is older than our requests
                self._ask_client_from_now(error)
        return _until_answered(lambda left_s: self._by_client(client, times, left_s), timeout_s)

    def _by_client(self, client: Any, times: Mapping[TopicPartition, int], timeout_s: float) -> Offsets:
        wanted = [ClientPartition(*name, ms) for name, ms in times.items()]
        try:
            found = client.offsets_for_times(wanted, timeout=timeout_s)
            raise_first(found)
        except KafkaException as error:
            raise offsets_error(error, times) from error
        except SystemError as error:
            raise mapped(error, "read offsets of partitions", self._resources) from error
        offsets = {TopicPartition(one.topic, one.partition): one.offset for one in found}
        # The end of a log (-1) is an answer to a time behind all records; what is smaller was not answered.
        unknown = next((name for name in times if offsets.get(name, OFFSET_BEGINNING) < OFFSET_END), None)
        if unknown is not None:
            raise RetryableError("the broker did not respond", topic=unknown.topic, partition=unknown.partition)
        return offsets

    def close(self) -> None:
        """Closes the connections; may be called again."""
        if self._queries is not None:
            self._queries.close()


def _until_answered(ask: Callable[[float], Offsets], timeout_s: float) -> Offsets:
    clock = SystemClock()
    deadline = clock.monotonic() + timeout_s
    while True:
        try:
            return ask(max(0.0, deadline - clock.monotonic()))
        except (ClientUnusable, UnknownPartitionError):
            raise
        except RetryableError:  # such as a leader election; the client does not try again by itself
            if clock.monotonic() + RETRY_WAIT_S >= deadline:
                raise
        clock.wait(RETRY_WAIT_S)
