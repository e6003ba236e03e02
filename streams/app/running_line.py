"""Describes an application that has begun to run in one line, for its log."""

from __future__ import annotations

from processor_api.topology.topology import Topology
from streams.config import StreamsConfig


def running_line(topology: Topology, config: StreamsConfig, tasks: int, threads: int) -> str:
    """Returns the line that is logged once, when all tasks of this process run for the first time.

    It says how long a user has to wait for results: a cached store forwards them at a commit, and under exactly-once
    readers of committed records see nothing before.

    :param tasks: the tasks of this process.
    :param threads: its stream threads.
    """
    if threads == 0:
        return "running: global stores only, which need no task"
    on_threads = f"{threads} thread{'s' if threads != 1 else ''}"
    every = f"every {_duration(config.commit_interval_ms)} (commit.interval.ms)"
    if tasks == 0:
        return (
            f"running: no task on {on_threads} so far: those there are belong to other members, or read what does not"
            f" exist yet; commits are {every}"
        )
    what = f"running: {tasks} task{'s' if tasks != 1 else ''} on {on_threads}"
    cached = config.statestore_cache_max_bytes > 0 and any(store.caching for store in topology.stores.values())
    if config.exactly_once or cached:
        return f"{what}; results show at each commit, {every}"
    return f"{what}; results show at once, commits are {every}"


def _duration(ms: int) -> str:
    return f"{ms // 1000} s" if ms % 1000 == 0 and ms else f"{ms} ms"
