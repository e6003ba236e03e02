"""Stores as DataFrames, read from their changelogs: the format ``streams_table``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource

from processor_api.errors import DeserializationError
from state.write_buffer.changelog_form import ChangelogForm
from streams.kafka.producing.zero_timestamps import ZERO_SENT, as_written
from streams.runtime.threads.gc_tuning import relax_collector, restore_collector
from streams.spark.errors import OffsetRangeLost, SparkBridgeError
from streams.spark.rows.compaction import MEMORY_BYTES, LatestByKey, Row, TaskFolder
from streams.spark.rows.shipping import PLAN, unpacked
from streams.spark.rows.table_layout import Entries, TableLayout
from streams.spark.sources.ranges import OffsetRange, OffsetRanges
from streams.spark.sources.ranges_reader import RangesReader
from streams.spark.sources.whole_ranges import TRIES, WholeRange

if TYPE_CHECKING:
    from streams.config import StreamsConfig
    from streams.spark.rows.changelog_rows import Records
    from streams.spark.rows.snapshot_rows import SnapshotRows
    from streams.spark.sources.as_of import AsOf

FORMAT = "streams_table"
LATEST, ALL = "latest", "all"
PIN_AGAIN = (
    "Pin its offsets again, or read it without offsets; where several actions must see the same table while the"
    " application runs, persist the first result, such as by df.localCheckpoint() or in Parquet"
)


@dataclass(frozen=True)
class TablePlan:
    """Everything that a task needs to read its partition of a table; sent to the executors."""

    settings: Mapping[str, Any]
    """The consumer's."""
    ranges: tuple[OffsetRange, ...]
    layout: TableLayout
    all_versions: bool = False
    expired: bool = False
    memory_bytes: int = MEMORY_BYTES
    is_pinned: bool = True
    """Whether the table is that of the ends of the ranges, whatever was written since."""
    instead: str = PIN_AGAIN
    """The end of the error if the table is no longer available: a sentence about what to do."""
    needs_all: bool = False
    """Whether no compaction may have removed a record."""
    as_of_ms: int | None = None
    """The time at which versions are chosen."""
    snapshots: Mapping[int, SnapshotRows] = field(default_factory=dict)
    """Where the table begins if its changelog has not all, by partition."""

    def batches(self, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Yields the table's rows of one partition."""
        thresholds = relax_collector()  # else half of the time goes into looking at tuples that stay
        try:
            for entries in self._found(wanted):
                yield self.layout.batch(wanted.partition, entries)
        finally:
            restore_collector(thresholds)

    def _found(self, wanted: OffsetRange) -> Iterator[Entries]:
        whole = WholeRange(self.settings, wanted, self.is_pinned, self.instead, self.needs_all)
        base = self.snapshots.get(wanted.partition)
        has_first = base is None or wanted.start == 0
        for tries in range(TRIES):
            with TaskFolder() as folder:
                try:
                    yield from self._entries(whole, folder, None if has_first else base)
                    return
                except OffsetRangeLost:  # before the first row: all records are read before it
                    if base is not None and has_first:
                        has_first = False
                        continue
                    moved = whole.moved() if tries + 1 < TRIES else None
                    if moved is None:
                        raise
            whole = moved

    def _entries(self, whole: WholeRange, folder: TaskFolder, base: SnapshotRows | None) -> Iterator[Entries]:
        if self.layout.form is not ChangelogForm.VERSIONS:
            return self._latest_entries(whole, folder, base)
        from streams.spark.rows.changelog_rows import version_entries  # loads all kinds of stores

        repeats = Repeats()
        records = map(repeats.seen, map(self._records, whole.read(lambda: repeats.found, None)))
        return version_entries(self.layout.store, self.layout.parameters, records, folder,
                               all_versions=self.all_versions, expired=self.expired, as_of=self.as_of_ms)  # fmt: skip

    def _records(self, messages: list[Any]) -> Records:
        """Returns the records of messages, without those that are not for the store.

        :raises DeserializationError: if one of a changelog has no key.
        """
        kind, layout = type(messages[0]), self.layout
        keys = list(map(kind.key, messages))
        if None in keys:
            if not layout.from_source:
                bare = messages[keys.index(None)]
                raise DeserializationError(
                    f"a record without a key: is {layout.topic} the changelog of {layout.store}?",
                    topic=bare.topic(), partition=bare.partition(), offset=bare.offset(), store=layout.store,
                )  # fmt: skip
            messages = [message for message in messages if message.key() is not None]
            keys = list(map(kind.key, messages))
        stamps: Sequence[int] = [ms for _, ms in map(kind.timestamp, messages)]
        headers: Sequence[Any] | None = list(map(kind.headers, messages)) if layout.headers else None
        if ZERO_SENT in stamps and not layout.from_source:
            stamps, found = as_written(stamps, map(kind.headers, messages) if headers is None else headers)
            headers = None if headers is None else found
        return keys, list(map(kind.value, messages)), stamps, list(map(kind.offset, messages)), headers

    def _latest_entries(self, whole: WholeRange, folder: TaskFolder, base: SnapshotRows | None) -> Iterator[Entries]:
        layout, stream_time, repeats = self.layout, -1, Repeats()
        rows = LatestByKey(folder, self.memory_bytes)
        records: Iterator[Records]
        if base is None:
            records = map(self._records, whole.read(lambda: rows.has_repeats, rows.holds))
        else:  # whose keys are not evidence of what a compaction has done to the records after it
            behind = replace(whole, wanted=whole.wanted._replace(start=base.following))
            log = map(repeats.seen, map(self._records, behind.read(lambda: repeats.found, None)))
            records = chain(map(self._of_base, base.records(folder)), log)
        try:
            for batch in records:
                stream_time = max(stream_time, layout.stream_time(batch[0], batch[2]))
                rows.add(*batch)
            for chunk in rows.chunks():
                entries = layout.split_keys(_entries(chunk), _places(layout, whole.wanted.partition, chunk))
                if not self.expired:
                    entries = layout.without_expired(entries, stream_time)
                if len(entries):
                    yield entries
        finally:
            rows.close()

    def _of_base(self, records: Records) -> Records:
        keys, values, stamps, offsets, headers = records
        return keys, values, stamps, offsets, headers if self.layout.headers else None


class Repeats:
    """Checks whether a key occurs twice in records that follow each other closely."""

    def __init__(self) -> None:
        self.found = False

    def seen(self, records: Records) -> Records:
        """Returns the records as they are."""
        self.found = self.found or len(set(records[0])) < len(records[0])
        return records


def _entries(chunk: list[Row]) -> Entries:
    keys, values, timestamps, offsets, headers = zip(*chunk, strict=True)
    return Entries(keys, values, timestamps, offsets, headers)


def _places(layout: TableLayout, partition: int, chunk: list[Row]) -> Callable[[int], Mapping[str, Any]]:
    return lambda number: {
        "topic": layout.topic, "partition": partition, "offset": chunk[number][3], "store": layout.store,
    }  # fmt: skip


class TableSource(DataSource):
    """The format ``streams_table``.

    Options besides the application's settings: ``topology`` as ``module:function``, ``store``; ``raw``; ``versions``;
    ``expired_windows``; ``offsets``, the text of pinned offsets; ``as_of`` in ms; ``memory_bytes``. Without ``offsets``
    and ``as_of`` each action reads up to the end that the changelog has then.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return self._plan().layout.schema

    def reader(self, schema: Any) -> RangesReader:
        return RangesReader(self._plan())

    def _plan(self) -> TablePlan:
        given = dict(self.options)
        if PLAN in given:
            plan: TablePlan = unpacked(given[PLAN])
            return plan
        from streams.spark.rows.store_layouts import load_topology, table_layout
        from streams.spark.sources.offsets import pin_offsets, settings_of

        own, config = settings_of(given, FORMAT, required=("topology", "store"), known=_OPTIONS)
        if "application.id" not in given and "application_id" not in given:
            raise SparkBridgeError(f"the format {FORMAT} needs the option 'application.id', the application's id")
        topology = load_topology(own["topology"], config)
        layout = table_layout(config, topology, own["store"], raw=own.get("raw", "false").lower() == "true")
        as_of: AsOf | None = None
        if "as_of" in own:
            from streams.spark.sources.as_of import as_of_ranges
            from streams.spark.sources.topic_source import place_of

            check_as_of(own.get("offsets"), own.get("versions", LATEST), layout.store)
            as_of = as_of_ranges(config, topology, layout, place_of(own["as_of"]))
            offsets = as_of.offsets
        elif "offsets" in own:
            offsets = OffsetRanges.from_json(own["offsets"]).of(layout.topic)
        else:
            offsets = pin_offsets(config, layout.topic)
        return table_plan(
            config, layout, offsets, versions=own.get("versions", LATEST),
            expired=own.get("expired_windows", "false").lower() == "true",
            memory_bytes=int(own.get("memory_bytes", MEMORY_BYTES)), is_pinned="offsets" in own, as_of=as_of,
        )  # fmt: skip


_OPTIONS = frozenset({"topology", "store", "raw", "versions", "expired_windows", "offsets", "as_of", "memory_bytes"})


def check_as_of(offsets: object, versions: str, store: str) -> None:
    """Makes sure that a table as of a time is asked for with nothing that means another time.

    :raises SparkBridgeError: if it is.
    """
    if offsets is not None:
        raise SparkBridgeError("give offsets, or as_of, not both", store=store)
    if versions != LATEST:
        raise SparkBridgeError("as_of gives the versions of a time: leave out versions, or as_of", store=store)


def table_plan(
    config: StreamsConfig,
    layout: TableLayout,
    offsets: OffsetRanges,
    *,
    versions: str = LATEST,
    expired: bool = False,
    memory_bytes: int = MEMORY_BYTES,
    is_pinned: bool = True,
    as_of: AsOf | None = None,
) -> TablePlan:
    """Returns the plan to read a store's table.

    :raises SparkBridgeError: if an option cannot have its value.
    """
    from streams.spark.sources.offsets import consumer_settings

    if versions not in (LATEST, ALL):
        raise SparkBridgeError(f"versions is {LATEST!r} or {ALL!r}, not {versions!r}", store=layout.store)
    if memory_bytes < 1:
        raise SparkBridgeError(f"memory_bytes is a positive number, not {memory_bytes}", store=layout.store)
    plan = TablePlan(
        consumer_settings(config, offsets.isolation),
        offsets.ranges,
        layout,
        all_versions=versions == ALL,
        expired=expired,
        memory_bytes=memory_bytes,
        is_pinned=is_pinned,
    )
    if as_of is None:
        return plan
    from streams.spark.sources.as_of import WAYS

    return replace(
        plan, is_pinned=as_of.time_ms is None, instead=WAYS, needs_all=as_of.needs_all, as_of_ms=as_of.time_ms,
        snapshots=as_of.snapshots,
    )  # fmt: skip
