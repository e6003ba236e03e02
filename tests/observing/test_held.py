"""Results that operators hold back are said in the status and the log of a running application."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dsl import (
    BufferConfig,
    EmitStrategy,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from runtime_support.running_app import Cluster
from streams.observing.status import HeldStatus
from streams.testing.driver import TopologyTestDriver
from waiting import wait_until

SECOND = timedelta(seconds=1)
FINAL = EmitStrategy.on_window_close()
WINDOWS = {
    "tumbling": (TimeWindows.of_size_and_grace(SECOND, grace=SECOND), 7_000),
    "sliding": (SlidingWindows.of_time_difference_and_grace(SECOND, grace=SECOND), 6_001),
    "sessions": (SessionWindows.of_inactivity_gap_and_grace(SECOND, grace=SECOND), 7_001),
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, topics={"in": 2, "other": 2, "out": 1}) as made:
        yield made


def topology_of(kind: str) -> Any:
    """Returns a topology that holds a record back."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    stream = builder.stream("in")
    if kind == "suppressed":
        table = (
            stream.group_by_key().count().suppress(Suppressed.until_time_limit(2 * SECOND, BufferConfig.unbounded()))
        )
        out = table.to_stream().map_values(str)
    elif kind == "left join":
        within = JoinWindows.of_time_difference_and_grace(SECOND, SECOND)
        out = stream.left_join(builder.stream("other"), lambda one, other: one, windows=within)
    else:
        counts = stream.group_by_key().windowed_by(WINDOWS[kind][0]).emit_strategy(FINAL).count()
        out = counts.to_stream(lambda w, n: w.key).map_values(str)
    out.to("out")
    return builder.build()


CASES = {
    "suppressed": ("suppressed result", 7_000),
    "left join": ("record without a partner", 7_001),
    **{name: ("result of an open window", due) for name, (_, due) in WINDOWS.items()},
}


@pytest.mark.parametrize("kind", CASES)
def test_a_driver_says_what_is_held_back_until_when(kind: str) -> None:
    """A record 1 ms before that time lets nothing go, and one of that time does."""
    what, due = CASES[kind]
    with TopologyTestDriver(topology_of(kind)) as driver:
        given, out = driver.create_input_topic("in"), driver.create_output_topic("out")
        given.pipe_input("a", "x", timestamp=5_000)
        [held] = driver.held_back()
        assert (held.what, held.count, held.at_least, held.next_ms) == (what, 1, False, due)
        assert held.waits_for == "in-0"
        driver.advance_wall_clock_time(timedelta(seconds=10))
        given.pipe_input("b", "x", timestamp=due - 1)
        assert out.is_empty
        driver.advance_wall_clock_time(timedelta(seconds=10))
        given.pipe_input("b", "x", timestamp=due)
        assert len(out.read_key_values()) == 1
        assert all(one.next_ms is not None and one.next_ms > due for one in driver.held_back())


def test_no_more_than_a_thousand_rows_are_counted(cluster: Cluster) -> None:
    app = cluster.start(topology_of("tumbling"), log_summary_interval_ms=0)
    cluster.send_pairs("in", [(str(number), "x") for number in range(1_200)])

    def held() -> list[HeldStatus]:
        return [one for task in app.status().tasks for one in task.held]

    wait_until("they are counted", lambda: [(one.count, one.at_least) for one in held()] == [(1000, True)])
    assert held()[0].amount == "at least 1000 results of open windows"


def test_an_application_says_which_partition_holds_its_results_back(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="streams.thread"):
        app = cluster.start(topology_of("tumbling"), log_summary_interval_ms=30)
        cluster.send("x", key="quiet", partition=1, timestamp=60_000)

        def waiting() -> list[str]:
            return [text for one in caplog.records if (text := one.getMessage()).startswith("results wait")]

        wait_until("it is said", lambda: bool(waiting()))
        node = "KSTREAM-AGGREGATE-0000000002"
        place = f"{node} ({app.topology.call_of(node)}, {app.topology.line_of(node)})"
        assert waiting()[0].partition(", and none at all since ")[0] == (
            f"results wait for stream time: 1 result of an open window at {place} until 1970-01-01T00:01:02Z"
            " in task 0_1: in-1 has had no record later than 1970-01-01T00:01:00Z"
        )
        summaries = len([one for one in caplog.records if one.getMessage() == "summary"])
        wait_until(
            "more summaries",
            lambda: len([one for one in caplog.records if one.getMessage() == "summary"]) > summaries + 3,
        )
        assert len(waiting()) == 1, "it is said once"
        [task] = [one for one in app.status().tasks if one.held]
        assert (task.id, task.held[0].waits_for, task.held[0].next_ms) == ("0_1", "in-1", 62_000)
