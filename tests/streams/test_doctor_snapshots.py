"""`streams doctor` on the place of snapshots: can it be used, and what is there?"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from processor_api.clock import SystemClock
from processor_api.errors import RetryableError
from streams.cli.doctor.snapshot_checks import CheckedPlace, check_place, check_snapshots
from streams.cli.output.findings import Verdict
from streams.config import StreamsConfig
from streams.snapshots.manifest import StoreState, TaskSnapshot, folder_of
from streams.snapshots.objects import DirectoryObjects, ObjectInfo

HOUR_MS = 3_600_000


class Clock(SystemClock):
    """A clock that stands."""

    def time_ms(self) -> int:
        return 1_700_000_000_000


class Objects(DirectoryObjects):
    """A directory whose files are of the time of that clock, and whose calls fail when a test wants it."""

    def __init__(self, root: Path, failing: str = "", ahead_s: float = 0.0) -> None:
        super().__init__(root)
        self.failing = failing
        self.ahead_s = ahead_s

    def _may(self, call: str) -> None:
        if self.failing == call:
            raise PermissionError(13, "Permission denied")

    def list(self, folder: str) -> dict[str, ObjectInfo]:
        self._may("list")
        found = super().list(folder)
        return {name: ObjectInfo(one.size, 1_700_000_000.0 + self.ahead_s) for name, one in found.items()}

    def read(self, name: str) -> Iterator[bytes]:
        self._may("read")
        return super().read(name)

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        self._may("write")
        super().write(name, chunks)

    def delete(self, name: str) -> None:
        self._may("delete")
        super().delete(name)


def snapshot(task: str = "0_0", age_ms: int = 0, topic_id: str = "one") -> TaskSnapshot:
    store = StoreState(topic="app-s-changelog", topic_id=topic_id, offset=1, complete_ms=0, families=["s.rows"])
    made_ms = Clock().time_ms() - age_ms
    return TaskSnapshot(application_id="app", task=task, made_ms=made_ms, stores={"s": store}, files=[])


def put(root: Path, one: TaskSnapshot, engine: str = "rocksdb", text: bytes | None = None) -> None:
    DirectoryObjects(root).write(
        f"{folder_of('app', one.task, engine)}/{one.name(one.made_ms)}", [one.to_json() if text is None else text]
    )


def found(objects: Objects, **changes: Any) -> list[str]:
    place = CheckedPlace(objects, "app", HOUR_MS, None)
    return [f"{one.verdict} {one.text}" for one in check_place(replace(place, **changes), Clock())]


def test_a_place_that_can_be_used_is_left_as_it_was(tmp_path: Path) -> None:
    assert found(Objects(tmp_path)) == [
        f"ok {tmp_path} can be written and read",
        "ok no snapshots of application 'app' exist yet",
    ]
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("call", ["write", "list", "read", "delete"])
def test_a_right_that_is_missing_is_named(call: str, tmp_path: Path) -> None:
    (only,) = found(Objects(tmp_path, failing=call))
    assert only.startswith(f"fail cannot {call} objects in {tmp_path}: [Errno 13] Permission denied")
    assert "remains there" in only or call == "write"
    assert only.endswith("workers need to list, read, write and delete objects below it")


@pytest.mark.parametrize(("ahead_s", "side"), [(400.0, "ahead of"), (-1000.0, "behind")])
def test_a_clock_that_is_off_is_named(ahead_s: float, side: str, tmp_path: Path) -> None:
    _, clock, _ = found(Objects(tmp_path, ahead_s=ahead_s))
    assert clock.startswith(f"warn the clock of {tmp_path} is {abs(ahead_s):.0f} s {side} this machine's")


def test_the_last_snapshot_of_each_task_is_told_with_its_age(tmp_path: Path) -> None:
    for one in (snapshot(age_ms=5 * HOUR_MS), snapshot(age_ms=300_000), snapshot("0_1", age_ms=HOUR_MS)):
        put(tmp_path, one)
    put(tmp_path, snapshot("0_1", age_ms=2 * HOUR_MS), "memory")
    assert found(Objects(tmp_path))[1:] == [
        "ok 3 of 2 tasks, 0.0 MB; the newest are 5 min (0_0) to 2 h (0_1 (in memory)) old"
    ]
    late = found(Objects(tmp_path), interval_ms=1_000_000)[-1]
    assert late.startswith(
        "warn older than state.snapshot.interval.ms (1000000) allows: tasks 0_1, 0_1 (in memory); check"
    )
    assert len(found(Objects(tmp_path), interval_ms=None)) == 2
    assert len(found(Objects(tmp_path), application_id=None)) == 1


def test_snapshots_of_the_future_and_of_other_versions_are_named(tmp_path: Path) -> None:
    put(tmp_path, snapshot(age_ms=-HOUR_MS))
    put(tmp_path, snapshot("0_1"), text=b'{"version": 9, "layout": "1"}')
    lines = found(Objects(tmp_path))
    assert "cannot be used: it has version 9 with layout 1, but this release reads version 1" in lines[1]
    assert (
        lines[-1]
        == "warn the snapshot of task 0_0 is from the future: the clock of its worker, or of this machine, is wrong"
    )


def test_two_clusters_at_one_place_are_named(tmp_path: Path) -> None:
    put(tmp_path, snapshot(topic_id="one"))
    put(tmp_path, snapshot(topic_id="two", age_ms=1000))
    assert (
        "the snapshots of task 0_0 are of several topics with the name app-s-changelog:"
        " another" in found(Objects(tmp_path))[1]
    )


def test_snapshots_of_another_cluster_are_named(tmp_path: Path) -> None:
    put(tmp_path, snapshot(topic_id="one"))

    def ids(topics: Collection[str]) -> Mapping[str, str]:
        return dict.fromkeys(topics, "two")

    def away(topics: Collection[str]) -> Mapping[str, str]:
        raise RetryableError("no broker answers")

    assert "are of another topic app-s-changelog than the cluster's" in found(Objects(tmp_path), topic_ids=ids)[1]
    same = found(Objects(tmp_path), topic_ids=lambda topics: dict.fromkeys(topics, "one"))
    assert len(same) == len(found(Objects(tmp_path), topic_ids=away)) == 2


def of_config(place: str) -> list[tuple[Verdict, str]]:
    given = {"application.id": "app", "bootstrap.servers": "b:9092", "state.snapshot.dir": place}
    return [(one.verdict, one.text) for one in check_snapshots(StreamsConfig.of(given), Clock(), None, named=True)]


def test_a_directory_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    place = tmp_path / "share" / "snapshots"
    ((verdict, text),) = of_config(str(place))
    assert (verdict, text) == (
        Verdict.WARN, f"{place} does not exist yet: workers create it; check that its file system is mounted"
    )  # fmt: skip
    assert not place.exists()
    (tmp_path / "share").write_text("a file")
    ((verdict, text),) = of_config(str(place))
    assert verdict is Verdict.FAIL
    assert text.startswith(f"{place} cannot be created: {tmp_path / 'share'} is not a directory")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_directory_without_rights_fails(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert [verdict for verdict, _ in of_config(str(tmp_path))] == [Verdict.FAIL]
    finally:
        tmp_path.chmod(0o700)


def test_without_a_place_there_is_nothing_to_say() -> None:
    config = StreamsConfig.of({"application.id": "app", "bootstrap.servers": "b:9092"})
    assert list(check_snapshots(config, Clock(), None, named=True)) == []
