"""Changelogs that are other topics than those of the last commit: a complete store is never exchanged for less."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from dsl import Consumed, Grouped, Materialized, Produced, StreamsBuilder
from processor_api.errors import StateError
from processor_api.serde import Serdes
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster, Restores
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState

S = Serdes.STRING
IN = TopicPartition("in", 0)
CHANGELOG = "app-counts-changelog"
LOG = TopicPartition(CHANGELOG, 0)
GUARANTEES = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])


@pytest.fixture(name="kit")
def kit_fixture(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, topics={"in": 1, "out": 1}, one_state=True) as kit:
        yield kit


def counting(store_type: str = "rocksdb") -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(key_serde=S, value_serde=S)).filter(lambda _, value: value != "drop")
    counts = stream.group_by(lambda _, value: value, Grouped(key_serde=S, value_serde=S)).count(
        materialized=Materialized(name="counts", store_type=store_type)
    )
    counts.to_stream().map_values(str).to("out", Produced(key_serde=S, value_serde=S))
    return builder.build()


def counted(kit: Cluster, *words: str) -> list[str]:
    """Sends words, and returns the counts that come out."""
    before = len(kit.values())
    kit.send(*words)
    kit.until(lambda: len(kit.values()) >= before + len(words))
    return kit.values()[before:]


def start(kit: Cluster, guarantee: str, **settings: object) -> KafkaStreams:
    return kit.start(counting(), processing_guarantee=guarantee, statestore_cache_max_bytes=0, **settings)


def is_committed(kit: Cluster, offset: int, topic: str = "app-counts-repartition") -> bool:
    found = kit.broker.groups.group("app").offsets.get(TopicPartition(topic, 0))
    return found is not None and found.offset == offset


def remake(kit: Cluster, *rows: tuple[str, bytes]) -> None:
    configs = kit.broker.topics[CHANGELOG].configs
    kit.broker.delete_topic(CHANGELOG)
    kit.broker.create_topic(CHANGELOG, 1, configs)
    producer = kit.clients.producer({})
    for key, value in rows:
        producer.produce(CHANGELOG, value, key.encode(), 0, None, None, 5, None)
    producer.flush()


def restored(kit: Cluster, tmp_path: Path, guarantee: str, *words: str) -> list[str]:
    """What a worker on an empty disk counts."""
    with kit.broker.lock:
        (log,) = kit.broker.topics[CHANGELOG].partitions
        assert log.end_offset > log.start_offset
    shutil.rmtree(kit.directory / "app")
    start(kit, guarantee)
    return counted(kit, *words)


@GUARANTEES
def test_a_complete_store_is_written_into_the_new_changelog(
    guarantee: str, kit: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its rows were thrown away for those of the new topic, and the counts began from there."""
    app = start(kit, guarantee)
    assert counted(kit, "a", "a", "b", "c") == ["1", "2", "1", "1"]
    assert app.close(60)
    remake(kit, ("a", (70).to_bytes(8, "big")), ("foreign", (7).to_bytes(8, "big")))
    restores = Restores()
    with caplog.at_level(logging.INFO, "streams"):
        again = start(kit, guarantee, restores=restores)
        assert counted(kit, "a", "b", "foreign") == ["3", "2", "1"]
    (done,) = [one for one in caplog.records if one.msg == "store is written back"]
    assert (done.records, done.deleted) == (3, 1)  # type: ignore[attr-defined]
    assert restores.ended == []
    assert again.close(60)
    with caplog.at_level(logging.INFO, "streams"):
        caplog.clear()
        last = start(kit, guarantee)
        assert counted(kit, "c") == ["2"]
    assert not [one for one in caplog.records if "written back" in one.msg]
    assert last.close(60)
    assert restored(kit, tmp_path, guarantee, "a", "b", "c", "foreign") == ["4", "3", "3", "2"]


@GUARANTEES
def test_a_changelog_made_again_under_a_running_worker_gets_its_store(
    guarantee: str, kit: Cluster, tmp_path: Path
) -> None:
    """The worker wrote only new rows into the new topic, from which its next start was restored."""
    app = start(kit, guarantee)
    assert counted(kit, "a", "a", "b") == ["1", "2", "1"]
    kit.until(lambda: is_committed(kit, 3) or is_committed(kit, 4))
    with kit.broker.lock:
        remake(kit)
    assert counted(kit, "a")[-1:] == ["3"]
    kit.until(lambda: kit.broker.topics[CHANGELOG].partitions[0].end_offset >= 2)
    kit.until_state(app, ClientState.RUNNING)
    assert app.close(60)
    found = restored(kit, tmp_path, guarantee, "b", "a")
    assert found == ["2", "4"] or (guarantee == "at_least_once" and found == ["2", "5"])  # the record came again


@GUARANTEES
def test_a_worker_without_the_store_is_rejected(guarantee: str, kit: Cluster) -> None:
    """Though the new topic has records: they are less than what the offsets stand for."""
    app = start(kit, guarantee)
    assert counted(kit, "a", "b") == ["1", "1"]
    assert app.close(60)
    remake(kit, ("a", (1).to_bytes(8, "big")))
    shutil.rmtree(kit.directory / "app")
    for _ in range(2):
        failed = kit.app(counting(), processing_guarantee=guarantee)
        kit.until(lambda failed=failed: failed.state is ClientState.ERROR)
        assert isinstance(failed.failure, StateError)
        text = str(failed.failure)
        for part in (
            f"changelog '{CHANGELOG}-0' was deleted and made again",
            "'counts'",
            "does not have the whole store",
        ):
            assert part in text
        assert failed.close(60)


def test_a_store_in_memory_is_not_there_to_be_written(kit: Cluster) -> None:
    topology = counting("memory")
    app = kit.start(topology)
    assert counted(kit, "a") == ["1"]
    assert app.close(60)
    remake(kit, ("a", (1).to_bytes(8, "big")))
    failed = kit.app(topology)
    kit.until(lambda: failed.state is ClientState.ERROR)
    assert "the store is in memory" in str(failed.failure)


def test_a_setting_rejects_what_could_be_written(kit: Cluster) -> None:
    app = start(kit, "exactly_once_v2")
    assert counted(kit, "a") == ["1"]
    assert app.close(60)
    remake(kit)
    failed = kit.app(counting(), state_on_changelog_loss="fail", processing_guarantee="exactly_once_v2")
    kit.until(lambda: failed.state is ClientState.ERROR)
    assert "state.on.changelog.loss is 'fail'" in str(failed.failure)


@GUARANTEES
def test_a_store_is_complete_behind_records_that_changed_nothing(guarantee: str, kit: Cluster) -> None:
    """Positions were not written where no store had changed, so that it seemed to lack these records."""
    app = start(kit, guarantee)
    assert counted(kit, "a") == ["1"]
    kit.send("drop", "drop")
    kit.until(lambda: IN in (found := kit.broker.groups.group("app").offsets) and found[IN].offset >= 3)
    assert app.close(60)
    remake(kit)
    start(kit, guarantee)
    assert counted(kit, "a") == ["2"]


@GUARANTEES
def test_a_truncated_changelog_gets_the_complete_store(guarantee: str, kit: Cluster, tmp_path: Path) -> None:
    """Its offset was outside of the log, so the store was rebuilt from the rest."""
    app = start(kit, guarantee)
    assert counted(kit, "a", "a", "b") == ["1", "2", "1"]
    assert app.close(60)
    with kit.broker.lock:
        (log,) = kit.broker.topics[CHANGELOG].partitions
        for _ in range(10):  # other offsets than those that the store knows, all of them gone
            kit.clients.producer({}).produce(CHANGELOG, b"x" * 8, b"other", 0, None, None, 5, None)
        log.delete_before(log.end_offset)
    again = start(kit, guarantee)
    assert counted(kit, "a", "b") == ["3", "2"]
    assert again.close(60)
    assert restored(kit, tmp_path, guarantee, "a") == ["4"]


def test_a_store_whose_last_commit_was_killed_is_not_complete(kit: Cluster, tmp_path: Path) -> None:
    """The tail was in the former changelog alone."""
    app = start(kit, "exactly_once_v2")
    assert counted(kit, "a") == ["1"]
    assert app.close(60)
    shutil.copytree(kit.directory / "app", tmp_path / "before")
    app = start(kit, "exactly_once_v2")
    assert counted(kit, "a") == ["2"]
    assert app.close(60)
    shutil.rmtree(kit.directory / "app")
    shutil.copytree(tmp_path / "before", kit.directory / "app")
    remake(kit)
    failed = kit.app(counting(), processing_guarantee="exactly_once_v2")
    kit.until(lambda: failed.state is ClientState.ERROR)
    assert "or the last commit did not write it" in str(failed.failure)
