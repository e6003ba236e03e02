"""Members of a group over any clients, for the membership contract."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from dataclasses import replace

from client_contracts.client_kit import OF_MEMBER
from client_contracts.membership import COUNTS, GROWING, Worker
from processor_api.clock import Clock
from processor_api.task_id import TaskId, TopicPartition
from streams.kafka.membership.control_topic_membership import ControlTopicMembership
from streams.kafka.membership.group_heartbeats import StreamsGroupMember
from streams.kafka.membership.port import GroupTopology, Membership
from streams.kafka.membership.shutdown_requests import ShutdownRequests
from streams.kafka.membership.streams_group_membership import StreamsGroupMembership
from streams.kafka.membership.topology_gate import client_id_with_hash
from streams.kafka.ports import KafkaClients, NewTopic, OffsetAndMetadata
from streams.kafka.streams_group import GroupSubtopology
from waiting import wait_until

_NUMBERS = itertools.count(1)


class ClientsKit:
    """`client_contracts.membership.MembershipKit` for `ControlTopicMembership`."""

    reasons_arrive = True
    spreads_subtopologies = True

    def __init__(
        self,
        clients: KafkaClients,
        clock: Clock,
        let_time_pass: Callable[[float], None],
        name: str,
        patience_s: float,
    ) -> None:
        self.history: list[tuple[Worker, frozenset[TaskId]]] = []
        self._clients, self._clock, self._let_time_pass = clients, clock, let_time_pass
        self._name, self._patience_s = f"{name}-{next(_NUMBERS)}", patience_s
        self._admin = clients.admin({})
        self._members: list[Membership] = []
        self.input = TopicPartition(f"{self._name}-in", 0)
        self._admin.create_topics([NewTopic(name=self.input.topic, partitions=4)])

    def topology(self, digest: str = "0" * 8, more: int = 0) -> GroupTopology:
        counts = {part: count + (more if part == GROWING else 0) for part, count in COUNTS.items()}
        return GroupTopology(
            application_id=self._name, prefix=self._name, task_counts=counts, hash=digest, growing=frozenset({GROWING})
        )

    def worker(self, topology: GroupTopology, instance: str) -> Worker:
        config = {
            "group.id": self._name,
            "client.id": client_id_with_hash(instance, topology.hash),
            "group.instance.id": instance,
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 500,
            **OF_MEMBER,
        }
        consumer = self._clients.consumer(config)
        membership = ControlTopicMembership(
            consumer,
            self._admin,
            self._clock,
            leave_static=lambda: self._clients.leave_group(config, self._name, instance),
            requests=ShutdownRequests(self._send),
        )
        self._members.append(membership)

        def poll() -> None:
            message = consumer.poll(0.01)
            if message is not None and message.error() is None:
                membership.take(TopicPartition(message.topic(), message.partition()), [message])

        return Worker(membership, poll, self.history)

    def _send(self, topic: str, partition: int, key: bytes, value: bytes) -> None:
        producer = self._clients.producer({})
        producer.produce(topic, value, key, partition, None, None, self._clock.time_ms(), None)
        producer.flush()
        producer.close()

    def committed(self) -> OffsetAndMetadata | None:
        consumer = self._clients.consumer({"group.id": self._name})
        try:
            return consumer.committed([self.input]).get(self.input)
        finally:
            consumer.close()

    def until(self, condition: Callable[[], bool], workers: Collection[Worker], what: str) -> None:
        def come_to() -> bool:
            if condition():
                return True
            for worker in workers:
                worker.turn()
            self._let_time_pass(0.02)
            return False

        wait_until(what, come_to, deadline_s=self._patience_s, pauses=False, clock=self._clock)

    def close(self) -> None:
        for member in self._members:
            try:
                member.leave()
            except Exception:  # it may have left in the test
                pass


class StreamsGroupKit(ClientsKit):
    """`client_contracts.membership.MembershipKit` for `StreamsGroupMembership`."""

    reasons_arrive = False
    """The group says which member asked, and not why."""

    def __init__(
        self, clients: KafkaClients, clock: Clock, name: str, patience_s: float, *, spreads_subtopologies: bool
    ) -> None:
        self.spreads_subtopologies = spreads_subtopologies
        super().__init__(clients, clock, clock.wait, name, patience_s)
        sources = {part: f"{self._name}-read-{part}" for part in COUNTS}
        self._admin.create_topics([NewTopic(name=sources[part], partitions=count) for part, count in COUNTS.items()])
        self._sources = sources

    def topology(self, digest: str = "0" * 8, more: int = 0) -> GroupTopology:
        if more:
            self._admin.add_partitions(self._sources[GROWING], COUNTS[GROWING] + more)
        parts = tuple(GroupSubtopology(part, (topic,)) for part, topic in self._sources.items())
        return replace(super().topology(digest, more), subtopologies=parts)

    def worker(self, topology: GroupTopology, instance: str) -> Worker:
        config = {"group.id": self._name, "client.id": client_id_with_hash(instance, topology.hash)}
        member = StreamsGroupMember(name=instance, process_id=instance, max_poll_s=30.0, pace_s=0.02)
        consumer = self._clients.consumer(config)
        requests = self._clients.streams_group(config)
        membership = StreamsGroupMembership(requests, member, consumer, self._admin, self._clock)
        self._members.append(membership)
        return Worker(membership, lambda: None, self.history)
