"""Stores of a running application, of kinds with rules of their own, come back from their changelogs, on a broker in
memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from processor_api.context import ProcessorContext
from processor_api.errors import StateError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import AggregationWithHeaders, ValueTimestampHeaders
from processor_api.stores.factory import Stores
from processor_api.stores.windowed import Window, Windowed
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from runtime_support.task_kit import TaskKit
from runtime_support.zero_clients import SENT_AT, ZeroIsNowClients

S = Serdes.STRING


class Keep(Processor[str, str, str, str]):
    """Keeps each value in every store; a value of ``?`` asks for all that is kept, ``-`` deletes."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        names = "versioned", "headers", "list", "lru", "windows", "sessions"
        stores = map(context.get_state_store, names)
        self.versioned, self.headers, self.list, self.lru, self.windows, self.sessions = stores

    def process(self, record: Record[str, str]) -> None:
        time, key = record.timestamp, record.key
        if record.value == "?":
            return self.context.forward(record.with_value(self.everything()))
        value = None if record.value == "-" else record.value
        self.versioned.put("k", value, time)
        headers = [("h", record.value.encode())]
        headed = None if value is None else ValueTimestampHeaders(value, time, headers)
        self.headers.put(key, headed)
        self.windows.put(key, headed, time)
        session = Windowed(key, Window(time, time))
        self.sessions.put(session, None if value is None else AggregationWithHeaders(value, headers))
        self.list.put(key, value)
        self.lru.put(f"{key}{time}", value)

    def everything(self) -> str:
        with self.versioned.versions("k") as versions, self.headers.all() as headers:
            shown = [f"{v.timestamp}-{v.valid_to}={v.value}" for v in versions]
            shown += [f"{key}={v.value}@{v.timestamp}{v.headers}" for key, v in headers]
        with self.windows.all() as windows, self.sessions.fetch_keys(None, None) as sessions:
            shown += sorted(f"{key.key}[{key.window.start}]={v.value}{v.headers}" for key, v in windows)
            shown += sorted(f"{key.key}[{key.window.end}]~{v.aggregation}{v.headers}" for key, v in sessions)
        with self.list.all() as items, self.lru.all() as kept:
            return " ".join([*shown, *(f"{key}+{value}" for key, value in items), *(f"{k}:{v}" for k, v in kept)])


def topology(*, memory: bool) -> Topology:
    versioned = Stores.in_memory_versioned_key_value_store if memory else Stores.persistent_versioned_key_value_store
    headers = Stores.in_memory_key_value_store if memory else Stores.persistent_key_value_store
    lists = Stores.in_memory_list_store if memory else Stores.persistent_list_store
    windows = Stores.in_memory_window_store if memory else Stores.persistent_window_store
    sessions = Stores.in_memory_session_store if memory else Stores.persistent_session_store
    builders: list[StoreBuilder[Any, Any]] = [
        Stores.versioned_key_value_store_builder(versioned("versioned", 100, 10), S, S),
        Stores.timestamped_key_value_store_with_headers_builder(headers("headers"), S, S),
        Stores.list_store_builder(lists("list"), S, S),
        Stores.timestamped_window_store_with_headers_builder(windows("windows", 1000, 10), S, S),
        Stores.session_store_with_headers_builder(sessions("sessions", 1000), S, S),
        Stores.key_value_store_builder(Stores.lru_map("lru", 2), S, S),
    ]
    made = Topology().add_source("source", "in", key_serde=S, value_serde=S).add_processor("keep", Keep, "source")
    for builder in builders:
        made.add_state_store(builder, "keep")
    return made.add_sink("sink", "out", "keep", key_serde=S, value_serde=S)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
@pytest.mark.parametrize("memory", [False, True])
def test_a_worker_without_state_restores_it(memory: bool, guarantee: str, cluster: Cluster) -> None:
    """The same history, headers, lists and entries; and what is too old for the history stays so."""

    def answer(directory: str, *records: tuple[str, str, int]) -> str:
        return cluster.answer(topology(memory=memory), directory, *records, processing_guarantee=guarantee)

    puts = [("a", "1", 10), ("b", "2", 200), ("a", "3", 150), ("a", "late", 20), ("c", "-", 180), ("b", "4", 210)]
    first = answer("one", *puts, ("a", "?", 210))
    kept = [("a[10]", 1), ("a[150]", 3), ("a[20]", "late"), ("b[200]", 2), ("b[210]", 4)]
    timed = [f"{of}{sign}{value}[('h', b'{value}')]" for sign in "=~" for of, value in kept]
    assert first == (
        "10-150=1 150-180=3 200-210=2 210-None=4 a=late@20[('h', b'late')] b=4@210[('h', b'4')] "
        + " ".join(timed)
        + " a+1 a+3 a+late b+2 b+4 a20:late b210:4"
    )
    assert answer("two", ("a", "?", 210)) == first
    again = answer("three", ("b", "5", 190), ("a", "?", 210))
    assert "150-180=3 190-200=5 200-210=2 210-None=4" in again
    assert again.endswith("b+2 b+4 b+5 b190:5 b210:4")
    assert answer("three", ("a", "?", 210)) == again
    assert cluster.broker.topic("app-versioned-changelog").configs["min.compaction.lag.ms"] == str(100 + 86_400_000)


@pytest.mark.parametrize("memory", [False, True])
def test_what_has_timestamp_0_is_restored_with_it(memory: bool, cluster: Cluster) -> None:
    """The client cannot send 0, so that 1 stood on the changelog: of two versions, at 0 and at 1, one was restored."""
    cluster.clients = ZeroIsNowClients(cluster.broker)
    question = ("a", "?", 5)
    answers = [cluster.answer(topology(memory=memory), "one", ("a", "1", 1), ("b", "-", 0), ("a", "0", 0), question)]
    answers += [cluster.answer(topology(memory=memory), directory, question) for directory in ("two", "three")]
    assert answers[0].startswith("0-1=0 1-None=1 a=0@0[('h', b'0')] ")
    assert answers[1:] == [answers[0]] * 2
    for name in ("versioned", "headers", "windows", "sessions"):
        times = [record.timestamp()[1] for record in cluster.broker.records(f"app-{name}-changelog")]
        assert 1 in times
        assert SENT_AT not in times


def one_store(builder: StoreBuilder[Any, Any]) -> Topology:
    class Put(Processor[str, str, str, str]):
        def init(self, context: ProcessorContext[str, str]) -> None:
            self.store = context.get_state_store("s")

        def process(self, record: Record[str, str]) -> None:
            if builder.kind == "versioned-key-value":
                self.store.put(record.key, record.value, record.timestamp)
            else:
                self.store.put(record.key, record.value)

    made = Topology().add_source("source", "in", key_serde=S, value_serde=S).add_processor("put", Put, "source")
    return made.add_state_store(builder, "put")


def test_a_task_does_not_open_a_store_whose_rows_it_cannot_read(tmp_path: Path) -> None:
    """It says which and what to do, lets go of the database, and the old topology still finds its rows."""
    plain = one_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("s"), S, S))
    supplier = Stores.persistent_versioned_key_value_store("s", 1000)
    versioned = one_store(Stores.versioned_key_value_store_builder(supplier, S, S))
    with TaskKit(plain, tmp_path) as kit:
        kit.pipe("in", b"a", b"1", 10)
        kit.commit()
    with pytest.raises(StateError, match=r"store 's' is a versioned-key-value store.*`streams state rebuild s`"):
        TaskKit(versioned, tmp_path)
    with TaskKit(plain, tmp_path) as kit:
        assert kit.store("s").get("a") == "1"
    with TaskKit(versioned, tmp_path / "new") as kit:
        kit.pipe("in", b"a", b"1", 10)
        kit.pipe("in", b"a", b"2", 30)
        kit.pipe("in", b"a", b"late", 20)
        assert kit.sent("app-s-changelog") == [(b"a", b"1", 10), (b"a", b"2", 30), (b"a", b"late", 20)]
        kit.pipe("in", b"b", b"x", 2000)
        kit.pipe("in", b"a", b"too late", 999)
        assert kit.dropped == 1
        kit.commit()
    with TaskKit(versioned, tmp_path / "new") as kit:
        assert [row.value for row in kit.store("s").versions("a")] == ["1", "late", "2"]
