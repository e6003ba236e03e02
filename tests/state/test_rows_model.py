"""A store of random settings does what a dictionary does, through drains, commits, aborts and restarts.

The changelog, the forwarded changes and the budget are checked beside the reads: replaying the log gives the store's
contents, each change's old value is the one forwarded before, and the budget counts exactly what is held.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from processor_api.errors import StoreError
from processor_api.serde import Serde, Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import ValueAndTimestamp
from processor_api.stores.factory import Stores
from state.engine.memory import MemoryEngine
from state.registry.kinds import families_of, open_store
from state.rocksdb.engine import RocksEngine
from state.row_format.record_context import Cursor
from state.write_buffer.memory_budget import Budget
from state.write_buffer.store_kind import OpenStore

JSON: Serde[Any] = Serde(lambda value: json.dumps(value).encode(), json.loads, name="json")
KEY_SERDES: dict[str, tuple[Serde[Any], st.SearchStrategy[Any]]] = {
    "string": (Serdes.STRING, st.sampled_from(["", "a", "a\0", "ab", "b", "é", "z" * 40])),
    "bytes": (Serdes.BYTES, st.sampled_from([b"", b"\0", b"a", b"a\xff", b"b", b"\xff", b"\xff\xff"])),
    "long": (Serdes.LONG, st.sampled_from([-1, 0, 1, 2, 255, 256, 1 << 62])),
}
VALUE_SERDES: dict[str, tuple[Serde[Any], st.SearchStrategy[Any]]] = {
    "string": (Serdes.STRING, st.text(max_size=60)),
    "long": (Serdes.LONG, st.integers(-5, 5)),
    "json": (JSON, st.lists(st.integers(0, 9), max_size=6)),
}
TIMES = st.integers(0, 50)
Live = dict[Any, tuple[Any, int]]


class Model(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="rows-"))
        self.engine: Any = None
        self.live: Live = {}
        self.committed: Live = {}
        self.time = 0

    @initialize(
        cached=st.booleans(),
        timestamped=st.booleans(),
        rocksdb=st.sampled_from([False, False, True]),
        keys=st.sampled_from(sorted(KEY_SERDES)),
        values=st.sampled_from(sorted(VALUE_SERDES)),
        cache_bytes=st.sampled_from([1, 150, 400, 1 << 20]),
        olds=st.booleans(),
        logging=st.booleans(),
        log_each=st.booleans(),
    )
    def start(
        self,
        cached: bool,
        timestamped: bool,
        rocksdb: bool,
        keys: str,
        values: str,
        cache_bytes: int,
        olds: bool,
        logging: bool,
        log_each: bool,
    ) -> None:
        supplier = Stores.persistent_key_value_store("s") if rocksdb else Stores.in_memory_key_value_store("s")
        make: Callable[..., StoreBuilder[Any, Any]] = (
            Stores.timestamped_key_value_store_builder if timestamped else Stores.key_value_store_builder
        )
        self.key_serde, self.keys = KEY_SERDES[keys]
        self.value_serde, self.values = VALUE_SERDES[values]
        builder = make(supplier, self.key_serde, self.value_serde)
        self.builder = builder.with_caching_enabled() if cached else builder
        self.timestamped, self.olds, self.logging, self.log_each = timestamped, olds, logging, log_each
        self.budget = Budget(cache_bytes)
        self.cursor = Cursor()
        self.open_engine()
        self.open()

    def open_engine(self) -> None:
        persistent = self.builder.supplier.persistent
        self.engine = RocksEngine(self.directory, families_of(self.builder)) if persistent else MemoryEngine()

    def open(self) -> None:
        self.logged: dict[bytes, tuple[bytes | None, int]] = {}
        self.forwarded: Live = dict(self.committed)
        self.store: OpenStore = open_store(
            self.builder,
            engine=self.engine,
            cursor=self.cursor,
            budget=self.budget,
            log=self.log if self.logging else None,
            log_each=self.log_each,
            key_serde=self.key_serde,
            value_serde=self.value_serde,
        )
        self.rows = self.store.rows
        if self.rows.cached:
            self.rows.on_flush(self.changed, old_values=self.olds)

    def log(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        self.logged[key] = value, timestamp

    def changed(self, key: Any, new: Any, old: Any, timestamp: int, headers: Any) -> None:
        before = self.forwarded.get(key)
        if self.olds:
            assert old == (None if before is None else before[0])
        assert headers == [("time", str(timestamp).encode())]
        if new is None:
            assert before is not None, "a deletion that nobody knows of was forwarded"
            del self.forwarded[key]
        else:
            self.forwarded[key] = new, timestamp

    def shown(self, entry: tuple[Any, int] | None) -> Any:
        if entry is None:
            return None
        return ValueAndTimestamp(*entry) if self.timestamped else entry[0]

    # ------------------------------------------------------------------ steps of a processor

    @rule(data=st.data(), timestamp=TIMES)
    def put(self, data: st.DataObject, timestamp: int) -> None:
        self._put(data.draw(self.keys), data.draw(self.values), timestamp)

    @rule(data=st.data(), timestamp=TIMES)
    def delete(self, data: st.DataObject, timestamp: int) -> None:
        self._put(data.draw(self.keys), None, timestamp)

    def _put(self, key: Any, value: Any, timestamp: int) -> None:
        self.cursor.timestamp, self.cursor.headers = timestamp, [("time", str(timestamp).encode())]
        given = value if value is None or not self.timestamped else ValueAndTimestamp(value, timestamp)
        self.store.facade.put(key, given)
        if type(value) is list:
            value = list(value)
            given[0].append(99) if self.timestamped else given.append(99)  # the store must not notice
        if value is None:
            self.live.pop(key, None)
        else:
            self.live[key] = value, timestamp

    @rule(data=st.data())
    def refused(self, data: st.DataObject) -> None:
        """A value that its serde does not take changes nothing."""
        bad: Any = object()
        with pytest.raises(StoreError, match="cannot write the value"):
            self.store.facade.put(data.draw(self.keys), ValueAndTimestamp(bad, 1) if self.timestamped else bad)

    @rule(data=st.data())
    def get(self, data: st.DataObject) -> None:
        key = data.draw(self.keys)
        assert self.store.facade.get(key) == self.shown(self.live.get(key))

    @rule(data=st.data(), reverse=st.booleans(), open_low=st.booleans(), open_high=st.booleans())
    def range(self, data: st.DataObject, reverse: bool, open_low: bool, open_high: bool) -> None:
        low = None if open_low else data.draw(self.keys)
        high = None if open_high else data.draw(self.keys)
        write = self.key_serde.serialize
        wanted = [
            (key, self.shown(self.live[key]))
            for key in sorted(self.live, key=write, reverse=reverse)
            if (low is None or write(low) <= write(key)) and (high is None or write(key) <= write(high))
        ]
        facade = self.store.facade
        with (facade.reverse_range if reverse else facade.range)(low, high) as rows:
            assert list(rows) == wanted

    @rule(data=st.data())
    def iterator_keeps_its_view(self, data: st.DataObject) -> None:
        wanted = [(key, self.shown(self.live[key])) for key in sorted(self.live, key=self.key_serde.serialize)]
        with self.store.facade.all() as rows:
            found = [next(rows)] if wanted else []
            self._put(data.draw(self.keys), data.draw(self.values), 7)
            self._put(data.draw(self.keys), None, 8)
            assert found + list(rows) == wanted

    # ------------------------------------------------------------------ steps of a task

    @rule()
    def drain(self) -> None:
        self.rows.drain()
        if self.rows.cached:
            assert {key: self.shown(entry) for key, entry in self.forwarded.items()} == {
                key: self.shown(entry) for key, entry in self.live.items()
            }

    @rule()
    def commit(self) -> None:
        self.drain()
        batch = self.engine.batch()
        self.rows.apply(batch)
        self.engine.write(batch)
        self.rows.applied()
        self.committed = dict(self.live)
        assert self.budget.uncommitted == 0
        if self.logging:
            for key, (value, timestamp) in self.logged.items():
                entry = self.live.get(self.key_serde.deserialize(key))
                if entry is None:
                    assert value is None
                else:
                    assert value is not None
                    assert self.value_serde.deserialize(value) == entry[0]
                    assert timestamp == entry[1]

    @rule()
    def abort(self) -> None:
        self._closed()
        self.open()

    def _closed(self) -> None:
        self.store.close()
        assert (self.budget.cached, self.budget.uncommitted) == (0, 0)
        with pytest.raises(StoreError, match="closed"):
            self.store.facade.all()
        self.live = dict(self.committed)

    @precondition(lambda self: self.engine is not None and self.engine.persistent)
    @rule()
    def restart(self) -> None:
        self._closed()
        self.engine.close()
        self.open_engine()
        self.open()

    # ------------------------------------------------------------------ always

    @invariant()
    def budget_counts_what_is_held(self) -> None:
        if self.engine is None:
            return
        rows, budget = self.rows, self.budget
        held = [*rows.clean.items(), *rows.dirty.items()]
        assert budget.clean == sum(rows.format.cost(key, entry[0]) for key, entry in rows.clean.items())
        dirty = sum(rows.format.cost(key, entry[0]) for key, entry in rows.dirty.items())
        assert budget.dirty == (dirty if rows.cached else 0)
        assert budget.uncommitted >= (0 if rows.cached else dirty)
        if not rows.drained and not rows.dirty:
            largest = max((rows.format.cost(key, entry[0]) for key, entry in held), default=0)
            assert budget.cached <= budget.cache_limit + largest
        assert rows.drained.keys() <= rows.clean.keys()

    def teardown(self) -> None:
        if self.engine is not None:
            self._closed()
            self.engine.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class TestRows(Model.TestCase):  # type: ignore[misc,name-defined]
    settings = settings(max_examples=60, stateful_step_count=40)


@pytest.mark.slow
class TestRowsForLong(Model.TestCase):  # type: ignore[misc,name-defined]
    settings = settings(max_examples=2000, stateful_step_count=60)
