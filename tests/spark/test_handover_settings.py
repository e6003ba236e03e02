"""A handover refuses internal topics whose settings lose state, before it writes anything; the check names them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from spark_support.finished_runs import Sent, run_directory, send_all
from streams.spark.errors import BackfillMismatchError, InternalTopicMismatch
from streams.spark.handover.bootstrap import bootstrap
from streams.spark.handover.check import check_handover

S = Serdes.STRING
CONFIG = {"application.id": "app", "bootstrap.servers": "in-memory:9092"}
RECORDS = [Sent("in", 0, b"k", b"v", 1_000)]


class Keep(Processor[str, str, Any, Any]):
    def process(self, record: Record[str, str]) -> None:
        self.context.get_state_store("kept").put(record.key, record.value)


def topology() -> Topology:
    made = Topology().add_source("source", "in", key_serde=S, value_serde=S)
    made.add_processor("keep", Keep, "source")
    made.add_state_store(Stores.key_value_store("kept", S, S), "keep")
    return made


@pytest.fixture(name="live")
def live_fixture(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "live", topics={"in": 1}) as cluster:
        send_all(cluster.clients.producer({}), RECORDS)
        yield cluster


def test_a_changelog_that_deletes_rows_is_refused(live: Cluster, tmp_path: Path) -> None:
    """The error says the setting, the value that it needs, and the command; nothing is written."""
    run = run_directory(tmp_path / "run", topology, RECORDS, {"in": 1}, sinks={})
    live.broker.create_topic("app-kept-changelog", 1, {"cleanup.policy": "delete", "min.insync.replicas": "1"})
    with pytest.raises(InternalTopicMismatch) as caught:
        bootstrap(run, CONFIG, topology=topology, clients=live.clients)
    assert "cleanup.policy is delete, needs compact" in str(caught.value)
    assert "--entity-name app-kept-changelog --alter --add-config 'cleanup.policy=[compact]'" in str(caught.value)
    assert caught.value.place()["topic"] == "app-kept-changelog"
    assert not live.broker.groups.group("app").offsets
    found = check_handover(CONFIG, topology, clients=live.clients)
    assert not found.complete
    assert found.problems == (str(caught.value.message),)


def test_a_backfill_whose_windows_were_closed_early_is_refused(live: Cluster, tmp_path: Path) -> None:
    run = run_directory(tmp_path / "run", topology, RECORDS, {"in": 1}, sinks={})
    noted = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**noted, "options": {"flush_at_end": True}}))
    with pytest.raises(BackfillMismatchError, match="was run with flush_at_end"):
        bootstrap(run, CONFIG, topology=topology, clients=live.clients)


def test_other_settings_of_a_changelog_are_the_users(live: Cluster, tmp_path: Path) -> None:
    run = run_directory(tmp_path / "run", topology, RECORDS, {"in": 1}, sinks={})
    configs = {"cleanup.policy": "compact", "min.insync.replicas": "1", "segment.bytes": "2000000"}
    live.broker.create_topic("app-kept-changelog", 1, configs)
    assert bootstrap(run, CONFIG, topology=topology, clients=live.clients).complete
    assert check_handover(CONFIG, topology, clients=live.clients).complete
