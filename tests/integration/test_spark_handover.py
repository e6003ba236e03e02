"""A handover on a real broker: processes that are killed, workers that start too early, and live counts behind it."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from integration_support.counting import PARTITIONS, WORDS, Counting
from integration_support.topics import Topics
from integration_support.workers import APPS, ROOT, Workers
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from spark_support.finished_runs import Sent, run_directory
from streams.kafka.record_ranges import read_ranges
from streams.spark import read_topic
from streams.spark.handover.cluster import Cluster
from streams.spark.handover.cut import Cut
from waiting import wait_until

KILLED = """
import logging, os, signal, sys

class KillAfter(logging.Handler):
    left = int(sys.argv[4])

    def emit(self, record):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

logger = logging.getLogger("streams.spark")
logger.setLevel(logging.INFO)
logger.addHandler(KillAfter())
from streams.spark.handover.cut import Cut
from streams.spark.handover.bootstrap import bootstrap
from word_count import topology
config = {"application.id": sys.argv[1], "bootstrap.servers": sys.argv[2]}
bootstrap(sys.argv[3], config, topology=topology, cut=Cut.from_json(sys.argv[5]))
"""


def word_count(counting: Counting) -> Callable[[], Topology]:
    """The topology of the application, with the topics of the test."""
    spec = importlib.util.spec_from_file_location("word_count_of_test", APPS / "word_count.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    os.environ.update({"INPUTS": counting.input, "OUTPUT": counting.output, "VERSION": "1"})
    try:
        spec.loader.exec_module(module)
        made: Topology = module.topology().build()
    finally:
        for name in ("INPUTS", "OUTPUT", "VERSION"):
            del os.environ[name]
    return lambda: made


def abort(bootstrap: str, topic: str) -> None:
    """Writes records that were never committed behind the history."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-aborted"})
    producer.init_transactions(60)
    producer.begin_transaction()
    for number in range(100):
        producer.produce(topic, f"word-{number}", partition=number % PARTITIONS)
    producer.flush(60)
    producer.abort_transaction(60)


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_a_handover_that_is_killed_at_every_step_counts_each_word_once(
    guarantee: str, topics: Topics, workers: Workers, tmp_path: Path
) -> None:
    """A worker that starts in between ends with an error, and the source has an aborted transaction at the cut."""
    counting = Counting(topics, workers, guarantee)
    counting.send()
    abort(topics.bootstrap, counting.input)
    config = {"application.id": workers.application, "bootstrap.servers": topics.bootstrap}
    history = [Sent(counting.input, n % PARTITIONS, None, b"word-%d" % n, 1_000 + n) for n in range(WORDS)]
    partitions, sinks = {counting.input: PARTITIONS}, {counting.output: PARTITIONS}
    run = run_directory(
        tmp_path / "run", word_count(counting), history, partitions, sinks=sinks, application=workers.application
    )
    cut = Cut.at_end(config, [counting.input])
    env = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{APPS}",
        "INPUTS": counting.input,
        "OUTPUT": counting.output,
        "VERSION": "1",
    }
    for step in (2, 3):
        arguments = [workers.application, topics.bootstrap, str(run), str(step), cut.to_json()]
        killed = subprocess.run([sys.executable, "-c", KILLED, *arguments], env=env, timeout=120, check=False)
        assert killed.returncode == -9
    worker = counting.start()
    assert worker.wait() != 0
    assert "is not complete" in worker.text
    assert topics.end_offsets(counting.output, PARTITIONS) == dict.fromkeys(range(PARTITIONS), 0)
    (tmp_path / "cut.json").write_text(cut.to_json())
    command = [sys.executable, "-m", "streams", "spark"]
    options = ["--application-id", workers.application, "--bootstrap-servers", topics.bootstrap]
    check = [*command, "check", "word_count:topology", *options]
    words = ["bootstrap", "word_count:topology", "--run-dir", str(run), "--cut", str(tmp_path / "cut.json"), *options]
    done = subprocess.run([*command, *words], env=env, timeout=120, check=True, capture_output=True, text=True)
    assert "is complete" in done.stdout
    subprocess.run(check, env=env, timeout=120, check=True)
    counting.send()
    worker = counting.start()
    with topics.reader(counting.output) as reader:
        counting.read_round(reader)
        worker.stop()
        reader.to_end()
        assert all(values == ["2"] for values in reader.values.values())


BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def number(value: int) -> bytes:
    return value.to_bytes(8, "big")


def test_the_page_runs_and_live_goes_on_where_the_backfill_ended(
    spark: Any, kafka: str, topics: Topics, root: Path, tmp_path: Path
) -> None:
    """From Parquet files by Spark to a worker; a record behind the cut is there before the handover."""
    payments = topics.create("payments", 2)
    send = partial(pay, kafka, payments)
    send([(n % 2, f"payer-{n % 7}", n) for n in range(500)])
    read_topic(spark, kafka, payments).write.parquet(str(tmp_path / "lake"))
    send([(0, "payer-0", 1_000)])
    blocks = BLOCK.findall((root / "docs" / "spark-handover.md").read_text())
    space: dict[str, Any] = {"__name__": "example", "KAFKA": kafka, "LAKE": str(tmp_path / "lake")}
    space |= {"RUN_DIR": tmp_path / "run", "STATE_DIR": str(tmp_path / "state")}
    for place, block in enumerate(blocks):
        named = block.replace('"payments', f'"{payments}')
        exec(compile(named, f"docs/spark-handover.md, block {place}", "exec"), space)
    try:
        send([(1, "payer-1", 2_000)])
        expected: dict[str, int] = {}
        for n in range(500):
            expected[f"{n % 2}/payer-{n % 7}"] = expected.get(f"{n % 2}/payer-{n % 7}", 0) + n
        expected["0/payer-0"] += 1_000
        expected["1/payer-1"] += 2_000
        changelog = Cluster({"application.id": "reader", "bootstrap.servers": kafka})

        def table() -> dict[str, int]:
            assert space["app"].failure is None, space["app"].failure
            places = [TopicPartition(f"{payments}-v2-totals-changelog", one) for one in range(2)]
            ends = changelog.ends(places)
            found = {}
            for message in read_ranges(changelog.reader, {place: (0, ends[place]) for place in places}):
                found[f"{message.partition()}/{message.key().decode()}"] = int.from_bytes(message.value(), "big")
            return found

        wait_until("the live totals are right", lambda: table() == expected, tell=table)
    finally:
        assert space["app"].close(30)
        changelog.close()


def pay(kafka: str, topic: str, payments: list[tuple[int, str, int]]) -> None:
    producer = Producer({"bootstrap.servers": kafka})
    for partition, payer, amount in payments:
        producer.produce(topic, number(amount), payer, partition)
    assert producer.flush(60) == 0
