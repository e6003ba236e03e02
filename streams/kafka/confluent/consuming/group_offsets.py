"""The committed offsets of groups: read and written as a member, and read without being one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from processor_api.errors import RetryableError, StreamsError
from processor_api.forks import belongs_to_this_process, never_free
from processor_api.task_id import TopicPartition
from streams.kafka.confluent.callbacks import ClientLog
from streams.kafka.confluent.consuming.assigned import client_partitions
from streams.kafka.confluent.consuming.direct_offsets import TIMEOUT_S, DirectOffsets, GroupPositions
from streams.kafka.confluent.errors import caught, kafka_error, raise_first
from streams.kafka.confluent.outage import ClientOutage, ClusterOutage
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.kafka.ports import ClientUnusable, OffsetAndMetadata, PartlyCommitted
from streams.kafka.timed_executor import CallTimedOutError, TimedExecutor
from streams.kafka.wire.offset_texts import offset_texts

log = logging.getLogger("streams.kafka.client")

MAX_POLL_INTERVAL_MS = 300_000
"""librdkafka's default of ``max.poll.interval.ms``."""
Ask = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, str]]
"""Returns the texts as the broker has them."""


def committed_offsets(found: Collection[ClientPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the partitions that have a committed offset, of what the client found: with texts that it may show with
    more behind them (`exact_offsets`), and without those that are not text then."""
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


def given_up() -> ClientUnusable:
    """Returns the error of a client whose commit has not come back."""
    return ClientUnusable("this client was abandoned during a commit; a new one must replace it")


class GivenUpClient:
    """Stands in for a consumer's client that is inside of an abandoned call.

    The client takes one call at a time (confluent-kafka 2.16): any other would wait for that one too.
    """

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def refuse(*_args: object, **_options: object) -> Any:
            raise given_up()

        return refuse


class GroupOffsets:
    """Reads and commits the offsets of a consumer's group, directly if that is possible and else by its client.

    :param settings: of the consumer, under librdkafka's names.
    :param outage: the one of the client.
    """

    def __init__(self, settings: Mapping[str, Any], outage: ClientOutage) -> None:
        self._settings = settings
        self._outage = outage
        self.direct = DirectOffsets(settings)
        self.executor = TimedExecutor(f"{settings.get('client.id', 'consumer')}-executor")
        """The thread that calls the client where a call may not come back."""
        self.is_given_up = False
        """Whether the last commit has not returned, and is abandoned."""

    def committed(self, client: Any, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the offsets that are committed, with their whole texts; partitions without one are left out.

        :raises KafkaException: if the coordinator or the client refuses it.
        :raises RetryableError: if there is no answer in time.
        """
        # A client that was given up refuses each call, so that its owner makes a new one.
        read = None if self.is_given_up else self.direct.committed(partitions)
        if read is not None:
            return read
        found = client.committed(client_partitions(partitions), timeout=TIMEOUT_S)
        raise_first(found)
        return exact_offsets(found, self._texts)

    def _texts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, str]:
        return offset_texts(self._settings, str(self._settings["group.id"]), partitions, timeout_s=TIMEOUT_S)

    def commit(self, client: Any, metadata: bytes, offsets: GroupPositions, *, is_calling_back: bool) -> None:
        """Commits offsets, on a thread of its own, since the client's call waits for a coordinator without a limit.

        After ``max.poll.interval.ms``, when the group has given this member up, or once it is known that the
        coordinator answers others, the client is given up.

        :param is_calling_back: whether the client is in a callback. It takes no calls of other threads then, and its
            brokers have just answered, so the call is made by this thread.
        :raises KafkaException: if the coordinator or the client refuses it.
        :raises PartlyCommitted: if partitions do not exist.
        :raises ClientUnusable: if the client was given up.
        :raises RetryableError: if there is no answer in a callback.
        """

        def call() -> None:
            if not self.direct.commit(metadata, offsets):
                wanted = [ClientPartition(*name, one.offset, one.metadata) for name, one in offsets.items()]
                commit_by_client(client, wanted)

        if is_calling_back:
            call()
        else:
            self._call_aside(call)

    def _call_aside(self, commit: Callable[[], None]) -> None:
        limit_s = int(self._settings.get("max.poll.interval.ms", MAX_POLL_INTERVAL_MS)) / 1000
        try:
            self.executor.call(commit, limit_s, self._outage.check_call)
        except CallTimedOutError:
            self._give_up()
            raise ClientUnusable(
                f"the coordinator of group {self._settings.get('group.id')!r} did not respond within {limit_s:.0f} s;"
                " a new client reads what is committed"
            ) from None
        except PartlyCommitted:
            raise
        except RetryableError as error:
            self._give_up()
            raise ClientUnusable(error.message, **error.place()) from error
        except KafkaException as error:
            found = kafka_error(error)
            if found is not None and found.code() > 0 and self.direct.connection is None:
                self._outage.answered()  # the error is the coordinator's; those of the client are negative
            raise
        if self._outage.suspected and self.direct.connection is None:  # otherwise another client got the response
            self._outage.answered()

    def _give_up(self) -> None:
        self.is_given_up = True
        self.executor.close()


def commit_by_client(client: Any, offsets: list[ClientPartition]) -> None:
    """Commits offsets with librdkafka's client.

    :raises KafkaException: if the coordinator or the client refuses it.
    :raises PartlyCommitted: if partitions do not exist, and nothing else is wrong.
    """
    try:
        found = caught(client.commit, offsets=offsets, asynchronous=False)
    except KafkaException as error:  # it is that of all of them
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise PartlyCommitted.without([TopicPartition(one.topic, one.partition) for one in offsets]) from error
        raise
    refused = [one for one in found or () if one.error is not None]
    if refused and all(one.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART for one in refused):
        raise PartlyCommitted.without([TopicPartition(one.topic, one.partition) for one in refused])
    raise_first(found)


class GroupReader:
    """Reads committed offsets of groups without being a member, by clients of its own. May be used by any thread.

    A member's own client answers only when the broker has answered its request to join, which takes as long as a
    rebalance. The admin client could ask too, but librdkafka ends the process when such a request is under way while
    the brokers go away (seen with 2.16: an assertion in ``rd_kafka_enq_once_del_source_return``).

    :param config: of an admin client.
    :param outage: that of its cluster.
    """

    def __init__(self, config: Mapping[str, Any], outage: ClusterOutage) -> None:
        self._outage = outage
        self._config = config
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
            found = client.committed(client_partitions(partitions), timeout=timeout_s)
        except KafkaException:
            with self._lock:  # it may have lost all brokers, which a new client finds
                self._clients.pop(group, None)
            raise
        finally:
            client.poll(0)  # it reads nothing; this takes what the client has to log, which would pile up
        raise_first(found)
        return committed_offsets(found)

    def relieve(self) -> None:
        """Drops all clients. A call that runs keeps its own, for which a poll would have to wait."""
        with self._lock:
            _idle, self._clients = self._clients, {}

    def close(self) -> None:
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()
