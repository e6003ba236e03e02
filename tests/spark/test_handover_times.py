"""Handovers of tables that end long ago, and of tables that the topology does not have any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dsl import Materialized, StreamsBuilder, TimeWindows
from processor_api.errors import BootstrapIncompleteError
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from spark_support.finished_runs import Sent, run_directory, send_all
from streams.app.states import ClientState
from streams.spark.errors import InternalTopicMismatch
from streams.spark.handover.bootstrap import bootstrap
from streams.spark.handover.check import check_handover

S = Serdes.STRING
CONFIG = {"application.id": "app", "bootstrap.servers": "in-memory:9092", "default.key.serde": "string",
          "default.value.serde": "string"}  # fmt: skip
HOUR, DAY = 3_600_000, 86_400_000
LONG_AGO = 1_500_000_000_000
RECORDS = [Sent("in", 0, b"k", b"v", LONG_AGO), Sent("in", 0, b"k", b"w", LONG_AGO + 1)]


def hours() -> Topology:
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_with_no_grace(HOUR)
    builder.stream("in").group_by_key().windowed_by(windows).count(materialized="kept")
    return builder.build()


def versions() -> Topology:
    builder = StreamsBuilder()
    kept = Stores.persistent_versioned_key_value_store("kept", HOUR)
    builder.table("in", materialized=Materialized(supplier=kept))
    return builder.build()


def latest(store: str) -> Callable[[], Topology]:
    def build() -> Topology:
        builder = StreamsBuilder()
        builder.stream("in").group_by_key().reduce(lambda _, value: value, materialized=store)
        return builder.build()

    return build


@pytest.fixture(name="live")
def live_fixture(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "live", topics={"in": 1}) as cluster:
        send_all(cluster.clients.producer({}), RECORDS)
        yield cluster


@pytest.mark.parametrize(
    ("topology", "configs", "needed"),
    [
        (hours, {"cleanup.policy": "compact,delete", "retention.ms": str(HOUR + DAY)}, "retention.ms=-1"),
        (versions, {"cleanup.policy": "compact", "min.compaction.lag.ms": str(HOUR + DAY)}, "min.compaction.lag.ms="),
    ],
)
def test_a_changelog_that_the_broker_cuts_is_refused(
    topology: Callable[[], Topology], configs: dict[str, str], needed: str, live: Cluster, tmp_path: Path
) -> None:
    """It was written, the broker deleted the open windows, and bootstrap, check and worker were content."""
    run = run_directory(tmp_path / "run", topology, RECORDS, {"in": 1}, sinks={})
    live.broker.create_topic("app-kept-changelog", 1, configs)
    with pytest.raises(InternalTopicMismatch, match=f"loses rows that store 'kept' still needs.*{needed}"):
        bootstrap(run, CONFIG, topology=topology, clients=live.clients)
    assert not live.broker.groups.group("app").offsets
    live.broker.delete_topic("app-kept-changelog")
    assert bootstrap(run, CONFIG, topology=topology, clients=live.clients).complete
    assert check_handover(CONFIG, topology, clients=live.clients).problems == ()
    made = live.broker.topic("app-kept-changelog").settings()
    if topology is hours:
        assert made["retention.ms"] == "-1"
    else:
        assert int(made["min.compaction.lag.ms"]) > 365 * DAY
    live.broker.clean("app-kept-changelog")
    assert live.broker.log(TopicPartition("app-kept-changelog", 0)).start_offset == 0


def test_a_table_of_today_is_handed_over_to_a_topic_that_exists(tmp_path: Path) -> None:
    """As Kafka Streams has made it: it keeps what is needed."""
    import time

    records = [Sent("in", 0, b"k", b"v", int(time.time() * 1000) - HOUR)]
    with Cluster(tmp_path / "live", topics={"in": 1}) as live:
        send_all(live.clients.producer({}), records)
        run = run_directory(tmp_path / "run", hours, records, {"in": 1}, sinks={})
        configs = {"cleanup.policy": "compact,delete", "retention.ms": str(HOUR + DAY)}
        live.broker.create_topic("app-kept-changelog", 1, configs)
        assert bootstrap(run, CONFIG, topology=hours, clients=live.clients).complete
        assert check_handover(CONFIG, hours, clients=live.clients).problems == ()


def test_a_store_that_was_renamed_since_the_handover_is_refused(live: Cluster, tmp_path: Path) -> None:
    """The check was content, and the worker started at the cut with an empty table."""
    run = run_directory(tmp_path / "run", latest("totals"), RECORDS, {"in": 1}, sinks={})
    assert bootstrap(run, CONFIG, topology=latest("totals"), clients=live.clients).complete
    assert check_handover(CONFIG, latest("totals"), clients=live.clients).problems == ()
    (problem,) = check_handover(CONFIG, latest("sums"), clients=live.clients).problems
    assert (
        "has filled 1 changelog(s) of task 0_0 that this topology does not have (its stores there: 'sums')" in problem
    )
    before = dict(live.broker.groups.group("app").offsets)
    app = live.app(latest("sums")(), CONFIG)
    live.until_state(app, ClientState.ERROR)
    assert isinstance(app.failure, BootstrapIncompleteError)
    assert live.broker.groups.group("app").offsets == before
    app = live.app(latest("totals")(), CONFIG)
    live.until_state(app, ClientState.RUNNING)
    send_all(live.clients.producer({}), [Sent("in", 0, b"k", b"x", LONG_AGO + 2)])
    live.until(lambda: live.broker.groups.group("app").offsets[next(iter(before))].offset == 3)
    assert app.close(30)
    app = live.app(latest("sums")(), CONFIG)  # stores come and go once the application has committed
    live.until_state(app, ClientState.RUNNING)
