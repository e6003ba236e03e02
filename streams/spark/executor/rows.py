"""The rows of a run directory's files, and a writer of such files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from processor_api.record import HeaderList
from streams.runtime.runner.captured import Output
from streams.runtime.runner.changelog_capture import Change, ChangelogRow
from streams.spark.rows.state_files import COLUMNS, HEADERS, REPLACES

GROUP_ROWS = 100_000
GROUP_BYTES = 32 << 20
"""Rows and bytes from which on a row group is written: both bound the memory of a writer."""


def headers_column(headers: Sequence[HeaderList | None]) -> pa.Array:
    """Returns the column of headers; a record without headers has null."""
    if not any(headers):
        return pa.nulls(len(headers), HEADERS)
    return pa.array([[{"key": k, "value": v} for k, v in one] if one else None for one in headers], HEADERS)


def output_rows(outputs: Sequence[Output], partitions: pa.Array, first: int, upstream: Sequence[int]) -> pa.RecordBatch:
    """Returns records of sinks as rows.

    :param partitions: the partition of each.
    :param first: the number of the first among all that the task wrote.
    :param upstream: the number of the task that wrote each.
    """
    topics, keys, values, times, headers, _ = zip(*outputs, strict=True)
    return _batch(topics, partitions, range(first, first + len(topics)), keys, values, times, headers, upstream)


def state_rows(topic: str, partition: int, rows: Sequence[ChangelogRow], numbers: Sequence[int]) -> pa.RecordBatch:
    """Returns rows of a changelog, with their numbers."""
    keys, values, times, headers = zip(*rows, strict=True)
    count = len(keys)
    partitions = pa.array([partition] * count, pa.int32())
    return _batch([topic] * count, partitions, numbers, keys, values, times, headers, [partition] * count)


CHANGED_COLUMNS = COLUMNS.append(pa.field(REPLACES, pa.int64()))
"""The columns of files of changes."""


def changed_rows(topic: str, partition: int, changes: Sequence[Change]) -> pa.RecordBatch:
    """Returns changes of a changelog's rows; those of deleted keys have no key."""
    rows: list[Any] = [(None, None, 0, None) if one.row is None else one.row for one in changes]
    replaces = [one.replaces for one in changes]
    numbers: list[Any] = [one.replaces if one.number is None else one.number for one in changes]
    found = state_rows(topic, partition, rows, numbers)
    return pa.RecordBatch.from_arrays([*found.columns, pa.array(replaces, pa.int64())], schema=CHANGED_COLUMNS)


def _batch(
    topics: Sequence[str],
    partitions: pa.Array,
    numbers: Iterable[int],
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    times: Sequence[int],
    headers: Sequence[HeaderList | None],
    upstream: Sequence[int],
) -> pa.RecordBatch:
    columns = [
        pa.array(topics, pa.string()),
        partitions,
        pa.array(numbers, pa.int64()),
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array(times, pa.int64()),
        headers_column(headers),
        pa.array(upstream, pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=COLUMNS)


class RowWriter:
    """Writes the rows of one task to Parquet files, one for each kind of rows.

    :param directory: where the files are made; it is made with the first.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._open: dict[str, Any] = {}
        self._waiting: dict[str, list[pa.RecordBatch]] = {}
        self._bytes: dict[str, int] = {}
        self._rows: dict[str, int] = {}

    def write(self, kind: str, rows: pa.RecordBatch) -> None:
        """Adds rows; they are on disk after `finish`."""
        self._waiting.setdefault(kind, []).append(rows)
        self._rows[kind] = self._rows.get(kind, 0) + rows.num_rows
        self._bytes[kind] = self._bytes.get(kind, 0) + rows.nbytes
        if self._rows[kind] >= GROUP_ROWS or self._bytes[kind] >= GROUP_BYTES:
            self._flush(kind)

    def _flush(self, kind: str) -> None:
        waiting = self._waiting.pop(kind, [])
        self._rows[kind] = self._bytes[kind] = 0
        if not waiting:
            return
        writer = self._open.get(kind)
        if writer is None:
            self.directory.mkdir(parents=True, exist_ok=True)
            path = self.directory / f"{kind}.parquet"
            writer = self._open[kind] = pq.ParquetWriter(
                path, waiting[0].schema, compression="snappy", use_dictionary=["topic"]
            )
        writer.write_table(pa.Table.from_batches(waiting))

    def take(self, kind: str) -> list[Path]:
        """Writes what waits of a kind, and closes its file; returns it, if there is one. It is no longer listed."""
        self._flush(kind)
        writer = self._open.pop(kind, None)
        if writer is None:
            return []
        writer.close()
        return [self.directory / f"{kind}.parquet"]

    def finish(self) -> list[str]:
        """Writes what waits, and closes the files; returns the kinds of which there is one."""
        for kind in list(self._waiting):
            self._flush(kind)
        kinds = list(self._open)
        self.close()
        return kinds

    def close(self) -> None:
        """Closes the files as they are."""
        opened, self._open = self._open, {}
        for writer in opened.values():
            writer.close()
