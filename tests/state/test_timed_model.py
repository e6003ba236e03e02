"""Window and session stores of random settings do what a dictionary does, through drains, commits, aborts, restarts and
restores.

The dictionary holds every row ever put; what has expired is left out when it is read. Order is computed from the layout
that the documentation tells (docs/decisions/stores.md, "Segments of windows are a prefix of the key").
"""

from __future__ import annotations

import shutil
import struct
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from processor_api.errors import StoreError
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import AggregationWithHeaders, ValueAndTimestamp, ValueTimestampHeaders
from processor_api.stores.factory import Stores
from processor_api.stores.suppliers import StoreSupplier
from processor_api.stores.windowed import Window, Windowed, window_of
from state.engine.memory import MemoryEngine
from state.registry.kinds import family_of, open_store, restore_of
from state.rocksdb.engine import RocksEngine
from state.row_format.record_context import Cursor
from state.write_buffer.memory_budget import Budget
from state.write_buffer.store_kind import OpenStore

KEYS = st.sampled_from([b"", b"\0", b"a", b"a\0", b"a\0\0", b"ab", b"b", b"\xff", b"\xff\xff" * 6])
VALUES = {"string": (Serdes.STRING, st.text(max_size=20)), "long": (Serdes.LONG, st.integers(-5, 5))}
TIMES = st.integers(0, 150)
LIMITS = st.one_of(st.integers(-1, 151), st.just((1 << 63) - 1))
SIZE = 10
Row = tuple[bytes, int, int]
"""Key, time, rest."""
Entry = tuple[Any, int]
BUILDERS = {
    (False, ""): Stores.window_store_builder,
    (False, "timestamped"): Stores.timestamped_window_store_builder,
    (False, "headers"): Stores.timestamped_window_store_with_headers_builder,
    (True, ""): Stores.session_store_builder,
    (True, "timestamped"): Stores.timestamped_session_store_builder,
    (True, "headers"): Stores.session_store_with_headers_builder,
}
"""Of windows or sessions, by what values have beside them."""


def headers_at(timestamp: int) -> list[tuple[str, bytes | None]]:
    """Of a value that is put with this timestamp."""
    return [("h", b"%d" % timestamp), ("n", None)] if timestamp % 3 else []


def deleted_at(timestamp: int) -> list[tuple[str, bytes | None]]:
    """Of the record in work."""
    return [("record", b"%d" % timestamp)]


class Model(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="timed-"))
        self.engine: Any = None

    @initialize(
        sessions=st.booleans(),
        beside=st.sampled_from(["", "timestamped", "headers"]),
        time_ordered=st.booleans(),
        rocksdb=st.sampled_from([False, False, False, True]),
        cached=st.booleans(),
        duplicates=st.booleans(),
        values=st.sampled_from(sorted(VALUES)),
        cache_bytes=st.sampled_from([1, 300, 1 << 20]),
        retention=st.sampled_from([SIZE, 40]),
        interval=st.sampled_from([None, 1, 7]),
        log_each=st.booleans(),
    )
    def start(
        self,
        sessions: bool,
        beside: str,
        time_ordered: bool,
        rocksdb: bool,
        cached: bool,
        duplicates: bool,
        values: str,
        cache_bytes: int,
        retention: int,
        interval: int | None,
        log_each: bool,
    ) -> None:
        self.sessions, self.beside, self.time_ordered, self.rocksdb = sessions, beside, time_ordered, rocksdb
        self.duplicates, self.log_each = duplicates and not sessions, log_each
        self.retention = retention
        self.value_serde, self.values = VALUES[values]
        builder = self._builder(self._supplier(interval))
        self.builder = builder.with_caching_enabled() if cached and not self.duplicates else builder
        if rocksdb:
            self.interval = interval or 60_000
        else:
            self.interval = max(retention // 3, 1)
        self.limit_is_shown = time_ordered and not sessions
        self.budget, self.cursor = Budget(cache_bytes), Cursor()
        self.engine = self._engine("store")
        self.rows: dict[Row, Entry] = {}
        self.put_time, self.sequence, self.last_value = -1, 0, 0
        self.committed: tuple[dict[Row, Entry], int, int] = ({}, -1, 0)
        self.log: list[tuple[bytes, bytes | None, int, Any]] = []
        self._open()

    def _supplier(self, interval: int | None) -> StoreSupplier:
        order = self.time_ordered
        if self.sessions:
            if not self.rocksdb:
                return Stores.in_memory_session_store("s", self.retention, time_ordered=order)
            return Stores.persistent_session_store("s", self.retention, segment_interval=interval, time_ordered=order)
        if not self.rocksdb:
            return Stores.in_memory_window_store("s", self.retention, SIZE, self.duplicates, time_ordered=order)
        return Stores.persistent_window_store(
            "s", self.retention, SIZE, self.duplicates, segment_interval=interval, time_ordered=order
        )

    def _builder(self, supplier: StoreSupplier) -> StoreBuilder[Any, Any]:
        return BUILDERS[self.sessions, self.beside](supplier, Serdes.BYTES, self.value_serde)

    def _engine(self, name: str) -> Any:
        return RocksEngine(self.directory / name, [family_of(self.builder)]) if self.rocksdb else MemoryEngine()

    def _open(self) -> None:
        self.log_since: list[tuple[bytes, bytes | None, int, Any]] = []
        self.forwarded: dict[Windowed[bytes], Any] = {}
        self.drops = 0
        self.store = self._open_on(self.engine)
        if self.store.cached:
            self.store.operator.on_flush(self._changed, old_values=True)

    def _open_on(self, engine: Any) -> OpenStore:
        return open_store(
            self.builder,
            engine=engine,
            cursor=self.cursor,
            budget=self.budget,
            log=self._log,
            key_serde=Serdes.BYTES,
            value_serde=self.value_serde,
            log_each=self.log_each,
            drop=self._count_drop,
        )

    def _log(self, key: bytes, value: bytes | None, timestamp: int, headers: Any = None) -> None:
        if self.beside == "headers":
            assert headers == (deleted_at(timestamp) if value is None else headers_at(timestamp))
        self.log_since.append((key, value, timestamp, headers))

    def _count_drop(self, by_ms: int) -> None:
        self.drops += 1

    def _changed(self, key: Any, new: Any, old: Any, timestamp: int, headers: Any) -> None:
        assert new is not None or old is not None
        self.forwarded[key] = new

    # ------------------------------------------------------------------ the model

    @property
    def time(self) -> int:
        """The latest put. A cache that forwards forgets, with a drain, what was put and deleted meanwhile."""
        if not self.store.cached:
            return self.put_time
        tail = struct.Struct(">qq" if self.sessions else ">qi")
        logged = [key for key, *_ in (*self.log, *self.log_since)]
        times = [tail.unpack_from(key, len(key) - tail.size)[0] for key in logged]
        return max(
            [*times, *(self.store.operator.timed.layout.parts(row)[1] for row in self.store.rows.dirty)], default=-1
        )

    def shows(self, time: int) -> bool:
        limit = self.time - self.retention
        return time >= limit if self.limit_is_shown else time > limit

    def shown(self, entry: Entry) -> Any:
        return self.given(*entry)

    def given(self, value: Any, timestamp: int) -> Any:
        """A value as it is put and shown."""
        if self.beside == "timestamped":
            return ValueAndTimestamp(value, timestamp)
        if self.beside == "headers" and self.sessions:
            return AggregationWithHeaders(value, headers_at(timestamp))
        return ValueTimestampHeaders(value, timestamp, headers_at(timestamp)) if self.beside else value

    def windowed(self, row: Row) -> Windowed[bytes]:
        key, time, rest = row
        return Windowed(key, Window(rest, time) if self.sessions else Window(time, time + SIZE))

    def expected(self, by_time: bool, reverse: bool, wanted: Any) -> list[tuple[Any, Any]]:
        """Rows that are shown and wanted."""
        rows = [row for row in self.rows if self.shows(row[1]) and wanted(row)]
        rows.sort(key=self._order(by_time), reverse=reverse)
        return [(self.windowed(row), self.shown(self.rows[row])) for row in rows]

    def _order(self, by_time: bool) -> Any:
        tail = struct.Struct(">qq" if self.sessions else ">qi")
        if self.time_ordered and by_time:
            return (
                (lambda row: (row[1], row[2], row[0]))
                if self.sessions
                else (lambda row: (row[1], row[0] + struct.pack(">i", row[2])))
            )
        if not self.rocksdb and not self.time_ordered:
            return lambda row: (row[1], row[0], -row[2] if self.sessions else row[2])
        return lambda row: (row[1] // self.interval, row[0] + tail.pack(row[1], row[2]))

    # ------------------------------------------------------------------ steps of a processor

    @rule(key=KEYS, time=TIMES, length=st.integers(0, 20), data=st.data(), timestamp=st.integers(0, 9))
    def put(self, key: bytes, time: int, length: int, data: st.DataObject, timestamp: int) -> None:
        self._put(key, time, length, data.draw(self.values), timestamp)

    @rule(data=st.data(), timestamp=st.integers(0, 9))
    def put_again(self, data: st.DataObject, timestamp: int) -> None:
        if self.rows:
            key, time, rest = data.draw(st.sampled_from(sorted(self.rows)))
            value = data.draw(st.one_of(st.none(), self.values))
            self._put(key, time, time - rest if self.sessions else 0, value, timestamp)

    def _put(self, key: bytes, time: int, length: int, value: Any, timestamp: int) -> None:
        self.cursor.timestamp, self.cursor.headers = timestamp, deleted_at(timestamp)
        rest = max(time - length, 0) if self.sessions else 0
        given = None if value is None else self.given(value, timestamp)
        facade = self.store.facade
        if not self.sessions:
            facade.put(key, given, time)
        elif value is None and length % 2:
            facade.remove(Windowed(key, Window(rest, time)))
            if not self.rocksdb and not self.store.cached and time > self.time:
                return
        else:
            facade.put(Windowed(key, Window(rest, time)), given)
        if self.duplicates:
            self.sequence = rest = self.sequence + 1
            if value is None:
                self.put_time = self.put_time if self.rocksdb else max(self.put_time, time)
                return
            self.last_value = rest
        self.put_time = max(self.put_time, time)
        self.rows.pop((key, time, rest), None)
        if value is not None:
            self.rows[key, time, rest] = value, timestamp

    @rule(key=KEYS, time=TIMES)
    def refused(self, key: bytes, time: int) -> None:
        """What cannot be written changes nothing, not even the time."""
        bad: Any = object()
        bad = self.given(bad, 1)
        put = self.store.facade.put
        calls = [(key, bad, time + 1000), (None, None, time), (key, None, -1), (key, None, True), (5, None, time)]
        for key_given, value, at in calls:
            arguments = (Windowed(key_given, window_of((at, at))), value) if self.sessions else (key_given, value, at)
            with pytest.raises(StoreError, match="'s'"):
                put(*arguments)

    @rule(key=KEYS, time=TIMES, length=st.integers(0, 20))
    def one(self, key: bytes, time: int, length: int) -> None:
        rest = max(time - length, 0) if self.sessions else 0
        if self.duplicates:
            return
        entry = self.rows.get((key, time, rest)) if self.shows(time) else None
        wanted = None if entry is None else self.shown(entry)
        facade = self.store.facade
        assert (facade.fetch_session(key, rest, time) if self.sessions else facade.fetch(key, time)) == wanted

    @rule(key=KEYS, low=LIMITS, high=LIMITS, reverse=st.booleans())
    def of_key(self, key: bytes, low: int, high: int, reverse: bool) -> None:
        rows, wanted = self._read_key(key, low, high, reverse)
        with rows:
            assert list(rows) == wanted

    @rule(key=KEYS, low=LIMITS, high=LIMITS)
    def found_at_once(self, key: bytes, low: int, high: int) -> None:
        """What operators find of a key is what a range of it reads; timestamps only where rows keep them, since a
        cache still has those of others."""
        timed = self.store.operator.timed
        found, read = timed.find(key, low, high), timed.of_key(key, low, high, reverse=False)
        parts = slice(None if self.beside else 4)
        assert [row[parts] for row in found] == [row[parts] for row in read]

    def _read_key(self, key: bytes, low: int, high: int, reverse: bool) -> tuple[Any, list[Any]]:
        facade = self.store.facade
        if self.sessions:
            find = facade.backward_find_sessions if reverse else facade.find_sessions
            found = self.expected(False, reverse, lambda row: row[0] == key and row[1] >= low and row[2] <= high)
            return find(key, low, high), found
        found = self.expected(False, reverse, lambda row: row[0] == key and low <= row[1] <= high)
        fetch = facade.backward_fetch_range if reverse else facade.fetch_range
        return fetch(key, low, high), [(windowed.window.start, value) for windowed, value in found]

    @rule(first=st.none() | KEYS, last=st.none() | KEYS, low=LIMITS, high=LIMITS, reverse=st.booleans())
    def of_keys(self, first: bytes | None, last: bytes | None, low: int, high: int, reverse: bool) -> None:
        rows, wanted = self._read_keys(first, last, low, high, reverse)
        with rows:
            assert list(rows) == wanted

    def _read_keys(
        self, first: bytes | None, last: bytes | None, low: int, high: int, reverse: bool
    ) -> tuple[Any, list[Any]]:
        def wanted(row: Row) -> bool:
            times = row[1] >= low and row[2] <= high if self.sessions else low <= row[1] <= high
            return times and (first is None or row[0] >= first) and (last is None or row[0] <= last)

        facade, found = self.store.facade, self.expected(False, reverse, wanted)
        if self.sessions:
            find = facade.backward_find_sessions_of_keys if reverse else facade.find_sessions_of_keys
            return find(first, last, low, high), found
        return (facade.backward_fetch_keys if reverse else facade.fetch_keys)(first, last, low, high), found

    @rule(low=LIMITS, high=LIMITS, reverse=st.booleans())
    def of_times(self, low: int, high: int, reverse: bool) -> None:
        rows, wanted = self._read_times(low, high, reverse)
        with rows:
            assert list(rows) == wanted

    def _read_times(self, low: int, high: int, reverse: bool) -> tuple[Any, list[Any]]:
        facade = self.store.facade
        if self.sessions:
            return facade.find_sessions_by_end(low, high), self.expected(True, False, lambda row: low <= row[1] <= high)
        found = self.expected(True, reverse, lambda row: low <= row[1] <= high)
        return (facade.backward_fetch_all if reverse else facade.fetch_all)(low, high), found

    @rule(data=st.data(), key=KEYS, reverse=st.booleans(), commit=st.booleans())
    def iterators_keep_their_view(self, data: st.DataObject, key: bytes, reverse: bool, commit: bool) -> None:
        """Through puts, deletions, time that moves on, and a commit."""
        latest = (1 << 63) - 1
        opened = [
            self._read_key(key, 0, latest, reverse),
            self._read_keys(None, key, 0, latest, reverse),
            self._read_times(0, latest, reverse),
        ]
        started = [[next(rows)] if wanted else [] for rows, wanted in opened]
        for _ in range(3):
            self.put_again(data, 7)
        self._put(key, data.draw(TIMES), 3, data.draw(self.values), 8)
        if commit:
            self.commit()
        for start, (rows, wanted) in zip(started, opened, strict=True):
            with rows:
                assert start + list(rows) == wanted

    # ------------------------------------------------------------------ steps of a task

    @rule()
    def drain(self) -> None:
        self.store.drain()
        if self.store.cached:
            for key, value in self.forwarded.items():
                row = (key.key, *((key.window.end, key.window.start) if self.sessions else (key.window.start, 0)))
                if self.shows(row[1]):
                    assert value == self.rows.get(row, (None,))[0]

    @rule()
    def commit(self) -> None:
        self.drain()
        batch = self.engine.batch()
        self.store.apply(batch)
        self.engine.write(batch)
        self.store.applied()
        assert self.budget.uncommitted == 0
        assert not self.store.pending
        self.committed = dict(self.rows), self.put_time, self.last_value
        self.log += self.log_since
        self.log_since.clear()

    @rule()
    def abort(self) -> None:
        self._closed()
        self._open()

    def _closed(self) -> None:
        rows, _ = self._read_times(0, 1000, False)
        self.store.close()
        assert (self.budget.cached, self.budget.uncommitted) == (0, 0)
        with pytest.raises(StoreError, match="iterator of store 's' is closed"):
            next(rows)
        with pytest.raises(StoreError, match="'s' is closed"):
            self._read_times(0, 1000, False)
        self.rows, self.put_time, self.last_value = dict(self.committed[0]), *self.committed[1:]
        self.sequence = self.last_value

    @precondition(lambda self: self.engine is not None and self.engine.persistent)
    @rule()
    def restart(self) -> None:
        self._closed()
        self.engine.close()
        self.engine = self._engine("store")
        self._open()

    @rule(parts=st.integers(1, 3))
    def restore(self, parts: int) -> None:
        """Another store that reads the changelog shows the same."""
        self.commit()
        engine = self._engine(f"restored-{len(list(self.directory.iterdir()))}")
        restore = restore_of(self.builder, engine)
        for part in range(parts):
            records = self.log[len(self.log) * part // parts : len(self.log) * (part + 1) // parts]
            batch = engine.batch()
            columns = [[record[i] for record in records] for i in range(4)]
            restore(batch, *columns)
            engine.load(batch)
        store, self.store = self.store, self._open_on(engine)
        try:
            self.of_times(0, 1 << 40, False)
            self.of_keys(None, None, 0, 1 << 40, True)
        finally:
            self.store.close()
            engine.close()
            self.store = store

    @invariant()
    def dead_rows_do_not_pile_up(self) -> None:
        """What the engine holds is of segments that are not gone."""
        if self.engine is None or self.store.pending or self.store.rows.dirty:
            return
        least = (self.time - self.retention) // self.interval
        for key, _ in self.engine.family(family_of(self.builder)).range():
            if not key.startswith(b"\xff"):
                assert struct.unpack_from(">q", key)[0] >= least

    def teardown(self) -> None:
        if self.engine is not None:
            self._closed()
            self.engine.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class TestTimedStores(Model.TestCase):  # type: ignore[misc,name-defined]
    settings = settings(max_examples=40, stateful_step_count=30)


@pytest.mark.slow
class TestTimedStoresForLong(Model.TestCase):  # type: ignore[misc,name-defined]
    settings = settings(max_examples=2000, stateful_step_count=60)
