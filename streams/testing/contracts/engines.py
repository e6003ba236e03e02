"""The contract of a storage engine, `state.engine.port.Engine`, for pytest.

    class TestMyEngine(EngineContract):
        def open_engine(self, path: Path) -> Engine:
            return MyEngine(path, FAMILIES, {})

Each test opens engines in a directory of its own, and opens one again in the same place where the engine is persistent.
"""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Any

from state.engine.port import OFFSETS, POSITIONS
from streams.testing.contracts.engine_kit import BOUNDS, FAMILIES, KEYS
from streams.testing.contracts.engine_snapshots import EngineSnapshotContract

__all__ = ["FAMILIES", "EngineContract"]


class EngineContract(EngineSnapshotContract):
    """Every rule of the port `state.engine.port.Engine`, as tests."""

    # ------------------------------------------------------------------ single rows and batches

    def test_a_row_that_was_put_is_found(self, tmp_path: Path) -> None:
        """A row is found also with an empty key, an empty value, or every byte in it."""
        rows = {b"": b"no key", b"no value": b"", bytes(range(256)): bytes(range(256))}
        with self.opened(tmp_path) as engine:
            self.put(engine, rows)
            assert {key: engine.family("rows").get(key) for key in rows} == rows
            assert engine.family("rows").get(b"absent") is None

    def test_rows_and_keys_are_bytes(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as engine:
            self.put(engine, {b"a": b"1"})
            assert [type(part) for part in self.rows(engine)[0]] == [bytes, bytes]
            assert type(engine.family("rows").get(b"a")) is bytes

    def test_a_batch_shows_only_when_it_is_written(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as engine:
            family, batch = engine.family("rows"), engine.batch()
            batch.put(b"a", b"1", family.handle)
            assert family.get(b"a") is None
            engine.write(batch)
            assert family.get(b"a") == b"1"

    def test_an_empty_batch_may_be_written(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as engine:
            engine.write(engine.batch())
            assert self.rows(engine) == []

    def test_the_last_operation_of_a_batch_on_a_key_counts(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as engine:
            family, batch = engine.family("rows"), engine.batch()
            batch.put(b"a", b"1", family.handle)
            batch.delete(b"a", family.handle)
            batch.put(b"b", b"1", family.handle)
            batch.put(b"b", b"2", family.handle)
            batch.delete(b"c", family.handle)
            batch.put(b"c", b"3", family.handle)
            engine.write(batch)
            assert self.rows(engine) == [(b"b", b"2"), (b"c", b"3")]

    def test_a_range_is_deleted_in_its_turn(self, tmp_path: Path) -> None:
        """A range is deleted with the rows put before in the same batch, and without those put after."""
        with self.opened(tmp_path) as engine:
            self.put(engine, dict.fromkeys((b"", b"a", b"b", b"b\x00", b"c", b"\xff\xff"), b"0"))
            family, batch = engine.family("rows"), engine.batch()
            batch.put(b"a2", b"1", family.handle)
            batch.put(b"c2", b"1", family.handle)
            batch.delete_range(b"a", b"c", family.handle)
            batch.put(b"b", b"2", family.handle)
            engine.write(batch)
            rows = [(b"", b"0"), (b"b", b"2"), (b"c", b"0"), (b"c2", b"1"), (b"\xff\xff", b"0")]
            assert self.rows(engine) == rows
            assert [family.get(key) for key in (b"a", b"a2", b"b", b"b\0")] == [None, None, b"2", None]
            assert list(family.range(reverse=True)) == rows[::-1]

    def test_families_do_not_mix(self, tmp_path: Path) -> None:
        """The families of offsets and positions are always there, and one batch writes to all of them."""
        with self.opened(tmp_path) as engine:
            names = (*FAMILIES, OFFSETS, POSITIONS)
            batch = engine.batch()
            for name in names:
                batch.put(b"key", name.encode(), engine.family(name).handle)
            engine.write(batch)
            self.put(engine, {b"key": None}, "other")
            assert [engine.family(name).get(b"key") for name in names] == [b"rows", None, b"offsets", b"positions"]

    def test_an_engine_knows_which_families_have_rows(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as engine:
            assert not engine.holds("rows")
            assert not engine.holds("never-named")
            self.put(engine, {b"a": b"1"})
            assert engine.holds("rows")
            assert not engine.holds("other")
            self.put(engine, {b"a": None})
            assert not engine.holds("rows")

    def test_clear_empties_the_families_it_is_given(self, tmp_path: Path) -> None:
        """Cleared families take new rows afterwards; a family that was never used may be cleared."""
        with self.opened(tmp_path) as engine:
            for name in FAMILIES:
                self.put(engine, {b"a": b"1", b"b": b"1"}, name)
            engine.clear(["rows"])
            assert (self.rows(engine), len(self.rows(engine, "other"))) == ([], 2)
            assert engine.family("rows").get(b"a") is None
            self.put(engine, {b"c": b"1"})
            assert self.rows(engine) == [(b"c", b"1")]
            engine.clear([OFFSETS])

    def test_loaded_rows_are_found(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as engine:
            batch = engine.batch()
            batch.put(b"a", b"1", engine.family("rows").handle)
            engine.load(batch)
            engine.flush()
            assert self.rows(engine) == [(b"a", b"1")]

    def test_the_count_is_about_right(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as engine:
            self.put(engine, {b"%03d" % number: b"x" for number in range(500)})
            assert 400 <= engine.family("rows").approximate_count() <= 600

    def test_large_rows_come_back_whole(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as engine:
            value = bytes(range(256)) * 8192
            self.put(engine, {b"large": value})
            assert engine.family("rows").get(b"large") == value

    # ------------------------------------------------------------------ ranges

    def test_a_range_has_its_lower_bound_and_not_its_upper_one(self, tmp_path: Path) -> None:
        """The rule holds for every pair of bounds in both directions, also for a lower one above the upper; other
        families do not show."""
        with self.opened(tmp_path) as engine:
            self.put(engine, {key: b"value of " + key for key in reversed(KEYS)})
            self.put(engine, {key + b"!": b"" for key in KEYS}, "other")
            for flushed, reverse in itertools.product((False, True), (False, True)):
                if flushed:
                    engine.flush()
                for low, high in itertools.product(BOUNDS, BOUNDS):
                    wanted = sorted(
                        (key for key in KEYS if (low or b"") <= key and (high is None or key < high)), reverse=reverse
                    )
                    found = list(engine.family("rows").range(low, high, reverse=reverse))
                    assert found == [(key, b"value of " + key) for key in wanted], (low, high, reverse)

    def test_rows_go_on_changing_after_a_range_read(self, tmp_path: Path) -> None:
        """Puts, replacements and deletions, of absent keys too, show in the next range."""
        with self.opened(tmp_path) as engine:
            self.put(engine, {b"b": b"1", b"d": b"1"})
            assert self.rows(engine) == [(b"b", b"1"), (b"d", b"1")]
            self.put(engine, {b"a": b"2", b"b": b"2", b"d": None, b"absent": None})
            assert self.rows(engine) == [(b"a", b"2"), (b"b", b"2")]
            self.put(engine, {b"d": b"3", b"a": None})
            assert list(engine.family("rows").range(reverse=True)) == [(b"d", b"3"), (b"b", b"2")]

    def test_ranges_show_rows_as_they_were_when_they_were_opened(self, tmp_path: Path) -> None:
        """Rows stay through writes of every sort, wherever the reader stands, in both directions."""
        before = {b"%04d" % number: b"old" for number in range(1000)}
        with self.opened(tmp_path) as engine:
            self.put(engine, before)
            family = engine.family("rows")
            opened = [family.range(b"0100", b"0900", reverse=reverse) for reverse in (False, True) for _ in range(3)]
            expected = [row for row in sorted(before.items()) if b"0100" <= row[0] < b"0900"]
            seen = [[next(rows) for _ in range(count)] for rows, count in zip(opened, (0, 1, 250) * 2, strict=True)]
            batch = engine.batch()
            batch.put(b"0500", b"new", family.handle)
            batch.put(b"0500a", b"new", family.handle)
            batch.delete_range(b"0200", b"0300", family.handle)
            batch.delete(b"0850", family.handle)
            engine.write(batch)
            engine.clear(["rows"])
            for number, (start, rows) in enumerate(zip(seen, opened, strict=True)):
                assert start + list(rows) == (expected if number < 3 else expected[::-1]), number
            assert self.rows(engine) == []

    def test_ranges_may_be_left_before_their_end(self, tmp_path: Path) -> None:
        """Many ranges that are not read to their end hinder neither writes nor the closing."""
        with self.opened(tmp_path) as engine:
            self.put(engine, {b"%03d" % number: b"x" for number in range(200)})
            for number in range(200):
                left = engine.family("rows").range()
                assert number % 2 or next(left)[0] == b"000"
            held = [engine.family("rows").range(b"1%02d" % number) for number in range(20)]
            assert [next(rows)[0] for rows in held] == [b"1%02d" % number for number in range(20)]
            self.put(engine, {b"000": b"y"})
            assert engine.family("rows").get(b"000") == b"y"

    def test_a_seek_finds_the_first_row_from_a_key_on(self, tmp_path: Path) -> None:
        """A seek sees the last write, also after an earlier seek, and its own family only."""
        with self.opened(tmp_path) as engine:
            family = engine.family("rows")
            self.put(engine, {b"e": b"5"}, "other")
            assert family.seek(b"") is None
            self.put(engine, {b"b": b"1", b"d": b"2"})
            found = [family.seek(key) for key in (b"", b"b", b"b\0", b"d", b"d\0")]
            assert found == [(b"b", b"1"), (b"b", b"1"), (b"d", b"2"), (b"d", b"2"), None]
            self.put(engine, {b"c": b"3", b"b": None})
            assert (family.seek(b"a"), family.seek(b"d")) == ((b"c", b"3"), (b"d", b"2"))
            engine.clear(["rows"])
            assert family.seek(b"") is None

    # ------------------------------------------------------------------ other threads

    def test_other_threads_may_read_and_find_batches_whole(self, tmp_path: Path) -> None:
        """Two rows that every batch changes together are never seen apart in a range."""
        with self.opened(tmp_path) as engine:
            self.put(engine, {b"a": b"0", b"z": b"0"})
            seen: list[Any] = []
            done = threading.Event()

            def read() -> None:
                family = engine.family("rows")
                try:
                    while not done.is_set():
                        rows = dict(family.range())
                        seen.append(rows[b"a"] == rows[b"z"] and family.get(b"a") is not None)
                except Exception as error:  # known by the assertion below
                    seen.append(error)

            reader = threading.Thread(target=read)
            reader.start()
            try:
                for number in range(300):
                    self.put(engine, {b"a": b"%d" % number, b"z": b"%d" % number})
            finally:
                done.set()
                reader.join(60)
            assert not reader.is_alive()
            assert [found for found in seen if found is not True] == []

    # ------------------------------------------------------------------ on disk

    def test_what_was_written_is_there_when_it_is_opened_again(self, tmp_path: Path) -> None:
        """Rows that were written, or loaded and flushed, are there again, offsets too, if the engine is persistent;
        otherwise it is empty."""
        with self.opened(tmp_path) as engine:
            persistent = engine.persistent
            self.put(engine, {b"a": b"1", b"gone": b"1"})
            self.put(engine, {b"gone": None})
            self.put(engine, {b"topic-0": b"offset"}, OFFSETS)
            batch = engine.batch()
            batch.put(b"b", b"2", engine.family("rows").handle)
            engine.load(batch)
            engine.flush()
        with self.opened(tmp_path) as engine:
            assert engine.persistent is persistent
            assert self.rows(engine) == ([(b"a", b"1"), (b"b", b"2")] if persistent else [])
            assert engine.family(OFFSETS).get(b"topic-0") == (b"offset" if persistent else None)
            assert engine.holds("rows") is persistent

    def test_two_engines_in_two_places_have_nothing_in_common(self, tmp_path: Path) -> None:
        with self.opened(tmp_path / "1") as one, self.opened(tmp_path / "2") as other:
            self.put(one, {b"a": b"1"})
            assert self.rows(other) == []
