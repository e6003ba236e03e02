"""A client that must not write passes on what reads and refuses all else by name, on the broker in memory."""

from __future__ import annotations

import inspect

import pytest

from processor_api.clock import ManualClock
from processor_api.task_id import TopicPartition
from streams.kafka import ports, read_only
from streams.kafka.ports import NewTopic, OffsetAndMetadata
from streams.testing.broker import EmbeddedBroker, EmbeddedClients

PLACE = TopicPartition("t", 0)
CONFIG = {"group.id": "g", "bootstrap.servers": "localhost:9092"}
MAKE = {"admin": ports.Admin, "consumer": ports.Consumer, "producer": ports.Producer}
READS = {
    "admin": read_only.ADMIN_READS,
    "consumer": read_only.CONSUMER_READS,
    "producer": read_only.PRODUCER_READS,
}

WRITES = {
    "admin": {
        "add_partitions",
        "create_topics",
        "delete_group",
        "delete_records",
        "delete_topics",
        "fence_producer",
        "release_instance",
        "remove_members",
    },
    "consumer": {"commit", "subscribe"},
    "producer": {
        "abort_transaction",
        "begin_transaction",
        "commit_transaction",
        "init_transactions",
        "partition_count",
        "prepare",
        "produce",
        "produce_plain",
        "send_offsets",
    },
}


def members(port):
    declared = {name for name, _ in inspect.getmembers(port) if not name.startswith("_")}
    return declared | {name for name in port.__annotations__ if not name.startswith("_")}


@pytest.fixture
def broker():
    made = EmbeddedBroker(ManualClock())
    made.create_topic("t", 1)
    return made


@pytest.fixture
def clients(broker):
    return read_only.ReadOnlyClients(EmbeddedClients(broker))


@pytest.mark.parametrize("kind", MAKE)
def test_each_member_of_a_port_either_reads_or_writes(kind):
    """A member that a port gets later has to be decided about here; until then it is refused."""
    assert READS[kind] | WRITES[kind] == members(MAKE[kind])
    assert not READS[kind] & WRITES[kind]


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in MAKE for name in sorted(members(MAKE[kind]))])
def test_everything_that_is_not_listed_is_refused_by_its_name(clients, kind, name):
    client = getattr(clients, kind)(CONFIG)
    if name in READS[kind]:
        getattr(client, name)
        return
    with pytest.raises(read_only.WriteRefused, match=rf"^{name}\(\) of the {kind} was rejected"):
        getattr(client, name)({})


def test_the_maker_of_clients_has_no_member_that_is_neither_made_nor_refused(clients):
    for name in members(ports.KafkaClients) - read_only.CLIENTS_READS:
        with pytest.raises(read_only.WriteRefused, match=rf"^{name}\(\)"):
            getattr(clients, name)(*[CONFIG, "g", "i"][: len(inspect.signature(getattr(clients, name)).parameters)])


def test_the_cluster_is_as_it_was(broker, clients):
    admin, consumer, producer = (getattr(clients, kind)(CONFIG) for kind in MAKE)
    for write in (
        lambda: admin.create_topics([NewTopic(name="new", partitions=1)]),
        lambda: admin.delete_topics(["t"]),
        lambda: admin.delete_group("g"),
        lambda: consumer.commit({PLACE: OffsetAndMetadata(1)}),
        lambda: consumer.subscribe(["t"], None),
        lambda: producer.produce("t", b"v", b"k", 0, None, None, 1, None),
        lambda: producer.produce_plain("t", b"v", b"k", 0, None, None, 1),
        producer.init_transactions,
        lambda: producer.prepare(["new"]),
    ):
        with pytest.raises(read_only.WriteRefused):
            write()
    assert admin.topics() == {"t": ports.TopicInfo("t", 1)}
    assert admin.group_members("g") == []
    assert admin.group_offsets("g", [PLACE]) == {}
    assert consumer.end_offsets([PLACE]) == {PLACE: 0}
    assert producer.flush()
    assert producer.poll(0) == 0


def test_records_and_offsets_are_read(broker, clients):
    writer, committer = EmbeddedClients(broker).producer(CONFIG), EmbeddedClients(broker).consumer(CONFIG)
    writer.produce("t", b"v", b"k", 0, None, None, 1, None)
    writer.flush()
    committer.commit({PLACE: OffsetAndMetadata(1)})

    consumer = clients.consumer({**CONFIG, "enable.auto.commit": True})
    assert consumer.committed([PLACE]) == {PLACE: OffsetAndMetadata(1)}
    consumer.assign({PLACE: 0})
    assert [message.value() for message in consumer.consume(10, 1.0) if message.error() is None] == [b"v"]


def test_a_consumer_is_made_with_settings_by_which_it_writes_nothing_on_its_own():
    class Recorder:
        def consumer(self, config):
            self.config = config
            return self

    recorder = Recorder()
    read_only.ReadOnlyClients(recorder).consumer({"enable.auto.commit": True, "allow.auto.create.topics": True})
    assert recorder.config["enable.auto.commit"] is False
    assert recorder.config["allow.auto.create.topics"] is False
