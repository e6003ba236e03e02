import os
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from integration_support.fierce_broker import FIERCE
from integration_support.secured_broker import SecuredBroker
from integration_support.topics import Topics
from integration_support.workers import Workers
from tools.kafka.broker import Broker
from tools.kafka.quick_broker import QuickBroker

HERE = Path(__file__).parent
SETTLE_TIMEOUT_S = 60.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def kafka() -> Iterator[str]:
    """The address of a real Kafka that all tests share: the one STREAMS_TEST_KAFKA names, else one started here."""
    given = os.environ.get("STREAMS_TEST_KAFKA")
    if given:
        settle(given)
        yield given
        return
    with QuickBroker() as broker:
        settle(broker.bootstrap)
        yield broker.bootstrap


@pytest.fixture(scope="module")
def kafka_of_module() -> Iterator[str]:
    """The address of a real Kafka of this file alone, whose topics may have any names."""
    with QuickBroker() as broker:
        settle(broker.bootstrap)
        yield broker.bootstrap


@pytest.fixture(scope="session")
def fierce() -> Iterator[str]:
    """The address of a broker that looks for old records each second and compacts all the time."""
    with QuickBroker(properties=FIERCE) as broker:
        settle(broker.bootstrap)
        yield broker.bootstrap


@pytest.fixture
def start_broker() -> Iterator[Callable[..., Broker]]:
    """Starts a broker for this test alone, which may stop, kill and start it: `start_broker(properties={...})`."""
    with ExitStack() as brokers:

        def start(properties: Mapping[str, str] | None = None, port: int = 0) -> Broker:
            broker = brokers.enter_context(QuickBroker(properties=properties, port=port))
            settle(broker.bootstrap)
            return broker

        yield start


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker with every kind of login, which all tests share."""
    secured = SecuredBroker(tmp_path_factory.mktemp("secured"))
    with secured.broker:
        settle(secured.broker.bootstrap)
        secured.add_users()
        yield secured


@pytest.fixture
def unique_name(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Makes names of topics and applications that no other test and no earlier run has used."""
    test = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name).strip("-")[:80]

    def unique(prefix: str) -> str:
        return f"{prefix}-{test}-{uuid.uuid4().hex[:8]}"

    return unique


def settle(bootstrap: str) -> None:
    """Has the broker make its offsets topic.

    Asking a new broker for a group's offsets by the admin client crashes librdkafka, and with it the whole test run;
    asking by a consumer does not, and leaves the topic behind.
    """
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "settle", "log_level": 0})
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    try:
        while True:
            try:
                consumer.committed([TopicPartition("settle", 0)], timeout=10)
                return
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                consumer.poll(0.1)
    finally:
        consumer.close()


@pytest.fixture
def topics(kafka: str, unique_name: Callable[[str], str]) -> Topics:
    """Makes, fills and reads topics of the shared Kafka."""
    return Topics(kafka, unique_name)


@pytest.fixture
def workers(kafka: str, unique_name: Callable[[str], str], tmp_path: Path) -> Iterator[Workers]:
    """Starts workers of an application of this test's own; what still runs at its end is killed."""
    started = Workers(tmp_path, kafka, unique_name("app"))
    yield started
    started.close()
