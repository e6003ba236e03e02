"""Applications that run on a broker in memory, and what a test asks of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from processor_api.clock import Clock, SystemClock
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology import Topology
from streams.app.kafka_streams import ClientState, KafkaStreams
from streams.kafka.embedded import EmbeddedBroker, EmbeddedClients
from streams.kafka.ports import KafkaClients

__all__ = ["DEADLINE_S", "Cluster", "Counting", "counting", "passing_on", "until"]

CLOCK = SystemClock()
DEADLINE_S = 20.0
S = Serdes.STRING


def until(what: str, reached: Callable[[], Any], tell: Callable[[], Any] = lambda: "") -> Any:
    """What the condition gives, once it gives something."""
    deadline = CLOCK.monotonic() + DEADLINE_S
    while not (found := reached()):
        assert CLOCK.monotonic() < deadline, f"not within {DEADLINE_S:.0f} s: {what}; {tell()}"
        CLOCK.wait(0.005)
    return found


class Cluster:
    """A broker with topics ``in`` and ``out``, and the applications on it; closes them at the end.

    :param clock: of the broker, and of applications that are given none.
    """

    def __init__(self, directory: Path, partitions: int = 1, clock: Clock | None = None) -> None:
        self.broker = EmbeddedBroker(clock)
        self._clock = clock
        for topic in ("in", "out"):
            self.broker.create_topic(topic, partitions)
        self.clients = EmbeddedClients(self.broker)
        self.directory = directory
        self._input = self.clients.producer({})
        self.apps: list[KafkaStreams] = []
        self.states: dict[KafkaStreams, list[tuple[ClientState, ClientState]]] = {}

    def app(
        self,
        topology: Topology,
        config: Mapping[str, Any] | None = None,
        *,
        start: bool = True,
        clients: KafkaClients | None = None,
        clock: Clock | None = None,
    ) -> KafkaStreams:
        """Each has a state directory of its own, unless ``state.dir`` is given.

        :param clients: in place of the cluster's.
        :param clock: of the application.
        """
        settings = {
            "application.id": "app",
            "bootstrap.servers": "in-memory:9092",
            "state.dir": str(self.directory / str(len(self.apps))),
            "commit.interval.ms": 20,
            "poll.ms": 10,
            "default.key.serde": S,
            "default.value.serde": S,
            **(config or {}),
        }
        app = KafkaStreams(topology, settings, clients=clients or self.clients, clock=clock or self._clock)
        self.apps.append(app)
        told = self.states[app] = []
        app.set_state_listener(lambda new, old: told.append((old, new)))
        if start:
            app.start()
        return app

    def send(self, *values: str, topic: str = "in", key: str = "k", partition: int = 0, timestamp: int = 5) -> None:
        for value in values:
            self._input.produce(topic, value.encode(), key.encode(), partition, None, None, timestamp, None)
        self._input.flush()

    def values(self, topic: str = "out") -> list[str]:
        """What was committed to a topic, partition by partition."""
        return [(record.value() or b"").decode() for record in self.broker.records(topic, read_committed=True)]

    def until_out(self, *values: str, topic: str = "out") -> None:
        """Until the values of a topic, in any order, are these."""
        until(f"{topic} has {values}", lambda: sorted(self.values(topic)) == sorted(values), lambda: self.told(topic))

    def until_state(self, app: KafkaStreams, state: ClientState) -> None:
        until(f"it is {state}", lambda: app.state is state, self.told)

    def told(self, topic: str = "out") -> Any:
        return self.values(topic), [(app.state, app.failure, app.tasks()) for app in self.apps]

    def close(self) -> None:
        for app in self.apps:
            assert app.close(10_000), self.told()


class _PassOn(Processor[Any, Any, Any, Any]):
    def __init__(self, look: Callable[[str], None]) -> None:
        self._look = look

    def process(self, record: Record[Any, Any]) -> None:
        self._look(record.value)
        self.context.forward(record)


def passing_on(
    look: Callable[[str], None] = lambda value: None, *topics: Any, out: str = "out", **source: Any
) -> Topology:
    """``in`` (or the topics given) to ``out``; every value is looked at."""
    topology = Topology().add_source("source", *(topics or ("in",)), **source)
    return topology.add_processor("p", lambda: _PassOn(look), "source").add_sink("sink", out, "p")


class Counting(Processor[Any, Any, Any, Any]):
    """Forwards how often it saw the value."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.counts = context.get_state_store("counts")

    def process(self, record: Record[Any, Any]) -> None:
        count = (self.counts.get(record.value) or 0) + 1
        self.counts.put(record.value, count)
        self.context.forward(record.with_value(f"{record.value}={count}"))


def counting(*topics: Any, store: Any = None, supplier: Any = Counting, out: str = "out", **source: Any) -> Topology:
    """``in`` (or the topics given) to ``out``: each value with its count."""
    builder = Stores.key_value_store_builder(store or Stores.in_memory_key_value_store("counts"), S, Serdes.LONG)
    topology = Topology().add_source("source", *(topics or ("in",)), **source)
    topology.add_processor("p", supplier, "source").add_sink("sink", out, "p")
    return topology.add_state_store(builder, "p")
