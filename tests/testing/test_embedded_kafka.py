"""The broker in memory with what a test needs around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import MissingTopicError, ProductionError, StreamsError
from processor_api.serde import Serdes
from streams import Consumed, Materialized, Produced, StreamsBuilder, StreamsConfig
from streams.app.states import ClientState
from streams.testing import TestRecord
from streams.testing.embedded_kafka import EmbeddedKafka

TEXT = {"default.key.serde": Serdes.STRING, "default.value.serde": Serdes.STRING}


def counting() -> Any:
    builder = StreamsBuilder()
    counts = Materialized[str, int](name="counts", value_serde=Serdes.LONG)
    grouped = builder.stream("in", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING)).group_by_key()
    grouped.count(materialized=counts).to_stream().to("out", Produced(value_serde=Serdes.LONG))
    return builder.build()


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_an_application_runs_and_goes_on_after_a_restart(guarantee: str, tmp_path: Path) -> None:
    """Over several partitions; one that is started again finds its state and its offsets."""
    settings = {**TEXT, "processing.guarantee": guarantee}
    with EmbeddedKafka(tmp_path) as kafka:
        kafka.create_topics("in", "out", partitions=2)
        source = kafka.create_input_topic("in", start_timestamp=7)
        for run in (1, 2):
            app = kafka.start(counting(), settings)
            assert app.state is ClientState.RUNNING
            for key in ("a", "b", "c"):
                source.pipe_input(key, "v")
            records = kafka.read_records("out", 3, Serdes.STRING, Serdes.LONG)
            assert sorted(records, key=lambda record: record.key) == [TestRecord(key, run, 7) for key in "abc"]
            assert app.close(30)
    assert [one.state for one in kafka.applications] == [ClientState.NOT_RUNNING] * 2
    assert len(list(tmp_path.rglob("CURRENT"))) == 2  # a database of each partition's task


def test_what_does_not_come_is_told_with_what_came() -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_input_topic("in").pipe_input("k", "v", 3)
        with pytest.raises(TimeoutError, match=r"1 of 2 records of topic 'in' came .*'k'.*no application was started"):
            kafka.read_records("in", 2, timeout=0.1)
        with pytest.raises(StreamsError, match="topic 'elsewhere' does not exist"):
            kafka.read_records("elsewhere", 1)


def test_a_failed_application_s_error_is_raised_in_place_of_waiting() -> None:
    def refuse(value: str) -> str:
        raise ValueError(f"no {value}")

    builder = StreamsBuilder()
    builder.stream("in").map_values(refuse).to("out")
    with EmbeddedKafka() as kafka:
        kafka.create_topics("in", "out")
        app = kafka.start(builder.build(), TEXT)
        kafka.create_input_topic("in").pipe_input("k", "v")
        with pytest.raises(StreamsError, match=r"ValueError in node .*: no v"):
            kafka.read_records("out", 1)
        assert app.wait(30)


def test_an_application_that_cannot_start_says_why() -> None:
    """And closing goes through all the same."""
    with EmbeddedKafka() as kafka, pytest.raises(MissingTopicError, match="'in'"):
        kafka.start(counting(), TEXT)


def test_a_refused_record_is_told() -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_topics("in", configs={"max.message.bytes": "200"})
        with pytest.raises(ProductionError, match="MSG_SIZE_TOO_LARGE"):
            kafka.create_input_topic("in").pipe_input("k", "v" * 1000)
        with pytest.raises(StreamsError, match="does not exist"):
            kafka.produce("elsewhere", b"", b"", 0)


def test_a_whole_configuration_is_taken_as_it_is(tmp_path: Path) -> None:
    config = StreamsConfig.of(
        {
            **TEXT,
            "application.id": "own",
            "bootstrap.servers": "b:1",
            "state.dir": str(tmp_path),
            "commit.interval.ms": 9,
        }
    )
    with EmbeddedKafka() as kafka:
        kafka.create_topics("in", "out")
        assert kafka.start(counting(), config).config is config
