"""Functions that return topics and tables of Kafka as DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from processor_api.topology.function import TopologyLike
from processor_api.user_code.durations import Timestamp
from processor_api.user_code.given_serdes import SerdeLike
from state.write_buffer.changelog_form import ChangelogForm
from streams.config import StreamsConfig
from streams.spark.errors import PositionError, SparkBridgeError
from streams.spark.position import Position
from streams.spark.rows.compaction import MEMORY_BYTES
from streams.spark.rows.shipping import PLAN, packed
from streams.spark.rows.store_layouts import load_topology, table_layout
from streams.spark.sources.as_of import as_of_ranges
from streams.spark.sources.offsets import ClusterConfig, Place, check_ranges, cluster_settings, pin_offsets
from streams.spark.sources.ranges import OffsetRanges
from streams.spark.sources.table_source import FORMAT as TABLE_FORMAT
from streams.spark.sources.table_source import check_as_of, table_plan
from streams.spark.sources.topic_plan import plan_of
from streams.spark.sources.topic_source import FORMAT as TOPIC_FORMAT
from streams.spark.tables.input_position import of_topics, with_position
from streams.spark.tables.known import known_of, remember
from streams.spark.tables.registration import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_topic(
    spark: SparkSession,
    config: ClusterConfig,
    topic: str,
    *,
    offsets: OffsetRanges | None = None,
    start: Place = "earliest",
    end: Place = "latest",
    partitions: Collection[int] | None = None,
    key: SerdeLike[Any] | None = None,
    value: SerdeLike[Any] | None = None,
    structs: bool = False,
    headers: bool = False,
    times: str = "timestamp",
    max_rows_per_task: int | None = None,
) -> DataFrame:
    """Returns the records of a topic: ``topic``, ``partition``, ``offset``, ``timestamp``, ``timestamp_type``, ``key``,
    ``value``, and ``headers`` if wanted.

    The offsets are resolved here, once: every action on the DataFrame reads the same records, without those of aborted
    transactions. One task reads one partition. Without serdes keys and values are bytes. Null keys, values and missing
    timestamps are null, and empty bytes stay empty.

    :param offsets: pinned before (:func:`pin_offsets`), instead of ``start``, ``end`` and ``partitions``.
    :param key: reads the keys: a serde, its name, or a model.
    :param structs: gives objects of a serde with a JSON Schema, such as a model's, as structs rather than JSON text.
    :param times: ``"ms"`` gives timestamps as integers, which may be out of the range of Spark's timestamps.
    :param max_rows_per_task: cuts partitions into pieces of at most this many offsets, for more tasks.
    :raises OffsetRangeLost: if pinned records are no longer in the topic.
    :raises UnknownPartitionCount: if the topic does not exist.
    :raises SparkBridgeError: if objects cannot be structs.
    :raises DeserializationError: in the task, with topic, partition and offset, if a serde cannot read a record.
    """
    register(spark)
    settings = cluster_settings(config)
    if offsets is None:
        offsets = pin_offsets(settings, topic, start=start, end=end, partitions=partitions)
    elif start != "earliest" or end != "latest" or partitions is not None:
        raise SparkBridgeError("give offsets, or start, end and partitions, not both", topic=topic)
    else:
        offsets = offsets.of(topic)
        check_ranges(settings, offsets)
    plan = plan_of(
        settings, topic, offsets, key, value, headers=headers, times=times, max_rows_per_task=max_rows_per_task,
        structs=structs,
    )  # fmt: skip
    df = spark.read.format(TOPIC_FORMAT).option(PLAN, packed(plan)).load()
    return remember(df, offsets, partial(of_topics, settings.application_id, offsets))


def read_table(
    spark: SparkSession,
    config: ClusterConfig,
    topology: TopologyLike | str,
    store: str,
    *,
    application_id: str | None = None,
    offsets: OffsetRanges | None = None,
    as_of: Timestamp | None = None,
    raw: bool = False,
    structs: bool = False,
    versions: str = "latest",
    expired_windows: bool = False,
    memory_bytes: int = MEMORY_BYTES,
) -> DataFrame:
    """Returns the table that a store of an application holds, read from its changelog: the live one, as of now.

    The columns are ``partition``, ``key``, those of the kind, ``value``, ``timestamp``, ``headers`` where the store
    keeps them, and ``changelog_offset``. Windows and sessions have ``window_start`` and ``window_end`` (with duplicates
    also ``sequence``); versioned stores have ``valid_from`` and ``valid_to`` instead of ``timestamp`` and
    ``changelog_offset``. Deleted keys are left out. Nothing is asked of the application, which may run or not; each
    task reads one partition and holds at most ``memory_bytes``, before it uses the disk.

    All actions see the table of the time at which it was made, unless a compaction has removed records of it since:
    then they see a later one, which is whole. :func:`position_of` tells which records of the inputs are in it.

    :param topology: the application's, or ``module:function``.
    :param application_id: where the configuration names no application.
    :param offsets: the table of just these offsets, pinned before (:func:`pin_offsets`), or an error.
    :param as_of: the table of a time: a datetime with a zone, or ms since 1970. Of a versioned store it has the
        versions that were valid at that time. Of others it has the changes before the first one with a later timestamp,
        from the changelog, or from a snapshot (``state.snapshot.dir``) and the changelog behind it; rows of a
        snapshot have no ``changelog_offset``, and those of plain stores no ``timestamp``.
    :param raw: keys and values as bytes.
    :param structs: keys and values as structs, as in `read_topic`.
    :param versions: ``"latest"``, or ``"all"`` that a versioned store still keeps.
    :param expired_windows: also those behind the store's retention, which the changelog may keep longer, and keys whose
        time to live is over.
    :raises UnsupportedStore: if there is no such store, or it has no changelog.
    :raises SparkBridgeError: if keys or values cannot be structs.
    :raises UnknownPartitionCount: if its changelog does not exist: the application has not run yet, or has another id.
    :raises OffsetRangeLost: if the table of ``offsets`` or ``as_of`` is no longer available; if only the task can
        determine this, in the task.
    """
    register(spark)
    settings = application_settings(config, application_id)
    made = load_topology(topology, settings)
    layout = table_layout(settings, made, store, raw=raw, structs=structs)
    is_pinned, past = offsets is not None, None
    position: Callable[[], Position] | None = None
    if as_of is not None:
        check_as_of(offsets, versions, store)
        past = as_of_ranges(settings, made, layout, as_of)
        offsets = past.offsets
    elif offsets is None:
        offsets = pin_offsets(settings, layout.topic)
        if layout.from_source:
            position = partial(of_topics, settings.application_id, offsets)
        else:
            offsets, position = with_position(settings, made, store, offsets)
    else:
        offsets = offsets.of(layout.topic)
        check_ranges(settings, offsets)
    plan = table_plan(
        settings, layout, offsets, versions=versions, expired=expired_windows, memory_bytes=memory_bytes,
        is_pinned=is_pinned, as_of=past,
    )  # fmt: skip
    shown = versions if layout.form is ChangelogForm.VERSIONS else None
    return remember(spark.read.format(TABLE_FORMAT).option(PLAN, packed(plan)).load(), offsets, position, shown)


def application_settings(config: ClusterConfig, application_id: str | None) -> StreamsConfig:
    """Returns the configuration of an application.

    :raises SparkBridgeError: if its id is not known.
    """
    if isinstance(config, StreamsConfig):
        if application_id is None:
            return config
        return config.model_copy(update={"application_id": application_id})
    given = {"bootstrap.servers": config} if isinstance(config, str) else dict(config)
    named = given.pop("application_id", given.pop("application.id", None))
    if application_id is None and named is None:
        raise SparkBridgeError("which application's store? Give application_id, or a configuration with application.id")
    return cluster_settings({**given, "application.id": application_id or named})


def offsets_of(df: DataFrame) -> OffsetRanges:
    """Returns the offsets that a DataFrame of `read_topic` or `read_table` was pinned to.

    Of a table that was read without given offsets, they are those of the time at which it was made. A task reads on
    behind them if the table of that time is no longer available.

    :raises SparkBridgeError: if it is another one; also one that was made of such a DataFrame.
    """
    found = known_of(df).offsets
    if found is None:
        raise SparkBridgeError(
            "only a DataFrame as read_topic or read_table returned it knows its offsets: ask before it is filtered or"
            " selected from, or pin the offsets yourself by pin_offsets"
        )
    return found


def position_of(df: DataFrame) -> Position:
    """Returns where a DataFrame of `read_topic` or `read_table` stands in its inputs: what of them is in it.

    Of a topic it is the end that was read. Of a table it is the offset in each input of the application up to which
    records are in the table, all of them and no others, from the commit that the table is of. The application need not
    be stopped for that.

    :raises PositionError: if it is not known; the message says why, and what to do.
    """
    found = known_of(df).position
    if found is None:
        raise PositionError(
            "only a DataFrame as read_topic returned it, or read_table without offsets, knows its position: ask before"
            " it is filtered or selected from, and read the table without pinned offsets"
        )
    return found()
