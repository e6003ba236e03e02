"""A store on disk without a changelog that lacks what the group has consumed says so: it was used without a word."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from streams.app.states import ClientState

S = Serdes.STRING
GUARANTEES = ["at_least_once", "exactly_once_v2"]


class Count(Processor[str, str, str, str]):
    """Forwards how often it saw the value; ``-`` is not counted."""

    def process(self, record: Record[str, str]) -> None:
        count = 0
        if record.value != "-":
            store = self.context.get_state_store("counts")
            count = (store.get(record.value) or 0) + 1
            store.put(record.value, count)
        self.context.forward(record.with_value(f"{record.value}={count}"))


def topology(*, logged: bool = False) -> Topology:
    builder = Stores.key_value_store_builder(Stores.persistent_key_value_store("counts"), S, Serdes.LONG)
    made = Topology().add_source("s", "in").add_processor("p", Count, "s").add_sink("sink", "out", "p")
    return made.add_state_store(builder if logged else builder.with_logging_disabled(), "p")


def run(cluster: Cluster, state: Path, *out: str, sent: tuple[str, ...], logged: bool = False, **config: Any) -> None:
    before = cluster.values()
    app = cluster.app(topology(logged=logged), {"state.dir": str(state), **config})
    cluster.until_state(app, ClientState.RUNNING)
    cluster.send(*sent)
    cluster.until_out(*before, *out)
    assert app.close(60)


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, str]]:
    """Store, task, and what it lacks."""
    return [
        (record.__dict__["store"], record.__dict__["task"], record.__dict__["lacks"])
        for record in caplog.records
        if record.getMessage().startswith("store without a changelog lacks records")
    ]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_an_older_copy_is_told_once(
    guarantee: str, cluster: Cluster, state: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = {"processing.guarantee": guarantee}
    run(cluster, state, "a=1", "b=1", sent=("a", "b"), **config)
    shutil.copytree(state, tmp_path / "older")
    run(cluster, state, "a=2", "b=2", sent=("a", "b"), **config)
    assert told(caplog) == []
    shutil.rmtree(state)
    (tmp_path / "older").rename(state)
    end = cluster.broker.groups.group("app").offsets[TopicPartition("in", 0)].offset
    run(cluster, state, "a=2", sent=("a",), **config)
    (said,) = told(caplog)
    assert said[:2] == ("counts", "0_0")
    assert said[2].endswith(f"-{end}")
    run(cluster, state, "b=2", sent=("b",), **config)
    assert told(caplog) == [said]


def test_a_store_that_is_new_to_a_worker_is_told(
    cluster: Cluster, state: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(cluster, state, "a=1", sent=("a",))
    run(cluster, tmp_path / "elsewhere", "a=1", sent=("a",))
    assert [lacks for _, _, lacks in told(caplog)] == ["in-0 0-1"]
    run(cluster, state, "a=2", sent=("a",))
    assert [lacks for _, _, lacks in told(caplog)] == ["in-0 0-1", "in-0 1-2"]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_records_that_change_no_row_are_not_lacked(
    guarantee: str, cluster: Cluster, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for sent, out in ((("a", "-"), ("a=1", "-=0")), (("-",), ("-=0",)), (("a",), ("a=2",))):
        run(cluster, state, *out, sent=sent, **{"processing.guarantee": guarantee})
    assert told(caplog) == []


def test_where_a_group_starts_is_not_lacked(cluster: Cluster, state: Path, caplog: pytest.LogCaptureFixture) -> None:
    cluster.send("a", "a")
    for out, sent in (((), ()), (("a=1",), ("a",)), (("a=2",), ("a",))):
        run(cluster, state, *out, sent=sent, **{"auto.offset.reset": "latest"})
    assert told(caplog) == []


def test_a_logged_store_is_restored_and_says_nothing(
    cluster: Cluster, state: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(cluster, state, "a=1", sent=("a",), logged=True)
    run(cluster, tmp_path / "elsewhere", "a=2", sent=("a",), logged=True)
    run(cluster, state, "a=3", sent=("a",), logged=True)
    assert told(caplog) == []
