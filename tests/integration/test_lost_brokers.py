"""A client that lost all its brokers, though they are there, is replaced by a new one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from integration_support.counting import Counting
from integration_support.members import join
from integration_support.metadata_proxy import MetadataProxy
from integration_support.topics import Topics
from integration_support.workers import Workers
from streams.kafka.confluent import ConfluentClients
from streams.kafka.confluent.admin import ConfluentAdmin
from streams.kafka.confluent.consumer import ConfluentConsumer
from streams.kafka.ports import ClientUnusable, NewTopic, OffsetAndMetadata
from tools.kafka.broker import Broker, free_ports
from waiting import wait_until

DEADLINE_S = 180.0


@pytest.mark.parametrize(
    ("guarantee", "busy"),
    [
        pytest.param("at_least_once", True, marks=pytest.mark.slow),
        pytest.param("at_least_once", False, marks=pytest.mark.slow),
        pytest.param("exactly_once_v2", True, marks=pytest.mark.slow),
        pytest.param("exactly_once_v2", False, marks=pytest.mark.slow),
    ],
)
def test_clients_that_lost_their_brokers_are_replaced(
    guarantee: str, busy: bool, start_broker: Callable[..., Broker], unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    """A broker that is fenced for a moment, such as behind a slow disk, names no broker at all; the client drops those
    that it knew, and asks none again."""
    (port,) = free_ports(1)
    with MetadataProxy(port) as proxy:
        broker = start_broker({"advertised.listeners": f"PLAINTEXT://{proxy.address}"}, port)
        topics = Topics(broker.bootstrap, unique_name)
        with closing(Workers(tmp_path, proxy.address, unique_name("app"))) as workers:
            counting = Counting(topics, workers, guarantee, consumer_metadata_max_age_ms=500)
            worker = counting.start(busy=busy).wait_running()
            counting.send()
            with topics.reader(counting.output) as reader:
                counting.read_round(reader)
                proxy.hides = True
                wait_until("all clients ask no more, or new ones ask", lambda: proxy.silent_s > 3 or proxy.hidden > 50)
                proxy.hides = False
                counting.send()
                counting.read_round_or_more(reader, DEADLINE_S)
                worker.stop()
                if guarantee == "exactly_once_v2":
                    counting.check(reader)


def test_a_consumer_that_lost_its_brokers_commits_and_is_replaced(
    start_broker: Callable[..., Broker], unique_name: Callable[[str], str]
) -> None:
    """Its commit waited for the time of a session, during which the client could not be asked: it takes one call at a
    time. While a member joined, all stood still for so long."""
    (port,) = free_ports(1)
    with MetadataProxy(port) as proxy:
        broker = start_broker({"advertised.listeners": f"PLAINTEXT://{proxy.address}"}, port)
        topic = Topics(broker.bootstrap, unique_name).create("lines")
        consumer = ConfluentConsumer(
            {
                "bootstrap.servers": proxy.address,
                "group.id": unique_name("group"),
                "enable.auto.commit": False,
                "partition.assignment.strategy": "cooperative-sticky",
                "reconnect.backoff.max.ms": 1000,
                "topic.metadata.refresh.interval.ms": 500,
                "session.timeout.ms": 120_000,
            }
        )
        place = join(consumer, topic)
        consumer.commit({place: OffsetAndMetadata(1, "")})
        proxy.hides = True
        wait_until("the client has lost its brokers", lambda: proxy.is_left)
        proxy.hides = False
        consumer.commit({place: OffsetAndMetadata(2, "text")})
        admin = ConfluentClients(proxy.address).admin({})
        assert admin.group_offsets(consumer.resources.group or "", [place]) == {place: OffsetAndMetadata(2, "text")}
        admin.close()

        def polls() -> bool:
            consumer.poll(0.1)
            return False

        with pytest.raises(ClientUnusable, match="has lost all brokers, but a new client reaches them"):
            wait_until("the client is found out", polls, pauses=False)
        consumer.close()


def test_an_admin_client_that_lost_its_brokers_is_replaced(start_broker: Callable[..., Broker]) -> None:
    """No task could be opened any more, for as long as the process lived."""
    (port,) = free_ports(1)
    with MetadataProxy(port) as proxy:
        start_broker({"advertised.listeners": f"PLAINTEXT://{proxy.address}"}, port)
        with closing(
            ConfluentAdmin(
                {"bootstrap.servers": proxy.address, "topic.metadata.refresh.interval.ms": 500}, timeout_s=10.0
            )
        ) as admin:
            admin.create_topics([NewTopic(name="in", partitions=1)])
            proxy.hides = True
            for _ in range(2):
                admin.topics()
            wait_until("the client asks no more", lambda: proxy.silent_s > 3)
            proxy.hides = False
            assert "in" in admin.topics()
            assert "in" in admin.topic_settings(["in"])
