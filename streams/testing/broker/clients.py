"""The embedded broker behind the port to Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from processor_api.task_id import TopicPartition
from streams.kafka.client_statistics import ClientStatistics
from streams.kafka.ports import OffsetAndMetadata
from streams.kafka.streams_group import (
    GroupMemberIdentity,
    GroupSubtopology,
    Heartbeat,
    HeartbeatAnswer,
    TaskLists,
    as_described,
)
from streams.testing.broker.admin import EmbeddedAdmin
from streams.testing.broker.broker import EmbeddedBroker
from streams.testing.broker.consumer import EmbeddedConsumer
from streams.testing.broker.groups import GroupIdentity
from streams.testing.broker.producer import EmbeddedProducer


class EmbeddedStreamsGroup:
    """Implements `streams.kafka.streams_group.StreamsGroupRequests`.

    Settings: ``group.id`` and ``client.id``.
    """

    def __init__(self, broker: EmbeddedBroker, config: Mapping[str, Any]) -> None:
        self._broker = broker
        self._group_name = str(config["group.id"])
        self._client_id = str(config.get("client.id") or "member")
        self._member_id: str | None = None

    def new_member_id(self) -> str:
        with self._broker.lock:
            return self._broker.groups.new_member_id(self._client_id)

    def topology(self, timeout_s: float) -> tuple[GroupSubtopology, ...] | None:
        with self._broker.lock:
            streams = self._broker.groups.group(self._group_name).streams
            return None if streams is None else tuple(map(as_described, streams.topology))

    def heartbeat(self, beat: Heartbeat, timeout_s: float) -> HeartbeatAnswer:
        broker = self._broker
        with broker.lock:
            broker.expire()
            self._member_id = beat.member.member_id
            now_s = broker.clock.monotonic()
            answer = broker.groups.group(self._group_name).heartbeat(beat, self._client_id, now_s, broker.create_for)
            broker.expect(broker.groups.next_deadline_s())
            broker.changes.notify()
            return answer

    def assigned(self, member_id: str, timeout_s: float) -> TaskLists | None:
        with self._broker.lock:
            self._broker.expire()
            streams = self._broker.groups.group(self._group_name).streams
            member = None if streams is None else streams.members.get(member_id)
            return None if member is None else member.lists

    def commit(self, member: GroupMemberIdentity, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        with self._broker.lock:
            self._broker.expire()
            group = self._broker.groups.group(self._group_name)
            refusal = group.refusal(self.identity(member), offsets)
            self._broker.commit_offsets(group, offsets, refusal, client="member", moved="has another epoch")

    def identity(self, member: GroupMemberIdentity) -> GroupIdentity:
        return GroupIdentity(self._group_name, member.epoch, member.member_id, member.instance_id)

    def evict(self) -> None:
        """Removes the member from its group, as the end of its session does."""
        with self._broker.lock:
            streams = self._broker.groups.group(self._group_name).streams
            if streams is not None and self._member_id is not None:
                streams.remove(self._member_id)
                self._broker.changes.notify()

    def close_heartbeats(self) -> None:
        """Does nothing: there is no connection."""

    def close(self) -> None:
        """Does nothing: there is no connection."""


class EmbeddedClients:
    """Implements `streams.kafka.ports.KafkaClients` over one broker. Settings that have no meaning here are ignored."""

    ends_with_process = True
    """The broker is in the memory of this process, so there is nothing to run on for when its script has ended."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self.broker = broker

    def consumer(self, config: Mapping[str, Any]) -> EmbeddedConsumer:
        return EmbeddedConsumer(self.broker, config)

    def producer(self, config: Mapping[str, Any]) -> EmbeddedProducer:
        return EmbeddedProducer(self.broker, config)

    def admin(self, config: Mapping[str, Any]) -> EmbeddedAdmin:
        return EmbeddedAdmin(self.broker)

    def streams_group(self, config: Mapping[str, Any]) -> EmbeddedStreamsGroup:
        return EmbeddedStreamsGroup(self.broker, config)

    def leave_group(self, config: Mapping[str, Any], group: str, instance_id: str) -> None:
        self.broker.leave_group(group, instance_id)

    def statistics(self) -> list[ClientStatistics]:
        return []
