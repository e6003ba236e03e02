"""Snapshots of every engine: rows as they were at one moment, whatever is written, cleared or closed since."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from processor_api.clock import SystemClock
from processor_api.errors import StateError
from state.engine.memory import MemoryEngine
from state.engine.spilling import SpillingEngine
from state.rocksdb.engine import RocksEngine
from state.row_format.migration import UpgradingEngine
from streams.runtime.engines.shared_engine import SharedMemoryEngine
from streams.testing.contracts.engine_kit import FAMILIES, EngineKit, Rows, between, change_at_random


def _upgrading(engine: Any) -> Any:
    return UpgradingEngine(engine, "rows", [(engine.family("older"), bytes)])


ENGINES: dict[str, Callable[[Path], Any]] = {
    "memory": lambda path: MemoryEngine(),
    "shared": lambda path: SharedMemoryEngine(),
    "rocksdb": lambda path: RocksEngine(path, FAMILIES),
    "upgrading": lambda path: _upgrading(RocksEngine(path, [*FAMILIES, "older"])),
    "spilling": lambda path: SpillingEngine(lambda: RocksEngine(path, FAMILIES)),
    "spilling, each write to disk": lambda path: SpillingEngine(lambda: RocksEngine(path, FAMILIES), most_bytes=0),
    "spilling, few rows in memory": lambda path: SpillingEngine(lambda: RocksEngine(path, FAMILIES), most_bytes=600),
}
FOR_THREADS = ["memory", "shared", "rocksdb", "upgrading"]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    opened = ENGINES[request.param](tmp_path / "db")
    yield opened
    opened.close()


write = EngineKit.put


def test_it_shows_all_families_as_they_were(engine: Any) -> None:
    for name in FAMILIES:
        write(engine, {b"a": b"1", b"b": b"1"}, name)
    snapshot = engine.snapshot([*FAMILIES, "never named"])
    batch = engine.batch()
    for name in FAMILIES:
        handle = engine.family(name).handle
        batch.put(b"a", b"2", handle)
        batch.put(b"c", b"2", handle)
        batch.delete(b"b", handle)
    engine.write(batch)
    for name in FAMILIES:
        family = snapshot.family(name)
        assert [family.get(key) for key in (b"a", b"b", b"c")] == [b"1", b"1", None]
        assert list(family.range()) == [(b"a", b"1"), (b"b", b"1")]
        assert [family.seek(key) for key in (b"", b"a\0", b"b\0")] == [(b"a", b"1"), (b"b", b"1"), None]
    assert list(snapshot.family("never named").range()) == []
    assert snapshot.family("never named").get(b"a") is None
    assert list(engine.family("rows").range()) == [(b"a", b"2"), (b"c", b"2")]


@pytest.mark.parametrize("seed", range(6))
def test_random_writes_do_not_show(engine: Any, seed: int) -> None:
    """Puts, deletions of rows and ranges, and clearing, while ranges in both directions are read a little at a time."""
    chosen = random.Random(seed)
    rows: dict[bytes, bytes] = {}
    opened: list[tuple[Any, dict[bytes, bytes]]] = []
    reading: list[tuple[Iterator[Any], Rows]] = []
    for number in range(60):
        change_at_random(engine, rows, chosen, number)
        if number % 7 == 0:
            opened.append((engine.snapshot(FAMILIES), dict(rows)))
        for snapshot, was in opened:
            family, key = snapshot.family("rows"), b"%03d" % chosen.randrange(400)
            assert family.get(key) == was.get(key)
            assert family.seek(key) == next(iter(between(was, key, None, reverse=False)), None)
            low, high = (chosen.choice([None, b"%03d" % chosen.randrange(400)]) for _ in range(2))
            reverse = chosen.random() < 0.5
            reading.append((family.range(low, high, reverse=reverse), between(was, low, high, reverse=reverse)))
        for found, left in chosen.sample(reading, len(reading) // 4):
            for _ in range(min(len(left), chosen.randrange(40))):
                assert next(found) == left.pop(0)
    for found, left in reading:
        assert list(found) == left


def test_reads_after_the_engine_or_the_snapshot_was_closed_fail(tmp_path: Path) -> None:
    """Also those of a range in its middle; an engine on disk can be opened again at once."""
    for name, opener in ENGINES.items():
        path = tmp_path / name
        engine = opener(path)
        write(engine, {b"%04d" % i: b"x" for i in range(1000)})
        kept, dropped = engine.snapshot(FAMILIES), engine.snapshot(FAMILIES)
        ranges = [kept.family("rows").range(reverse=reverse) for reverse in (False, True)]
        assert [next(rows)[0] for rows in ranges] == [b"0000", b"0999"]
        dropped.close()
        with pytest.raises(StateError, match="the snapshot of 'rows' is closed"):
            dropped.family("rows").get(b"0001")
        assert kept.family("rows").get(b"0001") == b"x"
        engine.close()
        again = opener(path)
        if not name.startswith("spilling"):
            with pytest.raises(StateError, match="closed"):
                engine.snapshot(FAMILIES)
        for read in (
            lambda kept=kept: kept.family("rows").get(b"0001"),
            lambda kept=kept: kept.family("rows").seek(b""),
            *(lambda rows=rows: list(rows) for rows in ranges),
        ):
            if name.startswith("spilling") and read.__defaults__[0] in ranges:  # a copy was read in one piece
                continue
            with pytest.raises(StateError, match="closed"):
                read()
        again.close()


@pytest.mark.parametrize("name", FOR_THREADS)
def test_threads_read_whole_batches(name: str, tmp_path: Path) -> None:
    """Each batch writes its number to 300 rows of both families: a snapshot has the same number in all, also when it is
    read slowly. The engine is closed under the readers' hands."""
    engine = ENGINES[name](tmp_path / "db")
    _number_all(engine, 0)
    failures: list[str] = []
    reads = [0] * 3
    deadline = SystemClock().monotonic() + 60

    def reader(number: int) -> None:
        try:
            while True:
                snapshot = engine.snapshot(FAMILIES)
                found = [value for family in FAMILIES for _, value in snapshot.family(family).range()]
                found.append(snapshot.family("rows").get(b"007"))
                if len(set(found)) != 1 or len(found) != 601:
                    failures.append(f"{len(found)} rows of {sorted(set(found))}")
                reads[number] += 1
        except StateError as error:
            if "closed" not in str(error):
                failures.append(str(error))

    threads = [threading.Thread(target=reader, args=(number,)) for number in range(len(reads))]
    for thread in threads:
        thread.start()
    number = 0
    while min(reads) < 20 and SystemClock().monotonic() < deadline:
        number += 1
        _number_all(engine, number)
    engine.close()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert min(reads) >= 20
    assert not any(thread.is_alive() for thread in threads)


def _number_all(engine: Any, number: int) -> None:
    batch = engine.batch()
    for family in FAMILIES:
        handle = engine.family(family).handle
        for key in range(300):
            batch.put(b"%03d" % key, b"%d" % number, handle)
    engine.write(batch)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_range_over_large_values_reads_few_of_them_ahead(reverse: bool, tmp_path: Path) -> None:
    """Sixteen at once were 160 MiB of values of 10 MiB."""
    engine = RocksEngine(tmp_path / "db", ["large"])
    batch = engine.batch()
    for number in range(20):
        batch.put(b"%02d" % number, bytes(600_000), engine.family("large").handle)
    engine.write(batch)
    snapshot = engine.snapshot(["large"])
    rows, on = snapshot.read("large", None, None, 16, reverse=reverse)
    assert len(rows) == 2
    assert on is not None
    keys = [key for key, _ in snapshot.family("large").range(reverse=reverse)]
    assert keys == sorted((b"%02d" % number for number in range(20)), reverse=reverse)
    snapshot.close()
    engine.close()
