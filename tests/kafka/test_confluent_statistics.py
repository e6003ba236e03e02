"""The statistics of librdkafka's clients, on the cluster that librdkafka plays itself."""

from __future__ import annotations

import json
from collections.abc import Iterator

import confluent_kafka
import pytest

from processor_api.task_id import TopicPartition
from streams.app.client_metrics import client_statistics_metrics
from streams.kafka.client_statistics import BrokerFigures, ClientStatistics
from streams.kafka.confluent.callbacks import LatestStatistics, statistics_of
from streams.kafka.confluent.clients import ConfluentClients
from streams.kafka.ports import AT_BEGINNING
from streams.observing.observer import broker_statuses
from waiting import wait_until

OFTEN = {"statistics.interval.ms": 50}


class MockCluster:
    """Three brokers in librdkafka, which end with the client that has them."""

    def __init__(self) -> None:
        self._owner: confluent_kafka.Producer | None = confluent_kafka.Producer(
            {"bootstrap.servers": "none", "test.mock.num.brokers": 3, "log_level": 0}
        )
        brokers = self._owner.list_topics(timeout=30).brokers.values()
        self.servers = ",".join(f"{one.host}:{one.port}" for one in brokers)

    def end(self) -> None:
        self._owner = None


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    made = MockCluster()
    yield made
    made.end()


def test_a_producer_and_a_consumer_tell_of_their_brokers(cluster: MockCluster) -> None:
    clients = ConfluentClients(cluster.servers)
    producer = clients.producer({"client.id": "p", **OFTEN})
    consumer = clients.consumer({"client.id": "c", "group.id": "g", **OFTEN})

    def of(client_id: str) -> ClientStatistics | None:
        return next((one for one in clients.statistics() if one.client_id == client_id), None)

    def has_sent() -> bool:
        for number in range(100):
            producer.produce_plain("topic", b"value", b"%d" % number, -1, None, None, 1)
        producer.flush(30)
        producer.poll(0)
        found = of("p")
        return found is not None and any(one.latency_avg_ms for one in found.brokers) and bool(found.topics)

    wait_until("the producer has figures", has_sent)
    found = of("p")
    assert found is not None
    assert found.is_producer
    assert sorted(one.node for one in found.brokers) == [1, 2, 3]
    assert all(one.address in cluster.servers for one in found.brokers)
    busy = max(found.brokers, key=lambda one: one.latency_avg_ms or 0)
    assert busy.state == "UP"
    assert 0 < busy.latency_avg_ms <= busy.latency_max_ms
    assert busy.latency_p99_ms > 0
    assert busy.requests >= busy.responses > 0
    assert busy.bytes_out > 0
    assert [topic.topic for topic in found.topics] == ["topic"]
    assert found.queue_bytes_max is not None
    consumer.assign({TopicPartition("topic", number): AT_BEGINNING for number in range(4)})
    taken: list[object] = []

    def has_read() -> bool:
        taken.extend(one for one in consumer.consume(1000, 0.05) if one.error() is None)
        return len(taken) >= 100 and of("c") is not None

    wait_until("the consumer has figures", has_read)
    read = of("c")
    assert read is not None
    assert not read.is_producer
    assert read.queue_bytes_max is None
    consumer.close()
    assert of("c") is None, "a client that is closed has none"
    producer.close()
    assert clients.statistics() == []


def test_brokers_that_are_gone_are_unreachable(cluster: MockCluster) -> None:
    clients = ConfluentClients(cluster.servers)
    producer = clients.producer({"client.id": "p", "log_level": 0, **OFTEN})

    def figures() -> list[BrokerFigures]:
        producer.poll(0.05)
        return [broker for client in clients.statistics() for broker in client.brokers]

    def leads_and_is_up() -> bool:
        producer.produce_plain("topic", b"value", b"key", -1, None, None, 1)
        producer.flush(30)
        return any(one.partitions and one.state == "UP" for one in figures())

    wait_until("a broker is up", leads_and_is_up)
    assert not any(one.is_unreachable for one in figures() if one.state == "UP")
    cluster.end()
    wait_until("it is not reached", lambda: any(one.is_unreachable for one in figures()))

    def knows_addresses_alone() -> bool:
        """As soon as the client has dropped the brokers that it knew."""
        producer.poll(0.05)
        found = [one for one in broker_statuses(clients.statistics()) if one.unreachable]
        return bool(found) and all(one.id == -1 and one.address in cluster.servers for one in found)

    wait_until("it knows no broker any more", knows_addresses_alone)
    producer.close()


def test_an_interval_of_0_gives_none(cluster: MockCluster) -> None:
    clients = ConfluentClients(cluster.servers)
    producer = clients.producer({"client.id": "p", "statistics.interval.ms": 0})
    producer.produce_plain("topic", b"value", b"key", -1, None, None, 1)
    assert producer.flush(30)
    producer.poll(0.2)
    assert clients.statistics() == []
    producer.close()


def test_what_cannot_be_read_is_none_and_no_error() -> None:
    """Another version of the library may have other fields."""
    latest = LatestStatistics()
    assert latest.get() is None
    for text in ("{", "[]", '{"type": "producer"}'):
        latest.take(text)
        assert latest.get() is None


def window(**figures: int) -> dict[str, int]:
    return {"cnt": 1, "avg": 0, "max": 0, "p99": 0, **figures}


def broker_text(node: int, **fields: object) -> dict[str, object]:
    counts = "tx rx txbytes rxbytes outbuf_cnt waitresp_cnt req_timeouts connects disconnects"
    return {
        "nodeid": node,
        "nodename": f"b{node}:9092",
        "source": "learned" if node >= 0 else "configured",
        "state": "UP",
        "toppars": {"t-0": {}},
        "rtt": window(avg=2000, p99=9000, max=10_000),
        "throttle": window(),
        **dict.fromkeys(counts.split(), 1),
        **fields,
    }


def test_metrics_have_kafkas_names_and_tags() -> None:
    text = {
        "client_id": "p",
        "type": "producer",
        "msg_cnt": 5,
        "msg_size": 100,
        "msg_size_max": 1000,
        "brokers": {"b": broker_text(1), "bootstrap": broker_text(-1)},
        "topics": {
            "t": {
                "topic": "t",
                "partitions": {},
                "batchsize": window(avg=70, max=80),
                "batchcnt": window(avg=7),
            }
        },
    }
    found = statistics_of(json.loads(json.dumps(text)))
    metrics = {
        (name.group, name.name, *name.tags.values()): metric.metric_value()
        for metric in client_statistics_metrics([found])
        for name in [metric.metric_name]
    }
    assert metrics["producer-node-metrics", "request-latency-avg", "p", "node-1"] == 2
    assert metrics["producer-node-metrics", "request-latency-p99", "p", "node-1"] == 9
    assert metrics["producer-metrics", "connection-count", "p"] == 1
    assert metrics["producer-metrics", "buffer-available-bytes", "p"] == 900
    assert metrics["producer-topic-metrics", "batch-size-avg", "p", "t"] == 70
    assert not any("node--1" in name for name in metrics)


def test_latencies_of_a_broker_are_those_of_producers() -> None:
    """A fetch waits at the broker for records, which says nothing of the broker."""

    def client(kind: str, **fields: object) -> ClientStatistics:
        text = {"client_id": kind, "type": kind, "brokers": {"b": broker_text(1, **fields)}, "topics": {}}
        return statistics_of({**text, "msg_cnt": 0, "msg_size": 0, "msg_size_max": 1})

    idle = window(avg=500_000, p99=500_000)
    [broker] = broker_statuses([client("producer"), client("consumer", rtt=idle, req_timeouts=4, state="DOWN")])
    assert (broker.latency_ms, broker.latency_p99_ms) == (2, 9)
    assert (broker.connected, broker.unreachable, broker.unanswered, broker.disconnects) == (1, 1, 5, 2)
    [silent] = broker_statuses([client("consumer", rtt=idle)])
    assert silent.latency_ms is None


def test_one_broker_of_several_that_is_gone_is_named() -> None:
    text = {"client_id": "c", "type": "consumer", "topics": {}}
    brokers = {"1": broker_text(1), "2": broker_text(2, state="TRY_CONNECT"), "3": broker_text(3, state="INIT")}
    idle = {"4": broker_text(4, state="DOWN", toppars={}), "g": broker_text(-1, state="DOWN", source="logical")}
    found = broker_statuses([statistics_of({**text, "brokers": {**brokers, **idle}})])
    assert [one.id for one in found if one.unreachable] == [2], "on 4 is nothing that the client reads"
