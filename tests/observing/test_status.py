"""The status of a running worker."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from dsl import StreamsBuilder
from processor_api.clock import SystemClock
from runtime_support.running_app import Cluster, counting
from streams.http.page.live import snapshot
from streams.observing.application import application_status
from waiting import wait_until


def test_the_status_of_a_worker_says_what_its_tasks_have_read_and_hold(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        app = cluster.start(counting())
        cluster.send("a", "b", "a")
        wait_until("a commit", lambda: [one.committed for task in app.status().tasks for one in task.partitions] == [3])
        status = app.status()
        json.dumps(asdict(status), allow_nan=False)
        [task], [thread] = status.tasks, status.threads
        assert (status.state, status.ready, thread.state, thread.processed) == ("RUNNING", True, "RUNNING", 3)
        assert (task.id, task.state, task.processed, task.lag) == ("0_0", "RUNNING", 3, 0)
        [partition], [store] = task.partitions, task.stores
        assert (partition.topic, partition.position, partition.end, partition.caught_up) == ("in", 3, 3, True)
        assert (store.entries, store.restoring, store.uncommitted) == (2, False, 0)
        assert {node.name for node in task.nodes} == set(app.topology.nodes)
        app.close()
        assert app.status().state == "NOT_RUNNING"


@pytest.mark.parametrize(("given", "taken"), [("streams", "streams"), ("classic", "classic")])
def test_the_status_says_the_protocol_of_the_group_that_was_taken(given: str, taken: str, tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        app = cluster.start(counting(), group_protocol=given)
        assert app.status().group_protocol == taken


def test_nodes_have_estimates_and_the_task_the_age_of_records(tmp_path: Path) -> None:
    """One task takes a sample of its records each second."""
    with Cluster(tmp_path) as cluster:
        app = cluster.start(counting())

        def estimated() -> bool:
            cluster.send("a", "b", "a")
            nodes = [node for task in app.status().tasks for node in task.nodes]
            return bool(nodes) and all(node.records and node.rate for node in nodes)

        wait_until("each node was sampled", estimated)
        [task] = app.status().tasks
        shares = [node.time_share for node in task.nodes]
        assert sum(share or 0.0 for share in shares) == pytest.approx(1)
        assert task.latency_ms is not None
        ages = {name.tags["processor-node-id"] for name in app.metrics() if name.name == "record-e2e-latency-avg"}
        assert len(ages) == 2, "of the source and the sink"


def test_the_status_says_when_a_partition_was_read(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        app = cluster.start(counting())
        cluster.send("a")
        wait_until("it runs", lambda: [task.processed for task in app.status().tasks] == [1])
        begin = SystemClock().time_ms()

        def read_at() -> int | None:
            return app.status().tasks[0].partitions[0].last_read_ms

        cluster.send("b")
        wait_until("it is seen", lambda: (read_at() or 0) >= begin)


def test_a_node_says_its_last_error(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.stream("in").map_values(int).map_values(str).to("out")
    settings = {"processing.exception.handler": "LogAndContinueProcessingExceptionHandler"}
    with Cluster(tmp_path) as cluster:
        app = cluster.app(builder.build(), settings)
        cluster.send("1", "one", "2", "two", key="k")
        wait_until("all four", lambda: [task.processed for task in app.status().tasks] == [4])
        errors = {node.call: node.last_error for node in app.status().tasks[0].nodes if node.last_error is not None}
        assert list(errors) == ["map_values(int)"]
        assert errors["map_values(int)"].startswith("ValueError: invalid literal for int() with base 10: 'two'")
        assert errors["map_values(int)"].endswith(" at in-0, offset 3")
        assert snapshot(application_status("app", [app.status()]))["errors"].keys() == {"KSTREAM-MAPVALUES-0000000001"}
