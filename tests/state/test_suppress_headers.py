"""The buffer of a suppression where values keep headers (KIP-1271), after restores and after a change of the format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from processor_api.record import HeaderList
from processor_api.serde import Serdes
from processor_api.stores.builder import change_buffer_builder
from processor_api.stores.suppliers import MEMORY, ROCKSDB
from state_support.store_kit import StoreKit, restored

S = Serdes.STRING
UNKNOWN = bytes.fromhex("00" + "ff" * 8)
"""No headers, and no timestamp."""
FIRST, SECOND = bytes.fromhex("0a02026802010000000000000007"), bytes.fromhex("000000000000000008")
"""The header ``h`` with the byte 1 and the timestamp 7; no headers and the timestamp 8."""
SOME: HeaderList = [("h", b"\x01")]


def kit_on(directory: Path, engine: str, *, headers: bool = True) -> StoreKit:
    return StoreKit(change_buffer_builder("s", S, S, engine=engine, headers=headers), directory)


def put(kit: StoreKit, new: str | None, old: str | None, timestamp: int, headers: HeaderList | None = None) -> None:
    kit.at(timestamp, headers)
    kit.store.operator.put(50, "k", (new, old), timestamp, headers)


def emptied(kit: StoreKit) -> int:
    """The bytes that are counted when nothing is buffered any more."""
    kit.store.operator.evict_while(lambda: True, lambda *change: None)
    return int(kit.facade.buffer_size())


def last_headers(kit: StoreKit) -> Any:
    kit.commit()
    return kit.logged[-1][3]


@pytest.mark.parametrize("engine", [MEMORY, ROCKSDB])
def test_old_values_come_with_headers_and_time_of_the_change_before(tmp_path: Path, engine: str) -> None:
    """Nothing is known of a value that was never buffered. What is said of the old value is not said of the same prior
    one again."""
    kit = kit_on(tmp_path / "db", engine)
    put(kit, "1", "0", 7, SOME)
    assert last_headers(kit) == [("v", b"\x03"), ("vh.old", UNKNOWN)]
    put(kit, "2", "1", 8)
    assert last_headers(kit) == [("v", b"\x03"), ("vh.prior", UNKNOWN), ("vh.old", FIRST)]
    put(kit, None, "2", 9)
    assert last_headers(kit) == [("v", b"\x03"), ("vh.prior", UNKNOWN), ("vh.old", SECOND)]
    put(kit, "3", None, 10)
    assert last_headers(kit) == [("v", b"\x03"), ("vh.prior", UNKNOWN)]
    kit.close()


@pytest.mark.parametrize("engine", [MEMORY, ROCKSDB])
def test_a_restored_buffer_says_the_same_of_its_next_change(tmp_path: Path, engine: str) -> None:
    """Also where prior and old value have the same bytes, and came with different records."""
    kit = kit_on(tmp_path / "db", engine)
    put(kit, "1", "0", 7, SOME)
    put(kit, "0", "1", 8)
    put(kit, "2", "0", 9)
    assert last_headers(kit) == [("v", b"\x03"), ("vh.prior", UNKNOWN), ("vh.old", SECOND)]
    again = restored(kit.builder, kit.logged, tmp_path / "again")
    assert again.facade.buffer_size() == kit.facade.buffer_size()
    for one in (kit, again):
        put(one, "3", None, 10)
        assert last_headers(one) == [("v", b"\x03"), ("vh.prior", UNKNOWN)]
        one.close()


def test_changes_that_were_logged_without_headers_have_the_time_of_their_record(tmp_path: Path) -> None:
    kit = kit_on(tmp_path / "db", MEMORY, headers=False)
    put(kit, "1", "0", 7, SOME)
    assert last_headers(kit) == [("v", b"\x03")]
    again = restored(change_buffer_builder("s", S, S, headers=True), kit.logged, tmp_path / "again")
    assert again.facade.buffer_size() == kit.facade.buffer_size() + len(FIRST) + len(UNKNOWN)
    put(again, "2", "1", 8)
    timed = bytes.fromhex("000000000000000007")
    assert last_headers(again) == [("v", b"\x03"), ("vh.prior", timed), ("vh.old", FIRST)]
    assert emptied(again) == 0
    kit.close()
    again.close()


def test_the_format_may_change_on_a_state_directory(tmp_path: Path) -> None:
    """Rows are counted as they were written, so that an emptied buffer has 0 bytes."""
    for headers, expected in ((False, []), (True, ["vh.prior", "vh.old"]), (False, [])):
        kit = kit_on(tmp_path / "db", ROCKSDB, headers=headers)
        old = "0" if kit.facade.num_records() == 0 else "1"
        put(kit, "1", old, 7, SOME)
        assert [name for name, _ in last_headers(kit)] == ["v", *expected]
        kit.close()
    kit = kit_on(tmp_path / "db", ROCKSDB)
    assert kit.facade.num_records() == 1
    assert emptied(kit) == 0
    kit.close()
