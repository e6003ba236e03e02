"""Members of the consumer protocol (KIP-848): what the brokers are asked, what the embedded one does, and how a thread
enters such a group."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import ConfigError, RetryableError, StreamsError, TaskMigratedError
from processor_api.task_id import TopicPartition
from streams import StreamsConfig
from streams.app.opening import with_group_protocol
from streams.config import clients as client_configs
from streams.kafka.membership.control_topics import ControlTopics
from streams.kafka.membership.group_picture import read_picture
from streams.kafka.membership.port import GroupTopology
from streams.kafka.ports import CommitAgain, GroupMember, InstanceFenced, OffsetAndMetadata, TransactionAborted
from streams.kafka.wire.cluster_queries import ClusterQueries
from streams.kafka.wire.consumer_groups import (
    CONSUMER_GROUP_DESCRIBE,
    CONSUMER_GROUP_HEARTBEAT,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
    DescribedConsumer,
    DescribedConsumerGroup,
    MemberAssignment,
    PartitionsOfName,
)
from streams.kafka.wire.leave import release_instance, remove_members
from streams.kafka.wire.messages import (
    API_VERSIONS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    DescribedGroup,
    DescribeGroupsResponse,
    FinalizedFeature,
)
from streams.kafka.wire.streams_groups.messages import STREAMS_GROUP_HEARTBEAT, StreamsGroupHeartbeatResponse
from streams.runtime.threads.process_resources import FormerMembers
from streams.runtime.threads.thread_resources import GroupEntry
from streams.testing.broker import EmbeddedBroker, EmbeddedClients
from streams.threads import SYSTEM_THREADS
from wire_support.fake_broker import CONSUMER_VERSIONS, STREAMS_VERSIONS, FakeBroker, here

T0 = TopicPartition("t", 0)
OFFSETS = {T0: OffsetAndMetadata(3)}
NO_GROUP = DescribeGroupsResponse(0, (DescribedGroup(0, "g", "Dead", "", "", ()),))


# ---------------------------------------------------------------------- requests


def consumer(member_id: str, instance: str | None, *partitions: int, kind: int = 1) -> DescribedConsumer:
    assigned = MemberAssignment((PartitionsOfName(b"\1" * 16, "t", partitions),))
    return DescribedConsumer(
        member_id, instance, None, 4, "c", "/10.0.0.1", ("t",), None, assigned, MemberAssignment(()), kind
    )


def group(*members: DescribedConsumer, code: int = 0) -> ConsumerGroupDescribeResponse:
    found = DescribedConsumerGroup(code, None, "g", "Reconciling", 5, 5, "uniform", members, 0)
    return ConsumerGroupDescribeResponse(0, (found,))


def asked(answers: dict[Any, Any], versions: Any = CONSUMER_VERSIONS) -> FakeBroker:
    return FakeBroker({API_VERSIONS: versions, FIND_COORDINATOR: here, **answers})


def queries(broker: FakeBroker) -> ClusterQueries:
    return ClusterQueries({"bootstrap.servers": broker.bootstrap}, ManualClock())


def test_a_group_of_the_consumer_protocol_is_described() -> None:
    """With members of both protocols, as while an application changes to another one."""
    answer = group(consumer("m-1", "i", 0, 2), consumer("m-2", None, kind=0))
    with asked({DESCRIBE_GROUPS: NO_GROUP, CONSUMER_GROUP_DESCRIBE: answer}) as broker:
        asking = queries(broker)
        found = asking.describe_group("g", 5.0)
        asking.close()
    assert (found.state, found.assignor, found.protocol) == ("reconciling", "uniform", "consumer")
    owned = frozenset((T0, TopicPartition("t", 2)))
    assert found.members == (GroupMember("c", "m-1", "i", owned), GroupMember("c", "m-2", None, frozenset()))
    assert [(one.protocol, one.host) for one in found.members] == [("consumer", "10.0.0.1"), ("classic", "10.0.0.1")]


@pytest.mark.parametrize("code", [69, 35])
def test_a_group_that_is_of_no_protocol_is_not_there(code: int) -> None:
    """Also where the brokers know the request, and their feature is off."""
    with asked({DESCRIBE_GROUPS: NO_GROUP, CONSUMER_GROUP_DESCRIBE: group(code=code)}) as broker:
        asking = queries(broker)
        assert asking.describe_group("g", 5.0).state == "dead"
        asking.close()


def test_a_broker_that_knows_no_such_groups_is_asked_for_the_others() -> None:
    with asked({DESCRIBE_GROUPS: NO_GROUP}, STREAMS_VERSIONS) as broker:
        from streams.kafka.wire.streams_groups.messages import (
            STREAMS_GROUP_DESCRIBE,
            DescribedStreamsGroup,
            StreamsGroupDescribeResponse,
        )

        found = DescribedStreamsGroup(0, None, "g", "Empty", 1, 1, None, (), 0)
        broker._answers[STREAMS_GROUP_DESCRIBE.key] = [StreamsGroupDescribeResponse(0, (found,))]
        asking = queries(broker)
        assert asking.describe_group("g", 5.0).protocol == "streams"
        asking.close()


@pytest.mark.parametrize(
    ("in_use", "offered"),
    [
        ({}, {"classic"}),
        ({"group.version": 1}, {"classic", "consumer"}),
        ({"group.version": 0, "streams.version": 1}, {"classic", "streams"}),
    ],
)
def test_the_brokers_offer_the_protocols_whose_features_are_in_use(in_use: dict[str, int], offered: set[str]) -> None:
    features = tuple(FinalizedFeature(name, level, level) for name, level in in_use.items())
    with asked({}, replace(CONSUMER_VERSIONS, finalized_features=features)) as broker:
        asking = queries(broker)
        assert asking.group_protocols(5.0) == offered
        asking.close()


def heartbeat(code: int = 0) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(0, code, None, "m-1", -2, 5000, None)


@pytest.mark.parametrize("code", [0, 25, 69])
def test_a_former_member_is_ended_and_its_instance_id_may_come_back(code: int) -> None:
    """One that is not there any more is fine."""
    member = GroupMember("c", "m-1", "i", frozenset(), protocol="consumer")
    with asked({CONSUMER_GROUP_HEARTBEAT: heartbeat(code)}) as broker:
        release_instance({"bootstrap.servers": broker.bootstrap}, "g", member, clock=ManualClock())
        remove_members({"bootstrap.servers": broker.bootstrap}, "g", [member], clock=ManualClock())
        sent = [(one.member_id, one.member_epoch, one.instance_id) for one in broker.asked(CONSUMER_GROUP_HEARTBEAT)]
    assert sent == [("m-1", -2, "i"), ("m-1", -1, "i")]


@pytest.mark.parametrize("code", [0, 25, 69])
def test_a_former_member_of_a_streams_group_is_ended_in_the_same_way(code: int) -> None:
    member = GroupMember("c", "m-1", "i", frozenset(), protocol="streams")
    answer = StreamsGroupHeartbeatResponse(0, code, None, "m-1", -2, 5000, 0, 0, None, None, None, None, 0, None)
    with asked({STREAMS_GROUP_HEARTBEAT: answer}, STREAMS_VERSIONS) as broker:
        release_instance({"bootstrap.servers": broker.bootstrap}, "g", member, clock=ManualClock())
        remove_members({"bootstrap.servers": broker.bootstrap}, "g", [member], clock=ManualClock())
        sent = [(one.member_id, one.member_epoch, one.instance_id) for one in broker.asked(STREAMS_GROUP_HEARTBEAT)]
    assert sent == [("m-1", -2, "i"), ("m-1", -1, "i")]


def test_what_the_brokers_refuse_is_said_with_what_follows() -> None:
    member = GroupMember("c", "m-1", "i", frozenset(), protocol="consumer")
    text = r"^the membership of static member 'i' in group 'g' cannot be taken over before its session ends: GROUP_AUTH"
    with asked({CONSUMER_GROUP_HEARTBEAT: heartbeat(30)}) as broker, pytest.raises(StreamsError, match=text):
        release_instance({"bootstrap.servers": broker.bootstrap}, "g", member, clock=ManualClock())


# ---------------------------------------------------------------------- the embedded broker


class Listener:
    def __init__(self) -> None:
        self.calls: list[tuple[str, set[int]]] = []

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(("assigned", {one.partition for one in partitions}))

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(("revoked", {one.partition for one in partitions}))

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(("lost", {one.partition for one in partitions}))


@pytest.fixture
def clients() -> EmbeddedClients:
    broker = EmbeddedBroker(ManualClock())
    broker.create_topic("t", 2)
    return EmbeddedClients(broker)


def join(clients: EmbeddedClients, instance: str | None = None, protocol: str = "consumer") -> tuple[Any, Listener]:
    listener = Listener()
    made = clients.consumer({"group.id": "g", "group.instance.id": instance, "group.protocol": protocol})
    made.subscribe(["t"], listener)
    return made, listener


def test_a_member_commits_by_its_own_epoch(clients: EmbeddedClients) -> None:
    """A rebalance that it has not taken part in yet leaves it a member; an older epoch of its own is refused."""
    one, _ = join(clients)
    one.poll(0)
    old = one.group_metadata()
    two, _ = join(clients)
    two.poll(0)
    one.commit(OFFSETS)
    one.poll(0)
    one.commit(OFFSETS)
    assert one.group_metadata().generation > old.generation
    producer = clients.producer({"transactional.id": "p"})
    producer.init_transactions()
    producer.begin_transaction()
    with pytest.raises(TransactionAborted, match="STALE_MEMBER_EPOCH"):
        producer.send_offsets(OFFSETS, old)


def test_an_instance_id_is_its_members_until_that_has_ended(clients: EmbeddedClients) -> None:
    """Where it was closed it comes back to its partitions; where it was killed its place has to be taken over."""
    one, _ = join(clients, "one")
    one.poll(0)
    second, _ = join(clients, "one")
    with pytest.raises(TaskMigratedError, match="UNRELEASED_INSTANCE_ID"):
        second.poll(0)
    (member,) = clients.admin({}).group_members("g")
    clients.admin({}).release_instance("g", member)
    with pytest.raises(CommitAgain):
        one.commit(OFFSETS)
    second, listener = join(clients, "one")
    second.poll(0)
    assert listener.calls == [("assigned", {0, 1})]
    for call in (lambda: one.commit(OFFSETS), lambda: one.poll(0)):
        with pytest.raises(InstanceFenced):
            call()
    second.close()
    third, listener = join(clients, "one")
    third.poll(0)
    assert listener.calls == [("assigned", {0, 1})]


def had_place(member_id: str | None) -> FormerMembers:
    assert member_id is not None
    return FormerMembers({member_id}, had_place=True)


def test_a_member_whose_place_nobody_took_joins_again(clients: EmbeddedClients) -> None:
    one, listener = join(clients, "one")
    one.poll(0)
    (member,) = clients.admin({}).group_members("g")
    clients.admin({}).release_instance("g", member)
    one.poll(0)
    one.poll(0)
    assert listener.calls == [("assigned", {0, 1}), ("lost", {0, 1}), ("assigned", {0, 1})]


def test_a_member_whose_epoch_is_behind_is_refused_until_its_place_is_taken_over(clients: EmbeddedClients) -> None:
    """Answers to it were lost. Its instance id is still its own, so that it is not let in by its own id (4.3.1)."""
    one, listener = join(clients, "one")
    one.poll(0)
    assert one.fall_behind()
    with pytest.raises(CommitAgain):
        one.commit(OFFSETS)
    for _ in range(2):
        with pytest.raises(TaskMigratedError, match="UNRELEASED_INSTANCE_ID"):
            one.poll(0)
    GroupEntry(clients.admin({}), ManualClock(), "one", had_place(one.member_id())).wait(GROUP, SYSTEM_THREADS.event())
    one.poll(0)
    assert listener.calls == [("assigned", {0, 1}), ("lost", {0, 1}), ("assigned", {0, 1})]


def test_a_member_joins_no_classic_group_and_a_classic_one_joins_its_group(clients: EmbeddedClients) -> None:
    classic, _ = join(clients, "one", "classic")
    classic.poll(0)
    refused, _ = join(clients, "two")
    with pytest.raises(TaskMigratedError, match="has classic members: GROUP_ID_NOT_FOUND"):
        refused.poll(0)
    clients.leave_group({}, "g", "one")
    refused.poll(0)
    back, _ = join(clients, "one", "classic")
    for _ in range(3):
        back.poll(0)
        refused.poll(0)
    found = clients.admin({}).describe_group("g")
    assert (found.protocol, found.assignor, {one.protocol for one in found.members}) == (
        "consumer",
        "uniform",
        {"classic", "consumer"},
    )
    back.commit(OFFSETS)
    refused.commit(OFFSETS)


def test_the_session_is_the_brokers(clients: EmbeddedClients) -> None:
    clients.broker.groups.consumer_session_s = 20.0
    made = clients.consumer({"group.id": "g", "group.protocol": "consumer", "session.timeout.ms": 5000})
    made.subscribe(["t"], Listener())
    made.poll(0)
    clients.broker.clock.advance(19_000)
    assert len(clients.admin({}).group_members("g")) == 1
    clients.broker.clock.advance(1_000)
    assert clients.admin({}).group_members("g") == []


def test_a_group_is_at_rest_when_no_task_moves(clients: EmbeddedClients) -> None:
    """Members show what they own meanwhile, without what they are giving up."""
    admin = clients.admin({})
    topics = ControlTopics(admin, GROUP)
    topics.create()

    def member() -> Any:
        made = clients.consumer(
            {"group.id": "g", "client.id": f"c-topology-{GROUP.hash}", "group.protocol": "consumer"}
        )
        made.subscribe(topics.names, Listener())
        return made

    one, two = member(), member()
    one.poll(0)
    assert read_picture(admin, topics).is_at_rest
    two.poll(0)
    assert not read_picture(admin, topics).is_at_rest
    for _ in range(3):
        one.poll(0)
        two.poll(0)
    picture = read_picture(admin, topics)
    assert (picture.is_at_rest, sorted(map(len, picture.held.values()))) == (True, [1, 1])


# ---------------------------------------------------------------------- entering a group

GROUP = GroupTopology("g", "g", {0: 2}, "0" * 8)


class Stopping:
    """Asks the thread to end at the second look, so that a wait is one turn."""

    def __init__(self) -> None:
        self.looks = 0

    def is_set(self) -> bool:
        self.looks += 1
        return self.looks > 1


def enter(clients: EmbeddedClients, instance: str) -> GroupEntry:
    entry = GroupEntry(clients.admin({}), ManualClock(), instance)
    entry.wait(GROUP, Stopping())  # type: ignore[arg-type]
    return entry


def test_a_thread_takes_the_place_of_its_killed_member(
    clients: EmbeddedClients, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    killed, _ = join(clients, "one")
    killed.poll(0)
    assert not enter(clients, "one").waits
    assert caplog.messages == ["takes the place of its former member in the group"]
    again, listener = join(clients, "one")
    again.poll(0)
    assert listener.calls == [("assigned", {0, 1})]


def test_a_thread_that_had_no_place_takes_it_from_a_member_that_is_found_late(clients: EmbeddedClients) -> None:
    """Its process was killed as it joined, and the coordinator read that when the next process had looked."""
    killed, _ = join(clients, "one")
    again, listener = join(clients, "one")
    killed.poll(0)
    with pytest.raises(TaskMigratedError, match="UNRELEASED_INSTANCE_ID"):
        again.poll(0)
    former = FormerMembers({str(again.member_id())})
    GroupEntry(clients.admin({}), ManualClock(), "one", former).wait(GROUP, SYSTEM_THREADS.event())
    again.poll(0)
    assert listener.calls == [("assigned", {0, 1})]


def test_a_thread_that_had_a_place_takes_none_from_another_process(clients: EmbeddedClients) -> None:
    """Else two with the same instance id would take it from each other without end. A member that it was itself, such
    as one of a client that was given up, is ended."""
    other, _ = join(clients, "one")
    other.poll(0)
    entry = GroupEntry(clients.admin({}), ManualClock(), "one", had_place("former"))
    with pytest.raises(InstanceFenced, match="give each process a state"):
        entry.wait(GROUP, SYSTEM_THREADS.event())
    GroupEntry(clients.admin({}), ManualClock(), "one", had_place(other.member_id())).wait(
        GROUP, SYSTEM_THREADS.event()
    )
    (member,) = clients.admin({}).group_members("g")
    assert member.has_left


def test_a_thread_waits_for_classic_members_but_not_for_its_own(
    clients: EmbeddedClients, caplog: pytest.LogCaptureFixture
) -> None:
    own, _ = join(clients, "one", "classic")
    other, _ = join(clients, "two", "classic")
    own.poll(0)
    other.poll(0)
    assert enter(clients, "one").waits
    assert caplog.messages[0].startswith("waiting: the application has members with group.protocol=classic, and")
    clients.leave_group({}, "g", "two")
    assert not enter(clients, "one").waits
    assert clients.admin({}).group_members("g") == []


def test_a_thread_of_the_streams_protocol_leaves_a_classic_group_to_the_brokers(clients: EmbeddedClients) -> None:
    """These refuse its join, which is logged; its own former member there is the classic protocol's."""
    own, _ = join(clients, "one", "classic")
    other, _ = join(clients, "two", "classic")
    own.poll(0)
    other.poll(0)
    entry = GroupEntry(clients.admin({}), ManualClock(), "one", protocol="streams")
    entry.wait(GROUP, SYSTEM_THREADS.event())
    assert not entry.waits
    assert len(clients.admin({}).group_members("g")) == 2


def test_a_place_that_cannot_be_taken_over_is_said(clients: EmbeddedClients, caplog: pytest.LogCaptureFixture) -> None:
    """Such as where our own connection has no login; the group has the place until the session ends."""
    killed, _ = join(clients, "one")
    killed.poll(0)

    class Refusing:
        def __init__(self, admin: Any) -> None:
            self.describe_group = admin.describe_group

        def release_instance(self, group: str, member: GroupMember) -> None:
            raise ConfigError("a login by Kerberos")

    entry = GroupEntry(Refusing(clients.admin({})), ManualClock(), "one")  # type: ignore[arg-type]
    entry.wait(GROUP, SYSTEM_THREADS.event())
    assert caplog.messages == ["this thread joins when the session of its former member has ended"]


# ---------------------------------------------------------------------- the choice


def configured(protocol: str, **settings: Any) -> StreamsConfig:
    return StreamsConfig.of({"application.id": "g", "bootstrap.servers": "h:1", "group.protocol": protocol, **settings})


def test_settings_that_the_client_refuses_stay_out_of_the_consumer() -> None:
    given = configured("consumer", **{"session.timeout.ms": 9000, "heartbeat.interval.ms": 3000})
    made = client_configs.main_consumer(given, "c", "i")
    assert made["group.protocol"] == "consumer"
    assert not {"session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"} & made.keys()


@pytest.mark.parametrize(
    ("given", "offered", "others", "chosen"),
    [
        ("auto", {"classic", "consumer"}, None, "consumer"),
        ("auto", {"classic"}, None, "classic"),
        ("auto", {"classic", "consumer"}, "classic", "classic"),
        ("auto", {"classic", "consumer"}, "consumer", "consumer"),
        ("consumer", {"classic", "consumer"}, "classic", "consumer"),
        ("classic", {"classic", "consumer"}, None, "classic"),
    ],
)
def test_the_protocol_is_decided_once(
    clients: EmbeddedClients,
    caplog: pytest.LogCaptureFixture,
    given: str,
    offered: set[str],
    others: str | None,
    chosen: str,
) -> None:
    caplog.set_level(logging.INFO)
    clients.broker.groups.protocols = offered
    if others is not None:
        member, _ = join(clients, "other", others)
        member.poll(0)
    assert with_group_protocol(configured(given), clients.admin({})).group_protocol == chosen
    said = [record.protocol for record in caplog.records]  # type: ignore[attr-defined]
    assert said == ([chosen] if given == "auto" else [])


def test_brokers_without_the_protocol_are_refused_with_what_to_do(clients: EmbeddedClients) -> None:
    clients.broker.groups.protocols = {"classic"}
    with pytest.raises(ConfigError, match=r"group\.protocol=consumer needs brokers of Kafka 4\.0 or later") as caught:
        with_group_protocol(configured("consumer"), clients.admin({}))
    assert not isinstance(caught.value, RetryableError)
