"""A backfill on a standalone cluster of Spark: a master and two workers, each a process of its own."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from backfill_kit import Row, write_history
from spark_support.quick_start import QUICK_START
from waiting import wait_until

DEADLINE_S = 120
JOB_DEADLINE_S = 1_800
"""Long, since only a job that hangs waits for it: on a busy machine a Spark job takes minutes."""

JOB = """
import sys
from pyspark.sql import SparkSession
from streams.spark import Backfill, History

master, history, names, run_dir = sys.argv[1:]
spark = SparkSession.builder.master(master).config("spark.cores.max", "2").config("spark.executor.cores", "1")
spark = spark.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
spark = spark.config("spark.ui.enabled", "false").config("spark.executor.memory", "512m")
spark = spark.config("spark.executor.extraJavaOptions", "QUICK_START").getOrCreate()
inputs = {"events": History.parquet(spark, history), "names": History.parquet(spark, names)}
backfill = Backfill(
    spark, "app:topology", inputs, application_id="app", run_dir=run_dir, partitions={"events": 2, "names": 1}
)
result = backfill.run()
executors = spark._jsc.sc().getExecutorMemoryStatus().size() - 1
table = {row.key: row.value for row in result.table("by-value").collect()}
print("RESULT", executors, sorted(table.items()))
spark.stop()
"""

APP = """
from streams import Consumed, Grouped, Materialized, Serdes, StreamsBuilder


def topology():
    text, number = Serdes.STRING, Serdes.LONG
    builder = StreamsBuilder()
    events = builder.stream("events", Consumed(key_serde=text, value_serde=text))
    names = builder.global_table("names", Consumed(key_serde=text, value_serde=text))
    named = events.join(names, lambda value, name: name, key_selector=lambda key, value: value)
    grouped = named.group_by(lambda key, value: value, Grouped(key_serde=text, value_serde=text))
    grouped.count(materialized=Materialized(name="by-value", key_serde=text, value_serde=number))
    return builder
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def process(arguments: list[str], log: Path, environment: dict[str, str]) -> Iterator[None]:
    with log.open("w") as output:
        started = subprocess.Popen(arguments, stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            yield
        finally:
            started.terminate()
            started.wait(DEADLINE_S)


def wait_for(log: Path, text: str, count: int = 1) -> None:
    wait_until(
        f"{log.name} says {text!r} {count} times",
        lambda: len(re.findall(text, log.read_text())) >= count,
        lambda: log.read_text()[-2000:],
    )


@pytest.mark.slow  # a master and two workers of Spark: minutes of the processor
def test_two_workers_run_the_tasks_of_a_backfill(tmp_path: Path) -> None:
    """They read the global table that one of them has filled."""
    pyspark = pytest.importorskip("pyspark")
    home = Path(pyspark.__file__).parent
    app = tmp_path / "app"
    app.mkdir()
    (app / "app.py").write_text(APP)
    (app / "job.py").write_text(JOB.replace("QUICK_START", QUICK_START))
    rows = [Row(b"k%d" % (one % 40), b"v%d" % (one % 11), 1_000 + one, None, one % 2) for one in range(2_000)]
    history = write_history(tmp_path / "history", rows)
    names = write_history(tmp_path / "names", [Row(b"v%d" % one, b"n%d" % one, 0, None, 0) for one in range(11)])
    environment = {
        **os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(home),
        "SPARK_WORKER_DIR": str(tmp_path / "work"), "SPARK_DAEMON_JAVA_OPTS": QUICK_START,
        "SPARK_SUBMIT_OPTS": QUICK_START,
    }  # fmt: skip
    spark_class, port = str(home / "bin" / "spark-class"), free_port()
    address = f"spark://127.0.0.1:{port}"
    with ExitStack() as running:
        master = [spark_class, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
        running.enter_context(process([*master, "--webui-port", "0"], tmp_path / "master.log", environment))
        worker = [spark_class, "org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g"]
        for name in ("one", "two"):
            arguments = [*worker, "--host", "127.0.0.1", "--webui-port", "0", address]
            running.enter_context(process(arguments, tmp_path / f"{name}.log", environment))
        wait_for(tmp_path / "master.log", "Registering worker", 2)
        done = subprocess.run(
            [sys.executable, "job.py", address, history, names, str(tmp_path / "run")],
            cwd=app, env=environment, capture_output=True, text=True, timeout=JOB_DEADLINE_S,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    expected = sorted((f"n{value}", len(range(value, 2_000, 11))) for value in range(11))
    assert f"RESULT 2 {expected}" in done.stdout
