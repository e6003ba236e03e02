"""Tables from rows of changelogs that a DataFrame already has, such as those of a backfill's run directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from processor_api.record import HeaderList
from streams.kafka.producing.zero_timestamps import ZERO_SENT, as_written
from streams.spark.rows.compaction import TaskFolder
from streams.spark.rows.shipping import packed, unpacked
from streams.spark.rows.table_layout import SESSION, VERSIONED, WINDOW, Entries, TableLayout
from streams.spark.rows.versions import Records, version_entries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class RowsPlan:
    """Everything that a task needs to turn rows of a changelog into a table; sent to the executors."""

    layout: TableLayout
    stream_times: Mapping[int, int]
    """The largest time of windows or sessions, by partition."""
    all_versions: bool
    expired: bool


def table_of_rows(
    df: DataFrame, layout: TableLayout, *, all_versions: bool = False, expired: bool = False
) -> DataFrame:
    """Returns the table of a store, as `read_table` does, without ``changelog_offset``.

    Windows and sessions cost one job here, unless ``expired``: it looks for the stream time of each partition.

    :param df: the last record of each key of the changelog, of versioned stores each record: ``partition``, ``key``,
        ``value``, ``ts`` in ms, ``headers``, and ``seq``, the order within a partition.
    """
    from pyspark.sql.functions import col

    layout = replace(layout, offsets=False)
    rows = df.select("partition", "key", "value", "ts", "headers", "seq").where(col("key").isNotNull())
    stream_times = {} if expired else _stream_times(rows, layout)
    text = packed(RowsPlan(layout, stream_times, all_versions, expired))
    if layout.form == VERSIONED:
        rows = rows.repartition("partition").sortWithinPartitions("partition", "seq")
        return rows.mapInArrow(lambda batches: _version_batches(text, batches), layout.schema)
    rows = rows.where(col("value").isNotNull())
    return rows.mapInArrow(lambda batches: _table_batches(text, batches), layout.schema)


def _stream_times(rows: DataFrame, layout: TableLayout) -> dict[int, int]:
    """Returns the time of each partition by which rows expire: the largest in its keys, whose bytes compare as they do,
    since no time is negative; with a time to live the largest timestamp."""
    if layout.time_to_live_ms is not None:
        stamps = rows.groupBy("partition").agg({"ts": "max"}).collect()
        return {row["partition"]: row["max(ts)"] for row in stamps}
    if layout.form not in (WINDOW, SESSION):
        return {}
    tail = 12 if layout.form == WINDOW else 16
    times = rows.selectExpr("partition", f"substring(key, length(key) - {tail - 1}, 8) as time")
    found = times.groupBy("partition").agg({"time": "max"}).collect()
    return {row["partition"]: int.from_bytes(row["max(time)"], "big", signed=True) for row in found}


def _parts(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields the rows of each partition, in their order; a batch may hold rows of several."""
    for batch in batches:
        partitions = batch.column("partition")
        for partition in pc.unique(partitions).to_pylist():
            yield partition, batch.filter(pc.equal(partitions, partition))


def _records(layout: TableLayout, part: pa.RecordBatch) -> Records:
    columns = (part.column(name).to_pylist() for name in ("key", "value", "ts", "seq"))
    keys, values, times, order = columns
    headers = None
    zero = ZERO_SENT in times and not layout.from_source
    if layout.headers or zero:
        given = [[(one["key"], one["value"]) for one in each or ()] for each in part.column("headers").to_pylist()]
        found: list[HeaderList | None] = list(given)
        if zero:
            times, found = as_written(times, found)
        headers = found if layout.headers else None
    return keys, values, times, order, headers


def _table_batches(text: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs on the executors."""
    plan: RowsPlan = unpacked(text)
    layout = plan.layout
    for partition, part in _parts(batches):
        keys, values, times, _, headers = _records(layout, part)
        nothing: list[None] = [None] * len(keys)
        place = {"topic": layout.topic, "partition": partition, "store": layout.store}
        entries = layout.split_keys(Entries(keys, values, times, nothing, headers), lambda _, place=place: place)  # type: ignore[misc]
        if not plan.expired:
            entries = layout.without_expired(entries, plan.stream_times.get(partition, -1))
        yield layout.batch(partition, entries)


def _version_batches(text: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs on the executors."""
    plan: RowsPlan = unpacked(text)
    layout = plan.layout
    for partition, parts in groupby(_parts(batches), lambda found: found[0]):
        with TaskFolder() as folder:
            records = (_records(layout, part) for _, part in parts)
            for entries in version_entries(
                layout.store, layout.parameters, records, folder, all_versions=plan.all_versions, expired=plan.expired
            ):
                yield layout.batch(partition, entries)
