"""A spilling engine holds what the engine in memory does, however little of it may stay in memory."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import StateError
from state.engine.memory import MemoryEngine
from state.engine.spilling import ROW_OVERHEAD_BYTES, SpillingEngine
from state.rocksdb.engine import RocksEngine

FAMILIES = ("one", "other")


def apply(engine: Any, operations: list[tuple[str, bytes, bytes | None]]) -> None:
    batch = engine.batch()
    for family, key, value in operations:
        handle = engine.family(family).handle
        batch.delete(key, handle) if value is None else batch.put(key, value, handle)
    engine.write(batch)


@pytest.mark.parametrize("rows", [0, 1, 5, 30])
@pytest.mark.parametrize("seed", range(5))
def test_it_holds_what_an_engine_in_memory_does(seed: int, rows: int, tmp_path: Path) -> None:
    """Batches of puts and deletions, reads, ranges both ways that are opened and read later, and clearing."""
    chosen = random.Random(seed)
    model = MemoryEngine()
    engine = SpillingEngine(lambda: RocksEngine(tmp_path, FAMILIES), most_bytes=rows * (ROW_OVERHEAD_BYTES + 3))
    opened: list[tuple[Any, Any]] = []
    for number in range(200):
        operations = [
            (chosen.choice(FAMILIES), b"%d" % chosen.randrange(30), chosen.choice([None, b"v", b"%d" % number]))
            for _ in range(chosen.randrange(4))
        ]
        for each in (engine, model):
            apply(each, operations)
        name, key, low, high = chosen.choice(FAMILIES), *(b"%d" % chosen.randrange(30) for _ in range(3))
        ours, theirs = engine.family(name), model.family(name)
        assert ours.get(key) == theirs.get(key)
        if number % 10 == 0:
            reverse = chosen.random() < 0.5
            opened.append((ours.range(low, high, reverse=reverse), theirs.range(low, high, reverse=reverse)))
        if number == 120:
            for each in (engine, model):
                each.clear([name])
    for ours, theirs in opened:
        assert list(ours) == list(theirs)
    for name in FAMILIES:
        assert list(engine.family(name).range()) == list(model.family(name).range())
    assert engine.spilled
    engine.close()


def test_few_rows_never_open_a_database(tmp_path: Path) -> None:
    opened: list[None] = []
    engine = SpillingEngine(lambda: opened.append(None) or RocksEngine(tmp_path, FAMILIES), most_bytes=10_000)
    for number in range(1000):
        apply(engine, [("one", b"%d" % (number % 10), b"value")])
        list(engine.family("one").range())
    assert not opened
    assert not engine.spilled
    apply(engine, [("one", b"%d" % number, b"value") for number in range(100)])
    assert len(opened) == 1
    assert len(list(engine.family("one").range())) == 100
    engine.close()


def test_a_database_that_cannot_be_opened_loses_nothing(tmp_path: Path) -> None:
    """The error names the place, and the rows are still there to be read."""
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    engine = SpillingEngine(lambda: RocksEngine(blocked, FAMILIES), most_bytes=300)
    apply(engine, [("one", b"a", b"1")])
    with pytest.raises(StateError, match=r"cannot open the store at .*file"):
        apply(engine, [("one", b"b", b"2")])
    assert engine.family("one").get(b"a") == b"1"
    engine.close()


def test_rows_that_grow_shrink_and_go_count_for_what_they_are(tmp_path: Path) -> None:
    """A row was counted when it was new, so one that grew was never too much, and deleted rows were counted on."""
    opened: list[None] = []
    engine = SpillingEngine(lambda: opened.append(None) or RocksEngine(tmp_path, FAMILIES), most_bytes=10_000)
    for number in range(100):
        apply(engine, [("one", b"a%d" % number, b"v")])
        apply(engine, [("one", b"a%d" % number, None)])
        apply(engine, [("other", b"b%d" % number, b"v")])
        batch = engine.batch()
        batch.delete_range(b"b", b"c", engine.family("other").handle)
        engine.write(batch)
        apply(engine, [("one", b"grows", bytes(9_000 if number % 2 else 10))])
    assert not opened
    apply(engine, [("one", b"grows", bytes(12_000))])
    assert len(opened) == 1
    for _ in range(100):  # what waits beside a database counts once too
        apply(engine, [("one", b"grows", bytes(9_000)), ("one", b"small", b"1")])
    assert engine.family("one").get(b"grows") == bytes(9_000)
    engine.close()
