"""Checkpoints of the engine in memory: files with its rows as of one write, made while it is written."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import StateError
from state.engine.memory import MemoryEngine
from state.engine.port import OFFSETS, Checkpointing
from state.engine.row_files import FILE_BYTES, MAGIC, read_rows, write_rows

FAMILIES = ["s.rows", "t.rows", OFFSETS]
Model = dict[str, dict[bytes, bytes]]


def key(number: int) -> bytes:
    return b"%04d" % number


def change(engine: MemoryEngine, model: Model, chance: random.Random) -> None:
    """Writes a batch of each sort of operation, or clears a family now and then."""
    name = chance.choice(FAMILIES)
    if chance.random() < 0.02:
        engine.clear([name])
        model[name].clear()
        return
    batch, handle, rows = engine.batch(), engine.family(name).handle, model[name]
    for _ in range(chance.choice([1, 3, 30])):
        one = chance.randrange(300)
        match chance.choice(["put", "put", "put", "delete", "delete", "range"]):
            case "put":
                rows[key(one)] = value = b"%d" % chance.randrange(10**9)
                batch.put(key(one), value, handle)
            case "delete":
                rows.pop(key(one), None)
                batch.delete(key(one), handle)
            case _:
                batch.delete_range(key(one), key(one + 5), handle)
                for gone in range(one, one + 5):
                    rows.pop(key(gone), None)
    engine.write(batch)


def contents(engine: MemoryEngine) -> Model:
    return {name: dict(engine.family(name).range()) for name in FAMILIES}


@pytest.mark.parametrize("seed", range(30))
def test_pieces_have_all_rows_as_they_were(seed: int) -> None:
    """Between two pieces rows change, come and go, of a family that is read and of those that are read later."""
    chance = random.Random(seed)
    engine, model = MemoryEngine(), {name: {} for name in FAMILIES}
    for _ in range(chance.randrange(200)):
        change(engine, model, chance)
    snapshot, was = engine.snapshot(FAMILIES), {name: dict(rows) for name, rows in model.items()}
    for name in FAMILIES:
        found: dict[bytes, bytes] = {}
        for piece in snapshot.pieces(name, chance.choice([1, 7, 40])):
            found.update(zip(*piece, strict=True))
            for _ in range(chance.choice([0, 0, 1, 4])):
                change(engine, model, chance)
        assert found == was[name]
    assert contents(engine) == model


def test_a_checkpoint_has_what_there_was_when_it_was_begun(tmp_path: Path) -> None:
    """Another engine takes it over, in the place of what it had, and goes on; the files are gone then."""
    engine, other = MemoryEngine(), MemoryEngine()
    model: Model = {name: {} for name in FAMILIES}
    chance = random.Random(1)
    for _ in range(100):
        change(engine, model, chance)
    complete, was = engine.checkpoint(tmp_path / "copy", FAMILIES), contents(engine)
    for _ in range(100):
        change(engine, model, chance)
    complete()
    change(other, {name: {} for name in FAMILIES}, chance)
    before = other.snapshot(FAMILIES)
    other.prepare(tmp_path / "copy")
    other.take_over(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    with pytest.raises(StateError):
        before.family("s.rows").get(key(1))
    assert contents(other) == was
    change(other, was, chance)
    assert contents(other) == was
    other.take_over(None)
    assert contents(other) == {name: {} for name in FAMILIES}
    assert isinstance(engine, Checkpointing)


def test_a_checkpoint_of_some_families_has_no_others(tmp_path: Path) -> None:
    engine = MemoryEngine()
    for name in FAMILIES:
        batch = engine.batch()
        batch.put(b"a", name.encode(), engine.family(name).handle)
        engine.write(batch)
    engine.checkpoint(tmp_path / "copy", ["s.rows", OFFSETS, "never.rows"])()
    assert read_rows(tmp_path / "copy") == {"s.rows": {b"a": b"s.rows"}, OFFSETS: {b"a": b"offsets"}}


def test_a_checkpoint_is_made_while_another_thread_writes(tmp_path: Path) -> None:
    """Each batch puts its number into many rows of two families: all rows of a checkpoint have one number."""
    engine, stopping = MemoryEngine(), threading.Event()

    def write() -> None:
        number = 0
        while not stopping.is_set():
            number += 1
            batch = engine.batch()
            for name in ("s.rows", "t.rows"):
                for one in range(number % 7, 300 + number % 7):
                    batch.put(key(one), b"%d" % number, engine.family(name).handle)
                batch.delete(key(number % 7 - 1), engine.family(name).handle)
            engine.write(batch)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(40):
            directory = tmp_path / str(number)
            engine.checkpoint(directory, FAMILIES)()
            found = [rows.get(key(one)) for rows in read_rows(directory).values() for one in range(7, 300)]
            assert len(set(found)) <= 1
    finally:
        stopping.set()
        writer.join(30)


def test_an_engine_that_closes_ends_its_checkpoints(tmp_path: Path) -> None:
    engine = MemoryEngine()
    batch = engine.batch()
    batch.put(b"a", b"1", engine.family("s.rows").handle)
    engine.write(batch)
    complete = engine.checkpoint(tmp_path / "copy", FAMILIES)
    engine.close()
    with pytest.raises(StateError, match="is closed"):
        complete()
    with pytest.raises(StateError, match="is closed"):
        engine.checkpoint(tmp_path / "other", FAMILIES)
    with pytest.raises(StateError, match="is closed"):
        engine.take_over(None)


def test_many_rows_are_several_files(tmp_path: Path) -> None:
    large = [(key(number), bytes([number]) * (1 << 20)) for number in range(40)]
    empty: list[Any] = [([], []), ([], [])]
    write_rows(tmp_path / "copy", {"s.rows": [([one], [row]) for one, row in large], "t.rows": [], "u.rows": empty})
    sizes = [path.stat().st_size for path in sorted((tmp_path / "copy").iterdir())]
    assert all(FILE_BYTES <= size < FILE_BYTES + (2 << 20) for size in sizes[:2])
    assert read_rows(tmp_path / "copy") == {"s.rows": dict(large), "u.rows": {}}


@pytest.mark.parametrize("cut", [1, 2, 3, 20, 25, 50])
def test_files_that_are_cut_are_refused(cut: int, tmp_path: Path) -> None:
    write_rows(tmp_path / "copy", {"s.rows": [([b"key", b"other"], [b"value", b""])]})
    (path,) = (tmp_path / "copy").iterdir()
    content = path.read_bytes()
    path.write_bytes(content[: max(len(MAGIC) + 1, len(content) - cut)])
    with pytest.raises(StateError, match="is damaged"):
        MemoryEngine().prepare(tmp_path / "copy")


@pytest.mark.parametrize("content", [b"", b"something else", MAGIC.replace(b"1", b"2") + b"\0\0"])
def test_files_of_another_form_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "000000.rows").write_bytes(content)
    with pytest.raises(StateError, match="does not have rows that this release reads"):
        MemoryEngine().take_over(tmp_path / "copy")
