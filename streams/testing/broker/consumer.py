"""The consumer of the embedded broker."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from processor_api.errors import ConfigError, RetryableError, StreamsError
from processor_api.task_id import TopicPartition
from streams.kafka import ports
from streams.testing.broker.broker import EmbeddedBroker
from streams.testing.broker.groups import Group, GroupIdentity
from streams.testing.broker.membership import ConsumerMembership
from streams.testing.broker.messages import PARTITION_EOF, ErrorInfo, PartitionEvent
from streams.testing.broker.partition_log import PartitionLog

T = TypeVar("T")

_BEGINNING, _END = ports.AT_BEGINNING, ports.AT_END
_RESETS = {"earliest": _BEGINNING, "smallest": _BEGINNING, "beginning": _BEGINNING, "latest": _END, "largest": _END,
           "end": _END, "none": None, "error": None}  # fmt: skip


@dataclass(frozen=True)
class FetchSettings:
    """Says what a consumer reads of its partitions."""

    committed: bool
    """Whether only committed records are read."""
    reset_to: int | None
    """Where to go when the position is outside the log: `AT_BEGINNING`, `AT_END`, or ``None`` for an event and a stop
    until the next seek."""
    reports_eof: bool

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> FetchSettings:
        """Returns those of a consumer's configuration.

        :raises ConfigError: if ``auto.offset.reset`` or ``isolation.level`` is unknown.
        """
        isolation = config.get("isolation.level", "read_committed")
        reset = config.get("auto.offset.reset", "latest")
        if isolation not in ("read_committed", "read_uncommitted"):
            raise ConfigError(f"isolation.level must be read_committed or read_uncommitted, got {isolation!r}")
        if reset not in _RESETS:
            raise ConfigError(f"auto.offset.reset must be one of {', '.join(_RESETS)}, got {reset!r}")
        reports_eof = str(config.get("enable.partition.eof", False)).lower() == "true"
        return cls(isolation == "read_committed", _RESETS[reset], reports_eof)


class Fetch:
    """Reads one assigned partition. Nothing here takes a lock: the consumer holds the broker's around every call."""

    __slots__ = ("_broker", "_eof_at", "_log", "_seen", "_settings", "_topic", "_unknown", "moved",
                 "partition", "paused", "position", "stopped")  # fmt: skip

    def __init__(self, broker: EmbeddedBroker, partition: TopicPartition, settings: FetchSettings) -> None:
        self._broker = broker
        self.partition = partition
        self._settings = settings
        self._log: PartitionLog | None = None
        self._topic: Any = None
        self._unknown = False
        """Whether it was reported that the partition does not exist."""
        self.paused = False
        self.seek(ports.AT_END)

    def seek(self, offset: int) -> None:
        """Reads on from an offset, or from an end of the log as it is now."""
        self.position = offset
        self._seen = -1, -1  # the epochs of the last leader and of the last record
        self.moved = False
        self._eof_at = -1
        self.stopped = False
        if self._find_log():
            self._resolve()

    def take(self, count: int) -> list[Any]:
        """Returns up to ``count`` records, or the event that is to be reported."""
        if self.paused or self.stopped:
            return []
        log = self._log
        if log is None or self._topic.deleted:
            if not self._find_log():
                return self._report_unknown()
            log = self._log
            assert log is not None
            self._resolve()
        if log.leader_epoch != self._seen[0] and (event := self._validate(log)) is not None:
            return [event]
        position, settings = self.position, self._settings
        limit = log.last_stable_offset if settings.committed else log.end_offset
        messages: list[Any] = []
        if log.start_offset <= position < limit:
            messages[:], self.position = log.read(position, count, settings.committed)
            self.moved = True
            if messages:
                self._seen = self._seen[0], messages[-1].epoch
        elif not log.start_offset <= position <= log.end_offset:
            return self._reset(log, count)
        if settings.reports_eof and self.position == limit != self._eof_at and len(messages) < count:
            self._eof_at = limit
            reason = f"the end of the partition was reached at offset {limit}"
            messages.append(self._event("_PARTITION_EOF", limit, reason))
        return messages

    def _validate(self, log: PartitionLog) -> PartitionEvent | None:
        """Compares the position with the log of a new leader, as librdkafka does if it has read a record: where the log
        was truncated before the position, it goes back to there, or reports it and stops (KIP-320). The event is that
        of a position outside of the log (seen with 2.16)."""
        _, read = self._seen
        self._seen = log.leader_epoch, read
        end = log.epoch_end(read)[1] if read >= 0 else self.position
        if end >= self.position:
            return None
        if self._settings.reset_to is not None:
            self.seek(max(end, log.start_offset))
            self._seen = log.leader_epoch, -1
            return None
        self.stopped = True
        reason = f"the log of {self.partition} was truncated at offset {end}, before the position {self.position}"
        return self._event("_AUTO_OFFSET_RESET", self.position, reason)

    @property
    def log_end(self) -> int | None:
        """The end of the log, with the records of open transactions; ``None`` where there is no such log."""
        return None if self._log is None else self._log.end_offset

    @property
    def log_start(self) -> int | None:
        """The first offset of the log; ``None`` where there is no such log."""
        return None if self._log is None else self._log.start_offset

    def _find_log(self) -> bool:
        topic = self._broker.topics.get(self.partition.topic)
        if topic is None or not 0 <= self.partition.partition < len(topic.partitions):
            self._log = None
            return False
        self._topic = topic
        self._log = topic.partitions[self.partition.partition]
        self._unknown = False
        return True

    def _resolve(self) -> None:
        assert self._log is not None
        if self.position == ports.AT_BEGINNING:
            self.position = self._log.start_offset
        elif self.position == ports.AT_END:
            self.position = self._log.limit(self._settings.committed)

    def _reset(self, log: PartitionLog, count: int) -> list[Any]:
        if self._settings.reset_to is not None:
            self.seek(self._settings.reset_to)
            return self.take(count)
        self.stopped = True
        where = f"from {log.start_offset} to {log.end_offset}"
        reason = f"offset {self.position} of {self.partition} is outside its log, which goes {where}"
        return [self._event("_AUTO_OFFSET_RESET", self.position, reason)]

    def _report_unknown(self) -> list[Any]:
        if self._unknown:
            return []
        self._unknown = True
        reason = f"partition {self.partition} does not exist"
        return [self._event("UNKNOWN_TOPIC_OR_PART", self.position, reason)]

    def _event(self, name: str, offset: int, reason: str) -> PartitionEvent:
        return PartitionEvent(self.partition.topic, self.partition.partition, offset, ErrorInfo(name, reason))


class EmbeddedConsumer:
    """Implements `streams.kafka.ports.Consumer`.

    Settings: ``group.id``, ``group.protocol``, ``group.instance.id``, ``client.id``, ``isolation.level`` (default
    ``read_committed``), ``auto.offset.reset`` (default ``latest``), ``enable.partition.eof``,
    ``default.api.timeout.ms`` (how long `committed` waits for pending transactions) and, in the classic protocol,
    ``session.timeout.ms``. The session runs from the last call of `consume`, `poll` or `commit`.

    :raises ConfigError: if ``auto.offset.reset`` or ``isolation.level`` is unknown.
    """

    partition_eof = PARTITION_EOF

    def __init__(self, broker: EmbeddedBroker, config: Mapping[str, Any]) -> None:
        self._broker = broker
        self._lock = broker.lock
        self._group_name: str | None = config.get("group.id")
        self._settings = FetchSettings.of(config)
        self._api_timeout_s = int(config.get("default.api.timeout.ms", 60_000)) / 1000
        self._membership: ConsumerMembership | None = None
        if self._group_name is not None:
            names = {name: config.get(name) for name in ("client.id", "group.instance.id", "group.protocol")}
            session_s = int(config.get("session.timeout.ms", 45_000)) / 1000
            self._membership = ConsumerMembership(broker, self._group_name, names, session_s)
        self._fetches: dict[TopicPartition, Fetch] = {}
        self._turn: list[Fetch] = []
        """The assigned partitions; each call of `consume` starts one further."""
        self._events: list[PartitionEvent] = []
        self._stopped: set[TopicPartition] = set()
        """Partitions that a member of a group cannot read again, as with librdkafka: their positions had left the log,
        and nothing was revoked since."""
        self._closed = False

    # Records

    def consume(self, max_messages: int, timeout: float) -> list[Any]:
        """Returns messages partition by partition, each partition's in order. Returns early when the listener was
        called.

        :raises InstanceFenced: if a newer consumer has the same ``group.instance.id``.
        """
        messages: list[Any] = []
        deadline_s: float | None = None
        membership = self._membership
        while True:
            self._check_open()
            rebalanced = membership is not None and membership.poll()
            with self._lock:
                self._broker.expire()
                if rebalanced and membership is not None:
                    self._stopped.clear()
                    self._events += map(_unknown_topic, sorted(membership.newly_missing()))
                self._collect(messages, max_messages)
                if rebalanced or timeout <= 0 or len(messages) >= max_messages:
                    return messages
                if deadline_s is None:
                    deadline_s = self._broker.changes.deadline_s(timeout)
                if not self._broker.changes.wait(deadline_s):
                    return messages

    def poll(self, timeout: float) -> Any:
        """Returns the next message, or ``None``; see `consume`."""
        messages = self.consume(1, timeout)
        return messages[0] if messages else None

    def _collect(self, messages: list[Any], max_messages: int) -> None:
        if self._events:
            room = max_messages - len(messages)
            messages += self._events[:room]
            del self._events[:room]
        turn = self._turn
        if not turn:
            return
        turn.append(turn.pop(0))
        for fetch in turn:
            while room := max_messages - len(messages):
                run = fetch.take(room)
                if not run:
                    break
                messages += run
            if not room:
                return

    # Partitions

    def subscribe(self, topics: Collection[str], listener: ports.RebalanceListener) -> None:
        self._check_open()
        if self._membership is None:
            raise StreamsError("subscribe needs the consumer setting group.id")
        self._membership.subscribe(topics, listener)

    def assign(self, partitions: Mapping[TopicPartition, int]) -> None:
        """Adds partitions to read; see the port.

        :raises StreamsError: if one of them is assigned already; then none is added.
        """
        self._check_open()
        for partition in partitions:
            if partition in self._fetches:
                raise StreamsError(f"partition {partition} is assigned already: unassign it first, or seek")
        with self._lock:
            for partition, offset in partitions.items():
                fetch = Fetch(self._broker, partition, self._settings)
                fetch.seek(offset)
                fetch.stopped = partition in self._stopped
                self._fetches[partition] = fetch
                self._turn.append(fetch)

    def relieve(self) -> None:
        """Does nothing: nothing piles up here."""

    def unassign(self, partitions: Collection[TopicPartition]) -> None:
        """Removes partitions; see the port.

        :raises StreamsError: if one of them is not assigned; then none is removed.
        """
        self._check_open()
        is_member = self._membership is not None and self._membership.is_subscribed
        for fetch in [self._fetch(partition) for partition in partitions]:
            self._turn.remove(fetch)
            if fetch.stopped and is_member:
                self._stopped.add(fetch.partition)
        for partition in partitions:
            del self._fetches[partition]

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._fetches)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Moves the position of a partition; see the port.

        :raises StreamsError: if the partition is not assigned.
        """
        with self._lock:
            self._fetch(partition).seek(offset)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self._set_paused(partitions, True)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        self._set_paused(partitions, False)

    def position(self, partition: TopicPartition) -> int | None:
        """Returns the offset of the next record; see the port.

        :raises StreamsError: if the partition is not assigned.
        """
        fetch = self._fetch(partition)
        return fetch.position if fetch.moved else None

    def fetched_end(self, partition: TopicPartition) -> int | None:
        """Returns ``None``: the end is not known, since nothing is fetched ahead."""
        return None

    def high_watermark(self, partition: TopicPartition) -> int | None:
        """Returns the end of the log of a partition; see the port."""
        fetch = self._fetches.get(partition)
        return None if fetch is None else fetch.log_end

    def log_start(self, partition: TopicPartition) -> int | None:
        """Returns the first offset of the log of a partition; see the port."""
        fetch = self._fetches.get(partition)
        return None if fetch is None else fetch.log_start

    def _set_paused(self, partitions: Collection[TopicPartition], paused: bool) -> None:
        for partition in partitions:
            fetch = self._fetches.get(partition)
            if fetch is not None:
                fetch.paused = paused

    def _fetch(self, partition: TopicPartition) -> Fetch:
        fetch = self._fetches.get(partition)
        if fetch is None:
            raise StreamsError(f"partition {partition} is not assigned to this consumer")
        return fetch

    # Offsets of the group

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, ports.OffsetAndMetadata]:
        """Returns the committed offsets of the group; see the port.

        :raises RetryableError: if transactions are still pending after ``default.api.timeout.ms``.
        """
        self._check_open()
        with self._lock:
            group = self._group()
            deadline_s = self._broker.changes.deadline_s(self._api_timeout_s)
            self._broker.expire()
            while any(partition in group.pending for partition in partitions):
                if not self._broker.changes.wait(deadline_s):
                    raise RetryableError(f"offsets of group {group.name!r} are pending in an open transaction")
                self._broker.expire()
            return {partition: group.offsets[partition] for partition in partitions if partition in group.offsets}

    def commit(self, offsets: Mapping[TopicPartition, ports.OffsetAndMetadata]) -> None:
        self._check_open()
        with self._lock:
            group = self._group()
            assert self._membership is not None
            self._membership.touch()
            identity = self._membership.identity()
            refusal = group.refusal(identity, offsets)
            if refusal is None and not identity.member and group.has_members:
                refusal = "UNKNOWN_MEMBER_ID"
            self._broker.commit_offsets(group, offsets, refusal, client="consumer", moved="is in a rebalance")

    def group_metadata(self) -> GroupIdentity:
        self._group()
        assert self._membership is not None
        return self._membership.identity()

    def member_id(self) -> str | None:
        return None if self._membership is None else self._membership.member_id

    def evict(self) -> None:
        """Removes the member from its group, as the end of its session or an operator does."""
        if self._membership is not None:
            with self._lock:
                self._membership.evict()

    def heartbeat(self) -> None:
        """Keeps the session, as the client's background thread does; a consumer without such calls keeps it by its
        other calls."""
        if self._membership is not None and not self._closed:
            with self._lock:
                self._membership.heartbeat()

    def _group(self) -> Group:
        if self._group_name is None:
            raise StreamsError("offsets of a group need the consumer setting group.id")
        return self._broker.groups.group(self._group_name)

    # Offsets of logs

    def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._ask(partitions, lambda partition, log: log.start_offset)

    def end_offsets(self, partitions: Collection[TopicPartition], timeout_s: float = 30.0) -> dict[TopicPartition, int]:
        return self._ask(partitions, lambda partition, log: log.limit(self._settings.committed))

    def offsets_for_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return self._ask(times, lambda partition, log: log.offset_for_time(times[partition], self._settings.committed))

    def _ask(
        self, partitions: Collection[TopicPartition], answer: Callable[[TopicPartition, PartitionLog], T]
    ) -> dict[TopicPartition, T]:
        self._check_open()
        with self._lock:
            self._broker.expire()
            try:
                return {partition: answer(partition, self._broker.log(partition)) for partition in partitions}
            except StreamsError as error:
                raise ports.UnknownPartitionError(error.message, **error.place()) from error

    def close(self) -> None:
        """Revokes what is owned (the listener is called), leaves the group unless static, and stops reading."""
        if self._closed:
            return
        try:
            if self._membership is not None:
                self._membership.close()
        finally:
            self._closed = True
            self._fetches.clear()
            self._turn.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise StreamsError("the consumer is closed: make a new one")


def _unknown_topic(topic: str) -> PartitionEvent:
    return PartitionEvent(
        topic, 0, -1, ErrorInfo("UNKNOWN_TOPIC_OR_PART", f"subscribed topic {topic!r} does not exist")
    )
