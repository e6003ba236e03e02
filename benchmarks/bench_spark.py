"""Reads a topic and tables of stores as DataFrames of Spark, from a real broker.

    python -m benchmarks spark            starts a broker of its own
    python -m benchmarks.bench_spark ADDRESS [RECORDS]

A million records of about 70 bytes under 100,000 keys, in two partitions. Each case runs three times in `local[2]`;
`wall` is the best rate of a core by the clock, `CPU` that of a second of processor time of Spark and its workers, the
broker not counted. `task` is the work of a task without Spark, in this process. On a machine that does other things
only the rates by processor time mean something.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from streams import Processor
from streams.kafka.confluent.clients import ConfluentClients
from streams.kafka.ports import NewTopic
from streams.spark import local_session, pin_offsets, read_table, read_topic
from streams.spark.rows.store_layouts import table_layout
from streams.spark.sources.offsets import cluster_settings
from streams.spark.sources.table_source import table_plan
from streams.spark.sources.topic_plan import plan_of
from tools.kafka.broker import Broker

ROUNDS, CORES, KEYS = 3, 2, 100_000
TICKS = os.sysconf("SC_CLK_TCK")
APPLICATION = "bench"


class Keep(Processor[Any, Any, Any, Any]):
    """Stands for the application, which does not run here."""

    def process(self, record: Any) -> None:
        raise AssertionError


def topology() -> Topology:
    made = Topology().add_source("source", "input").add_processor("keep", Keep, "source")
    builders = [
        Stores.key_value_store("counts", Serdes.STRING, Serdes.LONG, with_timestamps=True),
        Stores.window_store("windows", 86_400_000, 3_600_000, Serdes.STRING, Serdes.LONG),
    ]
    for builder in builders:
        made.add_state_store(builder, "keep")
    return made


def fill(address: str, topic: str, records: Iterator[tuple[bytes, bytes, int]]) -> None:
    """Writes a topic of two partitions, unless it is there."""
    clients = ConfluentClients(address)
    admin = clients.admin({})
    if topic in admin.topics([topic]):
        return
    admin.create_topics([NewTopic(name=topic, partitions=2)])
    producer = clients.producer({"queue.buffering.max.messages": 1_000_000, "linger.ms": 5})
    for number, (key, value, timestamp) in enumerate(records):
        producer.produce(topic, value, key, number % 2, None, None, timestamp, None)
        if number % 100_000 == 0:
            producer.flush(60)
    assert producer.flush(120)
    producer.close()


def cpu_s() -> float:
    """Returns the processor time of this process's descendants: Java and Spark's workers."""
    parents: dict[int, int] = {}
    times: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(path.parent.name)
        parents[pid] = int(fields[1])
        times[pid] = sum(map(int, fields[11:15])) / TICKS  # with children that have ended

    def ours(pid: int) -> bool:
        while pid > 1:
            pid = parents.get(pid, 0)
            if pid == os.getpid():
                return True
        return False

    return sum(spent for pid, spent in times.items() if ours(pid))


def measure(name: str, count: int, read: Callable[[], Any]) -> None:
    best_wall = best_cpu = float("inf")
    rows = 0
    for _ in range(ROUNDS):
        cpu, wall = cpu_s(), time.monotonic()
        rows = read().selectExpr("count(*)", "max(key)", "max(value)").collect()[0][0]
        best_wall, best_cpu = min(best_wall, time.monotonic() - wall), min(best_cpu, cpu_s() - cpu)
    print(f"{name:32} {count / best_wall / CORES:9,.0f} {count / best_cpu:9,.0f}   {rows:,} rows", flush=True)


def measure_task(name: str, count: int, plan: Any) -> None:
    best_wall = best_cpu = float("inf")
    rows = 0
    for _ in range(ROUNDS):
        cpu, wall = time.process_time(), time.monotonic()
        rows = sum(len(batch) for wanted in plan.ranges for batch in plan.batches(wanted))
        best_wall, best_cpu = min(best_wall, time.monotonic() - wall), min(best_cpu, time.process_time() - cpu)
    print(f"{name:32} {count / best_wall:9,.0f} {count / best_cpu:9,.0f}   {rows:,} rows", flush=True)


def run(address: str, count: int) -> None:
    log, windows = f"{APPLICATION}-counts-changelog", f"{APPLICATION}-windows-changelog"
    long = Serdes.LONG.serialize
    key = [b"customer-%034d" % number for number in range(KEYS)]
    fill(address, log, ((key[n * 7919 % KEYS], long(n), 1_700_000_000_000 + n) for n in range(count)))
    hour = 3_600_000
    fill(address, windows, (
        (key[n * 7919 % KEYS // 10] + long(n // (count // 20) * hour) + bytes(4), long(n), n) for n in range(count)
    ))  # fmt: skip
    config = cluster_settings({"bootstrap.servers": address, "application.id": APPLICATION})
    made, string, number = topology(), Serdes.STRING, Serdes.LONG
    print(f"{count:,} records; rows a second:           wall       CPU")
    plain = {"headers": False, "times": "timestamp", "max_rows_per_task": None}
    measure_task("task: topic, bytes", count, plan_of(config, log, pin_offsets(config, log), None, None, **plain))
    measure_task("task: topic, serdes", count, plan_of(config, log, pin_offsets(config, log), string, number, **plain))
    for store, limit in (("counts", 64 << 20), ("counts", 1 << 20), ("windows", 64 << 20)):
        layout = table_layout(config, made, store)
        plan = table_plan(config, layout, pin_offsets(config, layout.topic), memory_bytes=limit)
        measure_task(f"task: table {store}, {limit >> 20} MiB", count, plan)
    spark = local_session(CORES, name="bench", settings={"spark.log.level": "ERROR"})
    measure("read_topic, bytes", count, lambda: read_topic(spark, config, log))
    measure("read_topic, serdes", count, lambda: read_topic(spark, config, log, key=string, value=number))
    measure("read_table counts", count, lambda: read_table(spark, config, made, "counts"))
    measure(
        "read_table counts, on disk", count, lambda: read_table(spark, config, made, "counts", memory_bytes=1 << 20)
    )
    measure("read_table windows", count, lambda: read_table(spark, config, made, "windows"))
    spark.stop()


def main(arguments: list[str]) -> int:
    with ExitStack() as held:
        address = arguments[0] if arguments else held.enter_context(Broker()).bootstrap
        run(address, int(arguments[1]) if len(arguments) > 1 else 1_000_000)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
