"""Corrections on a real broker: processes that are killed at each step, and each correction in the topic once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from integration_support.topics import Topics
from integration_support.workers import ROOT
from processor_api.topology.partitioner import partition_for_key
from streams import StreamsBuilder
from streams.spark import Backfill, BackfillResult, History
from waiting import wait_until

PARTITIONS, ROWS, SIZE = 2, 26, 900_000
"""More bytes than one transaction has."""
KILLED = """
import sys
from runtime_support.failing_clients import DeadlyClients
from streams import StreamsConfig
from streams.kafka.confluent import ConfluentClients
from streams.spark.backfill.result import BackfillResult
from streams.spark.corrections.publish import CorrectedTable, publish_corrections
from streams.spark.runs.run_directory import RunDirectory
from test_spark_corrections import corrections, topology

call, times, run_dir, kafka, application, source, topic = sys.argv[1:]
config = StreamsConfig.of({"application.id": application, "bootstrap.servers": kafka})
result = BackfillResult.load(None, run_dir, topology(source, topic))
table = CorrectedTable("totals", RunDirectory(run_dir), result.topology, config)
clients = DeadlyClients(ConfluentClients(), call, int(times))
publish_corrections(table, corrections(), config, topic=topic, dry_run=False, clients=clients)
"""
STEPS = [
    ("topics", 0), ("init_transactions", 0), ("committed", 1), ("commit", 0), ("begin_transaction", 0), ("produce", 3),
    ("flush", 0), ("send_offsets", 0), ("commit_transaction", 0), ("begin_transaction", 1), ("commit_transaction", 0),
]  # fmt: skip
"""The calls at which one process after the other is killed; the last but one is after the first transaction."""


def topology(source: str, topic: str) -> Callable[[], StreamsBuilder]:
    def made() -> StreamsBuilder:
        builder = StreamsBuilder(key_serde="string", value_serde="string")
        table = builder.stream(source).group_by_key().reduce(lambda old, new: new, materialized="totals")
        table.to_stream().to(topic)
        return builder

    return made


def corrections() -> pa.Table:
    values = [None if number % 5 == 0 else chr(97 + number) * SIZE for number in range(ROWS)]
    return pa.table(
        {
            "key": [f"k{number}" for number in range(ROWS)],
            "value": values,
            "timestamp": list(range(1_000, 1_000 + ROWS)),
        }
    )


@pytest.mark.slow
def test_each_correction_is_committed_once_whichever_step_is_killed(
    kafka: str, topics: Topics, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    source, topic, application = topics.create("payments"), topics.create("totals", PARTITIONS), unique_name("app")
    lake = pa.table({"key": ["k1"], "value": ["old"], "timestamp": pa.array([1], pa.timestamp("s", "UTC"))})
    history = History(lake, partition=None, offset=None, encoded=False, partitions=1)
    result: BackfillResult = Backfill(
        None, topology(source, topic), {source: history},
        application_id=application, run_dir=tmp_path / "run", engine="local[1]", partitions={topic: PARTITIONS},
    ).run()  # fmt: skip
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'support'}:{ROOT / 'tests' / 'integration'}"}
    for call, after in STEPS:
        command = [sys.executable, "-c", KILLED, call, str(after), result.run_dir, kafka, application, source, topic]
        done = subprocess.run(command, env=env, timeout=180, check=False, capture_output=True, text=True)
        assert done.returncode == -9, (call, after, done.stdout, done.stderr)
    partly = committed(kafka, topic)
    assert 0 < len(partly) < ROWS, "the first transaction was committed, the second was not"
    given: dict[str, Any] = {"config": kafka, "topic": topic, "dry_run": False}
    report = result.publish_corrections("totals", corrections(), **given)
    assert (report.records, report.written, report.complete) == (ROWS, ROWS - len(partly), True)
    expected = {(row["key"], row["value"], row["timestamp"]) for row in corrections().to_pylist()}
    found = committed(kafka, topic)
    assert Counter(one[:3] for one in found) == Counter(expected)
    assert all(place == partition_for_key(key.encode(), PARTITIONS) for key, *_, place in found)
    again = result.publish_corrections("totals", corrections(), **given)
    assert (again.written, again.complete) == (0, True)
    assert committed(kafka, topic) == found
    assert result.publish_corrections("totals", corrections(), kafka, topic=topic).dry_run


def committed(kafka: str, topic: str) -> list[tuple[str, str | None, int, int]]:
    """Key, value, time in ms and partition of the committed records."""
    settings = {"bootstrap.servers": kafka, "group.id": "none", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
    found: list[tuple[str, str | None, int, int]] = []
    ended: set[int] = set()
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])

    def is_read() -> bool:
        for message in consumer.consume(100, 0.2):
            if message.error() is not None:
                ended.add(message.partition())
                continue
            key, value = message.key(), message.value()
            place = message.partition()
            found.append((key.decode(), None if value is None else value.decode(), message.timestamp()[1], place))
        return len(ended) == PARTITIONS

    try:
        wait_until("the topic is read", is_read)
    finally:
        consumer.close()
    return sorted(found, key=lambda one: one[0])
