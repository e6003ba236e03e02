"""The kit for applications on a broker in memory: a broker, the applications on it, and small topologies for them.

A test takes the fixture ``cluster`` or makes a `Cluster`, starts an application by `Cluster.app` (or `Cluster.start`,
which waits until it runs), writes with `Cluster.send`, reads with `Cluster.values`, and waits with `Cluster.until_out`,
`Cluster.until_state`, `Cluster.failed` or, for any other condition, `waiting.wait_until`. A wait that fails says in
which states the applications were. Clients that a test can make fail are in `runtime_support.failing_clients`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from processor_api.clock import Clock, SystemClock
from processor_api.processor import Processor
from processor_api.record import HeaderList, Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from streams.kafka.ports import KafkaClients
from streams.platform import Platform
from streams.testing.broker import EmbeddedBroker, EmbeddedClients
from waiting import REPORTS, wait_until

__all__ = ["Cluster", "Counting", "JumpingClock", "Restores", "active", "counting", "passing_on", "standbys"]

S = Serdes.STRING
CLOSE_TIMEOUT = 30


class Restores:
    """A restore listener that remembers its calls."""

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


class JumpingClock(SystemClock):
    """The machine's clock and what a test adds to it."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self._machine = SystemClock()

    def monotonic(self) -> float:  # type: ignore[override]
        return self._machine.monotonic() + self.ahead_s


class Cluster:
    """A broker in memory and the applications on it; a context manager that closes them at its end.

    :param directory: where the applications have their state.
    :param partitions: of the topics ``in`` and ``out``.
    :param topics: partition counts of the topics that exist from the start, in place of ``in`` and ``out``.
    :param clock: of the broker, and of applications that are given none.
    :param clients: makes the applications' clients; those that the test itself writes with never fail.
    :param one_state: the applications have ``directory`` together, like a worker that is started again; without it
        each has a state directory of its own below it.
    """

    def __init__(
        self,
        directory: Path,
        partitions: int = 1,
        clock: Clock | None = None,
        *,
        topics: Mapping[str, int] | None = None,
        clients: Callable[[EmbeddedBroker], Any] = EmbeddedClients,
        one_state: bool = False,
    ) -> None:
        self.directory = directory
        self.broker = EmbeddedBroker(clock)
        for topic, count in (topics or {"in": partitions, "out": partitions}).items():
            self.broker.create_topic(topic, count)
        self.clients = clients(self.broker)
        self.apps: list[KafkaStreams] = []
        self.states: dict[KafkaStreams, list[tuple[ClientState, ClientState]]] = {}
        """The changes of each application's state, as (old, new)."""
        self._clock = clock
        self._one_state = one_state
        self._input = EmbeddedClients(self.broker).producer({})
        REPORTS.append(self.told)

    # ------------------------------------------------------------------ applications

    def app(
        self,
        topology: Topology,
        config: Mapping[str, Any] | None = None,
        *,
        start: bool = True,
        restores: Restores | None = None,
        clients: KafkaClients | None = None,
        clock: Clock | None = None,
        platform: Platform | None = None,
        **settings: Any,
    ) -> KafkaStreams:
        """Makes an application and starts it, without waiting until it runs.

        :param config: its settings by their dotted names.
        :param restores: its restore listener.
        :param clients: in place of the cluster's.
        :param clock: of the application.
        :param platform: what else it takes from the machine.
        :param settings: more settings, in snake case.
        """
        given = {
            "application.id": "app",
            "bootstrap.servers": "in-memory:9092",
            "state.dir": str(self.directory if self._one_state else self.directory / str(len(self.apps))),
            "commit.interval.ms": 20,
            "poll.ms": 10,
            "default.key.serde": S,
            "default.value.serde": S,
            **(config or {}),
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        chosen = clients or self.clients
        app = KafkaStreams(topology, given, clients=chosen, clock=clock or self._clock, platform=platform)
        self.apps.append(app)
        changes = self.states[app] = []
        app.set_state_listener(lambda new, old: changes.append((old, new)))
        if restores is not None:
            app.set_global_state_restore_listener(restores)
        if start:
            app.start()
        return app

    def start(self, topology: Topology, restores: Restores | None = None, **settings: Any) -> KafkaStreams:
        """Returns an application once it runs; settings in snake case."""
        app = self.app(topology, restores=restores, **settings)
        self.until_state(app, ClientState.RUNNING)
        return app

    @property
    def last(self) -> KafkaStreams:
        """The application that was made last."""
        return self.apps[-1]

    def entered(self, app: KafkaStreams | None = None) -> list[ClientState]:
        """Returns the states that an application (the last, if none is given) has come to, in order."""
        return [new for _, new in self.states[app or self.last]]

    def answer(self, topology: Topology, state: str, *records: tuple[str, str, int], **settings: Any) -> str:
        """Runs an application on a state directory until the topic ``out`` has more values, and returns the last.

        :param records: key, value and timestamp of what is written to ``in``.
        """
        before = len(self.values())
        app = self.app(topology, {"state.dir": str(self.directory / state)}, **settings)
        for key, value, timestamp in records:
            self.send(value, key=key, timestamp=timestamp)
        wait_until("there is an answer", lambda: len(self.values()) > before)
        assert app.close(CLOSE_TIMEOUT), self.told()
        return self.values()[-1]

    # ------------------------------------------------------------------ records

    def send(
        self,
        *values: str | None,
        topic: str = "in",
        key: str | None = "k",
        partition: int = 0,
        timestamp: int = 5,
        headers: HeaderList | None = None,
    ) -> None:
        """Writes values of one key to a topic."""
        for value in values:
            self._produce(topic, key, value, partition, timestamp, headers)
        self._input.flush()

    def send_pairs(self, topic: str, records: Iterable[tuple[str | None, str | None]], partition: int = 0) -> None:
        """Writes keys with their values; the timestamps are the offsets."""
        first = self.broker.topics[topic].partitions[partition].end_offset
        for number, (key, value) in enumerate(records):
            self._produce(topic, key, value, partition, first + number)
        self._input.flush()

    def _produce(
        self,
        topic: str,
        key: str | None,
        value: str | None,
        partition: int,
        timestamp: int,
        headers: HeaderList | None = None,
    ) -> None:
        data = [None if text is None else text.encode() for text in (value, key)]
        self._input.produce(topic, data[0], data[1], partition, None, None, timestamp, headers)

    def ask(self, *keys: str) -> list[str]:
        """Writes each key to ``in``, and returns what comes out for them."""
        before = len(self.values())
        self.send_pairs("in", [(key, "?") for key in keys])
        wait_until("they are answered", lambda: len(self.values()) >= before + len(keys))
        return self.values()[before:]

    def values(self, topic: str = "out", *, committed: bool = True) -> list[str]:
        """Returns the values in a topic, partition by partition.

        :param committed: without those of transactions that are open or aborted.
        """
        return [(record.value() or b"").decode() for record in self.broker.records(topic, read_committed=committed)]

    def committed(self, topic: str = "in", partition: int = 0) -> int | None:
        """Returns the committed offset of the group ``app``."""
        for place, found in self.broker.groups.group("app").offsets.items():
            if place == (topic, partition):
                return found.offset
        return None

    # ------------------------------------------------------------------ waiting

    def until(self, condition: Callable[[], Any]) -> None:
        """Waits until the condition is true."""
        wait_until(f"the condition in {getattr(condition, '__qualname__', condition)}", condition)

    def until_out(self, *values: str, topic: str = "out") -> None:
        """Waits until the values of a topic, in any order, are these."""
        wait_until(f"{topic} has {values}", lambda: sorted(self.values(topic)) == sorted(values))

    def until_state(self, app: KafkaStreams, state: ClientState) -> None:
        """Waits until an application is in a state."""
        wait_until(f"it is {state}", lambda: app.state is state)

    def failed(self, app: KafkaStreams | None = None) -> Exception:
        """Waits until an application (the last, if none is given) has ended with an error, and returns that."""
        ended = app or self.last
        self.until_state(ended, ClientState.ERROR)
        assert ended.failure is not None
        return ended.failure

    def told(self) -> object:
        """Returns what is in the topics of the test, and the state, error and tasks of each application."""
        counts = {name: len(self.broker.records(name)) for name in self.broker.topics}
        out = self.values() if "out" in self.broker.topics else []
        return {"records": counts, "out": out, "apps": [(app.state, app.failure, app.tasks()) for app in self.apps]}

    def close(self) -> None:
        """Closes the applications, each of which ends in time."""
        try:
            for app in self.apps:
                assert app.close(CLOSE_TIMEOUT), self.told()
        finally:
            if self.told in REPORTS:
                REPORTS.remove(self.told)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _PassOn(Processor[Any, Any, Any, Any]):
    def __init__(self, look: Callable[[str], None]) -> None:
        self._look = look

    def process(self, record: Record[Any, Any]) -> None:
        self._look(record.value)
        self.context.forward(record)


def passing_on(
    look: Callable[[str], None] = lambda value: None, *topics: Any, out: str = "out", **source: Any
) -> Topology:
    """Returns a topology from ``in`` (or the topics given) to ``out`` that calls a function with each value."""
    topology = Topology().add_source("source", *(topics or ("in",)), **source)
    return topology.add_processor("p", lambda: _PassOn(look), "source").add_sink("sink", out, "p")


class Counting(Processor[Any, Any, Any, Any]):
    """Forwards each value with how often it came."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.counts = context.get_state_store("counts")

    def process(self, record: Record[Any, Any]) -> None:
        count = (self.counts.get(record.value) or 0) + 1
        self.counts.put(record.value, count)
        self.context.forward(record.with_value(f"{record.value}={count}"))


def counting(*topics: Any, store: Any = None, supplier: Any = Counting, out: str = "out", **source: Any) -> Topology:
    """Returns a topology from ``in`` (or the topics given) to ``out`` that numbers the records of each value."""
    builder = Stores.key_value_store_builder(store or Stores.in_memory_key_value_store("counts"), S, Serdes.LONG)
    topology = Topology().add_source("source", *(topics or ("in",)), **source)
    topology.add_processor("p", supplier, "source").add_sink("sink", out, "p")
    return topology.add_state_store(builder, "p")


def standbys(app: KafkaStreams) -> list[str]:
    """Returns the standby tasks of an application."""
    return sorted(str(task.task_id) for thread in app.metadata_for_local_threads() for task in thread.standby_tasks)


def active(app: KafkaStreams) -> list[str]:
    """Returns the tasks that an application owns."""
    return sorted(str(task) for tasks in app.tasks().values() for task in tasks)
