"""Snapshots of stores: a worker takes one that fits, and replays the changelog where none does; the log says why."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from processor_api.stores.factory import Stores
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster, Restores, counting
from spark_support.finished_runs import Sent, run_directory, send_all
from state.rocksdb.engine import RocksEngine
from streams.snapshots.store_files import MANIFEST, TableFile
from streams.spark.errors import BootstrapVerificationError, SparkBridgeError
from streams.spark.handover.bootstrap import bootstrap
from streams.spark.handover.cut import Cut

CONFIG = {"application.id": "app", "bootstrap.servers": "in-memory:9092"}
TOPICS = {"in": 1, "out": 1}
RECORDS = [Sent("in", 0, b"k", b"abc"[number % 3 : number % 3 + 1], 1_000 + number) for number in range(30)]
CHANGELOG = "app-counts-changelog"


def topology() -> Topology:
    return counting(store=Stores.persistent_key_value_store("counts"))


@pytest.fixture(name="run", scope="module")
def run_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("snapshots") / "run"
    return run_directory(path, topology, RECORDS, {"in": 1}, sinks={"out": 1})


@pytest.fixture(name="live")
def live_fixture(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Cluster]:
    caplog.set_level(logging.INFO)
    with Cluster(tmp_path / "live", topics=TOPICS) as cluster:
        send_all(cluster.clients.producer({}), RECORDS)
        yield cluster


def hand_over(live: Cluster, run: Path, snapshots: Path | None, **options: Any) -> Any:
    given = {"topology": topology, "clients": live.clients, "snapshot_dir": snapshots, **options}
    return bootstrap(run, CONFIG, **given)


class Started:
    """What a worker said when it was started with snapshots, and what it answered."""

    def __init__(self, live: Cluster, snapshots: Path, caplog: pytest.LogCaptureFixture, **settings: Any) -> None:
        caplog.clear()
        restores = Restores()
        app = live.start(topology(), restores, state_snapshot_dir=str(snapshots), **settings)
        live.send("a", "b", "c")
        end = live.broker.topics["in"].partitions[0].end_offset
        live.until(lambda: live.committed() == end)  # it may have had records to read from before
        self.answers = live.values()[-3:]
        assert app.close(30)
        messages = [one.getMessage() for one in caplog.records if one.name == "streams.restore"]
        self.taken = messages.count("snapshot taken")
        self.refused = [one for one in messages if one.startswith("the snapshot is not taken")]
        self.replayed = sum(count for _, _, count in restores.ended)


def of(snapshots: Path) -> Path:
    return snapshots / "app" / f"{CHANGELOG}-0"


def edit(snapshots: Path, **changes: Any) -> None:
    path = of(snapshots) / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_worker_takes_a_snapshot_and_replays_what_is_behind_it(
    live: Cluster, run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The first worker reads nothing of the changelog; a later one without state reads what the first one wrote."""
    report = hand_over(live, run, tmp_path / "snapshots")
    assert [one.snapshots for one in report.stores] == [1]
    assert "1 snapshots" in str(report)
    first = Started(live, tmp_path / "snapshots", caplog)
    assert (first.taken, first.refused, first.replayed) == (1, [], 0)
    assert first.answers == ["a=11", "b=11", "c=11"]
    assert not list(live.directory.glob("**/0_0/snapshot"))
    second = Started(live, tmp_path / "snapshots", caplog)
    assert (second.taken, second.refused, second.replayed) == (1, [], 3)
    assert second.answers == ["a=12", "b=12", "c=12"]


def test_a_worker_that_has_state_does_not_look_for_snapshots(
    live: Cluster, run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hand_over(live, run, tmp_path / "snapshots")
    state = {"state_dir": str(tmp_path / "state")}
    Started(live, tmp_path / "snapshots", caplog, **state)
    again = Started(live, tmp_path / "snapshots", caplog, **state)
    assert (again.taken, again.refused, again.replayed) == (0, [], 0)
    assert again.answers == ["a=12", "b=12", "c=12"]


def flip_a_byte(snapshots: Path) -> None:
    file = of(snapshots) / "0.sst"
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    file.write_bytes(bytes(raw))


def cut_the_file(snapshots: Path) -> None:
    file = of(snapshots) / "0.sst"
    file.write_bytes(file.read_bytes()[:-10])


def cut_the_manifest(snapshots: Path) -> None:
    path = of(snapshots) / MANIFEST
    path.write_text(path.read_text()[:100])


def name_other_files(snapshots: Path) -> None:
    path = of(snapshots) / MANIFEST
    path.write_text(path.read_text().replace('"0.sst"', '"../../../0.sst"'))


def claim_another_family(snapshots: Path) -> None:
    path = of(snapshots) / MANIFEST
    path.write_text(path.read_text().replace('"counts.plain"', '"counts.timestamped"'))


def claim_a_good_sum(snapshots: Path) -> None:
    """No table file at all, but with the size and the sum that the manifest says."""
    file = of(snapshots) / "0.sst"
    file.write_bytes(b"not a table file")
    found = json.loads((of(snapshots) / MANIFEST).read_text())
    edit(snapshots, files=dict.fromkeys(found["files"], vars(TableFile.of(file))))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (flip_a_byte, "0.sst is damaged: it has"),
        (cut_the_file, "0.sst is damaged: it has"),
        (lambda path: (of(path) / "0.sst").unlink(), "No such file or directory"),
        (cut_the_manifest, "snapshot.json cannot be read"),
        (lambda path: edit(path, offset=None), "a number is missing"),
        (lambda path: edit(path, files={"counts.plain": {}}), "snapshot.json is damaged"),
        (name_other_files, "it lists files that do not belong to a snapshot"),
        (claim_another_family, "the store now has another kind, without 'counts.timestamped'"),
        (claim_a_good_sum, "cannot import file"),
        (lambda path: edit(path, version=2), "it has version 2 with layout 1, but this release reads version 1"),
        (
            lambda path: edit(path, layout="2"),
            "it has version 1 with layout 2, but this release reads version 1 with layout 1",
        ),
        (lambda path: edit(path, partition=1), f"it is of store 'counts' and {CHANGELOG}-1"),
        (lambda path: edit(path, offset=3), "its offset 3 is outside of the changelog, which has 0 to 2"),
        (lambda path: edit(path, made_ms=1_000), "it is too old: the changelog keeps deletions for 86400000 ms"),
        (lambda path: edit(path, topic_id="AAAA"), "the changelog was deleted and made again"),
    ],
)
def test_a_snapshot_that_does_not_fit_is_not_taken(
    spoil: Callable[[Path], Any], why: str, live: Cluster, run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The changelog is replayed, and the log says why."""
    hand_over(live, run, tmp_path / "snapshots")
    spoil(tmp_path / "snapshots")
    found = Started(live, tmp_path / "snapshots", caplog)
    assert (found.taken, len(found.refused), found.replayed) == (0, 1, 3)
    assert why in found.refused[0]
    assert found.answers == ["a=11", "b=11", "c=11"]


def test_a_snapshot_of_a_former_changelog_is_not_taken(
    live: Cluster, run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The application was handed over again, without snapshots: the offsets are the same, the topic's id is not."""
    hand_over(live, run, tmp_path / "snapshots")
    Started(live, tmp_path / "snapshots", caplog)
    hand_over(live, run, None, overwrite=True, cut=Cut({TopicPartition("in", 0): 30}))
    found = Started(live, tmp_path / "snapshots", caplog)
    assert (found.taken, found.replayed) == (0, 3)
    assert "the changelog was deleted and made again" in found.refused[0]
    assert found.answers == ["a=12", "b=12", "c=12"]


def test_a_worker_that_died_between_rows_and_offset_replays(
    live: Cluster, run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its database has rows of the snapshot and no offset, and a part of a copy lies beside it."""
    hand_over(live, run, tmp_path / "snapshots")
    task = tmp_path / "state" / "app" / "0_0"
    task.mkdir(parents=True)
    engine = RocksEngine(task / "rocksdb", ["counts.plain"])
    shutil.copy(of(tmp_path / "snapshots") / "0.sst", tmp_path / "copy.sst")
    engine.ingest({"counts.plain": tmp_path / "copy.sst"})
    assert engine.holds("counts.plain")
    engine.close()
    (task / "snapshot" / "0").mkdir(parents=True)
    (task / "snapshot" / "0" / "0.sst").write_bytes(b"a part")
    found = Started(live, tmp_path / "snapshots", caplog, state_dir=str(tmp_path / "state"))
    assert (found.taken, found.refused, found.replayed) == (0, [], 3)
    assert found.answers == ["a=11", "b=11", "c=11"]
    assert not (task / "snapshot").exists()


class Killed(BaseException):
    """Ends a bootstrap, as a kill of its process does."""


class KillAt(logging.Handler):
    """Kills a bootstrap behind a step."""

    def __init__(self, step: str) -> None:
        super().__init__()
        self._step = step

    def emit(self, record: logging.LogRecord) -> None:
        if self._step in record.getMessage():
            raise Killed


@pytest.mark.parametrize("step", ["handover begun", "changelog", "outputs published", "offsets committed"])
def test_a_bootstrap_that_is_killed_writes_its_snapshots_with_the_next_call(
    step: str, live: Cluster, run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What a call that died has left in the directory is removed; what others have there stays."""
    snapshots = tmp_path / "snapshots"
    (snapshots / "app" / ".part-1").mkdir(parents=True)
    (snapshots / "app" / "notes").mkdir()
    (snapshots / "other").mkdir()
    handler, logger = KillAt(step), logging.getLogger("streams.spark")
    logger.addHandler(handler)
    try:
        with pytest.raises(Killed):
            hand_over(live, run, snapshots)
    finally:
        logger.removeHandler(handler)
    assert [one.snapshots for one in hand_over(live, run, snapshots).stores] == [1]
    assert sorted(path.name for path in (snapshots / "app").iterdir()) == [f"{CHANGELOG}-0", "notes"]
    assert (snapshots / "other").is_dir()
    found = Started(live, snapshots, caplog)
    assert (found.taken, found.refused, found.replayed) == (1, [], 0)
    assert found.answers == ["a=11", "b=11", "c=11"]


def test_a_handover_that_is_complete_writes_snapshots_later(
    live: Cluster, run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hand_over(live, run, None)
    report = hand_over(live, run, tmp_path / "snapshots")
    assert [(one.written, one.snapshots) for one in report.stores] == [(0, 1)]
    assert Started(live, tmp_path / "snapshots", caplog).taken == 1


def test_snapshots_that_cannot_be_written_are_an_error(live: Cluster, run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SparkBridgeError, match=r"snapshots cannot be written to .*file"):
        hand_over(live, run, tmp_path / "file")
    with pytest.raises(SparkBridgeError, match="snapshot_dir needs verify=True"):
        hand_over(live, run, tmp_path / "snapshots", verify=False)
    assert not live.broker.groups.group("app").offsets


def test_a_changelog_that_was_changed_gets_no_snapshot(live: Cluster, run: Path, tmp_path: Path) -> None:
    """A later call compares the changelog with the backfill before it writes a snapshot."""
    hand_over(live, run, None)
    live.clients.producer({}).produce(CHANGELOG, b"12345678", b"other", 0, None, None, 5, None)
    with pytest.raises(BootstrapVerificationError, match="holds 4 rows and 3 were written"):
        hand_over(live, run, tmp_path / "snapshots")
    assert not of(tmp_path / "snapshots").exists()


def test_a_store_in_memory_has_no_snapshot(live: Cluster, tmp_path: Path) -> None:
    run = run_directory(tmp_path / "run", counting, RECORDS, {"in": 1}, sinks={"out": 1})
    report = hand_over(live, run, tmp_path / "snapshots", topology=counting())
    assert [one.snapshots for one in report.stores] == [0]
    assert report.notes == (
        "store 'counts' has no snapshot, workers replay its changelog: its rows are not on RocksDB",
    )
