"""Stores with a time to live do what a dictionary of times does, through drains, commits, aborts, crashes and restores.

The dictionary holds every row that was put and not deleted, with its time; what has expired is left out when it is
read. What the changelog has restores a store that reads the same.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from processor_api.errors import StoreError
from processor_api.record import HeaderList
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import ValueAndTimestamp, ValueTimestampHeaders
from processor_api.stores.factory import Stores
from processor_api.stores.queries import IsolationLevel
from state.read_views.view import open_view
from state_support.store_kit import StoreKit, restored

KEYS = {
    "string": (Serdes.STRING, ["", "a", "a\0b"]),
    "long": (Serdes.LONG, [0, 255, 256]),
}
VALUES = {"string": (Serdes.STRING, ["", "v", "long " * 9]), "long": (Serdes.LONG, [-1, 0, 7])}
BUILDERS = {
    "plain": Stores.key_value_store_builder,
    "timestamped": Stores.timestamped_key_value_store_builder,
    "headers": Stores.timestamped_key_value_store_with_headers_builder,
}
UNCOMMITTED, COMMITTED = IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED
LENGTH = 20
AHEAD = [0, 0, 0, 0, 1, 1, 5, LENGTH // 2, LENGTH - 1, LENGTH]
"""How far time moves on before a step."""
CALLS = ["put"] * 6 + ["get"] * 8 + ["scan"] * 4 + ["get_of_nobody", "commit"] * 3
CALLS += ["delete", "put_if_absent", "refused", "drain", "restore", "abort", "crash", "ranges", "iterator"]
CALLS += ["views"] * 3
"""What a processor and its task do."""
KIN: HeaderList = [("h", b"1"), ("streams.accessed", b"of the user")]


class Row:
    def __init__(self, value: Any, timestamp: int, accessed: int) -> None:
        self.value, self.timestamp, self.accessed = value, timestamp, accessed

    def copy(self) -> Row:
        return Row(self.value, self.timestamp, self.accessed)


class Model(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="ttl-"))
        self.kit: Any = None
        self.restores = 0

    @initialize(
        kind=st.sampled_from(sorted(BUILDERS)),
        by_access=st.booleans(),
        rocksdb=st.sampled_from([False, False, True]),
        cached=st.booleans(),
        keys=st.sampled_from(sorted(KEYS)),
        values=st.sampled_from(sorted(VALUES)),
        cache_bytes=st.sampled_from([1, 200, 1 << 20]),
        log_each=st.booleans(),
        told=st.booleans(),
        olds=st.booleans(),
    )
    def start(
        self,
        kind: str,
        by_access: bool,
        rocksdb: bool,
        cached: bool,
        keys: str,
        values: str,
        cache_bytes: int,
        log_each: bool,
        told: bool,
        olds: bool,
    ) -> None:
        supplier = Stores.persistent_key_value_store("s") if rocksdb else Stores.in_memory_key_value_store("s")
        self.key_serde, self.keys = KEYS[keys]
        self.value_serde, self.values = VALUES[values]
        builder: StoreBuilder[Any, Any] = BUILDERS[kind](supplier, self.key_serde, self.value_serde)
        builder = builder.with_time_to_live(LENGTH, "access" if by_access else "record_time")
        self.builder = builder.with_caching_enabled() if cached else builder
        self.kind, self.by_access, self.told, self.olds = kind, by_access, told, olds
        self.kit = StoreKit(self.builder, self.directory / "db", cache_bytes=cache_bytes, log_each=log_each)
        self.rows: dict[Any, Row] = {}
        self.time = -1
        self.saved: tuple[dict[Any, Row], int] = ({}, -1)
        self.opened()

    def opened(self) -> None:
        if self.kit.store.cached and self.told:
            self.kit.store.operator.on_flush(lambda *change: None, old_values=self.olds)

    # ------------------------------------------------------------------ the model

    def alive(self, row: Row, time: int | None = None) -> bool:
        return (row.accessed if self.by_access else row.timestamp) > (self.time if time is None else time) - LENGTH

    def shown(self, row: Row) -> Any:
        if self.kind == "plain":
            return row.value
        if self.kind == "timestamped":
            return ValueAndTimestamp(row.value, row.timestamp)
        return ValueTimestampHeaders(row.value, row.timestamp, KIN)

    def read(self, key: Any) -> Any:
        """As the stream thread reads."""
        row = self.rows.get(key)
        if row is None or not self.alive(row):
            return None
        row.accessed = self.time
        return self.shown(row)

    def listed(self, reverse: bool = False) -> list[tuple[Any, Any]]:
        keys = sorted(self.rows, key=self.key_serde.serialize, reverse=reverse)
        return [(key, self.shown(self.rows[key])) for key in keys if self.alive(self.rows[key])]

    # ------------------------------------------------------------------ steps of a processor

    def at(self, timestamp: int) -> Any:
        self.time = max(self.time, timestamp)
        self.kit.cursor.stream_time = self.time
        return self.kit.at(timestamp, [("record", b"x")]).facade

    def pass_by(self, ahead: int) -> None:
        self.at(max(self.time + ahead, 0))

    @rule(seed=st.integers(0, 1 << 32), steps=st.sampled_from([60, 30, 10, 3]))
    def work(self, seed: int, steps: int) -> None:
        """Steps by the number: drawn one by one they would be too few."""
        self._work(Random(seed), steps, CALLS)

    def _work(self, chance: Random, steps: int, calls: list[str]) -> None:
        for _ in range(steps):
            self.pass_by(chance.choice(AHEAD))
            call, key = chance.choice(calls), chance.choice(self.keys)
            if call == "put":
                behind = chance.choice([0, 0, 1, LENGTH // 2, LENGTH + 1])
                self.put(key, chance.choice(self.values), max(self.time - behind, 0))
            elif call == "iterator":
                self.iterator_keeps_its_view(chance)
            elif call == "views":
                self.views(chance)
            else:
                getattr(self, call)(key)

    def given(self, value: Any, timestamp: int) -> Any:
        return value if value is None else self.shown(Row(value, timestamp, 0))

    def put(self, key: Any, value: Any, timestamp: int) -> None:
        self.at(timestamp).put(key, self.given(value, timestamp))
        self.rows[key] = Row(value, timestamp, self.time)

    def delete(self, key: Any) -> None:
        assert self.kit.facade.delete(key) == self.read(key)
        self.rows.pop(key, None)

    def put_if_absent(self, key: Any) -> None:
        value = self.values[0]
        old = self.kit.facade.put_if_absent(key, self.given(value, self.time))
        assert old == self.read(key)
        if old is None:
            self.rows[key] = Row(value, self.time, self.time)

    def refused(self, key: Any) -> None:
        with pytest.raises(StoreError, match="cannot write the value"):
            self.kit.facade.put(key, self.given(object(), 1))

    def get(self, key: Any) -> None:
        assert self.kit.facade.get(key) == self.read(key)

    def get_of_nobody(self, key: Any) -> None:
        """Outside of a record's processing a read refreshes nothing."""
        self.kit.cursor.leave()
        row = self.rows.get(key)
        assert self.kit.facade.get(key) == (self.shown(row) if row is not None and self.alive(row) else None)

    def scan(self, key: Any) -> None:
        wanted = self.listed()
        assert list(self.kit.facade.all()) == wanted
        prefix = self.key_serde.serialize(key)
        begins = [row for row in wanted if self.key_serde.serialize(row[0]).startswith(prefix)]
        assert list(self.kit.facade.prefix_scan(key)) == begins

    def ranges(self, low: Any) -> None:
        write, high = self.key_serde.serialize, self.keys[1]
        for reverse in (False, True):
            wanted = self.listed(reverse)
            facade = self.kit.facade
            assert list(facade.reverse_all() if reverse else facade.all()) == wanted
            part = [row for row in wanted if write(low) <= write(row[0]) <= write(high)]
            assert list((facade.reverse_range if reverse else facade.range)(low, high)) == part

    def views(self, chance: Random) -> None:
        """Other threads see what lives at the moment of their level, and refresh nothing."""
        wanted = dict(self.listed())
        rows, time = self.saved
        committed = {key: self.shown(row) for key, row in rows.items() if self.alive(row, time)}
        for level, expected in ((UNCOMMITTED, wanted), (COMMITTED, committed)):
            with open_view(self.kit.store, level) as view, view.frozen() as frozen:
                self._check_view(view.store, expected)
                with view.store.all() as left:
                    self._check_view(frozen.store, expected)
                    self._work(chance, 4, ["put", "get", "delete", "drain"])
                    self._check_view(frozen.store, expected)
                    assert dict(left) == expected

    def _check_view(self, store: Any, expected: dict[Any, Any]) -> None:
        assert {key: value for key in self.keys if (value := store.get(key)) is not None} == expected
        with store.all() as rows:
            assert dict(rows) == expected

    def iterator_keeps_its_view(self, chance: Random) -> None:
        wanted = self.listed()
        with self.kit.facade.all() as rows:
            found = [next(rows)] if wanted else []
            self._work(chance, 4, ["put", "get", "delete", "commit", "drain"])
            assert found + list(rows) == wanted

    # ------------------------------------------------------------------ steps of a task

    def drain(self, _: Any = None) -> None:
        self.kit.store.drain()

    def commit(self, _: Any = None) -> None:
        self.kit.commit()
        self.saved = {key: row.copy() for key, row in self.rows.items()}, self.time

    @rule()
    def everything_goes_in_the_end(self) -> None:
        self.at(self.time + 2 * LENGTH)
        for _ in range(3):
            self.commit()
            self.at(self.time + LENGTH)
        self.commit()
        assert list(self.kit.engine.family(f"s.{self.kit.store.rows.format.codec.family_suffix}").range()) == []
        live = {key: value for key, value, _, _ in self.kit.committed}
        assert set(live.values()) <= {None}, "a row that was removed has no tombstone"
        self.rows.clear()
        self.saved = {}, self.time

    def _back(self, *, restart: bool) -> None:
        self.rows = {key: row.copy() for key, row in self.saved[0].items()}
        self.time = self.saved[1] if restart else self.time
        self.kit.cursor.stream_time = self.time if not restart else -1
        if restart and self.builder.supplier.persistent:
            self.kit.restart()
        else:
            self.kit.cursor.stream_time = self.time
            self.kit.abort()
        self.opened()

    def abort(self, _: Any = None) -> None:
        self._back(restart=False)

    def crash(self, _: Any = None) -> None:
        """The task knows no stream time when it starts again: the store remembers its own."""
        self._back(restart=True)

    def restore(self, _: Any = None) -> None:
        """Another machine reads the changelog, expired rows and all."""
        self.commit()
        self.restores += 1
        records = []
        for record in self.kit.committed:
            records = [one for one in records if one[0] != record[0]]  # the topic is compacted
            records.append(record)
        other = restored(self.builder, records, self.directory / f"restored {self.restores}")
        other.cursor.stream_time = self.time
        assert list(other.facade.all()) == list(self.kit.facade.all()) == self.listed()
        for key, row in self.rows.items():
            other.cursor.stream_time = max((row.accessed if self.by_access else row.timestamp) + LENGTH, self.time)
            assert other.facade.get(key) is None
            other.cursor.stream_time = max(other.cursor.stream_time - 1, self.time)
            assert (other.facade.get(key) is not None) == self.alive(row)
        other.close()

    def teardown(self) -> None:
        if self.kit is not None:
            self.kit.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class TestTimeToLive(Model.TestCase):  # type: ignore[misc,name-defined]
    settings = settings(max_examples=40, stateful_step_count=8)


@pytest.mark.slow
class TestTimeToLiveForLong(Model.TestCase):  # type: ignore[misc,name-defined]
    settings = settings(max_examples=2000, stateful_step_count=60)
