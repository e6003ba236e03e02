"""Records in the form of a test driver and of a history, and the results of both in one form."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from streams import TopologyTestDriver

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

SETTINGS = {"statestore.cache.max.bytes": 0}
"""Without a cache every change is forwarded, whenever a commit is."""


class Row(NamedTuple):
    """A record of a topic; the offset is its place in the partition unless given."""

    key: bytes | None
    value: bytes | None
    ts: int
    headers: list[tuple[str, bytes | None]] | None = None
    partition: int = 0
    offset: int | None = None


Rows = Mapping[str, Sequence[Row]]
Output = tuple[bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]


class Results(NamedTuple):
    """Outputs of each topic in order, and the last row of each changelog key."""

    outputs: dict[str, list[Output]]
    tables: dict[str, dict[Any, tuple[bytes, int]]]


def in_live_order(rows: Rows) -> list[tuple[str, Row]]:
    """The order in which a task reads topics that are there as a whole: the smallest timestamp among the heads, and
    of equal ones the first topic."""
    heads = dict.fromkeys(rows, 0)
    found = []
    while True:
        ready = [
            (rows[topic][at].ts, place) for place, (topic, at) in enumerate(heads.items()) if at < len(rows[topic])
        ]
        if not ready:
            return found
        topic = list(heads)[min(ready)[1]]
        found.append((topic, rows[topic][heads[topic]]))
        heads[topic] += 1


def run_driver(
    topology: Callable[..., Any],
    rows: Rows,
    config: Mapping[str, Any] | None = None,
    *,
    first: Rows | None = None,
    versioned: Iterable[str] = (),
) -> Results:
    """Runs records through the test driver.

    :param first: records of topics that are read before all others, such as those of global tables.
    :param versioned: changelogs that keep each version of a key.
    """
    with TopologyTestDriver(topology, {"application.id": "app", **SETTINGS, **(config or {})}) as driver:
        for topic, row in [*in_live_order(first or {}), *in_live_order(rows)]:
            driver.pipe_raw(topic, row.key, row.value, row.ts, row.headers)
        produced = driver.take_produced()
    outputs: dict[str, list[Output]] = {}
    tables: dict[str, dict[Any, tuple[bytes, int]]] = {}
    for name, records in produced.items():
        if name.endswith("-changelog"):
            tables[name] = _compacted(records, versioned=name in versioned)
        else:
            outputs[name] = [(one.key, one.value, one.timestamp, tuple(one.headers or ())) for one in records]
    return Results(outputs, tables)


def _compacted(records: Iterable[Any], *, versioned: bool) -> dict[Any, tuple[bytes, int]]:
    found: dict[Any, Any] = {}
    for one in records:
        found[(one.key, one.timestamp) if versioned else one.key] = one.value, one.timestamp
    return found if versioned else {key: row for key, row in found.items() if row[0] is not None}


def write_history(path: Path, rows: Sequence[Row], *, seed: int = 1, files: int = 2, offsets: bool = True) -> str:
    """Writes records as a lake has them: in files, in no order."""
    path.mkdir(parents=True, exist_ok=True)
    ends: dict[int, int] = {}
    numbered = []
    for row in rows:
        offset = ends.get(row.partition, 0) if row.offset is None else row.offset
        ends[row.partition] = offset + 1
        numbered.append(row._replace(offset=offset))
    random.Random(seed).shuffle(numbered)
    for number in range(files):
        part = numbered[number::files]
        columns = {
            "partition": pa.array([row.partition for row in part], pa.int32()),
            "offset": pa.array([row.offset for row in part], pa.int64()),
            "timestamp": pa.array([row.ts for row in part], pa.int64()),
            "key": pa.array([row.key for row in part], pa.binary()),
            "value": pa.array([row.value for row in part], pa.binary()),
            "headers": pa.array(
                [[{"key": k, "value": v} for k, v in row.headers] if row.headers else None for row in part], HEADERS
            ),
        }
        if not offsets:
            del columns["offset"]
        pq.write_table(pa.table(columns), path / f"part-{number}.parquet")
    return str(path)


def results_of(result: Any, outputs: Iterable[str], stores: Iterable[str], *, versioned: Iterable[str] = ()) -> Results:
    """Returns what a backfill wrote in the form of :func:`run_driver`."""
    if isinstance(result.dead_letters(), pa.Table):
        return _local_results(result, outputs, stores, versioned)
    found: dict[str, list[Output]] = {}
    for topic in outputs:
        rows = result.output(topic).selectExpr("*", "unix_millis(timestamp) as ms").orderBy("upstream", "seq").collect()
        found[topic] = [(_bytes(row.key), _bytes(row.value), row.ms, _headers(row.headers)) for row in rows]
    tables: dict[str, dict[Any, tuple[bytes, int]]] = {}
    for store in stores:
        rows = result.changelog_rows(store).withColumnRenamed("ts", "ms").collect()
        name = result.changelog(store)
        tables[name] = {
            ((bytes(row.key), row.ms) if store in versioned else bytes(row.key)): (_bytes(row.value), row.ms)
            for row in rows
        }
    return Results(found, tables)


def _local_results(result: Any, outputs: Iterable[str], stores: Iterable[str], versioned: Iterable[str]) -> Results:
    order = [("upstream", "ascending"), ("seq", "ascending")]
    found: dict[str, list[Output]] = {}
    for topic in outputs:
        rows = result.output(topic).sort_by(order)
        times = rows.column("timestamp").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
        found[topic] = [
            (row["key"], row["value"], ms, _headers(row["headers"]))
            for row, ms in zip(rows.to_pylist(), times, strict=True)
        ]
    tables: dict[str, dict[Any, tuple[bytes, int]]] = {}
    for store in stores:
        tables[result.changelog(store)] = {
            ((row["key"], row["ts"]) if store in versioned else row["key"]): (row["value"], row["ts"])
            for row in result.changelog_rows(store).to_pylist()
        }
    return Results(found, tables)


def _bytes(value: Any) -> Any:
    return None if value is None else bytes(value)


def _headers(headers: Any) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((one["key"], _bytes(one["value"])) for one in headers or ())
