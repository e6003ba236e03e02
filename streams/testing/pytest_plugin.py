"""Fixtures for pytest: a test driver, a broker in memory, and applications on it (docs/testing.md).

The distribution registers it, so that its fixtures are available without an import; their modules are loaded when a
test uses one. Everything that a fixture opened is closed at the end of the test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from processor_api.user_code.durations import Timestamp
    from streams.app.kafka_streams import KafkaStreams
    from streams.config import StreamsConfig
    from streams.testing.driver import TopologyTestDriver
    from streams.testing.embedded_kafka import EmbeddedKafka

    Settings = StreamsConfig | Mapping[str, Any] | None


@pytest.fixture
def streams_driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., TopologyTestDriver]]:
    """Starts a ``TopologyTestDriver``, as ``streams_driver(topology, config=None, initial_wall_clock_time=0)``.

    The topology may also be a ``StreamsBuilder``, or a function that makes either and may take the configuration. State
    is kept in pytest's temporary directories.
    """
    from streams.testing.driver import TopologyTestDriver
    from streams.testing.settings import config_for_tests

    with ExitStack() as opened:

        def start(topology: Any, config: Settings = None, initial_wall_clock_time: Timestamp = 0) -> TopologyTestDriver:
            settings = config_for_tests(config)
            if settings.origin("state.dir") == "default":
                settings = settings.model_copy(update={"state_dir": tmp_path_factory.mktemp("streams-driver")})
            return opened.enter_context(
                TopologyTestDriver(topology, settings, initial_wall_clock_time=initial_wall_clock_time)
            )

        yield start


@pytest.fixture
def streams_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """An ``EmbeddedKafka``, a broker in memory for this test alone, with topics, records and applications."""
    from streams.testing.embedded_kafka import EmbeddedKafka

    with EmbeddedKafka(tmp_path_factory.mktemp("streams-kafka")) as kafka:
        yield kafka


@pytest.fixture
def streams_application(streams_kafka: EmbeddedKafka) -> Callable[..., KafkaStreams]:
    """Starts a ``KafkaStreams`` on the broker of ``streams_kafka`` and waits until it runs, as
    ``streams_application(topology, config=None)``. Topologies are given as to ``streams_driver``."""
    return streams_kafka.start
