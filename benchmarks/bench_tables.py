"""Reads a table of millions of keys, each in the changelog once, as Spark's tasks do, in this process.

    python -m benchmarks tables           starts a broker of its own
    python -m benchmarks.bench_tables ADDRESS [KEYS]

5,000,000 keys of 41 bytes with counts in two partitions, written in transactions, so that markers are between them: the
table of an application whose keys never come twice, and which is not compacted. `wall` is the time of both partitions
one after the other, `CPU` the processor time of this process in all, and of the thread that runs the Python part
alone: librdkafka's threads are the rest. `peak` is the most memory that the process had. The last line is Spark's in
`local[2]`, both partitions side by side, with the processor time of Java and of Spark's workers.
"""

from __future__ import annotations

import resource
import sys
import time
from contextlib import ExitStack

from confluent_kafka import Producer

from benchmarks.bench_spark import cpu_s, topology
from streams.kafka.confluent.clients import ConfluentClients
from streams.kafka.ports import NewTopic
from streams.spark import local_session, pin_offsets, read_table
from streams.spark.rows.store_layouts import table_layout
from streams.spark.sources.offsets import cluster_settings
from streams.spark.sources.table_source import table_plan
from tools.kafka.broker import Broker

APPLICATION, PARTITIONS, KEYS, EACH = "bench-tables", 2, 5_000_000, 50_000
TIMES = 1_700_000_000_000


def fill(address: str, topic: str, keys: int) -> None:
    """Writes each key once, unless the topic is there."""
    admin = ConfluentClients(address).admin({})
    if topic in admin.topics([topic]):
        return
    admin.create_topics([NewTopic(name=topic, partitions=PARTITIONS)])
    producer = Producer({
        "bootstrap.servers": address, "transactional.id": topic, "queue.buffering.max.messages": 1_000_000,
        "linger.ms": 5,
    })  # fmt: skip
    producer.init_transactions(60)
    for first in range(0, keys, EACH):
        producer.begin_transaction()
        for number in range(first, min(first + EACH, keys)):
            producer.produce(
                topic,
                number.to_bytes(8, "big"),
                b"customer-%032d" % number,
                number % PARTITIONS,
                timestamp=TIMES + number,
            )
        producer.commit_transaction(60)


def run(address: str, keys: int) -> None:
    topic = f"{APPLICATION}-counts-changelog"
    fill(address, topic, keys)
    config = cluster_settings({"bootstrap.servers": address, "application.id": APPLICATION})
    layout = table_layout(config, topology(), "counts")
    print(f"{keys:,} keys; seconds:      wall   CPU  Python   us a row    peak", flush=True)
    for limit in (64, 4096):
        plan = table_plan(config, layout, pin_offsets(config, topic), memory_bytes=limit << 20)
        wall, cpu, own = time.monotonic(), time.process_time(), time.thread_time()
        rows = sum(len(batch) for wanted in plan.ranges for batch in plan.batches(wanted))
        assert rows == keys
        wall, cpu, own = time.monotonic() - wall, time.process_time() - cpu, time.thread_time() - own
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        name = "in memory" if limit > 1000 else f"{limit} MiB"
        print(f"{name:20} {wall:12.1f} {cpu:5.1f} {own:7.1f} {own * 1e6 / keys:10.2f} {peak:5,} MiB", flush=True)
    spark = local_session(PARTITIONS, name="bench", settings={"spark.log.level": "ERROR"})
    read_table(spark, config, topology(), "counts").limit(1).collect()  # starts the workers
    wall, cpu = time.monotonic(), cpu_s()
    df = read_table(spark, config, topology(), "counts")
    assert df.selectExpr("count(*)", "max(key)", "max(value)").collect()[0][0] == keys
    print(f"{'Spark, 64 MiB':20} {time.monotonic() - wall:12.1f} {cpu_s() - cpu:5.1f}", flush=True)
    spark.stop()


def main(arguments: list[str]) -> int:
    with ExitStack() as held:
        address = arguments[0] if arguments else held.enter_context(Broker()).bootstrap
        run(address, int(arguments[1]) if len(arguments) > 1 else KEYS)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
