"""Changelogs of windows of long ago, on a broker that looks for old records and compacts all the time.

The broker deletes by the wall clock, and stores forget by stream time: a replay of old records had the windows in its
changelog deleted while they were open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewTopic

from dsl import Materialized, Produced, StreamsBuilder, TimeWindows
from integration_support.fierce_broker import wait_for_the_cleaner
from processor_api.serde import Serdes
from spark_support.finished_runs import Sent, run_directory
from streams.app.kafka_streams import KafkaStreams
from streams.spark.handover.bootstrap import bootstrap
from streams.spark.handover.check import check_handover
from waiting import wait_until

S = Serdes.STRING
HOUR = 3_600_000
LONG_AGO = 1_600_000_000_000 // HOUR * HOUR
AFTER_CHANGELOG = {"windowstore.changelog.additional.retention.ms": 0, "repartition.purge.interval.ms": 100}


def hours(source: str, sink: str, grace: timedelta, **topic_config: str) -> StreamsBuilder:
    builder = StreamsBuilder()
    given = {name.replace("_", "."): value for name, value in topic_config.items()}
    windows = TimeWindows.of_size_and_grace(timedelta(hours=1), grace)
    kept: Materialized[str, int] = Materialized(name="hours", topic_config=given)
    table = builder.stream(source).group_by_key().windowed_by(windows).count(materialized=kept)
    table.to_stream(lambda windowed, count: windowed.key).to(sink, Produced(key_serde=S, value_serde=Serdes.LONG))
    return builder


class Hours:
    """An application that counts by the hour, and its topics."""

    def __init__(self, bootstrap: str, name: str, directory: Path) -> None:
        self.bootstrap, self.name, self._directory = bootstrap, name, directory
        self.changelog = f"{name}-hours-changelog"
        self.source, self.sink = f"{name}-in", f"{name}-out"
        self._starts = 0
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.create({topic: {"retention.ms": "-1"} for topic in (self.source, self.sink)})

    def create(self, topics: dict[str, dict[str, str]]) -> None:
        for future in self.admin.create_topics([NewTopic(t, 1, 1, config=c) for t, c in topics.items()]).values():
            future.result()

    def start(self, guarantee: str, grace: timedelta, **topic_config: str) -> KafkaStreams:
        """Starts a worker that has no state."""
        app = KafkaStreams(hours(self.source, self.sink, grace, **topic_config), self.settings(guarantee))
        app.start()
        return app

    def settings(self, guarantee: str) -> dict[str, Any]:
        self._starts += 1
        return {
            "application.id": self.name,
            "bootstrap.servers": self.bootstrap,
            "state.dir": str(self._directory / str(self._starts)),
            "processing.guarantee": guarantee,
            "default.key.serde": "string",
            "default.value.serde": "string",
            "commit.interval.ms": 100,
            **AFTER_CHANGELOG,
        }

    def send(self, times: list[int]) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for time in times:
            producer.produce(self.source, "v", "k", timestamp=time)
        assert producer.flush(60) == 0

    def counts(self) -> list[int]:
        """The results that are committed."""
        consumer = Consumer({
            "bootstrap.servers": self.bootstrap, "group.id": "reader", "isolation.level": "read_committed",
        })  # fmt: skip
        try:
            place = ClientPartition(self.sink, 0, 0)
            _, end = consumer.get_watermark_offsets(place, 10)
            consumer.assign([place])
            found: list[int] = []
            while (position := consumer.position([place])[0].offset) < end:
                message = consumer.poll(1.0)
                if message is None and position == consumer.position([place])[0].offset and found:
                    break  # markers of transactions are behind the last record
                if message is not None and message.error() is None:
                    found.append(int.from_bytes(message.value(), "big"))
                elif message is None and not found and end == 0:
                    break
            return found
        finally:
            consumer.close()

    def begin(self) -> int:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "reader"})
        try:
            return consumer.get_watermark_offsets(ClientPartition(self.changelog, 0), 10)[0]  # type: ignore[no-any-return]
        finally:
            consumer.close()


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.slow)])
def test_open_windows_of_long_ago_outlive_the_state_directory(
    fierce: str, unique_name: Callable[[str], str], tmp_path: Path, guarantee: str
) -> None:
    app = Hours(fierce, unique_name("kept"), tmp_path)
    first = app.start(guarantee, timedelta(hours=1))
    app.send([LONG_AGO + number for number in range(50)])
    wait_until("50 are counted", lambda: app.counts()[-1:] == [50])
    assert first.close(30)
    wait_for_the_cleaner(fierce, unique_name("canary"))
    assert app.begin() == 0
    second = app.start(guarantee, timedelta(hours=1))
    app.send([LONG_AGO + number for number in range(50, 100)])
    wait_until("100 are counted", lambda: app.counts()[-1:] == [100])
    assert second.close(30)


def test_rows_of_expired_windows_are_deleted(fierce: str, unique_name: Callable[[str], str], tmp_path: Path) -> None:
    """By stream time; the window that is open goes on in a worker without state."""
    app = Hours(fierce, unique_name("expired"), tmp_path)
    first = app.start("at_least_once", timedelta(0))
    app.send([LONG_AGO + number * HOUR // 2 for number in range(40)])
    wait_until("rows are deleted", lambda: app.begin() > 0)
    wait_until("all are counted", lambda: len(app.counts()) >= 20)
    assert first.close(30)
    wait_for_the_cleaner(fierce, unique_name("canary"))
    second = app.start("at_least_once", timedelta(0))
    app.send([LONG_AGO + 39 * HOUR // 2 + 1])
    wait_until("the third of the last hour is counted", lambda: app.counts()[-1:] == [3])
    assert second.close(30)


def test_a_changelog_that_the_broker_cuts_is_warned_of(
    fierce: str, unique_name: Callable[[str], str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As Kafka Streams makes it: the windows are lost, and both starts say so."""
    app = Hours(fierce, unique_name("cut"), tmp_path)
    app.create({app.changelog: {"cleanup.policy": "compact,delete", "retention.ms": str(26 * HOUR)}})
    with caplog.at_level(logging.WARNING, "streams"):
        first = app.start("at_least_once", timedelta(hours=1))
        app.send([LONG_AGO + number for number in range(50)])
        wait_until("it is warned of", lambda: "loses rows that store 'hours' still needs" in caplog.text)
        assert first.close(30)
        wait_until("the broker has cut it", lambda: app.begin() > 0)
        caplog.clear()
        app.send([LONG_AGO + 50])
        second = app.start("at_least_once", timedelta(hours=1))
        wait_until("it is warned of", lambda: "loses rows that store 'hours' still needs" in caplog.text)
        assert second.close(30)


def test_windows_of_a_history_of_long_ago_are_handed_over(
    fierce: str, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    """Half of an hour's records are in the history, half come live: the counts were those of the live half."""
    app = Hours(fierce, unique_name("handed"), tmp_path)
    times = [LONG_AGO + number for number in range(100)]
    app.send(times)
    history = [Sent(app.source, 0, b"k", b"v", time) for time in times[:50]]

    def topology() -> Any:
        return hours(app.source, app.sink, timedelta(hours=1)).build()

    defaults = {"default_key_serde": "string", "default_value_serde": "string"}
    run = run_directory(tmp_path / "run", topology, history, {app.source: 1}, sinks={app.sink: 1}, **defaults)
    settings = app.settings("at_least_once")
    assert bootstrap(run, settings, topology=topology).complete
    wait_for_the_cleaner(fierce, unique_name("canary"))
    assert app.begin() == 0
    assert check_handover(settings, topology).problems == ()
    worker = KafkaStreams(topology(), settings)
    worker.start()
    wait_until("100 are counted", lambda: app.counts()[-1:] == [100])
    assert worker.close(30)
