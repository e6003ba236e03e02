"""Run directories of backfills that no Spark has made: an application on a broker in memory processes the history.

What it leaves in its changelogs, topics and committed offsets is what a backfill writes for the same records.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.runtime.plan.task_plan import TaskPlan, plan_tasks

__all__ = ["Sent", "processed", "run_directory", "send_all"]

COLUMNS = pa.schema([
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("seq", pa.int64()),
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("ts", pa.int64()),
    ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ("upstream", pa.int32()),
])  # fmt: skip


class Sent(NamedTuple):
    """A record of a source topic."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp: int


def send_all(producer: Any, records: Sequence[Sent]) -> None:
    for topic, partition, key, value, timestamp in records:
        producer.produce(topic, value, key, partition, None, None, timestamp, None)
    producer.flush()


def run_directory(
    path: Path,
    topology: Callable[[], Topology],
    records: Sequence[Sent],
    partitions: Mapping[str, int],
    *,
    sinks: Mapping[str, int],
    application: str = "app",
    cut: str | None = None,
    offsets: bool = True,
    **settings: Any,
) -> Path:
    """Writes the run directory of a backfill over records, whose offsets are their numbers in each partition.

    :param partitions: of the source topics; ``sinks`` those of the topics that are only written.
    :param cut: the cut of the run, as JSON; ``None`` if it has none.
    :param offsets: whether its history has offsets.
    :param settings: of the application, in snake case.
    """
    made = topology()
    with Cluster(path.parent / f"{path.name}-state", topics={**partitions, **sinks}) as cluster:
        send_all(cluster.clients.producer({}), records)
        app = cluster.start(made, application_id=application, statestore_cache_max_bytes=0, **settings)
        group = cluster.broker.groups.group(application)
        plans = plan_tasks(made, {"application.id": application}, {**partitions, **sinks})
        inputs = [place for plan in plans for one in range(plan.tasks) for place in plan.partitions(one)]
        cluster.until(lambda: all(processed(cluster, group, place) for place in inputs))
        assert app.close(30)
        tasks = [_task(path, cluster, group, plan, one, sinks) for plan in plans for one in range(plan.tasks)]
    histories = {topic: {"offset": "offset" if offsets else None} for topic in partitions}
    run = {"version": 1, "application_id": application, "inputs": histories, "cut": cut, "options": {}, "stages": 1}
    (path / "run.json").write_text(json.dumps(run))
    (path / "stage=0" / "_DONE.json").write_text(json.dumps({"stage": 0, "tasks": tasks}))
    return path


def processed(cluster: Cluster, group: Any, place: TopicPartition) -> bool:
    """Whether a group has committed an offset of a partition behind its last committed record that it has to process.

    Records to skip at the end of a partition may lie behind the offset.
    """
    if place not in group.offsets:
        return False
    log = cluster.broker.topics[place.topic].partitions[place.partition]
    first = max(log.start_offset, group.offsets[place].offset)
    with cluster.broker.lock:
        found = [] if log.start_offset == log.end_offset else log.read(first, log.end_offset, True)[0]
    rule = TopicPartitionMetadata.decode(group.offsets[place].metadata).skip or (0, 0)
    return all(one.timestamp()[1] < rule[0] and one.offset() < rule[1] for one in found)


def _task(path: Path, cluster: Cluster, group: Any, plan: TaskPlan, number: int, sinks: Mapping[str, int]) -> Any:
    state: list[dict[str, Any]] = []
    counts = {}
    for store, topic in plan.changelogs.items():
        if store not in plan.source_changelogs:
            versioned = "history_retention_ms" in plan.topology.stores[store].supplier.parameters
            rows = _compacted(cluster, topic, number, versioned)
            counts[topic] = len(rows)
            state += rows
    outputs = []
    for topic in plan.topics_written - counts.keys():
        if number == 0 and topic in sinks:  # who wrote a record is not known: the first task has them all
            outputs += [_row(topic, one) for one in cluster.broker.records(topic)]
    counts |= {topic: sum(row["topic"] == topic for row in outputs) for topic in {row["topic"] for row in outputs}}
    files = []
    for kind, rows in (("state", state), ("record", outputs)):
        if rows:
            file = path / "stage=0" / f"kind={kind}" / f"s{plan.subtopology}-p{number}-a0.parquet"
            file.parent.mkdir(parents=True, exist_ok=True)
            numbered = [{**row, "seq": seq, "upstream": number} for seq, row in enumerate(rows)]
            pq.write_table(pa.Table.from_pylist(numbered, COLUMNS), file)
            files.append(f"kind={kind}/{file.name}")
    (path / "stage=0").mkdir(parents=True, exist_ok=True)
    committed = {place.topic: group.offsets[place] for place in plan.partitions(number)}
    metadata = {topic: TopicPartitionMetadata.decode(one.metadata) for topic, one in committed.items()}
    return {
        "partition": number,
        "subtopology": plan.subtopology,
        "attempt": 0,
        "files": files,
        "counts": counts,
        "partition_times": {topic: one.partition_time for topic, one in metadata.items()},
        "processor_times": {name: time for one in metadata.values() for name, time in one.processors.items()},
        "positions": {topic: one.offset for topic, one in committed.items() if one.offset},
    }


def _compacted(cluster: Cluster, topic: str, number: int, versioned: bool) -> list[dict[str, Any]]:
    latest: dict[Any, dict[str, Any]] = {}
    for record in cluster.broker.records(topic):
        if record.partition() == number:
            row = _row(topic, record)
            place = (row["key"], row["ts"]) if versioned else row["key"]
            latest.pop(place, None)
            if versioned or row["value"] is not None:
                latest[place] = row
    return list(latest.values())


def _row(topic: str, record: Any) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": record.partition(),
        "key": record.key(),
        "value": record.value(),
        "ts": record.timestamp()[1],
        "headers": [{"key": name, "value": value} for name, value in record.headers() or ()] or None,
    }
