"""Serdes whose functions take the headers of the record."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster_cli import ClusterCommands, commands
from processor_api.errors import DeserializationError, SerializationError, StreamsError
from processor_api.record import Headers
from state.row_format.record_context import Cursor
from streams import (
    Consumed,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    TopologyTestDriver,
    WindowedSerdes,
    list_serde,
    serde_of,
)

ENCODING = "encoding"


def write(text: str, headers: Headers) -> bytes:
    """Text in UTF-16 with a header that says so."""
    if not isinstance(text, str):
        raise TypeError("not a text")
    headers.remove_all(ENCODING).add(ENCODING, b"utf-16-le")
    return text.encode("utf-16-le")


def read(data: bytes, headers: Headers) -> str:
    """Text in the encoding of its header, which it takes off."""
    encoding = headers.last(ENCODING)
    if encoding is None:
        raise LookupError("no header says the encoding")
    headers.remove_all(ENCODING)
    return data.decode(encoding.decode())


TEXT = serde_of(write, read, name="text", with_headers=True)


def test_functions_get_the_headers_of_the_record_and_may_add_some() -> None:
    headers = Headers([("trace", b"7")])
    data = TEXT.with_headers(headers).serialize("tea")
    assert (data, headers) == ("tea".encode("utf-16-le"), [("trace", b"7"), (ENCODING, b"utf-16-le")])
    assert TEXT.with_headers(headers).deserialize(data) == "tea"
    assert headers == [("trace", b"7")]


def test_without_a_record_the_headers_are_empty() -> None:
    assert TEXT.serialize("tea") == "tea".encode("utf-16-le")
    with pytest.raises(LookupError, match="no header says"):
        TEXT.deserialize(b"t\0")


def test_it_is_known_whether_a_serde_takes_headers() -> None:
    assert TEXT.takes_headers
    assert not Serdes.STRING.takes_headers
    assert Serdes.STRING.with_headers(Headers()) is Serdes.STRING
    assert not serde_of(str.encode, bytes.decode).takes_headers


def test_it_is_pickled_as_its_functions() -> None:
    again: Any = pickle.loads(pickle.dumps(TEXT))
    assert again.takes_headers
    assert again.with_headers(Headers()).serialize("tea") == TEXT.serialize("tea")
    assert again.name == "text"


def test_functions_that_are_none_are_refused() -> None:
    with pytest.raises(TypeError, match="two functions: value and headers to bytes"):
        serde_of(write, None, with_headers=True)  # type: ignore[call-overload]


def test_serdes_around_one_that_takes_headers_give_it_the_same_ones() -> None:
    headers = Headers()
    texts = list_serde(TEXT)
    data = texts.with_headers(headers).serialize(["tea", None])
    assert texts.takes_headers
    assert headers == [(ENCODING, b"utf-16-le")]
    with pytest.raises(LookupError):
        texts.deserialize(data)
    windowed = WindowedSerdes.time_windowed_serde_from(TEXT, 10)
    assert windowed.takes_headers
    assert not WindowedSerdes.time_windowed_serde_from(Serdes.STRING, 10).takes_headers


def test_sources_and_sinks_hand_over_the_headers_of_the_record() -> None:
    builder = StreamsBuilder(key_serde="string", value_serde=TEXT)
    orders = builder.stream("orders")
    orders.map_values(str.upper).to("loud")
    orders.to("plain", value_serde="string")
    with TopologyTestDriver(builder) as driver:
        driver.pipe_raw("orders", b"ann", "tea".encode("utf-16-be"), 0, [("n", b"1"), (ENCODING, b"utf-16-be")])
        loud, plain = driver.create_output_topic("loud", value_serde="bytes"), driver.create_output_topic("plain")
        found = loud.read_record()
        assert found.value == "TEA".encode("utf-16-le")
        assert found.headers == [("n", b"1"), (ENCODING, b"utf-16-le")]
        # what the reader took off is gone, and what one sink adds the other has not
        found = plain.read_record()
        assert (found.value, found.headers) == ("tea", [("n", b"1")])


def test_key_and_value_are_written_with_the_same_headers_the_key_first() -> None:
    def note(part: str) -> Any:
        def written(text: str, headers: Headers) -> bytes:
            headers.add(part, str(len(headers)).encode())
            return text.encode()

        return serde_of(written, lambda data, headers: data.decode() + str(len(headers)), with_headers=True)

    builder = StreamsBuilder()
    builder.stream("in", Consumed(key_serde=note("key"), value_serde=note("value"))).to(
        "out", Produced(key_serde=note("key"), value_serde=note("value"))
    )
    with TopologyTestDriver(builder) as driver:
        driver.pipe_raw("in", b"ann", b"tea", 0)
        found = driver.create_output_topic("out", "string", "string").read_record()
        assert (found.key, found.value) == ("ann0", "tea0")
        assert found.headers == [("key", b"0"), ("value", b"1")]


def test_a_sink_with_a_partitioner_does_too() -> None:
    builder = StreamsBuilder(key_serde="string", value_serde=TEXT)
    both = Produced(partitioner=lambda topic, key, value, headers, count: {0, 1})
    builder.stream("orders").to("out", both)
    with TopologyTestDriver(builder, partitions={"out": 2}) as driver:
        driver.create_input_topic("orders").pipe_input("ann", "tea")
        found = driver.create_output_topic("out", value_serde="bytes").read_records()
        assert [record.partition for record in found] == [0, 1]
        assert all(record.headers == [(ENCODING, b"utf-16-le")] for record in found)


def test_a_record_that_cannot_be_read_names_its_place() -> None:
    builder = StreamsBuilder(key_serde="string", value_serde=TEXT)
    builder.stream("orders").to("out")
    with TopologyTestDriver(builder) as driver, pytest.raises(DeserializationError, match="no header says") as raised:
        driver.pipe_raw("orders", b"ann", b"tea", 0)
    assert (raised.value.topic, raised.value.partition, raised.value.offset) == ("orders", 0, 0)


def test_a_record_that_cannot_be_written_names_its_topic() -> None:
    builder = StreamsBuilder(key_serde="string", value_serde=TEXT)
    builder.stream("orders").map_values(len).to("out")
    with TopologyTestDriver(builder) as driver, pytest.raises(SerializationError, match="not a text") as raised:
        driver.create_input_topic("orders").pipe_input("ann", "tea")
    assert "'out'" in str(raised.value)


# ------------------------------------------------------------------ commands

NOTES = """
def write(text, headers):
    if type(text) is not str:
        raise TypeError("not a text")
    headers.remove_all("encoding").add("encoding", b"utf-16-le")
    return text.encode("utf-16-le")

def read(data, headers):
    return data.decode(headers.last("encoding").decode())

builder = StreamsBuilder(key_serde="string", value_serde=serde_of(write, read, with_headers=True))
builder.stream("notes").to("out")
"""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[ClusterCommands]:
    yield from commands(tmp_path)


def test_produce_writes_the_headers_that_a_serde_adds_and_consume_reads_them(cli: ClusterCommands) -> None:
    app = cli.app(NOTES)
    cli.kafka.create_topics("notes")
    assert cli.run("produce", app, "notes", "--key", "ann", "--value", "tëa", "--header", "n=1").status == 0
    [record] = cli.kafka.read_records("notes", 1, "string", "bytes")
    assert record.value == "tëa".encode("utf-16-le")
    assert record.headers == [("n", b"1"), (ENCODING, b"utf-16-le")]
    [row] = map(json.loads, cli.run("consume", app, "notes").lines)
    assert (row["key"], row["value"]) == ("ann", "tëa")
    assert row["headers"] == {"n": "1", "encoding": "utf-16-le"}


def test_try_reads_and_writes_headers(cli: ClusterCommands) -> None:
    printed = cli.run("try", cli.app(NOTES), stdin='{"topic": "notes", "key": "ann", "value": "tëa"}\n')
    [row] = [json.loads(line) for line in printed.lines if '"out"' in line]
    assert (row["value"], row["headers"]) == ("tëa", {"encoding": "utf-16-le"})


# ------------------------------------------------------------------ stores


def test_a_store_that_keeps_no_headers_says_once_that_those_added_are_lost(caplog: pytest.LogCaptureFixture) -> None:
    either = serde_of(write, lambda data, headers: data.decode("utf-16-le"), with_headers=True)
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    kept = Materialized(name="store", value_serde=either)
    builder.stream("notes").group_by_key().reduce(lambda old, new: new, materialized=kept)
    with TopologyTestDriver(builder) as driver:
        notes = driver.create_input_topic("notes")
        notes.pipe_key_values([("a", "tea"), ("b", "milk")])
    found = [record for record in caplog.records if "a serde adds are not kept" in record.message]
    assert [(record.place, record.header) for record in found] == [("store 'store'", ENCODING)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("engine", ["rocksDB", "in_memory"])
@pytest.mark.parametrize("cache", [0, 1_000_000])
def test_a_store_with_headers_keeps_those_that_a_serde_adds(engine: str, cache: int) -> None:
    config = {"dsl.store.format": "HEADERS", "default.dsl.store": engine, "statestore.cache.max.bytes": cache}

    def topology(given: Any) -> Any:
        builder = StreamsBuilder(given, key_serde="string", value_serde=TEXT)
        groups = builder.stream("notes").group_by_key()
        groups.reduce(lambda old, new: old + new, materialized="sums").to_stream().to("out")
        return builder.build(given)

    with TopologyTestDriver(topology, config) as driver:
        driver.create_input_topic("notes").pipe_key_values([("a", "tea"), ("a", "milk")])
        assert driver.create_output_topic("out").read_values() == ["tea", "teamilk"]
        assert driver.get_key_value_store("sums").get("a") == "teamilk"
        changelog = driver.create_output_topic("test-application-sums-changelog", "string", "bytes")
        assert [record.headers for record in changelog.read_records()] == [[(ENCODING, b"utf-16-le")]] * 2


def test_a_store_whose_rows_cannot_be_read_without_their_headers_says_so() -> None:
    """The headers of the current record are another's."""
    builder = StreamsBuilder(key_serde="string", value_serde=TEXT)
    builder.stream("notes").group_by_key().reduce(lambda old, new: old + new, materialized="sums")
    with TopologyTestDriver(builder, {"statestore.cache.max.bytes": 0}) as driver:
        notes = driver.create_input_topic("notes")
        notes.pipe_input("a", "tea")
        with pytest.raises(StreamsError, match=r"store 'sums': the text serde cannot read the value: .*no header says"):
            notes.pipe_input("a", "milk")


def test_another_thread_gets_no_headers_of_the_record_that_a_task_processes() -> None:
    cursor = Cursor()
    serde = cursor.handing(TEXT, "store 's'")
    cursor.headers, cursor.thread = [(ENCODING, b"utf-16-le")], threading.get_ident()
    assert cursor.hands_headers
    assert serde.deserialize("tea".encode("utf-16-le")) == "tea"
    cursor.thread = threading.get_ident() + 1
    with pytest.raises(LookupError):
        serde.deserialize("tea".encode("utf-16-le"))
