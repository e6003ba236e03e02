"""Subtopologies that feed each other, in one task: rows are read one by one or many at a time, with the same results.

In this process, as a task gets its rows from Spark.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_kit import SETTINGS, Row, in_live_order, run_driver
from processor_api.topology.partitioner import partition_for_key
from streams import StreamsBuilder
from streams.runtime.plan.task_plan import plan_tasks
from streams.spark.backfill.stages import BackfillPlan, plan_stages
from streams.spark.executor.loops import loop_of, topics_that_go_round
from streams.spark.executor.shipped_topology import checked_topology, ship
from streams.spark.executor.stage_job import JobInput, StageJob
from streams.spark.executor.stage_task import run_attempt

TOPICS = ("events", "repos", "prs")


def shared_table() -> StreamsBuilder:
    """A stream joins a table that a foreign-key join has too; its results do not go round."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    repos, prs = builder.table("repos"), builder.table("prs")
    builder.stream("events").left_join(repos, lambda event, repo: f"{event} {repo}").to("out")
    joined = prs.foreign_key_join(repos, lambda pr: pr, lambda pr, repo: f"{pr} {repo}", materialized="rows")
    joined.to_stream().to("joined")
    return builder


def rows_of(seed: int, count: int) -> dict[str, list[Row]]:
    chance, now = random.Random(seed), 1_000
    rows: dict[str, list[Row]] = {topic: [] for topic in TOPICS}
    for number in range(count):
        now += chance.choice((0, 0, 1, 5))
        topic = chance.choice(("events", "events", "events", "repos", "prs"))
        key = b"r%d" % chance.randrange(8)
        value = b"r%d" % chance.randrange(8) if topic == "prs" else b"%d" % number
        value = value if topic == "events" or chance.random() < 0.8 else None  # type: ignore[assignment]
        rows[topic].append(Row(key, value, now - chance.choice((0, 0, 0, 3))))
    return rows


def ran(tmp_path: Path, rows: dict[str, list[Row]], partitions: int, size: int, topology: Any = shared_table) -> Any:
    """The rows of each topic and changelog that a task writes for batches of a size, with the columns of its files."""
    shipped = ship(topology, "app", SETTINGS, dead_letters=False)
    counts = dict.fromkeys((*TOPICS, "out", "joined"), partitions)
    (stage,) = plan_stages(checked_topology(shipped), {"application.id": "app"}, TOPICS, counts)
    job = StageJob(
        shipped=shipped,
        stage=0,
        subtopologies=stage.subtopologies,
        looped=tuple(sorted(stage.looped)),
        inputs=tuple(JobInput(one.topic, one.partitions, has_offsets=True) for one in stage.inputs),
        counts=counts,
        written_counts={**counts, **dict.fromkeys(stage.looped, partitions)},
        attempts=str(tmp_path),
    )
    numbers = {one.topic: number for number, one in enumerate(stage.inputs)}
    ends: dict[tuple[str, int], int] = {}
    lines = []
    for topic, row in in_live_order({one.topic: rows[one.topic] for one in stage.inputs}):
        place = topic, partition_for_key(row.key or b"", partitions)
        offset = ends[place] = ends.get(place, -1) + 1
        lines.append((numbers[topic], place[1], offset, row.ts, row.key, row.value))
    schema = pa.schema([
        ("q", pa.int32()), ("pid", pa.int32()), ("seq", pa.int64()), ("ts", pa.int64()), ("key", pa.binary()),
        ("value", pa.binary()),
    ])  # fmt: skip
    whole = pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(zip(*lines, strict=True), schema, strict=True)],
        schema=schema,
    )
    batches = [whole.slice(start, size) for start in range(0, len(whole), size)]
    reports = run_attempt(job, 0, 0, batches)
    found: dict[str, list[dict[str, Any]]] = {}
    for name in reports[0]["files"]:
        for row in pq.read_table(tmp_path / name).to_pylist():
            found.setdefault(row["topic"], []).append(row)
    assert sum(report["rows"] for report in reports) == len(whole)
    for topic in ("out", "joined"):
        assert sum(report["counts"].get(topic, 0) for report in reports) == len(found[topic])
    return found


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_results_are_those_of_the_test_driver(tmp_path: Path, size: int) -> None:
    """In order and byte for byte, however the rows are cut into batches."""
    rows = rows_of(1, 300)
    expected = run_driver(shared_table, {one.topic: rows[one.topic] for one in stage_of(shared_table).inputs})
    found = ran(tmp_path, rows, 1, size)
    for topic in ("out", "joined"):
        written = [(row["key"], row["value"], row["ts"]) for row in found[topic]]
        assert len(written) > 20
        assert written == [one[:3] for one in expected.outputs[topic]]
    for store in ("rows",):
        kept = {row["key"]: (row["value"], row["ts"]) for row in found[f"app-{store}-changelog"]}
        assert kept == expected.tables[f"app-{store}-changelog"]


@pytest.mark.parametrize("seed", range(4))
def test_results_do_not_depend_on_batches(tmp_path: Path, seed: int) -> None:
    """Over several partitions; records of one key, and of one task, are in the order in which they were made."""
    rows = rows_of(seed, 250)
    one_by_one, together = (ran(tmp_path / f"{size}", rows, 3, size) for size in (1, 10_000))
    for topic in ("out", "joined"):
        for name in ("upstream", "partition"):
            assert by(name, one_by_one[topic]) == by(name, together[topic])
    tables = [
        {(row["partition"], row["key"]): row["value"] for row in found["app-rows-changelog"]}
        for found in (one_by_one, together)
    ]
    assert tables[0] == tables[1]
    assert {row["upstream"] for row in together["out"]} == {0, 1, 2}
    assert [row["seq"] for row in together["out"]] == sorted({row["seq"] for row in together["out"]})


def by(name: str, rows: list[dict[str, Any]]) -> dict[tuple[int, bytes], list[tuple[Any, ...]]]:
    found: dict[tuple[int, bytes], list[tuple[Any, ...]]] = {}
    for row in rows:
        found.setdefault((row[name], row["key"]), []).append((row["value"], row["ts"]))
    return found


def stage_of(topology: Callable[[], Any]) -> Any:
    made = checked_topology(ship(topology, "app", SETTINGS, dead_letters=False))
    counts = dict.fromkeys((*TOPICS, "out", "joined"), 1)
    (stage,) = plan_stages(made, {"application.id": "app"}, TOPICS, counts)
    return stage


def chosen_by_a_function() -> StreamsBuilder:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    repos, prs = builder.table("repos"), builder.table("prs")
    events = builder.stream("events").left_join(repos, lambda event, repo: f"{event} {repo}")
    events.to(lambda key, value, context: "out")
    prs.foreign_key_join(repos, lambda pr: pr, lambda pr, repo: repo, materialized="rows").to_stream().to("joined")
    return builder


def test_only_what_may_go_round_is_read_record_by_record() -> None:
    """A stream that shares a table with a foreign-key join was read so too: 14 us a record became 223."""
    stage = stage_of(shared_table)
    alone = topics_that_go_round(stage.plans, stage.looped)
    assert alone & set(TOPICS) == {"repos", "prs"}
    assert "events" in topics_that_go_round(stage_of(chosen_by_a_function).plans, stage.looped)
    assert len(loop_of(stage.plans, stage.looped)) == len(stage.looped) == 2
    assert all(" to subtopology " in line for line in loop_of(stage.plans, stage.looped))
    assert not topics_that_go_round(plan_tasks(shared_plain(), {"application.id": "app"}, {"events": 1}), ())


def test_a_plan_says_what_runs_in_one_task_and_why() -> None:
    stage = stage_of(shared_table)
    lines = BackfillPlan("app", (stage,), (), dict.fromkeys(TOPICS, "offset")).explain().splitlines()
    at = lines.index("    one task for all partitions, since its subtopologies feed each other:")
    for number, topic in enumerate(sorted(stage.looped)):
        assert lines[at + 1 + number].startswith(f"      {topic}: from subtopology ")
    assert lines[at + 3 : at + 5] == ["      record by record: repos, prs", "      many records at a time: events"]


def shared_plain() -> Any:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("events").map_values(str.upper).to("out")
    return builder.build()
