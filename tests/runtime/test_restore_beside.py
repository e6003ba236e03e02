"""Tasks that are ready go on while others of their thread restore (semantics 96)."""

from __future__ import annotations

from pathlib import Path

from runtime_support.held_restores import HeldRestores
from runtime_support.running_app import Cluster, counting
from streams.app.states import ClientState
from waiting import wait_until


def test_a_task_without_anything_to_restore_runs_while_another_restores(tmp_path: Path) -> None:
    with Cluster(tmp_path, partitions=2) as cluster:
        before = cluster.app(counting())
        cluster.send("a", "a", partition=1)
        cluster.until_out("a=1", "a=2")
        assert before.close(60)

        clients = HeldRestores(cluster)
        app = cluster.app(counting(), clients=clients)
        cluster.send("a", partition=1)
        cluster.send("b", "b", partition=0)
        wait_until("the task without state runs", lambda: {"b=1", "b=2"} <= set(cluster.values()))
        assert app.state is ClientState.REBALANCING
        assert "a=3" not in cluster.values()
        clients.let_go.set()
        wait_until("the other one goes on with what it had", lambda: "a=3" in cluster.values())
        cluster.until_state(app, ClientState.RUNNING)
