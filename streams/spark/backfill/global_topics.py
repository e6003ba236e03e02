"""The records of the topics that fill global stores: written once, in order, and read by every task of every stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa

from streams.spark.executor.rows import COLUMNS, RowWriter
from streams.spark.executor.task_input import check_unit
from streams.spark.executor.task_report import Batches, reporting


def write_global_rows(
    topic: str, attempts: str, *, guesses_unit: bool = False
) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Returns the function that Spark's ``mapInArrow`` runs to write the rows of one topic.

    :param attempts: the directory in which each attempt makes its own.
    :param guesses_unit: whether times are integers whose unit is not said.
    """

    def write(_: int, attempt: int, batches: Batches) -> list[dict[str, Any]]:
        name, count = f"p0-a{attempt}", 0
        with closing(RowWriter(Path(attempts) / name)) as writer:
            for batch in batches:
                if batch.num_rows:
                    if guesses_unit:
                        check_unit(batch.column("ts"), topic)
                    writer.write("record", _rows(topic, batch, count))
                    count += batch.num_rows
            files = [f"{name}/{kind}.parquet" for kind in writer.finish()]
        return [{"partition": 0, "attempt": attempt, "files": files, "rows": count}]

    return reporting(write)


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
