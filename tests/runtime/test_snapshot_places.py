"""Places of snapshots that fail in the middle, refuse one right, do not answer, or are used by two applications."""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from processor_api.clock import SystemClock
from runtime_support.running_app import Cluster
from runtime_support.snapshot_place import REFUSED, TAKEN, WRITTEN, Place, topology
from streams.platform import Platform
from streams.snapshots.manifest import Lacking, StoreState, TaskSnapshot
from streams.snapshots.objects import DirectoryObjects, ObjectInfo
from streams.snapshots.reading import FILES_AT_ONCE, SnapshotReading
from streams.snapshots.writing import SnapshotWriting
from waiting import wait_until


@pytest.fixture(name="place")
def place_fixture(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Place]:
    caplog.set_level(logging.INFO)
    with Cluster(tmp_path / "live") as cluster:
        yield Place(cluster, tmp_path / "snapshots", caplog, "at_least_once")


class Failing(DirectoryObjects):
    """A place whose calls fail when a test wants it: writes and reads of files in the middle."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.errors: dict[str, OSError] = {}

    def _may(self, call: str) -> None:
        if call in self.errors:
            raise self.errors[call]

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        def failing() -> Iterator[bytes]:
            for chunk in chunks:
                yield chunk[:5]
                self._may("write")
                yield chunk[5:]

        super().write(name, failing())

    def read(self, name: str) -> Iterator[bytes]:
        for chunk in super().read(name):
            yield chunk[:5]
            if "/files/" in name:
                self._may("read")
            yield chunk[5:]

    def list(self, folder: str) -> dict[str, ObjectInfo]:
        self._may("list")
        return super().list(folder)

    def delete(self, name: str) -> None:
        self._may("delete")
        super().delete(name)


FULL = OSError(errno.ENOSPC, "No space left on device")
DENIED = PermissionError(errno.EACCES, "Permission denied")
AWAY = ConnectionError("the connection was reset")


@pytest.mark.parametrize("error", [FULL, AWAY, DENIED])
def test_a_place_that_fails_in_the_middle_of_a_write_has_no_part_of_a_snapshot(place: Place, error: OSError) -> None:
    """The earlier ones stay, and so does what they need; the next one is whole when the place is well again."""
    place.write("a", "b")
    before = place.manifests()
    objects = Failing(place.root)
    objects.errors["write"] = error
    app = place.worker(platform=Platform(snapshots=lambda root: objects))
    place.cluster.send("a")
    wait_until("it has failed twice", lambda: len(place.said("a snapshot is not written")) >= 2)
    assert place.manifests() == before
    assert not list(place.folder.rglob(".part-*"))
    del objects.errors["write"]
    wait_until("it is written", lambda: place.holds(2))
    assert app.close(30)
    assert (error.strerror or str(error)) in place.said("a snapshot is not written")[0]
    assert place.begin("a") == (["a=3"], 0)


def test_a_place_that_fails_in_the_middle_of_a_read_costs_the_snapshot(place: Place) -> None:
    """Each snapshot that there is, is tried; nothing of them is left beside the database."""
    place.write("a", "b", "a")
    objects = Failing(place.root)
    objects.errors["read"] = AWAY
    logged = place.logged()
    answers, replayed = place.begin("a", platform=Platform(snapshots=lambda root: objects))
    assert (answers, replayed) == (["a=3"], logged)
    refused = place.said(REFUSED)
    assert len(refused) == len(place.manifests())
    assert all("the connection was reset" in line for line in refused)
    assert not list(place.cluster.directory.glob("**/snapshot-*"))


@pytest.mark.parametrize("right", ["list", "write", "delete"])
def test_a_right_that_is_missing_is_told(place: Place, right: str) -> None:
    """Without the right to delete, snapshots are written and can be taken, and older ones stay."""
    objects = Failing(place.root)
    objects.errors[right] = DENIED
    line = "a snapshot is written, and older ones are not deleted" if right == "delete" else "a snapshot is not written"
    app = place.worker(platform=Platform(snapshots=lambda root: objects))
    for number in range(4):
        place.cluster.send("a")
        place.cluster.until_out(*[f"a={count}" for count in range(1, number + 2)])
        if right == "delete":
            wait_until("it is in a snapshot", lambda number=number: place.holds(number))
    wait_until("it is told", lambda: place.said(line))
    found = app.status().tasks[0].snapshot
    assert app.close(30)
    assert "Permission denied" in place.said(line)[0]
    assert found is not None
    assert (found.failures > 0, found.made_ms is None) == ((False, False) if right == "delete" else (True, True))
    if right == "delete":
        assert len(place.manifests()) > 3
        assert place.said(WRITTEN)
    assert place.begin("a")[0] == ["a=5"]
    assert bool(place.said(TAKEN)) == (right == "delete")


class Jumping(SystemClock):
    """A clock that a test moves."""

    ahead_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


class Silent(DirectoryObjects):
    """A place whose files do not come until a test ends."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.over = threading.Event()
        self.asked = threading.Event()

    def read(self, name: str) -> Iterator[bytes]:
        if "/files/" in name:
            self.asked.set()
            self.over.wait(120)
        yield from super().read(name)

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        self.asked.set()
        self.over.wait(120)
        super().write(name, chunks)


def test_a_place_that_takes_a_snapshot_without_end_is_told(place: Place) -> None:
    """Records are processed meanwhile, and a worker that closes does not wait for it for long."""
    silent, clock = Silent(place.root), Jumping()
    app = place.worker(platform=Platform(clock=clock, snapshots=lambda root: silent))
    try:
        place.cluster.send("a")
        assert silent.asked.wait(60)
        for number in range(2, 9):  # a leap of more would be that of a thread that was away for too long
            clock.ahead_s += 100.0
            place.cluster.send("a")
            place.cluster.until_out(*[f"a={count}" for count in range(1, number + 1)])
        wait_until("it is told", lambda: place.said("a snapshot is still being written"), deadline_s=30)
        assert len(place.said("a snapshot is still being written")) == 1
    finally:
        silent.over.set()
    assert app.close(30)


def test_a_place_that_does_not_answer_is_waited_for_for_a_minute(place: Place) -> None:
    """What comes later is not written into the task's directory."""
    place.write("a", "a")
    silent, clock = Silent(place.root), Jumping()
    platform = Platform(clock=clock, snapshots=lambda root: silent)
    app = place.cluster.app(topology(), state_snapshot_dir=str(place.root), platform=platform)
    try:
        assert silent.asked.wait(60)
        clock.ahead_s = 61.0
        place.cluster.send("a")
        place.cluster.until_out("a=1", "a=2", "a=3")
    finally:
        silent.over.set()
    assert "no data arrived for 60 s" in place.said(REFUSED)[0]
    assert not place.said(TAKEN)
    assert app.close(30)
    assert not list(place.cluster.directory.glob("**/snapshot-*"))


def test_two_applications_have_one_place(place: Place, tmp_path: Path) -> None:
    """Each has a folder of its own, also where their stores have the same names."""
    place.write("a", "a")
    with Cluster(tmp_path / "other") as cluster:
        other = cluster.start(
            topology(), application_id="other", state_snapshot_dir=str(place.root), state_snapshot_interval_ms=20
        )
        cluster.send("a")
        wait_until("it has written some", lambda: len(list(place.root.glob("other/tasks/0_0/*.json"))) >= 2)
        assert other.close(30)
    assert place.begin("a") == (["a=3"], 0)
    assert len(place.said(TAKEN)) == 1


def test_applications_of_two_clusters_with_one_id_begin_with_their_own(place: Place, tmp_path: Path) -> None:
    """The ids of topics tell them apart, and neither deletes the last snapshots of the other."""
    place.write("a", "a")
    own = {path.name for path in place.manifests()}
    with Cluster(tmp_path / "other") as cluster:
        cluster.broker.create_topic("more", 1)  # the ids of this broker's topics are their numbers
        other = cluster.start(topology(), state_snapshot_dir=str(place.root), state_snapshot_interval_ms=20)
        cluster.send("a", "b", "c")
        wait_until("it has written some", lambda: len({path.name for path in place.manifests()} - own) >= 2)
        assert other.close(30)
    assert own <= {path.name for path in place.manifests()}
    assert place.begin("a") == (["a=3"], 0)
    assert all("is another topic: its id is" in line for line in place.said(REFUSED))
    assert len(place.said(REFUSED)) >= 2


class Counting(DirectoryObjects):
    """A place that knows how many files are read side by side."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.now = self.most = 0
        self.together = threading.Barrier(FILES_AT_ONCE)
        self._lock = threading.Lock()

    def read(self, name: str) -> Iterator[bytes]:
        if "/files/" not in name:
            yield from super().read(name)
            return
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.together.wait(60)
        yield from super().read(name)
        with self._lock:
            self.now -= 1


def snapshot_of(root: Path, files: dict[str, bytes]) -> dict[str, Lacking]:
    """Writes a snapshot with some files; returns what it is to be taken for."""
    (root / "made").mkdir(parents=True)
    for name, content in files.items():
        (root / "made" / name).write_bytes(content)
    given: dict[str, Any] = {"topic": "t", "topic_id": "i", "families": ["rows"]}
    described = TaskSnapshot(
        application_id="app",
        task="0_0",
        made_ms=1,
        stores={"s": StoreState(offset=5, complete_ms=1, **given)},
        files=[],
    )
    SnapshotWriting(DirectoryObjects(root / "place"), "app", "0_0", lambda: False).write(described, root / "made")
    return {"s": Lacking(beginning=0, end=6, keeps_deletions_ms=None, **given)}


def test_files_are_copied_side_by_side_and_not_all_at_once(tmp_path: Path) -> None:
    files = {f"{number:02}.sst": bytes([number]) * (100 + number) for number in range(3 * FILES_AT_ONCE)}
    lacking = snapshot_of(tmp_path, files)
    objects = Counting(tmp_path / "place")
    reading = SnapshotReading(objects, "app", "0_0")
    assert reading.copy(lacking, 2, tmp_path / "taken") is not None
    assert objects.most == FILES_AT_ONCE
    assert {path.name: path.read_bytes() for path in (tmp_path / "taken").iterdir()} == files
    size = sum(map(len, files.values()))
    assert (reading.progress.bytes, reading.progress.size) == (size, size)


def test_one_file_that_fails_ends_the_others(tmp_path: Path) -> None:
    """The directory is gone then, and with it what was copied."""
    files = {f"{number:02}.sst": bytes([number]) * 100 for number in range(40)}
    lacking = snapshot_of(tmp_path, files)
    path = min((tmp_path / "place" / "app" / "tasks" / "0_0" / "files").iterdir())
    path.write_bytes(b"damaged")
    assert SnapshotReading(DirectoryObjects(tmp_path / "place"), "app", "0_0").copy(lacking, 2, tmp_path / "t") is None
    assert not (tmp_path / "t").exists()


def test_a_copy_that_is_given_up_ends_at_its_next_chunk(tmp_path: Path) -> None:
    lacking = snapshot_of(tmp_path, {"0.sst": bytes(8 << 20)})

    class Stopping(DirectoryObjects):
        def read(self, name: str) -> Iterator[bytes]:
            chunks = super().read(name)
            if "/files/" in name:
                yield from islice(chunks, 2)
                reading.stop()
            yield from chunks

    reading = SnapshotReading(Stopping(tmp_path / "place"), "app", "0_0")
    assert reading.copy(lacking, 2, tmp_path / "taken") is None
    assert reading.progress.bytes == 2 << 20
