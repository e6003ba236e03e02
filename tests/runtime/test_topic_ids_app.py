"""Topics that are deleted and made again under the same name: what was kept of the former one does not belong to it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dsl import Consumed, Materialized, Produced, StreamsBuilder
from processor_api.errors import StateError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster, Restores
from state_support.texts import Managing, Texts
from streams.app.states import ClientState
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.kafka.ports import OffsetAndMetadata

S = Serdes.STRING
CHANGELOG = "app-store-changelog"


class Puts(Processor[str, str, str, str]):
    """Puts its records and forwards all keys that there are."""

    def process(self, record: Record[str, str]) -> None:
        store = self.context.get_state_store("store")
        store.put(record.key, record.value)
        held = store.everything() if hasattr(store, "everything") else dict(store.all())
        self.context.forward(record.with_value(" ".join(sorted(held))))


def keeping(builder: Any) -> Topology:
    topology = Topology().add_source("s", "in", key_serde=S, value_serde=S).add_processor("p", Puts, "s")
    return topology.add_state_store(builder, "p").add_sink("out", "out", "p", key_serde=S, value_serde=S)


def copying() -> Topology:
    topology = Topology().add_source("s", "in", key_serde=S, value_serde=S)
    return topology.add_sink("out", "out", "s", key_serde=S, value_serde=S)


BUILDERS: dict[str, Any] = {
    "on disk": Stores.key_value_store_builder(Stores.persistent_key_value_store("store"), S, S),
    "in memory": Stores.key_value_store_builder(Stores.in_memory_key_value_store("store"), S, S),
    "custom with a file of offsets": Stores.custom("store", Texts),
    "custom that manages its offsets": Stores.custom("store", Managing),
}


@pytest.fixture(name="kit")
def kit_fixture(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, topics={"in": 1, "out": 1, "global": 1}, one_state=True) as kit:
        yield kit


def answer(kit: Cluster, key: str) -> str:
    """What the processor forwards for one more record."""
    before = len(kit.values("out"))
    kit.send_pairs("in", [(key, "v")])
    kit.until(lambda: len(kit.values("out")) > before)
    return kit.values("out")[-1]


def remake(kit: Cluster, topic: str, records: list[tuple[str, str]]) -> None:
    configs = kit.broker.topics[topic].configs
    kit.broker.delete_topic(topic)
    kit.broker.create_topic(topic, 1, configs)
    kit.send_pairs(topic, records)


# ------------------------------------------------------------------ changelogs


def forget_ids_of_changelogs(kit: Cluster) -> None:
    """Takes the ids of changelogs out of the committed offsets, as a former release has committed them."""
    offsets = kit.broker.groups.group("app").offsets
    for place, one in list(offsets.items()):
        metadata = replace(TopicPartitionMetadata.decode(one.metadata), changelog_ids=frozenset())
        offsets[place] = OffsetAndMetadata(one.offset, metadata.encode())


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
@pytest.mark.parametrize("which", BUILDERS)
def test_a_store_of_a_former_changelog_is_restored_if_the_offsets_do_not_name_it(
    which: str, guarantee: str, kit: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Was that the rows of the former topic were served, and none of the new one, as its offsets fitted."""
    topology = keeping(BUILDERS[which])
    app = kit.start(topology, processing_guarantee=guarantee)
    assert answer(kit, "old1") == "old1"
    assert answer(kit, "old2") == "old1 old2"
    assert app.close(60)
    forget_ids_of_changelogs(kit)
    remake(kit, CHANGELOG, [("new1", "v"), ("new2", "v"), ("new3", "v")])
    restores = Restores()
    with caplog.at_level(logging.ERROR):
        again = kit.start(topology, restores, processing_guarantee=guarantee)
        assert answer(kit, "x") == "new1 new2 new3 x"
    assert restores.ended == [("store", f"{CHANGELOG}-0", 3)]
    assert ("deleted and made again" in caplog.text) == (which != "in memory")
    assert again.close(60)
    kept = Restores()
    kit.start(topology, kept, processing_guarantee=guarantee)
    assert answer(kit, "y") == "new1 new2 new3 x y"
    restored = sum(count for _, _, count in kept.ended)
    assert bool(restored) == (which == "in memory"), "the new topic is the store's from then on"


@pytest.mark.parametrize("which", BUILDERS)
def test_a_store_from_before_ids_were_kept_takes_the_topic_over(
    which: str, kit: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is restored and nothing said; from then on the id is known."""
    topology = keeping(BUILDERS[which])
    ids, kit.broker.gives_ids = kit.broker.gives_ids, False
    app = kit.start(topology)
    assert answer(kit, "old") == "old"
    assert app.close(60)
    kit.broker.gives_ids = ids
    restores = Restores()
    with caplog.at_level(logging.WARNING):
        app = kit.start(topology, restores)
        assert answer(kit, "next") == "next old"
    assert caplog.records == []
    assert bool(restores.ended) == (which == "in memory")
    assert app.close(60)
    forget_ids_of_changelogs(kit)
    remake(kit, CHANGELOG, [("new", "v"), ("newer", "v"), ("newest", "v")])
    kit.start(topology)
    assert answer(kit, "x") == "new newer newest x"


def test_a_cluster_without_ids_is_used_as_before(kit: Cluster) -> None:
    """Also on a directory that knows one; only the range of offsets is checked."""
    topology = keeping(BUILDERS["on disk"])
    app = kit.start(topology)
    assert answer(kit, "a") == "a"
    assert app.close(60)
    kit.broker.gives_ids = False
    restores = Restores()
    kit.start(topology, restores)
    assert answer(kit, "b") == "a b"
    assert restores.ended == []


# ------------------------------------------------------------------ global stores


class LookUp(Processor[str, str, str, str]):
    """Forwards the keys of the global table."""

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record.with_value(" ".join(sorted(dict(self.context.get_state_store("g").all())))))


def test_a_global_store_of_a_former_topic_is_filled_anew(kit: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    builder = StreamsBuilder()
    strings: Consumed[str, str] = Consumed(key_serde=S, value_serde=S)
    builder.global_table("global", strings, materialized=Materialized(name="g", store_type="rocksdb"))
    builder.stream("in", strings).process(LookUp).to("out", Produced(key_serde=S, value_serde=S))
    topology = builder.build()
    kit.send_pairs("global", [("old1", "v"), ("old2", "v")])
    app = kit.start(topology)
    assert answer(kit, "x") == "old1 old2"
    assert app.close(60)
    remake(kit, "global", [("new1", "v"), ("new2", "v"), ("new3", "v")])
    with caplog.at_level(logging.ERROR):
        app = kit.start(topology)
        assert answer(kit, "x") == "new1 new2 new3"
    assert "deleted and made again" in caplog.text
    assert app.close(60)
    restores = Restores()
    kit.start(topology, restores)
    assert answer(kit, "x") == "new1 new2 new3"
    assert restores.ended == []


# ------------------------------------------------------------------ source topics


def committed_of_the_former(kit: Cluster, topic: str = "in") -> str:
    """Makes a topic again, with the offset committed for the former one; that one's id."""
    partition = TopicPartition(topic, 0)
    offset = kit.broker.groups.group("app").offsets[partition]
    remake(kit, topic, [("k", "new")] * 5)
    kit.broker.groups.group("app").offsets[partition] = offset
    found = TopicPartitionMetadata.decode(offset.metadata).topic_id
    assert found
    return found


@pytest.mark.parametrize("topology", [copying(), keeping(BUILDERS["on disk"])], ids=["stateless", "stateful"])
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_offsets_of_a_former_source_topic_are_refused(topology: Topology, guarantee: str, kit: Cluster) -> None:
    """Was that the records of the new topic before the offset were skipped in silence."""
    app = kit.start(topology, processing_guarantee=guarantee)
    answer(kit, "a")
    answer(kit, "b")
    assert app.close(60)
    former = committed_of_the_former(kit)
    before = kit.values("out")
    again = kit.app(topology, processing_guarantee=guarantee, start=False)
    again.start()
    kit.until(lambda: again.state is ClientState.ERROR)
    error = again.failure
    assert isinstance(error, StateError)
    now = kit.clients.admin({}).topic_ids(["in"])["in"]
    hint = "`streams reset APP --offsets-only --input-topics in --to-earliest`"
    for part in ("'in' was deleted and made again", former, now, hint, "committed offset 2"):
        assert part in str(error)
    assert kit.values("out") == before


def test_offsets_that_were_set_anew_are_taken_over(kit: Cluster) -> None:
    """As the error says: a tool commits them without the id."""
    app = kit.start(copying())
    answer(kit, "a")
    assert app.close(60)
    committed_of_the_former(kit)
    kit.broker.groups.group("app").offsets[TopicPartition("in", 0)] = OffsetAndMetadata(0)
    again = kit.start(copying())
    kit.until(lambda: kit.values("out")[1:] == ["new"] * 5)
    assert again.failure is None


def test_the_first_offset_of_a_task_with_stores_says_of_which_topic_it_is(kit: Cluster) -> None:
    """It is committed before the first record."""
    kit.start(keeping(BUILDERS["on disk"]))
    partition = TopicPartition("in", 0)
    kit.until(lambda: partition in kit.broker.groups.group("app").offsets)
    found = kit.broker.groups.group("app").offsets[partition]
    ids = kit.clients.admin({}).topic_ids(["in"])
    assert (found.offset, TopicPartitionMetadata.decode(found.metadata).topic_id) == (0, ids["in"])


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_an_input_made_again_and_longer_ends_a_running_application(guarantee: str, kit: Cluster) -> None:
    """Its first records were skipped and the rest committed, without a word, until the next look at the topics."""
    app = kit.start(keeping(BUILDERS["on disk"]), processing_guarantee=guarantee)
    answer(kit, "a")
    offsets = kit.broker.groups.group("app").offsets
    kit.until(lambda: offsets[TopicPartition("in", 0)].offset == 1)
    with kit.broker.lock:  # the reader does not see that there is no topic for a moment
        remake(kit, "in", [(f"new{number}", "v") for number in range(5)])
    kit.until(lambda: app.state is ClientState.ERROR)
    assert isinstance(app.failure, StateError)
    assert "'in' was deleted and made again while this worker read it" in str(app.failure)
    assert [one.offset for one in offsets.values()] in ([], [1])
    if guarantee == "exactly_once_v2":
        assert kit.values("out") == ["a"]


def test_a_topic_made_again_and_empty_ends_a_running_application(kit: Cluster) -> None:
    """By the next look at the topics."""
    app = kit.start(keeping(BUILDERS["on disk"]), metadata_max_age_ms=20)
    answer(kit, "a")
    remake(kit, "in", [])
    kit.until(lambda: app.state is ClientState.ERROR)
    assert "'in' was deleted and made again" in str(app.failure)


def test_a_global_topic_made_again_and_longer_ends_a_running_application(kit: Cluster) -> None:
    """Its first records were never in the table; the next start fills it from the new topic."""
    builder = StreamsBuilder()
    strings: Consumed[str, str] = Consumed(key_serde=S, value_serde=S)
    builder.global_table("global", strings, materialized=Materialized(name="g", store_type="rocksdb"))
    builder.stream("in", strings).process(LookUp).to("out", Produced(key_serde=S, value_serde=S))
    topology = builder.build()
    kit.send_pairs("global", [("old", "v")])
    app = kit.start(topology)
    assert answer(kit, "x") == "old"
    with kit.broker.lock:
        remake(kit, "global", [("new1", "v"), ("new2", "v"), ("new3", "v")])
    kit.until(lambda: app.state is ClientState.ERROR)
    assert "topic 'global' of global store 'g' was deleted and created again" in str(app.failure)
    app.close(60)
    kit.start(topology)
    assert answer(kit, "x") == "new1 new2 new3"


# ------------------------------------------------------------------ outputs


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_an_output_that_was_made_again_is_said_and_counted(
    kit: Cluster, caplog: pytest.LogCaptureFixture, guarantee: str
) -> None:
    """Each time, and nothing ends: what readers had not read of the former topic was gone without a word."""
    app = kit.start(copying(), processing_guarantee=guarantee)

    def deleted() -> float:
        return next(
            float(metric.metric_value())
            for name, metric in app.metrics().items()
            if name.name == "output-topics-deleted-total"
        )

    assert answer(kit, "first") == "v"
    kit.until(lambda: kit.committed() == 1)  # with the first commit, the topic is known
    assert deleted() == 0
    for times in (1, 2):
        remake(kit, "out", [])

        def said(times: int = times) -> bool:
            kit.send_pairs("in", [("more", "v")])
            return deleted() == times

        kit.until(said)
    lines = [one for one in caplog.records if one.message.startswith("an output topic was deleted and made again")]
    assert [(one.levelname, one.__dict__["topic"]) for one in lines] == [("ERROR", "out")] * 2
    assert app.state is ClientState.RUNNING
