"""The producer of librdkafka."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as Client
from confluent_kafka import TopicPartition as ClientPartition

from processor_api.clock import Clock, SystemClock
from processor_api.errors import AuthorizationError, ProductionError, RetryableError, StreamsError, TaskMigratedError
from processor_api.forks import belongs_to_this_process, never_free
from processor_api.record import HeaderList
from processor_api.task_id import TopicPartition
from streams.kafka.confluent.callbacks import ClientLog, LatestStatistics, weakly
from streams.kafka.confluent.errors import UNKNOWN, Resources, caught, kafka_error, mapped, mapping
from streams.kafka.confluent.known_topics import WrittenTopics, learn_topics
from streams.kafka.confluent.outage import ClientOutage, ClusterOutage
from streams.kafka.headers import UnsendableHeaders, sendable
from streams.kafka.ports import (
    MOST_RECORD_BYTES,
    ClientUnusable,
    OffsetAndMetadata,
    OnDelivery,
    TransactionAborted,
    UnknownTopicError,
)
from streams.kafka.timed_executor import CallTimedOutError, TimedExecutor

log = logging.getLogger("streams.kafka.client")

TIMEOUT_S = 10.0
CALL_S = 5.0
# A call that keeps to its own time-out has come back by then.
CALL_TIMEOUT_S = CALL_S + 2.0
FLUSH_SLICE_S = 1.0
FLUSH_SUSPECT_S = 5.0
CLOSE_S = 3.0
METADATA_AGE_S = 60.0
# librdkafka's own would be 1,000,000 bytes, and partitions by CRC32 where Java takes murmur2.
DEFAULTS = {"enable.idempotence": True, "message.max.bytes": MOST_RECORD_BYTES, "partitioner": "murmur2_random"}
"""Settings that keep what the port promises, used where a configuration does not have them."""


class CoordinatorCalls:
    """Makes the calls of a transactional client for which it may wait for ever, on a thread of their own.

    librdkafka keeps the coordinator that it knew, also after that broker was dropped, and ignores the timeout of a call
    that waits for it (its issues 5456 and 5511). Only a new client finds the next coordinator, so this one ends no
    transaction once it had no broker or a call has not come back.

    :param name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._executor = TimedExecutor(name)
        self._knows_coordinator = False
        self._stale: str | None = None
        """The reason why this client can no longer end a transaction."""
        self.timed_out = False
        """Whether a call has not come back, so that the client takes no other."""

    def lost_all_brokers(self) -> None:
        """Takes that no broker can be reached; without a coordinator yet, the client will look for one."""
        if self._knows_coordinator:
            self._stale = "no broker could be reached in the meantime"

    def found_coordinator(self) -> None:
        """Takes that the coordinator has answered."""
        self._knows_coordinator = True

    def call(self, call: Callable[[], Any]) -> None:
        """Returns when the call has come back.

        :raises RetryableError: if it does not in time, or a new client has to make it.
        """
        self.check()
        try:
            self._executor.call(lambda: caught(call), CALL_TIMEOUT_S)
        except CallTimedOutError:
            self.timed_out = True
            self._stale = f"the client did not respond within {CALL_TIMEOUT_S:.0f} s"
            self.check()

    def check(self) -> None:
        """Checks that this client can end a transaction.

        :raises RetryableError: if a new client has to do it.
        """
        if self._stale is not None:
            raise RetryableError(f"cannot end the transaction: {self._stale}; a new client must end it")

    def close(self, client: Client) -> None:
        """Closes the client, unless it is inside of a call. That aborts an open transaction, for which it would wait.

        :raises CallTimedOutError: if it takes long; the client closes when a broker answers.
        """
        try:
            if not self.timed_out:
                client.purge()
                self._executor.call(client.close, CLOSE_S)
        finally:
            self._executor.close()


class ConfluentProducer:
    """Implements `streams.kafka.ports.Producer`. librdkafka takes timestamp 0 for "now", so 1 is sent instead."""

    zero_timestamp_ms = 1

    def __init__(
        self, config: Mapping[str, Any], clock: Clock | None = None, outage: ClusterOutage | None = None
    ) -> None:
        """Makes the client, which connects by itself.

        :param outage: that of its cluster; one of its own if not given."""
        self._clock = clock or SystemClock()
        self.resources = Resources.of(config, "WRITE", "IDEMPOTENT_WRITE")
        self._fatal: KafkaError | None = None
        self._outage = ClientOutage.of(config, outage, self._clock)
        self._coordinator = CoordinatorCalls(f"{config.get('client.id', 'producer')}-executor")
        self._topics = WrittenTopics()
        self.statistics = LatestStatistics()
        try:
            callbacks = {"error_cb": weakly(self._on_error), "stats_cb": weakly(self.statistics.take)}
            self._client = Client({**DEFAULTS, **config, **callbacks}, logger=ClientLog())
        except KafkaException as error:
            raise mapped(error, "make a producer", self.resources) from error
        self._in_transaction = False
        self._suspect_at = 0.0
        """The time from which on a flush is long, which may be one of many calls; 0 while none waits."""
        self.produce_plain: Callable[..., None] = self._client.produce
        self._poll: Callable[[float], int] = self._client.poll
        belongs_to_this_process(self)

    def leave_to_parent(self) -> Collection[str]:
        """Keeps a forked child from freeing the client, which waits for its threads."""
        never_free([self._client])
        return ()

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = error
            return
        self._outage.report(error)
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._coordinator.lost_all_brokers()

    def produce(
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        partition: int = -1,
        on_delivery: OnDelivery | None = None,
        other: OnDelivery | None = None,
        timestamp: int = 0,
        headers: HeaderList | None = None,
    ) -> None:
        checked = sendable(headers) if headers else None
        self.produce_plain(topic, value, key, partition, on_delivery, other, timestamp, checked)

    def refused(self, error: Exception, topic: str) -> NoReturn:
        if isinstance(error, UnsendableHeaders):
            raise error.locate(topic=topic)
        client_error = kafka_error(error)
        # The client names the state of its transaction here, and no error: that was reported when it failed.
        if self._in_transaction and client_error is not None and client_error.code() == KafkaError._STATE:
            raise TransactionAborted(
                f"cannot send a record to topic {topic!r}: the transaction has failed and can only be aborted",
                topic=topic,
            ) from error
        found = mapped(self._reason(error), f"send a record to topic {topic!r}", self.resources, topic=topic)
        if not isinstance(found, (AuthorizationError, RetryableError, TaskMigratedError)):
            found = ProductionError(f"{found.message}; no offset after it was committed", topic=topic)
        raise found from error

    def _reason(self, error: Exception) -> Exception:
        """Returns the error to report; after a fatal one the client says only that there was one."""
        found = kafka_error(error)
        fatal = found is not None and found.code() == KafkaError._FATAL and self._fatal is not None
        return KafkaException(self._fatal) if fatal else error

    def poll(self, timeout_s: float) -> int:
        try:
            return caught(self._poll, timeout_s)
        except (KafkaException, SystemError) as error:
            raise mapped(error, "send records", self.resources) from error

    def flush(self, timeout_s: float = math.inf) -> bool:
        """Waits in slices, so that signals are handled; a record ends by ``delivery.timeout.ms`` in any case. A long
        wait has a broker asked: the client does not report each loss of its brokers.

        :raises ClientUnusable: if new clients have reached the cluster for a while, and this one has not.
        """
        deadline = self._clock.monotonic() + timeout_s
        while True:
            now = self._clock.monotonic()
            left_s = max(0.0, deadline - now)
            self._suspect_at = self._suspect_at or now + FLUSH_SUSPECT_S
            try:
                if not caught(self._client.flush, min(FLUSH_SLICE_S, left_s)):
                    self._suspect_at = 0.0
                    return True
                if now >= self._suspect_at:
                    self._suspect_at = 0.0
                    self._suspect()
                self._check_outage()
                if left_s <= FLUSH_SLICE_S:
                    return False
            except (KafkaException, SystemError) as error:
                raise mapped(error, "send records", self.resources) from error

    def _suspect(self) -> None:
        self._outage.cluster.suspect()
        self._outage.suspect()

    def _check_outage(self) -> None:
        """Asks a broker for an answer, if none seems to be there.

        :raises ClientUnusable: if new clients have reached the cluster for a while, and this one has not.
        """
        if self._outage.suspected or self._outage.cluster.suspected:
            self._outage.check(self._client, next(iter(self._topics.prepared), None))

    # ------------------------------------------------------------------ transactions

    def _until_done(self, what: str, call: Callable[[], Any], limit_s: float = TIMEOUT_S) -> None:
        """Repeats a call that may be repeated, until it is done.

        :raises RetryableError: if it was not done in some seconds, after which a new client may succeed."""
        deadline = self._clock.monotonic() + limit_s
        while True:
            try:
                caught(call)
                return
            except (KafkaException, SystemError) as error:
                found = mapped(error, what, self.resources)
                again = isinstance(found, RetryableError) and not isinstance(
                    found, (ClientUnusable, TransactionAborted)
                )
                if not again or self._clock.monotonic() > deadline:
                    raise found from error
                self._suspect()  # the client reports nothing while its thread is inside of a call
                self._check_outage()

    def init_transactions(self) -> None:
        self._until_done("start transactions", lambda: self._client.init_transactions(CALL_S))

    @mapping("begin a transaction")
    def begin_transaction(self) -> None:
        self._client.begin_transaction()
        self._in_transaction = True

    def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group_metadata: Any) -> None:
        """Sends offsets on a thread of its own, with a time limit, after which this client is given up too."""
        wanted = [ClientPartition(*name, one.offset, one.metadata) for name, one in offsets.items()]
        send = self._client.send_offsets_to_transaction
        what = "add offsets to the transaction"
        self._until_done(what, lambda: self._coordinator.call(lambda: send(wanted, group_metadata, CALL_S)))
        self._coordinator.found_coordinator()

    def commit_transaction(self) -> None:
        self._until_done("commit the transaction", lambda: self._client.commit_transaction(CALL_S))
        self._in_transaction = False

    def abort_transaction(self) -> None:
        if self._coordinator.timed_out:  # the call that has not come back may still be under way
            self._coordinator.check()
        self._until_done("abort the transaction", lambda: self._client.abort_transaction(CALL_S), CALL_S)
        self._in_transaction = False

    # ------------------------------------------------------------------ metadata

    def prepare(self, topics: Collection[str]) -> None:
        learn_topics(self._client, [topic for topic in topics if topic not in self._topics.prepared])
        self._topics.prepared.update(topics)

    def partition_count(self, topic: str) -> int:
        known = self._topics.counts.get(topic)
        now = self._clock.monotonic()
        if known is not None and now - known[0] < METADATA_AGE_S:
            return known[1]
        try:
            found = self._client.list_topics(topic, timeout=10.0).topics[topic]
        except KafkaException as error:
            raise mapped(error, f"read the metadata of topic {topic!r}", self.resources, topic=topic) from error
        if found.error is not None:
            kind = UnknownTopicError if found.error.name() in UNKNOWN else StreamsError
            raise kind(f"topic {topic!r} does not exist or cannot be read: {found.error}", topic=topic)
        self._topics.counts[topic] = now, len(found.partitions)
        return len(found.partitions)

    def close(self) -> None:
        """Drops what is not sent and rolls back an open transaction, if a broker responds soon; otherwise that is left
        to `init_transactions` of the next producer of its id."""
        self.statistics.forget()
        try:
            self._coordinator.close(self._client)
        except CallTimedOutError:
            log.info("the producer is not closed yet: it closes when a broker answers")
        except (KafkaException, SystemError, RuntimeError) as error:
            found = mapped(error, "close the producer", self.resources)
            if not isinstance(found, (RetryableError, TaskMigratedError)):
                log.warning("the producer did not close cleanly", extra={"error": str(error)})
