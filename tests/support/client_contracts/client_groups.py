"""The contract of consumer groups: ownership, which members may commit, static members."""

from __future__ import annotations

import faulthandler
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from client_contracts.client_kit import Cluster, contents, raises, read, send
from processor_api.errors import TaskMigratedError
from processor_api.task_id import TopicPartition
from streams.kafka.ports import (
    AT_BEGINNING,
    CommitAgain,
    Consumer,
    GroupHasMembers,
    InstanceFenced,
    NewTopic,
    OffsetAndMetadata,
    PartlyCommitted,
    TransactionAborted,
)

__all__ = ["GroupContract", "Worker"]

Owners = dict[TopicPartition, "Worker"]


class Worker:
    """A member of a group that keeps the calls of its listener; several share one table of owners."""

    def __init__(self, consumer: Consumer, topics: Collection[str], owners: Owners) -> None:
        self.consumer = consumer
        self.calls: list[tuple[str, frozenset[TopicPartition]]] = []
        """The calls of the listener, without assignments of no partitions."""
        self.faults: list[str] = []
        self.on_revoke: Callable[[Collection[TopicPartition]], None] = lambda partitions: None
        self.on_assign: Callable[[Collection[TopicPartition]], None] = lambda partitions: None
        self._owners = owners
        self._inside = 0
        consumer.subscribe(topics, self)

    @property
    def owned(self) -> set[TopicPartition]:
        return {partition for partition, owner in list(self._owners.items()) if owner is self}

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Returns a context in which the listener may be called, on this thread."""
        self._inside = threading.get_ident()
        try:
            yield
        finally:
            self._inside = 0

    def poll(self) -> Any:
        with self.inside():
            return self.consumer.poll(0.05)

    @contextmanager
    def polled(self) -> Iterator[None]:
        """Returns a context in which a thread of its own polls the member, as another process would."""
        done = threading.Event()

        def poll() -> None:
            while not done.is_set():
                self.poll()

        thread = threading.Thread(target=poll)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def close(self) -> None:
        with self.inside():
            self.consumer.close()

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self._note("assigned", partitions)
        for partition in partitions:
            if partition in self._owners:
                self.faults.append(f"{partition} was given out while it was owned")
            self._owners[partition] = self
        self._guarded(self.on_assign, partitions)

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self._note("revoked", partitions)
        self._guarded(self.on_revoke, partitions)
        self._forget(partitions)

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        self._note("lost", partitions)
        self._forget(partitions)

    def _note(self, what: str, partitions: Collection[TopicPartition]) -> None:
        if partitions:
            self.calls.append((what, frozenset(partitions)))
        if threading.get_ident() != self._inside:
            self.faults.append(f"{what} was called outside consume, poll and close")

    def _guarded(
        self, call: Callable[[Collection[TopicPartition]], None], partitions: Collection[TopicPartition]
    ) -> None:
        try:
            call(partitions)
        except Exception as error:
            self.faults.append(repr(error))

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            if self._owners.get(partition) is self:
                del self._owners[partition]


class GroupContract:
    """Every partition is owned by one member at most, and only members commit."""

    cluster: Cluster

    def worker(self, group: str, topics: Sequence[str], owners: Owners, **settings: Any) -> Worker:
        return Worker(self.cluster.consumer(group_id=group, **settings), topics, owners)

    def poll_until_owned(self, workers: Sequence[Worker], counts: Sequence[int]) -> None:
        """Polls until the members own these numbers of partitions, in any order, and checks the calls of their
        listeners."""

        def attempt() -> bool:
            for worker in workers:
                event = worker.poll()
                # A client may not know a topic yet that was just created.
                assert event is None or event.error().name() == "UNKNOWN_TOPIC_OR_PART"
            return sorted(len(worker.owned) for worker in workers) == sorted(counts)

        self.cluster.until(f"the members own {list(counts)} partitions", attempt)
        assert [worker.faults for worker in workers] == [[] for _ in workers]

    def commit(self, worker: Worker, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Commits as a worker does: once more after a poll when a rebalance is in progress."""

        def attempt() -> bool:
            try:
                worker.consumer.commit(offsets)
            except CommitAgain:
                worker.poll()
                return False
            return True

        self.cluster.until("a commit was accepted", attempt)

    def test_a_lone_member_owns_everything(self) -> None:
        """The listener is given all partitions of all topics subscribed."""
        topics = [self.cluster.topic(2), self.cluster.topic(3)]
        worker = self.worker(self.cluster.name("group"), topics, {})
        self.poll_until_owned([worker], [5])
        assert worker.owned == {TopicPartition(t, p) for t, n in zip(topics, (2, 3), strict=True) for p in range(n)}

    def test_owned_partitions_are_not_fetched_by_themselves(self) -> None:
        """Only what is assigned is read, be it of a subscribed topic or not."""
        topic, other = self.cluster.topic(2), self.cluster.topic()
        producer = self.cluster.producer()
        send(producer, topic, b"unasked", partition=0)
        send(producer, topic, b"asked", partition=1)
        send(producer, other, b"other")
        producer.flush()
        worker = self.worker(self.cluster.name("group"), [topic], {}, enable_partition_eof=False)
        self.poll_until_owned([worker], [2])
        assert worker.consumer.assignment() == frozenset()
        worker.consumer.assign({TopicPartition(topic, 1): 0, TopicPartition(other, 0): 0})
        with worker.inside():
            assert sorted(contents(read(self.cluster.until, worker.consumer, 2))) == [b"asked", b"other"]

    def test_members_share_and_nothing_is_owned_twice(self) -> None:
        """Each partition is revoked by its owner before another gets it when members come and go, shares are even, and
        only partitions that must move do."""
        topic, group, owners = self.cluster.topic(6), self.cluster.name("group"), Owners()
        first = self.worker(group, [topic], owners)
        self.poll_until_owned([first], [6])
        second = self.worker(group, [topic], owners)
        self.poll_until_owned([first, second], [3, 3])
        before = [first.owned, second.owned]
        third = self.worker(group, [topic], owners)
        self.poll_until_owned([first, second, third], [2, 2, 2])
        assert first.owned < before[0]
        assert second.owned < before[1]
        kept = [second.owned, third.owned]
        first.close()
        self.poll_until_owned([second, third], [3, 3])
        assert second.owned > kept[0]
        assert third.owned > kept[1]
        assert first.faults == []
        assert first.calls[-1][0] == "revoked"

    def test_a_member_that_reads_others_has_not_answered_a_rebalance(self) -> None:
        """Partitions are owned until the listener was called, whatever the member reads before that."""
        topic, read, group, owners = self.cluster.topic(4), self.cluster.topic(60), self.cluster.name("group"), Owners()
        first = self.worker(group, [topic], owners, enable_partition_eof=False)
        self.poll_until_owned([first], [4])
        always = TopicPartition(read, 59)
        first.consumer.assign({always: 0, TopicPartition(read, 0): 0})
        first.poll()
        second = self.worker(group, [topic], owners)
        for number in range(58):  # the member hears of the rebalance between two of these
            second.poll()
            first.consumer.unassign([TopicPartition(read, number)])
            first.consumer.assign({TopicPartition(read, number + 1): 0})
        assert (first.faults, second.faults, second.owned) == ([], [], set())
        assert first.consumer.assignment() == {always, TopicPartition(read, 58)}
        self.poll_until_owned([first, second], [2, 2])

    def test_a_member_whose_position_left_the_log_continues_at_its_beginning(self) -> None:
        """With ``auto.offset.reset=earliest`` it does so by itself, below the log and beyond it, and can seek from
        there; the start of the log shows that records are gone."""
        owned, inputs = self.cluster.topic(), self.cluster.topic(2)
        deleted, beyond = TopicPartition(inputs, 0), TopicPartition(inputs, 1)
        producer = self.cluster.producer()
        for partition in (deleted, beyond):
            send(producer, inputs, *(b"%d" % number for number in range(10)), partition=partition.partition)
        producer.flush()
        self.cluster.admin.delete_records({deleted: 6})
        member = self.worker(
            self.cluster.name("group"), [owned], {}, enable_partition_eof=False, auto_offset_reset="earliest"
        )
        self.poll_until_owned([member], [1])
        consumer = member.consumer

        def offsets(count: int) -> list[int]:
            with member.inside():
                return [message.offset() for message in read(self.cluster.until, consumer, count)]

        assert consumer.log_start(deleted) is None
        consumer.assign({deleted: 2})
        assert offsets(4) == [6, 7, 8, 9]
        assert consumer.log_start(deleted) == 6
        consumer.assign({beyond: 50})
        assert offsets(10) == list(range(10))
        assert consumer.log_start(beyond) == 0
        consumer.seek(deleted, 8)
        assert offsets(2) == [8, 9]
        consumer.unassign([deleted])
        consumer.assign({deleted: 7})
        assert offsets(3) == [7, 8, 9]

    def test_a_member_does_not_read_a_partition_again_that_its_client_has_stopped(self) -> None:
        """With ``auto.offset.reset=error`` the client stops it at a position outside of the log, and nothing that a
        member may do starts it again before the next revocation."""
        owned, inputs = self.cluster.topic(), self.cluster.topic()
        place = TopicPartition(inputs, 0)
        producer = self.cluster.producer()
        send(producer, inputs, *(b"%d" % number for number in range(10)))
        producer.flush()
        self.cluster.admin.delete_records({place: 6})
        member = self.worker(self.cluster.name("group"), [owned], {}, enable_partition_eof=False)
        self.poll_until_owned([member], [1])
        consumer = member.consumer
        consumer.assign({place: 2})
        with member.inside():
            event = self.cluster.until("the position is lost", lambda: consumer.poll(0.1))
            assert event.error().name() == "_AUTO_OFFSET_RESET"
            consumer.unassign([place])
            consumer.assign({place: 6})
            assert [consumer.poll(0.1) for _ in range(10)] == [None] * 10

    def test_partitions_that_a_member_has_left_are_read_again(self) -> None:
        """From any offset, before and after a rebalance, and where their first fetch has not begun."""
        topic, inputs, group, owners = (
            self.cluster.topic(4),
            self.cluster.topic(2),
            self.cluster.name("group"),
            Owners(),
        )
        one, other = TopicPartition(inputs, 0), TopicPartition(inputs, 1)
        producer = self.cluster.producer()
        for partition in (0, 1):
            for number in range(5):
                send(producer, inputs, b"%d-%d" % (partition, number), partition=partition)
        producer.flush()
        first = self.worker(group, [topic], owners, enable_partition_eof=False)
        self.poll_until_owned([first], [4])
        consumer = first.consumer

        def found(count: int) -> list[bytes | None]:
            with first.inside():
                return sorted(contents(read(self.cluster.until, consumer, count)))

        consumer.assign({one: 3, other: 3})
        assert found(4) == [b"0-3", b"0-4", b"1-3", b"1-4"]
        consumer.unassign([one])
        consumer.assign({one: 1})
        consumer.unassign([one, other])
        consumer.assign({one: 4, other: 2})
        assert found(4) == [b"0-4", b"1-2", b"1-3", b"1-4"]
        consumer.unassign([one, other])
        consumer.assign({one: AT_BEGINNING})
        assert found(5) == [b"0-0", b"0-1", b"0-2", b"0-3", b"0-4"]
        assert consumer.position(one) == 5
        second = self.worker(group, [topic], owners)
        self.poll_until_owned([first, second], [2, 2])
        consumer.unassign([one])
        consumer.assign({other: 4, one: 4})
        assert found(2) == [b"0-4", b"1-4"]
        assert consumer.assignment() == {one, other}
        assert first.faults == []

    def test_groups_do_not_know_each_other(self) -> None:
        """Members of two groups each own all partitions."""
        topic = self.cluster.topic(3)
        one = self.worker(self.cluster.name("group"), [topic], {})
        two = self.worker(self.cluster.name("group"), [topic], {})
        self.poll_until_owned([one, two], [3, 3])

    def test_a_member_may_subscribe_to_other_topics(self) -> None:
        """A later subscribe changes what is owned."""
        old, new = self.cluster.topic(2), self.cluster.topic(3)
        worker = self.worker(self.cluster.name("group"), [old], {})
        self.poll_until_owned([worker], [2])
        worker.consumer.subscribe([old, new], worker)
        self.poll_until_owned([worker], [5])
        worker.consumer.subscribe([new], worker)
        self.poll_until_owned([worker], [3])
        assert {partition.topic for partition in worker.owned} == {new}

    def test_a_subscribed_topic_may_come_later(self) -> None:
        """A topic that does not exist is reported by an event, and assigned when it was created."""
        topic, later = self.cluster.topic(), self.cluster.name("later")
        group = self.cluster.name("group")
        worker = self.worker(group, [topic, later], {})
        event = self.cluster.until("the missing topic is reported", worker.poll)
        assert event.topic() == later
        assert event.error().name() == "UNKNOWN_TOPIC_OR_PART"
        self.poll_until_owned([worker], [1])
        self.cluster.admin.create_topics([NewTopic(name=later, partitions=2)])
        self.poll_until_owned([worker], [3])

    def test_offsets_can_be_committed_while_partitions_are_revoked(self) -> None:
        """Partitions are still owned inside ``on_revoked``; the next owner finds the commit in ``on_assigned``."""
        topic, group, owners = self.cluster.topic(4), self.cluster.name("group"), Owners()
        first = self.worker(group, [topic], owners)
        self.poll_until_owned([first], [4])
        first.on_revoke = lambda partitions: first.consumer.commit(
            {p: OffsetAndMetadata(7, "revoked") for p in partitions}
        )
        second = self.worker(group, [topic], owners)
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        second.on_assign = lambda partitions: found.update(second.consumer.committed(list(partitions)))
        self.poll_until_owned([first, second], [2, 2])
        assert found == dict.fromkeys(second.owned, OffsetAndMetadata(7, "revoked"))

    def test_offsets_can_be_committed_while_closing(self) -> None:
        """Calling ``close`` revokes what is owned, with a last chance to commit."""
        topic, group = self.cluster.topic(2), self.cluster.name("group")
        worker = self.worker(group, [topic], {})
        self.poll_until_owned([worker], [2])
        owned = worker.owned
        worker.on_revoke = lambda partitions: worker.consumer.commit({p: OffsetAndMetadata(9) for p in partitions})
        worker.close()
        assert worker.faults == []
        assert worker.calls[-1] == ("revoked", frozenset(owned))
        expected = dict.fromkeys(owned, OffsetAndMetadata(9))
        assert self.cluster.consumer(group_id=group).committed(owned) == expected

    def test_closing_before_a_rebalance_was_reported(self) -> None:
        """Calling ``close`` returns, and what is owned can be committed, also when the last poll was before a
        rebalance."""
        topic, group, owners = self.cluster.topic(4), self.cluster.name("group"), Owners()
        first, second = (self.worker(group, [topic], owners) for _ in range(2))
        self.poll_until_owned([first, second], [2, 2])
        first.on_revoke = lambda partitions: first.consumer.commit({p: OffsetAndMetadata(9) for p in partitions})
        second.close()
        self.cluster.let_time_pass(2)
        # A client that hangs may hold the interpreter's lock, so that it shows only in the end of the process.
        faulthandler.dump_traceback_later(self.cluster.until.patience_s, exit=True)
        first.close()
        faulthandler.cancel_dump_traceback_later()
        assert first.faults == []
        assert owners == {}

    def test_a_member_commits_and_again_after_a_rebalance(self) -> None:
        """A commit of a member is accepted, at the latest after the polls that end a rebalance."""
        topic, group, owners = self.cluster.topic(4), self.cluster.name("group"), Owners()
        first = self.worker(group, [topic], owners)
        self.poll_until_owned([first], [4])
        second = self.worker(group, [topic], owners)
        offset = 0

        def attempt() -> bool:
            nonlocal offset
            offset += 1
            mine = sorted(first.owned)[:1]
            self.commit(first, dict.fromkeys(mine, OffsetAndMetadata(offset)))
            first.poll()
            return len(first.owned) == len(second.owned) == 2

        # A commit may wait behind its member's own request to join, which is answered when all members have joined.
        with second.polled():
            self.cluster.until("the members share while one of them commits", attempt)
        assert first.faults == second.faults == []
        owned = sorted(first.owned)[:1]
        self.commit(first, dict.fromkeys(owned, OffsetAndMetadata(1_000)))
        assert first.consumer.committed(owned) == dict.fromkeys(owned, OffsetAndMetadata(1_000))

    def test_only_members_commit_while_there_are_members(self) -> None:
        """A consumer beside the group cannot commit for it; its commit raises TaskMigratedError."""
        topic, group = self.cluster.topic(), self.cluster.name("group")
        worker = self.worker(group, [topic], {})
        self.poll_until_owned([worker], [1])
        outsider = self.cluster.consumer(group_id=group)
        offsets = {TopicPartition(topic, 0): OffsetAndMetadata(1)}
        raises(TaskMigratedError, lambda: outsider.commit(offsets))
        worker.close()
        outsider.commit(offsets)

    def test_offsets_of_partitions_that_do_not_exist_are_left_out(self) -> None:
        """Those of the others are committed; the error names what is not."""
        topic, group = self.cluster.topic(), self.cluster.name("group")
        worker = self.worker(group, [topic], {})
        self.poll_until_owned([worker], [1])
        here, missing = TopicPartition(topic, 0), TopicPartition(self.cluster.name("missing"), 0)
        for offsets in ({here: OffsetAndMetadata(5), missing: OffsetAndMetadata(3)}, {missing: OffsetAndMetadata(3)}):
            error = raises(PartlyCommitted, lambda offsets=offsets: worker.consumer.commit(offsets))  # type: ignore[misc]
            assert error.partitions == {missing}
            assert missing.topic in str(error)
        assert worker.consumer.committed([here]) == {here: OffsetAndMetadata(5)}

    def test_a_member_that_was_away_too_long_has_lost_its_partitions(self) -> None:
        """Commits of such a member raise TaskMigratedError; the next polls report the loss and bring it back into the
        group."""
        topic, group, owners = self.cluster.topic(2), self.cluster.name("group"), Owners()
        worker = self.worker(group, [topic], owners, session_timeout_ms=6_000, max_poll_interval_ms=6_000)
        self.poll_until_owned([worker], [2])
        owned = frozenset(worker.owned)
        self.cluster.let_time_pass(8)

        def commit() -> None:
            try:
                worker.consumer.commit(dict.fromkeys(owned, OffsetAndMetadata(1)))
            except CommitAgain:
                pass

        def refused() -> bool:
            try:
                commit()
            except TaskMigratedError:
                return True
            return False

        self.cluster.until("the commit of a member that was away is refused", refused)

        def back() -> bool:
            with worker.inside():
                worker.consumer.poll(0.1)
            return worker.calls[-1][0] == "assigned" and len(worker.calls) > 1

        self.cluster.until("the member is back", back)
        assert worker.calls == [("assigned", owned), ("lost", owned), ("assigned", owned)]
        assert worker.faults == []

    def test_a_static_member_is_replaced_at_once(self) -> None:
        """A new consumer with the same ``group.instance.id`` gets the same partitions, no other member is called, and
        the one it replaces is fenced."""
        topic, group, owners = self.cluster.topic(4), self.cluster.name("group"), Owners()
        first = self.worker(group, [topic], owners, group_instance_id="one")
        second = self.worker(group, [topic], owners, group_instance_id="two")
        self.poll_until_owned([first, second], [2, 2])
        owned, calls = first.owned, list(second.calls)
        replacement = self.worker(group, [topic], Owners(), group_instance_id="one")

        def replaced() -> bool:
            replacement.poll()
            second.poll()
            return replacement.owned == owned

        self.cluster.until("the replacement owns what the replaced one did", replaced)

        def fenced() -> bool:
            second.poll()
            try:
                first.poll()
            except InstanceFenced:
                return True
            return False

        self.cluster.until("the replaced member is fenced", fenced)
        offsets = dict.fromkeys(owned, OffsetAndMetadata(1))
        raises(TaskMigratedError, lambda: first.consumer.commit(offsets))
        self.commit(replacement, offsets)
        assert second.calls == calls
        assert first.faults == second.faults == replacement.faults == []

    def test_a_static_member_that_is_replaced_before_it_commits_is_fenced(self) -> None:
        """Its commit is the first to say so, since it has not polled meanwhile."""
        topic, group = self.cluster.topic(4), self.cluster.name("group")
        first = self.worker(group, [topic], Owners(), group_instance_id="one")
        self.poll_until_owned([first], [4])
        offsets = dict.fromkeys(first.owned, OffsetAndMetadata(1))
        replacement = self.worker(group, [topic], Owners(), group_instance_id="one")
        self.poll_until_owned([replacement], [4])
        raises(InstanceFenced, lambda: first.consumer.commit(offsets))
        self.commit(replacement, offsets)

    def test_a_static_member_that_closes_stays_in_the_group(self) -> None:
        """The partitions of the member wait for it, so that a restart moves nothing."""
        topic, group, owners = self.cluster.topic(4), self.cluster.name("group"), Owners()
        first = self.worker(group, [topic], owners, group_instance_id="one")
        second = self.worker(group, [topic], owners, group_instance_id="two")
        self.poll_until_owned([first, second], [2, 2])
        owned, calls = first.owned, list(second.calls)
        first.close()
        assert first.calls[-1] == ("revoked", frozenset(owned))
        again = self.worker(group, [topic], owners, group_instance_id="one")
        self.poll_until_owned([again, second], [2, 2])
        assert again.owned == owned
        assert second.calls == calls

    def test_a_static_member_that_closed_can_be_taken_out(self) -> None:
        """The partitions of the member go to the others at once after ``leave_group``; an unknown member is ignored."""
        topic, group, owners = self.cluster.topic(4), self.cluster.name("group"), Owners()
        first = self.worker(group, [topic], owners, group_instance_id="one")
        second = self.worker(group, [topic], owners, group_instance_id="two")
        self.poll_until_owned([first, second], [2, 2])
        first.close()
        self.cluster.clients.leave_group({"group.id": group}, group, "one")
        self.poll_until_owned([second], [4])
        self.cluster.clients.leave_group({"group.id": group}, group, "one")

    def test_the_offsets_of_a_group_are_read_from_outside(self) -> None:
        """Offsets are returned with their metadata; partitions without one are left out."""
        topic, group = self.cluster.topic(3), self.cluster.name("group")
        partitions = [TopicPartition(topic, number) for number in range(3)]
        assert self.cluster.admin.group_offsets(group, partitions) == {}
        offsets = {partitions[0]: OffsetAndMetadata(4, "text"), partitions[2]: OffsetAndMetadata(0)}
        self.cluster.consumer(group_id=group).commit(offsets)
        assert self.cluster.admin.group_offsets(group, partitions) == offsets
        assert self.cluster.admin.group_offsets(group, []) == {}

    def test_members_are_described(self) -> None:
        """The admin client returns each member's client id, instance id and partitions."""
        topic, group, owners = self.cluster.topic(4), self.cluster.name("group"), Owners()
        assert self.cluster.admin.group_members(self.cluster.name("group")) == []
        first = self.worker(group, [topic], owners, client_id="first", group_instance_id="one")
        second = self.worker(group, [topic], owners, client_id="second")
        self.poll_until_owned([first, second], [2, 2])

        def described() -> bool:
            for worker in (first, second):
                worker.poll()
            members = {member.client_id: member for member in self.cluster.admin.group_members(group)}
            return {name: (m.instance_id, m.partitions) for name, m in members.items()} == {
                "first": ("one", frozenset(first.owned)),
                "second": (None, frozenset(second.owned)),
            } and all(member.member_id for member in members.values())

        self.cluster.until("the members are described", described)

    def test_a_group_is_deleted_with_its_offsets(self) -> None:
        """One with members is not; one that does not exist is passed over."""
        topic, group = self.cluster.topic(1), self.cluster.name("group")
        place, admin = TopicPartition(topic, 0), self.cluster.admin
        self.cluster.consumer(group_id=group).commit({place: OffsetAndMetadata(3)})
        worker = self.worker(group, [topic], {}, client_id="only")
        self.poll_until_owned([worker], [1])
        raises(GroupHasMembers, lambda: admin.delete_group(group))
        assert admin.group_offsets(group, [place])[place].offset == 3
        worker.consumer.close()
        self.cluster.until("it has no members", lambda: not admin.group_members(group))
        admin.delete_group(group)
        admin.delete_group(group)
        assert admin.group_offsets(group, [place]) == {}
        assert group not in admin.groups()

    def test_a_group_is_described(self) -> None:
        """The admin client returns its state and assignor; a group that only has offsets is empty, and one that does
        not exist is dead. All groups are listed."""
        topic, group = self.cluster.topic(2), self.cluster.name("group")
        missing = self.cluster.name("missing")
        found = self.cluster.admin.describe_group(missing)
        assert (found.name, found.state, found.members) == (missing, "dead", ())
        self.cluster.consumer(group_id=group).commit({TopicPartition(topic, 0): OffsetAndMetadata(0)})
        found = self.cluster.admin.describe_group(group)
        assert (found.state, found.members) == ("empty", ())
        groups = self.cluster.admin.groups()
        assert group in groups
        assert missing not in groups
        assert groups == sorted(groups)
        worker = self.worker(group, [topic], {}, client_id="only")
        self.poll_until_owned([worker], [2])

        def at_rest() -> bool:
            worker.poll()
            return self.cluster.admin.describe_group(group).state == "stable"

        self.cluster.until("the group is at rest", at_rest)
        found = self.cluster.admin.describe_group(group)
        assert [member.client_id for member in found.members] == ["only"]
        assert found.assignor == "cooperative-sticky"

    def test_members_are_removed(self) -> None:
        """Members that do not poll any more leave the group, static or not; it can be committed for then. Those that
        are gone are passed over."""
        topic, group, owners = self.cluster.topic(2), self.cluster.name("group"), Owners()
        first = self.worker(group, [topic], owners, group_instance_id="one")
        second = self.worker(group, [topic], owners)
        self.poll_until_owned([first, second], [1, 1])
        members = self.cluster.admin.group_members(group)
        assert len(members) == 2
        self.cluster.admin.remove_members(group, members)
        self.cluster.admin.remove_members(group, members)
        assert self.cluster.admin.group_members(group) == []
        offsets = {TopicPartition(topic, 0): OffsetAndMetadata(7)}
        self.cluster.consumer(group_id=group).commit(offsets)
        assert self.cluster.admin.group_offsets(group, list(offsets)) == offsets

    def test_a_transaction_commits_offsets_of_a_member(self) -> None:
        """Offsets are accepted with the member's current metadata."""
        topic, group = self.cluster.topic(), self.cluster.name("group")
        worker = self.worker(group, [topic], {})
        self.poll_until_owned([worker], [1])
        producer = self.cluster.transactional()
        producer.begin_transaction()
        producer.send_offsets({TopicPartition(topic, 0): OffsetAndMetadata(3)}, worker.consumer.group_metadata())
        producer.commit_transaction()
        assert worker.consumer.committed([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): OffsetAndMetadata(3)}

    def test_offsets_of_an_old_generation_abort_the_transaction(self) -> None:
        """Metadata from before a rebalance, or of a member that left, is refused; the producer goes on after the
        abort."""
        topic, group, owners = self.cluster.topic(2), self.cluster.name("group"), Owners()
        first = self.worker(group, [topic], owners)
        self.poll_until_owned([first], [2])
        stale = first.consumer.group_metadata()
        second = self.worker(group, [topic], owners)
        self.poll_until_owned([first, second], [1, 1])
        gone = second.consumer.group_metadata()
        second.close()
        self.poll_until_owned([first], [2])
        producer = self.cluster.transactional()
        offsets = {TopicPartition(topic, 0): OffsetAndMetadata(3)}
        for metadata in (stale, gone):
            producer.begin_transaction()
            raises(TransactionAborted, lambda metadata=metadata: producer.send_offsets(offsets, metadata))  # type: ignore[misc]
            producer.abort_transaction()
        producer.begin_transaction()
        producer.send_offsets(offsets, first.consumer.group_metadata())
        producer.commit_transaction()
        assert first.consumer.committed(list(offsets)) == offsets
