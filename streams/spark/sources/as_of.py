"""Tables as of a time: where their records begin and end, and what must not have been removed from between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from processor_api.clock import SystemClock
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.suppliers import ROCKSDB
from processor_api.task_id import TaskId
from processor_api.topology.topology import Topology
from processor_api.user_code.durations import Timestamp
from state.registry.kinds import kind_of
from state.write_buffer.changelog_form import ChangelogForm
from streams.app.topics import TopicFitter
from streams.config import StreamsConfig, clients
from streams.kafka.confluent.clients import ConfluentClients
from streams.runtime.plan.task_plan import TaskPlan, plan_tasks
from streams.snapshots.cloud import open_objects
from streams.snapshots.listing import list_snapshots
from streams.snapshots.manifest import folder_of
from streams.spark.errors import OffsetRangeLost
from streams.spark.rows.snapshot_rows import SnapshotRows
from streams.spark.rows.table_layout import TableLayout
from streams.spark.sources.offsets import ms_of, pin_offsets
from streams.spark.sources.ranges import OffsetRanges

CLOCKS_MS = 60_000
"""Clocks of machines may differ by so much."""
CLIENT = "streams-spark"
WAYS = (
    "Ways to have tables of the past: a versioned store, which is read as of any time within its history; snapshots"
    " (state.snapshot.dir), of which one from before the time must still be there; a min.compaction.lag.ms of the"
    " changelog that is longer than you look back; or a copy, kept when the table was read"
)


@dataclass(frozen=True)
class AsOf:
    """The ranges that make a table as of a time.

    :param offsets: of a versioned store, all records, otherwise the records up to the time.
    :param time_ms: the time, of a versioned store; its rows are chosen by that.
    :param needs_all: whether no record may have been removed by a compaction.
    :param snapshots: those from before the time, by partition.
    """

    offsets: OffsetRanges
    time_ms: int | None = None
    needs_all: bool = False
    snapshots: Mapping[int, SnapshotRows] = field(default_factory=dict)


def as_of_ranges(config: StreamsConfig, topology: Topology, layout: TableLayout, given: Timestamp) -> AsOf:
    """Returns what to read for a table as of a time, all changes with this timestamp included.

    :raises NaiveTimestampError: if the time has no zone.
    :raises TimestampRangeError: if it is an integer that seems to be in another unit than ms.
    :raises OffsetRangeLost: if the first records of the changelog were deleted, and no snapshot has them.
    """
    time_ms = ms_of(given, "as_of")
    if layout.form is ChangelogForm.VERSIONS:
        offsets = pin_offsets(config, layout.topic)
        return AsOf(offsets, time_ms, time_ms < _uncompacted_since(config, layout.topic))
    offsets = pin_offsets(config, layout.topic, end=time_ms + 1)
    snapshots = {} if layout.from_source else snapshots_of(config, topology, layout, offsets, time_ms)
    for one in offsets.ranges:
        if one.start > 0 and one.partition not in snapshots:
            raise OffsetRangeLost(
                f"the records of {one.topic}-{one.partition} before offset {one.start} were deleted, and with them rows"
                f" of the table as of this time. {WAYS}",
                topic=one.topic, partition=one.partition, offset=one.start,
            )  # fmt: skip
    # A record that is gone may have been the first one with a later timestamp; there is none later than now.
    return AsOf(offsets, needs_all=time_ms < SystemClock().time_ms(), snapshots=snapshots)


def _uncompacted_since(config: StreamsConfig, topic: str) -> int:
    """Returns the time from which on a compaction has left all versions.

    What a compaction removes, and what it removes it for, are older than the lag. So a version that is gone had ended
    before that.
    """
    admin = ConfluentClients().admin(clients.admin(config, CLIENT))
    found = admin.topic_settings([topic]).get(topic, {})
    lag_ms = int(found.get("min.compaction.lag.ms", 0))
    return SystemClock().time_ms() - lag_ms + CLOCKS_MS


def plans_of(config: StreamsConfig, topology: Topology) -> list[TaskPlan]:
    """Returns the plans of the tasks of an application, for the topics that exist."""
    admin = ConfluentClients().admin(clients.admin(config, CLIENT))
    settings = config.dotted()
    fitter = TopicFitter(topology, config, settings, admin)
    return list(plan_tasks(topology, settings, fitter.readable(fitter.existing())))


def snapshots_of(
    config: StreamsConfig, topology: Topology, layout: TableLayout, offsets: OffsetRanges, time_ms: int
) -> dict[int, SnapshotRows]:
    """Returns the last snapshot of each partition of a store that was made before a time, and ends within its
    range; those of stores in memory, or of a kind whose rows are not records, are skipped.

    What was processed before that time has no later timestamp. The end alone does not say it: a record with a later
    timestamp may be in the snapshot, but no longer in the changelog.
    """
    place, builder = config.state_snapshot_dir, topology.stores.get(layout.store)
    if place is None or builder is None or builder.supplier.engine != ROCKSDB or kind_of(builder).as_records is None:
        return {}
    number = next((plan.subtopology for plan in plans_of(config, topology) if layout.store in plan.stores), None)
    if number is None:
        return {}
    objects = open_objects(place)
    bare: StoreBuilder[Any, Any] = StoreBuilder(supplier=builder.supplier, time_to_live=builder.time_to_live)
    found: dict[int, SnapshotRows] = {}
    for one in offsets.ranges:
        task = str(TaskId(number, one.partition))
        for listed in list_snapshots(objects, folder_of(config.application_id, task)):
            made = listed.snapshot
            store = None if made is None else made.stores.get(layout.store)
            if made is None or store is None or store.topic_id != offsets.topic_ids.get(layout.topic):
                continue
            following = 0 if store.offset is None else store.offset + 1
            best = found.get(one.partition)
            if (
                made.made_ms <= time_ms
                and one.start <= following <= one.end
                and (best is None or following > best.following)
            ):
                found[one.partition] = SnapshotRows(
                    following, time_ms, place, config.application_id, task, listed.name, made.files, bare
                )
    return found
