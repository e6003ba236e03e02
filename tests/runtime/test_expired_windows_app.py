"""Changelogs of windows are cut by the time of their store, and by nothing else (semantics 162, 163)."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from dsl import Materialized, Produced, SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows
from processor_api.clock import SystemClock
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.stores.windowed import Windowed
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from streams.runtime.tasks.expired_windows import CutChangelogs, ExpiredWindows, Expiry
from streams.testing import EmbeddedKafka
from waiting import wait_until

S = Serdes.STRING
CHANGELOG = TopicPartition("app-kept-changelog", 0)
MINUTE = 60_000
DAY = 86_400_000
LONG_AGO = 1_500_000_000_000 // DAY * DAY
AT_ONCE = {"repartition.purge.interval.ms": 20, "windowstore.changelog.additional.retention.ms": 0}


def said(windowed: Windowed[str], count: int | None) -> str:
    return f"{windowed.window.start - LONG_AGO}={count}"


def counting(windows: Any, **topic_config: str) -> Topology:
    """Counts by window, and writes each result as text.

    :param topic_config: settings of the changelog that the user gives.
    """
    builder = StreamsBuilder()
    given = {name.replace("_", "."): value for name, value in topic_config.items()}
    kept: Materialized[str, int] = Materialized(name="kept", topic_config=given)
    counts = builder.stream("in").group_by_key().windowed_by(windows).count(materialized=kept).to_stream()
    texts = counts.map(lambda windowed, count: (windowed.key, said(windowed, count)))
    texts.to("out", Produced(key_serde=S, value_serde=S))
    return builder.build()


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
@pytest.mark.parametrize(
    "windows",
    [
        TimeWindows.of_size_with_no_grace(MINUTE),
        SlidingWindows.of_time_difference_with_no_grace(MINUTE),
        SessionWindows.of_inactivity_gap_with_no_grace(5_000),
    ],
    ids=["time", "sliding", "session"],
)
def test_rows_go_by_stream_time_and_open_windows_stay(windows: Any, guarantee: str, tmp_path: Path) -> None:
    """The broker's clock is years ahead, it looks for old records all the time, and the state directory is lost."""
    with Cluster(tmp_path) as cluster:
        app = cluster.app(counting(windows), AT_ONCE, processing_guarantee=guarantee)
        log = None
        for minute in range(30):
            for second in (0, 3, 6):
                cluster.send("v", timestamp=LONG_AGO + minute * MINUTE + second * 1000)
        cluster.until(lambda: cluster.committed() == 90)
        cluster.broker.clean(CHANGELOG.topic)
        log = cluster.broker.log(CHANGELOG)
        if guarantee == "at_least_once":  # the time of the markers of transactions is the broker's
            wait_until("expired rows are deleted", lambda: log.start_offset > 0)
        assert cluster.broker.topic("app-kept-changelog").settings()["retention.ms"] == "-1"
        assert app.close(60)
        cluster.broker.clean(CHANGELOG.topic)
        before = len(cluster.values())
        cluster.app(counting(windows), AT_ONCE, processing_guarantee=guarantee)
        cluster.send("v", timestamp=LONG_AGO + 29 * MINUTE + 7_000)
        cluster.until(lambda: len(cluster.values()) > before)
        assert any(one.endswith("=4") for one in cluster.values()[before:]), cluster.values()[before:]


def test_nothing_goes_while_stream_time_stands(tmp_path: Path) -> None:
    """However long the wall clock goes on: the application was stopped, or no record came."""
    with Cluster(tmp_path) as cluster:
        app = cluster.app(counting(TimeWindows.of_size_with_no_grace(MINUTE)), AT_ONCE)
        cluster.send("v", "v", timestamp=LONG_AGO)
        cluster.until(lambda: cluster.committed() == 2)
        assert app.close(60)
        cluster.broker.clean(CHANGELOG.topic)
        assert cluster.broker.log(CHANGELOG).start_offset == 0
        cluster.app(counting(TimeWindows.of_size_with_no_grace(MINUTE)), AT_ONCE)
        cluster.send("v", timestamp=LONG_AGO + 1)
        cluster.until(lambda: "0=3" in cluster.values())


def test_a_changelog_that_the_broker_cuts_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A replay of old records lost the windows of a restore, and nothing said so."""
    kept = counting(TimeWindows.of_size_with_no_grace(MINUTE), retention_ms=str(DAY))
    with Cluster(tmp_path) as cluster, caplog.at_level(logging.WARNING, "streams"):
        app = cluster.app(kept, AT_ONCE)
        cluster.send("v", "v", timestamp=LONG_AGO)
        cluster.until(lambda: "loses rows that store 'kept' still needs" in caplog.text)
        cluster.until(lambda: cluster.committed() == 2)
        (warning,) = [one for one in caplog.records if "loses rows" in one.getMessage()]
        assert f"retention.ms={DAY}, and the time of its records" in warning.getMessage()
        assert "--entity-name app-kept-changelog --alter --add-config retention.ms=-1" in warning.getMessage()
        assert "first records are gone" not in warning.getMessage()
        assert app.close(60)
        caplog.clear()
        cluster.broker.log(CHANGELOG).delete_before(1)
        cluster.app(kept, AT_ONCE)
        cluster.until(lambda: "Its first records are gone, so the store may lack some now" in caplog.text)


def test_a_changelog_that_forgets_versions_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    builder = StreamsBuilder()
    versions = Stores.persistent_versioned_key_value_store("kept", MINUTE)
    builder.table("in", materialized=Materialized(supplier=versions))
    with Cluster(tmp_path) as cluster, caplog.at_level(logging.WARNING, "streams"):
        cluster.app(builder.build(), AT_ONCE)
        cluster.send("v", timestamp=LONG_AGO)
        cluster.until(lambda: "loses rows that store 'kept' still needs: min.compaction.lag.ms=" in caplog.text)


def test_a_changelog_that_may_not_be_cut_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It has the user's own policy, which is to be compacted only."""
    with Cluster(tmp_path) as cluster, caplog.at_level(logging.WARNING, "streams.purge"):
        only = {**AT_ONCE, "topic.cleanup.policy": "compact"}
        cluster.app(counting(TimeWindows.of_size_with_no_grace(MINUTE)), only)
        for minute in range(40):
            cluster.send("v", timestamp=LONG_AGO + minute * MINUTE)
            cluster.until(lambda sent=minute + 1: cluster.committed() == sent)
        cluster.until(lambda: "rows of expired windows are not deleted from changelogs, which grow" in caplog.text)
        assert len([one for one in caplog.records if "which grow" in one.getMessage()]) == 1


def test_what_was_found_due_before_a_refusal_is_not_tried(caplog: pytest.LogCaptureFixture) -> None:
    """Was that it was refused, and said, once more where the next purge had been found due meanwhile."""
    with EmbeddedKafka() as kafka:
        kafka.create_topics(CHANGELOG.topic, configs={"cleanup.policy": "compact"})
        topic = kafka.create_input_topic(CHANGELOG.topic)
        for time in (LONG_AGO, LONG_AGO + MINUTE):
            topic.pipe_input("k", "v", timestamp=time)
        admin = kafka.clients.admin({})
        expired = ExpiredWindows(admin, CutChangelogs(admin, SystemClock()), 0)
        due = Expiry({CHANGELOG: LONG_AGO + 1}, {})
        with caplog.at_level(logging.WARNING, "streams.purge"):
            expired.purge(due)
            expired.purge(due)
    assert ["which grow" in one.getMessage() for one in caplog.records] == [True]
