"""Topics of tests know the topology: its serdes, its registry, and the names that were perhaps meant."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import ConfigError, DeserializationError, StateDirectoryError, StreamsError, TopologyError
from streams import Avro, SchemaRegistry, Serdes, StreamsBuilder, Topology, TopologyTestDriver, list_serde
from streams.testing import EmbeddedKafka


@dataclass
class Order:
    customer: str
    cents: int


def strings() -> StreamsBuilder:
    return StreamsBuilder(key_serde="string", value_serde="string")


# ---------------------------------------------------------------------- registry

REGISTRY = "mock://known-topics"
IN_SETTINGS = {"schema.registry.url": REGISTRY}
ORDERS: Any = Avro(Order)
SERDES = {"plain": (ORDERS, Order("ann", 5)), "list": (list_serde(ORDERS), [Order("ann", 5), None])}


def by_builder(serde: Any) -> tuple[Any, dict[str, str]]:
    builder = StreamsBuilder(key_serde="string", value_serde=serde, schema_registry=SchemaRegistry(REGISTRY))
    builder.stream("in").to("out")
    return builder, {}


def by_settings(serde: Any) -> tuple[Any, dict[str, str]]:
    builder = StreamsBuilder(key_serde="string", value_serde=serde)
    builder.stream("in").to("out")
    return builder, IN_SETTINGS


def by_topology(serde: Any) -> tuple[Any, dict[str, str]]:
    given = {"key_serde": Serdes.STRING, "value_serde": serde}
    return Topology().add_source("s", "in", **given).add_sink("k", "out", "s", **given), IN_SETTINGS


@pytest.mark.parametrize("serde", SERDES.values(), ids=SERDES)
@pytest.mark.parametrize("made", [by_builder, by_settings, by_topology])
@pytest.mark.parametrize("is_given", [True, False])
def test_topics_of_the_driver_have_the_registry(made: Callable[..., Any], serde: Any, is_given: bool) -> None:
    """A serde that was given to a topic had none, and the error said to give one to the builder, where it was."""
    topology, settings = made(serde[0])
    given = ("string", serde[0]) if is_given else ()
    with TopologyTestDriver(topology, settings) as driver:
        driver.create_input_topic("in", *given).pipe_input("1", serde[1])
        assert driver.create_output_topic("out", *given).read_value() == serde[1]


@pytest.mark.parametrize("made", [by_builder, by_settings, by_topology])
@pytest.mark.parametrize("is_given", [True, False])
def test_topics_of_a_broker_have_the_registry(made: Callable[..., Any], is_given: bool) -> None:
    topology, settings = made(ORDERS)
    given = ("string", ORDERS) if is_given else ()
    with EmbeddedKafka() as kafka:
        kafka.create_topics("in", "out", "other")
        kafka.start(topology, settings)
        kafka.create_input_topic("in", *given).pipe_input("1", Order("ann", 5))
        (record,) = kafka.read_records("out", 1, *given)
        assert (record.key, record.value) == ("1", Order("ann", 5))
        kafka.create_input_topic("other", "string", ORDERS).pipe_input("1", Order("bob", 6))
        assert kafka.read_records("other", 1, "string", ORDERS)[0].value == Order("bob", 6)


def test_a_registry_that_no_application_has_is_asked_for_where_it_can_be_given() -> None:
    with (
        EmbeddedKafka() as kafka,
        pytest.raises(ConfigError, match="in this test: give registry= to the serde"),
    ):
        kafka.create_input_topic("in", "string", ORDERS)


# ---------------------------------------------------------------------- serdes


def gold(*_: Any) -> str:
    return "gold"


@pytest.mark.parametrize("topics", [(), ("gold",)])
def test_a_topic_that_a_function_chooses_has_the_serdes_of_its_sink(topics: tuple[str, ...]) -> None:
    builder = strings()
    builder.stream("in").map_values(len).to(gold, value_serde="long", topics=topics)
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_input("a", "four")
        assert driver.create_output_topic("gold").read_key_values() == [("a", 4)]


def test_sinks_that_choose_with_the_same_serdes_are_one() -> None:
    builder = strings()
    stream = builder.stream("in")
    stream.to(gold)
    stream.to(lambda *_: "silver")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_input("a", "b")
        assert driver.create_output_topic("silver").read_value() == "b"


def dead_letters(value_serde: str) -> StreamsBuilder:
    builder = StreamsBuilder(key_serde="string", value_serde=value_serde)
    builder.stream("in").map_values(lambda value: 1 // value["n"]).to("out")
    return builder


LETTERS = {
    "errors.dead.letter.queue.topic.name": "dlq",
    "processing.exception.handler": "LogAndContinueProcessingExceptionHandler",
    "deserialization.exception.handler": "LogAndContinueExceptionHandler",
}


def test_dead_letters_are_read_as_the_source_reads_them_and_else_are_bytes() -> None:
    with TopologyTestDriver(dead_letters("json"), LETTERS) as driver:
        driver.create_input_topic("in").pipe_input("a", {"n": 0})
        driver.pipe_raw("in", b"b", b"{", 0)
        assert driver.create_output_topic("dlq").read_key_values() == [("a", {"n": 0}), ("b", b"{")]


def test_dead_letters_of_a_broker() -> None:
    with EmbeddedKafka() as kafka:
        kafka.create_topics("in", "out", "dlq")
        kafka.start(dead_letters("json"), LETTERS)
        kafka.create_input_topic("in").pipe_key_values([("a", {"n": 0}), ("b", {"n": 1})])
        assert [one.value for one in kafka.read_records("dlq", 1)] == [{"n": 0}]
        assert [one.value for one in kafka.read_records("out", 1)] == [1]


def test_a_value_that_the_test_cannot_write_or_read_names_topic_and_argument() -> None:
    with TopologyTestDriver(typed()) as driver:
        numbers = driver.create_input_topic("in")
        with pytest.raises(StreamsError, match=r"value of a record of topic 'in' .*create_input_topic"):
            numbers.pipe_input("a", "text")
        with pytest.raises(StreamsError, match=r"key of a record of topic 'in' cannot be written"):
            numbers.pipe_input(5, 5)
    with EmbeddedKafka() as kafka:
        kafka.create_topics("in")
        kafka.create_input_topic("in").pipe_input("a", "b")
        with pytest.raises(DeserializationError, match=r"value of a record of topic 'in' .*read_records the serdes"):
            kafka.read_records("in", 1, "string", "long")


def typed() -> StreamsBuilder:
    builder = StreamsBuilder(key_serde="string", value_serde="long")
    builder.stream("in").to("out")
    return builder


# ---------------------------------------------------------------------- names


def two() -> StreamsBuilder:
    builder = strings()
    builder.stream("orders").to("teas")
    return builder


@pytest.mark.parametrize("serdes", [(), ("string", "string")])
def test_a_typo_in_a_name_gets_the_nearest(serdes: Any) -> None:
    with TopologyTestDriver(two()) as driver:
        with pytest.raises(TopologyError, match=r"no source .* reads topic 'ordres'; did you mean 'orders'"):
            driver.create_input_topic("ordres", *serdes)
        with pytest.raises(TopologyError, match=r"no sink of the topology writes to topic 'taes'; did you mean 'teas'"):
            driver.create_output_topic("taes", *serdes)
    with EmbeddedKafka() as kafka:
        kafka.create_topics("orders", "teas")
        kafka.start(two())
        with pytest.raises(TopologyError, match=r"reads topic 'ordres'; did you mean 'orders'\?"):
            kafka.create_input_topic("ordres", *serdes)
        with pytest.raises(StreamsError, match=r"topic 'taes' does not exist; did you mean 'teas'\?"):
            kafka.read_records("taes", 1, *serdes)
        kafka.create_topics("ordres")  # of another test
        kafka.create_input_topic("ordres", *serdes).pipe_input("a", "b")


def test_topics_of_patterns_and_internal_ones_are_known() -> None:
    builder = strings()
    builder.stream(re.compile("in-.*")).group_by(lambda key, value: value).count(materialized="n").to_stream().to(
        "out", value_serde="long"
    )
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in-7").pipe_input("a", "b")
        (internal,) = (name for name in driver.produced_topic_names() if name.endswith("-repartition"))
        assert driver.create_output_topic(internal).read_key_value() == ("b", "b")
        assert driver.create_output_topic("out").read_key_value() == ("b", 1)
        assert driver.create_output_topic("test-application-n-changelog", "bytes", "bytes").queue_size == 1


def test_a_state_directory_that_is_a_file_is_an_error_of_the_library(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StateDirectoryError, match=r"is not a directory: .* set state\.dir"):
            TopologyTestDriver(two(), {"state.dir": str(place)})
