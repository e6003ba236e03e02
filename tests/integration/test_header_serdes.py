"""Serdes that take headers, on a real Kafka: through a repartition topic, a store with headers and its changelog."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer

from integration_support.topics import Topics
from streams import Grouped, Headers, KafkaStreams, Materialized, Serde, StreamsBuilder, serde_of
from waiting import wait_until


def seal(text: str, key: int) -> bytes:
    return bytes(one ^ key for one in text.encode())


def sealed(key: int) -> Serde[str]:
    """Writes by one key, whose number a header has; reads by the key that the header names."""

    def write(text: str, headers: Headers) -> bytes:
        headers.remove_all("by").add("by", b"%d" % key)
        return seal(text, key)

    def read(data: bytes, headers: Headers) -> str:
        by = headers.last("by")
        if by is None:
            raise LookupError("no header names the key")
        return bytes(one ^ int(by) for one in data).decode()

    return serde_of(write, read, name="sealed", with_headers=True)


def topology(source: str, out: str, serde: Serde[str]) -> Callable[[Any], Any]:
    def build(config: Any) -> Any:
        builder = StreamsBuilder(config, key_serde="string", value_serde=serde)
        groups = builder.stream(source).group_by(lambda key, value: value[0], Grouped(name="first-letter"))
        sums = groups.reduce(lambda old, new: f"{old} {new}", materialized=Materialized(name="sums"))
        sums.to_stream().to(out)
        return builder.build(config)

    return build


def test_rows_are_read_by_the_key_with_which_they_were_written(
    kafka: str, topics: Topics, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    """Also when the state is restored from the changelog, and the application writes by another key by then."""
    source, out = topics.create("in"), topics.create("out")
    settings: dict[str, Any] = {
        "application.id": unique_name("app"),
        "bootstrap.servers": kafka,
        "dsl.store.format": "HEADERS",
        "commit.interval.ms": 100,
        "auto.offset.reset": "earliest",
        "processing.guarantee": "exactly_once_v2",
    }
    producer = Producer({"bootstrap.servers": kafka})
    consumer = Consumer(
        {"bootstrap.servers": kafka, "group.id": unique_name("reader"), "auto.offset.reset": "earliest",
         "isolation.level": "read_committed"}
    )  # fmt: skip
    consumer.subscribe([out])
    found: list[tuple[str, str]] = []

    def read(expected: list[tuple[str, str]]) -> None:
        def is_there() -> bool:
            message = consumer.poll(0.2)
            if message is not None and not message.error():
                headers = dict(message.headers() or [])
                by = headers["by"].decode()
                found.append((by, bytes(one ^ int(by) for one in message.value()).decode()))
            return bool(found) and found[-1] == expected[-1]

        wait_until(f"{expected} was written", is_there)

    def send(text: str) -> None:
        producer.produce(source, seal(text, 9), b"k", headers=[("by", b"9")])
        producer.flush(30)

    send("tea")
    with KafkaStreams(topology(source, out, sealed(1)), {**settings, "state.dir": str(tmp_path / "one")}):
        read([("1", "tea")])
    send("tin")
    with KafkaStreams(topology(source, out, sealed(2)), {**settings, "state.dir": str(tmp_path / "two")}):
        read([("2", "tea tin")])
    consumer.close()
    assert found[-1] == ("2", "tea tin")
