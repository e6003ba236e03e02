"""The stores of a task: caches, their limit, what users do to values, and what a commit puts on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dsl import Grouped, Materialized, StreamsBuilder
from processor_api.context import ProcessorContext
from processor_api.errors import InternalError, ProcessingError, StoreError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serde, Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import ValueAndTimestamp
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from runtime_support.task_kit import TaskKit
from streams.serdes import json_serde

S, L = Serdes.STRING, Serdes.LONG
JSON = json_serde()


def kv(name: str, value: Serde[Any], *, memory: bool = True) -> StoreBuilder[Any, Any]:
    supplier = Stores.in_memory_key_value_store(name) if memory else Stores.persistent_key_value_store(name)
    return Stores.key_value_store_builder(supplier, S, value)


def using(builder: StoreBuilder[Any, Any], process: Callable[[Any, Record[str, str]], None]) -> Topology:
    """``in`` -> a processor that is given its store and the record."""

    class Using(Processor[str, str, str, str]):
        def init(self, context: ProcessorContext[str, str]) -> None:
            self.store = context.get_state_store(builder.name)

        def process(self, record: Record[str, str]) -> None:
            process(self.store, record)

    return Topology().add_source("source", "in").add_processor("p", Using, "source").add_state_store(builder, "p")


def counting(config: Any = None, **store: Any) -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("in").group_by_key(Grouped(key_serde=S, value_serde=S))
    counts: Materialized[str, int] = Materialized(name="n", key_serde=S, value_serde=L, **store)
    groups.count(materialized=counts).to_stream().map_values(str).to("out")
    return builder.build(config or {})


# ----------------------------------------------------------- values that users change


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("committed", [False, True])
def test_changing_a_value_after_the_put_or_the_get_does_not_change_the_store(
    cached: bool, committed: bool, tmp_path: Path
) -> None:
    """A store keeps what it was given, not the object; the changelog has it too."""
    builder = kv("store", JSON)
    builder = builder.with_caching_enabled() if cached else builder
    given: dict[str, Any] = {"items": [1]}

    def process(store: Any, record: Record[str, str]) -> None:
        if record.value == "put":
            store.put("k", given)
            given["items"].append(2)
        else:
            found = store.get("k")
            assert found == {"items": [1]}
            found["items"].append(3)
            with store.all() as rows:
                for _, value in rows:
                    value["items"].append(4)

    with TaskKit(using(builder, process), tmp_path) as kit:
        kit.pipe("in", b"k", b"put")
        if committed:
            kit.commit()
        kit.pipe("in", b"k", b"get")
        kit.pipe("in", b"k", b"get")
        assert kit.store("store").get("k") == {"items": [1]}
        kit.commit()
        assert kit.store("store").get("k") == {"items": [1]}
        assert [value for _, value, _ in kit.sent("app-store-changelog")] == [b'{"items":[1]}']


@pytest.mark.parametrize("caching", [False, True])
def test_an_aggregate_that_is_changed_in_place_is_stored_as_it_was_returned(caching: bool, tmp_path: Path) -> None:
    """The value that was there before stays what it was for whoever asked for old values."""
    builder = StreamsBuilder()
    groups = builder.stream("in").group_by_key(Grouped(key_serde=S, value_serde=S))
    returned: list[dict[str, Any]] = []

    def add(key: str, value: str, total: dict[str, Any]) -> dict[str, Any]:
        total["seen"] = [*total.get("seen", []), value]
        returned.append(total)
        return total

    store: Materialized[str, Any] = Materialized(name="agg", key_serde=S, value_serde=JSON, caching=caching)
    groups.aggregate(dict, add, materialized=store)
    with TaskKit(builder.build({}), tmp_path) as kit:
        kit.pipe("in", b"k", b"1")
        kit.pipe("in", b"k", b"2")
        returned[-1]["seen"].append("after")
        assert kit.store("agg").get("k").value == {"seen": ["1", "2"]}
        kit.commit()
        assert kit.store("agg").get("k").value == {"seen": ["1", "2"]}
        assert kit.sent("app-agg-changelog")[-1][1] == b'{"seen":["1","2"]}'


# ----------------------------------------------------------- serdes of stores that fail


def broken(data: bytes) -> Any:
    raise ValueError("damaged")


def test_a_value_that_cannot_be_written_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    def process(store: Any, record: Record[str, str]) -> None:
        store.put("k", {"good": 1})
        store.put("k", {"bad": object()})

    with TaskKit(using(kv("store", JSON), process), tmp_path) as kit:
        with pytest.raises(ProcessingError, match="store 'store': the json serde cannot write the value") as caught:
            kit.pipe("in", b"k", b"v")
        assert isinstance(caught.value.__cause__, StoreError)
        assert caught.value.__cause__.store == "store"
        assert (caught.value.node, caught.value.topic, caught.value.offset) == ("p", "in", 0)
        assert kit.store("store").get("k") == {"good": 1}


@pytest.mark.parametrize("how", ["get", "all"])
@pytest.mark.parametrize("committed", [False, True])
def test_a_value_that_cannot_be_read_names_the_store(how: str, committed: bool, tmp_path: Path) -> None:
    """From memory or from the engine, by key or in a range."""

    def process(store: Any, record: Record[str, str]) -> None:
        if record.value == "put":
            store.put("k", "v")
        elif how == "get":
            store.get("k")
        else:
            list(store.all())

    serde: Serde[str] = Serde(str.encode, broken, name="one-way")
    with TaskKit(using(kv("store", serde), process), tmp_path) as kit:
        kit.pipe("in", b"k", b"put")
        if committed:
            kit.commit()
            kit.task.roll_back()
            kit.task.start(kit.collector, {})
        says = "store 'store': the one-way serde cannot read the value: damaged"
        with pytest.raises(ProcessingError, match=says) as caught:
            kit.pipe("in", b"k", b"get")
        assert (caught.value.node, caught.value.topic) == ("p", "in")


@pytest.mark.parametrize("value", [("v", 1.5), "v", ("v", -1), ("v",)])
def test_a_timestamped_store_wants_values_with_timestamps(value: Any, tmp_path: Path) -> None:
    builder = Stores.timestamped_key_value_store_builder(Stores.in_memory_key_value_store("store"), S, S)

    def process(store: Any, record: Record[str, str]) -> None:
        store.put("k", value)

    with TaskKit(using(builder, process), tmp_path) as kit, pytest.raises(ProcessingError) as caught:
        kit.pipe("in", b"k", b"v")
    assert "store 'store' needs" in str(caught.value)


# ----------------------------------------------------------- caches


def test_a_cache_over_its_limit_forwards_and_logs_without_a_commit(tmp_path: Path) -> None:
    """Nothing is stored by that: a crash now would process all of it again (semantics 74, 75)."""
    with TaskKit(counting(), tmp_path, {"statestore.cache.max.bytes": 200}) as kit:
        for key in "abcdefgh":
            kit.pipe("in", key.encode(), b"v", 5)
        sent = kit.sent("out")
        assert [key for key, _, _ in sent] == [key.encode() for key in "abcdefgh"[: len(sent)]]
        assert 3 <= len(sent) <= 8
        assert [key for key, _, _ in kit.sent("app-n-changelog")] == [key for key, _, _ in sent]
        assert kit.task.stores.progress.stored_offset("n") is None
        kit.commit()
        assert len(kit.sent("out")) == 8
        assert kit.task.stores.progress.stored_offset("n") == 7
        assert kit.budget.cached <= 200
        assert kit.budget.uncommitted == 0
        assert [kit.store("n").get(key).value for key in "abcdefgh"] == [1] * 8


def test_a_cache_of_no_bytes_is_none(tmp_path: Path) -> None:
    """Every change is sent at once (semantics 75)."""
    with TaskKit(counting(), tmp_path, {"statestore.cache.max.bytes": 0}) as kit:
        kit.pipe("in", b"a", b"v", 5)
        kit.pipe("in", b"a", b"v", 5)
        assert [value for _, value, _ in kit.sent("out")] == [b"1", b"2"]
        kit.commit()
        assert kit.budget.cached == 0


KEYS = st.lists(st.sampled_from("abcde"), max_size=40)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=30)
@given(keys=KEYS, commits=st.sets(st.integers(0, 40)), limit=st.sampled_from([0, 120, 300, 100_000]))
def test_a_cache_changes_what_is_told_and_not_what_is_true(
    keys: list[str], commits: set[int], limit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """For any limit: the same store in the end, the same last record for each key, and no more records than puts."""
    outcomes = []
    for caching in (True, False):
        topology = counting(caching=caching, store_type="memory")
        directory = tmp_path_factory.getbasetemp() / "unused"
        with TaskKit(topology, directory, {"statestore.cache.max.bytes": limit}) as kit:
            for number, key in enumerate(keys):
                kit.pipe("in", key.encode(), b"v", number)
                if number in commits:
                    kit.commit()
            kit.commit()
            sent, logged = kit.sent("out"), kit.sent("app-n-changelog")
            assert len(logged) <= len(sent) <= len(keys)
            assert len(sent) == (len(logged) if caching else len(keys))
            assert (kit.budget.uncommitted, kit.budget.cached <= max(limit, 0)) == (0, True)
            rows = dict(kit.store("n").all())
            outcomes.append((rows, {key: (value, time) for key, value, time in sent}))
    assert outcomes[0] == outcomes[1]
    assert {key: row.value for key, row in outcomes[0][0].items()} == {key: keys.count(key) for key in keys}


def test_whoever_gets_a_cached_change_finds_the_others_in_the_store(tmp_path: Path) -> None:
    """A commit forwards a change only when all of them are in their places."""
    builder = StreamsBuilder()
    groups = builder.stream("in").group_by_key(Grouped(key_serde=S, value_serde=S))
    counts: Materialized[str, int] = Materialized(name="n", key_serde=S, value_serde=L)
    seen: list[dict[str, int]] = []

    class Looking(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            with self.context.get_state_store("n").all() as rows:
                seen.append({key: row.value for key, row in rows})

    groups.count(materialized=counts).to_stream().process(Looking, "n")
    with TaskKit(builder.build({}), tmp_path) as kit:
        for key in (b"a", b"b", b"a"):
            kit.pipe("in", key, b"v")
        kit.commit()
    assert seen == [{"a": 2, "b": 1}] * 2


def test_a_table_that_feeds_itself_without_end_is_found(tmp_path: Path) -> None:
    """A commit ends after a bounded number of rounds, with an error that names the task."""
    builder = StreamsBuilder()
    groups = builder.stream("in").group_by_key(Grouped(key_serde=S, value_serde=S))
    counts: Materialized[str, int] = Materialized(name="n", key_serde=S, value_serde=L)

    class Feeding(Processor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            again = ValueAndTimestamp(record.value + 1, record.timestamp)
            self.context.get_state_store("n").put(record.key, again)

    groups.count(materialized=counts).to_stream().process(Feeding, "n")
    with TaskKit(builder.build({}), tmp_path) as kit:
        kit.pipe("in", b"a", b"v")
        with pytest.raises(InternalError, match="caches were not empty after 1000 rounds") as caught:
            kit.task.drain()
    assert caught.value.task == "0_0"


# ----------------------------------------------------------- what a commit stores


def test_rows_are_stored_with_their_changelog_offset_and_the_input_positions(tmp_path: Path) -> None:
    """One offset for each store that is logged; a store in memory keeps no positions."""

    def process(store: Any, record: Record[str, str]) -> None:
        store.put(record.value, "x")

    with TaskKit(using(kv("disk", S, memory=False), process), tmp_path / "1") as kit:
        stores = kit.task.stores
        assert (stores.progress.stored_offset("disk"), stores.progress.stored_positions()) == (None, {})
        kit.pipe("in", b"k", b"a")
        kit.pipe("in", b"k", b"b")
        kit.commit()
        assert (stores.progress.stored_offset("disk"), stores.progress.stored_positions()) == (1, {"in-0": 2})
    with TaskKit(using(kv("disk", S, memory=False), process), tmp_path / "1") as kit:
        stores = kit.task.stores
        assert (stores.progress.stored_offset("disk"), stores.progress.stored_positions()) == (1, {"in-0": 2})
    with TaskKit(using(kv("memory", S), process), tmp_path / "2") as kit:
        kit.pipe("in", b"k", b"a")
        kit.commit()
        assert (kit.task.stores.progress.stored_offset("memory"), kit.task.stores.progress.stored_positions()) == (
            0,
            {},
        )


def test_a_store_without_logging_has_no_changelog(tmp_path: Path) -> None:
    def process(store: Any, record: Record[str, str]) -> None:
        store.put(record.value, "x")

    with TaskKit(using(kv("quiet", S).with_logging_disabled(), process), tmp_path) as kit:
        kit.pipe("in", b"k", b"a")
        kit.commit()
        assert kit.task.stores.changelog_partitions() == {}
        assert "app-quiet-changelog" not in kit.broker.topics
        assert kit.store("quiet").get("a") == "x"


def test_what_is_dropped_is_gone_and_its_users_are_told(tmp_path: Path) -> None:
    def process(store: Any, record: Record[str, str]) -> None:
        store.put(record.value, "x")

    with TaskKit(using(kv("store", S), process), tmp_path) as kit:
        kit.pipe("in", b"k", b"a")
        store = kit.store("store")
        kit.task.stores.drop_uncommitted()
        with pytest.raises(StoreError, match="store 'store' is closed: its task is no longer on this worker"):
            store.get("a")
        assert kit.task.stores.changelogs.by_store == {}
        kit.task.stores.open(kit.collector, {})
        assert kit.store("store").get("a") is None
