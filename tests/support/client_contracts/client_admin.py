"""The contract of `streams.kafka.ports.Admin`."""

from __future__ import annotations

from base64 import urlsafe_b64decode

from client_contracts.client_kit import Cluster, contents, raises, read_to_end, send
from processor_api.errors import StreamsError, TaskMigratedError
from processor_api.task_id import TopicPartition
from streams.kafka.offset_metadata import LogPoint
from streams.kafka.ports import AT_BEGINNING, NewTopic, TopicInfo

__all__ = ["AdminContract"]


class AdminContract:
    """Topics are created, described and deleted."""

    cluster: Cluster

    def test_created_topics_can_be_used_at_once(self) -> None:
        """Topics that were just created are described with their partitions and take records in each."""
        names = [self.cluster.name("new") for _ in range(2)]
        self.cluster.admin.create_topics(
            [
                NewTopic(name=name, partitions=n, configs={"retention.ms": "-1"})
                for name, n in zip(names, (1, 3), strict=True)
            ]
        )
        assert self.cluster.admin.topics(names) == {names[0]: TopicInfo(names[0], 1), names[1]: TopicInfo(names[1], 3)}
        producer = self.cluster.producer()
        send(producer, names[1], b"v", partition=2)
        producer.flush()
        records = read_to_end(self.cluster.until, self.cluster.consumer(), [TopicPartition(names[1], 2)])
        assert contents(records) == [b"v"]

    def test_topics_lists_what_exists(self) -> None:
        """Names of topics that do not exist are left out; without names all topics are listed."""
        topic, missing = self.cluster.topic(2), self.cluster.name("missing")
        assert self.cluster.admin.topics([topic, missing]) == {topic: TopicInfo(topic, 2)}
        every = self.cluster.admin.topics()
        assert every[topic] == TopicInfo(topic, 2)
        assert missing not in every

    def test_a_log_ends_behind_open_transactions(self) -> None:
        """Records of open transactions count, which readers of committed records do not see; so do markers."""
        topic = self.cluster.topic(2)
        partitions = [TopicPartition(topic, number) for number in range(2)]
        producer = self.cluster.producer(transactional_id=self.cluster.name("id"))
        producer.init_transactions()
        producer.begin_transaction()
        send(producer, topic, b"open", partition=0)
        producer.flush()
        consumer = self.cluster.consumer()
        assert self.cluster.admin.log_ends(partitions) == {partitions[0]: 1, partitions[1]: 0}
        assert consumer.end_offsets(partitions) == dict.fromkeys(partitions, 0)
        producer.commit_transaction()
        self.cluster.until(
            "the marker is written", lambda: consumer.end_offsets(partitions)[partitions[0]] == 2 or None
        )
        assert self.cluster.admin.log_ends(partitions) == {partitions[0]: 2, partitions[1]: 0}
        assert self.cluster.admin.log_ends([]) == {}

    def test_the_transaction_of_a_producer_that_is_gone_is_ended(self) -> None:
        """Others need not wait for its time-out; the producer is fenced, should it live."""
        topic, name = self.cluster.topic(1), self.cluster.name("id")
        place = TopicPartition(topic, 0)
        producer = self.cluster.producer(transactional_id=name)
        producer.init_transactions()
        producer.begin_transaction()
        send(producer, topic, b"open", partition=0)
        producer.flush()
        admin, consumer = self.cluster.admin, self.cluster.consumer()
        assert name in admin.open_transactions()
        assert consumer.end_offsets([place]) == {place: 0}
        admin.fence_producer(name)
        self.cluster.until("the transaction is over", lambda: consumer.end_offsets([place])[place] == 2 or None)
        assert name not in admin.open_transactions()
        raises(TaskMigratedError, producer.commit_transaction)

    def test_an_existing_topic_is_left_as_it_is(self) -> None:
        """Creating a topic again, with another number of partitions, changes nothing; the other topics of the call are
        created."""
        topic, new = self.cluster.topic(2), self.cluster.name("new")
        self.cluster.admin.create_topics([NewTopic(name=topic, partitions=5), NewTopic(name=new, partitions=1)])
        assert self.cluster.admin.topics([topic, new]) == {topic: TopicInfo(topic, 2), new: TopicInfo(new, 1)}

    def test_a_topic_is_given_more_partitions(self) -> None:
        """Added partitions take records at once, and earlier records stay; fewer or as many change nothing."""
        topic = self.cluster.topic(2)
        producer = self.cluster.producer()
        send(producer, topic, b"before", partition=1)
        producer.flush()
        self.cluster.admin.add_partitions(topic, 4)
        self.cluster.admin.add_partitions(topic, 4)
        self.cluster.admin.add_partitions(topic, 1)
        assert self.cluster.admin.topics([topic]) == {topic: TopicInfo(topic, 4)}
        late = self.cluster.producer()
        send(late, topic, b"after", partition=3)
        late.flush()
        for partition, value in ((1, b"before"), (3, b"after")):
            records = read_to_end(self.cluster.until, self.cluster.consumer(), [TopicPartition(topic, partition)])
            assert contents(records) == [value]

    def test_a_topic_that_does_not_exist_cannot_be_given_partitions(self) -> None:
        """The error names the topic."""
        missing = self.cluster.name("missing")
        error = raises(StreamsError, lambda: self.cluster.admin.add_partitions(missing, 2))
        assert missing in str(error)

    def test_a_topic_that_cannot_be_created_is_named(self) -> None:
        """A bad name, number of partitions or setting raises an error that names the topic."""
        for bad in (
            NewTopic(name="no/slash", partitions=1),
            NewTopic(name=self.cluster.name("none"), partitions=0),
            NewTopic(name=self.cluster.name("bad"), partitions=1, configs={"cleanup.policy": "nonsense"}),
            NewTopic(name=self.cluster.name("bad"), partitions=1, configs={"retention.ms": "soon"}),
            NewTopic(name=self.cluster.name("bad"), partitions=1, configs={"retention.mss": "1"}),
            NewTopic(name=self.cluster.name("bad"), partitions=1, configs={"segment.bytes": "1000"}),
            NewTopic(name=self.cluster.name("bad"), partitions=1, configs={"segment.ms": "0"}),
            NewTopic(name=self.cluster.name("bad"), partitions=1, configs={"message.timestamp.type": "Now"}),
            NewTopic(name=self.cluster.name("bad"), partitions=1, configs={"message.timestamp.after.max.ms": "-1"}),
        ):
            error = raises(StreamsError, lambda bad=bad: self.cluster.admin.create_topics([bad]))  # type: ignore[misc]
            assert bad.name in str(error)
        assert self.cluster.admin.topics([bad.name]) == {}

    def test_a_deleted_topic_is_gone(self) -> None:
        """A deleted topic is not described any more; one of the same name starts empty."""
        topic = self.cluster.topic()
        producer = self.cluster.producer()
        send(producer, topic, b"old")
        producer.flush()
        self.cluster.admin.delete_topics([topic])
        self.cluster.until("the topic is gone", lambda: not self.cluster.admin.topics([topic]))
        self.cluster.admin.create_topics([NewTopic(name=topic, partitions=2)])
        partition = TopicPartition(topic, 0)
        assert self.cluster.admin.topics([topic]) == {topic: TopicInfo(topic, 2)}
        assert self.cluster.consumer().end_offsets([partition]) == {partition: 0}

    def test_a_record_is_in_its_log(self) -> None:
        """Records tell the epoch of their leader, and logs that have lost nothing have all of them."""
        topic = self.cluster.topic(2)
        producer = self.cluster.producer()
        send(producer, topic, b"one", b"two")
        producer.flush()
        partition, admin = TopicPartition(topic, 0), self.cluster.admin
        last = read_to_end(self.cluster.until, self.cluster.consumer(), [partition])[-1]
        epoch = last.leader_epoch()
        assert epoch is not None
        state = admin.topic_states([topic, self.cluster.name("missing")])
        assert {name: one.id for name, one in state.items()} == admin.topic_ids([topic])
        assert state[topic].leader_epochs.keys() == {0, 1}
        assert state[topic].leader_epochs[0] >= epoch
        there, later = (partition, LogPoint(last.offset(), epoch)), (partition, LogPoint(99, epoch))
        assert admin.divergences([there]) == {}
        assert admin.divergences([there, later]) == {later: 2}
        assert admin.divergences([]) == {}

    def test_a_topic_made_again_has_another_id(self) -> None:
        """Ids are returned by one call for all topics; a topic that does not exist is left out."""
        topic, other, missing = self.cluster.topic(1), self.cluster.topic(2), self.cluster.name("missing")
        before = self.cluster.admin.topic_ids([topic, other, missing])
        assert before.keys() == {topic, other}
        assert before[topic] != before[other]
        assert all(len(urlsafe_b64decode(found + "==")) == 16 for found in before.values())
        self.cluster.admin.delete_topics([topic])
        self.cluster.until("the topic is gone", lambda: not self.cluster.admin.topics([topic]))
        self.cluster.admin.create_topics([NewTopic(name=topic, partitions=1)])
        after = self.cluster.admin.topic_ids([topic, other])
        assert after[topic] != before[topic]
        assert after[other] == before[other]
        assert self.cluster.admin.topic_ids([]) == {}

    def test_settings_of_topics_are_returned_with_their_defaults(self) -> None:
        """Settings are returned by one call for all topics; a topic that does not exist is left out."""
        plain, compacted, missing = self.cluster.topic(1), self.cluster.name("compacted"), self.cluster.name("missing")
        configs = {"cleanup.policy": "compact,delete", "retention.ms": "86400001", "min.insync.replicas": "1"}
        self.cluster.admin.create_topics([NewTopic(name=compacted, partitions=1, configs=configs)])
        found = self.cluster.admin.topic_settings([plain, compacted, missing])
        assert found.keys() == {plain, compacted}
        assert configs.items() <= found[compacted].items()
        defaults = {"cleanup.policy": "delete", "min.compaction.lag.ms": "0", "message.timestamp.type": "CreateTime"}
        assert defaults.items() <= found[plain].items()
        assert found[plain]["delete.retention.ms"] == "86400000"
        assert self.cluster.admin.topic_settings([]) == {}

    def test_deleted_records_are_not_read(self) -> None:
        """The log starts at the offset given; other partitions keep theirs; offsets go on."""
        topic = self.cluster.topic(2)
        producer = self.cluster.producer()
        for partition in (0, 1):
            send(producer, topic, b"0", b"1", b"2", b"3", partition=partition)
        producer.flush()
        cut, whole = TopicPartition(topic, 0), TopicPartition(topic, 1)
        self.cluster.admin.delete_records({cut: 3})
        consumer = self.cluster.consumer()
        assert consumer.beginning_offsets([cut, whole]) == {cut: 3, whole: 0}
        assert contents(read_to_end(self.cluster.until, consumer, [cut], AT_BEGINNING)) == [b"3"]
        self.cluster.admin.delete_records({cut: 4, whole: 0})
        assert consumer.beginning_offsets([cut, whole]) == {cut: 4, whole: 0}
        send(producer, topic, b"4")
        producer.flush()
        records = read_to_end(self.cluster.until, consumer, [cut], start=None)
        assert [(r.offset(), r.value()) for r in records] == [(4, b"4")]

    def test_records_beyond_the_end_cannot_be_deleted(self) -> None:
        """Deleting before an offset that the log does not have is an error that names the topic."""
        partition = TopicPartition(self.cluster.topic(), 0)
        error = raises(StreamsError, lambda: self.cluster.admin.delete_records({partition: 1}))
        assert partition.topic in str(error)

    def test_records_of_a_compacted_topic_cannot_be_deleted(self) -> None:
        """A topic whose ``cleanup.policy`` is without "delete" refuses it."""
        partition = TopicPartition(self.cluster.topic(configs={"cleanup.policy": "compact"}), 0)
        error = raises(StreamsError, lambda: self.cluster.admin.delete_records({partition: 0}))
        assert partition.topic in str(error)
