"""Stores that somebody else writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import StoreError
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import StateStore, ValueAndTimestamp
from processor_api.stores.factory import Stores
from state.engine.memory import MemoryEngine
from state.registry.kinds import family_of, open_store, read_only
from state.rocksdb.engine import RocksEngine
from state.row_format.record_context import Cursor
from state.write_buffer.memory_budget import Budget
from state.write_buffer.store_kind import OpenStore

S = Serdes.STRING


@pytest.fixture(params=["memory", "rocksdb"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    families = [family_of(builder()), family_of(plain())]
    opened = MemoryEngine() if request.param == "memory" else RocksEngine(tmp_path / "db", families)
    yield opened
    opened.close()


def builder() -> StoreBuilder[str, str]:
    return Stores.timestamped_key_value_store_builder(Stores.in_memory_key_value_store("s"), S, S)


def plain() -> StoreBuilder[str, int]:
    return Stores.key_value_store_builder(Stores.in_memory_key_value_store("p"), S, Serdes.LONG)


def opened(engine: Any, what: StoreBuilder[Any, Any], **how: Any) -> OpenStore:
    serdes = {"key_serde": what.key_serde, "value_serde": what.value_serde}
    return open_store(what, engine=engine, cursor=Cursor(), budget=Budget(0), log=None, **serdes, **how)  # type: ignore[arg-type]


def commit(engine: Any, store: OpenStore) -> None:
    batch = engine.batch()
    store.rows.apply(batch)
    engine.write(batch)
    store.rows.applied()


def test_readers_see_each_write_of_the_engine(engine: Any) -> None:
    """Nothing is kept, be it a value, or that there is none."""
    writer, reader = opened(engine, builder()), opened(engine, builder(), reads_only=True)
    for number in range(3):
        before = reader.facade.get("a"), reader.facade.get("b")
        writer.facade.put("a", ValueAndTimestamp(f"v{number}", number))
        writer.facade.put("b", None if number == 1 else ValueAndTimestamp("b", 1))
        assert (reader.facade.get("a"), reader.facade.get("b")) == before
        commit(engine, writer)
        assert reader.facade.get("a") == ValueAndTimestamp(f"v{number}", number)
        assert reader.operator.get("a") == (f"v{number}", number)
        assert (reader.facade.get("b") is None) is (number == 1)
        assert reader.rows.clean == {}


def test_ranges_are_those_of_the_engine(engine: Any) -> None:
    writer, reader = opened(engine, plain()), opened(engine, plain(), reads_only=True)
    for number, key in enumerate("abcd"):
        writer.facade.put(key, number)
    commit(engine, writer)
    with reader.facade.range("b", "c") as rows:
        writer.facade.put("b", 9)
        commit(engine, writer)
        assert list(rows) == [("b", 1), ("c", 2)]
    with reader.facade.reverse_all() as rows:
        assert list(rows) == [("d", 3), ("c", 2), ("b", 9), ("a", 0)]
    with reader.facade.prefix_scan("a") as rows:
        assert list(rows) == [("a", 0)]


@pytest.mark.parametrize("call", ["put", "put_if_absent", "delete", "put_all"])
def test_every_write_is_refused_with_the_names_of_node_and_store(call: str, engine: Any) -> None:
    writer = opened(engine, plain())
    shown: Any = read_only(writer, "node", "it belongs to another").facade
    arguments: tuple[Any, ...] = ({"put_all": ([("a", 1)],), "delete": ("a",)}).get(call, ("a", 1))
    with pytest.raises(StoreError, match=r"node 'node' can only read store 'p'.*it belongs to another") as found:
        getattr(shown, call)(*arguments)
    assert (found.value.node, found.value.store) == ("node", "p")
    assert writer.facade.get("a") is None


def test_reads_of_a_read_only_store_are_those_of_the_store(engine: Any) -> None:
    writer = opened(engine, plain())
    shown: Any = read_only(writer, "node", "why").facade
    writer.facade.put("a", 1)
    assert shown.get("a") == 1  # also what is not committed
    assert (shown.name, shown.persistent, shown.is_open) == ("p", engine.persistent, True)
    assert isinstance(shown, StateStore)
    with shown.all() as rows:
        assert list(rows) == [("a", 1)]
    writer.facade.close()
    assert shown.is_open is False
    with pytest.raises(StoreError, match="closed"):
        shown.get("a")
