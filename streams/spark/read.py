"""Functions that return topics and tables of Kafka as DataFrames."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from processor_api.serde import Serde
from streams.spark.errors import SparkBridgeError
from streams.spark.offsets import ClusterConfig, OffsetRanges, Place, check_ranges, cluster_settings, pin_offsets
from streams.spark.registration import register
from streams.spark.shipping import PLAN, packed
from streams.spark.topic_source import FORMAT as TOPIC_FORMAT
from streams.spark.topic_source import plan_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["offsets_of", "read_topic"]


def read_topic(
    spark: SparkSession,
    config: ClusterConfig,
    topic: str,
    *,
    offsets: OffsetRanges | None = None,
    start: Place = "earliest",
    end: Place = "latest",
    partitions: Collection[int] | None = None,
    key: Serde[Any] | None = None,
    value: Serde[Any] | None = None,
    headers: bool = False,
    times: str = "timestamp",
    max_rows_per_task: int | None = None,
) -> DataFrame:
    """Returns the records of a topic: ``topic``, ``partition``, ``offset``, ``timestamp``, ``timestamp_type``, ``key``,
    ``value``, and ``headers`` if wanted.

    The offsets are resolved here, once: every action on the DataFrame reads the same records, without those of aborted
    transactions. One task reads one partition. Without serdes keys and values are bytes. Null keys, values and missing
    timestamps are null, and empty bytes stay empty.

    :param offsets: pinned before (:func:`pin_offsets`), in place of ``start``, ``end`` and ``partitions``.
    :param times: ``"ms"`` gives timestamps as integers, which may be out of the range of Spark's timestamps.
    :param max_rows_per_task: cuts partitions into pieces of at most so many offsets, for more tasks.
    :raises OffsetRangeLost: if pinned records are not in the topic any more.
    :raises UnknownPartitionCount: if the topic does not exist.
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
        settings, topic, offsets, key, value, headers=headers, times=times, max_rows_per_task=max_rows_per_task
    )
    return remember(spark.read.format(TOPIC_FORMAT).option(PLAN, packed(plan)).load(), offsets)


def remember(df: DataFrame, offsets: OffsetRanges) -> DataFrame:
    """Returns the DataFrame, which knows its offsets from now on (:func:`offsets_of`)."""
    df._streams_offsets = offsets  # type: ignore[attr-defined, operator, unused-ignore]
    return df


def offsets_of(df: DataFrame) -> OffsetRanges:
    """Returns the offsets that a DataFrame of `read_topic` or `read_table` was pinned to.

    :raises SparkBridgeError: if it is another one; also one that was made of such a DataFrame.
    """
    found = df.__dict__.get("_streams_offsets")
    if not isinstance(found, OffsetRanges):
        raise SparkBridgeError(
            "only a DataFrame as read_topic or read_table returned it knows its offsets: ask before it is filtered or"
            " selected from, or pin the offsets yourself by pin_offsets"
        )
    return found
