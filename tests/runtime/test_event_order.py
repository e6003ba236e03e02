"""Records and ends of partitions are handled in the order in which the client gave them."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

from processor_api.processor import Processor
from processor_api.serde import Serdes
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from streams.kafka.ports import Consumer
from streams.testing.broker import EmbeddedBroker, EmbeddedClients

TEXT = Serdes.STRING


class Ordering:
    """A consumer that, while it is held, keeps what comes, to be given out in batches that the test makes of it."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.held = False
        self.rounds = 0
        """How often it was asked while it is held."""
        self.kept: list[Any] = []
        self.batches: deque[list[Any]] = deque()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def consume(self, max_messages: int, timeout_s: float) -> Any:
        if self.held:
            self.rounds += 1
            self.kept += self._consumer.consume(max_messages, timeout_s)
            return self.batches.popleft() if self.batches else []
        return self._consumer.consume(max_messages, timeout_s)

    def poll(self, timeout_s: float) -> Any:
        return None if self.held else self._consumer.poll(timeout_s)

    def of(self, topic: str) -> list[Any]:
        return [message for message in list(self.kept) if message.topic() == topic]


class OrderingClients(EmbeddedClients):
    def __init__(self, broker: EmbeddedBroker) -> None:
        super().__init__(broker)
        self.main: Ordering

    def consumer(self, config: Any) -> Any:
        made = super().consumer(config)
        if str(config["client.id"]).endswith("restore-consumer"):
            return made
        self.main = Ordering(made)
        return self.main


def merging(seen: list[tuple[int, str]]) -> Topology:
    class See(Processor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None:
            seen.append((record.timestamp, record.value))

    topology = Topology()
    for topic in "ab":
        topology.add_source(topic, topic, key_serde=TEXT, value_serde=TEXT)
    return topology.add_processor("see", See, "a", "b")


def test_an_end_before_more_records_is_no_end(tmp_path: Path) -> None:
    """Ends were handled after all records of a fetch: a partition whose end came before more of its records was taken
    for read to its end, and the other input ran ahead of it."""
    seen: list[tuple[int, str]] = []
    with Cluster(tmp_path, topics={"a": 1, "b": 1, "out": 1}, clients=OrderingClients) as running:
        running.app(merging(seen), max_task_idle_ms=0)
        running.send("a", topic="a", timestamp=0)
        running.send("b", topic="b", timestamp=0)
        running.until(lambda: len(seen) == 2)
        main = running.clients.main
        main.held = True
        running.until(lambda: main.rounds > 0)
        for timestamp in range(1, 21):
            running.send("a", topic="a", timestamp=timestamp)
            running.send("b", topic="b", timestamp=timestamp)
        running.until(lambda: sum(m.error() is None for m in main.of("b")) == 20)
        running.until(lambda: sum(m.error() is None for m in main.of("a")) == 20)
        running.until(lambda: main.of("b")[-1].error() is not None)
        records = {topic: [m for m in main.of(topic) if m.error() is None] for topic in "ab"}
        end = main.of("b")[-1]
        main.batches.append([end, *records["b"][:5], *records["a"]])
        running.until(lambda: len(seen) >= 2 + 5)
        running.until(lambda: not main.batches)
        main.batches.append(records["b"][5:])
        running.until(lambda: len(seen) >= 2 + 39)
        assert [timestamp for timestamp, _ in seen] == sorted(timestamp for timestamp, _ in seen)
