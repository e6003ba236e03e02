"""Fills the global stores of a backfill once, in one Spark task, and writes their rows as files for all other tasks.

The records of the topics that fill them are written once too, in order, and read there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from processor_api.stores.suppliers import MEMORY, ROCKSDB
from state.directory.own_files import link_or_copy
from state.engine.port import Engine
from state.engine.spilling import ROWS_IN_MEMORY_BYTES, SpillingEngine
from streams.runtime.global_stores.readers import global_families
from streams.runtime.runner.options import RunnerOptions
from streams.runtime.runner.resources import RunnerResources
from streams.spark.backfill.engine import Attempt
from streams.spark.executor.rows import RowWriter, state_rows
from streams.spark.executor.shipped_topology import ShippedTopology
from streams.spark.executor.stage_task import local_directory
from streams.spark.executor.task_errors import Batches
from streams.spark.executor.task_input import check_unit, rows_of_files
from streams.spark.rows.state_files import COLUMNS

WRITE_ROWS = 10_000


@dataclass(frozen=True, kw_only=True)
class FillingJob:
    """Holds what the task that fills global stores has to know."""

    shipped: ShippedTopology
    topics: Mapping[str, tuple[str, ...]]
    """Files with the records of each topic."""
    attempts: str
    """The directory in which each attempt makes its own."""
    start_ms: int
    """The time at which the wall clock stands."""
    memory_bytes: int = ROWS_IN_MEMORY_BYTES
    """Bytes of rows for RocksDB up to which tasks hold them in memory."""


def fill_globals(job: FillingJob) -> Attempt:
    """Returns the function of the task that fills global stores."""
    return lambda _, attempt, batches: [run_filling(job, attempt)]


def run_filling(job: FillingJob, attempt: int) -> dict[str, Any]:
    """Fills the global stores as a live process does, and writes their rows; returns the list of the files."""
    options = RunnerOptions(
        directory=local_directory(),
        start_ms=job.start_ms,
        store_bytes=job.memory_bytes,
        global_rows={topic: rows_of_files(files) for topic, files in job.topics.items()},
    )
    output = _FilledOutput(Path(job.attempts) / f"p0-a{attempt}")
    with closing(RunnerResources(job.shipped.load(), job.shipped.config, options)) as filled, closing(output):
        engines = {}
        has_setter = job.shipped.config.rocksdb_config_setter is not None
        for name, families in global_families(filled.topology).items():
            engine: Any = filled.global_engines[name]
            spilled = isinstance(engine, SpillingEngine) and engine.spilled
            in_memory = name == MEMORY or (name == ROCKSDB and not spilled)
            # A user's options may not fit table files that were written with others, as a comparator does not.
            as_tables = name == ROCKSDB and spilled and not has_setter
            rows = () if as_tables else output.write_rows(engine, families)
            tables = output.write_tables(engine, families) if as_tables else {}
            engines[name] = {"in_memory": in_memory, "rows": rows, "tables": tables}
        return {"partition": 0, "attempt": attempt, "engines": engines, "files": output.finish()}


class _FilledOutput:
    """Writes the files of one attempt; each is known by its name without the ending."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._writer = RowWriter(directory)
        self._rows = 0
        self._tables = 0

    def write_rows(self, engine: Engine, families: Iterable[str]) -> list[str]:
        """Writes all rows of some families to a file; returns its name, and nothing if there are no rows."""
        kind, count = f"rows-{self._rows}", 0
        for family in families:
            rows = engine.family(family).range()
            while some := list(islice(rows, WRITE_ROWS)):
                found, numbers = [(key, value, 0, None) for key, value in some], range(count, count + len(some))
                self._writer.write(kind, state_rows(family, 0, found, numbers))
                count += len(some)
        self._rows += 1
        return [kind] if count else []

    def write_tables(self, engine: Engine, families: Iterable[str]) -> dict[str, str]:
        """Writes the rows of each family to a table file of RocksDB; returns the names by family."""
        from state.rocksdb.options import SharedMemory
        from state.rocksdb.table_files import write_table_file

        self._directory.mkdir(parents=True, exist_ok=True)
        memory, tables = SharedMemory(), {}
        for family in families:
            kind = f"table-{self._tables}"
            if write_table_file(self._directory / f"{kind}.sst", engine.family(family).range(), memory):
                tables[family] = kind
                self._tables += 1
        return tables

    def finish(self) -> list[str]:
        """Closes the files; returns their paths below the directory of the attempts."""
        files = [f"{kind}.parquet" for kind in self._writer.finish()]
        files += [f"table-{number}.sst" for number in range(self._tables)]
        return [f"{self._directory.name}/{name}" for name in files]

    def close(self) -> None:
        """Closes the files as they are."""
        self._writer.close()


def write_global_rows(topic: str, attempts: str, *, has_offsets: bool, guesses_unit: bool = False) -> Attempt:
    """Returns the function of the task that writes the rows of one topic.

    :param attempts: the directory in which each attempt makes its own.
    :param has_offsets: whether the rows have offsets, of which the report says where they begin and end.
    :param guesses_unit: whether times are integers whose unit is not said.
    """

    def write(_: int, attempt: int, batches: Batches) -> list[dict[str, Any]]:
        name, count = f"p0-a{attempt}", 0
        places: dict[int, dict[str, Any]] = {}
        with closing(RowWriter(Path(attempts) / name)) as writer:
            for batch in batches:
                if batch.num_rows:
                    if guesses_unit:
                        check_unit(batch.column("ts"), topic)
                    _note_places(topic, batch, places, has_offsets=has_offsets)
                    writer.write("record", _rows(topic, batch, count))
                    count += batch.num_rows
            files = [f"{name}/{kind}.parquet" for kind in writer.finish()]
        return [{"partition": 0, "attempt": attempt, "files": files, "rows": count, "places": list(places.values())}]

    return write


def _note_places(topic: str, batch: pa.RecordBatch, places: dict[int, dict[str, Any]], *, has_offsets: bool) -> None:
    """Notes where the records of each partition begin and end (:func:`streams.spark.position.end_of_run`)."""
    numbers = batch.column("pid").fill_null(0)
    for number in pc.unique(numbers).to_pylist():
        own = batch.filter(pc.equal(numbers, number))
        new = {"partition": number, "partition_times": {topic: -1}, "positions": {}, "begins": {}}
        one = places.setdefault(number, new)
        one["partition_times"][topic] = max(one["partition_times"][topic], pc.max(own.column("ts")).as_py())
        bounds = pc.min_max(own.column("seq")).as_py()
        if has_offsets and bounds["min"] is not None:
            one["begins"][topic] = min(one["begins"].get(topic, bounds["min"]), bounds["min"])
            one["positions"][topic] = max(one["positions"].get(topic, 0), bounds["max"] + 1)


def earlier_global_rows(files: Iterable[str], attempts: Path) -> list[dict[str, Any]]:
    """Takes the files of an earlier run with the rows of a topic over, as further names of them or as copies; returns
    reports of them."""
    reports = []
    for number, path in enumerate(files):
        name = f"earlier-{number}/record.parquet"
        (attempts / name).parent.mkdir(parents=True)
        link_or_copy(path, attempts / name)
        reports.append({"partition": number, "attempt": "earlier", "files": [name], "rows": 0, "places": []})
    return reports


def _rows(topic: str, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
    count = batch.num_rows
    has_headers = "headers" in batch.schema.names
    headers = batch.column("headers") if has_headers else pa.nulls(count, COLUMNS.field("headers").type)
    columns = [
        pa.array([topic] * count, pa.string()),
        batch.column("pid").fill_null(0).cast(pa.int32()),
        pa.array(range(first, first + count), pa.int64()),
        batch.column("key").cast(pa.binary()),
        batch.column("value").cast(pa.binary()),
        batch.column("ts"),
        headers.cast(COLUMNS.field("headers").type),
        pa.array([0] * count, pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=COLUMNS)
