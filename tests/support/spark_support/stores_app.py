"""An application with a store of each kind that becomes a DataFrame, and its changelogs on a real Kafka.

The test driver runs it, so that its stores are the truth; what it logged is copied to the topics of an application.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaException

from integration_support.topics import Topics
from processor_api.processor import Processor
from processor_api.serde import Serdes
from processor_api.stores.contracts import ValueAndTimestamp, ValueTimestampHeaders
from processor_api.stores.factory import Stores
from processor_api.stores.windowed import Window, Windowed
from processor_api.topology.topology import Topology
from streams.kafka.confluent.clients import ConfluentClients
from streams.serdes import json_serde
from streams.testing import RawRecord, TopologyTestDriver
from waiting import wait_until

__all__ = ["HOUR", "SETTINGS", "STORES", "copied", "records", "recreate", "topology", "write"]

S, L = Serdes.STRING, Serdes.LONG
HOUR = 3_600_000
RETENTION = 4 * HOUR
STORES = ("plain", "timestamped", "headers", "json", "list", "window", "doubles", "session", "versioned", "expiring")
SETTINGS = {"default.key.serde": "string", "default.value.serde": "string", "statestore.cache.max.bytes": 0}


class Keeper(Processor[Any, Any, Any, Any]):
    """Puts each record into every store; a null value deletes it from those that can."""

    def process(self, record: Any) -> None:
        store = self.context.get_state_store
        key, value, time = record.key, record.value, record.timestamp
        size = None if value is None else len(value)
        start = time // HOUR * HOUR
        store("plain").put(key, value)
        store("timestamped").put(key, None if size is None else ValueAndTimestamp(size, time))
        store("headers").put(key, None if value is None else ValueTimestampHeaders(value, time, record.headers))
        store("json").put(key, None if value is None else {"text": value, "size": size})
        if value is None:
            store("list").delete(key)
        else:
            store("list").put(key, value)
        store("window").put(key, value, start)
        store("doubles").put(key, value, start)
        store("session").put(Windowed(key, Window(start, time)), size)
        store("versioned").put(key, value, time)
        store("expiring").put(key, None if value is None else ValueAndTimestamp(value, time))


def topology() -> Topology:
    """Returns the application; it takes no settings."""
    kv, hour = Stores.key_value_store, HOUR
    builders = [
        kv("plain"),
        kv("timestamped", with_timestamps=True, value_serde=L),
        kv("headers", with_headers=True),
        kv("json", value_serde=json_serde()),
        Stores.list_store_builder(Stores.persistent_list_store("list")),
        Stores.window_store("window", RETENTION, hour),
        Stores.window_store("doubles", RETENTION, hour, retain_duplicates=True),
        Stores.session_store("session", RETENTION, value_serde=L),
        kv("expiring", with_timestamps=True).with_time_to_live(3 * HOUR // 2),
        Stores.versioned_key_value_store_builder(Stores.persistent_versioned_key_value_store("versioned", RETENTION)),
    ]
    made = Topology().add_source("source", "input").add_processor("keeper", Keeper, "source")
    for builder in builders:
        made.add_state_store(builder, "keeper")
    return made


def records(seed: int, count: int) -> Iterator[tuple[str, str | None, int, list[tuple[str, bytes | None]]]]:
    """Yields keys, values, times and headers; times go on and back, values may be empty or null."""
    chance = random.Random(seed)
    for number in range(count):
        time = number * HOUR // 4 + chance.randint(0, 3 * HOUR)
        value = chance.choice([None, "", "é", "x" * chance.randint(1, 9), "plain"])
        headers = [("h", b"1"), ("none", None)] if number % 3 else []
        yield f"key-{chance.randint(0, 7)}", value, time, headers


@contextmanager
def copied(topics: Topics, application: str, count: int = 60, partitions: int = 2) -> Iterator[TopologyTestDriver]:
    """Runs the application, with what it logged in partition 0 of its changelogs; the other partitions are empty."""
    with TopologyTestDriver(topology(), {**SETTINGS, "application.id": application}) as driver:
        source = driver.create_input_topic("input")
        for key, value, time, headers in records(1, count):
            source.pipe_input(key, value, timestamp=time, headers=headers)
        produced = driver.take_produced()
        for store in STORES:
            topics.create_named(f"{application}-{store}-changelog", partitions)
        write(topics.bootstrap, produced)
        yield driver


def recreate(topics: Topics, topic: str) -> None:
    """Creates an empty topic of one partition, in place of one that may be there."""
    admin = ConfluentClients(topics.bootstrap).admin({})
    admin.delete_topics([topic])

    def created() -> bool:
        try:
            topics.create_named(topic, 1)
        except KafkaException:
            return False
        return True

    wait_until(f"topic {topic} can be made again", created)


def write(bootstrap: str, produced: Mapping[str, list[RawRecord]], partition: int = 0) -> None:
    """Writes records as a worker does that logs them."""
    producer = ConfluentClients(bootstrap).producer({})
    for topic, found in produced.items():
        for each in found:
            producer.produce(
                topic, each.value, each.key, partition, None, None, each.timestamp or 1,
                [*each.headers, ("streams.timestamp", bytes(8))] if each.timestamp == 0 else each.headers,
            )  # fmt: skip
    assert producer.flush(60)
    producer.close()
