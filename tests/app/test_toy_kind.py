"""A kind of store from outside: all that the house knows of it stands in this file.

A tally keeps a sum for each key, and is written by `add` alone. It is built, logged, restored, read by other threads,
queried, dumped and driven; nothing else in the repository names it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import StateError, StoreError, TopologyError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from processor_api.stores.queries import IsolationLevel, KeyQuery, Query, WindowKeyQuery
from processor_api.stores.suppliers import MEMORY, ROCKSDB, StoreSupplier
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster, Restores
from state.key_value.live_view import KeyValueView
from state.key_value.store import PLAIN_ANSWERS, KeyValueFacade, OperatorStore
from state.read_views.view import open_view
from state.registry.kinds import KINDS, kind_of, register_kind
from state.row_format.codec import PLAIN
from state.write_buffer.fast_path import make_put
from state.write_buffer.store_kind import ITSELF, Opening, OpenStore, StoreKind, open_rows
from state.write_buffer.stored_rows import StoredFamily, StoredRow
from state_support.store_kit import StoreKit
from streams.cli.main import main
from streams.queries.request import StateQueryRequest
from streams.queries.results import FailureReason
from streams.queries.store_types import QueryableStoreTypes, StoreQueryParameters
from streams.testing.driver import TopologyTestDriver

TEXT = {"default.key.serde": Serdes.STRING, "default.value.serde": Serdes.STRING}


class TallyStore(KeyValueFacade):
    """A key-value store of sums."""

    def add(self, key: str, count: int) -> int:
        """Adds to the sum of a key; returns the new one."""
        total = (self.get(key) or 0) + count
        self.put(key, total)
        return total


@dataclass(frozen=True)
class LargestQuery(Query[tuple[str, int]]):
    """The key with the largest sum, and that."""


def open_tally(opening: Opening) -> OpenStore:
    rows = open_rows(opening)
    facade = TallyStore(rows, make_put(rows))
    return OpenStore(kind=opening.kind, builder=opening.builder, rows=rows, facade=facade, operator=OperatorStore(rows))


def largest(store: Any, query: Any) -> tuple[str, int]:
    with store.all() as rows:
        return max(rows, key=itemgetter(1))  # type: ignore[no-any-return]


def stored_sum(key: bytes, row: bytes) -> StoredRow:
    return StoredRow(key, row, more={"sum": int.from_bytes(row, signed=True)})


TALLY = StoreKind(
    codec=replace(PLAIN, family_suffix="tally"),
    open=open_tally,
    writes={"add", "put", "delete", "put_all", "put_if_absent"},
    view=KeyValueView,
    offline={"tally": StoredFamily(stored_sum, ("sum",))},
    forms={"key-value": ITSELF},
    answers={**PLAIN_ANSWERS, LargestQuery: largest},
    metrics_scope="tally",
)


@pytest.fixture(autouse=True)
def registered() -> None:
    """Registers it as a worker does: more than once in a process, if need be."""
    register_kind("tally", TALLY)


def tally(engine: str = ROCKSDB) -> StoreBuilder[str, int]:
    supplier = StoreSupplier(name="sums", kind="tally", engine=engine)
    return StoreBuilder(supplier=supplier, key_serde=Serdes.STRING, value_serde=Serdes.LONG)


class Adding(Processor[str, str, str, str]):
    """Adds each value to the sum of its key, and forwards the sum."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.sums: TallyStore = context.get_state_store("sums")

    def process(self, record: Record[str, str]) -> None:
        total = self.sums.add(record.key, int(record.value))
        self.context.forward(record.with_value(f"{record.key}={total}"))


def adding(engine: str = ROCKSDB) -> Topology:
    topology = Topology().add_source("source", "in").add_processor("adding", Adding, "source")
    return topology.add_state_store(tally(engine), "adding").add_sink("sink", "out", "adding")


def test_the_test_driver_drives_it() -> None:
    """Its changelog has its rows; the driver's typed getters and queries know it."""
    with TopologyTestDriver(adding(), {**TEXT, "application.id": "toy"}) as driver:
        driver.create_input_topic("in").pipe_key_values([("a", "2"), ("b", "3"), ("a", "5")])
        assert driver.create_output_topic("out").read_values() == ["a=2", "b=3", "a=7"]
        changelog = driver.create_output_topic("toy-sums-changelog", Serdes.STRING, Serdes.LONG)
        assert changelog.read_key_values() == [("a", 2), ("b", 3), ("a", 7)]
        assert driver.get_key_value_store("sums").get("a") == 7
        assert driver.get_state_store("sums").add("b", 1) == 4
        found = driver.query(StateQueryRequest.in_store("sums").with_query(LargestQuery()))
        assert found.only_partition_result.result == ("a", 7)
        with pytest.raises(TopologyError, match="store 'sums' is a tally store and cannot be read as a window store"):
            driver.get_window_store("sums")


@pytest.mark.parametrize("engine", [ROCKSDB, MEMORY])
def test_an_application_restores_reads_and_queries_it(engine: str, tmp_path: Path) -> None:
    """A second application, without the state of the first, has it from the changelog; other threads read it."""
    with Cluster(tmp_path) as cluster:
        first = cluster.start(adding(engine))
        cluster.send_pairs("in", [("a", "2"), ("b", "3"), ("a", "5")])
        cluster.until_out("a=2", "b=3", "a=7")
        assert first.close(60)
        restores = Restores()
        app = cluster.start(adding(engine), restores)
        assert restores.ended == [("sums", "app-sums-changelog-0", 3)]
        kind = QueryableStoreTypes.key_value_store()
        sums = app.store(StoreQueryParameters.from_name_and_type("sums", kind))
        assert [sums.get(key) for key in ("a", "b", "c")] == [7, 3, None]
        with sums.all() as rows:
            assert list(rows) == [("a", 7), ("b", 3)]
        for query, answer in ((KeyQuery("b"), 3), (LargestQuery(), ("a", 7))):
            found = app.query(StateQueryRequest.in_store("sums").with_query(query))
            assert found.only_partition_result.result == answer
        unknown = app.query(StateQueryRequest.in_store("sums").with_query(WindowKeyQuery("a", 0, 1)))
        assert unknown.only_partition_result.failure_reason is FailureReason.UNKNOWN_QUERY_TYPE


def test_other_threads_read_and_do_not_write_it(tmp_path: Path) -> None:
    kit = StoreKit(tally(), tmp_path)
    kit.facade.add("a", 2)
    kit.commit()
    kit.facade.add("a", 3)
    for level, total in ((IsolationLevel.READ_COMMITTED, 2), (IsolationLevel.READ_UNCOMMITTED, 5)):
        with open_view(kit.store, level) as view:
            assert view.store.get("a") == total
            with pytest.raises(StoreError, match="store 'sums'"):
                view.store.add("a", 1)
    kit.close()


def test_a_command_dumps_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command knows no topology: the family on disk says the kind, and keys are bytes."""
    with Cluster(tmp_path, one_state=True) as cluster:
        cluster.start(adding())
        cluster.send_pairs("in", [("a", "2"), ("b", "3"), ("a", "5")])
        cluster.until_out("a=2", "b=3", "a=7")
    capsys.readouterr()
    assert main(["state", "dump", "sums", "--state-dir", str(tmp_path), "--format", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["key"], row["sum"]) for row in rows] == [("61", 7), ("62", 3)]


def test_names_and_families_of_other_kinds_are_refused() -> None:
    with pytest.raises(TopologyError, match="'key-value' is a built-in kind of store: register yours under another"):
        register_kind("key-value", TALLY)
    with pytest.raises(
        TopologyError, match="the kind of store 'sums' has family 'tally', which another kind already has"
    ):
        register_kind("sums", TALLY)
    register_kind("tally", TALLY)  # once more, as each worker of a process does
    assert KINDS["tally"] is TALLY
    unknown = replace(tally(), supplier=replace(tally().supplier, kind="unheard-of"))
    with pytest.raises(TopologyError, match="store 'sums' has the unknown kind 'unheard-of'"):
        kind_of(unknown)


def test_rows_of_another_kind_are_not_read(tmp_path: Path) -> None:
    kit = StoreKit(tally(), tmp_path)
    kit.facade.add("a", 2)
    kit.commit()
    kit.close()
    with pytest.raises(StateError, match="is a key-value store, but the rows on disk were written by a tally store"):
        StoreKit(Stores.key_value_store("sums", Serdes.STRING, Serdes.LONG), tmp_path)
