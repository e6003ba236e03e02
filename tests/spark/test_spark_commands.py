"""`streams spark`: bad arguments are refused with what to write, and a run ends with files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from backfill_kit import Row, write_history
from processor_api.task_id import TopicPartition
from streams.cli.main import main
from streams.spark import Cut

APP = """
from streams import Consumed, Materialized, Serdes, StreamsBuilder

builder = StreamsBuilder()
events = builder.stream("events", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING))
counts = Materialized(name="counts", key_serde=Serdes.STRING, value_serde=Serdes.LONG)
events.group_by_key().count(materialized=counts)
"""


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A lake in the current directory, and the module of a topology in a folder that is on no import path."""
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps" / "counting_app.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", sys.path.copy())
    monkeypatch.delitem(sys.modules, "counting_app", raising=False)
    return write_history(tmp_path / "lake", [Row(b"k%d" % (one % 3), b"v", 1_000 + one) for one in range(10)])


def words(lake: str, *more: str) -> list[str]:
    return [
        "spark", "backfill", "apps/counting_app.py", "--application-id", "app", "--run-dir", "run",
        "--history", f"events={lake}", *more,
    ]  # fmt: skip


def test_a_backfill_is_run_and_exported(spark: Any, lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(lake, "--partitions", "events=1", "--explain")) == 0
    assert "reads events (history by offset, 1 partition)" in capsys.readouterr().out
    assert not Path("run").exists()
    Path("early.json").write_text(Cut({TopicPartition("events", 0): 9}).to_json())
    assert main(words(lake, "--partitions", "events=1", "--cut", "early.json", "--explain")) == 1
    assert "events-0 ends at offset 10, and the cut is 9" in capsys.readouterr().err
    cut = Cut({TopicPartition("events", 0): 12})
    Path("cut.json").write_text(cut.to_json())
    assert main(words(lake, "--partitions", "events=1", "--column", "headers=headers", "--cut", "cut.json")) == 0
    assert "10 records" in capsys.readouterr().out
    assert json.loads(Path("run/run.json").read_text())["cut"] == json.loads(cut.to_json())
    export = ["spark", "export", "apps/counting_app.py", "--run-dir", "run"]
    assert main([*export, "--table", "counts", "--to", "counts"]) == 0
    rows = pq.read_table("counts").to_pylist()
    assert {row["key"]: row["value"] for row in rows} == {"k0": 4, "k1": 3, "k2": 3}
    assert main([*export, "--table", "counts", "--to", "counts"]) == 2
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--partitions", "events"], "--partitions events: give TOPIC=N"),
        (["--partitions", "events=many"], "'many' is not a number; give TOPIC=N"),
        (["--column", "colour=red"], "key, value, timestamp, partition, offset, headers, not 'colour'"),
        (["--column", "orders.key=id"], "topic 'orders' does not have a --history"),
        (["--cut", "none.json"], "--cut none.json cannot be read"),
        (["--cut", "apps/counting_app.py"], "is not the text of a cut"),
    ],
)
def test_arguments_that_are_wrong_are_named(
    lake: str, capsys: pytest.CaptureFixture[str], more: list[str], message: str
) -> None:
    assert main(words(lake, *more)) == 2
    assert message in capsys.readouterr().err
