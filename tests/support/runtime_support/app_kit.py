"""A whole application on a broker in memory, whose topics a test writes and reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from processor_api.clock import SystemClock
from processor_api.topology import Topology
from streams.app.kafka_streams import ClientState, KafkaStreams
from streams.kafka.embedded import EmbeddedBroker, EmbeddedClients

__all__ = ["AppKit", "Restores"]

DEADLINE_S = 20.0
CLOCK = SystemClock()


class Restores:
    """A restore listener that remembers what it was told."""

    def __init__(self) -> None:
        self.started: list[tuple[str, str, int, int]] = []
        self.ended: list[tuple[str, str, int]] = []
        self.batches: list[int] = []

    def on_restore_start(self, partition: Any, store: str, start: int, end: int) -> None:
        self.started.append((store, str(partition), start, end))

    def on_batch_restored(self, partition: Any, store: str, end_offset: int, restored: int) -> None:
        self.batches.append(restored)

    def on_restore_end(self, partition: Any, store: str, restored: int) -> None:
        self.ended.append((store, str(partition), restored))


class AppKit:
    """A context manager: applications still running at its end are closed.

    :param topics: partition counts of the topics that exist from the start.
    """

    def __init__(self, directory: Path, topics: Mapping[str, int]) -> None:
        self.directory = directory
        self.broker = EmbeddedBroker()
        self.clients = EmbeddedClients(self.broker)
        self._producer = self.clients.producer({})
        self._apps: list[KafkaStreams] = []
        for name, partitions in topics.items():
            self.broker.create_topic(name, partitions)

    def make(self, topology: Topology, restores: Restores | None = None, **config: Any) -> KafkaStreams:
        """An application; settings in snake case."""
        settings = {
            "application_id": "app",
            "bootstrap_servers": "in-memory:9092",
            "state_dir": str(self.directory),
            "commit_interval_ms": 20,
            "poll_ms": 10,
            **config,
        }
        app = KafkaStreams(topology, settings, clients=self.clients)
        if restores is not None:
            app.set_global_state_restore_listener(restores)
        self._apps.append(app)
        return app

    def start(self, topology: Topology, restores: Restores | None = None, **config: Any) -> KafkaStreams:
        """A running application."""
        app = self.make(topology, restores, **config)
        app.start()
        assert app.wait(int(DEADLINE_S * 1000), state=ClientState.RUNNING), (app.state, app.failure)
        return app

    def send(self, topic: str, records: Iterable[tuple[str | None, str | None]], partition: int = 0) -> None:
        """Sends texts; timestamps are the offsets."""
        first = self.broker.topics[topic].partitions[partition].end_offset
        for number, (key, value) in enumerate(records):
            raw = [None if text is None else text.encode() for text in (value, key)]
            self._producer.produce(topic, raw[0], raw[1], partition, None, None, first + number, None)
        self._producer.flush()

    def values(self, topic: str) -> list[str]:
        return [(record.value() or b"").decode() for record in self.broker.records(topic)]

    def until(self, reached: Callable[[], Any]) -> None:
        deadline = CLOCK.monotonic() + DEADLINE_S
        while not reached():
            assert CLOCK.monotonic() < deadline, [(app.state, app.failure) for app in self._apps]
            CLOCK.wait(0.005)

    def __enter__(self) -> AppKit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for app in self._apps:
            assert app.close(10_000)
