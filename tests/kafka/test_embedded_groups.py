"""Groups of the embedded broker: members come, go and are slow in any order."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processor_api.clock import ManualClock
from processor_api.errors import TaskMigratedError
from processor_api.task_id import TopicPartition
from streams.kafka.ports import CommitAgain, OffsetAndMetadata, TransactionAborted
from streams.testing.broker import EmbeddedBroker, EmbeddedClients
from streams.testing.broker.groups import Group, Member, Step

COUNTS = {"t": 4, "u": 3}
OPERATIONS = st.one_of(
    st.tuples(st.just("join"), st.sampled_from([None, None, "one", "two"]), st.sampled_from([("t",), ("t", "u")])),
    st.tuples(st.just("step"), st.integers(0, 9)),
    st.tuples(st.just("step"), st.integers(0, 9)),
    st.tuples(st.just("leave"), st.integers(0, 9)),
)


class Walk:
    """Members of one group that take their steps one at a time, as slow listeners do."""

    def __init__(self) -> None:
        self.group = Group("g", lambda: COUNTS)
        self.revoking: dict[str, Step] = {}
        self.joined = 0

    def apply(self, operation: tuple) -> None:
        members = sorted(self.group.members.values(), key=lambda member: member.member_id)
        match operation:
            case ("join", instance, topics):
                self.joined += 1
                self.group.join(Member(f"m{self.joined}", "c", instance, topics, 10), 0)
            case ("step", number) if members:
                self.step(members[number % len(members)])
            case ("leave", number) if members:
                self.group.leave(members[number % len(members)])

    def step(self, member: Member) -> bool:
        """Ends the revocation under way, or takes the next step."""
        revoking = self.revoking.pop(member.member_id, None)
        if revoking is not None:
            self.group.revoked(member, revoking.partitions)
            return True
        step = self.group.next_step(member)
        if step is not None and step.kind == "revoke":
            self.revoking[member.member_id] = step
        return step is not None

    def check(self) -> None:
        owners = Counter(partition for member in self.group.members.values() for partition in member.owned)
        assert all(count == 1 for count in owners.values())


@settings(max_examples=300)
@given(st.lists(OPERATIONS, max_size=40))
def test_no_partition_is_owned_twice_and_all_come_to_rest(operations: list) -> None:
    """After every step each partition has one owner at most; when all have taken their steps each has its target, and
    all partitions of the topics subscribed are owned."""
    walk = Walk()
    for operation in operations:
        walk.apply(operation)
        walk.check()
    for _ in range(100):
        if not sum(walk.step(member) for member in list(walk.group.members.values())):
            break
        walk.check()
    else:
        raise AssertionError("the group never comes to rest")
    members = walk.group.members.values()
    assert all(member.owned == member.target for member in members)
    topics = {topic for member in members for topic in member.topics}
    owned = {partition for member in members for partition in member.owned}
    assert owned == {TopicPartition(topic, p) for topic in topics for p in range(COUNTS[topic])}


def test_a_static_member_replaced_while_it_gives_up() -> None:
    """What the replaced member owned beyond its target is free at once for the member that waits for it."""
    walk = Walk()
    walk.apply(("join", "one", ("t",)))
    (first,) = walk.group.members.values()
    walk.step(first)
    walk.apply(("join", None, ("t",)))
    second = walk.group.members["m2"]
    walk.step(second)
    assert second.owned < second.target
    walk.apply(("join", "one", ("t",)))
    while any(walk.step(member) for member in walk.group.members.values()):
        walk.check()
    assert len(second.owned) == 2
    assert second.owned == second.target


class Listener:
    def __init__(self) -> None:
        self.calls: list[tuple[str, set[int]]] = []

    def on_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self.calls.append(("assigned", {p.partition for p in partitions}))

    def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self.calls.append(("revoked", {p.partition for p in partitions}))

    def on_lost(self, partitions: frozenset[TopicPartition]) -> None:
        self.calls.append(("lost", {p.partition for p in partitions}))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


@pytest.fixture
def clients(clock: ManualClock) -> EmbeddedClients:
    broker = EmbeddedBroker(clock, blocking=False)
    broker.create_topic("t", 2)
    return EmbeddedClients(broker)


OFFSETS = {TopicPartition("t", 0): OffsetAndMetadata(1)}


def test_an_empty_assignment_is_told_too(clients: EmbeddedClients) -> None:
    """As with librdkafka every round ends in ``on_assigned``, of nothing when nothing came."""
    first, second = Listener(), Listener()
    one, two = clients.consumer({"group.id": "g"}), clients.consumer({"group.id": "g"})
    one.subscribe(["t"], first)
    one.poll(0)
    two.subscribe(["t"], second)
    for consumer in (two, one, two):
        consumer.poll(0)
    assert first.calls == [("assigned", {0, 1}), ("revoked", {1}), ("assigned", set())]
    assert second.calls == [("assigned", set()), ("assigned", {1})]


def test_a_commit_before_the_poll_that_brings_the_new_generation(clients: EmbeddedClients) -> None:
    """CommitAgain until the member has polled; a transaction's offsets abort it."""
    one, two = clients.consumer({"group.id": "g"}), clients.consumer({"group.id": "g"})
    one.subscribe(["t"], Listener())
    one.poll(0)
    one.commit(OFFSETS)
    two.subscribe(["t"], Listener())
    two.poll(0)
    with pytest.raises(CommitAgain, match="group 'g' is in a rebalance"):
        one.commit(OFFSETS)
    producer = clients.producer({"transactional.id": "x"})
    producer.init_transactions()
    producer.begin_transaction()
    with pytest.raises(TransactionAborted, match="ILLEGAL_GENERATION"):
        producer.send_offsets(OFFSETS, one.group_metadata())
    one.poll(0)
    one.commit(OFFSETS)


def test_a_commit_while_partitions_are_revoked_and_another_joins(clients: EmbeddedClients) -> None:
    """The group waits for a member inside ``on_revoked``: its commit is accepted whoever joins meanwhile."""
    one, two, three = (clients.consumer({"group.id": "g"}) for _ in range(3))
    producer = clients.producer({"transactional.id": "x"})
    producer.init_transactions()

    class Commits(Listener):
        def on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
            super().on_revoked(partitions)
            three.subscribe(["t"], Listener())
            three.poll(0)
            one.commit(OFFSETS)
            producer.begin_transaction()
            producer.send_offsets({TopicPartition("t", 1): OffsetAndMetadata(2)}, one.group_metadata())
            producer.commit_transaction()

    listener = Commits()
    one.subscribe(["t"], listener)
    one.poll(0)
    two.subscribe(["t"], Listener())
    two.poll(0)
    one.poll(0)
    assert ("revoked", {1}) in listener.calls
    partitions = [TopicPartition("t", p) for p in (0, 1)]
    assert [committed.offset for committed in one.committed(partitions).values()] == [1, 2]


def test_a_session_ends_by_the_clock(clients: EmbeddedClients, clock: ManualClock) -> None:
    """A member that makes no call for its session timeout is out: others get its partitions, it is told the loss."""
    listener = Listener()
    slow, other = (clients.consumer({"group.id": "g", "session.timeout.ms": 10_000}) for _ in range(2))
    slow.subscribe(["t"], listener)
    slow.poll(0)
    clock.advance(9_000)
    slow.poll(0)
    clock.advance(9_000)
    assert len(clients.admin({}).group_members("g")) == 1
    clock.advance(1_000)
    assert clients.admin({}).group_members("g") == []
    with pytest.raises(TaskMigratedError, match="no longer in group 'g': UNKNOWN_MEMBER_ID"):
        slow.commit(OFFSETS)
    other_listener = Listener()
    other.subscribe(["t"], other_listener)
    other.poll(0)
    assert other_listener.calls == [("assigned", {0, 1})]
    slow.poll(0)
    assert listener.calls == [("assigned", {0, 1}), ("lost", {0, 1}), ("assigned", set())]


def test_a_commit_keeps_the_session(clients: EmbeddedClients, clock: ManualClock) -> None:
    """A commit is a sign of life."""
    consumer = clients.consumer({"group.id": "g", "session.timeout.ms": 10_000})
    listener = Listener()
    consumer.subscribe(["t"], listener)
    consumer.poll(0)
    for _ in range(3):
        clock.advance(9_000)
        consumer.commit(OFFSETS)
        assert len(clients.admin({}).group_members("g")) == 1
    consumer.poll(0)
    assert listener.calls == [("assigned", {0, 1})]


def test_a_static_member_can_be_removed(clients: EmbeddedClients) -> None:
    """``leave_group`` frees the partitions of a static member that closed for good."""
    gone, stays = Listener(), Listener()
    one, two = (clients.consumer({"group.id": "g", "group.instance.id": i}) for i in ("one", "two"))
    one.subscribe(["t"], gone)
    two.subscribe(["t"], stays)
    for _ in range(3):
        one.poll(0)
        two.poll(0)
    one.close()
    two.poll(0)
    assert len(clients.admin({}).group_members("g")) == 2
    clients.broker.leave_group("g", "one")
    clients.broker.leave_group("g", "nobody")
    two.poll(0)
    (member,) = clients.admin({}).group_members("g")
    assert member.partitions == {TopicPartition("t", 0), TopicPartition("t", 1)}


def test_a_fenced_static_member_stays_fenced(clients: EmbeddedClients) -> None:
    """Each call of the replaced consumer raises; closing it does not disturb its replacement."""
    old, new = Listener(), Listener()
    one, two = (clients.consumer({"group.id": "g", "group.instance.id": "one"}) for _ in range(2))
    one.subscribe(["t"], old)
    one.poll(0)
    two.subscribe(["t"], new)
    two.poll(0)
    assert new.calls == [("assigned", {0, 1})]
    for call in (lambda: one.poll(0), lambda: one.commit(OFFSETS), lambda: one.consume(5, 0)):
        with pytest.raises(TaskMigratedError, match=r"a newer consumer of group 'g' has group\.instance\.id 'one'"):
            call()
    one.close()
    assert old.calls == [("assigned", {0, 1}), ("lost", {0, 1})]
    two.poll(0)
    two.commit(OFFSETS)


def test_missing_topics_are_told_once_each(clients: EmbeddedClients) -> None:
    """One event each, one message at a time, and again only after the topic was there."""
    consumer = clients.consumer({"group.id": "g"})
    consumer.subscribe(["u", "t", "v"], Listener())
    events = [consumer.poll(0) for _ in range(3)]
    assert [event and (event.topic(), event.error().name()) for event in events] == [
        ("u", "UNKNOWN_TOPIC_OR_PART"),
        ("v", "UNKNOWN_TOPIC_OR_PART"),
        None,
    ]
    clients.broker.create_topic("v")
    assert consumer.poll(0) is None
    clients.broker.delete_topic("v")
    assert [event.topic() for event in consumer.consume(5, 0)] == ["v"]


def test_a_topic_created_later_is_given_out(clients: EmbeddedClients) -> None:
    """A subscribed topic that comes into being, or goes, starts a round."""
    listener = Listener()
    consumer = clients.consumer({"group.id": "g"})
    consumer.subscribe(["later"], listener)
    consumer.poll(0)
    clients.broker.create_topic("later", 1)
    consumer.poll(0)
    clients.broker.delete_topic("later")
    consumer.poll(0)
    assert listener.calls == [
        ("assigned", set()),
        ("assigned", {0}),
        ("revoked", {0}),
        ("assigned", set()),
    ]
