"""An application says once what runs, and when results show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster, passing_on
from streams.app.application_run import running_line
from streams.config import StreamsConfig
from waiting import wait_until


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.getMessage().startswith("running: ")]


def test_it_is_said_at_the_start_and_not_after_a_rebalance(
    make_cluster: Callable[..., Cluster], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "streams")
    cluster = make_cluster(partitions=4)
    app = cluster.start(passing_on(), num_stream_threads=2, commit_interval_ms=30_000)
    wait_until("it is said", lambda: said(caplog))
    assert said(caplog) == [
        "running: 4 tasks on 2 threads; results show at once, commits are every 30 s (commit.interval.ms)"
    ]
    app.add_stream_thread()
    wait_until(
        "the third thread has tasks",
        lambda: (
            all(thread.active_tasks for thread in app.metadata_for_local_threads())
            and len(app.metadata_for_local_threads()) == 3
        ),
    )
    assert len(said(caplog)) == 1


def test_a_worker_that_gets_its_first_tasks_later_says_so(
    make_cluster: Callable[..., Cluster], caplog: pytest.LogCaptureFixture
) -> None:
    """Its log ended with "no task so far" while it processed records."""
    caplog.set_level("INFO", "streams")
    cluster = make_cluster()
    first = cluster.start(passing_on())
    cluster.start(passing_on())
    wait_until("it has none", lambda: any("no task on 1 thread" in line for line in said(caplog)))
    caplog.clear()
    first.close()
    wait_until("it has the task", lambda: said(caplog))
    assert said(caplog)[0].startswith("running: 1 task on 1 thread; ")


@pytest.mark.parametrize(
    ("settings", "tasks", "threads", "line"),
    [
        ({}, 1, 1, "running: 1 task on 1 thread; results show at each commit, every 1 s (commit.interval.ms)"),
        (
            {"commit.interval.ms": 1500},
            4,
            2,
            "running: 4 tasks on 2 threads; results show at each commit, every 1500 ms (commit.interval.ms)",
        ),
        (
            {"statestore.cache.max.bytes": 0},
            2,
            1,
            "running: 2 tasks on 1 thread; results show at once, commits are every 1 s (commit.interval.ms)",
        ),
        (
            {"statestore.cache.max.bytes": 0, "processing.guarantee": "exactly_once_v2"},
            2,
            1,
            "running: 2 tasks on 1 thread; results show at each commit, every 100 ms (commit.interval.ms)",
        ),
        (
            {},
            0,
            3,
            "running: no task on 3 threads so far: those there are belong to other members, or read what does not exist"
            " yet; commits are every 1 s (commit.interval.ms)",
        ),
        ({}, 0, 0, "running: global stores only, which need no task"),
    ],
)
def test_it_says_when_results_show(settings: dict[str, Any], tasks: int, threads: int, line: str) -> None:
    store = Stores.key_value_store_builder(Stores.persistent_key_value_store("counts"), None, None)
    topology = Topology().add_state_store(store.with_caching_enabled())
    config = StreamsConfig.of({"application.id": "app", "bootstrap.servers": "a:1", **settings})
    assert running_line(topology, config, tasks, threads) == line
