"""Byte stores of versions that users bring (KIP-889): serdes, changelog and restore are the runtime's."""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import ProcessingError, StoreError, TopologyError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.contracts import PUT_RETURN_CODE_VALID_TO_UNDEFINED, VersionedRecord
from processor_api.stores.custom import CustomStateStore, StateStoreContext
from processor_api.stores.factory import Stores
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster, Restores
from streams.kafka.topics.internal import internal_topics
from streams.testing import TopologyTestDriver

S = Serdes.STRING


class Versions(CustomStateStore):
    """Every version of each key, in memory, oldest first; none ever expires."""

    name = "versions"  # type: ignore[assignment]
    persistent = False  # type: ignore[assignment]

    def __init__(self) -> None:
        self._open = False
        self._rows: dict[bytes, list[tuple[int, bytes | None]]] = {}

    @property
    def is_open(self) -> bool:
        return self._open

    def init(self, context: StateStoreContext) -> None:
        self._open = True

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Nothing to write."""

    def close(self) -> None:
        self._open = False

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        rows = self._rows.setdefault(key, [])
        rows[:] = [row for row in rows if row[0] != timestamp]
        insort(rows, (timestamp, value), key=lambda row: row[0])
        later = [time for time, _ in rows if time > timestamp]
        return later[0] if later else PUT_RETURN_CODE_VALID_TO_UNDEFINED

    def delete(self, key: bytes, timestamp: int) -> VersionedRecord[bytes] | None:
        found = self.get(key, timestamp)
        self.put(key, None, timestamp)
        return found

    def get(self, key: bytes, as_of: int | None = None) -> VersionedRecord[bytes] | None:
        found = [one for one in self._listed(key) if as_of is None or one.timestamp <= as_of]
        latest = found[-1] if found else None
        return None if latest is None or latest.value is None else latest

    def versions(self, key: bytes, from_time: int | None, to_time: int | None) -> Any:
        return iter([one for one in self._listed(key) if one.value is not None])

    def _listed(self, key: bytes) -> list[VersionedRecord[Any]]:
        rows = self._rows.get(key, [])
        ends: list[int | None] = [*(time for time, _ in rows[1:]), None][: len(rows)]
        return [VersionedRecord(value, time, end) for (time, value), end in zip(rows, ends, strict=True)]


class Supplier:
    name = "versions"
    history_retention_ms = 1000
    get = staticmethod(Versions)


class Puts(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        store: Any = self.context.get_state_store("versions")
        if record.value == "gone":
            store.delete(record.key, record.timestamp)
        else:
            store.put(record.key, record.value, record.timestamp)
        found = store.get(record.key)
        self.context.forward(Record(record.key, found.value if found else "nothing", record.timestamp))


def using(supplier: Any = Supplier) -> Topology:
    builder = Stores.versioned_key_value_store_builder(supplier(), S, S)
    topology = Topology().add_source("s", "in", key_serde=S, value_serde=S).add_processor("p", Puts, "s")
    return topology.add_state_store(builder, "p").add_sink("o", "out", "p", key_serde=S, value_serde=S)


class Ranges(Versions):
    """With ranges of keys."""

    def range(self, from_key: bytes | None, to_key: bytes | None, as_of: int | None = None) -> Any:
        keys = [key for key in sorted(self._rows) if (from_key or b"") <= key and (to_key is None or key <= to_key)]
        return iter([(key, found) for key in keys if (found := self.get(key, as_of)) is not None])


def test_a_prefix_is_a_range_of_keys() -> None:
    """To the first key behind it, which is not one of its own."""

    class Ranging(Supplier):
        get = staticmethod(Ranges)

    with TopologyTestDriver(using(Ranging), {"application.id": "app"}) as driver:
        store = driver.get_versioned_key_value_store("versions")
        for time, key in enumerate(("a", "ab", "ac", "b")):
            store.put(key, key, time)
        assert [key for key, _ in store.prefix_scan("a")] == ["a", "ab", "ac"]
        assert [key for key, _ in store.prefix_scan(b"a", Serdes.BYTES, 1)] == ["a", "ab"]
        assert [key for key, _ in store.prefix_scan("")] == ["a", "ab", "ac", "b"]
    with TopologyTestDriver(using(), {"application.id": "app"}) as driver:
        store = driver.get_versioned_key_value_store("versions")
        with pytest.raises(StoreError, match="store 'versions' does not support range: Versions does not"):
            store.prefix_scan("a")


def test_it_has_serdes_and_a_changelog() -> None:
    with TopologyTestDriver(using(), {"application.id": "app"}) as driver:
        source = driver.create_input_topic("in", S, S)
        for time, value in ((10, "a"), (30, "c"), (20, "b"), (40, "gone")):
            source.pipe_input("k", value, timestamp=time)
        store = driver.get_versioned_key_value_store("versions")
        assert [store.get("k", time) for time in (9, 25, 50)] == [None, VersionedRecord("b", 20, 30), None]
        with store.versions("k") as rows:
            assert [row.value for row in rows] == ["a", "b", "c"]
        logged = driver.take_produced()["app-versions-changelog"]
        assert [(one.value, one.timestamp) for one in logged] == [(b"a", 10), (b"c", 30), (b"b", 20), (None, 40)]
        with pytest.raises(StoreError, match="store 'versions' does not support backward_versions: Versions does not"):
            store.backward_versions("k")
        with pytest.raises(StoreError, match="needs non-negative timestamps in ms"):
            store.put("k", "v", -1)
        with pytest.raises(StoreError, match="store 'versions' does not accept null keys"):
            store.put(None, "v", 1)
    with pytest.raises(StoreError, match="store 'versions' is closed"):
        store.get("k")


def test_it_is_restored_by_its_own_puts(tmp_path: Path) -> None:
    with Cluster(tmp_path, topics={"in": 1, "out": 1}, one_state=True) as kit:
        app = kit.start(using())
        kit.send_pairs("in", [("k", "a"), ("k", "b"), ("other", "x"), ("other", "gone")])
        kit.until(lambda: kit.values("out") == ["a", "b", "x", "nothing"])
        assert app.close(60)
        restores = Restores()
        kit.start(using(), restores)
        kit.send_pairs("in", [("k", "c"), ("other", "gone")])
        kit.until(lambda: kit.values("out")[4:] == ["c", "nothing"])
        assert restores.ended == [("versions", "app-versions-changelog-0", 4)]


def test_its_changelog_keeps_what_compaction_would_take() -> None:
    found = internal_topics(using(), {"application.id": "app"})
    assert found["app-versions-changelog"].configs["min.compaction.lag.ms"] == str(1000 + 86_400_000)


def test_a_serde_that_fails_leaves_the_store_as_it_was() -> None:
    class Wrong(Puts):
        def process(self, record: Record[str, str]) -> None:
            self.context.get_state_store("versions").put(record.key, 3, record.timestamp)

    builder = Stores.versioned_key_value_store_builder(Supplier(), S, S)
    topology = Topology().add_source("s", "in", key_serde=S, value_serde=S).add_processor("p", Wrong, "s")
    with TopologyTestDriver(topology.add_state_store(builder, "p")) as driver:
        with pytest.raises(ProcessingError, match="store 'versions': the string serde cannot write the value"):
            driver.create_input_topic("in", S, S).pipe_input("k", "v")
        assert driver.get_state_store("versions").get("k") is None


@pytest.mark.parametrize("retention", [-1, "long"])
def test_a_retention_that_cannot_be_is_refused(retention: Any) -> None:
    kind = type("Bad", (Supplier,), {"history_retention_ms": retention})
    with pytest.raises(TopologyError, match="history_retention_ms must be a non-negative number of ms"):
        using(kind)
