"""The consumer of librdkafka."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException
from confluent_kafka import Consumer as Client
from confluent_kafka import TopicPartition as ClientPartition

from processor_api.clock import SystemClock
from processor_api.errors import StreamsError
from processor_api.forks import belongs_to_this_process, never_free
from processor_api.task_id import TopicPartition
from streams.kafka.confluent.callbacks import ClientLog, LatestStatistics, weakly
from streams.kafka.confluent.consuming.assigned import AssignedPartitions, client_partitions
from streams.kafka.confluent.consuming.direct_offsets import TIMEOUT_S, PartitionOffsets
from streams.kafka.confluent.consuming.group_offsets import GivenUpClient, GroupOffsets, given_up
from streams.kafka.confluent.consuming.group_place import GroupPlace, member_of
from streams.kafka.confluent.consuming.header_names import decode_headers
from streams.kafka.confluent.consuming.read_ahead import ReadAhead
from streams.kafka.confluent.errors import Resources, caught, kafka_error, mapped, mapping
from streams.kafka.confluent.known_topics import learn_topics
from streams.kafka.confluent.outage import ClientOutage, ClusterOutage
from streams.kafka.ports import (
    AT_BEGINNING,
    AT_END,
    OffsetAndMetadata,
    RebalanceListener,
)
from streams.kafka.timed_executor import CallTimedOutError

log = logging.getLogger("streams.kafka.client")

CLOSE_S = 5.0
QUEUED_KBYTES = 65_536
"""librdkafka's default of ``queued.max.messages.kbytes``."""
FETCHES_MAX = 100
"""How many batches that hold only paused partitions are taken in one call."""
POLL_BATCH = 1000
FENCED = {"_FATAL", "FENCED_INSTANCE_ID"}
_SPECIAL = {AT_BEGINNING: OFFSET_BEGINNING, AT_END: OFFSET_END}


class ConfluentConsumer:
    """Implements `streams.kafka.ports.Consumer`."""

    partition_eof: int = KafkaError._PARTITION_EOF

    def __init__(self, config: Mapping[str, Any], outage: ClusterOutage | None = None) -> None:
        """Makes the client, which connects by itself.

        :param outage: that of its cluster; one of its own if not given."""
        self.resources = Resources.of(config, "READ", "DESCRIBE")
        self._outage = ClientOutage.of(config, outage)
        self._assigned = AssignedPartitions()
        self._place = GroupPlace(self._outage, self._assigned)
        self._offsets = GroupOffsets(config, self._outage)
        self._places = PartitionOffsets(config, self.resources)
        self.statistics = LatestStatistics()
        kilobytes = int(config.get("queued.max.messages.kbytes", QUEUED_KBYTES))
        self._ahead = ReadAhead(kilobytes * 1024, weakly(self._stop), weakly(self._fetch_again))
        try:
            callbacks = {"error_cb": weakly(self._on_error), "stats_cb": weakly(self.statistics.take)}
            self._client: Any = Client({**config, **callbacks}, logger=ClientLog())
        except KafkaException as error:
            raise mapped(error, "make a consumer", self.resources) from error
        self._consume: Callable[..., list[Any]] = self._client.consume
        self._poll: Callable[..., Any] = self._client.poll
        belongs_to_this_process(self)

    def leave_to_parent(self) -> Collection[str]:
        """Keeps a forked child from freeing the client, which waits for its threads."""
        never_free([self._client])
        return ()

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._place.fatal = self._place.fatal or error.name()
        else:
            self._outage.report(error)

    def consume(self, max_messages: int, timeout_s: float) -> Sequence[Any]:
        ahead = self._ahead
        if not ahead.active:
            return self._take(max_messages, timeout_s)
        if found := ahead.take(max_messages):
            return found
        for _ in range(FETCHES_MAX):
            messages = self._take(max_messages, timeout_s)
            if not messages:
                break
            if found := ahead.keep(messages):
                return found
            timeout_s = 0.0  # what was waited for has come: the rest is only what the client has already
        return ()

    def _take(self, max_messages: int, timeout_s: float) -> Sequence[Any]:
        if self._place.wanted is not None:
            self._subscribe()
        try:
            if self._assigned.is_waiting:
                self._assigned.go_on(self._client)
            messages = self._assigned.without_events_of_left(caught(self._consume, max_messages, timeout_s))
        except (KafkaException, SystemError) as error:
            raise mapped(error, "consume", self.resources) from error
        if messages:
            decode_headers(messages)
        if messages or self._place.has_ended:
            self._place.check(self._client, messages[-1] if messages else None)
        # Records are not a response of a broker: they may have been fetched before it was lost.
        if self._outage.cluster.suspected or (self._outage.suspected and not messages):
            self._check_brokers()
        return messages

    def _check_brokers(self) -> None:
        self._outage.check(self._client, next((partition.topic for partition in self._assigned.names), None))

    def poll(self, timeout_s: float) -> Any:
        ahead = self._ahead
        if not ahead.active:
            return self._take_one(timeout_s)
        clock = SystemClock()
        deadline = clock.monotonic() + timeout_s
        while not (found := ahead.take(1)):
            message = self._take_one(max(0.0, deadline - clock.monotonic()))
            if message is None:
                return None
            ahead.keep_all((message,))
            if behind := self._take(POLL_BATCH, 0.0):  # a request for each would take longer
                ahead.keep_all(behind)
        return found[0]

    def _take_one(self, timeout_s: float) -> Any:
        if self._place.wanted is not None:
            self._subscribe()
        try:
            if self._assigned.is_waiting:
                self._assigned.go_on(self._client)
            message = caught(self._poll, timeout_s)
            if message is not None and not self._assigned.without_events_of_left((message,)):
                message = None
        except (KafkaException, SystemError) as error:
            raise mapped(error, "consume", self.resources) from error
        if message is not None:
            decode_headers((message,))
        if message is not None or self._place.has_ended:
            self._place.check(self._client, message)
        elif self._outage.suspected:
            self._check_brokers()
        return message

    # ------------------------------------------------------------------ group

    def subscribe(self, topics: Collection[str], listener: RebalanceListener) -> None:
        self._place.wanted = sorted(topics), listener
        self._subscribe()

    @mapping("subscribe")
    def _subscribe(self) -> None:
        self._place.subscribe(self._client)

    @mapping("read the group's metadata")
    def group_metadata(self) -> Any:
        return self._place.metadata(self._client)

    def member_id(self) -> str | None:
        return self._place.member_id(self._client)

    # ------------------------------------------------------------------ partitions

    @mapping("assign partitions")
    def assign(self, partitions: Mapping[TopicPartition, int]) -> None:
        if not partitions:
            return
        learn_topics(self._client, {name.topic for name in partitions} - {name.topic for name in self._assigned.names})
        self._assigned.add(self._client, {name: _SPECIAL.get(offset, offset) for name, offset in partitions.items()})

    @mapping("unassign partitions")
    def unassign(self, partitions: Collection[TopicPartition]) -> None:
        known = [name for name in partitions if name in self._assigned.names]
        if not known:
            return
        self._ahead.forget(known)
        self._assigned.remove(self._client, known)

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._assigned.names)

    @mapping("serve a consumer")
    def relieve(self) -> None:
        # With partitions a poll could take a record.
        if not self._assigned.names:
            self._client.poll(0)

    @mapping("seek")
    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._assigned.seek(self._client, partition, _SPECIAL.get(offset, offset))
        self._ahead.clear([partition])  # last: a seek that fails leaves the position, and what was fetched from there

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self._ahead.pause([name for name in partitions if name in self._assigned.names])

    @mapping("resume partitions")
    def resume(self, partitions: Collection[TopicPartition]) -> None:
        self._ahead.resume(partitions)

    @mapping("pause partitions")
    def _stop(self, partitions: Collection[TopicPartition]) -> None:
        self._client.pause(client_partitions(partitions))

    def _fetch_again(self, partitions: Collection[TopicPartition]) -> None:
        """Resumes partitions at the client, also before a partition is removed: the client would keep the flag for the
        next assignment."""
        self._client.resume(client_partitions(partitions))

    @mapping("read a position")
    def position(self, partition: TopicPartition) -> int | None:
        # The client's own position is behind all that is kept.
        kept = self._ahead.next_offset(partition)
        if kept is not None:
            return kept
        offset = self._assigned.position(self._client, partition)
        return offset if offset >= 0 else None

    @mapping("read the fetched end offset")
    def fetched_end(self, partition: TopicPartition) -> int | None:
        """Returns the high watermark, which the client keeps: no record is behind it, whatever the isolation level."""
        if partition not in self._assigned.names:
            return None
        _, end = self._watermarks(partition)
        return end

    def high_watermark(self, partition: TopicPartition) -> int | None:
        try:
            return self.fetched_end(partition)
        except StreamsError:  # the client can no longer be used, which its next real call reports
            return None

    def log_start(self, partition: TopicPartition) -> int | None:
        try:
            return self._watermarks(partition)[0] if partition in self._assigned.names else None
        except KafkaException:  # the client can no longer be used, which its next real call reports
            return None

    def _watermarks(self, partition: TopicPartition) -> tuple[int | None, int | None]:
        """Returns the first offset and the end of a log at its last fetch, as far as they are known."""
        low, high = self._client.get_watermark_offsets(ClientPartition(*partition), cached=True)
        return low if low >= 0 else None, high if high >= 0 else None

    # ------------------------------------------------------------------ offsets

    @mapping("read committed offsets")
    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Reads over the connection of the commits, so that it does not wait for a rebalance; where that is not
        possible, by the client."""
        return self._offsets.committed(self._client, partitions) if partitions else {}

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commits over a connection of its own, so that it waits neither for a rebalance nor for a client that has lost
        its brokers; where that is not possible, by the client, which is given up when the call does not come back."""
        if not offsets:
            return
        metadata = self.group_metadata()
        try:
            self._offsets.commit(self._client, metadata, offsets, is_calling_back=self._place.is_calling_back)
        except (KafkaException, SystemError) as error:
            found = kafka_error(error)
            if found is not None and found.name() in FENCED:
                raise self._place.end_of_commit(self._client, member_of(metadata)) from error
            raise mapped(error, "commit offsets", self.resources) from error
        finally:
            if self._offsets.is_given_up:
                self._client = given_up = GivenUpClient()
                self._consume, self._poll = given_up.consume, given_up.poll

    def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._places.beginnings(self._usable(), partitions)

    def end_offsets(
        self, partitions: Collection[TopicPartition], timeout_s: float = TIMEOUT_S
    ) -> dict[TopicPartition, int]:
        return self._places.ends(self._usable(), partitions, timeout_s)

    def offsets_for_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return self._places.for_times(self._usable(), times)

    def _usable(self) -> Any:
        """Returns the client, which a question may not need.

        :raises ClientUnusable: if it was given up, so that its owner makes a new one.
        """
        if self._offsets.is_given_up:
            raise given_up()
        return self._client

    def close(self) -> None:
        """Leaves the group and closes the client. A client that lost all brokers would wait for them: it is left to
        itself. Errors of the client are logged, such as that another one has its place: a close cannot be tried
        again."""
        self.statistics.forget()
        self._offsets.direct.close()
        self._places.close()
        if self._offsets.is_given_up:
            log.info("the consumer is not closed: its last commit has not returned")
            return
        try:
            if self._outage.suspected:
                _try_to_close(lambda: self._offsets.executor.call(self._client.close, CLOSE_S))
                return
            try:
                if self._place.owned and not self._place.has_ended:
                    _try_to_close(self._give_back)
            finally:  # also after an error of the listener
                _try_to_close(self._client.close)
        finally:
            self._offsets.executor.close()

    def _give_back(self) -> None:
        """Gives partitions back before the client is closed, with a last chance to commit."""
        self._place.wanted = None
        self._client.unsubscribe()
        deadline = SystemClock().monotonic() + 5.0
        while self._place.owned and SystemClock().monotonic() < deadline:
            self._client.poll(0.05)


def _try_to_close(step: Callable[[], None]) -> None:
    try:
        caught(step)
    except CallTimedOutError:
        log.info("the consumer is not closed yet: it closes when a broker answers")
    except (KafkaException, SystemError) as error:
        log.info("the consumer did not close cleanly", extra={"error": str(error)})
