"""The rows that a task reads by itself, in the order of live: parts of its inputs, merged while they are read.

A live task takes the record with the smallest timestamp among the heads of its inputs. Over inputs that are whole, this
is a merge of streams by the largest timestamp so far. What is in order already is read as it comes; the rows of an
input that is not are sorted in memory first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streams.spark.rows.state_files import HEADERS
from streams.spark.sources.arrow_rows import OffsetSpan, RowSource

BATCH_ROWS = 10_000
"""Rows that a task gets at a time."""
STREAMS = 32
"""The streams of one input that a task merges while it reads them; each holds some batches in memory."""
NO_TIME = -(1 << 63)
Highs = Mapping[tuple[int, int], int]
"""The largest timestamp in ms of each partition and writer before the first row."""


class InputPart(NamedTuple):
    """Rows of one input."""

    input: int
    source: RowSource
    place: OffsetSpan | None
    """The partition and the offsets of rows that are in order; ``None`` for rows that have to be sorted."""
    writer: int = 0
    """The task that wrote the rows, if they are in order."""


@dataclass(frozen=True)
class TaskRows:
    """Describes the rows that a task reads.

    :param ordered: for each input, whether ``seq`` is the order of its rows; otherwise it is that of their timestamps.
    :param has_headers: whether any input has headers.
    :param highs: for each input, the largest timestamps of an earlier run.
    """

    parts: tuple[InputPart, ...] = ()
    ordered: tuple[bool, ...] = ()
    has_headers: bool = False
    highs: tuple[Highs, ...] = ()

    @property
    def is_sorted(self) -> bool:
        """Whether all rows can be read in order, so that none have to be sorted in memory."""
        return all(self.ordered[number] and _in_order(parts) is not None for number, parts in self._inputs())

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows in the order of live."""
        streams = [one for number, parts in self._inputs() for one in self._streams(number, parts)]
        for batch in merged(streams):
            for begin in range(0, batch.num_rows, BATCH_ROWS):
                yield batch.slice(begin, BATCH_ROWS)

    def _inputs(self) -> Iterator[tuple[int, list[InputPart]]]:
        for number, parts in groupby(sorted(self.parts, key=lambda one: one.input), lambda one: one.input):
            yield number, list(parts)

    def _streams(self, number: int, parts: Sequence[InputPart]) -> Iterator[Stream]:
        """Yields the streams of one input."""
        in_order = _in_order(parts) if self.ordered[number] else None
        if in_order is None:
            rows, highs = self._sorted(number, parts)
            yield Stream((number,), iter([(highs, rows)]))
            return
        for (partition, writer), own in in_order.items():
            high = self.highs[number].get((partition, writer), NO_TIME)
            yield Stream((number, partition, writer), _with_highs(self._batches(own), high))

    def _batches(self, parts: Sequence[InputPart]) -> Iterator[pa.RecordBatch]:
        for part in parts:
            for batch in part.source.batches():
                yield self._shaped(batch, part.input)

    def _shaped(self, batch: pa.RecordBatch, number: int) -> pa.RecordBatch:
        """Returns a batch with the columns that all inputs have together."""
        count, names = batch.num_rows, ["pid", "upstream", "seq", "ts", "key", "value"]
        arrays = [batch.column(name) for name in names]
        if self.has_headers:
            own = batch.column("headers") if "headers" in batch.schema.names else pa.nulls(count, HEADERS)
            names, arrays = [*names, "headers"], [*arrays, own.cast(HEADERS)]
        return pa.RecordBatch.from_arrays([*arrays, pa.repeat(pa.scalar(number, pa.int32()), count)], [*names, "q"])

    def _sorted(self, number: int, parts: Sequence[InputPart]) -> tuple[pa.Table, np.ndarray]:
        """Returns the rows of an input, and for each row the largest timestamp so far, by which it is sorted."""
        table = pa.Table.from_batches(list(self._batches(parts)))
        if not self.ordered[number]:
            names = ["ts", "pid", "upstream", "seq", "key", "value"]
            if self.has_headers:
                table = table.append_column("text", _texts(table.column("headers")))
                names.append("text")
            table = table.take(_order_by(table, names))
            return table.drop_columns(["text"]) if self.has_headers else table, _times(table)
        table = table.take(_order_by(table, ["pid", "upstream", "seq"]))
        highs, is_sorted = self._highs(number, table)
        if is_sorted:
            return table, highs
        order = np.argsort(highs, kind="stable")
        return table.take(pa.array(order)), highs[order]

    def _highs(self, number: int, table: pa.Table) -> tuple[np.ndarray, bool]:
        """Returns the largest timestamp so far of each row's partition and writer, and whether all are of one."""
        times = _times(table)
        highs = times.copy()
        groups = [table.column(name).fill_null(-1).to_numpy() for name in ("pid", "upstream")]
        begins = np.flatnonzero(np.logical_or.reduce([np.diff(one, prepend=one[:1] - 1) != 0 for one in groups]))
        for begin, end in zip(begins, [*begins[1:], len(times)], strict=True):
            partition, writer = (int(one[begin]) for one in groups)
            np.maximum.accumulate(times[begin:end], out=highs[begin:end])
            before = self.highs[number].get((partition, writer), NO_TIME)
            np.maximum(highs[begin:end], before, out=highs[begin:end])
        return highs, len(begins) < 2


def _order_by(table: pa.Table, names: Sequence[str]) -> pa.Array:
    """Returns the order of rows by some columns; null comes first, as in Spark."""
    keys: list[str] = []
    for name in names:
        if table.column(name).null_count:
            keys.append(f"has {name}")
            table = table.append_column(keys[-1], pc.is_valid(table.column(name)))
        keys.append(name)
    return pc.sort_indices(table, sort_keys=[(name, "ascending") for name in keys])


def _texts(column: pa.ChunkedArray) -> pa.Array:
    return pa.array([None if one is None else repr(one) for one in column.to_pylist()], pa.string())


def _times(rows: Any) -> np.ndarray:
    return cast(np.ndarray, rows.column("ts").fill_null(NO_TIME).to_numpy())


def _in_order(parts: Sequence[InputPart]) -> dict[tuple[int, int], list[InputPart]] | None:
    """Returns the parts of each partition and writer, one after the other; ``None`` where rows have to be sorted."""
    found: dict[tuple[int, int], list[InputPart]] = {}
    for part in parts:
        if part.place is None:
            return None
        found.setdefault((part.place.partition, part.writer), []).append(part)
    for own in found.values():
        own.sort(key=lambda one: one.place.first if one.place is not None else 0)
        if not follow([one.place for one in own if one.place is not None]):
            return None
    return None if len(found) > STREAMS else found


def follow(places: Sequence[OffsetSpan]) -> bool:
    """Returns whether each place begins after the end of the one before."""
    return all(one.last < other.first for one, other in pairwise(places))


def _with_highs(batches: Iterator[pa.RecordBatch], high: int) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
    """Yields batches with the largest timestamp so far of each row, in ms."""
    for batch in batches:
        if batch.num_rows:
            highs = np.maximum(np.maximum.accumulate(_times(batch)), high)
            high = int(highs[-1])
            yield highs, batch


class Stream:
    """Rows in the order in which a task takes them, read some at a time.

    :param place: decides which of several streams with equal timestamps is first.
    :param parts: rows, each with the largest timestamp so far in ms.
    """

    def __init__(self, place: tuple[int, ...], parts: Iterator[tuple[np.ndarray, Any]]) -> None:
        self.place = place
        self._parts = parts
        self.highs: np.ndarray = np.empty(0, np.int64)
        self.rows: Any = None

    def fill(self) -> bool:
        """Reads more if nothing waits; returns whether there is any."""
        while not len(self.highs):
            found = next(self._parts, None)
            if found is None:
                return False
            self.highs, self.rows = found
        return True

    def take(self, high: int, place: tuple[int, ...]) -> tuple[np.ndarray, Any]:
        """Returns the waiting rows up to a timestamp; of an equal one only if this stream is not behind that place."""
        count = int(np.searchsorted(self.highs, high, "right" if self.place <= place else "left"))
        taken = self.highs[:count], self.rows.slice(0, count)
        self.highs, self.rows = self.highs[count:], self.rows.slice(count)
        return taken


def merged(streams: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of all streams in the order of live.

    Each step takes what comes before the last waiting row of the stream whose rows end first, so no stream is read far
    ahead of the others.
    """
    left = sorted(streams, key=lambda one: one.place)
    while left := [one for one in left if one.fill()]:
        high, place = min((int(one.highs[-1]), one.place) for one in left)
        taken = [found for one in left if len((found := one.take(high, place))[0])]
        if len(taken) == 1:
            yield from _batches_of(taken[0][1])
            continue
        rows = pa.concat_tables([pa.Table.from_batches(list(_batches_of(one))) for _, one in taken])
        order = np.argsort(np.concatenate([highs for highs, _ in taken]), kind="stable")
        yield from _batches_of(rows.take(pa.array(order)))


def _batches_of(rows: pa.Table | pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    yield from rows.to_batches() if isinstance(rows, pa.Table) else (rows,)


def parts_of(number: int, sources: Sequence[RowSource]) -> Iterator[InputPart]:
    """Yields the parts of an input whose sources are in order."""
    for source in sources:
        yield InputPart(number, source, source.place)
