"""A backfill of a join keeps only the rows that the join can still meet, and goes on from them as from all."""

from __future__ import annotations

import random
from typing import Any

import pytest

from dsl import JoinWindows, StreamsBuilder
from runtime_support.staged_run import STRINGS_UNCACHED as CONFIG
from runtime_support.staged_run import Piped, StagedRun
from streams.testing import TopologyTestDriver

COUNTS = ["left", "right", "out"]
MINUTE_MS = 60_000


def joined() -> StreamsBuilder:
    builder = StreamsBuilder()
    windows = JoinWindows.of_time_difference_and_grace(2000, 5000)
    pairs = builder.stream("left").join(builder.stream("right"), lambda one, other: one + other, windows=windows)
    pairs.to("out")
    return builder


def history(seed: int, count: int) -> list[Piped]:
    """Twenty minutes of two streams, with records that are late by less and by more than the grace."""
    chosen = random.Random(seed)
    records: list[Piped] = []
    for number in range(count):
        time = 20 * MINUTE_MS * number // count - chosen.choice([0, 0, 0, 3000, 30_000, 3 * MINUTE_MS])
        headers: Any = [("h", b"%d" % number)] if number % 3 == 0 else []
        topic, key = chosen.choice(["left", "right"]), b"k%d" % chosen.randrange(3)
        records.append((topic, key, b"%d," % number, max(0, time), headers))
    return records


def run(records: list[Piped], **how: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns what is written, and what the next run needs."""
    with StagedRun(joined, CONFIG, COUNTS, **how) as run:
        for place in range(0, len(records), 50):
            run.pipe(records[place : place + 50])
            run.commit()
        (runner,) = run.runners
        state = {topic: list(rows) for topic, rows in runner.changelog().items()}
        times = {"partition_times": runner.partition_times(), "processor_times": runner.processor_times()}
        return run.produced, {"state": state, **times}


@pytest.mark.parametrize("capture_bytes", [64 << 20, 20_000])
@pytest.mark.parametrize("seed", range(3))
def test_a_join_goes_on_from_the_rows_that_are_kept(seed: int, capture_bytes: int) -> None:
    records = history(seed, 3000)
    with TopologyTestDriver(joined, CONFIG) as driver:
        for record in records:
            driver.pipe_raw(*record)
        want = [(*one[:3], list(one[3])) for one in driver.take_produced()["out"]]
    found: list[Any] = []
    given: dict[str, Any] = {}
    for part in (records[:1000], records[1000:1900], records[1900:]):
        produced, given = run(part, capture_bytes=capture_bytes, **given)
        found += produced.get("out", [])
    assert found == want
    assert len(want) > 500


@pytest.mark.parametrize("capture_bytes", [64 << 20, 20_000])
def test_rows_that_have_expired_are_not_kept(capture_bytes: int) -> None:
    """Retention is 9 seconds and a segment at least a minute: two minutes of twenty, whatever the memory."""
    records = history(7, 3000)
    _, kept = run(records, capture_bytes=capture_bytes)
    rows = [row for changelog in kept["state"].values() for row in changelog]
    latest = max(row[2] for row in rows)
    assert 0 < len(rows) < 400
    assert min(row[2] for row in rows) >= latest - 2 * MINUTE_MS
    every = [record for record in records if latest - MINUTE_MS <= record[3]]
    assert {record[2] for record in every} <= {row[1] for row in rows}
