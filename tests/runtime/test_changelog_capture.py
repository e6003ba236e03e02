"""The capture of changelogs is a dictionary that keeps the order of the last writes, however little memory it has."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import StateError, StreamsError
from state.formats.keys import window_key
from state.rocksdb.engine import RocksEngine
from streams.runtime.runner.changelog_capture import RECORD_OVERHEAD_BYTES, RECORDS, Change, ChangelogCapture

Headers = list[tuple[str, bytes | None]] | None
HEADERS: list[Headers] = [None, None, [], [("h", b"1")], [("h", None), ("ü", b"")]]


@pytest.fixture(name="open_engine")
def open_engine_fixture(tmp_path: Path) -> Callable[[str, list[str]], Any]:
    return lambda name, families: RocksEngine(tmp_path / name, families)


def rows(capture: ChangelogCapture, topic: str) -> list[Any]:
    return [(key, value, timestamp, headers or None) for key, value, timestamp, headers in capture.rows(topic)]


@pytest.mark.parametrize("records", [0, 1, 7, 1000])
@pytest.mark.parametrize("seed", range(4))
def test_it_holds_the_last_record_of_each_key_in_order(
    seed: int, records: int, open_engine: Callable[[str, list[str]], Any]
) -> None:
    """In memory and on disk, versioned or not, with empty and null values, times before 1970 and headers."""
    chosen = random.Random(seed)
    capture = ChangelogCapture(("log", "versions"), ("versions",), open_engine, records * (RECORD_OVERHEAD_BYTES + 4))
    model: dict[str, dict[Any, Any]] = {"log": {}, "versions": {}}
    writers = {topic: capture.writer(topic) for topic in model}
    for number in range(400):
        topic = chosen.choice(list(model))
        key = chosen.choice([b"", b"a", b"%d" % chosen.randrange(30)])
        record = chosen.choice([None, b"", b"v%d" % number]), chosen.randrange(-5, 20), chosen.choice(HEADERS)
        writers[topic](key, *record)
        place = (key, record[1]) if topic == "versions" else key
        model[topic].pop(place, None)
        model[topic][place] = key, *record[:2], record[2] or None
        if number % 9 == 0:
            capture.settle()
        if number == 200:
            assert rows(capture, "log") == [row for row in model["log"].values() if row[1] is not None]
    assert rows(capture, "log") == [row for row in model["log"].values() if row[1] is not None]
    assert rows(capture, "versions") == list(model["versions"].values())
    assert capture.spilled == (records < 1000)
    capture.close()


def test_what_is_in_memory_is_counted_exactly(open_engine: Callable[[str, list[str]], Any]) -> None:
    capture = ChangelogCapture(("log",), (), open_engine)
    log = capture.writer("log")
    log(b"key", b"value", 1, [("h", b"123")])
    with_headers = capture.bytes_in_memory
    log(b"key", b"longer value", 1, [("h", b"123")])
    assert capture.bytes_in_memory == with_headers + len("longer ")
    for value in (None, b"12345", None, b"12"):
        log(b"key", value, 1, None)
    assert capture.bytes_in_memory == len("key") + len("12") + RECORD_OVERHEAD_BYTES


@pytest.mark.parametrize("records", [1, 40, 100_000])
@pytest.mark.parametrize("seed", range(4))
def test_rows_of_windows_that_may_be_dropped_are_those_that_are_too_old(
    seed: int, records: int, open_engine: Callable[[str, list[str]], Any]
) -> None:
    """The same rows whether there is memory for all or for one; late ones and other changelogs stay."""
    chosen = random.Random(seed)
    most_bytes = records * (RECORD_OVERHEAD_BYTES + 20)
    capture = ChangelogCapture(("joined", "log"), (), open_engine, most_bytes, {"joined": 50})
    writers = {topic: capture.writer(topic) for topic in capture.topics}
    model: dict[str, list[tuple[int, Any]]] = {"joined": [], "log": []}
    latest = -1
    for number in range(600):
        topic = chosen.choice(list(model))
        start = max(0, number - chosen.choice([0, 3, 50, 200]))
        row = window_key(b"k", start, number), b"v", start, chosen.choice(HEADERS)
        writers[topic](*row)
        model[topic].append((start, (*row[:3], row[3] or None)))
        latest = max(latest, start) if topic == "joined" else latest
        if number % 9 == 0:
            capture.settle()
    assert rows(capture, "joined") == [row for start, row in model["joined"] if start >= latest - 50]
    assert rows(capture, "log") == [row for _, row in model["log"]]
    assert capture.spilled == (records < 100_000)
    capture.close()


def test_windows_that_pass_by_never_open_a_database() -> None:
    def never(name: str, families: list[str]) -> Any:
        raise AssertionError(name, families)

    capture = ChangelogCapture(("joined",), (), never, 1000 * RECORD_OVERHEAD_BYTES, {"joined": 100})
    log = capture.writer("joined")
    for number in range(20_000):
        log(window_key(b"k", number, 0), b"v", number, [("h", b"1")])
        capture.settle()
        assert capture.bytes_in_memory <= 1000 * RECORD_OVERHEAD_BYTES
    assert [start for _, _, start, _ in capture.rows("joined")] == list(range(19_899, 20_000))
    capture.close()


def test_few_records_never_open_a_database() -> None:
    def never(name: str, families: list[str]) -> Any:
        raise AssertionError(name, families)

    capture = ChangelogCapture(("log",), (), never)
    log = capture.writer("log")
    for number in range(10_000):
        log(b"%d" % (number % 100), b"%d" % number, number, None)
    capture.settle()
    assert len(list(capture.rows("log"))) == 100
    late = capture.rows("log")
    capture.close()
    with pytest.raises(StreamsError, match="the records of changelog 'log' are gone"):
        next(late)


def test_a_database_that_cannot_be_opened_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    capture = ChangelogCapture(("log",), (), lambda _, families: RocksEngine(tmp_path / "file", families), 10)
    capture.writer("log")(b"k", b"v", 1, None)
    with pytest.raises(StateError, match=r"cannot open the store at .*file"):
        capture.settle()
    assert list(capture.rows("log")) == [(b"k", b"v", 1, None)]
    capture.close()


# ---------------------------------------------------------------------- changes


@pytest.mark.parametrize("records", [0, 7, 1000])
@pytest.mark.parametrize("seed", range(6))
def test_changes_are_what_turns_the_earlier_records_into_the_present_ones(
    seed: int, records: int, tmp_path: Path
) -> None:
    """Over several captures, each of which continues with the files of the one before."""
    chosen = random.Random(seed)
    known: dict[str, int] = {}
    earlier: dict[str, dict[int, Any]] = {"log": {}, "versions": {}}
    for day in range(4):
        if day:
            (tmp_path / f"{day}").mkdir()
            (tmp_path / f"saved-{day - 1}").rename(tmp_path / f"{day}" / RECORDS)
        opened = partial(_opened, tmp_path / f"{day}")
        most_bytes = records * (RECORD_OVERHEAD_BYTES + 4)
        capture = ChangelogCapture(("log", "versions"), ("versions",), opened, most_bytes)
        if day:
            capture.resume(known)
        else:
            capture.track()
        writers = {topic: capture.writer(topic) for topic in capture.topics}
        for number in range(chosen.choice([0, 5, 200])):
            topic = chosen.choice(list(writers))
            key = b"%d" % chosen.randrange(40)
            record = chosen.choice([None, b"", b"v%d" % number]), chosen.randrange(-5, 20), chosen.choice(HEADERS)
            writers[topic](key, *record)
            if number % 9 == 0:
                capture.settle()
        counts = capture.changed()
        for topic, rows_then in earlier.items():
            changes = list(capture.changes(topic))
            present = _applied(rows_then, changes)
            assert [_plain(row) for row in present.values()] == rows(capture, topic)
            assert list(present) == sorted(present)
            assert counts[topic] >= len({_place(one, topic) for one in changes if one.row is not None})
            earlier[topic] = present
        known = dict(capture.tracked)
        capture.save(tmp_path / f"saved-{day}")
        capture.close()


def _opened(path: Path, name: str, families: list[str]) -> Any:
    return RocksEngine(path / name, families)


def _applied(rows_then: dict[int, Any], changes: list[Change]) -> dict[int, Any]:
    found = dict(rows_then)
    for one in changes:
        if one.replaces is not None:
            assert _plain(found.pop(one.replaces)) == _plain(one.former)
        if one.number is not None:
            found[one.number] = one.row
    return found


def _plain(row: Any) -> Any:
    return (*row[:3], row[3] or None)


def _place(change: Change, topic: str) -> Any:
    assert change.row is not None
    return change.row[0] if topic == "log" else (change.row[0], change.row[2])
