"""Keys of topics that are read together are compared with where a partitioner puts them, in a sample."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dsl import Repartitioned, StreamsBuilder
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from streams.kafka.producing.key_places import Placement
from streams.runtime.plan.co_partitioned import EVERY, FIRST_KEYS, KeySample, KeyWatch, meeting_topics
from streams.testing.broker import EmbeddedClients
from waiting import wait_until

COUNT = 4
KEYS = [b"d%d" % number for number in range(40)]


class OneKey:
    """A message with a key, as far as a sample looks at it."""

    def __init__(self, key: bytes | None) -> None:
        self.key = lambda: key


def joined_after_a_new_key() -> Topology:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    devices = builder.table("devices", materialized="devices")
    readings = builder.stream("readings").select_key(lambda _, value: value)
    readings.left_join(devices, lambda reading, device: str(device)).to("out")
    return builder.build()


def joined() -> Topology:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    readings, devices = builder.stream("readings"), builder.table("devices")
    readings.join(devices, lambda reading, device: str(device)).to("out")
    return builder.build()


def merged_and_counted() -> Topology:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("readings").merge(builder.stream("devices")).group_by_key().count()
    return builder.build()


def both_read_and_counted() -> Topology:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream(["readings", "devices"]).group_by_key().count()
    return builder.build()


def counted_alone() -> Topology:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("devices").group_by_key().count()
    return builder.build()


def placed_by_the_user() -> Topology:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    devices = builder.table("devices")
    readings = builder.stream("readings").repartition(Repartitioned(partitioner=lambda *_: [0]))
    readings.join(devices, lambda reading, device: str(device)).to("out")
    return builder.build()


def watch_of(topology: Topology) -> KeyWatch:
    topics = {topic: node.name for node in topology.nodes.values() for topic in getattr(node, "topics", ())}
    return KeyWatch(list(meeting_topics(topology, topics)), dict.fromkeys(topics, COUNT))


def look(watch: KeyWatch, topic: str, way: Placement, keys: Iterable[bytes] = KEYS) -> int:
    """Gives each partition of a topic the keys that a partitioner puts there; returns how many are misplaced."""
    found = 0
    for partition in range(COUNT):
        sample = watch.sample(topic, partition)
        if sample is not None:
            sample.look([OneKey(None), *(OneKey(key) for key in keys if way.partition(key, COUNT) == partition)])
            found += sample.misplaced
    return found


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Iterator[list[dict[str, Any]]]:
    """The extra values of the warnings."""

    class Kept(list[dict[str, Any]]):
        def __iter__(self) -> Iterator[dict[str, Any]]:
            return iter([vars(one) for one in caplog.records if "keys lie in other partitions" in one.getMessage()])

    with caplog.at_level(logging.WARNING, "streams.tasks"):
        yield Kept()


def topics(warned: Iterable[dict[str, Any]]) -> list[str]:
    return [one["topic"] for one in warned]


def test_a_topic_that_meets_a_repartition_topic_has_to_be_by_murmur2(warned: list[dict[str, Any]]) -> None:
    """Most rows were not found, in silence, where a producer with another default had written the table."""
    watch = watch_of(joined_after_a_new_key())
    assert look(watch, "devices", Placement.CRC32) > 20
    (found,) = warned
    assert found["topic"] == "devices"
    assert "partitioner=murmur2_random" in found["do"]
    assert "such as 'd" in found["keys"]
    assert re.fullmatch(r"left_join at \S*test_misplaced_keys.py:\d+", found["read_by"])
    assert watch.sample("readings", 0) is None
    look(watch, "devices", Placement.CRC32)
    assert len(list(warned)) == 1, "it is said once"


def test_keys_that_are_by_murmur2_are_right(warned: list[dict[str, Any]]) -> None:
    assert look(watch_of(joined_after_a_new_key()), "devices", Placement.MURMUR2) == 0
    assert topics(warned) == []


@pytest.mark.parametrize("topology", [joined, merged_and_counted, both_read_and_counted])
def test_topics_that_others_write_have_to_agree(topology: Any, warned: list[dict[str, Any]]) -> None:
    watch = watch_of(topology())
    assert look(watch, "readings", Placement.MURMUR2) == 0
    assert look(watch, "devices", Placement.CRC32) > 20
    assert topics(warned) == ["devices"]


@pytest.mark.parametrize("way", list(Placement))
def test_any_partitioner_will_do_if_both_use_it(way: Placement, warned: list[dict[str, Any]]) -> None:
    watch = watch_of(joined())
    assert look(watch, "readings", way) == look(watch, "devices", way) == 0
    assert topics(warned) == []


def test_a_few_keys_tell_nothing_of_a_partitioner_that_is_not_known(warned: list[dict[str, Any]]) -> None:
    """Two topics may be by a function of the user's, and one key of a few is where murmur2 puts it by chance."""
    watch = watch_of(joined())
    look(watch, "readings", Placement.MURMUR2, KEYS[:3] * 10)
    watch.look("devices", 0, KEYS)
    assert topics(warned) == []


def test_topics_that_meet_no_other_are_not_looked_at() -> None:
    assert watch_of(counted_alone()).sample("devices", 0) is None


def test_a_partitioner_of_the_user_is_not_judged() -> None:
    assert watch_of(placed_by_the_user()).sample("devices", 0) is None


def test_one_partition_holds_every_key() -> None:
    topology = joined_after_a_new_key()
    meetings = list(meeting_topics(topology, {"devices": "KTABLE-SOURCE-0000000001"} | {"devices": _source(topology)}))
    assert KeyWatch(meetings, {"devices": 1}).sample("devices", 0) is None


def _source(topology: Topology) -> str:
    return next(name for name, node in topology.nodes.items() if "devices" in getattr(node, "topics", ()))


def test_a_sample_passes_most_batches_over() -> None:
    class Counted(KeyWatch):
        looked = 0

        def look(self, topic: str, partition: int, keys: Any) -> int:
            self.looked += len(keys)
            return 0

    watch = Counted([], {})
    sample, batch = KeySample(watch, "in", 0), [OneKey(b"k")] * 150
    for _ in range(2):
        sample.look(batch)
    assert watch.looked == FIRST_KEYS
    for _ in range(EVERY):
        sample.look(batch)
    assert watch.looked == FIRST_KEYS + 8


def test_a_running_application_warns_and_counts(tmp_path: Path, warned: list[dict[str, Any]]) -> None:
    with Cluster(tmp_path, topics={"devices": COUNT, "readings": COUNT, "out": COUNT}) as cluster:
        producer = EmbeddedClients(cluster.broker).producer({})
        for key in KEYS:
            producer.produce("devices", b"v", key, Placement.CRC32.partition(key, COUNT), None, None, 1)
        producer.flush()
        app = cluster.start(joined_after_a_new_key())

        def counted() -> float:
            return sum(one.metric_value() for name, one in app.metrics().items() if name.name == "misplaced-keys-total")

        wrong = [
            key for key in KEYS if Placement.CRC32.partition(key, COUNT) != Placement.MURMUR2.partition(key, COUNT)
        ]
        wait_until("all are counted", lambda: counted() == len(wrong))
        assert topics(warned) == ["devices"]
        drops = [drop for task in app.status().tasks for drop in task.drops if drop.reason == "misplaced-key"]
        assert sum(drop.count for drop in drops) == len(wrong)
        assert {drop.dropped for drop in drops} == {False}, "the records are processed all the same"
