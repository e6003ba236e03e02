"""The clients of an embedded broker that is in another process of this machine."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Collection, Mapping
from itertools import count
from multiprocessing.connection import Client
from typing import Any, NoReturn

from processor_api.errors import RetryableError
from processor_api.record import HeaderList
from processor_api.task_id import TopicPartition
from streams.kafka import ports
from streams.kafka.client_statistics import ClientStatistics
from streams.kafka.headers import UnsendableHeaders, sendable
from streams.kafka.offset_metadata import LogPoint
from streams.kafka.streams_group import GroupMemberIdentity, GroupSubtopology, Heartbeat, HeartbeatAnswer, TaskLists
from streams.testing.broker.messages import PARTITION_EOF, as_bytes
from streams.testing.broker.producer import EmbeddedProducer
from streams.threads import SYSTEM_THREADS, Threads


class RemoteClients:
    """Implements `streams.kafka.ports.KafkaClients` over a :class:`~streams.testing.broker.server.BrokerServer`.

    :param address: that of the server; so ``key``.
    """

    def __init__(self, address: str | tuple[str, int], key: bytes, threads: Threads = SYSTEM_THREADS) -> None:
        self._address = address
        self._key = key
        self._threads = threads

    def consumer(self, config: Mapping[str, Any]) -> RemoteConsumer:
        return RemoteConsumer(self._connected("consumer", _plain(config)))

    def producer(self, config: Mapping[str, Any]) -> RemoteProducer:
        return RemoteProducer(self._connected("producer", _plain(config)))

    def admin(self, config: Mapping[str, Any]) -> RemoteAdmin:
        return RemoteAdmin(self._connected("admin", _plain(config)))

    def streams_group(self, config: Mapping[str, Any]) -> RemoteStreamsGroup:
        found = _plain(config)
        return RemoteStreamsGroup(self._connected("streams_group", found), self._connected("streams_group", found))

    def leave_group(self, config: Mapping[str, Any], group: str, instance_id: str) -> None:
        call = self._connected("leave_group", (group, instance_id))
        call.answer()
        call.hang_up()

    def statistics(self) -> list[ClientStatistics]:
        return []

    def _connected(self, kind: str, first: Any) -> _Calls:
        return _Calls(self._address, self._key, self._threads, (kind, first))


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that can go to another process: callbacks cannot, and an embedded broker calls none."""
    return {name: value for name, value in config.items() if isinstance(value, (str, int, float, type(None)))}


class _Calls:
    """The connection of one client."""

    def __init__(self, address: str | tuple[str, int], key: bytes, threads: Threads, first: tuple[str, Any]) -> None:
        self._lock = threads.lock()
        self.listener: ports.RebalanceListener | None = None
        self.reported: Callable[[int, Any, Any], None] = lambda number, error, record: None
        try:
            self._connection = Client(address, authkey=key)
            self._connection.send(first)
        except OSError as error:
            raise RetryableError(f"the embedded broker at {address} cannot be reached: {error}") from error

    def __call__(self, name: str, *arguments: Any) -> Any:
        """Makes a call and returns its result; callbacks are called on the way.

        :raises RetryableError: if the broker's process has ended.
        """
        with self._lock:
            try:
                self._connection.send((name, arguments))
            except OSError as error:
                raise _gone(error) from error
            return self.answer()

    def answer(self) -> Any:
        """Returns the result of the call that was made."""
        failure: Exception | None = None
        while True:
            try:
                kind, value, reports = self._connection.recv()
            except (OSError, EOFError) as error:
                raise _gone(error) from error
            if kind.startswith("on_"):
                failure = self._listen(kind, value) or failure
                continue
            for report in reports:
                self.reported(*report)
            if kind == "error":
                raise value
            if failure is not None:
                raise failure
            return value

    def _listen(self, name: str, partitions: Collection[TopicPartition]) -> Exception | None:
        """Calls the listener, which may make calls; returns the error that it raised."""
        failure = None
        try:
            getattr(self.listener, name)(partitions)
        except Exception as error:
            failure = error
        self._connection.send(("listened", ()))
        return failure

    def hang_up(self) -> None:
        """Ends the connection."""
        self._connection.close()


def _gone(error: BaseException) -> RetryableError:
    return RetryableError(f"the process of the embedded broker has ended: {str(error) or type(error).__name__}")


class _RemoteClient:
    """A client whose calls are made in the process of the broker."""

    def __init__(self, call: _Calls) -> None:
        self._call = call
        self._closed = False

    def close(self) -> None:
        """Closes the client there too; again it does nothing."""
        if not self._closed:
            self._closed = True
            try:
                self._call("close")
            finally:
                self._call.hang_up()


class RemoteConsumer(_RemoteClient):
    """Implements `streams.kafka.ports.Consumer`."""

    partition_eof = PARTITION_EOF

    def consume(self, max_messages: int, timeout: float) -> list[Any]:
        return self._call("consume", max_messages, timeout)  # type: ignore[no-any-return]

    def poll(self, timeout: float) -> Any:
        return self._call("poll", timeout)

    def subscribe(self, topics: Collection[str], listener: ports.RebalanceListener) -> None:
        self._call.listener = listener
        self._call("subscribe", list(topics))

    def assign(self, partitions: Mapping[TopicPartition, int]) -> None:
        self._call("assign", dict(partitions))

    def unassign(self, partitions: Collection[TopicPartition]) -> None:
        self._call("unassign", list(partitions))

    def relieve(self) -> None:
        """Does nothing: nothing piles up here."""

    def assignment(self) -> frozenset[TopicPartition]:
        return self._call("assignment")  # type: ignore[no-any-return]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._call("seek", partition, offset)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self._call("pause", list(partitions))

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        self._call("resume", list(partitions))

    def position(self, partition: TopicPartition) -> int | None:
        return self._call("position", partition)  # type: ignore[no-any-return]

    def fetched_end(self, partition: TopicPartition) -> int | None:
        return self._call("fetched_end", partition)  # type: ignore[no-any-return]

    def high_watermark(self, partition: TopicPartition) -> int | None:
        return self._call("high_watermark", partition)  # type: ignore[no-any-return]

    def log_start(self, partition: TopicPartition) -> int | None:
        return self._call("log_start", partition)  # type: ignore[no-any-return]

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, ports.OffsetAndMetadata]:
        return self._call("committed", list(partitions))  # type: ignore[no-any-return]

    def commit(self, offsets: Mapping[TopicPartition, ports.OffsetAndMetadata]) -> None:
        self._call("commit", dict(offsets))

    def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._call("beginning_offsets", list(partitions))  # type: ignore[no-any-return]

    def end_offsets(self, partitions: Collection[TopicPartition], timeout_s: float = 30.0) -> dict[TopicPartition, int]:
        return self._call("end_offsets", list(partitions), timeout_s)  # type: ignore[no-any-return]

    def offsets_for_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return self._call("offsets_for_time", dict(times))  # type: ignore[no-any-return]

    def group_metadata(self) -> Any:
        return self._call("group_metadata")

    def member_id(self) -> str | None:
        return self._call("member_id")  # type: ignore[no-any-return]


class RemoteProducer(_RemoteClient):
    """Implements `streams.kafka.ports.Producer`. Each record is a call."""

    zero_timestamp_ms = EmbeddedProducer.zero_timestamp_ms

    def __init__(self, call: _Calls) -> None:
        super().__init__(call)
        call.reported = self._reported
        self._numbers = count()
        self._callbacks: dict[int, ports.OnDelivery] = {}

    def produce(
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        partition: int = -1,
        callback: ports.OnDelivery | None = None,
        on_delivery: ports.OnDelivery | None = None,
        timestamp: int | None = None,
        headers: HeaderList | None = None,
    ) -> None:
        report, number = callback or on_delivery, None
        if report is not None:
            number = next(self._numbers)
            self._callbacks[number] = report
        sent = [part if part is None or type(part) is bytes else as_bytes(part) for part in (value, key)]
        try:
            checked = sendable(headers) if headers else None
            self._call("produce", topic, *sent, partition, timestamp, checked, number)
        except BaseException:
            if number is not None:
                self._callbacks.pop(number, None)
            raise

    @property
    def produce_plain(self) -> Callable[..., None]:
        return self.produce

    def _reported(self, number: int, error: Any, record: Any) -> None:
        self._callbacks.pop(number)(error, record)

    def refused(self, error: Exception, topic: str) -> NoReturn:
        if isinstance(error, UnsendableHeaders):
            raise error.locate(topic=topic)
        self._call("refused", error, topic)
        raise error

    def poll(self, timeout: float = 0) -> int:
        return self._call("poll", timeout)  # type: ignore[no-any-return]

    def flush(self, timeout_s: float = math.inf) -> bool:
        self._call("flush", timeout_s)
        while self._callbacks:  # those of records that callbacks have sent
            self._call("flush", timeout_s)
        return True

    def init_transactions(self) -> None:
        self._call("init_transactions")

    def begin_transaction(self) -> None:
        self._call("begin_transaction")

    def send_offsets(self, offsets: Mapping[TopicPartition, ports.OffsetAndMetadata], group_metadata: Any) -> None:
        self._call("send_offsets", dict(offsets), group_metadata)

    def commit_transaction(self) -> None:
        self._call("commit_transaction")

    def abort_transaction(self) -> None:
        self._call("abort_transaction")

    def prepare(self, topics: Collection[str]) -> None:
        """Does nothing: the broker knows its topics."""

    def partition_count(self, topic: str) -> int:
        return self._call("partition_count", topic)  # type: ignore[no-any-return]


class RemoteAdmin(_RemoteClient):
    """Implements `streams.kafka.ports.Admin`."""

    def topics(self, names: Collection[str] | None = None) -> dict[str, ports.TopicInfo]:
        return self._call("topics", None if names is None else list(names))  # type: ignore[no-any-return]

    def topic_ids(self, names: Collection[str]) -> dict[str, str]:
        return self._call("topic_ids", list(names))  # type: ignore[no-any-return]

    def topic_states(self, names: Collection[str]) -> dict[str, ports.TopicState]:
        return self._call("topic_states", list(names))  # type: ignore[no-any-return]

    def divergences(
        self, points: Collection[tuple[TopicPartition, LogPoint]]
    ) -> dict[tuple[TopicPartition, LogPoint], int]:
        return self._call("divergences", list(points))  # type: ignore[no-any-return]

    def topic_settings(self, names: Collection[str]) -> dict[str, dict[str, str]]:
        return self._call("topic_settings", list(names))  # type: ignore[no-any-return]

    def create_topics(self, topics: Collection[ports.NewTopic]) -> None:
        self._call("create_topics", list(topics))

    def add_partitions(self, topic: str, partitions: int) -> None:
        self._call("add_partitions", topic, partitions)

    def delete_topics(self, names: Collection[str]) -> None:
        self._call("delete_topics", list(names))

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        self._call("delete_records", dict(before))

    def groups(self) -> list[str]:
        return self._call("groups")  # type: ignore[no-any-return]

    def group_members(self, group: str) -> list[ports.GroupMember]:
        return self._call("group_members", group)  # type: ignore[no-any-return]

    def describe_group(self, group: str) -> ports.GroupInfo:
        return self._call("describe_group", group)  # type: ignore[no-any-return]

    def delete_group(self, group: str) -> None:
        self._call("delete_group", group)

    def remove_members(self, group: str, members: Collection[ports.GroupMember]) -> None:
        self._call("remove_members", group, list(members))

    def release_instance(self, group: str, member: ports.GroupMember) -> None:
        self._call("release_instance", group, member)

    def open_transactions(self) -> list[str]:
        return self._call("open_transactions")  # type: ignore[no-any-return]

    def fence_producer(self, transactional_id: str) -> None:
        self._call("fence_producer", transactional_id)

    def log_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._call("log_ends", list(partitions))  # type: ignore[no-any-return]

    def offsets_for_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return self._call("offsets_for_time", dict(times))  # type: ignore[no-any-return]

    def group_offsets(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ports.OffsetAndMetadata]:
        return self._call("group_offsets", group, list(partitions))  # type: ignore[no-any-return]


class RemoteStreamsGroup:
    """Implements `streams.kafka.streams_group.StreamsGroupRequests`, by a connection for each of its two threads."""

    def __init__(self, heartbeats: _Calls, commits: _Calls) -> None:
        self._heartbeats, self._commits = _RemoteClient(heartbeats), _RemoteClient(commits)
        self._beat, self._call = heartbeats, commits

    def new_member_id(self) -> str:
        return str(uuid.uuid4())

    def topology(self, timeout_s: float) -> tuple[GroupSubtopology, ...] | None:
        found: tuple[GroupSubtopology, ...] | None = self._call("topology", timeout_s)
        return found

    def heartbeat(self, beat: Heartbeat, timeout_s: float) -> HeartbeatAnswer:
        answer: HeartbeatAnswer = self._beat("heartbeat", beat, timeout_s)
        return answer

    def assigned(self, member_id: str, timeout_s: float) -> TaskLists | None:
        found: TaskLists | None = self._beat("assigned", member_id, timeout_s)
        return found

    def commit(self, member: GroupMemberIdentity, offsets: Mapping[TopicPartition, ports.OffsetAndMetadata]) -> None:
        self._call("commit", member, dict(offsets))

    def identity(self, member: GroupMemberIdentity) -> Any:
        return self._call("identity", member)

    def close_heartbeats(self) -> None:
        """Does nothing: the connection is used again by the heartbeat with which the member leaves."""

    def close(self) -> None:
        self._heartbeats.close()
        self._commits.close()
