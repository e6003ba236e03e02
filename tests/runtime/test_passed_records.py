"""A restore of a window store starts where its retention begins, and leaves the rows of one of the whole changelog."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsl import EmitStrategy, Materialized, Produced, SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows
from dsl.windows.definitions import Windows
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.windowed import Window
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster, Restores
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from streams.testing.broker import EmbeddedClients
from waiting import wait_until

S = Serdes.STRING
CHANGELOG = TopicPartition("app-kept-changelog", 0)
MINUTE = 60_000
START = 4_000_000_000_000 // (60 * MINUTE) * 60 * MINUTE
"""Later than the broker's clock, whose time the markers of transactions have."""
HOUR_OF_RETENTION = 60 * MINUTE


def counting(windows: Any, *, retention: int | None = None, final: bool = False, **options: Any) -> Topology:
    """Counts by key and window."""
    builder = StreamsBuilder()
    groups = builder.stream("in").group_by_key().windowed_by(windows)
    groups = groups.emit_strategy(EmitStrategy.on_window_close()) if final else groups
    kept: Any = Materialized(name="kept", retention=retention, **options)
    counts = groups.count(materialized=kept).to_stream()
    texts = counts.map(lambda windowed, count: (windowed.key, f"{windowed.key}@{windowed.window.start}={count}"))
    texts.to("out", Produced(key_serde=S, value_serde=S))
    return builder.build()


def rows(app: KafkaStreams) -> list[tuple[bytes, bytes | None, Any, Any]]:
    """Returns all rows of the store as they stand in its engine, with those that are not shown any more."""
    wait_until("it runs", lambda: app.state is ClientState.RUNNING)
    (task,) = [task for thread in app._run.threads or () for task in thread.running_tasks()]
    return [(row.key, row.value, row.timestamp, tuple(row.more.items())) for row in task.stores.progress.rows("kept")]


def shown(app: KafkaStreams) -> list[tuple[bytes, bytes | None, Any, Any]]:
    """Returns those that the store shows."""
    (task,) = [task for thread in app._run.threads or () for task in thread.running_tasks()]
    live_from = task.stores.stores["kept"].operator.timed.segments.live_from
    return [row for row in rows(app) if dict(row[3])["window_start"] >= live_from]


def restored(cluster: Cluster, topology: Topology, **config: Any) -> tuple[list[Any], list[Any], Restores]:
    """Returns the rows of a worker without state, those of them that it shows, and what its listener was given."""
    restores = Restores()
    app = cluster.start(topology, restores, **config)
    found = rows(app), shown(app), restores
    assert app.close(60)
    return found


def send_history(cluster: Cluster, history: list[tuple[str, int]]) -> None:
    for key, time in history:
        cluster.send("v", key=key, timestamp=START + time)
    cluster.until(lambda: cluster.committed() == len(history))


def six_hours() -> list[tuple[str, int]]:
    return [(key, minute * MINUTE + 1000) for minute in range(360) for key in ("a", "b", "c")]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_six_hours_of_windows_restore_a_retention(guarantee: str, tmp_path: Path) -> None:
    """Two hours at most: an hour, and half an hour that the store deletes as a whole."""
    windows = TimeWindows.of_size_with_no_grace(MINUTE)
    topology = counting(windows, retention=HOUR_OF_RETENTION)
    with Cluster(tmp_path) as cluster:
        app = cluster.start(topology, processing_guarantee=guarantee)
        send_history(cluster, six_hours())
        live = shown(app)
        assert app.close(60)
        found, now_shown, restores = restored(cluster, topology, processing_guarantee=guarantee)
        (restore,) = restores.ended
        assert 180 <= restore[2] <= 3 * 92, restores.ended
        assert now_shown == live
        assert 180 <= len(live) <= 3 * 92
        cluster.broker.topic(CHANGELOG.topic).configure({"message.timestamp.type": "LogAppendTime"})
        whole, _, restores = restored(cluster, topology, processing_guarantee=guarantee)
        assert restores.ended[0][2] == 1080
        assert found == whole


WINDOWS: list[Any] = [
    TimeWindows.of_size_with_no_grace(MINUTE),
    TimeWindows.of_size_and_grace(2 * MINUTE, 3 * MINUTE).advance_by(MINUTE),
    TimeWindows.of_size_and_grace(MINUTE, 7 * MINUTE),
    SlidingWindows.of_time_difference_and_grace(MINUTE, 4 * MINUTE),
    SlidingWindows.of_time_difference_with_no_grace(90_000),
]

HISTORIES = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.integers(0, 3 * MINUTE),  # time goes on by so much
        st.one_of(st.just(0), st.integers(0, 12 * MINUTE)),  # and the record is as late
    ),
    min_size=10,
    max_size=50,
)


def times(drawn: list[tuple[str, int, int]]) -> Iterator[tuple[str, int]]:
    now = 20 * MINUTE
    for key, step, late in drawn:
        now += step
        yield key, now - late


@settings(max_examples=25)
@given(
    history=HISTORIES,
    windows=st.sampled_from(WINDOWS),
    retention=st.sampled_from([None, 9 * MINUTE, 20 * MINUTE]),
    final=st.booleans(),
    options=st.sampled_from([{}, {"store_type": "memory"}, {"caching": False}]),
    commits=st.sampled_from([5, 300]),
    guarantee=st.sampled_from(["at_least_once", "exactly_once_v2"]),
)
def test_the_rows_are_those_of_the_whole_changelog(
    history: list[tuple[str, int, int]],
    windows: Any,
    retention: int | None,
    final: bool,
    options: dict[str, Any],
    commits: int,
    guarantee: str,
) -> None:
    """Rows as they stand in the engine, for histories with late records."""
    topology = counting(windows, retention=retention, final=final, **options)
    config: dict[str, Any] = {"commit_interval_ms": commits, "processing_guarantee": guarantee}
    with tempfile.TemporaryDirectory() as directory, Cluster(Path(directory)) as cluster:
        app = cluster.start(topology, **config)
        sent = list(times(history))
        for key, time in sent:
            cluster.send("v", key=key, timestamp=START + time)
        cluster.until(lambda: cluster.committed() == len(sent))
        assert app.close(60)
        passing, passing_shown, restores = restored(cluster, topology, **config)
        if CHANGELOG.topic in cluster.broker.topics:
            cluster.broker.topic(CHANGELOG.topic).configure({"message.timestamp.type": "LogAppendTime"})
        whole, whole_shown, all_restores = restored(cluster, topology, **config)
        assert sum(one[2] for one in restores.ended) <= sum(one[2] for one in all_restores.ended)
        assert passing == whole
        assert passing_shown == whole_shown


class OfTomorrow(Windows):
    """Windows that do not hold the records that they are for."""

    @property
    def size_ms(self) -> int:
        return MINUTE

    @property
    def grace_ms(self) -> int:
        return 0

    def windows_for(self, timestamp: int) -> list[Window]:
        start = timestamp - timestamp % MINUTE + 24 * 60 * MINUTE
        return [Window(start, start + MINUTE)]


class PutAhead(Processor[Any, Any, Any, Any]):
    """Puts rows into the store of an aggregation, which are later than their records."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.kept = context.get_state_store("kept")

    def process(self, record: Record[Any, Any]) -> None:
        self.kept.put(record.key, (1, record.timestamp), record.timestamp + 24 * 60 * MINUTE)


def with_processor() -> Topology:
    topology = counting(TimeWindows.of_size_with_no_grace(MINUTE), retention=HOUR_OF_RETENTION)
    source = next(iter(topology.nodes))
    return topology.add_processor("ahead", PutAhead, source).connect_processor_and_state_stores("ahead", "kept")


@pytest.mark.parametrize(
    "topology",
    [
        counting(SessionWindows.of_inactivity_gap_with_no_grace(1_000), retention=HOUR_OF_RETENTION),
        counting(OfTomorrow(), retention=HOUR_OF_RETENTION),
        with_processor(),
        counting(
            TimeWindows.of_size_with_no_grace(MINUTE),
            retention=HOUR_OF_RETENTION,
            topic_config={"message.timestamp.type": "LogAppendTime"},
        ),
    ],
    ids=["sessions", "own windows", "a processor", "times of the broker"],
)
def test_a_store_whose_timestamps_tell_nothing_reads_all(topology: Topology, tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        app = cluster.start(topology)
        send_history(cluster, [(key, time) for key, time in six_hours() if time % (10 * MINUTE) < MINUTE])
        assert app.close(60)
        restores = Restores()
        app = cluster.start(topology, restores)
        assert restores.ended[0][2] == len(cluster.broker.records(CHANGELOG.topic))


def test_a_session_that_a_late_record_made_longer_is_restored(tmp_path: Path) -> None:
    """It is logged with the time of that record, hours before its end."""
    windows = SessionWindows.of_inactivity_gap_and_grace(90_000, MINUTE)
    topology = counting(windows, retention=10 * MINUTE)
    with Cluster(tmp_path) as cluster:
        app = cluster.start(topology, commit_interval_ms=300)
        history = [("a", minute * MINUTE) for minute in range(240)] + [("a", 1), ("b", 239 * MINUTE)]
        send_history(cluster, history)
        assert app.close(60)
        found = rows(cluster.start(topology))
        assert [(row[0], row[3]) for row in found if row[0] == b"a"] == [
            (b"a", (("session_start", START), ("session_end", START + 239 * MINUTE)))
        ]


def failing() -> Topology:
    """Keeps the last value of each window; the value ``bad`` cannot be aggregated, and moves the operator's time."""

    def last(key: str, value: str, so_far: str) -> str:
        if value == "bad":
            raise ValueError(value)
        return value

    builder = StreamsBuilder()
    windows = TimeWindows.of_size_with_no_grace(MINUTE)
    kept: Any = Materialized(name="kept", retention=HOUR_OF_RETENTION, value_serde=S)
    table = builder.stream("in").group_by_key().windowed_by(windows).aggregate(lambda: "", last, materialized=kept)
    texts = table.to_stream().map(lambda windowed, value: (windowed.key, value))
    texts.to("out", Produced(key_serde=S, value_serde=S))
    return builder.build()


CONTINUE: dict[str, Any] = {"processing_exception_handler": "LogAndContinueProcessingExceptionHandler"}


def send_with_a_bad_record(cluster: Cluster) -> None:
    """The operator is half an hour later than the rows."""
    for minute in range(0, 360, 5):
        cluster.send(f"v{minute}", timestamp=START + minute * MINUTE)
    cluster.send("bad", timestamp=START + 390 * MINUTE)
    cluster.until(lambda: cluster.committed() == 73)


def test_a_changelog_that_does_not_reach_the_time_of_its_operator_is_read_whole(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Cluster(tmp_path) as cluster, caplog.at_level(logging.WARNING, "streams.restore"):
        app = cluster.start(failing(), **CONTINUE)
        send_with_a_bad_record(cluster)
        live = shown(app)
        assert app.close(60)
        found, now_shown, restores = restored(cluster, failing(), **CONTINUE)
        assert [one[2] > 0 for one in restores.started] == [True, False]
        assert "store is restored from all of its changelog" in caplog.text
        assert now_shown == live
        cluster.broker.topic(CHANGELOG.topic).configure({"message.timestamp.type": "LogAppendTime"})
        whole, _, _ = restored(cluster, failing(), **CONTINUE)
        assert found == whole


def copy_of(app: KafkaStreams) -> Any:
    return next((copy for thread in app._run.threads or () for copy in thread.list_standbys()), None)


@pytest.mark.parametrize("memory", [False, True], ids=["rocksdb", "memory"])
def test_a_standby_starts_where_the_retention_does(memory: bool, tmp_path: Path) -> None:
    options = {"store_type": "memory"} if memory else {}
    topology = counting(TimeWindows.of_size_with_no_grace(MINUTE), retention=HOUR_OF_RETENTION, **options)
    with Cluster(tmp_path) as cluster:
        first = cluster.start(topology, num_standby_replicas=1)
        send_history(cluster, six_hours())
        live = shown(first)
        second = cluster.start(topology, num_standby_replicas=1)
        end = cluster.broker.log(CHANGELOG).end_offset
        wait_until("the copy is full", lambda: (one := copy_of(second)) and followed(one).next_offset >= end)
        copy = followed(copy_of(second))
        assert 180 <= copy.job.progress.restored <= 3 * 92
        assert first.close(60)
        wait_until("it takes over", lambda: any(thread.running_tasks() for thread in second._run.threads or ()))
        assert shown(second) == live


def test_a_standby_that_does_not_reach_the_time_of_its_operator_reads_all(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        first = cluster.start(failing(), num_standby_replicas=1, **CONTINUE)
        send_with_a_bad_record(cluster)
        live = shown(first)
        second = cluster.start(failing(), num_standby_replicas=1, **CONTINUE)
        end = cluster.broker.log(CHANGELOG).end_offset
        wait_until("the copy is full", lambda: (one := copy_of(second)) and followed(one).next_offset >= end)
        assert first.close(60)
        wait_until("it takes over", lambda: any(thread.running_tasks() for thread in second._run.threads or ()))
        assert shown(second) == live


def followed(copy: Any) -> Any:
    """Returns how far the copy of the store is; one that follows nothing yet is nowhere."""
    return copy.changelogs.get("kept") or NOWHERE


class _Nowhere:
    next_offset = -1


NOWHERE = _Nowhere()


class _Few:
    """A consumer that gives a few records and no more."""

    def __init__(self, consumer: Any) -> None:
        self._consumer, self._left = consumer, 6

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def consume(self, max_messages: int, timeout_s: float) -> list[Any]:
        found = list(self._consumer.consume(min(max_messages, self._left), timeout_s)) if self._left else []
        self._left -= len(found)
        return found

    def poll(self, timeout_s: float) -> None:
        """Gives nothing."""

    def position(self, partition: Any) -> None:
        """Does not know it."""


class FewRestored(EmbeddedClients):
    """Clients whose restores come to a stop after a few records."""

    def consumer(self, config: Mapping[str, Any]) -> Any:
        made = super().consumer(config)
        return _Few(made) if str(config.get("client.id", "")).endswith("restore-consumer") else made


@pytest.mark.parametrize("reaches", [True, False], ids=["reaches its time", "does not"])
def test_a_restore_that_was_interrupted_goes_on(reaches: bool, tmp_path: Path) -> None:
    """What the store has to reach is noted with its rows."""
    with Cluster(tmp_path) as cluster:
        first = cluster.start(failing(), **CONTINUE)
        send_with_a_bad_record(cluster)
        if reaches:
            cluster.send("good", timestamp=START + 390 * MINUTE)
            cluster.until(lambda: cluster.committed() == 74)
        live = shown(first)
        assert first.close(60)
        place, restores = str(tmp_path / "again"), Restores()
        second = cluster.app(
            failing(), restores=restores, clients=FewRestored(cluster.broker), state_dir=place, **CONTINUE
        )
        wait_until("it has some", lambda: restores.batches)
        assert second.close(60)
        assert not restores.ended
        restores = Restores()
        third = cluster.start(failing(), restores, state_dir=place, **CONTINUE)
        assert shown(third) == live
        assert [one[2] > 0 for one in restores.started] == ([True] if reaches else [True, False])
