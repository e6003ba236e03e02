import os
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from integration_support.secured_broker import SecuredListeners
from integration_support.shared_brokers import SharedBrokers, ask, settle
from integration_support.topics import Topics
from integration_support.workers import Workers
from tools.kafka.broker import Broker
from tools.kafka.quick_broker import QuickBroker

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def shared_broker(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Any]]:
    """Gives a broker of a kind; all processes of a run have the same."""
    place = getattr(request.config, "workerinput", {}).get("brokers")
    if place is not None:
        yield lambda kind: ask(place, kind)
        return
    with closing(SharedBrokers()) as brokers:
        yield brokers.get


@pytest.fixture(scope="session")
def kafka(shared_broker: Callable[[str], Any]) -> str:
    """The address of a real Kafka that all tests share: the one STREAMS_TEST_KAFKA names, else one started here."""
    given = os.environ.get("STREAMS_TEST_KAFKA")
    return settle(given) if given else str(shared_broker("plain"))


@pytest.fixture(scope="module")
def kafka_of_module() -> Iterator[str]:
    """The address of a real Kafka of this file alone, whose topics may have any names."""
    with QuickBroker() as broker:
        settle(broker.bootstrap)
        yield broker.bootstrap


@pytest.fixture(scope="session")
def fierce(shared_broker: Callable[[str], Any]) -> str:
    """The address of a broker that looks for old records each second and compacts all the time."""
    return str(shared_broker("fierce"))


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
def secured(shared_broker: Callable[[str], Any]) -> SecuredListeners:
    """A broker with every kind of login, which all tests share."""
    listeners: SecuredListeners = shared_broker("secured")
    return listeners


@pytest.fixture
def unique_name(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Makes names of topics and applications that no other test and no earlier run has used."""
    test = re.sub(r"[^a-zA-Z0-9]+", "-", request.node.name).strip("-")[:80]

    def unique(prefix: str) -> str:
        return f"{prefix}-{test}-{uuid.uuid4().hex[:8]}"

    return unique


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


@pytest.fixture
def on_own_broker(
    start_broker: Callable[..., Broker], tmp_path: Path, unique_name: Callable[[str], str]
) -> Iterator[Callable[[Mapping[str, str]], tuple[Topics, Workers]]]:
    """Starts a broker with these properties for this test alone; returns its topics, and workers of an application."""
    with ExitStack() as all_workers:

        def start(properties: Mapping[str, str]) -> tuple[Topics, Workers]:
            bootstrap = start_broker(properties).bootstrap
            workers = Workers(tmp_path, bootstrap, unique_name("app"))
            all_workers.callback(workers.close)
            return Topics(bootstrap, unique_name), workers

        yield start
