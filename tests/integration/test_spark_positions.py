"""The position of a table in its inputs: of the very commit that the table is of, while the application runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from integration_support.topics import Topics
from processor_api.clock import SystemClock
from processor_api.stores.factory import Stores
from streams import KafkaStreams, Materialized, Serdes, StreamsBuilder
from streams.spark import (
    Backfill,
    History,
    Position,
    PositionError,
    offsets_of,
    pin_offsets,
    position_of,
    read_table,
    read_topic,
)
from waiting import wait_until

TEXT, NUMBER = Serdes.STRING, Serdes.LONG
PARTITIONS, KEYS = 2, 50
NOW_MS = SystemClock().time_ms()
"""Records of 1970 are old enough to be compacted at once, whatever the topic says of versions."""
SETTINGS = {"default.key.serde": "string", "default.value.serde": "string"}


class Running:
    """An application that runs, with what it reads."""

    def __init__(self, bootstrap: str, topic: str, application: str, made: Any, state: Path, guarantee: str) -> None:
        self.bootstrap, self.topic, self.name, self.made = bootstrap, topic, application, made
        self._producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
        self.app = KafkaStreams(made, {
            **SETTINGS, "application.id": application, "bootstrap.servers": bootstrap, "state.dir": str(state),
            "processing.guarantee": guarantee, "commit.interval.ms": 100,
        })  # fmt: skip
        self.app.start()

    def send(self, numbers: range) -> None:
        for number in numbers:
            self._producer.produce(self.topic, f"v{number // KEYS}", f"key-{number % KEYS}", timestamp=NOW_MS + number)
        assert self._producer.flush(60) == 0

    def table(self, spark: Any, store: str, **options: Any) -> Any:
        """The table, as an analyst reads it who knows the names only."""
        return read_table(
            spark, {**SETTINGS, "bootstrap.servers": self.bootstrap}, self.made, store, application_id=self.name,
            **options,
        )  # fmt: skip

    def position(self, spark: Any, store: str) -> Position | None:
        try:
            return position_of(self.table(spark, store))
        except PositionError:
            return None

    def table_of_a_moment(self, spark: Any, store: str) -> tuple[Any, Position]:
        """A table with its position; on a machine with much other work a look may find no moment between commits."""

        def found() -> Any:
            table = self.table(spark, store)
            try:
                return table, position_of(table)
            except PositionError as error:
                if "no moment between two commits" not in str(error):
                    raise
                return None

        pair: tuple[Any, Position] = wait_until("a moment between two commits is found", found, deadline_s=120)
        return pair

    def read(self, position: Position) -> dict[int, int]:
        """How many records of each partition are in the table, by its position: none of them have other offsets."""
        return {number: one.read_to or 0 for number, one in position.topics[self.topic].partitions.items()}

    def wait_for(self, spark: Any, store: str, records: int) -> None:
        """Waits until so many records are in the table."""

        def processed() -> bool:
            found = self.position(spark, store)
            return found is not None and sum(self.read(found).values()) == records

        wait_until(f"{records} records are processed", processed)


@pytest.fixture
def run(
    kafka: str, topics: Topics, unique_name: Callable[[str], str], tmp_path: Path
) -> Iterator[Callable[..., Running]]:
    """Starts an application over a topic of its own: `run(topology_of_topic, guarantee)`."""
    started: list[Running] = []

    def start(made: Callable[[str], Any], guarantee: str = "exactly_once_v2") -> Running:
        topic, name = topics.create("in", PARTITIONS), unique_name("app")
        started.append(Running(kafka, topic, name, made(topic), tmp_path / "state", guarantee))
        return started[-1]

    yield start
    for one in started:
        one.app.close(60)


def counts(topic: str) -> Callable[[], StreamsBuilder]:
    def made() -> StreamsBuilder:
        builder = StreamsBuilder(key_serde=TEXT, value_serde=TEXT)
        builder.stream(topic).group_by_key().count(materialized=Materialized(name="counts"))
        return builder

    return made


def counts_by_value(topic: str) -> Callable[[], StreamsBuilder]:
    """With a topic of the application in between."""

    def made() -> StreamsBuilder:
        builder = StreamsBuilder(key_serde=TEXT, value_serde=TEXT)
        builder.stream(topic).group_by(lambda key, value: value).count(materialized=Materialized(name="counts"))
        return builder

    return made


def versions(topic: str) -> Callable[[], StreamsBuilder]:
    def made() -> StreamsBuilder:
        builder = StreamsBuilder(key_serde=TEXT, value_serde=TEXT)
        supplier = Stores.persistent_versioned_key_value_store("versions", 86_400_000)
        builder.table(topic, materialized=Materialized(supplier=supplier))
        return builder

    return made


def test_each_table_of_a_running_application_has_exactly_the_records_before_its_position(
    spark: Any, run: Callable[..., Running]
) -> None:
    """Each record counts one, so that the sum of a partition is the number of its records."""
    running, over = run(counts), threading.Event()
    running.send(range(100))
    wait_until("the application has committed", lambda: running.position(spark, "counts"))

    def send_on() -> None:
        number = 0
        while not over.is_set():
            running.send(range(number, number + 20))
            number += 20

    sender = threading.Thread(target=send_on)
    sender.start()
    try:
        seen = []
        for _ in range(6):
            table, position = running.table_of_a_moment(spark, "counts")
            sums = {row[0]: row[1] for row in table.groupBy("partition").sum("value").collect()}
            assert sums == running.read(position)
            assert position.application_id == running.name
            assert position.topics[running.topic].topic_id is not None
            assert Position.from_json(position.to_json()) == position
            seen.append(sum(sums.values()))
    finally:
        over.set()
        sender.join()
    assert seen == sorted(seen)
    assert seen[-1] > seen[0], "the application went on meanwhile"


def test_behind_a_topic_of_the_application_a_position_is_known_when_nothing_waits_there(
    spark: Any, run: Callable[..., Running]
) -> None:
    running = run(counts_by_value)
    running.send(range(100))

    def at_rest() -> Any:
        table = running.table(spark, "counts")
        try:
            position = position_of(table)
        except PositionError:
            return None
        assert sum(row.value for row in table.collect()) == sum(running.read(position).values())
        return sum(running.read(position).values()) == 100

    wait_until("all is processed", at_rest)


def test_at_least_once_a_position_is_known_when_all_is_processed(spark: Any, run: Callable[..., Running]) -> None:
    running = run(counts, "at_least_once")
    running.send(range(100))
    running.wait_for(spark, "counts", 100)
    assert running.app.close(60)
    running.send(range(10))
    with pytest.raises(PositionError, match=r"does not write in transactions .* are not processed yet: .*ahead"):
        position_of(running.table(spark, "counts"))


def test_a_table_of_other_records_is_not_compared(
    spark: Any, run: Callable[..., Running], tmp_path: Path, kafka: str
) -> None:
    running = run(counts)
    running.send(range(100))
    running.wait_for(spark, "counts", 100)
    history = History.kafka(spark, kafka, running.topic, offsets=pin_offsets(kafka, running.topic))
    result = Backfill(
        spark, running.made, {running.topic: history}, application_id=running.name, run_dir=tmp_path / "run",
        config=SETTINGS,
    ).run()  # fmt: skip
    live = running.table(spark, "counts")
    assert position_of(live).offsets() == result.position.offsets()
    assert result.diff("counts", live).collect() == []
    running.send(range(KEYS))
    running.wait_for(spark, "counts", 150)
    live = running.table(spark, "counts")
    with pytest.raises(PositionError, match=r"-0 is in the result up to \d+, and in the live table up to \d+"):
        result.diff("counts", live)
    assert result.diff("counts", live, positions="ignore").count() == KEYS


def test_versions_are_compared_as_the_live_table_was_read(
    spark: Any, run: Callable[..., Running], tmp_path: Path, kafka: str
) -> None:
    """All versions of the result were compared with the latest ones of the application."""
    running = run(versions)
    running.send(range(100))
    running.wait_for(spark, "versions", 100)
    history = History.kafka(spark, kafka, running.topic, offsets=pin_offsets(kafka, running.topic))
    result = Backfill(
        spark, running.made, {running.topic: history}, application_id=running.name, run_dir=tmp_path / "run",
        config=SETTINGS,
    ).run()  # fmt: skip
    latest, every = running.table(spark, "versions"), running.table(spark, "versions", versions="all")
    assert (latest.count(), every.count()) == (KEYS, 100)
    assert result.diff("versions", latest).collect() == []
    assert result.diff("versions", every).collect() == []
    (row,) = result.diff("versions", latest.where("key <> 'key-7'")).collect()
    assert (row.key, row.difference) == ("key-7", "only_backfill")


def test_a_topic_stands_where_it_was_read_to_and_other_frames_nowhere(
    spark: Any, kafka: str, run: Callable[..., Running]
) -> None:
    running = run(counts)
    running.send(range(10))
    read = read_topic(spark, kafka, running.topic)
    assert position_of(read).offsets() == offsets_of(read).ends()
    with pytest.raises(PositionError, match="ask before it is filtered"):
        position_of(read.where("offset > 1"))
