"""User code that takes long, on a broker in memory: the time that it takes is added to the clock, none passes."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dsl import Consumed, Grouped, Materialized, Produced, StreamsBuilder
from processor_api.errors import ProcessingError
from processor_api.processor import Processor
from processor_api.punctuation import PunctuationType
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.timestamps import ConsumedRecord
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster, JumpingClock
from streams.app.states import ClientState
from waiting import wait_until

S = Serdes.STRING
GUARANTEES = ["exactly_once_v2", "at_least_once"]
EOS = {
    "processing.guarantee": "exactly_once_v2",
    "commit.interval.ms": 100,
    "producer.transaction.timeout.ms": 1000,
    "producer.linger.ms": 0,
}
"""A transaction begins with what is sent first, which does not wait here."""
MEMBER = {"consumer.session.timeout.ms": 1000, "consumer.max.poll.interval.ms": 1000}
"""A member that calls nothing for a second is thrown out."""


@pytest.fixture
def clock() -> JumpingClock:
    return JumpingClock()


@pytest.fixture(name="cluster")
def cluster_fixture(tmp_path: Path, clock: JumpingClock) -> Iterator[Cluster]:
    made = Cluster(tmp_path, clock=clock)
    yield made
    made.close()


class Slow(Processor[Any, Any, Any, Any]):
    """Passes each record on; then as much time passes as is told for its value."""

    def __init__(self, clock: JumpingClock, seconds: Callable[[str], float], calls: Counter[str]) -> None:
        self._clock, self._seconds, self._calls = clock, seconds, calls

    def process(self, record: Record[Any, Any]) -> None:
        self._calls[record.value] += 1
        self.context.forward(record)
        self._clock.ahead_s += self._seconds(record.value)


def by_value(record: ConsumedRecord, partition_time: int) -> int:
    return int(record.value)


def slow(
    clock: JumpingClock, seconds: Callable[[str], float], calls: Counter[str], *topics: str, **source: Any
) -> Topology:
    topology = Topology().add_source("source", *(topics or ("in",)), **source)
    topology.add_processor("slow", lambda: Slow(clock, seconds, calls), "source")
    return topology.add_sink("sink", "out", "slow")


@pytest.mark.parametrize("kind", ["one input", "two inputs", "own timestamps"])
def test_a_batch_that_takes_longer_than_a_transaction_is_committed_in_parts(
    kind: str, cluster: Cluster, clock: JumpingClock
) -> None:
    """All of it was processed before the clock was looked at, so that the transaction was over each time."""
    calls: Counter[str] = Counter()
    topics = ("in", "in-too") if kind == "two inputs" else ("in",)
    source = {"timestamp_extractor": by_value} if kind == "own timestamps" else {}
    cluster.broker.create_topic("in-too")
    values = [str(number) for number in range(300)]
    cluster.send(*values)
    app = cluster.app(slow(clock, lambda value: 0.02, calls, *topics, **source), EOS)
    cluster.until_out(*values)
    assert set(calls.values()) == {1}
    assert app.failure is None


def test_a_function_that_becomes_slow_gets_on(cluster: Cluster, clock: JumpingClock) -> None:
    """The records between two looks at the clock may be too many once, and are not again."""
    calls: Counter[str] = Counter()
    values = [str(number) for number in range(2000)]
    cluster.send(*values)
    cluster.app(slow(clock, lambda value: 0.05 if int(value) >= 900 else 0.0, calls), EOS)
    cluster.until_out(*values)
    assert max(calls.values()) <= 2


def test_several_tasks_have_their_turns(tmp_path: Path, clock: JumpingClock) -> None:
    """Each round is over after some records: the next one begins with another task."""
    cluster = Cluster(tmp_path, partitions=3, clock=clock)
    order: list[str] = []

    class Noting(Slow):
        def process(self, record: Record[Any, Any]) -> None:
            order.append(record.value[0])
            super().process(record)

    try:
        for partition, name in enumerate("abc"):
            cluster.send(*[f"{name}{number}" for number in range(50)], partition=partition)
        topology = Topology().add_source("source", "in")
        topology.add_processor("slow", lambda: Noting(clock, lambda value: 0.05, Counter()), "source")
        cluster.app(topology.add_sink("sink", "out", "slow"), EOS)
        wait_until("all were processed", lambda: len(order) >= 150)
    finally:
        cluster.close()
    at = {name: [place for place, found in enumerate(order) if found == name][25] for name in "abc"}
    assert max(at.values()) - min(at.values()) < 25, order


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("topics", [("in",), ("in", "in-too")])
def test_a_stop_ends_processing_after_the_record_in_work(
    guarantee: str, topics: tuple[str, ...], cluster: Cluster, clock: JumpingClock
) -> None:
    """Everything that was fetched was processed first."""
    calls: Counter[str] = Counter()
    reached, go_on = threading.Event(), threading.Event()

    def seconds(value: str) -> float:
        if value == "20":
            reached.set()
            assert go_on.wait(20.0)
        return 0.001

    cluster.broker.create_topic("in-too")
    cluster.send(*map(str, range(500)))
    settings = {"processing.guarantee": guarantee, "commit.interval.ms": 60_000}
    settings["producer.transaction.timeout.ms"] = 600_000
    app = cluster.app(slow(clock, seconds, calls, *topics), settings)
    assert reached.wait(20.0)
    closer = threading.Thread(target=app.close, args=(20,))
    closer.start()
    wait_until(
        "its thread is asked to end", lambda: all(thread._thread.stopping.is_set() for thread in app._run.threads or ())
    )
    go_on.set()
    closer.join()
    assert len(calls) == 21
    assert len(cluster.values()) == 21


def test_a_record_that_takes_longer_than_the_transaction_is_one_clear_error(
    cluster: Cluster, clock: JumpingClock
) -> None:
    """It was processed again and again, for ever."""
    calls: Counter[str] = Counter()
    cluster.send("quick", "quick too", "slow", "after")
    app = cluster.app(slow(clock, lambda value: 2.5 if value == "slow" else 0.0, calls), EOS)
    cluster.until_state(app, ClientState.ERROR)
    error = app.failure
    assert isinstance(error, ProcessingError)
    assert "a record took 2.5 s in user code, longer than producer.transaction.timeout.ms (1000)" in str(error)
    assert (error.topic, error.partition, error.offset, error.node) == ("in", 0, 2, "source")
    assert error.task == "0_0"
    assert calls["slow"] == 2
    assert cluster.values() == ["quick", "quick too"]


def test_a_record_that_takes_longer_once_is_processed_again(cluster: Cluster, clock: JumpingClock) -> None:
    calls: Counter[str] = Counter()
    cluster.send("quick", "slow", "after")
    app = cluster.app(slow(clock, lambda value: 2.5 if value == "slow" and calls[value] == 1 else 0.0, calls), EOS)
    cluster.until_out("quick", "slow", "after")
    assert calls["slow"] == 2
    assert app.state is ClientState.RUNNING


def test_time_before_a_transaction_has_anything_in_it_does_not_count(cluster: Cluster, clock: JumpingClock) -> None:
    """The broker counts from the first record on: a function may take as long as it wants where it sends afterwards."""

    class Before(Processor[Any, Any, Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            clock.ahead_s += 2.5
            self.context.forward(record)

    cluster.send("a", "b", "c")
    topology = Topology().add_source("source", "in").add_processor("p", Before, "source")
    app = cluster.app(topology.add_sink("sink", "out", "p"), EOS)
    cluster.until_out("a", "b", "c")
    assert app.state is ClientState.RUNNING


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_record_that_takes_longer_than_the_poll_interval_is_one_clear_error(
    guarantee: str, cluster: Cluster, clock: JumpingClock
) -> None:
    """The group gave its task away each time, and nothing was committed."""
    calls: Counter[str] = Counter()
    cluster.send("quick", "slow", "after")
    settings = {**MEMBER, "processing.guarantee": guarantee}
    app = cluster.app(slow(clock, lambda value: 2.5 if value == "slow" else 0.0, calls), settings)
    cluster.until_state(app, ClientState.ERROR)
    error = app.failure
    assert isinstance(error, ProcessingError)
    assert "a record took 2.5 s in user code, longer than consumer.max.poll.interval.ms (1000)" in str(error)
    assert (error.topic, error.partition, error.offset) == ("in", 0, 1)
    assert calls["slow"] == 2


class Punctuating(Processor[Any, Any, Any, Any]):
    """Has several punctuations, each of which forwards and then takes long."""

    def __init__(self, clock: JumpingClock, count: int, seconds: float) -> None:
        self._clock, self._count, self._seconds = clock, count, seconds

    def init(self, context: Any) -> None:
        super().init(context)
        for number in range(self._count):
            context.schedule(10, PunctuationType.WALL_CLOCK_TIME, lambda now, number=number: self.tick(str(number)))

    def tick(self, name: str) -> None:
        self.context.forward(Record("k", name, 1))
        self._clock.ahead_s += self._seconds

    def process(self, record: Record[Any, Any]) -> None:
        pass


def punctuating(clock: JumpingClock, count: int, seconds: float) -> Topology:
    topology = Topology().add_source("source", "in")
    topology.add_processor("ticking", lambda: Punctuating(clock, count, seconds), "source")
    return topology.add_sink("sink", "out", "ticking")


def test_punctuations_that_take_long_together_are_committed_in_parts(cluster: Cluster, clock: JumpingClock) -> None:
    app = cluster.app(punctuating(clock, 4, 0.4), EOS)
    wait_until("each was committed", lambda: set(cluster.values()) == {"0", "1", "2", "3"})
    assert app.failure is None


def test_a_punctuation_that_takes_longer_than_the_transaction_is_one_clear_error(
    cluster: Cluster, clock: JumpingClock
) -> None:
    app = cluster.app(punctuating(clock, 1, 2.5), EOS)
    cluster.until_state(app, ClientState.ERROR)
    error = app.failure
    assert isinstance(error, ProcessingError)
    assert (
        "a punctuation of node 'ticking' took 2.5 s in user code, longer than producer.transaction.timeout.ms"
        in str(error)
    )
    assert (error.node, error.task) == ("ticking", "0_0")


def test_slow_code_behind_a_cache_gets_on(cluster: Cluster, clock: JumpingClock) -> None:
    """It runs when the cache is drained for a commit: no more is processed before one than is drained in time."""
    calls: Counter[str] = Counter()

    def look_up(key: str, count: int) -> str:
        calls[key] += 1
        clock.ahead_s += 0.02
        return f"{key}={count}"

    builder = StreamsBuilder()
    counts = Materialized[str, int](name="counts", key_serde=S, value_serde=Serdes.LONG)
    groups = builder.stream("in", Consumed(key_serde=S, value_serde=S)).group_by_key(
        Grouped(key_serde=S, value_serde=S)
    )
    groups.count(materialized=counts).to_stream().map_values_with_key(look_up).to(
        "out", Produced(key_serde=S, value_serde=S)
    )
    keys = [f"k{number}" for number in range(400)]
    for key in keys:
        cluster.send("v", key=key)
    app = cluster.app(builder.build({}), EOS)
    cluster.until_out(*[f"{key}=1" for key in keys])
    assert app.failure is None
    assert max(calls.values()) <= 2
