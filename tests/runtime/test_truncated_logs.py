"""Logs that were truncated and have grown again: offsets in them look right, and stand for other records."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from dsl import Consumed, Grouped, Materialized, Produced, StreamsBuilder
from processor_api.errors import StateError, StreamsError
from processor_api.serde import Serdes
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster, Restores
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.queries.store_types import QueryableStoreTypes, StoreQueryParameters

S = Serdes.STRING
IN = TopicPartition("in", 0)
LOG = TopicPartition("app-counts-changelog", 0)
GUARANTEES = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])


@pytest.fixture(name="kit")
def kit_fixture(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "state", topics={"in": 1, "out": 1}, one_state=True) as kit:
        yield kit


def counting(store_type: str = "rocksdb") -> Topology:
    builder = StreamsBuilder()
    counts = (
        builder.stream("in", Consumed(key_serde=S, value_serde=S))
        .group_by_key(Grouped(key_serde=S, value_serde=S))
        .count(materialized=Materialized(name="counts", store_type=store_type))
    )
    counts.to_stream().map_values(str).to("out", Produced(key_serde=S, value_serde=S))
    return builder.build()


def start(kit: Cluster, guarantee: str, restores: Restores | None = None, **settings: object) -> KafkaStreams:
    return kit.start(counting(), restores, processing_guarantee=guarantee, statestore_cache_max_bytes=0, **settings)


def counted(kit: Cluster, *keys: str) -> list[str]:
    """Sends records with keys, waits until they are committed, and returns the counts that come out."""
    before = len(kit.values())
    for key in keys:
        kit.send("x", key=key)
    kit.until(lambda: len(kit.values()) >= before + len(keys))
    kit.until(lambda: committed(kit) == end(kit, IN))
    return kit.values()[before:]


def committed(kit: Cluster) -> int:
    found = kit.broker.groups.group("app").offsets.get(IN)
    return -1 if found is None else found.offset


def end(kit: Cluster, partition: TopicPartition) -> int:
    return kit.broker.log(partition).end_offset


def lost_after_read(app: KafkaStreams) -> list[int]:
    (task,) = app.status().tasks
    return [one.count for one in task.drops if one.reason == "lost-after-read"]


def lose(kit: Cluster, partition: TopicPartition, offset: int, *rows: tuple[str, bytes | None]) -> None:
    """Elects a leader that lacks the records from an offset on, and lets the log grow again to more than it had."""
    before = end(kit, partition)
    kit.broker.lose_records(partition, offset)
    producer = kit.clients.producer({})
    for key, value in rows:
        producer.produce(partition.topic, value, key.encode(), partition.partition, None, None, 5, None)
    producer.flush()
    assert end(kit, partition) > before


def number(value: int) -> bytes:
    return value.to_bytes(8, "big")


OTHERS = [("a", number(70)), *((f"other-{at}", number(7)) for at in range(12))]


def rebuilt(caplog: pytest.LogCaptureFixture) -> list[str]:
    texts = ("rebuilt from its changelog", "written back into its changelog")
    return [one.msg for one in caplog.records if any(text in one.msg for text in texts)]


# ------------------------------------------------------------------ changelogs


@GUARANTEES
def test_a_complete_store_is_written_into_a_changelog_that_grew_again(
    guarantee: str, kit: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Its offset was inside of the log, so nothing was missing, and the changelog had rows of somebody else."""
    app = start(kit, guarantee)
    assert counted(kit, "a", "a", "b") == ["1", "2", "1"]
    assert app.close(60)
    lose(kit, LOG, 1, *OTHERS)
    with caplog.at_level(logging.INFO, "streams"):
        again = start(kit, guarantee)
        assert counted(kit, "a", "other-1") == ["3", "1"]
    assert rebuilt(caplog) == ["store is written back into its changelog: it has lost records"]
    assert again.close(60)
    shutil.rmtree(kit.directory / "app")
    start(kit, guarantee)
    assert counted(kit, "a", "b", "other-1", "other-2") == ["4", "2", "2", "1"]


@GUARANTEES
def test_an_older_store_is_rebuilt_from_what_the_changelog_has(
    guarantee: str, kit: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Only the records behind its offset were read, so it kept rows that the changelog does not have."""
    app = start(kit, guarantee)
    assert counted(kit, "a", "b") == ["1", "1"]
    assert app.close(60)
    shutil.copytree(kit.directory / "app", tmp_path / "older")
    app = start(kit, guarantee)
    assert counted(kit, "a") == ["2"]
    assert app.close(60)
    shutil.rmtree(kit.directory / "app")
    shutil.copytree(tmp_path / "older", kit.directory / "app")
    lose(kit, LOG, 0, *OTHERS)
    restores = Restores()
    with caplog.at_level(logging.INFO, "streams"):
        start(kit, guarantee, restores)
        assert counted(kit, "a", "b", "other-1") == ["71", "1", "8"]
    assert rebuilt(caplog) == ["store is rebuilt from its changelog: that has lost records which the store has"]
    ((store, _, first, _),) = restores.started
    assert (store, first) == ("counts", 0)


@GUARANTEES
def test_a_store_that_only_its_killed_worker_has_is_rebuilt(guarantee: str, kit: Cluster, tmp_path: Path) -> None:
    """Its one commit was made by a worker that had no time to see which leader has it; another one has gone on."""
    app = start(kit, guarantee, commit_interval_ms=1_000)
    assert counted(kit, "a", "b") == ["1", "1"]
    shutil.copytree(kit.directory / "app", tmp_path / "killed")  # between two commits, as a kill leaves it
    assert app.close(60)
    shutil.rmtree(kit.directory / "app")
    app = start(kit, guarantee)
    assert counted(kit, "a") == ["2"]
    assert app.close(60)
    shutil.rmtree(kit.directory / "app")
    shutil.copytree(tmp_path / "killed", kit.directory / "app")
    lose(kit, LOG, 0, *OTHERS)
    start(kit, guarantee)
    assert counted(kit, "a", "b", "other-1") == ["71", "1", "8"]


@pytest.mark.parametrize("offset", [0, 1])
def test_a_setting_rejects_what_could_be_written(offset: int, kit: Cluster) -> None:
    """Also where the log has not grown again, as which it was rebuilt from what is left."""
    app = start(kit, "exactly_once_v2")
    assert counted(kit, "a", "b", "a") == ["1", "1", "2"]
    assert app.close(60)
    lose(kit, LOG, 1, *OTHERS) if offset else kit.broker.lose_records(LOG, 1)
    failed = kit.app(counting(), state_on_changelog_loss="fail", processing_guarantee="exactly_once_v2")
    kit.until(lambda: failed.state is ClientState.ERROR)
    assert isinstance(failed.failure, StateError)
    for part in ("'app-counts-changelog-0' has lost records", "'counts'", "state.on.changelog.loss is 'fail'"):
        assert part in str(failed.failure)


@GUARANTEES
def test_a_changelog_that_loses_records_under_a_running_worker_gets_them_again(guarantee: str, kit: Cluster) -> None:
    """The worker went on to count its offsets, and the next owner restored less than was committed."""
    app = start(kit, guarantee)
    assert counted(kit, "a", "a", "b", "c") == ["1", "2", "1", "1"]
    kit.broker.lose_records(LOG, 1)
    assert counted(kit, "c")[-1] == "2"
    assert app.state is ClientState.RUNNING
    assert app.close(60)
    shutil.rmtree(kit.directory / "app")
    start(kit, guarantee)
    assert counted(kit, "a", "b", "c") == ["3", "2", "3"]


@GUARANTEES
def test_an_election_that_loses_nothing_rebuilds_nothing(
    guarantee: str, kit: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither under a running worker, nor where the last records of a worker are of another leader than it knows."""
    with caplog.at_level(logging.INFO, "streams"):
        app = start(kit, guarantee)
        assert counted(kit, "a") == ["1"]
        kit.broker.elect(LOG)
        assert counted(kit, "a") == ["2"]
        kit.broker.elect(LOG)
        kit.broker.elect(LOG)
        assert counted(kit, "b") == ["1"]
        assert app.close(60)
        kit.broker.elect(LOG)
        again = start(kit, guarantee)
        kit.broker.elect(LOG)
        assert counted(kit, "a", "b") == ["3", "2"]
        assert again.close(60)
        start(kit, guarantee)
        assert counted(kit, "b") == ["3"]
    assert rebuilt(caplog) == []


def test_a_restored_store_knows_the_leaders_of_what_it_has_read(kit: Cluster, tmp_path: Path) -> None:
    """It wrote nothing itself before its changelog lost records."""
    app = start(kit, "at_least_once")
    assert counted(kit, "a", "b") == ["1", "1"]
    assert app.close(60)
    shutil.rmtree(kit.directory / "app")
    app = start(kit, "at_least_once")
    kit.until(lambda: app.state is ClientState.RUNNING)
    assert app.close(60)
    shutil.copytree(kit.directory / "app", tmp_path / "restored")
    app = start(kit, "at_least_once")
    assert counted(kit, "c") == ["1"]
    assert app.close(60)
    shutil.rmtree(kit.directory / "app")
    shutil.copytree(tmp_path / "restored", kit.directory / "app")
    lose(kit, LOG, 1, *OTHERS)
    start(kit, "at_least_once")
    assert counted(kit, "a", "b", "other-2") == ["71", "1", "8"]


def position(app: KafkaStreams) -> int | None:
    found = app.all_local_store_partition_lags().get("counts", {}).get(0)
    return None if found is None else found.current_offset_position


@pytest.mark.parametrize("left", [0, 1])
def test_a_standby_copy_begins_again(left: int, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It followed the records behind its offset, and kept rows that the changelog does not have."""
    with Cluster(tmp_path, topics={"in": 1, "out": 1}) as kit, caplog.at_level(logging.INFO, "streams"):
        settings = {"num_standby_replicas": 1, "statestore_cache_max_bytes": 0}
        apps = [kit.start(counting(), **settings) for _ in range(2)]
        assert counted(kit, "a", "b") == ["1", "1"]

        def owners(*, of_copies: bool) -> list[KafkaStreams]:
            threads = [(app, thread) for app in apps for thread in app.metadata_for_local_threads()]
            return [app for app, one in threads if (one.standby_tasks if of_copies else one.active_tasks)]

        kit.until(lambda: owners(of_copies=True) and owners(of_copies=False))
        (owner,), (other,) = owners(of_copies=False), owners(of_copies=True)
        kit.until(lambda: position(other) == 2)
        kit.broker.lose_records(LOG, left)
        assert counted(kit, "a")[-1] == "2"
        kit.until(lambda: len(rebuilt(caplog)) >= 2)
        assert any("written back" in line for line in rebuilt(caplog))
        assert owner.close(60)
        kit.until(lambda: other in owners(of_copies=False))
        assert counted(kit, "a", "b") == ["3", "2"]


# ------------------------------------------------------------------ inputs


@GUARANTEES
def test_an_input_is_read_from_the_first_record_that_is_another_one(
    guarantee: str, kit: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Reading went on at the committed offset, and left out the records before it that had never been read."""
    app = start(kit, guarantee)
    assert counted(kit, "a", "b", "c") == ["1", "1", "1"]
    assert app.close(60)
    lose(kit, IN, 2, ("d", b"x"), ("e", b"x"))
    with caplog.at_level(logging.INFO, "streams"):
        again = start(kit, guarantee)
        kit.until(lambda: committed(kit) == 4)
    assert kit.values("out") == ["1", "1", "1", "1", "1"]
    assert lost_after_read(again) == [1]
    (line,) = [one for one in caplog.records if "its log was truncated" in one.msg]
    assert (line.offset, line.goes_on_at) == (3, 2)  # type: ignore[attr-defined]


@GUARANTEES
def test_an_input_of_a_running_worker_is_read_from_the_first_record_that_is_another_one(
    guarantee: str, kit: Cluster
) -> None:
    app = start(kit, guarantee)
    assert counted(kit, "a", "b", "c") == ["1", "1", "1"]
    with kit.broker.lock:
        lose(kit, IN, 2, ("d", b"x"), ("e", b"x"))
    kit.until(lambda: len(kit.values("out")) == 5)
    assert kit.values("out") == ["1", "1", "1", "1", "1"]
    assert lost_after_read(app) == [1]
    assert app.state is ClientState.RUNNING


@pytest.mark.parametrize("running", [True, False])
def test_without_a_policy_a_truncated_input_ends_the_task(running: bool, kit: Cluster) -> None:
    def none() -> KafkaStreams:
        return kit.app(counting(), auto_offset_reset="none")

    app = start(kit, "at_least_once")
    assert counted(kit, "a", "b", "c") == ["1", "1", "1"]
    assert app.close(60)
    failed = none() if running else app
    if running:
        kit.until_state(failed, ClientState.RUNNING)
        kit.send("x", key="z")
        kit.until(lambda: committed(kit) == 4)
    with kit.broker.lock:
        lose(kit, IN, 2, ("d", b"x"), ("e", b"x"), ("f", b"x"))
    failed = failed if running else none()
    kit.until(lambda: failed.state is ClientState.ERROR)
    assert isinstance(failed.failure, StreamsError)
    assert "was truncated at offset 2" in str(failed.failure)
    assert "in,0,2" in str(failed.failure)


@pytest.mark.parametrize("running", [True, False])
def test_a_truncated_repartition_topic_ends_the_task(running: bool, kit: Cluster) -> None:
    """Its records were the application's own, and some may be gone that were not processed."""
    builder = StreamsBuilder()
    words = builder.stream("in", Consumed(key_serde=S, value_serde=S)).group_by(
        lambda _, value: value, Grouped(key_serde=S, value_serde=S)
    )
    words.count(materialized=Materialized(name="counts")).to_stream().map_values(str).to("out", Produced(key_serde=S))
    topology, own = builder.build(), TopicPartition("app-counts-repartition", 0)
    app = kit.start(topology, statestore_cache_max_bytes=0)
    kit.send("a", "b", "c")
    kit.until(lambda: len(kit.values()) == 3)
    assert running or app.close(60)
    with kit.broker.lock:
        lose(kit, own, 1, *((str(number), b"x") for number in range(6)))
    failed = app if running else kit.app(topology)
    kit.until(lambda: failed.state is ClientState.ERROR)
    text = str(failed.failure)
    for part in (
        "'app-counts-repartition-0' was truncated at offset 1",
        "unprocessed records of this internal topic may be lost",
        "0,1 in",
    ):
        assert part in text


@pytest.mark.parametrize("running", [False, True])
def test_a_table_of_a_truncated_source_topic_has_the_rows_of_now(running: bool, kit: Cluster) -> None:
    """The topic is the changelog of the table: it kept rows of records that are gone."""
    builder = StreamsBuilder()
    table = builder.table(
        "in", Consumed(key_serde=S, value_serde=S), materialized=Materialized(name="rows", store_type="rocksdb")
    )
    table.to_stream().to("out", Produced(key_serde=S, value_serde=S))
    topology = builder.build({"topology.optimization": "all"})
    settings = {"topology_optimization": "all", "statestore_cache_max_bytes": 0}
    app = kit.start(topology, **settings)
    for key in ("a", "b", "c"):
        kit.send("old", key=key)
    kit.until(lambda: committed(kit) == 3)
    assert running or app.close(60)
    with kit.broker.lock:
        lose(kit, IN, 1, ("d", b"new"), ("e", b"new"), ("f", b"new"))
    app = app if running else kit.start(topology, **settings)
    kit.until(lambda: committed(kit) == 4)
    kit.until_state(app, ClientState.RUNNING)
    rows = app.store(StoreQueryParameters.from_name_and_type("rows", QueryableStoreTypes.key_value_store()))
    with rows.all() as found:
        assert dict(found) == {"a": "old", "d": "new", "e": "new", "f": "new"}


def test_an_offset_without_a_leader_epoch_is_taken_as_it_is(kit: Cluster) -> None:
    """An earlier release has committed it, or another tool."""
    app = start(kit, "at_least_once")
    assert counted(kit, "a", "b", "c") == ["1", "1", "1"]
    assert app.close(60)
    offsets = kit.broker.groups.group("app").offsets
    found = offsets[IN]
    assert TopicPartitionMetadata.decode(found.metadata).point == (2, 0)
    metadata = TopicPartitionMetadata(5, topic_id=kit.broker.topics["in"].id, changelogs=frozenset())
    offsets[IN] = found._replace(metadata=metadata.encode())
    lose(kit, IN, 2, ("d", b"x"), ("e", b"x"))
    start(kit, "at_least_once")
    kit.until(lambda: committed(kit) == 4)
    assert len(kit.values("out")) == 4
