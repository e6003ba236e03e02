"""A backfill of two stages whose driver is killed by the second one; run as a program it is that driver."""

from __future__ import annotations

import os
import signal
import sys

from processor_api.serde import Serdes
from spark_support.quick_start import QUICK_START
from streams import Consumed, Grouped, Materialized, Produced, StreamsBuilder

KILLED = "KILLED_BY_THE_SECOND_STAGE"
"""The environment variable with the process that the first record of the second stage kills."""


def topology() -> StreamsBuilder:
    text, number = Serdes.STRING, Serdes.LONG
    builder = StreamsBuilder()
    events = builder.stream("events", Consumed(key_serde=text, value_serde=text))
    grouped = events.group_by(lambda key, value: value, Grouped(key_serde=text, value_serde=text))
    counts = Materialized(name="by-value", key_serde=text, value_serde=number)
    table = grouped.aggregate(lambda: 0, lambda key, value, total: total + survived(), materialized=counts)
    table.to_stream().to("out", Produced(key_serde=text, value_serde=number))
    return builder


def survived() -> int:
    """Returns 1 unless there is a process to kill."""
    driver = os.environ.pop(KILLED, None)
    if driver is not None:
        os.kill(int(driver), signal.SIGKILL)
    return 1


def main(history: str, run_dir: str) -> None:
    from streams.spark import Backfill, History, local_session

    os.environ[KILLED] = str(os.getpid())
    settings = {"spark.driver.extraJavaOptions": QUICK_START, "spark.log.level": "ERROR"}
    spark = local_session(1, settings=settings)
    inputs = {"events": History.parquet(spark, history)}
    Backfill(
        spark, "spark_support.killed_driver:topology", inputs, application_id="app", run_dir=run_dir,
        partitions={"events": 1},
    ).run()  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:])
