"""Snapshots are ordered by numbers and offsets, and never by the clocks of the workers that write them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processor_api.task_id import TopicPartition
from streams.snapshots.listing import list_snapshots
from streams.snapshots.manifest import Lacking, StoreState, TaskSnapshot, sum_of
from streams.snapshots.objects import DirectoryObjects
from streams.snapshots.reading import SnapshotReading
from streams.snapshots.store_files import StoreSnapshot
from streams.snapshots.writing import FAILURES, KEPT, SnapshotWriting, Written

NOW, HOUR, DAY = 1_700_000_000_000, 3_600_000, 86_400_000


class Place:
    """A directory of snapshots of one task, with the files and the times that a test gives them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "place" / "app" / "tasks" / "0_0"
        self.objects = DirectoryObjects(root / "place")
        self._made = 0

    def write(
        self, offset: int, time_ms: int, *, topic_id: str = "AAAA", writer: SnapshotWriting | None = None
    ) -> Written:
        store = StoreState(topic="t", topic_id=topic_id, offset=offset, complete_ms=time_ms, families=["counts"])
        described = TaskSnapshot(application_id="app", task="0_0", made_ms=time_ms, stores={"counts": store}, files=[])
        self._made += 1
        checkpoint = self.root / f"checkpoint-{self._made}"
        checkpoint.mkdir()
        (checkpoint / "000001.sst").write_bytes(f"rows of {self._made} up to {offset}".encode())
        return (writer or self.writer()).write(described, checkpoint)

    def writer(self, objects: DirectoryObjects | None = None) -> SnapshotWriting:
        return SnapshotWriting(objects or self.objects, "app", "0_0", lambda: False)

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("*.json"))

    def offsets(self) -> list[int]:
        """Of what can be read, the last one first."""
        return [one.snapshot.offsets - 1 for one in list_snapshots(self.objects, "app/tasks/0_0") if one.snapshot]

    def files(self) -> set[str]:
        return {path.name for path in (self.folder / "files").iterdir()}

    def named(self) -> set[str]:
        return {
            file.digest
            for one in list_snapshots(self.objects, "app/tasks/0_0")
            if one.snapshot is not None
            for file in one.snapshot.files
        }

    def taken(self, now_ms: int, *, end: int = 10**6, kept_ms: int | None = DAY) -> int | None:
        """Returns the offset of the snapshot that is taken; ``None`` if none is."""
        lacking = Lacking(
            topic="t", topic_id="AAAA", beginning=0, end=end, families=["counts"], keeps_deletions_ms=kept_ms
        )
        copied = SnapshotReading(self.objects, "app", "0_0").copy({"counts": lacking}, now_ms, self.root / "taken")
        return None if copied is None else copied.snapshot.stores["counts"].offset

    def age(self, seconds: float) -> None:
        """Makes all that is there older, by the clock of the place."""
        for path in [*self.folder.glob("*.json"), *(self.folder / "files").iterdir()]:
            written_s = path.stat().st_mtime - seconds
            os.utime(path, (written_s, written_s))


@pytest.fixture(name="place")
def place_fixture(tmp_path: Path) -> Place:
    return Place(tmp_path)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-(10**13), 10**16)), min_size=1, max_size=12))
def test_what_was_just_written_is_there_whatever_the_clocks_say(
    tmp_path_factory: pytest.TempPathFactory, written: list[tuple[int, int]]
) -> None:
    """A worker whose clock was ahead made each later snapshot of the task vanish."""
    place = Place(tmp_path_factory.mktemp("place"))
    for number, (offset, ahead_ms) in enumerate(written, 1):
        found = place.write(offset, NOW + ahead_ms)
        assert found.left is None
        assert found.name in place.names()
        assert len(place.names()) <= KEPT + 1
        have = [offset for offset, _ in written[:number]]
        assert place.offsets()[0] == offset
        assert place.offsets()[: min(number, KEPT)] == have[::-1][:KEPT]
        assert max(place.offsets()) == max(have) or len(have) > KEPT
        assert place.files() == place.named()


def test_a_former_owner_does_not_push_out_the_snapshots_of_the_owner(place: Place) -> None:
    """It does not know that it lost the task, and writes on what it had."""
    owner, former = place.writer(), place.writer()
    place.write(100, NOW, writer=owner)
    for number in range(4):
        place.write(50, NOW + HOUR + number, writer=former)
    assert place.offsets() == [50, 50, 100]
    assert place.taken(NOW + HOUR) == 100
    place.write(101, NOW, writer=owner)
    place.write(102, NOW, writer=owner)
    assert place.offsets() == [102, 101]


def test_names_of_a_former_release_have_times_for_numbers(place: Place) -> None:
    """The next number is higher, so both releases delete the older ones."""
    place.write(1, NOW)
    (path,) = place.folder.glob("*.json")
    path.rename(path.with_name(f"{NOW + DAY:015d}-{'0' * 16}.json"))
    name = place.write(2, NOW).name
    assert name.startswith(f"{NOW + DAY + 1:015d}-")
    assert place.offsets() == [2, 1]
    place.write(3, NOW)
    assert place.offsets() == [3, 2]


@pytest.mark.parametrize("number", [10**15 - 1, 10**15, 10**39 - 2])
def test_numbers_of_more_digits_are_numbers_too(place: Place, number: int) -> None:
    place.write(1, NOW)
    (path,) = place.folder.glob("*.json")
    path.rename(path.with_name(f"{number:015d}-{'0' * 16}.json"))
    place.write(2, NOW)
    place.write(3, NOW) if number < 10**38 else None
    assert place.offsets()[0] == (3 if number < 10**38 else 2)


# ---------------------------------------------------------------------- ages


@pytest.mark.parametrize("ahead_ms", [3 * DAY, 30 * DAY])
def test_the_age_of_a_snapshot_of_the_future_is_not_known(place: Place, ahead_ms: int) -> None:
    """It was taken as a young one until the clock came to its time, and for a day after that."""
    place.write(7, NOW + ahead_ms)
    for later in (0, HOUR, DAY, ahead_ms - 3 * HOUR):
        assert place.taken(NOW + later) is None
    assert place.taken(NOW, end=8) == 7  # nothing was written after it, so it lacks no deletion
    assert place.taken(NOW, kept_ms=None) == 7  # nor where none is forgotten
    assert place.taken(NOW + ahead_ms - HOUR) == 7  # clocks may differ by as much


def test_a_later_snapshot_with_an_earlier_time_shows_how_old_one_is_at_least(place: Place) -> None:
    place.write(100, NOW + 3 * DAY)
    place.write(50, NOW)
    assert place.taken(NOW + HOUR) == 100
    assert place.taken(NOW + 3 * DAY + HOUR) is None


def test_the_clock_of_the_place_shows_it_too(place: Place) -> None:
    place.write(7, NOW + 3 * DAY)
    for path in place.folder.glob("*.json"):
        os.utime(path, (NOW / 1000, NOW / 1000))
    assert place.taken(NOW + HOUR) == 7
    assert place.taken(NOW + 3 * DAY) is None


@pytest.mark.parametrize(("made_ms", "fits"), [(NOW, True), (NOW + HOUR, True), (NOW + 2 * HOUR, False)])
def test_a_snapshot_of_a_handover_from_the_future_is_not_taken(made_ms: int, fits: bool) -> None:
    found = StoreSnapshot(
        store="s", topic="t", partition=0, topic_id="AAAA", offset=5, rows=6, made_ms=made_ms,
        delete_retention_ms=DAY, files={},
    )  # fmt: skip
    why = found.obstacle("s", TopicPartition("t", 0), ["s"], "AAAA", (0, 9), NOW)
    assert (why is None) == fits
    assert fits or "its age is unknown: it was written" in str(why)


# ---------------------------------------------------------------------- manifests that cannot be read


def newer_release(place: Place) -> bytes:
    place.write(1, NOW, topic_id="AAAA")
    found = json.loads((place.folder / place.names()[0]).read_bytes())
    return json.dumps({**found, "version": 2, "more": {"new": True}}).encode()


def wrong_number(place: Place) -> bytes:
    found = json.loads(newer_release(place))
    found = {**found, "version": 1, "made_ms": "now"}
    del found["more"], found["sum"]
    return json.dumps({**found, "sum": sum_of(found)}).encode()


DAMAGED = {
    "empty": lambda place: b"",
    "half": lambda place: newer_release(place)[:200],
    "zeros": lambda place: bytes(4096),
    "not UTF-8": lambda place: b"\xff\xfe{",
    "a list": lambda place: b"[]",
    "deep": lambda place: b"[" * 100_000,
    "no fields": lambda place: b"{}",
    "a version alone": lambda place: b'{"version": 1}',
    "newer": newer_release,
    "a wrong number": wrong_number,
}


@pytest.mark.parametrize("kind", DAMAGED)
@pytest.mark.parametrize("number", [1, NOW, 10**15 - 1])
def test_a_manifest_that_cannot_be_read_keeps_no_other_from_being_deleted(place: Place, kind: str, number: int) -> None:
    """One ended the deletion of snapshots of its task for ever, without a word."""
    text = DAMAGED[kind](place)
    for name in place.names():
        (place.folder / name).unlink()
    place.folder.mkdir(parents=True, exist_ok=True)
    (place.folder / f"{number:015d}-0123456789abcdef.json").write_bytes(text)
    kept = place.files() if place.folder.joinpath("files").exists() else set()
    for offset in range(8):
        found = place.write(offset, NOW + offset)
        assert found.left is None
        assert list(found.unreadable) == [f"{number:015d}-0123456789abcdef.json"]
    assert place.offsets() == [7, 6]
    if kind in ("newer", "a wrong number"):
        assert kept <= place.files()  # its release can take it
    assert place.taken(NOW + HOUR) == 7
    place.age(90_000)
    assert place.write(8, NOW).unreadable  # it was there before this snapshot was written
    assert f"{number:015d}-0123456789abcdef.json" not in place.names()
    assert place.files() == place.named()


def test_what_is_not_a_manifest_stays(place: Place) -> None:
    """A directory, a link that leads nowhere, and odd names are none."""
    place.folder.mkdir(parents=True)
    (place.folder / f"{5:015d}-0123456789abcdef.json").mkdir()
    (place.folder / f"{6:015d}-0123456789abcdef.json").symlink_to("nowhere")
    odd = ["readme.txt", "x.json", f"{5:015d}-0123456789ABCDEF.json", f"{'٣' * 15}-0123456789abcdef.json", ".json"]
    for name in odd:
        (place.folder / name).write_text("?")
    for offset in range(4):
        found = place.write(offset, NOW)
        assert (found.left, found.unreadable) == (None, {})
    assert place.offsets() == [3, 2]
    assert {path.name for path in place.folder.iterdir()}.issuperset(odd)


class Refusing(DirectoryObjects):
    """A place that gives no right for some objects."""

    unreadable: frozenset[str] = frozenset()
    undeletable: frozenset[str] | None = frozenset()
    """``None`` for all."""
    deletions = 0

    def read(self, name: str) -> Iterator[bytes]:
        if name.rpartition("/")[2] in self.unreadable:
            raise PermissionError(13, "Permission denied")
        return super().read(name)

    def delete(self, name: str) -> None:
        self.deletions += 1
        if self.undeletable is None or name.rpartition("/")[2] in self.undeletable:
            raise PermissionError(13, "Permission denied")
        super().delete(name)


def test_a_manifest_without_the_right_to_read_it_keeps_files_and_is_said(place: Place) -> None:
    """It may be a good one, whose files are not known."""
    objects = Refusing(place.root / "place")
    objects.unreadable = frozenset({place.write(1, NOW).name})
    for offset in range(2, 8):
        found = place.write(offset, NOW, writer=place.writer(objects))
        assert isinstance(found.left, PermissionError)
    assert place.offsets() == [7, 6, 1]
    assert len(place.files()) == 7


def test_one_that_cannot_be_deleted_keeps_no_other_from_it(place: Place) -> None:
    objects = Refusing(place.root / "place")
    objects.undeletable = frozenset({place.write(1, NOW).name})
    for offset in range(2, 8):
        found = place.write(offset, NOW, writer=place.writer(objects))
        assert isinstance(found.left, PermissionError) == (offset > 2)
    assert place.offsets() == [7, 6, 1]


def test_without_the_right_to_delete_few_deletions_are_tried(place: Place) -> None:
    objects = Refusing(place.root / "place")
    objects.undeletable = None
    for offset in range(12):
        objects.deletions = 0
        place.write(offset, NOW, writer=place.writer(objects))
        assert objects.deletions <= FAILURES
    assert len(place.names()) == 12


def test_snapshots_of_other_topics_stay_for_a_day_by_the_clock_of_the_place(place: Place) -> None:
    place.write(5, NOW + 10 * DAY, topic_id="BBBB")
    for offset in range(4):
        place.write(offset, NOW + 20 * DAY)
    assert place.offsets() == [3, 2, 5]
    place.age(90_000)
    place.write(4, NOW)
    assert place.offsets() == [4, 3]
    assert place.files() == place.named()


def test_a_snapshot_of_another_form_is_said_to_be_one(place: Place) -> None:
    text = newer_release(place)
    with pytest.raises(Exception, match="it has version 2 with layout 1, but this release reads version 1"):
        TaskSnapshot.parse(text)
    good = TaskSnapshot.parse((place.folder / place.names()[0]).read_bytes())
    assert TaskSnapshot.parse(replace(good, made_ms=10**20).to_json()).made_ms == 10**20
