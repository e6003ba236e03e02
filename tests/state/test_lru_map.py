"""LRU maps against an ordered dictionary whose reads change it."""

from __future__ import annotations

import shutil
import tempfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from dsl import Materialized, StreamsBuilder
from processor_api.errors import StoreError, TopologyError
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import ValueAndTimestamp
from processor_api.stores.factory import Stores
from state_support.store_kit import StoreKit, restored

KEYS = list(range(8))


def builder_of(max_entries: int, *, timestamped: bool = False, keys: Any = Serdes.LONG) -> StoreBuilder[Any, Any]:
    make = Stores.timestamped_key_value_store_builder if timestamped else Stores.key_value_store_builder
    return make(Stores.lru_map("s", max_entries), keys, Serdes.STRING)


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.kit: Any = None

    @initialize(max_entries=st.integers(1, 5), timestamped=st.booleans(), text=st.booleans(), log_each=st.booleans())
    def start(self, max_entries: int, timestamped: bool, text: bool, log_each: bool) -> None:
        self.max, self.timestamped, self.log_each = max_entries, timestamped, log_each
        self.key = str if text else int
        builder = builder_of(max_entries, timestamped=timestamped, keys=Serdes.STRING if text else Serdes.LONG)
        self.kit = StoreKit(builder, self.directory, log_each=log_each)
        self.live: OrderedDict[Any, Any] = OrderedDict()
        self.saved: OrderedDict[Any, Any] = OrderedDict()

    @rule(number=st.sampled_from(KEYS), value=st.text(max_size=2), time=st.integers(0, 9))
    def put(self, number: int, value: str, time: int) -> None:
        key, given = self.key(number), ValueAndTimestamp(value, time) if self.timestamped else value
        logged = len(self.kit.logged)
        self.kit.at(50).facade.put(key, given)
        evicted = None
        if key not in self.live and len(self.live) == self.max:
            evicted = self.live.popitem(last=False)[0]
        self.live[key] = given
        self.live.move_to_end(key)
        if self.log_each:
            write = self.kit.builder.key_serde.serialize
            new = [(write(key), value.encode(), time if self.timestamped else 50, None)]
            old = [] if evicted is None else [(write(evicted), None, 50, None)]
            assert self.kit.logged[logged:] == old + new

    @rule(number=st.sampled_from(KEYS))
    def get(self, number: int) -> None:
        key = self.key(number)
        assert self.kit.facade.get(key) == self.live.get(key)
        if key in self.live:
            self.live.move_to_end(key)

    @rule(number=st.sampled_from(KEYS))
    def delete(self, number: int) -> None:
        key = self.key(number)
        assert self.kit.facade.delete(key) == self.live.pop(key, None)

    @rule()
    def list_all(self) -> None:
        """Which is no read that counts."""
        write = self.kit.builder.key_serde.serialize
        assert list(self.kit.facade.all()) == sorted(self.live.items(), key=lambda row: write(row[0]))
        assert self.kit.facade.approximate_num_entries() == len(self.live)

    @rule()
    def commit(self) -> None:
        self.kit.commit()
        self.saved = OrderedDict(self.live)
        other = restored(self.kit.builder, self.kit.logged, self.directory)
        assert dict(other.facade.all()) == self.live
        other.close()

    @rule()
    def abort(self) -> None:
        """The entries are those of the commit; which goes next may be told by their puts only."""
        self.kit.abort()
        with self.kit.facade.all() as rows:
            assert dict(rows) == self.saved
        order = [key for key, _ in sorted(self.saved.items(), key=lambda row: self._number(row[0]))]
        self.live = OrderedDict((key, self.saved[key]) for key in order)

    def _number(self, key: Any) -> bytes:
        row: bytes = self.kit.engine.family("s.lru").get(self.kit.builder.key_serde.serialize(key))
        return row[:8]

    def teardown(self) -> None:
        if self.kit is not None:
            self.kit.close()
        shutil.rmtree(self.directory, ignore_errors=True)


class TestLru(Machine.TestCase):  # type: ignore[misc,name-defined]
    settings = settings(max_examples=60, stateful_step_count=40)


def test_a_restored_map_evicts_what_was_put_first(tmp_path: Path) -> None:
    kit = StoreKit(builder_of(3), tmp_path)
    for key in (5, 1, 3):
        kit.facade.put(key, "v")
    other = restored(kit.builder, kit.logged, tmp_path, at_once=1)
    other.facade.put(7, "v")
    assert [key for key, _ in other.facade.all()] == [1, 3, 7]
    kit.close()
    other.close()


def test_a_table_deletes_what_it_evicts_from_its_changelog(tmp_path: Path) -> None:
    """So that a restore has the rows that the table had, and compaction leaves nothing else (semantics 168)."""
    kit = StoreKit(builder_of(2, timestamped=True), tmp_path, log_each=True)
    for key in range(20):
        kit.facade.put(key, ValueAndTimestamp("v", key))
        kit.facade.get(0)
    kept = dict(kit.facade.all())
    assert list(kept) == [0, 19]
    write = kit.builder.key_serde.serialize
    compacted = {key: value for key, value, *_ in kit.logged}
    assert {key for key, value in compacted.items() if value is not None} == {write(0), write(19)}
    other = restored(kit.builder, kit.logged, tmp_path)
    assert dict(other.facade.all()) == kept
    kit.close()
    other.close()


@pytest.mark.parametrize(("key", "value"), [(None, "v"), (9, 5), ("text", "v")])
def test_a_put_that_fails_evicts_nothing(key: Any, value: Any, tmp_path: Path) -> None:
    kit = StoreKit(builder_of(2), tmp_path)
    kit.facade.put(1, "a")
    kit.facade.put(2, "b")
    with pytest.raises(StoreError, match="store 's'"):
        kit.facade.put(key, value)
    assert (list(kit.facade.all()), len(kit.logged)) == ([(1, "a"), (2, "b")], 2)
    kit.close()
    with pytest.raises(StoreError, match="store 's' is closed"):
        kit.facade.get(1)


@pytest.mark.parametrize("max_entries", [0, -1, None, True, 1.5])
def test_the_number_of_entries_is_checked(max_entries: Any) -> None:
    with pytest.raises(TopologyError, match="positive number") as caught:
        Stores.lru_map("s", max_entries)
    assert caught.value.store == "s"


def test_a_table_on_an_lru_map_keeps_timestamps_and_is_not_cached() -> None:
    with pytest.raises(TopologyError, match="never cached"):
        builder_of(3).with_caching_enabled()
    streams = StreamsBuilder()
    streams.table("in", materialized=Materialized.as_(Stores.lru_map("s", 3)))
    store = streams.build({}).stores["s"]
    assert (store.kind, store.caching) == ("timestamped-lru-map", False)
