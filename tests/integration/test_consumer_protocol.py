"""Applications with ``group.protocol=consumer`` (KIP-848) on a real Apache Kafka."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from integration_support.counting import Counting
from integration_support.topics import Topics
from integration_support.workers import Workers
from processor_api.clock import SystemClock
from streams.kafka.confluent import ConfluentClients
from streams.kafka.ports import GroupInfo
from streams.kafka.wire.api import Api
from streams.kafka.wire.client_settings import ClientSettings
from streams.kafka.wire.codec import Int8, Int16, Int32
from streams.kafka.wire.connection import Connections, Deadline
from streams.kafka.wire.consumer_groups import (
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedConsumer,
    DescribedConsumerGroup,
    PartitionsOfId,
)
from streams.kafka.wire.coordinator import Coordinator
from tools.kafka.broker import Broker
from waiting import wait_until

SAFE_DOWNGRADE = 2


@dataclass(frozen=True)
class FeatureUpdate:
    feature: str
    max_version_level: Int16
    upgrade_type: Int8


@dataclass(frozen=True)
class UpdateFeaturesRequest:
    timeout_ms: Int32
    feature_updates: tuple[FeatureUpdate, ...]
    validate_only: bool


@dataclass(frozen=True)
class UpdatedFeature:
    feature: str
    error_code: Int16
    error_message: str | None


@dataclass(frozen=True)
class UpdateFeaturesResponse:
    throttle_time_ms: Int32
    error_code: Int16
    error_message: str | None
    results: tuple[UpdatedFeature, ...]


UPDATE_FEATURES = Api(
    name="UpdateFeatures",
    key=57,
    lowest=1,
    highest=1,
    flexible_from=0,
    request=UpdateFeaturesRequest,
    response=UpdateFeaturesResponse,
    needs="3.3",
)
WAITS_FOR_CLASSIC = (
    "waiting: the application has members with group.protocol=classic, and a member of the consumer protocol cannot"
    " join them; this worker joins when they have left"
)
WAITS_FOR_MEMBER = (
    "the group waits for this member, which has not heard of it: an answer of the coordinator was lost; it joins again"
)
OwnBroker = Callable[[Mapping[str, str]], tuple[Topics, Workers]]
SHORT_SESSIONS = {"group.consumer.session.timeout.ms": "6000"}
LONG_SESSIONS = {
    "group.consumer.max.session.timeout.ms": "600000",
    "group.consumer.session.timeout.ms": "600000",
}
GUARANTEES = ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.slow)]


def described(topics: Topics, workers: Workers) -> GroupInfo:
    admin = ConfluentClients(topics.bootstrap).admin({})
    try:
        return admin.describe_group(workers.application)
    finally:
        admin.close()


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_two_workers_share_the_tasks_and_one_takes_over(topics: Topics, workers: Workers, guarantee: str) -> None:
    """Each word is counted once a round, while a second worker joins and the first one leaves."""
    counting = Counting(topics, workers, guarantee, group_protocol="consumer")
    counting.send()
    first = counting.start().wait_running()
    with topics.reader(counting.output) as reader:
        counting.read_round(reader)
        second = counting.start().wait_running()
        second.wait_for("task runs")
        group = described(topics, workers)
        assert (group.protocol, group.assignor) == ("consumer", "uniform")
        assert {one.protocol for one in group.members} == {"consumer"}
        counting.send()
        counting.read_round(reader)
        first.stop()
        counting.send()
        counting.read_round(reader)
        second.stop()
        counting.check(reader)
    assert described(topics, workers).members == ()


def test_a_killed_worker_takes_its_own_place_when_it_comes_back(on_own_broker: OwnBroker, tmp_path: Path) -> None:
    """At once, though the group has its instance ids for a session; and the transaction that it left is ended."""
    topics, workers = on_own_broker(LONG_SESSIONS)
    counting = Counting(topics, workers, group_protocol="consumer")
    counting.send()
    first = counting.start(state_dir=tmp_path / "one").wait_running()
    with topics.reader(counting.output) as reader:
        counting.read_round(reader)
        first.kill()
        counting.send()
        again = counting.start(state_dir=tmp_path / "one")
        again.wait_for("takes the place of its former member in the group")
        counting.read_round(reader)
        again.stop()
        counting.check(reader)


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_the_tasks_of_a_killed_worker_go_to_the_other(on_own_broker: OwnBroker, guarantee: str) -> None:
    """They come with the end of its session, which the brokers set."""
    topics, workers = on_own_broker(SHORT_SESSIONS)
    Counting(topics, workers, guarantee, group_protocol="consumer").check_killed_worker()


@pytest.mark.slow
def test_a_worker_that_is_suspended_past_its_session_is_fenced_and_comes_back(
    on_own_broker: OwnBroker, tmp_path: Path
) -> None:
    """What it had open is refused, and it takes its part again."""
    topics, workers = on_own_broker(SHORT_SESSIONS)
    counting = Counting(topics, workers, group_protocol="consumer")
    counting.send()
    first, second = counting.start_two(tmp_path)
    with topics.reader(counting.output) as reader:
        counting.read_round(reader)
        os.kill(first.pid, signal.SIGSTOP)
        counting.send()
        counting.read_round(reader)
        runs = len(first.events("task runs"))
        os.kill(first.pid, signal.SIGCONT)
        wait_until("it has tasks again", lambda: len(first.events("task runs")) > runs)
        counting.send()
        counting.read_round(reader)
        first.stop()
        second.stop()
        counting.check(reader)


class Heartbeats:
    """Sends heartbeats for members whose own ones are held up, as a network does that loses answers."""

    def __init__(self, topics: Topics, workers: Workers) -> None:
        self._settings, self._group = ClientSettings.of({"bootstrap.servers": topics.bootstrap}), workers.application

    def group(self) -> DescribedConsumerGroup:
        with Coordinator(self._settings, self._group) as coordinator:
            request = ConsumerGroupDescribeRequest((self._group,), False)
            found: DescribedConsumerGroup = coordinator.call(CONSUMER_GROUP_DESCRIBE, request, 30.0).groups[0]
        return found

    def members(self) -> dict[str, DescribedConsumer]:
        return {one.member_id: one for one in self.group().members}

    def is_at_rest(self) -> bool:
        group = self.group()
        return {group.assignment_epoch, *(one.member_epoch for one in group.members)} == {group.group_epoch}

    def member(self) -> DescribedConsumer:
        (member,) = self.members().values()
        return member

    def send(self, member_id: str, epoch: int, **fields: Any) -> int:
        """Returns the epoch of the member behind it."""
        return self.answer(member_id, epoch, **fields).member_epoch

    def answer(
        self,
        member_id: str,
        epoch: int,
        topics: tuple[str, ...] | None = None,
        instance: str | None = None,
        owned: tuple[PartitionsOfId, ...] | None = (),
    ) -> ConsumerGroupHeartbeatResponse:
        timeout_ms = -1 if topics is None else 60_000
        request = ConsumerGroupHeartbeatRequest(
            self._group, member_id, epoch, instance, None, timeout_ms, topics, None, owned
        )
        with Coordinator(self._settings, self._group) as coordinator:
            answer: ConsumerGroupHeartbeatResponse = coordinator.call(CONSUMER_GROUP_HEARTBEAT, request, 30.0)
        assert (answer.error_code, answer.error_message) == (0, None)
        return answer

    def move_on(self, member: DescribedConsumer, passing: str, topic: str) -> None:
        """Has the group go on by two epochs, and the member with it, that hears nothing of them."""
        owned = tuple(PartitionsOfId(one.topic_id, one.partitions) for one in member.assignment.topic_partitions)

        def has_gone_on(epoch: int) -> bool:
            return self.send(member.member_id, epoch, instance=member.instance_id, owned=owned) == epoch + 1

        self.send(passing, 0, topics=(topic,))
        wait_until("it has the next epoch", lambda: has_gone_on(member.member_epoch))
        self.send(passing, -1)
        wait_until("it has the one after that", lambda: has_gone_on(member.member_epoch + 1))


def test_a_member_whose_epoch_is_behind_takes_its_place_again(on_own_broker: OwnBroker, tmp_path: Path) -> None:
    """Answers to its heartbeats were lost, as when their coordinator froze. The brokers refuse the epoch that it has,
    and then the instance id, which they still have for this member (4.3.1); it is no other process."""
    topics, workers = on_own_broker(LONG_SESSIONS)
    counting = Counting(topics, workers, group_protocol="consumer")
    counting.send()
    worker = counting.start(state_dir=tmp_path / "one").wait_running()
    with topics.reader(counting.output) as reader:
        counting.read_round(reader)
        os.kill(worker.pid, signal.SIGSTOP)
        heartbeats = Heartbeats(topics, workers)
        heartbeats.move_on(heartbeats.member(), "passing", counting.output)
        os.kill(worker.pid, signal.SIGCONT)
        counting.send()
        worker.wait_for("takes the place of its former member in the group")
        counting.read_round(reader)
        worker.stop()
        counting.check(reader)


@pytest.mark.slow
@pytest.mark.parametrize("static", [True, False])
def test_a_member_that_misses_what_it_is_to_give_up_joins_again(
    on_own_broker: OwnBroker, tmp_path: Path, static: bool
) -> None:
    """The brokers tell it once, and librdkafka does not ask again: the group waited until ``max.poll.interval.ms`` was
    over. The answer is lost here in that another client takes it while the worker stands still."""
    topics, workers = on_own_broker(LONG_SESSIONS)
    instance = {"group_instance_id": "one"} if static else {}
    counting = Counting(topics, workers, group_protocol="consumer", **instance)
    counting.send()
    worker = counting.start(state_dir=tmp_path / "one").wait_running()
    with topics.reader(counting.output) as reader:
        counting.read_round(reader)
        heartbeats = Heartbeats(topics, workers)
        wait_until("the group is at rest", heartbeats.is_at_rest)
        os.kill(worker.pid, signal.SIGSTOP)
        member = heartbeats.member()
        heartbeats.send("passing", 0, topics=member.subscribed_topic_names)

        def is_told() -> bool:
            answer = heartbeats.answer(member.member_id, member.member_epoch, instance=member.instance_id, owned=None)
            assert answer.member_epoch == member.member_epoch
            return answer.assignment is not None

        wait_until("the worker is to give up tasks", is_told)
        os.kill(worker.pid, signal.SIGCONT)
        worker.wait_for(WAITS_FOR_MEMBER)

        def has_heard() -> bool:
            found = heartbeats.members().get(member.member_id)
            return found is not None and found.member_epoch > member.member_epoch

        wait_until("it has given them up", has_heard)
        heartbeats.send("passing", -1)
        counting.send()
        counting.read_round(reader)
        worker.stop()
        counting.check(reader)


@pytest.mark.slow
def test_a_second_process_with_the_same_instance_id_ends_the_first(on_own_broker: OwnBroker, tmp_path: Path) -> None:
    """As in the classic protocol: the newer one has the place, and the older one says what to do."""
    topics, workers = on_own_broker(LONG_SESSIONS)
    counting = Counting(topics, workers, group_protocol="consumer", group_instance_id="one")
    counting.check_second_process(tmp_path)


@pytest.mark.slow
def test_from_classic_to_consumer_and_back(topics: Topics, workers: Workers) -> None:
    """To the consumer protocol a worker waits for the classic ones; back, they work side by side meanwhile."""
    counting = Counting(topics, workers)
    counting.send()
    worker = counting.start().wait_running()
    with topics.reader(counting.output) as reader:
        counting.read_round(reader)
        counting._settings["group.protocol"] = "consumer"
        waiting = counting.start()
        waiting.wait_for(WAITS_FOR_CLASSIC)
        worker.stop()
        waiting.wait_running()
        counting.send()
        counting.read_round(reader)
        assert described(topics, workers).protocol == "consumer"
        counting._settings["group.protocol"] = "classic"
        back = counting.start().wait_running()
        back.wait_for("task runs")
        assert {one.protocol for one in described(topics, workers).members} == {"classic", "consumer"}
        counting.send()
        counting.read_round(reader)
        waiting.stop()
        counting.send()
        counting.read_round(reader)
        assert described(topics, workers).protocol == "classic"
        back.stop()
        counting.check(reader)


@pytest.mark.slow
def test_auto_takes_what_the_group_can_be(topics: Topics, workers: Workers) -> None:
    """The consumer protocol in a new group; the classic one beside classic members."""
    counting = Counting(topics, workers, group_protocol="auto")
    counting.send()
    worker = counting.start()
    assert worker.wait_for("group.protocol=auto is decided until the next start")["protocol"] == "consumer"
    worker.wait_running()
    worker.stop()
    counting._settings["group.protocol"] = "classic"
    classic = counting.start().wait_running()
    counting._settings["group.protocol"] = "auto"
    beside = counting.start()
    said = beside.wait_for("group.protocol=auto is decided until the next start")
    assert (said["protocol"], said["reason"]) == ("classic", "the group has members of the classic protocol")
    beside.wait_running()
    with topics.reader(counting.output) as reader:
        counting.read_round(reader)
        classic.stop()
        beside.stop()
        counting.check(reader)


@pytest.mark.slow
def test_brokers_whose_feature_is_off_are_named(
    start_broker: Callable[..., Broker], tmp_path: Path, unique_name: Callable[[str], str]
) -> None:
    """``consumer`` is refused at the start with what to do, and ``auto`` is ``classic`` there."""
    broker = start_broker()
    with closing(Connections(ClientSettings.of({"bootstrap.servers": broker.bootstrap}))) as brokers:
        request = UpdateFeaturesRequest(10_000, (FeatureUpdate("group.version", 0, SAFE_DOWNGRADE),), False)
        answer = brokers.any(Deadline(30.0, SystemClock()), lambda one, left: one.call(UPDATE_FEATURES, request, left))
    assert (answer.error_code, answer.error_message) == (0, None)
    admin = ConfluentClients(broker.bootstrap).admin({})
    wait_until("the feature is off", lambda: "consumer" not in admin.group_protocols())
    admin.close()
    topics, workers = Topics(broker.bootstrap, unique_name), Workers(tmp_path, broker.bootstrap, unique_name("app"))
    try:
        counting = Counting(topics, workers, group_protocol="consumer")
        refused = counting.start()
        assert refused.wait() != 0
        assert (
            "group.protocol=consumer needs brokers of Kafka 4.0 or later with the feature group.version" in refused.text
        )
        counting._settings["group.protocol"] = "auto"
        counting.send()
        worker = counting.start()
        assert worker.wait_for("group.protocol=auto is decided until the next start")["protocol"] == "classic"
        with topics.reader(counting.output) as reader:
            counting.read_round(reader)
            worker.stop()
            counting.check(reader)
    finally:
        workers.close()
