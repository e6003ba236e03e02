"""Cached windows: what a drain logs, what it leaves when it fails, and when the engine is not read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from processor_api.errors import ProductionError
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from state.formats.keys import window_key
from state.row_format.codec import TIMESTAMPED
from state.write_buffer.shared_rows import Logged
from state_support.store_kit import StoreKit

RETENTION, SIZE = 1_000_000, 1000


def windows() -> StoreBuilder:  # type: ignore[type-arg]
    supplier = Stores.persistent_timestamped_window_store("s", RETENTION, SIZE)
    return Stores.timestamped_window_store_builder(supplier, Serdes.STRING, Serdes.STRING).with_caching_enabled()


class Kit(StoreKit):
    """A cached store of windows whose changelog may refuse rows."""

    refused = b"none"

    def open(self) -> None:
        super().open()
        self.timed = self.store.operator.timed
        self.forwarded: list[int] = []
        self.store.operator.on_flush(lambda key, *_: self.forwarded.append(key.window.start), old_values=False)

    def put(self, key: bytes, start: int, value: str | None = "x") -> None:
        self.timed.put(key, start, 0, value, start)

    def get(self, key: bytes, start: int) -> str | None:
        found = self.timed.get_row(self.timed.row_of(key, start), start)
        return None if found is None else found[0]

    def log_many(self, rows: Iterator[Logged]) -> None:
        for key, value, timestamp in rows:
            if key.startswith(self.refused):
                raise ProductionError("refused")
            self.log(key, value, timestamp)


def test_a_drain_logs_windows_under_the_keys_of_the_changelog(tmp_path: Path) -> None:
    kit = Kit(windows(), tmp_path / "s")
    kit.put(b"a", 2000)
    kit.put(b"bc", 1000, None)
    kit.put(b"d", 500)
    kit.commit()
    assert [key for key, *_ in kit.logged] == [window_key(b"a", 2000, 0), window_key(b"d", 500, 0)]
    assert kit.forwarded == [2000, 500]
    assert kit.timed.segments.stream_time == 2000
    kit.close()


def test_a_drain_that_failed_logs_the_rest_when_it_is_called_again(tmp_path: Path) -> None:
    """The row that was refused and those behind it still wait; the store's time is that of what was logged."""
    kit = Kit(windows(), tmp_path / "s")
    kit.refused = b"b"
    for number, key in enumerate((b"a", b"b", b"c")):
        kit.put(key, 1000 * number)
    with pytest.raises(ProductionError):
        kit.store.drain()
    assert [key for key, *_ in kit.logged] == [window_key(b"a", 0, 0)]
    assert [kit.get(key, 1000 * number) for number, key in enumerate((b"a", b"b", b"c"))] == ["x", "x", "x"]
    kit.refused = b"none"
    kit.commit()
    assert len(kit.logged) == 3
    assert kit.timed.segments.stream_time == 2000
    kit.close()


def test_a_window_later_than_all_of_the_engine_is_not_looked_for_there(tmp_path: Path) -> None:
    kit = Kit(windows(), tmp_path / "s")
    kit.put(b"a", 5000)
    kit.commit()
    batch = kit.engine.batch()
    for start in (5000, 5001):  # rows that nothing but a read of the engine can find
        batch.put(kit.timed.row_of(b"b", start), TIMESTAMPED.write(b"behind", start), kit.store.rows.family.handle)
    kit.engine.write(batch)
    assert kit.get(b"b", 5000) == "behind"
    assert kit.get(b"b", 5001) is None
    kit.put(b"a", 9000)
    kit.store.drain()
    assert kit.get(b"a", 9000) == "x"
    kit.commit()
    assert kit.get(b"b", 5001) == "behind"
    kit.close()


@pytest.mark.parametrize("late", [0, 4999])
def test_windows_of_an_earlier_life_are_found(tmp_path: Path, late: int) -> None:
    """After a restart, and after rows were evicted, the engine is read up to the latest time that it has."""
    kit = Kit(windows(), tmp_path / "s", cache_bytes=200)
    for start in (5000, late, 3000):
        kit.put(b"a", start, str(start))
    kit.commit()
    assert [kit.get(b"a", start) for start in (late, 3000, 5000)] == [str(late), "3000", "5000"]
    kit.restart()
    assert [kit.get(b"a", start) for start in (late, 3000, 5000)] == [str(late), "3000", "5000"]
    kit.put(b"a", 7000, "7000")
    kit.abort()
    assert [kit.get(b"a", start) for start in (5000, 7000)] == ["5000", None]
    kit.close()
