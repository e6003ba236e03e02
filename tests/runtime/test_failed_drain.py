"""A function of the user's that fails while a commit empties the caches: nothing of that commit is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsl import Consumed, Grouped, Materialized, Produced, StreamsBuilder
from processor_api.errors import ProcessingError
from processor_api.serde import Serdes
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster

TEXT, NUMBER = Serdes.STRING, Serdes.LONG


def counting(fails_at: int) -> Topology:
    """Counts by key in a cache; what follows the cache fails at one count."""

    def told(count: int) -> str:
        if count == fails_at:
            raise KeyError(count)
        return str(count)

    builder = StreamsBuilder()
    groups = builder.stream("in", Consumed(key_serde=TEXT, value_serde=TEXT)).group_by_key(
        Grouped(key_serde=TEXT, value_serde=TEXT)
    )
    counts = groups.count(materialized=Materialized(name="n", key_serde=TEXT, value_serde=NUMBER))
    counts.to_stream().map_values(told).to("out", Produced(key_serde=TEXT, value_serde=TEXT))
    return builder.build({})


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_a_failed_drain_commits_and_applies_nothing(guarantee: str, tmp_path: Path) -> None:
    """Neither of its task nor of the others of the thread, which share the commit; the next start counts right."""
    config = {"processing_guarantee": guarantee, "commit_interval_ms": 200}
    with Cluster(tmp_path, 2, one_state=True) as running:
        running.app(counting(fails_at=3), **config)
        running.send("a", "b", partition=0)
        running.until(lambda: running.committed(partition=0) == 2)
        running.send("c", partition=1)
        running.send("c", partition=0)
        assert isinstance(running.failed(), ProcessingError)
        assert running.committed(partition=0) == 2

        left = len(running.values())
        running.app(counting(fails_at=-1), **config)
        running.until(lambda: [running.committed(partition=number) for number in (0, 1)] == [3, 1])
        assert running.last.close(60)
    told = sorted(running.values()[left:])  # the other task may have had a commit of its own before
    assert told in (["1", "3"], ["3"])
