"""Tables of pinned offsets while the application goes on and the broker compacts: whole, or refused.

In this process, as Spark's tasks read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from dsl import StreamsBuilder
from integration_support.fierce_broker import first_offset
from streams.config import StreamsConfig
from streams.spark import OffsetRangeLost, OffsetRanges, pin_offsets
from streams.spark.rows.store_layouts import table_layout
from streams.spark.sources.table_source import table_plan
from waiting import wait_until

SOON = {"cleanup.policy": "compact", "segment.ms": "500", "max.compaction.lag.ms": "500"}
NEVER = {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"}


class Counts:
    """The changelog of a count, written as a running application would."""

    def __init__(self, bootstrap: str, name: str, configs: dict[str, str]) -> None:
        self.bootstrap, self.topic = bootstrap, f"{name}-counts-changelog"
        self._settings = StreamsConfig.of({
            "application.id": name, "bootstrap.servers": bootstrap, "default.key.serde": "string",
            "default.value.serde": "string",
        })  # fmt: skip
        self._producer = Producer({"bootstrap.servers": bootstrap})
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(self.topic, 1, 1, config=configs)])[self.topic].result()

    def write(self, keys: Iterable[int], value: int) -> None:
        for key in keys:
            self._producer.produce(self.topic, value.to_bytes(8, "big"), f"k{key}", 0)
        assert self._producer.flush(60) == 0

    def pin(self) -> OffsetRanges:
        return pin_offsets(self.bootstrap, self.topic)

    def read(self, pinned: OffsetRanges) -> dict[str, int]:
        """The table, as a task reads it."""
        builder = StreamsBuilder()
        builder.stream("in").group_by_key().count(materialized="counts")
        layout = table_layout(self._settings, builder.build(), "counts", raw=False)
        plan = table_plan(self._settings, layout, pinned)
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
    with pytest.raises(OffsetRangeLost, match=r"behind the pinned end 200, and may have been compacted since"):
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
