"""The sessions of a key that a record may join: those near its time, found without reading those behind them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from processor_api.serde import Serde, Serdes
from processor_api.stores.factory import Stores
from state_support.store_kit import StoreKit

RETENTION = 1_000_000
GAP = 10


class Counting:
    """A serde of strings that counts what it reads."""

    def __init__(self) -> None:
        self.reads = 0

    def serde(self) -> Serde[str]:
        return Serde(str.encode, self._read, name="counting")

    def _read(self, data: bytes) -> str:
        self.reads += 1
        return data.decode()


def kit(
    directory: Path, cache_bytes: int, serde: Serde[Any] = Serdes.STRING, *, rocksdb: bool, ordered: bool = False
) -> StoreKit:
    supplier = Stores.persistent_session_store if rocksdb else Stores.in_memory_session_store
    builder = Stores.session_store_builder(supplier("s", RETENTION, time_ordered=ordered), Serdes.BYTES, serde)
    return StoreKit(builder.with_caching_enabled(), directory, cache_bytes=cache_bytes, log_each=False)


@pytest.mark.parametrize("cache_bytes", [0, 1500, 1 << 20])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("rocksdb", [False, True])
def test_sessions_are_found_as_by_looking_at_all(
    tmp_path: Path, cache_bytes: int, ordered: bool, rocksdb: bool
) -> None:
    """Records of any time join sessions as the operator does, with commits, other lives and several segments between,
    beside a key that the key begins with."""
    draw = Random(cache_bytes)
    store = kit(tmp_path / "s", cache_bytes, rocksdb=rocksdb, ordered=ordered)
    expected: dict[tuple[bytes, int, int], str] = {}

    def put(key: bytes, end: int, start: int, value: str | None) -> None:
        store.store.operator.timed.put(key, end, start, value, end)
        if value is None:
            del expected[key, end, start]
        else:
            expected[key, end, start] = value

    for number in range(300):
        key, time = draw.choice([b"a", b"aa"]), draw.choice([number * 800, draw.randrange(300) * 800, 0])
        time += draw.randrange(-3, 4) * GAP // 2
        time = max(time, 0)
        found = store.store.operator.timed.find_sessions(key, time - GAP, time + GAP)
        near = {
            row: value
            for row, value in expected.items()
            if row[0] == key and row[1] >= time - GAP and row[2] <= time + GAP
        }
        assert {(one[0], one[1], one[2]): one[3] for one in found} == near
        for _, its_end, its_start in near:
            put(key, its_end, its_start, None)
        ends, starts = [time, *(row[1] for row in near)], [time, *(row[2] for row in near)]
        put(key, max(ends), min(starts), f"value {number}")
        if draw.random() < 0.05:
            store.commit()
        if draw.random() < 0.02:
            store.commit()
            store.restart() if rocksdb else store.abort()
    store.close()


@pytest.mark.parametrize("rocksdb", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_a_late_record_reads_none_of_the_sessions_behind_it(tmp_path: Path, rocksdb: bool, known: bool) -> None:
    """It read all later sessions of its key: 48 ms with 16,000 of them."""
    counting = Counting()
    store = kit(tmp_path / "s", 1 << 20, counting.serde(), rocksdb=rocksdb)
    timed = store.store.operator.timed
    if known:
        timed.find_sessions(b"a", 0, 0)
    for time in range(0, 500 * 100, 100):
        timed.put(b"a", time, time, "value", time)
    store.commit()
    counting.reads = 0
    assert [one[1] for one in timed.find_sessions(b"a", 50 - GAP, 50 + GAP)] == []
    assert [one[1] for one in timed.find_sessions(b"a", 100 - GAP, 100 + GAP)] == [100]
    assert counting.reads <= 2
    store.close()


def test_a_session_around_the_time_is_found(tmp_path: Path) -> None:
    """It ends later than the span that a record looks at, and begins before it; deleted ones lie in between."""
    store = kit(tmp_path / "s", 1 << 20, rocksdb=True)
    timed = store.store.operator.timed
    timed.put(b"a", 70, 70, "deleted", 70)
    timed.put(b"a", 900_000, 20, "long", 900_000)
    timed.put(b"a", 950_000, 950_000, "later", 950_000)
    store.commit()
    store.restart()
    timed = store.store.operator.timed
    timed.put(b"a", 70, 70, None, 70)
    assert [one[3] for one in timed.find_sessions(b"a", 40, 60)] == ["long"]
    store.commit()
    assert [one[3] for one in timed.find_sessions(b"a", 40, 60)] == ["long"]
    assert timed.find_sessions(b"a", 0, 10) == []
    assert [one[3] for one in timed.find_sessions(b"a", 0, (1 << 63) - 1)] == ["long", "later"]
    store.close()
