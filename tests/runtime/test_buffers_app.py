"""What waits in a running application outlives it, and a plain table becomes a versioned one, on a broker in memory."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dsl import BufferConfig, Consumed, Grouped, KTable, Materialized, Produced, StreamsBuilder, Suppressed
from processor_api.errors import StateError
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from streams.app.topics import warn_of_lost_history
from waiting import wait_until

S = Serdes.STRING


class Runs(Cluster):
    """A broker, and an application that is started anew for each piece of input."""

    def run(
        self, topology: Topology, directory: str, records: list[tuple[str, str | None, int]], out: int, **settings: Any
    ) -> None:
        """Until so many records are in the output; and everything that came in is committed."""
        for key, value, time in records:
            self.send(value, key=key, timestamp=time)
        app = self.app(topology, {"state.dir": str(self.directory / directory)}, **settings)
        wait_until(f"{out} records are out", lambda: len(self.out()) >= out or app.failure)
        assert app.close(60)
        if app.failure is not None:
            raise app.failure

    def out(self) -> list[tuple[str, str, int]]:
        records = self.broker.records("out", read_committed=True)
        return [((r.key() or b"").decode(), (r.value() or b"").decode(), r.timestamp()[1]) for r in records]

    def changelog(self, store: str) -> dict[bytes | None, bytes | None]:
        """The last record of each key."""
        records = self.broker.records(f"app-{store}-changelog", read_committed=True)
        return {record.key(): record.value() for record in records}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Runs]:
    with Runs(tmp_path) as made:
        yield made


def suppressing(engine: str) -> Topology:
    builder = StreamsBuilder()
    strings: Consumed[str, str] = Consumed(key_serde=S, value_serde=S)
    table = builder.table("in", strings, materialized=Materialized(name="t", key_serde=S, value_serde=S))
    limited = table.suppress(Suppressed.until_time_limit(100, BufferConfig.unbounded()).with_name("n"))
    limited.to_stream().to("out", Produced(key_serde=S, value_serde=S))
    return builder.build({"default.dsl.store": engine})


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
@pytest.mark.parametrize("engine", ["rocksDB", "in_memory"])
def test_what_waits_outlives_a_worker(engine: str, guarantee: str, cluster: Runs) -> None:
    """With its state directory and without: each change comes out once, in order, with its time; what has left is
    deleted from the changelog."""
    topology, config = suppressing(engine), {"processing_guarantee": guarantee}
    cluster.run(topology, "one", [("b", "1", 20), ("a", "1", 10), ("z", "1", 1), ("y", "1", 101)], 1, **config)
    assert cluster.out() == [("z", "1", 1)]
    cluster.run(topology, "one", [("a", "2", 30), ("y", "2", 115)], 2, **config)
    assert cluster.out()[1:] == [("a", "2", 30)], "a keeps the time of its first change"
    cluster.run(topology, "two", [("c", "1", 60), ("y", "3", 170)], 4, **config)
    assert cluster.out()[2:] == [("b", "1", 20), ("c", "1", 60)]
    assert {key: value is not None for key, value in cluster.changelog("n-store").items()} == {
        b"a": False, b"b": False, b"c": False, b"y": True, b"z": False,
    }  # fmt: skip


def counted(store: Materialized[str, str]) -> Topology:
    """How many keys of a table have a value."""
    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table("in", Consumed(key_serde=S, value_serde=S), materialized=store)
    groups = table.group_by(lambda k, v: (v, k), Grouped(name="by-value", key_serde=S, value_serde=S))
    counts = groups.aggregate(
        lambda: "0",
        lambda k, v, n: str(int(n) + 1),
        lambda k, v, n: str(int(n) - 1),
        materialized=Materialized(name="counts", key_serde=S, value_serde=S),
    )
    counts.to_stream().to("out", Produced(key_serde=S, value_serde=S))
    return builder.build()


def test_a_plain_table_becomes_a_versioned_one(cluster: Runs) -> None:
    """By the steps of docs/stores.md#upgrades-of-a-store: what the changelog has is the history, late updates no longer
    count; a worker that finds the old rows says what to do."""
    plain = counted(Materialized(name="t", key_serde=S, value_serde=S))
    supplier = Stores.persistent_versioned_key_value_store("t", 1000)
    versioned = counted(Materialized(supplier=supplier, key_serde=S, value_serde=S))
    cluster.run(plain, "state", [("k", "x", 100)], 1)
    cluster.run(plain, "state", [("k", "y", 200)], 3)
    assert cluster.out()[-2:] == [("x", "0", 200), ("y", "1", 200)]
    with pytest.raises(StateError, match=r"store 't' is a versioned-key-value store.*streams state rebuild t"):
        cluster.run(versioned, "state", [("k", "late", 150)], 4)
    cluster.broker.topic("app-t-changelog").configs["min.compaction.lag.ms"] = str(1000 + 86_400_000)
    shutil.rmtree(cluster.directory / "state" / "app" / "0_0")
    cluster.run(versioned, "state", [("k", "z", 300)], 5)
    assert cluster.out()[3:] == [("y", "0", 300), ("z", "1", 300)], "the late one was not counted"


def test_a_source_topic_that_holds_a_history_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """KIP-889: nobody but its owner keeps a compaction from removing what older versions are restored from."""
    for history, optimization, warned in ((1000, "all", True), (0, "all", False), (1000, "none", False)):
        builder = StreamsBuilder()
        supplier = Stores.persistent_versioned_key_value_store("versions", history)
        table: KTable[str, str] = builder.table("in", materialized=Materialized(supplier=supplier))
        table.to_stream().to("out")
        caplog.clear()
        with caplog.at_level(logging.WARNING, "streams.topics"):
            warn_of_lost_history(builder.build({"topology.optimization": optimization}))
        said = "topic 'in' serves as its changelog" in caplog.text and str(history + 86_400_000) in caplog.text
        assert said is warned
