"""The columns of a store's table, and the arrays that the records of its changelog make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from processor_api.errors import DeserializationError
from processor_api.record import HeaderList
from state.formats.keys import window_end
from state.formats.values import read_items
from state.windowed.segments import Retention
from state.write_buffer.changelog_form import ChangelogForm
from streams.spark.rows.columns import HEADERS, HEADERS_TYPE, TIME_TYPE, Column, headers_array, time_array

_LARGEST_MS = (1 << 63) // 1000 - 1
"""The last ms that Spark's timestamps reach; a window that ends later has no end."""

Times = Sequence[int | None] | np.ndarray[Any, Any]


@dataclass
class Entries:
    """Entries of one partition of a store, as columns of equal length."""

    keys: Sequence[bytes]
    values: Sequence[Any]
    """Bytes or ``None``; in list stores also the items."""
    timestamps: Sequence[int | None]
    offsets: Sequence[int | None]
    headers: Sequence[HeaderList | None] | None = None
    times: Mapping[str, Times] = field(default_factory=dict)
    """Columns of the kind: ``window_start``, ``valid_from``, ``sequence``..."""

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True)
class TableLayout:
    """Turns the records of a store's changelog into rows of a DataFrame; it is sent to the executors."""

    store: str
    topic: str
    form: ChangelogForm
    key: Column
    value: Column
    headers: bool = False
    window_size_ms: int | None = None
    window_end: Callable[[int], int] | None = None
    """The end of the window with a start, where not all have one size."""
    duplicates: bool = False
    retention: Retention | None = None
    time_to_live_ms: int | None = None
    """The time for which a key lives after the timestamp of its value; ``None`` if it does not expire by that."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Those of the store's supplier."""
    offsets: bool = True
    """Whether there is a column ``changelog_offset``."""
    from_source: bool = False
    """Whether a source topic is the changelog: its records without a key are not for the store."""

    @property
    def time_columns(self) -> tuple[str, ...]:
        """The columns of times that the kind of the store has besides ``timestamp``."""
        if self.form.tail_bytes:
            return ("window_start", "window_end")
        return ("valid_from", "valid_to") if self.form is ChangelogForm.VERSIONS else ()

    def _columns(self) -> list[tuple[str, str, pa.DataType]]:
        value = (self.value.spark_type, self.value.arrow_type)
        if self.form is ChangelogForm.LISTS:
            value = f"array<{value[0]}>", pa.list_(value[1])
        found = [("partition", "int", pa.int32()), ("key", self.key.spark_type, self.key.arrow_type)]
        found += [(name, "timestamp", TIME_TYPE) for name in self.time_columns]
        if self.duplicates:
            found.append(("sequence", "int", pa.int32()))
        found.append(("value", *value))
        if self.form is not ChangelogForm.VERSIONS:
            found.append(("timestamp", "timestamp", TIME_TYPE))
        if self.headers:
            found.append(("headers", HEADERS, HEADERS_TYPE))
        if self.form is not ChangelogForm.VERSIONS and self.offsets:
            found.append(("changelog_offset", "long", pa.int64()))
        return found

    @property
    def schema(self) -> str:
        """The columns in Spark's notation."""
        return ", ".join(f"{name} {spark_type}" for name, spark_type, _ in self._columns())

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns that name a row: no two rows have the same ones."""
        if self.form.tail_bytes:
            return ("key", *self.time_columns, *(("sequence",) if self.duplicates else ()))
        return ("key", "valid_from") if self.form is ChangelogForm.VERSIONS else ("key",)

    @property
    def arrow_schema(self) -> pa.Schema:
        return pa.schema([(name, arrow) for name, _, arrow in self._columns()])

    def stream_time(self, keys: Sequence[bytes], timestamps: Sequence[int]) -> int:
        """Returns the largest time by which rows expire that the store has observed in changelog records: that of
        windows or sessions, or with a time to live the timestamp; -1 for other kinds."""
        if self.time_to_live_ms is not None:
            return max(timestamps, default=-1)
        if not self.form.tail_bytes or not keys:
            return -1
        size = self.form.tail_bytes
        latest = max([key[-size : 8 - size] for key in keys])  # times are never negative: bytes compare as they do
        return int.from_bytes(latest, "big", signed=True)

    def split_keys(self, entries: Entries, place: Callable[[int], Mapping[str, Any]]) -> Entries:
        """Returns the entries of a changelog with their keys and times apart.

        :raises DeserializationError: if a key is too short.
        """
        if not self.form.tail_bytes:
            return entries
        tail = self.form.tail_bytes
        keys = entries.keys
        if keys and min(map(len, keys)) < tail:
            number = next(number for number, key in enumerate(keys) if len(key) < tail)
            raise DeserializationError(
                f"the key {keys[number]!r} is none of a {self.form.of_stores} store, which has at least {tail} bytes:"
                f" is {self.topic} the changelog of {self.store}?",
                **place(number),
            )
        joined = b"".join([key[-tail:] for key in keys])
        found: dict[str, Times] = {}
        if self.form is ChangelogForm.WINDOWS:
            parts = np.frombuffer(joined, np.dtype([("start", ">i8"), ("sequence", ">i4")]))
            start = parts["start"].astype(np.int64)
            found = {"window_start": start, "window_end": self.ends(start)}
            if self.duplicates:
                found["sequence"] = parts["sequence"].astype(np.int32)
        else:
            parts = np.frombuffer(joined, np.dtype([("end", ">i8"), ("start", ">i8")]))
            found = {"window_start": parts["start"].astype(np.int64), "window_end": parts["end"].astype(np.int64)}
        plain = [key[:-tail] for key in keys]
        return Entries(plain, entries.values, entries.timestamps, entries.offsets, entries.headers, found)

    def ends(self, starts: Times) -> Times:
        """Returns the ends of windows with these starts; ``None`` for those beyond Spark's times."""
        starts = np.asarray(starts, np.int64)
        size = self.window_size_ms or 0
        if self.window_end is not None:
            of = {start: self.window_end(start) for start in np.unique(starts).tolist()}
            return [None if of[start] > _LARGEST_MS else of[start] for start in starts.tolist()]
        if len(starts) and int(starts.max()) + size > _LARGEST_MS:
            ends = [window_end(start, size) for start in starts.tolist()]
            return [None if end > _LARGEST_MS else end for end in ends]
        return starts + size

    def without_expired(self, entries: Entries, stream_time: int) -> Entries:
        """Returns the entries that the store would show at a stream time."""
        if stream_time < 0:
            return entries
        if self.time_to_live_ms is not None:
            stamps = np.asarray([-1 if ms is None else ms for ms in entries.timestamps], np.int64)
            live = (stamps > stream_time - self.time_to_live_ms) | (stamps < 0)
        elif self.retention is None or not entries.times:
            return entries
        else:
            times: Any = entries.times["window_start" if self.form is ChangelogForm.WINDOWS else "window_end"]
            live = np.asarray(times) >= self.retention.live_from(stream_time)
        if live.all():
            return entries
        kept = np.flatnonzero(live).tolist()

        def of(column: Any) -> Any:
            return None if column is None else [column[number] for number in kept]

        return Entries(
            of(entries.keys),
            of(entries.values),
            of(entries.timestamps),
            of(entries.offsets),
            of(entries.headers),
            {name: of(column) for name, column in entries.times.items()},
        )

    def batch(self, partition: int, entries: Entries) -> pa.RecordBatch:
        """Returns entries as rows.

        :raises DeserializationError: if a serde cannot read a key or value.
        """

        def place(number: int) -> Mapping[str, Any]:
            where = {"topic": self.topic, "partition": partition, "store": self.store}
            return where | {"offset": entries.offsets[number]}

        times = entries.timestamps
        arrays = {
            "partition": pa.array([partition] * len(entries), pa.int32()),
            "key": self.key.array(entries.keys, place, entries.headers),
            "value": self._values(entries.values, place, entries.headers),
            "timestamp": time_array([None if ms == -1 else ms for ms in times] if -1 in times else times, place),
            "changelog_offset": pa.array(
                [None if one == -1 else one for one in entries.offsets] if -1 in entries.offsets else entries.offsets,
                pa.int64(),
            ),
        }
        if self.headers:
            arrays["headers"] = headers_array(entries.headers or [None] * len(entries))
        for name, given in entries.times.items():
            arrays[name] = pa.array(given, pa.int32()) if name == "sequence" else time_array(given, place)
        schema = self.arrow_schema
        return pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)

    def _values(
        self,
        values: Sequence[Any],
        place: Callable[[int], Mapping[str, Any]],
        headers: Sequence[HeaderList | None] | None,
    ) -> pa.Array:
        if self.form is not ChangelogForm.LISTS:
            return self.value.array(values, place, headers)
        ends: list[int] = [0]
        flat: list[bytes | None] = []
        for number, value in enumerate(values):
            try:
                flat += value if isinstance(value, list) else read_items(value or b"")
            except ValueError as error:
                raise DeserializationError(f"the value is not a list: {error}", **place(number)) from error
            ends.append(len(flat))
        items = self.value.array(flat, lambda item: place(int(np.searchsorted(ends, item, side="right")) - 1))
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items)


def version_limit(parameters: Mapping[str, Any], stream_time: int) -> int:
    """Returns the time before which a versioned store shows no end of a version, by the parameters of its supplier."""
    segment: int = parameters["segment_interval_ms"]
    oldest: int = max(stream_time - parameters["history_retention_ms"], 0)
    return oldest // segment * segment
