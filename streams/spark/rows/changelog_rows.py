"""Tables from rows of changelogs that a DataFrame already has, such as those of a backfill's run directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from processor_api.record import HeaderList
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.suppliers import ROCKSDB, StoreSupplier
from state.registry.kinds import families_of, kind_of, restore_of
from state.versioned.history import VERSIONS
from state.write_buffer.changelog_form import ChangelogForm
from streams.kafka.producing.zero_timestamps import ZERO_SENT, as_written
from streams.spark.errors import OffsetRangeLost
from streams.spark.rows.compaction import CHUNK, TaskFolder
from streams.spark.rows.shipping import packed, unpacked
from streams.spark.rows.table_layout import Entries, TableLayout, version_limit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Records = tuple[Sequence[bytes], Sequence[bytes | None], Sequence[int], Sequence[int], Sequence[Any] | None]
"""Keys, values, timestamps, offsets and headers of changelog records."""


def version_entries(
    store: str,
    parameters: Mapping[str, Any],
    records: Iterable[Records],
    folder: TaskFolder,
    *,
    all_versions: bool,
    expired: bool,
    as_of: int | None = None,
) -> Iterator[Entries]:
    """Yields the versions that a versioned store has after these records, made by the store's own restore: which puts
    came too late, and which versions are kept, is its rule.

    :param as_of: gives those that were valid at this time, in ms.
    :raises OffsetRangeLost: if the store no longer keeps the versions of this time.
    """
    supplier = StoreSupplier(name=store, kind="versioned-key-value", engine=ROCKSDB, parameters=parameters)
    builder: StoreBuilder[Any, Any] = StoreBuilder(supplier=supplier)
    families = families_of(builder)
    engine = folder.open_engine(families)
    try:
        restore, latest_time = restore_of(builder, engine), -1
        for keys, values, timestamps, _, headers in records:
            batch = engine.batch()
            restore(batch, keys, values, timestamps, headers or [None] * len(keys))
            engine.load(batch)
            latest_time = max(latest_time, max(timestamps, default=-1))
        first = version_limit(parameters, latest_time)
        if as_of is not None:
            if as_of < first:
                raise OffsetRangeLost(
                    f"store {store!r} keeps its history for {parameters['history_retention_ms']} ms, which is back to"
                    f" {first}, and the table is asked for as of {as_of}: give the store a longer history, or a later"
                    " time",
                    store=store,
                )
            all_versions = True
        kind = kind_of(builder)
        for name in families:
            suffix = name.removeprefix(f"{store}.")
            if suffix not in kind.offline or (suffix == VERSIONS and not all_versions):
                continue
            read = kind.offline[suffix].read
            found = (row for key, value in engine.family(name).range() if (row := read(key, value)) is not None)
            shown = (
                row for row in found
                if row.value is not None and (expired or row.more.get("valid_to", first) >= first)
                and (as_of is None or row.more["valid_from"] <= as_of < row.more.get("valid_to", as_of + 1))
            )  # fmt: skip
            yield from _versions(shown)
    finally:
        engine.close()


def _versions(rows: Iterator[Any]) -> Iterator[Entries]:
    while chunk := list(islice(rows, CHUNK)):
        nothing = [None] * len(chunk)
        times = {name: [row.more.get(name) for row in chunk] for name in ("valid_from", "valid_to")}
        yield Entries([row.key for row in chunk], [row.value for row in chunk], nothing, nothing, None, times)


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
    if layout.form is ChangelogForm.VERSIONS:
        rows = rows.repartition("partition").sortWithinPartitions("partition", "seq")
        return rows.mapInArrow(lambda batches: _version_batches(text, batches), layout.schema)
    rows = rows.where(col("value").isNotNull())
    return rows.mapInArrow(lambda batches: _table_batches(text, batches), layout.schema)


def arrow_table_of_rows(
    rows: pa.Table, layout: TableLayout, *, all_versions: bool = False, expired: bool = False
) -> pa.Table:
    """Returns the table of a store as :func:`table_of_rows` does, of rows that are a table of Arrow."""
    layout = replace(layout, offsets=False)
    rows = rows.filter(pc.is_valid(rows.column("key")))
    has_versions = layout.form is ChangelogForm.VERSIONS
    if has_versions:
        rows = rows.sort_by([("partition", "ascending"), ("seq", "ascending")])
    else:
        rows = rows.filter(pc.is_valid(rows.column("value")))
    batches = rows.to_batches()
    stream_times: dict[int, int] = {}
    for partition, part in [] if expired else _parts(batches):
        time = layout.stream_time(part.column("key").to_pylist(), part.column("ts").to_pylist())
        stream_times[partition] = max(time, stream_times.get(partition, -1))
    text = packed(RowsPlan(layout, stream_times, all_versions, expired))
    found = (_version_batches if has_versions else _table_batches)(text, batches)
    return pa.Table.from_batches(list(found), layout.arrow_schema)


def _stream_times(rows: DataFrame, layout: TableLayout) -> dict[int, int]:
    """Returns the time of each partition by which rows expire: the largest in its keys, whose bytes compare as they do,
    since no time is negative; with a time to live the largest timestamp."""
    if layout.time_to_live_ms is not None:
        stamps = rows.groupBy("partition").agg({"ts": "max"}).collect()
        return {row["partition"]: row["max(ts)"] for row in stamps}
    if not layout.form.tail_bytes:
        return {}
    tail = layout.form.tail_bytes
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
