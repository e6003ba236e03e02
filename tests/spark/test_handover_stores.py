"""A handover of versioned, session, window, list and header stores: live reads from them what it would have kept."""

from __future__ import annotations

import logging
import random
from pathlib import Path
from typing import Any

import pytest

from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.contracts import ValueTimestampHeaders
from processor_api.stores.factory import Stores
from processor_api.stores.windowed import Window, Windowed
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from spark_support.finished_runs import Sent, processed, run_directory, send_all
from streams.spark.handover.bootstrap import bootstrap

S = Serdes.STRING
RETENTION = 100_000
TOPICS = {"in": 2, "out": 2}
STORES = ("versioned", "headers", "list", "session", "windows")


class Reader(Processor[str, str, str, str]):
    """Forwards what each store holds of the key, then puts the record into all of them."""

    def process(self, record: Record[str, str]) -> None:
        key, value, time = record.key, record.value, record.timestamp
        versioned, headers, lists, session, windows = (self.context.get_state_store(name) for name in STORES)
        found = [repr(versioned.get(key, as_of)) for as_of in (time - 300, time - 60, time)]
        former = headers.get(key)
        found.append(repr(None if former is None else (former.value, former.timestamp, list(former.headers))))
        found.append(repr(lists.get(key)))
        for rows in (session.fetch(key), windows.fetch_range(key, max(0, time - 500), time)):
            with rows:
                found.append(repr(list(rows)))
        self.context.forward(record.with_value("|".join(found)))
        deleted = value.startswith("d")
        versioned.put(key, None if deleted else value, time)
        headers.put(key, ValueTimestampHeaders(value, time, [("was", value.encode()), ("null", None)]))
        if deleted:
            lists.delete(key)
        else:
            lists.put(key, value)
        session.put(Windowed(key, Window(time // 100 * 100, time)), value)
        windows.put(key, value, time // 100 * 100)


def topology() -> Topology:
    versions = Stores.persistent_versioned_key_value_store("versioned", RETENTION)
    builders = [
        Stores.versioned_key_value_store_builder(versions, S, S),
        Stores.key_value_store("headers", S, S, with_headers=True),
        Stores.list_store_builder(Stores.persistent_list_store("list"), S, S),
        Stores.session_store("session", RETENTION, S, S),
        Stores.window_store("windows", RETENTION, 100, S, S, retain_duplicates=True),
    ]
    made = Topology().add_source("source", "in", key_serde=S, value_serde=S)
    made.add_processor("reader", Reader, "source")
    made.add_sink("sink", "out", "reader", key_serde=S, value_serde=S)
    for builder in builders:
        made.add_state_store(builder, "reader")
    return made


def history() -> list[Sent]:
    """Records of few keys with late ones, equal times and deletions among them."""
    chance, now, found = random.Random(3), 1_000, []
    for number in range(80):
        now += chance.choice((0, 3, 40))
        key = chance.choice((b"k1", b"k2", b"k3"))
        value = chance.choice((b"a", b"b", b"d")) + b"%d" % number
        found.append(Sent("in", key[-1] % 2, key, value, now - chance.choice((0, 0, 90))))
    return found


def run_live(cluster: Cluster, guarantee: str, **settings: Any) -> dict[Any, list[Any]]:
    """Runs the application until it has processed everything; returns the values that it wrote, by key."""
    app = cluster.start(topology(), statestore_cache_max_bytes=0, processing_guarantee=guarantee, **settings)
    group = cluster.broker.groups.group("app")
    cluster.until(lambda: all(processed(cluster, group, TopicPartition("in", number)) for number in range(2)))
    assert app.close(30)
    found: dict[Any, list[Any]] = {}
    for one in cluster.broker.records("out"):
        found.setdefault(one.key(), []).append(one.value())
    return found


@pytest.mark.parametrize(
    ("guarantee", "snapshots"), [("at_least_once", False), ("exactly_once_v2", False), ("exactly_once_v2", True)]
)
def test_live_reads_what_it_would_have_kept(
    guarantee: str, snapshots: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Versions before the cut, headers, the order of lists, sessions and duplicates in windows are all there, from
    changelogs or from snapshots."""
    caplog.set_level(logging.DEBUG, "streams.restore")
    records = history()
    cut = len(records) // 2
    with Cluster(tmp_path / "whole", topics=TOPICS) as whole:
        send_all(whole.clients.producer({}), records)
        expected = run_live(whole, guarantee)
    run = run_directory(tmp_path / "run", topology, records[:cut], {"in": 2}, sinks={"out": 2})
    with Cluster(tmp_path / "live", topics=TOPICS) as live:
        send_all(live.clients.producer({}), records[:cut])
        config = {"application.id": "app", "bootstrap.servers": "in-memory:9092"}
        directory = tmp_path / "snapshots" if snapshots else None
        report = bootstrap(run, config, topology=topology, clients=live.clients, snapshot_dir=directory)
        assert {one.store for one in report.stores if one.rows} == set(STORES)
        assert live.broker.records("out") == []
        send_all(live.clients.producer({}), records[cut:])
        caplog.clear()
        found = run_live(live, guarantee, state_snapshot_dir=directory)
        messages = [one.getMessage() for one in caplog.records]
        assert messages.count("snapshot taken") == sum(one.snapshots for one in report.stores)
        assert messages.count("restored") == 0 if snapshots else messages.count("restored") > 0
    assert any(one.snapshots for one in report.stores) is snapshots
    assert sum(map(len, found.values())) == len(records) - cut
    for key, values in found.items():
        assert values == expected[key][-len(values) :]
