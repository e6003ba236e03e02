"""Commits that take longer than their interval, on a broker in memory: their time is added to the clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime_support.failing_clients import trapped
from runtime_support.running_app import Cluster, JumpingClock, passing_on

RECORDS, RECORD_S = 100, 0.01


@pytest.mark.parametrize(
    ("guarantee", "call"), [("exactly_once_v2", "commit_transaction"), ("at_least_once", "commit")]
)
def test_records_have_as_much_time_as_the_commit_before_them(guarantee: str, call: str, tmp_path: Path) -> None:
    """The next commit was due when a long one was over: 10 ms of work for each, so that a busy worker with a backlog
    did next to nothing but commit."""
    clock, commits = JumpingClock(), []

    def take_long(name: str) -> None:
        if name == call:
            clock.ahead_s += 0.3
            commits.append(name)

    def work(value: str) -> None:
        clock.ahead_s += RECORD_S

    with Cluster(tmp_path, clock=clock, clients=trapped(take_long)) as cluster:
        values = [str(number) for number in range(RECORDS)]
        cluster.send(*values)
        cluster.app(passing_on(work), {"processing.guarantee": guarantee, "commit.interval.ms": 100})
        cluster.until_out(*values)
    assert len(commits) < 2 * RECORDS * RECORD_S / 0.1 + 5
