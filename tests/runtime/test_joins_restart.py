"""Joins in a running application that is stopped and started again: what waits and what is kept is still there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dsl import Joined, JoinWindows, KStream, KTable, Materialized, StreamsBuilder
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from runtime_support.running_app import CLOSE_TIMEOUT, Cluster

EMIT = "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__"


def told(left: str | None, right: str | None) -> str:
    return f"{left}|{right}"


def stream_join() -> Topology:
    builder = StreamsBuilder()
    left: KStream[str, str] = builder.stream("left")
    over = JoinWindows.of_time_difference_and_grace(10, 5)
    left.outer_join(builder.stream("right"), told, windows=over, joined="j").to("out")
    return builder.build()


def grace_join() -> Topology:
    builder = StreamsBuilder()
    left: KStream[str, str] = builder.stream("left")
    store: Materialized[Any, Any] = Materialized(supplier=Stores.persistent_versioned_key_value_store("t", 100))
    table: KTable[str, str] = builder.table("right", materialized=store)
    left.left_join(table, told, joined=Joined(name="j", grace=20)).to("out")
    return builder.build()


@pytest.mark.parametrize("lost", [False, True], ids=["with its state", "from changelogs"])
@pytest.mark.parametrize("engine", ["rocksDB", "in_memory"])
def test_what_waits_for_a_partner_is_there_after_a_restart(tmp_path: Path, engine: str, lost: bool) -> None:
    """It leaves when its window has closed, without a new record that comes to wait first; and stream time goes on:
    a record that was late is late."""
    made = stream_join()
    config = {EMIT: 0, "default.dsl.store": engine}
    with Cluster(tmp_path, topics={"left": 1, "right": 1, "out": 1}, one_state=not lost) as cluster:
        app = cluster.app(made, config)
        cluster.send("matched", topic="left", key="a", timestamp=0)
        cluster.send("alone", topic="left", key="b", timestamp=5)
        cluster.send("newest", topic="right", key="c", timestamp=15)
        cluster.until(lambda: (cluster.committed("left"), cluster.committed("right")) == (2, 1))
        assert app.close(CLOSE_TIMEOUT)
        cluster.app(made, config)
        cluster.send("late", topic="right", key="d", timestamp=3)
        cluster.until_out("None|late")
        cluster.send("partner", topic="right", key="a", timestamp=6)
        cluster.until_out("None|late", "matched|partner")
        cluster.send("later", topic="right", key="e", timestamp=21)
        cluster.until_out("None|late", "matched|partner", "alone|None")


def test_what_waits_for_late_updates_is_there_after_a_restart(tmp_path: Path) -> None:
    made = grace_join()
    with Cluster(tmp_path, topics={"left": 1, "right": 1, "out": 1}, one_state=True) as cluster:
        app = cluster.app(made)
        cluster.send("row", topic="right", key="a", timestamp=0)
        cluster.until(lambda: cluster.committed("right") == 1)
        cluster.send("waits", topic="left", key="a", timestamp=10)
        cluster.until(lambda: cluster.committed("left") == 1)
        assert app.close(CLOSE_TIMEOUT)
        cluster.app(made)
        cluster.send("newer", topic="right", key="a", timestamp=9)
        cluster.until(lambda: cluster.committed("right") == 2)
        assert cluster.values() == []
        cluster.send("later", topic="left", key="b", timestamp=30)
        cluster.until_out("waits|newer")
