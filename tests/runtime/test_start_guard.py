"""Changelogs and committed offsets that do not belong together: the task refuses to start instead of counting wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dsl import Consumed, Grouped, Materialized, Produced, StreamsBuilder
from processor_api.errors import BootstrapIncompleteError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from streams.app.states import ClientState
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.kafka.ports import OffsetAndMetadata

S = Serdes.STRING
IN = TopicPartition("in", 0)
CHANGELOG = "app-counts-changelog"
GUARANTEES = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])


@pytest.fixture(name="kit")
def kit_fixture(tmp_path: Path) -> Iterator[Cluster]:
    """Each application has a state directory of its own: what it knows is in the topics and the group."""
    with Cluster(tmp_path, topics={"in": 1, "more": 1, "out": 1}) as kit:
        yield kit


def counting(store: str = "counts", *topics: str) -> Topology:
    builder = StreamsBuilder()
    strings: Consumed[str, str] = Consumed(key_serde=S, value_serde=S)
    stream = builder.stream(list(topics) or ["in"], strings)
    counts = stream.group_by_key(Grouped(key_serde=S, value_serde=S)).count(materialized=Materialized(name=store))
    counts.to_stream().map_values(str).to("out", Produced(key_serde=S, value_serde=S))
    return builder.build()


def run(kit: Cluster, topology: Topology, values: int, **settings: Any) -> None:
    """Runs an application until the topic ``out`` has so many values and everything is committed."""
    app = kit.start(topology, statestore_cache_max_bytes=0, **settings)
    kit.until(lambda: len(kit.values()) >= values)
    assert app.close(60)


def refused(kit: Cluster, topology: Topology, **settings: Any) -> str:
    """Starts an application twice, each time in vain: nothing is read, written or committed. Returns the error."""
    offsets, out = dict(kit.broker.groups.group("app").offsets), kit.values()
    texts = set()
    for _ in range(2):
        app = kit.app(topology, **settings)
        error = kit.failed(app)
        assert isinstance(error, BootstrapIncompleteError)
        assert error.message.startswith(f"task {error.task} cannot run: ")
        texts.add(str(error))
        assert app.close(60)
    inputs = {name: one for name, one in kit.broker.groups.group("app").offsets.items() if "-tasks" not in name.topic}
    assert inputs == {name: one for name, one in offsets.items() if "-tasks" not in name.topic}
    assert kit.values() == out
    (text,) = texts
    return text


def forget(kit: Cluster, *partitions: TopicPartition) -> None:
    for partition in partitions:
        del kit.broker.groups.group("app").offsets[partition]


def empty(kit: Cluster, topic: str) -> None:
    configs, count = kit.broker.topics[topic].configs, len(kit.broker.topics[topic].partitions)
    kit.broker.delete_topic(topic)
    kit.broker.create_topic(topic, count, configs)


# ------------------------------------------------------------------ refused


@GUARANTEES
def test_a_changelog_without_committed_offsets_is_refused(guarantee: str, kit: Cluster) -> None:
    """Was that the input was read from its beginning and counted a second time."""
    kit.send("a", "b", "c")
    run(kit, counting(), 3, processing_guarantee=guarantee)
    forget(kit, IN)
    text = refused(kit, counting(), processing_guarantee=guarantee)
    hint = "`streams reset APP --offsets-only --from-file FILE`"
    for part in (f"{CHANGELOG}-0", "no committed offset for in-0", "expired", hint, "bootstrap again"):
        assert part in text


@GUARANTEES
def test_committed_offsets_without_their_changelog_are_refused(guarantee: str, kit: Cluster) -> None:
    """Was that the counts began with 1 again, although the records before the offsets were not read."""
    kit.send("a", "b", "c")
    run(kit, counting(), 3, processing_guarantee=guarantee)
    empty(kit, CHANGELOG)
    kit.broker.gives_ids = False  # with ids, the error names the former topic
    text = refused(kit, counting(), processing_guarantee=guarantee)
    for part in (f"changelog '{CHANGELOG}-0' is empty", "reset application 'app'", "--offsets-only --shift-by 0"):
        assert part in text


@GUARANTEES
def test_the_offsets_of_a_handover_that_is_not_complete_are_refused(guarantee: str, kit: Cluster) -> None:
    kit.send("a", "b", "c")
    open_ = TopicPartitionMetadata(partition_time=5, handover="run 7").encode()
    kit.broker.groups.group("app").offsets[IN] = OffsetAndMetadata(2, open_)
    text = refused(kit, counting(), processing_guarantee=guarantee)
    assert "the handover 'run 7'" in text
    assert "Run the bootstrap again" in text


def test_a_handover_that_is_not_complete_stops_tasks_without_stores_too(kit: Cluster) -> None:
    topology = Topology().add_source("s", "in", key_serde=S, value_serde=S)
    topology.add_sink("out", "out", "s", key_serde=S, value_serde=S)
    open_ = TopicPartitionMetadata(handover="run 7").encode()
    kit.broker.groups.group("app").offsets[IN] = OffsetAndMetadata(2, open_)
    refused(kit, topology)


def test_one_task_that_is_refused_keeps_the_others_from_committing_their_start(tmp_path: Path) -> None:
    """Was that the second start found offsets, and went on."""
    with Cluster(tmp_path, partitions=2) as kit:
        kit.send("a", "b", partition=1)
        run(kit, counting(), 2)
        forget(kit, IN, TopicPartition("in", 1))
        kit.send("c", partition=0)
        assert f"{CHANGELOG}-1" in refused(kit, counting())


# ------------------------------------------------------------------ legal starts


@GUARANTEES
def test_an_application_goes_on_without_its_state_directory(guarantee: str, kit: Cluster) -> None:
    kit.send("a", "b")
    run(kit, counting(), 2, processing_guarantee=guarantee)
    kit.send("c")
    run(kit, counting(), 3, processing_guarantee=guarantee)
    assert kit.values() == ["1", "2", "3"]


def test_offsets_that_were_set_by_a_tool_are_taken_over(kit: Cluster) -> None:
    """What it commits has no metadata: whoever sets offsets says where the stores are, also that they are empty."""
    kit.send("a", "b", "c")
    run(kit, counting(), 3)
    empty(kit, CHANGELOG)
    kit.broker.groups.group("app").offsets[IN] = OffsetAndMetadata(0)
    run(kit, counting(), 6)
    assert kit.values() == ["1", "2", "3"] * 2


@pytest.mark.parametrize("deleted", [True, False], ids=["offsets deleted", "offsets set to the beginning"])
def test_an_application_that_was_reset_starts(deleted: bool, kit: Cluster) -> None:
    """Internal topics are deleted, and offsets deleted or set to the beginning."""
    kit.send("a", "b", "c")
    run(kit, counting(), 3)
    kit.broker.delete_topic(CHANGELOG)
    if deleted:
        forget(kit, IN)
    else:
        kit.broker.groups.group("app").offsets[IN] = OffsetAndMetadata(0)
    run(kit, counting(), 6)
    assert kit.values() == ["1", "2", "3"] * 2


def test_a_new_store_starts_empty_beside_committed_offsets(kit: Cluster) -> None:
    """The topology has changed: offsets are there, and the changelog of the new store is empty."""
    kit.send("a", "b")
    run(kit, counting(), 2)
    kit.send("c")
    run(kit, counting("others"), 3)
    assert kit.values() == ["1", "2", "1"]


def counting_by(*stores: str) -> Topology:
    """Each store counts the records of one topic, in one task."""
    builder = StreamsBuilder(key_serde=S, value_serde=S)
    stream = builder.stream("in")
    for store in stores:
        stream.group_by_key().count(materialized=store).to_stream().map_values(str).to("out")
    return builder.build()


LEFT_OUT = "store has rows, and the last commit knows nothing of it"


def warned(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    found = [(vars(one)["store"], vars(one)["tasks"]) for one in caplog.records if one.message.startswith(LEFT_OUT)]
    caplog.clear()
    return found


@GUARANTEES
def test_a_store_that_a_version_between_left_out_is_told_of(
    guarantee: str, kit: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """After a roll back and another deploy the store went on with its rows of before, and lacked what was processed
    between without a word."""
    versions = counting_by("counts"), counting_by("counts", "added")
    settings: dict[str, Any] = {"processing_guarantee": guarantee}
    kit.send("a")
    run(kit, versions[0], 1, **settings)
    kit.send("b")
    run(kit, versions[1], 3, **settings)
    kit.send("c")
    run(kit, versions[1], 5, **settings)
    assert warned(caplog) == []
    kit.send("d")
    run(kit, versions[0], 6, **settings)
    assert warned(caplog) == []
    kit.send("e")
    run(kit, versions[1], 8, **settings)
    assert warned(caplog) == [("added", "0_0")]
    assert kit.values()[-2:] == ["5", "3"], "the store has b, c and e"
    kit.send("f")
    run(kit, versions[1], 10, **settings)
    assert warned(caplog) == [], "the version with the store has committed"
    kit.send("g")
    run(kit, counting_by("counts", "renamed"), 12, **settings)
    assert warned(caplog) == []


def test_a_new_input_of_a_store_has_no_offset_yet(kit: Cluster) -> None:
    kit.send("a", "b")
    run(kit, counting(), 2)
    kit.send("c", topic="more")
    run(kit, counting("counts", "in", "more"), 3)
    assert kit.values() == ["1", "2", "3"]


class Notes(Processor[str, str, str, str]):
    """Puts a row when it is initialised, before there is any record."""

    def init(self, context: Any) -> None:
        super().init(context)
        context.get_state_store("counts").put("made", "yes")

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record.with_value(self.context.get_state_store("counts").get("made")))


@GUARANTEES
def test_a_store_that_is_filled_without_any_input_is_no_contradiction(guarantee: str, kit: Cluster) -> None:
    """Kafka Streams for Java commits no offset of a partition that it has read nothing of."""
    topology = Topology().add_source("s", "in", key_serde=S, value_serde=S).add_processor("p", Notes, "s")
    topology.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("counts"), S, S), "p")
    topology.add_sink("out", "out", "p", key_serde=S, value_serde=S)
    app = kit.start(topology, processing_guarantee=guarantee)
    kit.until(lambda: CHANGELOG in kit.broker.topics and kit.values(CHANGELOG))
    assert app.close(60)
    forget(kit, IN)
    kit.send("a")
    text = refused(kit, topology, processing_guarantee=guarantee)
    assert "no committed offset" in text, "there are records now that may have been counted"
    empty(kit, "in")
    kit.start(topology, processing_guarantee=guarantee)
    kit.send("b")
    kit.until(lambda: kit.values() == ["yes"])


def test_a_source_that_is_the_changelog_of_its_table_starts_without_offsets(kit: Cluster) -> None:
    builder = StreamsBuilder()
    strings: Consumed[str, str] = Consumed(key_serde=S, value_serde=S)
    builder.table("in", strings, materialized=Materialized(name="table")).to_stream().to(
        "out", Produced(key_serde=S, value_serde=S)
    )
    kit.send("a", "b")
    topology = builder.build({"topology.optimization": "all"})
    run(kit, topology, 2, topology_optimization="all")
    assert "app-table-changelog" not in kit.broker.topics
    forget(kit, IN)
    run(kit, topology, 4, topology_optimization="all")
    assert kit.values() == ["a", "b"] * 2


def test_a_store_without_a_changelog_is_not_asked_about(kit: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    store = Stores.key_value_store_builder(Stores.persistent_key_value_store("counts"), S, S).with_logging_disabled()
    topology = Topology().add_source("s", "in", key_serde=S, value_serde=S).add_processor("p", Notes, "s")
    topology.add_state_store(store, "p").add_sink("out", "out", "p", key_serde=S, value_serde=S)
    kit.send("a")
    run(kit, topology, 1)
    forget(kit, IN)
    with caplog.at_level(logging.ERROR):
        run(kit, topology, 2)
    assert not caplog.records


@GUARANTEES
def test_committed_offsets_say_which_changelogs_hold_records(guarantee: str, kit: Cluster) -> None:
    """Of those of the task alone, from the first commit behind the record on."""
    kit.send("a")
    run(kit, counting(), 1, processing_guarantee=guarantee)
    kit.until(lambda: kit.committed() is not None)
    metadata = TopicPartitionMetadata.decode(kit.broker.groups.group("app").offsets[IN].metadata)
    assert len(metadata.changelogs) == 1
    assert metadata.topic_id is not None
    assert kit.broker.groups.group("app").offsets[IN].offset >= 1
    assert ClientState.ERROR not in kit.entered()
