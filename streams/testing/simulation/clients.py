"""The Kafka clients of a simulation: those of the embedded broker, with faults on the way to a broker and back.

Each call is a step of its thread (`scheduler`). Before it and after it the schedule may act: kill or freeze the process
in between, lose the request or the answer, answer late, twice or with an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from processor_api.errors import RetryableError, StreamsError, TaskMigratedError
from processor_api.task_id import TopicPartition
from streams.kafka import ports
from streams.kafka.client_statistics import ClientStatistics
from streams.kafka.streams_group import GroupMemberIdentity, GroupSubtopology, Heartbeat, HeartbeatAnswer, TaskLists
from streams.testing.broker import EmbeddedBroker, EmbeddedClients
from streams.testing.broker.clients import EmbeddedStreamsGroup
from streams.testing.broker.consumer import EmbeddedConsumer
from streams.testing.broker.messages import PARTITION_EOF, ErrorInfo, PartitionEvent
from streams.testing.broker.producer import EmbeddedProducer
from streams.testing.simulation.network import ClientGivenUp, GivenUpNetwork, Network
from streams.testing.simulation.scheduler import Scheduler, SimulatedProcess

R = TypeVar("R")

HEARTBEAT_FAULTS = 24
"""One heartbeat in this many is lost, as many responses, and as many arrive twice."""


class ClientsOfSimulation:
    """Implements `streams.kafka.ports.KafkaClients` for the processes of one simulation."""

    def __init__(self, broker: EmbeddedBroker, scheduler: Scheduler, network: Network) -> None:
        self.broker = broker
        self._inner = EmbeddedClients(broker)
        self._scheduler = scheduler
        self._network = network
        self.consumers: list[SimulatedConsumer] = []
        """The consumers that joined a group and were not closed."""
        self.members: list[SimulatedStreamsGroup] = []
        """The members of a group of the streams protocol, also those that have left."""
        self.producers: list[SimulatedProducer] = []
        broker.before_expiry = self._heartbeats

    def consumer(self, config: Mapping[str, Any]) -> SimulatedConsumer:
        made = SimulatedConsumer(self, self._inner.consumer(config), self._network, self._scheduler.process(), config)
        self._network.step("make consumer")
        return made

    def producer(self, config: Mapping[str, Any]) -> SimulatedProducer:
        inner = self._inner.producer({"linger.ms": 5, **config})
        made = SimulatedProducer(self, inner, self._network, self._scheduler.process())
        self._network.step("make producer")
        self.producers.append(made)
        return made

    def admin(self, config: Mapping[str, Any]) -> SimulatedAdmin:
        return SimulatedAdmin(self._inner.admin(config), self._network)

    def leave_group(self, config: Mapping[str, Any], group: str, instance_id: str) -> None:
        self._network.call("leave_group", lambda: self._inner.leave_group(config, group, instance_id))

    def streams_group(self, config: Mapping[str, Any]) -> SimulatedStreamsGroup:
        made = SimulatedStreamsGroup(self._inner.streams_group(config), self._network, self._scheduler.process())
        self.members.append(made)
        return made

    def statistics(self) -> list[ClientStatistics]:
        return []

    def _heartbeats(self) -> None:
        """Sends the heartbeats of the threads inside the clients, which continue while the process runs and its user's
        threads poll."""
        now = self._scheduler.now
        for consumer in self.consumers:
            process = consumer.process
            if process.alive and process.frozen_until <= now and now < consumer.polled_at + consumer.max_poll_s:
                consumer.inner.heartbeat()

    def before_freeze(self, process: SimulatedProcess) -> None:
        """Sends the last heartbeats of a process that is about to freeze or die."""
        for consumer in self.consumers:
            if consumer.process is process and self._scheduler.now < consumer.polled_at + consumer.max_poll_s:
                consumer.inner.heartbeat()

    def leap(self, seconds: float) -> None:
        """Lets time pass in which the clients only keep their sessions."""
        for consumer in self.consumers:
            if consumer.process.frozen_until <= self._scheduler.now:
                consumer.polled_at += seconds
        self._scheduler.clock.leap(seconds)
        self._heartbeats()

    def killed(self, process: SimulatedProcess) -> None:
        """Removes the clients of a killed process; what its producers had sent arrives, or not, or the first records of
        some partitions do: each broker of a cluster gets requests of its own."""
        for producer in [one for one in self.producers if one.process is process]:
            drawn = self._scheduler.draw()
            if drawn & 1:
                producer.inner.deliver()
            elif drawn & 2:
                producer.inner.deliver_some(lambda count: self._scheduler.draw() % (count + 1))
            self.producers.remove(producer)
        self.consumers = [one for one in self.consumers if one.process is not process]
        self.members = [one for one in self.members if one.process is not process]


class SimulatedConsumer:
    """Implements `streams.kafka.ports.Consumer`."""

    partition_eof = PARTITION_EOF

    def __init__(
        self,
        clients: ClientsOfSimulation,
        inner: EmbeddedConsumer,
        network: Network,
        process: SimulatedProcess,
        config: Mapping[str, Any],
    ) -> None:
        self.inner = inner
        self.process = process
        self.max_poll_s = int(config.get("max.poll.interval.ms", 300_000)) / 1000
        self.polled_at = 0.0
        self._clients = clients
        self._network = network
        self._in_group = False
        self._is_given_up = False
        self._is_fenced = False

    def _check_fence(self, call: str) -> None:
        """Raises the error of a consumer whose place a late request of its own has taken, from then on."""
        if not self._is_fenced and self._in_group and self._network.faults:
            self._is_fenced = self._network.fails_by("is fenced by itself", call)
            if self._is_fenced:
                self._remove()  # it no longer sends heartbeats
        if self._is_fenced:
            raise TaskMigratedError("simulated: a late request of its own has taken this consumer's place")

    def _polls(self) -> None:
        self.polled_at = self._network.scheduler.now
        if self._in_group:
            self.inner.heartbeat()

    def consume(self, max_messages: int, timeout: float) -> list[Any]:
        network = self._network
        network.step("consume")
        self._check_fence("consume")
        self._polls()
        if network.is_down():
            network.scheduler.sleep(timeout)
            return self._weather()
        most = network.batch_limit(max_messages)
        found = self.inner.consume(most, timeout)
        if most < max_messages and network.chance(4):  # the rest comes later, after other threads have run
            network.step("consume")
            found += self.inner.consume(max_messages - most, 0.0)
        return self._weather() + found if network.has_events else found

    def poll(self, timeout: float) -> Any:
        network = self._network
        network.step("poll")
        self._check_fence("consume")
        self._polls()
        if network.is_down():
            network.scheduler.sleep(min(timeout, network.down_for()))
            return next(iter(self._weather()), None)
        found = self.inner.poll(timeout)
        self._polls()
        return found

    def _weather(self) -> list[Any]:
        """Returns events that report the state of the network."""
        return [PartitionEvent("", -1, -1, ErrorInfo(name, "simulated")) for name in self._network.take_events()]

    def subscribe(self, topics: Collection[str], listener: ports.RebalanceListener) -> None:
        self._network.step("subscribe")
        self._in_group = True
        self._clients.consumers.append(self)
        self.inner.subscribe(topics, listener)

    def assign(self, partitions: Mapping[TopicPartition, int]) -> None:
        self._network.step("assign")
        self.inner.assign(partitions)

    def unassign(self, partitions: Collection[TopicPartition]) -> None:
        self._network.step("unassign")
        self.inner.unassign(partitions)

    def relieve(self) -> None:
        self.inner.relieve()

    def assignment(self) -> frozenset[TopicPartition]:
        return self.inner.assignment()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._network.step("seek")
        self.inner.seek(partition, offset)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self._network.step("pause")
        self.inner.pause(partitions)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        self._network.step("resume")
        self.inner.resume(partitions)

    def position(self, partition: TopicPartition) -> int | None:
        self._network.step("position")
        return self.inner.position(partition)

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, ports.OffsetAndMetadata]:
        return self._network.call("committed", lambda: self.inner.committed(partitions))

    def commit(self, offsets: Mapping[TopicPartition, ports.OffsetAndMetadata]) -> None:
        network = self._network
        self._check_fence("commit")
        try:
            network.call("commit", lambda: network.note_commit(self, lambda: self.inner.commit(offsets)))
        except ClientGivenUp:
            self._is_given_up, self._network = True, GivenUpNetwork()
            self._remove()  # it no longer sends heartbeats
            raise

    def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._network.call("beginning_offsets", lambda: self.inner.beginning_offsets(partitions))

    def end_offsets(self, partitions: Collection[TopicPartition], timeout_s: float = 30.0) -> dict[TopicPartition, int]:
        return self._network.call("end_offsets", lambda: self.inner.end_offsets(partitions, timeout_s), timeout_s)

    def offsets_for_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return self._network.call("offsets_for_time", lambda: self.inner.offsets_for_time(times))

    def group_metadata(self) -> Any:
        return self.inner.group_metadata()

    def member_id(self) -> str | None:
        return self.inner.member_id()

    def close(self) -> None:
        if self._is_given_up:
            return
        self._network.step("close consumer")
        self.inner.close()
        self._remove()

    def _remove(self) -> None:
        if self in self._clients.consumers:
            self._clients.consumers.remove(self)

    def __getattr__(self, name: str) -> Any:
        """Passes on calls that the port gets later; they are not steps."""
        return getattr(self.inner, name)


class SimulatedStreamsGroup:
    """Implements `streams.kafka.streams_group.StreamsGroupRequests`. Heartbeats meet faults of their own now and
    then, as long as the schedule acts: theirs is the only request whose answer is not given twice. One without an
    answer may arrive later, behind some of the next requests."""

    def __init__(self, inner: EmbeddedStreamsGroup, network: Network, process: SimulatedProcess) -> None:
        self.inner = inner
        self.process = process
        self._network = network
        self._late: Heartbeat | None = None
        self._late_behind = 0
        """The requests behind which it arrives."""

    def _arrive(self, timeout_s: float) -> None:
        """Delivers a heartbeat whose sender no longer waits for the response."""
        late = self._late
        if late is None:
            return
        if self._late_behind > 0:
            self._late_behind -= 1
            return
        self._late = None
        with suppress(StreamsError):
            self.inner.heartbeat(late, timeout_s)

    def new_member_id(self) -> str:
        return self.inner.new_member_id()

    def topology(self, timeout_s: float) -> tuple[GroupSubtopology, ...] | None:
        return self._network.call("group_members", lambda: self.inner.topology(timeout_s), timeout_s)

    def heartbeat(self, beat: Heartbeat, timeout_s: float) -> HeartbeatAnswer:
        network = self._network
        fault = network.scheduler.draw() % HEARTBEAT_FAULTS if network.acts else HEARTBEAT_FAULTS
        if fault == 0:
            network.scheduler.sleep(timeout_s)
            raise RetryableError("simulated: a heartbeat was lost")
        if fault == 2:
            self._late, self._late_behind = beat, network.scheduler.draw() % 6
            network.scheduler.sleep(timeout_s)
            raise RetryableError("simulated: a heartbeat is late")
        self._arrive(timeout_s)
        answer = network.call("heartbeat", lambda: self.inner.heartbeat(beat, timeout_s), timeout_s)
        if fault == 1:
            raise RetryableError("simulated: the answer to a heartbeat was lost")
        return answer

    def assigned(self, member_id: str, timeout_s: float) -> TaskLists | None:
        found = self._network.call("group_members", lambda: self.inner.assigned(member_id, timeout_s), timeout_s)
        self._arrive(timeout_s)
        return found

    def commit(self, member: GroupMemberIdentity, offsets: Mapping[TopicPartition, ports.OffsetAndMetadata]) -> None:
        network = self._network
        try:
            network.call("commit", lambda: network.note_commit(self, lambda: self.inner.commit(member, offsets)))
        except (ports.CommitAgain, ports.ClientUnusable):
            raise
        except TaskMigratedError:
            raise
        except RetryableError as error:
            raise ports.ClientUnusable(error.message) from error

    def identity(self, member: GroupMemberIdentity) -> Any:
        return self.inner.identity(member)

    def close_heartbeats(self) -> None:
        self._network.step("close heartbeats")

    def close(self) -> None:
        self._network.step("close member")


class SimulatedProducer:
    """Implements `streams.kafka.ports.Producer`."""

    def __init__(
        self, clients: ClientsOfSimulation, inner: EmbeddedProducer, network: Network, process: SimulatedProcess
    ) -> None:
        self.inner = inner
        self.process = process
        self._clients = clients
        self._network = network

    @property
    def zero_timestamp_ms(self) -> int:
        return self.inner.zero_timestamp_ms

    def produce(self, topic: str, *args: Any, **named: Any) -> None:
        """Sends a record, as the client does."""
        self._network.step("produce")
        if self._network.fails("produce"):
            raise BufferError("simulated: the producer's queue is full")
        self.inner.produce(topic, *args, **named)
        if self._network.chance(16):
            self._deliver()

    @property
    def produce_plain(self) -> Callable[..., None]:
        return self.produce

    def _deliver(self) -> None:
        if not self._network.is_down():
            self.inner.deliver()

    def refused(self, error: Exception, topic: str) -> Any:
        self.inner.refused(error, topic)

    def poll(self, timeout: float = 0) -> int:
        self._network.step("poll producer")
        return 0 if self._network.is_down() else self.inner.poll(timeout)

    def flush(self, timeout_s: float = math.inf) -> bool:
        network = self._network
        network.step("flush")
        end = network.scheduler.now + timeout_s
        while network.is_down():
            if network.scheduler.now >= end:
                return False
            network.scheduler.sleep(min(1.0, network.down_for(), end - network.scheduler.now))
        return self.inner.flush()

    def init_transactions(self) -> None:
        self._network.call("init_transactions", self.inner.init_transactions)

    def begin_transaction(self) -> None:
        self._network.step("begin_transaction")
        self.inner.begin_transaction()

    def send_offsets(self, offsets: Mapping[TopicPartition, ports.OffsetAndMetadata], group_metadata: Any) -> None:
        network = self._network
        network.note_offsets(self, offsets)
        network.call("send_offsets", lambda: self.inner.send_offsets(offsets, group_metadata))

    def commit_transaction(self) -> None:
        network = self._network
        network.call("commit_transaction", lambda: network.note_transaction(self, self.inner.commit_transaction))

    def abort_transaction(self) -> None:
        self._network.call("abort_transaction", self.inner.abort_transaction)

    def prepare(self, topics: Collection[str]) -> None:
        self._network.step("prepare")
        self.inner.prepare(topics)

    def partition_count(self, topic: str) -> int:
        return self.inner.partition_count(topic)

    def close(self) -> None:
        self._network.step("close producer")
        self.inner.close()
        if self in self._clients.producers:
            self._clients.producers.remove(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class SimulatedAdmin:
    """Implements `streams.kafka.ports.Admin`."""

    def __init__(self, inner: Any, network: Network) -> None:
        self._inner = inner
        self._network = network

    def _ask(self, name: str, ask: Callable[[], R]) -> R:
        return self._network.call(name, ask)

    def topics(self, names: Collection[str] | None = None) -> dict[str, ports.TopicInfo]:
        return self._ask("topics", lambda: self._inner.topics(names))

    def create_topics(self, topics: Collection[ports.NewTopic]) -> None:
        self._ask("create_topics", lambda: self._inner.create_topics(topics))

    def add_partitions(self, topic: str, partitions: int) -> None:
        self._ask("add_partitions", lambda: self._inner.add_partitions(topic, partitions))

    def delete_topics(self, names: Collection[str]) -> None:
        self._ask("delete_topics", lambda: self._inner.delete_topics(names))

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        self._ask("delete_records", lambda: self._inner.delete_records(before))

    def group_members(self, group: str) -> list[ports.GroupMember]:
        return self._ask("group_members", lambda: self._inner.group_members(group))

    def close(self) -> None:
        self._network.step("close admin")
        self._inner.close()

    def __getattr__(self, name: str) -> Any:
        """Passes on calls that the port gets later; they are not steps."""
        found = getattr(self._inner, name)
        return (lambda *args, **named: self._ask(name, lambda: found(*args, **named))) if callable(found) else found
