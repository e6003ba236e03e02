"""Applications on a broker in memory, and clients that a test can make fail."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from processor_api.clock import SystemClock
from processor_api.topology import Topology
from streams.app.kafka_streams import ClientState, KafkaStreams
from streams.kafka.embedded import EmbeddedBroker, EmbeddedClients
from streams.kafka.ports import Admin, Consumer, KafkaClients, Producer

CLOCK = SystemClock()
DEADLINE_S = 20.0

Trap = Callable[[str], None]
"""Called with the name of a call before it is made; what it raises comes out of the call."""


def no_trap(call: str) -> None:
    """Lets every call pass."""


class Trapped:
    """A client of another, some of whose calls go through a trap first."""

    def __init__(self, client: Any, trap: Trap, calls: Collection[str]) -> None:
        self._client = client
        self._trap = trap
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if name not in self._calls:
            return found

        def call(*given: Any, **named: Any) -> Any:
            self._trap(name)
            return found(*given, **named)

        return call


class Deaf:
    """A consumer that is never told of the end of a partition."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def _told(self, message: Any) -> bool:
        return message.error() is None or message.error().code() != self._consumer.partition_eof

    def consume(self, max_messages: int, timeout_s: float) -> Sequence[Any]:
        return [message for message in self._consumer.consume(max_messages, timeout_s) if self._told(message)]

    def poll(self, timeout_s: float) -> Any:
        message = self._consumer.poll(timeout_s)
        return message if message is None or self._told(message) else None


class JumpingClock(SystemClock):
    """The machine's clock, but for what a test adds to it."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic(self) -> float:  # type: ignore[override]
        return CLOCK.monotonic() + self.ahead_s


class FailingClients:
    """Makes the clients of another, with traps in them.

    :param deaf: consumers are not told of the ends of partitions.
    """

    CONSUMER = frozenset(("committed", "commit", "end_offsets", "poll"))
    PRODUCER = frozenset(("init_transactions", "send_offsets", "commit_transaction", "abort_transaction"))
    ADMIN = frozenset(("topics", "group_members"))

    def __init__(self, clients: KafkaClients, trap: Trap = no_trap, *, deaf: bool = False) -> None:
        self._clients = clients
        self._trap = trap
        self._deaf = deaf

    def consumer(self, config: Mapping[str, Any]) -> Consumer:
        made: Any = Trapped(self._clients.consumer(config), self._trap, self.CONSUMER)
        if self._deaf and not str(config.get("client.id", "")).endswith("restore-consumer"):
            made = Deaf(made)
        return made  # type: ignore[no-any-return]

    def producer(self, config: Mapping[str, Any]) -> Producer:
        made: Any = Trapped(self._clients.producer(config), self._trap, self.PRODUCER)
        return made  # type: ignore[no-any-return]

    def admin(self, config: Mapping[str, Any]) -> Admin:
        made: Any = Trapped(self._clients.admin(config), self._trap, self.ADMIN)
        return made  # type: ignore[no-any-return]

    def leave_group(self, config: Mapping[str, Any], group: str, instance_id: str) -> None:
        self._clients.leave_group(config, group, instance_id)


class Running:
    """A running application with the topics ``in`` and ``out``, or those given with their partition counts."""

    def __init__(
        self,
        directory: Path,
        topology: Topology,
        *,
        topics: Mapping[str, int] | None = None,
        trap: Trap = no_trap,
        deaf: bool = False,
        make_clients: Callable[[EmbeddedBroker], Any] = EmbeddedClients,
        **config: Any,
    ) -> None:
        self.broker = EmbeddedBroker()
        for topic, partitions in (topics or {"in": 1, "out": 1}).items():
            self.broker.create_topic(topic, partitions)
        self.clients = make_clients(self.broker)
        self._failing = FailingClients(self.clients, trap, deaf=deaf)
        self._input = self.clients.producer({})
        self._settings = {
            "application.id": "app",
            "bootstrap.servers": "in-memory:9092",
            "state.dir": str(directory),
            "commit.interval.ms": 20,
            "poll.ms": 10,
            "retry.backoff.ms": 10,
            "retry.backoff.max.ms": 40,
            **{name.replace("_", "."): value for name, value in config.items()},
        }
        self.clock = JumpingClock()
        self.states: list[ClientState] = []
        self.restart(topology)

    def restart(self, topology: Topology) -> Running:
        """Starts again, on what the last run left, once it has ended."""
        self.app = KafkaStreams(topology, self._settings, clients=self._failing, clock=self.clock)
        self.app.set_state_listener(lambda new, old: self.states.append(new))
        self.app.start()
        return self

    def send(self, *values: str, topic: str = "in", partition: int = 0, timestamp: int = 5) -> None:
        for value in values:
            self._input.produce(topic, value.encode(), b"k", partition, None, None, timestamp, None)
        self._input.flush()

    def values(self, topic: str = "out", *, committed: bool = True) -> list[str]:
        return [(record.value() or b"").decode() for record in self.broker.records(topic, read_committed=committed)]

    def committed(self, topic: str = "in", partition: int = 0) -> int | None:
        """The group's committed offset."""
        for place, found in self.broker.groups.group("app").offsets.items():
            if place == (topic, partition):
                return found.offset
        return None

    def until(self, reached: Callable[[], bool]) -> None:
        deadline = CLOCK.monotonic() + DEADLINE_S
        while not reached():
            assert CLOCK.monotonic() < deadline, (self.app.state, self.app.failure, self.values())
            self.app.wait(10)

    def failed(self) -> Exception:
        """Waits for the end by an error, and gives that."""
        self.until(lambda: self.app.state is ClientState.ERROR)
        assert self.app.failure is not None
        return self.app.failure
