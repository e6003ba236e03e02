"""A handover from history to a live application, to look at: `make demo-spark`, or `python -m tools.spark_demo`.

Payments of two years are in Parquet files and in a topic. Spark computes the totals of the files in three runs. One of
them is retried, and one is replaced because its file was wrong. A live application continues from the last run, and
another one computes the totals from the topic alone: both must hold the same.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from processor_api.errors import StateStoreMigratedError, StreamsRebalancingError
from processor_api.task_id import TopicPartition
from streams import (
    Consumed,
    KafkaStreams,
    Materialized,
    QueryableStoreTypes,
    Serdes,
    StoreQueryParameters,
    StreamsBuilder,
)
from streams.kafka.ports import NewTopic
from streams.spark import Backfill, BackfillResult, Cut, History, bootstrap, local_session
from streams.spark.handover.cluster import Cluster
from streams.spark.handover.finished_run import RunRow
from streams.spark.handover.rows import Sender
from tools.kafka.broker import Broker, BrokerError
from tools.maven import JavaError, java

PARTITIONS = 4
CUSTOMERS = 20
BEGIN_MS = 1_700_000_000_000
TWO_YEARS_MS = 2 * 365 * 86_400_000
DEADLINE_S = 120.0
Say = Callable[[str], Any]


def totals_of(topic: str) -> Callable[[], StreamsBuilder]:
    """Returns the function that makes the topology: the total of all payments of each customer."""

    def totals() -> StreamsBuilder:
        builder = StreamsBuilder()
        payments = builder.stream(topic, Consumed(key_serde=Serdes.STRING, value_serde=Serdes.LONG))
        table = Materialized(name="totals", key_serde=Serdes.STRING, value_serde=Serdes.LONG)
        payments.group_by_key().reduce(lambda total, amount: total + amount, materialized=table)
        return builder

    return totals


def payments(count: int, later: int) -> Iterator[RunRow]:
    """Yields payments over two years, and some after them."""
    random = Random(7)
    for number in range(count + later):
        customer = random.randrange(CUSTOMERS)
        moment = BEGIN_MS + number * TWO_YEARS_MS // count
        amount = random.randrange(1, 100_000).to_bytes(8, "big")
        yield RunRow(customer % PARTITIONS, b"customer-%d" % customer, amount, moment, None)


def run_demo(spark: Any, kafka: str, folder: Path, say: Say, *, topic: str = "payments", count: int = 100_000) -> bool:
    """Runs the demo; returns whether all totals are the same.

    :param kafka: the address of a broker.
    :param folder: for the files of the lake, the backfill and the stores.
    :param say: called with each line for the reader.
    :param count: the number of payments in the history; a hundredth of it comes later.
    """
    made, totals = list(payments(count, count // 100)), totals_of(topic)
    history, later = made[:count], made[count:]
    live = _config(f"{topic}-v2", kafka, folder)
    say(f"1. {count:,} payments of two years are in topic {topic!r}, and in files")
    with Cluster(live) as cluster:
        cluster.admin.create_topics([NewTopic(name=topic, partitions=PARTITIONS, replication_factor=1)])
        cluster.ends([TopicPartition(topic, number) for number in range(PARTITIONS)])
        send(cluster, topic, history)
        cut = Cut.at_end(live, [topic])
        say(f"2. the cut: live begins at {dict(sorted((place.partition, at) for place, at in cut.offsets.items()))}")
        send(cluster, topic, later)
        say(f"   {len(later):,} more payments come behind it")
    begin = time.monotonic()
    result = run_parts(spark, topic, history, folder, cut, say)
    say(f"   {time.monotonic() - begin:.1f} s, {result}")
    begin = time.monotonic()
    report = bootstrap(result, live)
    say(f"4. {report.rows:,} rows are in the changelog, offsets are at the cut, {time.monotonic() - begin:.1f} s")
    expected = _sums(made)
    found, seconds = totals_in(totals, live, expected)
    say(f"5. a live worker took over and is up to date, {seconds:.1f} s")
    scratch, seconds = totals_in(totals, _config(f"{topic}-scratch", kafka, folder), expected)
    say(f"6. another application read the whole topic from its beginning, {seconds:.1f} s\n")
    say(f"   {'customer':<14}{'history and live':>20}{'from scratch':>20}")
    for customer in sorted(expected, key=lambda name: (len(name), name)):
        one, other = found.get(customer), scratch.get(customer)
        say(f"   {customer:<14}{_shown(one):>20}{_shown(other):>20}{'' if one == other else '   DIFFERENT'}")
    same = found == scratch == expected
    say(f"\n   all {len(expected)} totals are the same" if same else "\n   the totals are NOT the same")
    return same


def run_parts(spark: Any, topic: str, history: list[RunRow], folder: Path, cut: Cut, say: Say) -> BackfillResult:
    """Runs the backfill in three parts, one after the other: the second twice, and the third with a wrong file first.

    :return: the result of the last one.
    """
    lake, third = folder / "lake", len(history) // 3
    parts = [history[:third], history[third : 2 * third], history[2 * third :]]
    wrong = [row._replace(value=bytes(8)) for row in parts[2]]
    ends = [0] * PARTITIONS
    results: list[BackfillResult] = []

    def backfill(number: int, name: str) -> Backfill:
        return Backfill(
            spark, totals_of(topic), {topic: History.parquet(spark, str(lake), partitions=PARTITIONS)},
            application_id=f"{topic}-v2", run_dir=folder / "runs" / name, outputs="none", overlaps="skip",
            initial_state=results[number - 1] if number else None, cut=cut,
        )  # fmt: skip

    for number, (name, rows) in enumerate((("1", parts[0]), ("2", parts[1]), ("3", wrong))):
        before = ends.copy()
        write_part(lake / f"{number}.parquet", rows, ends)
        results.append(backfill(number, name).run())
        say(f"3. run {name} continues from the run before: {len(rows):,} payments")
    retried = backfill(3, "retry").plan()
    say(f"   run 3 again: {'there is something new' if retried.is_new else 'nothing new, its result stands'}")
    write_part(lake / "2.parquet", parts[2], before)
    results[2] = backfill(2, "3-corrected").run()
    say("   the file of run 3 was wrong: another run with the corrected file replaces it")
    return results[2]


def write_part(path: Path, rows: list[RunRow], ends: list[int]) -> None:
    """Writes records with the offsets that they have in Kafka.

    :param ends: the next offset of each partition; it is moved on.
    """
    path.parent.mkdir(exist_ok=True)
    offsets = []
    for row in rows:
        offsets.append(ends[row.partition])
        ends[row.partition] += 1
    columns = {
        "partition": pa.array([row.partition for row in rows], pa.int32()),
        "offset": pa.array(offsets, pa.int64()),
        "timestamp": pa.array([row.timestamp_ms for row in rows], pa.int64()),
        "key": pa.array([row.key for row in rows], pa.binary()),
        "value": pa.array([row.value for row in rows], pa.binary()),
    }
    pq.write_table(pa.table(columns), path)


def send(cluster: Cluster, topic: str, rows: list[RunRow]) -> None:
    """Writes records to their partitions."""
    with cluster.producing([topic]) as producer:
        sender = Sender(producer, topic)
        sender.send(rows)
        sender.finish()


def totals_in(
    totals: Callable[[], StreamsBuilder], config: dict[str, Any], expected: dict[str, int]
) -> tuple[dict[str, int], float]:
    """Runs an application until it holds what is expected, or for two minutes.

    Returns its totals, and the seconds it took.
    """
    begin = time.monotonic()
    found: dict[str, int] = {}
    query = StoreQueryParameters.from_name_and_type("totals", QueryableStoreTypes.key_value_store())
    with KafkaStreams(totals, config) as app:
        while found != expected and time.monotonic() < begin + DEADLINE_S:
            try:
                with app.store(query).all() as rows:
                    found = dict(rows)
            except (StreamsRebalancingError, StateStoreMigratedError):  # it starts, or restores the store
                pass
            time.sleep(0.1)
    return found, time.monotonic() - begin


def _config(application_id: str, kafka: str, folder: Path) -> dict[str, Any]:
    return {
        "application.id": application_id,
        "bootstrap.servers": kafka,
        "state.dir": str(folder / "state"),
        "commit.interval.ms": 200,
    }


def _sums(rows: list[RunRow]) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows:
        customer = (row.key or b"").decode()
        found[customer] = found.get(customer, 0) + int.from_bytes(row.value or b"", "big")
    return found


def _shown(total: int | None) -> str:
    return "none" if total is None else f"{total:,}"


def main() -> int:
    """Runs the demo on a broker and a session of its own.

    :raises SystemExit: if Java or Maven is missing, or Kafka does not start; it says so.
    """
    try:
        java()
        return _run()
    except (BrokerError, JavaError) as error:
        raise SystemExit(str(error)) from None


def _run() -> int:
    print("starting Kafka and Spark ...", flush=True)
    with Broker() as broker, tempfile.TemporaryDirectory(prefix="streams-demo-") as folder:
        spark = local_session(2, settings={"spark.log.level": "ERROR"})
        try:
            same = run_demo(spark, broker.bootstrap, Path(folder), lambda line: print(line, flush=True))
        finally:
            spark.stop()
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
