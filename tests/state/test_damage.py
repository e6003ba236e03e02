"""Damaged files are told with what to do, and never show as a store without rows."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import StateError
from runtime_support.task_kit import TaskKit
from state.engine.port import OFFSETS
from state.registry.kinds import KINDS as KIND_FILES
from state.rocksdb.engine import RocksEngine
from state.rocksdb.reader import DatabaseReader
from state_support.all_kinds import KINDS, change, drop_family, made, topology
from streams.cli.main import main

RECORDS = [(f"key-{number % 50}", f"value-{number}", 10 * number) for number in range(100)]
FAMILIES = [
    f"{name}.{suffix}"
    for name, kind in KINDS.items()
    for suffix in (KIND_FILES[kind].codec.family_suffix, *KIND_FILES[kind].families)
]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    kit = made(tmp_path, *RECORDS)
    kit.task.close(dirty=True)
    return tmp_path / "app" / "0_0" / "rocksdb"


def opened(database: Path) -> TaskKit:
    return TaskKit(topology(), database.parents[1], start=False)


def refusal(database: Path) -> str:
    """What opening the task says."""
    with pytest.raises(StateError) as caught:
        opened(database)
    return str(caught.value)


def rebuilt(database: Path, *arguments: str) -> None:
    assert main(["state", "rebuild", *arguments, "--state-dir", str(database.parents[2])]) == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_a_missing_family_is_told_each_time_until_its_store_is_rebuilt(family: str, database: Path) -> None:
    """RocksDB made an empty one in its place, whose offset said that it was complete."""
    store = family.rpartition(".")[0]
    drop_family(database, family)
    for _ in range(2):
        said = refusal(database)
        assert f"store {store!r} at " in said
        assert (
            f"its column family {family!r} is missing; stop the application and run `streams state rebuild {store}`"
            in said
        )
    assert main(["state", "verify", "--state-dir", str(database.parents[2])]) == 1
    rebuilt(database, store)
    with opened(database) as kit:
        assert kit.task.stores.progress.stored_offset(store) is None
        assert not kit.task.stores.progress.has_rows(store)
        others = KINDS.keys() - {store}
        assert all(kit.task.stores.progress.stored_offset(other) == 99 for other in others)


def test_a_family_of_a_store_that_is_not_opened_may_be_missing(database: Path) -> None:
    drop_family(database, "listed.list")
    engine = RocksEngine(database, ["plain.plain"])
    assert engine.holds("plain.plain")
    engine.close()


def test_without_the_family_of_offsets_nothing_is_opened(database: Path) -> None:
    drop_family(database, OFFSETS)
    for _ in range(2):
        said = refusal(database)
        assert "its family 'offsets' does not contain the format; stop the application and run" in said
        assert "`streams state rebuild --task 0_0`" in said
    rebuilt(database, "--task", "0_0")
    assert not database.exists()


@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST-*", "*.sst"])
def test_a_missing_file_is_told(name: str, database: Path) -> None:
    """Without CURRENT RocksDB made a new database in place of the one that was there."""
    (file, *_) = sorted(database.glob(name))
    file.unlink()
    for _ in range(2):
        assert "`streams state rebuild --task 0_0`" in refusal(database)
    assert main(["state", "verify", "--state-dir", str(database.parents[2])]) == 1


def test_a_newer_format_is_refused_and_nothing_is_made(database: Path) -> None:
    change(database, OFFSETS, b"streams.format", b"2")
    for _ in range(2):
        with pytest.raises(StateError, match=r"has format 2, but this release reads 1: run the newer release, or stop"):
            RocksEngine(database, ["new.plain"])
    with DatabaseReader(database) as reader:
        assert "new.plain" not in reader.names


@pytest.mark.parametrize("row", [b"", b"1234567", b"123456789", (-2).to_bytes(8, "big", signed=True)])
def test_a_garbled_offset_is_told(row: bytes, database: Path) -> None:
    change(database, OFFSETS, b"app-window-changelog-0", row)
    with opened(database) as kit, pytest.raises(StateError) as caught:
        kit.task.stores.progress.stored_offset("window")
    assert "the changelog offset of store 'window' is damaged: " in str(caught.value)
    assert "`streams state rebuild window`" in str(caught.value)
    assert (caught.value.store, caught.value.task) == ("window", "0_0")
    rebuilt(database, "window")
    with opened(database) as kit:
        assert kit.task.stores.progress.stored_offset("window") is None


def test_a_garbled_position_is_told(database: Path) -> None:
    change(database, "positions", b"in-0", b"?")
    with opened(database) as kit, pytest.raises(StateError, match=r"the position of in-0 .*state rebuild --task 0_0`"):
        kit.task.stores.progress.stored_positions()


# ---------------------------------------------------------------------- damaged blocks


def contents(engine: RocksEngine) -> dict[str, Any]:
    """What each family says: its rows, or the error."""
    found: dict[str, Any] = {}
    for family in (*FAMILIES, OFFSETS):
        try:
            found[family] = list(engine.family(family).range())
        except StateError as error:
            found[family] = error
    return found


def of_engine(path: Path) -> Any:
    try:
        engine = RocksEngine(path, FAMILIES)
    except StateError as error:
        return error
    try:
        return contents(engine)
    finally:
        engine.close()


def flipped(copy: Path, chance: random.Random) -> None:
    file = chance.choice(sorted(copy.glob("*.sst")))
    data = bytearray(file.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    file.write_bytes(data)


def cut(copy: Path, chance: random.Random) -> None:
    file = chance.choice(sorted(copy.glob("*.sst")))
    data = file.read_bytes()
    file.write_bytes(data[: chance.randrange(len(data))])


@pytest.mark.parametrize("damage", [flipped, pytest.param(cut, marks=pytest.mark.slow)])
def test_a_damaged_table_file_never_shows_less(
    damage: Callable[[Path, random.Random], None], database: Path, tmp_path: Path
) -> None:
    """Each family has its rows, or says which store is damaged; so does the command, and it sees what is damaged."""
    chance, whole, outcomes = random.Random(1), of_engine(database), Counter[str]()
    for number in range(60):
        root = tmp_path / f"copy-{number}"
        copy = root / "app" / "0_0" / "rocksdb"
        shutil.copytree(tmp_path / "app", root / "app")
        damage(copy, chance)
        told = _verdict(copy, whole)
        found = of_engine(copy)
        outcomes[told if isinstance(found, StateError) or found != whole else "nothing"] += 1
        if isinstance(found, StateError):
            assert "`streams state rebuild --task 0_0`" in str(found)
        else:
            for family, rows in found.items():
                store = family.rpartition(".")[0]
                advice = f"`streams state rebuild {store or '--task 0_0'}`"
                assert rows == whole[family] or advice in str(rows)
        if found != whole:
            assert told == "damaged"
        shutil.rmtree(root)
    assert outcomes["damaged"] >= 50, outcomes


def _verdict(copy: Path, whole: dict[str, Any]) -> str:
    """Of what reads beside a worker; it finds damage that a range does not meet too."""
    try:
        with DatabaseReader(copy) as reader:
            for family, rows in whole.items():
                try:
                    assert list(reader.family(family).range()) == rows
                except StateError as error:
                    return "damaged" if "`streams state rebuild" in str(error) else str(error)
            return "whole" if reader.damage is None else "damaged"
    except StateError:
        return "damaged"


def test_a_store_whose_file_is_damaged_is_rebuilt_alone(database: Path, tmp_path: Path) -> None:
    """Also where its damage keeps the database from being opened."""
    engine = RocksEngine(database, FAMILIES)
    engine.close()
    with DatabaseReader(database) as reader:
        before = {name: list(reader.family(name).range()) for name in FAMILIES}
    alone = set()
    for file in sorted(database.glob("*.sst")):
        root = tmp_path / f"copy-{file.stem}"
        shutil.copytree(tmp_path / "app", root / "app")
        copy = root / "app" / "0_0" / "rocksdb"
        (copy / file.name).write_bytes(b"nothing")
        with DatabaseReader(copy) as reader:
            assert reader.damage is not None
            damaged = {name for name in FAMILIES if _damaged(reader, name)}
        if not damaged:
            continue  # it is of the offsets or of the positions
        (store,) = {name.rpartition(".")[0] for name in damaged}
        rebuilt(copy, store)
        alone.add(store)
        found = of_engine(copy)
        assert {name: rows for name, rows in found.items() if rows and name != OFFSETS} == {
            name: rows for name, rows in before.items() if not name.startswith(f"{store}.")
        }
    assert alone == {name.rpartition(".")[0] for name, rows in before.items() if rows and name != OFFSETS}


def _damaged(reader: DatabaseReader, family: str) -> bool:
    try:
        list(reader.family(family).range())
        return False
    except StateError:
        return True
