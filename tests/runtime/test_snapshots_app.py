"""Snapshots of live workers: one without state begins with the last one and replays the rest; the log says why if it
cannot."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from processor_api.clock import SystemClock
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.task_id import TopicPartition
from runtime_support.running_app import Cluster, counting
from runtime_support.snapshot_place import CHANGELOG, REFUSED, TAKEN, WRITTEN, Place
from streams.platform import Platform
from streams.snapshots.manifest import TaskSnapshot, sum_of
from streams.snapshots.objects import DirectoryObjects, ObjectInfo
from waiting import wait_until


@pytest.fixture(name="place")
def place_fixture(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Place]:
    caplog.set_level(logging.INFO)
    with Cluster(tmp_path / "live") as cluster:
        yield Place(cluster, tmp_path / "snapshots", caplog, "at_least_once")


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_worker_without_state_begins_with_a_snapshot(place: Place, guarantee: str) -> None:
    place.guarantee = guarantee
    place.write("a", "b", "a", "c")
    assert place.said(WRITTEN)
    answers, replayed = place.begin("a", "b")
    assert (answers, replayed) == (["a=3", "b=2"], 0)
    assert len(place.said(TAKEN)) == 1
    assert not place.said(REFUSED)
    answers, replayed = place.begin("a", "c")
    assert answers == ["a=4", "c=2"]
    assert replayed == 2  # what the second worker wrote, which made no snapshots
    assert not list(place.cluster.directory.glob("**/snapshot-*"))


def test_the_status_and_the_metrics_have_the_last_snapshot(place: Place) -> None:
    app = place.worker()
    place.cluster.send("a")
    wait_until("one is written", lambda: app.status().tasks[0].snapshot)
    found = app.status().tasks[0].snapshot
    assert found is not None
    assert found.made_ms is not None
    assert found.failures == 0
    assert found.size >= 1_000
    values = {name.name: metric.metric_value() for name, metric in app.metrics().items()}
    assert values["snapshot-time"] >= found.made_ms
    assert values["snapshot-size-bytes"] >= 1_000
    assert values["snapshot-written-bytes-total"] >= 1_000
    assert values["snapshot-failures-total"] == 0
    assert "snapshot-latency" in values


def test_snapshots_that_fail_are_counted(place: Place) -> None:
    place.root.write_text("not a directory")
    app = place.worker()
    place.cluster.send("a")
    wait_until("two have failed", lambda: (one := app.status().tasks[0].snapshot) is not None and one.failures >= 2)
    found = app.status().tasks[0].snapshot
    assert found is not None
    assert (found.made_ms, found.size) == (None, 0)


class WallClock(SystemClock):
    """The machine's clock, with a wall clock that a test moves."""

    ahead_ms = 0

    def time_ms(self) -> int:
        return super().time_ms() + self.ahead_ms


@pytest.mark.parametrize("behind", [False, True])
def test_a_snapshot_is_too_old_where_a_deletion_may_be_forgotten(place: Place, behind: bool) -> None:
    """Its age counts where the changelog has records behind it; without any it lacks no deletion."""
    place.write("a", "b")
    if behind:
        app = place.worker(interval_ms=None)
        place.cluster.send("c")
        wait_until("it is committed", lambda: place.cluster.committed() == 3)
        assert app.close(30)
    clock = WallClock()
    clock.ahead_ms = 22 * 3_600_000
    answers, replayed = place.begin("a", clock=clock)
    assert answers == ["a=2"]
    if behind:
        assert replayed == 3
        assert "is too old: changelog app-counts-changelog keeps deletions for 86400000 ms" in place.said(REFUSED)[0]
    else:
        assert (replayed, place.said(REFUSED)) == (0, [])


def test_a_worker_with_state_looks_for_no_snapshot(place: Place) -> None:
    place.write("a", state_dir=str(place.root / "state"))
    assert place.begin("a", state_dir=str(place.root / "state"))[0] == ["a=2"]
    assert not place.said(TAKEN)


def test_old_snapshots_and_their_files_are_deleted(place: Place) -> None:
    """Two are kept; each file that there is belongs to one of them, and both can be taken."""
    for value in "abcde":
        place.write(value, value)
    kept = [TaskSnapshot.parse(path.read_bytes()) for path in place.manifests()]
    assert len(kept) == 2
    assert place.files() == {file.digest for one in kept for file in one.files}
    place.manifests()[-1].unlink()
    assert place.begin("a")[0] == ["a=3"]
    assert len(place.said(TAKEN)) == 1


def test_table_files_are_written_once(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """A second snapshot without new rows writes the small files of the database, and no rows again."""
    app = place.worker()
    place.cluster.send(*(f"value-{number}" for number in range(3_000)))
    wait_until("they are in a snapshot", lambda: place.manifests() and place.holds(2_999))
    count = len(place.said(WRITTEN))

    def later() -> list[Any]:
        return [one for one in caplog.records if one.getMessage() == WRITTEN][count + 1 :]

    # the database may merge its tables once more, which makes another one
    wait_until("one without new tables is written", lambda: any(one.new_bytes < 10_000 for one in later()))
    assert app.close(30)
    assert all(one.bytes > 40_000 for one in later())


def manifest_of(place: Place) -> Path:
    (path,) = place.manifests()[-1:]
    return path


def edit(place: Place, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes the manifest as a program that knows the form would."""
    path = manifest_of(place)
    fields = json.loads(path.read_text())
    del fields["sum"]
    change(fields)
    path.write_text(json.dumps({**fields, "sum": sum_of(fields)}))


def the_table(place: Place) -> Path:
    (file,) = [one for one in place.newest().files if one.name.endswith(".sst")][:1]
    return place.folder / "files" / file.digest


def flip_a_byte(place: Place) -> None:
    raw = bytearray(the_table(place).read_bytes())
    raw[len(raw) // 2] ^= 1
    the_table(place).write_bytes(bytes(raw))


def store_of(**changes: Any) -> Callable[[Place], None]:
    return lambda place: edit(place, lambda fields: fields["stores"]["counts"].update(changes))


def claim(**changes: Any) -> Callable[[Place], None]:
    return lambda place: edit(place, lambda fields: fields.update(changes))


def leave_away_a_file(place: Place) -> None:
    """The root of the database is not among its files."""
    edit(place, lambda fields: fields.update(files=[one for one in fields["files"] if one["name"] != "CURRENT"]))


def name_another_path(place: Place) -> None:
    edit(place, lambda fields: fields["files"][0].update(name="../../../escaped"))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (flip_a_byte, "is damaged: it has"),
        (lambda place: the_table(place).write_bytes(the_table(place).read_bytes()[:-7]), "is damaged: it has"),
        (lambda place: the_table(place).unlink(), "is missing"),
        (lambda place: manifest_of(place).write_bytes(manifest_of(place).read_bytes()[:300]), "manifest is damaged"),
        (lambda place: manifest_of(place).write_text("[]"), "manifest is damaged"),
        (
            lambda place: manifest_of(place).write_text(manifest_of(place).read_text().replace('"0_0"', '"0_1"')),
            "manifest is damaged: its checksum is wrong",
        ),
        (leave_away_a_file, "the database at"),
        (name_another_path, "it lists files that do not belong to a snapshot"),
        (claim(version=2), "it has version 2 with layout 1, but this release reads version 1 with layout 1"),
        (claim(layout="2"), "it has version 1 with layout 2, but this release reads version 1 with layout 1"),
        (claim(task="0_1"), "it is of task 0_1 of application 'app'"),
        (claim(application_id="other"), "it is of task 0_0 of application 'other'"),
        (claim(stores={}), "it has no store of the task; its stores are none"),
        (store_of(topic_id="AAAA"), "is another topic: its id is"),
        (store_of(topic="app-other-changelog"), "its store 'counts' has changelog app-other-changelog"),
        (store_of(families=["counts.timestamped"]), "store 'counts' is of another kind now"),
        (store_of(offset=77), "the offset 77 of store 'counts' is outside of changelog app-counts-changelog"),
    ],
)
def test_a_snapshot_that_cannot_be_used_is_refused_by_name(
    spoil: Callable[[Place], None], why: str, place: Place
) -> None:
    """The changelog is replayed, and the log says why and where."""
    place.write("a", "b", "a")
    while len(place.manifests()) > 1:
        place.manifests()[0].unlink()
    spoil(place)
    logged = place.logged()
    answers, replayed = place.begin("a", "b")
    assert (answers, replayed) == (["a=3", "b=2"], logged)
    assert not place.said(TAKEN)
    (refused,) = place.said(REFUSED)
    assert why in refused
    assert not (place.root / "escaped").exists()


def test_an_older_snapshot_is_taken_where_the_newest_is_damaged(place: Place) -> None:
    place.write("a", "b")
    older = place.newest()
    shutil.copytree(place.folder, place.root / "aside")
    place.write("a")
    digests = {file.digest for file in older.files}
    (lost, *_) = [file for file in place.newest().files if file.digest not in digests]
    for other in place.manifests()[:-1]:
        other.unlink()
    shutil.copytree(place.root / "aside" / "files", place.folder / "files", dirs_exist_ok=True)
    (place.folder / older.name(1)).write_bytes(older.to_json())
    (place.folder / "files" / lost.digest).unlink()
    assert place.begin("a", "b")[0] == ["a=3", "b=2"]
    assert len(place.said(REFUSED)) == 1
    assert len(place.said(TAKEN)) == 1


def test_the_snapshot_that_has_most_is_taken_whatever_the_clocks_say(place: Place) -> None:
    """The worker with less has written last, by a clock that is ahead."""
    place.write("a", "a")
    first = manifest_of(place).read_bytes()
    files = place.root / "first-files"
    shutil.copytree(place.folder / "files", files)
    place.write("b", "b")
    shutil.copytree(files, place.folder / "files", dirs_exist_ok=True)
    (place.folder / f"{10**14}-0123456789abcdef.json").write_bytes(first)
    answers, replayed = place.begin("b")
    assert (answers, replayed) == (["b=3"], 0)


def test_a_snapshot_of_a_former_changelog_is_not_taken(place: Place) -> None:
    """The topics were deleted and made again, as a reset does it; the offsets fit by chance."""
    place.write("a", "b")
    broker = place.cluster.broker
    broker.delete_topic(CHANGELOG)
    broker.delete_topic("in")
    broker.create_topic("in", 1)
    broker.groups.group("app").offsets.clear()
    place.begin("x", "y", "z")
    assert not place.said(REFUSED)  # the changelog was empty: there was nothing to look for
    assert place.begin("a", "x") == (["a=1", "x=2"], 3)
    assert "is another topic: its id is" in place.said(REFUSED)[0]
    assert not place.said(TAKEN)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_snapshot_of_lost_records_is_not_taken(place: Place, guarantee: str) -> None:
    """The log was truncated and has grown again, so that the offset of the snapshot was inside of it."""
    place.guarantee = guarantee
    place.write("a", "b")
    (point,) = [store.point for store in place.newest().stores.values()]
    changelog = TopicPartition(CHANGELOG, 0)
    assert point == (place.cluster.broker.records(CHANGELOG)[-1].offset(), 0)
    place.cluster.broker.lose_records(changelog, 0)
    producer = place.cluster.clients.producer({})
    for key in ("a", "c", "d", "e"):
        producer.produce(CHANGELOG, (70).to_bytes(8, "big"), key.encode(), 0, None, None, 5, None)
    producer.flush()
    assert place.begin("a", "b") == (["a=71", "b=1"], 4)
    assert (
        f"{changelog} has lost records of store 'counts': its log was truncated at offset 0" in place.said(REFUSED)[0]
    )
    assert not place.said(TAKEN)


def test_a_manifest_of_an_earlier_release_names_no_leader(place: Place) -> None:
    """It is read as it was written, and nothing is compared."""
    place.write("a", "b")
    manifest = json.loads(place.manifests()[-1].read_bytes())
    del manifest["sum"]
    for store in manifest["stores"].values():
        del store["point"]
    manifest["sum"] = sum_of(manifest)
    text = json.dumps(manifest, indent=1, sort_keys=True).encode()
    found = TaskSnapshot.parse(text)
    assert [store.point for store in found.stores.values()] == [None]
    assert found.to_json() == text


def test_snapshots_of_a_former_changelog_stay_for_a_day(place: Place) -> None:
    """They may be of another cluster with an application of the name: its worker writes newer ones all day."""
    place.write("a")
    former = place.manifests()[-1]
    for older in place.manifests()[:-1]:
        older.unlink()
    broker = place.cluster.broker
    broker.delete_topic(CHANGELOG)
    broker.groups.group("app").offsets.clear()
    place.write("b")
    assert former.exists()
    written_s = former.stat().st_mtime - 90_000
    os.utime(former, (written_s, written_s))
    place.write("c")
    assert not former.exists()
    assert len(place.manifests()) == 2


def test_a_task_with_a_store_without_a_changelog_has_no_snapshots(place: Place) -> None:
    """Nothing could restore what such a store lacks behind a snapshot; the log says so, once."""
    built = counting(store=Stores.persistent_key_value_store("counts"))
    unlogged = Stores.key_value_store_builder(Stores.persistent_key_value_store("more"), Serdes.STRING, Serdes.STRING)
    built.add_state_store(unlogged.with_logging_disabled(), "p")
    app = place.worker(built=built, interval_ms=1)
    for number in range(5):
        place.cluster.send("a")
        wait_until("it is counted", lambda number=number: len(place.cluster.values()) == number + 1)
    wait_until("it is logged", lambda: place.said("no snapshots of some stores are written"))
    assert app.close(30)
    assert len(place.said("no snapshots of some stores are written")) == 1
    assert not place.manifests()


def test_a_place_that_cannot_be_written_costs_the_snapshots_and_nothing_else(place: Place) -> None:
    place.root.write_text("not a directory")
    app = place.worker()
    place.cluster.send("a", "b")
    place.cluster.until_out("a=1", "b=1")
    wait_until("it is logged", lambda: place.said("a snapshot is not written"))
    assert app.close(30)
    assert "Not a directory" in place.said("a snapshot is not written")[0]
    assert place.begin("a") == (["a=2"], 2)
    assert "Not a directory" in place.said(REFUSED)[0]


class FailingObjects(DirectoryObjects):
    """A place of snapshots that fails when a test wants it to."""

    error: OSError | None = None

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        """Writes a part and fails."""
        if self.error is not None:
            super().write(name, islice(chunks, 0))
            raise self.error
        super().write(name, chunks)

    def list(self, folder: str) -> dict[str, ObjectInfo]:
        if self.error is not None:
            raise self.error
        return super().list(folder)


def test_a_place_that_is_away_is_tried_again(place: Place) -> None:
    """A full or missing place costs the worker its snapshots for that time; one without state uses the changelog."""
    objects = FailingObjects(place.root)
    platform = Platform(snapshots=lambda root: objects)
    objects.error = OSError(errno.ENOSPC, "No space left on device")
    app = place.worker(platform=platform)
    place.cluster.send("a", "b")
    place.cluster.until_out("a=1", "b=1")
    wait_until("it is logged twice", lambda: len(place.said("a snapshot is not written")) >= 2)
    assert app.close(30)
    assert place.begin("a", platform=platform) == (["a=2"], 2)
    assert "No space left on device" in place.said(REFUSED)[0]
    objects.error = None
    place.write("b", platform=platform)
    assert place.begin("b", platform=platform) == (["b=3"], 0)
