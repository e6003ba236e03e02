"""The status of a running worker."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from runtime_support.running_app import Cluster, counting
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
