"""Tables while the application goes on and the broker compacts: whole, or with pinned offsets refused.

In this process, as Spark's tasks read them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewTopic

from dsl import Materialized, StreamsBuilder
from integration_support.fierce_broker import first_offset
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from streams.config import StreamsConfig
from streams.spark import OffsetRangeLost, OffsetRanges, pin_offsets
from streams.spark.rows.store_layouts import table_layout
from streams.spark.sources.table_source import table_plan
from waiting import wait_until

SOON = {"cleanup.policy": "compact", "segment.ms": "500", "max.compaction.lag.ms": "500"}
NEVER = {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"}


def topology() -> Topology:
    """An application with a count, and a versioned table."""
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count(materialized="counts")
    versions = Stores.persistent_versioned_key_value_store("prices", 86_400_000)
    builder.table("prices-in", materialized=Materialized(supplier=versions, value_serde=Serdes.LONG))
    return builder.build()


class Counts:
    """The changelog of a count, written as a running application would."""

    def __init__(self, bootstrap: str, name: str, configs: dict[str, str], store: str = "counts") -> None:
        self.bootstrap, self.topic, self.store = bootstrap, f"{name}-{store}-changelog", store
        self._settings = StreamsConfig.of({
            "application.id": name, "bootstrap.servers": bootstrap, "default.key.serde": "string",
            "default.value.serde": "string",
        })  # fmt: skip
        self._producer = Producer({"bootstrap.servers": bootstrap})
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(self.topic, 1, 1, config=configs)])[self.topic].result()

    def write(self, keys: Iterable[int], value: int) -> None:
        self._write(self._producer, keys, value)

    def write_transactions(self, transactions: Iterable[Iterable[int]], value: int, end: str = "commit") -> None:
        """Writes keys as an application under exactly once: a marker is behind those of each transaction."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": self.topic})
        producer.init_transactions(60)
        for keys in transactions:
            producer.begin_transaction()
            self._write(producer, keys, value)
            getattr(producer, f"{end}_transaction")(60)

    def _write(self, producer: Producer, keys: Iterable[int], value: int) -> None:
        for key in keys:
            producer.produce(self.topic, value.to_bytes(8, "big"), f"k{key}", 0)
        assert producer.flush(60) == 0

    def pin(self) -> OffsetRanges:
        return pin_offsets(self.bootstrap, self.topic)

    def read(self, pinned: OffsetRanges, *, is_pinned: bool = True) -> dict[str, int]:
        """The table, as a task reads it.

        :param is_pinned: whether the offsets were given, or only looked up when the DataFrame was made.
        """
        layout = table_layout(self._settings, topology(), self.store, raw=False)
        plan = table_plan(self._settings, layout, pinned, is_pinned=is_pinned)
        rows = [row for batch in plan.batches(pinned.ranges[0]) for row in batch.to_pylist()]
        return {row["key"]: row["value"] for row in rows}

    def compact(self, key: int) -> None:
        """Waits until the first record is gone; a key goes on being written meanwhile, so that segments are closed."""

        def is_compacted() -> bool:
            self.write([key], 3)
            first = first_offset(self.bootstrap, self.topic)
            return first is not None and first > 0

        wait_until("the changelog is compacted", is_compacted)


@pytest.fixture
def counts(fierce: str, unique_name: Callable[[str], str]) -> Callable[[dict[str, str]], Counts]:
    return lambda configs: Counts(fierce, unique_name("pins"), configs)


def test_a_table_that_may_lack_keys_is_refused(counts: Callable[[dict[str, str]], Counts]) -> None:
    """It lacked them without a word, and a comparison with it took them for keys that should not be there."""
    changelog = counts(SOON)
    changelog.write(range(200), 1)
    pinned = changelog.pin()
    assert changelog.read(pinned) == {f"k{key}": 1 for key in range(200)}
    changelog.write(range(150), 2)
    changelog.compact(0)
    with pytest.raises(OffsetRangeLost, match=r"behind the pinned end 200, and has been compacted: .* may be missing"):
        changelog.read(pinned)
    again = changelog.read(changelog.pin())
    assert again == {**{f"k{key}": 1 for key in range(150, 200)}, **{f"k{key}": 2 for key in range(1, 150)}, "k0": 3}


def test_a_table_that_was_compacted_before_is_read(counts: Callable[[dict[str, str]], Counts]) -> None:
    """Offsets are missing, and nothing is behind the end; or the first record behind it has a key of the table."""
    changelog = counts(SOON)
    changelog.write(range(50), 1)
    changelog.write(range(50), 2)
    changelog.compact(0)
    pinned = changelog.pin()
    expected = {**{f"k{key}": 2 for key in range(1, 50)}, "k0": 3}
    assert changelog.read(pinned) == expected
    changelog.write([0], 4)
    assert changelog.read(pinned) == expected


@pytest.mark.parametrize("twice", [True, False])
def test_a_table_that_no_compaction_has_reached_is_read_however_it_grows(
    counts: Callable[[dict[str, str]], Counts], twice: bool
) -> None:
    """A key comes twice in it, or no offset is missing; new keys come behind it."""
    changelog = counts(NEVER)
    changelog.write(range(20), 1)
    if twice:
        changelog.write(range(20), 1)
    pinned = changelog.pin()
    changelog.write(range(100, 120), 2)
    changelog.write(range(20), 3)
    assert changelog.read(pinned) == {f"k{key}": 1 for key in range(20)}


def test_without_given_offsets_a_table_is_read_on_to_a_later_end(
    counts: Callable[[dict[str, str]], Counts],
) -> None:
    """A key that a compaction has moved behind the end is there with its later value."""
    changelog = counts(SOON)
    changelog.write(range(200), 1)
    pinned = changelog.pin()
    changelog.write(range(150), 2)
    changelog.compact(0)
    with pytest.raises(OffsetRangeLost):
        changelog.read(pinned)
    table = changelog.read(pinned, is_pinned=False)
    assert table == {**{f"k{key}": 1 for key in range(150, 200)}, **{f"k{key}": 2 for key in range(1, 150)}, "k0": 3}


def test_a_table_is_read_on_though_the_application_never_rests(counts: Callable[[dict[str, str]], Counts]) -> None:
    """The end of the log is found between two records."""
    changelog, over = counts(SOON), threading.Event()
    changelog.write(range(200), 1)
    pinned = changelog.pin()
    changelog.write(range(150), 2)
    changelog.compact(0)

    def write_on() -> None:
        number = 1_000
        while not over.is_set():
            changelog.write([number % 2_000], 4)
            number += 1

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        for _ in range(5):
            table = changelog.read(pinned, is_pinned=False)
            assert {key for key in table if int(key[1:]) < 200} == {f"k{key}" for key in range(200)}
    finally:
        over.set()
        writer.join()


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_markers_of_transactions_are_no_compaction(counts: Callable[[dict[str, str]], Counts], end: str) -> None:
    """Keys that are written once, under exactly once: the offsets of the markers have no records, and every key behind
    the end is new. The table was refused, with pins and without."""
    changelog = counts(NEVER)
    changelog.write_transactions([range(first, first + 10) for first in range(0, 100, 10)], 1)
    changelog.write_transactions([range(100, 110)], 1, end)
    pinned = changelog.pin()
    changelog.write_transactions([range(200, 210), range(210, 220)], 1)
    expected = {f"k{key}": 1 for key in range(100 if end == "abort" else 110)}
    assert changelog.read(pinned) == expected
    assert changelog.read(pinned, is_pinned=False) == expected


def test_records_that_are_deleted_before_they_are_read_move_the_begin_of_the_table(
    counts: Callable[[dict[str, str]], Counts],
) -> None:
    """As those of windows, by retention; given offsets stay what they are."""
    changelog = counts(NEVER | {"cleanup.policy": "compact,delete"})
    changelog.write(range(50), 1)
    pinned = changelog.pin()
    admin = AdminClient({"bootstrap.servers": changelog.bootstrap})
    for future in admin.delete_records([ClientPartition(changelog.topic, 0, 20)]).values():
        future.result()
    with pytest.raises(OffsetRangeLost, match="no longer has offset 0"):
        changelog.read(pinned)
    assert changelog.read(pinned, is_pinned=False) == {f"k{key}": 1 for key in range(20, 50)}


def test_versions_of_a_store_are_whole_too(fierce: str, unique_name: Callable[[str], str]) -> None:
    """The last version of a key may be behind a pinned end, and the one before may be gone."""
    name = unique_name("versions")
    changelog = Counts(fierce, name, SOON, store="prices")
    changelog.write(range(200), 1)
    pinned = changelog.pin()
    changelog.write(range(150), 2)
    changelog.compact(0)
    with pytest.raises(OffsetRangeLost, match="has been compacted"):
        changelog.read(pinned)
    assert changelog.read(pinned, is_pinned=False).keys() == {f"k{key}" for key in range(200)}
