"""Topics of global stores that are given more partitions while the application runs."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from dsl import Consumed, Materialized, StreamsBuilder
from processor_api.serde import Serdes
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster, Restores
from streams.app.kafka_streams import KafkaStreams

S = Serdes.STRING


def topology() -> Topology:
    """Two global tables, and nothing else."""
    builder = StreamsBuilder()
    for name in ("one", "two"):
        builder.global_table(name, Consumed(key_serde=S, value_serde=S), materialized=Materialized(name=f"{name}s"))
    return builder.build()


def rows(kit: Cluster, app: KafkaStreams, store: str) -> dict[str, str]:
    """What a node finds in a store."""
    found = app._run.resources.global_stores.reader(store, "a test")
    assert found is not None
    with found.facade.all() as entries:
        return {key: value.value for key, value in entries}


def test_new_partitions_are_read_from_their_beginning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Also what was written before they were noticed; a restart goes on in them."""
    caplog.set_level(logging.INFO, "streams.global")
    with Cluster(tmp_path, topics={"one": 1, "two": 1}, one_state=True) as kit:
        kit.send_pairs("one", [("a", "1")])
        app = kit.start(topology(), metadata_max_age_ms=50)
        kit.broker.add_partitions("one", 3)
        kit.send_pairs("one", [("b", "2"), ("c", "3")], 2)
        kit.until(lambda: rows(kit, app, "ones") == {"a": "1", "b": "2", "c": "3"})
        kit.send_pairs("one", [("d", "4")], 1)
        kit.send_pairs("two", [("e", "5")])
        kit.until(lambda: "d" in rows(kit, app, "ones") and rows(kit, app, "twos") == {"e": "5"})
        told = [vars(record) for record in caplog.records if record.message == "new partitions are read"]
        assert [record["partitions"] for record in told] == ["one-1, one-2"]
        app.close()
        kit.send_pairs("one", [("f", "6")], 2)
        restores = Restores()
        again = kit.start(topology(), restores)
        assert restores.started == [("ones", "one-2", 2, 3)]
        assert len(rows(kit, again, "ones")) == 5
