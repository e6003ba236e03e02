"""Results that windows send on when they close go out in parts; a task may commit, or be killed, between any two."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsl.processors.windows.emission import EMIT_INTERVAL, PART_ROWS
from processor_api.errors import ProcessingError
from processor_api.topology.topology import Topology
from runtime_support.parts_kit import Case, Given, PartsKit, all_at_once, killed_after_each_commit
from runtime_support.running_app import Cluster
from streams import EmitStrategy, Produced, SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows

WINDOW = 60_000
DAY = 86_400_000
PART = 3
SETTINGS = {"statestore.cache.max.bytes": 0, EMIT_INTERVAL: 0, PART_ROWS: PART}
WINDOWS: dict[str, Any] = {
    "time": TimeWindows.of_size_with_no_grace(WINDOW),
    "hopping": TimeWindows.of_size_and_grace(WINDOW, WINDOW).advance_by(WINDOW // 2),
    "sliding": SlidingWindows.of_time_difference_with_no_grace(WINDOW),
    "session": SessionWindows.of_inactivity_gap_with_no_grace(WINDOW),
}
KEYS = [f"key-{number}".encode() for number in range(11)]
RECORDS: list[Given] = [
    *(("in", key, time, None) for number, key in enumerate(KEYS) for time in (10 + number % 3, WINDOW // 3)),
    *(("in", key, WINDOW // 2 + 7, None) for key in KEYS[:4]),
    ("in", b"far", DAY, [("of", b"far")]),
    ("in", b"behind", 2 * DAY, None),
]
"""Windows of several times, a record of another day that closes them all, and one of the day behind it."""


def topology(kind: str, told: Callable[[str], str] = str) -> Topology:
    """Counts of windows, each sent on once, with the bounds of its window."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    groups: Any = builder.stream("in").group_by_key().windowed_by(WINDOWS[kind])
    counts = groups.emit_strategy(EmitStrategy.on_window_close()).count()
    named = counts.to_stream().map(
        lambda key, count: (told(f"{key.key} {key.window.start} {key.window.end}"), str(count))
    )
    named.to("out", Produced(key_serde="string", value_serde="string"))
    return builder.build()


def case(kind: str, engine: str = "rocksDB") -> Case:
    return Case(topology=topology(kind), settings={**SETTINGS, "default.dsl.store": engine}, records=RECORDS)


ENGINES = ["rocksDB", "in_memory"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", WINDOWS)
def test_the_parts_are_the_same_results_in_the_same_order(kind: str, engine: str, tmp_path: Path) -> None:
    """All were sent in the call for the record that closes them; the store lets them expire with that record."""
    expected = all_at_once(tmp_path / "at-once", case(kind, engine))
    assert len(expected) > 3 * PART
    with PartsKit(tmp_path / "parts", case(kind, engine)) as kit:
        kit.feed()
        sent = []
        while kit.task.has_records():
            kit.turn()
            kit.commit()
            sent.append(len(kit.sent("out")))
            [store] = kit.task.stores.stores
            if kit.task.environment.operators.remainders:  # what they are read from is not deleted from the changelog
                assert kit.task.stores.window_time(store) < WINDOW
        assert kit.sent("out") == expected
        assert kit.task.stores.window_time(store) > DAY
        steps = [later - earlier for earlier, later in itertools.pairwise(sent)]
        assert max(steps) <= 2 * PART
        out = kit.broker.records("out", read_committed=False)
        closed_by = {str(one.headers()) for one in out if one.key().startswith(b"key")}
        assert closed_by == {str([("of", b"far")])}  # also those that left later


@pytest.mark.parametrize("kind", WINDOWS)
def test_each_commit_between_two_parts_is_where_the_next_life_goes_on(kind: str, tmp_path: Path) -> None:
    """What is committed with the offsets says how much is sent; what was sent behind the last commit comes again."""
    expected = all_at_once(tmp_path / "at-once", case(kind))
    lives = killed_after_each_commit(tmp_path, case(kind))
    assert lives == [expected] * len(lives)


@pytest.mark.parametrize("kind", ["time", "sliding", "session"])
@pytest.mark.parametrize("lost", ["nothing", "its disk"])
def test_a_worker_that_ends_in_the_middle_leaves_the_rest_to_the_next(kind: str, lost: str, tmp_path: Path) -> None:
    """Also without its disk: the changelog has the rows that have expired, and a restore takes them."""
    failing_at = 2 * len(KEYS) // 3

    def failing(text: str) -> str:
        if len(out) < len(KEYS) and text.startswith(f"key-{failing_at} "):
            raise KeyError(text)
        return text

    with Cluster(tmp_path) as running:
        config = {
            "processing.guarantee": "exactly_once_v2",
            "statestore.uncommitted.max.bytes": 1,  # so that each part is followed by a commit
            PART_ROWS: 1,
            EMIT_INTERVAL: 0,
        }
        out: list[str] = []
        state = {"state.dir": str(tmp_path / "state")}
        running.app(topology(kind, failing), {**config, **state})
        for key in KEYS:
            running.send("v", key=key.decode(), timestamp=10)
        running.send("v", key="far", timestamp=10 * DAY)
        assert isinstance(running.failed(), ProcessingError)
        sent = running.values()
        assert 0 < len(sent) < len(KEYS)
        out += [*sent, *KEYS]  # it does not fail any more
        if lost == "its disk":
            state = {"state.dir": str(tmp_path / "empty")}
        running.app(topology(kind, failing), {**config, **state})
        running.until(lambda: len(running.values()) >= len(KEYS))
        running.until(lambda: running.committed() == len(KEYS) + 1)
        assert running.last.close(60)
        keys = [(one.key() or b"").split()[0] for one in running.broker.records("out", read_committed=True)]
        assert keys == sorted(KEYS)
