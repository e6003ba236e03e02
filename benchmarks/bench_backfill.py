"""A backfill in Spark and without it, next to the same task alone and a count written with DataFrames and in DuckDB.

    python -m benchmarks backfill [ROWS] [--cores N] [--keys N] [--rounds N] [--partitions N] [--live] [--only NAME]

Counts by key with and without outputs, joins two windowed streams (half of the rows each), and prints rows per second
of wall time and core, rows per second of processor time of all processes, and the memory, by turns. The memory is the
sum of the peaks of all processes, an upper bound. A lake *in order* has a file for each partition with rising offsets;
the others have files with rows of all partitions in no order. ``--partitions 1`` is one hot partition. With ``--live``,
a worker with one thread runs the same topologies over the same rows on a real broker, whose time is not counted. The
count of DuckDB runs if that is installed (``pip install duckdb``).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bench_runner import run as run_alone
from benchmarks.cluster import Cluster, watch
from benchmarks.histories import counted, joined
from streams.runtime.runner.options import RunnerOptions
from streams.spark import Backfill, History, local_session
from streams.spark.executor.murmur2 import partitions_of_keys
from tools.kafka.broker import Broker

try:
    import duckdb
except ImportError:
    duckdb = None

FILE_ROWS = 500_000
LAKE = pa.schema([
    ("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", pa.int64()),
    ("key", pa.binary()), ("value", pa.binary()),
])  # fmt: skip
TICKS = os.sysconf("SC_CLK_TCK")


def write_lake(path: Path, rows: int, keys: int, partitions: int) -> None:
    """Writes rows in files, in no order inside of a file; and next to it, in `ordered`, a file for each partition."""
    path.mkdir(parents=True)
    rng = np.random.default_rng(7)
    names = pa.array([b"k%06d" % number for number in range(keys)], pa.binary())
    of = partitions_of_keys(names, partitions)
    ends = np.zeros(partitions, dtype=np.int64)
    ordered(path).mkdir()
    with ExitStack() as stack:
        writers = [
            stack.enter_context(pq.ParquetWriter(ordered(path) / f"{number:03d}.parquet", LAKE))
            for number in range(partitions)
        ]
        for begin in range(0, rows, FILE_ROWS):
            count = min(FILE_ROWS, rows - begin)
            chosen = rng.integers(0, keys, count)
            places = of[chosen]
            offsets = np.empty(count, dtype=np.int64)
            for partition in range(partitions):
                found = np.flatnonzero(places == partition)
                offsets[found] = ends[partition] + np.arange(len(found))
                ends[partition] += len(found)
            columns = [places, offsets, 1_700_000_000_000 + begin + np.arange(count), names.take(pa.array(chosen))]
            table = pa.table([*columns, [b"x" * 60] * count], schema=LAKE)
            for partition, writer in enumerate(writers):
                writer.write_table(table.filter(pa.array(places == partition)))
            pq.write_table(table.take(pa.array(rng.permutation(count))), path / f"{begin:010d}.parquet")


def ordered(path: Path) -> Path:
    return path.with_name(f"{path.name}-in-order")


def processes() -> dict[int, tuple[int, float, int]]:
    """Returns parent, seconds of processor time and peak memory in MiB of each process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            status = (path / "status").read_text()
        except OSError:
            continue
        peak = next((int(line.split()[1]) >> 10 for line in status.splitlines() if line.startswith("VmHWM")), 0)
        found[int(path.name)] = int(fields[1]), sum(map(int, fields[11:15])) / TICKS, peak
    return found


def own_processes() -> dict[int, tuple[int, float, int]]:
    """Returns this process and all below it."""
    known, own = processes(), {os.getpid()}
    while more := {pid for pid, (parent, _, _) in known.items() if parent in own and pid not in own}:
        own |= more
    return {pid: known[pid] for pid in own if pid in known}


def measured(what: str, rows: int, cores: int, work: Callable[[], Any]) -> None:
    before = own_processes()
    for pid in before:
        with suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak begins again
    begin = time.perf_counter()
    work()
    wall = time.perf_counter() - begin
    after = own_processes()
    used = sum(one[1] for one in after.values()) - sum(one[1] for one in before.values())
    print(
        f"{what:>34}: {rows / wall / cores:>9,.0f} rows/s and core, {rows / used:>9,.0f} per CPU s"
        f" ({wall:.1f} s, {used:.1f} CPU s), {sum(one[2] for one in after.values()):,} MiB",
        flush=True,
    )


def messages(lake: Path, topic: str) -> Iterator[dict[str, Any]]:
    """The rows of a lake, those of each partition in order."""
    for path in sorted(lake.iterdir()):
        rows = pq.read_table(path).sort_by("offset").to_pydict()
        columns = (rows[name] for name in ("partition", "timestamp", "key", "value"))
        for partition, timestamp, key, value in zip(*columns, strict=True):
            yield {"topic": topic, "key": key, "value": value, "partition": partition, "timestamp": timestamp}


class Live:
    """A broker with the rows of the lakes in topics."""

    def __init__(self, cluster: Cluster, root: Path, partitions: int) -> None:
        self._cluster, self._prefix = cluster, f"live-{uuid.uuid4().hex[:8]}-"
        cluster.create(*(self._prefix + topic for topic in ("in", "left", "right", "out")), partitions=partitions)
        for topic in ("in", "left", "right"):
            cluster.write(messages(root / topic, self._prefix + topic))

    def run(self, topology: str, topics: list[str]) -> str:
        """Runs a worker over topics; returns what is printed of it."""
        inputs, output, name = [self._prefix + topic for topic in topics], self._prefix + "out", uuid.uuid4().hex[:8]
        due = self._cluster.end(inputs)
        with tempfile.TemporaryDirectory() as directory:
            words = [sys.executable, "-m", "benchmarks.histories", topology, "--bootstrap", self._cluster.bootstrap]
            words += ["--app-id", name, "--state-dir", directory, "--prefix", self._prefix]
            with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
                try:
                    rate, seconds = watch(self._cluster, process, name, inputs, output, due)
                finally:
                    process.terminate()
        for deleted in self._cluster.admin.delete_topics(self._cluster.topics(name)).values():
            deleted.result()
        return f"{rate:>9,.0f} rows/s and core, {due / seconds:>9,.0f} per CPU s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--live", action="store_true")
    parser.add_argument("--only", default="", help="only those whose names have this in them")
    parser.add_argument("--without", action="append", default=[], help="the name of one that is not measured")
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="backfill-bench-"))
    os.environ.setdefault("PYTHONPATH", os.getcwd())
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        for topic, rows in (("in", given.rows), ("left", given.rows // 2), ("right", given.rows // 2)):
            write_lake(root / topic, rows, given.keys, given.partitions)
        live = None
        if given.live:
            live = Live(Cluster(stack.enter_context(Broker()).bootstrap), root, given.partitions)
        spark = local_session(given.cores, settings={"spark.log.level": "ERROR", "spark.driver.memory": "3g"})
        _run(spark, root, given, live)
        spark.stop()


def _run(spark: Any, root: Path, given: argparse.Namespace, live: Live | None) -> None:

    def backfill(
        topology: Any,
        topics: list[str],
        outputs: Any,
        *,
        in_order: bool = False,
        sort: bool = False,
        engine: str = "spark",
    ) -> Callable[[], Any]:
        session = spark if engine == "spark" else None
        lakes = {topic: ordered(root / topic) if in_order else root / topic for topic in topics}
        inputs = {topic: History.parquet(session, str(lake)) for topic, lake in lakes.items()}
        if sort:  # what a filter leaves is not known to be in order
            inputs = {topic: replace(one, df=one.df.where("offset >= 0")) for topic, one in inputs.items()}
        counts = {**dict.fromkeys(topics, given.partitions), "out": given.partitions}

        def work() -> None:
            directory = tempfile.mkdtemp(dir=root)
            options = {"run_dir": directory, "partitions": counts, "outputs": outputs}
            settings = {"statestore.cache.max.bytes": 0}
            made = Backfill(
                session, topology, inputs, application_id="bench", config=settings, engine=engine, **options
            )
            made.run()
            shutil.rmtree(directory)

        return work

    def frame() -> None:
        counts = spark.read.parquet(str(root / "in")).groupBy("key").count()
        counts.write.format("noop").mode("overwrite").save()

    def duck() -> None:
        query = f"select key, count(*) from '{root / 'in'}/*.parquet' group by key"
        duckdb.connect(config={"threads": given.cores}).sql(query).arrow()

    works: dict[str, Callable[[], Any]] = {
        "count, state only": backfill(counted, ["in"], "none"),
        "count, all outputs": backfill(counted, ["in"], "all"),
        "count in order, state only": backfill(counted, ["in"], "none", in_order=True),
        "count in order, sorted by Spark": backfill(counted, ["in"], "none", in_order=True, sort=True),
        "windowed join, all outputs": backfill(joined, ["left", "right"], "all"),
        "windowed join in order, all outputs": backfill(joined, ["left", "right"], "all", in_order=True),
        "DataFrame groupBy().count()": frame,
    }
    for engine in ("local[1]", f"local[{given.cores}]"):
        for what, in_order in ((f"count, {engine}", False), (f"count in order, {engine}", True)):
            works[what] = backfill(counted, ["in"], "none", in_order=in_order, engine=engine)
    if duckdb is not None:
        works["DuckDB, count"] = duck
    works = {what: work for what, work in works.items() if given.only in what and what not in given.without}
    for what, work in works.items():
        if "local" not in what and "DuckDB" not in what:
            work()  # warms up the JVM and the workers
    for _ in range(given.rounds):
        for what, work in works.items():
            measured(what, given.rows, given.cores, work)
        for outputs in (False, True) if not given.only else ():
            options = RunnerOptions(kept_outputs=None if outputs else frozenset())
            seconds, _rows = run_alone(given.rows // 4, given.keys, options)
            what = f"runner without Spark, {'outputs' if outputs else 'state only'}"
            print(f"{what:>34}: {given.rows // 4 / seconds:>28,.0f} per CPU s", flush=True)
        for topology, topics in (("count", ["in"]), ("join", ["left", "right"])) if live is not None else ():
            print(f"{f'live worker, {topology}':>34}: {live.run(topology, topics)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
