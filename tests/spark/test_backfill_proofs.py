"""Backfills of every kind of store, over a large partition, and after the death of the driver's process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from backfill_kit import SETTINGS, Row, results_of, run_driver, write_history
from processor_api.serde import Serdes
from runtime_support.kept_in_all_kinds import KINDS, history, kinds
from streams import Processor, Record, Stores, Topology
from streams.spark.backfill.history import History
from streams.spark.backfill.run import Backfill

DEADLINE_S = 600
"""Long, since only a driver that hangs waits for it."""


# ---------------------------------------------------------------------- every kind of store


def kept_rows() -> list[Row]:
    """Returns records later than the time 0, which the clients of live write as 1, and the test driver as it is."""
    return [Row(key, value, 1_000 + time, headers) for _, key, value, time, headers in history(150)]


def test_every_kind_of_store_is_that_of_the_test_driver(spark: Any, tmp_path: Path) -> None:
    """Also when the backfill begins with the tables of another one that had no records."""
    rows = kept_rows()
    expected = run_driver(kinds, {"lines": rows}, versioned=["app-versions-changelog"])

    def backfill(name: str, some: list[Row], **options: Any) -> Any:
        lines = History.parquet(spark, write_history(tmp_path / f"lines-{name}", some), headers="headers")
        given: dict[str, Any] = {"application_id": "app", "config": SETTINGS, "partitions": {"lines": 1, "counts": 1}}
        return Backfill(spark, kinds, {"lines": lines}, run_dir=tmp_path / name, **given, **options).run()

    empty = backfill("empty", [])
    whole = backfill("whole", rows, initial_state=empty)
    again = backfill("again", [], initial_state=whole)
    found = results_of(whole, ["counts"], KINDS, versioned=["versions"])
    assert found.outputs["counts"] == expected.outputs["counts"]
    assert len(found.outputs["counts"]) > 150
    assert found.tables.keys() == {f"app-{store}-changelog" for store in KINDS}
    kept = results_of(again, ["counts"], KINDS, versioned=["versions"])
    assert kept.outputs["counts"] == []
    for topic, table in found.tables.items():
        assert table, topic
        assert table == expected.tables[topic], topic
        assert kept.tables[topic] == table, topic


# ---------------------------------------------------------------------- a large partition

MEASURED = (200_000, 1_000_000)
GROWTH_BYTES = 32 << 20


class Measuring(Processor[Any, Any, Any, Any]):
    """Counts by key, and forwards the memory of its process after some numbers of records."""

    def init(self, context: Any) -> None:
        self.context = context
        self.counts = context.get_state_store("counts")
        self.processed = 0

    def process(self, record: Record[Any, Any]) -> None:
        self.counts.put(record.key, (self.counts.get(record.key) or 0) + 1)
        self.processed += 1
        if self.processed in MEASURED:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            self.context.forward(record.with_value(pages * os.sysconf("SC_PAGE_SIZE")))


def measuring() -> Topology:
    text, number = Serdes.STRING, Serdes.LONG
    made = Topology().add_source("source", "events", key_serde=text, value_serde=Serdes.BYTES)
    made.add_processor("measuring", Measuring, "source")
    counts = Stores.key_value_store_builder(Stores.persistent_key_value_store("counts"), text, number)
    made.add_state_store(counts.with_caching_enabled(), "measuring")
    return made.add_sink("sink", "memory", "measuring", key_serde=text, value_serde=number)


@pytest.mark.slow
def test_the_memory_of_a_task_does_not_grow_with_its_partition(spark: Any, tmp_path: Path) -> None:
    """One partition of a million rows with a hundred bytes each has a fixed number of keys."""
    rows = spark.range(MEASURED[-1]).selectExpr(
        "binary(concat('k', id % 1000)) as key", "binary(repeat('x', 100)) as value",
        "1000 + id as timestamp", "0 as partition", "id as offset",
    )  # fmt: skip
    result = Backfill(
        spark, measuring, {"events": History(rows)}, application_id="app", run_dir=tmp_path / "run",
        partitions={"events": 1, "memory": 1},
    ).run()  # fmt: skip
    assert result.stages[0].rows == MEASURED[-1]
    measured = [int.from_bytes(row.value, "big") for row in result.output("memory").orderBy("seq").collect()]
    assert len(measured) == len(MEASURED)
    assert measured[1] - measured[0] < GROWTH_BYTES, measured


# ---------------------------------------------------------------------- a driver that is killed


@pytest.mark.slow
def test_a_driver_that_is_killed_behind_a_stage_is_resumed_by_another(spark: Any, root: Path, tmp_path: Path) -> None:
    """A process of its own, killed in the second stage; the next one keeps the first stage and the time of the run."""
    rows = [Row(b"k%d" % (one % 7), b"v%d" % (one % 5), 1_000 + one) for one in range(300)]
    path, run_dir = write_history(tmp_path / "events", rows), tmp_path / "run"
    environment = {**os.environ, "PYTHONPATH": f"{root / 'tests' / 'support'}", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-m", "spark_support.killed_driver", path, str(run_dir)],
        cwd=root, env=environment, timeout=DEADLINE_S, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr[-2_000:]
    assert (run_dir / "stage=0" / "_DONE.json").exists()
    assert not (run_dir / "stage=1" / "_DONE.json").exists()
    before = json.loads((run_dir / "run.json").read_text())
    result = Backfill(
        spark, "spark_support.killed_driver:topology", {"events": History.parquet(spark, path)},
        application_id="app", run_dir=run_dir, partitions={"events": 1},
    ).run()  # fmt: skip
    assert [stage.resumed for stage in result.stages] == [True, False]
    assert {row.key: row.value for row in result.table("by-value").collect()} == {f"v{n}": 60 for n in range(5)}
    assert json.loads((run_dir / "run.json").read_text()) == before
