"""`streams spark diff` and `publish` on a real Kafka: the table of a backfill beside the live one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from integration_support.topics import Topics
from spark_support.stores_app import recreate
from streams.cli.main import main
from streams.spark import pin_offsets, read_topic

APP = """
from streams import Consumed, Materialized, Serdes, StreamsBuilder


def topology():
    builder = StreamsBuilder()
    events = builder.stream("TOPIC", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING))
    counts = Materialized(name="counts", key_serde=Serdes.STRING, value_serde=Serdes.LONG)
    events.group_by_key().count(materialized=counts).to_stream().to("OUT")
    return builder
"""


@pytest.mark.slow
def test_keys_that_differ_are_printed_and_decide_the_exit_status(
    spark: Any,
    kafka: str,
    topics: Topics,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    unique_name: Callable[[str], str],
) -> None:
    topic, out, application = topics.create("events", 1), topics.create("out", 2), unique_name("app")
    changelog = f"{application}-counts-changelog"
    recreate(topics, changelog)
    (tmp_path / "diffed_app.py").write_text(APP.replace("TOPIC", topic).replace("OUT", out))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    write(kafka, topic, [(b"ann", b"x", 5), (b"bob", b"x", 6), (b"ann", b"x", 7)])
    read_topic(spark, kafka, topic).write.parquet(str(tmp_path / "lake"))
    settings = ["--application-id", application, "--bootstrap-servers", kafka]
    lake = ["--run-dir", "run", "--history", f"{topic}=lake", "--partitions", f"{topic}=1", "--outputs", "none"]
    assert main(["spark", "backfill", "diffed_app:topology", *lake, *settings]) == 0
    capsys.readouterr()
    diff = ["spark", "diff", "diffed_app:topology", "--run-dir", "run", "--table", "counts", *settings]

    write(kafka, changelog, [(b"ann", number(2), 7), (b"bob", number(1), 6)])
    Path("pinned.json").write_text(pin_offsets(kafka, changelog).to_json())
    assert main(diff) == 0
    shown = capsys.readouterr()
    assert shown.out == "0 keys of 'counts' differ\n"
    assert f"warning: of {topic}-0 the backfill has processed offsets before 3" in shown.err

    write(kafka, changelog, [(b"ann", number(3), 7), (b"bob", None, 8), (b"eve", number(1), 9)])
    assert main([*diff, "--to", "found", "--limit", "2"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("different: partition=0, key='ann': backfill value=2, timestamp=")
    assert "live value=3" in lines[0]
    assert lines[1].startswith("only_backfill: partition=0, key='bob': backfill value=1")
    assert lines[1].endswith("live none")
    assert lines[2:] == ["... and 1 more", "3 keys of 'counts' differ"]
    assert sorted(row["key"] for row in pq.read_table("found").to_pylist()) == ["ann", "bob", "eve"]

    publish = ["spark", "publish", *diff[2:]]
    assert main(publish) == 0
    shown = capsys.readouterr().out
    assert f"corrections of 'counts' for topic '{out}': 3 records, 1 of them tombstones (partition" in shown
    assert "'ann': 2 (partition" in shown
    assert "'eve': null (partition" in shown
    assert "dry run: nothing was written" in shown
    assert sum(topics.end_offsets(out, 2).values()) == 0
    assert main([*publish, "--rows", "found", "--yes"]) == 0
    assert "3 records written" in capsys.readouterr().out
    assert read_topic(spark, kafka, out, key="string", value="long").select("key", "value").sort("key").collect() == [
        ("ann", 2), ("bob", 1), ("eve", None),
    ]  # fmt: skip
    assert main([*publish, "--yes"]) == 0
    assert "published by an earlier call: nothing is written" in capsys.readouterr().out
    assert main([*publish, "--rows", "other"]) == 2
    assert "--rows other: no such files exist" in capsys.readouterr().err
    assert main([*publish, "--resume", "--yes"]) != 0
    assert "there are: none. Give the rows" in capsys.readouterr().err

    assert main([*diff, "--offsets", "pinned.json"]) == 0
    assert main([*diff, "--offsets", "none.json"]) == 2
    assert "--offsets none.json cannot be read" in capsys.readouterr().err


def number(count: int) -> bytes:
    return count.to_bytes(8, "big")


def write(kafka: str, topic: str, records: list[tuple[bytes, bytes | None, int]]) -> None:
    producer = Producer({"bootstrap.servers": kafka})
    for key, value, time in records:
        producer.produce(topic, value, key, 0, timestamp=time)
    assert producer.flush(60) == 0
