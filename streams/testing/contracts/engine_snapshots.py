"""The part of the contract of a storage engine that is about other threads: its lock and its snapshots."""

from __future__ import annotations

import itertools
import random
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from processor_api.clock import SystemClock
from processor_api.errors import StateError
from streams.testing.contracts.engine_kit import (
    BOUNDS,
    FAMILIES,
    KEYS,
    EngineKit,
    Rows,
    between,
    change_at_random,
    random_key,
)

__all__ = ["EngineSnapshotContract"]

DEADLINE_S = 60.0
READS = 20
"""The least number of reads and writes when threads read while another one writes."""
SWITCH_S = 1e-5
"""How long a thread runs in these tests before another one may: short, so that threads interrupt each other
anywhere."""
MANY = 300
"""Rows that each batch changes together, in each family."""


class EngineSnapshotContract(EngineKit):
    """The rules of an engine about other threads, as tests. `EngineContract` has all of it."""

    # ------------------------------------------------------------------ one moment

    def test_a_snapshot_shows_all_its_families_as_they_were(self, tmp_path: Path) -> None:
        """The families of a snapshot stay as they were through writes of every sort; the next snapshot shows the
        writes."""
        with self.opened(tmp_path) as engine:
            self.put(engine, {b"a": b"1", b"b": b"1", b"d": b"1"}, *FAMILIES)
            snapshot = engine.snapshot(FAMILIES)
            batch = engine.batch()
            for name in FAMILIES:
                handle = engine.family(name).handle
                batch.put(b"a", b"2", handle)
                batch.put(b"c", b"2", handle)
                batch.delete(b"b", handle)
                batch.delete_range(b"d", b"e", handle)
            engine.write(batch)
            after = engine.snapshot(FAMILIES)
            engine.clear(["rows"])
            for name in FAMILIES:
                family = snapshot.family(name)
                assert [family.get(key) for key in (b"a", b"b", b"c", b"d")] == [b"1", b"1", None, b"1"]
                assert [family.seek(key) for key in (b"", b"b\0", b"e")] == [(b"a", b"1"), (b"d", b"1"), None]
                assert list(family.range()) == [(b"a", b"1"), (b"b", b"1"), (b"d", b"1")]
                assert list(family.range(reverse=True)) == [(b"d", b"1"), (b"b", b"1"), (b"a", b"1")]
                assert self.rows(after, name) == [(b"a", b"2"), (b"c", b"2")]
            assert self.rows(engine) == []

    def test_a_family_that_is_not_there_has_no_rows_in_a_snapshot(self, tmp_path: Path) -> None:
        with self.opened(tmp_path) as engine:
            self.put(engine, {b"a": b"1"})
            snapshot = engine.snapshot(["rows", "never-named"])
            family = snapshot.family("never-named")
            assert (family.get(b"a"), family.seek(b"")) == (None, None)
            assert list(family.range()) == list(family.range(reverse=True)) == []
            assert self.rows(snapshot) == [(b"a", b"1")]

    def test_ranges_of_a_snapshot_have_their_lower_bound_and_not_their_upper_one(self, tmp_path: Path) -> None:
        """The rule holds for every pair of bounds in both directions, also after the rows have changed."""
        rows = {key: b"value of " + key for key in KEYS}
        with self.opened(tmp_path) as engine:
            self.put(engine, rows)
            snapshot = engine.snapshot(FAMILIES)
            for changed, reverse in itertools.product((False, True), (False, True)):
                if changed:
                    self.put(engine, {**dict.fromkeys(KEYS[::2]), b"aa": b"new", KEYS[1]: b"new"})
                for low, high in itertools.product(BOUNDS, BOUNDS):
                    found = list(snapshot.family("rows").range(low, high, reverse=reverse))
                    assert found == between(rows, low, high, reverse=reverse), (low, high, reverse, changed)

    def test_random_writes_do_not_show_in_snapshots(self, tmp_path: Path) -> None:
        """Several snapshots are open together, while ranges in both directions are read a little at a time."""
        for seed in range(3):
            self._write_at_random(tmp_path / str(seed), seed)

    def _write_at_random(self, path: Path, seed: int) -> None:
        chosen, rows = random.Random(seed), dict[bytes, bytes]()
        opened: list[tuple[Any, dict[bytes, bytes]]] = []
        reading: list[tuple[Iterator[Any], Rows]] = []
        with self.opened(path) as engine:
            for number in range(60):
                change_at_random(engine, rows, chosen, number)
                if number % 7 == 0:
                    opened.append((engine.snapshot(FAMILIES), dict(rows)))
                for snapshot, was in opened:
                    family, key = snapshot.family("rows"), random_key(chosen)
                    assert family.get(key) == was.get(key)
                    assert family.seek(key) == next(iter(between(was, key, None, reverse=False)), None)
                    low, high = (chosen.choice([None, random_key(chosen)]) for _ in range(2))
                    reverse = chosen.random() < 0.5
                    left = between(was, low, high, reverse=reverse)
                    reading.append((family.range(low, high, reverse=reverse), left))
                for found, left in chosen.sample(reading, len(reading) // 4):
                    for _ in range(min(len(left), chosen.randrange(40))):
                        assert next(found) == left.pop(0)
            for found, left in reading:
                assert list(found) == left

    # ------------------------------------------------------------------ while another thread writes

    def test_snapshots_from_other_threads_have_whole_batches(self, tmp_path: Path) -> None:
        """Each batch puts its number into many rows of both families: a snapshot has one number in all of them, however
        long it is read."""

        def read(engine: Any) -> set[bytes]:
            snapshot = engine.snapshot(FAMILIES)
            found = [value for name in FAMILIES for _, value in self.rows(snapshot, name)]
            found += [snapshot.family(name).get(b"007") for name in reversed(FAMILIES)]
            snapshot.close()
            return set(found) if len(found) == 2 * MANY + 2 else {b"%d rows" % len(found)}

        assert self._read_while_written(tmp_path, read) == []

    def test_who_has_the_lock_finds_the_engine_between_two_writes(self, tmp_path: Path) -> None:
        """Rows of several reads and a snapshot belong together under the lock, which its holder may take again."""

        def read(engine: Any) -> set[bytes]:
            with engine.lock:
                found = {value for name in FAMILIES for _, value in self.rows(engine, name)}
                with engine.lock:
                    snapshot = engine.snapshot(FAMILIES)
                found |= {engine.family(name).get(b"007") for name in FAMILIES}
            return found | {snapshot.family(name).get(b"001") for name in FAMILIES}

        assert self._read_while_written(tmp_path, read) == []

    def _read_while_written(self, tmp_path: Path, read: Callable[[Any], set[bytes]]) -> list[Any]:
        """Returns the errors in what two threads read, while this one writes."""
        wrong: list[Any] = []
        counts = {"writes": 0, "first": 0, "second": 0}
        clock = SystemClock()
        deadline = clock.monotonic() + DEADLINE_S
        with self.opened(tmp_path) as engine:
            self._number(engine, 0)

            def reader(name: str) -> None:
                try:
                    while min(counts[name], counts["writes"]) < READS and clock.monotonic() < deadline:
                        found = read(engine)
                        if len(found) != 1:
                            wrong.append(found)
                        counts[name] += 1
                except Exception as error:
                    wrong.append(error)

            threads = [threading.Thread(target=reader, args=(name,)) for name in ("first", "second")]
            interval = sys.getswitchinterval()
            sys.setswitchinterval(SWITCH_S)
            try:
                for thread in threads:
                    thread.start()
                while any(thread.is_alive() for thread in threads) and clock.monotonic() < deadline:
                    counts["writes"] += 1
                    self._number(engine, counts["writes"])
            finally:
                sys.setswitchinterval(interval)
                for thread in threads:
                    thread.join(DEADLINE_S)
            assert not any(thread.is_alive() for thread in threads)
            assert wrong or min(counts.values()) >= READS, counts
        return wrong

    def _number(self, engine: Any, number: int) -> None:
        self.put(engine, dict.fromkeys((b"%03d" % key for key in range(MANY)), b"%d" % number), *FAMILIES)

    # ------------------------------------------------------------------ ends

    def test_a_closed_snapshot_refuses_reads(self, tmp_path: Path) -> None:
        """Reads of a range in its middle are refused too; other snapshots stay open, and it may be closed again."""
        rows = {b"%04d" % number: b"x" for number in range(2000)}
        with self.opened(tmp_path) as engine:
            self.put(engine, rows)
            closed, other = engine.snapshot(FAMILIES), engine.snapshot(FAMILIES)
            left = [_begun(closed, reverse) for reverse in (False, True)]
            closed.close()
            closed.close()
            _refuses(closed, left)
            assert self.rows(other) == sorted(rows.items())

    def test_snapshots_end_with_their_engine(self, tmp_path: Path) -> None:
        """The engine closes at once and refuses new snapshots; a persistent one can be opened again while old ones are
        held."""
        rows = {b"%04d" % number: b"x" for number in range(2000)}
        with self.opened(tmp_path) as engine:
            persistent = engine.persistent
            self.put(engine, rows)
            snapshot = engine.snapshot(FAMILIES)
            left = [_begun(snapshot, reverse) for reverse in (False, True)]
        with self.opened(tmp_path) as again:
            _is_refused(lambda: engine.snapshot(FAMILIES))
            _refuses(snapshot, left)
            assert self.rows(again) == (sorted(rows.items()) if persistent else [])
        snapshot.close()

    def test_an_engine_may_be_closed_while_other_threads_read_snapshots(self, tmp_path: Path) -> None:
        """The readers get a StateError, and never rows of which some are missing."""
        wrong: list[Any] = []
        refused: list[StateError] = []
        engine: Any = self.open_engine(tmp_path / "engine")

        def read(begun: threading.Event) -> None:
            try:
                while True:
                    snapshot = engine.snapshot(FAMILIES)
                    found = len(self.rows(snapshot)), snapshot.family("other").get(b"001")
                    if found != (MANY, b"0"):
                        wrong.append(found)
                    begun.set()
            except StateError as error:
                refused.append(error)
            except Exception as error:
                wrong.append(error)

        events = threading.Event(), threading.Event()
        threads = [threading.Thread(target=read, args=(begun,)) for begun in events]
        try:
            self._number(engine, 0)
            for thread in threads:
                thread.start()
            assert all(begun.wait(DEADLINE_S) for begun in events)
        finally:
            engine.close()
        for thread in threads:
            thread.join(DEADLINE_S)
        assert not any(thread.is_alive() for thread in threads)
        assert (wrong, len(refused)) == ([], len(threads))

    def test_snapshots_may_be_dropped(self, tmp_path: Path) -> None:
        """Many dropped snapshots, with their ranges, hinder neither writes nor the closing, and a holder of a family
        still reads it."""
        with self.opened(tmp_path) as engine:
            self.put(engine, {b"%03d" % number: b"x" for number in range(MANY)})
            for number in range(200):
                left = engine.snapshot(FAMILIES).family("rows").range(reverse=number % 2 == 0)
                assert next(left)[1] == b"x"
            family = engine.snapshot(FAMILIES).family("rows")
            self.put(engine, {b"000": b"y"})
            assert (family.get(b"000"), engine.family("rows").get(b"000")) == (b"x", b"y")


def _begun(snapshot: Any, reverse: bool) -> Iterator[Any]:
    rows: Iterator[Any] = snapshot.family("rows").range(reverse=reverse)
    next(rows)
    return rows


def _refuses(snapshot: Any, left: list[Iterator[Any]]) -> None:
    family = snapshot.family("rows")
    _is_refused(lambda: family.get(b"0001"))
    _is_refused(lambda: family.seek(b""))
    _is_refused(lambda: list(family.range()))
    for rows in left:
        _is_refused(lambda rows=rows: list(rows))


def _is_refused(read: Callable[..., Any]) -> None:
    try:
        found = read()
    except StateError:
        return
    raise AssertionError(f"it is closed and gave {found!r}")
