"""The rows that a stage reads, in Spark: each Kafka partition in one task, in the order of live.

A live task takes the record with the smallest timestamp among the heads of its inputs. Over inputs that are there as a
whole this is one sort: by the largest timestamp so far in the row's input, then by the input, then by the row's place
in it. The sort is a total order, so that a task which Spark runs again sees the same rows in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from streams.spark.backfill.history import History
from streams.spark.errors import OffsetGapError, PartitionMismatchError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OFFSET = "offset"
TIME = "time"


@dataclass(frozen=True)
class InputRows:
    """The rows of one topic, with the columns ``pid``, ``upstream``, ``seq``, ``ts``, ``key``, ``value`` and perhaps
    ``headers``."""

    topic: str
    rows: DataFrame
    writers: int
    """The number of tasks that wrote it; 1 for a history, whose partitions are in order."""
    in_order: bool
    """Whether ``seq`` is the order of the rows; otherwise that is their timestamps'."""
    has_headers: bool


def history_rows(topic: str, history: History, *, by_offset: bool) -> InputRows:
    """Returns the rows of a history."""
    from pyspark.sql import functions

    headers = [history.column("headers", "array<struct<key:string,value:binary>>").alias("headers")]
    rows = history.df.select(
        history.column("partition", "int").cast("int").alias("pid"),
        functions.lit(0).alias("upstream"),
        history.column("offset", "bigint").cast("bigint").alias("seq"),
        history.time_column().alias("ts"),
        history.column("key", "binary").alias("key"),
        history.column("value", "binary").alias("value"),
        *(headers if history.headers else ()),
    )
    return InputRows(topic, rows, 1, by_offset, history.headers is not None)


def first_and_last(rows: DataFrame, topic: str) -> tuple[dict[int, int], dict[int, int]]:
    """Returns the first offset of each partition of a history, and the one behind the last; runs a Spark job.

    :param rows: of the history, as :class:`InputRows` has them.
    :raises OffsetGapError: if a row has no offset.
    :raises PartitionMismatchError: if a row has no partition.
    """
    from pyspark.sql import functions

    seq = functions.col("seq")
    found = rows.groupBy("pid").agg(
        functions.min(seq).alias("first"),
        functions.max(seq).alias("last"),
        functions.sum(seq.isNull().cast("int")).alias("empty"),
    )
    begins, ends = {}, {}
    for row in found.collect():
        if row["pid"] is None:
            raise PartitionMismatchError(f"a row of the history of topic {topic!r} has no partition", topic=topic)
        if row["empty"]:
            raise OffsetGapError(f"a row of the history of topic {topic!r} has no offset", topic=topic)
        begins[row["pid"]], ends[row["pid"]] = row["first"], row["last"] + 1
    return begins, ends


def written_rows(topic: str, rows: DataFrame, writers: int) -> InputRows:
    """Returns the rows of a topic that an earlier stage wrote.

    :param rows: the records of that stage (`streams.spark.executor.rows`).
    """
    from pyspark.sql import functions

    own = rows.where(functions.col("topic") == topic).withColumnRenamed("partition", "pid").drop("topic")
    return InputRows(topic, own, writers, True, True)


def placed_rows(inputs: Sequence[InputRows], partitions: int, *, in_one_task: bool = False) -> DataFrame:
    """Returns the rows of some inputs, each partition in the task of its number, in the order of live.

    The column ``q`` has the number of the input.

    :param in_one_task: puts all partitions into one task, in the same order.
    """
    from pyspark.sql import functions

    with_headers = any(one.has_headers for one in inputs)
    frames = [_numbered(number, one, with_headers) for number, one in enumerate(inputs)]
    together = reduce(lambda first, second: first.unionByName(second), frames)
    if in_one_task:
        spread = together.repartitionById(1, functions.lit(0))
    else:
        spread = together.repartitionById(partitions, functions.col("pid"))
        if len(inputs) == 1 and inputs[0].writers == 1 and inputs[0].in_order:
            return spread.sortWithinPartitions("pid", "seq")  # pid also groups rows that are here by mistake
    ordered = _with_high_times(spread, inputs)
    order = ["high", "q", "pid", "upstream", "seq"]
    if not all(one.in_order for one in inputs):
        order += ["key", "value", *(("headers",) if with_headers else ())]
    return ordered.sortWithinPartitions(*order).drop("high")


def _numbered(number: int, one: InputRows, with_headers: bool) -> DataFrame:
    from pyspark.sql import functions

    rows = one.rows.withColumn("q", functions.lit(number))
    if with_headers and not one.has_headers:
        rows = rows.withColumn("headers", functions.lit(None).cast("array<struct<key:string,value:binary>>"))
    return rows


def _with_high_times(rows: DataFrame, inputs: Sequence[InputRows]) -> DataFrame:
    """Adds the largest timestamp so far of each row's input; where rows are in the order of time it is their own."""
    from pyspark.sql import Window, functions

    high: Column = functions.col("ts")
    ordered = [number for number, one in enumerate(inputs) if one.in_order]
    if ordered:
        so_far = (
            Window.partitionBy("pid", "q", "upstream")
            .orderBy("seq")
            .rowsBetween(Window.unboundedPreceding, Window.currentRow)
        )
        high = functions.when(functions.col("q").isin(ordered), functions.max("ts").over(so_far)).otherwise(
            functions.col("ts")
        )
    return rows.withColumn("high", high)


def order_by_time(history: History, order: str) -> bool:
    """Whether the rows of a history are processed in the order of their timestamps.

    :param order: ``"offset"``, ``"time"``, or ``"auto"``: by offset where the history has offsets.
    """
    return order == TIME or (order != OFFSET and history.offset is None)
