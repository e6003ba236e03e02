"""The consumer of librdkafka."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaError, KafkaException
from confluent_kafka import Consumer as Client
from confluent_kafka import TopicPartition as ClientPartition

from processor_api.clock import SystemClock
from processor_api.errors import ConfigError, RetryableError, StreamsError, TaskMigratedError
from processor_api.forks import belongs_to_this_process, never_free
from processor_api.task_id import TopicPartition
from streams.kafka.confluent.callbacks import ClientLog, weakly
from streams.kafka.confluent.errors import (
    Resources,
    caught,
    fatal_error,
    instance_fenced,
    kafka_error,
    mapped,
    mapping,
    offsets_error,
    session_ended,
)
from streams.kafka.confluent.group_reader import exact_offsets
from streams.kafka.confluent.header_names import decode_headers
from streams.kafka.confluent.known_topics import learn_topics
from streams.kafka.confluent.outage import ClientOutage, ClusterOutage
from streams.kafka.confluent.read_ahead import ReadAhead
from streams.kafka.confluent.timed_executor import CallTimedOutError, TimedExecutor
from streams.kafka.ports import (
    AT_BEGINNING,
    AT_END,
    ClientUnusable,
    OffsetAndMetadata,
    RebalanceListener,
    UnknownPartitionError,
)
from streams.kafka.wire.error_codes import NONE
from streams.kafka.wire.offset_commits import CommittingMember, OffsetCommits
from streams.kafka.wire.offset_texts import fetched_offsets, first_error, offset_texts

log = logging.getLogger("streams.kafka.client")

TIMEOUT_S = 30.0
COMMIT_S = 30.0
READ_S = 10.0
UNSTABLE_S = 5.0
"""So long a transaction that may change committed offsets is waited for, before the caller polls and tries again."""
MAX_POLL_INTERVAL_MS = 300_000
"""librdkafka's default of ``max.poll.interval.ms``."""
CLOSE_S = 5.0
RETRY_WAIT_S = 0.05
QUEUED_KBYTES = 65_536
"""librdkafka's default of ``queued.max.messages.kbytes``."""
FETCHES_MAX = 100
"""How many batches that hold only paused partitions are taken in one call."""
POLL_BATCH = 1000
DOUBT_S = 60.0
"""Time after a broken connection in which a broker may still read what was sent over it."""
FENCED = {"_FATAL", "FENCED_INSTANCE_ID"}
_METADATA = b"CGMDv2:"
_SPECIAL = {AT_BEGINNING: OFFSET_BEGINNING, AT_END: OFFSET_END}


def _plain(partitions: Collection[ClientPartition]) -> list[TopicPartition]:
    return [TopicPartition(found.topic, found.partition) for found in partitions]


def names_no_member(metadata: bytes) -> bool:
    """Whether a group's metadata, as librdkafka writes it, is without a generation or a member."""
    member = member_of(metadata)
    return member is not None and (generation_of(metadata) < 0 or not member)


def generation_of(metadata: bytes) -> int:
    """Returns the generation in a group's metadata."""
    found: int = struct.unpack_from("=i", metadata, len(_METADATA))[0]
    return found


def member_of(metadata: bytes) -> bytes | None:
    """Returns the id of the member in a group's metadata, empty if it names none; ``None`` if it is of another form."""
    if not metadata.startswith(_METADATA):
        return None
    _group, member, *_ = metadata[len(_METADATA) + 4 :].split(b"\0")
    return member


def _client(partitions: Collection[TopicPartition]) -> list[ClientPartition]:
    return [ClientPartition(topic, partition) for topic, partition in partitions]


class GivenUpClient:
    """Stands in for a consumer's client that is inside of a call which is not waited for any more.

    The client takes one call at a time (confluent-kafka 2.16): any other would wait for that one too.
    """

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def refuse(*_args: object, **_options: object) -> Any:
            raise ClientUnusable("this client was given up while it committed; a new one has to take its place")

        return refuse


class ConfluentConsumer:
    """Implements `streams.kafka.ports.Consumer`."""

    partition_eof: int = KafkaError._PARTITION_EOF

    def __init__(self, config: Mapping[str, Any], outage: ClusterOutage | None = None) -> None:
        """Makes the client, which connects by itself.

        :param outage: that of its cluster; one of its own if not given."""
        self._ended: Callable[[], StreamsError] | None = None
        """Makes the error of each further call, once the client has had a fatal one."""
        self._fatal: str | None = None
        """The name of the fatal error that the client has reported."""
        self._member: bytes | None = None
        """The id of the member that the group has given partitions to."""
        self._settings = config
        self.resources = Resources.of(config, "READ", "DESCRIBE")
        self._outage = ClientOutage.of(config, outage)
        self._executor = TimedExecutor(f"{config.get('client.id', 'consumer')}-executor")
        self._is_calling_back = False
        self._is_given_up = False
        """Whether the last commit has not come back, and is not waited for any more."""
        self._commits = self._own_commits()
        self._reads_directly = True
        self._reads_committed = config.get("isolation.level", "read_committed") == "read_committed"
        self._assigned: set[TopicPartition] = set()
        self._owned: set[TopicPartition] = set()
        kilobytes = int(config.get("queued.max.messages.kbytes", QUEUED_KBYTES))
        self._ahead = ReadAhead(kilobytes * 1024, weakly(self._stop), weakly(self._fetch_again))
        try:
            self._client: Any = Client({**config, "error_cb": weakly(self._on_error)}, logger=ClientLog())
        except KafkaException as error:
            raise mapped(error, "make a consumer", self.resources) from error
        self._consume: Callable[..., list[Any]] = self._client.consume
        self._poll: Callable[..., Any] = self._client.poll
        belongs_to_this_process(self)

    def leave_to_parent(self) -> Collection[str]:
        """Keeps a forked child from freeing the client, which waits for its threads."""
        never_free([self._client])
        return ()

    def _own_commits(self) -> OffsetCommits | None:
        """Returns what commits in place of the client; ``None`` where only the client can log in."""
        try:
            return OffsetCommits(self._settings, str(self._settings["group.id"]))
        except (ConfigError, KeyError):
            return None

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = self._fatal or error.name()
        else:
            self._outage.report(error)

    def _check(self, last: Any) -> None:
        """Raises the error of a client that has had a fatal one, from then on."""
        if self._ended is None:
            error = None if last is None else last.error()
            if self._fatal is None and (error is None or error.code() != KafkaError._FATAL):
                return
            is_fence = self._fatal in (None, "FENCED_INSTANCE_ID")  # the only one of a consumer in a classic group
            self._ended = self._reason_of_fence(self._member) if is_fence else fatal_error
        raise self._ended()

    def _reason_of_fence(self, member: bytes | None) -> Callable[[], TaskMigratedError]:
        """Returns the maker of the error of a consumer whose instance id belongs to another member now.

        That is the member of another process, or one that a request of this process has made which the broker read
        late: a consumer that lost its session or a connection asks again to join, while its request before may still
        wait in the broker. It is another process if this consumer has had its place all the time, and the connections
        of this process have held.

        :param member: the id of the member that was fenced, while it had its place.
        """
        held = member is not None and member_of(self._client.consumer_group_metadata()) == member
        return instance_fenced if held and not self._outage.cluster.was_broken(DOUBT_S) else session_ended

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
            timeout_s = 0.0
        return ()

    def _take(self, max_messages: int, timeout_s: float) -> Sequence[Any]:
        try:
            messages = caught(self._consume, max_messages, timeout_s)
        except (KafkaException, SystemError) as error:
            raise mapped(error, "consume", self.resources) from error
        if messages:
            decode_headers(messages)
        if self._fatal is not None or self._ended is not None or messages:
            self._check(messages[-1] if messages else None)
        if self._outage.cluster.suspected or (self._outage.suspected and not messages):
            self._check_brokers()
        return messages

    def _check_brokers(self) -> None:
        self._outage.check(self._client, next((partition.topic for partition in self._assigned), None))

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
        try:
            message = caught(self._poll, timeout_s)
        except (KafkaException, SystemError) as error:
            raise mapped(error, "consume", self.resources) from error
        if message is not None:
            decode_headers((message,))
        if self._fatal is not None or self._ended is not None or message is not None:
            self._check(message)
        elif self._outage.suspected:
            self._check_brokers()
        return message

    # ------------------------------------------------------------------ group

    def subscribe(self, topics: Collection[str], listener: RebalanceListener) -> None:
        def on_assign(client: Client, partitions: list[ClientPartition]) -> None:
            client.incremental_assign([])  # marks it as assigned: otherwise the binding would assign it, and fetch
            self._owned.update(_plain(partitions))
            self._member = member_of(client.consumer_group_metadata()) or None
            with self._calling_back():
                listener.on_assigned(_plain(partitions))

        def on_revoke(client: Client, partitions: list[ClientPartition]) -> None:
            with self._calling_back():
                listener.on_revoked(_plain(partitions))
            client.incremental_unassign([])
            self._owned.difference_update(_plain(partitions))

        def on_lost(client: Client, partitions: list[ClientPartition]) -> None:
            self._outage.suspect()  # the group may have heard nothing of it for a session
            with self._calling_back():
                listener.on_lost(_plain(partitions))
            client.incremental_unassign([])
            self._owned.difference_update(_plain(partitions))

        try:
            self._client.subscribe(sorted(topics), on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost)
        except KafkaException as error:
            raise mapped(error, "subscribe", self.resources) from error

    @contextmanager
    def _calling_back(self) -> Iterator[None]:
        self._is_calling_back = True
        try:
            yield
        finally:
            self._is_calling_back = False

    @mapping("read the group's metadata")
    def group_metadata(self) -> Any:
        """Returns the client's own form of the group's metadata. Once the group has removed this member it names no
        member, until the next poll reports the loss; the broker would take it for a client outside of the group, and
        check nothing."""
        found = self._client.consumer_group_metadata()
        if self._owned and names_no_member(found):
            raise TaskMigratedError("this consumer is not in its group any more")
        return found

    # ------------------------------------------------------------------ partitions

    @mapping("assign partitions")
    def assign(self, partitions: Mapping[TopicPartition, int]) -> None:
        if not partitions:
            return
        learn_topics(self._client, {name.topic for name in partitions} - {name.topic for name in self._assigned})
        wanted = [ClientPartition(*name, _SPECIAL.get(offset, offset)) for name, offset in partitions.items()]
        self._client.incremental_assign(wanted)
        self._assigned.update(partitions)

    @mapping("unassign partitions")
    def unassign(self, partitions: Collection[TopicPartition]) -> None:
        known = [name for name in partitions if name in self._assigned]
        if not known:
            return
        self._ahead.forget(known)
        self._assigned.difference_update(known)
        self._client.incremental_unassign(_client(known))

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._assigned)

    @mapping("seek")
    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._client.seek(ClientPartition(*partition, _SPECIAL.get(offset, offset)))
        self._ahead.clear([partition])

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self._ahead.pause([name for name in partitions if name in self._assigned])

    @mapping("resume partitions")
    def resume(self, partitions: Collection[TopicPartition]) -> None:
        self._ahead.resume(partitions)

    @mapping("pause partitions")
    def _stop(self, partitions: Collection[TopicPartition]) -> None:
        self._client.pause(_client(partitions))

    def _fetch_again(self, partitions: Collection[TopicPartition]) -> None:
        """Resumes partitions at the client, also before a partition is removed: the client would keep the flag for the
        next assignment."""
        self._client.resume(_client(partitions))

    @mapping("read a position")
    def position(self, partition: TopicPartition) -> int | None:
        kept = self._ahead.next_offset(partition)
        if kept is not None:
            return kept
        offset: int = self._client.position(_client([partition]))[0].offset
        return offset if offset >= 0 else None

    @mapping("read the end of what was fetched")
    def fetched_end(self, partition: TopicPartition) -> int | None:
        """Returns the high watermark, which the client keeps: no record is behind it, whatever the isolation level."""
        if partition not in self._assigned:
            return None
        _, end = self._client.get_watermark_offsets(ClientPartition(*partition), cached=True)
        return end if end >= 0 else None

    # ------------------------------------------------------------------ offsets

    @mapping("read committed offsets")
    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Reads over the connection of the commits, so that it does not wait for a rebalance; where that is not
        possible, by the client."""
        if not partitions:
            return {}
        read = self._committed_directly(partitions)
        if read is not None:
            return read
        found = self._client.committed(_client(partitions), timeout=TIMEOUT_S)
        self._raise_first(found)
        return exact_offsets(found, self._texts)

    def _committed_directly(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata] | None:
        """Reads without the client; returns ``None`` if that is not possible.

        :raises KafkaException: if the coordinator refuses it, or a transaction may change an offset for seconds.
        :raises RetryableError: if it does not answer.
        """
        if self._commits is None or self._is_given_up or not self._reads_directly:
            return None
        clock, group = SystemClock(), str(self._settings["group.id"])
        deadline = clock.monotonic() + UNSTABLE_S
        while True:
            try:
                answer = self._commits.committed(partitions, require_stable=self._reads_committed, timeout_s=READ_S)
            except RetryableError:
                raise
            except StreamsError as error:  # such as a broker that is older than our request
                log.info("committed offsets are read by the client", extra={"error": str(error)})
                self._reads_directly = False
                return None
            code = first_error(answer)
            if code == NONE:
                return {name: one for name, one in fetched_offsets(group, answer).items() if one.offset >= 0}
            if code != KafkaError.UNSTABLE_OFFSET_COMMIT or clock.monotonic() >= deadline:
                raise KafkaException(KafkaError(code))
            clock.wait(RETRY_WAIT_S)

    def _texts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, str]:
        return offset_texts(self._settings, str(self._settings["group.id"]), partitions, timeout_s=TIMEOUT_S)

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commits over a connection of its own, so that it waits neither for a rebalance nor for a client that has lost
        its brokers; where only the client can log in, or a broker is too old, by the client.

        That is on a thread of its own: the client's call waits for a coordinator without a limit. After
        ``max.poll.interval.ms``, when the group has given this member up, or once it is known that the coordinator
        answers others, this client is given up. Inside of a rebalance the call is made here: a client that is in a
        callback takes no calls of other threads, and its brokers have just answered."""
        if not offsets:
            return
        metadata = self.group_metadata()
        member = member_of(metadata)

        def call() -> None:
            if not self._commit_directly(metadata, offsets):
                wanted = [ClientPartition(*name, one.offset, one.metadata) for name, one in offsets.items()]
                self._raise_first(caught(self._client.commit, offsets=wanted, asynchronous=False))

        try:
            if self._is_calling_back:
                call()
            else:
                self._call_aside(call)
        except (KafkaException, SystemError) as error:
            found = kafka_error(error)
            if found is not None and found.name() in FENCED:
                raise self._end(member) from error
            raise mapped(error, "commit offsets", self.resources) from error

    def _commit_directly(self, metadata: bytes, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> bool:
        """Commits without the client; returns whether that is possible.

        :raises KafkaException: if the coordinator refuses it.
        :raises RetryableError: if it does not answer.
        """
        found = member_of(metadata)
        if self._commits is None or found is None:
            return False
        instance_id = self._settings.get("group.instance.id") if found else None
        member = CommittingMember(found.decode(), generation_of(metadata), instance_id)
        try:
            code = self._commits.commit(member, offsets, COMMIT_S)
        except (RetryableError, KafkaException):
            raise
        except StreamsError as error:  # such as a broker that is older than our request
            log.info("offsets are committed by the client", extra={"error": str(error)})
            self._commits = None
            return False
        if code != NONE:
            raise KafkaException(KafkaError(code))
        return True

    def _end(self, member: bytes | None) -> StreamsError:
        """Returns the error of a commit that ended the client, and of all further calls.

        A client that reached no broker for the whole session forgets its member. A commit that waits for a coordinator
        is then sent with the instance id alone. A broker that knows the member still answers as it does when another
        consumer has taken the instance id."""
        if self._ended is not session_ended:
            self._ended = self._reason_of_fence(member)
        return self._ended()

    def _call_aside(self, commit: Callable[[], None]) -> None:
        limit_s = int(self._settings.get("max.poll.interval.ms", MAX_POLL_INTERVAL_MS)) / 1000
        try:
            self._executor.call(commit, limit_s, self._outage.check_call)
        except CallTimedOutError:
            self._give_up()
            raise RetryableError(
                f"the coordinator of group {self.resources.group!r} did not answer within {limit_s:.0f} s; a new client"
                " finds out what is committed"
            ) from None
        except RetryableError:
            self._give_up()
            raise
        except KafkaException as error:
            found = kafka_error(error)
            if found is not None and found.code() > 0 and self._commits is None:
                self._outage.answered()  # the error is the coordinator's; those of the client are negative
            raise
        if self._outage.suspected and self._commits is None:  # else it was not the client that was answered
            self._outage.answered()

    def _give_up(self) -> None:
        """Has all further calls refused: the commit that was made last has not come back."""
        self._is_given_up = True
        self._client = given_up = GivenUpClient()
        self._consume, self._poll = given_up.consume, given_up.poll
        self._executor.close()

    def _raise_first(self, partitions: Sequence[ClientPartition] | None) -> None:
        for one in partitions or ():
            if one.error is not None:
                raise KafkaException(one.error)

    def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._offsets_at(dict.fromkeys(partitions, OFFSET_BEGINNING), TIMEOUT_S)

    def end_offsets(
        self, partitions: Collection[TopicPartition], timeout_s: float = TIMEOUT_S
    ) -> dict[TopicPartition, int]:
        return self._offsets_at(dict.fromkeys(partitions, OFFSET_END), timeout_s)

    def offsets_for_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        found = self._offsets_at(times, TIMEOUT_S)
        beyond = [name for name, offset in found.items() if offset == OFFSET_END]
        return found | self._offsets_at(dict.fromkeys(beyond, OFFSET_END), TIMEOUT_S)

    def _offsets_at(self, times: Mapping[TopicPartition, int], timeout_s: float) -> dict[TopicPartition, int]:
        """Asks for the offsets at an end of partitions with one request for each broker. The protocol has special times
        for the beginning and the end, which have the same values as the client's names for these ends; `OFFSET_END` is
        returned where no record has such a time."""
        if not times:
            return {}
        clock = SystemClock()
        deadline = clock.monotonic() + timeout_s
        while True:
            try:
                return self._ask_offsets(times, max(0.0, deadline - clock.monotonic()))
            except (ClientUnusable, UnknownPartitionError):
                raise
            except RetryableError:  # such as a leader election; the client does not try again by itself
                if clock.monotonic() + RETRY_WAIT_S >= deadline:
                    raise
            clock.wait(RETRY_WAIT_S)

    @mapping("read offsets of partitions")
    def _ask_offsets(self, times: Mapping[TopicPartition, int], timeout_s: float) -> dict[TopicPartition, int]:
        wanted = [ClientPartition(*name, ms) for name, ms in times.items()]
        try:
            found = self._client.offsets_for_times(wanted, timeout=timeout_s)
            self._raise_first(found)
        except KafkaException as error:
            raise offsets_error(error, times) from error
        offsets = {TopicPartition(one.topic, one.partition): one.offset for one in found}
        unknown = next((name for name in times if offsets.get(name, OFFSET_BEGINNING) < OFFSET_END), None)
        if unknown is not None:
            raise RetryableError("the broker did not answer", topic=unknown.topic, partition=unknown.partition)
        return offsets

    def close(self) -> None:
        """Leaves the group and closes the client. A client that lost all brokers would wait for them: it is left to
        itself. Errors of the client are logged, such as that another one has its place: a close cannot be tried
        again."""
        if self._commits is not None:
            self._commits.close()
        if self._is_given_up:
            log.info("the consumer is not closed: its last commit has not come back")
            return
        try:
            if self._outage.suspected:
                _try_to_close(lambda: self._executor.call(self._client.close, CLOSE_S))
                return
            try:
                if self._owned and self._ended is None and self._fatal is None:
                    _try_to_close(self._give_back)
            finally:  # also after an error of the listener
                _try_to_close(self._client.close)
        finally:
            self._executor.close()

    def _give_back(self) -> None:
        """Gives partitions back before the client is closed, with a last chance to commit."""
        self._client.unsubscribe()
        deadline = SystemClock().monotonic() + 5.0
        while self._owned and SystemClock().monotonic() < deadline:
            self._client.poll(0.05)


def _try_to_close(step: Callable[[], None]) -> None:
    try:
        caught(step)
    except CallTimedOutError:
        log.info("the consumer is not closed yet: it closes when a broker answers")
    except (KafkaException, SystemError) as error:
        log.info("the consumer did not close cleanly", extra={"error": str(error)})
